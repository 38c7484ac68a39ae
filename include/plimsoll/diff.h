/*
 * plimsoll diff: what changed in memory between two recordings of one program, by how much, and
 * where in its code.
 *
 * All sizes are bytes; a change is B's less A's.  A number that is not known is PLIM_UNKNOWN and a
 * text that is not known is NULL; JSON shows null for both.  Everything a result points to belongs
 * to the result.
 */
#ifndef PLIMSOLL_DIFF_H
#define PLIMSOLL_DIFF_H

#include <plimsoll/recording.h>
#include <plimsoll/report.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plim_diff_flags {
	/* (--redact, under names) replace all names that are not PyTorch's or well known */
	PLIM_DIFF_REDACT = 1,
	/* (C only) no rows of what lives at the peak */
	PLIM_DIFF_NO_PEAK = 2,
	/* (C only) ... at the end */
	PLIM_DIFF_NO_END = 4,
	/* (C only) judge the growth by the two limits */
	PLIM_DIFF_GATE = 8
};

enum plim_diff_group {
	PLIM_DIFF_BY_USER_FRAME,
	PLIM_DIFF_BY_STACK,
	PLIM_DIFF_BY_CATEGORY,
	PLIM_DIFF_BY_PHASE,
	PLIM_DIFF_BY_SIZE /* of one category and one size: for programs that have no lines in common */
};

/* plim_diff_options_init sets the defaults; then change what is to be different. */
struct plim_diff_options {
	/* set by plim_diff_options_init */
	uint32_t size;
	/* enum plim_diff_flags */
	uint32_t flags;
	/*
	 * (-m --max-memory BYTES, from 1MiB, under limits) refuse input that needs more, both
	 * together (half of this machine's)
	 */
	uint64_t max_memory_bytes;
	/* (-d --device N, 0 to 1023, else unknown, under device) only this GPU */
	uint64_t device;
	/* (-g --group-by WHAT, under rows) put owners together by */
	enum plim_diff_group group_by;
	/* (-n --top rows, 0 to 1000000, is 8) rows to list, 0 for all. Of a table */
	uint32_t rows_max;
	/* (--strip-prefix PATH, after --redact) cut this from file names */
	const char *strip_prefix;
	/* (C only) the allocated peak may grow by this; PLIM_UNKNOWN: see below */
	uint64_t gate_bytes;
	/* (C only) by this many millionths of A's; used if there are no bytes */
	uint64_t gate_ppm;
};
PLIM_API void plim_diff_options_init(struct plim_diff_options *o);

/* How an owner was found in both recordings: enum values never change. */
enum plim_diff_match {
	PLIM_DIFF_EXACT,    /* the same lines */
	PLIM_DIFF_MOVED,    /* the same lines, moved by an edit above them */
	PLIM_DIFF_LINES,    /* the same functions, other lines */
	PLIM_DIFF_FUNCTION, /* a function of this name with similar counts or sizes */
	PLIM_DIFF_ONLY_A,
	PLIM_DIFF_ONLY_B
};
PLIM_API const char *plim_diff_match_name(enum plim_diff_match value);

struct plim_diff_amount {
	uint64_t a_bytes;     /* in A */
	uint64_t b_bytes;     /* in B */
	int64_t change_bytes; /* B's less A's */
};

struct plim_diff_totals {
	struct plim_diff_amount requested; /* what the program asked for */
	struct plim_diff_amount active;    /* blocks in use or awaiting another stream */
	struct plim_diff_amount allocated; /* blocks in use */
	struct plim_diff_amount reserved;  /* taken from the driver */
};

/* One recording. */
struct plim_diff_side {
	struct plim_report_source source; /* what was read */
	/* the releases that write such keys; null: there are none to tell by */
	const char *torch;
	uint64_t devices; /* with memory or events */
};

/* Something next to memory that is not as before. */
struct plim_diff_setting {
	const char *name; /* what it is */
	const char *a;    /* in A; null: its recording does not say */
	const char *b;    /* in B */
};

struct plim_diff_part {
	const char *name;     /* category, or phase (before: born before the recording) */
	uint64_t a_bytes;     /* live in A */
	uint64_t b_bytes;     /* live in B */
	int64_t change_bytes; /* B's less A's */
};

struct plim_diff_row {
	/* line, category, phase or size; before_recording: no stack, for it was there before; null: no Python stack */
	const char *name;
	const char *a_name; /* the line in A; null: written as in B, or only in one */
	/*
	 * exact: the same lines; moved: the same, by an edit above them; lines: the same functions;
	 * function: a name with similar counts or sizes; only_a, only_b
	 */
	enum plim_diff_match match;
	bool inferred;                 /* the owner was not recorded but concluded */
	uint64_t a_bytes;              /* live in A */
	uint64_t b_bytes;              /* live in B */
	int64_t change_bytes;          /* B's less A's */
	uint64_t a_count;              /* allocations live in A */
	uint64_t b_count;              /* allocations live in B */
	const char *category;          /* what changed most of it is for; null: not known */
	int64_t category_change_bytes; /* change of that category in this row */
	/*
	 * of the stack below that changed most, the innermost frame that is not PyTorch's own;
	 * null: none
	 */
	const char *part;
	int64_t part_change_bytes; /* change of that stack */
	const char **stack;        /* that stack, innermost frame first */
	size_t stack_count;
};

/* What lives at the peak of allocated bytes, or at the end. */
struct plim_diff_moment {
	bool different;             /* there are rows, or parts of a kind that changed */
	uint64_t a_event;           /* in A; null: before its first */
	uint64_t b_event;           /* in B */
	const char *a_phase;        /* what A was doing; null: no stacks */
	const char *b_phase;        /* what B was doing */
	uint64_t a_step;            /* training step; null: none are seen */
	uint64_t b_step;            /* in B */
	uint64_t a_bytes;           /* allocated bytes in A */
	uint64_t b_bytes;           /* in B */
	int64_t change_bytes;       /* the sum of the rows' and of the rest */
	struct plim_diff_row *rows; /* what changed, the largest change first */
	size_t row_count;
	uint64_t rest_rows;                /* changed too, but beyond --top */
	uint64_t rest_a_bytes;             /* their sum in A */
	uint64_t rest_b_bytes;             /* in B */
	int64_t rest_change_bytes;         /* B's less A's */
	uint64_t unchanged_rows;           /* with as many bytes and allocations in both */
	uint64_t unchanged_bytes;          /* their sum, in each */
	struct plim_diff_part *categories; /* by what it is for; empty where either has no stacks */
	size_t category_count;
	struct plim_diff_part *phases; /* by the phase in which it was allocated */
	size_t phase_count;
};

struct plim_diff_step {
	uint64_t index;                  /* from 0 */
	uint64_t a_requested_peak_bytes; /* most that A requested in it */
	uint64_t b_requested_peak_bytes; /* in B */
	int64_t change_bytes;            /* B's less A's */
};

/* Found in one recording only. */
struct plim_diff_finding {
	const char *side;            /* a or b */
	const char *id;              /* as in report/2 */
	enum plim_severity severity; /* as in report/2 */
	uint64_t bytes;              /* as in report/2 */
	uint64_t per_period_bytes;   /* as in report/2 */
	const char *title;           /* as in report/2 */
};

struct plim_diff_device {
	uint64_t device;      /* ordinal */
	bool in_a;            /* A has memory or events of it */
	bool in_b;            /* B has */
	bool different;       /* in anything that is compared */
	const char **summary; /* the change in sentences */
	size_t summary_count;
	uint64_t a_events;            /* recorded in A */
	uint64_t b_events;            /* in B */
	uint64_t a_ooms;              /* failures in A */
	uint64_t b_ooms;              /* in B */
	struct plim_diff_totals peak; /* peaks, each at its own event */
	struct plim_diff_totals end;  /* when the snapshots were taken */
	bool a_lower_bound;           /* the peak of A's run may be higher */
	bool b_lower_bound;           /* of B's run */
	/* cut: not all of the run was recorded; died: it could not get more */
	const char *a_bound_why;
	const char *b_bound_why; /* in B */
	/* A's allocated and active bytes may be higher by up to this */
	uint64_t a_slack_bytes;
	uint64_t b_slack_bytes; /* B's */
	/*
	 * of the bytes that Python allocated in A in all, the part by lines that B runs too, 0 to
	 * 1; null: none
	 */
	double a_shared;
	double b_shared; /* the same of B */
	bool unrelated;  /* both parts are small: lines are not compared */
	/* what a row is: user_frame, stack, category, phase, or size (no stacks) */
	const char *grouped_by;
	/* what lives at the peaks of allocated bytes; null: not asked for */
	struct plim_diff_moment *at_peak;
	struct plim_diff_moment *at_end; /* what lives at the ends */
	uint64_t a_steps;                /* steps in A */
	uint64_t b_steps;                /* in B */
	/* that both have; none where a recording does not begin with its run */
	struct plim_diff_step *steps;
	size_t step_count;
	struct plim_diff_finding *findings; /* of a kind that only one has */
	size_t finding_count;
};

struct plim_diff_gate {
	bool exceeded; /* the exit code is 1 */
	bool certain;  /* both peaks are exact and of whole runs that did not die */
	bool b_died;   /* B ran out of memory: its peak would be higher, so `exceeded` is set */
	const char *measure;  /* what was compared */
	uint64_t device;      /* that grew furthest beyond its limit, or came nearest to it */
	int64_t grown_bytes;  /* B's less A's */
	uint64_t limit_bytes; /* by how much it may grow */
};

struct plim_diff {
	bool different;                     /* in anything that is compared */
	struct plim_diff_gate *gate;        /* null: no --fail-over */
	struct plim_diff_side a;            /* before */
	struct plim_diff_side b;            /* after */
	struct plim_diff_setting *settings; /* what changed next to memory */
	size_t setting_count;
	struct plim_diff_device *devices; /* the largest change of the peak first */
	size_t device_count;
	struct plim_diff_hidden *hidden;
};

/*
 * Read two snapshots, one after the other ("-": standard input, for one of them), and compare.
 * Errors as of plim_report_open.
 */
PLIM_API enum plim_status plim_diff_open(const char *a, const char *b,
					 const struct plim_diff_options *options,
					 struct plim_diff **out, struct plim_err *err);

/*
 * The same of recordings that have been read, from memory or a descriptor, too, or were appended to.  It borrows them: free
 * it first.  `options->max_memory_bytes` bounds what the comparison itself needs.
 */
PLIM_API enum plim_status plim_diff_of(struct plim_recording *a, struct plim_recording *b,
				       const struct plim_diff_options *options,
				       struct plim_diff **out, struct plim_err *err);
PLIM_API void plim_diff_free(struct plim_diff *d);

/* As JSON, schema diff/2 (docs/json.md), and as text for a person. */
PLIM_API enum plim_status plim_diff_json(const struct plim_diff *d, plim_write_fn *write, void *ctx,
					 struct plim_err *err);
PLIM_API enum plim_status plim_diff_text(const struct plim_diff *d,
					 const struct plim_text_style *style, plim_write_fn *write,
					 void *ctx, struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
