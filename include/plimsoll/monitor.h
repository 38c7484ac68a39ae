/*
 * Training curves watched while they are made: feed values from a training loop, ask what is wrong
 * and whether to stop.  `plimsoll curves` reads logs with the same rules (docs/curves.md).
 *
 *	plim_monitor_new(NULL, &m, &err);
 *	plim_monitor_feed(m, "loss", step, loss, NULL, &err);	every step
 *	plim_monitor_feed(m, "val_loss", step, val_loss, &news, &err);
 *	if (news.stop) ...
 *
 * A monitor keeps a fixed amount of memory a series, whatever the length of the run.
 */
#ifndef PLIMSOLL_MONITOR_H
#define PLIMSOLL_MONITOR_H

#include <plimsoll/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a series is.  Values never change. */
enum plim_role {
	PLIM_ROLE_OTHER,
	PLIM_ROLE_TRAIN_LOSS,
	PLIM_ROLE_VAL_LOSS,
	PLIM_ROLE_METRIC,    /* of an evaluation, higher is better */
	PLIM_ROLE_ERROR,     /* of an evaluation, lower is better: perplexity, WER, MAE */
	PLIM_ROLE_GRAD_NORM, /* before clipping */
	PLIM_ROLE_LEARNING_RATE,
	PLIM_ROLE_LOSS_SCALE,    /* of a GradScaler, or DeepSpeed's */
	PLIM_ROLE_SKIPPED_STEPS, /* since the last log */
	PLIM_ROLE_MEMORY,        /* in any unit */
	PLIM_ROLE_ENTROPY        /* of a policy */
};
#define PLIM_ROLE_COUNT 11

/* What may be found.  Values never change; new ones are added at the end. */
enum plim_curves_id {
	PLIM_CURVES_NAN,
	PLIM_CURVES_INF,
	PLIM_CURVES_SPIKE,
	PLIM_CURVES_DIVERGED,
	PLIM_CURVES_EXPLOSION,
	PLIM_CURVES_OVERFIT,
	PLIM_CURVES_COLLAPSE,
	PLIM_CURVES_PLATEAU,
	PLIM_CURVES_EARLY_STOP,
	PLIM_CURVES_SCALER_SKIPS,
	PLIM_CURVES_MEMORY_CREEP,
	PLIM_CURVES_LEARNING_RATE,
	PLIM_CURVES_LOG_DAMAGE
};
#define PLIM_CURVES_ID_COUNT 13

/* "nan", "memory_creep" ...; "train_loss", "grad_norm" ...  NULL: there is no such value. */
PLIM_API const char *plim_curves_id_name(enum plim_curves_id value);
PLIM_API const char *plim_role_name(enum plim_role value);

/* The role that the name of a series shows, "eval/loss" or "train_grad_norm"; OTHER: none. */
PLIM_API enum plim_role plim_role_of(const char *name);

/* ---- early stopping ---- */

/* Whose rule.  Each treats NaN in its own way (docs/curves.md). */
enum plim_stop_policy {
	PLIM_STOP_PLIMSOLL,    /* NaN is never an improvement and counts as a bad evaluation */
	PLIM_STOP_KERAS,       /* a first NaN becomes the best, and is never beaten */
	PLIM_STOP_LIGHTNING,   /* what is not finite stops at once */
	PLIM_STOP_TRANSFORMERS /* NaN counts as a bad evaluation; best_metric moves on any gain */
};

enum plim_stop_reason {
	PLIM_STOP_NOT, /* null: it does not */
	PLIM_STOP_PATIENCE,
	PLIM_STOP_NON_FINITE,
	PLIM_STOP_THRESHOLD, /* stopping_threshold was reached */
	PLIM_STOP_DIVERGENCE /* divergence_threshold was passed */
};

/*
 * One rule and its state: plain data in the caller's storage, to be copied and saved as it is.
 * plim_early_stop_init sets defaults; then change the first part.
 */
struct plim_early_stop {
	uint32_t size;               /* sizeof(struct plim_early_stop) */
	uint32_t policy;             /* enum plim_stop_policy */
	uint32_t maximize;           /* 0: lower is better */
	uint32_t reason;             /* enum plim_stop_reason, of the evaluation fed last */
	uint64_t patience;           /* evaluations without improvement */
	uint64_t start_from;         /* Keras: epochs (evaluations) that are not looked at */
	double min_delta;            /* Transformers: early_stopping_threshold */
	double baseline;             /* Keras; NaN: none */
	double stopping_threshold;   /* Lightning; NaN: none */
	double divergence_threshold; /* Lightning; NaN: none */
	/* state */
	uint64_t seen;     /* evaluations */
	uint64_t wait;     /* of them without improvement, at the end */
	double best;       /* NaN: none yet (or, in Keras, that) */
	double best_step;  /* NaN: none yet */
	double stop_step;  /* of the evaluation that first said stop; NaN: none did */
	uint32_t has_best; /* best is set */
	uint32_t unused;   /* 0 */
};

/* patience PLIM_UNKNOWN: the policy's own default (Keras 0, Lightning 3, Transformers 1, ours 5). */
PLIM_API void plim_early_stop_init(struct plim_early_stop *s, enum plim_stop_policy policy,
				   uint64_t patience);

/* One evaluation.  Not PLIM_STOP_NOT: the policy stops here.  May be fed further. */
PLIM_API enum plim_stop_reason plim_early_stop_feed(struct plim_early_stop *s, double step,
						    double value);

/* "plimsoll", "keras", "lightning", "transformers"; NULL: there is no such value. */
PLIM_API const char *plim_stop_policy_name(enum plim_stop_policy value);

/* "patience", "non_finite" ...; NULL: it does not stop. */
PLIM_API const char *plim_stop_reason_name(enum plim_stop_reason value);

/* ---- monitor ---- */

struct plim_monitor;

struct plim_monitor_options {
	uint32_t size;    /* set by plim_monitor_options_init */
	uint32_t stop_on; /* bit 1 << id: findings of it say stop; 0: nan, inf, diverged */
	/* evaluations of early stopping; PLIM_UNKNOWN, 0: no early stopping */
	uint64_t patience;
	double min_delta;          /* of early stopping */
	uint64_t max_memory_bytes; /* 0: half of this machine's memory, or of the cgroup's */
};
PLIM_API void plim_monitor_options_init(struct plim_monitor_options *o);

/* What one value brought up. */
struct plim_monitor_news {
	uint32_t found; /* findings that are new */
	uint32_t ended; /* findings that are over (a spike that came back) */
	bool stop;      /* something says stop, now or before: see plim_monitor_should_stop */
};

/* One thing that was found.  Texts belong to the monitor and hold until the next call with it. */
struct plim_monitor_finding {
	enum plim_curves_id id;      /* what it is */
	enum plim_severity severity; /* how bad */
	double confidence;           /* 0 to 1 */
	double step;                 /* where it began */
	double detected_step;        /* where it could first be said */
	double end_step;             /* where it was over; NaN: it is not */
	const char *series;          /* the name of the series it was found in */
	const char *title;           /* one line */
	const char **evidence;       /* sentences with the numbers */
	size_t evidence_count;
	const char **fix; /* what to do, best first */
	size_t fix_count;
};

/* options may be NULL. */
PLIM_API enum plim_status plim_monitor_new(const struct plim_monitor_options *options,
					   struct plim_monitor **out, struct plim_err *err);
PLIM_API void plim_monitor_free(struct plim_monitor *m);

/* Say what the series of that name is, where its name does not say; before its first value. */
PLIM_API enum plim_status plim_monitor_set_role(struct plim_monitor *m, const char *name,
						enum plim_role role, struct plim_err *err);

/*
 * One value.  Steps of a series go up; a step that falls is a resume: what was found at or after
 * it is taken back.  news may be NULL.  Takes tens of nanoseconds, and takes memory only for the
 * first value of a series.  PLIM_E_ARG: the step is not finite; PLIM_E_LIMIT: over 4096 series.
 */
PLIM_API enum plim_status plim_monitor_feed(struct plim_monitor *m, const char *name, double step,
					    double value, struct plim_monitor_news *news,
					    struct plim_err *err);

/* Why to stop (the title of a finding, or early stopping in words); NULL: go on. */
PLIM_API const char *plim_monitor_should_stop(struct plim_monitor *m);

/* How many findings there are, those over included, and the one at `i` in the order of detection. */
PLIM_API size_t plim_monitor_finding_count(const struct plim_monitor *m);
PLIM_API enum plim_status plim_monitor_get_finding(struct plim_monitor *m, size_t i,
						   struct plim_monitor_finding *out,
						   struct plim_err *err);

/*
 * The best evaluation so far, of the first series that is a validation loss, else of the first
 * metric.  NaN in both: there was none.
 */
PLIM_API void plim_monitor_get_best(const struct plim_monitor *m, double *step, double *value);

/*
 * The whole state as bytes, which plim_monitor_restore takes back, also in another process of the
 * same release.  With at NULL only *n is set: how many there are.  PLIM_E_ARG: room is too small.
 */
PLIM_API enum plim_status plim_monitor_save(const struct plim_monitor *m, void *at, size_t room,
					    size_t *n, struct plim_err *err);

/* PLIM_E_FORMAT: these are not such bytes, of another layout, or damaged; *m is as it was then. */
PLIM_API enum plim_status plim_monitor_restore(struct plim_monitor *m, const void *at, size_t n,
					       struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
