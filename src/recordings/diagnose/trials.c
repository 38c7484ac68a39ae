/* A recording's requests replayed under the settings that people would try. */
#include "diagnose.h"

#include <stdio.h>

struct allocator_bounds findings_bounds_of(const struct findings_death *d)
{
	return allocator_bounds_of(d->bound_low_bytes, d->bound_by != FINDINGS_BOUND_LIMIT);
}

int findings_is_leak(const struct findings_death *d)
{
	return (d->cause ? d->cause : d->likelier) == FINDINGS_CAUSE_LEAK;
}

const struct allocator_apart *findings_apart(const struct findings_death *d)
{
	enum findings_cause cause = d->cause ? d->cause : d->likelier;

	return cause == FINDINGS_CAUSE_PRIVATE_POOLS  ? &d->room.pools
	       : cause == FINDINGS_CAUSE_OTHER_STREAM ? &d->room.streams
						      : NULL;
}

int findings_settings_help(const struct findings_death *d)
{
	uint64_t need = d->requested_live_bytes + d->request_bytes;

	if (d->future)
		need += d->still_low_bytes;
	return !findings_is_leak(d) && d->bound_low_bytes != PLIM_UNKNOWN &&
	       need <= d->bound_low_bytes;
}

const char *findings_how_to_set(const struct snapshot *t, const struct findings_tried *one,
				char out[FINDINGS_HOW])
{
	if (one->own)
		snprintf(out, FINDINGS_HOW,
			 "import plimsoll.allocator and, before CUDA starts, call ");
	else
		snprintf(out, FINDINGS_HOW, "set %s=", snapshot_platform_of(t).variable);
	return out;
}

/* Is it known to do nothing where the program ran? */
static int has_no_effect(const struct snapshot_platform *p, const struct findings_tried *one,
			 const struct allocator_rules *rules)
{
	return one->own ? !snapshot_has_own_allocator(p)
			: rules->expandable && snapshot_ignores_expandable(p);
}

static struct findings_tried trial_number(size_t i)
{
	struct findings_tried one = { .own = i == ALLOCATOR_FIRST_SETTINGS };

	one.settings = one.own ? allocator_own_names[0] : allocator_first_settings[i];
	one.run.settings = one.settings;
	return one;
}

enum plim_status findings_try_settings(struct mem *m, const struct timeline *tl,
				       const struct allocator_bounds *bounds,
				       struct findings_tried tried[FINDINGS_TRIED], size_t *n,
				       struct plim_err *err)
{
	const struct snapshot_platform platform = snapshot_platform_of(tl->snapshot);
	struct allocator_trial trial = { .device = tl->device };
	struct allocator_check check;
	struct program *p;
	enum plim_status st =
		allocator_explain(m, tl->snapshot, tl->device, tl->replay, &p, &check, err);
	size_t wanted = *n;

	*n = 0;
	if (st)
		return st;
	for (size_t i = 0; !st && i < wanted && check.diverged_at == TRACE_NONE; i++) {
		struct findings_tried *one = &tried[*n];

		*one = trial_number(i);
		trial.own_allocator = one->own;
		/* an older release may not take it */
		if (!one->own &&
		    allocator_rules_for(tl->snapshot, one->settings, 0, &trial.rules, NULL))
			continue;
		if (has_no_effect(&platform, one, &trial.rules))
			continue;
		st = allocator_judge(m, p, &trial, bounds, &one->run, err);
		one->survives = one->run.outcome == PLIM_WHATIF_OK && one->run.outcome_certain;
		one->reserved_bytes = one->run.reserved_peak_bytes;
		++*n;
	}
	program_free(p);
	return st;
}
