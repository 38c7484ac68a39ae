/*
 * Each process keeps a share of every parameter.  A unit is gathered before it is used and let go behind it, in the
 * forward and in the backward pass; gradients are reduced in the weights' dtype, and a share of them is kept.
 *
 * FSDP 2 (torch/distributed/fsdp/_fully_shard, 2.11): shares parameter by parameter.  A unit's shares are cast and gathered
 * into one buffer on a stream of its own, from which parameters are copied; in the forward pass that buffer lives until the
 * next unit has been copied, in the backward pass the next unit is gathered ahead.  Gradients are copied into a
 * buffer that lives until the next unit's, the shares come out of it as one.
 *
 * FSDP 1 (torch/distributed/fsdp/_runtime_utils.py, _flat_param.py): a unit is one flat parameter, which is gathered in
 * place.  What other streams use is let go when they are through: the limiter waits for all but the last two units.
 * With use_orig_params, as accelerate sets it, zeroed gradients live until the next forward pass.  Each matrix of an
 * adapter is a unit of its own (PEFT's fsdp_auto_wrap_policy), so frozen weights are never reduced.
 */
#include "plan/parallel/parallel.h"

static unsigned fsdp_width_of(const struct builder *b)
{
	return tape_dtype_bytes[b->compute];
}

static bool is_cast(const struct builder *b)
{
	return b->compute != b->weights;
}

/* ---- shares of parameters, one by one ---- */

/* All of a unit are shared out before its whole ones go. */
static void wrap_fsdp2(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;

	for (uint32_t k = 0; k <= p->root && !t->failed; k++) {
		struct unit *u = &p->units[k];
		const uint32_t *members = p->members.at + u->first;

		for (uint32_t i = 0; i < u->n; i++) {
			struct tape_param *x = &t->params.at[members[i]];

			x->own_n = parallel_share(b, members[i]);
			u->own += x->own_n;
			p->full.at[members[i]] = x->store;
			if (build_is_meta(b)) /* broadcast from the first rank, then sharded */
				tape_touch(t, x->n * tape_dtype_bytes[x->dtype]);
			x->store = build_shard(b, x->own_n * tape_dtype_bytes[x->dtype]);
			x->own_dtype = x->dtype;
			x->dtype = (uint8_t)b->compute;
		}
		u->whole = u->own * b->copies;
		for (uint32_t i = 0; i < u->n; i++) {
			tape_let(t, p->full.at[members[i]]);
			p->full.at[members[i]] = TAPE_NONE;
		}
	}
}

static void add_share(struct builder *b, uint32_t store)
{
	if (!b->t.failed)
		tape_fail(&b->t, vec_push(b->t.mem, &b->parallel->shares, store, b->t.err));
}

/* Shares that are on the host come to the GPU one by one and are cast there (FSDPParam.all_gather_inputs). */
static void fetch(struct builder *b, const struct unit *u)
{
	const struct parallel *p = b->parallel;
	struct tape *t = &b->t;

	for (uint32_t i = 0; i < u->n; i++) {
		uint64_t own = t->params.at[p->members.at[u->first + i]].own_n;
		uint32_t raw = tape_store_on(t, ON_GATHER_IN, own * tape_dtype_bytes[b->weights],
					     TIMELINE_WORKSPACE);

		if (!is_cast(b)) {
			add_share(b, raw);
			continue;
		}
		add_share(b, tape_store_on(t, ON_GATHER_IN, own * fsdp_width_of(b),
					   TIMELINE_WORKSPACE));
		tape_let(t, raw);
	}
}

static void let_shares(struct builder *b)
{
	struct parallel *p = b->parallel;

	for (size_t i = 0; i < p->shares.n; i++)
		tape_let(&b->t, p->shares.at[i]);
	p->shares.n = 0;
}

static void gather_fsdp(struct builder *b, uint32_t unit)
{
	struct unit *u = &b->parallel->units[unit];
	struct tape *t = &b->t;

	if (u->open || u->coming != TAPE_NONE || !u->n)
		return;
	if (b->r->parameters_on)
		fetch(b, u);
	else if (is_cast(b))
		add_share(b, tape_store_on(t, ON_GATHER_IN, u->own * fsdp_width_of(b),
					   TIMELINE_WORKSPACE));
	u->coming = tape_store_on(t, ON_GATHER_IN, u->whole * fsdp_width_of(b), TIMELINE_PARAMETER);
	let_shares(b);
}

/* Parameters come out of the buffer, which the caller has then. */
static uint32_t unpack_fsdp(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct unit *u = &p->units[unit];
	struct tape *t = &b->t;
	uint32_t buffer;

	gather_fsdp(b, unit);
	buffer = u->coming;
	u->coming = TAPE_NONE;
	for (uint32_t i = 0; i < u->n && !u->open; i++) {
		uint32_t param = p->members.at[u->first + i];

		p->full.at[param] =
			tape_store(t, t->params.at[param].own_n * b->copies * fsdp_width_of(b),
				   TIMELINE_PARAMETER);
	}
	u->open = true;
	return buffer;
}

static void reshard(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct unit *u = &p->units[unit];

	for (uint32_t i = 0; i < u->n && u->open; i++) {
		uint32_t param = p->members.at[u->first + i];

		tape_let(&b->t, p->full.at[param]);
		p->full.at[param] = TAPE_NONE;
	}
	u->open = false;
}

static void enter_fsdp(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	uint32_t buffer;

	if (p->units[unit].open)
		return;
	buffer = unpack_fsdp(b, unit);
	tape_let(&b->t, p->gathered);
	p->gathered = buffer;
}

static void begin_fsdp(struct builder *b)
{
	enter_fsdp(b, b->parallel->root);
}

static void flush_fsdp(struct builder *b)
{
	tape_let(&b->t, b->parallel->gathered);
	b->parallel->gathered = TAPE_NONE;
}

static void end_fsdp(struct builder *b)
{
	reshard(b, b->parallel->root);
	flush_fsdp(b);
}

/* The unit that the backward pass comes to, and the one behind it. */
static void back_enter(struct builder *b, uint32_t unit)
{
	tape_let(&b->t, unpack_fsdp(b, unit));
	if (unit)
		gather_fsdp(b, unit - 1);
}

static void fsdp_back(struct builder *b)
{
	parallel_put_aside(b);
	back_enter(b, b->parallel->root);
}

/* What of the unit has a gradient: elements of the share. */
static uint64_t reduced(const struct builder *b, const struct unit *u)
{
	const struct parallel *p = b->parallel;
	uint64_t n = 0;

	for (uint32_t i = 0; i < u->n; i++) {
		const struct tape_param *x = &b->t.params.at[p->members.at[u->first + i]];

		n += x->grad == TAPE_NONE ? 0 : x->own_n;
	}
	return n;
}

static void reduce(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct unit *u = &p->units[unit];
	struct tape *t = &b->t;
	unsigned width = tape_dtype_bytes[b->weights];
	uint64_t own = reduced(b, u);
	uint32_t shares, last = TAPE_NONE;

	if (!own)
		return;
	tape_let(t, p->scattered);
	p->scattered = tape_store(t, own * b->copies * width, TIMELINE_WORKSPACE);
	/* whole gradients go before their shares come, except for the last, which a loop's variable still names */
	for (uint32_t i = 0; i < u->n; i++) {
		struct tape_param *x = &t->params.at[p->members.at[u->first + i]];

		if (x->grad == TAPE_NONE)
			continue;
		tape_let(t, last);
		last = x->grad;
		x->grad = p->scattered;
		tape_hold(t, x->grad);
	}
	shares = tape_store_on(t, ON_REDUCE, own * width, TIMELINE_GRADIENT);
	tape_let(t, last);
	parallel_keep_shares(b, u, shares);
	tape_let(t, shares);
}

static void back_leave(struct builder *b, uint32_t unit)
{
	reshard(b, unit);
	reduce(b, unit);
}

/* The units whose beginning no gradient reached, then the root. */
static void done(struct builder *b)
{
	for (uint32_t u = 0; u <= b->parallel->root; u++)
		back_leave(b, u);
	tape_let(&b->t, b->parallel->scattered);
	b->parallel->scattered = TAPE_NONE;
	parallel_put_back(b);
}

const struct way parallel_fsdp2 = {
	.wrap = wrap_fsdp2,
	.begin = begin_fsdp,
	.enter = enter_fsdp,
	.leave = reshard,
	.end = end_fsdp,
	.back = fsdp_back,
	.back_enter = back_enter,
	.back_leave = back_leave,
	.done = done,
	.shards = true,
};

/* Gathered once for both passes. */
static void stay(struct builder *b, uint32_t unit)
{
	(void)b;
	(void)unit;
}

static void back_zero2(struct builder *b)
{
	parallel_put_aside(b);
}

const struct way parallel_fsdp2_zero2 = {
	.wrap = wrap_fsdp2,
	.begin = begin_fsdp,
	.enter = enter_fsdp,
	.leave = stay,
	.end = flush_fsdp,
	.back = back_zero2,
	.back_leave = back_leave,
	.done = done,
	.shards = true,
};

/* ---- flat parameters ---- */

static bool is_adapter(const struct builder *b, uint32_t param)
{
	return param >= b->m->tensors.n;
}

/* This is the first rank: of a flat parameter it has the first elements, so some parameters whole and others not at all. */
static void share_flat(struct builder *b, const struct unit *u, uint32_t store, uint64_t own)
{
	struct tape *t = &b->t;

	for (uint32_t i = 0; i < u->n; i++) {
		uint32_t param = b->parallel->members.at[u->first + i];
		struct tape_param *x = &t->params.at[param];

		if (is_adapter(b, param))
			continue;
		tape_let(t, x->store);
		x->store = store;
		tape_hold(t, store);
		x->own_n = x->n < own ? x->n : own;
		own -= x->own_n;
		x->own_dtype = x->dtype;
		x->dtype = (uint8_t)b->compute;
	}
	tape_let(t, store);
}

static void share_adapter(struct builder *b, struct tape_param *x)
{
	struct tape *t = &b->t;
	uint32_t whole = x->store;

	x->own_n = (x->n + b->copies - 1) / b->copies;
	x->own_dtype = x->dtype;
	x->store = build_flat_shard(b, x->own_n * tape_dtype_bytes[x->own_dtype]);
	x->dtype = (uint8_t)b->compute;
	tape_let(t, whole);
}

/* Adapters are wrapped before the block that they are in, and gathered while it is. */
static uint64_t wrap_adapters(struct builder *b, const struct unit *u)
{
	struct parallel *p = b->parallel;
	uint64_t whole = 0;

	for (uint32_t i = 0; i < u->n && !b->t.failed; i++) {
		uint32_t param = p->members.at[u->first + i];
		struct tape_param *x = &b->t.params.at[param];

		if (!is_adapter(b, param))
			continue;
		share_adapter(b, x);
		whole += x->own_n * b->copies;
	}
	return whole;
}

static void wrap_fsdp1(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;

	for (uint32_t k = 0; k <= p->root && !t->failed; k++) {
		struct unit *u = &p->units[k];
		unsigned width = tape_dtype_bytes[b->weights];
		uint64_t adapters = wrap_adapters(b, u);
		uint32_t flat, store;

		u->whole_grads = TAPE_NONE;
		for (uint32_t i = 0; i < u->n; i++) {
			uint32_t param = p->members.at[u->first + i];
			struct tape_param *x = &t->params.at[param];

			if (is_adapter(b, param))
				continue;
			u->whole += x->n;
			if (build_is_meta(b)) { /* to_empty(), or the first rank's weights */
				tape_let(t, x->store);
				x->store = tape_store(t, x->n * width, TIMELINE_PARAMETER);
			}
		}
		u->own = (u->whole + b->copies - 1) / b->copies;
		u->whole = u->own * b->copies;
		flat = tape_store(t, u->whole * width, TIMELINE_PARAMETER);
		store = build_flat_shard(b, u->own * width);
		tape_let(t, flat);
		share_flat(b, u, store, u->own);
		u->whole += adapters;
	}
}

/* What was let go early has been used up. */
static void settle_fsdp(struct builder *b, unsigned which)
{
	tape_let(&b->t, b->parallel->late[which]);
	b->parallel->late[which] = TAPE_NONE;
}

/* What is gathered, where it is not the share itself: cast, or brought from the host, by way of a copy as it is there. */
static uint32_t take_flat(struct builder *b, const struct unit *u)
{
	struct tape *t = &b->t;
	uint32_t cast = TAPE_NONE, raw = TAPE_NONE;

	if (is_cast(b) || b->r->parameters_on)
		cast = tape_store_on(t, ON_GATHER_IN, u->own * fsdp_width_of(b),
				     TIMELINE_WORKSPACE);
	if (is_cast(b) && b->r->parameters_on)
		raw = tape_store_on(t, ON_GATHER_IN, u->own * tape_dtype_bytes[b->weights],
				    TIMELINE_WORKSPACE);
	tape_let(t, raw);
	return cast;
}

static void gather_flat(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct unit *u = &p->units[unit];
	struct tape *t = &b->t;
	uint32_t cast;

	if (u->open || !u->n)
		return;
	cast = take_flat(b, u);
	settle_fsdp(b, 0); /* the limiter: two units at most are on their way */
	if (b->lora)       /* adapters are units, too: enough of them came in between */
		settle_fsdp(b, 1);
	p->late[0] = p->late[1];
	p->late[1] = TAPE_NONE;
	u->full = tape_store_on(t, ON_GATHER, u->whole * fsdp_width_of(b), TIMELINE_PARAMETER);
	tape_let(t, cast);
	u->open = true;
}

static void reshard_flat(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct unit *u = &p->units[unit];

	if (!u->open)
		return;
	settle_fsdp(b, 0);
	p->late[0] = p->late[1];
	tape_let_early(&b->t, u->full);
	p->late[1] = u->full;
	u->full = TAPE_NONE;
	u->open = false;
}

static void begin_flat(struct builder *b)
{
	struct parallel *p = b->parallel;

	for (size_t i = 0; i < b->t.params.n && p->stale; i++) {
		tape_let(&b->t, b->t.params.at[i].grad);
		b->t.params.at[i].grad = TAPE_NONE;
	}
	p->stale = false;
	gather_flat(b, p->root);
}

static void back_flat(struct builder *b)
{
	parallel_put_aside(b);
	if (b->parallel->root)
		gather_flat(b, b->parallel->root - 1);
}

static void back_flat_zero2(struct builder *b)
{
	parallel_put_aside(b);
}

static void back_enter_flat(struct builder *b, uint32_t unit)
{
	gather_flat(b, unit);
	if (unit && !b->lora)
		gather_flat(b, unit - 1);
}

/* The gradients of adapters, each by itself. */
static void reduce_adapters(struct builder *b, const struct unit *u)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;

	for (uint32_t i = 0; i < u->n; i++) {
		uint32_t param = p->members.at[u->first + i], share;
		const struct tape_param *x = &t->params.at[param];

		if (x->grad == TAPE_NONE)
			continue;
		share = tape_store_on(t, ON_REDUCE, x->own_n * tape_dtype_bytes[x->own_dtype],
				      TIMELINE_GRADIENT);
		parallel_keep_share(b, param, share);
		tape_let(t, share);
	}
}

/* Parameters of the unit that have a gradient have that of `store` instead. */
static void name_flat(struct builder *b, const struct unit *u, uint32_t store)
{
	struct tape *t = &b->t;

	for (uint32_t i = 0; i < u->n; i++) {
		struct tape_param *x = &t->params.at[b->parallel->members.at[u->first + i]];

		if (x->grad == TAPE_NONE)
			continue;
		tape_let(t, x->grad);
		x->grad = store;
		if (store != TAPE_NONE)
			tape_hold(t, store);
	}
}

/*
 * The unit's gradients are joined where it was gathered, and added to those of the step's micro-batches before.  The store is
 * the caller's.
 */
static uint32_t join_flat(struct builder *b, struct unit *u)
{
	struct tape *t = &b->t;
	bool first = u->whole_grads == TAPE_NONE;
	uint32_t flat =
		tape_store_on(t, ON_GATHER, u->whole * fsdp_width_of(b),
			      b->reduces || !first ? TIMELINE_AUTOGRAD_DETAIL : TIMELINE_GRADIENT);

	name_flat(b, u, flat);
	if (first)
		return flat;
	name_flat(b, u, u->whole_grads);
	tape_let(t, flat);
	flat = u->whole_grads;
	u->whole_grads = TAPE_NONE;
	return flat;
}

/* Under no_sync() what was gathered once for both passes stays (_should_free_in_backward). */
static void leave_flat(struct builder *b, uint32_t unit)
{
	if (b->reduces || b->parallel->way == &parallel_fsdp1)
		reshard_flat(b, unit);
}

/*
 * The unit's gradients are cast and reduced.  Those of micro-batches that are not the step's last are not: accelerate, and so the
 * Trainer, and Lightning run these under no_sync(), which keeps gradients whole (_post_backward_hook).
 */
static void reduce_flat(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct unit *u = &p->units[unit];
	struct tape *t = &b->t;
	unsigned width = tape_dtype_bytes[b->weights];
	uint32_t flat, cast = TAPE_NONE, shares;

	if (b->lora) /* all else is frozen */
		reduce_adapters(b, u);
	if (b->lora || !reduced(b, u))
		return;
	flat = join_flat(b, u);
	leave_flat(b, unit);
	if (!b->reduces) {
		name_flat(b, u, TAPE_NONE);
		u->whole_grads = flat;
		return;
	}
	if (is_cast(b))
		cast = tape_store_on(t, ON_REDUCE, u->whole * width, TIMELINE_WORKSPACE);
	shares = tape_store_on(t, ON_REDUCE, u->own * width, TIMELINE_GRADIENT);
	tape_let(t, cast);
	parallel_keep_shares(b, u, shares);
	tape_let(t, shares);
	tape_let(t, flat);
}

/*
 * The hook that shares a frozen unit out again (_register_post_backward_reshard_only_hook) has its inputs and their
 * gradients until the whole backward pass is over.  If the checkpoint is around the unit, these are the unit's alone.
 */
static void hold_input(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;

	if (!b->r->outer_checkpoints || unit == p->root)
		return;
	for (unsigned i = 0; i < 2 && !t->failed; i++)
		tape_fail(t, vec_push(t->mem, &p->held,
				      tape_store(t, p->input, TIMELINE_AUTOGRAD_DETAIL), t->err));
}

static void let_inputs(struct builder *b)
{
	struct parallel *p = b->parallel;

	for (size_t i = 0; i < p->held.n; i++)
		tape_let(&b->t, p->held.at[i]);
	p->held.n = 0;
}

/* Ahead of a block come its adapters, and the block before it when the first of them is reached. */
static void back_leave_flat(struct builder *b, uint32_t unit)
{
	if (unit && b->lora && b->parallel->way->back_enter)
		gather_flat(b, unit - 1);
	reduce_flat(b, unit);
	leave_flat(b, unit);
	hold_input(b, unit);
}

static void done_flat(struct builder *b)
{
	for (uint32_t u = 0; u <= b->parallel->root; u++) {
		reduce_flat(b, u);
		leave_flat(b, u);
	}
	let_inputs(b);
	settle_fsdp(b, 0);
	settle_fsdp(b, 1);
	parallel_put_back(b);
}

const struct way parallel_fsdp1 = {
	.wrap = wrap_fsdp1,
	.begin = begin_flat,
	.enter = gather_flat,
	.leave = reshard_flat,
	.back = back_flat,
	.back_enter = back_enter_flat,
	.back_leave = back_leave_flat,
	.done = done_flat,
	.shards = true,
	.zeroes_late = true,
};

/* SHARD_GRAD_OP: gathered once for both passes. */
const struct way parallel_fsdp1_zero2 = {
	.wrap = wrap_fsdp1,
	.begin = begin_flat,
	.enter = gather_flat,
	.leave = stay,
	.back = back_flat_zero2,
	.back_leave = back_leave_flat,
	.done = done_flat,
	.shards = true,
	.zeroes_late = true,
};
