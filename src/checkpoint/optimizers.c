/* Which optimizer wrote a state_dict: what its state and its groups hold shows. */
#include "walk.h"

#include <math.h>
#include <string.h>

/* What a parameter's state holds shows the optimizer; the first row that fits. */
static const struct {
	const char *state, *group, *kind;
} optimizers[] = {
	{ NULL, "scale_parameter", "Adafactor" }, /* transformers' */
	{ NULL, "beta2_decay", "Adafactor" },     /* torch's */
	{ NULL, "tolerance_grad", "LBFGS" },
	{ NULL, "ns_steps", "Muon" },
	{ "exp_avg_sq_row", NULL, "Adafactor" },
	{ "mu_product", NULL, "NAdam" },
	{ "exp_inf", NULL, "Adamax" },
	{ "exp_avg_sq", "decoupled_weight_decay", "Adam or AdamW" },
	{ "exp_avg_sq", "amsgrad", "Adam or AdamW" },
	{ "exp_avg_sq", NULL, "of Adam's family" },
	{ "exp_avg", NULL, "Lion" },
	{ "acc_delta", NULL, "Adadelta" },
	{ "square_avg", NULL, "RMSprop" },
	{ "momentum_buffer", NULL, "SGD with momentum" },
	{ "ax", NULL, "ASGD" },
	{ "prev", NULL, "Rprop" },
	{ "sum", NULL, "Adagrad" },
	{ "state1", NULL, "8-bit (bitsandbytes)" },
	{ NULL, "nesterov", "SGD" },
};

static bool optimizer_has(const struct walk *w, struct pickle_value dict, const char *key)
{
	struct pickle_value v;

	dict = walk_as_dict(w, dict);
	return dict.kind == PICKLE_DICT && pickle_get(w->heap, dict, key, &v) &&
	       v.kind != PICKLE_NONE; /* SGD keeps its place for a momentum that it has not */
}

static const char *optimizer_kind(const struct walk *w, struct pickle_value one,
				  struct pickle_value group)
{
	struct pickle_value decoupled;

	if (optimizer_has(w, one, "exp_avg_sq") && walk_as_dict(w, group).kind == PICKLE_DICT &&
	    pickle_get(w->heap, walk_as_dict(w, group), "decoupled_weight_decay", &decoupled))
		return walk_is_true(decoupled) ? "AdamW" : "Adam";
	for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++)
		if ((!optimizers[i].state || optimizer_has(w, one, optimizers[i].state)) &&
		    (!optimizers[i].group || optimizer_has(w, group, optimizers[i].group)))
			return optimizers[i].kind;
	return NULL;
}

static size_t keys_of(const struct walk *w, struct pickle_value dict)
{
	dict = walk_as_dict(w, dict);
	return dict.kind == PICKLE_DICT ? pickle_len(w->heap, dict) / 2 : 0;
}

/* Has it fewer keys than the fullest, and each of them there?  Adafactor's factored and plain states are not a case of it. */
static bool is_less(const struct walk *w, struct pickle_value one, struct pickle_value fullest)
{
	size_t n = keys_of(w, one);
	bool less = n < keys_of(w, fullest);

	one = walk_as_dict(w, one);
	for (size_t i = 0; less && i < n; i++) {
		const char *key = walk_str(w, pickle_item(w->heap, one, 2 * i));
		struct pickle_value found;

		less = key && pickle_get(w->heap, walk_as_dict(w, fullest), key, &found);
	}
	return less;
}

/* Whose state a resume would miss: a repaired file holds what was whole. */
static void count_lacking(const struct walk *w, struct pickle_value state,
			  struct pickle_value groups, struct ckpt_optimizer *o)
{
	struct pickle_value fullest = { 0, PICKLE_NONE }, params;

	for (size_t i = 0; i < o->groups; i++) {
		struct pickle_value group = walk_as_dict(w, pickle_item(w->heap, groups, i));

		if (group.kind == PICKLE_DICT && pickle_get(w->heap, group, "params", &params) &&
		    params.kind == PICKLE_LIST)
			o->grouped += pickle_len(w->heap, params);
	}
	for (size_t i = 0; i < o->parameters; i++)
		if (keys_of(w, pickle_item(w->heap, state, 2 * i + 1)) > keys_of(w, fullest))
			fullest = pickle_item(w->heap, state, 2 * i + 1);
	if (!keys_of(w, fullest))
		return;
	o->lacking = o->grouped > o->parameters ? o->grouped - o->parameters : 0;
	for (size_t i = 0; i < o->parameters; i++)
		o->lacking += is_less(w, pickle_item(w->heap, state, 2 * i + 1), fullest);
}

enum plim_status walk_optimizer(struct walk *w, struct pickle_value dict, size_t first,
				struct plim_err *err)
{
	struct pickle_value none = { 0, PICKLE_NONE }, state = none, groups = none, group = none,
			    lr;
	struct pickle_value one = none;
	struct ckpt_optimizer o = { .learning_rate = NAN };
	enum plim_status st = PLIM_OK;

	if (!pickle_get(w->heap, dict, "state", &state) ||
	    !pickle_get(w->heap, dict, "param_groups", &groups) || groups.kind != PICKLE_LIST)
		return PLIM_OK;
	state = walk_as_dict(w, state);
	if (state.kind != PICKLE_DICT)
		return PLIM_OK;
	o.groups = pickle_len(w->heap, groups);
	o.parameters = pickle_len(w->heap, state) / 2;
	if (o.groups)
		group = pickle_item(w->heap, groups, 0);
	if (o.parameters)
		one = pickle_item(w->heap, state, 1);
	if (walk_as_dict(w, group).kind == PICKLE_DICT &&
	    pickle_get(w->heap, walk_as_dict(w, group), "lr", &lr))
		o.learning_rate = walk_number(lr);
	o.kind = optimizer_kind(w, one, group);
	count_lacking(w, state, groups, &o);
	for (size_t i = first; i < w->ckpt->tensors.n; i++) {
		o.state_tensors++;
		o.state_bytes += ckpt_tensor_bytes(&w->ckpt->tensors.at[i]);
	}
	o.path = ckpt_model_string(w->ckpt, walk_name(w), w->name.n, &st, err);
	return st ? st : vec_push(w->ckpt->mem, &w->ckpt->optimizers, o, err);
}
