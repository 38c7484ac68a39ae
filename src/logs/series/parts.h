/* What the files of this floor share. */
#ifndef SERIES_PARTS_H
#define SERIES_PARTS_H

#include "series.h"

#include <math.h>

/* Readers: from file->offset to the end, or to where it is torn; file->offset is moved behind what was understood. */
struct series_input {
	struct series_run *run;
	struct series_file *file;
	struct source *source;
};
enum plim_status series_read_tensorboard(struct series_input *in, struct plim_err *err);
enum plim_status series_read_wandb(struct series_input *in, struct plim_err *err);
enum plim_status series_read_json(struct series_input *in, struct plim_err *err);
enum plim_status series_read_csv(struct series_input *in, struct plim_err *err);
enum plim_status series_read_text(struct series_input *in, struct plim_err *err);
enum plim_status series_read_mlflow(struct series_input *in, struct plim_err *err);

/* A line without its end; false at the end of the input.  A last line without an end is given only if `all`. */
bool series_line(struct source *s, const uint8_t **p, const char **line, size_t *n, bool all,
		 enum plim_status *st, struct plim_err *err);

/* Is a last line without an end to be read, too?  Not of a log that grows, nor one that a full buffer may have cut. */
bool series_reads_last(const struct series_input *in);

/* A number as programs print it: 1, -2.5e-3, nan, NaN, inf, -Infinity.  0: none stands here; else its length. */
size_t series_number(const char *at, size_t n, double *out);

/* "0.000": a zero with few digits, which may be a small number; "0.0" is how 0 is printed. */
bool series_is_rounded(const char *at, size_t n);

/* Of a line of cells: what parts them; how many there are, and (not NULL) how many more of them are numbers. */
char series_delimiter(const char *line, size_t n);
size_t series_quotes(const char *line,
		     size_t n); /* an odd number: a cell goes on in the next line */
size_t series_cells(const char *line, size_t n, char delimiter, size_t *numbers);

/* The role that --map gives to a name; *given: does it give one? */
enum plim_role series_run_mapped(const struct series_run *r, const char *name, size_t n,
				 bool *given);

#define SERIES_RECURS 4 /* values that make a name one of the log's */

/* What a name may be if the log has no loss; once that is known, is it one? */
void series_run_suppose(struct series_run *r, struct series_name says, uint64_t fractions);
bool series_may_be_loss(const struct series_run *r, struct series_name says);
/* A text that a note shows, at most `n` bytes of it. */
enum plim_status series_run_keep(struct series_run *r, const char *text, size_t n, const char **out,
				 struct plim_err *err);
/* "learn", "train": no word but a side. */
bool series_is_bare_side(struct series_name says);

/* Count what could not be understood. */
void series_bad_record(struct series_run *r, uint64_t offset);

#define SERIES_EVALUATED (1u << PLIM_ROLE_VAL_LOSS | 1u << PLIM_ROLE_METRIC | 1u << PLIM_ROLE_ERROR)

/* Of the other evaluations whose direction is as well known, one that is best after `since`; SERIES_NONE: none is. */
uint32_t series_better_later(const struct series_monitor *m, uint32_t series, double since,
			     double *best_step);

/* Which way an evaluation of an untold direction went as the training improved: METRIC, ERROR; OTHER: unclear. */
enum plim_role series_course(const struct series_watch *w);

/* Numbers of lists that stand one after the other, though their values belong together: they wait until all are read. */
struct series_held {
	double at, value;
	uint32_t series, order;
};
struct series_lists {
	VEC(struct series_held) held;
};
enum plim_status series_hold(struct series_run *r, struct series_lists *l, uint32_t series,
			     double at, double value, struct plim_err *err);
/* The first values of all lists, then the second ones. */
enum plim_status series_give_held(struct series_run *r, struct series_lists *l,
				  struct plim_err *err);

/* ---- statistics ---- */
double series_median(double *at, size_t n); /* reorders */

/* ---- findings ---- */

/* The finding of that id that goes on in the series, or a new one (*fresh).  NULL: there are too many. */
struct series_finding *series_raise(struct series_monitor *m, enum plim_curves_id id,
				    uint32_t series, double step, double detected);
struct series_finding *series_open(struct series_monitor *m, enum plim_curves_id id,
				   uint32_t series);
/* As if it had never been said; NULL is none. */
void series_take_back(struct series_monitor *m, struct series_finding *f);
void series_end(struct series_monitor *m, enum plim_curves_id id, uint32_t series, double step);

void series_push_history(struct series_history *h, double step, double value, double other);

#endif
