/*
 * One process of several that train together.
 *
 * DDP: a copy of all gradients in buckets; they are laid out anew before the second forward pass, and the old ones are
 * held until its backward pass begins.  ZeRO-1 (ZeroRedundancyOptimizer): each rank steps on its share of the parameters.
 * FSDP: each rank keeps a share of every parameter.  A unit (a block, and the root: all the rest) is gathered before it is
 * used and let go behind it, in the forward and in the backward pass; gradients are reduced in fp32 and scattered
 * (torch/distributed/fsdp/_fully_shard, 2.11).
 */
#include "build.h"

#define BUCKET ((uint64_t)25 << 20)     /* bucket_cap_mb */
#define BROADCAST ((uint64_t)250 << 20) /* of the initial synchronisation */

struct unit {
	uint64_t n;    /* elements of its parameters */
	uint32_t full; /* store of the gathered parameters, or TAPE_NONE */
};

struct parallel {
	VEC(uint32_t) buckets;
	VEC(uint32_t) old;    /* buckets of the first step */
	VEC(uint32_t) shares; /* of a unit, on their way from the host */
	struct unit *units;   /* the text tower's blocks, then the root */
	uint32_t root;
	uint32_t gathered, scattered; /* buffers that the next collective of their kind releases */
	unsigned passes;
};

int build_is_sharded(const struct builder *b)
{
	return b->r->parallel >= PLAN_FSDP1;
}

static uint64_t share(const struct builder *b, uint64_t n)
{
	return (n + b->r->gpus - 1) / b->r->gpus;
}

/* ---- DDP ---- */

/* Parameters come from the last to the first, as their gradients do. */
static void take_buckets(struct builder *b)
{
	struct tape *t = &b->t;
	struct parallel *p = b->parallel;
	uint64_t bytes = 0, cap = 1 << 20;

	for (size_t i = t->params.n; i-- && !t->failed;) {
		const struct tape_param *x = &t->params.at[i];

		if (x->trainable && !x->input)
			bytes += x->n * tape_dtype_bytes[x->dtype];
		if (bytes && (bytes >= cap || !i)) {
			uint32_t s = tape_store(t, bytes, TIMELINE_GRADIENT);

			t->failed = vec_push(t->mem, &p->buckets, s, t->err);
			bytes = 0;
			cap = BUCKET;
		}
	}
}

static void let_buckets(struct tape *t, struct parallel *p)
{
	for (size_t i = 0; i < p->old.n; i++)
		tape_let(t, p->old.at[i]);
	p->old.n = 0;
}

/* ZeroRedundancyOptimizer gives each parameter, the largest first, to the rank that has least. */
static void share_states(struct builder *b)
{
	struct tape *t = &b->t;
	uint64_t own = 0, all = 0;

	for (size_t i = 0; i < t->params.n; i++) {
		struct tape_param *x = &t->params.at[i];

		if (!x->trainable || x->input)
			continue;
		all += x->n;
		x->others = own + x->n > all / b->r->gpus + x->n / 2;
		own += x->others ? 0 : x->n;
	}
}

static void wrap_ddp(struct builder *b)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < b->t.params.n; i++)
		bytes += b->t.params.at[i].n * tape_dtype_bytes[b->t.params.at[i].dtype];
	tape_touch(&b->t, bytes < BROADCAST ? bytes : BROADCAST);
	take_buckets(b);
	if (b->r->parallel == PLAN_ZERO1)
		share_states(b);
}

/* ---- FSDP ---- */

static int in_unit(const struct builder *b, size_t param, uint32_t unit)
{
	const struct model_module *x;

	if (param >= b->m->tensors.n)
		return unit == b->parallel->root;
	x = &b->m->modules.at[b->m->tensors.at[param].module];
	return (x->tower == MODEL_TEXT && x->block != MODEL_NONE ? x->block : b->parallel->root) ==
	       unit;
}

/* Shares that are on the host come to the GPU one by one and are cast there (FSDPParam.all_gather_inputs). */
static void fetch(struct builder *b, uint32_t unit)
{
	struct tape *t = &b->t;

	for (size_t i = 0; b->r->parameters_on && i < t->params.n && !t->failed; i++) {
		const struct tape_param *x = &t->params.at[i];
		uint32_t at;

		if (x->input || x->store == TAPE_NONE || !in_unit(b, i, unit))
			continue;
		at = tape_store(t, x->own_n * tape_dtype_bytes[x->own_dtype], TIMELINE_PARAMETER);
		if (x->own_dtype != x->dtype) {
			uint32_t cast = tape_store(t, x->own_n * tape_dtype_bytes[x->dtype],
						   TIMELINE_PARAMETER);

			tape_let(t, at);
			at = cast;
		}
		if (!t->failed)
			t->failed = vec_push(t->mem, &b->parallel->shares, at, t->err);
	}
}

static void let_shares(struct tape *t, struct parallel *p)
{
	for (size_t i = 0; i < p->shares.n; i++)
		tape_let(t, p->shares.at[i]);
	p->shares.n = 0;
}

static void gather(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	uint64_t bytes = p->units[unit].n * tape_dtype_bytes[b->compute];
	uint32_t out;

	if (p->units[unit].full != TAPE_NONE || !bytes)
		return;
	tape_let(t, p->gathered);
	p->gathered = TAPE_NONE;
	fetch(b, unit);
	out = tape_store(t, bytes, TIMELINE_PARAMETER);
	let_shares(t, p);
	if (b->r->parallel == PLAN_FSDP1) {
		p->units[unit].full = out;
		return;
	}
	p->units[unit].full = tape_store(t, bytes, TIMELINE_PARAMETER);
	p->gathered = out; /* until the next one */
}

static void reshard(struct builder *b, uint32_t unit)
{
	struct unit *u = &b->parallel->units[unit];

	tape_let(&b->t, u->full);
	u->full = TAPE_NONE;
}

/* Whole gradients go to a buffer in the dtype of the reduction; a share comes back. */
static void reduce(struct builder *b, uint32_t unit)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	unsigned width = tape_dtype_bytes[b->weights];

	tape_let(t, p->scattered);
	p->scattered = tape_store(t, p->units[unit].n * width, TIMELINE_WORKSPACE);
	if (build_steps_on_host(b)) /* the shares stay together until they are copied */
		tape_touch(t, share(b, p->units[unit].n) * width);
	for (size_t i = 0; i < t->params.n && !t->failed; i++) {
		struct tape_param *x = &t->params.at[i];

		if (x->trainable && x->grad != TAPE_NONE && in_unit(b, i, unit))
			build_gradient(b, x, x->own_n * width);
	}
}

/* The backward pass is at a unit's end, or has left its beginning. */
static void at_unit(void *self, uint32_t unit, int begins)
{
	struct builder *b = self;

	if (!begins) {
		gather(b, unit);
		return;
	}
	reduce(b, unit);
	reshard(b, unit);
}

struct value build_unit_begin(struct builder *b, uint32_t unit, struct value x)
{
	if (!build_is_sharded(b) || !b->parallel)
		return x;
	gather(b, unit);
	return op_mark(&b->t, x, unit, 1);
}

struct value build_unit_end(struct builder *b, uint32_t unit, struct value x)
{
	if (!build_is_sharded(b) || !b->parallel)
		return x;
	if (b->r->parallel != PLAN_FSDP2_ZERO2)
		reshard(b, unit);
	return op_mark(&b->t, x, unit, 0);
}

/* FSDP 1 pins the flat share of each unit that is on the host, and one of its gradients. */
static void pin_units(struct builder *b)
{
	struct tape *t = &b->t;
	unsigned width = tape_dtype_bytes[b->weights];

	for (uint32_t u = 0; u <= b->parallel->root; u++) {
		uint64_t bytes = share(b, b->parallel->units[u].n) * width;
		uint32_t flat = tape_host_store(t, bytes, PLAN_HOST_WEIGHTS, TAPE_PINNED);

		for (size_t i = 0; i < t->params.n && !t->failed; i++) {
			struct tape_param *x = &t->params.at[i];

			if (x->input || x->store == TAPE_NONE || !in_unit(b, i, u))
				continue;
			tape_let(t, x->store);
			x->store = flat;
			tape_hold(t, flat);
		}
		tape_let(t, flat);
		b->away_gradients = tape_host_store(t, bytes, PLAN_HOST_GRADIENTS, TAPE_PINNED);
	}
}

/* Whole parameters become shares, one after the other. */
static void wrap_fsdp(struct builder *b)
{
	struct tape *t = &b->t;
	struct parallel *p = b->parallel;

	t->unit = at_unit;
	t->again_self = b;
	for (uint32_t u = 0; u <= p->root; u++)
		p->units[u].full = TAPE_NONE;
	for (size_t i = 0; i < t->params.n && !t->failed; i++) {
		struct tape_param *x = &t->params.at[i];
		uint32_t own;

		if (x->input || x->store == TAPE_NONE)
			continue;
		for (uint32_t u = 0; u <= p->root; u++)
			p->units[u].n += in_unit(b, i, u) ? x->n : 0;
		x->own_n = share(b, x->n);
		own = build_shard(b, x->own_n * tape_dtype_bytes[x->dtype]);
		tape_let(t, x->store);
		x->store = own;
		x->own_dtype = x->dtype;
		x->dtype = (uint8_t)b->compute;
	}
	if (b->r->parallel == PLAN_FSDP1 && b->r->parameters_on == PLAN_ON_HOST)
		pin_units(b);
}

/* state_dict() of FSDP 1 gathers the root, and beside it one unit after the other, as they are kept. */
void build_touch_units(struct builder *b)
{
	const struct parallel *p = b->parallel;
	unsigned width = tape_dtype_bytes[b->weights];
	uint32_t root = tape_store(&b->t, p->units[p->root].n * width, TIMELINE_PARAMETER);

	for (uint32_t i = 0; i < p->root; i++)
		tape_touch(&b->t, p->units[i].n * width);
	tape_let(&b->t, root);
}

/* ---- the loop ---- */

void build_wrap(struct builder *b)
{
	struct tape *t = &b->t;
	uint64_t blocks = b->m->towers[MODEL_TEXT].layers;

	b->compute = b->weights;
	build_wrap_offload(b);
	if (b->r->parallel == PLAN_ALONE || t->failed)
		return;
	if (plan_is_deepspeed(b->r) && !build_is_sharded(b))
		return; /* it takes the place of DDP */
	b->parallel = mem_new(t->mem, 1, sizeof(*b->parallel), t->err);
	if (b->parallel)
		b->parallel->units = mem_new(t->mem, blocks + 1, sizeof(struct unit), t->err);
	if (!b->parallel || !b->parallel->units) {
		t->failed = mem_status(t->err);
		return;
	}
	b->parallel->root = (uint32_t)blocks;
	b->parallel->gathered = b->parallel->scattered = TAPE_NONE;
	if (build_is_sharded(b) && b->r->precision == PLAN_BF16_AUTOCAST)
		b->compute = TAPE_BF16;
	if (build_is_sharded(b))
		wrap_fsdp(b);
	else
		wrap_ddp(b);
	build_phase(b, "wrap", PLAN_NO_NUMBER);
}

void build_before_forward(struct builder *b)
{
	struct parallel *p = b->parallel;

	if (!p)
		return;
	if (build_is_sharded(b)) {
		gather(b, p->root);
	} else if (p->passes++ == 1) {
		size_t n = p->buckets.n;

		b->t.failed = vec_need(b->t.mem, &p->old, n, b->t.err);
		for (size_t i = 0; i < n && !b->t.failed; i++)
			p->old.at[p->old.n++] = p->buckets.at[i];
		p->buckets.n = 0;
		take_buckets(b);
	}
}

void build_before_backward(struct builder *b)
{
	build_take_bucket(b);
	if (b->parallel && !b->t.failed)
		let_buckets(&b->t, b->parallel);
}

void build_after_backward(struct builder *b)
{
	struct parallel *p = b->parallel;

	build_let_bucket(b);
	if (!p || b->t.failed || !build_is_sharded(b))
		return;
	at_unit(b, p->root, 1);
	tape_let(&b->t, p->gathered);
	tape_let(&b->t, p->scattered);
	p->gathered = p->scattered = TAPE_NONE;
}

void build_end_parallel(struct builder *b)
{
	struct mem *mem = b->t.mem;

	if (!b->parallel)
		return;
	vec_release(mem, &b->parallel->buckets);
	vec_release(mem, &b->parallel->old);
	vec_release(mem, &b->parallel->shares);
	mem_free(mem, b->parallel->units, b->parallel->units ? b->parallel->root + 1 : 0,
		 sizeof(struct unit));
	mem_free(mem, b->parallel, 1, sizeof(*b->parallel));
}
