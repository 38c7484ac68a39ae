/* A device's change in sentences, the one that matters most first.  Each number is in the JSON too. */
#include "diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SENTENCES 10
#define NOTABLE_PART 100 /* of the peak: less is not worth a sentence */

struct telling {
	struct plim_diff *d;
	const struct plim_diff_device *out;
	struct plim_err *err;
	const char *at[SENTENCES];
	size_t n;
	int failed;
};

#define say(t, ...)                                                                             \
	do {                                                                                    \
		if ((t)->n < SENTENCES) {                                                       \
			(t)->at[(t)->n] = report_text((t)->d->hidden->report[DIFF_A], (t)->err, \
						      __VA_ARGS__);                             \
			(t)->failed |= !(t)->at[(t)->n++];                                      \
		}                                                                               \
	} while (0)

static uint64_t size_of(int64_t change)
{
	return change < 0 ? -(uint64_t)change : (uint64_t)change;
}

/* " (14.2 %)" into a buffer of 32; "" where it says nothing. */
static const char *percent(char *buffer, int64_t change, uint64_t of)
{
	double p = of ? 100.0 * (double)size_of(change) / (double)of : 0;

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

static const char *moment_words(char *buffer, const char *phase, uint64_t step)
{
	if (step == PLIM_UNKNOWN)
		snprintf(buffer, 64, "%s", phase);
	else
		snprintf(buffer, 64, "%s of step %llu", phase, (unsigned long long)step);
	return buffer;
}

static void tell_deaths(struct telling *t, const struct plim_diff_moment *peak)
{
	const struct plim_diff_device *o = t->out;
	int a = o->a_bound_why && !strcmp(o->a_bound_why, "died");
	int b = o->b_bound_why && !strcmp(o->b_bound_why, "died");

	(void)peak;
	if (a && b)
		say(t, "Both ran out of memory, so their peaks are what each could get.");
	else if (a || b)
		say(t, "%s ran out of memory, %s did not.", a ? "A" : "B", a ? "B" : "A");
}

static void tell_peak(struct telling *t)
{
	const struct plim_diff_amount *p = &t->out->peak.allocated;
	const char *far = t->out->a_bound_why || t->out->b_bound_why ? "As far as recorded, " : "";
	char by[32], of[32], at[32];

	if (!t->out->in_a || !t->out->in_b)
		say(t, "Only %s uses GPU %llu: it peaks at %s.", t->out->in_a ? "A" : "B",
		    (unsigned long long)t->out->device,
		    report_size(at, t->out->in_a ? p->a_bytes : p->b_bytes));
	else if (!p->change_bytes)
		say(t, "%sB peaks as high as A, at %s.", far, report_size(at, p->b_bytes));
	else
		say(t, "%sB peaks %s%s %s than A, at %s.", far,
		    report_size(by, (uint64_t)size_of(p->change_bytes)),
		    percent(of, p->change_bytes, p->a_bytes),
		    p->change_bytes > 0 ? "higher" : "lower", report_size(at, p->b_bytes));
}

/* Is it more of them, or are they larger? */
static const char *growth(char *buffer, size_t size, const struct plim_diff_row *row)
{
	double a = row->a_count ? (double)row->a_bytes / (double)row->a_count : 0;
	double b = row->b_count ? (double)row->b_bytes / (double)row->b_count : 0;
	char x[32];

	if (!row->a_count)
		snprintf(buffer, size, "A has none there");
	else if (!row->b_count)
		snprintf(buffer, size, "B has none there");
	else if (row->a_count == row->b_count)
		snprintf(buffer, size, "as many as before (%llu), %s as large",
			 (unsigned long long)row->b_count, times(x, a, b));
	else if (a <= 1.05 * b && b <= 1.05 * a)
		snprintf(buffer, size, "%llu instead of %llu, as large as before",
			 (unsigned long long)row->b_count, (unsigned long long)row->a_count);
	else
		snprintf(buffer, size, "%llu instead of %llu, on average %s as large",
			 (unsigned long long)row->b_count, (unsigned long long)row->a_count,
			 times(x, a, b));
	return buffer;
}

static const char *words_of(const char *category)
{
	for (int k = 0; category && k < TIMELINE_CATEGORIES; k++)
		if (!strcmp(category, timeline_category_names[k]) && k != TIMELINE_UNKNOWN)
			return report_category_words[k];
	return NULL;
}

/* Where: the line, and the part of a model that it called. */
static void where_words(char *buffer, size_t size, const struct plim_diff_row *row)
{
	const char *where = row->name ? row->name : "code without a Python stack";
	int with_part = row->part && row->name && strcmp(row->part, row->name) != 0 &&
			2 * size_of(row->part_change_bytes) >= size_of(row->change_bytes);

	snprintf(buffer, size, "%s%.400s%s%.400s%s%.400s", row->inferred ? "(backward of) " : "",
		 where, row->a_name ? ", in A " : "", row->a_name ? row->a_name : "",
		 with_part ? ", mostly through " : "", with_part ? row->part : "");
}

/* The line whose memory went furthest the way the whole went. */
static void tell_owner(struct telling *t, const struct plim_diff_moment *peak)
{
	const struct plim_diff_row *row = NULL;
	int64_t all = peak->change_bytes;
	char by[32], how[160], where[1300];
	const char *what;
	uint64_t one;

	for (size_t i = 0; i < peak->row_count && !row; i++)
		if (peak->rows[i].change_bytes && (peak->rows[i].change_bytes < 0) == (all < 0))
			row = &peak->rows[i];
	if (!row || !all)
		return;
	one = size_of(row->change_bytes);
	what = words_of(row->category);
	/* one category for all only if it is nearly all of it */
	if (what && size_of(row->category_change_bytes) < one - one / 10)
		what = NULL;
	where_words(where, sizeof(where), row);
	say(t, "%s: %s %s%s%s at %s; %s.",
	    one >= size_of(all)       ? "The largest change"
	    : one >= size_of(all) / 2 ? "Most of it"
				      : "The largest part of it",
	    report_size(by, one), all > 0 ? "more" : "less", what ? " " : "", what ? what : "",
	    where, growth(how, sizeof(how), row));
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

	if (t->out->in_a && t->out->in_b && size_of(end->change_bytes) > most / NOTABLE_PART)
		say(t, "At the end it holds %s %s.", report_size(by, size_of(end->change_bytes)),
		    end->change_bytes > 0 ? "more" : "less");
}

static void tell_findings(struct telling *t)
{
	for (size_t i = 0; i < t->out->finding_count; i++) {
		const struct plim_diff_finding *f = &t->out->findings[i];
		char size[32];

		if (!strcmp(f->kind, "leak") && !strcmp(f->severity, "bad"))
			say(t, "Only %s leaks, %s in all.", *f->side == 'a' ? "A" : "B",
			    report_size(size, f->bytes));
	}
}

static void tell_bounds(struct telling *t)
{
	const char *a = t->out->a_bound_why, *b = t->out->b_bound_why;
	int cut_a = a && !strcmp(a, "cut"), cut_b = b && !strcmp(b, "cut");
	int died_a = a && !cut_a, died_b = b && !cut_b;

	if (cut_a || cut_b)
		say(t, "%s not begin with the run: %s true peak may be higher.",
		    cut_a && cut_b ? "Both recordings do"
		    : cut_a        ? "A's recording does"
				   : "B's recording does",
		    cut_a && cut_b ? "each" : "its");
	if (died_a != died_b)
		say(t, "%s's peak is only what it could get: it needs more.", died_a ? "A" : "B");
}

static void tell_unrelated(struct telling *t)
{
	if (t->out->unrelated)
		say(t,
		    "They hardly share code: %.1f %% of what Python allocated in A comes from "
		    "lines "
		    "that B runs too, %.1f %% the other way round. They look like different "
		    "programs, so lines are not compared.",
		    100 * t->out->a_shared, 100 * t->out->b_shared);
}

enum plim_status diff_summary(struct plim_diff *d, const struct plim_diff_moment *peak,
			      const struct plim_diff_moment *end, struct plim_diff_device *out,
			      struct plim_err *err)
{
	struct telling t = { .d = d, .out = out, .err = err };

	if (!out->different) {
		say(&t, "No difference.");
	} else {
		tell_deaths(&t, peak);
		tell_peak(&t);
		tell_findings(&t);
		tell_unrelated(&t);
		if (!out->unrelated && out->in_a && out->in_b)
			tell_owner(&t, peak);
		tell_move(&t, peak);
		tell_bounds(&t);
		tell_end(&t, end);
	}
	out->summary = report_take(d->hidden->report[DIFF_A], t.n, sizeof(*out->summary), err);
	if (t.failed || !out->summary)
		return mem_status(err);
	memcpy(out->summary, t.at, t.n * sizeof(*out->summary));
	out->summary_count = t.n;
	return PLIM_OK;
}
