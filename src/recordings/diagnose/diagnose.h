/*
 * From facts to findings: what a recording says of its deaths and leaks, with the numbers behind it.
 * A finding that the recording cannot carry is not made: "unknown" is an answer.
 */
#ifndef DIAGNOSE_DIAGNOSE_H
#define DIAGNOSE_DIAGNOSE_H

#include "facts/facts.h"
#include "messages/messages.h"
#include "recording/recording.h"

/*
 * What a verdict goes by, from a recording and from a text.
 *
 * Of the bound, what no setting avoids: pages of 20 MiB, 512-byte rounding, pools that do not share.  Measured runs
 * under expandable_segments reserve 1 to 3 % more than lives (tests/data, whatif truth of 2.11), and a text counts
 * rounding as allocated.
 */
#define FINDINGS_SLACK_PART 50
/* Of the GPU: memory outside of this process's allocator that decides. */
#define FINDINGS_OUTSIDE_PART 10

struct findings_input;

/* Memory that piles up from one repetition of the program to the next. */
struct findings_leak {
	uint32_t repetitions; /* since the first that kept something; 0: there is no leak */
	const char *period;   /* what they are called: "step", "eval iteration" ... */
	double confidence;
	uint64_t grown_bytes, per_repetition_bytes;
	uint64_t before_bytes;            /* of grown_bytes, what is older than the recording */
	uint32_t lines;                   /* of the program, that the bytes were allocated at */
	uint32_t first_event, last_event; /* of what stays */
	uint32_t loop_frame;              /* the line that shows the repetitions, or TRACE_NONE */
	uint32_t stack,
		frame; /* of the largest part of what stays; TRACE_NONE: born without Python */
	uint64_t part_bytes;           /* that part */
	const char *guess[2], *fix[2]; /* what it may be, the likeliest first; what to do then */
};

/* What is true of every leak: where to look, what does not help. */
extern const char findings_leak_holder[], findings_leak_delay[];

/* All lines that leak, up to event `end`, as one; repetitions is 0 if none does. */
enum plim_status findings_find_leak(struct mem *m, const struct findings_input *in, uint32_t end,
				    struct findings_leak *leak, struct plim_err *err);

enum findings_bound {
	FINDINGS_BOUND_UNKNOWN,
	FINDINGS_BOUND_DEVICE,
	FINDINGS_BOUND_LIMIT,
	FINDINGS_BOUND_OTHER_PROCESS,
	FINDINGS_BOUND_NON_PYTORCH,
	FINDINGS_BOUND_HOST,
	FINDINGS_BOUND_CGROUP,
	FINDINGS_BOUND_SHARED_MEMORY,
};

enum findings_cause {
	FINDINGS_CAUSE_UNKNOWN,
	FINDINGS_CAUSE_CAPACITY,
	FINDINGS_CAUSE_FRAGMENTATION,
	FINDINGS_CAUSE_LEAK,
	FINDINGS_CAUSE_PRIVATE_POOLS, /* enough was free, but another pool's */
	FINDINGS_CAUSE_OTHER_STREAM,  /* enough was free, but another stream's */
};

/* How much the step had still to allocate at its highest, above what was live when it died. */
enum findings_future {
	FINDINGS_FUTURE_UNKNOWN,   /* the program was never at this point before */
	FINDINGS_FUTURE_REPEATED,  /* as after the same point in earlier repetitions */
	FINDINGS_FUTURE_OPTIMIZER, /* the first optimizer step, whose state was not all born */
	FINDINGS_FUTURE_PLANNED,   /* a plan, which knows its end */
};

struct findings_death {
	uint32_t event;
	uint64_t request_bytes, segment_bytes; /* rounded; what the driver was asked for */
	uint64_t live_bytes;                   /* allocated, in blocks */
	uint64_t requested_live_bytes;         /* the same without rounding and slack */
	uint64_t reserved_bytes,
		most_reserved_bytes;             /* at the death, after giving back; ever before */
	uint64_t most_live_bytes;                /* allocated, ever in the recording */
	uint64_t free_bytes, largest_free_bytes; /* reserved but not allocated */
	struct allocator_oom room; /* what of it the request could not have, and who keeps that */
	uint64_t device_free_bytes;
	enum findings_bound bound_by;
	const struct facts_gpu *card; /* DEVICE without a text: what it is concluded from */
	uint64_t bound_low_bytes,
		bound_high_bytes; /* reserved memory that was allowed: at least, below */
	enum findings_future future;
	uint32_t points_before; /* REPEATED: how often the program was at this point before */
	int scaled; /* REPEATED: never with a request of this size; the two below allow for that */
	uint64_t still_low_bytes, still_likely_bytes, still_high_bytes;
	int complete;    /* the recording began before anything was reserved */
	int answered;    /* it may have trained: no pass that a backward pass never answers */
	uint32_t climbs; /* REPEATED: how often in a row this point stood higher than before */
	enum findings_cause cause;
	enum findings_cause likelier; /* of cause UNKNOWN: what speaks for it; may be UNKNOWN too */
	double confidence;            /* of the cause */
	struct findings_leak leak;    /* what piled up until then, all lines together */
	const struct messages_oom *message; /* NULL: no text was given */
};

/* What the same requests did under settings that people would try, up to the recording's end; our own allocator is last. */
#define FINDINGS_TRIED (ALLOCATOR_FIRST_SETTINGS + 1)
struct findings_tried {
	const char *settings;
	int own; /* `settings` names a call of Python, not a value of PYTORCH_CUDA_ALLOC_CONF */
	int survives; /* wherever the driver puts the segments */
	uint64_t reserved_bytes;
	struct plim_whatif_run run; /* all that whatif says of it, except for the smallest limit */
};

/*
 * Try the first *n of them.  *n afterwards: how many were; 0: the model does not give the recording
 * back, so that it says nothing of other settings.
 */
enum plim_status findings_try_settings(struct mem *m, const struct timeline *tl,
				       const struct allocator_bounds *bounds,
				       struct findings_tried tried[FINDINGS_TRIED], size_t *n,
				       struct plim_err *err);

/* What stands in front of its name in a piece of advice. */
#define FINDINGS_HOW 80 /* bytes of it */
const char *findings_how_to_set(const struct snapshot *t, const struct findings_tried *one,
				char out[FINDINGS_HOW]);

/* What a replay is bounded by to be one of that death; whatif and report ask both. */
struct allocator_bounds findings_bounds_of(const struct findings_death *d);

/* Did it die of a leak, or of one likelier than of anything else?  whatif and report ask both. */
int findings_is_leak(const struct findings_death *d);

/* Of the causes private pools and other stream, also if only likelier: the free memory and who keeps it; else NULL. */
const struct allocator_apart *findings_apart(const struct findings_death *d);

/* May a setting have saved the run?  Not where it leaks, or needs more than was certainly allowed. */
int findings_settings_help(const struct findings_death *d);

/* ---- findings ---- */

enum findings_severity {
	FINDINGS_INFO, /* worth knowing */
	FINDINGS_WARN, /* costs a part of the peak that could be had back */
	FINDINGS_BAD   /* killed the run, or will */
};

#define FINDINGS_LINES 6
struct findings_lines {
	const char *at[FINDINGS_LINES];
	size_t n;
};

/* Unknown bytes are PLIM_UNKNOWN.  No text holds a name from the file. */
struct finding {
	const char *id; /* a row of detect.c's table */
	enum findings_severity severity;
	double confidence; /* 0 to 1: that it is what it is called */
	const char *title;
	uint64_t bytes;            /* what it costs at the moment it is about */
	uint64_t bytes_per_period; /* how much more each period */
	const char *period;        /* "step", "eval iteration" ...; NULL: it does not grow */
	uint32_t stack, frame;     /* the user's line that allocated; TRACE_NONE */
	int inferred;              /* the line is concluded, not recorded */
	struct findings_lines evidence, fix, see;
	struct findings_leak leak; /* of id leak */
	VEC(uint32_t) about;       /* the allocations; the list's memory */
};

struct findings_list {
	struct mem *mem;
	struct intern texts;
	VEC(struct finding) all; /* worst first */
};

struct findings_input {
	const struct timeline *tl;
	const struct timeline_categories *categories; /* mem NULL: no stacks were recorded */
	const struct timeline_steps *steps;           /* of an optimizer */
	const struct timeline_steps *periods;         /* what repeats where there are none */
	const struct messages_oom *message; /* the text of the failure that is explained, or NULL */
	const struct findings_death *death; /* the last failure, or NULL */
	const struct findings_tried *tried; /* what was tried for it */
	size_t tried_count;
	int replays;      /* may what survived be tried under other settings, too? */
	const char *only; /* the one detector that is asked; NULL: all */
};

/* Why the request at an `oom` event failed, from the input's first four; *out borrows the message. */
enum plim_status findings_explain_death(struct mem *m, const struct findings_input *in,
					const struct allocator_oom *oom, struct findings_death *out,
					struct plim_err *err);

/* All that is worth pointing out; an empty list is the good answer.  Linear in events. */
enum plim_status findings_find(struct mem *m, const struct findings_input *in,
			       struct findings_list *out, struct plim_err *err);
void findings_release(struct findings_list *l);

/* The ids that findings can have, in turn; NULL behind the last. */
const char *findings_id(size_t i);

/* ---- one device of a recording, told ---- */

/* What is asked of a device (TIMELINE, CATEGORIES and STEPS are needed), and what was found on the way. */
struct diagnosis {
	struct recording_device *device;
	const struct timeline *tl; /* the device's, or a part of it */
	struct recording_names
		*names; /* and the arena of what is reported; diagnose_death needs none */
	const struct messages_oom *message;          /* the text of the last failure, or NULL */
	int replays;                                 /* may other settings be tried for advice? */
	struct findings_death death;                 /* out: the failure that was explained last */
	struct findings_tried tried[FINDINGS_TRIED]; /* out: for it */
	size_t tried_count;
};

/* The out-of-memory text in a log.  PLIM_E_FORMAT: there is none. */
enum plim_status diagnose_read_message(struct mem *m, const char *path, struct messages_oom *out,
				       struct plim_err *err);

/* Why failure i of the replay happened, as x->death: numbers alone. */
enum plim_status diagnose_death(struct diagnosis *x, size_t i, struct plim_err *err);

/* All failures, of many only the first and last with a verdict; and the last alone (there must be one). */
enum plim_status diagnose_ooms(struct diagnosis *x, struct plim_report_oom **out, size_t *count,
			       struct plim_err *err);
enum plim_status diagnose_last_oom(struct diagnosis *x, struct plim_report_oom *out,
				   struct plim_err *err);

/* The verdict of a death, with its sentences. */
enum plim_status diagnose_verdict(struct recording_names *n, const struct findings_death *d,
				  const struct findings_tried *tried, size_t tried_count,
				  struct plim_verdict *v, struct plim_err *err);

/* What the detectors find, or the `only` one; x->death must be that of the last failure, if there is one. */
enum plim_status diagnose_find(const struct diagnosis *x, const char *only,
			       struct findings_list *out, struct plim_err *err);

/* The same in sentences with places; a failure is a finding too, the first (`last`; NULL: none). */
enum plim_status diagnose_findings(const struct diagnosis *x, const struct findings_list *list,
				   const struct plim_report_oom *last, struct plim_finding **out,
				   size_t *count, struct plim_err *err);

/* What is known of leaks beyond the findings of `list`; `before`: findings in front of it. */
enum plim_status diagnose_leaks(const struct diagnosis *x, const struct findings_list *list,
				size_t before, struct plim_report_leak **out, size_t *count,
				struct plim_err *err);

/* When they fill the GPU `gpu`, or NULL: the next larger ones.  PLIM_E_ARG: no such GPU. */
enum plim_status diagnose_fills(const struct diagnosis *x, const struct findings_list *list,
				const char *gpu, struct plim_report_fill **out, size_t *count,
				struct plim_err *err);

/* Who owns what is reserved and not asked for at the end; *out NULL: a tenth of what is allocated, or less. */
enum plim_status diagnose_gap(const struct diagnosis *x, struct plim_report_gap **out,
			      struct plim_err *err);

/* The same at the peak of what is allocated; *out NULL: a tenth of what is reserved then, or less, or not known. */
enum plim_status diagnose_gap_at_peak(const struct diagnosis *x, struct plim_report_gap **out,
				      struct plim_err *err);

/* What a part of it is called, for a person. */
const char *diagnose_gap_words(const struct plim_report_gap_part *part);

/* What a program may fill: of it what PyTorch certainly has, and all of it. */
struct diagnose_room {
	const char *card; /* NULL: a limit */
	uint64_t certain_bytes, all_bytes;
};

#define DIAGNOSE_FILLS_MAX 1000000 /* repetitions: later than that no one asks */

/* When they fill it, if they do: 0 where nothing leaks. */
int diagnose_fill(const struct diagnosis *x, const struct findings_list *list,
		  const struct diagnose_room *room, struct plim_report_fill *out);

/* What a log alone says of a death: less than a recording, so causes are ranked and seldom certain. */
#define FINDINGS_CAUSES 3
struct findings_told {
	enum findings_bound bound_by;
	int bound_certain;
	enum findings_cause cause;
	enum findings_cause
		ranked[FINDINGS_CAUSES]; /* likeliest first; cause itself, if it is known */
	size_t ranked_count;
	struct messages_bytes
		request; /* "Tried to allocate" is a segment: what can have been asked for */
	struct messages_bytes bound;       /* what PyTorch could have held at most */
	struct messages_bytes room;        /* of it, what was not allocated, in whatever pieces */
	struct messages_bytes own_outside; /* of the GPU, this process's but not PyTorch's */
	struct messages_bytes outside;     /* on the GPU, in neither PyTorch's hands nor free */
	int no_room; /* the request is larger than all the room together: no gaps are to blame */
	int free_enough; /* the driver had more free than it was asked for, and no limit was reported */
	int ranks; /* the others on the GPU may be ranks of this job: 2, and they look like it */
	int nearly; /* it was asked for nearly all that was free, which it seldom gives in one piece */
	int elsewhere; /* most of the GPU is neither free nor this program's: its own causes are not the question */
};

void findings_judge_message(const struct messages_event *e, const struct messages_context *c,
			    struct findings_told *out);

/* ---- advice (advice.c) ---- */

/* May the memory be that of PyTorch's caching allocator?  Also where nothing shows the engine. */
enum messages_moment findings_moment(const struct messages_event *e,
				     const struct messages_context *c);
int findings_bare(const struct messages_event *e);
/* Someone's words, which tell neither of a GPU nor of the machine. */
int findings_untold(const struct messages_event *e);
int findings_async(const struct messages_event *e);
int findings_own_limit(const struct messages_event *e);
int findings_own_heap(const struct messages_event *e);
int findings_one_buffer(const struct messages_event *e, const struct messages_context *c);
int findings_is_pytorch(const struct messages_context *c);

enum findings_advice { FINDINGS_HELPS, FINDINGS_USELESS, FINDINGS_CERTAINTY, FINDINGS_LISTS };

#define FINDINGS_FIRST 200 /* bytes of what to do first */
#define FINDINGS_ACTIONS 3
struct findings_action {
	char what[FINDINGS_FIRST];
	char fix[FINDINGS_FIRST]; /* the command or line to change; "": nothing can be typed */
	int example; /* its value is an example: the amount is the reader's to choose */
};
struct findings_advised {
	struct lines lists[FINDINGS_LISTS];
	struct findings_action actions[FINDINGS_ACTIONS]; /* what to do, the first first */
	size_t action_count;
};

/* What helps, what does not, what would give certainty, for this program and what it was doing; added to the lists. */
void findings_advise(const struct messages_event *e, const struct findings_told *t,
		     const struct messages_context *c, struct findings_advised *out);

/* A failure that only its text shows (log_sentences.c): what is known of it, and where its sentences go. */
struct diagnose_text {
	struct arena *arena;
	const struct messages_log *log;
	const struct messages_event *event; /* of the log */
	const char *process;                /* as it may be named; NULL: not known */
	int redacts;                        /* names of files are not reported */
};

/* What is said of it besides its verdict. */
struct diagnose_told {
	struct messages_context context; /* the program that it was */
	const char **actions;            /* what to do, the first first */
	const char *
		*fixes; /* of each action the command or line to change; "": nothing can be typed */
	size_t action_count;
	const char *held; /* who held the memory; NULL: the text does not say */
	const char *open; /* what is not decided, and what decides it; NULL: nothing */
};

/*
 * The short answer (log_short.c): what ran out and how far, who held it, what is not decided; texts of x->arena.  The last
 * two are NULL if there is nothing to say.
 */
const char *diagnose_headline(const struct diagnose_text *x, const struct findings_told *t,
			      const struct messages_context *c, struct plim_err *err);
const char *diagnose_held(const struct diagnose_text *x, const struct findings_told *t,
			  struct plim_err *err);
const char *diagnose_open(const struct diagnose_text *x, const struct findings_told *t,
			  const struct messages_context *c, const struct lines *certainty);

/* Its verdict, with the sentences and the advice. */
enum plim_status diagnose_text(const struct diagnose_text *x, struct plim_verdict *v,
			       struct diagnose_told *out, struct plim_err *err);

#endif
