/*
 * Queries, keys and values made by one layer, as LitGPT's CausalSelfAttention has it (litgpt/model.py 219 of commit
 * 00af8b0d), where the file has three.
 */
#include "tables.h"

static const struct model_module *join_find(const struct model *m, const struct model_module *of,
					    enum model_role role)
{
	return model_module_at(m, (enum model_tower)of->tower, of->block, role);
}

/* The first of the three takes the features of all, in its weight and its bias. */
static void join_widen(struct model *m, struct model_module *q)
{
	const struct model_module *k = join_find(m, q, MODEL_ROLE_K),
				  *v = join_find(m, q, MODEL_ROLE_V);

	if (!k || !v || join_find(m, q, MODEL_ROLE_Q_NORM))
		return;
	q->out += k->out + v->out;
	q->role = MODEL_ROLE_QKV;
	q->name = "attn.qkv_proj";
	for (uint32_t i = 0; i < q->n; i++) {
		struct model_tensor *t = &m->tensors.at[q->tensors + i];

		t->count = t->count / t->dims[0] * q->out;
		t->dims[0] = q->out;
	}
}

/* The others come after the first one, and are left without tensors. */
static enum plim_status join_module(struct model *m, struct model_module *module, void *ctx,
				    struct plim_err *err)
{
	(void)ctx;
	(void)err;
	if (module->tower != MODEL_TEXT || module->kind != MODEL_LINEAR)
		return PLIM_OK;
	if (module->role == MODEL_ROLE_Q)
		join_widen(m, module);
	if ((module->role == MODEL_ROLE_K || module->role == MODEL_ROLE_V) &&
	    join_find(m, module, MODEL_ROLE_QKV)) {
		m->tensors.n -= module->n;
		module->n = 0;
		module->role = MODEL_ROLE_OTHER;
		module->kind = MODEL_PARAMETER;
	}
	return PLIM_OK;
}

enum plim_status model_join(struct model *m, struct plim_err *err)
{
	return model_rebuild(m, join_module, NULL, err);
}
