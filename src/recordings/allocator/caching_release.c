/* What the allocator gives back to the driver, and when. */
#include "caching.h"

static void segment_free(struct caching *c, uint32_t block)
{
	struct caching_block *b = &c->blocks.at[block];

	caching_pool_remove(c, block);
	c->driver.segment_free(c->driver.self, b->addr, b->bytes);
	caching_count(c, ALLOCATOR_SEGMENT, b->block_pool, -1);
	caching_count(c, ALLOCATOR_RESERVED_BYTES, b->block_pool, -(int64_t)b->bytes);
	if (b->bytes >= c->rules.max_split_bytes)
		caching_count(c, ALLOCATOR_OVERSIZE_SEGMENTS, b->block_pool, -1);
	c->stats.device_frees++;
	caching_tell(c, TRACE_SEGMENT_FREE, b->addr, b->bytes, b);
	caching_drop(c, block);
}

/* A segment that is one free block. */
static int can_free(const struct caching_block *b)
{
	return b->reservation == CACHING_NONE && caching_whole(b);
}

/* ---- garbage collection: above a threshold, free segments that were not used for long ---- */

struct ages {
	uint64_t sum, count;
};

static uint64_t age(const struct caching *c, const struct caching_block *b)
{
	return c->searches[b->block_pool] - b->searches;
}

/* One pass over the large default pool: everything of at least the mean age. */
static uint64_t collect_release(struct caching *c, struct ages *left)
{
	double threshold = (double)left->sum / (double)left->count;
	uint64_t freed = 0;

	for (size_t i = 0; i < c->streams; i++) {
		const struct freeset *o = &c->bins[1 * c->streams + c->stream_order[i]].free;
		struct freeset_cursor at = freeset_seek(o, 0, 0);

		for (const struct freeset_key *k; (k = freeset_get(o, at));) {
			struct freeset_key here = *k;
			const struct caching_block *b = &c->blocks.at[k->block];

			if (!can_free(b) || (double)age(c, b) < threshold) {
				freeset_next(o, &at);
				continue;
			}
			left->sum -= age(c, b);
			left->count--;
			freed += b->bytes;
			segment_free(c, k->block);
			at = freeset_seek(o, here.bytes, here.addr);
		}
	}
	return freed;
}

void caching_garbage_collect(struct caching *c)
{
	uint64_t reserved = c->stats.count[ALLOCATOR_RESERVED_BYTES][0].current;
	uint64_t threshold = (uint64_t)(c->rules.gc_threshold * (double)c->limit_bytes);
	uint64_t target, freed = 0, now;
	struct ages left = { 0 };

	if (reserved <= threshold)
		return;
	target = reserved - threshold;
	for (size_t i = 0; i < c->streams; i++) {
		const struct freeset *o = &c->bins[1 * c->streams + c->stream_order[i]].free;
		struct freeset_cursor at = freeset_seek(o, 0, 0);

		for (const struct freeset_key *k; (k = freeset_get(o, at)); freeset_next(o, &at)) {
			if (!caching_whole(&c->blocks.at[k->block]))
				continue;
			left.sum += age(c, &c->blocks.at[k->block]);
			left.count++;
		}
	}
	while (freed < target && left.count) {
		now = collect_release(c, &left);
		freed += now;
		if (!now)
			break;
	}
}

/* ---- oversize blocks ---- */

/* Free blocks of max_split and more are whole segments, unless that was set lower while the job ran. */
int caching_release_available(struct caching *c, uint32_t block_pool, uint16_t stream,
			      uint64_t bytes)
{
	const struct freeset *o = &c->bins[block_pool * c->streams + stream].free;
	uint64_t key = bytes > c->rules.max_split_bytes ? bytes : c->rules.max_split_bytes;
	struct freeset_cursor at = freeset_seek(o, key, 0);
	const struct freeset_key *k = freeset_get(o, at);
	uint64_t freed = 0;

	if (c->rules.max_split_bytes == UINT64_MAX)
		return 0;
	if (k && can_free(&c->blocks.at[k->block])) {
		segment_free(c, k->block);
		return 1;
	}
	while (freed < key && freeset_prev(o, &at)) {
		struct freeset_key here = *freeset_get(o, at);

		if (here.bytes < c->rules.max_split_bytes)
			break;
		if (!can_free(&c->blocks.at[here.block]))
			continue;
		segment_free(c, here.block);
		freed += here.bytes;
		at = freeset_seek(o, here.bytes, here.addr);
	}
	return freed >= key;
}

/* ---- everything ---- */

static enum plim_status release_bin(struct caching *c, struct caching_bin *bin)
{
	VEC(uint32_t) expandable = { 0 };
	struct freeset_cursor at = freeset_seek(&bin->free, 0, 0);
	enum plim_status st = PLIM_OK;

	for (const struct freeset_key *k; !st && (k = freeset_get(&bin->free, at));) {
		struct freeset_key here = *k;

		if (can_free(&c->blocks.at[k->block])) {
			segment_free(c, k->block);
			at = freeset_seek(&bin->free, here.bytes, here.addr);
			continue;
		}
		if (c->blocks.at[k->block].reservation != CACHING_NONE)
			st = vec_push(c->mem, &expandable, k->block, &c->err);
		freeset_next(&bin->free, &at);
	}
	for (size_t i = 0; !st && i < expandable.n; i++)
		st = caching_unmap(c, expandable.at[i]);
	vec_release(c->mem, &expandable);
	return st;
}

static enum plim_status release_block_pool(struct caching *c, uint32_t block_pool)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < c->streams; i++)
		st = release_bin(c, &c->bins[block_pool * c->streams + c->stream_order[i]]);
	return st;
}

enum plim_status caching_drop_pool(struct caching *c, uint16_t pool)
{
	if (!pool || c->is_dropped[pool])
		return PLIM_OK;
	c->is_dropped[pool] = 1;
	return vec_push(c->mem, &c->dropped, pool, &c->err);
}

void caching_hold_pools(struct caching *c)
{
	while (c->dropped.n)
		c->is_dropped[c->dropped.at[--c->dropped.n]] = 0;
}

/* The default pool's large blocks come first; a private pool's last. */
enum plim_status caching_empty_cache(struct caching *c)
{
	size_t kept = 0;
	enum plim_status st;

	while (c->pending.n) /* the device is waited for */
		caching_free_completed(c, c->pending.at[c->pending.n - 1]);
	st = caching_status(c);
	for (uint32_t block_pool = 2; !st && block_pool-- > 0;)
		st = release_block_pool(c, block_pool);
	for (size_t i = 0; !st && i < c->dropped.n; i++) {
		uint16_t pool = c->dropped.at[i];

		if (c->is_dropped[pool] != 1)
			continue; /* it is in use again, or was dropped twice */
		c->is_dropped[pool] = 2;
		c->dropped.at[kept++] = pool;
		st = release_block_pool(c, pool * 2u);
		if (!st)
			st = release_block_pool(c, pool * 2u + 1);
	}
	if (!st)
		c->dropped.n = kept;
	for (size_t i = 0; i < kept; i++)
		c->is_dropped[c->dropped.at[i]] = 1;
	return st;
}
