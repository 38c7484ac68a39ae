/*
 * Which frames of two recordings are the same place: edited, moved, ambiguous, hostile.  Each case is two
 * lists of frames, and for each frame of the second the one of the first that it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "timeline/timeline.h"

#define NONE (-1)
#define FRAMES 12

struct frame {
	const char *file;
	uint32_t line;
	const char *name;
	int same; /* in B: the frame of A */
	int moved;
};

static const struct matching {
	const char *name;
	struct frame a[FRAMES], b[FRAMES];
} matchings[] = {
	{ .name = "the same program",
	  .a = { { "/p/train.py", 10, "main" }, { "/p/train.py", 20, "step" } },
	  .b = { { "/p/train.py", 20, "step", 1 }, { "/p/train.py", 10, "main", 0 } } },
	{ .name = "lines inserted on top",
	  .a = { { "/p/train.py", 10, "main" }, { "/p/train.py", 12, "main" } },
	  .b = { { "/p/train.py", 12, "main", 0, 1 }, { "/p/train.py", 14, "main", 1, 1 } } },
	{ .name = "one line only, moved",
	  .a = { { "/p/train.py", 88, "main" } },
	  .b = { { "/p/train.py", 90, "main", 0, 1 } } },
	{ .name = "lines inserted in the middle, one falls on another's old number",
	  .a = { { "m", 10, "f" },
		 { "m", 15, "f" },
		 { "m", 52, "g" },
		 { "m", 55, "g" },
		 { "m", 58, "g" },
		 { "m", 64, "g" } },
	  .b = { { "m", 10, "f", 0 },
		 { "m", 15, "f", 1 },
		 { "m", 61, "g", 2, 1 },
		 { "m", 64, "g", 3, 1 },
		 { "m", 67, "g", 4, 1 },
		 { "m", 73, "g", 5, 1 } } },
	{ .name = "lines removed in the middle",
	  .a = { { "m", 10, "f" },
		 { "m", 15, "f" },
		 { "m", 52, "g" },
		 { "m", 55, "g" },
		 { "m", 58, "g" } },
	  .b = { { "m", 10, "f", 0 },
		 { "m", 15, "f", 1 },
		 { "m", 32, "g", 2, 1 },
		 { "m", 35, "g", 3, 1 },
		 { "m", 38, "g", 4, 1 } } },
	{ .name = "another branch of a file that was not edited is another place",
	  .a = { { "m", 10, "f" }, { "m", 20, "f" }, { "m", 30, "f" }, { "m", 40, "f" } },
	  .b = { { "m", 10, "f", 0 },
		 { "m", 22, "f", NONE },
		 { "m", 30, "f", 2 },
		 { "m", 40, "f", 3 } } },
	{ .name = "a line that moved and another function there",
	  .a = { { "m", 10, "f" } },
	  .b = { { "m", 10, "g", NONE } } },
	{ .name = "lines are not known",
	  .a = { { "??", 0, "at::empty" }, { "??", 0, "at::mm" } },
	  .b = { { "??", 0, "at::mm", 1 }, { "??", 0, "at::empty", 0 } } },
	{ .name = "another folder, another place for packages",
	  .a = { { "/home/a/proj/train.py", 10, "main" },
		 { "/home/a/venv/lib/python3.10/site-packages/torch/nn/linear.py", 7, "forward" } },
	  .b = { { "/opt/lib/python3.12/dist-packages/torch/nn/linear.py", 7, "forward", 1 },
		 { "/root/proj/train.py", 11, "main", 0, 1 } } },
	{ .name = "the longest common end decides",
	  .a = { { "/a/x/model.py", 1, "f" }, { "/a/y/model.py", 1, "f" } },
	  .b = { { "/b/y/model.py", 1, "f", 1 }, { "/b/x/model.py", 1, "f", 0 } } },
	{ .name = "what is ambiguous is not matched",
	  .a = { { "/a/x/model.py", 1, "f" }, { "/a/y/model.py", 1, "f" } },
	  .b = { { "/b/z/model.py", 1, "f", NONE } } },
	{ .name = "what is left when others are taken is not ambiguous",
	  .a = { { "/a/x/model.py", 1, "f" }, { "/a/y/model.py", 1, "f" } },
	  .b = { { "/b/y/model.py", 1, "f", 1 }, { "/b/z/model.py", 1, "f", 0 } } },
	{ .name = "a name's end alone is not enough",
	  .a = { { "/a/model.py", 1, "f" } },
	  .b = { { "/a/my_model.py", 1, "f", NONE }, { "xmodel.py", 1, "f", NONE } } },
	{ .name = "a path and the bare name",
	  .a = { { "/a/model.py", 1, "f" } },
	  .b = { { "model.py", 1, "f", 0 } } },
	{ .name = "a file's name that is a function's name there",
	  .a = { { "f", 1, "g" } },
	  .b = { { "g", 1, "f", NONE } } },
	{ .name = "empty names, and names of slashes",
	  .a = { { "", 1, "" }, { "/", 1, "" }, { "//", 1, "" }, { "/a/", 1, "" } },
	  .b = { { "", 1, "", 0 },
		 { "/", 1, "", 1 },
		 { "//", 1, "", 2 },
		 { "/a/", 1, "", 3 },
		 { "///", 1, "", NONE } } },
	{ .name = "nothing at all in one of them", .b = { { "m", 1, "f", NONE } } },
	{ .name = "the largest line there is",
	  .a = { { "m", 4294967294u, "f" }, { "m", 1, "f" } },
	  .b = { { "m", 4294967294u, "f", 0 }, { "m", 2, "f", NONE } } },
};

static size_t count_of(const struct frame *f)
{
	size_t n = 0;

	while (n < FRAMES && f[n].name)
		n++;
	return n;
}

/* A trace with an event a frame, and one without. */
static struct snapshot *snapshot_of(struct mem *m, const struct frame *f, size_t n)
{
	struct snapshot *t = NULL;
	struct text js;
	struct plim_err err = { .message = "" };

	text_init(&js, m, NULL);
	text_puts(&js, "{\"segments\":[],\"device_traces\":[["
		       "{\"action\":\"alloc\",\"addr\":512,\"size\":512,\"stream\":0}");
	for (size_t i = 0; i < n; i++)
		text_printf(&js,
			    ",{\"action\":\"alloc\",\"addr\":%zu,\"size\":512,\"stream\":0,"
			    "\"frames\":[{\"name\":\"%s\",\"filename\":\"%s\",\"line\":%u}]}",
			    4096 * (i + 1), f[i].name, f[i].file, f[i].line);
	text_puts(&js, "]]}");
	if (snapshot_read_bytes(m, text_get(&js), js.n, NULL, &t, &err))
		fail_msg("%s", err.message);
	text_release(&js);
	assert_int_equal(t->frames.n, n);
	return t;
}

static void test_matchings(void **state)
{
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	for (size_t c = 0; c < sizeof(matchings) / sizeof(*matchings); c++) {
		const struct matching *want = &matchings[c];
		size_t n = count_of(want->a), k = count_of(want->b);
		struct snapshot *a = snapshot_of(&m, want->a, n), *b = snapshot_of(&m, want->b, k);
		struct timeline_matching x;
		struct plim_err err;

		assert_int_equal(timeline_match(&m, a, b, &x, &err), 0);
		for (uint32_t f = 0; f < k; f++) {
			uint32_t place = want->b[f].same == NONE ? (uint32_t)n + f
								 : (uint32_t)want->b[f].same;

			if (x.place[1][f] != place || x.moved[f] != want->b[f].moved)
				fail_msg("%s: frame %u is place %u, moved %d", want->name, f,
					 x.place[1][f], x.moved[f]);
		}
		timeline_matching_release(&x);
		snapshot_free(a);
		snapshot_free(b);
	}
	assert_int_equal(m.used_bytes, 0);
}

/* Names as long as a file allows, and the same name in many folders: it ends, soon, and gives back all. */
static void test_hostile(void **state)
{
	enum { LONG = 1 << 20, MANY = 20000 };
	struct frame *f = calloc(MANY, sizeof(*f));
	char *path = malloc(LONG + 20), *names = malloc((size_t)MANY * 24);
	struct timeline_matching x;
	struct snapshot *a, *b;
	struct plim_err err;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	for (size_t i = 0; i < LONG; i++)
		path[i] = i % 2 ? '/' : 'a';
	memcpy(path + LONG, "/m.py", 6);
	f[0] = (struct frame){ path, 1, "f", 0, 0 };
	a = snapshot_of(&m, f, 1);
	path[0] = 'b';
	b = snapshot_of(&m, f, 1);
	assert_int_equal(timeline_match(&m, a, b, &x, &err), 0);
	assert_int_equal(x.place[1][0], 0);
	timeline_matching_release(&x);
	snapshot_free(a);
	snapshot_free(b);

	for (size_t i = 0; i < MANY; i++) {
		snprintf(names + 24 * i, 24, "/%zu/__init__.py", i);
		f[i] = (struct frame){ names + 24 * i, 1, "__init__", 0, 0 };
	}
	a = snapshot_of(&m, f, MANY);
	for (size_t i = 0; i < MANY; i++)
		snprintf(names + 24 * i, 24, "/x%zu/__init__.py", i);
	b = snapshot_of(&m, f, MANY);
	assert_int_equal(timeline_match(&m, a, b, &x, &err), 0);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(x.place[1][i], MANY + i);
	timeline_matching_release(&x);
	snapshot_free(a);
	snapshot_free(b);
	free(names);
	free(path);
	free(f);
	assert_int_equal(m.used_bytes, 0);
}

/* Thousands of lines of one function, all moved by two edits: found although only some of them vote. */
static void test_many_lines(void **state)
{
	enum { LINES = 20000, HALF = LINES / 2 };
	struct frame *f = calloc(LINES, sizeof(*f));
	struct timeline_matching x;
	struct snapshot *a, *b;
	struct plim_err err;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	for (uint32_t i = 0, line = 1; i < LINES; i++, line += 1 + (i * 2654435761u >> 16) % 16)
		f[i] = (struct frame){ "m.py", line, "forward", 0, 0 };
	a = snapshot_of(&m, f, LINES);
	for (uint32_t i = 0; i < LINES; i++)
		f[i].line += i < HALF ? 5 : 1000;
	b = snapshot_of(&m, f, LINES);
	assert_int_equal(timeline_match(&m, a, b, &x, &err), 0);
	for (uint32_t i = 0; i < LINES; i++)
		assert_int_equal(x.place[1][i], i);
	timeline_matching_release(&x);
	snapshot_free(a);
	snapshot_free(b);
	free(f);
	assert_int_equal(m.used_bytes, 0);
}

/* Each allocation fails in turn: the error is reported, and nothing is kept. */
static void test_no_memory(void **state)
{
	const struct matching *c = &matchings[8];
	struct timeline_matching x;
	struct snapshot *a, *b;
	struct plim_err err;
	struct mem m;
	uint64_t before;
	int64_t i = 0;
	enum plim_status st;

	(void)state;
	mem_init(&m, 0);
	a = snapshot_of(&m, c->a, count_of(c->a));
	b = snapshot_of(&m, c->b, count_of(c->b));
	before = m.used_bytes;
	do {
		m.fail_after = i++;
		st = timeline_match(&m, a, b, &x, &err);
		m.fail_after = -1;
		if (st)
			assert_int_equal(m.used_bytes, before);
	} while (st);
	assert_true(i > 8);
	timeline_matching_release(&x);
	assert_int_equal(m.used_bytes, before);
	snapshot_free(a);
	snapshot_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matchings),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_many_lines),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
