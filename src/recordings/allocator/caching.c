#include "caching.h"

#include <stdlib.h>
#include <string.h>

#define TOO_LARGE ((uint64_t)1 << 60) /* refused unasked: "more than 1EB" */

/* ---- counting and telling ---- */

static inline void add_caching(struct allocator_count *n, uint64_t change)
{
	n->current += change;
	n->allocated += change;
	n->peak = n->current > n->peak ? n->current : n->peak;
}

static inline void take_caching(struct allocator_count *n, uint64_t change)
{
	n->current -= change;
	n->freed += change;
}

/* The two ways of caching_count where it is known which. */
static inline void count_up(struct caching *c, enum allocator_stat stat, uint32_t block_pool,
			    uint64_t change)
{
	add_caching(&c->stats.count[stat][0], change);
	add_caching(&c->stats.count[stat][1 + (block_pool & 1)], change);
}

static inline void count_down(struct caching *c, enum allocator_stat stat, uint32_t block_pool,
			      uint64_t change)
{
	take_caching(&c->stats.count[stat][0], change);
	take_caching(&c->stats.count[stat][1 + (block_pool & 1)], change);
}

void caching_count(struct caching *c, enum allocator_stat stat, uint32_t block_pool, int64_t change)
{
	if (change < 0)
		count_down(c, stat, block_pool, -(uint64_t)change);
	else
		count_up(c, stat, block_pool, (uint64_t)change);
}

void caching_tell(struct caching *c, enum snapshot_action action, uint64_t addr, uint64_t bytes,
		  const struct caching_block *b)
{
	int of_request = action <= TRACE_FREE_COMPLETED || action == TRACE_OOM;

	if (c->driver.event)
		c->driver.event(c->driver.self,
				&(struct allocator_event){ .action = action,
							   .addr = addr,
							   .bytes = bytes,
							   .request = of_request ? b->request
										 : CACHING_NONE,
							   .block_pool = b->block_pool,
							   .stream = b->stream });
}

/* ---- blocks and pools ---- */

uint32_t caching_block_pool(uint16_t pool, uint64_t rounded_bytes)
{
	return (uint32_t)(pool * 2 + (rounded_bytes > ALLOCATOR_SMALL_SIZE));
}

/* CACHING_NONE: no memory, and c->err says so. */
uint32_t caching_block_new(struct caching *c, const struct caching_block *b)
{
	if (c->spare.n) {
		uint32_t block = c->spare.at[--c->spare.n];

		c->blocks.at[block] = *b;
		return block;
	}
	/* room in `spare` and in `pending` for every block: so no free can fail */
	if (vec_need(c->mem, &c->blocks, 1, &c->err) ||
	    vec_need(c->mem, &c->spare, c->blocks.n + 1, &c->err) ||
	    vec_need(c->mem, &c->pending, c->blocks.n + 1 - c->pending.n, &c->err))
		return CACHING_NONE;
	c->blocks.at[c->blocks.n] = *b;
	return (uint32_t)c->blocks.n++;
}

void caching_drop(struct caching *c, uint32_t block)
{
	c->spare.at[c->spare.n++] = block;
}

static struct freeset *order_of(struct caching *c, const struct caching_block *b,
				struct freeset_key *key, uint32_t block)
{
	struct caching_bin *bin = &c->bins[b->block_pool * c->streams + b->stream];

	*key = (struct freeset_key){ b->unmapped ? 0 : b->bytes, b->addr, block };
	return b->unmapped ? &bin->unmapped : &bin->free;
}

static enum plim_status insert(struct caching *c, uint32_t block)
{
	struct freeset_key key;
	struct freeset *o = order_of(c, &c->blocks.at[block], &key, block);

	return freeset_insert(c->mem, o, &key, &c->err);
}

/*
 * Free blocks for whose place in their pool memory was refused are a list, linked by what no one needs of a free block:
 * its request.  They are no less free, but are not found until they are in their pool.
 */
void caching_pool_insert(struct caching *c, uint32_t block)
{
	struct caching_block *b = &c->blocks.at[block];

	b->searches = c->searches[b->block_pool];
	if (!insert(c, block))
		return;
	b->is_late = 1;
	b->request = c->late;
	c->late = block;
}

static void late_remove(struct caching *c, uint32_t block)
{
	uint32_t *at = &c->late;

	while (*at != block)
		at = &c->blocks.at[*at].request;
	*at = c->blocks.at[block].request;
	c->blocks.at[block].is_late = 0;
}

void caching_pool_remove(struct caching *c, uint32_t block)
{
	struct freeset_key key;
	struct freeset *o = order_of(c, &c->blocks.at[block], &key, block);

	if (c->blocks.at[block].is_late)
		late_remove(c, block);
	else
		freeset_remove(c->mem, o, &key);
}

/* The late ones to their pools. */
static enum plim_status settle_caching(struct caching *c)
{
	while (c->late != CACHING_NONE) {
		uint32_t block = c->late;
		enum plim_status st = insert(c, block);

		if (st)
			return st;
		late_remove(c, block);
	}
	c->err.status = PLIM_OK;
	return PLIM_OK;
}

static void link_blocks(struct caching *c, uint32_t left, uint32_t right)
{
	if (left != CACHING_NONE)
		c->blocks.at[left].next = right;
	if (right != CACHING_NONE)
		c->blocks.at[right].prev = left;
}

uint64_t caching_merge(struct caching *c, uint32_t into, uint32_t neighbour)
{
	struct caching_block *b = &c->blocks.at[into], *n;

	if (neighbour == CACHING_NONE)
		return 0;
	n = &c->blocks.at[neighbour];
	if (n->allocated || n->unmapped != b->unmapped)
		return 0;
	caching_pool_remove(c, neighbour);
	if (b->prev == neighbour) {
		b->addr = n->addr;
		b->prev = n->prev;
		link_blocks(c, n->prev, into);
	} else {
		b->next = n->next;
		link_blocks(c, into, n->next);
	}
	b->bytes += n->bytes;
	caching_drop(c, neighbour);
	return n->bytes;
}

/* ---- malloc ---- */

/* What a free block is worth to a request: the last one of a reservation can still grow. */
static uint64_t expandable_bytes(const struct caching *c, uint32_t block)
{
	const struct caching_block *b = &c->blocks.at[block];

	if (b->next == CACHING_NONE || !c->blocks.at[b->next].unmapped)
		return b->bytes;
	return b->bytes + c->blocks.at[b->next].bytes;
}

static int is_expandable(const struct caching *c, uint32_t block)
{
	return c->blocks.at[block].reservation != CACHING_NONE;
}

/* Of expandable blocks prefer those that cannot grow; with the setting off pass over all of them. */
static const struct freeset_key *choose_expandable(const struct caching *c, const struct freeset *o,
						   struct freeset_cursor at)
{
	const struct freeset_key *k = freeset_get(o, at), *other;

	for (;;) {
		freeset_next(o, &at);
		other = freeset_get(o, at);
		if (!c->rules.expandable) {
			if (!other || !is_expandable(c, other->block))
				return other;
			continue;
		}
		if (!is_expandable(c, k->block) || !other ||
		    expandable_bytes(c, other->block) >= expandable_bytes(c, k->block))
			return k;
		k = other;
	}
}

uint32_t caching_find(const struct caching *c, uint32_t block_pool, uint16_t stream, uint64_t bytes)
{
	const struct freeset *o = &c->bins[block_pool * c->streams + stream].free;
	struct freeset_cursor at = freeset_seek(o, bytes, 0);
	const struct freeset_key *k = freeset_get(o, at);

	if (k && is_expandable(c, k->block))
		k = choose_expandable(c, o, at);
	if (!k)
		return CACHING_NONE;
	if (bytes < c->rules.max_split_bytes && k->bytes >= c->rules.max_split_bytes)
		return CACHING_NONE;
	if (bytes >= c->rules.max_split_bytes &&
	    k->bytes - bytes >= c->rules.max_nonsplit_rounding_bytes)
		return CACHING_NONE;
	return k->block;
}

int caching_collects(const struct caching *c)
{
	return c->limit_bytes != UINT64_MAX && c->rules.gc_threshold > 0;
}

static uint32_t take_free(struct caching *c, uint32_t block_pool, uint16_t stream, uint64_t bytes)
{
	uint32_t block;

	c->searches[block_pool] += (uint64_t)caching_collects(c);
	block = caching_find(c, block_pool, stream, bytes);
	if (block != CACHING_NONE)
		caching_pool_remove(c, block);
	return block;
}

static int is_private(uint32_t block_pool)
{
	return block_pool > 1;
}

static int expands(const struct caching *c, uint32_t block_pool)
{
	return c->rules.expandable &&
	       !(is_private(block_pool) && c->rules.release->no_private_expandable);
}

static int allows(struct caching *c, uint64_t segment)
{
	uint64_t bytes = c->stats.count[ALLOCATOR_RESERVED_BYTES][0].current + segment;

	if (bytes <= c->limit_bytes && bytes >= segment) {
		if (bytes > c->most_allowed_bytes)
			c->most_allowed_bytes = bytes;
		return 1;
	}
	c->paused = c->pauses;
	if (bytes < c->least_refused_bytes)
		c->least_refused_bytes = bytes;
	return 0;
}

/* *block CACHING_NONE: the limit or the driver does not allow it. */
static enum plim_status alloc_block(struct caching *c, uint32_t block_pool, uint16_t stream,
				    uint64_t bytes, uint32_t *block)
{
	uint64_t segment = allocator_segment_bytes(&c->rules, bytes);
	struct caching_block b = { .bytes = segment,
				   .prev = CACHING_NONE,
				   .next = CACHING_NONE,
				   .reservation = CACHING_NONE,
				   .block_pool = block_pool,
				   .stream = stream };

	*block = CACHING_NONE;
	if (!allows(c, segment))
		return PLIM_OK;
	if (expands(c, block_pool))
		return caching_expand(c, block_pool, stream, bytes, block);
	if (!c->driver.segment_alloc(c->driver.self, segment, &b.addr))
		return PLIM_OK;
	*block = caching_block_new(c, &b);
	if (*block == CACHING_NONE)
		return mem_status(&c->err);
	caching_count(c, ALLOCATOR_SEGMENT, block_pool, 1);
	caching_count(c, ALLOCATOR_RESERVED_BYTES, block_pool, (int64_t)segment);
	if (segment >= c->rules.max_split_bytes)
		caching_count(c, ALLOCATOR_OVERSIZE_SEGMENTS, block_pool, 1);
	c->stats.device_allocs++;
	caching_tell(c, TRACE_SEGMENT_ALLOC, b.addr, segment, &b);
	return PLIM_OK;
}

/* The ladder: each rung asks the driver again after it gave something back. */
static enum plim_status retry(struct caching *c, uint32_t block_pool, uint16_t stream,
			      uint64_t bytes, uint32_t *block)
{
	enum plim_status st;

	if (caching_collects(c))
		caching_garbage_collect(c);
	st = alloc_block(c, block_pool, stream, bytes, block);
	if (c->paused)
		return st;
	if (!st && *block == CACHING_NONE &&
	    caching_release_available(c, block_pool, stream, bytes))
		st = alloc_block(c, block_pool, stream, bytes, block);
	/*
	 * While requests go to a private pool, PyTorch counts as capturing, and gives nothing back: 4 GiB of a MemPool
	 * failed with 10 GiB of the default pool unused under a limit of 12 (measured: PyTorch 2.11, H200).
	 */
	if (st || *block != CACHING_NONE || block_pool > 1)
		return st;
	st = caching_empty_cache(c);
	c->stats.retries++;
	return st ? st : alloc_block(c, block_pool, stream, bytes, block);
}

static int should_split(const struct caching *c, const struct caching_block *b, uint64_t bytes)
{
	uint64_t rest = b->bytes - bytes;

	if (!(b->block_pool & 1) || c->rules.expandable)
		return rest >= ALLOCATOR_MIN_BLOCK;
	return bytes < c->rules.max_split_bytes && rest > ALLOCATOR_SMALL_SIZE;
}

/* The front of `block` becomes a block of its own; what remains is free and keeps its number. */
static enum plim_status split_caching(struct caching *c, uint32_t *block, uint64_t bytes)
{
	struct caching_block front = c->blocks.at[*block];
	uint32_t rest = *block, made;

	front.bytes = bytes;
	front.next = rest;
	made = caching_block_new(c, &front);
	if (made == CACHING_NONE)
		return mem_status(&c->err);
	link_blocks(c, front.prev, made);
	c->blocks.at[rest].prev = made;
	c->blocks.at[rest].addr += bytes;
	c->blocks.at[rest].bytes -= bytes;
	*block = made;
	caching_pool_insert(c, rest);
	return PLIM_OK;
}

/* Inactive split blocks are free parts of a segment; expandable ones do not count. */
static void count_taken(struct caching *c, const struct caching_block *b, int was_split, int splits)
{
	int64_t blocks = 0, bytes = 0;

	if (b->reservation != CACHING_NONE)
		return;
	if (splits && was_split)
		bytes = -(int64_t)b->bytes;
	else if (splits) {
		bytes = (int64_t)c->blocks.at[b->next].bytes;
		blocks = 1;
	} else if (was_split) {
		bytes = -(int64_t)b->bytes;
		blocks = -1;
	}
	if (blocks)
		caching_count(c, ALLOCATOR_INACTIVE_SPLIT, b->block_pool, blocks);
	if (bytes)
		caching_count(c, ALLOCATOR_INACTIVE_SPLIT_BYTES, b->block_pool, bytes);
}

static enum plim_status hand_out(struct caching *c, const struct caching_request *rq,
				 uint64_t bytes, uint32_t *block)
{
	struct caching_block *b = &c->blocks.at[*block];
	int was_split = !caching_whole(b), splits = should_split(c, b, bytes);
	enum plim_status st = splits ? split_caching(c, block, bytes) : PLIM_OK;

	if (st)
		return st;
	b = &c->blocks.at[*block];
	count_taken(c, b, was_split, splits);
	b->allocated = 1;
	b->requested_bytes = rq->bytes;
	b->request = rq->number;
	caching_tell(c, TRACE_ALLOC, b->addr, rq->bytes, b);
	count_up(c, ALLOCATOR_ALLOCATION, b->block_pool, 1);
	count_up(c, ALLOCATOR_ALLOCATED_BYTES, b->block_pool, b->bytes);
	count_up(c, ALLOCATOR_ACTIVE, b->block_pool, 1);
	count_up(c, ALLOCATOR_ACTIVE_BYTES, b->block_pool, b->bytes);
	count_up(c, ALLOCATOR_REQUESTED_BYTES, b->block_pool, rq->bytes);
	if (b->bytes >= c->rules.max_split_bytes)
		count_up(c, ALLOCATOR_OVERSIZE_ALLOCATIONS, b->block_pool, 1);
	return PLIM_OK;
}

enum plim_status caching_malloc(struct caching *c, const struct caching_request *rq,
				uint32_t *block)
{
	uint64_t bytes = allocator_round(&c->rules, rq->bytes);
	uint32_t block_pool = caching_block_pool(rq->pool, bytes);
	enum plim_status st = c->late == CACHING_NONE ? PLIM_OK : settle_caching(c);

	*block = CACHING_NONE;
	if (st)
		return st;
	c->is_dropped[rq->pool] = 0;
	*block = bytes < TOO_LARGE ? take_free(c, block_pool, rq->stream, bytes) : CACHING_NONE;
	if (*block == CACHING_NONE && bytes < TOO_LARGE)
		st = retry(c, block_pool, rq->stream, bytes, block);
	if (!st && *block != CACHING_NONE)
		return hand_out(c, rq, bytes, block);
	if (!st && !c->paused) {
		c->stats.ooms++;
		caching_tell(c, TRACE_OOM, 0, bytes,
			     &(struct caching_block){ .request = rq->number,
						      .block_pool = block_pool,
						      .stream = rq->stream });
	}
	return st;
}

/* ---- free ---- */

/* The program is done with it. */
static void drop_caching(struct caching *c, const struct caching_block *b)
{
	caching_tell(c, TRACE_FREE_REQUESTED, b->addr, b->requested_bytes, b);
	count_down(c, ALLOCATOR_ALLOCATION, b->block_pool, 1);
	count_down(c, ALLOCATOR_ALLOCATED_BYTES, b->block_pool, b->bytes);
	if (b->bytes >= c->rules.max_split_bytes)
		count_down(c, ALLOCATOR_OVERSIZE_ALLOCATIONS, b->block_pool, 1);
}

static void no_longer_pending(struct caching *c, struct caching_block *b)
{
	uint32_t last = c->pending.at[--c->pending.n];

	c->pending.at[b->pending_at - 1] = last;
	c->blocks.at[last].pending_at = b->pending_at;
	b->pending_at = 0;
}

/* It is free, joined with its free neighbours. */
static void release(struct caching *c, uint32_t block)
{
	struct caching_block *b = &c->blocks.at[block];
	uint64_t was = b->bytes, taken;
	int64_t blocks = 0, bytes = 0;
	uint32_t block_pool = b->block_pool;

	b->allocated = 0;
	for (int side = 0; side < 2; side++) {
		taken = caching_merge(c, block, side ? b->next : b->prev);
		blocks -= taken > 0;
		bytes -= (int64_t)taken;
	}
	if (!caching_whole(b)) {
		blocks += 1;
		bytes += (int64_t)b->bytes;
	}
	if (b->reservation == CACHING_NONE && (blocks || bytes)) {
		caching_count(c, ALLOCATOR_INACTIVE_SPLIT, block_pool, blocks);
		caching_count(c, ALLOCATOR_INACTIVE_SPLIT_BYTES, block_pool, bytes);
	}
	count_down(c, ALLOCATOR_ACTIVE, block_pool, 1);
	count_down(c, ALLOCATOR_ACTIVE_BYTES, block_pool, was);
	count_down(c, ALLOCATOR_REQUESTED_BYTES, block_pool, b->requested_bytes);
	caching_pool_insert(c, block);
}

void caching_free_requested(struct caching *c, uint32_t block)
{
	c->pending.at[c->pending.n++] = block;
	c->blocks.at[block].pending_at = (uint32_t)c->pending.n;
	drop_caching(c, &c->blocks.at[block]);
}

void caching_free_completed(struct caching *c, uint32_t block)
{
	struct caching_block *b = &c->blocks.at[block];

	caching_tell(c, TRACE_FREE_COMPLETED, b->addr, b->requested_bytes, b);
	no_longer_pending(c, b);
	release(c, block);
}

void caching_free(struct caching *c, uint32_t block)
{
	struct caching_block *b = &c->blocks.at[block];

	drop_caching(c, b);
	caching_tell(c, TRACE_FREE_COMPLETED, b->addr, b->requested_bytes, b);
	release(c, block);
}

/* ---- life ---- */

struct numbered {
	uint64_t value; /* pointers are compared, so one written as a negative number comes last */
	uint16_t number;
};

static int caching_by_value(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

static enum plim_status order_streams(struct caching *c)
{
	struct numbered *list = mem_new(c->mem, c->streams, sizeof(*list), &c->err);

	c->stream_order =
		list ? mem_new(c->mem, c->streams, sizeof(*c->stream_order), &c->err) : NULL;
	if (c->stream_order) {
		for (size_t i = 0; i < c->streams; i++)
			list[i] = (struct numbered){ (uint64_t)c->stream_values[i], (uint16_t)i };
		sort_items(list, c->streams, sizeof(*list), caching_by_value);
		for (size_t i = 0; i < c->streams; i++)
			c->stream_order[i] = list[i].number;
	}
	mem_free(c->mem, list, c->streams, sizeof(*list));
	return c->stream_order ? PLIM_OK : mem_status(&c->err);
}

enum plim_status caching_init(struct caching *c, struct mem *m, const struct caching_setup *setup,
			      struct plim_err *err)
{
	enum plim_status st;

	*c = (struct caching){ .mem = m,
			       .rules = setup->rules,
			       .driver = setup->driver,
			       .stream_values = setup->stream_values,
			       .streams = setup->streams,
			       .block_pools = 2 * setup->pools,
			       .limit_bytes = setup->limit_bytes,
			       .device_bytes = setup->device_bytes,
			       .late = CACHING_NONE,
			       .least_refused_bytes = UINT64_MAX };
	c->bins = mem_new(m, c->block_pools * c->streams, sizeof(*c->bins), &c->err);
	c->searches = c->bins ? mem_new(m, c->block_pools, sizeof(*c->searches), &c->err) : NULL;
	c->is_dropped = c->searches ? mem_new(m, setup->pools, 1, &c->err) : NULL;
	st = c->is_dropped ? order_streams(c) : mem_status(&c->err);
	caching_tell_error(c, st, err);
	return st;
}

enum plim_status caching_copy(struct caching *c, const struct caching *from)
{
	enum plim_status st = vec_copy(c->mem, &c->blocks, &from->blocks, &c->err);

	for (size_t i = 0; !st && i < c->block_pools * c->streams; i++) {
		st = freeset_copy(c->mem, &c->bins[i].free, &from->bins[i].free, &c->err);
		if (!st)
			st = freeset_copy(c->mem, &c->bins[i].unmapped, &from->bins[i].unmapped,
					  &c->err);
	}
	if (!st)
		st = vec_need(c->mem, &c->spare, from->blocks.n, &c->err);
	if (!st)
		st = vec_copy(c->mem, &c->spare, &from->spare, &c->err);
	if (!st)
		st = vec_copy(c->mem, &c->dropped, &from->dropped, &c->err);
	if (!st)
		st = vec_copy(c->mem, &c->reservations, &from->reservations, &c->err);
	if (!st)
		st = vec_copy(c->mem, &c->pending, &from->pending, &c->err);
	if (!st)
		st = vec_need(c->mem, &c->pending, from->blocks.n - from->pending.n, &c->err);
	c->late = from->late;
	memcpy(c->searches, from->searches, c->block_pools * sizeof(*c->searches));
	memcpy(c->is_dropped, from->is_dropped, c->block_pools / 2);
	c->stats = from->stats;
	c->limit_bytes = from->limit_bytes;
	c->most_allowed_bytes = from->most_allowed_bytes;
	c->least_refused_bytes = from->least_refused_bytes;
	c->pauses = c->paused = 0;
	return st;
}

void caching_tell_error(const struct caching *c, enum plim_status st, struct plim_err *err)
{
	if (st && err && c->err.status)
		*err = c->err;
}

void caching_release(struct caching *c)
{
	for (size_t i = 0; c->bins && i < c->block_pools * c->streams; i++) {
		freeset_release(c->mem, &c->bins[i].free);
		freeset_release(c->mem, &c->bins[i].unmapped);
	}
	mem_free(c->mem, c->bins, c->block_pools * c->streams, sizeof(*c->bins));
	mem_free(c->mem, c->searches, c->block_pools, sizeof(*c->searches));
	mem_free(c->mem, c->is_dropped, c->block_pools / 2, 1);
	mem_free(c->mem, c->stream_order, c->streams, sizeof(*c->stream_order));
	vec_release(c->mem, &c->dropped);
	vec_release(c->mem, &c->blocks);
	vec_release(c->mem, &c->spare);
	vec_release(c->mem, &c->reservations);
	vec_release(c->mem, &c->pending);
}
