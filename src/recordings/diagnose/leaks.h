/* What the parts of the detector of leaks share: leaks_by_line.c and leaks_by_loop.c look, leaks.c decides and shows. */
#ifndef DIAGNOSE_LEAKS_H
#define DIAGNOSE_LEAKS_H

#include "detect.h"

#define LEAKS_PERIODS_MIN 3 /* repetitions that kept something */
#define LEAKS_GRAPH_MIN 8 /* so many allocations, or stacks, a repetition are a graph, no result */
#define LEAKS_TINY_PART \
	1000 /* of the peak: less must be certain to be a habit, or is not reported */

/* Allocations, from the first to the last by leak_lines.next; TRACE_NONE: none. */
struct leak_rows {
	uint32_t first, last;
};

/* A line of the program that keeps memory from repetition to repetition, its stacks put together. */
struct leak_line {
	const char *period;        /* what a repetition is called */
	enum timeline_phase phase; /* in which the newest was allocated */
	uint32_t frame, stack;     /* the stack that keeps most; TRACE_NONE: born without Python */
	uint64_t bytes,
		live_bytes;     /* when the newest repetition ended; of them at detecting.last */
	uint64_t before_bytes;  /* of the bytes, those that are older than the recording */
	uint64_t each_bytes;    /* a repetition */
	uint64_t stack_bytes;   /* of `stack` */
	uint64_t largest_bytes; /* one allocation, by the mean of its stack */
	uint32_t stacks, count; /* allocations */
	uint32_t caller; /* the line of the program's loop that it is reached from, or TRACE_NONE */
	uint32_t first, last;   /* repetitions that kept something */
	uint32_t span, periods; /* from the first to the last; of these, how many */
	uint32_t freed_end;     /* when the first of it went, or TRACE_NONE */
	uint32_t first_event, last_event;
	uint32_t
		loop_frame; /* a staircase: the line that is entered once a repetition; TRACE_NONE */
	struct leak_rows rows;
	int inferred;
};

static inline int leak_is_graph(const struct leak_line *line)
{
	return line->stacks >= LEAKS_GRAPH_MIN || line->count / line->periods >= LEAKS_GRAPH_MIN;
}

/* What is kept because it is meant to be. */
static inline int leak_on_purpose(enum timeline_category c)
{
	return c == TIMELINE_PARAMETER || c == TIMELINE_BUFFER || c == TIMELINE_OPTIMIZER_STATE ||
	       c == TIMELINE_WORKSPACE;
}

struct leak_lines {
	VEC(struct leak_line) all;
	uint32_t *next; /* by allocation: the next one of its line */
};

void leaks_release(struct detecting *x, struct leak_lines *lines);

/* ---- what is older than the recording (leaks_before.c) ---- */

struct leak_block {
	uint32_t stack, alloc;
};

struct leaks_before {
	VEC(struct leak_block) live; /* at the last boundary, with a stack; by stack */
	VEC(uint64_t) freed; /* sizes of those that went after they had outlived a repetition */
	/* The stack that is looked at: sizes of what it keeps. */
	VEC(uint64_t) sizes;
	size_t distinct;
	int grows; /* none is smaller than the one before it */
};

/* Older allocations: what lives at event `end`, and what was freed after `outlived`.  leaks_before_release() when done. */
void leaks_before_find(struct detecting *x, uint32_t outlived, uint32_t end,
		       struct leaks_before *out);
void leaks_before_release(struct detecting *x, struct leaks_before *b);

/* Take the sizes of these allocations as those of the stack that is looked at. */
void leaks_before_learn(struct detecting *x, struct leaks_before *b, struct leak_rows rows,
			const uint32_t *next);

/* Bytes of these sizes that were freed, as far as they may have been of this stack. */
uint64_t leaks_before_freed(const struct detecting *x, const struct leaks_before *b,
			    uint32_t stack);

/*
 * Is this so regular that it went on before the recording, too?  A cache that is nearly full grows now and then.
 * `usual`: repetitions from one that keeps something to the next one, and one more.
 */
int leaks_before_regular(uint32_t periods, uint32_t usual, uint32_t least_gap, uint32_t most_gap);

/* The next live block, from index `from` on, of this stack and these sizes; the number of blocks: there is none. */
size_t leaks_before_next(const struct detecting *x, const struct leaks_before *b, uint32_t stack,
			 size_t from);

/* ---- the two ways to look ---- */

/* Lines that outlive steps, and passes where they are not steps; leaks_release() when done. */
void leaks_kept(struct detecting *x, struct leak_lines *out);

/*
 * Memory that climbs like a staircase: at the lowest moment of each repetition of a loop of the program
 * more is live than at that of the one before.  A loop is seen as the program's own lines being
 * entered in turn, again and again.
 */
struct staircase {
	uint32_t repetitions; /* steps, without the one that the end cut; 0: nothing climbs */
	uint64_t grown_bytes, per_repetition_bytes;
	uint32_t first_event, last_event; /* starts of the first and the last repetition */
	uint32_t loop_frame;              /* the line whose entries were counted */
	uint32_t stack, frame;            /* of the largest part of what stays; TRACE_NONE */
	uint64_t part_bytes;              /* that part */
};

/* `end`: the event up to which to look. */
enum plim_status staircase_find(struct mem *m, const struct timeline *tl, uint32_t end,
				struct staircase *out, struct plim_err *err);

#endif
