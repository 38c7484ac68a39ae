/*
 * What several results share: intervals, three-valued answers, findings, verdicts; callbacks and the
 * style of text.
 *
 * In results a number that is not known is PLIM_UNKNOWN and a text that is not known is NULL; JSON
 * shows null for both.  A quantity that is known within limits only is an interval; where there is a
 * best value too, that is X_bytes and the interval X_range_bytes.
 */
#ifndef PLIMSOLL_TYPES_H
#define PLIMSOLL_TYPES_H

#include <plimsoll/status.h>

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Bytes to be read, in place of a path: the first that is given of a path, memory and an open descriptor.  Set `size` to
 * sizeof(struct plim_input).  All is borrowed during the call.
 */
struct plim_input {
	uint32_t size;      /* sizeof(struct plim_input) */
	int32_t descriptor; /* read from where it stands to its end; it stays open */
	const char *path;   /* "-": standard input */
	const void *bytes;  /* plain or compressed */
	size_t byte_count;  /* how many bytes */
	const char *
		name; /* what results and messages call it; NULL: the path, "memory" or "descriptor" */
};

/* The true number is not below `low` and not above `high`.  Both are unknown where nothing is known. */
struct plim_interval {
	uint64_t low;  /* at least; null: not known */
	uint64_t high; /* at most; null: not known */
};

/* JSON shows null, false and true. */
enum plim_tri { PLIM_TRI_UNKNOWN, PLIM_TRI_NO, PLIM_TRI_YES };

/* ---- findings ---- */

enum plim_severity {
	PLIM_SEVERITY_INFO,    /* worth knowing */
	PLIM_SEVERITY_WARNING, /* costs something, or may come to be an error */
	PLIM_SEVERITY_ERROR    /* broke the run or the file, or will */
};
PLIM_API const char *plim_severity_name(enum plim_severity value);

/* Where a finding is: a line of the user's program, or a byte of a file. */
struct plim_place {
	const char *frame; /* the user's line, "train.py:41 in step"; null: not known */
	const char *file;  /* null: not known, or the one that was read */
	uint64_t line;     /* of the file, from 1; null: not known */
	uint64_t offset;   /* byte of the file; null: of no single one */
	bool inferred;     /* the line was not recorded but concluded */
};

/* One thing that stands out; of every command the same. */
struct plim_finding {
	/* (never null) a word for programs: docs/findings.md and docs/ckpt.md list them */
	const char *id;
	/* error: broke the run or the file, or will; warning: costs a part; info */
	enum plim_severity severity;
	double confidence;         /* 0 to 1: that it is what it is called */
	const char *title;         /* (never null) one sentence: what, how much, where */
	uint64_t bytes;            /* what it costs; null: not known */
	uint64_t per_period_bytes; /* more each period; null: it does not grow */
	/* step, eval iteration, request, forward pass or repetition; null: it does not grow */
	const char *period;
	struct plim_place place; /* where it comes from */
	const char **evidence;   /* sentences with the numbers */
	size_t evidence_count;
	const char **fix; /* what helps, in words and code, best first */
	size_t fix_count;
	const char **see; /* commands and pages that tell more */
	size_t see_count;
	/*
	 * numbers of the allocations that it is about, from 0 in the order of the recording, the
	 * largest 4,096; empty: not known
	 */
	uint64_t *allocations;
	size_t allocation_count;
	const char *series;   /* of a training log; null: of none, or of the log as a whole */
	double step;          /* of a training log, where it began; null: of none */
	double detected_step; /* likewise: where it could first be said */
	double end_step;      /* likewise: where it was over; null: it lasts to the end */
};

/* ---- verdicts on an out-of-memory error ---- */

/* What the memory ran into.  Values never change. */
enum plim_bound {
	PLIM_BOUND_UNKNOWN,
	PLIM_BOUND_DEVICE,
	PLIM_BOUND_LIMIT,
	PLIM_BOUND_OTHER_PROCESS,
	PLIM_BOUND_NON_PYTORCH,
	PLIM_BOUND_HOST, /* this and those below: of plim_why only, a recording does not know them */
	PLIM_BOUND_CGROUP,
	PLIM_BOUND_SHARED_MEMORY
};
PLIM_API const char *plim_bound_name(enum plim_bound value);

/* Why there was too little.  Values never change. */
enum plim_cause {
	PLIM_CAUSE_UNKNOWN,
	PLIM_CAUSE_CAPACITY,
	PLIM_CAUSE_FRAGMENTATION,
	PLIM_CAUSE_LEAK,
	PLIM_CAUSE_PRIVATE_POOLS, /* enough was free, but in pools of their own that it could not use */
	PLIM_CAUSE_OTHER_STREAM /* enough was free, but in segments of another stream */
};
PLIM_API const char *plim_cause_name(enum plim_cause value);

struct plim_verdict_cause {
	enum plim_cause cause;  /* capacity, fragmentation, leak */
	const char *because;    /* what speaks for it */
	const char *decided_by; /* what would decide */
};

struct plim_verdict {
	/*
	 * what the memory ran into: device, limit, other_process, non_pytorch, unknown; of a log
	 * also host, cgroup, shared_memory
	 */
	enum plim_bound bound_by;
	/* false: usually; the same text is also written otherwise */
	bool bound_certain;
	/*
	 * capacity, fragmentation, leak; private_pools, other_stream: enough was free, but in a pool, or of a
	 * stream, that the request could not use; unknown: it is not decided
	 */
	enum plim_cause cause;
	enum plim_cause likely_cause; /* of an unknown cause: what more speaks for */
	const char *basis;            /* recording, or text */
	/* of a log: likeliest first; what is not among them is excluded */
	struct plim_verdict_cause *causes;
	size_t cause_count;
	/* reserved memory: certainly allowed, certainly refused (or the same number) */
	struct plim_interval bound_bytes;
	/* what was asked for, before rounding up to a segment */
	struct plim_interval request_bytes;
	/* under the bound and not allocated, in whatever pieces */
	struct plim_interval room_bytes;
	struct plim_interval needed_bytes;        /* live, request and what was still to come */
	struct plim_interval still_to_come_bytes; /* what the step had still to allocate */
	/*
	 * repeated: from the same point in earlier repetitions; optimizer: from its state and
	 * gradients; planned: from the plan that it is; null: not known
	 */
	const char *still_basis;
	const char *headline; /* one sentence */
	/* the sum that decides, in one sentence, rounded so that it adds up; null: of a log */
	const char *arithmetic;
	const char **evidence; /* sentences with the numbers */
	size_t evidence_count;
	const char **helps; /* what to do, best first, and what does not help */
	size_t helps_count;
	const char **useless; /* of a log: what people try and does not help here */
	size_t useless_count;
	const char **certainty; /* of a log: how to get certainty */
	size_t certainty_count;
};

/* ---- callbacks and style ---- */

/* Output goes away in pieces; a callback returns 0, or errno to stop. */
typedef int plim_write_fn(void *ctx, const char *text, size_t n);

/* Called with how much of all is done, by any thread, one at a time; not 0 stops (PLIM_E_CANCELLED). */
typedef int plim_progress_fn(void *ctx, uint32_t done, uint32_t total);

struct plim_text_style {
	uint32_t width; /* columns; 0: 80 */
	bool color;     /* escape sequences for colours */
	bool utf8;      /* lines and blocks beyond ASCII */
};

#ifdef __cplusplus
}
#endif

#endif
