/* The default memory limit: half of the machine's memory, or of the smallest limit of a cgroup on the way to ours. */
#include "host/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* What is mounted where, and this process, 77. */
static void begin(const char *mounts)
{
	char link[sizeof(top) + 32];

	put("proc/77/mountinfo", mounts);
	snprintf(link, sizeof(link), "%s/proc/self", top);
	assert_int_equal(symlink("77", link), 0);
}

static void test_version_2(void **state)
{
	(void)state;
	begin("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("proc/77/cgroup", "0::/slice/job\n");
	put("sys/fs/cgroup/slice/job/memory.max", "max\n");
	put("sys/fs/cgroup/slice/memory.max", "104857600\n");
	assert_int_equal(host_memory_limit_below(top), 50 * MIB);
	put("sys/fs/cgroup/slice/job/memory.max", "52428800\n");
	assert_int_equal(host_memory_limit_below(top), 25 * MIB);
	clear();
}

/* A controller that shares its hierarchy with others was not seen. */
static void test_version_1(void **state)
{
	(void)state;
	begin("33 32 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
	put("proc/77/cgroup", "9:freezer:/job\n7:cpu,memory:/job\n1:name=systemd:/x\n0::/\n");
	put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "209715200\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(host_memory_limit_below(top), 100 * MIB);
	put("proc/77/cgroup", "9:freezer:/job\n");
	assert_true(host_memory_limit_below(top) > 100 * MIB);
	clear();
}

static void test_no_cgroups(void **state)
{
	struct mem m;

	(void)state;
	assert_true(host_memory_limit_below(top) > 100 * MIB);
	assert_int_equal(host_memory_limit_below(NULL), host_memory_limit());
	host_mem_init(&m, 0);
	assert_int_equal(m.limit_bytes, host_memory_limit());
	mem_init(&m, 0);
	assert_int_equal(m.limit_bytes, UINT64_MAX);
}

/* What `why --here` calls room: of the nearest bound, what is not taken. */
static void test_room(void **state)
{
	(void)state;
	begin("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("proc/77/cgroup", "0::/slice/job\n");
	put("proc/77/status", "Name:\tjob\nVmRSS:\t1024 kB\n");
	put("proc/meminfo",
	    "MemTotal: 4194304 kB\nMemFree: 1048576 kB\nMemAvailable: 2097152 kB\n");
	put("sys/fs/cgroup/slice/job/memory.max", "max\n");
	put("sys/fs/cgroup/slice/job/memory.current", "104857600\n");
	assert_int_equal(host_room_below(top), 2048 * MIB);
	put("sys/fs/cgroup/slice/job/memory.max", "1073741824\n");
	assert_int_equal(host_room_below(top), 924 * MIB);
	put("sys/fs/cgroup/slice/memory.max", "314572800\n");
	put("sys/fs/cgroup/slice/memory.current", "209715200\n");
	assert_int_equal(host_room_below(top), 100 * MIB);
	clear();
	assert_int_equal(host_room_below(top), host_memory_limit_below(top));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_version_2),
		cmocka_unit_test(test_version_1),
		cmocka_unit_test(test_no_cgroups),
		cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
