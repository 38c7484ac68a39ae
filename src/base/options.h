/* Options of every command, as a caller hands them in. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>

/* What a member of an options struct may hold. */
enum options_rule {
	OPTIONS_ANY,
	OPTIONS_FLAGS, /* bits of `most` */
	OPTIONS_ENUM,  /* at most `most` */
	OPTIONS_ZERO,  /* 0: it is not used yet */
	OPTIONS_NESTED /* options themselves */
};

struct options_table;

struct options_member {
	const char *name;
	size_t offset, size;
	enum options_rule rule;
	uint64_t most;
	const struct options_table *nested;
};

/* Of a struct that begins with its size; tools/results makes one of each plim_X_options. */
struct options_table {
	const char *name; /* "plim_report_options" */
	size_t size;
	const struct options_member *members;
	size_t n;
};

/*
 * Copy the caller's options over *to, which holds the defaults; NULL: they stay.  A caller that was built against
 * an older header has a shorter struct, and what it lacks stays as it is; one that was built against a newer header
 * may only leave what is not known here 0.  PLIM_E_ARG, and *to may be half written: the size is 0 or ends inside of
 * a member, what is not known here is not 0, a flag or a value of an enum is not known.
 */
enum plim_status options_take(const struct options_table *table, void *to, const void *from,
			      struct plim_err *err);

#endif
