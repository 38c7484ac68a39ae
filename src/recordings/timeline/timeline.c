#include "timeline.h"

#include <string.h>

/*
 * What one event does to the totals.  Differences wrap: adding 2^64 - n takes n away.  Allocs and
 * frees come in no order that a processor could guess, so they are distinguished by masks.
 */
static inline void timeline_step(const struct timeline *tl, uint32_t e,
				 uint64_t now[TIMELINE_MEASURES])
{
	const struct snapshot_events *ev = &tl->device->events;
	uint8_t action = ev->action[e];

	if (action <= TRACE_FREE_COMPLETED) {
		const struct snapshot_alloc *a = &tl->device->allocs[ev->alloc[e]];
		uint64_t bytes = tl->replay->block_bytes[ev->alloc[e]];
		uint64_t born = -(uint64_t)(action == TRACE_ALLOC);
		/* each also by the other's event, if its own kind was not recorded */
		uint64_t gone = -(uint64_t)(a->free_completed == e);
		uint64_t dropped = -(uint64_t)(a->free_requested == e);

		now[TIMELINE_REQUESTED] +=
			(a->requested_bytes & born) - (a->requested_bytes & gone);
		now[TIMELINE_ALLOCATED] += (bytes & born) - (bytes & dropped);
		now[TIMELINE_ACTIVE] += (bytes & born) - (bytes & gone);
	} else if (action == TRACE_SEGMENT_ALLOC || action == TRACE_SEGMENT_MAP) {
		now[TIMELINE_RESERVED] += ev->size[e];
	} else if (action == TRACE_SEGMENT_FREE || action == TRACE_SEGMENT_UNMAP) {
		now[TIMELINE_RESERVED] -= ev->size[e];
	}
}

/* Walk events [e, end) from the totals `now`; the largest and the smallest allocated total after one of them. */
static void walk_timeline(struct timeline *tl, uint32_t e, uint64_t end,
			  uint64_t now[TIMELINE_MEASURES], size_t sample)
{
	uint64_t allocated = 0, lowest = UINT64_MAX;

	for (; e < end; e++) {
		timeline_step(tl, e, now);
		for (int m = 0; m < TIMELINE_MEASURES; m++) {
			if ((int64_t)now[m] > (int64_t)tl->peak[m]) {
				tl->peak[m] = now[m];
				tl->peak_event[m] = e;
			}
		}
		if (now[TIMELINE_ALLOCATED] > allocated)
			allocated = now[TIMELINE_ALLOCATED];
		if (now[TIMELINE_ALLOCATED] < lowest)
			lowest = now[TIMELINE_ALLOCATED];
	}
	tl->allocated[sample] = allocated;
	tl->lowest[sample] = lowest;
}

/* The event behind sample i of n over `count` events. */
static inline uint64_t sample_end(size_t i, size_t n, uint64_t count)
{
	return ((i + 1) * count + n - 1) / n;
}

/* Peaks and samples of `count` events from `first` on, before which the totals were `now`. */
static void walk_samples(struct timeline *tl, uint32_t first, uint64_t count,
			 uint64_t now[TIMELINE_MEASURES])
{
	uint64_t e = first;

	for (int m = 0; m < TIMELINE_MEASURES; m++) {
		tl->peak[m] = now[m];
		tl->peak_event[m] = first ? first - 1 : TIMELINE_BEFORE;
	}
	for (size_t i = 0; count && i < TIMELINE_SAMPLES; i++) {
		uint64_t end = first + sample_end(i, TIMELINE_SAMPLES, count);

		if (e < end)
			walk_timeline(tl, (uint32_t)e, end, now, i);
		else /* few events: one fills several */
			tl->allocated[i] = tl->lowest[i] = now[TIMELINE_ALLOCATED];
		e = end;
	}
}

void timeline_walk(struct timeline *tl, const struct snapshot *t, const struct snapshot_device *d,
		   const struct allocator_replay *replay)
{
	uint64_t now[TIMELINE_MEASURES];

	*tl = (struct timeline){ .snapshot = t, .device = d, .replay = replay };
	tl->before[TIMELINE_REQUESTED] = replay->requested_before_bytes;
	tl->before[TIMELINE_ALLOCATED] = replay->allocated_before_bytes;
	tl->before[TIMELINE_ACTIVE] = replay->active_before_bytes;
	tl->before[TIMELINE_RESERVED] = d->reserved_before_bytes;
	memcpy(now, tl->before, sizeof(now));
	walk_samples(tl, 0, d->events.n, now);
	memcpy(tl->end, now, sizeof(now));
}

void timeline_start(const struct timeline *tl, struct timeline_cursor *c)
{
	c->next = 0;
	for (int m = 0; m < TIMELINE_MEASURES; m++)
		c->bytes[m] = tl->before[m];
}

void timeline_go(const struct timeline *tl, struct timeline_cursor *c, uint32_t event)
{
	for (; event != TIMELINE_BEFORE && c->next <= event && c->next < tl->device->events.n;
	     c->next++)
		timeline_step(tl, c->next, c->bytes);
}

void timeline_at(const struct timeline *tl, uint32_t event, uint64_t bytes[TIMELINE_MEASURES])
{
	struct timeline_cursor c;

	timeline_start(tl, &c);
	timeline_go(tl, &c, event);
	for (int m = 0; m < TIMELINE_MEASURES; m++)
		bytes[m] = c.bytes[m];
}

void timeline_sample(const struct timeline *tl, enum timeline_measure measure, uint32_t first,
		     uint32_t last, uint64_t *y, size_t n)
{
	uint64_t now[TIMELINE_MEASURES], count = (uint64_t)last - first + 1;
	uint32_t e = first;

	timeline_at(tl, first ? first - 1 : TIMELINE_BEFORE, now);
	for (size_t i = 0; i < n; i++) {
		uint64_t end = first + sample_end(i, n, count);

		y[i] = e < end ? 0
			       : now[measure]; /* fewer events than samples: one fills several */
		for (; e < end && e < tl->device->events.n; e++) {
			timeline_step(tl, e, now);
			y[i] = now[measure] > y[i] ? now[measure] : y[i];
		}
	}
}

void timeline_narrow(struct timeline *tl, uint32_t first, uint32_t last)
{
	uint64_t now[TIMELINE_MEASURES];

	timeline_at(tl, first ? first - 1 : TIMELINE_BEFORE, now);
	walk_samples(tl, first, (uint64_t)last - first + 1, now);
}
