/* The runs, several at a time; then which is best. */
#include "verbs/whatif/whatif.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GRAIN ((uint64_t)2 << 20) /* segments are multiples of it, so limits between are the same */
/* Looking for the smallest limit takes some 20 runs; up to so many operations in all it is done unasked. */
#define CHEAP_OPS 60000000u
#define CLEARLY_PART 32 /* a limit that is smaller by one part of so many is clearly better */

struct work {
	struct plim_whatif *w;
	pthread_mutex_t lock; /* of what follows */
	uint32_t next, done;
	struct timespec deadline; /* for runs beyond those that must be done */
	uint32_t must;
	enum plim_status status; /* the first failure */
	struct plim_err err;
};

static struct plim_whatif_run *run_of(struct plim_whatif *w, uint32_t number)
{
	return number ? &w->runs[number - 1] : w->as_recorded;
}

/* What is run: PyTorch's allocator by these rules, or libplimsoll_alloc.so's. */
struct trial {
	struct allocator_rules rules;
	const char *plan; /* of whatif_allocator_names; NULL: PyTorch's */
};

static enum plim_status once(const struct plim_whatif *w, const struct trial *trial,
			     const struct allocator_bounds *bounds, unsigned way,
			     struct allocator_outcome *out, struct plim_err *err)
{
	struct allocator_run how = { .rules = &trial->rules,
				     .bounds = *bounds,
				     .way = way,
				     .device = w->hidden->device->device };

	if (trial->plan)
		return whatif_plan_once(w, trial->plan, bounds, out, err);
	return allocator_run(&w->hidden->recording->mem, w->hidden->program, &how, out, err);
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
static enum plim_status run_settings(const struct plim_whatif *w, struct plim_whatif_run *run,
				     const struct trial *trial, struct plim_err *err)
{
	struct allocator_bounds bounds = whatif_bounds(w, w->bound.limit_bytes);
	unsigned ways = trial->plan ? 1 : allocator_ways(w->hidden->device->device);
	struct allocator_outcome o;
	enum plim_status st = once(w, trial, &bounds, ALLOCATOR_RECORDED, &o, err);

	run->limit_bytes = w->bound.limit_bytes;
	run->smallest_limit_bytes = PLIM_UNKNOWN;
	if (st)
		return st;
	fill(run, &o);
	for (unsigned way = ALLOCATOR_RECORDED + 1; !st && way < ways; way++) {
		st = once(w, trial, &bounds, way, &o, err);
		if (!st)
			widen(run, &o);
	}
	if (st || bounds.limit_bytes == UINT64_MAX || !bounds.limit_bytes)
		return st;
	bounds.limit_bytes--;
	st = once(w, trial, &bounds, ALLOCATOR_RECORDED, &o, err);
	if (!st)
		widen(run, &o);
	return st;
}

static enum plim_status survives(const struct plim_whatif *w, const struct trial *trial,
				 uint64_t limit, int *yes, struct plim_err *err)
{
	struct allocator_bounds bounds = whatif_bounds(w, limit);
	struct allocator_outcome o;
	enum plim_status st = once(w, trial, &bounds, ALLOCATOR_RECORDED, &o, err);

	*yes = !st && o.oom_event == TRACE_NONE && !o.refused_workspaces;
	return st;
}

/*
 * Bisect between what nothing can do without and what is reserved when there is no limit, or the
 * bound that it was seen to survive.  Smaller limits are not always worse (garbage collection goes by
 * the limit), so this is a limit below which 2 MiB less is not survived, not a proof for all others.
 */
static enum plim_status find_smallest(const struct plim_whatif *w, struct plim_whatif_run *run,
				      const struct trial *trial, struct plim_err *err)
{
	struct allocator_bounds none = { UINT64_MAX, UINT64_MAX, 0 };
	uint64_t low = w->floor.requested_peak_bytes / GRAIN, high;
	struct allocator_outcome o;
	enum plim_status st = once(w, trial, &none, ALLOCATOR_RECORDED, &o, err);
	int yes;

	if (st)
		return st;
	high = (reserved_peak(&o) + GRAIN - 1) / GRAIN;
	if (run->outcome == PLIM_WHATIF_OK && w->bound.limit_bytes / GRAIN < high)
		high = w->bound.limit_bytes / GRAIN;
	st = survives(w, trial, high * GRAIN, &yes, err);
	if (st || !yes)
		return st;
	while (!st && low < high) {
		uint64_t middle = low + (high - low) / 2;

		st = survives(w, trial, middle * GRAIN, &yes, err);
		if (yes)
			high = middle;
		else
			low = middle + 1;
	}
	if (!st)
		run->smallest_limit_bytes = high * GRAIN;
	return st;
}

static int worth_bisecting(const struct plim_whatif *w)
{
	return w->hidden->options.flags & PLIM_WHATIF_SMALLEST ||
	       w->hidden->program->ops.n * 20 * (w->run_count + 1) <= CHEAP_OPS;
}

static enum plim_status do_one(struct plim_whatif *w, uint32_t number, struct plim_err *err)
{
	struct plim_whatif_run *run = run_of(w, number);
	struct trial trial = { .plan = run->plan ? run->settings : NULL };
	enum plim_status st = PLIM_OK;

	if (!run->plan)
		st = whatif_rules(w, number ? run->settings : NULL, &trial.rules, err);
	if (!st)
		st = run_settings(w, run, &trial, err);
	if (!st && worth_bisecting(w))
		st = find_smallest(w, run, &trial, err);
	return st;
}

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
	const struct plim_whatif_options *o = &k->w->hidden->options;
	int searches = (o->flags & PLIM_WHATIF_SEARCH) != 0;

	k->must = 1 + (uint32_t)(searches ? o->settings_count : k->w->run_count);
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
	struct plim_whatif *w = k->w;
	uint32_t total = (uint32_t)w->run_count + 1;

	pthread_mutex_lock(&k->lock);
	while (!k->status && k->next < total && !late(k)) {
		uint32_t number = k->next++;
		struct plim_err err = { 0 };
		enum plim_status st;

		pthread_mutex_unlock(&k->lock);
		st = do_one(w, number, &err);
		pthread_mutex_lock(&k->lock);
		k->done++;
		if (!st && w->hidden->options.progress &&
		    w->hidden->options.progress(w->hidden->options.progress_ctx, k->done, total))
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

static enum plim_status warn(struct plim_whatif *w, struct plim_whatif_run *run,
			     struct plim_err *err)
{
	run->warnings = arena_take(&w->hidden->arena, facts_setting_cost_count,
				   sizeof(*run->warnings), err);
	if (!run->warnings)
		return mem_status(err);
	for (size_t i = 0; i < facts_setting_cost_count; i++) {
		const struct facts_setting_cost *c = &facts_setting_costs[i];

		if (!run->settings || !strstr(run->settings, c->setting))
			continue;
		run->warnings[run->warning_count] =
			arena_text(&w->hidden->arena, err, "%s (%s)", c->text, c->source);
		if (!run->warnings[run->warning_count++])
			return mem_status(err);
	}
	return PLIM_OK;
}

/* What the recording was made with, as its settings say. */
static enum plim_status name_recorded(struct plim_whatif *w, struct plim_err *err)
{
	const struct snapshot *t = w->hidden->device->of->snapshot;
	const char *conf = snapshot_text(t, t->settings.have ? t->settings.conf : TRACE_NONE);

	w->as_recorded->settings = arena_text(&w->hidden->arena, err, "%s", conf);
	return w->as_recorded->settings ? PLIM_OK : err->status;
}

enum plim_status whatif_run_all(struct plim_whatif *w, struct plim_err *err)
{
	struct work k = { .w = w, .lock = PTHREAD_MUTEX_INITIALIZER };
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned threads = w->hidden->options.threads;
	enum plim_status st = name_recorded(w, err);

	for (uint32_t i = 0; !st && i <= w->run_count; i++)
		st = warn(w, run_of(w, i), err);
	if (st)
		return st;
	if (!threads)
		threads = cores > 0 ? (unsigned)cores : 1;
	if (threads > w->run_count + 1)
		threads = (unsigned)w->run_count + 1;
	set_deadline(&k);
	work(&k, threads);
	pthread_mutex_destroy(&k.lock);
	if (k.status)
		*err = k.err;
	w->hidden->not_tried = w->run_count + 1 - k.done;
	w->run_count = k.done - 1; /* runs are taken in turn: the rest was not begun */
	return k.status;
}

/* ---- which is best ---- */

static int certainly_survives(const struct plim_whatif_run *run)
{
	return run->outcome == PLIM_WHATIF_OK ? 1 + run->outcome_certain : 0;
}

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Settings that are to be set, counted: fewer are simpler. */
static uint64_t keys(const struct plim_whatif_run *run)
{
	uint64_t n = *run->settings != 0;

	n += run->plan && strchr(run->settings, '='); /* a file to keep */

	for (const char *at = run->settings; (at = strchr(at, ',')); at++)
		n++;
	return n;
}

/* < 0: a is better. */
static int better(const struct plim_whatif_run *a, const struct plim_whatif_run *b)
{
	int c = certainly_survives(b) - certainly_survives(a);

	if (!c) /* PLIM_UNKNOWN is the largest number, and the same for all */
		c = compare(a->smallest_limit_bytes, b->smallest_limit_bytes);
	if (!c)
		c = compare(a->retries, b->retries);
	if (!c)
		c = compare(a->reserved_peak_bytes, b->reserved_peak_bytes);
	return c ? c : compare(keys(a), keys(b));
}

static int by_rank(const void *a, const void *b)
{
	const struct plim_whatif_run *const *x = a, *const *y = b;
	int c = better(*x, *y);

	return c ? c : (*x > *y) - (*x < *y);
}

void whatif_rank(const struct plim_whatif *w, const struct plim_whatif_run **order)
{
	for (size_t i = 0; i < w->run_count; i++)
		order[i] = &w->runs[i];
	sort_items(order, w->run_count, sizeof(*order), by_rank);
}

/* What counts when two settings are compared: the limit they need, or what they reserve. */
static uint64_t need(const struct plim_whatif_run *run)
{
	return run->smallest_limit_bytes != PLIM_UNKNOWN ? run->smallest_limit_bytes
							 : run->reserved_peak_range_bytes.high;
}

/* Smaller by more than what is worth a change. */
static int clearly_less(uint64_t a, uint64_t b)
{
	return a + a / CLEARLY_PART < b;
}

/* Does `a` ask less of its user: memory that others could have, or else keys to set? */
static int costs_less(const struct plim_whatif_run *a, const struct plim_whatif_run *b)
{
	uint64_t x = a->reserved_peak_range_bytes.high, y = b->reserved_peak_range_bytes.high;

	if (clearly_less(x, y) || clearly_less(y, x))
		return x < y;
	return keys(a) < keys(b);
}

/* Of those that are about as good as the best, the one that costs least. */
static const struct plim_whatif_run *cheapest(const struct plim_whatif *w,
					      const struct plim_whatif_run *const *order)
{
	const struct plim_whatif_run *best = order[0];
	uint64_t most = need(best) + need(best) / CLEARLY_PART;

	for (size_t i = 1; i < w->run_count; i++) {
		const struct plim_whatif_run *one = order[i];

		if (certainly_survives(one) == certainly_survives(order[0]) && need(one) <= most &&
		    one->retries <= order[0]->retries && costs_less(one, best))
			best = one;
	}
	return best;
}

static int clearly_better(const struct plim_whatif_run *a, const struct plim_whatif_run *own)
{
	if (certainly_survives(a) < 2)
		return 0;
	if (own->outcome == PLIM_WHATIF_OOM)
		return own->outcome_certain;
	/* a wait of ours costs less than a release of the whole cache */
	if ((!a->plan && a->retries > own->retries) || need(a) > need(own) ||
	    clearly_less(own->reserved_peak_range_bytes.high, a->reserved_peak_range_bytes.high))
		return 0;
	return clearly_less(need(a), need(own)) ||
	       clearly_less(a->reserved_peak_range_bytes.high, own->reserved_peak_range_bytes.low);
}

/* Why nothing is recommended, whatever the runs say; *why NULL: no reason. */
static enum plim_status withhold(const struct plim_whatif *w, const char **why,
				 struct plim_err *err)
{
	struct arena *arena = &w->hidden->arena;
	uint64_t limit = w->bound.limit_bytes, live = w->floor.requested_peak_bytes;
	char a[32], b[32], c[32];

	*why = NULL;
	if (!w->self_check.exact)
		*why = arena_text(
			arena, err,
			"the model does not give this recording back: it differs from event %llu "
			"on, so "
			"the runs show what PyTorch's rules would do, not what this job did",
			(unsigned long long)w->self_check.diverged_at);
	else if (limit != PLIM_UNKNOWN && live > limit && !w->as_recorded->refused_workspaces)
		*why = arena_text(
			arena, err,
			"no allocator setting can help: %s is asked for at once, the limit "
			"is %s",
			text_size(a, live), text_size(b, limit));
	else if (w->death && w->death->cause == PLIM_CAUSE_LEAK)
		*why = arena_text(
			arena, err,
			"the run died of a leak (plimsoll report shows where): settings that "
			"survive the recorded part die some repetitions later");
	else if (w->death && w->death->needed_bytes != PLIM_UNKNOWN && limit != PLIM_UNKNOWN &&
		 w->death->needed_bytes > limit)
		*why = arena_text(
			arena, err,
			"no allocator setting can help: with what the step had still to "
			"allocate where the recording ends (%s) it needs %s, and the limit is "
			"%s; a run that survives the recorded part dies later",
			text_size(a, w->death->still_to_come_bytes),
			text_size(b, w->death->needed_bytes), text_size(c, limit));
	else
		return PLIM_OK;
	return *why ? PLIM_OK : mem_status(err);
}

enum plim_status whatif_recommend(struct plim_whatif *w, struct plim_err *err)
{
	const struct plim_whatif_run **order;
	const struct plim_whatif_run *best;
	enum plim_status st = withhold(w, &w->withheld, err);

	if (st || w->withheld)
		return st;
	order = arena_take(&w->hidden->arena, w->run_count, sizeof(*order), err);
	if (!order)
		return mem_status(err);
	whatif_rank(w, order);
	best = w->run_count ? cheapest(w, order) : NULL;
	if (best && strcmp(best->settings, w->as_recorded->settings) &&
	    clearly_better(best, w->as_recorded))
		w->recommended = best->settings;
	return PLIM_OK;
}
