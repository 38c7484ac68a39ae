/*
 * A recording explained: the model is given its requests and its driver's answers (was there memory,
 * at which address), and must do what the recording shows, event by event.
 */
#include "caching.h"
#include "heap.h"

#include <string.h>

struct explaining {
	struct mem *mem;
	const struct trace *t;
	const struct trace_device *d;
	const struct program *p;
	struct caching model;
	struct allocator_check *check;
	uint32_t *block_of;    /* of each request */
	uint32_t next, end;    /* events of the recording that the model must give now */
	uint64_t reserved_max; /* the recording's: any limit lies above it */
	int wrong;             /* the model asked for what the recording does not show */
	int limit_hint; /* this op: the limit that garbage collection goes by is too low -1, too high 1 */
	VEC(uint32_t) empty_caches;
	struct plim_err *err;
};

/* ---- the driver's answers, as recorded ---- */

static int is_segment_event(uint8_t action)
{
	return action >= TRACE_SEGMENT_ALLOC && action <= TRACE_SEGMENT_UNMAP;
}

/* The next segment event of this gap, if it is of that kind and size. */
static int answer(struct explaining *x, enum trace_action action, uint64_t bytes, uint64_t *addr)
{
	const struct trace_events *ev = &x->d->events;

	while (x->next < x->end && !is_segment_event(ev->action[x->next]))
		x->next++;
	if (x->next == x->end || ev->action[x->next] != action || ev->size[x->next] != bytes)
		return 0;
	*addr = ev->addr[x->next++];
	x->check->events++;
	return 1;
}

/* What memory comes next: TRACE_ACTIONS at the end of the gap. */
static unsigned coming(const struct explaining *x)
{
	return x->next < x->end ? x->d->events.action[x->next] : TRACE_ACTIONS;
}

static int segment_alloc(void *self, uint64_t bytes, uint64_t *addr)
{
	struct explaining *x = self;

	if (answer(x, TRACE_SEGMENT_ALLOC, bytes, addr))
		return 1;
	if (!x->limit_hint && coming(x) == TRACE_SEGMENT_FREE)
		x->limit_hint = 1;
	return 0;
}

static void segment_free(void *self, uint64_t addr, uint64_t bytes)
{
	struct explaining *x = self;
	uint64_t recorded;

	if (!answer(x, TRACE_SEGMENT_FREE, bytes, &recorded) || recorded != addr) {
		x->wrong = 1;
		if (!x->limit_hint)
			x->limit_hint = -1;
	}
}

/* A reservation is first mapped at its beginning. */
static uint64_t reserve(void *self, uint64_t bytes)
{
	struct explaining *x = self;
	const struct trace_events *ev = &x->d->events;

	(void)bytes;
	while (x->next < x->end && !is_segment_event(ev->action[x->next]))
		x->next++;
	return x->next < x->end ? ev->addr[x->next] : 0;
}

static void unreserve(void *self, uint64_t addr, uint64_t bytes)
{
	(void)self;
	(void)addr;
	(void)bytes;
}

static int map(void *self, uint64_t addr, uint64_t bytes)
{
	struct explaining *x = self;
	uint64_t recorded;

	if (!answer(x, TRACE_SEGMENT_MAP, bytes, &recorded))
		return 0;
	x->wrong |= recorded != addr;
	return 1;
}

static void unmap(void *self, uint64_t addr, uint64_t bytes)
{
	struct explaining *x = self;
	uint64_t recorded;

	if (!answer(x, TRACE_SEGMENT_UNMAP, bytes, &recorded) || recorded != addr)
		x->wrong = 1;
}

/* ---- was it empty_cache()? ---- */

/* The first event of the gap that gave memory back; TRACE_NONE: none did. */
static uint32_t first_release(const struct explaining *x)
{
	for (uint32_t e = x->next; e < x->end; e++)
		if (x->d->events.action[e] == TRACE_SEGMENT_FREE ||
		    x->d->events.action[e] == TRACE_SEGMENT_UNMAP)
			return e;
	return TRACE_NONE;
}

/*
 * Memory was given back before this request: by the request's own ladder, or by empty_cache() just
 * before it?  A stack tells.  Without one: a request that finds a free block needs no ladder, and one
 * for which there was room below what was reserved at another time had no limit in its way.
 */
static int was_emptied(struct explaining *x, const struct program_op *op)
{
	const struct program_request *rq = &x->p->requests.at[op->request];
	const struct trace_events *ev = &x->d->events;
	uint64_t bytes = allocator_round(&x->model.rules, rq->bytes);
	uint64_t reserved = x->model.stats.count[ALLOCATOR_RESERVED_BYTES][0].current;
	uint32_t release = first_release(x);

	if (release == TRACE_NONE)
		return 0;
	if (ev->stack[release] != TRACE_NONE && ev->stack[release] == ev->stack[op->event])
		return 0;
	if (trace_stack_names(x->t, ev->stack[release], "empty_cache") ||
	    trace_stack_names(x->t, ev->stack[release], "emptyCache"))
		return 1;
	if (caching_find(&x->model, caching_half(rq->pool, bytes), rq->stream, bytes) !=
	    CACHING_NONE)
		return 1;
	return program_allocates(op->kind) && x->model.rules.gc_threshold == 0 &&
	       x->model.rules.max_split_bytes == UINT64_MAX &&
	       reserved + allocator_segment_bytes(&x->model.rules, bytes) <= x->reserved_max;
}

static enum plim_status empty_cache(struct explaining *x, uint32_t before_op)
{
	enum plim_status st = vec_push(x->mem, &x->empty_caches, before_op, x->err);

	x->check->empty_caches++;
	return st ? st : caching_empty_cache(&x->model);
}

/* ---- op by op ---- */

static enum plim_status malloc_op(struct explaining *x, uint32_t number)
{
	const struct program_op *op = &x->p->ops.at[number];
	const struct program_request *rq = &x->p->requests.at[op->request];
	struct caching_request request = { rq->bytes, op->request, rq->stream, rq->pool };
	enum plim_status st = PLIM_OK;
	uint32_t block = CACHING_NONE;

	if (was_emptied(x, op))
		st = empty_cache(x, number);
	if (!st)
		st = caching_malloc(&x->model, &request, &block);
	if (st)
		return st;
	x->block_of[op->request] = block;
	if (op->kind == PROGRAM_ATTEMPT)
		x->wrong |= block != CACHING_NONE;
	else
		x->wrong |= block == CACHING_NONE ||
			    x->model.blocks.at[block].addr != x->d->events.addr[op->event];
	return PLIM_OK;
}

/* Nothing of the gap may be left over, but what an empty_cache() after it released. */
static enum plim_status rest_of_gap(struct explaining *x, uint32_t number)
{
	if (first_release(x) == TRACE_NONE)
		return PLIM_OK;
	return empty_cache(x, number);
}

/* The recording frees what it allocated, once, and completes what it asked to free. */
static enum plim_status free_op(struct explaining *x, const struct program_op *op)
{
	uint32_t block = x->block_of[op->request];
	int completes = op->kind == PROGRAM_FREE_DONE;

	if (!caching_holds(&x->model, block, op->request) ||
	    completes != (x->model.blocks.at[block].pending_at != 0)) {
		x->wrong = 1;
		return PLIM_OK;
	}
	return completes ? caching_free_completed(&x->model, block)
			 : caching_free_requested(&x->model, block);
}

static enum plim_status one(struct explaining *x, uint32_t number)
{
	const struct program_op *op = &x->p->ops.at[number];
	int frees = op->kind == PROGRAM_FREE || op->kind == PROGRAM_FREE_DONE;
	enum plim_status st;

	x->end = op->event;
	x->limit_hint = 0;
	st = frees ? rest_of_gap(x, number) : malloc_op(x, number);
	if (!st && frees)
		st = free_op(x, op);
	for (; x->next < x->end; x->next++)
		x->wrong |= is_segment_event(x->d->events.action[x->next]);
	x->check->events++;
	x->next = op->event + 1;
	return st;
}

static void find_reserved_max(struct explaining *x)
{
	const struct trace_events *ev = &x->d->events;
	uint64_t now = x->d->reserved_before_bytes;

	x->reserved_max = now;
	for (size_t e = 0; e < ev->n; e++) {
		uint8_t action = ev->action[e];

		if (action == TRACE_SEGMENT_ALLOC || action == TRACE_SEGMENT_MAP)
			now += ev->size[e];
		else if (action == TRACE_SEGMENT_FREE || action == TRACE_SEGMENT_UNMAP)
			now -= ev->size[e];
		if (now > x->reserved_max)
			x->reserved_max = now;
	}
}

static enum plim_status explain(struct explaining *x)
{
	enum plim_status st = PLIM_OK;
	uint32_t n = (uint32_t)x->p->ops.n;

	for (uint32_t i = 0; !st && i < n; i++) {
		if (x->p->ops.at[i].event == TRACE_NONE)
			continue; /* it was there already */
		st = one(x, i);
		if (x->wrong) {
			x->check->diverged_at = x->p->ops.at[i].event;
			return st;
		}
	}
	x->end = (uint32_t)x->d->events.n;
	if (!st)
		st = rest_of_gap(x, n);
	if (!st && x->wrong)
		x->check->diverged_at = x->end - 1;
	return st;
}

static enum plim_status begin(struct explaining *x, const struct allocator_replay *replay)
{
	uint32_t *request_of;
	struct heap heap;
	enum plim_status st;

	memset(x->block_of, 0xff, x->p->requests.n * sizeof(*x->block_of));
	if (!x->d->allocs_before && !x->d->reserved_before_bytes)
		return PLIM_OK;
	st = heap_before(&heap, x->mem, x->t, x->d, replay, x->err);
	if (st)
		return st;
	request_of = mem_new(x->mem, x->d->alloc_count, sizeof(*request_of), x->err);
	if (!request_of)
		st = mem_status(x->err);
	for (uint32_t i = 0; !st && i < x->p->requests_before; i++)
		request_of[x->p->allocs_before[i]] = i;
	if (!st)
		st = caching_seed(&x->model, &heap, x->d, request_of, x->block_of);
	mem_free(x->mem, request_of, x->d->alloc_count, sizeof(*request_of));
	heap_release(&heap);
	return st;
}

/* Once, with the limit that garbage collection is taken to go by. */
static enum plim_status attempt(struct explaining *x, const struct allocator_replay *replay,
				uint64_t limit_bytes)
{
	struct caching_setup setup = { .rules = replay->rules,
				       .driver = { .self = x,
						   .segment_alloc = segment_alloc,
						   .segment_free = segment_free,
						   .reserve = reserve,
						   .unreserve = unreserve,
						   .map = map,
						   .unmap = unmap },
				       .stream_values = x->t->streams.at,
				       .streams = x->t->streams.n,
				       .pools = x->t->pools.n,
				       .limit_bytes = limit_bytes,
				       .device_bytes = (uint64_t)1 << 40 };
	enum plim_status st = caching_init(&x->model, x->mem, &setup, x->err);

	*x->check =
		(struct allocator_check){ .diverged_at = TRACE_NONE, .limit_bytes = limit_bytes };
	x->next = x->end = 0;
	x->wrong = 0;
	x->empty_caches.n = 0;
	if (!st)
		st = begin(x, replay);
	if (!st)
		st = explain(x);
	x->check->stats = x->model.stats;
	caching_release(&x->model);
	return st;
}

/*
 * Garbage collection begins at a share of the limit, which is not recorded: where the model collects
 * and the recording did not the limit lies higher, and the other way round.
 */
static enum plim_status find_limit(struct explaining *x, const struct allocator_replay *replay)
{
	uint64_t low = x->reserved_max, limit = low;
	uint64_t high = low < UINT64_MAX / 64 ? 64 * low : UINT64_MAX;
	enum plim_status st = attempt(x, replay, limit);

	while (!st && x->wrong && x->limit_hint && low < high) {
		if (x->limit_hint < 0)
			low = limit + 1;
		else
			high = limit ? limit - 1 : 0;
		if (low >= high)
			break;
		limit = low + (high - low) / 2;
		st = attempt(x, replay, limit);
	}
	return st;
}

enum plim_status allocator_explain(struct mem *m, const struct trace *t,
				   const struct trace_device *d,
				   const struct allocator_replay *replay, struct program **out,
				   struct allocator_check *check, struct plim_err *err)
{
	struct explaining x = { .mem = m, .t = t, .d = d, .check = check, .err = err };
	struct program *p;
	enum plim_status st = program_from_trace(m, t, d, &p, err);

	*out = NULL;
	if (st)
		return st;
	x.p = p;
	find_reserved_max(&x);
	x.block_of = mem_new(m, p->requests.n, sizeof(*x.block_of), err);
	if (!x.block_of)
		st = mem_status(err);
	else if (replay->rules.gc_threshold > 0)
		st = find_limit(&x, replay);
	else
		st = attempt(&x, replay, UINT64_MAX);
	if (!st)
		st = program_add_empty_caches(p, x.empty_caches.at, x.empty_caches.n, err);
	vec_release(m, &x.empty_caches);
	mem_free(m, x.block_of, p->requests.n, sizeof(*x.block_of));
	if (st)
		program_free(p);
	else
		*out = p;
	return st;
}
