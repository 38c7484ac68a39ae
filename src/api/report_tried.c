/* A death's requests replayed under the settings that people would try. */
#include "report.h"

static const char *const usual[REPORT_TRIED] = { "expandable_segments:True",
						 "max_split_size_mb:64" };

static enum plim_status run(struct plim_report *r, const struct program *p,
			    const struct trace_device *device, const struct findings_death *d,
			    struct report_tried *tried, struct plim_err *err)
{
	int limit = d->bound_by == FINDINGS_BOUND_LIMIT;
	struct allocator_rules rules;
	struct allocator_run how = {
		.rules = &rules,
		.device = device,
		.bounds = { .limit_bytes = limit ? d->bound_low_bytes : UINT64_MAX,
			    .capacity_bytes = limit ? UINT64_MAX : d->bound_low_bytes },
	};
	struct allocator_outcome out;
	enum plim_status st = allocator_rules_parse(tried->settings, 0, &rules, err);

	tried->survives = !st;
	for (how.way = 0; !st && how.way < allocator_ways(device) && tried->survives; how.way++) {
		st = allocator_run(&r->hidden->mem, p, &how, &out, err);
		tried->survives = out.oom_event == TRACE_NONE;
		if (!st && !how.way)
			tried->reserved_bytes = out.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak;
	}
	return st;
}

enum plim_status report_try_settings(struct plim_report *r, const struct timeline *tl,
				     const struct findings_death *d,
				     struct report_tried tried[REPORT_TRIED], size_t *n,
				     struct plim_err *err)
{
	struct allocator_check check;
	struct program *p;
	enum plim_status st;

	*n = 0;
	if (d->cause != FINDINGS_CAUSE_FRAGMENTATION && d->cause != FINDINGS_CAUSE_UNKNOWN)
		return PLIM_OK;
	if (d->bound_low_bytes == PLIM_UNKNOWN)
		return PLIM_OK;
	st = allocator_explain(&r->hidden->mem, tl->trace, tl->device, tl->replay, &p, &check, err);
	if (st)
		return st;
	for (size_t i = 0; !st && i < REPORT_TRIED && check.diverged_at == TRACE_NONE; i++) {
		tried[i] = (struct report_tried){ .settings = usual[i] };
		st = run(r, p, tl->device, d, &tried[i], err);
		*n = i + 1;
	}
	program_free(p);
	return st;
}
