#include "allocator.h"

#include <string.h>

/*
 * Oldest first; a row holds until the next.  Sources: c10/cuda/CUDACachingAllocator.cpp and
 * CUDAAllocatorConfig.cpp (since 2.10 c10/core/AllocatorConfig.cpp) of each release.
 */
static const struct allocator_release releases[] = {
	{ .since = 201,
	  .roundup_of_one = 1,
	  .no_private_expandable = 1,
	  .split_above_20 = 1,
	  .rest_includes_last = 1 },
	{ .since = 205, .split_above_20 = 1, .rest_includes_last = 1 },
	{ .since = 210 },
};

const struct allocator_release *allocator_release_of(unsigned release)
{
	size_t i = sizeof(releases) / sizeof(*releases) - 1;

	while (release && i && releases[i].since > release)
		i--;
	return &releases[i];
}

struct allocator_rules allocator_rules_default(unsigned release)
{
	return (struct allocator_rules){ .max_split_bytes = UINT64_MAX,
					 .max_nonsplit_rounding_bytes = ALLOCATOR_LARGE_SEGMENT,
					 .large_segment_bytes = ALLOCATOR_LARGE_SEGMENT,
					 .release = allocator_release_of(release) };
}

static uint64_t ceil_to(uint64_t n, uint64_t grain)
{
	return n > UINT64_MAX - grain ? n : (n + grain - 1) / grain * grain;
}

/* Divisions for a size: one entry a power of two, from 1 MiB up. */
static uint32_t divisions(const struct allocator_rules *r, uint64_t n)
{
	int log = 63 - __builtin_clzll(n), entry = log - 20;

	entry = entry < 0 ? 0 : entry >= TRACE_ROUNDUP_ENTRIES ? TRACE_ROUNDUP_ENTRIES - 1 : entry;
	return r->roundup_divisions[entry];
}

uint64_t allocator_round(const struct allocator_rules *r, uint64_t n)
{
	uint64_t below, step;
	uint32_t d;

	if (n < ALLOCATOR_MIN_BLOCK)
		return ALLOCATOR_MIN_BLOCK;
	d = divisions(r, n);
	if (d == 1 && r->release && r->release->roundup_of_one && n > ALLOCATOR_MIN_BLOCK)
		return n;
	if (d <= 1 || n <= (uint64_t)ALLOCATOR_MIN_BLOCK * d)
		return ceil_to(n, ALLOCATOR_MIN_BLOCK);
	below = (uint64_t)1 << (63 - __builtin_clzll(n));
	if (n == below)
		return n;
	step = below >> (31 - __builtin_clz(d));
	return step ? ceil_to(n, step) : 2 * below;
}

uint64_t allocator_segment_bytes(const struct allocator_rules *r, uint64_t rounded)
{
	if (rounded <= ALLOCATOR_SMALL_SIZE)
		return ALLOCATOR_SMALL_SEGMENT;
	if (rounded < ALLOCATOR_MIN_LARGE)
		return r->large_segment_bytes;
	return ceil_to(rounded, ALLOCATOR_ROUND_LARGE);
}
