#include "timeline.h"

const char *const timeline_measure_names[TIMELINE_MEASURES] = {
	[TIMELINE_REQUESTED] = "requested",
	[TIMELINE_ALLOCATED] = "allocated",
	[TIMELINE_ACTIVE] = "active",
	[TIMELINE_RESERVED] = "reserved",
};

/* What one event does to the totals.  Differences wrap: adding 2^64 - n takes n away. */
static inline void step(const struct timeline *tl, uint32_t e, uint64_t now[TIMELINE_MEASURES])
{
	const struct trace_events *ev = &tl->device->events;
	uint64_t bytes;

	switch (ev->action[e]) {
	case TRACE_ALLOC:
		bytes = tl->replay->block_bytes[ev->alloc[e]];
		now[TIMELINE_REQUESTED] += ev->size[e];
		now[TIMELINE_ALLOCATED] += bytes;
		now[TIMELINE_ACTIVE] += bytes;
		break;
	case TRACE_FREE_REQUESTED:
		if (tl->device->allocs[ev->alloc[e]].free_requested == e)
			now[TIMELINE_ALLOCATED] -= tl->replay->block_bytes[ev->alloc[e]];
		break;
	case TRACE_FREE_COMPLETED:
		bytes = tl->replay->block_bytes[ev->alloc[e]];
		now[TIMELINE_REQUESTED] -= tl->device->allocs[ev->alloc[e]].requested_bytes;
		now[TIMELINE_ACTIVE] -= bytes;
		if (tl->device->allocs[ev->alloc[e]].free_requested ==
		    e) /* its free was not recorded */
			now[TIMELINE_ALLOCATED] -= bytes;
		break;
	case TRACE_SEGMENT_ALLOC:
	case TRACE_SEGMENT_MAP: now[TIMELINE_RESERVED] += ev->size[e]; break;
	case TRACE_SEGMENT_FREE:
	case TRACE_SEGMENT_UNMAP: now[TIMELINE_RESERVED] -= ev->size[e]; break;
	default: break;
	}
}

void timeline_walk(struct timeline *tl, const struct trace *t, const struct trace_device *d,
		   const struct allocator_replay *replay)
{
	uint64_t now[TIMELINE_MEASURES];

	*tl = (struct timeline){ .trace = t, .device = d, .replay = replay };
	tl->before[TIMELINE_REQUESTED] = replay->requested_before_bytes;
	tl->before[TIMELINE_ALLOCATED] = replay->allocated_before_bytes;
	tl->before[TIMELINE_ACTIVE] = replay->active_before_bytes;
	tl->before[TIMELINE_RESERVED] = d->reserved_before_bytes;
	for (int m = 0; m < TIMELINE_MEASURES; m++) {
		now[m] = tl->peak[m] = tl->before[m];
		tl->peak_event[m] = TIMELINE_BEFORE;
	}
	for (uint32_t e = 0; e < d->events.n; e++) {
		step(tl, e, now);
		for (int m = 0; m < TIMELINE_MEASURES; m++) {
			if ((int64_t)now[m] > (int64_t)tl->peak[m]) {
				tl->peak[m] = now[m];
				tl->peak_event[m] = e;
			}
		}
	}
	for (int m = 0; m < TIMELINE_MEASURES; m++)
		tl->end[m] = now[m];
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
		step(tl, c->next, c->bytes);
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
		uint64_t end = first + ((i + 1) * count + n - 1) / n;

		y[i] = e < end ? 0
			       : now[measure]; /* fewer events than samples: one fills several */
		for (; e < end && e < tl->device->events.n; e++) {
			step(tl, e, now);
			y[i] = now[measure] > y[i] ? now[measure] : y[i];
		}
	}
}

void timeline_narrow(struct timeline *tl, uint32_t first, uint32_t last)
{
	uint64_t now[TIMELINE_MEASURES];

	timeline_at(tl, first ? first - 1 : TIMELINE_BEFORE, now);
	for (int m = 0; m < TIMELINE_MEASURES; m++) {
		tl->peak[m] = now[m];
		tl->peak_event[m] = first ? first - 1 : TIMELINE_BEFORE;
	}
	for (uint32_t e = first; e <= last && e < tl->device->events.n; e++) {
		step(tl, e, now);
		for (int m = 0; m < TIMELINE_MEASURES; m++) {
			if ((int64_t)now[m] > (int64_t)tl->peak[m]) {
				tl->peak[m] = now[m];
				tl->peak_event[m] = e;
			}
		}
	}
}
