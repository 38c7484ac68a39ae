/*
 * Ranges that the program named: record_function's, as the recording keeps them (external_annotations).  They are a ring of
 * their own, so either end of a range may be missing.
 */
#include "timeline.h"

#include <ctype.h>
#include <string.h>

/* The outermost first: what begins earlier, of those that begin together what ends later. */
static int by_start(const void *a, const void *b)
{
	const struct timeline_range *x = a, *y = b;

	if (x->from_us != y->from_us)
		return x->from_us < y->from_us ? -1 : 1;
	return (x->to_us < y->to_us) - (x->to_us > y->to_us);
}

/* An end closes the latest open range of its name; `open` has that of each name, `below` what it lies in, plus one. */
static enum plim_status match_ends(struct mem *m, const struct timeline *tl, uint32_t *open,
				   uint32_t *below, struct timeline_ranges *out,
				   struct plim_err *err)
{
	const struct snapshot *t = tl->snapshot;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < t->annotations.n; i++) {
		const struct snapshot_annotation *a = &t->annotations.at[i];
		struct timeline_range r = { .from_us = a->end ? INT64_MIN : a->time_us,
					    .to_us = a->end ? a->time_us : INT64_MAX,
					    .name = a->name };

		if (a->device != tl->device->ordinal || a->name == TRACE_NONE)
			continue;
		if (a->end && open[a->name]) {
			uint32_t at = open[a->name] - 1;

			out->all.at[at].to_us = a->time_us;
			open[a->name] = below[at];
			continue;
		}
		if (!a->end) {
			below[out->all.n] = open[a->name];
			open[a->name] = (uint32_t)out->all.n + 1;
		}
		st = vec_push(m, &out->all, r, err);
	}
	return st;
}

enum plim_status timeline_find_ranges(struct mem *m, const struct timeline *tl,
				      struct timeline_ranges *out, struct plim_err *err)
{
	const struct snapshot *t = tl->snapshot;
	uint32_t *open, *below;
	enum plim_status st;

	*out = (struct timeline_ranges){ .mem = m };
	if (!t->has_time || !t->annotations.n)
		return PLIM_OK;
	open = mem_new(m, t->heap.strings.n, sizeof(*open), err);
	below = open ? mem_new(m, t->annotations.n, sizeof(*below), err) : NULL;
	st = below ? match_ends(m, tl, open, below, out, err) : mem_status(err);
	mem_free(m, below, t->annotations.n, sizeof(*below));
	mem_free(m, open, t->heap.strings.n, sizeof(*open));
	sort_items(out->all.at, out->all.n, sizeof(*out->all.at), by_start);
	return st;
}

void timeline_ranges_release(struct timeline_ranges *r)
{
	if (r->mem)
		vec_release(r->mem, &r->all);
}

size_t timeline_ranges_at(const struct timeline_ranges *r, int64_t time_us,
			  uint32_t names[TIMELINE_RANGES_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < r->all.n && r->all.at[i].from_us <= time_us; i++) {
		if (r->all.at[i].to_us < time_us)
			continue;
		if (n == TIMELINE_RANGES_MAX)
			memmove(names, names + 1, --n * sizeof(*names));
		names[n++] = r->all.at[i].name;
	}
	return n;
}

/* ---- what repeats ---- */

/* Of "ProfilerStep#12" what stays the same. */
static size_t stem(const char *name)
{
	size_t n = strlen(name);

	while (n && isdigit((unsigned char)name[n - 1]))
		n--;
	return n;
}

/* The ranges of one stem, one behind the other; what lies inside another of them does not count. */
struct repeated {
	size_t n, within;            /* of them, so many are a part of one pass */
	uint32_t first, end, inside; /* events: of the first, after the last, within one of them */
};

static int repeats_most(const struct repeated *r, const struct repeated *best)
{
	/* what is left between them is fetching the next batch; more, and they are a part of what repeats */
	return r->n >= TIMELINE_PERIODS_MIN && 2 * r->within < r->n &&
	       r->inside >= (uint64_t)(r->end - r->first) * 4 / 5 && r->inside > best->inside;
}

/*
 * Does a pass that began before these events go on through all of them?  Then they are a part of it, such as the kernels
 * that a compiler tries, or a layer: a step has passes of its own, or none.
 */
static int within_a_pass(const struct timeline_categories *c, uint32_t from, uint32_t to)
{
	enum timeline_phase phase;

	if (!c->mem || !from)
		return 0;
	phase = (enum timeline_phase)c->phase[from - 1];
	while (from < to && c->phase[from] == phase)
		from++;
	return from == to && phase != TIMELINE_OTHER && phase != TIMELINE_LOAD;
}

/* Sums by stem, in the order of their first use; `of` has the stem of each range, TRACE_NONE: it does not count. */
static enum plim_status sum_up(const struct timeline *tl, const struct timeline_categories *c,
			       const struct timeline_ranges *r, struct intern *stems,
			       struct repeated *sums, uint32_t *of, struct plim_err *err)
{
	const struct snapshot_events *ev = &tl->device->events;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < r->all.n; i++) {
		const struct timeline_range *x = &r->all.at[i];
		const char *name = snapshot_text(tl->snapshot, x->name);
		uint32_t from = timeline_event_after(ev, x->from_us - (x->from_us > INT64_MIN));
		uint32_t to = timeline_event_after(ev, x->to_us);
		struct repeated *sum;

		of[i] = TRACE_NONE;
		if (from == to)
			continue;
		st = intern_add(stems, name, stem(name), &of[i], err);
		sum = &sums[st ? 0 : of[i]];
		if (sum->n && from < sum->end) {
			of[i] = TRACE_NONE;
			continue;
		}
		if (!sum->n++)
			sum->first = from;
		sum->within += within_a_pass(c, from, to);
		sum->inside += to - from;
		sum->end = to;
	}
	return st;
}

static enum plim_status take_ends(struct mem *m, const struct timeline *tl,
				  const struct timeline_ranges *r, const uint32_t *of,
				  uint32_t which, struct timeline_steps *out, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < r->all.n; i++)
		if (of[i] == which)
			st = vec_push(
				m, &out->ends,
				timeline_event_after(&tl->device->events, r->all.at[i].to_us) - 1,
				err);
	return st;
}

enum plim_status timeline_steps_of_ranges(struct mem *m, const struct timeline *tl,
					  const struct timeline_categories *c,
					  const struct timeline_ranges *r,
					  struct timeline_steps *out, struct plim_err *err)
{
	struct intern stems;
	struct repeated *sums, best = { 0 };
	uint32_t *of, which = TRACE_NONE;
	enum plim_status st;

	*out = (struct timeline_steps){ .mem = m, .basis = TIMELINE_BY_RANGE };
	if (r->all.n < TIMELINE_PERIODS_MIN)
		return PLIM_OK;
	intern_init(&stems, m);
	sums = mem_new(m, r->all.n, sizeof(*sums), err);
	of = sums ? mem_new(m, r->all.n, sizeof(*of), err) : NULL;
	st = of ? sum_up(tl, c, r, &stems, sums, of, err) : mem_status(err);
	for (uint32_t i = 0; !st && i < r->all.n; i++) {
		if (repeats_most(&sums[i], &best)) {
			best = sums[i];
			which = i;
		}
	}
	if (which != TRACE_NONE)
		st = take_ends(m, tl, r, of, which, out, err);
	mem_free(m, of, r->all.n, sizeof(*of));
	mem_free(m, sums, r->all.n, sizeof(*sums));
	intern_release(&stems);
	return st;
}
