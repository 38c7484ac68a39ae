/*
 * What programs write when memory fails, one row a wording, and what is often taken for it.  The
 * first row that fits a line counts.  Wordings are from the programs' sources, which the comments
 * name; a pattern holds what has stayed the same over releases.
 */
#include "scan.h"

const char *const messages_family_names[MESSAGES_FAMILIES] = {
	"PyTorch",    "CUDA",      "ROCm",    "XPU",     "NCCL",       "DataLoader", "Python",
	"shell",      "launcher",  "kernel",  "Slurm",   "Kubernetes", "systemd",    "XLA",
	"TensorFlow", "llama.cpp", "serving", "library", "words",
};

#define SHM_SAYS "processes pass tensors through /dev/shm, and it is full or too small"
#define BUS_ERROR                                                                             \
	"a process touched memory that could not be had: a full /dev/shm, as a rule; a file " \
	"cut while it was mapped says the same"
#define FULL_CARD                                                                              \
	"the library could not get memory for itself, outside PyTorch's allocator: as a rule " \
	"the card was full"
#define NO_ALGORITHM                                                                         \
	"cuDNN found no algorithm whose workspace it could get: a full card, as a rule; an " \
	"unsupported shape or type says the same"
#define LEAVE_ROOM                                                                             \
	"leave room on the GPU for libraries: a smaller batch; in PyTorch, whose cache takes " \
	"all, "                                                                                \
	"torch.cuda.set_per_process_memory_fraction(0.9)"
#define NCCL_BUFFERS                                                                            \
	"NCCL could not get memory for its buffers, outside PyTorch's allocator: the card was " \
	"full"
#define BLOCKING \
	"run it again with CUDA_LAUNCH_BLOCKING=1: the traceback then shows the call that failed"
#define OTHER_RANK                                                                             \
	"look at the other ranks' logs: one of them died, hung or was slower before this one " \
	"gave up"
#define GPU_BROKEN                                                                                 \
	"look at dmesg and nvidia-smi -q -d ECC,PAGE_RETIREMENT; drain the node, a smaller batch " \
	"does not help"

#define GROUP_SAYS                                                                               \
	"the container runtime counts kills in the container's cgroup: at its limit as a rule, " \
	"but "                                                                                   \
	"also when the whole node had run out; the node's kernel log tells which"
#define UNIT_SAYS                                                                              \
	"systemd counts kills in the unit's cgroup: at its limit (MemoryMax), or because the " \
	"whole "                                                                               \
	"machine had run out; the kernel's log tells which"
#define OOMD_SAYS                                                                                  \
	"systemd-oomd killed it before the kernel had to, for pressure or for swap that was used " \
	"up"
#define OOMD_HELPS                                                                             \
	"systemd-run --scope with ManagedOOMPreference=avoid for the job, or more swap: oomd " \
	"acts "                                                                                \
	"on pressure and swap (oomctl shows its limits)"
#define RAY_SAYS \
	"Ray killed it before the kernel had to: its node stood above RAY_memory_usage_threshold"
#define LOST_SAYS "a process ended without a word: killed for host memory, or crashed"
#define LOST_HELPS                                                                               \
	"fewer processes at a time (num_proc, n_jobs, max_workers), or more host memory; dmesg " \
	"-T tells whether the kernel killed it, and with one process a crash shows itself"
#define COMPILER_SAYS "a compiler or linker was ended by SIGKILL: for host memory as a rule"
#define COMPILER_HELPS \
	"fewer compilers at a time (MAX_JOBS=2, make -j2, ninja -j2, cargo build -j2)"
#define PBS_HELPS "ask for more memory: #PBS -l select=1:mem=..., or -l mem=..."
#define TEXT_SAYS                                                                               \
	"every text of such an array takes as much as its longest one, at 4 bytes a character " \
	"(<U)"
#define TEXT_HELPS \
	"texts of their own length: np.array(x, dtype=object), a list, or pandas' string type"
#define CRASHED "a process crashed in native code (segmentation fault): not memory that ran out"
#define FIND_CRASH                                                                              \
	"python -X faulthandler shows the Python line that it crashed in; libraries built for " \
	"another release of CUDA or PyTorch are the usual cause"
#define OFF_HEAP_SAYS                                                                            \
	"JavaCPP's own limit of memory outside Java's heap (ND4J, DL4J), or the machine's: not " \
	"the heap of -Xmx"
#define OFF_HEAP_HELPS                                                                            \
	"a larger -Dorg.bytedeco.javacpp.maxbytes and maxphysicalbytes (0: no limit), a smaller " \
	"-Xmx, which leaves more beside the heap, workspaces, or a smaller batch"
#define IN_WORDS \
	"no program's own message is in the text: who tells of it says so, and why is not known"
#define RAY_RAISED                                                                               \
	"Ray's monitor stopped the task before the kernel had to: its node stood above 95 % of " \
	"its memory"
#define RAY_HELPS "fewer tasks at a time (num_cpus of each task), or more memory for the node"

#define BAD_INDEX                                                                        \
	"a kernel checked an index and it was out of its range (a label, a token id, a " \
	"position): "                                                                    \
	"not memory"
#define FIND_INDEX \
	"run it on the CPU, or with CUDA_LAUNCH_BLOCKING=1: the traceback then shows the lookup"
#define PROGRAMS_FAULT \
	"a program's kernel did what it must not: a bug of that program, not memory that ran out"
#define RESET_CARD                                                                             \
	"the card itself fails: nvidia-smi -q -d ECC,PAGE_RETIREMENT; take it out of use and " \
	"reset "                                                                               \
	"or replace it"
#define PINNED_XLA                                                                              \
	"less of the machine's memory in use: a shorter input or a smaller batch, fewer other " \
	"programs; under WSL more memory in .wslconfig"
#define KERNEL_SAYS \
	"the notebook's kernel died without a word: killed for host memory as a rule, or crashed"
#define NNUNET_SAYS                                                                            \
	"a process that reads or prepares data is gone: killed for host memory as a rule, or " \
	"ended by an error that stands above"
#define NNUNET_HELPS                                                                             \
	"fewer such processes: nnUNet_n_proc_DA=4 to train, -npp 1 -nps 1 to predict, -np 2 to " \
	"prepare; more memory, also for the container"
#define PHYSX_HELPS                                                                             \
	"fewer environments at a time (--num_envs 512), smaller buffers of PhysX, no cameras (" \
	"--headless); nvidia-smi shows who else holds the card"
#define OPENCL_HELPS                                                                          \
	"smaller buffers: less data at a time (of LightGBM fewer rows or columns, a smaller " \
	"max_bin), or device_type=cuda or cpu, which have no such limit"
#define ONE_BUFFER \
	"the driver gives no single buffer of that size, however much of the card is free"
#define BAD_LABEL_TOO                                                                             \
	"cuBLAS could not make its handle: the card was full, or a kernel before it had read an " \
	"index out of range (a label, a token id), which looks the same"

const struct messages_wording scan_wordings[] = {
	/* -- PyTorch: c10/cuda/CUDACachingAllocator.cpp, c10/xpu, aten mps, cudaMallocAsync -- */
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1,
	  "MPS backend out of memory (MPS allocated: {allocated2}, other allocations: {others2}, "
	  "max "
	  "allowed: {allowed2}). Tried to allocate {tried2}",
	  NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "out of", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1,
	  "INTERNAL ASSERT FAILED at*CUDACachingAllocator.cpp",
	  "PyTorch's allocator failed while it wrote an out-of-memory message (NVML did not "
	  "answer): "
	  "the card was full",
	  NULL },
	/* Triton's on-chip memory: triton/runtime/errors.py */
	{ MESSAGES_LIBRARY, MESSAGES_OTHER, 1, "out of resource: shared memory",
	  "a Triton kernel wants more of the GPU's on-chip shared memory than there is: not the "
	  "card's memory",
	  "smaller block sizes or fewer stages (num_stages) of that kernel; a smaller batch does "
	  "not "
	  "help" },
	/* -- JAX, XLA: xla/service, tsl/framework/bfc_allocator.cc -- */
	{ MESSAGES_JAX, MESSAGES_DEVICE, 1,
	  "Resource exhausted: Out of memory while trying to allocate {tried}", NULL, NULL },
	/* cut by a terminal's edge behind its first word */
	{ MESSAGES_JAX, MESSAGES_DEVICE, 1, "local_client.cc:*Resource exhausted: Out", NULL,
	  NULL },
	{ MESSAGES_JAX, MESSAGES_DEVICE, 1,
	  "RESOURCE_EXHAUSTED: Out of memory while trying to allocate {tried}", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1,
	  "ResourceExhaustedError: Out of memory while trying to allocate {tried}", NULL, NULL },
	/* pjrt/cpu, cpu_executable.cc: of the card it is "while trying to allocate" */
	{ MESSAGES_JAX, MESSAGES_HOST, 0, "RESOURCE_EXHAUSTED: Out of memory allocating {tried}",
	  "XLA's words where it computes on the processor: the machine's memory, not a card's",
	  "see that XLA finds the card, if it should (without a build for it, it computes on the "
	  "processor), or less at a time" },
	{ MESSAGES_JAX, MESSAGES_DEVICE, 1,
	  "Ran out of memory in memory space hbm. Used {used} of {total} hbm", NULL, NULL },
	{ MESSAGES_JAX, MESSAGES_DEVICE, 1,
	  "RESOURCE_EXHAUSTED: Attempting to reserve {tried} at the bottom of memory", NULL, NULL },
	{ MESSAGES_JAX, MESSAGES_DEVICE, 1, "Attempting to reserve {tried} at the bottom of memory",
	  NULL, NULL },
	{ MESSAGES_JAX, MESSAGES_OTHER, 1, "Ran out of memory in memory space vmem",
	  "a TPU kernel wants more of the core's on-chip memory (vmem) than there is: not its HBM",
	  "smaller blocks of that Pallas kernel, or a larger --xla_tpu_scoped_vmem_limit_kib" },
	{ MESSAGES_JAX, MESSAGES_OTHER, 1, "exceeded scoped vmem limit",
	  "a TPU kernel wants more of the core's on-chip memory (vmem) than there is: not its HBM",
	  "smaller blocks of that Pallas kernel, or a larger --xla_tpu_scoped_vmem_limit_kib" },
	{ MESSAGES_JAX, MESSAGES_DETAIL, 1, "preallocated temp allocation: {rss}", NULL, NULL },
	{ MESSAGES_JAX, MESSAGES_DETAIL, 1, "total allocation: {used}", NULL, NULL },
	{ MESSAGES_JAX, MESSAGES_HOST, 1, "failed to alloc {tried} on host", PINNED_SAYS,
	  PINNED_XLA },
	{ MESSAGES_JAX, MESSAGES_HOST, 1, "could not allocate pinned host memory of size: {tried}",
	  PINNED_SAYS, PINNED_XLA },
	{ MESSAGES_JAX, MESSAGES_HOST, 1, "Out of memory allocating {tried} on host", NULL, NULL },
	{ MESSAGES_JAX, MESSAGES_DEVICE, 1, "RESOURCE_EXHAUSTED: *Out of memory", NULL, NULL },
	{ MESSAGES_JAX, MESSAGES_DEVICE, 1,
	  "Failed to allocate request for {tried} * on device ordinal {device}", NULL, NULL },
	/* -- TensorFlow -- */
	{ MESSAGES_TENSORFLOW, MESSAGES_NOTHING, 1,
	  "The caller indicates that this is not a failure", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1,
	  "OOM when allocating tensor with shape{shape}*on */device:GPU:{device}", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_HOST, 1,
	  "OOM when allocating tensor with shape{shape}*on */device:CPU:", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_HOST, 1,
	  "OOM when allocating tensor with shape{shape}*by allocator cpu", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1, "OOM when allocating tensor with shape{shape}",
	  NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1, "OOM when allocating tensor", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1,
	  "ResourceExhaustedError: failed to allocate memory", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1,
	  "Allocator (GPU_{device}_bfc) ran out of memory trying to allocate {tried}", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_HOST, 1,
	  "Allocator (cpu) ran out of memory trying to allocate {tried}", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_HOST, 1,
	  "Allocator (mklcpu) ran out of memory trying to allocate {tried}", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1, /* 1.x: bfc_allocator.cc */
	  "Ran out of memory trying to allocate {tried}", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1, /* eager/execute.cc: no room for the copy */
	  "device:GPU:{device} in order to run*Dst tensor is not initialized",
	  "TensorFlow found no room on the card for a tensor that it copied there", NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1, "Dst tensor is not initialized",
	  "TensorFlow found no room on the card for a tensor that it copied there", NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DETAIL, 1, "|Limit: {limit}", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DETAIL, 1, "|InUse: {used}", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1,
	  "failed to allocate {tried} * from device: *CUDA_ERROR_OUT_OF_MEMORY", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1,
	  "failed to allocate {tried} * from device: *HIP_ERROR_OutOfMemory", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 1,
	  "failed to allocate {tried} * from device: hipError", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_NOTHING, 1, "exceeds {code}% of free system memory", NULL,
	  NULL },
	/* -- llama.cpp: ggml/src -- */
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1,
	  "alloc_buffer: allocating {tried} on device {device}: cudaMalloc failed: out of memory",
	  NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1,
	  "allocating {tried} on device {device}: cudaMalloc failed: out of memory", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1,
	  "failed to allocate CUDA{device} buffer of size {tried}", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1,
	  "failed to allocate ROCm{device} buffer of size {tried}", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1,
	  "failed to allocate Vulkan{device} buffer of size {tried}", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1,
	  "failed to allocate SYCL{device} buffer of size {tried}", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "failed to allocate Metal buffer of size {tried}",
	  NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 1, "failed to allocate CPU buffer of size {tried}",
	  NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 1,
	  "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size {tried}",
	  NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DETAIL, 1, "failed to allocate {tried} of pinned memory",
	  NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DETAIL, 1, "ggml_vulkan: Failed to allocate pinned memory",
	  NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "ggml_metal*error: failed to allocate buffer",
	  NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "requested buffer size exceeds device*limit",
	  ONE_BUFFER, NULL },
	/* memory of the host that the card reads */
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 1, "unable to allocate CUDA_Host buffer", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 1, "unable to allocate ROCm_Host buffer", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 1, "unable to allocate Vulkan_Host buffer", NULL,
	  NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 1, "unable to allocate SYCL_Host buffer", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "failed to allocate CUDA{device} buffer", NULL,
	  NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "unable to allocate CUDA{device} buffer", NULL,
	  NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "unable to allocate Vulkan{device} buffer", NULL,
	  NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "unable to allocate ROCm{device} buffer", NULL,
	  NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "unable to allocate SYCL{device} buffer", NULL,
	  NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "unable to allocate Metal buffer", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 1, "unable to allocate CPU buffer", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1,
	  "error loading model: unable to allocate backend buffer", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "failed to allocate buffer for kv cache", NULL,
	  NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DETAIL, 1, "msg=\"gpu memory\"*available=\"{free}\"", NULL,
	  NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "Device memory allocation of size {tried} failed",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* mlx/backend/metal/device.cpp */
	  "[METAL] Command buffer execution failed: Insufficient Memory", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "kIOGPUCommandBufferCallbackErrorOutOfMemory",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* mlx/backend/metal/allocator.cpp */
	  "[metal::malloc] Attempting to allocate {tried} which is greater than the maximum "
	  "allowed buffer size of {allowed}",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "[malloc_or_wait] Unable to allocate {tried}", NULL,
	  NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "ErrorOutOfDeviceMemory", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 1,
	  "insufficient memory (attempted to allocate {tried})", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 0,
	  "may not have enough available memory to run this model", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 0, "may not have enough memory to load the model",
	  NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 1,
	  "model requires more system memory ({tried}) than is available ({free})", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "PaddleCheckError: out of memory", NULL, NULL },
	/* -- serving: vllm/worker, vllm/v1/core/kv_cache_utils.py, sglang, TGI -- */
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1, "is preempted by PreemptionMode", /* vLLM */
	  "the KV cache had no room for all requests at once: vLLM put one off and went on, which "
	  "costs speed",
	  NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "raise_if_cache_size_invalid(", /* what it says is cut off */
	  "the server's share left too little KV cache for one request of the full length", NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1, "No available memory for the cache blocks",
	  "after the weights and one profiling pass, nothing of the server's share was left for "
	  "the "
	  "KV cache",
	  NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "{tried} KV cache is needed, which is larger than the available KV cache memory "
	  "({free})*estimated maximum model length is {fits}",
	  "one request of the full length needs more KV cache than the server's share leaves",
	  NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "{tried} KV cache is needed, which is larger than the available KV cache memory ({free})",
	  "one request of the full length needs more KV cache than the server's share leaves",
	  NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "max seq len ({wanted}) is larger than the maximum number of tokens that can be stored "
	  "in KV "
	  "cache ({fits})",
	  "one request of the full length needs more KV cache than the server's share leaves",
	  NULL },
	/* the same, cut by a terminal's edge */
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "larger than the available KV cache memory ({free})",
	  "one request of the full length needs more KV cache than the server's share leaves",
	  NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "max seq len ({wanted}) is larger than the maximum number of tokens",
	  "one request of the full length needs more KV cache than the server's share leaves",
	  NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 0,
	  "Free memory on device*({free}/{total})*on startup is less than desired GPU memory "
	  "utilization ({share}, {limit})",
	  "somebody else holds a part of the card already", NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 0,
	  "Free memory on device*on startup is less than desired GPU memory utilization",
	  "somebody else holds a part of the card already", NULL },
	{ MESSAGES_SERVING, MESSAGES_DEVICE, 1,
	  "CUDA out of memory occurred when warming up sampler with {code} dummy requests",
	  "the server had given nearly all of the card to its KV cache, and the sampler's pass "
	  "over "
	  "the vocabulary did not fit beside it",
	  "lower --gpu-memory-utilization or --max-num-seqs" },
	{ MESSAGES_SERVING, MESSAGES_DEVICE, 1,
	  "CUDA out of memory occurred when warming up pooler with {code} dummy requests", NULL,
	  "lower --gpu-memory-utilization or --max-num-seqs" },
	{ MESSAGES_SERVING, MESSAGES_DETAIL, 1, "estimated maximum model length is {fits}", NULL,
	  NULL },
	{ MESSAGES_SERVING, MESSAGES_DETAIL, 1,
	  "total_gpu_memory ({total})*gpu_memory_utilization ({share})", NULL, NULL },
	{ MESSAGES_SERVING, MESSAGES_DETAIL, 1, "reserved for KV Cache is -{lacks}", NULL, NULL },
	{ MESSAGES_SERVING, MESSAGES_DETAIL, 1, "Available KV cache memory: -{lacks}", NULL, NULL },
	{ MESSAGES_SERVING, MESSAGES_DETAIL, 1, "Model loading took {allocated}", NULL, NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1, "Loading weights failed because of OOM", NULL,
	  NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1, /* LMDeploy */
	  "No enough gpu memory for runtime", NULL, NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1, /* TensorRT-LLM */
	  "not enough free GPU memory to allocate KV cache", NULL, NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1, "Error in memory profiling",
	  "another process gave memory back while the server measured what it may take",
	  "start servers that share a card one after another" },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1, "try to increase --mem-fraction-static", NULL,
	  NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1, "Not enough memory to handle {code} prefill tokens",
	  NULL, NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1, "alloc_req_slots runs out of memory",
	  "the server's own table of requests was full, not the card",
	  "fewer requests at a time (a smaller --max-running-requests), or another release: with "
	  "few requests it is a slot that was not given back" },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1, /* TGI */
	  "Not enough memory to handle {code} total tokens", NULL, NULL },
	{ MESSAGES_SERVING, MESSAGES_DEVICE, 1,
	  "Requested amount of GPU memory ({tried}) could not be allocated", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA Error: out of memory at *cumem_allocator.cpp",
	  "vLLM could not take its memory back when it was woken: what trains beside it holds it",
	  "a lower share for vLLM (verl: rollout.gpu_memory_utilization, OpenRLHF: "
	  "--vllm_gpu_memory_utilization, TRL: vllm_gpu_memory_utilization), and what trains on "
	  "the host while it generates (param_offload, optimizer_offload)" },
	/* -- libraries -- */
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Insufficient Memory (IOAF code 8)", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_OTHER, 1,
	  "kIOGPUCommandBufferCallbackErrorImpactingInteractivity",
	  "macOS stopped work on the GPU that held the screen up: not memory",
	  "smaller pieces of work at a time (a smaller picture, fewer frames or tokens), or no "
	  "display on that GPU" },
	{ MESSAGES_LIBRARY, MESSAGES_OTHER, 1, "kIOGPUCommandBufferCallbackErrorTimeout",
	  "macOS stopped work on the GPU that took too long: not memory",
	  "smaller pieces of work at a time" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 0, "Error out of memory at line*pythonInterface",
	  "bitsandbytes could not get managed memory for a paged optimizer, which lies in the "
	  "host's memory and the card's (WSL and some containers allow little of it)",
	  "an optimizer that is not paged (adamw_8bit or adamw_torch in place of paged_adamw), or "
	  "more host memory" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Error out of memory at line*in file ",
	  "bitsandbytes could not get memory", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Make sure you have enough GPU RAM to fit the quantized model",
	  "the quantized model did not fit on the card, so a part was put elsewhere", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* CuPy, whose pool has a limit of its own */
	  "Out of memory allocating {tried} (allocated so far: {allocated}, limit set to: "
	  "{allowed}",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Out of memory allocating {tried} (allocated so far: {allocated}", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* CuPy before 6 */
	  "out of memory to allocate {tried} (total {allocated}", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* Caffe: include/caffe/util/device_alternate.hpp */
	  "cudaSuccess (2 vs. 0)*out of memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* TensorRT 7: a tactic's workspace */
	  "GPU memory allocation error during getBestTactic", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "OutOfMemory: no further information", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DETAIL, 1, "could not find any implementation for node", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* A1111: modules/sd_hijack_optimizations.py */
	  "Not enough memory, use lower resolution (max approx.",
	  "attention over so many pixels does not fit", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* ComfyUI: comfy/sd.py */
	  "Ran out of memory when regular VAE", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* CTranslate2, and what wraps the runtime's code */
	  "CUDA failed with error out of memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* TensorRT 7 */
	  "Requested amount of memory ({tried}) could not be allocated", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "OutOfMemory Error in allocate", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* wgpu's validation, in Device::create_buffer */
	  "Not enough memory left$", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Not enough memory left.$", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, /* LM Studio's guardrail, without its numbers */
	  "Not enough resources to load the model with the current settings",
	  "LM Studio's guardrail stopped the load: by its estimate the machine would have run out",
	  "unload the other model first, which counts as long as it is loaded, or a shorter "
	  "Context "
	  "Length or a smaller quantisation; the guardrail itself is in the settings (Hardware)" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, /* LM Studio's guardrail */
	  "requires approximately {tried} of memory, and continuing to load it",
	  "LM Studio's guardrail stopped the load: by its estimate the machine would have run out",
	  "a shorter Context Length in the model's load settings, which the estimate counts whole, "
	  "or "
	  "a smaller quantisation; the guardrail itself is in the settings (Hardware)" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* TensorRT 8 and 10 */
	  "Requested amount of GPU memory ({tried}) could not be allocated", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Error Code 2: OutOfMemory (Requested size was {tried}", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Error Code 2: OutOfMemory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Tactic Device request: {tried} Available: {free}",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1,
	  "_nchwc'*BFCArena::AllocateRawInternal*Failed to allocate memory for requested buffer of "
	  "size {tried}",
	  "ONNX Runtime's CPU provider could not get memory: only that one has nodes of this "
	  "layout",
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "BFCArena::AllocateRawInternal*Failed to allocate memory for requested buffer of size "
	  "{tried}",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 0, "BFCArena::AllocateRawInternal*Failed to alloc",
	  NULL, NULL }, /* cut, as people paste it */
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "ERROR: out of memory in */src/acc/", NULL,
	  NULL }, /* RELION */
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "You do not have enough GPU memory available to train", NULL, NULL }, /* faceswap */
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Available memory of {free} is smaller than requested bytes of {tried}", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* 1.6: memory/detail/system_allocator.cc */
	  "Out of memory error on GPU {device}. Cannot allocate {tried2} GPU memory, available "
	  "memory is {free2}",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Cannot malloc {tried2} GPU memory. Please shrink FLAGS_fraction_of_gpu_memory", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Out of memory error on GPU {device}. Cannot allocate {tried2} memory on GPU*, "
	  "{allocated2} "
	  "memory has been allocated and available memory is only {free2}",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Cannot allocate {tried2} memory on GPU {device}, {allocated2} memory has been allocated "
	  "and "
	  "available memory is only {free2}",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Cannot allocate {tried2} memory on GPU {device}, available memory is only {free2}", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Out of memory error on GPU {device}. Cannot allocate {tried2}", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DETAIL, 1, "RMM allocation of {tried} failed", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_BUDGET, 1, "rmm*Maximum pool size exceeded",
	  "RMM's own pool of the card's memory was at its maximum",
	  "a larger maximum_pool_size (rmm.reinitialize), or none; another release of RMM, where "
	  "so "
	  "little was asked for" },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "maxTokensInPagedKvCache ({fits}) must be large enough to process", NULL,
	  "a shorter max_seq_len to build for, or a larger kv_cache_free_gpu_mem_fraction with "
	  "nothing else on the card: what is left holds less than one sequence" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "std::bad_alloc: out_of_memory: *failed to allocate {tried})", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "std::bad_alloc: out_of_memory: ", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "PT_DEVMEM Allocation failed for size::{tried}",
	  "Gaudi's memory was full", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 0, "No executable batch size found, reached zero",
	  "accelerate halved the batch until nothing was left: each size ran out of memory", NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "Insufficient GPU memory error: The available single GPU memory is",
	  "the model's weights and buffers are larger than the GPU memory that it may use", NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "Not enough memory. Please try to increase --mem-fraction-static", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Insufficient VRAM for model and cache", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Insufficient VRAM in split for model and cache",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "torch_memory_saver.cpp] CUresult error*result=2 ",
	  "the driver refused memory (its code 2: out of memory)",
	  "leave more of the card free for what is resumed: a lower memory share of the inference "
	  "engine" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "CUresult error: 2 (out of memory)",
	  "the driver refused memory (its code 2: out of memory)",
	  "leave more of the card free for what is resumed: a lower memory share of the inference "
	  "engine" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Memory_Allocation_Failure(EL0004)",
	  "Ascend's runtime could not get memory of the device", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "rtMalloc fail, *size:{tried},", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "TotalUsedMemStatistics : {allocated} plus*alloc size : {tried} is more than total mem "
	  "size : {total}.",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Out of Memory!!! Request memory size: {tried}",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "#umsg#Out of Memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "synStatus=9 [Out-of-Memory]",
	  "Gaudi's memory was full", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Graph compile failed*not enough memory",
	  "Gaudi's compiler found no room for the graph", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Out of GPU memory trying to allocate {tried}",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "OutOfGPUMemoryError", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "ERROR: Out of GPU memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "CUDA error: out of memory (code #2, ERROR_OUT_OF_MEMORY)", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DETAIL, 1, "Effective GPU memory usage: *% ({used}/{total})",
	  NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "Call to cuMem*results in CUDA_ERROR_OUT_OF_MEMORY",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "DriverError(CUDA_ERROR_OUT_OF_MEMORY", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "RMM_ERROR_OUT_OF_MEMORY (*Attempted to allocate: {tried}", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "RMM_ERROR_OUT_OF_MEMORY", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "System is out of GPU and shared host memory",
	  "the scene fits neither into the card nor into the host memory that it may borrow",
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "System is out of GPU memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Out of memory in cuStreamCreate", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Out of memory in cu*intern*cycles", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "CL_MEM_OBJECT_ALLOCATION_FAILURE",
	  "OpenCL's driver found no room on the device for a buffer", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Not enough allocatable device memory", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "kernels and memory...Insufficient memory available", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "CUDA driver API error out of memory (code: 2",
	  NULL,
	  "a smaller scene: textures and geometry that fit the card, or out-of-core textures" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "ErrorOutOfMemory: The API call failed because it was unable", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1,
	  "storage/./pooled_storage_manager.h*cudaMalloc*failed: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "pooled_storage_manager*out of memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Error allocating {tried} of device memory", NULL,
	  "a smaller batch; gpuarray.preallocate of Theano's flags decides what is taken "
	  "beforehand" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "StandardGpuResources: alloc fail*size {tried} ",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "(-217:Gpu API call) out of memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Gpu API call*out of memory in function", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_OTHER, 0, "OpenEncodeSessionEx failed: out of memory",
	  "NVENC opened no further session: consumer cards allow a few at a time, and the same "
	  "words are written for a full card",
	  "fewer encodes at a time (nvidia-smi shows who encodes), or a smaller picture" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "cu->cuMem*CUDA_ERROR_OUT_OF_MEMORY", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Insufficient memory on accelerator", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "CudaCustomAllocator out of memory*requestedSpace: {tried}B]", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "CudaCustomAllocator out of memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Out of memory on device. To view more detail about available memory on the GPU", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Memory allocation error on worker*cudaErrorMemoryAllocation", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Memory allocation error on worker", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Allocation of the device buffer*failed*out of memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Allocation using MemorySpace named \"Cuda\" failed", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Error creating array *: CUDA_ERROR_OUT_OF_MEMORY",
	  NULL, "a smaller system, or the CPU platform" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "vector memory exhausted (limit reached?)",
	  "R's own limit of vectors, which a setting raises, or the machine's memory",
	  "fewer and smaller objects at a time (rm() and gc() of what is done, data read in "
	  "parts); where the machine has more memory than R may use, a larger R_MAX_VSIZE in "
	  "~/.Renviron" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "cannot allocate vector of size {tried}",
	  "R could not get memory",
	  "fewer and smaller objects at a time (rm() and gc() of what is done, sparse matrices, "
	  "data "
	  "read in parts), or a machine with more memory; a 64-bit R where this one has 32 bits, "
	  "which can have 4 GB" },
	{ MESSAGES_LIBRARY, MESSAGES_CGROUP_KILL, 1, "Worker exceeded {code}% memory budget",
	  "Dask's nanny restarted a worker at its own memory limit",
	  "a larger memory_limit a worker, fewer threads a worker, or smaller partitions" },
	{ MESSAGES_LIBRARY, MESSAGES_CGROUP_KILL, 1,
	  "Container killed by YARN for exceeding memory limits. {used2} of {limit2} physical "
	  "memory "
	  "used",
	  NULL,
	  "a larger spark.executor.memoryOverhead and spark.executor.memory, or more partitions" },
	{ MESSAGES_LIBRARY, MESSAGES_CGROUP_KILL, 1,
	  "Container killed by YARN for exceeding memory limits. {used2} of {limit2} virtual "
	  "memory used",
	  "YARN counts addresses here, of which a program reserves far more than it uses",
	  "yarn.nodemanager.vmem-check-enabled=false, or a larger "
	  "yarn.nodemanager.vmem-pmem-ratio; where that may not be set, a larger "
	  "spark.executor.memoryOverhead" },
	{ MESSAGES_LIBRARY, MESSAGES_CGROUP_KILL, 1, "Container killed by YARN for exceeding", NULL,
	  "a larger spark.executor.memoryOverhead and spark.executor.memory, or more partitions" },
	{ MESSAGES_LAUNCHER, MESSAGES_HOST_KILL, 1,
	  "ran out-of-memory and exited with a non-zero status of {code}(SIGKILL)", NULL,
	  "a machine type with more memory for the replica (machineSpec.machineType)" },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1,
	  "Memory limit of {limit} exceeded with {used} used", NULL,
	  "more memory for the service (gcloud run services update --memory), or fewer requests at "
	  "a "
	  "time (--concurrency)" },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1, "Error R15 (Memory quota vastly exceeded)",
	  NULL, "a larger dyno type (heroku ps:type), or fewer workers (WEB_CONCURRENCY)" },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1, "Ran out of memory (used over {limit})", NULL,
	  "a larger instance type, or fewer workers" },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1, "Memory limit exceeded ({limit})", NULL,
	  "larger hardware for the space, or a smaller model" },
	{ MESSAGES_SYSTEMD, MESSAGES_HOST_KILL, 1, "was killed: failed to reclaim memory", NULL,
	  NULL },
	{ MESSAGES_SYSTEMD, MESSAGES_HOST_KILL, 1, "was killed: out of swap space", NULL, NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1,
	  "Windows successfully diagnosed a low virtual memory condition",
	  "Windows could promise no more memory: the page file is too small", NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "died due to signal 9 (Kill signal)",
	  "a compiler was ended by SIGKILL: for host memory as a rule",
	  "fewer compilers at a time (MAX_JOBS=2, make -j2, cargo build -j2)" },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "virtual memory exhausted: Cannot allocate memory",
	  NULL, "fewer compilers at a time (MAX_JOBS=2, make -j2)" },
	/* OpenCL's CL_OUT_OF_HOST_MEMORY in boost::compute's words */
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "LightGBMError: Out of Host Memory",
	  "OpenCL's driver got no memory of the machine for the card's buffers",
	  "a smaller max_bin, fewer rows or columns at a time, or device_type=cpu" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 0, "CL_OUT_OF_HOST_MEMORY",
	  "OpenCL's driver got no memory of the machine", NULL },
	/* DirectML, OpenVINO, CatBoost, COLMAP, drawing */
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1,
	  "Could not allocate tensor with {tried}. There is not enough GPU video memory", NULL,
	  "a smaller batch, picture or model: DirectML keeps more memory than CUDA does; close "
	  "other "
	  "programs that use the card" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "DmlExecutionProvider*8007000E Not enough memory resources are available", NULL,
	  "a smaller batch, picture or model; close other programs that use the card" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "[GPU] Exceeded max size of memory object allocation: requested {tried}, but max alloc",
	  ONE_BUFFER, "smaller inputs (batch, picture, context), or weights of 8 bits (INT8)" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 0, "[GPU] CL_OUT_OF_RESOURCES",
	  "OpenCL's driver had no room on the device, or its kernel was too large",
	  "smaller inputs or a smaller model; or on the CPU (device CPU)" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "NCudaLib::TOutOfMemoryError", NULL,
	  "a smaller border_count and depth, a gpu_ram_part that leaves room for others, or "
	  "task_type "
	  "CPU" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Not enough GPU memory to match {code} features",
	  NULL, "a smaller --SiftMatching.max_num_matches, or fewer features a picture" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Out of video memory trying to allocate a rendering resource", NULL,
	  "a smaller picture or fewer textures; close other programs that use the card" },
	{ MESSAGES_LLAMA_CPP, MESSAGES_HOST, 0,
	  "Model loading aborted due to insufficient system resources",
	  "LM Studio refused to load it: by its estimate the model takes more than the machine has "
	  "left",
	  "a smaller model or quantisation, a shorter Context Length; the guardrail can be relaxed "
	  "in "
	  "the settings" },
	{ MESSAGES_SERVING, MESSAGES_DEVICE, 1,
	  "failed to allocate CUDA memory with byte size {code} on GPU {device}: CNMEM", NULL,
	  "a larger --cuda-memory-pool-byte-size=GPU:BYTES" },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "Decode out of memory. Try to lower your batch size",
	  "the running requests filled the server's KV cache",
	  "fewer requests at a time (--max-running-requests), shorter ones, or a larger "
	  "--schedule-conservativeness" },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "Prefill out of memory. Try to lower your batch size",
	  "the prompts that were to start did not fit into the server's KV cache",
	  "smaller chunks (--chunked-prefill-size 2048), fewer requests at a time "
	  "(--max-running-requests)" },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "thrust::system*out of memory", NULL, NULL },
	/* thrust and CUB, whose exception's type stands on the line above */
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "parallel_for failed: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "scan failed*: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "reduce failed*: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "device_copy*failed: out of memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1,
	  "Out of Memory Error: *allocate*of size {tried} ({used}/{limit} used)",
	  "DuckDB reached its own memory_limit",
	  "a larger SET memory_limit, a SET temp_directory to spill to, fewer SET threads" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1,
	  "Out of Memory Error: Failed to allocate block of {tried} (bad allocation)",
	  "the machine refused DuckDB memory, below its own memory_limit",
	  "a smaller SET memory_limit and fewer SET threads, with a SET temp_directory; where "
	  "memory "
	  "was free, a limit of mappings or of promises (vm.max_map_count, vm.overcommit_memory)" },
	{ MESSAGES_LIBRARY, MESSAGES_OTHER, 1, "not enough space in the context's memory pool",
	  "ggml's own pool, whose size is decided beforehand, was too small: a fault of that "
	  "release, not a want of memory",
	  "another release of the program, or of the model file" },
	{ MESSAGES_LIBRARY, MESSAGES_OTHER, 1, "cannot allocate memory in static TLS block",
	  "the loader's room for thread-local data was used up, not memory: an order of imports",
	  "import that library first, or LD_PRELOAD it" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "Allowed memory size of {limit} exhausted",
	  "PHP's own heap was at its memory_limit: neither the GPU's memory nor the machine's",
	  "a larger memory_limit in php.ini" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "failed to allocate memory (NoMemoryError)", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "runtime: VirtualAlloc of {tried} failed with errno",
	  "Windows could promise no more memory: the page file is too small", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "fatal error: runtime: out of memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "runtime: cannot allocate memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "System.OutOfMemoryException", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "(-4:Insufficient memory) Failed to allocate {tried}",
	  "OpenCV could not get memory of the machine", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "failed to cudaMalloc {tried} on device {device} (error 2 out of memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "failed to cudaMalloc {tried} (error 2 out of memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DETAIL, 1, "- Free memory: {free}$", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DETAIL, 1, "- Requested memory: {tried}$", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DETAIL, 1, "[requestedSpace: {tried}]", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "Some modules are dispatched on the CPU or the disk",
	  "the quantized model did not fit on the card, so a part was put elsewhere", NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "RuntimeError: Invalid buffer size: {tried2}",
	  "Metal gives no single buffer of that size, however much memory is free",
	  "smaller tensors at a time: a smaller batch or picture, a shorter sequence, attention in "
	  "slices" },
	{ MESSAGES_JAX, MESSAGES_DEVICE, 1,
	  "Attempting to allocate {tried}. That was not possible. There are {free} free", NULL,
	  NULL },
	{ MESSAGES_SERVING, MESSAGES_BUDGET, 1,
	  "Executor creation failed due to insufficient GPU memory", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "Exception*Allocation on device", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "^Allocation on device$", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "[OOM] CUDA out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "[enforce fail at *: out of memory",
	  "the driver refused memory to Caffe2",
	  "a smaller batch (Detectron: TRAIN.IMS_PER_BATCH) or smaller pictures (TRAIN.SCALES); "
	  "nvidia-smi shows who else holds the card" },
	{ MESSAGES_JAX, MESSAGES_DEVICE, 1, "failed to alloc {tried} unified memory",
	  "unified memory lies in the host's memory too, and the driver refused it: under WSL and "
	  "Windows there is none",
	  "without unified memory (unset TF_FORCE_UNIFIED_MEMORY) where the driver has none; else "
	  "more host memory, or a smaller input" },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 0, "Exceeded step memory limit at some point", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "CUDA error encountered at: *cudaErrorMemoryAllocation", NULL, NULL },
	{ MESSAGES_XPU, MESSAGES_DEVICE, 1,
	  "Allocation is out of device memory on current platform", NULL, NULL },
	/* deepspeed/runtime/utils.py: see_memory_usage */
	{ MESSAGES_LAUNCHER, MESSAGES_DETAIL, 1, "|MA {allocated2} Max_MA*CA {reserved}", NULL,
	  NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_DETAIL, 1,
	  "CPU Virtual Memory: used = {used}, percent = {share}", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_DETAIL, 1, "sigkill_handler] Killing subprocess {pid}", NULL,
	  NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_OTHER, 1, "return code = -11|", CRASHED, FIND_CRASH },
	{ MESSAGES_LAUNCHER, MESSAGES_OTHER, 1, "exitcode: -11|", CRASHED, FIND_CRASH },
	{ MESSAGES_LAUNCHER, MESSAGES_OTHER, 1, "exitcode : -11|", CRASHED, FIND_CRASH },
	{ MESSAGES_LAUNCHER, MESSAGES_OTHER, 1, "exit code: -11|", CRASHED, FIND_CRASH },
	{ MESSAGES_LAUNCHER, MESSAGES_OTHER, 1, "exit code 139|", CRASHED, FIND_CRASH },
	{ MESSAGES_LAUNCHER, MESSAGES_OTHER, 1, "exited with code 139|", CRASHED, FIND_CRASH },
	{ MESSAGES_LIBRARY, MESSAGES_NOTHING, 1, "pytorch allocator cache flushes since last step",
	  NULL, NULL },
	/* -- ROCm and XPU -- */
	{ MESSAGES_ROCM, MESSAGES_DEVICE, 1, "HIP error: out of memory", NULL, NULL },
	{ MESSAGES_ROCM, MESSAGES_DEVICE, 1, "hipErrorOutOfMemory", NULL, NULL },
	{ MESSAGES_ROCM, MESSAGES_DEVICE, 1, "HIPBLAS_STATUS_ALLOC_FAILED", FULL_CARD, LEAVE_ROOM },
	{ MESSAGES_ROCM, MESSAGES_DEVICE, 1, "miopenStatusAllocFailed", FULL_CARD, LEAVE_ROOM },
	{ MESSAGES_ROCM, MESSAGES_DEVICE, 0, "HSA_STATUS_ERROR_OUT_OF_RESOURCES", FULL_CARD, NULL },
	{ MESSAGES_XPU, MESSAGES_OTHER, 1, "can NOT allocate memory block with size larger than",
	  "this platform gives no single block of that size, however much of the card is free",
	  "smaller tensors (a smaller batch, attention in slices), or "
	  "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1" },
	{ MESSAGES_XPU, MESSAGES_DEVICE, 1, "OUT_OF_DEVICE_MEMORY", NULL, NULL },
	{ MESSAGES_XPU, MESSAGES_HOST, 1, "ERROR_OUT_OF_HOST_MEMORY", NULL, NULL },
	{ MESSAGES_XPU, MESSAGES_DEVICE, 0, "PI_ERROR_OUT_OF_RESOURCES", FULL_CARD, NULL },
	{ MESSAGES_XPU, MESSAGES_DEVICE, 0, "UR_RESULT_ERROR_OUT_OF_RESOURCES", FULL_CARD, NULL },
	{ MESSAGES_ROCM, MESSAGES_OTHER, 1, "Memory access fault by GPU",
	  "a kernel read or wrote an address that is not its own: a bug, not memory that ran out",
	  "run it again with AMD_SERIALIZE_KERNEL=3: the traceback then shows the call" },
	/* -- NCCL: nccl/src -- */
	{ MESSAGES_NCCL, MESSAGES_DEVICE, 1, "Cuda failure*'out of memory'", NCCL_BUFFERS,
	  LEAVE_ROOM },
	{ MESSAGES_NCCL, MESSAGES_DEVICE, 0, "Failed to CUDA calloc async {tried}", NCCL_BUFFERS,
	  LEAVE_ROOM },
	{ MESSAGES_NCCL, MESSAGES_DEVICE, 0, "Failed to CUDA calloc {tried}", NCCL_BUFFERS,
	  LEAVE_ROOM },
	{ MESSAGES_NCCL, MESSAGES_DEVICE, 0, "Failed to CUDA malloc {tried}", NCCL_BUFFERS,
	  LEAVE_ROOM },
	{ MESSAGES_NCCL, MESSAGES_SHARED, 1,
	  "Error while creating shared memory segment*(size {tried})", SHM_SAYS, NULL },
	{ MESSAGES_NCCL, MESSAGES_SHARED, 1, "failed to extend /dev/shm/nccl-* to {tried}",
	  SHM_SAYS, NULL },
	{ MESSAGES_NCCL, MESSAGES_SHARED, 1, "posix_fallocate failed : No space left on device",
	  SHM_SAYS, NULL },
	{ MESSAGES_NCCL, MESSAGES_OTHER, 1, "Watchdog caught collective operation timeout",
	  "a collective waited for a rank that did not come: not memory, unless that rank died of "
	  "it",
	  OTHER_RANK },
	{ MESSAGES_NCCL, MESSAGES_OTHER, 1, "ncclRemoteError",
	  "another rank is gone: not memory, unless that rank died of it", OTHER_RANK },
	{ MESSAGES_NCCL, MESSAGES_OTHER, 1, "NCCL communicator was aborted",
	  "another rank is gone: not memory, unless that rank died of it", OTHER_RANK },
	{ MESSAGES_LAUNCHER, MESSAGES_OTHER, 1, "gloo*Connection closed by peer",
	  "another rank is gone: not memory, unless that rank died of it", OTHER_RANK },
	{ MESSAGES_LAUNCHER, MESSAGES_OTHER, 1, "Timed out * waiting for clients",
	  "not all ranks started in time", OTHER_RANK },
	{ MESSAGES_NCCL, MESSAGES_OTHER, 1, "ncclSystemError",
	  "a system call of NCCL failed (network, sockets, permissions)",
	  "NCCL_DEBUG=INFO tells which call" },
	/* -- CUDA and its libraries: cuda_runtime_api.h, cublas_api.h, cudnn.h -- */
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA error: out of memory",
	  "the driver refused memory: for a context, a kernel, pinned memory or a library, or for "
	  "a program that asks the driver itself",
	  NULL },
	/* PyTorch up to 1.4: aten/src/THC/THCGeneral.cpp */
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "cuda runtime error ({code}) : out of memory", NULL,
	  NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "THCudaCheck FAIL file=*error={code} : out of memory",
	  NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA driver error: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA runtime error*: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA failure {code}: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "Cuda Runtime (out of memory)", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA error {code} at *: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "cuMemAlloc failed: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CURAND_STATUS_ALLOCATION_FAILED", FULL_CARD, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, /* TensorRT 7 and 8 */
	  "Cuda Error in *allocate: 2 (out of memory)", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "cudaMalloc failed: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_HOST, 1, "cudaHostAlloc*out of memory", PINNED_SAYS,
	  PINNED_HELPS },
	{ MESSAGES_CUDA, MESSAGES_HOST, 1, "cudaMallocHost*out of memory", PINNED_SAYS,
	  PINNED_HELPS },
	{ MESSAGES_CUDA, MESSAGES_HOST, 1, "cudaHostRegister*out of memory", PINNED_SAYS,
	  PINNED_HELPS },
	{ MESSAGES_CUDA, MESSAGES_HOST, 1, "pinned host memory*out of memory", PINNED_SAYS,
	  PINNED_HELPS },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA_ERROR_OUT_OF_MEMORY", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "cudaErrorMemoryAllocation", NULL, NULL },
	{ MESSAGES_TENSORFLOW, MESSAGES_DEVICE, 0,
	  "failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED",
	  "cuBLAS could not make its handle: TensorFlow, or another program, has taken the whole "
	  "card",
	  NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 0, "CUBLAS_STATUS_ALLOC_FAILED", BAD_LABEL_TOO, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDNN_STATUS_ALLOC_FAILED", FULL_CARD, LEAVE_ROOM },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUSOLVER_STATUS_ALLOC_FAILED", FULL_CARD,
	  LEAVE_ROOM },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUSPARSE_STATUS_ALLOC_FAILED", FULL_CARD,
	  LEAVE_ROOM },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUFFT_ALLOC_FAILED", FULL_CARD, LEAVE_ROOM },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 0, "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", FULL_CARD,
	  LEAVE_ROOM },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 0, "Unable to find a valid cuDNN algorithm", NO_ALGORITHM,
	  NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 0, "FIND was unable to find an engine", NO_ALGORITHM,
	  NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 0, "GET was unable to find an engine", NO_ALGORITHM,
	  NULL },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 0, "CUDNN_STATUS_NOT_INITIALIZED",
	  "cuDNN could not start: a mismatch of versions, or a card that is already full",
	  "nvidia-smi before the start shows whether somebody holds the card" },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 0, "CUDNN_STATUS_INTERNAL_ERROR",
	  "cuDNN failed inside: a mismatch of versions, an earlier failure of a kernel, or a card "
	  "that is already full",
	  "nvidia-smi before the start shows whether somebody holds the card; then "
	  "CUDA_LAUNCH_BLOCKING=1" },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 0, "CUBLAS_STATUS_NOT_INITIALIZED",
	  "cuBLAS could not start: an earlier failure of a kernel (an index out of range), or a "
	  "card "
	  "that is already full",
	  BLOCKING },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, ".cu:*Assertion `*input_val*` failed",
	  "a kernel checked its input, which was no probability between 0 and 1 (NaN counts as "
	  "such): "
	  "not memory",
	  "look for NaN before the loss (torch.isnan(x).any()); binary_cross_entropy wants "
	  "sigmoid's "
	  "output" },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, ".cu:*Assertion `*probability*` failed",
	  "a kernel checked probabilities and found NaN, infinity or a negative one: not memory",
	  "look for NaN in the logits (fp16 overflows), and for a temperature of 0" },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, ".cu:*Assertion `* failed", BAD_INDEX, FIND_INDEX },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, ".cuh:*Assertion `* failed", BAD_INDEX, FIND_INDEX },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, "device-side assert triggered", BAD_INDEX, FIND_INDEX },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, "illegal memory access was encountered",
	  "a kernel read or wrote an address that is not its own: a bug, not memory that ran out",
	  BLOCKING },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, "CUDA error: misaligned address",
	  "a kernel used a misaligned address: a bug, not memory that ran out", BLOCKING },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, "unspecified launch failure",
	  "a kernel crashed: a bug or a broken card, not memory that ran out", BLOCKING },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, "CUBLAS_STATUS_EXECUTION_FAILED",
	  "a matrix product crashed: an earlier failure of a kernel, not memory that ran out",
	  BLOCKING },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, "CUDNN_STATUS_EXECUTION_FAILED",
	  "a kernel of cuDNN crashed: not memory that ran out", BLOCKING },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, "uncorrectable ECC error encountered",
	  "the card's memory is broken, not full", GPU_BROKEN },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, "no kernel image is available for execution",
	  "this build has no code for this card", "install a build for the card's architecture" },
	{ MESSAGES_CUDA, MESSAGES_OTHER, 1, "CUDA-capable device(s) is/are busy or unavailable",
	  "another process has the card for itself, or the card hangs", "nvidia-smi shows who" },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*): 13,", PROGRAMS_FAULT, BLOCKING },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*): 31,", PROGRAMS_FAULT,
	  "compute-sanitizer, or CUDA_LAUNCH_BLOCKING=1, shows the kernel; if it hits every "
	  "program, "
	  "it is the card" },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*): 43,", PROGRAMS_FAULT, BLOCKING },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*): 45,",
	  "the driver cleaned up after a program that had ended or was killed: not memory, and no "
	  "fault of the card",
	  "look for what ended it before that line" },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*): 48,",
	  "a double-bit error: the card's memory is broken, not full", RESET_CARD },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*): 63,",
	  "the card replaced a bad row of its memory: not full; it works on",
	  "reset the card when nothing runs (nvidia-smi -q -d ROW_REMAPPER)" },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*): 64,",
	  "the card could not replace a bad row of its memory: broken, not full", RESET_CARD },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*): 74,",
	  "a link between cards (NVLink) failed: not memory",
	  "nvidia-smi nvlink -e; reseat or replace the bridge or the board" },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*): 79,",
	  "the card fell off the bus: power, heat or a broken slot, not memory",
	  "dmesg around it, power and temperatures; the machine must be restarted" },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*): 94,",
	  "an error of the card's memory that hit one program alone: broken, not full",
	  "start that program again, and reset the card when nothing runs" },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*): 95,",
	  "an error of the card's memory that may have hit every program: broken, not full",
	  RESET_CARD },
	{ MESSAGES_KERNEL, MESSAGES_OTHER, 1, "NVRM: Xid*: {code},",
	  "the driver reports a fault of the card or of a program on it (Xid): not memory that ran "
	  "out",
	  GPU_BROKEN },
	/* -- DataLoader: torch/utils/data/_utils/signal_handling.py, worker.py -- */
	{ MESSAGES_DATALOADER, MESSAGES_SHARED, 1,
	  "DataLoader worker (pid {pid}) is killed by signal: Bus error", SHM_SAYS, NULL },
	{ MESSAGES_DATALOADER, MESSAGES_SHARED, 1, "insufficient shared memory (shm)", SHM_SAYS,
	  NULL },
	{ MESSAGES_DATALOADER, MESSAGES_KILLED, 1,
	  "DataLoader worker (pid {pid}) is killed by signal: Killed", NULL, NULL },
	{ MESSAGES_DATALOADER, MESSAGES_OTHER, 0,
	  "DataLoader worker (pid {pid}) is killed by signal: Terminated",
	  "a worker was asked to end (SIGTERM), as when the program above it stops or a job is "
	  "cancelled: not memory of its own",
	  "look above it for what ended the program; dmesg -T tells whether host memory ran out" },
	{ MESSAGES_DATALOADER, MESSAGES_OTHER, 1,
	  "DataLoader worker (pid {pid}) is killed by signal: ",
	  "a worker crashed (the signal says how): not memory that ran out",
	  "num_workers=0 shows where" },
	{ MESSAGES_DATALOADER, MESSAGES_OTHER, 0,
	  "DataLoader worker (pid(s) {pid}*exited unexpectedly",
	  "workers ended without a word: killed for memory, or crashed",
	  "dmesg -T tells whether the kernel killed them; num_workers=0 shows a crash" },
	{ MESSAGES_DATALOADER, MESSAGES_SHARED, 1, "unable to write to file </torch_", SHM_SAYS,
	  NULL },
	{ MESSAGES_DATALOADER, MESSAGES_SHARED, 1,
	  "unable to open shared memory object </torch_*: No space left", SHM_SAYS, NULL },
	{ MESSAGES_DATALOADER, MESSAGES_OTHER, 1,
	  "unable to open shared memory object </torch_*: Too many open files",
	  "too many tensors are shared as open files: a limit of files, not memory",
	  "torch.multiprocessing.set_sharing_strategy('file_system'), or ulimit -n" },
	{ MESSAGES_DATALOADER, MESSAGES_HOST, 1,
	  "unable to mmap {tried} from file </torch_*: Cannot allocate memory", NULL, NULL },
	{ MESSAGES_DATALOADER, MESSAGES_SHARED, 1, "/dev/shm*No space left on device", SHM_SAYS,
	  NULL },
	/* -- Python and C++: c10/core/impl/alloc_cpu.cpp, numpy, the interpreter -- */
	/* PyTorch up to 1.1 counted whole GiB, rounded down: no number that can be relied on. */
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1,
	  "not enough memory: you tried to allocate *GB. Buy new", NULL, NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1,
	  "posix_memalign(&data, gAlignment, nbytes) == 0. 12 vs 0", NULL, NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "DefaultCPUAllocator: *you tried to allocate {tried}",
	  NULL, NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "DefaultCPUAllocator: can't allocate memory", NULL,
	  NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1,
	  "MemoryError: Unable to allocate {tried} for an array*data type <U", TEXT_SAYS,
	  TEXT_HELPS },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1,
	  "MemoryError: Unable to allocate {tried} for an array*data type |S", TEXT_SAYS,
	  TEXT_HELPS },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "MemoryError: Unable to allocate {tried} for an array",
	  NULL, NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "MemoryError: Unable to allocate array with shape",
	  NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1,
	  "Fail to alloc memory of {tried} size, error code is 12", NULL, NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "ArrowMemoryError: *of size {tried}", NULL, NULL },
	/* a notebook's heading: the message stands below the traceback */
	{ MESSAGES_PYTHON, MESSAGES_NOTHING, 1, "MemoryError Traceback (most recent call last)",
	  NULL, NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "_ArrayMemoryError: Unable to allocate {tried}", NULL,
	  NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "MemoryError: Unable to allocate {tried}", NULL,
	  NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "NoMemoryError", NULL, NULL }, /* Ruby */
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "^MemoryError|", NULL, NULL },

	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "memory allocation of {tried} failed",
	  "a library written in Rust (tokenizers, polars) could not get memory", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "Can't allocate [HOST] memory", OFF_HEAP_SAYS,
	  OFF_HEAP_HELPS },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Can't allocate [DEVICE] memory", NULL,
	  "a smaller batch, workspaces (WorkspaceMode.ENABLED), or another card: ND4J found no "
	  "room on this one" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "Physical memory usage is too high", OFF_HEAP_SAYS,
	  OFF_HEAP_HELPS },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "Cannot allocate new *Pointer(", OFF_HEAP_SAYS,
	  OFF_HEAP_HELPS },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "OutOfMemoryError: Direct buffer memory",
	  "Java's limit of memory outside its heap was reached: not the heap of -Xmx",
	  "a larger -XX:MaxDirectMemorySize" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "OutOfMemoryError: unable to create*native thread",
	  "the system gave no further thread: a limit of their number (ulimit -u, the "
	  "container's pids), or no memory for their stacks; not the heap of -Xmx",
	  "fewer threads, a larger ulimit -u or pids limit, or a smaller -Xss" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "OutOfMemoryError: Metaspace",
	  "Java's room for classes was full: not the heap of -Xmx",
	  "a larger -XX:MaxMetaspaceSize; classes that are loaded again and again are a leak" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "java.lang.OutOfMemoryError",
	  "Java's own heap was full (-Xmx): neither the GPU's memory nor the machine's",
	  "a larger -Xmx (Spark: spark.driver.memory, spark.executor.memory)" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "JavaScript heap out of memory",
	  "Node's own heap was full: neither the GPU's memory nor the machine's",
	  "a larger heap (NODE_OPTIONS=--max-old-space-size=MIB)" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "Data too large, data for",
	  "Elasticsearch's circuit breaker refused a request before Java's own heap was full",
	  "a larger heap (ES_JAVA_OPTS=-Xms4g -Xmx4g, half of the memory at most), or smaller bulk "
	  "requests and aggregations" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "std::bad_alloc", NULL, NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "[Errno 12] Cannot allocate memory", NULL, NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "Cannot allocate memory (os error 12)", NULL, NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "The paging file is too small",
	  "Windows could promise no more memory: the page file is too small", NULL },
	/* Windows' ERROR_COMMITMENT_LIMIT, whose sentence is in the system's language */
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "(os error 1455)",
	  "Windows could promise no more memory: the page file is too small", NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "error code: 1455",
	  "Windows could promise no more memory: the page file is too small", NULL },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "WinError 1455",
	  "Windows could promise no more memory: the page file is too small", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "os::commit_memory(*errno=12",
	  "a Java program was refused memory by the machine", NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1,
	  "insufficient memory for the Java Runtime Environment",
	  "a Java program was refused memory by the machine", NULL },

	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "fork: Cannot allocate memory", NULL, NULL },
	/* -- the kernel: mm/oom_kill.c, mm/memcontrol.c -- */
	/* kill.c reads what they tell */
	{ MESSAGES_KERNEL, MESSAGES_CGROUP_KILL, 1, "Memory cgroup out of memory: Kill", NULL,
	  NULL },
	{ MESSAGES_KERNEL, MESSAGES_HOST_KILL, 1, "Out of memory: Killed process ", NULL, NULL },
	{ MESSAGES_KERNEL, MESSAGES_HOST_KILL, 1, "Out of memory: Kill process ", NULL, NULL },
	{ MESSAGES_KERNEL, MESSAGES_HOST_KILL, 1,
	  "Out of memory: Process stopped {pid} ({process}) total-vm", NULL, NULL },
	{ MESSAGES_KERNEL, MESSAGES_HOST_KILL, 1, "Killed process *anon-rss:", NULL, NULL },
	{ MESSAGES_KERNEL, MESSAGES_HOST_KILL, 1,
	  "oom_reaper: reaped process {pid} ({process}), now anon-rss", NULL, NULL },
	{ MESSAGES_KERNEL, MESSAGES_DETAIL, 1, "{process} invoked oom-killer:", NULL, NULL },
	{ MESSAGES_KERNEL, MESSAGES_DETAIL, 1, "oom-kill:constraint=CONSTRAINT_MEMCG,", NULL,
	  NULL },
	{ MESSAGES_KERNEL, MESSAGES_DETAIL, 1, "oom-kill:constraint=CONSTRAINT_", NULL, NULL },
	{ MESSAGES_KERNEL, MESSAGES_DETAIL, 1, "Task in *killed as a result of limit of {group}",
	  NULL, NULL },
	{ MESSAGES_KERNEL, MESSAGES_DETAIL, 1, "memory: usage {used}, limit {limit}, failcnt", NULL,
	  NULL },
	{ MESSAGES_KERNEL, MESSAGES_HOST_KILL, 1,
	  "System OOM encountered, victim process: {process}, pid: {pid}", NULL, NULL },
	/* -- Slurm: slurmstepd, srun, sacct, seff -- */
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1, "oom_kill event*StepId={group}", NULL, NULL },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1, "oom-kill event*StepId={group}", NULL, NULL },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1, "oom-kill event(s) in step {group}", NULL,
	  NULL },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1, "cgroup out-of-memory handler", NULL, NULL },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1, "srun: error: *task*: Out Of Memory", NULL,
	  NULL },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1,
	  "exceeded memory limit ({used} > {limit}), being killed", NULL, NULL },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1, "Exceeded job memory limit", NULL, NULL },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1, "CANCELLED AT *DUE TO MEMORY LIMIT", NULL,
	  NULL },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1, "Job killed: memory usage exceeded", NULL,
	  NULL },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1, "State: OUT_OF_MEMORY", NULL, NULL },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1, "OUT_OF_ME+", NULL, NULL },
	{ MESSAGES_SLURM, MESSAGES_CGROUP_KILL, 1, "State=OUT_OF_MEMORY", NULL, NULL },
	{ MESSAGES_SLURM, MESSAGES_DETAIL, 1, "Memory Efficiency: *% of {limit}", NULL, NULL },
	{ MESSAGES_SLURM, MESSAGES_DETAIL, 1, "Memory Utilized: {used}", NULL, NULL },
	{ MESSAGES_SLURM, MESSAGES_DETAIL, 1, "MaxRSS={used}", NULL, NULL },
	{ MESSAGES_SLURM, MESSAGES_STOPPED, 1, "CANCELLED AT *DUE TO TIME LIMIT",
	  "the job's time was over: not memory", "ask for more time, or save and resume" },
	{ MESSAGES_SLURM, MESSAGES_STOPPED, 1, "CANCELLED AT *DUE TO PREEMPTION",
	  "a job of higher priority took the node: not memory", "save and resume" },
	{ MESSAGES_SLURM, MESSAGES_STOPPED, 1, "CANCELLED AT *DUE TO NODE",
	  "the node failed or was taken away: not memory of this job", "save and resume" },
	{ MESSAGES_SLURM, MESSAGES_STOPPED, 1, "slurmstepd: error: *JOB *CANCELLED AT",
	  "somebody cancelled the job (scancel): not memory", NULL },
	{ MESSAGES_SLURM, MESSAGES_OTHER, 1, "slurmstepd: error: *CANCELLED AT",
	  "the step was ended: by scancel, or by srun because another task had died", OTHER_RANK },
	{ MESSAGES_SLURM, MESSAGES_KILLED, 1, "srun: error: *task*: Killed", NULL, NULL },
	/* -- Kubernetes, Docker -- */
	{ MESSAGES_KUBERNETES, MESSAGES_DETAIL, 1, "OOMKilled\": false", NULL, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_DETAIL, 1, "OOMKilled\":false", NULL, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_DETAIL, 1, "OOMKilled: false", NULL, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_DETAIL, 1, "OOMKilled=false", NULL, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_NOTHING, 1, "no OOMKilled", NULL, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_NOTHING, 1, "not OOMKilled", NULL, NULL },
	/* as Kubernetes and container runtimes show it; alone it is somebody's word (below) */
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "Reason*OOMKilled|", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "OOMKilled\"", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "OOMKilled: true", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "OOMKilled=true", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "^OOMKilled$", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "(OOMKilled)", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "/* OOMKilled *", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "OOMKilled (", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "OOMKilled*|137|", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "|137|*OOMKilled|", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "|pod|*OOMKilled|", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "|pods|*OOMKilled|", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "OOMKilled|*|pod|", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "container*OOMKilled|", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "OOMKilled|*container", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "kube*OOMKilled|", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "k8s*OOMKilled|", GROUP_SAYS, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_CGROUP_KILL, 0, "container * was OOM killed", GROUP_SAYS,
	  NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_DETAIL, 1, "Reason: Error$", NULL, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_DETAIL, 1, "\"reason\": \"Error\"", NULL, NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_STOPPED, 1, "failed liveness probe, will be restarted",
	  "the container did not answer its liveness probe and was restarted: not memory; a "
	  "process "
	  "that swaps or hangs does not answer either",
	  "a longer timeoutSeconds and failureThreshold, or a startupProbe while weights are "
	  "loaded" },
	{ MESSAGES_KUBERNETES, MESSAGES_STOPPED, 1, "kubelet *Stopping container ",
	  "Kubernetes stopped the container (deleted, rolled out, drained or evicted), by SIGKILL "
	  "when "
	  "it took longer than its grace period: not memory of its own",
	  "kubectl describe pod and the events of the node tell who asked for it" },
	{ MESSAGES_KUBERNETES, MESSAGES_STOPPED, 1, "Preempted by ",
	  "a pod of higher priority took the place: not memory that this job ran out of",
	  "save and resume" },
	{ MESSAGES_KUBERNETES, MESSAGES_STOPPED, 1,
	  "active on the node longer than specified deadline",
	  "the pod's time was over (activeDeadlineSeconds): not memory", NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_HOST_KILL, 1, "The node was low on resource: memory",
	  "the node as a whole ran out, and Kubernetes put this pod off it", NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_DETAIL, 1, "Container * was using {used}, request is", NULL,
	  NULL },
	{ MESSAGES_KUBERNETES, MESSAGES_STOPPED, 1,
	  "The node was low on resource: ephemeral-storage", "the node's disk was full: not memory",
	  "write less to the container's own file system" },
	{ MESSAGES_KUBERNETES, MESSAGES_STOPPED, 1,
	  "ephemeral local storage usage exceeds the total limit",
	  "the container wrote more to its own disk than it may: not memory",
	  "write to a volume, or raise limits.ephemeral-storage" },
	/* -- systemd, earlyoom -- */
	{ MESSAGES_SYSTEMD, MESSAGES_HOST_KILL, 1, "systemd-oomd*: Killed {group} due to memory",
	  OOMD_SAYS, OOMD_HELPS },
	{ MESSAGES_SYSTEMD, MESSAGES_HOST_KILL, 1, "systemd-oomd killed", OOMD_SAYS, OOMD_HELPS },
	{ MESSAGES_SYSTEMD, MESSAGES_CGROUP_KILL, 0, "has been killed by the OOM killer", UNIT_SAYS,
	  NULL },
	{ MESSAGES_SYSTEMD, MESSAGES_CGROUP_KILL, 0, "Failed with result 'oom-kill'", UNIT_SAYS,
	  NULL },
	{ MESSAGES_SYSTEMD, MESSAGES_HOST_KILL, 1,
	  "sending SIG* to process {pid} *\"{process}\": *badness*VmRSS {rss}", NULL, NULL },
	/* -- launchers: torch/distributed/elastic, deepspeed/launcher, Ray, Open MPI -- */
	{ MESSAGES_LAUNCHER, MESSAGES_HOST_KILL, 1, "due to the node running low on memory",
	  RAY_SAYS, RAY_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_HOST, 1,
	  "RayOutOfMemoryError: More than {code}% of the memory on node*is used ({used2} / "
	  "{limit2}",
	  RAY_RAISED, RAY_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_HOST, 1, "RayOutOfMemoryError: ", RAY_RAISED, RAY_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_DETAIL, 1,
	  "is used ({used2} / {limit2}). The top * memory consumers", NULL, NULL },

	{ MESSAGES_LAUNCHER, MESSAGES_DETAIL, 1,
	  "Memory on the node*was running was {used2} / {limit2}*memory usage threshold of {share}",
	  NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_DETAIL, 1,
	  "Memory on the node*was running was {used2} / {limit2}", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_HOST_KILL, 1, "scheduling/ray-oom-prevention.html", RAY_SAYS,
	  RAY_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_NOTHING, 1, " 0 Workers (tasks / actors) killed due to", NULL,
	  NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_HOST_KILL, 1,
	  "Workers (tasks / actors) killed due to memory pressure (OOM)", RAY_SAYS, RAY_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_HOST_KILL, 1,
	  "System memory low at node*Used memory ({used2}) / total capacity ({limit2})", RAY_SAYS,
	  RAY_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_OTHER, 0,
	  "The worker may have exceeded K8s pod memory limits",
	  "Ray lost a worker without a word, and guesses at the pod's memory limit",
	  "kubectl describe pod and dmesg -T on that node tell whether it was killed" },
	{ MESSAGES_LAUNCHER, MESSAGES_OTHER, 0,
	  "killed by SIGKILL by OOM killer due to high memory",
	  "Ray lost a worker without a word, and lists what it may be: the kernel's oom-killer, "
	  "ray "
	  "stop, or a crash",
	  "dmesg -T on that node tells whether it was killed; the worker's own log (worker-*.err) "
	  "shows a crash" },
	{ MESSAGES_LAUNCHER, MESSAGES_SHARED, 1,
	  "in object store because it is full. Object size is {tried}",
	  "Ray's object store, which lies in /dev/shm, has no room for it",
	  "a larger store (ray.init(object_store_memory=...)), smaller objects, or fewer "
	  "references "
	  "held at a time; ray memory lists who holds them" },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "Signal 9 (SIGKILL) received by PID {pid}", NULL,
	  NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "failed (exitcode: -9)*(pid: {pid})", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "exitcode : -9 (pid: {pid})", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "exitcode: -9|", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "exits with return code = -9|", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "died with <Signals.SIGKILL: 9>", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "PID {pid} *exited on signal 9 (Killed)", NULL,
	  NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "exited on signal 9 (Killed)", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "TerminatedWorkerError*SIGKILL", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "SIGKILL(-9)", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "terminated by signal SIGKILL", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "signal: killed|", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 0, "BrokenProcessPool", LOST_SAYS, LOST_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 0, "subprocesses has abruptly died", LOST_SAYS,
	  LOST_HELPS },
	/* notebooks: JupyterLab, Colab, Kaggle */
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 0, "appears to have died. It will restart",
	  KERNEL_SAYS, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_HOST_KILL, 1, "session crashed after using all available RAM",
	  "the notebook's machine has no more host memory; what the GPU has is another matter",
	  NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_HOST_KILL, 1,
	  "notebook tried to allocate more memory than is available",
	  "the notebook's machine has no more host memory; what the GPU has is another matter",
	  NULL },
	/* other schedulers: AWS Batch and ECS, LSF, PBS, HTCondor */
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1, "Container killed due to memory usage", NULL,
	  "more memory in the job's definition (resourceRequirements MEMORY; ECS: memory of the "
	  "task)" },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1, "TERM_MEMLIMIT", NULL,
	  "ask for more memory: bsub -M and -R \"rusage[mem=...]\"" },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1,
	  "PBS: job killed: mem {used} exceeded limit {limit}", NULL, PBS_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1, "PBS: job killed: vmem*exceeded limit", NULL,
	  "ask for more memory: #PBS -l vmem=..., or -l mem=..." },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1,
	  "job killed: mem job total {used} exceeded limit {limit}", NULL, PBS_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1, "job killed: mem*exceeded limit", NULL,
	  PBS_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1, "job killed: pmem*exceeded limit", NULL,
	  "ask for more memory a process: #PBS -l pmem=..." },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1, "job killed: pvmem*exceeded limit", NULL,
	  "ask for more memory a process: #PBS -l pvmem=..." },
	{ MESSAGES_LAUNCHER, MESSAGES_STOPPED, 1, "job killed: walltime*exceeded limit",
	  "the job's time was over: not memory", "ask for more time, or save and resume" },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1, "exceeds job hard limit \"h_vmem\"", NULL,
	  "ask for more memory: #$ -l h_vmem=... (each slot has so much)" },
	{ MESSAGES_LAUNCHER, MESSAGES_CGROUP_KILL, 1, "Job has gone over memory limit of", NULL,
	  "ask for more memory: request_memory in the submit file" },
	/* who watches processes: gunicorn, Celery, uWSGI, Supervisor, Airflow, Prefect, Intel MPI */
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "was sent SIGKILL! Perhaps out of memory?",
	  "gunicorn's worker was ended by SIGKILL: for host memory as a rule, or for its timeout",
	  "fewer gunicorn workers (each loads its own model), --preload, or more memory" },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "Worker exited prematurely: signal 9", NULL,
	  "fewer Celery workers at a time (--concurrency 1, --max-memory-per-child), or more "
	  "memory" },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "died, killed by signal 9", NULL,
	  "fewer uWSGI processes, or more memory" },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "exited: *(terminated by SIGKILL", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "return code Negsignal.SIGKILL", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1,
	  "killed before it finished (likely due to running out of memory)", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "exited with status code: -9", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "KILLED BY SIGNAL: 9 (Killed)", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 1, "terminated with signal SIGKILL", NULL, NULL },
	{ MESSAGES_SYSTEMD, MESSAGES_KILLED, 1, "Main process exited, code=killed, status=9/KILL",
	  NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "Exited (137) ", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "fatal error: Killed signal terminated program",
	  COMPILER_SAYS, COMPILER_HELPS },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "terminated with signal 9 [Killed]", COMPILER_SAYS,
	  COMPILER_HELPS },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "could not compile *(signal: 9, SIGKILL",
	  COMPILER_SAYS, COMPILER_HELPS },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, /* cargo */
	  "process didn't exit successfully*build-script*(signal: 9, SIGKILL", COMPILER_SAYS,
	  COMPILER_HELPS },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1,
	  "process didn't exit successfully*rustc*(signal: 9, SIGKILL", COMPILER_SAYS,
	  COMPILER_HELPS },
	/* how Rust tells the end of any process */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "(signal: 9, SIGKILL", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "LLVM ERROR: out of memory", NULL, COMPILER_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_SHARED, 0, "(exitcode: -7) local_rank", BUS_ERROR, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "unable to allocate CUDA*buffer", NULL, NULL },
	{ MESSAGES_LLAMA_CPP, MESSAGES_DEVICE, 1, "unable to allocate Vulkan*buffer", NULL, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_SHARED, 0, "Signal 7 (SIGBUS) received by PID {pid}",
	  BUS_ERROR, NULL },
	{ MESSAGES_LAUNCHER, MESSAGES_OTHER, 1, "(SIGSEGV) received by PID {pid}",
	  "a process crashed (segmentation fault): not memory that ran out", NULL },
	/* -- shells and exit codes -- */
	{ MESSAGES_SHELL, MESSAGES_NOTHING, 1, "exit code 137 mean", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_NOTHING, 1, "that ends with exit code 137", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "exit code: 137|", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "exit code 137|", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "exit code (137)", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "exited with code 137|", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "exit status 137|", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "exitcode: 137|", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "exitcode\": 137|", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "non-zero code: 137|", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "Command terminated by signal 9|", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, ": line {code}: {pid} Killed", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "zsh: killed ", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^[{code}] {pid} killed ", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^Killed$", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "]Killed$", NULL, NULL }, /* behind a progress bar */
	/* the shell's word in other languages: bash's translations */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^\345\267\262\346\235\200\346\255\273$", NULL,
	  NULL }, /* zh_CN */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^\345\267\262\347\240\215\346\216\211$", NULL,
	  NULL }, /* zh_TW */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^\345\274\267\345\210\266\347\265\202\344\272\206$",
	  NULL, NULL },                                                         /* ja */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^Get\303\266tet$", NULL, NULL }, /* de */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^\320\243\320\261\320\270\321\202\320\276$", NULL,
	  NULL }, /* ru */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^Processus arr\303\252t\303\251$", NULL,
	  NULL }, /* fr */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "]\345\267\262\346\235\200\346\255\273$", NULL,
	  NULL }, /* zh_CN */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "]\345\267\262\347\240\215\346\216\211$", NULL,
	  NULL }, /* zh_TW */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "]\345\274\267\345\210\266\347\265\202\344\272\206$",
	  NULL, NULL },                                                         /* ja */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "]Get\303\266tet$", NULL, NULL }, /* de */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "]\320\243\320\261\320\270\321\202\320\276$", NULL,
	  NULL }, /* ru */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "]Processus arr\303\252t\303\251$", NULL,
	  NULL },                                                                   /* fr */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^Terminado (killed)$", NULL, NULL }, /* es */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "]Terminado (killed)$", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^Ucciso$", NULL, NULL }, /* it */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "]Ucciso$", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^\354\243\275\354\227\210\354\235\214$", NULL,
	  NULL }, /* ko */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "]\354\243\275\354\227\210\354\235\214$", NULL,
	  NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^Unicestwiony$", NULL, NULL }, /* pl */
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "]Unicestwiony$", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^Killed: 9", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_SHARED, 0, "Bus error (core dumped)", BUS_ERROR, NULL },
	{ MESSAGES_SHELL, MESSAGES_OTHER, 1, "Segmentation fault (core dumped)",
	  "a process crashed: not memory that ran out",
	  "a core dump or a debugger shows where; of Python, python -X faulthandler" },
	/* torch/nn/modules/module.py: load_state_dict */
	{ MESSAGES_PYTORCH, MESSAGES_OTHER, 1,
	  "size mismatch for {process}: copying a param with shape",
	  "a layer of the checkpoint has another shape than the model's: not memory",
	  "plimsoll ckpt diff CHECKPOINT OTHER shows which layers differ" },
	{ MESSAGES_PYTORCH, MESSAGES_OTHER, 1, "Missing key(s) in state_dict: ",
	  "the model has layers that the checkpoint lacks: not memory",
	  "plimsoll ckpt diff CHECKPOINT OTHER shows which layers differ; a prefix (module.) may "
	  "be it" },
	{ MESSAGES_PYTORCH, MESSAGES_OTHER, 1, "Unexpected key(s) in state_dict: ",
	  "the checkpoint has layers that the model lacks: not memory",
	  "plimsoll ckpt diff CHECKPOINT OTHER shows which layers differ; a prefix (module.) may "
	  "be it" },
	{ MESSAGES_PYTHON, MESSAGES_SHARED, 1, "joblib will operate in serial mode",
	  "semaphores lie in /dev/shm, and it is full or too small: no disk", NULL },
	{ MESSAGES_SHELL, MESSAGES_OTHER, 1, "No space left on device",
	  "a disk is full: not memory", "df -h tells which" },
	{ MESSAGES_LIBRARY, MESSAGES_NOTHING, 1, "failed to mlock *-byte buffer", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, ": Cannot allocate memory$", NULL, NULL },
	/* as GNU's programs tell of themselves */
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "^{process}: memory exhausted$", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "virtual memory exhausted: Cannot allocate", NULL,
	  NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, ": out of memory allocating {tried}", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "out of memory or dimension too large", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, /* Unsloth Studio, before it loads */
	  "of this model does not fit in GPU memory and would run from system RAM",
	  "the part that does not fit on the card would not fit into the machine's free memory, "
	  "by the program's own estimate",
	  "a smaller quantisation or model; UNSLOTH_ALLOW_HOST_OFFLOAD=1 loads it all the same, "
	  "from the file as it is needed" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* TensorRT, while it builds */
	  "bytes of scratch space, but only*available",
	  "a layer's scratch space is larger than what is free on the card",
	  "a smaller --max_batch_size, --max_num_tokens, --max_input_len or --max_seq_len for "
	  "the build: the scratch space goes by their product" },
	/* -- PyTorch without numbers: what the rows above did not take -- */
	/* quoted from its second sentence on */
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1,
	  "Tried to allocate {tried} (GPU {device}; {total} total capacity; {allocated} already "
	  "allocated; {free} free; {reserved} reserved",
	  NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1,
	  "Tried to allocate {tried} (GPU {device}; {total} total capacity", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "Error: CUDA out of memory", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "Error: HIP out of memory", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "CUDA out of memory. Tried to allocate {tried}",
	  NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "Error: Allocation on device", NULL, NULL },
	/* the class alone, as reports list it, in any language */
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, ":* torch.OutOfMemoryError$", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, ":* torch.cuda.OutOfMemoryError$", NULL, NULL },
	/* -- the driver's own words, by whomever -- */
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA Error {code}, out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA Error: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA error {code} on device {device}: out of memory",
	  NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "cudaMalloc*: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "cuMemCreate*out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "cuMemAlloc*out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA error*: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA_ERROR*out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "hipMalloc*out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "out of memory (cudaErrorMemoryAllocation)", NULL,
	  NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "Cuda error: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "cudaMallocManaged*out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_HOST, 1, "cuMemHostAlloc*out of memory", PINNED_SAYS,
	  PINNED_HELPS },
	/* -- programs without rows of their own, in the ways that such checks are worded -- */
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "what(): CUDA out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA failure in cudaMalloc", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA error !!!!! <out of memory>", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, /* alpaka */
	  "Cannot reserve {tried} as there is only {free} free device memory left", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, /* DeepSpeed's inference kernels */
	  "Workspace can't be allocated, no enough memory", NULL,
	  "a smaller max_out_tokens of deepspeed.init_inference, a shorter input, or the program "
	  "without DeepSpeed" },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "^error: out of memory$", NULL, NULL },
	/* named in a sentence, in quotes, as what was met */
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "CUDA out of memory` error", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "CUDA out of memory\" error", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "CUDA out of memory\xe2\x80\x9d error", NULL,
	  NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "GPUassert: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "cudaSuccess*out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "[CUDA] out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "cuda*failed*out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "Cuda*failed*out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA*failed*out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "CUDA*allocation*out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "libcud*rror: out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "failed with error: 'out of memory'", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "rror: CUDA_OUT_OF_MEMORY", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "DEVICE_OUT_OF_MEMORY", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "rror: GPU out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "rror: Not enough GPU memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "rror: ran out of GPU memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "rror: out of device memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "ERROR: ran out of VRAM", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "device memory exhausted", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "ailed to allocate {tried} of GPU memory", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "ailed to allocate {tried} on device: cuda", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "rror: out of memory, allocating {tried} on device {device}", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "wgpu error: Out of Memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Out of CUDA pre-allocated memory",
	  "Taichi's own pool of the card's memory was full",
	  "a larger device_memory_GB (or device_memory_fraction) in ti.init(), or smaller fields" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1,
	  "PxgCudaDeviceMemoryAllocator fail to allocate memory {tried}", NULL, PHYSX_HELPS },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "PhysX*ailed to allocate GPU memory", NULL,
	  PHYSX_HELPS },
	{ MESSAGES_LIBRARY, MESSAGES_OTHER, 1, "PxgDynamicsMemoryConfig::*buffer overflow detected",
	  "a buffer of PhysX was too small for so many environments, not the card",
	  "the named buffer larger in the scene's PhysX settings (gpu_collision_stack_size, "
	  "gpu_max_rigid_patch_count ...), or fewer environments" },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "out of memory (/app/tensorrt_llm", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "Failed (CUDA out of memory) on", NULL, NULL },
	{ MESSAGES_PYTORCH, MESSAGES_DEVICE, 1, "ran out of memory, skipping", NULL, NULL },
	/* OpenCL: NVIDIA's gives no buffer above a quarter of the card */
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "Memory Object Allocation Failure", ONE_BUFFER,
	  OPENCL_HELPS },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "MEM_OBJECT_ALLOCATION_FAILURE", ONE_BUFFER,
	  OPENCL_HELPS },
	{ MESSAGES_PYTHON, MESSAGES_KILLED, 0,
	  "excessive memory usage causing the Operating System to kill the worker",
	  "joblib lost a worker: killed for host memory as a rule, or crashed",
	  "fewer processes at a time (n_jobs=2), or smaller data for each" },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 0, "background worker is 6 feet under", NNUNET_SAYS,
	  NNUNET_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 0, "background workers are no longer alive",
	  NNUNET_SAYS, NNUNET_HELPS },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 0, "Background workers died. Look for", NNUNET_SAYS,
	  NNUNET_HELPS },
	{ MESSAGES_PYTHON, MESSAGES_HOST, 1, "Error tokenizing data. C error: out of memory",
	  "pandas got no memory for the rows of a file",
	  "the file in parts (chunksize=), fewer columns (usecols=) and smaller types (dtype=)" },
	{ MESSAGES_LAUNCHER, MESSAGES_KILLED, 0, "KernelRestarter: restarting kernel", KERNEL_SAYS,
	  NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "nvcc fatal : Memory allocation failure", NULL,
	  COMPILER_HELPS },
	/* Windows' codes of an end: no memory to commit; a crash */
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "exit code -1073741523",
	  "Windows could promise no more memory (0xC000012D): the page file is too small", NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "exit code -1073741801",
	  "Windows had no memory to give (0xC0000017)", NULL },
	{ MESSAGES_SHELL, MESSAGES_OTHER, 1, "exit code -1073741819",
	  "a process crashed (0xC0000005, an address that is not its own): not memory that ran out",
	  "python -X faulthandler shows where" },
	{ MESSAGES_SHELL, MESSAGES_OTHER, 1, "exit code -1073740791",
	  "a process crashed (0xC0000409): not memory that ran out, as a rule",
	  "python -X faulthandler shows where; without a window, the library's own log" },
	/* -- how languages, libraries and servers tell that malloc gave nothing -- */
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "fatal runtime error: out of memory", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1,
	  "fatal: Out of memory, malloc failed (tried to allocate {tried})", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "^fatal: out of memory", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "can't allocate region", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "mach_vm_map(size=*failed (error code=3)", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "|malloc failed", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "|malloc() failed", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "|calloc failed", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "|realloc failed", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "|bad allocation|", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "(not enough memory)", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "Out of memory; restart server and try again", NULL,
	  NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "PG::OutOfMemory", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "^Out of memory!$", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "^Out of memory during", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "LoadError: OutOfMemoryError()", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "OutOfMemoryError()", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "ENOMEM: not enough memory", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "HeapAlloc failed", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "|out of host memory|", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_HOST, 1, "OUT_OF_HOST_MEMORY", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "OOM command not allowed when used memory",
	  "Redis's own limit (maxmemory) was reached, not the machine's memory",
	  "a larger maxmemory, or a maxmemory-policy that lets old keys go" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "Heap exhausted, game over",
	  "the Lisp's own heap was full: its limit, not the machine's memory",
	  "a larger --dynamic-space-size" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "heap exhausted (no more space",
	  "the Lisp's own heap was full: its limit, not the machine's memory",
	  "a larger --dynamic-space-size" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "Heap exhausted during",
	  "the Lisp's own heap was full: its limit, not the machine's memory",
	  "a larger --dynamic-space-size" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "heap exhausted; current maximum heap size is",
	  "Haskell's own heap was full: its limit, not the machine's memory", "a larger +RTS -M" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "Allocation failed - process out of memory",
	  "Node's own heap was full: neither the GPU's memory nor the machine's",
	  "a larger heap: NODE_OPTIONS=--max-old-space-size=8192" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "RangeError: Array buffer allocation failed",
	  "Node's own heap was full: neither the GPU's memory nor the machine's",
	  "a larger heap: NODE_OPTIONS=--max-old-space-size=8192" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "OutOfMemory: Java heap space",
	  "Java's own heap was full (-Xmx): neither the GPU's memory nor the machine's",
	  "a larger -Xmx" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "^GC overhead limit exceeded",
	  "Java's own heap was full (-Xmx): neither the GPU's memory nor the machine's",
	  "a larger -Xmx" },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "Error: memory exhausted (limit reached", NULL,
	  NULL },
	{ MESSAGES_LIBRARY, MESSAGES_HOST, 1, "cannot allocate memory block of size", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_OTHER, 1, "C stack usage {code} is too close to the limit",
	  "R's stack is too small for so deep a recursion: not memory",
	  "a recursion without an end is the rule; else ulimit -s unlimited" },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "Exit code is 137", NULL, NULL },
	{ MESSAGES_SHELL, MESSAGES_KILLED, 1, "^make*: *** [*] Killed", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "thrust::system::detail::bad_alloc", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "cuda_malloc*out of memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "ailed to allocate device memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "ailed to allocate GPU memory", NULL, NULL },
	{ MESSAGES_CUDA, MESSAGES_DEVICE, 1, "Not enough GPU memory", NULL, NULL },
	{ MESSAGES_LIBRARY, MESSAGES_DEVICE, 1, "GL_OUT_OF_MEMORY", NULL, NULL },
	/* -- what only somebody's words tell, or a message that is cut: counts where nothing else in the file does -- */
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "CUDA out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "CUDA OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "GPU out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "XLA Label: ", IN_WORDS,
	  NULL }, /* of a refused program's table */
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "GPU OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "out of GPU memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "out of CUDA memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "out of VRAM", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "ran out of VRAM", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "GPU runs out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "GPU ran out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "GPU memory overflow", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "CUDA memory error", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "OutOfMemoryError: CU", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "cuda.OutOfMemoryError", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "torch.OutOfMemoryError", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "CUDA_ERROR_OUT_OF_MEMORY", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "killed: 9", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "SIGKILL (signal 9)", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "signal 9 (SIGKILL)", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "killed by signal 9", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "exit code 137|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "exited with 137|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "code: 137|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "code 137|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "status 137|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "137 error code", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "error code 137", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "OOM killed", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "OOM-killed", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "killed by OOM", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "killed by the OOM", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "because of OOM", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "killed due to OOM", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "killed by oom", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "OOMKilled|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "OOM kill|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "oom killer kill", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "killed because*memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "killed due to*memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "killed as*out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "killed for*out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "killed since*memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "|killed*out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "|killed*memory usage", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "out of memory*is killed", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "out of memory*gets killed", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "out of memory*was killed", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "out of memory*killed by", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "memory*and gets killed", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "memory*and is killed", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "memory*and was killed", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "memory*until it is killed", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_KILLED, 0, "memory*system kills", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "OOM on GPU|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "GPU memory exhausted", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "cuda.memory.OutOfMemoryError", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "got the OutOfMemoryError", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "Sampler Allocation on device", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "got OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "get OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "gets OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "getting OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "causes OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "caused OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "OOM error|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "run OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "runs OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "goes OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "went OOM|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "OOM during|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "OOM while|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "CUDA is out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "GPU is out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "out of memory after", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "out of memory when", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "out of memory while", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "ran out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "runs out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "run out of memory|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "goes out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "went out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "got out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "get out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "gets out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "getting out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "out of memory error|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "out-of-memory error|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "out of memory issue|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "out of memory problem|", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "crash*out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "crash*memory error", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "crash*not enough memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "not enough memory on my", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "not enough GPU memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "not enough VRAM", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "fails*out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "always out of memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_DEVICE, 0, "memory overflow", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_HOST, 0, "ailed to allocate {tried}", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_HOST, 0, "unable to allocate memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_HOST, 0, "memory allocation failed", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_HOST, 0, "insufficient system memory", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_HOST, 0, "not enough RAM", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_HOST, 0, "out of RAM", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_HOST, 0, "ran out of RAM", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_HOST, 0, "RAM and crashes", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_HOST, 0, "RAM and then crashes", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_HOST, 0, "using all available RAM", IN_WORDS, NULL },
	{ MESSAGES_WORDS, MESSAGES_HOST, 0, "runs out of RAM", IN_WORDS, NULL },
};
const size_t scan_wording_count = sizeof(scan_wordings) / sizeof(scan_wordings[0]);

const struct messages_wording scan_untold_wording = {
	MESSAGES_WORDS,
	MESSAGES_KILLED,
	0,
	"out of memory",
	"who tells of it does not say which memory it was: the card's or the machine's",
	"see which memory it is while it runs: nvidia-smi -l 1 shows the card's, free -h -s 1 "
	"the machine's; then less at a time of what lies in that one"
};

const struct messages_wording scan_host_words = { MESSAGES_WORDS,  MESSAGES_HOST, 0,
						  "out of memory", IN_WORDS,      NULL };

const struct messages_wording scan_table_wording = {
	MESSAGES_KERNEL, MESSAGES_DETAIL, 1, "[ pid ] uid tgid total_vm rss", NULL, NULL
};
