/* plimsoll report of several recordings: list, read, keep a row of each, judge, and the worst in full. */
#include "verbs/ranks/ranks.h"

#include "verbs/options.h"
#include "verbs/out.h"

#include <stdlib.h>
#include <string.h>

#define LIMIT_LEAST 4096 /* so that no part of the limit is 0, which would be none */

void plim_ranks_options_init(struct plim_ranks_options *o)
{
	*o = (struct plim_ranks_options){ .size = sizeof(*o) };
	plim_report_options_init(&o->report);
}

void plim_ranks_free(struct plim_ranks *k)
{
	struct plim_ranks_hidden *h;

	if (!k)
		return;
	h = k->hidden;
	plim_report_free(k->worst);
	if (h->owner)
		vec_release(&h->owner->hidden->mem, &h->items);
	plim_report_free(h->owner);
	free(h);
	free(k);
}

/* ---- what of a report is kept ---- */

/* The device that died, else the one that held most. */
static size_t device_of(const struct plim_report *r)
{
	size_t best = 0;

	for (size_t i = 1; i < r->device_count; i++) {
		const struct plim_report_device *d = &r->devices[i], *b = &r->devices[best];

		if (!d->oom_count != !b->oom_count
			    ? d->oom_count != 0
			    : d->peak.allocated_bytes > b->peak.allocated_bytes)
			best = i;
	}
	return best;
}

static const struct report_device *inner_device(const struct plim_report *r, uint64_t ordinal)
{
	const struct plim_report_hidden *h = r->hidden;

	for (size_t i = 0; i < h->snapshot->device_count; i++)
		if (h->snapshot->devices[i].ordinal == ordinal)
			return &h->devices[i];
	return NULL;
}

static void summarise_peak(const struct plim_report *r, const struct plim_report_device *d,
			   struct plim_ranks_row *row)
{
	const struct report_device *one = inner_device(r, d->device);
	uint64_t event = d->peak.allocated.event;

	row->requested_peak_bytes = d->peak.requested_bytes;
	row->allocated_peak_bytes = d->peak.allocated_bytes;
	row->reserved_peak_bytes = d->peak.reserved_bytes;
	row->range_bytes = d->peak.allocated.range_bytes;
	row->lower_bound = d->peak.lower_bound;
	if (event == PLIM_UNKNOWN || !d->events)
		return;
	if (one->categories.mem)
		row->peak_phase = timeline_phase_names[one->categories.phase[event]];
	for (size_t i = 0; i < d->step_count; i++)
		if (event >= d->steps[i].start_event && event <= d->steps[i].end_event)
			row->peak_step = d->steps[i].index;
}

static enum plim_status summarise_death(struct plim_ranks *k, const struct plim_report_device *of,
					struct plim_ranks_row *row, struct plim_err *err)
{
	const struct plim_report_oom *oom = &of->oom[of->oom_count - 1];
	struct plim_report *owner = k->hidden->owner;
	struct plim_ranks_death *d = report_take(owner, 1, sizeof(*d), err);

	if (!d)
		return mem_status(err);
	row->died = d;
	*d = (struct plim_ranks_death){ .event = oom->event,
					.time_us = oom->time_us,
					.requested_bytes = oom->requested_bytes,
					.live_bytes = oom->live_bytes,
					.reserved_bytes = oom->reserved_bytes,
					.phase = oom->phase,
					.step = oom->step,
					.bound_by = oom->verdict->bound_by,
					.cause = oom->verdict->cause,
					.likelier = oom->verdict->likelier };
	d->headline = ranks_keep(k, oom->verdict->headline, err);
	d->frame = oom->frame ? ranks_keep(k, oom->frame, err) : NULL;
	return d->headline && (d->frame || !oom->frame) ? PLIM_OK : mem_status(err);
}

static enum plim_status summarise_device(struct plim_ranks *k, const struct plim_report *r,
					 const struct plim_report_device *d,
					 struct plim_ranks_row *row, struct plim_err *err)
{
	const struct snapshot *t = r->hidden->snapshot;
	const struct snapshot_events *ev = &inner_device(r, d->device)->timeline.device->events;
	enum plim_status st = PLIM_OK;

	row->device = d->device;
	row->exact = d->self_check.exact;
	row->deaths = d->oom_count;
	if (t->has_time && ev->n) {
		row->first_time_us = (uint64_t)ev->time_us[0];
		row->last_time_us = (uint64_t)ev->time_us[ev->n - 1];
	}
	summarise_peak(r, d, row);
	for (size_t i = 0; i < d->finding_count; i++)
		if (d->findings[i].leak && !strcmp(d->findings[i].severity, "bad"))
			row->leak_bytes = d->findings[i].bytes;
	if (d->at_peak.categories) {
		row->peak_categories =
			report_take(k->hidden->owner, 1, sizeof(*row->peak_categories), err);
		if (!row->peak_categories)
			return mem_status(err);
		*row->peak_categories = *d->at_peak.categories;
	}
	if (d->oom_count && !d->oom[d->oom_count - 1].survived)
		st = summarise_death(k, d, row, err);
	return st;
}

enum plim_status ranks_summarise(struct plim_ranks *k, const struct plim_report *r,
				 struct plim_ranks_row *row, struct plim_err *err)
{
	row->devices = r->device_count;
	row->events = r->source.events;
	row->complete = r->source.complete;
	return r->device_count ? summarise_device(k, r, &r->devices[device_of(r)], row, err)
			       : PLIM_OK;
}

/* ---- all together ---- */

static const struct ranks_item *item_of(const struct plim_ranks *k, uint64_t row)
{
	const struct plim_ranks_hidden *h = k->hidden;
	uint64_t at = 0;

	for (size_t i = 0; i < h->items.n; i++)
		if (!h->items.at[i]->other && at++ == row)
			return h->items.at[i];
	return NULL;
}

static enum plim_status nothing_read(const struct plim_ranks *k, const char *path,
				     struct plim_err *err)
{
	const struct plim_ranks_skipped *s = k->skipped;

	if (!k->skipped_total)
		return err_set(err, PLIM_E_FORMAT, "no recording in '%s': it is empty", path);
	return err_set(err, PLIM_E_FORMAT, "no recording in '%s'; %llu file%s skipped, '%s': %s",
		       path, (unsigned long long)k->skipped_total,
		       k->skipped_total == 1 ? " was" : "s were", s->path ? s->path : "one",
		       s->reason);
}

/* The rows are worth having also where there is no memory for more, or the file has gone. */
static enum plim_status explain_worst(struct plim_ranks *k, struct plim_err *err)
{
	enum plim_status st = ranks_read_full(k, item_of(k, k->worst_row), err);
	const char **note = &k->notes[k->note_count];

	if (!st || st == PLIM_E_ARG)
		return st;
	*note = report_text(k->hidden->owner, err, "the worst is not told in full: %s",
			    k->hidden->options.report.flags & PLIM_REPORT_REDACT
				    ? plim_status_name(st)
				    : err->message);
	if (!*note)
		return mem_status(err);
	k->note_count++;
	return PLIM_OK;
}

static enum plim_status answer(struct plim_ranks *k, const char *const *paths, size_t n,
			       struct plim_err *err)
{
	enum plim_status st = ranks_list(k, paths, n, err);

	if (!st)
		st = ranks_read_all(k, err);
	if (!st)
		st = ranks_judge(k, err);
	if (!st && !k->row_count)
		st = nothing_read(k, n ? paths[0] : "", err);
	if (!st && k->read)
		st = explain_worst(k, err);
	return st;
}

enum plim_status plim_ranks_open(const char *const *paths, size_t n,
				 const struct plim_ranks_options *options, struct plim_ranks **out,
				 struct plim_err *err)
{
	struct plim_ranks *k = calloc(1, sizeof(*k));
	struct plim_report_options owner;
	struct plim_ranks_hidden *h;
	struct plim_err own;
	enum plim_status st;

	*out = NULL;
	err = err ? err : &own; /* inner floors read the status back from it */
	if (k)
		k->hidden = calloc(1, sizeof(*k->hidden));
	if (!k || !k->hidden) {
		free(k);
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	}
	h = k->hidden;
	plim_ranks_options_init(&h->options);
	OPTIONS_TAKE(&h->options, options);
	h->limit_bytes = h->options.report.max_memory_bytes;
	if (!h->limit_bytes)
		h->limit_bytes = mem_default_limit();
	if (h->limit_bytes < LIMIT_LEAST)
		h->limit_bytes = LIMIT_LEAST;
	owner = h->options.report;
	owner.max_memory_bytes = h->limit_bytes / 8 + 1;
	st = report_new(&owner, &h->owner, err);
	if (!st)
		st = answer(k, paths, n, err);
	if (st)
		plim_ranks_free(k);
	else
		*out = k;
	return st;
}

/* ---- out ---- */

enum plim_status plim_ranks_json(const struct plim_ranks *k, plim_write_fn *write, void *ctx,
				 struct plim_err *err)
{
	return out_json(&k->hidden->owner->hidden->mem, &ranks_table, k, write, ctx, err);
}
