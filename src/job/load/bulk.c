/* The sets of a cache of components: taken as one piece of memory, and filled by the loader's threads. */
#include "parts.h"

/*
 * What one set leaves is mostly what the next one wants, and locking memory takes longer than reading a file: one block is
 * kept.  It goes before another is taken, so no more is held than the cache's budget and what was evicted last.
 */
static enum plim_status take_bulk(void *ctx, uint64_t bytes, void **where, struct plim_err *err)
{
	struct plim_loader *l = ctx;
	void *spare;
	uint64_t has;

	pthread_mutex_lock(&l->sparing);
	spare = l->spare;
	has = l->spare_bytes;
	l->spare = NULL;
	pthread_mutex_unlock(&l->sparing);
	if (spare && has == bytes) {
		*where = spare;
		return PLIM_OK;
	}
	plim_loader_give(l, spare, has);
	return plim_loader_take(l, bytes, where, err);
}

static void drop_bulk(void *ctx, void *where, uint64_t bytes)
{
	struct plim_loader *l = ctx;
	void *before;
	uint64_t had;

	pthread_mutex_lock(&l->sparing);
	before = l->spare;
	had = l->spare_bytes;
	l->spare = where;
	l->spare_bytes = bytes;
	pthread_mutex_unlock(&l->sparing);
	plim_loader_give(l, before, had);
}

static enum plim_status fill_bulk(void *ctx, struct ckpt *c, const uint32_t *tensors,
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
	return (struct ckpt_bulk){ take_bulk, fill_bulk, drop_bulk, l };
}
