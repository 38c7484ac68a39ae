/*
 * What several verbs tell of a death, in the same words and the same order: report, and why with a recording.  A device
 * here is one of a report, of which a verdict, its findings and what a step is are enough.
 */
#ifndef VERBS_TOLD_H
#define VERBS_TOLD_H

#include "base/base.h"

#include <plimsoll/report.h>

/* Columns of the text; and are there so few that what is said beside a name is left out? */
unsigned told_columns(const struct text *t);
int told_narrow(const struct text *t);

/* ", backward of step 15", ", in request 3" */
void told_place(struct text *t, const struct plim_report_device *d, const char *phase,
		uint64_t step);

/* The failure that is explained, NULL: none; a finding by its id; what explains the death best, besides its arithmetic. */
const struct plim_report_oom *told_last_oom(const struct plim_report_device *d);
const struct plim_finding *told_finding(const struct plim_report_device *d, const char *id);
int told_died_of_leak(const struct plim_report_device *d);
const struct plim_finding *told_explaining(const struct plim_report_device *d);

/* Sentences, numbered; the remedy of what explains the death stands behind the first. */
struct remedies {
	const char *at[24];
	size_t n, all;
};
void told_add_remedy(struct remedies *x, const char *line);
void told_remedies(const struct plim_report_device *d, struct remedies *x);
/* "What to do, best first (3 of 5)", and so many of them. */
void told_counted(struct text *t, const char *title, size_t shown, size_t all);
void told_what_to_do(struct text *t, const struct remedies *x, size_t most);

#define TOLD_BACKWARD_OF "backward of "
#define TOLD_BACKWARD_COLUMNS ((unsigned)sizeof(TOLD_BACKWARD_OF) - 1)

/* The line of the model's code, and the user's line that called it, in so many columns: the function goes first. */
void told_frames(struct text *t, const char *code, const char *own, unsigned columns);
/* "  line    train.py:41 in step", of a leak. */
void told_leak_line(struct text *t, const char *frame);
/* A finding's title without its place, which has a line of its own. */
void told_title(struct text *t, unsigned first, unsigned hang, const struct plim_finding *f);

/* "DIED OF FRAGMENTATION, in backward of step 15: 843.75 MiB was refused"; `planned`: it is a plan's. */
void told_death_head(struct text *t, int planned, const struct plim_report_device *d,
		     const struct plim_report_oom *oom);
#define TOLD_COLUMNS 10 /* of a label below it, with what is in front */
/* That, with its sum, its limit, its cause and its line. */
void told_death(struct text *t, int planned, const struct plim_report_device *d);

#endif
