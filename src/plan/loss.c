/*
 * The loss of a language model: of all logits at once (Transformers' ForCausalLMLoss), in parts that are computed again in
 * the backward pass (TRL's chunked_nll), or with the gradients made along with it (Liger's fused linear cross entropy).
 */
#include "build.h"

#define TRL_CHUNK 256    /* tokens */
#define PARTS_SHOWN 8192 /* more than that are taken several at a time */

/* Tokens of a part, as asked for or as few as are shown. */
static uint64_t at_least(uint64_t step, uint64_t rows)
{
	uint64_t least = (rows + PARTS_SHOWN - 1) / PARTS_SHOWN;

	return step > least ? step : least;
}

/* Older releases copy the logits but the last of each sample; newer ones pad the labels instead. */
static struct value whole(struct builder *b, struct value logits, struct value labels)
{
	struct tape *t = &b->t;
	struct value f = op_cast(t, logits, TAPE_F32), loss, seen;
	struct value padded = tape_new(t, b->r->copies_logits ? 0 : labels.n + b->batch, TAPE_I64,
				       TIMELINE_TEMPORARY);
	struct value shifted = tape_new(t, labels.n, TAPE_I64, TIMELINE_TEMPORARY);

	if (b->r->copies_logits) {
		seen = op_index_first(t, f, f.n - f.n / b->sequence);
		tape_set(t, &seen, op_contiguous(t, seen));
	} else {
		seen = tape_keep(t, f);
	}
	loss = op_cross_entropy(t, seen, shifted, labels.n);
	tape_drop(t, &seen);
	tape_drop(t, &f);
	tape_drop(t, &padded);
	tape_drop(t, &shifted);
	return loss;
}

/* Labels moved by one; the caller drops them. */
static struct value shift(struct builder *b, struct value labels)
{
	struct tape *t = &b->t;
	struct value padded = tape_new(t, labels.n + b->batch, TAPE_I64, TIMELINE_TEMPORARY);
	struct value shifted = tape_new(t, labels.n, TAPE_I64, TIMELINE_TEMPORARY);

	tape_drop(t, &padded);
	return shifted;
}

/* The sum of the losses of some tokens: the part that is checkpointed. */
static struct value part(void *self, uint32_t number, struct value x)
{
	struct builder *b = self;
	struct tape *t = &b->t;
	struct value logits = build_head(b, x), f, loss;

	(void)number;
	f = op_cast(t, logits, TAPE_F32);
	tape_drop(t, &logits);
	loss = op_cross_entropy(t, f, b->targets, x.n / b->m->towers[MODEL_TEXT].hidden);
	tape_drop(t, &f);
	return loss;
}

/* The gradient of each part's rows is as large as all rows: a slice's is zeros around it. */
static struct value chunked(struct builder *b, struct value x, struct value labels)
{
	uint64_t width = b->m->towers[MODEL_TEXT].hidden, rows = x.n / width;
	uint64_t step = at_least(b->r->loss_chunk ? b->r->loss_chunk : TRL_CHUNK, rows);
	struct tape *t = &b->t;
	struct value loss = tape_param(t, TAPE_NONE), count, mean;

	tape_set(t, &b->targets, shift(b, labels));
	t->again = part;
	t->again_self = b;
	for (uint64_t at = 0; at < rows && !t->failed; at += step) {
		uint64_t n = rows - at < step ? rows - at : step;
		struct value some = op_index_first(t, x, n * width);
		struct value one = tape_checkpoint(t, 0, some);

		tape_set(t, &loss, op_add(t, loss, one));
		tape_drop(t, &one);
		tape_drop(t, &some);
	}
	tape_touch(t, rows); /* which labels count */
	count = tape_new(t, 1, TAPE_I64, t->category);
	mean = op_apply(t, OP_SCALE, loss);
	tape_drop(t, &count);
	tape_drop(t, &loss);
	if (!t->grad) /* nothing is computed again */
		tape_drop(t, &b->targets);
	return mean;
}

/* ---- Liger ---- */

/* Logits are as large as the states are, or about: so many tokens at a time, a power of two. */
static uint64_t liger_chunk(uint64_t rows, uint64_t width, uint64_t vocab)
{
	uint64_t parts = (vocab + width - 1) / width, least = (rows + parts - 1) / parts, n = 1;

	while (n < least)
		n *= 2;
	return n;
}

/* A product with the head; autocast keeps no cast of a weight that is a view. */
static struct value product(struct tape *t, struct value weight, uint64_t n, enum tape_dtype dtype)
{
	struct value cast = tape_new(t, weight.dtype == dtype ? 0 : weight.n, dtype, t->category);
	struct value y = tape_new(t, n, dtype, t->category);

	tape_blas(t, 0);
	tape_drop(t, &cast);
	return y;
}

/* Logits become their gradient in place; from it come those of the states and of the head, which is added up. */
static struct value liger_part(struct tape *t, struct value weight, uint64_t rows, uint64_t width,
			       enum tape_dtype dtype, const struct value grads[2])
{
	struct value logits = product(t, weight, rows * (weight.n / width), dtype), y;

	if (grads[0].store != TAPE_NONE) {
		y = product(t, weight, rows * width, dtype);
		tape_drop(t, &y);
	}
	if (grads[1].store != TAPE_NONE) {
		y = tape_new(t, weight.n, dtype, t->category);
		tape_touch(t, dtype == TAPE_F32 ? 0 : weight.n * tape_dtype_bytes[TAPE_F32]);
		tape_drop(t, &y);
	}
	return logits;
}

static struct value liger(struct builder *b, struct value x, struct value labels)
{
	struct tape *t = &b->t;
	uint64_t width = b->m->towers[MODEL_TEXT].hidden, rows = x.n / width, step;
	struct value weight = build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD, MODEL_WEIGHT);
	struct value shifted = shift(b, labels), logits = tape_param(t, TAPE_NONE), losses, loss;
	enum tape_dtype dtype = t->autocast ? t->autocast : x.dtype;
	struct value in[2] = { x, weight }, grads[2];

	step = at_least(liger_chunk(rows, width, weight.n / width), rows);
	for (unsigned i = 0; i < 2; i++)
		grads[i] = tape_new(t, t->grad && in[i].grad ? in[i].n : 0, in[i].dtype,
				    TIMELINE_AUTOGRAD_DETAIL);
	losses = tape_new(t, rows, TAPE_F32, t->category);
	for (uint64_t at = 0; at < rows && !t->failed; at += step) {
		uint64_t n = rows - at < step ? rows - at : step;
		struct value cast =
			tape_new(t, x.dtype == dtype ? 0 : n * width, dtype, t->category);

		tape_set(t, &logits, liger_part(t, weight, n, width, dtype, grads));
		tape_drop(t, &cast);
	}
	loss = op_ready(t, in, grads);
	tape_drop(t, &logits);
	tape_drop(t, &losses);
	tape_drop(t, &shifted);
	tape_drop(t, &grads[0]);
	tape_drop(t, &grads[1]);
	return loss;
}

/* ---- TRL's fused head ---- */

/* The rows that have a label, but the last of each sample, are taken out; what they come to goes back among zeros. */
static struct value fused(struct builder *b, struct value x)
{
	struct tape *t = &b->t;
	uint64_t width = b->m->towers[MODEL_TEXT].hidden, rows = x.n / width - b->batch;
	struct value weight = build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD, MODEL_WEIGHT);
	struct value mask = tape_new(t, rows, TAPE_BOOL, t->category), ids, some, seen, all, sum,
		     loss;

	ids = tape_new(t, rows * 2, TAPE_I64, t->category); /* nonzero(): two numbers each */
	some = op_index_first(t, x, rows * width);
	tape_set(t, &some, op_gather(t, some, ids, rows * width));
	seen = tape_new(t, rows, TAPE_I64, t->category);
	tape_drop(t, &ids);
	all = op_tiles(t, some, weight, seen, rows);
	tape_drop(t, &seen);
	tape_drop(t, &some);
	tape_drop(t, &mask);
	sum = op_sum(t, all, 1);
	loss = op_apply(t, OP_SCALE, sum);
	tape_drop(t, &sum);
	tape_drop(t, &all);
	return loss;
}

struct value build_loss(struct builder *b, struct value x, struct value labels,
			struct value *logits)
{
	int asked = labels.store != TAPE_NONE;

	*logits = tape_param(&b->t, TAPE_NONE);
	if (asked && b->r->loss == PLAN_LOSS_CHUNKED)
		return chunked(b, x, labels);
	if (asked && b->r->loss == PLAN_LOSS_LIGER)
		return liger(b, x, labels);
	if (asked && b->r->loss == PLAN_LOSS_FUSED)
		return fused(b, x);
	*logits = build_head(b, x);
	if (b->r->wide_logits)
		tape_set(&b->t, logits, op_cast(&b->t, *logits, TAPE_F32));
	return asked ? whole(b, *logits, labels) : tape_param(&b->t, TAPE_NONE);
}
