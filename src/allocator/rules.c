#include "allocator.h"

#include <string.h>

struct allocator_rules allocator_rules_of(const struct trace *t)
{
	struct allocator_rules r = { .max_split_bytes = t->settings.have
								? t->settings.max_split_bytes
								: UINT64_MAX };

	memcpy(r.roundup_divisions, t->settings.roundup_divisions, sizeof(r.roundup_divisions));
	return r;
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
	if (d <= 1 || n <= (uint64_t)ALLOCATOR_MIN_BLOCK * d)
		return ceil_to(n, ALLOCATOR_MIN_BLOCK);
	below = (uint64_t)1 << (63 - __builtin_clzll(n));
	if (n == below)
		return n;
	step = below >> (31 - __builtin_clz(d));
	return step ? ceil_to(n, step) : 2 * below;
}

uint64_t allocator_segment_bytes(uint64_t rounded)
{
	if (rounded <= ALLOCATOR_SMALL_SIZE)
		return ALLOCATOR_SMALL_SEGMENT;
	if (rounded < ALLOCATOR_MIN_LARGE)
		return ALLOCATOR_LARGE_SEGMENT;
	return ceil_to(rounded, ALLOCATOR_ROUND_LARGE);
}
