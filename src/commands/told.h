/*
 * What a person is shown of a recording first: its verdict, what to do, who held the memory, its peak.  told_fill() makes
 * the words, once; report prints them, why prints them next to a log, the page has them in its JSON.
 */
#ifndef VERBS_TOLD_H
#define VERBS_TOLD_H

#include "base/base.h"
#include "timeline/timeline.h"

#include <plimsoll/report.h>

/* Columns of the text; and are there so few that what is said next to a name is left out? */
unsigned told_columns(const struct text *t);
int told_narrow(const struct text *t);

/* ", backward of step 15", ", in request 3" */
void told_place(struct text *t, const struct plim_report_device *d, const char *phase,
		uint64_t step);

/* The failure that is explained, NULL: none; a finding by its id. */
const struct plim_report_oom *told_last_oom(const struct plim_report_device *d);
const struct plim_finding *told_finding(const struct plim_report_device *d, const char *id);

/* Does a death's verdict tell this one with its evidence; does what is reported first? */
int told_in_verdict(const struct plim_report_device *d, const struct plim_finding *f);
int told_has(const struct plim_report_device *d, const struct plim_finding *f);

/* Does memory pile up from step to step, by a leak or a second set of weights? */
int told_piles_up(const struct plim_report_device *d);

/* "2.31 GiB activations, 471.07 MiB parameters": the largest first, of those with more than `least` bytes. */
void told_kinds(struct text *line, const struct plim_report_categories *c, uint64_t least);

#define TOLD_STEPS 4 /* so many steps that nothing grew over is worth a line */

/*
 * Fill d->told; all else of it is filled, and texts are `a`'s.  Failures behind d->oom_count are not reported, and of one that is
 * not the recording's last the owners are not known: d->at_peak is empty then.
 */
enum told_flags { TOLD_PLANNED = 1, TOLD_FRAMES = 2 }; /* it is a plan's; stacks were recorded */
enum plim_status told_fill(unsigned flags, enum plim_report_group group_by, struct arena *a,
			   struct plim_report_device *d, struct plim_err *err);

/* ---- printing (told_text.c) ---- */

/* How much is shown of each part. */
struct told_limits {
	size_t remedies, others, holders;
	unsigned rows; /* of the chart */
	int cures;     /* of the others */
};
#define TOLD_COLUMNS 10 /* of a label, with what is in front */

/* Headline and the lines below it. */
void told_put_verdict(struct text *t, const struct plim_report_device *d);
void told_put_headline(struct text *t, const struct plim_report_device *d);
/* What to do; findings that nothing else shows; who held it; the peak and its picture. */
void told_put_rest(struct text *t, const struct plim_report_device *d, const struct told_limits *l);
void told_put_remedies(struct text *t, const struct plim_report_device *d, size_t most);
void told_put_peak(struct text *t, const struct plim_report_device *d);
void told_put_stop(struct text *t, const struct plim_report_device *d);
void told_put_tags(struct text *t, const struct plim_report_owners *o);
void told_put_chart(struct text *t, const struct plim_report_device *d, unsigned rows, int headed);

#endif
