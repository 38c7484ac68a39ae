/*
 * An ordered set of blocks, by size and then by address: what a pool's free blocks are searched in.
 *
 * A size says which shelf its key is on: eight for each power of two.  Most shelves hold one key or none (in plans, seven
 * of ten keys come to an empty one), so that most searches are a look at one of them, or at the map of those that are not
 * empty.  What a shelf holds more lies in sorted chunks of a few cache lines under a sorted list of chunks: a pool of
 * 100,000 free blocks costs a few times one of 100.
 */
#ifndef ALLOCATOR_ORDER_H
#define ALLOCATOR_ORDER_H

#include "base/base.h"

#define ORDER_CHUNK 32

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

struct order_shelf {
	size_t n;
	struct order_key only; /* where n is 1, else: */
	VEC(struct order_part)
	parts; /* no chunk is empty, unless n is below 2 and it is the only one */
};

#define ORDER_SHELVES 256u

struct order {
	struct order_shelf *shelves;         /* ORDER_SHELVES, or NULL: nothing was ever in it */
	uint64_t filled[ORDER_SHELVES / 64]; /* a bit for each shelf that holds something */
};

/* A place in the set; `shelf` equal to ORDER_SHELVES is the end. */
struct order_cursor {
	uint32_t shelf, part, at;
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

/* What is broken in it, or NULL (check.c). */
const char *order_check(const struct order *o);

/* Make `o`, which is empty or a set that may go, hold what `from` does. */
enum plim_status order_copy(struct mem *m, struct order *o, const struct order *from,
			    struct plim_err *err);

#endif
