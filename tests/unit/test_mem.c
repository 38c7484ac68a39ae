/* The default memory limit: half of the machine's memory, or of the smallest limit of a cgroup on the way to ours. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static char top[] = "/tmp/plimsoll-test-mem-XXXXXX";

static int make_top(void **state)
{
	(void)state;
	return !mkdtemp(top);
}

static void clear(void)
{
	char command[sizeof(top) + 32];

	snprintf(command, sizeof(command), "rm -rf '%s'/*", top);
	assert_int_equal(system(command), 0);
}

static int remove_top(void **state)
{
	(void)state;
	clear();
	return remove(top);
}

static void put(const char *path, const char *text)
{
	char command[8192];
	FILE *f;

	snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s/%s')\"", top, path);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command), "%s/%s", top, path);
	f = fopen(command, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_version_2(void **state)
{
	(void)state;
	put("proc/self/cgroup", "0::/slice/job\n");
	put("sys/fs/cgroup/slice/job/memory.max", "max\n");
	put("sys/fs/cgroup/slice/memory.max", "104857600\n");
	assert_int_equal(mem_limit_below(top), 50 * MIB);
	put("sys/fs/cgroup/slice/job/memory.max", "52428800\n");
	assert_int_equal(mem_limit_below(top), 25 * MIB);
	clear();
}

/* A controller that shares its hierarchy with others was not seen. */
static void test_version_1(void **state)
{
	(void)state;
	put("proc/self/cgroup", "9:freezer:/job\n7:cpu,memory:/job\n1:name=systemd:/x\n0::/\n");
	put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "209715200\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(mem_limit_below(top), 100 * MIB);
	put("proc/self/cgroup", "9:freezer:/job\n");
	assert_true(mem_limit_below(top) > 100 * MIB);
	clear();
}

static void test_no_cgroups(void **state)
{
	struct mem m;

	(void)state;
	assert_true(mem_limit_below(top) > 100 * MIB);
	assert_int_equal(mem_limit_below(""), mem_default_limit());
	mem_init(&m, 0);
	assert_int_equal(m.limit_bytes, mem_default_limit());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_version_2),
		cmocka_unit_test(test_version_1),
		cmocka_unit_test(test_no_cgroups),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
