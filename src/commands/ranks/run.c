/* plimsoll report of several recordings: list, read, keep a row of each, judge, and the worst in full. */
#include "commands/ranks/ranks.h"

#include "commands/out.h"
#include "host/host.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

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
	plim_recording_free(h->worst);
	for (size_t i = 0; i < k->also_count; i++)
		plim_report_free(k->also[i].report);
	for (size_t i = 0; i < RANKS_ALSO; i++)
		plim_recording_free(h->also[i]);
	vec_release(&h->mem, &h->set.items);
	arena_release(&h->arena);
	free(k);
}

/* ---- what of a recording is kept ---- */

/* The device that died, else the one that held most; NULL: there is none.  *tl: its events that were asked for. */
static enum plim_status choose_device(const struct plim_report_options *o, struct recording *r,
				      struct recording_device **out, struct timeline *tl,
				      struct plim_err *err)
{
	unsigned parts = o->steps ? RECORDING_PARTS : RECORDING_TIMELINE;
	enum plim_status st = recording_check_device(r, o->device, err);

	*out = NULL;
	for (size_t i = 0; !st && i < r->device_count; i++) {
		struct recording_device *d = &r->devices[i], *best = *out;
		struct timeline own;
		size_t first, last;

		if (!recording_shows(d, o->device))
			continue;
		st = recording_need(d, parts, err);
		if (!st)
			st = recording_narrow(d, o->events, o->steps, &own, &first, &last, err);
		if (st || (best && (!d->replay->ooms.n != !best->replay->ooms.n
					    ? !d->replay->ooms.n
					    : own.peak[TIMELINE_ALLOCATED] <=
						      tl->peak[TIMELINE_ALLOCATED])))
			continue;
		*out = d;
		*tl = own;
	}
	return st;
}

static enum plim_status summarise_peak(const struct recording_device *d, const struct timeline *tl,
				       struct arena *a, struct plim_ranks_row *row,
				       struct plim_err *err)
{
	uint32_t event = tl->peak_event[TIMELINE_ALLOCATED];
	uint8_t kind = d->of->snapshot->profile.kind; /* what its file does not say stays unknown */

	if (kind != SNAPSHOT_PROFILE_DEVICE)
		row->requested_peak_bytes = tl->peak[TIMELINE_REQUESTED];
	row->allocated_peak_bytes = tl->peak[TIMELINE_ALLOCATED];
	if (kind == SNAPSHOT_PROFILE_NONE || kind == SNAPSHOT_PROFILE_DEVICE)
		row->reserved_peak_bytes = tl->peak[TIMELINE_RESERVED];
	row->allocated_peak_range_bytes.low = row->allocated_peak_bytes;
	row->allocated_peak_range_bytes.high = row->allocated_peak_bytes + d->replay->range_bytes;
	row->lower_bound = recording_is_cut(d->device);
	if (event != TIMELINE_BEFORE && d->device->events.n) {
		row->peak_phase = recording_phase_of(d, event);
		row->peak_step = recording_step_of(d, event);
	}
	return recording_categories_at(d, event, a, &row->peak_categories, err);
}

static enum plim_status summarise_death(struct diagnosis *x, struct plim_ranks_row *row,
					struct plim_err *err)
{
	struct plim_ranks_death *d = arena_take(x->names->arena, 1, sizeof(*d), err);
	struct plim_report_oom oom;
	enum plim_status st = d ? diagnose_last_oom(x, &oom, err) : mem_status(err);

	if (st)
		return st;
	*d = (struct plim_ranks_death){ .event = oom.event,
					.time_us = oom.time_us,
					.requested_bytes = oom.requested_bytes,
					.live_bytes = oom.live_bytes,
					.reserved_bytes = oom.reserved_bytes,
					.phase = oom.phase,
					.step = oom.step,
					.bound_by = oom.verdict->bound_by,
					.cause = oom.verdict->cause,
					.likely_cause = oom.verdict->likely_cause,
					.headline = oom.verdict->headline,
					.frame = oom.frame };
	if (!oom.survived)
		row->died = d;
	return PLIM_OK;
}

/* The lines that allocate large blocks: small ones differ with what a library tries on the way. */
#define PROGRAM_BYTES ((uint64_t)1 << 20)

static uint64_t sum_of_stack(const struct snapshot *t, uint32_t stack)
{
	uint64_t sum = 0;
	uint32_t n;
	const uint32_t *frames = snapshot_python_stack(t, stack, &n);

	for (uint32_t i = 0; i < n; i++) {
		const struct snapshot_frame *f = snapshot_frame(t, frames[i]);
		const char *file = snapshot_text(t, f->filename), *base = strrchr(file, '/');
		const char *name = snapshot_text(t, f->name);

		base = base ? base + 1 : file; /* folders differ between machines */
		sum = sum * 31 + XXH3_64bits(base, strlen(base));
		sum = sum * 31 + XXH3_64bits(name, strlen(name));
		sum = sum * 31 + f->line;
	}
	return sum;
}

static enum plim_status name_program(const struct recording_device *d, struct arena *a,
				     struct plim_ranks_row *row, struct plim_err *err)
{
	const struct snapshot *t = d->of->snapshot;
	const struct snapshot_events *ev = &d->device->events;
	uint8_t *seen = arena_take(a, t->stacks.n, 1, err);
	uint64_t sum = 0;

	if (!seen)
		return mem_status(err);
	if (!t->has_frames)
		return PLIM_OK;
	for (size_t e = 0; e < ev->n; e++) {
		uint32_t stack = ev->stack[e];

		if (ev->action[e] != TRACE_ALLOC || ev->size[e] < PROGRAM_BYTES ||
		    stack == TRACE_NONE || seen[stack])
			continue;
		seen[stack] = 1;
		sum += sum_of_stack(t, stack); /* in whatever order they come */
	}
	row->program = arena_text(a, err, "%016llx", (unsigned long long)sum);
	return row->program ? PLIM_OK : mem_status(err);
}

static int same_name(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static int ranks_by_bytes(const void *a, const void *b)
{
	const struct plim_ranks_owner *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return strcmp(x->frame ? x->frame : "", y->frame ? y->frame : "");
}

static enum plim_status summarise_owners(const struct recording_device *d, uint32_t event,
					 struct recording_names *names, struct plim_ranks_row *row,
					 struct plim_err *err)
{
	struct timeline_owners list = { 0 };
	enum plim_status st = recording_owners_at(d, event, TIMELINE_BY_USER_FRAME, &list, err);
	size_t n = 0;

	row->owners =
		st ? NULL : arena_take(names->arena, RECORDING_OWNERS, sizeof(*row->owners), err);
	if (!st && !row->owners)
		st = mem_status(err);
	for (size_t i = 0; !st && i < list.n; i++) {
		uint32_t frame = list.at[i].frame;
		const char *name = recording_frame(names, frame, err);
		size_t at = 0;

		if (frame != TRACE_NONE && !name)
			st = mem_status(err);
		while (at < n &&
		       !same_name(row->owners[at].frame, name)) /* its backward is listed apart */
			at++;
		if (st || at == RECORDING_OWNERS)
			continue;
		if (at == n)
			row->owners[n++] = (struct plim_ranks_owner){ name, 0 };
		row->owners[at].bytes += list.at[i].bytes;
	}
	row->owner_count = st ? 0 : n;
	sort_items(row->owners, row->owner_count, sizeof(*row->owners), ranks_by_bytes);
	timeline_owners_release(&list);
	return st;
}

static enum plim_status summarise_program(const struct recording_device *d,
					  const struct timeline *tl, struct recording_names *names,
					  struct plim_ranks_row *row, struct plim_err *err)
{
	unsigned release = allocator_release_from_keys(d->of->snapshot);

	row->release = release >= 212   ? "2.12 or later"
		       : release >= 209 ? "2.9 to 2.11"
		       : release >= 203 ? "2.3 to 2.8"
					: "before 2.3";
	row->steps = d->steps.ends.n ? d->steps.ends.n : PLIM_UNKNOWN;
	if (d->device->events.n) {
		enum plim_status st =
			summarise_owners(d, tl->peak_event[TIMELINE_ALLOCATED], names, row, err);

		if (st)
			return st;
	}
	return name_program(d, names->arena, row, err);
}

static enum plim_status summarise_leak(const struct diagnosis *x, struct plim_ranks_row *row,
				       struct plim_err *err)
{
	struct findings_list list;
	enum plim_status st = diagnose_find(x, "leak", &list, err);

	for (size_t i = 0; !st && i < list.all.n; i++)
		row->leak_bytes = (row->leak_bytes == PLIM_UNKNOWN ? 0 : row->leak_bytes) +
				  list.all.at[i].bytes;
	findings_release(&list);
	return st;
}

static enum plim_status summarise_device(const struct plim_report_options *o,
					 struct recording_device *d, const struct timeline *tl,
					 struct arena *a, struct plim_ranks_row *row,
					 struct plim_err *err)
{
	const struct snapshot_events *ev = &d->device->events;
	struct recording_names names;
	struct messages_oom message;
	struct diagnosis x = { .device = d, .tl = tl, .names = &names };
	enum plim_status st = recording_need(d, RECORDING_PARTS, err);

	row->device = d->device->ordinal;
	row->exact = !d->replay->faults && !d->replay->end_faults && !d->device->contradictions;
	row->deaths = d->replay->ooms.n;
	if (d->of->snapshot->has_time && ev->n) {
		row->first_time_us = (uint64_t)ev->time_us[0];
		row->last_time_us = (uint64_t)ev->time_us[ev->n - 1];
	}
	if (!st)
		st = recording_names_init(&names, d->of, a, (o->flags & PLIM_REPORT_REDACT) != 0,
					  o->strip_prefix, err);
	if (!st && o->log_path) {
		x.message = &message;
		st = diagnose_read_message(a->mem, o->log_path, &message, err);
	}
	if (!st)
		st = summarise_peak(d, tl, a, row, err);
	if (!st && d->replay->ooms.n)
		st = summarise_death(&x, row, err);
	if (!st)
		st = summarise_program(d, tl, &names, row, err);
	return st ? st : summarise_leak(&x, row, err);
}

static void tell_job(const struct plim_report_options *o, const struct recording *r,
		     struct arena *a, struct plim_ranks_row *row)
{
	struct recording_job job;

	recording_job(r, a, &job);
	row->rank = job.rank;
	row->rank_from = job.rank == PLIM_UNKNOWN ? NULL : RECORDING_RANK_TOLD;
	row->place = o->flags & PLIM_REPORT_REDACT ? NULL : job.place;
}

static enum plim_status summarise(const struct plim_report_options *o, struct recording *r,
				  struct arena *a, struct plim_ranks_row *row, struct plim_err *err)
{
	struct recording_device *d = NULL;
	struct timeline tl;
	enum plim_status st = recording_need_all(r, RECORDING_REPLAY, err);

	if (!st)
		st = choose_device(o, r, &d, &tl, err);
	tell_job(o, r, a, row);
	row->events = recording_events(r);
	row->complete = recording_is_complete(r) != 0;
	row->devices = 0;
	for (size_t i = 0; i < r->device_count; i++)
		row->devices += recording_shows(&r->devices[i], o->device) != 0;
	return st || !d ? st : summarise_device(o, d, &tl, a, row, err);
}

/* ---- all together ---- */

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

static enum plim_status take_worst(void *self, const char *name, struct recording_input *in,
				   uint64_t memory_bytes, struct plim_err *err)
{
	struct plim_ranks *k = self;
	struct plim_ranks_hidden *h = k->hidden;
	enum plim_status st = recording_new(name, in, memory_bytes, &h->worst, err);

	return st ? st : plim_report_of(h->worst, &h->options.report, &k->worst, err);
}

/* The rows are worth having also where there is no memory for more, or the file has gone. */
static enum plim_status explain_worst(struct plim_ranks *k, struct lines *notes,
				      struct plim_err *err)
{
	struct recording_set_taker to = { take_worst, k };
	enum plim_status st = recording_set_reopen(&k->hidden->set, k->worst_row, &to, err);

	if (!st || st == PLIM_E_ARG)
		return st;
	lines_add(notes, "the worst is not reported in full: %s",
		  k->hidden->options.report.flags & PLIM_REPORT_REDACT ? plim_status_name(st)
								       : err->message);
	return PLIM_OK;
}

/* ---- those that are worst in something else ---- */

struct telling {
	struct plim_ranks *of;
	struct plim_ranks_told *to;
	struct plim_recording **recording;
};

static enum plim_status take_also(void *self, const char *name, struct recording_input *in,
				  uint64_t memory_bytes, struct plim_err *err)
{
	struct telling *t = self;
	enum plim_status st = recording_new(name, in, memory_bytes, t->recording, err);

	return st ? st
		  : plim_report_of(*t->recording, &t->of->hidden->options.report, &t->to->report,
				   err);
}

/* Is the same reported already: of this rank, or of the worst or another one that differs in it at the same line? */
static int is_told(const struct plim_ranks *k, size_t outlier)
{
	const struct plim_ranks_outlier *o = &k->outliers[outlier];

	for (size_t i = 0; i < k->also_count; i++)
		if (k->also[i].row == o->row)
			return 1;
	for (size_t i = 0; i < k->outlier_count; i++) {
		const struct plim_ranks_outlier *x = &k->outliers[i];

		if ((i < outlier || x->row == k->worst_row) && !strcmp(x->measure, o->measure) &&
		    same_name(x->frame, o->frame))
			return 1;
	}
	return o->row == k->worst_row;
}

/* One whose recording is not at hand is not reported: its row is. */
static enum plim_status explain_others(struct plim_ranks *k, struct plim_err *err)
{
	k->also = arena_take(&k->hidden->arena, RANKS_ALSO, sizeof(*k->also), err);
	if (!k->also)
		return mem_status(err);
	for (size_t i = 0; i < k->outlier_count && k->also_count < RANKS_ALSO; i++) {
		const struct plim_ranks_outlier *o = &k->outliers[i];
		struct plim_ranks_told one = { .rank = o->rank, .row = o->row, .why = o->says };
		struct telling t = { k, &one, &k->hidden->also[k->also_count] };
		struct recording_set_taker to = { take_also, &t };
		struct plim_err own;

		if (is_told(k, i))
			continue;
		if (!recording_set_reopen(&k->hidden->set, o->row, &to, &own)) {
			k->also[k->also_count++] = one;
		} else {
			plim_recording_free(*t.recording);
			*t.recording = NULL;
		}
	}
	return PLIM_OK;
}

static enum plim_status answer_ranks(struct plim_ranks *k, const char *const *paths, size_t n,
				     struct plim_err *err)
{
	struct plim_err of_notes = { 0 };
	struct lines notes = { .arena = &k->hidden->arena, .err = &of_notes };
	enum plim_status st = recording_set_list(&k->hidden->set, paths, n, err);

	if (!st)
		st = recording_set_read(&k->hidden->set, err);
	if (!st)
		st = recording_set_judge(&k->hidden->set, &notes, err);
	if (!st)
		st = recording_set_differ(&k->hidden->set, &notes, err);
	if (!st && !k->row_count)
		st = nothing_read(k, n ? paths[0] : "", err);
	if (!st && k->read && !k->hidden->options.rows_only)
		st = explain_worst(k, &notes, err);
	if (!st && k->worst)
		st = explain_others(k, err);
	if (st)
		return st;
	st = lines_keep(&notes, &k->notes, &k->note_count);
	if (st)
		*err = of_notes;
	return st;
}

enum plim_status plim_ranks_open(const char *const *paths, size_t n,
				 const struct plim_ranks_options *options, struct plim_ranks **out,
				 struct plim_err *err)
{
	struct plim_ranks *k;
	struct plim_ranks_hidden *h;
	struct plim_err own;
	enum plim_status st;
	uint64_t limit;

	*out = NULL;
	err = err ? err : &own; /* inner floors read the status back from it */
	st = OUT_NEW(ranks, k, &k->hidden->options, options, err);
	if (st)
		return st;
	h = k->hidden;
	limit = h->options.report.max_memory_bytes;
	if (!limit)
		limit = host_memory_limit();
	if (limit < LIMIT_LEAST)
		limit = LIMIT_LEAST;
	mem_init(&h->mem, limit / 8 + 1);
	arena_init(&h->arena, &h->mem);
	h->set = (struct recording_set){ .mem = &h->mem,
					 .arena = &h->arena,
					 .limit_bytes = limit,
					 .options = &h->options,
					 .summarise = summarise,
					 .row_table = &ranks_row_table,
					 .out = k };
	st = answer_ranks(k, paths, n, err);
	if (st)
		plim_ranks_free(k);
	else
		*out = k;
	return st;
}

/* ---- out ---- */

enum plim_status plim_ranks_digest(const struct plim_ranks *k, const char *path,
				   struct plim_err *err)
{
	struct plim_err own;

	return recording_set_digest(&k->hidden->set, path, err ? err : &own);
}

enum plim_status plim_ranks_json(const struct plim_ranks *k, plim_write_fn *write, void *ctx,
				 struct plim_err *err)
{
	return out_json(&k->hidden->mem, &ranks_table, k, write, ctx, err);
}
