/* Where training steps end: PyTorch marks its optimizers' steps; without marks their stacks show them. */
#include "timeline.h"

#include <string.h>

uint32_t timeline_event_after(const struct snapshot_events *ev, int64_t time_us)
{
	size_t low = 0, high = ev->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ev->time_us[mid] <= time_us)
			low = mid + 1;
		else
			high = mid;
	}
	return (uint32_t)low;
}

/* A recording may have stacks of what is live at its end alone (context="state"). */
static int allocates_with_stacks(const struct timeline *tl)
{
	const struct snapshot_events *ev = &tl->device->events;
	size_t e = 0;

	while (e < ev->n &&
	       (ev->action[e] != TRACE_ALLOC || snapshot_stackless(tl->snapshot, ev->stack[e])))
		e++;
	return e < ev->n;
}

/* An allocation of the program itself: not by autograd's thread, nor of what it runs again.  Without stacks: any. */
static int is_own(const struct timeline *tl, int has_stacks, size_t event)
{
	const struct snapshot_events *ev = &tl->device->events;

	if (ev->action[event] != TRACE_ALLOC)
		return 0;
	return !has_stacks || !timeline_in_backward(tl->snapshot, ev->stack[event]);
}

static int allocates(const struct timeline *tl, int has_stacks, size_t from, size_t to)
{
	while (from < to && !is_own(tl, has_stacks, from))
		from++;
	return from < to;
}

/*
 * Optimizers that step one behind the other are one step if the program allocates nothing between: those of two models,
 * and those that step inside of the backward pass, each when its gradient is there (register_post_accumulate_grad_hook).
 */
static enum plim_status from_marks(struct mem *m, const struct timeline *tl,
				   struct timeline_steps *out, struct plim_err *err)
{
	const struct snapshot *t = tl->snapshot;
	const struct snapshot_events *ev = &tl->device->events;
	int has_stacks = allocates_with_stacks(tl);
	size_t begin = 0, last = 0; /* of this optimizer's step; the end of the one before */
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < t->annotations.n; i++) {
		const struct snapshot_annotation *a = &t->annotations.at[i];
		size_t e;

		if (a->device != tl->device->ordinal ||
		    strncmp(snapshot_text(t, a->name), TIMELINE_STEP_MARK,
			    strlen(TIMELINE_STEP_MARK)) != 0)
			continue;
		e = timeline_event_after(ev, a->time_us);
		if (!a->end) {
			begin = e;
			continue;
		}
		if (e && out->ends.n && !allocates(tl, has_stacks, last, begin))
			out->ends.at[out->ends.n - 1] = (uint32_t)(e - 1);
		else if (e)
			st = vec_push(m, &out->ends, (uint32_t)(e - 1), err);
		last = e;
	}
	return st;
}

/* A step ends where the program's own stacks leave the optimizer. */
static enum plim_status from_stacks(struct mem *m, const struct timeline *tl,
				    struct timeline_steps *out, struct plim_err *err)
{
	const struct snapshot_events *ev = &tl->device->events;
	const struct snapshot *t = tl->snapshot;
	uint8_t *known = mem_new(m, t->stacks.n, 1, err); /* 0: not looked at, 1: no, 2: yes */
	enum plim_status st = known ? PLIM_OK : mem_status(err);
	uint32_t last = TRACE_NONE;

	for (uint32_t e = 0; !st && e < ev->n; e++) {
		uint32_t s = ev->stack[e];

		if (ev->action[e] != TRACE_ALLOC || snapshot_stackless(t, s))
			continue;
		if (!known[s])
			known[s] = timeline_in_optimizer(t, s) ? 2 : 1;
		if (known[s] == 2) {
			last = e;
		} else if (last != TRACE_NONE) {
			st = vec_push(m, &out->ends, last, err);
			last = TRACE_NONE;
		}
	}
	if (!st && last != TRACE_NONE)
		st = vec_push(m, &out->ends, last, err);
	mem_free(m, known, t->stacks.n, 1);
	return st;
}

enum plim_status timeline_find_steps(struct mem *m, const struct timeline *tl,
				     struct timeline_steps *out, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	*out = (struct timeline_steps){ .mem = m };
	if (tl->snapshot->has_time)
		st = from_marks(m, tl, out, err);
	if (!st && !out->ends.n)
		st = from_stacks(m, tl, out, err);
	return st;
}

size_t timeline_step_of(const struct timeline_steps *steps, uint32_t event)
{
	size_t low = 0, high = steps->ends.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (steps->ends.at[mid] < event)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void timeline_steps_release(struct timeline_steps *s)
{
	if (s->mem)
		vec_release(s->mem, &s->ends);
}
