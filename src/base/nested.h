/*
 * Small configuration files, JSON or YAML: every scalar with the keys that lead to it ("fsdp_config.fsdp_version"), in the
 * order of the file.  A YAML scalar is what PyYAML makes of it (YAML 1.1: yes and off are booleans), except for aliases and
 * merged keys, which stay unresolved.
 */
#ifndef BASE_NESTED_H
#define BASE_NESTED_H

#include "arena.h"
#include "source.h"

#define NESTED_BYTES ((uint64_t)4 << 20) /* of a file, at most */
#define NESTED_DEPTH 32                  /* of containers, at most */
#define NESTED_PATH 400                  /* bytes of a path with its NUL, at most */

enum nested_kind {
	NESTED_NULL,
	NESTED_FALSE,
	NESTED_TRUE,
	NESTED_NUMBER,
	NESTED_TEXT,
	NESTED_LIST,      /* its elements follow */
	NESTED_OBJECT,    /* what is in it follows */
	NESTED_UNRESOLVED /* an alias of YAML's */
};

struct nested_value {
	const char *path; /* keys with dots between them; elements of a list have the list's */
	const char *text; /* as the file has it; "" of a container */
	enum nested_kind kind;
	uint32_t index;    /* in a list, from 1; 0: it is in none */
	uint32_t elements; /* of a LIST or OBJECT */
};

struct nested {
	struct arena *arena; /* has the texts */
	VEC(struct nested_value) values;
	bool yaml;
};

/*
 * Read all of it into *n, whose arena is set and the rest zeros; nested_release ends it, on failure as well.
 * PLIM_E_FORMAT: it is neither, its outermost value is not an object, or an object has a key twice.  PLIM_E_LIMIT.
 */
enum plim_status nested_read(struct nested *n, struct source *s, const char *name,
			     struct plim_err *err);
void nested_release(struct nested *n);

/*
 * What a switch is.  Texts count as tools read them: "False", "no", "off", "none", "null", "0" and "" are off, "true", "yes",
 * "on" and numbers on, in any case.
 */
enum nested_switch {
	NESTED_UNSAID, /* null: what holds where nothing is said */
	NESTED_OFF,
	NESTED_ON,
	NESTED_UNCLEAR /* another text, a container, an alias */
};
enum nested_switch nested_switch_of(const struct nested_value *v);

/* null, false, 0, "", [] and {}: nothing that could be on. */
bool nested_is_off(const struct nested_value *v);

#endif
