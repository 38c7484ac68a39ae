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
enum {
	IF_TRUE = 1 << 0, /* where 0 stands for never: of biases and ties */
	/* numbers of the tower */
	IF_TIED = 1 << 1,
	IF_QKV_BIAS = 1 << 2,
	IF_OUTPUT_BIAS = 1 << 3,
	IF_MLP_BIAS = 1 << 4,
	IF_HEAD_BIAS = 1 << 5,
	IF_QK_NORM = 1 << 6,
	IF_BEFORE = 1 << 7, /* MODEL_NORM_BEFORE */
	IF_AROUND = 1 << 8, /* MODEL_NORM_AROUND */
	IF_GATED = 1 << 9,
	IF_PLAIN = 1 << 10, /* not gated */
	IF_CROSS = 1 << 11, /* attends to an encoder */
	IF_ALONE = 1 << 12, /* does not */
	IF_EMBED_SCALE = 1 << 13,
	IF_ONE_ROPE = 1 << 14,
	IF_SLIDING_ROPE = 1 << 15, /* has a RoPE of its own for blocks that slide */
	IF_FULL_ROPE = 1 << 16,    /* and for those that do not */
	IF_SHARED = 1 << 17,       /* an expert that all tokens take */
	IF_POOL_HEAD = 1 << 18,    /* pools by attention */
	/* the block */
	IF_FIRST = 1 << 19,
	IF_ROUTED = 1 << 20,      /* has experts, the router comes first */
	IF_ROUTED_LAST = 1 << 21, /* has experts, the router comes last */
	IF_SPARSE = 1 << 22,      /* either */
	IF_DENSE = 1 << 23,       /* neither */
	/* the head */
	IF_LM = 1 << 24, /* over the vocabulary */
	IF_CLASS = 1 << 25,
	IF_TOKEN_CLASS = 1 << 26,
	IF_ANSWER = 1 << 27, /* where a text answers a question */
	IF_POOLER = 1 << 28,
	IF_PAIR = 1 << 29,     /* an image and a text are compared */
	IF_PROJECTED = 1 << 30 /* into the space where they are compared */
};
/* of latent attention: queries go through a rank, or do not */
#define IF_QUERY_RANK ((uint64_t)1 << 31)
#define IF_QUERY ((uint64_t)1 << 32)
/* more numbers of the tower */
#define IF_NARROW ((uint64_t)1 << 33) /* embeddings of another width */
#define IF_PARALLEL ((uint64_t)1 << 34)
#define IF_SERIAL ((uint64_t)1 << 35)
#define IF_TWO_NORMS ((uint64_t)1 << 36) /* Falcon's later layout, a norm for each half */
#define IF_ONE_NORM ((uint64_t)1 << 37)
#define IF_TYPES ((uint64_t)1 << 38)
#define IF_POSITION_INPUT ((uint64_t)1 << 39)
#define IF_RELATIVE ((uint64_t)1 << 40)
#define IF_NORM_BIAS ((uint64_t)1 << 41)
#define IF_CONV_BIAS ((uint64_t)1 << 42)
#define IF_STATE_BIAS ((uint64_t)1 << 43)
#define IF_ROPE ((uint64_t)1 << 44) /* not alibi */
#define IF_UNTIED ((uint64_t)1 << 49)
#define IF_LATENT ((uint64_t)1 << 50) /* experts see another width than the rest */
/* of the block */
#define IF_LATER ((uint64_t)1 << 45) /* not the first */
#define IF_ATTENDS ((uint64_t)1 << 46)
#define IF_MIXES ((uint64_t)1 << 47)    /* a state space or linear attention in its place */
#define IF_MLP_ONLY ((uint64_t)1 << 48) /* neither */
#define IF_SLIDES ((uint64_t)1 << 51)
#define IF_SEES_ALL ((uint64_t)1 << 52)
#define IF_INDEXED ((uint64_t)1 << 53)
#define IF_COMPRESSED ((uint64_t)1 << 54)
#define IF_OWN_KEYS ((uint64_t)1 << 55)
#define IF_OWN_VALUES ((uint64_t)1 << 56)
#define IF_HASHED ((uint64_t)1 << 57) /* experts are chosen by the token */
#define IF_SCORED ((uint64_t)1 << 58) /* by scores */
#define IF_FEEDS ((uint64_t)1 << 59)  /* has an MLP */
/* numbers of the tower again */
#define IF_LAYER_INPUT ((uint64_t)1 << 60)

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
	KEY_KINDS,  /* of blocks, a list or a letter each; beside layer_types, which all have */
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
	/* what its forward pass does that src/plan does not: no verdict; or how far the nearest family's may be off */
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
extern const struct model_family model_family_decoder;

/* Parts that families of other files have, too. */
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

/* How tables are written. */
#define ROWS_END                                \
	{                                       \
		NULL, 0, 0, NULL, 0, 0, 0, NULL \
	}
#define SECTIONS_END             \
	{                        \
		NULL, NULL, 0, 0 \
	}
#define HEADS_END                \
	{                        \
		NULL, 0, 0, NULL \
	}
#define KEYS_END           \
	{                  \
		NULL, 0, 0 \
	}
/* What decoders of today share. */
#define DECODER(norm_, place_, activation_)                                            \
	.norm = norm_, .norm_place = place_, .activation = activation_, .gated = true, \
	.causal = true, .labels = 2
#define KEY(name, member, type)                                    \
	{                                                          \
		name, offsetof(struct model_numbers, member), type \
	}
#define SIZE(name, member) KEY(name, member, KEY_SIZE)
#define RATE(name, member) KEY(name, member, KEY_RATE)
#define SWITCH(name, member) KEY(name, member, KEY_SWITCH)
#define IGNORED(name) KEY(name, layers, KEY_IGNORED)
#define ACTIVATION(name) KEY(name, activation, KEY_ACTIVATION)

/* config.c: what follows from other numbers where nothing says it; `path` for messages. */
enum plim_status model_derive(struct model_numbers *n, const char *path, struct plim_err *err);

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
