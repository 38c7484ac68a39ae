/*
 * PyTorch's caching allocator.  So far the part that a recording's own placement needs: rounding,
 * splitting and merging, replayed at the recorded addresses.  It yields the true size of every
 * block (a request is rounded, and sometimes handed a whole free block), which the recording does
 * not tell, and proves itself: at the end it must hold exactly the blocks that the snapshot shows.
 * Constants and rules: PyTorch's c10/cuda/CUDACachingAllocator.cpp, releases 2.1 to 2.11.
 */
#ifndef ALLOCATOR_ALLOCATOR_H
#define ALLOCATOR_ALLOCATOR_H

#include "program/program.h"

#define ALLOCATOR_MIN_BLOCK 512u            /* every block is a multiple of this */
#define ALLOCATOR_SMALL_SIZE (1u << 20)     /* a rounded size up to this uses the small pool */
#define ALLOCATOR_SMALL_SEGMENT (2u << 20)  /* what the small pool asks of the driver */
#define ALLOCATOR_LARGE_SEGMENT (20u << 20) /* what requests below ALLOCATOR_MIN_LARGE ask for */
#define ALLOCATOR_MIN_LARGE (10u << 20)
#define ALLOCATOR_ROUND_LARGE (2u << 20) /* larger requests are rounded to this */

struct allocator_rules {
	uint64_t max_split_bytes; /* UINT64_MAX: unlimited */
	uint32_t roundup_divisions[TRACE_ROUNDUP_ENTRIES];
};

struct allocator_rules allocator_rules_of(const struct trace *t);

/* What a request becomes: a multiple of 512, or of the power-of-two division that is set. */
uint64_t allocator_round(const struct allocator_rules *r, uint64_t requested_bytes);

/* What the driver is asked for when no free block fits a rounded size (get_allocation_size). */
uint64_t allocator_segment_bytes(uint64_t rounded_bytes);

/* The free memory when a request failed, after the allocator had given back what it could. */
struct allocator_oom {
	uint32_t event;
	uint64_t
		largest_free_bytes; /* the largest free block that this stream and pool could use */
	uint64_t free_bytes;        /* free in all blocks of all pools and streams */
};

/* How one device's recording plays at its own addresses. */
struct allocator_replay {
	struct mem *mem;
	size_t n;
	uint64_t *block_bytes; /* of each allocation of the trace, n of them */
	/* before the first event; 0 in a recording that began with the process */
	uint64_t allocated_before_bytes, active_before_bytes, requested_before_bytes;
	/*
	 * A block that was handed out whole before a cut recording began can be larger than its rounded
	 * request by up to 1 MiB, and nothing later shows it.  All of these together: allocated and
	 * active bytes may be larger by at most this.
	 */
	uint64_t range_bytes;
	uint64_t checked_events;        /* alloc, free and segment events that were replayed */
	uint64_t faults;                /* of these, the ones that the rules cannot explain */
	uint32_t first_fault;           /* event, or TRACE_NONE */
	uint64_t end_faults;            /* final blocks that came out different */
	VEC(struct allocator_oom) ooms; /* in turn */
};

enum plim_status allocator_replay_own(struct mem *m, const struct trace *t,
				      const struct trace_device *d, struct allocator_replay **out,
				      struct plim_err *err);
void allocator_replay_free(struct allocator_replay *r);

#endif
