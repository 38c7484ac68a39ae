/* The sum of many bytes at once is zlib's, wherever they begin and end and however they are cut. */
#include "base/crc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include <zlib.h>

#define BYTES 5000u

static void test_zlib(void **state)
{
	static uint8_t bytes[BYTES];

	(void)state;
	srand(1);
	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)(rand() >> 7);
	assert_int_equal(crc_add(0, bytes, 0), 0);
	for (size_t from = 0; from < 70; from += 3)
		for (size_t n = 0; from + n <= BYTES; n = n < 1200 ? n + 1 : n + 239) {
			uint32_t all = (uint32_t)crc32(0, bytes + from, (uInt)n);
			size_t cut = n / 3;

			assert_int_equal(crc_add(0, bytes + from, n), all);
			assert_int_equal(
				crc_add(crc_add(0, bytes + from, cut), bytes + from + cut, n - cut),
				all);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_zlib) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
