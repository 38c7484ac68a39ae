/*
 * Samples in a file: what is read is what was put, whoever filled it and died meanwhile; a file that was damaged or cut is an
 * error; each sample is in one batch of one rank; no part of the ring is read into before the copies out of it are over (the fake
 * driver fails the test then).
 */
#include "data/parts.h"

#include "../allocator/fake_cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define STREAM ((void *)(uintptr_t)3)
#define FOREVER 600000
#define LINE 37 /* elements of a field */

static const char *fake_library;
static char top[64];

/* ---- calls of the system that fail, or at which the process dies ---- */

static _Atomic long calls, fail_at = -1, die_at = -1;

static bool refused(void)
{
	long n = calls++;

	if (n == die_at)
		_exit(9);
	if (fail_at >= 0 && n >= fail_at) {
		errno = ENOSPC;
		return true;
	}
	return false;
}

#define WRAP(type, name, declared, given)                    \
	type __real_##name declared;                         \
	type __wrap_##name declared;                         \
	type __wrap_##name declared                          \
	{                                                    \
		return refused() ? -1 : __real_##name given; \
	}
WRAP(ssize_t, pwrite64, (int fd, const void *at, size_t n, off_t to), (fd, at, n, to))
WRAP(ssize_t, pwritev64, (int fd, const struct iovec *at, int n, off_t to), (fd, at, n, to))
WRAP(int, rename, (const char *a, const char *b), (a, b))
WRAP(int, link, (const char *a, const char *b), (a, b))
WRAP(int, fallocate64, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
WRAP(int, ftruncate64, (int fd, off_t n), (fd, n))

/* Whether it is called is what counts here; disks are slow. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	(void)fd;
	return refused() ? -1 : 0;
}

/* ---- helpers ---- */

static const char *in_top(const char *name)
{
	static char path[8][256];
	static unsigned next;
	char *at = path[next++ % 8];

	snprintf(at, sizeof(path[0]), "%s/%s", top, name);
	return at;
}

static const uint64_t line[1] = { LINE }, open_line[1] = { PLIM_UNKNOWN };
static const struct plim_samples_field fixed[3] = { { "image", "uint8", line, 1, 1 },
						    { "label", "int64", NULL, 0, 8 },
						    { "odd", "uint8", (const uint64_t[]){ 3 }, 1,
						      1 } };
static const struct plim_samples_field ragged[3] = { { "tokens", "int32", open_line, 1, 4 },
						     { "label", "int64", NULL, 0, 8 },
						     { "mask", "uint8", open_line, 1, 1 } };

static struct plim_samples_schema schema(const struct plim_samples_field *f, uint64_t n,
					 const char *about)
{
	return (struct plim_samples_schema){ f, 3, n, about, strlen(about), 0 };
}

static uint64_t size_of(uint64_t sample)
{
	return sample * 7919 % 53; /* 0 among them */
}

static uint8_t byte_of(uint64_t sample, size_t field, uint64_t at)
{
	return (uint8_t)(sample * 131 + field * 17 + at * 7 + (sample >> 8));
}

/* Bytes of a field of a sample. */
static uint64_t bytes_of(const struct plim_samples_field *f, uint64_t sample, size_t field)
{
	uint64_t n = f[field].item_bytes;

	for (size_t d = 0; d < f[field].rank; d++)
		n *= f[field].shape[d] == PLIM_UNKNOWN ? size_of(sample) : f[field].shape[d];
	return n;
}

static enum plim_status put(struct plim_samples_filling *x, const struct plim_samples_field *f,
			    uint64_t sample, struct plim_err *err)
{
	uint8_t room[3][400];
	uint64_t size = size_of(sample);
	struct plim_samples_part parts[3];

	for (size_t i = 0; i < 3; i++) {
		for (uint64_t k = 0; k < bytes_of(f, sample, i); k++)
			room[i][k] = byte_of(sample, i, k);
		parts[i] = (struct plim_samples_part){
			room[i], f[i].rank && f[i].shape[0] == PLIM_UNKNOWN ? &size : f[i].shape
		};
	}
	return plim_samples_put(x, sample, parts, err);
}

/* Until it is whole, or something fails; *puts: samples that were put. */
static enum plim_status fill(const char *path, const struct plim_samples_schema *s, size_t *puts,
			     struct plim_err *err)
{
	struct plim_samples_filling *x = NULL;
	struct plim_claim claim = { 0 };
	uint32_t done = 0;
	enum plim_status st = plim_samples_fill(path, s, &x, err);

	while (!st && !done) {
		st = plim_samples_claim(x, &claim, err);
		for (uint32_t i = 0; !st && i < claim.count; i++, ++*puts)
			st = put(x, s->fields, claim.first + i, err);
		if (!st && claim.state == PLIM_CLAIM_DONE)
			st = plim_samples_seal(x, &done, err);
	}
	plim_samples_filling_free(x);
	return st;
}

static struct plim_samples *open_it(const char *path)
{
	struct plim_samples *s = NULL;
	struct plim_err err = { 0 };

	if (plim_samples_open(path, NULL, &s, &err))
		fail_msg("%s", err.message);
	return s;
}

static bool is_there(const struct plim_samples_field *f, uint64_t sample, size_t field,
		     const uint8_t *at)
{
	for (uint64_t k = 0; k < bytes_of(f, sample, field); k++)
		if (at[k] != byte_of(sample, field, k))
			return false;
	return true;
}

static enum plim_status read_one(struct plim_samples *s, uint64_t sample, uint8_t room[3][400])
{
	memset(room, 0xee, (size_t)3 * 400);
	return plim_samples_read(s, sample, (void *[]){ room[0], room[1], room[2] }, NULL);
}

static void expect_all(const char *path, const struct plim_samples_field *f, uint64_t n,
		       const char *about)
{
	struct plim_samples *s = open_it(path);
	const struct plim_samples_schema *told = plim_samples_info(s);
	uint8_t room[3][400];

	assert_int_equal(told->samples, n);
	assert_int_equal(told->about_bytes, strlen(about));
	assert_memory_equal(told->about, about, strlen(about));
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(told->fields[i].name, f[i].name);
		assert_string_equal(told->fields[i].dtype, f[i].dtype);
		assert_int_equal(told->fields[i].rank, f[i].rank);
	}
	for (uint64_t k = 0; k < 2 * n; k++) { /* the second time without checksums */
		assert_int_equal(read_one(s, k % n, room), PLIM_OK);
		for (size_t i = 0; i < 3; i++) {
			uint64_t shape[1] = { 0 };

			assert_true(is_there(f, k % n, i, room[i]));
			assert_int_equal(room[i][bytes_of(f, k % n, i)], 0xee);
			assert_int_equal(plim_samples_shape(s, k % n, i, shape, NULL), PLIM_OK);
			if (f[i].rank)
				assert_int_equal(shape[0] * f[i].item_bytes, bytes_of(f, k % n, i));
		}
	}
	plim_samples_close(s);
}

static bool exists(const char *path)
{
	return !access(path, F_OK);
}

/* No file but `path` (or not even that), as far as names of it go. */
static void expect_no_litter(const char *path)
{
	char command[400];

	snprintf(command, sizeof(command), "[ \"$(ls -d '%s'?* 2>/dev/null | wc -l)\" = 0 ]", path);
	assert_int_equal(system(command), 0);
}

/* ---- filling ---- */

static void test_round(void **state)
{
	const uint64_t counts[] = { 0, 1, 63, 257, 3000 };

	(void)state;
	for (size_t i = 0; i < 10; i++) {
		const struct plim_samples_field *f = i % 2 ? ragged : fixed;
		const struct plim_samples_schema s = schema(f, counts[i / 2], "what it is of");
		const char *path = in_top("round");
		size_t puts = 0;

		assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
		assert_int_equal(puts, counts[i / 2]);
		expect_all(path, f, counts[i / 2], "what it is of");
		expect_no_litter(path);
		/* It is there: nothing is put. */
		assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
		assert_int_equal(puts, counts[i / 2]);
		expect_no_litter(path);
		unlink(path);
	}
}

/* Some fields of a sample alone; its checksum is compared all the same. */
static void test_not_that_one(void **state)
{
	const struct plim_samples_schema of = schema(ragged, 50, "");
	const char *path = in_top("some");
	uint8_t whole[3][400], some[3][400];
	struct plim_samples *s;
	size_t puts = 0;

	(void)state;
	assert_int_equal(fill(path, &of, &puts, NULL), PLIM_OK);
	s = open_it(path);
	for (uint64_t i = 0; i < 50; i++) {
		assert_int_equal(read_one(s, i, whole), PLIM_OK);
		for (unsigned wanted = 0; wanted < 8; wanted++) {
			void *where[3];

			memset(some, 0xee, sizeof(some));
			for (unsigned f = 0; f < 3; f++)
				where[f] = wanted >> f & 1 ? some[f] : NULL;
			assert_int_equal(plim_samples_read(s, i, where, NULL), PLIM_OK);
			for (unsigned f = 0; f < 3; f++)
				if (where[f])
					assert_memory_equal(some[f], whole[f], sizeof(whole[f]));
		}
	}
	plim_samples_close(s);
	unlink(path);
}

struct filler {
	pthread_t thread;
	const char *path;
	size_t puts;
	enum plim_status st;
};

static void *fill_too(void *arg)
{
	struct filler *x = arg;
	const struct plim_samples_schema s = schema(ragged, 2000, "");

	x->st = fill(x->path, &s, &x->puts, NULL);
	return NULL;
}

static void test_together(void **state)
{
	struct filler fillers[4];
	char path[256];
	size_t puts = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s", in_top("together"));
	for (size_t i = 0; i < 4; i++) {
		fillers[i] = (struct filler){ .path = path };
		assert_int_equal(pthread_create(&fillers[i].thread, NULL, fill_too, &fillers[i]),
				 0);
	}
	for (size_t i = 0; i < 4; i++) {
		pthread_join(fillers[i].thread, NULL);
		assert_int_equal(fillers[i].st, PLIM_OK);
		puts += fillers[i].puts;
	}
	assert_int_equal(puts, 2000); /* each by one of them */
	expect_all(path, ragged, 2000, "");
	expect_no_litter(path);
}

/* Killed at each call: no file, or the old one; whoever comes next goes on with what is there. */
static void kill_everywhere(const struct plim_samples_field *f, bool old)
{
	const struct plim_samples_schema was = schema(fixed, 5, "old"), s = schema(f, 300, "new");
	char path[256], filling[300];
	size_t puts = 0, saved = 0;
	int status = 1;
	long all;

	snprintf(path, sizeof(path), "%s", in_top("killed"));
	snprintf(filling, sizeof(filling), "%s.filling", path);
	calls = 0;
	assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
	all = calls;
	unlink(path);
	for (long at = 0; status; at += at < 12 || at + 12 > all ? 1 : all / 9) {
		pid_t pid;

		puts = 0;
		if (old)
			assert_int_equal(fill(path, &was, &puts, NULL), PLIM_OK);
		pid = fork();
		if (!pid) {
			calls = 0;
			die_at = at;
			_exit(fill(path, &s, &puts, NULL) ? 1 : 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) &&
			    (!WEXITSTATUS(status) || WEXITSTATUS(status) == 9));
		if (exists(path) && exists(filling) && old)
			expect_all(path, fixed, 5, "old");
		else if (exists(path) && !old)
			expect_all(path, f, 300, "new");
		puts = 0;
		assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
		saved += 300 - puts;
		expect_all(path, f, 300, "new");
		unlink(path);
	}
	assert_true(saved > 600);
	snprintf(filling, sizeof(filling), "rm -f '%s'?*", path);
	assert_int_equal(system(filling), 0);
}

static void test_killed(void **state)
{
	(void)state;
	kill_everywhere(fixed, false);
	kill_everywhere(fixed, true);
	kill_everywhere(ragged, false);
}

static bool is_old(const char *path)
{
	struct plim_samples *s = open_it(path);
	bool old = plim_samples_info(s)->samples == 5;

	plim_samples_close(s);
	return old;
}

/* A full disk at each call: an error, the old file stands, and with room again it goes on. */
static void test_full_disk(void **state)
{
	const struct plim_samples_schema was = schema(fixed, 5, "old"),
					 s = schema(ragged, 100, "new");
	char path[256];
	size_t puts = 0;
	enum plim_status st = PLIM_E_IO;

	(void)state;
	snprintf(path, sizeof(path), "%s", in_top("full"));
	for (long at = 0; st; at++) {
		struct plim_err err = { 0 };

		assert_int_equal(fill(path, &was, &puts, NULL), PLIM_OK);
		calls = 0;
		fail_at = at;
		st = fill(path, &s, &puts, &err);
		fail_at = -1;
		if (!st)
			break;
		assert_int_equal(st, PLIM_E_IO);
		assert_non_null(strstr(err.message, "No space left"));
		if (exists(in_top("full.filling")) ||
		    is_old(path)) /* else its name was synced in vain */
			expect_all(path, fixed, 5, "old");
		assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
		expect_all(path, ragged, 100, "new");
		expect_no_litter(path);
	}
	expect_all(path, ragged, 100, "new");
	unlink(path);
}

/* What another schema left is begun anew, but not under someone who fills it. */
static void test_other_schema(void **state)
{
	const struct plim_samples_schema a = schema(fixed, 300, "a"), b = schema(fixed, 300, "b");
	struct plim_samples_filling *x = NULL, *y = NULL;
	struct plim_claim claim;
	struct plim_err err = { 0 };
	char path[256];
	size_t puts = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s", in_top("other"));
	assert_int_equal(plim_samples_fill(path, &a, &x, NULL), PLIM_OK);
	assert_int_equal(plim_samples_claim(x, &claim, NULL), PLIM_OK);
	assert_int_equal(put(x, fixed, claim.first, NULL), PLIM_OK);
	assert_int_equal(put(x, fixed, claim.first + claim.count, NULL), PLIM_E_ARG);
	assert_int_equal(plim_samples_fill(path, &b, &y, &err), PLIM_E_IO);
	assert_null(y);
	assert_non_null(strstr(err.message, "with other samples"));
	plim_samples_filling_free(x);
	assert_int_equal(fill(path, &b, &puts, NULL), PLIM_OK);
	assert_int_equal(puts, 300);
	expect_all(path, fixed, 300, "b");
	unlink(path);
}

/* A file that is there is not taken for done if it is the one to be replaced. */
static void test_replaced(void **state)
{
	struct plim_samples_schema s = schema(fixed, 50, "same");
	struct plim_samples *x;
	char path[256];
	size_t puts = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s", in_top("replaced"));
	assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
	x = open_it(path);
	s.replaces = plim_samples_mark(x);
	plim_samples_close(x);
	assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
	assert_int_equal(puts, 100);
	unlink(path);
}

static void flip(const char *path, off_t at)
{
	int fd = open(path, O_RDWR);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	assert_int_equal(__real_pwrite64(fd, &byte, 1, at), 1);
	close(fd);
}

/* Where a record of a fixed size is. */
static off_t record_at(const char *path, uint64_t sample)
{
	int fd = open(path, O_RDONLY);
	uint64_t at = 0;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &at, sizeof(at), (off_t)(4096 + sample * 24)), sizeof(at));
	close(fd);
	return (off_t)at;
}

/* What a disk lost is found before the file gets its name, and is asked for again. */
static void test_lost(void **state)
{
	const struct plim_samples_schema s = schema(fixed, 300, "");
	struct plim_samples_filling *x = NULL;
	struct plim_claim claim = { 0 };
	struct plim_err err = { 0 };
	char path[256];
	uint32_t done = 0;
	size_t puts = 0, lost;

	(void)state;
	snprintf(path, sizeof(path), "%s", in_top("lost"));
	assert_int_equal(plim_samples_fill(path, &s, &x, NULL), PLIM_OK);
	while (claim.state != PLIM_CLAIM_DONE) {
		assert_int_equal(plim_samples_claim(x, &claim, NULL), PLIM_OK);
		for (uint32_t i = 0; i < claim.count; i++)
			assert_int_equal(put(x, fixed, claim.first + i, NULL), PLIM_OK);
	}
	flip(in_top("lost.filling"), record_at(in_top("lost.filling"), 77) + 5);
	assert_int_equal(plim_samples_seal(x, &done, &err), PLIM_E_FORMAT);
	assert_int_equal(done, 0);
	assert_non_null(strstr(err.message, "sample 77 "));
	assert_int_equal(plim_samples_claim(x, &claim, NULL), PLIM_OK);
	assert_int_equal(claim.first, 77);
	assert_int_equal(claim.count, 1);
	plim_samples_filling_free(x);
	assert_false(exists(path));
	for (off_t i = 0; i < 24; i++) { /* and what it lost of the index */
		flip(in_top("lost.filling"), 4096 + 24 * (10 + 11 * i) + i);
		puts++;
	}
	lost = puts + 1;
	puts = 0;
	assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
	assert_int_equal(puts, lost);
	expect_all(path, fixed, 300, "");
	unlink(path);
}

static void test_refused(void **state)
{
	struct plim_samples_field f[3] = { fixed[0], fixed[1], fixed[2] };
	struct plim_samples_schema s = schema(f, 10, "");
	struct plim_samples_filling *x;
	const uint64_t huge[2] = { (uint64_t)1 << 39, 1 << 20 };
	const char *path = in_top("refused");
	const uint64_t wrong = LINE + 1;
	struct plim_samples_part parts[3] = { { "", &wrong }, { "", NULL }, { "", &wrong } };
	struct plim_claim claim;
	struct plim_err err = { 0 };

	(void)state;
	f[0].name = "line\nbreak";
	assert_int_equal(plim_samples_fill(path, &s, &x, NULL), PLIM_E_ARG);
	f[0].name = "";
	assert_int_equal(plim_samples_fill(path, &s, &x, NULL), PLIM_E_ARG);
	f[0] = (struct plim_samples_field){ "huge", "uint8", huge, 2, 1 };
	assert_int_equal(plim_samples_fill(path, &s, &x, NULL), PLIM_E_ARG);
	f[0].rank = 9;
	assert_int_equal(plim_samples_fill(path, &s, &x, NULL), PLIM_E_ARG);
	f[0] = fixed[0];
	s.field_count = 0;
	assert_int_equal(plim_samples_fill(path, &s, &x, NULL), PLIM_E_ARG);
	s.field_count = 3;
	assert_int_equal(plim_samples_fill("/nowhere/at/all", &s, &x, NULL), PLIM_E_IO);
	assert_null(x);
	assert_int_equal(plim_samples_fill(path, &s, &x, NULL), PLIM_OK);
	assert_int_equal(plim_samples_claim(x, &claim, NULL), PLIM_OK);
	assert_int_equal(plim_samples_put(x, claim.first, parts, &err), PLIM_E_ARG);
	assert_non_null(strstr(err.message, "'image' of sample 0 has 38 in dimension 0"));
	plim_samples_filling_free(x);
	plim_samples_filling_free(NULL);
	plim_samples_close(NULL);
	plim_batches_free(NULL);
}

/* ---- damage ---- */

static void copy_file(const char *from, const char *to, off_t bytes)
{
	char command[700];

	snprintf(command, sizeof(command), "head -c %lld '%s' > '%s'", (long long)bytes, from, to);
	assert_int_equal(system(command), 0);
}

static void test_damage(void **state)
{
	const struct plim_samples_schema s = schema(ragged, 40, "about it");
	char path[256], bad[256];
	struct plim_samples *x;
	struct stat at;
	uint8_t room[3][400];
	size_t puts = 0;
	uint64_t data_at;

	(void)state;
	snprintf(path, sizeof(path), "%s", in_top("damage"));
	snprintf(bad, sizeof(bad), "%s", in_top("bad"));
	assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
	assert_int_equal(stat(path, &at), 0);
	x = open_it(path);
	data_at = x->layout.front.data_at;
	plim_samples_close(x);
	copy_file(path, bad, at.st_size);
	for (off_t i = 0; i < at.st_size; i++) {
		enum plim_status st;

		if (i == 700) /* zeros behind the head */
			i = 4096;
		flip(bad, i);
		st = plim_samples_open(bad, NULL, &x, NULL);
		assert_true(st ? st == PLIM_E_FORMAT : i >= 4096);
		for (uint64_t k = 0; !st && k < 40; k++)
			st = read_one(x, k, room);
		/* Between records, and in gaps of a record, nothing is looked at. */
		assert_true(st == PLIM_E_FORMAT || (uint64_t)i >= 4096 + 40 * 40);
		for (uint64_t k = 0; !st && k < 40; k++) {
			assert_int_equal(read_one(x, k, room), PLIM_OK);
			for (size_t f = 0; f < 3; f++)
				assert_true(is_there(ragged, k, f, room[f]));
		}
		plim_samples_close(x);
		flip(bad, i);
	}
	assert_true(data_at > 4096);
	for (off_t n = 0; n < at.st_size; n += n < 5000 ? 97 : 711) {
		copy_file(path, bad, n);
		assert_int_equal(plim_samples_open(bad, NULL, &x, NULL), PLIM_E_FORMAT);
	}
	/* Cut while it is open: an error, and no signal. */
	copy_file(path, bad, at.st_size);
	x = open_it(bad);
	assert_int_equal(truncate(bad, (off_t)data_at + 10), 0);
	assert_int_equal(read_one(x, 39, room), PLIM_E_IO);
	plim_samples_close(x);
	assert_int_equal(plim_samples_open(in_top("none"), NULL, &x, NULL), PLIM_E_IO);
	assert_int_equal(plim_samples_open(top, NULL, &x, NULL), PLIM_E_FORMAT);
	unlink(path);
}

static void test_memory_limit(void **state)
{
	const struct plim_samples_schema s = schema(fixed, 3000, "");
	struct plim_samples_options o;
	struct plim_samples *x;
	struct plim_err err = { 0 };
	const char *path = in_top("limit");
	size_t puts = 0;

	(void)state;
	assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
	plim_samples_options_init(&o);
	o.max_memory_bytes = 20000;
	assert_int_equal(plim_samples_open(path, &o, &x, &err), PLIM_E_LIMIT);
	o.max_memory_bytes = 100000;
	assert_int_equal(plim_samples_open(path, &o, &x, NULL), PLIM_OK);
	plim_samples_close(x);
	unlink(path);
}

/* ---- the order ---- */

static struct plim_epoch epoch(uint64_t batch, uint64_t rank, uint64_t world, uint32_t flags)
{
	return (struct plim_epoch){ .size = sizeof(struct plim_epoch),
				    .flags = flags,
				    .seed = 5,
				    .epoch = 2,
				    .batch_size = batch,
				    .rank = rank,
				    .world = world };
}

/* How often each sample is in the batches of all ranks from `done` on, and in how many batches of a rank. */
static uint64_t deal(uint64_t n, uint64_t batch, uint64_t world, uint32_t flags, uint64_t start,
		     uint8_t *seen)
{
	uint64_t batches = 0;

	memset(seen, 0, n + 1);
	for (uint64_t rank = 0; rank < world; rank++) {
		struct plim_epoch e = epoch(batch, rank, world, flags);
		uint32_t numbers[64];
		struct data_order o;
		struct mem m;

		mem_init(&m, 0);
		e.start = start;
		if (data_order_make(&o, &m, n, &e, NULL)) {
			data_order_release(&o);
			return PLIM_UNKNOWN;
		}
		assert_true(!rank || o.batches == batches);
		batches = o.batches;
		for (uint64_t k = 0; k < batches; k++) {
			size_t here = data_order_batch(&o, k, numbers);

			assert_true(here && here <= batch);
			assert_true(here == batch || k + 2 >= batches);
			for (size_t i = 0; i < here; i++)
				seen[numbers[i]]++;
		}
		assert_int_equal(data_order_batch(&o, batches, numbers), 0);
		data_order_release(&o);
		assert_int_equal(m.used_bytes, 0);
	}
	return batches;
}

static void test_order(void **state)
{
	uint8_t seen[400];

	(void)state;
	for (uint64_t n = 0; n < 70; n++)
		for (uint64_t world = 1; world < 6; world++)
			for (uint64_t batch = 1; batch < 9; batch++)
				for (uint32_t flags = 0; flags < 4; flags++) {
					uint64_t k = deal(n, batch, world, flags, 0, seen), sum = 0;

					for (uint64_t i = 0; i < n; i++) {
						assert_true(seen[i] < 2);
						sum += seen[i];
					}
					if (k ==
					    PLIM_UNKNOWN) /* a rank would have nothing at the end */
						assert_true(
							!(flags & PLIM_EPOCH_DROP_LAST) &&
							(n < world || (batch == 1 && n % world)));
					else
						assert_int_equal(sum, flags & PLIM_EPOCH_DROP_LAST
									      ? k * batch * world
									      : n);
				}
	/* What is left out at the beginning is what others had. */
	assert_int_equal(deal(300, 10, 3, PLIM_EPOCH_SHUFFLE, 0, seen), 10);
	assert_int_equal(deal(300, 7, 2, PLIM_EPOCH_SHUFFLE, 90, seen), 15);
	for (uint64_t i = 0, sum = 0; i < 300; i++) {
		sum += seen[i];
		assert_true(i < 299 || sum == 210);
	}
}

/* Another epoch, another seed: another order; the same: the same.  Each number at each place about as often. */
static void test_shuffle(void **state)
{
	struct plim_epoch e = epoch(8, 0, 1, PLIM_EPOCH_SHUFFLE);
	uint32_t first[8], again[8], often[8][8] = { 0 };
	struct data_order o;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	for (uint64_t k = 0; k < 8000; k++) {
		e.seed = k % 2;
		e.epoch = k / 2;
		assert_int_equal(data_order_make(&o, &m, 8, &e, NULL), PLIM_OK);
		assert_int_equal(data_order_batch(&o, 0, again), 8);
		data_order_release(&o);
		for (size_t i = 0; i < 8; i++)
			often[i][again[i]]++;
		if (!k)
			memcpy(first, again, sizeof(first));
	}
	for (size_t i = 0; i < 64; i++)
		assert_in_range(often[i / 8][i % 8], 850,
				1150); /* 1000, and five times its deviation */
	e.seed = e.epoch = 0;
	assert_int_equal(data_order_make(&o, &m, 8, &e, NULL), PLIM_OK);
	(void)data_order_batch(&o, 0, again);
	data_order_release(&o);
	assert_memory_equal(first, again, sizeof(first));
}

/* ---- batches ---- */

struct got {
	struct plim_batch told;
	uint8_t *where[3];
	uint32_t samples[64];
};

static struct plim_batches *batches(struct plim_samples *s, int device, uint32_t threads,
				    uint32_t ahead, uint64_t ring)
{
	struct plim_batches_options o;
	struct plim_batches *b = NULL;
	struct plim_err err = { 0 };

	plim_batches_options_init(&o);
	o.device = device;
	o.threads = threads;
	o.ahead = ahead;
	o.ring_bytes = ring;
	o.cuda_library = fake_library;
	if (plim_batches_new(s, &o, &b, &err))
		fail_msg("%s", err.message);
	return b;
}

/* Room for the next batch; false: there is none. */
static bool room_for(struct plim_batches *b, struct got *g)
{
	assert_int_equal(plim_batches_peek(b, &g->told, NULL), PLIM_OK);
	for (size_t f = 0; g->told.count && f < 3; f++) {
		g->where[f] = malloc(g->told.bytes[f] + 1);
		memset(g->where[f], 0xee, g->told.bytes[f] + 1);
	}
	if (g->told.count)
		memcpy(g->samples, g->told.samples, g->told.count * sizeof(*g->samples));
	return g->told.count > 0;
}

static void free_room(struct got *g)
{
	for (size_t f = 0; f < 3; f++)
		free(g->where[f]);
}

static void expect_batch(const struct plim_samples_field *f, const struct got *g)
{
	for (size_t i = 0; i < 3; i++) {
		const uint8_t *at = g->where[i];

		for (size_t k = 0; k < g->told.count; k++) {
			assert_true(is_there(f, g->samples[k], i, at));
			at += bytes_of(f, g->samples[k], i);
		}
		assert_int_equal(*at, 0xee);
		assert_ptr_equal(at, g->where[i] + (at - g->where[i]));
	}
}

/* An epoch with `ahead` batches on the way: all samples, each once. */
static size_t run_epoch(struct plim_batches *b, const struct plim_samples_field *f, uint32_t ahead,
			const struct plim_epoch *e, uint8_t *seen)
{
	struct got ring[64];
	size_t pushed = 0, taken = 0;
	bool more = true;

	assert_int_equal(plim_batches_begin(b, e, NULL), PLIM_OK);
	while (more || taken < pushed) {
		struct plim_batch told;
		struct got *g;

		while (more && pushed - taken < ahead) {
			g = &ring[pushed % 64];
			more = room_for(b, g);
			if (!more)
				break;
			assert_int_equal(plim_batches_push(b, (void **)g->where, STREAM, NULL),
					 PLIM_OK);
			pushed++;
		}
		if (taken == pushed)
			break;
		g = &ring[taken++ % 64];
		do
			assert_int_equal(plim_batches_next(b, STREAM, FOREVER, &told, NULL),
					 PLIM_OK);
		while (!told.count);
		assert_int_equal(told.count, g->told.count);
		assert_memory_equal(told.samples, g->samples, told.count * sizeof(*g->samples));
		fake_complete(STREAM);
		expect_batch(f, g);
		for (size_t i = 0; i < told.count; i++)
			seen[g->samples[i]]++;
		free_room(g);
	}
	return taken;
}

static void test_batches(void **state)
{
	unsigned seed = 3;

	(void)state;
	for (int round = 0; round < 24; round++) {
		const struct plim_samples_field *f = round % 2 ? ragged : fixed;
		uint64_t n = 1 + (uint64_t)rand_r(&seed) % 700;
		const struct plim_samples_schema s = schema(f, n, "");
		const char *path = in_top("batches");
		uint32_t threads = 1 + (uint32_t)rand_r(&seed) % 4,
			 ahead = 1 + (uint32_t)rand_r(&seed) % 4;
		struct plim_epoch e =
			epoch(1 + (uint64_t)rand_r(&seed) % 60, 0, 1, PLIM_EPOCH_SHUFFLE);
		struct plim_samples *x;
		struct plim_batches *b;
		size_t puts = 0;

		assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
		x = open_it(path);
		b = batches(x, round % 4 < 2 ? -1 : 0, threads, ahead, 16384);
		for (e.epoch = 0; e.epoch < 2; e.epoch++) {
			uint8_t *seen = calloc(1, n);

			assert_int_equal(run_epoch(b, f, ahead, &e, seen),
					 (n + e.batch_size - 1) / e.batch_size);
			for (uint64_t i = 0; i < n; i++)
				assert_int_equal(seen[i], 1);
			free(seen);
		}
		plim_batches_free(b);
		assert_int_equal(fake_pinned() + fake_streams(), 0);
		plim_samples_close(x);
		unlink(path);
	}
}

static const char *filled(const char *name, const struct plim_samples_field *f, uint64_t n)
{
	const struct plim_samples_schema s = schema(f, n, "");
	const char *path = in_top(name);
	size_t puts = 0;

	assert_int_equal(fill(path, &s, &puts, NULL), PLIM_OK);
	return path;
}

/* What is queued before the push is done before the copies; what is queued behind the take sees them. */
static void test_order_of_streams(void **state)
{
	const char *path = filled("streams", fixed, 100);
	struct plim_samples *x = open_it(path);
	struct plim_batches *b = batches(x, 0, 2, 2, 0);
	const struct plim_epoch e = epoch(50, 0, 1, 0);
	uint8_t *old = calloc(1, 50 * LINE), *after = calloc(1, 50 * LINE + 1);
	struct plim_batch told = { 0 };
	struct got g;

	(void)state;
	assert_int_equal(plim_batches_begin(b, &e, NULL), PLIM_OK);
	assert_true(room_for(b, &g));
	fake_kernel(STREAM, g.where[0], old, 50 * LINE); /* whoever had the memory before */
	assert_int_equal(plim_batches_push(b, (void **)g.where, STREAM, NULL), PLIM_OK);
	while (!told.count)
		assert_int_equal(plim_batches_next(b, STREAM, FOREVER, &told, NULL), PLIM_OK);
	for (uintptr_t i = 8; i < 64; i++) /* ours is quicker than the caller's */
		fake_complete((void *)i);
	fake_kernel(STREAM, after, g.where[0], 50 * LINE);
	fake_complete(STREAM);
	expect_batch(fixed, &g);
	assert_memory_equal(after, g.where[0], 50 * LINE);
	free_room(&g);
	/* Freed while one is on the way: nothing is copied any more afterwards. */
	assert_true(room_for(b, &g));
	assert_int_equal(plim_batches_push(b, (void **)g.where, STREAM, NULL), PLIM_OK);
	plim_batches_free(b);
	free_room(&g);
	assert_int_equal(fake_pinned() + fake_streams(), 0);
	plim_samples_close(x);
	free(old);
	free(after);
	unlink(path);
}

/* The driver refuses each of its calls in turn: an error, and nothing is left of it. */
static void test_driver_fails(void **state)
{
	const char *path = filled("driver", fixed, 60);
	struct plim_samples *x = open_it(path);
	const struct plim_epoch e = epoch(20, 0, 1, 0);
	int failures = 0;

	(void)state;
	for (long at = 0; at < 400; at++) {
		struct plim_batches_options o;
		struct plim_batches *b = NULL;
		struct plim_batch told = { 0 };
		struct got g[3];
		enum plim_status st;
		size_t rooms = 0;

		plim_batches_options_init(&o);
		o.device = 0;
		o.threads = 1;
		o.cuda_library = fake_library;
		fake_fail_at(at);
		st = plim_batches_new(x, &o, &b, NULL);
		if (!st)
			st = plim_batches_begin(b, &e, NULL);
		while (!st && rooms < 3 && room_for(b, &g[rooms])) {
			st = plim_batches_push(b, (void **)g[rooms++].where, STREAM, NULL);
			told.count = 0;
			while (!st && !told.count)
				st = plim_batches_next(b, STREAM, FOREVER, &told, NULL);
		}
		fake_fail_at(-1);
		failures += st != PLIM_OK;
		plim_batches_free(b);
		fake_complete(STREAM);
		while (rooms)
			free_room(&g[--rooms]);
		assert_int_equal(fake_pinned() + fake_streams(), 0);
		if (!st)
			break;
	}
	assert_true(failures > 2);
	plim_samples_close(x);
	unlink(path);
}

/* A damaged sample is its batch's error, and the next epoch goes on. */
static void test_damaged_batch(void **state)
{
	char path[256];
	struct plim_samples *x;
	struct plim_batches *b;
	struct plim_epoch e = epoch(10, 0, 1, 0);
	struct plim_batch told = { 0 };
	struct plim_err err = { 0 };
	struct got g[3];
	uint8_t seen[100] = { 0 };

	(void)state;
	snprintf(path, sizeof(path), "%s", filled("damaged", fixed, 100));
	x = open_it(path);
	flip(path, record_at(path, 15));
	b = batches(x, -1, 3, 3, 0);
	assert_int_equal(plim_batches_begin(b, &e, NULL), PLIM_OK);
	for (size_t i = 0; i < 3; i++) {
		assert_true(room_for(b, &g[i]));
		assert_int_equal(plim_batches_push(b, (void **)g[i].where, NULL, NULL), PLIM_OK);
	}
	assert_int_equal(plim_batches_push(b, (void **)g[0].where, NULL, NULL), PLIM_E_ARG);
	while (!told.count)
		assert_int_equal(plim_batches_next(b, NULL, FOREVER, &told, NULL), PLIM_OK);
	expect_batch(fixed, &g[0]);
	assert_int_equal(plim_batches_next(b, NULL, FOREVER, &told, &err), PLIM_E_FORMAT);
	assert_non_null(strstr(err.message, "sample 15 is damaged"));
	assert_int_equal(plim_batches_peek(b, &told, NULL), PLIM_OK);
	assert_int_equal(told.count, 0);
	for (size_t i = 0; i < 3; i++)
		free_room(&g[i]);
	e.done = 2;
	assert_int_equal(run_epoch(b, fixed, 3, &e, seen), 8);
	assert_int_equal(seen[19] + seen[20] + seen[99], 2);
	plim_batches_free(b);
	plim_samples_close(x);
	unlink(path);
}

static void test_refused_batches(void **state)
{
	const char *path = filled("arguments", fixed, 10);
	struct plim_samples *x = open_it(path);
	struct plim_batches_options o;
	struct plim_batches *b;
	struct plim_epoch e = epoch(4, 0, 1, 0);
	uint64_t n;

	(void)state;
	plim_batches_options_init(&o);
	o.threads = 65;
	assert_int_equal(plim_batches_new(x, &o, &b, NULL), PLIM_E_ARG);
	o.threads = 4;
	o.ahead = 0;
	assert_int_equal(plim_batches_new(x, &o, &b, NULL), PLIM_E_ARG);
	o.ahead = 1;
	o.device = 0;
	o.cuda_library = "/nowhere.so";
	assert_int_equal(plim_batches_new(x, &o, &b, NULL), PLIM_E_UNSUPPORTED);
	assert_null(b);
	assert_int_equal(plim_epoch_batches(&e, 10, &n, NULL), PLIM_OK);
	assert_int_equal(n, 3);
	e.rank = 1;
	assert_int_equal(plim_epoch_batches(&e, 10, &n, NULL), PLIM_E_ARG);
	e.rank = 0;
	e.flags = 8;
	assert_int_equal(plim_epoch_batches(&e, 10, &n, NULL), PLIM_E_ARG);
	e.flags = 0;
	e.batch_size = 0;
	assert_int_equal(plim_epoch_batches(&e, 10, &n, NULL), PLIM_E_ARG);
	plim_samples_close(x);
	unlink(path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_not_that_one),
		cmocka_unit_test(test_together),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_other_schema),
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_memory_limit),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_shuffle),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_order_of_streams),
		cmocka_unit_test(test_driver_fails),
		cmocka_unit_test(test_damaged_batch),
		cmocka_unit_test(test_refused_batches),
	};
	char command[100];
	int failed;

	fake_library = argc > 1 ? argv[1] : NULL;
	snprintf(top, sizeof(top), "/tmp/plimsoll-data.XXXXXX");
	if (!mkdtemp(top))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command) || failed;
}
