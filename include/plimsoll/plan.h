/*
 * plimsoll plan: what a run of a model will need, before it runs.
 *
 * All sizes are bytes.  A number that is not known is PLIM_UNKNOWN and a text that is not known is NULL; JSON shows null
 * for both.  Everything a result points to belongs to the result.
 */
#ifndef PLIMSOLL_PLAN_H
#define PLIMSOLL_PLAN_H

#include <plimsoll/report.h>

enum plim_plan_flags {
	PLIM_PLAN_NO_CLIP = 1,        /* gradients are not clipped */
	PLIM_PLAN_KEEP_OUTPUTS = 2,   /* the loop keeps a step's logits until the next */
	PLIM_PLAN_MAX_BATCH = 4,      /* find the largest batch that fits */
	PLIM_PLAN_MAX_SEQUENCE = 8,   /* and the longest sequence */
	PLIM_PLAN_REDACT = 16,        /* nothing of the file's name */
	PLIM_PLAN_ALLOW_CHANGES = 32, /* the ladder may change what is trained */
	PLIM_PLAN_NO_CACHE = 64,      /* generate without keys and values kept (use_cache=False) */
	PLIM_PLAN_PADDED = 1024,      /* samples are padded: attention is given a mask */
	PLIM_PLAN_GROUPED = 2048,     /* samples are grouped by length: the longest come first */
	PLIM_PLAN_SEQUENCE_PARALLEL =
		1 << 20 /* with tensor parallelism, rows are shared between layers */
};

/*
 * plim_plan_options_init sets the defaults; then change what is to be different.  Texts are names as the command takes
 * them ("bf16-autocast"); NULL is the default.  Borrowed for the call.
 */
struct plim_plan_options {
	uint32_t size;             /* set by plim_plan_options_init */
	uint32_t flags;            /* enum plim_plan_flags */
	uint64_t max_memory_bytes; /* 0: half of this machine's memory, or of the cgroup's */
	/* the model by numbers, where no file is given; 0: derived */
	uint64_t layers, hidden, heads, kv_heads, intermediate, vocab;
	/* the recipe */
	const char *task, *precision, *optimizer, *attention, *checkpointing, *parallel;
	uint64_t batch, sequence, accumulate, steps;
	uint64_t
		image_size; /* side in pixels; 0: as configured, or no images for models that read too */
	uint64_t image_grid; /* the same in patches; 0: not given so */
	uint64_t lora_rank;
	const char *lora_targets; /* names with commas; NULL: the family's usual ones */
	uint64_t eval_batch;      /* 0: no evaluation */
	uint64_t new_tokens;
	uint64_t gpus;
	/* beside the model: tensors ("40x1024x1024:fp32"), and components that stay on the card */
	const char *const *extra_tensors;
	size_t extra_tensor_count;
	uint64_t residents, component_bytes;
	const char *settings; /* PYTORCH_CUDA_ALLOC_CONF */
	unsigned torch;       /* release, 100 * major + minor; 0: the newest known */
	/* where it is to run */
	uint64_t memory_bytes;    /* that the job may reserve; PLIM_UNKNOWN: see `gpu` */
	const char *gpu;          /* a card's name; NULL: none, nothing is judged */
	uint64_t allowance_bytes; /* of `gpu`, for what PyTorch does not allocate */
	const char *sweep;        /* "batch=1,2,4" or "seq=512,1024"; NULL: none */
	/* several GPUs: of `gpus`, so many share each layer and the layers; the rest are copies (`parallel`); 0: 1 */
	uint64_t tensor_parallel, pipeline_parallel;
	uint64_t micro_batches; /* of a pipeline's step; 0: twice as many as stages */
	const char *schedule;   /* of a pipeline: "1f1b" or "gpipe" */
	uint64_t stage;         /* of the pipeline, from 1; 0: the one that needs most */
	/* what is kept in the machine's own memory, and how the model is saved after training */
	const char *activations, *optimizer_on, *parameters_on, *save;
	uint64_t
		host_memory_bytes; /* that the job may use of the machine; PLIM_UNKNOWN: not judged */
	const char *loss;          /* "whole", "chunked", "liger"; NULL: whole */
	uint64_t loss_chunk; /* tokens of a chunk, which makes the loss chunked; 0: 256 if it is */
	uint64_t
		longest; /* tokens of the longest batch, others have `sequence`; 0: all are alike */
	const char *quantize; /* "none", "nf4", "nf4-double", "int8"; NULL: as the config says */
	unsigned
		transformers; /* release, 100 * major + minor; 0: the newest known, in a loop of one's own */
	const char *lengths; /* "512,2048,640": tokens of each step's samples; NULL: `sequence` */
	/* images that are not square: image_size and image_grid are their heights; 0: they are */
	uint64_t image_width, image_grid_width;
	uint64_t beams;    /* generate: sequences kept of each sample; 0 counts as 1 */
	const char *cache; /* generate: "dynamic" (NULL), "static" */
	/* recordings of runs of this model, one or two, and what those runs were: "batch=2,seq=512"; NULL: as planned */
	const char *const *calibrate, *const *recorded;
	size_t calibrate_count, recorded_count;
};
PLIM_API void plim_plan_options_init(struct plim_plan_options *o);

struct plim_plan_model {
	const char *family;
	bool guessed; /* the architecture is not known: read as though it were `family` */
	uint64_t parameters, parameter_bytes, trainable;
};

struct plim_plan_phase {
	const char *phase; /* load, fwd0, bwd0, opt0, zero0, fwd1, ... */
	uint64_t allocated_bytes, peak_allocated_bytes, peak_reserved_bytes;
	uint64_t *range_bytes; /* two: peak_allocated_bytes with all that is uncertain */
	size_t range_count;
	const char *basis;   /* as below */
	uint64_t host_bytes; /* most of the machine's own memory within it */
};

/* What lives at the peak; the sum is peak.allocated_bytes. */
struct plim_plan_categories {
	uint64_t parameter_bytes, gradient_bytes, optimizer_state_bytes, activation_bytes,
		input_bytes, workspace_bytes, temporary_bytes, autograd_detail_bytes,
		kv_cache_bytes, buffer_bytes, other_bytes, rounding_bytes;
};

struct plim_plan_peak {
	uint64_t allocated_bytes, reserved_bytes;
	uint64_t needed_bytes; /* the smallest limit under which the run goes to its end */
	uint64_t *range_bytes; /* two: needed_bytes with all that is uncertain */
	size_t range_count;
	const char *phase; /* of allocated_bytes */
	struct plim_plan_categories categories;
	/*
	 * "measured": fitted to a recording of a run of the model (calibrate); "derived": from PyTorch's rules,
	 * which were checked against measured runs of the same kind; "assumed": nothing of the kind was measured.
	 */
	const char *basis;
	const char **reasons; /* why it is no surer */
	size_t reason_count;
};

struct plim_plan_sweep {
	uint64_t batch, sequence;
	uint64_t allocated_bytes, reserved_bytes, needed_bytes;
	const char *fits;      /* "yes", "no"; NULL: nothing to judge by */
	const char *dies_at;   /* phase */
	uint64_t *range_bytes; /* two: needed_bytes with all that is uncertain */
	size_t range_count;
	const char *basis;
};

/* Ready to be pasted; NULL where there is nothing to say. */
struct plim_plan_config {
	const char *training_arguments, *from_pretrained, *peft, *accelerate, *deepspeed, *fsdp,
		*environment;
};

/* A change, on top of those above it that do not change results. */
struct plim_plan_rung {
	const char *rung;
	const char *cost;
	bool changes_results;
	uint64_t saved_bytes; /* of needed_bytes */
	uint64_t peak_allocated_bytes, needed_bytes;
	bool fits;
	struct plim_plan_config config; /* of all of it, up to here */
	uint64_t *range_bytes;          /* two: needed_bytes with all that is uncertain */
	size_t range_count;
	const char *basis;
	uint64_t host_bytes; /* of the machine's own memory, with it */
};

/* The machine's own memory at its peak, of all processes of the job on it; the parts add up to `bytes`. */
struct plim_plan_host {
	uint64_t bytes;
	uint64_t *range_bytes; /* two: with all that is uncertain */
	size_t range_count;
	uint64_t process_bytes, weight_bytes, gradient_bytes, optimizer_state_bytes,
		activation_bytes, buffer_bytes, loading_bytes, saving_bytes;
	uint64_t pinned_bytes; /* page-locked, of the whole run */
	uint64_t processes;    /* that are taken to be on one machine */
	uint64_t limit_bytes;  /* that the job may use */
	const bool *fits;      /* NULL: no limit was given */
	const char *dies_at;   /* phase that needs more than the limit; NULL: none does */
	const char *basis;     /* "derived" or "assumed" */
};

/* What recordings show beyond the plan; what is equal is not told. */
struct plim_plan_learned {
	const char *quantity;
	uint64_t recorded_bytes, planned_bytes; /* of the recorded run */
	uint64_t
		learned_bytes; /* what the planned run is given for it; 0: it is left to the range */
	const char *evidence;
};

struct plim_plan {
	struct plim_plan_model model;
	uint64_t batch, sequence;
	struct plim_plan_phase *phases;
	size_t phase_count;
	struct plim_plan_peak peak;
	uint64_t host_bytes;  /* of the machine's own memory, as host.bytes */
	uint64_t limit_bytes; /* that the job may reserve */
	const bool *fits;     /* NULL: no limit was given */
	const char *dies_at;  /* phase; NULL: it does not */
	uint64_t dies_request_bytes;
	uint64_t max_batch, max_sequence;
	struct plim_plan_sweep *sweep;
	size_t sweep_count;
	const char **assumptions;
	size_t assumption_count;
	struct plim_plan_rung *ladder;
	size_t ladder_count;
	struct plim_plan_hidden *hidden;
	/* two: what surely fits, as max_batch and max_sequence say, and what perhaps does; none: not looked for */
	uint64_t *max_batch_range, *max_sequence_range;
	size_t max_batch_range_count, max_sequence_range_count;
	const char *max_basis;         /* of both */
	uint64_t dies_allocated_bytes; /* what was allocated then */
	struct plim_plan_host host;
	struct plim_plan_learned *learned;
	size_t learned_count;
	uint64_t
		unexplained_bytes; /* of the recorded peak, after that; PLIM_UNKNOWN: no recording */
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

/* As JSON, schema plan/1 (docs/json.md), and as text for a person. */
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

/* The fields of the JSON as Markdown rows, for docs/json.md; and the structs' layout. */
PLIM_API enum plim_status plim_plan_fields(int layout, plim_write_fn *write, void *ctx,
					   struct plim_err *err);

#endif
