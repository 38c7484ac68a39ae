/* The model as it is reported, and what of it forbids a verdict. */
#include "plan/plan.h"

#include <string.h>

#define UNREAD_SHOWN 6

/* The keys that were not read, in one sentence. */
static const char *unread_keys(struct plim_plan *p, struct plim_err *err)
{
	const struct model *m = &p->hidden->model;
	struct text words;
	const char *sentence;

	if (p->hidden->redacts)
		return plan_string(p, err,
				   "the file has %zu keys that are not read here and may change "
				   "memory: `--trace` plans them",
				   m->unread.n);
	text_init(&words, &p->hidden->mem, NULL);
	for (size_t i = 0; i < m->unread.n && i < UNREAD_SHOWN; i++)
		text_printf(&words, "%s%s", i ? ", " : "",
			    intern_text(&m->strings, m->unread.at[i]));
	if (m->unread.n > UNREAD_SHOWN)
		text_printf(&words, " and %zu more", m->unread.n - UNREAD_SHOWN);
	sentence = plan_string(
		p, err,
		"the file has keys that are not read here and may change memory (`--trace` "
		"plans them): %s",
		text_get(&words));
	text_release(&words);
	return sentence;
}

static enum plim_status doubt(struct plim_plan *p, const char *sentence, struct plim_err *err)
{
	return sentence ? vec_push(&p->hidden->mem, &p->hidden->doubts, sentence, err)
			: mem_status(err);
}

static bool adapts_all(const struct plan_recipe *r)
{
	for (size_t i = 0; r->lora_rank && i < r->lora_target_count; i++)
		if (!strcmp(r->lora_targets[i], "all-linear"))
			return true;
	return false;
}

/* What forbids a verdict: a number below a limit says nothing where part of the model was not counted. */
static enum plim_status take_doubts(struct plim_plan *p, struct plim_err *err)
{
	const struct model *m = &p->hidden->model;
	enum plim_status st = PLIM_OK;

	if (m->guessed)
		st = doubt(
			p,
			plan_string(
				p, err,
				m->from_header
					? "architecture '%s' is not known here: the numbers are "
					  "those of a decoder like Llama; `--trace` plans it"
					: "architecture '%s' is not known here: `--trace` plans it",
				!*m->declared        ? "(no model_type)"
				: p->hidden->redacts ? "(redacted)"
						     : m->declared),
			err);
	if (!st && m->other_class)
		st = doubt(
			p,
			plan_string(
				p, err,
				"the class in 'architectures' is not one of %s: `--trace` plans it",
				m->family),
			err);
	if (!st && adapts_all(&p->hidden->recipe) &&
	    plan_has_linear_experts(m, p->hidden->recipe.transformers))
		st = doubt(p,
			   "before Transformers 5 experts were linear layers, which all-linear "
			   "adapts: their adapters are not counted here",
			   err);
	if (!st && *m->quantizer && !m->quantized && !m->stored.name)
		st = doubt(
			p,
			plan_string(
				p, err,
				"the weights are quantized by %s, and are counted at 16 bits here: "
				"plan the original, or with --quantize",
				p->hidden->redacts ? "a library" : m->quantizer),
			err);
	if (!st && *m->unmet)
		st = doubt(
			p,
			plan_string(
				p, err,
				"'quantized_layers' names %s%s%s, which is not a module here: its "
				"weights are counted at 16 bits",
				p->hidden->redacts ? "" : "'",
				p->hidden->redacts ? "a layer" : m->unmet,
				p->hidden->redacts ? "" : "'"),
			err);
	if (!st && m->unplanned)
		st = doubt(p,
			   plan_string(p, err, "%s are not planned here: `--trace` plans them",
				       m->unplanned),
			   err);
	if (!st && m->unread.n)
		st = doubt(p, unread_keys(p, err), err);
	p->model.doubts = p->hidden->doubts.at;
	p->model.doubt_count = p->hidden->doubts.n;
	return st;
}

enum plim_status plan_take_model(struct plim_plan *p, struct plim_err *err)
{
	const struct model *m = &p->hidden->model, *kept;
	const struct plan_recipe *r = &p->hidden->recipe;
	const struct ckpt_dtype *dtype =
		ckpt_dtype_of_torch(plan_is_half(r) ? "bfloat16" : "float32");
	struct model_totals totals, as_kept;
	enum plim_status st = plan_model_for(p, r, &kept, err);

	if (st)
		return st;
	model_get_totals(m, dtype, &totals);
	model_get_totals(kept, dtype, &as_kept);
	p->model.family = m->family;
	p->model.guessed = m->guessed;
	p->model.parameters = totals.parameters;
	p->model.parameter_bytes = as_kept.parameter_bytes + as_kept.state_bytes;
	p->model.trainable = r->task == PLAN_TRAIN ? totals.trainable : 0;
	return take_doubts(p, err);
}
