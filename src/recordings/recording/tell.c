/* What commands say of a recording: its file, steps, categories and ranges as public structs. */
#include "recording.h"

#include <string.h>

/* ---- the file ---- */

static void note_beginning(struct lines *notes, const struct recording_device *one)
{
	static const char *const why[] = { "the ring was full, or it was switched on late",
					   "it was switched on late", "the ring was full" };
	const struct snapshot_device *d = one->device;
	int overflowed = snapshot_overflowed(one->of->snapshot);
	char a[32], b[32];

	if (d->events.n && (d->allocs_before || d->reserved_before_bytes))
		lines_add(notes,
			  "device %u: the recording does not begin with the run (%s): %s "
			  "allocation%s and %s reserved were there before; peaks are those of the "
			  "recorded part",
			  d->ordinal, why[1 + overflowed], text_number(b, d->allocs_before),
			  text_s(d->allocs_before), text_size(a, d->reserved_before_bytes));
	else if (d->events.n && overflowed == 1)
		lines_add(notes,
			  "device %u: the ring was full: nothing that was there before it is left, "
			  "but peaks are those of the recorded part",
			  d->ordinal);
}

static void note_profile_of(struct lines *notes, const struct recording_device *one)
{
	char a[32];

	if (one->replay->allocated_before_bytes)
		lines_add(
			notes,
			"device %u: %s were allocated before the trace began: it shows what of it "
			"was freed, and not for what it was",
			one->device->ordinal, text_size(a, one->replay->allocated_before_bytes));
	if (one->device->contradictions)
		lines_add(notes,
			  "device %u: %llu time%s memory is allocated where something lives: the "
			  "trace has lost its end",
			  one->device->ordinal, (unsigned long long)one->device->contradictions,
			  text_s(one->device->contradictions));
}

static void note_device(struct lines *notes, const struct recording_device *one)
{
	const struct snapshot_device *d = one->device;
	const struct allocator_replay *replay = one->replay;
	char a[32];

	if (one->of->snapshot->profile.kind) {
		note_profile_of(notes, one);
		return;
	}
	if (!d->events.n && d->segments)
		lines_add(notes,
			  "device %u: no events were recorded, only what stood at the end "
			  "is known",
			  d->ordinal);
	if (d->stale_events)
		lines_add(notes,
			  "device %u: the ring was re-armed smaller without being cleared; "
			  "%u older event%s "
			  "before a hole %s left out",
			  d->ordinal, d->stale_events, text_s(d->stale_events),
			  d->stale_events == 1 ? "was" : "were");
	note_beginning(notes, one);
	if (replay->range_bytes)
		lines_add(notes,
			  "device %u: allocated and active bytes may be higher by up to %s: "
			  "how large some "
			  "blocks were that ended in the recording is not known",
			  d->ordinal, text_size(a, replay->range_bytes));
	if (d->no_free_requested || d->no_free_completed)
		lines_add(
			notes,
			"device %u: %s events were not recorded (skip_actions): %s ones stand for "
			"both",
			d->ordinal, d->no_free_requested ? "free_requested" : "free_completed",
			d->no_free_requested ? "free_completed" : "free_requested");
	if (d->contradictions || replay->faults || replay->end_faults)
		lines_add(notes,
			  "device %u: %llu events contradict others, %llu the allocator's "
			  "rules, %llu blocks "
			  "differ at the end: numbers near them are not exact",
			  d->ordinal, (unsigned long long)d->contradictions,
			  (unsigned long long)replay->faults,
			  (unsigned long long)replay->end_faults);
}

static void note_unknown(struct lines *notes, const struct snapshot_unknown *u,
			 struct recording_names *n)
{
	const char *kind = u->where == TRACE_STACK ? "action" : "key";
	char word[32];

	if (u->count)
		lines_add(notes, "unknown %s '%.40s' in %llu %s: left out", kind,
			  recording_name(n, u->name, kind, word, sizeof(word)),
			  (unsigned long long)u->count,
			  u->where == TRACE_STACK ? "events" : snapshot_row_names[u->where]);
}

/* What a file of the profiler cannot show, and what is not whole in it. */
static void note_profile(struct lines *notes, const struct snapshot *t)
{
	static const char *const is[SNAPSHOT_PROFILE_KINDS] = {
		[SNAPSHOT_PROFILE_DEVICE] =
			"this is a profiler's trace: it shows blocks and no segments, so that "
			"fragmentation and other settings are not known; plimsoll record has them",
		[SNAPSHOT_PROFILE_CPU] = "this is the memory of the CPU, from when the profiler "
					 "began: its trace has no "
					 "memory events of a GPU",
		[SNAPSHOT_PROFILE_TOTALS] =
			"this is a memory timeline: categories are those of PyTorch's profiler, of "
			"the device that it was exported for; it has no allocations and no stacks",
	};
	const struct snapshot_profile *p = &t->profile;
	char a[32], b[32];

	lines_add(notes, "%s", is[p->kind]);
	if (p->kind != SNAPSHOT_PROFILE_TOTALS)
		lines_add(notes, "%s",
			  p->python
				  ? "lines of functions that were called after the profiler "
				    "began are those of their def"
				  : "the trace has no Python stacks (with_stack=True): owners are "
				    "operations and the ranges around them");
	if (p->left_out)
		lines_add(notes,
			  "left out: %s memory event%s of the CPU, or of another type of device",
			  text_number(a, p->left_out), text_s(p->left_out));
	if (p->incomplete)
		lines_add(notes,
			  "left out: %s memory event%s without a time, an address, a size or a "
			  "device",
			  text_number(a, p->incomplete), text_s(p->incomplete));
	if (p->differ)
		lines_add(
			notes,
			"Total Allocated of %s event%s is not what the bytes add up to (events are "
			"missing, or threads raced); its largest is %s",
			text_number(a, p->differ), text_s(p->differ), text_size(b, p->peak_bytes));
	if (p->failures)
		lines_add(notes, "%s allocation%s failed ([OutOfMemory]), the last one of %s",
			  text_number(a, p->failures), text_s(p->failures),
			  text_size(b, p->failed_bytes));
}

enum plim_status recording_describe(struct recording *r, struct recording_names *n,
				    const char *path, struct plim_report_source *out,
				    struct plim_err *err)
{
	const struct snapshot *t = r->snapshot;
	struct lines notes = { .arena = n->arena, .err = err };
	enum plim_status st = recording_need_all(r, RECORDING_REPLAY, err);

	if (st)
		return st;
	*out = (struct plim_report_source){
		.path = arena_text(n->arena, err, "%s", n->redact ? "recording" : path),
		.kind = t->kind,
		.compression = t->compression,
		.bytes = t->file_bytes,
		.decoded_bytes = t->decoded_bytes,
		.events = recording_events(r),
		.complete = recording_is_complete(r) != 0,
	};
	if (!out->path)
		return mem_status(err);
	for (size_t i = 0; i < r->device_count; i++)
		note_device(&notes, &r->devices[i]);
	if (t->profile.kind)
		note_profile(&notes, t);
	if (recording_is_plan(r))
		lines_add(&notes, "this is a plan, not a recording: nothing was run");
	if (out->events && !t->has_frames && !t->has_block_frames && !t->profile.kind)
		lines_add(&notes, "no stacks were recorded: owners are not known (record with "
				  "stacks=\"python\")");
	if (n->redact)
		lines_add(&notes, "%s", recording_kept(n, err));
	for (size_t i = 0; i < t->unknown.n; i++)
		note_unknown(&notes, &t->unknown.at[i], n);
	return lines_keep(&notes, &out->notes, &out->note_count);
}

/* ---- ranges and categories ---- */

enum plim_status recording_ranges_at(const struct recording_device *d, uint32_t event,
				     struct recording_names *n, const char ***out, size_t *count,
				     struct plim_err *err)
{
	uint32_t names[TIMELINE_RANGES_MAX];
	char word[32];
	size_t open;

	if (recording_is_plan(d->of)) /* its ranges are its phases */
		return PLIM_OK;
	open = timeline_ranges_at(&d->ranges, d->device->events.time_us[event], names);
	*out = arena_take(n->arena, open, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	for (; *count < open; ++*count) {
		(*out)[*count] =
			arena_text(n->arena, err, "%.900s",
				   recording_name(n, names[*count], "range", word, sizeof(word)));
		if (!(*out)[*count])
			return mem_status(err);
	}
	return PLIM_OK;
}

/* ---- what the program itself called its allocations ---- */

static int larger_tag_first(const void *a, const void *b)
{
	const struct plim_report_tag *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->name && y->name ? strcmp(x->name, y->name) : !x->name - !y->name;
}

/* By string, what lives after `event`; [0] is what has none. */
static void sum_tags(const struct recording_device *d, uint32_t event, struct plim_report_tag *of)
{
	const struct snapshot *t = d->of->snapshot;
	const struct snapshot_events *ev = &d->device->events;
	size_t first = snapshot_first_row(t, d->device);

	for (uint32_t a = 0; a < d->device->alloc_count; a++) {
		if (!timeline_lives(&d->device->allocs[a], TIMELINE_ALLOCATED, event))
			continue;
		of->bytes += timeline_bytes(&d->timeline, a, TIMELINE_ALLOCATED);
		of->count++;
	}
	for (size_t i = 0; i < t->labels.n; i++) {
		const struct snapshot_label *l = &t->labels.at[i];
		uint32_t a = l->row >= first && l->row - first < ev->n ? ev->alloc[l->row - first]
								       : TRACE_NONE;
		uint64_t bytes;

		if (l->is_compile_context || a == TRACE_NONE ||
		    ev->action[l->row - first] != TRACE_ALLOC ||
		    !timeline_lives(&d->device->allocs[a], TIMELINE_ALLOCATED, event))
			continue;
		bytes = timeline_bytes(&d->timeline, a, TIMELINE_ALLOCATED);
		of[1 + l->string].bytes += bytes;
		of[1 + l->string].count++;
		of->bytes -= bytes;
		of->count--;
	}
}

enum plim_status recording_tags_at(const struct recording_device *d, uint32_t event,
				   struct recording_names *n, struct plim_report_tag **out,
				   size_t *count, struct plim_err *err)
{
	const struct snapshot *t = d->of->snapshot;
	size_t strings = 1 + (size_t)t->heap.strings.n, found = 0;
	struct plim_report_tag *of;
	enum plim_status st = PLIM_OK;
	char word[32];

	/* a plan's are its categories; what stale events were cut from has lost its place */
	if (!t->labels.n || recording_is_plan(d->of) || d->device->stale_events)
		return PLIM_OK;
	of = mem_new(d->of->mem, strings, sizeof(*of), err);
	if (!of)
		return mem_status(err);
	sum_tags(d, event, of);
	for (size_t i = 0; i < strings; i++)
		found += of[i].count != 0;
	*out = found > (of->count != 0) ? arena_take(n->arena, found, sizeof(**out), err) : NULL;
	if (!*out && found > (of->count != 0))
		st = mem_status(err);
	for (size_t i = 0; *out && !st && i < strings; i++) {
		if (!of[i].count)
			continue;
		if (i)
			of[i].name = arena_text(
				n->arena, err, "%.900s",
				recording_name(n, (uint32_t)(i - 1), "label", word, sizeof(word)));
		if (i && !of[i].name)
			st = mem_status(err);
		(*out)[(*count)++] = of[i];
	}
	mem_free(d->of->mem, of, strings, sizeof(*of));
	if (!st)
		sort_items(*out, *count, sizeof(**out), larger_tag_first);
	return st;
}

enum plim_status recording_categories_at(const struct recording_device *d, uint32_t event,
					 struct arena *a, struct plim_report_categories **out,
					 struct plim_err *err)
{
	uint64_t bytes[TIMELINE_CATEGORIES];

	*out = NULL;
	if (!d->categories.mem)
		return PLIM_OK;
	*out = arena_take(a, 1, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	timeline_sum_categories(&d->timeline, &d->categories, event, TIMELINE_ALLOCATED, bytes);
	**out = (struct plim_report_categories){
		.parameter = bytes[TIMELINE_PARAMETER],
		.gradient = bytes[TIMELINE_GRADIENT],
		.optimizer_state = bytes[TIMELINE_OPTIMIZER_STATE],
		.activation = bytes[TIMELINE_ACTIVATION],
		.input = bytes[TIMELINE_INPUT],
		.workspace = bytes[TIMELINE_WORKSPACE],
		.temporary = bytes[TIMELINE_TEMPORARY],
		.autograd_detail = bytes[TIMELINE_AUTOGRAD_DETAIL],
		.kv_cache = bytes[TIMELINE_KV_CACHE],
		.buffer = bytes[TIMELINE_BUFFER],
		.unknown = bytes[TIMELINE_UNKNOWN],
		.before_recording = bytes[TIMELINE_PRIOR],
	};
	return PLIM_OK;
}

static const char *const category_words[TIMELINE_CATEGORIES] = {
	[TIMELINE_PARAMETER] = "parameters",
	[TIMELINE_GRADIENT] = "gradients",
	[TIMELINE_OPTIMIZER_STATE] = "optimizer state",
	[TIMELINE_ACTIVATION] = "activations",
	[TIMELINE_INPUT] = "inputs",
	[TIMELINE_WORKSPACE] = "cuBLAS workspace",
	[TIMELINE_TEMPORARY] = "temporaries",
	[TIMELINE_AUTOGRAD_DETAIL] = "backward temporaries",
	[TIMELINE_KV_CACHE] = "keys and values",
	[TIMELINE_BUFFER] = "buffers",
	[TIMELINE_UNKNOWN] = "outputs kept, or unknown",
	[TIMELINE_PRIOR] = "there before the recording began",
};

const char *recording_cause_words(enum plim_cause cause)
{
	return cause == PLIM_CAUSE_PRIVATE_POOLS  ? "private pools"
	       : cause == PLIM_CAUSE_OTHER_STREAM ? "memory of another stream"
						  : plim_cause_name(cause);
}

const char *recording_category_words(const char *name)
{
	for (int k = 0; k < TIMELINE_CATEGORIES; k++)
		if (!strcmp(name, timeline_category_names[k]))
			return category_words[k];
	return name;
}

const char *recording_nobody(int has_frames, int before, int brief)
{
	return before        ? category_words[TIMELINE_PRIOR]
	       : !has_frames ? "no stacks were recorded"
	       : brief       ? "no Python stack"
			     : "no Python stack (usually autograd's backward)";
}

/* ---- steps ---- */

static void fill_step(const struct recording_device *d, struct timeline_cursor *at,
		      struct plim_report_step *step)
{
	uint64_t most[TIMELINE_PHASES];

	for (int p = 0; p < TIMELINE_PHASES; p++)
		most[p] = PLIM_UNKNOWN;
	step->requested_peak_bytes = 0;
	for (uint32_t e = (uint32_t)step->start_event; e <= step->end_event; e++) {
		uint64_t *phase, now;

		timeline_go(&d->timeline, at, e);
		now = at->bytes[TIMELINE_REQUESTED];
		if (now > step->requested_peak_bytes)
			step->requested_peak_bytes = now;
		if (!d->categories.mem)
			continue;
		phase = &most[d->categories.phase[e]];
		if (*phase == PLIM_UNKNOWN || now > *phase)
			*phase = now;
	}
	step->phase_peaks = (struct plim_report_phases){ .load = most[TIMELINE_LOAD],
							 .forward = most[TIMELINE_FORWARD],
							 .backward = most[TIMELINE_BACKWARD],
							 .optimizer = most[TIMELINE_OPTIMIZER],
							 .eval = most[TIMELINE_EVAL],
							 .generate = most[TIMELINE_GENERATE],
							 .request = most[TIMELINE_REQUEST],
							 .other = most[TIMELINE_OTHER] };
}

enum plim_status recording_steps(const struct recording_device *d, struct arena *a,
				 struct plim_report_step **out, size_t *count, struct plim_err *err)
{
	const struct timeline_steps *steps = recording_repeats(d);
	size_t events = steps->ends.n ? d->device->events.n : 0;
	struct timeline_cursor at;
	uint64_t start = 0;

	*out = arena_take(a, steps->ends.n + 1, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	timeline_start(&d->timeline, &at);
	for (size_t i = 0; i <= steps->ends.n && start < events; i++) {
		struct plim_report_step *step = &(*out)[(*count)++];

		step->index = i;
		step->start_event = start;
		step->end_event = i < steps->ends.n ? steps->ends.at[i] : events - 1;
		fill_step(d, &at, step);
		start = step->end_event + 1;
	}
	return PLIM_OK;
}

const char *recording_step_basis(const struct recording_device *d)
{
	static const char *const names[] = { [TIMELINE_BY_OPTIMIZER] = "optimizer",
					     [TIMELINE_BY_BACKWARD] = "backward",
					     [TIMELINE_BY_REQUEST] = "request",
					     [TIMELINE_BY_RANGE] = "annotation" };

	return recording_repeats(d)->ends.n ? names[recording_repeats(d)->basis] : NULL;
}

/* The passes of what follows the last optimizer step: one that no optimizer's step answered. */
enum plim_status recording_stop(const struct recording_device *d, struct arena *a,
				struct plim_report_stop **out, struct plim_err *err)
{
	const struct timeline_steps *steps = &d->steps;
	const uint8_t *phase = d->categories.mem ? d->categories.phase : NULL;
	size_t ends = steps->ends.n, ooms = d->replay->ooms.n, e;
	enum timeline_phase last = TIMELINE_PHASES;

	*out = NULL;
	if (!ends || steps->basis != TIMELINE_BY_OPTIMIZER || !phase ||
	    (ooms && d->replay->ooms.at[ooms - 1].event > steps->ends.at[ends - 1]))
		return PLIM_OK;
	for (e = steps->ends.at[ends - 1] + (size_t)1; e < d->device->events.n; e++)
		if (phase[e] == TIMELINE_FORWARD || phase[e] == TIMELINE_BACKWARD)
			last = phase[e];
	if (last == TIMELINE_PHASES)
		return PLIM_OK;
	*out = arena_take(a, 1, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	**out = (struct plim_report_stop){ .step = ends, .phase = timeline_phase_names[last] };
	return PLIM_OK;
}
