/*
 * What a text shows to be set already.  A word counts with its value behind it, on a line that does not only advise it: of
 * several the newest.  Advice to set what is set, or to lower what is at its end, is not given (diagnose/advice.c).
 */
#include "scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define S(setting) MESSAGES_SET_##setting
#define ON SCAN_SET_ON
#define OFF SCAN_SET_OFF
#define ONE SCAN_SET_ONE
#define SEEN SCAN_SET_SEEN
#define FEW SCAN_SET_FEW
#define SHORT SCAN_SET_SHORT
#define TASK(task, word)                         \
	{                                        \
		word, MESSAGES_TASK_##task, SEEN \
	}

const struct scan_setting scan_settings[] = {
	{ "gpu_memory_utilization", S(SHARE), SCAN_SET_MOST },
	{ "gpu-memory-utilization", S(SHARE), SCAN_SET_MOST },
	{ "enforce_eager", S(EAGER), ON },
	{ "enforce-eager", S(EAGER), ON },
	{ "kv_cache_dtype", S(KV_CACHE), ON },
	{ "kv-cache-dtype", S(KV_CACHE), ON },
	{ "cache-type-k", S(KV_CACHE), ON },
	{ "OLLAMA_KV_CACHE_TYPE", S(KV_CACHE), ON },
	{ "load_in_4bit", S(QUANTISED), ON },
	{ "load_in_8bit", S(QUANTISED), ON },
	{ "load-in-4bit", S(QUANTISED), ON },
	{ "load-in-8bit", S(QUANTISED), ON },
	{ "--quantization", S(QUANTISED), ON },
	{ "quantization_bit", S(QUANTISED), ON },
	{ "bnb_4bit_quant_type", S(QUANTISED), ON },
	{ "adapter: qlora", S(QUANTISED), SEEN },
	{ "per_device_train_batch_size", S(BATCH), ONE },
	{ "train_micro_batch_size_per_gpu", S(BATCH), ONE },
	{ "micro_batch_size", S(BATCH), ONE },
	{ "micro-batch-size", S(BATCH), ONE },
	{ "train_batch_size", S(BATCH), ONE },
	{ "batch size per device", S(BATCH), ONE },
	{ "--batch_size", S(BATCH), ONE },
	{ "--batch-size", S(BATCH), ONE },
	{ "batch_size", S(BATCH), ONE },
	{ "per_device_eval_batch_size", S(EVAL_BATCH), ONE },
	{ "--grad-checkpoint", S(CHECKPOINTING), SEEN },
	{ "batch size", S(BATCH), ONE },
	{ "batchsize", S(BATCH), ONE },
	{ "batch=1,", S(BATCH), SEEN },
	{ "batch=1)", S(BATCH), SEEN },
	{ "batch=1 ", S(BATCH), SEEN },
	{ "gradient_checkpointing", S(CHECKPOINTING), ON },
	{ "gradient_checkpointing_enable", S(CHECKPOINTING), SEEN },
	{ "gradient-checkpointing", S(CHECKPOINTING), ON },
	{ "recompute-activations", S(CHECKPOINTING), ON },
	{ "torch/utils/checkpoint.py", S(CHECKPOINTING), SEEN },
	{ "unsloth_zoo/gradient_checkpointing", S(CHECKPOINTING), SEEN },
	{ "expandable_segments", S(EXPANDABLE), ON },
	{ "adamw_8bit", S(SMALL_STATE), SEEN },
	{ "adamw_bnb_8bit", S(SMALL_STATE), SEEN },
	{ "AdamW8bit", S(SMALL_STATE), SEEN },
	{ "Adam8bit", S(SMALL_STATE), SEEN },
	{ "paged_adamw", S(SMALL_STATE), SEEN },
	{ "adafactor", S(SMALL_STATE), SEEN },
	{ "zero/stage3.py", S(SHARDED), SEEN },
	{ "ZeRO stage 3", S(SHARDED), SEEN },
	{ "Optimizer_Stage3", S(SHARDED), SEEN },
	{ "_zero3_", S(SHARDED), SEEN },
	{ "[stage3.py", S(SHARDED), SEEN },
	{ "zero3_init", S(SHARDED), SEEN },
	{ "ds_z3_", S(SHARDED), SEEN },
	{ "zero3.json", S(SHARDED), SEEN },
	{ "distributed/fsdp/", S(SHARDED), SEEN },
	{ "offload_optimizer", S(OFFLOADED), ON },
	{ "DeepSpeedCPUAdam", S(OFFLOADED), SEEN },
	{ "cpu_adam", S(OFFLOADED), SEEN },
	{ "z2_offload", S(OFFLOADED), SEEN },
	{ "zero2_offload", S(OFFLOADED), SEEN },
	{ "zero3_offload", S(OFFLOADED), SEEN },
	{ "zero3-offload", S(OFFLOADED), SEEN },
	{ "zero2-offload", S(OFFLOADED), SEEN },
	{ "z3_offload", S(OFFLOADED), SEEN },
	{ "--optimizer-cpu-offload", S(OFFLOADED), SEEN },
	{ "torch_dtype", S(HALF), ON },
	{ "torch.float16", S(HALF), SEEN },
	{ "torch.bfloat16", S(HALF), SEEN },
	{ "dtype=half", S(HALF), SEEN },
	{ "--dtype half", S(HALF), SEEN },
	{ "--half", S(HALF), ON },
	{ "device_map", S(DEVICE_MAP), ON },
	{ "--lowvram", S(LOWVRAM), SEEN },
	{ "lowvram mode", S(LOWVRAM), SEEN },
	{ "--novram", S(LOWVRAM), SEEN },
	{ "state to: LOW_VRAM", S(LOWVRAM), SEEN },
	{ "state: LOW_VRAM", S(LOWVRAM), SEEN },
	{ "state: NO_VRAM", S(LOWVRAM), SEEN },
	{ "modules/lowvram.py", S(LOWVRAM), SEEN },
	{ "modules\\lowvram.py", S(LOWVRAM), SEEN },
	{ "--medvram", S(MEDVRAM), SEEN },
	{ "enable_model_cpu_offload(", S(MODEL_OFFLOAD), SEEN },
	{ "enable_sequential_cpu_offload(", S(SEQUENTIAL_OFFLOAD), SEEN },
	{ "mem-fraction-static", S(STATIC), SCAN_SET_MOST },
	{ "mem_fraction_static", S(STATIC), SCAN_SET_MOST },
	{ "blocks_to_swap", S(FP8_BASE), ON },
	{ "enable_tiling(", S(TILING), SEEN },
	{ "enable_vae_tiling(", S(TILING), SEEN },
	{ "decode_tiled", S(TILING), SEEN },
	{ "VAEDecodeTiled", S(TILING), SEEN },
	{ "tiled VAE", S(TILING), SEEN },
	{ "tiled_decode", S(TILING), SEEN },
	{ "tiled_scale", S(TILING), SEEN },
	{ "tile_sample_min", S(TILING), SEEN },
	{ "spatial_tiled", S(TILING), SEEN },
	{ "n_gpu_layers", S(LAYERS), OFF },
	{ "n-gpu-layers", S(LAYERS), OFF },
	{ "offloaded 0/", S(LAYERS), SEEN },
	{ "num_workers", S(WORKERS), OFF },
	{ "dataloader_num_workers", S(WORKERS), OFF },
	{ "set_memory_growth", S(GROWTH), SEEN },
	{ "FORCE_GPU_ALLOW_GROWTH", S(GROWTH), ON },
	{ "allow_growth", S(GROWTH), ON },
	{ "XLA_PYTHON_CLIENT_PREALLOCATE", S(PREALLOCATE), OFF },
	{ "cache_latents", S(CACHED_LATENTS), SEEN },
	{ "_load_best_model", S(BEST), SEEN },
	{ "ggml_gallocr_reserve", S(BUFFERS), SEEN },
	{ "allocate compute buffers", S(BUFFERS), SEEN },
	{ "allocate compute pp buffers", S(BUFFERS), SEEN },
	{ "Loading best model", S(BEST), SEEN },
	{ "cache_text_encoder_outputs", S(CACHED_LATENTS), SEEN },
	{ "fp8_base", S(FP8_BASE), SEEN },
	{ "torch.load(", S(TORCH_LOAD), SEEN },
	{ "torch/serialization.py", S(TORCH_LOAD), SEEN },
	{ "load_state_dict", S(TORCH_LOAD), SEEN },
	{ "load_checkpoint", S(TORCH_LOAD), SEEN },
	{ "dispatched on the CPU or the disk", S(QUANTISED), SEEN },
	{ "/transformers/trainer.py", S(HF_TRAINER), SEEN },
	{ "/transformers/trainer_pt_utils.py", S(HF_TRAINER), SEEN },
	{ "TrainingArguments(", S(HF_TRAINER), SEEN },
	{ "Instantaneous batch size", S(HF_TRAINER), SEEN },
	{ "pytorch_lightning/", S(LIGHTNING), SEEN },
	{ "lightning/pytorch/", S(LIGHTNING), SEEN },
	{ "unified memory", S(UNIFIED), SEEN },
	{ "FORCE_UNIFIED_MEMORY", S(UNIFIED), ON },
	{ "Capture cuda graph failed", S(CAPTURE), SEEN },
	{ "cuda_graph_runner.py", S(CAPTURE), SEEN },
	{ "profile_run", S(PROFILE), SEEN },
	{ "Starting profile run", S(PROFILE), SEEN },
	{ "determine_num_available_blocks", S(PROFILE), SEEN },
	{ "determine_available_memory", S(PROFILE), SEEN },
	{ "Created device /job:localhost", MESSAGES_TASK_TF_BESIDE, SEEN },
	{ "Created TensorFlow device", MESSAGES_TASK_TF_BESIDE, SEEN },
	{ "/transformers/models/", S(LANGUAGE), SEEN },
	{ "transformers_modules", S(LANGUAGE), SEEN },
	{ "lm_head", S(LANGUAGE), SEEN },
	{ "input_ids", S(LANGUAGE), SEEN },
	{ "CausalLM", S(LANGUAGE), SEEN },
	{ "max_seq_len", S(LANGUAGE), SEEN },
	{ "modeling_", S(LANGUAGE), SEEN },
	{ "--dtype=float ", S(FLOAT32), SEEN },
	{ "--dtype float ", S(FLOAT32), SEEN },
	{ "--dtype=float32", S(FLOAT32), SEEN },
	{ "--dtype float32", S(FLOAT32), SEEN },
	{ "dtype=torch.float32", S(FLOAT32), SEEN },
	{ "num_generations", S(GRPO), SEEN },
	{ "GRPOTrainer", S(GRPO), SEEN },
	{ "grpo_trainer", S(GRPO), SEEN },
	{ "grpo_accumulated", S(GRPO), SEEN },
	{ "GRPOConfig", S(GRPO), SEEN },
	{ "EngineCore", S(V1), SEEN },
	{ "/vllm/v1/", S(V1), SEEN },
	{ "enable-torch-compile", S(COMPILE), SEEN },
	{ "enable_torch_compile=True", S(COMPILE), SEEN },
	{ "\\site-packages\\", S(WINDOWS), SEEN },
	{ "\\AppData\\", S(WINDOWS), SEEN },
	{ ":\\Users\\", S(WINDOWS), SEEN },
	{ ":\\Program", S(WINDOWS), SEEN },
	{ "\\blobs\\", S(WINDOWS), SEEN },
	{ "WinError", S(WINDOWS), SEEN },
	{ "Microsoft Windows", S(WINDOWS), SEEN },
	{ "win_amd64", S(WINDOWS), SEEN },
	{ "ComfyUI_windows", S(WINDOWS), SEEN },
	{ "Windows-1", S(WINDOWS), SEEN },
	{ "os.name: nt", S(WINDOWS), SEEN },
	{ "ollama.exe", S(WINDOWS), SEEN },
	{ "python.exe", S(WINDOWS), SEEN },
	{ "limit_mm_per_prompt", S(MEDIA), SEEN },
	{ "limit-mm-per-prompt", S(MEDIA), SEEN },
	{ "mm_counts", S(MEDIA), SEEN },
	{ "multi-modal", S(MEDIA), SEEN },
	{ "multimodal", S(MEDIA), SEEN },
	{ "pixel_values", S(MEDIA), SEEN },
	{ "vision_model", S(MEDIA), SEEN },
	{ "vision_tower", S(MEDIA), SEEN },
	{ "encode_images", S(MEDIA), SEEN },
	{ "image_features", S(MEDIA), SEEN },
	{ "qwen2_vl", S(MEDIA), SEEN },
	{ "qwen2_5_vl", S(MEDIA), SEEN },
	{ "qwen_vl_utils", S(MEDIA), SEEN },
	{ "internvl", S(MEDIA), SEEN },
	{ "max_pixels", S(MEDIA), SEEN },
	{ "vae.decode", S(DECODING), SEEN },
	TASK(EVALUATED, "im_detect: "),
	TASK(EVALUATED, "AP for "),
	TASK(EVALUATED, "Average Precision"),
	TASK(EVALUATED, "Evaluating"),
	TASK(EVALUATED, "Validating"),
	TASK(EVALUATED, "Validation:"),
	TASK(EVALUATED, "evaluation results"),
	TASK(WSL, " WSL2 "),
	TASK(WSL, " WSL2,"),
	TASK(WSL, " WSL2."),
	TASK(WSL, "(WSL2)"),
	TASK(WSL, " WSL 2"),
	TASK(WSL, "microsoft-standard"),
	TASK(WSL, " in WSL"),
	TASK(WSL, "under WSL"),
	TASK(JVM, "ai.rapids.cudf"),
	TASK(JVM, "nvidia.spark.rapids"),
	TASK(JVM, "spark.rapids."),
	TASK(JVM, "ai.djl."),
	TASK(JVM, "ai.onnxruntime."),
	TASK(JVM, "org.tensorflow."),
	TASK(JVM, "ml.dmlc.xgboost4j"),
	TASK(JVM, "org.nd4j."),
	TASK(JVM, "org.bytedeco."),
	TASK(NATIVE, "libtorch"),
	TASK(NATIVE, "torch::jit::"),
	TASK(NATIVE, "'c10::"), /* what was thrown, and caught by nobody */
	{ "vae_decode", S(DECODING), SEEN },
	{ "decode_latent", S(DECODING), SEEN },
	{ "decode_first_stage", S(DECODING), SEEN },
	{ "first_stage_model.decode", S(DECODING), SEEN },
	{ "VAEDecode", S(DECODING), SEEN },
	{ "/vllm/", S(VLLM), SEEN },
	{ "use_vllm", S(VLLM), ON },
	{ "--xformers", S(ATTENTION), SEEN },
	{ "--opt-sdp", S(ATTENTION), SEEN },
	{ "xformers attention", S(ATTENTION), SEEN },
	{ "xformers cross attention", S(ATTENTION), SEEN },
	{ "/deepspeed/", S(DEEPSPEED), SEEN },
	{ "deepspeed.initialize", S(DEEPSPEED), SEEN },
	{ "--deepspeed", S(DEEPSPEED), SEEN },
	{ "[deepspeed]", S(DEEPSPEED), SEEN },
	{ "see_memory_usage]", S(DEEPSPEED), SEEN },
	{ "--img-size", S(IMAGE), SHORT },
	{ "--imgsz", S(IMAGE), SHORT },
	{ "--img ", S(IMAGE), SHORT },
	{ "imgsz=", S(IMAGE), SHORT },
	{ "img_size", S(IMAGE), SHORT },
	{ "--resolution", S(IMAGE), SHORT },
	{ "--batch ", S(BATCH), ONE },
	{ "max-num-seqs", S(SEQUENCES), FEW },
	{ "max_num_seqs", S(SEQUENCES), FEW },
	{ "max-num-batched-tokens", S(BATCHED), SHORT },
	{ "max_num_batched_tokens", S(BATCHED), SHORT },
	{ "max-model-len", S(LENGTH), SHORT },
	{ "max_model_len", S(LENGTH), SHORT },
	{ "max_seq_len", S(LENGTH), SHORT },
	{ "sequence_len:", S(LENGTH), SHORT },
	{ "cutoff_len", S(LENGTH), SHORT },
	{ "max_seq_length", S(LENGTH), SHORT },
	{ "context-length", S(LENGTH), SHORT },
	{ "context_length", S(LENGTH), SHORT },
	{ "chunked-prefill-size", S(CHUNK), SHORT },
	{ "chunked_prefill_size", S(CHUNK), SHORT },
	{ "max-running-requests", S(RUNNING), FEW },
	{ "max_running_requests", S(RUNNING), FEW },
	{ "disable-cuda-graph", S(GRAPHS), ON },
	{ "disable_cuda_graph", S(GRAPHS), ON },
	{ "ubatch", S(UBATCH), SCAN_SET_MUCH },
	{ "ubatch-size", S(UBATCH), SCAN_SET_MUCH },
	{ " -ub 1", S(UBATCH), SCAN_SET_MUCH },
	{ " -ub 2", S(UBATCH), SCAN_SET_MUCH },
	{ " -ub 4", S(UBATCH), SCAN_SET_MUCH },
	{ " -ub 8", S(UBATCH), SCAN_SET_MUCH },
	{ "buffer for kv cache", S(KV_ROOM), SEEN },
	{ "for self-attention cache", S(KV_ROOM), SEEN },
	{ "num_ctx", S(CONTEXT), SHORT },
	{ "--ctx-size", S(CONTEXT), SHORT },
	{ "ctx-size", S(CONTEXT), SHORT },
	{ "--contextsize", S(CONTEXT), SHORT },
	{ "OLLAMA_CONTEXT_LENGTH", S(CONTEXT), SHORT },
	{ "KvSize:", S(CONTEXT), SHORT },
	{ "n_ctx =", S(CONTEXT), SHORT },
	{ "n_ctx=", S(CONTEXT), SHORT },
	{ "Epoch ", MESSAGES_TASK_EPOCHS, SCAN_SET_LATE },
	{ "Epoch: ", MESSAGES_TASK_EPOCHS, SCAN_SET_LATE },
	{ "Epoch [", MESSAGES_TASK_EPOCHS, SCAN_SET_LATE },
	{ "type_k = 'q", S(KV_CACHE), SEEN },
	{ "K (q8_0)", S(KV_CACHE), SEEN },
	{ "K (q4_0)", S(KV_CACHE), SEEN },
	{ "-ctk q8_0", S(KV_CACHE), SEEN },
	{ " -cq4 ", S(KV_CACHE), SEEN }, /* ExLlamaV2 */
	{ " -cq6 ", S(KV_CACHE), SEEN },
	{ " -cq8 ", S(KV_CACHE), SEEN },
	{ "-ctk q4_0", S(KV_CACHE), SEEN },
	TASK(SAMPLED, "100%|\xe2\x96\x88"),
	TASK(SAMPLED, "100%|##"),
	TASK(LOADER, "Type:** CheckpointLoader"),
	TASK(LOADER, "Type:** UNETLoader"),
	TASK(LOADER, "Type:** DiffusionModelLoader"),
	TASK(LOADER, "Type:** CLIPLoader"),
	TASK(LOADER, "Type:** DualCLIPLoader"),
	TASK(LOADER, "Type:** TripleCLIPLoader"),
	TASK(LOADER, "Type:** VAELoader"),
	TASK(LOADER, "Type:** LoraLoader"),
	TASK(LOADER, "Type:** ControlNetLoader"),
	{ "torchrun", S(LAUNCHER), SEEN },
	{ "nproc_per_node", S(LAUNCHER), SEEN },
	{ "nproc-per-node", S(LAUNCHER), SEEN },
	{ "accelerate launch", S(LAUNCHER), SEEN },
	{ "deepspeed --", S(LAUNCHER), SEEN },
	{ "mpirun ", S(LAUNCHER), SEEN },
	{ "LOCAL_RANK", S(LAUNCHER), SEEN },
	{ "local_rank", S(LAUNCHER), SEEN },
	{ "local-rank", S(LAUNCHER), SEEN },
	{ "WORLD_SIZE", S(LAUNCHER), SEEN },
	{ "world_size", S(LAUNCHER), SEEN },
	{ "[RANK ", S(LAUNCHER), SEEN },
	{ "[rank0", S(LAUNCHER), SEEN },
	{ "[rank1", S(LAUNCHER), SEEN },
	{ "[rank2", S(LAUNCHER), SEEN },
	{ "[rank3", S(LAUNCHER), SEEN },
	{ "[rank4", S(LAUNCHER), SEEN },
	{ "[rank5", S(LAUNCHER), SEEN },
	{ "[rank6", S(LAUNCHER), SEEN },
	{ "[rank7", S(LAUNCHER), SEEN },
	{ "DistributedDataParallel", S(LAUNCHER), SEEN },
	{ "MASTER_ADDR", S(LAUNCHER), SEEN },
	{ "num_processes", S(LAUNCHER), SEEN },
	{ "launch.py:", S(LAUNCHER), SEEN },
	TASK(DRAWN, "sglang/multimodal_gen"),
	TASK(DRAWN, "--dit-cpu-offload"),
	TASK(DRAWN, "--dit-layerwise-offload"),
	TASK(STATES, "optimizer state init"),
	TASK(STATES, "initialize_optimizer_states"),
	TASK(STATES, "nitializing optimizer states"),
	TASK(LOGITS, "logits.float()"),
	TASK(LOGITS, "ForCausalLMLoss"),
	TASK(LOGITS, "fixed_cross_entropy"),
	TASK(LOGITS, "shift_logits"),
	TASK(LOGITS, "selective_log_softmax"),
	TASK(LOGITS, "logits.to(torch.float32)"),
	TASK(NO_NVIDIA, "AMD Rad"),
	TASK(NO_NVIDIA, "Radeon"),
	TASK(NO_NVIDIA, "AMDGPU"),
	TASK(NO_NVIDIA, "amdgpu"),
	TASK(NO_NVIDIA, "Adreno"),
	TASK(NO_NVIDIA, "Intel(R) Arc"),
	TASK(NO_NVIDIA, "Intel Arc"),
	TASK(NO_NVIDIA, "Intel(R) HD"),
	TASK(NO_NVIDIA, "Intel(R) UHD"),
	TASK(NO_NVIDIA, "Intel(R) Iris"),
	TASK(ARRAYS, "numpy."),
	TASK(ARRAYS, "/numpy/"),
	TASK(ARRAYS, "import numpy"),
	TASK(ARRAYS, "np.zeros("),
	TASK(ARRAYS, "np.ones("),
	TASK(ARRAYS, "np.empty("),
	TASK(ARRAYS, "np.array("),
	TASK(ARRAYS, "np.load("),
	TASK(ARRAYS, "np.concatenate("),
	TASK(ARRAYS, "np.stack("),
	TASK(ARRAYS, "pandas"),
	TASK(ARRAYS, "scipy."),
	TASK(ARRAYS, "/scipy/"),
	TASK(ARRAYS, "sklearn"),
	TASK(ARRAYS, "astype("),
	TASK(ARRAYS, "ndarray"),
	TASK(ARRAYS, "DataFrame"),
	TASK(ARRAYS, "Unable to allocate"), /* numpy's own words */
	{ "VRAM memory ready", MESSAGES_TASK_SHARED_RAM, SEEN },
	{ "unified RAM", MESSAGES_TASK_SHARED_RAM, SEEN },
	{ "unified memory", MESSAGES_TASK_SHARED_RAM, SEEN },
	{ "Strix Halo", MESSAGES_TASK_SHARED_RAM, SEEN },
	{ "gfx1151", MESSAGES_TASK_SHARED_RAM, SEEN },
	{ "RYZEN AI MAX", MESSAGES_TASK_SHARED_RAM, SEEN },
	{ "from_pretrained", MESSAGES_TASK_PRETRAINED, SEEN },
	{ "packages/transformers/", MESSAGES_TASK_PRETRAINED, SEEN },
	{ "packages\\transformers\\", MESSAGES_TASK_PRETRAINED, SEEN },
	{ "AutoModel", MESSAGES_TASK_PRETRAINED, SEEN },
	{ "device_map", MESSAGES_TASK_PRETRAINED, SEEN },
	{ "Loading checkpoint shards", MESSAGES_TASK_PRETRAINED, SEEN },
	/* what kind of work it is */
	TASK(SHARDS, "Loading checkpoint shards"),
	TASK(ADAPTERS, "/peft/"),
	TASK(ADAPTERS, "LoraConfig"),
	TASK(ADAPTERS, "finetuning_type: lora"),
	TASK(ADAPTERS, "adapter: lora"),
	TASK(ADAPTERS, "lora_rank"),
	TASK(ADAPTERS, "lora_alpha"),
	TASK(ADAPTERS, "--lora"),
	TASK(ADAPTERS, "_lora.py"),
	TASK(ADAPTERS, "get_peft_model"),
	TASK(WEIGHTS, "/Initializer/"),
	TASK(WEIGHTS, "/weights/Assign"),
	TASK(WEIGHTS, "/kernel/Assign"),
	TASK(WEIGHTS, "weights/Initializer"),
	TASK(NOTEBOOK, "ipython-input"),
	TASK(NOTEBOOK, "Cell In["),
	TASK(NOTEBOOK, "ipykernel"),
	TASK(NOTEBOOK, "<cell line:"),
	TASK(REPLICAS, "parallel/data_parallel.py"),
	TASK(REPLICAS, "parallel\\data_parallel.py"),
	TASK(REPLICAS, "in replica "),
	TASK(REPLICAS, "nn.DataParallel"),
	TASK(REPLICAS, "parallel/parallel_apply.py"),
};
const size_t scan_setting_count = sizeof(scan_settings) / sizeof(scan_settings[0]);

#define MOST 0.93
#define FEWEST 4
#define SHORTEST 1024
#define VALUE_BYTES 24
#define ADVISED_BYTES 120 /* in front of a word, that may say that it is only advised */

static int is_name(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}

/* "try setting X=1": a text's advice is no setting. */
static int is_advised(const char *start, const char *at, const char *stop)
{
	static const char *const words[] = { "try ",        "consider",    "e.g.",     "please",
					     "increas",     "reduce ",     "reducing", "decrease ",
					     "decreasing",  "lowering",    "instead",  "should",
					     "recommend",   "for example", "or use",   "set '",
					     "switching to" };
	const char *from = at - start > ADVISED_BYTES ? at - ADVISED_BYTES : start;

	if (memmem(at, (size_t)(stop - at), " to avoid", 9))
		return 1;
	for (const char *p = from; p < at; p++)
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if ((size_t)(at - p) >= strlen(words[i]) &&
			    !strncasecmp(p, words[i], strlen(words[i])))
				return 1;
	return 0;
}

#define VALUE_FAR 64 /* between a word and its value, in a table or a list with leaders */

/* What stands between a word and its value: signs, a table's edges, leaders. */
static const char *skip_signs(const char *p, const char *stop)
{
	static const char *const edges[] = { "\xe2\x94\x82", "\xe2\x94\x83" };
	const char *from = p, *last = NULL;

	while (p < stop && p - from < VALUE_FAR && p != last) {
		last = p;
		if (strchr("\"'`=: \t([|", *p))
			p++;
		for (size_t i = 0; i < 2; i++)
			if (stop - p > 3 && !memcmp(p, edges[i], 3))
				p += 3;
		if (stop - p > 2 && p[0] == '.' && p[1] == '.')
			while (p < stop && *p == '.')
				p++;
	}
	return p;
}

/* "batch size of 1", "batch size per device / (the same in another language): 1" */
static const char *skip_words(const char *p, const char *stop)
{
	static const char *const words[] = { "\xe8\xae\xbe\xe7\xbd\xae\xe4\xb8\xba",
					     "\xe8\xae\xbe\xe4\xb8\xba",
					     " is already ",
					     " was already ",
					     " already ",
					     " is set to ",
					     " set to ",
					     " of ",
					     " to ",
					     " is ",
					     " was ",
					     " at " };
	const char *colon;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if ((size_t)(stop - p) > strlen(words[i]) && !memcmp(p, words[i], strlen(words[i])))
			return p + strlen(words[i]) - (words[i][0] == ' ');
	colon = stop - p > 3 && !memcmp(p, " / ", 3) ? memchr(p, ':', (size_t)(stop - p)) : NULL;
	return colon && colon - p < VALUE_FAR ? colon : p;
}

/* The value behind a word: "=0.9", "': true", " 1"; its length, 0: there is none. */
static size_t value_behind(const char *p, const char *stop, char value[VALUE_BYTES])
{
	const char *from = p;
	size_t n = 0;

	p = skip_signs(skip_words(p, stop), stop);
	while (p < stop && n + 1 < VALUE_BYTES && (is_name(*p) || *p == '.' || *p == '-'))
		value[n++] = *p++;
	value[n] = 0;
	return p > from && from < stop ? n : 0;
}

static int is_one_of(const char *value, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcasecmp(value, words[i]))
			return 1;
	return 0;
}

/* Is it spent?  < 0: the value does not tell. */
static int judge(enum scan_spent how, const char *value, double number)
{
	static const char *const on[] = { "true",      "on",   "yes",  "enabled", "unsloth",
					  "selective", "full", "auto", "cpu",     "nvme" };
	static const char *const off[] = { "false", "off", "no", "none", "null", "disabled" };
	int is_off = is_one_of(value, off, sizeof(off) / sizeof(off[0])) || number == 0;
	int is_on = is_one_of(value, on, sizeof(on) / sizeof(on[0])) || number > 0;

	switch (how) {
	case SCAN_SET_ONE: return number < 0 ? -1 : number <= 1;
	case SCAN_SET_MOST: return number <= 0 || number > 1 ? -1 : number >= MOST;
	case SCAN_SET_FEW: return number < 0 ? -1 : number <= FEWEST;
	case SCAN_SET_SHORT: return number <= 0 ? -1 : number <= SHORTEST;
	case SCAN_SET_MUCH: return number <= 0 ? -1 : number > SHORTEST;
	case SCAN_SET_OFF: return is_off ? 1 : number > 0 ? 0 : -1;
	default: return is_off ? 0 : is_on ? 1 : -1;
	}
}

/* Of a flag's value that is a name: which type, which method. */
static int is_named(const struct scan_setting *s, const char *value)
{
	static const char *const types[] = {
		"fp8",           "fp8_e5m2",       "fp8_e4m3", "q8_0",        "q4_0",
		"awq",           "gptq",           "fp4",      "nf4",         "bitsandbytes",
		"half",          "float16",        "bfloat16", "gptq_marlin", "awq_marlin",
		"torch.float16", "torch.bfloat16", "balanced", "sequential"
	};

	return (s->setting == S(KV_CACHE) || s->setting == S(QUANTISED) || s->setting == S(HALF) ||
		s->setting == S(DEVICE_MAP)) &&
	       is_one_of(value, types, sizeof(types) / sizeof(types[0]));
}

/* "total train batch size": of all devices and steps together, or of another loop. */
static int is_anothers(const struct scan_setting *s, const char *start, const char *at)
{
	static const char *const whose[] = {
		"total", "effective", "global", "eval", "test", "val"
	};
	const char *from = at - start > 24 ? at - 24 : start;

	if (s->setting != S(BATCH) || strncasecmp(s->word, "batch", 5) != 0)
		return 0;
	for (const char *p = from; p < at; p++)
		for (size_t i = 0; i < sizeof(whose) / sizeof(whose[0]); i++)
			if (!strncasecmp(p, whose[i], strlen(whose[i])))
				return 1;
	return 0;
}

#define LATE 10 /* of epochs: what fits in so many fits in the next, if nothing grows */

/* The number of an epoch right behind the word, once it is late. */
static void see_epoch(struct messages_set *set, const char *p, const char *stop, uint64_t line)
{
	double number = 0;

	while (p < stop && *p == ' ')
		p++;
	if (p < stop && *p == '[')
		p++;
	for (; p < stop && *p >= '0' && *p <= '9' && number < 1e9; p++)
		number = 10 * number + (*p - '0');
	if (number >= LATE)
		*set = (struct messages_set){ line, 1, number };
}

void scan_setting_seen(struct messages_set *set, const struct scan_setting *s, const char *start,
		       const char *at, const char *stop, uint64_t line)
{
	const char *behind = at + strlen(s->word);
	char value[VALUE_BYTES];
	size_t n;
	double number;
	char *end;
	int spent;

	if (behind > stop ||
	    (s->spent != SCAN_SET_SEEN && at > start && is_name(at[-1]) && is_name(*at)) ||
	    is_advised(start, at, stop) || is_anothers(s, start, at))
		return;
	if (s->spent == SCAN_SET_SEEN) {
		*set = (struct messages_set){ line, 1, -1 };
		return;
	}
	if (s->spent == SCAN_SET_LATE) {
		see_epoch(set, behind, stop, line);
		return;
	}
	while (s->spent == SCAN_SET_MUCH && behind[-1] >= '0' && behind[-1] <= '9')
		behind--; /* a value's first digit, in a word that was too short without it */
	if (behind < stop && is_name(*behind) && is_name(behind[-1]))
		return; /* another name */
	n = value_behind(behind, stop, value);
	number = strtod(value, &end);
	if (!n || *end || value[0] == '-')
		number = -1;
	spent = is_named(s, value) ? 1 : judge(s->spent, value, number);
	/* a section of DeepSpeed's that opens */
	if (spent < 0 && !n && s->setting == S(OFFLOADED) &&
	    memchr(behind, '{', (size_t)(stop - behind)) &&
	    !memmem(behind, (size_t)(stop - behind), "none", 4))
		spent = 1;
	/* a flag alone: "--enforce-eager --port 80" */
	if (spent < 0 && s->spent == SCAN_SET_ON && at - start >= 2 && at[-1] == '-' &&
	    at[-2] == '-' && (!n || value[0] == '-'))
		spent = 1;
	if (spent >= 0)
		*set = (struct messages_set){ line, spent, number };
}

/* ---- scripts ---- */

#define WORDS_MAX 24 /* of a command, before its script */

/* Scripts of which nobody's program is made. */
static int is_nobodys(const char *name, size_t n)
{
	static const char *const names[] = { "setup.py", "manage.py", "__main__.py",
					     "collect_env.py" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (n == strlen(names[i]) && !memcmp(name, names[i], n))
			return 1;
	return 0;
}

int scan_command(const char *at, const char *stop, char *name, size_t size)
{
	for (int words = 0; at < stop && words < WORDS_MAX; words++) {
		const char *end = at, *from;

		while (end < stop && !strchr(" \t;|&\"'`<>", *end))
			end++;
		for (from = end; from > at && from[-1] != '/' && from[-1] != '\\';)
			from--;
		if (end - from > 3 && !memcmp(end - 3, ".py", 3)) {
			if ((size_t)(end - from) >= size || is_nobodys(from, (size_t)(end - from)))
				return 0;
			memcpy(name, from, (size_t)(end - from));
			name[end - from] = 0;
			return 1;
		}
		if (end < stop && *end != ' ' && *end != '\t')
			return 0;
		for (at = end; at < stop && (*at == ' ' || *at == '\t');)
			at++;
	}
	return 0;
}

enum messages_activity scan_script_does(const char *name)
{
	static const struct {
		const char *part;
		enum messages_activity does;
	} parts[] = {
		{ "train", MESSAGES_DOING_TRAINING },      { "finetun", MESSAGES_DOING_TRAINING },
		{ "fine_tun", MESSAGES_DOING_TRAINING },   { "infer", MESSAGES_DOING_GENERATING },
		{ "predict", MESSAGES_DOING_GENERATING },  { "generat", MESSAGES_DOING_GENERATING },
		{ "sample", MESSAGES_DOING_GENERATING },   { "demo", MESSAGES_DOING_GENERATING },
		{ "txt2img", MESSAGES_DOING_GENERATING },  { "chat", MESSAGES_DOING_GENERATING },
		{ "transcri", MESSAGES_DOING_GENERATING }, { "eval", MESSAGES_DOING_EVALUATION },
		{ "validat", MESSAGES_DOING_EVALUATION },  { "test.py", MESSAGES_DOING_EVALUATION },
		{ "export", MESSAGES_DOING_CONVERTING },   { "convert", MESSAGES_DOING_CONVERTING },
		{ "quantiz", MESSAGES_DOING_CONVERTING },  { "serve", MESSAGES_DOING_SERVING },
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcasestr(name, parts[i].part))
			return parts[i].does;
	return MESSAGES_DOING_UNKNOWN;
}

/* ---- what a command or a dump of arguments tells ---- */

void scan_told(char *told, const char *start, const char *at, const char *stop)
{
	size_t n = strlen(told), more = (size_t)(stop - at);

	if (n + more + 2 > MESSAGES_TOLD || is_advised(start, at, stop))
		return;
	memcpy(told + n, at, more);
	told[n + more] = ' ';
	told[n + more + 1] = 0;
	for (size_t i = n; told[i]; i++)
		if (!(told[i] >= ' ' && told[i] <= '~'))
			told[i] = ' ';
}

#define NAME_BYTES 48

/* Flags of which less is what helps; of others only the same value counts. */
static int is_size(const char *name)
{
	static const char *const parts[] = { "batch",  "size",   "tile",       "chunk",   "seq",
					     "len",    "frame",  "envs",       "res",     "token",
					     "max_bs", "max-bs",

					     "ctx",    "ngl",    "layer",      "segment", "imgsz",
					     "pixel",  "sample", "rays",       "n_rand",  "context",
					     "height", "width",  "generations" };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcasestr(name, parts[i]))
			return 1;
	return 0;
}

static char plain(char c)
{
	return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Where the name stands in a text as a flag; NULL: nowhere. */
static const char *find_flag(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = text; *p; p++) {
		size_t i = 0;

		if (p > text && (is_name(p[-1]) || p[-1] == '.'))
			continue;
		while (i < n && p[i] && plain(p[i]) == plain(name[i]))
			i++;
		if (i == n && !is_name(p[i]) && p[i] != '-')
			return p + n;
	}
	return NULL;
}

/* Is a word of a fix a flag: "--tile", "num_ctx=4096", "quantize: true"? */
static int is_flag(const char *word, const char *name_end)
{
	return *word == '-' || *name_end == '=' || (*name_end == ':' && name_end[1] == ' ');
}

/* The next flag of a fix: its name without dashes, "" where a word is none, and its value, which may be "". */
static const char *next_flag(const char *p, char name[NAME_BYTES], char value[VALUE_BYTES])
{
	const char *word;
	size_t n = 0;

	p += strspn(p, " ,;\"'");
	word = p;
	p += strspn(p, "-");
	while (n + 1 < NAME_BYTES && (is_name(*p) || *p == '-' || *p == '.'))
		name[n++] = *p++;
	name[is_flag(word, p) ? n : 0] = value[0] = 0;
	if (*name && (*p == '=' || *p == ':' ||
		      (*p == ' ' && p[1] && !strchr("-\"", p[1]) &&
		       strcspn(p + 1, "=:") >= strcspn(p + 1, " ,;")))) {
		p += strspn(p, "=: ");
		for (n = 0; n + 1 < VALUE_BYTES && *p && !strchr(" ,;\"'", *p); p++)
			value[n++] = *p;
		value[n] = 0;
	}
	return p + strcspn(p, " ,;");
}

static int is_value_told(const char *name, const char *want, const char *got)
{
	char *want_end, *got_end;
	double wanted = strtod(want, &want_end), had = strtod(got, &got_end);
	static const char *const off[] = { "false", "off", "no", "none", "null", "0" };

	if (!*want)
		return !is_one_of(got, off, sizeof(off) / sizeof(off[0]));
	if (want_end > want && got_end > got)
		return is_size(name) ? had > 0 && had <= wanted : had >= wanted && had <= wanted;
	return !strcasecmp(want, got);
}

double messages_number_told(const char *told, const char *name)
{
	const char *at = find_flag(told, name);
	char got[VALUE_BYTES], *end;
	double number;

	if (!at || !value_behind(at, at + strlen(at), got))
		return -1;
	number = strtod(got, &end);
	return end > got && number >= 0 ? number : -1;
}

/* The size that is told, if it is no larger than the one of digits at `p`; < 0: it is, or there is none. */
static double size_told(const char *told, const char *name, const char *p)
{
	double told_size =
		strlen(name) < 3 || !is_size(name) ? -1 : messages_number_told(told, name);

	return told_size >= 2 && told_size <= strtod(p, NULL) && told_size < 1e9 ? told_size : -1;
}

void messages_lower_told(const char *told, char *text)
{
	char name[NAME_BYTES];

	for (char *p = text; *p; p++) {
		size_t n = 0, digits;
		double size;
		int written;

		p += strspn(p, " ,;\"'(");
		p += strspn(p, "-");
		while (n + 1 < NAME_BYTES && (is_name(p[n]) || p[n] == '-')) {
			name[n] = p[n];
			n++;
		}
		name[n] = 0;
		p += n;
		if (!*p)
			return;
		digits = strspn(p + 1, "0123456789");
		size = (*p == '=' || *p == ' ') && digits ? size_told(told, name, p + 1) : -1;
		if (size < 0)
			continue;
		written = snprintf(name, sizeof(name), "%u", (unsigned)size / 2);
		if (written > 0 && (size_t)written <= digits) {
			memcpy(p + 1, name, (size_t)written);
			memmove(p + 1 + written, p + 1 + digits, strlen(p + 1 + digits) + 1);
		}
	}
}

/* Does a line of the text, not a command's flag, show the setting of that name to be at its end? */
static int is_spent(const struct messages_set *set, const char *name)
{
	for (size_t i = 0; i < scan_setting_count; i++) {
		const struct scan_setting *s = &scan_settings[i];
		const char *word = s->word + strspn(s->word, "-");
		size_t n = 0;

		if (s->spent != SCAN_SET_ONE || !set[s->setting].line || !set[s->setting].spent)
			continue;
		while (word[n] && plain(word[n]) == plain(name[n]))
			n++;
		if (!word[n] && !name[n])
			return 1;
	}
	return 0;
}

size_t messages_count_told(const char *told, const struct messages_set *set, const char *fix,
			   size_t *flags)
{
	char name[NAME_BYTES] = "", want[VALUE_BYTES], got[VALUE_BYTES];
	size_t count = 0;

	*flags = 0;
	while (*fix) {
		const char *at;

		fix = next_flag(fix, name, want);
		if (strlen(name) < 3)
			continue; /* a word of a command, or code */
		++*flags;
		at = find_flag(told, name);
		if (!at) {
			count += (size_t)is_spent(set, name);
			continue;
		}
		value_behind(at, at + strlen(at), got);
		count += (size_t)is_value_told(name, want, got);
	}
	return count;
}
