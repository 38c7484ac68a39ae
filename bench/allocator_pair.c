/*
 * Nanoseconds of processor time for a free and a request of libplimsoll_alloc.so's allocator, over a driver that does nothing: with
 * the model of expandable segments, and without it.
 */
#include "allocator/vmm.h"

#include <stdio.h>
#include <time.h>

#define PAIRS 2000000u
#define LIVE_MAX 10000u
#define MIB ((uint64_t)1 << 20)

static uint64_t reserve(void *self, uint64_t bytes)
{
	uint64_t *next = self, addr = *next;

	*next += bytes;
	return addr;
}

static void unreserve(void *self, uint64_t addr, uint64_t bytes)
{
	(void)self, (void)addr, (void)bytes;
}

static int map(void *self, uint64_t addr, uint64_t bytes, uint64_t *handle)
{
	(void)self, (void)bytes;
	*handle = addr;
	return 1;
}

static void unmap(void *self, uint64_t addr, uint64_t bytes, uint64_t handle)
{
	(void)self, (void)addr, (void)bytes, (void)handle;
}

static int alias(void *self, uint64_t from, uint64_t to, uint64_t bytes, uint64_t handle)
{
	(void)self, (void)from, (void)to, (void)bytes, (void)handle;
	return 1;
}

static void drop(void *self, uint64_t addr, uint64_t bytes)
{
	(void)self, (void)addr, (void)bytes;
}

static uint64_t mark(void *self, uint64_t stream, uint64_t old)
{
	(void)self, (void)stream, (void)old;
	return 1;
}

static int wait(void *self, uint64_t mark)
{
	(void)self, (void)mark;
	return 1;
}

static uint64_t now_ns(void *self)
{
	struct timespec t;

	(void)self;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct kind {
	const char *name;
	uint64_t bytes, steps,
		step; /* of request i: bytes + i % steps * step; at random if steps is 0 */
	uint32_t live;
};

static uint32_t next_random(uint32_t *x)
{
	*x = *x * 1664525u + 1013904223u;
	return *x >> 8;
}

static double one(const struct kind *k, int compares)
{
	static uint64_t live[LIVE_MAX];
	uint64_t next = (uint64_t)1 << 40, began = 0;
	struct vmm_setup setup = { .driver = { &next, reserve, unreserve, map, unmap, alias, drop,
					       mark, wait, wait, now_ns },
				   .limit_bytes = UINT64_MAX,
				   .learns = 1 };
	uint32_t x = 5, lane;
	struct mem m;
	struct vmm v;

	mem_init(&m, UINT64_MAX);
	vmm_init(&v, &m, &setup);
	v.compares = (uint8_t)compares;
	lane = vmm_lane(&v, 0, 0);
	for (uint32_t i = 0; i < k->live + PAIRS; i++) {
		uint32_t at = i < k->live || k->steps ? i % k->live : next_random(&x) % k->live;
		uint64_t bytes = k->steps ? k->bytes + i % k->live % k->steps * k->step
					  : 1 + next_random(&x) % k->bytes;

		if (i == k->live)
			began = now_ns(NULL);
		if (i >= k->live)
			vmm_free(&v, live[at]);
		if (vmm_malloc(&v, lane, bytes, &live[at]))
			return 0;
	}
	began = now_ns(NULL) - began;
	vmm_release(&v);
	return (double)began / PAIRS;
}

int main(void)
{
	static const struct kind kinds[] = { { "512 B", 512, 1, 0, 1 },
					     { "512 B", 512, 1, 0, 1000 },
					     { "20 MiB", 20 * MIB, 1, 0, 1 },
					     { "1 to 16 MiB in turn", MIB, 16, MIB, 64 },
					     { "up to 16 MiB at random", 16 * MIB, 0, 0, 64 },
					     { "up to 16 MiB at random", 16 * MIB, 0, 0, 1000 },
					     { "up to 16 MiB at random", 16 * MIB, 0, 0,
					       LIVE_MAX } };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		printf("%-24s %5u live: %5.0f ns a pair, %5.0f without the model\n", kinds[i].name,
		       kinds[i].live, one(&kinds[i], 1), one(&kinds[i], 0));
	return 0;
}
