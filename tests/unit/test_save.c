/*
 * Saving: what is on the disk is what the tensors were, whenever copies run; a process that dies, or a disk that is full, at any
 * call leaves the old checkpoint or the new one, whole.
 */
#include "save/parts.h"

#include "../allocator/fake_cuda.h"

#include <plimsoll/ckpt.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

#define FOREVER UINT64_MAX

static const char *fake_library;
static char top[64];
static uint32_t format; /* 0, or PLIM_CHECKPOINTER_TORCH */

/* ---- calls that fail, or at which the process dies ---- */

static _Atomic long calls, fail_at = -1, die_at = -1;

static bool refused(void)
{
	long n = calls++;

	if (n == die_at)
		(void)raise(SIGKILL);
	if (fail_at >= 0 && n >= fail_at) {
		errno = ENOSPC;
		return true;
	}
	return false;
}

/* Removing needs no room. */
static bool dies(void)
{
	if (calls++ == die_at)
		(void)raise(SIGKILL);
	return false;
}

#define WRAP(how, type, name, declared, given)           \
	type __real_##name declared;                     \
	type __wrap_##name declared;                     \
	type __wrap_##name declared                      \
	{                                                \
		return how() ? -1 : __real_##name given; \
	}
WRAP(refused, ssize_t, write, (int fd, const void *at, size_t n), (fd, at, n))
WRAP(refused, int, renameat, (int a, const char *x, int b, const char *y), (a, x, b, y))
WRAP(refused, int, renameat2, (int a, const char *x, int b, const char *y, unsigned f),
     (a, x, b, y, f))
WRAP(refused, int, linkat, (int a, const char *x, int b, const char *y, int f), (a, x, b, y, f))
WRAP(refused, int, mkdirat, (int fd, const char *name, mode_t mode), (fd, name, mode))
WRAP(dies, int, unlinkat, (int fd, const char *name, int flags), (fd, name, flags))
WRAP(refused, int, symlinkat, (const char *to, int fd, const char *name), (to, fd, name))
WRAP(refused, int, fallocate64, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
WRAP(refused, int, ftruncate64, (int fd, off_t n), (fd, n))

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
	static char path[32][256];
	static unsigned next;
	char *at = path[next++ % 32];

	snprintf(at, sizeof(path[0]), "%s/%s", top, name);
	return at;
}

static struct plim_checkpointer *open_it(const char *folder, uint64_t staging)
{
	struct plim_checkpointer_options o = { .size = sizeof(o),
					       .flags = format,
					       .keep_last = 2,
					       .keep_best = 1,
					       .world = 1,
					       .host_ranks = 1,
					       .rank_wait_ns = 60000000000u,
					       .staging_bytes = staging,
					       .cuda_library = fake_library };
	struct plim_checkpointer *c = NULL;
	struct plim_err err = { 0 };

	assert_int_equal(save_open(folder, &o, &c, &err), PLIM_OK);
	return c;
}

/* One tensor of n floats: all are `value`. */
static enum plim_status save_value(struct plim_checkpointer *c, uint64_t step, double metric,
				   float value, size_t n)
{
	float *at = malloc(n * sizeof(*at));
	struct plim_saving_tensor t = { .name = "w",
					.dtype = "float32",
					.shape = (const uint64_t[]){ n },
					.rank = 1,
					.where = at,
					.device = -1 };
	struct plim_saving *s = NULL;
	struct plim_err err = { 0 };
	enum plim_status st;

	for (size_t i = 0; i < n; i++)
		at[i] = value;
	st = plim_saving_begin(c, step, metric, &s, &err);
	if (!st)
		st = plim_saving_add(s, "model", &t, 1, &err);
	if (!st)
		st = plim_saving_text(s, "state.json", "{}", 2, &err);
	if (!st)
		st = plim_saving_start(s, NULL, 0, &err);
	free(at); /* host memory is copied by then */
	if (!st)
		st = plim_saving_wait(s, PLIM_SAVING_DURABLE, FOREVER, &err);
	plim_saving_free(s);
	return st;
}

static void read_file(const char *path, uint8_t **at, size_t *n)
{
	int fd = open(path, O_RDONLY);
	struct stat info;

	assert_true(fd >= 0 && !fstat(fd, &info));
	*n = (size_t)info.st_size;
	*at = malloc(*n + 1);
	assert_int_equal(read(fd, *at, *n), *n);
	close(fd);
}

/* Where the tensors begin, and the last of them ends. */
static const uint8_t *body_of(const uint8_t *file, size_t n, const uint8_t **end)
{
	static const char offsets[] = "data_offsets\":[";
	unsigned long long header, last;
	const char *index;

	*end = file + n;
	if (!format) {
		memcpy(&header, file, 8);
		assert_int_equal((header + 8) % 64, 0);
		return file + 8 + header;
	}
	index = memmem(file, n, offsets, sizeof(offsets) - 1);
	assert_non_null(index);
	assert_int_equal(sscanf(index + sizeof(offsets) - 1, "%llu,%llu", &header, &last), 2);
	assert_true(header % 64 == 0 && header <= last && last <= n);
	*end = file + last;
	return file + header;
}

/* Every byte matches its sum, and the tensor of `model` holds one value: that. */
static float value_of(const char *checkpoint)
{
	struct plim_ckpt_options o;
	struct plim_ckpt *c = NULL;
	struct plim_err err = { 0 };
	char path[300];
	const uint8_t *end;
	uint8_t *file;
	size_t n;
	float first, x;

	plim_ckpt_options_init(&o);
	o.flags = PLIM_CKPT_VERIFY;
	assert_int_equal(plim_ckpt_open(checkpoint, &o, &c, &err), PLIM_OK);
	assert_int_equal(c->verdict, PLIM_CKPT_WHOLE);
	plim_ckpt_free(c);
	snprintf(path, sizeof(path), "%s/model.%s", checkpoint, format ? "pt" : "safetensors");
	read_file(path, &file, &n);
	memcpy(&first, body_of(file, n, &end), 4);
	for (const uint8_t *at = body_of(file, n, &end); at < end; at += 4) {
		memcpy(&x, at, 4);
		assert_true(x == first);
	}
	free(file);
	return first;
}

static struct plim_saved_list *list(const char *folder)
{
	struct plim_saved_list *l = NULL;

	assert_int_equal(plim_saved_open(folder, 0, &l, NULL), PLIM_OK);
	return l;
}

static bool has(const struct plim_saved_list *l, uint64_t step)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->at[i].step == step && l->at[i].whole)
			return true;
	return false;
}

static void remove_all(const char *folder)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	assert_int_equal(system(command), 0);
}

/* ---- tests ---- */

static void test_saves(void **state)
{
	const char *folder = in_top("plain");
	struct plim_checkpointer *c = open_it(folder, 0);
	struct plim_saved_list *l;
	size_t n = (SAVE_SLOT_BYTES / 4) * 5 + 77; /* more than the two slots that there are */

	(void)state;
	assert_int_equal(save_value(c, 7, 0.5, 1.5f, n), PLIM_OK);
	assert_true(value_of(in_top("plain/step-00000007")) == 1.5f);
	assert_true(value_of(in_top("plain/latest")) == 1.5f);
	assert_int_equal(save_value(c, 7, 0.25, 2.5f, n), PLIM_OK); /* again: the new one */
	assert_true(value_of(in_top("plain/best")) == 2.5f);
	l = list(folder);
	assert_int_equal(l->n, 1);
	assert_true(l->at[0].metric == 0.25 && l->at[0].order == 2 && l->at[0].best);
	plim_saved_free(l);
	plim_checkpointer_close(c);
	remove_all(folder);
}

static void test_keeps(void **state)
{
	const char *folder = in_top("keep");
	struct plim_checkpointer *c = open_it(folder, 0);
	struct plim_saved_list *l;

	(void)state;
	c->options.keep_every = 10;
	assert_int_equal(save_value(c, 10, NAN, 1, 9), PLIM_OK);
	assert_int_equal(save_value(c, 11, 0.1, 2, 9), PLIM_OK); /* the best */
	for (uint64_t step = 12; step < 16; step++)
		assert_int_equal(save_value(c, step, 0.1 * (double)step, 3, 9), PLIM_OK);
	l = list(folder);
	assert_int_equal(l->n, 4);
	assert_true(has(l, 10) && has(l, 11) && has(l, 14) && has(l, 15));
	plim_saved_free(l);
	/* The run went back: what is saved last is the latest, whatever its number. */
	assert_int_equal(save_value(c, 5, NAN, 9, 9), PLIM_OK);
	assert_true(value_of(in_top("keep/latest")) == 9);
	l = list(folder);
	assert_true(l->at[l->n - 1].step == 5 && has(l, 15) && !has(l, 14));
	plim_saved_free(l);
	plim_checkpointer_close(c);
	remove_all(folder);
}

/* One that saves over step 1 and adds step 2, and dies at a call, or finds the disk full from there on. */
static void child(const char *folder, long at, bool die)
{
	struct plim_checkpointer *c = open_it(folder, 0);
	bool good;

	calls = 0;
	*(die ? &die_at : &fail_at) = at;
	good = !save_value(c, 1, NAN, 2, 20000) && !save_value(c, 2, NAN, 3, 50000);
	fail_at = -1;
	plim_checkpointer_close(c);
	_exit(good ? 0 : 1);
}

/* Step 1 is there, old or new; step 2 only if step 1 is the new one; both whole; the links show one of them. */
static void check_after(const char *folder)
{
	struct plim_saved_list *l = list(folder);
	char path[300];
	float one;

	assert_true(has(l, 1) && l->n <= 2);
	snprintf(path, sizeof(path), "%s/step-00000001", folder);
	one = value_of(path);
	assert_true(one == 1 || one == 2);
	if (l->n == 2) {
		snprintf(path, sizeof(path), "%s/step-00000002", folder);
		assert_true(one == 2 && value_of(path) == 3);
	}
	snprintf(path, sizeof(path), "%s/latest", folder);
	assert_true(value_of(path) >= 1);
	plim_saved_free(l);
}

static void die_or_fail(bool die)
{
	char folder[256], left[300];
	long at;
	bool ended = false;

	snprintf(folder, sizeof(folder), "%s/%s", top, die ? "die" : "full");
	snprintf(left, sizeof(left), "%s/.step-00000001.alone.plimsoll", folder);
	for (at = 0; !ended; at++) {
		struct plim_checkpointer *c = open_it(folder, 0);
		struct stat info;
		pid_t pid;
		int status;

		assert_int_equal(save_value(c, 1, NAN, 1, 20000), PLIM_OK);
		plim_checkpointer_close(c);
		pid = fork();
		if (!pid)
			child(folder, at, die);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		ended = WIFEXITED(status) && !WEXITSTATUS(status);
		assert_true(ended || (die ? WIFSIGNALED(status) : WIFEXITED(status)));
		check_after(folder);
		/* The next one that saves here leaves nothing but checkpoints and links. */
		c = open_it(folder, 0);
		assert_int_equal(save_value(c, 3, NAN, 4, 10), PLIM_OK);
		plim_checkpointer_close(c);
		assert_int_equal(stat(left, &info), -1);
		remove_all(folder);
	}
	assert_true(at > 30); /* it failed at many calls before it went through */
}

static void test_killed(void **state)
{
	(void)state;
	die_or_fail(true);
}

static void test_disk_full(void **state)
{
	(void)state;
	die_or_fail(false);
}

/* ---- a file of torch ---- */

static void test_torch_saves(void **state)
{
	format = PLIM_CHECKPOINTER_TORCH;
	test_saves(state);
	format = 0;
}

static void test_torch_killed(void **state)
{
	format = PLIM_CHECKPOINTER_TORCH;
	test_killed(state);
	format = 0;
}

/* The file, as it is before the sums are in; freed by the caller. */
static uint8_t *assemble(const struct save_file *f)
{
	uint8_t *at = malloc(f->bytes);
	size_t n = 0, from = 0;

	for (size_t i = 0; i < f->tensors.n; i++) {
		const struct save_tensor *t = &f->tensors.at[i];

		memcpy(at + n, text_get(&f->text) + from, t->lead - from);
		n += t->lead - from;
		from = t->lead;
		assert_int_equal(n, t->at);
		memcpy(at + n, t->where, t->bytes);
		n += t->bytes;
	}
	memcpy(at + n, text_get(&f->text) + from, f->text.n - from);
	assert_int_equal(n + f->text.n - from, f->bytes);
	return at;
}

static void expect_whole(const uint8_t *at, size_t n)
{
	struct plim_ckpt_options o;
	struct plim_ckpt *c = NULL;
	const char *path = in_top("sums.pt");
	FILE *out = fopen(path, "wb");

	assert_true(out && fwrite(at, 1, n, out) == n && !fclose(out));
	plim_ckpt_options_init(&o);
	o.flags = PLIM_CKPT_VERIFY;
	assert_int_equal(plim_ckpt_open(path, &o, &c, NULL), PLIM_OK);
	assert_int_equal(c->verdict, PLIM_CKPT_WHOLE);
	assert_int_equal(c->tensor_count, 5);
	plim_ckpt_free(c);
	assert_int_equal(unlink(path), 0);
}

/* A checksum, and a tensor, may end in another piece than they began in. */
static void test_torch_sums(void **state)
{
	static const uint8_t bytes[300] = { 1, 2, 3, 250, 251 };
	static const uint64_t shapes[4][1] = { { 5 }, { 0 }, { 300 }, { 1 } };
	static const char *const names[4] = { "b", "nothing", "a", "one" };
	static const size_t pieces[] = { 1, 2, 3, 7, 64, 1 << 20 };
	struct plim_checkpointer c = { .options = { .flags = PLIM_CHECKPOINTER_TORCH } };
	struct plim_saving s = { .of = &c };

	(void)state;
	mem_init(&c.mem, 0);
	for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
		struct save_file f = { .name = "sums.pt", .form = SAVE_TORCH };
		struct save_note note = { .key = (char[]){ "tied" }, .value = (char[]){ "a" } };
		uint8_t *at;

		text_init(&f.text, &c.mem, NULL);
		text_init(&f.tree, &c.mem, NULL);
		for (size_t i = 0; i < 4; i++) {
			struct save_tensor t = { .name = (char *)(uintptr_t)names[i],
						 .dtype = ckpt_dtype_of_torch("uint8"),
						 .where = bytes,
						 .bytes = shapes[i][0],
						 .shape = (uint64_t *)(uintptr_t)shapes[i],
						 .rank = 1,
						 .device = -1 };

			assert_int_equal(vec_push(&c.mem, &f.tensors, t, NULL), PLIM_OK);
		}
		assert_int_equal(vec_push(&c.mem, &f.notes, note, NULL), PLIM_OK);
		assert_int_equal(layout_file(&s, &f, NULL), PLIM_OK);
		assert_int_equal(f.patches.n, 6); /* none of what has no bytes */
		at = assemble(&f);
		for (size_t from = 0; from < f.bytes; from += pieces[k])
			layout_sum(&f, at + from,
				   f.bytes - from < pieces[k] ? f.bytes - from : pieces[k]);
		expect_whole(at, f.bytes);
		free(at);
		vec_release(&c.mem, &f.tensors);
		vec_release(&c.mem, &f.notes);
		vec_release(&c.mem, &f.patches);
		text_release(&f.text);
		text_release(&f.tree);
	}
	assert_int_equal(c.mem.used_bytes, 0);
}

/* What plim_saving_start says of an object for torch.load. */
static enum plim_status start_with(const char *tree)
{
	const uint64_t shape = 1;
	const float one = 1;
	struct plim_saving_tensor t = { .name = "w",
					.dtype = "float32",
					.shape = &shape,
					.rank = 1,
					.where = &one,
					.device = -1 };
	struct plim_checkpointer *c = open_it(in_top("trees"), 0);
	struct plim_saving *s;
	enum plim_status st;

	assert_int_equal(plim_saving_begin(c, 1, NAN, &s, NULL), PLIM_OK);
	assert_int_equal(plim_saving_add(s, "x", &t, 1, NULL), PLIM_OK);
	st = plim_saving_tree(s, "x", tree, strlen(tree), NULL);
	if (!st)
		st = plim_saving_start(s, NULL, 0, NULL);
	plim_saving_free(s);
	plim_checkpointer_close(c);
	remove_all(in_top("trees"));
	return st;
}

static void test_torch_trees(void **state)
{
	static const char *const wrong[] = {
		"{\"$tensor\":\"v\"}",
		"{\"$tensor\":3}",
		"{\"$tensor\":\"w\",\"x\":1}",
		"{\"$tuple\":3}",
		"{\"$items\":[[1]]}",
		"{\"$items\":[[1,2,3]]}",
		"{\"$items\":[1]}",
		"{\"$float\":\"1e3\"}",
		"{\"$class\":\"x\"}",
		"99999999999999999999",
		"1 2",
	};

	(void)state;
	assert_int_equal(start_with("{}"), PLIM_E_ARG); /* a file of safetensors holds none */
	format = PLIM_CHECKPOINTER_TORCH;
	assert_int_equal(start_with("{\"a\":[{\"$tensor\":\"w\"},{\"$items\":[[1,null]]}]}"),
			 PLIM_OK);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_true(start_with(wrong[i]) != PLIM_OK);
	format = 0;
}

/* ---- a GPU ---- */

#define COMPUTE ((void *)(uintptr_t)3)

/* A parameter that the optimizer updates, and a buffer that the next forward pass changes. */
static void gpu_step(size_t n, uint64_t staging)
{
	const char *folder = in_top("gpu");
	struct plim_checkpointer *c = open_it(folder, staging);
	uint8_t *parameter = malloc(n * 4), *buffer = malloc(400), *first = malloc(n * 4),
		*next = malloc(n * 4);
	const uint64_t shape = n, small = 100;
	struct plim_saving_tensor t[2] = {
		{ .name = "p",
		  .dtype = "float32",
		  .shape = &shape,
		  .rank = 1,
		  .where = parameter,
		  .guarded = 1 },
		{ .name = "b", .dtype = "int32", .shape = &small, .rank = 1, .where = buffer },
	};
	struct plim_saving_stream stream = { .stream = COMPUTE };
	struct plim_saving_progress told;
	struct plim_saving *s;
	uint8_t *file;
	const uint8_t *end, *body;
	size_t bytes;

	memset(next, 0x22, n * 4);
	memset(parameter, 0, n * 4);
	memset(buffer, 0, 400);
	/* What is queued before the save makes the values that are to be saved. */
	memset(first, 0x11, n * 4);
	fake_kernel(COMPUTE, parameter, first, n * 4);
	fake_kernel(COMPUTE, buffer, first, 400);
	assert_int_equal(plim_saving_begin(c, 1, NAN, &s, NULL), PLIM_OK);
	assert_int_equal(plim_saving_add(s, "model", t, 2, NULL), PLIM_OK);
	assert_int_equal(plim_saving_start(s, &stream, 1, NULL), PLIM_OK);
	fake_kernel(COMPUTE, buffer, next, 400); /* BatchNorm's next forward pass; no one waits */
	assert_int_equal(plim_saving_guard(s, 0, COMPUTE, NULL), PLIM_OK);
	fake_kernel(COMPUTE, parameter, next, n * 4); /* the update */
	fake_complete(COMPUTE);
	assert_int_equal(plim_saving_wait(s, PLIM_SAVING_DURABLE, FOREVER, NULL), PLIM_OK);
	plim_saving_progress(s, &told);
	assert_true(told.state == PLIM_SAVING_DURABLE && told.staged_ns != PLIM_UNKNOWN);
	plim_saving_free(s);
	plim_checkpointer_close(c);
	assert_int_equal(fake_pinned() + fake_streams(), 0);
	read_file(in_top("gpu/step-00000001/model.safetensors"), &file, &bytes);
	body = body_of(file, bytes, &end);
	assert_int_equal(end - body, 400 + n * 4);
	assert_memory_equal(body, first, 400);
	assert_memory_equal(body + 400, first, n * 4);
	free(file);
	free(parameter);
	free(buffer);
	free(first);
	free(next);
	remove_all(folder);
}

static void test_gpu(void **state)
{
	(void)state;
	gpu_step(1000, (uint64_t)1 << 30);
	gpu_step(SAVE_SLOT_BYTES / 4 + 5, (uint64_t)1 << 30);
	gpu_step(SAVE_SLOT_BYTES / 4 * 3, 0); /* through two slots: it waits for the disk */
}

static void test_gpu_fails(void **state)
{
	static float x[100];
	const uint64_t shape = 100;
	struct plim_saving_tensor t = {
		.name = "p", .dtype = "float32", .shape = &shape, .rank = 1, .where = x
	};
	struct plim_saving_stream stream = { .stream = COMPUTE };
	int failures = 0;

	(void)state;
	for (long at = 0; at < 8; at++) {
		struct plim_checkpointer *c = open_it(in_top("broken"), 0);
		struct plim_saving *s = NULL;
		struct plim_err err = { 0 };

		assert_int_equal(plim_saving_begin(c, 1, NAN, &s, &err), PLIM_OK);
		assert_int_equal(plim_saving_add(s, "model", &t, 1, &err), PLIM_OK);
		fake_fail_at(at);
		failures += plim_saving_start(s, &stream, 1, &err) != PLIM_OK;
		fake_fail_at(-1);
		failures += plim_saving_wait(s, PLIM_SAVING_DURABLE, FOREVER, &err) != PLIM_OK;
		plim_saving_free(s);
		plim_checkpointer_close(c);
	}
	assert_true(failures >= 4 && failures % 2 == 0);
	remove_all(in_top("broken"));
}

/* ---- ranks ---- */

static struct plim_checkpointer *open_rank_of(const char *folder, uint32_t rank, uint32_t world,
					      uint64_t wait_ns)
{
	struct plim_checkpointer_options o = { .size = sizeof(o),
					       .keep_last = 1,
					       .rank = rank,
					       .world = world,
					       .host_ranks = world,
					       .run = "abc",
					       .rank_wait_ns = wait_ns };
	struct plim_checkpointer *c = NULL;

	assert_int_equal(save_open(folder, &o, &c, NULL), PLIM_OK);
	return c;
}

static struct plim_checkpointer *open_rank(const char *folder, uint32_t rank, uint64_t wait_ns)
{
	return open_rank_of(folder, rank, 3, wait_ns);
}

static struct plim_saving *start_rank(struct plim_checkpointer *c, const char *file)
{
	static const float x[4];
	const uint64_t shape = 4;
	struct plim_saving_tensor t = { .name = "w",
					.dtype = "float32",
					.shape = &shape,
					.rank = 1,
					.where = x,
					.device = -1 };
	struct plim_saving *s = NULL;

	assert_int_equal(plim_saving_begin(c, 1, NAN, &s, NULL), PLIM_OK);
	assert_int_equal(plim_saving_add(s, file, &t, 1, NULL), PLIM_OK);
	assert_int_equal(plim_saving_start(s, NULL, 0, NULL), PLIM_OK);
	return s;
}

/* A quarter of the room, in whole slots, of which each rank has two at least. */
static void test_staging_is_shared(void **state)
{
	const uint64_t gib = (uint64_t)1 << 30;
	const struct {
		uint64_t room;
		uint32_t ranks;
		uint64_t share;
		size_t slots;
	} cases[] = {
		{ 64 * gib, 1, 16 * gib, 1024 },
		{ 64 * gib, 8, 2 * gib, 128 },
		{ 60 * gib, 7, 15 * gib / 7, 137 },
		{ 100 << 20, 1, 25 << 20, 2 },
		{ 0, 8, 0, 2 },
	};
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t share = save_staging_share(cases[i].room, cases[i].ranks);
		struct pool p;

		assert_int_equal(share, cases[i].share);
		assert_true(share * cases[i].ranks <= cases[i].room / 4);
		pool_init(&p, &m, share);
		assert_int_equal(p.limit, cases[i].slots);
		pool_release(&p);
	}
}

static void test_ranks(void **state)
{
	static const char *const files[] = { "model", "rank-00001", "rank-00002" };
	const char *folder = in_top("ranks");
	struct plim_checkpointer *c[3];
	struct plim_saving *s[3];
	struct plim_saved_list *l;

	(void)state;
	for (uint32_t r = 0; r < 3; r++)
		c[r] = open_rank(folder, r, 60000000000u);
	for (uint32_t r = 0; r < 2; r++)
		s[r] = start_rank(c[r], files[r]);
	l = list(folder);
	assert_int_equal(l->n, 0); /* one rank is missing: there is nothing */
	plim_saved_free(l);
	s[2] = start_rank(c[2], files[2]);
	for (uint32_t r = 0; r < 3; r++) {
		assert_int_equal(plim_saving_wait(s[r], PLIM_SAVING_DURABLE, FOREVER, NULL),
				 PLIM_OK);
		plim_saving_free(s[r]);
		plim_checkpointer_close(c[r]);
	}
	l = list(folder);
	assert_true(l->n == 1 && l->at[0].world == 3 && l->at[0].whole);
	plim_saved_free(l);
	assert_true(value_of(in_top("ranks/step-00000001")) == 0);
	remove_all(folder);
}

static void test_a_rank_is_lost(void **state)
{
	const char *folder = in_top("lost");
	struct plim_checkpointer *c[2];
	struct plim_saving *s[2];
	struct plim_saved_list *l;
	struct plim_err err = { 0 };

	(void)state;
	for (uint32_t r = 0; r < 2; r++)
		c[r] = open_rank(folder, r, 100000000);
	for (uint32_t r = 0; r < 2; r++)
		s[r] = start_rank(c[r], r ? "rank-00001" : "model");
	for (uint32_t r = 0; r < 2; r++) {
		assert_int_equal(plim_saving_wait(s[r], PLIM_SAVING_DURABLE, FOREVER, &err),
				 PLIM_E_IO);
		plim_saving_free(s[r]);
		plim_checkpointer_close(c[r]);
	}
	l = list(folder);
	assert_int_equal(l->n, 0);
	plim_saved_free(l);
	remove_all(folder);
}

/* A rank that saves step 2, its tensors as parts and its own text, and dies at a call if `at` is one. */
static pid_t fork_rank(const char *folder, uint32_t rank, long at)
{
	static const float x[3] = { 3, 3, 3 };
	const uint64_t shape[] = { 3 };
	struct plim_saving_tensor t = {
		.name = "w", .dtype = "float32", .shape = shape, .rank = 1, .where = x, .device = -1
	};
	struct plim_saving_part place = { 0 };
	struct plim_checkpointer *c;
	struct plim_saving *s = NULL;
	enum plim_status st;
	pid_t pid = fork();

	if (pid)
		return pid;
	calls = 0;
	die_at = at;
	/* The other one does not wait long: it may have died already. */
	c = open_rank_of(folder, rank, 2, 50000000);
	st = plim_saving_begin(c, 2, NAN, &s, NULL);
	if (!st && !rank)
		st = plim_saving_add(s, "model", &t, 1, NULL);
	if (!st)
		st = plim_saving_parts(s, rank ? "__1_0.distcp" : "__0_0.distcp", &t, 1, &place,
				       NULL);
	if (!st && !rank)
		st = plim_saving_text(s, SAVE_METADATA, "\x80\x02}.", 4, NULL);
	if (!st)
		st = plim_saving_start(s, NULL, 0, NULL);
	if (!st)
		st = plim_saving_wait(s, PLIM_SAVING_DURABLE, FOREVER, NULL);
	plim_saving_free(s);
	plim_checkpointer_close(c);
	_exit(st ? 1 : 0);
}

/* Every file that the manifest names has its sum. */
static void expect_sums(const char *checkpoint)
{
	struct manifest x;
	struct mem m;
	char path[400];
	int fd = open(checkpoint, O_RDONLY | O_DIRECTORY);

	mem_init(&m, 0);
	assert_int_equal(manifest_load(&m, fd, SAVE_MANIFEST, &x, NULL), PLIM_OK);
	assert_int_equal(x.rows.n, 4);
	for (size_t i = 0; i < x.rows.n; i++) {
		uint8_t *at;
		size_t n;

		snprintf(path, sizeof(path), "%s/%s", checkpoint, x.rows.at[i].name);
		read_file(path, &at, &n);
		assert_true(n == x.rows.at[i].bytes && XXH3_64bits(at, n) == x.rows.at[i].xxh3);
		free(at);
	}
	manifest_release(&m, &x);
	close(fd);
}

/* One of two ranks dies at each of its calls in turn: the old checkpoint is there, or the new one, of both ranks. */
static void test_a_rank_is_killed(void **state)
{
	char folder[256], left[300];

	(void)state;
	snprintf(folder, sizeof(folder), "%s/killed", top);
	snprintf(left, sizeof(left), "%s/.step-00000002.abc.plimsoll", folder);
	for (uint32_t victim = 0; victim < 2; victim++) {
		bool ended = false;
		long at;

		for (at = 0; !ended && at < 1000; at++) {
			struct plim_checkpointer *c = open_it(folder, 0);
			struct plim_saved_list *l;
			struct stat info;
			pid_t pid[2];
			int status[2];

			assert_int_equal(save_value(c, 1, NAN, 1, 10), PLIM_OK);
			plim_checkpointer_close(c);
			for (uint32_t r = 0; r < 2; r++)
				pid[r] = fork_rank(folder, r, r == victim ? at : -1);
			for (uint32_t r = 0; r < 2; r++)
				assert_int_equal(waitpid(pid[r], &status[r], 0), pid[r]);
			/* not if it gave up: the other one was late, on a busy machine */
			ended = WIFEXITED(status[victim]) && !WEXITSTATUS(status[victim]);
			l = list(folder);
			assert_true(has(l, 1) || has(l, 2));
			if (has(l, 2))
				expect_sums(in_top("killed/step-00000002"));
			if (has(l, 1))
				assert_true(value_of(in_top("killed/step-00000001")) == 1);
			plim_saved_free(l);
			assert_int_equal(stat(in_top("killed/latest/" SAVE_MANIFEST), &info), 0);
			c = open_it(folder, 0); /* sweeps */
			assert_int_equal(save_value(c, 3, NAN, 4, 10), PLIM_OK);
			plim_checkpointer_close(c);
			assert_int_equal(stat(left, &info), -1);
			remove_all(folder);
		}
		assert_true(ended && at > 8);
	}
}

/* ---- what is refused ---- */

static void test_refused(void **state)
{
	const uint64_t shape[2] = { UINT64_MAX, 3 };
	struct plim_saving_tensor t = {
		.name = "w", .dtype = "float32", .shape = shape, .rank = 2, .device = -1
	};
	struct plim_checkpointer *c = open_it(in_top("refused"), 0);
	struct plim_saving *s;

	(void)state;
	assert_int_equal(plim_saving_begin(c, 1, NAN, &s, NULL), PLIM_OK);
	assert_int_equal(plim_saving_add(s, "model", &t, 1, NULL), PLIM_E_ARG);
	t.rank = 0;
	assert_int_equal(plim_saving_add(s, "../model", &t, 1, NULL), PLIM_E_ARG);
	assert_int_equal(plim_saving_add(s, ".model", &t, 1, NULL), PLIM_E_ARG);
	assert_int_equal(plim_saving_text(s, SAVE_MANIFEST, "", 0, NULL), PLIM_E_ARG);
	t.dtype = "quint4x2";
	assert_int_equal(plim_saving_add(s, "model", &t, 1, NULL), PLIM_E_UNSUPPORTED);
	t.dtype = "float32";
	t.where = shape;
	assert_int_equal(plim_saving_add(s, "model", &t, 1, NULL), PLIM_OK);
	assert_int_equal(plim_saving_add(s, "model", &t, 1, NULL), PLIM_OK);
	assert_int_equal(plim_saving_start(s, NULL, 0, NULL), PLIM_E_ARG); /* twice one name */
	plim_saving_free(s);
	plim_checkpointer_close(c);
	remove_all(in_top("refused"));
}

static void test_manifest(void **state)
{
	static const struct {
		const char *text;
		enum plim_status st;
	} cases[] = {
		{ "{\"step\": 3, \"files\": [{\"name\": \"a\", \"bytes\": 1, \"xxh3\": "
		  "\"0123456789abcdef\"}]}",
		  PLIM_OK },
		{ "{\"step\": 3, \"files\": []}", PLIM_E_FORMAT },
		{ "{\"files\": [{\"name\": \"a\", \"bytes\": 1, \"xxh3\": \"0123456789abcdef\"}]}",
		  PLIM_E_FORMAT },
		{ "{\"step\": 3, \"files\": [{\"name\": \"../a\", \"bytes\": 1, \"xxh3\": "
		  "\"0123456789abcdef\"}]}",
		  PLIM_E_FORMAT },
		{ "{\"step\": 3, \"files\": [3]}", PLIM_E_FORMAT },
		{ "[]", PLIM_E_FORMAT },
		{ "{", PLIM_E_FORMAT },
	};
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct manifest x;

		assert_int_equal(manifest_of(&m, cases[i].text, strlen(cases[i].text), &x, NULL),
				 cases[i].st);
		manifest_release(&m, &x);
	}
	assert_int_equal(m.used_bytes, 0);
}

/* Two writers of one folder replaced each other's checkpoints, each of which had been called durable. */
static void test_owner(void **state)
{
	const char *folder = in_top("owned");
	struct plim_checkpointer *first = open_it(folder, 0), *second = NULL;
	struct plim_checkpointer_options o = {
		.size = sizeof(o), .keep_last = 1, .world = 1, .host_ranks = 1
	};
	struct plim_err err = { 0 };
	char who[32], byte;
	int end[2];
	pid_t child;

	(void)state;
	snprintf(who, sizeof(who), "process %ld on ", (long)getpid());
	assert_int_equal(save_open(folder, &o, &second, &err), PLIM_E_IO);
	assert_non_null(strstr(err.message, who));
	assert_null(second);
	plim_checkpointer_close(first);
	/* What a dead process forked has its lock, and is not the writer. */
	assert_int_equal(pipe(end), 0);
	child = fork();
	if (!child) {
		if (save_open(folder, &o, &second, NULL))
			_exit(1);
		if (!fork()) {
			close(end[1]);
			(void)!read(end[0], &byte, 1);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(child, &(int){ 0 }, 0), child);
	assert_int_equal(save_open(folder, &o, &second, &err), PLIM_OK);
	plim_checkpointer_close(second);
	close(end[0]);
	close(end[1]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_saves),
		cmocka_unit_test(test_keeps),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_gpu),
		cmocka_unit_test(test_gpu_fails),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_staging_is_shared),
		cmocka_unit_test(test_a_rank_is_lost),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_manifest),
		cmocka_unit_test(test_a_rank_is_killed),
		cmocka_unit_test(test_owner),
		cmocka_unit_test(test_torch_saves),
		cmocka_unit_test(test_torch_killed),
		cmocka_unit_test(test_torch_sums),
		cmocka_unit_test(test_torch_trees),
	};
	int failed;

	fake_library = argc > 1 ? argv[1] : NULL;
	snprintf(top, sizeof(top), "/tmp/plimsoll-save.XXXXXX");
	if (!mkdtemp(top))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	remove_all(top);
	return failed;
}
