/*
 * A cache of components: checkpoints registered by name, of which only the tensors that match are loaded,
 * and held within a count and a byte budget.  What is in use is pinned and stays; the rest goes, least
 * recently used first.  Many threads may call at once; of those that want the same one, one loads.
 *
 *	plim_weights_new(&options, &w, &err);
 *	plim_weights_add(w, "style", "style.safetensors", "*lora_*", &err);
 *	plim_weights_get(w, "style", &set, &err);	loads it, or waits, or finds it
 *	... set->tensors[i].where ...
 *	plim_weights_put(w, set);			may now be evicted
 *	plim_weights_free(w);
 *
 * All sizes are bytes.
 */
#ifndef PLIMSOLL_WEIGHTS_H
#define PLIMSOLL_WEIGHTS_H

#include <plimsoll/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plim_weights;

struct plim_weight {
	const char *name;      /* in the checkpoint */
	const char *dtype;     /* as torch names it: "bfloat16" */
	const uint64_t *shape; /* elements a dimension */
	size_t shape_count;
	uint64_t bytes; /* of its elements, packed, in row-major order */
	void *where;    /* host memory, or what plim_weights_place.take gave */
};

/* Belongs to the cache; valid between plim_weights_get and plim_weights_put. */
struct plim_weights_set {
	const char *name;            /* as registered */
	struct plim_weight *tensors; /* that match */
	size_t tensor_count;
	uint64_t bytes; /* of all tensors */
	struct plim_weights_hidden *hidden;
	uint64_t load; /* another number each time that a set of the cache is loaded */
};

/* Room for a tensor of t->bytes bytes: *where.  A failure ends the load and is its error. */
typedef enum plim_status plim_weights_take_fn(void *ctx, const struct plim_weight *t, void **where,
					      struct plim_err *err);
/* The next `n` bytes, which begin at byte `at` of the tensor; at most 1 MiB at a time. */
typedef enum plim_status plim_weights_fill_fn(void *ctx, void *where, uint64_t at,
					      const void *bytes, size_t n, struct plim_err *err);
/* Give the room back. */
typedef void plim_weights_drop_fn(void *ctx, const struct plim_weight *t, void *where);

/*
 * Where tensors are loaded to, when not into host memory: a GPU copy goes here.  Called by the thread
 * that loads or evicts; several sets may be loaded at once.  None of the functions may call the cache.
 */
struct plim_weights_place {
	plim_weights_take_fn *take; /* makes room */
	/* called for each piece, in order; NULL: memory of the GPU of options.loader, which fills it */
	plim_weights_fill_fn *fill;
	plim_weights_drop_fn *drop; /* gives the room back */
	void *ctx;                  /* first argument of each */
	void *stream;               /* fill NULL: the CUstream on which `take` gives memory */
};

struct plim_loader;

struct plim_weights_options {
	uint32_t size; /* set by plim_weights_options_init */
	uint32_t
		percent; /* where max_bytes is 0: of this machine's memory, or of the cgroup's; 0: 50 */
	uint64_t max_sets;                      /* that are held at once; 0: any number */
	uint64_t max_bytes;                     /* of their tensors; 0: see percent */
	const struct plim_weights_place *place; /* copied; NULL: host memory */
	/*
	 * NULL: one thread reads.  Else its threads do, and a set lies in one piece of memory, in which each tensor begins at
	 * a multiple of 256 bytes: of the host, page-locked if the loader is for a GPU; or what place->take gives, which is
	 * asked once a set, with its name and its bytes.  It must live as long as the cache.
	 */
	struct plim_loader *loader;
};
PLIM_API void plim_weights_options_init(struct plim_weights_options *o);

struct plim_weights_stats {
	uint64_t hits;   /* it was there */
	uint64_t misses; /* it was loaded */
	/* another thread was loading it; counted next to the hit or the failure */
	uint64_t waits;
	uint64_t failures;  /* loads that ended with an error */
	uint64_t evictions; /* sets that had to go */
	uint64_t sets;      /* held now, those being loaded too */
	uint64_t bytes;     /* held now, those being loaded too */
	uint64_t pinned;    /* sets that are in use now */
};

/* options NULL: no limit on the count, host memory. */
PLIM_API enum plim_status plim_weights_new(const struct plim_weights_options *options,
					   struct plim_weights **out, struct plim_err *err);
/* No set may be in use. */
PLIM_API void plim_weights_free(struct plim_weights *w);

/*
 * Register tensors of the checkpoint at `path` that match `patterns` ("a.*|b", * and ? as in a shell) under a
 * name; nothing is read yet.  PLIM_E_ARG: the name is taken.
 */
PLIM_API enum plim_status plim_weights_add(struct plim_weights *w, const char *name,
					   const char *path, const char *patterns,
					   struct plim_err *err);

/* Forget a name.  PLIM_E_ARG: there is none, or it is in use or being loaded. */
PLIM_API enum plim_status plim_weights_remove(struct plim_weights *w, const char *name,
					      struct plim_err *err);

/*
 * The set of that name, pinned: each success is ended with plim_weights_put.  A tensor that has a checksum
 * of its own is compared with it.  A file that was written or replaced since is loaded anew.  PLIM_E_ARG: no such name, or
 * nothing matches; PLIM_E_IO, PLIM_E_FORMAT: it cannot be read or is damaged, or was changed while it is in use; PLIM_E_UNSUPPORTED: a tensor cannot be laid out (one rank's part, quantized);
 * PLIM_E_LIMIT: it does not fit next to what is in use.  A failed load may be tried again.
 */
PLIM_API enum plim_status plim_weights_get(struct plim_weights *w, const char *name,
					   const struct plim_weights_set **out,
					   struct plim_err *err);
PLIM_API void plim_weights_put(struct plim_weights *w, const struct plim_weights_set *set);

PLIM_API void plim_weights_stats(struct plim_weights *w, struct plim_weights_stats *out);

#ifdef __cplusplus
}
#endif

#endif
