/* The model's state taken over from a recording that lost its beginning. */
#include "caching.h"
#include "heap.h"

#include <string.h>

struct seeding {
	struct caching *c;
	const struct heap *h;
	const struct snapshot_device *d;
	const uint32_t *request_of;
	uint32_t *block_of;
	/* of each block pool and stream: the reservation that is being filled, and its last block so far */
	uint32_t *reservation, *last;
	uint64_t *lowest; /* page ever mapped */
};

static enum plim_status append(struct seeding *s, struct caching_block *b, uint32_t *last)
{
	uint32_t block;

	b->prev = *last;
	b->next = CACHING_NONE;
	block = caching_block_new(s->c, b);
	if (block == CACHING_NONE)
		return mem_status(&s->c->err);
	if (*last != CACHING_NONE)
		s->c->blocks.at[*last].next = block;
	*last = block;
	return PLIM_OK;
}

static void count_live(struct seeding *s, const struct heap_block *hb, uint32_t block_pool)
{
	const struct snapshot_alloc *a = &s->d->allocs[hb->alloc];

	caching_count(s->c, ALLOCATOR_ACTIVE, block_pool, 1);
	caching_count(s->c, ALLOCATOR_ACTIVE_BYTES, block_pool, (int64_t)hb->bytes);
	caching_count(s->c, ALLOCATOR_REQUESTED_BYTES, block_pool, (int64_t)a->requested_bytes);
	caching_count(s->c, ALLOCATOR_ALLOCATION, block_pool, 1);
	caching_count(s->c, ALLOCATOR_ALLOCATED_BYTES, block_pool, (int64_t)hb->bytes);
	if (hb->bytes >= s->c->rules.max_split_bytes)
		caching_count(s->c, ALLOCATOR_OVERSIZE_ALLOCATIONS, block_pool, 1);
}

static enum plim_status add_blocks(struct seeding *s, const struct heap_range *range,
				   struct caching_block b, uint32_t *last)
{
	enum plim_status st = PLIM_OK;

	for (uint32_t i = range->first; !st && i != HEAP_NONE; i = s->h->blocks.at[i].next) {
		const struct heap_block *hb = &s->h->blocks.at[i];

		b.addr = hb->addr;
		b.bytes = hb->bytes;
		b.allocated = hb->alloc != HEAP_NONE;
		b.request = b.allocated ? s->request_of[hb->alloc] : CACHING_NONE;
		b.requested_bytes = b.allocated ? s->d->allocs[hb->alloc].requested_bytes : 0;
		st = append(s, &b, last);
		if (st)
			break;
		if (b.allocated) {
			s->block_of[b.request] = *last;
			count_live(s, hb, b.block_pool);
		}
		if (!b.allocated && b.reservation == CACHING_NONE && range->first != range->last) {
			caching_count(s->c, ALLOCATOR_INACTIVE_SPLIT, b.block_pool, 1);
			caching_count(s->c, ALLOCATOR_INACTIVE_SPLIT_BYTES, b.block_pool,
				      (int64_t)hb->bytes);
		}
	}
	return st;
}

/* Address space of a reservation up to `end` that no range covers. */
static enum plim_status add_hole(struct seeding *s, struct caching_block b, uint64_t end,
				 uint32_t *last)
{
	const struct caching_block *before = &s->c->blocks.at[*last];

	b.addr = before->addr + before->bytes;
	b.bytes = end - b.addr;
	b.unmapped = 1;
	return b.bytes ? append(s, &b, last) : PLIM_OK;
}

static enum plim_status close_reservation(struct seeding *s, size_t bin)
{
	const struct caching_reservation *r;
	struct caching_block b;

	if (s->last[bin] == CACHING_NONE)
		return PLIM_OK;
	b = s->c->blocks.at[s->last[bin]];
	b.allocated = 0;
	b.request = CACHING_NONE;
	r = &s->c->reservations.at[s->reservation[bin]];
	return add_hole(s, b, r->addr + r->bytes, &s->last[bin]);
}

/* Where a reservation begins is not recorded: at the lowest page that is mapped now or later. */
static void find_lowest_pages(struct seeding *s)
{
	const struct snapshot_events *ev = &s->d->events;

	for (size_t e = 0; e < ev->n; e++) {
		int large = ev->size[e] != ALLOCATOR_SMALL_SEGMENT;
		size_t bin = (size_t)large * s->c->streams + ev->stream[e];

		if (ev->action[e] == TRACE_SEGMENT_MAP && ev->addr[e] < s->lowest[bin])
			s->lowest[bin] = ev->addr[e];
	}
}

static enum plim_status begin_reservation(struct seeding *s, const struct heap_range *range,
					  struct caching_block b, size_t bin)
{
	struct caching *c = s->c;
	uint64_t page = range->large ? c->rules.large_segment_bytes : ALLOCATOR_SMALL_SEGMENT;
	uint64_t bytes = (c->device_bytes + c->device_bytes / 8) / page * page;
	struct caching_reservation r = { range->addr, bytes > range->bytes ? bytes : range->bytes,
					 page };
	enum plim_status st;

	if (s->lowest[bin] < range->addr && range->addr - s->lowest[bin] <= r.bytes - range->bytes)
		r.addr = s->lowest[bin];
	st = vec_push(c->mem, &c->reservations, r, &c->err);
	if (st || r.addr == range->addr)
		return st;
	b.addr = r.addr;
	b.bytes = range->addr - r.addr;
	b.unmapped = 1;
	return append(s, &b, &s->last[bin]);
}

/* An expandable range belongs to the reservation of its stream and block pool that it lies in. */
static enum plim_status reservation_for(struct seeding *s, const struct heap_range *range,
					struct caching_block *b)
{
	struct caching *c = s->c;
	size_t bin = b->block_pool * c->streams + range->stream;
	uint64_t end = range->addr + range->bytes;
	enum plim_status st = PLIM_OK;

	if (s->last[bin] != CACHING_NONE) {
		const struct caching_reservation *now = &c->reservations.at[s->reservation[bin]];

		b->reservation = s->reservation[bin];
		if (end - now->addr <= now->bytes)
			return add_hole(s, *b, range->addr, &s->last[bin]);
		st = close_reservation(s, bin);
		s->last[bin] = CACHING_NONE;
	}
	b->reservation = s->reservation[bin] = (uint32_t)c->reservations.n;
	return st ? st : begin_reservation(s, range, *b, bin);
}

static enum plim_status add_range(struct seeding *s, const struct heap_range *range)
{
	struct caching *c = s->c;
	uint32_t alone = CACHING_NONE;
	struct caching_block b = { .reservation = CACHING_NONE,
				   .request = CACHING_NONE,
				   .block_pool = range->pool * 2u + range->large,
				   .stream = (uint16_t)range->stream };
	enum plim_status st;

	caching_count(c, ALLOCATOR_RESERVED_BYTES, b.block_pool, (int64_t)range->bytes);
	if (range->expandable) {
		st = reservation_for(s, range, &b);
		return st ? st
			  : add_blocks(s, range, b,
				       &s->last[b.block_pool * c->streams + range->stream]);
	}
	caching_count(c, ALLOCATOR_SEGMENT, b.block_pool, 1);
	if (range->bytes >= c->rules.max_split_bytes)
		caching_count(c, ALLOCATOR_OVERSIZE_SEGMENTS, b.block_pool, 1);
	return add_blocks(s, range, b, &alone);
}

static void fill_pools(struct caching *c)
{
	for (uint32_t i = 0; i < c->blocks.n; i++)
		if (!c->blocks.at[i].allocated)
			caching_pool_insert(c, i);
}

/* What the program had already dropped before the recording began. */
static void free_pending(struct seeding *s)
{
	for (uint32_t a = 0; a < s->d->alloc_count; a++)
		if (s->d->allocs[a].flags & TRACE_PENDING_BEFORE &&
		    s->block_of[s->request_of[a]] != CACHING_NONE)
			caching_free_requested(s->c, s->block_of[s->request_of[a]]);
}

enum plim_status caching_seed(struct caching *c, const struct heap *h,
			      const struct snapshot_device *d, const uint32_t *request_of,
			      uint32_t *block_of)
{
	struct seeding s = {
		.c = c, .h = h, .d = d, .request_of = request_of, .block_of = block_of
	};
	size_t bins = c->block_pools * c->streams;
	enum plim_status st;

	s.reservation = mem_new(c->mem, bins, sizeof(*s.reservation), &c->err);
	s.last = s.reservation ? mem_new(c->mem, bins, sizeof(*s.last), &c->err) : NULL;
	s.lowest = s.last ? mem_new(c->mem, bins, sizeof(*s.lowest), &c->err) : NULL;
	st = s.lowest ? PLIM_OK : mem_status(&c->err);
	if (!st) {
		memset(s.lowest, 0xff, bins * sizeof(*s.lowest));
		find_lowest_pages(&s);
		for (size_t i = 0; i < bins; i++)
			s.last[i] = CACHING_NONE;
		for (size_t i = 0; !st && i < h->order.n; i++)
			st = add_range(&s, &h->ranges.at[h->order.at[i]]);
		for (size_t i = 0; !st && i < bins; i++)
			st = close_reservation(&s, i);
		if (!st) {
			fill_pools(c);
			free_pending(&s);
			st = caching_status(c);
		}
	}
	mem_free(c->mem, s.lowest, bins, sizeof(*s.lowest));
	mem_free(c->mem, s.last, bins, sizeof(*s.last));
	mem_free(c->mem, s.reservation, bins, sizeof(*s.reservation));
	return st;
}
