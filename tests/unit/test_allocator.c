/* Rounding as PyTorch rounds (worked values of its rules), and the heap that a replay stands on. */
#include "allocator/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "recording.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

static void test_round(void **state)
{
	struct allocator_rules plain = allocator_rules_default(0), four = plain;

	(void)state;
	for (int i = 0; i < TRACE_ROUNDUP_ENTRIES; i++)
		four.roundup_divisions[i] = 4;
	assert_int_equal(allocator_round(&plain, 1), 512);
	/* near 2^64 it does not wrap around to 0, which every block would have room for */
	assert_true(allocator_round(&plain, UINT64_MAX) > UINT64_MAX / 8);
	assert_int_equal(allocator_round(&plain, 512), 512);
	assert_int_equal(allocator_round(&plain, 513), 1024);
	assert_int_equal(allocator_round(&plain, 3283393), 3283456);
	assert_int_equal(allocator_round(&four, 1200 * KIB), 1280 * KIB);
	assert_int_equal(allocator_round(&four, 3 * MIB), 3 * MIB);
	assert_int_equal(allocator_round(&four, 3283393), 3670016);
	assert_int_equal(allocator_round(&four, 8 * MIB), 8 * MIB);
	assert_int_equal(allocator_round(&four, 1000), 1024); /* too small for divisions */
}

static void test_segment(void **state)
{
	struct allocator_rules plain = allocator_rules_default(0);

	(void)state;
	assert_int_equal(allocator_segment_bytes(&plain, 512), 2 * MIB);
	assert_int_equal(allocator_segment_bytes(&plain, MIB), 2 * MIB);
	assert_int_equal(allocator_segment_bytes(&plain, MIB + 512), 20 * MIB);
	assert_int_equal(allocator_segment_bytes(&plain, 10 * MIB - 512), 20 * MIB);
	assert_int_equal(allocator_segment_bytes(&plain, 10 * MIB), 10 * MIB);
	assert_int_equal(allocator_segment_bytes(&plain, 10 * MIB + 512), 12 * MIB);
}

static void test_heap_merges(void **state)
{
	struct heap_range range = { .addr = 0x100000, .bytes = 20 * MIB, .large = 1 };
	struct plim_err err;
	struct mem m;
	struct heap h;
	uint32_t a, b;
	int done;

	(void)state;
	mem_init(&m, 0);
	heap_init(&h, &m);
	assert_int_equal(heap_add(&h, &range, &a, &err), 0);
	assert_int_equal(heap_split(&h, a, 3 * MIB, &err), 0);
	b = h.blocks.at[a].next;
	assert_int_equal(h.blocks.at[b].bytes, 17 * MIB);
	assert_int_equal(heap_find(&h, 0x100000 + 3 * MIB), b);
	h.blocks.at[a].alloc = 7;
	/* in use: it cannot go away */
	assert_int_equal(heap_remove(&h, range.addr, range.bytes, &done, &err), 0);
	assert_false(done);
	assert_int_equal(heap_free(&h, a), a);
	assert_int_equal(h.blocks.at[a].bytes, 20 * MIB);
	assert_int_equal(heap_find(&h, 0x100000 + 3 * MIB), HEAP_NONE);
	assert_int_equal(heap_remove(&h, range.addr, range.bytes, &done, &err), 0);
	assert_true(done);
	assert_int_equal(h.order.n, 0);
	heap_release(&h);
	assert_int_equal(m.used_bytes, 0);
}

/* Mapped pages of an expandable segment join their neighbours, of the same stream and pool only. */
static void test_heap_expands(void **state)
{
	struct heap_range one = { .addr = 0x10000000,
				  .bytes = 20 * MIB,
				  .large = 1,
				  .expandable = 1 },
			  two = one;
	struct plim_err err;
	struct mem m;
	struct heap h;
	uint32_t a;
	int done;

	(void)state;
	mem_init(&m, 0);
	heap_init(&h, &m);
	two.addr += 20 * MIB;
	assert_int_equal(heap_add(&h, &two, &a, &err), 0);
	assert_int_equal(heap_add(&h, &one, &a, &err), 0);
	assert_int_equal(h.order.n, 1);
	assert_int_equal(h.blocks.at[a].bytes, 40 * MIB);
	two.addr += 20 * MIB;
	two.stream = 1;
	assert_int_equal(heap_add(&h, &two, &a, &err), 0);
	assert_int_equal(h.order.n, 2);
	/* a hole in the middle leaves two ranges */
	assert_int_equal(heap_remove(&h, one.addr + 10 * MIB, 10 * MIB, &done, &err), 0);
	assert_true(done);
	assert_int_equal(h.order.n, 3);
	assert_int_equal(h.blocks.at[heap_find(&h, one.addr)].bytes, 10 * MIB);
	assert_int_equal(h.blocks.at[heap_find(&h, one.addr + 20 * MIB)].bytes, 20 * MIB);
	heap_release(&h);
	assert_int_equal(m.used_bytes, 0);
}

/*
 * What was there before the first event and stands at the end has the size that the snapshot shows, in
 * whatever order its blocks stand; free memory behind it does not make it loose.
 */
static void test_residents(void **state)
{
	static const struct event nothing = { TRACE_SNAPSHOT, 0, 0, 0 };
	static const struct block blocks[] = {
		{ BASE + 10 * MIB, 0, TRACE_INACTIVE, 10 * MIB },
		{ BASE + 6 * MIB, 3 * MIB, TRACE_ACTIVE, 4 * MIB },
		{ BASE + 3 * MIB + 512 * KIB, 0, TRACE_INACTIVE, 2 * MIB + 512 * KIB },
		{ BASE, 3 * MIB, TRACE_ACTIVE, 3 * MIB + 512 * KIB },
	};
	const struct device in = { &nothing, 1, blocks, 4, 20 * MIB };
	struct allocator_replay *replay;
	struct plim_err err;
	struct snapshot *t;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	t = recording(&m, &in, 1);
	assert_int_equal(allocator_replay_own(&m, t, &t->devices[0], &replay, &err), 0);
	assert_int_equal(replay->requested_before_bytes, 6 * MIB);
	assert_int_equal(replay->allocated_before_bytes, 7 * MIB + 512 * KIB);
	assert_int_equal(replay->range_bytes, 0);
	assert_int_equal(replay->faults + replay->end_faults, 0);
	allocator_replay_free(replay);
	snapshot_free(t);
	assert_int_equal(m.used_bytes, 0);
}

/* Explained to its last event, or the test ends.  The caller frees the program. */
static struct program *explained(struct mem *m, const struct device *in, struct snapshot **t)
{
	struct allocator_replay *replay;
	struct allocator_check check;
	struct program *p = NULL;
	struct plim_err err;

	*t = recording(m, in, 1);
	assert_int_equal(allocator_replay_own(m, *t, &(*t)->devices[0], &replay, &err), 0);
	assert_int_equal(allocator_explain(m, *t, &(*t)->devices[0], replay, &p, &check, &err), 0);
	assert_int_equal(check.diverged_at, TRACE_NONE);
	allocator_replay_free(replay);
	return p;
}

/*
 * A MemPool that was gone at the end was taken for the default pool, and its recording not explained: the
 * second request passes over the first one's segment, and what is released shows whose that was.
 */
static void test_pool_is_gone(void **state)
{
	const uint64_t pool = BASE + 64 * MIB;
	const struct event events[] = {
		{ TRACE_SEGMENT_ALLOC, pool, 20 * MIB, 0 },
		{ TRACE_ALLOC, pool, 4 * MIB, 0 },
		{ TRACE_SEGMENT_ALLOC, BASE, 20 * MIB, 0 },
		{ TRACE_ALLOC, BASE, 4 * MIB, 0 },
		{ TRACE_ALLOC, pool + 4 * MIB, 4 * MIB, 0 },
		{ TRACE_FREE_REQUESTED, pool, 4 * MIB, 0 },
		{ TRACE_FREE_COMPLETED, pool, 4 * MIB, 0 },
		{ TRACE_FREE_REQUESTED, BASE, 4 * MIB, 0 },
		{ TRACE_FREE_COMPLETED, BASE, 4 * MIB, 0 },
		{ TRACE_FREE_REQUESTED, pool + 4 * MIB, 4 * MIB, 0 },
		{ TRACE_FREE_COMPLETED, pool + 4 * MIB, 4 * MIB, 0 },
		{ TRACE_SEGMENT_FREE, BASE, 20 * MIB, 0 },
		{ TRACE_SEGMENT_FREE, pool, 20 * MIB, 0 },
	};
	const struct device in = { .events = events,
				   .event_count = sizeof(events) / sizeof(*events) };
	struct program *p;
	struct snapshot *t;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	p = explained(&m, &in, &t);
	assert_int_equal(p->pools, 2);
	assert_int_equal(p->requests.at[0].pool, 1);
	assert_int_equal(p->requests.at[1].pool, 0);
	assert_int_equal(p->requests.at[2].pool, 1);
	assert_int_equal(p->ops.at[p->ops.n - 2].kind, PROGRAM_DROP_POOL);
	assert_int_equal(p->ops.at[p->ops.n - 2].request, 1);
	assert_int_equal(p->ops.at[p->ops.n - 1].kind, PROGRAM_EMPTY_CACHE);
	program_free(p);
	snapshot_free(t);
	assert_int_equal(m.used_bytes, 0);
}

/*
 * Two events with empty stacks were taken for two of one stack, and empty_cache() before a request for that
 * request's own doing.
 */
static void test_empty_stacks_tell_nothing(void **state)
{
	static const struct event events[] = {
		{ TRACE_SEGMENT_ALLOC, BASE, 20 * MIB, 0 },
		{ TRACE_ALLOC, BASE, 4 * MIB, 0 },
		{ TRACE_FREE_REQUESTED, BASE, 4 * MIB, 0 },
		{ TRACE_FREE_COMPLETED, BASE, 4 * MIB, 0 },
		{ TRACE_SEGMENT_FREE, BASE, 20 * MIB, 0 },
		{ TRACE_SEGMENT_ALLOC, BASE, 20 * MIB, 0 },
		{ TRACE_ALLOC, BASE, 4 * MIB, 0 },
		{ TRACE_FREE_REQUESTED, BASE, 4 * MIB, 0 },
		{ TRACE_FREE_COMPLETED, BASE, 4 * MIB, 0 },
		{ TRACE_SEGMENT_FREE, BASE, 20 * MIB, 0 },
	};
	const struct device in = { .events = events,
				   .event_count = sizeof(events) / sizeof(*events),
				   .empty_stacks = 1 };
	struct program *p;
	struct snapshot *t;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	p = explained(&m, &in, &t);
	assert_int_equal(p->ops.at[2].kind, PROGRAM_FREE_DONE);
	assert_int_equal(p->ops.at[3].kind, PROGRAM_EMPTY_CACHE);
	program_free(p);
	snapshot_free(t);
	assert_int_equal(m.used_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_segment),
		cmocka_unit_test(test_heap_merges),
		cmocka_unit_test(test_heap_expands),
		cmocka_unit_test(test_residents),
		cmocka_unit_test(test_pool_is_gone),
		cmocka_unit_test(test_empty_stacks_tell_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
