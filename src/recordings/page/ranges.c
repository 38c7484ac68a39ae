/* The ranges that the program named: record_function's, and runs of allocations with one user_metadata. */
#include "parts.h"

enum { START_MISSING = 1, END_MISSING = 2, USER_METADATA = 4 };

static enum plim_status add_page_range(struct ranges *x, struct names *n, struct range r,
				       uint32_t string, struct plim_err *err)
{
	enum plim_status st =
		names_string(n, string, r.flags & USER_METADATA ? "label" : "range", &r.name, err);

	return st ? st : vec_push(x->mem, &x->rows, r, err);
}

static enum plim_status add_recorded(struct ranges *x, struct names *n, struct plim_err *err)
{
	const struct timeline_ranges *of = n->in->ranges;
	const struct snapshot_events *ev = &n->in->tl->device->events;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; of && !st && i < of->all.n; i++) {
		const struct timeline_range *one = &of->all.at[i];
		int started = one->from_us > INT64_MIN, ended = one->to_us < INT64_MAX;
		struct range r = { .to = (uint32_t)ev->n };

		r.flags = (started ? 0 : START_MISSING) | (ended ? 0 : END_MISSING);
		if (started)
			r.from = timeline_event_after(ev, one->from_us - 1);
		if (ended)
			r.to = timeline_event_after(ev, one->to_us);
		r.to = r.to < r.from ? r.from : r.to;
		st = add_page_range(x, n, r, one->name, err);
	}
	return st;
}

/* From the first allocation with a label to the last one before an allocation that has another one or none. */
static enum plim_status add_labels(struct ranges *x, struct names *n, struct plim_err *err)
{
	const struct snapshot *t = n->in->tl->snapshot;
	const struct snapshot_device *d = n->in->tl->device;
	const struct snapshot_events *ev = &d->events;
	size_t row = snapshot_first_row(t, d), at = 0;
	struct range run = { .flags = USER_METADATA };
	uint32_t string = TRACE_NONE;
	enum plim_status st = PLIM_OK;

	for (uint32_t e = 0; !st && t->labels.n && e <= ev->n; e++, row++) {
		uint32_t label = TRACE_NONE;

		for (; at < t->labels.n && t->labels.at[at].row <= row; at++)
			if (t->labels.at[at].row == row && !t->labels.at[at].is_compile_context)
				label = t->labels.at[at].string;
		if (e < ev->n && ev->action[e] != TRACE_ALLOC)
			continue;
		if (e == ev->n)
			label = TRACE_NONE; /* the next device's */
		if (string != TRACE_NONE && label != string)
			st = add_page_range(x, n, run, string, err);
		if (label != string)
			run.from = e;
		run.to = e + 1;
		string = label;
	}
	return st;
}

enum plim_status ranges_find(struct ranges *x, struct names *n, struct plim_err *err)
{
	enum plim_status st;

	x->mem = n->mem;
	if (n->in->plan) /* its ranges are its phases, its labels its categories */
		return PLIM_OK;
	st = add_recorded(x, n, err);
	/* what stale events were cut from has lost its place */
	return st || n->in->tl->device->stale_events ? st : add_labels(x, n, err);
}

enum plim_status ranges_pack(const struct ranges *x, struct planes *c, struct plim_err *err)
{
	static const char *const columns[] = { "ranges.from", "ranges.to", "ranges.name",
					       "ranges.flags" };
	size_t n = x->rows.n;
	uint64_t *v = mem_new(x->mem, n, sizeof(*v), err);
	uint64_t *from = v ? mem_new(x->mem, n, sizeof(*from), err) : NULL;
	const struct plane_values other = { "ranges.from", from };
	enum plim_status st = from ? PLIM_OK : mem_status(err);

	for (int k = 0; !st && k < 4; k++) {
		static const enum coding codings[] = { CODING_DELTA, CODING_PLUS, CODING_PLAIN,
						       CODING_PLAIN };

		for (size_t i = 0; i < n; i++) {
			const struct range *r = &x->rows.at[i];
			const uint64_t values[] = { r->from, r->to, r->name, r->flags };

			v[i] = values[k];
			from[i] = r->from;
		}
		st = planes_add(c, (struct plane_values){ columns[k], v }, codings[k], &other, n,
				err);
	}
	mem_free(x->mem, from, n, sizeof(*from));
	mem_free(x->mem, v, n, sizeof(*v));
	return st;
}

void ranges_release(struct ranges *x)
{
	vec_release(x->mem, &x->rows);
}
