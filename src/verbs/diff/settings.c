/* What is not as before beside memory: settings, releases, devices, events; and what was found. */
#include "verbs/diff/diff.h"

#include <stdio.h>
#include <string.h>

#define VALUE 256 /* characters of a value in words */

/* ---- settings ---- */

/* A value of one recording in words; 0: it does not tell. */
typedef int value_fn(const struct plim_report *r, const struct plim_diff_side *side, char *out);

static int number(char *out, uint64_t n)
{
	snprintf(out, VALUE, "%llu", (unsigned long long)n);
	return 1;
}

static int torch_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	(void)r;
	snprintf(out, VALUE, "%s", side->torch ? side->torch : "");
	return side->torch != NULL;
}

static int conf_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	const struct snapshot_settings *s = &r->hidden->snapshot->settings;
	char word[32];

	(void)side;
	if (!s->have || s->conf == TRACE_NONE)
		return 0;
	snprintf(out, VALUE, "%.200s", report_name(r, s->conf, "settings", word, sizeof(word)));
	return 1;
}

static int expandable_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	(void)side;
	snprintf(out, VALUE, "%s",
		 r->hidden->snapshot->settings.expandable_segments ? "True" : "False");
	return r->hidden->snapshot->settings.have;
}

static int max_split_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	uint64_t bytes = r->hidden->snapshot->settings.max_split_bytes;
	char size[32];

	(void)side;
	snprintf(out, VALUE, "%s",
		 bytes >= UINT64_MAX - 1 ? "unlimited" : report_size(size, bytes));
	return r->hidden->snapshot->settings.have;
}

static int gc_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	(void)side;
	snprintf(out, VALUE, "%g", r->hidden->snapshot->settings.gc_threshold);
	return r->hidden->snapshot->settings.have;
}

static int roundup_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	const uint32_t *at = r->hidden->snapshot->settings.roundup_divisions;
	size_t n = 0, same = 1;

	(void)side;
	while (same < TRACE_ROUNDUP_ENTRIES && at[same] == at[0])
		same++;
	if (same == TRACE_ROUNDUP_ENTRIES)
		number(out, at[0]);
	for (size_t i = 0; same < TRACE_ROUNDUP_ENTRIES && i < TRACE_ROUNDUP_ENTRIES && n < VALUE;
	     i++)
		n += (size_t)snprintf(out + n, VALUE - n, "%s%u", i ? "," : "", at[i]);
	return r->hidden->snapshot->settings.have;
}

static int stacks_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	(void)side;
	snprintf(out, VALUE, "%s", r->hidden->snapshot->has_frames ? "recorded" : "not recorded");
	return 1;
}

static int begin_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	(void)side;
	snprintf(out, VALUE, "%s", r->source.complete ? "whole run" : "part of the run");
	return 1;
}

static int devices_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	(void)r;
	return number(out, side->devices);
}

static int events_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	(void)side;
	return number(out, r->source.events);
}

/* Of all devices. */
static uint64_t sum_of(const struct plim_report *r, size_t offset)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->device_count; i++) {
		uint64_t one;

		memcpy(&one, (const char *)&r->devices[i] + offset, sizeof(one));
		n += one;
	}
	return n;
}

static int allocations_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	(void)side;
	return number(out, sum_of(r, offsetof(struct plim_report_device, allocations)));
}

static int steps_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	(void)side;
	return number(out, sum_of(r, offsetof(struct plim_report_device, step_count)));
}

static int ooms_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	(void)side;
	return number(out, sum_of(r, offsetof(struct plim_report_device, oom_count)));
}

static int streams_of(const struct plim_report *r, const struct plim_diff_side *side, char *out)
{
	(void)side;
	return number(out, sum_of(r, offsetof(struct plim_report_device, streams)));
}

static const struct {
	const char *name;
	value_fn *value;
} looked_at[] = {
	{ "PyTorch, by the snapshot's keys", torch_of },
	{ "PYTORCH_CUDA_ALLOC_CONF", conf_of },
	{ "expandable_segments", expandable_of },
	{ "max_split_size", max_split_of },
	{ "garbage_collection_threshold", gc_of },
	{ "roundup_power2_divisions", roundup_of },
	{ "stacks", stacks_of },
	{ "recorded", begin_of },
	{ "devices", devices_of },
	{ "streams that allocate", streams_of },
	{ "steps", steps_of },
	{ "failures", ooms_of },
	{ "events", events_of },
	{ "allocations", allocations_of },
};
#define LOOKED_AT (sizeof(looked_at) / sizeof(*looked_at))

enum plim_status diff_settings(struct plim_diff *d, struct plim_err *err)
{
	struct plim_report *a = d->hidden->report[DIFF_A], *b = d->hidden->report[DIFF_B];

	d->settings = report_take(a, LOOKED_AT, sizeof(*d->settings), err);
	if (!d->settings)
		return mem_status(err);
	for (size_t i = 0; i < LOOKED_AT; i++) {
		struct plim_diff_setting *to = &d->settings[d->setting_count];
		char of_a[VALUE], of_b[VALUE];
		int told_a = looked_at[i].value(a, &d->a, of_a);
		int told_b = looked_at[i].value(b, &d->b, of_b);

		if (told_a == told_b && (!told_a || !strcmp(of_a, of_b)))
			continue;
		*to = (struct plim_diff_setting){ .name = looked_at[i].name };
		to->a = told_a ? report_text(a, err, "%s", of_a) : NULL;
		to->b = told_b ? report_text(a, err, "%s", of_b) : NULL;
		if ((told_a && !to->a) || (told_b && !to->b))
			return mem_status(err);
		d->setting_count++;
	}
	return PLIM_OK;
}

/* ---- findings ---- */

/* The same thing, and as bad: a few scalars that pile up do not make up for gigabytes on the other side. */
static int has_like(const struct plim_report_device *told, const struct plim_report_finding *f)
{
	for (size_t i = 0; told && i < told->finding_count; i++)
		if (!strcmp(told->findings[i].id, f->id) &&
		    !strcmp(told->findings[i].severity, f->severity))
			return 1;
	return 0;
}

enum plim_status diff_findings(struct plim_diff *d, const struct diff_side side[2],
			       struct plim_diff_device *out, struct plim_err *err)
{
	static const char *const names[2] = { "a", "b" };
	size_t most = 0;

	for (int s = 0; s < 2; s++)
		most += side[s].told ? side[s].told->finding_count : 0;
	out->findings = report_take(d->hidden->report[DIFF_A], most, sizeof(*out->findings), err);
	if (!out->findings)
		return mem_status(err);
	for (int s = 0; s < 2; s++) {
		for (size_t i = 0; side[s].told && i < side[s].told->finding_count; i++) {
			const struct plim_report_finding *f = &side[s].told->findings[i];

			if (!has_like(side[!s].told, f))
				out->findings[out->finding_count++] =
					(struct plim_diff_finding){ names[s], f->id, f->severity,
								    f->bytes, f->title };
		}
	}
	return PLIM_OK;
}
