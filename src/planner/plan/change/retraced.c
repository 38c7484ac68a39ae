/*
 * Other recipes of a run that was traced: each is traced again, once, by whoever asked for the plan; what PyTorch cannot be
 * asked for is not a rung.
 */
#include "plan/plan.h"

#include "facts/facts.h"

#include <stdlib.h>
#include <string.h>

/* ---- what it was made with ---- */

static enum plim_status tell_asked(struct plim_plan *p, const char *asked,
				   struct plim_plan_options *given, struct plim_err *err)
{
	const char *equals = strchr(asked, '=');
	const char *name, *value = equals ? equals + 1 : "";

	if (!equals)
		return PLIM_OK;
	name = arena_text(&p->hidden->arena, err, "%.*s", (int)(equals - asked), asked);
	if (!name)
		return mem_status(err);
	if (!strcmp(name, "task"))
		given->task = value;
	else if (!strcmp(name, "steps"))
		given->steps = strtoull(value, NULL, 10);
	else if (!strcmp(name, "new-tokens"))
		given->new_tokens = strtoull(value, NULL, 10);
	else if (!strcmp(name, "lora-targets"))
		given->lora_targets = value;
	else if (strcmp(value, "0") != 0) /* the sequence of what has none */
		return plan_tell_option(given, name, value, err);
	return PLIM_OK;
}

enum plim_status plan_recipe_of_trace(struct plim_plan *p, const struct plim_plan_options *o,
				      struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	const struct plan_traced *t = &h->traced;
	struct plan_recipe *r = &h->recipe;
	struct plim_plan_options given;
	enum plim_status st = PLIM_OK;

	plim_plan_options_init(&given);
	plan_settle_counts(&given);
	given.settings = o->settings;
	given.torch = o->torch;
	given.sequence = 1; /* what has none */
	for (size_t i = 0; !st && i < t->asked.n; i++)
		st = tell_asked(p, t->asked.at[i], &given, err);
	if (!st && t->asked.n)
		st = plan_read_options(p, &given, err);
	if (st == PLIM_E_NOMEM || st == PLIM_E_LIMIT)
		return st;
	h->traced_recipe = !st && t->asked.n;
	if (!h->traced_recipe)
		plan_recipe_init(r);
	if (h->gpu)
		r->device = plan_device_of(h->gpu->capability, h->gpu->multiprocessors);
	r->task = !strcmp(t->task, "train")      ? PLAN_TRAIN
		  : !strcmp(t->task, "generate") ? PLAN_GENERATE
						 : PLAN_INFER;
	r->batch = t->batch;
	r->sequence = t->sequence;
	return PLIM_OK;
}

/* ---- what it may be made with ---- */

static bool says(const struct plan_traced *t, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < t->asked.n; i++)
		if (!strncmp(t->asked.at[i], name, n) && t->asked.at[i][n] == '=')
			return true;
	return false;
}

static bool is_traced_parallel(enum plan_parallel parallel)
{
	return parallel == PLAN_DDP || parallel == PLAN_FSDP2 || parallel == PLAN_FSDP2_ZERO2;
}

static bool is_traced_optimizer(const struct plan_recipe *r)
{
	return r->optimizer != PLAN_ADAMW_8BIT && !plan_is_torchao(r) && !plan_is_paged(r);
}

/* What no trace does stays as it is; and what this one's model says itself. */
static bool can_be_asked(const struct plim_plan *p, const struct plan_recipe *r)
{
	const struct plan_recipe *was = &p->hidden->recipe;
	const struct plan_traced *t = &p->hidden->traced;
	const struct {
		bool changes, possible;
	} rows[] = {
		{ r->batch != was->batch, says(t, "batch") },
		{ r->sequence != was->sequence, says(t, "seq") },
		{ r->target_sequence != was->target_sequence, false },
		{ r->accumulate != was->accumulate, says(t, "accumulate") },
		{ r->precision != was->precision,
		  says(t, "precision") && r->precision != PLAN_BF16_MASTER },
		{ r->optimizer != was->optimizer, says(t, "optimizer") && is_traced_optimizer(r) },
		{ r->attention != was->attention, says(t, "attention") },
		{ r->checkpointing != was->checkpointing ||
			  r->checkpoint_every != was->checkpoint_every,
		  says(t, "checkpointing") && r->checkpointing == PLAN_CHECKPOINT_FULL &&
			  r->checkpoint_every <= 1 },
		/* a function says it itself, and then these as well */
		{ r->lora_rank != was->lora_rank, says(t, "checkpointing") },
		{ r->parallel != was->parallel, was->gpus > 1 && is_traced_parallel(r->parallel) },
		{ r->gpus != was->gpus || r->tp != was->tp || r->pp != was->pp, false },
		{ r->quantize != was->quantize || r->loss != was->loss, false },
		{ r->activations || r->optimizer_on || r->parameters_on, false },
		{ r->longest != was->longest || r->grouped != was->grouped, false },
		{ r->eval_passes != was->eval_passes || r->eval_batch != was->eval_batch, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].changes && !rows[i].possible)
			return false;
	return true;
}

/* Do two recipes make the same requests, except for their sizes? */
static bool is_alike(const struct plan_recipe *a, const struct plan_recipe *b)
{
	return a->accumulate == b->accumulate && a->precision == b->precision &&
	       a->optimizer == b->optimizer && a->attention == b->attention &&
	       a->checkpointing == b->checkpointing && a->checkpoint_every == b->checkpoint_every &&
	       a->lora_rank == b->lora_rank && a->parallel == b->parallel && a->gpus == b->gpus &&
	       a->keep_outputs == b->keep_outputs;
}

static bool is_same(const struct plan_recipe *a, const struct plan_recipe *b)
{
	return is_alike(a, b) && a->batch == b->batch && a->sequence == b->sequence;
}

/* ---- it is made ---- */

static enum plim_status trace_again(struct plim_plan *p, const struct plan_recipe *r,
				    struct plan **out, struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	struct plan_traced t = { .mem = &h->mem, .arena = &h->arena };
	struct plim_plan_options o = *h->options;
	const char *path = NULL;
	enum plim_status st;

	o.flags &= ~(uint32_t)(PLIM_PLAN_KEEP_OUTPUTS | PLIM_PLAN_NO_CLIP);
	o.flags |= (r->keep_outputs ? PLIM_PLAN_KEEP_OUTPUTS : 0) |
		   (r->no_clip ? PLIM_PLAN_NO_CLIP : 0);
	o.task = plan_task_names[r->task];
	o.precision = plan_precision_names[r->precision];
	o.optimizer = plan_optimizer_names[r->optimizer];
	/* SDPA is what it has without the option */
	o.attention = r->attention == PLAN_SDPA ? NULL : plan_attention_names[r->attention];
	o.checkpointing = r->checkpointing == PLAN_CHECKPOINT_FULL ? "full" : NULL;
	o.parallel = r->gpus > 1 ? plan_parallel_names[r->parallel] : NULL;
	o.gpus = r->gpus;
	o.batch = r->batch;
	o.sequence = r->sequence;
	o.accumulate = r->accumulate;
	o.lora_rank = r->lora_rank;
	*out = NULL;
	if (o.trace(o.trace_ctx, &o, &path) || !path)
		return PLIM_OK;
	st = plan_read_trace(&t, path, out, err);
	plan_release_trace(&t);
	return st;
}

static struct plan_retraced *found(struct plim_plan *p, const struct plan_recipe *r)
{
	struct plim_plan_hidden *h = p->hidden;

	for (size_t i = 0; i < h->retraced.n; i++)
		if (is_same(&h->retraced.at[i].recipe, r))
			return &h->retraced.at[i];
	return NULL;
}

static enum plim_status not_offered(struct plim_err *err)
{
	return err_set(err, PLIM_E_UNSUPPORTED, "a trace does not support this");
}

/* Of the batch or the sequence, one is as it was: there may be a law for the other. */
static enum plim_status by_law(struct plim_plan *p, const struct plan_recipe *r, struct plan **out,
			       struct plim_err *err)
{
	const struct plim_plan_hidden *h = p->hidden;

	if (r->batch == h->recipe.batch)
		return plan_lengthen_trace(&h->traced, h->plan, r->sequence, out, err);
	return plan_scale_trace(&h->traced, h->plan, r->batch, out, err);
}

static bool has_law(const struct plim_plan_hidden *h, const struct plan_recipe *r)
{
	return is_alike(r, &h->recipe) &&
	       (r->batch == h->recipe.batch || r->sequence == h->recipe.sequence) &&
	       (h->beyond || plan_is_between_traced(&h->traced, r->batch, r->sequence));
}

enum plim_status plan_retrace(struct plim_plan *p, const struct plan_recipe *r, struct plan **out,
			      struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	struct plan_retraced *one = found(p, r);
	enum plim_status st = PLIM_OK;

	*out = NULL;
	if (is_same(r, &h->recipe))
		return plan_copy(h->plan, out, err);
	if (has_law(h, r))
		return by_law(p, r, out, err);
	if (!one) {
		struct plan_retraced made = { .recipe = *r };

		if (!h->traced_recipe || !h->options || !h->options->trace || !can_be_asked(p, r))
			return not_offered(err);
		st = trace_again(p, r, &made.plan, err);
		if (!st)
			st = vec_push(&h->mem, &h->retraced, made, err);
		if (st) {
			plan_free(made.plan);
			return st;
		}
		one = &h->retraced.at[h->retraced.n - 1];
	}
	return one->plan ? plan_copy(one->plan, out, err) : not_offered(err);
}
