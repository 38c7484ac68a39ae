/*
 * The loss of a language model: of all logits at once (Transformers' ForCausalLMLoss), in parts that are computed again in
 * the backward pass (TRL's chunked_nll), or with the gradients made along with it (Liger's fused linear cross entropy).
 */
#include "build.h"

#define TRL_CHUNK 256 /* tokens */

static struct value whole(struct builder *b, struct value logits, struct value labels)
{
	struct tape *t = &b->t;
	struct value f = op_cast(t, logits, TAPE_F32), loss;
	struct value padded = tape_new(t, labels.n + b->batch, TAPE_I64, TIMELINE_TEMPORARY);
	struct value shifted = tape_new(t, labels.n, TAPE_I64, TIMELINE_TEMPORARY);

	loss = op_cross_entropy(t, f, shifted, labels.n);
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
	uint64_t step = b->r->loss_chunk ? b->r->loss_chunk : TRL_CHUNK;
	struct tape *t = &b->t;
	struct value loss = tape_param(t, TAPE_NONE), count, mean;

	b->targets = shift(b, labels);
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
	return mean;
}

struct value build_loss(struct builder *b, struct value x, struct value labels,
			struct value *logits)
{
	int asked = labels.store != TAPE_NONE;

	*logits = tape_param(&b->t, TAPE_NONE);
	if (asked && b->r->loss == PLAN_LOSS_CHUNKED)
		return chunked(b, x, labels);
	*logits = build_head(b, x);
	return asked ? whole(b, *logits, labels) : tape_param(&b->t, TAPE_NONE);
}
