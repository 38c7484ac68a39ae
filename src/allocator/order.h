/*
 * An ordered set of blocks, by size and then by address: what a pool's free blocks are searched in.
 * Sorted chunks of a few cache lines under a sorted list of chunks, so that a search touches little
 * memory and a pool of 100,000 free blocks costs a few times one of 100.
 */
#ifndef ALLOCATOR_ORDER_H
#define ALLOCATOR_ORDER_H

#include "base/base.h"

#define ORDER_CHUNK 64

struct order_key {
	uint64_t bytes, addr;
	uint32_t block;
};

struct order_chunk {
	uint32_t n;
	struct order_key at[ORDER_CHUNK];
};

struct order_part {
	struct order_key first; /* of the chunk */
	struct order_chunk *chunk;
};

struct order {
	VEC(struct order_part) parts;
};

/* A place in the set; `part` equal to parts.n is the end. */
struct order_cursor {
	size_t part;
	uint32_t at;
};

enum plim_status order_insert(struct mem *m, struct order *o, const struct order_key *key,
			      struct plim_err *err);

/* Take out the key that is there. */
void order_remove(struct mem *m, struct order *o, const struct order_key *key);

/* The first key that is not smaller than (bytes, addr). */
struct order_cursor order_seek(const struct order *o, uint64_t bytes, uint64_t addr);

/* The key at a cursor, or NULL at the end. */
const struct order_key *order_get(const struct order *o, struct order_cursor c);

void order_next(const struct order *o, struct order_cursor *c);

/* One step back; false, and unchanged, at the first. */
int order_prev(const struct order *o, struct order_cursor *c);

void order_release(struct mem *m, struct order *o);

#endif
