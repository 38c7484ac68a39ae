/*
 * The same program under many settings: which are worth trying, the runs, several at a time, and the smallest
 * limit that each survives.
 */
#include "allocator.h"

#include "facts/facts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GRAIN ((uint64_t)2 << 20) /* segments are multiples of it, so limits between are the same */
/* Looking for the smallest limit takes some 20 runs; up to so many operations in all it is done unasked. */
#define CHEAP_OPS 60000000u

/* Worth trying: what people recommend to each other, and what has helped in measured runs. */
static const char *const usual[] = {
	"",
	"expandable_segments:True",
	"max_split_size_mb:64",
	"max_split_size_mb:128",
	"max_split_size_mb:512",
	"garbage_collection_threshold:0.6",
	"garbage_collection_threshold:0.8",
	"roundup_power2_divisions:4",
	"expandable_segments:True,roundup_power2_divisions:8",
};

/* --search: what else these keys can be set to, in the order in which it is likely to help. */
static const char *const further[] = {
	"max_split_size_mb:256",
	"max_split_size_mb:32",
	"max_split_size_mb:20",
	"max_split_size_mb:96",
	"max_split_size_mb:192",
	"max_split_size_mb:384",
	"max_split_size_mb:768",
	"max_split_size_mb:1024",
	"max_split_size_mb:64,garbage_collection_threshold:0.8",
	"max_split_size_mb:128,garbage_collection_threshold:0.8",
	"max_split_size_mb:256,garbage_collection_threshold:0.8",
	"garbage_collection_threshold:0.7",
	"garbage_collection_threshold:0.9",
	"expandable_segments:True,roundup_power2_divisions:16",
	"expandable_segments:True,roundup_power2_divisions:4",
	"max_split_size_mb:64,max_non_split_rounding_mb:64",
	"max_split_size_mb:128,max_non_split_rounding_mb:128",
	"roundup_power2_divisions:8",
	"roundup_power2_divisions:16",
	"roundup_power2_divisions:2",
	"expandable_segments:True,large_segment_size_mb:64",
	"large_segment_size_mb:64",
	"large_segment_size_mb:128",
};

/* ---- what is asked ---- */

struct allocator_bounds allocator_search_bounds(const struct allocator_search *s,
						uint64_t limit_bytes)
{
	return allocator_bounds_of(limit_bytes, s->card);
}

enum plim_status allocator_search_rules(const struct allocator_search *s, const char *settings,
					struct allocator_rules *rules, struct plim_err *err)
{
	if (!settings) {
		*rules = *s->own;
		return PLIM_OK;
	}
	return allocator_rules_for(s->snapshot, settings, s->options->torch, rules, err);
}

/* Of our own sets: would it be another run than the others? */
static int acts(const struct allocator_search *s, const char *settings,
		const struct allocator_rules *rules)
{
	const struct snapshot *t = s->snapshot;

	if (rules->expandable && snapshot_ignores_expandable(&s->platform))
		return 0;
	/* the threshold is a share of PyTorch's own limit */
	if (rules->gc_threshold > 0 && (s->out->bound.limit_bytes == PLIM_UNKNOWN || s->card))
		return 0;
	return !t->settings.have || strcmp(settings, snapshot_text(t, t->settings.conf)) != 0;
}

static enum plim_status take_own(struct allocator_search *s, const char *const *settings, size_t n,
				 struct plim_err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct allocator_rules rules;

		/* an older release may not take all of them */
		if (allocator_search_rules(s, settings[i], &rules, NULL) ||
		    !acts(s, settings[i], &rules))
			continue;
		s->out->runs[s->out->run_count].settings =
			arena_text(s->arena, err, "%s", settings[i]);
		if (!s->out->runs[s->out->run_count++].settings)
			return mem_status(err);
	}
	return PLIM_OK;
}

static enum plim_status take_given(struct allocator_search *s, struct plim_err *err)
{
	const struct plim_whatif_options *o = s->options;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < o->settings_count; i++) {
		struct allocator_rules rules;

		st = allocator_search_rules(s, o->settings[i], &rules, err);
		s->out->runs[i].settings =
			st ? NULL : arena_text(s->arena, err, "%s", o->settings[i]);
		if (!st && !s->out->runs[i].settings)
			st = err->status;
	}
	s->out->run_count = o->settings_count;
	return st;
}

/* libplimsoll_alloc.so: as it comes, and with a plan. */
static void take_allocator(struct allocator_search *s)
{
	for (size_t i = 0; i < 2; i++) {
		s->out->runs[s->out->run_count].settings = allocator_own_names[i];
		s->out->runs[s->out->run_count++].plan = true;
	}
}

enum plim_status allocator_search_take(struct allocator_search *s, struct plim_err *err)
{
	const struct plim_whatif_options *o = s->options;
	size_t ours = sizeof(usual) / sizeof(*usual), more = sizeof(further) / sizeof(*further);
	enum plim_status st;

	s->platform = snapshot_platform_of(s->snapshot);
	s->out->as_recorded = arena_take(s->arena, 1, sizeof(*s->out->as_recorded), err);
	s->out->runs = s->out->as_recorded
			       ? arena_take(s->arena, o->settings_count + ours + more + 2,
					    sizeof(*s->out->runs), err)
			       : NULL;
	if (!s->out->runs)
		return mem_status(err);
	st = take_given(s, err);
	if (!st && (!o->settings_count || o->flags & PLIM_WHATIF_SEARCH))
		st = take_own(s, usual, ours, err);
	if (!st && o->flags & PLIM_WHATIF_PLAN)
		take_allocator(s);
	if (!st && o->flags & PLIM_WHATIF_SEARCH)
		st = take_own(s, further, more, err);
	return st;
}

/* ---- one run ---- */

static struct plim_whatif_run *run_of(struct allocator_search *s, uint32_t number)
{
	return number ? &s->out->runs[number - 1] : s->out->as_recorded;
}

static enum plim_status trial_of(const struct allocator_search *s,
				 const struct plim_whatif_run *run, int recorded,
				 struct allocator_trial *trial, struct plim_err *err)
{
	*trial = (struct allocator_trial){ .device = s->device,
					   .own_allocator = run->plan,
					   .as_recorded = recorded };
	if (run->plan && !strcmp(run->settings, allocator_own_names[1])) {
		trial->plan_bytes = s->plan.at;
		trial->plan_n = s->plan.n;
	}
	if (run->plan)
		return PLIM_OK;
	return allocator_search_rules(s, recorded ? NULL : run->settings, &trial->rules, err);
}

static enum plim_status survives(const struct allocator_search *s,
				 const struct allocator_trial *trial, uint64_t limit, int *yes,
				 struct plim_err *err)
{
	struct allocator_bounds bounds = allocator_search_bounds(s, limit);
	struct allocator_outcome o;
	enum plim_status st =
		allocator_try(s->mem, s->program, trial, &bounds, ALLOCATOR_RECORDED, &o, err);

	*yes = !st && !o.failed && !o.refused_workspaces;
	return st;
}

static uint64_t in_grains(uint64_t bytes)
{
	return bytes / GRAIN + (bytes % GRAIN != 0);
}

/* Between `low` and `high`, which survives: a limit that survives where a grain less does not. */
static enum plim_status bisect(const struct allocator_search *s,
			       const struct allocator_trial *trial, uint64_t low, uint64_t *high,
			       struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	while (!st && low < *high) {
		uint64_t middle = low + (*high - low) / 2;
		int yes;

		st = survives(s, trial, middle * GRAIN, &yes, err);
		if (yes)
			*high = middle;
		else
			low = middle + 1;
	}
	return st;
}

/*
 * Bisect between what nothing can do without and what is reserved when there is no limit, so that the limit
 * that is asked about does not matter.  Smaller limits are not always worse (garbage collection goes by
 * the limit), so this is a limit below which 2 MiB less is not survived, not a proof for all others; where
 * what was seen of the limit that is asked about says otherwise, the search goes on at that side of it.
 */
static enum plim_status find_smallest(const struct allocator_search *s, struct plim_whatif_run *run,
				      const struct allocator_trial *trial, struct plim_err *err)
{
	struct allocator_bounds none = { UINT64_MAX, UINT64_MAX, 0 };
	uint64_t low = in_grains(s->out->floor.requested_peak_bytes), most, high;
	uint64_t seen = s->out->bound.limit_bytes / GRAIN;
	struct allocator_outcome o = { 0 };
	enum plim_status st =
		allocator_try(s->mem, s->program, trial, &none, ALLOCATOR_RECORDED, &o, err);
	int yes = 0;

	most = high = in_grains(o.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak);
	/* so much was reserved without a limit, but a limit of just that can be refused on the way there */
	if (!st)
		st = survives(s, trial, most * GRAIN, &yes, err);
	while (!st && !yes && !o.failed && !o.refused_workspaces && most &&
	       most < UINT64_MAX / GRAIN / 2) {
		high = most *= 2;
		st = survives(s, trial, most * GRAIN, &yes, err);
	}
	if (!st && yes)
		st = bisect(s, trial, low, &high, err);
	if (!st && run->outcome == PLIM_WHATIF_OK && !run->refused_workspaces &&
	    (!yes || seen < high)) {
		yes = 1;
		high = seen;
		st = bisect(s, trial, low, &high, err);
	} else if (!st && yes && run->outcome == PLIM_WHATIF_OOM && high <= seen && seen < most) {
		high = most;
		st = bisect(s, trial, seen + 1, &high, err);
	}
	if (!st && yes)
		run->smallest_limit_bytes = high * GRAIN;
	return st;
}

static int worth_bisecting(const struct allocator_search *s)
{
	return s->options->flags & PLIM_WHATIF_SMALLEST ||
	       s->program->ops.n * 20 * (s->out->run_count + 1) <= CHEAP_OPS;
}

/* That it was refused is not a prediction: it happened. */
static void take_recorded(const struct allocator_search *s, struct plim_whatif_run *run)
{
	if (!strcmp(s->out->bound.basis, "recorded") && run->outcome == PLIM_WHATIF_OOM)
		run->outcome_certain = true;
}

static enum plim_status do_one(struct allocator_search *s, uint32_t number, struct plim_err *err)
{
	struct allocator_bounds bounds = allocator_search_bounds(s, s->out->bound.limit_bytes);
	struct plim_whatif_run *run = run_of(s, number);
	struct allocator_trial trial;
	enum plim_status st = trial_of(s, run, !number, &trial, err);

	if (!st)
		st = allocator_judge(s->mem, s->program, &trial, &bounds, run, err);
	if (!st && !number)
		take_recorded(s, run);
	if (!st && worth_bisecting(s))
		st = find_smallest(s, run, &trial, err);
	return st;
}

/* ---- all of them ---- */

struct work {
	struct allocator_search *s;
	pthread_mutex_t lock; /* of what follows */
	uint32_t next, done;
	struct timespec deadline; /* for runs beyond those that must be done */
	uint32_t must;
	enum plim_status status; /* the first failure */
	struct plim_err err;
};

static int late(const struct work *k)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return k->next >= k->must &&
	       (now.tv_sec > k->deadline.tv_sec ||
		(now.tv_sec == k->deadline.tv_sec && now.tv_nsec >= k->deadline.tv_nsec));
}

/* A search takes as long as it may; what was asked for by name is always done. */
static void set_deadline(struct work *k)
{
	const struct plim_whatif_options *o = k->s->options;
	int searches = (o->flags & PLIM_WHATIF_SEARCH) != 0;

	k->must = 1 + (uint32_t)(searches ? o->settings_count : k->s->out->run_count);
	clock_gettime(CLOCK_MONOTONIC, &k->deadline);
	k->deadline.tv_sec += (time_t)(o->search_ms / 1000);
	k->deadline.tv_nsec += (long)(o->search_ms % 1000) * 1000000;
	if (k->deadline.tv_nsec >= 1000000000) {
		k->deadline.tv_sec++;
		k->deadline.tv_nsec -= 1000000000;
	}
}

static void *worker(void *arg)
{
	struct work *k = arg;
	struct allocator_search *s = k->s;
	uint32_t total = (uint32_t)s->out->run_count + 1;

	pthread_mutex_lock(&k->lock);
	while (!k->status && k->next < total && !late(k)) {
		uint32_t number = k->next++;
		struct plim_err err = { 0 };
		enum plim_status st;

		pthread_mutex_unlock(&k->lock);
		st = do_one(s, number, &err);
		pthread_mutex_lock(&k->lock);
		k->done++;
		if (!st && s->options->progress &&
		    s->options->progress(s->options->progress_ctx, k->done, total))
			st = err_set(&err, PLIM_E_CANCELLED, "stopped");
		if (st && !k->status) {
			k->status = st;
			k->err = err;
		}
	}
	pthread_mutex_unlock(&k->lock);
	return NULL;
}

/* Threads that cannot be had are done without. */
static void work_search(struct work *k, unsigned threads)
{
	pthread_t *others = calloc(threads, sizeof(*others));
	unsigned n = 0;

	while (others && n + 1 < threads && !thread_start(&others[n], worker, k))
		n++;
	worker(k);
	while (n)
		pthread_join(others[--n], NULL);
	free(others);
}

static enum plim_status warn(struct allocator_search *s, struct plim_whatif_run *run,
			     struct plim_err *err)
{
	run->warnings = arena_take(s->arena, facts_setting_cost_count, sizeof(*run->warnings), err);
	if (!run->warnings)
		return mem_status(err);
	for (size_t i = 0; i < facts_setting_cost_count; i++) {
		const struct facts_setting_cost *c = &facts_setting_costs[i];

		if (!run->settings || !strstr(run->settings, c->setting))
			continue;
		run->warnings[run->warning_count] =
			arena_text(s->arena, err, "%s (%s)", c->text, c->source);
		if (!run->warnings[run->warning_count++])
			return mem_status(err);
	}
	return PLIM_OK;
}

/* What the recording was made with, as its settings say. */
static enum plim_status name_recorded(struct allocator_search *s, struct plim_err *err)
{
	const struct snapshot *t = s->snapshot;
	const char *conf = snapshot_text(t, t->settings.have ? t->settings.conf : TRACE_NONE);

	s->out->as_recorded->settings = arena_text(s->arena, err, "%s", conf);
	return s->out->as_recorded->settings ? PLIM_OK : err->status;
}

/* What a setting certainly does with, an allocator that knew the future could do with, too. */
static void lower_floor(struct plim_whatif *w, const struct plim_whatif_run *run)
{
	uint64_t bytes = run->smallest_limit_bytes;

	if (bytes == PLIM_UNKNOWN && run->outcome == PLIM_WHATIF_OK && run->outcome_certain)
		bytes = run->reserved_peak_bytes;
	if (bytes < w->floor.packed_peak_bytes)
		w->floor.packed_peak_bytes = bytes;
}

enum plim_status allocator_search_run(struct allocator_search *s, struct plim_err *err)
{
	struct work k = { .s = s, .lock = PTHREAD_MUTEX_INITIALIZER };
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned threads = s->options->threads;
	enum plim_status st = name_recorded(s, err);

	for (uint32_t i = 0; !st && i <= s->out->run_count; i++)
		st = warn(s, run_of(s, i), err);
	if (st)
		return st;
	if (!threads)
		threads = cores > 0 ? (unsigned)cores : 1;
	if (threads > s->out->run_count + 1)
		threads = (unsigned)s->out->run_count + 1;
	set_deadline(&k);
	work_search(&k, threads);
	pthread_mutex_destroy(&k.lock);
	if (k.status)
		*err = k.err;
	s->not_tried = s->out->run_count + 1 - k.done;
	s->out->run_count = k.done - 1; /* runs are taken in turn: the rest was not begun */
	for (uint32_t i = 0; !k.status && i <= s->out->run_count; i++)
		lower_floor(s->out, run_of(s, i));
	return k.status;
}

enum plim_status allocator_search_learn(struct allocator_search *s, struct plim_err *err)
{
	struct allocator_vmm how = { .bounds = { UINT64_MAX, UINT64_MAX, 0 }, .learned = &s->plan };
	struct allocator_outcome out;
	enum plim_status st = allocator_run_vmm(s->mem, s->program, &how, &out, err);

	if (!st)
		st = cycles_longest(s->mem, s->plan.at, s->plan.n, &s->out->plan_requests, err);
	if (!st && !out.failed &&
	    out.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak < s->out->floor.packed_peak_bytes)
		s->out->floor.packed_peak_bytes = out.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak;
	return st;
}
