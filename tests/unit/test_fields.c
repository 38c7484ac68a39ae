#include "base/fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum colour { COLOUR_NONE, COLOUR_RED, COLOUR_SEA_GREEN };
static const char *const colour_names[] = { NULL, "red", "sea_green" };

struct inner {
	uint64_t used_bytes;
	double share;
};

struct outer {
	uint64_t time_us;
	int64_t delta;
	uint32_t stream;
	bool inferred;
	enum colour colour, other;
	const char *name;
	struct inner peak;
	const struct inner *end;
	struct inner *parts;
	size_t part_count;
	const char **stack;
	size_t stack_count;
	uint64_t *steps;
	size_t step_count;
};

static const struct field inner_rows[] = {
	FIELD_U64(struct inner, used_bytes, "in use"),
	FIELD_DOUBLE(struct inner, share, "of the whole"),
};
static const struct field_table inner_table = FIELD_TABLE(struct inner, inner_rows);

static const struct field outer_rows[] = {
	FIELD_U64(struct outer, time_us, "when"),
	FIELD_I64(struct outer, delta, "change"),
	FIELD_U32(struct outer, stream, "its number"),
	FIELD_BOOL(struct outer, inferred, "not seen"),
	FIELD_ENUM(struct outer, colour, enum colour, colour_names, "paint"),
	FIELD_ENUM(struct outer, other, enum colour, colour_names, "more paint"),
	FIELD_STRING(struct outer, name, "what it is"),
	FIELD_STRUCT(struct outer, peak, struct inner, inner_table, "at the peak"),
	FIELD_POINTER(struct outer, end, struct inner, inner_table, "at the end"),
	FIELD_STRUCTS(struct outer, parts, part_count, struct inner, inner_table, "pieces"),
	FIELD_STRINGS(struct outer, stack, stack_count, "innermost first"),
	FIELD_U64S(struct outer, steps, step_count, "begin of each"),
};
static const struct field_table outer_table = FIELD_TABLE(struct outer, outer_rows);

static void test_json(void **state)
{
	struct inner parts[] = { { 1, 0.5 }, { PLIM_UNKNOWN, __builtin_nan("") } };
	const char *stack[] = { "a", NULL };
	uint64_t steps[] = { 3, PLIM_UNKNOWN };
	struct outer v = { .time_us = 7,
			   .delta = -2,
			   .stream = 3,
			   .inferred = true,
			   .colour = COLOUR_SEA_GREEN,
			   .name = "n",
			   .peak = { 9, 1 },
			   .parts = parts,
			   .part_count = 2,
			   .stack = stack,
			   .stack_count = 2,
			   .steps = steps,
			   .step_count = 2 };
	struct mem m;
	struct text t;
	struct json_out o;

	(void)state;
	mem_init(&m, 0);
	text_init(&t, &m, NULL);
	json_out_init(&o, &t, JSON_COMPACT, NULL);
	fields_emit_json(&o, NULL, &outer_table, &v);
	assert_int_equal(json_out_finish(&o, NULL), PLIM_OK);
	assert_string_equal(text_get(&t),
			    "{\"time_us\":7,\"delta\":-2,\"stream\":3,\"inferred\":true,"
			    "\"colour\":\"sea_green\",\"other\":null,\"name\":\"n\","
			    "\"peak\":{\"used_bytes\":9,\"share\":1.0},\"end\":null,"
			    "\"parts\":[{\"used_bytes\":1,\"share\":0.5},"
			    "{\"used_bytes\":null,\"share\":null}],"
			    "\"stack\":[\"a\",null],\"steps\":[3,null]}\n");
	text_release(&t);
	assert_int_equal(m.used_bytes, 0);
}

static void test_doc(void **state)
{
	struct mem m;
	struct text t;

	(void)state;
	mem_init(&m, 0);
	text_init(&t, &m, NULL);
	fields_emit_doc(&t, "x[].", &outer_table);
	assert_int_equal(text_status(&t, NULL), PLIM_OK);
	assert_non_null(strstr(text_get(&t),
			       "| `x[].time_us` | integer, microseconds, or null | when |\n"));
	assert_non_null(strstr(
		text_get(&t), "| `x[].parts[].used_bytes` | integer, bytes, or null | in use |\n"));
	assert_non_null(strstr(text_get(&t),
			       "| `x[].colour` | string: `red`, `sea_green`, or null | paint |\n"));
	text_release(&t);
	text_init(&t, &m, NULL);
	fields_emit_abi(&t, &outer_table);
	assert_non_null(strstr(text_get(&t), "struct inner.share 8 8 number\n"));
	text_release(&t);
}

static const struct field_table self;
static const struct field self_row = {
	.name = "self", .kind = FIELD_KIND_POINTER, .size = 8, .doc = "d", .table = &self
};
static const struct field_table self = { "self", 8, &self_row, 1 };

/* Each row is wrong in one way, and the check says which. */
static void test_check(void **state)
{
	static const char *const ugly[] = { "No" };
	static const struct {
		struct field row;
		const char *says;
	} bad[] = {
		{ { "Name", FIELD_KIND_U64, 0, 8, "d", NULL, 0, NULL, 0 }, "snake_case" },
		{ { "a__b", FIELD_KIND_U64, 0, 8, "d", NULL, 0, NULL, 0 }, "snake_case" },
		{ { "bytes_used", FIELD_KIND_U64, 0, 8, "d", NULL, 0, NULL, 0 }, "_bytes" },
		{ { "some_bytes", FIELD_KIND_STRING, 0, 8, "d", NULL, 0, NULL, 0 }, "_bytes" },
		{ { "a", FIELD_KIND_U64, 0, 8, "", NULL, 0, NULL, 0 }, "doc" },
		{ { "a", FIELD_KIND_U64, 0, 8, "a|b", NULL, 0, NULL, 0 }, "doc" },
		{ { "a", FIELD_KIND_U64, 12, 8, "d", NULL, 0, NULL, 0 }, "outside" },
		{ { "a", FIELD_KIND_STRUCTS, 0, 8, "d", &inner_table, 12, NULL, 0 }, "count" },
		{ { "a", FIELD_KIND_STRUCT, 0, 16, "d", NULL, 0, NULL, 0 }, "table" },
		{ { "a", FIELD_KIND_STRUCT, 0, 8, "d", &inner_table, 0, NULL, 0 }, "another" },
		{ { "a", FIELD_KIND_ENUM, 0, 4, "d", NULL, 0, ugly, 1 }, "snake_case" },
		{ { "a", FIELD_KIND_ENUM, 0, 4, "d", NULL, 0, colour_names, 1 }, "no names" },
		{ { "a", FIELD_KIND_POINTER, 0, 8, "d", &self, 0, NULL, 0 }, "itself" },
		{ { NULL, FIELD_KIND_U64, 0, 8, "d", NULL, 0, NULL, 0 }, "no name" },
	};
	struct field twice[] = { outer_rows[0], outer_rows[0] };
	struct field_table t = { "t", sizeof(struct outer), twice, 2 };
	struct plim_err err = { 0 };

	(void)state;
	assert_int_equal(fields_check(&outer_table, &err), PLIM_OK);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct field_table one = { "t", 16, &bad[i].row, 1 };

		assert_int_equal(fields_check(&one, &err), PLIM_E_ARG);
		if (!strstr(err.message, bad[i].says))
			fail_msg("row %zu: '%s'", i, err.message);
	}
	assert_int_equal(fields_check(&t, &err), PLIM_E_ARG);
	assert_non_null(strstr(err.message, "twice"));
	twice[1].name = "other";
	assert_int_equal(fields_check(&t, &err), PLIM_E_ARG);
	assert_non_null(strstr(err.message, "overlaps"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_doc),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests_name("fields", tests, NULL, NULL);
}
