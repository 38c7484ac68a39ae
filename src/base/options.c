/* Options are checked before they are believed: a forgotten size or an unknown flag must not pass for a default. */

#include "options.h"

#include <string.h>

static enum plim_status refuse_options(struct plim_err *err, const struct options_table *t,
				       const char *member, const char *why)
{
	return err_set(err, PLIM_E_ARG, "struct %s: '%s' %s", t->name, member, why);
}

/* Is there a version of the header whose struct is so long?  Padding behind the last member counts. */
static bool ends_at_member(const struct options_table *t, size_t size)
{
	for (size_t i = 0; i < t->n; i++) {
		size_t end = t->members[i].offset + t->members[i].size;

		if (size == end || size == (end + 7) / 8 * 8)
			return true;
	}
	return false;
}

static enum plim_status check_size(const struct options_table *t, const void *from, size_t size,
				   struct plim_err *err)
{
	const unsigned char *bytes = from;

	if (!size)
		return refuse_options(err, t, "size", "is 0: the struct was not initialised");
	if (size < t->size && !ends_at_member(t, size))
		return refuse_options(err, t, "size", "ends inside of a member");
	for (size_t i = t->size; i < size; i++)
		if (bytes[i])
			return refuse_options(
				err, t, "size",
				"is of a newer header, and has options that this library "
				"does not know");
	return PLIM_OK;
}

static enum plim_status check_member(const struct options_table *t, const struct options_member *m,
				     const void *options, struct plim_err *err)
{
	const char *at = (const char *)options + m->offset;
	uint64_t value = 0;

	if (m->rule == OPTIONS_ANY || m->rule == OPTIONS_NESTED)
		return PLIM_OK;
	memcpy(&value, at, m->size); /* little-endian */
	if (m->rule == OPTIONS_FLAGS && value & ~m->most)
		return refuse_options(err, t, m->name, "has flags that are not known");
	if (m->rule == OPTIONS_ENUM && value > m->most)
		return refuse_options(err, t, m->name, "has a value that is not known");
	if (m->rule == OPTIONS_ZERO && value)
		return refuse_options(err, t, m->name, "must be 0");
	return PLIM_OK;
}

enum plim_status options_take(const struct options_table *t, void *to, const void *from,
			      struct plim_err *err)
{
	enum plim_status st;
	uint32_t size;

	if (!from)
		return PLIM_OK;
	memcpy(&size, from, sizeof(size));
	st = check_size(t, from, size, err);
	for (size_t i = 0; !st && i < t->n; i++) {
		const struct options_member *m = &t->members[i];

		if (m->offset + m->size > size)
			break;
		st = m->rule == OPTIONS_NESTED ? options_take(m->nested, (char *)to + m->offset,
							      (const char *)from + m->offset, err)
					       : check_member(t, m, from, err);
		if (!st && m->rule != OPTIONS_NESTED)
			memcpy((char *)to + m->offset, (const char *)from + m->offset, m->size);
	}
	return st;
}
