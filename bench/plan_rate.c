/*
 * plan_rate: configurations a second on one core.  A configuration is a batch and a sequence of a model like Llama, of 12
 * blocks or of 24, trained for two steps: its program is built and run to the three peaks, and then to the smallest limit
 * that does.  No two are alike.  Rates are of processor time, of ROUNDS rounds: least, median, most.
 */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 9
#define EACH 60

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void configuration(struct mem *mem, const struct model *m, unsigned number, int needed)
{
	struct allocator_rules rules = allocator_rules_default(0);
	struct allocator_bounds bounds = { .limit_bytes = UINT64_MAX,
					   .capacity_bytes = UINT64_MAX };
	struct plan_recipe r;
	struct plan_result result;
	struct plim_err err;
	struct plan *plan;
	uint64_t limit;

	plan_recipe_init(&r);
	r.precision = PLAN_BF16_AUTOCAST;
	r.steps = 2;
	r.batch = 1 + number % 8;
	r.sequence = 128 + number * 8;
	if (plan_build(mem, m, &r, &plan, &err) ||
	    (needed ? plan_measure_needed(plan, &rules, UINT64_MAX, &result, &limit, &err)
		    : plan_measure(plan, &rules, &bounds, &result, &err)) ||
	    result.died != TRACE_NONE)
		exit(1);
	plan_free(plan);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* One row for each of the two ways. */
static void measure(struct mem *mem, const struct model_numbers *n)
{
	static const char *const what[] = { "three peaks", "three peaks and needed" };
	double rates[2][ROUNDS];
	struct plim_err err;
	struct model m;

	model_init(&m, mem);
	if (model_by_numbers(&m, n, &err))
		exit(1);
	for (unsigned i = 0; i < ROUNDS; i++)
		for (int needed = 0; needed < 2; needed++) {
			double start = seconds();

			for (unsigned k = 0; k < EACH; k++)
				configuration(mem, &m, i * EACH + k, needed);
			rates[needed][i] = EACH / (seconds() - start);
		}
	for (int needed = 0; needed < 2; needed++) {
		qsort(rates[needed], ROUNDS, sizeof(double), by_size);
		printf("%5.0f %5.0f %5.0f configurations/s of %llu blocks, %s\n", rates[needed][0],
		       rates[needed][ROUNDS / 2], rates[needed][ROUNDS - 1],
		       (unsigned long long)n->layers, what[needed]);
	}
	model_release(&m);
}

int main(void)
{
	static const struct model_numbers models[] = {
		{ .layers = 12, .hidden = 768, .heads = 12, .intermediate = 2048, .vocab = 32000 },
		{ .layers = 24, .hidden = 1024, .heads = 16, .intermediate = 2816, .vocab = 32000 },
	};
	struct mem mem;

	mem_init(&mem, 0);
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		measure(&mem, &models[i]);
	return 0;
}
