/* Tensors of a checkpoint into memory: options; the rest is src/job/load. */
#include "load/load.h"
#include "ckpt.h"
#include "result_tables.h"

/*
 * On an H100's machine with 16 cores: 22 GB/s out of the page cache with 4 threads, 36 with 8, 44 with 12, 43 with 16.
 */
#define THREADS_LEAST 8
#define THREADS_MOST 16
#define RING_BYTES ((uint64_t)64 << 20)

static uint32_t threads(void)
{
	uint32_t n = thread_processors() * 3 / 4;

	return n < THREADS_LEAST ? THREADS_LEAST : n > THREADS_MOST ? THREADS_MOST : n;
}

void plim_loader_options_init(struct plim_loader_options *o)
{
	*o = (struct plim_loader_options){ .size = sizeof(*o), .device = -1 };
}

enum plim_status plim_loader_new(const struct plim_loader_options *options,
				 struct plim_loader **out, struct plim_err *err)
{
	struct plim_loader_options o;
	enum plim_status st;

	plim_loader_options_init(&o);
	st = options_take(&loader_options_table, &o, options, err);
	*out = NULL;
	o.threads = o.threads ? o.threads : threads();
	o.ring_bytes = o.ring_bytes ? o.ring_bytes : RING_BYTES;
	return st ? st : load_new(&o, out, err);
}

enum plim_status plim_loader_load(struct plim_loader *l, const struct plim_loading *what,
				  struct plim_err *err)
{
	const struct load_job job = { .ckpt = &what->ckpt->hidden->ckpt,
				      .loads = what->loads,
				      .n = what->n,
				      .flags = what->flags,
				      .stream = what->stream };

	if (what->flags & ~(uint32_t)(PLIM_LOADING_TO_HOST | PLIM_LOADING_AS_STORED))
		return err_set(err, PLIM_E_ARG, "flags has bits that are not known");
	return load_tensors(l, &job, err);
}
