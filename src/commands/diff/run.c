/* plimsoll diff: two recordings read, their places matched, their memory put next to each other. */
#include "commands/diff/diff.h"
#include "host/host.h"

#include "commands/out.h"
#include "option_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RELATED_LEAST 0.1 /* of what Python allocated: less in common is another program */

void plim_diff_options_init(struct plim_diff_options *o)
{
	*o = (struct plim_diff_options){ DIFF_DEFAULTS, .gate_bytes = PLIM_UNKNOWN };
}

void plim_diff_free(struct plim_diff *d)
{
	if (!d)
		return;
	timeline_matching_release(&d->hidden->matching);
	arena_release(&d->hidden->arena);
	for (int s = 2; s-- > 0;) {
		if (d->hidden->lent[s])
			d->hidden->lent[s]->reports--;
		else
			recording_free(d->hidden->recording[s]);
	}
	free(d);
}

/* ---- reading ---- */

static struct diagnosis diagnosis_of(struct plim_diff *d, int s, const struct diff_side *side)
{
	return (struct diagnosis){ .device = side->one,
				   .tl = &side->one->timeline,
				   .names = &d->hidden->names[s],
				   .replays = 1 };
}

/* What the detectors find; of failures the last one is a finding, too. */
static enum plim_status find_diff(struct plim_diff *d, int s, struct diff_side *side,
				  struct plim_err *err)
{
	struct diagnosis x = diagnosis_of(d, s, side);
	size_t ooms = side->one->replay->ooms.n;
	struct findings_list list = { .mem = NULL };
	struct plim_report_oom last;
	enum plim_status st = ooms ? diagnose_last_oom(&x, &last, err) : PLIM_OK;

	if (!st)
		st = diagnose_find(&x, NULL, &list, err);
	if (!st)
		st = diagnose_findings(&x, &list, ooms ? &last : NULL, &side->findings,
				       &side->finding_count, err);
	findings_release(&list);
	return st;
}

static enum plim_status read_device(struct plim_diff *d, int s, struct recording_device *one,
				    struct plim_err *err)
{
	struct plim_diff_hidden *h = d->hidden;
	struct diff_side *side = &h->sides[s][h->side_count[s]++];
	size_t events = one->device->events.n;
	enum plim_status st = recording_need(one, RECORDING_PARTS, err);

	if (st)
		return st;
	*side = (struct diff_side){ .one = one };
	side->event[COMPARED_PEAK] = one->timeline.peak_event[TIMELINE_ALLOCATED];
	side->event[COMPARED_END] = events ? (uint32_t)events - 1 : TIMELINE_BEFORE;
	st = recording_steps(one, &h->arena, &side->steps, &side->step_count, err);
	return st ? st : find_diff(d, s, side, err);
}

/* What is reported of a recording that has been opened. */
static enum plim_status read_one(struct plim_diff *d, int s, const char *path,
				 struct plim_diff_side *out, struct plim_err *err)
{
	struct plim_diff_hidden *h = d->hidden;
	const struct plim_diff_options *o = &h->options;
	struct recording *r = h->recording[s];
	enum plim_status st =
		recording_names_init(&h->names[s], r, &h->arena, (o->flags & PLIM_DIFF_REDACT) != 0,
				     o->strip_prefix, err);

	if (!st)
		st = recording_check_device(r, o->device, err);
	if (!st) {
		h->sides[s] = arena_take(&h->arena, r->device_count, sizeof(**h->sides), err);
		st = h->sides[s] ? PLIM_OK : mem_status(err);
	}
	for (size_t i = 0; !st && i < r->device_count; i++)
		if (recording_shows(&r->devices[i], o->device))
			st = read_device(d, s, &r->devices[i], err);
	if (st == PLIM_E_ARG) /* others name the file */
		err_prefix(err, s == COMPARED_A ? "A" : "B");
	return st ? st : recording_describe(r, &h->names[s], path, &out->source, err);
}

static struct plim_diff_side *result_of(struct plim_diff *d, int s)
{
	return s == COMPARED_A ? &d->a : &d->b;
}

/* Both in one account of memory: the second may take what the first has left. */
static enum plim_status open_both(struct plim_diff *d, const char *const path[2],
				  struct plim_err *err)
{
	struct plim_diff_hidden *h = d->hidden;
	enum plim_status st = PLIM_OK;

	if (!strcmp(path[COMPARED_A], "-") && !strcmp(path[COMPARED_B], "-"))
		return err_set(err, PLIM_E_ARG, "only one of the snapshots can be standard input");
	for (int s = 0; !st && s < 2; s++) {
		st = recording_open(&h->mem, path[s], NULL, &h->recording[s], err);
		if (!st)
			st = read_one(d, s, path[s], result_of(d, s), err);
	}
	return st;
}

/* The same of the caller's recordings, each in its own account. */
static enum plim_status borrow_both(struct plim_diff *d, struct plim_recording *const of[2],
				    struct plim_err *err)
{
	struct plim_diff_hidden *h = d->hidden;
	enum plim_status st = PLIM_OK;

	for (int s = 0; !st && s < 2; s++) {
		st = recording_ready(of[s], err);
		if (st)
			break;
		h->lent[s] = of[s];
		h->recording[s] = of[s]->recording;
		of[s]->reports++;
		st = read_one(d, s, of[s]->path, result_of(d, s), err);
	}
	return st;
}

static void fill_side(const struct plim_diff_hidden *h, int s, struct plim_diff_side *out)
{
	static const struct {
		unsigned release;
		const char *name;
	} releases[] = { { 212, "2.12 or later" },
			 { 209, "2.9 or later" },
			 { 203, "2.3 to 2.8" },
			 { 0, "before 2.3" } };
	const struct snapshot *t = h->recording[s]->snapshot;
	unsigned release = allocator_release_from_keys(t);
	size_t i = 0;

	while (release < releases[i].release)
		i++;
	out->torch = t->has_traces ? releases[i].name : NULL;
	out->devices = h->side_count[s];
}

/* ---- devices ---- */

static struct diff_side side_of(const struct plim_diff_hidden *h, int s, uint64_t ordinal)
{
	for (size_t i = 0; i < h->side_count[s]; i++)
		if (h->sides[s][i].one->device->ordinal == ordinal)
			return h->sides[s][i];
	return (struct diff_side){ .event = { TIMELINE_BEFORE, TIMELINE_BEFORE } };
}

static struct plim_diff_amount diff_amount(uint64_t a, uint64_t b)
{
	return (struct plim_diff_amount){ a, b, compared_change(a, b) };
}

static struct plim_diff_totals totals(const uint64_t a[TIMELINE_MEASURES],
				      const uint64_t b[TIMELINE_MEASURES])
{
	return (struct plim_diff_totals){
		.requested = diff_amount(a[TIMELINE_REQUESTED], b[TIMELINE_REQUESTED]),
		.active = diff_amount(a[TIMELINE_ACTIVE], b[TIMELINE_ACTIVE]),
		.allocated = diff_amount(a[TIMELINE_ALLOCATED], b[TIMELINE_ALLOCATED]),
		.reserved = diff_amount(a[TIMELINE_RESERVED], b[TIMELINE_RESERVED]),
	};
}

/* What a profiler's file does not say of a side is unknown, and so nothing is said of its change. */
static void hide_unknown(const struct recording_device *one, int side, struct plim_diff_totals *t)
{
	uint8_t kind = one ? one->of->snapshot->profile.kind : SNAPSHOT_PROFILE_NONE;
	struct plim_diff_amount *hidden = kind == SNAPSHOT_PROFILE_DEVICE ? &t->requested
					  : kind                          ? &t->reserved
									  : NULL;

	if (!hidden)
		return;
	*(side == COMPARED_A ? &hidden->a_bytes : &hidden->b_bytes) = PLIM_UNKNOWN;
	hidden->change_bytes = 0;
}

static void fill_totals(const struct diff_side side[2], struct plim_diff_device *out)
{
	static const uint64_t nothing[TIMELINE_MEASURES];
	const uint64_t *peak[2], *end[2];

	for (int s = 0; s < 2; s++) {
		peak[s] = side[s].one ? side[s].one->timeline.peak : nothing;
		end[s] = side[s].one ? side[s].one->timeline.end : nothing;
	}
	out->peak = totals(peak[COMPARED_A], peak[COMPARED_B]);
	out->end = totals(end[COMPARED_A], end[COMPARED_B]);
	for (int s = 0; s < 2; s++) {
		hide_unknown(side[s].one, s, &out->peak);
		hide_unknown(side[s].one, s, &out->end);
	}
}

/* Why the run's peak may be higher than the recording's. */
static const char *bound_why(const struct diff_side *side)
{
	const struct snapshot_device *device = side->one ? side->one->timeline.device : NULL;

	if (!device)
		return NULL;
	if (snapshot_find_death(&device->events) != TRACE_NONE)
		return "died";
	return recording_is_cut(device) ? "cut" : NULL;
}

static enum plim_status fill_steps(struct plim_diff *d, const struct diff_side side[2],
				   struct plim_diff_device *out, struct plim_err *err)
{
	const struct diff_side *a = &side[COMPARED_A], *b = &side[COMPARED_B];
	size_t n;

	out->a_steps = a->step_count;
	out->b_steps = b->step_count;
	n = out->a_steps < out->b_steps ? out->a_steps : out->b_steps;
	if (n && (recording_is_cut(a->one->device) ||
		  recording_is_cut(b->one->device))) /* which is whose is not known */
		n = 0;
	out->steps = arena_take(&d->hidden->arena, n, sizeof(*out->steps), err);
	if (!out->steps)
		return mem_status(err);
	for (size_t i = 0; i < n; i++) {
		uint64_t x = a->steps[i].requested_peak_bytes, y = b->steps[i].requested_peak_bytes;

		out->steps[i] = (struct plim_diff_step){ i, x, y, compared_change(x, y) };
	}
	out->step_count = n;
	for (size_t i = 0; i < n; i++)
		out->different |= out->steps[i].change_bytes != 0;
	return PLIM_OK;
}

static enum plim_status take_moment(struct plim_diff *d, const struct diff_side side[2],
				    const struct compared_owners *owners,
				    enum compared_moment moment, struct plim_diff_moment **out,
				    struct plim_err *err)
{
	*out = arena_take(&d->hidden->arena, 1, sizeof(**out), err);
	return *out ? diff_fill_moment(d, side, owners, moment, *out, err) : mem_status(err);
}

/* What rows are made of: what was asked for, if the recordings can tell it. */
static enum compared_group group_for(const struct plim_diff *d, const struct diff_side side[2],
				     int unrelated)
{
	enum compared_group wanted = (enum compared_group)d->hidden->options.group_by;

	for (int s = 0; s < 2; s++)
		if (side[s].one && !side[s].one->categories.mem)
			return COMPARED_BY_SIZE;
	if (!unrelated || wanted > COMPARED_BY_STACK)
		return wanted;
	/* a plan has the run's tensors, and none of its lines */
	for (int s = 0; s < 2; s++)
		if (recording_is_plan(d->hidden->recording[s]))
			return COMPARED_BY_SIZE;
	return COMPARED_BY_CATEGORY;
}

/* Both moments under one grouping. */
struct told {
	struct plim_diff_moment *at[COMPARED_MOMENTS];
};

static enum plim_status tell_diff(struct plim_diff *d, const struct diff_side side[2],
				  enum compared_group group, struct told *out,
				  struct plim_diff_device *device, struct plim_err *err)
{
	struct comparison of = { .mem = &d->hidden->mem, .matching = &d->hidden->matching };
	struct compared_owners owners;
	enum plim_status st;

	for (int s = 0; s < 2; s++) {
		of.device[s] = side[s].one;
		for (int m = 0; m < COMPARED_MOMENTS; m++)
			of.event[m][s] = side[s].event[m];
	}
	st = recording_compare(&of, group, &owners, err);
	for (int m = 0; !st && m < COMPARED_MOMENTS; m++)
		st = take_moment(d, side, &owners, (enum compared_moment)m, &out->at[m], err);
	if (!st && device) {
		device->a_shared = owners.shared[COMPARED_A];
		device->b_shared = owners.shared[COMPARED_B];
	}
	compared_release(&owners);
	return st;
}

static enum plim_status fill_moments(struct plim_diff *d, const struct diff_side side[2],
				     struct plim_diff_device *out, struct plim_err *err)
{
	static const char *const names[] = { "user_frame", "stack", "category", "phase", "size" };
	unsigned flags = d->hidden->options.flags;
	struct told lines, shown;
	enum compared_group group;
	enum plim_status st = tell_diff(d, side, COMPARED_BY_FRAME, &lines, out, err);

	if (st)
		return st;
	out->unrelated = out->a_shared < RELATED_LEAST && out->b_shared < RELATED_LEAST;
	group = group_for(d, side, out->unrelated);
	out->grouped_by = names[group];
	shown = lines;
	if (group != COMPARED_BY_FRAME)
		st = tell_diff(d, side, group, &shown, NULL, err);
	if (st)
		return st;
	for (int m = 0; m < COMPARED_MOMENTS; m++)
		out->different |= shown.at[m]->different;
	out->at_peak = flags & PLIM_DIFF_NO_PEAK ? NULL : shown.at[COMPARED_PEAK];
	out->at_end = flags & PLIM_DIFF_NO_END ? NULL : shown.at[COMPARED_END];
	st = diff_summary(d, lines.at[COMPARED_PEAK], shown.at[COMPARED_END], out, err);
	for (int m = 0; m < COMPARED_MOMENTS; m++)
		diff_trim_rows(d, shown.at[m]);
	return st;
}

static int totals_differ(const struct plim_diff_totals *t)
{
	return t->requested.change_bytes || t->active.change_bytes || t->allocated.change_bytes ||
	       t->reserved.change_bytes;
}

static enum plim_status fill_device(struct plim_diff *d, uint64_t ordinal,
				    struct plim_diff_device *out, struct plim_err *err)
{
	const struct diff_side side[2] = { side_of(d->hidden, COMPARED_A, ordinal),
					   side_of(d->hidden, COMPARED_B, ordinal) };
	const struct recording_device *a = side[COMPARED_A].one, *b = side[COMPARED_B].one;
	enum plim_status st;

	out->device = ordinal;
	out->in_a = a != NULL;
	out->in_b = b != NULL;
	out->a_events = a ? a->device->events.n : 0;
	out->b_events = b ? b->device->events.n : 0;
	out->a_ooms = a ? a->replay->ooms.n : 0;
	out->b_ooms = b ? b->replay->ooms.n : 0;
	out->a_bound_why = bound_why(&side[COMPARED_A]);
	out->b_bound_why = bound_why(&side[COMPARED_B]);
	out->a_lower_bound = out->a_bound_why != NULL;
	out->b_lower_bound = out->b_bound_why != NULL;
	out->a_slack_bytes = a ? a->replay->range_bytes : 0;
	out->b_slack_bytes = b ? b->replay->range_bytes : 0;
	fill_totals(side, out);
	out->different = !a != !b || out->a_events != out->b_events || out->a_ooms != out->b_ooms ||
			 totals_differ(&out->peak) || totals_differ(&out->end);
	st = fill_steps(d, side, out, err);
	if (!st)
		st = diff_findings(d, side, out, err);
	return st ? st : fill_moments(d, side, out, err);
}

static int larger_change_first(const void *a, const void *b)
{
	const struct plim_diff_device *x = a, *y = b;
	int64_t p = llabs(x->peak.allocated.change_bytes),
		q = llabs(y->peak.allocated.change_bytes);

	if (p != q)
		return p > q ? -1 : 1;
	return (x->device > y->device) - (x->device < y->device);
}

static enum plim_status fill_devices(struct plim_diff *d, struct plim_err *err)
{
	struct plim_diff_hidden *h = d->hidden;
	size_t most = h->side_count[COMPARED_A] + h->side_count[COMPARED_B];
	enum plim_status st = PLIM_OK;

	d->devices = arena_take(&h->arena, most, sizeof(*d->devices), err);
	if (!d->devices)
		return mem_status(err);
	for (int s = 0; s < 2; s++) {
		for (size_t i = 0; !st && i < h->side_count[s]; i++) {
			uint64_t ordinal = h->sides[s][i].one->device->ordinal;

			if (s == COMPARED_A || !side_of(h, COMPARED_A, ordinal).one)
				st = fill_device(d, ordinal, &d->devices[d->device_count++], err);
		}
	}
	if (!st && d->device_count)
		sort_items(d->devices, d->device_count, sizeof(*d->devices), larger_change_first);
	for (size_t i = 0; i < d->device_count; i++)
		d->different |= d->devices[i].different;
	return st;
}

/* ---- the gate ---- */

static uint64_t allowed(const struct plim_diff_options *o, uint64_t before)
{
	if (o->gate_bytes != PLIM_UNKNOWN)
		return o->gate_bytes;
	return (uint64_t)((unsigned __int128)before * o->gate_ppm / 1000000);
}

/* The device that grew furthest beyond what is allowed, or came nearest to it. */
static enum plim_status judge_diff(struct plim_diff *d, struct plim_err *err)
{
	const struct plim_diff_options *o = &d->hidden->options;
	int64_t worst = INT64_MIN;

	if (!(o->flags & PLIM_DIFF_GATE))
		return PLIM_OK;
	d->gate = arena_take(&d->hidden->arena, 1, sizeof(*d->gate), err);
	if (!d->gate)
		return mem_status(err);
	*d->gate = (struct plim_diff_gate){ .measure = "peak allocated",
					    .certain = true,
					    .device = PLIM_UNKNOWN,
					    .limit_bytes = PLIM_UNKNOWN };
	for (size_t i = 0; i < d->device_count; i++) {
		const struct plim_diff_device *one = &d->devices[i];
		uint64_t limit = allowed(o, one->peak.allocated.a_bytes);
		int64_t grown = one->peak.allocated.change_bytes, beyond;

		d->gate->certain &= !one->a_lower_bound && !one->b_lower_bound &&
				    !one->a_slack_bytes && !one->b_slack_bytes;
		/* held so that their difference is a number */
		beyond = (grown < INT64_MIN / 2 ? INT64_MIN / 2 : grown) -
			 (limit > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)limit);
		if (beyond <= worst)
			continue;
		worst = beyond;
		d->gate->device = one->device;
		d->gate->grown_bytes = grown;
		d->gate->limit_bytes = limit;
		d->gate->exceeded = beyond > 0;
	}
	for (size_t i = 0; i < d->device_count; i++)
		d->gate->b_died |= diff_is_death(d->devices[i].b_bound_why);
	d->gate->exceeded |= d->gate->b_died;
	return PLIM_OK;
}

/* ---- together ---- */

static enum plim_status compare_diff(struct plim_diff *d, struct plim_err *err)
{
	struct plim_diff_hidden *h = d->hidden;
	enum plim_status st;

	fill_side(h, COMPARED_A, &d->a);
	fill_side(h, COMPARED_B, &d->b);
	st = timeline_match(&h->mem, h->recording[COMPARED_A]->snapshot,
			    h->recording[COMPARED_B]->snapshot, &h->matching, err);
	if (!st)
		st = fill_devices(d, err);
	if (!st)
		st = diff_settings(d, err);
	d->different |= d->setting_count > 0;
	return st ? st : judge_diff(d, err);
}

/* One that has compared nothing yet. */
static enum plim_status diff_new(const struct plim_diff_options *options, struct plim_diff **out,
				 struct plim_err *err)
{
	struct plim_diff *d;
	enum plim_status st = OUT_NEW(diff, d, &d->hidden->options, options, err);

	*out = NULL;
	if (st)
		return st;
	host_mem_init(&d->hidden->mem, d->hidden->options.max_memory_bytes);
	arena_init(&d->hidden->arena, &d->hidden->mem);
	*out = d;
	return PLIM_OK;
}

/* The answer, or nothing; `st` is what reading them came to. */
static enum plim_status complete(struct plim_diff **d, enum plim_status st, struct plim_err *err)
{
	if (!st)
		st = compare_diff(*d, err);
	if (st) {
		plim_diff_free(*d);
		*d = NULL;
	}
	return st;
}

enum plim_status plim_diff_of(struct plim_recording *a, struct plim_recording *b,
			      const struct plim_diff_options *options, struct plim_diff **out,
			      struct plim_err *err)
{
	struct plim_recording *const both[2] = { a, b };
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own; /* inner floors read the status back from it */
	st = diff_new(options, out, err);
	return st ? st : complete(out, borrow_both(*out, both, err), err);
}

enum plim_status plim_diff_open(const char *a, const char *b,
				const struct plim_diff_options *options, struct plim_diff **out,
				struct plim_err *err)
{
	const char *const both[2] = { a, b };
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	st = diff_new(options, out, err);
	return st ? st : complete(out, open_both(*out, both, err), err);
}

enum plim_status plim_diff_json(const struct plim_diff *d, plim_write_fn *write, void *ctx,
				struct plim_err *err)
{
	return out_json(&d->hidden->mem, &diff_table, d, write, ctx, err);
}
