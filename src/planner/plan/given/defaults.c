/*
 * What a recipe leaves open is as the releases of PyTorch and Transformers have it, and as the model's file says.  What
 * decides bytes is reported as an assumption.  Sources: Transformers' release notes and sources of the releases named.
 */
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

#define RELEASE(major, minor) (100u * (major) + (minor))

static unsigned torch_of(const struct plim_plan_options *o)
{
	return o->torch ? o->torch : RELEASE(2, 11);
}

static enum plim_status tell_default(struct plim_plan *p, const char *text, struct plim_err *err)
{
	return text ? vec_push(&p->hidden->mem, &p->hidden->defaults, text, err) : mem_status(err);
}

static bool is_half_file(const struct plim_plan *p)
{
	const struct ckpt_dtype *dtype = p->hidden->model.dtype;

	return dtype && dtype->bits == 16;
}

/* Nothing is said: what runs is what the file holds, as from_pretrained(dtype="auto") and every server load it. */
static enum plim_status take_loaded(struct plim_plan *p, struct plim_err *err)
{
	const struct ckpt_dtype *dtype = p->hidden->model.dtype;
	struct plan_recipe *r = &p->hidden->recipe;

	r->precision = dtype && dtype->bits == 32 ? PLAN_FP32 : PLAN_BF16_PURE;
	if (p->hidden->model.from_gguf)
		return tell_default(
			p,
			"weights as the file holds them, run by PyTorch (vLLM's kernels read "
			"GGUF); llama.cpp has buffers of its own",
			err);
	if (dtype)
		return PLIM_OK;
	return tell_default(
		p, "weights of 16 bits: the file names no dtype (--precision fp32: twice that)",
		err);
}

/* accelerate makes weights that are trained fp32 again for FSDP 2 under autocast, and all of them for FSDP 1. */
static bool is_widened(const struct plan_recipe *r)
{
	bool second = r->parallel == PLAN_FSDP2 || r->parallel == PLAN_FSDP2_ZERO2;

	return r->precision != PLAN_FP32 && (plan_is_fsdp1(r) || (second && !r->lora_rank));
}

const char plan_stored_words[] =
	"weights in the checkpoint's own 16 bits, as Transformers 5 loads them without a dtype";

/* Autocast, to what it becomes over weights of 16 bits, and how that is reported next to the key. */
static const struct {
	enum plan_precision from, to;
	bool adapters; /* alone: a GradScaler does not unscale gradients of 16 bits */
	const char *words;
} over_stored[] = {
	{ PLAN_FP32, PLAN_BF16_PURE, false,
	  "no autocast; weights in the checkpoint's own 16 bits" },
	{ PLAN_BF16_AUTOCAST, PLAN_BF16_LOADED, false,
	  "bf16 autocast; weights in the checkpoint's own 16 bits" },
	{ PLAN_FP16_AUTOCAST, PLAN_FP16_LOADED, true,
	  "fp16 autocast; frozen weights in the checkpoint's own 16 bits" },
};

static void tell_stored(struct plim_plan *p, const char *words)
{
	for (size_t i = 0; i < p->settings_read_count; i++)
		if (p->settings_read[i].option &&
		    !strncmp(p->settings_read[i].option, "--precision", 11))
			p->settings_read[i].option = words;
}

/* Autocast was asked for, and no dtype of weights: since Transformers 5 they are loaded in that of the file. */
static enum plim_status take_stored(struct plim_plan *p, const struct plim_plan_options *o,
				    struct plim_err *err)
{
	struct plan_recipe *r = &p->hidden->recipe;

	if (!p->hidden->loads_stored || r->task != PLAN_TRAIN || r->quantize || !is_half_file(p) ||
	    (o->transformers && o->transformers < RELEASE(5, 0)) || is_widened(r))
		return PLIM_OK;
	for (size_t i = 0; i < sizeof(over_stored) / sizeof(over_stored[0]); i++) {
		if (over_stored[i].from != r->precision)
			continue;
		if (over_stored[i].adapters && !r->lora_rank)
			return tell_default(
				p,
				"weights are loaded with dtype=torch.float32: in the "
				"checkpoint's own 16 bits, as Transformers 5 loads them without "
				"a dtype, the run stops at its first step (a GradScaler does "
				"not unscale gradients of 16 bits)",
				err);
		r->precision = over_stored[i].to;
		p->hidden->stored = true;
		tell_stored(p, over_stored[i].words);
		return o->transformers ? tell_default(p, plan_stored_words, err) : PLIM_OK;
	}
	return PLIM_OK;
}

static void load_halves(struct plan_recipe *r)
{
	r->precision = r->precision == PLAN_FP16_AUTOCAST ? PLAN_FP16_LOADED : PLAN_BF16_LOADED;
}

/* The dtype of weights under autocast is not given: what decides it, and how that is reported. */
static const char *settle_weights(struct plim_plan *p, const struct plim_plan_options *o)
{
	struct plan_recipe *r = &p->hidden->recipe;
	bool fifth = o->transformers >= RELEASE(5, 0) && is_half_file(p);
	/* a GradScaler does not unscale gradients of 16 bits */
	bool refused = r->precision == PLAN_FP16_AUTOCAST && !r->lora_rank;

	if (r->quantize && plan_is_sharded(r)) {
		load_halves(r);
		return "FSDP shares out codes as numbers of 16 bits "
		       "(bnb_4bit_quant_storage=torch.bfloat16), next to weights of that dtype";
	}
	if (fifth && plan_is_fsdp1(r))
		return "accelerate makes weights of 16 bits fp32 again for FSDP 1";
	if (fifth && refused)
		return "over fp32 weights (dtype=torch.float32): loaded in 16 bits the run stops "
		       "at its first step (a GradScaler does not unscale gradients of 16 bits)";
	if (fifth) {
		load_halves(r);
		return r->precision == PLAN_FP16_LOADED
			       ? "Transformers 5 loads this checkpoint in its own 16 bits, under "
				 "fp16 autocast"
			       : "Transformers 5 loads this checkpoint in its own 16 bits, under "
				 "bf16 autocast";
	}
	if (o->transformers || !is_half_file(p))
		return "over fp32 weights";
	if (r->lora_rank && !plan_is_fsdp1(r) && !plan_is_zero(r)) {
		load_halves(r);
		return r->precision == PLAN_FP16_LOADED
			       ? "frozen weights stay in the file's 16 bits, under fp16 "
				 "autocast (--precision fp16-autocast: in fp32)"
			       : "frozen weights stay in the file's 16 bits, under bf16 "
				 "autocast (--precision bf16-autocast: in fp32)";
	}
	return "over fp32 weights (dtype=torch.float32); without a dtype Transformers 5 loads the "
	       "file's 16 bits (--transformers 5.0)";
}

/* from_pretrained loads what the file holds since Transformers 5, and fp32 before. */
static enum plim_status take_precision(struct plim_plan *p, const struct plim_plan_options *o,
				       struct plim_err *err)
{
	struct plan_recipe *r = &p->hidden->recipe;
	bool trains = r->task == PLAN_TRAIN;
	const char *words;

	if ((o->precision && !plan_says_autocast_alone(o->precision, trains)) ||
	    (p->hidden->loads_stored && !r->quantize))
		return take_stored(p, o, err);
	if (!trains)
		return take_loaded(p, err);
	if (r->quantize && !plan_is_sharded(r))
		return tell_default(
			p,
			r->precision == PLAN_FP16_AUTOCAST
				? "weights that are not quantized are trained in fp32, under fp16 "
				  "autocast (prepare_model_for_kbit_training)"
				: "weights that are not quantized are trained in fp32, under bf16 "
				  "autocast (prepare_model_for_kbit_training)",
			err);
	words = settle_weights(p, o);
	return tell_default(p,
			    plan_string(p, err, "precision %s%s%s",
					plan_precision_names[r->precision],
					strncmp(words, "over ", 5) ? ": " : " ", words),
			    err);
}

/* DeepSpeed's own bf16, which ZeRO-2 and 3 are planned with, keeps fp32 copies where its optimizer is. */
static enum plim_status take_halves(struct plim_plan *p, const struct plim_plan_options *o,
				    struct plim_err *err)
{
	struct plan_recipe *r = &p->hidden->recipe;

	(void)o;
	if (r->parallel != PLAN_ZERO2 || !plan_is_deepspeed(r) ||
	    r->zero.said & PLAN_ZERO_AUTOCASTS ||
	    (r->precision != PLAN_BF16_AUTOCAST && r->precision != PLAN_BF16_LOADED))
		return PLIM_OK;
	r->precision = PLAN_BF16_PURE;
	return tell_default(
		p, "DeepSpeed's bf16: weights of 16 bits, fp32 copies where its optimizer is", err);
}

/* The Trainer's optimizer is fused since PyTorch 2.8; a loop of one's own has PyTorch's default. */
static enum plim_status take_optimizer(struct plim_plan *p, const struct plim_plan_options *o,
				       struct plim_err *err)
{
	struct plan_recipe *r = &p->hidden->recipe;

	if (r->task != PLAN_TRAIN)
		return PLIM_OK;
	/* a word of the Trainer's, or its release, or none (what is offered is pasted for it); not bitsandbytes' own loop */
	r->wide_embeddings =
		!r->foreign && (o->transformers || !o->optimizer || strchr(o->optimizer, '_'));
	if (o->optimizer && plan_is_8_bit(r))
		return tell_default(
			p,
			r->wide_embeddings
				? "the Trainer keeps the optimizer's states of embeddings in "
				  "fp32, those of other weights in 8 bits"
				: "the optimizer's states of embeddings are of 8 bits, too: the "
				  "Trainer (optimizer adamw_bnb_8bit) keeps these in fp32",
			err);
	if (o->optimizer)
		return PLIM_OK;
	if (plan_is_paged(r))
		return tell_default(p, "optimizer adamw-paged, LitGPT's with quantized weights",
				    err);
	if (!o->transformers)
		return tell_default(p, "optimizer adamw, PyTorch's default (foreach)", err);
	if (torch_of(o) < RELEASE(2, 8))
		return tell_default(
			p, "optimizer adamw (foreach), the Trainer's before PyTorch 2.8", err);
	r->optimizer = PLAN_ADAMW_FUSED;
	return tell_default(p, "optimizer adamw-fused, the Trainer's since PyTorch 2.8", err);
}

/* What older releases do in another way: until which one, and what it means. */
static const struct {
	unsigned before; /* of Transformers, or of PyTorch */
	bool of_torch;
	size_t field; /* of struct plan_recipe, a bool */
	const char *text;
} habits[] = {
	{ RELEASE(4, 46), false, offsetof(struct plan_recipe, wide_logits),
	  "Transformers before 4.46 gives logits back in fp32" },
	{ RELEASE(4, 49), false, offsetof(struct plan_recipe, copies_logits),
	  "Transformers before 4.49 copies all logits to shift them" },
	{ RELEASE(2, 5), true, offsetof(struct plan_recipe, repeats_heads),
	  "before PyTorch 2.5 shared heads are copied for each head that shares them" },
	{ RELEASE(4, 54), false, offsetof(struct plan_recipe, repeats_heads),
	  "Transformers before 4.54 copies shared heads, whatever PyTorch takes" },
	{ RELEASE(4, 53), false, offsetof(struct plan_recipe, outer_checkpoints),
	  "Transformers before 4.53 checkpoints around FSDP's units, reentrant: inputs of frozen "
	  "layers and their gradients live as long as the backward pass" },
};

/* A unit that trains goes another way. */
static bool holds_frozen_units(const struct plan_recipe *r)
{
	return plan_is_fsdp1(r) && r->lora_rank && r->checkpointing == PLAN_CHECKPOINT_FULL;
}

#define SDPA_FROM RELEASE(4, 36)

/* Does a release do what a row of habits says, with this model and recipe? */
static bool has_habit(const struct plim_plan *p, const struct plim_plan_options *o, size_t i)
{
	const struct model_numbers *n = &p->hidden->model.towers[MODEL_TEXT];
	unsigned release = habits[i].of_torch ? o->torch : o->transformers;

	if (!release || release >= habits[i].before || !n->causal ||
	    p->hidden->model.encoder_decoder)
		return false;
	if (habits[i].field ==
	    offsetof(struct plan_recipe, repeats_heads)) /* one reason is enough */
		return n->heads != n->kv_heads && !p->hidden->recipe.repeats_heads;
	if (habits[i].field == offsetof(struct plan_recipe, wide_logits))
		return !n->narrow_loss_before;
	if (habits[i].field == offsetof(struct plan_recipe, outer_checkpoints))
		return holds_frozen_units(&p->hidden->recipe);
	return true;
}

/* The dtype in which the loss of a class takes its logits, around the release that changed it. */
static enum plim_status take_loss_habit(struct plim_plan *p, const struct plim_plan_options *o,
					struct plim_err *err)
{
	const struct model_numbers *n = &p->hidden->model.towers[MODEL_TEXT];
	struct plan_recipe *r = &p->hidden->recipe;

	r->narrow_loss = r->copies_logits && o->transformers < n->narrow_loss_before;
	if (r->narrow_loss)
		return tell_default(
			p,
			plan_string(p, err,
				    "the loss of this class takes logits in their own dtype before "
				    "Transformers %" PRIu64 ".%" PRIu64,
				    n->narrow_loss_before / 100, n->narrow_loss_before % 100),
			err);
	if (!n->narrow_loss_before || o->transformers != n->narrow_loss_before)
		return PLIM_OK;
	return tell_default(
		p,
		plan_string(p, err,
			    "the loss of this class takes logits in fp32; %" PRIu64 ".%" PRIu64
			    ".0 and .1 took them in their own dtype, as --transformers "
			    "%" PRIu64 ".%" PRIu64 " plans it",
			    n->narrow_loss_before / 100, n->narrow_loss_before % 100,
			    (n->narrow_loss_before - 1) / 100, (n->narrow_loss_before - 1) % 100),
		err);
}

/* Keys and values that a class gave back from each training pass. */
static enum plim_status take_keys_habit(struct plim_plan *p, const struct plim_plan_options *o,
					struct plim_err *err)
{
	const struct model_numbers *n = &p->hidden->model.towers[MODEL_TEXT];
	struct plan_recipe *r = &p->hidden->recipe;

	r->keeps_keys = o->transformers && o->transformers < n->keeps_keys_before &&
			n->keeps_keys && !r->no_cache && r->task == PLAN_TRAIN;
	if (!r->keeps_keys || r->checkpointing != PLAN_CHECKPOINT_FULL)
		return PLIM_OK;
	return tell_default(
		p,
		plan_string(p, err,
			    "each pass keeps keys and values though blocks are checkpointed, "
			    "as this class does before Transformers %" PRIu64 ".%" PRIu64
			    " (use_cache=False: none)",
			    n->keeps_keys_before / 100, n->keeps_keys_before % 100),
		err);
}

static enum plim_status take_attention_habit(struct plim_plan *p, const struct plim_plan_options *o,
					     struct plim_err *err)
{
	struct plan_recipe *r = &p->hidden->recipe;

	if (!o->attention && o->transformers && o->transformers < SDPA_FROM) {
		r->attention = PLAN_EAGER;
		return tell_default(p, "attention eager, the default before Transformers 4.36",
				    err);
	}
	if (!p->hidden->model.eager_only || r->attention != PLAN_SDPA)
		return PLIM_OK;
	r->attention = PLAN_EAGER;
	r->eager_only = true;
	return tell_default(p, "attention eager: this class has no fused one", err);
}

static enum plim_status take_habits(struct plim_plan *p, const struct plim_plan_options *o,
				    struct plim_err *err)
{
	struct plan_recipe *r = &p->hidden->recipe;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < sizeof(habits) / sizeof(habits[0]); i++) {
		if (!has_habit(p, o, i))
			continue;
		*(bool *)((char *)r + habits[i].field) = true;
		st = tell_default(p, habits[i].text, err);
	}
	if (!st)
		st = take_loss_habit(p, o, err);
	if (!st)
		st = take_keys_habit(p, o, err);
	if (!st)
		st = take_attention_habit(p, o, err);
	if (!st && plan_has_linear_experts(&p->hidden->model, o->transformers) && !r->quantize)
		st = tell_default(
			p,
			"experts as Transformers 5 keeps them, in two tensors a block; before they "
			"were modules of their own",
			err);
	return st;
}

bool plan_has_linear_experts(const struct model *m, unsigned transformers)
{
	const struct model_numbers *n = &m->towers[MODEL_TEXT];

	return n->experts && !n->expert_banks && transformers &&
	       transformers < PLAN_EXPERT_BANKS_FROM;
}

/* Numbers that lie in one parameter for all experts of a layer. */
static uint64_t in_experts(const struct model *m)
{
	uint64_t n = 0;

	for (size_t i = 0; i < m->tensors.n; i++)
		if (m->modules.at[m->tensors.at[i].module].kind == MODEL_EXPERTS)
			n += m->tensors.at[i].count;
	return n;
}

static enum plim_status tell_bitsandbytes(struct plim_plan *p, struct plim_err *err)
{
	uint64_t experts = in_experts(&p->hidden->model);
	enum plim_status st = tell_default(
		p,
		"bitsandbytes computes in bf16; weights come to the GPU one by one, in 16 bits, "
		"before they are quantized",
		err);

	if (st || !experts)
		return st;
	if (plan_has_linear_experts(&p->hidden->model, p->hidden->recipe.transformers))
		return tell_default(
			p,
			"experts are linear layers before Transformers 5, each of which "
			"bitsandbytes quantizes; tokens go to them in equal parts",
			err);
	return tell_default(
		p,
		plan_string(p, err,
			    "bitsandbytes quantizes linear layers alone: the %.1f billion "
			    "numbers of the experts, each layer's one parameter in "
			    "Transformers 5, stay in 16 bits",
			    (double)experts / 1e9),
		err);
}

/* What Transformers does with a file where its kernels are missing: both were seen. */
static const struct {
	const char *method, *text;
} kernels[] = {
	{ "mxfp4",
	  "the package kernels is there: without it Transformers makes all weights 16 bits, "
	  "and needs more of them while it loads" },
	{ "fp8", "the package kernels is there: without it the run stops at its first product" },
};

/* A quantized file says so itself; adapters on such weights are trained with checkpoints unless said otherwise. */
static enum plim_status take_quantization(struct plim_plan *p, const struct plim_plan_options *o,
					  struct plim_err *err)
{
	struct plan_recipe *r = &p->hidden->recipe;
	const struct model *m = &p->hidden->model;
	enum plim_status st = PLIM_OK;

	if (!o->quantize && m->quantized) {
		r->quantize = (enum plan_quantize)m->quantized;
		st = tell_default(p,
				  plan_string(p, err, "weights in %s, as the config says",
					      plan_quantize_names[r->quantize]),
				  err);
	}
	for (size_t i = 0; !st && m->stored.name && i < sizeof(kernels) / sizeof(kernels[0]); i++)
		if (!strcmp(m->quantizer, kernels[i].method))
			st = tell_default(p, kernels[i].text, err);
	if (st || !r->quantize)
		return st;
	st = tell_bitsandbytes(p, err);
	if (st || r->task != PLAN_TRAIN || o->checkpointing)
		return st;
	r->checkpointing = PLAN_CHECKPOINT_FULL;
	return tell_default(p, "checkpointing full, as prepare_model_for_kbit_training sets it",
			    err);
}

static bool has_masters(const struct plan_recipe *r)
{
	return r->precision == PLAN_BF16_MASTER && r->task == PLAN_TRAIN;
}

/* What no measured run stands behind; what is taken for granted instead. */
static const struct {
	bool (*is)(const struct plan_recipe *r);
	const char *text;
} untested[] = {
	{ has_masters,
	  "the optimizer steps on fp32 copies with gradients made fp32 at the step, as Megatron's "
	  "does; DeepSpeed's own buffers are not planned" },
};

static enum plim_status take_untested(struct plim_plan *p, const struct plim_plan_options *o,
				      struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	(void)o;
	for (size_t i = 0; !st && i < sizeof(untested) / sizeof(untested[0]); i++)
		if (untested[i].is(&p->hidden->recipe))
			st = tell_default(p, untested[i].text, err);
	return st;
}

const char plan_scaled_words[] =
	"with model.accepts_loss_kwargs = False: without it Transformers 5 multiplies the gradient "
	"by the accumulation (huggingface/transformers#47688)";

/* What accumulation trains, of a class that does not hand the count of labels to its loss. */
static enum plim_status take_parts(struct plim_plan *p, const struct plim_plan_options *o,
				   struct plim_err *err)
{
	static const enum plan_parts of_loss[] = {
		[MODEL_LOSS_OF_ALL_TOKENS] = PLAN_PARTS_ALIKE,
		[MODEL_LOSS_OF_SAMPLES] = PLAN_PARTS_SCALED,
		[MODEL_LOSS_OF_TOKENS] = PLAN_PARTS_MEANS,
		[MODEL_LOSS_OF_PAIRS] = PLAN_PARTS_COMPARED,
	};
	struct plan_recipe *r = &p->hidden->recipe;
	bool counts = !o->transformers || o->transformers >= PLAN_COUNTS_FROM;

	r->parts = of_loss[p->hidden->model.loss];
	if (r->parts == PLAN_PARTS_SCALED && !counts)
		r->parts = PLAN_PARTS_ALIKE;
	if (r->task != PLAN_TRAIN || r->accumulate < 2 || !counts ||
	    (r->parts != PLAN_PARTS_SCALED && r->parts != PLAN_PARTS_MEANS))
		return PLIM_OK;
	return tell_default(p, plan_string(p, err, "accumulation %s", plan_scaled_words), err);
}

/* FSDP 1 reduces gradients of the last micro-batch alone: under no_sync(), as accelerate has it, the others stay whole. */
static enum plim_status take_sync(struct plim_plan *p, const struct plim_plan_options *o,
				  struct plim_err *err)
{
	const struct plan_recipe *r = &p->hidden->recipe;

	(void)o;
	if (r->task != PLAN_TRAIN || r->accumulate < 2 || r->lora_rank || !plan_is_fsdp1(r))
		return PLIM_OK;
	return tell_default(
		p,
		"gradients stay whole until the last micro-batch, as accelerate runs FSDP 1 "
		"under no_sync(): sync_each_batch shares them out each time",
		err);
}

enum plim_status plan_take_defaults(struct plim_plan *p, const struct plim_plan_options *o,
				    struct plim_err *err)
{
	static enum plim_status (*const take[])(
		struct plim_plan *, const struct plim_plan_options *,
		struct plim_err *) = { take_quantization, take_precision, take_halves,
				       take_optimizer,    take_habits,    take_untested,
				       take_parts,        take_sync };
	enum plim_status st = PLIM_OK;

	p->hidden->recipe.transformers = o->transformers;
	p->hidden->defaults.n = 0;
	for (size_t i = 0; !st && i < sizeof(take) / sizeof(take[0]); i++)
		st = take[i](p, o, err);
	return st;
}
