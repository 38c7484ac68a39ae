/*
 * What helps, what does not, and how to be certain, of a failure that only its text tells: a row each, with the kinds of
 * failure, bounds, moments and causes that it is for, and the engines, activities and drivers.  A row that names engines
 * cannot appear for another one, and none that names training for what is not known to train.  Within a list rows stand in
 * the order of cost, the cheapest first.
 *
 * Spellings of flags are those of the engines' documentation of November 2026: vLLM 0.11, SGLang 0.5, llama.cpp b6900,
 * Ollama 0.12, ComfyUI 0.3, JAX 0.8, TensorFlow 2.20, Transformers 5.17, PyTorch 2.11.
 */
#include "advice.h"

const struct advice_row advice_rows[] = {
#define HELPS .list = FINDINGS_HELPS
#define USELESS .list = FINDINGS_USELESS
#define CERTAIN .list = FINDINGS_CERTAINTY
	/* -- whose memory it is comes before how much is needed -- */
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(OTHER_PROCESS), .engines = IN(VLLM),
	  .facts = F_SHARE,
	  .text = "a share that what is free allows: --gpu-memory-utilization {share}",
	  .first = "end what else holds the GPU, or --gpu-memory-utilization {share}",
	  .fix = "--gpu-memory-utilization {share}" },
	{ HELPS, .kinds = GPU, .bounds = BY(OTHER_PROCESS) | BY(UNKNOWN), .facts = F_RANKS,
	  .engines = TORCH | IN(UNKNOWN),
	  .text = "the other processes on this GPU may be ranks of this job: give each rank its "
		  "own "
		  "GPU (torch.cuda.set_device(local_rank) before anything else); nvidia-smi shows "
		  "whose "
		  "they are",
	  .first = "give each rank its own GPU",
	  .fix = "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))" },
	{ HELPS, .kinds = GPU, .bounds = BY(OTHER_PROCESS) | BY(UNKNOWN), .facts = F_RANKS,
	  .engines = ~(TORCH | IN(UNKNOWN)),
	  .text = "the other processes on this GPU may be ranks of this job: give each rank its "
		  "own GPU; "
		  "nvidia-smi shows whose they are",
	  .first = "give each rank its own GPU" },
	{ HELPS, .kinds = GPU | KIND(BUDGET), .bounds = BY(OTHER_PROCESS), .backends = ON(CUDA),
	  .without = F_RANKS,
	  .text = "see who holds the card (nvidia-smi, fuser -v /dev/nvidia*) and end what is left "
		  "over, or take another card: CUDA_VISIBLE_DEVICES",
	  .first = "end the other program on the GPU (nvidia-smi), or take another GPU",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU, .bounds = BY(OTHER_PROCESS) | BY(NON_PYTORCH), .engines = TORCH,
	  .last = 1,
	  .text = "where that has to stay: less of this program's own (a smaller batch or input, "
		  "16 bits, a smaller or quantised model)",
	  .first = "a smaller batch or input, 16 bits, a smaller or quantised model" },
	{ HELPS, .kinds = GPU, .bounds = BY(OTHER_PROCESS) | BY(NON_PYTORCH), .engines = CACHED,
	  .facts = F_AMONG, .without = F_FIXED, .backends = CUDA_LIKE, .unless = SET(EXPANDABLE),
	  .last = 1,
	  .text = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which may join what PyTorch "
		  "keeps in pieces: that is more than was asked for",
	  .first = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
	  .fix = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" },
	{ HELPS, .kinds = GPU, .facts = F_OUTSIDE, .engines = TORCH, .tasks = TASK(TF_BESIDE),
	  .text = "keep TensorFlow off the card: tf.config.set_visible_devices([], \"GPU\") before "
		  "it is used; in this process it has taken nearly all of it at its start",
	  .first = "keep TensorFlow off the GPU: tf.config.set_visible_devices([], \"GPU\")",
	  .fix = "tf.config.set_visible_devices([], \"GPU\")" },
	{ HELPS, .kinds = GPU, .bounds = BY(UNKNOWN) | BY(DEVICE), .backends = ON(CUDA),
	  .facts = F_OUTSIDE | F_ELSEWHERE, .without = F_RANKS,
	  .text = "see who else holds the card (nvidia-smi): a large part of it is neither free "
		  "nor this program's; end what is left over",
	  .first = "see who else holds the GPU (nvidia-smi), and end it",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU | KIND(BUDGET), .bounds = BY(OTHER_PROCESS) | BY(UNKNOWN),
	  .backends = ON(ROCM), .facts = F_HELD,
	  .text = "see who holds the card (rocm-smi --showpids) and end what is left over",
	  .first = "see who holds the GPU (rocm-smi --showpids), and end it",
	  .fix = "rocm-smi --showpids" },
	{ HELPS, .kinds = GPU | KIND(BUDGET), .bounds = BY(OTHER_PROCESS), .backends = ON(NPU),
	  .text = "see who holds the device (npu-smi info) and end what is left over",
	  .first = "see who holds the device (npu-smi info), and end it", .fix = "npu-smi info" },
	{ HELPS, .kinds = GPU, .bounds = BY(UNKNOWN) | BY(DEVICE), .backends = ON(NPU),
	  .facts = F_OUTSIDE | F_ELSEWHERE,
	  .text = "see who else holds the device (npu-smi info): a large part of it is neither "
		  "free nor this program's; end what is left over",
	  .first = "see who else holds the device (npu-smi info), and end it",
	  .fix = "npu-smi info" },
	{ HELPS, .kinds = GPU, .bounds = BY(NON_PYTORCH), .engines = TORCH,
	  .text = "look for what in this process takes memory past PyTorch: another framework, a "
		  "CUDA extension, NCCL's buffers, CuPy or RAPIDS pools",
	  .first = "find what else in this process takes the GPU's memory" },
	{ HELPS, .kinds = GPU, .bounds = BY(LIMIT), .engines = TORCH | PICTURES, .last = 1,
	  .backends = CUDA_LIKE,
	  .text = "raise the process's own limit (set_per_process_memory_fraction, or "
		  "per_process_memory_fraction), if the card may be used further",
	  .first = "raise this process's own limit",
	  .fix = "torch.cuda.set_per_process_memory_fraction(1.0)" },
	{ HELPS, .kinds = GPU, .facts = F_HUGE, .engines = CACHED | GGML_TEXT | IN(UNKNOWN),
	  .backends = ON(ROCM), .tasks = TASK(SHARED_RAM),
	  .text = "let the program see all of the memory that is set apart for the GPU: a newer "
		  "ROCm, a larger amdgpu ttm.pages_limit or UMA frame buffer; what it sees is less "
		  "than was asked for at once",
	  .first = "let it see all of the GPU's memory: a newer ROCm, UMA frame buffer" },
	{ HELPS, .kinds = GPU, .facts = F_SMALL, .engines = CACHED | GGML_TEXT,
	  .backends = ON(ROCM),
	  .text = "more memory for the graphics in the BIOS (UMA frame buffer size): it is part of "
		  "the processor and takes the machine's memory, of which so little was set apart",
	  .first = "more memory for the graphics in the BIOS (UMA frame buffer size)" },
	{ HELPS, .kinds = GPU, .facts = F_FREE, .engines = PICTURES, .backends = ON(ROCM),
	  .text = "another release of the driver and of PyTorch for ROCm (a stable one in place of "
		  "a nightly build): the card was not full, and the driver refused so little",
	  .first = "another release of the driver and of PyTorch for ROCm" },
	{ HELPS, .kinds = GPU, .facts = F_FREE | F_WINDOWS, .engines = TORCH | PICTURES,
	  .backends = CUDA_LIKE,
	  .text = "a larger page file, and fewer other programs: the card was not full, and "
		  "Windows "
		  "refuses the card's memory too when it can promise no more of its own",
	  .first = "a larger page file (the GPU was not full), and start it anew" },
	{ HELPS, .kinds = GPU, .facts = F_FREE, .engines = PICTURES, .backends = ON(CUDA),
	  .without = F_WINDOWS,
	  .text = "start it anew, and look for who else used the card at that moment (nvidia-smi): "
		  "it was not full; under Windows a larger page file, without which it is refused "
		  "too",
	  .first = "start it anew: the GPU was not full" },
	{ HELPS, .kinds = GPU, .facts = F_FREE, .engines = TORCH | PICTURES, .backends = ON(XPU),
	  .text = "smaller tensors (a smaller batch, picture or context, attention in slices): "
		  "Intel's "
		  "driver gives no single block as large as what is free, and Windows and WSL less "
		  "still; UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1 allows more than 4 GiB at once",
	  .first = "smaller tensors: the driver gives no single block of that size",
	  .fix = "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1" },
	{ HELPS, .kinds = GPU, .facts = F_FREE, .engines = TORCH, .backends = CUDA_LIKE,
	  .without = F_WINDOWS,
	  .text = "look for a limit of this process first (set_per_process_memory_fraction, "
		  "per_process_memory_fraction in PYTORCH_CUDA_ALLOC_CONF, MIG, a container's "
		  "share): the card was not full; under Windows or WSL a larger page file or more "
		  "memory for WSL, and a newer driver",
	  .first = "look for a limit of this process: memory fraction, MIG, page file" },

	{ HELPS, .kinds = GPU, .facts = F_FREE, .engines = TORCH, .backends = ON(ROCM),
	  .text = "another release of the driver and of PyTorch for ROCm, where no limit is set: "
		  "the driver refused what it had",
	  .first = "another release of the driver and of PyTorch for ROCm" },
	{ HELPS, .kinds = GPU, .backends = ON(MPS), .facts = F_BESIDE,
	  .engines = CACHED | IN(UNKNOWN),
	  .text = "start the program anew, and hold fewer models at a time: most of what the GPU "
		  "may "
		  "use is Metal's beside PyTorch's tensors (compiled graphs, other libraries), "
		  "which "
		  "grows as it runs; torch.mps.empty_cache() between runs",
	  .first = "start the program anew, and hold fewer models at a time",
	  .fix = "torch.mps.empty_cache()" },
	{ HELPS, .kinds = GPU, .facts = F_ABSURD, .engines = IN(JAX) | IN(TENSORFLOW),
	  .text = "find what computes the size: no machine has so much, so it is an overflow, a "
		  "value that is not finite, or a shape that is not meant",
	  .first = "find what computes the size: an overflow, or an unmeant shape" },
	{ HELPS, .kinds = GPU, .facts = F_ABSURD, .engines = TORCH | PICTURES,
	  .text = "find what computes the size: no machine has so much, so it is an overflow, a "
		  "value "
		  "that is not finite, or a CUDA extension built for another toolkit than "
		  "PyTorch's "
		  "(nvcc --version, torch.version.cuda): build it anew",
	  .first = "find what computes the size: an overflow, another CUDA's extension" },
	{ HELPS, .kinds = GPU, .facts = F_HUGE, .without = F_ABSURD, .engines = TORCH | PICTURES,
	  .backends = ON(ROCM),
	  .text = "if the GPU is a part of the processor, and the machine set more apart for it "
		  "than "
		  "PyTorch sees: a newer ROCm, a larger amdgpu ttm.pages_limit or UMA frame buffer",
	  .first = "let it see all of the GPU's memory: a newer ROCm, UMA frame buffer",
	  .last = 1 },
	{ HELPS, .kinds = KIND(HOST), .facts = F_ABSURD, .tasks = TASK(ARRAYS),
	  .text = "find what computes the shape: no machine has so much, so it is an overflow, an "
		  "outer product or a broadcast that is not meant (a column beside a row), or a "
		  "value that is not set",
	  .first = "find what computes the shape: an unmeant broadcast, an overflow" },
	{ HELPS, .kinds = KIND(HOST), .facts = F_ABSURD, .not_tasks = TASK(ARRAYS),
	  .text = "find what computes the size: no machine has so much, so it is an overflow, a "
		  "value that is not set, or libraries of different releases in one program",
	  .first = "find what computes the size: an overflow, or mixed releases" },
	{ HELPS, .kinds = GPU, .facts = F_HUGE, .without = F_ABSURD,
	  .engines = TORCH | IN(TENSORFLOW), /* XLA asks for all at once */
	  .text = "one array of that size is seldom meant: look at the shape of the input (an "
		  "image "
		  "that was not resized, a sequence that was not cut, a dimension too many)",
	  .first = "look at the size of the input: so much at once is seldom meant" },
	{ HELPS, .kinds = GPU, .facts = F_HUGE, .without = F_ABSURD, .engines = TORCH,
	  .text = "where it is meant, as attention over all pairs of pixels or tokens is: a "
		  "smaller picture or a shorter sequence, or attention that holds no such matrix "
		  "(scaled_dot_product_attention, FlashAttention, xformers)",
	  .first = "if it is meant: attention without the matrix of all pairs (SDPA)" },
	{ HELPS, .kinds = GPU, .facts = F_FREE, .engines = TORCH, .backends = CUDA_LIKE,
	  .text = "where there is no such limit: a smaller batch or model, which asks for less",
	  .first = "a smaller batch or model, if there is no such limit" },
	{ HELPS, .kinds = GPU, .facts = F_SIBLINGS | F_RANKS, .engines = TORCH,
	  .doing = DOING(TRAINING) | DOING(EVALUATION) | DOING(UNKNOWN) | DOING(STARTING),
	  .bounds = BY(DEVICE),
	  .text = "other processes hold more of this card than was asked for: if they are ranks of "
		  "this job, torch.cuda.set_device(local_rank) before anything else keeps them off "
		  "it; "
		  "map_location=\"cpu\" where each rank loads a checkpoint",
	  .first = "keep the other ranks off: torch.cuda.set_device(local_rank) first",
	  .fix = "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))" },
	{ HELPS, .kinds = GPU, .facts = F_HANDLE, .engines = TORCH | IN(UNKNOWN),
	  .text = "a smaller batch or input, if the card was full; if that fails too, run it once "
		  "on "
		  "the CPU: a label or a token id out of range shows its line there "
		  "(compare labels with the number of classes, ids with the embedding's rows); if "
		  "it runs, the card was full",
	  .first = "a smaller batch; if it fails too, run once on the CPU (bad index?)",
	  .fix = "CUDA_LAUNCH_BLOCKING=1" },
	{ HELPS, .kinds = GPU, .facts = F_COPYING, .engines = TORCH | PICTURES,
	  .text = "less pinned memory: a copy with non_blocking=True pins host memory, and the "
		  "driver "
		  "has a limit of it (under WSL a low one: more memory in .wslconfig); or copy "
		  "without it",
	  .first = "less pinned host memory: copy without non_blocking", .fix = "x.to(device)" },
	{ HELPS, .kinds = GPU, .facts = F_PINNING, .engines = TORCH,
	  .text = "pin_memory=False in the DataLoader: batches were being put into pinned host "
		  "memory, which the driver refuses in the same words; it may have been full "
		  "already, or the card",
	  .first = "pin_memory=False in the DataLoader, or smaller batches",
	  .fix = "DataLoader(..., pin_memory=False)" },
	{ HELPS, .kinds = GPU, .facts = F_BARE, .without = F_HANDLE, .engines = TORCH,
	  .tasks = TASK(WSL), .backends = ON(CUDA),
	  .text = "under WSL the driver refuses pinned and managed memory in these words too, "
		  "beyond a part of what WSL was given: nvidia-smi tells whether the card is full; "
		  "where it is not, more memory for WSL (memory= in .wslconfig, wsl --shutdown), "
		  "and less that is pinned or paged (pin_memory=False, no paged optimizer, no "
		  "offload)",
	  .first = "is the GPU full (nvidia-smi)? If not, more memory for WSL",
	  .fix = "nvidia-smi" },
	{ HELPS, .kinds = GPU, .facts = F_UNSEEN, .engines = TORCH | PICTURES, .backends = ON(XPU),
	  .text = "smaller tensors (a smaller batch, picture or context, attention in slices): "
		  "PyTorch held little of the card, and Intel's driver gives no single block above "
		  "4 GiB, under WSL and Windows less still; "
		  "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1 lifts that",
	  .first = "smaller tensors, or UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1",
	  .fix = "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1" },
	{ HELPS, .kinds = GPU, .facts = F_BARE, .engines = TORCH,
	  .without = F_COPYING | F_PINNING | F_STORAGE, .moments = AT(MOMENT_UNKNOWN) | AT(LOADING),
	  .bounds = BY(UNKNOWN) | BY(DEVICE), .backends = ON(CUDA), .not_tasks = TASK(WSL),
	  .text = "see who holds the card (nvidia-smi): the driver refused memory outside "
		  "PyTorch's "
		  "allocator, so the card was full already, or another program has it",
	  .first = "see who holds the GPU (nvidia-smi)",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },

	/* -- servers: vllm/config, sglang/srt/server_args.py, TGI's launcher, TensorRT-LLM's LlmArgs -- */
	{ HELPS, .kinds = GPU, .engines = IN(VLLM), .set = SET(FLOAT32),
	  .text = "weights in 16 bits: --dtype half (or bfloat16) instead of float",
	  .first = "weights in 16 bits (--dtype half)", .fix = "--dtype half" },
	{ HELPS, .kinds = GPU, .engines = IN(VLLM), .facts = F_WEIGHTS, .moments = LOADED,
	  .text = "what it holds is more than its share already: weights that fit (a quantised "
		  "checkpoint: AWQ, GPTQ, FP8), or more cards (--tensor-parallel-size)",
	  .first = "a smaller or quantised model, or --tensor-parallel-size" },
	{ HELPS, .kinds = GPU, .engines = IN(VLLM), .moments = AT(LOADING),
	  .text = "weights that fit: a quantised checkpoint (AWQ, GPTQ, FP8), more cards "
		  "(--tensor-parallel-size), or a part of them on the host (--cpu-offload-gb)",
	  .first = "a quantised checkpoint, or more GPUs (--tensor-parallel-size)" },
	{ HELPS, .kinds = GPU, .engines = IN(SGLANG), .moments = AT(LOADING),
	  .text = "weights that fit: a quantised checkpoint (AWQ, GPTQ, FP8), or more cards (--tp)",
	  .first = "a quantised checkpoint of the model, or more GPUs (--tp)" },
	{ HELPS, .kinds = GPU, .engines = IN(TGI), .moments = AT(LOADING),
	  .text = "weights that fit: --quantize (bitsandbytes-nf4, awq, fp8), or more cards "
		  "(--num-shard)",
	  .first = "quantised weights (--quantize), or more GPUs (--num-shard)",
	  .fix = "--quantize bitsandbytes-nf4" },
	/* the profiling pass comes before any KV cache: its size is not the share's */
	{ HELPS, .kinds = KIND(BUDGET), .engines = IN(VLLM), .facts = F_RAISE,
	  .text = "a share that holds what is lacking: --gpu-memory-utilization {raise}, if nobody "
		  "else needs the card",
	  .first = "raise --gpu-memory-utilization to {raise}",
	  .fix = "--gpu-memory-utilization {raise}" },
	{ HELPS, .kinds = KIND(BUDGET), .engines = IN(VLLM), .facts = F_LACKS,
	  .text = "a smaller or quantised model, or more cards (--tensor-parallel-size): the whole "
		  "card would not hold weights and activations",
	  .first = "a smaller or quantised model, or --tensor-parallel-size" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD | BY(NON_PYTORCH) | BY(OTHER_PROCESS),
	  .engines = IN(VLLM), .moments = LOADED, .set = SET(PROFILE), .without = F_WEIGHTS,
	  .text = "a smaller profiling pass, which comes before any KV cache: --max-num-seqs "
		  "{few}, "
		  "--max-num-batched-tokens {batched}, a shorter --max-model-len",
	  .first = "--max-num-seqs {few}, and a shorter --max-model-len",
	  .fix = "--max-num-seqs {few} --max-num-batched-tokens {batched}", .example = 1 },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD | BY(NON_PYTORCH) | BY(OTHER_PROCESS),
	  .engines = IN(VLLM), .moments = LOADED, .set = SET(MEDIA), .without = F_WEIGHTS,
	  .text = "fewer or smaller pictures and videos a request: --limit-mm-per-prompt "
		  "'{\"image\": 1, \"video\": 0}', --mm-processor-kwargs with a smaller max_pixels",
	  .first = "fewer pictures a request (--limit-mm-per-prompt)",
	  .fix = "--limit-mm-per-prompt '{\"image\": 1, \"video\": 0}'", .example = 1 },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD | BY(NON_PYTORCH) | BY(OTHER_PROCESS),
	  .engines = IN(VLLM), .moments = LOADED, .without = F_WEIGHTS, .unless = SET(PROFILE),
	  .text = "a lower --gpu-memory-utilization ({utilization}): vLLM fills its share with KV "
		  "cache, "
		  "and what runs beside it needs room",
	  .first = "a lower --gpu-memory-utilization: {utilization}",
	  .fix = "--gpu-memory-utilization {utilization}", .example = 1 },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD | BY(NON_PYTORCH) | BY(OTHER_PROCESS),
	  .engines = IN(VLLM), .moments = LOADED, .unless = SET(PROFILE) | SET(SEQUENCES),
	  .text = "smaller passes: --max-num-seqs {sequences}, --max-num-batched-tokens {batched}",
	  .first = "fewer sequences at a time: --max-num-seqs {sequences}",
	  .fix = "--max-num-seqs {sequences} --max-num-batched-tokens {batched}", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(SGLANG), .tasks = TASK(DRAWN),
	  .text = "the model's parts on the host while others work: --dit-cpu-offload, "
		  "--text-encoder-cpu-offload, --vae-cpu-offload (or --dit-layerwise-offload, "
		  "which "
		  "holds a layer at a time); a smaller picture, fewer frames, or more cards "
		  "(--num-gpus)",
	  .first = "--text-encoder-cpu-offload, --vae-cpu-offload, --dit-cpu-offload",
	  .fix = "--text-encoder-cpu-offload --vae-cpu-offload" },
	{ HELPS, .kinds = GPU, .engines = IN(SGLANG), .moments = LOADED, .not_tasks = TASK(DRAWN),
	  .text = "a lower --mem-fraction-static ({static}), --chunked-prefill-size {chunk}, "
		  "--max-running-requests {running}",
	  .first = "a lower --mem-fraction-static: {static}",
	  .fix = "--mem-fraction-static {static} --chunked-prefill-size {chunk} "
		 "--max-running-requests {running}",
	  .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(SGLANG), .moments = LOADED, .not_tasks = TASK(DRAWN),
	  .set = SET(COMPILE),
	  .text = "without --enable-torch-compile, whose compiled graphs take memory beside it",
	  .first = "without --enable-torch-compile" },
	{ HELPS, .kinds = GPU, .engines = IN(SGLANG), .moments = LOADED, .not_tasks = TASK(DRAWN),
	  .set = SET(CAPTURE), .unless = SET(GRAPHS),
	  .text = "CUDA graphs of fewer batch sizes (--cuda-graph-max-bs {graphs}), or none "
		  "(--disable-cuda-graph, which costs speed)",
	  .fix = "--cuda-graph-max-bs {graphs}", .example = 1 },
	{ HELPS, .kinds = KIND(BUDGET), .engines = IN(TGI), .facts = F_FEW_TOKENS,
	  .text = "weights that leave room, since so few tokens did not fit beside them: "
		  "--quantize "
		  "(bitsandbytes-nf4, awq, fp8), or more cards (--num-shard)",
	  .first = "quantised weights (--quantize), or more GPUs (--num-shard)",
	  .fix = "--quantize bitsandbytes-nf4" },
	{ HELPS, .kinds = KIND(BUDGET), .engines = IN(TGI), .facts = F_TOTAL,
	  .text = "a lower --max-batch-total-tokens: {half} is half of what did not fit",
	  .first = "a lower --max-batch-total-tokens: {half}",
	  .fix = "--max-batch-total-tokens {half}" },
	{ HELPS, .kinds = KIND(BUDGET), .engines = IN(TGI), .without = F_FEW_TOKENS,
	  .text = "lower --max-batch-prefill-tokens; where it is small already, quantised weights "
		  "(--quantize) or more cards (--num-shard)",
	  .first = "a lower --max-batch-prefill-tokens: 2048",
	  .fix = "--max-batch-prefill-tokens 2048", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(TGI),
	  .text = "lower --max-batch-prefill-tokens and --max-total-tokens, or "
		  "--cuda-memory-fraction 0.9",
	  .first = "a lower --max-batch-prefill-tokens: 2048",
	  .fix = "--max-batch-prefill-tokens 2048 --cuda-memory-fraction 0.9", .example = 1 },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(OTHER_PROCESS), .engines = IN(VLLM),
	  .without = F_SHARE, .text = "a --gpu-memory-utilization that what is free allows" },
	{ HELPS, .kinds = KIND(BUDGET), .engines = IN(VLLM), .facts = F_TOKENS,
	  .text = "a context that fits: --max-model-len {tokens}; more of it with quantised "
		  "weights or more cards (--tensor-parallel-size)",
	  .first = "--max-model-len {tokens}", .fix = "--max-model-len {tokens}" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(VLLM), .facts = F_LITTLE,
	  .backends = ON(CUDA), .without = F_TOKENS | F_RAISE,
	  .text = "see who else holds the card (nvidia-smi): the model is small, and what others "
		  "hold counts into vLLM's share",
	  .first = "see who else holds the GPU (nvidia-smi): the model itself is small",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(VLLM),
	  .without = F_TOKENS | F_RAISE | F_LACKS, .unless = SET(SHARE),
	  .text = "a larger share of the card (--gpu-memory-utilization 0.95), if nobody else "
		  "needs it",
	  .first = "--gpu-memory-utilization 0.95, or a smaller or quantised model",
	  .fix = "--gpu-memory-utilization 0.95", .example = 1 },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(VLLM), .facts = F_TOKENS,
	  .unless = SET(SHARE),
	  .text = "a larger share of the card (--gpu-memory-utilization 0.95), if nobody else "
		  "needs it: it holds more tokens",
	  .fix = "--gpu-memory-utilization 0.95", .example = 1 },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(VLLM),
	  .backends = ON(CUDA), .without = F_TOKENS | F_RAISE | F_LITTLE, .last = 1,
	  .text = "see who else holds the card (nvidia-smi), where the model is small beside it: "
		  "what others hold counts into vLLM's share",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(VLLM), .set = SET(SHARE),
	  .without = F_TOKENS | F_RAISE | F_LACKS,
	  .text = "weights that leave room: a smaller or quantised model, or more cards "
		  "(--tensor-parallel-size)",
	  .first = "a smaller or quantised model, or more GPUs" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(VLLM),
	  .without = F_TOKENS,
	  .text = "less to hold: a shorter context (--max-model-len {length}), fewer sequences "
		  "(--max-num-seqs {sequences}), quantised weights, or more cards "
		  "(--tensor-parallel-size)",
	  .first = "a shorter context (--max-model-len)",
	  .fix = "--max-model-len {length} --max-num-seqs {sequences}", .example = 1 },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(VLLM), .facts = F_TOKENS,
	  .unless = SET(KV_CACHE), .backends = CUDA_LIKE,
	  .text = "an 8-bit KV cache holds twice the tokens: --kv-cache-dtype fp8",
	  .fix = "--kv-cache-dtype fp8" },
	{ HELPS, .kinds = GPU | KIND(BUDGET), .bounds = OWN_CARD | BY(NON_PYTORCH),
	  .engines = IN(VLLM), .moments = LOADED, .unless = SET(EAGER),
	  .text = "--enforce-eager keeps no CUDA graphs, which costs speed",
	  .fix = "--enforce-eager" },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(SGLANG),
	  .unless = SET(STATIC), .without = F_SLOTS,
	  .text = "a larger --mem-fraction-static, if nobody else needs the card: weights and KV "
		  "cache "
		  "lie in it",
	  .first = "a larger --mem-fraction-static", .fix = "--mem-fraction-static 0.92",
	  .example = 1 },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT), .engines = IN(SGLANG),
	  .without = F_SLOTS,
	  .text = "less to hold: a quantised model or more cards (--tp), a shorter "
		  "--context-length, "
		  "fewer --max-running-requests ({running})",
	  .first = "a quantised model or more GPUs (--tp)",
	  .fix = "--context-length {length} --max-running-requests {running}", .example = 1 },
	{ HELPS, .kinds = KIND(BUDGET), .bounds = BY(LIMIT),
	  .engines = IN(UNKNOWN) | IN(TGI) | TORCH,
	  .text = "less to hold: a shorter context, fewer sequences at a time, an 8-bit KV cache, "
		  "quantised weights, or more cards; or a larger share of the card for the server",
	  .first = "a shorter context or fewer sequences at a time" },

	/* -- llama.cpp: common/arg.cpp; Ollama: envconfig -- */
	{ HELPS, .kinds = GPU | KIND(HOST), .engines = IN(LLAMA_CPP), .set = SET(KV_ROOM),
	  .text = "a shorter context (-c {context}): it is the KV cache that had no room, and it "
		  "grows "
		  "with the context; quantised (-ctk q8_0 -ctv q8_0, with -fa on) it takes half",
	  .first = "a shorter context (-c {context})",
	  .fix = "-c {context} -fa on -ctk q8_0 -ctv q8_0", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP_PYTHON), .set = SET(KV_ROOM),
	  .text = "a shorter context (n_ctx={short}): it is the KV cache that had no room",
	  .first = "a shorter context (n_ctx={short})", .fix = "Llama(..., n_ctx={short})",
	  .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP), .set = SET(UBATCH),
	  .text = "a smaller -ub (512 is the default): the compute buffer grows with it, and it is "
		  "set far above",
	  .first = "a smaller -ub (512 is the default)", .fix = "-ub 512" },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP), .facts = F_ONE_BUFFER,
	  .text = "smaller buffers: a smaller -ub (256, 128), flash attention (-fa on), a shorter "
		  "context "
		  "(-c), a quantised KV cache (-ctk q8_0 -ctv q8_0)",
	  .first = "a smaller -ub, -fa on, or a shorter context (-c)", .fix = "-ub 128 -fa on",
	  .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(OLLAMA), .facts = F_ONE_BUFFER,
	  .text = "smaller buffers: OLLAMA_FLASH_ATTENTION=1, a smaller num_batch, a shorter "
		  "context "
		  "(num_ctx)",
	  .first = "OLLAMA_FLASH_ATTENTION=1, or a smaller num_ctx or num_batch",
	  .fix = "OLLAMA_FLASH_ATTENTION=1" },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP), .set = SET(BUFFERS),
	  .without = F_ONE_BUFFER,
	  .text = "a smaller compute buffer, which had no room: -ub 256 or 128, -fa on, a shorter "
		  "context (-c {context}); of several cards a build with GGML_SCHED_MAX_COPIES=1, "
		  "which keeps one copy",
	  .first = "a smaller compute buffer (-ub 256, -fa on)", .fix = "-ub 256 -fa on",
	  .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(OLLAMA), .set = SET(BUFFERS), .without = F_ONE_BUFFER,
	  .text = "a smaller compute buffer, which had no room: a smaller num_batch, a shorter "
		  "context (num_ctx), OLLAMA_FLASH_ATTENTION=1",
	  .first = "a shorter context (num_ctx) or a smaller num_batch",
	  .fix = "OLLAMA_FLASH_ATTENTION=1" },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP), .facts = F_BARE | F_UNGIVEN,
	  .backends = ON(CUDA),
	  .text = "see who else holds the card (nvidia-smi): the command gives no layers to it "
		  "(-ngl), and what it takes without them is little; CUDA_VISIBLE_DEVICES=\"\" "
		  "does without it",
	  .first = "see who else holds the GPU: nvidia-smi (it was given no layers)",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP), .without = F_ONE_BUFFER | F_UNGIVEN,
	  .text = "fewer layers on the GPU (-ngl N); of a mixture of experts, the experts on the "
		  "CPU (--cpu-moe, --n-cpu-moe N)",
	  .first = "put fewer layers on the GPU (-ngl) or shorten the context (-c)",
	  .fix = "-ngl 20", .unless = SET(LAYERS), .moments = LOADED, .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP), .moments = AT(LOADING),
	  .without = F_ONE_BUFFER,
	  .text = "fewer layers on the GPU (-ngl N); of a mixture of experts, the experts on the "
		  "CPU (--cpu-moe, --n-cpu-moe N): it is the weights that do not fit",
	  .first = "put fewer layers on the GPU (-ngl), or take a smaller quantisation",
	  .fix = "-ngl 20", .unless = SET(LAYERS), .example = 1 },
	{ HELPS, .kinds = GPU, .engines = GGML_TEXT, .facts = F_BARE, .without = F_UNGIVEN,
	  .backends = ON(CUDA), .last = 1,
	  .text = "see who else holds the card (nvidia-smi): the text does not tell how much was "
		  "asked for" },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP), .without = F_ONE_BUFFER, .moments = LOADED,
	  .unless = SET(KV_CACHE),
	  .text = "a shorter context (-c {context}), a quantised KV cache (-ctk q8_0 -ctv q8_0, "
		  "with "
		  "-fa on), a smaller compute buffer (-ub 256)",
	  .first = "shorten the context (-c {context})",
	  .fix = "-c {context} -fa on -ctk q8_0 -ctv q8_0 -ub 256", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP), .without = F_ONE_BUFFER, .moments = LOADED,
	  .set = SET(KV_CACHE),
	  .text = "a shorter context (-c {context}), a smaller compute buffer (-ub 256): the KV "
		  "cache is quantised already",
	  .first = "shorten the context (-c {context})", .fix = "-c {context} -ub 256",
	  .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP_PYTHON),
	  .text = "fewer layers on the GPU and a shorter context: Llama(..., n_gpu_layers=20, "
		  "n_ctx={short})",
	  .first = "fewer layers on the GPU (n_gpu_layers) or a shorter context (n_ctx)",
	  .fix = "Llama(..., n_gpu_layers=20, n_ctx={short})", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP_PYTHON), .facts = F_NOT_FIRST,
	  .text = "of several cards, another division (tensor_split=[...]), or the one that was "
		  "full "
		  "left out (CUDA_VISIBLE_DEVICES), if it is the small one",
	  .fix = "Llama(..., tensor_split=[3, 1])", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(LLAMA_CPP), .facts = F_NOT_FIRST,
	  .without = F_ONE_BUFFER,
	  .text = "of several cards, another division (-ts 3,1): the one that is named was full",
	  .fix = "-ts 3,1", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(OLLAMA), .without = F_ONE_BUFFER,
	  .moments = AT(LOADING),
	  .text = "fewer layers on the GPU (num_gpu): it is the weights that do not fit; ollama ps "
		  "shows what else is loaded, ollama stop MODEL unloads it",
	  .first = "fewer layers on the GPU (num_gpu), or a smaller quantisation",
	  .fix = "PARAMETER num_gpu 20", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(OLLAMA), .without = F_ONE_BUFFER, .moments = LOADED,
	  .text = "a shorter context (num_ctx, or OLLAMA_CONTEXT_LENGTH) or fewer layers on the "
		  "GPU (num_gpu); ollama ps shows what is loaded, ollama stop MODEL unloads it",
	  .first = "a shorter context (num_ctx) or fewer layers on the GPU (num_gpu)",
	  .fix = "OLLAMA_CONTEXT_LENGTH={short}", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(OLLAMA), .without = F_ONE_BUFFER, .moments = LOADED,
	  .text = "OLLAMA_NUM_PARALLEL=1 and OLLAMA_MAX_LOADED_MODELS=1; OLLAMA_KV_CACHE_TYPE=q8_0 "
		  "with OLLAMA_FLASH_ATTENTION=1",
	  .fix = "OLLAMA_NUM_PARALLEL=1 OLLAMA_MAX_LOADED_MODELS=1 OLLAMA_FLASH_ATTENTION=1 "
		 "OLLAMA_KV_CACHE_TYPE=q8_0" },
	{ HELPS, .kinds = KIND(HOST), .engines = IN(OLLAMA),
	  .text = "a shorter context (num_ctx, or OLLAMA_CONTEXT_LENGTH) with "
		  "OLLAMA_NUM_PARALLEL=1: "
		  "the KV cache of all of it counts into what the model requires",
	  .first = "a shorter context (num_ctx), or a smaller quantisation",
	  .fix = "OLLAMA_CONTEXT_LENGTH={short} OLLAMA_NUM_PARALLEL=1", .example = 1 },
	{ HELPS, .kinds = KIND(HOST), .engines = IN(OLLAMA),
	  .text = "unload what is loaded still: ollama ps shows it, ollama stop MODEL ends it "
		  "(OLLAMA_KEEP_ALIVE=0)",
	  .fix = "ollama ps" },
	{ HELPS, .kinds = GPU | HOSTS, .engines = GGML_TEXT, .without = F_ONE_BUFFER,
	  .text = "a smaller model, or a smaller quantisation of it (Q4_K_M, IQ3_XS)",
	  .first = "a smaller model, or a smaller quantisation of it" },
	{ HELPS, .kinds = GPU, .engines = GGML_TEXT, .backends = ON(MPS),
	  .text = "let the GPU have more of the machine's memory: sudo sysctl "
		  "iogpu.wired_limit_mb=N",
	  .fix = "sudo sysctl iogpu.wired_limit_mb=N", .example = 1 },
	{ HELPS, .kinds = HOSTS, .engines = IN(LLAMA_CPP),
	  .text = "a shorter context (-c); leave --mlock and --no-mmap off: mapped weights need "
		  "not be resident",
	  .first = "a shorter context (-c)", .fix = "-c {short}", .example = 1 },

	/* -- pictures: ComfyUI's cli_args.py, A1111's cmd_args.py, diffusers' guide to memory -- */
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI), .set = SET(DECODING), .unless = SET(TILING),
	  .text = "VAE Decode (Tiled) in place of VAE Decode, with a smaller tile_size; of a video "
		  "fewer frames",
	  .first = "VAE Decode (Tiled) in place of VAE Decode, or fewer frames" },
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI), .set = SET(TILING),
	  .doing = ~DOING(TRAINING), .moments = LOADED,
	  .text = "smaller tiles (tile_size, tile_sample_min_size; of a video a smaller "
		  "temporal_size or window_size too), a smaller picture or fewer frames: it "
		  "decodes in tiles already",
	  .first = "smaller tiles (tile_size), a smaller picture or fewer frames" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS), .set = SET(TILING), .facts = F_DECODING,
	  .doing = ~DOING(TRAINING), .moments = LOADED,
	  .text = "smaller tiles (pipe.vae.enable_tiling(tile_sample_min_height=...)), a smaller "
		  "picture or fewer frames: it decodes in tiles already",
	  .first = "smaller tiles, a smaller picture or fewer frames" },
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI), .moments = LOADED, .facts = F_HUGE,
	  .text = "a smaller picture or fewer frames, and attention that holds no matrix of all "
		  "pairs (--use-pytorch-cross-attention, --use-split-cross-attention): so much at "
		  "once is no model's weights",
	  .first = "a smaller picture or fewer frames", .fix = "--use-pytorch-cross-attention" },
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI), .moments = LOADED, .facts = F_DECODING,
	  .without = F_HUGE, .unless = SET(TILING),
	  .text = "a smaller picture, fewer frames or a smaller batch" },
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI), .unless = SET(LOWVRAM), .moments = LOADED,
	  .without = F_HUGE | F_DECODING,
	  .text = "a smaller picture, fewer frames or a smaller batch; start it with --lowvram, "
		  "then --novram; --reserve-vram 1 leaves room for others",
	  .first = "a smaller picture or batch, or start ComfyUI with --lowvram",
	  .fix = "--lowvram --reserve-vram 1" },
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI), .facts = F_DRIVER, .backends = ON(CUDA),
	  .text = "where the card was not full: start it with --disable-pinned-memory, since the "
		  "driver refuses pinned memory in the same words",
	  .first = "--disable-pinned-memory, if the GPU was not full",
	  .fix = "--disable-pinned-memory" },
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI), .moments = AT(LOADING),
	  .text = "a smaller model file (fp8 or GGUF weights), or less of it on the card: start it "
		  "with --lowvram, then --novram; no other model loaded at the same time",
	  .first = "a smaller model file (fp8 or GGUF), or start ComfyUI with --lowvram",
	  .fix = "--lowvram", .unless = SET(LOWVRAM) },
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI), .set = SET(LOWVRAM),
	  .text = "a smaller picture, fewer frames or a smaller batch: it runs with little memory "
		  "already; --novram",
	  .first = "a smaller picture, fewer frames or a smaller batch", .fix = "--novram" },
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI), .moments = LOADED,
	  .text = "a smaller model file: fp8 or GGUF weights" },
	{ HELPS, .kinds = GPU, .engines = IN(COMFYUI), .moments = LOADED,
	  .unless = SET(DECODING) | SET(TILING),
	  .text = "where it is the decoding that fails: VAE Decode (Tiled) in place of VAE "
		  "Decode",
	  .first = "VAE Decode (Tiled), if decoding fails" },
	{ HELPS, .kinds = GPU, .engines = IN(A1111), .doing = DOING(TRAINING),
	  .text = "train less: LoRA instead of the whole model, 8-bit Adam, gradient "
		  "checkpointing, a "
		  "smaller resolution, no text encoder; 4 GB are too few for DreamBooth",
	  .first = "train less (LoRA, 8-bit Adam, gradient checkpointing)" },
	{ HELPS, .kinds = GPU, .engines = IN(A1111), .moments = AT(LOADING), .unless = SET(LOWVRAM),
	  .text = "start it with --medvram, then --lowvram, which keep parts of the model on the "
		  "host; "
		  "a smaller checkpoint (fp16, pruned); one model at a time in its settings",
	  .first = "--medvram, then --lowvram, or a smaller checkpoint (fp16)",
	  .fix = "--medvram" },
	{ HELPS, .kinds = GPU, .engines = IN(A1111) | IN(FORGE), .moments = LOADED,
	  .set = SET(DECODING), .unless = SET(TILING),
	  .text = "decode in tiles (the Tiled VAE extension, or its own setting), or a smaller "
		  "picture: "
		  "it was decoding the picture",
	  .first = "a smaller picture, or decode it in tiles (Tiled VAE)" },
	{ HELPS, .kinds = GPU, .engines = IN(A1111), .doing = ~DOING(TRAINING), .moments = LOADED,
	  .unless = SET(MEDVRAM) | SET(LOWVRAM),
	  .text = "a smaller picture or batch; start it with --medvram, then --lowvram",
	  .first = "a smaller picture, or start it with --medvram", .fix = "--medvram" },
	{ HELPS, .kinds = GPU, .engines = IN(A1111), .doing = ~DOING(TRAINING), .set = SET(MEDVRAM),
	  .unless = SET(LOWVRAM),
	  .text = "a smaller picture or batch; --lowvram instead of --medvram",
	  .first = "a smaller picture, or --lowvram", .fix = "--lowvram" },
	{ HELPS, .kinds = GPU, .engines = IN(A1111), .doing = ~DOING(TRAINING), .set = SET(LOWVRAM),
	  .text = "a smaller picture or batch, fewer extensions (ControlNet, hires fix): it runs "
		  "with "
		  "the least memory already",
	  .first = "a smaller picture or batch" },
	{ HELPS, .kinds = GPU, .engines = IN(A1111), .doing = ~DOING(TRAINING),
	  .backends = CUDA_LIKE, .unless = SET(ATTENTION),
	  .text = "attention that holds no matrix of all pixels: --opt-sdp-attention (PyTorch 2) "
		  "or "
		  "--xformers",
	  .fix = "--opt-sdp-attention" },
	{ HELPS, .kinds = GPU, .engines = IN(FORGE), .moments = AT(LOADING),
	  .text = "a smaller model file (NF4, GGUF, fp8), or lower GPU Weights (the slider on "
		  "top); "
		  "--always-low-vram",
	  .first = "a smaller model file (NF4, GGUF), or lower GPU Weights",
	  .fix = "--always-low-vram" },
	{ HELPS, .kinds = GPU, .engines = IN(FORGE), .moments = LOADED,
	  .text = "a smaller picture or batch; lower GPU Weights (the slider on top), so that more "
		  "is "
		  "left for the computation; a smaller model file (NF4, GGUF, fp8); "
		  "--always-low-vram",
	  .first = "a smaller picture, or lower GPU Weights", .fix = "--always-low-vram" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS), .set = SET(DECODING),
	  .unless = SET(TILING), .doing = ~DOING(TRAINING), .moments = LOADED,
	  .text = "decode in tiles (pipe.vae.enable_tiling()), of several pictures one at a time "
		  "(pipe.vae.enable_slicing()): the sampling was over, and the VAE had no room",
	  .first = "decode in tiles (pipe.vae.enable_tiling())",
	  .fix = "pipe.vae.enable_tiling()" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS),
	  .doing = DOING(GENERATING) | DOING(LOADING) | DOING(UNKNOWN),
	  .backends = CUDA_LIKE | ON(XPU), .unless = SET(MODEL_OFFLOAD) | SET(SEQUENTIAL_OFFLOAD),
	  .moments = LOADED, .text = "pipe.enable_model_cpu_offload() instead of pipe.to(\"cuda\")",
	  .first = "pipe.enable_model_cpu_offload() instead of pipe.to(\"cuda\")",
	  .fix = "pipe.enable_model_cpu_offload()" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS), .moments = AT(LOADING),
	  .doing = DOING(GENERATING) | DOING(LOADING) | DOING(UNKNOWN),
	  .backends = CUDA_LIKE | ON(XPU), .unless = SET(MODEL_OFFLOAD) | SET(SEQUENTIAL_OFFLOAD),
	  .text = "load the parts to the host, without .to(\"cuda\") and device_map=\"cuda\", and "
		  "let "
		  "pipe.enable_model_cpu_offload() bring each to the card when it works",
	  .first = "pipe.enable_model_cpu_offload() instead of .to(\"cuda\")",
	  .fix = "pipe.enable_model_cpu_offload()" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS), .moments = AT(LOADING),
	  .doing = DOING(GENERATING) | DOING(LOADING) | DOING(UNKNOWN),
	  .text = "quantised parts (quantization_config), the text encoder's too; or the prompt "
		  "encoded beforehand, in a program of its own, so that the text encoder is never "
		  "on the card beside the rest" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS), .set = SET(MODEL_OFFLOAD),
	  .doing = DOING(GENERATING) | DOING(LOADING) | DOING(UNKNOWN),
	  .unless = SET(SEQUENTIAL_OFFLOAD),
	  .text = "no .to(\"cuda\") beside enable_model_cpu_offload(), which would put all of it "
		  "there; quantised weights; or pipe.enable_sequential_cpu_offload(), which is "
		  "much slower",
	  .first = "quantised weights, or pipe.enable_sequential_cpu_offload()",
	  .fix = "pipe.enable_sequential_cpu_offload()" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS),
	  .doing = DOING(GENERATING) | DOING(LOADING) | DOING(UNKNOWN), .moments = LOADED,
	  .text = "a smaller picture, fewer frames or a smaller batch; quantised weights "
		  "(quantization_config)",
	  .first = "a smaller picture, fewer frames or a smaller batch" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS), .unless = SET(HALF),
	  .doing = DOING(GENERATING) | DOING(LOADING) | DOING(UNKNOWN),
	  .text = "weights in 16 bits: torch_dtype=torch.float16",
	  .fix = "from_pretrained(..., torch_dtype=torch.float16)" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS), .unless = SET(TILING) | SET(DECODING),
	  .doing = DOING(GENERATING) | DOING(UNKNOWN),
	  .text = "pipe.vae.enable_tiling(), where decoding fails",
	  .fix = "pipe.vae.enable_tiling()" },

	/* -- JAX, TensorFlow, Paddle, ONNX Runtime, TensorRT, MLX, CuPy -- */
	{ HELPS, .kinds = GPU, .engines = IN(JAX) | IN(UNKNOWN), .facts = F_TINY | F_XLA,
	  .text = "so little was refused that no smaller batch helps: nothing was left (another "
		  "program, or an earlier one that still runs: nvidia-smi), or this build of XLA "
		  "does not fit the device",
	  .first = "see who else holds the GPU: nvidia-smi" },
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .facts = F_BIG, .without = F_UNIFIED,
	  .text = "smaller arrays at a time: a smaller batch, jax.lax.map with batch_size, "
		  "bfloat16, or more "
		  "devices (jax.sharding)",
	  .first = "a smaller batch or smaller arrays at a time" },
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .backends = CUDA_LIKE,
	  .without = F_BIG | F_UNIFIED | F_TINY, .unless = SET(PREALLOCATE),
	  .text = "see who else holds the card (nvidia-smi): JAX takes 75 % of it at the start; "
		  "XLA_PYTHON_CLIENT_PREALLOCATE=false or XLA_PYTHON_CLIENT_MEM_FRACTION=.50 where "
		  "it is shared",
	  .first = "see who else holds the GPU: nvidia-smi (JAX takes 75 % at start)",
	  .fix = "XLA_PYTHON_CLIENT_PREALLOCATE=false" },
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .backends = CUDA_LIKE,
	  .without = F_HUGE | F_UNIFIED, .unless = SET(PREALLOCATE) | SET(UNIFIED), .last = 1,
	  .text = "where nobody else uses the card: XLA_PYTHON_CLIENT_MEM_FRACTION=.95, since its "
		  "pool is 75 % of it else",
	  .first = "XLA_PYTHON_CLIENT_MEM_FRACTION=.95, if the GPU is free otherwise",
	  .fix = "XLA_PYTHON_CLIENT_MEM_FRACTION=.95" },
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .without = F_BIG | F_UNIFIED | F_TINY,
	  .text = "smaller arrays at a time (a smaller batch, jax.lax.map with batch_size), "
		  "bfloat16, or more devices (jax.sharding)",
	  .first = "a smaller batch or smaller arrays at a time" },
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .backends = ON(CUDA), .facts = F_BIG,
	  .without = F_UNIFIED | F_HUGE, .unless = SET(UNIFIED),
	  .text = "where time matters less, the host's memory beside the card's (Linux, not WSL): "
		  "TF_FORCE_UNIFIED_MEMORY=1 XLA_PYTHON_CLIENT_MEM_FRACTION=4.0",
	  .first = "TF_FORCE_UNIFIED_MEMORY=1: the host's memory too, slower",
	  .fix = "TF_FORCE_UNIFIED_MEMORY=1 XLA_PYTHON_CLIENT_MEM_FRACTION=4.0" },
	{ HELPS, .kinds = GPU, .engines = IN(JAX), .doing = DOING(TRAINING),
	  .text = "donated buffers (jax.jit(step, donate_argnums=0)), jax.checkpoint around the "
		  "blocks, a smaller batch",
	  .fix = "jax.jit(step, donate_argnums=0)" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORFLOW), .facts = F_COPIED, .moments = LOADED,
	  .text = "feed the data in batches (tf.data, keras.utils.Sequence) instead of one array, "
		  "which is copied to the card whole",
	  .first = "feed the data in batches" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORFLOW), .facts = F_COPIED, .moments = AT(LOADING),
	  .text = "weights that fit (a smaller model, float16), on a card that nobody else uses "
		  "(nvidia-smi): it was they that were copied",
	  .first = "a smaller model or float16 weights, on a GPU of its own" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORFLOW), .tasks = TASK(WEIGHTS),
	  .backends = CUDA_LIKE,
	  .text = "see who else holds the card (nvidia-smi), an earlier run for instance: weights "
		  "were being made, before any batch; else a smaller model",
	  .first = "see who else holds the GPU (nvidia-smi), or a smaller model",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU, .engines = IN(UNKNOWN) | IN(TENSORFLOW), .facts = F_XLA,
	  .without = F_TINY, .backends = ~ON(TPU),
	  .text = "smaller arrays at a time: a smaller batch, bfloat16, or more devices",
	  .first = "a smaller batch or smaller arrays at a time" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORFLOW), .facts = F_POOL,
	  .not_tasks = TASK(WEIGHTS),
	  .text = "a smaller batch or input: what TensorFlow may use of the card is full",
	  .first = "a smaller batch or input", .fix = "batch_size={batch}", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORFLOW), .backends = CUDA_LIKE,
	  .unless = SET(GROWTH),
	  .text = "where other programs use the card: "
		  "tf.config.experimental.set_memory_growth(gpu, True), before anything runs; "
		  "TensorFlow takes the whole card else",
	  .first = "see who else holds the GPU: nvidia-smi (TensorFlow takes it whole)",
	  .fix = "TF_FORCE_GPU_ALLOW_GROWTH=true" },
	{ HELPS, .kinds = GPU, .engines = IN(TENSORFLOW),
	  .doing = DOING(TRAINING) | DOING(UNKNOWN) | DOING(EVALUATION),
	  .text = "a smaller batch and half the precision: "
		  "keras.mixed_precision.set_global_policy(\"mixed_float16\")",
	  .fix = "keras.mixed_precision.set_global_policy(\"mixed_float16\")" },
	{ HELPS, .kinds = GPU, .engines = ~(CACHED | IN(PADDLE)), .facts = F_SCARCE,
	  .backends = ON(CUDA), .last = 1,
	  .text = "next to nothing was free: see who else holds the card (nvidia-smi), and in one "
		  "process what earlier data sets and models still hold",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU, .engines = IN(KOHYA), .moments = AT(DATA),
	  .text = "it was caching latents, one batch of pictures at a time: --vae_batch_size 1, a "
		  "smaller --resolution, --xformers",
	  .first = "--vae_batch_size 1, or a smaller --resolution",
	  .fix = "--vae_batch_size=1 --resolution={resolution}", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(KOHYA), .moments = AT(LOADING),
	  .text = "weights in 16 bits (--full_fp16 or --full_bf16, --mixed_precision), of Flux and "
		  "SD3 --fp8_base and --blocks_to_swap; a smaller base model, or a card with more "
		  "memory",
	  .first = "weights in 16 bits (--full_fp16), or a smaller base model",
	  .fix = "--full_fp16 --mixed_precision=fp16" },
	{ HELPS, .kinds = GPU, .engines = IN(DIFFUSERS), .doing = DOING(TRAINING),
	  .moments = AT(LOADING),
	  .text = "less on the card while it trains: --mixed_precision bf16, a quantised base "
		  "model, text encoders and VAE on the host once their outputs are cached "
		  "(--cache_latents), and --gradient_checkpointing for what the steps then need",
	  .first = "frozen weights in 16 bits or quantised; --gradient_checkpointing",
	  .fix = "--mixed_precision=bf16 --cache_latents --gradient_checkpointing" },
	{ HELPS, .kinds = GPU, .engines = IN(KOHYA) | IN(DIFFUSERS), .doing = DOING(TRAINING),
	  .moments = LOADED & ~AT(DATA), .unless = SET(BATCH),
	  .text = "train_batch_size 1 with gradient accumulation",
	  .first = "train_batch_size 1, with gradient accumulation",
	  .fix = "--train_batch_size=1" },
	{ HELPS, .kinds = GPU, .engines = IN(KOHYA) | IN(DIFFUSERS), .doing = DOING(TRAINING),
	  .moments = LOADED & ~AT(DATA), .unless = SET(CHECKPOINTING),
	  .text = "--gradient_checkpointing, --mixed_precision bf16",
	  .first = "--gradient_checkpointing",
	  .fix = "--gradient_checkpointing --mixed_precision=bf16" },
	{ HELPS, .kinds = GPU, .engines = IN(KOHYA) | IN(DIFFUSERS), .doing = DOING(TRAINING),
	  .moments = LOADED & ~AT(DATA),
	  .text = "a smaller --resolution, an optimizer with less state (an 8-bit one, Adafactor)",
	  .first = "a smaller --resolution", .fix = "--resolution={resolution}", .example = 1 },
	{ HELPS, .kinds = GPU, .engines = IN(KOHYA), .doing = DOING(TRAINING),
	  .moments = LOADED & ~AT(DATA),
	  .text = "latents and text encoders cached beforehand (--cache_latents, "
		  "--cache_text_encoder_outputs); for Flux and SD3 --fp8_base and --blocks_to_swap "
		  "18",
	  .unless = SET(CACHED_LATENTS) | SET(FP8_BASE),
	  .fix = "--cache_latents --cache_text_encoder_outputs --fp8_base" },
#define TRAINS                                                      \
	.kinds = GPU, .bounds = OWN_CARD, .doing = DOING(TRAINING), \
	.moments = AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), .causes = OF(CAPACITY)
	{ HELPS, TRAINS, .engines = TRAINERS, .facts = F_HALF,
	  .text = "shorter sequences: so much at once is a mask or a matrix over all pairs of "
		  "tokens, or the logits of all of them; FlashAttention (axolotl: flash_attention: "
		  "true), which holds none",
	  .first = "shorter sequences, with FlashAttention" },
	{ HELPS, TRAINS, .engines = IN(AXOLOTL), .tasks = TASK(LOGITS),
	  .text = "a loss that never holds the logits of all tokens, where it died: the Liger "
		  "plugin (plugins: axolotl.integrations.liger.LigerPlugin, "
		  "liger_fused_linear_cross_entropy: true), or cut_cross_entropy: true",
	  .first = "a loss without all logits: liger_fused_linear_cross_entropy: true",
	  .fix = "liger_fused_linear_cross_entropy: true" },
	{ HELPS, TRAINS, .engines = IN(LLAMA_FACTORY), .tasks = TASK(LOGITS),
	  .text = "a loss that never holds the logits of all tokens, where it died: "
		  "enable_liger_kernel: true",
	  .first = "a loss without the logits of all tokens: enable_liger_kernel: true",
	  .fix = "enable_liger_kernel: true" },
	{ HELPS, TRAINS, .engines = IN(TRL), .tasks = TASK(LOGITS),
	  .text = "a loss that never holds the logits of all tokens, where it died: "
		  "use_liger_kernel=True (of GRPO use_liger_loss=True)",
	  .first = "a loss without the logits of all tokens: use_liger_kernel=True",
	  .fix = "use_liger_kernel=True" },
	{ HELPS, TRAINS, .engines = IN(PYTORCH) | IN(DEEPSPEED), .tasks = TASK(LOGITS),
	  .set = SET(HF_TRAINER),
	  .text = "a loss that never holds the logits of all tokens (tokens x vocabulary), where "
		  "it "
		  "died: use_liger_kernel=True of TrainingArguments",
	  .first = "a loss without the logits of all tokens: use_liger_kernel=True",
	  .fix = "use_liger_kernel=True" },
	{ HELPS, TRAINS, .engines = IN(PYTORCH) | IN(DEEPSPEED), .tasks = TASK(LOGITS),
	  .unless = SET(HF_TRAINER),
	  .text = "a loss that never holds the logits of all tokens (tokens x vocabulary), where "
		  "it "
		  "died: Liger's fused linear cross entropy, or the loss in chunks of tokens",
	  .first = "a loss without the logits of all tokens: Liger's, or in chunks",
	  .fix = "liger_kernel.transformers.LigerFusedLinearCrossEntropyLoss()" },
	{ HELPS, TRAINS, .engines = IN(AXOLOTL), .unless = SET(BATCH),
	  .text = "a smaller micro-batch: micro_batch_size: 1 with a larger "
		  "gradient_accumulation_steps",
	  .first = "micro_batch_size: 1, with gradient accumulation",
	  .fix = "micro_batch_size: 1" },
	{ HELPS, TRAINS, .engines = IN(AXOLOTL),
	  .text = "a shorter sequence_len, and sample_packing that fills it; adapter: qlora with "
		  "load_in_4bit: true",
	  .first = "a shorter sequence_len", .fix = "sequence_len: {sequence}", .example = 1 },
	{ HELPS, TRAINS, .engines = IN(AXOLOTL), .unless = SET(SHARDED),
	  .text = "over several cards the model shared: deepspeed: "
		  "deepspeed_configs/zero3_bf16.json, or fsdp",
	  .fix = "deepspeed: deepspeed_configs/zero3_bf16.json" },
	{ HELPS, TRAINS, .engines = IN(AXOLOTL), .unless = SET(CHECKPOINTING),
	  .text = "gradient_checkpointing: true", .fix = "gradient_checkpointing: true" },
	{ HELPS, TRAINS, .engines = IN(LLAMA_FACTORY), .unless = SET(BATCH),
	  .text = "a smaller micro-batch: per_device_train_batch_size: 1 with a larger "
		  "gradient_accumulation_steps",
	  .first = "per_device_train_batch_size: 1, with gradient accumulation",
	  .fix = "per_device_train_batch_size: 1" },
	{ HELPS, TRAINS, .engines = IN(LLAMA_FACTORY),
	  .text = "a shorter cutoff_len; DeepSpeed's ZeRO 3 (deepspeed: "
		  "examples/deepspeed/ds_z3_config.json) over several cards",
	  .first = "a shorter cutoff_len", .fix = "cutoff_len: {sequence}", .example = 1 },
	{ HELPS, TRAINS, .engines = IN(LLAMA_FACTORY), .unless = SET(QUANTISED),
	  .text = "QLoRA: quantization_bit: 4 with finetuning_type: lora",
	  .fix = "quantization_bit: 4" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .doing = DOING(TRAINING), .engines = IN(TRL),
	  .set = SET(VLLM),
	  .text = "a lower vllm_gpu_memory_utilization (0.3): vLLM takes its share of the card "
		  "beforehand, beside what is trained; or vllm_enable_sleep_mode=True",
	  .first = "a lower vllm_gpu_memory_utilization", .fix = "vllm_gpu_memory_utilization=0.3",
	  .example = 1 },
	{ HELPS, TRAINS, .engines = IN(UNSLOTH) | IN(TRL), .set = SET(GRPO),
	  .text = "fewer num_generations (the batch must stay a multiple of it), a shorter "
		  "max_completion_length and max_prompt_length, a lower share for vLLM",
	  .first = "fewer num_generations, or a shorter max_completion_length",
	  .fix = "num_generations=4, max_completion_length=512", .example = 1 },
	{ HELPS, TRAINS, .engines = IN(UNSLOTH) | IN(TRL), .unless = SET(BATCH) | SET(GRPO),
	  .text = "a smaller micro-batch: per_device_train_batch_size=1 with gradient accumulation",
	  .first = "per_device_train_batch_size=1, with gradient accumulation",
	  .fix = "per_device_train_batch_size=1, gradient_accumulation_steps=8", .example = 1 },
	{ HELPS, TRAINS, .engines = IN(UNSLOTH),
	  .text = "a shorter max_seq_length, a smaller LoRA rank",
	  .first = "a shorter max_seq_length", .fix = "max_seq_length={sequence}", .example = 1 },
	{ HELPS, TRAINS, .engines = IN(UNSLOTH), .unless = SET(QUANTISED),
	  .text = "load_in_4bit=True", .fix = "load_in_4bit=True" },
	{ HELPS, TRAINS, .engines = IN(TRL), .unless = SET(GRPO),
	  .text = "a shorter max_length; for DPO precompute_ref_log_probs=True",
	  .first = "a shorter max_length", .fix = "max_length=1024", .example = 1 },
	{ HELPS, TRAINS, .engines = IN(TRL) | IN(LLAMA_FACTORY), .unless = SET(CHECKPOINTING),
	  .text = "gradient_checkpointing=True", .fix = "gradient_checkpointing=True" },
/* the same on other engines */

/* -- kinds of programs whose batch is something else -- */
#define STEPS                                                     \
	.kinds = GPU, .bounds = OWN_CARD, .engines = IN(PYTORCH), \
	.moments = AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), .causes = OF(CAPACITY)

#undef STEPS
	/* -- PyTorch: what to change where it died -- */
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FIRST_STEP) | AT(OPTIMIZER),
	  .engines = IN(DEEPSPEED), .unless = SET(OFFLOADED),
	  .text = "the optimizer's state on the host (offload_optimizer in the ZeRO section), or "
		  "more cards to share it",
	  .first = "the optimizer's state on the host: offload_optimizer",
	  .fix = "\"offload_optimizer\": {\"device\": \"cpu\"}" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FIRST_STEP) | AT(OPTIMIZER),
	  .engines = TORCH, .unless = SET(SMALL_STATE) | SET(OFFLOADED),
	  .text = "an optimizer with less state: 8-bit Adam, Adafactor, SGD, LoRA; sharded over "
		  "ranks: ZeRO or FSDP",
	  .first = "an optimizer with less state (8-bit Adam)",
	  .fix = "bitsandbytes.optim.AdamW8bit(...), or optim=\"adamw_bnb_8bit\"" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FIRST_STEP) | AT(OPTIMIZER),
	  .engines = TORCH, .set = SET(SMALL_STATE) | SET(OFFLOADED),
	  .text = "fewer parameters to train (LoRA), or optimizer and gradients sharded over more "
		  "cards",
	  .first = "fewer parameters to train (LoRA), or more GPUs" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FIRST_STEP) | AT(OPTIMIZER),
	  .engines = TORCH & ~IN(DEEPSPEED), .unless = SET(SMALL_STATE) | SET(OFFLOADED),
	  .text = "fused=True in torch's own optimizers: it avoids the lists that foreach makes at "
		  "each step",
	  .fix = "torch.optim.AdamW(..., fused=True)" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING), .engines = TORCH,
	  .set = SET(BEST),
	  .text = "load_best_model_at_end=False, and the best checkpoint loaded in a process of "
		  "its own: the trained model, and its optimizer, are on the card still",
	  .first = "load_best_model_at_end=False, and load it in a new process",
	  .fix = "load_best_model_at_end=False" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING),
	  .engines = IN(LLAMA_FACTORY), .unless = SET(QUANTISED),
	  .text = "quantised weights (quantization_bit: 4), or the model over several cards "
		  "(DeepSpeed's ZeRO 3 to train, infer_backend: vllm to generate)",
	  .first = "quantise the model (quantization_bit: 4), or use several GPUs",
	  .fix = "quantization_bit: 4" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING), .engines = IN(AXOLOTL),
	  .unless = SET(QUANTISED),
	  .text = "quantised weights (adapter: qlora, load_in_4bit: true), or the model over "
		  "several "
		  "cards (fsdp, or DeepSpeed's ZeRO 3)",
	  .first = "quantise the model (load_in_4bit: true), or use several GPUs",
	  .fix = "load_in_4bit: true" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING),
	  .engines = TORCH & ~(IN(LLAMA_FACTORY) | IN(AXOLOTL)),
	  .unless = SET(HALF) | SET(QUANTISED) | SET(BEST), .not_tasks = TASK(PRETRAINED),
	  .text = "load in the type it is to run in (model.half() or .to(torch.bfloat16) on the "
		  "host, before it goes to the card), a smaller model, or its parts over several "
		  "cards",
	  .first = "load the model in 16 bits or quantised, or over several GPUs" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING),
	  .engines = TORCH & ~(IN(LLAMA_FACTORY) | IN(AXOLOTL)),
	  .unless = SET(HALF) | SET(QUANTISED) | SET(BEST), .tasks = TASK(PRETRAINED),
	  .text = "load in the type it is to run in (dtype=torch.bfloat16), quantised, or over "
		  "several cards or the host (device_map=\"auto\")",
	  .first = "load the model in 16 bits or quantised, or over several GPUs",
	  .fix = "from_pretrained(..., dtype=torch.bfloat16, device_map=\"auto\")" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING),
	  .engines = TORCH & ~(IN(LLAMA_FACTORY) | IN(AXOLOTL)), .set = SET(HALF),
	  .unless = SET(QUANTISED), .not_tasks = TASK(PRETRAINED),
	  .text = "a smaller or quantised model, its parts over several cards, or a card with "
		  "more memory",
	  .first = "quantise the model, or spread it over several GPUs" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING),
	  .engines = TORCH & ~(IN(LLAMA_FACTORY) | IN(AXOLOTL)), .set = SET(HALF),
	  .unless = SET(QUANTISED), .tasks = TASK(PRETRAINED),
	  .text = "quantised weights (BitsAndBytesConfig(load_in_4bit=True)), or over several "
		  "cards or "
		  "the host (device_map=\"auto\")",
	  .first = "quantise the model, or spread it over several GPUs",
	  .fix = "quantization_config=BitsAndBytesConfig(load_in_4bit=True)" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING), .engines = TORCH,
	  .set = SET(QUANTISED),
	  .text = "a smaller model, or the same over several cards or the host "
		  "(device_map=\"auto\"): "
		  "it is quantised already",
	  .first = "a smaller model, or more GPUs" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(LOADING),
	  .engines = IN(PYTORCH) | IN(DEEPSPEED), .set = SET(TORCH_LOAD),
	  .text = "load a checkpoint to the host (map_location=\"cpu\"), and drop the old model "
		  "before the next is loaded",
	  .first = "load the checkpoint to the host first",
	  .fix = "torch.load(..., map_location=\"cpu\")" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(EVAL), .causes = OF(LEAK),
	  .engines = TORCH, .set = SET(HF_TRAINER),
	  .text = "move predictions to the host as they are made: eval_accumulation_steps=1; keep "
		  "predictions in place of logits: preprocess_logits_for_metrics",
	  .first = "predictions to the host as they are made: eval_accumulation_steps=1",
	  .fix = "eval_accumulation_steps=1" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(EVAL), .causes = OF(LEAK),
	  .engines = TORCH, .set = SET(HF_TRAINER),
	  .text = "predictions in place of logits: preprocess_logits_for_metrics",
	  .first = "predictions in place of logits: preprocess_logits_for_metrics",
	  .fix = "preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(EVAL), .engines = TORCH,
	  .set = SET(HF_TRAINER), .unless = SET(EVAL_BATCH),
	  .text = "with the Trainer: per_device_eval_batch_size=1, prediction_loss_only=True",
	  .first = "a smaller evaluation batch: per_device_eval_batch_size=1",
	  .fix = "per_device_eval_batch_size=1" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(EVAL), .causes = OF(LEAK),
	  .engines = TORCH, .unless = SET(HF_TRAINER),
	  .text = "move what evaluation keeps to the host at once (.cpu(), "
		  "eval_accumulation_steps), and keep predictions instead of logits "
		  "(preprocess_logits_for_metrics)",
	  .first = "move what evaluation keeps to the host at once (.cpu())",
	  .fix = "outputs.append(out.detach().cpu())" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(EVAL),
	  .engines = TORCH | IN(UNKNOWN), .unless = SET(EVAL_BATCH) | SET(HF_TRAINER),
	  .text = "torch.inference_mode() around it, and a smaller evaluation batch",
	  .first = "a smaller evaluation batch, under torch.inference_mode()",
	  .fix = "with torch.inference_mode():" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(EVAL), .engines = TORCH,
	  .text = "smaller or shorter inputs there too: evaluation often takes whole pictures and "
		  "the longest sequences, which training cuts" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .engines = IN(PYTORCH), .set = SET(MEDIA),
	  .doing = ~DOING(TRAINING),
	  .moments = AT(GENERATION) | AT(FORWARD) | AT(MOMENT_UNKNOWN) | AT(EVAL),
	  .text = "smaller or fewer pictures and frames for the model to see (max_pixels of the "
		  "processor), attention that holds no matrix of all pairs "
		  "(attn_implementation=\"sdpa\" or \"flash_attention_2\"), a quantised model",
	  .first = "smaller or fewer pictures (max_pixels of the processor)",
	  .fix = "AutoProcessor.from_pretrained(..., max_pixels=512*28*28)", .example = 1 },
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
	  .engines = IN(PYTORCH) | IN(DEEPSPEED), .doing = DOING(TRAINING), .unless = SET(BATCH),
	  .text = "a smaller micro-batch with gradient accumulation, smaller inputs (crop, "
		  "resolution, sequence length), and a bound on the longest",
	  .first = "a smaller micro-batch with more accumulation, or smaller inputs" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .doing = DOING(TRAINING),
	  .moments = AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), .causes = OF(CAPACITY),
	  .engines = IN(PYTORCH) | IN(DEEPSPEED), .set = SET(BATCH),
	  .text = "shorter sequences or smaller inputs (crop, a smaller resolution, a bound on the "
		  "longest)",
	  .first = "shorter sequences or smaller inputs" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .doing = DOING(TRAINING),
	  .moments = AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), .causes = OF(CAPACITY),
	  .engines = IN(PYTORCH) | IN(DEEPSPEED), .set = SET(HF_TRAINER), .unless = SET(BATCH),
	  .text = "with the Trainer: per_device_train_batch_size=1, gradient_accumulation_steps=8",
	  .first = "per_device_train_batch_size=1, gradient_accumulation_steps=8",
	  .fix = "per_device_train_batch_size=1, gradient_accumulation_steps=8", .example = 1 },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .doing = DOING(TRAINING),
	  .moments = AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), .causes = OF(CAPACITY),
	  .engines = IN(PYTORCH), .set = SET(LIGHTNING),
	  .text = "with Lightning: Trainer(accumulate_grad_batches=8, precision=\"bf16-mixed\")",
	  .first = "Trainer(accumulate_grad_batches=8, precision=\"bf16-mixed\")",
	  .fix = "Trainer(accumulate_grad_batches=8, precision=\"bf16-mixed\")", .example = 1 },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD,
	  .moments = AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), .causes = OF(CAPACITY),
	  .engines = IN(PYTORCH) | IN(DEEPSPEED), .doing = DOING(TRAINING), .set = SET(LANGUAGE),
	  .unless = SET(CHECKPOINTING),
	  .text = "gradient checkpointing; a fused loss that never holds all logits, where they "
		  "are what was asked for",
	  .fix = "model.gradient_checkpointing_enable()" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .doing = DOING(TRAINING),
	  .moments = AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), .causes = OF(CAPACITY),
	  .engines = IN(PYTORCH) | IN(DEEPSPEED) | IN(TRL), .set = SET(LANGUAGE),
	  .unless = SET(SMALL_STATE) | SET(QUANTISED), .not_tasks = TASK(ADAPTERS),
	  .text = "less for each parameter: LoRA or QLoRA in place of training all of them, an "
		  "8-bit "
		  "optimizer (optim=\"adamw_bnb_8bit\"), weights in 16 bits",
	  .fix = "optim=\"adamw_bnb_8bit\"" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .engines = IN(PYTORCH), .set = SET(LANGUAGE),
	  .doing = RUNS | DOING(EVALUATION), .facts = F_BIG, .unless = SET(MEDIA),
	  .moments = AT(GENERATION) | AT(FORWARD) | AT(MOMENT_UNKNOWN),
	  .text = "attention that holds no matrix of all pairs of tokens "
		  "(attn_implementation=\"sdpa\" or \"flash_attention_2\"), for long prompts",
	  .fix = "from_pretrained(..., attn_implementation=\"sdpa\")" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD,
	  .moments = AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), .causes = OF(CAPACITY),
	  .engines = IN(PYTORCH) | IN(DEEPSPEED), .doing = DOING(TRAINING),
	  .unless = SET(CHECKPOINTING) | SET(LANGUAGE),
	  .text = "gradient checkpointing; a part of it in 16 bits (torch.autocast)",
	  .first = "gradient checkpointing",
	  .fix = "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .causes = OF(CAPACITY), .facts = F_LENT,
	  .engines = TORCH, .doing = ~DOING(TRAINING),
	  .text = "a smaller or quantised model, or a card with more memory: it held far more than "
		  "this one has",
	  .first = "a smaller or quantised model, or idle parts on the host" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FORWARD) | AT(MOMENT_UNKNOWN),
	  .causes = OF(CAPACITY), .engines = TORCH,
	  .doing = DOING(GENERATING) | DOING(SERVING) | DOING(EVALUATION),
	  .text = "fewer or smaller inputs at a time, torch.inference_mode() around the model, "
		  "weights in 16 bits or quantised",
	  .first = "fewer or smaller inputs at a time", .fix = "with torch.inference_mode():" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .engines = IN(PYTORCH), .tasks = TASK(NATIVE),
	  .text = "a smaller batch or input; in C++ a c10::InferenceMode around the model "
		  "(torch::NoGradGuard before 1.9), which keeps nothing for gradients; a model in "
		  "16 bits",
	  .first = "a smaller batch or input", .fix = "c10::InferenceMode guard;" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .engines = IN(PYTORCH), .tasks = TASK(NATIVE),
	  .causes = OF(LEAK),
	  .text = "if memory grows from call to call: keep no tensors on the card beyond a call "
		  "(results to the CPU; in Java close each NDManager)",
	  .first = "keep no tensors on the GPU beyond a call, if memory grows" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FORWARD) | AT(MOMENT_UNKNOWN),
	  .causes = OF(CAPACITY), .engines = TORCH, .doing = DOING(UNKNOWN),
	  .text = "a smaller batch or input; where nothing is trained, torch.inference_mode() "
		  "around the model and weights in 16 bits",
	  .first = "a smaller batch or input" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FORWARD) | AT(MOMENT_UNKNOWN),
	  .causes = OF(CAPACITY), .engines = TORCH,
	  .doing = DOING(LOADING) | DOING(STARTING) | DOING(CONVERTING) | DOING(COMPILING),
	  .not_tasks = TASK(PRETRAINED),
	  .text = "a smaller model, or this one in 16 bits or over several cards; where it ran "
		  "already, a smaller batch or input",
	  .first = "a smaller or quantised model, or a smaller batch or input" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .moments = AT(FORWARD) | AT(MOMENT_UNKNOWN),
	  .causes = OF(CAPACITY), .engines = TORCH, .tasks = TASK(PRETRAINED),
	  .doing = DOING(LOADING) | DOING(STARTING) | DOING(CONVERTING) | DOING(COMPILING),
	  .text = "a smaller model, or this one in 16 bits, quantised or over several cards "
		  "(device_map=\"auto\"); where it ran already, a smaller batch or input",
	  .first = "a smaller or quantised model, or a smaller batch or input",
	  .fix = "from_pretrained(..., dtype=torch.bfloat16, device_map=\"auto\")" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .engines = TORCH, .set = SET(DEEPSPEED),
	  .doing = DOING(TRAINING), .unless = SET(SHARDED),
	  .moments = ~AT(LOADING) & ((1u << MESSAGES_MOMENTS) - 1),
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
	{ HELPS, .kinds = GPU, .bounds = BY(UNKNOWN) | BY(DEVICE), .backends = ON(CUDA),
	  .facts = F_OUTSIDE, .without = F_ELSEWHERE, .last = 1,
	  .text = "see who else holds the card (nvidia-smi): a part of it is neither free nor "
		  "PyTorch's (Windows keeps some for itself); end what is left over",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU, .facts = F_BARE, .engines = TORCH,
	  .moments = ~(AT(MOMENT_UNKNOWN) | AT(LOADING)) & ((1u << MESSAGES_MOMENTS) - 1),
	  .bounds = BY(UNKNOWN) | BY(DEVICE), .backends = ON(CUDA), .last = 1,
	  .text = "see who else holds the card (nvidia-smi): the driver's refusal does not tell "
		  "whose memory it was",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .engines = TORCH, .tasks = TASK(REPLICAS),
	  .doing = DOING(TRAINING), .last = 1,
	  .text = "DistributedDataParallel in place of DataParallel, which collects outputs and "
		  "gradients on the first card",
	  .first = "DistributedDataParallel in place of DataParallel",
	  .fix = "torchrun --nproc-per-node=2 train.py", .example = 1 },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .engines = TORCH | IN(DIFFUSERS),
	  .tasks = TASK(NOTEBOOK), .last = 1,
	  .text = "restart the notebook's kernel and run it once more: what earlier cells made, "
		  "and the traceback of a failed one, stays on the card" },
	{ HELPS, .kinds = GPU, .bounds = BY(DEVICE) | BY(UNKNOWN), .causes = OF(CAPACITY),
	  .engines = TORCH, .doing = DOING(TRAINING), .without = F_HUGE, .unless = SET(SHARDED),
	  .moments = AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), .last = 1,
	  .text = "if it is 1 at a time already: a smaller model, the model shared over several "
		  "cards (FSDP, DeepSpeed's ZeRO 3), or a card with more memory",
	  .first = "a smaller model, or a GPU with more memory" },
	{ HELPS, .kinds = GPU, .bounds = BY(DEVICE) | BY(UNKNOWN), .causes = OF(CAPACITY),
	  .engines = TORCH, .doing = RUNS | DOING(EVALUATION) | DOING(UNKNOWN), .without = F_HUGE,
	  .moments = AT(FORWARD) | AT(GENERATION) | AT(MOMENT_UNKNOWN), .last = 1,
	  .not_tasks = TASK(PRETRAINED),
	  .text = "if it is 1 at a time already: a smaller or quantised model, several cards, or "
		  "a card with more memory",
	  .first = "a smaller or quantised model, or a GPU with more memory" },
	{ HELPS, .kinds = GPU, .bounds = BY(DEVICE) | BY(UNKNOWN), .causes = OF(CAPACITY),
	  .engines = TORCH, .doing = RUNS | DOING(EVALUATION) | DOING(UNKNOWN), .without = F_HUGE,
	  .moments = AT(FORWARD) | AT(GENERATION) | AT(MOMENT_UNKNOWN), .last = 1,
	  .tasks = TASK(PRETRAINED),
	  .text = "if it is 1 at a time already: a smaller or quantised model, several cards "
		  "(device_map=\"auto\"), or a card with more memory",
	  .first = "a smaller or quantised model, or a GPU with more memory" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .causes = OF(FRAGMENTATION), .engines = CACHED,
	  .backends = CUDA_LIKE, .facts = F_FIXED | F_GAPS, .last = 1,
	  .text = "try PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512, which is cheap: it helps if "
		  "gaps are the cause, and only then (PyTorch 1.10 or newer)",
	  .first = "try PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512",
	  .fix = "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .causes = OF(FRAGMENTATION), .engines = CACHED,
	  .backends = CUDA_LIKE, .facts = F_GAPS, .without = F_FIXED, .unless = SET(EXPANDABLE),
	  .text = "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which is cheap: it helps "
		  "if gaps are the cause, and only then",
	  .first = "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
	  .fix = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" },
	{ HELPS, .kinds = GPU, .bounds = OWN_CARD, .causes = OF(FRAGMENTATION), .engines = CACHED,
	  .backends = ON(NPU), .unless = SET(EXPANDABLE),
	  .text = "try PYTORCH_NPU_ALLOC_CONF=expandable_segments:True, which is cheap: it helps "
		  "if "
		  "gaps are the cause, and only then",
	  .first = "try PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
	  .fix = "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True" },
	{ HELPS, .kinds = GPU, .backends = ON(NPU), .engines = IN(UNKNOWN),
	  .text = "see who holds the device (npu-smi info); a smaller batch or input, or more "
		  "devices",
	  .first = "a smaller batch or input; npu-smi info shows who holds the device",
	  .fix = "npu-smi info" },
	{ HELPS, .kinds = GPU, .backends = ON(HPU), .engines = TORCH | IN(UNKNOWN),
	  .text = "a smaller batch or input, bfloat16, PT_HPU_LAZY_MODE=1 with fewer shapes; "
		  "hl-smi "
		  "shows who holds the device",
	  .first = "a smaller batch or input", .fix = "hl-smi" },
	{ HELPS, .kinds = GPU, .engines = TORCH | PICTURES, .backends = ON(MPS),
	  .text = "a smaller batch or picture, or 16 bits: the GPU shares the machine's memory; "
		  "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts the limit and may stall the machine, "
		  "less with fewer other programs open",
	  .first = "a smaller batch or picture, or 16 bits" },
	{ HELPS, .kinds = GPU, .engines = TORCH | IN(UNKNOWN) | IN(JAX), .backends = ON(TPU),
	  .text = "a smaller batch a core, bfloat16, or the model sharded over more cores",
	  .first = "a smaller batch a core" },
	{ HELPS, .kinds = GPU, .engines = IN(UNKNOWN), .tasks = TASK(NO_NVIDIA),
	  .text = "see who else holds the card (radeontop, rocm-smi, intel_gpu_top; under Windows "
		  "the Task Manager), and under Windows a larger page file",
	  .first = "see who else holds the GPU" },
	{ HELPS, .kinds = GPU | KIND(BUDGET) | KIND(HOST), .engines = OTHERS,
	  .moments = AT(LOADING),
	  .text = "a smaller or quantised model, or a machine with more memory",
	  .first = "a smaller or quantised model" },
	{ HELPS, .kinds = KIND(BUDGET), .engines = OTHERS, .moments = LOADED,
	  .text = "less at a time: a smaller input, batch or model, or a larger share of the GPU "
		  "for it",
	  .first = "less at a time, or a larger share of the GPU for it" },
	{ HELPS, .kinds = GPU, .engines = OTHERS, .moments = LOADED,
	  .text = "less at a time: a smaller input, batch or model, or a card with more memory",
	  .first = "less at a time: a smaller input, batch or model" },
	{ HELPS, .kinds = GPU, .engines = OTHERS, .backends = ON(CUDA), .facts = F_CUDA,
	  .text = "see what else holds the GPU (nvidia-smi)",
	  .first = "see who else holds the GPU (nvidia-smi)",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU, .engines = IN(UNKNOWN), .backends = CUDA_LIKE, .without = F_XLA,
	  .not_tasks = TASK(NO_NVIDIA),
	  .text = "see who holds the card (nvidia-smi): the text tells neither the program nor how "
		  "much it had",
	  .first = "see who holds the GPU (nvidia-smi)",
	  .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv" },
	{ HELPS, .kinds = GPU, .engines = IN(UNKNOWN), .backends = ~(ON(NPU) | ON(HPU)),
	  .without = F_XLA,
	  .text = "less at a time: a smaller batch or input, a smaller or quantised model, or a "
		  "card with more memory",
	  .first = "a smaller batch, input or model" },

	/* -- host memory -- */
	{ HELPS, .kinds = KIND(CGROUP_KILL), .facts = F_SLURM | F_LIMIT,
	  .text = "ask for more memory: #SBATCH --mem={more}, or --mem-per-cpu; /dev/shm and tmpfs "
		  "count into it",
	  .first = "ask for more memory (Slurm --mem={more})", .fix = "#SBATCH --mem={more}",
	  .example = 1 },
	{ HELPS, .kinds = KIND(CGROUP_KILL), .facts = F_SLURM, .without = F_LIMIT,
	  .text = "ask for more memory: #SBATCH --mem or --mem-per-cpu (seff JOB, or sacct -j JOB "
		  "-o "
		  "MaxRSS,ReqMem, tells what it had); /dev/shm and tmpfs count into it",
	  .first = "ask for more memory (Slurm --mem)" },
	{ HELPS, .kinds = KIND(CGROUP_KILL), .facts = F_KUBERNETES | F_LIMIT,
	  .text = "ask for more memory: resources.limits.memory: {more}i, and the request with it; "
		  "a /dev/shm of medium Memory counts into it",
	  .first = "ask for more memory (Kubernetes resources.limits.memory: {more}i)",
	  .fix = "resources: {limits: {memory: {more}i}}", .example = 1 },
	{ HELPS, .kinds = KIND(CGROUP_KILL), .facts = F_KUBERNETES, .without = F_LIMIT,
	  .text = "ask for more memory: the container's resources.limits.memory, and the request "
		  "with it; a /dev/shm of medium Memory counts into it",
	  .first = "ask for more memory (Kubernetes resources.limits.memory)" },
	{ HELPS, .kinds = KIND(CGROUP_KILL), .facts = F_DOCKER,
	  .text = "ask for more memory: a larger docker run --memory (Compose: mem_limit), or "
		  "none; "
		  "/dev/shm counts into it",
	  .first = "ask for more memory (docker --memory)" },
	{ HELPS, .kinds = KIND(CGROUP_KILL), .facts = F_LIMIT,
	  .without = F_SLURM | F_KUBERNETES | F_DOCKER | F_OWN_LIMIT,
	  .text = "ask for more memory than it had, {more}: Slurm --mem, Kubernetes "
		  "resources.limits.memory, docker --memory, systemd's MemoryMax; /dev/shm and "
		  "tmpfs count into it",
	  .first = "more memory, {more}: --mem, limits.memory, docker --memory" },
	{ HELPS, .kinds = KIND(CGROUP_KILL),
	  .without = F_SLURM | F_KUBERNETES | F_DOCKER | F_OWN_LIMIT | F_LIMIT,
	  .text = "ask for more memory: Slurm --mem or --mem-per-cpu, Kubernetes "
		  "resources.limits.memory, docker --memory, systemd's MemoryMax; /dev/shm and "
		  "tmpfs count into it",
	  .first = "more memory: Slurm --mem, Kubernetes limits.memory, docker -m" },
	{ HELPS, .kinds = KIND(HOST_KILL), .facts = F_KUBERNETES,
	  .text = "a resources.requests.memory as large as what it uses, so that it is put where "
		  "there is room and is not the first to be evicted; or a node with more memory",
	  .first = "resources.requests.memory as large as its use, or a larger node" },
	{ HELPS, .kinds = KIND(HOST), .facts = F_FORK, .without = F_WINDOWS,
	  .text = "more swap, or vm.overcommit_memory=1: a new process was refused, as a rule, "
		  "which is promised "
		  "as much as the one that starts it holds, though it will use little of it; or "
		  "less held at that moment, and helpers started before the program grows",
	  .first = "more swap, or sysctl vm.overcommit_memory=1",
	  .fix = "sysctl vm.overcommit_memory=1" },
	{ HELPS, .kinds = KIND(HOST), .facts = F_LARGE, .not_tasks = TASK(ARRAYS),
	  .engines = (TORCH & ~IN(DEEPSPEED)) | PICTURES | IN(UNKNOWN) | IN(TENSORFLOW) | IN(JAX) |
		     IN(RAPIDS) | IN(ULTRALYTICS),
	  .text = "one piece of that size is seldom meant: check the shape and type of what is "
		  "made, or work in parts",
	  .first = "check whether so much memory was meant, or work in parts" },
	{ HELPS, .kinds = KIND(HOST), .facts = F_LARGE, .tasks = TASK(ARRAYS),
	  .engines = TORCH | PICTURES | IN(UNKNOWN) | IN(TENSORFLOW) | IN(JAX),
	  .text = "one array of that size is seldom meant: check its shape and dtype, or work in "
		  "parts (chunks, np.memmap, a generator)",
	  .first = "check whether so much memory was meant, or work in parts" },
	{ HELPS, .kinds = HOSTS, .facts = F_WINDOWS,
	  .text = "a larger page file (System, Advanced, Performance, Virtual memory: system "
		  "managed): Windows promises no more than memory and page file together",
	  .first = "a larger page file" },
	{ HELPS, .kinds = HOSTS, .moments = AT(LOADING),
	  .engines = TORCH | IN(UNKNOWN) | IN(VLLM) | PICTURES,
	  .text = "do not hold the checkpoint twice: safetensors, low_cpu_mem_usage=True, "
		  "mmap=True; of several ranks let one load (accelerate: "
		  "fsdp_cpu_ram_efficient_loading: true; with ZeRO 3 zero3_init_flag: true)",
	  .first = "hold the checkpoint once: safetensors, low_cpu_mem_usage=True",
	  .fix = "from_pretrained(..., low_cpu_mem_usage=True)" },
	{ HELPS, .kinds = HOSTS, .moments = AT(LOADING),
	  .engines = TORCH | IN(UNKNOWN) | IN(VLLM) | PICTURES,
	  .text = "a smaller model, or one in 16 bits or quantised: its weights pass through host "
		  "memory" },
	{ HELPS, .kinds = KILLS, .moments = AT(SAVING), .engines = TORCH | IN(UNKNOWN),
	  .text = "save sharded, or one rank at a time: gathering the whole state costs host "
		  "memory" },
	{ HELPS, .kinds = HOSTS, .engines = TORCH, .set = SET(OFFLOADED),
	  .text = "more memory of the machine, or offload less to it (the optimizer's state on the "
		  "host is 12 bytes a parameter), or offload to a disk (offload_optimizer: nvme)",
	  .first = "more host memory, or offload less to the host" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(TRAINING), .engines = IN(DEEPSPEED),
	  .unless = SET(OFFLOADED),
	  .text = "offload less to the host (offload_optimizer, offload_param in the ZeRO "
		  "section), or pin_memory: false: optimizer states there are 12 bytes a parameter",
	  .first = "offload less to the host" },
	{ HELPS, .kinds = KILLS, .doing = DOING(TRAINING) | DOING(EVALUATION), .engines = TORCH,
	  .text = "fewer DataLoader workers (num_workers), a smaller prefetch_factor: each worker "
		  "may end with its own copy of the data set; less that is offloaded to the host",
	  .first = "more host memory, fewer DataLoader workers, or less offloaded",
	  .fix = "num_workers=2, prefetch_factor=1", .unless = SET(WORKERS), .example = 1 },
	{ HELPS, .kinds = KILLS, .tasks = TASK(SHARDS), .last = 1, .engines = TORCH | IN(UNKNOWN),
	  .moments = LOADED,
	  .text = "not the whole checkpoint in every rank, if it died at the load: "
		  "low_cpu_mem_usage=True, accelerate's fsdp_cpu_ram_efficient_loading: true, with "
		  "ZeRO 3 zero3_init_flag: true" },
	{ HELPS, .kinds = KIND(HOST), .doing = DOING(TRAINING) | DOING(EVALUATION),
	  .engines = TORCH,
	  .text = "fewer DataLoader workers (num_workers), a smaller prefetch_factor: each worker "
		  "may end with its own copy of the data set",
	  .first = "fewer DataLoader workers", .fix = "num_workers=2, prefetch_factor=1",
	  .unless = SET(WORKERS), .example = 1 },
	{ HELPS, .kinds = HOSTS, .doing = DOING(TRAINING) | DOING(EVALUATION),
	  .engines = TORCH | IN(TENSORFLOW) | IN(JAX),
	  .text = "keep the data set in arrays or memory-mapped files (numpy, Arrow), not in "
		  "Python lists of objects: reference counts copy shared pages",
	  .first = "keep the data set in arrays or memory-mapped files" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(EVALUATION), .engines = TORCH,
	  .text = "keep less of each batch: predictions in place of logits "
		  "(preprocess_logits_for_metrics); what evaluation gathers lies in host memory",
	  .first = "keep predictions in place of logits (preprocess_logits_for_metrics)" },
	{ HELPS, .kinds = HOSTS, .doing = RUNS,
	  .engines = TORCH | PICTURES | IN(SGLANG) | IN(UNKNOWN),
	  .text = "a smaller model or input, or less kept on the host (swap space, offloaded "
		  "weights, caches)" },
	{ HELPS, .kinds = HOSTS, .engines = PICTURES,
	  .text = "smaller model files (fp8 or GGUF), fewer models kept in memory, more swap or a "
		  "larger page "
		  "file",
	  .first = "smaller model files, or more swap" },
	{ HELPS, .kinds = HOSTS, .engines = IN(VLLM), .set = SET(V1),
	  .text = "less on the host: fewer requests at a time (--max-num-seqs) and, of pictures "
		  "and "
		  "videos, fewer of them kept (--mm-processor-cache-gb 1, --limit-mm-per-prompt), "
		  "a "
		  "smaller --cpu-offload-gb; or more memory for the container",
	  .first = "fewer requests with pictures at a time, or more container memory",
	  .fix = "--mm-processor-cache-gb 1", .example = 1 },
	{ HELPS, .kinds = HOSTS, .engines = IN(VLLM), .unless = SET(V1),
	  .text = "less on the host: a smaller --swap-space and --cpu-offload-gb, fewer loaders at "
		  "a time "
		  "(--max-parallel-loading-workers), or more memory for the container",
	  .first = "more container memory, or a smaller --swap-space, --cpu-offload-gb" },
	{ HELPS, .kinds = HOSTS, .without = F_PINNED, .engines = IN(TENSORFLOW) | IN(JAX),
	  .text = "less at a time: a smaller batch or input, fewer workers, data read in parts",
	  .first = "a smaller batch or input, or fewer workers" },
	{ HELPS, .kinds = KIND(HOST), .doing = DOING(UNKNOWN), .facts = F_PYTHON | F_FILLED,
	  .without = F_FORK | F_WINDOWS, .engines = TORCH | IN(UNKNOWN),
	  .text = "see what fills the machine's memory, since so little was refused: lists and "
		  "buffers that grow, workers, other programs",
	  .first = "see what fills the host's memory: little was asked for" },
	{ HELPS, .kinds = KIND(HOST), .doing = DOING(UNKNOWN), .facts = F_PYTHON,
	  .without = F_LARGE, .engines = IN(UNKNOWN), .not_tasks = TASK(ARRAYS),
	  .text = "less at a time: smaller inputs, or the same read in parts; drop what is no "
		  "longer needed",
	  .first = "less at a time: smaller inputs, or read in parts" },
	{ HELPS, .kinds = KIND(HOST), .doing = DOING(UNKNOWN), .facts = F_PYTHON,
	  .without = F_LARGE | F_TEXTS, .engines = IN(UNKNOWN), .tasks = TASK(ARRAYS),
	  .text = "less at a time: smaller inputs, or the same read in parts (chunks, np.memmap); "
		  "a "
		  "smaller dtype (float32 instead of float64); drop what is no longer needed",
	  .first = "less at a time: smaller inputs, or read in parts" },
	{ HELPS, .kinds = KILLS, .doing = DOING(UNKNOWN), .facts = F_PYTHON, .engines = IN(UNKNOWN),
	  .text = "if it trains: fewer data workers, and the data set in arrays or memory-mapped "
		  "files; if it runs a model: a smaller one, or smaller inputs",
	  .first = "less in host memory: fewer data workers, a smaller model or inputs" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(UNKNOWN), .facts = F_PYTHON, .without = F_LARGE,
	  .engines = TORCH | IN(TENSORFLOW) | IN(JAX),
	  .text = "less at a time: smaller inputs or a smaller model; if it trains: fewer "
		  "DataLoader workers (num_workers), and the data set in arrays or memory-mapped "
		  "files",
	  .first = "smaller inputs or model, or fewer DataLoader workers" },
	{ HELPS, .kinds = KIND(HOST_KILL) | KIND(KILLED) | KIND(HOST), .facts = F_WINDOWS,
	  .text = "more host memory, or less needed of it: less data held at a time, smaller "
		  "inputs, fewer workers or programs at a time",
	  .first = "more host memory, or less data and fewer programs" },
	{ HELPS, .kinds = KIND(HOST_KILL) | KIND(KILLED) | KIND(HOST),
	  .without = F_WINDOWS | F_KUBERNETES,
	  .text = "more host memory, or less needed of it: less data held at a time, smaller "
		  "inputs, fewer workers or processes at a time, more swap (under WSL memory= and "
		  "swap= in .wslconfig)",
	  .first = "more host memory, or less data and fewer workers" },
	{ HELPS, .kinds = KIND(CGROUP_KILL),
	  .doing = DOING(UNKNOWN) | RUNS | DOING(LOADING) | DOING(STARTING),
	  .without = F_OWN_LIMIT | F_PYTHON, .last = 1, .engines = TORCH | IN(UNKNOWN),
	  .text = "or less needed of it: fewer workers or processes, smaller inputs or a smaller "
		  "model, data read in parts" },
	{ HELPS, .kinds = HOSTS, .doing = DOING(TRAINING), .engines = IN(UNKNOWN),
	  .text = "a smaller batch (all of it, if it trains on the CPU), fewer data workers, and "
		  "the data set in arrays or memory-mapped files",
	  .first = "a smaller batch, fewer data workers, or less data in memory" },
	{ HELPS, .kinds = KIND(SHARED), .set = SET(WORKERS), .without = F_NCCL,
	  .text = "without workers nothing of a batch lies in /dev/shm: a bus error is then of a "
		  "file that is mapped and is shorter than it was, or broken (lmdb, np.memmap, a "
		  "network's disk): make it anew",
	  .first = "make the mapped data file anew (lmdb, np.memmap)" },
	{ HELPS, .kinds = KIND(SHARED),
	  .text = "a larger /dev/shm: docker --shm-size=16g or --ipc=host; Kubernetes: an emptyDir "
		  "with medium: Memory at /dev/shm",
	  .first = "a larger /dev/shm", .fix = "docker run --shm-size=16g", .example = 1 },
	{ HELPS, .kinds = KIND(SHARED), .facts = F_NCCL,
	  .text = "NCCL without it, which is slower within a machine: NCCL_SHM_DISABLE=1",
	  .fix = "NCCL_SHM_DISABLE=1" },
	{ HELPS, .kinds = KIND(SHARED), .engines = TORCH | IN(UNKNOWN), .without = F_NCCL,
	  .text = "fewer workers or a smaller prefetch_factor: each batch under way lies in "
		  "/dev/shm; num_workers=0 needs none",
	  .first = "fewer DataLoader workers", .fix = "num_workers=0", .unless = SET(WORKERS) },
	{ HELPS, .kinds = KIND(SHARED),
	  .text = "remove what dead jobs left behind: ls -l /dev/shm (torch_*, nccl-*, psm_*)",
	  .fix = "ls -l /dev/shm" },

	/* -- what people try, and does not help -- */
	{ USELESS, .kinds = GPU, .bounds = BY(OTHER_PROCESS) | BY(NON_PYTORCH), .engines = CACHED,
	  .without = F_GAPS,
	  .text = "allocator settings and empty_cache(): the memory is in other hands" },
	{ USELESS, .kinds = GPU, .bounds = OWN_CARD, .engines = TORCH, .backends = CUDA_LIKE,
	  .causes = OF(CAPACITY) | OF(LEAK) | OF(FRAGMENTATION),
	  .without = F_HANDLE, /* cuBLAS asks the driver itself */
	  .text = "torch.cuda.empty_cache(): PyTorch gives back what is free in whole segments "
		  "before it fails" },
	{ USELESS, .kinds = GPU, .bounds = OWN_CARD, .only = OF(CAPACITY) | OF(LEAK),
	  .engines = TORCH, .backends = CUDA_LIKE, .causes = OF(CAPACITY) | OF(LEAK),
	  .without = F_GAPS | F_BARE,
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
	{ USELESS, .kinds = KIND(CGROUP_KILL), .without = F_OWN_LIMIT,
	  .text = "that the machine has memory free: the limit is the group's" },
	{ USELESS, .kinds = KIND(SHARED),
	  .text = "more host memory: /dev/shm has a size of its own (df -h /dev/shm)" },
	{ USELESS, .kinds = KIND(BUDGET), .engines = IN(VLLM) | IN(SGLANG),
	  .text = "PYTORCH_CUDA_ALLOC_CONF: the server decides beforehand what it takes" },

	/* -- how to be certain -- */
	{ CERTAIN, .kinds = GPU, .bounds = OWN_CARD, .engines = TORCH, .backends = CUDA_LIKE,
	  .without = F_WINDOWS,
	  .doing = DOING(TRAINING) | DOING(EVALUATION) | DOING(UNKNOWN) | DOING(LOADING),
	  .text = "plimsoll record -- python train.py, then plimsoll why LOG --snapshot FILE: the "
		  "recording tells who held the memory and what was still to come" },
	{ CERTAIN, .kinds = GPU, .bounds = OWN_CARD, .engines = TORCH, .backends = CUDA_LIKE,
	  .without = F_WINDOWS, .doing = RUNS,
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
const size_t advice_row_count = sizeof(advice_rows) / sizeof(advice_rows[0]);
