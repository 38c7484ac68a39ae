/* What autograd keeps and for how long, on operations whose bytes can be counted by hand; and a small model through all phases. */
#include "plan/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Reduce.cuh's staging buffer, as recordings of an H100 show it next to the bias gradients of GPT-2 and the norms of Llama. */
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

static int set_up(void **state)
{
	static struct fixture f;

	start(&f);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	end(*state);
	return 0;
}

#define FIXED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

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
	struct fixture *f = *state;

	run(f, UINT64_MAX);
	assert_int_equal(lives(f, "load", TIMELINE_PARAMETER), 4 * PARAMETERS);
	assert_int_equal(lives(f, "bwd0", TIMELINE_GRADIENT), 4 * PARAMETERS);
	assert_int_equal(lives(f, "bwd0", TIMELINE_ACTIVATION), 0);
	assert_int_equal(lives(f, "opt0", TIMELINE_OPTIMIZER_STATE), 8 * PARAMETERS);
	assert_int_equal(lives(f, "zero0", TIMELINE_GRADIENT), 0);
	assert_int_equal(lives(f, "zero1", TIMELINE_AUTOGRAD_DETAIL), 0);
	assert_int_equal(lives(f, "zero1", TIMELINE_TEMPORARY), 0);
	f->recipe.precision = PLAN_BF16_PURE;
	run(f, UINT64_MAX);
	assert_int_equal(lives(f, "opt0", TIMELINE_OPTIMIZER_STATE), 4 * PARAMETERS);
	f->recipe.optimizer = PLAN_SGD;
	run(f, UINT64_MAX);
	assert_int_equal(lives(f, "opt0", TIMELINE_OPTIMIZER_STATE), 0);
}

/* Checkpointed blocks keep their inputs alone; what they compute again is gone when the backward pass is. */
static void test_checkpointing(void **state)
{
	struct fixture *f = *state;
	uint64_t all, inputs;

	f->recipe.precision = PLAN_BF16_PURE;
	run(f, UINT64_MAX);
	all = lives(f, "fwd0", TIMELINE_ACTIVATION);
	f->recipe.checkpointing = PLAN_CHECKPOINT_FULL;
	run(f, UINT64_MAX);
	inputs = lives(f, "fwd0", TIMELINE_ACTIVATION);
	assert_true(inputs < all / 2);
	assert_int_equal(lives(f, "bwd0", TIMELINE_ACTIVATION), 0);
	assert_int_equal(lives(f, "bwd0", TIMELINE_GRADIENT), 2 * PARAMETERS);
}

/* Gradients stay between micro-batches, and are added to in place. */
static void test_accumulation(void **state)
{
	struct fixture *f = *state;

	f->recipe.accumulate = 3;
	run(f, UINT64_MAX);
	assert_int_equal(lives(f, "bwd0", TIMELINE_GRADIENT), 4 * PARAMETERS);
	assert_int_equal(lives(f, "bwd0.2", TIMELINE_GRADIENT), 4 * PARAMETERS);
}

#define TOKENS 32 /* of a fixture's batch */

/* Selective checkpointing keeps the results of products and of attention next to the inputs, and nothing when it is over. */
static void test_selective(void **state)
{
	/* q, k, v, o, gate, up and down; attention's result, its sums of rows, seed and offset */
	uint64_t block =
		2 * TOKENS * (4 * 64 + 2 * 128 + 64) + 2 * TOKENS * 64 + 4 * TOKENS * 4 + 16;
	struct fixture *f = *state;
	uint64_t inputs;

	f->recipe.precision = PLAN_BF16_PURE;
	f->recipe.checkpointing = PLAN_CHECKPOINT_FULL;
	run(f, UINT64_MAX);
	inputs = lives(f, "fwd0", TIMELINE_ACTIVATION);
	f->recipe.checkpointing = PLAN_CHECKPOINT_SELECTIVE;
	run(f, UINT64_MAX);
	assert_int_equal(lives(f, "fwd0", TIMELINE_ACTIVATION), inputs + 2 * block);
	assert_int_equal(lives(f, "bwd0", TIMELINE_ACTIVATION), 0);
	assert_int_equal(lives(f, "bwd1", TIMELINE_TEMPORARY), 0);
	assert_int_equal(lives(f, "bwd0", TIMELINE_GRADIENT), 2 * PARAMETERS);
}

/* Parts of the loss are computed again though autocast kept the head's cast the first time; all gradients come out. */
static void test_chunked_loss(void **state)
{
	enum plan_precision precisions[] = { PLAN_FP32, PLAN_BF16_AUTOCAST, PLAN_BF16_PURE };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct fixture f;
		uint64_t whole, bytes = precisions[i] == PLAN_BF16_PURE ? 2 : 4;

		start(&f);
		f.recipe.precision = precisions[i];
		f.recipe.eval_passes = 2;
		f.recipe.eval_batch = 1;
		run(&f, UINT64_MAX);
		whole = lives(&f, "fwd0", TIMELINE_ACTIVATION);
		for (unsigned loss = PLAN_LOSS_CHUNKED; loss <= PLAN_LOSS_FUSED; loss++) {
			f.recipe.loss = (enum plan_loss)loss;
			f.recipe.loss_chunk = 7; /* the last one is smaller */
			run(&f, UINT64_MAX);
			/* log_softmax's result of all tokens at least is gone */
			assert_true(lives(&f, "fwd0", TIMELINE_ACTIVATION) <
				    whole - TOKENS * 100 * 4 + 1024);
			assert_int_equal(lives(&f, "bwd0", TIMELINE_ACTIVATION), 0);
			assert_int_equal(lives(&f, "bwd1", TIMELINE_TEMPORARY), 0);
			assert_int_equal(lives(&f, "bwd1", TIMELINE_AUTOGRAD_DETAIL), 0);
			assert_int_equal(lives(&f, "bwd0", TIMELINE_GRADIENT), bytes * PARAMETERS);
			assert_int_equal(lives(&f, "eval1", TIMELINE_TEMPORARY), 0);
		}
		end(&f);
	}
}

static const struct plan_phase *phase_of(const struct fixture *f, const char *name)
{
	for (size_t i = 0; i < f->plan->phases.n; i++)
		if (!strcmp(f->plan->phases.at[i].name, name))
			return &f->plan->phases.at[i];
	fail_msg("no phase %s", name);
	return NULL;
}

/* The longest batch comes last, in a phase of its own; where samples are grouped, first too. */
static void test_lengths(void **state)
{
	static const uint64_t lengths[] = { 64, 512 };
	struct fixture *f = *state;
	uint64_t first, longest;

	f->recipe.sequence = 64;
	f->recipe.longest = 512;
	run(f, UINT64_MAX);
	first = phase_of(f, "fwd0")->peak_allocated_bytes;
	longest = phase_of(f, "longest")->peak_allocated_bytes;
	assert_true(longest > phase_of(f, "bwd1")->peak_allocated_bytes);
	assert_int_equal(lives(f, "longest", TIMELINE_ACTIVATION), 0);
	f->recipe.grouped = true;
	run(f, UINT64_MAX);
	assert_true(phase_of(f, "fwd0")->peak_allocated_bytes > first);
	assert_int_equal(phase_of(f, "longest")->peak_allocated_bytes, longest);
	f->recipe.longest = 0;
	f->recipe.lengths = lengths;
	f->recipe.length_count = 2;
	run(f, UINT64_MAX);
	assert_int_equal(phase_of(f, "fwd0")->peak_allocated_bytes, first);
	assert_int_equal(phase_of(f, "bwd1")->peak_allocated_bytes, longest);
}

/* Megatron's: masters and moments in fp32, and at the step gradients in fp32 in the place of those in bf16. */
static void test_masters(void **state)
{
	struct fixture *f = *state;

	f->recipe.precision = PLAN_BF16_MASTER;
	run(f, UINT64_MAX);
	assert_int_equal(lives(f, "load", TIMELINE_PARAMETER), 2 * PARAMETERS);
	assert_int_equal(lives(f, "bwd0", TIMELINE_GRADIENT), 2 * PARAMETERS);
	assert_int_equal(lives(f, "opt0", TIMELINE_GRADIENT), 4 * PARAMETERS);
	assert_int_equal(lives(f, "opt1", TIMELINE_OPTIMIZER_STATE), 12 * PARAMETERS);
}

#define LINEAR (2 * (4 * 64 * 64 + 3 * 64 * 128)) /* of PARAMETERS, what is quantized */

/* Codes, a scale in 64 and 16 values for each of 14 weights; the rest in fp32 if adapters are trained, in bf16 to infer. */
static void test_quantized_weights(void **state)
{
	uint64_t codes = LINEAR / 2 + LINEAR / 64 * 4 + 14 * 16 * 4;
	struct fixture *f = *state;

	assert_int_equal(model_quantize(&f->model, MODEL_NF4, false, &f->err), PLIM_OK);
	f->recipe.quantize = PLAN_NF4;
	f->recipe.precision = PLAN_BF16_AUTOCAST;
	assert_int_equal(plan_build(&f->mem, &f->model, &f->recipe, &f->plan, &f->err), PLIM_E_ARG);
	f->recipe.lora_rank = 8;
	run(f, UINT64_MAX);
	assert_int_equal(lives(f, "load", TIMELINE_PARAMETER),
			 codes + 4 * (PARAMETERS - LINEAR) + 2 * 2 * 2 * 8 * 64 * 4);
	assert_int_equal(lives(f, "bwd0", TIMELINE_GRADIENT), 2 * 2 * 2 * 8 * 64 * 4);
	assert_int_equal(lives(f, "bwd0", TIMELINE_ACTIVATION), 0);
	assert_int_equal(lives(f, "bwd1", TIMELINE_TEMPORARY), 0);
	f->recipe.task = PLAN_INFER;
	f->recipe.precision = PLAN_BF16_PURE;
	f->recipe.lora_rank = 0;
	run(f, UINT64_MAX);
	assert_int_equal(lives(f, "load", TIMELINE_PARAMETER), codes + 2 * (PARAMETERS - LINEAR));
}

/* For one token gemv reads the codes; for two the weight is made whole, a whole segment where it is that large. */
static void test_gemv(void **state)
{
	struct model_numbers n = {
		.layers = 1, .hidden = 2048, .heads = 16, .intermediate = 2048, .vocab = 100
	};
	struct fixture *f = *state;
	uint64_t one, two;

	model_release(&f->model);
	model_init(&f->model, &f->mem);
	assert_int_equal(model_by_numbers(&f->model, &n, &f->err), PLIM_OK);
	assert_int_equal(model_quantize(&f->model, MODEL_NF4, false, &f->err), PLIM_OK);
	f->recipe.quantize = PLAN_NF4;
	f->recipe.task = PLAN_INFER;
	f->recipe.precision = PLAN_BF16_PURE;
	f->recipe.sequence = 1;
	run(f, UINT64_MAX);
	one = phase_of(f, "fwd1")->peak_requested_bytes;
	f->recipe.sequence = 2;
	run(f, UINT64_MAX);
	two = phase_of(f, "fwd1")->peak_requested_bytes;
	assert_true(two > one + 2 * 2048 * 2048);
	assert_true(two < one + 3 * 2048 * 2048);
}

static void test_lora(void **state)
{
	struct fixture *f = *state;

	f->recipe.lora_rank = 8;
	run(f, UINT64_MAX);
	/* q and v of two blocks, in fp32: A and B of 8 * 64 each */
	assert_int_equal(lives(f, "bwd0", TIMELINE_GRADIENT), 2 * 2 * 2 * 8 * 64 * 4);
	assert_int_equal(lives(f, "zero0", TIMELINE_GRADIENT), 0);
}

/* Under a limit below the peak it dies in a phase, and every part of the peak has a category. */
static void test_limit(void **state)
{
	uint64_t bytes[TIMELINE_CATEGORIES] = { 0 }, rounding, sum = 0;
	struct fixture *f = *state;

	run(f, UINT64_MAX);
	assert_int_equal(f->result.died, TRACE_NONE);
	plan_compose(f->plan, f->result.peak_phase, bytes, &rounding);
	for (unsigned i = 0; i < TIMELINE_CATEGORIES; i++)
		sum += bytes[i];
	assert_int_equal(sum + rounding, f->result.peak_allocated_bytes);
	run(f, f->result.peak_allocated_bytes / 2);
	assert_int_not_equal(f->result.died, TRACE_NONE);
}

static void expect_trust(const struct fixture *f, size_t phases, enum plan_basis basis,
			 size_t reasons)
{
	struct plan_trust t;

	plan_trust_of(&f->model, &f->recipe, NULL, f->plan->phases.at, phases, &t);
	assert_int_equal(t.basis, basis);
	assert_int_equal(t.reason_count, reasons);
	assert_true(t.below && t.above && t.below < 1000);
}

/* What nothing was measured of counts from the phase on in which it can show. */
static void test_basis(void **state)
{
	struct plan_trust narrow, wide;
	uint64_t range[2];
	struct fixture *f = *state;

	run(f, UINT64_MAX);
	plan_trust_of(&f->model, &f->recipe, NULL, f->plan->phases.at, f->plan->phases.n, &narrow);
	expect_trust(f, f->plan->phases.n, PLAN_DERIVED, 0);
	f->recipe.checkpointing = PLAN_CHECKPOINT_VISION;
	expect_trust(f, 1, PLAN_DERIVED, 0); /* load */
	expect_trust(f, 2, PLAN_ASSUMED, 1);
	f->recipe.parallel = PLAN_DDP;
	f->recipe.gpus = 2;
	expect_trust(f, 1, PLAN_DERIVED, 1);
	f->recipe.parallel = PLAN_ZERO2;
	expect_trust(f, 1, PLAN_ASSUMED, 2);
	expect_trust(f, 4, PLAN_ASSUMED, 3);
	plan_trust_of(&f->model, &f->recipe, NULL, f->plan->phases.at, 4, &wide);
	assert_true(wide.below > narrow.below && wide.above > narrow.above);
	f->model.guessed = true;
	f->recipe.parallel = PLAN_ALONE;
	f->recipe.gpus = 1;
	f->recipe.task = PLAN_INFER; /* nothing is checkpointed */
	expect_trust(f, f->plan->phases.n, PLAN_ASSUMED, 1);
	f->model.guessed = false;
	f->recipe.task = PLAN_TRAIN;
	f->recipe.checkpointing = PLAN_CHECKPOINT_NONE;
	f->recipe.parallel = PLAN_FSDP2; /* on one GPU */
	f->recipe.save = PLAN_SAVE_PRETRAINED;
	run(f, UINT64_MAX);
	expect_trust(f, f->plan->phases.n - 1, PLAN_DERIVED, 1);
	expect_trust(f, f->plan->phases.n, PLAN_ASSUMED, 2); /* gathered to be saved */
	plan_trust_range(&narrow, 1000000, range);
	assert_true(range[0] < 1000000 && range[1] > 1000000);
	wide.below = wide.above = 0;
	wide.less_bytes = 2000000;
	wide.more_bytes = 30;
	plan_trust_range(&wide, 1000000, range);
	assert_int_equal(range[0], 0);
	assert_int_equal(range[1], 1000030);
}

/* A recording settles what it was in doubt about itself, and nothing else. */
static void test_settled(void **state)
{
	struct plan_trust before, after;
	struct plan_recipe recorded;
	struct fixture *f = *state;

	f->model.guessed = true;
	run(f, UINT64_MAX);
	recorded = f->recipe;
	plan_trust_of(&f->model, &f->recipe, NULL, f->plan->phases.at, f->plan->phases.n, &before);
	plan_trust_of(&f->model, &f->recipe, &recorded, f->plan->phases.at, f->plan->phases.n,
		      &after);
	assert_int_equal(after.basis, PLAN_MEASURED);
	assert_int_equal(after.reason_count, 0);
	assert_true(after.below < before.below && after.above < before.above);
	f->recipe.checkpointing = PLAN_CHECKPOINT_VISION;
	plan_trust_of(&f->model, &f->recipe, &recorded, f->plan->phases.at, 4, &after);
	assert_int_equal(after.basis, PLAN_ASSUMED);
	assert_int_equal(after.reason_count, 1);
}

/* Where requests are made: a parameter's own by its module, an activation by the module that runs, backward as well. */
static void test_sites(void **state)
{
	size_t named = 0, backward = 0, products = 0;
	struct plan_site site;
	struct fixture *f = *state;

	run(f, UINT64_MAX);
	plan_site_read(&f->model, f->plan->program->requests.at[0].stack, &site);
	assert_string_equal(site.place, "model.embed_tokens");
	assert_null(site.op);
	for (size_t i = 0; i < f->plan->program->requests.n; i++) {
		plan_site_read(&f->model, f->plan->program->requests.at[i].stack, &site);
		named += *site.place != 0;
		backward += site.pass == PLAN_BACKWARD_PASS;
		products += site.op && !strcmp(site.op, "mm") &&
			    !strcmp(site.place, "model.layers.1.mlp.down_proj");
	}
	assert_true(named > f->plan->program->requests.n / 2 && backward > 20);
	assert_int_equal(products, 2 * 3); /* each step: forward, and two gradients */
}

/* Every allocation of ours refused in turn: an error each time, and nothing is left behind. */
static void refuse_each(struct fixture *f)
{
	enum plim_status st = PLIM_E_NOMEM;

	for (int64_t n = 0; st; n++) {
		uint64_t before = f->mem.used_bytes;

		f->mem.fail_after = n;
		st = plan_build(&f->mem, &f->model, &f->recipe, &f->plan, &f->err);
		/* a refusal that no one passed on would be a plan with something missing */
		assert_true(st || f->mem.fail_after >= 0);
		f->mem.fail_after = -1;
		if (st) {
			assert_null(f->plan);
			assert_int_equal(f->mem.used_bytes, before);
		}
	}
}

static void test_out_of_memory(void **state)
{
	static const enum plan_checkpointing how[] = { PLAN_CHECKPOINT_FULL,
						       PLAN_CHECKPOINT_SELECTIVE };
	const struct plan_learned learned = { 1,           1,           { 1, 1, 1 }, true,
					      { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } };
	struct fixture *f = *state;

	assert_int_equal(model_quantize(&f->model, MODEL_NF4_DOUBLE, false, &f->err), PLIM_OK);
	f->recipe.steps = 1;
	f->recipe.lora_rank = 4;
	for (unsigned i = 0; i < 2; i++) {
		f->recipe.checkpointing = how[i];
		f->recipe.quantize = PLAN_NF4_DOUBLE;
		f->recipe.loss = i ? PLAN_LOSS_CHUNKED : PLAN_LOSS_WHOLE;
		f->recipe.learned = i ? NULL : &learned;
		refuse_each(f);
		plan_free(f->plan);
		f->plan = NULL;
	}
}

/* By capability: sdp_utils.cpp, CublasHandlePool.cpp. */
static void test_devices(void **state)
{
	static const struct {
		unsigned capability;
		uint64_t blas_workspace_bytes;
		unsigned threads;
		bool cudnn, flash;
	} cards[] = {
		{ 70, 8519680, 2048, false, false },  { 75, 8519680, 1024, false, false },
		{ 80, 8519680, 2048, false, true },   { 89, 8519680, 1536, false, true },
		{ 90, 32 << 20, 2048, true, true },   { 103, 32 << 20, 2048, true, true },
		{ 120, 32 << 20, 1536, false, true }, { 0, 128 << 20, 2048, false, true },
	};
	struct plan_device hopper = plan_device_of(90, 132);

	(void)state;
	for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
		struct plan_device d = plan_device_of(cards[i].capability, 100);

		assert_int_equal(d.multiprocessors, 100);
		assert_int_equal(d.blas_workspace_bytes, cards[i].blas_workspace_bytes);
		assert_int_equal(d.threads_per_multiprocessor, cards[i].threads);
		assert_int_equal(d.cudnn_attention, cards[i].cudnn);
		assert_int_equal(d.flash_attention, cards[i].flash);
	}
	assert_int_equal(hopper.blas_workspace_bytes, plan_device_default.blas_workspace_bytes);
	assert_int_equal(hopper.lt_workspace_bytes, plan_device_default.lt_workspace_bytes);
	assert_int_equal(hopper.multiprocessors, plan_device_default.multiprocessors);
}

/* The most bytes of a category that live at once. */
static uint64_t most(const struct fixture *f, unsigned category)
{
	const struct plan *p = f->plan;
	uint64_t bytes = 0, top = 0;

	for (size_t i = 0; i < p->program->ops.n; i++) {
		const struct program_op *op = &p->program->ops.at[i];

		if (op->kind == PROGRAM_PHASE || p->categories[op->request] != category)
			continue;
		if (op->kind == PROGRAM_ALLOC)
			bytes += p->program->requests.at[op->request].bytes;
		else
			bytes -= p->program->requests.at[op->request].bytes;
		top = bytes > top ? bytes : top;
	}
	return top;
}

/*
 * Keys and values of 2 blocks of width 64 in bf16: 512 bytes a token.  A layer that slides holds the whole prompt until
 * its next pass (what it keeps is a view of what it joined), then no more than the window.
 */
#define TOKEN_BYTES 512

static void test_caches(void **state)
{
	struct fixture *f = *state;

	f->recipe.task = PLAN_GENERATE;
	f->recipe.precision = PLAN_BF16_PURE;
	f->recipe.new_tokens = 8;
	run(f, UINT64_MAX);
	/* all but the last of the new tokens are fed back; one layer's keys are joined at a time */
	assert_int_equal(most(f, TIMELINE_KV_CACHE), (32 + 7) * TOKEN_BYTES + 38 * TOKEN_BYTES / 4);
	f->recipe.beams = 3;
	run(f, UINT64_MAX);
	assert_int_equal(most(f, TIMELINE_KV_CACHE), 3 * (39 * TOKEN_BYTES + 39 * TOKEN_BYTES / 4));
	f->recipe.beams = 0;
	f->recipe.cache = PLAN_CACHE_STATIC;
	run(f, UINT64_MAX);
	assert_int_equal(most(f, TIMELINE_KV_CACHE), 39 * TOKEN_BYTES);
	f->model.towers[MODEL_TEXT].window = 16;
	f->model.towers[MODEL_TEXT].use_window = true;
	run(f, UINT64_MAX);
	assert_int_equal(most(f, TIMELINE_KV_CACHE), 16 * TOKEN_BYTES);
	f->recipe.cache = PLAN_CACHE_DYNAMIC;
	run(f, UINT64_MAX);
	assert_int_equal(most(f, TIMELINE_KV_CACHE), 32 * TOKEN_BYTES + 16 * TOKEN_BYTES / 4);
}

/* Passes of training keep them until the outputs go; not where blocks are checkpointed. */
static void test_kept_cache(void **state)
{
	struct fixture *f = *state;

	f->recipe.precision = PLAN_BF16_PURE;
	run(f, UINT64_MAX);
	assert_int_equal(most(f, TIMELINE_KV_CACHE), 0);
	f->recipe.keep_cache = true;
	run(f, UINT64_MAX);
	assert_int_equal(most(f, TIMELINE_KV_CACHE), 32 * TOKEN_BYTES);
	f->recipe.checkpointing = PLAN_CHECKPOINT_FULL;
	run(f, UINT64_MAX);
	assert_int_equal(most(f, TIMELINE_KV_CACHE), 0);
}

/* A checkpointed block's input was packed for the host also when there was none, after a failure. */
static void test_out_of_memory_offloaded(void **state)
{
	struct fixture *f = *state;

	f->recipe.steps = 1;
	f->recipe.checkpointing = PLAN_CHECKPOINT_FULL;
	f->recipe.activations = PLAN_OFFLOAD_STREAMS;
	f->recipe.parallel = PLAN_FSDP2;
	f->recipe.parameters_on = PLAN_ON_HOST;
	f->recipe.save = PLAN_SAVE_FULL_GPU;
	refuse_each(f);
}

/* DeepSpeed: fp32 weights and gradients in one pinned block each, of a power of two; two moments as they are. */
static void test_offloaded_optimizer(void **state)
{
	uint64_t block = 1;
	struct fixture f;

	(void)state;
	while (block < 4 * PARAMETERS)
		block *= 2;
	start(&f);
	f.recipe.optimizer_on = PLAN_ON_HOST;
	run(&f, UINT64_MAX);
	assert_int_equal(lives(&f, "zero0", TIMELINE_OPTIMIZER_STATE), 0);
	assert_int_equal(lives(&f, "zero0", TIMELINE_PARAMETER), 4 * PARAMETERS);
	assert_int_equal(f.plan->host.bytes[PLAN_HOST_STATES], block + 2 * 4 * PARAMETERS);
	assert_int_equal(f.plan->host.bytes[PLAN_HOST_GRADIENTS], block);
	end(&f);
}

/* The smallest limit does, and one step less does not, under settings that go by the limit in different ways. */
static void test_needed(void **state)
{
	static const char *const settings[] = { "", "expandable_segments:True",
						"max_split_size_mb:32",
						"garbage_collection_threshold:0.7",
						"roundup_power2_divisions:4" };
	struct fixture *f = *state;

	f->recipe.batch = 48;
	f->recipe.sequence = 500;
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
		struct allocator_bounds bounds = { .capacity_bytes = UINT64_MAX };
		struct allocator_rules rules;
		struct plan_result ample, result;
		uint64_t needed;

		assert_int_equal(allocator_rules_parse(settings[i], 0, &rules, &f->err), PLIM_OK);
		run(f, UINT64_MAX);
		ample = f->result;
		assert_int_equal(
			plan_measure_needed(f->plan, &rules, UINT64_MAX, &result, &needed, &f->err),
			PLIM_OK);
		assert_int_equal(result.died, TRACE_NONE);
		if (!i)
			assert_memory_equal(&result, &ample, sizeof(ample));
		assert_true(needed >= result.peak_requested_bytes);
		assert_true(needed <= result.peak_reserved_bytes + (20 << 20));
		bounds.limit_bytes = needed;
		assert_int_equal(plan_measure(f->plan, &rules, &bounds, &result, &f->err), PLIM_OK);
		assert_int_equal(result.died, TRACE_NONE);
		bounds.limit_bytes = needed - (2 << 20);
		assert_int_equal(plan_measure(f->plan, &rules, &bounds, &result, &f->err), PLIM_OK);
		assert_int_not_equal(result.died, TRACE_NONE);
	}
}

/* A run and one of a step more, in one search: what each needs is what it needs by itself, and so are their phases. */
static void test_needed_of_both(void **state)
{
	static const char *const settings[] = { "", "expandable_segments:True",
						"garbage_collection_threshold:0.7" };
	struct fixture *f = *state;

	f->recipe.batch = 48;
	f->recipe.sequence = 500;
	/* with evaluation the shorter one is not a beginning of the longer one */
	for (size_t i = 0; i < 2 * sizeof(settings) / sizeof(*settings); i++) {
		struct allocator_rules rules;
		struct plan *plans[2];
		struct plan_result both[2], alone;
		uint64_t needed[2], own;

		assert_int_equal(allocator_rules_parse(settings[i / 2], 0, &rules, &f->err),
				 PLIM_OK);
		f->recipe.eval_passes = i % 2 ? 2 : 0;
		f->recipe.eval_batch = 64;
		for (unsigned k = 0; k < 2; k++) {
			f->recipe.steps = 2 + k;
			assert_int_equal(
				plan_build(&f->mem, &f->model, &f->recipe, &plans[k], &f->err),
				PLIM_OK);
		}
		assert_int_equal(
			plan_measure_both(plans, &rules, UINT64_MAX, both, needed, &f->err),
			PLIM_OK);
		for (unsigned k = 0; k < 2; k++) {
			struct plan_phase last = plans[k]->phases.at[plans[k]->phases.n - 1];

			assert_int_equal(plan_measure_needed(plans[k], &rules, UINT64_MAX, &alone,
							     &own, &f->err),
					 PLIM_OK);
			assert_int_equal(needed[k], own);
			assert_memory_equal(&both[k], &alone, sizeof(alone));
			assert_memory_equal(&last, &plans[k]->phases.at[plans[k]->phases.n - 1],
					    sizeof(last));
		}
		/* what needs more than the limit needs UINT64_MAX */
		assert_int_equal(
			plan_measure_both(plans, &rules, needed[0] - 1, both, needed, &f->err),
			PLIM_OK);
		assert_true(needed[0] == UINT64_MAX);
		plan_free(plans[0]);
		plan_free(plans[1]);
	}
}

static struct plan_footprint footprint(struct fixture *f, const struct plan_learned *learned)
{
	struct plan_footprint out;

	f->recipe.learned = learned;
	run(f, UINT64_MAX);
	assert_int_equal(plan_footprint(f->plan, &out, &f->err), PLIM_OK);
	f->recipe.learned = NULL;
	return out;
}

#define OF_FOUR ((uint64_t)4 * TOKENS)

/* What was learned appears in the program where it was learned, to the byte, and only there. */
static void test_learned(void **state)
{
	const struct plan_learned learned = { .resident_bytes = 1000,
					      .state_bytes = 300,
					      .forward = { 0, 640, OF_FOUR },
					      .backward = { 512, 128, OF_FOUR },
					      .optimizer = { 77, 0, 0 } };
	struct plan_learned keeps = { .kept = { 0, 10240, OF_FOUR } };
	struct plan_footprint without, with, kept;
	struct fixture *f = *state;

	f->recipe.batch = 4;
	for (unsigned again = 0; again < 2; again++) {
		f->recipe.checkpointing = again ? PLAN_CHECKPOINT_FULL : PLAN_CHECKPOINT_NONE;
		keeps.between_blocks = again;
		without = footprint(f, NULL);
		with = footprint(f, &learned);
		assert_int_equal(with.resident_bytes - without.resident_bytes, 1300);
		assert_int_equal(with.state_bytes - without.state_bytes, 300);
		assert_int_equal(with.parameter_bytes, without.parameter_bytes);
		assert_int_equal(with.forward_bytes - without.forward_bytes, 640);
		assert_int_equal(with.backward_bytes - without.backward_bytes, 640);
		assert_int_equal(with.optimizer_bytes - without.optimizer_bytes, 77);
		kept = footprint(f, &keeps);
		assert_int_equal(kept.kept_bytes - without.kept_bytes, 10240);
		assert_int_equal(kept.resident_bytes, without.resident_bytes);
		assert_int_equal(lives(f, "bwd1", TIMELINE_ACTIVATION), 0);
	}
	/* blocks that are computed again keep nothing of it until then */
	keeps.between_blocks = false;
	kept = footprint(f, &keeps);
	assert_int_equal(kept.kept_bytes, without.kept_bytes);
}

/* What one recording shows goes by tokens; what two show is a line through both. */
static void test_learning(void **state)
{
	struct plan_pair pairs[2] = {
		{ .recorded = { .resident_bytes = 5000,
				.state_bytes = 700,
				.kept_bytes = 3000,
				.optimizer_bytes = 10 },
		  .planned = { .resident_bytes = 4000,
			       .state_bytes = 500,
			       .kept_bytes = 1000,
			       .optimizer_bytes = 40 },
		  .tokens = 100 },
		{ .recorded = { .resident_bytes = 5000, .state_bytes = 700, .kept_bytes = 6000 },
		  .planned = { .resident_bytes = 4000, .state_bytes = 500, .kept_bytes = 1000 },
		  .tokens = 300 },
	};
	struct plan_learned l;

	(void)state;
	plan_learn(pairs, 1, &l);
	assert_int_equal(l.resident_bytes, 800);
	assert_int_equal(l.state_bytes, 200);
	assert_int_equal(plan_line_at(&l.kept, 100), 2000);
	assert_int_equal(plan_line_at(&l.kept, 1000), 20000);
	assert_int_equal(plan_line_at(&l.optimizer, 100), 0); /* less than planned: not learned */
	for (unsigned turn = 0; turn < 2; turn++) {
		struct plan_pair other = pairs[0];

		plan_learn(pairs, 2, &l);
		assert_int_equal(plan_line_at(&l.kept, 100), 2000);
		assert_int_equal(plan_line_at(&l.kept, 300), 5000);
		assert_int_equal(plan_line_at(&l.kept, 500), 8000);
		pairs[0] = pairs[1];
		pairs[1] = other;
	}
	assert_true(plan_line_at(&l.kept, UINT64_MAX) >= UINT64_MAX / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reduce),
		FIXED(test_states),
		FIXED(test_checkpointing),
		FIXED(test_accumulation),
		FIXED(test_lora),
		FIXED(test_limit),
		FIXED(test_selective),
		cmocka_unit_test(test_chunked_loss),
		FIXED(test_lengths),
		FIXED(test_masters),
		FIXED(test_quantized_weights),
		FIXED(test_gemv),
		cmocka_unit_test(test_devices),
		FIXED(test_caches),
		FIXED(test_kept_cache),
		FIXED(test_out_of_memory),
		FIXED(test_out_of_memory_offloaded),
		cmocka_unit_test(test_offloaded_optimizer),
		FIXED(test_basis),
		FIXED(test_settled),
		FIXED(test_sites),
		FIXED(test_needed),
		FIXED(test_needed_of_both),
		FIXED(test_learned),
		cmocka_unit_test(test_learning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
