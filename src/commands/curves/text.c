/* The runs for a person: a table of all, then of each what is wrong, its curves and what to do. */
#include "base/base.h"
#include "commands/curves/curves.h"
#include "commands/out.h"

#include <math.h>
#include <stdio.h>

#define PLOT_ROWS 11
#define PLOT_COLUMNS_MAX 200
#define LABEL 9 /* columns of the scale */

/* ---- the plot ---- */

struct plot {
	unsigned columns;
	double from, to;  /* steps */
	double low, high; /* values, on the scale that is drawn */
	bool logarithmic;
	unsigned char dots[PLOT_ROWS][PLOT_COLUMNS_MAX]; /* braille: the training loss */
	char marks[PLOT_ROWS][PLOT_COLUMNS_MAX];         /* o: an evaluation, x: not finite */
	char below[PLOT_COLUMNS_MAX];                    /* ^: a finding begins */
};

static double scaled(const struct plot *p, double v)
{
	return p->logarithmic ? log10(v) : v;
}

/* The values that the scale must show; what is far over all others (a spike's tip) may be cut. */
static bool set_scale(struct plot *p, const struct series_curve *const *curves, size_t n)
{
	double low = INFINITY, high = -INFINITY, late = -INFINITY;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; curves[i] && j < curves[i]->buckets.n; j++) {
			const struct series_bucket *b = &curves[i]->buckets.at[j];

			if (isnan(b->mean))
				continue;
			low = fmin(low, b->mean);
			high = fmax(high, b->mean);
			if (j > curves[i]->buckets.n / 20)
				late = fmax(late, b->mean);
		}
	if (!(low <= high))
		return false;
	p->logarithmic = low > 0 && high > 20 * low;
	if (!p->logarithmic && isfinite(late) && high - low > 3 * (late - low) && late > low)
		high = late; /* the first steep part would hide the rest */
	p->low = scaled(p, low);
	p->high = scaled(p, high);
	if (p->high <= p->low) {
		p->low -= fabs(p->low) * 0.05 + 1e-9;
		p->high += fabs(p->high) * 0.05 + 1e-9;
	}
	return true;
}

/* Where a step stands, in parts of which a column has `parts`. */
static unsigned column_of(const struct plot *p, double step, unsigned parts)
{
	double at = p->to > p->from ? (step - p->from) / (p->to - p->from) : 0;
	double c = at * (p->columns * parts - 1);

	return c <= 0 ? 0 : c >= p->columns * parts ? p->columns * parts - 1 : (unsigned)(c + 0.5);
}

static unsigned curves_row_of(const struct plot *p, double value, unsigned parts)
{
	double at = (p->high - scaled(p, value)) / (p->high - p->low);
	double r = at * (PLOT_ROWS * parts - 1);

	return !(r > 0) ? 0 : r >= PLOT_ROWS * parts ? PLOT_ROWS * parts - 1 : (unsigned)(r + 0.5);
}

static void dot(struct plot *p, unsigned x, unsigned y)
{
	static const unsigned char bit[4][2] = { { 1, 8 }, { 2, 16 }, { 4, 32 }, { 64, 128 } };

	p->dots[y / 4][x / 2] |= bit[y % 4][x % 2];
}

/* A line between neighbours; where values are not finite it ends. */
static void draw_dots(struct plot *p, const struct series_curve *c)
{
	bool joined = false;
	unsigned from = 0, above = 0;

	for (size_t i = 0; i < c->buckets.n; i++) {
		const struct series_bucket *b = &c->buckets.at[i];
		unsigned x = column_of(p, b->step, 2), y;

		for (unsigned k = joined || !i ? x / 2 : from / 2 + 1; b->bad && k <= x / 2; k++)
			p->marks[0][k] = 'x';
		if (isnan(b->mean) || (p->logarithmic && b->mean <= 0)) {
			joined = false;
			from = x;
			continue;
		}
		y = curves_row_of(p, b->mean, 4);
		dot(p, x, y);
		for (unsigned k = from + 1; joined && k < x; k++)
			dot(p, k,
			    (unsigned)((double)above +
				       ((double)y - above) * (k - from) / (x - from) + 0.5));
		joined = true;
		from = x;
		above = y;
	}
}

static void draw_marks(struct plot *p, const struct series_curve *c)
{
	for (size_t i = 0; i < c->buckets.n; i++) {
		const struct series_bucket *b = &c->buckets.at[i];
		unsigned x = column_of(p, b->step, 1);

		if (b->bad)
			p->marks[0][x] = 'x';
		else if (!p->logarithmic || b->mean > 0)
			p->marks[curves_row_of(p, b->mean, 1)][x] = 'o';
	}
}

static void put_curves_row(struct text *t, const struct plot *p, unsigned row)
{
	for (unsigned x = 0; x < p->columns; x++) {
		unsigned char dots = p->dots[row][x];
		char mark = p->marks[row][x];

		if (mark) {
			text_hue(t, mark == 'x' ? TEXT_BAD : TEXT_GOOD);
			text_put(t, &mark, 1);
			text_plain(t);
		} else if (!dots) {
			text_puts(t, " ");
		} else if (t->style.utf8) {
			char c[3] = { (char)0xe2, (char)(0xa0 + (dots >> 6)),
				      (char)(0x80 + (dots & 63)) };

			text_put(t, c, 3);
		} else {
			text_puts(t, dots & 0x1b ? (dots & 0xe4 ? ":" : "'") : ".");
		}
	}
}

static void put_plot(struct text *t, const struct plot *p)
{
	char label[32], ends[2][32];

	for (unsigned row = 0; row < PLOT_ROWS; row++) {
		double v = p->high - (p->high - p->low) * row / (PLOT_ROWS - 1);
		bool told = row % 5 == 0;

		v = p->logarithmic ? pow(10, v) : v;
		text_printf(t, "%*s %s", LABEL, told ? series_value_text(label, v) : "",
			    t->style.utf8 ? "\xe2\x94\x82" : "|");
		put_curves_row(t, p, row);
		text_puts(t, "\n");
	}
	text_printf(t, "%*s %s", LABEL, p->logarithmic ? "log" : "",
		    t->style.utf8 ? "\xe2\x94\x94" : "+");
	for (unsigned x = 0; x < p->columns; x++)
		text_puts(t, p->below[x] ? "^" : t->style.utf8 ? "\xe2\x94\x80" : "-");
	series_step_text(ends[0], p->from);
	series_step_text(ends[1], p->to);
	text_printf(t, "\n%*s  %s%*s\n", LABEL, "", ends[0], (int)p->columns - (int)strlen(ends[0]),
		    ends[1]);
}

static void put_curve_name(struct text *t, const struct series_monitor *m, uint32_t series)
{
	const char *name = series_told_name(m, series);

	text_name_fit(t, name, strlen(name), 24, TEXT_CUT_LEFT);
}

static void plot_run(struct text *t, const struct series_run *r, const struct plim_curves_run *o)
{
	const struct series_monitor *m = &r->monitor;
	const struct series_curve *curves[2] = {
		m->train != SERIES_NONE ? &r->curves.at[m->train] : NULL,
		m->val != SERIES_NONE && m->watches.at[m->val].role == PLIM_ROLE_VAL_LOSS
			? &r->curves.at[m->val]
			: NULL
	};
	struct plot p = { .columns = (t->style.width ? t->style.width : 80) - LABEL - 3,
			  .from = o->first_step,
			  .to = o->last_step };

	if (p.columns > PLOT_COLUMNS_MAX)
		p.columns = PLOT_COLUMNS_MAX;
	if (o->points < 4 || !(p.to > p.from) || !set_scale(&p, curves, 2))
		return;
	if (curves[0])
		draw_dots(&p, curves[0]);
	if (curves[1])
		draw_marks(&p, curves[1]);
	for (size_t i = 0; i < o->finding_count; i++)
		if (o->findings[i].severity != PLIM_SEVERITY_INFO && o->findings[i].step >= p.from)
			p.below[column_of(&p, o->findings[i].step, 1)] = 1;
	text_puts(t, "\n");
	put_plot(t, &p);
	text_printf(t, "%*s  ", LABEL, "");
	if (curves[0]) {
		text_puts(t, t->style.utf8 ? "\xe2\xa0\xa4 " : ". ");
		put_curve_name(t, m, m->train);
	}
	if (curves[1]) {
		text_puts(t, curves[0] ? "   o " : "o ");
		put_curve_name(t, m, m->val);
	}
	text_puts(t, "\n");
}

/* ---- what was found ---- */

static void put_severity(struct text *t, enum plim_severity s)
{
	text_hue(t, s == PLIM_SEVERITY_ERROR  ? TEXT_BAD
		    : s == PLIM_SEVERITY_INFO ? TEXT_DIM
					      : TEXT_HEAD);
	text_puts(t, plim_severity_name(s));
	text_plain(t);
}

static void put_finding(struct text *t, const struct plim_finding *f, bool brief)
{
	char head[64];

	text_puts(t, "\n");
	put_severity(t, f->severity);
	snprintf(head, sizeof(head), "  %s  ", f->id);
	text_puts(t, head);
	text_wrap_name(t, (unsigned)(strlen(plim_severity_name(f->severity)) + strlen(head)), 2,
		       f->title);
	if (brief)
		return;
	for (size_t i = 0; i < f->evidence_count; i++) {
		text_puts(t, "  ");
		text_wrap_name(t, 2, 4, f->evidence[i]);
	}
	for (size_t i = 0; i < f->fix_count && f->severity != PLIM_SEVERITY_INFO; i++) {
		text_puts(t, "  - ");
		text_wrap_name(t, 4, 4, f->fix[i]);
	}
	if (f->confidence < 0.8) {
		text_puts(t, "  ");
		text_wrap(t, 2, 4, "how sure: %.0f %%", 100 * f->confidence);
	}
}

static void put_back(struct text *t, const struct plim_curves_run *o)
{
	const struct plim_curves_back *b = &o->go_back;
	char step[32], at[32];

	if (isnan(b->step))
		return;
	out_head(t, "Go back");
	text_printf(t, " to step %s: %s\n", series_step_text(step, b->step), b->why);
	text_puts(t, "  ");
	if (b->checkpoint) {
		struct text words;

		text_init(&words, t->mem, &t->style);
		text_printf(&words, "%s (step %s); plimsoll ckpt verify says whether it is whole",
			    b->checkpoint, series_step_text(at, b->checkpoint_step));
		text_wrap_name(t, 2, 2, text_get(&words));
		text_release(&words);
	} else {
		text_puts(t, "no checkpoint at or before it was found next to the log\n");
	}
}

/* ", 3.2 h", or nothing where it is not known or next to nothing. */
static const char *duration(char *buffer, double seconds)
{
	static const struct {
		double from, one;
		const char *unit;
	} units[] = { { 7200, 3600, "h" }, { 120, 60, "min" }, { 1, 1, "s" } };

	for (size_t i = 0; i < 3; i++)
		if (seconds >= units[i].from) {
			snprintf(buffer, 32, ", %.3g %s", seconds / units[i].one, units[i].unit);
			return buffer;
		}
	return "";
}

static void put_policies(struct text *t, const struct plim_curves_run *o)
{
	struct text_table b;
	char a[32], c[32], d[32], time[32];
	bool any = false;

	for (size_t i = 0; i < o->policy_count; i++)
		any |= !isnan(o->policies[i].stop_step);
	if (!any)
		return;
	out_head(t, "Early stopping");
	text_puts(t, " as each would have done it, on ");
	text_wrap_name(t, 41, 2, o->best.series ? o->best.series : "?");
	text_table_init(&b, t, "lrrrl", TEXT_CUT_RIGHT);
	text_cell_printf(&b, "rule");
	text_cell_printf(&b, "patience");
	text_cell_printf(&b, "stops at");
	text_cell_printf(&b, "keeps");
	text_cell_printf(&b, "saves");
	for (size_t i = 0; i < o->policy_count; i++) {
		const struct plim_curves_policy *p = &o->policies[i];

		text_cell_printf(&b, "%s", plim_stop_policy_name(p->policy));
		text_cell_count(&b, p->patience);
		text_cell_printf(&b, "%s",
				 isnan(p->stop_step) ? "-" : series_step_text(a, p->stop_step));
		text_cell_printf(&b, "%s",
				 isnan(p->best_step) ? "-" : series_step_text(c, p->best_step));
		if (isnan(p->stop_step))
			text_cell_printf(&b, "it goes on");
		else
			text_cell_printf(&b, "%s steps%s", series_step_text(d, p->saved_steps),
					 duration(time, p->saved_seconds));
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

static void put_series(struct text *t, const struct plim_curves_run *o)
{
	struct text_table b;
	char v[6][32];

	out_title(t, "Series");
	text_table_init(&b, t, "lrrrrl", TEXT_CUT_MIDDLE);
	text_cell_printf(&b, "taken for");
	text_cell_printf(&b, "values");
	text_cell_printf(&b, "first");
	text_cell_printf(&b, "last");
	text_cell_printf(&b, "least");
	text_cell_printf(&b, "name");
	for (size_t i = 0; i < o->series_count; i++) {
		const struct plim_curves_series *s = &o->series[i];

		text_cell_printf(&b, "%s%s", plim_role_name(s->role),
				 s->role_given ? " (given)" : "");
		text_cell_count(&b, s->points);
		text_cell_printf(&b, "%s", series_value_text(v[0], s->first));
		text_cell_printf(&b, "%s", series_value_text(v[1], s->last));
		text_cell_printf(&b, "%s", series_value_text(v[2], s->min));
		text_cell_name(&b, s->name, strlen(s->name));
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

/* Which series were understood: mistakes here make all else wrong, so it is always shown. */
static void put_mapping(struct text *t, const struct plim_curves_run *o)
{
	struct text words;
	size_t shown = 0, others = 0;

	text_init(&words, t->mem, &t->style);
	for (size_t i = 0; i < o->series_count; i++) {
		const struct plim_curves_series *s = &o->series[i];

		if (s->role == PLIM_ROLE_OTHER || shown >= 8) {
			others++;
			continue;
		}
		text_printf(&words, "%s%s = %.60s", shown++ ? ", " : "", plim_role_name(s->role),
			    s->name);
	}
	if (others)
		text_printf(&words, "%s%zu other%s", shown ? "; " : "", others, text_s(others));
	text_puts(t, "  series  ");
	text_wrap_name(t, 10, 10, text_get(&words));
	text_release(&words);
}

static void put_run(struct text *t, const struct series_run *r, const struct plim_curves_run *o,
		    unsigned flags)
{
	bool brief = flags & PLIM_CURVES_TEXT_BRIEF;
	char a[32], b[32], c[32], number[32];

	text_hue(t, TEXT_HEAD);
	text_name_fit(t, o->name, strlen(o->name), t->style.width ? t->style.width : 80,
		      TEXT_CUT_LEFT);
	text_plain(t);
	text_printf(t, "\n  log     %s, %s values, steps %s to %s\n", o->kind,
		    text_number(number, o->points), series_step_text(a, o->first_step),
		    series_step_text(b, o->last_step));
	for (size_t i = 0; i < r->asides && i < o->note_count; i++) {
		text_puts(t, "  aside   ");
		text_wrap_name(t, 10, 10, o->notes[i]);
	}
	put_mapping(t, o);
	if (o->best.series && !isnan(o->best.step)) {
		text_puts(t, "  best    ");
		text_name_fit(t, o->best.series, strlen(o->best.series), 40, TEXT_CUT_LEFT);
		text_printf(t, " %s at step %s\n", series_value_text(c, o->best.value),
			    series_step_text(a, o->best.step));
		if (o->best.checkpoint) {
			text_puts(t, "          ");
			text_name_fit(t, o->best.checkpoint, strlen(o->best.checkpoint),
				      (t->style.width ? t->style.width : 80) - 10, TEXT_CUT_LEFT);
			text_puts(t, "\n");
		}
	}
	text_puts(t, "  verdict ");
	text_wrap_name(t, 10, 10, o->verdict);
	if (!brief && !(flags & PLIM_CURVES_TEXT_NO_PLOT))
		plot_run(t, r, o);
	for (size_t i = 0; i < o->finding_count; i++)
		put_finding(t, &o->findings[i], brief);
	if (!brief) {
		put_back(t, o);
		put_policies(t, o);
	}
	if (flags & PLIM_CURVES_TEXT_SERIES)
		put_series(t, o);
	if (o->note_count > r->asides)
		out_list(t, "Notes", o->notes + r->asides, o->note_count - r->asides);
}

/* "nan, explosion": what is wrong, as one looks for it below. */
static void put_ids(struct text *t, const struct plim_curves_run *o)
{
	unsigned told = 0;

	for (size_t i = 0; i < o->finding_count; i++) {
		bool again = o->findings[i].severity == PLIM_SEVERITY_INFO;

		for (size_t j = 0; j < i; j++)
			again |= !strcmp(o->findings[j].id, o->findings[i].id);
		if (again)
			continue;
		if (!told)
			text_hue(t, o->severity == PLIM_SEVERITY_ERROR ? TEXT_BAD : TEXT_HEAD);
		text_printf(t, "%s%s", told++ ? ", " : "", o->findings[i].id);
	}
	if (told)
		text_plain(t);
	else
		text_puts(t, o->verdict);
}

static void put_table(struct text *t, const struct plim_curves *c)
{
	struct text_table b;
	char v[32];

	text_printf(t, "%zu runs\n\n", c->run_count);
	text_table_init(&b, t, "lrrrl", TEXT_CUT_RIGHT);
	text_cell_printf(&b, "run");
	text_cell_printf(&b, "last step");
	text_cell_printf(&b, "best");
	text_cell_printf(&b, "at step");
	text_cell_printf(&b, "found");
	for (size_t i = 0; i < c->run_count; i++) {
		const struct plim_curves_run *o = &c->runs[i];
		unsigned room = (t->style.width ? t->style.width : 80) * 3 / 10;

		text_name_fit(text_cell(&b), o->name, strlen(o->name), room, TEXT_CUT_LEFT);
		text_cell_end(&b);
		text_cell_printf(&b, "%s",
				 isnan(o->last_step) ? "-" : series_step_text(v, o->last_step));
		text_cell_printf(&b, "%s",
				 isnan(o->best.value) ? "-" : series_value_text(v, o->best.value));
		text_cell_printf(&b, "%s",
				 isnan(o->best.step) ? "-" : series_step_text(v, o->best.step));
		put_ids(text_cell(&b), o);
		text_cell_end(&b);
	}
	text_table_write(t, &b, 0);
	text_table_release(&b);
}

enum plim_status plim_curves_text(const struct plim_curves *c, unsigned flags,
				  const struct plim_text_style *style, plim_write_fn *write,
				  void *ctx, struct plim_err *err)
{
	struct text_style s = { style->width, style->color, style->utf8 };
	struct text t;

	text_init(&t, &c->hidden->mem, &s);
	if (c->run_count > 1)
		put_table(&t, c);
	for (size_t i = 0; i < c->run_count; i++) {
		/* Of many runs only those with something to say are reported in full. */
		if (c->run_count > 4 && c->runs[i].severity == PLIM_SEVERITY_INFO)
			continue;
		if (c->run_count > 1)
			text_puts(&t, "\n");
		put_run(&t, c->hidden->set.runs.at[i], &c->runs[i],
			flags | (c->run_count > 4 ? PLIM_CURVES_TEXT_BRIEF : 0));
	}
	out_list(&t, "Notes on the whole", c->notes, c->note_count);
	return out_text(&t, write, ctx, err);
}
