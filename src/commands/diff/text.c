/* The difference for a person: sentences first, then the sums, then whose memory it is. */
#include "commands/diff/diff.h"

#include "commands/out.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME 14     /* columns of "peak allocated" */
#define CHANGE 12   /* of "+1023.99 MiB" */
#define SIZE 12     /* of a size, with the space before it */
#define STEPS_MAX 8 /* rows; of more steps those that changed most */
#define DETAIL 17   /* where a row's second line begins */

/* Columns that a line must have so that A's and B's sizes are shown next to the change. */
#define WIDE 64
#define MEDIUM 52
#define SUMS_WIDE (2 + NAME + 2 * SIZE + CHANGE + 2)

#define BACKWARD_OF "backward of "

static uint64_t diff_size_of(int64_t change)
{
	return change < 0 ? -(uint64_t)change : (uint64_t)change;
}

static void change(struct text *t, int64_t bytes)
{
	text_puts(t, bytes > 0 ? "+" : bytes < 0 ? "-" : "");
	text_bytes(t, diff_size_of(bytes));
}

/* A cell, right-aligned in `columns`. */
static void right(struct text *t, unsigned columns, struct text *cell)
{
	unsigned taken = text_width(text_get(cell), cell->n);

	text_repeat(t, " ", taken < columns ? columns - taken : 0);
	text_puts(t, text_get(cell));
	text_release(cell);
}

static void right_bytes(struct text *t, unsigned columns, uint64_t bytes)
{
	struct text cell;

	text_init(&cell, t->mem, &t->style);
	text_bytes(&cell, bytes);
	right(t, columns, &cell);
}

static void right_change(struct text *t, unsigned columns, int64_t bytes)
{
	struct text cell;

	text_init(&cell, t->mem, &t->style);
	change(&cell, bytes);
	right(t, columns, &cell);
}

/* ---- head ---- */

static void recording(struct text *t, const char *letter, const struct plim_diff_side *side)
{
	struct text events;

	text_init(&events, t->mem, &t->style);
	text_puts(&events, ": ");
	text_count(&events, side->source.events);
	text_puts(&events, side->source.events == 1 ? " event\n" : " events\n");
	text_hue(t, TEXT_HEAD);
	text_printf(t, "%s  ", letter);
	text_plain(t);
	text_name_fit(t, side->source.path, strlen(side->source.path),
		      t->style.width - (unsigned)events.n - 3, TEXT_CUT_LEFT);
	text_puts(t, text_get(&events));
	text_release(&events);
}

static void gate(struct text *t, const struct plim_diff_gate *g)
{
	const char *head = g && g->b_died     ? "Fails, B ran out of memory: "
			   : g && g->exceeded ? "Over the limit: "
					      : "Within the limit: ";
	struct text words;

	if (!g)
		return;
	text_init(&words, t->mem, &t->style);
	text_printf(&words, "%s changed by ", g->measure);
	change(&words, g->grown_bytes);
	if (g->device != PLIM_UNKNOWN)
		text_printf(&words, " on GPU %llu", (unsigned long long)g->device);
	text_puts(&words, ", allowed is +");
	text_bytes(&words, g->limit_bytes);
	text_puts(&words, g->certain ? "" : " (a peak may be higher than recorded)");
	text_puts(t, "\n");
	text_hue(t, g->exceeded ? TEXT_BAD : TEXT_GOOD);
	text_puts(t, head);
	text_plain(t);
	text_wrap(t, (unsigned)strlen(head), 2, "%s", text_get(&words));
	text_release(&words);
}

/* ---- sums ---- */

/* One line of sums; where there is no room, A's is left out. */
static void sum_head(struct text *t, const char *of)
{
	int wide = t->style.width >= SUMS_WIDE;

	text_printf(t, "%s%-*s", wide ? "  " : "", NAME, of);
	text_printf(t, "%*s%*s%*s\n", wide ? SIZE : 0, wide ? "A" : "", SIZE, "B",
		    wide ? CHANGE + 2 : CHANGE + 1, "change");
}

static void sum_line(struct text *t, const char *name, uint64_t a, uint64_t b, int64_t by)
{
	int wide = t->style.width >= SUMS_WIDE;

	text_printf(t, "%s%-*s", wide ? "  " : "", NAME, name);
	if (wide)
		right_bytes(t, SIZE, a);
	right_bytes(t, SIZE, b);
	right_change(t, wide ? CHANGE + 2 : CHANGE + 1, by);
	text_puts(t, "\n");
}

static void sums(struct text *t, const struct plim_diff_device *d)
{
	const struct {
		const char *name;
		const struct plim_diff_amount *amount;
	} rows[] = {
		{ "peak requested", &d->peak.requested }, { "peak allocated", &d->peak.allocated },
		{ "peak active", &d->peak.active },       { "peak reserved", &d->peak.reserved },
		{ "end allocated", &d->end.allocated },   { "end reserved", &d->end.reserved },
	};

	text_puts(t, "\n");
	sum_head(t, "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct plim_diff_amount *one = rows[i].amount;

		if (one->a_bytes != PLIM_UNKNOWN && one->b_bytes != PLIM_UNKNOWN)
			sum_line(t, rows[i].name, one->a_bytes, one->b_bytes, one->change_bytes);
	}
}

/* ---- a moment ---- */

static int larger_part(const void *a, const void *b)
{
	const struct plim_diff_part *x = a, *y = b;
	uint64_t p = diff_size_of(x->change_bytes), q = diff_size_of(y->change_bytes);

	return p != q ? (p > q ? -1 : 1) : strcmp(x->name, y->name);
}

/* "+1.10 GiB activations, -3.00 MiB gradients" */
static void parts(struct text *t, const char *label, const struct plim_diff_part *list, size_t n)
{
	struct plim_diff_part sorted[TIMELINE_CATEGORIES + TIMELINE_PHASES];
	struct text words;

	if (!n || n > sizeof(sorted) / sizeof(*sorted))
		return;
	memcpy(sorted, list, n * sizeof(*sorted));
	sort_items(sorted, n, sizeof(*sorted), larger_part);
	text_init(&words, t->mem, &t->style);
	for (size_t i = 0; i < n && sorted[i].change_bytes; i++) {
		text_puts(&words, i ? ", " : "");
		change(&words, sorted[i].change_bytes);
		text_printf(&words, " %s", recording_category_words(sorted[i].name));
	}
	text_printf(t, "  %-13s", label);
	text_wrap(t, 15, 15, "%s", words.n ? text_get(&words) : "no change");
	text_release(&words);
}

/* Columns that the numbers of a row take. */
static unsigned numbers_width(const struct text *t)
{
	unsigned sizes = t->style.width >= WIDE ? 2 : t->style.width >= MEDIUM ? 1 : 0;

	return 2 + CHANGE + sizes * SIZE + 2;
}

static void numbers(struct text *t, int64_t by, uint64_t a, uint64_t b)
{
	text_puts(t, "  ");
	right_change(t, CHANGE, by);
	if (t->style.width >= WIDE)
		right_bytes(t, SIZE, a);
	if (t->style.width >= MEDIUM)
		right_bytes(t, SIZE, b);
	text_puts(t, "  ");
}

static void counts(struct text *t, const struct plim_diff_row *row)
{
	if (row->a_count != row->b_count) {
		text_count(t, row->a_count);
		text_puts(t, " to ");
	}
	text_count(t, row->b_count);
	text_puts(t, row->b_count == 1 && row->a_count == 1 ? " allocation" : " allocations");
}

/* The line alone where that is all that differs. */
static void place_in_a(struct text *t, const struct plim_diff_row *row)
{
	const char *a = row->a_name, *b = row->name, *digits;
	size_t same = 0;

	while (a[same] && a[same] == b[same])
		same++;
	while (same && isdigit((unsigned char)a[same - 1]))
		same--;
	digits = a + same;
	a = digits + strspn(digits, "0123456789");
	b += same + strspn(b + same, "0123456789");
	if (same && digits[-1] == ':' && a > digits && !strcmp(a, b))
		text_printf(t, "line %.*s", (int)(a - digits), digits);
	else
		text_name(t, row->a_name, strlen(row->a_name));
}

/* The second line of a row: what it is, how many, where inside. */
static void details(struct text *t, const struct plim_diff_row *row)
{
	static const char *const how[] = {
		[PLIM_DIFF_LINES] = "; matched by its functions, the lines differ",
		[PLIM_DIFF_FUNCTION] = "; matched by the function's name, counts and sizes",
		[PLIM_DIFF_ONLY_A] = "; not in B's recording",
		[PLIM_DIFF_ONLY_B] = "; not in A's recording",
	};
	const char *said = row->match < sizeof(how) / sizeof(*how) ? how[row->match] : NULL;
	struct text words;

	text_init(&words, t->mem, &t->style);
	if (row->category && row->name && strcmp(row->category, row->name) != 0)
		text_printf(&words, "%s%s; ",
			    diff_size_of(row->category_change_bytes) <
					    diff_size_of(row->change_bytes)
				    ? "mostly "
				    : "",
			    recording_category_words(row->category));
	counts(&words, row);
	text_puts(&words, said && row->name ? said : "");
	if (row->a_name) {
		text_puts(&words, "; in A ");
		place_in_a(&words, row);
	}
	if (row->part && (!row->name || strcmp(row->part, row->name) != 0)) {
		text_puts(&words, "; ");
		change(&words, row->part_change_bytes);
		text_puts(&words, " through ");
		text_name(&words, row->part, strlen(row->part));
	}
	text_repeat(t, " ", DETAIL);
	text_hue(t, TEXT_DIM);
	text_wrap(t, DETAIL, DETAIL, "%s", text_get(&words));
	text_plain(t);
	text_release(&words);
}

static void row_line(struct text *t, const struct plim_diff_row *row)
{
	unsigned taken = numbers_width(t);
	const char *name =
		row->name ? recording_category_words(row->name) : recording_nobody(1, 0, 1);

	numbers(t, row->change_bytes, row->a_bytes, row->b_bytes);
	if (row->inferred && t->style.width >= WIDE) {
		text_puts(t, BACKWARD_OF);
		taken += (unsigned)strlen(BACKWARD_OF);
	}
	text_name_fit(t, name, strlen(name), t->style.width - taken, TEXT_CUT_LEFT);
	text_puts(t, "\n");
	details(t, row);
}

static void rest(struct text *t, const struct plim_diff_moment *m)
{
	if (m->rest_rows) {
		numbers(t, m->rest_change_bytes, m->rest_a_bytes, m->rest_b_bytes);
		text_puts(t, "in ");
		text_count(t, m->rest_rows);
		text_puts(t, t->style.width < MEDIUM ? " more\n" : " more (--top 0: all)\n");
	}
	if (m->unchanged_rows) {
		numbers(t, 0, m->unchanged_bytes, m->unchanged_bytes);
		text_puts(t, "in ");
		text_count(t, m->unchanged_rows);
		text_puts(t, " without change\n");
	}
	numbers(t, m->change_bytes, m->a_bytes, m->b_bytes);
	text_puts(t, "in all\n");
}

static void diff_place(struct text *t, const char *letter, const char *phase, uint64_t step)
{
	if (!phase)
		return;
	text_printf(t, "%s in %s", letter, phase);
	if (step != PLIM_UNKNOWN) {
		text_puts(t, " of step ");
		text_count(t, step);
	}
}

static void diff_moment(struct text *t, const char *when, const struct plim_diff_moment *m,
			int at_peak)
{
	struct text words;

	if (!m || !m->different)
		return;
	out_head(t, when);
	text_init(&words, t->mem, &t->style);
	if (at_peak && m->a_phase && m->b_phase) {
		diff_place(&words, "(A", m->a_phase, m->a_step);
		diff_place(&words, ", B", m->b_phase, m->b_step);
		text_puts(&words, ")");
	}
	text_puts(t, words.n ? " " : "");
	text_wrap(t, (unsigned)strlen(when) + 1, 2, "%s", text_get(&words));
	text_release(&words);
	parts(t, "by kind", m->categories, m->category_count);
	parts(t, "allocated in", m->phases, m->phase_count);
	text_printf(t, "  %*s", CHANGE, "change");
	text_printf(t, "%*s", t->style.width >= WIDE ? SIZE : 0, t->style.width >= WIDE ? "A" : "");
	text_printf(t, "%*s\n", t->style.width >= MEDIUM ? SIZE : 0,
		    t->style.width >= MEDIUM ? "B" : "");
	for (size_t i = 0; i < m->row_count; i++)
		row_line(t, &m->rows[i]);
	rest(t, m);
}

/* ---- steps ---- */

static int larger_step(const void *a, const void *b)
{
	const struct plim_diff_step *x = *(const struct plim_diff_step *const *)a,
				    *y = *(const struct plim_diff_step *const *)b;
	uint64_t p = diff_size_of(x->change_bytes), q = diff_size_of(y->change_bytes);

	if (p != q)
		return p > q ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static int by_index(const void *a, const void *b)
{
	const struct plim_diff_step *x = *(const struct plim_diff_step *const *)a,
				    *y = *(const struct plim_diff_step *const *)b;

	return (x->index > y->index) - (x->index < y->index);
}

static void steps(struct text *t, const struct plim_diff_device *d)
{
	const struct plim_diff_step **list = mem_new(t->mem, d->step_count, sizeof(*list), &t->err);
	size_t n = d->step_count, changed = 0;

	for (size_t i = 0; list && i < n; i++) {
		list[i] = &d->steps[i];
		changed += d->steps[i].change_bytes != 0;
	}
	if (list && changed) {
		sort_items(list, n, sizeof(*list), larger_step);
		n = n < STEPS_MAX ? n : STEPS_MAX;
		sort_items(list, n, sizeof(*list), by_index);
		out_head(t, n < d->step_count ? "Steps that changed most (requested)"
					      : "Peak of each step (requested)");
		text_puts(t, "\n");
		sum_head(t, "step");
		for (size_t i = 0; i < n; i++) {
			char index[24];

			snprintf(index, sizeof(index), "%llu", (unsigned long long)list[i]->index);
			sum_line(t, index, list[i]->a_requested_peak_bytes,
				 list[i]->b_requested_peak_bytes, list[i]->change_bytes);
		}
	}
	mem_free(t->mem, list, d->step_count, sizeof(*list));
}

/* ---- together ---- */

static void device(struct text *t, const struct plim_diff *d, const struct plim_diff_device *one)
{
	text_puts(t, "\n");
	if (d->device_count > 1) {
		text_hue(t, TEXT_HEAD);
		text_printf(t, "GPU %llu\n", (unsigned long long)one->device);
		text_plain(t);
	}
	if (!one->different) {
		text_hue(t, TEXT_GOOD);
		text_puts(t, "No difference ");
		text_plain(t);
		text_wrap(t, 14, 2, "in any peak, owner, step or number of events.");
		return;
	}
	for (size_t i = 0; i < one->summary_count; i++) {
		if (!i)
			text_hue(t, TEXT_HEAD);
		text_wrap_name(t, 0, 2, one->summary[i]);
		if (!i)
			text_plain(t);
	}
	sums(t, one);
	diff_moment(t, "At the peak", one->at_peak, 1);
	diff_moment(t, "At the end", one->at_end, 0);
	steps(t, one);
}

static void value(struct text *t, const char *of)
{
	if (of && *of && strspn(of, "0123456789") == strlen(of))
		text_count(t, strtoull(of, NULL, 10));
	else
		text_puts(t, !of ? "not known" : *of ? of : "(empty)");
}

static void diff_settings_text(struct text *t, const struct plim_diff *d)
{
	if (!d->setting_count)
		return;
	out_title(t, "Also different");
	for (size_t i = 0; i < d->setting_count; i++) {
		const struct plim_diff_setting *s = &d->settings[i];
		struct text words;

		text_init(&words, t->mem, &t->style);
		text_printf(&words, "%s: ", s->name);
		value(&words, s->a);
		text_puts(&words, " in A, ");
		value(&words, s->b);
		text_puts(&words, " in B");
		text_puts(t, "  - ");
		text_wrap_name(t, 4, 4, text_get(&words));
		text_release(&words);
	}
}

static void notes(struct text *t, const char *letter, const struct plim_report_source *s)
{
	for (size_t i = 0; i < s->note_count; i++) {
		text_printf(t, "  - %s, ", letter);
		text_wrap_name(t, 7, 4, s->notes[i]);
	}
}

enum plim_status plim_diff_text(const struct plim_diff *d, const struct plim_text_style *style,
				plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	struct text t;

	text_init(&t, &d->hidden->mem, &s);
	recording(&t, "A", &d->a);
	recording(&t, "B", &d->b);
	gate(&t, d->gate);
	for (size_t i = 0; i < d->device_count; i++)
		device(&t, d, &d->devices[i]);
	if (!d->device_count)
		text_puts(&t, "\nNo memory and no events of any device in either.\n");
	diff_settings_text(&t, d);
	if (d->a.source.note_count || d->b.source.note_count) {
		out_title(&t, "Notes");
	}
	notes(&t, "A", &d->a.source);
	notes(&t, "B", &d->b.source);
	return out_text(&t, write, ctx, err);
}
