/*
 * What must hold between two operations: of the set of free blocks (freeset.h), of the blocks of a recording
 * (heap.h) and of the model of PyTorch's allocator (caching.h).  Each function is NULL, or what is broken.
 */
#include "caching.h"
#include "heap.h"

/* ---- the ordered set ---- */

static int is_behind(const struct freeset_key *a, const struct freeset_key *b)
{
	return a->bytes != b->bytes ? a->bytes < b->bytes : a->addr < b->addr;
}

static const char *check_shelf(const struct freeset_shelf *s)
{
	size_t n = 0;

	for (size_t i = 0; s->n > 1 && i < s->parts.n; i++) {
		const struct freeset_chunk *c = s->parts.at[i].chunk;

		if (!c->n || c->n > FREESET_CHUNK)
			return "a chunk of an ordered set is empty or too full";
		if (c->at[0].bytes != s->parts.at[i].first.bytes ||
		    c->at[0].addr != s->parts.at[i].first.addr)
			return "a part does not begin with its chunk's first key";
		n += c->n;
	}
	return s->n > 1 && n != s->n ? "a shelf holds another number of keys than it says" : NULL;
}

const char *freeset_check(const struct freeset *o)
{
	const struct freeset_key *before = NULL, *k;
	size_t said = 0, found = 0;

	for (uint32_t i = 0; o->shelves && i < FREESET_SHELVES; i++) {
		const char *broken = check_shelf(&o->shelves[i]);

		if (broken)
			return broken;
		if (!o->shelves[i].n != !(o->filled[i / 64] >> i % 64 & 1))
			return "the map of shelves does not say which hold something";
		said += o->shelves[i].n;
	}
	for (struct freeset_cursor c = freeset_seek(o, 0, 0); (k = freeset_get(o, c)) != NULL;
	     freeset_next(o, &c), found++) {
		if (before && !is_behind(before, k))
			return "keys of an ordered set are not in order";
		before = k;
	}
	return found == said ? NULL : "a walk over an ordered set meets another number of keys";
}

/* ---- blocks of a recording ---- */

static const char *check_range(const struct heap *h, uint32_t range)
{
	const struct heap_range *r = &h->ranges.at[range];
	uint32_t before = HEAP_NONE;
	uint64_t at = r->addr;

	for (uint32_t i = r->first; i != HEAP_NONE; i = h->blocks.at[i].next) {
		const struct heap_block *b = &h->blocks.at[i];

		if (b->addr != at || !b->bytes || b->bytes > r->addr + r->bytes - at)
			return "blocks do not tile their range";
		if (b->prev != before || b->range != range)
			return "a block does not know its neighbour or its range";
		if (heap_find(h, b->addr) != i)
			return "a block is not found by its address";
		at += b->bytes;
		before = i;
	}
	return at != r->addr + r->bytes || r->last != before ? "blocks do not fill their range"
							     : NULL;
}

const char *heap_check(const struct heap *h)
{
	const char *broken = NULL;
	uint64_t end = 0;

	for (size_t i = 0; !broken && i < h->order.n; i++) {
		const struct heap_range *r = &h->ranges.at[h->order.at[i]];

		if (i && r->addr < end)
			return "ranges overlap or are not in order";
		end = r->addr + r->bytes;
		broken = check_range(h, h->order.at[i]);
	}
	return broken;
}

/* ---- the caching model ---- */

struct sums {
	uint64_t reserved, active, allocated, requested, inactive, free_blocks;
};

static const char *check_links(const struct caching *c, uint32_t block)
{
	const struct caching_block *b = &c->blocks.at[block], *n;

	if (b->prev != CACHING_NONE && c->blocks.at[b->prev].next != block)
		return "a block is not its neighbour's neighbour";
	if (b->next == CACHING_NONE)
		return NULL;
	n = &c->blocks.at[b->next];
	if (n->prev != block || n->addr != b->addr + b->bytes)
		return "blocks do not tile their segment";
	if (n->block_pool != b->block_pool || n->stream != b->stream ||
	    n->reservation != b->reservation)
		return "blocks of one segment are of two pools or streams";
	if (!b->allocated && !n->allocated && b->unmapped == n->unmapped)
		return "free neighbours are not merged";
	return NULL;
}

static const char *check_block(const struct caching *c, uint32_t block, struct sums *s)
{
	const struct caching_block *b = &c->blocks.at[block];

	if (!b->bytes)
		return "a block has no bytes";
	if (b->pending_at && (b->pending_at > c->pending.n ||
			      c->pending.at[b->pending_at - 1] != block || !b->allocated))
		return "a block that waits for other streams is not on their list";
	s->free_blocks += !b->allocated;
	s->reserved += b->unmapped ? 0 : b->bytes;
	s->active += b->allocated ? b->bytes : 0;
	s->requested += b->allocated ? b->requested_bytes : 0;
	s->allocated += b->allocated && !b->pending_at ? b->bytes : 0;
	if (!b->allocated && b->reservation == CACHING_NONE && !caching_whole(b))
		s->inactive += b->bytes;
	return check_links(c, block);
}

/* The keys of a bin are those of free blocks of its pool and stream; *n counts them. */
static const char *check_bin(const struct caching *c, size_t bin, const struct freeset *o,
			     int unmapped, uint64_t *n)
{
	const char *broken = freeset_check(o);
	const struct freeset_key *k;

	if (broken || !o->shelves)
		return broken;
	for (struct freeset_cursor at = freeset_seek(o, 0, 0); (k = freeset_get(o, at)) != NULL;
	     freeset_next(o, &at), ++*n) {
		const struct caching_block *b = &c->blocks.at[k->block];

		if (b->allocated || b->unmapped != unmapped || b->addr != k->addr ||
		    (!unmapped && b->bytes != k->bytes) ||
		    b->block_pool * c->streams + b->stream != bin)
			return "a pool has a block that is not free, or not its own";
	}
	return NULL;
}

static int says(const struct caching *c, enum allocator_stat stat, uint64_t bytes)
{
	return c->stats.count[stat][0].current == bytes &&
	       c->stats.count[stat][1].current + c->stats.count[stat][2].current == bytes;
}

/* Which numbers of `blocks` are in use: a byte each, in memory of the check's own; NULL: there is none. */
static uint8_t *spare_blocks(const struct caching *c)
{
	uint8_t *spare = calloc(c->blocks.n + 1, 1);

	for (size_t i = 0; spare && i < c->spare.n; i++)
		spare[c->spare.at[i]]++;
	return spare;
}

const char *caching_check(const struct caching *c)
{
	uint8_t *spare = spare_blocks(c);
	const char *broken = NULL;
	struct sums s = { 0 };
	uint64_t binned = 0;

	for (uint32_t i = 0; spare && !broken && i < c->blocks.n; i++)
		broken = spare[i] > 1 ? "a block is spare twice"
			 : spare[i]   ? NULL
				      : check_block(c, i, &s);
	for (size_t i = 0; spare && !broken && i < c->block_pools * c->streams; i++) {
		broken = check_bin(c, i, &c->bins[i].free, 0, &binned);
		if (!broken)
			broken = check_bin(c, i, &c->bins[i].unmapped, 1, &binned);
	}
	for (uint32_t i = c->late; spare && i != CACHING_NONE; i = c->blocks.at[i].request)
		binned++;
	if (spare && !broken && binned != s.free_blocks)
		broken = "a free block is in no pool";
	if (spare && !broken &&
	    !(says(c, ALLOCATOR_RESERVED_BYTES, s.reserved) &&
	      says(c, ALLOCATOR_ACTIVE_BYTES, s.active) &&
	      says(c, ALLOCATOR_ALLOCATED_BYTES, s.allocated) &&
	      says(c, ALLOCATOR_REQUESTED_BYTES, s.requested) &&
	      says(c, ALLOCATOR_INACTIVE_SPLIT_BYTES, s.inactive)))
		broken = "statistics are not the sums of blocks";
	free(spare);
	return broken;
}
