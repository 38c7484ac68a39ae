#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct mem mem;

/* An archive as it grows; each piece fills whole blocks. */
struct archive {
	uint8_t at[64 << 10];
	size_t n;
};

static void put_sum(uint8_t *h)
{
	unsigned sum = 0;

	memset(h + 148, ' ', 8);
	for (size_t i = 0; i < 512; i++)
		sum += h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
}

static uint8_t *put_header(struct archive *a, const char *name, char type, uint64_t size)
{
	uint8_t *h = a->at + a->n;

	memset(h, 0, 512);
	memcpy(h, name, strnlen(name, 100));
	snprintf((char *)h + 124, 12, "%011llo", (unsigned long long)size);
	h[156] = (uint8_t)type;
	memcpy(h + 257, "ustar\00000", 8);
	put_sum(h);
	a->n += 512;
	return h;
}

static void put_content(struct archive *a, const char *text, size_t n)
{
	memcpy(a->at + a->n, text, n);
	a->n += (n + 511) / 512 * 512;
}

static void put_file(struct archive *a, const char *name, const char *text)
{
	put_header(a, name, '0', strlen(text));
	put_content(a, text, strlen(text));
}

/* "NAME TYPE CONTENT;" of every member, "!" and the message where it ends in an error. */
static const char *list(const struct archive *a, size_t window)
{
	static char said[4096];
	struct source_options how = { .window_bytes = window, .thread = SOURCE_THREAD_NONE };
	struct plim_err err;
	struct tar_member m;
	struct source *s;
	struct tar tar;
	size_t n = 0;
	enum plim_status st;

	said[0] = 0;
	assert_int_equal(
		source_open_memory(&mem, "a.tar", a->at, a->n, SOURCE_MEMORY_PLAIN, &how, &s, &err),
		PLIM_OK);
	tar_init(&tar, s);
	while (!(st = tar_next(&tar, &m, &err)) && m.name) {
		struct source *inner;

		n += (size_t)snprintf(said + n, sizeof(said) - n, "%s %d", m.name, (int)m.type);
		if (m.type == TAR_FILE && m.bytes &&
		    !source_open_member(&mem, m.name, s, m.bytes, &how, &inner, &err)) {
			assert_int_equal(source_need(inner, inner->p, 16, &err), PLIM_OK);
			n += (size_t)snprintf(said + n, sizeof(said) - n, " %.*s",
					      (int)(inner->end - inner->p), (const char *)inner->p);
			source_close(inner);
		}
		n += (size_t)snprintf(said + n, sizeof(said) - n, ";");
	}
	if (st)
		snprintf(said + n, sizeof(said) - n, "!%s", err.message);
	source_close(s);
	assert_int_equal(mem.used_bytes, 0);
	return said;
}

static void check(const struct archive *a, const char *want)
{
	assert_string_equal(list(a, 0), want);
	assert_string_equal(list(a, 700), want);
}

static void test_members(void **state)
{
	static struct archive a;

	(void)state;
	a.n = 0;
	put_file(&a, "one", "first");
	put_header(&a, "folder/", '5', 0);
	put_file(&a, "folder/two", "");
	put_header(&a, "link", '2', 77); /* whatever the size says, nothing follows */
	put_header(&a, "old/", 0, 0);
	put_header(&a, "fifo", '6', 0);
	put_file(&a, "three", "third");
	check(&a, "one 0 first;folder/ 1;folder/two 0;link 2;old/ 1;fifo 3;three 0 third;");
	memset(a.at + a.n, 0, 1024); /* the usual end, and what programs leave behind it */
	a.n += 1024;
	put_file(&a, "behind", "x");
	check(&a, "one 0 first;folder/ 1;folder/two 0;link 2;old/ 1;fifo 3;three 0 third;");
	assert_true(tar_is(a.at, a.n));
	assert_false(tar_is(a.at, 511));
	assert_false(tar_is(a.at + 512, 512));
}

static void test_long_names(void **state)
{
	static struct archive a;
	char name[300], want[400];

	(void)state;
	a.n = 0;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	put_header(&a, "././@LongLink", 'L', sizeof(name));
	put_content(&a, name, sizeof(name));
	put_file(&a, "short", "gnu");
	snprintf(want, sizeof(want), "%s 0 gnu;", name);
	check(&a, want);
	a.n = 0;
	put_header(&a, "pax", 'x', 37);
	put_content(&a, "27 path=a/name/told/by/pax\n10 size=3\n", 37);
	put_header(&a, "short", '0', 0);
	put_content(&a, "pax", 3);
	put_file(&a, "next", "own name");
	check(&a, "a/name/told/by/pax 0 pax;next 0 own name;");
	a.n = 0;
	put_header(&a, "name", '0', 0);
	memcpy(a.at + 345, "prefix", 6);
	put_sum(a.at);
	check(&a, "prefix/name 0;");
}

static void test_sizes(void **state)
{
	static struct archive a;
	uint8_t *h;

	(void)state;
	a.n = 0;
	h = put_header(&a, "base-256", '0', 0);
	memset(h + 124, 0, 12);
	h[124] = 0x80;
	h[135] = 4;
	put_sum(h);
	put_content(&a, "four", 4);
	check(&a, "base-256 0 four;");
	memset(h + 124, 0xff, 12);
	h[124] = 0x80;
	put_sum(h);
	check(&a, "!a tar header without a size at byte 0");
	memset(h + 124, 0, 4);
	h[124] = 0x80;
	put_sum(h);
	check(&a, "!a tar member of 18446744073709551615 bytes at byte 0");
	memset(h + 124, 'x', 12);
	put_sum(h);
	check(&a, "!a tar header without a size at byte 0");
}

static void test_damage(void **state)
{
	static struct archive a;

	(void)state;
	a.n = 0;
	put_file(&a, "one", "first");
	put_file(&a, "two", "second");
	a.at[1024 + 3] ^= 1;
	check(&a, "one 0 first;!a damaged tar header at byte 1024");
	a.at[1024 + 3] ^= 1;
	a.n = 1024 + 512 + 3;
	check(&a, "one 0 first;two 0;!'a.tar' ends at byte 1539: it was cut");
	a.n = 1024 + 100;
	check(&a, "one 0 first;!the archive ends early at byte 1124");
	a.n = 0;
	put_header(&a, "pax", 'x', 1 << 20);
	check(&a, "!a tar header's extension of 1048576 bytes at byte 512");
	for (size_t i = 0; i < 3; i++) {
		static const char *const bad[] = { "99 path=too long\n", "4 p=\n", "x path=a\n" };

		a.n = 0;
		put_header(&a, "pax", 'x', strlen(bad[i]));
		put_content(&a, bad[i], strlen(bad[i]));
		check(&a, "!a damaged pax header at byte 512");
	}
}

/* Forward, over what is not read (a plain file) and what must be (a thread, memory), to the last byte. */
static void test_skip(void **state)
{
	static const enum source_thread threads[] = { SOURCE_THREAD_NONE, SOURCE_THREAD_ALWAYS };
	char path[] = "/tmp/plimsoll-tar-XXXXXX";
	static uint8_t bytes[300000];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	close(fd);
	for (size_t i = 0; i < 2; i++) {
		static const uint64_t stops[] = { 0, 5, 600, 601, 250000, 299999, 300000 };
		struct source_options how = { .window_bytes = 512, .thread = threads[i] };
		struct source *s;

		assert_int_equal(source_open(&mem, path, &how, &s, NULL), PLIM_OK);
		for (size_t k = 0; k < sizeof(stops) / sizeof(*stops); k++) {
			assert_int_equal(source_skip_to(s, stops[k], NULL), PLIM_OK);
			assert_int_equal(source_offset(s, s->p), stops[k]);
			assert_int_equal(source_need(s, s->p, 1, NULL), PLIM_OK);
			if (stops[k] < sizeof(bytes))
				assert_int_equal(*s->p, bytes[stops[k]]);
		}
		assert_int_equal(source_skip_to(s, 300001, NULL), PLIM_E_FORMAT);
		source_close(s);
	}
	unlink(path);
}

/* What is not a file must not be waited for. */
static void test_regular(void **state)
{
	static const struct source_options regular = { .kinds = SOURCE_REGULAR },
					   here = { .kinds = SOURCE_REGULAR_HERE };
	char folder[] = "/tmp/plimsoll-tar-XXXXXX", file[64], link[64];
	struct source *s;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(file, sizeof(file), "%s/file", folder);
	snprintf(link, sizeof(link), "%s/link", folder);
	fclose(fopen(file, "w"));
	assert_int_equal(symlink(file, link), 0);
	assert_int_equal(source_open(&mem, "/dev/null", &regular, &s, NULL), PLIM_E_IO);
	assert_int_equal(source_open(&mem, link, &regular, &s, NULL), PLIM_E_FORMAT); /* empty */
	assert_int_equal(source_open(&mem, link, &here, &s, NULL), PLIM_E_IO);
	assert_int_equal(source_open(&mem, file, &here, &s, NULL), PLIM_E_FORMAT);
	unlink(link);
	unlink(file);
	rmdir(folder);
}

static int setup(void **state)
{
	(void)state;
	mem_init(&mem, 64 << 20);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members), cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_sizes),   cmocka_unit_test(test_damage),
		cmocka_unit_test(test_skip),    cmocka_unit_test(test_regular),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
