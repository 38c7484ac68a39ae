/* BERT and RoBERTa.  Lines follow Transformers 5.17's modelling files. */
#include "plan/step/build.h"

/* RoBERTa counts positions from the first token that is not padding: an integer a token, in four steps. */
static struct value count_positions(struct builder *b)
{
	struct tape *t = &b->t;
	uint64_t n = b->batch * b->sequence;
	struct value mask, sum, narrow, places, y;

	y = tape_new(t, n, TAPE_BOOL, TIMELINE_TEMPORARY);
	mask = tape_new(t, n, TAPE_I32, TIMELINE_TEMPORARY);
	tape_drop(t, &y);
	sum = tape_new(t, n, TAPE_I64, TIMELINE_TEMPORARY);
	narrow = tape_new(t, n, TAPE_I32, TIMELINE_TEMPORARY);
	tape_drop(t, &sum);
	sum = tape_new(t, n, TAPE_I32, TIMELINE_TEMPORARY); /* + tokens of before */
	tape_drop(t, &narrow);
	places = tape_new(t, n, TAPE_I32, TIMELINE_TEMPORARY);
	tape_drop(t, &sum);
	tape_drop(t, &mask);
	sum = tape_new(t, n, TAPE_I64, TIMELINE_TEMPORARY);
	y = tape_new(t, n, TAPE_I64, TIMELINE_TEMPORARY);
	tape_drop(t, &sum);
	tape_drop(t, &places);
	return y;
}

static struct value look_up(struct builder *b, enum model_role role, struct value ids)
{
	struct value table = build_param(b, MODEL_TEXT, MODEL_NONE, role, MODEL_WEIGHT);

	const struct model_module *m = model_module_at(b->m, MODEL_TEXT, MODEL_NONE, role);

	return op_embedding(&b->t, ids, table, m->out, 0);
}

/* The names of BertEmbeddings.forward live until it returns. */
static struct value embed(struct builder *b, struct value ids)
{
	struct tape *t = &b->t;
	int counts = b->m->towers[MODEL_TEXT].counts_positions;
	struct value places, types, all, words, kinds, where, x;

	places = counts ? count_positions(b) : tape_param(t, TAPE_NONE);
	types = tape_new(t, counts ? b->batch * b->sequence : b->sequence, TAPE_I64,
			 TIMELINE_TEMPORARY);
	all = types; /* expanded to all samples */
	all.n = b->batch * b->sequence;
	words = look_up(b, MODEL_ROLE_EMBED, ids);
	kinds = build_has(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_TYPES)
			? look_up(b, MODEL_ROLE_TYPES, all)
			: tape_param(t, TAPE_NONE);
	x = kinds.store == TAPE_NONE ? tape_keep(t, words) : op_add(t, words, kinds);
	if (!counts) {
		/* the first rows of a buffer */
		places = tape_keep(t, build_param(b, MODEL_TEXT, MODEL_NONE,
						  MODEL_ROLE_POSITION_IDS, MODEL_WHOLE));
		places.n = b->sequence;
	}
	where = tape_param(t, TAPE_NONE);
	if (build_has(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_POSITIONS)) {
		where = look_up(b, MODEL_ROLE_POSITIONS, places);
		tape_set(t, &x, op_add(t, x, where));
	}
	tape_set(t, &x, build_norm(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_EMBED_NORM, x));
	tape_set(t, &x, op_dropout(t, x, b->m->towers[MODEL_TEXT].embedding_dropout));
	if (build_has(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_EMBED_PROJECT))
		tape_set(t, &x,
			 build_linear(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_EMBED_PROJECT, x));
	tape_drop(t, &words);
	tape_drop(t, &kinds);
	tape_drop(t, &where);
	tape_drop(t, &types);
	tape_drop(t, &places);
	return x;
}

/* BertSelfOutput, BertOutput: LayerNorm(dropout(dense(h)) + x) */
static struct value put_out(struct builder *b, uint32_t block, enum model_role dense,
			    enum model_role norm, struct value h, struct value x)
{
	struct tape *t = &b->t;
	struct value y = build_linear(b, MODEL_TEXT, block, dense, h), sum;

	tape_set(t, &y, op_dropout(t, y, b->m->towers[MODEL_TEXT].hidden_dropout));
	sum = op_add(t, y, x);
	tape_set(t, &y, build_norm(b, MODEL_TEXT, block, norm, sum));
	tape_drop(t, &sum);
	return y;
}

static struct value encoder_block(void *self, uint32_t block, struct value x)
{
	static const enum model_role role[3] = { MODEL_ROLE_Q, MODEL_ROLE_K, MODEL_ROLE_V };
	struct builder *b = self;
	struct tape *t = &b->t;
	struct value p[3], a, h, y;

	if (build_has(b, MODEL_TEXT, block, MODEL_ROLE_QKV)) {
		a = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_QKV, x);
		op_split(t, a, (uint64_t[3]){ a.n / 3, a.n / 3, a.n / 3 }, p);
		tape_drop(t, &a);
	} else {
		for (unsigned i = 0; i < 3; i++)
			p[i] = build_linear(b, MODEL_TEXT, block, role[i], x);
	}
	a = build_attention(b, MODEL_TEXT, block, p[0], p[1], p[2], b->sequence, b->sequence);
	for (unsigned i = 0; i < 3; i++)
		tape_drop(t, &p[i]);
	tape_set(t, &a, put_out(b, block, MODEL_ROLE_O, MODEL_ROLE_NORM1, a, x));
	h = build_linear(b, MODEL_TEXT, block, MODEL_ROLE_UP, a);
	tape_set(t, &h, build_activation(b, MODEL_TEXT, h));
	y = put_out(b, block, MODEL_ROLE_DOWN, MODEL_ROLE_NORM2, h, a);
	tape_drop(t, &h);
	tape_drop(t, &a);
	return y;
}

/* The head over the vocabulary, whose bias is a parameter of its own; a model without one gives its states. */
static struct value predict(struct builder *b, struct value x)
{
	struct tape *t = &b->t;
	struct value weight, bias, h, y;

	if (!build_has(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD))
		return tape_keep(t, x);
	h = build_linear(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD_DENSE, x);
	tape_set(t, &h, build_activation(b, MODEL_TEXT, h));
	tape_set(t, &h, build_norm(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD_NORM, h));
	weight = build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD, MODEL_WEIGHT);
	bias = build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD_BIAS, MODEL_WHOLE);
	if (bias.store == TAPE_NONE)
		bias = build_param(b, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD, MODEL_BIAS);
	y = op_linear(t, h, weight, bias,
		      model_module_at(b->m, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD)->out);
	tape_drop(t, &h);
	return y;
}

struct value build_encoder(struct builder *b, struct value ids, struct value labels,
			   struct value *logits)
{
	struct tape *t = &b->t;
	struct value first = embed(b, ids), x = tape_keep(t, first), loss;

	x = build_blocks(b, MODEL_TEXT, encoder_block, x);
	tape_drop(t, &first);
	*logits = predict(b, x);
	loss = labels.store == TAPE_NONE ? tape_param(t, TAPE_NONE)
					 : op_cross_entropy(t, *logits, labels, labels.n);
	tape_drop(t, &x);
	return loss;
}
