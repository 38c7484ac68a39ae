/* Rounding as PyTorch rounds (worked values of its rules), and the heap that a replay stands on. */
#include "allocator/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KIB 1024ull
#define MIB (1024 * KIB)

static void test_round(void **state)
{
	struct allocator_rules plain = allocator_rules_default(0), four = plain;

	(void)state;
	for (int i = 0; i < TRACE_ROUNDUP_ENTRIES; i++)
		four.roundup_divisions[i] = 4;
	assert_int_equal(allocator_round(&plain, 1), 512);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_segment),
		cmocka_unit_test(test_heap_merges),
		cmocka_unit_test(test_heap_expands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
