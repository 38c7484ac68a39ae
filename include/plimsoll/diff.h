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

#include <plimsoll/report.h>

enum plim_diff_flags {
	PLIM_DIFF_REDACT = 1,  /* replace all names that are not PyTorch's or well known */
	PLIM_DIFF_NO_PEAK = 2, /* no rows of what lives at the peak */
	PLIM_DIFF_NO_END = 4,  /* ... at the end */
	PLIM_DIFF_GATE = 8     /* judge the growth by the two limits */
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
	uint32_t size;             /* set by plim_diff_options_init */
	uint32_t flags;            /* enum plim_diff_flags */
	uint64_t max_memory_bytes; /* for both; 0: half of this machine's memory, or the cgroup's */
	uint64_t device;           /* only this one; PLIM_UNKNOWN: all */
	enum plim_diff_group group_by;
	uint32_t rows_max;        /* of a table, 0: all */
	const char *strip_prefix; /* cut from file names, or NULL */
	uint64_t gate_bytes;      /* the allocated peak may grow by this; PLIM_UNKNOWN: see below */
	uint64_t gate_ppm;        /* by this many millionths of A's; used if there are no bytes */
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

struct plim_diff_amount {
	uint64_t a_bytes, b_bytes;
	int64_t change_bytes;
};

struct plim_diff_totals {
	struct plim_diff_amount requested, active, allocated, reserved;
};

/* One recording. */
struct plim_diff_side {
	struct plim_report_source source;
	const char *torch; /* the release that the snapshot's keys tell, "2.9 or later" */
	uint64_t devices;
};

/* Something beside memory that is not as before. */
struct plim_diff_setting {
	const char *name, *a, *b;
};

struct plim_diff_part {
	const char *name;
	uint64_t a_bytes, b_bytes;
	int64_t change_bytes;
};

struct plim_diff_row {
	const char *name;   /* B's, or A's where it is only there */
	const char *a_name; /* NULL: the same */
	enum plim_diff_match match;
	bool inferred; /* the owner was not recorded but concluded */
	uint64_t a_bytes, b_bytes;
	int64_t change_bytes;
	uint64_t a_count, b_count;
	const char *category; /* where most of the change lies; NULL: none, or not known */
	int64_t category_change_bytes;
	const char *part; /* the frame inside PyTorch's callers that changed most; NULL: none */
	int64_t part_change_bytes;
	const char **stack; /* of that part */
	size_t stack_count;
};

/* What lives at the peak of allocated bytes, or at the end. */
struct plim_diff_moment {
	bool different;
	uint64_t a_event, b_event;
	const char *a_phase, *b_phase; /* NULL: not known */
	uint64_t a_step, b_step;       /* PLIM_UNKNOWN: no steps are seen */
	uint64_t a_bytes, b_bytes;
	int64_t change_bytes;
	struct plim_diff_row *rows; /* what changed, the largest change first */
	size_t row_count;
	uint64_t rest_rows, rest_a_bytes, rest_b_bytes; /* changed, and not listed */
	int64_t rest_change_bytes;
	uint64_t unchanged_rows, unchanged_bytes;
	struct plim_diff_part *categories, *phases; /* none where stacks are missing */
	size_t category_count, phase_count;
};

struct plim_diff_step {
	uint64_t index;
	uint64_t a_peak_requested_bytes, b_peak_requested_bytes;
	int64_t change_bytes;
};

/* Found in one recording only. */
struct plim_diff_finding {
	const char *side; /* "a", "b" */
	const char *id;   /* of the finding: "leak" and others */
	const char *severity;
	uint64_t bytes;
	const char *title;
};

struct plim_diff_device {
	uint64_t device;
	bool in_a, in_b;
	bool different;
	uint64_t a_events, b_events, a_ooms, b_ooms;
	struct plim_diff_totals peak, end;
	bool a_lower_bound, b_lower_bound;     /* the true peak may be higher: see below */
	const char *a_bound_why, *b_bound_why; /* "cut", "died"; NULL: it is the run's */
	uint64_t a_range_bytes, b_range_bytes; /* allocated and active may be higher by this */
	double a_shared, b_shared; /* of all bytes with an owner: whose owner both have */
	bool unrelated;            /* hardly anything is shared: owners are not compared */
	const char
		*grouped_by; /* what rows are: "user_frame", "stack", "category", "phase", "size" */
	struct plim_diff_moment *at_peak, *at_end; /* NULL: not asked for */
	uint64_t a_steps, b_steps;
	struct plim_diff_step *steps; /* that both have */
	size_t step_count;
	struct plim_diff_finding *findings;
	size_t finding_count;
	const char **summary; /* sentences */
	size_t summary_count;
};

struct plim_diff_gate {
	bool exceeded;
	bool certain; /* both peaks are exact and of whole runs */
	const char *measure;
	uint64_t device;
	int64_t grown_bytes;
	uint64_t limit_bytes;
};

struct plim_diff {
	struct plim_diff_side a, b;
	bool different;
	struct plim_diff_gate *gate;        /* NULL: none was asked for */
	struct plim_diff_setting *settings; /* that changed */
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
PLIM_API void plim_diff_free(struct plim_diff *d);

/* As JSON, schema diff/1 (docs/json.md), and as text for a person. */
PLIM_API enum plim_status plim_diff_json(const struct plim_diff *d, plim_write_fn *write, void *ctx,
					 struct plim_err *err);
PLIM_API enum plim_status plim_diff_text(const struct plim_diff *d,
					 const struct plim_text_style *style, plim_write_fn *write,
					 void *ctx, struct plim_err *err);

/* The fields of the JSON as Markdown rows, for docs/json.md; and the structs' layout. */
PLIM_API enum plim_status plim_diff_fields(int layout, plim_write_fn *write, void *ctx,
					   struct plim_err *err);

#endif
