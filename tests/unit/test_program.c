/* Requests without addresses: those of before first, by address; then births, ends and attempts in turn. */
#include "program/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "recording.h"

#define A BASE
#define B (BASE + 0x100000)
#define C (BASE + 0x200000)
#define D (BASE + 0x300000)

/* C and D lived before (D's end was asked for), A is allocated twice; a failure between. */
static const struct event events[] = {
	{ TRACE_SEGMENT_ALLOC, A, 20u << 20, 0 },
	{ TRACE_ALLOC, A, 700, 1 },
	{ TRACE_ALLOC, B, 800, 0 },
	{ TRACE_FREE_REQUESTED, A, 700, 1 },
	{ TRACE_OOM, 12345, 1024, 2 },
	{ TRACE_FREE_COMPLETED, A, 700, 1 },
	{ TRACE_FREE_COMPLETED, D, 40, 0 },
	{ TRACE_SNAPSHOT, 0, 0, 0 },
	{ TRACE_ALLOC, A, 900, 1 },
	{ TRACE_FREE_REQUESTED, C, 30, 0 },
};
static const struct block blocks[] = {
	{ A, 900, TRACE_ACTIVE },
	{ B, 800, TRACE_ACTIVE },
	{ C, 30, TRACE_ACTIVE_PENDING_FREE },
};

static const struct {
	uint64_t bytes;
	int64_t stream;
} requests[] = { { 30, 0 }, { 40, 0 }, { 700, 1 }, { 800, 0 }, { 1024, 2 }, { 900, 1 } };

static const struct {
	uint32_t request;
	enum program_op_kind kind;
} ops[] = {
	{ 0, PROGRAM_ALLOC },   { 1, PROGRAM_ALLOC },     { 1, PROGRAM_FREE },
	{ 2, PROGRAM_ALLOC },   { 3, PROGRAM_ALLOC },     { 2, PROGRAM_FREE },
	{ 4, PROGRAM_ATTEMPT }, { 2, PROGRAM_FREE_DONE }, { 1, PROGRAM_FREE_DONE },
	{ 5, PROGRAM_ALLOC },   { 0, PROGRAM_FREE },
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct device recorded = { events, COUNT(events), blocks, COUNT(blocks), 20u << 20 };

static void test_requests(void **state)
{
	struct program *p;
	struct plim_err err;
	struct snapshot *t;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	t = recording(&m, &recorded, 1);
	assert_int_equal(program_from_trace(&m, t, &t->devices[0], &p, &err), 0);
	assert_int_equal(p->requests_before, 2);
	assert_int_equal(p->requests.n, COUNT(requests));
	for (size_t i = 0; i < COUNT(requests); i++) {
		assert_int_equal(p->requests.at[i].bytes, requests[i].bytes);
		assert_int_equal(t->streams.at[p->requests.at[i].stream],
				 requests[i].stream * STREAM_SHOWN);
	}
	assert_int_equal(p->ops.n, COUNT(ops));
	for (size_t i = 0; i < COUNT(ops); i++)
		if (p->ops.at[i].request != ops[i].request || p->ops.at[i].kind != ops[i].kind)
			fail_msg("op %zu is %u of request %u", i, p->ops.at[i].kind,
				 p->ops.at[i].request);
	program_free(p);
	program_free(NULL);
	snapshot_free(t);
	assert_int_equal(m.used_bytes, 0);
}

static void same_order(const struct program *p, const struct program *delayed,
		       const uint32_t *order)
{
	for (size_t i = 0; i < p->ops.n; i++)
		if (memcmp(&delayed->ops.at[i], &p->ops.at[order[i]], sizeof(*p->ops.at)) != 0)
			fail_msg("op %zu is %u of request %u", i, delayed->ops.at[i].kind,
				 delayed->ops.at[i].request);
}

/* Other streams are done at once, or take twice as long; what is done with in the next op stays. */
static void test_other_streams(void **state)
{
	static const uint32_t at_once[] = { 0, 1, 2, 8, 3, 4, 5, 7, 6, 9, 10 },
			      twice[] = { 0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8 };
	struct program *p, delayed;
	struct plim_err err;
	struct snapshot *t;
	struct mem m;
	int any;

	(void)state;
	mem_init(&m, 0);
	t = recording(&m, &recorded, 1);
	assert_int_equal(program_from_trace(&m, t, &t->devices[0], &p, &err), 0);
	assert_int_equal(program_delayed(&m, p, 0, &delayed, &any, &err), 0);
	assert_true(any);
	same_order(p, &delayed, at_once);
	program_delayed_free(&m, &delayed);
	assert_int_equal(program_delayed(&m, p, 2, &delayed, &any, &err), 0);
	same_order(p, &delayed, twice);
	program_delayed_free(&m, &delayed);
	p->ops.n = 5; /* nothing waits up to there */
	assert_int_equal(program_delayed(&m, p, 0, &delayed, &any, &err), 0);
	assert_false(any);
	program_free(p);
	snapshot_free(t);
	assert_int_equal(m.used_bytes, 0);
}

/* A device without events asks for nothing, or for what stands there. */
static void test_no_events(void **state)
{
	const struct device in[] = {
		recorded,
		{ .events = NULL },
		{ .blocks = blocks, .block_count = 3, .segment_bytes = 20u << 20 }
	};
	struct program *p;
	struct plim_err err;
	struct snapshot *t;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	t = recording(&m, in, 3);
	assert_int_equal(program_from_trace(&m, t, &t->devices[1], &p, &err), 0);
	assert_int_equal(p->ops.n + p->requests.n + p->requests_before, 0);
	program_free(p);
	assert_int_equal(program_from_trace(&m, t, &t->devices[2], &p, &err), 0);
	assert_int_equal(p->requests_before, 3);
	assert_int_equal(p->ops.n, 4); /* the third one's end was asked for */
	assert_int_equal(p->ops.at[3].kind, PROGRAM_FREE);
	program_free(p);
	snapshot_free(t);
	assert_int_equal(m.used_bytes, 0);
}

/* Each allocation fails in turn: no program, nothing lost, the status is the failure's. */
static void test_no_memory(void **state)
{
	struct program *p;
	struct plim_err err;
	struct snapshot *t;
	struct mem m;
	uint64_t used;
	int64_t n = 0;
	enum plim_status st;

	(void)state;
	mem_init(&m, 0);
	t = recording(&m, &recorded, 1);
	used = m.used_bytes;
	do {
		atomic_store(&m.fail_after, n++);
		st = program_from_trace(&m, t, &t->devices[0], &p, &err);
		atomic_store(&m.fail_after, -1);
		if (!st)
			program_free(p);
		else
			assert_null(p);
		assert_true(!st || (st == PLIM_E_NOMEM && err.status == st));
		assert_int_equal(m.used_bytes, used);
	} while (st);
	assert_true(n > 4);
	m.limit_bytes = used + 64;
	assert_int_equal(program_from_trace(&m, t, &t->devices[0], &p, &err), PLIM_E_LIMIT);
	assert_int_equal(m.used_bytes, used);
	snapshot_free(t);
	assert_int_equal(m.used_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_no_events),
		cmocka_unit_test(test_other_streams),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
