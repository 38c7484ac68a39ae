/*
 * Samples of a data set in one file, made once and read as fast as memory goes.
 *
 * Several processes of one machine fill a file together, and whoever is killed leaves what the others, or a later run, go on
 * with; only a whole file gets the name.  Each sample has a checksum.  To read, threads gather a batch's samples straight into
 * its tensors, or on the way to a GPU into a small ring of page-locked memory, from where they are copied meanwhile.
 *
 *	plim_samples_fill(path, &schema, &f, &err);
 *	while (!plim_samples_claim(f, &claim, &err) && claim.state != PLIM_CLAIM_DONE)
 *		for (i = claim.first; i < claim.first + claim.count; i++)
 *			plim_samples_put(f, i, parts, &err);
 *	plim_samples_seal(f, &done, &err);
 *	plim_samples_filling_free(f);
 *
 *	plim_samples_open(path, NULL, &s, &err);
 *	plim_batches_new(s, &options, &b, &err);
 *	plim_batches_begin(b, &epoch, &err);
 *	while (!plim_batches_peek(b, &batch, &err) && batch.count) {
 *		plim_batches_push(b, tensors, stream, &err);		some ahead
 *		plim_batches_next(b, stream, 1000, &batch, &err);	the oldest
 *	}
 *	plim_batches_free(b);
 *	plim_samples_close(s);
 *
 * Files are read, not mapped: one that is cut meanwhile is an error, and no signal.  All sizes are bytes.
 */
#ifndef PLIMSOLL_DATA_H
#define PLIMSOLL_DATA_H

#include <plimsoll/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a sample has: a tensor. */
struct plim_samples_field {
	const char *name;      /* at most 63 bytes */
	const char *dtype;     /* as torch names it: "uint8"; at most 23 bytes */
	const uint64_t *shape; /* sizes; PLIM_UNKNOWN: it differs from sample to sample */
	uint32_t rank;         /* of them; at most 8 */
	uint32_t item_bytes;   /* of an element; at most 16 */
};

struct plim_samples_schema {
	const struct plim_samples_field *fields; /* at most 64 */
	size_t field_count;                      /* of them */
	uint64_t samples;                        /* in the data set; fewer than 2^32 */
	const void *about;  /* kept as it is: what they were made of, and how; at most 15 MiB */
	size_t about_bytes; /* of it */
	uint64_t replaces;  /* to fill: mark of a file of that name that is not wanted; else 0 */
};

/* ---- filling ---- */

struct plim_samples_filling;

/*
 * Begin to fill, or go on: the file is PATH.filling until it is whole.  What lies there of another schema is begun anew if
 * no one is filling it.  If a file of that name and schema is there, all samples are.  PLIM_E_ARG: the schema; PLIM_E_IO: the disk is full, or another process fills it with another schema.
 * One thread an object; several processes, and threads, have one each.
 */
PLIM_API enum plim_status plim_samples_fill(const char *path,
					    const struct plim_samples_schema *schema,
					    struct plim_samples_filling **out,
					    struct plim_err *err);

enum plim_claim_state {
	PLIM_CLAIM_FILL, /* fill these samples */
	PLIM_CLAIM_WAIT, /* what is missing is being filled by others: ask again a little later */
	PLIM_CLAIM_DONE  /* all samples are there */
};
PLIM_API const char *plim_claim_state_name(enum plim_claim_state value);

struct plim_claim {
	uint32_t state; /* enum plim_claim_state */
	uint32_t count; /* of samples */
	uint64_t first; /* of them */
};

/* Samples that are this object's to fill until its next claim; the lock on them goes with the process. */
PLIM_API enum plim_status plim_samples_claim(struct plim_samples_filling *f, struct plim_claim *out,
					     struct plim_err *err);

/* A field's values: row-major, packed. */
struct plim_samples_part {
	const void *where;     /* its first byte */
	const uint64_t *shape; /* as many sizes as the field's rank */
};

/* One part a field.  PLIM_E_ARG: a shape is not the schema's; PLIM_E_IO: the disk is full. */
PLIM_API enum plim_status plim_samples_put(struct plim_samples_filling *f, uint64_t sample,
					   const struct plim_samples_part *parts,
					   struct plim_err *err);

/*
 * All samples are there: sync, read them back, and give the file its name.  *done 0: another process is at it, ask again a
 * little later.  PLIM_E_FORMAT: a sample is damaged, and was dropped: claim again.
 */
PLIM_API enum plim_status plim_samples_seal(struct plim_samples_filling *f, uint32_t *done,
					    struct plim_err *err);
PLIM_API void plim_samples_filling_free(struct plim_samples_filling *f);

/* ---- reading ---- */

struct plim_samples;

enum plim_samples_flags {
	PLIM_SAMPLES_CHECK_ALWAYS =
		1,                   /* a sample's checksum each time; else when it is first read */
	PLIM_SAMPLES_CHECK_NEVER = 2 /* none */
};

struct plim_samples_options {
	uint32_t size;             /* set by plim_samples_options_init */
	uint32_t flags;            /* enum plim_samples_flags */
	uint64_t max_memory_bytes; /* for the index; 0: no limit */
};
PLIM_API void plim_samples_options_init(struct plim_samples_options *o);

/* PLIM_E_IO: there is no such file; PLIM_E_FORMAT: it is damaged, cut or something else.  May be used by many threads. */
PLIM_API enum plim_status plim_samples_open(const char *path,
					    const struct plim_samples_options *options,
					    struct plim_samples **out, struct plim_err *err);
PLIM_API void plim_samples_close(struct plim_samples *s);

/* What it was filled with; belongs to the object. */
PLIM_API const struct plim_samples_schema *plim_samples_info(const struct plim_samples *s);
/* Another number for another file. */
PLIM_API uint64_t plim_samples_mark(const struct plim_samples *s);

/* Sizes of one field of one sample. */
PLIM_API enum plim_status plim_samples_shape(const struct plim_samples *s, uint64_t sample,
					     size_t field, uint64_t *shape, struct plim_err *err);

/* One sample, a place a field (NULL: not that one).  PLIM_E_FORMAT: its checksum differs; PLIM_E_IO: the file became shorter. */
PLIM_API enum plim_status plim_samples_read(struct plim_samples *s, uint64_t sample,
					    void *const *where, struct plim_err *err);

/* ---- the order ---- */

enum plim_epoch_flags {
	PLIM_EPOCH_SHUFFLE = 1,  /* by seed and epoch; else in the order of the data set */
	PLIM_EPOCH_DROP_LAST = 2 /* full batches only */
};

/*
 * Which samples per rank's batches have.  Each sample is in one batch of one rank, and all ranks have the same number of batches,
 * none empty: where the last one would be, the one before it gives it a sample.
 */
struct plim_epoch {
	uint32_t size;       /* of this struct */
	uint32_t flags;      /* enum plim_epoch_flags */
	uint64_t seed;       /* of the order */
	uint64_t epoch;      /* another order for each */
	uint64_t batch_size; /* samples, each rank */
	uint64_t rank;       /* of `world` */
	uint64_t world;      /* ranks */
	uint64_t start;      /* samples at the beginning of the order that are left out; 0 */
	uint64_t done;       /* batches after them that are left out; 0 */
};

/* Batches of a rank, those that are done among them.  PLIM_E_ARG: there are fewer samples than a batch of each rank needs. */
PLIM_API enum plim_status plim_epoch_batches(const struct plim_epoch *e, uint64_t samples,
					     uint64_t *batches, struct plim_err *err);

struct plim_order;

/* The order itself, for a reader of your own; of an epoch whose `done` is not looked at. */
PLIM_API enum plim_status plim_order_new(const struct plim_epoch *e, uint64_t samples,
					 struct plim_order **out, struct plim_err *err);
/* Numbers of the samples of batch k: at most batch_size; 0: there is no such batch. */
PLIM_API size_t plim_order_batch(const struct plim_order *o, uint64_t k, uint32_t *samples);
PLIM_API void plim_order_free(struct plim_order *o);

/* ---- batches ---- */

struct plim_batches;

struct plim_batches_options {
	uint32_t size;    /* set by plim_batches_options_init */
	int32_t device;   /* ordinal of the GPU, which the process uses already; -1: none */
	uint32_t threads; /* that gather; 4; at most 64 */
	uint32_t ahead;   /* batches that may be on the way; 2; at most 64 */
	uint64_t
		ring_bytes; /* of page-locked memory, but four samples a thread at least; 0: 8 MiB a thread */
	const char *cuda_library; /* the CUDA driver; NULL: libcuda.so.1 */
};
PLIM_API void plim_batches_options_init(struct plim_batches_options *o);

/* The samples must stay open.  One thread at a time.  PLIM_E_UNSUPPORTED: the CUDA driver cannot be used. */
PLIM_API enum plim_status plim_batches_new(struct plim_samples *samples,
					   const struct plim_batches_options *options,
					   struct plim_batches **out, struct plim_err *err);
/* Waits for what is on the way. */
PLIM_API void plim_batches_free(struct plim_batches *b);

/* From here on these.  Waits for what is on the way, and drops it. */
PLIM_API enum plim_status plim_batches_begin(struct plim_batches *b, const struct plim_epoch *e,
					     struct plim_err *err);

struct plim_batch {
	uint64_t number;         /* in the epoch, from 0 */
	const uint32_t *samples; /* that it has */
	size_t count;            /* of them; 0: there is no batch */
	/* each field's in all: its samples lie one behind the other */
	const uint64_t *bytes;
	/* of each sample, and of it each field, the sizes that differ: one row a sample; NULL: no size does */
	const uint64_t *sizes;
	size_t size_count; /* in a row */
};

/* The next batch that is to be pushed; what it points to holds until it is taken with plim_batches_next. */
PLIM_API enum plim_status plim_batches_peek(struct plim_batches *b, struct plim_batch *out,
					    struct plim_err *err);

/*
 * Have it gathered: a place a field, host memory or, with a device, memory of the GPU, whose copies begin when what is queued on
 * `stream` (a CUstream; NULL: the default stream) is done.  PLIM_E_ARG: `ahead` are on the way, or there is no batch.
 */
PLIM_API enum plim_status plim_batches_push(struct plim_batches *b, void *const *where,
					    void *stream, struct plim_err *err);

/*
 * Wait for the oldest that is on the way, at most wait_ms.  count 0: it is not there yet, or none is on the way.  What is
 * queued on `stream` afterwards sees it.  What *out points to holds until the next call.  A failure is that of this batch, and
 * ends the epoch.
 */
PLIM_API enum plim_status plim_batches_next(struct plim_batches *b, void *stream, uint64_t wait_ms,
					    struct plim_batch *out, struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
