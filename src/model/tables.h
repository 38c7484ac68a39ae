/*
 * What a family's tables are made of.
 *
 * A shape is a word a dimension; a word is a product of digits and letters, and perhaps + a number: "3H H", "P+1 H".
 *
 *	V vocab  H hidden  F intermediate  L labels  P positions  Y types  J projection
 *	A heads  D head_dim  Q heads * head_dim  K kv_heads * head_dim  B buckets  R frequencies of RoPE
 *	E experts  M expert_intermediate  S shared_intermediate
 *	C channels  p patch  t temporal_patch  N patches  m merge * merge  T hidden of the text tower
 *
 * A row stands for a module.  It is there where all its conditions hold; so its bias.
 */
#ifndef MODEL_TABLES_H
#define MODEL_TABLES_H

#include "model.h"

/* Conditions.  Some a tower's numbers decide, some the head that `architectures` names, some the block. */
enum {
	IF_ALWAYS = 0,
	IF_TIED = 1 << 0,
	IF_QKV_BIAS = 1 << 1,
	IF_OUTPUT_BIAS = 1 << 2,
	IF_MLP_BIAS = 1 << 3,
	IF_QK_NORM = 1 << 4,
	IF_AROUND = 1 << 5, /* MODEL_NORM_AROUND */
	IF_GATED = 1 << 6,
	IF_PLAIN = 1 << 7,   /* not gated */
	IF_SPARSE = 1 << 8,  /* the block has experts */
	IF_DENSE = 1 << 9,   /* it has none */
	IF_FIRST = 1 << 10,  /* the first block */
	IF_SHARED = 1 << 11, /* an expert that all tokens take */
	IF_LM = 1 << 12,     /* a head over the vocabulary */
	IF_CLASS = 1 << 13,  /* a classifier */
	IF_POOLER = 1 << 14,
	IF_NEVER = 1 << 15 /* holds for nothing */
};

struct model_row {
	const char *name;
	enum model_kind kind;
	enum model_role role;
	const char *shape;
	unsigned when;
	unsigned bias;     /* of a LINEAR, CONV1D, CONV: when it has one */
	unsigned tied;     /* when its weight is that of the embedding; 0: never */
	const char *dtype; /* of a buffer; NULL: as the weights */
};

/* Rows that come as often as the tower has blocks where the prefix has a %u, else once. */
struct model_section {
	enum model_tower tower;
	const char *prefix;
	const struct model_row *rows; /* ended by a name of NULL */
};

/* Where `architectures` ends so, these conditions hold. */
struct model_head {
	const char *ends;
	unsigned has;
};

/* A key of the file and the member that it fills. */
struct model_key {
	const char *key;
	uint16_t offset; /* in struct model_numbers */
	uint8_t type;    /* enum key_type */
};

enum key_type {
	KEY_SIZE,
	KEY_RATE,
	KEY_SWITCH,
	KEY_ACTIVATION,
	KEY_GATED_ACTIVATION /* "gated-gelu": whether the MLP has a gate, too */
};

/* Keys that mean the same wherever they stand; ended by a key of NULL. */
extern const struct model_key model_keys_common[];

struct model_part_of {
	const char *scope; /* of the file: "text_config"; NULL: the outermost */
	const struct model_key
		*keys; /* the family's own, behind those that all have; may be NULL */
	struct model_numbers
		defaults; /* of the class, where the file is silent; a layer count of 0: no such tower */
};

struct model_family {
	const char *name;                     /* as model_type */
	const struct model_section *sections; /* ended by a prefix of NULL */
	const struct model_head
		*heads; /* the first is taken where the file names none; ended by NULL */
	bool encoder_decoder;
	struct model_part_of towers[MODEL_TOWERS];
};

extern const struct model_family *const model_families[];
extern const size_t model_family_count;

/* What a decoder that is not known is read as. */
extern const struct model_family model_family_decoder;

/* build.c: the family's modules for the numbers that stand in m->towers; `has`: conditions of its head. */
enum plim_status model_build(struct model *m, const struct model_family *f, unsigned has,
			     struct plim_err *err);

#endif
