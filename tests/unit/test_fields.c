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
	FIELD_U64(struct inner, used_bytes),
	FIELD_DOUBLE(struct inner, share),
};
static const struct field_table inner_table = FIELD_TABLE(struct inner, inner_rows, NULL);

static const struct field outer_rows[] = {
	FIELD_U64(struct outer, time_us),
	FIELD_I64(struct outer, delta),
	FIELD_U32(struct outer, stream),
	FIELD_BOOL(struct outer, inferred),
	FIELD_ENUM(struct outer, colour, enum colour, colour_names),
	FIELD_ENUM(struct outer, other, enum colour, colour_names),
	FIELD_STRING(struct outer, name),
	FIELD_STRUCT(struct outer, peak, struct inner, inner_table),
	FIELD_POINTER(struct outer, end, struct inner, inner_table),
	FIELD_STRUCTS(struct outer, parts, part_count, struct inner, inner_table),
	FIELD_STRINGS(struct outer, stack, stack_count),
	FIELD_U64S(struct outer, steps, step_count),
};
static const struct field_table outer_table = FIELD_TABLE(struct outer, outer_rows, NULL);

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests_name("fields", tests, NULL, NULL);
}
