/* Steps, phases and categories, from the timeline's into the report's structs. */
#include "verbs/out.h"
#include "verbs/report/report.h"

enum plim_status report_categorize(struct plim_report *r, struct report_device *one,
				   struct plim_err *err)
{
	struct mem *m = &r->hidden->mem;
	const struct timeline *tl = &one->timeline;
	enum plim_status st = timeline_find_steps(m, tl, &one->steps, err);

	if (!st)
		st = timeline_find_ranges(m, tl, &one->ranges, err);
	if (!st && r->hidden->snapshot->has_frames && tl->device->events.n)
		st = timeline_categorize(m, tl, &one->categories, err);
	if (!st && !one->steps.ends.n)
		st = timeline_steps_of_ranges(m, tl, &one->ranges, &one->periods, err);
	if (!st && !one->steps.ends.n && !one->periods.ends.n)
		st = timeline_find_periods(m, tl, &one->categories, &one->periods, err);
	return st;
}

enum plim_status report_ranges(struct plim_report *r, const struct report_device *one,
			       uint32_t event, const char ***out, size_t *n, struct plim_err *err)
{
	uint32_t names[TIMELINE_RANGES_MAX];
	char word[32];
	size_t open;

	if (report_is_plan(r)) /* its ranges are its phases */
		return PLIM_OK;
	open = timeline_ranges_at(&one->ranges, one->timeline.device->events.time_us[event], names);
	*out = report_take(r, open, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	for (; *n < open; ++*n) {
		(*out)[*n] = report_text(r, err, "%.900s",
					 report_name(r, names[*n], "range", word, sizeof(word)));
		if (!(*out)[*n])
			return mem_status(err);
	}
	return PLIM_OK;
}

enum plim_status report_categories(struct plim_report *r, const struct report_device *one,
				   uint32_t event, struct plim_report_categories **out,
				   struct plim_err *err)
{
	uint64_t bytes[TIMELINE_CATEGORIES];

	*out = NULL;
	if (!one->categories.mem)
		return PLIM_OK;
	*out = report_take(r, 1, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	timeline_sum_categories(&one->timeline, &one->categories, event, TIMELINE_ALLOCATED, bytes);
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
	};
	return PLIM_OK;
}

static void fill_step(const struct report_device *one, struct timeline_cursor *at,
		      struct plim_report_step *step)
{
	uint64_t most[TIMELINE_PHASES];

	for (int p = 0; p < TIMELINE_PHASES; p++)
		most[p] = PLIM_UNKNOWN;
	step->peak_requested_bytes = 0;
	for (uint32_t e = (uint32_t)step->start_event; e <= step->end_event; e++) {
		uint64_t *phase, now;

		timeline_go(&one->timeline, at, e);
		now = at->bytes[TIMELINE_REQUESTED];
		if (now > step->peak_requested_bytes)
			step->peak_requested_bytes = now;
		if (!one->categories.mem)
			continue;
		phase = &most[one->categories.phase[e]];
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

/* What follows the last step that ended is one more, which did not. */
static enum plim_status fill_steps(struct plim_report *r, const struct report_device *one,
				   struct plim_report_device *out, struct plim_err *err)
{
	const struct timeline_steps *steps = report_repeats(one);
	size_t events = one->timeline.device->events.n;
	struct timeline_cursor at;
	uint64_t start = 0;

	out->steps = report_take(r, steps->ends.n + 1, sizeof(*out->steps), err);
	if (!out->steps)
		return mem_status(err);
	timeline_start(&one->timeline, &at);
	for (size_t i = 0; i <= steps->ends.n && start < events; i++) {
		struct plim_report_step *step = &out->steps[out->step_count++];

		step->index = i;
		step->start_event = start;
		step->end_event = i < steps->ends.n ? steps->ends.at[i] : events - 1;
		fill_step(one, &at, step);
		start = step->end_event + 1;
	}
	return PLIM_OK;
}

uint64_t report_step_of(const struct report_device *one, uint32_t event)
{
	const struct timeline_steps *steps = report_repeats(one);

	return steps->ends.n ? timeline_step_of(steps, event) : PLIM_UNKNOWN;
}

const char *report_phase_of(const struct report_device *one, uint32_t event)
{
	return one->categories.mem ? timeline_phase_names[one->categories.phase[event]] : NULL;
}

static void place_deaths(const struct report_device *one, struct plim_report_device *out)
{
	for (size_t i = 0; i < out->oom_count; i++) {
		struct plim_report_oom *oom = &out->oom[i];

		oom->step = report_step_of(one, (uint32_t)oom->event);
		oom->phase = report_phase_of(one, (uint32_t)oom->event);
	}
}

enum plim_status report_steps(struct plim_report *r, const struct report_device *one,
			      struct plim_report_device *out, struct plim_err *err)
{
	static const char *const bases[] = { [TIMELINE_BY_OPTIMIZER] = "optimizer",
					     [TIMELINE_BY_BACKWARD] = "backward",
					     [TIMELINE_BY_REQUEST] = "request",
					     [TIMELINE_BY_RANGE] = "annotation" };

	place_deaths(one, out);
	if (!report_repeats(one)->ends.n)
		return PLIM_OK;
	out->step_basis = bases[report_repeats(one)->basis];
	return fill_steps(r, one, out, err);
}

static void live_lines(struct text *t, const struct report_device *one)
{
	const struct snapshot_device *d = one->timeline.device;
	uint32_t last = d->events.n ? (uint32_t)d->events.n - 1 : TIMELINE_BEFORE;

	for (uint32_t a = 0; one->categories.mem && a < d->alloc_count; a++) {
		const struct timeline_rule *rule = &timeline_rules[one->categories.rule[a]];

		if (timeline_lives(&d->allocs[a], TIMELINE_ACTIVE, last))
			text_printf(t, "%llu %llu %s %u %s\n",
				    (unsigned long long)d->allocs[a].addr,
				    (unsigned long long)d->allocs[a].requested_bytes,
				    timeline_category_names[rule->category], rule->confidence_pct,
				    rule->text);
	}
}

enum plim_status plim_report_live(const struct plim_report *r, plim_write_fn *write, void *ctx,
				  struct plim_err *err)
{
	struct text t;

	text_init(&t, &r->hidden->mem, NULL);
	for (size_t i = 0; i < r->hidden->snapshot->device_count; i++)
		if (r->hidden->devices[i].timeline.device)
			live_lines(&t, &r->hidden->devices[i]);
	return out_text(&t, write, ctx, err);
}
