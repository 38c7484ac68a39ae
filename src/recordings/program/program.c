#include "program.h"

#include <stdlib.h>

/* The allocations that lived before the first event, by address. */
struct before {
	uint64_t addr;
	uint32_t alloc;
};

static int by_addr(const void *a, const void *b)
{
	const struct before *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/*
 * Which private pool a request went to.  Before 2.12 events do not say; but a segment that stands at
 * the end knows its pool, and what was allocated in it since it was made was of that pool.
 */
struct pool_range {
	uint64_t addr, end;
	uint32_t since; /* event */
	uint16_t pool;
};

struct pools {
	const struct snapshot *t;
	const struct snapshot_device *d;
	VEC(struct pool_range) ranges; /* private ones, by address */
};

static int range_by_addr(const void *a, const void *b)
{
	const struct pool_range *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static struct pool_range *pool_range(const struct pools *p, uint64_t addr)
{
	size_t low = 0, high = p->ranges.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (p->ranges.at[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < p->ranges.n && p->ranges.at[low].addr <= addr ? &p->ranges.at[low] : NULL;
}

static enum plim_status pools_find(struct pools *p, struct mem *m, struct plim_err *err)
{
	const struct snapshot_events *ev = &p->d->events;
	enum plim_status st = PLIM_OK;

	for (uint32_t i = 0; !st && i < p->d->segments; i++) {
		const struct snapshot_segment *s = &p->t->segments.at[p->d->first_segment + i];
		struct pool_range one = { s->addr, s->addr + s->bytes, 0, (uint16_t)s->pool };

		if (s->pool)
			st = vec_push(m, &p->ranges, one, err);
	}
	sort_items(p->ranges.at, p->ranges.n, sizeof(*p->ranges.at), range_by_addr);
	for (uint32_t e = 0; p->ranges.n && e < ev->n; e++) {
		struct pool_range *r;

		if (ev->action[e] != TRACE_SEGMENT_FREE && ev->action[e] != TRACE_SEGMENT_UNMAP)
			continue;
		r = pool_range(p, ev->addr[e]);
		if (r)
			r->since = e;
	}
	return st;
}

static uint16_t pool_of(const struct pools *p, uint32_t event)
{
	const struct snapshot_events *ev = &p->d->events;
	const struct pool_range *r;

	if (ev->pool)
		return ev->pool[event];
	if (!p->ranges.n || ev->action[event] != TRACE_ALLOC)
		return 0;
	r = pool_range(p, ev->addr[event]);
	return r && r->since <= event ? r->pool : 0;
}

static enum plim_status op(struct program *p, uint32_t request, enum program_op_kind kind,
			   uint32_t event, struct plim_err *err)
{
	return vec_push(p->mem, &p->ops, ((struct program_op){ request, event, kind }), err);
}

static enum plim_status request(struct program *p, const struct program_request *rq,
				enum program_op_kind kind, uint32_t event, struct plim_err *err)
{
	enum plim_status st = vec_push(p->mem, &p->requests, *rq, err);

	return st ? st : op(p, (uint32_t)p->requests.n - 1, kind, event, err);
}

/* Requests that are already there; number[alloc] becomes each one's request. */
static enum plim_status open_with(struct program *p, const struct pools *pools, uint32_t *number,
				  struct plim_err *err)
{
	const struct snapshot_device *d = pools->d;
	size_t n = 0;
	struct before *list = mem_new(p->mem, d->allocs_before, sizeof(*list), err);
	enum plim_status st;

	p->allocs_before =
		list ? mem_new(p->mem, d->allocs_before, sizeof(*p->allocs_before), err) : NULL;
	p->requests_before = d->allocs_before;
	st = p->allocs_before ? PLIM_OK : mem_status(err);
	for (uint32_t a = 0; !st && a < d->alloc_count; a++)
		if (d->allocs[a].flags & TRACE_BEFORE)
			list[n++] = (struct before){ d->allocs[a].addr, a };
	sort_items(list, n, sizeof(*list), by_addr);
	for (size_t i = 0; !st && i < n; i++) {
		const struct snapshot_alloc *a = &d->allocs[list[i].alloc];
		const struct pool_range *r = pool_range(pools, a->addr);
		struct program_request rq = { a->requested_bytes, a->stack, (uint16_t)a->stream,
					      r && !r->since ? r->pool : 0 };

		number[list[i].alloc] = (uint32_t)p->requests.n;
		p->allocs_before[i] = list[i].alloc;
		st = request(p, &rq, PROGRAM_ALLOC, TRACE_NONE, err);
		if (!st && a->flags & TRACE_PENDING_BEFORE)
			st = op(p, number[list[i].alloc], PROGRAM_FREE, TRACE_NONE, err);
	}
	mem_free(p->mem, list, d->allocs_before, sizeof(*list));
	return st;
}

#define WORKSPACE_MIN (1u << 20) /* smaller ones are of no account */

/*
 * A convolution asks cuDNN for an algorithm, and frees its workspace before it allocates anything else.  Where
 * that fails PyTorch goes on with the next algorithm (Conv_v8.cpp, Conv_v7.cpp: it catches OutOfMemoryError).
 * The backward pass has no Python stack: there it is what is freed at once in a program with convolutions.
 */
static int is_workspace(const struct pools *p, uint32_t e, int *convolves)
{
	static const char *const names[] = { "_conv_forward", "convolution", "conv_transpose" };
	const struct snapshot_events *ev = &p->d->events;
	uint8_t freed = p->d->no_free_requested ? TRACE_FREE_COMPLETED : TRACE_FREE_REQUESTED;
	int named = 0;

	if (ev->size[e] < WORKSPACE_MIN || e + 1 >= ev->n || ev->alloc[e + 1] != ev->alloc[e] ||
	    ev->action[e + 1] != freed)
		return 0;
	if (snapshot_stackless(p->t, ev->stack[e]))
		return *convolves;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !named; i++)
		named = snapshot_stack_names(p->t, ev->stack[e], names[i]);
	*convolves |= named;
	return named;
}

/* One free stands for both if the other kind was not recorded. */
static enum plim_status free_ops(struct program *p, const struct snapshot_device *d,
				 uint32_t number, uint32_t e, struct plim_err *err)
{
	int requests = d->events.action[e] == TRACE_FREE_REQUESTED;
	enum plim_status st = PLIM_OK;

	if (requests || d->no_free_requested)
		st = op(p, number, PROGRAM_FREE, e, err);
	if (!st && (!requests || d->no_free_completed))
		st = op(p, number, PROGRAM_FREE_DONE, e, err);
	return st;
}

static enum plim_status follow_program(struct program *p, const struct pools *pools,
				       uint32_t *number, struct plim_err *err)
{
	const struct snapshot_events *ev = &pools->d->events;
	enum plim_status st = PLIM_OK;
	int convolves = 0;

	for (uint32_t e = 0; !st && e < ev->n; e++) {
		uint32_t a = ev->alloc[e];

		switch (ev->action[e]) {
		case TRACE_ALLOC:
		case TRACE_OOM: {
			struct program_request rq = { ev->size[e], ev->stack[e], ev->stream[e],
						      pool_of(pools, e) };
			enum program_op_kind kind = PROGRAM_ATTEMPT;

			if (ev->action[e] == TRACE_ALLOC) {
				number[a] = (uint32_t)p->requests.n;
				kind = is_workspace(pools, e, &convolves) ? PROGRAM_WORKSPACE
									  : PROGRAM_ALLOC;
			}
			st = request(p, &rq, kind, e, err);
			break;
		}
		case TRACE_FREE_REQUESTED:
		case TRACE_FREE_COMPLETED: st = free_ops(p, pools->d, number[a], e, err); break;
		default: break; /* segments are the allocator's doing, not the program's */
		}
	}
	return st;
}

enum plim_status program_from_trace(struct mem *m, const struct snapshot *t,
				    const struct snapshot_device *d, struct program **out,
				    struct plim_err *err)
{
	struct program *p = mem_new(m, 1, sizeof(*p), err);
	uint32_t *number = p ? mem_new(m, d->alloc_count, sizeof(*number), err) : NULL;
	struct pools pools = { .t = t, .d = d };
	enum plim_status st = number ? PLIM_OK : mem_status(err);

	*out = NULL;
	if (p) {
		p->mem = m;
		p->death = snapshot_find_death(&d->events);
		p->pools = t->pools.n;
		p->streams = t->streams.at;
		p->stream_count = t->streams.n;
	}
	if (!st)
		st = pools_find(&pools, m, err);
	if (!st)
		st = open_with(p, &pools, number, err);
	if (!st)
		st = follow_program(p, &pools, number, err);
	if (!st)
		CHECKED(program_check(p));
	vec_release(m, &pools.ranges);
	mem_free(m, number, d->alloc_count, sizeof(*number));
	if (st)
		program_free(p);
	else
		*out = p;
	return st;
}

enum plim_status program_new(struct mem *m, struct program **out, struct plim_err *err)
{
	static const int64_t default_stream[] = { 0 };
	struct program *p = mem_new(m, 1, sizeof(*p), err);

	*out = p;
	if (!p)
		return mem_status(err);
	p->mem = m;
	p->pools = 1;
	p->streams = default_stream;
	p->stream_count = 1;
	p->death = TRACE_NONE;
	return PLIM_OK;
}

void program_free(struct program *p)
{
	struct mem *m;

	if (!p)
		return;
	m = p->mem;
	vec_release(m, &p->requests);
	vec_release(m, &p->ops);
	mem_free(m, p->allocs_before, p->requests_before, sizeof(*p->allocs_before));
	mem_free(m, p, 1, sizeof(*p));
}

enum plim_status program_add_found(struct program *p, const struct program_found *found, size_t n,
				   struct plim_err *err)
{
	enum plim_status st = vec_need(p->mem, &p->ops, n, err);
	uint32_t event = TRACE_NONE;
	size_t from = p->ops.n;

	if (st)
		return st;
	p->ops.n += n;
	for (size_t to = p->ops.n; n; to--) { /* from the end, so that it can be done in place */
		struct program_op next;

		if (found[n - 1].before == from) {
			n--;
			next = (struct program_op){ found[n].pool, event, found[n].kind };
		} else {
			next = p->ops.at[--from];
		}
		event = next.event;
		p->ops.at[to - 1] = next;
	}
	CHECKED(program_check(p));
	return PLIM_OK;
}

/* ---- other streams ---- */

/* An op, and where it goes. */
struct delayed_op {
	uint64_t at;
	uint32_t op;
};

static int by_place(const void *a, const void *b)
{
	const struct delayed_op *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return (x->op > y->op) - (x->op < y->op);
}

/* Where each op goes.  What is done with in the next op did not wait. */
static int delay_ops(const struct program *p, unsigned times, uint32_t *dropped_at,
		     struct delayed_op *moved)
{
	int any = 0;

	for (uint32_t i = 0; i < p->ops.n; i++) {
		const struct program_op *op = &p->ops.at[i];
		uint32_t dropped;

		moved[i] = (struct delayed_op){ i, i };
		if (op->kind == PROGRAM_FREE)
			dropped_at[op->request] = i + 1;
		if (op->kind != PROGRAM_FREE_DONE || !dropped_at[op->request])
			continue;
		dropped = dropped_at[op->request] - 1;
		if (i - dropped < 2)
			continue;
		any = 1;
		moved[i].at = dropped + (uint64_t)times * (i - dropped);
	}
	return any;
}

enum plim_status program_delayed(struct mem *m, const struct program *p, unsigned times,
				 struct program *out, int *any, struct plim_err *err)
{
	size_t n = p->ops.n;
	uint32_t *dropped_at = mem_new(m, p->requests.n, sizeof(*dropped_at), err);
	struct delayed_op *moved = dropped_at ? mem_new(m, n, sizeof(*moved), err) : NULL;
	enum plim_status st = moved ? PLIM_OK : mem_status(err);

	*any = !st && delay_ops(p, times, dropped_at, moved);
	mem_free(m, dropped_at, p->requests.n, sizeof(*dropped_at));
	*out = *p;
	if (*any) {
		sort_items(moved, n, sizeof(*moved), by_place);
		out->ops.at = mem_new(m, n, sizeof(*out->ops.at), err);
		st = out->ops.at ? PLIM_OK : mem_status(err);
	}
	for (size_t i = 0; !st && *any && i < n; i++)
		out->ops.at[i] = p->ops.at[moved[i].op];
	mem_free(m, moved, n, sizeof(*moved));
	return st;
}

void program_delayed_free(struct mem *m, struct program *out)
{
	mem_free(m, out->ops.at, out->ops.n, sizeof(*out->ops.at));
}
