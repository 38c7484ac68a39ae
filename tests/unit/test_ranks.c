#include "commands/ranks/ranks.h"
#include "recording/set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "recording.h"

#define RANKS 200
#define ROW_BYTES 2048 /* what a row, its texts and its place in the lists may take */

static struct mem mem;
static char folder[] = "/tmp/plimsoll-ranks-XXXXXX";

static void test_numbers(void **state)
{
	static const struct {
		const char *name;
		int found;
		uint64_t number;
	} cases[] = {
		{ "rank12.pickle", 1, 12 },
		{ "job/rank_7.pickle.xz", 1, 7 },
		{ "rank-0", 1, 0 },
		{ "rank=3.json", 1, 3 },
		{ "memory_snapshot_Rank003.pkl", 1, 3 },
		{ "snap_r12.pickle", 1, 12 },
		{ "r4.pickle", 1, 4 },
		{ "iter100_r5", 1, 5 },
		{ "plimsoll-1121-073509-55-rank31-pid9-oom1.pickle", 1, 31 },
		{ "local_rank1_rank9.pickle", 1, 9 },
		{ "rank9_local_rank1.pickle", 1, 9 },
		{ "host2/local_rank1.pickle", 1, 1 },
		{ "17.pickle", 1, 17 },
		{ "gpu3.pickle", 1, 3 },
		{ "rank8/snapshot.pickle", 1, 8 },
		{ "a/rank8/snapshot.pickle", 1, 8 },
		{ "rank8/rank2.pickle", 1, 2 },
		{ "frank3.pickle", 0, 0 },
		{ "iter12.pickle", 0, 0 },
		{ "rankx.pickle", 0, 0 },
		{ "rank3b.pickle", 0, 0 },
		{ "rank99999999999999999999.pickle", 0, 0 },
		{ "host_20260101.pickle", 0, 0 },
		{ "", 0, 0 },
		{ "/", 0, 0 },
		{ "rank", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t number = 0;
		int found = set_number(cases[i].name, &number);

		if (found != cases[i].found || (found && number != cases[i].number))
			fail_msg("%s: %d %llu", cases[i].name, found, (unsigned long long)number);
	}
}

static void test_order(void **state)
{
	static const char *const sorted[] = { "",   "a",        "a1",        "a01",
					      "a2", "a2b",      "a10",       "a10/b",
					      "b",  "b1/rank2", "b1/rank10", "b2/rank1" };

	(void)state;
	for (size_t i = 0; i < sizeof(sorted) / sizeof(*sorted); i++)
		for (size_t k = 0; k < sizeof(sorted) / sizeof(*sorted); k++) {
			int c = set_compare_names(sorted[i], sorted[k]);

			/* "a1" and "a01" are one number; which is first only has to be settled */
			if (i + k == 5 && (i == 2 || i == 3))
				assert_true(c);
			else if ((c < 0) != (i < k) || (c > 0) != (i > k))
				fail_msg("%s %s: %d", sorted[i], sorted[k], c);
		}
}

/* ---- a job ---- */

static void path_of(char *path, size_t size, unsigned rank)
{
	snprintf(path, size, "%s/rank%u.json", folder, rank);
}

/* Rank r holds 2 + r / 50 MiB; rank 77 asks for more than there is. */
static void write_rank(unsigned rank)
{
	uint64_t bytes = (uint64_t)(2 + rank / 50) << 20;
	const struct event events[] = {
		{ TRACE_SEGMENT_ALLOC, BASE, 20 << 20, 0 },
		{ TRACE_ALLOC, BASE, bytes, 0 },
		{ TRACE_OOM, 1 << 20, 64 << 20, 0 },
	};
	const struct block blocks[] = {
		{ BASE, bytes, TRACE_ACTIVE, 0 },
		{ BASE + bytes, (20 << 20) - bytes, TRACE_INACTIVE, 0 },
	};
	const struct device device = { events, rank == 77 ? 3 : 2, blocks, 2, 20 << 20 };
	struct text js;
	char path[128];
	FILE *f;

	text_init(&js, &mem, NULL);
	recording_text(&js, &device, 1);
	path_of(path, sizeof(path), rank);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text_get(&js), 1, js.n, f), js.n);
	fclose(f);
	text_release(&js);
}

static int keep(void *ctx, const char *text, size_t n)
{
	text_put(ctx, text, n);
	return 0;
}

static struct plim_ranks *open_job(unsigned threads, uint64_t max_memory)
{
	const char *paths[] = { folder };
	struct plim_ranks_options o;
	struct plim_ranks *k;
	struct plim_err err;

	plim_ranks_options_init(&o);
	o.threads = threads;
	o.report.max_memory_bytes = max_memory;
	if (plim_ranks_open(paths, 1, &o, &k, &err))
		fail_msg("%s", err.message);
	return k;
}

static void test_rows(void **state)
{
	struct plim_ranks *k = open_job(4, 0);

	(void)state;
	assert_int_equal(k->row_count, RANKS);
	assert_int_equal(k->read, RANKS);
	assert_int_equal(k->failed, 0);
	assert_int_equal(k->died, 1);
	for (size_t i = 0; i < RANKS; i++) {
		assert_int_equal(k->rows[i].rank, i);
		assert_int_equal(k->rows[i].allocated_peak_bytes, (2 + i / 50) << 20);
		assert_int_equal(k->rows[i].died != NULL, i == 77);
	}
	assert_int_equal(k->first_death->rank, 77);
	assert_true(k->first_death->certain);
	assert_int_equal(k->worst_rank, 77);
	assert_int_equal(k->worst->devices[0].oom_count, 1);
	assert_int_equal(k->allocated->max.bytes, 5 << 20);
	assert_int_equal(k->allocated->max.rank, 150);
	assert_int_equal(k->allocated->median.bytes, 3 << 20);
	assert_int_equal(k->allocated->median.rank, 99);
	assert_int_equal(k->allocated->min.rank, 0);
	/* what is kept of a recording is small, whatever the recording was */
	assert_true(k->hidden->mem.peak_bytes < RANKS * ROW_BYTES);
	plim_ranks_free(k);
}

/* Threads and memory decide how, never what: the rows are the same bytes. */
static void test_same_bytes(void **state)
{
	static const struct {
		unsigned threads;
		uint64_t max_memory;
	} ways[] = { { 1, 0 }, { 2, 0 }, { 8, 0 }, { 8, 64 << 20 }, { 1, 64 << 20 } };
	struct text first, other;

	(void)state;
	text_init(&first, &mem, NULL);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		struct plim_ranks *k = open_job(ways[i].threads, ways[i].max_memory);

		text_init(&other, &mem, NULL);
		assert_int_equal(plim_ranks_json(k, keep, i ? &other : &first, NULL), PLIM_OK);
		plim_ranks_free(k);
		if (i)
			assert_string_equal(text_get(&first), text_get(&other));
		text_release(&other);
	}
	text_release(&first);
}

/* Two archives that are read as streams next to files: all write to one list of rows. */
static void test_streams(void **state)
{
	char command[400], archive[64];
	const char *paths[] = { archive, folder, archive };
	struct plim_ranks_options o;
	struct plim_ranks *k;
	struct plim_err err;

	(void)state;
	snprintf(archive, sizeof(archive), "%s.tar.gz", folder);
	snprintf(command, sizeof(command), "tar -C %s -czf %s . 2>/dev/null", folder, archive);
	if (system(command))
		skip();
	plim_ranks_options_init(&o);
	o.threads = 4;
	if (plim_ranks_open(paths, 3, &o, &k, &err))
		fail_msg("%s", err.message);
	unlink(archive);
	assert_int_equal(k->row_count, 3 * RANKS);
	assert_int_equal(k->failed, 0);
	for (size_t i = 0; i < k->row_count; i++) {
		assert_int_equal(k->rows[i].rank, i / 3);
		assert_int_equal(k->rows[i].allocated_peak_bytes, (2 + i / 3 / 50) << 20);
	}
	plim_ranks_free(k);
}

static int stop_at(void *ctx, uint32_t done, uint32_t total)
{
	assert_true(done <= total);
	return done == *(const uint32_t *)ctx;
}

static void test_stop(void **state)
{
	const char *paths[] = { folder };
	uint32_t when = 20;
	struct plim_ranks_options o;
	struct plim_ranks *k;
	struct plim_err err;

	(void)state;
	plim_ranks_options_init(&o);
	o.threads = 3;
	o.progress = stop_at;
	o.progress_ctx = &when;
	assert_int_equal(plim_ranks_open(paths, 1, &o, &k, &err), PLIM_E_CANCELLED);
	assert_null(k);
}

/* The rows themselves must find room; a recording that does not is a row. */
static void test_limits(void **state)
{
	const char *paths[] = { folder };
	struct plim_ranks_options o;
	struct plim_ranks *k;
	struct plim_err err;

	(void)state;
	plim_ranks_options_init(&o);
	o.report.max_memory_bytes = 64 << 10;
	assert_int_equal(plim_ranks_open(paths, 1, &o, &k, &err), PLIM_E_LIMIT);
	o.report.max_memory_bytes = 3 << 20;
	if (plim_ranks_open(paths, 1, &o, &k, &err))
		fail_msg("%s", err.message);
	assert_int_equal(k->row_count, RANKS);
	for (size_t i = 0; i < k->row_count; i++)
		assert_true(!k->rows[i].error || k->rows[i].status == PLIM_E_LIMIT);
	plim_ranks_free(k);
}

static int setup(void **state)
{
	(void)state;
	mem_init(&mem, 0);
	if (!mkdtemp(folder))
		return -1;
	for (unsigned i = 0; i < RANKS; i++)
		write_rank(i);
	return 0;
}

static int teardown(void **state)
{
	char path[128];

	(void)state;
	for (unsigned i = 0; i < RANKS; i++) {
		path_of(path, sizeof(path), i);
		unlink(path);
	}
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_order),
		cmocka_unit_test(test_rows),    cmocka_unit_test(test_same_bytes),
		cmocka_unit_test(test_streams), cmocka_unit_test(test_stop),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
