#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct mem mem;
static const struct text_style ascii = { 80, false, false }, utf8 = { 80, false, true };

static void test_numbers(void **state)
{
	static const struct {
		uint64_t n;
		const char *bytes, *count;
	} cases[] = {
		{ 0, "0 bytes", "0" },
		{ 1, "1 byte", "1" },
		{ 1023, "1023 bytes", "1,023" },
		{ 1024, "1.00 KiB", "1,024" },
		{ 1536, "1.50 KiB", "1,536" },
		{ (1 << 20) - 1, "1.00 MiB", "1,048,575" },
		{ 613048320, "584.65 MiB", "613,048,320" },
		{ 3ull << 40, "3.00 TiB", "3,298,534,883,328" },
		{ UINT64_MAX - 1, "16777216.00 TiB", "18,446,744,073,709,551,614" },
		{ PLIM_UNKNOWN, "-", "-" },
	};
	struct text t;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text_init(&t, &mem, NULL);
		text_bytes(&t, cases[i].n);
		assert_string_equal(text_get(&t), cases[i].bytes);
		text_release(&t);
		text_count(&t, cases[i].n);
		assert_string_equal(text_get(&t), cases[i].count);
		text_release(&t);
	}
}

static void test_names(void **state)
{
	static const struct {
		const char *in, *utf8, *ascii;
		unsigned width; /* of the utf8 form */
	} cases[] = {
		{ "plain.py:3", "plain.py:3", "plain.py:3", 10 },
		{ "a\x1b[31mb\n\x7f", "a\\x1B[31mb\\x0A\\x7F", "a\\x1B[31mb\\x0A\\x7F", 18 },
		{ "x\xe2\x80\xaey", "x\\u{202E}y", "x\\u{202E}y", 10 },
		{ "\xe2\x81\xa6\xe2\x80\x8f\xc2\x85", "\\u{2066}\\u{200F}\\u{85}",
		  "\\u{2066}\\u{200F}\\u{85}", 22 },
		{ "\xff\xc3(", "\\xFF\\xC3(", "\\xFF\\xC3(", 9 },
		{ "\xc0\x80\xed\xa0\x80", "\\xC0\\x80\\xED\\xA0\\x80", "\\xC0\\x80\\xED\\xA0\\x80",
		  20 },
		{ "\xc3\xa9", "\xc3\xa9", "\\u{E9}", 1 },
		{ "e\xcc\x81", "e\xcc\x81", "e\\u{301}", 1 },
		{ "\xe6\xbc\xa2\xe5\xad\x97", "\xe6\xbc\xa2\xe5\xad\x97", "\\u{6F22}\\u{5B57}", 4 },
		{ "\xf4\x90\x80\x80", "\\xF4\\x90\\x80\\x80", "\\xF4\\x90\\x80\\x80", 16 },
	};
	struct text t;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text_init(&t, &mem, &utf8);
		text_name(&t, cases[i].in, strlen(cases[i].in));
		assert_string_equal(text_get(&t), cases[i].utf8);
		assert_int_equal(text_width(text_get(&t), t.n), cases[i].width);
		text_release(&t);
		text_init(&t, &mem, &ascii);
		text_name(&t, cases[i].in, strlen(cases[i].in));
		assert_string_equal(text_get(&t), cases[i].ascii);
		text_release(&t);
	}
}

static void test_fit(void **state)
{
	static const struct {
		const struct text_style *style;
		const char *in;
		unsigned columns;
		enum text_cut cut;
		const char *out;
	} cases[] = {
		{ &ascii, "abcdefghij", 10, TEXT_CUT_LEFT, "abcdefghij" },
		{ &ascii, "abcdefghij", 9, TEXT_CUT_LEFT, "...efghij" },
		{ &ascii, "abcdefghij", 9, TEXT_CUT_RIGHT, "abcdef..." },
		{ &ascii, "abcdefghij", 8, TEXT_CUT_MIDDLE, "abc...ij" },
		{ &ascii, "abcdefghij", 2, TEXT_CUT_LEFT, ".." },
		{ &ascii, "abcdefghij", 0, TEXT_CUT_LEFT, "" },
		{ &utf8, "abcdefghij", 5, TEXT_CUT_LEFT, "\u2026ghij" },
		{ &utf8, "/home/user/lab/run.py", 12, TEXT_CUT_LEFT, "\u2026/lab/run.py" },
		{ &utf8, "/home/user/lab/run.py", 11, TEXT_CUT_LEFT, "\u2026/run.py" },
		{ &utf8, "/lab/a_long_name.py", 9, TEXT_CUT_LEFT, "\u2026_name.py" },
		{ &utf8, "a/long_name/b", 12, TEXT_CUT_LEFT, "\u2026long_name/b" },
		{ &utf8, "abcdefghij", 5, TEXT_CUT_MIDDLE, "ab\u2026ij" },
		{ &utf8, "\u6f22\u5b57\u6f22\u5b57", 6, TEXT_CUT_RIGHT, "\u6f22\u5b57\u2026" },
		{ &ascii, "\x01\x02\x03\x04", 11, TEXT_CUT_RIGHT, "\\x01\\x02..." },
	};
	struct text t;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text_init(&t, &mem, cases[i].style);
		text_name_fit(&t, cases[i].in, strlen(cases[i].in), cases[i].columns, cases[i].cut);
		assert_string_equal(text_get(&t), cases[i].out);
		text_release(&t);
	}
	/* Whatever the bytes, the result fits. */
	for (unsigned seed = 0; seed < 2000; seed++) {
		char name[24];
		unsigned columns = seed % 20, x = seed * 2654435761u + 1;

		for (size_t k = 0; k < sizeof(name); k++) {
			x = x * 1664525u + 1013904223u;
			name[k] = (char)(x >> 24);
		}
		if (seed % 3 == 0)
			memcpy(name + 5, "e\xcc\x81\xe6\xbc\xa2\xe5\xad\x97", 9);
		text_init(&t, &mem, seed % 2 ? &utf8 : &ascii);
		text_name_fit(&t, name, sizeof(name), columns, (enum text_cut)(seed % 3));
		assert_true(text_width(text_get(&t), t.n) <= columns);
		text_release(&t);
	}
}

static void test_wrap(void **state)
{
	struct text_style narrow = { 20, true, true };
	struct text t;

	(void)state;
	text_init(&t, &mem, &narrow);
	text_puts(&t, "cause: ");
	text_wrap(&t, 7, 7, "the quick %s fox\njumped over a_very_long_word_here ok", "brown");
	assert_string_equal(text_get(&t), "cause: the quick\n       brown fox\n       jumped over\n"
					  "       a_very_long_word_here\n       ok\n");
	text_release(&t);
	text_hue(&t, TEXT_BAD);
	text_puts(&t, "no");
	text_plain(&t);
	assert_string_equal(text_get(&t), "\x1b[1;31mno\x1b[0m");
	assert_int_equal(text_width(text_get(&t), t.n), 2);
	text_release(&t);
	text_init(&t, &mem, &ascii);
	text_hue(&t, TEXT_HEAD);
	text_plain(&t);
	assert_string_equal(text_get(&t), "");
	text_release(&t);
}

static void test_table(void **state)
{
	struct text_style narrow = { 34, false, false };
	struct text_table b;
	struct text t;

	(void)state;
	text_init(&t, &mem, &narrow);
	text_table_init(&b, &t, "rrl", TEXT_CUT_LEFT);
	text_cell_bytes(&b, 3ull << 30);
	text_cell_count(&b, 1200);
	text_cell_name(&b, "model.py:12 forward", 19);
	text_cell_bytes(&b, 12);
	text_cell_count(&b, 7);
	text_cell_name(&b, "x\n", 2);
	text_cell_printf(&b, "%d", 5);
	text_table_write(&t, &b, 2);
	assert_string_equal(text_get(&t), "  3.00 GiB  1,200  ...y:12 forward\n"
					  "  12 bytes      7  x\\x0A\n"
					  "         5  \n");
	text_table_release(&b);
	text_release(&t);
	assert_int_equal(mem.used_bytes, 0);
}

static void test_bar(void **state)
{
	struct text t;

	(void)state;
	text_init(&t, &mem, &utf8);
	for (uint64_t v = 0; v <= 100; v++) {
		text_bar(&t, v, 100, 10);
		assert_in_range(text_width(text_get(&t), t.n), v ? 1 : 0, (v + 9) / 10);
		t.n = 0;
	}
	text_bar(&t, UINT64_MAX - 1, UINT64_MAX - 1, 3);
	text_bar(&t, 1, UINT64_MAX - 1, 2);
	text_bar(&t, 5, 0, 2);
	assert_string_equal(text_get(&t), "\u2588\u2588\u2588\u258f");
	text_release(&t);
	text_init(&t, &mem, &ascii);
	for (uint64_t v = 0; v <= 100; v++) {
		text_bar(&t, v, 100, 10);
		assert_in_range(t.n, v ? 1 : 0, (v + 9) / 10);
		t.n = 0;
	}
	text_bar(&t, 50, 100, 4);
	assert_string_equal(text_get(&t), "##");
	text_release(&t);
}

static void test_chart(void **state)
{
	static const uint64_t y[] = { 0, 1024, 2048, 512, 1, 2048, 0, 0 };
	struct text_chart c = {
		.y = y, .n = 8, .columns = 17, .rows = 2, .mark = 5, .left = "0 s", .right = "9 s"
	};
	struct text t;

	(void)state;
	text_init(&t, &mem, &utf8);
	text_chart(&t, &c);
	assert_string_equal(text_get(&t),
			    "2.00 KiB\u2524  \u2588  \u2588\n"
			    "        \u2502 \u2588\u2588\u2584\u2581\u2588\n"
			    "       0\u2514\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\n"
			    "              ^\n"
			    "         0 s  9 s\n");
	text_release(&t);
	text_init(&t, &mem, &ascii);
	c.columns = 13; /* at least 8 for the area */
	c.left = c.right = NULL;
	c.mark = SIZE_MAX;
	text_chart(&t, &c);
	assert_string_equal(text_get(&t), "2.00 KiB|  #  #\n"
					  "        | ##:.#\n"
					  "       0+--------\n");
	text_release(&t);
}

/* A run that sways was a slab: each column showed its largest value alone. */
static void test_chart_low(void **state)
{
	static const uint64_t y[] = { 1024, 2048, 2048, 2048, 2048, 2048, 2048, 512 };
	static const uint64_t low[] = { 1024, 0, 512, 1024, 1536, 1792, 2048, 0 };
	struct text_chart c = {
		.y = y, .low = low, .n = 8, .columns = 17, .rows = 2, .mark = SIZE_MAX
	};
	struct text t;

	(void)state;
	text_init(&t, &mem, &utf8);
	text_chart(&t, &c);
	assert_string_equal(text_get(&t),
			    "2.00 KiB\u2524 \u2591\u2591\u2591\u2588\u2588\u2588\n"
			    "        \u2502\u2588\u2591\u2588\u2588\u2588\u2588\u2588\u2584\n"
			    "       0\u2514\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\n");
	text_release(&t);
	text_init(&t, &mem, &ascii);
	text_chart(&t, &c);
	assert_string_equal(text_get(&t), "2.00 KiB| :::###\n"
					  "        |#:#####:\n"
					  "       0+--------\n");
	text_release(&t);
}

/* A failed allocation sticks and nothing is written behind it. */
static void test_memory(void **state)
{
	for (int64_t after = 0; after < 6; after++) {
		struct plim_err err = { 0 };
		struct mem m;
		struct text t;

		mem_init(&m, 0);
		m.fail_after = after;
		text_init(&t, &m, NULL);
		text_wrap(&t, 0, 0, "%0300d", 1);
		text_repeat(&t, "x", 1000);
		text_printf(&t, "%01000d", 1);
		if (after < 4)
			assert_int_equal(text_status(&t, &err), PLIM_E_NOMEM);
		text_release(&t);
		assert_int_equal(m.used_bytes, 0);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_names),
		cmocka_unit_test(test_fit),     cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_table),   cmocka_unit_test(test_bar),
		cmocka_unit_test(test_chart),   cmocka_unit_test(test_chart_low),
		cmocka_unit_test(test_memory),
	};

	mem_init(&mem, 0);
	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
