/*
 * The PTX of the gradient kernel, run without a GPU: 256 threads a block with stacks of their own, which must meet at each
 * barrier and shuffle, and at the same one.  What it leaves is compared with what the C of host memory does.
 */
#include "gradients/parts.h"

#include "kernel_ptx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <ucontext.h>

#include <cmocka.h>

/* ---- threads of a block ---- */

#define THREADS 256u
#define STACK 65536u

enum meeting { RUNS, AT_BARRIER, AT_SHUFFLE, ENDED };

static struct fiber {
	ucontext_t context;
	enum meeting at;
	int line;
	uint32_t x, down;
} fibers[THREADS];
static char stacks[THREADS][STACK];
static ucontext_t scheduler;
static uint32_t current, block_now;
static bool backwards; /* the last thread runs first */
static void (*entry_now)(char *args);
static char *args_now;

uint32_t tid(void)
{
	return current;
}

uint32_t ctaid(void)
{
	return block_now;
}

static void meet(enum meeting at, int line)
{
	struct fiber *f = &fibers[current];

	f->at = at;
	f->line = line;
	swapcontext(&f->context, &scheduler);
}

void barrier(int line)
{
	meet(AT_BARRIER, line);
}

uint32_t shuffle(uint32_t x, uint32_t down, int line)
{
	fibers[current].x = x;
	fibers[current].down = down;
	meet(AT_SHUFFLE, line);
	return fibers[current].x;
}

uint32_t atomic_add(void *at, uint32_t n)
{
	uint32_t before;

	memcpy(&before, at, sizeof(before));
	n += before;
	memcpy(at, &n, sizeof(n));
	return before;
}

static void begin(void)
{
	entry_now(args_now);
	meet(ENDED, 0);
}

/* Do all of them wait for the same thing? */
static bool together(uint32_t from, uint32_t n, enum meeting at)
{
	for (uint32_t i = from; i < from + n; i++)
		if (fibers[i].at != at || fibers[i].line != fibers[from].line)
			return false;
	return true;
}

static void exchange(uint32_t warp)
{
	uint32_t x[32];

	for (uint32_t i = 0; i < 32; i++)
		x[i] = fibers[warp + i].x;
	for (uint32_t i = 0; i < 32; i++) {
		struct fiber *f = &fibers[warp + i];

		f->x = i + f->down < 32 ? x[i + f->down] : x[i];
		f->at = RUNS;
	}
}

static void run_block(void)
{
	for (uint32_t i = 0; i < THREADS; i++) {
		getcontext(&fibers[i].context);
		fibers[i].context.uc_stack.ss_sp = stacks[i];
		fibers[i].context.uc_stack.ss_size = STACK;
		fibers[i].at = RUNS;
		makecontext(&fibers[i].context, begin, 0);
	}
	while (!together(0, THREADS, ENDED)) {
		bool moved = false;

		for (uint32_t i = 0; i < THREADS; i++) {
			current = backwards ? THREADS - 1 - i : i;
			if (fibers[current].at != RUNS)
				continue;
			swapcontext(&scheduler, &fibers[current].context);
			moved = true;
		}
		for (uint32_t warp = 0; warp < THREADS; warp += 32)
			if (together(warp, 32, AT_SHUFFLE))
				exchange(warp);
		if (together(0, THREADS, AT_BARRIER))
			for (uint32_t i = 0; i < THREADS; i++)
				fibers[i].at = RUNS;
		if (!moved) {
			for (uint32_t i = 0; i < THREADS; i++)
				fprintf(stderr, "thread %u waits (%d) at line %d\n", i,
					(int)fibers[i].at, fibers[i].line);
			fail_msg("threads do not meet");
		}
	}
}

static size_t argument_bytes;

size_t *bytes_of_arguments(void)
{
	return &argument_bytes;
}

static void launch(void (*entry)(char *args), void *args, size_t bytes, uint32_t blocks)
{
	backwards = !backwards;
	entry_now = entry;
	args_now = args;
	for (block_now = 0; block_now < blocks; block_now++)
		run_block();
	assert_int_equal(argument_bytes, bytes); /* the driver refuses more */
}

float of_half(uint16_t h)
{
	uint32_t sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;

	if (rest >= 0x7c00u)
		return of_bits32(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
	return of_bits32(sign | rest << 13) * 0x1p112f;
}

/* By looking for the nearest: x is finite. */
uint16_t to_half(float x)
{
	uint16_t sign = signbit(x) ? 0x8000 : 0, low = 0, high = 0x7c00;

	x = fabsf(x);
	while (high - low > 1) {
		uint16_t middle = (uint16_t)((low + high) / 2);

		if ((middle == 0x7c00 ? 65536 : of_half(middle)) <= x)
			low = middle;
		else
			high = middle;
	}
	{
		double down = (double)x - of_half(low);
		double up = (high == 0x7c00 ? 65536.0 : of_half(high)) - (double)x;

		return sign | (down < up || (down == up && !(low & 1)) ? low : high);
	}
}

/* ---- what both do with a list of tensors ---- */

#define MOST 64

struct both {
	struct plim_gradients *g; /* by host.c */
	struct gradients_sums *partial, *out;
	uint32_t counters[MOST + 1];
	struct plim_gradients_summary summary;
};

static struct plim_gradients_call call_of(const uint64_t *where, struct plim_gradients_summary *sum)
{
	return (struct plim_gradients_call){ .size = sizeof(struct plim_gradients_call),
					     .where = where,
					     .summary = (uint64_t)(uintptr_t)sum };
}

static void run_kernel(struct both *b, uint32_t each, const float *scale)
{
	const struct plim_gradients *g = b->g;
	struct gradients_check_arguments a = {
		.rows = (uint64_t)(uintptr_t)g->rows.at,
		.tensors = (uint32_t)g->rows.n,
		.chunks = (uint64_t)(uintptr_t)g->chunks.at,
		.n = (uint32_t)g->chunks.n,
		.each = each,
		.partial = (uint64_t)(uintptr_t)b->partial,
		.out = (uint64_t)(uintptr_t)b->out,
		.counters = (uint64_t)(uintptr_t)b->counters,
		.scale = (uint64_t)(uintptr_t)scale,
		.summary = (uint64_t)(uintptr_t)&b->summary,
	};
	uint32_t blocks = (a.n + each - 1) / each;

	memset(b->partial, 0xdb, (a.n + 1) * sizeof(*b->partial));
	memset(b->out, 0xdb, gradients_out_bytes(g));
	launch(plimsoll_gradients, &a, GRADIENTS_CHECK_BYTES, blocks ? blocks : 1);
	for (size_t i = 0; i <= g->rows.n; i++)
		assert_int_equal(b->counters[i], 0);
	assert_memory_equal(b->out + g->rows.n, &b->summary, sizeof(b->summary));
}

static void same(double a, double b, const char *what, size_t i)
{
	if (!(a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-6 * fabs(b)))
		fail_msg("%s of tensor %zu: %.17g by the kernel, %.17g in host memory", what, i, a,
			 b);
}

/* Returns what is to be freed by done(). */
static struct both compare(const struct plim_gradient *list, const uint64_t *where, size_t n,
			   const float *scale)
{
	const struct plim_gradients_options o = {
		.size = sizeof(o), .device = PLIM_UNKNOWN, .history = 1, .threads = 1
	};
	struct both b = { 0 };
	struct plim_gradients_summary want;
	struct plim_gradients_call call = call_of(where, &want);
	struct gradients_sums *first;
	size_t bytes;

	assert_true(n <= MOST);
	assert_int_equal(gradients_open(&o, &b.g, NULL), PLIM_OK);
	assert_int_equal(plim_gradients_set(b.g, list, n, NULL), PLIM_OK);
	call.scale = (uint64_t)(uintptr_t)scale;
	assert_int_equal(plim_gradients_check(b.g, &call, NULL), PLIM_OK);
	bytes = gradients_out_bytes(b.g);
	b.partial = calloc(b.g->chunks.n + 1, sizeof(*b.partial));
	b.out = calloc(1, bytes);
	first = calloc(1, bytes);
	for (uint32_t each = 1; each <= b.g->chunks.n + 1; each = each * 5 + 1) {
		run_kernel(&b, each, scale);
		if (each == 1)
			memcpy(first, b.out, bytes);
		else /* the same bits, however chunks are shared out */
			assert_memory_equal(first, b.out, bytes);
	}
	free(first);
	for (size_t i = 0; i < b.g->rows.n; i++) {
		const struct gradients_sums *x = &b.out[i], *y = &b.g->slots[0].out[i];

		assert_true(x->nan == y->nan && x->inf == y->inf && x->max == y->max);
		same(x->squares, y->squares, "squares", i);
	}
	assert_true(b.summary.nan == want.nan && b.summary.inf == want.inf &&
		    b.summary.max_abs == want.max_abs && b.summary.scale == want.scale &&
		    b.summary.found_inf == want.found_inf);
	same(b.summary.squares, want.squares, "squares", n);
	same(b.summary.norm, want.norm, "norm", n);
	return b;
}

static void done(struct both *b)
{
	plim_gradients_free(b->g);
	free(b->partial);
	free(b->out);
}

/* ---- values ---- */

static const uint32_t bytes_of[] = { 4, 2, 2, 8 };

static uint16_t half_up(float x) /* bf16: cut */
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return (uint16_t)(bits >> 16);
}

/* n values about `size`, always the same. */
static void *values(uint32_t dtype, size_t n, double size)
{
	uint8_t *at = aligned_alloc(64, (n * 8 + 64) / 64 * 64);

	for (size_t i = 0; i < n; i++) {
		double x = sin((double)i * 1.7 + 0.3) * size;
		float f = (float)x;
		uint16_t h = dtype == PLIM_GRADIENT_BFLOAT16 ? half_up(f) : to_half(f);

		memcpy(at + i * bytes_of[dtype],
		       dtype == PLIM_GRADIENT_FLOAT64   ? (void *)&x
		       : dtype == PLIM_GRADIENT_FLOAT32 ? (void *)&f
							: (void *)&h,
		       bytes_of[dtype]);
	}
	return at;
}

static void test_sizes_and_places(void **state)
{
	static const size_t sizes[] = { 1, 2, 7, 9, 255, 257, 4097, 8193, 16385, 32769, 65539 };
	enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

	(void)state;
	for (uint32_t dtype = 0; dtype <= PLIM_GRADIENT_FLOAT64; dtype++) {
		uint8_t *at = values(dtype, 65600, 1);
		struct plim_gradient list[SIZES * 2];
		uint64_t where[SIZES * 2];
		struct both b;

		for (size_t i = 0; i < (size_t)SIZES * 2; i++) {
			list[i] = (struct plim_gradient){ sizes[i % SIZES], i, dtype, 1 + i % 2 };
			where[i] = (uint64_t)(uintptr_t)(at + bytes_of[dtype] * (i / SIZES * 3));
		}
		where[4] = 0; /* it has no gradient */
		b = compare(list, where, (size_t)SIZES * 2, NULL);
		done(&b);
		free(at);
	}
}

/* Of every dtype together, with what is not finite, and squares that overflow or vanish in float32. */
static void test_values(void **state)
{
	static const double scales[] = { 1, 1e-20, 1e-30, 1e15, 1e25 };
	struct plim_gradient list[12];
	uint64_t where[12];
	float scale = 1024;
	struct both b;

	(void)state;
	for (size_t i = 0; i < 12; i++) {
		uint32_t dtype = (uint32_t)i % 4;

		list[i] = (struct plim_gradient){ 40000 - i * 3000, i, dtype, 1 };
		where[i] = (uint64_t)(uintptr_t)values(
			dtype, 40000, dtype == PLIM_GRADIENT_FLOAT16 ? 1 : scales[i % 5]);
	}
	b = compare(list, where, 12, &scale);
	assert_true(b.summary.found_inf == 0 && b.summary.scale == 1024);
	done(&b);
	((float *)(uintptr_t)where[0])[17] = NAN;
	((float *)(uintptr_t)where[4])[27999] = -INFINITY;
	((uint16_t *)(uintptr_t)where[1])[36999] = 0xfe01; /* NaN */
	((uint16_t *)(uintptr_t)where[5])[0] = 0x7c00;     /* infinite */
	((uint16_t *)(uintptr_t)where[2])[8] = 0xff80;     /* infinite */
	((double *)(uintptr_t)where[3])[8193] = NAN;
	b = compare(list, where, 12, NULL);
	assert_true(b.summary.nan == 3 && b.summary.inf == 3 && b.summary.found_inf == 1);
	done(&b);
	for (size_t i = 0; i < 12; i++)
		free((void *)(uintptr_t)where[i]);
}

static void test_every_half(void **state)
{
	static uint16_t at[65536] __attribute__((aligned(16)));
	struct plim_gradient list[] = { { 65536, 0, PLIM_GRADIENT_FLOAT16, 1 },
					{ 65536, 1, PLIM_GRADIENT_BFLOAT16, 1 },
					{ 0x7c00, 2, PLIM_GRADIENT_FLOAT16, 1 },
					{ 0x7f80, 3, PLIM_GRADIENT_BFLOAT16, 1 } };
	uint64_t where[] = { (uint64_t)(uintptr_t)at, (uint64_t)(uintptr_t)at,
			     (uint64_t)(uintptr_t)at, (uint64_t)(uintptr_t)at };
	struct both b;

	(void)state;
	for (uint32_t i = 0; i < 65536; i++)
		at[i] = (uint16_t)i;
	b = compare(list, where, 4, NULL);
	done(&b);
}

static void test_nothing(void **state)
{
	struct plim_gradient none = { 0, 0, 0, 1 };
	uint64_t where = 0;
	struct both b = compare(&none, &where, 1, NULL);

	(void)state;
	assert_true(b.summary.norm == 0 && b.summary.found_inf == 0 && b.summary.scale == 1);
	done(&b);
}

/* Bit for bit what host memory's does, in every place; and nothing where the norm is within the limit, or not finite. */
static void test_clip(void **state)
{
	static const float norms[] = { 3, 0.5f, NAN, INFINITY };

	(void)state;
	for (uint32_t dtype = 0; dtype <= PLIM_GRADIENT_FLOAT64; dtype++) {
		for (size_t k = 0; k < 4; k++) {
			struct plim_gradient list[] = { { 40001, 0, dtype, 1 },
							{ 70, 1, dtype, 1 } };
			uint8_t *ours = values(dtype, 41000, 2), *theirs = values(dtype, 41000, 2);
			uint64_t where[] = { (uint64_t)(uintptr_t)ours,
					     (uint64_t)(uintptr_t)(ours +
								   40101 * bytes_of[dtype]) };
			struct both b = compare(list, where, 2, NULL);
			struct plim_gradients_summary sum = { .norm = norms[k] };
			struct gradients_clip_arguments a = {
				.rows = (uint64_t)(uintptr_t)b.g->rows.at,
				.chunks = (uint64_t)(uintptr_t)b.g->chunks.at,
				.n = (uint32_t)b.g->chunks.n,
				.each = 2,
				.summary = (uint64_t)(uintptr_t)&sum,
				.max_norm = 1
			};
			struct plim_gradients_call call;

			launch(plimsoll_gradients_clip, &a, GRADIENTS_CLIP_BYTES, (a.n + 1) / 2);
			assert_int_equal(!memcmp(ours, theirs, 41000 * bytes_of[dtype]), k > 0);
			where[0] = (uint64_t)(uintptr_t)theirs;
			where[1] = (uint64_t)(uintptr_t)(theirs + 40101 * bytes_of[dtype]);
			call = call_of(where, NULL);
			assert_int_equal(plim_gradients_check(b.g, &call, NULL), PLIM_OK);
			call.summary = (uint64_t)(uintptr_t)&sum;
			assert_int_equal(plim_gradients_clip(b.g, 1, &call, NULL), PLIM_OK);
			assert_memory_equal(ours, theirs, 41000 * bytes_of[dtype]);
			done(&b);
			free(ours);
			free(theirs);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes_and_places),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_every_half),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_clip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
