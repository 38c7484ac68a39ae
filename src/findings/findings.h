/*
 * From facts to findings: what a recording says of its deaths and leaks, with the numbers behind it.
 * A finding that the recording cannot carry is not made: "unknown" is an answer.
 */
#ifndef FINDINGS_FINDINGS_H
#define FINDINGS_FINDINGS_H

#include "facts/facts.h"
#include "messages/messages.h"
#include "timeline/timeline.h"

/*
 * Memory that climbs like a staircase: at the start of each repetition of a loop of the program more
 * is live than at the start of the one before.  A loop is seen as the program's own lines being
 * entered in turn, again and again.
 */
struct findings_leak {
	uint32_t repetitions; /* steps of the staircase, without the one that was cut by the end */
	uint64_t grown_bytes; /* live at the start of the last repetition, less the first */
	uint64_t per_repetition_bytes;
	uint32_t first_event, last_event; /* starts of the first and the last repetition */
	uint32_t loop_frame;              /* the line whose entries were counted */
	uint32_t stack,
		frame; /* of the largest part of what stays; TRACE_NONE: born without Python */
	uint64_t part_bytes; /* that part */
};

/* found is 0 when nothing climbs.  `end`: the event up to which to look (TIMELINE_BEFORE: all). */
enum plim_status findings_find_leak(struct mem *m, const struct timeline *tl, uint32_t end,
				    struct findings_leak *leak, int *found, struct plim_err *err);

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
};

/* How much the step had still to allocate at its highest, above what was live when it died. */
enum findings_future {
	FINDINGS_FUTURE_UNKNOWN,   /* the program was never at this point before */
	FINDINGS_FUTURE_REPEATED,  /* as after the same point in earlier repetitions */
	FINDINGS_FUTURE_OPTIMIZER, /* the first optimizer step, whose state was not all born */
};

struct findings_death {
	uint32_t event;
	uint64_t request_bytes, segment_bytes; /* rounded; what the driver was asked for */
	uint64_t live_bytes;                   /* allocated, in blocks */
	uint64_t requested_live_bytes;         /* the same without rounding and slack */
	uint64_t reserved_bytes,
		most_reserved_bytes;             /* at the death, after giving back; ever before */
	uint64_t free_bytes, largest_free_bytes; /* reserved but not allocated */
	uint64_t device_free_bytes;
	enum findings_bound bound_by;
	const struct facts_gpu *card; /* DEVICE without a text: what it is concluded from */
	uint64_t bound_low_bytes,
		bound_high_bytes; /* reserved memory that was allowed: at least, below */
	enum findings_future future;
	uint32_t points_before; /* REPEATED: how often the program was at this point before */
	uint64_t still_low_bytes, still_high_bytes;
	uint32_t climbs; /* REPEATED: how often in a row this point stood higher than before */
	enum findings_cause cause;
	enum findings_cause likelier; /* of cause UNKNOWN: what speaks for it; may be UNKNOWN too */
	int has_leak;
	struct findings_leak leak;
	const struct messages_oom *message; /* NULL: no text was given */
};

/* Why the request at an `oom` event failed.  `message` may be NULL; it is borrowed. */
enum plim_status findings_explain_death(struct mem *m, const struct timeline *tl,
					const struct allocator_oom *oom,
					const struct messages_oom *message,
					struct findings_death *out, struct plim_err *err);

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
	struct messages_bytes own_outside; /* of the card, this process's but not PyTorch's */
	struct messages_bytes outside;     /* on the card, in neither PyTorch's hands nor free */
	int no_room; /* the request is larger than all the room together: no gaps are to blame */
	int free_enough; /* the driver had more free than it was asked for, and no limit was told */
};

void findings_judge_message(const struct messages_event *e, struct findings_told *out);

#endif
