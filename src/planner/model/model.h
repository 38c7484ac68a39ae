/*
 * A model as its tensors: what a config.json of Hugging Face, the header of safetensors files, or numbers by hand
 * say, as modules that hold named parameters and buffers of exact shapes, in the order of PyTorch's nn.Module.
 *
 * Families are tables (data/models/): a new architecture is rows there, and no code.  Nothing here knows of a
 * recipe: a tensor without a dtype of its own takes the one that the recipe gives the model's weights.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "base/base.h"
#include "checkpoint/checkpoint.h"

#define MODEL_NONE UINT32_MAX
#define MODEL_RANK 5        /* dimensions that a parameter has, at most: a 3-D convolution */
#define MODEL_BLOCKS 10000u /* of a stack, at most */
#define MODEL_TENSORS ((size_t)2000000) /* at most */
#define MODEL_SIZE ((uint64_t)1 << 40)  /* no dimension is larger */
#define MODEL_NAME_BYTES 200            /* a tensor's name with its NUL, at most */

/* Towers of blocks.  A model has some of them; those it has not have 0 layers. */
enum model_tower {
	MODEL_TEXT,    /* the decoder of a language model, the encoder of BERT, CLIP's text side */
	MODEL_VISION,  /* ViT, and the vision side of CLIP and of models that see */
	MODEL_ENCODER, /* T5's encoder; its decoder is MODEL_TEXT */
	MODEL_TOWERS
};

enum model_norm {
	MODEL_LAYER_NORM,
	MODEL_RMS_NORM, /* Llama's, in Python: x in fp32, scaled, cast back, times the weight */
	MODEL_RMS_NORM_WIDE, /* the same, but times the weight in fp32 and then cast back */
	MODEL_RMS_NORM_GEMMA /* times (1 + weight) in fp32, cast at the end */
};

enum model_norm_place {
	MODEL_NORM_BEFORE, /* each half of a block normalises its input */
	MODEL_NORM_AFTER,  /* each half normalises the sum with its input: BERT */
	MODEL_NORM_AROUND /* both, and the output is normalised before it is added: Gemma 2 and 3 */
};

enum model_activation {
	MODEL_SILU,
	MODEL_GELU,       /* one kernel, exact */
	MODEL_GELU_TANH,  /* one kernel, with tanh: gelu_pytorch_tanh */
	MODEL_GELU_NEW,   /* the same written out in Python: eight kernels */
	MODEL_QUICK_GELU, /* x * sigmoid(1.702 x) */
	MODEL_RELU,
	MODEL_RELU2, /* its square */
	MODEL_ACTIVATION_OTHER
};

enum model_position {
	MODEL_POSITION_NONE,
	MODEL_POSITION_LEARNED,
	MODEL_POSITION_ROPE,
	MODEL_POSITION_MROPE,   /* three axes: Qwen-VL */
	MODEL_POSITION_ROPE_2D, /* vision towers of Qwen-VL */
	MODEL_POSITION_BIAS     /* T5's relative bias, added to the scores */
};

/* What runs a family's blocks (src/planner/plan/step/forward.c). */
enum model_forward {
	MODEL_AS_DECODER,
	MODEL_AS_ENCODER, /* BERT */
	MODEL_AS_STACKS,  /* an encoder and a decoder: T5 */
	MODEL_AS_IMAGE,   /* ViT */
	MODEL_AS_PAIR,    /* CLIP */
	MODEL_AS_READ,    /* its side of texts alone */
	MODEL_AS_LOOK,    /* and of images */
	MODEL_FORWARDS
};

/* What blocks of a tower may have of their own; 0: as the tower has. */
struct model_sizes {
	uint64_t heads, kv_heads, head_dim, value_dim, intermediate;
	bool attends, feeds; /* of a list by block: it has such a half at all */
};

/* The numbers of a tower.  Sizes in elements; 0: has none. */
struct model_numbers {
	uint64_t layers, hidden, heads, kv_heads, head_dim, intermediate;
	uint64_t vocab;        /* rows of the embedding */
	uint64_t positions;    /* learned positions, or what it was made for */
	uint64_t types;        /* token types */
	uint64_t labels;       /* outputs of a classifier */
	uint64_t projection;   /* width that it is projected to at its end */
	uint64_t window;       /* sliding attention sees that many tokens; 0: all */
	uint64_t window_from;  /* blocks before that see all */
	uint64_t window_every; /* of so many layers the last one sees all; 0: none does */
	uint64_t buckets;      /* of relative positions */

	uint64_t experts, experts_per_token;
	uint64_t expert_intermediate;
	uint64_t expert_hidden; /* width that experts see, if it is not that of all; 0: it is */
	uint64_t shared_intermediate; /* of the expert that all tokens take */
	uint64_t sparse_step;         /* every so many layers one has experts */
	uint64_t shared_experts;      /* such experts, each as wide as the others; 0: see above */
	uint64_t first_dense;         /* so many blocks at the beginning have no experts */
	uint64_t block_groups; /* so many blocks have weights; others share them: ALBERT; 0: all */
	uint64_t further;      /* blocks that predict further tokens, which do not run */
	uint64_t sparse_end;   /* nor those behind this one; 0: all have */
	uint64_t sparse_at;    /* of sparse_step, which one, from 1; 0: the last */
	uint64_t attend_every,
		attend_at; /* of so many blocks that one attends, from 0; 0: all, or none that mixes */

	struct model_sizes sliding, whole; /* of blocks that see a window, and that see all */
	uint64_t
		shared_kv; /* so many blocks at the end take keys and values of earlier ones: Gemma 4 */
	uint64_t layer_vocab, layer_input; /* embeddings that each block has of its own */
	uint64_t streams;          /* residual ones, mixed by hyper-connections: DeepSeek V4 */
	uint64_t o_rank, o_groups; /* its output, projected by groups of heads through a rank */
	uint64_t hash_blocks;      /* so many blocks at the beginning choose experts by the token */
	uint64_t index_every, index_from; /* which blocks have an index of their own; 0: all */

	/* latent attention (DeepSeek's): ranks of queries (0: none) and of keys and values, parts of a head */
	uint64_t q_rank, kv_rank, nope_dim, rope_dim, value_dim;

	/* next to those of attention: state spaces, linear attention, an index of keys */
	uint64_t state, conv, dt_rank, groups, state_heads, state_dim, expand;
	uint64_t key_heads, key_dim, value_heads; /* of linear attention; value_dim is above */
	uint64_t index_heads, index_dim;

	/* before that release of Transformers (448: 4.48) its class gives the loss logits in their own dtype */
	uint64_t narrow_loss_before;
	/* before that release it keeps keys and values of a pass (use_cache) though its blocks are checkpointed */
	uint64_t keeps_keys_before;

	uint64_t channels, image_size, patch, temporal_patch;
	uint64_t merge;         /* side of the square of patches that becomes one token */
	uint64_t patches;       /* of an image of image_size; 0: any image */
	uint64_t multiple;      /* that the MLP's width is rounded up to: Meta's own files */
	uint64_t rows, columns; /* of learned positions in a grid */
	uint64_t image_tokens;  /* that an image becomes where patches are averaged: Gemma 3 */
	uint64_t deepstack;     /* layers whose output goes into the language model as well */

	double attention_dropout, hidden_dropout, embedding_dropout;
	double logit_softcap, attention_softcap; /* 0: none */
	double mlp_ratio;      /* intermediate = hidden * mlp_ratio; 0: not given so */
	double partial_rotary; /* share of head_dim that RoPE turns; 0 counts as 1 */

	enum model_norm norm;
	enum model_norm_place norm_place;
	enum model_activation activation;
	enum model_position position;
	bool gated; /* act(gate(x)) * up(x) */
	bool causal;
	bool cross_attention;
	bool qkv_bias, output_bias, mlp_bias, qk_norm;
	bool use_window;  /* else `window` counts for nothing */
	bool tied;        /* the head is the embedding */
	bool router_loss; /* router logits are kept for a loss of their own */
	bool embed_scale; /* embeddings are multiplied: Gemma */
	bool head_bias;
	bool two_ropes;       /* one for blocks that slide, one for those that see all: Gemma 3 */
	bool router_last;     /* in the order of modules */
	bool wide_scores;     /* of the router: fp32, whatever its logits are: Mixtral */
	bool pool_head;       /* pools patches by attention: SigLIP */
	bool head_norm;       /* queries and keys are normalised across all heads: OLMo 2 */
	bool parallel;        /* attention and MLP read the same, and are added at once */
	bool multi_query;     /* one head of keys and values, whatever the file says of heads */
	bool new_decoder;     /* Falcon's later layout */
	bool keys_are_values; /* in blocks that see all: Gemma 4 */
	bool wide_sharers;    /* blocks that share keys have an MLP of twice the width */
	bool experts_off;     /* though their number stands in the file */
	bool expert_banks;    /* one parameter for all of a block, before Transformers 5, too */
	bool keeps_keys;      /* of gpt_bigcode: keys are kept though blocks are checkpointed */
	bool indexes_named;   /* only blocks whose kind says so have an index: MiniMax M3 */
	bool one_norm;        /* ... with one norm for both halves of a block */
	bool mixes; /* blocks have a state space in attention's place, where nothing says otherwise */
	bool ignored_switch; /* of keys that change nothing, on or off */
	bool broadcasts_keys; /* one head of keys goes to scaled_dot_product_attention as it is, which no kernel takes: Falcon */
	bool norm_bias, conv_bias, state_bias;
	bool position_input,
		relative; /* DeBERTa: positions are added to words; keys and queries by distance */
	bool counts_positions; /* from the first token that is not padding: RoBERTa */
	bool alibi;            /* distances are added to the scores, in place of positions */
	bool use_cache; /* each pass keeps keys and values; read only where Trainer does not set it */
};

enum model_kind {
	MODEL_LINEAR,     /* weight [out, in] */
	MODEL_CONV1D,     /* GPT-2's linear: weight [in, out] */
	MODEL_EMBEDDING,  /* weight [rows, width] */
	MODEL_NORM_RMS,   /* weight [width] */
	MODEL_NORM_LAYER, /* weight, bias [width] */
	MODEL_CONV,       /* weight [out, in, ...] */
	MODEL_EXPERTS,    /* a parameter [experts, out, in] */
	MODEL_PARAMETER,  /* a parameter of its own */
	MODEL_BUFFER,     /* a buffer */
	MODEL_FREQUENCIES, /* RoPE's: a buffer of fp32 where the model was made in its dtype, not converted */
	MODEL_KINDS
};

/* What a module is for; a block has each at most once. */
enum model_role {
	MODEL_ROLE_OTHER,
	MODEL_ROLE_EMBED,
	MODEL_ROLE_POSITIONS,
	MODEL_ROLE_POSITION_IDS, /* a buffer of 0, 1, 2, ... */
	MODEL_ROLE_TYPES,
	MODEL_ROLE_EMBED_PROJECT, /* from the embeddings' width to the blocks' */
	MODEL_ROLE_EMBED_NORM,
	MODEL_ROLE_PATCH,
	MODEL_ROLE_CLASS_TOKEN,
	MODEL_ROLE_NORM1, /* before attention, or after it where norms come after */
	MODEL_ROLE_NORM2, /* before the MLP, or after it */
	MODEL_ROLE_NORM1_OUT,
	MODEL_ROLE_NORM2_OUT, /* Gemma 2 and 3: of what is added */
	MODEL_ROLE_QKV,
	MODEL_ROLE_Q,
	MODEL_ROLE_K,
	MODEL_ROLE_V,
	MODEL_ROLE_O,
	MODEL_ROLE_Q_A, /* latent attention: down to a rank, its norm, and up again */
	MODEL_ROLE_Q_A_NORM,
	MODEL_ROLE_KV_A,
	MODEL_ROLE_KV_A_NORM,
	MODEL_ROLE_KV_B,
	MODEL_ROLE_Q_NORM,
	MODEL_ROLE_K_NORM,
	MODEL_ROLE_CROSS_NORM,
	MODEL_ROLE_CROSS_Q,
	MODEL_ROLE_CROSS_K,
	MODEL_ROLE_CROSS_V,
	MODEL_ROLE_CROSS_O,
	MODEL_ROLE_BIAS, /* relative positions */
	MODEL_ROLE_GATE_UP,
	MODEL_ROLE_GATE,
	MODEL_ROLE_UP,
	MODEL_ROLE_DOWN, /* UP alone: the first of two */
	MODEL_ROLE_ROUTER,
	MODEL_ROLE_EXPERTS_UP,
	MODEL_ROLE_EXPERTS_DOWN,
	MODEL_ROLE_SHARED_GATE,
	MODEL_ROLE_SHARED_UP,
	MODEL_ROLE_SHARED_DOWN,
	MODEL_ROLE_SHARED_ROUTER,
	MODEL_ROLE_FINAL_NORM,
	MODEL_ROLE_ROPE,
	MODEL_ROLE_MERGE_NORM,
	MODEL_ROLE_MERGE1,
	MODEL_ROLE_MERGE2,
	MODEL_ROLE_POOLER,
	MODEL_ROLE_POOL_IN,
	MODEL_ROLE_POOL_BIAS, /* SigLIP: projections of its pooling attention */
	MODEL_ROLE_POOL_PROBE,
	MODEL_ROLE_POOL_OUT,
	MODEL_ROLE_POOL_NORM,
	MODEL_ROLE_POOL_UP,
	MODEL_ROLE_POOL_DOWN,
	MODEL_ROLE_PROJECTION,
	MODEL_ROLE_HEAD_DENSE,
	MODEL_ROLE_HEAD_NORM,
	MODEL_ROLE_HEAD,
	MODEL_ROLE_HEAD_BIAS, /* where it is a parameter of its own */
	MODEL_ROLES
};

enum model_part {
	MODEL_WEIGHT,
	MODEL_BIAS,
	MODEL_WHOLE, /* the module is the tensor: a parameter or a buffer */
	MODEL_LORA_A,
	MODEL_LORA_B,
	MODEL_LORA_EMBEDDING_A,
	MODEL_LORA_EMBEDDING_B,
	MODEL_LORA_MAGNITUDE, /* DoRA */
	MODEL_WEIGHT_COPY,    /* of modules_to_save: the one that trains */
	MODEL_BIAS_COPY,
	MODEL_QUANT_STATE /* scales of a quantized weight: on the GPU, but neither parameter nor buffer */
};

enum model_tensor_flags {
	MODEL_IS_BUFFER = 1,
	MODEL_IS_FROZEN = 2, /* takes no gradient */
	MODEL_IS_STATE = 4   /* a MODEL_QUANT_STATE */
};

struct model_tensor {
	uint64_t dims[MODEL_RANK];
	uint64_t count;                 /* elements */
	const struct ckpt_dtype *dtype; /* NULL: the dtype of the model's weights */
	uint32_t module;
	uint32_t tied_to; /* the tensor whose storage this is, or MODEL_NONE */
	uint8_t rank;
	uint8_t part;  /* enum model_part */
	uint8_t flags; /* enum model_tensor_flags */
};

struct model_module {
	const char *prefix,
		*name;       /* model_name() puts them together; a %u in the prefix is the block */
	uint32_t block;      /* within the tower, or MODEL_NONE */
	uint32_t tensors, n; /* m->tensors.at[tensors ... + n) */
	uint8_t tower;       /* enum model_tower */
	uint8_t kind;        /* enum model_kind */
	uint8_t role;        /* enum model_role */
	uint64_t in, out;    /* LINEAR, CONV1D, EXPERTS: features */
};

struct model_totals {
	uint64_t parameters, trainable; /* elements, tied ones once */
	uint64_t parameter_bytes, trainable_bytes, buffer_bytes;
	uint64_t state_bytes;      /* of quantized weights, next to them */
	uint64_t largest_elements; /* of one parameter */
};

/* How far the plan of a family may be off that is planned as another one is. */
struct model_inexact {
	const char *reason;    /* static storage; NULL: it is not */
	unsigned below, above; /* thousandths */
};

/* What the loss of a class is a mean of, which decides what a batch in parts comes to. */
enum model_loss {
	MODEL_LOSS_OF_ALL_TOKENS, /* of a whole step, which the Trainer counts (num_items_in_batch); or there is none */
	MODEL_LOSS_OF_SAMPLES, /* of a micro-batch, a label each; the count is dropped */
	MODEL_LOSS_OF_TOKENS, /* of those of a micro-batch that have a label; the count is dropped */
	MODEL_LOSS_OF_PAIRS   /* samples of a micro-batch are compared with each other */
};

struct model {
	struct mem *mem;
	const char *family;   /* static storage: "llama", "safetensors", "transformer" */
	const char *adapters; /* static storage: the modules that PEFT adapts by default */
	char declared[64];    /* model_type as the file says it, "" without */
	bool guessed;         /* the family is not known: it was read as though it were `family` */
	enum model_loss loss;
	bool from_header; /* ... off the shapes of its tensors, which its parameters are */
	bool encoder_decoder;
	const char *strip; /* no prefix begins with it, though the family's do; NULL: nothing */
	const struct ckpt_dtype *dtype; /* of the file; NULL: it does not say */
	char release[32];               /* transformers_version in the file, "" without */
	char quantizer[32];             /* quant_method in the file, "" without */
	char unmet
		[MODEL_NAME_BYTES]; /* a rule of quantization_config that names no module here; "": none */
	unsigned
		quantized; /* 1 + enum model_quantization, as the file says; 0: it is not, or in another way */
	/* the dtype of weights that the file holds quantized by another method; name NULL: none is */
	struct ckpt_dtype stored, stored_other; /* the second: of what is kept in another way */
	bool from_gguf;                         /* read from llama.cpp's file */
	bool counted; /* nothing is known of it but how many parameters it has */
	enum model_forward forward;
	bool eager_only; /* its class has no other attention, but perhaps flash-attn's */
	const char *
		unplanned; /* static storage: what of its forward pass src/planner/plan does not do; NULL: nothing */
	struct model_inexact inexact;
	double least_share; /* the file names no class: what the family's smallest has of the parameters; 0: all */
	bool other_class; /* `architectures` names a class that the family does not have */
	VEC(uint32_t)
	unread; /* in strings: keys of the file that may change memory and were not read */
	struct model_numbers towers[MODEL_TOWERS];
	VEC(bool) dense_blocks; /* of the text tower, by block: has no experts though others have */
	VEC(uint8_t)
	kinds; /* enum model_block, of the text tower, by block; empty: the numbers tell */
	VEC(struct model_sizes) sizes; /* of the text tower, by block; empty: all are alike */
	VEC(bool)
	full_blocks; /* of the text tower, by block: sees all; empty: window_every shows */
	/* of the vision tower, by block; empty: window_every, or every eighth block, shows */
	VEC(bool) whole_blocks;           /* sees whole images though others see windows */
	VEC(bool) deep_blocks;            /* its output goes into the language model as well */
	VEC(struct model_module) modules; /* in the order of nn.Module.modules() */
	VEC(struct model_tensor) tensors; /* module by module */
	struct intern strings;            /* names out of a file */
};

/* Always ended with model_release. */
void model_init(struct model *m, struct mem *mem);
void model_release(struct model *m);

/*
 * Read a config.json, a safetensors file, or a folder of either.  Errors: PLIM_E_FORMAT, it is none, or is at odds
 * with itself; PLIM_E_LIMIT, sizes that no model has; those of reading.
 */
enum plim_status model_load(struct model *m, const char *path, struct plim_err *err);

/*
 * "org/name", as models are called on the Hugging Face hub, and no file is; where its library keeps what it has fetched, and
 * the config.json of that model there (false: it was not fetched).  Nothing is fetched here.
 */
bool model_is_hub_name(const char *path);
void model_hub_folder(char *out, size_t room);
bool model_find_in_hub(const char *name, char *out, size_t room);

/* A config.json that is in memory; `name` stands for the path in messages. */
enum plim_status model_read_config(struct model *m, const char *name, const void *bytes, size_t n,
				   struct plim_err *err);

/* The vision tower does not train; nor, with `projector`, what merges its patches into tokens. */
void model_freeze_vision(struct model *m, bool projector);

/* Adapters as PEFT makes them. */
struct model_lora {
	uint64_t rank;
	const char *
		targets; /* names of modules, "q_proj,mlp.*", "all-linear"; NULL: PEFT's own choice */
	const char *save; /* names of modules that train as a whole, as a copy; NULL: none */
	bool dora;        /* with a vector of magnitudes each */
	const struct ckpt_dtype
		*dtype; /* of adapters and copies of weights of 16 bits: PEFT's is float32 */
};

/*
 * Freeze the model and add adapters.  A target is the end of a module's name, or with a * in it a pattern of the whole.
 * PLIM_E_ARG: rank 0 or too large, or no module is called so.
 */
enum plim_status model_add_lora(struct model *m, const struct model_lora *lora,
				struct plim_err *err);

enum model_quantization {
	MODEL_NF4,        /* bitsandbytes: blocks of 64 with a scale each; fp4 is as large */
	MODEL_NF4_DOUBLE, /* the scales quantized as well */
	MODEL_INT8,       /* a scale a row */
	MODEL_QUANTIZATIONS
};

/* A second model of the same tensors; its names are the first one's, which must outlive it. */
enum plim_status model_copy(struct model *to, const struct model *from, struct plim_err *err);

/*
 * Weights of linear layers as bitsandbytes keeps them.  What is not always one of them: experts, of which a module then
 * holds one matrix after the other, and the head.  Before model_add_lora.
 */
enum { MODEL_QUANTIZE_EXPERTS = 1, MODEL_QUANTIZE_HEAD = 2 };
enum plim_status model_quantize(struct model *m, enum model_quantization how, unsigned also,
				struct plim_err *err);

/* One layer makes queries, keys and values: "qkv_proj".  Not where these have norms.  Before model_quantize. */
enum plim_status model_join(struct model *m, struct plim_err *err);

/* Of models by numbers that do not say theirs. */
#define MODEL_USUAL_VOCAB 32000

/* A decoder built like Llama of these sizes; layers, hidden and heads must be given, what is 0 is derived. */
enum plim_status model_by_numbers(struct model *m, const struct model_numbers *numbers,
				  struct plim_err *err);

/* One of that many parameters, which models of this size usually spread so; `vocab` 0: the usual.  PLIM_E_ARG: too few. */
enum plim_status model_by_count(struct model *m, uint64_t parameters, uint64_t vocab,
				struct plim_err *err);

/* "model.layers.3.self_attn.q_proj.weight" into out, always terminated; gives out. */
const char *model_module_name(const struct model *m, const struct model_module *module,
			      char out[MODEL_NAME_BYTES]);
const char *model_name(const struct model *m, const struct model_tensor *t,
		       char out[MODEL_NAME_BYTES]);

/* The module of that role, block MODEL_NONE: outside of blocks.  NULL: there is none. */
const struct model_module *model_module_at(const struct model *m, enum model_tower tower,
					   uint32_t block, enum model_role role);

/* What a block does between its norms. */
enum model_block {
	MODEL_BLOCK_ATTENDS,    /* and then an MLP */
	MODEL_BLOCK_INDEXED,    /* so, to keys that an index of its own picks */
	MODEL_BLOCK_COMPRESSED, /* so, to keys that stand for many tokens */
	MODEL_BLOCK_MIXES,      /* a state space or linear attention in its place */
	MODEL_BLOCK_MLP,        /* nothing but that */
	MODEL_BLOCK_EXPERTS
};
enum model_block model_block_kind(const struct model *m, uint32_t block);

/* Has the block experts?  Does its attention see all tokens, or those in the window? */
bool model_is_sparse(const struct model *m, enum model_tower tower, uint32_t block);
bool model_sees_all(const struct model *m, enum model_tower tower, uint32_t block);
/* Of a block, none left out; MODEL_NONE: of the tower. */
struct model_sizes model_sizes_of(const struct model *m, enum model_tower tower, uint32_t block);
/* Does the block take keys and values of an earlier one? */
bool model_shares_keys(const struct model *m, uint32_t block);
bool model_has_windows(const struct model *m, enum model_tower tower);
/* Does the output of this block of the vision tower go into the language model? */
bool model_goes_deep(const struct model *m, uint32_t block);

/* Its dtype when the weights have `weights`: whole numbers, and what is quantized, keep their own. */
const struct ckpt_dtype *model_dtype(const struct model_tensor *t,
				     const struct ckpt_dtype *weights);
/* Of so many numbers that are kept in blocks; of a block that is not full its share. */
uint64_t model_block_bytes(const struct ckpt_dtype *dtype, uint64_t count);
uint64_t model_tensor_bytes(const struct model_tensor *t, const struct ckpt_dtype *weights);

void model_get_totals(const struct model *m, const struct ckpt_dtype *weights,
		      struct model_totals *out);

#endif
