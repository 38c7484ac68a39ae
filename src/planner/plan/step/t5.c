/*
 * Encoders with decoders.  T5's scores get a bias by distance, in full; lines follow Transformers 5.17's modeling_t5.py.
 * BART and those built like it have learned positions in its place, layer norms before or behind, and add nothing.
 */
#include "plan/step/build.h"

static const struct model_numbers *numbers(const struct builder *b)
{
	return &b->m->towers[b->tower];
}

/* T5LayerNorm: the input stays in its dtype, the product is in fp32 and is cast back. */
static struct value norm(struct builder *b, uint32_t block, enum model_role role, struct value x)
{
	struct tape *t = &b->t;
	struct value weight = build_param(b, b->tower, block, role, MODEL_WEIGHT);
	struct value f, variance, e, h, y;

	if (numbers(b)->norm == MODEL_LAYER_NORM)
		return build_norm(b, b->tower, block, role, x);
	f = op_cast(t, x, TAPE_F32);
	h = op_apply(t, OP_POW, f);
	tape_drop(t, &f);
	variance = op_mean(t, h, x.n / numbers(b)->hidden);
	tape_drop(t, &h);
	e = op_apply(t, OP_SHIFT, variance);
	tape_set(t, &e, op_apply(t, OP_RSQRT, e));
	h = op_mul(t, x, e);
	tape_drop(t, &e);
	tape_drop(t, &variance);
	if (weight.dtype != TAPE_F32)
		tape_set(t, &h, op_cast(t, h, weight.dtype));
	y = op_mul(t, weight, h);
	tape_drop(t, &h);
	return y;
}

static bool has_distances(const struct builder *b)
{
	return numbers(b)->position == MODEL_POSITION_BIAS;
}

/* compute_bias: a number a head and pair of tokens, and what is masked. */
static struct value make_bias(struct builder *b, uint64_t queries, uint64_t keys)
{
	struct tape *t = &b->t;
	struct value table = build_param(b, b->tower, 0, MODEL_ROLE_BIAS, MODEL_WEIGHT);
	struct value buckets = tape_new(t, queries * keys, TAPE_I64, TIMELINE_TEMPORARY), mask, y;

	y = op_embedding(t, buckets, table, numbers(b)->heads, 0);
	tape_drop(t, &buckets);
	mask = tape_new(t, b->batch * queries * keys, y.dtype, TIMELINE_TEMPORARY);
	tape_set(t, &y, op_add_across(t, y, mask, b->batch * y.n));
	tape_drop(t, &mask);
	return y;
}

/* The scores in full, as attn_implementation="eager" has them. */
static struct value eager(struct builder *b, const struct value p[3], const struct attention *a,
			  struct value bias)
{
	struct tape *t = &b->t;
	uint64_t batch = a->batch * a->heads;
	unsigned both = MATMUL_COPIES_A | MATMUL_COPIES_B;
	struct value s = op_matmul(
		t, p[0], p[1], (struct matmul){ batch, a->queries, a->head_dim, a->keys, both });
	struct value w, y;

	if (bias.store != TAPE_NONE)
		tape_set(t, &s, op_add_inplace(t, s, bias));
	w = op_cast(t, s, TAPE_F32);
	tape_set(t, &w, op_softmax(t, w, TAPE_F32));
	tape_set(t, &w, op_cast(t, w, s.dtype));
	tape_drop(t, &s);
	tape_set(t, &w, op_dropout(t, w, a->dropout));
	y = op_matmul(t, w, p[2],
		      (struct matmul){ batch, a->queries, a->keys, a->head_dim, MATMUL_COPIES_B });
	tape_drop(t, &w);
	tape_set(t, &y, op_contiguous(t, y));
	return y;
}

/* A bias that takes a gradient keeps scaled_dot_product_attention from its fused kernels; across, there is none. */
static struct value attend(struct builder *b, uint32_t block, const enum model_role role[4],
			   struct value x, struct value from, struct value bias)
{
	const struct model_numbers *n = numbers(b);
	struct tape *t = &b->t;
	struct attention a = { .batch = b->batch,
			       .heads = n->heads,
			       .kv_heads = n->heads,
			       .queries = x.n / n->hidden / b->batch,
			       .keys = from.n / n->hidden / b->batch,
			       .head_dim = n->head_dim,
			       .dropout = n->attention_dropout };
	struct value p[3], y;

	p[0] = build_linear(b, b->tower, block, role[0], x);
	for (unsigned i = 1; i < 3; i++)
		p[i] = build_linear(b, b->tower, block, role[i], from);
	if (b->r->attention == PLAN_EAGER) {
		y = eager(b, p, &a, bias);
	} else if (bias.grad) {
		y = build_unfused(b, p[0], p[1], p[2], &a, bias);
	} else {
		a.kernel = p[0].dtype == TAPE_F32 ? OP_EFFICIENT : OP_CUDNN;
		y = op_attention(t, p[0], p[1], p[2], &a);
	}
	tape_set(t, &y, build_linear(b, b->tower, block, role[3], y));
	for (unsigned i = 0; i < 3; i++)
		tape_drop(t, &p[i]);
	return y;
}

/* x + dropout(h); h is taken */
static struct value put_out(struct builder *b, struct value x, struct value h)
{
	struct tape *t = &b->t;
	struct value y;

	tape_set(t, &h, op_dropout(t, h, numbers(b)->hidden_dropout));
	y = op_add(t, x, h);
	tape_drop(t, &h);
	return y;
}

static struct value feed(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	int gated = build_has(b, b->tower, block, MODEL_ROLE_GATE);
	struct value h = build_linear(b, b->tower, block, gated ? MODEL_ROLE_GATE : MODEL_ROLE_UP,
				      x),
		     up;

	tape_set(t, &h, build_activation(b, b->tower, h));
	if (gated) {
		up = build_linear(b, b->tower, block, MODEL_ROLE_UP, x);
		tape_set(t, &h, op_mul(t, h, up));
		tape_drop(t, &up);
	}
	tape_set(t, &h, op_dropout(t, h, numbers(b)->hidden_dropout));
	if (has_distances(b)) /* to the dtype of wo's weight, which autocast undoes */
		tape_set(t, &h, op_cast(t, h, b->weights));
	tape_set(t, &h, build_linear(b, b->tower, block, MODEL_ROLE_DOWN, h));
	return h;
}

static const enum model_role own[4] = { MODEL_ROLE_Q, MODEL_ROLE_K, MODEL_ROLE_V, MODEL_ROLE_O };
static const enum model_role cross[4] = { MODEL_ROLE_CROSS_Q, MODEL_ROLE_CROSS_K,
					  MODEL_ROLE_CROSS_V, MODEL_ROLE_CROSS_O };

/* x + dropout(h), normed; both are taken */
static struct value put_behind(struct builder *b, uint32_t block, enum model_role role,
			       struct value x, struct value h)
{
	struct value y = put_out(b, x, h);

	tape_drop(&b->t, &x);
	tape_set(&b->t, &y, norm(b, block, role, y));
	return y;
}

static struct value block_normed_behind(struct builder *b, uint32_t block, struct value x)
{
	struct value none = tape_param(&b->t, TAPE_NONE), y;

	y = put_behind(b, block, MODEL_ROLE_NORM1, tape_keep(&b->t, x),
		       attend(b, block, own, x, x, none));
	if (b->tower == MODEL_TEXT)
		y = put_behind(b, block, MODEL_ROLE_CROSS_NORM, y,
			       attend(b, block, cross, y, b->encoded, none));
	return put_behind(b, block, MODEL_ROLE_NORM2, y, feed(b, block, y));
}

static struct value one_block(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	struct value h, y;

	if (numbers(b)->norm_place == MODEL_NORM_AFTER)
		return block_normed_behind(b, block, x);
	h = norm(b, block, MODEL_ROLE_NORM1, x);
	tape_set(t, &h, attend(b, block, own, h, h, b->bias[b->tower]));
	y = put_out(b, x, h);
	if (b->tower == MODEL_TEXT) {
		h = norm(b, block, MODEL_ROLE_CROSS_NORM, y);
		tape_set(t, &h, attend(b, block, cross, h, b->encoded, b->cross_bias));
		tape_set(t, &y, put_out(b, y, h));
	}
	h = norm(b, block, MODEL_ROLE_NORM2, y);
	tape_set(t, &h, feed(b, block, h));
	tape_set(t, &y, put_out(b, y, h));
	return y;
}

static struct value encoder_block(void *self, uint32_t block, struct value x)
{
	struct builder *b = self;

	b->tower = MODEL_ENCODER;
	return one_block(b, block, x);
}

static struct value decoder_block(void *self, uint32_t block, struct value x)
{
	struct builder *b = self;

	b->tower = MODEL_TEXT;
	return one_block(b, block, x);
}

/* With positions added, and normed where there is a norm for it; x is borrowed. */
static struct value t5_place(struct builder *b, struct value x, uint64_t tokens)
{
	struct tape *t = &b->t;
	struct value ids, where, y = tape_keep(t, x);

	if (build_has(b, b->tower, MODEL_NONE, MODEL_ROLE_POSITIONS)) {
		ids = tape_new(t, tokens, TAPE_I64, TIMELINE_TEMPORARY);
		where = op_embedding(
			t, ids,
			build_param(b, b->tower, MODEL_NONE, MODEL_ROLE_POSITIONS, MODEL_WEIGHT),
			numbers(b)->hidden, 0);
		tape_set(t, &y, op_add(t, x, where));
		tape_drop(t, &where);
		tape_drop(t, &ids);
	}
	if (build_has(b, b->tower, MODEL_NONE, MODEL_ROLE_EMBED_NORM))
		tape_set(t, &y, build_norm(b, b->tower, MODEL_NONE, MODEL_ROLE_EMBED_NORM, y));
	return y;
}

/* A stack from ids to normed states. */
static struct value stack(struct builder *b, enum model_tower tower, struct value ids)
{
	struct tape *t = &b->t;
	const struct model_numbers *n = &b->m->towers[tower];
	enum model_tower home =
		build_has(b, tower, MODEL_NONE, MODEL_ROLE_EMBED) ? tower : MODEL_ENCODER;
	struct value table = build_param(b, home, MODEL_NONE, MODEL_ROLE_EMBED, MODEL_WEIGHT);
	struct value first = op_embedding(t, ids, table, n->hidden, 0), x;
	uint64_t tokens = ids.n / b->batch;

	b->tower = tower;
	b->bias[tower] = has_distances(b) ? make_bias(b, tokens, tokens) : tape_param(t, TAPE_NONE);
	if (!has_distances(b))
		tape_set(t, &first, t5_place(b, first, tokens));
	x = op_dropout(t, first, n->hidden_dropout);
	x = build_blocks(b, tower, tower == MODEL_TEXT ? decoder_block : encoder_block, x);
	b->tower = tower;
	if (build_has(b, tower, MODEL_NONE, MODEL_ROLE_FINAL_NORM))
		tape_set(t, &x, norm(b, MODEL_NONE, MODEL_ROLE_FINAL_NORM, x));
	if (has_distances(b))
		tape_set(t, &x, op_dropout(t, x, n->hidden_dropout));
	tape_drop(t, &first);
	if (!t->regions.n)
		tape_drop(t, &b->bias[tower]);
	return x;
}

struct value build_t5(struct builder *b, struct value ids, struct value labels,
		      struct value *logits)
{
	struct tape *t = &b->t;
	struct value shifted, x, loss;

	b->encoded = stack(b, MODEL_ENCODER, ids);
	shifted = tape_new(t, labels.n, TAPE_I64, TIMELINE_TEMPORARY);
	b->cross_bias = has_distances(b) ? tape_new(t, labels.n * (ids.n / b->batch),
						    b->encoded.dtype, TIMELINE_TEMPORARY)
					 : tape_param(t, TAPE_NONE);
	x = stack(b, MODEL_TEXT, shifted);
	if (b->m->towers[MODEL_TEXT].tied && has_distances(b))
		tape_set(t, &x, op_apply(t, OP_SCALE, x));
	*logits = build_linear(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD, x);
	loss = op_cross_entropy(t, *logits, labels, labels.n);
	tape_drop(t, &shifted);
	tape_drop(t, &x);
	if (!t->regions.n)
		build_forget_shared(b);
	return loss;
}
