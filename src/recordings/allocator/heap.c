#include "heap.h"

#include <string.h>

void heap_init(struct heap *h, struct mem *m)
{
	*h = (struct heap){ .mem = m, .index = { .mem = m } };
}

void heap_release(struct heap *h)
{
	vec_release(h->mem, &h->blocks);
	vec_release(h->mem, &h->ranges);
	vec_release(h->mem, &h->order);
	vec_release(h->mem, &h->spare);
	addr_map_release(&h->index);
}

/* ---- blocks by address ---- */

uint32_t heap_find(const struct heap *h, uint64_t addr)
{
	const struct addr_slot *slot = h->index.at ? addr_map_find(&h->index, addr) : NULL;

	return slot && slot->value ? slot->value - 1 : HEAP_NONE;
}

static void unindex(struct heap *h, uint32_t block)
{
	addr_map_remove(&h->index, addr_map_find(&h->index, h->blocks.at[block].addr));
}

/* Room for one more block, so that block_new and giving it back cannot fail. */
static inline enum plim_status block_room(struct heap *h, struct plim_err *err)
{
	enum plim_status st = addr_map_room(&h->index, err);

	if (!st && !h->spare.n)
		st = vec_need(h->mem, &h->spare, h->blocks.n + 1, err);
	if (!st && !h->spare.n)
		st = vec_need(h->mem, &h->blocks, 1, err);
	return st;
}

static inline uint32_t block_new(struct heap *h, uint64_t addr)
{
	uint32_t block = h->spare.n ? h->spare.at[--h->spare.n] : (uint32_t)h->blocks.n++;

	addr_map_put(&h->index, addr_map_find(&h->index, addr), addr, block + 1);
	return block;
}

/* Unlink a block; its neighbours become each other's. */
static void block_drop(struct heap *h, uint32_t block)
{
	struct heap_block *b = &h->blocks.at[block];
	struct heap_range *r = &h->ranges.at[b->range];

	unindex(h, block);
	if (b->prev != HEAP_NONE)
		h->blocks.at[b->prev].next = b->next;
	else
		r->first = b->next;
	if (b->next != HEAP_NONE)
		h->blocks.at[b->next].prev = b->prev;
	else
		r->last = b->prev;
	h->spare.at[h->spare.n++] = block;
}

enum plim_status heap_split(struct heap *h, uint32_t block, uint64_t bytes, struct plim_err *err)
{
	enum plim_status st = block_room(h, err);
	struct heap_block *b;
	uint32_t behind;

	if (st)
		return st;
	b = &h->blocks.at[block];
	behind = block_new(h, b->addr + bytes);
	h->blocks.at[behind] = (struct heap_block){ .addr = b->addr + bytes,
						    .bytes = b->bytes - bytes,
						    .prev = block,
						    .next = b->next,
						    .range = b->range,
						    .alloc = HEAP_NONE };
	b->bytes = bytes;
	if (b->next != HEAP_NONE)
		h->blocks.at[b->next].prev = behind;
	else
		h->ranges.at[b->range].last = behind;
	b->next = behind;
	return PLIM_OK;
}

uint32_t heap_free(struct heap *h, uint32_t block)
{
	struct heap_block *b = &h->blocks.at[block];
	uint32_t prev = b->prev, next = b->next;

	b->alloc = HEAP_NONE;
	b->loose = 0;
	if (next != HEAP_NONE && h->blocks.at[next].alloc == HEAP_NONE) {
		b->bytes += h->blocks.at[next].bytes;
		block_drop(h, next);
	}
	if (prev != HEAP_NONE && h->blocks.at[prev].alloc == HEAP_NONE) {
		h->blocks.at[prev].bytes += b->bytes;
		block_drop(h, block);
		return prev;
	}
	return block;
}

void heap_move_border(struct heap *h, uint32_t block, uint64_t bytes)
{
	struct heap_block *b = &h->blocks.at[block];
	uint32_t next = b->next;
	uint64_t more = bytes - b->bytes, addr;

	unindex(h, next);
	h->blocks.at[next].addr += more;
	h->blocks.at[next].bytes -= more;
	addr = h->blocks.at[next].addr;
	addr_map_put(&h->index, addr_map_find(&h->index, addr), addr, next + 1);
	b->bytes = bytes;
}

/* ---- ranges ---- */

size_t heap_range_at(const struct heap *h, uint64_t addr)
{
	size_t low = 0, high = h->order.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct heap_range *r = &h->ranges.at[h->order.at[mid]];

		if (r->addr + r->bytes <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int can_join(const struct heap_range *a, const struct heap_range *b)
{
	return a->expandable && b->expandable && a->stream == b->stream && a->large == b->large &&
	       a->addr + a->bytes == b->addr;
}

static void freeset_remove(struct heap *h, size_t at)
{
	memmove(h->order.at + at, h->order.at + at + 1,
		(h->order.n - at - 1) * sizeof(*h->order.at));
	h->order.n--;
}

/* The range at `at` takes over the one behind it; the block that holds the border now. */
static uint32_t join_next(struct heap *h, size_t at)
{
	uint32_t left = h->order.at[at], right = h->order.at[at + 1];
	struct heap_range *l = &h->ranges.at[left], *r = &h->ranges.at[right];
	uint32_t border = r->first;

	for (uint32_t b = r->first; b != HEAP_NONE; b = h->blocks.at[b].next)
		h->blocks.at[b].range = left;
	h->blocks.at[l->last].next = border;
	h->blocks.at[border].prev = l->last;
	l->last = r->last;
	l->bytes += r->bytes;
	freeset_remove(h, at + 1);
	if (h->blocks.at[border].alloc == HEAP_NONE)
		return heap_free(h, border);
	if (h->blocks.at[h->blocks.at[border].prev].alloc == HEAP_NONE)
		heap_free(h, h->blocks.at[border].prev);
	return border;
}

static enum plim_status range_insert(struct heap *h, const struct heap_range *range, size_t at,
				     struct plim_err *err)
{
	struct heap_range r = *range;
	enum plim_status st = vec_need(h->mem, &h->order, 1, err);

	if (!st)
		st = vec_need(h->mem, &h->ranges, 1, err);
	if (!st)
		st = block_room(h, err);
	if (st)
		return st;
	r.first = r.last = block_new(h, range->addr);
	h->blocks.at[r.first] = (struct heap_block){ .addr = range->addr,
						     .bytes = range->bytes,
						     .prev = HEAP_NONE,
						     .next = HEAP_NONE,
						     .range = (uint32_t)h->ranges.n,
						     .alloc = HEAP_NONE };
	memmove(h->order.at + at + 1, h->order.at + at, (h->order.n - at) * sizeof(*h->order.at));
	h->order.at[at] = (uint32_t)h->ranges.n;
	h->order.n++;
	h->ranges.at[h->ranges.n++] = r;
	return PLIM_OK;
}

/* Files may claim ranges that are empty, wrap around or overlap. */
static int has_room(const struct heap *h, const struct heap_range *range, size_t at)
{
	uint64_t end = range->addr + range->bytes;

	return end > range->addr && (at == h->order.n || h->ranges.at[h->order.at[at]].addr >= end);
}

enum plim_status heap_add(struct heap *h, const struct heap_range *range, uint32_t *block,
			  struct plim_err *err)
{
	size_t at = heap_range_at(h, range->addr);
	enum plim_status st;

	*block = HEAP_NONE;
	if (!has_room(h, range, at))
		return PLIM_OK;
	st = range_insert(h, range, at, err);
	if (st)
		return st;
	*block = heap_find(h, range->addr);
	if (at + 1 < h->order.n &&
	    can_join(&h->ranges.at[h->order.at[at]], &h->ranges.at[h->order.at[at + 1]]))
		join_next(h, at);
	if (at > 0 && can_join(&h->ranges.at[h->order.at[at - 1]], &h->ranges.at[h->order.at[at]]))
		*block = join_next(h, at - 1);
	return PLIM_OK;
}

/* What is behind `block` becomes a range of its own. */
static enum plim_status split_range(struct heap *h, size_t at, uint32_t block, struct plim_err *err)
{
	struct heap_range *left = &h->ranges.at[h->order.at[at]], right = *left;
	uint32_t first = h->blocks.at[block].next, number = (uint32_t)h->ranges.n;
	enum plim_status st = vec_need(h->mem, &h->order, 1, err);

	right.addr = h->blocks.at[first].addr;
	right.bytes = left->addr + left->bytes - right.addr;
	right.first = first;
	left->bytes -= right.bytes;
	left->last = block;
	h->blocks.at[block].next = HEAP_NONE;
	h->blocks.at[first].prev = HEAP_NONE;
	for (uint32_t b = first; b != HEAP_NONE; b = h->blocks.at[b].next)
		h->blocks.at[b].range = number;
	if (!st)
		st = vec_push(h->mem, &h->ranges, right, err);
	if (st)
		return st;
	memmove(h->order.at + at + 2, h->order.at + at + 1,
		(h->order.n - at - 1) * sizeof(*h->order.at));
	h->order.at[at + 1] = number;
	h->order.n++;
	return PLIM_OK;
}

enum plim_status heap_remove(struct heap *h, uint64_t addr, uint64_t bytes, int *done,
			     struct plim_err *err)
{
	size_t at = heap_range_at(h, addr);
	struct heap_range *r = at < h->order.n ? &h->ranges.at[h->order.at[at]] : NULL;
	uint32_t block = HEAP_NONE;
	struct heap_block *b;
	enum plim_status st = PLIM_OK;

	*done = 0;
	if (!r || r->addr > addr || addr + bytes <= addr)
		return PLIM_OK;
	for (block = r->first; block != HEAP_NONE; block = h->blocks.at[block].next)
		if (h->blocks.at[block].addr + h->blocks.at[block].bytes > addr)
			break;
	b = block == HEAP_NONE ? NULL : &h->blocks.at[block];
	if (!b || b->alloc != HEAP_NONE || b->addr + b->bytes < addr + bytes || b->addr > addr)
		return PLIM_OK;
	if (b->addr < addr) {
		st = heap_split(h, block, addr - b->addr, err);
		block = st ? block : h->blocks.at[block].next;
	}
	if (!st && h->blocks.at[block].bytes > bytes)
		st = heap_split(h, block, bytes, err);
	if (!st && h->blocks.at[block].next != HEAP_NONE)
		st = split_range(h, at, block, err);
	if (st)
		return st;
	r = &h->ranges.at[h->order.at[at]];
	r->bytes -= bytes;
	block_drop(h, block);
	if (r->first == HEAP_NONE)
		freeset_remove(h, at);
	*done = 1;
	return PLIM_OK;
}
