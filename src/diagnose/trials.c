/* A recording's requests replayed under the settings that people would try. */
#include "diagnose.h"

static const char *const usual[FINDINGS_TRIED] = { "expandable_segments:True",
						   "max_split_size_mb:64" };

static enum plim_status run(struct mem *m, const struct program *p,
			    const struct snapshot_device *device,
			    const struct allocator_bounds *bounds, struct findings_tried *tried,
			    struct plim_err *err)
{
	struct allocator_rules rules;
	struct allocator_run how = { .rules = &rules, .bounds = *bounds, .device = device };
	struct allocator_outcome out;
	/* without a bound it survives wherever the driver puts its segments */
	int bounded = bounds->limit_bytes != UINT64_MAX || bounds->capacity_bytes != UINT64_MAX;
	unsigned ways = bounded ? allocator_ways(device) : 1;
	enum plim_status st = allocator_rules_parse(tried->settings, 0, &rules, err);

	tried->survives = !st;
	for (how.way = 0; !st && how.way < ways && tried->survives; how.way++) {
		st = allocator_run(m, p, &how, &out, err);
		tried->survives = out.oom_event == TRACE_NONE && !out.refused_workspaces;
		if (!st && !how.way)
			tried->reserved_bytes = out.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak;
	}
	return st;
}

enum plim_status findings_try_settings(struct mem *m, const struct timeline *tl,
				       const struct allocator_bounds *bounds,
				       struct findings_tried tried[FINDINGS_TRIED], size_t *n,
				       struct plim_err *err)
{
	struct allocator_check check;
	struct program *p;
	enum plim_status st =
		allocator_explain(m, tl->snapshot, tl->device, tl->replay, &p, &check, err);
	size_t wanted = *n;

	*n = 0;
	if (st)
		return st;
	for (size_t i = 0; !st && i < wanted && check.diverged_at == TRACE_NONE; i++) {
		tried[i] = (struct findings_tried){ .settings = usual[i] };
		st = run(m, p, tl->device, bounds, &tried[i], err);
		*n = i + 1;
	}
	program_free(p);
	return st;
}
