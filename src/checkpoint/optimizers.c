/* Which optimizer wrote a state_dict: what its state and its groups hold tells. */
#include "walk.h"

#include <math.h>
#include <string.h>

/* What a parameter's state holds tells the optimizer; the first row that fits. */
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

static bool has(const struct walk *w, struct pickle_value dict, const char *key)
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

	if (has(w, one, "exp_avg_sq") && walk_as_dict(w, group).kind == PICKLE_DICT &&
	    pickle_get(w->heap, walk_as_dict(w, group), "decoupled_weight_decay", &decoupled))
		return walk_is_true(decoupled) ? "AdamW" : "Adam";
	for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++)
		if ((!optimizers[i].state || has(w, one, optimizers[i].state)) &&
		    (!optimizers[i].group || has(w, group, optimizers[i].group)))
			return optimizers[i].kind;
	return NULL;
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
	for (size_t i = first; i < w->ckpt->tensors.n; i++) {
		o.state_tensors++;
		o.state_bytes += ckpt_tensor_bytes(&w->ckpt->tensors.at[i]);
	}
	o.path = ckpt_model_string(w->ckpt, walk_name(w), w->name.n, &st, err);
	return st ? st : vec_push(w->ckpt->mem, &w->ckpt->optimizers, o, err);
}
