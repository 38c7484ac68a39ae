/* Opcodes to values and records, the writer read back, and every allocation failing in turn. */
#include "diagnose/diagnose.h"

#include <plimsoll/recording.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct read {
	struct mem m;
	struct pickle_heap heap;
	struct pickle_value root;
	struct plim_err err;
	enum plim_status st;
};

static void decode(struct read *r, const void *bytes, size_t n, unsigned flags)
{
	struct source *src;

	mem_init(&r->m, 64u << 20);
	pickle_heap_init(&r->heap, &r->m);
	r->st = source_open_memory(&r->m, "test", bytes, n, SOURCE_MEMORY_PLAIN, NULL, &src,
				   &r->err);
	assert_int_equal(r->st, 0);
	r->st = pickle_read(&r->heap, src, flags, NULL, &r->root, &r->err);
	source_close(src);
}

static void done(struct read *r)
{
	pickle_heap_release(&r->heap);
	assert_int_equal(r->m.used_bytes, 0);
}

#define DECODE(r, text, flags) decode(r, text, sizeof(text) - 1, flags)

static void test_scalars(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		enum pickle_kind kind;
		uint64_t bits;
	} rows[] = {
		{ "N.", 2, PICKLE_NONE, 0 },
		{ "\x88.", 2, PICKLE_BOOL, 1 },
		{ "\x89.", 2, PICKLE_BOOL, 0 },
		{ "K\xff.", 3, PICKLE_INT, 255 },
		{ "M\xff\xff.", 4, PICKLE_INT, 65535 },
		{ "J\xff\xff\xff\xff.", 6, PICKLE_INT, UINT64_MAX },
		{ "\x8a\0.", 3, PICKLE_INT, 0 },
		{ "\x8a\x01\x80.", 4, PICKLE_INT, (uint64_t)-128 },
		{ "\x8a\x06\0\0\0\0\0\x7f.", 9, PICKLE_INT, 0x7f0000000000 },
		{ "\x8a\x09\0\0\0\0\0\0\0\x80\0.", 12, PICKLE_UINT, 1ull << 63 },
		{ "\x8b\x02\0\0\0\x34\x12.", 8, PICKLE_INT, 0x1234 },
		{ "I-7\n.", 5, PICKLE_INT, (uint64_t)-7 },
		{ "I01\n.", 5, PICKLE_BOOL, 1 },
		{ "L18446744073709551615L\n.", 24, PICKLE_UINT, UINT64_MAX },
		{ "G\x3f\xf8\0\0\0\0\0\0.", 10, PICKLE_FLOAT, 0x3ff8000000000000 },
		{ "F1.5\n.", 6, PICKLE_FLOAT, 0x3ff8000000000000 },
		{ "K\1K\2"
		  "0.",
		  6, PICKLE_INT, 1 }, /* POP */
		{ "K\1(K\2K\3"
		  "1.",
		  9, PICKLE_INT, 1 }, /* POP_MARK */
	};
	struct read r;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		decode(&r, rows[i].bytes, rows[i].n, 0);
		assert_int_equal(r.st, 0);
		assert_int_equal(r.root.kind, rows[i].kind);
		assert_true(r.root.bits == rows[i].bits);
		done(&r);
	}
}

/* Beyond 64 bits an integer is the same as text and as LONG1. */
static void test_decimals(void **state)
{
	static const struct {
		const char *text, *bytes;
		size_t n, length;
	} rows[] = {
		{ "L18446744073709551616L\n.", "\0\0\0\0\0\0\0\0\1", 24, 9 },
		{ "L-18446744073709551616L\n.", "\0\0\0\0\0\0\0\0\xff", 25, 9 },
		{ "L-9223372036854775809L\n.", "\xff\xff\xff\xff\xff\xff\xff\x7f\xff", 24, 9 },
		{ "I0000000000000000000000018446744073709551616\n.", "\0\0\0\0\0\0\0\0\1", 46, 9 },
		{ "L170141183460469231731687303715884105728L\n.",
		  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\0", 43, 17 }, /* 2**127 */
		{ "L-340282366920938463463374607431768211457L\n.",
		  "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", 44,
		  17 }, /* -2**128 - 1 */
	};
	struct read r;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct intern_entry *item;

		decode(&r, rows[i].text, rows[i].n, 0);
		assert_int_equal(r.st, 0);
		assert_int_equal(r.root.kind, PICKLE_BIGINT);
		item = &r.heap.strings.at[r.root.bits];
		assert_int_equal(item->n, rows[i].length);
		assert_memory_equal(item->bytes, rows[i].bytes, rows[i].length);
		done(&r);
	}
}

static void test_strings(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *text;
	} rows[] = {
		{ "\x8c\2ab.", 5, "ab" },
		{ "X\2\0\0\0ab.", 8, "ab" },
		{ "\x8d\2\0\0\0\0\0\0\0ab.", 12, "ab" },
		{ "U\2ab.", 5, "ab" },
		{ "T\2\0\0\0ab.", 8, "ab" },
		{ "Va\\u00e4\\U0001f600\n.", 20, "a\xc3\xa4\xf0\x9f\x98\x80" },
		{ "S'a\\n\\x41\\''\n.", 14, "a\nA'" },
		{ "\x8c\2ab\x94"
		  "0h\0.",
		  9, "ab" }, /* MEMOIZE, BINGET */
		{ "\x8c\2abq\5"
		  "0h\5.",
		  10, "ab" }, /* BINPUT */
		{ "\x8c\2abr\5\0\0\0"
		  "0j\5\0\0\0.",
		  16, "ab" },
		{ "\x8c\2abp5\n0g5\n.", 12, "ab" },
	};
	struct read r;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		decode(&r, rows[i].bytes, rows[i].n, 0);
		assert_int_equal(r.st, 0);
		assert_int_equal(r.root.kind, PICKLE_STR);
		assert_string_equal(intern_text(&r.heap.strings, (uint32_t)r.root.bits),
				    rows[i].text);
		done(&r);
	}
}

static void test_containers(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		enum pickle_kind kind;
		size_t items;
	} rows[] = {
		{ "].", 2, PICKLE_LIST, 0 },
		{ "]K\1a.", 5, PICKLE_LIST, 1 },
		{ "](K\1K\2e.", 8, PICKLE_LIST, 2 },
		{ "(K\1K\2l.", 7, PICKLE_LIST, 2 },
		{ ").", 2, PICKLE_TUPLE, 0 },
		{ "K\1\x85.", 4, PICKLE_TUPLE, 1 },
		{ "K\1K\2\x86.", 6, PICKLE_TUPLE, 2 },
		{ "K\1K\2K\3\x87.", 8, PICKLE_TUPLE, 3 },
		{ "(K\1K\2t.", 7, PICKLE_TUPLE, 2 },
		{ "}K\1K\2s.", 7, PICKLE_DICT, 2 },
		{ "}(K\1K\2K\3K\4u.", 12, PICKLE_DICT, 4 },
		{ "(K\1K\2d.", 7, PICKLE_DICT, 2 },
		{ "\x8f(K\1K\2\x90.", 8, PICKLE_SET, 2 },
		{ "(K\1\x91.", 5, PICKLE_SET, 1 },
	};
	struct read r;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		decode(&r, rows[i].bytes, rows[i].n, 0);
		assert_int_equal(r.st, 0);
		assert_int_equal(r.root.kind, rows[i].kind);
		assert_int_equal(pickle_len(&r.heap, r.root), rows[i].items);
		done(&r);
	}
}

/* Constructors are records, or are refused by name; nothing is ever run. */
static void test_calls(void **state)
{
	static const char system_call[] = "cos\nsystem\n(\x8c\4true\x85R.";
	static const char reduced[] = "cos\nsystem\n\x8c\4true\x85R.";
	static const char ordered[] = "ccollections\nOrderedDict\n)R(K\1K\2u}b.";
	struct pickle_value v;
	struct read r;
	char name[64];

	(void)state;
	(void)system_call;
	DECODE(&r, reduced, 0);
	assert_int_equal(r.st, 0);
	assert_int_equal(r.root.kind, PICKLE_CALL);
	pickle_name(&r.heap, r.root, name, sizeof(name));
	assert_string_equal(name, "os.system");
	done(&r);
	DECODE(&r, reduced, PICKLE_NO_CALLS);
	assert_int_equal(r.st, PLIM_E_FORMAT);
	assert_non_null(strstr(r.err.message, "os.system"));
	done(&r);
	DECODE(&r, ordered, 0);
	assert_int_equal(r.st, 0);
	v = pickle_item(&r.heap, r.root, PICKLE_CALL_SET);
	assert_int_equal(pickle_len(&r.heap, v), 2);
	assert_int_equal(pickle_item(&r.heap, r.root, PICKLE_CALL_STATE).kind, PICKLE_DICT);
	done(&r);
}

static void test_damage(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
	} rows[] = {
		{ "", 0 + 1 },     { "K", 1 },
		{ "\x8c\5ab", 4 }, { "h\0.", 3 },
		{ "a.", 2 },       { "e.", 2 },
		{ "(e.", 3 },      { "](K\1u.", 6 },
		{ "}(K\1u.", 6 },  { "\x80\x06.", 3 },
		{ "\xff.", 2 },    { ".", 1 },
		{ "(.", 2 },       { "K\1r\xff\xff\xff\x7f.", 8 },
		{ "\x97.", 2 },    { "I1x\n.", 5 },
		{ "Fx\n.", 4 },    { "S'a\n.", 5 },
	};
	struct read r;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		decode(&r, rows[i].bytes, rows[i].n, 0);
		assert_int_equal(r.st, PLIM_E_FORMAT);
		assert_non_null(strstr(r.err.message, "at byte"));
		done(&r);
	}
}

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

static void test_writer(void **state)
{
	static const int64_t numbers[] = { 0,  255,       256,       65535,     65536,
					   -1, INT32_MIN, INT64_MAX, INT64_MIN, 1ll << 40 };
	struct pickle_writer *w;
	struct plim_err err;
	struct bytes b = { 0 };
	struct mem m;
	struct read r;

	(void)state;
	mem_init(&m, 0);
	b.m = &m;
	w = pickle_writer_new(&m, (struct pickle_sink){ &b, keep }, &err);
	pickle_write_list(w);
	for (int i = 0; i < 2500; i++) /* more than two batches, more than one frame */
		pickle_write_str(w, "some text that fills the frame, again and again",
				 (size_t)(i % 40));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		pickle_write_int(w, numbers[i]);
	pickle_write_uint(w, UINT64_MAX);
	pickle_write_pair(w, 1, -2);
	pickle_write_close(w);
	assert_int_equal(pickle_write_end(w, &err), 0);
	pickle_writer_free(w);
	decode(&r, b.at.at, b.at.n, 0);
	assert_int_equal(r.st, 0);
	assert_int_equal(pickle_len(&r.heap, r.root), 2512);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		assert_true((int64_t)pickle_item(&r.heap, r.root, 2500 + i).bits == numbers[i]);
	assert_int_equal(pickle_item(&r.heap, r.root, 2510).kind, PICKLE_UINT);
	assert_int_equal(pickle_len(&r.heap, pickle_item(&r.heap, r.root, 2511)), 2);
	done(&r);
	vec_release(&m, &b.at);
	assert_int_equal(m.used_bytes, 0);
}

/* Reading, replaying and explaining with the n-th allocation refused: an error, and nothing left behind. */
static void test_no_memory(void **state)
{
	char path[1024];
	struct plim_err err;
	int failures = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s/formats/basic.pickle", getenv("PLIMSOLL_TEST_DATA"));
	for (int64_t n = 0;; n++) {
		struct allocator_replay *replay = NULL;
		struct snapshot *t = NULL;
		struct mem m;
		enum plim_status st;

		mem_init(&m, 0);
		atomic_store(&m.fail_after, n);
		st = snapshot_read(&m, path, NULL, &t, &err);
		if (!st)
			st = allocator_replay_own(&m, t, &t->devices[0], &replay, &err);
		if (!st && replay->ooms.n) {
			struct timeline_categories categories;
			struct timeline_steps steps = { 0 }, periods = { 0 };
			struct findings_death d;
			struct timeline tl;
			struct findings_input in = { .tl = &tl,
						     .categories = &categories,
						     .steps = &steps,
						     .periods = &periods };

			timeline_walk(&tl, t, &t->devices[0], replay);
			st = timeline_categorize(&m, &tl, &categories, &err);
			if (!st)
				st = timeline_find_steps(&m, &tl, &steps, &err);
			if (!st)
				st = timeline_find_periods(&m, &tl, &categories, &periods, &err);
			if (!st)
				st = findings_explain_death(&m, &in, &replay->ooms.at[0], &d, &err);
			timeline_categories_release(&categories);
			timeline_steps_release(&steps);
			timeline_steps_release(&periods);
		}
		allocator_replay_free(replay);
		snapshot_free(t);
		assert_int_equal(m.used_bytes, 0);
		if (!st)
			break;
		assert_int_equal(st, PLIM_E_NOMEM);
		failures++;
	}
	assert_true(failures > 20);
}

/* A program without Python in it has no Python objects; python/tests/test_memory.py has the rest. */
static void test_no_python(void **state)
{
	struct plim_err err;
	int object = 0;

	(void)state;
	assert_int_equal(plim_python_pickle(&object, 1, NULL, NULL, &err), PLIM_E_UNSUPPORTED);
	assert_non_null(strstr(err.message, "no Python"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_python),  cmocka_unit_test(test_scalars),
		cmocka_unit_test(test_strings),    cmocka_unit_test(test_decimals),
		cmocka_unit_test(test_containers), cmocka_unit_test(test_calls),
		cmocka_unit_test(test_damage),     cmocka_unit_test(test_writer),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
