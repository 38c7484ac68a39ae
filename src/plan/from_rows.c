/*
 * What keys of other tools' configurations mean here: Transformers 5.23 (TrainingArguments), TRL 1.16, PEFT 0.18, accelerate 1.15,
 * DeepSpeed 0.19, Axolotl 0.19, LLaMA-Factory 0.9 and torchtune 0.6, by their sources, with names that older releases had.  A key that is in no row,
 * and is on, may change memory: it is named, and forbids a verdict.
 */
#include "from.h"

static const struct from_word zero_stages[] = {
	{ "0", "@zero", "0" }, { "2", "@zero", "2" }, { "3", "@zero", "3" }, { NULL, NULL, NULL }
};

static const struct from_word offload_optimizer[] = { { "none", NULL, NULL },
						      { "cpu", "offload-optimizer", "cpu" },
						      { "nvme", "offload-optimizer", "nvme" },
						      { NULL, NULL, NULL } };

static const struct from_word offload_params[] = { { "none", NULL, NULL },
						   { "cpu", "offload-params", "cpu" },
						   { "nvme", "offload-params", "nvme" },
						   { NULL, NULL, NULL } };

static const struct from_word mixed[] = { { "no", "precision", "fp32" },
					  { "bf16", "precision", "bf16" },
					  { "fp16", "precision", "fp16" },
					  { NULL, NULL, NULL } };

static const struct from_word distributed[] = { { "NO", NULL, NULL },
						{ "MULTI_GPU", "@way", "ddp" },
						{ "FSDP", "@fsdp-if-wrapped", "1" },
						{ "DEEPSPEED", NULL, NULL },
						{ NULL, NULL, NULL } };

static const struct from_word dynamo[] = {
	{ "NO", NULL, NULL }, { "no", NULL, NULL }, { "EAGER", NULL, NULL }, { NULL, NULL, NULL }
};

static const struct from_word strategies[] = { { "FULL_SHARD", "@reshard", "true" },
					       { "1", "@reshard", "true" },
					       { "SHARD_GRAD_OP", "@reshard", "false" },
					       { "2", "@reshard", "false" },
					       { "true", "@reshard", "true" },
					       { "false", "@reshard", "false" },
					       { "NO_SHARD", "@way", "ddp" },
					       { "3", "@way", "ddp" },
					       { NULL, NULL, NULL } };

static const struct from_word fsdp_texts[] = { { "full_shard", "@shards", "true" },
					       { "shard_grad_op", "@shards", "false" },
					       { "auto_wrap", "@wrap", "1" },
					       { "offload", "offload-params", "cpu" },
					       { "full_shard auto_wrap", "@reshard", "true" },
					       { "shard_grad_op auto_wrap", "@reshard", "false" },
					       { "true", "@fsdp", "1" },
					       { NULL, NULL, NULL } };

static const struct from_word wraps[] = { { "TRANSFORMER_BASED_WRAP", "@wrap", "1" },
					  { NULL, NULL, NULL } };

/* FSDP's own keys.  Units that are planned are layers, gathered as PyTorch does where nothing is said. */
#define FSDP_ROWS(prefix)                                                                      \
	{ prefix "version", FROM_SET, "@fsdp-version", NULL, NULL },                           \
		{ prefix "reshard_after_forward", FROM_WORD, NULL, NULL, strategies },         \
		{ prefix "sharding_strategy", FROM_WORD, NULL, NULL, strategies },             \
		{ prefix "offload_params", FROM_IF, "offload-params", "cpu", NULL },           \
		{ prefix "activation_checkpointing", FROM_IF, "checkpointing", "full", NULL }, \
		{ prefix "cpu_offload", FROM_IF, "offload-params", "cpu", NULL },              \
		{ prefix "cpu_ram_efficient_loading", FROM_UNLESS, "load", "whole", NULL },    \
		{ prefix "auto_wrap_policy", FROM_WORD, NULL, NULL, wraps },                   \
		{ prefix "limit_all_gathers", FROM_ONLY, NULL, "true", NULL },                 \
		{ prefix "forward_prefetch", FROM_ONLY, NULL, "false", NULL },                 \
	{                                                                                      \
		prefix "min_num_params", FROM_ONLY, NULL, "0", NULL                            \
	}
/* Those that change no memory that is planned. */
#define FSDP_NEUTRAL(prefix)                                                                      \
	prefix "transformer_layer_cls_to_wrap " prefix "state_dict_type " prefix                  \
	       "sync_module_states " prefix "use_orig_params " prefix "backward_prefetch " prefix \
	       "backward_prefetch_policy "

static const struct from_word dtypes[] = { { "auto", NULL, NULL },
					   { "null", NULL, NULL },
					   { "bfloat16", "@weights", "bf16" },
					   { "bf16", "@weights", "bf16" },
					   { "float16", "@weights", "fp16" },
					   { "fp16", "@weights", "fp16" },
					   { "float32", "@weights", "fp32" },
					   { "fp32", "@weights", "fp32" },
					   { NULL, NULL, NULL } };

static const struct from_word attentions[] = { { "sdpa", "attention", "sdpa" },
					       { "eager", "attention", "eager" },
					       { "flash_attention_2", "attention", "flash" },
					       { "kernels-community/flash-attn2", "attention",
						 "flash" },
					       { NULL, NULL, NULL } };

/* Since 1.16 both are the fused head; before, nll was all logits and chunked_nll parts of 256 tokens. */
static const struct from_word losses[] = { { "nll", "loss", "fused" },
					   { "chunked_nll", "loss", "fused" },
					   { NULL, NULL, NULL } };

static const struct from_word evals[] = { { "no", NULL, NULL },
					  { "steps", "@evaluates", "1" },
					  { "epoch", "@evaluates", "1" },
					  { NULL, NULL, NULL } };

static const struct from_word samplings[] = { { "random", NULL, NULL },
					      { "sequential", NULL, NULL },
					      { "group_by_length", "grouped", "1" },
					      { NULL, NULL, NULL } };

static const struct from_word packings[] = { { "bfd", "@packs", "bfd" },
					     { "bfd_split", "@packs", "bfd" },
					     { "ffd", "@packs", "bfd" },
					     { "wrapped", "@packs", "wrapped" },
					     { NULL, NULL, NULL } };

static const struct from_word biases[] = { { "none", NULL, NULL }, { NULL, NULL, NULL } };

static const struct from_word peft_types[] = { { "LORA", NULL, NULL }, { NULL, NULL, NULL } };

static const struct from_word kinds4[] = { { "nf4", NULL, NULL },
					   { "fp4", NULL, NULL },
					   { NULL, NULL, NULL } };

static const struct from_word bits[] = { { "4", "quantize", "nf4" },
					 { "8", "quantize", "int8" },
					 { NULL, NULL, NULL } };

static const struct from_word axolotl_adapters[] = { { "lora", "@adapter", "lora" },
						     { "qlora", "@adapter", "qlora" },
						     { NULL, NULL, NULL } };

static const struct from_word axolotl_plugins[] = {
	{ "axolotl.integrations.liger.LigerPlugin", NULL, NULL },
	{ "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin", "loss", "liger" },
	{ "axolotl.integrations.swanlab.SwanLabPlugin", NULL, NULL },
	{ NULL, NULL, NULL }
};

static const struct from_word axolotl_bf16[] = { { "true", "@autocast", "bf16" },
						 { "auto", "@autocast", "bf16" },
						 { "full", "precision", "bf16-pure" },
						 { NULL, NULL, NULL } };

/* What it says goes to prepare_model_for_kbit_training(), too (axolotl/loaders/model.py). */
static const struct from_word axolotl_ckpt[] = { { "true", "checkpointing", "full" },
						 { "false", "checkpointing", "none" },
						 { "offload", "@ckpt-offload", "1" },
						 { "unsloth", "@ckpt-offload", "1" },
						 { NULL, NULL, NULL } };

static const struct from_word factory_stages[] = { { "sft", NULL, NULL },
						   { "pt", NULL, NULL },
						   { NULL, NULL, NULL } };

static const struct from_word factory_types[] = { { "full", NULL, NULL },
						  { "lora", "@adapter", "lora" },
						  { NULL, NULL, NULL } };

static const struct from_word factory_targets[] = { { "all", "lora-targets", "all-linear" },
						    { NULL, NULL, NULL } };

static const struct from_word factory_attention[] = { { "auto", NULL, NULL },
						      { "disabled", "attention", "eager" },
						      { "sdpa", "attention", "sdpa" },
						      { "fa2", "attention", "flash" },
						      { NULL, NULL, NULL } };

static const struct from_word tune_dtypes[] = { { "bf16", "precision", "bf16-pure" },
						{ "fp32", "precision", "fp32" },
						{ NULL, NULL, NULL } };

static const struct from_word tune_optimizers[] = {
	{ "torch.optim.AdamW", "optimizer", "adamw" },
	{ "torch.optim.SGD", "optimizer", "sgd" },
	{ "bitsandbytes.optim.PagedAdamW8bit", "optimizer", "paged_adamw_8bit" },
	{ "bitsandbytes.optim.PagedAdamW", "optimizer", "paged_adamw" },
	{ "bitsandbytes.optim.AdamW8bit", "optimizer", "adamw_8bit" },
	{ "torchao.optim.AdamW8bit", "optimizer", "adamw-ao-8bit" },
	{ "torchao.optim.AdamW4bit", "optimizer", "adamw-ao-4bit" },
	{ "torchao.prototype.low_bit_optim.AdamW8bit", "optimizer", "adamw-ao-8bit" },
	{ "torchao.prototype.low_bit_optim.AdamW4bit", "optimizer", "adamw-ao-4bit" },
	{ NULL, NULL, NULL }
};

static const struct from_word tune_losses[] = {
	{ "torchtune.modules.loss.CEWithChunkedOutputLoss", "loss", "chunked" },
	{ "torchtune.modules.loss.LinearCrossEntropyLoss", "loss", "chunked" },
	{ "torch.nn.CrossEntropyLoss", NULL, NULL },
	{ NULL, NULL, NULL }
};

static const struct from_word ds_optimizers[] = { { "AdamW", "optimizer", "adamw-fused" },
						  { "Adam", "optimizer", "adamw-fused" },
						  { NULL, NULL, NULL } };

static const struct from_row deepspeed_rows[] = {
	{ "train_micro_batch_size_per_gpu", FROM_SET, "batch", NULL, NULL },
	{ "gradient_accumulation_steps", FROM_SET, "accumulate", NULL, NULL },
	{ "gradient_clipping", FROM_UNLESS, "no-clip", "1", NULL },
	{ "zero_optimization.stage", FROM_WORD, NULL, NULL, zero_stages },
	{ "bf16.enabled", FROM_IF, "@autocast", "bf16", NULL },
	{ "fp16.enabled", FROM_IF, "@autocast", "fp16", NULL },
	{ "bfloat16.enabled", FROM_IF, "@autocast", "bf16", NULL },
	{ "zero_optimization.offload_optimizer.device", FROM_WORD, NULL, NULL, offload_optimizer },
	{ "zero_optimization.offload_param.device", FROM_WORD, NULL, NULL, offload_params },
	{ "zero_optimization.reduce_bucket_size", FROM_SET, "@zero-bucket", NULL, NULL },
	{ "zero_optimization.stage3_prefetch_bucket_size", FROM_SET, "@zero-prefetch", NULL, NULL },
	{ "zero_optimization.stage3_param_persistence_threshold", FROM_SET, "@zero-persistent",
	  NULL, NULL },
	{ "zero_optimization.stage3_max_reuse_distance", FROM_SET, "@zero-reuse", NULL, NULL },
	{ "zero_optimization.stage3_max_live_parameters", FROM_SET, "@zero-live", NULL, NULL },
	{ "zero_optimization.sub_group_size", FROM_SET, "@zero-sub-group", NULL, NULL },
	{ "optimizer.type", FROM_WORD, NULL, NULL, ds_optimizers },
	{ "torch_autocast.enabled", FROM_IF, "@torch-autocast", "bf16", NULL },
	{ "torch_autocast.dtype", FROM_IS, NULL, "bfloat16", NULL },
	{ "zero_optimization.overlap_comm", FROM_IF, "@overlap", "1", NULL },
	{ "zero_optimization.contiguous_gradients", FROM_ONLY, NULL, "true", NULL },
	{ "zero_optimization.reduce_scatter", FROM_ONLY, NULL, "true", NULL },
	{ "zero_optimization.round_robin_gradients", FROM_ONLY, NULL, "false", NULL },
	{ "zero_optimization.use_multi_rank_bucket_allreduce", FROM_ONLY, NULL, "true", NULL },
	{ "zero_optimization.zero_hpz_partition_size", FROM_ONLY, NULL, "1", NULL },
	{ NULL, FROM_SET, NULL, NULL, NULL }
};

static const struct from_keys deepspeed = {
	deepspeed_rows, ""
			"train_batch_size "
			"steps_per_print wall_clock_breakdown dump_state prescale_gradients "
			"gradient_predivide_factor zero_allow_untested_optimizer "
			"zero_force_ds_cpu_optimizer flops_profiler* tensorboard* wandb* "
			"csv_monitor* comms_logger* scheduler* optimizer.params* fp16.loss_scale* "
			"fp16.initial_scale_power fp16.hysteresis fp16.min_loss_scale "
			"fp16.auto_cast "
			"zero_optimization.allgather_partitions "
			"zero_optimization.allgather_bucket_size "
			"zero_optimization.stage3_gather_16bit_weights_on_model_save "
			"zero_optimization.stage3_gather_fp16_weights_on_model_save "
			"zero_optimization.offload_optimizer.pin_memory "
			"zero_optimization.offload_param.pin_memory "
			"zero_optimization.offload_optimizer.nvme_path "
			"zero_optimization.offload_param.nvme_path "
			"zero_optimization.offload_optimizer.buffer_count "
			"zero_optimization.offload_optimizer.fast_init aio* checkpoint* "
			"zero_optimization.load_from_fp32_weights "
			"zero_optimization.ignore_unused_parameters seed "
			"zero_optimization.elastic_checkpoint"
};

static const struct from_row peft_rows[] = {
	{ "base_model_name_or_path", FROM_MODEL, NULL, NULL, NULL },
	{ "r", FROM_SET, "lora", NULL, NULL },
	{ "target_modules", FROM_LIST, "lora-targets", NULL, NULL },
	{ "lora_dropout", FROM_SET, "@dropout", NULL, NULL },
	{ "bias", FROM_WORD, NULL, NULL, biases },
	{ "peft_type", FROM_WORD, NULL, NULL, peft_types },
	{ NULL, FROM_SET, NULL, NULL, NULL }
};

static const struct from_keys peft = {
	peft_rows, "task_type lora_alpha use_rslora init_lora_weights inference_mode "
		   "revision fan_in_fan_out auto_mapping* peft_version megatron_core "
		   "loftq_config* ensure_weight_tying qalora_group_size"
};

static const struct from_row accelerate_rows[] = {
	{ "num_processes", FROM_SET, "gpus", NULL, NULL },
	{ "mixed_precision", FROM_WORD, NULL, NULL, mixed },
	{ "distributed_type", FROM_WORD, NULL, NULL, distributed },
	{ "gradient_accumulation_steps", FROM_SET, "accumulate", NULL, NULL },
	{ "gradient_clipping", FROM_UNLESS, "no-clip", "1", NULL },
	{ "dynamo_backend", FROM_WORD, NULL, NULL, dynamo },
	{ "dynamo_config.dynamo_backend", FROM_WORD, NULL, NULL, dynamo },
	{ "deepspeed_config.zero_stage", FROM_WORD, NULL, NULL, zero_stages },
	{ "deepspeed_config.offload_optimizer_device", FROM_WORD, NULL, NULL, offload_optimizer },
	{ "deepspeed_config.offload_param_device", FROM_WORD, NULL, NULL, offload_params },
	{ "deepspeed_config.gradient_accumulation_steps", FROM_SET, "accumulate", NULL, NULL },
	{ "deepspeed_config.gradient_clipping", FROM_UNLESS, "no-clip", "1", NULL },
	{ "deepspeed_config.zero3_init_flag", FROM_UNLESS, "@whole", "1", NULL },
	{ "deepspeed_config.deepspeed_config_file", FROM_FILE, NULL, NULL, NULL },
	FSDP_ROWS("fsdp_config.fsdp_"),
	{ "fsdp_config.version", FROM_SET, "@fsdp-version", NULL, NULL },
	{ NULL, FROM_SET, NULL, NULL, NULL }
};

static const struct from_keys accelerate = {
	accelerate_rows,
	"deepspeed_config.zero3_save_16bit_model "
	"deepspeed_config.offload_optimizer_nvme_path "
	"deepspeed_config.offload_param_nvme_path "
	"deepspeed_config.deepspeed_inclusion_filter "
	"deepspeed_config.deepspeed_exclusion_filter mpirun_config* "
	"deepspeed_config.deepspeed_multinode_launcher "
	"deepspeed_config.deepspeed_hostfile compute_environment "
	"machine_rank main_process_ip main_process_port "
	"main_training_function num_machines gpu_ids rdzv_backend "
	"same_network tpu_* use_cpu downcast_bf16 debug "
	"enable_cpu_affinity deepspeed_hostfile command_file commands " FSDP_NEUTRAL(
		"fsdp_config.fsdp_")
};

static const struct from_row axolotl_rows[] = {
	{ "base_model", FROM_MODEL, NULL, NULL, NULL },
	{ "micro_batch_size", FROM_SET, "batch", NULL, NULL },
	{ "gradient_accumulation_steps", FROM_SET, "accumulate", NULL, NULL },
	{ "sequence_len", FROM_SET, "seq", NULL, NULL },
	{ "adapter", FROM_WORD, NULL, NULL, axolotl_adapters },
	{ "lora_r", FROM_SET, "@rank", NULL, NULL },
	{ "lora_target_modules", FROM_LIST, "lora-targets", NULL, NULL },
	{ "lora_target_linear", FROM_IF, "@all-linear", "1", NULL },
	{ "lora_dropout", FROM_SET, "@dropout", NULL, NULL },
	{ "load_in_4bit", FROM_IF, "quantize", "nf4-double", NULL },
	{ "load_in_8bit", FROM_IF, "quantize", "int8", NULL },
	{ "bf16", FROM_WORD, NULL, NULL, axolotl_bf16 },
	{ "fp16", FROM_IF, "@autocast", "fp16", NULL },
	{ "bfloat16", FROM_IF, "@autocast", "bf16", NULL },
	{ "float16", FROM_IF, "precision", "bf16-pure", NULL },
	{ "torch_dtype", FROM_WORD, NULL, NULL, dtypes },
	{ "optimizer", FROM_SET, "optimizer", NULL, NULL },
	{ "gradient_checkpointing", FROM_WORD, NULL, NULL, axolotl_ckpt },
	{ "flash_attention", FROM_IF, "attention", "flash", NULL },
	{ "sdp_attention", FROM_IF, "attention", "sdpa", NULL },
	{ "eager_attention", FROM_IF, "attention", "eager", NULL },
	{ "attn_implementation", FROM_WORD, NULL, NULL, attentions },
	{ "max_grad_norm", FROM_UNLESS, "no-clip", "1", NULL },
	{ "sample_packing", FROM_IF, "@packed", "rows", NULL },
	{ "pad_to_sequence_len", FROM_IF, "@fills", "1", NULL },
	{ "bnb_config_kwargs.bnb_4bit_use_double_quant", FROM_ONLY, NULL, "true", NULL },
	{ "deepspeed", FROM_FILE, NULL, NULL, NULL },
	{ "fsdp", FROM_WORD, NULL, NULL, fsdp_texts },
	{ "fsdp_version", FROM_SET, "@fsdp-version", NULL, NULL },
	{ "plugins", FROM_WORD, NULL, NULL, axolotl_plugins },
	{ "liger_fused_linear_cross_entropy", FROM_IF, "loss", "liger", NULL },
	{ "chunked_cross_entropy", FROM_IF, "loss", "chunked", NULL },
	{ "cut_cross_entropy", FROM_IF, "loss", "liger", NULL },
	{ "liger_rope", FROM_LESS, NULL, NULL, NULL },
	{ "liger_rms_norm", FROM_LESS, NULL, NULL, NULL },
	{ "liger_layer_norm", FROM_LESS, NULL, NULL, NULL },
	{ "liger_glu_activation", FROM_LESS, NULL, NULL, NULL },
	{ "liger_swiglu", FROM_LESS, NULL, NULL, NULL },
	{ "lora_mlp_kernel", FROM_LESS, NULL, NULL, NULL },
	{ "lora_qkv_kernel", FROM_LESS, NULL, NULL, NULL },
	{ "lora_o_kernel", FROM_LESS, NULL, NULL, NULL },
	{ "activation_offloading", FROM_IF, "offload-activations", "trl", NULL },
	{ "eval_batch_size", FROM_SET, "@eval-batch", NULL, NULL },
	{ "val_set_size", FROM_ABOVE, "@evaluates", "1", NULL },
	{ "group_by_length", FROM_IF, "grouped", "1", NULL },
	{ "tensor_parallel_size", FROM_ONLY, NULL, "1", NULL },
	{ "context_parallel_size", FROM_ONLY, NULL, "1", NULL },
	{ "sequence_parallel_degree", FROM_ONLY, NULL, "1", NULL },
	{ "dp_replicate_size", FROM_ONLY, NULL, "1", NULL },
	{ "expert_parallel_size", FROM_ONLY, NULL, "1", NULL },
	FSDP_ROWS("fsdp_config.fsdp_"),
	FSDP_ROWS("fsdp_config."),
	{ NULL, FROM_SET, NULL, NULL, NULL }
};

static const struct from_keys axolotl = {
	axolotl_rows,
	"gradient_checkpointing_kwargs.use_reentrant model_type "
	"tokenizer_type peft_use_rslora base_model_config tokenizer_config "
	"strict datasets* test_datasets* pretraining_dataset* "
	"dataset_prepared_path dataset_* chat_template* output_dir "
	"sample_packing_* eval_sample_packing "
	"special_tokens* tokens tokens.* wandb_* mlflow_* comet_* num_epochs "
	"max_steps lr_scheduler* learning_rate cosine_* train_on_inputs "
	"tf32 early_stopping_patience resume_from_checkpoint "
	"auto_resume_from_checkpoints local_rank logging_steps "
	"warmup_steps warmup_ratio evals_per_epoch eval_steps "
	"saves_per_epoch save_* weight_decay adam_* seed lora_alpha "
	"lora_model_dir lora_fan_in_fan_out hub_* debug "
	"is_llama_derived_model is_mistral_derived_model trust_remote_code "
	"push_dataset_to_hub shuffle_merged_datasets dataloader_* "
	"use_tensorboard report_to eval_table_size tokenizer_use_fast "
	"tokenizer_legacy revision_of_model hf_use_auth_token "
	"excess_length_strategy remove_unused_columns eval_strategy "
	"evaluation_strategy save_first_step ddp_timeout "
	"ddp_find_unused_parameters bench_* rl_beta roles* role_* type "
	"split skip_prepare_dataset loss_watchdog_* eot_tokens* "
	"tokenizer_use_mistral_common processor_type eta_min "
	"lr_quadratic_warmup use_otel_metrics otel_metrics_* use_swanlab swanlab_* "
	"streaming streaming_multipack_buffer_size curriculum_sampling min_sample_len "
	"low_cpu_mem_usage base_model_ignore_patterns " FSDP_NEUTRAL("fsdp_config.fsdp_")
		FSDP_NEUTRAL("fsdp_config.")
};

static const struct from_row torchtune_rows[] = {
	{ "batch_size", FROM_SET, "batch", NULL, NULL },
	{ "gradient_accumulation_steps", FROM_SET, "accumulate", NULL, NULL },
	{ "tokenizer.max_seq_len", FROM_SET, "seq", NULL, NULL },
	{ "enable_activation_checkpointing", FROM_IF, "checkpointing", "full", NULL },
	{ "enable_activation_offloading", FROM_IF, "offload-activations", "pinned", NULL },
	{ "dtype", FROM_WORD, NULL, NULL, tune_dtypes },
	{ "optimizer._component_", FROM_WORD, NULL, NULL, tune_optimizers },
	{ "optimizer.fused", FROM_IF, "@fused", "1", NULL },
	{ "loss._component_", FROM_WORD, NULL, NULL, tune_losses },
	{ "loss", FROM_WORD, NULL, NULL, tune_losses },
	{ "model.lora_rank", FROM_SET, "lora", NULL, NULL },
	{ "model.lora_dropout", FROM_SET, "@dropout", NULL, NULL },
	{ "model.lora_attn_modules", FROM_LIST, "@attn-targets", NULL, NULL },
	{ "model.apply_lora_to_mlp", FROM_IF, "@mlp-targets", "1", NULL },
	{ "model.quantize_base", FROM_IF, "quantize", "nf4", NULL },
	{ "clip_grad_norm", FROM_UNLESS, "no-clip", "1", NULL },
	{ "optimizer_in_bwd", FROM_IF, "optimizer-in-backward", "1", NULL },
	{ "fsdp_cpu_offload", FROM_IF, "offload-params", "cpu", NULL },
	{ "fsdp_reshard_after_forward", FROM_WORD, NULL, NULL, strategies },
	{ "batch_size_val", FROM_SET, "@eval-batch", NULL, NULL },
	{ "run_val_every_n_steps", FROM_ABOVE, "@evaluates", "1", NULL },
	{ "dataset.packed", FROM_ONLY, NULL, "false", NULL },
	{ "tensor_parallel_dim", FROM_ONLY, NULL, "1", NULL },
	{ "data_parallel_replicate_dim", FROM_ONLY, NULL, "1", NULL },
	{ "data_parallel_shard_dim", FROM_ONLY, NULL, "-1", NULL },
	{ NULL, FROM_SET, NULL, NULL, NULL }
};

static const struct from_keys torchtune = {
	torchtune_rows, "checkpointer.checkpoint_dir model._component_ tokenizer._component_ "
			"tokenizer.path tokenizer.merges_file tokenizer.prompt_template "
			"checkpointer* resume_from_checkpoint save_adapter_weights_only dataset* "
			"seed shuffle epochs max_steps_per_epoch optimizer.lr "
			"optimizer.weight_decay optimizer.betas optimizer.eps lr_scheduler* "
			"device output_dir metric_logger* log_* profiler* model.lora_alpha "
			"num_warmup_steps collate_fn recipe_checkpoint* tokenizer.vocab_path "
			"tokenizer.merges_path base_model_path tensor_parallel_plan* "
};

static const struct from_row factory_rows[] = {
	{ "model_name_or_path", FROM_MODEL, NULL, NULL, NULL },
	{ "stage", FROM_WORD, NULL, NULL, factory_stages },
	{ "finetuning_type", FROM_WORD, NULL, NULL, factory_types },
	{ "lora_target", FROM_LIST, "lora-targets", NULL, factory_targets },
	{ "lora_rank", FROM_SET, "@rank", NULL, NULL },
	{ "lora_dropout", FROM_SET, "@dropout", NULL, NULL },
	{ "cutoff_len", FROM_SET, "seq", NULL, NULL },
	{ "quantization_bit", FROM_WORD, NULL, NULL, bits },
	{ "flash_attn", FROM_WORD, NULL, NULL, factory_attention },
	{ "enable_liger_kernel", FROM_IF, "@liger", "1", NULL },
	{ "pure_bf16", FROM_IF, "precision", "bf16-pure", NULL },
	{ "double_quantization", FROM_IF, "@double", "1", NULL },
	{ "disable_gradient_checkpointing", FROM_UNLESS, "checkpointing", "full", NULL },
	{ "val_size", FROM_ABOVE, "@evaluates", "1", NULL },
	{ "packing", FROM_IF, "@packed", "unmasked", NULL },
	{ "neat_packing", FROM_IF, "@packs", "neat", NULL },
	{ NULL, FROM_SET, NULL, NULL, NULL }
};

static const struct from_keys factory = {
	factory_rows,
	"quantization_method dataset dataset_dir template max_samples "
	"overwrite_cache preprocessing_num_workers plot_loss lora_alpha "
	"adapter_name_or_path trust_remote_code eval_dataset "
	"quantization_type mix_strategy swanlab* use_swanlab media_dir "
	"tokenized_path image_max_pixels video_max_pixels cache_dir streaming "
	"buffer_size interleave_probs report_to use_fast_tokenizer mask_history "
	"train_on_prompt model_revision low_cpu_mem_usage preprocessing_batch_size "
	"ignore_pad_token_for_loss enable_thinking preserve_thinking print_param_status "
	"ray_num_workers image_min_pixels video_min_pixels video_fps video_maxlen "
	"audio_sampling_rate infer_backend infer_dtype"
};

static const struct from_row trainer_rows[] = {
	{ "per_device_train_batch_size", FROM_SET, "batch", NULL, NULL },
	{ "per_gpu_train_batch_size", FROM_SET, "batch", NULL, NULL },
	{ "gradient_accumulation_steps", FROM_SET, "accumulate", NULL, NULL },
	{ "per_device_eval_batch_size", FROM_SET, "@eval-batch", NULL, NULL },
	{ "eval_strategy", FROM_WORD, NULL, NULL, evals },
	{ "evaluation_strategy", FROM_WORD, NULL, NULL, evals },
	{ "do_eval", FROM_IF, "@evaluates", "1", NULL },
	{ "gradient_checkpointing", FROM_IF, "checkpointing", "full", NULL },
	{ "activation_checkpointing", FROM_IF, "checkpointing", "full", NULL },
	{ "gradient_checkpointing_kwargs.every_n_layers", FROM_SET, "@every", NULL, NULL },
	{ "gradient_checkpointing_kwargs.offload", FROM_IF, "offload-activations", "checkpoints",
	  NULL },
	{ "bf16", FROM_IF, "@autocast", "bf16", NULL },
	{ "fp16", FROM_IF, "@autocast", "fp16", NULL },
	{ "optim", FROM_SET, "optimizer", NULL, NULL },
	{ "max_grad_norm", FROM_UNLESS, "no-clip", "1", NULL },
	{ "use_liger_kernel", FROM_IF, "@liger", "1", NULL },
	{ "liger_kernel_config.fused_linear_cross_entropy", FROM_ONLY, NULL, "true", NULL },
	{ "liger_kernel_config.cross_entropy", FROM_ONLY, NULL, "false", NULL },
	{ "liger_kernel_config.rope", FROM_UNLESS, "@liger-less", "1", NULL },
	{ "liger_kernel_config.rms_norm", FROM_UNLESS, "@liger-less", "1", NULL },
	{ "liger_kernel_config.swiglu", FROM_UNLESS, "@liger-less", "1", NULL },
	{ "liger_kernel_config.geglu", FROM_UNLESS, "@liger-less", "1", NULL },
	{ "train_sampling_strategy", FROM_WORD, NULL, NULL, samplings },
	{ "group_by_length", FROM_IF, "grouped", "1", NULL },
	{ "fsdp", FROM_WORD, NULL, NULL, fsdp_texts },
	{ "deepspeed", FROM_FILE, NULL, NULL, NULL },
	FSDP_ROWS("fsdp_config.fsdp_"),
	FSDP_ROWS("fsdp_config."),
	{ NULL, FROM_SET, NULL, NULL, NULL }
};

static const struct from_keys trainer = {
	trainer_rows, "gradient_checkpointing_kwargs.use_reentrant "
		      "activation_checkpointing_kwargs.use_reentrant tf32 bf16_full_eval "
		      "fp16_full_eval fsdp_transformer_layer_cls_to_wrap output_dir "
		      "overwrite_output_dir num_train_epochs max_steps learning_rate "
		      "lr_scheduler_type lr_scheduler_kwargs* warmup_steps warmup_ratio "
		      "weight_decay adam_beta1 adam_beta2 adam_epsilon "
		      "average_tokens_across_devices logging_* log_* disable_tqdm "
		      "report_to run_name project trackio_* include_* eval_steps "
		      "eval_delay eval_on_start eval_do_concat_batches "
		      "eval_use_gather_object prediction_loss_only batch_eval_metrics "
		      "save_* enable_jit_checkpoint push_to_hub* hub_* "
		      "load_best_model_at_end metric_for_best_model greater_is_better "
		      "ignore_data_skip restore_callback_states_from_checkpoint "
		      "full_determinism seed data_seed accelerator_config* dataloader_* "
		      "remove_unused_columns label_names length_column_name "
		      "ddp_find_unused_parameters ddp_broadcast_buffers ddp_backend "
		      "ddp_timeout debug skip_memory_metrics do_train do_predict "
		      "resume_from_checkpoint local_rank past_index use_cpu no_cuda "
		      "torch_empty_cache_steps _n_gpu mp_parameters ray_scope use_cache "
		      "split_batches tpu_* xpu_backend use_mps_device use_ipex "
		      "bf16_backend half_precision_backend fp16_backend fp16_opt_level "
		      "ddp_static_graph logging_nan_inf_filter fsdp_config.xla* " FSDP_NEUTRAL(
			      "fsdp_config.fsdp_") FSDP_NEUTRAL("fsdp_config.")
};

static const struct from_row scripts_rows[] = {
	{ "model_name_or_path", FROM_MODEL, NULL, NULL, NULL },
	{ "dtype", FROM_WORD, NULL, NULL, dtypes },
	{ "torch_dtype", FROM_WORD, NULL, NULL, dtypes },
	{ "attn_implementation", FROM_WORD, NULL, NULL, attentions },
	{ "model_init_kwargs.attn_implementation", FROM_WORD, NULL, NULL, attentions },
	{ "model_init_kwargs.dtype", FROM_WORD, NULL, NULL, dtypes },
	{ "model_init_kwargs.torch_dtype", FROM_WORD, NULL, NULL, dtypes },
	{ "use_peft", FROM_IF, "@adapter", "lora", NULL },
	{ "lora_r", FROM_SET, "@rank", NULL, NULL },
	{ "lora_target_modules", FROM_LIST, "lora-targets", NULL, NULL },
	{ "lora_dropout", FROM_SET, "@dropout", NULL, NULL },
	{ "load_in_4bit", FROM_IF, "quantize", "nf4", NULL },
	{ "load_in_8bit", FROM_IF, "quantize", "int8", NULL },
	{ "use_bnb_nested_quant", FROM_IF, "@double", "1", NULL },
	{ "bnb_4bit_quant_type", FROM_WORD, NULL, NULL, kinds4 },
	{ "max_length", FROM_SET, "seq", NULL, NULL },
	{ "max_seq_length", FROM_SET, "seq", NULL, NULL },
	{ "model_max_length", FROM_SET, "seq", NULL, NULL },
	{ "block_size", FROM_SET, "seq", NULL, NULL },
	{ "loss_type", FROM_WORD, NULL, NULL, losses },
	{ "activation_offloading", FROM_IF, "offload-activations", "trl", NULL },
	{ "packing", FROM_IF, "@packed", "one", NULL },
	{ "padding_free", FROM_IF, "@packed", "one", NULL },
	{ "packing_strategy", FROM_WORD, NULL, NULL, packings },
	{ NULL, FROM_SET, NULL, NULL, NULL }
};

static const struct from_keys scripts = {
	scripts_rows, "model_revision tokenizer_name* dataset_* dataset train_file "
		      "validation_file "
		      "completion_only_loss assistant_only_loss eos_token pad_token "
		      "chat_template* lora_alpha lora_task_type use_rslora lora_bias "
		      "trust_remote_code bnb_4bit_compute_dtype bnb_4bit_quant_storage "
		      "shuffle_dataset preprocessing_num_workers overwrite_cache config_name "
		      "cache_dir use_fast_tokenizer token max_train_samples max_eval_samples "
		      "streaming low_cpu_mem_usage pad_to_multiple_of truncation_mode split"
};

static const struct from_default trainer_defaults[] = { { "per_device_train_batch_size", "batch",
							  "8" },
							{ "bf16, fp16", "@autocast", "no" },
							{ "optim", "optimizer", "adamw-fused" },
							{ NULL, NULL, NULL } };

static const struct from_default factory_defaults[] = {
	{ "per_device_train_batch_size", "batch", "8" },
	{ "bf16, fp16", "@autocast", "no" },
	{ "cutoff_len", "seq", "2048" },
	{ "lora_target", "lora-targets", "all-linear" },
	{ "double_quantization", "@double", "1" },
	{ "optim", "optimizer", "adamw-fused" },
	{ "disable_gradient_checkpointing", "checkpointing", "full" },
	{ NULL, NULL, NULL }
};

static const struct from_default axolotl_defaults[] = { { "micro_batch_size", "batch", "1" },
							{ "sequence_len", "seq", "512" },
							{ "optimizer", "optimizer", "adamw-fused" },
							{ "gradient_checkpointing", "checkpointing",
							  "none" },
							{ NULL, NULL, NULL } };

/* trl/trainer/base_config.py */
static const struct from_default trl_defaults[] = { { "per_device_train_batch_size", "batch", "8" },
						    { "bf16", "@autocast", "bf16" },
						    { "bf16, fp16", "@autocast", "no" },
						    { "gradient_checkpointing", "checkpointing",
						      "full" },
						    { "max_length", "seq", "1024" },
						    { "loss_type", "loss", "fused" },
						    { "optim", "optimizer", "adamw-fused" },
						    { NULL, NULL, NULL } };

#define KEYS(...)                 \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

const struct from_tool from_tools[] = {
	{ .name = "DeepSpeed",
	  .marks = KEYS("train_micro_batch_size_per_gpu", "zero_optimization", "train_batch_size"),
	  .others = KEYS("model_name_or_path", "base_model", "output_dir"),
	  .keys = { &deepspeed } },
	{ .name = "PEFT",
	  .marks = KEYS("peft_type"),
	  .others = KEYS("output_dir"),
	  .keys = { &peft } },
	{ .name = "accelerate",
	  .marks = KEYS("compute_environment", "distributed_type"),
	  .others = KEYS("output_dir", "base_model"),
	  .keys = { &accelerate } },
	{ .name = "Axolotl",
	  .marks = KEYS("base_model", "micro_batch_size"),
	  .others = KEYS("finetuning_type", "model_class"), /* LLaMA-Factory's later files */
	  .keys = { &axolotl },
	  .defaults = axolotl_defaults,
	  .loads = FROM_LOADS_NARROW,
	  .evaluates_alike = true },
	{ .name = "torchtune",
	  .marks = KEYS("model._component_", "checkpointer._component_"),
	  .others = KEYS("base_model"),
	  .keys = { &torchtune },
	  .assumed = "torchtune has modules of its own: Transformers' are planned in their place",
	  .parallel = "fsdp2",
	  .evaluates_alike = true },
	{ .name = "LLaMA-Factory",
	  .marks = KEYS("finetuning_type", "cutoff_len"),
	  .others = KEYS("base_model"),
	  .keys = { &factory, &trainer },
	  .defaults = factory_defaults,
	  .loads = FROM_LOADS_FROZEN },
	{ .name = "TRL",
	  .marks = KEYS("use_peft", "max_length", "loss_type", "completion_only_loss",
			"assistant_only_loss", "packing_strategy", "model_init_kwargs"),
	  .others = KEYS("base_model"),
	  .keys = { &trainer, &scripts },
	  .defaults = trl_defaults,
	  .rank = "16" },
	{ .name = "TrainingArguments",
	  .marks = KEYS("per_device_train_batch_size", "gradient_accumulation_steps", "output_dir",
			"learning_rate", "optim"),
	  .others = KEYS("base_model", "model_class"),
	  .keys = { &trainer, &scripts },
	  .defaults = trainer_defaults,
	  .loads = FROM_LOADS_STORED },
};
const size_t from_tool_count = sizeof(from_tools) / sizeof(from_tools[0]);
