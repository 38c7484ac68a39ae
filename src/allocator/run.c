/* A program run under any settings, at addresses of our own. */
#include "placement.h"
#include "whatif.h"

struct running {
	const struct program *p;
	struct caching model;
	uint32_t *block_of; /* of each request; CACHING_NONE: it is not there */
	int stopped;        /* a request failed that had not when recorded: what follows is not known */
	struct allocator_outcome *out;
};

static enum plim_status malloc_op(struct running *r, const struct program_op *op)
{
	const struct program_request *rq = &r->p->requests.at[op->request];
	struct caching_request request = { rq->bytes, op->request, rq->stream, rq->pool };
	uint32_t block;
	enum plim_status st = caching_malloc(&r->model, &request, &block);

	r->block_of[op->request] = block;
	if (st)
		return st;
	if (block == CACHING_NONE) {
		r->stopped = op->kind == PROGRAM_ALLOC;
		if (r->out->oom_event == TRACE_NONE) {
			r->out->oom_event = op->event;
			r->out->oom_request_bytes = rq->bytes;
		}
	} else if (op->kind == PROGRAM_ATTEMPT) {
		/* what the program would have done with it was not recorded: it is given back */
		r->out->survived_attempts++;
		r->block_of[op->request] = CACHING_NONE;
		st = caching_free_requested(&r->model, block);
		if (!st)
			st = caching_free_completed(&r->model, block);
	}
	return st;
}

static enum plim_status free_done(struct running *r, uint32_t block, uint32_t request)
{
	const struct caching_block *b = &r->model.blocks.at[block];

	/* a release that had to wait for all streams may have completed it already */
	if (!b->pending_at || b->request != request)
		return PLIM_OK;
	return caching_free_completed(&r->model, block);
}

static enum plim_status one(struct running *r, const struct program_op *op)
{
	uint32_t block = op->request == TRACE_NONE ? CACHING_NONE : r->block_of[op->request];

	switch ((enum program_op_kind)op->kind) {
	case PROGRAM_ALLOC:
	case PROGRAM_ATTEMPT: return malloc_op(r, op);
	case PROGRAM_FREE:
		return block == CACHING_NONE ? PLIM_OK : caching_free_requested(&r->model, block);
	case PROGRAM_FREE_DONE: return block == CACHING_NONE ? PLIM_OK : free_done(r, block, op->request);
	case PROGRAM_EMPTY_CACHE: return caching_empty_cache(&r->model);
	}
	return PLIM_OK;
}

enum plim_status allocator_run(struct mem *m, const struct program *p, const int64_t *streams,
			       size_t stream_count, const struct allocator_rules *rules,
			       const struct allocator_bounds *bounds, unsigned way,
			       struct allocator_outcome *out, struct plim_err *err)
{
	struct running r = { .p = p, .out = out };
	struct placement placement;
	struct caching_setup setup = { .rules = *rules,
				       .stream_values = streams,
				       .streams = stream_count,
				       .pools = p->pools,
				       .limit_bytes = bounds->limit_bytes,
				       .device_bytes = bounds->device_bytes
							       ? bounds->device_bytes
							       : (uint64_t)80 << 30 };
	enum plim_status st;

	*out = (struct allocator_outcome){ .oom_event = TRACE_NONE };
	placement_init(&placement, m, (enum placement_way)way, bounds->capacity_bytes, err);
	setup.driver = placement_driver(&placement);
	r.block_of = mem_new(m, p->requests.n, sizeof(*r.block_of), err);
	st = r.block_of ? caching_init(&r.model, m, &setup, err) : PLIM_E_NOMEM;
	for (size_t i = 0; !st && !r.stopped && i < p->ops.n; i++) {
		st = one(&r, &p->ops.at[i]);
		if (!st)
			st = placement.failed;
	}
	out->stats = r.model.stats;
	mem_free(m, r.block_of, p->requests.n, sizeof(*r.block_of));
	if (r.model.mem)
		caching_release(&r.model);
	placement_release(&placement);
	return st;
}
