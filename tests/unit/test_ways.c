/*
 * What is read must not depend on how: rows in a straight line or by the general machine, allocations
 * paired afterwards or by a second thread while rows come.
 */
#include "snapshot/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const size_t every_rows[] = { 1, 2, 7, 1000, 5000, 0 };
#define EVERY (sizeof(every_rows) / sizeof(every_rows[0]))

#define same_column(x, y, column) \
	assert_memory_equal((x)->column, (y)->column, (x)->n * sizeof(*(x)->column))

static void same_device(const struct snapshot_device *x, const struct snapshot_device *y)
{
	assert_int_equal(x->events.n, y->events.n);
	assert_int_equal(x->alloc_count, y->alloc_count);
	assert_int_equal(x->contradictions, y->contradictions);
	assert_int_equal(x->allocs_before, y->allocs_before);
	assert_int_equal(x->reserved_before_bytes, y->reserved_before_bytes);
	assert_int_equal(x->stale_events, y->stale_events);
	if (x->alloc_count)
		assert_memory_equal(x->allocs, y->allocs, x->alloc_count * sizeof(*x->allocs));
	if (!x->events.n)
		return;
	same_column(&x->events, &y->events, action);
	same_column(&x->events, &y->events, addr);
	same_column(&x->events, &y->events, size);
	same_column(&x->events, &y->events, time_us);
	same_column(&x->events, &y->events, stack);
	same_column(&x->events, &y->events, stream);
	same_column(&x->events, &y->events, alloc);
	assert_true(!x->events.pool == !y->events.pool);
	if (x->events.pool)
		same_column(&x->events, &y->events, pool);
}

static void same_trace(const struct snapshot *x, const struct snapshot *y)
{
	assert_int_equal(x->device_count, y->device_count);
	assert_int_equal(x->pools.n, y->pools.n);
	assert_memory_equal(x->pools.at, y->pools.at, x->pools.n * sizeof(*x->pools.at));
	for (size_t d = 0; d < x->device_count; d++)
		same_device(&x->devices[d], &y->devices[d]);
}

/* ---- recordings of the test data ---- */

static void test_recordings(void **state)
{
	/* from its beginning; cut (deaths); with several streams; JSON is one thread's work too */
	static const char *const names[] = { "llama_s_ckpt.pickle.xz", "oom_eval.pickle.xz",
					     "streams.pickle.xz", "formats/basic.pickle" };
	struct snapshot_read_options one = { .threads = 1 }, two = { .threads = 2 };
	struct snapshot *alone, *followed;
	struct plim_err err;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[1024];

		snprintf(path, sizeof(path), "%s/%s", getenv("PLIMSOLL_TEST_DATA"), names[i]);
		assert_int_equal(snapshot_read(&m, path, &one, &alone, &err), 0);
		for (size_t k = 2; k < EVERY; k++) {
			two.follow_rows = every_rows[k];
			assert_int_equal(snapshot_read(&m, path, &two, &followed, &err), 0);
			same_trace(alone, followed);
			snapshot_free(followed);
		}
		snapshot_free(alone);
	}
	assert_int_equal(m.used_bytes, 0);
}

/* ---- small ones; those of several devices, or with a hole, are followed in vain ---- */

struct bytes {
	struct mem *m;
	VEC(uint8_t) at;
};

static enum plim_status keep(void *ctx, const void *bytes, size_t n, struct plim_err *err)
{
	struct bytes *b = ctx;
	enum plim_status st = vec_need(b->m, &b->at, n, err);

	if (!st)
		memcpy(b->at.at + b->at.n, bytes, n);
	b->at.n += st ? 0 : n;
	return st;
}

static void word(struct pickle_writer *w, const char *text)
{
	pickle_write_str(w, text, strlen(text));
}

/* Of what a snapshot is made. */
struct recipe {
	int devices; /* each with an own list of events */
	int hole;    /* in time: a ring that was re-armed smaller */
	int pools;   /* different ids; 0: events do not have one */
};

static void event(struct pickle_writer *w, const char *action, uint64_t addr, int64_t time_us,
		  int pool)
{
	pickle_write_dict(w);
	word(w, "action");
	word(w, action);
	word(w, "addr");
	pickle_write_uint(w, addr);
	word(w, "size");
	pickle_write_uint(w, 512);
	word(w, "stream");
	pickle_write_int(w, 0);
	word(w, "time_us");
	pickle_write_int(w, time_us);
	word(w, "frames");
	pickle_write_list(w);
	pickle_write_close(w);
	if (pool >= 0) {
		word(w, "pool_id");
		pickle_write_pair(w, pool % 2 ? 0 : 100 * pool, pool % 2 ? 100 * pool : 0);
	}
	pickle_write_close(w);
}

#define ALLOCATIONS 3000

static void write_snapshot(struct bytes *b, const struct recipe *r)
{
	struct pickle_writer *w = pickle_writer_new(b->m, (struct pickle_sink){ b, keep }, NULL);

	pickle_write_dict(w);
	word(w, "segments");
	pickle_write_list(w);
	pickle_write_close(w);
	word(w, "device_traces");
	pickle_write_list(w);
	for (int d = 0; d < r->devices; d++) {
		pickle_write_list(w);
		for (int i = 0; i < ALLOCATIONS; i++) {
			uint64_t addr = (uint64_t)(1 + i % 5) << 20;
			int late = !r->hole || i <= ALLOCATIONS / 3 || i >= ALLOCATIONS / 3 * 2;
			int64_t time_us = (late ? 1000000 : 0) + i;
			int pool = r->pools ? i / 7 % r->pools : -1;

			event(w, "alloc", addr, time_us, pool);
			event(w, "free_requested", addr, time_us, pool);
			event(w, "free_completed", addr, time_us, pool);
		}
		pickle_write_close(w);
	}
	pickle_write_close(w);
	pickle_write_close(w);
	assert_int_equal(pickle_write_end(w, NULL), 0);
	pickle_writer_free(w);
}

static void compare(struct mem *m, const struct bytes *b)
{
	struct snapshot_read_options one = { .flags = TRACE_READ_GENERAL }, two = { .threads = 2 };
	struct snapshot *alone, *followed;
	struct plim_err err;

	assert_int_equal(snapshot_read_bytes(m, b->at.at, b->at.n, &one, &alone, &err), 0);
	for (size_t k = 0; k < EVERY; k++) {
		two.follow_rows = every_rows[k];
		assert_int_equal(snapshot_read_bytes(m, b->at.at, b->at.n, &two, &followed, &err),
				 0);
		same_trace(alone, followed);
		snapshot_free(followed);
	}
	snapshot_free(alone);
}

static void test_made_up(void **state)
{
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	for (int i = 0; i < 3 * 2 * 3; i++) {
		/* so many pools that some share a place in the table of pairs */
		struct recipe r = { .devices = 1 + i % 3, .hole = i / 3 % 2, .pools = i / 6 * 15 };
		struct bytes b = { .m = &m };

		write_snapshot(&b, &r);
		compare(&m, &b);
		vec_release(&m, &b.at);
	}
	assert_int_equal(m.used_bytes, 0);
}

/* Damage and refused memory while the thread is at work: an error, and nothing left behind. */
static void test_broken_off(void **state)
{
	struct snapshot_read_options two = { .threads = 2, .follow_rows = 50 };
	struct bytes b;
	struct plim_err err;
	struct mem own, m;
	struct snapshot *t;
	int refused = 0;

	(void)state;
	mem_init(&own, 0);
	b = (struct bytes){ .m = &own };
	write_snapshot(&b, &(struct recipe){ .devices = 1 });
	mem_init(&m, 0);
	for (size_t n = b.at.n / 50; n < b.at.n; n += b.at.n / 50) {
		assert_int_not_equal(snapshot_read_bytes(&m, b.at.at, n, &two, &t, &err), 0);
		assert_int_equal(m.used_bytes, 0);
	}
	for (int64_t n = 0; n < 150; n++) {
		enum plim_status st;

		atomic_store(&m.fail_after, n);
		st = snapshot_read_bytes(&m, b.at.at, b.at.n, &two, &t, &err);
		assert_true(!st || st == PLIM_E_NOMEM);
		refused += st != 0;
		if (!st)
			snapshot_free(t);
		assert_int_equal(m.used_bytes, 0);
	}
	assert_true(refused > 20);
	vec_release(&own, &b.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recordings),
		cmocka_unit_test(test_made_up),
		cmocka_unit_test(test_broken_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
