/* What the files of `watch` share. */
#ifndef VERBS_WATCH_H
#define VERBS_WATCH_H

#include "watch/watch.h"

#define WATCH_HISTORY 240 /* points of a graph */
#define WATCH_KEPT_JOBS 64

/* Points of a graph, each the mean (of use) or the last (of memory) of `width` samples; wider as time goes. */
struct watch_history {
	float busy[WATCH_HISTORY], memory[WATCH_HISTORY]; /* percent; NaN: not known */
	unsigned n, width, in_last;
	double every_s; /* between two samples */
	bool of_sm;     /* `busy` is the share of the multiprocessors, not that of the time */
};

/* `sm` NaN: the GPU does not say; what was known before it first does is another measure and goes. */
void watch_history_add(struct watch_history *h, double busy, double sm, double memory);

/* A job that was seen once. */
struct watch_known {
	struct watch_job *job;
	uint64_t pid, start_time;
	char name[64], gpu[72];
	uint64_t rank, world, group;
	bool seen; /* in this tick */
	struct watch_history history;
	char cgroup[320]; /* its folder; "": not seen */
	uint64_t kills;   /* there, when it was seen first */
	bool waited;
	bool of_starter; /* the status is that of what started it, which may be its own */
	bool let_go;     /* it holds no GPU any more, and lives */
	int status;      /* if waited */
	double ended_time;
	bool end_told;
	const char *end; /* why it ended; NULL: not known */
};

/* Something that held in the sample before. */
struct watch_raised {
	enum plim_watch_event event;
	uint64_t pid; /* or the GPU's number */
	double since; /* that it holds */
	bool told, holds;
	double told_time;
	char title[200];
};
#define WATCH_RAISED 256

struct plim_watch_hidden {
	struct mem mem;
	struct arena arena; /* what the result points to; made anew by each tick */
	struct plim_watch_options options;
	double window_s;
	VEC(struct watch_known) jobs;
	struct watch_look *look; /* NULL: a replay */
	int log;                 /* -1: none */
	uint64_t page_bytes;
	size_t glance_turn;
	double time; /* of the newest sample of any job */
	VEC(struct watch_raised) raised;
	struct intern words;      /* redacted: a name's id is its word's number */
	uint64_t xids[GPU_CARDS]; /* reported before */
};

/* GPUs, ranks that belong together, and what the public struct has next to jobs. */
enum plim_status watch_fill_cards(struct plim_watch *w, struct plim_err *err);
enum plim_status watch_fill_groups(struct plim_watch *w, struct plim_err *err);
enum plim_status watch_fill_processes(struct plim_watch *w, const struct watch_job *j,
				      struct plim_watch_job *out, struct plim_err *err);

/* Where it was in the looks of the newest window (places.c); a look now, unless its state is sure without. */
enum plim_status watch_fill_places(struct plim_watch *w, struct watch_job *j,
				   struct plim_watch_job *out, struct plim_err *err);
void watch_glance_at(struct plim_watch_hidden *h, const struct watch_known *k);

/* Names of the user's own files and functions in stacks, and what they execute. */
enum plim_status watch_redact_stacks(struct plim_watch_hidden *h, struct watch_stacks *s,
				     struct plim_err *err);

/* A word with a number, the same for the same name. */
enum plim_status watch_hide(struct intern *words, const char *kind, char *name, size_t room,
			    struct plim_err *err);

/* With PLIM_WATCH_REDACT: a program's name, those in a sample, and what else a result shows (redact.c). */
enum plim_status watch_redact_name(struct plim_watch_hidden *h, char *name, size_t room,
				   struct plim_err *err);
enum plim_status watch_redact_sample(struct plim_watch_hidden *h, struct watch_sample *s,
				     struct plim_err *err);
enum plim_status watch_redact_rest(struct plim_watch *w, struct plim_err *err);

/* What holds now becomes alerts: each once an episode. */
enum plim_status watch_fill_alerts(struct plim_watch *w, struct plim_err *err);

/* "input-cpu" of PLIM_WATCH_INPUT_CPU, for people and command lines. */
const char *watch_state_word(enum plim_watch_state s, char out[32]);

/* The same in capitals, in its colour. */
void watch_put_state(struct text *t, enum plim_watch_state s);

/* All that is said of a job. */
void watch_put_job(struct text *t, const struct plim_watch_job *j);
void watch_put_verdict(struct text *t, const struct plim_watch_job *j);
void watch_put_numbers(struct text *t, const struct plim_watch_job *j);
void watch_put_forecasts(struct text *t, const struct plim_watch_job *j);

/* "5 min" */
const char *watch_span_text(char out[32], double seconds);

#endif
