/* The sets of a cache of components: taken as one piece of memory, and filled by the loader's threads. */
#include "parts.h"

static enum plim_status take(void *ctx, uint64_t bytes, void **where, struct plim_err *err)
{
	return plim_loader_take(ctx, bytes, where, err);
}

static void drop(void *ctx, void *where, uint64_t bytes)
{
	plim_loader_give(ctx, where, bytes);
}

static enum plim_status fill(void *ctx, struct ckpt *c, const uint32_t *tensors,
			     const struct plim_weights_set *at, void *const *stream,
			     struct plim_err *err)
{
	struct plim_loader *l = ctx;
	struct plim_load *loads = mem_new(&l->mem, at->tensor_count, sizeof(*loads), err);
	struct load_job job = { .ckpt = c,
				.loads = loads,
				.n = at->tensor_count,
				.flags = stream ? 0 : PLIM_LOADING_TO_HOST,
				.wait = true };
	enum plim_status st;

	if (!loads)
		return mem_status(err);
	if (stream)
		job.stream = *stream;
	for (size_t i = 0; i < at->tensor_count; i++)
		loads[i] = (struct plim_load){ tensors[i], at->tensors[i].where };
	st = load_tensors(l, &job, err);
	mem_free(&l->mem, loads, at->tensor_count, sizeof(*loads));
	return st;
}

struct ckpt_bulk load_bulk(struct plim_loader *l)
{
	return (struct ckpt_bulk){ take, fill, drop, l };
}
