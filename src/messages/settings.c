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
	{ "batch=-1", S(AUTO_BATCH), SEEN },
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
	{ "/mmpose/", S(MMDET), SEEN },
	{ "/mmaction/", S(MMDET), SEEN },
	{ "/mmocr/", S(MMDET), SEEN },
	{ "/mmpretrain/", S(MMDET), SEEN },
	{ "cache_text_encoder_outputs", S(CACHED_LATENTS), SEEN },
	{ "fp8_base", S(FP8_BASE), SEEN },
	{ "torch.load(", S(TORCH_LOAD), SEEN },
	{ "torch/serialization.py", S(TORCH_LOAD), SEEN },
	{ "load_state_dict", S(TORCH_LOAD), SEEN },
	{ "load_checkpoint", S(TORCH_LOAD), SEEN },
	{ "dispatched on the CPU or the disk", S(QUANTISED), SEEN },
	{ "/transformers/trainer.py", S(HF_TRAINER), SEEN },
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
	{ "gaussian_renderer", S(SPLATTING), SEEN },
	{ "gaussian_model", S(SPLATTING), SEEN },
	{ "diff_gaussian", S(SPLATTING), SEEN },
	{ "gaussian-splatting", S(SPLATTING), SEEN },
	{ "splatfacto", S(SPLATTING), SEEN },
	{ "gsplat", S(SPLATTING), SEEN },
	{ "gaussian splat", S(SPLATTING), SEEN },
	{ "/mmdet/", S(MMDET), SEEN },
	{ "/mmseg/", S(MMDET), SEEN },
	{ " - mmseg - ", S(MMDET), SEEN },
	{ " - mmdet - ", S(MMDET), SEEN },
	{ "ogbn-a", MESSAGES_TASK_GRAPHS, SEEN }, /* -arxiv, -mag, -products, -papers100M */
	{ "ogbn-m", MESSAGES_TASK_GRAPHS, SEEN },
	{ "ogbn-p", MESSAGES_TASK_GRAPHS, SEEN },
	{ "PyTorch Geometric", MESSAGES_TASK_GRAPHS, SEEN },
	{ "Created device /job:localhost", MESSAGES_TASK_TF_BESIDE, SEEN },
	{ "Created TensorFlow device", MESSAGES_TASK_TF_BESIDE, SEEN },
	{ "detectron2/", S(DETECTRON), SEEN },
	{ "d2.engine", S(DETECTRON), SEEN },
	{ "d2.data", S(DETECTRON), SEEN },
	{ "gaussian_splatting", S(SPLATTING), SEEN },
	{ "rasterize_gaussians", S(SPLATTING), SEEN },
	{ "\\mmdet\\", S(MMDET), SEEN },
	{ "/mmdet3d/", S(MMDET), SEEN },
	{ "/transformers/models/", S(LANGUAGE), SEEN },
	{ "transformers_modules", S(LANGUAGE), SEEN },
	{ "lm_head", S(LANGUAGE), SEEN },
	{ "input_ids", S(LANGUAGE), SEEN },
	{ "CausalLM", S(LANGUAGE), SEEN },
	{ "max_seq_len", S(LANGUAGE), SEEN },
	{ "modeling_", S(LANGUAGE), SEEN },
	{ "replay", S(REPLAY), SEEN },
	{ "episode", S(REPLAY), SEEN },
	{ "--dtype=float ", S(FLOAT32), SEEN },
	{ "--dtype float ", S(FLOAT32), SEEN },
	{ "--dtype=float32", S(FLOAT32), SEEN },
	{ "--dtype float32", S(FLOAT32), SEEN },
	{ "dtype=torch.float32", S(FLOAT32), SEEN },
	{ "run_alphafold", S(FOLDING), SEEN },
	{ "/alphafold/", S(FOLDING), SEEN },
	{ "alphafold", S(FOLDING), SEEN },
	{ "AlphaFold", S(FOLDING), SEEN },
	{ "colabfold", S(FOLDING), SEEN },
	{ "FastFold", S(FOLDING), SEEN },
	{ "fastfold", S(FOLDING), SEEN },
	{ "Fastfold", S(FOLDING), SEEN },
	{ "OpenFold", S(FOLDING), SEEN },
	{ "ESMFold", S(FOLDING), SEEN },
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
	{ "Variable_", S(REPEATED), SCAN_SET_MANY },
	{ "/training_", S(REPEATED), SCAN_SET_MANY }, /* Keras, the optimizer of each model */
	{ "{node training_", S(REPEATED), SCAN_SET_MANY },
	{ "Node: training_", S(REPEATED), SCAN_SET_MANY },
	{ "vae.decode", S(DECODING), SEEN },
	TASK(EVALUATED, "im_detect: "),
	TASK(EVALUATED, "AP for "),
	TASK(EVALUATED, "Average Precision"),
	TASK(EVALUATED, "Evaluating"),
	TASK(EVALUATED, "Validating"),
	TASK(EVALUATED, "Validation:"),
	TASK(EVALUATED, "evaluation results"),
	TASK(RESULTS_OFF, "oving results arrays to CPU"),
	TASK(FULL, "train_db.py"),
	TASK(FULL, "fine_tune.py"),
	TASK(FULL, "sdxl_train.py"),
	TASK(FULL, "flux_train.py"),
	TASK(FULL, "sd3_train.py"),
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
	TASK(DASK, "dask_cudf"),
	TASK(DASK, "dask_cuda"),
	TASK(DASK, "distributed/worker.py"),
	TASK(DASK, "distributed.worker"),
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
	{ "yolov5n", S(SMALL_WEIGHTS), SEEN },
	{ "yolov5s", S(SMALL_WEIGHTS), SEEN },
	{ "yolov7-tiny", S(SMALL_WEIGHTS), SEEN },
	{ "yolov8n", S(SMALL_WEIGHTS), SEEN },
	{ "yolov8s", S(SMALL_WEIGHTS), SEEN },
	{ "yolo11n", S(SMALL_WEIGHTS), SEEN },
	{ "yolo11s", S(SMALL_WEIGHTS), SEEN },
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
	{ "enable_partial_loading", S(PARTIAL), ON },
	{ "always-low-vram", S(SMALLEST), SEEN },
	{ "always-no-vram", S(SMALLEST), SEEN },
	{ "openfold", S(FOLDING), SEEN },
	{ "/boltz/", S(FOLDING), SEEN },
	{ "boltz predict", S(FOLDING), SEEN },
	{ "chai_lab", S(FOLDING), SEEN },
	{ "protenix", S(FOLDING), SEEN },
	{ "esmfold", S(FOLDING), SEEN },
	{ "rosettafold", S(FOLDING), SEEN },
	{ "RFdiffusion", S(FOLDING), SEEN },
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
	TASK(DENSE, "to_dense_adj"),
	TASK(DENSE, "to_dense("),
	TASK(DENSE, ".todense("),
	TASK(DENSE, ".cdist("),
	TASK(DENSE, "pairwise_dist"),
	TASK(DENSE, "pdist("),
	TASK(DENSE, "distance_matrix"),
	TASK(DENSE, "similarity_matrix"),
	TASK(DENSE, "sim_matrix"),
	TASK(MINING, "DAG buffer"),
	TASK(MINING, "Generating DAG"),
	TASK(MINING, "generating DAG"),
	TASK(MINING, "enerate DAG"),
	TASK(MINING, "ethminer"),
	TASK(MINING, "xmrig-"),
	TASK(MINING, "/xmrig"),
	TASK(MINING, "xmr-stak"),
	TASK(MINING, "nanopool"),
	TASK(MINING, "nicehash"),
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
	{ "batch size", MESSAGES_TASK_IN_VAIN, SCAN_SET_VAIN },
	{ "batch sizes", MESSAGES_TASK_IN_VAIN, SCAN_SET_VAIN },
	{ "batchsize", MESSAGES_TASK_IN_VAIN, SCAN_SET_VAIN },
	{ "batch_size", MESSAGES_TASK_IN_VAIN, SCAN_SET_VAIN },
	{ "batch-size", MESSAGES_TASK_IN_VAIN, SCAN_SET_VAIN },
	{ "batches", MESSAGES_TASK_IN_VAIN, SCAN_SET_VAIN },
	{ "BATCH_SIZE", MESSAGES_TASK_IN_VAIN, SCAN_SET_VAIN },
	/* what kind of work it is */
	TASK(VIDEO, "num_frames"),
	TASK(VIDEO, "video_length"),
	TASK(VIDEO, "HunyuanVideo"),
	TASK(VIDEO, "hyvideo"),
	TASK(VIDEO, "Wan2.1"),
	TASK(VIDEO, "Wan2.2"),
	TASK(VIDEO, "Wan2GP"),
	TASK(VIDEO, "wan/modules"),
	TASK(VIDEO, "wan\\modules"),
	TASK(VIDEO, "wan/text2video"),
	TASK(VIDEO, "wan/image2video"),
	TASK(VIDEO, "wan/textimage2video"),
	TASK(VIDEO, "CogVideo"),
	TASK(VIDEO, "mochi_preview"),
	TASK(VIDEO, "ltx_video"),
	TASK(VIDEO, "LTXVideo"),
	TASK(VIDEO, "ltx-video"),
	TASK(VIDEO, "FramePack"),
	TASK(VIDEO, "DynamicSwap_"),
	TASK(VIDEO, "hunyuan_video"),
	TASK(VIDEO, "opensora"),
	TASK(VIDEO, "open-sora"),
	TASK(VIDEO, "AnimateDiff"),
	TASK(VIDEO, "animatediff"),
	TASK(VIDEO, "StableVideo"),
	TASK(VIDEO, "image2video"),
	TASK(VIDEO, "text2video"),
	TASK(VIDEO, "image_to_video"),
	TASK(VIDEO, "SkyReels"),
	TASK(VIDEO, "EasyAnimate"),
	TASK(VIDEO, "VideoCrafter"),
	TASK(VIDEO, "DynamiCrafter"),
	TASK(VIDEO, "ToonCrafter"),
	TASK(VIDEO, "Step-Video"),
	TASK(VIDEO, "video_diffusion"),
	TASK(VIDEO, "pyramid_dit"),
	TASK(VIDEO, "MagicAnimate"),
	TASK(VIDEO, "svd_xt"),
	TASK(VIDEO, "MuseTalk"),
	TASK(VIDEO, "LivePortrait"),
	TASK(VIDEO, "EchoMimic"),
	TASK(VIDEO, "hallo/"),
	TASK(PICTURE, "ldm/models"),
	TASK(PICTURE, "ldm\\models"),
	TASK(PICTURE, "ldm/modules"),
	TASK(PICTURE, "ldm\\modules"),
	TASK(PICTURE, "k_diffusion"),
	TASK(PICTURE, "txt2img.py"),
	TASK(PICTURE, "img2img.py"),
	TASK(PICTURE, "latent-diffusion"),
	TASK(PICTURE, "latent_diffusion"),
	TASK(PICTURE, "guided_diffusion"),
	TASK(PICTURE, "guided-diffusion"),
	TASK(PICTURE, "sgm/modules"),
	TASK(PICTURE, "stable-diffusion"),
	TASK(PICTURE, "stable_diffusion"),
	TASK(PICTURE, "flux/sampling"),
	TASK(PICTURE, "p_sample_loop"),
	TASK(PICTURE, "FLUX.1-"),
	TASK(PICTURE, "_flux_"),
	TASK(PICTURE, "flux1-"),
	TASK(PICTURE, "flux-dev"),
	TASK(PICTURE, "flux-schnell"),
	TASK(PICTURE, "hires fix"),
	TASK(PICTURE, "hires. fix"),
	TASK(PICTURE, "Hires fix"),
	TASK(PICTURE, "Hires. fix"),
	TASK(PICTURE, "highres fix"),
	TASK(PICTURE, "high res fix"),
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
	TASK(PICTURE, "FluxPipeline"),
	TASK(PICTURE, "flux_pipeline"),
	TASK(PICTURE, "FLUX.2-"),
	TASK(PICTURE, "--dit-"),
	TASK(PICTURE, "dit_cpu_offload"),
	TASK(PICTURE, "dit_layerwise_offload"),
	TASK(PICTURE, "sglang/multimodal_gen"),
	TASK(PICTURE, "Qwen/Qwen-Image"),
	TASK(PICTURE, "ddim_sampl"),
	TASK(SPEECH, "GPT-SoVITS"),
	TASK(SPEECH, "GPT_SoVITS"),
	TASK(SPEECH, "so-vits"),
	TASK(SPEECH, "fish_speech"),
	TASK(SPEECH, "fish-speech"),
	TASK(SPEECH, "f5_tts"),
	TASK(SPEECH, "CosyVoice"),
	TASK(SPEECH, "cosyvoice"),
	TASK(SPEECH, "/TTS/tts"),
	TASK(SPEECH, "/TTS/utils"),
	TASK(SPEECH, "\\TTS\\t"),
	TASK(SPEECH, "tacotron"),
	TASK(SPEECH, "FastSpeech"),
	TASK(SPEECH, "torchaudio"),
	TASK(SPEECH, "wav2vec"),
	TASK(SPEECH, "mel_spec"),
	TASK(SPEECH, "melspec"),
	TASK(SPEECH, "espnet"),
	TASK(SPEECH, "speechbrain"),
	TASK(SPEECH, "collections/asr"),
	TASK(SPEECH, "collections/tts"),
	TASK(SPEECH, "Retrieval-based-Voice"),
	TASK(SPEECH, "Bert-VITS2"),
	TASK(SPEECH, "VITS-fast"),
	TASK(SPEECH, "bark/generation"),
	TASK(SPEECH, "tortoise"),
	TASK(SPEECH, "StyleTTS"),
	TASK(SPEECH, "xtts_trainer"),
	TASK(SPEECH, "demucs"),
	TASK(SPEECH, "pyannote"),
	TASK(SPEECH, "whisperjav"),
	TASK(SPEECH, "whisperx"),
	TASK(SPEECH, "audiocraft"),
	TASK(SPEECH, "encodec"),
	TASK(SPEECH, "funasr"),
	TASK(SPEECH, "wenet/"),
	TASK(SPEECH, "hubert"),
	TASK(SPEECH, "openai/whisper"),
	TASK(SPEECH, "modeling_whisper"),
	TASK(SPEECH, "insanely-fast-whisper"),
	TASK(SPEECH, "ChatTTS"),
	TASK(SPEECH, "Matcha-TTS"),
	TASK(SPEECH, "VoiceCraft"),
	TASK(VOLUMES, "sliding_window_inference"),
	TASK(VOLUMES, "sliding_window_"),
	TASK(VOLUMES, "nnunet"),
	TASK(VOLUMES, "/monai/"),
	TASK(VOLUMES, "MONAI version"),
	TASK(VOLUMES, "monailabel"),
	TASK(VOLUMES, "TotalSegmentator"),
	TASK(VOLUMES, "swin_unetr"),
	TASK(VOLUMES, "medpy."),
	TASK(VOLUMES, "nibabel"),
	TASK(VOLUMES, ".nii.gz"),
	TASK(VOLUMES, "torchio"),
	TASK(UPSCALING, "realesrgan"),
	TASK(UPSCALING, "Real-ESRGAN"),
	TASK(UPSCALING, "basicsr"),
	TASK(UPSCALING, "SwinIR"),
	TASK(UPSCALING, "super_resolution"),
	TASK(UPSCALING, "super-resolution"),
	TASK(UPSCALING, "superres"),
	TASK(UPSCALING, "esrgan"),
	TASK(UPSCALING, "/gfpgan/"),
	TASK(UPSCALING, "inference_gfpgan"),
	TASK(UPSCALING, "/CodeFormer/"),
	TASK(UPSCALING, "inference_codeformer"),
	TASK(UPSCALING, "waifu2x"),
	TASK(UPSCALING, "SeedVR"),
	TASK(UPSCALING, "Restormer"),
	TASK(UPSCALING, "restormer"),
	TASK(UPSCALING, "upscaler"),
	TASK(UPSCALING, "hat_arch"),
	TASK(UPSCALING, "DiffBIR"),
	TASK(UPSCALING, "SUPIR/"),
	TASK(RAYS, "run_nerf"),
	TASK(RAYS, "nerf_helpers"),
	TASK(RAYS, "/nerf/"),
	TASK(RAYS, "nerf_pl"),
	TASK(RAYS, "render_rays"),
	TASK(RAYS, "batchify_rays"),
	TASK(RAYS, "N_rand"),
	TASK(RAYS, "rays_chunk"),
	TASK(RAYS, "rayschunk"),
	TASK(RAYS, "volume_render"),
	TASK(RAYS, "tinycudann"),
	TASK(RAYS, "tiny-cuda-nn"),
	TASK(RAYS, "instant-ngp"),
	TASK(RAYS, "nerf-pytorch"),
	TASK(RAYS, "num_rays"),
	TASK(POINTS, "spconv"),
	TASK(POINTS, "/pcdet/"),
	TASK(POINTS, "mmdet3d"),
	TASK(POINTS, "MinkowskiEngine"),
	TASK(POINTS, "pointnet"),
	TASK(POINTS, "voxelnet"),
	TASK(POINTS, "torchsparse"),
	TASK(POINTS, "pointcept"),
	TASK(POINTS, "point_cloud"),
	TASK(POINTS, "pointcloud"),
	TASK(POINTS, "det3d/"),
	TASK(GRAPHS, "torch_geometric"),
	TASK(GRAPHS, "/IDGL/"),
	TASK(GRAPHS, "graphlearn"),
	TASK(GRAPHS, "graph_clf"),
	TASK(GRAPHS, "torch_scatter"),
	TASK(GRAPHS, "torch_sparse"),
	TASK(GRAPHS, "edge_index"),
	TASK(GRAPHS, "packages/dgl"),
	TASK(GRAPHS, "DGLGraph"),
	TASK(GRAPHS, "import dgl"),
	TASK(GRAPHS, "edge_attr"),
	TASK(GRAPHS, "GCNConv"),
	TASK(QUANTISING, "auto_gptq"),
	TASK(QUANTISING, "AutoGPTQ"),
	TASK(QUANTISING, "gptqmodel"),
	TASK(QUANTISING, "/awq/quantize"),
	TASK(QUANTISING, "/awq/models"),
	TASK(QUANTISING, "AutoAWQ"),
	TASK(QUANTISING, "llmcompressor"),
	TASK(QUANTISING, "quantizer.quantize"),
	TASK(QUANTISING, "auto_awq"),
	TASK(QUANTISING, "calib_data"),
	TASK(QUANTISING, "calibrate("),
	TASK(QUANTISING, "modelopt"),
	TASK(QUANTISING, "quantize_model"),
	TASK(QUANTISING, "autoround"),
	TASK(QUANTISING, "auto_round"),
	TASK(QUANTISING, "lm_head.gptq"),
	TASK(EMBEDDING, "sentence_transformers"),
	TASK(EMBEDDING, "SentenceTransformer"),
	TASK(EMBEDDING, "FlagEmbedding"),
	TASK(EMBEDDING, "CrossEncoder"),
	TASK(EMBEDDING, "reranker"),
	TASK(EMBEDDING, "Reranker"),
	TASK(EMBEDDING, "embed_documents"),
	TASK(EMBEDDING, "/flair/"),
	TASK(EMBEDDING, "bert_score"),
	TASK(EMBEDDING, "colbert"),
	TASK(EMBEDDING, "text2vec"),
	TASK(EMBEDDING, "m3e-base"),
	TASK(EMBEDDING, "bge-large"),
	TASK(EMBEDDING, "bge-m3"),
	TASK(DOCUMENTS, "magic_pdf"),
	TASK(DOCUMENTS, "mineru"),
	TASK(DOCUMENTS, "MinerU"),
	TASK(DOCUMENTS, "docling"),
	TASK(DOCUMENTS, "/marker/"),
	TASK(DOCUMENTS, "marker_single"),
	TASK(DOCUMENTS, "/surya/"),
	TASK(DOCUMENTS, "easyocr"),
	TASK(DOCUMENTS, "unstructured_inference"),
	TASK(DOCUMENTS, "nougat"),
	TASK(DOCUMENTS, "layoutlm"),
	TASK(DOCUMENTS, "olmocr"),
	TASK(SHAPES, "hy3dgen"),
	TASK(SHAPES, "Hunyuan3D"),
	TASK(SHAPES, "TRELLIS"),
	TASK(SHAPES, "trellis/"),
	TASK(SHAPES, "TripoSR"),
	TASK(SHAPES, "tsr/system"),
	TASK(SHAPES, "threestudio"),
	TASK(SHAPES, "dreamgaussian"),
	TASK(SHAPES, "InstantMesh"),
	TASK(SHAPES, "hy3dshape"),
	TASK(MASKS, "segment_anything"),
	TASK(MASKS, "segment-anything"),
	TASK(MASKS, "SamAutomatic"),
	TASK(MASKS, "/sam2/"),
	TASK(MASKS, "sam_model"),
	TASK(MASKS, "SamPredictor"),
	TASK(FACES, "facefusion"),
	TASK(FACES, "insightface"),
	TASK(FACES, "roop/core"),
	TASK(FACES, "roop-unleashed"),
	TASK(FACES, "Deep-Live-Cam"),
	TASK(FACES, "deepfacelab"),
	TASK(FACES, "DeepFaceLab"),
	TASK(ENVIRONMENTS, "isaacgym"),
	TASK(ENVIRONMENTS, "isaaclab"),
	TASK(ENVIRONMENTS, "IsaacLab"),
	TASK(ENVIRONMENTS, "omni.isaac"),
	TASK(ENVIRONMENTS, "num_envs"),
	TASK(ENVIRONMENTS, "legged_gym"),
	TASK(ENVIRONMENTS, "PhysX warning"),
	TASK(ENVIRONMENTS, "PhysX error"),
	TASK(SEARCH, "optuna"),
	TASK(SEARCH, "TrialState"),
	TASK(SEARCH, "of trial#"),
	TASK(SEARCH, "hyperparameter_search"),
	TASK(SEARCH, "ray/tune"),
	TASK(SEARCH, "KFold("),
	TASK(SEARCH, "cross_validat"),
	TASK(SEARCH, "GridSearchCV"),
	TASK(SEARCH, "RandomizedSearch"),
	TASK(SEARCH, "wandb/agents"),
	TASK(SEARCH, "wandb.agent"),
	TASK(SEARCH, "hyperopt"),
	TASK(SEARCH, "keras_tuner"),
	TASK(SEARCH, "n_trials"),
	TASK(SEARCH, "trial_id"),
	TASK(NOTEBOOK, "ipython-input"),
	TASK(NOTEBOOK, "Cell In["),
	TASK(NOTEBOOK, "ipykernel"),
	TASK(NOTEBOOK, "<cell line:"),
	TASK(BUILDING, "/bin/nvcc "),
	TASK(BUILDING, "ninja: build stopped"),
	TASK(BUILDING, "cc1plus"),
	TASK(BUILDING, "Building wheel for"),
	TASK(BUILDING, "CMakeFiles/"),
	TASK(BUILDING, "cargo build"),
	TASK(BUILDING, "build_ext"),
	TASK(BUILDING, "x86_64-linux-gnu-g"),
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
#define MANY 500 /* of one kind in one graph: no single model has so many */
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

#define VAIN_BYTES 160 /* on either side of a word, in which is told that it did not help */

static int has_any(const char *from, const char *to, const char *const *words, size_t n)
{
	for (const char *p = from; p < to; p++)
		for (size_t i = 0; i < n; i++)
			if ((size_t)(to - p) >= strlen(words[i]) &&
			    !strncasecmp(p, words[i], strlen(words[i])))
				return 1;
	return 0;
}

/* "I reduced the batch size, but still ...", "regardless of the batch size"; "if it still fails, reduce ..." is advice. */
static int is_in_vain(const char *start, const char *at, const char *stop)
{
	static const char *const tried[] = { "tried",    "reduced",  "reducing", "lowered",
					     "lowering", "decreas",  "smaller",  "changed",
					     "changing", "set the ", "setting",  "i set ",
					     "cut the ", "try to " };
	static const char *const vain[] = { "no effect",  "not help",     "n't help",
					    "not work",   "n't work",     "still ",
					    "same error", "same problem", "same issue",
					    "not solve",  "n't solve",    "no difference",
					    "no use",     "to no avail",  "in vain",
					    "n't change", "not fix",      "n't fix" };
	static const char *const whatever[] = { "no matter",  "regardless of", "even with ",
						"even when ", "even if ",      "even after ",
						"even at ",   "independent of" };
	static const char *const advice[] = { "please",   "should",    "recommend",
					      "you can ", "try reduc", "if you " };
	const char *from = at - start > VAIN_BYTES ? at - VAIN_BYTES : start;
	const char *to = stop - at > VAIN_BYTES ? at + VAIN_BYTES : stop;

#define AMONG(words) words, sizeof(words) / sizeof((words)[0])
	if (has_any(from, to, AMONG(advice)))
		return 0;
	return has_any(at - from > 48 ? at - 48 : from, at, AMONG(whatever)) ||
	       (has_any(from, to, AMONG(tried)) && has_any(from, to, AMONG(vain)));
#undef AMONG
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

/* The number right behind the word, once more than a few. */
static void see_number(struct messages_set *set, enum scan_spent how, const char *p,
		       const char *stop, uint64_t line)
{
	double number = 0, least = how == SCAN_SET_LATE ? LATE : MANY;

	while (how == SCAN_SET_LATE && p < stop && *p == ' ')
		p++;
	if (how == SCAN_SET_LATE && p < stop && *p == '[')
		p++;
	for (; p < stop && *p >= '0' && *p <= '9' && number < 1e9; p++)
		number = 10 * number + (*p - '0');
	if (number >= least)
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

	if (s->spent == SCAN_SET_VAIN && behind <= stop && is_in_vain(start, at, stop))
		*set = (struct messages_set){ line, 1, -1 };
	if (s->spent == SCAN_SET_VAIN || behind > stop ||
	    (s->spent != SCAN_SET_SEEN && at > start && is_name(at[-1]) && is_name(*at)) ||
	    is_advised(start, at, stop) || is_anothers(s, start, at))
		return;
	if (s->spent == SCAN_SET_SEEN) {
		*set = (struct messages_set){ line, 1, -1 };
		return;
	}
	if (s->spent == SCAN_SET_MANY || s->spent == SCAN_SET_LATE) {
		see_number(set, s->spent, behind, stop, line);
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
