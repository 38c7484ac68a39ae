/* The report for a person: the verdict first, then the evidence, then what to do. */
#include "commands/out.h"
#include "commands/report/report.h"
#include "commands/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHART_ROWS 8
#define OWNERS_SHOWN 8
#define LABEL_COLUMNS 12 /* of a line such as "  bound by  limit" */
#define NARROW 64        /* columns; below, what is said next to a name is left out */

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
		[PLIM_BOUND_DEVICE] = "the GPU's memory",
		[PLIM_BOUND_LIMIT] = "a limit of this process",
		[PLIM_BOUND_OTHER_PROCESS] = "other processes on the GPU",
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

static void report_verdict(struct text *t, const struct plim_report *r,
			   const struct plim_report_device *d)
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
	else if (oom->backward_of)
		name_line(t, "backward", oom->backward_of);
	else if (r->hidden->recording->snapshot->has_frames)
		words_line(t, "at",
			   "code without a Python stack (usually autograd's backward thread)");
	words_line(t, "in sum", v->arithmetic);
	out_list(t, "Why", v->evidence, v->evidence_count);
	told_put_remedies(t, d, d->told.remedy_count);
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

		if (!strcmp(f->id, "oom")) /* the verdict has reported it */
			continue;
		if (!shown++) {
			text_hue(t, TEXT_HEAD);
			text_puts(t, "What stands out\n");
			text_plain(t);
		}
		finding(t, f, !told_in_verdict(d, f));
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

/* Who owns what is reserved and not asked for. */
static void gap(struct text *t, const char *title, const struct plim_report_gap *g)
{
	if (!g)
		return;
	out_title(t, title);
	for (size_t i = 0; i < g->part_count; i++) {
		const struct plim_report_gap_part *part = &g->parts[i];
		char kept[32], line[600] = "";

		if (part->kept_by_bytes != PLIM_UNKNOWN)
			snprintf(line, sizeof(line), ", kept by %s in use%s%.500s",
				 text_size(kept, part->kept_by_bytes), part->frame ? ": " : "",
				 part->frame ? part->frame : "");
		text_puts(t, "  ");
		text_bytes(t, part->bytes);
		text_puts(t, "  ");
		text_wrap(t, 2 + 9 + 2, 4, "%s%s; %s", diagnose_gap_words(part), line,
			  part->gives_back);
	}
}

/* The owner's place, or what stands for it. */
static const char *owner_name(const struct text *t, const struct plim_report *r,
			      const struct plim_report_owner *one)
{
	int modules = r->hidden->options.group_by == PLIM_GROUP_MODULE;
	const char *at = modules ? one->module : one->frame;

	if (at)
		return at;
	if (modules && !one->before_recording)
		return "no module called";
	return recording_nobody(r->hidden->recording->snapshot->has_frames, one->before_recording,
				t->style.width < NARROW);
}

/* What the owners' memory is for. */
static void kinds(struct text *t, const struct plim_report_categories *c)
{
	struct text line;

	text_init(&line, t->mem, &t->style);
	told_kinds(&line, c, 0);
	text_puts(t, "  ");
	text_wrap(t, 2, 2, "%s", text_get(&line));
	text_release(&line);
}

/* Of a size, the place is one of many: that of its largest allocation. */
static void owner_cells(struct text_table *b, const char *name, const struct plim_report_owner *one,
			int by_size)
{
	struct text *cell;

	text_cell_bytes(b, one->bytes);
	text_cell_count(b, one->count);
	if (by_size) {
		cell = text_cell(b);
		text_count(cell, one->each_bytes);
		text_puts(cell, " bytes each");
		text_cell_end(b);
	}
	cell = text_cell(b);
	text_puts(cell, by_size && one->count > 1 ? "one: " : "");
	text_puts(cell, one->inferred ? "(backward of) " : "");
	text_name(cell, name, strlen(name));
	text_cell_end(b);
}

static void owners(struct text *t, const struct plim_report *r, const struct plim_report_device *d)
{
	const struct plim_report_owners *o = &d->at_peak;
	int by_size = r->hidden->options.group_by == PLIM_GROUP_SIZE;
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
		kinds(t, o->categories);
	told_put_tags(t, o);
	text_table_init(&b, t, by_size ? "rrrl" : "rrl", TEXT_CUT_LEFT);
	for (size_t i = 0; i < shown; i++)
		owner_cells(&b, owner_name(t, r, &o->owners[i]), &o->owners[i], by_size);
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

static void check_report(struct text *t, const struct plim_report_device *d)
{
	struct text words;

	text_puts(t, "\n");
	if (d->self_check.exact && d->self_check.events) {
		text_hue(t, TEXT_GOOD);
		text_puts(t, "Checked: ");
		text_plain(t);
		text_init(&words, t->mem, &t->style);
		/* The same number as in the headline: the request that failed is run, too. */
		text_count(&words, d->events);
		text_puts(&words, d->events == 1 ? " event" : " events");
		text_puts(&words, " replayed, the snapshot's blocks reproduced exactly");
		text_wrap(t, 9, 2, "%s", text_get(&words));
		text_release(&words);
	} else if (d->self_check.events) {
		text_hue(t, TEXT_BAD);
		text_puts(t, "Not exact: ");
		text_plain(t);
		text_wrap(t, 11, 2,
			  "in %llu events %llu contradict others, %llu the allocator's rules, %llu "
			  "blocks differ at the end",
			  (unsigned long long)d->events,
			  (unsigned long long)d->self_check.contradictions,
			  (unsigned long long)d->self_check.faults,
			  (unsigned long long)d->self_check.end_faults);
	}
}

/* What did not happen. */
static void conclusions(struct text *t, const struct plim_report *r,
			const struct plim_report_device *d)
{
	int failed = d->oom_count || !d->events;
	int steady = d->step_count >= TOLD_STEPS && r->hidden->recording->snapshot->has_frames &&
		     !told_piles_up(d);

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

/* How much of each part is shown: the first row that fits. */
static const struct told_limits levels[] = {
	{ 3, 3, 6, 4, 1 }, { 3, 3, 5, 4, 1 }, { 3, 2, 5, 4, 1 }, { 3, 2, 4, 3, 1 },
	{ 3, 2, 3, 3, 1 }, { 3, 2, 3, 2, 0 }, { 3, 1, 3, 2, 1 }, { 3, 1, 3, 2, 0 },
	{ 3, 1, 2, 2, 0 }, { 3, 1, 1, 2, 0 }, { 2, 1, 3, 2, 0 }, { 1, 1, 3, 2, 0 },
};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

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
		told_put_verdict(&one, d);
		told_put_rest(&one, d, &levels[i]);
		if (i + 1 == LEVELS || count_lines(text_get(&one)) <= room) {
			text_puts(t, text_get(&one));
			i = LEVELS;
		}
		text_release(&one);
	}
}

/* Of several devices one is shown: the one that died, else that leaks, else that holds most. */
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

/* "GPU 1 has 9.00 GiB more than GPU 0, each when it held most: 8.90 GiB more activations (its batch was larger ...); ..." */
static void uneven(struct text *t, const struct plim_report_uneven *u)
{
	struct text words;

	if (!u)
		return;
	text_init(&words, t->mem, &t->style);
	text_printf(&words, "GPU %llu has ", (unsigned long long)u->device);
	text_bytes(&words, u->bytes);
	text_printf(&words, " more than GPU %llu, each when it held most",
		    (unsigned long long)u->other_device);
	if (u->category) {
		text_puts(&words, ": ");
		text_bytes(&words, (uint64_t)u->category_bytes);
		text_printf(&words, " more %s", recording_category_words(u->category));
	}
	if (u->meaning)
		text_printf(&words, " (%s)", u->meaning);
	if (u->frame) {
		text_puts(&words, "; ");
		text_bytes(&words, (uint64_t)u->frame_bytes);
		text_puts(&words, " more at ");
		text_name(&words, u->frame, strlen(u->frame));
	}
	text_puts(t, "\n");
	text_wrap(t, 0, 2, "%s", text_get(&words));
	text_release(&words);
}

/* The others, in a few lines. */
static void in_short(struct text *t, const struct plim_report_device *d)
{
	text_printf(t, "\nGPU %llu: ", (unsigned long long)d->device);
	text_count(t, d->events);
	text_puts(t, d->events == 1 ? " event\n" : " events\n");
	told_put_headline(t, d);
	told_put_peak(t, d);
	told_put_stop(t, d);
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
	report_verdict(t, r, d);
	findings(t, d);
	conclusions(t, r, d);
	peaks(t, d);
	gap(t, "Reserved at the peak, but not asked for", d->gap_at_peak);
	gap(t, "Reserved at the end, but not asked for", d->gap);
	told_put_stop(t, d);
	owners(t, r, d);
	told_put_chart(t, d, CHART_ROWS, 1);
	check_report(t, d);
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
		text_puts(&events, text_s(d->step_count));
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
			check_report(t, &r->devices[i]);
	for (size_t i = 0; i < r->source.note_count; i++) {
		text_puts(t, "Note: ");
		text_wrap_name(t, 6, 2, r->source.notes[i]);
	}
	text_puts(t, "\n");
	text_wrap(t, 0, 2, "Evidence: --why.  In a browser: -o page.html.%s",
		  r->hidden->recording->snapshot->profile.kind
			  ? ""
			  : "  Other settings: plimsoll whatif.");
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
	uneven(&t, r->uneven);
	for (size_t i = 0; !(r->hidden->options.flags & PLIM_REPORT_WHY) && i < r->device_count;
	     i++)
		if (&r->devices[i] != main_device(r))
			in_short(&t, &r->devices[i]);
	if (!r->device_count)
		text_puts(&t, "No memory and no events of any device.\n");
	if (r->hidden->options.flags & PLIM_REPORT_WHY)
		out_list(&t, "Notes", r->source.notes, r->source.note_count);
	else
		foot(&t, r);
	return out_text(&t, write, ctx, err);
}
