/*
 * A snapshot packed for the page: whatever it says, the packer stays within its memory, its columns can be
 * unpacked, and the same input gives the same bytes.
 */
#include "page/parts.h"
#include "pickle_mutate.h"

#include <libdeflate.h>
#include <string.h>

#define LIMIT_BYTES ((uint64_t)256 << 20)

static const char *const words[TIMELINE_CATEGORIES] = { "a word" };

static void place(void *self, uint32_t frame, struct page_place *out)
{
	const struct snapshot *t = self;

	*out = (struct page_place){ snapshot_text(t, snapshot_frame(t, frame)->name),
				    snapshot_text(t, snapshot_frame(t, frame)->filename) };
}

static const char *text(void *self, uint32_t string, const char *kind)
{
	(void)kind;
	return snapshot_text(self, string);
}

static void report(void *self, struct json_out *j)
{
	(void)self;
	json_null(j, "report");
}

static void check_section(const struct page_section *a, const struct page_section *b)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	size_t n = 0;
	void *plain = malloc(a->plain_bytes + 1);

	must(d && plain);
	must(a->n == b->n && !memcmp(a->at, b->at, a->n));
	must(!libdeflate_deflate_decompress(d, a->at, a->n, plain, a->plain_bytes, &n));
	must(n == a->plain_bytes);
	free(plain);
	libdeflate_free_decompressor(d);
}

/* Rows in order, none of no bytes, none that ends before it begins. */
static void check_segments(struct mem *m, const struct snapshot *t, const struct snapshot_device *d)
{
	struct segments s;
	struct plim_err err;

	if (!segments_find(&s, m, t, d, &err)) {
		for (size_t i = 0; i < s.rows.n; i++) {
			const struct segment *one = &s.rows.at[i];

			must(one->bytes && one->bytes <= UINT64_MAX - one->addr);
			must(!one->gone || one->born < one->gone);
			must(!i || one[-1].born < one->born ||
			     (one[-1].born == one->born &&
			      one[-1].addr + one[-1].bytes <= one->addr));
		}
	}
	segments_release(&s);
}

static void one_device(struct mem *m, struct page *p, const struct snapshot *t,
		       const struct snapshot_device *d)
{
	struct timeline_categories categories = { .mem = NULL };
	struct page_show show = { TRACE_NONE, TRACE_NONE, TRACE_NONE, TRACE_NONE, TRACE_NONE };
	struct allocator_replay *replay;
	struct timeline_ranges ranges;
	struct timeline tl;
	struct plim_err err;
	struct page_input in = { .mem = m,
				 .tl = &tl,
				 .categories = &categories,
				 .category_names = words,
				 .title = "a title",
				 .show = &show,
				 .show_count = 1,
				 .self = (void *)(uintptr_t)t,
				 .ranges = &ranges,
				 .place = place,
				 .text = text,
				 .report = report };

	if (allocator_replay_own(m, t, d, &replay, &err))
		return;
	timeline_walk(&tl, t, d, replay);
	check_segments(m, t, d);
	if (timeline_find_ranges(m, &tl, &ranges, &err))
		in.ranges = NULL;
	if (!t->has_frames || !d->events.n || !timeline_categorize(m, &tl, &categories, &err)) {
		size_t first = p->parts.n;

		if (!page_pack(p, &in, &err) && !page_pack(p, &in, &err)) {
			check_section(&p->parts.at[first].head, &p->parts.at[first + 1].head);
			check_section(&p->parts.at[first].columns, &p->parts.at[first + 1].columns);
		}
	}
	timeline_ranges_release(&ranges);
	timeline_categories_release(&categories);
	allocator_replay_free(replay);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct snapshot *t;
	struct page p;
	struct plim_err err;
	struct mem m;

	mem_init(&m, LIMIT_BYTES);
	if (snapshot_read_bytes(&m, bytes, n, NULL, &t, &err))
		return 0;
	page_init(&p, &m);
	for (size_t i = 0; i < t->device_count; i++)
		one_device(&m, &p, t, &t->devices[i]);
	page_release(&p);
	snapshot_free(t);
	must(m.used_bytes == 0);
	return 0;
}
