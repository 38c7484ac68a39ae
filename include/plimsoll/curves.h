/*
 * plimsoll curves: training logs of every kind, and what went wrong in them.
 *
 * A number that is not known is NaN or PLIM_UNKNOWN and a text that is not known is NULL; JSON shows
 * null for each.  Everything a result points to belongs to it.
 */
#ifndef PLIMSOLL_CURVES_H
#define PLIMSOLL_CURVES_H

#include <plimsoll/monitor.h>
#include <plimsoll/report.h>

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plim_curves_flags {
	/*
	 * (-f --follow, under growing) go on reading, and say what is found when it is found; ends
	 * with what --fail-on names. Logs may be empty still: that is not an error
	 */
	PLIM_CURVES_GROWS = 1,
	/*
	 * (--redact, under names) replace what names of runs, files and series have that not
	 * everybody's do; in the page and for --run, too
	 */
	PLIM_CURVES_REDACT = 2
};

struct plim_curves_options {
	/* set by plim_curves_options_init */
	uint32_t size;
	/* enum plim_curves_flags */
	uint32_t flags;
	/*
	 * (--policy RULE, of plim_stop_policy, after --min-delta) whose rule the advice follows:
	 * plimsoll, keras, lightning or transformers. Its advice is the headline
	 */
	uint32_t stop_policy;
	/*
	 * (--patience N, 0 to 1000000, else unknown, under stopping) evaluations without
	 * improvement (each program's default). Of every early stopping that is replayed
	 */
	uint64_t patience;
	/* (-m --max-memory BYTES, from 1MiB, under limits) use no more (half of this machine's) */
	uint64_t max_memory_bytes;
	/*
	 * (--min-delta X, wants "a number from 0 on", after --patience) what an improvement has to
	 * exceed. Of every early stopping that is replayed
	 */
	double min_delta;
	/*
	 * (--monitor SERIES, after --map) look here for the best step and for early stopping (the
	 * validation loss)
	 */
	const char *monitor;
	/* (--patterns FILE) further patterns for plain text, one a line: iter {step}: loss {loss} */
	const char *patterns_path;
	/*
	 * (--map SERIES=ROLE, under series) take a series for train_loss, val_loss, metric, error,
	 * grad_norm, learning_rate, loss_scale, skipped_steps, memory, entropy or other
	 */
	const char **map;
	/* how many */
	size_t map_count;
};
PLIM_API void plim_curves_options_init(struct plim_curves_options *o);

struct plim_curves_series {
	const char *name;    /* as in the log */
	enum plim_role role; /* what it was taken for */
	bool role_given;     /* the role was given, not known by the name */
	uint64_t points;     /* values, those that are not finite included */
	uint64_t non_finite; /* values that are NaN or infinite */
	double first_step;   /* of its first point */
	double last_step;    /* of its last point */
	double first;        /* its first finite value */
	double last;         /* its last finite value */
	double min;          /* its smallest finite value */
	double min_step;     /* where that was */
	double max;          /* its largest finite value */
	double max_step;     /* where that was */
};

struct plim_curves_best {
	const char *series;     /* that it was looked for in; null: no evaluation was logged */
	double step;            /* of the best value */
	double value;           /* the best value */
	const char *checkpoint; /* nearest one at or before that step; null: none was found */
	double checkpoint_step; /* its step */
};

struct plim_curves_back {
	/* the last step before the trouble, or the best one; null: nothing to go back for */
	double step;
	const char *why;        /* one sentence */
	const char *checkpoint; /* the newest one at or before that step; null: none was found */
	double checkpoint_step; /* its step */
};

struct plim_curves_policy {
	enum plim_stop_policy policy; /* whose rule */
	uint64_t patience;            /* evaluations */
	double min_delta;             /* what an improvement has to exceed */
	double stop_step;             /* where it would have stopped; null: it would not */
	enum plim_stop_reason reason; /* why */
	double best_step;             /* the step whose weights it would have kept */
	double best;                  /* the value there */
	/* steps of this log behind the stop; null: it would not stop */
	double saved_steps;
	double saved_seconds; /* their time by the log's own clock; null: it has none */
};

struct plim_curves_run {
	const char *name;   /* its folder or file, as short as distinguishes it */
	const char *source; /* path of the log, the first one if it has several */
	/* "trainer_state", "tensorboard", "csv", "json", "wandb", "mlflow" or "text" */
	const char *kind;
	uint64_t files;    /* that were read for it */
	uint64_t bytes;    /* of these */
	uint64_t points;   /* values, of all series */
	double first_step; /* of the log */
	double last_step;  /* of the log */
	/* from its first to its last time stamp; null: it has none */
	double seconds;
	const char *verdict;               /* one line */
	enum plim_severity severity;       /* of the worst finding; info: nothing is wrong */
	struct plim_curves_best best;      /* the best evaluation */
	struct plim_curves_back go_back;   /* where to go back to */
	struct plim_curves_series *series; /* in the log's order */
	size_t series_count;               /* how many */
	/* the worst first; the id is plim_curves_id_name's, place.file the log */
	struct plim_finding *findings;
	size_t finding_count;                /* how many */
	struct plim_curves_policy *policies; /* early stopping, replayed */
	size_t policy_count;                 /* how many */
	const char **notes;                  /* what was skipped, and how the log was understood */
	size_t note_count;                   /* how many */
};

struct plim_curves {
	struct plim_curves_run *runs;      /* in the order of the paths, by name within a folder */
	size_t run_count;                  /* how many */
	const char **notes;                /* what was left out; redacted: what is kept */
	size_t note_count;                 /* how many */
	struct plim_curves_hidden *hidden; /* what owns the memory */
};

/*
 * Read logs: files, or folders that are searched ("-": standard input).  PLIM_E_IO: a path cannot be
 * read; PLIM_E_FORMAT: it is not a training log, or a folder holds none; PLIM_E_ARG: an option is wrong.
 */
PLIM_API enum plim_status plim_curves_open(const char *const *paths, size_t n,
					   const struct plim_curves_options *options,
					   struct plim_curves **out, struct plim_err *err);
PLIM_API void plim_curves_free(struct plim_curves *curves);

/*
 * Read what was appended since; files that were rewritten are read again, new runs in folders are
 * found.  *changed (may be NULL): whether anything is different.
 */
PLIM_API enum plim_status plim_curves_refresh(struct plim_curves *curves, bool *changed,
					      struct plim_err *err);

/* As JSON, schema curves/1 (docs/json.md). */
PLIM_API enum plim_status plim_curves_json(const struct plim_curves *curves, plim_write_fn *write,
					   void *ctx, struct plim_err *err);

enum plim_curves_text_flags {
	PLIM_CURVES_TEXT_SERIES = 1,  /* the table of series with what each was taken for */
	PLIM_CURVES_TEXT_NO_PLOT = 2, /* no plot */
	PLIM_CURVES_TEXT_BRIEF = 4    /* one line a run, and findings' titles */
};

/* As text for a person; flags: enum plim_curves_text_flags. */
PLIM_API enum plim_status plim_curves_text(const struct plim_curves *curves, unsigned flags,
					   const struct plim_text_style *style,
					   plim_write_fn *write, void *ctx, struct plim_err *err);

/*
 * The curves of all runs as one HTML file with their findings (docs/curves.md), written whole or not at
 * all; *bytes (may be NULL): its size.  PLIM_E_IO: it cannot be written.
 */
PLIM_API enum plim_status plim_curves_page(const struct plim_curves *curves, const char *path,
					   uint64_t *bytes, struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
