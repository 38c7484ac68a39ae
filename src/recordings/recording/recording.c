/* Opening a recording, and its parts: computed when they are first needed, from a table of what needs what. */
#include "recording.h"

#include <stdio.h>
#include <string.h>

/* ---- opening ---- */

enum plim_status recording_of(struct mem *m, struct snapshot *t, struct recording **out,
			      struct plim_err *err)
{
	struct recording *r = mem_new(m, 1, sizeof(*r), err);

	*out = NULL;
	if (!r) {
		snapshot_free(t);
		return mem_status(err);
	}
	r->mem = m;
	r->snapshot = t;
	arena_init(&r->arena, m);
	r->devices = arena_take(&r->arena, t->device_count, sizeof(*r->devices), err);
	if (!r->devices) {
		recording_free(r);
		return mem_status(err);
	}
	for (; r->device_count < t->device_count; r->device_count++)
		r->devices[r->device_count] =
			(struct recording_device){ .of = r,
						   .device = &t->devices[r->device_count] };
	*out = r;
	return PLIM_OK;
}

enum plim_status recording_open(struct mem *m, const char *path, struct recording_input *in,
				struct recording **out, struct plim_err *err)
{
	struct snapshot_read_options how = { .threads = in ? in->threads : 0,
					     .is_other = in ? &in->is_other : NULL };
	struct snapshot *t;
	enum plim_status st = in && in->source
				      ? snapshot_read_source(m, in->source, path, &how, &t, err)
				      : snapshot_read(m, path, &how, &t, err);

	*out = NULL;
	return st ? st : recording_of(m, t, out, err);
}

static void release_device(struct recording_device *d)
{
	allocator_replay_free(d->replay);
	timeline_categories_release(&d->categories);
	timeline_steps_release(&d->steps);
	timeline_steps_release(&d->periods);
	timeline_ranges_release(&d->ranges);
}

void recording_free(struct recording *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->device_count; i++)
		release_device(&r->devices[i]);
	arena_release(&r->arena);
	snapshot_free(r->snapshot);
	mem_free(r->mem, r, 1, sizeof(*r));
}

/* ---- parts ---- */

static enum plim_status make_replay(struct recording_device *d, struct plim_err *err)
{
	return allocator_replay_own(d->of->mem, d->of->snapshot, d->device, &d->replay, err);
}

static enum plim_status make_timeline(struct recording_device *d, struct plim_err *err)
{
	(void)err;
	timeline_walk(&d->timeline, d->of->snapshot, d->device, d->replay);
	return PLIM_OK;
}

static enum plim_status make_categories(struct recording_device *d, struct plim_err *err)
{
	if (!d->of->snapshot->has_frames || !d->device->events.n)
		return PLIM_OK;
	return timeline_categorize(d->of->mem, &d->timeline, &d->categories, err);
}

static enum plim_status make_steps(struct recording_device *d, struct plim_err *err)
{
	struct mem *m = d->of->mem;
	const struct timeline *tl = &d->timeline;
	enum plim_status st = timeline_find_steps(m, tl, &d->steps, err);

	if (!st)
		st = timeline_find_ranges(m, tl, &d->ranges, err);
	if (!st && !d->steps.ends.n)
		st = timeline_steps_of_ranges(m, tl, &d->categories, &d->ranges, &d->periods, err);
	if (!st && !d->steps.ends.n && !d->periods.ends.n)
		st = timeline_find_periods(m, tl, &d->categories, &d->periods, err);
	return st;
}

/* In the order in which they are made: what one needs stands above it. */
static const struct part {
	enum recording_part part;
	unsigned needs;
	enum plim_status (*make)(struct recording_device *d, struct plim_err *err);
} parts_table[] = {
	{ RECORDING_REPLAY, 0, make_replay },
	{ RECORDING_TIMELINE, RECORDING_REPLAY, make_timeline },
	{ RECORDING_CATEGORIES, RECORDING_TIMELINE, make_categories },
	{ RECORDING_STEPS, RECORDING_CATEGORIES, make_steps },
};
#define PARTS (sizeof(parts_table) / sizeof(*parts_table))

enum plim_status recording_need(struct recording_device *d, unsigned parts, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = PARTS; i-- > 0;)
		if (parts & parts_table[i].part)
			parts |= parts_table[i].needs;
	for (size_t i = 0; !st && i < PARTS; i++) {
		const struct part *p = &parts_table[i];

		if (!(parts & p->part & ~d->have))
			continue;
		st = p->make(d, err);
		if (!st)
			d->have |= p->part;
	}
	return st;
}

enum plim_status recording_need_all(struct recording *r, unsigned parts, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < r->device_count; i++)
		st = recording_need(&r->devices[i], parts, err);
	return st;
}

/* ---- devices ---- */

enum plim_status recording_check_device(const struct recording *r, uint64_t index,
					struct plim_err *err)
{
	if (index == PLIM_UNKNOWN || index < r->device_count)
		return PLIM_OK;
	return err_set(err, PLIM_E_ARG, "device %llu: the recording holds %zu device%s",
		       (unsigned long long)index, r->device_count, text_s(r->device_count));
}

int recording_shows(const struct recording_device *d, uint64_t index)
{
	if (index != PLIM_UNKNOWN)
		return d == &d->of->devices[index];
	return d->device->events.n || d->device->segments;
}

/* ---- what it is ---- */

int recording_is_plan(const struct recording *r)
{
	const struct snapshot *t = r->snapshot;

	return t->annotations.n &&
	       !strcmp(snapshot_text(t, t->annotations.at[0].name), RECORDING_PLAN_MARK);
}

uint64_t recording_planned_peak(const struct recording *r)
{
	const struct snapshot *t = r->snapshot;
	const char *mark = t->annotations.n > 1 ? snapshot_text(t, t->annotations.at[1].name) : "";
	size_t n = strlen(RECORDING_PLAN_PEAK);

	return strncmp(mark, RECORDING_PLAN_PEAK, n) ? 0 : strtoull(mark + n, NULL, 10);
}

enum plim_status recording_has_segments(const struct recording *r, const char *path,
					struct plim_err *err)
{
	return r->snapshot->profile.kind
		       ? err_set(err, PLIM_E_FORMAT,
				 "'%s' is of PyTorch's profiler, which shows no segments: "
				 "'plimsoll report' reads it; for this record one with: plimsoll "
				 "record -- python train.py",
				 path)
		       : PLIM_OK;
}

uint64_t recording_events(const struct recording *r)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->device_count; i++)
		n += r->devices[i].device->events.n;
	return n;
}

int recording_is_complete(const struct recording *r)
{
	if (snapshot_overflowed(r->snapshot) == 1 || r->snapshot->profile.kind)
		return 0;
	for (size_t i = 0; i < r->device_count; i++) {
		const struct snapshot_device *d = r->devices[i].device;

		if (d->allocs_before || d->reserved_before_bytes || d->stale_events)
			return 0;
	}
	return recording_events(r) > 0;
}

/* A plan's microseconds are only the numbers of its requests. */
uint64_t recording_time_of(const struct recording_device *d, uint32_t event)
{
	const struct snapshot_events *ev = &d->device->events;

	return d->of->snapshot->has_time && !d->of->snapshot->times_made && event < ev->n &&
			       !recording_is_plan(d->of)
		       ? (uint64_t)ev->time_us[event]
		       : PLIM_UNKNOWN;
}

uint64_t recording_streams(const struct recording_device *d)
{
	const struct snapshot_events *ev = &d->device->events;
	uint64_t seen[(UINT16_MAX + 1) / 64] = { 0 }, n = 0;

	for (size_t e = 0; e < ev->n; e++) {
		uint64_t bit = (uint64_t)1 << (ev->stream[e] % 64), *of = &seen[ev->stream[e] / 64];

		if (ev->action[e] != TRACE_ALLOC || *of & bit)
			continue;
		*of |= bit;
		n++;
	}
	return n;
}
