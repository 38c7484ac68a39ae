/*
 * What a family's tables are made of.
 *
 * A shape is a word a dimension; a word is a product of digits and letters, and perhaps + a number: "3H H", "P+1 H".
 *
 *	V vocab  H hidden  F intermediate  L labels  P positions  Y types  J projection
 *	A heads  G kv_heads  D head_dim  Q heads * head_dim  K kv_heads * head_dim  W Q + 2K  B buckets  R frequencies of RoPE
 *	E experts  M expert_intermediate  X expert_hidden  S shared_intermediate
 *	q q_rank  r kv_rank  l kv_rank + rope_dim  x heads * (nope_dim + rope_dim)
 *	y heads * (nope_dim + value_dim)  z heads * value_dim
 *	s state  c conv  d dt_rank  i expand * hidden  u dt_rank + 2 * state  h state_heads
 *	k key_heads * key_dim  v value_heads * value_dim  a 2k + v  b 2k + 2v  e value_heads  f value_dim
 *	n index_dim  o index_heads * index_dim  g index_heads  j i + 2 * groups * state  w i + j + h
 *	% layers * layer_input  ~ layer_vocab  U layer_input  ^ rows  _ columns
 *	$ experts_per_token  # streams  @ streams * (streams + 2)  O o_rank * o_groups  Z heads * head_dim / o_groups
 *	C channels  p patch  t temporal_patch  N patches  m merge * merge  T hidden of the text tower
 *
 * A row stands for a module.  It is there where all its conditions hold; so its bias.
 */
#ifndef MODEL_TABLES_H
#define MODEL_TABLES_H

#include "model.h"

/* Conditions.  Some a tower's numbers decide, some the head that `architectures` names, some the block. */
enum model_if {
	MODEL_IF_TRUE, /* where 0 stands for never: of biases and ties */
	/* numbers of the tower */
	MODEL_IF_TIED,
	MODEL_IF_QKV_BIAS,
	MODEL_IF_OUTPUT_BIAS,
	MODEL_IF_MLP_BIAS,
	MODEL_IF_HEAD_BIAS,
	MODEL_IF_QK_NORM,
	MODEL_IF_BEFORE, /* MODEL_NORM_BEFORE */
	MODEL_IF_AROUND, /* MODEL_NORM_AROUND */
	MODEL_IF_GATED,
	MODEL_IF_PLAIN, /* not gated */
	MODEL_IF_CROSS, /* attends to an encoder */
	MODEL_IF_ALONE, /* does not */
	MODEL_IF_EMBED_SCALE,
	MODEL_IF_ONE_ROPE,
	MODEL_IF_SLIDING_ROPE, /* has a RoPE of its own for blocks that slide */
	MODEL_IF_FULL_ROPE,    /* and for those that do not */
	MODEL_IF_SHARED,       /* an expert that all tokens take */
	MODEL_IF_POOL_HEAD,    /* pools by attention */
	/* the block */
	MODEL_IF_FIRST,
	MODEL_IF_ROUTED,      /* has experts, the router comes first */
	MODEL_IF_ROUTED_LAST, /* has experts, the router comes last */
	MODEL_IF_SPARSE,      /* either */
	MODEL_IF_DENSE,       /* neither */
	/* the head */
	MODEL_IF_LM, /* over the vocabulary */
	MODEL_IF_CLASS,
	MODEL_IF_TOKEN_CLASS,
	MODEL_IF_ANSWER, /* where a text answers a question */
	MODEL_IF_POOLER,
	MODEL_IF_PAIR,      /* an image and a text are compared */
	MODEL_IF_PROJECTED, /* into the space where they are compared */
	/* of latent attention: queries go through a rank, or do not */
	MODEL_IF_QUERY_RANK,
	MODEL_IF_QUERY,
	/* more numbers of the tower */
	MODEL_IF_NARROW, /* embeddings of another width */
	MODEL_IF_PARALLEL,
	MODEL_IF_SERIAL,
	MODEL_IF_TWO_NORMS, /* Falcon's later layout, a norm for each half */
	MODEL_IF_ONE_NORM,
	MODEL_IF_TYPES,
	MODEL_IF_POSITION_INPUT,
	MODEL_IF_RELATIVE,
	MODEL_IF_NORM_BIAS,
	MODEL_IF_CONV_BIAS,
	MODEL_IF_STATE_BIAS,
	MODEL_IF_ROPE, /* not alibi */
	MODEL_IF_UNTIED,
	MODEL_IF_LATENT, /* experts see another width than the rest */
	/* of the block */
	MODEL_IF_LATER, /* not the first */
	MODEL_IF_ATTENDS,
	MODEL_IF_MIXES,    /* a state space or linear attention in its place */
	MODEL_IF_MLP_ONLY, /* neither */
	MODEL_IF_SLIDES,
	MODEL_IF_SEES_ALL,
	MODEL_IF_INDEXED,
	MODEL_IF_COMPRESSED,
	MODEL_IF_OWN_KEYS,
	MODEL_IF_OWN_VALUES,
	MODEL_IF_HASHED, /* experts are chosen by the token */
	MODEL_IF_SCORED, /* by scores */
	MODEL_IF_FEEDS,  /* has an MLP */
	/* numbers of the tower again */
	MODEL_IF_LAYER_INPUT,
	MODEL_IFS
};
_Static_assert(MODEL_IFS <= 64, "a bit for each condition");
#define IF(condition) (1ULL << MODEL_IF_##condition)

struct model_row {
	const char *name;
	enum model_kind kind;
	enum model_role role;
	const char *shape;
	uint64_t when;
	uint64_t bias;     /* when it has one; 0: never */
	uint64_t tied;     /* when its weight is that of the embedding; 0: never */
	const char *dtype; /* of a buffer; NULL: as the weights */
};

/* Rows that come once, or, where the prefix has a %u, `times`. */
struct model_section {
	const char *prefix;
	const struct model_row *rows; /* ended by a name of NULL */
	enum model_tower tower;
	uint16_t times; /* offset of how often in struct model_numbers; 0: layers */
};

/* Where `architectures` ends so, these conditions hold. */
struct model_head {
	const char *ends;
	uint64_t has;
	unsigned towers;   /* a bit each: only these; 0: all */
	const char *strip; /* what its prefixes lack then; NULL: nothing */
};

/* A key of the file and the member that it fills. */
struct model_key {
	const char *key;
	uint16_t offset; /* in struct model_numbers */
	uint8_t type;    /* enum key_type */
};

enum key_type {
	KEY_SIZE,          /* null: to be derived */
	KEY_SIZE_IF,       /* null or negative: as if it were not there */
	KEY_SECOND,        /* the second of a list */
	KEY_NEXT,          /* counted from 0, where the member counts from 1 */
	KEY_HALVES,        /* of a size that counts both */
	KEY_COUNT,         /* how many a list or an object holds */
	KEY_DENSE_BLOCKS,  /* a list of blocks without experts */
	KEY_SPARSE_BLOCKS, /* of those that have them */
	KEY_SPARSE_FLAGS,  /* a number for each block: 0, it has none */
	KEY_KINDS,  /* of blocks, a list or a letter each; next to layer_types, which all have */
	KEY_OFF,    /* a switch; the member is true where it is false */
	KEY_BLOCKS, /* a list of objects, one a block: DeciLM's block_configs */
	KEY_RATE,
	KEY_SWITCH,
	KEY_IS_ONE,  /* a number; true where it is 1 */
	KEY_IGNORED, /* what the family's class does not use */
	KEY_ACTIVATION,
	KEY_GATED_ACTIVATION /* "gated-gelu": whether the MLP has a gate, too */
};

/* Keys that mean the same wherever they stand; ended by a key of NULL. */
extern const struct model_key model_keys_common[];

struct model_part_of {
	const char *scope; /* of the file: "text_config"; NULL: the outermost */
	const struct model_key
		*keys; /* the family's own; one replaces that of the same name all have */
	const struct model_key
		*outer; /* of the outermost object, though there is a scope; may be NULL */
	struct model_numbers
		defaults; /* of the class, where the file is silent; without layers: no such tower */
	const char *type; /* its model_type, where the class takes any; NULL: it has one */
	bool optional;    /* without an object of that scope there is no such tower */
};

struct model_family {
	const char *name; /* as model_type */
	const char
		*told_by; /* keys that a file without a model_type has all of; NULL: by its name */
	const struct model_section *sections; /* ended by a prefix of NULL */
	const struct model_head
		*heads;       /* the first is taken where the file names none; ended by NULL */
	const char *adapters; /* what PEFT adapts when nothing is said; NULL: "q_proj,v_proj" */
	/* what its forward pass does that src/planner/plan does not: no verdict; or how far the nearest family's may be off */
	const char *unplanned;
	struct model_inexact inexact;
	enum model_forward forward;
	bool eager_only; /* see struct model */
	bool encoder_decoder;
	struct model_part_of towers[MODEL_TOWERS];
};

/* By the file that has them. */
extern const struct model_family model_decoders[], model_later[], model_mixed[], model_like_llama[],
	model_like_gpt[], model_encoders[], model_like_bert[], model_stacks[], model_states[],
	model_vision_language[], model_seeing[], model_reference[];
extern const size_t model_decoder_count, model_later_count, model_mixed_count,
	model_like_llama_count, model_like_gpt_count, model_encoder_count, model_like_bert_count,
	model_stacks_count, model_states_count, model_vision_language_count, model_seeing_count,
	model_reference_count;

/* What a decoder that is not known is read as. */
extern const struct model_family model_family_decoder[];

/* Parts that families of other files have, too. */
extern const struct model_head model_causal_heads[];
extern const struct model_row model_phi3_block[], model_gemma4_block[], model_gemma4_back[];
extern const struct model_row model_mla_block[], model_llama4_block[], model_llama4_back[];
extern const struct model_key model_mla_keys[], model_llama4_keys[];
extern const struct model_row model_minimax_m3_block[], model_step3_block[];
extern const struct model_key model_gemma4_keys[], model_minimax_m3_keys[], model_step3_keys[];
extern const struct model_row model_qwen3_5_block[];
extern const struct model_key model_qwen3_5_keys[];
extern const struct model_row model_llama_front[], model_llama_block[], model_llama_back[];
extern const struct model_row model_lm_head[];
extern const struct model_row model_bert_block[];
extern const struct model_section model_roberta_sections[], model_t5_sections[];
extern const struct model_head model_t5_heads[];
extern const struct model_key model_bert_keys[];
extern const struct model_key model_tied_outside[];

/* build.c: the family's modules for the numbers that stand in m->towers; `has`: conditions of its head. */
enum plim_status model_build(struct model *m, const struct model_family *f, uint64_t has,
			     struct plim_err *err);

/* config.c: what follows from other numbers where nothing says it; `path` for messages. */
enum plim_status model_derive(struct model_numbers *n, const char *path, struct plim_err *err);

struct model_neutral {
	const char *pattern;
};
extern const struct model_neutral model_neutral_keys[];
extern const size_t model_neutral_count;
/* neutral.c: does a key of a config.json change no byte of memory, whatever its value? */
bool model_key_is_neutral(const char *key);

/* A layer by its name in the file, and how it is quantized. */
struct model_stored_rule {
	const char *name, *method;
	bool met; /* a module is named so */
};

/* stored.c: weights as quantization_config says; false: a method whose sizes are not known here. */
struct model_stored {
	const char *method, *format; /* "" where the file does not say */
	uint64_t bits, group;
	struct model_stored_rule *rules; /* where each layer is named; else all are alike */
	size_t rule_count;
	bool symmetric;          /* groups have no zero point */
	const char *experts;     /* the method of experts, where it is another; "" */
	const char *const *left; /* modules that are not quantized, as patterns of the method */
	size_t left_count;
};
bool model_store(struct model *m, const struct model_stored *s);

/* gguf.c: llama.cpp's file, whose header was read; PLIM_E_UNSUPPORTED: an architecture that is not known there. */
enum plim_status model_read_gguf(struct model *m, const struct ckpt *c, const char *path,
				 struct plim_err *err);

/* header.c: a checkpoint that comes without a config. */
enum plim_status model_read_header(struct model *m, const char *path, struct plim_err *err);

/*
 * build.c: make the list of tensors anew, module by module.  What a module held stands in m->tensors.at[tensors ...]
 * already when `change` is called; it may alter that and push behind it.
 */
typedef enum plim_status model_change_fn(struct model *m, struct model_module *module, void *ctx,
					 struct plim_err *err);
enum plim_status model_rebuild(struct model *m, model_change_fn *change, void *ctx,
			       struct plim_err *err);
enum plim_status model_push_tensor(struct model *m, uint32_t module, struct model_tensor t,
				   struct plim_err *err);

#endif
