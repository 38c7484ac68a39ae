/* The model of PyTorch's caching allocator, rule by rule; then properties on random programs. */
#include "allocator/caching.h"
#include "allocator/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB 1024ull
#define MIB (1024 * KIB)

static const int64_t streams[] = { 7, 0 }; /* by number; walked as 0, 7 */

struct fixture {
	struct mem m;
	struct plim_err err;
	struct placement placement;
	struct caching c;
	uint32_t requests;
};

static void begin(struct fixture *f, const char *conf, uint64_t limit)
{
	struct caching_setup setup = { .stream_values = streams,
				       .streams = 2,
				       .pools = 2,
				       .limit_bytes = limit,
				       .device_bytes = 1024 * MIB };

	*f = (struct fixture){ .requests = 0 };
	mem_init(&f->m, 0);
	assert_int_equal(allocator_rules_parse(conf, 0, &setup.rules, &f->err), 0);
	placement_init(&f->placement, &f->m, ALLOCATOR_LOWEST, UINT64_MAX, &f->err);
	setup.driver = placement_driver(&f->placement);
	assert_int_equal(caching_init(&f->c, &f->m, &setup, &f->err), 0);
}

static void end(struct fixture *f)
{
	caching_release(&f->c);
	placement_release(&f->placement);
	assert_int_equal(f->m.used_bytes, 0);
}

static uint32_t take_on(struct fixture *f, uint64_t bytes, uint16_t stream, uint16_t pool)
{
	struct caching_request rq = { bytes, f->requests++, stream, pool };
	uint32_t block;

	assert_int_equal(caching_malloc(&f->c, &rq, &block), 0);
	return block;
}

static uint32_t take(struct fixture *f, uint64_t bytes)
{
	return take_on(f, bytes, 0, 0);
}

static void drop(struct fixture *f, uint32_t block)
{
	caching_free_requested(&f->c, block);
	caching_free_completed(&f->c, block);
}

static uint64_t addr(const struct fixture *f, uint32_t block)
{
	return f->c.blocks.at[block].addr;
}

static uint64_t bytes(const struct fixture *f, uint32_t block)
{
	return f->c.blocks.at[block].bytes;
}

static uint64_t now(const struct fixture *f, enum allocator_stat stat)
{
	return f->c.stats.count[stat][0].current;
}

static uint64_t reserved(const struct fixture *f)
{
	return now(f, ALLOCATOR_RESERVED_BYTES);
}

static void test_small_and_large(void **state)
{
	struct fixture f;
	uint32_t a, b;

	(void)state;
	begin(&f, "", UINT64_MAX);
	a = take(&f, MIB);
	assert_int_equal(reserved(&f), 2 * MIB);
	b = take(&f, 512);
	assert_int_equal(addr(&f, b), addr(&f, a) + MIB);
	take(&f, MIB + 1); /* large: a segment of 20 MiB */
	assert_int_equal(reserved(&f), 22 * MIB);
	take(&f, 12 * MIB);
	assert_int_equal(reserved(&f), 22 * MIB); /* 20 MiB had the room */
	take(&f, 11 * MIB);
	assert_int_equal(reserved(&f), 34 * MIB); /* rounded to 2 MiB, of its own */
	assert_int_equal(now(&f, ALLOCATOR_SEGMENT), 3);
	end(&f);
}

/* The large pool hands a block out whole when less than 1 MiB would remain, the small one at 512 bytes. */
static void test_split(void **state)
{
	struct fixture f;
	uint32_t a;

	(void)state;
	begin(&f, "", UINT64_MAX);
	a = take(&f, 11 * MIB);
	assert_int_equal(bytes(&f, a), 12 * MIB);
	drop(&f, a);
	a = take(&f, 11 * MIB - 512);
	assert_int_equal(bytes(&f, a), 11 * MIB - 512);
	assert_int_equal(now(&f, ALLOCATOR_INACTIVE_SPLIT), 1);
	assert_int_equal(now(&f, ALLOCATOR_INACTIVE_SPLIT_BYTES), MIB + 512);
	drop(&f, a);
	assert_int_equal(now(&f, ALLOCATOR_INACTIVE_SPLIT), 0);
	a = take(&f, MIB - 512);
	take(&f, MIB);
	assert_int_equal(reserved(&f), 14 * MIB);
	assert_int_equal(bytes(&f, a), MIB - 512);
	end(&f);
}

static void test_best_fit(void **state)
{
	struct fixture f;
	uint32_t a, b, c, keep;

	(void)state;
	begin(&f, "", UINT64_MAX);
	a = take(&f, 4 * MIB);
	keep = take(&f, 2 * MIB);
	b = take(&f, 3 * MIB);
	take(&f, 2 * MIB);
	c = take(&f, 3 * MIB);
	take(&f, 2 * MIB);
	(void)keep;
	drop(&f, a);
	drop(&f, c);
	drop(&f, b);
	/* the tightest; of two of one size the lower address */
	assert_int_equal(addr(&f, take(&f, 3 * MIB)), addr(&f, keep) + 2 * MIB);
	/* streams and pools do not share */
	take_on(&f, 3 * MIB, 1, 0);
	assert_int_equal(reserved(&f), 40 * MIB);
	take_on(&f, 3 * MIB, 0, 1);
	assert_int_equal(reserved(&f), 60 * MIB);
	end(&f);
}

static void test_merge(void **state)
{
	struct fixture f;
	uint32_t a, b, c;

	(void)state;
	begin(&f, "", UINT64_MAX);
	a = take(&f, 5 * MIB);
	b = take(&f, 5 * MIB);
	c = take(&f, 5 * MIB);
	drop(&f, a);
	drop(&f, c);
	assert_int_equal(now(&f, ALLOCATOR_INACTIVE_SPLIT), 2);
	caching_free_requested(&f.c, b);
	assert_int_equal(now(&f, ALLOCATOR_ALLOCATED_BYTES), 0);
	assert_int_equal(now(&f, ALLOCATOR_ACTIVE_BYTES), 5 * MIB);
	assert_int_equal(now(&f, ALLOCATOR_INACTIVE_SPLIT), 2); /* it waits: nothing merges yet */
	caching_free_completed(&f.c, b);
	assert_int_equal(now(&f, ALLOCATOR_ACTIVE_BYTES), 0);
	assert_int_equal(now(&f, ALLOCATOR_INACTIVE_SPLIT), 0);
	assert_int_equal(f.c.stats.count[ALLOCATOR_INACTIVE_SPLIT][0].peak, 2);
	take(&f, 20 * MIB);
	assert_int_equal(reserved(&f), 20 * MIB);
	end(&f);
}

static void test_empty_cache(void **state)
{
	struct fixture f;
	uint32_t a, b;

	(void)state;
	begin(&f, "", UINT64_MAX);
	a = take(&f, 30 * MIB);
	b = take(&f, 40 * MIB);
	take(&f, 5 * MIB);
	drop(&f, a);
	caching_free_requested(&f.c, b);                /* waits for another stream */
	assert_int_equal(caching_empty_cache(&f.c), 0); /* which is waited for */
	assert_int_equal(reserved(&f), 20 * MIB);
	assert_int_equal(f.c.stats.device_frees, 2);
	assert_int_equal(now(&f, ALLOCATOR_ACTIVE), 1);
	end(&f);
}

/* The limit, the retry that empties the cache, and a failure that has given all back. */
static void test_limit(void **state)
{
	struct fixture f;
	uint32_t a;

	(void)state;
	begin(&f, "", 64 * MIB);
	a = take(&f, 40 * MIB);
	drop(&f, a);
	a = take(&f, 60 * MIB);
	assert_int_not_equal(a, CACHING_NONE);
	assert_int_equal(f.c.stats.retries, 1);
	assert_int_equal(take(&f, 10 * MIB), CACHING_NONE);
	assert_int_equal(f.c.stats.ooms, 1);
	assert_int_equal(f.c.stats.retries, 2);
	/* the segment counts, not the request: 20 MiB for 2 */
	assert_int_equal(take(&f, 2 * MIB), CACHING_NONE);
	assert_int_not_equal(take(&f, KIB), CACHING_NONE);
	end(&f);
}

static void test_driver_is_full(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "", UINT64_MAX);
	f.placement.capacity_bytes = 30 * MIB;
	assert_int_not_equal(take(&f, 2 * MIB), CACHING_NONE);
	assert_int_equal(take(&f, 20 * MIB), CACHING_NONE);
	assert_int_not_equal(take(&f, 10 * MIB), CACHING_NONE);
	end(&f);
}

static void test_max_split(void **state)
{
	struct fixture f;
	uint32_t a, b, c;

	(void)state;
	begin(&f, "max_split_size_mb:64", 300 * MIB);
	a = take(&f, 100 * MIB);
	assert_int_equal(now(&f, ALLOCATOR_OVERSIZE_ALLOCATIONS), 1);
	assert_int_equal(now(&f, ALLOCATOR_OVERSIZE_SEGMENTS), 1);
	drop(&f, a);
	/* a small request does not take an oversize block */
	take(&f, 30 * MIB);
	assert_int_equal(reserved(&f), 130 * MIB);
	/* an oversize one takes it whole, if it wastes less than 20 MiB */
	b = take(&f, 70 * MIB);
	assert_int_equal(reserved(&f), 200 * MIB);
	c = take(&f, 81 * MIB);
	assert_int_equal(reserved(&f), 200 * MIB);
	assert_int_equal(bytes(&f, c), 100 * MIB);
	drop(&f, b);
	drop(&f, c);
	/* no room for 110: the oversize blocks are given back, largest first, and nothing else */
	assert_int_not_equal(take(&f, 110 * MIB), CACHING_NONE);
	assert_int_equal(f.c.stats.retries, 0);
	assert_int_equal(f.c.stats.device_frees, 2);
	end(&f);
}

static void take_and_drop(struct fixture *f, const uint64_t *mib, unsigned n)
{
	uint32_t taken[4];

	for (unsigned i = 0; i < n; i++)
		taken[i] = take(f, mib[i] * MIB);
	for (unsigned i = 0; i < n; i++)
		drop(f, taken[i]);
}

/* No oversize block is large enough: they are given back from the largest on, until it is enough. */
static void test_max_split_order(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "max_split_size_mb:64", 300 * MIB);
	take_and_drop(&f, (const uint64_t[]){ 70, 90, 100 }, 3);
	assert_int_not_equal(take(&f, 150 * MIB), CACHING_NONE);
	assert_int_equal(f.c.stats.device_frees, 2);
	assert_int_equal(reserved(&f), 220 * MIB); /* the smallest is still there */
	assert_int_equal(f.c.stats.retries, 0);
	end(&f);
}

/* What is not an oversize block is not given back for one; of exactly max_split it is one. */
static void test_max_split_least(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "max_split_size_mb:64", 110 * MIB);
	take_and_drop(&f, (const uint64_t[]){ 70, 30 }, 2);
	assert_int_not_equal(take(&f, 100 * MIB), CACHING_NONE);
	assert_int_equal(f.c.stats.retries,
			 1); /* everything was given back, as nothing less was enough */
	end(&f);
	begin(&f, "max_split_size_mb:64", 140 * MIB);
	take_and_drop(&f, (const uint64_t[]){ 64, 70 }, 2);
	assert_int_not_equal(take(&f, 130 * MIB), CACHING_NONE);
	assert_int_equal(f.c.stats.retries, 0);
	assert_int_equal(f.c.stats.device_frees, 2);
	end(&f);
}

/* An oversize block with exactly the slack (20 MiB) left over stays free; with less it is taken whole. */
static void test_oversize_slack(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "max_split_size_mb:64", UINT64_MAX);
	drop(&f, take(&f, 100 * MIB));
	assert_int_equal(caching_find(&f.c, caching_block_pool(0, 80 * MIB), 0, 80 * MIB),
			 CACHING_NONE);
	assert_int_not_equal(caching_find(&f.c, caching_block_pool(0, 82 * MIB), 0, 82 * MIB),
			     CACHING_NONE);
	take(&f, 80 * MIB);
	assert_int_equal(reserved(&f), 180 * MIB);
	end(&f);
}

/* max_split was set lower while the job ran: a free part of a segment was given back as though it were one. */
static void test_max_split_lowered(void **state)
{
	struct fixture f;
	uint32_t a, b;

	(void)state;
	begin(&f, "", 300 * MIB);
	a = take(&f, 40 * MIB);
	drop(&f, a);
	b = take(&f, 10 * MIB);
	assert_int_equal(reserved(&f), 40 * MIB);
	f.c.rules.max_split_bytes = 20 * MIB;
	assert_int_equal(take(&f, 280 * MIB), CACHING_NONE);
	assert_int_equal(f.c.stats.device_frees, 0);
	drop(&f, b);
	assert_int_not_equal(take(&f, 280 * MIB), CACHING_NONE);
	end(&f);
}

/* A private pool gives nothing back while it is held: its small block_pool first once it is dropped, not when used again. */
static void test_drop_pool(void **state)
{
	struct fixture f;
	uint32_t a;

	(void)state;
	begin(&f, "", UINT64_MAX);
	a = take_on(&f, 4 * MIB, 0, 1);
	drop(&f, a);
	assert_int_equal(caching_empty_cache(&f.c), 0);
	assert_int_equal(reserved(&f), 20 * MIB);
	assert_int_equal(caching_drop_pool(&f.c, 1), 0);
	a = take_on(&f, 4 * MIB, 0, 1);
	drop(&f, a);
	assert_int_equal(caching_empty_cache(&f.c), 0);
	assert_int_equal(reserved(&f), 20 * MIB);
	assert_int_equal(caching_drop_pool(&f.c, 1), 0);
	assert_int_equal(caching_empty_cache(&f.c), 0);
	assert_int_equal(reserved(&f), 0);
	end(&f);
}

static void test_garbage_collection(void **state)
{
	struct fixture f;
	uint32_t a, b, c;

	(void)state;
	begin(&f, "garbage_collection_threshold:0.5", 200 * MIB);
	a = take(&f, 30 * MIB);
	b = take(&f, 60 * MIB);
	drop(&f, a);
	c = take(&f, 40 * MIB); /* 90 of 200 reserved: no collection */
	assert_int_equal(f.c.stats.device_frees, 0);
	drop(&f, b);
	/* 130 of 200: the older of the two free segments is of at least the mean age */
	take(&f, 70 * MIB);
	assert_int_equal(f.c.stats.device_frees, 1);
	assert_int_equal(reserved(&f), 170 * MIB);
	(void)c;
	end(&f);
}

static void test_expandable(void **state)
{
	struct fixture f;
	uint32_t a, b, c;

	(void)state;
	begin(&f, "expandable_segments:True", UINT64_MAX);
	a = take(&f, 3 * MIB);
	assert_int_equal(reserved(&f), 20 * MIB);
	b = take(&f, 18 * MIB); /* 17 are free behind it: one page more */
	assert_int_equal(reserved(&f), 40 * MIB);
	assert_int_equal(addr(&f, b), addr(&f, a) + 3 * MIB);
	assert_int_equal(now(&f, ALLOCATOR_SEGMENT), 0);
	c = take(&f, 30 * MIB);
	assert_int_equal(addr(&f, c), addr(&f, b) + 18 * MIB);
	drop(&f, a);
	drop(&f, c);
	/* the hole of 3 MiB is left alone: no whole page; of the end, 21..60 MiB, one page of 20 */
	assert_int_equal(caching_empty_cache(&f.c), 0);
	assert_int_equal(reserved(&f), 40 * MIB);
	assert_int_equal(f.c.stats.device_frees, 1);
	/* 512 bytes may be cut off a large block too */
	assert_int_equal(bytes(&f, take(&f, 3 * MIB - 512)), 3 * MIB - 512);
	end(&f);
}

/* A free end that could grow is taken last. */
static void test_expandable_prefers_holes(void **state)
{
	struct fixture f;
	uint32_t a, b;

	(void)state;
	begin(&f, "expandable_segments:True", UINT64_MAX);
	a = take(&f, 12 * MIB);
	b = take(&f, 2 * MIB); /* 6 MiB of the page stay free at the end */
	drop(&f, a);           /* a hole of 12 in front */
	a = take(&f, 5 * MIB);
	assert_true(addr(&f, a) < addr(&f, b));
	end(&f);
}

static void test_settings(void **state)
{
	static const struct {
		const char *conf;
		unsigned release;
		const char *error; /* a part of it; NULL: none */
	} rows[] = {
		{ "", 0, NULL },
		{ " max_split_size_mb : 64 , expandable_segments:False", 0, NULL },
		{ "max_split_size_mb:20", 211, NULL },
		{ "max_split_size_mb:20", 209, "more than 20" },
		{ "max_split_size_mb:19", 211, "at least 20" },
		{ "max_split_size_mb:-1", 211, "at least 20" },
		{ "max_split_size_mb", 0, "expected ':'" },
		{ "expandable_segments:true", 0, "True or False" },
		{ "garbage_collection_threshold:1", 0, "between 0 and 1" },
		{ "garbage_collection_threshold:0", 0, "between 0 and 1" },
		{ "garbage_collection_threshold:nan", 0, "between 0 and 1" },
		{ "roundup_power2_divisions:3", 0, "power of two" },
		{ "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", 0, NULL },
		{ "roundup_power2_divisions:[100:1]", 0, "power of two" },
		{ "roundup_power2_divisions:[256:1", 0, "expected ','" },
		{ "large_segment_size_mb:40", 210, NULL },
		{ "large_segment_size_mb:40", 209, "unknown allocator setting" },
		{ "max_non_split_rounding_mb:40", 204, "unknown allocator setting" },
		{ "max_split_mb:64", 0, "max_split_size_mb" },
		{ "backend:cudaMallocAsync", 0, NULL },
		{ "backend:other", 0, "native or cudaMallocAsync" },
		{ "a:1,,", 0, "unknown allocator setting 'a'" },
	};
	struct allocator_rules r;
	struct plim_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		enum plim_status st =
			allocator_rules_parse(rows[i].conf, rows[i].release, &r, &err);

		assert_int_equal(st, rows[i].error ? PLIM_E_ARG : PLIM_OK);
		if (rows[i].error)
			assert_non_null(strstr(err.message, rows[i].error));
	}
}

static void test_settings_values(void **state)
{
	const char *list = "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]";
	struct allocator_rules r;
	struct plim_err err;

	(void)state;
	assert_int_equal(allocator_rules_parse(list, 211, &r, &err), 0);
	assert_int_equal(r.roundup_divisions[0], 1); /* the first interval's also below it */
	assert_int_equal(r.roundup_divisions[9], 2);
	assert_int_equal(r.roundup_divisions[10], 4);
	assert_int_equal(r.roundup_divisions[15], 8);
	assert_int_equal(allocator_rules_parse(list, 209, &r, &err), 0);
	assert_int_equal(r.roundup_divisions[10], 8); /* until 2.9 `>` replaced the last one too */
	assert_int_equal(allocator_round(&r, 512), 512);
	assert_int_equal(allocator_rules_parse("roundup_power2_divisions:1", 203, &r, &err), 0);
	assert_int_equal(allocator_round(&r, 1000), 1000); /* a quirk up to 2.4 */
	assert_int_equal(allocator_rules_parse("roundup_power2_divisions:1", 211, &r, &err), 0);
	assert_int_equal(allocator_round(&r, 1000), 1024);
	assert_int_equal(allocator_rules_parse("max_split_size_mb:64", 0, &r, &err), 0);
	assert_int_equal(r.max_split_bytes, 64 * MIB);
}

/* ---- random programs ---- */

/* Blocks tile their segments, free neighbours are merged, sums agree, sets hold what is free. */
static void check_invariants(const struct fixture *f)
{
	const struct caching *c = &f->c;
	uint64_t mapped = 0, active = 0, requested = 0;
	uint8_t *unused = calloc(c->blocks.n + 1, 1);
	size_t free_blocks = 0, in_sets = 0;

	assert_non_null(unused);
	for (size_t i = 0; i < c->spare.n; i++)
		unused[c->spare.at[i]] = 1;
	for (uint32_t i = 0; i < c->blocks.n; i++) {
		const struct caching_block *b = &c->blocks.at[i], *next;

		if (unused[i])
			continue;
		mapped += b->unmapped ? 0 : b->bytes;
		active += b->allocated ? b->bytes : 0;
		requested += b->allocated ? b->requested_bytes : 0;
		free_blocks += !b->allocated;
		if (b->next == CACHING_NONE)
			continue;
		next = &c->blocks.at[b->next];
		assert_int_equal(next->prev, i);
		assert_int_equal(next->addr, b->addr + b->bytes);
		assert_false(!b->allocated && !next->allocated && b->unmapped == next->unmapped);
	}
	for (size_t i = 0; i < c->block_pools * c->streams; i++)
		for (int set = 0; set < 2; set++) {
			const struct freeset *o = set ? &c->bins[i].unmapped : &c->bins[i].free;

			for (struct freeset_cursor at = freeset_seek(o, 0, 0); freeset_get(o, at);
			     freeset_next(o, &at))
				in_sets++;
		}
	assert_int_equal(in_sets, free_blocks);
	assert_int_equal(mapped, reserved(f));
	assert_int_equal(active, now(f, ALLOCATOR_ACTIVE_BYTES));
	assert_int_equal(requested, now(f, ALLOCATOR_REQUESTED_BYTES));
	free(unused);
}

static uint32_t random_below(uint64_t *seed, uint32_t n)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % n;
}

static uint64_t random_bytes(uint64_t *seed)
{
	uint32_t log = 6 + random_below(seed, 20);

	return 1 + (1ull << log) + random_below(seed, 1u << log);
}

/* Whatever happened: all freed and the cache emptied, nothing is reserved. */
static void random_program(const char *conf, uint64_t limit, uint64_t seed)
{
	enum { LIVE = 200, STEPS = 4000 };
	uint32_t live[LIVE], n = 0;
	struct fixture f;

	begin(&f, conf, limit);
	for (int step = 0; step < STEPS; step++) {
		if (n < LIVE && random_below(&seed, 100) < 52) {
			uint32_t block = take_on(&f, random_bytes(&seed),
						 (uint16_t)random_below(&seed, 2), 0);

			if (block != CACHING_NONE)
				live[n++] = block;
		} else if (n) {
			uint32_t i = random_below(&seed, n);

			drop(&f, live[i]);
			live[i] = live[--n];
		}
		if (step % 500 == 0) {
			assert_int_equal(caching_empty_cache(&f.c), 0);
			check_invariants(&f);
		}
		/* the limit is compared with the segment's size; pages that are mapped may be more */
		assert_true(reserved(&f) <= limit + (f.c.rules.expandable
							     ? f.c.rules.large_segment_bytes
							     : 0) ||
			    limit == UINT64_MAX);
	}
	check_invariants(&f);
	while (n)
		drop(&f, live[--n]);
	assert_int_equal(caching_empty_cache(&f.c), 0);
	check_invariants(&f);
	assert_int_equal(reserved(&f), 0);
	assert_int_equal(f.placement.used_bytes, 0);
	assert_int_equal(f.c.stats.device_allocs > 0, 1);
	end(&f);
}

static void test_random(void **state)
{
	static const char *const confs[] = {
		"",
		"max_split_size_mb:21",
		"max_split_size_mb:32,max_non_split_rounding_mb:64",
		"garbage_collection_threshold:0.4",
		"roundup_power2_divisions:4",
		"expandable_segments:True",
		"expandable_segments:True,max_split_size_mb:24,garbage_collection_threshold:0.5",
		"large_segment_size_mb:64",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(confs) / sizeof(*confs); i++) {
		random_program(confs[i], UINT64_MAX, i);
		random_program(confs[i], 700 * MIB, i + 100);
	}
}

/* A copy, over whatever was there, has the same keys, and they can be found and taken out. */
static void assert_order_copies(struct mem *m, struct freeset *copy, const struct freeset *o)
{
	struct freeset_cursor a = freeset_seek(o, 0, 0), b;
	struct plim_err err;
	const struct freeset_key *k;

	assert_int_equal(freeset_copy(m, copy, o, &err), 0);
	for (b = freeset_seek(copy, 0, 0); (k = freeset_get(copy, b)); freeset_next(copy, &b)) {
		assert_int_equal(k->block, freeset_get(o, a)->block);
		freeset_next(o, &a);
	}
	assert_null(freeset_get(o, a));
	for (int i = 0; i < 50 && (k = freeset_get(copy, freeset_seek(copy, 30 * 512, 0))); i++) {
		struct freeset_key one = *k;

		freeset_remove(m, copy, &one);
	}
}

/* An ordered set against a plain sorted array. */
static void test_order(void **state)
{
	enum { N = 1500 };
	static uint8_t there[N];
	struct freeset o = { .shelves = NULL }, copy = { .shelves = NULL };
	struct freeset_cursor at;
	struct plim_err err;
	struct mem m;
	uint64_t seed = 5;
	size_t count = 0, seen = 0;

	(void)state;
	mem_init(&m, 0);
	for (int i = 0; i < 20000; i++) {
		uint32_t v = random_below(&seed, N);
		struct freeset_key key = { v / 10 * 512, v, v };

		if (there[v])
			freeset_remove(&m, &o, &key);
		else
			assert_int_equal(freeset_insert(&m, &o, &key, &err), 0);
		there[v] ^= 1;
		if (i % 1000 == 999)
			assert_order_copies(&m, &copy, &o);
	}
	for (uint32_t v = 0; v < N; v++)
		count += there[v];
	at = freeset_seek(&o, 0, 0);
	for (const struct freeset_key *k, *last = NULL; (k = freeset_get(&o, at));
	     freeset_next(&o, &at)) {
		assert_true(there[k->block]);
		assert_true(!last || last->addr < k->addr);
		last = k;
		seen++;
	}
	assert_int_equal(seen, count);
	while (freeset_prev(&o, &at))
		seen--;
	assert_int_equal(seen, 0);
	freeset_release(&m, &o);
	freeset_release(&m, &copy);
	assert_int_equal(m.used_bytes, 0);
}

/* A free cannot fail: what finds no place waits, merges as others do, and is found again. */
static void test_free_without_memory(void **state)
{
	enum { BLOCKS = 200 };
	uint32_t blocks[BLOCKS], block;
	struct caching_request rq = { 5 * MIB, 1000, 0, 0 };
	struct fixture f;

	(void)state;
	begin(&f, "", UINT64_MAX);
	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = take(&f, (3 + i % 40) * MIB);
	f.m.limit_bytes = f.m.used_bytes;
	for (unsigned i = 0; i < BLOCKS; i += 2)
		caching_free(&f.c, blocks[i]);
	assert_int_equal(caching_status(&f.c), PLIM_E_LIMIT);
	assert_null(caching_check(&f.c));
	assert_int_equal(caching_malloc(&f.c, &rq, &block), PLIM_E_LIMIT);
	assert_int_equal(block, CACHING_NONE);
	for (unsigned i = 1; i < BLOCKS; i += 4)
		caching_free(&f.c, blocks[i]);
	assert_null(caching_check(&f.c));
	f.m.limit_bytes = UINT64_MAX;
	assert_int_equal(caching_malloc(&f.c, &rq, &block), PLIM_OK);
	assert_int_equal(caching_status(&f.c), PLIM_OK);
	assert_null(caching_check(&f.c));
	for (unsigned i = 3; i < BLOCKS; i += 4)
		caching_free(&f.c, blocks[i]);
	caching_free(&f.c, block);
	assert_int_equal(caching_empty_cache(&f.c), PLIM_OK);
	assert_int_equal(f.c.stats.count[ALLOCATOR_RESERVED_BYTES][0].current, 0);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_small_and_large),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_best_fit),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_empty_cache),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_driver_is_full),
		cmocka_unit_test(test_max_split),
		cmocka_unit_test(test_max_split_order),
		cmocka_unit_test(test_max_split_least),
		cmocka_unit_test(test_garbage_collection),
		cmocka_unit_test(test_expandable),
		cmocka_unit_test(test_expandable_prefers_holes),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_settings_values),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_max_split_lowered),
		cmocka_unit_test(test_free_without_memory),
		cmocka_unit_test(test_drop_pool),
		cmocka_unit_test(test_oversize_slack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
