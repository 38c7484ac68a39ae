/*
 * What detectors share.  A detector looks at one kind of thing an expert would point out, and adds a
 * finding, several, or none.  Names from the file never stand in its sentences: the frame shows the
 * place, so that --redact has one place to look at.
 */
#ifndef DIAGNOSE_DETECT_H
#define DIAGNOSE_DETECT_H

#include "diagnose.h"

/* Less than this part of the peak is not worth a line (leaks excepted: they grow). */
#define MATERIAL_PART 100

struct moment {
	uint64_t bytes;
	uint32_t event; /* TRACE_NONE: never */
};

/* Events [start, end] in which a model runs forward. */
struct pass {
	uint32_t start, end;
	enum timeline_phase phase;
};

/* Allocations of one size, made one after another at one place. */
struct burst {
	uint32_t stack, first_event, last_event;
	uint64_t size_bytes, count;
};

/* Segments at a moment: what serves nothing. */
struct segment_sums {
	uint32_t event;             /* TRACE_NONE: not added up yet */
	int known;                  /* 0: expandable segments, whose pages are not followed */
	uint64_t wholly_free_bytes; /* what empty_cache() would give back */
	uint64_t small_used_bytes;  /* in the small pool's segments */
	size_t small_segments;
};

struct detecting {
	struct mem *mem;
	struct plim_err *err;
	enum plim_status status; /* the first failure; detectors go on doing nothing */
	const struct findings_input *in;
	const struct timeline *tl;
	const struct snapshot *snapshot;
	const struct snapshot_device *device;
	struct findings_list *out;

	uint32_t last; /* the failure that ended the program, else the last event */
	uint64_t peak; /* allocated bytes; what findings are held against */
	VEC(struct pass) passes;
	VEC(uint32_t) at_peak;            /* allocations live at the peak */
	VEC(uint32_t) weights, gradients; /* parameters and buffers; gradients: by birth */
	const struct timeline_steps
		*repeats;         /* training steps, or what repeats where there are none */
	VEC(struct moment) steps; /* the peak of each, the unfinished one too */
	struct moment in_phase[TIMELINE_PHASES];
	struct moment pending; /* the most that waited for another stream */
	struct burst burst;    /* the longest of the user's own, not of loading or an optimizer */
	struct segment_sums segments; /* of the moment that was asked for last */
};

/* Walk the events up to `last`: passes, and peaks by step and phase.  detect_end() releases them. */
void detect_begin(struct detecting *x, uint32_t last);
void detect_end(struct detecting *x);

/* ---- telling ---- */

/*
 * A new finding, all of it unknown but `id`; never NULL (after a failure it is one that is thrown
 * away).  It is valid until the next one is added.
 */
struct finding *detect_add(struct detecting *x, const char *id, enum findings_severity severity,
			   double confidence);

#define LIKE_PRINTF(f, a) __attribute__((format(printf, f, a)))
void detect_title(struct detecting *x, struct finding *f, const char *fmt, ...) LIKE_PRINTF(3, 4);
void detect_say(struct detecting *x, struct findings_lines *lines, const char *fmt, ...)
	LIKE_PRINTF(3, 4);

/* It is about this allocation, too. */
void detect_about(struct detecting *x, struct finding *f, uint32_t alloc);

/* Its place: a stack, and the user's line on it. */
void detect_place(const struct detecting *x, struct finding *f, uint32_t stack, int inferred);

/* ---- looking ---- */

enum timeline_phase detect_phase(const struct detecting *x, uint32_t event);
enum timeline_category detect_category(const struct detecting *x, uint32_t alloc);

/* The stack of an allocation, or the one that it answers (*inferred); TRACE_NONE. */
uint32_t detect_stack(const struct detecting *x, uint32_t alloc, int *inferred);

/* Does a file or function on the stack contain one of `words` (which NULL ends)? */
int detect_mentions(const struct detecting *x, uint32_t stack, const char *const *words);

/* How many modules deep a stack is. */
uint32_t detect_depth(const struct detecting *x, uint32_t stack);

/* Does a stack name a loss, or the layer in front of it? */
int detect_is_of_loss(const struct detecting *x, uint32_t stack);

/* Where the pass that made an allocation begins: what was kept from passes before is another story. */
uint32_t detect_start_of_pass(const struct detecting *x, uint32_t alloc);

/* What passes make and end. */
int detect_is_passing(enum timeline_category c);

/* The same tensor, or in half or twice the precision? */
int detect_is_family(uint64_t bytes, uint64_t of);

/* Did the program die at an event of this phase? */
int detect_died_in(const struct detecting *x, enum timeline_phase phase);

/* Is that much worth a line? */
static inline int detect_material(const struct detecting *x, uint64_t bytes)
{
	return bytes && bytes >= x->peak / MATERIAL_PART;
}

/* The severity of something that could be avoided, by the part of the peak that it takes. */
enum findings_severity detect_severity(const struct detecting *x, uint64_t bytes);

/* ---- the detectors; the table in detect.c names them ---- */

void detect_leaks(struct detecting *x);
void detect_duplicate_weights(struct detecting *x);
void detect_gradients_in_forward(struct detecting *x);
void detect_fragmentation(struct detecting *x);
void detect_longest_batch(struct detecting *x);
void detect_optimizer_first_step(struct detecting *x);
void detect_eval_heavier(struct detecting *x);
void detect_logits(struct detecting *x);
void detect_attention(struct detecting *x);
void detect_kv_cache(struct detecting *x);
void detect_foreach(struct detecting *x);
void detect_allocation_in_loop(struct detecting *x);
void detect_small_segments(struct detecting *x);
void detect_outside(struct detecting *x);
void detect_pending_frees(struct detecting *x);
void detect_private_pools(struct detecting *x);

#endif
