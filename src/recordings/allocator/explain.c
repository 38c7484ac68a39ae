/*
 * A recording explained: the model is given its requests and its driver's answers (was there memory,
 * at which address), and must do what the recording shows, event by event.
 */
#include "caching.h"
#include "heap.h"

#include <string.h>

struct explaining {
	struct mem *mem;
	const struct snapshot *t;
	const struct snapshot_device *d;
	struct program *p;
	struct caching model;
	struct allocator_check *check;
	uint32_t *block_of;    /* of each request */
	uint32_t next, end;    /* events of the recording that the model must give now */
	uint64_t reserved_max; /* the recording's: any limit lies above it */
	int wrong;             /* the model asked for what the recording does not show */
	int limit_hint; /* this op: the limit that garbage collection goes by is too low -1, too high 1 */
	VEC(struct program_found) found;
	struct guess *guess; /* of the pools of segments that are gone; NULL: the default pool */
	struct plim_err *err;
};

#define GUESSED_POOLS 32 /* private pools at a time next to those that stand at the end */
#define GUESSES_MAX 16   /* how often a recording is explained anew with other pools */

struct guess {
	struct pools pools;
	uint32_t alive[GUESSED_POOLS]; /* segments of each, now */
	uint16_t *last_pool;           /* of each stream's last request */
	uint64_t suspect_addr; /* what the model took, or gave back, where it first went wrong */
	uint32_t suspect_at;   /* event */
};

static void differs(struct explaining *x, uint64_t addr)
{
	if (!x->wrong && x->guess) {
		x->guess->suspect_addr = addr;
		x->guess->suspect_at = x->next;
	}
	x->wrong = 1;
}

/* ---- the driver's answers, as recorded ---- */

static int is_segment_event(uint8_t action)
{
	return action >= TRACE_SEGMENT_ALLOC && action <= TRACE_SEGMENT_UNMAP;
}

/* The next segment event of this gap, if it is of that kind and size. */
static int answer_explaining(struct explaining *x, enum snapshot_action action, uint64_t bytes,
			     uint64_t *addr)
{
	const struct snapshot_events *ev = &x->d->events;

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

	if (answer_explaining(x, TRACE_SEGMENT_ALLOC, bytes, addr))
		return 1;
	if (!x->limit_hint && coming(x) == TRACE_SEGMENT_FREE)
		x->limit_hint = 1;
	return 0;
}

static void segment_free(void *self, uint64_t addr, uint64_t bytes)
{
	struct explaining *x = self;
	uint64_t recorded;

	if (!answer_explaining(x, TRACE_SEGMENT_FREE, bytes, &recorded) || recorded != addr) {
		differs(x, addr);
		if (!x->limit_hint)
			x->limit_hint = -1;
	}
}

/* A reservation is first mapped at its beginning. */
static uint64_t reserve_explaining(void *self, uint64_t bytes)
{
	struct explaining *x = self;
	const struct snapshot_events *ev = &x->d->events;

	(void)bytes;
	while (x->next < x->end && !is_segment_event(ev->action[x->next]))
		x->next++;
	return x->next < x->end ? ev->addr[x->next] : 0;
}

static void unreserve_explaining(void *self, uint64_t addr, uint64_t bytes)
{
	(void)self;
	(void)addr;
	(void)bytes;
}

static int map_explaining(void *self, uint64_t addr, uint64_t bytes)
{
	struct explaining *x = self;
	uint64_t recorded;

	if (!answer_explaining(x, TRACE_SEGMENT_MAP, bytes, &recorded))
		return 0;
	x->wrong |= recorded != addr;
	return 1;
}

static void unmap_explaining(void *self, uint64_t addr, uint64_t bytes)
{
	struct explaining *x = self;
	uint64_t recorded;

	if (!answer_explaining(x, TRACE_SEGMENT_UNMAP, bytes, &recorded) || recorded != addr)
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
 * before it?  A stack shows.  Without one: a request that finds a free block needs no ladder, and one
 * for which there was room below what was reserved at another time had no limit in its way.
 */
static int was_emptied(struct explaining *x, const struct program_op *op)
{
	const struct program_request *rq = &x->p->requests.at[op->request];
	const struct snapshot_events *ev = &x->d->events;
	uint64_t bytes = allocator_round(&x->model.rules, rq->bytes);
	uint64_t reserved = x->model.stats.count[ALLOCATOR_RESERVED_BYTES][0].current;
	uint32_t release = first_release(x);

	if (release == TRACE_NONE)
		return 0;
	if (ev->stack[release] == ev->stack[op->event] &&
	    !snapshot_stackless(x->t, ev->stack[release]))
		return 0;
	if (snapshot_stack_names(x->t, ev->stack[release], "empty_cache") ||
	    snapshot_stack_names(x->t, ev->stack[release], "emptyCache"))
		return 1;
	if (caching_find(&x->model, caching_block_pool(rq->pool, bytes), rq->stream, bytes) !=
	    CACHING_NONE)
		return 1;
	return program_allocates(op->kind) && x->model.rules.gc_threshold == 0 &&
	       x->model.rules.max_split_bytes == UINT64_MAX &&
	       reserved + allocator_segment_bytes(&x->model.rules, bytes) <= x->reserved_max;
}

static enum plim_status empty_cache(struct explaining *x, uint32_t before_op)
{
	struct program_found one = { before_op, PROGRAM_EMPTY_CACHE, TRACE_NONE };
	enum plim_status st = vec_push(x->mem, &x->found, one, x->err);

	x->check->empty_caches++;
	return st ? st : caching_empty_cache(&x->model);
}

/* ---- pools that are not reported ---- */

/* Did this request pass over a free block of that pool?  A whole segment may have been released first. */
static int passed_over(const struct explaining *x, const struct program_request *rq, uint16_t pool)
{
	uint64_t bytes = allocator_round(&x->model.rules, rq->bytes);
	uint32_t block =
		caching_find(&x->model, caching_block_pool(pool, bytes), rq->stream, bytes);

	return block != CACHING_NONE &&
	       (first_release(x) == TRACE_NONE || !caching_whole(&x->model.blocks.at[block]));
}

/* A pool of its own; one that has no memory any more is as good as a new one. */
static uint16_t another_pool(struct explaining *x)
{
	for (uint32_t i = 0; i < GUESSED_POOLS; i++) {
		if (x->guess->alive[i])
			continue;
		if (x->p->pools < x->t->pools.n + i + 1)
			x->p->pools = x->t->pools.n + i + 1;
		return (uint16_t)(x->t->pools.n + i);
	}
	return 0;
}

/* A new segment's pool: a private one goes with its neighbours of the same stream, if it can. */
static uint16_t pool_of_new(struct explaining *x, struct pools_segment *s,
			    const struct program_request *rq)
{
	const struct pools_segment *next =
		s->next == TRACE_NONE ? NULL : &x->guess->pools.segments.at[s->next];
	uint16_t last = x->guess->last_pool[s->stream];

	if (!s->is_private && !passed_over(x, rq, 0))
		return 0;
	if (!s->is_apart && last && !passed_over(x, rq, last))
		return last;
	if (next && next->known && next->pool && !passed_over(x, rq, next->pool))
		return next->pool;
	return another_pool(x);
}

static void count_alive(struct explaining *x, uint16_t pool, uint32_t change)
{
	if (pool >= x->t->pools.n)
		x->guess->alive[pool - x->t->pools.n] += change;
}

/* The pool of the segment that the recording gave this request. */
static void guess_pool(struct explaining *x, const struct program_op *op)
{
	struct program_request *rq = &x->p->requests.at[op->request];
	uint32_t number = x->guess->pools.segment_of[op->event];
	struct pools_segment *s;

	if (number != TRACE_NONE) {
		s = &x->guess->pools.segments.at[number];
		if (!s->known && s->born >= x->next) {
			s->pool = pool_of_new(x, s, rq);
			count_alive(x, s->pool, 1);
		}
		rq->pool = s->pool;
	}
	x->guess->last_pool[rq->stream] = rq->pool;
}

/* Private pools that give memory back in this gap have no owner any more. */
static enum plim_status drop_pools(struct explaining *x, uint32_t before_op)
{
	const struct pools *p = &x->guess->pools;
	enum plim_status st = PLIM_OK;

	caching_hold_pools(&x->model);
	for (uint32_t e = x->next; !st && e < x->end; e++) {
		uint32_t s = x->d->events.action[e] == TRACE_SEGMENT_FREE ? p->segment_of[e]
									  : TRACE_NONE;
		struct program_found one = { before_op, PROGRAM_DROP_POOL, 0 };

		one.pool = s == TRACE_NONE ? 0 : p->segments.at[s].pool;
		if (!one.pool)
			continue;
		count_alive(x, (uint16_t)one.pool, UINT32_MAX); /* one less */
		if (x->model.is_dropped[one.pool])
			continue;
		st = vec_push(x->mem, &x->found, one, x->err);
		if (!st)
			st = caching_drop_pool(&x->model, (uint16_t)one.pool);
	}
	return st;
}

/* ---- op by op ---- */

static enum plim_status malloc_op(struct explaining *x, uint32_t number)
{
	const struct program_op *op = &x->p->ops.at[number];
	const struct program_request *rq = &x->p->requests.at[op->request];
	struct caching_request request = { rq->bytes, op->request, rq->stream, 0 };
	enum plim_status st = PLIM_OK;
	uint32_t block = CACHING_NONE;

	if (x->guess && op->kind != PROGRAM_ATTEMPT)
		guess_pool(x, op);
	request.pool = rq->pool;
	if (was_emptied(x, op))
		st = empty_cache(x, number);
	if (!st)
		st = caching_malloc(&x->model, &request, &block);
	if (st)
		return st;
	x->block_of[op->request] = block;
	if (op->kind == PROGRAM_ATTEMPT)
		x->wrong |= block != CACHING_NONE;
	else if (block == CACHING_NONE)
		x->wrong = 1;
	else if (x->model.blocks.at[block].addr != x->d->events.addr[op->event])
		differs(x, x->model.blocks.at[block].addr);
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
	if (completes)
		caching_free_completed(&x->model, block);
	else
		caching_free_requested(&x->model, block);
	return caching_status(&x->model);
}

static enum plim_status explaining_one(struct explaining *x, uint32_t number)
{
	const struct program_op *op = &x->p->ops.at[number];
	int frees = op->kind == PROGRAM_FREE || op->kind == PROGRAM_FREE_DONE;
	enum plim_status st;

	x->end = op->event;
	x->limit_hint = 0;
	st = x->guess ? drop_pools(x, number) : PLIM_OK;
	if (!st)
		st = frees ? rest_of_gap(x, number) : malloc_op(x, number);
	if (!st && frees)
		st = free_op(x, op);
	for (; x->next < x->end; x->next++)
		x->wrong |= is_segment_event(x->d->events.action[x->next]);
	x->check->events += x->next <= op->event; /* one event may stand for two ops */
	x->next = op->event + 1;
	return st;
}

static enum plim_status explain(struct explaining *x)
{
	enum plim_status st = PLIM_OK;
	uint32_t n = (uint32_t)x->p->ops.n;

	for (uint32_t i = 0; !st && i < n; i++) {
		if (x->p->ops.at[i].event == TRACE_NONE)
			continue; /* it was there already */
		st = explaining_one(x, i);
		if (x->wrong) {
			x->check->diverged_at = x->p->ops.at[i].event;
			return st;
		}
	}
	x->end = (uint32_t)x->d->events.n;
	if (!st && x->guess)
		st = drop_pools(x, n);
	if (!st)
		st = rest_of_gap(x, n);
	if (!st && x->wrong)
		x->check->diverged_at = x->end - 1;
	return st;
}

static enum plim_status begin_explaining(struct explaining *x,
					 const struct allocator_replay *replay)
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

static void begin_guess(struct explaining *x)
{
	memset(x->guess->alive, 0, sizeof(x->guess->alive));
	memset(x->guess->last_pool, 0, x->t->streams.n * sizeof(*x->guess->last_pool));
	x->guess->suspect_addr = 0;
	x->p->pools = x->t->pools.n;
	for (size_t i = 0; i < x->guess->pools.segments.n; i++)
		if (!x->guess->pools.segments.at[i].known)
			x->guess->pools.segments.at[i].pool = 0;
}

/* Once, with the limit that garbage collection is taken to go by. */
static enum plim_status attempt(struct explaining *x, const struct allocator_replay *replay,
				uint64_t limit_bytes)
{
	struct caching_setup setup = { .rules = replay->rules,
				       .driver = { .self = x,
						   .segment_alloc = segment_alloc,
						   .segment_free = segment_free,
						   .reserve = reserve_explaining,
						   .unreserve = unreserve_explaining,
						   .map = map_explaining,
						   .unmap = unmap_explaining },
				       .stream_values = x->t->streams.at,
				       .streams = x->t->streams.n,
				       .pools = x->t->pools.n + (x->guess ? GUESSED_POOLS : 0),
				       .limit_bytes = limit_bytes,
				       .device_bytes = (uint64_t)1 << 40 };
	enum plim_status st = caching_init(&x->model, x->mem, &setup, x->err);

	*x->check =
		(struct allocator_check){ .diverged_at = TRACE_NONE, .limit_bytes = limit_bytes };
	x->next = x->end = 0;
	x->wrong = 0;
	x->found.n = 0;
	if (x->guess)
		begin_guess(x);
	if (!st)
		st = begin_explaining(x, replay);
	if (!st)
		st = explain(x);
	caching_tell_error(&x->model, st, x->err);
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

static enum plim_status once(struct explaining *x, const struct allocator_replay *replay)
{
	return replay->rules.gc_threshold > 0 ? find_limit(x, replay)
					      : attempt(x, replay, UINT64_MAX);
}

/* Again and again, each time with one more segment distinguished, as long as that leads further. */
static enum plim_status guess_again(struct explaining *x, const struct allocator_replay *replay)
{
	uint32_t reached = 0;
	enum plim_status st = PLIM_OK;

	for (int i = 0; !st && i < GUESSES_MAX; i++) {
		st = once(x, replay);
		if (st || !x->wrong || x->check->diverged_at < reached)
			break;
		reached = x->check->diverged_at;
		if (!pools_rule_out(&x->guess->pools, x->guess->suspect_addr, x->guess->suspect_at))
			break;
	}
	return st;
}

/* Where the recording shows no pools they are guessed, and taken if that explains everything. */
static enum plim_status explain_pools(struct explaining *x, const struct allocator_replay *replay)
{
	struct guess guess = { .suspect_addr = 0 };
	uint16_t *told = mem_new(x->mem, x->p->requests.n, sizeof(*told), x->err);
	enum plim_status st =
		told ? pools_find(&guess.pools, x->mem, x->t, x->d, x->err) : mem_status(x->err);

	if (!st)
		guess.last_pool =
			mem_new(x->mem, x->t->streams.n, sizeof(*guess.last_pool), x->err);
	if (!st && !guess.last_pool)
		st = mem_status(x->err);
	for (size_t i = 0; !st && i < x->p->requests.n; i++)
		told[i] = x->p->requests.at[i].pool;
	x->guess = &guess;
	if (!st)
		st = guess_again(x, replay);
	x->guess = NULL;
	if (!st && x->wrong) {
		for (size_t i = 0; i < x->p->requests.n; i++)
			x->p->requests.at[i].pool = told[i];
		x->p->pools = x->t->pools.n;
		st = once(x, replay);
	}
	mem_free(x->mem, guess.last_pool, x->t->streams.n, sizeof(*guess.last_pool));
	if (told)
		pools_release(&guess.pools);
	mem_free(x->mem, told, x->p->requests.n, sizeof(*told));
	return st;
}

enum plim_status allocator_explain(struct mem *m, const struct snapshot *t,
				   const struct snapshot_device *d,
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
	x.reserved_max = snapshot_reserved_peak(d);
	x.block_of = mem_new(m, p->requests.n, sizeof(*x.block_of), err);
	if (!x.block_of)
		st = mem_status(err);
	else
		st = once(&x, replay);
	if (!st && x.wrong && t->pools.n + GUESSED_POOLS <= UINT16_MAX)
		st = explain_pools(&x, replay);
	if (!st)
		st = program_add_found(p, x.found.at, x.found.n, err);
	vec_release(m, &x.found);
	mem_free(m, x.block_of, p->requests.n, sizeof(*x.block_of));
	if (st)
		program_free(p);
	else
		*out = p;
	return st;
}
