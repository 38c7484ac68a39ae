/*
 * What repeats in the large requests of a stream, and where each of them is to lie.
 *
 * A cycle is a sequence of requests that comes again: a training step, an evaluation, a micro-batch.  Its key is the position
 * in the sequence, checked by size: in trainings with fixed shapes every step asks for the same sizes in the same order.  A
 * cycle that was seen twice is packed once, offline: requests that are allocated and die within one turn get an offset in an area of
 * the stream's own.  The offset is advice: who places memory must see that the place is free.
 *
 *	cycle_next(lane, units, &offset)	at each large request: where it should lie, or CYCLE_NONE
 *	cycle_freed(lane, position)		at the end of each, with lane->position as it was after cycle_next
 *
 * Sizes and offsets are in units of 512 bytes, lifetimes in requests of the same stream.
 */
#ifndef ALLOCATOR_CYCLE_H
#define ALLOCATOR_CYCLE_H

#include "base/base.h"

#define CYCLE_NONE UINT32_MAX
#define CYCLE_LONGEST 8192u  /* requests in a cycle: packing takes the square of them */
#define CYCLES_MAX 8u        /* kept for a stream; the one that was used least lately goes */
#define CYCLE_HISTORY 32768u /* requests remembered; a power of two, at least 2 * CYCLE_LONGEST */
#define CYCLE_MATCH 8u       /* requests in a row that say where we are */

struct cycle_entry {
	uint32_t units;  /* of 512 bytes */
	uint32_t life;   /* requests until it is freed; 0: it outlives the cycle */
	uint32_t offset; /* in units; CYCLE_NONE: not planned */
	uint32_t live;   /* units of large requests of this stream that are live before it */
};

struct cycle {
	struct cycle_entry *at;
	uint32_t n;
	uint32_t area_units; /* offsets and sizes end below this */
	uint32_t peak_units; /* live at once of what has an offset: no packing needs less */
	uint64_t used_at;    /* the stream's count of requests when it was last followed */
	struct cycle_place {
		uint32_t hash,
			position; /* where CYCLE_MATCH requests end that come nowhere else in it */
	} * places;               /* open addressing; position CYCLE_NONE: free */
	uint32_t mask;
};

struct cycle_past {
	uint32_t units, life; /* life 0: still there */
	uint32_t live_units;  /* of the stream's large requests, before it */
};

/* Requests that met the plan, and those that did not. */
struct cycle_counts {
	uint64_t hits, hit_bytes, misses, lost, found, learned;
};

/* One stream. */
struct cycle_lane {
	struct mem *mem;
	struct cycle cycles[CYCLES_MAX];
	uint32_t cycle_count;
	uint8_t learns;    /* finds cycles by itself */
	uint8_t following; /* the cursor knows where we are */
	uint8_t trusted; /* ... and did for a whole turn without a miss or a conflict, up to now */
	uint8_t confirmed; /* as much is live as the cycle has it: only then are places given out */
	uint32_t hits_in_row;
	uint32_t alike;          /* of them, in a row, those at which about as much was live */
	uint32_t area_from;      /* units; below it something lies in the way of new cycles */
	uint64_t conflicts;      /* places given out that were taken */
	uint32_t unlike_in_turn; /* misses and conflicts */
	uint32_t current, next;  /* cycle, and the position in it of the next request */
	uint64_t missed_units, seen_units; /* lately: both fade */
	uint32_t last_units;               /* of the request before, if it was a miss; else 0 */
	uint64_t position;                 /* large requests so far */
	uint32_t recent[CYCLE_MATCH];      /* the last ones, a ring by position */
	uint32_t live_units, live_peak_units;
	struct cycle_past *past; /* ring of CYCLE_HISTORY; NULL: not learning */
	uint64_t *last_seen;     /* hash -> where it was last; of the same size as the ring */
	uint32_t period, run, unlike, unlike_in_row; /* the repetition that is being watched */
	uint32_t judge_at;                           /* run at which it is looked at closely */
	uint64_t missed_before;                      /* misses and conflicts when it began */
	struct cycle_counts counts;
};

void cycle_lane_init(struct cycle_lane *l, struct mem *m, int learns);
void cycle_lane_release(struct cycle_lane *l);

/* The next large request.  Learning takes memory: where that is refused it is given up, and nothing else happens. */
uint32_t cycle_next(struct cycle_lane *l, uint32_t units);

/* A request ends; `position` is that of the lane after its cycle_next. */
void cycle_freed(struct cycle_lane *l, uint64_t position, uint32_t units);

/* The place that was given out is taken. */
void cycle_conflict(struct cycle_lane *l);

/* Give up what is known, and begin again. */
void cycle_forget(struct cycle_lane *l);

/* Give a cycle to a lane, which takes `at` over (n entries, of mem_new); offsets as they are. */
enum plim_status cycle_add(struct cycle_lane *l, struct cycle_entry *at, uint32_t n,
			   uint32_t peak_units, struct plim_err *err);

/* Find offsets for all entries with a life: the lowest area of several orders of placing. */
enum plim_status cycle_pack(struct mem *m, struct cycle *c, struct plim_err *err);

#endif
