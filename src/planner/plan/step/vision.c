/* Towers that see: ViT, and CLIP and SigLIP with a text next to the image.  Lines follow Transformers 5.17. */
#include "plan/step/build.h"

/* Pre-norm blocks with a plain MLP.  What is normalised stays a name of the block until the half is done. */
static struct value tower_block(void *self, uint32_t block, struct value x)
{
	static const enum model_role role[3] = { MODEL_ROLE_Q, MODEL_ROLE_K, MODEL_ROLE_V };
	struct builder *b = self;
	struct tape *t = &b->t;
	double p = b->m->towers[b->tower].hidden_dropout;
	struct value h = build_norm(b, b->tower, block, MODEL_ROLE_NORM1, x), part[3], a, y;

	for (unsigned i = 0; i < 3; i++)
		part[i] = build_linear(b, b->tower, block, role[i], h);
	a = build_attention(b, b->tower, block, part[0], part[1], part[2], b->sequence,
			    b->sequence);
	tape_set(t, &a, build_linear(b, b->tower, block, MODEL_ROLE_O, a));
	for (unsigned i = 0; i < 3; i++)
		tape_drop(t, &part[i]);
	tape_drop(t, &h);
	tape_set(t, &a, op_dropout(t, a, p));
	y = op_add(t, a, x);
	tape_drop(t, &a);
	h = build_norm(b, b->tower, block, MODEL_ROLE_NORM2, y);
	a = build_linear(b, b->tower, block, MODEL_ROLE_UP, h);
	tape_set(t, &a, build_activation(b, b->tower, a));
	tape_set(t, &a, build_linear(b, b->tower, block, MODEL_ROLE_DOWN, a));
	tape_drop(t, &h);
	tape_set(t, &a, op_dropout(t, a, p));
	tape_set(t, &a, op_add(t, a, y));
	tape_drop(t, &y);
	return a;
}

#define CONVOLVED 8 /* cuDNN's kernels for halves want channels in eights */

/* It works on copies whose channels are innermost. */
static void touch_convolution(struct builder *b, struct value pixels, struct value weight,
			      struct value y)
{
	uint64_t channels = b->m->towers[MODEL_VISION].channels;
	uint64_t padded = (channels + CONVOLVED - 1) / CONVOLVED * CONVOLVED;

	if (channels && y.dtype != TAPE_F32)
		tape_touch(&b->t, ((pixels.n + weight.n) / channels * padded + y.n) * 2);
}

/* Patches by a convolution without overlap: as a product, what it saves and makes is the same. */
static struct value convolve(struct builder *b)
{
	const struct model_numbers *n = &b->m->towers[MODEL_VISION];
	uint64_t height = b->r->image_size ? b->r->image_size : n->image_size;
	uint64_t width = b->r->image_width ? b->r->image_width : height;
	struct tape *t = &b->t;
	struct value weight, bias, pixels, whole, x;

	weight = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_PATCH, MODEL_WEIGHT);
	bias = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_PATCH, MODEL_BIAS);
	pixels = op_cast(t, b->pixels, t->autocast ? t->autocast : weight.dtype);
	/* what is left of a row or a column after its last whole patch is not looked at */
	whole = pixels;
	whole.n = b->batch * (height / n->patch) * (width / n->patch) * (weight.n / n->hidden);
	x = op_linear(t, whole, weight, bias, n->hidden);
	touch_convolution(b, pixels, weight, x);
	tape_drop(t, &pixels);
	return x;
}

/* A class vector goes in front of patches; both then get their positions. */
static struct value embed_image(struct builder *b)
{
	const struct model_numbers *n = &b->m->towers[MODEL_VISION];
	struct tape *t = &b->t;
	struct value weight, first, places, x;

	first = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_CLASS_TOKEN, MODEL_WHOLE);
	x = convolve(b);
	if (first.store != TAPE_NONE)
		tape_set(t, &x, op_join(t, x, first, b->batch));
	if (build_has(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POSITION_IDS)) {
		struct value ids = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POSITION_IDS,
					       MODEL_WHOLE);

		weight = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POSITIONS,
				     MODEL_WEIGHT);
		places = op_embedding(t, ids, weight, n->hidden, 0);
	} else {
		places = tape_keep(t, build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POSITIONS,
						  MODEL_WHOLE));
	}
	tape_set(t, &x, op_add(t, x, places));
	/* patches are a convolution's pixels, channel by channel, until a class vector is joined to them */
	x.apart = first.store == TAPE_NONE;
	tape_drop(t, &places);
	tape_set(t, &x, op_dropout(t, x, n->embedding_dropout));
	tape_set(t, &x, build_norm(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_EMBED_NORM, x));
	return x;
}

/* The tower's blocks on what was embedded, which keeps its name meanwhile; takes x. */
static struct value run_tower(struct builder *b, enum model_tower tower, struct value x)
{
	struct value y;

	b->sequence = x.n / b->batch / b->m->towers[tower].hidden;
	y = build_blocks(b, tower, tower_block, tape_keep(&b->t, x));
	tape_drop(&b->t, &x);
	return y;
}

/* One vector of each sample, behind or in front of the last norm. */
static struct value pick(struct builder *b, enum model_tower tower, struct value x)
{
	return op_index_first(&b->t, x, b->batch * b->m->towers[tower].hidden);
}

struct value build_image(struct builder *b, struct value ids, struct value labels,
			 struct value *logits)
{
	struct tape *t = &b->t;
	struct value given = b->pixels, x, first, loss;

	(void)ids;
	/* pixel_values.to(expected_dtype) keeps its name until the tower returns */
	b->pixels = op_cast(
		t, given,
		build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_PATCH, MODEL_WEIGHT).dtype);
	x = run_tower(b, MODEL_VISION, embed_image(b));
	tape_drop(t, &b->pixels);
	b->pixels = given;
	tape_set(t, &x, build_norm(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_FINAL_NORM, x));
	first = pick(b, MODEL_VISION, x);
	*logits = build_linear(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_HEAD, first);
	loss = labels.store == TAPE_NONE ? tape_param(t, TAPE_NONE)
					 : op_cross_entropy(t, *logits, labels, b->batch);
	tape_drop(t, &first);
	tape_drop(t, &x);
	return loss;
}

static struct value embed_text(struct builder *b, struct value ids)
{
	struct tape *t = &b->t;
	uint64_t width = b->m->towers[MODEL_TEXT].hidden;
	struct value places, words, x;

	words = op_embedding(t, ids,
			     build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_EMBED, MODEL_WEIGHT),
			     width, 0);
	places = build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_POSITION_IDS, MODEL_WHOLE);
	places.n = ids.n / b->batch;
	places = op_embedding(
		t, places,
		build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_POSITIONS, MODEL_WEIGHT), width,
		0);
	x = op_add(t, words, places);
	tape_drop(t, &words);
	tape_drop(t, &places);
	return x;
}

/* x / |x|: what is left of a sample is a vector, so its few kernels are taken as two. */
static struct value unit(struct tape *t, struct value x, uint64_t rows)
{
	struct value square = op_apply(t, OP_POW, x), norm = op_mean(t, square, rows), y;

	tape_drop(t, &square);
	y = op_mul(t, x, norm);
	tape_drop(t, &norm);
	return y;
}

/* The projections of torch's multi_head_attention_forward, whose three weights are one parameter. */
struct merged {
	struct value weight[3], bias[3]; /* of q, and of k and v */
};

static void unpack_vision(struct builder *b, struct merged *p)
{
	uint64_t width = b->m->towers[MODEL_VISION].hidden;
	struct value weight, bias;

	weight = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POOL_IN, MODEL_WHOLE);
	bias = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POOL_BIAS, MODEL_WHOLE);
	op_split(&b->t, weight, (uint64_t[3]){ width * width, 2 * width * width, 0 }, p->weight);
	op_split(&b->t, bias, (uint64_t[3]){ width, 2 * width, 0 }, p->bias);
}

/* Keys and values of all patches, token behind token; then each apart. */
static void project_patches(struct builder *b, const struct merged *p, struct value x,
			    struct value out[3])
{
	struct tape *t = &b->t;
	struct value low = t->autocast ? op_cast(t, x, t->autocast) : tape_keep(t, x), turned, y;

	turned = op_contiguous(t, low);
	y = op_linear(t, turned, p->weight[1], p->bias[1], 2 * b->m->towers[MODEL_VISION].hidden);
	tape_drop(t, &low);
	tape_drop(t, &turned);
	tape_set(t, &y, op_contiguous(t, y));
	op_split(t, y, (uint64_t[3]){ y.n / 2, y.n / 2, 0 }, out);
	tape_drop(t, &y);
}

/* One more attention, with a parameter as its query; not fused, since it gives its weights as well. */
static struct value attend_probe(struct builder *b, struct value probe, struct value x)
{
	const struct model_numbers *n = &b->m->towers[MODEL_VISION];
	struct tape *t = &b->t;
	struct matmul size = { b->batch * n->heads, 1, n->head_dim, b->sequence, 0 };
	struct merged p;
	struct value q, kv[3], scores, y;

	unpack_vision(b, &p);
	q = op_linear(t, probe, p.weight[0], p.bias[0], n->hidden);
	project_patches(b, &p, x, kv);
	y = op_apply(t, OP_SCALE, q);
	scores = op_matmul(t, y, kv[0], size);
	tape_drop(t, &y);
	tape_set(t, &scores, op_softmax(t, scores, scores.dtype));
	size = (struct matmul){ b->batch * n->heads, 1, b->sequence, n->head_dim, 0 };
	y = op_matmul(t, scores, kv[1], size);
	tape_set(t, &y, build_linear(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POOL_OUT, y));
	tape_drop(t, &scores);
	tape_drop(t, &q);
	for (unsigned i = 0; i < 3; i++) {
		tape_drop(t, &kv[i]);
		tape_drop(t, &p.weight[i]);
		tape_drop(t, &p.bias[i]);
	}
	return y;
}

/* SigLIP's head: what the probe saw, and an MLP. */
static struct value pool_patches(struct builder *b, struct value x)
{
	struct tape *t = &b->t;
	struct value probe, y, h;

	probe = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POOL_PROBE, MODEL_WHOLE);
	probe = op_repeat(t, probe, b->batch);
	y = attend_probe(b, probe, x);
	h = build_norm(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POOL_NORM, y);
	tape_set(t, &h, build_linear(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POOL_UP, h));
	tape_set(t, &h, build_activation(b, MODEL_VISION, h));
	tape_set(t, &h, build_linear(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POOL_DOWN, h));
	tape_set(t, &y, op_add(t, y, h));
	tape_drop(t, &h);
	tape_drop(t, &probe);
	return y;
}

static struct value image_vector(struct builder *b)
{
	struct tape *t = &b->t;
	struct value x = run_tower(b, MODEL_VISION, embed_image(b)), y;

	if (build_has(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POOL_IN)) {
		tape_set(t, &x, build_norm(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_FINAL_NORM, x));
		y = pool_patches(b, x);
	} else {
		y = pick(b, MODEL_VISION, x);
		tape_set(t, &y, build_norm(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_FINAL_NORM, y));
	}
	build_hold_state(b, 0, x);
	tape_set(t, &y, build_linear(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_PROJECTION, y));
	return y;
}

static struct value text_vector(struct builder *b, struct value ids)
{
	struct tape *t = &b->t;
	struct value x = embed_text(b, ids), y;

	if (b->m->towers[MODEL_TEXT].causal && b->r->attention == PLAN_EAGER)
		b->mask = tape_new(t, ids.n * (ids.n / b->batch), x.dtype, TIMELINE_TEMPORARY);
	x = run_tower(b, MODEL_TEXT, x);
	if (!t->regions.n)
		tape_drop(t, &b->mask);
	tape_set(t, &x, build_norm(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_FINAL_NORM, x));
	y = pick(b, MODEL_TEXT, x);
	build_hold_state(b, 1, x);
	tape_set(t, &y, build_linear(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_PROJECTION, y));
	return y;
}

/* One tower by itself: the loss of a loop that has its own is taken for the mean of what it gives. */
struct value build_look(struct builder *b, struct value ids, struct value labels,
			struct value *logits)
{
	(void)ids;
	(void)labels;
	*logits = image_vector(b);
	return b->r->task == PLAN_TRAIN ? op_mean(&b->t, *logits, 1) : tape_param(&b->t, TAPE_NONE);
}

struct value build_read(struct builder *b, struct value ids, struct value labels,
			struct value *logits)
{
	(void)labels;
	*logits = text_vector(b, ids);
	return b->r->task == PLAN_TRAIN ? op_mean(&b->t, *logits, 1) : tape_param(&b->t, TAPE_NONE);
}

/* Gemma 3: SigLIP's patches, averaged to the tokens that an image takes, normalised and projected. */
struct value build_tokens_of_image(struct builder *b)
{
	const struct model_numbers *n = &b->m->towers[MODEL_VISION];
	uint64_t tokens = n->image_tokens * b->batch;
	struct tape *t = &b->t;
	struct value none = tape_param(t, TAPE_NONE), weight, x;

	x = run_tower(b, MODEL_VISION, embed_image(b));
	tape_set(t, &x, build_norm(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_FINAL_NORM, x));
	tape_set(t, &x, op_mean(t, x, tokens * n->hidden));
	weight = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_MERGE_NORM, MODEL_WHOLE);
	if (weight.store != TAPE_NONE)
		tape_set(t, &x, op_layer_norm(t, x, weight, none, tokens));
	weight = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_MERGE1, MODEL_WHOLE);
	tape_set(t, &x, op_linear(t, x, weight, none, b->m->towers[MODEL_TEXT].hidden));
	return x;
}

/* The image, then the text, then how like they are. */
struct value build_pair(struct builder *b, struct value ids, struct value labels,
			struct value *logits)
{
	struct tape *t = &b->t;
	struct value image = image_vector(b), text = text_vector(b, ids), loss, targets;
	uint64_t width = text.n / b->batch;

	(void)labels;
	tape_set(t, &image, unit(t, image, b->batch));
	tape_set(t, &text, unit(t, text, b->batch));
	*logits = op_matmul(t, text, image, (struct matmul){ 1, b->batch, width, b->batch, 0 });
	targets = tape_new(t, b->batch, TAPE_I64, TIMELINE_TEMPORARY);
	loss = b->r->task == PLAN_TRAIN ? op_cross_entropy(t, *logits, targets, b->batch)
					: tape_param(t, TAPE_NONE);
	tape_drop(t, &targets);
	tape_drop(t, &image);
	tape_drop(t, &text);
	return loss;
}
