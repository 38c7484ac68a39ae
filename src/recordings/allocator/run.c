/* A program run under any settings, at addresses of our own. */
#include "run.h"

static enum plim_status malloc_op(struct running *r, const struct program_op *op)
{
	const struct program_request *rq = &r->p->requests.at[op->request];
	struct caching_request request = { rq->bytes, op->request, rq->stream, rq->pool };
	uint32_t block;
	enum plim_status st = caching_malloc(&r->model, &request, &block);

	r->block_of[op->request] = block;
	if (st)
		return st;
	if (r->model.paused) {
		r->stopped = 1;
	} else if (block == CACHING_NONE && op->kind == PROGRAM_WORKSPACE) {
		if (!r->out.refused_workspaces++)
			r->out.unrefused_peak_bytes =
				r->model.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak;
	} else if (block == CACHING_NONE) {
		r->stopped = op->kind == PROGRAM_ALLOC;
		if (!r->out.failed && (r->stopped || program_dies_at(r->p, op))) {
			r->out.failed = 1;
			r->out.oom_event = op->event;
			r->out.oom_request_bytes = rq->bytes;
		}
	} else if (op->kind == PROGRAM_ATTEMPT) {
		/* what the program would have done with it was not recorded: it is given back */
		r->block_of[op->request] = CACHING_NONE;
		caching_free(&r->model, block);
	}
	return st;
}

static void free_op(struct running *r, const struct program_op *op)
{
	uint32_t block = r->block_of[op->request];

	if (!caching_holds(&r->model, block, op->request))
		return; /* it failed here, or was completed by a release that had to wait */
	if (op->kind == PROGRAM_FREE_DONE && r->model.blocks.at[block].pending_at)
		caching_free_completed(&r->model, block);
	else if (op->kind == PROGRAM_FREE_DONE)
		caching_free(&r->model, block);
	else if (!r->model.blocks.at[block].pending_at)
		caching_free_requested(&r->model, block);
}

static void end_phase(struct running *r, uint32_t number)
{
	struct allocator_stats *s = &r->model.stats;

	if (!r->how->phase)
		return;
	r->how->phase(r->how->self, number, s);
	for (unsigned i = 0; i < ALLOCATOR_STATS; i++)
		for (unsigned k = 0; k < 3; k++)
			s->count[i][k].peak = s->count[i][k].current;
}

static inline enum plim_status run_one(struct running *r, const struct program_op *op)
{
	switch ((enum program_op_kind)op->kind) {
	case PROGRAM_ALLOC:
	case PROGRAM_WORKSPACE:
	case PROGRAM_ATTEMPT: return malloc_op(r, op);
	case PROGRAM_FREE:
	case PROGRAM_FREE_DONE: free_op(r, op); return caching_status(&r->model);
	case PROGRAM_EMPTY_CACHE: return caching_empty_cache(&r->model);
	case PROGRAM_DROP_POOL: return caching_drop_pool(&r->model, (uint16_t)op->request);
	case PROGRAM_PHASE: end_phase(r, op->request); return PLIM_OK;
	}
	return PLIM_OK;
}

/* The driver's calls go to the placement; what would be recorded goes to whoever asked. */
static void pass_event(void *self, const struct allocator_event *event)
{
	struct placement *p = self;
	struct running *r = p->owner;
	struct allocator_event e = *event;

	e.op = r->op;
	r->how->event(r->how->self, &e);
}

static void tell_block(const struct running *r, const struct caching_block *b, uint64_t segment)
{
	r->how->block(r->how->self,
		      &(struct allocator_block){ .segment_addr = segment,
						 .addr = b->addr,
						 .bytes = b->bytes,
						 .requested_bytes = b->requested_bytes,
						 .request = b->allocated ? b->request : TRACE_NONE,
						 .block_pool = b->block_pool,
						 .stream = b->stream,
						 .pending = b->pending_at != 0,
						 .expandable = b->reservation != CACHING_NONE });
}

/* Every segment, and every mapped part of a reservation, block by block. */
static enum plim_status tell_blocks(const struct running *r, struct plim_err *err)
{
	const struct caching *c = &r->model;
	uint8_t *unused = mem_new(c->mem, c->blocks.n, 1, err);

	if (!unused)
		return mem_status(err);
	for (size_t i = 0; i < c->spare.n; i++)
		unused[c->spare.at[i]] = 1;
	for (uint32_t i = 0; i < c->blocks.n; i++) {
		uint64_t segment = c->blocks.at[i].addr;

		if (unused[i] || c->blocks.at[i].prev != CACHING_NONE)
			continue;
		for (uint32_t k = i; k != CACHING_NONE; k = c->blocks.at[k].next) {
			const struct caching_block *b = &c->blocks.at[k];

			if (b->unmapped)
				segment = b->addr + b->bytes;
			else
				tell_block(r, b, segment);
		}
	}
	mem_free(c->mem, unused, c->blocks.n, 1);
	return PLIM_OK;
}

enum plim_status running_init(struct running *r, struct mem *m, const struct program *p,
			      const struct allocator_run *how, struct plim_err *err)
{
	struct caching_setup setup = { .rules = *how->rules,
				       .stream_values = p->streams,
				       .streams = p->stream_count,
				       .pools = p->pools,
				       .limit_bytes = how->bounds.limit_bytes,
				       .device_bytes = how->bounds.device_bytes
							       ? how->bounds.device_bytes
							       : (uint64_t)80 << 30 };
	enum plim_status st;

	*r = (struct running){
		.p = p, .until = (uint32_t)p->ops.n, .how = how, .out = { .oom_event = TRACE_NONE }
	};
	placement_init(&r->placement, m, how->way, how->bounds.capacity_bytes, err);
	r->placement.owner = r;
	setup.driver = placement_driver(&r->placement);
	setup.driver.event = how->event ? pass_event : NULL;
	r->block_of = mem_new(m, p->requests.n, sizeof(*r->block_of), err);
	st = r->block_of ? caching_init(&r->model, m, &setup, err) : mem_status(err);
	if (!st && how->way == ALLOCATOR_RECORDED && how->device)
		st = placement_follow(&r->placement, how->device);
	return st;
}

enum plim_status running_go(struct running *r)
{
	enum plim_status st = PLIM_OK;

	while (!st && !r->stopped && r->op < r->until) {
		st = run_one(r, &r->p->ops.at[r->op]);
		if (!st)
			st = r->placement.failed;
		if (!st && check_is_due(r->op))
			CHECKED(caching_check(&r->model));
		r->op += !r->model.paused;
	}
	return st;
}

enum plim_status running_copy(struct running *r, const struct running *from)
{
	enum plim_status st = caching_copy(&r->model, &from->model);

	if (!st)
		st = placement_copy(&r->placement, &from->placement);
	memcpy(r->block_of, from->block_of, r->p->requests.n * sizeof(*r->block_of));
	r->out = from->out;
	r->op = from->op;
	r->stopped = 0;
	return st;
}

void running_release(struct running *r, struct mem *m)
{
	mem_free(m, r->block_of, r->p->requests.n, sizeof(*r->block_of));
	if (r->model.mem)
		caching_release(&r->model);
	placement_release(&r->placement);
}

enum plim_status allocator_run(struct mem *m, const struct program *p,
			       const struct allocator_run *how, struct allocator_outcome *out,
			       struct plim_err *err)
{
	struct running r;
	enum plim_status st = running_init(&r, m, p, how, err);

	if (!st)
		st = running_go(&r);
	caching_tell_error(&r.model, st, err);
	if (!st && how->block)
		st = tell_blocks(&r, err);
	*out = r.out;
	out->stats = r.model.stats;
	running_release(&r, m);
	return st;
}
