/* One bounded read of a small file: what is too long is cut, what is missing or endless is not a failure. */
#include "base/small_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sys/stat.h>

static char folder[] = "/tmp/plimsoll-small-XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static void with(const char *text, const char **path)
{
	static char at[64];
	FILE *f;

	(void)snprintf(at, sizeof(at), "%s/file", folder);
	f = fopen(at, "we");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	assert_int_equal(fclose(f), 0);
	*path = at;
}

static void test_reads(void **state)
{
	const char *path;
	char out[8];

	(void)state;
	with("ab\r\ncd\n", &path);
	assert_true(small_file(out, sizeof(out), "%s", path));
	assert_string_equal(out, "ab\r\ncd\n");
	assert_true(small_file_line(out, sizeof(out), "%s", path));
	assert_string_equal(out, "ab");
	with("123456789", &path);
	assert_true(small_file(out, sizeof(out), "%s", path));
	assert_string_equal(out, "1234567");
	with("", &path);
	memcpy(out, "old", 4);
	assert_false(small_file(out, sizeof(out), "%s", path));
	assert_string_equal(out, "");
	assert_int_equal(unlink(path), 0);
	assert_false(small_file_line(out, sizeof(out), "%s", path));
	assert_string_equal(out, "");
}

/* What could be waited for, a folder, and a path that nothing has. */
static void test_refuses(void **state)
{
	char out[8], pipe_path[64];

	(void)state;
	(void)snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", folder);
	assert_int_equal(mkfifo(pipe_path, 0600), 0);
	assert_false(small_file(out, sizeof(out), "%s", pipe_path));
	assert_int_equal(unlink(pipe_path), 0);
	assert_false(small_file(out, sizeof(out), "%s", folder));
	assert_false(small_file(out, sizeof(out), "%02000d", 1));
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_reads),
					    cmocka_unit_test(test_refuses) };

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
