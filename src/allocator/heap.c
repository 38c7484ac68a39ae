#include "heap.h"

#include <string.h>

void heap_init(struct heap *h, struct mem *m)
{
	*h = (struct heap){
		.mem = m, .index = { .mem = m }, .lowest = HEAP_NONE, .root = HEAP_NONE
	};
}

void heap_release(struct heap *h)
{
	vec_release(h->mem, &h->blocks);
	vec_release(h->mem, &h->ranges);
	vec_release(h->mem, &h->spare);
	vec_release(h->mem, &h->spare_ranges);
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

/* ---- ranges: a treap by address, whose priorities are scrambled numbers, and a list ---- */

static uint32_t priority(uint32_t range)
{
	uint32_t x = range * 0x9e3779b9u;

	x = (x ^ x >> 16) * 0x85ebca6bu;
	return x ^ x >> 13;
}

/* Ranges of damaged recordings may begin at one address. */
static int lies_below(const struct heap *h, uint32_t a, uint32_t b)
{
	const struct heap_range *x = &h->ranges.at[a], *y = &h->ranges.at[b];

	return x->addr != y->addr ? x->addr < y->addr : a < b;
}

uint32_t heap_range_at(const struct heap *h, uint64_t addr)
{
	uint32_t found = HEAP_NONE, at = h->root;

	while (at != HEAP_NONE) {
		const struct heap_range *r = &h->ranges.at[at];

		if (r->addr + r->bytes > addr)
			found = at;
		at = found == at ? r->left : r->right;
	}
	return found;
}

static void list_insert(struct heap *h, uint32_t range, uint32_t below, uint32_t above)
{
	struct heap_range *r = &h->ranges.at[range];

	r->below = below;
	r->above = above;
	if (below != HEAP_NONE)
		h->ranges.at[below].above = range;
	else
		h->lowest = range;
	if (above != HEAP_NONE)
		h->ranges.at[above].below = range;
}

static void tree_insert(struct heap *h, uint32_t range)
{
	struct heap_range *ranges = h->ranges.at, *r = &ranges[range];
	uint32_t *link = &h->root, *left = &r->left, *right = &r->right;
	uint32_t below = HEAP_NONE, above = HEAP_NONE, at;

	while (*link != HEAP_NONE && priority(*link) >= priority(range)) {
		int is_above = lies_below(h, *link, range);

		*(is_above ? &below : &above) = *link;
		link = is_above ? &ranges[*link].right : &ranges[*link].left;
	}
	/* what it displaces is split along the way to its place */
	at = *link;
	*link = range;
	while (at != HEAP_NONE)
		if (lies_below(h, at, range)) {
			below = *left = at;
			left = &ranges[at].right;
			at = *left;
		} else {
			above = *right = at;
			right = &ranges[at].left;
			at = *right;
		}
	*left = *right = HEAP_NONE;
	list_insert(h, range, below, above);
}

static void tree_remove(struct heap *h, uint32_t range)
{
	struct heap_range *ranges = h->ranges.at, *r = &ranges[range];
	uint32_t *link = &h->root, left = r->left, right = r->right;

	while (*link != range)
		link = lies_below(h, *link, range) ? &ranges[*link].right : &ranges[*link].left;
	while (left != HEAP_NONE && right != HEAP_NONE)
		if (priority(left) > priority(right)) {
			*link = left;
			link = &ranges[left].right;
			left = *link;
		} else {
			*link = right;
			link = &ranges[right].left;
			right = *link;
		}
	*link = left != HEAP_NONE ? left : right;
	if (r->below != HEAP_NONE)
		ranges[r->below].above = r->above;
	else
		h->lowest = r->above;
	if (r->above != HEAP_NONE)
		ranges[r->above].below = r->below;
	h->spare_ranges.at[h->spare_ranges.n++] = range;
}

/* Room for one more range, and for giving it back. */
static enum plim_status range_room(struct heap *h, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (h->spare_ranges.n)
		return st;
	st = vec_need(h->mem, &h->ranges, 1, err);
	if (!st)
		st = vec_need(h->mem, &h->spare_ranges, h->ranges.n + 1, err);
	return st;
}

static uint32_t range_new(struct heap *h, const struct heap_range *r)
{
	uint32_t range = h->spare_ranges.n ? h->spare_ranges.at[--h->spare_ranges.n]
					   : (uint32_t)h->ranges.n++;

	h->ranges.at[range] = *r;
	tree_insert(h, range);
	return range;
}

/* Blocks from `from` on, in one direction, are of `range`. */
static void rename_blocks(struct heap *h, uint32_t from, int upwards, uint32_t range)
{
	for (uint32_t b = from; b != HEAP_NONE;
	     b = upwards ? h->blocks.at[b].next : h->blocks.at[b].prev)
		h->blocks.at[b].range = range;
}

static int can_join(const struct heap_range *a, const struct heap_range *b)
{
	return a->expandable && b->expandable && a->stream == b->stream && a->large == b->large &&
	       a->addr + a->bytes == b->addr;
}

/* Two ranges that touch become one: that which has more blocks takes over a range of one block. */
static void join(struct heap *h, uint32_t left, uint32_t right)
{
	struct heap_range *l = &h->ranges.at[left], *r = &h->ranges.at[right];
	uint32_t front = l->last, border = r->first;

	if (l->first == l->last) {
		rename_blocks(h, front, 0, right);
		tree_remove(h, left);
		r->addr = l->addr;
		r->bytes += l->bytes;
		r->first = l->first;
	} else {
		rename_blocks(h, border, 1, left);
		tree_remove(h, right);
		l->bytes += r->bytes;
		l->last = r->last;
	}
	h->blocks.at[front].next = border;
	h->blocks.at[border].prev = front;
	if (h->blocks.at[border].alloc == HEAP_NONE)
		heap_free(h, border);
	else if (h->blocks.at[front].alloc == HEAP_NONE)
		heap_free(h, front);
}

static enum plim_status range_insert(struct heap *h, const struct heap_range *range,
				     uint32_t *number, struct plim_err *err)
{
	struct heap_range r = *range;
	enum plim_status st = range_room(h, err);

	if (!st)
		st = block_room(h, err);
	if (st)
		return st;
	r.first = r.last = block_new(h, range->addr);
	*number = range_new(h, &r);
	h->blocks.at[r.first] = (struct heap_block){ .addr = range->addr,
						     .bytes = range->bytes,
						     .prev = HEAP_NONE,
						     .next = HEAP_NONE,
						     .range = *number,
						     .alloc = HEAP_NONE };
	return PLIM_OK;
}

enum plim_status heap_add(struct heap *h, const struct heap_range *range, uint32_t *block,
			  struct plim_err *err)
{
	uint32_t at, below, above;
	enum plim_status st = range_insert(h, range, &at, err);

	*block = HEAP_NONE;
	if (st)
		return st;
	below = h->ranges.at[at].below;
	above = h->ranges.at[at].above;
	if (above != HEAP_NONE && can_join(&h->ranges.at[at], &h->ranges.at[above])) {
		join(h, at, above);
		at = above;
	}
	if (below != HEAP_NONE && can_join(&h->ranges.at[below], &h->ranges.at[at]))
		join(h, below, at);
	*block = heap_find(h, range->addr);
	return PLIM_OK;
}

/* What is behind `block` becomes a range of its own. */
static enum plim_status split_range(struct heap *h, uint32_t range, uint32_t block,
				    struct plim_err *err)
{
	enum plim_status st = range_room(h, err);
	uint32_t first = h->blocks.at[block].next;
	struct heap_range *left, right;

	if (st)
		return st;
	left = &h->ranges.at[range];
	right = *left;
	right.addr = h->blocks.at[first].addr;
	right.bytes = left->addr + left->bytes - right.addr;
	right.first = first;
	left->bytes -= right.bytes;
	left->last = block;
	h->blocks.at[block].next = HEAP_NONE;
	h->blocks.at[first].prev = HEAP_NONE;
	rename_blocks(h, first, 1, range_new(h, &right));
	return PLIM_OK;
}

/* The block of a range that holds addr, or HEAP_NONE. */
static uint32_t block_around(const struct heap *h, const struct heap_range *r, uint64_t addr)
{
	uint32_t block = heap_find(h, addr);

	if (block != HEAP_NONE)
		return block;
	for (block = r->first; block != HEAP_NONE; block = h->blocks.at[block].next)
		if (h->blocks.at[block].addr + h->blocks.at[block].bytes > addr)
			break;
	return block;
}

enum plim_status heap_remove(struct heap *h, uint64_t addr, uint64_t bytes, int *done,
			     struct plim_err *err)
{
	uint32_t at = heap_range_at(h, addr), block;
	struct heap_range *r = at != HEAP_NONE ? &h->ranges.at[at] : NULL;
	struct heap_block *b;
	enum plim_status st = PLIM_OK;

	*done = 0;
	if (!r || r->addr > addr)
		return PLIM_OK;
	block = block_around(h, r, addr);
	b = block == HEAP_NONE ? NULL : &h->blocks.at[block];
	if (!b || b->range != at || b->alloc != HEAP_NONE || b->addr + b->bytes < addr + bytes ||
	    b->addr > addr)
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
	r = &h->ranges.at[at];
	r->bytes -= bytes;
	block_drop(h, block);
	if (r->first == HEAP_NONE)
		tree_remove(h, at);
	*done = 1;
	return PLIM_OK;
}
