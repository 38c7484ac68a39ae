/* A recording under libplimsoll_alloc.so, and the plan file that it leaves. */
#include "verbs/whatif/whatif.h"

#include <string.h>

const char *const whatif_allocator_names[2] = { "plimsoll.allocator.use()",
						"plimsoll.allocator.use(plan=...)" };

enum plim_status whatif_plan_once(const struct plim_whatif *w, const char *name,
				  const struct allocator_bounds *bounds,
				  struct allocator_outcome *out, struct plim_err *err)
{
	const struct plim_whatif_hidden *h = w->hidden;
	struct allocator_vmm how = { .bounds = *bounds };

	if (!strcmp(name, whatif_allocator_names[1])) {
		how.plan_bytes = h->plan.at;
		how.plan_n = h->plan.n;
	}
	return allocator_run_vmm(&h->recording->mem, h->program, &how, out, err);
}

enum plim_status whatif_learn(struct plim_whatif *w, struct plim_err *err)
{
	struct plim_whatif_hidden *h = w->hidden;
	struct allocator_vmm how = { .bounds = { UINT64_MAX, UINT64_MAX, 0 }, .learned = &h->plan };
	struct allocator_outcome out;
	struct mem *m = &h->recording->mem;
	enum plim_status st = allocator_run_vmm(m, h->program, &how, &out, err);

	if (!st)
		st = cycles_longest(m, h->plan.at, h->plan.n, &w->plan_requests, err);
	if (!st && out.oom_event == TRACE_NONE &&
	    out.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak < w->floor.packed_peak_bytes)
		w->floor.packed_peak_bytes = out.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak;
	return st;
}

enum plim_status plim_whatif_plan(const struct plim_whatif *w, const char *path,
				  struct plim_err *err)
{
	struct plim_whatif_hidden *h = w->hidden;
	struct durable *file = NULL;
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	if (!(h->options.flags & PLIM_WHATIF_PLAN))
		return err_set(err, PLIM_E_ARG, "a plan is made with PLIM_WHATIF_PLAN only");
	if (!w->plan_requests)
		return err_set(err, PLIM_E_ARG,
			       "%s: nothing repeats, so there is nothing to plan; "
			       "plimsoll.allocator.use() needs no plan",
			       w->source.path);
	st = durable_begin(&h->recording->mem, path, h->plan.n, &file, err);
	if (!st)
		st = durable_write(file, h->plan.at, h->plan.n, err);
	if (st) {
		durable_abort(file);
		return st;
	}
	return durable_commit(file, NULL, err);
}
