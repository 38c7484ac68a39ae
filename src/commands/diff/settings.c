/* What is not as before next to memory: settings, releases, devices, events; and what was found. */
#include "commands/diff/diff.h"

#include <stdio.h>
#include <string.h>

#define VALUE 256 /* characters of a value in words */

/* ---- settings ---- */

/* What values are read from: one of both recordings. */
struct told {
	struct recording_names *names;
	const struct snapshot *snapshot;
	const struct plim_diff_side *side;
	const struct diff_side *devices;
	size_t device_count;
};

/* A value of one recording in words; 0: it does not say. */
typedef int value_fn(const struct told *t, char *out);

static int diff_setting_number(char *out, uint64_t n)
{
	snprintf(out, VALUE, "%llu", (unsigned long long)n);
	return 1;
}

static int torch_of(const struct told *t, char *out)
{
	snprintf(out, VALUE, "%s", t->side->torch ? t->side->torch : "");
	return t->side->torch != NULL;
}

static int conf_of(const struct told *t, char *out)
{
	const struct snapshot_settings *s = &t->snapshot->settings;
	char word[32];

	if (!s->have || s->conf == TRACE_NONE)
		return 0;
	snprintf(out, VALUE, "%.200s",
		 recording_name(t->names, s->conf, "settings", word, sizeof(word)));
	return 1;
}

static int expandable_of(const struct told *t, char *out)
{
	snprintf(out, VALUE, "%s", t->snapshot->settings.expandable_segments ? "True" : "False");
	return t->snapshot->settings.have;
}

static int max_split_of(const struct told *t, char *out)
{
	uint64_t bytes = t->snapshot->settings.max_split_bytes;
	char size[32];

	snprintf(out, VALUE, "%s", bytes >= UINT64_MAX - 1 ? "unlimited" : text_size(size, bytes));
	return t->snapshot->settings.have;
}

static int gc_of(const struct told *t, char *out)
{
	snprintf(out, VALUE, "%g", t->snapshot->settings.gc_threshold);
	return t->snapshot->settings.have;
}

static int roundup_of(const struct told *t, char *out)
{
	const uint32_t *at = t->snapshot->settings.roundup_divisions;
	size_t n = 0, same = 1;

	while (same < TRACE_ROUNDUP_ENTRIES && at[same] == at[0])
		same++;
	if (same == TRACE_ROUNDUP_ENTRIES)
		diff_setting_number(out, at[0]);
	for (size_t i = 0; same < TRACE_ROUNDUP_ENTRIES && i < TRACE_ROUNDUP_ENTRIES && n < VALUE;
	     i++)
		n += (size_t)snprintf(out + n, VALUE - n, "%s%u", i ? "," : "", at[i]);
	return t->snapshot->settings.have;
}

static int stacks_of(const struct told *t, char *out)
{
	snprintf(out, VALUE, "%s", t->snapshot->has_frames ? "recorded" : "not recorded");
	return 1;
}

static int begin_of(const struct told *t, char *out)
{
	snprintf(out, VALUE, "%s", t->side->source.complete ? "whole run" : "part of the run");
	return 1;
}

static int devices_of(const struct told *t, char *out)
{
	return diff_setting_number(out, t->side->devices);
}

static int events_of(const struct told *t, char *out)
{
	return diff_setting_number(out, t->side->source.events);
}

/* Of all devices. */
static int allocations_of(const struct told *t, char *out)
{
	uint64_t n = 0;

	for (size_t i = 0; i < t->device_count; i++)
		n += t->devices[i].one->device->alloc_count;
	return diff_setting_number(out, n);
}

static int steps_of(const struct told *t, char *out)
{
	uint64_t n = 0;

	for (size_t i = 0; i < t->device_count; i++)
		n += t->devices[i].step_count;
	return diff_setting_number(out, n);
}

static int ooms_of(const struct told *t, char *out)
{
	uint64_t n = 0;

	for (size_t i = 0; i < t->device_count; i++)
		n += t->devices[i].one->replay->ooms.n;
	return diff_setting_number(out, n);
}

static int streams_of(const struct told *t, char *out)
{
	uint64_t n = 0;

	for (size_t i = 0; i < t->device_count; i++)
		n += recording_streams(t->devices[i].one);
	return diff_setting_number(out, n);
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

static struct told told_of(const struct plim_diff *d, int s)
{
	struct plim_diff_hidden *h = d->hidden;

	return (struct told){ .names = &h->names[s],
			      .snapshot = h->recording[s]->snapshot,
			      .side = s == COMPARED_A ? &d->a : &d->b,
			      .devices = h->sides[s],
			      .device_count = h->side_count[s] };
}

enum plim_status diff_settings(struct plim_diff *d, struct plim_err *err)
{
	const struct told a = told_of(d, COMPARED_A), b = told_of(d, COMPARED_B);
	struct arena *arena = &d->hidden->arena;

	d->settings = arena_take(arena, LOOKED_AT, sizeof(*d->settings), err);
	if (!d->settings)
		return mem_status(err);
	for (size_t i = 0; i < LOOKED_AT; i++) {
		struct plim_diff_setting *to = &d->settings[d->setting_count];
		char of_a[VALUE], of_b[VALUE];
		int told_a = looked_at[i].value(&a, of_a), told_b = looked_at[i].value(&b, of_b);

		if (told_a == told_b && (!told_a || !strcmp(of_a, of_b)))
			continue;
		*to = (struct plim_diff_setting){ .name = looked_at[i].name };
		to->a = told_a ? arena_text(arena, err, "%s", of_a) : NULL;
		to->b = told_b ? arena_text(arena, err, "%s", of_b) : NULL;
		if ((told_a && !to->a) || (told_b && !to->b))
			return mem_status(err);
		d->setting_count++;
	}
	return PLIM_OK;
}

/* ---- findings ---- */

/* The same thing, and as bad: a few scalars that pile up do not make up for gigabytes on the other side. */
static int has_like(const struct diff_side *side, const struct plim_finding *f)
{
	for (size_t i = 0; i < side->finding_count; i++)
		if (!strcmp(side->findings[i].id, f->id) &&
		    side->findings[i].severity == f->severity)
			return 1;
	return 0;
}

enum plim_status diff_findings(struct plim_diff *d, const struct diff_side side[2],
			       struct plim_diff_device *out, struct plim_err *err)
{
	static const char *const names[2] = { "a", "b" };
	size_t most = 0;

	for (int s = 0; s < 2; s++)
		most += side[s].finding_count;
	out->findings = arena_take(&d->hidden->arena, most, sizeof(*out->findings), err);
	if (!out->findings)
		return mem_status(err);
	for (int s = 0; s < 2; s++) {
		for (size_t i = 0; i < side[s].finding_count; i++) {
			const struct plim_finding *f = &side[s].findings[i];

			if (!has_like(&side[!s], f))
				out->findings[out->finding_count++] = (struct plim_diff_finding){
					names[s], f->id, f->severity, f->bytes, f->per_period_bytes,
					f->title
				};
		}
	}
	return PLIM_OK;
}
