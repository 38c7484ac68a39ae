/* What autograd keeps and for how long, on operations whose bytes can be counted by hand; and a small model through all phases. */
#include "plan/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Reduce.cuh's staging buffer, as recordings of an H100 show it beside the bias gradients of GPT-2 and the norms of Llama. */
static void test_reduce(void **state)
{
	static const struct {
		uint64_t rows, outputs, bytes;
	} seen[] = {
		{ 8192, 768, 50331648 },  { 8192, 3072, 138412032 }, { 8192, 2304, 139198464 },
		{ 5448, 1024, 45088768 }, { 3208, 256, 6684672 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		assert_int_equal(
			plan_reduce_bytes(&plan_device_default, seen[i].rows, seen[i].outputs, 4),
			seen[i].bytes);
	assert_int_equal(plan_reduce_bytes(&plan_device_default, 16, 768, 4), 0);
}

struct fixture {
	struct mem mem;
	struct plim_err err;
	struct model model;
	struct plan_recipe recipe;
	struct plan *plan;
	struct plan_result result;
};

/* A decoder of two blocks: 2 * 100 * 64 embedding and head, per block 4 * 64^2 + 3 * 64 * 128 + 2 * 64, and a norm. */
#define PARAMETERS (2 * 100 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64)

static void start(struct fixture *f)
{
	struct model_numbers n = {
		.layers = 2, .hidden = 64, .heads = 4, .intermediate = 128, .vocab = 100
	};

	memset(f, 0, sizeof(*f));
	mem_init(&f->mem, 1 << 28);
	model_init(&f->model, &f->mem);
	assert_int_equal(model_by_numbers(&f->model, &n, &f->err), PLIM_OK);
	plan_recipe_init(&f->recipe);
	f->recipe.sequence = 32;
	f->recipe.steps = 2;
}

static void run(struct fixture *f, uint64_t limit)
{
	struct allocator_rules rules = allocator_rules_default(0);
	struct allocator_bounds bounds = { .limit_bytes = limit, .capacity_bytes = UINT64_MAX };

	plan_free(f->plan);
	f->plan = NULL;
	assert_int_equal(plan_build(&f->mem, &f->model, &f->recipe, &f->plan, &f->err), PLIM_OK);
	assert_int_equal(plan_measure(f->plan, &rules, &bounds, &f->result, &f->err), PLIM_OK);
}

static void end(struct fixture *f)
{
	plan_free(f->plan);
	model_release(&f->model);
	assert_int_equal(f->mem.used_bytes, 0);
}

/* Bytes of one category that live after each phase. */
static uint64_t lives(const struct fixture *f, const char *phase, unsigned category)
{
	const struct plan *p = f->plan;
	uint64_t bytes = 0;

	for (size_t i = 0; i < p->program->ops.n; i++) {
		const struct program_op *op = &p->program->ops.at[i];

		if (op->kind == PROGRAM_PHASE && !strcmp(p->phases.at[op->request].name, phase))
			return bytes;
		if (op->kind == PROGRAM_PHASE || p->categories[op->request] != category)
			continue;
		if (op->kind == PROGRAM_ALLOC)
			bytes += p->program->requests.at[op->request].bytes;
		else
			bytes -= p->program->requests.at[op->request].bytes;
	}
	fail_msg("no phase %s", phase);
	return 0;
}

static void test_states(void **state)
{
	struct fixture f;

	(void)state;
	start(&f);
	run(&f, UINT64_MAX);
	assert_int_equal(lives(&f, "load", TIMELINE_PARAMETER), 4 * PARAMETERS);
	assert_int_equal(lives(&f, "bwd0", TIMELINE_GRADIENT), 4 * PARAMETERS);
	assert_int_equal(lives(&f, "bwd0", TIMELINE_ACTIVATION), 0);
	assert_int_equal(lives(&f, "opt0", TIMELINE_OPTIMIZER_STATE), 8 * PARAMETERS);
	assert_int_equal(lives(&f, "zero0", TIMELINE_GRADIENT), 0);
	assert_int_equal(lives(&f, "zero1", TIMELINE_AUTOGRAD_DETAIL), 0);
	assert_int_equal(lives(&f, "zero1", TIMELINE_TEMPORARY), 0);
	f.recipe.precision = PLAN_BF16_PURE;
	run(&f, UINT64_MAX);
	assert_int_equal(lives(&f, "opt0", TIMELINE_OPTIMIZER_STATE), 4 * PARAMETERS);
	f.recipe.optimizer = PLAN_SGD;
	run(&f, UINT64_MAX);
	assert_int_equal(lives(&f, "opt0", TIMELINE_OPTIMIZER_STATE), 0);
	end(&f);
}

/* Checkpointed blocks keep their inputs alone; what they compute again is gone when the backward pass is. */
static void test_checkpointing(void **state)
{
	struct fixture f;
	uint64_t all, inputs;

	(void)state;
	start(&f);
	f.recipe.precision = PLAN_BF16_PURE;
	run(&f, UINT64_MAX);
	all = lives(&f, "fwd0", TIMELINE_ACTIVATION);
	f.recipe.checkpointing = PLAN_CHECKPOINT_FULL;
	run(&f, UINT64_MAX);
	inputs = lives(&f, "fwd0", TIMELINE_ACTIVATION);
	assert_true(inputs < all / 2);
	assert_int_equal(lives(&f, "bwd0", TIMELINE_ACTIVATION), 0);
	assert_int_equal(lives(&f, "bwd0", TIMELINE_GRADIENT), 2 * PARAMETERS);
	end(&f);
}

/* Gradients stay between micro-batches, and are added to in place. */
static void test_accumulation(void **state)
{
	struct fixture f;

	(void)state;
	start(&f);
	f.recipe.accumulate = 3;
	run(&f, UINT64_MAX);
	assert_int_equal(lives(&f, "bwd0", TIMELINE_GRADIENT), 4 * PARAMETERS);
	assert_int_equal(lives(&f, "bwd0.2", TIMELINE_GRADIENT), 4 * PARAMETERS);
	end(&f);
}

static void test_lora(void **state)
{
	struct fixture f;

	(void)state;
	start(&f);
	f.recipe.lora_rank = 8;
	run(&f, UINT64_MAX);
	/* q and v of two blocks, in fp32: A and B of 8 * 64 each */
	assert_int_equal(lives(&f, "bwd0", TIMELINE_GRADIENT), 2 * 2 * 2 * 8 * 64 * 4);
	assert_int_equal(lives(&f, "zero0", TIMELINE_GRADIENT), 0);
	end(&f);
}

/* Under a limit below the peak it dies in a phase, and every part of the peak has a category. */
static void test_limit(void **state)
{
	uint64_t bytes[TIMELINE_CATEGORIES] = { 0 }, rounding, sum = 0;
	struct fixture f;

	(void)state;
	start(&f);
	run(&f, UINT64_MAX);
	assert_int_equal(f.result.died, TRACE_NONE);
	plan_compose(f.plan, f.result.peak_phase, bytes, &rounding);
	for (unsigned i = 0; i < TIMELINE_CATEGORIES; i++)
		sum += bytes[i];
	assert_int_equal(sum + rounding, f.result.peak_allocated_bytes);
	run(&f, f.result.peak_allocated_bytes / 2);
	assert_int_not_equal(f.result.died, TRACE_NONE);
	end(&f);
}

/* Every allocation of ours refused in turn: an error each time, and nothing is left behind. */
static void expect_trust(const struct fixture *f, size_t phases, enum plan_basis basis,
			 size_t reasons)
{
	struct plan_trust t;

	plan_trust_of(&f->model, &f->recipe, f->plan->phases.at, phases, &t);
	assert_int_equal(t.basis, basis);
	assert_int_equal(t.reason_count, reasons);
	assert_true(t.below && t.above && t.below < 1000);
}

/* What nothing was measured of counts from the phase on in which it can show. */
static void test_basis(void **state)
{
	struct plan_trust narrow, wide;
	uint64_t range[2];
	struct fixture f;

	(void)state;
	start(&f);
	run(&f, UINT64_MAX);
	plan_trust_of(&f.model, &f.recipe, f.plan->phases.at, f.plan->phases.n, &narrow);
	expect_trust(&f, f.plan->phases.n, PLAN_DERIVED, 0);
	f.recipe.optimizer = PLAN_ADAMW_8BIT;
	expect_trust(&f, 3, PLAN_DERIVED, 0); /* load, fwd0, bwd0 */
	expect_trust(&f, 4, PLAN_ASSUMED, 1);
	f.recipe.parallel = PLAN_DDP;
	f.recipe.gpus = 2;
	expect_trust(&f, 1, PLAN_DERIVED, 1);
	f.recipe.gpus = 4;
	expect_trust(&f, 1, PLAN_ASSUMED, 2);
	expect_trust(&f, 4, PLAN_ASSUMED, 3);
	plan_trust_of(&f.model, &f.recipe, f.plan->phases.at, 4, &wide);
	assert_true(wide.below > narrow.below && wide.above > narrow.above);
	f.model.guessed = true;
	f.recipe.parallel = PLAN_ALONE;
	f.recipe.task = PLAN_INFER; /* no optimizer steps */
	expect_trust(&f, f.plan->phases.n, PLAN_ASSUMED, 1);
	plan_trust_range(&narrow, 1000000, range);
	assert_true(range[0] < 1000000 && range[1] > 1000000);
	end(&f);
}

/* Where requests are made: a parameter's own by its module, an activation by the module that runs, backward as well. */
static void test_sites(void **state)
{
	size_t named = 0, backward = 0, products = 0;
	struct plan_site site;
	struct fixture f;

	(void)state;
	start(&f);
	run(&f, UINT64_MAX);
	plan_site_read(&f.model, f.plan->program->requests.at[0].stack, &site);
	assert_string_equal(site.place, "model.embed_tokens");
	assert_null(site.op);
	for (size_t i = 0; i < f.plan->program->requests.n; i++) {
		plan_site_read(&f.model, f.plan->program->requests.at[i].stack, &site);
		named += *site.place != 0;
		backward += site.pass == PLAN_BACKWARD_PASS;
		products += site.op && !strcmp(site.op, "mm") &&
			    !strcmp(site.place, "model.layers.1.mlp.down_proj");
	}
	assert_true(named > f.plan->program->requests.n / 2 && backward > 20);
	assert_int_equal(products, 2 * 3); /* each step: forward, and two gradients */
	end(&f);
}

static void test_out_of_memory(void **state)
{
	struct fixture f;
	enum plim_status st = PLIM_E_NOMEM;

	(void)state;
	start(&f);
	f.recipe.steps = 1;
	f.recipe.checkpointing = PLAN_CHECKPOINT_FULL;
	f.recipe.lora_rank = 4;
	for (int64_t n = 0; st; n++) {
		uint64_t before = f.mem.used_bytes;

		f.mem.fail_after = n;
		st = plan_build(&f.mem, &f.model, &f.recipe, &f.plan, &f.err);
		f.mem.fail_after = -1;
		if (st) {
			assert_null(f.plan);
			assert_int_equal(f.mem.used_bytes, before);
		}
	}
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reduce),        cmocka_unit_test(test_states),
		cmocka_unit_test(test_checkpointing), cmocka_unit_test(test_accumulation),
		cmocka_unit_test(test_lora),          cmocka_unit_test(test_limit),
		cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_basis),
		cmocka_unit_test(test_sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
