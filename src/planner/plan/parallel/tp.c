/*
 * Tensor parallelism as Transformers plans it (tp_plan="auto", 5.17): projections into a block's parts are shared out by
 * columns, so each process has its heads and its features; projections back are shared out by rows, and their results are
 * summed.  The head is shared out by columns, which are collected.  Norms and embeddings are whole everywhere.
 *
 * Each projection by columns sums up the gradient of its own input.  Sums are out of place.
 *
 * With sequence parallelism (torch.distributed.tensor.parallel's SequenceParallel) rows are shared out between those
 * parts: what comes in is gathered, once for all projections of a part, what goes out is summed and scattered.
 */
#include "plan/step/build.h"

enum split { WHOLE, COLUMNS, ROWS, COLLECTED };

static const uint8_t splits[MODEL_ROLES] = {
	[MODEL_ROLE_Q] = COLUMNS, [MODEL_ROLE_K] = COLUMNS,      [MODEL_ROLE_V] = COLUMNS,
	[MODEL_ROLE_O] = ROWS,    [MODEL_ROLE_GATE] = COLUMNS,   [MODEL_ROLE_UP] = COLUMNS,
	[MODEL_ROLE_DOWN] = ROWS, [MODEL_ROLE_HEAD] = COLLECTED,
};

static enum split split_of(const struct builder *b, const struct model_module *x)
{
	return b->tp > 1 && x->tower == MODEL_TEXT ? (enum split)splits[x->role] : WHOLE;
}

enum plim_status build_tensor_parallel(struct builder *b)
{
	const struct model_numbers *n = &b->m->towers[MODEL_TEXT];
	uint64_t kv = n->kv_heads ? n->kv_heads : n->heads;

	b->tp = b->r->tp ? b->r->tp : 1;
	b->copies = b->r->gpus / b->tp / (b->r->pp ? b->r->pp : 1);
	b->rows_shared = b->r->sequence_parallel && b->tp > 1;
	if (b->tp == 1)
		return PLIM_OK;
	if (!build_shares_layers(b) || n->experts)
		return err_set(b->t.err, PLIM_E_ARG,
			       "tensor parallelism of a model like %s is not planned",
			       b->m->family);
	if (n->heads % b->tp || kv % b->tp || n->intermediate % b->tp)
		return err_set(b->t.err, PLIM_E_ARG,
			       "%llu heads, %llu of keys, and %llu features do not divide by %llu",
			       (unsigned long long)n->heads, (unsigned long long)kv,
			       (unsigned long long)n->intermediate, (unsigned long long)b->tp);
	return PLIM_OK;
}

uint64_t build_divided(const struct builder *b, const struct model_tensor *x)
{
	enum split split = split_of(b, &b->m->modules.at[x->module]);
	bool shared = split != WHOLE && (x->part == MODEL_WEIGHT || split != ROWS);

	return shared ? (x->count + b->tp - 1) / b->tp : x->count;
}

/* By columns: the gradient of what comes in is a sum over the processes. */
static struct value by_columns(struct builder *b, struct value x, struct value weight,
			       struct value bias, uint64_t features)
{
	struct tape *t = &b->t;
	struct value in =
		b->rows_shared ? tape_keep(t, x) : op_exchange(t, x, OP_REPLICATED, b->tp);
	struct value y = op_linear(t, in, weight, bias, (features + b->tp - 1) / b->tp);

	tape_drop(t, &in);
	return y;
}

struct value build_split_linear(struct builder *b, const struct model_module *module,
				struct value x, struct value weight, struct value bias,
				uint64_t features)
{
	struct tape *t = &b->t;
	enum split split = split_of(b, module);
	struct value y;

	if (split == WHOLE)
		return op_linear(t, x, weight, bias, features);
	if (split != ROWS) {
		y = by_columns(b, x, weight, bias, features);
		if (split == COLLECTED)
			tape_set(t, &y, op_exchange(t, y, OP_COLLECTED, b->tp));
		return y;
	}
	y = op_linear(t, x, weight, bias, features);
	tape_set(t, &y, op_exchange(t, y, b->rows_shared ? OP_BROUGHT_IN : OP_REDUCED, b->tp));
	return y;
}
