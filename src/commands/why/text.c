/* The long answer (--more): what died, why, what helps and what does not. */
#include "commands/out.h"
#include "commands/rungs.h"
#include "commands/told.h"
#include "commands/why/why.h"

#include <stdio.h>
#include <string.h>

const char *const why_moment_names[] = {
	"unknown",
	"loading",
	"forward",
	"backward",
	"the optimizer's first step",
	"the optimizer's step",
	"evaluation",
	"generation",
	"saving a checkpoint",
	"making batches",
};
static const char *const bound_names[] = {
	"unknown",
	"device",
	"limit",
	"other process",
	"outside PyTorch",
	"host memory",
	"memory limit of a cgroup",
	"shared memory (/dev/shm)",
};

#define OTHERS_SHOWN 8
#define PROCESSES_SHOWN 6

/* A frame or a name: its start may be lost, its end not. */
static void name_line(struct text *t, const char *label, const char *name)
{
	unsigned width = t->style.width ? t->style.width : 80;

	if (!name)
		return;
	text_printf(t, "%-*s", WHY_LABEL_COLUMNS, label);
	text_name_fit(t, name, strlen(name), width - WHY_LABEL_COLUMNS, TEXT_CUT_LEFT);
	text_puts(t, "\n");
}

/* ---- the lines below a headline ---- */

static void allocated_line(struct text *t, const struct plim_why_numbers *n)
{
	const struct plim_interval a = n->allocated_bytes, u = n->unallocated_bytes;
	char in_use[MESSAGES_SIZE], unused[MESSAGES_SIZE];

	if (a.low != PLIM_UNKNOWN && u.low != PLIM_UNKNOWN)
		text_printf(t, "%-*s%s, reserved but free %s\n", WHY_LABEL_COLUMNS, "allocated",
			    messages_size(in_use, (struct messages_bytes){ a.low, a.high }),
			    messages_size(unused, (struct messages_bytes){ u.low, u.high }));
}

static void why_processes(struct text *t, const struct plim_why_death *d)
{
	struct text_table b;

	if (!d->process_count)
		return;
	text_printf(t, "\n");
	text_hue(t, TEXT_HEAD);
	text_puts(t, "Largest in the kernel's table");
	text_plain(t);
	text_puts(t, "\n");
	text_table_init(&b, t, "rrl", TEXT_CUT_RIGHT);
	for (size_t i = 0; i < d->process_count && i < PROCESSES_SHOWN; i++) {
		text_cell_bytes(&b, d->processes[i].resident_bytes);
		text_cell_printf(&b, "%llu", (unsigned long long)d->processes[i].pid);
		text_cell_name(&b, d->processes[i].name ? d->processes[i].name : "?",
			       strlen(d->processes[i].name ? d->processes[i].name : "?"));
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

static void causes(struct text *t, const struct plim_verdict *v)
{
	static const char *const names[] = { "", "capacity", "fragmentation", "a leak" };

	/* where others hold the GPU, why this process wants more is not the question */
	if (v->cause_count < 2 || v->bound_by == PLIM_BOUND_OTHER_PROCESS ||
	    v->bound_by == PLIM_BOUND_NON_PYTORCH)
		return;
	out_title(t, "What it may be, likeliest first");
	for (size_t i = 0; i < v->cause_count; i++) {
		text_printf(t, "  %zu. ", i + 1);
		text_wrap(t, 5, 5, "%s: %s; to decide: %s", names[v->causes[i].cause],
			  v->causes[i].because, v->causes[i].decided_by);
	}
}

/* What plan says of it; where they differ nothing is recommended. */
void why_put_planned(struct text *t, const struct plim_why_planned *p)
{
	if (!p)
		return;
	out_title(t, "By the plan");
	text_puts(t, "  ");
	text_wrap_name(t, 2, 2, p->says);
	for (size_t i = 0; i < p->evidence_count; i++) {
		text_puts(t, "  - ");
		text_wrap_name(t, 4, 4, p->evidence[i]);
	}
	if (!p->ladder_count || (p->agrees == PLIM_TRI_NO))
		return;
	out_title(t, "What would make the planned run fit");
	rungs_put(t, p->ladder, p->ladder_count, p->limit_bytes, true);
	if (rungs_picked(p->ladder, p->ladder_count))
		rungs_paste(t, rungs_picked(p->ladder, p->ladder_count), p->limit_bytes,
			    PLIM_UNKNOWN);
}

/* All remedies: a log is read for them. */
static const struct told_limits all_of_it = { SIZE_MAX, 3, 4, 3, 1 };

/* A death that the recording shows: as report shows it, then what the log alone has. */
void why_put_recorded(struct text *t, const struct plim_why *w, const struct plim_why_death *d)
{
	const struct plim_report_device *told = &w->hidden->told[d - w->deaths];
	const struct plim_verdict *v = &d->verdict;

	told_put_verdict(t, told);
	text_printf(t, "  %-*s", TOLD_COLUMNS - 2, "log");
	why_put_place(t, w, d, d->times);
	text_puts(t, "\n");
	name_line(t, "group", d->group);
	why_put_ranks(t, d);
	told_put_rest(t, told, &all_of_it);
	out_list(t, "Why", v->evidence, v->evidence_count);
	why_put_planned(t, d->planned);
	why_processes(t, d);
	out_list(t, "What else the text says of it", d->also, d->also_count);
}

static void why_whole(struct text *t, const struct plim_why *w, const struct plim_why_death *d)
{
	const struct plim_verdict *v = &d->verdict;

	if (d->recorded && d->recorded->same_death) {
		why_put_recorded(t, w, d);
		return;
	}
	why_put_what(t, w, d, d->times);
	text_printf(t, "%-*s%s%s\n", WHY_LABEL_COLUMNS, "bound by", bound_names[v->bound_by],
		    !v->bound_certain && v->bound_by ? ", usually" : "");
	allocated_line(t, &d->numbers);
	name_line(t, "source", d->source);
	name_line(t, "group", d->group);
	out_list(t, "Why", v->evidence, v->evidence_count);
	causes(t, v);
	why_put_planned(t, d->planned);
	why_processes(t, d);
	out_list(t, "What helps", v->helps, v->helps_count);
	out_list(t, "What does not", v->useless, v->useless_count);
	out_list(t, "To be certain", v->certainty, v->certainty_count);
	out_list(t, "What else the text says of it", d->also, d->also_count);
}

/* ---- the whole ---- */

enum plim_status plim_why_text(const struct plim_why *w, const struct plim_text_style *style,
			       plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	struct text t;

	text_init(&t, &w->hidden->mem, &s);
	if (!(w->hidden->options.flags & PLIM_WHY_MORE)) {
		why_put_short(&t, w);
		return out_text(&t, write, ctx, err);
	}
	why_put_title(&t, w);
	for (size_t i = 0; i < w->death_count; i++) {
		text_puts(&t, "\n");
		why_whole(&t, w, &w->deaths[i]);
	}
	text_puts(&t, w->other_count ? "\n" : "");
	why_put_others(&t, w, OTHERS_SHOWN);
	out_list(&t, "Notes", w->notes, w->note_count);
	return out_text(&t, write, ctx, err);
}
