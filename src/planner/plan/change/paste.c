/*
 * A recipe as configuration that can be pasted, with the names of Transformers 5, accelerate 1.15, DeepSpeed 0.19,
 * PEFT 0.21 and PyTorch 2.11.
 */
#include "plan/plan.h"

#include <string.h>

static const char *const optim_names[PLAN_OPTIMIZERS] = {
	[PLAN_ADAMW] = "\"adamw_torch\"",
	[PLAN_ADAMW_FUSED] = "\"adamw_torch_fused\"",
	[PLAN_ADAMW_LOOP] = "\"adamw_torch\"",
	[PLAN_SGD] = "\"sgd\"",
	[PLAN_SGD_MOMENTUM] = "\"sgd\"",
	[PLAN_ADAFACTOR] = "\"adafactor\"",
	[PLAN_ADAMW_8BIT] = "\"adamw_bnb_8bit\"",
	[PLAN_ADAMW_PAGED] = "\"paged_adamw_32bit\"",
	[PLAN_ADAMW_PAGED_8BIT] = "\"paged_adamw_8bit\"",
	[PLAN_ADAMW_AO_8BIT] = "\"adamw_torch_8bit\"",
	[PLAN_ADAMW_AO_4BIT] = "\"adamw_torch_4bit\"",
};
static const char *const attention_names[PLAN_ATTENTIONS] = {
	[PLAN_SDPA] = "sdpa",
	[PLAN_EAGER] = "eager",
	[PLAN_FLASH] = "flash_attention_2",
};
static const struct {
	const char *argument;   /* of TrainingArguments */
	const char *accelerate; /* mixed_precision */
	const char *dtype;      /* of the weights */
	const char *deepspeed;  /* section */
	const char *master;     /* ... where it keeps fp32 weights next to the model's halves */
} precisions[PLAN_PRECISIONS] = {
	[PLAN_FP32] = { "bf16=False", "no", "float32", "", "" },
	[PLAN_BF16_AUTOCAST] = { "bf16=True", "bf16", "float32",
				 ", \"torch_autocast\": {\"enabled\": true, \"dtype\": "
				 "\"bfloat16\"}",
				 ", \"bf16\": {\"enabled\": true}" },
	[PLAN_FP16_AUTOCAST] = { "fp16=True", "fp16", "float32",
				 ", \"torch_autocast\": {\"enabled\": true, \"dtype\": "
				 "\"float16\"}",
				 ", \"fp16\": {\"enabled\": true}" },
	[PLAN_BF16_PURE] = { "bf16=False", "no", "bfloat16", "",
			     ", \"bf16\": {\"enabled\": true}" },
	[PLAN_BF16_LOADED] = { "bf16=True", "bf16", "bfloat16",
			       ", \"torch_autocast\": {\"enabled\": true, \"dtype\": "
			       "\"bfloat16\"}",
			       ", \"bf16\": {\"enabled\": true}" },
	[PLAN_FP16_LOADED] = { "fp16=True", "fp16", "float16",
			       ", \"torch_autocast\": {\"enabled\": true, \"dtype\": "
			       "\"float16\"}",
			       ", \"fp16\": {\"enabled\": true}" },
	[PLAN_BF16_MASTER] = { "bf16=True", "bf16", "bfloat16", ", \"bf16\": {\"enabled\": true}",
			       ", \"bf16\": {\"enabled\": true}" },
};

const char *plan_optim_name(enum plan_optimizer optimizer)
{
	return optim_names[optimizer];
}

/* Names that are others in older releases of Transformers. */
#define DTYPE_FROM 456             /* dtype, before torch_dtype */
#define SAMPLING_STRATEGY_FROM 500 /* train_sampling_strategy, before group_by_length */

static bool is_before(const struct plan_recipe *r, unsigned release)
{
	return r->transformers && r->transformers < release;
}

/* FSDP 2 is reported whether it shards again after the forward pass; FSDP 1, whose plugin refuses that, has a strategy. */
static const struct {
	const char *distributed; /* of accelerate */
	const char *sharding;
	int version;    /* of FSDP, 0: none */
	unsigned stage; /* of DeepSpeed */
} parallels[PLAN_PARALLELS] = {
	[PLAN_ALONE] = { "'NO'", NULL, 0, 0 },
	[PLAN_DDP] = { "MULTI_GPU", NULL, 0, 0 },
	[PLAN_ZERO2] = { "DEEPSPEED", NULL, 0, 2 },
	[PLAN_ZERO3] = { "DEEPSPEED", NULL, 0, 3 },
	[PLAN_ZERO1] = { "DEEPSPEED", NULL, 0, 1 },
	[PLAN_FSDP1] = { "FSDP", "FULL_SHARD", 1, 0 },
	[PLAN_FSDP1_ZERO2] = { "FSDP", "SHARD_GRAD_OP", 1, 0 },
	[PLAN_FSDP2] = { "FSDP", "true", 2, 0 },
	[PLAN_FSDP2_ZERO2] = { "FSDP", "false", 2, 0 },
};

/* 0: it is not FSDP's. */
static int fsdp_version(const struct plan_recipe *r)
{
	return plan_is_deepspeed(r) ? 0 : parallels[r->parallel].version;
}

/* What is offloaded together is ZeRO-2 where nothing else is sharded. */
static unsigned zero_stage(const struct plan_recipe *r)
{
	if (!plan_is_deepspeed(r))
		return parallels[r->parallel].stage;
	return plan_is_sharded(r) ? 3 : 2;
}

/* DeepSpeed is what shares states out, and what keeps copies in fp32. */
bool plan_by_deepspeed(const struct plan_recipe *r)
{
	return zero_stage(r) || r->precision == PLAN_BF16_MASTER;
}

static bool by_trl(const struct plan_recipe *r)
{
	return r->loss == PLAN_LOSS_CHUNKED || r->loss == PLAN_LOSS_FUSED;
}

bool plan_has_liger(const struct plan_recipe *r)
{
	return r->liger || r->loss == PLAN_LOSS_LIGER;
}

static const char *python(bool is)
{
	return is ? "True" : "False";
}

/* TRL's own arguments checkpoint, and cut samples to 1024 tokens, unless said otherwise. */
static void loss(struct text *t, const struct plan_recipe *r)
{
	if (by_trl(r))
		text_printf(t, "%s, max_length=%llu, loss_type=\"%s\"",
			    r->checkpointing == PLAN_CHECKPOINT_FULL
				    ? ""
				    : ", gradient_checkpointing=False",
			    (unsigned long long)(r->longest ? r->longest : r->sequence),
			    r->loss == PLAN_LOSS_FUSED ? "nll" : "chunked_nll");
	if (!plan_has_liger(r))
		return;
	text_puts(t, ", use_liger_kernel=True");
	if (r->liger == PLAN_LIGER_ALL && r->loss == PLAN_LOSS_LIGER)
		return;
	text_printf(t,
		    ", liger_kernel_config={\"rope\": %s, \"rms_norm\": %s, \"swiglu\": %s, "
		    "\"geglu\": %s, \"cross_entropy\": False, "
		    "\"fused_linear_cross_entropy\": %s}",
		    python(r->liger & PLAN_LIGER_ROPE), python(r->liger & PLAN_LIGER_NORM),
		    python(r->liger & PLAN_LIGER_GATE), python(r->liger & PLAN_LIGER_GATE),
		    python(r->loss == PLAN_LOSS_LIGER));
}

/* The Trainer takes both keys out of the others; releases before hand them to the layers, which ignore them. */
static void checkpointing(struct text *t, const struct plan_recipe *r)
{
	if (r->checkpointing != PLAN_CHECKPOINT_FULL)
		return;
	text_puts(t, ", gradient_checkpointing=True, "
		     "gradient_checkpointing_kwargs={\"use_reentrant\": False");
	if (!is_before(r, PLAN_CHECKPOINT_KEYS_FROM) && r->checkpoint_every > 1)
		text_printf(t, ", \"every_n_layers\": %llu",
			    (unsigned long long)r->checkpoint_every);
	if (!is_before(r, PLAN_CHECKPOINT_KEYS_FROM) && r->activations == PLAN_OFFLOAD_CHECKPOINTS)
		text_puts(t, ", \"offload\": True");
	text_puts(t, "}");
}

/* What is not an argument, and has to be done in one's own code or elsewhere. */
static void by_hand(struct text *t, const struct plan_recipe *r)
{
	const struct {
		bool needed;
		const char *what;
	} notes[] = {
		{ r->checkpoint_from > 0,
		  "torchtitan counts from there: activation_checkpoint.mode = \"selective\", "
		  "selective_ac_option = that number; every_n_layers counts from the first block" },
		{ r->selects_ops, "torchtitan's activation_checkpoint.mode = \"selective\", "
				  "selective_ac_option = \"op\"" },
		{ r->activations == PLAN_SAVE_ON_CPU,
		  "torch.autograd.graph.save_on_cpu() around the forward pass" },
		{ r->activations == PLAN_SAVE_ON_CPU_PINNED,
		  "torch.autograd.graph.save_on_cpu(pin_memory=True) around the forward pass" },
		{ is_before(r, PLAN_CHECKPOINT_KEYS_FROM) && r->checkpointing &&
			  (r->checkpoint_every > 1 || r->activations == PLAN_OFFLOAD_CHECKPOINTS),
		  "Transformers 5.17 has every_n_layers and offload for checkpointed layers; "
		  "before, "
		  "call torch.utils.checkpoint in the model" },
		{ r->activations == PLAN_OFFLOAD_CHECKPOINTS &&
			  r->checkpointing == PLAN_CHECKPOINT_VISION,
		  "torch.autograd.graph.save_on_cpu(pin_memory=True) around checkpointed blocks" },
		{ r->checkpointing == PLAN_CHECKPOINT_VISION,
		  "gradient_checkpointing_enable() of the vision tower alone" },
		/* the Trainer reads optim_args for neither */
		{ r->optimizer == PLAN_ADAMW_LOOP, "Trainer(optimizer_cls_and_kwargs=(torch.optim."
						   "AdamW, {..., \"foreach\": False}))" },
		{ r->optimizer == PLAN_SGD_MOMENTUM,
		  "Trainer(optimizer_cls_and_kwargs=(torch.optim.SGD, {..., \"momentum\": 0.9}))" },
		{ r->accumulate > 1 &&
			  (r->parts == PLAN_PARTS_SCALED ||
			   (r->parts == PLAN_PARTS_MEANS && !is_before(r, PLAN_COUNTS_FROM))),
		  "model.accepts_loss_kwargs = False before the Trainer is made" },
		{ fsdp_version(r) && r->gpus == 1,
		  "started by torchrun --nproc-per-node 1 train.py: FSDP needs a process group" },
		{ r->loss == PLAN_LOSS_FUSED, "TRL 1.16 or later" },
		{ r->narrow_adapters && plan_is_half(r),
		  "get_peft_model(..., autocast_adapter_dtype=False)" },
		{ r->litgpt, "LitGPT: its own keys, and not these, are in its recipe" },
		{ r->old_bitsandbytes, "bitsandbytes before 0.43.2" },
		{ r->in_backward, "one optimizer a parameter, stepped on and zeroed in its "
				  "register_post_accumulate_grad_hook()" },
		{ r->parallel == PLAN_FSDP1_ZERO2,
		  "with FSDP_SHARDING_STRATEGY=SHARD_GRAD_OP in the environment, where accelerate "
		  "looks for FSDP 1's" },
	};

	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
		if (notes[i].needed)
			text_printf(t, "  # %s", notes[i].what);
}

static void training_arguments(struct text *t, const struct plan_recipe *r)
{
	text_printf(t,
		    "%s(per_device_train_batch_size=%llu, "
		    "gradient_accumulation_steps=%llu, %s, optim=%s",
		    r->activations == PLAN_OFFLOAD_STREAMS || by_trl(r) ? "SFTConfig"
									: "TrainingArguments",
		    (unsigned long long)r->batch, (unsigned long long)r->accumulate,
		    plan_is_deepspeed(r) && r->precision == PLAN_BF16_PURE
			    ? "bf16=True"
			    : precisions[r->precision].argument,
		    optim_names[r->optimizer]);
	checkpointing(t, r);
	if (r->activations == PLAN_OFFLOAD_STREAMS)
		text_puts(t, ", activation_offloading=True");
	loss(t, r);
	if (r->grouped)
		text_puts(t, is_before(r, SAMPLING_STRATEGY_FROM)
				     ? ", group_by_length=True"
				     : ", train_sampling_strategy=\"group_by_length\"");
	if (r->eval_passes)
		text_printf(t, ", per_device_eval_batch_size=%llu",
			    (unsigned long long)r->eval_batch);
	if (r->no_clip)
		text_puts(t, ", max_grad_norm=0");
	if (fsdp_version(r))
		text_puts(t, ", fsdp=True, fsdp_config=\"fsdp.json\"");
	if (plan_by_deepspeed(r))
		text_puts(t, ", deepspeed=\"deepspeed.json\"");
	if (r->tp > 1)
		text_printf(t, ", parallelism_config=ParallelismConfig(tp_size=%llu)",
			    (unsigned long long)r->tp);
	text_puts(t, ")");
	by_hand(t, r);
}

/* BitsAndBytesConfig's arguments. */
static const char *const quantizations[PLAN_QUANTIZES] = {
	[PLAN_NF4] = "load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", "
		     "bnb_4bit_compute_dtype=torch.bfloat16",
	[PLAN_NF4_DOUBLE] = "load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", "
			    "bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16",
	[PLAN_INT8] = "load_in_8bit=True",
};

/* What selective checkpointing keeps; it is not an argument of the Trainer, which cannot write functions down. */
#define KEPT                                                                                     \
	"[torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default, " \
	"torch.ops.aten._scaled_dot_product_flash_attention.default, "                           \
	"torch.ops.aten._scaled_dot_product_efficient_attention.default, "                       \
	"torch.ops.aten._scaled_dot_product_cudnn_attention.default]"

static void from_pretrained(struct text *t, const struct plan_recipe *r)
{
	const char *dtype =
		r->task == PLAN_TRAIN && !r->quantize ? precisions[r->precision].dtype : "bfloat16";

	text_printf(t, "from_pretrained(..., %s=torch.%s, attn_implementation=\"%s\"",
		    is_before(r, DTYPE_FROM) ? "torch_dtype" : "dtype", dtype,
		    attention_names[r->attention]);
	if (r->quantize)
		text_printf(t, ", quantization_config=BitsAndBytesConfig(%s)",
			    quantizations[r->quantize]);
	text_puts(t, r->tp > 1 ? ", tp_plan=\"auto\")" : ")");
	if (r->task != PLAN_TRAIN)
		return;
	if (r->quantize && r->precision != PLAN_BF16_PURE)
		text_printf(t,
			    "; model = prepare_model_for_kbit_training(model, "
			    "use_gradient_checkpointing=%s)",
			    r->checkpointing == PLAN_CHECKPOINT_FULL ? "True" : "False");
	if (r->checkpointing == PLAN_CHECKPOINT_SELECTIVE && !r->selects_ops)
		text_puts(t, "; model.gradient_checkpointing_enable("
			     "gradient_checkpointing_kwargs={\"use_reentrant\": False, "
			     "\"context_fn\": functools.partial("
			     "torch.utils.checkpoint.create_selective_checkpoint_contexts, " KEPT
			     ")}");
	if (r->checkpointing == PLAN_CHECKPOINT_SELECTIVE && !r->selects_ops)
		text_puts(t, r->activations == PLAN_OFFLOAD_CHECKPOINTS ? ", offload=True)" : ")");
}

static void peft(struct text *t, const struct plan_recipe *r)
{
	if (!r->lora_rank)
		return;
	text_printf(t, "LoraConfig(r=%llu", (unsigned long long)r->lora_rank);
	if (r->lora_alpha)
		text_printf(t, ", lora_alpha=%s", r->lora_alpha);
	if (r->lora_dropout)
		text_printf(t, ", lora_dropout=%s", r->lora_dropout_rate);
	if (r->dora)
		text_puts(t, ", use_dora=True");
	/* PEFT's shorthand is a text; in a list it would be a module's name */
	if (r->lora_target_count == 1 && !strcmp(r->lora_targets[0], "all-linear")) {
		text_puts(t, ", target_modules=\"all-linear\")");
		return;
	}
	for (size_t i = 0; i < r->lora_target_count; i++)
		text_printf(t, "%s\"%s\"", i ? ", " : ", target_modules=[", r->lora_targets[i]);
	text_puts(t, r->lora_target_count ? "])" : ")");
}

static void accelerate(struct text *t, const struct plan_recipe *r)
{
	text_printf(t,
		    "compute_environment: LOCAL_MACHINE\ndistributed_type: %s\n"
		    "num_processes: %llu\n",
		    plan_by_deepspeed(r) ? "DEEPSPEED" : parallels[r->parallel].distributed,
		    (unsigned long long)(r->gpus > 1 ? r->gpus : 1));
	if (!plan_by_deepspeed(r)) /* accelerate refuses it next to a deepspeed_config_file */
		text_printf(t, "mixed_precision: %s\n", precisions[r->precision].accelerate);
	if (fsdp_version(r))
		text_printf(t,
			    "fsdp_config:\n  fsdp_version: %d\n  %s: %s\n"
			    "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
			    "  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
			    fsdp_version(r),
			    fsdp_version(r) == 1 ? "fsdp_sharding_strategy"
						 : "fsdp_reshard_after_forward",
			    parallels[r->parallel].sharding);
	if (fsdp_version(r) && r->parameters_on)
		text_puts(t, "  fsdp_offload_params: true\n");
	if (r->tp > 1)
		text_printf(t, "parallelism_config:\n  parallelism_config_tp_size: %llu\n",
			    (unsigned long long)r->tp);
	if (plan_by_deepspeed(r))
		text_puts(t, "deepspeed_config:\n  deepspeed_config_file: deepspeed.json\n");
}

static void fsdp(struct text *t, const struct plan_recipe *r)
{
	const char *quote = fsdp_version(r) == 1 ? "\"" : "";

	if (fsdp_version(r))
		text_printf(t,
			    "{\"version\": %d, \"reshard_after_forward\": %s%s%s, "
			    "\"auto_wrap_policy\": \"TRANSFORMER_BASED_WRAP\", "
			    "\"state_dict_type\": \"SHARDED_STATE_DICT\"%s}",
			    fsdp_version(r), quote, parallels[r->parallel].sharding, quote,
			    r->parameters_on ? ", \"cpu_offload\": true" : "");
}

static void offload(struct text *t, const char *what, enum plan_place place)
{
	if (place == PLAN_ON_GPU)
		return;
	text_printf(t, ", \"%s\": {\"device\": \"%s\", \"pin_memory\": true%s}", what,
		    plan_place_names[place],
		    place == PLAN_ON_NVME ? ", \"nvme_path\": \"/local_nvme\"" : "");
}

/* DeepSpeed's buffers as they are planned: its defaults, written down because Trainer's "auto" would take others. */
static const char *const stages[] = {
	[0] = "",
	[1] = "",
	[2] = ", \"reduce_bucket_size\": 500000000, \"allgather_bucket_size\": 500000000, "
	      "\"contiguous_gradients\": true, \"overlap_comm\": false",
	[3] = ", \"reduce_bucket_size\": 500000000, \"contiguous_gradients\": true, "
	      "\"stage3_prefetch_bucket_size\": 50000000, "
	      "\"stage3_param_persistence_threshold\": 100000, "
	      "\"stage3_max_live_parameters\": 1000000000, "
	      "\"stage3_max_reuse_distance\": 1000000000, \"sub_group_size\": 1000000000",
};

static const char adamw[] =
	", \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\"}}";

static const char *section(const struct plan_recipe *r)
{
	if (plan_is_deepspeed(r) && r->precision == PLAN_BF16_PURE)
		return ", \"bf16\": {\"enabled\": true}";
	return zero_stage(r) > 1 && (!plan_is_deepspeed(r) || plan_is_sharded(r))
		       ? precisions[r->precision].master
		       : precisions[r->precision].deepspeed;
}

/* What may be other than in the file that was read; its buffers, its clipping and its optimizer stay as they are there. */
static void changed_keys(struct text *t, const struct plan_recipe *r)
{
	const struct {
		const char *key;
		enum plan_zero_said left;
		uint64_t n;
	} sizes[] = {
		{ "train_micro_batch_size_per_gpu", PLAN_ZERO_LEFT_BATCH, r->batch },
		{ "gradient_accumulation_steps", PLAN_ZERO_LEFT_ACCUMULATION, r->accumulate },
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		text_printf(t, "%s\"%s\": ", i ? ", " : "{", sizes[i].key);
		if (r->zero.said & sizes[i].left)
			text_puts(t, "\"auto\"");
		else
			text_printf(t, "%llu", (unsigned long long)sizes[i].n);
	}
	text_printf(t, "%s, \"zero_optimization\": {\"stage\": %u",
		    r->zero.said & PLAN_ZERO_LEFT_PRECISION ? "" : section(r), zero_stage(r));
	offload(t, "offload_optimizer", r->optimizer_on);
	offload(t, "offload_param", plan_is_deepspeed(r) ? r->parameters_on : PLAN_ON_GPU);
	text_printf(t, "}%s}",
		    plan_is_deepspeed(r) && !(r->zero.said & PLAN_ZERO_HAS_OPTIMIZER) ? adamw : "");
}

/* Where FSDP shares out, DeepSpeed's own buffers would make other numbers: nothing is said. */
static void deepspeed(struct text *t, const struct plan_recipe *r)
{
	bool stage_2 = plan_is_deepspeed(r) && !plan_is_sharded(r);

	if (fsdp_version(r))
		return;
	if (r->zero.said & PLAN_ZERO_READ) {
		changed_keys(t, r);
		return;
	}
	text_printf(t,
		    "{\"train_micro_batch_size_per_gpu\": %llu, "
		    "\"gradient_accumulation_steps\": %llu, \"gradient_clipping\": %s%s, "
		    "\"zero_optimization\": {\"stage\": %u%s",
		    (unsigned long long)r->batch, (unsigned long long)r->accumulate,
		    r->no_clip ? "0" : "1.0", section(r), zero_stage(r),
		    stage_2 ? "" : stages[zero_stage(r)]);
	if (stage_2) /* DeepSpeed refuses keys that are there twice */
		text_printf(t, ", \"reduce_bucket_size\": %u, \"overlap_comm\": false",
			    PLAN_DEEPSPEED_BUCKET);
	offload(t, "offload_optimizer", r->optimizer_on);
	offload(t, "offload_param", plan_is_deepspeed(r) ? r->parameters_on : PLAN_ON_GPU);
	/* DeepSpeed refuses PyTorch's own optimizers there */
	text_printf(t, "}%s}", plan_is_deepspeed(r) ? adamw : "");
}

static void torchrun(struct text *t, const struct plan_recipe *r)
{
	if (r->gpus > 8)
		text_printf(t, "torchrun --nnodes %llu --nproc-per-node 8 train.py",
			    (unsigned long long)((r->gpus + 7) / 8));
	else
		text_printf(t, "torchrun --nproc-per-node %llu train.py",
			    (unsigned long long)r->gpus);
}

static const struct {
	size_t offset; /* in struct plim_plan_config */
	bool trains;
	void (*write)(struct text *t, const struct plan_recipe *r);
} writers[] = {
	{ offsetof(struct plim_plan_config, training_arguments), true, training_arguments },
	{ offsetof(struct plim_plan_config, from_pretrained), false, from_pretrained },
	{ offsetof(struct plim_plan_config, peft), true, peft },
	{ offsetof(struct plim_plan_config, accelerate), true, accelerate },
	{ offsetof(struct plim_plan_config, deepspeed), true, deepspeed },
	{ offsetof(struct plim_plan_config, fsdp), true, fsdp },
	{ offsetof(struct plim_plan_config, torchrun), true, torchrun },
};

/* What was written, and an end of it; nothing is NULL. */
static enum plim_status take_text(struct plim_plan *p, struct text *t, const char **out,
				  struct plim_err *err)
{
	enum plim_status st = text_status(t, err);

	if (!st && t->n)
		*out = plan_string(p, err, "%.*s", (int)t->n, t->at);
	if (!st && t->n && !*out)
		st = mem_status(err);
	text_release(t);
	return st;
}

/* In the keys of the tool that runs it. */
static enum plim_status take_keys(struct plim_plan *p, const struct plan_recipe *r,
				  struct plim_plan_config *out, struct plim_err *err)
{
	enum plim_status st;
	struct text t;

	if (!p->hidden->tool)
		return PLIM_OK;
	text_init(&t, &p->hidden->mem, NULL);
	plan_write_keys(&t, p->hidden->tool, r);
	st = take_text(p, &t, &out->tool_config, err);
	out->tool = out->tool_config ? p->hidden->tool : NULL;
	return st;
}

/* Where nothing is trained no tool has a key for how many samples go at once: the program's own call does. */
static enum plim_status write_call(struct plim_plan *p, const struct plan_choice *c,
				   const char **out, struct plim_err *err)
{
	const struct plan_recipe *r = &c->recipe;
	struct text t;

	text_init(&t, &p->hidden->mem, NULL);
	if (c->own_allocator)
		text_puts(&t, "import plimsoll; plimsoll.allocator.use(); ");
	text_puts(&t, r->task == PLAN_GENERATE ? "model.generate(..." : "model(...");
	if (r->task == PLAN_GENERATE && r->new_tokens)
		text_printf(&t, ", max_new_tokens=%llu", (unsigned long long)r->new_tokens);
	if (r->task == PLAN_GENERATE && r->beams > 1)
		text_printf(&t, ", num_beams=%llu", (unsigned long long)r->beams);
	text_printf(&t, ")  # %llu sample%s at once", (unsigned long long)r->batch,
		    r->batch == 1 ? "" : "s");
	return take_text(p, &t, out, err);
}

enum plim_status plan_write_config(struct plim_plan *p, const struct plan_choice *c,
				   struct plim_plan_config *out, struct plim_err *err)
{
	const struct plan_traced *traced = &p->hidden->traced;
	/* a trace says a recipe of Transformers, or no one knows what to paste */
	bool known = !traced->mem || (p->hidden->traced_recipe && *traced->transformers);
	enum plim_status st = PLIM_OK;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; known && !st && i < sizeof(writers) / sizeof(writers[0]); i++) {
		const char **at = (const char **)(void *)((char *)out + writers[i].offset);
		struct text t;

		if (writers[i].trains && c->recipe.task != PLAN_TRAIN)
			continue;
		text_init(&t, &p->hidden->mem, NULL);
		writers[i].write(&t, &c->recipe);
		st = take_text(p, &t, at, err);
	}
	if (known && !st)
		st = take_keys(p, &c->recipe, out, err);
	if (!st && known && c->recipe.task != PLAN_TRAIN)
		st = write_call(p, c, &out->script, err);
	else if (!st && c->own_allocator)
		out->script = "import plimsoll; plimsoll.allocator.use()  # before CUDA starts";
	if (!st && c->settings && !c->own_allocator) {
		/* since PyTorch 2.9 also PYTORCH_ALLOC_CONF, which older releases do not read */
		out->environment = plan_string(p, err, "PYTORCH_CUDA_ALLOC_CONF=%s", c->settings);
		st = out->environment ? PLIM_OK : mem_status(err);
	}
	return st;
}

static const struct {
	const char *name;
	size_t offset; /* in struct plim_plan_config; what it cannot do without is in the text */
} tools[] = {
	{ "trainer", offsetof(struct plim_plan_config, training_arguments) },
	{ "deepspeed", offsetof(struct plim_plan_config, deepspeed) },
	{ "accelerate", offsetof(struct plim_plan_config, accelerate) },
	{ "torchrun", offsetof(struct plim_plan_config, torchrun) },
};

enum plim_status plan_paste_for(const struct plim_plan_config *c, const char *tool,
				const char **out, struct plim_err *err)
{
	char known[PLAN_KNOWN] = "";

	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
		if (!strcmp(tools[i].name, tool)) {
			*out = *(const char *const *)(const void *)((const char *)c +
								    tools[i].offset);
			return PLIM_OK;
		}
		plan_add_known(known, tools[i].name);
	}
	if (plan_keys_tool(tool)) {
		*out = c->tool_config;
		return PLIM_OK;
	}
	plan_keys_known(known);
	return err_set(err, PLIM_E_ARG, "nothing is written for '%s'; known are %s", tool, known);
}
