/* Owners, nodes and the engine. */
#include "plan/step/tape.h"

#include <string.h>

const uint8_t tape_dtype_bytes[TAPE_DTYPES] = { 4, 2, 2, 8, 4, 1 };

static const struct value nothing = { 0, TAPE_NONE, TAPE_NONE, TAPE_NONE, 0, 0, 0, 0, 0 };

enum plim_status tape_init(struct tape *t, struct mem *m, const struct plan_device *device,
			   struct plim_err *err)
{
	*t = (struct tape){ .mem = m,
			    .err = err,
			    .device = device,
			    .region = TAPE_NONE,
			    .grad = 1,
			    .host.all.processes = 1,
			    .category = TIMELINE_TEMPORARY };
	return program_new(m, &t->program, err);
}

void tape_release(struct tape *t)
{
	vec_release(t->mem, &t->categories);
	vec_release(t->mem, &t->stores);
	vec_release(t->mem, &t->spare);
	vec_release(t->mem, &t->nodes);
	vec_release(t->mem, &t->regions);
	vec_release(t->mem, &t->params);
	vec_release(t->mem, &t->cached);
	vec_release(t->mem, &t->held);
	vec_release(t->mem, &t->past);
	vec_release(t->mem, &t->kept);
	vec_release(t->mem, &t->pieces);
}

/* ---- memory ---- */

void tape_fail(struct tape *t, enum plim_status st)
{
	if (st && !t->failed)
		t->failed = st;
}

static uint32_t request(struct tape *t, uint64_t bytes, unsigned category)
{
	struct program *p = t->program;
	uint32_t number = (uint32_t)p->requests.n;
	uint32_t site = plan_site_make(t->place, t->op,
				       t->refilling  ? PLAN_SECOND_PASS
				       : t->backward ? PLAN_BACKWARD_PASS
						     : PLAN_FORWARD_PASS);

	tape_fail(t, vec_push(t->mem, &t->categories, (uint8_t)category, t->err));
	tape_fail(t, vec_push(t->mem, &p->requests,
			      ((struct program_request){ bytes, site, t->stream, 0 }), t->err));
	tape_fail(t, vec_push(t->mem, &p->ops,
			      ((struct program_op){ number, TRACE_NONE, PROGRAM_ALLOC }), t->err));
	return number;
}

uint32_t tape_own(struct tape *t, struct tape_store s)
{
	uint32_t at;

	if (t->spare.n) {
		at = t->spare.at[--t->spare.n];
		t->stores.at[at] = s;
	} else {
		at = (uint32_t)t->stores.n;
		tape_fail(t, vec_push(t->mem, &t->stores, s, t->err));
	}
	return t->failed ? TAPE_NONE : at;
}

uint32_t tape_store(struct tape *t, uint64_t bytes, unsigned category)
{
	struct tape_store s = { .bytes = bytes, .refs = 1 };

	if (t->failed || t->stopped || !bytes)
		return TAPE_NONE;
	s.request = request(t, bytes, category);
	return tape_own(t, s);
}

uint32_t tape_meta(struct tape *t)
{
	return tape_own(t, (struct tape_store){ .refs = 1, .request = TAPE_NONE });
}

void tape_hold(struct tape *t, uint32_t store)
{
	if (store != TAPE_NONE)
		t->stores.at[store].refs++;
}

void tape_let(struct tape *t, uint32_t store)
{
	struct tape_store *s;

	if (store == TAPE_NONE || t->failed)
		return;
	s = &t->stores.at[store];
	if (--s->refs)
		return;
	if (s->host)
		tape_host_let(t, s);
	else if (s->request != TAPE_NONE)
		tape_fail(t, vec_push(t->mem, &t->program->ops,
				      ((struct program_op){ s->request, TRACE_NONE,
							    PROGRAM_FREE_DONE }),
				      t->err));
	tape_fail(t, vec_push(t->mem, &t->spare, store, t->err));
}

uint32_t tape_store_on(struct tape *t, uint16_t stream, uint64_t bytes, unsigned category)
{
	uint16_t own = t->stream;
	uint32_t store;

	t->stream = stream;
	store = tape_store(t, bytes, category);
	t->stream = own;
	return store;
}

void tape_let_early(struct tape *t, uint32_t store)
{
	if (store == TAPE_NONE || t->failed)
		return;
	tape_fail(t, vec_push(t->mem, &t->program->ops,
			      ((struct program_op){ t->stores.at[store].request, TRACE_NONE,
						    PROGRAM_FREE }),
			      t->err));
}

struct value tape_keep(struct tape *t, struct value v)
{
	tape_hold(t, v.store);
	return v;
}

void tape_drop(struct tape *t, struct value *v)
{
	tape_let(t, v->store);
	*v = nothing;
}

void tape_set(struct tape *t, struct value *v, struct value by)
{
	tape_drop(t, v);
	*v = by;
}

struct value tape_new(struct tape *t, uint64_t n, enum tape_dtype dtype, unsigned category)
{
	tape_at(t, t->home);
	return tape_more(t, n, dtype, category);
}

struct value tape_more(struct tape *t, uint64_t n, enum tape_dtype dtype, unsigned category)
{
	struct value v = nothing;

	v.n = n;
	v.dtype = (uint8_t)dtype;
	v.store = tape_store(t, n * tape_dtype_bytes[dtype], category);
	return v;
}

void tape_touch(struct tape *t, uint64_t bytes)
{
	tape_let(t, tape_store(t, bytes, TIMELINE_WORKSPACE));
}

struct value tape_param(const struct tape *t, uint32_t param)
{
	struct value v = nothing;

	if (param == TAPE_NONE)
		return v;
	v.n = t->params.at[param].n;
	v.store = t->params.at[param].store;
	v.param = param;
	v.dtype = t->params.at[param].dtype;
	v.grad = t->params.at[param].trainable;
	return v;
}

void tape_blas(struct tape *t, int lt)
{
	unsigned side = t->backward;

	if (t->stopped)
		return;
	if (!t->workspace[side]) {
		t->workspace[side] = 1;
		tape_store(t, t->device->blas_workspace_bytes, TIMELINE_WORKSPACE);
	}
	/* products with a bias go through cuBLASLt in the forward pass */
	if (lt && !side && !t->lt_workspace[side]) {
		t->lt_workspace[side] = 1;
		tape_store(t, t->device->lt_workspace_bytes, TIMELINE_WORKSPACE);
	}
}

/* ---- the graph ---- */

static struct tape_edge edge_to(struct tape *t, struct value v)
{
	struct tape_edge e = { v.n, TAPE_NONE, TAPE_NONE, v.dtype, v.out };

	if (!v.grad)
		return e;
	e.node = v.node;
	e.param = v.param;
	if (e.param != TAPE_NONE)
		t->params.at[e.param].uses++;
	return e;
}

static int any_grad(const struct value *in, unsigned n)
{
	int any = 0;

	for (unsigned i = 0; i < n; i++)
		any |= in[i].grad;
	return any;
}

void tape_at(struct tape *t, uint32_t place)
{
	t->op = 0;
	t->place = place;
}

/* An operation on a parameter is of the module that has it. */
static void begin_tape(struct tape *t, unsigned op, const struct value *in, unsigned n)
{
	t->op = (uint8_t)(op + 1);
	t->place = t->home;
	for (unsigned i = 0; i < n; i++)
		if (in[i].param != TAPE_NONE && t->params.at[in[i].param].place)
			t->place = t->params.at[in[i].param].place;
}

struct tape_node *tape_node(struct tape *t, unsigned op, const struct value *in, unsigned n)
{
	struct tape_node *node;

	begin_tape(t, op, in, n);
	if (!t->grad || t->failed || t->stopped || !any_grad(in, n))
		return NULL;
	if (t->refilling)
		return &t->again_node;
	tape_fail(t, vec_need(t->mem, &t->nodes, 1, t->err));
	if (t->failed)
		return NULL;
	node = &t->nodes.at[t->nodes.n++];
	*node = (struct tape_node){ .op = (uint8_t)op, .ins = (uint8_t)n, .outs = 1 };
	node->region = t->packing ? t->region : TAPE_NONE;
	node->place = t->place;
	for (unsigned i = 0; i < n; i++)
		node->in[i] = edge_to(t, in[i]);
	for (unsigned i = 0; i < 3; i++)
		node->grad[i].store = TAPE_NONE;
	return node;
}

/* Does what is saved now go to the host?  What is computed again is saved by the backward pass, where nothing does. */
static int goes_away(const struct tape *t)
{
	return t->away && t->away != PLAN_OFFLOAD_CHECKPOINTS && !t->stays && !t->refilling;
}

/*
 * Where the next tensor goes that a block saves while it is computed again: the same number of it as the first time.
 * (Operations may differ: a weight that autocast had a copy of is cast once more.)
 */
static uint32_t *next_saved(struct tape *t)
{
	const struct tape_region *r = &t->regions.at[t->region];

	while (t->refill_node < r->end && t->refill_slot >= t->nodes.at[t->refill_node].saves) {
		t->refill_node++;
		t->refill_slot = 0;
	}
	if (t->refill_node < r->end)
		return &t->nodes.at[t->refill_node].saved[t->refill_slot++];
	t->failed = err_set(t->err, PLIM_E_ARG, "a block is computed again in another way");
	return NULL;
}

/* What is kept for the backward pass, unless it is a weight, say. */
static void becomes_activation(struct tape *t, uint32_t store)
{
	uint32_t request = t->stores.at[store].request;

	if (request != TAPE_NONE && t->categories.at[request] == TIMELINE_TEMPORARY)
		t->categories.at[request] = TIMELINE_ACTIVATION;
}

static void save(struct tape *t, struct tape_node *node, struct value v, int turned)
{
	uint32_t *at;

	if (!node || t->failed || t->stopped || v.store == TAPE_NONE)
		return;
	if (t->packing) {
		node->saved[node->saves++] = TAPE_NONE;
		t->regions.at[t->region].saves++;
		return;
	}
	if (goes_away(t)) {
		node->saved[node->saves++] = tape_pack(t, v, turned);
		node->away = 1;
		return;
	}
	at = t->refilling ? next_saved(t) : &node->saved[node->saves++];
	if (!at)
		return;
	*at = v.store;
	tape_hold(t, v.store);
	becomes_activation(t, v.store);
	/* what comes after the last tensor that is needed is not computed again */
	if (t->refilling && ++t->refill_saves == t->regions.at[t->region].saves)
		t->stopped = 1;
}

void tape_save(struct tape *t, struct tape_node *node, struct value v)
{
	save(t, node, v, 0);
}

void tape_save_turned(struct tape *t, struct tape_node *node, struct value v)
{
	save(t, node, v, 1);
}

/* Values of a block that is computed again have no node: its graph is that of the first time. */
static uint32_t tape_number_of(const struct tape *t, const struct tape_node *node)
{
	return t->refilling ? TAPE_NONE : (uint32_t)(node - t->nodes.at);
}

struct value tape_view(struct tape *t, const struct tape_node *node, struct value of, uint64_t n)
{
	struct value v = of;

	tape_hold(t, of.store);
	v.part |= n != of.n;
	v.n = n;
	if (node) {
		v.node = tape_number_of(t, node);
		v.param = TAPE_NONE;
		v.out = 0;
	}
	v.grad = node || (of.grad && t->grad);
	return v;
}

struct value tape_result(struct tape *t, const struct tape_node *node, uint64_t n,
			 enum tape_dtype dtype)
{
	struct value v = tape_more(t, n, dtype, t->category);

	if (node) {
		v.node = tape_number_of(t, node);
		v.grad = 1;
	}
	return v;
}

/* torchtitan's "op": attention and the first, third, ... mm of a block, which it counts anew each time. */
static bool keeps(struct tape *t, const struct tape_region *r, enum tape_product kind)
{
	if (r->selective != TAPE_SELECTS_OPS)
		return true;
	if (kind == TAPE_MM)
		return ++t->products % 2 != 0;
	return kind == TAPE_ATTENTION;
}

struct value tape_product(struct tape *t, const struct tape_node *node, uint64_t n,
			  enum tape_dtype dtype, enum tape_product kind)
{
	struct tape_region *r = t->packing || t->refilling ? &t->regions.at[t->region] : NULL;
	struct value v = nothing;

	if (!r || !r->selective || t->stopped || t->failed || !keeps(t, r, kind))
		return tape_result(t, node, n, dtype);
	if (t->packing) {
		v = tape_result(t, node, n, dtype);
		if (v.store == TAPE_NONE)
			return v;
		tape_hold(t, v.store);
		becomes_activation(t, v.store);
		tape_fail(t, vec_push(t->mem, &t->kept, v.store, t->err));
		return v;
	}
	v.n = n;
	v.dtype = (uint8_t)dtype;
	v.grad = node != NULL;
	if (r->kept < r->kept_end)
		v.store = t->kept.at[r->kept++];
	return v;
}

void tape_uncache(struct tape *t)
{
	for (size_t i = 0; i < t->cached.n; i++)
		tape_drop(t, &t->params.at[t->cached.at[i]].cast);
	t->cached.n = 0;
}

/* ---- checkpointing, as torch.utils.checkpoint without reentry ---- */

struct value tape_checkpoint(struct tape *t, uint32_t block, struct value input)
{
	struct tape_region r = { .first = (uint32_t)t->nodes.n,
				 .block = block,
				 .again = t->again,
				 .selective = t->selective };
	struct value v;

	if (!t->grad)
		return t->again(t->again_self, block, input);
	r.input = input;
	r.kept = (uint32_t)t->kept.n;
	if (t->away)
		r.input.store = tape_pack(t, input, 0);
	else
		tape_hold(t, input.store);
	tape_fail(t, vec_push(t->mem, &t->regions, r, t->err));
	if (t->failed)
		return nothing;
	t->region = (uint32_t)t->regions.n - 1;
	t->packing = 1;
	t->products = 0;
	v = t->again(t->again_self, block, input);
	t->packing = 0;
	t->regions.at[t->region].end = (uint32_t)t->nodes.n;
	t->regions.at[t->region].kept_end = (uint32_t)t->kept.n;
	return v;
}

/* Compute a block again, up to the last tensor that its operations save. */
static void refill(struct tape *t, uint32_t region)
{
	struct tape_region *r = &t->regions.at[region];
	uint32_t home = t->home;
	unsigned side = t->backward;
	struct value v, input = tape_recall(t, r->input);

	r->filled = 1;
	t->region = region;
	t->refill_node = r->first;
	t->refill_slot = 0;
	t->refill_saves = 0;
	t->refilling = 1;
	t->products = 0;
	t->grad = 1;
	v = r->again(t->again_self, r->block, input);
	t->stopped = 0;
	tape_drop(t, &v);
	tape_recalled(t, &input);
	tape_uncache(t);
	t->home = home;
	t->refilling = 0;
	t->grad = 0;
	t->backward = (uint8_t)side;
}

/* ---- what lives as long as the graph ---- */

void tape_hold_in_graph(struct tape *t, struct value v)
{
	if (t->failed || t->refilling || !t->grad || v.store == TAPE_NONE)
		return;
	tape_hold(t, v.store);
	tape_fail(t, vec_push(t->mem, &t->held, v.store, t->err));
}

void tape_begin_graph(struct tape *t)
{
	for (size_t i = 0; i < t->held.n; i++)
		tape_fail(t, vec_push(t->mem, &t->past, t->held.at[i], t->err));
	t->held.n = 0;
}

void tape_end_graph(struct tape *t)
{
	for (size_t i = 0; i < t->past.n; i++)
		tape_let(t, t->past.at[i]);
	t->past.n = 0;
}

/* ---- backward ---- */

uint32_t tape_sum_rows(struct tape *t, uint64_t rows, uint64_t n, enum tape_dtype dtype)
{
	uint32_t out = tape_store(t, n * tape_dtype_bytes[dtype], TIMELINE_TEMPORARY);

	tape_touch(t, plan_reduce_bytes(t->device, rows, n, tape_dtype_bytes[dtype]));
	return out;
}

/* The engine gives every input a gradient of its own size and dtype. */
static void fit(struct tape *t, const struct tape_edge *e, struct tape_grad *g)
{
	uint32_t old = g->store;

	if (g->store == TAPE_NONE)
		return;
	if (e->n && e->n < g->n) {
		g->store = tape_sum_rows(t, g->n / e->n, e->n, g->dtype);
		g->n = e->n;
		g->part = 0;
		tape_let(t, old);
	}
	old = g->store;
	if (e->dtype != g->dtype) {
		g->store =
			tape_store(t, g->n * tape_dtype_bytes[e->dtype], TIMELINE_AUTOGRAD_DETAIL);
		g->dtype = e->dtype;
		g->part = 0;
		tape_let(t, old);
	}
}

/* Add to what is there, in place where no one else holds it. */
static void add_tape(struct tape *t, uint32_t *at, uint8_t *part, const struct tape_grad *g)
{
	uint32_t sum;

	if (*at == TAPE_NONE) {
		*at = g->store;
		*part = g->part;
		return;
	}
	if (t->stores.at[*at].refs == 1 && !*part) {
		tape_let(t, g->store);
		return;
	}
	sum = tape_store(t, g->n * tape_dtype_bytes[g->dtype], TIMELINE_AUTOGRAD_DETAIL);
	tape_let(t, *at);
	tape_let(t, g->store);
	*at = sum;
	*part = 0;
}

/* AccumulateGrad */
static void give_param(struct tape *t, struct tape_param *p)
{
	uint32_t g = p->pending;

	p->pending = TAPE_NONE;
	p->ready = t->ready++;
	if (p->grad != TAPE_NONE) {
		tape_let(t, g);
		return;
	}
	if (t->stores.at[g].refs > 1 || (p->pending_part & TAPE_PART)) {
		uint32_t copy = tape_store(t, p->n * tape_dtype_bytes[p->dtype], TIMELINE_GRADIENT);

		tape_let(t, g);
		g = copy;
	}
	p->grad = g;
	if (!t->failed)
		t->categories.at[t->stores.at[g].request] = TIMELINE_GRADIENT;
	if (t->accumulated)
		t->accumulated(t->again_self, p);
}

static void give_tape(struct tape *t, const struct tape_edge *e, const struct tape_grad *g)
{
	if (e->param != TAPE_NONE) {
		struct tape_param *p = &t->params.at[e->param];

		p->uses--;
		if (g->store != TAPE_NONE)
			add_tape(t, &p->pending, &p->pending_part, g);
		if (!p->uses && p->pending != TAPE_NONE)
			give_param(t, p);
	} else if (e->node != TAPE_NONE && g->store != TAPE_NONE && e->out == TAPE_PIECE) {
		tape_fail(t, vec_push(t->mem, &t->pieces,
				      ((struct tape_piece){ e->node, g->store }), t->err));
	} else if (e->node != TAPE_NONE && g->store != TAPE_NONE) {
		struct tape_grad *to = &t->nodes.at[e->node].grad[e->out];

		to->n = g->n;
		to->dtype = g->dtype;
		add_tape(t, &to->store, &to->part, g);
	} else {
		tape_let(t, g->store); /* computed all the same: dk where only q is trained */
	}
}

void tape_let_pieces(struct tape *t, const struct tape_node *node)
{
	uint32_t at = (uint32_t)(node - t->nodes.at);
	size_t n = 0;

	for (size_t i = 0; i < t->pieces.n; i++) {
		if (t->pieces.at[i].node == at)
			tape_let(t, t->pieces.at[i].store);
		else
			t->pieces.at[n++] = t->pieces.at[i];
	}
	t->pieces.n = n;
}

static void let_saved(struct tape *t, struct tape_node *node)
{
	for (unsigned i = 0; i < node->saves; i++)
		tape_let(t, node->saved[i]);
	node->saves = 0;
}

static int has_grad(const struct tape_node *node)
{
	return node->grad[0].store != TAPE_NONE || node->grad[1].store != TAPE_NONE ||
	       node->grad[2].store != TAPE_NONE;
}

static void run_node(struct tape *t, uint32_t at)
{
	struct tape_node *node = &t->nodes.at[at];
	struct tape_grad out[TAPE_EDGES];

	if (node->region != TAPE_NONE && node->saves && !t->regions.at[node->region].filled)
		refill(t, node->region);
	for (unsigned i = 0; i < TAPE_EDGES; i++)
		out[i] = (struct tape_grad){ 0, TAPE_NONE, 0, 0 };
	t->place = node->place;
	t->op = (uint8_t)(node->op + 1);
	if (node->away)
		tape_unpack(t, node);
	tape_backward_of[node->op](t, node, out);
	if (node->away)
		tape_unpacked(t, node);
	if (node->region != TAPE_NONE) /* unpacked, it is the operation's own and ends with it */
		let_saved(t, node);
	for (unsigned i = 0; i < node->ins; i++)
		fit(t, &node->in[i], &out[i]);
	for (unsigned i = 0; i < node->outs; i++) {
		tape_let(t, node->grad[i].store);
		node->grad[i].store = TAPE_NONE;
	}
	let_saved(t, node);
	for (unsigned i = 0; i < node->ins && !t->failed; i++)
		give_tape(t, &node->in[i], &out[i]);
}

/* What was kept and not taken (the last product of a block) goes with the block's frame, as its input does. */
static void let_region(struct tape *t, struct tape_region *r)
{
	tape_drop(t, &r->input);
	while (r->kept < r->kept_end)
		tape_let(t, t->kept.at[r->kept++]);
}

static void leave_region(struct tape *t, uint32_t at)
{
	uint32_t region = t->nodes.at[at].region;

	if (region != TAPE_NONE && t->regions.at[region].first == at)
		let_region(t, &t->regions.at[region]);
}

/* To the node before, of the part or of what it shares; 0: there is none. */
static int step_back(uint32_t *i, struct tape_part part)
{
	if (*i == part.first && part.shared < part.first)
		*i = part.shared;
	return (*i)-- != 0;
}

/* From `root`, whose gradient `seed` is given away. */
static void run_backward(struct tape *t, struct value root, uint32_t seed, struct tape_part part)
{
	t->backward = 1;
	t->grad = 0;
	t->ready = 0;
	t->category = TIMELINE_AUTOGRAD_DETAIL;
	t->nodes.at[root.node].grad[root.out] = (struct tape_grad){ root.n, seed, root.dtype, 0 };
	for (uint32_t i = part.end; !t->failed && step_back(&i, part);) {
		if (has_grad(&t->nodes.at[i]))
			run_node(t, i);
		if (i >= part.first)
			leave_region(t, i);
	}
	t->category = TIMELINE_TEMPORARY;
	t->backward = 0;
	t->grad = 1;
}

void tape_backward(struct tape *t, struct value root)
{
	uint32_t seed;

	tape_at(t, 0);
	seed = tape_store(t, 4, TIMELINE_AUTOGRAD_DETAIL);
	if (t->failed || root.node == TAPE_NONE)
		return;
	tape_hold(t, seed);
	run_backward(t, root, seed, (struct tape_part){ 0, (uint32_t)t->nodes.n, 0 });
	tape_let(t, seed);
	tape_landed(t);
	tape_forget(t);
	tape_at(t, 0);
}

/* Parameters await the edges of this part alone, and of what it uses of others. */
static void count_uses(struct tape *t, struct tape_part part)
{
	for (size_t i = 0; i < t->params.n; i++)
		t->params.at[i].uses = 0;
	for (uint32_t i = part.end; step_back(&i, part);) {
		struct tape_node *node = &t->nodes.at[i];

		if (i < part.first && !node->used)
			continue;
		node->used = 0;
		for (unsigned k = 0; k < node->ins; k++) {
			if (node->in[k].param != TAPE_NONE)
				t->params.at[node->in[k].param].uses++;
			else if (node->in[k].node != TAPE_NONE)
				t->nodes.at[node->in[k].node].used = 1;
		}
	}
}

void tape_backward_part(struct tape *t, struct value root, uint32_t seed, struct tape_part part)
{
	if (t->failed || root.node == TAPE_NONE)
		return;
	if (seed == TAPE_NONE)
		seed = tape_store(t, 4, TIMELINE_AUTOGRAD_DETAIL);
	else
		tape_hold(t, seed);
	count_uses(t, part);
	run_backward(t, root, seed, part);
	for (uint32_t i = part.first; i < part.end; i++)
		let_saved(t, &t->nodes.at[i]);
}

void tape_forget(struct tape *t)
{
	for (size_t i = 0; i < t->nodes.n; i++)
		if (t->nodes.at[i].saves)
			let_saved(t, &t->nodes.at[i]);
	for (size_t i = 0; i < t->regions.n; i++)
		let_region(t, &t->regions.at[i]);
	t->kept.n = 0;
	for (size_t i = 0; i < t->params.n; i++)
		t->params.at[i].uses = 0;
	t->nodes.n = 0;
	t->regions.n = 0;
	t->pieces.n = 0;
}
