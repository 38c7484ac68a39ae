/*
 * plimsoll why: every failure of memory that a log tells of, explained.
 *
 * All sizes are bytes.  Numbers in logs are rounded, so each is a range.  A number that is not known
 * is PLIM_UNKNOWN and a text that is not known is NULL; JSON shows null for both.  Everything a
 * result points to belongs to the result.
 */
#ifndef PLIMSOLL_WHY_H
#define PLIMSOLL_WHY_H

#include <plimsoll/plan.h>

enum plim_why_flags {
	PLIM_WHY_REDACT = 1 /* nothing of names and texts that are not well known */
};

/* plim_why_options_init sets the defaults; then change what is to be different. */
struct plim_why_options {
	uint32_t size;             /* set by plim_why_options_init */
	uint32_t flags;            /* enum plim_why_flags */
	uint64_t max_memory_bytes; /* 0: half of this machine's memory, or of the cgroup's */
	const char *snapshot_path; /* the recording of the same run, or NULL */
	const char *config_path;   /* its model, as plim_plan_open takes it, or NULL */
	/*
	 * With config_path: the run's recipe; NULL: plan's defaults.  Where it says neither memory_bytes nor gpu, the limit
	 * is what the log tells.
	 */
	const struct plim_plan_options *recipe;
};
PLIM_API void plim_why_options_init(struct plim_why_options *o);

/* What the log tells of, in all: enum values never change. */
enum plim_why_outcome {
	PLIM_WHY_NOTHING, /* no failure that is known here */
	PLIM_WHY_OTHER,   /* failures, but not of memory */
	PLIM_WHY_MEMORY
};

enum plim_why_kind {
	PLIM_WHY_DEVICE,      /* a GPU's memory was refused */
	PLIM_WHY_BUDGET,      /* a program's own share of the GPU did not suffice */
	PLIM_WHY_HOST,        /* the machine refused memory */
	PLIM_WHY_CGROUP_KILL, /* killed for a limit of a job, a container or a unit */
	PLIM_WHY_HOST_KILL,   /* killed because the machine ran out */
	PLIM_WHY_KILLED,      /* SIGKILL; by whom, the log does not tell */
	PLIM_WHY_SHARED       /* /dev/shm */
};

enum plim_why_moment {
	PLIM_WHY_MOMENT_UNKNOWN,
	PLIM_WHY_LOADING,
	PLIM_WHY_FORWARD,
	PLIM_WHY_BACKWARD,
	PLIM_WHY_FIRST_STEP,
	PLIM_WHY_OPTIMIZER,
	PLIM_WHY_EVAL,
	PLIM_WHY_GENERATION,
	PLIM_WHY_SAVING,
	PLIM_WHY_DATA
};

struct plim_why_file {
	const char *path;
	const char *compression; /* "gzip", "xz", "zstd" or NULL */
	uint64_t bytes, lines;
};

struct plim_why_range {
	uint64_t low_bytes, high_bytes;
};

struct plim_why_numbers {
	struct plim_why_range tried, total, free, allowed, allocated, unallocated, private_pools,
		reserved, this_process, other_processes, used, limit, resident;
};

struct plim_why_process {
	uint64_t pid;
	const char *name;
	uint64_t resident_bytes;
};

struct plim_why_cause {
	enum plim_cause cause;
	const char *because;
	const char *decided_by;
};

struct plim_why_verdict {
	enum plim_bound bound_by;
	bool bound_certain;
	enum plim_cause cause;
	enum plim_cause likelier; /* when the cause is not known */
	const char *basis;        /* "text", "recording" */
	struct plim_why_cause *causes;
	size_t cause_count;
	struct plim_why_range bound, request, room;
	const char *headline;
	const char **evidence;
	size_t evidence_count;
	const char **helps;
	size_t helps_count;
	const char **useless;
	size_t useless_count;
	const char **certainty;
	size_t certainty_count;
};

/* What report knows of the same death, from its recording. */
struct plim_why_recorded {
	const char *path;
	uint64_t device, event;
	bool same_death; /* its request is what the text tells */
	struct plim_report_verdict *verdict;
};

/* What plan says of the same run, under the limit that the death ran into. */
struct plim_why_planned {
	const char *path;
	uint64_t limit_bytes;  /* of reserved memory */
	bool limit_told;       /* by the log, not by the caller */
	const bool *agrees;    /* with the log; NULL: the log tells too little to compare */
	const char *says;      /* one sentence */
	const char **evidence; /* what they agree in, and what not */
	size_t evidence_count;
	const bool *fits;
	const char *dies_at;                     /* phase; NULL: it does not */
	enum plim_why_moment moment;             /* that this phase is in the log's words */
	uint64_t allocated_bytes, request_bytes; /* when it dies */
	uint64_t needed_bytes;
	uint64_t *range_bytes; /* two */
	size_t range_count;
	const char *basis;
	const struct plim_plan_rung *ladder; /* what makes the planned run need less */
	size_t ladder_count;
};

struct plim_why_death {
	enum plim_why_kind kind;
	const char *family; /* who wrote it: "PyTorch", "kernel" ... */
	const char *file;
	uint64_t line, last_line, times;
	const char *text;
	uint64_t device;
	uint64_t *ranks;
	size_t rank_count;
	uint64_t ranks_left_out;
	enum plim_why_moment moment;
	const char *moment_frame; /* what shows it */
	const char *frame;        /* the user's own line */
	const char *source;
	uint64_t step; /* that the log showed last */
	uint64_t pid;
	const char *process, *group;
	struct plim_why_numbers numbers;
	struct plim_why_process *processes;
	size_t process_count;
	uint64_t table_processes, table_resident_bytes;
	const char **also; /* other lines that tell of the same death */
	size_t also_count;
	struct plim_why_verdict verdict;
	struct plim_why_recorded *recorded;
	struct plim_why_planned *planned; /* NULL: no config_path, or its memory is not the GPU's */
};

/* A failure that is not memory. */
struct plim_why_other {
	const char *family, *file;
	uint64_t line, times;
	const char *text, *says, *advice;
	uint64_t *ranks;
	size_t rank_count;
};

struct plim_why {
	enum plim_why_outcome outcome;
	struct plim_why_file *files;
	size_t file_count;
	uint64_t lines, bytes;
	struct plim_why_death *deaths; /* in the order of the log */
	size_t death_count;
	struct plim_why_other *others;
	size_t other_count;
	const char **notes;
	size_t note_count;
	struct plim_why_hidden *hidden; /* what owns the memory */
};

/*
 * Read a log ("-": standard input), or all text files of a folder, to the end.  That nothing is
 * found is no error.  PLIM_E_IO, PLIM_E_FORMAT: it cannot be read; PLIM_E_LIMIT: more memory is
 * needed than allowed (a log itself needs none to speak of).
 */
PLIM_API enum plim_status plim_why_open(const char *path, const struct plim_why_options *options,
					struct plim_why **out, struct plim_err *err);
PLIM_API void plim_why_free(struct plim_why *why);

/* As JSON, schema why/1 (docs/json.md); as text for a person. */
PLIM_API enum plim_status plim_why_json(const struct plim_why *why, plim_write_fn *write, void *ctx,
					struct plim_err *err);
PLIM_API enum plim_status plim_why_text(const struct plim_why *why,
					const struct plim_text_style *style, plim_write_fn *write,
					void *ctx, struct plim_err *err);

/* The fields of the JSON as Markdown rows, for docs/json.md; and the structs' layout. */
PLIM_API enum plim_status plim_why_fields(int layout, plim_write_fn *write, void *ctx,
					  struct plim_err *err);

#endif
