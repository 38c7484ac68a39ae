/* What results point to: every sentence is kept, however many and however long; a failure loses nothing silently. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Sentence 17 and note 33 vanished: lists had a fixed number of places. */
static void test_many_lines(void **state)
{
	struct mem m;
	struct arena a;
	struct plim_err err = { 0 };
	const char **out;
	size_t n;

	(void)state;
	mem_init(&m, 0);
	arena_init(&a, &m);
	struct lines l = { .arena = &a, .err = &err };
	for (int i = 0; i < 100; i++)
		lines_add(&l, "sentence %d", i);
	assert_int_equal(lines_keep(&l, &out, &n), PLIM_OK);
	assert_int_equal(n, 100);
	for (int i = 0; i < 100; i++) {
		char want[32];

		snprintf(want, sizeof(want), "sentence %d", i);
		assert_string_equal(out[i], want);
	}
	arena_release(&a);
	assert_int_equal(m.used_bytes, 0);
}

/* A path of 2,812 bytes came back cut behind 2,047. */
static void test_long_text(void **state)
{
	struct mem m;
	struct arena a;
	struct plim_err err = { 0 };
	char path[3000];
	const char *kept;

	(void)state;
	mem_init(&m, 0);
	arena_init(&a, &m);
	for (size_t n = 2040; n < sizeof(path); n += 7) {
		memset(path, 'x', n);
		path[n] = 0;
		kept = arena_text(&a, &err, "%s!", path);
		assert_non_null(kept);
		assert_int_equal(strlen(kept), n + 1);
		assert_int_equal(kept[n], '!');
	}
	arena_release(&a);
	assert_int_equal(m.used_bytes, 0);
}

static enum plim_status put_lines(struct mem *m, struct arena *a, struct plim_err *err)
{
	struct lines l = { .arena = a, .err = err };
	char path[3000];
	const char **out;
	size_t n;
	enum plim_status st;

	(void)m;
	memset(path, 'y', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	for (int i = 0; i < 20; i++)
		lines_add(&l, "%d %s", i, path);
	st = lines_keep(&l, &out, &n);
	assert_int_equal(n, st ? 0 : 20);
	return st;
}

/* Each allocation fails in turn: the list fails as a whole, nothing leaks. */
static void test_no_memory(void **state)
{
	enum plim_status st = PLIM_E_NOMEM;
	unsigned failures = 0;

	(void)state;
	for (int64_t at = 0; st; at++) {
		struct mem m;
		struct arena a;
		struct plim_err err = { 0 };

		mem_init(&m, 0);
		m.fail_after = at;
		arena_init(&a, &m);
		st = put_lines(&m, &a, &err);
		failures += st != PLIM_OK;
		assert_true(!st || st == PLIM_E_NOMEM);
		assert_int_equal(st, err.status);
		arena_release(&a);
		assert_int_equal(m.used_bytes, 0);
	}
	assert_true(failures > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_lines),
		cmocka_unit_test(test_long_text),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
