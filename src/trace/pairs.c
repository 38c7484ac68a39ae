/*
 * Every allocation's life: its alloc, the program's free and the allocator's.  What lived before the
 * first event shows itself later, by a free without an alloc or as a block that still stands at the
 * end, so one walk forward finds the state at the start too.
 */
#include "reader.h"

struct pairing {
	struct trace *t;
	struct trace_device *d;
	struct addr_map live; /* allocations by address: index + 1 */
	VEC(struct trace_alloc) allocs;
	uint32_t *alloc_of; /* the events' column */
	struct plim_err *err;
};

static enum plim_status add(struct pairing *w, const struct trace_alloc *a, struct addr_slot *slot,
			    uint32_t *index)
{
	enum plim_status st;

	if (w->allocs.n >= TRACE_NONE - 1)
		return err_set(w->err, PLIM_E_FORMAT, "more than 2^32 allocations");
	st = vec_push(w->t->mem, &w->allocs, *a, w->err);
	if (st)
		return st;
	*index = (uint32_t)w->allocs.n - 1;
	if (slot)
		addr_map_put(&w->live, slot, a->addr, *index + 1);
	return PLIM_OK;
}

static enum plim_status on_alloc(struct pairing *w, uint32_t e, struct addr_slot *slot)
{
	const struct trace_events *ev = &w->d->events;
	struct trace_alloc a = { .addr = ev->addr[e],
				 .requested_bytes = ev->size[e],
				 .born = e,
				 .free_requested = TRACE_NONE,
				 .free_completed = TRACE_NONE,
				 .stack = ev->stack[e],
				 .stream = ev->stream[e] };

	if (slot->value) { /* its end was not recorded: it ended by now */
		struct trace_alloc *lost = &w->allocs.at[slot->value - 1];

		w->d->contradictions++;
		if (lost->free_requested == TRACE_NONE)
			lost->free_requested = e;
		lost->free_completed = e;
	}
	return add(w, &a, slot, &w->alloc_of[e]);
}

static enum plim_status on_free(struct pairing *w, uint32_t e, struct addr_slot *slot)
{
	const struct trace_events *ev = &w->d->events;
	int completed = ev->action[e] == TRACE_FREE_COMPLETED;
	struct trace_alloc *a;

	if (!slot->value) {
		struct trace_alloc before = { .addr = ev->addr[e],
					      .requested_bytes = ev->size[e],
					      .born = TRACE_NONE,
					      .free_requested = TRACE_NONE,
					      .free_completed = TRACE_NONE,
					      .stack = TRACE_NONE,
					      .stream = ev->stream[e],
					      .flags = TRACE_BEFORE |
						       (completed ? TRACE_PENDING_BEFORE : 0) };
		enum plim_status st = add(w, &before, slot, &w->alloc_of[e]);

		if (st)
			return st;
		w->d->allocs_before++;
	}
	w->alloc_of[e] = slot->value - 1;
	a = &w->allocs.at[slot->value - 1];
	if (completed) {
		w->d->contradictions +=
			a->free_requested == TRACE_NONE && !(a->flags & TRACE_PENDING_BEFORE);
		if (a->free_requested == TRACE_NONE && !(a->flags & TRACE_PENDING_BEFORE))
			a->free_requested = e;
		a->free_completed = e;
		addr_map_remove(&w->live, slot);
	} else {
		w->d->contradictions += a->free_requested != TRACE_NONE;
		a->free_requested = e;
	}
	return PLIM_OK;
}

static enum plim_status walk(struct pairing *w)
{
	const struct trace_events *ev = &w->d->events;
	enum plim_status st = PLIM_OK;

	for (uint32_t e = 0; !st && e < ev->n; e++) {
		struct addr_slot *slot;

		w->alloc_of[e] = TRACE_NONE;
		if (ev->action[e] > TRACE_FREE_COMPLETED)
			continue;
		st = addr_map_room(&w->live, w->err);
		if (st)
			break;
		slot = addr_map_find(&w->live, ev->addr[e]);
		st = ev->action[e] == TRACE_ALLOC ? on_alloc(w, e, slot) : on_free(w, e, slot);
	}
	return st;
}

/* One block that is active at the end: known, or it lived through the whole recording. */
static enum plim_status settle_block(struct pairing *w, const struct trace_segment *s,
				     const struct trace_block *b, size_t *matched)
{
	int pending = b->state == TRACE_ACTIVE_PENDING_FREE;
	struct addr_slot *slot;
	struct trace_alloc *a;
	enum plim_status st = addr_map_room(&w->live, w->err);
	uint32_t index;

	if (st)
		return st;
	slot = addr_map_find(&w->live, b->addr);
	if (slot->value) {
		a = &w->allocs.at[slot->value - 1];
		w->d->contradictions += a->requested_bytes != b->requested_bytes ||
					pending != (a->free_requested != TRACE_NONE);
		++*matched;
		return PLIM_OK;
	}
	w->d->allocs_before++;
	return add(w,
		   &(struct trace_alloc){ .addr = b->addr,
					  .requested_bytes = b->requested_bytes,
					  .born = TRACE_NONE,
					  .free_requested = TRACE_NONE,
					  .free_completed = TRACE_NONE,
					  .stack = b->stack,
					  .stream = s->stream,
					  .flags = TRACE_BEFORE |
						   (pending ? TRACE_PENDING_BEFORE : 0) },
		   NULL, &index);
}

static enum plim_status settle_end(struct pairing *w)
{
	const struct trace *t = w->t;
	const struct trace_device *d = w->d;
	size_t live = w->live.n, matched = 0;
	enum plim_status st = PLIM_OK;

	for (uint32_t i = 0; i < d->segments; i++) {
		const struct trace_segment *s = &t->segments.at[d->first_segment + i];

		for (uint32_t k = 0; !st && k < s->blocks; k++) {
			const struct trace_block *b = &t->blocks.at[s->first_block + k];

			if (b->state != TRACE_INACTIVE)
				st = settle_block(w, s, b, &matched);
		}
	}
	if (d->segments || !live)
		w->d->contradictions += live > matched ? live - matched : matched - live;
	return st;
}

/* Reserved memory before the first event, from what stands at the end and all that changed it. */
static void find_reserved_before(struct trace *t, struct trace_device *d)
{
	uint64_t sum = 0; /* sizes may be lies: it wraps */
	int64_t bytes;

	for (uint32_t i = 0; i < d->segments; i++)
		sum += t->segments.at[d->first_segment + i].bytes;
	for (size_t e = 0; e < d->events.n; e++) {
		uint8_t action = d->events.action[e];

		if (action == TRACE_SEGMENT_ALLOC || action == TRACE_SEGMENT_MAP)
			sum -= d->events.size[e];
		else if (action == TRACE_SEGMENT_FREE || action == TRACE_SEGMENT_UNMAP)
			sum += d->events.size[e];
	}
	bytes = (int64_t)sum;
	d->contradictions += bytes < 0 && d->segments;
	d->reserved_before_bytes = bytes > 0 ? (uint64_t)bytes : 0;
}

enum plim_status pairs_find(struct trace *t, struct trace_device *d, struct plim_err *err)
{
	/* the columns are the trace's own; only readers see them const */
	struct pairing w = { .t = t,
			     .d = d,
			     .live = { .mem = t->mem },
			     .alloc_of = d->events.n ? t->columns->alloc +
							       (d->events.alloc - t->columns->alloc)
						     : NULL,
			     .err = err };
	enum plim_status st = walk(&w);

	if (!st)
		st = settle_end(&w);
	addr_map_release(&w.live);
	mem_trim(t->mem, &w.allocs.at, &w.allocs.cap, w.allocs.n, sizeof(*w.allocs.at));
	d->allocs = w.allocs.at;
	d->alloc_count = w.allocs.n;
	d->alloc_room = w.allocs.cap;
	if (!st)
		find_reserved_before(t, d);
	return st;
}
