/*
 * Checks of invariants see what they are for: each structure is whole, then one thing in it is broken, and
 * the check says what.
 */
#include "allocator/caching.h"
#include "allocator/heap.h"
#include "allocator/placement.h"
#include "checkpoint/checkpoint.h"
#include "plan/step/tape.h"
#include "program/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static struct plim_err err;

static void test_order(void **state)
{
	struct freeset o = { .shelves = NULL };
	struct freeset_shelf *s;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	assert_null(freeset_check(&o));
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(
			freeset_insert(&m, &o, &(struct freeset_key){ 512, 512 * i, i }, &err), 0);
	assert_null(freeset_check(&o));
	s = &o.shelves[1];
	s->n++;
	assert_non_null(freeset_check(&o));
	s->n--;
	s->parts.at[0].chunk->at[1].addr = 0;
	assert_non_null(freeset_check(&o));
	s->parts.at[0].chunk->at[1].addr = 512;
	o.filled[0] = 0;
	assert_non_null(freeset_check(&o));
	o.filled[0] = 2;
	assert_null(freeset_check(&o));
	freeset_release(&m, &o);
}

/* Ranges that are empty, wrap around or overlap are not added: recordings that contradict themselves have them. */
static void test_heap(void **state)
{
	static const struct heap_range bad[] = {
		{ .addr = 4 * MIB, .bytes = 0 },         { .addr = 4 * MIB, .bytes = UINT64_MAX },
		{ .addr = 21 * MIB, .bytes = 2 * MIB },  { .addr = 19 * MIB, .bytes = 2 * MIB },
		{ .addr = 10 * MIB, .bytes = 30 * MIB },
	};
	struct heap_range range = { .addr = 20 * MIB, .bytes = 2 * MIB };
	uint32_t block, other;
	struct mem m;
	struct heap h;
	int done;

	(void)state;
	mem_init(&m, 0);
	heap_init(&h, &m);
	assert_int_equal(heap_add(&h, &range, &block, &err), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(heap_add(&h, &bad[i], &other, &err), 0);
		assert_int_equal(other, HEAP_NONE);
		assert_null(heap_check(&h));
	}
	assert_int_equal(heap_remove(&h, 20 * MIB, 0, &done, &err), 0);
	assert_false(done);
	assert_null(heap_check(&h));
	h.blocks.at[block].bytes--;
	assert_non_null(heap_check(&h));
	h.blocks.at[block].bytes++;
	h.ranges.at[0].bytes++;
	assert_non_null(heap_check(&h));
	heap_release(&h);
}

static void test_caching(void **state)
{
	static const int64_t streams[] = { 0 };
	struct caching_setup setup = { .stream_values = streams,
				       .streams = 1,
				       .pools = 1,
				       .limit_bytes = UINT64_MAX,
				       .device_bytes = 1024 * MIB };
	struct caching_request rq = { 3 * MIB, 0, 0, 0 };
	struct placement placement;
	struct caching c;
	uint32_t block;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	assert_int_equal(allocator_rules_parse("", 0, &setup.rules, &err), 0);
	placement_init(&placement, &m, ALLOCATOR_LOWEST, UINT64_MAX, &err);
	setup.driver = placement_driver(&placement);
	assert_int_equal(caching_init(&c, &m, &setup, &err), 0);
	assert_int_equal(caching_malloc(&c, &rq, &block), 0);
	assert_null(caching_check(&c));
	c.blocks.at[block].bytes -= 512;
	assert_string_equal(caching_check(&c), "blocks do not tile their segment");
	c.blocks.at[block].bytes += 512;
	c.stats.count[ALLOCATOR_ACTIVE_BYTES][0].current++;
	assert_string_equal(caching_check(&c), "statistics are not the sums of blocks");
	c.stats.count[ALLOCATOR_ACTIVE_BYTES][0].current--;
	c.blocks.at[block].allocated = 0;
	assert_string_equal(caching_check(&c), "free neighbours are not merged");
	c.blocks.at[block].allocated = 1;
	assert_null(caching_check(&c));
	caching_release(&c);
	placement_release(&placement);
}

static void test_program(void **state)
{
	struct program *p;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	assert_int_equal(program_new(&m, &p, &err), 0);
	assert_int_equal(
		vec_push(&m, &p->requests, ((struct program_request){ 512, 0, 0, 0 }), &err), 0);
	assert_string_equal(program_check(p), "a request is never made");
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			vec_push(&m, &p->ops, ((struct program_op){ 0, 0, PROGRAM_ALLOC }), &err),
			0);
	assert_string_equal(program_check(p), "a request is made twice");
	p->ops.at[1].kind = PROGRAM_FREE_DONE;
	assert_null(program_check(p));
	p->ops.at[0].kind = PROGRAM_FREE;
	assert_string_equal(program_check(p), "a request ends before it is made");
	p->ops.at[0].request = 1;
	assert_string_equal(program_check(p), "an op is of a request that does not exist");
	program_free(p);
}

static void test_tape(void **state)
{
	struct tape t;
	struct mem m;
	uint32_t store;

	(void)state;
	mem_init(&m, 0);
	assert_int_equal(tape_init(&t, &m, NULL, &err), 0);
	store = tape_store(&t, 512, 0);
	assert_null(tape_check(&t));
	t.stores.at[store].refs = 0;
	assert_string_equal(tape_check(&t), "a store has no owner, and is not spare");
	t.stores.at[store].refs = 1;
	t.categories.n = 0;
	assert_non_null(tape_check(&t));
	t.categories.n = 1;
	tape_let(&t, store);
	assert_null(tape_check(&t));
	t.stores.at[store].refs = 1;
	assert_string_equal(tape_check(&t), "a store is spare twice, or has an owner");
	/* the first failure stays: what comes after it went well, or otherwise wrong */
	tape_fail(&t, PLIM_E_LIMIT);
	tape_fail(&t, PLIM_OK);
	tape_fail(&t, PLIM_E_NOMEM);
	assert_int_equal(t.failed, PLIM_E_LIMIT);
	program_free(t.program);
	tape_release(&t);
}

static void test_checkpoint(void **state)
{
	char path[4096];
	struct ckpt c;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	snprintf(path, sizeof(path), "%s/checkpoints/tensor.pt", getenv("PLIMSOLL_TEST_DATA"));
	ckpt_init(&c, &m);
	assert_int_equal(ckpt_read(&c, path, &err), 0);
	assert_null(ckpt_check(&c));
	assert_true(c.tensors.n > 0);
	c.tensors.at[0].extent = (uint32_t)c.extents.n;
	assert_string_equal(ckpt_check(&c), "a tensor is in an extent that does not exist");
	c.tensors.at[0].extent = 0;
	c.extents.at[0].file = 9;
	assert_non_null(ckpt_check(&c));
	c.extents.at[0].file = 0;
	c.tensors.at[0].dims = UINT64_MAX;
	assert_string_equal(ckpt_check(&c), "a tensor's sizes are not there");
	ckpt_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),   cmocka_unit_test(test_heap),
		cmocka_unit_test(test_caching), cmocka_unit_test(test_program),
		cmocka_unit_test(test_tape),    cmocka_unit_test(test_checkpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
