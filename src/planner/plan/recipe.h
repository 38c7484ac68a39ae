/*
 * A run that has not happened: a model and a recipe become a program (requests in order, with category and phase) as
 * PyTorch would make them, which the allocator's model runs like a recording's.
 *
 * recipe.h	recipe and outcome		tape.h	eager autograd without values
 * ops.h	the operations			build.h	models made of them, and the training loop
 */
#ifndef PLAN_RECIPE_H
#define PLAN_RECIPE_H

#include "model/model.h"
#include "timeline/timeline.h"

enum plan_precision {
	PLAN_FP32,
	PLAN_BF16_AUTOCAST, /* fp32 weights; products in bf16 */
	PLAN_FP16_AUTOCAST, /* the same with a GradScaler */
	PLAN_BF16_PURE,     /* everything in bf16 */
	PLAN_BF16_LOADED, /* weights in bf16, under bf16 autocast: what Transformers 5 makes of such files */
	PLAN_FP16_LOADED, /* frozen weights in fp16, under fp16 autocast: a GradScaler wants what is trained in fp32 */
	PLAN_BF16_MASTER, /* everything in bf16, but the optimizer steps on copies in fp32 */
	PLAN_PRECISIONS
};
extern const char *const plan_precision_names[PLAN_PRECISIONS];

enum plan_optimizer {
	PLAN_ADAMW, /* foreach, PyTorch's default */
	PLAN_ADAMW_FUSED,
	PLAN_ADAMW_LOOP,
	PLAN_SGD,
	PLAN_SGD_MOMENTUM,
	PLAN_ADAFACTOR,
	PLAN_ADAMW_8BIT,
	PLAN_ADAMW_PAGED,
	PLAN_ADAMW_PAGED_8BIT,
	PLAN_ADAMW_AO_8BIT, /* torchao's: torch.compile of a parameter's step */
	PLAN_ADAMW_AO_4BIT,
	PLAN_OPTIMIZERS
};
extern const char *const plan_optimizer_names[PLAN_OPTIMIZERS];

enum plan_attention { PLAN_SDPA, PLAN_EAGER, PLAN_FLASH, PLAN_ATTENTIONS };
extern const char *const plan_attention_names[PLAN_ATTENTIONS];

enum plan_checkpointing {
	PLAN_CHECKPOINT_NONE,
	PLAN_CHECKPOINT_FULL,      /* every block of the text tower and of the vision tower */
	PLAN_CHECKPOINT_VISION,    /* of the vision tower */
	PLAN_CHECKPOINT_SELECTIVE, /* every block, but results of products and attention are kept */
	PLAN_CHECKPOINTINGS
};

enum plan_loss {
	PLAN_LOSS_WHOLE,   /* of all logits at once */
	PLAN_LOSS_CHUNKED, /* so many tokens at a time, each part checkpointed: TRL's chunked_nll */
	PLAN_LOSS_LIGER, /* Liger's fused linear cross entropy: gradients are made in the forward pass */
	PLAN_LOSS_FUSED, /* TRL's fused head: tiles of logits, made again in the backward pass, from TRL 1.16 on */
	PLAN_LOSS_NARROW, /* the loop's own, of all logits at once in the dtype that they have */
	PLAN_LOSSES
};
extern const char *const plan_loss_names[PLAN_LOSSES];

/* How linear layers' weights are kept: 1 + enum model_quantization.  The model that is planned is kept so. */
enum plan_quantize { PLAN_NOT_QUANTIZED, PLAN_NF4, PLAN_NF4_DOUBLE, PLAN_INT8, PLAN_QUANTIZES };
extern const char *const plan_quantize_names[PLAN_QUANTIZES];

enum plan_parallel {
	PLAN_ALONE,
	PLAN_DDP,
	PLAN_ZERO1,       /* DDP with optimizer states shared out */
	PLAN_FSDP1,       /* units flattened */
	PLAN_FSDP2,       /* parameters sharded one by one */
	PLAN_FSDP2_ZERO2, /* without resharding after the forward pass */
	PLAN_FSDP1_ZERO2, /* the same: SHARD_GRAD_OP */
	PLAN_ZERO2,       /* DeepSpeed's: gradients and states shared out */
	PLAN_ZERO3,       /* ... and parameters */
	PLAN_PARALLELS
};
extern const char *const plan_parallel_names[PLAN_PARALLELS];

/* DDP's first buckets: whether they live through the second forward pass depends on who is faster. */
enum plan_buckets { PLAN_BUCKETS_BY_TIME, PLAN_BUCKETS_GO, PLAN_BUCKETS_LINGER };

enum plan_schedule { PLAN_1F1B, PLAN_GPIPE, PLAN_SCHEDULES };
extern const char *const plan_schedule_names[PLAN_SCHEDULES];

/* What autograd saves for the backward pass: where it waits. */
enum plan_activations {
	PLAN_ACTIVATIONS_STAY,
	PLAN_SAVE_ON_CPU,         /* torch.autograd.graph.save_on_cpu() around the forward pass */
	PLAN_SAVE_ON_CPU_PINNED,  /* ... with pin_memory=True */
	PLAN_OFFLOAD_CHECKPOINTS, /* what checkpointed blocks keep: Transformers' "offload": True */
	PLAN_OFFLOAD_STREAMS,     /* TRL's activation_offloading */
	PLAN_ACTIVATIONS
};
extern const char *const plan_activations_names[PLAN_ACTIVATIONS];

enum plan_place { PLAN_ON_GPU, PLAN_ON_HOST, PLAN_ON_NVME, PLAN_PLACES };
extern const char *const plan_place_names[PLAN_PLACES];

enum plan_save {
	PLAN_SAVE_NONE,
	PLAN_SAVE_TORCH,      /* torch.save of the state dicts of model and optimizer */
	PLAN_SAVE_PRETRAINED, /* save_pretrained: the model as safetensors */
	PLAN_SAVE_STATE,      /* accelerate's save_state: both */
	PLAN_SAVE_FULL,       /* FULL_STATE_DICT, offloaded to the first rank's host memory */
	PLAN_SAVE_FULL_GPU, /* ... with offload_to_cpu=False: every rank has all of it on its GPU */
	PLAN_SAVE_SHARDED,  /* torch.distributed.checkpoint: each rank its own */
	PLAN_SAVES
};
extern const char *const plan_save_names[PLAN_SAVES];

/* How weights that will be sharded reach the GPU. */
enum plan_load {
	/*
	 * On the meta device; then a unit, or a parameter, at a time: accelerate's fsdp_cpu_ram_efficient_loading, FSDP's
	 * sync_module_states, DeepSpeed's zero.Init
	 */
	PLAN_LOAD_META,
	PLAN_LOAD_WHOLE, /* all of the model is on each GPU before it is sharded: model.cuda(), then the wrapper */
	PLAN_LOADS
};
extern const char *const plan_load_names[PLAN_LOADS];

/* Of keys and values while tokens are generated. */
enum plan_cache {
	PLAN_CACHE_DYNAMIC, /* grows with the tokens */
	PLAN_CACHE_STATIC,  /* as long as it will ever be, at once */
	PLAN_CACHES
};
extern const char *const plan_cache_names[PLAN_CACHES];

/* Parts of a model that sees which do not train. */
enum plan_freeze { PLAN_FREEZE_NONE, PLAN_FREEZE_VISION, PLAN_FREEZE_PROJECTOR, PLAN_FREEZES };
extern const char *const plan_freeze_names[PLAN_FREEZES];

enum plan_task { PLAN_TRAIN, PLAN_INFER, PLAN_GENERATE, PLAN_TASKS };
extern const char *const plan_task_names[PLAN_TASKS];

/* What of the GPU decides how much operations take. */
struct plan_device {
	unsigned capability; /* 90: Hopper; 0: AMD's */
	unsigned multiprocessors, threads_per_multiprocessor;
	uint64_t blas_workspace_bytes;
	bool cudnn_attention; /* scaled_dot_product_attention prefers cuDNN: Hopper and later */
	bool flash_attention; /* or has FlashAttention: Ampere and later */
	uint64_t lt_workspace_bytes;
};
extern const struct plan_device plan_device_default; /* an H100 */
/* By compute capability, 10 * major + minor; 0: AMD's. */
struct plan_device plan_device_of(unsigned capability, unsigned multiprocessors);

/* DeepSpeed's sizes in elements; 0: its defaults; PLAN_ZERO_AUTO: by the width of the model, as the Trainer's "auto". */
#define PLAN_ZERO_AUTO UINT64_MAX
enum plan_zero_said {
	PLAN_ZERO_READ = 1, /* a file of DeepSpeed's says the stage, and has what else it wants */
	PLAN_ZERO_HAS_OPTIMIZER = 2,
	/* left to the Trainer ("auto") */
	PLAN_ZERO_LEFT_BATCH = 4,
	PLAN_ZERO_LEFT_ACCUMULATION = 8,
	PLAN_ZERO_LEFT_PRECISION = 16,
	PLAN_ZERO_AUTOCASTS = 32 /* PyTorch's autocast, over weights as they are */
};
struct plan_zero {
	uint32_t said;       /* enum plan_zero_said */
	uint64_t bucket;     /* reduce_bucket_size */
	uint64_t prefetch;   /* stage3_prefetch_bucket_size */
	uint64_t persistent; /* stage3_param_persistence_threshold */
	uint64_t reuse;      /* stage3_max_reuse_distance */
	uint64_t live;       /* stage3_max_live_parameters */
	uint64_t sub_group;  /* sub_group_size */
	bool overlap; /* overlap_comm of stages 1 and 2: one bucket fills while the other is summed */
};

/* What a run takes beyond the plan, as recordings of it showed (calibrate.c). */
struct plan_line {
	uint64_t fixed_bytes;
	uint64_t bytes,
		tokens; /* and so many more for so many tokens of a micro-batch; tokens 0: none */
};
struct plan_learned {
	uint64_t resident_bytes; /* from the beginning to the end */
	uint64_t state_bytes;    /* from the first step of the optimizer on */
	struct plan_line kept;   /* from the forward pass to the backward pass: */
	bool between_blocks; /* ... next to blocks, which may be computed again; else all blocks alike */
	struct plan_line forward, backward, optimizer; /* for a moment, when the phase takes most */
};

enum plan_parts {
	PLAN_PARTS_ALIKE,
	PLAN_PARTS_SCALED, /* the same, if model.accepts_loss_kwargs is False */
	PLAN_PARTS_MEANS, /* another: a mean of means over labels, of which parts have more or fewer */
	PLAN_PARTS_COMPARED /* another: what is compared within a micro-batch */
};

/* Liger's kernels, a bit each; its loss is a loss (PLAN_LOSS_LIGER). */
enum plan_liger {
	PLAN_LIGER_NORM = 1,
	PLAN_LIGER_ROPE = 2,
	PLAN_LIGER_GATE = 4, /* SwiGLU, GeGLU */
	PLAN_LIGER_ALL = 7,
	PLAN_LIGER_LOSS = 8
};

struct plan_recipe {
	/* what is run, and how */
	enum plan_task task;
	enum plan_precision precision;
	enum plan_optimizer optimizer;
	enum plan_attention attention;
	bool eager_only; /* the model's class has no fused attention */
	enum plan_checkpointing checkpointing;
	enum plan_loss loss;
	enum plan_quantize quantize;
	enum plan_cache cache;
	enum plan_activations activations;
	enum plan_place
		optimizer_on; /* states, master weights and gradients: DeepSpeed's offload */
	enum plan_place parameters_on; /* FSDP's CPU offload, ZeRO-3's offload_param */
	enum plan_load load;           /* of sharded weights; others are always whole */
	enum plan_save save;           /* at the end of training */
	unsigned
		transformers; /* 100 * major + minor, for the names in configuration; 0: the newest known */
	bool no_clip, keep_outputs, no_cache;
	bool keep_cache; /* passes that generate nothing keep keys and values, too (config.use_cache) */
	bool keeps_keys;      /* views of what projects them, also where blocks are checkpointed */
	bool wide_embeddings; /* the Trainer runs bitsandbytes: states of embeddings are not of 8 bits */
	bool in_backward; /* each parameter is stepped on when its gradient is there, which goes then */
	unsigned liger; /* which of Liger's kernels the text tower has: enum plan_liger */
	bool grouped; /* a batch of `longest` comes first, too, as samplers that group by length do */
	bool padded;                   /* attention is given a mask of what is padding */
	bool lora_dropout;             /* in front of adapters */
	bool dora;                     /* adapters have a vector of magnitudes each */
	bool narrow_adapters;          /* ... and the dtype of the weights, not fp32 */
	bool old_bitsandbytes;         /* before 0.43.2: 4-bit layers keep their inputs */
	bool litgpt;                   /* the modules and the loop of its finetune scripts */
	const char *lora_dropout_rate; /* where it is on, as it was given; borrowed */
	const char *lora_alpha;        /* changes no memory; NULL: not said; borrowed */
	bool foreign;     /* run by another library than Transformers, with modules of its own */
	bool partly_read; /* of the run's own configuration some keys were not understood */
	bool needs_less;  /* ... some take less than is planned without them */
	/*
	 * as older releases do it: logits given back in fp32, copied to be shifted; shared heads copied for attention;
	 * checkpoints around what FSDP 1 wraps, with their backward pass inside of the other
	 */
	bool wide_logits, copies_logits, narrow_loss, repeats_heads, outer_checkpoints;
	enum plan_parts parts;     /* what a smaller micro-batch with more accumulation trains */
	bool sequence_parallel;    /* with `tp`: the rows between layers are shared, too */
	uint64_t checkpoint_every; /* of so many blocks one is checkpointed; 0 counts as 1 */
	uint64_t checkpoint_from;  /* which of so many, from 0 */
	bool selects_ops;    /* selective as torchtitan's "op": every second mm, and attention */
	uint64_t loss_chunk; /* tokens of PLAN_LOSS_CHUNKED; 0: TRL's 256 */
	/* its sizes */
	uint64_t batch, sequence;
	uint64_t
		target_sequence; /* of labels, of an encoder and a decoder; 0: a quarter of `sequence` */
	uint64_t image_size;  /* of models that see: height in pixels; 0: as configured */
	uint64_t image_width; /* in pixels; 0: as high */
	uint64_t accumulate;  /* micro-batches a step */
	uint64_t steps;
	const uint64_t
		*lengths;    /* tokens of a sample, step after step (again and again); borrowed */
	size_t length_count; /* 0: all are `sequence` */
	uint64_t longest;    /* a batch as long as that comes after all others; 0: none does */
	uint64_t eval_passes, eval_batch;
	uint64_t new_tokens; /* PLAN_GENERATE */
	uint64_t beams;      /* ... sequences of each sample; 0 counts as 1 */
	enum plan_freeze freeze;
	uint64_t lora_rank;              /* 0: all parameters are trained */
	const char *const *lora_targets; /* names of modules; borrowed */
	size_t lora_target_count;        /* 0: the family's usual ones */
	const uint64_t *extra_bytes;     /* tensors next to the model's, made before it; borrowed */
	size_t extra_count;
	/* where */
	struct plan_device device;
	uint64_t gpus;   /* all that share the work; this is what one of them needs */
	uint64_t tp, pp; /* of the GPUs share each layer, and the layers, out; 0 counts as 1 */
	uint64_t micro_batches; /* of a pipeline's step */
	uint64_t stage;         /* which of the pipeline, from 0 */
	enum plan_parallel parallel;
	enum plan_schedule schedule;
	struct plan_zero zero;
	enum plan_buckets buckets;
	const struct plan_learned
		*learned; /* of recordings (calibrate.c); NULL: nothing was; borrowed */
};
void plan_recipe_init(struct plan_recipe *r);

/* Transformers' release from which gradient_checkpointing_kwargs have every_n_layers and offload. */
/*
 * From this release all classes take the Trainer's count of labels (**kwargs); where one drops it the gradient is multiplied by
 * the accumulation (huggingface/transformers#47688), unless model.accepts_loss_kwargs is False.
 */
#define PLAN_COUNTS_FROM 500
#define PLAN_EXPERT_BANKS_FROM \
	500 /* Transformers' release with one parameter for all experts of a block */
/* Is each expert a few linear layers, as before then (release as in the recipe; 0: the newest)? */
bool plan_has_linear_experts(const struct model *m, unsigned transformers);
#define PLAN_CHECKPOINT_KEYS_FROM 517
/* The offload is DeepSpeed's: of the optimizer alone, or to NVMe. */
int plan_is_deepspeed(const struct plan_recipe *r);
/* Has each process its share of the parameters only? */
bool plan_is_sharded(const struct plan_recipe *r);
bool plan_is_fsdp1(const struct plan_recipe *r);
/* Elements: DeepSpeed's sub_group_size, of a share that is stepped on at once. */
#define PLAN_DEEPSPEED_SUB_GROUP 1000000000u
#define PLAN_DEEPSPEED_BUCKET \
	50000000u /* elements: reduce_bucket_size of the configuration that plan writes */

/* Any of Liger's kernels, its loss among them? */
bool plan_has_liger(const struct plan_recipe *r);

/* ZeRO-2 or 3, as DeepSpeed does it? */
bool plan_is_zero(const struct plan_recipe *r);
/* Does the optimizer keep its states in 8 bits? */
bool plan_is_8_bit(const struct plan_recipe *r);
/* Do the optimizer's states live in bitsandbytes' paged memory? */
/* An optimizer of bitsandbytes, over shards of FSDP 2: the run stops at its first step. */
bool plan_refuses_shards(const struct plan_recipe *r);
bool plan_is_torchao(const struct plan_recipe *r);
bool plan_is_paged(const struct plan_recipe *r);

/* Are the weights of 16 bits? */
bool plan_is_half(const struct plan_recipe *r);

/* A part of the run; its requests are those up to the op `end` of the program. */
struct plan_phase {
	char name[12]; /* load, fwd0, bwd0, opt0, zero0, fwd1, ..., eval0, gen0 */
	uint64_t allocated_bytes, reserved_bytes;                                 /* when it ends */
	uint64_t peak_allocated_bytes, peak_requested_bytes, peak_reserved_bytes; /* within it */
	uint32_t end;
	uint64_t host_bytes; /* most of the machine's own memory within it */
};

/* What of the machine's own memory is for what. */
enum plan_host_part {
	PLAN_HOST_PROCESS, /* Python, PyTorch, CUDA's libraries */
	PLAN_HOST_WEIGHTS,
	PLAN_HOST_GRADIENTS,
	PLAN_HOST_STATES, /* of the optimizer, with its master weights */
	PLAN_HOST_ACTIVATIONS,
	PLAN_HOST_BUFFERS, /* that transfers go through */
	PLAN_HOST_LOADING,
	PLAN_HOST_SAVING,
	PLAN_HOST_PARTS
};

/* The machine's own memory, of all processes that are on it. */
struct plan_host {
	uint64_t peak_bytes;
	uint64_t bytes[PLAN_HOST_PARTS]; /* at the peak; the sum is peak_bytes */
	uint64_t pinned_bytes;           /* of it: what PyTorch's host allocator has pinned */
	unsigned processes;
};

struct plan {
	struct mem *mem;
	struct program *program;
	uint8_t *categories; /* of each request, enum timeline_category */
	size_t category_room;
	VEC(struct plan_phase) phases;
	uint64_t adapter_elements; /* of LoRA, all of them trainable */
	struct plan_host host;
};

/*
 * The program of a run.  `m` needs to stay only for the call.  Errors: PLIM_E_ARG, the recipe does not fit the model;
 * PLIM_E_LIMIT, more tensors than programs have.  Free it with plan_free.
 */
enum plim_status plan_build(struct mem *mem, const struct model *m, const struct plan_recipe *r,
			    struct plan **out, struct plim_err *err);
void plan_free(struct plan *p);

struct plan_result {
	uint32_t died; /* the phase whose request failed, or TRACE_NONE */
	uint64_t died_request_bytes, died_allocated_bytes;
	uint64_t peak_allocated_bytes, peak_requested_bytes, peak_reserved_bytes;
	uint32_t peak_phase; /* of allocated bytes */
};

/* Run it through the allocator; fills the phases' numbers (those before a death). */
enum plim_status plan_measure(struct plan *p, const struct allocator_rules *rules,
			      const struct allocator_bounds *bounds, struct plan_result *out,
			      struct plim_err *err);

/* The same where memory is ample, and the smallest limit under which it goes to its end; UINT64_MAX: more than `most_bytes`. */
enum plim_status plan_measure_needed(struct plan *p, const struct allocator_rules *rules,
				     uint64_t most_bytes, struct plan_result *out,
				     uint64_t *needed_bytes, struct plim_err *err);

/* The same of a plan and of one that goes on where it ends: in one search, where they are no more than that. */
enum plim_status plan_measure_both(struct plan *const plans[2], const struct allocator_rules *rules,
				   uint64_t most_bytes, struct plan_result out[2],
				   uint64_t needed_bytes[2], struct plim_err *err);

/*
 * The same with libplimsoll_alloc.so's allocator, which learns as the steps pass; of the result the peak of memory in use.
 * What needs more than `most_bytes` is said to need one byte more, with no result.
 */
enum plim_status plan_measure_own(struct plan *p, uint64_t most_bytes, struct plan_result *out,
				  uint64_t *needed_bytes, struct plim_err *err);

/* What lives at the peak of a phase; the rounding of blocks is in `rounding`. */
void plan_compose(const struct plan *p, uint32_t phase, uint64_t bytes[TIMELINE_CATEGORIES],
		  uint64_t *rounding_bytes);

/* What a sum over `rows` of a matrix of `outputs` columns stages in memory (reduce.c). */
uint64_t plan_reduce_bytes(const struct plan_device *d, uint64_t rows, uint64_t outputs,
			   unsigned element_bytes);

/* ---- where a request is made: program_request.stack of a plan (sites.c) ---- */

/* A place is a module, or the block that it stands in, as a number below 2^22; 0: outside of the model. */
#define PLAN_IN_MODULE(module) ((uint32_t)(module) + 1)
#define PLAN_IN_BLOCK(module) (((uint32_t)(module) + 1) | PLAN_BLOCK)
#define PLAN_BLOCK (1u << 21)

/* While which pass, in the two upper bits. */
enum plan_pass { PLAN_FORWARD_PASS, PLAN_BACKWARD_PASS, PLAN_SECOND_PASS /* recomputed */ };

struct plan_site {
	const char *
		op; /* "mm", static storage; NULL: none, a tensor that the model or the loop makes */
	enum plan_pass pass;
	char place[MODEL_NAME_BYTES]; /* "model.layers.3.mlp.down_proj"; "": outside of the model */
};
uint32_t plan_site_make(uint32_t place, unsigned op, enum plan_pass pass);
void plan_site_read(const struct model *m, uint32_t site, struct plan_site *out);

/* ---- how sure it is (basis.c) ---- */

enum plan_basis {
	PLAN_MEASURED, /* fitted to a recording of a run of the model, in no further doubt */
	PLAN_DERIVED,  /* PyTorch's rules, checked against measured runs of the same kind */
	PLAN_ASSUMED,  /* nothing of the kind was measured */
	PLAN_BASES
};
extern const char *const plan_basis_names[PLAN_BASES];

#define PLAN_REASONS 8

struct plan_trust {
	enum plan_basis basis;
	unsigned below, above;             /* how far bytes may be off, in thousandths */
	uint64_t less_bytes, more_bytes;   /* and in bytes, for what recordings leave open */
	const char *reasons[PLAN_REASONS]; /* why no surer; static storage */
	size_t reason_count;
};

/*
 * Of what is reported about the first `n` phases of a plan: of all of them, the whole run.  `recorded`: the recipe of a run of the
 * model that the plan was calibrated with; NULL: none.
 */
void plan_trust_of(const struct model *m, const struct plan_recipe *r,
		   const struct plan_recipe *recorded, const struct plan_phase *phases, size_t n,
		   struct plan_trust *out);
void plan_trust_range(const struct plan_trust *t, uint64_t bytes, uint64_t range[2]);

/* ---- calibration: a plan of a recorded run next to the recording ---- */

/*
 * What a step of training takes, at the borders of its passes, in requested bytes.  It is the second step where there is
 * one, of recordings that whose peak is the highest.
 */
struct plan_footprint {
	uint64_t resident_bytes;               /* before its forward pass */
	uint64_t parameter_bytes, state_bytes; /* ... of these */
	uint64_t kept_bytes; /* by the forward pass, when the backward pass begins */
	uint64_t forward_bytes, backward_bytes,
		optimizer_bytes;  /* most, beyond what lives before or after it */
	uint64_t workspace_bytes; /* the largest workspace that stays; 0: none */
	uint64_t input_bytes;     /* the largest input that the step reads; 0: none is known */
	uint64_t step;            /* that it is of */
};

/* PLIM_E_ARG: it does not train. */
enum plim_status plan_footprint(const struct plan *p, struct plan_footprint *out,
				struct plim_err *err);

/* Of a recording.  PLIM_E_ARG: it has no whole step of training, or no stacks. */
enum plim_status plan_footprint_recorded(const struct timeline *tl,
					 const struct timeline_categories *c,
					 const struct timeline_steps *steps,
					 struct plan_footprint *out, struct plim_err *err);

/* Does the recorded step read an input of so many bytes? */
bool plan_recorded_reads(const struct timeline *tl, const struct timeline_categories *c,
			 const struct timeline_steps *steps, const struct plan_footprint *step,
			 uint64_t bytes);

/* Another model: what is recorded of parameters is not what is planned. */
bool plan_is_other_model(const struct plan_footprint *recorded,
			 const struct plan_footprint *planned);

/* One recorded run and the plan of it, without what was learned. */
struct plan_pair {
	struct plan_footprint recorded, planned;
	uint64_t tokens; /* of a micro-batch */
	bool checkpoints;
};

/* From one run, or two of different size: what is beyond the plan. */
void plan_learn(const struct plan_pair *pairs, size_t n, struct plan_learned *out);

uint64_t plan_line_at(const struct plan_line *line, uint64_t tokens);

/* ---- the ladder: changes that take less memory, the cheapest first ---- */

/* What a rung changes: the recipe, the allocator's settings (static storage; NULL: PyTorch's default), or the allocator. */
struct plan_choice {
	struct plan_recipe recipe;
	const char *settings;
	bool own_allocator; /* libplimsoll_alloc.so, whatever the settings */
};

struct plan_rung {
	const char *name;
	const char *cost;     /* an estimate, of time or of quality */
	bool changes_results; /* what is trained comes out differently: opt-in */
	bool repeats;         /* can be taken again and again */
	bool pairs;           /* free: what saves nothing alone may do so with another of them */
	bool slow;            /* a step may take twice as long, or much longer */
	bool enough_only;     /* a library more in the job: told where it is enough, else not */
	bool (*apply)(struct plan_choice *c); /* false: it changes nothing here */
};

extern const char plan_scaled_words[]; /* how accumulation is right of PLAN_PARTS_SCALED */
extern const struct plan_rung plan_rungs[];
extern const size_t plan_rung_count;

#endif
