/* The cache of components: its options; the rest is checkpoint/cache.c. */
#include "checkpoint/checkpoint.h"
#include "host/host.h"
#include "load/load.h"
#include "result_tables.h"

void plim_weights_options_init(struct plim_weights_options *o)
{
	*o = (struct plim_weights_options){ .size = sizeof(*o) };
}

enum plim_status plim_weights_new(const struct plim_weights_options *options,
				  struct plim_weights **out, struct plim_err *err)
{
	struct plim_weights_options o = { .size = sizeof(o) };
	struct ckpt_bulk bulk;
	enum plim_status st = options_take(&weights_options_table, &o, options, err);

	*out = NULL;
	if (!st && o.percent > 100)
		st = err_set(err, PLIM_E_ARG, "options.percent is at most 100");
	if (!st && o.place && !o.place->fill && !o.loader)
		st = err_set(err, PLIM_E_ARG, "options.place has no fill, and there is no loader");
	/* The limit is half of what there is. */
	if (!o.max_bytes)
		o.max_bytes = host_memory_limit() / 50 * (o.percent ? o.percent : 50);
	bulk = load_bulk(o.loader);
	return st ? st
		  : ckpt_cache_new(&o, o.loader && (!o.place || !o.place->fill) ? &bulk : NULL, out,
				   err);
}
