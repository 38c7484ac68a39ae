/*
 * plimsoll plan: what a run of a model will need, before it runs.
 *
 * All sizes are bytes.  A number that is not known is PLIM_UNKNOWN and a text that is not known is NULL; JSON shows null
 * for both.  Everything a result points to belongs to the result.
 */
#ifndef PLIMSOLL_PLAN_H
#define PLIMSOLL_PLAN_H

#include <plimsoll/report.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plim_plan_flags {
	PLIM_PLAN_NO_CLIP = 1,        /* gradients are not clipped */
	PLIM_PLAN_KEEP_OUTPUTS = 2,   /* the loop keeps a step's logits until the next */
	PLIM_PLAN_MAX_BATCH = 4,      /* find the largest batch that fits */
	PLIM_PLAN_MAX_SEQUENCE = 8,   /* and the longest sequence */
	PLIM_PLAN_REDACT = 16,        /* nothing of the file's name, and no name in it */
	PLIM_PLAN_ALLOW_CHANGES = 32, /* the ladder may change what is trained */
	PLIM_PLAN_NO_CACHE = 64,      /* generate without keys and values kept (use_cache=False) */
	PLIM_PLAN_PADDED = 1024,      /* samples are padded: attention is given a mask */
	PLIM_PLAN_GROUPED = 2048,     /* samples are grouped by length: the longest come first */
	PLIM_PLAN_SEQUENCE_PARALLEL =
		1 << 20, /* with tensor parallelism, rows are shared between layers */
	PLIM_PLAN_OPTIMIZER_IN_BACKWARD =
		1 << 21,          /* each parameter is stepped on when its gradient is there */
	PLIM_PLAN_LIGER = 1 << 22 /* Liger's kernels: norms, RoPE, gates, and its loss */
};

/*
 * plim_plan_options_init sets the defaults; then change what is to be different.  Texts are names as the command takes
 * them ("bf16-autocast"); NULL is the default.  Borrowed for the call.
 */
struct plim_plan_options;

/* Traces a run with the recipe of `o`, and gives the file, which is read before the next call; not 0: that cannot be traced. */
typedef int plim_trace_fn(void *ctx, const struct plim_plan_options *o, const char **path);

struct plim_plan_options {
	uint32_t size;             /* set by plim_plan_options_init */
	uint32_t flags;            /* enum plim_plan_flags */
	uint64_t max_memory_bytes; /* 0: half of this machine's memory, or of the cgroup's */
	/* the model by numbers, where no file is given: blocks; 0: derived, as all of these */
	uint64_t layers;
	uint64_t hidden;           /* width */
	uint64_t heads;            /* attention heads */
	uint64_t kv_heads;         /* heads of keys and values */
	uint64_t intermediate;     /* width of the MLP */
	uint64_t vocab;            /* tokens that the model knows */
	const char *task;          /* "train", "infer", "generate"; NULL: train */
	const char *precision;     /* "bf16-autocast" ... */
	const char *optimizer;     /* "adamw" ... */
	const char *attention;     /* "sdpa" ... */
	const char *checkpointing; /* "none", "full" ... */
	const char *parallel;      /* how `gpus` share the work: "ddp", "fsdp2" ... */
	/* samples of a GPU and a step; 0: as `from_files` say, or 1 */
	uint64_t batch;
	/* tokens of a sample; 0: 1,024, or the positions of the model if fewer */
	uint64_t sequence;
	uint64_t accumulate; /* batches of a step; 0: as `from_files` say, or 1 */
	uint64_t steps;      /* to show; the answer does not depend on it */
	/* side in pixels; 0: as configured, or no images for models that read too */
	uint64_t image_size;
	uint64_t image_grid; /* the same in patches; 0: not given so */
	/* adapters of this rank are trained instead of the weights; 0: none */
	uint64_t lora_rank;
	const char *lora_targets;         /* names with commas; NULL: the family's usual ones */
	uint64_t eval_batch;              /* after training, before generating; 0: none */
	uint64_t new_tokens;              /* generate: tokens of each sample */
	uint64_t gpus;                    /* that train together; 0: as `from_files` say, or 1 */
	const char *const *extra_tensors; /* tensors beside the model ("40x1024x1024:fp32") */
	size_t extra_tensor_count;
	uint64_t residents;       /* components that stay on the GPU beside the model */
	uint64_t component_bytes; /* the size of each */
	const char *settings;     /* PYTORCH_CUDA_ALLOC_CONF */
	unsigned torch;           /* release, 100 * major + minor; 0: the newest known */
	uint64_t memory_bytes;    /* that the job may reserve; PLIM_UNKNOWN: see `gpu` */
	const char *gpu;          /* a card's name; NULL: none, nothing is judged */
	uint64_t allowance_bytes; /* of `gpu`, for what PyTorch does not allocate */
	const char *sweep;        /* "batch=1,2,4" or "seq=512,1024"; NULL: none */
	uint64_t tensor_parallel; /* of `gpus`, how many share each layer; 0: 1 */
	/* of `gpus`, how many share the layers, as stages; 0: 1. The rest are copies (`parallel`) */
	uint64_t pipeline_parallel;
	uint64_t micro_batches;    /* of a pipeline's step; 0: twice as many as stages */
	const char *schedule;      /* of a pipeline: "1f1b" or "gpipe" */
	uint64_t stage;            /* of the pipeline, from 1; 0: the one that needs most */
	const char *activations;   /* kept in host memory: "pinned" ...; NULL: none */
	const char *optimizer_on;  /* "cpu", "nvme"; NULL: the GPU */
	const char *parameters_on; /* "cpu", "nvme"; NULL: the GPU */
	/* how the model is saved after training: "torch" ...; NULL: it is not */
	const char *save;
	const char *load; /* sharded weights: "meta" or "whole"; NULL: meta */
	/* that the job may use of the machine; PLIM_UNKNOWN: not judged */
	uint64_t host_memory_bytes;
	const char *loss; /* "whole", "chunked", "liger"; NULL: whole */
	/* tokens of a chunk, which makes the loss chunked; 0: 256 if it is */
	uint64_t loss_chunk;
	/* tokens of the longest batch, others have `sequence`; 0: all are alike */
	uint64_t longest;
	/* "none", "nf4", "nf4-double", "int8"; NULL: as the config says */
	const char *quantize;
	/* release, 100 * major + minor; 0: the newest known, in your own loop */
	unsigned transformers;
	/* "512,2048,640": tokens of each step's samples; NULL: `sequence` */
	const char *lengths;
	/* of images that are not square, whose height is image_size; 0: they are square */
	uint64_t image_width;
	uint64_t image_grid_width;    /* the same in patches; image_grid is the height */
	uint64_t beams;               /* generate: sequences kept of each sample; 0 counts as 1 */
	const char *cache;            /* generate: "dynamic" (NULL), "static" */
	const char *const *calibrate; /* recordings of runs of this model, one or two */
	/* what those runs were: "batch=2,seq=512"; NULL: as planned */
	const char *const *recorded;
	size_t calibrate_count;
	size_t recorded_count;
	/*
	 * whose configuration of the run the text ends with: "trainer", "deepspeed", "accelerate", "torchrun", "axolotl",
	 * "llama-factory", "torchtune", "trl", "training-arguments"; NULL: none, or where something has to be changed that of
	 * a file that was read
	 */
	const char *paste;
	/*
	 * In place of a model's numbers, how many parameters it has: it is then built like Llama, and what is not weights is a
	 * guess.  0: not given.
	 */
	uint64_t parameters;
	/*
	 * files of the run's configuration (TrainingArguments as JSON or YAML, Axolotl's, LLaMA-Factory's, accelerate's,
	 * DeepSpeed's, torchtune's, PEFT's): what they say holds where it is not given here
	 */
	const char *const *from_files;
	size_t from_count;
	const char *lora_dropout; /* rate of the dropout in front of adapters, "0.05"; NULL: none */
	/*
	 * Of a trace: rungs of the ladder that change the recipe are traced so, and left out where that fails.  NULL: only those
	 * of the allocator are offered.
	 */
	plim_trace_fn *trace;
	void *trace_ctx; /* that it is given */
};
PLIM_API void plim_plan_options_init(struct plim_plan_options *o);

struct plim_plan_model {
	const char *family;       /* the architecture that it is planned as */
	bool guessed;             /* the architecture is not known: taken for one like `family` */
	uint64_t parameters;      /* elements of all parameters, tied ones once */
	uint64_t parameter_bytes; /* the same in the dtype that they are loaded in */
	uint64_t trainable;       /* elements that take gradients */
	/* what of the model is not known, a sentence each; with any, nothing is said to fit */
	const char **doubts;
	size_t doubt_count;
};

struct plim_plan_phase {
	/*
	 * load, wrap, fwdN, bwdN, optN, zeroN of step N (fwdN.M of its M-th micro-batch), longest
	 * (all of a step), save, evalN, generate
	 */
	const char *phase;
	uint64_t allocated_bytes;      /* in use when it ends */
	uint64_t allocated_peak_bytes; /* most in use within it */
	uint64_t reserved_peak_bytes;  /* most taken from the driver within it */
	/* least and most that allocated_peak_bytes may be */
	struct plim_interval allocated_peak_range_bytes;
	/* measured, derived or assumed, as of peak */
	const char *basis;
	/* most of the machine's own memory within it */
	uint64_t host_bytes;
};

/* What lives at the peak; the sum is peak.allocated_bytes. */
struct plim_plan_categories {
	uint64_t parameter_bytes;       /* weights */
	uint64_t gradient_bytes;        /* gradients of parameters */
	uint64_t optimizer_state_bytes; /* moments and step counters */
	uint64_t activation_bytes;      /* kept by the forward pass for the backward pass */
	uint64_t input_bytes;           /* the batch */
	uint64_t workspace_bytes;       /* of libraries */
	uint64_t temporary_bytes;       /* intermediate results */
	uint64_t autograd_detail_bytes; /* gradients on their way */
	uint64_t kv_cache_bytes;        /* keys and values of generated text */
	uint64_t buffer_bytes;          /* buffers of modules */
	uint64_t other_bytes;           /* tensors and components beside the model */
	uint64_t rounding_bytes;        /* of blocks that were handed out whole */
};

struct plim_plan_peak {
	uint64_t allocated_bytes; /* as torch.cuda.max_memory_allocated() */
	/* as torch.cuda.max_memory_reserved(), where memory is ample */
	uint64_t reserved_bytes;
	/* smallest limit of reserved memory under which the run goes to its end */
	uint64_t needed_bytes;
	struct plim_interval needed_range_bytes; /* least and most that may be needed */
	const char *phase;                       /* when most is allocated */
	/* what lives then; they add up to allocated_bytes */
	struct plim_plan_categories categories;
	/*
	 * measured (fitted to a recording of a run of the model), derived (from PyTorch's rules,
	 * checked against measured runs of the same kind) or assumed (nothing of the kind was
	 * measured)
	 */
	const char *basis;
	const char **reasons; /* why it is no surer */
	size_t reason_count;
};

struct plim_plan_sweep {
	uint64_t batch;           /* samples of a micro-batch */
	uint64_t sequence;        /* tokens of a sample */
	uint64_t allocated_bytes; /* peak of memory in use */
	uint64_t reserved_bytes;  /* peak of memory taken, where it is ample */
	uint64_t needed_bytes;    /* smallest limit that does */
	/* under the limit; null: none was given, model.doubts, or beyond what was traced */
	enum plim_tri fits;
	const char *dies_at;                     /* phase; null: it does not */
	struct plim_interval needed_range_bytes; /* least and most that may be needed */
	const char *basis;                       /* measured, derived or assumed, as of peak */
};

/* Ready to be pasted; NULL where there is nothing to say. */
struct plim_plan_config {
	const char *training_arguments; /* Transformers' TrainingArguments */
	const char *from_pretrained;    /* how the model is loaded */
	const char *peft;               /* PEFT's configuration of adapters */
	const char *accelerate;         /* a config file of accelerate (YAML) */
	const char *deepspeed;          /* a config file of DeepSpeed (JSON) */
	const char *fsdp;               /* fsdp_config (JSON) */
	const char *environment;        /* to be set before PyTorch starts */
	const char *torchrun;           /* the command line that starts as many processes as GPUs */
	const char *script;             /* a line of the program */
	/* whose keys tool_config has: the tool of a file that was read, or that is asked for; null: none */
	const char *tool;
	const char *tool_config; /* the same in that tool's own keys (YAML) */
};

/* A change, on top of those above it that do not change results. */
struct plim_plan_rung {
	const char *rung;                        /* the change */
	const char *cost;                        /* what it costs, an estimate */
	bool changes_results;                    /* the model that comes out is another: opt-in */
	uint64_t saved_bytes;                    /* of needed_bytes, against the rungs before */
	uint64_t allocated_peak_bytes;           /* peak of memory in use with it */
	uint64_t needed_bytes;                   /* smallest limit that does with it */
	enum plim_tri fits;                      /* under the limit */
	struct plim_plan_config config;          /* all of it up to here, ready to be pasted */
	struct plim_interval needed_range_bytes; /* least and most that may be needed with it */
	const char *basis;                       /* measured, derived or assumed, as of peak */
	uint64_t host_bytes;                     /* of the machine's own memory, with it */
	bool alone; /* enough by itself, without the rungs before; these come first */
};

/* The machine's own memory at its peak, of all processes of the job on it; the parts add up to `bytes`. */
struct plim_plan_host {
	uint64_t bytes;                   /* most that is used at once */
	struct plim_interval range_bytes; /* least and most that may be used */
	uint64_t process_bytes;           /* Python, PyTorch and CUDA's libraries */
	uint64_t weight_bytes;            /* parameters that are kept there */
	uint64_t gradient_bytes;          /* gradients that are kept there */
	uint64_t optimizer_state_bytes;   /* states of the optimizer, with its fp32 weights */
	uint64_t activation_bytes;        /* what the forward pass keeps for the backward pass */
	uint64_t buffer_bytes;            /* that transfers go through */
	uint64_t loading_bytes;           /* the model on its way to the GPU */
	uint64_t saving_bytes;            /* what is on its way to a file */
	/* page-locked by PyTorch in the whole run, in blocks of powers of two */
	uint64_t pinned_bytes;
	uint64_t processes;   /* of the job that are taken to be on one machine */
	uint64_t limit_bytes; /* that the job may use; null: none was given */
	enum plim_tri fits;   /* it stays below; null: no limit was given */
	const char *dies_at;  /* the first phase that needs more; null: none does */
	/* derived (what is kept there was found so in measured runs) or assumed */
	const char *basis;
};

/* What recordings show beyond the plan; what is equal is not told. */
struct plim_plan_learned {
	const char *quantity;    /* what the recorded run takes another amount of than planned */
	uint64_t recorded_bytes; /* in the recording */
	uint64_t planned_bytes;  /* in the plan of the recorded run */
	/* that the planned run is given beyond its plan; 0: the difference is left to the range */
	uint64_t learned_bytes;
	const char *evidence; /* where the recording shows it, and how it is carried over */
};

/* A key of a configuration that was read, or one that was not understood. */
struct plim_plan_setting {
	const char *file; /* as it was given; null: redacted */
	const char *tool; /* whose configuration it is: "Axolotl", "DeepSpeed" */
	/* with dots where it stands inside of others; null: redacted */
	const char *key;
	const char *value; /* as the file has it; null: redacted */
	/* what it is here: an option of plan with its value; null: it was not understood, and may change memory */
	const char *option;
};

struct plim_plan {
	struct plim_plan_model model;   /* what was read */
	uint64_t batch;                 /* samples of a micro-batch */
	uint64_t sequence;              /* tokens of a sample */
	struct plim_plan_phase *phases; /* in turn */
	size_t phase_count;
	struct plim_plan_peak peak; /* of the whole run */
	uint64_t host_bytes;        /* of the machine's own memory, as host.bytes */
	/* the machine's own memory at its peak, of all processes on it */
	struct plim_plan_host host;
	/* reserved memory that the run may reach; null: none was given */
	uint64_t limit_bytes;
	/* the run goes to its end under the limit; null: none was given, or model.doubts and what is known is not too much */
	enum plim_tri fits;
	const char *dies_at;         /* the phase in which it runs out; null: it does not */
	uint64_t dies_request_bytes; /* what it asks for then */
	/* largest batch that fits, with all that is uncertain; null: not looked for, or not proven */
	uint64_t max_batch;
	uint64_t max_sequence;         /* the same of the sequence; null: not looked for */
	struct plim_plan_sweep *sweep; /* the sizes asked for */
	size_t sweep_count;
	const char **assumptions; /* what was not told and had to be taken */
	size_t assumption_count;
	struct plim_plan_rung *ladder; /* changes in the order of their cost */
	size_t ladder_count;
	/*
	 * the largest batch that surely fits (max_batch; where that is null, on a line through
	 * traced ones), and that perhaps does; null: not looked for
	 */
	struct plim_interval max_batch_range;
	struct plim_interval max_sequence_range; /* the same of max_sequence */
	const char *max_basis;                   /* of max_batch and max_sequence, as of peak */
	uint64_t dies_allocated_bytes;           /* what is allocated when it runs out */
	/* with --calibrate: what the recordings show beyond the plan */
	struct plim_plan_learned *learned;
	size_t learned_count;
	/* of the recorded peak, after that; null: nothing was recorded */
	uint64_t unexplained_bytes;
	struct plim_plan_config config; /* the planned run itself, ready to be pasted */
	struct plim_plan_setting
		*settings_read; /* what was read from files of the run's configuration */
	size_t settings_read_count;
	struct plim_plan_hidden *hidden;
};

/*
 * Plan a run of the model in `path` (a config.json, a safetensors file, or a folder of either; NULL: by numbers).
 * PLIM_E_ARG: a name that is not known, or a recipe that does not fit the model; PLIM_E_FORMAT: no model;
 * PLIM_E_LIMIT: more than memory allows.  With recordings also PLIM_E_ARG: one is of another model or recipe; and the errors of
 * plim_report_open.
 */
PLIM_API enum plim_status plim_plan_open(const char *path, const struct plim_plan_options *options,
					 struct plim_plan **out, struct plim_err *err);
PLIM_API void plim_plan_free(struct plim_plan *p);

/* As JSON, schema plan/2 (docs/json.md), and as text for a person. */
PLIM_API enum plim_status plim_plan_json(const struct plim_plan *p, plim_write_fn *write, void *ctx,
					 struct plim_err *err);
PLIM_API enum plim_status plim_plan_text(const struct plim_plan *p,
					 const struct plim_text_style *style, plim_write_fn *write,
					 void *ctx, struct plim_err *err);

/*
 * The plan as what a recording of the run would be, up to its death if it has a limit: a snapshot that PyTorch's viewer
 * and plimsoll's own verbs read (modules and operations for stacks, categories as user_metadata, phases as annotations), or one more
 * recording of a page.  PLIM_E_IO, PLIM_E_LIMIT.
 */
struct plim_page;
PLIM_API enum plim_status plim_plan_snapshot(const struct plim_plan *p, const char *path,
					     struct plim_err *err);
PLIM_API enum plim_status plim_plan_page(const struct plim_plan *p, struct plim_page *page,
					 struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
