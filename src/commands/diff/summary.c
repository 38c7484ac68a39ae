/* A device's change in sentences, the one that matters most first.  Each number is in the JSON too. */
#include "commands/diff/diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTABLE_PART 100 /* of the peak: less is not worth a sentence */

struct telling {
	struct plim_diff *d;
	const struct plim_diff_device *out;
	struct lines lines;
};

#define say(t, ...) lines_add(&(t)->lines, __VA_ARGS__)

static uint64_t diff_summary_size_of(int64_t change)
{
	return change < 0 ? -(uint64_t)change : (uint64_t)change;
}

/* " (14.2 %)" into a buffer of 32; "" where it says nothing. */
static const char *percent(char *buffer, int64_t change, uint64_t of)
{
	double p = of ? 100.0 * (double)diff_summary_size_of(change) / (double)of : 0;

	if (!of || p >= 1000)
		return "";
	snprintf(buffer, 32, p < 0.1 ? " (%.4f %%)" : " (%.1f %%)", p);
	return buffer;
}

/* "2.0 times" into a buffer of 32. */
static const char *times(char *buffer, double a, double b)
{
	snprintf(buffer, 32, a > 0 && b / a < 10 ? "%.2f times" : "%.0f times", a > 0 ? b / a : 0);
	return buffer;
}

/* ---- the sentences ---- */

int diff_is_death(const char *why)
{
	return why && !strcmp(why, "died");
}

static const char *moment_words(char *buffer, const char *phase, uint64_t step)
{
	if (step == PLIM_UNKNOWN)
		snprintf(buffer, 64, "%s", phase);
	else
		snprintf(buffer, 64, "%s of step %llu", phase, (unsigned long long)step);
	return buffer;
}

static void tell_deaths(struct telling *t)
{
	int a = diff_is_death(t->out->a_bound_why), b = diff_is_death(t->out->b_bound_why);

	if (a && b)
		say(t,
		    "Both ran out of memory: each peak is only the memory that the run could get.");
	else if (a || b)
		say(t,
		    "%s ran out of memory, %s did not: %s's peak is only the memory that it could "
		    "get.",
		    a ? "A" : "B", a ? "B" : "A", a ? "A" : "B");
}

static void tell_peak(struct telling *t)
{
	const struct plim_diff_amount *p = &t->out->peak.allocated;
	const char *far = t->out->a_bound_why || t->out->b_bound_why ? "As far as recorded, " : "";
	char by[32], of[32], at[32];

	if (!t->out->in_a || !t->out->in_b)
		say(t, "Only %s uses GPU %llu: it peaks at %s.", t->out->in_a ? "A" : "B",
		    (unsigned long long)t->out->device,
		    text_size(at, t->out->in_a ? p->a_bytes : p->b_bytes));
	else if (!p->change_bytes)
		say(t, "%sB peaks as high as A, at %s.", far, text_size(at, p->b_bytes));
	else
		say(t, "%sB peaks %s%s %s than A, at %s.", far,
		    text_size(by, (uint64_t)diff_summary_size_of(p->change_bytes)),
		    percent(of, p->change_bytes, p->a_bytes),
		    p->change_bytes > 0 ? "higher" : "lower", text_size(at, p->b_bytes));
}

/* Is it more of them, or are they larger?  Averages over several categories would say nothing. */
static const char *growth(char *buffer, size_t size, const struct plim_diff_row *row, int mixed)
{
	unsigned long long m = row->a_count, n = row->b_count;
	double a = m ? (double)row->a_bytes / (double)m : 0;
	double b = n ? (double)row->b_bytes / (double)n : 0;
	char x[32];

	if (!m || !n)
		snprintf(buffer, size, "%s has none at its peak", m ? "B" : "A");
	else if (m == n)
		snprintf(buffer, size, "%llu allocation%s as before, on average %s as large", n,
			 text_s(n), times(x, a, b));
	else if (a <= 1.05 * b && b <= 1.05 * a)
		snprintf(buffer, size, "%llu allocation%s instead of %llu, as large as before", n,
			 text_s(n), m);
	else if (mixed)
		snprintf(buffer, size, "%llu allocation%s instead of %llu", n, text_s(n), m);
	else
		snprintf(buffer, size, "%llu allocation%s instead of %llu, on average %s as large",
			 n, text_s(n), m, times(x, a, b));
	return buffer;
}

static const char *words_of(const char *category)
{
	return category && strcmp(category, timeline_category_names[TIMELINE_UNKNOWN]) != 0
		       ? recording_category_words(category)
		       : NULL;
}

/* "lab/train.py:41 in step" of a whole path: sentences are read, tables have the rest. */
static const char *short_place(const char *place)
{
	const char *at = strchr(place, ':');
	int slashes = 0;

	for (at = at ? at : place; at > place; at--)
		if (at[-1] == '/' && ++slashes == 2)
			break;
	return at;
}

/* Where: the line, and the part of a model that it called. */
static void where_words(char *buffer, size_t size, const struct plim_diff_row *row)
{
	int with_part = row->part && row->name && strcmp(row->part, row->name) != 0 &&
			2 * diff_summary_size_of(row->part_change_bytes) >=
				diff_summary_size_of(row->change_bytes);

	snprintf(buffer, size, "%s%.400s%s%.400s", row->inferred ? "the backward of " : "",
		 row->name ? short_place(recording_category_words(row->name))
			   : "code without a Python stack",
		 with_part ? ", mostly through " : "", with_part ? short_place(row->part) : "");
}

static void tell_row(struct telling *t, const char *lead, const struct plim_diff_row *row)
{
	uint64_t by = diff_summary_size_of(row->change_bytes),
		 of = diff_summary_size_of(row->category_change_bytes);
	const char *what = words_of(row->category), *more = row->change_bytes > 0 ? "more" : "less";
	int mixed = of < by - by / 10;
	char size[32], how[160], where[900], kind[64] = "";

	where_words(where, sizeof(where), row);
	if (what && !mixed)
		snprintf(kind, sizeof(kind), " %s", what);
	else if (what && 2 * of >= by)
		snprintf(kind, sizeof(kind), ", mostly %s,", what);
	say(t, "%s%s %s%s at %s (%s).", lead, text_size(size, by), more, kind, where,
	    growth(how, sizeof(how), row, mixed));
}

static const struct plim_diff_row *diff_summary_largest(const struct plim_diff_moment *m,
							int growing)
{
	for (size_t i = 0; i < m->row_count; i++)
		if (m->rows[i].change_bytes && (m->rows[i].change_bytes > 0) == growing)
			return &m->rows[i];
	return NULL;
}

/*
 * The line that went furthest the way the whole went, and one that went far the other way.  Where one
 * of both died it is what that one had more of that matters, however high it could get.
 */
static void tell_owners(struct telling *t, const struct plim_diff_moment *peak)
{
	int a = diff_is_death(t->out->a_bound_why), b = diff_is_death(t->out->b_bound_why);
	int growing = a != b ? b : peak->change_bytes > 0;
	uint64_t all = diff_summary_size_of(peak->change_bytes);
	const struct plim_diff_row *with = diff_summary_largest(peak, growing),
				   *against = diff_summary_largest(peak, !growing);

	if (with)
		tell_row(t,
			 a != b || !all                                   ? "Most of all, "
			 : diff_summary_size_of(with->change_bytes) > all ? "The largest change: "
			 : diff_summary_size_of(with->change_bytes) > all / 2
				 ? "Most of it: "
				 : "The largest part of it: ",
			 with);
	if (against && 2 * diff_summary_size_of(against->change_bytes) >= all)
		tell_row(t, "Against that, ", against);
}

static void tell_move(struct telling *t, const struct plim_diff_moment *peak)
{
	char a[64], b[64];

	if (!peak->a_phase || !peak->b_phase)
		return;
	if (strcmp(peak->a_phase, peak->b_phase) != 0)
		say(t, "The peak moved from %s to %s.",
		    moment_words(a, peak->a_phase, peak->a_step),
		    moment_words(b, peak->b_phase, peak->b_step));
}

static void tell_end(struct telling *t, const struct plim_diff_moment *end)
{
	const struct plim_diff_amount *p = &t->out->peak.allocated;
	uint64_t most = p->a_bytes > p->b_bytes ? p->a_bytes : p->b_bytes;
	char by[32];

	if (t->out->in_a && t->out->in_b &&
	    diff_summary_size_of(end->change_bytes) > most / NOTABLE_PART)
		say(t, "At the end it holds %s %s.",
		    text_size(by, diff_summary_size_of(end->change_bytes)),
		    end->change_bytes > 0 ? "more" : "less");
}

static void tell_findings(struct telling *t)
{
	for (size_t i = 0; i < t->out->finding_count; i++) {
		const struct plim_diff_finding *f = &t->out->findings[i];
		char size[32];

		if (!strcmp(f->id, "leak") && f->severity == PLIM_SEVERITY_ERROR)
			say(t, "Only %s leaks, %s in all.", *f->side == 'a' ? "A" : "B",
			    text_size(size, f->bytes));
	}
}

static void tell_bounds(struct telling *t)
{
	const char *a = t->out->a_bound_why, *b = t->out->b_bound_why;
	int cut_a = a && !strcmp(a, "cut"), cut_b = b && !strcmp(b, "cut");

	if (cut_a || cut_b)
		say(t, "%s not begin with the run: %s true peak may be higher.",
		    cut_a && cut_b ? "Both recordings do"
		    : cut_a        ? "A's recording does"
				   : "B's recording does",
		    cut_a && cut_b ? "each" : "its");
}

static void tell_unrelated(struct telling *t)
{
	int plan[2] = { recording_is_plan(t->d->hidden->recording[COMPARED_A]),
			recording_is_plan(t->d->hidden->recording[COMPARED_B]) };

	if (t->out->unrelated && (plan[COMPARED_A] || plan[COMPARED_B]))
		say(t,
		    "%s a plan, which has modules where a recording has lines of Python: only the "
		    "numbers of tensors of each size and kind are compared.",
		    plan[COMPARED_A] && plan[COMPARED_B] ? "Both are"
		    : plan[COMPARED_A]                   ? "A is"
							 : "B is");
	else if (t->out->unrelated)
		say(t,
		    "They hardly share code: %.1f %% of what Python allocated in A comes from "
		    "lines "
		    "that B runs too, %.1f %% the other way round. They look like different "
		    "programs, so lines are not compared.",
		    100 * t->out->a_shared, 100 * t->out->b_shared);
}

static void tell_no_stacks(struct telling *t)
{
	int a = t->d->hidden->recording[COMPARED_A]->snapshot->has_frames;
	int b = t->d->hidden->recording[COMPARED_B]->snapshot->has_frames;

	say(t, "%s no stacks: owners cannot be compared, only sizes of allocations.",
	    a   ? "B's recording has"
	    : b ? "A's recording has"
		: "The recordings have");
}

enum plim_status diff_summary(struct plim_diff *d, const struct plim_diff_moment *peak,
			      const struct plim_diff_moment *end, struct plim_diff_device *out,
			      struct plim_err *err)
{
	struct telling t = { .d = d,
			     .out = out,
			     .lines = { .arena = &d->hidden->arena, .err = err } };

	if (!out->different) {
		say(&t, "No difference.");
	} else {
		tell_deaths(&t);
		tell_peak(&t);
		tell_findings(&t);
		tell_unrelated(&t);
		if (!d->hidden->recording[COMPARED_A]->snapshot->has_frames ||
		    !d->hidden->recording[COMPARED_B]->snapshot->has_frames)
			tell_no_stacks(&t);
		else if (!out->unrelated && out->in_a && out->in_b)
			tell_owners(&t, peak);
		tell_move(&t, peak);
		tell_bounds(&t);
		tell_end(&t, end);
	}
	return lines_keep(&t.lines, &out->summary, &out->summary_count);
}
