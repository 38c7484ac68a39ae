/* The report for a person: the verdict first, then the evidence, then what to do. */
#include "verbs/out.h"
#include "verbs/report/report.h"
#include "verbs/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHART_ROWS 8
#define OWNERS_SHOWN 8
#define LABEL_COLUMNS 12 /* of a line such as "  bound by  limit" */
#define NARROW 64        /* columns; below, what is said beside a name is left out */

static void name_line(struct text *t, const char *label, const char *name)
{
	if (!name)
		return;
	text_printf(t, "  %-10s", label);
	text_name_fit(t, name, strlen(name), t->style.width - LABEL_COLUMNS, TEXT_CUT_LEFT);
	text_puts(t, "\n");
}

/* A label and trusted words behind it. */
static void words_line(struct text *t, const char *label, const char *words)
{
	text_printf(t, "  %-10s", label);
	text_wrap(t, LABEL_COLUMNS, LABEL_COLUMNS, "%s", words);
}

static void bound_line(struct text *t, const struct plim_verdict *v)
{
	static const char *const words[] = {
		[PLIM_BOUND_UNKNOWN] = "unknown",
		[PLIM_BOUND_DEVICE] = "the card's memory",
		[PLIM_BOUND_LIMIT] = "a limit of this process",
		[PLIM_BOUND_OTHER_PROCESS] = "other processes on the card",
		[PLIM_BOUND_NON_PYTORCH] = "this process, outside PyTorch's allocator",
	};
	char low[32], high[32];

	text_printf(t, "  %-10s", "bound by");
	text_size(low, v->bound_bytes.low);
	text_size(high, v->bound_bytes.high);
	if (v->bound_bytes.low == PLIM_UNKNOWN)
		text_wrap(t, LABEL_COLUMNS, LABEL_COLUMNS, "%s", words[v->bound_by]);
	else if (!strcmp(low, high))
		text_wrap(t, LABEL_COLUMNS, LABEL_COLUMNS, "%s; PyTorch could have %s",
			  words[v->bound_by], low);
	else
		text_wrap(t, LABEL_COLUMNS, LABEL_COLUMNS, "%s; PyTorch could have %s to %s",
			  words[v->bound_by], low, high);
}

static void request_line(struct text *t, const struct plim_report_device *d,
			 const struct plim_report_oom *oom)
{
	struct text words;

	text_init(&words, t->mem, &t->style);
	text_bytes(&words, oom->requested_bytes);
	text_puts(&words, " (event ");
	text_count(&words, oom->event);
	if (d->oom_count > 1) {
		text_puts(&words, ", the last of ");
		text_count(&words, d->oom_count);
		text_puts(&words, " failures");
	}
	told_place(&words, d, oom->phase, oom->step);
	text_puts(&words, ")");
	words_line(t, "asked for", text_get(&words));
	text_release(&words);
}

/* The ranges of record_function around a moment: "generate > vae decode". */
static void within(struct text *t, const char *label, const char **names, size_t n)
{
	struct text words;

	if (!n)
		return;
	text_init(&words, t->mem, &t->style);
	for (size_t i = 0; i < n; i++) {
		text_puts(&words, i ? " > " : "");
		text_puts(&words, names[i]);
	}
	name_line(t, label, text_get(&words));
	text_release(&words);
}

/* Has the verdict of the death told this one with its evidence? */
static int is_told(const struct plim_report_device *d, const struct plim_finding *f)
{
	static const char *const ids[] = { "oom", "fragmentation", "optimizer_first_step",
					   "outside_allocator" };

	for (size_t i = 0; d->oom_count && i < sizeof(ids) / sizeof(*ids); i++)
		if (!strcmp(f->id, ids[i]))
			return 1;
	return told_died_of_leak(d) && f == told_finding(d, "leak");
}

static void verdict(struct text *t, const struct plim_report *r, const struct plim_report_device *d)
{
	const struct plim_report_oom *oom = d->oom_count ? &d->oom[d->oom_count - 1] : NULL;
	const struct plim_verdict *v = oom ? oom->verdict : NULL;
	struct remedies todo = { .n = 0 };
	const char *head;

	if (!v)
		return;
	head = recording_is_plan(r->hidden->recording) ? (v->cause ? "Will die of " : "Will die, ")
						       : (v->cause ? "Died of " : "Died, ");
	if (oom->survived) {
		text_wrap(t, 0, 2,
			  "A failure that the program caught (a convolution's workspace, or an "
			  "except "
			  "of its own); it went on. The last one:");
		text_puts(t, "  ");
		text_wrap_name(t, 2, 2, v->headline);
	} else {
		text_hue(t, TEXT_BAD);
		text_puts(t, head);
		text_plain(t);
		text_wrap_name(t, (unsigned)strlen(head), 2, v->headline);
	}
	bound_line(t, v);
	request_line(t, d, oom);
	within(t, "within", oom->annotations, oom->annotation_count);
	if (oom->frame)
		name_line(t, "at", oom->frame);
	else if (r->hidden->recording->snapshot->has_frames)
		words_line(t, "at",
			   "code without a Python stack (autograd's backward thread, as a rule)");
	words_line(t, "in sum", v->arithmetic);
	out_list(t, "Why", v->evidence, v->evidence_count);
	told_remedies(d, &todo);
	told_what_to_do(t, &todo, todo.n);
	text_puts(t, "\n");
}

static void bullets(struct text *t, const char *title, const char **lines, size_t n)
{
	if (n)
		text_printf(t, "    %s\n", title);
	for (size_t i = 0; i < n; i++) {
		text_puts(t, "    - ");
		text_wrap_name(t, 6, 6, lines[i]);
	}
}

static void finding(struct text *t, const struct plim_finding *f, int full)
{
	text_puts(t, "  ");
	text_hue(t, f->severity == PLIM_SEVERITY_ERROR ? TEXT_BAD : TEXT_HEAD);
	text_printf(t, "%-7s", plim_severity_name(f->severity));
	text_plain(t);
	text_puts(t, "  ");
	text_wrap_name(t, 11, 11, f->title);
	if (!full)
		return;
	if (f->place.frame) {
		text_puts(t, "    ");
		text_name_fit(t, f->place.frame, strlen(f->place.frame), t->style.width - 4,
			      TEXT_CUT_LEFT);
		text_puts(t, "\n");
	}
	bullets(t, "why", f->evidence, f->evidence_count);
	bullets(t, "fix", f->fix, f->fix_count);
}

static void findings(struct text *t, const struct plim_report_device *d)
{
	int shown = 0;

	for (size_t i = 0; i < d->finding_count; i++) {
		const struct plim_finding *f = &d->findings[i];

		if (!strcmp(f->id, "oom")) /* the verdict has told it */
			continue;
		if (!shown++) {
			text_hue(t, TEXT_HEAD);
			text_puts(t, "What stands out\n");
			text_plain(t);
		}
		finding(t, f, !is_told(d, f));
	}
	text_puts(t, shown ? "\n" : "");
}

static void peaks(struct text *t, const struct plim_report_device *d)
{
	const struct {
		const char *name;
		uint64_t peak, end;
		const struct plim_report_moment *when;
	} rows[] = {
		{ "requested", d->peak.requested_bytes, d->end.requested_bytes,
		  &d->peak.requested },
		{ "allocated", d->peak.allocated_bytes, d->end.allocated_bytes,
		  &d->peak.allocated },
		{ "active", d->peak.active_bytes, d->end.active_bytes, &d->peak.active },
		{ "reserved", d->peak.reserved_bytes, d->end.reserved_bytes, &d->peak.reserved },
	};
	const int narrow = told_narrow(t);
	struct text_table b;

	text_table_init(&b, t, narrow ? "lrr" : "lrrr", TEXT_CUT_RIGHT);
	text_cell_printf(&b, "memory");
	text_cell_printf(&b, d->peak.lower_bound ? "peak seen" : "peak");
	if (!narrow)
		text_cell_printf(&b, "at event");
	text_cell_printf(&b, "at the end");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		text_cell_printf(&b, "%s", rows[i].name);
		text_cell_bytes(&b, rows[i].peak);
		if (!narrow)
			text_cell_count(&b, rows[i].when->event);
		text_cell_bytes(&b, rows[i].end);
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

/* Why a frame may be missing. */
static const char *no_frame(const struct text *t, const struct plim_report *r)
{
	return !r->hidden->recording->snapshot->has_frames ? "no stacks were recorded"
	       : t->style.width < NARROW                   ? "no Python stack"
					 : "no Python stack (autograd's backward, as a rule)";
}

struct kind {
	const char *name;
	uint64_t bytes;
};

static int larger_kind(const void *a, const void *b)
{
	const struct kind *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* What the owners' memory is for, largest first: "2.31 GiB activations, 471.07 MiB parameters". */
static void kinds(struct text *t, const struct plim_report_categories *c, uint64_t least)
{
	const uint64_t bytes[TIMELINE_CATEGORIES] = {
		[TIMELINE_PARAMETER] = c->parameter,
		[TIMELINE_GRADIENT] = c->gradient,
		[TIMELINE_OPTIMIZER_STATE] = c->optimizer_state,
		[TIMELINE_ACTIVATION] = c->activation,
		[TIMELINE_INPUT] = c->input,
		[TIMELINE_WORKSPACE] = c->workspace,
		[TIMELINE_TEMPORARY] = c->temporary,
		[TIMELINE_AUTOGRAD_DETAIL] = c->autograd_detail,
		[TIMELINE_KV_CACHE] = c->kv_cache,
		[TIMELINE_BUFFER] = c->buffer,
		[TIMELINE_UNKNOWN] = c->unknown,
		[TIMELINE_PRIOR] = c->before_recording,
	};
	struct kind list[TIMELINE_CATEGORIES];
	struct text line;

	for (int k = 0; k < TIMELINE_CATEGORIES; k++)
		list[k] = (struct kind){ recording_category_words(timeline_category_names[k]),
					 bytes[k] };
	sort_items(list, sizeof(list) / sizeof(*list), sizeof(*list), larger_kind);
	text_init(&line, t->mem, &t->style);
	for (size_t i = 0; i < sizeof(list) / sizeof(*list) && list[i].bytes > least; i++) {
		text_puts(&line, i ? ", " : "");
		text_bytes(&line, list[i].bytes);
		text_printf(&line, " %s", list[i].name);
	}
	text_puts(t, "  ");
	text_wrap(t, 2, 2, "%s", text_get(&line));
	text_release(&line);
}

static void owners(struct text *t, const struct plim_report_device *d, const char *nobody)
{
	const struct plim_report_owners *o = &d->at_peak;
	int died = d->oom_count && !d->oom[d->oom_count - 1].survived;
	struct text_table b;
	size_t shown = o->owner_count < OWNERS_SHOWN ? o->owner_count : OWNERS_SHOWN;

	if (!shown)
		return;
	out_head(t, !strcmp(o->what, "oom")
			    ? died ? "Who held it when it died" : "Who held it at the last failure"
		    : !strcmp(o->what, "end")  ? "Who held it at the end"
		    : !strcmp(o->what, "peak") ? "Who held it at the peak"
					       : "Who held it at that event");
	if (!strcmp(o->what, "peak") && t->style.width >= NARROW)
		told_place(t, d, d->peak.allocated.phase, d->peak.allocated.step);
	text_puts(t, "\n");
	if (strcmp(o->what, "oom"))
		within(t, "within", o->annotations, o->annotation_count);
	if (o->categories && o->total_bytes > o->categories->unknown)
		kinds(t, o->categories, 0);
	text_table_init(&b, t, "rrl", TEXT_CUT_LEFT);
	for (size_t i = 0; i < shown; i++) {
		const struct plim_report_owner *one = &o->owners[i];
		const char *frame = one->frame ? one->frame : nobody;

		text_cell_bytes(&b, one->bytes);
		text_cell_count(&b, one->count);
		if (one->each_bytes != PLIM_UNKNOWN) {
			struct text *cell = text_cell(&b);

			text_count(cell, one->each_bytes);
			text_puts(cell, " bytes each, the largest at ");
			text_name(cell, frame, strlen(frame));
			text_cell_end(&b);
		} else {
			struct text *cell = text_cell(&b);

			text_puts(cell, one->inferred ? "(backward of) " : "");
			text_name(cell, frame, strlen(frame));
			text_cell_end(&b);
		}
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
	if (o->owners_left_out || o->owner_count > shown) {
		uint64_t rest = o->left_out_bytes;
		struct text words;

		for (size_t i = shown; i < o->owner_count; i++)
			rest += o->owners[i].bytes;
		text_init(&words, t->mem, &t->style);
		text_bytes(&words, rest);
		text_puts(&words, " in ");
		text_count(&words, o->owners_left_out + o->owner_count - shown);
		text_puts(&words, " more (--json has them all with --owners 0)");
		text_puts(t, "  ");
		text_wrap(t, 2, 4, "%s", text_get(&words));
		text_release(&words);
	}
}

static void chart(struct text *t, const struct plim_report_device *d, unsigned rows, int headed)
{
	const struct plim_report_oom *last = d->oom_count ? &d->oom[d->oom_count - 1] : NULL;
	uint64_t first = d->timeline_first_event, end = d->timeline_last_event;
	struct text_chart c = {
		.y = d->timeline_bytes, .n = d->timeline_count, .rows = rows, .mark = SIZE_MAX
	};
	struct text left, right;

	if (!d->timeline_count)
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
		out_head(t, "Allocated memory over the events");
	if (headed)
		text_puts(t, c.mark == SIZE_MAX        ? "\n"
			     : t->style.width < NARROW ? "\n  ^ the last failure\n"
						       : " (^ the last failure)\n");
	text_chart(t, &c);
	text_release(&left);
	text_release(&right);
}

static void check(struct text *t, const struct plim_report_device *d)
{
	struct text words;

	text_puts(t, "\n");
	if (d->self_check.exact && d->self_check.events) {
		text_hue(t, TEXT_GOOD);
		text_puts(t, "Checked: ");
		text_plain(t);
		text_init(&words, t->mem, &t->style);
		text_count(&words, d->self_check.events);
		text_puts(&words, " events replayed, the snapshot's blocks reproduced exactly");
		text_wrap(t, 9, 2, "%s", text_get(&words));
		text_release(&words);
	} else if (d->self_check.events) {
		text_hue(t, TEXT_BAD);
		text_puts(t, "Not exact: ");
		text_plain(t);
		text_wrap(t, 11, 2,
			  "%llu of %llu events do not follow the allocator's rules, %llu blocks "
			  "differ at the end",
			  (unsigned long long)(d->self_check.faults + d->self_check.contradictions),
			  (unsigned long long)d->self_check.events,
			  (unsigned long long)d->self_check.end_faults);
	}
}

#define STEPS_TOLD 4 /* so many steps that nothing grew over is worth a line */

static int piles_up(const struct plim_report_device *d)
{
	for (size_t i = 0; i < d->finding_count; i++)
		if (!strcmp(d->findings[i].id, "leak") ||
		    !strcmp(d->findings[i].id, "duplicate_weights"))
			return 1;
	return 0;
}

/* What did not happen. */
static void conclusions(struct text *t, const struct plim_report *r,
			const struct plim_report_device *d)
{
	int failed = d->oom_count || !d->events;
	int steady = d->step_count >= STEPS_TOLD && r->hidden->recording->snapshot->has_frames &&
		     !piles_up(d);

	if (!failed)
		text_puts(t, recording_is_plan(r->hidden->recording)
				     ? "No failure in this plan.\n"
				     : "No failure in this recording.\n");
	if (steady)
		text_wrap(t, 0, 2,
			  strcmp(d->step_basis, "request")
				  ? "No leak: nothing piles up from step to step."
				  : "No leak: nothing piles up from request to request.");
	if (!failed || steady)
		text_puts(t, "\n");
}

/* ---- the brief text: ten seconds ---- */

#define BRIEF_LINES 40 /* of one device, with the first and the last line */
#define HELPS_MAX 3
#define OTHERS_MAX 3

/* How much of each part is shown: the first row that fits. */
static const struct brief_limits {
	size_t helps, others, owners;
	unsigned rows; /* of the chart */
	int cures;     /* of the others */
} levels[] = { { HELPS_MAX, OTHERS_MAX, 6, 4, 1 },
	       { 3, 3, 5, 4, 1 },
	       { 3, 2, 5, 4, 1 },
	       { 3, 2, 4, 3, 1 },
	       { 3, 2, 3, 3, 1 },
	       { 3, 2, 3, 2, 0 },
	       { 3, 1, 3, 2, 1 },
	       { 3, 1, 3, 2, 0 },
	       { 3, 1, 2, 2, 0 },
	       { 3, 1, 1, 2, 0 },
	       { 2, 1, 3, 2, 0 },
	       { 1, 1, 3, 2, 0 } };
#define LEVELS (sizeof(levels) / sizeof(levels[0]))
#define KIND_PART 50 /* kinds that take less are not in the brief text */

/* Findings that no other part tells, a line each. */
static void others(struct text *t, const struct plim_report_device *d,
		   const struct plim_finding *told, const struct brief_limits *l)
{
	const struct plim_finding *list[OTHERS_MAX];
	size_t shown = 0, all = 0;

	for (size_t i = 0; i < d->finding_count; i++) {
		const struct plim_finding *f = &d->findings[i];

		if (f == told || is_told(d, f))
			continue;
		if (shown < l->others)
			list[shown++] = f;
		all++;
	}
	if (shown)
		told_counted(t, told || told_last_oom(d) ? "Also" : "What stands out", shown, all);
	for (size_t i = 0; i < shown; i++) {
		text_printf(t, "  %-7s  ", plim_severity_name(list[i]->severity));
		text_wrap_name(t, 11, 11, list[i]->title);
		if (l->cures && list[i]->fix_count && !told_narrow(t)) {
			text_puts(t, "           fix: ");
			text_wrap_name(t, 16, 16, list[i]->fix[0]);
		}
	}
}

static uint64_t step_at(const struct plim_report_device *d, uint64_t event)
{
	for (size_t i = 0; i < d->step_count; i++)
		if (event <= d->steps[i].end_event)
			return d->steps[i].index;
	return PLIM_UNKNOWN;
}

/* "10 times since event 2,410 (step 2); 1,000 more would take 122.07 GiB" */
static void leak_since(struct text *t, const struct plim_report_device *d,
		       const struct plim_finding *f, const struct plim_report_leak *one)
{
	uint64_t step = step_at(d, one->first_event);
	char a[32], b[32], c[32], in_step[48] = "";

	if (step != PLIM_UNKNOWN)
		snprintf(in_step, sizeof(in_step), " (%s %s)",
			 d->step_basis && !strcmp(d->step_basis, "request") ? "request" : "step",
			 text_number(c, step));
	text_puts(t, "  since   ");
	text_wrap(t, 10, 10, "event %s%s; 1,000 more of them would take %s",
		  text_number(a, one->first_event), in_step,
		  text_size(b, 1000 * f->per_period_bytes));
}

/* "RTX 4090 is full at step 190 to 231, an H100 80GB at step 702 to 851, if it goes on so" */
static void leak_fills(struct text *t, const struct plim_report_device *d)
{
	struct text words;
	char low[32], high[32];

	if (!d->fill_count || d->fills[0].repetitions.low > DIAGNOSE_FILLS_MAX)
		return;
	text_init(&words, t->mem, &t->style);
	for (size_t i = 0; i < d->fill_count; i++) {
		const struct plim_report_fill *f = &d->fills[i];
		int by_step = f->step.low != PLIM_UNKNOWN;
		const struct plim_interval *n = by_step ? &f->step : &f->repetitions;

		text_printf(&words, "%s%s %s ", i ? "; " : "", f->gpu,
			    by_step ? "at step" : "after");
		text_number(low, n->low);
		text_number(high, n->high);
		text_puts(&words, low);
		if (n->low != n->high)
			text_printf(&words, " to %s", high);
		if (!by_step)
			text_printf(&words, " more %s%s", f->period,
				    !strcmp(f->period, "forward pass") ? "es" : "s");
	}
	text_puts(t, "  full    ");
	text_wrap(t, 10, 10, "%s, if it goes on so", text_get(&words));
	text_release(&words);
}

static void leak(struct text *t, const struct plim_report_device *d, const struct plim_finding *f)
{
	const struct plim_report_leak *one = d->leak_count ? &d->leaks[0] : NULL;

	text_hue(t, f->severity == PLIM_SEVERITY_ERROR ? TEXT_BAD : TEXT_HEAD);
	text_puts(t, "NO FAILURE, BUT A LEAK: ");
	text_plain(t);
	told_title(t, 24, 2, f);
	if (one)
		leak_since(t, d, f, one);
	leak_fills(t, d);
	if (f->evidence_count > 1) {
		text_puts(t, "  cause   ");
		text_wrap_name(t, 10, 10, f->evidence[1]);
	}
	if (one && one->frame)
		told_leak_line(t, one->frame);
}

/* "No failure. No leak." and how far that goes. */
static void healthy(struct text *t, const struct plim_report *r, const struct plim_report_device *d)
{
	const struct snapshot *s = r->hidden->recording->snapshot;

	text_hue(t, TEXT_GOOD);
	if (!d->events)
		text_puts(t, "No events were recorded: this is what was there at the end.");
	else if (d->step_count >= STEPS_TOLD && s->has_frames && !piles_up(d))
		text_puts(t, "No failure. No leak.");
	else
		text_puts(t, recording_is_plan(r->hidden->recording) ? "No failure in this plan."
								     : "No failure.");
	text_plain(t);
	if (d->events && (d->step_count < STEPS_TOLD || !s->has_frames))
		text_puts(t, " ");
	if (d->events && (d->step_count < STEPS_TOLD || !s->has_frames))
		text_wrap(t, 12, 2, "%s",
			  !s->has_frames
				  ? "Leaks are not looked for: no stacks of events were recorded."
				  : "Leaks show from a few repetitions on; it has fewer.");
	else
		text_puts(t, "\n");
}

#define SIZE_COLUMNS 14 /* of a row of owners, with what is around it */

static void owner_frames(const struct text *t, struct text *cell,
			 const struct plim_report_owner *one, const char *frame)
{
	unsigned room = told_columns(t) - SIZE_COLUMNS;

	text_puts(cell, one->inferred ? TOLD_BACKWARD_OF : "");
	told_frames(cell, frame, one->frame, room - (one->inferred ? TOLD_BACKWARD_COLUMNS : 0));
}

static void brief_owners(struct text *t, const struct plim_report *r,
			 const struct plim_report_device *d, size_t most)
{
	const struct plim_report_owners *o = &d->at_peak;
	int by_code = r->hidden->options.group_by == PLIM_GROUP_USER_FRAME;
	int by_place = r->hidden->options.group_by != PLIM_GROUP_SIZE;
	const struct plim_report_owner *at = by_code ? o->by_code : o->owners;
	size_t n = by_code ? o->by_code_count : o->owner_count, shown = 0;
	uint64_t rest = o->total_bytes;
	struct text_table b;
	char size[32];

	if (!n)
		return;
	out_head(t, !strcmp(o->what, "oom")    ? "Who held "
		    : !strcmp(o->what, "end")  ? "Who held at the end "
		    : !strcmp(o->what, "peak") ? "Who held at the peak "
					       : "Who held at that event ");
	text_printf(t, "%s%s%s\n", text_size(size, o->total_bytes), told_narrow(t) ? "" : " ",
		    told_narrow(t) ? "" : o->measure);
	if (o->categories && o->total_bytes > o->categories->unknown)
		kinds(t, o->categories, o->total_bytes / KIND_PART);
	text_table_init(&b, t, "rl", TEXT_CUT_LEFT);
	for (; shown < n && shown < most; shown++) {
		const struct plim_report_owner *one = &at[shown];
		const char *frame = by_place && one->code_frame ? one->code_frame : one->frame;
		struct text *cell;

		rest -= one->bytes;
		text_cell_bytes(&b, one->bytes);
		cell = text_cell(&b);
		if (one->before_recording)
			text_puts(cell, "there before the recording began");
		else if (frame)
			owner_frames(t, cell, one, frame);
		else
			text_puts(cell, no_frame(t, r));
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

#define CHART_EVENTS_MIN 10

static void peak_words(struct text *t, const struct plim_report_device *d)
{
	struct text words;

	text_hue(t, TEXT_HEAD);
	text_puts(t, d->peak.lower_bound ? "Peak seen: " : "Peak: ");
	text_plain(t);
	text_init(&words, t->mem, &t->style);
	text_bytes(&words, d->peak.allocated_bytes);
	text_puts(&words, " allocated");
	told_place(&words, d, d->peak.allocated.phase, d->peak.allocated.step);
	text_puts(&words, "; ");
	text_bytes(&words, d->peak.reserved_bytes);
	text_puts(&words, " reserved");
	text_wrap(t, d->peak.lower_bound ? 11 : 6, 2, "%s", text_get(&words));
	text_release(&words);
}

/* "It stops in step 3, in its backward pass." */
static void stop_line(struct text *t, const struct plim_report_device *d)
{
	char step[32];

	if (d->stop)
		text_wrap(t, 0, 2, "It stops within step %s, in its %s pass.",
			  text_number(step, d->stop->step), d->stop->phase);
}

static void peak_line(struct text *t, const struct plim_report_device *d, unsigned rows)
{
	text_puts(t, "\n");
	peak_words(t, d);
	stop_line(t, d);
	if (d->events >= CHART_EVENTS_MIN)
		chart(t, d, rows, 0);
}

static void brief_at(struct text *t, const struct plim_report *r,
		     const struct plim_report_device *d, const struct brief_limits *l)
{
	const struct plim_finding *leaks = told_finding(d, "leak"), *told = NULL;
	struct remedies todo = { .n = 0 };

	if (told_last_oom(d)) {
		told = told_explaining(d);
		told_death(t, recording_is_plan(r->hidden->recording), d);
		told_remedies(d, &todo);
	} else if (leaks) {
		told = leaks;
		leak(t, d, leaks);
		for (size_t i = 0; i < leaks->fix_count; i++)
			told_add_remedy(&todo, leaks->fix[i]);
	} else {
		healthy(t, r, d);
	}
	told_what_to_do(t, &todo, l->helps);
	others(t, d, told, l);
	brief_owners(t, r, d, l->owners);
	peak_line(t, d, l->rows);
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	while ((text = strchr(text, '\n')) != NULL) {
		text++;
		n++;
	}
	return n;
}

static void brief(struct text *t, const struct plim_report *r, const struct plim_report_device *d)
{
	/* head, foot, notes */
	size_t room = BRIEF_LINES - 4 - 3 * r->source.note_count;

	for (size_t i = 0; i < LEVELS; i++) {
		struct text one;

		text_init(&one, t->mem, &t->style);
		brief_at(&one, r, d, &levels[i]);
		if (i + 1 == LEVELS || count_lines(text_get(&one)) <= room) {
			text_puts(t, text_get(&one));
			i = LEVELS;
		}
		text_release(&one);
	}
}

/* Of several devices one is told: the one that died, else that leaks, else that holds most. */
static const struct plim_report_device *main_device(const struct plim_report *r)
{
	const struct plim_report_device *best = NULL;
	int worst = -1;

	for (size_t i = 0; i < r->device_count; i++) {
		const struct plim_report_device *d = &r->devices[i];
		int bad = told_last_oom(d) ? 2 : told_finding(d, "leak") ? 1 : 0;

		if (bad > worst ||
		    (bad == worst && d->peak.allocated_bytes > best->peak.allocated_bytes)) {
			best = d;
			worst = bad;
		}
	}
	return best;
}

/* The others, in a few lines. */
static void in_short(struct text *t, const struct plim_report *r,
		     const struct plim_report_device *d)
{
	const struct plim_finding *leaks = told_finding(d, "leak");

	text_printf(t, "\nGPU %llu: ", (unsigned long long)d->device);
	text_count(t, d->events);
	text_puts(t, d->events == 1 ? " event\n" : " events\n");
	if (told_last_oom(d)) {
		told_death_head(t, recording_is_plan(r->hidden->recording), d, told_last_oom(d));
	} else if (leaks) {
		text_puts(t, "LEAK: ");
		told_title(t, 6, 2, leaks);
	} else {
		healthy(t, r, d);
	}
	peak_words(t, d);
	stop_line(t, d);
}

static void device(struct text *t, const struct plim_report *r, const struct plim_report_device *d)
{
	int brief_one = !(r->hidden->options.flags & PLIM_REPORT_WHY);

	if (r->device_count > 1 && brief_one && d != main_device(r))
		return;
	if (r->device_count > 1) {
		text_hue(t, TEXT_HEAD);
		text_printf(t, "%sGPU %llu\n", brief_one ? "" : "\n",
			    (unsigned long long)d->device);
		text_plain(t);
	}
	if (!(r->hidden->options.flags & PLIM_REPORT_WHY)) {
		brief(t, r, d);
		return;
	}
	verdict(t, r, d);
	findings(t, d);
	conclusions(t, r, d);
	peaks(t, d);
	stop_line(t, d);
	owners(t, d, no_frame(t, r));
	chart(t, d, CHART_ROWS, 1);
	check(t, d);
}

/* Is what was replayed what was recorded?  "replay exact", or the device's own words. */
static int is_exact(const struct plim_report *r)
{
	for (size_t i = 0; i < r->device_count; i++)
		if (!r->devices[i].self_check.exact)
			return 0;
	return r->source.events > 1;
}

#define LEAST_PATH 12 /* columns; what leaves less stands on a line of its own */

static void head(struct text *t, const struct plim_report *r)
{
	const struct plim_report_source *s = &r->source;
	const struct plim_report_device *d = r->device_count == 1 ? &r->devices[0] : NULL;
	int brief_one = !(r->hidden->options.flags & PLIM_REPORT_WHY);
	unsigned width = t->style.width ? t->style.width : 80, room;
	struct text events;

	text_init(&events, t->mem, &t->style);
	text_puts(&events, ": ");
	text_count(&events, s->events);
	text_puts(&events, s->events == 1 ? " event" : " events");
	if (brief_one && d && d->step_count) {
		text_puts(&events, ", ");
		text_count(&events, d->step_count);
		text_puts(&events, d->step_basis && !strcmp(d->step_basis, "request") ? " request"
										      : " step");
		text_puts(&events, d->step_count == 1 ? "" : "s");
	}
	if (brief_one && is_exact(r))
		text_puts(&events, ", replay exact");
	text_puts(&events, "\n\n");
	room = width > events.n + LEAST_PATH ? width - (unsigned)events.n : width - 1;
	text_hue(t, TEXT_HEAD);
	text_name_fit(t, s->path, strlen(s->path), room, TEXT_CUT_LEFT);
	text_plain(t);
	text_puts(t, room == width - 1 ? ":\n" : "");
	text_puts(t, text_get(&events) + (room == width - 1 ? 2 : 0));
	text_release(&events);
}

/* What is wrong with the replay stands in the brief text, too; that it is right stands in its first line. */
static void foot(struct text *t, const struct plim_report *r)
{
	for (size_t i = 0; i < r->device_count; i++)
		if (!r->devices[i].self_check.exact && r->devices[i].self_check.events)
			check(t, &r->devices[i]);
	for (size_t i = 0; i < r->source.note_count; i++) {
		text_puts(t, "Note: ");
		text_wrap_name(t, 6, 2, r->source.notes[i]);
	}
	text_puts(t, "\n");
	text_wrap(
		t, 0, 2,
		"Evidence: --why.  In a browser: -o page.html.  Other settings: plimsoll whatif.");
}

enum plim_status plim_report_text(const struct plim_report *r, const struct plim_text_style *style,
				  plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	struct text t;

	text_init(&t, r->hidden->recording->mem, &s);
	head(&t, r);
	for (size_t i = 0; i < r->device_count; i++)
		device(&t, r, &r->devices[i]);
	for (size_t i = 0; !(r->hidden->options.flags & PLIM_REPORT_WHY) && i < r->device_count;
	     i++)
		if (&r->devices[i] != main_device(r))
			in_short(&t, r, &r->devices[i]);
	if (!r->device_count)
		text_puts(&t, "No memory and no events of any device.\n");
	if (r->hidden->options.flags & PLIM_REPORT_WHY)
		out_list(&t, "Notes", r->source.notes, r->source.note_count);
	else
		foot(&t, r);
	return out_text(&t, write, ctx, err);
}
