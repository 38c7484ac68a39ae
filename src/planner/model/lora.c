/*
 * LoRA as PEFT does it: the model is frozen, and each target gets A [rank, in] and B [out, rank] behind its own
 * tensors.  Adapters of weights of 16 bits are fp32 unless autocast_adapter_dtype is off.
 */
#include "tables.h"

#include <fnmatch.h>

#define RANK ((uint64_t)1 << 20) /* no adapter has more */

struct change {
	const struct model_lora *lora;
	const char *targets;
	size_t adapted;
};

/* Is `name` one of "a,b.c,*.d": its end behind a dot, or, with a star, all of it? */
static bool is_called(const char *name, const char *list)
{
	size_t length = strlen(name);

	for (const char *word = list; word && *word; word += strcspn(word, ",")) {
		char pattern[MODEL_NAME_BYTES];
		size_t n;

		word += *word == ',';
		n = strcspn(word, ",");
		if (!n || n >= sizeof(pattern))
			continue;
		memcpy(pattern, word, n);
		pattern[n] = 0;
		if (memchr(pattern, '*', n) ? !fnmatch(pattern, name, 0)
					    : n <= length && !strcmp(name + length - n, pattern) &&
						      (n == length || name[length - n - 1] == '.'))
			return true;
	}
	return false;
}

/* What "all-linear" leaves out: layers whose output is the model's. */
static bool is_output(const struct model_module *module)
{
	return module->role == MODEL_ROLE_HEAD || module->role == MODEL_ROLE_HEAD_DENSE;
}

static bool is_target(const struct model *m, const struct model_module *module, const char *targets)
{
	bool linear = module->kind == MODEL_LINEAR || module->kind == MODEL_CONV1D;
	char name[MODEL_NAME_BYTES];

	if (!linear && module->kind != MODEL_EMBEDDING)
		return false;
	if (!strcmp(targets, "all-linear"))
		return linear && !is_output(module);
	return is_called(model_module_name(m, module, name), targets);
}

static enum plim_status add_matrix(struct model *m, uint32_t module, enum model_part part,
				   uint64_t rows, uint64_t columns, const struct change *c,
				   struct plim_err *err)
{
	struct model_tensor t = { .dims = { rows, columns },
				  .rank = columns ? 2 : 1,
				  .part = (uint8_t)part,
				  .tied_to = MODEL_NONE };

	t.dtype = c->lora->dtype;
	return model_push_tensor(m, module, t, err);
}

static enum plim_status adapt(struct model *m, struct model_module *module, struct change *c,
			      struct plim_err *err)
{
	uint32_t at = (uint32_t)(module - m->modules.at);
	uint64_t rank = c->lora->rank;
	bool embedding = module->kind == MODEL_EMBEDDING;
	enum plim_status st;

	st = add_matrix(m, at, embedding ? MODEL_LORA_EMBEDDING_A : MODEL_LORA_A, rank, module->in,
			c, err);
	if (!st)
		st = add_matrix(m, at, embedding ? MODEL_LORA_EMBEDDING_B : MODEL_LORA_B,
				module->out, rank, c, err);
	if (!st && c->lora->dora)
		st = add_matrix(m, at, MODEL_LORA_MAGNITUDE, module->out, 0, c, err);
	c->adapted++;
	return st;
}

/* A copy of what the module holds, which trains in its place. */
static enum plim_status copy_lora(struct model *m, struct model_module *module,
				  const struct change *c, struct plim_err *err)
{
	uint32_t at = (uint32_t)(module - m->modules.at), n = module->n;
	enum plim_status st = PLIM_OK;

	for (uint32_t i = 0; !st && i < n; i++) {
		struct model_tensor t = m->tensors.at[module->tensors + i];

		t.part = t.part == MODEL_BIAS ? MODEL_BIAS_COPY : MODEL_WEIGHT_COPY;
		t.tied_to = MODEL_NONE;
		t.flags = 0;
		t.dtype = c->lora->dtype;
		st = model_push_tensor(m, at, t, err);
	}
	return st;
}

static enum plim_status change_module(struct model *m, struct model_module *module, void *ctx,
				      struct plim_err *err)
{
	struct change *c = ctx;
	char name[MODEL_NAME_BYTES];

	for (uint32_t i = 0; i < module->n; i++)
		if (!(m->tensors.at[module->tensors + i].flags & MODEL_IS_BUFFER))
			m->tensors.at[module->tensors + i].flags |= MODEL_IS_FROZEN;
	if (c->lora->save && is_called(model_module_name(m, module, name), c->lora->save))
		return copy_lora(m, module, c, err);
	return is_target(m, module, c->targets) ? adapt(m, module, c, err) : PLIM_OK;
}

enum plim_status model_add_lora(struct model *m, const struct model_lora *lora,
				struct plim_err *err)
{
	struct change c = { .lora = lora, .targets = lora->targets };
	enum plim_status st;

	if (!c.targets)
		c.targets = m->adapters ? m->adapters : "q_proj,v_proj";
	if (!lora->rank || lora->rank > RANK)
		return err_set(err, PLIM_E_ARG, "a LoRA rank of %llu",
			       (unsigned long long)lora->rank);
	st = model_rebuild(m, change_module, &c, err);
	if (!st && !c.adapted)
		st = err_set(err, PLIM_E_ARG, "no linear layer of this model is called '%.100s'",
			     c.targets);
	return st;
}
