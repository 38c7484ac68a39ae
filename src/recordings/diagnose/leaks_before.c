/*
 * Allocations that are older than the recording, as far as they speak of a leak that was found inside it.
 *
 * A ring of events keeps the last ones alone.  Where a stack leaks in them, the blocks that were there before and have
 * its stack and its sizes belong to the leak.  What is freed of these sizes speaks against it: a cache that was full
 * before the ring began frees an old entry for each new one.  Sizes are as requested: blocks that grow by less than what
 * the allocator rounds to have one size for several steps.
 */
#include "leaks.h"

/* From fewer repetitions nothing is concluded about those that were not recorded; one less is enough at equal distances. */
#define REGULAR_PERIODS_MIN 5
/* A leak goes on as it did: at every third repetition at least, or at distances that are about equal. */
#define OFTEN_DISTANCE 4
#define GAP_FACTOR 2

static int before_by_stack(const void *a, const void *b)
{
	const struct leak_block *x = a, *y = b;

	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	return (x->alloc > y->alloc) - (x->alloc < y->alloc);
}

static int before_by_bytes(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void leaks_before_find(struct detecting *x, uint32_t outlived, uint32_t end,
		       struct leaks_before *out)
{
	const struct snapshot_device *d = x->device;

	out->live.n = out->freed.n = 0;
	for (uint32_t a = 0; a < d->alloc_count && !x->status; a++) {
		const struct snapshot_alloc *one = &d->allocs[a];
		struct leak_block block = { one->stack, a };

		if (one->born != TRACE_NONE || leak_on_purpose(detect_category(x, a)))
			continue;
		if (one->free_requested >= end && !snapshot_stackless(x->snapshot, one->stack))
			x->status = vec_push(x->mem, &out->live, block, x->err);
		else if (one->free_requested > outlived && one->free_requested < end &&
			 detect_category(x, a) == TIMELINE_PRIOR)
			x->status = vec_push(x->mem, &out->freed, one->requested_bytes, x->err);
	}
	sort_items(out->live.at, out->live.n, sizeof(*out->live.at), before_by_stack);
	sort_items(out->freed.at, out->freed.n, sizeof(*out->freed.at), before_by_bytes);
}

void leaks_before_release(struct detecting *x, struct leaks_before *b)
{
	vec_release(x->mem, &b->live);
	vec_release(x->mem, &b->freed);
	vec_release(x->mem, &b->sizes);
}

/* ---- the sizes of a leak ---- */

void leaks_before_learn(struct detecting *x, struct leaks_before *b, struct leak_rows rows,
			const uint32_t *next)
{
	uint64_t newest = 0;

	b->sizes.n = b->distinct = 0;
	b->grows = 1;
	for (uint32_t a = rows.first; a != TRACE_NONE && !x->status;
	     a = a == rows.last ? TRACE_NONE : next[a]) {
		uint64_t bytes = x->device->allocs[a].requested_bytes;

		b->grows &= bytes >= newest;
		newest = bytes;
		x->status = vec_push(x->mem, &b->sizes, bytes, x->err);
	}
	sort_items(b->sizes.at, b->sizes.n, sizeof(*b->sizes.at), before_by_bytes);
	for (size_t i = 0; i < b->sizes.n; i++)
		b->distinct += !i || b->sizes.at[i] != b->sizes.at[i - 1];
}

/* The index of the first size that is not below `bytes`. */
static size_t before_first(const uint64_t *sizes, size_t n, uint64_t bytes)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (sizes[mid] < bytes)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Do the sizes vary from block to block?  Then they are a range, else each one is repeated. */
static int before_varies(const struct leaks_before *b)
{
	return 2 * b->distinct > b->sizes.n;
}

/* Has the block a size of the leak?  What was kept before a leak of growing blocks was smaller. */
static int before_fits(const struct leaks_before *b, uint64_t bytes)
{
	size_t i = before_first(b->sizes.at, b->sizes.n, bytes);

	if (i == b->sizes.n)
		return 0;
	if (!before_varies(b))
		return b->sizes.at[i] == bytes;
	return b->grows || bytes >= b->sizes.at[0];
}

/*
 * From this size on, what is freed may have been the stack's.  A queue of growing blocks drops its oldest, which are a
 * little smaller than the smallest that it still has.
 */
static uint64_t before_least_freed(const struct detecting *x, const struct leaks_before *b,
				   uint32_t stack)
{
	uint64_t least = b->sizes.at[0], span = b->sizes.at[b->sizes.n - 1] - least;

	if (!before_varies(b) || !b->grows)
		return least;
	for (size_t i = leaks_before_next(x, b, stack, 0); i < b->live.n;
	     i = leaks_before_next(x, b, stack, i + 1)) {
		uint64_t bytes = x->device->allocs[b->live.at[i].alloc].requested_bytes;

		least = bytes < least ? bytes : least;
	}
	return least > span ? least - span : 0;
}

uint64_t leaks_before_freed(const struct detecting *x, const struct leaks_before *b, uint32_t stack)
{
	uint64_t bytes = 0;

	if (!b->sizes.n || !b->freed.n)
		return 0;
	for (size_t i = before_first(b->freed.at, b->freed.n, before_least_freed(x, b, stack));
	     i < b->freed.n && b->freed.at[i] <= b->sizes.at[b->sizes.n - 1]; i++)
		bytes += before_fits(b, b->freed.at[i]) ? b->freed.at[i] : 0;
	return bytes;
}

/* ---- what belongs to it ---- */

int leaks_before_regular(uint32_t periods, uint32_t usual, uint32_t least_gap, uint32_t most_gap)
{
	if (periods < REGULAR_PERIODS_MIN)
		return periods + 1 == REGULAR_PERIODS_MIN && most_gap == least_gap;
	return usual <= OFTEN_DISTANCE || most_gap <= GAP_FACTOR * least_gap;
}

size_t leaks_before_next(const struct detecting *x, const struct leaks_before *b, uint32_t stack,
			 size_t from)
{
	size_t low = from, high = b->live.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (b->live.at[mid].stack < stack)
			low = mid + 1;
		else
			high = mid;
	}
	while (low < b->live.n && b->live.at[low].stack == stack &&
	       !before_fits(b, x->device->allocs[b->live.at[low].alloc].requested_bytes))
		low++;
	return low < b->live.n && b->live.at[low].stack == stack ? low : b->live.n;
}
