/*
 * A recording: a snapshot, and what follows from it.  Each part is computed when it is first needed and kept; what no one
 * needs is never computed.  Everything that explains, compares, replays or shows a recording begins with one of these.
 * One thread a recording at a time.
 */
#ifndef RECORDING_RECORDING_H
#define RECORDING_RECORDING_H

#include "timeline/timeline.h"

#include <plimsoll/ranks.h>
#include <plimsoll/recording.h>
#include <plimsoll/report.h>

/* The parts of a device.  Each brings along those that it is computed from (recording.c has the table). */
enum recording_part {
	RECORDING_REPLAY = 1,     /* true sizes of blocks, segments, failures, the self-check */
	RECORDING_TIMELINE = 2,   /* totals, peaks, samples */
	RECORDING_CATEGORIES = 4, /* phases of events, categories of allocations */
	RECORDING_STEPS = 8,      /* steps, named ranges, what else repeats */
	RECORDING_PARTS = 15,
};

/* One device.  A member may be read once its part was asked for with recording_need(). */
struct recording_device {
	struct recording *of;
	const struct snapshot_device *device;
	unsigned have;                         /* enum recording_part: what was computed */
	struct allocator_replay *replay;       /* REPLAY */
	struct timeline timeline;              /* TIMELINE */
	struct timeline_categories categories; /* CATEGORIES; mem NULL: no stacks were recorded */
	struct timeline_steps steps;           /* STEPS: of an optimizer */
	struct timeline_steps periods; /* STEPS: where there are none: what repeats instead */
	struct timeline_ranges ranges; /* STEPS: that the program named */
	uint8_t *kinds; /* of the events, for plim_recording_events; NULL: no one asked yet */
};

/* How often something was computed from a recording next to its parts: tests see by it what no one asked for. */
struct recording_counts {
	unsigned owners, deaths, leaks, findings, verdicts, trials;
};

struct recording {
	struct mem *mem; /* the caller's account, which its limit bounds */
	struct arena arena;
	struct snapshot *snapshot;
	struct recording_device *devices; /* as many as the snapshot has */
	size_t device_count;
	struct recording_counts counts;
};

/* Where a recording comes from when it is not simply a path; zeros: it is. */
struct recording_input {
	struct source *source; /* the caller's; NULL: the path is opened */
	unsigned threads;      /* as in struct snapshot_read_options */
	int is_other;          /* out: the file is something else, not a damaged snapshot */
};

/* Read a snapshot; nothing is computed from it yet.  `in` may be NULL, `m` outlives the recording. */
enum plim_status recording_open(struct mem *m, const char *path, struct recording_input *in,
				struct recording **out, struct plim_err *err);
/* The same of a snapshot that is at hand, which becomes the recording's, also on failure. */
enum plim_status recording_of(struct mem *m, struct snapshot *t, struct recording **out,
			      struct plim_err *err);
void recording_free(struct recording *r);

/* Have these parts of a device, or of all of them.  On failure those that could be had stay. */
enum plim_status recording_need(struct recording_device *d, unsigned parts, struct plim_err *err);
enum plim_status recording_need_all(struct recording *r, unsigned parts, struct plim_err *err);

/* ---- devices ---- */

/* PLIM_E_ARG: there is no device of that index.  PLIM_UNKNOWN is all of them. */
enum plim_status recording_check_device(const struct recording *r, uint64_t index,
					struct plim_err *err);
/* Is this device reported of, if `index` was asked for?  Of all of them those that have memory or events. */
int recording_shows(const struct recording_device *d, uint64_t index);

/* ---- what it is ---- */

/* Annotations of a plan, the first and the second: no recording has them. */
#define RECORDING_PLAN_MARK "plimsoll plan"
#define RECORDING_PLAN_PEAK \
	"plimsoll plan: allocated_peak=" /* and bytes, of all of it, also what comes after its death */

/* Was it made by plimsoll plan, and never run? */
int recording_is_plan(const struct recording *r);

/* A plan's peak of allocated bytes, had it not died; 0: it is not known. */
uint64_t recording_planned_peak(const struct recording *r);

/* PLIM_E_FORMAT: what the profiler wrote, of which the allocator's work is not known. */
enum plim_status recording_has_segments(const struct recording *r, const char *path,
					struct plim_err *err);

/* Does it begin later than the run, so that its peaks are lower bounds? */
static inline int recording_is_cut(const struct snapshot_device *d)
{
	return !d->events.n || d->allocs_before || d->reserved_before_bytes;
}

/* Events of all devices; and does it show all of the run, from its beginning and without a hole? */
uint64_t recording_events(const struct recording *r);
int recording_is_complete(const struct recording *r);

/* When an event was, in microseconds since 1970; PLIM_UNKNOWN. */
uint64_t recording_time_of(const struct recording_device *d, uint32_t event);

/* Streams with allocations. */
uint64_t recording_streams(const struct recording_device *d);

/* What our recorders knew of the process in its job; PLIM_UNKNOWN and NULL: nothing. */
struct recording_job {
	uint64_t rank;
	const char *place; /* "pp 2, dp 0, tp 5", the outermost first */
};
void recording_job(const struct recording *r, struct arena *a, struct recording_job *job);

/* ---- moments ---- */

/* What repeats, by whatever is seen of it (STEPS); ends.n is 0 where nothing is. */
static inline const struct timeline_steps *recording_repeats(const struct recording_device *d)
{
	return d->steps.ends.n ? &d->steps : &d->periods;
}

/* The repetition that an event is in (STEPS), and what the program did (CATEGORIES); PLIM_UNKNOWN and NULL: not known. */
uint64_t recording_step_of(const struct recording_device *d, uint32_t event);
const char *recording_phase_of(const struct recording_device *d, uint32_t event);

/*
 * The moment that `at` names (peak, oom, end, event:N; NULL: a failure, else the peak of `tl`): its name, its event, or
 * TIMELINE_BEFORE.  TIMELINE; PLIM_E_ARG: there is no such moment.
 */
enum plim_status recording_moment(const struct recording_device *d, const struct timeline *tl,
				  const char *at, const char **what, uint32_t *event,
				  struct plim_err *err);

/*
 * The timeline of events A:B or of steps A:B (both NULL: all of it) as *tl, and its first and last event.  STEPS;
 * PLIM_E_ARG: no such range.
 */
enum plim_status recording_narrow(const struct recording_device *d, const char *events,
				  const char *steps, struct timeline *tl, size_t *first,
				  size_t *last, struct plim_err *err);

/* Whose allocated memory it is after an event, the largest first.  CATEGORIES. */
enum plim_status recording_owners_at(const struct recording_device *d, uint32_t event,
				     enum timeline_group group, struct timeline_owners *out,
				     struct plim_err *err);

/* ---- names ---- */

/* How frames and texts of the file are reported: shortened, redacted; made for one reader of a recording. */
struct recording_names {
	const struct recording *of;
	struct arena *arena; /* of texts that are made */
	const char *strip_prefix;
	int redact;
	uint32_t *words; /* redact: names by string id, 0: not yet */
	uint32_t word_count;
};
enum plim_status recording_names_init(struct recording_names *n, const struct recording *of,
				      struct arena *arena, int redact, const char *strip_prefix,
				      struct plim_err *err);

/* "file-3": the same name always the same word, in the order of first use; for what is redacted. */
const char *recording_word(struct recording_names *n, uint32_t string, const char *kind, char *word,
			   size_t size);

/* The name of a C++ or C function of PyTorch, CPython or the system, without types, in `out`; 0: it is none. */
int recording_public_symbol(const char *file, const char *name, char *out, size_t size);

/* A copy in which only public names are left. */
enum plim_status recording_redacted(struct recording *of, struct snapshot **out,
				    struct plim_err *err);

/* A name from the file, or with redact a word for it ("key-3") in a buffer of 32. */
const char *recording_name(struct recording_names *n, uint32_t string, const char *kind, char *word,
			   size_t size);

/* What is reported although it is redacted, in a sentence. */
const char *recording_kept(const struct recording_names *n, struct plim_err *err);

/* The part of a file's name that is public and may be shown when names are redacted, or NULL. */
const char *recording_public_part(const char *file);

/* The file and function of a frame. */
struct recording_place {
	const char *file, *name; /* the snapshot's, or the words here */
	char file_word[32], name_word[256];
};
void recording_place(struct recording_names *n, uint32_t frame, struct recording_place *out);

/* "train.py:41 in step"; NULL for TRACE_NONE. */
const char *recording_frame(struct recording_names *n, uint32_t frame, struct plim_err *err);
enum plim_status recording_stack(struct recording_names *n, uint32_t stack, const char ***out,
				 size_t *count, struct plim_err *err);

/* ---- what commands say of it, as public structs in the names' arena or in one that is given ---- */

/* The file, and notes on what is not exact in it.  Needs the replay of all devices, and sees to it. */
enum plim_status recording_describe(struct recording *r, struct recording_names *n,
				    const char *path, struct plim_report_source *out,
				    struct plim_err *err);

/* What lives after `event` by category; *out NULL where nothing is known.  CATEGORIES. */
enum plim_status recording_categories_at(const struct recording_device *d, uint32_t event,
					 struct arena *a, struct plim_report_categories **out,
					 struct plim_err *err);

/* Names of the ranges (record_function) that an event lies in, the outermost first.  STEPS. */
enum plim_status recording_ranges_at(const struct recording_device *d, uint32_t event,
				     struct recording_names *n, const char ***out, size_t *count,
				     struct plim_err *err);

/* What lives after `event` by user_metadata of its allocation, largest first; none: nothing that lives has one. */
enum plim_status recording_tags_at(const struct recording_device *d, uint32_t event,
				   struct recording_names *n, struct plim_report_tag **out,
				   size_t *count, struct plim_err *err);

/* Each repetition with its peaks; what follows the last one that ended is one more.  STEPS, CATEGORIES. */
enum plim_status recording_steps(const struct recording_device *d, struct arena *a,
				 struct plim_report_step **out, size_t *count,
				 struct plim_err *err);
/* By what the repetitions are distinguished; NULL: there are none. */
const char *recording_step_basis(const struct recording_device *d);
/* The step of training that the recording stops within, *out NULL: none; one that failed is reported as a failure. */
enum plim_status recording_stop(const struct recording_device *d, struct arena *a,
				struct plim_report_stop **out, struct plim_err *err);

/* ---- a run of the allocator's model, as a snapshot ---- */

struct recording_run {
	/* whose stacks, strings, streams, pools and annotations are taken; all but the run is borrowed from it */
	const struct snapshot *from;
	const struct snapshot_device
		*device; /* of it: events[op.event] have an op's stack and time */
	const struct program *program;
	struct allocator_run how; /* how to run it; self, event and block are not looked at */
	const uint32_t *stacks;   /* of `from`, by request; NULL: as the program has them */
	uint64_t device_bytes;    /* a failure says what of these was free; 0: it does not */
	const char *settings;     /* PYTORCH_CUDA_ALLOC_CONF of `how.rules` */
	const uint32_t *labels;   /* strings for user_metadata, by request; NULL: none */
};

/* Who gets the snapshot, which is gone when `take` returns. */
struct recording_taker {
	enum plim_status (*take)(void *self, const struct snapshot *t, struct plim_err *err);
	void *self;
};
enum plim_status recording_of_run(struct mem *m, const struct recording_run *run,
				  const struct recording_taker *to, struct plim_err *err);

/* ---- events that a program has at hand (plimsoll/recording.h says what they are) ---- */

struct appended;

enum plim_status appended_new(struct mem *m, uint32_t device, const char *settings,
			      struct appended **out, struct plim_err *err);
void appended_free(struct appended *a);
enum plim_status appended_add(struct appended *a, const struct plim_events *events,
			      struct plim_err *err);
enum plim_status appended_site(struct appended *a, const struct plim_recording_frame *frames,
			       size_t n, uint32_t *out, struct plim_err *err);
enum plim_status appended_phase(struct appended *a, const char *name, uint32_t *out,
				struct plim_err *err);

/* All that was appended until now as a recording of its own; requests without addresses are placed by the model. */
enum plim_status recording_of_events(struct appended *a, struct recording **out,
				     struct plim_err *err);

/* "private pools" of PLIM_CAUSE_PRIVATE_POOLS, for a person. */
const char *recording_cause_words(enum plim_cause cause);

/* "optimizer state" of "optimizer_state", for a person; what is not a category is given back. */
const char *recording_category_words(const char *name);

/* What stands for an owner without a stack; `before`: it was there before the recording began. */
const char *recording_nobody(int has_frames, int before, int brief);

/* ---- two recordings, owner by owner (compare.c) ---- */

enum { COMPARED_A, COMPARED_B };
enum compared_moment { COMPARED_PEAK, COMPARED_END, COMPARED_MOMENTS };

/* What allocations are put together by. */
enum compared_group {
	COMPARED_BY_FRAME,
	COMPARED_BY_STACK,
	COMPARED_BY_CATEGORY,
	COMPARED_BY_PHASE,
	COMPARED_BY_SIZE,
};

/* A device of each, with its PARTS; NULL: that recording has none. */
struct comparison {
	struct mem *mem;
	const struct timeline_matching *matching;
	struct recording_device *device[2];
	uint32_t event[COMPARED_MOMENTS][2]; /* at which it is looked what lives */
};

struct compared_sum {
	uint64_t bytes, count;
};

/* Allocations of both recordings whose place is the same. */
struct compared_owner {
	uint32_t stack[2], frame[2]; /* of its largest allocation; TRACE_NONE */
	uint64_t largest[2];         /* that one's bytes */
	uint64_t value;              /* what else is common to them: size, category, phase */
	uint32_t loose, function;    /* keys for a second and a third look; TRACE_NONE */
	uint32_t into;               /* its own number, or of the owner that took it in */
	uint32_t whole;              /* of a part: the owner it is of */
	struct compared_sum run[2];  /* all that was ever allocated */
	struct compared_sum at[COMPARED_MOMENTS][2]; /* what lives */
	uint8_t inferred, match;                     /* enum plim_diff_match */
};

/* Of each owner, what of it lives in each category. */
struct compared_kinds {
	uint64_t bytes[COMPARED_MOMENTS][2][TIMELINE_CATEGORIES];
};

/* Owners, and the stacks inside them, of one pair of devices. */
struct compared_owners {
	struct mem *mem;
	enum compared_group group;
	VEC(struct compared_owner) list, parts;
	VEC(struct compared_kinds) kinds; /* of list */
	/* of the bytes that Python allocated: by owners that both have; NaN: none */
	double shared[2];
};

/* Put together what was ever allocated, and what is the same in both. */
enum plim_status recording_compare(const struct comparison *of, enum compared_group group,
				   struct compared_owners *out, struct plim_err *err);
void compared_release(struct compared_owners *o);

/* B less A; sizes beyond 2^63 are held at its ends. */
int64_t compared_change(uint64_t a, uint64_t b);

/* ---- many recordings, of which only a row each stays (set*.c) ---- */

/* What shows a rank (plim_ranks_row.rank_from). */
#define RECORDING_RANK_TOLD "recording"
#define RECORDING_RANK_NAMED "name"
#define RECORDING_RANK_ORDER "order"

struct set_item;

/* What paths hold: the files, what is read of each, and what is reported all.  Begin with zeros and the first part. */
struct recording_set {
	struct mem *mem;
	struct arena *arena;  /* of all texts and arrays */
	uint64_t limit_bytes; /* of everything together */
	const struct plim_ranks_options *options;
	/*
	 * What of a recording is kept: called without a lock, from several threads, for texts of an arena of the
	 * recording's memory.
	 */
	enum plim_status (*summarise)(const struct plim_report_options *o, struct recording *r,
				      struct arena *a, struct plim_ranks_row *row,
				      struct plim_err *err);
	struct plim_ranks *out; /* filled on the way */
	const struct field_table
		*row_table; /* of struct plim_ranks_row: digests are rows as JSON */

	VEC(struct set_item *) items; /* from the arena */
};

/* The files, folders of files and archives that are to be read. */
enum plim_status recording_set_list(struct recording_set *s, const char *const *paths, size_t n,
				    struct plim_err *err);

/* Read all, several at a time within the limit: a row each. */
enum plim_status recording_set_read(struct recording_set *s, struct plim_err *err);

/* Rows in their order; then who died first, which is worst, how they differ; and what is not as usual, as notes. */
enum plim_status recording_set_judge(struct recording_set *s, struct lines *notes,
				     struct plim_err *err);

/* What makes ranks differ, once the rows are judged: groups, outliers, one sentence. */
#define RECORDING_OWNERS 8 /* of a row, at most */
enum plim_status recording_set_differ(struct recording_set *s, struct lines *notes,
				      struct plim_err *err);

/* The rows as a digest. */
enum plim_status recording_set_digest(const struct recording_set *s, const char *path,
				      struct plim_err *err);

/* Who gets the input of a row once more, with all the memory there is for one; it is closed when `take` returns. */
struct recording_set_taker {
	enum plim_status (*take)(void *self, const char *name, struct recording_input *in,
				 uint64_t memory_bytes, struct plim_err *err);
	void *self;
};
enum plim_status recording_set_reopen(const struct recording_set *s, uint64_t row,
				      const struct recording_set_taker *to, struct plim_err *err);

/* Length of a file's name without ".pickle.xz" and the like. */
size_t recording_set_stem(const char *name);

/*
 * The category that makes at least half of x->difference_bytes, and most, and what that means: of two peaks with their
 * phases and categories.  `other_model` is said if their weights differ.
 */
void recording_explain_excess(struct plim_ranks_excess *x, const struct plim_ranks_row *row,
			      const struct plim_ranks_row *median, const char *other_model);

/* What a recording of a set is called: the member of an archive, or the file's path; NULL if it is redacted. */
static inline const char *recording_row_name(const struct plim_ranks_row *row)
{
	return row->member ? row->member : row->path;
}

/* Bytes that the stems of all names of a set begin and end with, up to the edges of words. */
struct recording_name_cut {
	size_t front, back;
};

/* Folders' names are cut first; words of the file's name only if what is left has more than so many columns. */
struct recording_name_cut recording_set_cut(const struct plim_ranks *k, size_t columns);

#endif
