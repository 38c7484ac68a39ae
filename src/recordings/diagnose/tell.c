/* What a recording's device says of its failures and findings, as the public structs that commands show. */
#include "diagnose.h"

#include <math.h>
#include <string.h>

#define VERDICTS_EACH_END 4 /* of many failures, the first and the last ones are explained */

enum plim_status diagnose_read_message(struct mem *m, const char *path, struct messages_oom *out,
				       struct plim_err *err)
{
	int found = 0;
	enum plim_status st = messages_find_oom(m, path, out, &found, err);

	if (!st && !found)
		st = err_set(err, PLIM_E_FORMAT, "%s: no PyTorch out-of-memory message in it",
			     path);
	return st;
}

/* ---- failures ---- */

static int is_last(const struct diagnosis *x, size_t i)
{
	return i + 1 == x->device->replay->ooms.n;
}

static struct findings_input input_of(const struct diagnosis *x)
{
	const struct recording_device *d = x->device;

	return (struct findings_input){ .tl = x->tl,
					.categories = &d->categories,
					.steps = &d->steps,
					.periods = &d->periods };
}

/* What a plan knows of its failure: no one else was on the GPU, and what would have come. */
static void take_planned(uint64_t peak, struct findings_death *d)
{
	uint64_t now = d->live_bytes + d->request_bytes;

	if (d->bound_by == FINDINGS_BOUND_UNKNOWN)
		d->bound_by = FINDINGS_BOUND_DEVICE;
	if (!peak)
		return;
	d->card = NULL; /* it is not concluded: it was given */
	d->future = FINDINGS_FUTURE_PLANNED;
	d->still_low_bytes = d->still_likely_bytes = d->still_high_bytes =
		peak > now ? peak - now : 0;
	d->cause = d->likelier =
		peak > d->bound_low_bytes ? FINDINGS_CAUSE_CAPACITY : FINDINGS_CAUSE_FRAGMENTATION;
}

enum plim_status diagnose_death(struct diagnosis *x, size_t i, struct plim_err *err)
{
	struct recording *r = x->device->of;
	struct findings_input in = input_of(x);
	enum plim_status st;

	r->counts.deaths++;
	in.message = is_last(x, i) ? x->message : NULL;
	st = findings_explain_death(r->mem, &in, &x->device->replay->ooms.at[i], &x->death, err);
	if (!st && recording_is_plan(r))
		take_planned(recording_planned_peak(r), &x->death);
	return st;
}

/* What the last one's requests do under other settings, where these are the question. */
static enum plim_status try_settings(struct diagnosis *x, struct plim_err *err)
{
	const struct findings_death *d = &x->death;
	struct allocator_bounds bounds = findings_bounds_of(d);

	x->tried_count = 0;
	if (d->cause == FINDINGS_CAUSE_CAPACITY || d->cause == FINDINGS_CAUSE_LEAK ||
	    d->bound_low_bytes == PLIM_UNKNOWN)
		return PLIM_OK;
	x->device->of->counts.trials++;
	x->tried_count = FINDINGS_TRIED;
	return findings_try_settings(x->device->of->mem, x->tl, &bounds, x->tried, &x->tried_count,
				     err);
}

static enum plim_status tell_tried(const struct diagnosis *x, struct plim_report_oom *out,
				   struct plim_err *err)
{
	out->tried = arena_take(x->names->arena, x->tried_count, sizeof(*out->tried), err);
	if (!out->tried)
		return mem_status(err);
	for (size_t i = 0; i < x->tried_count; i++)
		out->tried[i] = (struct plim_report_tried){
			.settings = x->tried[i].settings,
			.survives = x->tried[i].survives,
			.oom_event = x->tried[i].run.oom_event,
			.limit_bytes = x->tried[i].run.limit_bytes,
			.reserved_peak_bytes = x->tried[i].run.reserved_peak_bytes,
		};
	out->tried_count = x->tried_count;
	return PLIM_OK;
}

static enum plim_status tell_verdict(struct diagnosis *x, size_t i, struct plim_report_oom *out,
				     struct plim_err *err)
{
	struct recording *r = x->device->of;
	enum plim_status st = recording_ranges_at(x->device, (uint32_t)out->event, x->names,
						  &out->annotations, &out->annotation_count, err);

	if (!st)
		st = diagnose_death(x, i, err);
	if (st)
		return st;
	out->bound_bytes = x->death.bound_low_bytes;
	x->tried_count = 0;
	if (is_last(x, i) && x->replays && !recording_is_plan(r))
		st = try_settings(x, err);
	out->verdict = st ? NULL : arena_take(x->names->arena, 1, sizeof(*out->verdict), err);
	if (!out->verdict)
		return mem_status(err);
	r->counts.verdicts++;
	st = tell_tried(x, out, err);
	if (st)
		return st;
	return diagnose_verdict(x->names, &x->death, x->tried, x->tried_count, out->verdict, err);
}

/* Whose backward pass was at work: of what it allocated or released last, as far as that is known. */
static uint32_t answered_stack(const struct recording_device *d, uint32_t event)
{
	const struct snapshot_events *ev = &d->device->events;
	const struct timeline_categories *c = &d->categories;

	for (uint32_t e = event; c->mem && e-- > 0 && c->phase[e] == TIMELINE_BACKWARD;) {
		uint32_t a = ev->alloc[e];

		if (ev->action[e] == TRACE_ALLOC && c->stack[a] != TRACE_NONE)
			return c->stack[a];
		if (ev->action[e] == TRACE_FREE_REQUESTED &&
		    timeline_rules[c->rule[a]].category == TIMELINE_ACTIVATION &&
		    !snapshot_stackless(d->of->snapshot, d->device->allocs[a].stack))
			return d->device->allocs[a].stack;
	}
	return TRACE_NONE;
}

static enum plim_status place_oom(const struct diagnosis *x, uint32_t event,
				  struct plim_report_oom *out, struct plim_err *err)
{
	const struct recording_device *d = x->device;
	const struct snapshot *t = d->of->snapshot;
	uint32_t stack = d->device->events.stack[event];

	out->frame = recording_frame(x->names, timeline_user_frame(t, stack), err);
	if (snapshot_stackless(t, stack) && d->categories.mem && event < d->categories.events &&
	    d->categories.phase[event] == TIMELINE_BACKWARD) {
		stack = answered_stack(d, event);
		out->backward_of = recording_frame(x->names, timeline_user_frame(t, stack), err);
	}
	out->code_frame = recording_frame(x->names, timeline_code_frame(t, stack), err);
	return PLIM_OK;
}

static enum plim_status tell_oom(struct diagnosis *x, size_t i, struct timeline_cursor *at,
				 struct plim_report_oom *out, struct plim_err *err)
{
	const struct recording_device *d = x->device;
	const struct snapshot *t = d->of->snapshot;
	const struct snapshot_events *ev = &d->device->events;
	const struct allocator_oom *oom = &d->replay->ooms.at[i];
	uint32_t e = oom->event;
	enum plim_status st;

	*out = (struct plim_report_oom){
		.event = e,
		.time_us = recording_time_of(d, e),
		.survived = snapshot_find_death(ev) != e,
		.requested_bytes = ev->size[e],
		.segment_bytes = allocator_segment_bytes(&d->replay->rules, ev->size[e]),
		.stream = t->streams.n ? t->streams.at[ev->stream[e]] : 0,
		.pool = ev->size[e] <= ALLOCATOR_SMALL_SIZE ? "small" : "large",
		.device_free_bytes = ev->addr[e],
		.bound_bytes = PLIM_UNKNOWN,
		.free_bytes = oom->free_bytes,
		.largest_free_bytes = oom->largest_free_bytes,
		.step = recording_step_of(d, e),
		.phase = recording_phase_of(d, e),
	};
	timeline_go(&d->timeline, at, e);
	out->live_bytes = at->bytes[TIMELINE_ALLOCATED];
	out->reserved_bytes = at->bytes[TIMELINE_RESERVED];
	st = place_oom(x, e, out, err);
	if (st)
		return st;
	st = recording_stack(x->names, ev->stack[e], &out->stack, &out->stack_count, err);
	if (st || (i >= VERDICTS_EACH_END && i + VERDICTS_EACH_END < d->replay->ooms.n))
		return st;
	return tell_verdict(x, i, out, err);
}

enum plim_status diagnose_ooms(struct diagnosis *x, struct plim_report_oom **out, size_t *count,
			       struct plim_err *err)
{
	size_t n = x->device->replay->ooms.n;
	struct timeline_cursor at;
	enum plim_status st = PLIM_OK;

	*count = 0;
	*out = arena_take(x->names->arena, n, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	timeline_start(&x->device->timeline, &at);
	for (; !st && *count < n; ++*count)
		st = tell_oom(x, *count, &at, &(*out)[*count], err);
	return st;
}

enum plim_status diagnose_last_oom(struct diagnosis *x, struct plim_report_oom *out,
				   struct plim_err *err)
{
	struct timeline_cursor at;

	timeline_start(&x->device->timeline, &at);
	return tell_oom(x, x->device->replay->ooms.n - 1, &at, out, err);
}

/* ---- findings ---- */

static enum plim_status keep_lines(struct recording_names *names, const struct findings_lines *from,
				   const char ***out, size_t *n, struct plim_err *err)
{
	*out = arena_take(names->arena, from->n, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	for (size_t i = 0; i < from->n; i++) {
		(*out)[i] = arena_copy(names->arena, from->at[i], err);
		if (!(*out)[i])
			return mem_status(err);
	}
	*n = from->n;
	return PLIM_OK;
}

/* "train.py:41" of "/home/me/train.py:41 in step". */
static const char *finding_place_of(struct recording_names *names, const char *frame,
				    struct plim_err *err)
{
	const char *end = NULL, *from;

	for (const char *in = frame; in; in = strstr(in + 1, " in "))
		end = in > frame ? in : NULL;
	if (!end)
		end = frame + strlen(frame);
	for (from = end; from > frame && from[-1] != '/';)
		from--;
	return arena_text(names->arena, err, "%.*s", (int)(end - from), from);
}

static enum plim_status fill_leak(struct recording_names *names, const struct findings_leak *from,
				  size_t finding, struct plim_report_leak *l, struct plim_err *err)
{
	*l = (struct plim_report_leak){ .finding = finding,
					.grown_bytes = from->grown_bytes,
					.per_repetition_bytes = from->per_repetition_bytes,
					.repetitions = from->repetitions,
					.first_event = from->first_event,
					.last_event = from->last_event,
					.loop = recording_frame(names, from->loop_frame, err),
					.frame = recording_frame(names, from->frame, err),
					.part_bytes = from->part_bytes };
	return recording_stack(names, from->stack, &l->stack, &l->stack_count, err);
}

#define ALLOCATIONS_MAX 4096 /* as types.h says */

struct sized {
	uint64_t bytes;
	uint32_t alloc;
};

static int largest_first(const void *a, const void *b)
{
	const struct sized *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->alloc > y->alloc) - (x->alloc < y->alloc);
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static enum plim_status keep_allocations(const struct diagnosis *x, const struct finding *from,
					 struct plim_finding *out, struct plim_err *err)
{
	struct mem *m = x->device->of->mem;
	size_t n = from->about.n, kept = n < ALLOCATIONS_MAX ? n : ALLOCATIONS_MAX;
	struct sized *all = mem_new(m, n, sizeof(*all), err);

	if (!all)
		return mem_status(err);
	for (size_t i = 0; i < n; i++)
		all[i] = (struct sized){
			x->device->device->allocs[from->about.at[i]].requested_bytes,
			from->about.at[i]
		};
	sort_items(all, n, sizeof(*all), largest_first);
	out->allocations = arena_take(x->names->arena, kept, sizeof(*out->allocations), err);
	for (size_t i = 0; out->allocations && i < kept; i++)
		out->allocations[i] = all[i].alloc;
	mem_free(m, all, n, sizeof(*all));
	if (!out->allocations)
		return mem_status(err);
	sort_items(out->allocations, kept, sizeof(*out->allocations), by_number);
	out->allocation_count = kept;
	return PLIM_OK;
}

static enum plim_status keep_place(struct recording_names *names, uint32_t frame,
				   struct plim_place *out, struct plim_err *err)
{
	struct recording_place at;
	uint32_t line;

	out->line = out->offset = PLIM_UNKNOWN;
	if (frame == TRACE_NONE)
		return PLIM_OK;
	recording_place(names, frame, &at);
	line = snapshot_frame(names->of->snapshot, frame)->line;
	out->line = line == TRACE_NONE ? PLIM_UNKNOWN : line;
	out->file = arena_text(names->arena, err, "%.900s", at.file);
	return out->file ? PLIM_OK : mem_status(err);
}

static enum plim_status fill_one(const struct diagnosis *x, const struct finding *from,
				 struct plim_finding *out, struct plim_err *err)
{
	struct recording_names *names = x->names;
	const char *frame = recording_frame(names, from->frame, err), *place;
	enum plim_status st;

	if (from->frame != TRACE_NONE && !frame)
		return mem_status(err);
	place = frame ? finding_place_of(names, frame, err) : NULL;
	*out = (struct plim_finding){
		.id = from->id,
		.severity = (enum plim_severity)from->severity,
		.confidence = from->confidence,
		.title = place ? arena_text(names->arena, err, "%s (%s)", from->title, place)
			       : arena_copy(names->arena, from->title, err),
		.bytes = from->bytes,
		.per_period_bytes = from->bytes_per_period,
		.period = from->period,
		.place = { .frame = frame, .inferred = from->inferred },
		.step = NAN,
		.detected_step = NAN,
		.end_step = NAN,
	};
	if (!out->title)
		return mem_status(err);
	st = keep_place(names, from->frame, &out->place, err);
	if (!st)
		st = keep_allocations(x, from, out, err);
	if (!st)
		st = keep_lines(names, &from->evidence, &out->evidence, &out->evidence_count, err);
	if (!st)
		st = keep_lines(names, &from->fix, &out->fix, &out->fix_count, err);
	if (!st)
		st = keep_lines(names, &from->see, &out->see, &out->see_count, err);
	return st;
}

/* A death is a finding too, the first one; its verdict has the rest. */
static void fill_death(const struct plim_report_oom *last, double confidence,
		       struct plim_finding *out)
{
	static const char *whatif[] = { "plimsoll whatif" },
			  *owners[] = { "plimsoll report --at oom --group-by stack" };
	const struct plim_verdict *v = last->verdict;
	enum plim_cause cause = v->cause ? v->cause : v->likely_cause;

	*out = (struct plim_finding){
		.id = "oom",
		.severity = last->survived ? PLIM_SEVERITY_INFO : PLIM_SEVERITY_ERROR,
		.confidence = confidence,
		.title = v->headline,
		.bytes = last->requested_bytes,
		.per_period_bytes = PLIM_UNKNOWN,
		.place = { .frame = last->frame, .line = PLIM_UNKNOWN, .offset = PLIM_UNKNOWN },
		.evidence = v->evidence,
		.evidence_count = v->evidence_count,
		.fix = v->helps,
		.fix_count = v->helps_count,
		.see = cause == PLIM_CAUSE_FRAGMENTATION ? whatif : owners,
		.see_count = 1,
		.step = NAN,
		.detected_step = NAN,
		.end_step = NAN
	};
}

enum plim_status diagnose_find(const struct diagnosis *x, const char *only,
			       struct findings_list *out, struct plim_err *err)
{
	struct recording *r = x->device->of;
	struct findings_input in = input_of(x);

	r->counts.findings++;
	in.only = only;
	in.death = x->device->replay->ooms.n ? &x->death : NULL;
	in.replays = x->replays;
	in.tried = x->tried;
	in.tried_count = x->tried_count;
	return findings_find(r->mem, &in, out, err);
}

enum plim_status diagnose_findings(const struct diagnosis *x, const struct findings_list *list,
				   const struct plim_report_oom *last, struct plim_finding **out,
				   size_t *count, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	*count = 0;
	*out = arena_take(x->names->arena, list->all.n + 1, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	if (last)
		fill_death(last, x->death.confidence, &(*out)[(*count)++]);
	for (size_t i = 0; !st && i < list->all.n; i++)
		st = fill_one(x, &list->all.at[i], &(*out)[(*count)++], err);
	return st;
}

enum plim_status diagnose_leaks(const struct diagnosis *x, const struct findings_list *list,
				size_t before, struct plim_report_leak **out, size_t *count,
				struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	*count = 0;
	*out = arena_take(x->names->arena, list->all.n, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	for (size_t i = 0; !st && i < list->all.n; i++)
		if (!strcmp(list->all.at[i].id, "leak"))
			st = fill_leak(x->names, &list->all.at[i].leak, before + i,
				       &(*out)[(*count)++], err);
	return st;
}
