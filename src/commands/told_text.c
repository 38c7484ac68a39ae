/* What is reported first, printed: in a few columns, and in as many lines as there are. */
#include "commands/told.h"

#include "commands/out.h"

#include <string.h>

#define NARROW 64 /* columns; below, what is said next to a name is left out */
#define OTHERS_MAX 3
#define SIZE_COLUMNS 14 /* of a row of holders, with what is around it */
#define CHART_EVENTS_MIN 10

unsigned told_columns(const struct text *t)
{
	return t->style.width ? t->style.width : 80;
}

int told_narrow(const struct text *t)
{
	return told_columns(t) < NARROW;
}

/* A place in so many columns: the function goes first, then the start. */
static void put_place(struct text *t, const char *text, const char *brief, unsigned columns)
{
	const char *at = text_width(text, strlen(text)) > columns ? brief : text;

	text_name_fit(t, at, strlen(at), columns, TEXT_CUT_LEFT);
}

void told_put_headline(struct text *t, const struct plim_report_device *d)
{
	const struct plim_report_told *told = &d->told;
	int leak = !strcmp(told->kind, "leak"), died = !strcmp(told->kind, "died");
	const struct plim_finding *f = leak ? told_finding(d, "leak") : NULL;
	int bad = died || (f && f->severity == PLIM_SEVERITY_ERROR);
	size_t loud = leak ? strcspn(told->headline, ":") + 2 : 0; /* with its space */

	text_hue(t, bad ? TEXT_BAD : !strcmp(told->kind, "fine") ? TEXT_GOOD : TEXT_HEAD);
	text_put(t, told->headline, loud);
	if (leak)
		text_plain(t);
	text_wrap_name(t, (unsigned)loud, 2, told->headline + loud);
	text_plain(t);
}

void told_put_verdict(struct text *t, const struct plim_report_device *d)
{
	told_put_headline(t, d);
	for (size_t i = 0; i < d->told.line_count; i++) {
		const struct plim_report_line *line = &d->told.lines[i];
		unsigned hang = line->label ? TOLD_COLUMNS : 2;

		text_printf(t, line->label ? "  %-8s" : "  ", line->label);
		if (!line->brief) {
			text_wrap_name(t, hang, hang, line->text);
			continue;
		}
		put_place(t, line->text, line->brief, told_columns(t) - hang);
		text_puts(t, "\n");
	}
}

/* "What to do, best first (3 of 5, all: --why)" */
static void counted(struct text *t, const char *title, size_t shown, size_t all)
{
	out_head(t, title);
	if (shown < all)
		text_printf(t, told_narrow(t) ? " (%zu of %zu)" : " (%zu of %zu, all: --why)",
			    shown, all);
	text_puts(t, "\n");
}

void told_put_remedies(struct text *t, const struct plim_report_device *d, size_t most)
{
	size_t all = d->told.remedy_count, shown = all < most ? all : most;

	if (!all)
		return;
	counted(t, "What to do, best first", shown, all);
	for (size_t i = 0; i < shown; i++) {
		text_printf(t, "  %zu. ", i + 1);
		text_wrap_name(t, 5, 5, d->told.remedies[i]);
	}
}

/* Findings that no other part shows, a line each. */
static void others(struct text *t, const struct plim_report_device *d, const struct told_limits *l)
{
	const struct plim_finding *list[OTHERS_MAX];
	size_t shown = 0, all = 0;

	for (size_t i = 0; i < d->finding_count; i++) {
		if (told_has(d, &d->findings[i]))
			continue;
		if (shown < l->others && shown < OTHERS_MAX)
			list[shown++] = &d->findings[i];
		all++;
	}
	if (shown)
		counted(t, strcmp(d->told.kind, "fine") != 0 ? "Also" : "What stands out", shown,
			all);
	for (size_t i = 0; i < shown; i++) {
		text_printf(t, "  %-7s  ", plim_severity_name(list[i]->severity));
		text_wrap_name(t, 11, 11, list[i]->title);
		if (l->cures && list[i]->fix_count && !told_narrow(t)) {
			text_puts(t, "           fix: ");
			text_wrap_name(t, 16, 16, list[i]->fix[0]);
		}
	}
}

#define TAGS_SHOWN 4

/* "by tag: 2.34 GiB fwd, 768.00 MiB without" */
void told_put_tags(struct text *t, const struct plim_report_owners *o)
{
	struct text words;

	if (!o->tag_count)
		return;
	text_init(&words, t->mem, &t->style);
	for (size_t i = 0; i < o->tag_count && i < TAGS_SHOWN; i++) {
		const struct plim_report_tag *tag = &o->tags[i];

		text_puts(&words, i ? ", " : "by tag: ");
		text_bytes(&words, tag->bytes);
		text_puts(&words, " ");
		if (tag->name)
			text_name(&words, tag->name, strlen(tag->name));
		else
			text_puts(&words, "without");
	}
	if (o->tag_count > TAGS_SHOWN)
		text_printf(&words, " and %zu more", o->tag_count - TAGS_SHOWN);
	text_puts(t, "  ");
	text_wrap(t, 2, 2, "%s", text_get(&words));
	text_release(&words);
}

static void holders(struct text *t, const struct plim_report_device *d, size_t most)
{
	const struct plim_report_told *told = &d->told;
	uint64_t rest = d->at_peak.total_bytes;
	struct text_table b;

	if (!told->held)
		return;
	text_puts(t, "\n");
	text_hue(t, TEXT_HEAD);
	text_wrap_name(t, 0, 2, told->held);
	text_plain(t);
	if (told->kinds) {
		text_puts(t, "  ");
		text_wrap(t, 2, 2, "%s", told->kinds);
	}
	told_put_tags(t, &d->at_peak);
	text_table_init(&b, t, "rl", TEXT_CUT_LEFT);
	for (size_t i = 0; i < told->holder_count && i < most; i++) {
		const struct plim_report_holder *one = &told->holders[i];

		rest -= one->bytes;
		text_cell_bytes(&b, one->bytes);
		put_place(text_cell(&b), one->text, one->brief, told_columns(t) - SIZE_COLUMNS);
		text_cell_end(&b);
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
	if (rest) {
		text_puts(t, "  ");
		text_bytes(t, rest);
		text_puts(t, " in more: --json\n");
	}
}

void told_put_peak(struct text *t, const struct plim_report_device *d)
{
	const char *label = !d->events            ? "At the end: "
			    : d->peak.lower_bound ? "Peak seen: "
						  : "Peak: ";

	text_hue(t, TEXT_HEAD);
	text_puts(t, label);
	text_plain(t);
	text_wrap(t, (unsigned)strlen(label), 2, "%s", d->told.peak);
	if (d->told.gap_at_peak)
		text_wrap_name(t, 0, 2, d->told.gap_at_peak);
	if (d->told.gap)
		text_wrap_name(t, 0, 2, d->told.gap);
}

void told_put_stop(struct text *t, const struct plim_report_device *d)
{
	if (d->told.stop)
		text_wrap(t, 0, 2, "%s", d->told.stop);
}

void told_put_chart(struct text *t, const struct plim_report_device *d, unsigned rows, int headed)
{
	const struct plim_report_oom *last = d->oom_count ? &d->oom[d->oom_count - 1] : NULL;
	uint64_t first = d->timeline_first_event, end = d->timeline_last_event;
	struct text_chart c = { .y = d->timeline_bytes,
				.low = d->timeline_low_bytes,
				.n = d->timeline_count,
				.rows = rows,
				.mark = SIZE_MAX };
	struct text left, right;

	if (!d->timeline_count || d->events < CHART_EVENTS_MIN)
		return;
	if (headed && last && last->event >= first && last->event <= end)
		c.mark = (size_t)((last->event - first) * d->timeline_count / (end - first + 1));
	text_init(&left, t->mem, &t->style);
	text_init(&right, t->mem, &t->style);
	text_puts(&left, "event ");
	text_count(&left, first);
	text_puts(&right, "event ");
	text_count(&right, end);
	c.left = text_get(&left);
	c.right = text_get(&right);
	if (headed)
		out_head(t, "Allocated memory over the events; light: at times");
	if (headed)
		text_puts(t, c.mark == SIZE_MAX ? "\n"
			     : told_narrow(t)   ? "\n  ^ the last failure\n"
						: " (^ the last failure)\n");
	text_chart(t, &c);
	text_release(&left);
	text_release(&right);
}

void told_put_rest(struct text *t, const struct plim_report_device *d, const struct told_limits *l)
{
	told_put_remedies(t, d, l->remedies);
	others(t, d, l);
	holders(t, d, l->holders);
	text_puts(t, "\n");
	told_put_peak(t, d);
	told_put_stop(t, d);
	told_put_chart(t, d, l->rows, 0);
}
