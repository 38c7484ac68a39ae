/* The durable write, with memory of its own. */
#include "base/base.h"

#include <plimsoll/durable.h>

#include <stdlib.h>

struct plim_durable {
	struct mem mem;
	struct durable *writer;
};

enum plim_status plim_durable_begin(const char *path, uint64_t bytes, struct plim_durable **out,
				    struct plim_err *err)
{
	struct plim_durable *d = calloc(1, sizeof(*d));
	enum plim_status st;

	*out = NULL;
	if (!d)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	mem_init(&d->mem, 0);
	st = durable_begin(&d->mem, path, bytes, &d->writer, err);
	if (st)
		free(d);
	else
		*out = d;
	return st;
}

enum plim_status plim_durable_write(struct plim_durable *d, const void *at, size_t n,
				    struct plim_err *err)
{
	return durable_write(d->writer, at, n, err);
}

enum plim_status plim_durable_commit(struct plim_durable *d, uint64_t *xxh3, struct plim_err *err)
{
	enum plim_status st = durable_commit(d->writer, xxh3, err);

	free(d);
	return st;
}

void plim_durable_abort(struct plim_durable *d)
{
	if (d)
		durable_abort(d->writer);
	free(d);
}
