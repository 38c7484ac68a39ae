/*
 * Training logs as series: readers of every format, the monitor that watches values as they come,
 * and what it found in words.
 *
 * A log is read once, value by value, into a monitor and into thinned curves for plots, so memory is
 * bounded by the number of series, not by the length of the log.  docs/evidence/curves.md has the rules.
 */
#ifndef SERIES_SERIES_H
#define SERIES_SERIES_H

#include "base/base.h"

#include <plimsoll/monitor.h>

#define SERIES_NONE UINT32_MAX
#define SERIES_MAX 4096    /* series of a run */
#define SERIES_RING 64     /* last finite values of a series */
#define SERIES_CELLS 128   /* of a series' whole history */
#define SERIES_FINDINGS 64 /* of a run, of one id at most a quarter */
#define SERIES_NUMBERS 7   /* that a finding's sentences are made of */
#define SERIES_LINES 5     /* sentences of evidence, and of fixes */

/* ---- names ---- */

enum series_side { SERIES_NO_SIDE, SERIES_TRAINING, SERIES_EVALUATION };

/* Of losses that play against each other: a discriminator does against any other, a critic against a generator only. */
enum series_player { SERIES_NO_PLAYER, SERIES_GENERATES, SERIES_JUDGES, SERIES_JUDGES_ALL };

struct series_name {
	enum plim_role role;
	enum series_side side; /* as the name says it */
	uint32_t rank; /* of a loss: 0 is the one that training minimises; parts of it are higher */
	uint64_t key;  /* the same for a quantity in training and in validation */
	unsigned
		player; /* of two that play against each other: 1 generates, 2 judges; 0: neither */
	bool unknown;   /* no word says what it is */
	bool counter;   /* its last word is that of a step */
	bool objective; /* a loss, if the log has no other */
	bool played;    /* a reward that the training itself collects */
};

/* What a name says. */
struct series_name series_name_of(const char *name, size_t n);

/* What side a whole word of a line shows: "test", "Validation", "training". */
enum series_side series_side_of(const char *word, size_t n);

/* Is the name one for steps; for epochs; for times in seconds, or unix times?  Lower is stronger, 0: no. */
unsigned series_is_step(const char *name, size_t n);
bool series_is_epoch(const char *name, size_t n);
/* "num_updates", "global_step": steps of the whole training, also in a row of an evaluation. */
bool series_counts_updates(const char *name, size_t n);
bool series_is_time(const char *name, size_t n);
/* "mode", "split": does its text say of which side a row is? */
bool series_names_side(const char *name, size_t n);

/* Is it one that names of everybody's series, runs and logs are made of: "loss", "eval", "checkpoint", "top5", "17"? */
bool series_is_public_word(const char *word, size_t n);

/* ---- what is kept of a series while it is watched: plain data, saved as it is ---- */

/* Neighbouring values as one. */
struct series_cell {
	double step, last_step;
	double mean, min, max; /* of what is finite */
	double other;          /* of a validation loss: the training loss since the cell before */
	uint32_t n, unused;
};

struct series_history {
	struct series_cell at[SERIES_CELLS];
	uint32_t n;      /* whole cells */
	uint32_t stride; /* values a cell */
	struct series_cell open;
};

/* Of an evaluation whose name does not say which way is better. */
enum series_course {
	SERIES_NAMED,     /* it shows, or the series is none */
	SERIES_UNTOLD,    /* it may turn out yet */
	SERIES_BY_COURSE, /* its role was taken from how it moved */
	SERIES_PLAYED     /* a reward that the training itself collects: no evaluation */
};

struct series_watch {
	uint32_t role, rank;
	uint64_t key;
	uint32_t course;      /* enum series_course */
	uint32_t rounded;     /* a zero was printed with few digits: it may be a small number */
	uint32_t zero_passed; /* a loss of exactly 0 was followed by another */
	uint32_t pair;        /* of a validation loss: its training loss */
	uint32_t negative;    /* a value of 0 or less was seen: no logarithm */
	uint64_t points, non_finite, finite, zeros;
	double first_step, last_step, first, last;
	double min, min_step, max, max_step;

	double ring[SERIES_RING], ring_step[SERIES_RING];
	uint32_t ring_n, ring_at;   /* how many; where the next goes */
	uint32_t stale;             /* values since the baseline was measured */
	uint32_t measured;          /* values that it was measured from */
	double median, spread, tie; /* the baseline: of ring (or its logarithm); autocorrelation */

	double zero_first;                     /* step of the first value of exactly 0 */
	double bad_step, zero_step, jump_step; /* where what is counted below began */
	uint32_t bad_run, zero_run;            /* values in a row: not finite; exactly 0 */
	uint32_t same_run, jumps;              /* equal to the one before; far above the baseline */
	double sum;                            /* of a loss scale: halvings without a doubling */
	double total;                          /* of all finite values */
	double pair_total; /* of a validation loss: `total` of its training loss, when it was fed last */
	uint64_t pair_finite; /* likewise `finite` */
	double past[2];       /* of a training loss: the last two values as they are judged */
	double change
		[2]; /* mean squares of what it changes by from one value to the next, and in two */
	uint32_t skips;
	uint32_t level,
		level_left; /* 1 + the spike that became a new level; values below it since */
	double lows[8];     /* of a loss scale: steps of the last halvings */
	uint32_t open[PLIM_CURVES_ID_COUNT]; /* 1 + finding that is going on, by id; 0: none */
	struct series_history history;
};

/* What was found, as numbers; series_tell makes words of it. */
struct series_finding {
	uint32_t id, severity, series, kind; /* kind: which sentence, see tell.c */
	double confidence;
	double step, detected, end; /* end NaN: it goes on */
	double number[SERIES_NUMBERS];
	uint32_t other;      /* another series that it is about, or SERIES_NONE */
	uint32_t taken_back; /* a resume went back before it */
	uint32_t against;    /* `other` plays against the series, or is the reward that counts */
	uint32_t unused;
};

struct series_monitor {
	struct mem *mem;
	struct intern names; /* id: index into watches */
	VEC(struct series_watch) watches;
	VEC(struct series_finding) findings;
	uint32_t train;              /* the training loss, or SERIES_NONE */
	uint32_t val;                /* the evaluation that counts, or SERIES_NONE */
	uint32_t stop_on;            /* bits 1 << id */
	uint32_t lost;               /* findings beyond SERIES_FINDINGS */
	struct plim_early_stop stop; /* patience PLIM_UNKNOWN: none */
	const char *const *shown;    /* names to tell in place of the first ones of `names` */
	size_t shown_count;          /* how many; shown is NULL: they are reported as they are */
};

void series_monitor_init(struct series_monitor *m, struct mem *mem);
void series_monitor_release(struct series_monitor *m);

/* The series of that name, added if new.  PLIM_E_LIMIT: there are SERIES_MAX. */
enum plim_status series_monitor_add(struct series_monitor *m, const char *name, size_t n,
				    uint32_t *out, struct plim_err *err);
void series_monitor_set_role(struct series_monitor *m, uint32_t series, enum plim_role role);

/* Show an early stop, anew, what is kept of a series. */
void series_replay_stop(const struct series_watch *w, struct plim_early_stop *stop);

/* One value of one series; the step is finite and not below the last one. */
enum plim_status series_monitor_feed(struct series_monitor *m, uint32_t series, double step,
				     double value, struct plim_err *err);

/* A resume at `step`: what is known of steps from there on is forgotten. */
void series_monitor_rewind(struct series_monitor *m, double step);

/* The name of a series as it is reported. */
static inline const char *series_told_name(const struct series_monitor *m, uint32_t series)
{
	if (m->shown)
		return series < m->shown_count ? m->shown[series] : "?";
	return series < m->names.n ? intern_text(&m->names, series) : "?";
}

/* Does the finding count: of a series that matters, not taken back? */
bool series_finding_counts(const struct series_monitor *m, const struct series_finding *f);

enum plim_status series_monitor_save(const struct series_monitor *m, void *at, size_t room,
				     size_t *n, struct plim_err *err);
enum plim_status series_monitor_restore(struct series_monitor *m, const void *at, size_t n,
					struct plim_err *err);

/* ---- detectors ---- */

struct series_detector {
	uint32_t roles; /* bits 1 << role that it looks at */
	void (*look)(struct series_monitor *m, uint32_t series, double step, double value);
	const char *name, *rule, *origin; /* for docs/curves.md and `curves --rules` */
};
extern const struct series_detector series_detectors[];
extern const size_t series_detector_count;

struct series_words {
	char title[200];
	char evidence[SERIES_LINES][280];
	char fix[SERIES_LINES][280];
	size_t evidence_count, fix_count;
};

/* A finding in words. */
void series_tell(const struct series_monitor *m, const struct series_finding *f,
		 struct series_words *out);

/* A step, a value as people write them: "12,800", "0.0231", "1.2e-05"; into a buffer of 32. */
const char *series_step_text(char *buffer, double step);
const char *series_value_text(char *buffer, double value);

/* ---- a run: a log, or several, of one training ---- */

#define SERIES_BUCKETS 1024

struct series_bucket {
	double step, mean, min, max;
	uint32_t n, bad; /* values; of them not finite */
};

/* Add what *b holds to *a, which stands before it. */
void series_bucket_merge(struct series_bucket *a, const struct series_bucket *b);

/* A thinned curve. */
struct series_curve {
	VEC(struct series_bucket) buckets;
	uint32_t stride;
	uint32_t max; /* buckets at most */
	uint32_t role_given;
	double time;                                          /* of its last value */
	struct plim_early_stop stop[4];                       /* by policy; of evaluations only */
	double stop_time[4], best_then[4], best_then_step[4]; /* when each stopped first, or now */
	uint32_t stop_reason[4];
	double seen_step; /* of the value that came last */
	uint64_t ordinal; /* values that came, those set aside included */
	/* Of the first name of each row, if it is not known: whether it counts the rows. */
	double count, count_epoch; /* of the row before */
	double counts_by;          /* in the second row */
	uint64_t rises, steady;    /* rows in which it rose, and by that much */
	uint64_t breaks; /* rows in which it did not, within an epoch: training was resumed */
	bool counts;
	uint64_t texts;     /* of a text: values in lines whose words no line before had */
	uint64_t fractions; /* values that are not whole numbers */
	bool marked; /* of a text: its name is not parted from its values by wide space alone */
	uint64_t clocked,
		unclocked; /* of a text: values in lines with a step or epoch, and without */
};

/* Values of a series from `ordinal` on to the next cut are void if their step is `step` or later. */
struct series_cut {
	uint32_t series;
	uint64_t ordinal; /* value number at which the step fell */
	double step;
};

enum series_kind {
	SERIES_KIND_UNKNOWN,
	SERIES_KIND_TRAINER_STATE,
	SERIES_KIND_TENSORBOARD,
	SERIES_KIND_CSV,
	SERIES_KIND_JSON,
	SERIES_KIND_WANDB,
	SERIES_KIND_MLFLOW,
	SERIES_KIND_TEXT
};
extern const char *const series_kind_names[];

/* One file of a run, and how far it was read. */
struct series_file {
	const char *path; /* interned by the run */
	enum series_kind kind;
	uint64_t offset; /* of the first byte that is not understood yet */
	uint64_t start;  /* of the run's first byte: others may stand before it */
	uint64_t bytes;  /* when it was read last */
	int64_t mtime_ns;
	double rows;        /* of a text: lines that held values */
	const char *header; /* of a CSV: its first line; interned */
	double clock;       /* of a text: the epoch that it named last */
	double start_clock; /* at `start` */
	bool unended;       /* a last line without an end was read */
};

struct series_options {
	const struct series_patterns *patterns; /* of plain text */
	const char *const *map;                 /* "SERIES=ROLE" */
	size_t map_count;
	uint64_t patience; /* PLIM_UNKNOWN: each its own */
	double min_delta;
	bool redact; /* an error shows no name of a log */
	bool grows;  /* a last line without an end is one that is being written */
};

struct series_row_value {
	uint32_t series;
	double value;
};

/* Lines of a text that are not rows, by a bit of each. */
struct series_titles {
	uint64_t at[64];
};

struct series_run {
	struct mem *mem;
	const struct series_options *options;
	struct series_monitor monitor;
	VEC(struct series_curve) curves; /* next to monitor.watches */
	VEC(struct series_file) files;
	VEC(struct series_cut) cuts;      /* found while reading */
	VEC(struct series_cut) obey;      /* found before: values to set aside */
	VEC(struct series_row_value) row; /* that is being read */
	struct intern texts;
	struct intern stepped_only; /* series of a text whose values without a step do not count */
	VEC(const char *) notes;
	size_t asides;      /* notes of them, the first, that say which values do not count */
	const char *folder; /* where its checkpoints may be */
	const char *name;
	uint64_t points, set_aside, bytes;
	double first_step, last_step, first_time, last_time;
	double row_step, row_epoch, row_time, row_rank;
	char row_word[16];
	double row_of, last_of; /* "4/500": how many steps there are to be; of the row before */
	double last_epoch, last_row_step, step_base; /* of rows */
	double epoch_first,
		step_epoch; /* the smallest one; that of the last row with a step and one */
	/* The rows' clock: their steps, or epochs if they have none. */
	double clock_first, clock_most, clock_last;
	enum series_kind kind;
	enum series_side
		row_side; /* as the row says, by row_word; a text's reader names its values itself */
	unsigned part;    /* of its file: 0 is the first run of it */
	bool step_in_epoch; /* the last row with a step had one */
	bool splits;        /* where a run begins anew, another may be read from there */
	bool over;          /* another begins at the file's offset */
	bool followed;      /* which was added to the set */
	bool no_steps;      /* steps are strays: epochs count */
	bool titles;        /* a document has arrays of rows under several keys: */
	bool titled;        /* the keys are part of the names */
	bool row_updates;   /* a row's step counts the updates of the whole training */
	bool stepped;       /* a row with a step was none of an evaluation */
	bool headed;        /* a line between rows is a heading between marks */
	bool rounds_from_0; /* of steps within rounds */
	bool guessed;       /* no epoch says that the steps of one run begin anew: its loss does */
	bool sections;      /* of a text: headings say of which side what is below is */
	bool first_is_step; /* `first_clock`; else it is an epoch */
	bool by_place;      /* columns without names are named by their place */
	/* Lines before a text's first row, and between rows; of those that came since the last row: */
	struct series_titles head, between, gap;
	unsigned gap_n;      /* lines since the last row that differ, */
	unsigned new_titles; /* and that are new between rows; */
	unsigned head_new;   /* of those, and of all, lines of the head */
	unsigned head_again;
	const char *counter; /* an unknown name that counts the rows as a step does; NULL: none */
	double epochs;       /* that the log says there are: "epoch 3/20"; NaN: it does not */
	uint64_t rows_step;
	uint64_t rows, rows_no_step, counted_on;
	const char *unknown[2]; /* names that recur in a text without a known one */
	uint64_t
		before; /* offset of the first step or epoch of a text, if rows before it are not of the training; else 0 */
	uint64_t results;   /* series of a text that are not a course */
	uint64_t behind;    /* values without a step of series whose other lines have one */
	double first_clock; /* of the rows, if rows without one came before; NaN: none */
	double ahead;       /* the step of such rows; NaN: they are counted */
	uint64_t copies;    /* rows that repeat the one before */
	uint64_t single;    /* lines of a text that are one number */
	const char *column; /* the name of its file, which says what they are; NULL: it does not */
	const char *falls;  /* a name that is not known, of values that fall: the loss */
	bool both_sides;    /* a text without a known name has one of both sides, "tr_x", "va_x": */
	bool sides_count;   /* its values are read */
	unsigned
		supposed; /* names of a log without a loss, bits by enum series_player, 0: of an objective: */
	bool players;       /* they are losses; so are */
	bool objectives;    /* names of objectives */
	bool lone;          /* the file's name is that of a list: no other line is one of numbers */
	bool listed;        /* it has such lists, next to which a number alone does not count */
	uint64_t nameless;  /* lists that neither a word nor a line names */
	const char *sample; /* of a text: the first line with values, and how it was read */
	const char *unread; /* of a text: a line that was not read, or not all of it; */
	const char
		*unread_name; /* its name, and those of others as often; NULL: it is numbers only */
	uint64_t unread_lines;
	uint64_t bare;   /* lines of a text that hold nothing but numbers */
	uint64_t within; /* lines of an evaluation that went on */
	uint64_t bad_records, skipped_bytes, bad_cells, time_jumps;
	uint64_t bad_offset; /* of the first that was bad */
	uint64_t
		unpacked_bytes; /* of the log, before damage of its compressed form; UNKNOWN: none */
	bool torn;              /* a file ends within a record */
	bool restarted;         /* it was fed past a fall of steps: read again */
	bool ended;             /* the log itself says that the run is over */
	double best_metric, best_step, total_steps, runtime; /* of a trainer_state; NaN: none */
	const char *best_checkpoint;
};

void series_run_init(struct series_run *r, struct mem *m, const struct series_options *options);
void series_run_release(struct series_run *r);
/* Forget what was read, but not which files there are, nor `obey`. */
void series_run_clear(struct series_run *r);

enum plim_status series_run_add_file(struct series_run *r, const char *path, enum series_kind kind,
				     struct plim_err *err);

/* Read what is new in all files.  A step that fell is dealt with by reading all anew. */
enum plim_status series_run_read(struct series_run *r, bool *changed, struct plim_err *err);

/* For readers. */
enum plim_status series_run_series(struct series_run *r, const char *name, size_t n, uint32_t *out,
				   struct plim_err *err);
enum plim_status series_run_point(struct series_run *r, uint32_t series, double step, double time,
				  double value, struct plim_err *err);
/* Values of a row may come before its step does. */
void series_row_begin(struct series_run *r);
/* A row's text behind a key or head: "mode": "val" says the side of what comes. */
void series_row_says(struct series_run *r, const char *key, size_t key_n, const char *text,
		     size_t n);
enum plim_status series_row_put(struct series_run *r, const char *name, size_t n, double value,
				struct plim_err *err);
enum plim_status series_row_end(struct series_run *r, struct plim_err *err);
/* Rows of another array begin: their steps are not behind those before. */
void series_row_restart(struct series_run *r);
/* A line of words, or of numbers that are none of the training, was read. */
void series_row_heading(struct series_run *r, const char *line, size_t n);
/* The step that the row stands for; to be asked once. */
double series_row_step(struct series_run *r);
enum plim_status series_run_note(struct series_run *r, struct plim_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The notes on what was skipped and how the log was understood, once all is read. */
enum plim_status series_run_conclude(struct series_run *r, struct plim_err *err);

/* ---- what follows from a run ---- */

/* Is the series one of evaluations, by its name and by what is logged with it? */
bool series_is_evaluated(const struct series_monitor *m, uint32_t series);

/* As was asked for; else what the log itself took for best; else the validation loss, or the first metric; SERIES_NONE. */
uint32_t series_run_monitored(const struct series_run *r, const char *asked);
double series_best_value(const struct series_watch *w);
double series_best_step(const struct series_watch
				*w); /* the same value's; nothing that is smoothed is called best */

/* The step to go back to for a finding that lasts; NaN: no reason to. */
double series_back_for(enum plim_curves_id id, double step, double best_step);

/* Early stopping by *s, with what was best then; what could not be read of the log (false: all could). */
void series_tell_stop(const struct plim_early_stop *s, const char *series, double best,
		      double best_step, double saved_steps, struct series_words *out);
bool series_tell_damage(const struct series_run *r, struct series_words *out);

/* ---- a set of runs ---- */

struct series_set {
	struct mem *mem;
	const struct series_options *options;
	struct arena kept; /* names and folders */
	VEC(struct series_run *) runs;
	uint64_t left_out; /* event files of runs whose trainer_state was read */
};

void series_set_init(struct series_set *s, struct mem *m, const struct series_options *options);
void series_set_release(struct series_set *s);

/*
 * Find the runs of what was named, files or folders, and read what is new in them.  A run without a value is dropped,
 * and an error where it was named itself, unless it `grows`.
 */
enum plim_status series_set_read(struct series_set *s, const char *const *named, size_t named_count,
				 bool grows, bool *changed, struct plim_err *err);

/* ---- plain text ---- */

struct series_patterns;
enum plim_status series_patterns_new(struct mem *m, const char *path, struct series_patterns **out,
				     struct plim_err *err);
void series_patterns_free(struct series_patterns *p);

/* ---- finding logs, and checkpoints ---- */

#define SERIES_HEAD 16384 /* bytes of a file that tell its kind */

/* The kind of a file by its first bytes; UNKNOWN: no log. */
enum series_kind series_recognise(const uint8_t *head, size_t n, const char *name);

typedef enum plim_status series_found_fn(void *ctx, const char *run_folder, const char *path,
					 enum series_kind kind, struct plim_err *err);
/* Every log below a folder, in the order of their names; files of one run one after the other. */
enum plim_status series_search(struct mem *m, const char *folder, series_found_fn *found, void *ctx,
			       uint64_t *left_out, struct plim_err *err);

/* The newest checkpoint at or before `step` in or below a run's folder; *path interned in `texts`, NULL: none. */
enum plim_status series_checkpoint(struct mem *m, struct intern *texts, const char *folder,
				   double step, const char **path, double *at,
				   struct plim_err *err);

#endif
