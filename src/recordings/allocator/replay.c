/* A recording replayed at its own addresses. */
#include "caching.h"
#include "heap.h"

#include <stdlib.h>
#include <string.h>

/* Steps over blocks in all searches for a loose border; real recordings need thousands. */
#define LOOSE_STEPS_MAX 100000000u

struct replay {
	struct mem *mem;
	const struct snapshot *t;
	const struct snapshot_device *d;
	struct allocator_rules rules;
	struct heap heap;
	struct allocator_replay *out;
	uint32_t *block_of;          /* by allocation: its block while it lives */
	const uint64_t *known_bytes; /* of each allocation, from an earlier replay; NULL */
	struct pools pools; /* mem NULL: events tell them, or there is the default one alone */
	uint64_t
		steps; /* left for looking for loose blocks: a damaged file must not make it quadratic */
	struct plim_err *err;
};

static void fault(struct replay *r, uint32_t event)
{
	if (!r->out->faults++)
		r->out->first_fault = event;
}

/* The small pool asks for 2 MiB at a time, the large one for 20 MiB and more or for multiples of it. */
static int is_large(uint64_t segment_bytes)
{
	return segment_bytes != ALLOCATOR_SMALL_SEGMENT;
}

/* Is a free block of `bytes` cut for a request of `size`, and the rest kept free? */
static int splits(const struct replay *r, const struct heap_range *range, uint64_t bytes,
		  uint64_t size)
{
	uint64_t rest = bytes - size;

	if (range->expandable || !range->large)
		return rest >= ALLOCATOR_MIN_BLOCK;
	return size < r->rules.max_split_bytes && rest > ALLOCATOR_SMALL_SIZE;
}

/* ---- before the first event ---- */

/* Undo the segment events from the last to the first: what was reserved before them. */
static enum plim_status ranges_before(struct replay *r)
{
	const struct snapshot_events *ev = &r->d->events;
	enum plim_status st = PLIM_OK;
	uint32_t block;
	int done;

	for (uint32_t i = 0; !st && i < r->d->segments; i++) {
		const struct snapshot_segment *s = &r->t->segments.at[r->d->first_segment + i];
		struct heap_range range = { .addr = s->addr,
					    .bytes = s->bytes,
					    .stream = s->stream,
					    .pool = (uint16_t)s->pool,
					    .stack = s->stack,
					    .large = s->large,
					    .expandable = s->expandable };

		st = heap_add(&r->heap, &range, &block, r->err);
	}
	for (size_t e = ev->n; !st && e-- > 0;) {
		uint8_t action = ev->action[e];
		struct heap_range range;

		if (action < TRACE_SEGMENT_ALLOC || action > TRACE_SEGMENT_UNMAP)
			continue;
		range = (struct heap_range){ .addr = ev->addr[e],
					     .bytes = ev->size[e],
					     .stream = ev->stream[e],
					     .stack = TRACE_NONE,
					     .large = (uint8_t)is_large(ev->size[e]),
					     .expandable = action == TRACE_SEGMENT_UNMAP };
		if (action == TRACE_SEGMENT_FREE || action == TRACE_SEGMENT_UNMAP)
			st = heap_add(&r->heap, &range, &block, r->err);
		else if (action == TRACE_SEGMENT_ALLOC || action == TRACE_SEGMENT_MAP)
			st = heap_remove(&r->heap, ev->addr[e], ev->size[e], &done, r->err);
	}
	return st;
}

struct resident {
	uint64_t addr;
	uint32_t alloc;
};

static int by_addr(const void *a, const void *b)
{
	const struct resident *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* The blocks of the final segments by address, for residents that come in that order too. */
struct finals {
	struct final_block {
		uint64_t addr, bytes;
	} * at;
	size_t n, next;
};

static int by_block_addr(const void *a, const void *b)
{
	const struct final_block *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static enum plim_status finals_find(const struct replay *r, struct finals *f)
{
	uint32_t first = r->d->first_segment, end = first + r->d->segments;
	size_t n = 0;
	int sorted = 1;

	for (uint32_t i = first; i < end; i++)
		f->n += r->t->segments.at[i].blocks;
	f->at = mem_new(r->mem, f->n, sizeof(*f->at), r->err);
	if (!f->at)
		return mem_status(r->err);
	for (uint32_t i = first; i < end; i++) {
		const struct snapshot_segment *s = &r->t->segments.at[i];

		for (uint32_t k = 0; k < s->blocks; k++, n++) {
			const struct snapshot_block *b = &r->t->blocks.at[s->first_block + k];

			f->at[n] = (struct final_block){ b->addr, b->bytes };
			sorted &= !n || f->at[n - 1].addr <= b->addr;
		}
	}
	if (!sorted)
		sort_items(f->at, n, sizeof(*f->at), by_block_addr);
	return PLIM_OK;
}

/* The size of a block that still stands at the end; 0 when the snapshot does not show it. */
static uint64_t final_bytes(struct finals *f, const struct snapshot_alloc *a)
{
	while (f->next < f->n && f->at[f->next].addr < a->addr)
		f->next++;
	return a->free_completed == TRACE_NONE && f->next < f->n && f->at[f->next].addr == a->addr
		       ? f->at[f->next].bytes
		       : 0;
}

/*
 * One allocation that was there before: how far does its block go?  The next one begins at `border`.
 * In the large pool no free block is as small as 1 MiB, so such a gap belongs to the block before it.
 */
static enum plim_status replay_place(struct replay *r, struct finals *finals,
				     const struct resident *one, uint64_t border)
{
	const struct snapshot_alloc *a = &r->d->allocs[one->alloc];
	size_t at = heap_range_at(&r->heap, a->addr);
	struct heap_range *range =
		at < r->heap.order.n ? &r->heap.ranges.at[r->heap.order.at[at]] : NULL;
	uint64_t size = allocator_round(&r->rules, a->requested_bytes), room;
	uint64_t bytes = r->known_bytes ? r->known_bytes[one->alloc] : final_bytes(finals, a);
	uint32_t block = heap_find(&r->heap, a->addr);
	enum plim_status st = PLIM_OK;
	uint8_t loose = 0;

	r->out->block_bytes[one->alloc] = bytes ? bytes : size;
	if (!range || range->addr > a->addr) {
		fault(r, 0);
		return PLIM_OK;
	}
	if (block == HEAP_NONE) { /* behind a gap: cut the free block that covers it */
		block = range->last;
		if (r->heap.blocks.at[block].addr > a->addr ||
		    r->heap.blocks.at[block].alloc != HEAP_NONE) {
			fault(r, 0);
			return PLIM_OK;
		}
		st = heap_split(&r->heap, block, a->addr - r->heap.blocks.at[block].addr, r->err);
		if (st)
			return st;
		block = r->heap.blocks.at[block].next;
		range = &r->heap.ranges.at[r->heap.order.at[at]];
	}
	if (border > range->addr + range->bytes)
		border = range->addr + range->bytes;
	room = border - a->addr;
	if (!bytes && (room < size || !splits(r, range, room, size)))
		bytes = room;
	if (!bytes) {
		loose = range->large && !range->expandable;
		bytes = size;
	}
	if (bytes > r->heap.blocks.at[block].bytes) {
		fault(r, 0);
		return PLIM_OK;
	}
	r->out->block_bytes[one->alloc] = bytes;
	r->block_of[one->alloc] = block;
	r->heap.blocks.at[block].alloc = one->alloc;
	r->heap.blocks.at[block].loose = loose;
	if (r->heap.blocks.at[block].bytes > bytes)
		st = heap_split(&r->heap, block, bytes, r->err);
	return st;
}

static enum plim_status residents_before(struct replay *r)
{
	uint32_t n = 0, count = r->d->allocs_before;
	struct resident *list = mem_new(r->mem, count, sizeof(*list), r->err);
	struct finals finals = { .n = 0 };
	enum plim_status st = list ? finals_find(r, &finals) : mem_status(r->err);

	for (uint32_t a = 0; !st && a < r->d->alloc_count; a++)
		if (r->d->allocs[a].flags & TRACE_BEFORE)
			list[n++] = (struct resident){ r->d->allocs[a].addr, a };
	sort_items(list, n, sizeof(*list), by_addr);
	for (uint32_t i = 0; !st && i < n; i++)
		st = replay_place(r, &finals, &list[i], i + 1 < n ? list[i + 1].addr : UINT64_MAX);
	mem_free(r->mem, finals.at, finals.n, sizeof(*finals.at));
	mem_free(r->mem, list, count, sizeof(*list));
	return st;
}

/* ---- the events ---- */

/* A free block begins before `addr`: if the block in front of it is loose, the border is now known. */
static uint32_t tighten(struct replay *r, uint64_t addr)
{
	size_t at = heap_range_at(&r->heap, addr);
	struct heap_block *b, *front;
	uint32_t block;

	if (at >= r->heap.order.n)
		return HEAP_NONE;
	block = r->heap.ranges.at[r->heap.order.at[at]].first;
	while (block != HEAP_NONE && r->steps && r->steps-- &&
	       r->heap.blocks.at[block].addr + r->heap.blocks.at[block].bytes <= addr)
		block = r->heap.blocks.at[block].next;
	if (block == HEAP_NONE || !r->steps)
		return HEAP_NONE;
	b = &r->heap.blocks.at[block];
	if (b->alloc != HEAP_NONE || b->addr >= addr || b->prev == HEAP_NONE)
		return HEAP_NONE;
	front = &r->heap.blocks.at[b->prev];
	if (!front->loose || addr - b->addr > ALLOCATOR_SMALL_SIZE)
		return HEAP_NONE;
	front->loose = 0;
	r->out->block_bytes[front->alloc] += addr - b->addr;
	heap_move_border(&r->heap, b->prev, front->bytes + (addr - b->addr));
	return block;
}

static enum plim_status on_alloc(struct replay *r, uint32_t e)
{
	const struct snapshot_events *ev = &r->d->events;
	uint32_t alloc = ev->alloc[e], block = heap_find(&r->heap, ev->addr[e]);
	uint64_t size = allocator_round(&r->rules, ev->size[e]);
	const struct heap_range *range;
	struct heap_block *b;
	enum plim_status st = PLIM_OK;

	r->out->block_bytes[alloc] = size;
	if (block == HEAP_NONE)
		block = tighten(r, ev->addr[e]);
	b = block == HEAP_NONE ? NULL : &r->heap.blocks.at[block];
	if (!b || b->alloc != HEAP_NONE || b->bytes < size) {
		fault(r, e);
		return PLIM_OK;
	}
	if (b->prev != HEAP_NONE)
		r->heap.blocks.at[b->prev].loose =
			0; /* the free block began where the rounded request ends */
	range = &r->heap.ranges.at[b->range];
	if (splits(r, range, b->bytes, size)) {
		st = heap_split(&r->heap, block, size, r->err);
		b = &r->heap.blocks.at[block];
	}
	b->alloc = alloc;
	r->block_of[alloc] = block;
	r->out->block_bytes[alloc] = b->bytes;
	return st;
}

static void on_free_completed(struct replay *r, uint32_t e)
{
	uint32_t alloc = r->d->events.alloc[e], block = r->block_of[alloc];

	if (block == HEAP_NONE || r->heap.blocks.at[block].alloc != alloc) {
		fault(r, e);
		return;
	}
	if (r->heap.blocks.at[block].loose)
		r->out->range_bytes += ALLOCATOR_SMALL_SIZE;
	r->block_of[alloc] = HEAP_NONE;
	heap_free(&r->heap, block);
}

/*
 * The pool of an alloc or segment event, which old recordings do not say: a segment that is there at the end shows
 * it then.  0 also: not known.
 */
static uint16_t pool_at(const struct replay *r, uint32_t e)
{
	uint32_t segment;

	if (r->d->events.pool)
		return r->d->events.pool[e];
	segment = r->pools.mem ? r->pools.segment_of[e] : TRACE_NONE;
	return segment == TRACE_NONE ? 0 : r->pools.segments.at[segment].pool;
}

static enum plim_status on_segment(struct replay *r, uint32_t e)
{
	const struct snapshot_events *ev = &r->d->events;
	uint8_t action = ev->action[e];
	struct heap_range range = { .addr = ev->addr[e],
				    .bytes = ev->size[e],
				    .stream = ev->stream[e],
				    .pool = pool_at(r, e),
				    .stack = ev->stack[e],
				    .large = (uint8_t)is_large(ev->size[e]),
				    .expandable = action == TRACE_SEGMENT_MAP };
	enum plim_status st;
	uint32_t block;
	int done;

	if (action == TRACE_SEGMENT_FREE || action == TRACE_SEGMENT_UNMAP) {
		st = heap_remove(&r->heap, ev->addr[e], ev->size[e], &done, r->err);
		if (!st && !done)
			fault(r, e);
		return st;
	}
	st = heap_add(&r->heap, &range, &block, r->err);
	if (!st && block == HEAP_NONE)
		fault(r, e); /* it overlaps what is already reserved */
	return st;
}

/*
 * The pool of a request that failed.  Where events have none it is the default one, unless what the stream
 * allocated before is a private pool's: the request may have been made inside of it, or behind it.
 */
static uint32_t pool_of_oom(const struct replay *r, uint32_t oom)
{
	const struct snapshot_events *ev = &r->d->events;

	if (ev->pool)
		return ev->pool[oom];
	for (uint32_t e = oom; r->pools.mem && e-- > 0;)
		if (ev->action[e] == TRACE_ALLOC && ev->stream[e] == ev->stream[oom])
			return pool_at(r, e) ? TRACE_NONE : 0;
	return 0;
}

static enum plim_status on_oom(struct replay *r, uint32_t e)
{
	struct allocator_oom oom = { .event = e, .pool = pool_of_oom(r, e) };
	enum plim_status st = heap_account(&r->heap, r->t, r->d, &oom, r->err);

	return st ? st : vec_push(r->mem, &r->out->ooms, oom, r->err);
}

static enum plim_status events(struct replay *r)
{
	const struct snapshot_events *ev = &r->d->events;
	enum plim_status st = PLIM_OK;

	for (uint32_t e = 0; !st && e < ev->n; e++) {
		switch (ev->action[e]) {
		case TRACE_ALLOC: st = on_alloc(r, e); break;
		case TRACE_FREE_COMPLETED: on_free_completed(r, e); break;
		case TRACE_SEGMENT_ALLOC:
		case TRACE_SEGMENT_FREE:
		case TRACE_SEGMENT_MAP:
		case TRACE_SEGMENT_UNMAP: st = on_segment(r, e); break;
		case TRACE_FREE_REQUESTED: /* the block stays where it is */
			if (r->d->no_free_completed)
				on_free_completed(r, e);
			break;
		case TRACE_OOM: st = on_oom(r, e); continue;
		default: continue;
		}
		r->out->checked_events++;
		if (!st && check_is_due(e))
			CHECKED(heap_check(&r->heap));
	}
	return st;
}

/* ---- the end ---- */

/* Every final block must be there, of the same size and as live. */
static void check_end(struct replay *r)
{
	size_t blocks = 0;

	if (r->t->end_unknown)
		return;
	for (uint32_t i = 0; i < r->d->segments; i++) {
		const struct snapshot_segment *s = &r->t->segments.at[r->d->first_segment + i];

		for (uint32_t k = 0; k < s->blocks; k++) {
			const struct snapshot_block *b = &r->t->blocks.at[s->first_block + k];
			uint32_t mine = heap_find(&r->heap, b->addr);
			int live = b->state != TRACE_INACTIVE;

			blocks++;
			if (mine == HEAP_NONE || r->heap.blocks.at[mine].bytes != b->bytes ||
			    live != (r->heap.blocks.at[mine].alloc != HEAP_NONE))
				r->out->end_faults++;
		}
	}
	if (r->heap.index.n != blocks && !r->out->end_faults)
		r->out->end_faults++;
}

static void sum_before(struct replay *r)
{
	for (uint32_t a = 0; a < r->d->alloc_count; a++) {
		const struct snapshot_alloc *one = &r->d->allocs[a];

		if (!(one->flags & TRACE_BEFORE))
			continue;
		r->out->requested_before_bytes += one->requested_bytes;
		r->out->active_before_bytes += r->out->block_bytes[a];
		if (!(one->flags & TRACE_PENDING_BEFORE))
			r->out->allocated_before_bytes += r->out->block_bytes[a];
	}
}

/* What the profiler wrote has the blocks' sizes, and no segments to follow. */
static enum plim_status take_profile(struct replay *r)
{
	const struct snapshot_events *ev = &r->d->events;
	enum plim_status st = PLIM_OK;

	for (size_t a = 0; a < r->d->alloc_count; a++)
		r->out->block_bytes[a] = r->d->allocs[a].requested_bytes;
	for (uint32_t e = 0; !st && e < ev->n; e++)
		if (ev->action[e] == TRACE_OOM) /* packed by others: each failure has its account */
			st = on_oom(r, e);
	return st;
}

static enum plim_status follow_replay(struct replay *r)
{
	enum plim_status st = PLIM_OK;

	if (r->d->reserved_before_bytes || r->d->allocs_before)
		st = ranges_before(r);
	if (!st && r->d->allocs_before)
		st = residents_before(r);
	if (!st)
		st = events(r);
	if (!st) {
		CHECKED(heap_check(&r->heap));
		check_end(r);
	}
	return st;
}

enum plim_status allocator_replay_own(struct mem *m, const struct snapshot *t,
				      const struct snapshot_device *d,
				      struct allocator_replay **out, struct plim_err *err)
{
	struct replay r = { .mem = m,
			    .t = t,
			    .d = d,
			    .rules = allocator_rules_of(t, 0),
			    .steps = LOOSE_STEPS_MAX,
			    .err = err };
	enum plim_status st = PLIM_OK;

	*out = NULL;
	heap_init(&r.heap, m);
	r.out = mem_new(m, 1, sizeof(*r.out), err);
	if (!r.out)
		return mem_status(err);
	r.out->mem = m;
	r.out->rules = r.rules;
	r.out->n = d->alloc_count;
	r.out->first_fault = TRACE_NONE;
	r.out->block_bytes = mem_new(m, d->alloc_count, sizeof(*r.out->block_bytes), err);
	r.block_of =
		r.out->block_bytes ? mem_new(m, d->alloc_count, sizeof(*r.block_of), err) : NULL;
	if (!r.block_of)
		st = mem_status(err);
	else
		memset(r.block_of, 0xff, d->alloc_count * sizeof(*r.block_of));
	if (!st && !d->events.pool && t->pools.n > 1)
		st = pools_find(&r.pools, m, t, d, err);
	if (!st)
		st = t->profile.kind ? take_profile(&r) : follow_replay(&r);
	if (!st)
		sum_before(&r);
	mem_free(m, r.block_of, d->alloc_count, sizeof(*r.block_of));
	if (r.pools.mem)
		pools_release(&r.pools);
	heap_release(&r.heap);
	if (st)
		allocator_replay_free(r.out);
	else
		*out = r.out;
	return st;
}

enum plim_status heap_before(struct heap *h, struct mem *m, const struct snapshot *t,
			     const struct snapshot_device *d, const struct allocator_replay *replay,
			     struct plim_err *err)
{
	struct allocator_replay scratch = { .first_fault = TRACE_NONE };
	struct replay r = { .mem = m,
			    .t = t,
			    .d = d,
			    .rules = replay->rules,
			    .known_bytes = replay->block_bytes,
			    .out = &scratch,
			    .err = err };
	enum plim_status st;

	heap_init(&r.heap, m);
	scratch.block_bytes = mem_new(m, d->alloc_count, sizeof(*scratch.block_bytes), err);
	r.block_of =
		scratch.block_bytes ? mem_new(m, d->alloc_count, sizeof(*r.block_of), err) : NULL;
	st = r.block_of ? ranges_before(&r) : mem_status(err);
	if (!st)
		st = residents_before(&r);
	mem_free(m, r.block_of, d->alloc_count, sizeof(*r.block_of));
	mem_free(m, scratch.block_bytes, d->alloc_count, sizeof(*scratch.block_bytes));
	if (st)
		heap_release(&r.heap);
	else
		*h = r.heap;
	return st;
}

void allocator_replay_free(struct allocator_replay *r)
{
	if (!r)
		return;
	mem_free(r->mem, r->block_bytes, r->n, sizeof(*r->block_bytes));
	vec_release(r->mem, &r->ooms);
	mem_free(r->mem, r, 1, sizeof(*r));
}
