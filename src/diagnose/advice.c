/*
 * What helps, what does not, and how to be certain, of a failure that only its text tells: a row each, with the kinds of
 * failure, bounds, moments and causes that it is for, and the engines, activities and drivers.  A row that names engines
 * cannot appear for another one, and none that names training for what is not known to train.  Within a list rows stand in
 * the order of cost, the cheapest first.
 *
 * Spellings of flags are those of the engines' documentation of November 2026: vLLM 0.11, SGLang 0.5, llama.cpp b6900,
 * Ollama 0.12, ComfyUI 0.3, JAX 0.8, TensorFlow 2.20, Transformers 5.17, PyTorch 2.11.
 */
#include "diagnose.h"

#include <stdio.h>
#include <string.h>

#define KIND(k) (1u << MESSAGES_##k)
#define AT(m) (1u << MESSAGES_##m)
#define BY(b) (1u << FINDINGS_BOUND_##b)
#define OF(c) (1u << FINDINGS_CAUSE_##c)
#define IN(e) ((uint64_t)1 << MESSAGES_ENGINE_##e)
#define DOING(a) (1u << MESSAGES_DOING_##a)
#define ON(b) (1u << MESSAGES_BACKEND_##b)

#define GPU KIND(DEVICE)
#define KILLS (KIND(CGROUP_KILL) | KIND(HOST_KILL) | KIND(KILLED))
#define HOSTS (KILLS | KIND(HOST))
#define OWN_CARD (BY(DEVICE) | BY(LIMIT) | BY(UNKNOWN))
#define TORCH (IN(PYTORCH) | IN(DEEPSPEED))
#define PICTURES (IN(COMFYUI) | IN(A1111) | IN(INVOKEAI) | IN(DIFFUSERS))
#define GGML (IN(OLLAMA) | IN(LLAMA_CPP))
/* whose tensors PyTorch's caching allocator holds */
#define CACHED (TORCH | PICTURES | IN(VLLM) | IN(SGLANG) | IN(TGI))
#define RUNS (DOING(GENERATING) | DOING(SERVING))
#define CUDA_LIKE (ON(CUDA) | ON(ROCM))
#define LOADED \
	(~AT(LOADING) & ((1u << MESSAGES_MOMENTS) - 1)) /* weights are there, or it is not known */

/* What is known beside the context. */
enum {
	F_OUTSIDE = 1, /* a large part of the card is neither free nor this program's */
	F_FREE = 2,    /* the driver had more than it was asked for */
	F_WINDOWS = 4,
	F_LARGE = 8, /* one request, of host memory */
	F_PYTHON = 16,
	F_SHARE = 32,     /* what is free of how much: {share} */
	F_TOKENS = 64,    /* how many fit into the KV cache: {tokens} */
	F_SIBLINGS = 128, /* several other processes hold more than was asked for */
	F_POOL = 256,     /* the engine's own pool was full, not the driver's memory */
	F_BARE = 512,     /* the driver's code alone: no allocator tells what it holds */
	F_BIG = 1024,     /* one request of the card's memory: no other program is to blame */
	F_PINNED = 4096,  /* host memory that the driver pins */
	F_HANDLE = 8192,  /* cuBLAS made no handle: a full card, or a bad index before it */
	F_HUGE = 16384,   /* one request that no card has, or few do */
	F_LIMIT = 2048    /* of the group's host memory: {more} */
};

#define HUGE_BYTES ((uint64_t)64 << 30)
#define BIG_BYTES ((uint64_t)1 << 30)
#define LARGE_BYTES ((uint64_t)16 << 30) /* of one array in host memory: seldom meant */

static const struct row {
	enum findings_advice list;
	unsigned kinds, bounds, moments, causes,
		only;                    /* 0: any; `only`: no other cause is possible */
	uint64_t engines;                /* 0: any */
	unsigned doing, backends, facts; /* 0: any; facts: all of them ... */
	unsigned without;                /* ... and none of these */
	const char *text;
	/* what to do first, for the first sentence; NULL: the text up to its first colon, semicolon or bracket */
	const char *first;
	const char *fix; /* the command or line to change, alone; NULL: there is none */
} rows[] = {
#define HELPS .list = FINDINGS_HELPS
#define USELESS .list = FINDINGS_USELESS
#define CERTAIN .list = FINDINGS_CERTAINTY
	/* -- whose memory it is comes before how much is needed -- */
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(OTHER_PROCESS), .engines = IN(VLLM),
	  .facts = F_SHARE,
	  .text = "a share that what is free allows: --gpu-memory-utilization {share}",
	  .first = "end what else holds the card (nvidia-smi), or --gpu-memory-utilization {share}",
	  .fix = "--gpu-memory-utilization {share}" },
	{ HELPS, .kinds = GPU | KIND(BUDGET), .bounds = BY(OTHER_PROCESS), .backends = ON(CUDA),
	  .text = "see who holds the card (nvidia-smi, fuser -v /dev/nvidia*) and end what is left "
		  "over, or take another card: CUDA_VISIBLE_DEVICES",
	  .first = "end the other program that holds the card (nvidia-smi shows it), or take "
		   "another card",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU, .bounds = BY(UNKNOWN) | BY(DEVICE), .backends = ON(CUDA),
	  .facts = F_OUTSIDE,
	  .text = "see who else holds the card (nvidia-smi): a large part of it is neither free "
		  "nor this program's; end what is left over",
	  .first = "see who else holds the card (nvidia-smi), and end it",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU | KIND(BUDGET), .bounds = BY(OTHER_PROCESS), .backends = ON(ROCM),
	  .text = "see who holds the card (rocm-smi --showpids) and end what is left over",
	  .first = "see who holds the card (rocm-smi --showpids), and end it",
	  .fix = "rocm-smi --showpids" },
	{ HELPS, .kinds = GPU, .bounds = BY(UNKNOWN), .backends = ON(ROCM), .facts = F_OUTSIDE,
	  .text = "see who holds the card (rocm-smi --showpids) and end what is left over",
	  .first = "see who holds the card (rocm-smi --showpids), and end it",
	  .fix = "rocm-smi --showpids" },
	{ HELPS, .kinds = GPU, .bounds = BY(NON_PYTORCH), .engines = TORCH,
	  .text = "look for what in this process takes memory past PyTorch: another framework, a "
		  "CUDA extension, NCCL's buffers, CuPy or RAPIDS pools",
	  .first = "find what else in this process takes the card's memory" },
	{ HELPS, .kinds = GPU, .bounds = BY(LIMIT), .engines = TORCH | PICTURES,
	  .backends = CUDA_LIKE,
	  .text = "raise the process's own limit (set_per_process_memory_fraction, or "
		  "per_process_memory_fraction), if the card may be used further",
	  .first = "raise this process's own limit",
	  .fix = "torch.cuda.set_per_process_memory_fraction(1.0)" },
	{ HELPS, .kinds = GPU, .facts = F_FREE, .engines = TORCH, .backends = CUDA_LIKE,
	  .text = "look for a limit of this process first (set_per_process_memory_fraction, "
		  "per_process_memory_fraction in PYTORCH_CUDA_ALLOC_CONF, MIG, a container's "
		  "share): the card was not full",
	  .first = "look for a limit of this process (a memory fraction, MIG, a container's "
		   "share)" },

	{ HELPS, .kinds = GPU, .facts = F_HUGE,
	  .engines = TORCH | PICTURES | IN(RAPIDS) | IN(JAX) | IN(TENSORFLOW) | IN(ULTRALYTICS),
	  .text = "one array of that size is seldom meant: look at the shape of the input (an "
		  "image "
		  "that was not resized, a sequence that was not cut, a dimension too many)",
	  .first = "look at the size of the input: so much at once is seldom meant" },
	{ HELPS, .kinds = GPU, .facts = F_SIBLINGS, .engines = TORCH | IN(MEGATRON),
	  .doing = DOING(TRAINING) | DOING(EVALUATION) | DOING(UNKNOWN) | DOING(STARTING),
	  .bounds = BY(DEVICE),
	  .text = "other processes hold more of this card than was asked for: if they are ranks of "
		  "this job, torch.cuda.set_device(local_rank) before anything else keeps them off "
		  "it; "
		  "map_location=\"cpu\" where each rank loads a checkpoint",
	  .first = "keep the other ranks off this card (torch.cuda.set_device(local_rank) first)",
	  .fix = "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))" },
	{ HELPS, .kinds = GPU, .facts = F_HANDLE, .engines = TORCH | IN(UNKNOWN),
	  .text = "run it once on the CPU: a label or a token id out of range shows its line there "
		  "(compare labels with the number of classes, ids with the embedding's rows); if "
		  "it runs, the card was full",
	  .first = "run it once on the CPU, where a label or token id out of range shows its line",
	  .fix = "CUDA_LAUNCH_BLOCKING=1" },
	{ HELPS, .kinds = GPU, .facts = F_BARE, .engines = TORCH,
	  .bounds = BY(UNKNOWN) | BY(DEVICE), .backends = ON(CUDA),
	  .text = "see who holds the card (nvidia-smi): the driver refused memory outside "
		  "PyTorch's "
		  "allocator, so the card was full already, or another program has it",
	  .first = "see who holds the card (nvidia-smi)",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },

	/* -- servers: vllm/config, sglang/srt/server_args.py, TGI's launcher, TensorRT-LLM's LlmArgs -- */
	{ HELPS, .kinds = GPU, .engines = IN(VLLM) | IN(SGLANG) | IN(TGI) | IN(LMDEPLOY),
	  .moments = AT(LOADING),
	  .text = "weights that fit: a quantised checkpoint (AWQ, GPTQ, FP8), or more cards "
		  "(--tensor-parallel-size)",
	  .first = "a quantised checkpoint of the model, or more cards (--tensor-parallel-size)" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD | BY(NON_PYTORCH) | BY(OTHER_PROCESS),
	  .engines = IN(VLLM), .moments = LOADED,
	  .text = "a lower --gpu-memory-utilization (0.85): vLLM fills its share with KV cache, "
		  "and what runs beside it needs room",
	  .first = "lower --gpu-memory-utilization", .fix = "--gpu-memory-utilization 0.85" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD | BY(NON_PYTORCH) | BY(OTHER_PROCESS),
	  .engines = IN(VLLM), .moments = LOADED,
	  .text = "smaller passes: --max-num-seqs 64, --max-num-batched-tokens 4096; "
		  "--enforce-eager keeps no CUDA graphs",
	  .first = "fewer sequences at a time (--max-num-seqs 64)",
	  .fix = "--max-num-seqs 64 --max-num-batched-tokens 4096 --enforce-eager" },
	{ HELPS, .kinds = GPU, .engines = IN(SGLANG), .moments = LOADED,
	  .text = "a lower --mem-fraction-static (0.8), --chunked-prefill-size 2048, fewer "
		  "--max-running-requests",
	  .first = "lower --mem-fraction-static",
	  .fix = "--mem-fraction-static 0.8 --chunked-prefill-size 2048 --max-running-requests "
		 "32" },
	{ HELPS, .kinds = GPU, .engines = IN(TGI),
	  .text = "lower --max-batch-prefill-tokens and --max-total-tokens, or "
		  "--cuda-memory-fraction 0.9",
	  .first = "lower --max-batch-prefill-tokens",
	  .fix = "--max-batch-prefill-tokens 2048 --cuda-memory-fraction 0.9" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORRT_LLM), .doing = DOING(CONVERTING),
	  .text = "a smaller max_batch_size, max_num_tokens and max_seq_len to build for; nothing "
		  "else on the card while it builds",
	  .first = "build for a smaller max_batch_size and max_num_tokens",
	  .fix = "trtllm-build --max_batch_size 8 --max_num_tokens 4096" },
	{ HELPS, .kinds = GPU | KIND(BUDGET), .engines = IN(TENSORRT_LLM),
	  .doing = ~DOING(CONVERTING),
	  .text = "a lower kv_cache_config.free_gpu_memory_fraction, max_batch_size and "
		  "max_num_tokens",
	  .first = "lower kv_cache_config.free_gpu_memory_fraction",
	  .fix = "kv_cache_config.free_gpu_memory_fraction: 0.8" },
	{ HELPS, .kinds = GPU, .engines = IN(TRITON_SERVER),
	  .text = "fewer instances a model (instance_group count), a smaller max_batch_size; "
		  "models that are not used unloaded (--model-control-mode=explicit)",
	  .first = "fewer instances of each model (instance_group count)",
	  .fix = "instance_group [ { count: 1 } ]" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(OTHER_PROCESS), .engines = IN(VLLM),
	  .without = F_SHARE, .text = "a --gpu-memory-utilization that what is free allows" },
	{ HELPS, .kinds = KIND(BUDGET), .engines = IN(VLLM), .facts = F_TOKENS,
	  .text = "a context that fits: --max-model-len {tokens}; more of it with --kv-cache-dtype "
		  "fp8, "
		  "quantised weights or more cards (--tensor-parallel-size)",
	  .first = "--max-model-len {tokens}", .fix = "--max-model-len {tokens}" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(VLLM),
	  .without = F_TOKENS,
	  .text = "a larger share of the card (--gpu-memory-utilization 0.95), if nobody else "
		  "needs it",
	  .first = "a larger --gpu-memory-utilization (0.95), or a smaller or quantised model",
	  .fix = "--gpu-memory-utilization 0.95" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(VLLM),
	  .text = "less to hold: a shorter context (--max-model-len), fewer sequences "
		  "(--max-num-seqs), --kv-cache-dtype fp8, quantised weights, or more cards "
		  "(--tensor-parallel-size)",
	  .first = "a shorter context (--max-model-len)",
	  .fix = "--max-model-len 8192 --max-num-seqs 64 --kv-cache-dtype fp8" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(SGLANG),
	  .text = "a shorter --context-length, fewer --max-running-requests, --kv-cache-dtype "
		  "fp8_e5m2, or more cards (--tp)",
	  .first = "a shorter --context-length",
	  .fix = "--context-length 8192 --max-running-requests 32" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(SGLANG),
	  .text = "a larger --mem-fraction-static, if nobody else needs the card",
	  .fix = "--mem-fraction-static 0.9" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT),
	  .engines = IN(UNKNOWN) | IN(TGI) | TORCH | IN(TENSORRT_LLM),
	  .text = "less to hold: a shorter context, fewer sequences at a time, an 8-bit KV cache, "
		  "quantised weights, or more cards; or a larger share of the card for the server",
	  .first = "a shorter context or fewer sequences at a time" },

	/* -- llama.cpp: common/arg.cpp; Ollama: envconfig -- */
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP),
	  .text = "fewer layers on the GPU (-ngl N); of a mixture of experts, the experts on the "
		  "CPU (--cpu-moe, --n-cpu-moe N)",
	  .first = "put fewer layers on the GPU (-ngl) or shorten the context (-c)",
	  .fix = "-ngl 20" },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP),
	  .text = "a shorter context (-c 8192), a quantised KV cache (-ctk q8_0 -ctv q8_0, with "
		  "-fa on), a smaller compute buffer (-ub 256)",
	  .fix = "-c 8192 -fa on -ctk q8_0 -ctv q8_0 -ub 256" },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP),
	  .text = "of several cards, another division (-ts 3,1): the one that is named was full",
	  .fix = "-ts 3,1" },
	{ HELPS, .kinds = GPU, .engines = IN(OLLAMA),
	  .text = "a shorter context (num_ctx, or OLLAMA_CONTEXT_LENGTH) or fewer layers on the "
		  "GPU (num_gpu); ollama ps shows what is loaded, ollama stop MODEL unloads it",
	  .first = "a shorter context (num_ctx) or fewer layers on the GPU (num_gpu)",
	  .fix = "OLLAMA_CONTEXT_LENGTH=4096" },
	{ HELPS, .kinds = GPU, .engines = IN(OLLAMA),
	  .text = "OLLAMA_NUM_PARALLEL=1 and OLLAMA_MAX_LOADED_MODELS=1; OLLAMA_KV_CACHE_TYPE=q8_0 "
		  "with OLLAMA_FLASH_ATTENTION=1",
	  .fix = "OLLAMA_NUM_PARALLEL=1 OLLAMA_MAX_LOADED_MODELS=1 OLLAMA_FLASH_ATTENTION=1 "
		 "OLLAMA_KV_CACHE_TYPE=q8_0" },
	{ HELPS, .kinds = GPU | HOSTS, .engines = GGML,
	  .text = "a smaller model, or a smaller quantisation of it (Q4_K_M, IQ3_XS)",
	  .first = "a smaller model, or a smaller quantisation of it" },
	{ HELPS, .kinds = GPU, .engines = GGML, .backends = ON(MPS),
	  .text = "let the GPU have more of the machine's memory: sudo sysctl "
		  "iogpu.wired_limit_mb=N",
	  .fix = "sudo sysctl iogpu.wired_limit_mb=N" },
	{ HELPS, .kinds = HOSTS, .engines = IN(LLAMA_CPP),
	  .text = "a shorter context (-c); leave --mlock and --no-mmap off: mapped weights need "
		  "not be resident",
	  .first = "a shorter context (-c)", .fix = "-c 4096" },

	/* -- pictures: ComfyUI's cli_args.py, A1111's cmd_args.py, diffusers' guide to memory -- */
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI),
	  .text = "a smaller picture or batch; VAE Decode (Tiled) where decoding fails; start it "
		  "with --lowvram, then --novram; --reserve-vram 1 leaves room for others",
	  .first = "a smaller picture or batch, or start ComfyUI with --lowvram",
	  .fix = "--lowvram --reserve-vram 1" },
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI),
	  .text = "a smaller model file: fp8 or GGUF weights" },
	{ HELPS, .kinds = GPU, .engines = IN(A1111),
	  .text = "a smaller picture or batch; start it with --medvram, then --lowvram, and "
		  "--opt-sdp-attention or --xformers",
	  .first = "a smaller picture, or start it with --medvram",
	  .fix = "--medvram --opt-sdp-attention" },
	{ HELPS, .kinds = GPU, .engines = IN(INVOKEAI),
	  .text = "a smaller picture; in invokeai.yaml enable_partial_loading: true and a smaller "
		  "max_cache_vram_gb",
	  .first = "a smaller picture, or enable_partial_loading: true",
	  .fix = "enable_partial_loading: true" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS),
	  .doing = DOING(GENERATING) | DOING(LOADING) | DOING(UNKNOWN),
	  .text = "pipe.enable_model_cpu_offload() instead of pipe.to(\"cuda\"), "
		  "torch_dtype=torch.float16, pipe.vae.enable_tiling(); a smaller picture or batch",
	  .first = "pipe.enable_model_cpu_offload() instead of pipe.to(\"cuda\")",
	  .fix = "pipe.enable_model_cpu_offload(); pipe.vae.enable_tiling()" },

	/* -- JAX, TensorFlow, Paddle, ONNX Runtime, TensorRT, MLX, CuPy -- */
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .facts = F_BIG,
	  .text = "smaller arrays at a time: a smaller batch, jax.lax.map with batch_size, "
		  "bfloat16, or more "
		  "devices (jax.sharding)",
	  .first = "a smaller batch or smaller arrays at a time" },
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .backends = CUDA_LIKE,
	  .text = "see who else holds the card (nvidia-smi): JAX takes 75 % of it at the start; "
		  "XLA_PYTHON_CLIENT_PREALLOCATE=false or XLA_PYTHON_CLIENT_MEM_FRACTION=.50 where "
		  "it is shared",
	  .first = "see who else holds the card (nvidia-smi); JAX takes 75 % of it at the start",
	  .fix = "XLA_PYTHON_CLIENT_PREALLOCATE=false" },
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .doing = DOING(TRAINING),
	  .text = "donated buffers (jax.jit(step, donate_argnums=0)), jax.checkpoint around the "
		  "blocks, a smaller batch",
	  .fix = "jax.jit(step, donate_argnums=0)" },
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .without = F_BIG,
	  .text = "smaller arrays at a time (a smaller batch, jax.lax.map with batch_size), "
		  "bfloat16, or more devices (jax.sharding)",
	  .first = "a smaller batch or smaller arrays at a time" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORFLOW), .facts = F_POOL,
	  .text = "a smaller batch or input: what TensorFlow may use of the card is full",
	  .first = "a smaller batch or input", .fix = "batch_size=8" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORFLOW), .backends = CUDA_LIKE,
	  .text = "where other programs use the card: "
		  "tf.config.experimental.set_memory_growth(gpu, True), before anything runs; "
		  "TensorFlow takes the whole card else",
	  .first = "see who else holds the card (nvidia-smi); TensorFlow takes the whole card",
	  .fix = "TF_FORCE_GPU_ALLOW_GROWTH=true" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORFLOW),
	  .text = "a smaller batch and half the precision: "
		  "keras.mixed_precision.set_global_policy(\"mixed_float16\")",
	  .fix = "keras.mixed_precision.set_global_policy(\"mixed_float16\")" },
	{ HELPS, .kinds = GPU, .engines = IN(PADDLE), .facts = F_OUTSIDE,
	  .text = "end what else runs on the card (nvidia-smi): PaddlePaddle holds little of it "
		  "itself",
	  .first = "see who else holds the card (nvidia-smi), and end it",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU, .engines = IN(PADDLE),
	  .text = "a smaller batch, or end what else runs on the card (nvidia-smi); "
		  "FLAGS_fraction_of_gpu_memory_to_use and FLAGS_allocator_strategy=auto_growth "
		  "decide what is taken",
	  .first = "a smaller batch", .fix = "FLAGS_allocator_strategy=auto_growth" },
	{ HELPS, .kinds = GPU, .engines = IN(ONNX_RUNTIME),
	  .text = "of the provider's options: gpu_mem_limit, "
		  "arena_extend_strategy=kSameAsRequested, cudnn_conv_use_max_workspace=0; a "
		  "smaller batch",
	  .first = "a gpu_mem_limit for the provider, and a smaller batch",
	  .fix = "provider_options=[{\"arena_extend_strategy\": \"kSameAsRequested\", "
		 "\"cudnn_conv_use_max_workspace\": \"0\"}]" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORRT),
	  .text = "a smaller workspace (config.set_memory_pool_limit, trtexec "
		  "--memPoolSize=workspace:2048), smaller shapes in the profile; nothing else on "
		  "the card while it builds",
	  .first = "a smaller workspace", .fix = "trtexec --memPoolSize=workspace:2048" },
	{ HELPS, .kinds = GPU, .engines = IN(MLX),
	  .text = "a smaller model or quantisation (mlx_lm.convert -q); sudo sysctl "
		  "iogpu.wired_limit_mb=N lets the GPU have more of the machine's memory",
	  .first = "a smaller model or quantisation", .fix = "mlx_lm.convert -q --hf-path MODEL" },
	{ HELPS, .kinds = GPU, .engines = IN(CAFFE),
	  .text = "a smaller batch_size in the prototxt" },
	{ HELPS, .kinds = GPU, .engines = IN(RAPIDS),
	  .text = "give back what the pool keeps "
		  "(cupy.get_default_memory_pool().free_all_blocks()), work in parts (dask_cudf), "
		  "or spill to the host (cudf.set_option(\"spill\", True), rmm managed memory)",
	  .first = "give back what the memory pool keeps, or work in parts",
	  .fix = "cupy.get_default_memory_pool().free_all_blocks()" },

	{ HELPS, .kinds = GPU | KIND(BUDGET), .engines = IN(LMDEPLOY),
	  .text = "less KV cache (--cache-max-entry-count 0.5), a shorter context (--session-len), "
		  "--quant-policy 8, or more cards (--tp)",
	  .first = "less KV cache (--cache-max-entry-count 0.5)",
	  .fix = "--cache-max-entry-count 0.5 --session-len 8192" },
	{ HELPS, .kinds = GPU, .engines = IN(WEBUI),
	  .text = "a shorter context (ctx-size) or fewer layers on the GPU (gpu-layers) for GGUF "
		  "files; "
		  "load-in-4bit or cpu offload for Transformers models; a smaller quantisation",
	  .first = "a shorter context, fewer layers on the GPU, or a smaller quantisation",
	  .fix = "--ctx-size 4096 --gpu-layers 20" },
	{ HELPS, .kinds = GPU, .engines = IN(KOHYA) | IN(DIFFUSERS), .doing = DOING(TRAINING),
	  .text = "train_batch_size 1 with gradient accumulation, a smaller resolution, "
		  "--gradient_checkpointing, --mixed_precision bf16, an 8-bit optimizer",
	  .first = "train_batch_size 1, --gradient_checkpointing, an 8-bit optimizer",
	  .fix = "--train_batch_size=1 --gradient_checkpointing --mixed_precision=bf16" },
	{ HELPS, .kinds = GPU, .engines = IN(KOHYA), .doing = DOING(TRAINING),
	  .text = "latents and text encoders cached beforehand (--cache_latents, "
		  "--cache_text_encoder_outputs); for Flux and SD3 --fp8_base and --blocks_to_swap "
		  "18",
	  .fix = "--cache_latents --cache_text_encoder_outputs --fp8_base" },
	{ HELPS, .kinds = GPU, .engines = IN(CTRANSLATE2),
	  .text = "8-bit weights (compute_type=\"int8_float16\"), a smaller model or batch_size",
	  .first = "compute_type=\"int8_float16\", or a smaller model",
	  .fix = "compute_type=\"int8_float16\"" },
	{ HELPS, .kinds = GPU, .engines = IN(MEGATRON), .bounds = OWN_CARD,
	  .text = "a smaller --micro-batch-size, --recompute-activations, more tensor or pipeline "
		  "parallelism; --use-distributed-optimizer shares the optimizer's state",
	  .first = "a smaller --micro-batch-size, or --recompute-activations",
	  .fix = "--micro-batch-size 1 --recompute-activations --use-distributed-optimizer" },
	{ HELPS, .kinds = GPU, .engines = IN(ULTRALYTICS), .bounds = OWN_CARD,
	  .doing = DOING(TRAINING) | DOING(UNKNOWN) | DOING(EVALUATION),
	  .text = "a smaller batch (batch=8; batch=-1 measures what fits) or image (imgsz=480)",
	  .first = "a smaller batch (batch=8, or batch=-1) or image (imgsz=480)",
	  .fix = "batch=8 imgsz=480" },
	{ HELPS, .kinds = GPU, .engines = IN(ULTRALYTICS), .bounds = OWN_CARD, .doing = RUNS,
	  .text = "a smaller image (imgsz=640) or fewer at a time (stream=True), half=True",
	  .fix = "imgsz=640 half=True" },

	/* -- PyTorch: what to change where it died -- */
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FIRST_STEP) | AT(OPTIMIZER),
	  .engines = TORCH,
	  .text = "an optimizer with less state: 8-bit Adam, Adafactor, SGD, LoRA; sharded over "
		  "ranks: ZeRO-1 or FSDP",
	  .first = "an optimizer with less state (8-bit Adam)", .fix = "optim=\"adamw_bnb_8bit\"" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FIRST_STEP) | AT(OPTIMIZER),
	  .engines = TORCH,
	  .text = "fused=True in torch's own optimizers: it avoids the lists that foreach makes at "
		  "each step",
	  .fix = "torch.optim.AdamW(..., fused=True)" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING), .engines = TORCH,
	  .text = "load in the type it is to run in (dtype=torch.bfloat16), quantised, or over "
		  "several cards or the host (device_map=\"auto\")",
	  .first = "load the model in 16 bits or quantised, or over several cards",
	  .fix = "from_pretrained(..., dtype=torch.bfloat16, device_map=\"auto\")" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING), .engines = TORCH,
	  .text = "load a checkpoint to the host (map_location=\"cpu\"), and drop the old model "
		  "before the next is loaded",
	  .first = "load the checkpoint to the host first",
	  .fix = "torch.load(..., map_location=\"cpu\")" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(EVAL), .causes = OF(LEAK),
	  .engines = TORCH,
	  .text = "move what evaluation keeps to the host at once (.cpu(), "
		  "eval_accumulation_steps), and keep predictions instead of logits "
		  "(preprocess_logits_for_metrics)",
	  .first = "move what evaluation keeps to the host at once (.cpu())",
	  .fix = "eval_accumulation_steps=1" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(EVAL), .engines = TORCH,
	  .text = "torch.inference_mode() around it, and a smaller evaluation batch "
		  "(per_device_eval_batch_size)",
	  .first = "a smaller evaluation batch, under torch.inference_mode()",
	  .fix = "per_device_eval_batch_size=1" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(GENERATION), .engines = TORCH,
	  .text = "fewer sequences at a time or shorter ones: the KV cache grows with both; "
		  "quantise the cache, or a server with paged attention",
	  .first = "fewer sequences at a time, or shorter ones" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(SAVING), .engines = TORCH,
	  .text = "gather the state on the host or save it sharded (full_state_dict with "
		  "cpu_offload, torch.distributed.checkpoint)",
	  .first = "save the state sharded, or gather it on the host" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD,
	  .moments = AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), .causes = OF(CAPACITY),
	  .engines = TORCH, .doing = DOING(TRAINING),
	  .text = "a smaller micro-batch with gradient accumulation, and a bound on the longest "
		  "sequence (sort or bucket by length)",
	  .first = "a smaller micro-batch, with gradient accumulation",
	  .fix = "per_device_train_batch_size=1, gradient_accumulation_steps=8" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FORWARD) | AT(BACKWARD),
	  .causes = OF(CAPACITY), .engines = TORCH, .doing = DOING(TRAINING),
	  .text = "gradient checkpointing; a fused loss that never holds all logits, where they "
		  "are what was asked for",
	  .fix = "model.gradient_checkpointing_enable()" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FORWARD) | AT(MOMENT_UNKNOWN),
	  .causes = OF(CAPACITY), .engines = TORCH,
	  .doing = DOING(GENERATING) | DOING(SERVING) | DOING(EVALUATION),
	  .text = "fewer or smaller inputs at a time, torch.inference_mode() around the model, "
		  "weights in 16 bits or quantised",
	  .first = "fewer or smaller inputs at a time", .fix = "with torch.inference_mode():" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FORWARD) | AT(MOMENT_UNKNOWN),
	  .causes = OF(CAPACITY), .engines = TORCH, .doing = DOING(UNKNOWN),
	  .text = "a smaller batch or input; where nothing is trained, torch.inference_mode() "
		  "around the model and weights in 16 bits",
	  .first = "a smaller batch or input" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .engines = IN(DEEPSPEED),
	  .doing = DOING(TRAINING),
	  .text = "a higher ZeRO stage (2 shares gradients, 3 the weights as well), or its "
		  "optimizer on the "
		  "host (offload_optimizer)",
	  .fix = "\"zero_optimization\": {\"stage\": 3}" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .causes = OF(LEAK), .engines = TORCH,
	  .doing = DOING(TRAINING) | DOING(EVALUATION) | DOING(UNKNOWN),
	  .moments =
		  AT(FORWARD) | AT(BACKWARD) | AT(FIRST_STEP) | AT(OPTIMIZER) | AT(MOMENT_UNKNOWN),
	  .text = "if memory climbs from step to step: keep no GPU tensors over a step (x.item() "
		  "or x.detach().cpu() instead of x)",
	  .first = "keep no GPU tensors over a step" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .causes = OF(FRAGMENTATION), .engines = CACHED,
	  .backends = CUDA_LIKE,
	  .text = "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which is cheap: it helps "
		  "if gaps are the cause, and only then",
	  .first = "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
	  .fix = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" },
	{ HELPS, .kinds = GPU, .engines = TORCH | PICTURES, .backends = ON(MPS),
	  .text = "a smaller batch or picture, 16 bits, fewer other programs: the GPU shares the "
		  "machine's memory; PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts the limit and may "
		  "stall the machine",
	  .first = "a smaller batch or picture, and fewer other programs" },
	{ HELPS, .kinds = GPU, .engines = TORCH | IN(UNKNOWN) | IN(JAX), .backends = ON(TPU),
	  .text = "a smaller batch a core, bfloat16, or the model sharded over more cores",
	  .first = "a smaller batch a core" },
	{ HELPS, .kinds = GPU, .engines = IN(UNKNOWN), .backends = CUDA_LIKE,
	  .text = "see who holds the card (nvidia-smi): the text tells neither the program nor how "
		  "much it had",
	  .first = "see who holds the card (nvidia-smi)",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU, .engines = IN(UNKNOWN),
	  .text = "less at a time: a smaller batch or input, a smaller or quantised model, or a "
		  "card with more memory",
	  .first = "a smaller batch, input or model" },

	/* -- host memory -- */
	{ HELPS, .kinds = KIND(CGROUP_KILL), .facts = F_LIMIT,
	  .text = "ask for more memory: Slurm --mem={more} or --mem-per-cpu, Kubernetes "
		  "resources.limits.memory, docker --memory; /dev/shm and tmpfs count into it",
	  .first = "ask for more memory (Slurm --mem={more}, Kubernetes limits.memory)",
	  .fix = "#SBATCH --mem={more}" },
	{ HELPS, .kinds = KIND(CGROUP_KILL), .without = F_LIMIT,
	  .text = "ask for more memory: Slurm --mem or --mem-per-cpu, Kubernetes "
		  "resources.limits.memory, docker --memory; /dev/shm and tmpfs count into it",
	  .first = "ask for more memory (Slurm --mem, Kubernetes limits.memory)" },
	{ HELPS, .kinds = KIND(HOST), .facts = F_LARGE,
	  .engines = TORCH | PICTURES | IN(UNKNOWN) | IN(TENSORFLOW) | IN(JAX) | IN(RAPIDS) |
		     IN(ULTRALYTICS),
	  .text = "one array of that size is seldom meant: check its shape and dtype, or work in "
		  "parts (chunks, np.memmap, a generator)",
	  .first = "check whether so much memory was meant (shape, dtype)" },
	{ HELPS, .kinds = HOSTS, .facts = F_WINDOWS,
	  .text = "a larger page file (System, Advanced, Performance, Virtual memory: system "
		  "managed): Windows promises no more than memory and page file together",
	  .first = "a larger page file" },
	{ HELPS, .kinds = HOSTS, .moments = AT(LOADING),
	  .engines = TORCH | IN(UNKNOWN) | IN(VLLM) | PICTURES,
	  .text = "do not hold the checkpoint twice: safetensors, low_cpu_mem_usage=True, "
		  "mmap=True; let one rank load and broadcast",
	  .first = "do not hold the checkpoint twice (safetensors, low_cpu_mem_usage=True)",
	  .fix = "from_pretrained(..., low_cpu_mem_usage=True)" },
	{ HELPS, .kinds = HOSTS, .moments = AT(LOADING),
	  .engines = TORCH | IN(UNKNOWN) | IN(VLLM) | PICTURES,
	  .text = "a smaller model, or one in 16 bits or quantised: its weights pass through host "
		  "memory" },
	{ HELPS, .kinds = KILLS, .moments = AT(SAVING), .engines = TORCH | IN(UNKNOWN),
	  .text = "save sharded, or one rank at a time: gathering the whole state costs host "
		  "memory" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(TRAINING), .engines = IN(DEEPSPEED),
	  .text = "offload less to the host (offload_optimizer, offload_param in the ZeRO "
		  "section), or pin_memory: false: optimizer states there are 12 bytes a parameter",
	  .first = "offload less to the host" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(TRAINING) | DOING(EVALUATION), .engines = TORCH,
	  .text = "fewer DataLoader workers (num_workers), a smaller prefetch_factor: each worker "
		  "may end with its own copy of the data set",
	  .first = "fewer DataLoader workers", .fix = "num_workers=2, prefetch_factor=1" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(TRAINING) | DOING(EVALUATION),
	  .engines = TORCH | IN(TENSORFLOW) | IN(JAX),
	  .text = "keep the data set in arrays or memory-mapped files (numpy, Arrow), not in "
		  "Python lists of objects: reference counts copy shared pages",
	  .first = "keep the data set in arrays or memory-mapped files" },
	{ HELPS, .kinds = HOSTS, .doing = RUNS,
	  .engines = TORCH | PICTURES | IN(VLLM) | IN(SGLANG) | IN(UNKNOWN),
	  .text = "a smaller model or input, or less kept on the host (swap space, offloaded "
		  "weights, caches)" },
	{ HELPS, .kinds = HOSTS, .engines = PICTURES,
	  .text = "smaller model files (fp8 or GGUF), fewer models kept in memory, more swap or a "
		  "larger page "
		  "file",
	  .first = "smaller model files, or more swap" },
	{ HELPS, .kinds = HOSTS, .engines = IN(VLLM),
	  .text = "less on the host: a smaller --swap-space and --cpu-offload-gb, fewer loaders at "
		  "a time "
		  "(--max-parallel-loading-workers), or more memory for the container",
	  .first =
		  "more memory for the container, or a smaller --swap-space and --cpu-offload-gb" },
	{ HELPS, .kinds = HOSTS, .without = F_PINNED,
	  .engines = IN(TENSORFLOW) | IN(JAX) | IN(PADDLE) | IN(ONNX_RUNTIME) | IN(RAPIDS) |
		     IN(MLX) | IN(CAFFE) | IN(CTRANSLATE2) | IN(ULTRALYTICS) | IN(MEGATRON),
	  .text = "less at a time: a smaller batch or input, fewer workers, data read in parts",
	  .first = "a smaller batch or input, or fewer workers" },
	{ HELPS, .kinds = HOSTS, .engines = IN(JVM),
	  .text = "a smaller heap (-Xmx), so that Java asks the machine for less, or more memory",
	  .first = "a smaller -Xmx, or more memory", .fix = "-Xmx4g" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(UNKNOWN), .facts = F_PYTHON,
	  .text = "if it trains: fewer DataLoader workers (num_workers), and the data set in "
		  "arrays or memory-mapped files; if it runs a model: a smaller one, or smaller "
		  "inputs",
	  .first = "less in host memory: fewer DataLoader workers, a smaller model or inputs" },
	{ HELPS, .kinds = KIND(HOST_KILL) | KIND(KILLED) | KIND(HOST),
	  .text = "more host memory, or less needed of it: smaller inputs, fewer workers or "
		  "processes at a time, "
		  "more swap",
	  .first = "more host memory, or less needed of it (smaller inputs, fewer workers)" },
	{ HELPS, .kinds = KIND(SHARED),
	  .text = "a larger /dev/shm: docker --shm-size=16g or --ipc=host; Kubernetes: an emptyDir "
		  "with medium: Memory at /dev/shm",
	  .first = "a larger /dev/shm", .fix = "docker run --shm-size=16g" },
	{ HELPS, .kinds = KIND(SHARED), .engines = TORCH | IN(UNKNOWN),
	  .text = "fewer workers or a smaller prefetch_factor: each batch under way lies in "
		  "/dev/shm; num_workers=0 needs none",
	  .first = "fewer DataLoader workers", .fix = "num_workers=0" },
	{ HELPS, .kinds = KIND(SHARED),
	  .text = "remove what dead jobs left behind: ls -l /dev/shm (torch_*, nccl-*, psm_*)",
	  .fix = "ls -l /dev/shm" },

	/* -- what people try, and does not help -- */
	{ USELESS, .kinds = GPU, .bounds = BY(OTHER_PROCESS) | BY(NON_PYTORCH), .engines = CACHED,
	  .text = "allocator settings and empty_cache(): the memory is in other hands" },
	{ USELESS, .kinds = GPU, .bounds = OWN_CARD, .engines = TORCH, .backends = CUDA_LIKE,
	  .causes = OF(CAPACITY) | OF(LEAK) | OF(FRAGMENTATION),
	  .text = "torch.cuda.empty_cache(): PyTorch gives back what is free in whole segments "
		  "before it fails" },
	{ USELESS, .kinds = GPU, .bounds = OWN_CARD, .only = OF(CAPACITY) | OF(LEAK),
	  .engines = TORCH, .backends = CUDA_LIKE, .causes = OF(CAPACITY) | OF(LEAK),
	  .text = "expandable_segments or max_split_size_mb: they join gaps, and there is not "
		  "enough in gaps" },
	{ USELESS, .kinds = GPU, .bounds = OWN_CARD, .causes = OF(LEAK), .engines = TORCH,
	  .doing = DOING(TRAINING),
	  .text = "a smaller batch, if it is a leak: it only dies later" },
	{ USELESS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FIRST_STEP) | AT(OPTIMIZER),
	  .engines = TORCH,
	  .text = "a smaller batch: the optimizer's state does not depend on it (the activations "
		  "are gone by then)" },
	{ USELESS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING), .engines = TORCH,
	  .text = "a smaller batch: no batch was there yet" },
	{ USELESS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(EVAL), .engines = TORCH,
	  .text = "gradient checkpointing: evaluation saves nothing for a backward pass, or should "
		  "not" },
	{ USELESS, .kinds = HOSTS | KIND(SHARED), .engines = TORCH | PICTURES,
	  .text = "torch.cuda.empty_cache() and PYTORCH_CUDA_ALLOC_CONF: they are about the GPU" },
	{ USELESS, .kinds = KIND(CGROUP_KILL),
	  .text = "that the machine has memory free: the limit is the group's" },
	{ USELESS, .kinds = KIND(SHARED),
	  .text = "more host memory: /dev/shm has a size of its own (df -h /dev/shm)" },
	{ USELESS, .kinds = KIND(BUDGET), .engines = IN(VLLM) | IN(SGLANG),
	  .text = "PYTORCH_CUDA_ALLOC_CONF: the server decides beforehand what it takes" },

	/* -- how to be certain -- */
	{ CERTAIN, .kinds = GPU, .bounds = OWN_CARD, .engines = TORCH, .backends = CUDA_LIKE,
	  .doing = DOING(TRAINING) | DOING(EVALUATION) | DOING(UNKNOWN) | DOING(LOADING),
	  .text = "plimsoll record -- python train.py, then plimsoll why LOG --snapshot FILE: the "
		  "recording tells who held the memory and what was still to come" },
	{ CERTAIN, .kinds = GPU, .bounds = OWN_CARD, .engines = TORCH, .backends = CUDA_LIKE,
	  .doing = RUNS,
	  .text = "plimsoll record -- python SCRIPT, then plimsoll why LOG --snapshot FILE: the "
		  "recording tells who held the memory" },
	{ CERTAIN, .kinds = GPU, .bounds = BY(UNKNOWN), .backends = ON(CUDA),
	  .text = "nvidia-smi at the moment of the failure tells who holds the rest of the card" },
	{ CERTAIN, .kinds = KIND(KILLED),
	  .text = "dmesg -T | grep -i -E 'killed process|oom', on the machine that ran it, tells "
		  "whether the kernel did it; pipe it into plimsoll why -" },
	{ CERTAIN, .kinds = KIND(KILLED),
	  .text = "sacct -j JOB -o State,MaxRSS,ReqMem,ExitCode, or kubectl describe pod, tells "
		  "whether a limit, preemption or a person did" },
	{ CERTAIN, .kinds = KIND(HOST_KILL) | KIND(CGROUP_KILL),
	  .text = "watch it grow: ps -eo pid,rss,comm --sort=-rss | head, every few seconds; "
		  "steady growth is a leak, one jump is a load" },
	{ CERTAIN, .kinds = KIND(SHARED), .text = "df -h /dev/shm while it runs" },
	{ CERTAIN, .kinds = KIND(HOST), .facts = F_WINDOWS,
	  .text = "Task Manager, Performance, Memory: Committed shows how much is promised, and "
		  "its limit" },
	{ CERTAIN, .kinds = KIND(HOST), .without = F_WINDOWS,
	  .text = "free -h, ulimit -v and cat /proc/sys/vm/overcommit_memory (2 refuses early)" },
};
#undef HELPS
#undef USELESS
#undef CERTAIN

int findings_is_pytorch(const struct messages_context *c)
{
	return (CACHED | IN(UNKNOWN)) >> c->engine & 1;
}

static int known(struct messages_bytes b)
{
	return b.low != PLIM_UNKNOWN;
}

/* Would what others hold have served the request?  Where it would not, they are not the first to look at. */
static int would_serve(const struct messages_event *e, const struct findings_told *t)
{
	const struct messages_oom *o = &e->oom;

	return !known(o->tried) || !known(o->free) ||
	       t->outside.high + o->free.high >= o->tried.low;
}

/* What the numbers tell, and what they let a row say. */
static unsigned facts_of_numbers(const struct messages_event *e, const struct findings_told *t)
{
	const struct messages_oom *o = &e->oom;
	const char *words = e->wording->pattern;
	unsigned facts = 0;

	if (known(o->free) && known(o->total) && e->wording->class == MESSAGES_BUDGET)
		facts |= F_SHARE;
	if (e->tokens_fit != PLIM_UNKNOWN && e->tokens_fit)
		facts |= F_TOKENS;
	if (o->processes >= 2 && known(o->others) && known(o->tried) &&
	    o->others.low >= o->tried.high)
		facts |= F_SIBLINGS;
	if (!strncmp(words, "OOM when allocating", 19) ||
	    strcasestr(words, "ran out of memory trying"))
		facts |= F_POOL;
	if (!known(o->tried) && e->wording->family == MESSAGES_CUDA)
		facts |= strstr(words, "CUBLAS_STATUS_ALLOC") ? F_BARE | F_HANDLE : F_BARE;
	if (known(o->tried) && o->tried.low >= BIG_BYTES)
		facts |= F_BIG;
	if (known(o->tried) &&
	    (o->tried.low >= HUGE_BYTES || (known(o->total) && o->tried.low > o->total.high)))
		facts |= F_HUGE;
	if (e->wording->says && strstr(e->wording->says, "pin host"))
		facts |= F_PINNED;
	if (known(e->limit) && e->limit.high)
		facts |= F_LIMIT;
	if (t->elsewhere)
		facts |= F_OUTSIDE;
	return facts;
}

static unsigned facts_of(const struct messages_event *e, const struct findings_told *t)
{
	unsigned facts = t->free_enough ? F_FREE : 0;

	if (known(t->outside) && t->bound_by == FINDINGS_BOUND_UNKNOWN && would_serve(e, t))
		facts |= F_OUTSIDE;
	facts |= facts_of_numbers(e, t);
	if (!strncmp(e->process, "python", 6) || e->wording->family == MESSAGES_PYTHON ||
	    e->wording->family == MESSAGES_DATALOADER)
		facts |= F_PYTHON;
	if (e->oom.tried.low != PLIM_UNKNOWN && e->oom.tried.low >= LARGE_BYTES)
		facts |= F_LARGE;
	if (strstr(e->text, "1455") || strstr(e->text, "paging file") ||
	    strstr(e->text, "WinError") || strstr(e->text, "\\c10\\") ||
	    strstr(e->traceback.user.file, ":\\"))
		facts |= F_WINDOWS;
	return facts;
}

static int fits(uint64_t mask, unsigned value)
{
	return !mask || (mask >> value & 1);
}

static int applies(const struct row *r, const struct messages_event *e,
		   const struct findings_told *t, const struct messages_context *c)
{
	unsigned possible = 0;

	for (size_t i = 0; i < t->ranked_count; i++)
		possible |= 1u << t->ranked[i];
	return fits(r->kinds, e->wording->class) && fits(r->bounds, t->bound_by) &&
	       fits(r->moments, e->traceback.moment) && fits(r->engines, c->engine) &&
	       fits(r->doing, c->activity) && fits(r->backends, c->backend) &&
	       (r->facts & facts_of(e, t)) == r->facts && !(r->without & facts_of(e, t)) &&
	       (!r->causes || r->causes & possible) && (!r->only || !(possible & ~r->only));
}

static int is_later(const struct row *r, const struct findings_told *t)
{
	return r->causes && t->ranked_count && !(r->causes & 1u << t->ranked[0]);
}

/* ---- what a row says of this failure ---- */

#define MORE_NUM 3 /* of a limit that did not do: half as much again, in whole GiB */
#define MORE_DEN 2

static void value_of(const char *name, const struct messages_event *e, char *out, size_t size)
{
	if (!strncmp(name, "share}", 6)) {
		double share = (double)e->oom.free.low / (double)e->oom.total.high;

		snprintf(out, size, "%.2f", share > 0.005 ? (double)(int)(share * 100) / 100 : 0.0);
	} else if (!strncmp(name, "tokens}", 7)) {
		snprintf(out, size, "%llu", (unsigned long long)e->tokens_fit);
	} else {
		snprintf(out, size, "%lluG",
			 (unsigned long long)((e->limit.high / MORE_DEN * MORE_NUM >> 30) + 1));
	}
}

/* The text with its {names} replaced; of at most `n` bytes of it. */
static const char *filled(const char *text, size_t n, const struct messages_event *e, char *out,
			  size_t size)
{
	size_t to = 0;

	for (size_t i = 0; i < n && to + 32 < size;) {
		size_t skip = text[i] == '{' ? strcspn(text + i, "} ") : 0;

		if (skip && text[i + skip] == '}') {
			value_of(text + i + 1, e, out + to, size - to);
			to += strlen(out + to);
			i += skip + 1;
		} else {
			out[to++] = text[i++];
		}
	}
	out[to] = 0;
	return out;
}

/* Up to the first colon, semicolon or bracket. */
static size_t brief(const char *text)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		if ((strchr(":;", text[i]) && text[i + 1] == ' ') ||
		    (text[i] == ' ' && text[i + 1] == '('))
			return i;
	return n;
}

static void advise(const struct row *r, const struct messages_event *e,
		   struct findings_advised *out)
{
	char text[512];

	lines_add(&out->lists[r->list], "%s",
		  filled(r->text, strlen(r->text), e, text, sizeof(text)));
	if (r->list != FINDINGS_HELPS)
		return;
	if (!*out->first)
		filled(r->first ? r->first : r->text, r->first ? strlen(r->first) : brief(r->text),
		       e, out->first, sizeof(out->first));
	if (r->fix)
		lines_add(&out->fixes, "%s", filled(r->fix, strlen(r->fix), e, text, sizeof(text)));
}

void findings_advise(const struct messages_event *e, const struct findings_told *t,
		     const struct messages_context *c, struct findings_advised *out)
{
	const char *own = e->wording->advice;

	*out->first = 0;
	if (own) {
		lines_add(&out->lists[FINDINGS_HELPS], "%s", own);
		filled(own, brief(own), e, out->first, sizeof(out->first));
	}
	/* those that are about the likeliest cause come before those that are about the others */
	for (int later = 0; later < 2; later++)
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			if (applies(&rows[i], e, t, c) && is_later(&rows[i], t) == later)
				advise(&rows[i], e, out);
}
