/*
 * Where CUDA puts memory, and how much it has.  Addresses are CUDA's own affair and differ from run
 * to run, so there are several ways to place; they only decide between free blocks of equal size.
 */
#ifndef ALLOCATOR_PLACEMENT_H
#define ALLOCATOR_PLACEMENT_H

#include "caching.h"

/*
 * As CUDA does on Linux in the recordings measured (driver 580, H100 and H200): address space comes in
 * chunks of 32 MiB from above downwards; a segment of up to half a chunk goes behind another one where
 * its last chunk has room.  Which such place it takes depends on what else the process keeps there,
 * and that is not recorded: hence several ways.  The first fits the recordings best.
 */
enum placement_way {
	PLACEMENT_LOWEST,  /* the lowest place with room */
	PLACEMENT_HIGHEST, /* the highest one */
	PLACEMENT_TIGHTEST, /* the one with the least room left over */
	PLACEMENT_APART, /* a chunk of its own */
	PLACEMENT_WAYS
};

struct placement_hole {
	uint64_t addr, bytes;
};

struct placement {
	struct mem *mem;
	struct plim_err *err;
	enum placement_way way;
	void *owner; /* whoever runs the model */
	uint64_t capacity_bytes, used_bytes;
	uint64_t low; /* address space in use begins here */
	VEC(struct placement_hole) holes; /* free inside it, by address */
	enum plim_status failed; /* our own memory ran out */
};

/* capacity_bytes UINT64_MAX: as much as is asked for. */
void placement_init(struct placement *p, struct mem *m, enum placement_way way,
		    uint64_t capacity_bytes, struct plim_err *err);
void placement_release(struct placement *p);

struct caching_driver placement_driver(struct placement *p);

#endif
