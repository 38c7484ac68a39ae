/*
 * Where CUDA puts memory, and how much it has.  Addresses are CUDA's own affair and differ from run
 * to run, so there are several ways to place; they only decide between free blocks of equal size.
 */
#ifndef ALLOCATOR_PLACEMENT_H
#define ALLOCATOR_PLACEMENT_H

#include "caching.h"

/*
 * PLACEMENT_DRIVER: as CUDA does on Linux in the recordings measured (driver 580): address space
 * comes in chunks of 32 MiB from above downwards, and a segment that fits behind another one in its
 * last chunk is put there, at the lowest such place.
 */
enum placement_way {
	PLACEMENT_DRIVER,
	PLACEMENT_UPWARDS,   /* each new segment above all others */
	PLACEMENT_DOWNWARDS, /* each new segment below all others */
	PLACEMENT_SHUFFLED,  /* anywhere; placement_init's seed decides */
	PLACEMENT_WAYS
};

struct placement_hole {
	uint64_t addr, bytes;
};

struct placement {
	struct mem *mem;
	struct plim_err *err;
	enum placement_way way;
	uint64_t seed;
	uint64_t capacity_bytes, used_bytes;
	uint64_t low, high; /* address space in use */
	VEC(struct placement_hole) holes; /* free inside it, by address */
	enum plim_status failed; /* our own memory ran out */
};

/* capacity_bytes UINT64_MAX: as much as is asked for. */
void placement_init(struct placement *p, struct mem *m, enum placement_way way, uint64_t seed,
		    uint64_t capacity_bytes, struct plim_err *err);
void placement_release(struct placement *p);

struct caching_driver placement_driver(struct placement *p);

#endif
