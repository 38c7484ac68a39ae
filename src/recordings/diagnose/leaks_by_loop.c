#include "leaks.h"

#include <stdlib.h>
#include <string.h>

/*
 * A loop's repetition does real work: it allocates, and gives most of it back.  Loading a model
 * allocates again and again too, but gives nothing back.
 */
#define WORK_ALLOCS 8
#define WORK_FREED_PART 4 /* at least 1 / this of the allocations */
/* Fewer steps than this are not a staircase: a first step, its optimizer state and a longer batch climb too. */
#define STEPS_MIN 4
/* Lines that are looked at twice: a program has few lines that allocate in its outer loops. */
#define CANDIDATES_MAX 16

/* A line of the program and what was live whenever it was entered from another line. */
struct line_entries {
	uint64_t live_first, live_last;
	uint32_t event_first, event_last;
	uint32_t steps; /* entries that stood higher than the one before, without a break */
	uint32_t seen;
	uint32_t period;        /* events between the last two */
	uint64_t allocs, frees; /* counters at the last entry */
};

struct climb {
	struct mem *mem;
	const struct timeline *tl;
	struct line_entries *lines; /* by frame */
	uint32_t *line_of;          /* by stack: its user frame */
	uint64_t live, allocs, frees;
	uint32_t current;
};

static void enter_leak_loop(struct climb *c, uint32_t frame, uint32_t e)
{
	struct line_entries *l = &c->lines[frame];
	uint64_t allocs = c->allocs - l->allocs, frees = c->frees - l->frees;

	if (l->seen && allocs < WORK_ALLOCS)
		return; /* a short excursion to another line */
	if (l->seen++ && c->live > l->live_last && frees * WORK_FREED_PART >= allocs) {
		l->steps++;
	} else {
		l->steps = 0;
		l->event_first = e;
		l->live_first = c->live;
	}
	l->period = e - l->event_last;
	l->event_last = e;
	l->live_last = c->live;
	l->allocs = c->allocs;
	l->frees = c->frees;
}

static void walk_leak_loop(struct climb *c, uint32_t end)
{
	const struct snapshot_events *ev = &c->tl->device->events;
	const struct snapshot *t = c->tl->snapshot;

	c->live = c->tl->before[TIMELINE_ALLOCATED];
	for (uint32_t e = 0; e <= end; e++) {
		uint32_t stack = ev->stack[e];

		if (ev->action[e] == TRACE_ALLOC) {
			if (stack != TRACE_NONE && c->line_of[stack] == TRACE_NONE)
				c->line_of[stack] = timeline_loop_frame(t, stack);
			if (stack != TRACE_NONE && c->line_of[stack] != TRACE_NONE &&
			    c->line_of[stack] != c->current) {
				c->current = c->line_of[stack];
				enter_leak_loop(c, c->current, e);
			}
			c->allocs++;
			c->live += c->tl->replay->block_bytes[ev->alloc[e]];
		} else if (ev->action[e] == TRACE_FREE_REQUESTED) {
			c->frees++;
			c->live -= c->tl->replay->block_bytes[ev->alloc[e]];
		}
	}
}

/* Entries of one line, in turn: where, and the lowest that live memory had been since the one before. */
struct floors {
	struct mem *mem;
	VEC(struct floor {
		uint64_t low;
		uint32_t event;
	})
	at;
};

/*
 * The same walk for one line.  What stays must show at the lowest moment of each repetition: at the
 * entry itself a batch that is longer than the one before stands higher too.
 */
static enum plim_status find_floors(struct climb *c, uint32_t frame, uint32_t end,
				    struct floors *floors, struct plim_err *err)
{
	const struct snapshot_events *ev = &c->tl->device->events;
	uint64_t low = UINT64_MAX, allocs_then = 0;
	enum plim_status st = PLIM_OK;

	floors->at.n = 0;
	c->live = c->tl->before[TIMELINE_ALLOCATED];
	c->allocs = 0;
	c->current = TRACE_NONE;
	for (uint32_t e = 0; !st && e <= end; e++) {
		uint32_t stack = ev->stack[e];

		if (ev->action[e] == TRACE_FREE_REQUESTED) {
			c->live -= c->tl->replay->block_bytes[ev->alloc[e]];
			low = c->live < low ? c->live : low;
		} else if (ev->action[e] == TRACE_ALLOC) {
			if (stack != TRACE_NONE && c->line_of[stack] != TRACE_NONE &&
			    c->line_of[stack] != c->current) {
				c->current = c->line_of[stack];
				if (c->current == frame && c->allocs - allocs_then >= WORK_ALLOCS) {
					low = c->live < low ? c->live : low;
					st = vec_push(c->mem, &floors->at,
						      ((struct floor){ low, e }), err);
					low = UINT64_MAX;
					allocs_then = c->allocs;
				}
			}
			c->allocs++;
			c->live += c->tl->replay->block_bytes[ev->alloc[e]];
		}
	}
	return st;
}

static int leak_loop_by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/*
 * The staircase that the floors end with.  Its first steps can be something else (a model that is
 * loaded, optimizer state that is allocated): they count only if they are like the others.
 */
static enum plim_status read_floors(struct climb *c, const struct floors *floors,
				    struct staircase *leak, struct plim_err *err)
{
	const struct floor *f = floors->at.at;
	size_t last = floors->at.n - 1, first = last, steps;
	uint64_t *sizes, middle;

	leak->repetitions = 0;
	if (floors->at.n <= STEPS_MIN)
		return PLIM_OK;
	while (first > 1 && f[first].low > f[first - 1].low)
		first--;
	steps = last - first;
	if (steps < STEPS_MIN)
		return PLIM_OK;
	sizes = mem_new(c->mem, steps, sizeof(*sizes), err);
	if (!sizes)
		return mem_status(err);
	for (size_t i = 0; i < steps; i++)
		sizes[i] = f[first + 1 + i].low - f[first + i].low;
	sort_items(sizes, steps, sizeof(*sizes), leak_loop_by_size);
	middle = sizes[steps / 2];
	mem_free(c->mem, sizes, steps, sizeof(*sizes));
	while (first < last && f[first + 1].low - f[first].low > 3 * middle)
		first++;
	if (last - first < STEPS_MIN)
		return PLIM_OK;
	leak->repetitions = (uint32_t)(last - first);
	leak->grown_bytes = f[last].low - f[first].low;
	leak->per_repetition_bytes = leak->grown_bytes / leak->repetitions;
	leak->first_event = f[first].event;
	leak->last_event = f[last].event;
	return PLIM_OK;
}

/* The lines that climbed in the first walk and still do at the end; the highest staircase of them. */
static enum plim_status highest(struct climb *c, uint32_t end, struct staircase *leak,
				struct plim_err *err)
{
	struct floors floors = { .mem = c->mem };
	enum plim_status st = PLIM_OK;
	int looked = 0;

	for (uint32_t f = 0; !st && f < c->tl->snapshot->frames.n && looked < CANDIDATES_MAX; f++) {
		const struct line_entries *l = &c->lines[f];
		struct staircase one = { .loop_frame = f,
					 .stack = TRACE_NONE,
					 .frame = TRACE_NONE };

		if (l->steps < STEPS_MIN || end - l->event_last > 2 * (uint64_t)l->period)
			continue;
		looked++;
		st = find_floors(c, f, end, &floors, err);
		if (!st)
			st = read_floors(c, &floors, &one, err);
		if (!st && one.repetitions && one.grown_bytes > leak->grown_bytes)
			*leak = one;
	}
	vec_release(c->mem, &floors.at);
	return st;
}

/* Of what was allocated on the staircase and stays: the part of one stack that is largest. */
static enum plim_status find_part(const struct climb *c, struct staircase *leak,
				  struct plim_err *err)
{
	size_t n = c->tl->snapshot->stacks.n + 1; /* the last one is for no stack */
	uint64_t *bytes = mem_new(c->mem, n, sizeof(*bytes), err);
	size_t best = n - 1;

	if (!bytes)
		return mem_status(err);
	for (size_t a = 0; a < c->tl->device->alloc_count; a++) {
		const struct snapshot_alloc *one = &c->tl->device->allocs[a];
		int stackless = snapshot_stackless(c->tl->snapshot, one->stack);

		if (one->born == TRACE_NONE || one->born < leak->first_event ||
		    one->born > leak->last_event ||
		    !timeline_lives(one, TIMELINE_ALLOCATED, leak->last_event))
			continue;
		bytes[stackless ? n - 1 : one->stack] += c->tl->replay->block_bytes[a];
	}
	for (size_t s = 0; s < n; s++)
		if (bytes[s] > bytes[best])
			best = s;
	leak->part_bytes = bytes[best];
	leak->stack = best == n - 1 ? TRACE_NONE : (uint32_t)best;
	leak->frame = leak->stack == TRACE_NONE ? TRACE_NONE
						: timeline_user_frame(c->tl->snapshot, leak->stack);
	mem_free(c->mem, bytes, n, sizeof(*bytes));
	return PLIM_OK;
}

enum plim_status staircase_find(struct mem *m, const struct timeline *tl, uint32_t end,
				struct staircase *leak, struct plim_err *err)
{
	size_t frames = tl->snapshot->frames.n, stacks = tl->snapshot->stacks.n;
	struct climb c = { .mem = m, .tl = tl, .current = TRACE_NONE };
	enum plim_status st;

	*leak = (struct staircase){ .stack = TRACE_NONE, .frame = TRACE_NONE };
	if (!tl->device->events.n)
		return PLIM_OK;
	if (end >= tl->device->events.n)
		end = (uint32_t)tl->device->events.n - 1;
	c.lines = mem_new(m, frames, sizeof(*c.lines), err);
	c.line_of = c.lines ? mem_new(m, stacks, sizeof(*c.line_of), err) : NULL;
	st = c.line_of ? PLIM_OK : mem_status(err);
	if (!st) {
		memset(c.line_of, 0xff, stacks * sizeof(*c.line_of));
		walk_leak_loop(&c, end);
		st = highest(&c, end, leak, err);
		if (!st && leak->repetitions)
			st = find_part(&c, leak, err);
	}
	mem_free(m, c.line_of, stacks, sizeof(*c.line_of));
	mem_free(m, c.lines, frames, sizeof(*c.lines));
	return st;
}
