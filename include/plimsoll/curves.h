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
	PLIM_CURVES_GROWS = 1, /* logs may be empty still: that is not an error */
	/* words in place of what names of runs, files and series have that not everybody's do */
	PLIM_CURVES_REDACT = 2
};

struct plim_curves_options {
	uint32_t size;        /* set by plim_curves_options_init */
	uint32_t flags;       /* enum plim_curves_flags */
	uint32_t stop_policy; /* enum plim_stop_policy, whose advice is the headline */
	/* of every early stopping that is replayed; PLIM_UNKNOWN: each its own default */
	uint64_t patience;
	uint64_t max_memory_bytes; /* 0: half of this machine's memory, or of the cgroup's */
	double min_delta;          /* of every early stopping that is replayed */
	const char *monitor;       /* series that early stopping looks at; NULL: chosen */
	const char *patterns_path; /* file of further patterns for plain text logs; NULL: none */
	const char **map;          /* "SERIES=ROLE" each: what a series is */
	size_t map_count;          /* how many */
};
PLIM_API void plim_curves_options_init(struct plim_curves_options *o);

struct plim_curves_series {
	const char *name;    /* as in the log */
	enum plim_role role; /* what it was taken for */
	bool role_given;     /* the role was given, not told by the name */
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
	const char *name;   /* its folder or file, as short as tells it apart */
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
 * read; PLIM_E_FORMAT: it is no training log, or a folder holds none; PLIM_E_ARG: an option is wrong.
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
