/* The page's packer: columns and their codings, rectangles of reserved memory, and a page without memory. */
#include "page/parts.h"

#include <libdeflate.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "recording.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MIB ((uint64_t)1 << 20)

/* ---- columns ---- */

/* A column back from its planes, as docs/formats/page.md says; at most 8 rows. */
static void unpack(const struct planes *p, size_t number, const uint64_t *other, uint64_t *out)
{
	const struct column *c = &p->list.at[number];
	uint64_t mask = c->bytes < 8 ? ((uint64_t)1 << (8 * c->bytes)) - 1 : UINT64_MAX, sum = 0;

	for (size_t i = 0; i < c->rows; i++) {
		uint64_t d = 0;

		for (unsigned k = 0; k < c->bytes; k++)
			d |= (uint64_t)p->bytes.at[c->at + k * c->rows + i] << (8 * k);
		sum = (sum + d) & mask;
		out[i] = c->coding == CODING_DELTA   ? sum
			 : c->coding == CODING_PLUS  ? other[i] + d
			 : c->coding == CODING_AFTER ? (d ? other[i] + d - 1 : 0)
						     : d;
	}
}

static void test_codings(void **state)
{
	static const struct {
		enum coding asked, got;
		unsigned bytes;
		uint64_t other[4], v[4];
	} cases[] = {
		{ CODING_PLAIN, CODING_PLAIN, 1, { 0 }, { 0, 255, 1, 0 } },
		{ CODING_PLAIN, CODING_PLAIN, 8, { 0 }, { UINT64_MAX, 0, 1, 2 } },
		{ CODING_DELTA, CODING_DELTA, 2, { 0 }, { 300, 7, 65535, 0 } },
		{ CODING_DELTA, CODING_DELTA, 6, { 0 }, { (1ull << 48) - 1, 0, 1, 1ull << 47 } },
		{ CODING_DELTA, CODING_PLAIN, 7, { 0 }, { 1ull << 48, 0, 1, 2 } },
		{ CODING_PLUS, CODING_PLUS, 1, { 70000, 2, 3, 0 }, { 70255, 2, 4, 0 } },
		{ CODING_PLUS, CODING_PLUS, 1, { 1, 2, 3, 4 }, { 1, 2, 3, 4 } },
		{ CODING_PLUS, CODING_PLAIN, 2, { 5, 2, 3, 4 }, { 4, 512, 3, 4 } },
		{ CODING_PLUS, CODING_PLAIN, 1, { 0 }, { 1, 2, 3, 4 } }, /* not there to refer to */
		{ CODING_AFTER, CODING_AFTER, 1, { 9000, 0, 500, 9 }, { 9000, 0, 510, 0 } },
		{ CODING_AFTER, CODING_PLAIN, 2, { 9000, 0, 511, 9 }, { 9000, 0, 510, 0 } },
	};
	struct plim_err err;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct planes p = { .mem = &m };
		uint64_t v[4], other[4], back[4];
		struct plane_values to = { "other", other };

		memcpy(v, cases[i].v, sizeof(v));
		memcpy(other, cases[i].other, sizeof(other));
		assert_int_equal(planes_add(&p, (struct plane_values){ "v", v }, cases[i].asked,
					    &to, 4, &err),
				 0);
		assert_int_equal(p.list.n, 1);
		assert_int_equal(p.list.at[0].coding, cases[i].got);
		assert_int_equal(p.list.at[0].bytes, cases[i].bytes);
		assert_int_equal(p.bytes.n, 4 * cases[i].bytes);
		unpack(&p, 0, cases[i].other, back);
		assert_memory_equal(back, cases[i].v, sizeof(back));
		planes_release(&p);
	}
	assert_int_equal(m.used_bytes, 0);
}

static void test_zeros(void **state)
{
	uint64_t v[3] = { 0 };
	struct plim_err err;
	struct planes p = { 0 };
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	p.mem = &m;
	assert_int_equal(
		planes_add(&p, (struct plane_values){ "v", v }, CODING_DELTA, NULL, 3, &err), 0);
	assert_int_equal(
		planes_add(&p, (struct plane_values){ "none", v }, CODING_PLAIN, NULL, 0, &err), 0);
	assert_int_equal(p.list.n + p.bytes.n, 0);
	planes_release(&p);
	assert_int_equal(m.used_bytes, 0);
}

/* ---- reserved memory ---- */

#define PAGE (20 * MIB)
#define EARLY 0x100000000u /* a segment that was there before, and is freed */

/* Three pages mapped as one, the middle one unmapped, the first one mapped again in two. */
static const struct event mapped[] = {
	{ TRACE_SEGMENT_MAP, BASE, 3 * PAGE, 1 },
	{ TRACE_SEGMENT_FREE, EARLY, 2 * MIB, 0 },
	{ TRACE_SEGMENT_UNMAP, BASE + PAGE, PAGE, 1 },
	{ TRACE_SEGMENT_UNMAP, BASE, PAGE, 1 },
	{ TRACE_SNAPSHOT, 0, 0, 0 },
	{ TRACE_SEGMENT_MAP, BASE, PAGE / 2, 1 },
	{ TRACE_SEGMENT_MAP, BASE + PAGE / 2, PAGE / 2 + PAGE, 1 },
};
/* addr, bytes, born, gone */
static const uint64_t rectangles[][4] = {
	{ EARLY, 2 * MIB, 0, 2 },    { BASE, PAGE, 1, 4 },
	{ BASE + PAGE, PAGE, 1, 3 }, { BASE + 2 * PAGE, PAGE, 1, 0 },
	{ BASE, PAGE / 2, 6, 0 },    { BASE + PAGE / 2, PAGE / 2 + PAGE, 7, 0 },
};

static void check_rectangles(const struct segments *s, const uint64_t want[][4], size_t n)
{
	assert_int_equal(s->rows.n, n);
	for (size_t i = 0; i < n; i++) {
		const struct segment *one = &s->rows.at[i];

		if (one->addr != want[i][0] || one->bytes != want[i][1] ||
		    one->born != want[i][2] || one->gone != want[i][3])
			fail_msg("row %zu: %llx + %llu from %u to %u", i,
				 (unsigned long long)one->addr, (unsigned long long)one->bytes,
				 one->born, one->gone);
	}
}

static void test_rectangles(void **state)
{
	const struct device in[] = {
		{ mapped, COUNT(mapped), NULL, 0, 3 * PAGE },
		/* the same without what stood at the end: what no one saw ending does not end */
		{ mapped, COUNT(mapped), NULL, 0, 0 },
	};
	struct segments s;
	struct plim_err err;
	struct snapshot *t;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	t = recording(&m, in, COUNT(in));
	for (size_t d = 0; d < COUNT(in); d++) {
		assert_int_equal(segments_find(&s, &m, t, &t->devices[d], &err), 0);
		check_rectangles(&s, rectangles, COUNT(rectangles));
		segments_release(&s);
	}
	snapshot_free(t);
	assert_int_equal(m.used_bytes, 0);
}

/* Freed twice, taken where something is, sizes beyond all addresses: rows stay apart, nothing breaks. */
static void test_contradictions(void **state)
{
	static const struct event events[] = {
		{ TRACE_SEGMENT_FREE, BASE, 2 * MIB, 0 },
		{ TRACE_SEGMENT_FREE, BASE + MIB, 2 * MIB, 0 },
		{ TRACE_SEGMENT_ALLOC, BASE, UINT64_MAX, 0 },
		{ TRACE_SEGMENT_ALLOC, BASE, 4 * MIB, 0 },
		{ TRACE_SEGMENT_ALLOC, BASE + MIB, MIB, 0 },
		{ TRACE_SEGMENT_ALLOC, BASE, 0, 0 },
	};
	static const uint64_t want[][4] = {
		{ BASE, MIB, 0, 1 },
		{ BASE + MIB, 2 * MIB, 0, 2 },
		{ BASE, 4 * MIB, 4, 0 },
		{ BASE + MIB, MIB, 5, 0 },
	};
	const struct device in = { events, COUNT(events), NULL, 0, 0 };
	struct segments s;
	struct plim_err err;
	struct snapshot *t;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	t = recording(&m, &in, 1);
	assert_int_equal(segments_find(&s, &m, t, &t->devices[0], &err), 0);
	check_rectangles(&s, want, COUNT(want));
	segments_release(&s);
	snapshot_free(t);
	assert_int_equal(m.used_bytes, 0);
}

/* A chunk of live segments that is full takes one more, in front of each, and behind the last. */
static void test_full_chunk(void **state)
{
	enum { FULL = 256 };
	struct event events[FULL + 1];
	const struct device in = { events, COUNT(events), NULL, 0, 0 };

	(void)state;
	for (size_t k = 0; k <= FULL; k++) {
		struct segments s;
		struct plim_err err;
		struct snapshot *t;
		struct mem m;

		mem_init(&m, 0);
		events[0] = (struct event){ TRACE_SEGMENT_FREE, BASE + 4 * MIB * k, 2 * MIB, 0 };
		for (size_t i = 0; i < FULL; i++)
			events[i + 1] = (struct event){ TRACE_SEGMENT_FREE,
							BASE + 4 * MIB * i + 2 * MIB, 2 * MIB, 0 };
		t = recording(&m, &in, 1);
		assert_int_equal(segments_find(&s, &m, t, &t->devices[0], &err), 0);
		assert_int_equal(s.rows.n, FULL + 1);
		for (size_t i = 0; i <= FULL; i++) {
			const struct segment *one = &s.rows.at[i];
			size_t of = i == k ? 0 : i < k ? i + 1 : i;

			assert_int_equal(one->addr, events[of].addr);
			assert_int_equal(one->gone, of + 1);
		}
		segments_release(&s);
		snapshot_free(t);
		assert_int_equal(m.used_bytes, 0);
	}
}

/* ---- a whole page ---- */

static void place(void *self, uint32_t frame, struct page_place *out)
{
	(void)self;
	(void)frame;
	*out = (struct page_place){ "f", "x.py" };
}

static void report(void *self, struct json_out *j)
{
	(void)self;
	json_string(j, "report", "of a test");
}

static int stop_at(void *ctx, uint32_t done, uint32_t total)
{
	assert_true(done && done <= total);
	return done == *(uint32_t *)ctx;
}

struct packed {
	struct mem m;
	struct snapshot *t;
	struct allocator_replay *replay;
	struct timeline tl;
	struct timeline_categories categories;
	struct page_input in;
};

static const char *const words[TIMELINE_CATEGORIES] = { "a word" };

static void packed_begin(struct packed *x)
{
	static const struct event events[] = {
		{ TRACE_SEGMENT_ALLOC, BASE, 20u << 20, 0 },
		{ TRACE_ALLOC, BASE, 700, 0 },
		{ TRACE_FREE_REQUESTED, BASE, 700, 0 },
		{ TRACE_FREE_COMPLETED, BASE, 700, 0 },
		{ TRACE_ALLOC, BASE, 900, 0 },
	};
	static const struct block blocks[] = { { BASE, 900, TRACE_ACTIVE } };
	static const struct device in = { events, COUNT(events), blocks, 1, 20u << 20 };
	struct plim_err err;

	memset(x, 0, sizeof(*x));
	mem_init(&x->m, 0);
	x->t = recording(&x->m, &in, 1);
	assert_int_equal(allocator_replay_own(&x->m, x->t, &x->t->devices[0], &x->replay, &err), 0);
	timeline_walk(&x->tl, x->t, &x->t->devices[0], x->replay);
	x->in = (struct page_input){ .mem = &x->m,
				     .tl = &x->tl,
				     .categories = &x->categories,
				     .category_names = words,
				     .title = "</script>",
				     .place = place,
				     .report = report };
}

static void packed_end(struct packed *x)
{
	allocator_replay_free(x->replay);
	snapshot_free(x->t);
	assert_int_equal(x->m.used_bytes, 0);
}

/* The head's text, which stays until the next. */
static const char *head_of(const struct page *p)
{
	static char text[65536];
	const struct page_section *s = &p->parts.at[0].head;
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	size_t n = 0;

	assert_non_null(d);
	assert_int_equal(libdeflate_deflate_decompress(d, s->at, s->n, text, sizeof(text) - 1, &n),
			 0);
	assert_int_equal(n, s->plain_bytes);
	text[n] = 0;
	libdeflate_free_decompressor(d);
	return text;
}

static void test_page(void **state)
{
	struct packed x;
	struct page p;
	struct plim_err err;

	(void)state;
	packed_begin(&x);
	page_init(&p, &x.m);
	assert_int_equal(page_pack(&p, &x.in, &err), 0);
	assert_int_equal(p.parts.n, 1);
	assert_non_null(strstr(head_of(&p), "\"title\":\"</script>\""));
	assert_non_null(strstr(head_of(&p), "\"allocs.born\":{\"at\":0,\"rows\":2,\"bytes\":1,"
					    "\"delta\":true}"));
	for (uint32_t at = 1; at < 100; at++) {
		enum plim_status st;

		p.progress = stop_at;
		p.ctx = &at;
		st = page_pack(&p, &x.in, &err);
		assert_true(!st || st == PLIM_E_CANCELLED);
		assert_int_equal(p.parts.n, st ? 1 : 2);
		if (st)
			continue;
		assert_true(at > 5);
		break;
	}
	page_cut(&p, 1);
	assert_int_equal(p.parts.n, 1);
	page_release(&p);
	packed_end(&x);
}

/* Each allocation fails in turn: no part, nothing lost. */
static void test_no_memory(void **state)
{
	struct packed x;
	struct page p;
	struct plim_err err;
	enum plim_status st;
	uint64_t used;
	int64_t n = 0;

	(void)state;
	packed_begin(&x);
	used = x.m.used_bytes;
	page_init(&p, &x.m);
	do {
		atomic_store(&x.m.fail_after, n++);
		st = page_pack(&p, &x.in, &err);
		atomic_store(&x.m.fail_after, -1);
		assert_true(!st || (st == PLIM_E_NOMEM && err.status == st));
		assert_int_equal(p.parts.n, st ? 0 : 1);
		page_release(&p);
		assert_int_equal(x.m.used_bytes, used);
	} while (st);
	assert_true(n > 10);
	packed_end(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_codings),    cmocka_unit_test(test_zeros),
		cmocka_unit_test(test_rectangles), cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_full_chunk), cmocka_unit_test(test_page),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
