#include "base/source.h"

#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

#define PLAIN_BYTES ((size_t)1500 << 10)

static struct mem mem;
static uint8_t *plain;

struct blob {
	uint8_t *at;
	size_t n;
};

static struct blob pack(const char *how, const uint8_t *from, size_t n)
{
	struct blob b = { malloc(n + n / 8 + 4096), n + n / 8 + 4096 };

	assert_non_null(b.at);
	if (!strcmp(how, "gzip")) {
		z_stream z = { .next_in = (Bytef *)from,
			       .avail_in = (uInt)n,
			       .next_out = b.at,
			       .avail_out = (uInt)b.n };

		deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
		assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
		b.n = z.total_out;
		deflateEnd(&z);
	} else if (!strcmp(how, "xz")) {
		size_t out = 0;

		assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, from, n, b.at,
							 &out, b.n),
				 LZMA_OK);
		b.n = out;
	} else if (!strcmp(how, "zstd")) {
		ZSTD_CCtx *c = ZSTD_createCCtx();

		ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
		b.n = ZSTD_compress2(c, b.at, b.n, from, n);
		assert_false(ZSTD_isError(b.n));
		ZSTD_freeCCtx(c);
	} else {
		memcpy(b.at, from, n);
		b.n = n;
	}
	return b;
}

static const char *const ways[] = { "none", "gzip", "xz", "zstd" };

/* Read all of it in steps of changing size and compare with `times` copies of `plain`. */
static void drain(struct source *s, size_t times)
{
	uint64_t at = 0, all = times * PLAIN_BYTES;
	unsigned step = 1;

	while (at < all) {
		size_t n = (step = step * 1664525u + 1013904223u) >> 16 & 8191;

		assert_int_equal(source_need(s, s->p, n, NULL), PLIM_OK);
		assert_int_equal(source_offset(s, s->p), at);
		if ((size_t)(s->end - s->p) < n) {
			assert_true(s->eof);
			n = (size_t)(s->end - s->p);
			assert_true(at + n == all);
		}
		for (size_t i = 0; i < n; i++)
			if (s->p[i] != plain[(at + i) % PLAIN_BYTES])
				fail_msg("byte %zu differs", (size_t)at + i);
		for (size_t i = 0; i < SOURCE_PAD; i++)
			assert_int_equal(s->end[i], 0);
		s->p += n;
		at += n;
	}
	assert_int_equal(source_need(s, s->p, 1, NULL), PLIM_OK);
	assert_true(s->eof && s->p == s->end);
}

static void test_formats(void **state)
{
	/* smaller than the steps, of their size (a slot's head is used, and at times too small), large */
	static const size_t windows[] = { 100, 20000, 0 };

	(void)state;
	for (size_t k = 0; k < 4; k++)
		for (size_t v = 0; v < 12; v++) {
			struct source_options o = { .window_bytes = windows[v % 3],
						    .thread = v / 3 % 2 ? SOURCE_THREAD_NONE
									: SOURCE_THREAD_ALWAYS };
			size_t times = v / 6 ? 2 : 1;
			struct blob b = pack(ways[k], plain, PLAIN_BYTES);
			struct source_info info;
			struct source *s;

			b.at = realloc(b.at, 2 * b.n);
			memcpy(b.at + b.n, b.at, b.n);
			assert_int_equal(source_open_memory(&mem, "m", b.at, times * b.n,
							    SOURCE_MEMORY_DETECT, &o, &s, NULL),
					 PLIM_OK);
			drain(s, times);
			source_get_info(s, &info);
			assert_string_equal(info.compression, ways[k]);
			assert_string_equal(info.kind, "memory");
			assert_int_equal(info.decoded_bytes, times * PLAIN_BYTES);
			assert_int_equal(info.raw_read_bytes, times * b.n);
			assert_int_equal(source_is_random(s), k == 0);
			source_close(s);
			free(b.at);
		}
	assert_int_equal(mem.used_bytes, 0);
}

/* Open what `fd` says and read to its end or error. */
static enum plim_status read_all(struct source *s, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	while (!st && !(s->eof && s->p == s->end))
		st = source_need(s, s->end, 1, err);
	return st;
}

/* Cut or changed compressed data is one error, with and without the thread, and never a hang. */
static void test_damage(void **state)
{
	(void)state;
	for (size_t k = 1; k < 4; k++)
		for (size_t v = 0; v < 60; v++) {
			struct source_options o = { .thread = v & 1 ? SOURCE_THREAD_NONE
								    : SOURCE_THREAD_AUTO };
			struct blob b = pack(ways[k], plain, 300000);
			size_t cut = b.n * (v / 2) / 30;
			struct plim_err err = { 0 };
			struct source *s;
			enum plim_status st;

			if (v % 4 < 2)
				b.n = cut < 8 ? 8 : cut;
			else
				b.at[cut < 8 ? 8 : cut] ^= 0x55;
			st = source_open_memory(&mem, "m", b.at, b.n, SOURCE_MEMORY_DETECT, &o, &s,
						&err);
			if (!st)
				st = read_all(s, &err);
			/* gzip's header has bytes that mean nothing (its time and system). */
			if (st || v % 4 < 2 || cut >= 10) {
				assert_true(st == PLIM_E_FORMAT || st == PLIM_E_LIMIT);
				if (st == PLIM_E_FORMAT) {
					assert_true(err.offset <= b.n);
					assert_non_null(strstr(err.message, ways[k]));
				}
				if (v % 4 < 2)
					assert_non_null(
						strstr(err.message, "data ends early at byte"));
			}
			source_close(s);
			free(b.at);
		}
	assert_int_equal(mem.used_bytes, 0);
}

static void test_trailing(void **state)
{
	struct blob b = pack("gzip", plain, 1000);
	struct plim_err err;
	struct source *s;

	(void)state;
	memset(b.at + b.n, 0, 512);
	assert_int_equal(source_open_memory(&mem, "m", b.at, b.n + 512, SOURCE_MEMORY_DETECT, NULL,
					    &s, &err),
			 PLIM_OK);
	assert_int_equal(read_all(s, &err), PLIM_OK);
	source_close(s);
	b.at[b.n + 1] = 7;
	if (!source_open_memory(&mem, "m", b.at, b.n + 2, SOURCE_MEMORY_DETECT, NULL, &s, &err))
		assert_int_equal(read_all(s, &err), PLIM_E_FORMAT);
	assert_non_null(strstr(err.message, "followed by something else"));
	assert_int_equal(err.offset, b.n + 1);
	source_close(s);
	free(b.at);
}

/* 1 GiB of zeros in little: memory stays flat, and a limit on decoded bytes holds. */
static void test_bomb(void **state)
{
	struct source_options o = { .max_decoded_bytes = 10 << 20 };
	uint8_t *zeros = calloc(1, 16 << 20);
	struct blob b;
	struct plim_err err;
	struct source *s;
	struct mem m;

	(void)state;
	assert_non_null(zeros);
	b = pack("zstd", zeros, 16 << 20);
	free(zeros);
	b.at = realloc(b.at, 8 * b.n);
	for (size_t i = 1; i < 8; i++)
		memcpy(b.at + i * b.n, b.at, b.n);
	mem_init(&m, 64 << 20);
	assert_int_equal(
		source_open_memory(&m, "m", b.at, 8 * b.n, SOURCE_MEMORY_DETECT, NULL, &s, &err),
		PLIM_OK);
	assert_int_equal(read_all(s, &err), PLIM_OK);
	assert_int_equal(source_offset(s, s->end), 128 << 20);
	source_close(s);
	assert_true(m.peak_bytes < 4 << 20);
	assert_int_equal(
		source_open_memory(&m, "m", b.at, 8 * b.n, SOURCE_MEMORY_DETECT, &o, &s, &err),
		PLIM_OK);
	assert_int_equal(read_all(s, &err), PLIM_E_LIMIT);
	assert_int_equal(source_need(s, s->end, 1, &err), PLIM_E_LIMIT); /* it sticks */
	source_close(s);
	assert_int_equal(m.used_bytes, 0);
	free(b.at);
}

/* A length that is a lie costs no memory; one that is true is given. */
static void test_lie(void **state)
{
	struct source *s;
	struct mem m;

	(void)state;
	mem_init(&m, 8 << 20);
	assert_int_equal(source_open_memory(&m, "m", plain, PLAIN_BYTES, SOURCE_MEMORY_PLAIN, NULL,
					    &s, NULL),
			 PLIM_OK);
	assert_int_equal(source_need(s, s->p + 5, (size_t)1 << 60, NULL), PLIM_OK);
	assert_true(s->eof);
	assert_int_equal(s->end - s->p, PLAIN_BYTES - 5);
	assert_memory_equal(s->p, plain + 5, PLAIN_BYTES - 5);
	source_close(s);
	mem_init(&m, 1 << 20);
	assert_int_equal(source_open_memory(&m, "m", plain, PLAIN_BYTES, SOURCE_MEMORY_PLAIN, NULL,
					    &s, NULL),
			 PLIM_OK);
	assert_int_equal(source_need(s, s->p, PLAIN_BYTES, NULL), PLIM_E_LIMIT);
	assert_memory_equal(s->p, plain, (size_t)(s->end - s->p));
	source_close(s);
	assert_int_equal(m.used_bytes, 0);
}

static char dir[] = "/tmp/plim-source-XXXXXX";

static const char *in_dir(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put_file(const char *path, const void *at, size_t n)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(fwrite(at, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static void test_files(void **state)
{
	const char *path = in_dir("file");
	uint8_t some[100];
	struct source_info info;
	struct plim_err err;
	struct source *s;
	size_t got;

	(void)state;
	put_file(path, plain, PLAIN_BYTES);
	assert_int_equal(source_open(&mem, path, NULL, &s, &err), PLIM_OK);
	assert_int_equal(source_pread(s, PLAIN_BYTES - 50, some, 100, &got, &err), PLIM_OK);
	assert_int_equal(got, 50);
	assert_memory_equal(some, plain + PLAIN_BYTES - 50, 50);
	drain(s, 1);
	source_get_info(s, &info);
	assert_string_equal(info.kind, "file");
	assert_int_equal(info.raw_bytes, PLAIN_BYTES);
	source_close(s);

	assert_int_equal(source_open(&mem, path, NULL, &s, &err), PLIM_OK);
	assert_int_equal(truncate(path, PLAIN_BYTES - 10), 0);
	assert_int_equal(read_all(s, &err), PLIM_E_IO);
	assert_non_null(strstr(err.message, "was cut while being read: 1535990 of 1536000 bytes"));
	source_close(s);
	unlink(path);
}

static void test_refusals(void **state)
{
	const struct {
		const char *path;
		enum plim_status status;
		int native;
		const char *says;
	} cases[] = {
		{ dir, PLIM_E_IO, EISDIR, "is a folder" },
		{ "/nowhere/at/all", PLIM_E_IO, ENOENT, "cannot open '/nowhere/at/all'" },
		{ "/dev/null", PLIM_E_FORMAT, 0, "'/dev/null' is empty" },
		{ "/dev/null/x", PLIM_E_IO, ENOTDIR, "cannot open" },
		{ "", PLIM_E_IO, ENOENT, "cannot open ''" },
	};
	struct plim_err err;
	struct source *s;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(&err, 0, sizeof(err));
		assert_int_equal(source_open(&mem, cases[i].path, NULL, &s, &err), cases[i].status);
		assert_null(s);
		assert_int_equal(err.native, cases[i].native);
		assert_non_null(strstr(err.message, cases[i].says));
		assert_int_equal(source_open(&mem, cases[i].path, NULL, &s, NULL), cases[i].status);
	}
	if (geteuid()) { /* root may read anything */
		put_file(in_dir("locked"), "x", 1);
		chmod(in_dir("locked"), 0);
		assert_int_equal(source_open(&mem, in_dir("locked"), NULL, &s, &err), PLIM_E_IO);
		assert_int_equal(err.native, EACCES);
		unlink(in_dir("locked"));
	}
	assert_int_equal(source_open_memory(&mem, "m", "", 0, SOURCE_MEMORY_DETECT, NULL, &s, &err),
			 PLIM_E_FORMAT);
	assert_int_equal(mem.used_bytes, 0);
}

struct feed {
	const char *path;
	struct blob blob;
	size_t block; /* written at once */
	bool hold;    /* keep the pipe open until told */
	int fd;
};

static void *feeder(void *arg)
{
	struct feed *f = arg;

	f->fd = open(f->path, O_WRONLY | O_CLOEXEC);
	for (size_t at = 0; at < f->blob.n;) {
		size_t n = f->blob.n - at < f->block ? f->blob.n - at : f->block;
		ssize_t r = write(f->fd, f->blob.at + at, n);

		if (r < 0)
			break;
		at += (size_t)r;
	}
	if (!f->hold)
		close(f->fd);
	return NULL;
}

static void test_pipes(void **state)
{
	const char *path = in_dir("fifo");

	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	for (size_t k = 0; k < 4; k++) {
		struct feed f = { .path = path,
				  .blob = pack(ways[k], plain, PLAIN_BYTES),
				  .block = k % 2 ? 3000 : 65536 };
		struct source_info info;
		struct source *s;
		pthread_t t;

		assert_int_equal(pthread_create(&t, NULL, feeder, &f), 0);
		assert_int_equal(source_open(&mem, path, NULL, &s, NULL), PLIM_OK);
		drain(s, 1);
		source_get_info(s, &info);
		assert_string_equal(info.kind, "pipe");
		assert_true(info.raw_bytes == PLIM_UNKNOWN);
		source_close(s);
		pthread_join(t, NULL);
		free(f.blob.at);
	}
	unlink(path);
	assert_int_equal(mem.used_bytes, 0);
}

/* Closing early must end the thread: while its ring is full, and while it waits for a pipe. */
static void test_close_early(void **state)
{
	const char *path = in_dir("fifo");

	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	for (size_t k = 0; k < 40; k++) {
		struct blob b = pack(ways[1 + k % 3], plain, PLAIN_BYTES);
		struct source *s;

		assert_int_equal(source_open_memory(&mem, "m", b.at, b.n, SOURCE_MEMORY_DETECT,
						    NULL, &s, NULL),
				 PLIM_OK);
		if (k & 1)
			source_need(s, s->p, 600000, NULL);
		if (k & 2)
			usleep(2000);
		source_close(s);
		free(b.at);
	}
	for (size_t k = 1; k < 4; k++) {
		struct feed f = { .path = path,
				  .blob = pack(ways[k], plain, PLAIN_BYTES),
				  .block = 65536,
				  .hold = true };
		struct source *s;
		pthread_t t;

		f.blob.n -= 100; /* the decoder waits for these */
		assert_int_equal(pthread_create(&t, NULL, feeder, &f), 0);
		assert_int_equal(source_open(&mem, path, NULL, &s, NULL), PLIM_OK);
		assert_int_equal(source_need(s, s->p, PLAIN_BYTES * 3 / 4, NULL), PLIM_OK);
		pthread_join(t, NULL);
		usleep(1000);
		source_close(s);
		close(f.fd);
		free(f.blob.at);
	}
	unlink(path);
	assert_int_equal(mem.used_bytes, 0);
}

/* Every allocation fails in turn: an error, no leak. */
static void test_memory(void **state)
{
	struct blob b = pack("xz", plain, 100000);
	enum plim_status st = PLIM_E_NOMEM;

	(void)state;
	for (int64_t after = 0; st && after < 100; after++) {
		struct source *s;
		struct mem m;

		mem_init(&m, 0);
		m.fail_after = after;
		st = source_open_memory(&m, "m", b.at, b.n, SOURCE_MEMORY_DETECT, NULL, &s, NULL);
		assert_true(st == PLIM_OK || st == PLIM_E_NOMEM);
		source_close(s);
		assert_int_equal(m.used_bytes, 0);
	}
	assert_int_equal(st, PLIM_OK);
	free(b.at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),     cmocka_unit_test(test_damage),
		cmocka_unit_test(test_trailing),    cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_lie),         cmocka_unit_test(test_files),
		cmocka_unit_test(test_refusals),    cmocka_unit_test(test_pipes),
		cmocka_unit_test(test_close_early), cmocka_unit_test(test_memory),
	};
	unsigned x = 1;
	int failed;

	mem_init(&mem, 0);
	plain = malloc(PLAIN_BYTES);
	if (!plain || !mkdtemp(dir))
		return 1;
	/* Half noise, so that the packed forms are long enough to be cut anywhere. */
	for (size_t i = 0; i < PLAIN_BYTES; i++) {
		x = x * 1664525u + 1013904223u;
		plain[i] = (uint8_t)(i / 64 % 2 ? x >> 24 : i / 640);
	}
	failed = cmocka_run_group_tests_name("source", tests, NULL, NULL);
	rmdir(dir);
	free(plain);
	return failed;
}
