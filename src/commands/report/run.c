/* plimsoll report: a recording reported in full, as plain structs. */
#include "commands/out.h"
#include "commands/report/report.h"
#include "commands/told.h"
#include "host/host.h"
#include "option_rows.h"

#include <stdlib.h>
#include <string.h>

void plim_report_options_init(struct plim_report_options *o)
{
	*o = (struct plim_report_options){ REPORT_DEFAULTS };
}

const char *plim_report_finding_id(size_t i)
{
	return findings_id(i);
}

void plim_report_free(struct plim_report *r)
{
	struct plim_report_hidden *h;

	if (!r)
		return;
	h = r->hidden;
	for (size_t i = 0; i < r->device_count; i++)
		findings_release(&h->devices[i].findings);
	arena_release(&h->arena);
	if (h->borrowed)
		h->borrowed->reports--;
	plim_recording_free(h->owned);
	free(r);
}

/* ---- peaks ---- */

static struct plim_report_moment report_moment(const struct report_device *one, int measure)
{
	const struct timeline *tl = &one->timeline;
	uint32_t e = tl->peak_event[measure];
	bool blocks = measure == TIMELINE_ALLOCATED || measure == TIMELINE_ACTIVE;
	uint64_t least = tl->peak[measure], slack = blocks ? tl->replay->range_bytes : 0;
	struct plim_report_moment m = { .event = PLIM_UNKNOWN,
					.time_us = PLIM_UNKNOWN,
					.range_bytes = { least, least + slack },
					.step = PLIM_UNKNOWN };

	if (e == TIMELINE_BEFORE)
		return m;
	m.event = e;
	m.time_us = recording_time_of(one->device, e);
	m.step = recording_step_of(one->device, e);
	m.phase = recording_phase_of(one->device, e);
	return m;
}

static void fill_totals(struct plim_report_totals *to, const uint64_t from[TIMELINE_MEASURES])
{
	to->requested_bytes = from[TIMELINE_REQUESTED];
	to->active_bytes = from[TIMELINE_ACTIVE];
	to->allocated_bytes = from[TIMELINE_ALLOCATED];
	to->reserved_bytes = from[TIMELINE_RESERVED];
}

static void fill_peak(const struct report_device *one, struct plim_report_device *out)
{
	const struct timeline *tl = &one->timeline;
	struct plim_report_peak *p = &out->peak;

	p->requested_bytes = tl->peak[TIMELINE_REQUESTED];
	p->active_bytes = tl->peak[TIMELINE_ACTIVE];
	p->allocated_bytes = tl->peak[TIMELINE_ALLOCATED];
	p->reserved_bytes = tl->peak[TIMELINE_RESERVED];
	p->requested = report_moment(one, TIMELINE_REQUESTED);
	p->active = report_moment(one, TIMELINE_ACTIVE);
	p->allocated = report_moment(one, TIMELINE_ALLOCATED);
	p->reserved = report_moment(one, TIMELINE_RESERVED);
	p->lower_bound = recording_is_cut(tl->device);
}

/* ---- owners ---- */

/* "modeling_llama.py:402 > 308 > 240": a file is named where it changes. */
static enum plim_status fill_path(struct plim_report *r, uint32_t stack, const char **out,
				  struct plim_err *err)
{
	const struct snapshot *s = r->hidden->recording->snapshot;
	uint32_t path[TIMELINE_MODULES_MAX], n = timeline_module_path(s, stack, path);
	uint32_t before = TRACE_NONE;
	struct text words;

	text_init(&words, r->hidden->recording->mem, NULL);
	for (uint32_t i = 0; i < n; i++) {
		const struct snapshot_frame *f = snapshot_frame(s, path[i]);
		struct recording_place at;
		const char *slash;

		recording_place(&r->hidden->names, path[i], &at);
		slash = strrchr(at.file, '/');
		text_puts(&words, i ? " > " : "");
		if (f->filename != before)
			text_printf(&words, "%.200s:", slash ? slash + 1 : at.file);
		text_printf(&words, "%u", f->line);
		before = f->filename;
	}
	*out = n ? arena_copy(&r->hidden->arena, text_get(&words), err) : NULL;
	text_release(&words);
	return n && !*out ? mem_status(err) : PLIM_OK;
}

static enum plim_status fill_module(struct plim_report *r, uint32_t stack, const char **out,
				    struct plim_err *err)
{
	struct recording_place at;
	uint32_t n;

	*out = NULL;
	if (stack == TRACE_NONE)
		return PLIM_OK;
	if (!recording_is_plan(r->hidden->recording))
		return fill_path(r, stack, out, err);
	recording_place(&r->hidden->names,
			*snapshot_stack(r->hidden->recording->snapshot, stack, &n), &at);
	*out = arena_copy(&r->hidden->arena, at.file, err);
	return *out ? PLIM_OK : mem_status(err);
}

static enum plim_status fill_owner(struct plim_report *r, const struct timeline_owner *from,
				   struct plim_report_owner *to, struct plim_err *err)
{
	int by_size = r->hidden->options.group_by == PLIM_GROUP_SIZE;

	to->bytes = from->bytes;
	to->inferred = from->inferred;
	to->count = from->count;
	to->each_bytes = by_size ? from->size_bytes : PLIM_UNKNOWN;
	to->before_recording = from->before;
	to->frame = recording_frame(&r->hidden->names, from->frame, err);
	to->code_frame = recording_frame(&r->hidden->names, from->code, err);
	if ((from->frame != TRACE_NONE && !to->frame) ||
	    (from->code != TRACE_NONE && !to->code_frame))
		return mem_status(err);
	if (fill_module(r, from->stack, &to->module, err))
		return mem_status(err);
	return recording_stack(&r->hidden->names, from->stack, &to->stack, &to->stack_count, err);
}

/* The same memory by the lines of the model's code; as many rows. */
static enum plim_status fill_by_code(struct plim_report *r, const struct recording_device *d,
				     uint32_t event, struct plim_report_owners *out,
				     struct plim_err *err)
{
	uint32_t most = r->hidden->options.owners_max;
	struct timeline_owners list = { 0 };
	enum plim_status st = recording_owners_at(d, event, TIMELINE_BY_CODE, &list, err);
	size_t n = most && list.n > most ? most : list.n;

	out->by_code = st ? NULL : arena_take(&r->hidden->arena, n, sizeof(*out->by_code), err);
	if (!st && !out->by_code)
		st = mem_status(err);
	for (size_t i = 0; !st && i < n; i++) {
		st = fill_owner(r, &list.at[i], &out->by_code[i], err);
		out->by_code[i].each_bytes = PLIM_UNKNOWN;
	}
	out->by_code_count = st ? 0 : n;
	timeline_owners_release(&list);
	return st;
}

static enum plim_status fill_owners(struct plim_report *r, const struct report_device *one,
				    struct plim_report_owners *out, struct plim_err *err)
{
	struct plim_report_hidden *h = r->hidden;
	const struct plim_report_options *o = &h->options;
	const struct recording_device *d = one->device;
	struct timeline_owners list = { 0 };
	uint32_t event;
	size_t n;
	enum plim_status st = recording_moment(d, &one->timeline, o->at, &out->what, &event, err);

	if (!st)
		st = recording_categories_at(d, event, &h->arena, &out->categories, err);
	if (!st)
		st = recording_owners_at(d, event, (enum timeline_group)o->group_by, &list, err);
	if (st)
		return st;
	out->measure = "allocated";
	out->event = event == TIMELINE_BEFORE ? PLIM_UNKNOWN : event;
	if (event != TIMELINE_BEFORE)
		st = recording_ranges_at(d, event, &h->names, &out->annotations,
					 &out->annotation_count, err);
	if (!st)
		st = recording_tags_at(d, event, &h->names, &out->tags, &out->tag_count, err);
	n = o->owners_max && list.n > o->owners_max ? o->owners_max : list.n;
	out->owners = arena_take(&h->arena, n, sizeof(*out->owners), err);
	if (!st && !out->owners)
		st = mem_status(err);
	for (size_t i = 0; !st && i < list.n; i++) {
		out->total_bytes += list.at[i].bytes;
		if (i < n)
			st = fill_owner(r, &list.at[i], &out->owners[i], err);
		else
			out->left_out_bytes += list.at[i].bytes;
	}
	out->owner_count = n;
	out->owners_left_out = list.n - n;
	timeline_owners_release(&list);
	return st ? st : fill_by_code(r, d, event, out, err);
}

/* ---- devices ---- */

static enum plim_status fill_timeline(struct plim_report *r, struct report_device *one,
				      struct plim_report_device *out, struct plim_err *err)
{
	const struct plim_report_options *o = &r->hidden->options;
	size_t n = one->device->device->events.n, first, last;
	enum plim_status st = recording_narrow(one->device, o->events, o->steps, &one->timeline,
					       &first, &last, err);

	out->timeline_first_event = n ? first : PLIM_UNKNOWN;
	out->timeline_last_event = n ? last : PLIM_UNKNOWN;
	if (st || !n)
		return st;
	out->timeline_bytes =
		arena_take(&r->hidden->arena, TIMELINE_SAMPLES, sizeof(*out->timeline_bytes), err);
	out->timeline_low_bytes = arena_take(&r->hidden->arena, TIMELINE_SAMPLES,
					     sizeof(*out->timeline_low_bytes), err);
	if (!out->timeline_bytes || !out->timeline_low_bytes)
		return mem_status(err);
	out->timeline_count = out->timeline_low_count = TIMELINE_SAMPLES;
	memcpy(out->timeline_bytes, one->timeline.allocated, sizeof(one->timeline.allocated));
	memcpy(out->timeline_low_bytes, one->timeline.lowest, sizeof(one->timeline.lowest));
	return PLIM_OK;
}

/* What needs no words: counts, totals, peaks, the self-check. */
static void fill_numbers(const struct report_device *one, struct plim_report_device *out)
{
	const struct recording_device *d = one->device;
	const struct allocator_replay *replay = d->replay;

	out->events = d->device->events.n;
	out->allocations = d->device->alloc_count;
	out->streams = recording_streams(d);
	fill_totals(&out->before, d->timeline.before);
	fill_totals(&out->end, d->timeline.end);
	out->self_check =
		(struct plim_report_check){ .events = replay->checked_events,
					    .faults = replay->faults,
					    .end_faults = replay->end_faults,
					    .contradictions = d->device->contradictions,
					    .exact = !replay->faults && !replay->end_faults &&
						     !d->device->contradictions &&
						     !d->of->snapshot->profile.kind };
	fill_peak(one, out);
}

/* What the profiler does not say, although its events have been added up. */
static void hide_unknown(enum snapshot_profile_kind kind, struct plim_report_device *out)
{
	static const struct plim_report_moment never = { .event = PLIM_UNKNOWN,
							 .time_us = PLIM_UNKNOWN,
							 .range_bytes = { PLIM_UNKNOWN,
									  PLIM_UNKNOWN },
							 .step = PLIM_UNKNOWN };

	out->peak.lower_bound |= kind != SNAPSHOT_PROFILE_NONE; /* it is switched on within a run */
	if (kind == SNAPSHOT_PROFILE_DEVICE) {                  /* sizes are the blocks' */
		out->before.requested_bytes = out->end.requested_bytes = PLIM_UNKNOWN;
		out->peak.requested_bytes = PLIM_UNKNOWN;
		out->peak.requested = never;
	} else if (kind) {
		out->before.reserved_bytes = out->end.reserved_bytes = PLIM_UNKNOWN;
		out->peak.reserved_bytes = PLIM_UNKNOWN;
		out->peak.reserved = never;
	}
}

/* Failures with their verdicts, and the other findings: these know of the last failure. */
static enum plim_status diagnose(struct plim_report *r, struct report_device *one,
				 struct plim_report_device *out, struct plim_err *err)
{
	struct plim_report_hidden *h = r->hidden;
	struct diagnosis x = { .device = one->device,
			       .tl = &one->timeline,
			       .names = &h->names,
			       .message = h->has_message ? &h->message : NULL,
			       .replays = 1 };
	const struct plim_report_oom *last;
	enum plim_status st = diagnose_ooms(&x, &out->oom, &out->oom_count, err);

	one->death = x.death;
	last = !st && out->oom_count ? &out->oom[out->oom_count - 1] : NULL;
	if (!st)
		st = diagnose_find(&x, NULL, &one->findings, err);
	if (!st)
		st = diagnose_findings(&x, &one->findings, last, &out->findings,
				       &out->finding_count, err);
	if (!st)
		st = diagnose_leaks(&x, &one->findings, last != NULL, &out->leaks, &out->leak_count,
				    err);
	if (!st)
		st = diagnose_gap(&x, &out->gap, err);
	if (!st)
		st = diagnose_gap_at_peak(&x, &out->gap_at_peak, err);
	return st || (last && !last->survived) ? st
					       : diagnose_fills(&x, &one->findings, h->options.gpu,
								&out->fills, &out->fill_count, err);
}

/* In this order: moments are known by steps and phases, owners by the moment, findings by the failures. */
static enum plim_status fill_device(struct plim_report *r, struct report_device *one,
				    struct plim_report_device *out, struct plim_err *err)
{
	struct plim_report_hidden *h = r->hidden;
	const struct recording_device *d = one->device;
	uint32_t end = d->device->events.n ? (uint32_t)d->device->events.n - 1 : TIMELINE_BEFORE;
	enum plim_status st = recording_need(one->device, RECORDING_PARTS, err);

	out->device = d->device->ordinal;
	if (!st)
		st = fill_timeline(r, one, out, err);
	if (st)
		return st;
	fill_numbers(one, out);
	hide_unknown((enum snapshot_profile_kind)h->recording->snapshot->profile.kind, out);
	st = recording_categories_at(d, end, &h->arena, &out->end.categories, err);
	if (!st)
		st = fill_owners(r, one, &out->at_peak, err);
	out->step_basis = recording_step_basis(d);
	if (!st)
		st = recording_steps(d, &h->arena, &out->steps, &out->step_count, err);
	if (!st)
		st = recording_stop(d, &h->arena, &out->stop, err);
	if (!st)
		st = diagnose(r, one, out, err);
	return st ? st
		  : told_fill((recording_is_plan(h->recording) ? TOLD_PLANNED : 0) |
				      (h->recording->snapshot->has_frames ? TOLD_FRAMES : 0),
			      h->options.group_by, &h->arena, out, err);
}

static enum plim_status fill_devices(struct plim_report *r, struct plim_err *err)
{
	struct plim_report_hidden *h = r->hidden;
	struct recording *from = h->recording;
	enum plim_status st = recording_check_device(from, h->options.device, err);

	if (st)
		return st;
	r->devices = arena_take(&h->arena, from->device_count, sizeof(*r->devices), err);
	h->devices = arena_take(&h->arena, from->device_count, sizeof(*h->devices), err);
	if (!r->devices || !h->devices)
		return mem_status(err);
	for (size_t i = 0; !st && i < from->device_count; i++) {
		if (!recording_shows(&from->devices[i], h->options.device))
			continue;
		h->devices[r->device_count].device = &from->devices[i];
		st = fill_device(r, &h->devices[r->device_count], &r->devices[r->device_count],
				 err);
		r->device_count++;
	}
	return st ? st : report_compare_devices(r, err);
}

/* ---- together ---- */

/* A log whose failure is not one of the recording's was not used, which is said first. */
static enum plim_status note_log(struct plim_report *r, struct plim_err *err)
{
	const struct plim_report_hidden *h = r->hidden;
	struct lines notes = { .arena = &r->hidden->arena, .err = err };
	char tried[MESSAGES_SIZE];

	if (!h->has_message)
		return PLIM_OK;
	for (size_t i = 0; i < r->device_count; i++)
		if (h->devices[i].death.message)
			return PLIM_OK;
	lines_add(
		&notes,
		"the log is not used: its failure (line %llu) asked for %s, and no failure of this "
		"recording did; give the log of the same run",
		(unsigned long long)h->message.line, messages_size(tried, h->message.tried));
	for (size_t i = 0; i < r->source.note_count; i++)
		lines_add(&notes, "%s", r->source.notes[i]);
	return lines_keep(&notes, &r->source.notes, &r->source.note_count);
}

static enum plim_status tell_report(struct plim_report *r, struct plim_recording *of,
				    struct plim_err *err)
{
	struct plim_report_hidden *h = r->hidden;
	const struct plim_report_options *o = &h->options;
	enum plim_status st;

	arena_init(&h->arena, &of->mem);
	st = recording_ready(of, err);
	if (st)
		return st;
	h->borrowed = of;
	of->reports++;
	h->recording = of->recording;
	st = recording_names_init(&h->names, h->recording, &h->arena,
				  (o->flags & PLIM_REPORT_REDACT) != 0, o->strip_prefix, err);
	if (!st)
		st = recording_need_all(h->recording, RECORDING_REPLAY, err);
	if (!st)
		st = fill_devices(r, err);
	if (!st)
		st = recording_describe(h->recording, &h->names, of->path, &r->source, err);
	return st ? st : note_log(r, err);
}

static enum plim_status read_log(struct plim_report_hidden *h, struct plim_err *err)
{
	struct mem m;

	if (!h->options.log_path)
		return PLIM_OK;
	host_mem_init(&m, h->options.max_memory_bytes);
	h->has_message = 1;
	return diagnose_read_message(&m, h->options.log_path, &h->message, err);
}

/* Of a recording that is open, or of a path. */
static enum plim_status about(struct plim_recording *recording, const char *path,
			      const struct plim_report_options *options, struct plim_report **out,
			      struct plim_err *err)
{
	struct plim_report *r;
	struct plim_err own;
	enum plim_status st;

	*out = NULL;
	err = err ? err : &own; /* inner floors read the status back from it */
	st = OUT_NEW(report, r, &r->hidden->options, options, err);
	if (st)
		return st;
	st = read_log(r->hidden, err);
	if (!st && path)
		st = recording_new(path, NULL, r->hidden->options.max_memory_bytes,
				   &r->hidden->owned, err);
	if (!st)
		st = tell_report(r, path ? r->hidden->owned : recording, err);
	if (st)
		plim_report_free(r);
	else
		*out = r;
	return st;
}

enum plim_status plim_report_of(struct plim_recording *recording,
				const struct plim_report_options *options, struct plim_report **out,
				struct plim_err *err)
{
	return about(recording, NULL, options, out, err);
}

enum plim_status plim_report_open(const char *path, const struct plim_report_options *options,
				  struct plim_report **out, struct plim_err *err)
{
	return about(NULL, path, options, out, err);
}

/* ---- out ---- */

enum plim_status plim_report_json(const struct plim_report *r, plim_write_fn *write, void *ctx,
				  struct plim_err *err)
{
	return out_json(r->hidden->recording->mem, &report_table, r, write, ctx, err);
}

enum plim_status plim_report_snapshot(const struct plim_report *r, const char *path,
				      struct plim_err *err)
{
	return out_snapshot(r->hidden->recording->snapshot, path, err);
}
