/*
 * A recipe in the keys of the tools whose files data/tools.rows reads, the way back: what is written here and read there is the
 * same run.  What a tool has no key for is said so behind a #.
 */
#include "plan/plan.h"

#include <string.h>

/* What of a recipe a tool may have a key for.  Sizes are always written. */
enum aspect {
	SIZES,
	SEQUENCE,
	ADAPTERS,
	BITS,
	PRECISION,
	OPTIMIZER,
	CHECKPOINTS,
	ATTENTION,
	LOSS,
	KERNELS,
	ACTIVATIONS,
	GROUPED,
	EVALUATION,
	CLIPPING,
	GPUS,
	LAYERS,
	ASPECTS
};

/* One key, written where `is` holds (NULL: always): with `value`, or what `say` puts. */
struct key {
	enum aspect aspect;
	const char *name; /* with a dot: within another one */
	bool (*is)(const struct plan_recipe *r);
	const char *value;
	void (*say)(struct text *t, const struct plan_recipe *r);
};

struct tool {
	const char *name;   /* as data/tools.rows has it */
	const char *option; /* of --for */
	const struct key *keys[2];
	unsigned leaves;      /* aspects that are given elsewhere, a bit each */
	const char *adapters; /* what else training adapters takes; NULL: nothing */
	const char *alone;    /* how it makes a process group of one GPU; NULL: it always does */
};

/* ---- what holds ---- */

static bool is_adapted(const struct plan_recipe *r)
{
	return r->lora_rank > 0;
}

static bool pasted_is_whole(const struct plan_recipe *r)
{
	return !r->lora_rank;
}

static bool is_4bit(const struct plan_recipe *r)
{
	return r->quantize == PLAN_NF4 || r->quantize == PLAN_NF4_DOUBLE;
}

static bool is_double(const struct plan_recipe *r)
{
	return r->quantize == PLAN_NF4_DOUBLE;
}

static bool is_nf4(const struct plan_recipe *r)
{
	return r->quantize == PLAN_NF4;
}

static bool is_8bit(const struct plan_recipe *r)
{
	return r->quantize == PLAN_INT8;
}

static bool is_lora(const struct plan_recipe *r)
{
	return r->lora_rank && !is_4bit(r);
}

static bool is_qlora(const struct plan_recipe *r)
{
	return r->lora_rank && is_4bit(r);
}

static bool has_dora(const struct plan_recipe *r)
{
	return r->dora;
}

static bool has_alpha(const struct plan_recipe *r)
{
	return r->lora_rank && r->lora_alpha;
}

static bool is_all_linear(const struct plan_recipe *r)
{
	return r->lora_rank && r->lora_target_count == 1 &&
	       !strcmp(r->lora_targets[0], "all-linear");
}

static bool is_targeted(const struct plan_recipe *r)
{
	return r->lora_rank && r->lora_target_count && !is_all_linear(r);
}

/* Autocast to bf16 over weights of 16 bits, or of fewer. */
static bool is_bf16(const struct plan_recipe *r)
{
	return r->precision == PLAN_BF16_LOADED ||
	       (r->precision == PLAN_BF16_AUTOCAST && r->quantize);
}

static bool is_bf16_wide(const struct plan_recipe *r)
{
	return r->precision == PLAN_BF16_AUTOCAST && !r->quantize;
}

static bool has_masters(const struct plan_recipe *r)
{
	return r->precision == PLAN_BF16_MASTER;
}

static bool is_autocast(const struct plan_recipe *r)
{
	return r->precision == PLAN_BF16_AUTOCAST || r->precision == PLAN_BF16_LOADED ||
	       has_masters(r);
}

static bool is_fp16(const struct plan_recipe *r)
{
	return r->precision == PLAN_FP16_AUTOCAST || r->precision == PLAN_FP16_LOADED;
}

static bool is_fp16_narrow(const struct plan_recipe *r)
{
	return r->precision == PLAN_FP16_LOADED;
}

/* LLaMA-Factory's frozen weights are as narrow as autocast; Axolotl's as well, unless it is reported otherwise. */
static bool is_factory_fp16(const struct plan_recipe *r)
{
	return r->precision ==
	       (r->lora_rank && !r->quantize ? PLAN_FP16_LOADED : PLAN_FP16_AUTOCAST);
}

static bool is_pure(const struct plan_recipe *r)
{
	return r->precision == PLAN_BF16_PURE;
}

static bool is_fp32(const struct plan_recipe *r)
{
	return r->precision == PLAN_FP32;
}

static bool is_wide(const struct plan_recipe *r)
{
	return !r->quantize &&
	       (is_bf16_wide(r) || r->precision == PLAN_FP16_AUTOCAST || is_fp32(r));
}

/* Axolotl keeps what is not quantized in 16 bits under adapters. */
static bool is_axolotl_wide(const struct plan_recipe *r)
{
	return is_wide(r) || (r->quantize && r->lora_rank && r->precision == PLAN_BF16_AUTOCAST);
}

/* LLaMA-Factory loads what is frozen in 16 bits, and what is trained in fp32. */
static bool is_factory_bf16(const struct plan_recipe *r)
{
	return r->precision ==
	       (r->lora_rank && !r->quantize ? PLAN_BF16_LOADED : PLAN_BF16_AUTOCAST);
}

static bool is_factory_fp32(const struct plan_recipe *r)
{
	return is_fp32(r) && !r->lora_rank;
}

static bool pasted_is_named(const struct plan_recipe *r)
{
	return r->optimizer != PLAN_ADAMW_LOOP && r->optimizer != PLAN_SGD_MOMENTUM;
}

static bool pasted_is_kept(const struct plan_recipe *r)
{
	return r->checkpointing == PLAN_CHECKPOINT_NONE;
}

static bool is_each(const struct plan_recipe *r)
{
	return r->checkpointing == PLAN_CHECKPOINT_FULL && r->checkpoint_every <= 1;
}

static bool is_checkpointed(const struct plan_recipe *r)
{
	/* Transformers counts from the first block */
	return r->checkpointing == PLAN_CHECKPOINT_FULL && !r->checkpoint_from;
}

static bool moves_checkpoints(const struct plan_recipe *r)
{
	return is_checkpointed(r) && r->activations == PLAN_OFFLOAD_CHECKPOINTS;
}

static bool is_each_here(const struct plan_recipe *r)
{
	return is_each(r) && !moves_checkpoints(r);
}

static bool is_each_moved(const struct plan_recipe *r)
{
	return is_each(r) && moves_checkpoints(r);
}

static bool has_kwargs(const struct plan_recipe *r)
{
	return is_checkpointed(r) && !is_each_here(r);
}

static bool streams(const struct plan_recipe *r)
{
	return r->activations == PLAN_OFFLOAD_STREAMS;
}

static bool is_pinned(const struct plan_recipe *r)
{
	return r->activations == PLAN_SAVE_ON_CPU_PINNED;
}

static bool is_flash(const struct plan_recipe *r)
{
	return r->attention == PLAN_FLASH;
}

static bool is_sdpa(const struct plan_recipe *r)
{
	return r->attention == PLAN_SDPA;
}

static bool is_eager(const struct plan_recipe *r)
{
	return r->attention == PLAN_EAGER;
}

static bool is_liger_whole(const struct plan_recipe *r)
{
	return r->loss == PLAN_LOSS_LIGER && r->liger == PLAN_LIGER_ALL;
}

static bool is_liger_loss(const struct plan_recipe *r)
{
	return r->loss == PLAN_LOSS_LIGER;
}

static bool has_no_kernels(const struct plan_recipe *r)
{
	return !r->liger;
}

static bool has_kernels(const struct plan_recipe *r)
{
	return r->liger != 0;
}

static bool has_norm(const struct plan_recipe *r)
{
	return r->liger & PLAN_LIGER_NORM;
}

static bool has_rope(const struct plan_recipe *r)
{
	return r->liger & PLAN_LIGER_ROPE;
}

static bool has_gate(const struct plan_recipe *r)
{
	return r->liger & PLAN_LIGER_GATE;
}

/* Where Liger is on, all of its kernels are, except for those that are switched off. */
static bool lacks_loss(const struct plan_recipe *r)
{
	return plan_has_liger(r) && !is_liger_loss(r);
}

static bool lacks_norm(const struct plan_recipe *r)
{
	return plan_has_liger(r) && !has_norm(r);
}

static bool lacks_rope(const struct plan_recipe *r)
{
	return plan_has_liger(r) && !has_rope(r);
}

static bool lacks_gate(const struct plan_recipe *r)
{
	return plan_has_liger(r) && !has_gate(r);
}

static bool is_chunked(const struct plan_recipe *r)
{
	return r->loss == PLAN_LOSS_CHUNKED;
}

/* What TRL's "nll" is since 1.16. */
static bool is_fused_loss(const struct plan_recipe *r)
{
	return r->loss == PLAN_LOSS_FUSED;
}

static bool is_whole_loss(const struct plan_recipe *r)
{
	return r->loss == PLAN_LOSS_WHOLE;
}

static bool is_grouped(const struct plan_recipe *r)
{
	return r->grouped;
}

static bool evaluates(const struct plan_recipe *r)
{
	return r->eval_passes > 0;
}

static bool is_unclipped(const struct plan_recipe *r)
{
	return r->no_clip;
}

static bool is_deepspeed(const struct plan_recipe *r)
{
	return plan_by_deepspeed(r);
}

static bool is_fsdp2(const struct plan_recipe *r)
{
	return !plan_by_deepspeed(r) &&
	       (r->parallel == PLAN_FSDP2 || r->parallel == PLAN_FSDP2_ZERO2);
}

static bool is_tune_fsdp(const struct plan_recipe *r)
{
	return is_fsdp2(r) && r->gpus > 1;
}

static bool is_replicated(const struct plan_recipe *r)
{
	return !plan_by_deepspeed(r) && (r->parallel == PLAN_ALONE || r->parallel == PLAN_DDP);
}

static bool is_alone(const struct plan_recipe *r)
{
	return !plan_by_deepspeed(r) && r->gpus <= 1;
}

static bool moves_parameters(const struct plan_recipe *r)
{
	return is_fsdp2(r) && r->parameters_on == PLAN_ON_HOST;
}

/* ---- what is said ---- */

static void pasted_number(struct text *t, uint64_t n)
{
	text_printf(t, "%llu", (unsigned long long)n);
}

static void batch(struct text *t, const struct plan_recipe *r)
{
	pasted_number(t, r->batch);
}

static void accumulate(struct text *t, const struct plan_recipe *r)
{
	pasted_number(t, r->accumulate ? r->accumulate : 1);
}

static void sequence(struct text *t, const struct plan_recipe *r)
{
	pasted_number(t, r->longest ? r->longest : r->sequence);
}

static void rank(struct text *t, const struct plan_recipe *r)
{
	pasted_number(t, r->lora_rank);
}

static void alpha(struct text *t, const struct plan_recipe *r)
{
	text_puts(t, r->lora_alpha);
}

static void dropout(struct text *t, const struct plan_recipe *r)
{
	text_puts(t, r->lora_dropout ? r->lora_dropout_rate : "0");
}

static void targets(struct text *t, const struct plan_recipe *r)
{
	for (size_t i = 0; i < r->lora_target_count; i++)
		text_printf(t, "%s%s", i ? ", " : "[", r->lora_targets[i]);
	text_puts(t, "]");
}

static void targets_text(struct text *t, const struct plan_recipe *r)
{
	for (size_t i = 0; i < r->lora_target_count; i++)
		text_printf(t, "%s%s", i ? "," : "", r->lora_targets[i]);
}

static void optimizer(struct text *t, const struct plan_recipe *r)
{
	const char *name = plan_optim_name(r->optimizer);

	text_printf(t, "%.*s", (int)strlen(name) - 2, name + 1);
}

static void kwargs(struct text *t, const struct plan_recipe *r)
{
	text_puts(t, "{use_reentrant: false");
	if (r->checkpoint_every > 1)
		text_printf(t, ", every_n_layers: %llu", (unsigned long long)r->checkpoint_every);
	text_puts(t, moves_checkpoints(r) ? ", offload: true}" : "}");
}

static void eval_batch(struct text *t, const struct plan_recipe *r)
{
	pasted_number(t, r->eval_batch);
}

static void reshards(struct text *t, const struct plan_recipe *r)
{
	text_puts(t, r->parallel == PLAN_FSDP2_ZERO2 ? "false" : "true");
}

/* torchtune's names of modules, and of those in the feed-forward part a switch. */
static const struct {
	const char *name, *tune; /* NULL: of the feed-forward part */
} tune_modules[] = {
	{ "q_proj", "q_proj" },      { "k_proj", "k_proj" }, { "v_proj", "v_proj" },
	{ "o_proj", "output_proj" }, { "gate_proj", NULL },  { "up_proj", NULL },
	{ "down_proj", NULL },
};
#define TUNE_MODULES (sizeof(tune_modules) / sizeof(tune_modules[0]))

static size_t tune_module(const char *name)
{
	size_t i = 0;

	while (i < TUNE_MODULES && strcmp(tune_modules[i].name, name) != 0)
		i++;
	return i;
}

static unsigned tune_count(const struct plan_recipe *r, bool attention)
{
	unsigned n = 0;

	for (size_t i = 0; i < r->lora_target_count; i++) {
		size_t k = tune_module(r->lora_targets[i]);

		n += k < TUNE_MODULES && (tune_modules[k].tune != NULL) == attention;
	}
	return n;
}

/* Can its targets be said: modules of the attention, and all of the feed-forward part or none? */
static bool is_tuned(const struct plan_recipe *r)
{
	unsigned mlp = tune_count(r, false), attention = tune_count(r, true);

	return r->lora_rank && attention && (!mlp || mlp == 3) &&
	       attention + mlp == r->lora_target_count;
}

static bool has_tuned_dora(const struct plan_recipe *r)
{
	return is_tuned(r) && r->dora;
}

static bool has_tuned_alpha(const struct plan_recipe *r)
{
	return is_tuned(r) && r->lora_alpha;
}

static void tune_attention(struct text *t, const struct plan_recipe *r)
{
	const char *before = "[";

	for (size_t i = 0; i < r->lora_target_count; i++) {
		size_t k = tune_module(r->lora_targets[i]);

		if (k == TUNE_MODULES || !tune_modules[k].tune)
			continue;
		text_printf(t, "%s%s", before, tune_modules[k].tune);
		before = ", ";
	}
	text_puts(t, "]");
}

static void tune_mlp(struct text *t, const struct plan_recipe *r)
{
	text_puts(t, tune_count(r, false) ? "true" : "false");
}

static const char *const tune_optimizers[PLAN_OPTIMIZERS] = {
	[PLAN_ADAMW] = "torch.optim.AdamW",
	[PLAN_ADAMW_FUSED] = "torch.optim.AdamW",
	[PLAN_SGD] = "torch.optim.SGD",
	[PLAN_ADAMW_8BIT] = "bitsandbytes.optim.AdamW8bit",
	[PLAN_ADAMW_PAGED] = "bitsandbytes.optim.PagedAdamW",
	[PLAN_ADAMW_PAGED_8BIT] = "bitsandbytes.optim.PagedAdamW8bit",
	[PLAN_ADAMW_AO_8BIT] = "torchao.optim.AdamW8bit",
	[PLAN_ADAMW_AO_4BIT] = "torchao.optim.AdamW4bit",
};

static bool is_tune_optimizer(const struct plan_recipe *r)
{
	return tune_optimizers[r->optimizer] != NULL;
}

static void tune_optimizer(struct text *t, const struct plan_recipe *r)
{
	text_puts(t, tune_optimizers[r->optimizer]);
}

static bool is_torch_optimizer(const struct plan_recipe *r)
{
	return r->optimizer == PLAN_ADAMW || r->optimizer == PLAN_ADAMW_FUSED;
}

static void fused(struct text *t, const struct plan_recipe *r)
{
	text_puts(t, r->optimizer == PLAN_ADAMW_FUSED ? "true" : "false");
}

/* ---- keys, tool by tool ---- */

#define END                                   \
	{                                     \
		SIZES, NULL, NULL, NULL, NULL \
	}

/* Of TrainingArguments, which TRL and LLaMA-Factory have, too. */
static const struct key trainer[] = {
	{ SIZES, "per_device_train_batch_size", NULL, NULL, batch },
	{ SIZES, "gradient_accumulation_steps", NULL, NULL, accumulate },
	{ OPTIMIZER, "optim", pasted_is_named, NULL, optimizer },
	{ GROUPED, "group_by_length", is_grouped, "true", NULL },
	{ EVALUATION, "per_device_eval_batch_size", evaluates, NULL, eval_batch },
	{ CLIPPING, "max_grad_norm", is_unclipped, "0", NULL },
	{ GPUS, NULL, is_replicated, NULL, NULL },
	{ GPUS, "deepspeed", is_deepspeed, "deepspeed.json", NULL },
	{ GPUS, "fsdp", is_fsdp2, "true", NULL },
	{ GPUS, "fsdp_config.version", is_fsdp2, "2", NULL },
	{ GPUS, "fsdp_config.reshard_after_forward", is_fsdp2, NULL, reshards },
	{ GPUS, "fsdp_config.auto_wrap_policy", is_fsdp2, "TRANSFORMER_BASED_WRAP", NULL },
	{ GPUS, "fsdp_config.cpu_offload", moves_parameters, "true", NULL },
	END
};

/* Of the Trainer's own configurations; LLaMA-Factory has other names. */
#define TRAINER_STEP                                                                      \
	{ CHECKPOINTS, "gradient_checkpointing", pasted_is_kept, "false", NULL },         \
		{ CHECKPOINTS, "gradient_checkpointing", is_checkpointed, "true", NULL }, \
	{                                                                                 \
		CHECKPOINTS, "gradient_checkpointing_kwargs", has_kwargs, NULL, kwargs    \
	}

/* Some of Liger's kernels: the others are switched off; a class takes no notice of those that it has not. */
#define LIGER_KEYS                                                                             \
	{ LOSS, NULL, lacks_loss, NULL, NULL }, { KERNELS, NULL, has_no_kernels, NULL, NULL }, \
		{ KERNELS, "use_liger_kernel", plan_has_liger, "true", NULL },                 \
		{ LOSS, "liger_kernel_config.fused_linear_cross_entropy", lacks_loss, "false", \
		  NULL },                                                                      \
		{ LOSS, NULL, is_liger_loss, NULL, NULL },                                     \
		{ KERNELS, "liger_kernel_config.rope", lacks_rope, "false", NULL },            \
		{ KERNELS, "liger_kernel_config.rms_norm", lacks_norm, "false", NULL },        \
		{ KERNELS, "liger_kernel_config.swiglu", lacks_gate, "false", NULL },          \
	{                                                                                      \
		KERNELS, "liger_kernel_config.geglu", lacks_gate, "false", NULL                \
	}

static const struct key arguments[] = { { PRECISION, "bf16", is_autocast, "true", NULL },
					{ PRECISION, "fp16", is_fp16, "true", NULL },
					{ PRECISION, "bf16", is_fp32, "false", NULL },
					{ PRECISION, "bf16", is_pure, "false", NULL },
					TRAINER_STEP,
					{ ACTIVATIONS, NULL, moves_checkpoints, NULL, NULL },
					{ LOSS, NULL, is_whole_loss, NULL, NULL },
					LIGER_KEYS,
					END };

static const struct key trl[] = {
	{ SEQUENCE, "max_length", NULL, NULL, sequence },
	{ ADAPTERS, "use_peft", is_adapted, "true", NULL },
	{ ADAPTERS, "lora_r", is_adapted, NULL, rank },
	{ ADAPTERS, "lora_alpha", has_alpha, NULL, alpha },
	{ ADAPTERS, "lora_dropout", is_adapted, NULL, dropout },
	{ ADAPTERS, "use_dora", has_dora, "true", NULL },
	{ ADAPTERS, "lora_target_modules", is_all_linear, "all-linear", NULL },
	{ ADAPTERS, "lora_target_modules", is_targeted, NULL, targets },
	{ BITS, "load_in_4bit", is_4bit, "true", NULL },
	{ BITS, "use_bnb_nested_quant", is_double, "true", NULL },
	{ BITS, "load_in_8bit", is_8bit, "true", NULL },
	{ PRECISION, "bf16", is_autocast, "true", NULL },
	{ PRECISION, "fp16", is_fp16, "true", NULL },
	{ PRECISION, "bf16", is_fp32, "false", NULL },
	{ PRECISION, "bf16", is_pure, "false", NULL },
	{ PRECISION, "dtype", is_wide, "float32", NULL },
	{ PRECISION, "dtype", is_pure, "bfloat16", NULL },
	{ PRECISION, "dtype", is_bf16, "bfloat16", NULL },
	{ PRECISION, "dtype", is_fp16_narrow, "float16", NULL },
	TRAINER_STEP,
	{ ATTENTION, "attn_implementation", is_sdpa, "sdpa", NULL },
	{ ATTENTION, "attn_implementation", is_eager, "eager", NULL },
	{ ATTENTION, "attn_implementation", is_flash, "flash_attention_2", NULL },
	{ LOSS, "loss_type", is_fused_loss, "nll", NULL },
	LIGER_KEYS,
	{ ACTIVATIONS, "activation_offloading", streams, "true", NULL },
	{ ACTIVATIONS, NULL, moves_checkpoints, NULL, NULL },
	END
};

static const struct key factory[] = {
	{ SEQUENCE, "cutoff_len", NULL, NULL, sequence },
	{ ADAPTERS, "finetuning_type", pasted_is_whole, "full", NULL },
	{ ADAPTERS, "finetuning_type", is_adapted, "lora", NULL },
	{ ADAPTERS, "lora_rank", is_adapted, NULL, rank },
	{ ADAPTERS, "lora_alpha", has_alpha, NULL, alpha },
	{ ADAPTERS, "lora_dropout", is_adapted, NULL, dropout },
	{ ADAPTERS, "use_dora", has_dora, "true", NULL },
	{ ADAPTERS, "lora_target", is_all_linear, "all", NULL },
	{ ADAPTERS, "lora_target", is_targeted, NULL, targets_text },
	{ BITS, "quantization_bit", is_4bit, "4", NULL },
	{ BITS, "double_quantization", is_nf4, "false", NULL },
	{ BITS, "quantization_bit", is_8bit, "8", NULL },
	{ PRECISION, "bf16", is_factory_bf16, "true", NULL },
	{ PRECISION, "bf16", has_masters, "true", NULL },
	{ PRECISION, "pure_bf16", is_pure, "true", NULL },
	{ PRECISION, "fp16", is_factory_fp16, "true", NULL },
	{ PRECISION, "bf16", is_factory_fp32, "false", NULL },
	{ CHECKPOINTS, "disable_gradient_checkpointing", pasted_is_kept, "true", NULL },
	{ CHECKPOINTS, "disable_gradient_checkpointing", is_each, "false", NULL },
	{ ATTENTION, "flash_attn", is_sdpa, "sdpa", NULL },
	{ ATTENTION, "flash_attn", is_eager, "disabled", NULL },
	{ ATTENTION, "flash_attn", is_flash, "fa2", NULL },
	{ LOSS, NULL, is_whole_loss, NULL, NULL },
	{ LOSS, NULL, is_liger_whole, NULL, NULL },
	{ KERNELS, NULL, has_no_kernels, NULL, NULL },
	{ KERNELS, "enable_liger_kernel", is_liger_whole, "true", NULL },
	END
};

static const struct key axolotl[] = {
	{ SIZES, "micro_batch_size", NULL, NULL, batch },
	{ SIZES, "gradient_accumulation_steps", NULL, NULL, accumulate },
	{ SEQUENCE, "sequence_len", NULL, NULL, sequence },
	{ ADAPTERS, "adapter", is_lora, "lora", NULL },
	{ ADAPTERS, "adapter", is_qlora, "qlora", NULL },
	{ ADAPTERS, "lora_r", is_adapted, NULL, rank },
	{ ADAPTERS, "lora_alpha", has_alpha, NULL, alpha },
	{ ADAPTERS, "lora_dropout", is_adapted, NULL, dropout },
	{ ADAPTERS, "peft_use_dora", has_dora, "true", NULL },
	{ ADAPTERS, "lora_target_linear", is_all_linear, "true", NULL },
	{ ADAPTERS, "lora_target_modules", is_targeted, NULL, targets },
	{ BITS, "load_in_4bit", is_double, "true", NULL },
	{ BITS, "load_in_8bit", is_8bit, "true", NULL },
	{ PRECISION, "bf16", is_autocast, "true", NULL },
	{ PRECISION, "bf16", is_pure, "full", NULL },
	{ PRECISION, "bf16", is_fp32, "false", NULL },
	{ PRECISION, "bf16", is_fp16, "false", NULL },
	{ PRECISION, "fp16", is_fp16, "true", NULL },
	{ PRECISION, "torch_dtype", is_axolotl_wide, "float32", NULL },
	{ OPTIMIZER, "optimizer", pasted_is_named, NULL, optimizer },
	{ CHECKPOINTS, "gradient_checkpointing", pasted_is_kept, "false", NULL },
	{ CHECKPOINTS, "gradient_checkpointing", is_each_here, "true", NULL },
	{ CHECKPOINTS, "gradient_checkpointing", is_each_moved, "offload", NULL },
	{ ACTIVATIONS, NULL, is_each_moved, NULL, NULL },
	{ ACTIVATIONS, "activation_offloading", streams, "true", NULL },
	{ ATTENTION, "sdp_attention", is_sdpa, "true", NULL },
	{ ATTENTION, "eager_attention", is_eager, "true", NULL },
	{ ATTENTION, "flash_attention", is_flash, "true", NULL },
	{ LOSS, NULL, is_whole_loss, NULL, NULL },
	{ KERNELS, NULL, has_no_kernels, NULL, NULL },
	{ KERNELS, "plugins", plan_has_liger, "[axolotl.integrations.liger.LigerPlugin]", NULL },
	{ LOSS, "liger_fused_linear_cross_entropy", is_liger_loss, "true", NULL },
	{ KERNELS, "liger_rms_norm", has_norm, "true", NULL },
	{ KERNELS, "liger_rope", has_rope, "true", NULL },
	{ KERNELS, "liger_glu_activation", has_gate, "true", NULL },
	{ LOSS, "chunked_cross_entropy", is_chunked, "true", NULL },
	{ GROUPED, "group_by_length", is_grouped, "true", NULL },
	{ EVALUATION, "eval_batch_size", evaluates, NULL, eval_batch },
	{ CLIPPING, "max_grad_norm", is_unclipped, "0", NULL },
	{ GPUS, NULL, is_replicated, NULL, NULL },
	{ GPUS, "deepspeed", is_deepspeed, "deepspeed.json", NULL },
	{ GPUS, "fsdp_version", is_fsdp2, "2", NULL },
	{ GPUS, "fsdp_config.reshard_after_forward", is_fsdp2, NULL, reshards },
	{ GPUS, "fsdp_config.auto_wrap_policy", is_fsdp2, "TRANSFORMER_BASED_WRAP", NULL },
	{ GPUS, "fsdp_config.offload_params", moves_parameters, "true", NULL },
	END
};

static const struct key torchtune[] = {
	{ SIZES, "batch_size", NULL, NULL, batch },
	{ SIZES, "gradient_accumulation_steps", NULL, NULL, accumulate },
	{ SEQUENCE, "tokenizer.max_seq_len", NULL, NULL, sequence },
	{ ADAPTERS, "model.lora_attn_modules", is_tuned, NULL, tune_attention },
	{ ADAPTERS, "model.apply_lora_to_mlp", is_tuned, NULL, tune_mlp },
	{ ADAPTERS, "model.lora_rank", is_tuned, NULL, rank },
	{ ADAPTERS, "model.lora_alpha", has_tuned_alpha, NULL, alpha },
	{ ADAPTERS, "model.lora_dropout", is_tuned, NULL, dropout },
	{ ADAPTERS, "model.use_dora", has_tuned_dora, "true", NULL },
	{ BITS, "model.quantize_base", is_nf4, "true", NULL },
	{ PRECISION, "dtype", is_pure, "bf16", NULL },
	{ PRECISION, "dtype", is_fp32, "fp32", NULL },
	{ OPTIMIZER, "optimizer._component_", is_tune_optimizer, NULL, tune_optimizer },
	{ OPTIMIZER, "optimizer.fused", is_torch_optimizer, NULL, fused },
	{ CHECKPOINTS, "enable_activation_checkpointing", pasted_is_kept, "false", NULL },
	{ CHECKPOINTS, "enable_activation_checkpointing", is_each, "true", NULL },
	{ ACTIVATIONS, "enable_activation_offloading", is_pinned, "true", NULL },
	{ ATTENTION, NULL, is_sdpa, NULL, NULL },
	{ LOSS, NULL, is_whole_loss, NULL, NULL },
	{ LOSS, "loss._component_", is_chunked, "torchtune.modules.loss.LinearCrossEntropyLoss",
	  NULL },
	{ EVALUATION, "batch_size_val", evaluates, NULL, eval_batch },
	{ CLIPPING, "clip_grad_norm", is_unclipped, "null", NULL },
	{ GPUS, NULL, is_alone, NULL, NULL },
	{ GPUS, "fsdp_reshard_after_forward", is_tune_fsdp, NULL, reshards },
	{ GPUS, "fsdp_cpu_offload", moves_parameters, "true", NULL },
	END
};

#define IN_CODE (1u << SEQUENCE | 1u << ADAPTERS | 1u << BITS | 1u << ATTENTION)

static const struct tool tools[] = {
	{ "Axolotl",
	  "axolotl",
	  { axolotl, NULL },
	  0,
	  NULL,
	  "--launcher torchrun -- --nproc-per-node 1" },
	{ "LLaMA-Factory", "llama-factory", { trainer, factory }, 0, NULL, "FORCE_TORCHRUN=1" },
	{ "torchtune",
	  "torchtune",
	  { torchtune, NULL },
	  0,
	  "with a LoRA recipe, and a lora_ or qlora_ model",
	  NULL },
	{ "TRL", "trl", { trainer, trl }, 0, NULL, "torchrun --nproc-per-node 1" },
	{ "TrainingArguments",
	  "training-arguments",
	  { trainer, arguments },
	  IN_CODE,
	  NULL,
	  "torchrun --nproc-per-node 1" },
};

/* ---- what has no key ---- */

static bool is_moved(const struct plan_recipe *r)
{
	return r->activations != PLAN_ACTIVATIONS_STAY;
}

static bool is_spread(const struct plan_recipe *r)
{
	return r->gpus > 1 || r->parallel != PLAN_ALONE || plan_by_deepspeed(r);
}

static bool is_split(const struct plan_recipe *r)
{
	return r->tp > 1 || r->pp > 1;
}

static bool is_quantized(const struct plan_recipe *r)
{
	return r->quantize != PLAN_NOT_QUANTIZED;
}

static bool is_any(const struct plan_recipe *r)
{
	(void)r;
	return true;
}

/* What is named where it holds and no key of the tool says it. */
static const struct {
	bool (*is)(const struct plan_recipe *r);
	const char *what;
} unsaid[ASPECTS] = {
	[SIZES] = { is_any, "batch" },
	[SEQUENCE] = { is_any, "sequence" },
	[ADAPTERS] = { is_adapted, "these adapters" },
	[BITS] = { is_quantized, "weights quantized so" },
	[PRECISION] = { is_any, "this precision" },
	[OPTIMIZER] = { is_any, "this optimizer" },
	[CHECKPOINTS] = { is_any, "this checkpointing" },
	[ATTENTION] = { is_any, "this attention" },
	[LOSS] = { is_any, "this loss" },
	[KERNELS] = { has_kernels, "these kernels of Liger's" },
	[ACTIVATIONS] = { is_moved, "activations in host memory" },
	[GROUPED] = { is_grouped, "samples grouped by length" },
	[EVALUATION] = { evaluates, "the batch of evaluations" },
	[CLIPPING] = { is_unclipped, "gradients that are not clipped" },
	[GPUS] = { is_spread, "these GPUs" },
	[LAYERS] = { is_split, "layers on several GPUs" },
};

/* "model.lora_rank: 8" stands within "model:", once for keys that follow each other. */
static void write_name(struct text *t, const char *name, const char **within, size_t *within_n)
{
	const char *dot = strchr(name, '.');
	size_t n = dot ? (size_t)(dot - name) : 0;

	if (n && (n != *within_n || strncmp(*within, name, n) != 0))
		text_printf(t, "%.*s:\n", (int)n, name);
	*within = name;
	*within_n = n;
	text_printf(t, "%s%s: ", n ? "  " : "", dot ? dot + 1 : name);
}

static bool is_last(const struct key *k)
{
	return !k->name && !k->is;
}

static unsigned said_by(const struct key *keys, const struct plan_recipe *r)
{
	unsigned said = 0;

	for (const struct key *k = keys; k && !is_last(k); k++)
		if (!k->is || k->is(r))
			said |= 1u << k->aspect;
	return said;
}

static void write_keys(struct text *t, const struct key *keys, const struct plan_recipe *r)
{
	const char *within = "";
	size_t within_n = 0;

	for (const struct key *k = keys; k && !is_last(k); k++) {
		if (!k->name || (k->is && !k->is(r)))
			continue;
		write_name(t, k->name, &within, &within_n);
		if (k->say)
			k->say(t, r);
		else
			text_puts(t, k->value);
		text_puts(t, "\n");
	}
}

static const struct tool *tool_named(const char *name)
{
	for (size_t i = 0; name && i < sizeof(tools) / sizeof(tools[0]); i++)
		if (!strcmp(tools[i].name, name) || !strcmp(tools[i].option, name))
			return &tools[i];
	return NULL;
}

const char *plan_keys_tool(const char *name)
{
	const struct tool *tool = tool_named(name);

	return tool ? tool->name : NULL;
}

const char *plan_keys_option(const char *name)
{
	const struct tool *tool = tool_named(name);

	return tool ? tool->option : NULL;
}

bool plan_keys_leave_model(const char *name)
{
	const struct tool *tool = tool_named(name);

	return tool && tool->leaves;
}

void plan_keys_known(char known[PLAN_KNOWN])
{
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
		plan_add_known(known, tools[i].option);
}

unsigned plan_keys_unsaid(const char *name, const struct plan_recipe *r)
{
	const struct tool *tool = tool_named(name);
	unsigned said, missing = 0;

	if (!tool || r->task != PLAN_TRAIN)
		return 0;
	said = tool->leaves | said_by(tool->keys[0], r) | said_by(tool->keys[1], r);
	for (unsigned i = 0; i < ASPECTS; i++)
		if (!(said & 1u << i) && unsaid[i].is(r))
			missing |= 1u << i;
	return missing;
}

void plan_write_keys(struct text *t, const char *name, const struct plan_recipe *r)
{
	const struct tool *tool = tool_named(name);
	unsigned missing = plan_keys_unsaid(name, r);

	if (!tool || r->task != PLAN_TRAIN)
		return;
	write_keys(t, tool->keys[0], r);
	write_keys(t, tool->keys[1], r);
	if (tool->adapters && r->lora_rank)
		text_printf(t, "# %s\n", tool->adapters);
	if (tool->alone && r->gpus == 1 && is_fsdp2(r))
		text_printf(t, "# started with %s: FSDP needs a process group\n", tool->alone);
	for (unsigned i = 0; i < ASPECTS; i++)
		if (missing & 1u << i)
			text_printf(t, "# %s has no key for %s: set it elsewhere\n", tool->name,
				    unsaid[i].what);
}
