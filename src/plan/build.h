/* Models as operations, and the loop around them.  One file a part: decoder.c, encoder.c, train.c ... */
#ifndef PLAN_BUILD_H
#define PLAN_BUILD_H

#include "ops.h"

struct builder {
	struct tape t;
	const struct model *m;
	const struct plan_recipe *r;
	struct plan *plan;
	uint32_t *module_of
		[MODEL_TOWERS]; /* [(block + 1) * MODEL_ROLES + role]: module + 1, 0: none */
	size_t module_room[MODEL_TOWERS];
	uint32_t *lora;            /* of each module: parameter A + 1; B follows.  0: none */
	enum tape_dtype weights;   /* of the model */
	enum tape_dtype compute;   /* that sharded weights are gathered in */
	struct parallel *parallel; /* NULL: one process alone */
	/* of the forward pass that runs */
	uint64_t batch, sequence;
	struct value cos, sin;
	struct value mask; /* [batch, 1, queries, keys] */
	struct value bias[MODEL_TOWERS], cross_bias,
		encoded;     /* T5's: added to scores; the encoder's states */
	bool generating;     /* generate(): of the logits only the last token's are wanted */
	bool decoding;       /* ... and this is not its first pass */
	struct value *cache; /* then keys and values of each block, or NULL: none are kept */
	uint64_t cached;     /* tokens that are in it */
	/*
	 * enable_input_require_grads(): embeddings that are leaves and get a gradient.  The graph of the last loss
	 * holds both until the next loss takes its name, so there are two; `leaf` is the one of this pass.
	 */
	uint32_t leaves[2];
	unsigned leaf;
	struct value seen_cos, seen_sin; /* of patches */
	struct value pixels;             /* of the batch's images; the loop's */
	enum model_tower tower;          /* whose blocks are run */
	tape_again_fn *blocks[MODEL_TOWERS];
	uint32_t
		unquantized; /* store of the weight that is being quantized while the model is loaded */
	struct value targets; /* the labels that a loss in parts compares with */
};

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

/*
 * _scaled_dot_product_attention_math, which is left where no fused kernel takes the inputs: fp32 with shared keys, a bias
 * that takes a gradient.  `bias` is added to the scores, or there is none.
 */
struct value build_unfused(struct builder *b, struct value q, struct value k, struct value v,
			   const struct attention *a, struct value bias);

/* The experts of a block (Mixtral, Qwen MoE) on what the norm before them gives. */
struct value build_experts(struct builder *b, uint32_t block, struct value x);

/* The blocks of a tower one after the other, checkpointed as the recipe says; takes x. */
struct value build_blocks(struct builder *b, enum model_tower tower, tape_again_fn *block,
			  struct value x);

struct value build_t5(struct builder *b, struct value ids, struct value labels,
		      struct value *logits);

/* Does build_decoder run it? */
bool build_is_decoder(const struct model *m);

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
enum plim_status build_check_quantized(const struct builder *b, struct plim_err *err);
void build_before_quantized(struct builder *b, const struct model_tensor *next);
void build_prepare_quantized(struct builder *b);

/* What a language model sees among its words: takes them, gives words and merged patches. */
struct value build_seen(struct builder *b, struct value words);

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

/* Several processes (parallel.c): made ready, and what each pass does for it.  Units are blocks of the text tower. */
void build_wrap(struct builder *b);
int build_is_sharded(const struct builder *b);
struct value build_unit_begin(struct builder *b, uint32_t unit, struct value x);
struct value build_unit_end(struct builder *b, uint32_t unit, struct value x);
void build_before_forward(struct builder *b);
void build_before_backward(struct builder *b);
void build_after_backward(struct builder *b);
void build_end_parallel(struct builder *b);

/* Training, or what the task is, phase by phase. */
void build_run(struct builder *b);
/* What the optimizer keeps in the machine's own memory. */
uint64_t build_host_bytes(const struct builder *b);
#define PLAN_NO_NUMBER UINT32_MAX
/* A phase ends. */
void build_phase(struct builder *b, const char *name, unsigned number);

#endif
