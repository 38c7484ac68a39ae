/* The events and allocations of a recording as columns: plimsoll/recording.h says what they are. */
#include "commands/recording.h"

static const uint8_t kinds[TRACE_ACTIONS] = {
	[TRACE_ALLOC] = PLIM_EVENT_ALLOC,
	[TRACE_FREE_REQUESTED] = PLIM_EVENT_FREE_REQUESTED,
	[TRACE_FREE_COMPLETED] = PLIM_EVENT_FREE_COMPLETED,
	[TRACE_SEGMENT_ALLOC] = PLIM_EVENT_SEGMENT_ALLOC,
	[TRACE_SEGMENT_FREE] = PLIM_EVENT_SEGMENT_FREE,
	[TRACE_SEGMENT_MAP] = PLIM_EVENT_SEGMENT_MAP,
	[TRACE_SEGMENT_UNMAP] = PLIM_EVENT_SEGMENT_UNMAP,
	[TRACE_OOM] = PLIM_EVENT_OOM,
	[TRACE_SNAPSHOT] = PLIM_EVENT_SNAPSHOT,
	[TRACE_ANNOTATE] = PLIM_EVENT_ANNOTATE,
	[TRACE_OTHER] = PLIM_EVENT_OTHER,
};

_Static_assert(PLIM_NO_SITE == TRACE_NONE && PLIM_NO_EVENT == TRACE_NONE &&
		       PLIM_NO_ALLOCATION == TRACE_NONE,
	       "columns are handed out as they are");

/* One device, with these parts of it. */
static enum plim_status find_columns(struct plim_recording *r, uint64_t index, unsigned parts,
				     struct recording_device **out, struct plim_err *err)
{
	enum plim_status st = recording_ready(r, err);

	if (!st && index == PLIM_UNKNOWN)
		st = err_set(err, PLIM_E_ARG, "columns are of one device, not of all");
	if (!st)
		st = recording_check_device(r->recording, index, err);
	if (st)
		return st;
	*out = &r->recording->devices[index];
	return recording_need(*out, parts, err);
}

enum plim_status plim_recording_devices(struct plim_recording *r, uint64_t *count,
					struct plim_err *err)
{
	struct plim_err own;
	enum plim_status st = recording_ready(r, err ? err : &own);

	*count = st ? 0 : r->recording->device_count;
	return st;
}

/* Kinds as the public header numbers them; made once. */
static enum plim_status have_kinds(struct recording_device *d, struct plim_err *err)
{
	const struct snapshot_events *ev = &d->device->events;

	if (d->kinds)
		return PLIM_OK;
	d->kinds = arena_take(&d->of->arena, ev->n, sizeof(*d->kinds), err);
	for (size_t i = 0; d->kinds && i < ev->n; i++)
		d->kinds[i] = kinds[ev->action[i]];
	return d->kinds ? PLIM_OK : mem_status(err);
}

enum plim_status plim_recording_events(struct plim_recording *r, uint64_t device,
				       struct plim_event_columns *out, struct plim_err *err)
{
	const struct snapshot_events *ev;
	struct recording_device *d;
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own; /* inner floors read the status back from it */
	*out = (struct plim_event_columns){ .count = 0 };
	st = find_columns(r, device, 0, &d, err);
	if (!st)
		st = have_kinds(d, err);
	if (st)
		return st;
	ev = &d->device->events;
	*out = (struct plim_event_columns){ .count = ev->n,
					    .kind = d->kinds,
					    .bytes = ev->size,
					    .address = ev->addr,
					    .time_us =
						    d->of->snapshot->has_time ? ev->time_us : NULL,
					    .site = ev->stack,
					    .allocation = ev->alloc,
					    .stream = ev->stream,
					    .streams = d->of->snapshot->streams.at,
					    .stream_count = d->of->snapshot->streams.n };
	return PLIM_OK;
}

static enum plim_status put_rules(struct plim_recording *r, struct plim_allocation_columns *out,
				  struct plim_err *err)
{
	size_t n = timeline_rule_count;
	struct plim_allocation_rule *rules =
		arena_take(&r->recording->arena, n, sizeof(*rules), err);

	if (!rules)
		return mem_status(err);
	for (size_t i = 0; i < n; i++)
		rules[i] = (struct plim_allocation_rule){
			timeline_category_names[timeline_rules[i].category],
			timeline_rules[i].confidence_pct, timeline_rules[i].text
		};
	out->rules = rules;
	out->rule_count = n;
	return PLIM_OK;
}

enum plim_status plim_recording_allocations(struct plim_recording *r, uint64_t device,
					    struct plim_allocation_columns *out,
					    struct plim_err *err)
{
	const struct snapshot_alloc *first;
	struct recording_device *d;
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	*out = (struct plim_allocation_columns){ .count = 0 };
	st = find_columns(r, device, RECORDING_REPLAY | RECORDING_CATEGORIES, &d, err);
	if (st)
		return st;
	first = d->device->allocs;
	*out = (struct plim_allocation_columns){ .count = d->device->alloc_count,
						 .stride = sizeof(*first),
						 .block_bytes = d->replay->block_bytes };
	if (d->categories.mem) {
		out->rule = d->categories.rule;
		st = put_rules(r, out, err);
	}
	if (!out->count || st)
		return st;
	out->address = &first->addr;
	out->requested_bytes = &first->requested_bytes;
	out->born = &first->born;
	out->free_requested = &first->free_requested;
	out->free_completed = &first->free_completed;
	out->site = &first->stack;
	return PLIM_OK;
}

enum plim_status plim_recording_stack(struct plim_recording *r, uint32_t site,
				      struct plim_recording_frame *frames, size_t room, size_t *n,
				      struct plim_err *err)
{
	const struct snapshot *t;
	const uint32_t *ids;
	struct plim_err own;
	enum plim_status st;
	uint32_t count;

	err = err ? err : &own;
	*n = 0;
	st = recording_ready(r, err);
	if (st)
		return st;
	t = r->recording->snapshot;
	if (site >= t->stacks.n)
		return err_set(err, PLIM_E_ARG, "site %u is none of this recording", site);
	ids = snapshot_stack(t, site, &count);
	*n = count;
	for (uint32_t i = 0; i < count && i < room; i++) {
		const struct snapshot_frame *f = snapshot_frame(t, ids[i]);

		frames[i] = (struct plim_recording_frame){
			.file = snapshot_text(t, f->filename),
			.function = snapshot_text(t, f->name),
			.line = f->line == TRACE_NONE ? 0 : f->line,
		};
	}
	return PLIM_OK;
}
