/*
 * ZeRO-3 as DeepSpeed does it (deepspeed/runtime/zero/stage3.py, partitioned_param_coordinator.py, partition_parameters.py,
 * 0.19): read, and measured with one process, with and without offload.
 *
 * A module's parameters are gathered when it is reached.  From the second step on the order of modules is known: each of
 * them also begins the next ones, stage3_prefetch_bucket_size elements at a time, while fewer than
 * stage3_max_live_parameters are gathered.  That looks past what is gathered already, which then stays for its next
 * use; so does what is used again within stage3_max_reuse_distance.  Small ones are always whole, and one process alone
 * gathers nothing: it uses its share, or a copy of it where shares are on the host.
 *
 * A step visits the embeddings, the blocks, the head, and all of them once more backward.  Gradients go through a bucket that
 * stays; when it is full it is put in the order of shares in another.  The optimizer steps on sub_group_size elements at
 * a time: their gradients become fp32 just then.  Offloaded, norms of shares of gradients are taken in fp64 on the GPU.
 */
#include "plan/parallel/parallel.h"

#define PREFETCH ((uint64_t)50000000) /* stage3_prefetch_bucket_size */
#define LIVE ((uint64_t)1000000000)   /* stage3_max_live_parameters */
#define REUSE ((uint64_t)1000000000)  /* stage3_max_reuse_distance */
#define PERSISTENT ((uint64_t)100000) /* stage3_param_persistence_threshold: smaller ones stay */
#define NORM_BUFFER ((uint64_t)250000000) /* elements of which a norm is taken at once */

static uint64_t prefetch_of(const struct builder *b)
{
	return zero_size(b, b->r->zero.prefetch, PREFETCH, 0.9, true);
}

static uint64_t persistent_of(const struct builder *b)
{
	return zero_size(b, b->r->zero.persistent, PERSISTENT, 10, false);
}

static uint64_t reuse_of(const struct builder *b)
{
	return zero_size(b, b->r->zero.reuse, REUSE, 0, false);
}

static uint64_t live_of(const struct builder *b)
{
	return zero_size(b, b->r->zero.live, LIVE, 0, false);
}

uint64_t build_zero_sub_group(const struct builder *b)
{
	return zero_size(b, b->r->zero.sub_group, PLAN_DEEPSPEED_SUB_GROUP, 0, false);
}

static bool is_persistent(const struct builder *b, const struct tape_param *x)
{
	return x->n < persistent_of(b);
}

/* A process alone has all of each parameter on the GPU: nothing is gathered. */
static bool zero3_is_whole(const struct builder *b)
{
	return b->copies == 1 && b->r->parameters_on == PLAN_ON_GPU;
}

/* ---- visits ---- */

/* Of the root, what comes before all blocks and what comes behind them, as numbers of units. */
static uint32_t first_unit(const struct builder *b)
{
	return b->parallel->root;
}

static uint32_t last_unit(const struct builder *b)
{
	return b->parallel->root + 1;
}

static uint32_t visits_of(const struct builder *b)
{
	return 2 * b->parallel->root + 4;
}

static uint32_t unit_at(const struct builder *b, uint32_t visit)
{
	uint32_t from_end = visits_of(b) - 1 - visit;
	uint32_t k = visit < from_end ? visit : from_end;

	return !k ? first_unit(b) : k <= b->parallel->root ? k - 1 : last_unit(b);
}

static bool is_last(const struct builder *b, uint32_t param)
{
	const struct model_module *m;

	if (param >= b->m->tensors.n)
		return false;
	m = &b->m->modules.at[b->m->tensors.at[param].module];
	return m->tower == MODEL_TEXT && m->block == MODEL_NONE && m->role == MODEL_ROLE_HEAD;
}

/* The next parameter of a unit from *at on, or from its end, or TAPE_NONE. */
static uint32_t next_from(const struct builder *b, uint32_t unit, uint32_t *at, bool backward)
{
	const struct parallel *p = b->parallel;
	const struct unit *u = &p->units[unit < p->root ? unit : p->root];

	while (*at < u->n) {
		uint32_t k = backward ? u->n - 1 - *at : *at;
		uint32_t param = p->members.at[u->first + k];

		++*at;
		if (unit < p->root || p->tied || is_last(b, param) == (unit == last_unit(b)))
			return param;
	}
	return TAPE_NONE;
}

static uint32_t next_of(const struct builder *b, uint32_t unit, uint32_t *at)
{
	return next_from(b, unit, at, false);
}

static uint64_t elements_of(const struct builder *b, uint32_t unit)
{
	uint64_t n = 0;

	for (uint32_t at = 0, param; (param = next_of(b, unit, &at)) != TAPE_NONE;)
		n += b->t.params.at[param].n;
	return n;
}

/* ---- gathering ---- */

static uint64_t gather_zero3(struct builder *b, uint32_t param)
{
	struct parallel *p = b->parallel;
	struct tape_param *x = &b->t.params.at[param];
	uint64_t part = (x->n + b->copies - 1) / b->copies;

	if (p->full.at[param] != TAPE_NONE)
		return 0;
	if (zero3_is_whole(b))
		tape_hold(&b->t, p->full.at[param] = x->store);
	else
		p->full.at[param] = tape_store_on(
			&b->t, ON_GATHER, part * b->copies * zero_width(b), TIMELINE_PARAMETER);
	p->live += x->n;
	return x->n;
}

static void let(struct builder *b, uint32_t param)
{
	struct parallel *p = b->parallel;

	if (is_persistent(b, &b->t.params.at[param]) || p->full.at[param] == TAPE_NONE)
		return;
	tape_let(&b->t, p->full.at[param]);
	p->full.at[param] = TAPE_NONE;
	p->live -= b->t.params.at[param].n;
}

/* Modules of a block that have parameters, and those that hold them, each look ahead. */
#define HOLDERS 3

static void look_ahead(struct builder *b, uint32_t visit)
{
	struct parallel *p = b->parallel;
	uint32_t unit = unit_at(b, visit),
		 end = b->t.grad || b->t.backward ? visits_of(b) : visits_of(b) / 2;
	uint64_t looks = unit < p->root ? p->units[unit].n + HOLDERS : 1;
	uint64_t left = prefetch_of(b) < MODEL_SIZE ? looks * prefetch_of(b) : MODEL_SIZE;

	if (p->ahead <= visit) {
		p->ahead = visit + 1;
		p->ahead_at = 0;
	}
	while (p->ahead < end && p->live < live_of(b) && left) {
		uint32_t param = next_from(b, unit_at(b, p->ahead), &p->ahead_at,
					   p->ahead >= visits_of(b) / 2);
		uint64_t n;

		if (param == TAPE_NONE) {
			p->ahead++;
			p->ahead_at = 0;
			continue;
		}
		p->seen.at[param] = p->ahead;
		n = gather_zero3(b, param);
		left -= n < left ? n : left;
	}
}

/* Before the order is known a forward pass has one module's parameters at a time: the largest. */
static void gather_largest(struct builder *b, uint32_t unit)
{
	uint32_t largest = TAPE_NONE;

	for (uint32_t at = 0, param; (param = next_of(b, unit, &at)) != TAPE_NONE;)
		if (largest == TAPE_NONE || b->t.params.at[param].n > b->t.params.at[largest].n)
			largest = param;
	if (largest != TAPE_NONE)
		(void)gather_zero3(b, largest);
}

static void visit(struct builder *b, uint32_t number)
{
	uint32_t unit = unit_at(b, number);

	if (!b->parallel->ready && number < visits_of(b) / 2) {
		gather_largest(b, unit);
		return;
	}
	for (uint32_t at = 0, param; (param = next_of(b, unit, &at)) != TAPE_NONE;)
		(void)gather_zero3(b, param);
	if (b->parallel->ready && prefetch_of(b))
		look_ahead(b, number);
}

/* When is it used again?  A head that is tied is the embeddings. */
static uint32_t next_visit(const struct builder *b, uint32_t number)
{
	uint32_t all = visits_of(b), end = b->t.grad || b->t.backward ? all : all / 2;

	for (uint32_t v = number + 1; v < end; v++)
		if (unit_at(b, v) == unit_at(b, number) ||
		    (b->parallel->tied && unit_at(b, v) >= b->parallel->root &&
		     unit_at(b, number) >= b->parallel->root))
			return v;
	return TAPE_NONE;
}

static bool is_soon_used(const struct builder *b, uint32_t number)
{
	uint32_t next = next_visit(b, number), half = visits_of(b) / 2;
	bool again = b->r->checkpointing != PLAN_CHECKPOINT_NONE;
	uint64_t passed = 0;

	if (next == TAPE_NONE || !b->parallel->ready)
		return false;
	for (uint32_t v = number + 1; v < next && passed < reuse_of(b); v++)
		passed += elements_of(b, unit_at(b, v)) *
			  (v >= half && unit_at(b, v) < b->parallel->root && again ? 2 : 1);
	return passed < reuse_of(b);
}

static void leave_zero3(struct builder *b, uint32_t number)
{
	uint32_t unit = unit_at(b, number);

	if (is_soon_used(b, number))
		return;
	for (uint32_t at = 0, param; (param = next_of(b, unit, &at)) != TAPE_NONE;)
		if (b->parallel->seen.at[param] <= number)
			let(b, param);
}

static void let_all(struct builder *b)
{
	struct parallel *p = b->parallel;

	for (size_t i = 0; i < p->members.n; i++)
		let(b, p->members.at[i]);
}

/* ---- shares ---- */

/* The shares go to the host, and come back as one block when the cache is empty (utils.py, defragment()). */
static void lay_flat(struct builder *b, uint64_t elements)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	uint32_t flat;

	for (size_t i = 0; i < p->members.n; i++)
		tape_let(t, t->params.at[p->members.at[i]].store);
	if (!t->failed)
		tape_fail(t, vec_push(t->mem, &t->program->ops,
				      ((struct program_op){ TRACE_NONE, TRACE_NONE,
							    PROGRAM_EMPTY_CACHE }),
				      t->err));
	flat = tape_store(t, elements * zero_width(b), TIMELINE_PARAMETER);
	for (size_t i = 0; i < p->members.n; i++) {
		t->params.at[p->members.at[i]].store = flat;
		if (i)
			tape_hold(t, flat);
	}
}

/*
 * fp32 weights to step on, a sub group after the other: a copy is made of what was cast.  The optimizer is then run once for
 * its states on zeros of the largest group (initialize_optimizer_states()).
 */
static void take_zero3_masters(struct builder *b)
{
	struct tape *t = &b->t;
	uint64_t n = 0, left = b->parallel->share, largest = 0;
	uint32_t before = TAPE_NONE;

	for (size_t i = 0; i < t->params.n && b->compute != TAPE_F32; i++) {
		const struct tape_param *x = &t->params.at[i];
		uint64_t own = x->trainable && !x->input && x->store != TAPE_NONE ? x->own_n : 0;
		uint32_t wide;

		n += own;
		left -= own;
		if (!own || (n < build_zero_sub_group(b) && left))
			continue;
		wide = tape_store(t, n * 4, TIMELINE_WORKSPACE);
		tape_let(t, before);
		tape_store(t, n * 4, TIMELINE_OPTIMIZER_STATE);
		before = wide;
		largest = n > largest ? n : largest;
		n = 0;
	}
	tape_let(t, before);
	tape_touch(t, largest * 4);
}

/* This process's share of one parameter. */
static uint32_t share_of(struct builder *b, const struct tape_param *x)
{
	uint64_t bytes = (x->n + b->copies - 1) / b->copies * zero_width(b);

	if (b->r->parameters_on == PLAN_ON_GPU)
		return tape_store(&b->t, bytes, TIMELINE_PARAMETER);
	if (b->r->parameters_on == PLAN_ON_HOST)
		return tape_host_store(&b->t, bytes, PLAN_HOST_WEIGHTS, TAPE_PINNED);
	tape_hold(&b->t, b->away_weights);
	return b->away_weights;
}

/* zero.Init makes each on the GPU and keeps its share. */
static uint64_t divide(struct builder *b, uint32_t param)
{
	struct tape_param *x = &b->t.params.at[param];
	uint32_t whole = x->store;

	if (build_is_meta(b)) {
		tape_let(&b->t, whole);
		whole = tape_store(&b->t, x->n * zero_width(b), TIMELINE_PARAMETER);
	}
	x->store = share_of(b, x);
	if (is_persistent(b, x))
		b->parallel->full.at[param] = whole;
	else
		tape_let(&b->t, whole);
	return (x->n + b->copies - 1) / b->copies;
}

/*
 * Each is gathered once more for its hook (create_reduce_and_remove_grad_hooks()), in a buffer; what comes from the host
 * comes to the GPU next to it.
 */
static void touch_each(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;

	for (size_t i = 0; i < p->members.n; i++) {
		const struct tape_param *x = &t->params.at[p->members.at[i]];
		uint32_t flat;

		if (!x->trainable)
			continue;
		flat = tape_store(t, x->n * zero_width(b), TIMELINE_PARAMETER);
		tape_touch(t, zero3_is_whole(b) ? 0 : x->n * zero_width(b));
		tape_let(t, flat);
	}
}

static void wrap_zero3(struct builder *b)
{
	struct parallel *p = b->parallel;
	uint64_t own = 0;

	zero_convert(b);
	zero_share(b);
	p->tied = true;
	for (size_t i = 0; i < p->members.n; i++)
		p->tied = p->tied && !is_last(b, p->members.at[i]);
	for (size_t i = 0; i < p->members.n && !b->t.failed; i++)
		own += divide(b, p->members.at[i]);
	if (b->r->parameters_on == PLAN_ON_GPU)
		lay_flat(b, own);
	if (!build_steps_on_host(b))
		take_zero3_masters(b);
	zero_take_bucket(b, &p->scattered);
	touch_each(b);
	if (build_steps_on_host(b))
		tape_host_store(&b->t, p->share * zero_width(b), PLAN_HOST_GRADIENTS, TAPE_PINNED);
	else
		p->gradients = tape_store(&b->t, p->share * zero_width(b), TIMELINE_GRADIENT);
}

/* ---- gradients ---- */

static void touch_on_reduce(struct builder *b, uint64_t bytes)
{
	tape_let(&b->t, tape_store_on(&b->t, ON_REDUCE, bytes, TIMELINE_WORKSPACE));
}

/* A share of a gradient that goes to the host: a copy, its norm in fp64, then its fp32. */
static void send(struct builder *b, uint64_t n)
{
	uint64_t part = (n + b->copies - 1) / b->copies;
	uint32_t copy = tape_store_on(&b->t, ON_REDUCE, part * zero_width(b), TIMELINE_WORKSPACE);

	touch_on_reduce(b, (part < NORM_BUFFER ? part : NORM_BUFFER) * 8);
	touch_on_reduce(b, part * 4);
	tape_let(&b->t, copy);
}

/* What is in the bucket is put in the order of shares and scattered; one gradient alone lies in that order. */
static void scatter(struct builder *b)
{
	struct parallel *p = b->parallel;
	uint32_t flat = TAPE_NONE;

	if (p->filled != p->largest)
		flat = tape_store_on(&b->t, ON_REDUCE, p->filled * zero_width(b),
				     TIMELINE_WORKSPACE);
	if (build_steps_on_host(b) && p->filled)
		send(b, p->largest);
	tape_let(&b->t, flat);
	p->filled = p->largest = 0;
}

static void fill_zero3(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct unit *u = &p->units[unit];

	for (uint32_t i = u->n; i-- > 0;) {
		const struct tape_param *x = &b->t.params.at[p->members.at[u->first + i]];

		if (x->grad == TAPE_NONE)
			continue;
		if (p->filled + x->n > zero_bucket(b))
			scatter(b);
		p->filled += x->n;
		p->largest = x->n > p->largest ? x->n : p->largest;
	}
}

/* ---- moments ---- */

static void begin_zero3(struct builder *b)
{
	struct parallel *p = b->parallel;

	for (size_t i = 0; i < p->seen.n; i++)
		p->seen.at[i] = 0;
	p->ahead = p->ahead_at = 0;
	visit(b, 0);
	if (!p->root)
		visit(b, 1);
}

static void enter_zero3(struct builder *b, uint32_t unit)
{
	if (!unit)
		leave_zero3(b, 0);
	visit(b, unit + 1);
}

/* The head is left before the loss is made. */
static void leave_forward(struct builder *b, uint32_t unit)
{
	leave_zero3(b, unit + 1);
	if (unit + 1 < b->parallel->root)
		return;
	visit(b, unit + 2);
	leave_zero3(b, unit + 2);
}

static void end_zero3(struct builder *b)
{
	if (!b->t.grad)
		let_all(b);
}

static void zero3_back(struct builder *b)
{
	b->parallel->filled = b->parallel->largest = 0;
	parallel_put_aside(b);
	visit(b, b->parallel->root + 2);
}

static void back_enter(struct builder *b, uint32_t unit)
{
	uint32_t number = visits_of(b) - 2 - unit;

	if (unit + 1 == b->parallel->root)
		leave_zero3(b, number - 1);
	visit(b, number);
}

static void back_leave(struct builder *b, uint32_t unit)
{
	fill_zero3(b, unit);
	zero_reduce(b, unit);
	leave_zero3(b, visits_of(b) - 2 - unit);
	if (!unit)
		visit(b, visits_of(b) - 1);
}

static void done(struct builder *b)
{
	struct parallel *p = b->parallel;

	fill_zero3(b, p->root);
	scatter(b);
	for (uint32_t u = 0; u <= p->root; u++)
		zero_reduce(b, u);
	let_all(b);
	parallel_put_back(b);
	p->ready = true;
}

const struct way parallel_zero3 = {
	.wrap = wrap_zero3,
	.begin = begin_zero3,
	.enter = enter_zero3,
	.leave = leave_forward,
	.end = end_zero3,
	.back = zero3_back,
	.back_enter = back_enter,
	.back_leave = back_leave,
	.done = done,
	.after_step = zero_after_step,
	.shards = true,
};
