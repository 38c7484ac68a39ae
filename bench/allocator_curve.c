/*
 * allocator_curve: events a second of the allocator model, by free blocks in the pool that is searched.
 * One line a point: free blocks, settings, millions of events a second.  An event is one alloc or one
 * completed free.
 */
#include "allocator/caching.h"
#include "allocator/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EVENTS 2000000u

static const int64_t streams[] = { 0 };

static uint64_t random_next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t take(struct caching *c, uint64_t bytes)
{
	struct caching_request rq = { .bytes = bytes };
	uint32_t block;

	if (caching_malloc(c, &rq, &block) || block == CACHING_NONE)
		exit(1);
	return block;
}

static void drop(struct caching *c, uint32_t block)
{
	caching_free_requested(c, block);
	caching_free_completed(c, block);
}

/* Between blocks that stay, so that neighbours do not merge: `n` holes, then holes are taken and left. */
static double run(const char *conf, uint32_t n)
{
	struct mem m;
	struct plim_err err;
	struct placement placement;
	struct caching c;
	struct caching_setup setup = { .stream_values = streams,
				       .streams = 1,
				       .pools = 1,
				       .limit_bytes = UINT64_MAX,
				       .device_bytes = (uint64_t)1 << 50 };
	uint32_t *live = calloc(2 * n, sizeof(*live));
	uint64_t seed = n;
	double start;

	mem_init(&m, 0);
	if (!live || allocator_rules_parse(conf, 0, &setup.rules, &err))
		exit(1);
	placement_init(&placement, &m, ALLOCATOR_APART, UINT64_MAX, &err);
	setup.driver = placement_driver(&placement);
	if (caching_init(&c, &m, &setup, &err))
		exit(1);
	for (uint32_t i = 0; i < 2 * n; i++)
		live[i] = take(&c, (uint64_t)(2 << 20) + random_next(&seed) % (4 << 20));
	for (uint32_t i = 0; i < 2 * n; i += 2)
		drop(&c, live[i]);
	start = seconds();
	for (uint32_t i = 0; i < EVENTS / 2; i++) {
		uint32_t block = take(&c, (uint64_t)(2 << 20) + random_next(&seed) % (3 << 20));
		uint32_t other = (uint32_t)(random_next(&seed) % n) * 2 + 1;

		drop(&c, live[other]);
		live[other] = block;
	}
	start = seconds() - start;
	caching_release(&c);
	placement_release(&placement);
	free(live);
	return EVENTS / start / 1e6;
}

int main(void)
{
	static const char *const confs[] = { "", "expandable_segments:True",
					     "max_split_size_mb:64" };

	for (size_t k = 0; k < sizeof(confs) / sizeof(*confs); k++)
		for (uint32_t n = 100; n <= 100000; n *= 10)
			printf("%7u free blocks  %5.1f M events/s  %s\n", n, run(confs[k], n),
			       *confs[k] ? confs[k] : "(default)");
	return 0;
}
