/*
 * A config.json as its scalars: all of the outermost object and of the objects in it are kept, as the family, and so what they
 * mean, may only be reported at the end.
 *
 * config_values.c	reading, and finding a value again
 * config_stored.c	how the file's weights are quantized
 * config.c		families: each tower takes what its keys name
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "tables.h"

#define CONFIG_VALUES 100000   /* scalars in a file, at most */
#define CONFIG_SCOPE_BYTES 200 /* keys of objects in objects, joined by dots */

struct config_value {
	uint32_t scope, key; /* in m->strings; scope INTERN_NONE: the outermost object */
	uint32_t index;      /* in a list */
	uint32_t text;       /* of a STRING */
	enum json_kind kind;
	uint64_t number; /* of an INTEGER; of an ARRAY or OBJECT how many it holds */
	double real;
	bool negative;
};

struct config {
	struct model *model;
	const char *path;
	struct json json;
	VEC(struct config_value) values;
};

/* All values of a file, behind those that were read before. */
enum plim_status config_read(struct config *c, struct source *s, struct plim_err *err);

/* The value of a key, or of one in an object, "object.key"; of equal ones the last counts, as in Python. */
const struct config_value *config_find(const struct config *c, const char *scope, const char *key);
/* "" where it is none; `v` may be NULL. */
const char *config_text(const struct config *c, const struct config_value *v);
/* Behind the last scalar of a list; NULL: it is none. */
const struct config_value *config_list_end(const struct config *c, const struct config_value *list);
/* The scalar that stands there, from 1; NULL: none does. */
const struct config_value *config_element(const struct config *c, const struct config_value *list,
					  uint32_t index);
bool config_is_true(const struct config *c, const char *scope, const char *key);
/* null, false, 0, "", [] and {}: a feature that is off.  `v` is there. */
bool config_is_off(const struct config *c, const struct config_value *v);
/* 0 where it is no such number. */
uint64_t config_count(const struct config *c, const char *scope, const char *key);
/* Keys of an object; 0: it is none. */
uint64_t config_count_objects(const struct config *c, const char *scope, const char *key);

/* The method by which weights are quantized, and bitsandbytes' own, into the model. */
void config_take_quantizer(struct config *c);
/* Once its tensors are there: weights of a method other than bitsandbytes', at the size that they have in the file. */
enum plim_status config_take_stored(struct config *c, struct plim_err *err);

#endif
