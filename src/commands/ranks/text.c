/* Many recordings for a person: who died first, a table in which like ranks are one line, the worst. */
#include "commands/out.h"
#include "commands/ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NARROW 64        /* columns; below, the table has only what matters most */
#define TINY 50          /* below, there is room for one number */
#define ROOMY 78         /* from here on, in which phase a rank held most */
#define WIDE 100         /* from here on, what is said is said in full */
#define ALL_SHOWN 16     /* so many rows are shown one by one */
#define SHOWN_MAX 24     /* of more, so many that are not like others */
#define LISTED_MAX 8     /* lines of a list */
#define RANGES_MAX 8     /* of ranks in a line */
#define LABEL_COLUMNS 20 /* of a name that stands for a number */
#define ALIKE_PART 200   /* peaks that differ by less than one part in so many are alike: 0.5 % */

#define CAPPED_PART 10 /* of what others reserved: so much less is a cap of its own */

#define NO_ROW SIZE_MAX

/* ---- names ---- */

/* Does the name say the rank?  Else it is only its place in the order of names. */
static int says_rank(const char *name, uint64_t rank)
{
	for (size_t i = 0; name[i];) {
		size_t digits = strspn(name + i, "0123456789");

		if (digits && digits < 20 && strtoull(name + i, NULL, 10) == rank)
			return 1;
		i += digits ? digits : 1;
	}
	return 0;
}

/* All are numbered by their names, or none is: a few rows tell. */
static int numbered_by_order(const struct plim_ranks *k)
{
	for (size_t i = 0; i < k->row_count && i < LISTED_MAX; i++)
		if (recording_row_name(&k->rows[i]) && k->rows[i].rank != PLIM_UNKNOWN &&
		    k->rows[i].rank_from && !strcmp(k->rows[i].rank_from, RECORDING_RANK_ORDER) &&
		    !says_rank(recording_row_name(&k->rows[i]), k->rows[i].rank))
			return 1;
	return 0;
}

/* Is the number enough to tell this row from others?  Rows stand by rank. */
static int is_plain(const struct plim_ranks *k, size_t i)
{
	uint64_t rank = k->rows[i].rank;

	return !numbered_by_order(k) && rank != PLIM_UNKNOWN &&
	       (!i || k->rows[i - 1].rank != rank) &&
	       (i + 1 == k->row_count || k->rows[i + 1].rank != rank);
}

static int all_plain(const struct plim_ranks *k)
{
	for (size_t i = 0; i < k->row_count; i++)
		if (!is_plain(k, i) && !k->rows[i].error)
			return 0;
	return 1;
}

/* "12", or if that says too little the part of the name that others have not. */
static void label(struct text *t, const struct plim_ranks *k, size_t i)
{
	const char *name = recording_row_name(&k->rows[i]);
	struct recording_name_cut cut;

	if (!name && k->rows[i].rank == PLIM_UNKNOWN) {
		text_puts(t, "-");
	} else if (is_plain(k, i) || !name) {
		text_printf(t, "%llu", (unsigned long long)k->rows[i].rank);
	} else {
		cut = recording_set_cut(k, LABEL_COLUMNS);
		text_name_fit(t, name + cut.front, recording_set_stem(name) - cut.front - cut.back,
			      LABEL_COLUMNS, TEXT_CUT_LEFT);
	}
}

/* "rank 12", "Rank 12" */
static void who(struct text *t, const struct plim_ranks *k, size_t i, const char *rank)
{
	if (is_plain(k, i) || !recording_row_name(&k->rows[i]))
		text_puts(t, rank);
	label(t, k, i);
}

/* "backward of step 15" */
static void ranks_moment(struct text *t, const char *phase, uint64_t step)
{
	text_puts(t, phase ? phase : "");
	if (step != PLIM_UNKNOWN)
		text_printf(t, "%sstep %llu", phase ? " of " : "", (unsigned long long)step);
}

static void duration(struct text *t, uint64_t us)
{
	if (us >= 1000000)
		text_printf(t, "%.2f s", (double)us / 1e6);
	else if (us >= 1000)
		text_printf(t, "%.2f ms", (double)us / 1e3);
	else
		text_printf(t, "%llu us", (unsigned long long)us);
}

/* Words that were put together, wrapped; what is in them was escaped when it was put there. */
static void flow(struct text *t, struct text *words, unsigned first, unsigned hang)
{
	text_wrap(t, first, hang, "%s", text_get(words));
	text_release(words);
}

/* ---- what happened ---- */

static void count_line(struct text *t, const struct plim_ranks *k)
{
	struct text words;

	text_init(&words, t->mem, &t->style);
	text_count(&words, k->row_count);
	text_puts(&words, k->row_count == 1 ? " recording: " : " recordings: ");
	text_count(&words, k->died);
	text_puts(&words, " died");
	if (k->failed) {
		text_puts(&words, ", ");
		text_count(&words, k->failed);
		text_puts(&words, " could not be read");
	}
	if (k->skipped_total) {
		text_puts(&words, "; ");
		text_count(&words, k->skipped_total);
		text_puts(&words,
			  k->skipped_total == 1 ? " other file skipped" : " other files skipped");
	}
	text_hue(t, TEXT_HEAD);
	flow(t, &words, 0, 2);
	text_plain(t);
}

/* Names from the files may be in what is put here. */
static void put_unsafe(struct text *words, const char *text)
{
	text_name(words, text, strlen(text));
}

static void death(struct text *words, const struct plim_ranks_death *d)
{
	text_puts(words, ": it asked for ");
	text_bytes(words, d->requested_bytes);
	if (d->step != PLIM_UNKNOWN || (d->phase && strcmp(d->phase, "other") != 0)) {
		text_puts(words, " in ");
		ranks_moment(words, d->phase, d->step);
	}
}

static void first_death(struct text *t, const struct plim_ranks *k)
{
	const struct plim_ranks_first *f = k->first_death;
	struct text words;

	text_puts(t, "\n");
	text_init(&words, t->mem, &t->style);
	if (f) {
		text_hue(t, TEXT_BAD);
		who(&words, k, f->row, "Rank ");
		text_puts(&words, k->died > 1 ? " died first" : " died");
		if (f->ahead_us != PLIM_UNKNOWN) {
			text_puts(&words, ", ");
			if (f->ahead_us)
				duration(&words, f->ahead_us);
			text_puts(&words, f->ahead_us ? " before " : "at the same time as ");
			who(&words, k, f->next_row, "rank ");
		}
		death(&words, k->rows[f->row].died);
	} else if (k->died) {
		text_hue(t, TEXT_BAD);
		text_puts(&words, "Which died first is not known: ");
		text_puts(&words, k->order_unknown);
	} else {
		text_puts(&words,
			  k->read ? "No failure in these recordings." : "Nothing was read.");
	}
	flow(t, &words, 0, 2);
	text_plain(t);
	if (f && f->doubt && k->died > 1) {
		text_puts(t, "  ");
		text_wrap(t, 2, 2, "not certain: %s", f->doubt);
	} else if (f && f->doubt) {
		text_puts(t, "  ");
		text_wrap(t, 2, 2, "%s", f->doubt);
	}
}

/* ---- the table ---- */

struct shown {
	const struct plim_ranks *k;
	size_t *like; /* by row: the row that is shown for it; NO_ROW: none */
	size_t n;     /* rows that are shown */
};

static int near(uint64_t a, uint64_t b)
{
	uint64_t more = a > b ? a - b : b - a, of = a > b ? a : b;

	return more <= of / ALIKE_PART;
}

static int same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static int alike(const struct plim_ranks_row *a, const struct plim_ranks_row *b)
{
	if (a->error || b->error || !a->died != !b->died ||
	    (a->leak_bytes == PLIM_UNKNOWN) != (b->leak_bytes == PLIM_UNKNOWN))
		return 0;
	if (a->died && (a->died->cause != b->died->cause || a->died->step != b->died->step ||
			!same_text(a->died->phase, b->died->phase) ||
			!near(a->died->requested_bytes, b->died->requested_bytes)))
		return 0;
	return near(a->allocated_peak_bytes, b->allocated_peak_bytes) &&
	       near(a->reserved_peak_bytes, b->reserved_peak_bytes);
}

static void show_row(struct shown *s, uint64_t row)
{
	if (row < s->k->row_count && s->like[row] == NO_ROW) {
		s->like[row] = row;
		s->n++;
	}
}

/* The row that stands for this one; NO_ROW: there is none, and no room for it. */
static size_t find_like(struct shown *s, const size_t *rows, size_t n, size_t i)
{
	for (size_t r = 0; r < n; r++)
		if (alike(&s->k->rows[rows[r]], &s->k->rows[i]))
			return rows[r];
	return NO_ROW;
}

/* Those that must be seen, then of the others those that are like none before. */
static void choose_ranks(struct shown *s)
{
	const struct plim_ranks *k = s->k;
	const struct plim_ranks_extreme *const must[] = {
		NULL, /* the worst */
		k->allocated ? &k->allocated->max : NULL,
		k->allocated ? &k->allocated->min : NULL,
	};
	size_t rows[SHOWN_MAX] = { 0 }, n = 0;

	for (size_t i = 0; i < k->row_count; i++)
		s->like[i] = NO_ROW;
	for (size_t i = 0; k->row_count <= ALL_SHOWN && i < k->row_count; i++)
		show_row(s, i);
	if (s->n)
		return;
	for (size_t i = 0; k->read && i < sizeof(must) / sizeof(*must); i++) {
		size_t row = must[i] ? must[i]->row : k->worst_row;

		if (find_like(s, rows, n, row) != NO_ROW)
			continue;
		show_row(s, row);
		rows[n++] = row;
	}
	for (size_t i = 0; i < k->row_count; i++) {
		if (s->like[i] == i || k->rows[i].error)
			continue;
		s->like[i] = find_like(s, rows, n, i);
		if (s->like[i] == NO_ROW && n < SHOWN_MAX) {
			show_row(s, i);
			rows[n++] = i;
		}
	}
}

/* "fragmentation, backward of step 15"; with `brief` "fragmentation, backward 15" */
static void outcome(struct text *t, const struct plim_ranks_row *row, int brief)
{
	const struct plim_ranks_death *d = row->died;

	if (row->error) {
		text_puts(t, "not read");
	} else if (d) {
		if (d->cause == PLIM_CAUSE_UNKNOWN && d->likely_cause != PLIM_CAUSE_UNKNOWN)
			text_printf(t, "%s?", recording_cause_words(d->likely_cause));
		else
			text_puts(t, recording_cause_words(d->cause));
		if (d->phase || d->step != PLIM_UNKNOWN)
			text_puts(t, ", ");
		if (brief && d->phase && d->step != PLIM_UNKNOWN)
			text_printf(t, "%s %llu", d->phase, (unsigned long long)d->step);
		else
			ranks_moment(t, d->phase, d->step);
	} else {
		text_puts(t, row->leak_bytes != PLIM_UNKNOWN ? "leaks" : "-");
	}
}

/* What the width has room for next to labels of that length. */
struct columns {
	int asked, reserved, phase, brief;
};

static struct columns columns_of(const struct text *t, int plain)
{
	unsigned width = t->style.width - (plain ? 0 : LABEL_COLUMNS / 2);

	return (struct columns){ width >= TINY, width >= NARROW, width >= ROOMY, width < WIDE };
}

static void table_row(struct text_table *b, const struct plim_ranks *k, size_t i,
		      const struct columns *c)
{
	const struct plim_ranks_row *row = &k->rows[i];

	label(text_cell(b), k, i);
	text_cell_end(b);
	text_cell_bytes(b, row->allocated_peak_bytes);
	if (c->reserved)
		text_cell_bytes(b, row->reserved_peak_bytes);
	if (c->phase)
		text_cell_printf(b, "%s", row->peak_phase ? row->peak_phase : "-");
	if (c->asked)
		text_cell_bytes(b, row->died ? row->died->requested_bytes : PLIM_UNKNOWN);
	outcome(text_cell(b), row, c->brief);
	text_cell_end(b);
}

/* "3-127, 130": the ranks that `row` stands for; their number. */
static size_t ranges(struct text *t, const struct shown *s, size_t row)
{
	const struct plim_ranks_row *rows = s->k->rows;
	size_t n = 0, told = 0, written = 0;

	for (size_t i = 0, last; i < s->k->row_count; i = last + 1) {
		last = i;
		if (i == row || s->like[i] != row)
			continue;
		while (last + 1 < s->k->row_count && last + 1 != row && s->like[last + 1] == row &&
		       rows[last + 1].rank == rows[last].rank + 1)
			last++;
		n += last + 1 - i;
		if (written++ >= RANGES_MAX)
			continue;
		told = n;
		text_puts(t, written > 1 ? ", " : "");
		text_printf(t, last > i ? "%llu-%llu" : "%llu", (unsigned long long)rows[i].rank,
			    (unsigned long long)rows[last].rank);
	}
	if (n > told) {
		text_puts(t, " and ");
		text_count(t, n - told);
		text_puts(t, " more");
	}
	return n;
}

static void likes(struct text *t, const struct shown *s)
{
	int plain = all_plain(s->k);

	for (size_t row = 0; row < s->k->row_count; row++) {
		struct text list, words;
		size_t n;

		if (s->like[row] != row)
			continue;
		text_init(&list, t->mem, &t->style);
		text_init(&words, t->mem, &t->style);
		n = ranges(&list, s, row);
		if (plain) {
			text_puts(&words, n == 1 ? "rank " : "ranks ");
			text_puts(&words, text_get(&list));
		} else {
			text_count(&words, n);
			text_puts(&words, n == 1 ? " more" : " others");
		}
		text_puts(&words, ": like ");
		who(&words, s->k, row, "rank ");
		text_puts(&words, " within 0.5 %");
		text_release(&list);
		if (n) {
			text_puts(t, "  ");
			flow(t, &words, 2, 4);
		} else {
			text_release(&words);
		}
	}
}

/* What is neither shown nor like anything shown. */
static void rest(struct text *t, const struct shown *s)
{
	const struct plim_ranks *k = s->k;
	uint64_t low = UINT64_MAX, high = 0;
	struct text words;
	size_t n = 0;

	for (size_t i = 0; i < k->row_count; i++) {
		uint64_t bytes = k->rows[i].allocated_peak_bytes;

		if (s->like[i] != NO_ROW || k->rows[i].error)
			continue;
		n++;
		low = bytes < low ? bytes : low;
		high = bytes > high ? bytes : high;
	}
	if (!n)
		return;
	text_init(&words, t->mem, &t->style);
	text_count(&words, n);
	text_puts(&words, " more between ");
	text_bytes(&words, low);
	text_puts(&words, " and ");
	text_bytes(&words, high);
	text_puts(&words, " (--json has them all)");
	text_puts(t, "  ");
	flow(t, &words, 2, 4);
}

static void ranks_table_text(struct text *t, const struct plim_ranks *k)
{
	struct shown s = { .k = k, .like = calloc(k->row_count + 1, sizeof(*s.like)) };
	struct columns c = columns_of(t, all_plain(k));
	struct text_table b;

	if (!s.like)
		return;
	choose_ranks(&s);
	text_puts(t, "\n");
	text_table_init(&b, t,
			c.phase      ? "rrrlrl"
			: c.reserved ? "rrrrl"
			: c.asked    ? "rrrl"
				     : "rrl",
			TEXT_CUT_RIGHT);
	text_cell_printf(&b, "rank");
	text_cell_printf(&b, "allocated");
	if (c.reserved)
		text_cell_printf(&b, "reserved");
	if (c.phase)
		text_cell_printf(&b, "peak in");
	if (c.asked)
		text_cell_printf(&b, "asked for");
	text_cell_printf(&b, c.brief ? "died of, in (step)" : "died of");
	for (size_t i = 0; i < k->row_count; i++)
		if (s.like[i] == i)
			table_row(&b, k, i, &c);
	text_table_write(t, &b, 2);
	text_table_release(&b);
	likes(t, &s);
	rest(t, &s);
	free(s.like);
}

/* ---- how they differ ---- */

static void spread_line(struct text *t, const struct plim_ranks *k, const char *title,
			const struct plim_ranks_spread *s)
{
	const struct {
		const char *name;
		const struct plim_ranks_extreme *at;
	} parts[] = { { "largest", &s->max }, { "median", &s->median }, { "smallest", &s->min } };
	struct text words;

	text_init(&words, t->mem, &t->style);
	if (near(s->max.bytes, s->min.bytes)) {
		text_bytes(&words, s->median.bytes);
		text_puts(&words, ", all within 0.5 %");
	}
	for (size_t i = 0; !near(s->max.bytes, s->min.bytes) && i < 3; i++) {
		text_printf(&words, "%s%s ", i ? ", " : "", parts[i].name);
		text_bytes(&words, parts[i].at->bytes);
		text_puts(&words, " (");
		who(&words, k, parts[i].at->row, "rank ");
		text_puts(&words, ")");
	}
	text_printf(t, "  %-10s", title);
	flow(t, &words, 12, 12);
}

static void excess(struct text *t, const struct plim_ranks *k)
{
	const struct plim_ranks_excess *x = k->excess;
	struct text words;

	if (!x || x->row == x->median_row || x->difference_bytes <= 0)
		return;
	text_init(&words, t->mem, &t->style);
	who(&words, k, x->row, "rank ");
	text_puts(&words, " has ");
	text_bytes(&words, (uint64_t)x->difference_bytes);
	text_puts(&words, " more than ");
	who(&words, k, x->median_row, "rank ");
	text_puts(&words, ", each at its peak");
	if (x->category) {
		text_puts(&words, "; ");
		text_bytes(&words, (uint64_t)x->category_bytes);
		text_printf(&words, " more %s", recording_category_words(x->category));
	}
	if (x->category && x->meaning)
		text_printf(&words, ": %s", x->meaning);
	text_puts(t, "  ");
	flow(t, &words, 2, 2);
}

#define OUTLIERS_SHOWN 5

static void groups(struct text *t, const struct plim_ranks *k)
{
	struct text words;

	if (k->group_count < 2)
		return;
	text_init(&words, t->mem, &t->style);
	for (size_t i = 0; i < k->group_count; i++) {
		const struct plim_ranks_group *g = &k->groups[i];

		text_puts(&words, i ? "; " : "");
		text_count(&words, g->ranks);
		text_printf(&words, " ranks%s%s as rank %llu with ", g->name ? " of " : "",
			    g->name ? g->name : "", (unsigned long long)g->first_rank);
		text_bytes(&words, g->allocated_bytes);
	}
	text_puts(t, "  groups    ");
	flow(t, &words, 12, 12);
}

/* A rank once, with what is least likely of it. */
static void outliers(struct text *t, const struct plim_ranks *k)
{
	size_t shown = 0;

	for (size_t i = 0; i < k->outlier_count && shown < OUTLIERS_SHOWN; i++) {
		const struct plim_ranks_outlier *o = &k->outliers[i];
		const char *place = k->rows[o->row].place;
		struct text words;
		size_t before = 0;

		while (before < i && k->outliers[before].row != o->row)
			before++;
		if (before < i)
			continue;
		text_init(&words, t->mem, &t->style);
		who(&words, k, o->row, "rank ");
		text_puts(&words, place ? " (" : "");
		text_puts(&words, place ? place : "");
		text_puts(&words, place ? "): " : ": ");
		put_unsafe(&words, o->says);
		text_puts(t, shown++ ? "            " : "  unlike    ");
		flow(t, &words, 12, 12);
	}
}

static int is_capped(const struct plim_ranks *k, size_t i)
{
	const struct plim_ranks_row *row = &k->rows[i];
	uint64_t most = k->reserved ? k->reserved->max.bytes : 0;

	return row->died && row->died->bound_by == PLIM_BOUND_LIMIT &&
	       row->reserved_peak_bytes < most - most / CAPPED_PART;
}

/* Ranks whose process had a limit below what another took: why they died and it did not. */
static void capped(struct text *t, const struct plim_ranks *k)
{
	const struct plim_ranks_row *first = NULL;
	struct text words;
	size_t told = 0, all = 0;

	text_init(&words, t->mem, &t->style);
	for (size_t i = 0; i < k->row_count; i++) {
		if (!is_capped(k, i) ||
		    (first && !near(first->reserved_peak_bytes, k->rows[i].reserved_peak_bytes)))
			continue;
		first = first ? first : &k->rows[i];
		if (all++ >= RANGES_MAX)
			continue;
		text_puts(&words, told++ ? ", " : "");
		who(&words, k, i, "rank ");
	}
	if (all > told)
		text_printf(&words, " and %zu more", all - told);
	if (all) {
		text_puts(&words, all > 1 ? " were" : " was");
		text_puts(&words, " capped: a limit of the process refused more than ");
		text_bytes(&words, first->reserved_peak_bytes);
		text_puts(&words, ", and ");
		who(&words, k, k->reserved->max.row, "rank ");
		text_puts(&words, " reserved ");
		text_bytes(&words, k->reserved->max.bytes);
		text_puts(t, "  ");
		text_wrap(t, 2, 2, "%s", text_get(&words));
	}
	text_release(&words);
}

static void skew(struct text *t, const struct plim_ranks *k)
{
	if (k->read < 2)
		return;
	out_title(t, "How they differ");
	spread_line(t, k, "allocated", k->allocated);
	if (k->reserved) /* of the profiler's files it is not known */
		spread_line(t, k, "reserved", k->reserved);
	groups(t, k);
	outliers(t, k);
	excess(t, k);
	capped(t, k);
}

/* ---- lists ---- */

static void item(struct text *t, const char *name, const char *says)
{
	struct text words;

	text_init(&words, t->mem, &t->style);
	put_unsafe(&words, name ? name : "(a file)");
	if (says) {
		text_puts(&words, ": ");
		put_unsafe(&words, says);
	}
	text_puts(t, "  - ");
	flow(t, &words, 4, 4);
}

static void more(struct text *t, uint64_t n)
{
	if (n <= LISTED_MAX)
		return;
	text_puts(t, "  - and ");
	text_count(t, n - LISTED_MAX);
	text_puts(t, " more (--json)\n");
}

static void lists(struct text *t, const struct plim_ranks *k)
{
	size_t n = 0;

	if (k->failed)
		out_title(t, "Could not be read");
	for (size_t i = 0; i < k->row_count && n < LISTED_MAX; i++) {
		if (!k->rows[i].error)
			continue;
		item(t, recording_row_name(&k->rows[i]), k->rows[i].error);
		n++;
	}
	more(t, k->failed);
	if (k->skipped_total)
		out_title(t, "Skipped");
	for (size_t i = 0; i < k->skipped_count && i < LISTED_MAX; i++)
		item(t, k->skipped[i].path, k->skipped[i].reason);
	more(t, k->skipped_total);
	if (k->note_count)
		out_title(t, "Notes");
	for (size_t i = 0; i < k->note_count; i++)
		item(t, k->notes[i], NULL);
}

static void in_full(struct text *t, const struct plim_ranks *k)
{
	struct text words;

	if (!k->worst)
		return;
	text_init(&words, t->mem, &t->style);
	who(&words, k, k->worst_row, "Rank ");
	text_puts(&words, k->row_count > 1 ? ", the worst, in full" : " in full");
	out_title(t, text_get(&words));
	text_release(&words);
	text_puts(t, "\n");
}

/* One that is reported next to the worst, under what is unlike the others about it. */
static enum plim_status also_in_full(const struct plim_ranks *k, const struct plim_ranks_told *x,
				     const struct text_style *s,
				     const struct plim_text_style *style, plim_write_fn *write,
				     void *ctx, struct plim_err *err)
{
	struct text t, words;
	enum plim_status st;

	text_init(&t, &k->hidden->mem, s);
	text_init(&words, t.mem, s);
	who(&words, k, x->row, "Rank ");
	text_puts(&words, ", unlike the others, in full");
	out_title(&t, text_get(&words));
	text_puts(&t, "\n");
	text_release(&words);
	st = out_text(&t, write, ctx, err);
	return st ? st : plim_report_text(x->report, style, write, ctx, err);
}

enum plim_status plim_ranks_text(const struct plim_ranks *k, const struct plim_text_style *style,
				 plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style && style->width ? style->width : 80, style && style->color,
				style && style->utf8 };
	enum plim_status st;
	struct text t;

	text_init(&t, &k->hidden->mem, &s);
	count_line(&t, k);
	first_death(&t, k);
	if (k->read)
		ranks_table_text(&t, k);
	skew(&t, k);
	lists(&t, k);
	in_full(&t, k);
	st = out_text(&t, write, ctx, err);
	if (!st && k->worst)
		st = plim_report_text(k->worst, style, write, ctx, err);
	for (size_t i = 0; !st && i < k->also_count; i++)
		st = also_in_full(k, &k->also[i], &s, style, write, ctx, err);
	return st;
}
