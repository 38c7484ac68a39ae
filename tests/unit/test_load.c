/*
 * Loading: what arrives is what the file holds, in the order of the caller's stream, whatever its size and layout; no part of the
 * ring is read into before the copies out of it are over (the fake driver fails the test then); what fails leaves nothing queued.
 */
#include "load/parts.h"

#include "../allocator/fake_cuda.h"
#include "commands/ckpt/ckpt.h"

#include <plimsoll/plimsoll.h>

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define STREAM ((void *)(uintptr_t)3)
#define OTHER ((void *)(uintptr_t)4)

static const char *fake_library;
static char top[64];

/* ---- helpers ---- */

static const char *in_top(const char *name)
{
	static char path[8][256];
	static unsigned next;
	char *at = path[next++ % 8];

	snprintf(at, sizeof(path[0]), "%s/%s", top, name);
	return at;
}

static const char *data(const char *name)
{
	static char path[1000];

	snprintf(path, sizeof(path), "%s/checkpoints/%s", getenv("PLIMSOLL_TEST_DATA"), name);
	return path;
}

static struct plim_loader *loader(int device, uint32_t threads, uint64_t ring)
{
	struct plim_loader_options o;
	struct plim_loader *l = NULL;
	struct plim_err err = { 0 };

	plim_loader_options_init(&o);
	o.device = device;
	o.threads = threads;
	o.ring_bytes = ring;
	o.cuda_library = fake_library;
	assert_int_equal(plim_loader_new(&o, &l, &err), PLIM_OK);
	return l;
}

static uint8_t byte_of(size_t tensor, uint64_t at)
{
	return (uint8_t)(tensor * 31 + at * 7 + (at >> 8) + (at >> 16));
}

/* A safetensors file of n tensors of uint8; sizes[i] bytes each. */
static void make_file(const char *path, const uint64_t *sizes, size_t n)
{
	FILE *f = fopen(path, "wb");
	char *header = malloc(n * 80 + 100);
	size_t at = 1;
	uint64_t from = 0, length;

	assert_true(f && header);
	header[0] = '{';
	for (size_t i = 0; i < n; i++) {
		at += (size_t)sprintf(header + at,
				      "%s\"t%zu\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_"
				      "offsets\":[%llu,%llu]}",
				      i ? "," : "", i, (unsigned long long)sizes[i],
				      (unsigned long long)from,
				      (unsigned long long)(from + sizes[i]));
		from += sizes[i];
	}
	header[at++] = '}';
	length = at;
	assert_int_equal(fwrite(&length, 8, 1, f), 1);
	assert_int_equal(fwrite(header, 1, at, f), at);
	for (size_t i = 0; i < n; i++)
		for (uint64_t k = 0; k < sizes[i]; k++)
			fputc(byte_of(i, k), f);
	assert_int_equal(fclose(f), 0);
	free(header);
}

static struct plim_ckpt *open_it(const char *path)
{
	struct plim_ckpt *c = NULL;
	struct plim_err err = { 0 };

	assert_int_equal(plim_ckpt_open(path, NULL, &c, &err), PLIM_OK);
	return c;
}

struct room {
	struct plim_load *loads;
	size_t n;
};

static struct room room_for(const struct plim_ckpt *c)
{
	struct room r = { calloc(c->tensor_count + 1, sizeof(*r.loads)), c->tensor_count };

	for (size_t i = 0; i < r.n; i++) {
		r.loads[i] = (struct plim_load){ i, malloc(c->tensors[i].bytes + 1) };
		memset(r.loads[i].where, 0xee, c->tensors[i].bytes + 1);
	}
	return r;
}

static void free_room(struct room r)
{
	for (size_t i = 0; i < r.n; i++)
		free(r.loads[i].where);
	free(r.loads);
}

static enum plim_status load(struct plim_loader *l, const struct plim_ckpt *c, struct room r,
			     uint32_t flags, void *stream, struct plim_err *err)
{
	const struct plim_loading what = {
		.ckpt = c, .loads = r.loads, .n = r.n, .flags = flags, .stream = stream
	};

	return plim_loader_load(l, &what, err);
}

static bool is_there(const struct plim_ckpt *c, struct room r)
{
	for (size_t i = 0; i < r.n; i++) {
		const uint8_t *at = r.loads[i].where;
		size_t number = strtoul(c->tensors[i].name + 1, NULL, 10);

		for (uint64_t k = 0; k < c->tensors[i].bytes; k++)
			if (at[k] != byte_of(number, k))
				return false;
		if (at[c->tensors[i].bytes] != 0xee)
			return false;
	}
	return true;
}

/* ---- real files ---- */

static enum plim_status keep(void *ctx, uint64_t at, const void *bytes, size_t n,
			     struct plim_err *err)
{
	(void)err;
	memcpy((uint8_t *)ctx + at, bytes, n);
	return PLIM_OK;
}

/* All that one thread can read, one after the other: the rest leaves `r`. */
static struct room readable(const struct plim_ckpt *c, struct room *r)
{
	struct room whole = { calloc(r->n + 1, sizeof(*whole.loads)), 0 };
	size_t left = 0;

	for (size_t i = 0; i < r->n; i++) {
		void *to = malloc(c->tensors[i].bytes + 1);

		if (ckpt_load(&c->hidden->ckpt, i, keep, to, NULL)) {
			free(to);
			free(r->loads[i].where);
			continue;
		}
		whole.loads[whole.n++] = (struct plim_load){ i, to };
		r->loads[left++] = r->loads[i];
	}
	r->n = left;
	return whole;
}

static void test_real_files(void **state)
{
	static const char *const names[] = { "state_dict_cuda.pt", "model.safetensors", "views.pt",
					     "legacy.pt",          "full_training.pt",  "lora_r4",
					     "exotic.pt",          "dtypes.pt" };

	(void)state;
	for (size_t f = 0; f < sizeof(names) / sizeof(names[0]); f++)
		for (int device = -1; device < 1; device++) {
			struct plim_loader *l = loader(device, 3, (uint64_t)3 * 4 * 4096);
			struct plim_ckpt *c = open_it(data(names[f]));
			struct room r = room_for(c), whole = readable(c, &r);

			assert_true(r.n > 0);
			assert_int_equal(load(l, c, r, 0, STREAM, NULL), PLIM_OK);
			fake_complete(STREAM);
			for (size_t i = 0; i < r.n; i++)
				assert_memory_equal(r.loads[i].where, whole.loads[i].where,
						    c->tensors[r.loads[i].tensor].bytes);
			free_room(r);
			free_room(whole);
			plim_ckpt_free(c);
			plim_loader_free(l);
		}
}

/* A dense tensor keeps its strides if that is asked for: its bytes are then those of the file. */
static void test_as_stored(void **state)
{
	struct plim_loader *l = loader(-1, 2, 1 << 20);
	struct plim_ckpt *c = open_it(data("views.pt"));
	struct room r = room_for(c), whole = readable(c, &r);
	size_t turned = 0;

	(void)state;
	assert_int_equal(load(l, c, r, PLIM_LOADING_AS_STORED, NULL, NULL), PLIM_OK);
	for (size_t i = 0; i < r.n; i++) {
		const struct plim_ckpt_tensor *t = &c->tensors[r.loads[i].tensor];
		uint8_t *bytes = malloc(t->bytes + 1);
		int fd = open(data("views.pt"), O_RDONLY);

		assert_true(fd >= 0);
		assert_int_equal(pread(fd, bytes, t->bytes, (off_t)t->offset_bytes), t->bytes);
		close(fd);
		if (t->stride_count == 2 && t->strides[0] == 1 && t->strides[1] == t->shape[0]) {
			assert_memory_equal(bytes, r.loads[i].where, t->bytes);
			turned++;
		}
		free(bytes);
	}
	assert_true(turned > 0);
	free_room(r);
	free_room(whole);
	plim_ckpt_free(c);
	plim_loader_free(l);
}

/* ---- a GPU ---- */

static size_t random_sizes(uint64_t *sizes, size_t most, unsigned *seed)
{
	static const uint64_t about[] = { 0, 1, 100, 4096, 5000, 16384, 100000 };
	size_t n = 1 + (size_t)rand_r(seed) % most;

	for (size_t i = 0; i < n; i++) {
		sizes[i] = about[(size_t)rand_r(seed) % (sizeof(about) / sizeof(about[0]))];
		sizes[i] += sizes[i] > 100 ? (uint64_t)rand_r(seed) % 999 : 0;
	}
	return n;
}

/* Sizes around that of a slot and far from it, in any order of the loads. */
static void test_any_sizes(void **state)
{
	unsigned seed = 7;
	uint64_t sizes[60];

	(void)state;
	for (int round = 0; round < 30; round++) {
		size_t n = random_sizes(sizes, 60, &seed);
		const char *path = in_top("any.safetensors");
		struct plim_loader *l = loader(round % 3 ? 0 : -1, 1 + (uint32_t)rand_r(&seed) % 5,
					       5 * 4 * 4096 * (1 + (uint64_t)rand_r(&seed) % 3));
		struct plim_ckpt *c;
		struct room r;

		make_file(path, sizes, n);
		c = open_it(path);
		r = room_for(c);
		for (size_t i = 0; i + 1 < r.n; i++) {
			size_t k = i + (size_t)rand_r(&seed) % (r.n - i);
			struct plim_load x = r.loads[i];

			r.loads[i] = r.loads[k];
			r.loads[k] = x;
		}
		assert_int_equal(load(l, c, r, 0, STREAM, NULL), PLIM_OK);
		fake_complete(STREAM);
		for (size_t i = 0; i < r.n; i++) { /* back into the order of is_there */
			while (r.loads[i].tensor != i) {
				struct plim_load x = r.loads[i];

				r.loads[i] = r.loads[x.tensor];
				r.loads[x.tensor] = x;
			}
		}
		assert_true(is_there(c, r));
		free_room(r);
		plim_ckpt_free(c);
		plim_loader_free(l);
		assert_int_equal(fake_pinned() + fake_streams(), 0);
	}
}

/* What is queued before is done before; what is queued behind sees all of it. */
static void test_order_of_streams(void **state)
{
	const uint64_t sizes[3] = { 200000, 10, 3000 };
	const char *path = in_top("order.safetensors");
	struct plim_loader *l = loader(0, 2, 1 << 17);
	struct plim_ckpt *c;
	struct room r, seen;
	uint8_t *old = calloc(1, 200000);

	(void)state;
	make_file(path, sizes, 3);
	c = open_it(path);
	r = room_for(c);
	seen = room_for(c);
	for (size_t i = 0; i < 3; i++) /* the model's last use, on two streams */
		fake_kernel(i ? STREAM : OTHER, r.loads[i].where, old, c->tensors[i].bytes);
	assert_int_equal(plim_loader_after(l, OTHER, NULL), PLIM_OK);
	assert_int_equal(load(l, c, r, 0, STREAM, NULL), PLIM_OK);
	for (size_t i = 0; i < 3; i++) /* its next one */
		fake_kernel(STREAM, seen.loads[i].where, r.loads[i].where, c->tensors[i].bytes);
	fake_complete(STREAM);
	fake_complete(OTHER);
	assert_true(is_there(c, r));
	assert_true(is_there(c, seen));
	plim_loader_free(l);
	free_room(r);
	free_room(seen);
	plim_ckpt_free(c);
	free(old);
}

/* A loader that forgets its events is found out: the proof that the fake sees what these tests rest on. */
static void test_reuse_is_seen(void **state)
{
	uint8_t to[4096];
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid) {
		struct plim_loader *l = loader(0, 1, 4 * 4096);

		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		(void)load_enter(l);
		if (load_ring(l, NULL))
			_exit(1);
		for (int i = 0; i < LOAD_SLOTS + 1; i++) {
			struct load_slot *s;

			for (int k = 0; k < LOAD_SLOTS; k++)
				l->readers[0].slots[k].used = false; /* the mistake */
			if (load_slot_next(l, &l->readers[0], &s, NULL))
				_exit(1);
			memset(s->at, i, 4096);
			if (load_slot_copy(l, &l->readers[0], s, 0, to, 4096, NULL) ||
			    load_slot_end(l, &l->readers[0], s, NULL))
				_exit(1);
		}
		fake_complete(l->readers[0].stream);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* Whichever call fails: an error, nothing queued, nothing lost; and the next load works. */
static void test_driver_fails(void **state)
{
	const uint64_t sizes[4] = { 30000, 10, 3000, 9000 };
	const char *path = in_top("fails.safetensors");
	int failures = 0;
	bool ended = false;

	(void)state;
	make_file(path, sizes, 4);
	for (long at = 0; !ended; at++) {
		struct plim_loader *l = loader(0, 2, 2 * 4 * 4096);
		struct plim_ckpt *c = open_it(path);
		struct room r = room_for(c), again = room_for(c);
		struct plim_err err = { 0 };

		fake_fail_at(at);
		ended = !load(l, c, r, 0, STREAM, &err);
		fake_fail_at(-1);
		failures += !ended;
		assert_true(ended || err.message[0]);
		fake_complete(STREAM);
		assert_true(!ended || is_there(c, r));
		free_room(r); /* nothing writes there any more */
		assert_int_equal(load(l, c, again, 0, STREAM, &err), PLIM_OK);
		fake_complete(STREAM);
		assert_true(is_there(c, again));
		free_room(again);
		plim_ckpt_free(c);
		plim_loader_free(l);
		assert_int_equal(fake_pinned() + fake_streams(), 0);
	}
	assert_true(failures > 8);
}

/* ---- what is wrong with files ---- */

static void expect_failure(struct plim_ckpt *c, enum plim_status status, const char *said)
{
	for (int device = -1; device < 1; device++) {
		struct plim_loader *l = loader(device, 2, 1 << 16);
		struct room r = room_for(c);
		struct plim_err err = { 0 };

		assert_int_equal(load(l, c, r, 0, STREAM, &err), status);
		assert_non_null(strstr(err.message, said));
		free_room(r);
		plim_loader_free(l);
	}
}

/* A flipped bit of a record, of one that is cut into pieces too. */
static void test_damage(void **state)
{
	char bytes[65536];
	const char *path = in_top("damaged.pt");
	struct plim_ckpt *c = open_it(data("state_dict_cuda.pt"));
	FILE *f = fopen(data("state_dict_cuda.pt"), "rb");
	size_t n = fread(bytes, 1, sizeof(bytes), f), flips = 0;

	(void)state;
	fclose(f);
	for (size_t i = 0; i < c->tensor_count; i++) {
		uint64_t at = c->tensors[i].offset_bytes + c->tensors[i].bytes - 1;
		struct plim_ckpt *damaged;

		bytes[at] ^= 4;
		f = fopen(path, "wb");
		assert_int_equal(fwrite(bytes, 1, n, f), n);
		fclose(f);
		damaged = open_it(path);
		expect_failure(damaged, PLIM_E_FORMAT, "damaged");
		plim_ckpt_free(damaged);
		bytes[at] ^= 4;
		flips++;
	}
	assert_true(flips > 1);
	plim_ckpt_free(c);
}

static void test_changed_files(void **state)
{
	const uint64_t sizes[2] = { 30000, 50 };
	const char *path = in_top("changed.safetensors");
	const struct timespec times[2] = { { 1, 1 }, { 1, 1 } };
	struct plim_ckpt *c;

	(void)state;
	make_file(path, sizes, 2);
	c = open_it(path);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	expect_failure(c, PLIM_E_IO, "changed");
	plim_ckpt_free(c);
	c = open_it(path);
	assert_int_equal(truncate(path, 20000), 0);
	expect_failure(c, PLIM_E_IO, "became shorter");
	plim_ckpt_free(c);
}

/* ---- from memory ---- */

static void test_copies(void **state)
{
	struct plim_loader *l = loader(0, 1, 1 << 16);
	uint64_t tickets[LOAD_TICKETS + 9];
	uint8_t to[64] = { 0 };
	uint32_t over;
	void *from[LOAD_TICKETS + 9];

	(void)state;
	for (size_t i = 0; i < LOAD_TICKETS + 9; i++) {
		struct plim_copy x = { .to = to, .bytes = sizeof(to) };

		assert_int_equal(plim_loader_take(l, 64, &from[i], NULL), PLIM_OK);
		memset(from[i], (int)i + 1, 64);
		x.from = from[i];
		assert_int_equal(plim_loader_copy(l, &x, 1, STREAM, &tickets[i], NULL), PLIM_OK);
	}
	assert_int_equal(plim_loader_look(l, tickets[LOAD_TICKETS + 8], &over, NULL), PLIM_OK);
	assert_false(over);
	for (size_t i = 0; i < LOAD_TICKETS + 9; i++) {
		assert_int_equal(plim_loader_wait(l, tickets[i], NULL), PLIM_OK);
		assert_int_equal(plim_loader_look(l, tickets[i], &over, NULL), PLIM_OK);
		assert_true(over);
		plim_loader_give(l, from[i], 64);
	}
	assert_int_equal(to[0], LOAD_TICKETS + 9);
	plim_loader_free(l);
	assert_int_equal(fake_pinned() + fake_streams(), 0);
}

/* ---- the cache, filled by a loader ---- */

static struct plim_weights *cache(struct plim_loader *l, uint64_t bytes,
				  const struct plim_weights_place *place)
{
	struct plim_weights_options o;
	struct plim_weights *w;

	plim_weights_options_init(&o);
	o.loader = l;
	o.max_bytes = bytes;
	o.place = place;
	assert_int_equal(plim_weights_new(&o, &w, NULL), PLIM_OK);
	return w;
}

static bool is_in_set(const struct plim_weights_set *set)
{
	for (size_t i = 0; i < set->tensor_count; i++) {
		size_t number = strtoul(set->tensors[i].name + 1, NULL, 10);

		for (uint64_t k = 0; k < set->tensors[i].bytes; k++)
			if (((const uint8_t *)set->tensors[i].where)[k] != byte_of(number, k))
				return false;
	}
	return true;
}

struct blocks {
	size_t taken, given;
};

static enum plim_status take_block(void *ctx, const struct plim_weight *t, void **where,
				   struct plim_err *err)
{
	struct blocks *b = ctx;

	(void)err;
	b->taken++;
	*where = malloc(t->bytes + 1);
	return PLIM_OK;
}

static void drop_block(void *ctx, const struct plim_weight *t, void *where)
{
	struct blocks *b = ctx;

	(void)t;
	b->given++;
	free(where);
}

/* Into memory of the host, page-locked or not, and into memory of the GPU, which the caller gives. */
static void test_cache(void **state)
{
	const uint64_t sizes[4] = { 70000, 10, 0, 3000 };
	const char *path = in_top("cached.safetensors");

	(void)state;
	make_file(path, sizes, 4);
	for (int how = 0; how < 3; how++) {
		struct blocks blocks = { 0 };
		const struct plim_weights_place place = {
			.take = take_block, .drop = drop_block, .ctx = &blocks, .stream = OTHER
		};
		struct plim_loader *l = loader(how ? 0 : -1, 2, 1 << 16);
		struct plim_weights *w = cache(l, 1 << 20, how == 2 ? &place : NULL);
		const struct plim_weights_set *set;

		assert_int_equal(plim_weights_add(w, "a", path, "*", NULL), PLIM_OK);
		assert_int_equal(plim_weights_get(w, "a", &set, NULL), PLIM_OK);
		assert_true(set->tensor_count == 4 && is_in_set(set));
		assert_int_equal(fake_pinned() >= 73010, how == 1);
		plim_weights_put(w, set);
		plim_weights_free(w);
		plim_loader_free(l);
		assert_true(blocks.taken == (how == 2) && blocks.given == blocks.taken);
		assert_int_equal(fake_pinned() + fake_streams(), 0);
	}
}

/* What was rewritten under its name is never served as it was; what is in use is not changed under its user. */
static void test_rewritten(void **state)
{
	const uint64_t sizes[1] = { 5000 }, more[2] = { 5000, 7 };
	const char *path = in_top("rewritten.safetensors");
	struct plim_loader *l = loader(-1, 2, 1 << 16);
	struct plim_weights *w = cache(l, 1 << 20, NULL);
	const struct plim_weights_set *set, *again;
	struct plim_err err = { 0 };
	uint64_t before;

	(void)state;
	make_file(path, sizes, 1);
	plim_weights_add(w, "a", path, "*", NULL);
	assert_int_equal(plim_weights_get(w, "a", &set, NULL), PLIM_OK);
	before = set->load;
	make_file(path, more, 2);
	assert_int_equal(plim_weights_get(w, "a", &again, &err), PLIM_E_IO);
	assert_non_null(strstr(err.message, "changed while 'a' is in use"));
	assert_int_equal(plim_weights_remove(w, "a", NULL), PLIM_E_ARG);
	plim_weights_put(w, set);
	assert_int_equal(plim_weights_get(w, "a", &set, NULL), PLIM_OK);
	assert_true(set->tensor_count == 2 && set->load != before && is_in_set(set));
	plim_weights_put(w, set);
	assert_int_equal(plim_weights_remove(w, "a", NULL), PLIM_OK);
	assert_int_equal(plim_weights_remove(w, "a", NULL), PLIM_E_ARG);
	assert_int_equal(plim_weights_get(w, "a", &set, NULL), PLIM_E_ARG);
	plim_weights_free(w);
	plim_loader_free(l);
}

/* What the cache must hold, told by what it was asked: the least recently used goes, and never what is leased. */
struct model {
	uint64_t bytes[8], used[8], leases[8], clock, all;
	bool held[8];
};

static bool model_get(struct model *m, size_t i, uint64_t most)
{
	while (!m->held[i] && m->all + m->bytes[i] > most) {
		size_t least = 8;

		for (size_t k = 0; k < 8 && m->bytes[i] <= most; k++)
			if (m->held[k] && !m->leases[k] &&
			    (least == 8 || m->used[k] < m->used[least]))
				least = k;
		if (least == 8)
			return false;
		m->held[least] = false;
		m->all -= m->bytes[least];
	}
	m->all += m->held[i] ? 0 : m->bytes[i];
	m->held[i] = true;
	m->used[i] = ++m->clock;
	m->leases[i]++;
	return true;
}

static void test_leases(void **state)
{
	const struct plim_weights_set *leased[64];
	size_t of[64], n = 0, refused = 0;
	unsigned seed = 3;
	const uint64_t most = 100000;
	struct plim_loader *l = loader(-1, 2, 1 << 16);
	struct plim_weights *w = cache(l, most, NULL);
	struct model m = { 0 };

	(void)state;
	for (size_t i = 0; i < 8; i++) {
		const uint64_t size = 1 + i * i * 2100;
		char name[2] = { (char)('a' + i), 0 };

		m.bytes[i] = (size + 255) / 256 * 256;
		make_file(in_top(name), &size, 1);
		assert_int_equal(plim_weights_add(w, name, in_top(name), "*", NULL), PLIM_OK);
	}
	for (int round = 0; round < 3000; round++) {
		struct plim_weights_stats stats;
		size_t i = (size_t)rand_r(&seed) % 8;
		char name[2] = { (char)('a' + i), 0 };

		if (n && (n == 64 || rand_r(&seed) % 2)) {
			size_t k = (size_t)rand_r(&seed) % n--;

			m.leases[of[k]]--;
			assert_true(is_in_set(leased[k])); /* it was there all the while */
			plim_weights_put(w, leased[k]);
			leased[k] = leased[n];
			of[k] = of[n];
		} else {
			enum plim_status st = plim_weights_get(w, name, &leased[n], NULL);
			bool expected = model_get(&m, i, most);

			assert_int_equal(st, expected ? PLIM_OK : PLIM_E_LIMIT);
			refused += !expected;
			if (expected)
				of[n++] = i;
		}
		plim_weights_stats(w, &stats);
		assert_int_equal(stats.bytes, m.all);
		assert_true(stats.bytes <= most);
	}
	assert_true(refused > 100);
	while (n)
		plim_weights_put(w, leased[--n]);
	plim_weights_free(w);
	plim_loader_free(l);
}

/* What goes while copies are queued waits for them; the fake stops the test else. */
static void test_ends(void **state)
{
	const uint64_t sizes[2] = { 30000, 50 };
	const char *path = in_top("ends.safetensors");
	struct plim_loader *l = loader(0, 2, 1 << 16);
	uint8_t to[64] = { 0 };
	struct plim_copy x = { .to = to, .bytes = sizeof(to) };
	struct plim_ckpt *c;
	struct room r;
	void *from;

	(void)state;
	make_file(path, sizes, 2);
	c = open_it(path);
	r = room_for(c);
	assert_int_equal(plim_loader_take(l, 64, &from, NULL), PLIM_OK);
	memset(from, 9, 64);
	x.from = from;
	assert_int_equal(plim_loader_copy(l, &x, 1, STREAM, NULL, NULL), PLIM_OK);
	plim_loader_give(l, from, 64);
	assert_int_equal(to[63], 9);
	assert_int_equal(load(l, c, r, 0, STREAM, NULL), PLIM_OK);
	plim_loader_free(l);
	assert_true(is_there(c, r));
	assert_int_equal(fake_pinned() + fake_streams(), 0);
	fake_complete(STREAM);
	free_room(r);
	plim_ckpt_free(c);
}

static void test_refused(void **state)
{
	struct plim_loader_options o;
	struct plim_loader *l;
	struct plim_err err = { 0 };

	(void)state;
	plim_loader_options_init(&o);
	o.threads = 65;
	assert_int_equal(plim_loader_new(&o, &l, &err), PLIM_E_ARG);
	assert_null(l);
	o.threads = 8;
	o.ring_bytes = 100;
	assert_int_equal(plim_loader_new(&o, &l, &err), PLIM_E_ARG);
	o.ring_bytes = 0;
	o.device = 0;
	o.cuda_library = "/nowhere.so";
	assert_int_equal(plim_loader_new(&o, &l, &err), PLIM_E_UNSUPPORTED);
	plim_loader_free(NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_real_files),    cmocka_unit_test(test_as_stored),
		cmocka_unit_test(test_any_sizes),     cmocka_unit_test(test_order_of_streams),
		cmocka_unit_test(test_reuse_is_seen), cmocka_unit_test(test_driver_fails),
		cmocka_unit_test(test_damage),        cmocka_unit_test(test_changed_files),
		cmocka_unit_test(test_copies),        cmocka_unit_test(test_refused),
		cmocka_unit_test(test_ends),          cmocka_unit_test(test_cache),
		cmocka_unit_test(test_rewritten),     cmocka_unit_test(test_leases),
	};
	char command[100];
	int failed;

	fake_library = argc > 1 ? argv[1] : NULL;
	snprintf(top, sizeof(top), "/tmp/plimsoll-load.XXXXXX");
	if (!mkdtemp(top))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command) || failed;
}
