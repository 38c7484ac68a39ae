/*
 * What repeats in a program without an optimizer: training that updates its weights by hand, inference, serving.
 *
 * Training repeats with its backward passes.  In inference each pass of a model is a repetition, unless it goes on with
 * what the pass before made: a pass that frees what an earlier one made has replaced it by something longer, as a cache
 * of keys and values is, so that both are one request.
 */
#include "timeline.h"

#include <string.h>

struct looking {
	const struct timeline *tl;
	const uint8_t *phase;
	int trains; /* there are backward passes */
	int passes; /* there are passes; models that are not modules show none */
	int joins;  /* passes that go on with another's memory are one with it */
	struct timeline_steps *out;
};

/* Does the pass that begins at `start` free what a pass before it made? */
static int goes_on(const struct looking *l, uint32_t start)
{
	const struct snapshot_events *ev = &l->tl->device->events;

	for (uint32_t e = start; e < ev->n && timeline_is_pass(l->phase[e]); e++) {
		const struct snapshot_alloc *a;

		if (!snapshot_drops(l->tl->device, e))
			continue;
		a = &l->tl->device->allocs[ev->alloc[e]];
		if (a->born < start && timeline_is_pass(l->phase[a->born]))
			return 1;
	}
	return 0;
}

/* Is this what a repetition has to have done?  A forward pass alone may be on the way to its backward pass. */
static int is_work(const struct looking *l, enum timeline_phase p)
{
	return l->trains ? p == TIMELINE_BACKWARD : timeline_is_pass(p) && p != TIMELINE_FORWARD;
}

/* Where the next repetition may begin. */
static int is_start(const struct looking *l, enum timeline_phase p)
{
	return l->passes ? timeline_is_pass(p) : p == TIMELINE_BACKWARD;
}

/* One walk: `lowest` is the last event of least memory since the work ended. */
static enum plim_status walk_period(struct mem *m, const struct looking *l, struct plim_err *err)
{
	const struct snapshot_events *ev = &l->tl->device->events;
	struct timeline_cursor at;
	uint64_t least = 0;
	uint32_t lowest = TRACE_NONE; /* none: nothing has been done yet */
	enum plim_status st = PLIM_OK;

	timeline_start(l->tl, &at);
	for (uint32_t e = 0; !st && e < ev->n; e++) {
		enum timeline_phase now = l->phase[e];
		int begins = is_start(l, now) && (!e || !is_start(l, l->phase[e - 1]));

		if (begins && lowest != TRACE_NONE && !(l->joins && goes_on(l, e))) {
			st = vec_push(m, &l->out->ends, lowest, err);
			lowest = TRACE_NONE;
		}
		timeline_go(l->tl, &at, e);
		if (is_work(l, now) ||
		    (lowest != TRACE_NONE && at.bytes[TIMELINE_ALLOCATED] <= least)) {
			lowest = e;
			least = at.bytes[TIMELINE_ALLOCATED];
		}
	}
	if (!st && lowest != TRACE_NONE)
		st = vec_push(m, &l->out->ends, (uint32_t)ev->n - 1, err);
	return st;
}

enum plim_status timeline_find_periods(struct mem *m, const struct timeline *tl,
				       const struct timeline_categories *c,
				       struct timeline_steps *out, struct plim_err *err)
{
	struct looking l = { .tl = tl, .phase = c->phase, .out = out };
	enum plim_status st;

	*out = (struct timeline_steps){ .mem = m };
	if (!c->mem)
		return PLIM_OK;
	l.trains = memchr(c->phase, TIMELINE_BACKWARD, c->events) != NULL;
	for (size_t e = 0; e < c->events && !l.passes; e++)
		l.passes = timeline_is_pass(c->phase[e]);
	l.joins = !l.trains;
	out->basis = l.trains ? TIMELINE_BY_BACKWARD : TIMELINE_BY_REQUEST;
	st = walk_period(m, &l, err);
	if (!st && l.joins && out->ends.n < TIMELINE_PERIODS_MIN) {
		out->ends.n = 0; /* one long request, or a tensor that each pass replaces */
		l.joins = 0;
		st = walk_period(m, &l, err);
	}
	if (out->ends.n < TIMELINE_PERIODS_MIN)
		out->ends.n = 0;
	return st;
}
