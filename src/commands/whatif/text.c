/* The answer for a person: what to set, what it costs, and what was tried. */
#include "commands/out.h"
#include "commands/whatif/whatif.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *shown(const char *settings)
{
	return *settings ? settings : "(default)";
}

static const struct plim_whatif_run *recommended(const struct plim_whatif *w)
{
	for (size_t i = 0; i < w->run_count; i++)
		if (w->runs[i].settings == w->recommended)
			return &w->runs[i];
	return NULL;
}

/* How the recorded settings are called where they come to something else than the recording did. */
static const char *own_name(const struct plim_whatif *w)
{
	return whatif_as_it_was(w) ? "as recorded" : "with the recorded settings";
}

#define RESERVED_TEXT 80

/* "9.31 GiB", or "9.31 GiB to 10.45 GiB". */
static const char *text_reserved(char buffer[RESERVED_TEXT], const struct plim_whatif_run *run)
{
	const struct plim_interval *range = &run->reserved_peak_range_bytes;
	char low[32], high[32];

	if (!whatif_is_range(run))
		return text_size(buffer, run->reserved_peak_bytes);
	snprintf(buffer, RESERVED_TEXT, "%s to %s", text_size(low, range->low),
		 text_size(high, range->high));
	return buffer;
}

/* "it survives; as recorded it dies at event 41,964" */
static void compare_whatif(struct text *t, const struct plim_whatif *w,
			   const struct plim_whatif_run *run)
{
	const struct plim_whatif_run *own = w->as_recorded;
	char a[RESERVED_TEXT], b[32], c[RESERVED_TEXT], d[32];

	if (whatif_fails_at_once(own))
		text_wrap(t, 2, 2, "with it the recording runs to its end; %s it does not fit",
			  own_name(w));
	else if (own->outcome == PLIM_WHATIF_OOM)
		text_wrap(t, 2, 2, "with it the recording runs to its end; %s it dies at event %s",
			  own_name(w), text_number(a, own->oom_event));
	else if (run->smallest_limit_bytes != PLIM_UNKNOWN)
		text_wrap(t, 2, 2,
			  "with it the recording reserves %s, and needs at least %s; %s %s, and %s",
			  text_reserved(a, run), text_size(b, run->smallest_limit_bytes),
			  own_name(w), text_reserved(c, own),
			  text_size(d, own->smallest_limit_bytes));
	else
		text_wrap(t, 2, 2, "with it the recording reserves %s, %s %s",
			  text_reserved(a, run), own_name(w), text_reserved(c, own));
}

static int none_survives(const struct plim_whatif *w)
{
	int n = w->as_recorded->outcome == PLIM_WHATIF_OK;

	for (size_t i = 0; i < w->run_count; i++)
		n += w->runs[i].outcome == PLIM_WHATIF_OK;
	return !n;
}

/* "48.00 MiB more every step (plimsoll report shows where): after 380 to 412 more steps 22.64 GiB are full" */
static void leak(struct text *t, const struct plim_whatif *w)
{
	const struct plim_whatif_leak *l = w->leak;
	const char *many = l && !strcmp(l->period, "forward pass") ? "es" : "s";
	char a[32], b[32], c[32], fill[160] = "";

	if (!l)
		return;
	text_hue(t, TEXT_BAD);
	text_puts(t, "It leaks: ");
	text_plain(t);
	if (whatif_leaks_to_death(w))
		snprintf(fill, sizeof(fill),
			 "; %s are full after %s to %s more %s%s, if this continues",
			 text_size(a, l->fill->limit_bytes),
			 text_number(b, l->fill->repetitions.low),
			 text_number(c, l->fill->repetitions.high), l->period, many);
	text_wrap(t, 10, 2, "%s more every %s (plimsoll report shows where)%s",
		  text_size((char[32]){ 0 }, l->per_period_bytes), l->period, fill);
}

static void no_advice(struct text *t, const struct plim_whatif *w)
{
	text_hue(t, TEXT_HEAD);
	text_puts(t, w->withheld ? "No advice: " : "Settings: ");
	text_plain(t);
	if (w->withheld)
		text_wrap_name(t, 11, 2, w->withheld);
	else if (none_survives(w))
		text_wrap(t, 10, 2, "none of these survives");
	else
		text_wrap(t, 10, 2, "none of these is clearly better than the recorded ones");
}

static void whatif_verdict(struct text *t, const struct plim_whatif *w)
{
	const struct plim_whatif_run *run = recommended(w);

	if (!run) {
		no_advice(t, w);
		return;
	}
	text_hue(t, TEXT_GOOD);
	text_puts(t, run->plan ? "Use " : "Set ");
	text_plain(t);
	if (!run->plan)
		text_printf(t, "%s=", w->hidden->search.platform.variable);
	text_puts(t, run->settings);
	text_puts(t, "\n  ");
	compare_whatif(t, w, run);
}

static void costs(struct text *t, const struct plim_whatif *w)
{
	const struct plim_whatif_run *run = recommended(w);

	if (run)
		out_list(t, "Known costs of this advice", run->warnings, run->warning_count);
}

/* Which columns there are, and how wide names in the last one may be: settings are typed again, so none is cut. */
struct columns {
	int with_outcome, with_smallest;
	size_t room;
};

/* What a run comes to: "survives", "dies later" (of a leak), "dies at 1,137", with a question mark where it is not certain. */
static void outcome(struct text *t, const struct plim_whatif *w, const struct plim_whatif_run *run)
{
	if (run->outcome == PLIM_WHATIF_OK) {
		text_puts(t, whatif_leaks_to_death(w) ? "dies later" : "survives");
	} else if (whatif_fails_at_once(run)) {
		text_puts(t, "does not fit");
	} else {
		text_puts(t, "dies at ");
		text_count(t, run->oom_event);
	}
	text_puts(t, run->outcome_certain ? "" : "?");
}

static void whatif_row(struct text_table *b, const struct plim_whatif *w,
		       const struct plim_whatif_run *run, const char *name, const struct columns *c)
{
	int with_outcome = c->with_outcome, with_smallest = c->with_smallest;
	char reserved[RESERVED_TEXT];

	if (with_outcome) {
		outcome(text_cell(b), w, run);
		text_cell_end(b);
	}
	text_cell_printf(b, "%s", text_reserved(reserved, run));
	text_cell_count(b, run->retries);
	if (with_smallest)
		text_cell_bytes(b, run->smallest_limit_bytes);
	text_cell_name(b, name, strlen(name) <= c->room ? strlen(name) : 0);
}

#define NARROW 64 /* columns below which a table has no room for names */

/* A run in two lines. */
static void stacked(struct text *t, const struct plim_whatif *w, const struct plim_whatif_run *run,
		    const char *name)
{
	struct text words;
	char a[32], reserved[RESERVED_TEXT];

	text_puts(t, "  ");
	text_wrap_name(t, 2, 4, name);
	text_init(&words, t->mem, &t->style);
	outcome(&words, w, run);
	text_puts(&words, ", ");
	text_printf(&words, "%s reserved, ", text_reserved(reserved, run));
	text_count(&words, run->retries);
	text_puts(&words, run->retries == 1 ? " retry" : " retries");
	if (run->smallest_limit_bytes != PLIM_UNKNOWN)
		text_printf(&words, ", needs %s", text_size(a, run->smallest_limit_bytes));
	text_puts(t, "      ");
	text_wrap(t, 6, 6, "%s", text_get(&words));
	text_release(&words);
}

/* Does every run certainly reach the end of the recording?  Then that is said once. */
static int all_survive(const struct plim_whatif *w)
{
	size_t n = w->as_recorded->outcome == PLIM_WHATIF_OK && w->as_recorded->outcome_certain;

	for (size_t i = 0; i < w->run_count; i++)
		n += w->runs[i].outcome == PLIM_WHATIF_OK && w->runs[i].outcome_certain;
	return n == w->run_count + 1;
}

/* The rows of a table that is written, with a name that had no room in its row in a line below it. */
static void with_names(struct text *t, const struct plim_whatif *w,
		       const struct plim_whatif_run *const *order, const struct columns *c,
		       const char *rows)
{
	for (size_t i = 0; *rows; i++) {
		size_t n = strcspn(rows, "\n");
		const char *name = !i                  ? ""
				   : i <= w->run_count ? shown(order[i - 1]->settings)
						       : own_name(w);

		while (n && strlen(name) > c->room && rows[n - 1] == ' ')
			n--;
		text_put(t, rows, n);
		text_puts(t, "\n");
		if (strlen(name) > c->room) {
			text_puts(t, "      ");
			text_wrap_code(t, 6, 6, name);
		}
		rows += strcspn(rows, "\n");
		rows += *rows == '\n';
	}
}

/* What the other columns leave of a line. */
static size_t room_for_names(const struct plim_whatif *w, const struct columns *c,
			     const struct text *t)
{
	size_t used[3] = { 0, strlen("reserved"), strlen("needs") };
	char size[RESERVED_TEXT];

	for (size_t i = 0; i <= w->run_count; i++) {
		const struct plim_whatif_run *run = i < w->run_count ? &w->runs[i] : w->as_recorded;
		struct text words;

		text_init(&words, t->mem, &t->style);
		outcome(&words, w, run);
		used[0] = used[0] > words.n ? used[0] : words.n;
		text_release(&words);
		text_reserved(size, run);
		used[1] = used[1] > strlen(size) ? used[1] : strlen(size);
		text_size(size, run->smallest_limit_bytes);
		used[2] = used[2] > strlen(size) ? used[2] : strlen(size);
	}
	return (t->style.width ? t->style.width : 80) -
	       (2 + (c->with_outcome ? used[0] + 2 : 0) + used[1] + 2 + strlen("retries") + 2 +
		(c->with_smallest ? used[2] + 2 : 0));
}

static void in_columns(struct text *t, const struct plim_whatif *w,
		       const struct plim_whatif_run *const *order)
{
	struct columns c = { .with_outcome = !all_survive(w),
			     .with_smallest =
				     w->as_recorded->smallest_limit_bytes != PLIM_UNKNOWN };
	const char *letters = c.with_smallest ? "lrrrl" : "lrrl";
	struct text_table b;
	struct text rows;

	c.room = room_for_names(w, &c, t);
	text_table_init(&b, t, c.with_outcome ? letters : letters + 1, TEXT_CUT_MIDDLE);
	if (c.with_outcome)
		text_cell_printf(&b, "outcome");
	text_cell_printf(&b, "reserved");
	text_cell_printf(&b, "retries");
	if (c.with_smallest)
		text_cell_printf(&b, "needs");
	text_cell_printf(&b, "settings, best first");
	for (size_t i = 0; i < w->run_count; i++)
		whatif_row(&b, w, order[i], shown(order[i]->settings), &c);
	whatif_row(&b, w, w->as_recorded, own_name(w), &c);
	text_init(&rows, t->mem, &t->style);
	text_table_write(&rows, &b, 2);
	with_names(t, w, order, &c, text_get(&rows));
	text_release(&rows);
	text_table_release(&b);
}

/* What is advised comes first, whatever its rank: others can need as little and reserve far more. */
static void advised_first(const struct plim_whatif *w, const struct plim_whatif_run **order)
{
	const struct plim_whatif_run *run = recommended(w);
	size_t at = 0;

	if (!run)
		return;
	while (order[at] != run)
		at++;
	memmove(order + 1, order, at * sizeof(*order));
	order[0] = run;
}

static void whatif_table_text(struct text *t, const struct plim_whatif *w)
{
	const struct plim_whatif_run **order = calloc(w->run_count + 1, sizeof(*order));

	if (!order)
		return;
	allocator_search_rank(w, order);
	advised_first(w, order);
	if (t->style.width && t->style.width < NARROW) {
		for (size_t i = 0; i < w->run_count; i++)
			stacked(t, w, order[i], shown(order[i]->settings));
		stacked(t, w, w->as_recorded, own_name(w));
	} else {
		in_columns(t, w, order);
	}
	free(order);
}

static void bound(struct text *t, const struct plim_whatif *w)
{
	const struct plim_whatif_bound *b = &w->bound;
	char x[32], y[32];

	text_puts(t, "\n");
	text_hue(t, TEXT_HEAD);
	text_puts(t, "The same requests");
	text_plain(t);
	if (!strcmp(b->basis, "none"))
		text_puts(t, ", without a limit\n");
	else if (!strcmp(b->basis, "given"))
		text_printf(t, ", limit %s\n", text_size(x, b->limit_bytes));
	else if (!strcmp(b->basis, "gpu"))
		text_wrap(t, 17, 2, ", GPU %s: %s, after %s for memory outside PyTorch", b->gpu,
			  text_size(x, b->limit_bytes), text_size(y, b->allowance_bytes));
	else if (recording_is_plan(w->hidden->recording->recording))
		text_printf(t, ", limit %s, as in the plan\n", text_size(x, b->limit_bytes));
	else
		text_wrap(t, 17, 2,
			  ", limit %s: the job was allowed to reserve that much, and refused %s",
			  text_size(x, b->limit_bytes), text_size(y, b->recorded_bytes.high));
}

static void foot(struct text *t, const struct plim_whatif *w)
{
	const struct program *p = w->hidden->program;
	char a[32], b[32];

	text_puts(t, "\n");
	text_wrap(t, 0, 2,
		  "Floor: the requests that are live together need %s%s, before rounding; a "
		  "perfect allocator would "
		  "need %s",
		  text_size(a, w->floor.requested_peak_bytes),
		  p->death == TRACE_NONE ? "" : " with the request that failed",
		  text_size(b, w->floor.packed_peak_bytes));
	if (!w->self_check.exact)
		return;
	text_hue(t, TEXT_GOOD);
	text_puts(t, "Checked: ");
	text_plain(t);
	text_wrap(t, 9, 2, "%s event%s predicted, each as it was recorded",
		  text_number(a, w->self_check.events), text_s(w->self_check.events));
}

/* ": GPU 1 of 3, 596 events" */
static void head(struct text *t, const struct plim_whatif *w)
{
	size_t events = w->hidden->device->device->events.n, devices = whatif_devices(w);

	text_puts(t, ": ");
	if (devices > 1)
		text_printf(t, "GPU %llu of %zu, ", (unsigned long long)w->device, devices);
	text_count(t, events);
	text_puts(t, events == 1 ? " event\n\n" : " events\n\n");
}

enum plim_status plim_whatif_text(const struct plim_whatif *w, const struct plim_text_style *style,
				  plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	struct text t;

	text_init(&t, &w->hidden->recording->mem, &s);
	text_hue(&t, TEXT_HEAD);
	text_name_fit(&t, w->source.path, strlen(w->source.path), (s.width ? s.width : 80) - 30,
		      TEXT_CUT_LEFT);
	text_plain(&t);
	head(&t, w);
	leak(&t, w);
	whatif_verdict(&t, w);
	bound(&t, w);
	if (w->bound.limit_bytes != PLIM_UNKNOWN && all_survive(w))
		text_puts(&t, "  each runs to the end of the recording\n");
	whatif_table_text(&t, w);
	foot(&t, w);
	costs(&t, w);
	out_list(&t, "Notes", w->notes, w->note_count);
	return out_text(&t, write, ctx, err);
}
