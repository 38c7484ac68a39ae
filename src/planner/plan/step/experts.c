/*
 * Experts as Transformers 5 runs them where grouped_mm is there (integrations/moe.py): tokens sorted by expert, two
 * grouped products in the dtype of the weights, then each token's results weighted and added.  How tokens spread over
 * experts changes no size.  Before, experts were linear layers, called one after the other with their tokens.
 */
#include "plan/step/build.h"

/* Where each token goes: weights of the chosen experts, and their numbers. */
static void route(struct builder *b, uint32_t block, struct value x, struct value *logits,
		  struct value *weights, struct value *chosen)
{
	const struct model_numbers *n = &b->m->towers[MODEL_TEXT];
	struct tape *t = &b->t;
	uint64_t slots = x.n / n->hidden * n->experts_per_token;
	struct value p;

	*logits = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_ROUTER, x);
	p = op_cast(t, *logits, TAPE_F32);
	tape_set(t, &p, op_softmax(t, p, TAPE_F32));
	*chosen = tape_new(t, slots, TAPE_I64, TIMELINE_TEMPORARY);
	*weights = op_gather(t, p, *chosen, slots);
	tape_drop(t, &p);
	tape_set(t, weights, op_apply(t, OP_SCALE, *weights));
	if (!n->wide_scores)
		tape_set(t, weights, op_cast(t, *weights, logits->dtype));
}

/* act(gate) * up of what one product gave */
static struct value gated(struct builder *b, struct value both)
{
	struct tape *t = &b->t;
	struct value part[3], h, y;

	op_split(t, both, (uint64_t[3]){ both.n / 2, both.n / 2, 0 }, part);
	h = build_activation(b, MODEL_TEXT, part[0]);
	y = op_mul(t, h, part[1]);
	tape_drop(t, &h);
	for (unsigned i = 0; i < 3; i++)
		tape_drop(t, &part[i]);
	return y;
}

static struct value shared(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	struct value h = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_SHARED_GATE, x), up, y, gate;

	tape_set(t, &h, build_activation(b, MODEL_TEXT, h));
	up = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_SHARED_UP, x);
	tape_set(t, &h, op_mul(t, h, up));
	tape_drop(t, &up);
	y = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_SHARED_DOWN, h);
	tape_drop(t, &h);
	if (!build_has(b, MODEL_TEXT, block, MODEL_ROLE_SHARED_ROUTER))
		return y;
	gate = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_SHARED_ROUTER, x);
	tape_set(t, &gate, op_apply(t, OP_SIGMOID, gate));
	tape_set(t, &y, op_mul(t, gate, y));
	tape_drop(t, &gate);
	return y;
}

/* What experts are: their weights, and the sizes of one. */
struct experts {
	struct value up, down;
	uint64_t slots, inner; /* pairs of a token and an expert; width between the products */
};

/*
 * batched_mm, which generate() takes for all passes but its first: every slot has a copy of its expert's weights.
 * The second copy is made before the first is let go.
 */
static struct value batched(struct builder *b, const struct experts *e, struct value x,
			    struct value weights, struct value chosen)
{
	const struct model_numbers *n = &b->m->towers[MODEL_TEXT];
	struct tape *t = &b->t;
	struct value tokens = op_gather(t, x, chosen, e->slots * n->hidden), own, h, y;
	struct value ids = tape_new(t, e->slots, TAPE_I64, TIMELINE_TEMPORARY);

	own = op_gather(t, e->up, ids, e->slots * (e->up.n / n->experts));
	h = tape_new(t, e->slots * 2 * e->inner, x.dtype, TIMELINE_TEMPORARY);
	tape_set(t, &h, gated(b, h));
	tape_set(t, &own, op_gather(t, e->down, ids, e->slots * (e->down.n / n->experts)));
	tape_set(t, &h, tape_new(t, e->slots * n->hidden, x.dtype, TIMELINE_TEMPORARY));
	tape_drop(t, &own);
	tape_set(t, &h, op_mul(t, h, weights));
	y = op_sum(t, h, x.n);
	tape_drop(t, &h);
	tape_drop(t, &ids);
	tape_drop(t, &tokens);
	return y;
}

/* grouped_mm: slots in the order of their experts. */
static struct value grouped(struct builder *b, const struct experts *e, struct value x,
			    struct value *weights)
{
	const struct model_numbers *n = &b->m->towers[MODEL_TEXT];
	struct tape *t = &b->t;
	uint64_t slots = e->slots;
	struct value order, tokens_of, mask, h, y;

	order = tape_new(t, slots, TAPE_I64, TIMELINE_TEMPORARY);
	tokens_of = tape_new(t, slots, TAPE_I64, TIMELINE_TEMPORARY);
	h = op_gather(t, x, tokens_of, slots * n->hidden);
	tape_set(t, weights, op_gather(t, *weights, order, slots));
	mask = tape_new(t, slots, TAPE_BOOL, TIMELINE_TEMPORARY);
	tape_set(t, &h, op_fill(t, h, mask, 1));
	tape_set(t, &h, op_grouped(t, h, e->up, n->experts, 2 * e->inner));
	tape_set(t, &h, op_fill(t, h, mask, 0));
	tape_set(t, &h, gated(b, h));
	tape_set(t, &h, op_grouped(t, h, e->down, n->experts, n->hidden));
	tape_set(t, &h, op_fill(t, h, mask, 0));
	tape_set(t, &h, op_mul(t, h, *weights));
	tape_set(t, &h, op_gather(t, h, order, slots * n->hidden));
	y = op_sum(t, h, x.n);
	tape_drop(t, &h);
	tape_drop(t, &mask);
	tape_drop(t, &order);
	tape_drop(t, &tokens_of);
	return y;
}

/* One expert on some tokens: act(gate) * up, and down. */
static struct value fed(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	struct value h = build_expert(b, block, MODEL_ROLE_EXPERTS_UP, x), up;

	tape_set(t, &h, build_activation(b, MODEL_TEXT, h));
	if (b->m->towers[MODEL_TEXT].gated) {
		up = build_expert(b, block, MODEL_ROLE_EXPERTS_UP, x);
		tape_set(t, &h, op_mul(t, h, up));
		tape_drop(t, &up);
	}
	tape_set(t, &h, build_expert(b, block, MODEL_ROLE_EXPERTS_DOWN, h));
	return h;
}

/* Where tokens of an expert are is looked up in a mask of all choices (one_hot); each name lives until the next expert's. */
static struct value looped(struct builder *b, uint32_t block, struct value x, struct value weights)
{
	const struct model_numbers *n = &b->m->towers[MODEL_TEXT];
	struct tape *t = &b->t;
	uint64_t slots = x.n / n->hidden * n->experts_per_token;
	uint64_t some = slots / n->experts ? slots / n->experts : 1;
	struct value y = tape_new(t, x.n, x.dtype, TIMELINE_TEMPORARY),
		     none = tape_param(t, TAPE_NONE);
	struct value mask = tape_new(t, slots * n->experts, TAPE_I64, TIMELINE_TEMPORARY);
	struct value at = none, state = none, given = none;

	for (uint64_t i = 0; i < n->experts && !t->failed; i++) {
		struct value part, weight;

		tape_set(t, &at, tape_new(t, some * 2, TAPE_I64, TIMELINE_TEMPORARY));
		tape_set(t, &state, op_gather(t, x, at, some * n->hidden));
		part = fed(b, block, state);
		weight = op_gather(t, weights, at, some);
		tape_set(t, &given, op_mul(t, part, weight));
		tape_drop(t, &weight);
		tape_drop(t, &part);
		part = op_cast(t, given, x.dtype);
		tape_set(t, &y, op_add_rows(t, y, part, at));
		tape_drop(t, &part);
	}
	tape_drop(t, &given);
	tape_drop(t, &state);
	tape_drop(t, &at);
	tape_drop(t, &mask);
	return y;
}

struct value build_experts(struct builder *b, uint32_t block, struct value x)
{
	const struct model_numbers *n = &b->m->towers[MODEL_TEXT];
	struct tape *t = &b->t;
	bool linear = build_has_linear_experts(b, block);
	enum model_part part = linear ? MODEL_WEIGHT : MODEL_WHOLE;
	struct experts e = {
		.up = build_param(b, MODEL_TEXT, block, MODEL_ROLE_EXPERTS_UP, part),
		.down = build_param(b, MODEL_TEXT, block, MODEL_ROLE_EXPERTS_DOWN, part),
		.slots = x.n / n->hidden * n->experts_per_token,
		.inner = n->expert_intermediate ? n->expert_intermediate : n->intermediate,
	};
	struct value logits, weights, chosen, y, extra;

	extra = build_has(b, MODEL_TEXT, block, MODEL_ROLE_SHARED_UP) ? shared(b, block, x)
								      : tape_param(t, TAPE_NONE);
	route(b, block, x, &logits, &weights, &chosen);
	if (linear)
		y = looped(b, block, x, weights);
	else
		y = b->decoding ? batched(b, &e, x, weights, chosen) : grouped(b, &e, x, &weights);
	tape_set(t, &y, op_cast(t, y, x.dtype));
	tape_drop(t, &weights);
	tape_drop(t, &chosen);
	tape_drop(t, &logits);
	if (extra.store != TAPE_NONE)
		tape_set(t, &y, op_add(t, y, extra));
	tape_drop(t, &extra);
	return y;
}
