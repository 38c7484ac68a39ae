/*
 * The same requests under other settings: the recording is first explained with its own (every event
 * predicted from the ones before, given the addresses that the driver gave), then run again.
 */
#ifndef ALLOCATOR_WHATIF_H
#define ALLOCATOR_WHATIF_H

#include "allocator.h"

/* How far the model gives the recording back. */
struct allocator_check {
	uint64_t events;      /* alloc, free, oom and segment events that were compared */
	uint32_t diverged_at; /* the first event that came out different; TRACE_NONE: none */
	uint64_t limit_bytes; /* that the recording's garbage collection went by; UINT64_MAX: none */
	uint64_t empty_caches; /* calls that the recording shows by what they released */
	struct allocator_stats stats; /* of the model, up to there */
};

/*
 * The program of a device's recording, with the calls of empty_cache() that only a replay can find.
 * `replay` is the recording's own, whose rules it goes by.  Free *out with program_free.
 */
enum plim_status allocator_explain(struct mem *m, const struct trace *t,
				   const struct trace_device *d,
				   const struct allocator_replay *replay, struct program **out,
				   struct allocator_check *check, struct plim_err *err);

struct allocator_bounds {
	uint64_t limit_bytes;    /* set_per_process_memory_fraction; UINT64_MAX: none */
	uint64_t capacity_bytes; /* what the driver has for this process; UINT64_MAX: enough */
	uint64_t device_bytes;   /* size of the card, for address space; 0: 80 GiB is assumed */
};

struct allocator_outcome {
	uint32_t oom_event; /* of the recording, the request that failed; TRACE_NONE: none did */
	uint64_t oom_request_bytes;
	struct allocator_stats stats;
	uint64_t survived_attempts; /* requests that failed when recorded and do not here */
};

/* What PyTorch would record. */
struct allocator_event {
	enum trace_action action; /* alloc, free_*, segment_*, oom */
	uint64_t addr, bytes;     /* bytes as in the trace: unrounded of alloc and free_* */
	uint32_t request;         /* of alloc, free_* and oom, else TRACE_NONE */
	uint32_t half;            /* pool * 2 + whether it is the large half */
	uint32_t op;              /* of the program */
	uint16_t stream;
};

/* A block at the end. */
struct allocator_block {
	uint64_t segment_addr; /* where the segment, or the mapped range that it lies in, begins */
	uint64_t addr, bytes, requested_bytes;
	uint32_t request; /* TRACE_NONE: free */
	uint32_t half;
	uint16_t stream;
	uint8_t pending, expandable;
};

struct allocator_run {
	const struct allocator_rules *rules;
	struct allocator_bounds bounds;
	unsigned way; /* of placement.h: gives segments their addresses */
	void *self;   /* for the two below, which may be NULL */
	void (*event)(void *self, const struct allocator_event *event);
	void (*block)(void *self, const struct allocator_block *block); /* by address in a segment */
};

/* Run a program. */
enum plim_status allocator_run(struct mem *m, const struct program *p,
			       const struct allocator_run *how, struct allocator_outcome *out,
			       struct plim_err *err);

/*
 * The lowest of several offline packings of all requests into one piece of memory, in blocks of 512
 * bytes: about as little as any allocator that knows the future could do with.  The peak of live
 * bytes is the bound from below.
 */
enum plim_status allocator_pack(struct mem *m, const struct program *p, uint64_t *peak_bytes,
				struct plim_err *err);

#endif
