/* Tensors of a checkpoint into memory of the host or of a GPU: read by threads, through a ring of page-locked memory. */
#ifndef LOAD_LOAD_H
#define LOAD_LOAD_H

#include "base/base.h"
#include "checkpoint/checkpoint.h"

#include <plimsoll/loader.h>

/* As plim_loader_new, with all of *o set. */
enum plim_status load_new(const struct plim_loader_options *o, struct plim_loader **out,
			  struct plim_err *err);

/* Some tensors of a checkpoint; where[i] is for tensors[i], host memory if flags say so.  As plim_loader_load. */
struct load_job {
	struct ckpt *ckpt;
	const struct plim_load *loads;
	size_t n;
	uint32_t flags; /* enum plim_loading_flags */
	bool wait;      /* until the copies are over */
	void *stream;
};
enum plim_status load_tensors(struct plim_loader *l, const struct load_job *job,
			      struct plim_err *err);

/* What fills the sets of a cache, if there is a loader. */
struct ckpt_bulk load_bulk(struct plim_loader *l);

#endif
