/*
 * An allocator over virtual memory: what libplimsoll_alloc.so runs in a process, and `whatif --plan` in a prediction.
 *
 * Address space is free, physical memory is not.  Every stream has ranges of addresses of its own (one for requests up to
 * 1 MiB, one for larger ones, one for what a plan places), so that memory freed on a stream is used again by that stream alone,
 * in its order.  Physical memory (handles, whole slots of 2 MiB) is mapped where a request needs it.  Where more would be
 * mapped than the program ever had live, and a little, handles that lie wholly in free ranges move there, and reserved stays near
 * live.
 *
 * Within a stream a move needs no wait: the handle is mapped at the new address as well, and what was queued before goes on with the
 * old one, as a stream works in its order (CUDA's "virtual aliasing": a kernel that begins after another sees what that wrote,
 * through either address).  The old address is left (VMM_LEFT) until the stream has passed what was queued.  Marks in the streams
 * tell how far they have come.  A handle moves to another stream once its own has passed the last free on it; if memory is short
 * that is waited for, and the time that moves and waits may take is bounded.  A cycle that is known (cycle.h) needs neither.
 *
 * A model of PyTorch's expandable segments serves the same requests.  Once reserved memory exceeds what they would reserve
 * and 32 MiB, more time may go into moves, places of plans are not insisted on, and memory that plans have free serves everybody.
 * When the time for moves is used up there, larger requests go where expandable segments have them (VMM_MIRROR): from then on
 * nothing moves but what the other ranges have free, each piece once, and reserved memory follows theirs.
 *
 * No lock is taken here.  The driver's `wait` may release the caller's lock and take it again.
 */
#ifndef ALLOCATOR_VMM_H
#define ALLOCATOR_VMM_H

#include "caching.h"
#include "cycle.h"
#include "cycles_file.h"
#include "freeset.h"

#define VMM_NONE UINT32_MAX
#define VMM_SLOT ((uint64_t)2 << 20)  /* granularity of cuMemCreate on all GPUs measured */
#define VMM_UNIT 512u                 /* every block is a multiple, as PyTorch's */
#define VMM_SMALL ((uint64_t)1 << 20) /* rounded requests up to this lie apart */

struct vmm_driver {
	void *self;
	uint64_t (*reserve)(void *self,
			    uint64_t bytes); /* addresses, at a slot's border; 0: none left */
	void (*unreserve)(void *self, uint64_t addr, uint64_t bytes);
	/* physical memory for whole slots; false: there is none */
	int (*map)(void *self, uint64_t addr, uint64_t bytes, uint64_t *handle);
	void (*unmap)(void *self, uint64_t addr, uint64_t bytes, uint64_t handle);
	/* map the handle at `to` as well; `from` stays mapped until drop(); false: the driver cannot */
	int (*alias)(void *self, uint64_t from, uint64_t to, uint64_t bytes, uint64_t handle);
	void (*drop)(void *self, uint64_t addr, uint64_t bytes); /* of handles mapped elsewhere */
	/* behind what is queued on the stream, an old mark that is moved there, or 0: a new one; 0: not now (a capture) */
	uint64_t (*mark)(void *self, uint64_t stream, uint64_t old);
	/* is it done? then the mark is gone */
	int (*reached)(void *self, uint64_t mark);
	/* until it is; the mark is gone; false: that cannot be waited for now */
	int (*wait)(void *self, uint64_t mark);
	uint64_t (*now_ns)(void *self); /* from any beginning; never less than before */
};

struct vmm_setup {
	struct vmm_driver driver;
	uint64_t limit_bytes;           /* mapped; UINT64_MAX: none */
	uint64_t device_bytes;          /* of the GPU; 0: 80 GiB */
	int learns;                     /* finds cycles by itself */
	const struct cycles_plan *plan; /* cycles to begin with; borrowed; or NULL */
};

enum vmm_state {
	VMM_FREE,
	VMM_USED,
	VMM_UNMAPPED,
	VMM_FILLING, /* being mapped */
	VMM_LEFT,    /* its memory moved, and what is queued may still use this address */
};

/* A piece of a region; pieces of a region cover it without gaps. */
struct vmm_node {
	uint64_t addr, bytes;
	uint64_t requested_bytes; /* while used */
	uint64_t position;        /* of its lane, for cycle_freed; 0: the lane does not follow it */
	uint32_t prev, next;      /* by address; VMM_NONE */
	uint32_t region;
	uint8_t state;
	uint32_t beside; /* block of the lane's model of expandable segments, while used */
};

struct vmm_handle {
	uint64_t addr, bytes, handle;
	uint64_t freed; /* count of frees at the last one of a block on it */
	uint32_t lefts; /* addresses in VMM_LEFT that it is still mapped at */
	uint32_t spare; /* next unused entry, while unused */
};

#define VMM_ELSEWHERE 0x80000000u /* in handle_of: the slot is in VMM_LEFT */

enum vmm_kind { VMM_SMALLS, VMM_LARGES, VMM_PLANNED, VMM_MIRROR, VMM_KINDS };

struct vmm_region {
	uint64_t base, bytes;
	uint32_t lane;
	uint8_t kind;            /* enum vmm_kind */
	uint32_t first;          /* node; VMM_NONE: no addresses were taken yet */
	struct freeset free;     /* by size */
	struct freeset vacant;   /* of VMM_PLANNED and VMM_MIRROR: free and unmapped by address */
	VEC(uint32_t) handle_of; /* slot -> handle + 1; 0: not mapped */
	uint64_t free_bytes, mapped_bytes;
};

/* What was freed before a mark is no longer used once the stream has reached it. */
struct vmm_mark {
	uint64_t mark, frees; /* count of frees when it was made */
};

#define VMM_MARKS 4u

/* A node in VMM_LEFT. */
struct vmm_left {
	uint32_t node;
	uint64_t freed; /* count of frees that its stream must have passed */
	uint64_t frees; /* count of frees when it was left */
};

struct vmm_lane {
	uint64_t stream;
	uint64_t
		pool; /* 0, or the private pool of a capture: nothing of it is given back before it is dropped */
	uint8_t dropped; /* the pool was */
	uint32_t region[VMM_KINDS];
	struct cycle_lane cycles;
	struct caching beside;            /* what expandable segments would do */
	struct vmm_mark marks[VMM_MARKS]; /* not reached yet, the oldest first */
	uint32_t mark_count;
	uint64_t reached; /* frees that the stream has passed */
	uint64_t freed;   /* count of frees at its last one */
};

struct vmm_counts {
	uint64_t used_bytes, used_peak_bytes;           /* blocks, rounded to 512 */
	uint64_t requested_bytes, requested_peak_bytes; /* as asked for */
	uint64_t mapped_bytes, mapped_peak_bytes;
	uint64_t blocks, blocks_peak;
	uint64_t moves, moved_bytes; /* requests that memory moved for */
	uint64_t moved_ns;           /* that this took, waits included */
	uint64_t maps, unmaps;       /* handles */
	uint64_t expandable_bytes,
		expandable_peak_bytes; /* that expandable segments would reserve; 0: not known */
	uint64_t ooms, conflicts;      /* planned places that were taken */
};

struct vmm {
	struct mem *mem;
	struct vmm_driver driver;
	uint64_t limit_bytes, device_bytes;
	uint8_t learns;
	const struct cycles_plan *plan;
	size_t streams; /* lanes without a pool: the plan's go by their order */
	VEC(struct vmm_node) nodes;
	VEC(struct vmm_handle) handles;
	VEC(struct vmm_region) regions;
	VEC(struct vmm_lane) lanes;
	uint32_t spare_node, spare_handle;
	struct addr_map blocks; /* address -> node + 1 */
	uint64_t began_ns;
	uint64_t frees;
	VEC(struct vmm_left) left; /* the oldest first */
	uint64_t beside_next;      /* addresses of the models */
	uint8_t compares;          /* the models of expandable segments run */
	uint8_t mirrors;           /* larger requests go where the models have them */
	struct vmm_counts counts;
	struct plim_err err;
};

void vmm_init(struct vmm *a, struct mem *m, const struct vmm_setup *setup);

/* Gives all memory and addresses back, also of blocks that are in use. */
void vmm_release(struct vmm *a);

/* The lane of a stream and pool (0: none); made where it is not there.  VMM_NONE: no memory. */
uint32_t vmm_lane(struct vmm *a, uint64_t stream, uint64_t pool);

/* Not 0 bytes.  *addr 0 with PLIM_OK: out of memory; an error: host memory was refused, nothing is changed. */
enum plim_status vmm_malloc(struct vmm *a, uint32_t lane, uint64_t bytes, uint64_t *addr);

/* The lane's stream may use it again at once.  False: no block begins there. */
int vmm_free(struct vmm *a, uint64_t addr);

/* The block that begins at an address; NULL: none. */
const struct vmm_node *vmm_block(const struct vmm *a, uint64_t addr);

/* torch.cuda.empty_cache(): all handles that are wholly free go back, after a wait. */
void vmm_empty(struct vmm *a);

/* All that is mapped, in runs of addresses; false: a call was, and that was the last. */
int vmm_each_mapped(const struct vmm *a, int (*call)(void *self, uint64_t addr, uint64_t bytes),
		    void *self);

/* A private pool was let go. */
void vmm_drop_pool(struct vmm *a, uint64_t pool);

#endif
