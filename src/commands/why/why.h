/* What the parts of the why command share. */
#ifndef API_WHY_H
#define API_WHY_H

#include "diagnose/diagnose.h"

#include <plimsoll/report.h>
#include <plimsoll/why.h>

struct plim_why_hidden {
	struct mem mem;
	struct arena arena;
	struct messages_log log;
	struct plim_why_options options;
	struct plim_report *recorded; /* of --snapshot, or NULL */
	struct plim_report_device
		*told; /* of it, next to each death: its failure, and what explains it */
	VEC(struct plim_plan *) plans; /* of --config, one a limit */
	struct intern names;           /* --redact: a name's id is its word's number */
};

static inline struct plim_interval why_range(struct messages_bytes b)
{
	return (struct plim_interval){ b.low, b.high };
}

extern const char *const why_moment_names[]; /* for people */

/* The short answer (short.c); parts of the long one that it has, too (text.c). */
struct text;
void why_put_short(struct text *t, const struct plim_why *w);
/* At most so many failures that are not memory. */
void why_put_others(struct text *t, const struct plim_why *w, size_t most);
/* "train.log: no failure of memory in 812 lines of 2 files" */
void why_put_title(struct text *t, const struct plim_why *w);
#define WHY_LABEL_COLUMNS 10
void why_put_row(struct text *t, const char *label, const char *words);
void why_put_ranks(struct text *t, const struct plim_why_death *d);
void why_put_place(struct text *words, const struct plim_why *w, const struct plim_why_death *d,
		   uint64_t times);
void why_put_what(struct text *t, const struct plim_why *w, const struct plim_why_death *d,
		  uint64_t times);
void why_put_recorded(struct text *t, const struct plim_why *w, const struct plim_why_death *d);
void why_put_planned(struct text *t, const struct plim_why_planned *p);

/* A name of the log, or with --redact a word for it ("process-3"); NULL for "". */
const char *why_name(struct plim_why *w, const char *kind, const char *name, struct plim_err *err);

/* "train.py:41 in step"; NULL: there is none. */
const char *why_frame(struct plim_why *w, const struct messages_frame *f, struct plim_err *err);

/* The ranks that reported of an event. */
enum plim_status why_ranks(struct plim_why *w, const struct messages_event *e, uint64_t **out,
			   size_t *n, struct plim_err *err);

/* One death out of the event at `index` and those that joined it. */
enum plim_status why_death(struct plim_why *w, size_t index, struct plim_why_death *d,
			   struct plim_err *err);

/* What the log shows of a GPU's memory without a failure (states.c). */
enum plim_status why_states(struct plim_why *w, struct plim_err *err);

/* Next to each death of a GPU's memory what plan says of the run (plan.c). */
enum plim_status why_plan(struct plim_why *w, struct lines *notes, struct plim_err *err);

#endif
