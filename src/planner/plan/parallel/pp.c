/*
 * A stage of a pipeline, as torch.distributed.pipelining runs it (stage.py, schedules.py, 2.11).
 *
 * Each process makes the model and keeps its blocks; the first also the embedding, the last the norm and the head.  Before
 * the first step it runs a micro-batch without gradients to learn shapes, then makes the buffers of all micro-batches
 * that it will receive: activations from the stage before, gradients from the one behind.  Each micro-batch's graph lives
 * from its forward to its backward pass: with GPipe all are forwarded first; with 1F1B as many as there are
 * stages from here to the end, then one goes back for each that comes.  The last stage keeps all outputs until the
 * next step, and joins them once at the end of it.
 */
#include "plan/step/build.h"

struct pass {
	struct value in, out, logits; /* out: what is sent, or the loss */
	uint32_t leaf;     /* what came in, as a parameter that takes a gradient, or TAPE_NONE */
	uint32_t gradient; /* store that the stage behind sends to, or TAPE_NONE */
	struct tape_part part;
};

struct pipe {
	struct pass *passes;
	size_t n;
	bool first, last, started;
};

/* ---- the model ---- */

static bool pipeline_is_kept(const struct builder *b, size_t tensor)
{
	const struct model_tensor *x = &b->m->tensors.at[tensor];
	const struct model_module *m = &b->m->modules.at[x->module];

	if (m->block != MODEL_NONE)
		return m->block >= b->first_block && m->block < b->end_block;
	switch (m->role) {
	case MODEL_ROLE_EMBED: return b->pipe->first;
	case MODEL_ROLE_FINAL_NORM:
	case MODEL_ROLE_HEAD: return b->pipe->last;
	default: return true;
	}
}

/* A tied head keeps the embedding. */
static void drop_others(struct builder *b)
{
	struct tape *t = &b->t;

	for (size_t i = 0; i < b->m->tensors.n; i++) {
		bool kept = pipeline_is_kept(b, i);

		for (size_t k = 0; !kept && k < b->m->tensors.n; k++)
			kept = b->m->tensors.at[k].tied_to == i && pipeline_is_kept(b, k);
		if (kept)
			continue;
		tape_let(t, t->params.at[i].store);
		t->params.at[i].store = TAPE_NONE;
		t->params.at[i].trainable = 0;
	}
}

static void add_leaf(struct builder *b, struct pass *pass)
{
	struct tape_param p = { .store = TAPE_NONE,
				.grad = TAPE_NONE,
				.pending = TAPE_NONE,
				.states = { TAPE_NONE, TAPE_NONE, TAPE_NONE },
				.cast.store = TAPE_NONE,
				.trainable = 1,
				.input = 1 };

	pass->leaf = (uint32_t)b->t.params.n;
	tape_fail(&b->t, vec_push(b->t.mem, &b->t.params, p, b->t.err));
}

static enum plim_status check_pipeline(const struct builder *b)
{
	if (!build_shares_layers(b) || b->r->lora_rank)
		return err_set(b->t.err, PLIM_E_ARG,
			       "a pipeline of %s a model like %s is not planned",
			       b->r->lora_rank ? "adapters of" : "", b->m->family);
	if (b->m->towers[MODEL_TEXT].layers < b->r->pp)
		return err_set(b->t.err, PLIM_E_ARG, "%llu blocks are too few for %llu stages",
			       (unsigned long long)b->m->towers[MODEL_TEXT].layers,
			       (unsigned long long)b->r->pp);
	if (build_is_sharded(b))
		return err_set(b->t.err, PLIM_E_ARG,
			       "a pipeline of copies that share parameters is not planned");
	return PLIM_OK;
}

enum plim_status build_stages(struct builder *b)
{
	uint64_t layers = b->m->towers[MODEL_TEXT].layers, n = b->r->pp;
	struct tape *t = &b->t;
	enum plim_status st = n > 1 ? check_pipeline(b) : PLIM_OK;

	if (st || n < 2)
		return st;
	b->pipe = mem_new(t->mem, 1, sizeof(*b->pipe), t->err);
	if (b->pipe)
		b->pipe->passes =
			mem_new(t->mem, b->r->micro_batches, sizeof(*b->pipe->passes), t->err);
	if (!b->pipe || !b->pipe->passes)
		return mem_status(t->err);
	b->pipe->n = b->r->micro_batches;
	b->first_block = layers * b->r->stage / n;
	b->end_block = layers * (b->r->stage + 1) / n;
	b->pipe->first = !b->r->stage;
	b->pipe->last = b->r->stage + 1 == n;
	drop_others(b);
	for (size_t i = 0; i < b->pipe->n && !t->failed; i++) {
		struct pass *pass = &b->pipe->passes[i];

		pass->in = pass->out = pass->logits = tape_param(t, TAPE_NONE);
		pass->leaf = pass->gradient = TAPE_NONE;
		if (!b->pipe->first)
			add_leaf(b, pass);
	}
	return t->failed;
}

void build_end_stages(struct builder *b)
{
	struct pipe *p = b->pipe;

	if (!p)
		return;
	mem_free(b->t.mem, p->passes, p->passes ? p->n : 0, sizeof(*p->passes));
	mem_free(b->t.mem, p, 1, sizeof(*p));
}

/* ---- steps ---- */

static uint64_t elements(const struct builder *b)
{
	return b->batch * b->sequence * b->m->towers[MODEL_TEXT].hidden;
}

/* Shapes are learned by a forward pass; then come the buffers. */
static void begin_pipeline(struct builder *b, struct value ids)
{
	struct tape *t = &b->t;
	struct value in, out, logits, none = tape_param(t, TAPE_NONE);

	ids.n = b->batch * b->sequence;
	in = b->pipe->first ? tape_keep(t, ids)
			    : tape_new(t, elements(b), b->weights, TIMELINE_INPUT);
	t->grad = 0;
	out = build_stage(b, in, none, &logits);
	t->grad = 1;
	tape_uncache(t);
	tape_drop(t, &in);
	tape_drop(t, &out);
	tape_drop(t, &logits);
	for (size_t i = 0; i < b->pipe->n && !t->failed; i++) {
		struct pass *pass = &b->pipe->passes[i];
		uint32_t s = tape_store(t, elements(b) * tape_dtype_bytes[b->weights],
					TIMELINE_ACTIVATION);

		if (pass->leaf == TAPE_NONE) {
			pass->gradient = s;
			continue;
		}
		t->params.at[pass->leaf].store = s;
		t->params.at[pass->leaf].n = elements(b);
		t->params.at[pass->leaf].dtype = (uint8_t)b->weights;
	}
	for (size_t i = 0; i < b->pipe->n && !b->pipe->first && !b->pipe->last; i++)
		b->pipe->passes[i].gradient = tape_store(
			t, elements(b) * tape_dtype_bytes[b->weights], TIMELINE_ACTIVATION);
	b->pipe->started = true;
}

static void forward_pipeline(struct builder *b, size_t at, struct value ids, struct value labels)
{
	struct pass *pass = &b->pipe->passes[at];
	struct tape *t = &b->t;

	ids.n = labels.n = b->batch * b->sequence;
	pass->part.first = (uint32_t)t->nodes.n;
	pass->in = b->pipe->first ? ids : tape_param(t, pass->leaf);
	pass->out = build_stage(b, pass->in, labels, &pass->logits);
	pass->part.end = (uint32_t)t->nodes.n;
	/* blocks that are computed again make their own casts, as they did the first time */
	if (t->regions.n)
		tape_uncache(t);
	pass->part.shared = b->pipe->passes[0].part.end;
}

/* What goes back to the stage before lives until that has it: until the next micro-batch is through. */
static void backward(struct builder *b, size_t at)
{
	struct pass *pass = &b->pipe->passes[at];
	struct tape *t = &b->t;
	struct pass *before = at ? pass - 1 : NULL;

	tape_backward_part(t, pass->out, pass->gradient, pass->part);
	tape_drop(t, &pass->out);
	if (before && before->leaf != TAPE_NONE) {
		tape_let(t, t->params.at[before->leaf].grad);
		t->params.at[before->leaf].grad = TAPE_NONE;
	}
}

static void finish_pipeline(struct builder *b)
{
	struct pass *last = &b->pipe->passes[b->pipe->n - 1];
	struct tape *t = &b->t;

	if (last->leaf != TAPE_NONE) {
		tape_let(t, t->params.at[last->leaf].grad);
		t->params.at[last->leaf].grad = TAPE_NONE;
	}
	tape_forget(t);
	build_forget_shared(b);
	if (b->pipe->last)
		tape_touch(t, last->logits.n * b->pipe->n * tape_dtype_bytes[last->logits.dtype]);
}

void build_pipeline_step(struct builder *b, struct value ids, struct value labels)
{
	size_t n = b->pipe->n, ahead = b->r->pp - b->r->stage, done = 0, i;

	if (b->r->schedule == PLAN_GPIPE || ahead > n)
		ahead = n;
	b->batch = b->r->batch;
	for (i = 0; i < n; i++)
		tape_drop(&b->t, &b->pipe->passes[i].logits);
	if (!b->pipe->started)
		begin_pipeline(b, ids);
	for (i = 0; i < ahead; i++)
		forward_pipeline(b, i, ids, labels);
	while (done < n && !b->t.failed) {
		backward(b, done++);
		if (i < n)
			forward_pipeline(b, i++, ids, labels);
	}
	finish_pipeline(b);
}
