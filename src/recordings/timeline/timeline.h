/*
 * A device's memory over time: four totals, each as torch.cuda.memory_stats() counts it.
 *   requested	what the program asked for, until the allocator has the block back
 *   allocated	blocks, until the program asks to free them (torch.cuda.memory_allocated)
 *   active	blocks, until the allocator has them back: no other stream uses them any more
 *   reserved	segments and mapped pages taken from the driver (torch.cuda.memory_reserved)
 */
#ifndef TIMELINE_TIMELINE_H
#define TIMELINE_TIMELINE_H

#include "allocator/allocator.h"

enum timeline_measure {
	TIMELINE_REQUESTED,
	TIMELINE_ALLOCATED,
	TIMELINE_ACTIVE,
	TIMELINE_RESERVED,
	TIMELINE_MEASURES
};

#define TIMELINE_BEFORE UINT32_MAX /* as an event: the state before the first one */

#define TIMELINE_SAMPLES 160 /* two a column of a terminal of 80 */

struct timeline {
	const struct snapshot *snapshot;
	const struct snapshot_device *device;
	const struct allocator_replay *replay;
	uint64_t before[TIMELINE_MEASURES], end[TIMELINE_MEASURES];
	uint64_t peak[TIMELINE_MEASURES];
	uint32_t peak_event[TIMELINE_MEASURES]; /* the first event after which it was reached */
	uint64_t allocated[TIMELINE_SAMPLES];   /* timeline_sample of TIMELINE_ALLOCATED */
	uint64_t lowest[TIMELINE_SAMPLES];      /* the same, of the smallest */
};

/* Walk all events once.  Borrows what it is given. */
void timeline_walk(struct timeline *tl, const struct snapshot *t, const struct snapshot_device *d,
		   const struct allocator_replay *replay);

/* The peaks and samples of events [first, last] alone. */
void timeline_narrow(struct timeline *tl, uint32_t first, uint32_t last);

/* The four totals after `event` (or TIMELINE_BEFORE). */
void timeline_at(const struct timeline *tl, uint32_t event, uint64_t bytes[TIMELINE_MEASURES]);

/* The same for many events in rising order: each event is walked once. */
struct timeline_cursor {
	uint64_t bytes[TIMELINE_MEASURES]; /* after the event that was gone to */
	uint32_t next;
};
void timeline_start(const struct timeline *tl, struct timeline_cursor *c);
void timeline_go(const struct timeline *tl, struct timeline_cursor *c, uint32_t event);

/*
 * `n` samples of a measure over events [first, last]: each the largest value in its part.
 * Parts are equal in events.
 */
void timeline_sample(const struct timeline *tl, enum timeline_measure measure, uint32_t first,
		     uint32_t last, uint64_t *y, size_t n);

/* Does allocation `a` count in a measure after `event`? */
static inline int timeline_lives(const struct snapshot_alloc *a, enum timeline_measure measure,
				 uint32_t event)
{
	int born = a->flags & TRACE_BEFORE ? 1 : event != TIMELINE_BEFORE && a->born <= event;
	uint32_t end = measure == TIMELINE_ALLOCATED ? a->free_requested : a->free_completed;

	if (!born || (measure == TIMELINE_ALLOCATED && a->flags & TRACE_PENDING_BEFORE))
		return 0;
	return end == TRACE_NONE || event == TIMELINE_BEFORE || end > event;
}

/* What an allocation counts in a measure. */
static inline uint64_t timeline_bytes(const struct timeline *tl, uint32_t alloc,
				      enum timeline_measure measure)
{
	return measure == TIMELINE_REQUESTED ? tl->device->allocs[alloc].requested_bytes
					     : tl->replay->block_bytes[alloc];
}

/* Training steps, or what else repeats: step k ends with event ends.at[k]; step 0 begins with the recording. */
enum timeline_basis {
	TIMELINE_BY_OPTIMIZER, /* an optimizer's step ends it */
	TIMELINE_BY_BACKWARD, /* a backward pass does: the program updates its weights itself, or never */
	TIMELINE_BY_REQUEST, /* nothing runs backward: passes of a model, those that one cache joins as one */
	TIMELINE_BY_RANGE, /* the program named it: record_function, a profiler's step */
};
struct timeline_steps {
	struct mem *mem;
	enum timeline_basis basis;
	VEC(uint32_t) ends;
};

/* None, where no optimizer ran. */
enum plim_status timeline_find_steps(struct mem *m, const struct timeline *tl,
				     struct timeline_steps *out, struct plim_err *err);
void timeline_steps_release(struct timeline_steps *s);
/* The step that an event is in; ends.n: behind the last one. */
size_t timeline_step_of(const struct timeline_steps *steps, uint32_t event);

/* Index of the first event later than a time, the number of events where there is none. */
uint32_t timeline_event_after(const struct snapshot_events *ev, int64_t time_us);

/* A range of torch.profiler.record_function; INT64_MIN, INT64_MAX: an end that the recording does not hold. */
struct timeline_range {
	int64_t from_us, to_us;
	uint32_t name; /* into trace.strings */
};
struct timeline_ranges {
	struct mem *mem;
	VEC(struct timeline_range) all; /* by their start, outer ones before inner ones */
};
enum plim_status timeline_find_ranges(struct mem *m, const struct timeline *tl,
				      struct timeline_ranges *out, struct plim_err *err);
void timeline_ranges_release(struct timeline_ranges *r);

/* Names of the ranges that are open at a time, the outermost first; of more than TIMELINE_RANGES_MAX the innermost. */
#define TIMELINE_RANGES_MAX 16
size_t timeline_ranges_at(const struct timeline_ranges *r, int64_t time_us,
			  uint32_t names[TIMELINE_RANGES_MAX]);

/* Was this stack recorded inside an optimizer?  In a backward pass: also without frames, as by autograd's own thread? */
int timeline_in_optimizer(const struct snapshot *t, uint32_t stack);
int timeline_in_backward(const struct snapshot *t, uint32_t stack);

/*
 * What the program was doing.  A forward pass that no backward pass answers is `eval` in a program that trains, and
 * `request` in one that never does.
 */
enum timeline_phase {
	TIMELINE_LOAD,
	TIMELINE_FORWARD,
	TIMELINE_BACKWARD,
	TIMELINE_OPTIMIZER,
	TIMELINE_EVAL,
	TIMELINE_GENERATE,
	TIMELINE_REQUEST,
	TIMELINE_OTHER,
	TIMELINE_PHASES
};
extern const char *const timeline_phase_names[TIMELINE_PHASES];

/* Is it one in which a model runs forward? */
static inline int timeline_is_pass(enum timeline_phase p)
{
	return p == TIMELINE_FORWARD || p == TIMELINE_EVAL || p == TIMELINE_GENERATE ||
	       p == TIMELINE_REQUEST;
}

/* What an allocation is for. */
enum timeline_category {
	TIMELINE_PARAMETER,
	TIMELINE_GRADIENT,
	TIMELINE_OPTIMIZER_STATE,
	TIMELINE_ACTIVATION, /* saved by a forward pass for its backward pass */
	TIMELINE_INPUT,
	TIMELINE_WORKSPACE,
	TIMELINE_TEMPORARY,
	TIMELINE_AUTOGRAD_DETAIL, /* of a backward pass, gone with it */
	TIMELINE_KV_CACHE,
	TIMELINE_BUFFER,
	TIMELINE_UNKNOWN,
	TIMELINE_PRIOR, /* there before the recording began, no one knows what for */
	TIMELINE_CATEGORIES
};
extern const char *const timeline_category_names[TIMELINE_CATEGORIES];

/* Why an allocation is taken for something; timeline_categories.rule indexes timeline_rules. */
struct timeline_rule {
	enum timeline_category category;
	uint8_t confidence_pct;
	const char *text;
};
extern const struct timeline_rule timeline_rules[];
extern const size_t timeline_rule_count;

struct timeline_categories {
	struct mem *mem;
	size_t events, allocs;
	uint8_t *phase;  /* of each event, enum timeline_phase */
	uint8_t *rule;   /* of each allocation */
	uint32_t *stack; /* of each allocation without a stack of its own: whose it is, inferred */
};

/*
 * Phases of all events and categories of all allocations.  Without stacks in the recording (trace.has_frames) nothing is
 * known of either.  Linear in events.
 */
enum plim_status timeline_categorize(struct mem *m, const struct timeline *tl,
				     struct timeline_categories *out, struct plim_err *err);
void timeline_categories_release(struct timeline_categories *c);

/* What lives after `event` (or TIMELINE_BEFORE), by category; they add up to the measure's total. */
void timeline_sum_categories(const struct timeline *tl, const struct timeline_categories *c,
			     uint32_t event, enum timeline_measure measure,
			     uint64_t bytes[TIMELINE_CATEGORIES]);

/*
 * Steps by ranges of one name (or name and number) that the program gave, that hold nearly all events and are not parts of
 * passes; or none.
 */
enum plim_status timeline_steps_of_ranges(struct mem *m, const struct timeline *tl,
					  const struct timeline_categories *c,
					  const struct timeline_ranges *r,
					  struct timeline_steps *out, struct plim_err *err);

/*
 * Repetitions of a program in which no optimizer is seen, from its passes: they end where least is live between one and
 * the next.  None, where there are fewer than TIMELINE_PERIODS_MIN.
 */
#define TIMELINE_PERIODS_MIN 3
enum plim_status timeline_find_periods(struct mem *m, const struct timeline *tl,
				       const struct timeline_categories *c,
				       struct timeline_steps *out, struct plim_err *err);

/* How allocations are put together to owners. */
enum timeline_group {
	TIMELINE_BY_USER_FRAME,
	TIMELINE_BY_STACK,
	TIMELINE_BY_SIZE,
	TIMELINE_BY_MODULE, /* the lines that called the modules it lies in */
	TIMELINE_BY_FILE,   /* the innermost frame's file, which in a plan is a module */
	/* the innermost line that is not PyTorch's (of the model, whoever wrote it) with the user's own that called it */
	TIMELINE_BY_CODE
};

struct timeline_owner {
	uint64_t bytes;
	uint64_t count;      /* allocations */
	uint64_t size_bytes; /* BY_SIZE: the request's size */
	uint32_t
		stack; /* of its largest allocation; TRACE_NONE: no stack was recorded or no Python ran */
	uint32_t frame; /* the user's own line, else the innermost; TRACE_NONE */
	uint32_t code;  /* timeline_code_frame of the stack; TRACE_NONE */
	int inferred;   /* the stack is not its own, but of what it answers */
	int before;     /* no stack: they were there before the recording began */
};

struct timeline_owners {
	struct mem *mem;
	struct timeline_owner *at; /* largest first */
	size_t n, room;
};

/* `inferred`: timeline_categories.stack, or NULL. */
enum plim_status timeline_owners_at(struct mem *m, const struct timeline *tl, uint32_t event,
				    enum timeline_measure measure, enum timeline_group group,
				    const uint32_t *inferred, struct timeline_owners *out,
				    struct plim_err *err);
void timeline_owners_release(struct timeline_owners *o);

/*
 * The frames that called the modules a stack lies in, outermost first, without the user's own where there are others; how
 * many they are.  A recording has no names of modules, but the lines that call them are as good.
 */
#define TIMELINE_MODULES_MAX 64
uint32_t timeline_module_path(const struct snapshot *t, uint32_t stack,
			      uint32_t out[TIMELINE_MODULES_MAX]);

/* What of a file's name shows that it is not a user's own, *n bytes of it; NULL: it may be. */
const char *timeline_foreign_mark(const char *file, size_t *n);

/* Is it by this name alone that a function shows a phase, as "forward" does? */
int timeline_is_cue(const char *name);

/* What torch.optim.Optimizer calls the ranges around step() (profile_hook_step), with the class behind it. */
#define TIMELINE_STEP_MARK "Optimizer.step#"

/*
 * The innermost frame that is the user's own: not of PyTorch, an installed package or Python itself;
 * if all are, the innermost.  TRACE_NONE for a stack without Python.
 */
uint32_t timeline_user_frame(const struct snapshot *t, uint32_t stack);

/*
 * The innermost frame that is not of PyTorch or Python itself: the user's, or that of a library of models
 * (modeling_llama.py).  TRACE_NONE: there is none.
 */
uint32_t timeline_code_frame(const struct snapshot *t, uint32_t stack);

/*
 * The line of the program's own loop: the innermost user's frame outside of all modules, so that a loop over the
 * layers of a model is none.  Where no frame there is a user's, the one that calls the model.  TRACE_NONE: this is
 * autograd's work, or there are no frames.
 */
uint32_t timeline_loop_frame(const struct snapshot *t, uint32_t stack);

/*
 * Two recordings of one program, perhaps edited or moved between them: which frames are the same
 * place.  Files are the same by the longest common end of their paths, lines also where edits above
 * moved them.
 */
struct timeline_matching {
	struct mem *mem;
	const struct snapshot *snapshot[2];
	size_t frames[2];
	uint32_t *place[2];    /* of each frame: equal numbers are the same place */
	uint32_t *function[2]; /* of each frame: file and function, without the line */
	uint32_t *name[2];     /* of each frame: the function's name alone */
	/* of each frame of the second: its file in the first's strings, or a number beyond them */
	uint32_t *file;
	uint8_t *moved; /* of each frame of the second: its line is another than in the first */
};

/* Borrows the traces.  n log n in frames and in the length of their names. */
enum plim_status timeline_match(struct mem *m, const struct snapshot *a, const struct snapshot *b,
				struct timeline_matching *out, struct plim_err *err);
void timeline_matching_release(struct timeline_matching *x);

/* ---- reserved memory over the recording ---- */

/* A moment is the state after so many events: what event e does is seen from moment e + 1 on. */
#define MOMENT_OF(event) ((uint64_t)(event) + 1)

/* Reserved memory as rectangles of addresses and moments. */
struct segment {
	uint64_t addr, bytes;
	uint32_t born, gone; /* moments; 0: from before, never */
	uint32_t stream;
	uint32_t pool; /* into trace.pools, or SEGMENT_POOL_UNKNOWN */
	uint8_t large, expandable;
};
#define SEGMENT_POOL_UNKNOWN UINT32_MAX

struct segments {
	struct mem *mem;
	VEC(struct segment) rows; /* by born, then address */
};

enum plim_status segments_find(struct segments *s, struct mem *m, const struct snapshot *t,
			       const struct snapshot_device *d, struct plim_err *err);
void segments_release(struct segments *s);

#endif
