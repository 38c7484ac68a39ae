/* The report for a person: the verdict first, then the evidence, then what to do. */
#include "out.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

#define CHART_ROWS 8
#define OWNERS_SHOWN 8

static void sentences(struct text *t, const char *title, const char **lines, size_t n)
{
	if (!n)
		return;
	text_puts(t, "\n");
	text_hue(t, TEXT_HEAD);
	text_puts(t, title);
	text_plain(t);
	text_puts(t, "\n");
	for (size_t i = 0; i < n; i++) {
		struct text safe;

		text_init(&safe, t->mem, &t->style);
		text_name(&safe, lines[i], strlen(lines[i]));
		text_puts(t, "  - ");
		text_wrap(t, 4, 4, "%s", text_get(&safe));
		text_release(&safe);
	}
}

static void name_line(struct text *t, const char *label, const char *name)
{
	if (!name)
		return;
	text_printf(t, "  %-10s", label);
	text_name_fit(t, name, strlen(name), (t->style.width ? t->style.width : 80) - 12,
		      TEXT_CUT_LEFT);
	text_puts(t, "\n");
}

static void verdict(struct text *t, const struct plim_report_device *d)
{
	const struct plim_report_oom *oom = d->oom_count ? &d->oom[d->oom_count - 1] : NULL;
	const struct plim_report_verdict *v = oom ? oom->verdict : NULL;

	if (!v)
		return;
	text_hue(t, TEXT_BAD);
	text_puts(t, "Died of ");
	text_plain(t);
	{
		struct text safe;

		text_init(&safe, t->mem, &t->style);
		text_name(&safe, v->headline, strlen(v->headline));
		text_wrap(t, 8, 2, "%s", text_get(&safe));
		text_release(&safe);
	}
	text_printf(t, "  %-10s%s", "bound by", report_bound_names[v->bound_by]);
	if (v->bound_low_bytes != PLIM_UNKNOWN) {
		text_puts(t, ", ");
		text_bytes(t, v->bound_low_bytes);
		if (v->bound_high_bytes != v->bound_low_bytes) {
			text_puts(t, " to ");
			text_bytes(t, v->bound_high_bytes);
		}
	}
	text_puts(t, "\n");
	text_printf(t, "  %-10s", "asked for");
	text_bytes(t, oom->requested_bytes);
	text_puts(t, " (event ");
	text_count(t, oom->event);
	text_puts(t, d->oom_count > 1 ? ", the last of " : ")\n");
	if (d->oom_count > 1) {
		text_count(t, d->oom_count);
		text_puts(t, " failures)\n");
	}
	name_line(t, "at",
		  oom->frame
			  ? oom->frame
			  : "code without a Python stack (autograd's backward thread, as a rule)");
	sentences(t, "Why", v->evidence, v->evidence_count);
	sentences(t, "What to do", v->advice, v->advice_count);
	text_puts(t, "\n");
}

static void findings(struct text *t, const struct plim_report_device *d)
{
	for (size_t i = 0; i < d->finding_count; i++) {
		const struct plim_report_finding *f = &d->findings[i];
		struct text safe;

		if (!strcmp(f->kind, "oom") || strcmp(f->severity, "bad"))
			continue;
		text_hue(t, TEXT_BAD);
		text_puts(t, "Leak: ");
		text_plain(t);
		text_init(&safe, t->mem, &t->style);
		text_name(&safe, f->text, strlen(f->text));
		text_wrap(t, 6, 2, "%s", text_get(&safe));
		text_release(&safe);
		name_line(t, "loop", f->leak->loop);
		for (size_t k = 0; k < f->leak->stack_count && k < 4; k++)
			name_line(t, k ? "" : "born at", f->leak->stack[k]);
		text_printf(t, "  %-10s", "fix");
		text_wrap(t, 12, 12, "%s",
			  "keep x.item() or x.detach().cpu(), not x, or empty the list; a smaller "
			  "batch or "
			  "empty_cache() only delays it");
		text_puts(t, "\n");
	}
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
	struct text_table b;

	text_table_init(&b, t, "lrrr", TEXT_CUT_RIGHT);
	text_cell_printf(&b, "memory");
	text_cell_printf(&b, d->peak.lower_bound ? "peak seen" : "peak");
	text_cell_printf(&b, "at event");
	text_cell_printf(&b, "at the end");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		text_cell_printf(&b, "%s", rows[i].name);
		text_cell_bytes(&b, rows[i].peak);
		text_cell_count(&b, rows[i].when->event);
		text_cell_bytes(&b, rows[i].end);
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

static void owners(struct text *t, const struct plim_report_owners *o)
{
	struct text_table b;
	size_t shown = o->owner_count < OWNERS_SHOWN ? o->owner_count : OWNERS_SHOWN;

	if (!shown)
		return;
	text_puts(t, "\n");
	text_hue(t, TEXT_HEAD);
	text_puts(t, !strcmp(o->what, "oom")    ? "Who held it when it died"
		     : !strcmp(o->what, "end")  ? "Who held it at the end"
		     : !strcmp(o->what, "peak") ? "Who held it at the peak"
						: "Who held it at that event");
	text_plain(t);
	text_puts(t, "\n");
	text_table_init(&b, t, "rrl", TEXT_CUT_LEFT);
	for (size_t i = 0; i < shown; i++) {
		const struct plim_report_owner *one = &o->owners[i];
		const char *frame = one->frame ? one->frame
					       : "no Python stack (autograd's backward, as a rule)";

		text_cell_bytes(&b, one->bytes);
		text_cell_count(&b, one->count);
		if (one->each_bytes != PLIM_UNKNOWN) {
			struct text *cell = text_cell(&b);

			text_count(cell, one->each_bytes);
			text_puts(cell, " bytes each, the largest at ");
			text_name(cell, frame, strlen(frame));
			text_cell_end(&b);
		} else {
			text_cell_name(&b, frame, strlen(frame));
		}
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
	if (o->owners_left_out || o->owner_count > shown) {
		uint64_t rest = o->left_out_bytes;

		for (size_t i = shown; i < o->owner_count; i++)
			rest += o->owners[i].bytes;
		text_puts(t, "  ");
		text_bytes(t, rest);
		text_puts(t, " in ");
		text_count(t, o->owners_left_out + o->owner_count - shown);
		text_puts(t, " more (--json has them all with --owners 0)\n");
	}
}

static void chart(struct text *t, const struct plim_report_device *d)
{
	const struct plim_report_oom *last = d->oom_count ? &d->oom[d->oom_count - 1] : NULL;
	uint64_t first = d->timeline_first_event, end = d->timeline_last_event;
	struct text_chart c = {
		.y = d->timeline_bytes, .n = d->timeline_count, .rows = CHART_ROWS, .mark = SIZE_MAX
	};
	char left[32], right[64];

	if (!d->timeline_count)
		return;
	if (last && last->event >= first && last->event <= end)
		c.mark = (size_t)((last->event - first) * d->timeline_count / (end - first + 1));
	snprintf(left, sizeof(left), "event %llu", (unsigned long long)first);
	snprintf(right, sizeof(right), "%sevent %llu",
		 c.mark == SIZE_MAX ? "" : "^ the last failure, ", (unsigned long long)end);
	c.left = left;
	c.right = right;
	text_puts(t, "\n");
	text_hue(t, TEXT_HEAD);
	text_puts(t, "Allocated memory over the events");
	text_plain(t);
	text_puts(t, "\n");
	text_chart(t, &c);
}

static void check(struct text *t, const struct plim_report_device *d)
{
	text_puts(t, "\n");
	if (d->self_check.exact && d->self_check.events) {
		text_hue(t, TEXT_GOOD);
		text_puts(t, "Checked: ");
		text_plain(t);
		text_count(t, d->self_check.events);
		text_puts(t, " events replayed, the snapshot's blocks reproduced exactly\n");
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

static void device(struct text *t, const struct plim_report *r, const struct plim_report_device *d)
{
	if (r->device_count > 1) {
		text_hue(t, TEXT_HEAD);
		text_printf(t, "\nGPU %llu\n", (unsigned long long)d->device);
		text_plain(t);
	}
	verdict(t, d);
	findings(t, d);
	if (!d->oom_count && d->events)
		text_puts(t, "No failure in this recording.\n\n");
	peaks(t, d);
	owners(t, &d->at_peak);
	chart(t, d);
	check(t, d);
}

static void head(struct text *t, const struct plim_report_source *s)
{
	text_hue(t, TEXT_HEAD);
	text_name_fit(t, s->path, strlen(s->path), (t->style.width ? t->style.width : 80) - 30,
		      TEXT_CUT_LEFT);
	text_plain(t);
	text_puts(t, ": ");
	text_count(t, s->events);
	text_puts(t, s->events == 1 ? " event\n\n" : " events\n\n");
}

enum plim_status plim_report_text(const struct plim_report *r, const struct plim_text_style *style,
				  plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	struct text t;

	text_init(&t, &r->hidden->mem, &s);
	head(&t, &r->source);
	for (size_t i = 0; i < r->device_count; i++)
		device(&t, r, &r->devices[i]);
	if (!r->device_count)
		text_puts(&t, "No memory and no events of any device.\n");
	sentences(&t, "Notes", r->source.notes, r->source.note_count);
	return out_text(&t, write, ctx, err);
}
