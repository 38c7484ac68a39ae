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

static enum plim_status op(struct program *p, uint32_t request, enum program_op_kind kind,
			   struct plim_err *err)
{
	return vec_push(p->mem, &p->ops, ((struct program_op){ request, kind }), err);
}

static enum plim_status request(struct program *p, uint64_t bytes, uint32_t stack, uint32_t stream,
				enum program_op_kind kind, struct plim_err *err)
{
	enum plim_status st = vec_push(p->mem, &p->requests,
				       ((struct program_request){ bytes, stack, stream }), err);

	return st ? st : op(p, (uint32_t)p->requests.n - 1, kind, err);
}

/* Requests that are already there; number[alloc] becomes each one's request. */
static enum plim_status open_with(struct program *p, const struct trace_device *d, uint32_t *number,
				  struct plim_err *err)
{
	size_t n = 0;
	struct before *list = mem_new(p->mem, d->allocs_before, sizeof(*list), err);
	enum plim_status st = list ? PLIM_OK : err ? err->status : PLIM_E_NOMEM;

	for (uint32_t a = 0; !st && a < d->alloc_count; a++)
		if (d->allocs[a].flags & TRACE_BEFORE)
			list[n++] = (struct before){ d->allocs[a].addr, a };
	if (n)
		qsort(list, n, sizeof(*list), by_addr);
	for (size_t i = 0; !st && i < n; i++) {
		const struct trace_alloc *a = &d->allocs[list[i].alloc];

		number[list[i].alloc] = (uint32_t)p->requests.n;
		st = request(p, a->requested_bytes, a->stack, a->stream, PROGRAM_ALLOC, err);
		if (!st && a->flags & TRACE_PENDING_BEFORE)
			st = op(p, number[list[i].alloc], PROGRAM_FREE, err);
	}
	p->requests_before = (uint32_t)n;
	mem_free(p->mem, list, d->allocs_before, sizeof(*list));
	return st;
}

static enum plim_status follow(struct program *p, const struct trace_device *d, uint32_t *number,
			       struct plim_err *err)
{
	const struct trace_events *ev = &d->events;
	enum plim_status st = PLIM_OK;

	for (size_t e = 0; !st && e < ev->n; e++) {
		uint32_t a = ev->alloc[e];

		switch (ev->action[e]) {
		case TRACE_ALLOC:
			number[a] = (uint32_t)p->requests.n;
			st = request(p, ev->size[e], ev->stack[e], ev->stream[e], PROGRAM_ALLOC,
				     err);
			break;
		case TRACE_FREE_REQUESTED: st = op(p, number[a], PROGRAM_FREE, err); break;
		case TRACE_FREE_COMPLETED: st = op(p, number[a], PROGRAM_FREE_DONE, err); break;
		case TRACE_OOM:
			st = request(p, ev->size[e], ev->stack[e], ev->stream[e], PROGRAM_ATTEMPT,
				     err);
			break;
		default: break; /* segments are the allocator's doing, not the program's */
		}
	}
	return st;
}

enum plim_status program_from_trace(struct mem *m, const struct trace *t,
				    const struct trace_device *d, struct program **out,
				    struct plim_err *err)
{
	struct program *p = mem_new(m, 1, sizeof(*p), err);
	uint32_t *number = p ? mem_new(m, d->alloc_count, sizeof(*number), err) : NULL;
	enum plim_status st = number ? PLIM_OK : err ? err->status : PLIM_E_NOMEM;

	(void)t;
	*out = NULL;
	if (p)
		p->mem = m;
	if (!st)
		st = open_with(p, d, number, err);
	if (!st)
		st = follow(p, d, number, err);
	mem_free(m, number, d->alloc_count, sizeof(*number));
	if (st)
		program_free(p);
	else
		*out = p;
	return st;
}

void program_free(struct program *p)
{
	struct mem *m;

	if (!p)
		return;
	m = p->mem;
	vec_release(m, &p->requests);
	vec_release(m, &p->ops);
	mem_free(m, p, 1, sizeof(*p));
}
