/*
 * Failures of memory in logs: PyTorch's out-of-memory texts, the kernel's, the schedulers' and those
 * of other programs; and failures that are often taken for one.  Numbers in them are rounded, so
 * each is an interval.  Fields are found, not sentences: wordings change with every release.
 */
#ifndef MESSAGES_MESSAGES_H
#define MESSAGES_MESSAGES_H

#include "base/base.h"

/* What a rounded number stands for.  Both PLIM_UNKNOWN: the text does not say. */
struct messages_bytes {
	uint64_t low, high;
};

static inline int messages_known(struct messages_bytes b)
{
	return b.low != PLIM_UNKNOWN;
}

/* The sum, at most PLIM_UNKNOWN - 1; the difference, at least 0.  Both are known. */
struct messages_bytes messages_plus(struct messages_bytes a, struct messages_bytes b);
struct messages_bytes messages_less(struct messages_bytes a, struct messages_bytes b);

extern const struct messages_bytes messages_unknown;
/* "1.20 GiB", or "120.00 MiB to 140.00 MiB" of a wide range, into a buffer of MESSAGES_SIZE. */
#define MESSAGES_SIZE 32
const char *messages_size(char *buffer, struct messages_bytes b);

/* A process that the text lists with what it holds of the GPU. */
#define MESSAGES_HOLDERS 8
struct messages_holder {
	uint64_t pid;
	struct messages_bytes bytes;
};

struct messages_oom {
	struct messages_bytes tried, total, free, allowed, allocated, unallocated, private_pools;
	struct messages_bytes reserved; /* of PyTorch: allocated and unallocated together */
	struct messages_bytes
		this_process; /* PyTorch's memory, the context and all else of this process */
	struct messages_bytes others; /* the other processes' together */
	uint32_t device;              /* PLIM_UNKNOWN cut to 32 bits: not known */
	uint32_t processes;           /* clauses about other processes */
	uint32_t own_listed;          /* one of the clauses was about this process itself */
	uint32_t old_format;          /* the words of PyTorch up to 2.0 */
	struct messages_holder holders[MESSAGES_HOLDERS + 1]; /* the first; one may be its own */
	uint64_t line;                                        /* of the text, from 1 */
};

/* The first one in a text of a few KiB; 0 when there is none. */
int messages_parse_oom(const char *text, size_t n, struct messages_oom *out);

/* ---- the kernel's lines about a kill ---- */

enum messages_constraint {
	MESSAGES_CONSTRAINT_UNKNOWN,
	MESSAGES_CONSTRAINT_MACHINE,
	MESSAGES_CONSTRAINT_CGROUP,
	MESSAGES_CONSTRAINT_CPUSET,
	MESSAGES_CONSTRAINT_POLICY
};

/* Names are parts of the line; "" and PLIM_UNKNOWN: it does not say. */
struct messages_kill {
	uint64_t pid;
	enum messages_constraint constraint;
	const char *process, *group;
	size_t process_n, group_n;
	uint64_t virtual_bytes, anon_bytes, file_bytes, shmem_bytes;
};

/* "oom-kill:constraint=CONSTRAINT_MEMCG,...,task=python,pid=12,uid=0": why, and who will be; 0: not that. */
int messages_kill_reason(const char *line, size_t n, struct messages_kill *out);

/*
 * "Memory cgroup out of memory: Killed process 12 (python) total-vm:34kB, anon-rss:..."; 0: not that.
 * Older kernels announce it in a line without sizes before.
 */
int messages_kill_done(const char *line, size_t n, struct messages_kill *out);

/* ---- everything else ---- */

/* Who wrote it. */
enum messages_family {
	MESSAGES_PYTORCH,
	MESSAGES_CUDA,
	MESSAGES_ROCM,
	MESSAGES_XPU,
	MESSAGES_NCCL,
	MESSAGES_DATALOADER,
	MESSAGES_PYTHON,
	MESSAGES_SHELL,
	MESSAGES_LAUNCHER, /* torchrun, mpirun, DeepSpeed's, Ray */
	MESSAGES_KERNEL,
	MESSAGES_SLURM,
	MESSAGES_KUBERNETES,
	MESSAGES_SYSTEMD,
	MESSAGES_JAX,
	MESSAGES_TENSORFLOW,
	MESSAGES_LLAMA_CPP,
	MESSAGES_SERVING, /* vLLM and its like */
	MESSAGES_LIBRARY, /* bitsandbytes, CuPy, ONNX Runtime ... */
	MESSAGES_WORDS,   /* no one's message: who reports it says so */
	MESSAGES_FAMILIES
};
extern const char *const messages_family_names[MESSAGES_FAMILIES];

/*
 * Which program it was, as anchored words of its own prove (data/cues.rows, place.c).  The order decides between several: what
 * trains, serves or draws stands in front of the libraries that it is built on.
 */
enum messages_engine {
	MESSAGES_ENGINE_UNKNOWN,
	MESSAGES_ENGINE_AXOLOTL,
	MESSAGES_ENGINE_LLAMA_FACTORY,
	MESSAGES_ENGINE_UNSLOTH,
	MESSAGES_ENGINE_VERL,
	MESSAGES_ENGINE_TRL,
	MESSAGES_ENGINE_VLLM,
	MESSAGES_ENGINE_SGLANG,
	MESSAGES_ENGINE_TGI,
	MESSAGES_ENGINE_TENSORRT_LLM,
	MESSAGES_ENGINE_TRITON_SERVER,
	MESSAGES_ENGINE_MLC,   /* MLC LLM, and TVM */
	MESSAGES_ENGINE_WEBUI, /* text-generation-webui, which loads by the following */
	MESSAGES_ENGINE_OLLAMA,
	MESSAGES_ENGINE_KOBOLDCPP,
	MESSAGES_ENGINE_LM_STUDIO,
	MESSAGES_ENGINE_LLAMA_CPP_PYTHON,
	MESSAGES_ENGINE_WHISPER_CPP,
	MESSAGES_ENGINE_SD_CPP,
	MESSAGES_ENGINE_LLAMA_CPP,
	MESSAGES_ENGINE_LMDEPLOY,
	MESSAGES_ENGINE_EXLLAMA,
	MESSAGES_ENGINE_KOHYA, /* its paths may lie in a web interface's */
	MESSAGES_ENGINE_COMFYUI,
	MESSAGES_ENGINE_FORGE,
	MESSAGES_ENGINE_FOOOCUS,
	MESSAGES_ENGINE_SDNEXT,
	MESSAGES_ENGINE_A1111,
	MESSAGES_ENGINE_INVOKEAI,
	MESSAGES_ENGINE_DIFFUSERS,
	MESSAGES_ENGINE_TENSORRT,
	MESSAGES_ENGINE_ONNX_RUNTIME,
	MESSAGES_ENGINE_CTRANSLATE2,
	MESSAGES_ENGINE_WHISPER,
	MESSAGES_ENGINE_MLX,
	MESSAGES_ENGINE_PADDLE,
	MESSAGES_ENGINE_JAX,
	MESSAGES_ENGINE_TENSORFLOW,
	MESSAGES_ENGINE_RAPIDS, /* cuDF, cuML, RMM */
	MESSAGES_ENGINE_CUPY,
	MESSAGES_ENGINE_XGBOOST,
	MESSAGES_ENGINE_JULIA,
	MESSAGES_ENGINE_CANDLE, /* Rust */
	MESSAGES_ENGINE_MEGATRON,
	MESSAGES_ENGINE_DEEPSPEED,
	MESSAGES_ENGINE_ULTRALYTICS,
	MESSAGES_ENGINE_PYTORCH,
	MESSAGES_ENGINE_RAY,
	MESSAGES_ENGINE_JVM,
	MESSAGES_ENGINE_OTHER, /* whose message it is, its wording shows; no row of advice is for it */
	MESSAGES_ENGINES
};
/* Of each engine (data/engines.rows). */
struct messages_engine_facts {
	const char *name;
	bool on_pytorch;   /* PyTorch is inside */
	bool trains_never; /* it passes nothing backward and has no optimizer */
	bool dies_loading; /* mostly: the name of a script that chats or shows says nothing */
	bool pools;        /* blocks of its own, or it is not known */
};
extern const struct messages_engine_facts messages_engines[]; /* by enum messages_engine */

enum messages_activity {
	MESSAGES_DOING_UNKNOWN,
	MESSAGES_DOING_TRAINING,
	MESSAGES_DOING_EVALUATION,
	MESSAGES_DOING_GENERATING, /* tokens or pictures, one caller at a time */
	MESSAGES_DOING_SERVING,
	MESSAGES_DOING_LOADING,
	MESSAGES_DOING_CONVERTING, /* a model to another form */
	MESSAGES_DOING_COMPILING,
	MESSAGES_DOING_STARTING, /* before anything was loaded or done */
	MESSAGES_DOINGS
};
extern const char *const messages_activity_names[MESSAGES_DOINGS];

/* Whose driver: settings differ. */
enum messages_backend {
	MESSAGES_BACKEND_CUDA,
	MESSAGES_BACKEND_ROCM,
	MESSAGES_BACKEND_MPS,
	MESSAGES_BACKEND_XPU,
	MESSAGES_BACKEND_TPU,
	MESSAGES_BACKEND_VULKAN,
	MESSAGES_BACKEND_NPU, /* Ascend */
	MESSAGES_BACKEND_HPU, /* Gaudi */
	MESSAGES_BACKEND_OTHER
};

/* What the text shows to be set already: advice to set it would be of no use (settings.c). */
enum messages_setting {
	MESSAGES_SET_SHARE, /* vLLM's gpu_memory_utilization */
	MESSAGES_SET_EAGER,
	MESSAGES_SET_QUANTISED,
	MESSAGES_SET_KV_CACHE,
	MESSAGES_SET_BATCH,
	MESSAGES_SET_EVAL_BATCH,
	MESSAGES_SET_CHECKPOINTING,
	MESSAGES_SET_EXPANDABLE,
	MESSAGES_SET_SMALL_STATE, /* of the optimizer */
	MESSAGES_SET_SHARDED,     /* ZeRO 3, FSDP */
	MESSAGES_SET_OFFLOADED,   /* optimizer state, on the host */
	MESSAGES_SET_HALF,
	MESSAGES_SET_DEVICE_MAP,
	MESSAGES_SET_LOWVRAM,
	MESSAGES_SET_MEDVRAM,
	MESSAGES_SET_MODEL_OFFLOAD,
	MESSAGES_SET_SEQUENTIAL_OFFLOAD,
	MESSAGES_SET_STATIC, /* SGLang's mem-fraction-static */
	MESSAGES_SET_TILING,
	MESSAGES_SET_LAYERS, /* on the GPU: none */
	MESSAGES_SET_WORKERS,
	MESSAGES_SET_GROWTH,
	MESSAGES_SET_PREALLOCATE, /* JAX's, switched off */
	MESSAGES_SET_CACHED_LATENTS,
	MESSAGES_SET_FP8_BASE,
	MESSAGES_SET_ATTENTION,  /* that holds no matrix of all pairs */
	MESSAGES_SET_TORCH_LOAD, /* a checkpoint is read by torch.load */
	/* no settings: libraries whose spelling advice is to have */
	MESSAGES_SET_HF_TRAINER,
	MESSAGES_SET_LIGHTNING,
	MESSAGES_SET_DEEPSPEED,
	MESSAGES_SET_VLLM,
	MESSAGES_SET_PROFILE, /* vLLM's pass before there is a KV cache */
	MESSAGES_SET_UNIFIED,
	MESSAGES_SET_CAPTURE,  /* SGLang's CUDA graphs were being captured */
	MESSAGES_SET_LANGUAGE, /* a language model: sequences and logits */
	MESSAGES_SET_GRPO,
	MESSAGES_SET_FLOAT32,
	MESSAGES_SET_V1,      /* vLLM's engine that knows no swap space */
	MESSAGES_SET_COMPILE, /* torch.compile */
	MESSAGES_SET_WINDOWS,
	MESSAGES_SET_MEDIA,    /* pictures or videos are among a server's inputs */
	MESSAGES_SET_DECODING, /* a picture or video out of its latents */
	/* servers' sizes: what is advised lies below what is set */
	MESSAGES_SET_SEQUENCES,
	MESSAGES_SET_BATCHED,
	MESSAGES_SET_LENGTH,
	MESSAGES_SET_CHUNK,
	MESSAGES_SET_RUNNING,
	MESSAGES_SET_GRAPHS,      /* CUDA graphs: none */
	MESSAGES_SET_GRAPH_BATCH, /* the largest that SGLang captures one of */
	MESSAGES_SET_CONTEXT,     /* of llama.cpp and what is built on it */
	MESSAGES_SET_BUFFERS, /* of llama.cpp for its computation: they, not the weights, had no room */
	MESSAGES_SET_IMAGE,    /* the edge of a picture, in pixels */
	MESSAGES_SET_BEST,     /* the best checkpoint was being loaded, behind the training */
	MESSAGES_SET_UBATCH,   /* llama.cpp's physical batch, far above its default */
	MESSAGES_SET_KV_ROOM,  /* it was the KV cache that had no room */
	MESSAGES_SET_LAUNCHER, /* several ranks were started: torchrun, mpirun, a rank's number */
	/* no settings: what kind of work it is, whoever does it; advice is chosen by a set of 64 bits of its own */
	MESSAGES_TASKS,
	MESSAGES_TASK_NOTEBOOK = MESSAGES_TASKS,
	MESSAGES_TASK_REPLICAS,   /* DataParallel */
	MESSAGES_TASK_DRAWN,      /* SGLang serves a model of diffusion */
	MESSAGES_TASK_STATES,     /* of an optimizer, which were being made */
	MESSAGES_TASK_LOGITS,     /* of all tokens, where the loss is reckoned */
	MESSAGES_TASK_NO_NVIDIA,  /* the GPUs are another maker's */
	MESSAGES_TASK_WEIGHTS,    /* were being made, before anything ran */
	MESSAGES_TASK_SHARDS,     /* of a checkpoint were loaded */
	MESSAGES_TASK_ADAPTERS,   /* LoRA and its like */
	MESSAGES_TASK_ARRAYS,     /* of numpy, pandas or their kind */
	MESSAGES_TASK_SHARED_RAM, /* the GPU is a part of the processor, and has its memory */
	MESSAGES_TASK_TF_BESIDE,  /* TensorFlow has taken the GPU in this process, too */
	MESSAGES_TASK_PRETRAINED, /* Transformers or diffusers read the model */
	MESSAGES_TASK_NATIVE,     /* no Python: a program in C++, or on the JVM */
	MESSAGES_TASK_JVM,
	MESSAGES_TASK_WSL,
	MESSAGES_TASK_FORK,
	MESSAGES_TASK_SESSION, /* of TensorFlow 1, whose graphs know no policy of precision */
	MESSAGES_TASK_BATCHES, /* PyTorch's DataLoader makes them */
	/* how far it had come */
	MESSAGES_TASK_EPOCHS, /* many were over */
	MESSAGES_TASK_LOADER, /* a node of ComfyUI that loads */
	MESSAGES_SETTINGS
};

/* What it says.  From DEVICE to SHARED it is memory; the order is how much it reports a kill. */
enum messages_class {
	MESSAGES_DEVICE, /* the GPU's memory was refused */
	MESSAGES_BUDGET, /* a program's own share of the GPU did not suffice */
	MESSAGES_HOST,   /* the machine refused memory, or had too little */
	MESSAGES_CGROUP_KILL,
	MESSAGES_HOST_KILL,
	MESSAGES_KILLED,  /* SIGKILL; by whom, it does not say */
	MESSAGES_SHARED,  /* /dev/shm */
	MESSAGES_STOPPED, /* someone ended it, by SIGKILL in the end, for another reason */
	MESSAGES_OTHER,   /* a failure that is not memory */
	MESSAGES_DETAIL,  /* adds to the failure that it belongs to */
	MESSAGES_NOTHING  /* looks like one and is none */
};

struct messages_wording {
	enum messages_family family;
	enum messages_class class;
	enum messages_engine engine; /* the only one that writes it; 0: several do */
	int sure;                    /* 0: the same words are also written for other reasons */
	const char *pattern;
	const char *says;   /* what it means, for a person; NULL: its class says it */
	const char *advice; /* NULL: that of its class */
};

/* What the program was doing, from the traceback. */
enum messages_moment {
	MESSAGES_MOMENT_UNKNOWN,
	MESSAGES_LOADING,
	MESSAGES_FORWARD,
	MESSAGES_BACKWARD,
	MESSAGES_FIRST_STEP, /* the optimizer makes its state */
	MESSAGES_OPTIMIZER,
	MESSAGES_EVAL,
	MESSAGES_GENERATION,
	MESSAGES_SAVING,
	MESSAGES_DATA, /* batches are made or moved */
	MESSAGES_MOMENTS
};

struct messages_frame {
	char file[256]; /* the end of a longer name; "" when there is none */
	char function[64];
	char source[128]; /* the line of code, if it was shown */
	uint32_t line;
};

#define MESSAGES_STEP_SOME (PLIM_UNKNOWN - 1)
#define MESSAGES_CALLERS 7 /* kept of a traceback */
struct messages_trace {
	struct messages_frame user; /* the innermost that is not of an installed package */
	struct messages_frame
		callers[MESSAGES_CALLERS]; /* the user's own that led to it, innermost first */
	uint32_t caller_count;
	struct messages_frame outer; /* the outermost of the user's own */
	int semaphore;               /* one of multiprocessing was being made, in /dev/shm */
	struct messages_frame shown; /* the frame that shows the moment */
	enum messages_moment moment;
	uint32_t frames;
	/* of the progress in front of it; PLIM_UNKNOWN: none was shown, MESSAGES_STEP_SOME: losses without a number */
	uint64_t step;
	int fresh; /* and from the log's first line on none above 0: no step was done yet */
};

#define MESSAGES_RANKS 16 /* reported one by one */
#define MESSAGES_TOP 6    /* processes kept of a process table */

struct messages_process {
	uint64_t pid;
	uint64_t rss_bytes;
	char name[24];
};

/* One failure, however often it was repeated. */
struct messages_event {
	const struct messages_wording *wording;
	struct messages_oom oom; /* also of others than PyTorch, as far as they tell */
	struct messages_trace traceback;
	struct messages_bytes used, limit, rss;
	struct messages_bytes
		lacks; /* what a server's share would have to be larger by, at least */
	uint64_t pid, code, need_blocks;
	uint64_t tokens_wanted, tokens_fit; /* of a server's KV cache */
	double share;         /* of a whole that was asked for, or a threshold; < 0: not known */
	uint64_t caught_line; /* where the program says that it went on; 0: it does not */
	char process[32];
	char group[192]; /* cgroup, unit, job or pod */
	char text[320];  /* the line, its end cut */
	uint32_t file;   /* index into the log's files */
	uint64_t line, last_line, times;
	uint32_t ranks[MESSAGES_RANKS];
	uint32_t rank_count, ranks_left_out;
	struct messages_process top[MESSAGES_TOP]; /* largest first */
	uint32_t top_count;
	uint64_t table_processes, table_rss_bytes; /* of the whole table */
	uint32_t joined; /* into the event with this index; itself: into none */
};

/* ---- a GPU's memory shown, and no failure (states.c) ---- */

enum messages_state_kind {
	MESSAGES_STATE_SUMMARY,   /* torch.cuda.memory_summary() */
	MESSAGES_STATE_STATS,     /* torch.cuda.memory_stats() */
	MESSAGES_STATE_INFO,      /* torch.cuda.mem_get_info() */
	MESSAGES_STATE_DEEPSPEED, /* see_memory_usage */
	MESSAGES_STATE_SMI,       /* nvidia-smi: a GPU */
	MESSAGES_STATE_PROCESS,   /* nvidia-smi: a process on a GPU */
	MESSAGES_STATE_KINDS
};
struct messages_state {
	enum messages_state_kind kind;
	uint32_t file;
	uint64_t line;
	uint32_t device;        /* UINT32_MAX: not known */
	uint64_t pid;           /* PROCESS */
	uint64_t ooms, retries; /* of PyTorch's allocator; PLIM_UNKNOWN: not shown */
	struct messages_bytes allocated, allocated_peak, reserved, reserved_peak;
	struct messages_bytes unreleasable; /* reserved, free, in segments that hold live blocks */
	struct messages_bytes used, free, total;
};
#define MESSAGES_STATES 64 /* kept of a log: the first one and the newest */

/* A file that is not a log (kinds.c). */
struct messages_kind {
	const char *is;   /* "a recording of GPU memory"; NULL: it may be a log */
	const char *verb; /* of plimsoll, that reads it; NULL: none does */
	int text;         /* it is text, so that a log may look like it */
};

/* The newest place of a setting that shows its value. */
struct messages_set {
	uint64_t line; /* 0: it stands nowhere */
	int spent;     /* it is set so that no more of it can help */
	double value;  /* < 0: it has no number */
};

struct messages_file {
	struct messages_kind kind;
	char *path;
	uint64_t lines, bytes;
	const char *compression; /* "none", "gzip" ... */
	size_t cues;             /* of its first in the log's cues; SIZE_MAX: they are not kept */
	struct messages_set set[MESSAGES_SETTINGS];
	char script[64]; /* that a command of the text starts, the last one; "": none is shown */
	uint64_t script_line;
};

/* What was found in one or several files.  At most MESSAGES_EVENTS are kept. */
#define MESSAGES_EVENTS 256
struct messages_log {
	struct mem *mem;
	VEC(struct messages_event) events;
	VEC(struct messages_state)
	states; /* at most MESSAGES_STATES; the newest takes the last place */
	VEC(struct messages_file) files;
	/* The line where each word of data/cues.rows stood first, 0: nowhere; of each file that says of a failure. */
	VEC(uint64_t) cues;
	uint64_t lines, bytes;
	uint64_t left_out;          /* events beyond those that are kept */
	struct messages_oom newest; /* PyTorch's last one, also when it repeats another */
	int has_newest;
};

void messages_init(struct messages_log *log, struct mem *m);
void messages_release(struct messages_log *log);

/*
 * Read a file ("-": standard input) to its end and add what it says, in memory that does not grow
 * with it.  `name` is what it is called in the log.  Errors of source_open and source_need; what was
 * found before one stays.  `text_only`: a file that is not a text is left out; *skipped says so.
 */
struct messages_scan {
	const char *path, *name;
	int text_only;
	int *skipped;
	const struct plim_input *input; /* in place of the path; NULL: the path */
};
enum plim_status messages_scan(struct messages_log *log, const struct messages_scan *scan,
			       struct plim_err *err);

/* The same over `n` bytes, as a file called `name`. */
enum plim_status messages_scan_memory(struct messages_log *log, const char *name, const void *bytes,
				      size_t n, struct plim_err *err);

/* Put together what speaks of one death: ranks, what the kernel and the launcher say of one kill. */
void messages_join(struct messages_log *log);

/* Which program failed, what it was doing, on what and how it was set; a cue of NULL: the failure itself shows. */
struct messages_context {
	enum messages_engine engine;
	enum messages_activity activity;
	enum messages_backend backend;
	uint64_t engine_line, activity_line; /* 0: not known */
	uint32_t engine_file, activity_file;
	const char *engine_cue, *activity_cue;
	int is_xla;         /* its words are XLA's, and nothing says who called it */
	const char *script; /* that a command of its file starts; NULL: none is shown */
	struct messages_set set[MESSAGES_SETTINGS];
};
void messages_find_context(const struct messages_log *log, const struct messages_event *e,
			   struct messages_context *out);

/* The last out-of-memory text of PyTorch in a file; *found is 0 when there is none. */
enum plim_status messages_find_oom(struct mem *m, const char *path, struct messages_oom *out,
				   int *found, struct plim_err *err);

#endif
