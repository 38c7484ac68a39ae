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

static const char *const allocator_names[2] = { "plimsoll.allocator.use()",
						"plimsoll.allocator.use(plan=...)" };

/* ---- what is asked ---- */

struct allocator_bounds allocator_search_bounds(const struct allocator_search *s,
						uint64_t limit_bytes)
{
	/* a card is met by the driver, a limit by PyTorch before it asks the driver */
	int card = !strcmp(s->out->bound.basis, "gpu");

	return (struct allocator_bounds){
		.limit_bytes = card || limit_bytes == PLIM_UNKNOWN ? UINT64_MAX : limit_bytes,
		.capacity_bytes = card ? limit_bytes : UINT64_MAX,
	};
}

enum plim_status allocator_search_rules(const struct allocator_search *s, const char *settings,
					struct allocator_rules *rules, struct plim_err *err)
{
	const struct snapshot *t = s->snapshot;
	unsigned torch = s->options->torch;
	enum plim_status st;

	if (!settings) {
		*rules = *s->own;
		return PLIM_OK;
	}
	if (!torch && !t->settings.have_reuse_key)
		torch = allocator_release_from_keys(t);
	st = allocator_rules_parse(settings, torch, rules, err);
	if (!st && rules->not_modelled)
		st = err_set(err, PLIM_E_ARG,
			     "settings '%s': cudaMallocAsync is the driver's own allocator, whose "
			     "rules are not known",
			     settings);
	return st;
}

/* Of our own sets: would it be another run than the others? */
static int acts(const struct allocator_search *s, const char *settings,
		const struct allocator_rules *rules)
{
	const struct snapshot *t = s->snapshot;

	/* the threshold is a share of PyTorch's own limit */
	if (rules->gc_threshold > 0 &&
	    (s->out->bound.limit_bytes == PLIM_UNKNOWN || !strcmp(s->out->bound.basis, "gpu")))
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
		s->out->runs[s->out->run_count].settings = allocator_names[i];
		s->out->runs[s->out->run_count++].plan = true;
	}
}

enum plim_status allocator_search_take(struct allocator_search *s, struct plim_err *err)
{
	const struct plim_whatif_options *o = s->options;
	size_t ours = sizeof(usual) / sizeof(*usual), more = sizeof(further) / sizeof(*further);
	enum plim_status st;

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

/* What is run: PyTorch's allocator by these rules, or libplimsoll_alloc.so's. */
struct trial {
	struct allocator_rules rules;
	const char *plan; /* of allocator_names; NULL: PyTorch's */
};

static enum plim_status plan_once(const struct allocator_search *s, const char *name,
				  const struct allocator_bounds *bounds,
				  struct allocator_outcome *out, struct plim_err *err)
{
	struct allocator_vmm how = { .bounds = *bounds };

	if (!strcmp(name, allocator_names[1])) {
		how.plan_bytes = s->plan.at;
		how.plan_n = s->plan.n;
	}
	return allocator_run_vmm(s->mem, s->program, &how, out, err);
}

static enum plim_status once(const struct allocator_search *s, const struct trial *trial,
			     const struct allocator_bounds *bounds, unsigned way,
			     struct allocator_outcome *out, struct plim_err *err)
{
	struct allocator_run how = {
		.rules = &trial->rules, .bounds = *bounds, .way = way, .device = s->device
	};

	if (trial->plan)
		return plan_once(s, trial->plan, bounds, out, err);
	return allocator_run(s->mem, s->program, &how, out, err);
}

static uint64_t reserved_peak(const struct allocator_outcome *o)
{
	return o->stats.count[ALLOCATOR_RESERVED_BYTES][0].peak;
}

static void widen(struct plim_whatif_run *run, const struct allocator_outcome *o)
{
	struct plim_interval *range = &run->reserved_peak_range_bytes;
	uint64_t most = reserved_peak(o), least = most;

	if (o->refused_workspaces) {
		least = o->unrefused_peak_bytes;
		most = run->limit_bytes > most ? run->limit_bytes : most;
	}
	range->low = least < range->low ? least : range->low;
	range->high = most > range->high ? most : range->high;
	run->outcome_certain &= !o->refused_workspaces &&
				(o->oom_event == TRACE_NONE) == (run->outcome == PLIM_WHATIF_OK);
}

static void fill(struct plim_whatif_run *run, const struct allocator_outcome *o)
{
	run->outcome = o->oom_event == TRACE_NONE ? PLIM_WHATIF_OK : PLIM_WHATIF_OOM;
	run->outcome_certain = true;
	run->oom_event = o->oom_event == TRACE_NONE ? PLIM_UNKNOWN : o->oom_event;
	run->oom_request_bytes = o->oom_event == TRACE_NONE ? PLIM_UNKNOWN : o->oom_request_bytes;
	run->reserved_peak_bytes = reserved_peak(o);
	run->reserved_peak_range_bytes = (struct plim_interval){ UINT64_MAX, 0 };
	run->refused_workspaces = o->refused_workspaces;
	run->allocated_peak_bytes = o->stats.count[ALLOCATOR_ALLOCATED_BYTES][0].peak;
	run->active_peak_bytes = o->stats.count[ALLOCATOR_ACTIVE_BYTES][0].peak;
	run->retries = o->stats.retries;
	run->device_allocs = o->stats.device_allocs;
	run->segments = o->stats.count[ALLOCATOR_SEGMENT][0].current;
	widen(run, o);
}

/*
 * One setting at all placements.  A limit given as a share of the card can come out a byte lower than
 * it was meant (PyTorch multiplies doubles), and a byte decides where segments fill it exactly.
 */
static enum plim_status run_settings(const struct allocator_search *s, struct plim_whatif_run *run,
				     const struct trial *trial, struct plim_err *err)
{
	struct allocator_bounds bounds = allocator_search_bounds(s, s->out->bound.limit_bytes);
	unsigned ways = trial->plan ? 1 : allocator_ways(s->device);
	struct allocator_outcome o;
	enum plim_status st = once(s, trial, &bounds, ALLOCATOR_RECORDED, &o, err);

	run->limit_bytes = s->out->bound.limit_bytes;
	run->smallest_limit_bytes = PLIM_UNKNOWN;
	if (st)
		return st;
	fill(run, &o);
	for (unsigned way = ALLOCATOR_RECORDED + 1; !st && way < ways; way++) {
		st = once(s, trial, &bounds, way, &o, err);
		if (!st)
			widen(run, &o);
	}
	if (st || bounds.limit_bytes == UINT64_MAX || !bounds.limit_bytes)
		return st;
	bounds.limit_bytes--;
	st = once(s, trial, &bounds, ALLOCATOR_RECORDED, &o, err);
	if (!st)
		widen(run, &o);
	return st;
}

static enum plim_status survives(const struct allocator_search *s, const struct trial *trial,
				 uint64_t limit, int *yes, struct plim_err *err)
{
	struct allocator_bounds bounds = allocator_search_bounds(s, limit);
	struct allocator_outcome o;
	enum plim_status st = once(s, trial, &bounds, ALLOCATOR_RECORDED, &o, err);

	*yes = !st && o.oom_event == TRACE_NONE && !o.refused_workspaces;
	return st;
}

/*
 * Bisect between what nothing can do without and what is reserved when there is no limit, or the
 * bound that it was seen to survive.  Smaller limits are not always worse (garbage collection goes by
 * the limit), so this is a limit below which 2 MiB less is not survived, not a proof for all others.
 */
static enum plim_status find_smallest(const struct allocator_search *s, struct plim_whatif_run *run,
				      const struct trial *trial, struct plim_err *err)
{
	struct allocator_bounds none = { UINT64_MAX, UINT64_MAX, 0 };
	uint64_t low = s->out->floor.requested_peak_bytes / GRAIN, high;
	struct allocator_outcome o;
	enum plim_status st = once(s, trial, &none, ALLOCATOR_RECORDED, &o, err);
	int yes;

	if (st)
		return st;
	high = (reserved_peak(&o) + GRAIN - 1) / GRAIN;
	if (run->outcome == PLIM_WHATIF_OK && s->out->bound.limit_bytes / GRAIN < high)
		high = s->out->bound.limit_bytes / GRAIN;
	st = survives(s, trial, high * GRAIN, &yes, err);
	if (st || !yes)
		return st;
	while (!st && low < high) {
		uint64_t middle = low + (high - low) / 2;

		st = survives(s, trial, middle * GRAIN, &yes, err);
		if (yes)
			high = middle;
		else
			low = middle + 1;
	}
	if (!st)
		run->smallest_limit_bytes = high * GRAIN;
	return st;
}

static int worth_bisecting(const struct allocator_search *s)
{
	return s->options->flags & PLIM_WHATIF_SMALLEST ||
	       s->program->ops.n * 20 * (s->out->run_count + 1) <= CHEAP_OPS;
}

static enum plim_status do_one(struct allocator_search *s, uint32_t number, struct plim_err *err)
{
	struct plim_whatif_run *run = run_of(s, number);
	struct trial trial = { .plan = run->plan ? run->settings : NULL };
	enum plim_status st = PLIM_OK;

	if (!run->plan)
		st = allocator_search_rules(s, number ? run->settings : NULL, &trial.rules, err);
	if (!st)
		st = run_settings(s, run, &trial, err);
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
static void work(struct work *k, unsigned threads)
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
	work(&k, threads);
	pthread_mutex_destroy(&k.lock);
	if (k.status)
		*err = k.err;
	s->not_tried = s->out->run_count + 1 - k.done;
	s->out->run_count = k.done - 1; /* runs are taken in turn: the rest was not begun */
	return k.status;
}

enum plim_status allocator_search_learn(struct allocator_search *s, struct plim_err *err)
{
	struct allocator_vmm how = { .bounds = { UINT64_MAX, UINT64_MAX, 0 }, .learned = &s->plan };
	struct allocator_outcome out;
	enum plim_status st = allocator_run_vmm(s->mem, s->program, &how, &out, err);

	if (!st)
		st = cycles_longest(s->mem, s->plan.at, s->plan.n, &s->out->plan_requests, err);
	if (!st && out.oom_event == TRACE_NONE &&
	    out.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak < s->out->floor.packed_peak_bytes)
		s->out->floor.packed_peak_bytes = out.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak;
	return st;
}
