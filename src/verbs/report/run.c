/* plimsoll report: read, replay, walk, explain; the result as plain structs. */
#include "verbs/keep.h"
#include "verbs/options.h"
#include "verbs/out.h"
#include "verbs/report/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERDICTS_EACH_END 4 /* of many deaths, the first and the last ones are explained */

void plim_report_options_init(struct plim_report_options *o)
{
	*o = (struct plim_report_options){ .size = sizeof(*o),
					   .device = PLIM_UNKNOWN,
					   .owners_max = 12 };
}

static void release_device(struct report_device *one)
{
	allocator_replay_free(one->replay);
	timeline_categories_release(&one->categories);
	timeline_steps_release(&one->steps);
	timeline_steps_release(&one->periods);
	timeline_ranges_release(&one->ranges);
	findings_release(&one->findings);
}

void plim_report_free(struct plim_report *r)
{
	struct plim_report_hidden *h;

	if (!r)
		return;
	h = r->hidden;
	for (size_t i = 0; h->devices && h->snapshot && i < h->snapshot->device_count; i++)
		release_device(&h->devices[i]);
	snapshot_free(h->snapshot);
	arena_release(&h->arena);
	free(h);
	free(r);
}

/* ---- source ---- */

int report_is_plan(const struct plim_report *r)
{
	const struct snapshot *t = r->hidden->snapshot;

	return t->annotations.n &&
	       !strcmp(snapshot_text(t, t->annotations.at[0].name), KEEP_PLAN_MARK);
}

/* What a plan knows of its death: nobody else was on the card, and what would have come. */
static void take_planned(const struct plim_report *r, struct findings_death *d)
{
	const struct snapshot *t = r->hidden->snapshot;
	const char *mark = t->annotations.n > 1 ? snapshot_text(t, t->annotations.at[1].name) : "";
	uint64_t now = d->live_bytes + d->request_bytes, peak;

	if (d->bound_by == FINDINGS_BOUND_UNKNOWN)
		d->bound_by = FINDINGS_BOUND_DEVICE;
	if (strncmp(mark, KEEP_PLAN_PEAK, strlen(KEEP_PLAN_PEAK)) != 0)
		return;
	peak = strtoull(mark + strlen(KEEP_PLAN_PEAK), NULL, 10);
	d->card = NULL; /* it is not concluded: it was given */
	d->future = FINDINGS_FUTURE_PLANNED;
	d->still_low_bytes = d->still_likely_bytes = d->still_high_bytes =
		peak > now ? peak - now : 0;
	d->cause = d->likelier =
		peak > d->bound_low_bytes ? FINDINGS_CAUSE_CAPACITY : FINDINGS_CAUSE_FRAGMENTATION;
}

static void note_device(struct lines *notes, const struct snapshot_device *d,
			const struct report_device *one)
{
	char a[32];

	if (!d->events.n && d->segments)
		lines_add(notes,
			  "device %u: no events were recorded, only what stood at the end "
			  "is known",
			  d->ordinal);
	if (d->stale_events)
		lines_add(notes,
			  "device %u: the ring was re-armed smaller without being cleared; "
			  "%u older events "
			  "before a hole were left out",
			  d->ordinal, d->stale_events);
	if (d->events.n && (d->allocs_before || d->reserved_before_bytes))
		lines_add(notes,
			  "device %u: the recording does not begin with the run (the ring "
			  "was full, or it was "
			  "switched on late): %u allocations and %s reserved were there "
			  "before; peaks are "
			  "those of the recorded part",
			  d->ordinal, d->allocs_before, report_size(a, d->reserved_before_bytes));
	if (one->replay->range_bytes)
		lines_add(notes,
			  "device %u: allocated and active bytes may be higher by up to %s: "
			  "how large some "
			  "blocks were that ended in the recording is not known",
			  d->ordinal, report_size(a, one->replay->range_bytes));
	if (d->contradictions || one->replay->faults || one->replay->end_faults)
		lines_add(notes,
			  "device %u: %llu events contradict others, %llu the allocator's "
			  "rules, %llu blocks "
			  "differ at the end: numbers near them are not exact",
			  d->ordinal, (unsigned long long)d->contradictions,
			  (unsigned long long)one->replay->faults,
			  (unsigned long long)one->replay->end_faults);
}

static enum plim_status fill_source(struct plim_report *r, const char *path, struct plim_err *err)
{
	const struct snapshot *t = r->hidden->snapshot;
	struct plim_report_source *s = &r->source;
	struct lines notes = { .arena = &r->hidden->arena, .err = err };
	char word[32];

	s->path = report_text(r, err, "%s",
			      r->hidden->options.flags & PLIM_REPORT_REDACT ? "recording" : path);
	s->kind = t->kind;
	s->compression = t->compression;
	s->bytes = t->file_bytes;
	s->decoded_bytes = t->decoded_bytes;
	s->complete = true;
	for (size_t i = 0; i < t->device_count; i++) {
		const struct snapshot_device *d = &t->devices[i];

		s->events += d->events.n;
		s->complete &= !d->allocs_before && !d->reserved_before_bytes && !d->stale_events;
		note_device(&notes, d, &r->hidden->devices[i]);
	}
	s->complete &= s->events > 0;
	if (report_is_plan(r))
		lines_add(&notes, "this is a plan and no recording: nothing of it was run");
	if (s->events && !t->has_frames)
		lines_add(&notes, "no stacks were recorded: owners are not known (record with "
				  "stacks=\"python\")");
	for (size_t i = 0; i < t->unknown.n; i++) {
		const struct snapshot_unknown *u = &t->unknown.at[i];
		const char *kind = u->where == TRACE_STACK ? "action" : "key";

		if (u->count)
			lines_add(&notes, "unknown %s '%.40s' in %llu %s: left out", kind,
				  report_name(r, u->name, kind, word, sizeof(word)),
				  (unsigned long long)u->count,
				  u->where == TRACE_STACK ? "events"
							  : snapshot_row_names[u->where]);
	}
	if (!s->path)
		return mem_status(err);
	return lines_keep(&notes, &s->notes, &s->note_count);
}

/* ---- peaks ---- */

/* A plan's microseconds are only the numbers of its requests. */
static uint64_t time_of(const struct plim_report *r, const struct snapshot_device *d, uint32_t e)
{
	return r->hidden->snapshot->has_time && !report_is_plan(r) && e < d->events.n
		       ? (uint64_t)d->events.time_us[e]
		       : PLIM_UNKNOWN;
}

static struct plim_report_moment moment(const struct plim_report *r,
					const struct report_device *one, int measure)
{
	const struct timeline *tl = &one->timeline;
	uint32_t e = tl->peak_event[measure];
	int blocks = measure == TIMELINE_ALLOCATED || measure == TIMELINE_ACTIVE;

	return (struct plim_report_moment){
		.event = e == TIMELINE_BEFORE ? PLIM_UNKNOWN : e,
		.time_us = e == TIMELINE_BEFORE ? PLIM_UNKNOWN : time_of(r, tl->device, e),
		.range_bytes = blocks ? tl->replay->range_bytes : 0,
		.step = e == TIMELINE_BEFORE ? PLIM_UNKNOWN : report_step_of(one, e),
		.phase = e == TIMELINE_BEFORE ? NULL : report_phase_of(one, e),
	};
}

static void fill_totals(struct plim_report_totals *to, const uint64_t from[TIMELINE_MEASURES])
{
	to->requested_bytes = from[TIMELINE_REQUESTED];
	to->active_bytes = from[TIMELINE_ACTIVE];
	to->allocated_bytes = from[TIMELINE_ALLOCATED];
	to->reserved_bytes = from[TIMELINE_RESERVED];
}

static void fill_peak(struct plim_report *r, const struct report_device *one,
		      struct plim_report_device *out)
{
	const struct timeline *tl = &one->timeline;
	struct plim_report_peak *p = &out->peak;

	p->requested_bytes = tl->peak[TIMELINE_REQUESTED];
	p->active_bytes = tl->peak[TIMELINE_ACTIVE];
	p->allocated_bytes = tl->peak[TIMELINE_ALLOCATED];
	p->reserved_bytes = tl->peak[TIMELINE_RESERVED];
	p->requested = moment(r, one, TIMELINE_REQUESTED);
	p->active = moment(r, one, TIMELINE_ACTIVE);
	p->allocated = moment(r, one, TIMELINE_ALLOCATED);
	p->reserved = moment(r, one, TIMELINE_RESERVED);
	p->lower_bound = !tl->device->events.n || tl->device->allocs_before ||
			 tl->device->reserved_before_bytes;
}

/* ---- owners ---- */

/* The moment that --at names, or the one that matters most. */
static enum plim_status find_moment(struct plim_report *r, const struct timeline *tl,
				    const char **what, uint32_t *event, struct plim_err *err)
{
	const char *at = r->hidden->options.at;
	size_t events = tl->device->events.n, ooms = tl->replay->ooms.n;
	unsigned long long number;
	char *rest;

	*what = at ? at : ooms ? "oom" : "peak";
	*event = events ? (uint32_t)events - 1 : TIMELINE_BEFORE;
	if (!strcmp(*what, "peak"))
		*event = tl->peak_event[TIMELINE_ALLOCATED];
	else if (!strcmp(*what, "oom") && ooms)
		*event = tl->replay->ooms.at[ooms - 1].event;
	else if (!strcmp(*what, "oom"))
		return err_set(err, PLIM_E_ARG,
			       "--at oom: the recording holds no out-of-memory event");
	else if (!strncmp(*what, "event:", 6)) {
		errno = 0;
		number = strtoull(*what + 6, &rest, 10);
		if (errno || *rest || rest == *what + 6 || number >= events)
			return err_set(err, PLIM_E_ARG,
				       "--at %s: the recording's events are 0 to %zu", *what,
				       events ? events - 1 : 0);
		*event = (uint32_t)number;
		*what = "event";
	} else if (strcmp(*what, "end")) {
		return err_set(err, PLIM_E_ARG, "--at '%s' is none of peak, oom, end, event:N",
			       *what);
	}
	return PLIM_OK;
}

static enum plim_status fill_owner(struct plim_report *r, const struct timeline_owner *from,
				   struct plim_report_owner *to, struct plim_err *err)
{
	int by_size = r->hidden->options.group_by == PLIM_GROUP_SIZE;

	to->bytes = from->bytes;
	to->inferred = from->inferred;
	to->count = from->count;
	to->each_bytes = by_size ? from->size_bytes : PLIM_UNKNOWN;
	to->frame = report_frame(r, from->frame, err);
	if (from->frame != TRACE_NONE && !to->frame)
		return mem_status(err);
	return report_stack(r, from->stack, &to->stack, &to->stack_count, err);
}

static enum plim_status fill_owners(struct plim_report *r, const struct report_device *one,
				    struct plim_report_owners *out, struct plim_err *err)
{
	const struct plim_report_options *o = &r->hidden->options;
	const struct timeline *tl = &one->timeline;
	struct timeline_owners list = { 0 };
	uint32_t event;
	size_t n;
	enum plim_status st = find_moment(r, tl, &out->what, &event, err);

	if (!st)
		st = report_categories(r, one, event, &out->categories, err);
	if (!st)
		st = timeline_owners_at(&r->hidden->mem, tl, event, TIMELINE_ALLOCATED,
					(enum timeline_group)o->group_by, one->categories.stack,
					&list, err);
	if (st)
		return st;
	out->measure = "allocated";
	out->event = event == TIMELINE_BEFORE ? PLIM_UNKNOWN : event;
	if (event != TIMELINE_BEFORE)
		st = report_ranges(r, one, event, &out->annotations, &out->annotation_count, err);
	n = o->owners_max && list.n > o->owners_max ? o->owners_max : list.n;
	out->owners = report_take(r, n, sizeof(*out->owners), err);
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
	return st;
}

/* ---- deaths and leaks ---- */

/* What the last one's requests do under other settings, where these are the question. */
static enum plim_status try_settings(struct plim_report *r, struct report_device *one,
				     struct plim_err *err)
{
	const struct findings_death *d = &one->death;
	int limit = d->bound_by == FINDINGS_BOUND_LIMIT;
	struct allocator_bounds bounds = { .limit_bytes = limit ? d->bound_low_bytes : UINT64_MAX,
					   .capacity_bytes =
						   limit ? UINT64_MAX : d->bound_low_bytes };

	one->tried_count = 0;
	if ((d->cause != FINDINGS_CAUSE_FRAGMENTATION && d->cause != FINDINGS_CAUSE_UNKNOWN) ||
	    d->bound_low_bytes == PLIM_UNKNOWN)
		return PLIM_OK;
	one->tried_count = FINDINGS_TRIED;
	return findings_try_settings(&r->hidden->mem, &one->timeline, &bounds, one->tried,
				     &one->tried_count, err);
}

static enum plim_status fill_oom(struct plim_report *r, struct report_device *one,
				 struct timeline_cursor *at, size_t i, struct plim_report_oom *out,
				 struct plim_err *err)
{
	const struct timeline *tl = &one->timeline;
	const struct snapshot *t = r->hidden->snapshot;
	const struct snapshot_events *ev = &tl->device->events;
	const struct allocator_oom *oom = &tl->replay->ooms.at[i];
	int last = i + 1 == tl->replay->ooms.n;
	int explained = i < VERDICTS_EACH_END || i + VERDICTS_EACH_END >= tl->replay->ooms.n;
	struct findings_input in = { .tl = tl,
				     .categories = &one->categories,
				     .steps = &one->steps,
				     .periods = &one->periods,
				     .message = last && r->hidden->has_message ? &r->hidden->message
									       : NULL };
	struct findings_death *d = &one->death;
	uint32_t e = oom->event;
	enum plim_status st;

	*out = (struct plim_report_oom){
		.event = e,
		.time_us = time_of(r, tl->device, e),
		.survived = snapshot_find_death(ev) != e,
		.requested_bytes = ev->size[e],
		.segment_bytes = allocator_segment_bytes(&tl->replay->rules, ev->size[e]),
		.stream = t->streams.n ? t->streams.at[ev->stream[e]] : 0,
		.pool = ev->size[e] <= ALLOCATOR_SMALL_SIZE ? "small" : "large",
		.device_free_bytes = ev->addr[e],
		.bound_bytes = PLIM_UNKNOWN,
		.free_bytes = oom->free_bytes,
		.largest_free_bytes = oom->largest_free_bytes
	};
	timeline_go(tl, at, e);
	out->live_bytes = at->bytes[TIMELINE_ALLOCATED];
	out->reserved_bytes = at->bytes[TIMELINE_RESERVED];
	out->frame = report_frame(r, timeline_user_frame(t, ev->stack[e]), err);
	st = report_stack(r, ev->stack[e], &out->stack, &out->stack_count, err);
	if (st || !explained)
		return st;
	st = report_ranges(r, one, e, &out->annotations, &out->annotation_count, err);
	if (!st)
		st = findings_explain_death(&r->hidden->mem, &in, oom, d, err);
	if (st)
		return st;
	if (report_is_plan(r))
		take_planned(r, d);
	out->bound_bytes = d->bound_low_bytes;
	if (last && !r->hidden->summary && !report_is_plan(r))
		st = try_settings(r, one, err);
	out->verdict = st ? NULL : report_take(r, 1, sizeof(*out->verdict), err);
	return out->verdict ? report_verdict(r, d, one->tried, one->tried_count, out->verdict, err)
			    : err->status;
}

/* ---- devices ---- */

/* "A:B" with numbers below n; either may be left out. */
static enum plim_status read_range(const char *option, const char *text, size_t n, size_t *first,
				   size_t *last, struct plim_err *err)
{
	const char *colon = strchr(text, ':');
	unsigned long long a = 0, b = n ? n - 1 : 0;
	char *rest = NULL;

	if (colon && colon > text) {
		a = strtoull(text, &rest, 10);
		colon = rest == colon ? colon : NULL;
	}
	if (colon && colon[1]) {
		b = strtoull(colon + 1, &rest, 10);
		colon = *rest ? NULL : colon;
	}
	if (!colon || *text == '-' || colon[1] == '-')
		return err_set(err, PLIM_E_ARG, "%s '%s' is not A:B, two numbers", option, text);
	if (a > b || b >= n)
		return err_set(err, PLIM_E_ARG, "%s '%s': the recording has 0 to %zu", option, text,
			       n ? n - 1 : 0);
	*first = (size_t)a;
	*last = (size_t)b;
	return PLIM_OK;
}

/* The events of --steps A:B. */
static enum plim_status range_of_steps(struct plim_report *r, const struct timeline_steps *steps,
				       size_t *first, size_t *last, struct plim_err *err)
{
	size_t a, b;
	enum plim_status st;

	if (!steps->ends.n)
		return err_set(err, PLIM_E_ARG,
			       "--steps: nothing that repeats is seen in this recording; use "
			       "--events A:B");
	st = read_range("--steps", r->hidden->options.steps, steps->ends.n, &a, &b, err);
	if (st)
		return st;
	*first = a ? steps->ends.at[a - 1] + (size_t)1 : 0;
	*last = steps->ends.at[b];
	return PLIM_OK;
}

static enum plim_status fill_timeline(struct plim_report *r, struct report_device *one,
				      struct plim_report_device *out, struct plim_err *err)
{
	const struct plim_report_options *o = &r->hidden->options;
	struct timeline *tl = &one->timeline;
	size_t n = tl->device->events.n, first = 0, last = n ? n - 1 : 0;
	enum plim_status st = PLIM_OK;

	if (n && o->events)
		st = read_range("--events", o->events, n, &first, &last, err);
	else if (n && o->steps)
		st = range_of_steps(r, report_repeats(one), &first, &last, err);
	out->timeline_first_event = n ? first : PLIM_UNKNOWN;
	out->timeline_last_event = n ? last : PLIM_UNKNOWN;
	if (st || !n)
		return st;
	if (o->events || o->steps)
		timeline_narrow(tl, (uint32_t)first, (uint32_t)last);
	out->timeline_bytes = report_take(r, TIMELINE_SAMPLES, sizeof(*out->timeline_bytes), err);
	if (!out->timeline_bytes)
		return mem_status(err);
	out->timeline_count = TIMELINE_SAMPLES;
	memcpy(out->timeline_bytes, tl->allocated, sizeof(tl->allocated));
	return PLIM_OK;
}

static uint64_t count_streams(const struct snapshot *t, const struct snapshot_device *d)
{
	uint8_t seen[4096] = { 0 };
	uint64_t n = 0;

	for (size_t e = 0; e < d->events.n; e++) {
		if (d->events.action[e] == TRACE_ALLOC && !seen[d->events.stream[e] & 4095]) {
			seen[d->events.stream[e] & 4095] = 1;
			n++;
		}
	}
	(void)t;
	return n;
}

static enum plim_status fill_device(struct plim_report *r, size_t i, struct plim_report_device *out,
				    struct plim_err *err)
{
	struct snapshot *t = r->hidden->snapshot;
	const struct snapshot_device *d = &t->devices[i];
	struct report_device *one = &r->hidden->devices[i];
	struct timeline *tl = &one->timeline;
	struct timeline_cursor at;
	enum plim_status st;

	timeline_walk(tl, t, d, one->replay);
	out->device = d->ordinal;
	out->events = d->events.n;
	out->allocations = d->alloc_count;
	out->streams = count_streams(t, d);
	fill_totals(&out->before, tl->before);
	fill_totals(&out->end, tl->end);
	out->self_check = (struct plim_report_check){ .events = one->replay->checked_events,
						      .faults = one->replay->faults,
						      .end_faults = one->replay->end_faults,
						      .contradictions = d->contradictions };
	out->self_check.exact =
		!one->replay->faults && !one->replay->end_faults && !d->contradictions;
	st = report_categorize(r, one, err);
	if (!st)
		st = fill_timeline(r, one, out, err);
	if (!st)
		fill_peak(r, one, out);
	if (!st)
		st = report_categories(r, one,
				       d->events.n ? (uint32_t)d->events.n - 1 : TIMELINE_BEFORE,
				       &out->end.categories, err);
	if (!st)
		st = fill_owners(r, one, &out->at_peak, err);
	out->oom_count = one->replay->ooms.n;
	out->oom = st ? NULL : report_take(r, out->oom_count, sizeof(*out->oom), err);
	if (!st && !out->oom)
		st = mem_status(err);
	timeline_start(tl, &at);
	for (size_t k = 0; !st && k < out->oom_count; k++)
		st = fill_oom(r, one, &at, k, &out->oom[k], err);
	if (!st)
		st = report_steps(r, one, out, err);
	return st ? st : report_findings(r, one, out, err);
}

static enum plim_status fill_devices(struct plim_report *r, struct plim_err *err)
{
	struct snapshot *t = r->hidden->snapshot;
	uint64_t only = r->hidden->options.device;
	enum plim_status st = PLIM_OK;

	if (only != PLIM_UNKNOWN && only >= t->device_count)
		return err_set(err, PLIM_E_ARG, "device %llu: the recording holds %zu device%s",
			       (unsigned long long)only, t->device_count,
			       t->device_count == 1 ? "" : "s");
	r->devices = report_take(r, t->device_count, sizeof(*r->devices), err);
	if (!r->devices)
		return mem_status(err);
	for (size_t i = 0; !st && i < t->device_count; i++) {
		if (only != PLIM_UNKNOWN ? i != only
					 : !t->devices[i].events.n && !t->devices[i].segments)
			continue;
		st = fill_device(r, i, &r->devices[r->device_count++], err);
	}
	return st;
}

static enum plim_status replay_all(struct plim_report *r, struct plim_err *err)
{
	struct plim_report_hidden *h = r->hidden;
	enum plim_status st = PLIM_OK;

	h->devices = report_take(r, h->snapshot->device_count, sizeof(*h->devices), err);
	h->words = h->devices ? report_take(r, h->snapshot->heap.strings.n, sizeof(*h->words), err)
			      : NULL;
	if (!h->words)
		return mem_status(err);
	for (size_t i = 0; !st && i < h->snapshot->device_count; i++)
		st = allocator_replay_own(&h->mem, h->snapshot, &h->snapshot->devices[i],
					  &h->devices[i].replay, err);
	return st;
}

static enum plim_status read_log(struct plim_report *r, struct plim_err *err)
{
	struct plim_report_hidden *h = r->hidden;
	enum plim_status st;

	if (!h->options.log_path)
		return PLIM_OK;
	st = messages_find_oom(&h->mem, h->options.log_path, &h->message, &h->has_message, err);
	if (!st && !h->has_message)
		st = err_set(err, PLIM_E_FORMAT, "%s: no PyTorch out-of-memory message in it",
			     h->options.log_path);
	return st;
}

enum plim_status report_new(const struct plim_report_options *options, struct plim_report **out,
			    struct plim_err *err)
{
	struct plim_report *r = calloc(1, sizeof(*r));

	*out = NULL;
	if (r)
		r->hidden = calloc(1, sizeof(*r->hidden));
	if (!r || !r->hidden) {
		free(r);
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	}
	plim_report_options_init(&r->hidden->options);
	OPTIONS_TAKE(&r->hidden->options, options);
	mem_init(&r->hidden->mem, r->hidden->options.max_memory_bytes);
	arena_init(&r->hidden->arena, &r->hidden->mem);
	*out = r;
	return PLIM_OK;
}

static enum plim_status read_trace(struct plim_report *r, const char *path, struct report_input *in,
				   struct plim_err *err)
{
	struct plim_report_hidden *h = r->hidden;
	struct snapshot_read_options how = { .threads = in ? in->threads : 0,
					     .is_other = in ? &in->is_other : NULL };

	return in && in->source
		       ? snapshot_read_source(&h->mem, in->source, path, &how, &h->snapshot, err)
		       : snapshot_read(&h->mem, path, &how, &h->snapshot, err);
}

enum plim_status report_open(const char *path, struct report_input *in,
			     const struct plim_report_options *options, struct plim_report **out,
			     struct plim_err *err)
{
	struct plim_report *r;
	struct plim_err own;
	enum plim_status st;

	*out = NULL;
	err = err ? err : &own; /* inner floors read the status back from it */
	st = report_new(options, &r, err);
	if (st)
		return st;
	r->hidden->summary = in && in->summary;
	st = read_log(r, err);
	if (!st)
		st = read_trace(r, path, in, err);
	if (!st)
		st = replay_all(r, err);
	if (!st)
		st = fill_devices(r, err);
	if (!st)
		st = fill_source(r, path, err);
	if (st)
		plim_report_free(r);
	else
		*out = r;
	return st;
}

enum plim_status plim_report_open(const char *path, const struct plim_report_options *options,
				  struct plim_report **out, struct plim_err *err)
{
	return report_open(path, NULL, options, out, err);
}

/* ---- out ---- */

enum plim_status plim_report_json(const struct plim_report *r, plim_write_fn *write, void *ctx,
				  struct plim_err *err)
{
	return out_json(&r->hidden->mem, &report_table, r, write, ctx, err);
}

enum plim_status plim_report_snapshot(const struct plim_report *r, const char *path,
				      struct plim_err *err)
{
	return out_snapshot(r->hidden->snapshot, path, err);
}
