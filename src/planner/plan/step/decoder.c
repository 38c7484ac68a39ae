/* Decoders: GPT-2, and Llama with those that came of it.  Lines follow Transformers 5.17's modelling files. */
#include "plan/step/build.h"

/* cos and sin of all positions, once a forward pass. */
static void rotary(struct builder *b, enum tape_dtype dtype, struct value *cosine,
		   struct value *sine)
{
	const struct model_numbers *n = &b->m->towers[MODEL_TEXT];
	struct tape *t = &b->t;
	/* with images in it each sample has positions of its own, as generate() gives them */
	int apart = b->generating || b->pixels.store != TAPE_NONE;
	uint64_t size = b->sequence * n->head_dim * (apart ? b->batch : 1);
	int grad = t->grad;
	struct value positions, angles, both, c;

	t->grad = 0;
	positions = tape_new(t, b->sequence, TAPE_F32, TIMELINE_TEMPORARY);
	angles = tape_new(t, size / 2, TAPE_F32, TIMELINE_TEMPORARY);
	tape_blas(t, 0);
	both = tape_new(t, size, TAPE_F32, TIMELINE_TEMPORARY);
	for (unsigned i = 0; i < 2; i++) {
		c = op_apply(t, OP_SCALE, both);
		tape_set(t, &c, op_apply(t, OP_SCALE, c));
		tape_set(t, &c, op_cast(t, c, dtype));
		*(i ? sine : cosine) = c;
	}
	tape_drop(t, &positions);
	tape_drop(t, &angles);
	tape_drop(t, &both);
	t->grad = (uint8_t)grad;
}

/*
 * Latent attention: queries, and keys and values with the part of RoPE, go through ranks; keys of all heads are then joined
 * with the turned part, which they share (modeling_deepseek_v3.py).  No run of it was measured.
 */
static void project_latent(struct builder *b, uint32_t block, struct value x, struct value out[3])
{
	const struct model_numbers *n = &b->m->towers[MODEL_TEXT];
	uint64_t tokens = b->batch * b->sequence;
	struct tape *t = &b->t;
	struct value low = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_Q_A, x), part[3], both;

	tape_set(t, &low, build_norm(b, MODEL_TEXT, block, MODEL_ROLE_Q_A_NORM, low));
	out[0] = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_Q, low);
	tape_drop(t, &low);
	both = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_KV_A, x);
	op_split(t, both, (uint64_t[3]){ tokens * n->kv_rank, tokens * n->rope_dim, 0 }, part);
	tape_drop(t, &both);
	low = build_norm(b, MODEL_TEXT, block, MODEL_ROLE_KV_A_NORM, part[0]);
	both = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_KV_B, low);
	tape_drop(t, &low);
	for (unsigned i = 0; i < 3; i++)
		tape_drop(t, &part[i]);
	op_split(t, both,
		 (uint64_t[3]){ tokens * n->heads * n->nope_dim, tokens * n->heads * n->value_dim,
				0 },
		 part);
	tape_drop(t, &both);
	out[1] = op_add_across(t, part[0], part[0], tokens * n->heads * n->head_dim);
	out[2] = tape_keep(t, part[1]);
	for (unsigned i = 0; i < 3; i++)
		tape_drop(t, &part[i]);
}

static void project(struct builder *b, uint32_t block, struct value x, struct value out[3])
{
	static const enum model_role role[3] = { MODEL_ROLE_Q, MODEL_ROLE_K, MODEL_ROLE_V };
	static const enum model_role norm[3] = { MODEL_ROLE_Q_NORM, MODEL_ROLE_K_NORM };
	struct model_sizes s = model_sizes_of(b->m, MODEL_TEXT, block);
	struct tape *t = &b->t;

	if (b->m->towers[MODEL_TEXT].kv_rank) {
		project_latent(b, block, x, out);
		return;
	}
	if (build_has(b, MODEL_TEXT, block, MODEL_ROLE_QKV)) {
		uint64_t q = b->batch * b->sequence * s.heads * s.head_dim;
		uint64_t kv = b->batch * b->sequence * s.kv_heads * s.head_dim;
		struct value all = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_QKV, x);

		op_split(t, all, (uint64_t[3]){ q, kv, kv }, out);
		build_keep_projected(b, block, all);
		tape_drop(t, &all);
		return;
	}
	for (unsigned i = 0; i < 3; i++) {
		out[i] = build_linear(b, MODEL_TEXT, block, role[i], x);
		if (i < 2 && build_has(b, MODEL_TEXT, block, norm[i]))
			tape_set(t, &out[i], build_norm(b, MODEL_TEXT, block, norm[i], out[i]));
	}
}

/*
 * Phi-3 joins what RoPE turned with what it did not, which leaves head behind head; cuDNN's result lies as the queries do,
 * and is copied to token behind token.  LitGPT joins them, too, and FlashAttention's result lies as the queries do as well
 * (empty_like, flash_api.cpp of PyTorch 2.3).
 */
static int keeps_heads_apart(const struct builder *b, uint32_t block, struct value q)
{
	if (b->r->litgpt)
		return b->cos.store != TAPE_NONE && b->r->attention != PLAN_EAGER &&
		       !(b->m->towers[MODEL_TEXT].attention_softcap > 0);
	return b->cos.store != TAPE_NONE && build_has(b, MODEL_TEXT, block, MODEL_ROLE_QKV) &&
	       b->r->attention != PLAN_EAGER && b->r->device.cudnn_attention &&
	       (b->t.autocast || q.dtype != TAPE_F32);
}

/* Blocks that mix tokens in another way are counted as if they did nothing. */
static bool attends(const struct builder *b, uint32_t block)
{
	return b->m->towers[MODEL_TEXT].kv_rank || build_has(b, MODEL_TEXT, block, MODEL_ROLE_Q) ||
	       build_has(b, MODEL_TEXT, block, MODEL_ROLE_QKV);
}

static struct value attend(struct builder *b, uint32_t block, struct value x)
{
	struct model_sizes s = model_sizes_of(b->m, MODEL_TEXT, block);
	struct tape *t = &b->t;
	struct value p[3], turned[2], y;
	uint64_t keys, queries = b->batch * b->sequence * s.heads * s.head_dim;

	if (!attends(b, block))
		return tape_keep(t, x);
	project(b, block, x, p);
	if (b->m->unplanned && p[0].n > queries)
		p[0].n = queries; /* the rest are gates */
	if (b->cos.store != TAPE_NONE && b->r->liger & PLAN_LIGER_ROPE) {
		op_liger_turn(t, p, b->cos, b->sin, turned);
		tape_set(t, &p[0], turned[0]);
		tape_set(t, &p[1], turned[1]);
	} else if (b->cos.store != TAPE_NONE) {
		turned[0] = op_rotate(t, p[0], b->cos, b->sin);
		turned[1] = op_rotate(t, p[1], b->cos, b->sin);
		tape_set(t, &p[0], turned[0]);
		tape_set(t, &p[1], turned[1]);
	}
	keys = build_remember(b, block, p);
	y = build_attention(b, MODEL_TEXT, block, p[0], p[1], p[2], b->sequence, keys);
	if (b->m->towers[MODEL_TEXT]
		    .kv_rank) /* of what was padded to the width of keys, values alone go on */
		y.n = y.n / b->m->towers[MODEL_TEXT].head_dim * b->m->towers[MODEL_TEXT].value_dim;
	if (keeps_heads_apart(b, block, p[0]))
		tape_set(t, &y, op_contiguous(t, y));
	tape_set(t, &y, build_linear(b, MODEL_TEXT, block, MODEL_ROLE_O, y));
	for (unsigned i = 0; i < 3; i++)
		tape_drop(t, &p[i]);
	return y;
}

/* The second half of one product; Phi-3 has it first. */
static struct value gated(struct builder *b, struct value gate, struct value up)
{
	struct value h, y;

	if (b->r->liger & PLAN_LIGER_GATE)
		return op_liger_gate(&b->t, gate, up);
	h = build_activation(b, MODEL_TEXT, gate);
	y = op_mul(&b->t, up, h);
	tape_drop(&b->t, &h);
	return y;
}

static struct value gate_and_up(struct builder *b, uint32_t block, struct value x)
{
	struct value h = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_GATE, x), up, y;
	bool fused = b->r->liger & PLAN_LIGER_GATE;

	if (!fused)
		tape_set(&b->t, &h, build_activation(b, MODEL_TEXT, h));
	up = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_UP, x);
	y = fused ? op_liger_gate(&b->t, h, up) : op_mul(&b->t, h, up);
	tape_drop(&b->t, &h);
	tape_drop(&b->t, &up);
	return y;
}

static struct value feed(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	struct value h, up, y;

	if (build_has(b, MODEL_TEXT, block, MODEL_ROLE_EXPERTS_UP))
		return build_experts(b, block, x);
	if (build_has(b, MODEL_TEXT, block,
		      MODEL_ROLE_GATE_UP)) { /* Phi-3: one product, two halves */
		struct value all = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_GATE_UP, x),
			     part[3];

		op_split(t, all, (uint64_t[3]){ all.n / 2, all.n / 2, 0 }, part);
		tape_drop(t, &all);
		tape_drop(t, &part[2]);
		up = part[1];
		y = gated(b, part[0], up);
		tape_drop(t, &up);
		tape_drop(t, &part[0]);
	} else if (build_has(b, MODEL_TEXT, block, MODEL_ROLE_GATE)) {
		y = gate_and_up(b, block, x);
	} else if (!build_has(b, MODEL_TEXT, block, MODEL_ROLE_UP)) {
		return tape_keep(t, x);
	} else {
		h = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_UP, x);
		y = build_activation(b, MODEL_TEXT, h);
		tape_drop(t, &h);
	}
	tape_set(t, &y, build_linear(b, MODEL_TEXT, block, MODEL_ROLE_DOWN, y));
	return y;
}

/* GPT-NeoX, Phi and Falcon: attention and MLP read the same states, through a norm each or one norm. */
static struct value parallel_block(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	double p = b->m->towers[MODEL_TEXT].hidden_dropout;
	struct value h = build_norm(b, MODEL_TEXT, block, MODEL_ROLE_NORM1, x), a, f, y;

	a = attend(b, block, h);
	tape_set(t, &a, op_dropout(t, a, p));
	if (build_has(b, MODEL_TEXT, block, MODEL_ROLE_NORM2))
		tape_set(t, &h, build_norm(b, MODEL_TEXT, block, MODEL_ROLE_NORM2, x));
	f = feed(b, block, h);
	tape_set(t, &f, op_dropout(t, f, p));
	tape_drop(t, &h);
	y = op_add(t, f, a);
	tape_set(t, &y, op_add(t, y, x));
	tape_drop(t, &a);
	tape_drop(t, &f);
	return y;
}

/* GPT-2: what is dropped out stays a name of the block until it returns. */
static struct value gpt2_block(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	double p = b->m->towers[MODEL_TEXT].hidden_dropout;
	struct value h = build_norm(b, MODEL_TEXT, block, MODEL_ROLE_NORM1, x), a, y, f;

	a = attend(b, block, h);
	tape_set(t, &a, op_dropout(t, a, p));
	y = op_add(t, a, x);
	tape_drop(t, &h);
	h = build_norm(b, MODEL_TEXT, block, MODEL_ROLE_NORM2, y);
	f = feed(b, block, h);
	tape_set(t, &f, op_dropout(t, f, p));
	tape_set(t, &y, op_add(t, y, f));
	tape_drop(t, &h);
	tape_drop(t, &a);
	tape_drop(t, &f);
	return y;
}

static struct value llama_block(struct builder *b, uint32_t block, struct value x)
{
	struct model_sizes s = model_sizes_of(b->m, MODEL_TEXT, block);
	struct tape *t = &b->t;
	struct value h, y = tape_keep(t, x), z;

	if (s.attends) {
		h = build_norm(b, MODEL_TEXT, block, MODEL_ROLE_NORM1, x);
		tape_set(t, &h, attend(b, block, h));
		tape_set(t, &h, build_norm(b, MODEL_TEXT, block, MODEL_ROLE_NORM1_OUT, h));
		tape_set(t, &y, op_add(t, x, h));
		tape_drop(t, &h);
	}
	if (!s.feeds)
		return y;
	h = build_norm(b, MODEL_TEXT, block, MODEL_ROLE_NORM2, y);
	tape_set(t, &h, feed(b, block, h));
	tape_set(t, &h, build_norm(b, MODEL_TEXT, block, MODEL_ROLE_NORM2_OUT, h));
	z = op_add(t, y, h);
	tape_drop(t, &h);
	tape_drop(t, &y);
	return z;
}

static struct value block_again(void *self, uint32_t block, struct value x)
{
	struct builder *b = self;

	if (b->m->towers[MODEL_TEXT].norm != MODEL_LAYER_NORM)
		return llama_block(b, block, x);
	return b->m->towers[MODEL_TEXT].parallel ? parallel_block(b, block, x)
						 : gpt2_block(b, block, x);
}

/* The logits, of the last token alone where tokens are generated. */
struct value build_head(struct builder *b, struct value x)
{
	struct tape *t = &b->t;
	struct value last = x, y;

	if (b->generating) {
		last.n = x.n / b->sequence;
		tape_hold(t, last.store);
	} else {
		tape_keep(t, x);
	}
	y = build_linear(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD, last);
	tape_drop(t, &last);
	if (b->m->towers[MODEL_TEXT].logit_softcap > 0) {
		tape_set(t, &y, op_apply(t, OP_SCALE, y));
		tape_set(t, &y, op_apply(t, OP_TANH, y));
		tape_set(t, &y, op_apply(t, OP_SCALE, y));
	}
	return y;
}

/*
 * create_causal_mask: for eager attention, where a window ends before the tokens do (one for all samples), for static
 * caches and for samples that are padded.
 */
static void make_mask(struct builder *b, enum tape_dtype dtype)
{
	uint64_t keys = b->cached + b->sequence, n = b->sequence * keys;
	struct tape *t = &b->t;
	unsigned windowed = 0, whole = 0;

	for (uint32_t i = 0; i < b->m->towers[MODEL_TEXT].layers; i++)
		*(build_is_windowed(b, MODEL_TEXT, i, keys) ? &windowed : &whole) = 1;
	if (!build_masks_all(b, windowed != 0) && !b->r->padded)
		whole = 0; /* is_causal says it */
	if (b->r->attention == PLAN_EAGER)
		b->mask = tape_new(t, b->batch * n, dtype, TIMELINE_TEMPORARY);
	else if (windowed + whole && b->r->attention == PLAN_SDPA)
		/* generate() and who pads pass an attention_mask, so each sample has one */
		b->mask = tape_new(
			t, (windowed + whole) * (b->generating || b->r->padded ? b->batch : 1) * n,
			TAPE_BOOL, TIMELINE_TEMPORARY);
}

struct value build_decoder(struct builder *b, struct value ids, struct value labels,
			   struct value *logits)
{
	const struct model_numbers *n = &b->m->towers[MODEL_TEXT];
	struct tape *t = &b->t;
	struct value table = build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_EMBED, MODEL_WEIGHT);
	struct value x = build_enter(b, op_embedding(t, ids, table, n->hidden, 0));
	struct value tokens, places, position, loss;

	if (b->pixels.store != TAPE_NONE)
		x = build_seen(b, x);
	position = tape_new(t, b->sequence, TAPE_I64, TIMELINE_TEMPORARY);
	tokens = tape_keep(t, x);
	places = tape_param(t, TAPE_NONE);
	if (n->position == MODEL_POSITION_LEARNED) {
		table = build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_POSITIONS, MODEL_WEIGHT);
		places = op_embedding(t, position, table, n->hidden, 0);
		tape_set(t, &x, op_add(t, x, places));
		tape_set(t, &x, op_dropout(t, x, n->embedding_dropout));
	}
	if (n->embed_scale)
		tape_set(t, &x, op_apply(t, OP_SCALE, x));
	if (n->position == MODEL_POSITION_ROPE || n->position == MODEL_POSITION_MROPE)
		rotary(b, x.dtype, &b->cos, &b->sin);
	if (n->two_ropes) /* as large, for the other kind of layers */
		rotary(b, x.dtype, &b->other_cos, &b->other_sin);
	make_mask(b, x.dtype);
	x = build_blocks(b, MODEL_TEXT, block_again, x);
	tape_set(t, &x, build_norm(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_FINAL_NORM, x));
	build_forget_seen(b);
	tape_drop(t, &tokens);
	tape_drop(t, &places);
	tape_drop(t, &position);
	if (!t->regions.n)
		build_forget_shared(b);
	loss = build_loss(b, x, labels, logits);
	tape_drop(t, &x);
	return loss;
}

struct value build_stage(struct builder *b, struct value in, struct value labels,
			 struct value *logits)
{
	bool first = !b->first_block, last = b->end_block == b->m->towers[MODEL_TEXT].layers;
	struct tape *t = &b->t;
	struct value x = tape_keep(t, in), position, loss;

	*logits = tape_param(t, TAPE_NONE);
	if (first)
		tape_set(t, &x,
			 op_embedding(t, in,
				      build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_EMBED,
						  MODEL_WEIGHT),
				      b->m->towers[MODEL_TEXT].hidden, 0));
	build_forget_shared(b);
	position = tape_new(t, b->sequence, TAPE_I64, TIMELINE_TEMPORARY);
	rotary(b, x.dtype, &b->cos, &b->sin);
	tape_drop(t, &position);
	make_mask(b, x.dtype);
	x = build_blocks(b, MODEL_TEXT, block_again, x);
	if (!t->regions.n)
		build_forget_shared(b);
	if (!last)
		return x;
	tape_set(t, &x, build_norm(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_FINAL_NORM, x));
	loss = build_loss(b, x, labels, logits);
	tape_drop(t, &x);
	return loss;
}
