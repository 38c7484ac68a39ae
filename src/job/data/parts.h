/*
 * What the files of this folder share.
 *
 *	format.c	how the file is laid out: head, index, records
 *	fill.c		ranges of samples are claimed, records are added, the whole file gets its name
 *	read.c		a record into places of its fields
 *	order.c		which samples per rank's batches have
 *	batches.c	threads that gather batches
 *	ring.c		page-locked memory on the way to a GPU
 */
#ifndef DATA_PARTS_H
#define DATA_PARTS_H

#include "data.h"

#include "gpu/gpu.h"

#include <stdbool.h>

#define DATA_FIELDS 64
#define DATA_RANK 8
#define DATA_SIZES (DATA_FIELDS * DATA_RANK)
#define DATA_ITEM 16
#define DATA_HEAD ((size_t)16 << 20)             /* the most that a head has */
#define DATA_RECORD ((uint64_t)1 << 40)          /* and a record */
#define DATA_ENTRY ((size_t)24 + 8 * DATA_SIZES) /* and an entry of the index */
#define DATA_PAGE 4096
#define DATA_LINE 64 /* records begin at multiples */

/* ---- format.c ---- */

/* The file's first bytes; fields and `about` follow, and zeros up to head_bytes. */
struct data_front {
	char magic[8];
	uint32_t version, whole;                    /* 1: all samples are there */
	uint64_t head_bytes, samples, record_bytes; /* 0: records differ in size */
	uint64_t entry_bytes, data_at, about_bytes;
	uint64_t end, index_sum; /* when it is whole: bytes of the file, XXH3 of the index */
	uint32_t field_count, unused;
	uint64_t sum; /* XXH3 of the head with 0 here */
};

struct data_field {
	char name[64], dtype[24];
	uint32_t rank, item_bytes;
	uint64_t shape[DATA_RANK];
};

/* An entry of the index; the sizes that differ follow it. */
struct data_entry {
	uint64_t at, bytes; /* of the record; at 0: it is not there */
	uint32_t crc;       /* of its fields' values, one behind the other */
	uint32_t check;     /* of the entry with 0 here, and of the sample's number */
	uint64_t sizes[];
};

struct data_layout {
	struct data_front front;
	struct data_field fields[DATA_FIELDS];
	size_t sizes;  /* that differ, in all fields */
	uint8_t *head; /* front.head_bytes of them, as they lie in the file */
};

/* Of what a caller says.  Ended with data_layout_release in every case. */
enum plim_status data_layout_make(struct data_layout *x, struct mem *m,
				  const struct plim_samples_schema *schema, struct plim_err *err);
/* Of a file of `bytes`; PLIM_E_FORMAT: it is none, or damaged. */
enum plim_status data_layout_read(struct data_layout *x, struct mem *m, int fd, uint64_t bytes,
				  struct plim_err *err);
void data_layout_release(struct data_layout *x, struct mem *m);
/* One schema: all but what is known when the file is whole. */
bool data_layout_same(const struct data_layout *a, const struct data_layout *b);
/* The head for a file that is whole, or not yet (end 0). */
void data_head_end(struct data_layout *x, uint64_t end, uint64_t index_sum);

static inline uint64_t data_index_at(const struct data_layout *x)
{
	return x->front.head_bytes;
}

static inline uint64_t data_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Where each field's values are in a record of these sizes: skip[f], bytes[f]; how many it has.  PLIM_UNKNOWN: too many. */
uint64_t data_record(const struct data_layout *x, const uint64_t *sizes, uint64_t *skip,
		     uint64_t *bytes);
/* The sizes of a sample's field. */
void data_shape(const struct data_layout *x, const struct data_entry *e, size_t field,
		uint64_t *shape);
uint32_t data_entry_check(const struct data_layout *x, uint64_t sample, const struct data_entry *e);
/* Is this the entry of that sample, in a file of `end` bytes? */
bool data_entry_holds(const struct data_layout *x, uint64_t sample, const struct data_entry *e,
		      uint64_t end);

/* All n bytes.  PLIM_E_IO: they cannot be read, or (native 0) the file ends before. */
enum plim_status data_pread(int fd, void *at, size_t n, uint64_t from, struct plim_err *err);

/* ---- read.c ---- */

struct plim_samples {
	struct mem mem;
	struct plim_samples_options options;
	struct data_layout layout;
	struct plim_samples_schema schema;
	struct plim_samples_field fields[DATA_FIELDS];
	char *path;
	int fd;
	uint8_t *index;            /* entries, as they lie in the file */
	uint64_t record_most;      /* bytes of the largest record */
	_Atomic uint64_t *checked; /* a bit a sample */
};

static inline const struct data_entry *data_entry_of(const struct plim_samples *s, uint64_t sample)
{
	return (const void *)(s->index + sample * s->layout.front.entry_bytes);
}

/* A record's fields to their places; crc: of what was read, NULL: not wanted. */
enum plim_status data_read(int fd, const struct data_layout *x, const struct data_entry *e,
			   void *const *where, uint32_t *crc, struct plim_err *err);
/* The same of a sample, with what its options say of checksums. */
enum plim_status data_sample(struct plim_samples *s, uint64_t sample, void *const *where,
			     struct plim_err *err);

/* ---- order.c ---- */

struct data_order {
	struct mem *mem;
	struct plim_epoch epoch;
	uint64_t samples, batches;
	uint32_t *shuffled; /* NULL: in the order of the data set */
};

enum plim_status data_order_make(struct data_order *o, struct mem *m, uint64_t samples,
				 const struct plim_epoch *e, struct plim_err *err);
void data_order_release(struct data_order *o);
/* Batch k: how many samples; their numbers if `to` is not NULL, which has room for batch_size. */
size_t data_order_batch(const struct data_order *o, uint64_t k, uint32_t *to);

/* ---- ring.c ---- */

#define DATA_SLOTS 4 /* of a thread: one is gathered into while others are copied from */
#define DATA_THREADS 64

struct data_slot {
	uint8_t *at;
	void *event; /* behind the copies out of it */
	bool used;   /* the event was recorded */
};

struct data_ring {
	struct cuda cuda;
	void *context; /* NULL: no GPU */
	void *stream;  /* of copies */
	uint8_t *memory;
	uint64_t slot_bytes;
	size_t threads;
	struct data_slot slots[DATA_THREADS][DATA_SLOTS];
	size_t next[DATA_THREADS]; /* slot of a thread */
};

enum plim_status data_ring_open(struct data_ring *r, const struct plim_batches_options *o,
				uint64_t slot_bytes, struct plim_err *err);
/* Waits for its copies. */
void data_ring_close(struct data_ring *r);
/* The ring's context for this thread, and the one that it had back. */
void *data_ring_enter(const struct data_ring *r);
void data_ring_leave(const struct data_ring *r, void *before);
/* A thread's next slot, when the copies out of it are over. */
enum plim_status data_ring_slot(struct data_ring *r, size_t thread, struct data_slot **out,
				struct plim_err *err);
enum plim_status data_cuda_failed(struct plim_err *err, const char *what, int code);

#endif
