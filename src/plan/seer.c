/*
 * What language models see: the vision towers of Qwen2-VL, Qwen2.5-VL and Qwen3-VL, whose merged patches take the
 * place of tokens.  Lines follow Transformers 5.17.
 */
#include "build.h"

/* cos and sin of the rows and columns of all patches, in fp32. */
static void rotary(struct builder *b, uint64_t patches)
{
	struct tape *t = &b->t;
	uint64_t size = patches * b->m->towers[MODEL_VISION].head_dim;
	uint8_t grad = t->grad;
	struct value angles;

	t->grad = 0;
	angles = tape_new(t, size / 2, TAPE_F32, TIMELINE_TEMPORARY);
	for (unsigned i = 0; i < 2; i++) {
		struct value c = op_apply(t, OP_SCALE, angles), half;

		tape_set(t, &c, op_apply(t, OP_SCALE, c));
		half = tape_new(t, size / 2, TAPE_F32, TIMELINE_TEMPORARY);
		tape_set(t, &c, tape_new(t, size, TAPE_F32, TIMELINE_ACTIVATION));
		tape_drop(t, &half);
		*(i ? &b->seen_sin : &b->seen_cos) = c;
	}
	tape_drop(t, &angles);
	t->grad = grad;
}

/* q * cos + rotate_half(q) * sin, in fp32 whatever q is. */
static struct value turn(struct builder *b, struct value q)
{
	struct tape *t = &b->t;
	struct value straight = op_mul(t, q, b->seen_cos), half = op_rotate_half(t, q), y;

	tape_set(t, &half, op_mul(t, half, b->seen_sin));
	y = op_add(t, straight, half);
	tape_drop(t, &straight);
	tape_drop(t, &half);
	return y;
}

static struct value attend(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	struct value all = build_linear(b, MODEL_VISION, block, MODEL_ROLE_QKV, x), p[3], wide[2],
		     y;

	op_split(t, all, (uint64_t[3]){ x.n, x.n, x.n }, p);
	tape_drop(t, &all);
	for (unsigned i = 0; i < 2; i++)
		wide[i] = op_cast(t, p[i], TAPE_F32);
	for (unsigned i = 0; i < 2; i++)
		tape_set(t, &wide[i], turn(b, wide[i]));
	for (unsigned i = 0; i < 2; i++) {
		tape_set(t, &p[i], op_cast(t, wide[i], p[i].dtype));
		tape_drop(t, &wide[i]);
	}
	y = build_attention(b, MODEL_VISION, block, p[0], p[1], p[2], b->sequence, b->sequence);
	/* images are attended to one by one, and put together again */
	tape_set(t, &y, op_contiguous(t, y));
	tape_set(t, &y, build_linear(b, MODEL_VISION, block, MODEL_ROLE_O, y));
	for (unsigned i = 0; i < 3; i++)
		tape_drop(t, &p[i]);
	return y;
}

static struct value feed(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	struct value h, up;

	if (build_has(b, MODEL_VISION, block, MODEL_ROLE_GATE)) {
		h = build_linear(b, MODEL_VISION, block, MODEL_ROLE_GATE, x);
		tape_set(t, &h, build_activation(b, MODEL_VISION, h));
		up = build_linear(b, MODEL_VISION, block, MODEL_ROLE_UP, x);
		tape_set(t, &h, op_mul(t, h, up));
		tape_drop(t, &up);
	} else {
		h = build_linear(b, MODEL_VISION, block, MODEL_ROLE_UP, x);
		tape_set(t, &h, build_activation(b, MODEL_VISION, h));
	}
	tape_set(t, &h, build_linear(b, MODEL_VISION, block, MODEL_ROLE_DOWN, h));
	return h;
}

static struct value seer_block(void *self, uint32_t block, struct value x)
{
	struct builder *b = self;
	struct tape *t = &b->t;
	struct value h = build_norm(b, MODEL_VISION, block, MODEL_ROLE_NORM1, x), y;

	tape_set(t, &h, attend(b, block, h));
	y = op_add(t, x, h);
	tape_drop(t, &h);
	h = build_norm(b, MODEL_VISION, block, MODEL_ROLE_NORM2, y);
	tape_set(t, &h, feed(b, block, h));
	tape_set(t, &y, op_add(t, y, h));
	tape_drop(t, &h);
	return y;
}

/* Squares of patches become one token each. */
static struct value merge(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	struct value h = build_norm(b, MODEL_VISION, block, MODEL_ROLE_MERGE_NORM, x);

	tape_set(t, &h, build_linear(b, MODEL_VISION, block, MODEL_ROLE_MERGE1, h));
	tape_set(t, &h, op_apply(t, OP_GELU, h));
	tape_set(t, &h, build_linear(b, MODEL_VISION, block, MODEL_ROLE_MERGE2, h));
	return h;
}

/* Learned positions of Qwen3-VL, interpolated from four neighbours. */
static struct value add_places(struct builder *b, struct value x)
{
	struct tape *t = &b->t;
	struct value places;

	if (!build_has(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POSITIONS))
		return x;
	places = tape_new(t, x.n, x.dtype, TIMELINE_ACTIVATION);
	tape_set(t, &x, op_add(t, x, places));
	tape_drop(t, &places);
	return x;
}

struct value build_seen(struct builder *b, struct value words)
{
	struct tape *t = &b->t;
	uint64_t sequence = b->sequence, width = b->m->towers[MODEL_VISION].hidden;
	struct value weight, bias, pixels, x, tokens;

	weight = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_PATCH, MODEL_WEIGHT);
	bias = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_PATCH, MODEL_BIAS);
	pixels = op_cast(t, b->pixels, weight.dtype);
	x = add_places(b, op_linear(t, pixels, weight, bias, width));
	rotary(b, x.n / width);
	x = build_blocks(b, MODEL_VISION, seer_block, x);
	tokens = merge(b, MODEL_NONE, x);
	tape_drop(t, &x);
	tape_drop(t, &pixels);
	if (!t->regions.n) {
		tape_drop(t, &b->seen_cos);
		tape_drop(t, &b->seen_sin);
	}
	tape_set(t, &tokens, op_contiguous(t, tokens));
	tape_set(t, &tokens, op_cast(t, tokens, words.dtype));
	x = op_scatter(t, words, tokens);
	tape_drop(t, &words);
	tape_drop(t, &tokens);
	b->sequence = sequence;
	return x;
}
