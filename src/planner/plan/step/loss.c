/*
 * The loss of a language model: of all logits at once (Transformers' ForCausalLMLoss), in parts that are computed again in
 * the backward pass (TRL's chunked_nll), or with the gradients made along with it (Liger's fused linear cross entropy).
 */
#include "plan/step/build.h"

#define TRL_CHUNK 256    /* tokens */
#define PARTS_SHOWN 8192 /* more than that are taken several at a time */

/* Tokens of a part, as asked for or as few as are shown. */
static uint64_t at_least(uint64_t step, uint64_t rows)
{
	uint64_t least = (rows + PARTS_SHOWN - 1) / PARTS_SHOWN;

	return step > least ? step : least;
}

/*
 * Older releases copy the logits but the last of each sample; newer ones pad the labels instead.  Classes with a loss of their
 * own (narrow_loss) do not make them fp32, nor does a loop with a loss of its own (PLAN_LOSS_NARROW): what it takes of the
 * logits, all but the last of each sample, is a view if there is one sample alone.
 */
static struct value loss_whole(struct builder *b, struct value logits, struct value labels)
{
	struct tape *t = &b->t;
	bool own = b->r->loss == PLAN_LOSS_NARROW;
	bool copies = own ? b->batch > 1 : b->r->copies_logits;
	bool narrow = own || b->r->narrow_loss;
	struct value f = narrow ? tape_keep(t, logits) : op_cast(t, logits, TAPE_F32);
	struct value loss, seen;
	struct value padded =
		tape_new(t, copies || own ? 0 : labels.n + b->batch, TAPE_I64, TIMELINE_TEMPORARY);
	struct value shifted = tape_new(t, labels.n, TAPE_I64, TIMELINE_TEMPORARY);

	if (copies) {
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

#define LITGPT_CHUNK 128 /* tokens: lm_head_chunk_size, litgpt/finetune/lora.py 304 */

/* The hidden states of some tokens of all samples at a time, as views, and the logits of each. */
static size_t litgpt_logits(struct builder *b, struct value x)
{
	struct tape *t = &b->t;
	uint64_t step = at_least(LITGPT_CHUNK, b->sequence), left = b->sequence;
	size_t n = (b->sequence + step - 1) / step;
	uint64_t *sizes = mem_new(t->mem, n, sizeof(*sizes), t->err);

	b->cuts.n = 0;
	tape_fail(t, sizes ? vec_need(t->mem, &b->cuts, 2 * n, t->err) : mem_status(t->err));
	for (size_t i = 0; !t->failed && i < n; i++) {
		sizes[i] = x.n / b->sequence * (left < step ? left : step);
		left -= left < step ? left : step;
	}
	if (!t->failed)
		op_cut(t, x, sizes, n, b->cuts.at);
	for (size_t i = 0; !t->failed && i < n; i++)
		tape_set(t, &b->cuts.at[i], build_head(b, b->cuts.at[i]));
	mem_free(t->mem, sizes, sizes ? n : 0, sizeof(*sizes));
	return t->failed ? 0 : n;
}

/*
 * LitGPT's lora.py: a list of logits, which Fabric makes fp32 when the model is done (convert_output, fabric/wrappers.py 143 of
 * Lightning 2.4.0).  It takes the name of the list before, and with it the graph before ends.  Then the loss of each
 * (chunked_cross_entropy, utils.py 293): of the last one without each sample's last token, a copy if there are several samples.
 */
static struct value loss_litgpt(struct builder *b, struct value x, struct value labels)
{
	struct tape *t = &b->t;
	uint64_t vocab = b->m->towers[MODEL_TEXT].vocab;
	size_t n = litgpt_logits(b, x);
	struct value loss = tape_param(t, TAPE_NONE);

	for (size_t i = 0; i < n; i++) {
		b->cuts.at[n + i] = b->cuts.at[i];
		b->cuts.at[i] = op_cast(t, b->cuts.at[i], TAPE_F32);
		tape_hold_in_graph(t, b->cuts.at[i]);
	}
	for (size_t i = 0; i < n; i++)
		tape_drop(t, &b->cuts.at[n + i]);
	tape_end_graph(t);
	for (size_t i = 0; i < n; i++) {
		struct value some = b->cuts.at[i], one;

		if (i + 1 == n)
			some = op_index_first(t, some, some.n - b->batch * vocab);
		else
			tape_keep(t, some);
		if (i + 1 == n && b->batch > 1)
			tape_set(t, &some, op_contiguous(t, some));
		one = op_cross_entropy(t, some, labels, 0);
		tape_set(t, &loss, i ? op_add(t, loss, one) : tape_keep(t, one));
		tape_drop(t, &one);
		tape_drop(t, &some);
		tape_drop(t, &b->cuts.at[i]);
	}
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

/* What is made of the head for one product: autocast keeps no cast of a view of it, but that of the weight itself. */
static struct value head_cast(struct tape *t, struct value weight, enum tape_dtype dtype,
			      bool turned)
{
	uint8_t grad = t->grad;
	struct value cast;

	if (weight.dtype == dtype)
		return tape_param(t, TAPE_NONE);
	if (turned)
		return tape_new(t, weight.n, dtype, t->category);
	t->grad = 0;
	cast = op_operand(t, weight);
	t->grad = grad;
	return cast;
}

/*
 * Some rows, where what is multiplied is not of one dtype: logits, which become their gradient in place, that of the states, and
 * that of the head, which is added up where it lies unless it and the logits are in fp32.
 */
static void liger_part(struct tape *t, struct value x, struct value weight, uint64_t rows,
		       enum tape_dtype dtype, const struct value grads[2])
{
	uint64_t width = x.n / rows, bytes = tape_dtype_bytes[dtype];
	struct value in = tape_new(t, x.dtype == dtype ? 0 : x.n, dtype, t->category);
	struct value head = head_cast(t, weight, dtype, true);
	struct value logits = tape_new(t, rows * (weight.n / width), dtype, t->category);

	tape_blas(t, 0);
	tape_drop(t, &in);
	tape_drop(t, &head);
	if (grads[0].store != TAPE_NONE) {
		head = head_cast(t, weight, dtype, false);
		tape_touch(t, x.n * bytes);
		tape_drop(t, &head);
	}
	if (grads[1].store != TAPE_NONE)
		tape_touch(t, x.dtype == dtype ? 0 : x.n * bytes);
	tape_drop(t, &logits);
}

/* Where all are of one dtype, one room serves the logits of all parts, and products are added where they lie. */
static struct value liger(struct builder *b, struct value x, struct value labels)
{
	struct tape *t = &b->t;
	uint64_t width = b->m->towers[MODEL_TEXT].hidden, rows = x.n / width, step;
	struct value weight = build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD, MODEL_WEIGHT);
	struct value shifted = shift(b, labels), logits, losses, loss;
	enum tape_dtype dtype = t->autocast ? t->autocast : x.dtype;
	bool alike = x.dtype == dtype && weight.dtype == dtype;
	struct value in[2] = { x, weight }, grads[2];

	step = at_least(liger_chunk(rows, width, weight.n / width), rows);
	for (unsigned i = 0; i < 2; i++)
		grads[i] = tape_new(t, t->grad && in[i].grad ? in[i].n : 0, in[i].dtype,
				    TIMELINE_AUTOGRAD_DETAIL);
	losses = tape_new(t, rows, TAPE_F32, t->category);
	logits = tape_new(t, alike ? (step < rows ? step : rows) * (weight.n / width) : 0, dtype,
			  t->category);
	for (uint64_t at = 0; at < rows && !t->failed; at += step) {
		uint64_t n = rows - at < step ? rows - at : step;
		struct value some = x;

		some.n = n * width;
		if (!alike)
			liger_part(t, some, weight, n, dtype, grads);
		else if (grads[1].store != TAPE_NONE && dtype == TAPE_F32)
			tape_touch(t, weight.n * tape_dtype_bytes[TAPE_F32]);
		tape_blas(t, 0);
	}
	tape_drop(t, &logits);
	loss = op_ready(t, in, grads);
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
	if (asked && b->r->litgpt && b->r->lora_rank && b->r->loss == PLAN_LOSS_NARROW && b->t.grad)
		return loss_litgpt(b, x, labels);
	*logits = build_head(b, x);
	if (b->r->wide_logits || b->r->litgpt)
		tape_set(&b->t, logits, op_cast(&b->t, *logits, TAPE_F32));
	return asked ? loss_whole(b, *logits, labels) : tape_param(&b->t, TAPE_NONE);
}
