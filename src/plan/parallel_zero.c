/*
 * ZeRO as DeepSpeed does it (deepspeed/runtime/zero/stage_1_and_2.py, stage3.py, 0.19): read, and measured with one process.
 *
 * The model's weights become halves where the recipe computes in halves.  Each process keeps an fp32 copy of its share of all
 * weights, laid out flat, and steps on that: gradients become fp32 for the step alone.  Gradients go through a bucket of
 * reduce_bucket_size elements, of which each process keeps its share.
 *
 * Stage 2: all weights are one flat store; the bucket lives for a backward pass, with overlap_comm two of them
 * (setup_buckets()).  A bucket that holds parts of two shares is summed as a copy (allreduce_bucket() flattens its
 * slices; a single one is taken as it is), on a stream of its own where it overlaps.  Stage 3: a unit's weights are gathered
 * before they are used, up to stage3_prefetch_bucket_size of the next one's ahead; what the backward pass needs
 * again within stage3_max_reuse_distance stays (from the second step on: the first is traced); small ones are always whole.
 * Bucket and shares of gradients stay, and the optimizer's states are born when the model is wrapped.
 */
#include "parallel.h"

#define BUCKET ((uint64_t)500000000)  /* reduce_bucket_size: elements */
#define PREFETCH ((uint64_t)50000000) /* stage3_prefetch_bucket_size */
#define REUSE ((uint64_t)1000000000)  /* stage3_max_reuse_distance */
#define PERSISTENT ((uint64_t)100000) /* stage3_param_persistence_threshold: smaller ones stay */

/* As configured; "auto" is the Trainer's, some product of the model's width. */
static uint64_t size_of(const struct builder *b, uint64_t given, uint64_t usual, double of_width,
			bool squared)
{
	double width = (double)b->m->towers[MODEL_TEXT].hidden;

	double size = of_width * width * (squared ? width : 1);

	if (given == PLAN_ZERO_AUTO)
		return size < (double)MODEL_SIZE ? (uint64_t)size : MODEL_SIZE;
	return given ? given : usual;
}

uint64_t build_zero_bucket(const struct builder *b, uint64_t usual)
{
	return size_of(b, b->r->zero.bucket, usual, 1, true);
}

static uint64_t bucket_of(const struct builder *b)
{
	return build_zero_bucket(b, BUCKET);
}

static uint64_t prefetch_of(const struct builder *b)
{
	return size_of(b, b->r->zero.prefetch, PREFETCH, 0.9, true);
}

static uint64_t persistent_of(const struct builder *b)
{
	return size_of(b, b->r->zero.persistent, PERSISTENT, 10, false);
}

static uint64_t reuse_of(const struct builder *b)
{
	return size_of(b, b->r->zero.reuse, REUSE, 0, false);
}

static unsigned width_of(const struct builder *b)
{
	return tape_dtype_bytes[b->compute];
}

/* module.bfloat16(): parameter by parameter. */
static void convert(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;

	for (size_t i = 0; i < p->members.n && !t->failed; i++) {
		struct tape_param *x = &t->params.at[p->members.at[i]];
		uint32_t old = x->store;

		if (x->dtype == b->compute)
			continue;
		if (build_is_meta(b)) {
			x->dtype = (uint8_t)b->compute;
			continue;
		}
		x->store = tape_store(t, x->n * width_of(b), TIMELINE_PARAMETER);
		x->dtype = (uint8_t)b->compute;
		tape_let(t, old);
	}
}

/* The first process's share of what takes gradients, laid out flat: some parameters whole, others not at all. */
static void share(struct builder *b)
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
static void lay_flat(struct builder *b, uint64_t elements)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	uint32_t flat = tape_store(t, elements * width_of(b), TIMELINE_PARAMETER);

	for (size_t i = 0; i < p->members.n; i++) {
		struct tape_param *x = &t->params.at[p->members.at[i]];

		tape_let(t, x->store);
		x->store = flat;
		tape_hold(t, flat);
	}
}

/* fp32 weights to step on, made of a copy of halves. */
static void take_masters(struct builder *b)
{
	struct tape *t = &b->t;
	uint32_t copy = tape_store(t, b->parallel->share * width_of(b), TIMELINE_WORKSPACE);

	tape_store(t, b->parallel->share * 4, TIMELINE_OPTIMIZER_STATE);
	tape_let(t, copy);
}

static void wrap_zero2(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	uint64_t n = 0;

	convert(b);
	share(b);
	for (size_t i = 0; i < p->members.n; i++)
		n += t->params.at[p->members.at[i]].n;
	lay_flat(b, n);
	take_masters(b);
	tape_touch(t, p->share * 4);
}

/* ---- gradients ---- */

static void take_bucket(struct builder *b, uint32_t *bucket)
{
	if (*bucket == TAPE_NONE)
		*bucket = tape_store(&b->t, bucket_of(b) * width_of(b), TIMELINE_WORKSPACE);
}

static void back(struct builder *b)
{
	struct parallel *p = b->parallel;

	parallel_put_aside(b);
	take_bucket(b, &p->scattered);
	if (b->r->zero.overlap)
		take_bucket(b, &p->twin);
	p->filled = p->passed = 0;
}

/* What is in the bucket is summed; it was filled from the end of all parameters. */
static void sum_bucket(struct builder *b)
{
	struct parallel *p = b->parallel;
	uint64_t end = p->share * b->copies - p->passed;

	if (p->filled && (end - p->filled) / p->share != (end - 1) / p->share)
		tape_let(&b->t, tape_store_on(&b->t, b->r->zero.overlap ? ON_REDUCE : ON_COMPUTE,
					      p->filled * width_of(b), TIMELINE_WORKSPACE));
	p->passed += p->filled;
	p->filled = 0;
}

static void fill_bucket(struct builder *b, const struct tape_param *x)
{
	struct parallel *p = b->parallel;

	if (x->grad == TAPE_NONE)
		return;
	if (p->filled + x->n > bucket_of(b))
		sum_bucket(b);
	p->filled += x->n;
}

/* A unit's gradients are in the bucket; those of this process's share are copied out of it. */
static void reduce(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct unit *u = &p->units[unit];
	struct tape *t = &b->t;

	for (uint32_t i = 0; i < u->n; i++) {
		struct tape_param *x = &t->params.at[p->members.at[u->first + i]];

		if (x->grad == TAPE_NONE)
			continue;
		if (x->own_n && p->gradients == TAPE_NONE)
			p->gradients = tape_store(t, p->share * width_of(b), TIMELINE_GRADIENT);
	}
	parallel_keep_shares(b, u, p->gradients);
}

static void reduce_zero2(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct unit *u = &p->units[unit];

	for (uint32_t i = u->n; i-- > 0;)
		fill_bucket(b, &b->t.params.at[p->members.at[u->first + i]]);
	reduce(b, unit);
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

/* The share as fp32, by way of a flat copy of halves: stage 3 takes so many elements at a time, stage 2 all. */
static void before_step(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	uint64_t n = b->r->parallel == PLAN_ZERO2 || p->share < PLAN_DEEPSPEED_SUB_GROUP
			     ? p->share
			     : PLAN_DEEPSPEED_SUB_GROUP;
	uint32_t flat = tape_store(t, n * width_of(b), TIMELINE_WORKSPACE), wide;

	wide = tape_store(t, n * 4, TIMELINE_GRADIENT);
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

static void after_step(struct builder *b)
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
	.back = back,
	.back_leave = reduce_zero2,
	.done = done_zero2,
	.before_step = before_step,
	.after_step = after_step,
	.shards = true,
};

/* ---- stage 3 ---- */

static bool is_persistent(const struct builder *b, const struct tape_param *x)
{
	return x->n < persistent_of(b);
}

/* Shares one by one, then flat; small ones stay whole beside them. */
static void wrap_zero3(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	uint64_t own = 0;

	convert(b);
	share(b);
	for (uint32_t k = 0; k <= p->root; k++)
		for (uint32_t i = 0; i < p->units[k].n; i++) {
			uint32_t param = p->members.at[p->units[k].first + i];
			struct tape_param *x = &t->params.at[param];
			uint64_t part = (x->n + b->copies - 1) / b->copies;
			uint32_t whole = x->store;

			if (build_is_meta(
				    b)) { /* zero.Init makes each on the GPU and keeps its share */
				tape_let(t, whole);
				whole = tape_store(t, x->n * width_of(b), TIMELINE_PARAMETER);
			}
			x->store = tape_store(t, part * width_of(b), TIMELINE_PARAMETER);
			own += part;
			p->units[k].whole += is_persistent(b, x) ? 0 : part * b->copies;
			if (is_persistent(b, x))
				p->full.at[param] = whole;
			else
				tape_let(t, whole);
		}
	lay_flat(b, own);
	take_masters(b);
	take_bucket(b, &p->scattered);
	p->gradients = tape_store(t, p->share * width_of(b), TIMELINE_GRADIENT);
}

/* What is gathered now, or of the next unit ahead: up to `most` elements; the rest follows when it is used. */
static void gather(struct builder *b, uint32_t unit, uint64_t most)
{
	struct unit *u = &b->parallel->units[unit];
	uint64_t n = u->whole < most ? u->whole : most;

	if (u->open || (most < UINT64_MAX && u->coming != TAPE_NONE))
		return;
	if (most < UINT64_MAX) {
		u->coming = tape_store(&b->t, n * width_of(b), TIMELINE_PARAMETER);
		return;
	}
	if (u->coming == TAPE_NONE || u->whole > prefetch_of(b))
		u->full =
			tape_store(&b->t,
				   (u->coming == TAPE_NONE ? u->whole : u->whole - prefetch_of(b)) *
					   width_of(b),
				   TIMELINE_PARAMETER);
	u->open = true;
}

static void release(struct builder *b, uint32_t unit)
{
	struct unit *u = &b->parallel->units[unit];

	tape_let(&b->t, u->full);
	tape_let(&b->t, u->coming);
	u->full = u->coming = TAPE_NONE;
	u->open = false;
}

static void begin(struct builder *b)
{
	gather(b, b->parallel->root, UINT64_MAX);
}

static void enter(struct builder *b, uint32_t unit)
{
	gather(b, unit, UINT64_MAX);
	if (unit + 1 < b->parallel->root)
		gather(b, unit + 1, prefetch_of(b));
}

/* Does the backward pass come back to it soon? */
static void leave(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	uint64_t behind = p->units[p->root].whole;

	for (uint32_t u = unit + 1; u < p->root && behind < reuse_of(b); u++)
		behind += p->units[u].whole;
	if (!p->ready || !b->t.grad || 2 * behind >= reuse_of(b))
		release(b, unit);
}

static void end(struct builder *b)
{
	if (!b->t.grad)
		release(b, b->parallel->root);
}

static void back_zero3(struct builder *b)
{
	parallel_put_aside(b);
}

static void back_enter(struct builder *b, uint32_t unit)
{
	gather(b, unit, UINT64_MAX);
	if (unit)
		gather(b, unit - 1, prefetch_of(b));
}

static void back_leave(struct builder *b, uint32_t unit)
{
	reduce(b, unit);
	release(b, unit);
}

/* What is in the bucket is put in the order of shares before it is scattered. */
static void done_zero3(struct builder *b)
{
	struct parallel *p = b->parallel;
	uint64_t n = 0;

	for (uint32_t u = 0; u <= p->root; u++) {
		back_leave(b, u);
		n += p->units[u].whole;
	}
	tape_touch(&b->t, (n < bucket_of(b) ? n : bucket_of(b)) * width_of(b));
	parallel_put_back(b);
	p->ready = true;
}

const struct way parallel_zero3 = {
	.wrap = wrap_zero3,
	.begin = begin,
	.enter = enter,
	.leave = leave,
	.end = end,
	.back = back_zero3,
	.back_enter = back_enter,
	.back_leave = back_leave,
	.done = done_zero3,
	.before_step = before_step,
	.after_step = after_step,
	.shards = true,
};
