/*
 * Weights that bitsandbytes quantized: Linear4bit and Linear8bitLt (nn/modules.py, autograd/_functions.py), loaded by
 * Transformers and trained through adapters (PEFT's prepare_model_for_kbit_training).  None of it was measured here.
 */
#include "plan/step/build.h"

#define SCALE_BLOCK 64 /* numbers of 4 bits that share a scale */

bool build_is_quantized(const struct builder *b, const struct model_module *module)
{
	const struct model_tensor *w = &b->m->tensors.at[module->tensors];

	return b->r->quantize && module->n && w->part == MODEL_WEIGHT && w->dtype &&
	       w->dtype->bits == 8;
}

/*
 * Linear4bit computes in bnb_4bit_compute_dtype, taken for bf16, and gives what it was given.  Lightning's plugin makes
 * codes of a weight in fp16 (fabric/plugins/precision/bitsandbytes.py 334 of 2.4.0, 343 of 2.5.5), which dequantize_4bit() then
 * makes of them, and MatMul4Bit casts (autograd/_functions.py 516, 546 of bitsandbytes 0.42.0).
 */
struct value build_quantized(struct builder *b, const struct model_module *module, struct value x,
			     struct value bias)
{
	struct packed w = { .in = module->in,
			    .out = module->out,
			    .bytes = b->r->quantize == PLAN_INT8,
			    .kept = b->r->old_bitsandbytes,
			    .half = b->r->litgpt };
	struct tape *t = &b->t;
	struct value in, y;

	if (w.bytes)
		return op_packed(t, x, &w, bias);
	if (b->r->quantize == PLAN_NF4_DOUBLE)
		w.scales = (w.in * w.out + SCALE_BLOCK - 1) / SCALE_BLOCK;
	in = op_cast(t, x, TAPE_BF16);
	y = op_packed(t, in, &w, bias);
	tape_drop(t, &in);
	tape_set(t, &y, op_cast(t, y, x.dtype));
	return y;
}

/* FSDP shares out what looks like weights of 16 bits (bnb_4bit_quant_storage), next to others of the same dtype. */
static enum plim_status check_shared(const struct builder *b, struct plim_err *err)
{
	if (plan_is_zero(b->r))
		return err_set(err, PLIM_E_ARG,
			       "weights in %s are shared out by FSDP alone here: options.parallel "
			       "fsdp2; DeepSpeed's ZeRO-2 leaves them whole, as options.parallel "
			       "ddp does",
			       plan_quantize_names[b->r->quantize]);
	if (b->r->quantize == PLAN_INT8)
		return err_set(err, PLIM_E_ARG,
			       "FSDP cannot share out weights in int8: options.quantize nf4");
	if (b->weights != TAPE_BF16)
		return err_set(err, PLIM_E_ARG,
			       "FSDP shares out codes and other weights in one dtype of 16 bits: "
			       "options.precision bf16-weights or bf16-pure");
	return PLIM_OK;
}

bool build_is_packed(const struct builder *b, const struct model_tensor *x)
{
	return b->r->quantize && x->dtype && x->part == MODEL_WEIGHT && build_is_sharded(b);
}

uint64_t build_packed(const struct builder *b, const struct model_tensor *x)
{
	unsigned bytes = tape_dtype_bytes[TAPE_BF16];

	return (build_divided(b, x) + bytes - 1) / bytes;
}

enum plim_status build_check_quantized(const struct builder *b, struct plim_err *err)
{
	const char *how = plan_quantize_names[b->r->quantize];

	if (b->m->stored.name && b->r->task == PLAN_TRAIN)
		return err_set(err, PLIM_E_UNSUPPORTED,
			       "weights in %s are planned to infer and to generate, not to train",
			       b->m->stored.name);
	if (!b->r->quantize)
		return PLIM_OK;
	if (!build_is_decoder(b->m))
		return err_set(err, PLIM_E_ARG,
			       "weights in %s are planned for decoders, not for '%s'", how,
			       b->m->family);
	if (b->r->task == PLAN_TRAIN && !b->r->lora_rank)
		return err_set(
			err, PLIM_E_ARG,
			"weights in %s take no gradient: train adapters (options.lora_rank RANK)",
			how);
	return build_is_sharded(b) ? check_shared(b, err) : PLIM_OK;
}

/* The next tensor comes: a weight that is to be quantized is there as the file has it until its scales are made. */
void build_before_quantized(struct builder *b, const struct model_tensor *next)
{
	const struct model_module *module = &b->m->modules.at[next->module];

	/* what is shared out is quantized in the machine's memory; a file may hold codes */
	if (!b->r->quantize || next->part == MODEL_QUANT_STATE || build_is_meta(b) ||
	    b->m->quantized)
		return;
	tape_let(&b->t, b->unquantized);
	b->unquantized = TAPE_NONE;
	if (next->part == MODEL_WEIGHT && build_is_quantized(b, module))
		b->unquantized =
			tape_store(&b->t, module->in * module->out * tape_dtype_bytes[TAPE_BF16],
				   TIMELINE_PARAMETER);
}

/* What a file of 16 bits holds next to codes is trained on in fp32, cast one by one; in pure bf16 it is left. */
void build_prepare_quantized(struct builder *b)
{
	struct tape *t = &b->t;

	tape_let(t, b->unquantized);
	b->unquantized = TAPE_NONE;
	if (!b->r->quantize || b->weights != TAPE_F32)
		return;
	for (size_t i = 0; i < b->m->tensors.n && !t->failed; i++) {
		const struct model_tensor *x = &b->m->tensors.at[i];
		struct tape_param *p = &t->params.at[i];
		uint32_t old = p->store;

		if (old == TAPE_NONE || x->dtype || x->flags & MODEL_IS_BUFFER)
			continue;
		p->store = tape_store(t, p->n * tape_dtype_bytes[TAPE_F32], TIMELINE_PARAMETER);
		tape_let(t, old);
	}
}
