/*
 * Expandable segments: address space is reserved once, and pages are mapped where a block needs
 * them.  An unmapped part is a block too, so that neighbours are found in the same way.
 */
#include "caching.h"

static uint64_t floor_to(uint64_t n, uint64_t grain)
{
	return n - n % grain;
}

static uint64_t ceil_to(uint64_t n, uint64_t grain)
{
	return floor_to(n + grain - 1, grain);
}

static int is_free(const struct caching *c, uint32_t block)
{
	return block != CACHING_NONE && !c->blocks.at[block].allocated;
}

/* Is there room for `bytes` in the row of free and unmapped blocks that begins here? */
static int has_room(const struct caching *c, uint32_t block, uint64_t bytes)
{
	uint64_t room = 0;

	for (; room < bytes && is_free(c, block); block = c->blocks.at[block].next)
		room += c->blocks.at[block].bytes;
	return room >= bytes;
}

/* A new reservation is an eighth larger than the device: it can hold all of it despite holes. */
static enum plim_status reserve_expandable(struct caching *c, uint32_t block_pool, uint16_t stream,
					   uint32_t *block)
{
	uint64_t page = block_pool & 1 ? c->rules.large_segment_bytes : ALLOCATOR_SMALL_SEGMENT;
	struct caching_reservation r = {
		.bytes = ceil_to(c->device_bytes + c->device_bytes / 8, page), .page_bytes = page
	};
	struct caching_block b = { .bytes = r.bytes,
				   .prev = CACHING_NONE,
				   .next = CACHING_NONE,
				   .reservation = (uint32_t)c->reservations.n,
				   .block_pool = block_pool,
				   .stream = stream,
				   .unmapped = 1 };
	enum plim_status st;

	r.addr = b.addr = c->driver.reserve(c->driver.self, r.bytes);
	st = vec_push(c->mem, &c->reservations, r, &c->err);
	if (st)
		return st;
	*block = caching_block_new(c, &b);
	if (*block == CACHING_NONE)
		return mem_status(&c->err);
	caching_pool_insert(c, *block);
	return PLIM_OK;
}

/* The first block of a row that can hold `bytes`: by address, from a free block in front of a hole. */
static enum plim_status find_expandable(struct caching *c, uint32_t block_pool, uint16_t stream,
					uint64_t bytes, uint32_t *block)
{
	const struct freeset *o = &c->bins[block_pool * c->streams + stream].unmapped;
	struct freeset_cursor at = freeset_seek(o, 0, 0);

	for (const struct freeset_key *k; (k = freeset_get(o, at)); freeset_next(o, &at)) {
		uint32_t prev = c->blocks.at[k->block].prev;

		*block = is_free(c, prev) ? prev : k->block;
		if (has_room(c, *block, bytes))
			return PLIM_OK;
	}
	return reserve_expandable(c, block_pool, stream, block);
}

/* Map the front of an unmapped block, whole pages; it joins free neighbours.  *done 0: no memory. */
static enum plim_status map_expandable(struct caching *c, uint32_t block, uint64_t bytes, int *done)
{
	struct caching_block *b = &c->blocks.at[block];
	const struct caching_reservation *r = &c->reservations.at[b->reservation];
	uint64_t mapped = ceil_to(b->addr + bytes - r->addr, r->page_bytes) + r->addr - b->addr;
	uint64_t addr = b->addr;

	*done = c->driver.map(c->driver.self, addr, mapped);
	if (!*done)
		return PLIM_OK;
	caching_pool_remove(c, block);
	if (mapped < b->bytes) {
		struct caching_block rest = *b;
		uint32_t behind;

		rest.addr += mapped;
		rest.bytes -= mapped;
		rest.prev = block;
		behind = caching_block_new(c, &rest);
		if (behind == CACHING_NONE)
			return mem_status(&c->err);
		b = &c->blocks.at[block];
		if (b->next != CACHING_NONE)
			c->blocks.at[b->next].prev = behind;
		b->next = behind;
		b->bytes = mapped;
		caching_pool_insert(c, behind);
	}
	b->unmapped = 0;
	caching_merge(c, block, b->prev);
	caching_merge(c, block, b->next);
	caching_pool_insert(c, block);
	caching_count(c, ALLOCATOR_RESERVED_BYTES, b->block_pool, (int64_t)mapped);
	c->stats.device_allocs++;
	caching_tell(c, TRACE_SEGMENT_MAP, addr, mapped, b);
	return PLIM_OK;
}

/* *block: free, mapped, at least `bytes` and out of its pool; CACHING_NONE: no memory. */
enum plim_status caching_expand(struct caching *c, uint32_t block_pool, uint16_t stream,
				uint64_t bytes, uint32_t *block)
{
	uint32_t at = CACHING_NONE;
	int done = 1;
	enum plim_status st = find_expandable(c, block_pool, stream, bytes, &at);

	*block = CACHING_NONE;
	if (st || !has_room(c, at, bytes)) /* more than the whole GPU */
		return st;
	if (c->blocks.at[at].unmapped) {
		uint64_t room = c->blocks.at[at].bytes;

		st = map_expandable(c, at, bytes < room ? bytes : room, &done);
	}
	while (!st && done && c->blocks.at[at].bytes < bytes) {
		uint64_t rest = bytes - c->blocks.at[at].bytes, room;

		at = c->blocks.at[at].next;
		room = c->blocks.at[at].bytes;
		st = map_expandable(c, at, rest < room ? rest : room, &done);
	}
	if (st || !done)
		return st;
	caching_pool_remove(c, at);
	*block = at;
	return PLIM_OK;
}

/* A piece of a free block that keeps its pages because its page is shared with a neighbour. */
static enum plim_status keep_expandable(struct caching *c, uint32_t block, uint64_t addr,
					uint64_t bytes, int before)
{
	struct caching_block piece = c->blocks.at[block], *b;
	uint32_t made;

	piece.addr = addr;
	piece.bytes = bytes;
	if (before)
		piece.next = block;
	else
		piece.prev = block;
	made = caching_block_new(c, &piece);
	if (made == CACHING_NONE)
		return mem_status(&c->err);
	b = &c->blocks.at[block];
	if (before) {
		if (b->prev != CACHING_NONE)
			c->blocks.at[b->prev].next = made;
		b->prev = made;
	} else {
		if (b->next != CACHING_NONE)
			c->blocks.at[b->next].prev = made;
		b->next = made;
	}
	caching_pool_insert(c, made);
	return PLIM_OK;
}

/* Give back the whole pages of a free block. */
enum plim_status caching_unmap(struct caching *c, uint32_t block)
{
	struct caching_block *b = &c->blocks.at[block];
	const struct caching_reservation r = c->reservations.at[b->reservation];
	uint64_t end = b->addr + b->bytes;
	uint64_t low = r.addr + ceil_to(b->addr - r.addr, r.page_bytes);
	uint64_t high = r.addr + floor_to(end - r.addr, r.page_bytes);
	enum plim_status st = PLIM_OK;

	if (low >= high)
		return PLIM_OK;
	caching_pool_remove(c, block);
	if (low > b->addr)
		st = keep_expandable(c, block, b->addr, low - b->addr, 1);
	if (!st && end > high)
		st = keep_expandable(c, block, high, end - high, 0);
	if (st)
		return st;
	c->driver.unmap(c->driver.self, low, high - low);
	b = &c->blocks.at[block];
	b->addr = low;
	b->bytes = high - low;
	b->unmapped = 1;
	caching_merge(c, block, b->prev);
	caching_merge(c, block, b->next);
	caching_count(c, ALLOCATOR_RESERVED_BYTES, b->block_pool, -(int64_t)(high - low));
	c->stats.device_frees++;
	caching_tell(c, TRACE_SEGMENT_UNMAP, low, high - low, b);
	if (!caching_whole(b)) {
		caching_pool_insert(c, block);
		return PLIM_OK;
	}
	c->driver.unreserve(c->driver.self, r.addr, r.bytes);
	caching_drop(c, block);
	return PLIM_OK;
}
