/*
 * What /proc and cgroups hold as numbers: exactly, or not at all.  And a whole tree with every
 * allocation failing in turn.
 */
#include "host/host.h"
#include "host/parse.h"

#include <plimsoll/here.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct host_span span(const char *s)
{
	return (struct host_span){ s, strlen(s) };
}

static void test_numbers(void **state)
{
	static const struct {
		const char *text;
		bool good;
		uint64_t value;
	} cases[] = {
		{ "0", true, 0 },
		{ "12\n", true, 12 },
		{ " 00000000000000000000000000012 ", true, 12 },
		{ "18446744073709551614", true, UINT64_MAX - 1 },
		{ "18446744073709551615", false, 0 }, /* would be "not known" */
		{ "18446744073709551616", false, 0 },
		{ "99999999999999999999999", false, 0 },
		{ "", false, 0 },
		{ "\n", false, 0 },
		{ "-1", false, 0 },
		{ "+1", false, 0 },
		{ "1 2", false, 0 },
		{ "1x", false, 0 },
		{ "0x10", false, 0 },
		{ "1.5", false, 0 },
	};
	int64_t s;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t v = 0;

		assert_int_equal(host_u64(span(cases[i].text), &v), cases[i].good);
		assert_int_equal(v, cases[i].value);
	}
	assert_true(host_i64(span("-1000\n"), &s) && s == -1000);
	assert_true(host_i64(span("985"), &s) && s == 985);
	assert_false(host_i64(span("--1"), &s));
	assert_false(host_i64(span("-"), &s));
	assert_false(host_i64(span("9223372036854775808"), &s));
}

static void test_limits(void **state)
{
	static const struct {
		const char *text;
		enum plim_here_state state;
		uint64_t bytes;
	} cases[] = {
		{ "max\n", PLIM_HERE_LIMIT_NONE, PLIM_UNKNOWN },
		{ "unlimited", PLIM_HERE_LIMIT_NONE, PLIM_UNKNOWN },
		{ "0\n", PLIM_HERE_LIMIT_SET, 0 },
		{ "9223372036854771712\n", PLIM_HERE_LIMIT_NONE,
		  PLIM_UNKNOWN }, /* pages of 4 KiB */
		{ "9223372036854710272\n", PLIM_HERE_LIMIT_NONE, PLIM_UNKNOWN }, /* of 64 KiB */
		{ "9223372036854710271\n", PLIM_HERE_LIMIT_SET, 9223372036854710271u },
		{ "maximum", PLIM_HERE_LIMIT_UNKNOWN, 7 },
		{ "max 1", PLIM_HERE_LIMIT_UNKNOWN, 7 },
		{ "", PLIM_HERE_LIMIT_UNKNOWN, 7 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct plim_here_limit l = { PLIM_HERE_LIMIT_UNKNOWN, 7 };

		assert_int_equal(host_limit(span(cases[i].text), &l),
				 cases[i].state != PLIM_HERE_LIMIT_UNKNOWN);
		assert_int_equal(l.state, cases[i].state);
		assert_int_equal(l.bytes, cases[i].bytes);
	}
}

static void test_keys(void **state)
{
	static const struct host_key keys[] = { { "VmRSS", 0 }, { "file", 8 } };
	uint64_t v[2] = { 7, 7 };

	(void)state;
	host_keyed(span("VmRSS:\t    12 kB\nfile 34\nVmRSSx: 1 kB\nfile_dirty 5"), keys, 2, v);
	assert_int_equal(v[0], 12 * 1024);
	assert_int_equal(v[1], 34);
	host_keyed(span("VmRSS: 18014398509481984 kB\nVmRSS: 1 MB\nVmRSS: 1 kB x\nfile -1\nfile"),
		   keys, 2, v);
	assert_int_equal(v[0], 12 * 1024);
	assert_int_equal(v[1], 34);
}

static void test_mounts(void **state)
{
	struct host_membership in;
	struct host_mount m;
	uint64_t size;

	(void)state;
	assert_true(
		host_mount(span("35 31 0:32 /a\\040b /sys\\134x rw shared:1 master:2 - cgroup c "
				"rw,memory"),
			   &m));
	assert_string_equal(m.root, "/a b");
	assert_string_equal(m.point, "/sys\\x");
	assert_true(host_is(m.super, "rw,memory"));
	assert_false(host_mount(span("35 31 0:32 / /x rw shared:1"), &m));
	assert_false(host_mount(span("35 31 0:32 / /x\\000y rw - tmpfs t rw"), &m));
	assert_true(host_mount_size(span("rw,size=64k,inode64"), &size) && size == 65536);
	assert_false(host_mount_size(span("rw,size=64m"), &size));
	assert_false(host_mount_size(span("rw,resize=64k"), &size));
	assert_false(host_mount_size(span("size=18446744073709551614k"), &size));
	assert_true(host_membership(span("4:cpu,memory:/a:b"), &in) && in.memory && !in.unified);
	assert_true(host_is(in.path, "/a:b"));
	assert_true(host_membership(span("0::/"), &in) && in.unified && !in.memory);
	assert_false(host_membership(span("0::"), &in));
	assert_true(host_membership(span("1:name=memory:/"), &in) && !in.memory);
}

static char tree[4096];

static enum plim_status look(struct mem *m, struct plim_err *err)
{
	struct host_options options = { .root = tree, .pid = PLIM_UNKNOWN };
	struct plim_here out = { 0 };
	struct host h = { 0 };
	enum plim_status st = host_look(&h, m, &options, &out, err);

	if (!st) {
		assert_int_equal(out.cgroup_count, 3);
		assert_int_equal(out.kill_count, 2);
	}
	host_release(&h);
	return st;
}

/* Every allocation fails once: an error each time, and nothing is left behind. */
static void test_out_of_memory(void **state)
{
	enum plim_status st = PLIM_E_NOMEM;
	struct plim_err err;
	struct mem m;
	int64_t n = 0;

	(void)state;
	for (; st && n < 10000; n++) {
		mem_init(&m, (uint64_t)64 << 20);
		m.fail_after = n;
		st = look(&m, &err);
		assert_int_equal(m.used_bytes, 0);
		assert_true(!st || (st == PLIM_E_NOMEM && *err.message));
	}
	assert_true(!st && n > 10);
}

/* The recorded host is unpacked into a folder of its own: `top`, made here. */
static char top[] = "/tmp/plimsoll-test-host-XXXXXX";

static int unpack(void **state)
{
	const char *data = getenv("PLIMSOLL_TEST_DATA");
	char command[8192];

	(void)state;
	if (!mkdtemp(top))
		return 1;
	snprintf(tree, sizeof(tree), "%s/v2", top);
	snprintf(command, sizeof(command), "tar -xf '%s/host/v2.tar.xz' -C '%s'",
		 data ? data : "tests/data", top);
	return system(command);
}

static int clear(void **state)
{
	char command[sizeof(top) + 16];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", top);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),       cmocka_unit_test(test_limits),
		cmocka_unit_test(test_keys),          cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, unpack, clear);
}
