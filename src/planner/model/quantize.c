/*
 * Weights as bitsandbytes keeps them on the GPU.  4 bits: two numbers a byte, an fp32 scale for each block of 64 and the
 * 16 values that the codes stand for; with double quantization the scales are bytes, with an fp32 scale for 256 of
 * them and an fp32 offset.  8 bits: a byte a number and an fp32 scale a row.  (bitsandbytes functional.py, nn/modules.py)
 * Experts that are linear layers are quantized matrix by matrix; those in one parameter a block stay as they are.
 */
#include "tables.h"

#define BLOCK 64
#define SCALES_BLOCK 256
#define CODES 16

/* Left as they are by Transformers: what makes the output. */
static bool is_quantized(const struct model_module *module, unsigned also)
{
	return (module->kind == MODEL_LINEAR || module->kind == MODEL_CONV1D) &&
	       (module->role != MODEL_ROLE_HEAD || also & MODEL_QUANTIZE_HEAD);
}

static enum plim_status add_state(struct model *m, uint32_t module, const char *dtype,
				  uint64_t count, struct plim_err *err)
{
	struct model_tensor t = { .dims = { count },
				  .rank = 1,
				  .part = MODEL_QUANT_STATE,
				  .flags = MODEL_IS_STATE | MODEL_IS_FROZEN,
				  .tied_to = MODEL_NONE };

	t.dtype = ckpt_dtype_of_torch(dtype);
	return model_push_tensor(m, module, t, err);
}

/* The module's tensor of that number, whose states are put behind all that the module has so far. */
static enum plim_status to_8_bits(struct model *m, struct model_module *module, uint32_t number,
				  bool unused, struct plim_err *err)
{
	struct model_tensor *w = &m->tensors.at[module->tensors + number];

	(void)unused;
	w->dtype = ckpt_dtype_of_torch("int8");
	return add_state(m, (uint32_t)(module - m->modules.at), "float32", module->out, err);
}

static enum plim_status to_4_bits(struct model *m, struct model_module *module, uint32_t number,
				  bool twice, struct plim_err *err)
{
	struct model_tensor *w = &m->tensors.at[module->tensors + number];
	uint32_t at = (uint32_t)(module - m->modules.at);
	uint64_t blocks = (w->count + BLOCK - 1) / BLOCK;
	enum plim_status st;

	w->dims[0] = w->count = (w->count + 1) / 2;
	w->dims[1] = 1;
	w->rank = 2;
	w->dtype = ckpt_dtype_of_torch("uint8");
	st = add_state(m, at, twice ? "uint8" : "float32", blocks, err);
	if (!st)
		st = add_state(m, at, "float32", CODES, err);
	if (!st && twice)
		st = add_state(m, at, "float32", (blocks + SCALES_BLOCK - 1) / SCALES_BLOCK, err);
	if (!st && twice)
		st = add_state(m, at, "float32", 1, err);
	return st;
}

struct quantizer {
	enum plim_status (*weight)(struct model *m, struct model_module *module, uint32_t number,
				   bool twice, struct plim_err *err);
	bool twice;
	unsigned also;
};

static const struct quantizer quantizers[MODEL_QUANTIZATIONS] = {
	[MODEL_NF4] = { to_4_bits, false, 0 },
	[MODEL_NF4_DOUBLE] = { to_4_bits, true, 0 },
	[MODEL_INT8] = { to_8_bits, false, 0 },
};

/* A parameter [experts, out, in] becomes as many matrices; gates and what they are multiplied with are two. */
static enum plim_status change_experts(struct model *m, struct model_module *module,
				       const struct quantizer *q, struct plim_err *err)
{
	const struct model_numbers *n = &m->towers[module->tower];
	uint64_t halves = module->role == MODEL_ROLE_EXPERTS_UP && n->gated ? 2 : 1;
	struct model_tensor bank = m->tensors.at[--m->tensors.n];
	uint32_t at = (uint32_t)(module - m->modules.at);
	enum plim_status st = PLIM_OK;

	module->n--;
	module->out /= halves;
	bank.dims[0] = module->out;
	bank.dims[1] = module->in;
	bank.dims[2] = 1;
	bank.rank = 2;
	bank.part = MODEL_WEIGHT;
	bank.flags |= MODEL_IS_FROZEN;
	for (uint64_t i = 0; !st && i < n->experts * halves; i++) {
		uint32_t number = module->n;

		st = model_push_tensor(m, at, bank, err);
		if (!st)
			st = q->weight(m, module, number, q->twice, err);
	}
	return st;
}

static enum plim_status change_module(struct model *m, struct model_module *module, void *ctx,
				      struct plim_err *err)
{
	const struct quantizer *q = ctx;

	if (q->also & MODEL_QUANTIZE_EXPERTS && module->kind == MODEL_EXPERTS && module->n == 1)
		return change_experts(m, module, q, err);
	if (!is_quantized(module, q->also) || !module->n || module->n > 2)
		return PLIM_OK;
	m->tensors.at[module->tensors].flags |= MODEL_IS_FROZEN;
	return q->weight(m, module, 0, q->twice, err);
}

enum plim_status model_quantize(struct model *m, enum model_quantization how, unsigned also,
				struct plim_err *err)
{
	struct quantizer q = quantizers[how];

	q.also = also;
	return model_rebuild(m, change_module, &q, err);
}
