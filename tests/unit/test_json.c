#include "base/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct mem mem;

/* All tokens of `s` in a short notation, or the error; the window starts with `window` bytes. */
static enum plim_status spell(const char *s, size_t n, size_t window, enum json_many many,
			      struct text *t, struct plim_err *err)
{
	static const char marks[] = ".{}[]";
	struct source_options options = { .window_bytes = window };
	struct source *source;
	struct json j;
	struct json_token k;
	enum plim_status st;

	text_init(t, &mem, NULL);
	st = source_open_memory(&mem, "x", s, n, SOURCE_MEMORY_PLAIN, &options, &source, err);
	assert_int_equal(st, PLIM_OK);
	assert_int_equal(json_init(&j, &mem, source, many, err), PLIM_OK);
	do {
		st = json_next(&j, &k, err);
		if (st)
			break;
		if (k.kind <= JSON_ARRAY_END)
			text_put(t, &marks[k.kind], 1);
		else if (k.kind == JSON_KEY || k.kind == JSON_STRING)
			text_printf(t, "%c%s%c", k.kind == JSON_KEY ? '<' : '\'', k.string,
				    k.kind == JSON_KEY ? '>' : '\'');
		else if (k.kind == JSON_INTEGER)
			text_printf(t, "%s%llu%s ", k.negative ? "-" : "",
				    (unsigned long long)k.magnitude, k.big ? "big" : "");
		else if (k.kind == JSON_DOUBLE)
			text_printf(t, "%g ", k.number);
		else
			text_puts(t, k.kind == JSON_TRUE ? "T" : k.kind == JSON_FALSE ? "F" : "N");
	} while (k.kind != JSON_END);
	json_release(&j);
	source_close(source);
	return st;
}

static void test_read(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "{}", "{}." },
		{ " [ ] \n", "[]." },
		{ "\xef\xbb\xbf[1]", "[1 ]." },
		{ "{\"a\": [1, -2.5, true, false, null], \"b\":{}}", "{<a>[1 -2.5 TFN]<b>{}}." },
		{ "[NaN,Infinity,-Infinity,-0,1e3]", "[nan inf -inf -0 1000 ]." },
		{ "18446744073709551615", "18446744073709551615 ." },
		{ "18446744073709551616", "0big ." },
		{ "-9223372036854775808", "-9223372036854775808 ." },
		{ "-9223372036854775809", "-0big ." },
		{ "\"\\u0041\\n\\/\\\"\\u00e9\\ud83d\\ude00\"",
		  "'A\n/\"\xc3\xa9\xf0\x9f\x98\x80'." },
		{ "\"\\ud83d\\u0041\\udc00x\\ud800\"", "'\xef\xbf\xbd"
						       "A\xef\xbf\xbdx\xef\xbf\xbd'." },
		{ "\"\xff\xfe\"", "'\xff\xfe'." },
		{ "\"a long enough string to cross small windows\"",
		  "'a long enough string to cross small windows'." },
	};
	static const size_t windows[] = { 1, 2, 3, 7, 64, 0 };
	struct text t;
	struct plim_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w++) {
			assert_int_equal(spell(cases[i].in, strlen(cases[i].in), windows[w],
					       JSON_ONE, &t, &err),
					 PLIM_OK);
			assert_string_equal(text_get(&t), cases[i].out);
			text_release(&t);
		}
	assert_int_equal(spell("{}\n[1]\n 2", 9, 0, JSON_MANY, &t, &err), PLIM_OK);
	assert_string_equal(text_get(&t), "{}[1 ]2 .");
	text_release(&t);
	assert_int_equal(mem.used_bytes, 0);
}

static void test_refuse(void **state)
{
	static const struct {
		const char *in;
		uint64_t offset;
	} cases[] = {
		{ "{", 1 },        { "[1", 2 },         { "[1,]", 3 },     { "{\"a\"}", 4 },
		{ "{\"a\":}", 5 }, { "{\"a\":1,}", 7 }, { "{1:2}", 1 },    { "[1 2]", 3 },
		{ "[1}", 2 },      { "{]", 1 },         { "01", 0 },       { "1.", 0 },
		{ "-", 0 },        { "1e", 0 },         { ".5", 0 },       { "+1", 0 },
		{ "nul", 0 },      { "\"abc", 4 },      { "\"\\x\"", 1 },  { "\"\\u12g4\"", 1 },
		{ "\"\\", 1 },     { "\"a\nb\"", 2 },   { "{} x", 3 },     { " ", 1 },
		{ "\"\\u12", 1 },  { "[1,,2]", 3 },     { "-Infinit", 0 }, { "{\"a\" 1}", 5 },
	};
	char deep[JSON_DEPTH + 2];
	struct text t;
	struct plim_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t w = 0; w < 5; w++) {
			enum plim_status st =
				spell(cases[i].in, strlen(cases[i].in), w, JSON_ONE, &t, &err);

			if (st != PLIM_E_FORMAT || err.offset != cases[i].offset)
				fail_msg("%s: status %d, offset %llu, %s", cases[i].in, st,
					 (unsigned long long)err.offset, err.message);
			text_release(&t);
		}
	memset(deep, '[', sizeof(deep));
	assert_int_equal(spell(deep, sizeof(deep), 0, JSON_ONE, &t, &err), PLIM_E_FORMAT);
	assert_non_null(strstr(err.message, "nested too deeply at byte 512"));
	text_release(&t);
}

static void test_skip(void **state)
{
	static const char in[] = "{\"a\":{\"x\":[1,{\"y\":2}]},\"b\":3,\"c\":[[1],2]}";
	struct source *s;
	struct json j;
	struct json_token k;
	uint64_t u;
	int64_t i;

	(void)state;
	assert_int_equal(source_open_memory(&mem, "x", in, sizeof(in) - 1, SOURCE_MEMORY_PLAIN,
					    NULL, &s, NULL),
			 PLIM_OK);
	json_init(&j, &mem, s, JSON_ONE, NULL);
	json_next(&j, &k, NULL);
	json_next(&j, &k, NULL);
	assert_true(json_is(&k, "a"));
	assert_int_equal(json_skip(&j, &k, NULL), PLIM_OK);
	json_next(&j, &k, NULL);
	assert_true(json_is(&k, "b"));
	json_next(&j, &k, NULL);
	assert_true(json_get_u64(&k, &u) && u == 3);
	assert_true(json_get_i64(&k, &i) && i == 3);
	json_next(&j, &k, NULL);
	assert_int_equal(k.offset, 29);
	json_next(&j, &k, NULL);
	assert_int_equal(k.kind, JSON_ARRAY);
	assert_int_equal(json_skip(&j, &k, NULL), PLIM_OK);
	json_next(&j, &k, NULL);
	assert_int_equal(k.kind, JSON_OBJECT_END);
	json_release(&j);
	source_close(s);
}

static enum plim_status note_member(void *ctx, struct json *j, const char *key,
				    struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	text_printf(ctx, "%zu:%.3s=%d ", strlen(key), key, (int)t.kind);
	return st ? st : json_skip(j, &t, err);
}

static void test_members(void **state)
{
	static const char key[] = "{\"a\":{\"x\":[1]},\"bcd\":3,\"\":[[1],2],\"";
	char in[600];
	struct plim_err err = { 0 };
	struct source *s;
	struct text t;
	struct json j;
	struct json_token k;

	(void)state;
	memset(in, 'y', sizeof(in));
	memcpy(in, key, sizeof(key) - 1);
	memcpy(in + sizeof(in) - 9, "\":null,1}", 10 - 1);
	text_init(&t, &mem, NULL);
	assert_int_equal(
		source_open_memory(&mem, "x", in, sizeof(in), SOURCE_MEMORY_PLAIN, NULL, &s, NULL),
		PLIM_OK);
	json_init(&j, &mem, s, JSON_ONE, NULL);
	json_next(&j, &k, NULL);
	assert_int_equal(json_members(&j, &k, note_member, &t, &err), PLIM_E_FORMAT);
	assert_int_equal(err.offset, sizeof(in) - 2); /* a key is expected */
	assert_string_equal(text_get(&t), "1:a=1 3:bcd=7 0:=3 199:yyy=11 ");
	json_release(&j);
	source_close(s);
	text_release(&t);

	assert_int_equal(
		source_open_memory(&mem, "x", " [1]", 4, SOURCE_MEMORY_PLAIN, NULL, &s, NULL),
		PLIM_OK);
	json_init(&j, &mem, s, JSON_ONE, NULL);
	json_next(&j, &k, NULL);
	assert_int_equal(json_members(&j, &k, note_member, NULL, &err), PLIM_E_FORMAT);
	assert_int_equal(err.offset, 1);
	json_release(&j);
	source_close(s);
}

static void test_write(void **state)
{
	static const char pretty[] = "{\n"
				     "  \"a\": [1, -2, null, [true]],\n"
				     "  \"b\": {},\n"
				     "  \"c\": [\n"
				     "    {\n"
				     "      \"d\": \"x\"\n"
				     "    }\n"
				     "  ]\n"
				     "}\n";
	struct text t;
	struct json_out o;

	(void)state;
	text_init(&t, &mem, NULL);
	json_out_init(&o, &t, JSON_PRETTY, NULL);
	json_object(&o, NULL, JSON_LINES);
	json_array(&o, "a", JSON_LINE);
	json_u64(&o, NULL, 1);
	json_i64(&o, NULL, -2);
	json_u64(&o, NULL, PLIM_UNKNOWN);
	json_array(&o, NULL, JSON_LINES);
	json_bool(&o, NULL, true);
	json_array_end(&o);
	json_array_end(&o);
	json_object(&o, "b", JSON_LINES);
	json_object_end(&o);
	json_array(&o, "c", JSON_LINES);
	json_object(&o, NULL, JSON_LINES);
	json_string(&o, "d", "x");
	json_object_end(&o);
	json_array_end(&o);
	json_object_end(&o);
	assert_int_equal(json_out_finish(&o, NULL), PLIM_OK);
	assert_string_equal(text_get(&t), pretty);
	text_release(&t);
}

static void test_write_scalars(void **state)
{
	static const double numbers[] = {
		0.1,  3, 1e300, 1.0 / 3, 5e-324, -0.0, 123456789012345678.0, 0, 999999999999999,
		1e15, -7
	};
	struct text t;
	struct json_out o;

	(void)state;
	text_init(&t, &mem, NULL);
	json_out_init(&o, &t, JSON_COMPACT, NULL);
	json_array(&o, NULL, JSON_LINES);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_double(&o, NULL, numbers[i]);
	json_double(&o, NULL, NAN);
	json_double(&o, NULL, -INFINITY);
	json_string_n(&o, NULL, "q\"\\\n\x01\x7f\0z\xff\xc3\xa9\xed\xa0\x80", 14);
	json_string(&o, NULL, NULL);
	json_array_end(&o);
	assert_int_equal(json_out_finish(&o, NULL), PLIM_OK);
	assert_string_equal(text_get(&t),
			    "[0.1,3.0,1e+300,0.3333333333333333,4.94065645841247e-324,-0.0,"
			    "1.2345678901234568e+17,0.0,999999999999999.0,1e+15,-7.0,null,null,"
			    "\"q\\\"\\\\\\n\\u0001\\u007f\\u0000z\xef\xbf\xbd\xc3\xa9"
			    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\",null]\n");
	text_release(&t);
}

static enum plim_status count(void *ctx, const char *at, size_t n, struct plim_err *err)
{
	size_t *all = ctx;

	(void)at;
	*all += n;
	return *all > 200000 ? err_set(err, PLIM_E_IO, "full") : PLIM_OK;
}

/* Output leaves through the sink in constant memory; its error is the writer's. */
static void test_sink(void **state)
{
	for (unsigned items = 10000; items <= 100000; items *= 10) {
		size_t all = 0;
		struct json_sink sink = { count, &all };
		struct plim_err err = { 0 };
		struct text t;
		struct json_out o;

		text_init(&t, &mem, NULL);
		json_out_init(&o, &t, JSON_COMPACT, &sink);
		json_array(&o, NULL, JSON_LINES);
		for (unsigned i = 0; i < items; i++)
			json_u64(&o, NULL, 100000);
		json_array_end(&o);
		assert_true(t.cap < 200000);
		assert_int_equal(json_out_finish(&o, &err), items == 10000 ? PLIM_OK : PLIM_E_IO);
		if (items == 10000)
			assert_int_equal(all, 7 * items + 2);
		else
			assert_string_equal(err.message, "full");
		text_release(&t);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),  cmocka_unit_test(test_refuse),
		cmocka_unit_test(test_skip),  cmocka_unit_test(test_members),
		cmocka_unit_test(test_write), cmocka_unit_test(test_write_scalars),
		cmocka_unit_test(test_sink),
	};

	mem_init(&mem, 0);
	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
