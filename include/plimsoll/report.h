/*
 * plimsoll report: what filled a GPU's memory, who kept it, and why it ran out, from a PyTorch
 * memory snapshot.
 *
 * All sizes are bytes.  A number that is not known is PLIM_UNKNOWN and a text that is not known is
 * NULL; JSON shows null for both.  Everything a report points to belongs to the report.
 */
#ifndef PLIMSOLL_REPORT_H
#define PLIMSOLL_REPORT_H

#include <plimsoll/status.h>

#include <stdbool.h>
#include <stddef.h>

enum plim_report_group { PLIM_GROUP_USER_FRAME, PLIM_GROUP_STACK, PLIM_GROUP_SIZE };

enum plim_report_flags {
	PLIM_REPORT_REDACT = 1 /* replace all names that are not PyTorch's or well known */
};

/* plim_report_options_init sets the defaults; then change what is to be different. */
struct plim_report_options {
	uint32_t size;             /* set by plim_report_options_init */
	uint32_t flags;            /* enum plim_report_flags */
	uint64_t max_memory_bytes; /* 0: half of this machine's memory, or of the cgroup's */
	const char *log_path;      /* a log that holds the out-of-memory text, or NULL */
	uint64_t device;           /* only this one; PLIM_UNKNOWN: all */
	const char *
		at; /* whose owners: "peak", "oom", "end", "event:N"; NULL: the death, else the peak */
	const char *events; /* "A:B": peaks and timeline of these events only; NULL: all */
	const char *steps;  /* "A:B": the same, in training steps; NULL: all */
	enum plim_report_group group_by;
	const char *strip_prefix; /* cut from file names, or NULL */
	uint32_t owners_max;      /* rows of owners, 0: all */
};
PLIM_API void plim_report_options_init(struct plim_report_options *o);

/* Why a death happened: enum values never change. */
enum plim_bound {
	PLIM_BOUND_UNKNOWN,
	PLIM_BOUND_DEVICE,
	PLIM_BOUND_LIMIT,
	PLIM_BOUND_OTHER_PROCESS,
	PLIM_BOUND_NON_PYTORCH,
	/* of these only plim_why speaks: a recording does not know them */
	PLIM_BOUND_HOST,
	PLIM_BOUND_CGROUP,
	PLIM_BOUND_SHARED_MEMORY
};
enum plim_cause {
	PLIM_CAUSE_UNKNOWN,
	PLIM_CAUSE_CAPACITY,
	PLIM_CAUSE_FRAGMENTATION,
	PLIM_CAUSE_LEAK
};

struct plim_report_source {
	const char *path;
	const char *kind;        /* "pickle", "json" */
	const char *compression; /* "gzip", "xz", "zstd" or NULL */
	uint64_t bytes;          /* as stored */
	uint64_t decoded_bytes;
	uint64_t events;
	bool complete; /* recording began before the first allocation and lost nothing */
	const char **notes;
	size_t note_count;
};

struct plim_report_moment {
	uint64_t event;       /* NULL: before the first recorded event */
	uint64_t time_us;     /* since 1970 */
	uint64_t range_bytes; /* the true number may be larger by up to this */
	uint64_t step;        /* its index in steps; NULL: there are none */
	const char *phase;    /* "forward" ...; NULL: no stacks were recorded */
};

struct plim_report_peak {
	uint64_t requested_bytes, active_bytes, allocated_bytes, reserved_bytes;
	struct plim_report_moment requested, active, allocated, reserved;
	bool lower_bound; /* the recording does not cover the whole run: its peak may lie before */
};

/* Bytes of live blocks by what they are for; they add up to allocated_bytes of the moment. */
struct plim_report_categories {
	uint64_t parameter, gradient, optimizer_state, activation, input, workspace, temporary,
		autograd_detail, kv_cache, buffer, unknown;
};

struct plim_report_totals {
	uint64_t requested_bytes, active_bytes, allocated_bytes, reserved_bytes;
	struct plim_report_categories *categories; /* NULL: not known, or before the first event */
};

/* The most that was requested in each phase of a step; PLIM_UNKNOWN: it was not in that phase. */
struct plim_report_phases {
	uint64_t load, forward, backward, optimizer, eval, generate, request, other;
};

struct plim_report_step {
	uint64_t index, start_event, end_event;
	uint64_t peak_requested_bytes;
	struct plim_report_phases phase_peaks;
};

struct plim_report_owner {
	uint64_t bytes;
	uint64_t count;
	uint64_t each_bytes; /* grouped by size: the size; else NULL */
	const char *frame;
	const char **stack;
	size_t stack_count;
	bool inferred; /* the owner was not recorded but concluded */
};

struct plim_report_owners {
	const char *measure;
	const char *what; /* "peak", "oom", "end", "event" */
	uint64_t event;
	uint64_t total_bytes;
	struct plim_report_owner *owners;
	size_t owner_count;
	uint64_t owners_left_out, left_out_bytes;
	struct plim_report_categories *categories; /* NULL: no stacks were recorded */
	const char **annotations;                  /* as in struct plim_report_oom */
	size_t annotation_count;
};

struct plim_report_leak {
	uint64_t grown_bytes, per_repetition_bytes, repetitions;
	uint64_t first_event, last_event;
	const char *loop; /* the line that is entered once a repetition */
	const char *frame;
	const char **stack;
	size_t stack_count;
	uint64_t part_bytes; /* of grown_bytes, what this stack allocated */
};

struct plim_report_verdict {
	enum plim_bound bound_by;
	enum plim_cause cause;
	enum plim_cause likelier; /* when the cause is not known: what more speaks for */
	uint64_t bound_low_bytes, bound_high_bytes;
	uint64_t needed_bytes; /* live + request + what was still to come, at least */
	uint64_t needed_high_bytes;
	uint64_t still_to_come_bytes;
	const char *still_basis; /* "repeated", "optimizer", "planned" or NULL */
	const char *headline;
	const char **evidence;
	size_t evidence_count;
	const char **advice;
	size_t advice_count;
};

struct plim_report_oom {
	uint64_t event, time_us;
	uint64_t requested_bytes; /* as the allocator had rounded it */
	uint64_t segment_bytes;
	int64_t stream;
	const char *pool;  /* "small", "large" */
	const char *phase; /* "forward" ...; NULL: no stacks were recorded */
	uint64_t step;     /* its index in steps; NULL: there are none */
	const char *frame;
	const char **stack;
	size_t stack_count;
	uint64_t live_bytes, reserved_bytes, bound_bytes, device_free_bytes, free_bytes,
		largest_free_bytes;
	bool survived;                       /* the program caught it and went on */
	struct plim_report_verdict *verdict; /* NULL for those in the middle of many */
	const char *
		*annotations; /* ranges of record_function that it lies in, the outermost first */
	size_t annotation_count;
};

/* docs/findings.md lists the ids with their rules. */
struct plim_report_finding {
	const char *id;       /* "oom", "leak", "fragmentation" ... */
	const char *severity; /* "bad", "warn", "info" */
	double confidence;    /* 0 to 1 */
	const char *title;    /* one line: what, how much, where */
	uint64_t bytes;       /* what it costs */
	uint64_t bytes_per_period;
	const char *period; /* "step", "eval iteration" ...; NULL: it does not grow */
	const char *frame;  /* the user's line that allocated */
	bool inferred;      /* the line was not recorded but concluded */
	const char **evidence;
	size_t evidence_count;
	const char **fix; /* words and code, best first */
	size_t fix_count;
	const char **see; /* commands and pages */
	size_t see_count;
	struct plim_report_leak *leak; /* NULL for others */
};

struct plim_report_check {
	uint64_t events; /* that were replayed */
	uint64_t faults, end_faults, contradictions;
	bool exact;
};

struct plim_report_device {
	uint64_t device;
	uint64_t events, allocations, streams;
	struct plim_report_totals before;
	struct plim_report_peak peak;
	struct plim_report_owners at_peak;
	struct plim_report_totals end;
	struct plim_report_oom *oom;
	size_t oom_count;
	struct plim_report_finding *findings;
	size_t finding_count;
	struct plim_report_step *steps; /* training steps, or what else repeats */
	size_t step_count;
	const char
		*step_basis; /* "optimizer", "backward", "request", "annotation"; NULL: no steps */
	struct plim_report_check self_check;
	uint64_t timeline_first_event, timeline_last_event; /* what the samples cover */
	uint64_t *timeline_bytes; /* largest allocated bytes in equal parts of the events */
	size_t timeline_count;
};

struct plim_report {
	struct plim_report_source source;
	struct plim_report_device *devices;
	size_t device_count;
	struct plim_report_hidden *hidden; /* what owns the memory */
};

/*
 * Read and explain a snapshot ("-": standard input).  PLIM_E_IO, PLIM_E_FORMAT: it cannot be read or
 * is something else; PLIM_E_ARG: an option does not fit the recording; PLIM_E_LIMIT: more memory is
 * needed than allowed.
 */
PLIM_API enum plim_status plim_report_open(const char *path,
					   const struct plim_report_options *options,
					   struct plim_report **out, struct plim_err *err);
PLIM_API void plim_report_free(struct plim_report *report);

/* Called with how much of all is done, by any thread, one at a time; not 0 stops (PLIM_E_CANCELLED). */
typedef int plim_progress_fn(void *ctx, uint32_t done, uint32_t total);

/* Output goes away in pieces; a callback returns 0, or errno to stop. */
typedef int plim_write_fn(void *ctx, const char *text, size_t n);

/* The report as JSON, schema report/1 (docs/json.md). */
PLIM_API enum plim_status plim_report_json(const struct plim_report *report, plim_write_fn *write,
					   void *ctx, struct plim_err *err);

/* The report as text for a person. */
struct plim_text_style {
	uint32_t width; /* columns; 0: 80 */
	bool color, utf8;
};
PLIM_API enum plim_status plim_report_text(const struct plim_report *report,
					   const struct plim_text_style *style,
					   plim_write_fn *write, void *ctx, struct plim_err *err);

/* Write the snapshot that was read as a pickle that PyTorch's viewer opens. */
PLIM_API enum plim_status plim_report_snapshot(const struct plim_report *report, const char *path,
					       struct plim_err *err);

/* Lines "ADDRESS BYTES CATEGORY CONFIDENCE RULE" of what is live at the end, for checking categories. */
PLIM_API enum plim_status plim_report_live(const struct plim_report *report, plim_write_fn *write,
					   void *ctx, struct plim_err *err);

/* The fields of the JSON as Markdown rows, for docs/json.md; and the structs' layout. */
PLIM_API enum plim_status plim_report_fields(int layout, plim_write_fn *write, void *ctx,
					     struct plim_err *err);

#endif
