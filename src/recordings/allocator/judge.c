/*
 * What one setting would have done to a program.  Every command that says so asks here: report, whatif, why and the page
 * cannot know different numbers of one recording and setting.
 */
#include "allocator.h"

#include <string.h>

const char *const allocator_first_settings[ALLOCATOR_FIRST_SETTINGS] = { "expandable_segments:True",
									 "max_split_size_mb:64" };

const char *const allocator_own_names[2] = { "plimsoll.allocator.use()",
					     "plimsoll.allocator.use(plan=...)" };

/* A GPU is met by the driver, a limit by PyTorch before it asks the driver. */
struct allocator_bounds allocator_bounds_of(uint64_t bytes, int card)
{
	return (struct allocator_bounds){
		.limit_bytes = card || bytes == PLIM_UNKNOWN ? UINT64_MAX : bytes,
		.capacity_bytes = card ? bytes : UINT64_MAX,
	};
}

enum plim_status allocator_rules_for(const struct snapshot *t, const char *settings, unsigned torch,
				     struct allocator_rules *rules, struct plim_err *err)
{
	enum plim_status st;

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

enum plim_status allocator_try(struct mem *m, const struct program *p,
			       const struct allocator_trial *trial,
			       const struct allocator_bounds *bounds, unsigned way,
			       struct allocator_outcome *out, struct plim_err *err)
{
	struct allocator_run how = {
		.rules = &trial->rules, .bounds = *bounds, .way = way, .device = trial->device
	};
	struct allocator_vmm own = { .bounds = *bounds,
				     .waits_long = trial->waits_long,
				     .plan_bytes = trial->plan_bytes,
				     .plan_n = trial->plan_n };

	return trial->own_allocator ? allocator_run_vmm(m, p, &own, out, err)
				    : allocator_run(m, p, &how, out, err);
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
	run->outcome_certain &=
		!o->refused_workspaces && !o->failed == (run->outcome == PLIM_WHATIF_OK);
}

static void fill_judged(struct plim_whatif_run *run, const struct allocator_outcome *o)
{
	run->outcome = o->failed ? PLIM_WHATIF_OOM : PLIM_WHATIF_OK;
	run->outcome_certain = true;
	run->oom_event = o->oom_event == TRACE_NONE ? PLIM_UNKNOWN : o->oom_event;
	run->oom_request_bytes = o->failed ? o->oom_request_bytes : PLIM_UNKNOWN;
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

/* With waits of either length, or with long ones alone. */
static enum plim_status judge_waits(struct mem *m, const struct program *p,
				    const struct allocator_trial *trial,
				    const struct allocator_bounds *bounds, int waits_long,
				    struct plim_whatif_run *run, struct plim_err *err)
{
	struct allocator_trial other = *trial;
	struct allocator_outcome o;
	enum plim_status st = PLIM_OK;

	for (; !st && waits_long <= trial->own_allocator; waits_long++) {
		other.waits_long = waits_long;
		st = allocator_try(m, p, &other, bounds, ALLOCATOR_RECORDED, &o, err);
		if (!st)
			widen(run, &o);
	}
	return st;
}

/* Other streams are done with what the program dropped at once, or take twice as long. */
static enum plim_status judge_streams(struct mem *m, const struct program *p,
				      const struct allocator_trial *trial,
				      const struct allocator_bounds *bounds,
				      struct plim_whatif_run *run, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	int any = !trial->as_recorded;

	for (unsigned times = 0; !st && any && times <= 2; times += 2) {
		struct program other;

		st = program_delayed(m, p, times, &other, &any, err);
		if (st || !any)
			return st;
		st = judge_waits(m, &other, trial, bounds, 0, run, err);
		program_delayed_free(m, &other);
	}
	return st;
}

/*
 * One setting at all placements.  A limit given as a share of the GPU can come out a byte lower than
 * it was meant (PyTorch multiplies doubles), and a byte decides where segments fill it exactly.
 */
enum plim_status allocator_judge(struct mem *m, const struct program *p,
				 const struct allocator_trial *trial,
				 const struct allocator_bounds *bounds, struct plim_whatif_run *run,
				 struct plim_err *err)
{
	struct allocator_bounds less = *bounds;
	unsigned ways = trial->own_allocator ? 1 : allocator_ways(trial->device);
	struct allocator_outcome o;
	enum plim_status st = allocator_try(m, p, trial, bounds, ALLOCATOR_RECORDED, &o, err);

	run->limit_bytes = bounds->limit_bytes < bounds->capacity_bytes ? bounds->limit_bytes
									: bounds->capacity_bytes;
	run->smallest_limit_bytes = PLIM_UNKNOWN;
	if (st)
		return st;
	fill_judged(run, &o);
	for (unsigned way = ALLOCATOR_RECORDED + 1; !st && way < ways; way++) {
		st = allocator_try(m, p, trial, bounds, way, &o, err);
		if (!st)
			widen(run, &o);
	}
	if (!st)
		st = judge_waits(m, p, trial, bounds, 1, run, err);
	if (!st)
		st = judge_streams(m, p, trial, bounds, run, err);
	if (st || bounds->limit_bytes == UINT64_MAX || !bounds->limit_bytes)
		return st;
	less.limit_bytes--;
	st = allocator_try(m, p, trial, &less, ALLOCATOR_RECORDED, &o, err);
	if (!st)
		widen(run, &o);
	return st;
}
