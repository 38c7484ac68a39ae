/* Saving a training job: its options; the rest is src/job/save. */
#include "host/host.h"
#include "result_tables.h"
#include "save/save.h"

void plim_checkpointer_options_init(struct plim_checkpointer_options *o)
{
	*o = (struct plim_checkpointer_options){ .size = sizeof(*o),
						 .keep_last = 3,
						 .keep_best = 1,
						 .world = 1,
						 .host_ranks = 1,
						 .rank_wait_ns = 1800000000000u };
}

enum plim_status plim_checkpointer_open(const char *folder,
					const struct plim_checkpointer_options *options,
					struct plim_checkpointer **out, struct plim_err *err)
{
	struct plim_checkpointer_options o;
	enum plim_status st;

	plim_checkpointer_options_init(&o);
	st = options_take(&checkpointer_options_table, &o, options, err);
	*out = NULL;
	if (!st && !o.staging_bytes && o.host_ranks)
		o.staging_bytes = save_staging_share(host_room_below(NULL), o.host_ranks);
	return st ? st : save_open(folder, &o, out, err);
}
