/*
 * Tensors of a checkpoint into host memory or a GPU, at the speed of the hardware: threads read pieces of the files into a
 * small ring of page-locked memory, from where copies run next to the reading.  Nothing of a file is mapped, nothing in it is
 * run, and no more is page-locked than the ring.
 *
 *	plim_ckpt_open(path, NULL, &ckpt, &err);
 *	plim_loader_new(&options, &l, &err);
 *	struct plim_load loads[] = { { .tensor = 0, .where = memory }, ... };
 *	plim_loader_load(l, &(struct plim_loading){ .ckpt = ckpt, .loads = loads, .n = n, .stream = stream }, &err);
 *	plim_loader_free(l);
 *
 * A loader is for one GPU, or for none.  Its functions may be called by any thread; what goes through the ring goes one after
 * the other.  All sizes are bytes.
 */
#ifndef PLIMSOLL_LOADER_H
#define PLIMSOLL_LOADER_H

#include <plimsoll/ckpt.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plim_loader;

/* plim_loader_options_init sets the defaults; then change what is to be different. */
struct plim_loader_options {
	uint32_t size;    /* set by plim_loader_options_init */
	int32_t device;   /* ordinal of the GPU, which the process uses already; -1: none */
	uint32_t threads; /* that read; at most 64; 0: three quarters of the processors, 8 to 16 */
	uint32_t unused;  /* 0 */
	uint64_t ring_bytes;      /* of page-locked memory on the way to the GPU; 0: 64 MiB */
	const char *cuda_library; /* the CUDA driver; NULL: libcuda.so.1 */
};
PLIM_API void plim_loader_options_init(struct plim_loader_options *o);

/* PLIM_E_UNSUPPORTED: the CUDA driver cannot be used.  The ring is taken when it is first needed. */
PLIM_API enum plim_status plim_loader_new(const struct plim_loader_options *options,
					  struct plim_loader **out, struct plim_err *err);
/* Waits for its copies.  What plim_loader_take gave must have been given back. */
PLIM_API void plim_loader_free(struct plim_loader *l);

/* ---- from files ---- */

struct plim_load {
	uint64_t tensor; /* of ckpt->tensors: its number */
	void *where;     /* room for its `bytes` */
};

enum plim_loading_flags {
	PLIM_LOADING_TO_HOST = 1,  /* `where` is host memory, though the loader is for a GPU */
	PLIM_LOADING_AS_STORED = 2 /* a dense tensor keeps its strides; else all are row-major */
};

struct plim_loading {
	const struct plim_ckpt *ckpt;  /* that they are of */
	const struct plim_load *loads; /* what goes where */
	size_t n;                      /* of them */
	uint32_t flags;                /* enum plim_loading_flags */
	uint32_t unused;               /* 0 */
	/*
	 * CUstream; NULL: the default stream.  Copies begin when what is queued on it is done, and what is queued on it after
	 * the call begins when they are done.
	 */
	void *stream;
};

/*
 * Returns when all is read, and, on a GPU, copies are done or queued.  A record's checksum is compared where its tensor fills
 * it.  PLIM_E_FORMAT: a tensor is damaged or not whole; PLIM_E_IO: a file cannot be read, became shorter or was changed;
 * PLIM_E_UNSUPPORTED: a tensor cannot be laid out (one rank's part, quantized), or the driver failed.  After a failure no copy
 * is queued any more, and what is at the places is not known.
 */
PLIM_API enum plim_status plim_loader_load(struct plim_loader *l, const struct plim_loading *what,
					   struct plim_err *err);

/* ---- from memory ---- */

struct plim_copy {
	void *to;         /* host memory, or of the GPU */
	const void *from; /* the same */
	uint64_t bytes;   /* to be copied */
};

/*
 * In the order of `stream`, as in struct plim_loading, on a stream of the loader's own.  *ticket: for plim_loader_wait; until
 * it is over, neither end of a copy may be freed, nor `from` be written.  Without a GPU they are done on return.
 */
PLIM_API enum plim_status plim_loader_copy(struct plim_loader *l, const struct plim_copy *copies,
					   size_t n, void *stream, uint64_t *ticket,
					   struct plim_err *err);

/* What the loader copies or loads to the GPU from now on begins when what is queued on `stream` is done. */
PLIM_API enum plim_status plim_loader_after(struct plim_loader *l, void *stream,
					    struct plim_err *err);

/* Wait for the copies of that ticket, and all before them; 0: for nothing. */
PLIM_API enum plim_status plim_loader_wait(struct plim_loader *l, uint64_t ticket,
					   struct plim_err *err);
/* *over: 1 if they are, else 0.  Waits for nothing. */
PLIM_API enum plim_status plim_loader_look(struct plim_loader *l, uint64_t ticket, uint32_t *over,
					   struct plim_err *err);

/* Memory of the host, of that size to the byte, page-locked if the loader is for a GPU.  PLIM_E_NOMEM. */
PLIM_API enum plim_status plim_loader_take(struct plim_loader *l, uint64_t bytes, void **where,
					   struct plim_err *err);
/* Waits for plim_loader_copy's copies. */
PLIM_API void plim_loader_give(struct plim_loader *l, void *where, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
