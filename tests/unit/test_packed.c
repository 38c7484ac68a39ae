/* Packed recordings: what they hold comes back, and nothing that was damaged is taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "snapshot/packed.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* Of everything one: devices, pools, streams, settings, labels, annotations, what is not known, what contradicts itself. */
static const char everything[] =
	"{\"segments\":[{\"device\":1,\"address\":139637976727552,\"total_size\":2097152,"
	"\"allocated_size\":1024,\"active_size\":1536,\"requested_size\":1100,\"stream\":7,"
	"\"segment_type\":\"small\",\"segment_pool_id\":[0,3],\"is_expandable\":true,"
	"\"frames\":[{\"name\":\"f\",\"filename\":\"a.py\",\"line\":3}],\"blocks\":["
	"{\"address\":139637976727552,\"size\":1024,\"requested_size\":600,\"state\":\"active_"
	"allocated\","
	"\"frames\":[{\"name\":\"g\",\"filename\":\"a.py\",\"line\":4},"
	"{\"name\":\"f\",\"filename\":\"a.py\",\"line\":3}]},"
	"{\"address\":139637976728576,\"size\":512,\"requested_size\":500,\"state\":\"active_"
	"pending_free\"},"
	"{\"address\":139637976729600,\"size\":2095104,\"requested_size\":9,\"state\":\"inactive\"}"
	"]}],"
	"\"device_traces\":[["
	"{\"action\":\"alloc\",\"addr\":1024,\"size\":18446744073709551615,\"stream\":0,\"time_"
	"us\":5,"
	"\"pool_id\":[1,0],\"user_metadata\":\"step 1\",\"compile_context\":\"0/1\",\"frames\":[]},"
	"{\"action\":\"alloc\",\"addr\":1024,\"size\":18446744073709551613,\"stream\":0,\"time_"
	"us\":4,"
	"\"user_metadata\":\"\",\"compile_context\":\"N/A\"},"
	"{\"action\":\"free_requested\",\"addr\":1024,\"size\":7,\"stream\":-9,\"time_us\":6},"
	"{\"action\":\"free_completed\",\"addr\":1024,\"size\":18446744073709551613,\"stream\":0,"
	"\"time_us\":6},"
	"{\"action\":\"free_completed\",\"addr\":1024,\"size\":18446744073709551613,\"stream\":0,"
	"\"time_us\":-7},"
	"{\"action\":\"oom\",\"device_free\":12345,\"size\":999,\"stream\":0,\"time_us\":7},"
	"{\"action\":\"snapshot\",\"addr\":0,\"size\":0,\"stream\":0,\"time_us\":8},"
	"{\"action\":\"something "
	"new\",\"addr\":18446744073709551615,\"size\":1,\"stream\":0,"
	"\"time_us\":9223372036854775807}],["
	"{\"action\":\"segment_map\",\"addr\":139637976727552,\"size\":2097152,\"stream\":7,\"time_"
	"us\":1,"
	"\"mood\":\"good\",\"user_metadata\":\"late\","
	"\"frames\":[{\"name\":\"g\",\"filename\":\"a.py\",\"line\":18446744073709551615}]}]],"
	"\"allocator_settings\":{\"PYTORCH_CUDA_ALLOC_CONF\":\"expandable_segments:True\","
	"\"max_split_size\":-1,\"garbage_collection_threshold\":0.5,\"expandable_segments\":true,"
	"\"novel\":{\"list\":[1,\"two\",null]},\"roundup_power2_divisions\":{\"1\":4}},"
	"\"external_annotations\":["
	"{\"stage\":\"START\",\"name\":\"forward\",\"device\":1,\"time_us\":3},"
	"{\"stage\":\"END\",\"name\":\"forward\",\"device\":1,\"time_us\":2}],"
	"\"plimsoll_sources\":\"the files\"}";

struct bytes {
	struct mem *mem;
	VEC(uint8_t) at;
};

static enum plim_status collect(void *ctx, const void *bytes, size_t n, struct plim_err *err)
{
	struct bytes *b = ctx;
	enum plim_status st = vec_need(b->mem, &b->at, n, err);

	if (st)
		return st;
	memcpy(b->at.at + b->at.n, bytes, n);
	b->at.n += n;
	return PLIM_OK;
}

static struct snapshot *read_text(struct mem *m, const char *text)
{
	struct snapshot *t;
	struct plim_err err;

	if (snapshot_read_bytes(m, text, strlen(text), NULL, &t, &err))
		fail_msg("%s", err.message);
	return t;
}

static void pack(struct bytes *b, const struct snapshot *t)
{
	struct plim_err err;

	if (snapshot_pack(t, (struct pickle_sink){ b, collect }, &err))
		fail_msg("%s", err.message);
}

static void test_round_trip(void **state)
{
	struct mem m;
	struct snapshot *t, *again;
	struct bytes b = { .mem = &m };
	struct plim_err err;

	(void)state;
	mem_init(&m, 0);
	t = read_text(&m, everything);
	assert_int_equal(t->unknown.n, 2);
	assert_int_equal(t->labels.n, 3);
	pack(&b, t);
	if (snapshot_read_bytes(&m, b.at.at, b.at.n, NULL, &again, &err))
		fail_msg("%s", err.message);
	assert_null(snapshot_differs(t, again));
	assert_string_equal(again->kind, "plim");
	assert_string_equal(snapshot_text(again, again->sources), "the files");
	for (size_t d = 0; d < 2; d++) {
		const struct snapshot_device *x = &t->devices[d], *y = &again->devices[d];

		assert_int_equal(x->alloc_count, y->alloc_count);
		assert_int_equal(x->contradictions, y->contradictions);
		assert_memory_equal(x->allocs, y->allocs, x->alloc_count * sizeof(*x->allocs));
	}
	snapshot_free(again);
	snapshot_free(t);
	vec_release(&m, &b.at);
	assert_int_equal(m.used_bytes, 0);
}

/*
 * A recording whose first bytes happen to hold the words of an error was taken for a log, as a pickle and, where zstd left
 * them as they are, packed.
 */
static void test_words_of_a_log(void **state)
{
	static const char change[] = "CUDA out of memory";
	struct snapshot *t, *again;
	struct plim_err err;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	t = read_text(&m, everything);
	assert_int_equal(
		intern_add(&t->heap.strings, change, strlen(change), &t->labels.at[0].string, &err),
		0);
	for (int packed = 0; packed < 2; packed++) {
		struct bytes b = { .mem = &m };
		struct pickle_sink sink = { &b, collect };

		assert_int_equal(
			packed ? snapshot_pack(t, sink, &err) : snapshot_write(t, sink, &err), 0);
		/* zstd may leave them as they are, or not */
		assert_true(packed || memmem(b.at.at, b.at.n, change, strlen(change)));
		if (snapshot_read_bytes(&m, b.at.at, b.at.n, NULL, &again, &err))
			fail_msg("%s", err.message);
		snapshot_free(again);
		vec_release(&m, &b.at);
	}
	snapshot_free(t);
}

/* snapshot_differs() is what every claim rests on: it must see each single change. */
static void test_differences_are_seen(void **state)
{
	static const char *const changes[][2] = {
		{ "\"size\":999", "\"size\":998" },
		{ "\"device_free\":12345", "\"device_free\":12346" },
		{ "\"action\":\"snapshot\"", "\"action\":\"annotate\"" },
		{ "\"time_us\":7}", "\"time_us\":8}" },
		{ "\"stream\":-9", "\"stream\":-8" },
		{ "\"pool_id\":[1,0]", "\"pool_id\":[2,0]" },
		{ "\"step 1\"", "\"step 2\"" },
		{ "\"0/1\"", "\"0/2\"" },
		{ "\"late\"", "\"soon\"" },
		{ "something new", "something old" },
		{ "\"mood\"", "\"mode\"" },
		{ "the files", "the fields" },
		{ "\"novel\"", "\"naval\"" },
		{ "\"two\"", "\"too\"" },
		{ "\"START\"", "\"END\"" },
		{ "\"name\":\"forward\",\"device\":1,\"time_us\":2",
		  "\"name\":\"forward\",\"device\":1,\"time_us\":1" },
		{ "0.5", "0.25" },
		{ "\"1\":4", "\"1\":8" },
		{ "\"line\":4}", "\"line\":5}" },
		{ "\"requested_size\":500", "\"requested_size\":501" },
		{ "\"is_expandable\":true", "\"is_expandable\":false" },
		{ "active_pending_free", "inactive" },
		{ "\"allocated_size\":1024", "\"allocated_size\":512" },
	};
	char text[sizeof(everything) + 64];
	struct snapshot *t, *other;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	t = read_text(&m, everything);
	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		const char *at = strstr(everything, changes[i][0]);

		assert_non_null(at);
		snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - everything), everything,
			 changes[i][1], at + strlen(changes[i][0]));
		other = read_text(&m, text);
		if (!snapshot_differs(t, other))
			fail_msg("'%s' is taken for '%s'", changes[i][1], changes[i][0]);
		snapshot_free(other);
	}
	snapshot_free(t);
}

/* Each byte changed, and each length: never a recording. */
static void test_damage(void **state)
{
	struct snapshot *t = NULL;
	struct plim_err err;
	struct bytes b;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	b = (struct bytes){ .mem = &m };
	t = read_text(&m, everything);
	pack(&b, t);
	snapshot_free(t);
	for (size_t i = 0; i < b.at.n; i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			b.at.at[i] ^= (uint8_t)(1u << bit);
			t = NULL;
			if (!snapshot_read_bytes(&m, b.at.at, b.at.n, NULL, &t, &err))
				fail_msg("byte %zu, bit %u", i, bit);
			assert_null(t);
			b.at.at[i] ^= (uint8_t)(1u << bit);
		}
	}
	for (size_t n = PACKED_MAGIC_BYTES; n < b.at.n; n++) {
		assert_int_equal(snapshot_read_bytes(&m, b.at.at, n, NULL, &t, &err),
				 PLIM_E_FORMAT);
		assert_non_null(strstr(err.message, "ends early"));
	}
	collect(&b, "more", 4, &err);
	assert_int_equal(snapshot_read_bytes(&m, b.at.at, b.at.n, NULL, &t, &err), PLIM_E_FORMAT);
	assert_non_null(strstr(err.message, "something follows its end"));
	vec_release(&m, &b.at);
	assert_int_equal(m.used_bytes, 0);
}

/* Put a chunk behind the head, and the sum of the whole right again. */
static void add_chunk(struct bytes *b, uint8_t kind)
{
	const uint8_t chunk[] = { kind, 3, 3, 'a', 'b', 'c', 0, 0, 0, 0, 0, 0, 0, 0 };
	struct plim_err err;
	uint64_t sum;

	assert_int_equal(collect(b, chunk, sizeof(chunk), &err), 0);
	memmove(b->at.at + PACKED_HEAD_BYTES + sizeof(chunk), b->at.at + PACKED_HEAD_BYTES,
		b->at.n - PACKED_HEAD_BYTES - sizeof(chunk));
	memcpy(b->at.at + PACKED_HEAD_BYTES, chunk, sizeof(chunk));
	sum = XXH3_64bits(b->at.at, b->at.n - PACKED_SUM_BYTES);
	memcpy(b->at.at + b->at.n - PACKED_SUM_BYTES, &sum, sizeof(sum));
}

static void test_versions(void **state)
{
	struct snapshot *t, *again;
	struct plim_err err;
	struct bytes b;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	b = (struct bytes){ .mem = &m };
	t = read_text(&m, everything);
	pack(&b, t);
	add_chunk(&b, PACKED_MAY_SKIP + 5);
	assert_int_equal(snapshot_read_bytes(&m, b.at.at, b.at.n, NULL, &again, &err), 0);
	assert_null(snapshot_differs(t, again));
	snapshot_free(again);
	add_chunk(&b, 5);
	assert_int_equal(snapshot_read_bytes(&m, b.at.at, b.at.n, NULL, &again, &err),
			 PLIM_E_UNSUPPORTED);
	b.at.at[PACKED_MAGIC_BYTES] = PACKED_MAJOR + 1;
	assert_int_equal(snapshot_read_bytes(&m, b.at.at, b.at.n, NULL, &again, &err),
			 PLIM_E_UNSUPPORTED);
	assert_non_null(strstr(err.message, "version 2.0"));
	snapshot_free(t);
	vec_release(&m, &b.at);
	assert_int_equal(m.used_bytes, 0);
}

/* Memory that is refused at any moment: an error, and nothing left behind. */
static void test_no_memory(void **state)
{
	struct snapshot *t, *again;
	struct plim_err err;
	struct bytes b;
	struct mem own, m;
	int64_t n = 0;
	enum plim_status st = PLIM_E_NOMEM;

	(void)state;
	mem_init(&own, 0);
	mem_init(&m, 0);
	b = (struct bytes){ .mem = &own };
	t = read_text(&m, everything);
	for (; st; n++) {
		uint64_t used = m.used_bytes;

		b.at.n = 0;
		atomic_store(&m.fail_after, n);
		st = snapshot_pack(t, (struct pickle_sink){ &b, collect }, &err);
		assert_true(!st || st == PLIM_E_NOMEM);
		atomic_store(&m.fail_after, -1);
		assert_int_equal(m.used_bytes, used);
	}
	assert_true(n > 20);
	snapshot_free(t);
	for (n = 0, st = PLIM_E_NOMEM; st; n++) {
		struct snapshot_read_options one = { .threads = 1 };

		atomic_store(&m.fail_after, n);
		st = snapshot_read_bytes(&m, b.at.at, b.at.n, &one, &again, &err);
		assert_true(!st || st == PLIM_E_NOMEM);
		atomic_store(&m.fail_after, -1);
		if (!st)
			snapshot_free(again);
		assert_int_equal(m.used_bytes, 0);
	}
	assert_true(n > 20);
	vec_release(&own, &b.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_words_of_a_log),
		cmocka_unit_test(test_differences_are_seen),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
