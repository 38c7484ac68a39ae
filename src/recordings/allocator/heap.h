/*
 * Ranges of reserved memory tiled by blocks.  A range is a segment (one cudaMalloc) or a contiguous
 * mapped part of an expandable reservation.  Blocks are found by address; ranges are kept in address
 * order.  The heap decides nothing: callers say where to split and what to merge.
 */
#ifndef ALLOCATOR_HEAP_H
#define ALLOCATOR_HEAP_H

#include "allocator.h"

#define HEAP_NONE UINT32_MAX

struct heap_block {
	uint64_t addr, bytes;
	uint32_t prev, next; /* neighbours in the range, or HEAP_NONE */
	uint32_t range;
	uint32_t alloc; /* the allocation that has it, HEAP_NONE: free */
	uint8_t loose; /* its true end is not known: it may own up to 1 MiB of the free block behind it */
};

struct heap_range {
	uint64_t addr, bytes;
	uint32_t first, last;
	uint32_t stream;
	uint16_t pool;  /* 0 also: not known */
	uint32_t stack; /* that made it */
	uint8_t large, expandable;
};

struct heap {
	struct mem *mem;
	VEC(struct heap_block) blocks;
	VEC(struct heap_range) ranges;
	VEC(uint32_t) order;   /* ranges by address */
	VEC(uint32_t) spare;   /* blocks to use again */
	struct addr_map index; /* blocks by address: number + 1 */
};

void heap_init(struct heap *h, struct mem *m);
void heap_release(struct heap *h);

/* The block that begins at addr, or HEAP_NONE. */
uint32_t heap_find(const struct heap *h, uint64_t addr);

/* Position in `order` of the first range that ends behind addr. */
size_t heap_range_at(const struct heap *h, uint64_t addr);

/*
 * A new range of one free block.  If it touches expandable ranges of the same stream and size class
 * it joins them, and the block merges with free neighbours.  *block is the block that holds addr;
 * HEAP_NONE: the range is empty or overlaps another, and was not added.
 */
enum plim_status heap_add(struct heap *h, const struct heap_range *range, uint32_t *block,
			  struct plim_err *err);

/* Take [addr, addr + bytes) out: it must lie in one free block.  False: it does not. */
enum plim_status heap_remove(struct heap *h, uint64_t addr, uint64_t bytes, int *done,
			     struct plim_err *err);

/* Cut `block` to its first `bytes`; the rest becomes a free block behind it. */
enum plim_status heap_split(struct heap *h, uint32_t block, uint64_t bytes, struct plim_err *err);

/* Make a block free and merge it with free neighbours; the block that results. */
uint32_t heap_free(struct heap *h, uint32_t block);

/* Move the border between a block and its next. */
void heap_move_border(struct heap *h, uint32_t block, uint64_t bytes);

/* Fill *oom, whose event and pool are set, with what is free (apart.c). */
enum plim_status heap_account(const struct heap *h, const struct snapshot *t,
			      const struct snapshot_device *d, struct allocator_oom *oom,
			      struct plim_err *err);

/* What is broken in it, or NULL (check.c). */
const char *heap_check(const struct heap *h);

/*
 * What was reserved and live before the first event of a recording whose beginning was lost, from its
 * replay (replay.c).  The heap is the caller's to release.
 */
enum plim_status heap_before(struct heap *h, struct mem *m, const struct snapshot *t,
			     const struct snapshot_device *d, const struct allocator_replay *replay,
			     struct plim_err *err);

#endif
