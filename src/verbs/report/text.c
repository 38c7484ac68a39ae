/* The report for a person: the verdict first, then the evidence, then what to do. */
#include "verbs/out.h"
#include "verbs/report/report.h"

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

/* ", backward of step 15", ", in request 3" */
static void place(struct text *t, const struct plim_report_device *d, const char *phase,
		  uint64_t step)
{
	const char *what = d->step_basis && !strcmp(d->step_basis, "request") ? "request" : "step";

	/* the phase of a request is a request, if it is no other */
	if (phase && (!strcmp(phase, "other") || !strcmp(phase, "request")))
		phase = NULL;
	if (phase)
		text_printf(t, step != PLIM_UNKNOWN ? ", %s of" : ", in %s", phase);
	else if (step != PLIM_UNKNOWN)
		text_puts(t, ", in");
	if (step == PLIM_UNKNOWN)
		return;
	text_printf(t, " %s ", what);
	text_count(t, step);
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
	place(&words, d, oom->phase, oom->step);
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

static void verdict(struct text *t, const struct plim_report *r, const struct plim_report_device *d)
{
	const struct plim_report_oom *oom = d->oom_count ? &d->oom[d->oom_count - 1] : NULL;
	const struct plim_verdict *v = oom ? oom->verdict : NULL;
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
	out_list(t, "Why", v->evidence, v->evidence_count);
	out_list(t, "What to do", v->helps, v->helps_count);
	text_puts(t, "\n");
}

#define FULL_MAX 3 /* findings told with their evidence; the others in a line */

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

static int died_of_leak(const struct plim_report_device *d)
{
	const struct plim_verdict *v = d->oom_count ? d->oom[d->oom_count - 1].verdict : NULL;

	return v && (v->cause ? v->cause : v->likely_cause) == PLIM_CAUSE_LEAK;
}

/* Has the verdict of the death told this one with its evidence? */
static int is_told(const struct plim_report_device *d, const char *id)
{
	static const char *const ids[] = { "fragmentation", "optimizer_first_step",
					   "outside_allocator" };

	for (size_t i = 0; d->oom_count && i < sizeof(ids) / sizeof(*ids); i++)
		if (!strcmp(id, ids[i]))
			return 1;
	return died_of_leak(d) && !strcmp(id, "leak");
}

static void findings(struct text *t, const struct plim_report_device *d)
{
	size_t shown = 0;

	for (size_t i = 0; i < d->finding_count; i++) {
		const struct plim_finding *f = &d->findings[i];

		if (!strcmp(f->id, "oom")) /* the verdict has told it */
			continue;
		if (!shown) {
			text_hue(t, TEXT_HEAD);
			text_puts(t, "What stands out\n");
			text_plain(t);
		}
		finding(t, f,
			shown++ < FULL_MAX && f->severity != PLIM_SEVERITY_INFO &&
				!is_told(d, f->id));
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
	const int narrow = t->style.width < NARROW;
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
static void kinds(struct text *t, const struct plim_report_categories *c)
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
	};
	struct kind list[TIMELINE_CATEGORIES];
	struct text line;

	for (int k = 0; k < TIMELINE_CATEGORIES; k++)
		list[k] = (struct kind){ recording_category_words(timeline_category_names[k]),
					 bytes[k] };
	sort_items(list, sizeof(list) / sizeof(*list), sizeof(*list), larger_kind);
	text_init(&line, t->mem, &t->style);
	for (size_t i = 0; i < sizeof(list) / sizeof(*list) && list[i].bytes; i++) {
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
		place(t, d, d->peak.allocated.phase, d->peak.allocated.step);
	text_puts(t, "\n");
	if (strcmp(o->what, "oom"))
		within(t, "within", o->annotations, o->annotation_count);
	if (o->categories && o->total_bytes > o->categories->unknown)
		kinds(t, o->categories);
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

static void chart(struct text *t, const struct plim_report_device *d)
{
	const struct plim_report_oom *last = d->oom_count ? &d->oom[d->oom_count - 1] : NULL;
	uint64_t first = d->timeline_first_event, end = d->timeline_last_event;
	struct text_chart c = {
		.y = d->timeline_bytes, .n = d->timeline_count, .rows = CHART_ROWS, .mark = SIZE_MAX
	};
	struct text left, right;

	if (!d->timeline_count)
		return;
	if (last && last->event >= first && last->event <= end)
		c.mark = (size_t)((last->event - first) * d->timeline_count / (end - first + 1));
	text_init(&left, t->mem, &t->style);
	text_init(&right, t->mem, &t->style);
	text_puts(&left, "event ");
	text_count(&left, first);
	text_puts(&right, "event ");
	text_count(&right, end);
	c.left = text_get(&left);
	c.right = text_get(&right);
	out_head(t, "Allocated memory over the events");
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

static void device(struct text *t, const struct plim_report *r, const struct plim_report_device *d)
{
	if (r->device_count > 1) {
		text_hue(t, TEXT_HEAD);
		text_printf(t, "\nGPU %llu\n", (unsigned long long)d->device);
		text_plain(t);
	}
	verdict(t, r, d);
	findings(t, d);
	conclusions(t, r, d);
	peaks(t, d);
	owners(t, d, no_frame(t, r));
	chart(t, d);
	check(t, d);
}

static void head(struct text *t, const struct plim_report_source *s)
{
	struct text events;

	text_init(&events, t->mem, &t->style);
	text_puts(&events, ": ");
	text_count(&events, s->events);
	text_puts(&events, s->events == 1 ? " event\n\n" : " events\n\n");
	text_hue(t, TEXT_HEAD);
	text_name_fit(t, s->path, strlen(s->path), t->style.width - (unsigned)events.n,
		      TEXT_CUT_LEFT);
	text_plain(t);
	text_puts(t, text_get(&events));
	text_release(&events);
}

enum plim_status plim_report_text(const struct plim_report *r, const struct plim_text_style *style,
				  plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	struct text t;

	text_init(&t, r->hidden->recording->mem, &s);
	head(&t, &r->source);
	for (size_t i = 0; i < r->device_count; i++)
		device(&t, r, &r->devices[i]);
	if (!r->device_count)
		text_puts(&t, "No memory and no events of any device.\n");
	out_list(&t, "Notes", r->source.notes, r->source.note_count);
	return out_text(&t, write, ctx, err);
}
