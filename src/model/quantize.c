/*
 * Weights as bitsandbytes keeps them on the GPU.  4 bits: two numbers a byte, an fp32 scale for each block of 64 and the
 * 16 values that the codes stand for; with double quantization the scales are bytes, with an fp32 scale for 256 of
 * them and an fp32 offset.  8 bits: a byte a number and an fp32 scale a row.  (bitsandbytes functional.py, nn/modules.py)
 */
#include "tables.h"

#define BLOCK 64
#define SCALES_BLOCK 256
#define CODES 16

/* Left as they are by Transformers: what makes the output. */
static bool is_quantized(const struct model_module *module)
{
	return (module->kind == MODEL_LINEAR || module->kind == MODEL_CONV1D) &&
	       module->role != MODEL_ROLE_HEAD;
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

static enum plim_status to_8_bits(struct model *m, struct model_module *module, bool unused,
				  struct plim_err *err)
{
	struct model_tensor *w = &m->tensors.at[module->tensors];

	(void)unused;
	w->dtype = ckpt_dtype_of_torch("int8");
	return add_state(m, (uint32_t)(module - m->modules.at), "float32", module->out, err);
}

static enum plim_status to_4_bits(struct model *m, struct model_module *module, bool twice,
				  struct plim_err *err)
{
	struct model_tensor *w = &m->tensors.at[module->tensors];
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

static const struct quantizer {
	enum plim_status (*weight)(struct model *m, struct model_module *module, bool twice,
				   struct plim_err *err);
	bool twice;
} quantizers[MODEL_QUANTIZATIONS] = {
	[MODEL_NF4] = { to_4_bits, false },
	[MODEL_NF4_DOUBLE] = { to_4_bits, true },
	[MODEL_INT8] = { to_8_bits, false },
};

static enum plim_status change_module(struct model *m, struct model_module *module, void *ctx,
				      struct plim_err *err)
{
	const struct quantizer *q = ctx;

	if (!is_quantized(module) || !module->n || module->n > 2)
		return PLIM_OK;
	m->tensors.at[module->tensors].flags |= MODEL_IS_FROZEN;
	return q->weight(m, module, q->twice, err);
}

enum plim_status model_quantize(struct model *m, enum model_quantization how, struct plim_err *err)
{
	struct quantizer q = quantizers[how];

	return model_rebuild(m, change_module, &q, err);
}
