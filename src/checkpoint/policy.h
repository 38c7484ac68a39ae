/* What a name in a pickle may do.  How it is used is looked at by globals.c. */
#ifndef CHECKPOINT_POLICY_H
#define CHECKPOINT_POLICY_H

#include "checkpoint.h"

/* When a name is harmless. */
enum policy_rule {
	POLICY_DATA, /* whatever it is given */
	POLICY_FAMILY, /* given what weights_only allows, and names of its own library: it may call what it is given */
	POLICY_VALUE, /* not called: a function or a class that is only referred to */
	POLICY_NEW,   /* made empty (cls.__new__(cls)) and given its attributes, or not called */
	POLICY_NEW_OR_ENUM, /* the same, or called with one number or text: a member of an enum */
	POLICY_RECONSTRUCT, /* copyreg._reconstructor(known class, builtin, ...) */
	POLICY_MEMBER,      /* getattr(known class, 'MEMBER'), and what it gives is not called */
	POLICY_PARTIAL,     /* functools.partial(known function, ...) */
	POLICY_BYTES, /* given bytes that are wholly a file whose pickles are harmless: see inside.c */
};

struct policy {
	enum ckpt_trust trust; /* PLAIN, DATA, CLASS (under its rule), UNKNOWN or DANGEROUS */
	enum policy_rule rule;
	uint8_t fills; /* POLICY_SEQUENCE, POLICY_MAPPING */
};

/* What may be done to an object that a class made. */
enum policy_fills {
	POLICY_SEQUENCE = 1 /* append to it */,
	POLICY_MAPPING = 2 /* set items in it */
};

/* The tables: data/pickled.rows. */
struct policy_name {
	const char *name;
	enum policy_rule rule; /* of policy_harmless */
};
#define POLICY_TABLE(of)                               \
	extern const struct policy_name policy_##of[]; \
	extern const size_t policy_##of##_count
POLICY_TABLE(plain);
POLICY_TABLE(harmless);
POLICY_TABLE(functions);
POLICY_TABLE(unpickling);
POLICY_TABLE(sequences);
POLICY_TABLE(mappings);
POLICY_TABLE(dangerous);
POLICY_TABLE(modules);

struct policy policy_of(const char *name);
/* Python 3's name of what Python 2 named otherwise. */
const char *policy_new_name(const char *name, char *text, size_t size);
/*
 * Is `name` in the caller's list?  Names are separated by commas or line breaks, "package.*" is all below it, '#'
 * begins a comment.  NULL: an empty list.
 */
bool policy_is_allowed(const char *allow, const char *name);

#endif
