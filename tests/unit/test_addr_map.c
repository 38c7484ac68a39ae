/* The table of addresses against a list of them: put, taken out, put again, swept out. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static uint32_t random_below(uint32_t n)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 33) % n;
}

/* `count` addresses, of which about one in `live` is in; address 0 is one like others. */
static void against_list(uint32_t count, uint32_t live, uint64_t stride)
{
	uint32_t *values = calloc(count, sizeof(*values));
	struct addr_map map = { 0 };
	struct mem m;
	size_t n = 0;

	mem_init(&m, 0);
	map.mem = &m;
	for (uint32_t i = 1; i < 20 * count; i++) {
		uint32_t k = random_below(count);
		struct addr_slot *slot;

		assert_int_equal(addr_map_room(&map, NULL), 0);
		slot = addr_map_find(&map, k * stride);
		assert_int_equal(slot->value, values[k]);
		if (values[k]) {
			addr_map_remove(&map, slot);
			values[k] = 0;
			n--;
		} else if (!random_below(live)) {
			addr_map_put(&map, slot, k * stride, i);
			values[k] = i;
			n++;
		}
		assert_int_equal(map.n, n);
	}
	for (uint32_t k = 0; k < count; k++)
		assert_int_equal(addr_map_find(&map, k * stride)->value, values[k]);
	addr_map_release(&map);
	assert_int_equal(m.used_bytes, 0);
	free(values);
}

static void test_random(void **state)
{
	(void)state;
	against_list(10, 1, 512);
	against_list(3000, 1, 512);
	against_list(3000, 50, 1); /* 512 of them have the same home */
	against_list(100000, 300, (uint64_t)2 << 20);
}

/* What is out takes room only until the table is built again: it follows what is in. */
static void test_swept(void **state)
{
	struct addr_map map = { 0 };
	struct mem m;

	(void)state;
	mem_init(&m, 1 << 20);
	map.mem = &m;
	for (uint64_t addr = 0; addr < 1000000; addr++) {
		assert_int_equal(addr_map_room(&map, NULL), 0);
		addr_map_put(&map, addr_map_find(&map, addr << 9), addr << 9, 1);
		if (addr >= 100)
			addr_map_remove(&map, addr_map_find(&map, (addr - 100) << 9));
	}
	assert_int_equal(map.n, 100);
	addr_map_release(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_swept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
