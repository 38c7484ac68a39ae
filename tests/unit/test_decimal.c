#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check(const char *text, size_t took, bool exact)
{
	size_t n = 99;
	double value = 0;

	assert_int_equal(decimal_read(text, strlen(text), &n, &value), exact);
	assert_int_equal(n, took);
	if (exact) {
		char copy[64] = { 0 };
		double want;

		memcpy(copy, text, took);
		want = strtod(copy, NULL);
		assert_memory_equal(&value, &want, sizeof(value));
	}
}

static void test_forms(void **state)
{
	(void)state;
	check("", 0, false);
	check("-", 0, false);
	check(".", 0, false);
	check("-.e3", 0, false);
	check("x1", 0, false);
	check("0", 1, true);
	check("-0", 2, true);
	check("+7,", 2, true);
	check("1.", 2, true);
	check(".5", 2, true);
	check("1.2.3", 3, true);
	check("1e", 1, true);
	check("1e+", 1, true);
	check("1e-5 ", 4, true);
	check("2.5E+3", 6, true);
	check("1e22", 4, true);
	check("1e23", 4, false);
	check("1e-9999999999999", 16, false);
	check("123456789012345", 15, true);
	check("1234567890123456", 16, false);
	check("0.1234567890123456789e4", 23, false);
}

/* A number in one of the forms in which logs have it. */
static void print(char *text, size_t size, int form, double value)
{
	switch (form) {
	case 0: (void)snprintf(text, size, "%.6g", value); break;
	case 1: (void)snprintf(text, size, "%.15g", value); break;
	case 2: (void)snprintf(text, size, "%.4f", value); break;
	case 3: (void)snprintf(text, size, "%.3e", value); break;
	default: (void)snprintf(text, size, "%.0f", value); break;
	}
}

/* Of printed numbers each is what strtod makes of it. */
static void test_as_strtod(void **state)
{
	uint64_t seed = 88172645463325252ull;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		char text[400];
		double value, want;
		size_t took;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		want = (double)(int64_t)seed / (double)(1ull << (seed % 64));
		print(text, sizeof(text), i % 5, want);
		if (!decimal_read(text, strlen(text), &took, &value))
			continue;
		assert_int_equal(took, strlen(text));
		want = strtod(text, NULL);
		assert_memory_equal(&value, &want, sizeof(value));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_as_strtod),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
