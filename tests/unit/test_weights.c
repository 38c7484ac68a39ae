/* The cache of components: what is loaded, what is evicted, and many threads at once. */
#include <plimsoll/plimsoll.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 8
#define ROUNDS 60

static const char *data(const char *name)
{
	static char path[4][1000];
	static unsigned next;
	char *at = path[next++ % 4];

	snprintf(at, sizeof(path[0]), "%s/checkpoints/%s", getenv("PLIMSOLL_TEST_DATA"), name);
	return at;
}

/* The same tensors, read another way. */
static void expect_equal(const struct plim_weights_set *set, const char *path)
{
	struct plim_ckpt *c;
	struct plim_err err;
	size_t found = 0;

	assert_int_equal(plim_ckpt_open(path, NULL, &c, &err), PLIM_OK);
	for (size_t i = 0; i < c->tensor_count; i++)
		for (size_t k = 0; k < set->tensor_count; k++) {
			const struct plim_ckpt_tensor *t = &c->tensors[i];
			const struct plim_weight *x = &set->tensors[k];
			char *bytes = malloc(t->bytes + 1);
			FILE *f = fopen(t->file, "rb");

			assert_non_null(bytes);
			assert_non_null(f);
			if (!strcmp(t->name, x->name)) {
				found++;
				assert_string_equal(t->dtype, x->dtype);
				assert_int_equal(t->shape_count, x->shape_count);
				assert_memory_equal(t->shape, x->shape,
						    t->shape_count * sizeof(uint64_t));
				assert_int_equal(t->bytes, x->bytes);
				assert_int_equal(fseek(f, (long)t->offset_bytes, SEEK_SET), 0);
				assert_int_equal(fread(bytes, 1, t->bytes, f), t->bytes);
				assert_memory_equal(bytes, x->where, t->bytes);
			}
			fclose(f);
			free(bytes);
		}
	assert_int_equal(found, set->tensor_count);
	plim_ckpt_free(c);
}

static void test_loads_what_matches(void **state)
{
	const struct plim_weights_set *set, *again;
	struct plim_weights_stats stats;
	struct plim_weights *w;
	struct plim_err err;

	(void)state;
	assert_int_equal(plim_weights_new(NULL, &w, &err), PLIM_OK);
	assert_int_equal(plim_weights_add(w, "all", data("state_dict_cuda.pt"), "*", &err),
			 PLIM_OK);
	assert_int_equal(
		plim_weights_add(w, "bias", data("state_dict_cuda.pt"), "*bias|none", &err),
		PLIM_OK);
	assert_int_equal(plim_weights_add(w, "bias", data("model.safetensors"), "*", &err),
			 PLIM_E_ARG);
	assert_int_equal(plim_weights_get(w, "bias", &set, &err), PLIM_OK);
	assert_true(set->tensor_count > 0);
	for (size_t i = 0; i < set->tensor_count; i++)
		assert_non_null(strstr(set->tensors[i].name, "bias"));
	expect_equal(set, data("state_dict_cuda.pt"));
	assert_int_equal(plim_weights_get(w, "bias", &again, &err), PLIM_OK);
	assert_ptr_equal(set, again);
	plim_weights_put(w, again);
	plim_weights_put(w, set);
	assert_int_equal(plim_weights_get(w, "all", &set, &err), PLIM_OK);
	expect_equal(set, data("state_dict_cuda.pt"));
	plim_weights_put(w, set);
	plim_weights_stats(w, &stats);
	assert_int_equal(stats.hits, 1);
	assert_int_equal(stats.misses, 2);
	assert_int_equal(stats.evictions, 0);
	assert_int_equal(stats.pinned, 0);
	plim_weights_free(w);
}

static void test_errors(void **state)
{
	const struct plim_weights_set *set;
	struct plim_weights_stats stats;
	struct plim_weights *w;
	struct plim_err err;

	(void)state;
	assert_int_equal(plim_weights_new(NULL, &w, &err), PLIM_OK);
	plim_weights_add(w, "gone", data("no such file.pt"), "*", &err);
	plim_weights_add(w, "nothing", data("model.safetensors"), "nothing", &err);
	plim_weights_add(w, "no checkpoint", data("lora_r4/adapter_config.json"), "*", &err);
	assert_int_equal(plim_weights_get(w, "unknown", &set, &err), PLIM_E_ARG);
	assert_null(set);
	assert_int_equal(plim_weights_get(w, "gone", &set, &err), PLIM_E_IO);
	assert_int_equal(plim_weights_get(w, "nothing", &set, &err), PLIM_E_ARG);
	assert_int_equal(plim_weights_get(w, "no checkpoint", &set, &err), PLIM_E_FORMAT);
	assert_int_equal(plim_weights_get(w, "no checkpoint", &set, NULL), PLIM_E_FORMAT);
	plim_weights_stats(w, &stats);
	assert_int_equal(stats.failures, 4);
	assert_int_equal(stats.sets, 0);
	assert_int_equal(stats.bytes, 0);
	plim_weights_put(w, NULL);
	plim_weights_free(w);
	plim_weights_free(NULL);
}

/* A flipped bit in a record is found while it is loaded: torch.load would not say a word. */
static void test_damage(void **state)
{
	char path[] = "/tmp/plimsoll-test-XXXXXX", bytes[65536];
	const struct plim_weights_set *set;
	struct plim_ckpt *c;
	struct plim_weights *w;
	struct plim_err err;
	FILE *f = fopen(data("state_dict_cuda.pt"), "rb");
	size_t n;
	int fd = mkstemp(path);

	(void)state;
	assert_non_null(f);
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	assert_int_equal(plim_ckpt_open(data("state_dict_cuda.pt"), NULL, &c, &err), PLIM_OK);
	bytes[c->tensors[0].offset_bytes] ^= 4;
	plim_ckpt_free(c);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
	assert_int_equal(plim_weights_new(NULL, &w, &err), PLIM_OK);
	plim_weights_add(w, "damaged", path, "*", &err);
	assert_int_equal(plim_weights_get(w, "damaged", &set, &err), PLIM_E_FORMAT);
	assert_non_null(strstr(err.message, "damaged"));
	unlink(path);
	plim_weights_free(w);
}

static void test_budget(void **state)
{
	const struct plim_weights_set *a, *b, *c;
	struct plim_weights_options o = { .size = sizeof(o), .max_sets = 2 };
	struct plim_weights_stats stats;
	struct plim_weights *w;
	struct plim_err err;
	uint64_t bytes;

	(void)state;
	assert_int_equal(plim_weights_new(&o, &w, &err), PLIM_OK);
	plim_weights_add(w, "a", data("model.safetensors"), "*", &err);
	plim_weights_add(w, "b", data("state_dict_cuda.pt"), "*", &err);
	plim_weights_add(w, "c", data("lora_r4"), "*", &err);
	assert_int_equal(plim_weights_get(w, "a", &a, &err), PLIM_OK);
	bytes = a->bytes;
	assert_int_equal(plim_weights_get(w, "b", &b, &err), PLIM_OK);
	/* Both are in use: nothing may be evicted. */
	assert_int_equal(plim_weights_get(w, "c", &c, &err), PLIM_E_LIMIT);
	plim_weights_put(w, a);
	plim_weights_put(w, b);
	/* a is used again, so b is the least recent. */
	assert_int_equal(plim_weights_get(w, "a", &a, &err), PLIM_OK);
	plim_weights_put(w, a);
	assert_int_equal(plim_weights_get(w, "c", &c, &err), PLIM_OK);
	plim_weights_put(w, c);
	assert_int_equal(plim_weights_get(w, "a", &a, &err), PLIM_OK);
	plim_weights_put(w, a);
	plim_weights_stats(w, &stats);
	assert_int_equal(stats.evictions, 1);
	assert_int_equal(stats.hits, 2);
	assert_int_equal(stats.sets, 2);
	plim_weights_free(w);

	o = (struct plim_weights_options){ .size = sizeof(o), .max_bytes = bytes - 1 };
	assert_int_equal(plim_weights_new(&o, &w, &err), PLIM_OK);
	plim_weights_add(w, "a", data("model.safetensors"), "*", &err);
	plim_weights_add(w, "part", data("model.safetensors"), "*bias", &err);
	assert_int_equal(plim_weights_get(w, "part", &b, &err), PLIM_OK);
	plim_weights_put(w, b);
	/* It can never fit, so nothing is evicted in vain. */
	assert_int_equal(plim_weights_get(w, "a", &a, &err), PLIM_E_LIMIT);
	plim_weights_stats(w, &stats);
	assert_int_equal(stats.evictions, 0);
	assert_int_equal(stats.sets, 1);
	plim_weights_free(w);
}

/* ---- many threads ---- */

struct slow {
	_Atomic int taken, dropped;
};

static enum plim_status slow_take(void *ctx, const struct plim_weight *t, void **where,
				  struct plim_err *err)
{
	struct slow *s = ctx;

	(void)err;
	usleep(2000);
	s->taken++;
	*where = malloc(t->bytes + 1);
	return *where ? PLIM_OK : PLIM_E_NOMEM;
}

static enum plim_status slow_fill(void *ctx, void *where, uint64_t at, const void *bytes, size_t n,
				  struct plim_err *err)
{
	(void)ctx;
	(void)err;
	memcpy((char *)where + at, bytes, n);
	return PLIM_OK;
}

static void slow_drop(void *ctx, const struct plim_weight *t, void *where)
{
	struct slow *s = ctx;

	(void)t;
	s->dropped++;
	free(where);
}

struct shared {
	struct plim_weights *w;
	const char *const *names;
	size_t n;
	_Atomic int wrong, refused, got;
};

static void *worker(void *arg)
{
	struct shared *s = arg;
	unsigned seed = (unsigned)(uintptr_t)&seed;
	uint64_t sum = 0;

	for (int i = 0; i < ROUNDS; i++) {
		const struct plim_weights_set *set;
		struct plim_err err;
		const char *name = s->names[(size_t)rand_r(&seed) % s->n];
		enum plim_status st = plim_weights_get(s->w, name, &set, &err);

		if (st == PLIM_E_LIMIT) { /* all that is held is in use just now */
			s->refused++;
			continue;
		}
		s->got++;
		s->wrong += st || strcmp(set->name, name) != 0 || !set->tensor_count ||
			    !set->tensors[0].where;
		/* The bytes stay while they are pinned: the sanitizers see what is read. */
		for (size_t k = 0; !st && k < set->tensor_count; k++)
			for (uint64_t b = 0; b < set->tensors[k].bytes; b++)
				sum += ((const unsigned char *)set->tensors[k].where)[b];
		s->wrong += sum == UINT64_MAX;
		plim_weights_put(s->w, set);
	}
	return NULL;
}

static void run(struct shared *s)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, worker, s), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(s->wrong, 0);
}

static void test_one_load_for_many(void **state)
{
	static const char *const names[] = { "one" };
	struct slow slow = { 0 };
	const struct plim_weights_place place = { slow_take, slow_fill, slow_drop, &slow };
	struct plim_weights_options o = { .size = sizeof(o), .place = &place };
	struct shared s = { .names = names, .n = 1 };
	struct plim_weights_stats stats;
	struct plim_err err;

	(void)state;
	assert_int_equal(plim_weights_new(&o, &s.w, &err), PLIM_OK);
	plim_weights_add(s.w, "one", data("model.safetensors"), "*", &err);
	run(&s);
	plim_weights_stats(s.w, &stats);
	assert_int_equal(stats.misses, 1);
	assert_int_equal(stats.hits, THREADS * ROUNDS - 1);
	assert_true(stats.waits < THREADS);
	assert_int_equal(stats.pinned, 0);
	plim_weights_free(s.w);
	assert_true(slow.taken > 0);
	assert_int_equal(slow.taken, slow.dropped);
}

static void test_threads_and_budget(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d", "e" };
	static const char *const files[] = { "model.safetensors", "state_dict_cuda.pt", "lora_r4",
					     "legacy.pt", "full_training.pt" };
	struct plim_weights_options o = { .size = sizeof(o), .max_sets = 3 };
	struct shared s = { .names = names, .n = 5 };
	struct plim_weights_stats stats;
	struct plim_err err;

	(void)state;
	assert_int_equal(plim_weights_new(&o, &s.w, &err), PLIM_OK);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(plim_weights_add(s.w, names[i], data(files[i]), "*", &err),
				 PLIM_OK);
	run(&s);
	plim_weights_stats(s.w, &stats);
	assert_true(stats.sets <= 3);
	assert_true(stats.evictions > 0);
	assert_int_equal(stats.pinned, 0);
	assert_int_equal(stats.hits + stats.misses - stats.failures, s.got);
	plim_weights_free(s.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loads_what_matches),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_one_load_for_many),
		cmocka_unit_test(test_threads_and_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
