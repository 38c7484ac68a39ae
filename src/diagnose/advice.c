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

#include <string.h>

#define KIND(k) (1u << MESSAGES_##k)
#define AT(m) (1u << MESSAGES_##m)
#define BY(b) (1u << FINDINGS_BOUND_##b)
#define OF(c) (1u << FINDINGS_CAUSE_##c)
#define IN(e) (1u << MESSAGES_ENGINE_##e)
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

/* What is known beside the context. */
enum { F_OUTSIDE = 1, F_FREE = 2, F_WINDOWS = 4, F_LARGE = 8, F_PYTHON = 16 };

#define LARGE_BYTES ((uint64_t)16 << 30) /* of one array in host memory: seldom meant */

static const struct row {
	enum findings_advice list;
	unsigned kinds, bounds, moments, causes,
		only;                             /* 0: any; `only`: no other cause is possible */
	unsigned engines, doing, backends, facts; /* 0: any; facts: all of them ... */
	unsigned without;                         /* ... and none of these */
	const char *text;
} rows[] = {
#define HELPS .list = FINDINGS_HELPS
#define USELESS .list = FINDINGS_USELESS
#define CERTAIN .list = FINDINGS_CERTAINTY
	/* -- whose memory it is comes before how much is needed -- */
	{ HELPS, .kinds = GPU | KIND(BUDGET), .bounds = BY(OTHER_PROCESS), .backends = ON(CUDA),
	  .text = "see who holds the card (nvidia-smi, fuser -v /dev/nvidia*) and end what is left "
		  "over, or "
		  "take another card: CUDA_VISIBLE_DEVICES" },
	{ HELPS, .kinds = GPU, .bounds = BY(UNKNOWN) | BY(DEVICE), .backends = ON(CUDA),
	  .facts = F_OUTSIDE,
	  .text = "see who else holds the card (nvidia-smi): a large part of it is neither free "
		  "nor this "
		  "program's; end what is left over" },
	{ HELPS, .kinds = GPU | KIND(BUDGET), .bounds = BY(OTHER_PROCESS) | BY(UNKNOWN),
	  .backends = ON(ROCM),
	  .text = "see who holds the card (rocm-smi --showpids) and end what is left over" },
	{ HELPS, .kinds = GPU, .bounds = BY(NON_PYTORCH), .engines = TORCH,
	  .text = "look for what in this process takes memory past PyTorch: another framework, a "
		  "CUDA "
		  "extension, NCCL's buffers, CuPy or RAPIDS pools" },
	{ HELPS, .kinds = GPU, .bounds = BY(LIMIT), .engines = TORCH | PICTURES,
	  .backends = CUDA_LIKE,
	  .text = "raise the process's own limit (set_per_process_memory_fraction, or "
		  "per_process_memory_fraction), if the card may be used further" },
	{ HELPS, .kinds = GPU, .facts = F_FREE, .engines = TORCH, .backends = CUDA_LIKE,
	  .text = "look for a limit of this process first (set_per_process_memory_fraction, "
		  "per_process_memory_fraction in PYTORCH_CUDA_ALLOC_CONF, MIG, a container's "
		  "share): the card was "
		  "not full" },

	/* -- servers: vllm/config, sglang/srt/server_args.py, TGI's launcher, TensorRT-LLM's LlmArgs -- */
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD | BY(NON_PYTORCH) | BY(OTHER_PROCESS),
	  .engines = IN(VLLM),
	  .text = "a lower --gpu-memory-utilization (0.85): vLLM fills its share with KV cache, "
		  "and what runs "
		  "beside it needs room" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD | BY(NON_PYTORCH) | BY(OTHER_PROCESS),
	  .engines = IN(VLLM),
	  .text = "smaller passes: --max-num-seqs 64, --max-num-batched-tokens 4096; "
		  "--enforce-eager keeps no CUDA "
		  "graphs" },
	{ HELPS, .kinds = GPU, .engines = IN(VLLM), .moments = AT(LOADING),
	  .text = "weights that fit: a quantised checkpoint (AWQ, GPTQ, FP8), or more cards "
		  "(--tensor-parallel-size)" },
	{ HELPS, .kinds = GPU, .engines = IN(SGLANG),
	  .text = "a lower --mem-fraction-static (0.8), --chunked-prefill-size 2048, fewer "
		  "--max-running-requests" },
	{ HELPS, .kinds = GPU, .engines = IN(TGI),
	  .text = "lower --max-batch-prefill-tokens and --max-total-tokens, or "
		  "--cuda-memory-fraction 0.9" },
	{ HELPS, .kinds = GPU | KIND(BUDGET), .engines = IN(TENSORRT_LLM),
	  .text = "a lower kv_cache_config.free_gpu_memory_fraction, max_batch_size and "
		  "max_num_tokens" },
	{ HELPS, .kinds = GPU, .engines = IN(TRITON_SERVER),
	  .text = "fewer instances a model (instance_group count), a smaller max_batch_size; "
		  "models that are not "
		  "used unloaded (--model-control-mode=explicit)" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(VLLM),
	  .text = "less to hold: a shorter context (--max-model-len), fewer sequences "
		  "(--max-num-seqs), "
		  "--kv-cache-dtype fp8, quantised weights, or more cards "
		  "(--tensor-parallel-size)" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(VLLM),
	  .text = "a larger share of the card (--gpu-memory-utilization 0.95), if nobody else "
		  "needs it" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(OTHER_PROCESS), .engines = IN(VLLM),
	  .text = "a --gpu-memory-utilization that what is free allows" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(SGLANG),
	  .text = "a shorter --context-length, fewer --max-running-requests, --kv-cache-dtype "
		  "fp8_e5m2, or more "
		  "cards (--tp)" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(SGLANG),
	  .text = "a larger --mem-fraction-static, if nobody else needs the card" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT),
	  .engines = IN(UNKNOWN) | IN(TGI) | TORCH,
	  .text = "less to hold: a shorter context, fewer sequences at a time, an 8-bit KV cache, "
		  "quantised weights, "
		  "or more cards; or a larger share of the card for the server" },

	/* -- llama.cpp: common/arg.cpp; Ollama: envconfig -- */
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP),
	  .text = "fewer layers on the GPU (-ngl N); of a mixture of experts, the experts on the "
		  "CPU (--cpu-moe, "
		  "--n-cpu-moe N)" },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP),
	  .text = "a shorter context (-c 8192), a quantised KV cache (-ctk q8_0 -ctv q8_0, with "
		  "-fa on), a smaller "
		  "compute buffer (-ub 256)" },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP),
	  .text = "of several cards, another division (-ts 3,1): the one that is named was full" },
	{ HELPS, .kinds = GPU, .engines = IN(OLLAMA),
	  .text = "a shorter context (num_ctx, or OLLAMA_CONTEXT_LENGTH) or fewer layers on the "
		  "GPU (num_gpu); ollama "
		  "ps shows what is loaded, ollama stop MODEL unloads it" },
	{ HELPS, .kinds = GPU, .engines = IN(OLLAMA),
	  .text = "OLLAMA_NUM_PARALLEL=1 and OLLAMA_MAX_LOADED_MODELS=1; OLLAMA_KV_CACHE_TYPE=q8_0 "
		  "with "
		  "OLLAMA_FLASH_ATTENTION=1" },
	{ HELPS, .kinds = GPU | HOSTS, .engines = GGML,
	  .text = "a smaller model, or a smaller quantisation of it (Q4_K_M, IQ3_XS)" },
	{ HELPS, .kinds = GPU, .engines = GGML, .backends = ON(MPS),
	  .text = "let the GPU have more of the machine's memory: sudo sysctl "
		  "iogpu.wired_limit_mb=N" },
	{ HELPS, .kinds = HOSTS, .engines = IN(LLAMA_CPP),
	  .text = "a shorter context (-c); leave --mlock and --no-mmap off: mapped weights need "
		  "not be resident" },

	/* -- pictures: ComfyUI's cli_args.py, A1111's cmd_args.py, diffusers' guide to memory -- */
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI),
	  .text = "a smaller picture or batch; VAE Decode (Tiled) where decoding fails; start it "
		  "with --lowvram, "
		  "then --novram; --reserve-vram 1 leaves room for others" },
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI),
	  .text = "a smaller model file: fp8 or GGUF weights" },
	{ HELPS, .kinds = GPU, .engines = IN(A1111),
	  .text = "a smaller picture or batch; start it with --medvram, then --lowvram, and "
		  "--opt-sdp-attention or "
		  "--xformers" },
	{ HELPS, .kinds = GPU, .engines = IN(INVOKEAI),
	  .text = "a smaller picture; in invokeai.yaml enable_partial_loading: true and a smaller "
		  "max_cache_vram_gb" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS),
	  .doing = DOING(GENERATING) | DOING(LOADING) | DOING(UNKNOWN),
	  .text = "pipe.enable_model_cpu_offload() instead of pipe.to(\"cuda\"), "
		  "torch_dtype=torch.float16, "
		  "pipe.vae.enable_tiling(); a smaller picture or batch" },

	/* -- JAX, TensorFlow, Paddle, ONNX Runtime, TensorRT, MLX, CuPy -- */
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .backends = CUDA_LIKE,
	  .text = "see who else holds the card (nvidia-smi): JAX takes 75 % of it at the start; "
		  "XLA_PYTHON_CLIENT_PREALLOCATE=false or XLA_PYTHON_CLIENT_MEM_FRACTION=.50 where "
		  "it is shared" },
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .doing = DOING(TRAINING),
	  .text = "donated buffers (jax.jit(step, donate_argnums=0)), jax.checkpoint around the "
		  "blocks, a smaller "
		  "batch" },
	{ HELPS, .kinds = GPU, .engines = IN(JAX),
	  .text = "smaller arrays at a time (a smaller batch, jax.lax.map with batch_size), "
		  "bfloat16, or more "
		  "devices (jax.sharding)" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORFLOW), .backends = CUDA_LIKE,
	  .text = "where other programs use the card: "
		  "tf.config.experimental.set_memory_growth(gpu, True), before "
		  "anything runs; TensorFlow takes the whole card else" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORFLOW),
	  .text = "a smaller batch; keras.mixed_precision.set_global_policy(\"mixed_float16\")" },
	{ HELPS, .kinds = GPU, .engines = IN(PADDLE),
	  .text = "a smaller batch, or end what else runs on the card (nvidia-smi); "
		  "FLAGS_fraction_of_gpu_memory_to_use and FLAGS_allocator_strategy=auto_growth "
		  "decide what is taken" },
	{ HELPS, .kinds = GPU, .engines = IN(ONNX_RUNTIME),
	  .text = "of the provider's options: gpu_mem_limit, "
		  "arena_extend_strategy=kSameAsRequested, "
		  "cudnn_conv_use_max_workspace=0; a smaller batch" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORRT),
	  .text = "a smaller workspace (config.set_memory_pool_limit, trtexec "
		  "--memPoolSize=workspace:2048), smaller "
		  "shapes in the profile; nothing else on the card while it builds" },
	{ HELPS, .kinds = GPU, .engines = IN(MLX),
	  .text = "a smaller model or quantisation (mlx_lm.convert -q); sudo sysctl "
		  "iogpu.wired_limit_mb=N lets the "
		  "GPU have more of the machine's memory" },
	{ HELPS, .kinds = GPU, .engines = IN(CAFFE),
	  .text = "a smaller batch_size in the prototxt" },
	{ HELPS, .kinds = GPU, .engines = IN(RAPIDS),
	  .text = "give back what the pool keeps "
		  "(cupy.get_default_memory_pool().free_all_blocks()), work in parts "
		  "(dask_cudf), or spill to the host (cudf.set_option(\"spill\", True), rmm "
		  "managed memory)" },

	/* -- PyTorch: what to change where it died -- */
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FIRST_STEP) | AT(OPTIMIZER),
	  .engines = TORCH,
	  .text = "an optimizer with less state: 8-bit Adam, Adafactor, SGD, LoRA; sharded over "
		  "ranks: "
		  "ZeRO-1 or FSDP" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FIRST_STEP) | AT(OPTIMIZER),
	  .engines = TORCH,
	  .text = "fused=True in torch's own optimizers: it avoids the lists that foreach makes at "
		  "each "
		  "step" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING), .engines = TORCH,
	  .text = "load in the type it is to run in (dtype=torch.bfloat16), quantised, or over "
		  "several "
		  "cards or the host (device_map=\"auto\")" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING), .engines = TORCH,
	  .text = "load a checkpoint to the host (map_location=\"cpu\"), and drop the old model "
		  "before the "
		  "next is loaded" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(EVAL), .causes = OF(LEAK),
	  .engines = TORCH,
	  .text = "move what evaluation keeps to the host at once (.cpu(), "
		  "eval_accumulation_steps), and "
		  "keep predictions instead of logits (preprocess_logits_for_metrics)" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(EVAL), .engines = TORCH,
	  .text = "torch.inference_mode() around it, and a smaller evaluation batch "
		  "(per_device_eval_batch_size)" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(GENERATION), .engines = TORCH,
	  .text = "fewer sequences at a time or shorter ones: the KV cache grows with both; "
		  "quantise the "
		  "cache, or a server with paged attention" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(SAVING), .engines = TORCH,
	  .text = "gather the state on the host or save it sharded (full_state_dict with "
		  "cpu_offload, "
		  "torch.distributed.checkpoint)" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD,
	  .moments = AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), .causes = OF(CAPACITY),
	  .engines = TORCH, .doing = DOING(TRAINING),
	  .text = "a smaller micro-batch with gradient accumulation, and a bound on the longest "
		  "sequence "
		  "(sort or bucket by length)" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FORWARD) | AT(BACKWARD),
	  .causes = OF(CAPACITY), .engines = TORCH, .doing = DOING(TRAINING),
	  .text = "gradient checkpointing; a fused loss that never holds all logits, where they "
		  "are what "
		  "was asked for" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FORWARD) | AT(MOMENT_UNKNOWN),
	  .causes = OF(CAPACITY), .engines = TORCH,
	  .doing = DOING(GENERATING) | DOING(SERVING) | DOING(EVALUATION),
	  .text = "fewer or smaller inputs at a time, torch.inference_mode() around the model, "
		  "weights in 16 bits or "
		  "quantised" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FORWARD) | AT(MOMENT_UNKNOWN),
	  .causes = OF(CAPACITY), .engines = TORCH, .doing = DOING(UNKNOWN),
	  .text = "a smaller batch or input; where nothing is trained, torch.inference_mode() "
		  "around the model and "
		  "weights in 16 bits" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .causes = OF(LEAK), .engines = TORCH,
	  .doing = DOING(TRAINING) | DOING(EVALUATION) | DOING(UNKNOWN),
	  .moments =
		  AT(FORWARD) | AT(BACKWARD) | AT(FIRST_STEP) | AT(OPTIMIZER) | AT(MOMENT_UNKNOWN),
	  .text = "if memory climbs from step to step: keep no GPU tensors over a step (x.item() "
		  "or "
		  "x.detach().cpu() instead of x)" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .causes = OF(FRAGMENTATION), .engines = CACHED,
	  .backends = CUDA_LIKE,
	  .text = "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which is cheap: it helps "
		  "if gaps "
		  "are the cause, and only then" },
	{ HELPS, .kinds = GPU, .engines = TORCH | PICTURES, .backends = ON(MPS),
	  .text = "a smaller batch or picture, 16 bits, fewer other programs: the GPU shares the "
		  "machine's memory; "
		  "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts the limit and may stall the "
		  "machine" },
	{ HELPS, .kinds = GPU, .engines = TORCH | IN(UNKNOWN) | IN(JAX), .backends = ON(TPU),
	  .text = "a smaller batch a core, bfloat16, or the model sharded over more cores" },
	{ HELPS, .kinds = GPU, .engines = IN(UNKNOWN), .backends = CUDA_LIKE,
	  .text = "see who holds the card (nvidia-smi): the text tells neither the program nor how "
		  "much it had" },
	{ HELPS, .kinds = GPU, .engines = IN(UNKNOWN),
	  .text = "less at a time: a smaller batch or input, a smaller or quantised model, or a "
		  "card with more "
		  "memory" },

	/* -- host memory -- */
	{ HELPS, .kinds = KIND(CGROUP_KILL),
	  .text = "ask for more memory: Slurm --mem or --mem-per-cpu, Kubernetes "
		  "resources.limits.memory, "
		  "docker --memory; /dev/shm and tmpfs count into it" },
	{ HELPS, .kinds = KIND(HOST), .facts = F_LARGE,
	  .text = "one array of that size is seldom meant: check its shape and dtype, or work in "
		  "parts (chunks, "
		  "np.memmap, a generator)" },
	{ HELPS, .kinds = HOSTS, .facts = F_WINDOWS,
	  .text = "a larger page file (System, Advanced, Performance, Virtual memory: system "
		  "managed): Windows "
		  "promises no more than memory and page file together" },
	{ HELPS, .kinds = HOSTS, .moments = AT(LOADING),
	  .engines = TORCH | IN(UNKNOWN) | IN(VLLM) | PICTURES,
	  .text = "do not hold the checkpoint twice: safetensors, low_cpu_mem_usage=True, "
		  "mmap=True; let "
		  "one rank load and broadcast" },
	{ HELPS, .kinds = HOSTS, .moments = AT(LOADING),
	  .engines = TORCH | IN(UNKNOWN) | IN(VLLM) | PICTURES,
	  .text = "a smaller model, or one in 16 bits or quantised: its weights pass through host "
		  "memory" },
	{ HELPS, .kinds = KILLS, .moments = AT(SAVING), .engines = TORCH | IN(UNKNOWN),
	  .text = "save sharded, or one rank at a time: gathering the whole state costs host "
		  "memory" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(TRAINING) | DOING(EVALUATION), .engines = TORCH,
	  .text = "fewer DataLoader workers (num_workers), a smaller prefetch_factor: each worker "
		  "may end "
		  "with its own copy of the data set" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(TRAINING) | DOING(EVALUATION),
	  .engines = TORCH | IN(TENSORFLOW) | IN(JAX),
	  .text = "keep the data set in arrays or memory-mapped files (numpy, Arrow), not in "
		  "Python lists "
		  "of objects: reference counts copy shared pages" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(TRAINING), .engines = IN(DEEPSPEED),
	  .text = "offload less to the host (offload_optimizer, offload_param in the ZeRO "
		  "section), or pin_memory: "
		  "false: optimizer states there are 12 bytes a parameter" },
	{ HELPS, .kinds = HOSTS, .doing = RUNS,
	  .engines = TORCH | PICTURES | IN(VLLM) | IN(SGLANG) | IN(UNKNOWN),
	  .text = "a smaller model or input, or less kept on the host (swap space, offloaded "
		  "weights, caches)" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(UNKNOWN), .facts = F_PYTHON,
	  .text = "if it trains: fewer DataLoader workers (num_workers), and the data set in "
		  "arrays or memory-mapped "
		  "files; if it runs a model: a smaller one, or smaller inputs" },
	{ HELPS, .kinds = KIND(HOST_KILL) | KIND(KILLED) | KIND(HOST),
	  .text = "fewer processes on the machine at a time, or one with more memory" },
	{ HELPS, .kinds = KIND(SHARED),
	  .text = "a larger /dev/shm: docker --shm-size=16g or --ipc=host; Kubernetes: an emptyDir "
		  "with "
		  "medium: Memory at /dev/shm" },
	{ HELPS, .kinds = KIND(SHARED), .engines = TORCH | IN(UNKNOWN),
	  .text = "fewer workers or a smaller prefetch_factor: each batch under way lies in "
		  "/dev/shm; "
		  "num_workers=0 needs none" },
	{ HELPS, .kinds = KIND(SHARED),
	  .text = "remove what dead jobs left behind: ls -l /dev/shm (torch_*, nccl-*, psm_*)" },

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
		  "enough in "
		  "gaps" },
	{ USELESS, .kinds = GPU, .bounds = OWN_CARD, .causes = OF(LEAK), .engines = TORCH,
	  .doing = DOING(TRAINING),
	  .text = "a smaller batch, if it is a leak: it only dies later" },
	{ USELESS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FIRST_STEP) | AT(OPTIMIZER),
	  .engines = TORCH,
	  .text = "a smaller batch: the optimizer's state does not depend on it (the activations "
		  "are gone "
		  "by then)" },
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
		  "recording tells who "
		  "held the memory" },
	{ CERTAIN, .kinds = GPU, .bounds = BY(UNKNOWN), .backends = ON(CUDA),
	  .text = "nvidia-smi at the moment of the failure tells who holds the rest of the card" },
	{ CERTAIN, .kinds = KIND(KILLED),
	  .text = "dmesg -T | grep -i -E 'killed process|oom', on the machine that ran it, tells "
		  "whether "
		  "the kernel did it; pipe it into plimsoll why -" },
	{ CERTAIN, .kinds = KIND(KILLED),
	  .text = "sacct -j JOB -o State,MaxRSS,ReqMem,ExitCode, or kubectl describe pod, tells "
		  "whether a "
		  "limit, preemption or a person did" },
	{ CERTAIN, .kinds = KIND(HOST_KILL) | KIND(CGROUP_KILL),
	  .text = "watch it grow: ps -eo pid,rss,comm --sort=-rss | head, every few seconds; "
		  "steady growth "
		  "is a leak, one jump is a load" },
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

static unsigned facts_of(const struct messages_event *e, const struct findings_told *t)
{
	unsigned facts = t->free_enough ? F_FREE : 0;

	if (t->outside.low != PLIM_UNKNOWN && t->bound_by == FINDINGS_BOUND_UNKNOWN)
		facts |= F_OUTSIDE;
	if (!strncmp(e->process, "python", 6) || e->wording->family == MESSAGES_PYTHON ||
	    e->wording->family == MESSAGES_DATALOADER)
		facts |= F_PYTHON;
	if (e->oom.tried.low != PLIM_UNKNOWN && e->oom.tried.low >= LARGE_BYTES)
		facts |= F_LARGE;
	if (strstr(e->text, "1455") || strstr(e->text, "paging file") ||
	    strstr(e->text, "WinError"))
		facts |= F_WINDOWS;
	return facts;
}

static int fits(unsigned mask, unsigned value)
{
	return !mask || mask & 1u << value;
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

void findings_advise(const struct messages_event *e, const struct findings_told *t,
		     const struct messages_context *c, struct lines lists[FINDINGS_LISTS])
{
	if (e->wording->advice)
		lines_add(&lists[FINDINGS_HELPS], "%s", e->wording->advice);
	/* those that are about the likeliest cause come before those that are about the others */
	for (int later = 0; later < 2; later++)
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			if (applies(&rows[i], e, t, c) && is_later(&rows[i], t) == later)
				lines_add(&lists[rows[i].list], "%s", rows[i].text);
}
