/* plimsoll whatif: a recording explained, then run again under other settings. */
#include "commands/whatif/whatif.h"

#include "commands/out.h"
#include "option_rows.h"

#include <stdlib.h>
#include <string.h>

void plim_whatif_options_init(struct plim_whatif_options *o)
{
	*o = (struct plim_whatif_options){ WHATIF_DEFAULTS };
}

void plim_whatif_free(struct plim_whatif *w)
{
	if (!w)
		return;
	if (w->hidden->recording)
		vec_release(&w->hidden->recording->mem, &w->hidden->search.plan);
	program_free(w->hidden->program);
	arena_release(&w->hidden->arena);
	if (w->hidden->recording)
		w->hidden->recording->reports--;
	plim_recording_free(w->hidden->owned);
	free(w);
}

/* ---- what is asked ---- */

/* Which of two devices is asked about, if none is named: the one that died, then the one that reserved most. */
static int matters_more(const struct recording_device *a, const struct recording_device *b)
{
	const struct snapshot_device *x = a->device, *y = b->device;
	int died_x = snapshot_find_death(&x->events) != TRACE_NONE;
	int died_y = snapshot_find_death(&y->events) != TRACE_NONE;
	uint64_t most_x = snapshot_reserved_peak(x), most_y = snapshot_reserved_peak(y);

	if (died_x != died_y)
		return died_x;
	return most_x != most_y ? most_x > most_y : x->events.n > y->events.n;
}

/* The device that was named, or the one that matters most of those with events. */
static enum plim_status choose_device(struct plim_whatif *w, struct plim_err *err)
{
	struct recording *r = w->hidden->recording->recording;
	struct recording_device *best = NULL;
	enum plim_status st = recording_check_device(r, w->hidden->options.device, err);

	if (st)
		return st;
	for (size_t i = 0; i < r->device_count; i++) {
		struct recording_device *d = &r->devices[i];

		if (recording_shows(d, w->hidden->options.device) && d->device->events.n &&
		    (!best || matters_more(d, best)))
			best = d;
	}
	if (!best)
		return err_set(
			err, PLIM_E_FORMAT,
			"%s: no events were recorded, so there is nothing to run again; record "
			"with torch.cuda.memory._record_memory_history() switched on before "
			"the job, or with plimsoll record",
			w->source.path);
	w->hidden->device = best;
	w->device = best->device->ordinal;
	return recording_need(best, RECORDING_TIMELINE, err);
}

/* Why its last request failed, if it did: the bound, the cause, and what was still to come. */
static enum plim_status find_death(struct plim_whatif *w, struct plim_err *err)
{
	struct plim_whatif_hidden *h = w->hidden;
	struct diagnosis x = { .device = h->device, .tl = &h->device->timeline };
	struct messages_oom message;
	size_t ooms = h->device->replay->ooms.n;
	enum plim_status st = PLIM_OK;

	if (h->options.log_path) {
		x.message = &message;
		st = diagnose_read_message(&h->recording->mem, h->options.log_path, &message, err);
	}
	if (st || !ooms)
		return st;
	st = recording_need(h->device, RECORDING_PARTS, err);
	if (!st)
		st = diagnose_death(&x, ooms - 1, err);
	h->death = x.death;
	h->died = 1;
	return st;
}

static enum plim_status bound_by_gpu(struct plim_whatif *w, struct plim_err *err)
{
	uint64_t allowance = w->hidden->options.allowance_bytes;
	const struct facts_gpu *gpu;
	enum plim_status st =
		facts_find_gpu(w->hidden->options.gpu, "options.limit_bytes", &gpu, err);

	if (st)
		return st;
	if (allowance >= gpu->total_low_bytes)
		return err_set(err, PLIM_E_ARG, "an allowance of %llu bytes leaves nothing of a %s",
			       (unsigned long long)allowance, gpu->name);
	w->bound = (struct plim_whatif_bound){ .limit_bytes = gpu->total_low_bytes - allowance,
					       .basis = "gpu",
					       .gpu = gpu->name,
					       .allowance_bytes = allowance,
					       .recorded_bytes = INTERVAL_UNKNOWN };
	return PLIM_OK;
}

static enum plim_status find_bound(struct plim_whatif *w, struct plim_err *err)
{
	const struct findings_death *death = &w->hidden->death;
	uint64_t limit = w->hidden->options.limit_bytes;

	w->bound = (struct plim_whatif_bound){ .limit_bytes = limit,
					       .basis = limit == PLIM_UNKNOWN ? "none" : "given",
					       .allowance_bytes = PLIM_UNKNOWN,
					       .recorded_bytes = INTERVAL_UNKNOWN };
	if (limit != PLIM_UNKNOWN)
		return PLIM_OK;
	if (w->hidden->options.gpu)
		return bound_by_gpu(w, err);
	if (!w->hidden->died || death->bound_low_bytes == PLIM_UNKNOWN)
		return PLIM_OK;
	w->bound.basis = "recorded";
	w->bound.recorded_bytes =
		(struct plim_interval){ death->bound_low_bytes, death->bound_high_bytes };
	w->bound.limit_bytes = death->bound_low_bytes;
	return PLIM_OK;
}

/* ---- what there is ---- */

static enum plim_status tell_death(struct plim_whatif *w, struct plim_err *err)
{
	const struct findings_death *d = &w->hidden->death;

	if (!w->hidden->died)
		return PLIM_OK;
	w->death = arena_take(&w->hidden->arena, 1, sizeof(*w->death), err);
	if (!w->death)
		return mem_status(err);
	w->death->event = d->event;
	w->death->cause = (enum plim_cause)d->cause;
	w->death->still_to_come_bytes = w->death->needed_bytes = PLIM_UNKNOWN;
	if (d->future) {
		w->death->still_to_come_bytes = d->still_low_bytes;
		w->death->needed_bytes =
			d->requested_live_bytes + d->request_bytes + d->still_low_bytes;
	}
	return PLIM_OK;
}

static struct plim_whatif_count count_of(const struct allocator_count *n)
{
	return (struct plim_whatif_count){ n->current, n->peak, n->allocated, n->freed };
}

static struct plim_whatif_stat stat_of(const struct allocator_stats *s, enum allocator_stat which)
{
	const struct allocator_count *n = s->count[which];

	return (struct plim_whatif_stat){ count_of(&n[0]), count_of(&n[1]), count_of(&n[2]) };
}

static struct plim_whatif_statistics statistics_of(const struct allocator_stats *s)
{
	return (struct plim_whatif_statistics){
		.allocation = stat_of(s, ALLOCATOR_ALLOCATION),
		.segment = stat_of(s, ALLOCATOR_SEGMENT),
		.active = stat_of(s, ALLOCATOR_ACTIVE),
		.inactive_split = stat_of(s, ALLOCATOR_INACTIVE_SPLIT),
		.allocated_bytes = stat_of(s, ALLOCATOR_ALLOCATED_BYTES),
		.reserved_bytes = stat_of(s, ALLOCATOR_RESERVED_BYTES),
		.active_bytes = stat_of(s, ALLOCATOR_ACTIVE_BYTES),
		.inactive_split_bytes = stat_of(s, ALLOCATOR_INACTIVE_SPLIT_BYTES),
		.requested_bytes = stat_of(s, ALLOCATOR_REQUESTED_BYTES),
		.oversize_allocations = count_of(s->count[ALLOCATOR_OVERSIZE_ALLOCATIONS]),
		.oversize_segments = count_of(s->count[ALLOCATOR_OVERSIZE_SEGMENTS]),
		.num_alloc_retries = s->retries,
		.num_ooms = s->ooms,
		.num_device_alloc = s->device_allocs,
		.num_device_free = s->device_frees,
	};
}

/* The largest sum of requests.  Who survives the recording's death is given what was refused then. */
static uint64_t requested_at_once(const struct plim_whatif_hidden *h)
{
	const struct findings_death *d = &h->death;
	uint64_t peak = h->device->timeline.peak[TIMELINE_REQUESTED];
	uint64_t at_death = h->died && d->event == h->program->death
				    ? d->requested_live_bytes + d->request_bytes
				    : 0;

	return at_death > peak ? at_death : peak;
}

static enum plim_status explain(struct plim_whatif *w, struct plim_err *err)
{
	struct plim_whatif_hidden *h = w->hidden;
	struct mem *m = &h->recording->mem;
	const struct recording_device *d = h->device;
	enum plim_status st = allocator_explain(m, d->of->snapshot, d->device, d->replay,
						&h->program, &h->check, err);

	h->search.program = h->program;
	if (st)
		return st;
	w->self_check = (struct plim_whatif_check){
		.events = h->check.events,
		.exact = h->check.diverged_at == TRACE_NONE,
		.diverged_at =
			h->check.diverged_at == TRACE_NONE ? PLIM_UNKNOWN : h->check.diverged_at,
		.empty_caches = h->check.empty_caches,
		.statistics = statistics_of(&h->check.stats),
	};
	w->floor.requested_peak_bytes = requested_at_once(h);
	return allocator_pack(m, h->program, &w->floor.packed_peak_bytes, err);
}

/* What the limit leaves to PyTorch, for certain, and at most. */
static struct diagnose_room room_of(const struct plim_whatif *w)
{
	const struct facts_gpu *gpu = NULL;
	uint64_t limit = w->bound.limit_bytes, most = limit;

	if (w->bound.gpu && !facts_find_gpu(w->bound.gpu, "", &gpu, NULL))
		most = gpu->total_high_bytes;
	return (struct diagnose_room){ w->bound.gpu, limit, most };
}

static enum plim_status tell_leak(struct plim_whatif *w, const struct diagnosis *x,
				  const struct findings_list *list, struct plim_err *err)
{
	struct arena *arena = &w->hidden->arena;
	const struct diagnose_room room = room_of(w);

	if (!list->all.n)
		return PLIM_OK;
	w->leak = arena_take(arena, 1, sizeof(*w->leak), err);
	if (!w->leak)
		return mem_status(err);
	w->leak->per_period_bytes = list->all.at[0].bytes_per_period;
	w->leak->period = list->all.at[0].period;
	if (room.certain_bytes == PLIM_UNKNOWN)
		return PLIM_OK;
	w->leak->fill = arena_take(arena, 1, sizeof(*w->leak->fill), err);
	if (!w->leak->fill)
		return mem_status(err);
	if (!diagnose_fill(x, list, &room, w->leak->fill))
		w->leak->fill = NULL;
	return PLIM_OK;
}

/* What survives the recording dies later, if memory piles up in it.  That of a death is reported with the death. */
static enum plim_status find_leak(struct plim_whatif *w, struct plim_err *err)
{
	struct plim_whatif_hidden *h = w->hidden;
	struct diagnosis x = { .device = h->device,
			       .tl = &h->device->timeline,
			       .names = &h->names };
	struct findings_list list;
	enum plim_status st;

	if (h->died)
		return PLIM_OK;
	st = recording_need(h->device, RECORDING_PARTS, err);
	if (!st)
		st = diagnose_find(&x, "leak", &list, err);
	if (st)
		return st;
	st = tell_leak(w, &x, &list, err);
	findings_release(&list);
	return st;
}

int whatif_leaks_to_death(const struct plim_whatif *w)
{
	const struct plim_report_fill *fill = w->leak ? w->leak->fill : NULL;

	return fill && fill->repetitions.low <= DIAGNOSE_FILLS_MAX;
}

/* Why nothing is recommended, whatever the runs say; *why NULL: no reason. */
static enum plim_status withhold(const struct plim_whatif *w, const char **why,
				 struct plim_err *err)
{
	struct arena *arena = &w->hidden->arena;
	uint64_t limit = w->bound.limit_bytes, live = w->floor.requested_peak_bytes;
	const struct findings_death *d = &w->hidden->death;
	char a[32], b[32], c[32];

	*why = NULL;
	if (!w->self_check.exact)
		*why = arena_text(
			arena, err,
			"the model does not reproduce this recording: it differs from event %llu "
			"on, so "
			"the runs show what PyTorch's rules would do, not what this job did",
			(unsigned long long)w->self_check.diverged_at);
	else if (strcmp(w->bound.basis, "recorded") != 0 && limit != PLIM_UNKNOWN && live > limit &&
		 !w->as_recorded->refused_workspaces)
		*why = arena_text(
			arena, err,
			"no allocator setting can help: %s is asked for at once, the limit "
			"is %s",
			text_size(a, live), text_size(b, limit));
	else if (w->death && findings_is_leak(d))
		*why = arena_text(
			arena, err,
			"%s (plimsoll report shows where): settings that survive the recorded part "
			"die some repetitions later",
			d->cause == FINDINGS_CAUSE_LEAK ? "the run died of a leak"
							: "the run probably died of a leak");
	else if (whatif_leaks_to_death(w))
		*why = arena_text(
			arena, err,
			"another setting changes when the leak fills the memory, not that it does");
	else if (w->death && w->death->needed_bytes != PLIM_UNKNOWN && limit != PLIM_UNKNOWN &&
		 w->death->needed_bytes > limit)
		*why = arena_text(
			arena, err,
			"no allocator setting can help: with the memory that the step had still to "
			"allocate when the recording ends (%s) it needs %s, and the limit is "
			"%s; a run that survives the recorded part dies later",
			text_size(a, w->death->still_to_come_bytes),
			text_size(b, w->death->needed_bytes), text_size(c, limit));
	else if (!strcmp(w->bound.basis, "recorded") && !findings_settings_help(d))
		*why = arena_text(
			arena, err,
			"no allocator setting can help: %s was live and %s asked for, %s in all, "
			"and at least %s was allowed",
			text_size(a, d->requested_live_bytes), text_size(b, d->request_bytes),
			text_size(c, d->requested_live_bytes + d->request_bytes),
			text_size((char[32]){ 0 }, limit));
	else
		return PLIM_OK;
	return *why ? PLIM_OK : mem_status(err);
}

/* A setting that was asked for is tried wherever the program ran, but not advised where PyTorch ignores it. */
static enum plim_status withhold_ignored(struct plim_whatif *w, const struct plim_whatif_run **best,
					 struct plim_err *err)
{
	const struct snapshot_platform *p = &w->hidden->search.platform;
	struct allocator_rules rules;

	if (!*best)
		return PLIM_OK;
	if ((*best)->plan ? snapshot_has_own_allocator(p)
			  : !snapshot_ignores_expandable(p) ||
				    allocator_search_rules(&w->hidden->search, (*best)->settings,
							   &rules, NULL) ||
				    !rules.expandable)
		return PLIM_OK;
	w->withheld =
		(*best)->plan
			? arena_text(&w->hidden->arena, err,
				     "Plimsoll's allocator is for CUDA on Linux, and the program "
				     "ran elsewhere (%s)",
				     (*best)->settings)
			: arena_text(&w->hidden->arena, err,
				     "the program ran on Windows, where PyTorch ignores "
				     "expandable_segments (%s)",
				     (*best)->settings);
	*best = NULL;
	return w->withheld ? PLIM_OK : mem_status(err);
}

/*
 * What was reserved before the recording began was reserved for something that was not recorded: whether less would
 * have done is not known.
 */
static enum plim_status withhold_unknown(struct plim_whatif *w, const struct plim_whatif_run **best,
					 struct plim_err *err)
{
	uint64_t before = w->hidden->device->device->reserved_before_bytes;
	char a[32], b[32];

	if (!*best || w->as_recorded->outcome == PLIM_WHATIF_OOM ||
	    (*best)->reserved_peak_bytes >= before)
		return PLIM_OK;
	w->withheld = arena_text(&w->hidden->arena, err,
				 "%s were reserved before the recording began: that %s would have "
				 "done under %s is not known",
				 text_size(a, before), text_size(b, (*best)->reserved_peak_bytes),
				 (*best)->settings);
	*best = NULL;
	return w->withheld ? PLIM_OK : mem_status(err);
}

#define NEAR_PART \
	50 /* of the limit: where the beginning of a recording is lost, less than that is not a margin */

/*
 * What was there before the recording is placed afresh, so that a run ends a little elsewhere: by less than that
 * no one knows whether it survives.
 */
static enum plim_status withhold_near(struct plim_whatif *w, const struct plim_whatif_run **best,
				      struct plim_err *err)
{
	uint64_t limit = w->bound.limit_bytes, needed;
	char a[32], b[32], c[32];

	if (!*best || limit == PLIM_UNKNOWN || !w->hidden->program->requests_before ||
	    w->as_recorded->outcome != PLIM_WHATIF_OOM)
		return PLIM_OK;
	needed = (*best)->smallest_limit_bytes == PLIM_UNKNOWN ? (*best)->reserved_peak_bytes
							       : (*best)->smallest_limit_bytes;
	if (needed > limit || limit - needed >= limit / NEAR_PART)
		return PLIM_OK;
	w->withheld =
		arena_text(&w->hidden->arena, err,
			   "%s ends %s below the limit (%s of %s), and the recording lost its "
			   "beginning: whether that is enough is not known",
			   (*best)->settings, text_size(a, limit - needed), text_size(b, needed),
			   text_size(c, limit));
	*best = NULL;
	return w->withheld ? PLIM_OK : mem_status(err);
}

static enum plim_status recommend(struct plim_whatif *w, struct plim_err *err)
{
	const struct plim_whatif_run *best = NULL;
	enum plim_status st = withhold(w, &w->withheld, err);

	if (!st && !w->withheld)
		st = allocator_search_best(w, &w->hidden->arena, &best, err);
	if (!st)
		st = withhold_ignored(w, &best, err);
	if (!st)
		st = withhold_unknown(w, &best, err);
	if (!st)
		st = withhold_near(w, &best, err);
	if (best)
		w->recommended = best->settings;
	return st;
}

static int refuses_workspaces(const struct plim_whatif *w)
{
	uint64_t n = w->as_recorded->refused_workspaces;

	for (size_t i = 0; i < w->run_count; i++)
		n += w->runs[i].refused_workspaces;
	return n != 0;
}

size_t whatif_devices(const struct plim_whatif *w)
{
	const struct recording *r = w->hidden->device->of;
	size_t n = 0;

	for (size_t i = 0; i < r->device_count; i++)
		n += recording_shows(&r->devices[i], PLIM_UNKNOWN) != 0;
	return n;
}

static void note_device(const struct plim_whatif *w, struct lines *l)
{
	const char *why = w->hidden->program->death != TRACE_NONE ? "it ran out of memory"
								  : "it reserved most";

	if (whatif_devices(w) > 1 && w->hidden->options.device == PLIM_UNKNOWN)
		lines_add(l, "GPU %llu of %zu is reported, as %s; --device reports another",
			  (unsigned long long)w->device, whatif_devices(w), why);
}

/* Was there no room for what was there before the recording began? */
int whatif_fails_at_once(const struct plim_whatif_run *run)
{
	return run->outcome == PLIM_WHATIF_OOM && run->oom_event == PLIM_UNKNOWN;
}

#define RANGE_PART 100 /* a range that is narrower than this part of the number is not shown */

int whatif_is_range(const struct plim_whatif_run *run)
{
	const struct plim_interval *r = &run->reserved_peak_range_bytes;

	return run->outcome == PLIM_WHATIF_OK &&
	       r->high - r->low > run->reserved_peak_bytes / RANGE_PART;
}

int whatif_as_it_was(const struct plim_whatif *w)
{
	const struct plim_whatif_run *own = w->as_recorded;
	uint64_t recorded = w->hidden->device->timeline.peak[TIMELINE_RESERVED];

	if (w->hidden->died && own->outcome == PLIM_WHATIF_OOM &&
	    own->oom_event == w->hidden->program->death)
		return 1;
	return own->outcome == PLIM_WHATIF_OK && own->reserved_peak_bytes == recorded;
}

/* Why the recorded settings do not come to what was recorded. */
static void note_recorded(const struct plim_whatif *w, struct lines *l)
{
	uint64_t recorded = w->hidden->device->timeline.peak[TIMELINE_RESERVED];
	char a[32];

	if (!whatif_as_it_was(w))
		lines_add(l, "in the recording at most %s were reserved%s", text_size(a, recorded),
			  w->self_check.exact && w->self_check.statistics.num_alloc_retries
				  ? ": PyTorch was refused more, and gave its cache back"
				  : "");
}

static void note_before(const struct plim_whatif *w, struct lines *l)
{
	int at_once = whatif_fails_at_once(w->as_recorded), plans = 0;

	for (size_t i = 0; i < w->run_count; i++) {
		at_once |= whatif_fails_at_once(&w->runs[i]);
		plans |= w->runs[i].plan;
	}
	if (w->hidden->program->requests_before)
		lines_add(l,
			  "the recording lost its beginning: %u allocations were made before it, "
			  "and are placed anew; the requests before it are not known, so the run "
			  "may have reserved and needed more",
			  w->hidden->program->requests_before);
	if (w->hidden->program->requests_before && plans)
		lines_add(l, "the replay of plimsoll.allocator.use() begins there too, and has not "
			     "learned from the requests before: the reserved memory of a whole run "
			     "cannot be known from this recording; record from the beginning");
	if (at_once)
		lines_add(l,
			  "\"does not fit\": the limit has no room for the allocations that were "
			  "there before the recording began");
}

/* What differs between runs, if a range is shown. */
static void note_ranges(const struct plim_whatif *w, struct lines *l)
{
	int any = 0;

	for (size_t i = 0; i < w->run_count; i++)
		any |= whatif_is_range(&w->runs[i]);
	if (any)
		lines_add(l, "a range is what differs between runs: where segments lie, how soon "
			     "other streams are done with freed memory (record_stream), and how "
			     "long plimsoll.allocator waits for the GPU");
}

static enum plim_status tell_notes(struct plim_whatif *w, struct plim_err *err)
{
	struct lines l = { .arena = &w->hidden->arena, .err = err };
	char size[32];

	note_device(w, &l);
	note_recorded(w, &l);
	note_before(w, &l);
	note_ranges(w, &l);
	if (w->death && w->death->still_to_come_bytes != PLIM_UNKNOWN &&
	    w->death->still_to_come_bytes)
		lines_add(&l,
			  "the recording ends at its death: a run that survives it had at least %s "
			  "still to allocate in that step",
			  text_size(size, w->death->still_to_come_bytes));
	else if (w->death)
		lines_add(&l, "the recording ends at its death: the later allocations of a run "
			      "that survives it are not known");
	if (refuses_workspaces(w))
		lines_add(&l, "if a convolution's workspace is refused, cuDNN takes a slower "
			      "algorithm that needs less: such runs are marked with a question "
			      "mark");
	if (w->hidden->search.not_tried)
		lines_add(&l, "%zu settings were not tried: the time for the search was over",
			  w->hidden->search.not_tried);
	return lines_keep(&l, &w->notes, &w->note_count);
}

/* The recording that is run again, which has been opened. */
static enum plim_status begin_whatif(struct plim_whatif *w, struct plim_recording *of,
				     struct plim_err *err)
{
	struct plim_whatif_hidden *h = w->hidden;
	struct recording *r;
	enum plim_status st = recording_ready(of, err);

	if (!st)
		st = recording_has_segments(of->recording, of->path, err);
	if (st)
		return st;
	h->recording = of;
	of->reports++;
	r = of->recording;
	arena_init(&h->arena, r->mem);
	st = recording_names_init(&h->names, r, &h->arena,
				  (h->options.flags & PLIM_WHATIF_REDACT) != 0, NULL, err);
	return st ? st : recording_describe(r, &h->names, of->path, &w->source, err);
}

/* What stops it: the GPU, which the driver shows, or a limit of PyTorch's own? */
static int is_card(const struct plim_whatif *w)
{
	return !strcmp(w->bound.basis, "gpu") ||
	       (!strcmp(w->bound.basis, "recorded") &&
		findings_bounds_of(&w->hidden->death).capacity_bytes != UINT64_MAX);
}

static struct allocator_search *set_search(struct plim_whatif *w)
{
	struct plim_whatif_hidden *h = w->hidden;

	h->search = (struct allocator_search){ .mem = &h->recording->mem,
					       .arena = &h->arena,
					       .snapshot = h->device->of->snapshot,
					       .device = h->device->device,
					       .own = &h->device->replay->rules,
					       .options = &h->options,
					       .card = is_card(w),
					       .out = w };
	return &h->search;
}

static enum plim_status answer_whatif(struct plim_whatif *w, struct plim_err *err)
{
	enum plim_status st = choose_device(w, err);

	if (!st)
		st = find_death(w, err);
	if (!st)
		st = find_bound(w, err);
	if (!st)
		st = allocator_search_take(set_search(w), err);
	if (!st)
		st = tell_death(w, err);
	if (!st)
		st = explain(w, err);
	w->plan_requests = PLIM_UNKNOWN;
	if (!st && w->hidden->options.flags & PLIM_WHATIF_PLAN)
		st = allocator_search_learn(&w->hidden->search, err);
	if (!st)
		st = allocator_search_run(&w->hidden->search, err);
	if (!st)
		st = find_leak(w, err);
	if (!st)
		st = recommend(w, err);
	return st ? st : tell_notes(w, err);
}

/* Of a recording that is open, or of a path. */
static enum plim_status about(struct plim_recording *recording, const char *path,
			      const struct plim_whatif_options *options, struct plim_whatif **out,
			      struct plim_err *err)
{
	struct plim_whatif *w;
	struct plim_err own;
	enum plim_status st;

	*out = NULL;
	err = err ? err : &own; /* inner floors read the status back from it */
	st = OUT_NEW(whatif, w, &w->hidden->options, options, err);
	if (st)
		return st;
	if (path)
		st = recording_new(path, NULL, w->hidden->options.max_memory_bytes,
				   &w->hidden->owned, err);
	if (!st)
		st = begin_whatif(w, path ? w->hidden->owned : recording, err);
	if (!st)
		st = answer_whatif(w, err);
	if (st)
		plim_whatif_free(w);
	else
		*out = w;
	return st;
}

enum plim_status plim_whatif_of(struct plim_recording *recording,
				const struct plim_whatif_options *options, struct plim_whatif **out,
				struct plim_err *err)
{
	return about(recording, NULL, options, out, err);
}

enum plim_status plim_whatif_open(const char *path, const struct plim_whatif_options *options,
				  struct plim_whatif **out, struct plim_err *err)
{
	return about(NULL, path, options, out, err);
}

enum plim_status plim_whatif_json(const struct plim_whatif *w, plim_write_fn *write, void *ctx,
				  struct plim_err *err)
{
	return out_json(&w->hidden->recording->mem, &whatif_table, w, write, ctx, err);
}
