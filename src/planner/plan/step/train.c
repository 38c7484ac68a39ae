/* The loop that a Trainer's user runs: forward, backward, clipping, optimizer, zero_grad, step after step. */
#include "plan/step/build.h"

#include <stdio.h>
#include <string.h>

/* ---- gradients and the optimizer ---- */

static uint64_t training_bytes_of(const struct tape_param *p)
{
	return p->own_n * tape_dtype_bytes[p->own_dtype];
}

static int steps_on(const struct tape_param *p)
{
	return p->trainable && !p->input && p->grad != TAPE_NONE;
}

#define CHUNK 65536 /* elements that a block of a foreach kernel takes */

/* clip_grad_norm_: norms by foreach, a scalar a tensor; gradients are scaled in place. */
static void clip(struct tape *t)
{
	VEC(uint32_t) norms = { 0 };
	uint64_t largest = 0, count = 0;
	uint32_t parts;

	for (size_t i = 0; i < t->params.n; i++) {
		if (!steps_on(&t->params.at[i]))
			continue;
		count++;
		if (t->params.at[i].n > largest)
			largest = t->params.at[i].n;
	}
	parts = tape_store(t, (largest + CHUNK - 1) / CHUNK * count * 4, TIMELINE_TEMPORARY);
	for (uint64_t i = 0; i < count && !t->failed; i++) {
		uint32_t norm = tape_store(t, 4, TIMELINE_TEMPORARY);

		tape_fail(t, vec_push(t->mem, &norms, norm, t->err));
	}
	tape_let(t, parts);
	for (size_t i = 0; i < norms.n; i++)
		tape_let(t, norms.at[i]);
	vec_release(t->mem, &norms);
}

/* How many states of a parameter's own size, and what a step needs beside. */
enum meanwhile {
	NOTHING,
	ALL_AT_ONCE, /* foreach: a list as long as all parameters */
	TWO_OF_ONE,  /* a loop: two of the parameter at hand */
	COMPILED     /* torchao's: the parameter at hand, through Inductor */
};
static const struct rule {
	uint8_t states, fresh;
	enum meanwhile meanwhile;
	uint8_t counters; /* step counters live on the device */
	uint8_t bytes;    /* of an element of a state that is not a code; 0: as the parameter's */
	uint8_t paged;
	uint8_t code;   /* bits of a value that is coded; 0: none is */
	uint16_t block; /* values that share a scale */
	uint16_t map;   /* bytes of a state's own table of what codes mean */
} rules[PLAN_OPTIMIZERS] = {
	[PLAN_ADAMW] = { .states = 2, .meanwhile = ALL_AT_ONCE },
	[PLAN_ADAMW_FUSED] = { .states = 2, .counters = 1 },
	[PLAN_ADAMW_LOOP] = { .states = 2, .meanwhile = TWO_OF_ONE },
	[PLAN_SGD] = { .states = 0 },
	[PLAN_SGD_MOMENTUM] = { .states = 1 },
	[PLAN_ADAMW_8BIT] = { .states = 2, .bytes = 4, .code = 8, .block = 256 },
	[PLAN_ADAMW_PAGED] = { .states = 2, .bytes = 4, .paged = 1 },
	[PLAN_ADAMW_PAGED_8BIT] = { .states = 2, .bytes = 4, .code = 8, .block = 256, .paged = 1 },
	[PLAN_ADAMW_AO_8BIT] = { .states = 2,
				 .code = 8,
				 .block = 256,
				 .map = 256 * 4,
				 .meanwhile = COMPILED },
	[PLAN_ADAMW_AO_4BIT] = { .states = 2,
				 .code = 4,
				 .block = 128,
				 .map = 16 * 4,
				 .meanwhile = COMPILED },
};

/*
 * Small tensors' moments are not coded; bitsandbytes' large ones of paged optimizers live in memory that both can reach.
 * torchao codes whole blocks only (torchao/optim/adam.py, _new_buffer).
 */
#define CODED_FROM 4096
#define PAGED_FROM 100000

/* The Trainer has bitsandbytes keep embeddings' in 32 bits (GlobalOptimManager): a head that is tied to one as well. */
static bool is_coded(const struct builder *b, const struct rule *rule, const struct tape_param *p)
{
	size_t i = (size_t)(p - b->t.params.at);
	bool embedding = i < b->m->tensors.n &&
			 b->m->modules.at[b->m->tensors.at[i].module].kind == MODEL_EMBEDDING;

	if (!rule->code || p->own_n < CODED_FROM)
		return false;
	return rule->map ? p->own_n % rule->block == 0 : !(embedding && b->r->wide_embeddings);
}

static uint64_t state_bytes(const struct builder *b, const struct rule *rule,
			    const struct tape_param *p)
{
	if (is_coded(b, rule, p))
		return p->own_n * rule->code / 8;
	return rule->bytes ? p->own_n * rule->bytes : training_bytes_of(p);
}

/* The scales of codes, which are not paged. */
static uint64_t scale_bytes(const struct builder *b, const struct rule *rule,
			    const struct tape_param *p)
{
	return is_coded(b, rule, p) ? (p->own_n + rule->block - 1) / rule->block * 4 : 0;
}

/* Where a state lives: DeepSpeed keeps them in fp32, and shares out what PyTorch would copy. */
static uint32_t state_store(struct builder *b, const struct rule *rule, const struct tape_param *p)
{
	struct tape *t = &b->t;
	uint64_t shared = plan_is_sharded(b->r) ? 1 : b->copies;

	if (plan_is_deepspeed(b->r))
		return b->r->optimizer_on == PLAN_ON_NVME
			       ? TAPE_NONE
			       : tape_host_store(t, p->own_n * 4 / shared, PLAN_HOST_STATES, 0);
	if (build_steps_on_host(b) || (rule->paged && p->own_n >= PAGED_FROM))
		return tape_host_store(t, state_bytes(b, rule, p), PLAN_HOST_STATES, 0);
	return tape_store(t, state_bytes(b, rule, p), TIMELINE_OPTIMIZER_STATE);
}

static void take_states_of(struct builder *b, const struct rule *rule, struct tape_param *p)
{
	struct tape *t = &b->t;

	if (!steps_on(p) || p->others || p->states[0] != TAPE_NONE)
		return;
	tape_at(t, p->place);
	if (rule->counters && !build_steps_on_host(b))
		p->states[2] = tape_store(t, 4, TIMELINE_OPTIMIZER_STATE);
	for (unsigned k = 0; k < rule->states; k++)
		p->states[k] = state_store(b, rule, p);
	for (unsigned k = 0; k < rule->states; k++) {
		tape_store(t, scale_bytes(b, rule, p), TIMELINE_OPTIMIZER_STATE);
		tape_store(t, is_coded(b, rule, p) ? rule->map : 0, TIMELINE_OPTIMIZER_STATE);
	}
}

/* DeepSpeed's optimizer has one parameter, of what it steps on at once: so are its states. */
static void take_flat_states(struct builder *b, const struct rule *rule, size_t first, size_t end)
{
	uint64_t bytes = 0, scales = 0;
	struct tape *t = &b->t;
	bool fresh = false;

	for (size_t i = first; i < end; i++) {
		const struct tape_param *p = &t->params.at[i];

		if (!steps_on(p) || p->others)
			continue;
		bytes += state_bytes(b, rule, p);
		scales += scale_bytes(b, rule, p);
		fresh = fresh || p->states[0] == TAPE_NONE;
	}
	for (unsigned k = 0; k < rule->states && fresh; k++) {
		uint32_t state = tape_store(t, bytes, TIMELINE_OPTIMIZER_STATE);

		tape_store(t, scales, TIMELINE_OPTIMIZER_STATE);
		for (size_t i = first; i < end; i++)
			t->params.at[i].states[k] = state;
	}
	if (rule->counters && fresh)
		tape_store(t, 4, TIMELINE_OPTIMIZER_STATE);
}

static void take_states(struct builder *b, const struct rule *rule)
{
	for (size_t i = 0; i < b->t.params.n; i++)
		take_states_of(b, rule, &b->t.params.at[i]);
}

/* Parameters that are on the host are stepped on one by one, foreach or not; DeepSpeed's kernel needs nothing beside. */
static void step_on_host(struct builder *b, const struct rule *rule)
{
	uint64_t largest = 0;

	take_states(b, rule);
	for (size_t i = 0; i < b->t.params.n; i++)
		if (steps_on(&b->t.params.at[i]) && training_bytes_of(&b->t.params.at[i]) > largest)
			largest = training_bytes_of(&b->t.params.at[i]);
	if (rule->meanwhile && !plan_is_deepspeed(b->r))
		tape_host_touch(&b->t, 2 * largest, PLAN_HOST_STATES, 0);
}

struct stores {
	uint32_t *at;
	size_t n, cap;
};

static void let_all(struct tape *t, struct stores *list)
{
	while (list->n)
		tape_let(t, list->at[--list->n]);
}

/* A copy of each of these parameters, all at once. */
static void step_all(struct tape *t, size_t first, size_t end)
{
	struct stores list = { 0 };

	for (size_t i = first; i < end && !t->failed; i++) {
		const struct tape_param *p = &t->params.at[i];
		uint32_t s;

		if (!steps_on(p) || p->others)
			continue;
		tape_at(t, p->place);
		s = tape_store(t, training_bytes_of(p), TIMELINE_TEMPORARY);
		tape_fail(t, vec_push(t->mem, &list, s, t->err));
	}
	let_all(t, &list);
	vec_release(t->mem, &list);
}

static void step_alone(struct tape *t, const struct tape_param *p)
{
	uint32_t root = tape_store(t, training_bytes_of(p), TIMELINE_TEMPORARY);

	tape_touch(t, training_bytes_of(p));
	tape_let(t, root);
}

static void step_each(struct tape *t)
{
	for (size_t i = 0; i < t->params.n; i++)
		if (steps_on(&t->params.at[i]))
			step_alone(t, &t->params.at[i]);
}

/* Inductor times its kernels at their first call, behind a write of this much, the second-level cache of an H100. */
#define BENCHMARK_BYTES 52428800

static bool is_first_of_shape(const struct builder *b, size_t i)
{
	const struct model_tensor *at = b->m->tensors.at;
	bool known = i < b->m->tensors.n;

	for (size_t k = 0; known && k < i; k++)
		if (at[k].rank == at[i].rank &&
		    b->t.params.at[k].own_dtype == b->t.params.at[i].own_dtype &&
		    steps_on(&b->t.params.at[k]) &&
		    !memcmp(at[k].dims, at[i].dims, at[i].rank * sizeof(at[i].dims[0])))
			return false;
	return true;
}

/*
 * torchao's single_param_adam as Inductor compiles it: new scales and moments in fp32 of both states; of 4 bits the codes are
 * in 64 bits before they are packed.  Measured on an H100 with torchao 0.18 and PyTorch 2.11 (docs/evidence/plan.md).
 */
static void step_compiled(struct builder *b, const struct rule *rule, size_t i, bool first)
{
	const struct tape_param *p = &b->t.params.at[i];
	uint64_t scale = scale_bytes(b, rule, p), n = p->own_n;
	uint64_t codes = rule->code < 8 ? n * 8 : 0;
	uint64_t sizes[] = { scale, scale, n * 4, n * 4, codes, codes };
	uint32_t stores[sizeof(sizes) / sizeof(sizes[0])];

	if (!is_coded(b, rule, p))
		return;
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
		stores[k] = tape_store(&b->t, sizes[k], TIMELINE_TEMPORARY);
	if (first && is_first_of_shape(b, i))
		tape_touch(&b->t, BENCHMARK_BYTES);
	for (size_t k = sizeof(sizes) / sizeof(sizes[0]); k; k--)
		tape_let(&b->t, stores[k - 1]);
}

/* A parameter's states come just before its first step. */
static void step_each_compiled(struct builder *b, const struct rule *rule)
{
	struct tape *t = &b->t;

	for (size_t i = 0; i < t->params.n && !t->failed; i++) {
		struct tape_param *p = &t->params.at[i];
		bool first = p->states[0] == TAPE_NONE;

		if (!steps_on(p) || p->others)
			continue;
		take_states_of(b, rule, p);
		tape_at(t, p->place);
		step_compiled(b, rule, i, first);
	}
}

/* What one parameter leaves to the next: names of the loop that are still bound. */
struct adafactor {
	uint32_t grad, weight, update;
};

/* Matrices keep a row and a column of the squares' means, vectors all. */
static void take_factors(struct tape *t, struct tape_param *p, uint64_t rows, uint64_t width)
{
	if (p->states[0] != TAPE_NONE)
		return;
	if (!rows) {
		p->states[0] = tape_store(t, p->n * 4, TIMELINE_OPTIMIZER_STATE);
		return;
	}
	p->states[0] = tape_store(t, p->n / width * 4, TIMELINE_OPTIMIZER_STATE);
	p->states[1] = tape_store(t, p->n / rows * 4, TIMELINE_OPTIMIZER_STATE);
}

static uint32_t copy_to_fp32(struct tape *t, const struct tape_param *p)
{
	return p->own_dtype == TAPE_F32 ? TAPE_NONE : tape_store(t, p->n * 4, TIMELINE_TEMPORARY);
}

/*
 * One parameter of transformers' Adafactor without momentum, in fp32: grad^2 + eps, its means over columns and rows
 * (a sum over rows stages in memory), from them the update, which is subtracted as -update.
 */
static void step_one(struct tape *t, struct tape_param *p, uint64_t rows, uint64_t width,
		     struct adafactor *last)
{
	uint64_t bytes = p->n * 4;
	uint32_t square, sum, weight;

	tape_let(t, last->grad);
	last->grad = copy_to_fp32(t, p);
	take_factors(t, p, rows, width);
	weight = copy_to_fp32(t, p);
	tape_let(t, last->weight);
	last->weight = weight;
	square = tape_store(t, bytes, TIMELINE_TEMPORARY);
	sum = tape_store(t, bytes, TIMELINE_TEMPORARY);
	tape_let(t, square);
	tape_let(t, last->update);
	last->update = sum;
	if (rows) {
		tape_touch(t, plan_reduce_bytes(t->device, rows, width, 4));
		sum = tape_store(t, bytes, TIMELINE_TEMPORARY);
		tape_let(t, last->update);
		last->update = sum;
	}
	tape_touch(t, bytes);
}

static void step_factored(struct builder *b, size_t i, struct adafactor *last)
{
	const struct model_tensor *x = i < b->m->tensors.n ? &b->m->tensors.at[i] : NULL;
	int matrix = x && x->rank >= 2;

	step_one(&b->t, &b->t.params.at[i], matrix ? x->dims[x->rank - 2] : 0,
		 matrix ? x->dims[x->rank - 1] : 0, last);
}

static void let_names(struct tape *t, const struct adafactor *last)
{
	tape_let(t, last->grad);
	tape_let(t, last->weight);
	tape_let(t, last->update);
}

static void step_adafactor(struct builder *b)
{
	struct adafactor last = { TAPE_NONE, TAPE_NONE, TAPE_NONE };
	struct tape *t = &b->t;

	for (size_t i = 0; i < t->params.n; i++)
		if (steps_on(&t->params.at[i]))
			step_factored(b, i, &last);
	let_names(t, &last);
}

/*
 * fp32 masters of weights in bf16, as Megatron's Float16OptimizerWithFloat16Params has them: a copy of each weight from
 * the beginning, and of each gradient, in whose place it comes, at each step.
 */
static int has_master(const struct builder *b, const struct tape_param *p)
{
	return b->r->precision == PLAN_BF16_MASTER && !plan_is_zero(b->r) && p->trainable &&
	       !p->input && !p->others && p->dtype != TAPE_F32;
}

static void take_training_masters(struct builder *b)
{
	for (size_t i = 0; i < b->t.params.n; i++) {
		struct tape_param *p = &b->t.params.at[i];

		if (!has_master(b, p))
			continue;
		p->own_dtype = TAPE_F32;
		tape_store(&b->t, training_bytes_of(p), TIMELINE_OPTIMIZER_STATE);
	}
}

static void widen_gradients(struct builder *b)
{
	for (size_t i = 0; i < b->t.params.n; i++) {
		struct tape_param *p = &b->t.params.at[i];
		uint32_t old = p->grad;

		if (!has_master(b, p) || old == TAPE_NONE)
			continue;
		p->grad = tape_store(&b->t, training_bytes_of(p), TIMELINE_GRADIENT);
		tape_let(&b->t, old);
	}
}

/*
 * ZeRO-3 steps on a part of its share after the other (stage3.py, step(): sub groups): gradients of halves are laid flat, become
 * fp32 and go when the part is done.
 */
static void step_in_groups(struct builder *b, const struct rule *rule)
{
	struct tape *t = &b->t;
	uint64_t largest = 0;

	for (size_t i = 0; i < t->params.n; i++)
		if (steps_on(&t->params.at[i]) && t->params.at[i].own_n > largest)
			largest = t->params.at[i].own_n;
	tape_touch(t, largest * 8); /* the norm of each gradient is taken in fp64 */
	for (size_t first = 0, end = 0; first < t->params.n && !t->failed; first = end) {
		unsigned width = tape_dtype_bytes[b->compute];
		uint64_t n = 0;
		uint32_t flat, wide;

		for (; end < t->params.n && n < build_zero_sub_group(b); end++)
			n += steps_on(&t->params.at[end]) ? t->params.at[end].own_n : 0;
		flat = tape_store(t, n * width, TIMELINE_WORKSPACE);
		wide = width == 4 ? TAPE_NONE : tape_store(t, n * 4, TIMELINE_GRADIENT);
		tape_let(t, width == 4 ? TAPE_NONE : flat);
		take_flat_states(b, rule, first, end);
		if (rule->meanwhile == ALL_AT_ONCE)
			step_all(t, first, end);
		tape_let(t, width == 4 ? flat : wide);
	}
}

static void optimize(struct builder *b)
{
	const struct rule *rule = &rules[b->r->optimizer];
	struct tape *t = &b->t;

	tape_at(t, 0);
	if (build_steps_on_host(b)) {
		step_on_host(b, rule);
		return;
	}
	if (b->r->parallel == PLAN_ZERO3 && b->r->optimizer != PLAN_ADAFACTOR) {
		step_in_groups(b, rule);
		build_after_step(b);
		return;
	}
	widen_gradients(b);
	if (!build_before_step(b) && !b->r->no_clip)
		clip(t);
	if (b->r->optimizer == PLAN_ADAFACTOR) {
		step_adafactor(b);
		build_after_step(b);
		return;
	}
	if (rule->meanwhile == COMPILED) {
		step_each_compiled(b, rule);
		build_after_step(b);
		return;
	}
	if (b->r->parallel == PLAN_ZERO2)
		take_flat_states(b, rule, 0, t->params.n);
	else
		take_states(b, rule);
	/* foreach does not take DTensors and plain tensors together */
	if (rule->meanwhile == ALL_AT_ONCE && (b->tp == 1 || build_is_sharded(b)))
		step_all(t, 0, t->params.n);
	else if (rule->meanwhile != NOTHING)
		step_each(t);
	build_after_step(b);
}

/* A hook behind the accumulation of each gradient: one optimizer a parameter, whose gradient goes. */
static void step_now(void *self, struct tape_param *p)
{
	struct builder *b = self;
	const struct rule *rule = &rules[b->r->optimizer];
	struct adafactor last = { TAPE_NONE, TAPE_NONE, TAPE_NONE };
	struct tape *t = &b->t;

	if (!steps_on(p) || p->others)
		return;
	if (b->r->optimizer == PLAN_ADAFACTOR) {
		step_factored(b, (size_t)(p - t->params.at), &last);
		let_names(t, &last);
	} else {
		take_states_of(b, rule, p);
		if (rule->meanwhile == ALL_AT_ONCE)
			tape_touch(t, training_bytes_of(p));
		else if (rule->meanwhile != NOTHING)
			step_alone(t, p);
	}
	tape_let(t, p->grad);
	p->grad = TAPE_NONE;
}

static void zero(struct builder *b)
{
	struct tape *t = &b->t;

	if (build_zeroes_late(b))
		return;
	for (size_t i = 0; i < t->params.n; i++) {
		if (t->params.at[i].input)
			continue;
		tape_let(t, t->params.at[i].grad);
		t->params.at[i].grad = TAPE_NONE;
	}
}

/* ---- passes ---- */

struct loop {
	struct value ids, labels, kept;
};

static void drop_batch(struct builder *b, struct loop *l)
{
	tape_drop(&b->t, &l->ids);
	tape_drop(&b->t, &l->labels);
	tape_drop(&b->t, &b->pixels);
}

/*
 * A picture a sample, in fp32 whatever the model is; for a model that sees nothing, and for one that reads too unless the
 * recipe asks for it, none.
 */
static struct value pixels_of(struct builder *b)
{
	const struct model_numbers *n = &b->m->towers[MODEL_VISION];
	uint64_t configured = n->image_tokens ? 0 : n->image_size;
	uint64_t height = b->r->image_size ? b->r->image_size : configured;
	uint64_t width = b->r->image_width ? b->r->image_width : height;

	if (!n->layers || !height)
		return tape_param(&b->t, TAPE_NONE);
	return tape_new(&b->t,
			b->batch * n->channels * height * width *
				(n->temporal_patch ? n->temporal_patch : 1),
			TAPE_F32, TIMELINE_INPUT);
}

/* Tokens of a sample's labels. */
static uint64_t target(const struct builder *b)
{
	if (!b->m->encoder_decoder)
		return b->sequence;
	return b->r->target_sequence ? b->r->target_sequence : (b->sequence + 3) / 4;
}

/* Tokens of the samples of a step; `step` past the last one is the longest batch's. */
static uint64_t length_of(const struct plan_recipe *r, uint64_t step)
{
	if (r->longest && (step >= r->steps || (!step && r->grouped)))
		return r->longest;
	return r->length_count ? r->lengths[step % r->length_count] : r->sequence;
}

static void next_batch(struct builder *b, struct loop *l, uint64_t batch, uint64_t sequence)
{
	struct value ids = tape_param(&b->t, TAPE_NONE), labels, pixels;
	int reads = b->m->towers[MODEL_TEXT].layers > 0;

	b->batch = batch;
	b->sequence = sequence;
	if (reads)
		ids = tape_new(&b->t, batch * b->sequence, TAPE_I64, TIMELINE_INPUT);
	pixels = pixels_of(b);
	labels = tape_new(&b->t, reads ? batch * target(b) : batch, TAPE_I64, TIMELINE_INPUT);
	drop_batch(b, l);
	l->ids = ids;
	l->labels = labels;
	b->pixels = pixels;
}

static void autocast(struct builder *b)
{
	static const uint8_t to[PLAN_PRECISIONS] = {
		[PLAN_BF16_AUTOCAST] = TAPE_BF16,
		[PLAN_FP16_AUTOCAST] = TAPE_F16,
		[PLAN_BF16_LOADED] = TAPE_BF16,
		[PLAN_FP16_LOADED] = TAPE_F16,
	};

	b->t.autocast =
		to[b->r->precision] == TAPE_F32 || build_is_sharded(b) ? 0 : to[b->r->precision];
}

static struct value forward_training(struct builder *b, struct loop *l, struct value *logits)
{
	struct value loss;

	autocast(b);
	build_cache_begin(b);
	build_before_forward(b);
	loss = build_forward(b, l->ids, l->labels, logits);
	/* the Trainer's model gives its outputs in fp32 (accelerate's convert_outputs_to_fp32) */
	if (b->r->transformers && b->t.autocast && logits->store != TAPE_NONE)
		tape_set(&b->t, logits, op_cast(&b->t, *logits, TAPE_F32));
	tape_uncache(&b->t);
	build_after_forward(b);
	return loss;
}

/* Passes of the longest batch are one phase together. */
static void name_phase(struct builder *b, const char *what, unsigned step, unsigned micro)
{
	char name[12];

	if (step >= b->r->steps)
		return;
	if (!micro) {
		build_phase(b, what, step);
		return;
	}
	snprintf(name, sizeof(name), "%s%u.%u", what, step % 1000, micro % 1000);
	build_phase(b, name, PLAN_NO_NUMBER);
}

static void micro_step(struct builder *b, struct loop *l, unsigned step, unsigned micro)
{
	struct tape *t = &b->t;
	struct value logits, loss;
	uint32_t kept;

	b->reduces = micro + 1 == b->r->accumulate;
	next_batch(b, l, b->r->batch, length_of(b->r, step));
	tape_begin_graph(t);
	loss = forward_training(b, l, &logits);
	tape_end_graph(t); /* the name `loss` is given to the new one */
	kept = tape_store(t, build_learned_kept(b), TIMELINE_ACTIVATION);
	build_forget_leaf(b);
	if (b->r->keep_outputs) {
		tape_set(t, &l->kept, logits);
		build_cache_keep(b);
	} else {
		tape_drop(t, &logits);
		build_cache_drop(b, 0);
	}
	name_phase(b, "fwd", step, micro);
	build_before_backward(b);
	tape_backward(t, loss);
	build_after_backward(b);
	build_forget_shared(b);
	tape_let(t, kept);
	tape_drop(t, &loss);
	name_phase(b, "bwd", step, micro);
}

static void evaluate(struct builder *b, struct loop *l, unsigned pass)
{
	struct tape *t = &b->t;
	struct value logits, loss;

	t->grad = 0;
	next_batch(b, l, b->r->eval_batch, b->r->sequence);
	loss = forward_training(b, l, &logits);
	tape_drop(t, &loss);
	tape_set(t, &l->kept, logits);
	build_cache_keep(b);
	t->grad = 1;
	build_phase(b, "eval", pass);
}

/* All micro-batches of a pipeline's step, in one region of autocast. */
static void pipeline_step(struct builder *b, struct loop *l, unsigned step)
{
	b->reduces = true;
	next_batch(b, l, b->r->batch * b->r->micro_batches, length_of(b->r, step));
	autocast(b);
	build_before_forward(b);
	build_pipeline_step(b, l->ids, l->labels);
	tape_uncache(&b->t);
	build_after_backward(b);
	name_phase(b, "bwd", step, 0);
}

static void train_step(struct builder *b, struct loop *l, unsigned step)
{
	if (b->pipe)
		pipeline_step(b, l, step);
	for (unsigned k = 0; !b->pipe && k < b->r->accumulate && !b->t.failed; k++)
		micro_step(b, l, step, k);
	if (b->r->in_backward)
		return;
	optimize(b);
	if (!step && b->r->learned)
		tape_store(&b->t, b->r->learned->state_bytes, TIMELINE_OPTIMIZER_STATE);
	name_phase(b, "opt", step, 0);
	zero(b);
	name_phase(b, "zero", step, 0);
}

static void train(struct builder *b, struct loop *l)
{
	take_training_masters(b);
	if (b->r->in_backward) {
		b->t.accumulated = step_now;
		b->t.again_self = b;
	}
	for (unsigned i = 0; i < b->r->steps && !b->t.failed; i++)
		train_step(b, l, i);
	if (b->r->longest) {
		train_step(b, l, (unsigned)b->r->steps);
		build_phase(b, "longest", PLAN_NO_NUMBER);
	}
	build_save(b);
	for (unsigned i = 0; i < b->r->eval_passes && !b->t.failed; i++)
		evaluate(b, l, i);
}

/* ---- without gradients ---- */

#define FORWARDS 2 /* the first one takes workspaces, later ones are alike */

static void infer(struct builder *b, struct loop *l, uint64_t batch)
{
	for (unsigned i = 0; i < FORWARDS; i++) {
		struct value logits, loss;

		next_batch(b, l, batch, b->r->sequence);
		tape_drop(&b->t, &l->kept);
		build_cache_drop(b, 1);
		tape_drop(&b->t, &l->labels);
		build_cache_begin(b);
		build_before_forward(b);
		loss = build_forward(b, l->ids, l->labels, &logits);
		tape_uncache(&b->t);
		build_after_forward(b);
		tape_drop(&b->t, &loss);
		l->kept = logits; /* the batch keeps its name, too */
		build_cache_keep(b);
		build_phase(b, "fwd", i);
	}
}

/* Of the logits in fp32: their logarithms, with those of the beams added; then the cache is put in order. */
static void choose_beams(struct builder *b, struct value *next)
{
	struct tape *t = &b->t;
	struct value log = op_apply(t, OP_SCALE, *next), sum = op_apply(t, OP_SCALE, *next);

	tape_drop(t, next);
	tape_drop(t, &log);
	tape_drop(t, &sum);
	build_cache_reorder(b);
}

/* One forward pass of generate(), on so many tokens of each sample. */
static void extend(struct builder *b, uint64_t tokens)
{
	struct tape *t = &b->t;
	struct value ids, logits, next, none = tape_param(t, TAPE_NONE);

	b->sequence = tokens;
	ids = tape_new(t, b->batch * tokens, TAPE_I64, TIMELINE_INPUT);
	build_decoder(b, ids, none, &logits);
	tape_drop(t, &ids);
	if (b->cache)
		b->cached += tokens;
	next = op_cast(t, logits, TAPE_F32);
	if (b->r->beams > 1)
		choose_beams(b, &next);
	tape_drop(t, &logits);
	tape_drop(t, &next);
}

#define STEPS_SHOWN 64 /* more new tokens than that are taken several at a time */

/* The last new token is not fed back. */
static void extend_all(struct builder *b, uint64_t tokens)
{
	uint64_t stride = tokens / STEPS_SHOWN + 1, left = tokens ? tokens - 1 : 0;

	struct value pixels;

	extend(b, b->r->sequence);
	pixels = b->pixels; /* what was seen is in the cache */
	b->pixels = tape_param(&b->t, TAPE_NONE);
	b->decoding = true;
	for (; left && !b->t.failed; left -= stride) {
		if (stride > left)
			stride = left;
		if (b->cache)
			b->cached += stride - 1;
		extend(b, b->cache ? 1 : b->sequence + stride);
	}
	b->decoding = false;
	b->pixels = pixels;
}

/* Each beam of a sample is a sample of its own from the beginning, with a copy of the image. */
static void expand(struct builder *b)
{
	uint64_t beams = b->r->beams ? b->r->beams : 1;

	b->batch = b->r->batch * beams;
	if (beams > 1 && b->pixels.store != TAPE_NONE)
		tape_set(&b->t, &b->pixels,
			 tape_new(&b->t, b->pixels.n * beams, b->pixels.dtype, TIMELINE_INPUT));
}

/* Passes over whole samples, which keep the logits of all tokens, come before only where they were asked for. */
static void generate(struct builder *b, struct loop *l)
{
	if (b->r->eval_passes)
		infer(b, l, b->r->eval_batch);
	if (!b->r->eval_passes || b->r->eval_batch != b->r->batch)
		next_batch(b, l, b->r->batch, b->r->sequence);
	tape_drop(&b->t, &l->labels);
	tape_drop(&b->t, &l->kept);
	build_cache_drop(b, 1);
	expand(b);
	b->generating = true;
	build_cache_begin(b);
	extend_all(b, b->r->new_tokens);
	build_cache_drop(b, 0);
	b->cache = NULL;
	b->generating = false;
	build_phase(b, "generate", PLAN_NO_NUMBER);
}

void build_run(struct builder *b)
{
	struct value none = tape_param(&b->t, TAPE_NONE);
	struct loop l = { none, none, none };

	b->cos = b->sin = b->other_cos = b->other_sin = b->mask = b->pixels = b->cross_bias =
		b->encoded = none;
	b->seen_cos = b->seen_sin = b->targets = none;
	for (unsigned i = 0; i < 3; i++)
		b->seen_kept[i] = none;
	for (unsigned i = 0; i < BUILD_DEEP; i++)
		b->seen_deep[i] = none;
	for (unsigned i = 0; i < MODEL_TOWERS; i++)
		b->bias[i] = none;
	build_cache_open(b);
	if (b->r->task == PLAN_TRAIN) {
		b->t.away = (uint8_t)b->r->activations;
		train(b, &l);
	} else {
		b->t.grad = 0;
		autocast(b);
		if (b->r->task == PLAN_GENERATE)
			generate(b, &l);
		else
			infer(b, &l, b->r->batch);
	}
	build_cache_close(b);
}
