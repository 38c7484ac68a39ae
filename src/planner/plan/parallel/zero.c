/*
 * ZeRO-2 as DeepSpeed does it (deepspeed/runtime/zero/stage_1_and_2.py, 0.19), and what stage 3 has in common with it: read,
 * and measured with one process.
 *
 * The model's weights become halves where the recipe computes in halves, before they come to the GPU.  Each process keeps an
 * fp32 copy of its share of all weights, laid out flat, and steps on that: gradients become fp32 for the step alone.
 * Gradients go through a bucket of reduce_bucket_size elements, of which each process keeps its share.
 *
 * All weights are one flat store; the bucket lives for a backward pass, with overlap_comm two of them (setup_buckets()).  A
 * bucket that holds parts of two shares is summed as a copy (allreduce_bucket() flattens its slices; a single one is
 * taken as it is), on a stream of its own where it overlaps.
 */
#include "plan/parallel/parallel.h"

#define BUCKET ((uint64_t)500000000) /* reduce_bucket_size: elements */

/* As configured; "auto" is the Trainer's, some product of the model's width. */
uint64_t zero_size(const struct builder *b, uint64_t given, uint64_t usual, double of_width,
		   bool squared)
{
	double width = (double)b->m->towers[MODEL_TEXT].hidden;

	double size = of_width * width * (squared ? width : 1);

	if (given == PLAN_ZERO_AUTO && of_width > 0)
		return size < (double)MODEL_SIZE ? (uint64_t)size : MODEL_SIZE;
	return given && given != PLAN_ZERO_AUTO ? given : usual;
}

uint64_t build_zero_bucket(const struct builder *b, uint64_t usual)
{
	return zero_size(b, b->r->zero.bucket, usual, 1, true);
}

uint64_t zero_bucket(const struct builder *b)
{
	return build_zero_bucket(b, BUCKET);
}

unsigned zero_width(const struct builder *b)
{
	return tape_dtype_bytes[b->compute];
}

/*
 * module.bfloat16(), parameter by parameter; then they come to the GPU, where they are not yet.  Of stage 3 each comes to be
 * divided.
 */
void zero_convert(struct builder *b)
{
	struct parallel *p = b->parallel;
	bool away = build_is_moved(b);
	struct tape *t = &b->t;

	for (size_t i = 0; i < p->members.n && !t->failed; i++) {
		struct tape_param *x = &t->params.at[p->members.at[i]];
		uint32_t old = x->store;

		if (x->dtype == b->compute && !away)
			continue;
		if (build_is_meta(b) && !away) {
			x->dtype = (uint8_t)b->compute;
			continue;
		}
		x->store = tape_store(t, x->n * zero_width(b), TIMELINE_PARAMETER);
		x->dtype = (uint8_t)b->compute;
		tape_let(t, old);
	}
}

/* The first process's share of what takes gradients, laid out flat: some parameters whole, others not at all. */
void zero_share(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	uint64_t left = 0;

	for (size_t i = 0; i < p->members.n; i++)
		left += t->params.at[p->members.at[i]].trainable ? t->params.at[p->members.at[i]].n
								 : 0;
	p->share = left = (left + b->copies - 1) / b->copies;
	for (size_t i = 0; i < p->members.n; i++) {
		struct tape_param *x = &t->params.at[p->members.at[i]];

		x->own_n = !x->trainable ? 0 : x->n < left ? x->n : left;
		x->own_dtype = TAPE_F32;
		left -= x->own_n;
	}
}

/* One store of so many elements takes the place of all parameters. */
void zero_lay_flat(struct builder *b, uint64_t elements)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	uint32_t flat = tape_store(t, elements * zero_width(b), TIMELINE_PARAMETER);

	for (size_t i = 0; i < p->members.n; i++) {
		struct tape_param *x = &t->params.at[p->members.at[i]];

		tape_let(t, x->store);
		x->store = flat;
		tape_hold(t, flat);
	}
}

/* fp32 weights to step on, made of a copy of halves. */
static void take_zero_masters(struct builder *b)
{
	struct tape *t = &b->t;
	uint32_t copy = tape_store(t, b->parallel->share * zero_width(b), TIMELINE_WORKSPACE);

	tape_store(t, b->parallel->share * 4, TIMELINE_OPTIMIZER_STATE);
	tape_let(t, copy);
}

/* The first gradient of a backward pass is there. */
static void take_buckets(void *self, struct tape_param *x)
{
	struct builder *b = self;

	if (!x->trainable || x->input)
		return;
	zero_take_bucket(b, &b->parallel->scattered);
	if (b->r->zero.overlap)
		zero_take_bucket(b, &b->parallel->twin);
}

static void wrap_zero2(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	uint64_t n = 0;

	zero_convert(b);
	zero_share(b);
	for (size_t i = 0; i < p->members.n; i++)
		n += t->params.at[p->members.at[i]].n;
	zero_lay_flat(b, n);
	take_zero_masters(b);
	tape_touch(t, p->share * 4);
	t->accumulated = take_buckets;
}

/* ---- gradients ---- */

void zero_take_bucket(struct builder *b, uint32_t *bucket)
{
	if (*bucket == TAPE_NONE)
		*bucket = tape_store(&b->t, zero_bucket(b) * zero_width(b), TIMELINE_WORKSPACE);
}

static void zero_back(struct builder *b)
{
	parallel_put_aside(b);
	b->parallel->filled = b->parallel->passed = 0;
}

/* What is in the bucket is summed; it was filled from the end of all parameters. */
static void sum_bucket(struct builder *b)
{
	struct parallel *p = b->parallel;
	uint64_t end = p->share * b->copies - p->passed;

	if (p->filled && (end - p->filled) / p->share != (end - 1) / p->share)
		tape_let(&b->t, tape_store_on(&b->t, b->r->zero.overlap ? ON_REDUCE : ON_COMPUTE,
					      p->filled * zero_width(b), TIMELINE_WORKSPACE));
	p->passed += p->filled;
	p->filled = 0;
}

static void fill_bucket(struct builder *b, const struct tape_param *x)
{
	struct parallel *p = b->parallel;

	if (x->grad == TAPE_NONE)
		return;
	if (p->filled + x->n > zero_bucket(b))
		sum_bucket(b);
	p->filled += x->n;
}

/* A unit's gradients are in the bucket; those of this process's share are copied out of it. */
void zero_reduce(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct unit *u = &p->units[unit];
	struct tape *t = &b->t;

	for (uint32_t i = 0; i < u->n; i++) {
		struct tape_param *x = &t->params.at[p->members.at[u->first + i]];

		if (x->grad == TAPE_NONE)
			continue;
		if (x->own_n && p->gradients == TAPE_NONE && !build_steps_on_host(b))
			p->gradients = tape_store(t, p->share * zero_width(b), TIMELINE_GRADIENT);
	}
	parallel_keep_shares(b, u, p->gradients);
}

static void reduce_zero2(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct unit *u = &p->units[unit];

	for (uint32_t i = u->n; i-- > 0;)
		fill_bucket(b, &b->t.params.at[p->members.at[u->first + i]]);
	zero_reduce(b, unit);
}

static void done_zero2(struct builder *b)
{
	struct parallel *p = b->parallel;

	for (uint32_t u = 0; u <= p->root; u++)
		reduce_zero2(b, u);
	sum_bucket(b);
	tape_let(&b->t, p->scattered);
	tape_let(&b->t, p->twin);
	tape_let(&b->t, p->gradients);
	p->scattered = p->twin = p->gradients = TAPE_NONE;
	parallel_put_back(b);
}

/* The share as fp32, by way of a flat copy of halves. */
static void before_step(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	uint32_t flat = tape_store(t, p->share * zero_width(b), TIMELINE_WORKSPACE), wide;

	wide = tape_store(t, p->share * 4, TIMELINE_GRADIENT);
	tape_let(t, flat);
	for (size_t i = 0; i < p->members.n; i++) {
		struct tape_param *x = &t->params.at[p->members.at[i]];

		if (x->grad == TAPE_NONE)
			continue;
		tape_let(t, x->grad);
		x->grad = wide;
		tape_hold(t, wide);
	}
	tape_let(t, wide);
}

void zero_after_step(struct builder *b)
{
	for (size_t i = 0; i < b->t.params.n; i++) {
		tape_let(&b->t, b->t.params.at[i].grad);
		b->t.params.at[i].grad = TAPE_NONE;
	}
}

static void stay(struct builder *b, uint32_t unit)
{
	(void)b;
	(void)unit;
}

const struct way parallel_zero2 = {
	.wrap = wrap_zero2,
	.enter = stay,
	.leave = stay,
	.back = zero_back,
	.back_leave = reduce_zero2,
	.done = done_zero2,
	.before_step = before_step,
	.after_step = zero_after_step,
	.shards = true,
};
