/* Towers that see: ViT, and CLIP and SigLIP with a text beside the image.  Lines follow Transformers 5.17. */
#include "build.h"

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

/*
 * Patches by a convolution without overlap: as a product, what it saves and makes is the same.  A class vector goes in
 * front of them; both then get their positions.
 */
static struct value embed_image(struct builder *b)
{
	const struct model_numbers *n = &b->m->towers[MODEL_VISION];
	struct tape *t = &b->t;
	struct value weight, bias, first, places, pixels, x;

	weight = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_PATCH, MODEL_WEIGHT);
	bias = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_PATCH, MODEL_BIAS);
	first = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_CLASS_TOKEN, MODEL_WHOLE);
	pixels = op_cast(t, b->pixels, weight.dtype);
	x = op_linear(t, pixels, weight, bias, n->hidden);
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
	tape_drop(t, &places);
	tape_set(t, &x, op_dropout(t, x, n->embedding_dropout));
	tape_set(t, &x, build_norm(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_EMBED_NORM, x));
	tape_drop(t, &pixels);
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

/* SigLIP pools patches by one more attention, whose one query is a parameter. */
static struct value pool_patches(struct builder *b, struct value x)
{
	struct tape *t = &b->t;
	struct value weight, bias, all;

	weight = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POOL_IN, MODEL_WHOLE);
	bias = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POOL_BIAS, MODEL_WHOLE);
	if (weight.store == TAPE_NONE)
		return tape_keep(t, x);
	all = op_linear(t, x, weight, bias, bias.n);
	tape_set(t, &all, op_contiguous(t, all));
	return all;
}

static struct value image_vector(struct builder *b)
{
	struct tape *t = &b->t;
	struct value x = run_tower(b, MODEL_VISION, embed_image(b)), y;

	if (build_has(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POOL_IN)) {
		tape_set(t, &x, build_norm(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_FINAL_NORM, x));
		tape_set(t, &x, pool_patches(b, x));
		y = pick(b, MODEL_VISION, x);
	} else {
		y = pick(b, MODEL_VISION, x);
		tape_set(t, &y, build_norm(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_FINAL_NORM, y));
	}
	tape_drop(t, &x);
	tape_set(t, &y, build_linear(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_PROJECTION, y));
	return y;
}

static struct value text_vector(struct builder *b, struct value ids)
{
	struct tape *t = &b->t;
	struct value x = run_tower(b, MODEL_TEXT, embed_text(b, ids)), y;

	tape_set(t, &x, build_norm(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_FINAL_NORM, x));
	y = pick(b, MODEL_TEXT, x);
	tape_drop(t, &x);
	tape_set(t, &y, build_linear(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_PROJECTION, y));
	return y;
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
