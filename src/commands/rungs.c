/* The rungs of a plan's ladder for a person: plan shows them, and why next to a death. */
#include "commands/rungs.h"

#include "commands/out.h"

#include <stdio.h>
#include <string.h>

#define NARROW 64 /* columns below which tables have fewer */

static unsigned rung_width_of(const struct text *t)
{
	return t->style.width ? t->style.width : 80;
}

#define CONFIG 18 /* columns in front of a configuration: the widest is "deepspeed.json" */

static void config_line(struct text *t, const char *what, const char *line)
{
	unsigned hang = rung_width_of(t) < NARROW ? 4 : CONFIG;

	if (hang < CONFIG)
		text_printf(t, "  %s\n    ", what);
	else
		text_printf(t, "  %-*s", CONFIG - 2, what);
	text_wrap_code(t, hang, hang, line);
}

/* yes, no, or what lies between. */
const char *rungs_fit(struct plim_interval needed, enum plim_tri fits, uint64_t limit)
{
	return fits == PLIM_TRI_YES ? "yes" : needed.low <= limit ? "perhaps" : "no";
}

#define RUNG_COLUMNS 37 /* in front of what is to be changed */

static const char *rung_before(const struct plim_plan_rung *r)
{
	return r->alone ? "alone: " : r->changes_results ? "or: " : "";
}

static void put_rung(struct text *t, const struct plim_plan_rung *r, uint64_t limit)
{
	const char *fits = rungs_fit(r->needed_range_bytes, r->fits, limit);
	const char *costs = strstr(r->cost, "none") ? "costs " : "";
	char needed[32], saved[32];

	text_size(needed, r->needed_bytes);
	text_size(saved, r->saved_bytes);
	if (rung_width_of(t) < NARROW) {
		text_puts(t, "  - ");
		text_wrap(t, 4, 4, "%s%s (%s%s): needs %s, %s less; fits: %s", rung_before(r),
			  r->rung, costs, r->cost, needed, saved, fits);
		return;
	}
	text_printf(t, "  %11s  %11s  %-7s  ", needed, saved, fits);
	text_wrap(t, RUNG_COLUMNS, RUNG_COLUMNS, "%s%s (%s%s)", rung_before(r), r->rung, costs,
		  r->cost);
}

const struct plim_plan_rung *rungs_picked(const struct plim_plan_rung *ladder, size_t n)
{
	const struct plim_plan_rung *first = NULL, *last = NULL;

	for (size_t i = 0; i < n; i++) {
		if (ladder[i].fits == PLIM_TRI_YES && ladder[i].alone && !first)
			first = &ladder[i];
		if (!ladder[i].changes_results && !ladder[i].alone)
			last = &ladder[i];
	}
	return first && (!first->changes_results || !last || last->fits != PLIM_TRI_YES) ? first
											 : last;
}

/* What to change. */
void rungs_put(struct text *t, const struct plim_plan_rung *ladder, size_t n, uint64_t limit,
	       bool all)
{
	bool fits = false, perhaps = false, changes = false, alone = false;

	if (!n)
		return;
	if (rung_width_of(t) >= NARROW)
		text_printf(t, "  %11s  %11s  %-7s  %s\n", "needed", "saves", "fits",
			    "change (its time is an estimate)");
	for (size_t i = 0; i < n; i++) {
		put_rung(t, &ladder[i], limit);
		fits |= ladder[i].fits == PLIM_TRI_YES;
		perhaps |= ladder[i].needed_range_bytes.low <= limit;
		alone |= ladder[i].fits == PLIM_TRI_YES && ladder[i].alone;
		changes |= ladder[i].changes_results && !ladder[i].alone;
	}
	if (alone) {
		text_puts(t, "  ");
		text_wrap(t, 2, 2, "alone: enough by itself, instead of the rest.");
	}
	if (changes) {
		text_puts(t, "  ");
		text_wrap(t, 2, 2, "or: trains another model; use one of these with the rest.");
	}
	if (!fits && all) {
		text_puts(t, "  ");
		text_wrap(t, 2, 2,
			  perhaps ? "None of these is certain to be enough: use a smaller model, "
				    "more GPUs, or a larger GPU."
				  : "None of these is enough: use a smaller model, more GPUs, or a "
				    "larger GPU.");
	}
}

void rungs_rest(struct text *t, const struct plim_plan_rung *rung, uint64_t limit)
{
	const char *fits = rungs_fit(rung->needed_range_bytes, rung->fits, limit);

	text_puts(t, "  ");
	text_wrap(t, 2, 2, "Change these keys, keep the rest of yours%s.",
		  !strcmp(fits, "yes")  ? ""
		  : !strcmp(fits, "no") ? "; even so the run does not fit"
					: "; even so the run may not fit");
}

size_t rungs_lines(const struct plim_plan_config *c, struct rungs_line lines[RUNGS_LINES])
{
	bool by_deepspeed =
		strstr(c->training_arguments ? c->training_arguments : "", "deepspeed=");
	const struct rungs_line all[RUNGS_LINES] = {
		{ "Trainer", c->training_arguments },
		{ "model", c->from_pretrained },
		{ "PEFT", c->peft },
		{ "deepspeed.json", by_deepspeed ? c->deepspeed : NULL },
		{ "fsdp.json", c->fsdp },
		{ "environment", c->environment },
		{ "program", c->script },
	};
	size_t n = 0;

	for (size_t i = 0; i < RUNGS_LINES; i++)
		if (all[i].what)
			lines[n++] = all[i];
	return n;
}

void rungs_paste(struct text *t, const struct plim_plan_rung *rung, uint64_t limit,
		 uint64_t host_before_bytes)
{
	const struct plim_plan_config *config = &rung->config;
	struct rungs_line lines[RUNGS_LINES];
	size_t n = rungs_lines(config, lines);
	char size[32], host[80];

	out_title(t, "To be pasted");
	rungs_rest(t, rung, limit);
	for (size_t i = 0; i < n; i++)
		config_line(t, lines[i].where, lines[i].what);
	if (rung->host_bytes > host_before_bytes) {
		snprintf(host, sizeof(host), "%s of the machine's memory in all",
			 text_size(size, rung->host_bytes));
		config_line(t, "needs", host);
	}
	if (config->accelerate || config->deepspeed)
		config_line(t, "elsewhere", "--json has it for accelerate, DeepSpeed and FSDP");
}
