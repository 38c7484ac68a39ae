/* What is free when a request fails, and what of it the request could not have. */
#include "heap.h"

/* Free memory of other pools, or of other streams, by owner. */
struct apart_sums {
	struct allocator_apart *out;
	uint64_t *by_owner;
	size_t owners;
};

struct apart_walk {
	const struct heap *heap;
	const struct snapshot *snapshot;
	const struct snapshot_device *device;
	struct allocator_oom *oom;
	struct apart_sums pools, streams;
	uint64_t *by_stack; /* bytes that a stack made; the last is that of no stack */
};

static const struct heap_range *apart_range(const struct apart_walk *w, size_t i)
{
	return &w->heap->ranges.at[w->heap->order.at[i]];
}

/* Whose memory keeps this range from the request?  NULL: it could have had it. */
static struct apart_sums *apart_sums_of(struct apart_walk *w, const struct heap_range *range,
					uint32_t *owner)
{
	if (w->oom->pool != TRACE_NONE && range->pool != w->oom->pool) {
		*owner = range->pool;
		return &w->pools;
	}
	if (range->stream != w->device->events.stream[w->oom->event]) {
		*owner = range->stream;
		return &w->streams;
	}
	return NULL;
}

static void apart_add_range(struct apart_walk *w, const struct heap_range *range)
{
	int large = w->device->events.size[w->oom->event] > ALLOCATOR_SMALL_SIZE;
	uint32_t owner = 0;
	struct apart_sums *s = apart_sums_of(w, range, &owner);
	uint64_t free_bytes = 0, largest = 0;

	for (uint32_t b = range->first; b != HEAP_NONE; b = w->heap->blocks.at[b].next) {
		const struct heap_block *block = &w->heap->blocks.at[b];

		if (block->alloc != HEAP_NONE)
			continue;
		free_bytes += block->bytes;
		largest = block->bytes > largest ? block->bytes : largest;
	}
	w->oom->free_bytes += free_bytes;
	if (!s) {
		if (range->large == large && largest > w->oom->largest_free_bytes)
			w->oom->largest_free_bytes = largest;
		return;
	}
	s->out->free_bytes += free_bytes;
	if (free_bytes == range->bytes)
		s->out->wholly_free_bytes += free_bytes;
	s->by_owner[owner] += free_bytes;
}

static void apart_find_owner(struct apart_sums *s)
{
	for (size_t i = 0; i < s->owners; i++) {
		s->out->owners += s->by_owner[i] != 0;
		if (s->by_owner[i] <= s->out->owner_bytes)
			continue;
		s->out->owner = (uint32_t)i;
		s->out->owner_bytes = s->by_owner[i];
	}
}

static int apart_has_free(const struct heap *h, const struct heap_range *range)
{
	for (uint32_t b = range->first; b != HEAP_NONE; b = h->blocks.at[b].next)
		if (h->blocks.at[b].alloc == HEAP_NONE)
			return 1;
	return 0;
}

/* By stack: what lives in the owner's ranges, or the ranges themselves. */
static uint64_t apart_add_stacks(struct apart_walk *w, struct apart_sums *s, int ranges)
{
	size_t none = w->snapshot->stacks.n;
	uint64_t sum = 0;

	for (size_t i = 0; i < w->heap->order.n; i++) {
		const struct heap_range *range = apart_range(w, i);
		uint32_t owner = 0;

		if (apart_sums_of(w, range, &owner) != s || owner != s->out->owner ||
		    !apart_has_free(w->heap, range))
			continue;
		if (ranges)
			w->by_stack[range->stack == TRACE_NONE ? none : range->stack] +=
				range->bytes;
		for (uint32_t b = range->first; !ranges && b != HEAP_NONE;
		     b = w->heap->blocks.at[b].next) {
			const struct heap_block *block = &w->heap->blocks.at[b];
			uint32_t stack;

			if (block->alloc == HEAP_NONE)
				continue;
			stack = w->device->allocs[block->alloc].stack;
			w->by_stack[stack == TRACE_NONE ? none : stack] += block->bytes;
			sum += block->bytes;
		}
	}
	return sum;
}

/* Who keeps the owner's segments: what lives in them, else who made them. */
static void apart_find_keeper(struct apart_walk *w, struct apart_sums *s)
{
	size_t none = w->snapshot->stacks.n, most = none;

	s->out->kept_bytes = apart_add_stacks(w, s, 0);
	if (!s->out->kept_bytes)
		apart_add_stacks(w, s, 1);
	for (size_t i = 0; i <= none; i++) {
		if (w->by_stack[i] > w->by_stack[most])
			most = i;
	}
	if (most != none)
		s->out->stack = (uint32_t)most;
	for (size_t i = 0; i <= none; i++)
		w->by_stack[i] = 0;
}

enum plim_status heap_account(const struct heap *h, const struct snapshot *t,
			      const struct snapshot_device *d, struct allocator_oom *oom,
			      struct plim_err *err)
{
	struct apart_walk w = { .heap = h, .snapshot = t, .device = d, .oom = oom };
	size_t stacks = t->stacks.n + 1;
	enum plim_status st = PLIM_OK;

	w.pools = (struct apart_sums){ .out = &oom->pools, .owners = t->pools.n };
	w.streams = (struct apart_sums){ .out = &oom->streams, .owners = t->streams.n };
	w.pools.by_owner = mem_new(h->mem, w.pools.owners, sizeof(uint64_t), err);
	w.streams.by_owner = mem_new(h->mem, w.streams.owners, sizeof(uint64_t), err);
	oom->pools.stack = oom->streams.stack = TRACE_NONE;
	if (!w.pools.by_owner || !w.streams.by_owner)
		st = mem_status(err);
	for (size_t i = 0; !st && i < h->order.n; i++)
		apart_add_range(&w, apart_range(&w, i));
	if (!st && (oom->pools.free_bytes || oom->streams.free_bytes)) {
		w.by_stack = mem_new(h->mem, stacks, sizeof(uint64_t), err);
		st = w.by_stack ? PLIM_OK : mem_status(err);
	}
	if (!st && oom->pools.free_bytes) {
		apart_find_owner(&w.pools);
		apart_find_keeper(&w, &w.pools);
	}
	if (!st && oom->streams.free_bytes) {
		apart_find_owner(&w.streams);
		apart_find_keeper(&w, &w.streams);
	}
	mem_free(h->mem, w.pools.by_owner, w.pools.owners, sizeof(uint64_t));
	mem_free(h->mem, w.streams.by_owner, w.streams.owners, sizeof(uint64_t));
	mem_free(h->mem, w.by_stack, stacks, sizeof(uint64_t));
	return st;
}
