/*
 * Experts as Transformers 5 runs them where grouped_mm is there (integrations/moe.py): tokens sorted by expert, two
 * grouped products in the dtype of the weights, then each token's results weighted and added.  How tokens spread over
 * experts changes no size.
 */
#include "build.h"

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

struct value build_experts(struct builder *b, uint32_t block, struct value x)
{
	const struct model_numbers *n = &b->m->towers[MODEL_TEXT];
	struct tape *t = &b->t;
	uint64_t tokens = x.n / n->hidden, slots = tokens * n->experts_per_token;
	uint64_t inner = n->expert_intermediate ? n->expert_intermediate : n->intermediate;
	struct value up = build_param(b, MODEL_TEXT, block, MODEL_ROLE_EXPERTS_UP, MODEL_WHOLE);
	struct value down = build_param(b, MODEL_TEXT, block, MODEL_ROLE_EXPERTS_DOWN, MODEL_WHOLE);
	struct value logits, weights, chosen, order, tokens_of, mask, h, y, extra;

	extra = build_has(b, MODEL_TEXT, block, MODEL_ROLE_SHARED_UP) ? shared(b, block, x)
								      : tape_param(t, TAPE_NONE);
	route(b, block, x, &logits, &weights, &chosen);
	order = tape_new(t, slots, TAPE_I64, TIMELINE_TEMPORARY);
	tokens_of = tape_new(t, slots, TAPE_I64, TIMELINE_TEMPORARY);
	h = op_gather(t, x, tokens_of, slots * n->hidden);
	tape_set(t, &weights, op_gather(t, weights, order, slots));
	mask = tape_new(t, slots, TAPE_BOOL, TIMELINE_TEMPORARY);
	tape_set(t, &h, op_fill(t, h, mask, 1));
	tape_set(t, &h, op_grouped(t, h, up, n->experts, 2 * inner));
	tape_set(t, &h, op_fill(t, h, mask, 0));
	tape_set(t, &h, gated(b, h));
	tape_set(t, &h, op_grouped(t, h, down, n->experts, n->hidden));
	tape_set(t, &h, op_fill(t, h, mask, 0));
	tape_set(t, &h, op_mul(t, h, weights));
	tape_set(t, &h, op_gather(t, h, order, slots * n->hidden));
	y = op_sum(t, h, x.n);
	tape_drop(t, &h);
	tape_drop(t, &mask);
	tape_drop(t, &order);
	tape_drop(t, &tokens_of);
	tape_drop(t, &weights);
	tape_drop(t, &chosen);
	tape_drop(t, &logits);
	if (extra.store != TAPE_NONE)
		tape_set(t, &y, op_add(t, y, extra));
	tape_drop(t, &extra);
	return y;
}
