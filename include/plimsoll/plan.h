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
	/* (--no-clip, after --lora-dropout) gradients are not clipped */
	PLIM_PLAN_NO_CLIP = 1,
	/*
	 * (--keep-outputs, after --optimizer-in-backward) the loop keeps a step's logits until the
	 * next
	 */
	PLIM_PLAN_KEEP_OUTPUTS = 2,
	/* (--max-batch, after --stage) find the largest batch that fits */
	PLIM_PLAN_MAX_BATCH = 4,
	/* (--max-seq) find the longest sequence that fits */
	PLIM_PLAN_MAX_SEQUENCE = 8,
	/* (--max-resident) find how many components of --component-bytes fit with the model */
	PLIM_PLAN_MAX_RESIDENT = 1 << 23,
	/*
	 * (--redact, under redact) nothing of the file's name, and no name that stands in it or in
	 * a trace
	 */
	PLIM_PLAN_REDACT = 16,
	/*
	 * (--allow-changes, after --max-seq) where it does not fit, also suggest what trains
	 * another model
	 */
	PLIM_PLAN_ALLOW_CHANGES = 32,
	/*
	 * (--no-cache, after --keep-outputs) generate without a cache of keys and values
	 * (use_cache=False)
	 */
	PLIM_PLAN_NO_CACHE = 64,
	/* (--padded, after --lengths) samples are padded: attention is given a mask */
	PLIM_PLAN_PADDED = 1024,
	/* (--grouped) samples are grouped by length: the longest come first */
	PLIM_PLAN_GROUPED = 2048,
	/* (--sequence-parallel, after --pp) with --tp, rows are shared out between layers */
	PLIM_PLAN_SEQUENCE_PARALLEL = 1 << 20,
	/*
	 * (--optimizer-in-backward, after --no-clip) each parameter is stepped on as soon as its
	 * gradient is there, which is then let go
	 */
	PLIM_PLAN_OPTIMIZER_IN_BACKWARD = 1 << 21,
	/* (--dora, also use-dora=true, after --lora-dropout) adapters with magnitudes: DoRA */
	PLIM_PLAN_DORA = 1 << 22,
	/* (--narrow-adapters, after --dora) adapters have the dtype of the weights, not fp32 */
	PLIM_PLAN_NARROW_ADAPTERS = 1 << 24,
	/*
	 * (--old-bitsandbytes, after --quantize) bitsandbytes before 0.43.2: each 4-bit layer keeps
	 * its input
	 */
	PLIM_PLAN_OLD_BITSANDBYTES = 1 << 25,
	/*
	 * (--litgpt, after --old-bitsandbytes) the modules and loop of LitGPT's finetune scripts
	 */
	PLIM_PLAN_LITGPT = 1 << 26
};

/*
 * plim_plan_options_init sets the defaults; then change what is to be different.  Texts are names as the command takes
 * them ("bf16-autocast"); NULL or 0: not given.  Borrowed for the call.  In parentheses: the option of the command, made
 * of this (tools/results/commands.py).
 */
struct plim_plan_options;

/* Traces a run with the recipe of `o`, and gives the file, which is read before the next call; not 0: that cannot be traced. */
typedef int plim_trace_fn(void *ctx, const struct plim_plan_options *o, const char **path);

struct plim_plan_options {
	uint32_t size;  /* set by plim_plan_options_init */
	uint32_t flags; /* enum plim_plan_flags */
	/*
	 * (-m --max-memory BYTES, from 1MiB, under limits) refuse plans that need more of this
	 * machine (half of it)
	 */
	uint64_t max_memory_bytes;
	/*
	 * (--layers n, 1 to 10000, also num-hidden-layers num-layers, after --params) blocks. 0:
	 * derived, as all of these
	 */
	uint64_t layers;
	/* (--hidden n, 1 to 2^30, also hidden-size) width */
	uint64_t hidden;
	/* (--heads n, 1 to 2^30, also num-attention-heads) attention heads */
	uint64_t heads;
	/* (--kv-heads n, 1 to 2^30, also num-key-value-heads) heads of keys and values (as many) */
	uint64_t kv_heads;
	/* (--intermediate n, 1 to 2^30, also intermediate-size) width of the feed-forward part */
	uint64_t intermediate;
	/* (--vocab n, 1 to 2^30, also vocab-size) rows of the embedding (32000, or as --params has it) */
	uint64_t vocab;
	/* (-t --task NAME, also inference=infer infer=infer train=train generate=generate, after
	 * --steps) train, infer or generate (train) */
	const char *task;
	/*
	 * (-p --precision NAME, also bf16=bf16 fp16=fp16 dtype:bf16=bfloat16,fp16=float16
	 * torch-dtype:bf16=bfloat16,fp16=float16 mixed-precision pure-bf16=bf16-pure fp32=fp32 half=half,
	 * after --seq)
	 * fp32, bf16-autocast, fp16-autocast, bf16-pure, bf16-weights, fp16-weights or bf16-master
	 * (bf16-autocast)
	 */
	const char *precision;
	/*
	 * (-O --optimizer NAME, also optim) adamw, adamw-fused, adamw-loop, sgd, sgd-momentum,
	 * adafactor, ... (adamw)
	 */
	const char *optimizer;
	/*
	 * (-a --attention NAME, also attn attn-implementation flash-attn=flash
	 * flash-attention=flash flash-attention-2=flash use-flash-attention-2=flash sdpa=sdpa
	 * eager=eager) sdpa, eager or flash (sdpa)
	 */
	const char *attention;
	/*
	 * (-c --checkpointing HOW, alone full, or full selective vision none every: selective:,
	 * also gradient-checkpointing=full activation-checkpointing=full grad-checkpointing=full
	 * grad-ckpt=full use-gradient-checkpointing=full ac) gradient checkpointing:
	 * full, selective, every:N, selective:N, selective:op, vision or none
	 */
	const char *checkpointing;
	/*
	 * (--parallel HOW, also strategy fsdp:=fsdp2 ddp=ddp zero1=zero1 zero2=zero2 zero3=zero3
	 * fsdp1=fsdp1
	 * fsdp2=fsdp2 zero-1=zero1 zero-2=zero2 zero-3=zero3 zero:0=ddp,1=zero1,2=zero2,3=zero3
	 * zero-stage:0=ddp,1=zero1,2=zero2,3=zero3, after --gpus) ddp, zero1, zero2, zero3, fsdp1,
	 * fsdp2, fsdp2-zero2, tp, pp, ... (ddp)
	 */
	const char *parallel;
	/*
	 * (-b --batch n, 1 to 2^20, also batch-size bs mbs micro-batch-size per-device-batch-size
	 * per-device-train-batch-size train-micro-batch-size-per-gpu, after --from) samples of a micro-batch (1)
	 */
	uint64_t batch;
	/*
	 * (-s --seq tokens, 1 to 2^26, also seq-len seq-length sequence-length sequence-len
	 * max-seq-len max-seq-length max-length max-model-len cutoff-len block-size
	 * context-length context ctx seqlen model-max-length input-len prompt-len) tokens of a sample (1024, or the model's positions if fewer)
	 */
	uint64_t sequence;
	/*
	 * (--accumulate n, 1 to 2^16, also gradient-accumulation-steps gas grad-accum
	 * grad-accumulation gradient-accumulation, after --loss-chunk) micro-batches a step (1)
	 */
	uint64_t accumulate;
	/*
	 * (--steps n, 1 to 100, is 2, after --image-grid) steps to show. The answer does not
	 * depend on it
	 */
	uint64_t steps;
	/*
	 * (--image-size pixels, 1 to 65536, by image_width, takes "pixels, like 448 or 672x448",
	 * after --eval-batch) side of an image, or height and width like 672x448 (as configured).
	 * 0: as configured, or no images for models that read too
	 */
	uint64_t image_size;
	/*
	 * (--image-grid patches, 1 to 65536, by image_grid_width, takes "patches, like 32 or
	 * 48x32") the same in patches of the model. 0: not given so
	 */
	uint64_t image_grid;
	/*
	 * (--lora rank, 1 to 2^16, also lora-r lora-rank peft-lora-r, after --accumulate) train
	 * adapters of this rank instead of the weights
	 */
	uint64_t lora_rank;
	/*
	 * (--lora-targets a,b, also lora-target lora-target-modules target-modules) names of the
	 * modules that have adapters (the family's usual ones)
	 */
	const char *lora_targets;
	/*
	 * (--eval-batch n, 1 to 2^20, also per-device-eval-batch-size, after --no-cache) evaluate
	 * after training, or before generating, with this batch
	 */
	uint64_t eval_batch;
	/* (--new-tokens n, 1 to 2^26, also max-new-tokens output-len, after --task) tokens to generate */
	uint64_t new_tokens;
	/*
	 * (--gpus n, 1 to 2^20, also num-gpus n-gpus devices nproc-per-node num-processes world-size, after
	 * --allowance) GPUs that train together (1)
	 */
	uint64_t gpus;
	/* (--extra-tensor 40x1024x1024:fp32, after --cache) a tensor next to the model's */
	const char *const *extra_tensors;
	size_t extra_tensor_count;
	/* (--resident n, 1 to 100000) components that stay on the GPU next to the model */
	uint64_t residents;
	/* (--component-bytes BYTES, from 1) the size of each */
	uint64_t component_bytes;
	/* (--settings CONF, after --for) a PYTORCH_CUDA_ALLOC_CONF */
	const char *settings;
	/*
	 * (--torch X.Y, 2.1 to 2.99, takes "a release from 2.1 on, like 2.11") PyTorch's release
	 * (the newest known)
	 */
	unsigned torch;
	/*
	 * (-M --memory BYTES, from 2MiB, is unknown, also gpu-memory, after --gpu) memory that
	 * PyTorch may reserve, instead. PLIM_UNKNOWN: see `gpu`
	 */
	uint64_t memory_bytes;
	/*
	 * (-g --gpu CARD, under where) a GPU's name, "A100 40GB", or "2x H100". NULL: none,
	 * nothing is judged
	 */
	const char *gpu;
	/*
	 * (--allowance BYTES, from 0, else 896MiB, after --memory) of --gpu, for what PyTorch does
	 * not allocate (896MiB). CUDA's
	 * context, kernels and libraries, as in whatif.h
	 */
	uint64_t allowance_bytes;
	/* (--sweep batch=1,2,4, after --allow-changes) a table over batches, or seq=512,1024 */
	const char *sweep;
	/*
	 * (--tp n, 1 to 2^20, also tensor-parallel tensor-parallel-size tp-size, after --load) tensor-parallel
	 * degree: GPUs that share each layer
	 */
	uint64_t tensor_parallel;
	/*
	 * (--pp n, 1 to 2^20, also pipeline-parallel pipeline-parallel-size) pipeline-parallel degree: stages that
	 * share the layers. The rest are copies (`parallel`)
	 */
	uint64_t pipeline_parallel;
	/*
	 * (--micro-batches n, 1 to 2^12, after --sequence-parallel) of a pipeline's step (twice
	 * its stages)
	 */
	uint64_t micro_batches;
	/* (--schedule NAME) of a pipeline: 1f1b or gpipe (1f1b) */
	const char *schedule;
	/* (--stage n, 1 to 2^20) pipeline stage to plan, from 1 (the one with the highest peak) */
	uint64_t stage;
	/*
	 * (--offload-activations HOW, alone pinned, or pinned save-on-cpu checkpoints trl none,
	 * also activation-offloading=trl, under host) what the backward pass needs: pinned or
	 * save-on-cpu (save_on_cpu), checkpoints (inputs of checkpointed layers), trl
	 */
	const char *activations;
	/*
	 * (--offload-optimizer WHERE, alone cpu, or cpu nvme gpu, also zero-offload=cpu) optimizer, master weights and
	 * gradients, as DeepSpeed does: cpu or nvme. NULL: the GPU
	 */
	const char *optimizer_on;
	/*
	 * (--offload-params WHERE, alone cpu, or cpu nvme gpu, also cpu-offload=cpu) sharded
	 * parameters with their optimizer: cpu or nvme. NULL: the GPU
	 */
	const char *parameters_on;
	/*
	 * (--save HOW, alone pretrained, or torch pretrained state full full-gpu sharded none)
	 * save after training: torch, pretrained, state (accelerate), full (FULL_STATE_DICT,
	 * offloaded), full-gpu (not offloaded) or sharded. NULL: it is not
	 */
	const char *save;
	/*
	 * (--load HOW, after --parallel) sharded weights: meta (a unit at a time) or whole (all on
	 * each GPU first) (meta)
	 */
	const char *load;
	/*
	 * (--host-memory BYTES, from 1MiB, is unknown, after --save) memory of the machine that
	 * the job may use. PLIM_UNKNOWN: not judged
	 */
	uint64_t host_memory_bytes;
	/*
	 * (--loss KIND, after --grouped) loss: whole (full logits), narrow (the loop's own, of
	 * logits in their dtype), fused (TRL), chunked (TRL before 1.16) or liger, which never
	 * hold all logits (whole)
	 */
	const char *loss;
	/*
	 * (--loss-chunk tokens, 1 to 2^26, after --liger) a chunked loss, of this many tokens at a
	 * time (256)
	 */
	uint64_t loss_chunk;
	/*
	 * (--longest tokens, 1 to 2^26, after --quantize) tokens of the longest batch, where --seq
	 * is what they usually have. 0: all are alike
	 */
	uint64_t longest;
	/*
	 * (-q --quantize HOW, also load-in-4bit=nf4 load-in-8bit=int8 4bit=nf4 8bit=int8
	 * quantization use-4bit=nf4
	 * quantization-bit double-quantization=nf4-double use-bnb-nested-quant=nf4-double
	 * bnb-4bit-use-double-quant=nf4-double, after
	 * --checkpointing) weights as bitsandbytes keeps them: nf4, nf4-double or int8 (as the
	 * config says)
	 */
	const char *quantize;
	/*
	 * (--transformers X.Y, 4.0 to 9.99, takes "a release from 4.0 on, like 4.46", after
	 * --host-memory) Transformers' release, whose Trainer it is: sets what is not given. 0:
	 * the newest known, in your own loop
	 */
	unsigned transformers;
	/*
	 * (--lengths 512,2048, after --longest) tokens of the samples of each step, instead of
	 * --seq. NULL: `sequence`
	 */
	const char *lengths;
	/* of images that are not square, whose height is image_size; 0: they are square */
	uint64_t image_width;
	uint64_t image_grid_width; /* the same in patches; image_grid is the height */
	/* (--beams n, 1 to 2^10, is 1, also num-beams, after --new-tokens) beams to generate with */
	uint64_t beams;
	/* (--cache KIND) of keys and values: dynamic or static (dynamic) */
	const char *cache;
	/*
	 * (--calibrate SNAPSHOT, after --component-bytes) learn from a recording of a run of this
	 * model (or from two)
	 */
	const char *const *calibrate;
	/* (--recorded batch=2,seq=512) options in which the recorded run differed from this plan */
	const char *const *recorded;
	size_t calibrate_count;
	size_t recorded_count;
	/*
	 * (--for TOOL, after --sweep) end with what to paste: trainer, deepspeed, accelerate,
	 * torchrun, axolotl, llama-factory, torchtune or trl. NULL: none, or that of a file that
	 * was read, if something has to be changed
	 */
	const char *paste;
	/*
	 * (--params 8B, takes "a number of parameters, like 8B or 350M", under numbers) how many
	 * parameters it has, where nothing else is known. It is then shaped like the published
	 * model of about that size, and what is not weights is a guess
	 */
	uint64_t parameters;
	/*
	 * (-f --from FILE, also deepspeed config-file deepspeed-config, under run) take what is
	 * not given here from the run's configuration: TrainingArguments, Axolotl, LLaMA-Factory,
	 * accelerate, DeepSpeed, torchtune or PEFT, JSON or YAML
	 */
	const char *const *from_files;
	size_t from_count;
	/*
	 * (--lora-dropout RATE, after --lora-targets) dropout in front of adapters, like 0.05
	 * (none)
	 */
	const char *lora_dropout;
	/*
	 * (C only) Of a trace: rungs of the ladder that change the recipe are traced so, and left
	 * out where that fails. NULL: only those of the allocator are offered.
	 */
	plim_trace_fn *trace;
	/* (C only) that it is given */
	void *trace_ctx;
	/*
	 * (--liger KERNELS, alone all, or all, also use-liger-kernel=all use-liger=all, after
	 * --loss) Liger's kernels: all, or some of loss, norm, rope, swiglu (use_liger_kernel)
	 */
	const char *liger;
	/*
	 * (--freeze PART, also freeze-vision=vision freeze-vision-tower=vision freeze-vit=vision,
	 * after --dora) a part of a model that sees does not train: vision (its tower) or
	 * vision+projector (none)
	 */
	const char *freeze;
	/*
	 * (--target-seq tokens, 1 to 2^26, also target-length max-target-length, after --seq) tokens of
	 * a sample's labels, of a model with an encoder and a decoder (a quarter of --seq)
	 */
	uint64_t target_sequence;
};
PLIM_API void plim_plan_options_init(struct plim_plan_options *o);

struct plim_plan_model {
	const char *family;       /* the architecture that it is planned as */
	bool guessed;             /* the architecture is not known: taken for one like `family` */
	uint64_t parameters;      /* elements of all parameters, tied ones once */
	uint64_t parameter_bytes; /* the same in the dtype that they are loaded in */
	uint64_t trainable;       /* elements that take gradients */
	/* what of the model is not known, a sentence each; with any, no plan is said to fit */
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
	uint64_t other_bytes;           /* tensors and components next to the model */
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
	const char **reasons; /* why it is not surer */
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

/* What recordings show beyond the plan; what is equal is not reported. */
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
	const char **assumptions; /* what was not given and had to be taken */
	size_t assumption_count;
	struct plim_plan_rung *ladder; /* changes in the order of their cost */
	size_t ladder_count;
	/*
	 * the largest batch that surely fits (max_batch; where that is null, on a line through
	 * traced ones), and that perhaps does; null: not looked for
	 */
	struct plim_interval max_batch_range;
	struct plim_interval max_sequence_range; /* the same of max_sequence */
	uint64_t max_resident; /* components that surely fit with the model; null: not looked for */
	struct plim_interval max_resident_range; /* the same, and how many perhaps do */
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
 * and plimsoll's own commands read (modules and operations for stacks, categories as user_metadata, phases as annotations), or one more
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
