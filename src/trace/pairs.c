/*
 * Every allocation's life: its alloc, the program's free and the allocator's.  What lived before the
 * first event shows itself later, by a free without an alloc or as a block that still stands at the
 * end, so one walk forward finds the state at the start too.
 */
#include "reader.h"

#include <string.h>

/* Live blocks by address: open addressing, deletion by moving back what was pushed aside. */
struct live {
	struct mem *mem;
	struct live_slot {
		uint64_t addr;
		uint32_t alloc; /* index + 1, 0: empty */
	} * at;
	size_t mask, n;
};

static inline size_t home(const struct live *l, uint64_t addr)
{
	return (size_t)((addr >> 9) * 0x9e3779b97f4a7c15u >> 32) & l->mask;
}

static inline struct live_slot *live_find(const struct live *l, uint64_t addr)
{
	size_t s = home(l, addr);

	while (l->at[s].alloc && l->at[s].addr != addr)
		s = (s + 1) & l->mask;
	return &l->at[s];
}

static void live_remove(struct live *l, struct live_slot *slot)
{
	size_t hole = (size_t)(slot - l->at), s = hole;

	for (;;) {
		s = (s + 1) & l->mask;
		if (!l->at[s].alloc)
			break;
		/* may it move into the hole without passing its home? */
		if (((s - home(l, l->at[s].addr)) & l->mask) >= ((s - hole) & l->mask)) {
			l->at[hole] = l->at[s];
			hole = s;
		}
	}
	l->at[hole].alloc = 0;
	l->n--;
}

/* Room for one more. */
static enum plim_status live_room(struct live *l, struct plim_err *err)
{
	struct live bigger = { .mem = l->mem, .n = l->n };
	size_t count = l->at ? 2 * (l->mask + 1) : 1024;

	if (l->at && 2 * (l->n + 1) <= l->mask)
		return PLIM_OK;
	bigger.at = mem_new(l->mem, count, sizeof(*bigger.at), err);
	if (!bigger.at)
		return mem_status(err);
	bigger.mask = count - 1;
	for (size_t i = 0; l->at && i <= l->mask; i++)
		if (l->at[i].alloc)
			*live_find(&bigger, l->at[i].addr) = l->at[i];
	mem_free(l->mem, l->at, l->at ? l->mask + 1 : 0, sizeof(*l->at));
	*l = bigger;
	return PLIM_OK;
}

struct pairing {
	struct trace *t;
	struct trace_device *d;
	struct live live;
	VEC(struct trace_alloc) allocs;
	uint32_t *alloc_of; /* the events' column */
	struct plim_err *err;
};

static enum plim_status add(struct pairing *w, const struct trace_alloc *a, struct live_slot *slot,
			    uint32_t *index)
{
	enum plim_status st;

	if (w->allocs.n >= TRACE_NONE - 1)
		return err_set(w->err, PLIM_E_FORMAT, "more than 2^32 allocations");
	st = vec_push(w->t->mem, &w->allocs, *a, w->err);
	if (st)
		return st;
	*index = (uint32_t)w->allocs.n - 1;
	if (slot) {
		*slot = (struct live_slot){ a->addr, *index + 1 };
		w->live.n++;
	}
	return PLIM_OK;
}

static enum plim_status on_alloc(struct pairing *w, uint32_t e, struct live_slot *slot)
{
	const struct trace_events *ev = &w->d->events;
	struct trace_alloc a = { .addr = ev->addr[e],
				 .requested_bytes = ev->size[e],
				 .born = e,
				 .free_requested = TRACE_NONE,
				 .free_completed = TRACE_NONE,
				 .stack = ev->stack[e],
				 .stream = ev->stream[e] };

	if (slot->alloc) { /* its end was not recorded: it ended by now */
		struct trace_alloc *lost = &w->allocs.at[slot->alloc - 1];

		w->d->contradictions++;
		if (lost->free_requested == TRACE_NONE)
			lost->free_requested = e;
		lost->free_completed = e;
		w->live.n--;
	}
	return add(w, &a, slot, &w->alloc_of[e]);
}

static enum plim_status on_free(struct pairing *w, uint32_t e, struct live_slot *slot)
{
	const struct trace_events *ev = &w->d->events;
	int completed = ev->action[e] == TRACE_FREE_COMPLETED;
	struct trace_alloc *a;

	if (!slot->alloc) {
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
	w->alloc_of[e] = slot->alloc - 1;
	a = &w->allocs.at[slot->alloc - 1];
	if (completed) {
		w->d->contradictions +=
			a->free_requested == TRACE_NONE && !(a->flags & TRACE_PENDING_BEFORE);
		if (a->free_requested == TRACE_NONE && !(a->flags & TRACE_PENDING_BEFORE))
			a->free_requested = e;
		a->free_completed = e;
		live_remove(&w->live, slot);
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
		struct live_slot *slot;

		w->alloc_of[e] = TRACE_NONE;
		if (ev->action[e] > TRACE_FREE_COMPLETED)
			continue;
		st = live_room(&w->live, w->err);
		if (st)
			break;
		slot = live_find(&w->live, ev->addr[e]);
		st = ev->action[e] == TRACE_ALLOC ? on_alloc(w, e, slot) : on_free(w, e, slot);
	}
	return st;
}

/* One block that is active at the end: known, or it lived through the whole recording. */
static enum plim_status settle_block(struct pairing *w, const struct trace_segment *s,
				     const struct trace_block *b, size_t *matched)
{
	int pending = b->state == TRACE_ACTIVE_PENDING_FREE;
	struct live_slot *slot;
	struct trace_alloc *a;
	enum plim_status st = live_room(&w->live, w->err);
	uint32_t index;

	if (st)
		return st;
	slot = live_find(&w->live, b->addr);
	if (slot->alloc) {
		a = &w->allocs.at[slot->alloc - 1];
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
	mem_free(t->mem, w.live.at, w.live.at ? w.live.mask + 1 : 0, sizeof(*w.live.at));
	mem_trim(t->mem, &w.allocs.at, &w.allocs.cap, w.allocs.n, sizeof(*w.allocs.at));
	d->allocs = w.allocs.at;
	d->alloc_count = w.allocs.n;
	d->alloc_room = w.allocs.cap;
	if (!st)
		find_reserved_before(t, d);
	return st;
}
