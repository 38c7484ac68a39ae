/* plimsoll why --here: look, judge, hand out. */
#include "commands/here/here.h"

#include "commands/out.h"

#include <stdlib.h>

void plim_here_options_init(struct plim_here_options *o)
{
	*o = (struct plim_here_options){ .size = sizeof(*o), .pid = PLIM_UNKNOWN };
}

void plim_here_free(struct plim_here *h)
{
	if (!h)
		return;
	host_release(&h->hidden->host);
	free(h);
}

enum plim_status plim_here_open(const struct plim_here_options *options, struct plim_here **out,
				struct plim_err *err)
{
	struct plim_here *h;
	struct plim_here_options o;
	struct plim_err own;
	enum plim_status st;

	*out = NULL;
	err = err ? err : &own; /* inner floors read the status back from it */
	st = OUT_NEW(here, h, &o, options, err);
	if (st)
		return st;
	host_mem_init(&h->hidden->mem, o.max_memory_bytes);
	st = host_look(&h->hidden->host, &h->hidden->mem,
		       &(struct host_options){ .root = o.root, .pid = o.pid }, h, err);
	if (!st)
		st = host_judge(&h->hidden->host, (o.flags & PLIM_HERE_REDACT) != 0, err);
	if (st)
		plim_here_free(h);
	else
		*out = h;
	return st;
}

enum plim_status plim_here_json(const struct plim_here *h, plim_write_fn *write, void *ctx,
				struct plim_err *err)
{
	return out_json(&h->hidden->mem, &here_table, h, write, ctx, err);
}
