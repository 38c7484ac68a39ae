/*
 * What expandable segments would reserve for the same requests: PyTorch's allocator as caching.h models it runs along with ours, one model
 * for each lane, since they give no memory from one stream or pool to another.  No limit is on it.
 */
#include "vmm_parts.h"

static uint64_t reserve_neighbour(void *self, uint64_t bytes)
{
	struct vmm *a = self;
	uint64_t addr = a->beside_next;

	a->beside_next += bytes;
	return addr;
}

static void unreserve_neighbour(void *self, uint64_t addr, uint64_t bytes)
{
	(void)self, (void)addr, (void)bytes;
}

static int map_neighbour(void *self, uint64_t addr, uint64_t bytes)
{
	struct vmm *a = self;

	(void)addr;
	a->counts.expandable_bytes += bytes;
	return 1;
}

static void unmap_neighbour(void *self, uint64_t addr, uint64_t bytes)
{
	struct vmm *a = self;

	(void)addr;
	a->counts.expandable_bytes -= bytes;
}

/* Without host memory for the models nothing is compared any more. */
static void give_up(struct vmm *a)
{
	a->compares = 0;
	a->counts.expandable_bytes = a->counts.expandable_peak_bytes = 0;
}

void vmm_beside_init(struct vmm *a, struct vmm_lane *l)
{
	static const int64_t stream[1] = { 0 };
	struct caching_setup setup = { .rules = allocator_rules_default(0),
				       .driver = { .self = a,
						   .reserve = reserve_neighbour,
						   .unreserve = unreserve_neighbour,
						   .map = map_neighbour,
						   .unmap = unmap_neighbour },
				       .stream_values = stream,
				       .streams = 1,
				       .pools = 1,
				       .limit_bytes = UINT64_MAX,
				       .device_bytes = a->device_bytes ? a->device_bytes
								       : (uint64_t)80 << 30 };

	setup.rules.expandable = 1;
	if (a->compares && caching_init(&l->beside, a->mem, &setup, NULL))
		give_up(a);
}

uint32_t vmm_beside_malloc(struct vmm *a, struct vmm_lane *l, uint64_t bytes)
{
	struct caching_request rq = { .bytes = bytes };
	uint32_t block;

	if (!a->compares)
		return VMM_NONE;
	if (caching_malloc(&l->beside, &rq, &block)) {
		give_up(a);
		return VMM_NONE;
	}
	return block;
}

void vmm_beside_free(struct vmm *a, struct vmm_lane *l, uint32_t block)
{
	if (a->compares && block != VMM_NONE)
		caching_free(&l->beside, block);
}

void vmm_beside_empty(struct vmm *a)
{
	for (uint32_t i = 0; a->compares && i < a->lanes.n; i++) {
		struct vmm_lane *l = &a->lanes.at[i];

		if ((!l->pool || l->dropped) && caching_empty_cache(&l->beside))
			give_up(a);
	}
}
