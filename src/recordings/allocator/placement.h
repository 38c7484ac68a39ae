/*
 * Where CUDA puts memory, and how much it has.  Addresses are CUDA's own affair and differ from run
 * to run, so there are several ways to place; they only decide between free blocks of equal size.
 */
#ifndef ALLOCATOR_PLACEMENT_H
#define ALLOCATOR_PLACEMENT_H

#include "caching.h"

struct placement_hole {
	uint64_t addr, bytes;
};

/* Segments of one size as the recording has them, in turn: places[first, first + n) of struct placement. */
struct placement_size {
	uint64_t bytes;
	uint32_t first, n, used;
};

struct placement {
	struct mem *mem;
	struct plim_err *err;
	enum allocator_way way;
	void *owner; /* whoever runs the model */
	uint64_t capacity_bytes, used_bytes;
	uint64_t low, high; /* address space in use: chunks are added below or above */
	VEC(struct placement_hole) holes; /* free inside it, by address */
	VEC(struct placement_size) sizes; /* ALLOCATOR_RECORDED: by bytes */
	VEC(uint64_t) places;
	VEC(struct placement_hole) taken; /* of the recorded places, by address */
	enum plim_status failed;          /* our own memory ran out */
};

/* capacity_bytes UINT64_MAX: as much as is asked for. */
void placement_init(struct placement *p, struct mem *m, enum allocator_way way,
		    uint64_t capacity_bytes, struct plim_err *err);

/* Follow the places of a recording.  Linear in its events. */
enum plim_status placement_follow(struct placement *p, const struct snapshot_device *d);
void placement_release(struct placement *p);

/* Become as `from` is, except for the owner. */
enum plim_status placement_copy(struct placement *p, const struct placement *from);

struct caching_driver placement_driver(struct placement *p);

#endif
