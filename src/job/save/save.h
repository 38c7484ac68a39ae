/* Saving tensors of a running job into a folder of checkpoints: staged in stream order, written by a thread. */
#ifndef SAVE_SAVE_H
#define SAVE_SAVE_H

#include "base/base.h"

#include <plimsoll/checkpointer.h>

/* As plim_checkpointer_open, with all of *o set: staging_bytes is a number. */
enum plim_status save_open(const char *folder, const struct plim_checkpointer_options *o,
			   struct plim_checkpointer **out, struct plim_err *err);

/* What each of the ranks of a machine that has so much room may take of it for staging: together a quarter. */
uint64_t save_staging_share(uint64_t room_bytes, uint32_t host_ranks);

#endif
