/*
 * Tensors in parts: shapes cut into boxes at random, each written as it lies, joined and read back.  What is wrong
 * with the parts leaves them as they were, and says so.
 */
#include "checkpoint/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 300
#define RANK 4
#define MOST 4000 /* elements of a tensor */

static struct plim_err err;
static unsigned seed = 1;

static unsigned below(unsigned n)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 8) % n;
}

struct made {
	struct mem mem;
	struct ckpt ckpt;
	int fd;
	uint64_t at; /* in the file */
};

static void begin(struct made *m)
{
	struct ckpt_file f = { .name = "made" };

	mem_init(&m->mem, 0);
	ckpt_init(&m->ckpt, &m->mem);
	m->ckpt.path = "made";
	m->fd = f.fd = memfd_create("joined", MFD_CLOEXEC);
	assert_true(f.fd >= 0);
	m->at = 0;
	assert_int_equal(vec_push(&m->mem, &m->ckpt.files, f, &err), 0);
}

static void end(struct made *m)
{
	ckpt_close(&m->ckpt);
	assert_int_equal(m->mem.used_bytes, 0);
}

static uint32_t name(struct made *m, const char *text)
{
	enum plim_status st = PLIM_OK;

	return ckpt_model_string(&m->ckpt, text, strlen(text), &st, &err);
}

/* A box of a tensor whose element i, counted row by row, is the number i. */
static void add_box(struct made *m, const uint64_t *whole, size_t rank, const uint64_t *at,
		    const uint64_t *size)
{
	struct ckpt_tensor t = { .location = CKPT_NONE,
				 .dtype = ckpt_dtype_of_torch("int32"),
				 .rank = (uint16_t)rank,
				 .flags = CKPT_CHUNK,
				 .extent = (uint32_t)m->ckpt.extents.n };
	struct ckpt_extent x = { .offset = m->at };
	uint64_t index[RANK] = { 0 }, n = 1;

	for (size_t d = 0; d < rank; d++)
		n *= size[d];
	for (uint64_t i = 0; i < n; i++) {
		uint32_t number = 0;

		for (size_t d = 0; d < rank; d++)
			number = number * (uint32_t)whole[d] + (uint32_t)(at[d] + index[d]);
		assert_int_equal(pwrite(m->fd, &number, 4, (off_t)m->at), 4);
		m->at += 4;
		for (size_t d = rank; d-- && ++index[d] == size[d];)
			index[d] = 0;
	}
	m->ckpt.files.at[0].bytes = m->at;
	x.bytes = x.stored_bytes = n * 4;
	t.name = name(m, "w");
	assert_int_equal(vec_push(&m->mem, &m->ckpt.extents, x, &err), 0);
	assert_int_equal(ckpt_model_tensor(&m->ckpt, t, size, NULL, at, &err), 0);
}

/* In two, again and again. */
static void cut(struct made *m, const uint64_t *whole, size_t rank, const uint64_t *at,
		const uint64_t *size, unsigned depth)
{
	uint64_t from[RANK], part[RANK];
	size_t d = below((unsigned)rank);

	if (!depth || size[d] < 2) {
		add_box(m, whole, rank, at, size);
		return;
	}
	memcpy(from, at, sizeof(from));
	memcpy(part, size, sizeof(part));
	part[d] = 1 + below((unsigned)size[d] - 1);
	cut(m, whole, rank, from, part, depth - 1);
	from[d] += part[d];
	part[d] = size[d] - part[d];
	cut(m, whole, rank, from, part, depth - 1);
}

static void add_whole(struct made *m, const uint64_t *sizes, size_t rank)
{
	struct ckpt_tensor t = { .location = CKPT_NONE,
				 .extent = CKPT_NONE,
				 .rank = (uint16_t)rank,
				 .parts = (uint32_t)m->ckpt.tensors.n };

	t.name = name(m, "w");
	assert_int_equal(ckpt_model_lay(&m->ckpt, &t, sizes, NULL, &err), 0);
	assert_int_equal(vec_push(&m->mem, &m->ckpt.wholes, t, &err), 0);
}

static enum plim_status is_counted(void *ctx, uint64_t at, const void *bytes, size_t n,
				   struct plim_err *e)
{
	uint64_t *seen = ctx;

	(void)e;
	assert_int_equal(at, *seen);
	for (size_t i = 0; i < n; i += 4) {
		uint32_t number;

		memcpy(&number, (const char *)bytes + i, 4);
		assert_int_equal(number, (at + i) / 4);
	}
	*seen += n;
	return PLIM_OK;
}

static void check_whole(struct made *m, size_t tensor)
{
	uint64_t seen = 0;

	assert_null(ckpt_check(&m->ckpt));
	assert_true(ckpt_is_whole(&m->ckpt, tensor));
	assert_int_equal(ckpt_load(&m->ckpt, tensor, is_counted, &seen, &err), 0);
	assert_int_equal(seen, ckpt_tensor_bytes(&m->ckpt.tensors.at[tensor]));
}

static void test_boxes(void **state)
{
	static const uint64_t none[RANK] = { 0 };

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t sizes[RANK], n = 1;
		size_t rank = 1 + below(RANK);
		struct made m;

		for (size_t d = 0; d < RANK; d++) {
			sizes[d] = 1 + below(d + 1 == rank ? 60 : 9);
			n *= d < rank ? sizes[d] : 1;
		}
		if (n > MOST)
			continue;
		begin(&m);
		cut(&m, sizes, rank, none, sizes, 5);
		add_whole(&m, sizes, rank);
		assert_int_equal(ckpt_join(&m.ckpt, &err), 0);
		assert_int_equal(m.ckpt.tensors.n, 1);
		assert_true(
			ckpt_same_dims(ckpt_shape(&m.ckpt, &m.ckpt.tensors.at[0]), sizes, rank));
		check_whole(&m, 0);
		end(&m);
	}
}

/* More of a row than a buffer holds, two boxes side by side. */
static void test_buffers(void **state)
{
	static const uint64_t sizes[] = { 3, 60000 }, left[] = { 3, 20001 }, right[] = { 3, 39999 },
			      none[] = { 0, 0 }, at[] = { 0, 20001 };
	struct made m;

	(void)state;
	begin(&m);
	add_box(&m, sizes, 2, at, right);
	add_box(&m, sizes, 2, none, left);
	add_whole(&m, sizes, 2);
	assert_int_equal(ckpt_join(&m.ckpt, &err), 0);
	check_whole(&m, 0);
	m.ckpt.extents.at[1].state = CKPT_BAD;
	assert_false(ckpt_is_whole(&m.ckpt, 0));
	end(&m);
}

/* What does not make up a whole stays in parts; what only seems to is found when it is read. */
static void test_wrong(void **state)
{
	static const uint64_t sizes[] = { 4, 4 }, half[] = { 2, 4 }, none[] = { 0, 0 },
			      at[] = { 1, 0 }, last[] = { 2, 0 }, beyond[] = { 3, 0 };
	uint64_t seen = 0;
	struct made m;

	(void)state;
	begin(&m);
	add_box(&m, sizes, 2, none, half);
	add_whole(&m, sizes, 2);
	assert_int_equal(ckpt_join(&m.ckpt, &err), 0);
	assert_int_equal(m.ckpt.tensors.at[0].flags, CKPT_CHUNK);
	assert_int_equal(ckpt_load(&m.ckpt, 0, is_counted, &seen, &err), PLIM_E_UNSUPPORTED);
	end(&m);
	begin(&m);
	add_box(&m, sizes, 2, none, half);
	add_box(&m, sizes, 2, beyond, half);
	add_whole(&m, sizes, 2);
	assert_int_equal(ckpt_join(&m.ckpt, &err), 0);
	assert_int_equal(m.ckpt.tensors.n, 2);
	end(&m);
	begin(&m);
	add_box(&m, sizes, 2, none, half);
	add_box(&m, sizes, 2, at, half);
	add_whole(&m, sizes, 2);
	assert_int_equal(ckpt_join(&m.ckpt, &err), 0);
	assert_int_equal(ckpt_load(&m.ckpt, 0, is_counted, &seen, &err), PLIM_E_FORMAT);
	end(&m);
	begin(&m);
	add_box(&m, sizes, 2, none, half);
	add_box(&m, sizes, 2, last, half);
	m.ckpt.tensors.at[1].dtype = ckpt_dtype_of_torch("float32");
	add_whole(&m, sizes, 2);
	assert_int_equal(ckpt_join(&m.ckpt, &err), 0);
	assert_int_equal(m.ckpt.tensors.n, 2);
	end(&m);
}

/* Indices between tensors are those of after. */
static void test_moved(void **state)
{
	static const uint64_t sizes[] = { 4 }, half[] = { 2 }, none[] = { 0 }, at[] = { 2 };
	struct ckpt_tensor sparse = { .location = CKPT_NONE,
				      .extent = CKPT_NONE,
				      .flags = CKPT_META,
				      .dtype = ckpt_dtype_of_torch("int8"),
				      .rank = 1,
				      .first = 2,
				      .parts = 2 };
	struct made m;

	(void)state;
	begin(&m);
	add_box(&m, sizes, 1, none, half);
	add_box(&m, sizes, 1, at, half);
	sparse.name = name(&m, "s");
	for (int i = 0; i < 2; i++)
		assert_int_equal(ckpt_model_tensor(&m.ckpt, sparse, sizes, NULL, NULL, &err), 0);
	add_whole(&m, sizes, 1);
	assert_int_equal(ckpt_join(&m.ckpt, &err), 0);
	assert_int_equal(m.ckpt.tensors.n, 3);
	assert_int_equal(m.ckpt.tensors.at[2].first, 1);
	assert_true(ckpt_is_whole(&m.ckpt, 2));
	check_whole(&m, 0);
	end(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_boxes),
		cmocka_unit_test(test_buffers),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
