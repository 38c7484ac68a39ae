/*
 * An ordered set of blocks, by size and then by address: what a pool's free blocks are searched in.
 *
 * A size says which shelf its key is on: eight for each power of two.  Most shelves hold one key or none (in plans, seven
 * of ten keys come to an empty one), so that most searches are a look at one of them, or at the map of those that are not
 * empty.  What a shelf holds more lies in sorted chunks of a few cache lines under a sorted list of chunks: a pool of
 * 100,000 free blocks costs a few times one of 100.
 */
#ifndef ALLOCATOR_FREESET_H
#define ALLOCATOR_FREESET_H

#include "base/base.h"

#define FREESET_CHUNK 32

struct freeset_key {
	uint64_t bytes, addr;
	uint32_t block;
};

struct freeset_chunk {
	uint32_t n;
	struct freeset_key at[FREESET_CHUNK];
};

struct freeset_part {
	struct freeset_key first; /* of the chunk */
	struct freeset_chunk *chunk;
};

struct freeset_shelf {
	size_t n;
	struct freeset_key only; /* where n is 1, else: */
	VEC(struct freeset_part)
	parts; /* no chunk is empty, unless n is below 2 and it is the only one */
};

#define FREESET_SHELVES 256u

struct freeset {
	struct freeset_shelf *shelves; /* FREESET_SHELVES, or NULL: nothing was ever in it */
	uint64_t filled[FREESET_SHELVES / 64]; /* a bit for each shelf that holds something */
};

/* A place in the set; `shelf` equal to FREESET_SHELVES is the end. */
struct freeset_cursor {
	uint32_t shelf, part, at;
};

enum plim_status freeset_insert(struct mem *m, struct freeset *o, const struct freeset_key *key,
				struct plim_err *err);

/* Take out the key that is there. */
void freeset_remove(struct mem *m, struct freeset *o, const struct freeset_key *key);

/* The first key that is not smaller than (bytes, addr). */
struct freeset_cursor freeset_seek(const struct freeset *o, uint64_t bytes, uint64_t addr);

/* The key at a cursor, or NULL at the end. */
const struct freeset_key *freeset_get(const struct freeset *o, struct freeset_cursor c);

void freeset_next(const struct freeset *o, struct freeset_cursor *c);

/* One step back; false, and unchanged, at the first. */
int freeset_prev(const struct freeset *o, struct freeset_cursor *c);

void freeset_release(struct mem *m, struct freeset *o);

/* What is broken in it, or NULL (check.c). */
const char *freeset_check(const struct freeset *o);

/* Make `o`, which is empty or a set that may go, hold what `from` does. */
enum plim_status freeset_copy(struct mem *m, struct freeset *o, const struct freeset *from,
			      struct plim_err *err);

#endif
