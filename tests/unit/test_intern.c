/* Interned bytes: ids count up, content stays where it is, equal content has one id, failures leave it whole. */
#include "base/intern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <xxhash.h>

#define MANY 200000u

static size_t name_of(uint32_t i, char out[16])
{
	return (size_t)snprintf(out, 16, "name-%u", i);
}

/* Thousands of entries move between slots as the table grows; their bytes do not move. */
static void test_growth(void **state)
{
	struct mem m;
	struct intern t;
	struct plim_err err;
	const char *first;
	char name[16];
	uint32_t id;

	(void)state;
	mem_init(&m, 0);
	intern_init(&t, &m);
	assert_int_equal(intern_find(&t, "", 0), INTERN_NONE); /* also while it is empty */
	assert_int_equal(intern_add(&t, "name-0", 6, &id, &err), 0);
	first = intern_text(&t, 0);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < MANY; i++) {
			assert_int_equal(intern_add(&t, name, name_of(i, name), &id, &err), 0);
			assert_int_equal(id, i);
		}
	}
	assert_int_equal(t.n, MANY);
	assert_ptr_equal(intern_text(&t, 0), first);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(intern_find(&t, name, name_of(i, name)), i);
		assert_string_equal(intern_text(&t, i), name);
		assert_int_equal((uintptr_t)intern_text(&t, i) % 8, 0);
	}
	assert_int_equal(intern_find(&t, name, name_of(MANY, name)), INTERN_NONE);
	intern_release(&t);
	assert_int_equal(m.used_bytes, 0);
}

/* Content is bytes: NULs count, a prefix is another one, nothing is a thing too. */
static void test_content(void **state)
{
	static const char bytes[] = "a\0b\0\0";
	struct mem m;
	struct intern t;
	struct plim_err err;
	uint32_t id;

	(void)state;
	mem_init(&m, 0);
	intern_init(&t, &m);
	for (uint32_t n = 0; n <= 5; n++) {
		assert_int_equal(intern_add(&t, bytes, n, &id, &err), 0);
		assert_int_equal(id, n);
	}
	for (uint32_t n = 0; n <= 5; n++) {
		assert_int_equal(intern_find(&t, bytes, n), n);
		assert_int_equal(t.at[n].n, n);
		assert_memory_equal(t.at[n].bytes, bytes, n);
		assert_int_equal(t.at[n].bytes[n], 0);
	}
	intern_release(&t);
	intern_release(&t); /* empty again, and usable */
	assert_int_equal(intern_add(&t, "x", 1, &id, &err), 0);
	assert_int_equal(id, 0);
	intern_release(&t);
	assert_int_equal(m.used_bytes, 0);
}

/* The two nearest hashes of many contents: the same 32 bits, if the search is lucky. */
struct hashed {
	uint32_t hash, i;
};

static int by_hash(const void *a, const void *b)
{
	const struct hashed *x = a, *y = b;

	return (x->hash > y->hash) - (x->hash < y->hash);
}

/* Contents with the same 32-bit hash stay apart: found by search (200,000 contents have about five such pairs). */
static void test_collisions(void **state)
{
	struct hashed *all = malloc(MANY * sizeof(*all));
	uint32_t pairs = 0;
	struct plim_err err;
	struct mem m;

	(void)state;
	assert_non_null(all);
	mem_init(&m, 0);
	for (uint32_t i = 0; i < MANY; i++) {
		char name[16];
		size_t n = name_of(i, name);

		all[i] = (struct hashed){ (uint32_t)XXH3_64bits(name, n), i };
	}
	qsort(all, MANY, sizeof(*all), by_hash);
	for (uint32_t k = 1; k < MANY; k++) {
		char a[16], b[16];
		uint32_t one, other;
		struct intern t;

		if (all[k].hash != all[k - 1].hash)
			continue;
		pairs++;
		intern_init(&t, &m);
		assert_int_equal(intern_add(&t, a, name_of(all[k - 1].i, a), &one, &err), 0);
		assert_int_equal(intern_find(&t, b, name_of(all[k].i, b)), INTERN_NONE);
		assert_int_equal(intern_add(&t, b, strlen(b), &other, &err), 0);
		assert_int_not_equal(one, other);
		assert_int_equal(t.at[one].hash, t.at[other].hash);
		assert_int_equal(intern_find(&t, a, strlen(a)), one);
		assert_int_equal(intern_find(&t, b, strlen(b)), other);
		intern_release(&t);
	}
	assert_true(pairs > 0);
	free(all);
	assert_int_equal(m.used_bytes, 0);
}

/* Long contents have chunks of their own; the common one is filled on. */
static void test_long(void **state)
{
	static char big[100000];
	struct mem m;
	struct intern t;
	struct plim_err err;
	const char *small[3];
	uint32_t id;

	(void)state;
	mem_init(&m, 0);
	intern_init(&t, &m);
	memset(big, 'x', sizeof(big));
	for (uint32_t i = 0; i < 3; i++) {
		char name[16];

		assert_int_equal(intern_add(&t, name, name_of(i, name), &id, &err), 0);
		small[i] = intern_text(&t, id);
		big[0] = (char)('a' + i);
		assert_int_equal(intern_add(&t, big, sizeof(big), &id, &err), 0);
		assert_memory_equal(intern_text(&t, id), big, sizeof(big));
	}
	assert_int_equal(small[1] - small[0], 8);
	assert_int_equal(small[2] - small[1], 8);
	assert_int_equal(intern_find(&t, big, sizeof(big)), 5);
	intern_release(&t);
	assert_int_equal(m.used_bytes, 0);
}

/* Each allocation fails in turn: an error, and what was there before is still there, and no more. */
static void test_no_memory(void **state)
{
	static char big[100000];
	int failures = 0;

	(void)state;
	for (int64_t n = 0;; n++) {
		enum plim_status st = PLIM_OK;
		struct plim_err err;
		struct intern t;
		struct mem m;
		uint32_t i, id;
		char name[16];

		mem_init(&m, 0);
		atomic_store(&m.fail_after, n);
		intern_init(&t, &m);
		for (i = 0; !st && i < 5000; i++)
			st = i % 1000 == 999 ? intern_add(&t, big, sizeof(big) - i, &id, &err)
					     : intern_add(&t, name, name_of(i, name), &id, &err);
		if (st) {
			assert_int_equal(st, PLIM_E_NOMEM);
			assert_int_equal(id, INTERN_NONE);
			assert_int_equal(t.n, i - 1);
			for (uint32_t k = 0; k < t.n; k++)
				if (k % 1000 != 999)
					assert_int_equal(intern_find(&t, name, name_of(k, name)),
							 k);
			/* the table goes on where it was */
			assert_int_equal(intern_add(&t, "later", 5, &id, &err), 0);
			assert_int_equal(id, i - 1);
			failures++;
		}
		intern_release(&t);
		assert_int_equal(m.used_bytes, 0);
		if (!st)
			break;
	}
	assert_true(failures > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_growth),     cmocka_unit_test(test_content),
		cmocka_unit_test(test_collisions), cmocka_unit_test(test_long),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
