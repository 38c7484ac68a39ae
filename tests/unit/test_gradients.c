/*
 * Gradients looked at: counts and magnitudes are exact and sums right for every kind of value, the same bits for any number
 * of threads; on a GPU nothing is waited for, no host buffer is used before its event, and a graph's capture stays whole.
 */
#include "gradients/parts.h"

#include "../allocator/fake_cuda.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char *fake_library;

/* ---- helpers ---- */

static struct plim_gradients *open_it(uint64_t device, uint64_t threads)
{
	struct plim_gradients_options o = { .size = sizeof(o),
					    .device = device,
					    .history = 3,
					    .threads = threads,
					    .cuda_library = fake_library };
	struct plim_gradients *g = NULL;
	struct plim_err err = { 0 };

	assert_int_equal(gradients_open(&o, &g, &err), PLIM_OK);
	return g;
}

static struct plim_gradients *on_host(const struct plim_gradient *list, size_t n, uint64_t threads)
{
	struct plim_gradients *g = open_it(PLIM_UNKNOWN, threads);

	assert_int_equal(plim_gradients_set(g, list, n, NULL), PLIM_OK);
	return g;
}

static struct plim_gradients_call call_of(const void *const *where, uint64_t step)
{
	return (struct plim_gradients_call){ .size = sizeof(struct plim_gradients_call),
					     .step = step,
					     .where = (const uint64_t *)(const void *)where };
}

static struct plim_gradients_stats taken(struct plim_gradients *g)
{
	struct plim_gradients_stats s;

	assert_int_equal(plim_gradients_take(g, &s, NULL), PLIM_OK);
	return s;
}

static struct plim_gradient_result result(struct plim_gradients *g, uint64_t ago, size_t i)
{
	const struct plim_gradient_result *at;
	size_t n;

	plim_gradients_results(g, ago, &at, &n);
	assert_true(i < n);
	return at[i];
}

static bool near(double a, double b, double by)
{
	return a == b || fabs(a - b) <= by * fabs(b);
}

/* ---- host memory ---- */

static double of_half(unsigned h)
{
	double m = h & 0x3ff;
	int e = (int)(h >> 10 & 31);

	if (e == 31)
		return m > 0 ? NAN : INFINITY;
	return e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
}

static double of_bf16(unsigned h)
{
	double m = h & 0x7f;
	int e = (int)(h >> 7 & 255);

	if (e == 255)
		return m > 0 ? NAN : INFINITY;
	return e ? ldexp(128 + m, e - 134) : ldexp(m, -133);
}

static void every_half(uint32_t dtype, double (*of)(unsigned h))
{
	static uint16_t at[65536];
	const void *where[] = { at };
	struct plim_gradient t = { .elements = 65536, .dtype = dtype, .copies = 1 };
	struct plim_gradients *g = on_host(&t, 1, 1);
	struct plim_gradients_call call = call_of(where, 7);
	struct plim_gradients_stats s;
	double nan = 0, inf = 0, max = 0, squares = 0;

	for (unsigned i = 0; i < 65536; i++) {
		double x = of(i & 0x7fff);

		at[i] = (uint16_t)i;
		nan += isnan(x);
		inf += isinf(x);
		if (!isfinite(x))
			continue;
		max = fmax(max, x);
		squares += x * x;
	}
	assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
	s = taken(g);
	assert_int_equal(s.step, 7);
	assert_int_equal(s.nan, nan);
	assert_int_equal(s.inf, inf);
	assert_true(isnan(s.norm) && s.max_abs == max && s.bad == 1 && s.first_bad == 0);
	assert_true(near(s.finite_norm, sqrt(squares), 1e-12));
	assert_int_equal(taken(g).step, PLIM_UNKNOWN);
	plim_gradients_free(g);
}

static void test_halves(void **state)
{
	(void)state;
	every_half(PLIM_GRADIENT_FLOAT16, of_half);
	every_half(PLIM_GRADIENT_BFLOAT16, of_bf16);
}

/* Rounded to nearest, ties to even: among all values of the dtype none is nearer. */
static void every_product(uint32_t dtype, double (*of)(unsigned h), unsigned finite)
{
	static uint16_t at[65536];
	const void *where[] = { at };
	struct plim_gradient t = { .elements = finite, .dtype = dtype, .copies = 1 };
	struct plim_gradients *g = on_host(&t, 1, 2);
	struct plim_gradients_call call = call_of(where, 0);
	struct plim_gradients_summary sum = { .norm = 3 };
	float by = 1.0f / (3 + 1e-6f);

	for (unsigned i = 0; i < finite; i++)
		at[i] = (uint16_t)i;
	assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
	call.summary = (uint64_t)(uintptr_t)&sum;
	assert_int_equal(plim_gradients_clip(g, 1, &call, NULL), PLIM_OK);
	for (unsigned i = 0; i < finite; i++) {
		double want = (float)of(i) * by, got = fabs(of(at[i]) - want);

		assert_true(got <= fabs(of(at[i] + 1u) - want));
		assert_true(!at[i] || got <= fabs(of(at[i] - 1u) - want));
		assert_false((at[i] & 1) && got == fabs(of(at[i] - 1u) - want));
	}
	/* A norm within the limit, or none that is finite, changes nothing. */
	for (unsigned k = 0; k < 3; k++) {
		uint16_t before = at[finite - 1];

		sum.norm = k == 0 ? 0.5f : k == 1 ? NAN : INFINITY;
		assert_int_equal(plim_gradients_clip(g, 1, &call, NULL), PLIM_OK);
		assert_int_equal(at[finite - 1], before);
	}
	plim_gradients_free(g);
}

static void test_clip(void **state)
{
	(void)state;
	every_product(PLIM_GRADIENT_FLOAT16, of_half, 0x7c00);
	every_product(PLIM_GRADIENT_BFLOAT16, of_bf16, 0x7f80);
}

/* What lies across chunks is right, and bit for bit what one thread makes of it. */
static void test_threads(void **state)
{
	enum { N = 5000000 };
	float *at = malloc(N * sizeof(*at));
	double *wide = malloc(70000 * sizeof(*wide));
	const void *where[] = { at, NULL, wide, at + 1, at };
	const struct plim_gradient list[] = {
		{ .elements = N, .order = 4, .dtype = PLIM_GRADIENT_FLOAT32, .copies = 1 },
		{ .elements = 9, .order = 3, .dtype = PLIM_GRADIENT_FLOAT32, .copies = 1 },
		{ .elements = 70000, .order = 2, .dtype = PLIM_GRADIENT_FLOAT64, .copies = 4 },
		{ .elements = 16385, .order = 1, .dtype = PLIM_GRADIENT_FLOAT32, .copies = 1 },
		{ .elements = 0, .order = 0, .dtype = PLIM_GRADIENT_BFLOAT16, .copies = 1 },
	};
	struct plim_gradients *a = on_host(list, 5, 1), *b = on_host(list, 5, 7);
	struct plim_gradients_summary sum;
	float scale = 8;
	struct plim_gradients_call call = call_of(where, 1);
	struct plim_gradients_stats x, y;
	double squares = 0, first = 0, third = 0;
	uint64_t bad[2];

	(void)state;
	for (int i = 0; i < N; i++) {
		at[i] = (float)sin(i) * (i % 5 ? 1e-30f : 1e3f);
		first += (double)at[i] * at[i];
		squares += i >= 1 && i < 16386 ? (double)at[i] * at[i] : 0;
	}
	for (int i = 0; i < 70000; i++) {
		wide[i] = cos(i) * 1e100;
		third += wide[i] * wide[i];
	}
	call.scale = (uint64_t)(uintptr_t)&scale;
	call.summary = (uint64_t)(uintptr_t)&sum;
	assert_int_equal(plim_gradients_check(a, &call, NULL), PLIM_OK);
	assert_int_equal(plim_gradients_check(b, &call, NULL), PLIM_OK);
	x = taken(a);
	y = taken(b);
	assert_memory_equal(&x, &y, sizeof(x));
	assert_true(near(result(a, 0, 0).norm, sqrt(first) / 8, 1e-11));
	assert_true(near(result(a, 0, 2).norm, sqrt(third) / 8, 1e-11));
	assert_true(near(result(a, 0, 3).norm, sqrt(squares) / 8, 1e-11));
	assert_true(near(x.finite_norm, sqrt(first + squares + third / 4) / 8, 1e-11));
	assert_true(x.none == 1 && !result(a, 0, 1).is_set && result(a, 0, 4).is_set &&
		    x.scale == 8);
	assert_true(x.bad == 0 && x.first_bad == PLIM_UNKNOWN && sum.found_inf == 0);
	assert_true(isinf(sum.norm)); /* beyond a float, though every value is finite */
	/* The first by order is reported; results before are kept. */
	at[16385] = NAN;
	wide[3] = -INFINITY;
	call.step = 2;
	assert_int_equal(plim_gradients_check(a, &call, NULL), PLIM_OK);
	x = taken(a);
	assert_true(x.bad == 3 && x.first_bad == 3 && x.nan == 2 && x.inf == 1 &&
		    sum.found_inf == 1);
	assert_true(isnan(x.norm) && isnan(sum.norm) && isfinite(x.finite_norm));
	assert_int_equal(plim_gradients_bad(a, bad, 2), 2);
	assert_true(bad[0] == 3 && bad[1] == 2);
	assert_true(result(a, 0, 3).nan == 1 && result(a, 1, 3).nan == 0 &&
		    near(result(a, 1, 3).norm, sqrt(squares) / 8, 1e-11));
	plim_gradients_order(a, (const uint64_t[]){ 0, 1, 2, 3, 4 }, 5);
	assert_int_equal(plim_gradients_bad(a, bad, 1), 1);
	assert_int_equal(bad[0], 0);
	plim_gradients_free(a);
	plim_gradients_free(b);
	free(at);
	free(wide);
}

static void test_kept(void **state)
{
	float x = 1;
	const void *where[] = { &x };
	const struct plim_gradient one = { .elements = 1, .copies = 1 };
	struct plim_gradients *g = on_host(&one, 1, 1);
	const struct plim_gradient_result *at;
	size_t n;

	(void)state;
	for (uint64_t i = 0; i < 20; i++) { /* of those that no one takes eight stay */
		struct plim_gradients_call call = call_of(where, i);

		x = (float)i;
		assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
	}
	for (uint64_t i = 12; i < 20; i++) {
		struct plim_gradients_stats s = taken(g);

		assert_true(s.step == i && s.norm == (double)i && s.missed == 12);
	}
	assert_true(result(g, 2, 0).norm == 17);
	plim_gradients_results(g, 3, &at, &n);
	assert_true(!at && !n);
	/* A new list forgets. */
	assert_int_equal(plim_gradients_set(g, &one, 0, NULL), PLIM_OK);
	plim_gradients_results(g, 0, &at, &n);
	assert_true(!at && !n);
	assert_int_equal(plim_gradients_check(g,
					      &(struct plim_gradients_call){
						      .size = sizeof(struct plim_gradients_call) },
					      NULL),
			 PLIM_OK);
	assert_true(taken(g).norm == 0);
	plim_gradients_free(g);
}

/* Ranks sum up between a check and its collection. */
static void sum_up(struct plim_gradients *g, const void *const *where, size_t tensors)
{
	struct plim_gradients_summary sum = { 0 };
	struct plim_gradients_call call = call_of(where, 9);
	struct plim_gradients_stats s;

	call.flags = PLIM_GRADIENTS_LATER;
	call.summary = (uint64_t)(uintptr_t)&sum;
	assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
	assert_int_equal(taken(g).step, PLIM_UNKNOWN);
	fake_complete(NULL);
	assert_true(sum.norm == 5 && sum.squares == 25);
	sum = (struct plim_gradients_summary){ .squares = 169, .scale = 1, .norm = 13, .nan = 2 };
	assert_int_equal(plim_gradients_collect(g, &call, NULL), PLIM_OK);
	assert_int_equal(plim_gradients_wait(g, &s, NULL), PLIM_OK);
	assert_true(s.step == 9 && s.norm == 13 && s.finite_norm == 13 && s.nan == 2);
	assert_true(s.bad == 0 && s.first_bad == PLIM_UNKNOWN &&
		    result(g, 0, tensors - 1).norm == 3);
}

static void test_refused(void **state)
{
	struct plim_gradients *g = open_it(PLIM_UNKNOWN, 1);
	struct plim_gradients_options o = { .size = sizeof(o), .device = PLIM_UNKNOWN };
	const struct plim_gradient bad[] = { { 1, 0, 4, 1 },
					     { 1, 0, 0, 0 },
					     { UINT64_MAX, 0, 0, 1 } };
	struct plim_gradients_call call = call_of(NULL, 0);
	struct plim_err err;
	struct plim_gradients *none;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(plim_gradients_set(g, &bad[i], 1, &err), PLIM_E_ARG);
	assert_int_equal(gradients_open(&o, &none, &err), PLIM_E_ARG); /* no history */
	assert_int_equal(plim_gradients_clip(g, 1, &call, &err), PLIM_E_ARG);
	assert_int_equal(plim_gradients_clip(g, NAN, &call, &err), PLIM_E_ARG);
	assert_int_equal(plim_gradients_collect(g, &call, &err), PLIM_E_ARG);
	call.size = 8;
	assert_int_equal(plim_gradients_check(g, &call, &err), PLIM_E_ARG);
	plim_gradients_free(g);
}

/* ---- a GPU ---- */

static unsigned launches, clips;

/* What kernel.cu does, when the stream gets there. */
static void kernel(const char *name, const void *arguments)
{
	const struct gradients_check_arguments *a = arguments;
	const struct gradients_row *rows = (void *)(uintptr_t)a->rows;
	struct gradients_sums *out = (void *)(uintptr_t)a->out;
	struct plim_gradients_summary all = { .scale = 1 };

	if (strcmp(name, "plimsoll_gradients") != 0) {
		const struct gradients_clip_arguments *c = arguments;
		const struct plim_gradients_summary *s = (void *)(uintptr_t)c->summary;

		clips++;
		if (s->norm > c->max_norm)
			*(float *)(uintptr_t)((const struct gradients_row *)(uintptr_t)c->rows)
				 ->at *= c->max_norm / s->norm;
		return;
	}
	launches++;
	for (uint32_t i = 0; i < a->tensors; i++) {
		const float *at = (const float *)(uintptr_t)rows[i].at;

		out[i] = (struct gradients_sums){ 0 };
		for (uint64_t k = 0; at && k < rows[i].count; k++) {
			out[i].nan += isnan(at[k]);
			out[i].squares += isnan(at[k]) ? 0 : at[k] * at[k];
		}
		all.nan += out[i].nan;
		all.squares += out[i].squares;
	}
	all.norm = all.nan > 0 ? NAN : (float)sqrt(all.squares);
	all.found_inf = all.nan > 0;
	memcpy(out + a->tensors, &all, sizeof(all));
	memcpy((void *)(uintptr_t)a->summary, &all, sizeof(all));
}

static const struct plim_gradient two[] = { { .elements = 4, .order = 1, .copies = 1 },
					    { .elements = 20000, .order = 0, .copies = 1 } };

static struct plim_gradients *on_gpu(void)
{
	struct plim_gradients *g = open_it(1, 0);

	fake_on_launch(kernel);
	assert_int_equal(plim_gradients_set(g, two, 2, NULL), PLIM_OK);
	return g;
}

static void close_it(struct plim_gradients *g)
{
	plim_gradients_free(g);
	assert_int_equal(fake_memory(), 0);
	assert_int_equal(fake_pinned(), 0);
	assert_int_equal(fake_streams(), 0);
}

static void test_no_wait(void **state)
{
	static float x[2][20000];
	struct plim_gradients *g = on_gpu();
	uint64_t waits = fake_counts.waits;
	void *const stream = (void *)1;
	struct plim_gradients_stats s;

	(void)state;
	for (uint64_t step = 0; step < 30; step++) { /* addresses change at each step */
		const void *where[] = { x[step % 2], x[1 - step % 2] };
		struct plim_gradients_call call =
			call_of(step % 7 == 6 ? (const void *[]){ NULL, x[0] } : where, step);

		x[0][0] = (float)step;
		call.stream = stream;
		assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
		s = taken(g);
		if (step % 3 == 2) /* the GPU catches up */
			fake_complete(stream);
		else
			assert_int_equal(s.step, step % 3 == 0 && step ? step - 1 : PLIM_UNKNOWN);
		while (step % 3 == 2 && taken(g).step != step - 1)
			;
	}
	assert_int_equal(fake_counts.waits, waits);
	fake_complete(stream);
	s = taken(g);
	assert_int_equal(s.step, 29);
	/* No one takes: beyond eight the oldest is waited for, and told as missed. */
	for (uint64_t step = 30; step < 40; step++) {
		struct plim_gradients_call call = call_of((const void *[]){ x[0], x[1] }, step);

		call.stream = stream;
		assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
	}
	assert_int_equal(fake_counts.waits, waits + 2);
	assert_int_equal(plim_gradients_wait(g, &s, NULL), PLIM_OK);
	assert_true(s.step == 32 && s.missed == 2 && s.norm == 29);
	close_it(g);
}

/* What a check on one stream writes is not overtaken by one on another. */
static void test_streams(void **state)
{
	static float x[20000] = { 3 };
	struct plim_gradients *g = on_gpu();
	struct plim_gradients_stats s;

	(void)state;
	for (uintptr_t step = 0; step < 6; step++) {
		struct plim_gradients_call call =
			call_of((const void *[]){ x, step % 2 ? NULL : x }, step);

		call.stream = (void *)(1 + step % 3);
		assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
	}
	fake_complete((void *)3); /* the last: all before it, too */
	for (uint64_t step = 0; step < 6; step++) {
		s = taken(g);
		assert_true(s.step == step && s.none == step % 2 &&
			    near(s.norm, step % 2 ? 3 : sqrt(18), 1e-6));
	}
	close_it(g);
}

static void test_later(void **state)
{
	static float x[20000] = { 3 }, y[4] = { 4 };
	struct plim_gradients *g = on_gpu(), *h = on_host(two, 2, 1);

	(void)state;
	sum_up(h, (const void *[]){ y, x }, 2);
	sum_up(g, (const void *[]){ y, x }, 2);
	/* What is not collected is waited for before its rows are used again, or freed. */
	for (int i = 0; i < 3; i++) {
		struct plim_gradients_call call =
			call_of((const void *[]){ i % 2 ? y : NULL, x }, 1);

		call.flags = PLIM_GRADIENTS_LATER;
		assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
	}
	plim_gradients_free(h);
	close_it(g);
}

static void test_bad_and_clip(void **state)
{
	static float x[20000], y[4] = { 6, 0, 0, 8 };
	struct plim_gradients_summary sum;
	struct plim_gradients *g = on_gpu();
	struct plim_gradients_call call = call_of((const void *[]){ y, x }, 5);
	struct plim_gradients_stats s;

	(void)state;
	call.summary = (uint64_t)(uintptr_t)&sum;
	assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
	assert_int_equal(plim_gradients_clip(g, 5, &call, NULL), PLIM_OK);
	assert_true(y[0] == 6);
	assert_int_equal(plim_gradients_wait(g, &s, NULL), PLIM_OK);
	fake_complete(NULL);
	assert_true(s.norm == 10 && sum.norm == 10 && y[0] == 3 && clips == 1);
	x[7] = NAN;
	assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
	assert_int_equal(plim_gradients_wait(g, &s, NULL), PLIM_OK);
	assert_true(isnan(s.norm) && s.first_bad == 1 && s.bad == 1 && sum.found_inf == 1);
	assert_true(result(g, 1, 1).nan == 0);
	assert_int_equal(plim_gradients_wait(g, &s, NULL), PLIM_OK);
	assert_int_equal(s.step, PLIM_UNKNOWN);
	close_it(g);
}

/* Within a capture no event, no copy; the graph's addresses are its own, and stay until the end. */
static void test_graph(void **state)
{
	static float x[20000] = { 3 }, y[20000] = { 4 };
	struct plim_gradients *g = on_gpu();
	void *const stream = (void *)2;
	struct plim_gradients_call in_graph = call_of((const void *[]){ x, x }, 1);
	struct plim_gradients_call call = call_of((const void *[]){ y, y }, 2);
	struct plim_gradients_stats s;

	(void)state;
	in_graph.stream = call.stream = stream;
	fake_capture(stream, 1);
	assert_int_equal(plim_gradients_check(g, &in_graph, NULL), PLIM_OK);
	assert_int_equal(taken(g).step, PLIM_UNKNOWN);
	fake_capture(stream, 0);
	assert_int_equal(plim_gradients_collect(g, &in_graph, NULL), PLIM_OK);
	assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
	assert_int_equal(plim_gradients_set(g, two, 1, NULL),
			 PLIM_OK); /* the graph may be replayed still */
	assert_int_equal(fake_memory(), 3);
	assert_int_equal(plim_gradients_check(g, &call, NULL), PLIM_OK);
	assert_int_equal(plim_gradients_wait(g, &s, NULL), PLIM_OK);
	assert_true(s.step == 2 && s.norm == 4);
	close_it(g);
}

/* Calls that fail, each in turn: nothing leaks, nothing is used before its event. */
static void test_failures(void **state)
{
	static float x[20000];
	size_t failed = 0;

	(void)state;
	fake_on_launch(kernel);
	for (long n = 0; n < 12; n++) {
		struct plim_gradients_options o = { .size = sizeof(o),
						    .history = 2,
						    .cuda_library = fake_library };
		struct plim_gradients_call call = call_of((const void *[]){ x, x }, 0);
		struct plim_gradients *g;
		struct plim_gradients_stats s;
		struct plim_err err = { 0 };
		enum plim_status st;

		fake_fail_at(n);
		st = gradients_open(&o, &g, &err);
		if (!st)
			st = plim_gradients_set(g, two, 2, &err);
		for (int i = 0; !st && i < 2; i++)
			st = plim_gradients_check(g, &call, &err);
		failed += st != 0;
		if (st)
			assert_true(err.status == st && err.message[0]);
		fake_fail_at(-1);
		if (g && st && !plim_gradients_set(g, two, 2, &err)) { /* and it works again */
			assert_int_equal(plim_gradients_check(g, &call, &err), PLIM_OK);
			assert_int_equal(plim_gradients_wait(g, &s, &err), PLIM_OK);
			assert_true(s.norm == 0 && s.step == 0);
		}
		close_it(g);
	}
	assert_true(failed >= 9);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_halves),   cmocka_unit_test(test_clip),
		cmocka_unit_test(test_threads),  cmocka_unit_test(test_kept),
		cmocka_unit_test(test_refused),  cmocka_unit_test(test_no_wait),
		cmocka_unit_test(test_streams),  cmocka_unit_test(test_bad_and_clip),
		cmocka_unit_test(test_graph),    cmocka_unit_test(test_later),
		cmocka_unit_test(test_failures),
	};

	fake_library = argc > 1 ? argv[1] : NULL;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
