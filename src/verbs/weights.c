/* The cache of components: its options; the rest is checkpoint/cache.c. */
#include "checkpoint/checkpoint.h"
#include "host/host.h"
#include "result_tables.h"

void plim_weights_options_init(struct plim_weights_options *o)
{
	*o = (struct plim_weights_options){ .size = sizeof(*o) };
}

enum plim_status plim_weights_new(const struct plim_weights_options *options,
				  struct plim_weights **out, struct plim_err *err)
{
	struct plim_weights_options o = { .size = sizeof(o) };
	enum plim_status st = options_take(&weights_options_table, &o, options, err);

	*out = NULL;
	if (!o.max_bytes)
		o.max_bytes = host_memory_limit();
	return st ? st : ckpt_cache_new(&o, out, err);
}
