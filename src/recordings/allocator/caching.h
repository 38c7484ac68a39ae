/*
 * PyTorch's DeviceCachingAllocator as a model: requests in, calls of the driver and statistics out.
 * It makes the same decisions in the same order as c10/cuda/CUDACachingAllocator.cpp does; where
 * CUDA itself decides (is there memory, at which address) it asks a struct caching_driver.
 *
 * Not modelled: requests of the default pool while another thread captures (they skip the full release),
 * MemPool fallbacks, free-memory callbacks.  What became of frees that wait for another stream is the caller's input.
 */
#ifndef ALLOCATOR_CACHING_H
#define ALLOCATOR_CACHING_H

#include "allocator.h"
#include "freeset.h"

#define CACHING_NONE UINT32_MAX

struct caching_block {
	uint64_t addr, bytes, requested_bytes;
	uint64_t searches; /* of its pool when it was last put there: its age counts from then */
	uint32_t prev, next;
	uint32_t request;     /* the caller's, while allocated */
	uint32_t reservation; /* CACHING_NONE: a segment of its own */
	uint32_t block_pool;  /* pool * 2 + large */
	uint16_t stream;
	uint32_t pending_at; /* place + 1 in `pending`, 0: not there */
	uint8_t allocated;   /* handed out, or freed and still waiting for other streams */
	uint8_t unmapped;
	uint8_t is_late; /* free, but not in its pool: memory was refused; `request` is the next such block */
};

/* Free blocks of one block pool (the small or the large blocks of a pool; BlockPool) and one stream. */
struct caching_bin {
	struct freeset free;
	struct freeset unmapped; /* bytes 0: by address */
};

/* Address space of an expandable segment. */
struct caching_reservation {
	uint64_t addr, bytes, page_bytes;
};

/* What stands for CUDA. */
struct caching_driver {
	void *self;
	/* cudaMalloc; false: out of memory */
	int (*segment_alloc)(void *self, uint64_t bytes, uint64_t *addr);
	void (*segment_free)(void *self, uint64_t addr, uint64_t bytes);
	uint64_t (*reserve)(void *self, uint64_t bytes); /* cuMemAddressReserve */
	void (*unreserve)(void *self, uint64_t addr, uint64_t bytes);
	/* physical pages for [addr, addr + bytes); false: out of memory, and nothing is mapped */
	int (*map)(void *self, uint64_t addr, uint64_t bytes);
	void (*unmap)(void *self, uint64_t addr, uint64_t bytes);
	/* what PyTorch would record: events without their op; may be NULL */
	void (*event)(void *self, const struct allocator_event *event);
};

struct caching {
	struct mem *mem;
	struct plim_err err; /* of its own calls; caching_tell_error hands it on */
	struct allocator_rules rules;
	struct caching_driver driver;
	const int64_t *stream_values; /* cudaStream_t by number: pools are walked in their order */
	size_t streams, block_pools;
	uint16_t *stream_order; /* stream numbers by value */
	uint64_t limit_bytes;   /* set_per_process_memory_fraction; UINT64_MAX: none */
	uint64_t device_bytes;  /* for the size of reservations */
	VEC(struct caching_block) blocks;
	VEC(uint32_t) spare;
	struct caching_bin *bins; /* [block_pool * streams + stream] */
	uint64_t *searches;       /* of each block pool */
	uint8_t *
		is_dropped; /* of each pool: private, and no one holds it; 2: while it is emptied */
	VEC(uint16_t)
	dropped; /* in the order in which they give memory back; some are held again */
	VEC(struct caching_reservation) reservations;
	uint32_t late;         /* the first free block that is not in its pool, or CACHING_NONE */
	VEC(uint32_t) pending; /* blocks whose free was asked for and is not completed */
	struct allocator_stats stats;
	/*
	 * What the limit decided: reserved bytes that it was asked to allow.  Under every limit from the most that were
	 * allowed up to the least that were not, all goes the same way (unless garbage is collected, which goes by the
	 * limit itself).
	 */
	uint64_t most_allowed_bytes, least_refused_bytes; /* 0 and UINT64_MAX: none */
	uint8_t pauses; /* a request that the limit would refuse is not made: */
	uint8_t paused; /* ... there was one, and all is as before it */
};

struct caching_setup {
	struct allocator_rules rules;
	struct caching_driver driver;
	const int64_t *stream_values; /* borrowed */
	size_t streams, pools;
	uint64_t limit_bytes, device_bytes;
};

enum plim_status caching_init(struct caching *c, struct mem *m, const struct caching_setup *setup,
			      struct plim_err *err);
void caching_release(struct caching *c);

/* Become as `from` is, except for the driver; both were made with the same setup. */
enum plim_status caching_copy(struct caching *c, const struct caching *from);

/* Does what happens depend on the limit in other ways than by what it refuses? */
int caching_collects(const struct caching *c);

struct caching_request {
	uint64_t bytes; /* unrounded */
	uint32_t number;
	uint16_t stream, pool;
};

/* *block CACHING_NONE: out of memory, which is not an error of this function. */
enum plim_status caching_malloc(struct caching *c, const struct caching_request *rq,
				uint32_t *block);

/*
 * Frees cannot fail.  Where memory is refused for a block's place in its pool, the block waits for the next request, which
 * fails if it is refused again (caching_status shows at once).
 */

/* The program drops it; it is not back before caching_free_completed. */
void caching_free_requested(struct caching *c, uint32_t block);
void caching_free_completed(struct caching *c, uint32_t block);
/* Both at once: no other stream uses it. */
void caching_free(struct caching *c, uint32_t block);

/* PLIM_OK: every free block is found. */
static inline enum plim_status caching_status(const struct caching *c)
{
	return c->late == CACHING_NONE ? PLIM_OK : c->err.status;
}

/* After a failure: why, if it was a call of the model that failed. */
void caching_tell_error(const struct caching *c, enum plim_status st, struct plim_err *err);

/* torch.cuda.empty_cache(); private pools give back what they have free once they are dropped */
enum plim_status caching_empty_cache(struct caching *c);

/* No one holds a private pool any more, until the next request in it. */
enum plim_status caching_drop_pool(struct caching *c, uint16_t pool);

/* All private pools are held again. */
void caching_hold_pools(struct caching *c);

/* The free block that get_free_block would take, or CACHING_NONE; counts no search. */
uint32_t caching_find(const struct caching *c, uint32_t block_pool, uint16_t stream,
		      uint64_t bytes);

/* pool * 2 + whether a rounded size is for the large blocks */
uint32_t caching_block_pool(uint16_t pool, uint64_t rounded_bytes);

/*
 * Begin with what a heap holds, in a model that has nothing yet.  Requests are the heap's allocations,
 * of `device`; request_of gives their numbers and block_of[request] becomes the block of each.
 */
struct heap;
enum plim_status caching_seed(struct caching *c, const struct heap *h,
			      const struct snapshot_device *d, const uint32_t *request_of,
			      uint32_t *block_of);

/* What is broken in it between two operations, or NULL (check.c). */
const char *caching_check(const struct caching *c);

/* ---- which pool a segment was of, for explain.c ---- */

/*
 * Before 2.12 events tell no pool.  Final segments do; a segment that came and went is taken for the
 * default pool's until that contradicts what the allocator did:
 *   - released memory comes in an order (default pool large, then small; then private pools, each
 *     small, then large), and this segment came too late in it;
 *   - or it was asked for although the default pool had a free block.
 */
struct pools_segment {
	uint64_t addr, bytes;
	uint32_t born, gone; /* its events; gone TRACE_NONE: it stands at the end */
	uint32_t next;       /* segment of its stream, or TRACE_NONE */
	uint16_t stream, pool;
	uint8_t known;      /* pool is certain */
	uint8_t is_private; /* it cannot be the default pool's */
	uint8_t is_apart;   /* nor that of the stream's request before */
};

/* Segments by birth, but none that were there before the first event; expandable ones are not in it. */
struct pools {
	struct mem *mem;
	VEC(struct pools_segment) segments;
	uint32_t *segment_of; /* of each alloc and segment event, or TRACE_NONE */
	size_t events;
};

/* n log n in the events.  Release it also after a failure. */
enum plim_status pools_find(struct pools *p, struct mem *m, const struct snapshot *t,
			    const struct snapshot_device *d, struct plim_err *err);
void pools_release(struct pools *p);

/*
 * The pool that the segment around `addr` was taken for at `event` is wrong: not the default one, and where
 * that is known already, not its neighbour's.  False: nothing is left to try.
 */
int pools_rule_out(struct pools *p, uint64_t addr, uint32_t event);

/* ---- between the files of the model ---- */

uint32_t caching_block_new(struct caching *c, const struct caching_block *b);
void caching_pool_insert(struct caching *c, uint32_t block);
/* It must be there. */
void caching_pool_remove(struct caching *c, uint32_t block);
void caching_drop(struct caching *c, uint32_t block);
/* `into` takes its neighbour over if both are free and of one kind; the bytes that came. */
uint64_t caching_merge(struct caching *c, uint32_t into, uint32_t neighbour);
void caching_count(struct caching *c, enum allocator_stat stat, uint32_t block_pool,
		   int64_t change);
void caching_tell(struct caching *c, enum snapshot_action action, uint64_t addr, uint64_t bytes,
		  const struct caching_block *b);

enum plim_status caching_expand(struct caching *c, uint32_t block_pool, uint16_t stream,
				uint64_t bytes, uint32_t *block);
enum plim_status caching_unmap(struct caching *c, uint32_t block);

void caching_garbage_collect(struct caching *c);
/* Segments beyond max_split, until one large enough for the request is free; true: it should be. */
int caching_release_available(struct caching *c, uint32_t block_pool, uint16_t stream,
			      uint64_t bytes);

/* Is it still the block of that request?  A wait for all streams may have freed it before the program. */
static inline int caching_holds(const struct caching *c, uint32_t block, uint32_t request)
{
	return block != CACHING_NONE && c->blocks.at[block].allocated &&
	       c->blocks.at[block].request == request;
}

static inline int caching_whole(const struct caching_block *b)
{
	return b->prev == CACHING_NONE && b->next == CACHING_NONE;
}

#endif
