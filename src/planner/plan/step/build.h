/* Models as operations, and the loop around them.  One file a part: decoder.c, encoder.c, train.c ... */
#ifndef PLAN_BUILD_H
#define PLAN_BUILD_H

#include "plan/step/ops.h"

#define BUILD_STATES 2 /* tensors that outputs hold next to logits and caches, at most */
#define BUILD_DEEP 16  /* blocks of a vision tower that feed the language model, at most */

/* Patches that see one another, `windows` times over. */
struct seen_piece {
	uint64_t patches, windows;
};

struct builder {
	struct tape t;
	const struct model *m;
	const struct plan_recipe *r;
	struct plan *plan;
	uint32_t *module_of
		[MODEL_TOWERS]; /* [(block + 1) * MODEL_ROLES + role]: module + 1, 0: none */
	size_t module_room[MODEL_TOWERS];
	uint32_t *lora;                  /* of each module: parameter A + 1; B follows.  0: none */
	enum tape_dtype weights;         /* of the model */
	enum tape_dtype compute;         /* that sharded weights are gathered in */
	struct parallel *parallel;       /* NULL: one process alone */
	uint64_t copies;                 /* processes that share the batch out: 1 or more */
	uint64_t first_block, end_block; /* of the text tower that run here */
	struct pipe *pipe;               /* NULL: no pipeline */
	uint64_t tp;                     /* processes that share each layer out: 1 or more */
	/* of the forward pass that runs */
	uint64_t batch, sequence;
	struct value cos, sin, other_cos, other_sin;
	struct value mask; /* [batch, 1, queries, keys] */
	struct value bias[MODEL_TOWERS], cross_bias,
		encoded;  /* T5's: added to scores; the encoder's states */
	bool generating;  /* generate(): of the logits only the last token's are wanted */
	bool decoding;    /* ... and this is not its first pass */
	bool reduces;     /* gradients, in the micro-batch that runs: it is the step's last one */
	bool rows_shared; /* between layers, processes share rows out, too: sequence parallel */
	struct value
		*cache; /* keys and values of each block of this pass, or NULL: none are kept */
	/* what outputs hold next to logits, those of this pass and kept ones: caches, then states */
	struct value *caches[2];
	uint64_t cached; /* tokens that are in it */
	/*
	 * enable_input_require_grads(): embeddings that are leaves and get a gradient.  The graph of the last loss
	 * holds both until the next loss takes its name, so there are two; `leaf` is the one of this pass.
	 */
	uint32_t leaves[2];
	unsigned leaf;
	struct value seen_cos, seen_sin; /* of patches */
	struct value pixels;             /* of the batch's images; the loop's */
	/* what the vision tower gave, until the language model is done; its features for inner blocks */
	struct value seen_kept[3], seen_deep[BUILD_DEEP];
	VEC(struct seen_piece) windows; /* of the batch's images */
	VEC(struct value) cuts;         /* pieces of q, k and v, or of the logits */
	enum model_tower tower;         /* whose blocks are run */
	tape_again_fn *blocks[MODEL_TOWERS];
	/* DeepSpeed's offload: gradients on the host, and the buckets on the GPU that they leave through */
	uint32_t away_gradients, bucket, twin;
	uint64_t own_share;    /* elements that this process steps on */
	uint32_t away_weights; /* ZeRO-3's, of those that are on NVMe */
	uint32_t loading;      /* the model in the machine's memory, before it is moved */
	uint32_t
		unquantized; /* store of the weight that is being quantized while the model is loaded */
	struct value targets; /* the labels that a loss in parts compares with */
};

/* How many parameters an adapter has. */
unsigned build_adapter_params(const struct builder *b);

/* The parameter of a module, store TAPE_NONE if there is none; borrowed. */
struct value build_param(struct builder *b, enum model_tower tower, uint32_t block,
			 enum model_role role, enum model_part part);
int build_has(const struct builder *b, enum model_tower tower, uint32_t block,
	      enum model_role role);

/* The module applied to x: linear with its bias and adapters, a norm of its kind. */
struct value build_linear(struct builder *b, enum model_tower tower, uint32_t block,
			  enum model_role role, struct value x);
struct value build_norm(struct builder *b, enum model_tower tower, uint32_t block,
			enum model_role role, struct value x);
struct value build_activation(struct builder *b, enum model_tower tower, struct value x);

/* Does the block's window end before so many keys do? */
bool build_is_windowed(const struct builder *b, enum model_tower tower, uint32_t block,
		       uint64_t keys);
/* q, k and v (in the layout that projections give) to what the output projection takes. */
struct value build_attention(struct builder *b, enum model_tower tower, uint32_t block,
			     struct value q, struct value k, struct value v, uint64_t queries,
			     uint64_t keys);

/* The same of sizes that are not the tower's: some of an image's patches, say. */
struct value build_attention_of(struct builder *b, enum model_tower tower, uint32_t block,
				struct value q, struct value k, struct value v,
				struct attention *a);

/*
 * _scaled_dot_product_attention_math, which is left where no fused kernel takes the inputs: fp32 with shared keys, a bias
 * that takes a gradient.  `bias` is added to the scores, or there is none.
 */
struct value build_unfused(struct builder *b, struct value q, struct value k, struct value v,
			   const struct attention *a, struct value bias);

/* One expert's linear layer, where experts are such and quantized: all are of one size. */
bool build_has_linear_experts(const struct builder *b, uint32_t block);
struct value build_expert(struct builder *b, uint32_t block, enum model_role role, struct value x);
/* The experts of a block (Mixtral, Qwen MoE) on what the norm before them gives. */
struct value build_experts(struct builder *b, uint32_t block, struct value x);

/* The blocks of a tower one after the other, checkpointed as the recipe says; takes x. */
struct value build_blocks(struct builder *b, enum model_tower tower, tape_again_fn *block,
			  struct value x);

struct value build_t5(struct builder *b, struct value ids, struct value labels,
		      struct value *logits);

/* Does build_decoder run it? */
bool build_is_decoder(const struct model *m);

/* ---- keys and values that are kept (cache.c) ---- */

/* Room for them, where the recipe keeps any; and its end. */
void build_cache_open(struct builder *b);
void build_cache_close(struct builder *b);
/* A pass begins, with an empty cache or without one. */
void build_cache_begin(struct builder *b);
/* The outputs of this pass (0), or of one before it (1), are gone; or this pass's take the place of those before. */
void build_cache_drop(struct builder *b, unsigned which);
void build_cache_keep(struct builder *b);
/* Do layers that see all tokens have a mask, too?  Where they fill static rooms, or next to layers that slide. */
int build_masks_all(const struct builder *b, int windowed);
/* p[1] and p[2], keys and values of this pass's tokens, become what is attended to: so many tokens. */
uint64_t build_remember(struct builder *b, uint32_t block, struct value p[3]);
/* Keys and values are kept as views: what they are projected with lives as long as the outputs. */
void build_keep_projected(struct builder *b, uint32_t block, struct value all);
/* The outputs hold this, too (which: below BUILD_STATES); x is taken. */
void build_hold_state(struct builder *b, unsigned which, struct value x);
/* Beams were chosen: each tensor is copied in their order. */
void build_cache_reorder(struct builder *b);

/* Does a model of this family generate tokens? */
int build_generates(const struct model *m);

/* A forward pass of the model's family. */
struct value build_forward(struct builder *b, struct value ids, struct value labels,
			   struct value *logits);

/* ids and labels are the caller's; with labels the loss, and *logits what a loop keeps (the caller drops it). */
struct value build_decoder(struct builder *b, struct value ids, struct value labels,
			   struct value *logits);

/* The head of a decoder, with its softcap; and the loss of its final states, as the recipe wants it (loss.c). */
struct value build_head(struct builder *b, struct value x);
struct value build_loss(struct builder *b, struct value x, struct value labels,
			struct value *logits);

/*
 * Quantized weights (quantized.c): what a module's product is then, refusals, and loading: a weight is on the GPU as the
 * file has it until it is quantized; what is not, is prepared for training.
 */
bool build_is_quantized(const struct builder *b, const struct model_module *module);
struct value build_quantized(struct builder *b, const struct model_module *module, struct value x,
			     struct value bias);
/* Codes that FSDP takes for numbers of 16 bits, and how many these are. */
bool build_is_packed(const struct builder *b, const struct model_tensor *x);
uint64_t build_packed(const struct builder *b, const struct model_tensor *x);
enum plim_status build_check_quantized(const struct builder *b, struct plim_err *err);
void build_before_quantized(struct builder *b, const struct model_tensor *next);
void build_prepare_quantized(struct builder *b);

/* What a language model sees among its words: takes them, gives words and merged patches. */
struct value build_seen(struct builder *b, struct value words);

/* What an inner block of the vision tower gave, for the language model where that takes it. */
void build_look_inside(struct builder *b, uint32_t block, struct value x);
/* The same added to what the language model's block gave: takes x. */
struct value build_deepen(struct builder *b, uint32_t block, struct value x);
/* The language model is done with what was seen. */
void build_forget_seen(struct builder *b);

/* The same where patches are averaged, not merged. */
struct value build_tokens_of_image(struct builder *b);

/* CLIP's and SigLIP's towers, each alone. */
struct value build_look(struct builder *b, struct value ids, struct value labels,
			struct value *logits);
struct value build_read(struct builder *b, struct value ids, struct value labels,
			struct value *logits);

struct value build_image(struct builder *b, struct value ids, struct value labels,
			 struct value *logits);
struct value build_pair(struct builder *b, struct value ids, struct value labels,
			struct value *logits);
struct value build_encoder(struct builder *b, struct value ids, struct value labels,
			   struct value *logits);

/* One forward pass of a family on new inputs, which live until `drop_inputs`. */
struct inputs {
	struct value at[4];
};

/* The embeddings as they enter the first block; x is taken. */
struct value build_enter(struct builder *b, struct value x);
/* The loss of this pass has taken the last one's name. */
void build_forget_leaf(struct builder *b);

/* What all blocks share goes: with the forward pass, or with the graph where blocks are computed again. */
void build_forget_shared(struct builder *b);

/* Several processes (parallel.h): made ready, and what each pass does for it.  Units are blocks of the text tower. */
void build_wrap(struct builder *b);
bool build_is_sharded(const struct builder *b);
/* Are weights on the meta device until they are sharded, */
bool build_is_meta(const struct builder *b);
/* ... or in the machine's memory, from which DeepSpeed's stage 2 takes them as halves? */
bool build_is_moved(const struct builder *b);
/* Is the model of a family whose layers are shared out, by tensors or as a pipeline? */
bool build_shares_layers(const struct builder *b);
struct value build_unit_begin(struct builder *b, uint32_t unit, struct value x);
struct value build_unit_end(struct builder *b, uint32_t unit, struct value x);
void build_before_forward(struct builder *b);
void build_after_forward(struct builder *b);
void build_before_backward(struct builder *b);
void build_after_backward(struct builder *b);
/* What comes before the optimizer's step and behind it; true: gradients are clipped on the way. */
bool build_before_step(struct builder *b);
void build_after_step(struct builder *b);
/* zero_grad() gives back nothing now: the next forward pass will. */
bool build_zeroes_late(struct builder *b);
void build_end_parallel(struct builder *b);
/* Every unit gathered once, the root all the while. */
void build_touch_units(struct builder *b);

/*
 * Layers shared out by columns and rows (parallel_tp.c).  How much of a tensor this process has; PLIM_E_ARG: the model
 * has no plan for that, or it does not divide.  What comes into and out of a part of a block; x is taken.
 */
enum plim_status build_tensor_parallel(struct builder *b);
uint64_t build_divided(const struct builder *b, const struct model_tensor *x);
struct value build_split_linear(struct builder *b, const struct model_module *module,
				struct value x, struct value weight, struct value bias,
				uint64_t features);

/*
 * A stage of a pipeline (parallel_pp.c): what it does not run goes once the model is made, then steps of all their
 * micro-batches.  PLIM_E_ARG: the model or the recipe is not made for that.
 */
enum plim_status build_stages(struct builder *b);
void build_pipeline_step(struct builder *b, struct value ids, struct value labels);
void build_end_stages(struct builder *b);

/* One stage's part of a decoder: from ids, or from what the stage before sends, to that or the loss and the logits. */
struct value build_stage(struct builder *b, struct value in, struct value labels,
			 struct value *logits);

/*
 * What was learned of recordings (calibrate.c): a block's result, which is taken, with its share of what the forward pass
 * keeps beyond the plan; all of that where it is not the blocks', and in the end what is taken only for a moment.
 */
struct value build_learned_keep(struct builder *b, struct value x);
uint64_t build_learned_kept(const struct builder *b);
void build_learned_moments(struct builder *b);

/* Training, or what the task is, phase by phase. */
void build_run(struct builder *b);

/* What is kept in the machine's own memory (offload.c). */
int build_steps_on_host(const struct builder *b); /* the optimizer is there */
/* The process as it starts, with the model read; and what it needs next to when it runs on the GPU. */
void build_host_load(struct builder *b);
void build_host_loaded(struct builder *b);
/*
 * Where a share of a parameter, or of a unit's flat one, lives; and of the gradient that p has now: `shares` on the GPU, or
 * a copy.  p->grad is that of the micro-batches before, or TAPE_NONE.
 */
uint32_t build_shard(struct builder *b, uint64_t bytes);
uint32_t build_flat_shard(struct builder *b, uint64_t bytes);
void build_keep_gradient(struct builder *b, struct tape_param *p, uint32_t shares);
/* DeepSpeed's reduce_bucket_size in elements: as configured, or `usual`. */
uint64_t build_zero_bucket(const struct builder *b, uint64_t usual);
/* ... and its sub_group_size, of a share that stage 3 steps on at once. */
uint64_t build_zero_sub_group(const struct builder *b);

/* DeepSpeed's copies and buffers, where nothing else is sharded; the bucket that gradients leave through goes. */
void build_wrap_offload(struct builder *b);
void build_let_bucket(struct builder *b);

/* The phase `save`, where one is asked for (save.c). */
void build_save(struct builder *b);

#define PLAN_NO_NUMBER UINT32_MAX
/* A phase ends. */
void build_phase(struct builder *b, const char *name, unsigned number);

#endif
