/* What a file is: bytes that begin like two kinds, names, and what each row of the tables says. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char *slug_of(const void *bytes, size_t n)
{
	const struct file_kind *kind = file_kind_of(bytes, n);

	return kind ? kind->slug : "";
}

/* The length of a header may look like another kind's first bytes: 35,615 is 1f 8b, 640 is 80 02. */
static void test_safetensors_of_any_length(void **state)
{
	static const uint8_t starts[][2] = {
		{ 0x1f, 0x8b }, { 0x80, 0x02 }, { 'P', 'K' }, { 8, 3 }
	};

	(void)state;
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
		char head[32] = "\0\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\"}";

		memcpy(head, starts[i], 2);
		assert_string_equal(slug_of(head, sizeof(head)), "safetensors");
	}
}

static void test_bytes(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *slug;
	} cases[] = {
#define CASE(bytes, slug) { bytes, sizeof(bytes) - 1, slug }
		CASE("", "empty"),
		CASE("\0\0\0\0", "zeros"),
		CASE("PLIM\211\r\n\032", "packed_recording"),
		CASE("\x80\4\x95\1\0\0\0\0\0\0\0}\x8c\xdsegments", "recording"),
		CASE("\x80\4K\1.", "pickle"),
		CASE("{\"schema\":\"trace/3\",\"loss\": 1}", "plan_trace"),
		CASE(":W&B\xe1\xbe", "wandb"),
		CASE("\x80\7K\1.", ""),
		CASE("PK\3\4\0\0", "zip"),
		CASE("\xef\xbb\xbf\n <!DOCTYPE html>", "html"),
		CASE("<html><title>plimsoll report", "page"),
		CASE(" {\n \"model_type\": \"llama\"}", "config"),
		CASE("{\"loss\": 1.5, \"step\": 2}", "metrics"),
		CASE("{\"segments\": [], \"loss\": 1}", "recording_json"),
		CASE("step 5 \"model_type\" loss 3", ""),
		CASE("kind: Pod\napiVersion: v1\n", "kubernetes"),
		CASE("\x08\x07\x12\x07pytorch\x1a\x05"
		     "2.1.0",
		     "onnx"),
#undef CASE
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(slug_of(cases[i].bytes, cases[i].n), cases[i].slug);
}

static void test_names(void **state)
{
	(void)state;
	/* Each compression that is read: .bz2 was missing once. */
	assert_string_equal(file_kind_of_name("a.log.bz2")->command, "why");
	assert_string_equal(file_kind_of_name("runs/a.csv.zst")->command, "curves");
	assert_string_equal(file_kind_of_name("m.safetensors.index.json")->command, "ckpt verify");
	assert_string_equal(file_kind_of_name("config.json")->command, "plan");
	assert_null(file_kind_of_name("log"));
	assert_null(file_kind_of_name(""));
	assert_null(file_kind_of_name(".gz"));
	assert_int_equal(file_plain_length("rank0.pickle.BZ2"), 12);
	assert_int_equal(file_plain_length("rank0.pickle"), 12);
}

static void test_text(void **state)
{
	(void)state;
	assert_true(file_is_text((const uint8_t *)"a\033[1mb\r\n", 8));
	assert_false(file_is_text((const uint8_t *)"a\0b", 3));
	assert_false(file_is_text((const uint8_t *)"", 0));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_safetensors_of_any_length),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
