/*
 * Every allocation's life: its alloc, the program's free and the allocator's.  What lived before the
 * first event shows itself later, by a free without an alloc or as a block that still stands at the
 * end, so one walk forward finds the state at the start too.
 */
#include "reader.h"

/* One part of the walk. */
struct walk {
	struct pairing *p;
	const struct snapshot_events *ev;
	uint32_t *alloc_of; /* the events' column */
	struct plim_err *err;
};

static enum plim_status add_pair(struct pairing *p, const struct snapshot_alloc *a,
				 struct addr_slot *slot, uint32_t *index, struct plim_err *err)
{
	enum plim_status st;

	if (p->allocs.n >= TRACE_NONE - 1)
		return err_set(err, PLIM_E_FORMAT, "more than 2^32 allocations");
	st = vec_push(p->mem, &p->allocs, *a, err);
	if (st)
		return st;
	*index = (uint32_t)p->allocs.n - 1;
	if (slot)
		addr_map_put(&p->live, slot, a->addr, *index + 1);
	return PLIM_OK;
}

static enum plim_status on_alloc(struct walk *w, uint32_t e, struct addr_slot *slot)
{
	const struct snapshot_events *ev = w->ev;
	struct snapshot_alloc a = { .addr = ev->addr[e],
				    .requested_bytes = ev->size[e],
				    .born = e,
				    .free_requested = TRACE_NONE,
				    .free_completed = TRACE_NONE,
				    .stack = ev->stack[e],
				    .stream = ev->stream[e] };

	if (slot->value) { /* its end was not recorded: it ended by now */
		struct snapshot_alloc *lost = &w->p->allocs.at[slot->value - 1];

		if (lost->free_requested == TRACE_NONE)
			w->p->contradictions++;
		else
			w->p->uncompleted++;
		if (lost->free_requested == TRACE_NONE)
			lost->free_requested = e;
		lost->free_completed = e;
	}
	return add_pair(w->p, &a, slot, &w->alloc_of[e], w->err);
}

static enum plim_status on_free(struct walk *w, uint32_t e, struct addr_slot *slot)
{
	const struct snapshot_events *ev = w->ev;
	int completed = ev->action[e] == TRACE_FREE_COMPLETED;
	struct pairing *p = w->p;
	struct snapshot_alloc *a;

	if (!slot->value) {
		struct snapshot_alloc before = { .addr = ev->addr[e],
						 .requested_bytes = ev->size[e],
						 .born = TRACE_NONE,
						 .free_requested = TRACE_NONE,
						 .free_completed = TRACE_NONE,
						 .stack = TRACE_NONE,
						 .stream = ev->stream[e],
						 .flags = TRACE_BEFORE |
							  (completed ? TRACE_PENDING_BEFORE : 0) };
		enum plim_status st = add_pair(p, &before, slot, &w->alloc_of[e], w->err);

		if (st)
			return st;
		p->before++;
	}
	w->alloc_of[e] = slot->value - 1;
	a = &p->allocs.at[slot->value - 1];
	p->requested += !completed;
	p->completed += completed;
	if (completed) {
		p->unrequested +=
			a->free_requested == TRACE_NONE && !(a->flags & TRACE_PENDING_BEFORE);
		if (a->free_requested == TRACE_NONE && !(a->flags & TRACE_PENDING_BEFORE))
			a->free_requested = e;
		a->free_completed = e;
		addr_map_remove(&p->live, slot);
	} else {
		p->contradictions += a->free_requested != TRACE_NONE;
		a->free_requested = e;
	}
	return PLIM_OK;
}

static void on_other(struct walk *w, uint32_t e)
{
	uint8_t action = w->ev->action[e];

	w->alloc_of[e] = TRACE_NONE;
	if (action == TRACE_SEGMENT_ALLOC || action == TRACE_SEGMENT_MAP)
		w->p->reserved_bytes += w->ev->size[e];
	else if (action == TRACE_SEGMENT_FREE || action == TRACE_SEGMENT_UNMAP)
		w->p->reserved_bytes -= w->ev->size[e];
}

enum plim_status pairs_walk(struct pairing *p, const struct snapshot_events *ev, uint32_t *alloc_of,
			    struct plim_err *err)
{
	struct walk w = { p, ev, alloc_of, err };
	enum plim_status st = PLIM_OK;
	uint32_t e;

	for (e = (uint32_t)p->done; !st && e < ev->n; e++) {
		struct addr_slot *slot;

		if (ev->action[e] > TRACE_FREE_COMPLETED) {
			on_other(&w, e);
			continue;
		}
		st = addr_map_room(&p->live, err);
		if (st)
			break;
		slot = addr_map_find(&p->live, ev->addr[e]);
		st = ev->action[e] == TRACE_ALLOC ? on_alloc(&w, e, slot) : on_free(&w, e, slot);
	}
	p->done = e;
	return st;
}

/* ---- the end ---- */

/* One block that is active at the end: known, or it lived through the whole recording. */
static enum plim_status settle_block(struct pairing *p, const struct snapshot_segment *s,
				     const struct snapshot_block *b, size_t *matched,
				     struct plim_err *err)
{
	int pending = b->state == TRACE_ACTIVE_PENDING_FREE;
	struct addr_slot *slot;
	struct snapshot_alloc *a;
	enum plim_status st = addr_map_room(&p->live, err);
	uint32_t index;

	if (st)
		return st;
	slot = addr_map_find(&p->live, b->addr);
	if (slot->value) {
		a = &p->allocs.at[slot->value - 1];
		p->contradictions += a->requested_bytes != b->requested_bytes ||
				     pending != (a->free_requested != TRACE_NONE);
		++*matched;
		return PLIM_OK;
	}
	p->before++;
	return add_pair(p,
			&(struct snapshot_alloc){ .addr = b->addr,
						  .requested_bytes = b->requested_bytes,
						  .born = TRACE_NONE,
						  .free_requested = TRACE_NONE,
						  .free_completed = TRACE_NONE,
						  .stack = b->stack,
						  .stream = s->stream,
						  .flags = TRACE_BEFORE |
							   (pending ? TRACE_PENDING_BEFORE : 0) },
			NULL, &index, err);
}

static int is_pending_at_end(const struct snapshot *t, const struct snapshot_device *d)
{
	for (uint32_t i = 0; i < d->segments; i++) {
		const struct snapshot_segment *s = &t->segments.at[d->first_segment + i];

		for (uint32_t k = 0; k < s->blocks; k++)
			if (t->blocks.at[s->first_block + k].state == TRACE_ACTIVE_PENDING_FREE)
				return 1;
	}
	return 0;
}

/*
 * A kind of free that never occurs was not recorded: the other one stands for both.  A single completion without its
 * request proves nothing: a ring may begin between the two.
 */
static void settle_kinds(struct pairing *p, const struct snapshot *t, struct snapshot_device *d)
{
	d->no_free_requested = (p->unrequested > 1 || t->profile.kind) && !p->requested;
	d->no_free_completed =
		p->requested && !p->completed && d->segments && !is_pending_at_end(t, d);
	p->contradictions += d->no_free_requested ? 0 : p->unrequested;
	p->contradictions += d->no_free_completed ? 0 : p->uncompleted;
	for (size_t a = 0; d->no_free_requested && a < p->allocs.n; a++) {
		struct snapshot_alloc *one = &p->allocs.at[a];

		if (one->free_completed == TRACE_NONE)
			continue;
		one->free_requested = one->free_completed;
		one->flags &= ~(uint32_t)TRACE_PENDING_BEFORE;
	}
	for (size_t a = 0; d->no_free_completed && a < p->allocs.n; a++) {
		struct snapshot_alloc *one = &p->allocs.at[a];
		struct addr_slot *slot = addr_map_find(&p->live, one->addr);

		if (one->free_requested == TRACE_NONE)
			continue;
		one->free_completed = one->free_requested;
		if (slot->value == a + 1)
			addr_map_remove(&p->live, slot);
	}
}

static enum plim_status settle_end(struct pairing *p, const struct snapshot *t,
				   const struct snapshot_device *d, struct plim_err *err)
{
	size_t live = p->live.n, matched = 0;
	enum plim_status st = PLIM_OK;

	for (uint32_t i = 0; i < d->segments; i++) {
		const struct snapshot_segment *s = &t->segments.at[d->first_segment + i];

		for (uint32_t k = 0; !st && k < s->blocks; k++) {
			const struct snapshot_block *b = &t->blocks.at[s->first_block + k];

			if (b->state != TRACE_INACTIVE)
				st = settle_block(p, s, b, &matched, err);
		}
	}
	if (d->segments || !live)
		p->contradictions += live > matched ? live - matched : matched - live;
	return st;
}

/* Reserved memory before the first event, from what stands at the end and all that changed it. */
static void find_reserved_before(const struct pairing *p, const struct snapshot *t,
				 struct snapshot_device *d)
{
	uint64_t sum = 0; /* sizes may be lies: it wraps */
	int64_t bytes;

	for (uint32_t i = 0; i < d->segments; i++)
		sum += t->segments.at[d->first_segment + i].bytes;
	bytes = (int64_t)(sum - p->reserved_bytes);
	d->contradictions += bytes < 0 && d->segments;
	d->reserved_before_bytes = bytes > 0 ? (uint64_t)bytes : 0;
}

/* A profiler's first row has what lived before; what of it was not freed since stays one allocation. */
static enum plim_status settle_profile(struct pairing *p, struct snapshot_device *d,
				       struct plim_err *err)
{
	const struct snapshot_events *ev = &d->events;
	struct snapshot_alloc rest = { .born = TRACE_NONE,
				       .free_requested = TRACE_NONE,
				       .free_completed = TRACE_NONE,
				       .stack = TRACE_NONE,
				       .flags = TRACE_BEFORE };
	uint32_t index;

	if (!ev->n || ev->action[0] != TRACE_SNAPSHOT)
		return PLIM_OK;
	d->reserved_before_bytes = ev->size[0];
	rest.requested_bytes = ev->addr[0];
	for (size_t a = 0; a < p->allocs.n; a++) {
		const struct snapshot_alloc *one = &p->allocs.at[a];

		if (!(one->flags & TRACE_BEFORE))
			continue;
		if (one->requested_bytes >= rest.requested_bytes)
			return PLIM_OK;
		rest.requested_bytes -= one->requested_bytes;
	}
	if (!rest.requested_bytes)
		return PLIM_OK;
	p->before++;
	return add_pair(p, &rest, NULL, &index, err);
}

void pairs_init(struct pairing *p, struct mem *m)
{
	*p = (struct pairing){ .mem = m, .live = { .mem = m } };
}

void pairs_release(struct pairing *p)
{
	addr_map_release(&p->live);
	vec_release(p->mem, &p->allocs);
}

enum plim_status pairs_find(struct snapshot *t, struct snapshot_device *d, struct pairing *ahead,
			    struct plim_err *err)
{
	struct pairing p;
	enum plim_status st = PLIM_OK;

	pairs_init(&p, t->mem);
	if (ahead) { /* from now on it is ours */
		p = *ahead;
		pairs_init(ahead, t->mem);
	}
	if (d->events.n) /* the columns are the trace's own; only readers see them const */
		st = pairs_walk(&p, &d->events,
				t->columns->alloc + (d->events.alloc - t->columns->alloc), err);
	if (!st)
		st = addr_map_room(&p.live, err);
	if (!st)
		settle_kinds(&p, t, d);
	if (!st)
		st = settle_end(&p, t, d, err);
	if (!st)
		find_reserved_before(&p, t, d);
	if (!st && t->profile.kind)
		st = settle_profile(&p, d, err);
	if (!st) {
		mem_trim(t->mem, &p.allocs.at, &p.allocs.cap, p.allocs.n, sizeof(*p.allocs.at));
		d->allocs = p.allocs.at;
		d->alloc_count = p.allocs.n;
		d->alloc_room = p.allocs.cap;
		d->allocs_before = p.before;
		d->contradictions += p.contradictions;
		p.allocs.at = NULL;
		p.allocs.cap = 0;
	}
	pairs_release(&p);
	return st;
}
