/*
 * What the files of this folder share.
 *
 *	loader.c	what a loader owns: the driver, the ring, streams; copies from memory
 *	pieces.c	tensors become pieces of files, none larger than a slot of the ring
 *	read.c		the threads that read pieces
 */
#ifndef LOAD_PARTS_H
#define LOAD_PARTS_H

#include "load.h"

#include "gpu/gpu.h"

#include <pthread.h>

#define LOAD_THREADS 64
#define LOAD_SLOTS 4    /* of a thread: one is read into while others are copied from */
#define LOAD_TICKETS 64 /* copies that may be asked for at once; older ones are waited for */
#define LOAD_GAP \
	((uint64_t)64 << 10) /* bytes that are read in vain, rather than with a call of their own */

/* ---- pieces.c ---- */

/* A tensor that lies in one file as it is wanted. */
struct load_run {
	uint32_t file, tensor;
	uint64_t at, bytes;
	uint8_t *where;
	bool checked; /* its bytes have a checksum: that */
	uint32_t crc;
};

/* One read: a part of a run, or several whole ones that lie side by side. */
struct load_piece {
	size_t first, count;
	uint64_t skip; /* bytes of the run before the part */
	uint64_t bytes;
	uint32_t crc; /* of the part */
};

struct load_plan {
	struct mem *mem;
	VEC(struct load_run) runs; /* in the order of the files' bytes */
	VEC(struct load_piece) pieces;
	VEC(size_t) rest; /* loads that are not runs */
};

/* The most that a piece has is `most`.  Ended with load_plan_release in every case. */
enum plim_status load_plan(struct load_plan *p, struct mem *m, const struct load_job *job,
			   uint64_t most, struct plim_err *err);
void load_plan_release(struct load_plan *p);
/* All pieces are read: does every run that has a checksum match it? */
enum plim_status load_plan_check(const struct load_plan *p, const struct ckpt *c,
				 struct plim_err *err);
enum plim_status load_damaged(const struct ckpt *c, const struct load_run *r, struct plim_err *err);

/* ---- loader.c ---- */

struct load_slot {
	uint8_t *at;
	void *event; /* behind the copies out of it */
	bool used;   /* the event was recorded */
};

/* A thread's share of the ring, and its stream. */
struct load_reader {
	struct load_slot slots[LOAD_SLOTS];
	size_t next;
	void *stream, *done;
};

struct plim_loader {
	struct mem mem;
	struct plim_loader_options options;
	struct cuda cuda;
	void *context;        /* NULL: no GPU */
	pthread_mutex_t lock; /* what goes through the ring goes one after the other */
	struct load_reader readers[LOAD_THREADS];
	uint8_t *ring; /* NULL: not taken yet */
	uint64_t slot_bytes;
	pthread_mutex_t sparing;
	void *spare; /* a block of a set that is gone, for the next one of its size; or NULL */
	uint64_t spare_bytes;
	pthread_mutex_t copying;
	void *copies, *begun; /* stream of plim_loader_copy, event of the caller's stream */
	void *tickets[LOAD_TICKETS];
	uint64_t ticket; /* given out last */
};

enum plim_status load_failed(struct plim_err *err, const char *what, int code);
/* The loader's context for this thread, and the one that it had back. */
void *load_enter(const struct plim_loader *l);
void load_leave(const struct plim_loader *l, void *before);
/* With l->lock, in the context: the ring is there. */
enum plim_status load_ring(struct plim_loader *l, struct plim_err *err);
/* The next slot, when the copies out of it are done. */
enum plim_status load_slot_next(struct plim_loader *l, struct load_reader *r,
				struct load_slot **out, struct plim_err *err);
/* `n` bytes of the slot, `skip` behind its first, to the GPU. */
enum plim_status load_slot_copy(struct plim_loader *l, struct load_reader *r,
				const struct load_slot *s, uint64_t skip, void *to, uint64_t n,
				struct plim_err *err);
enum plim_status load_slot_end(struct plim_loader *l, struct load_reader *r, struct load_slot *s,
			       struct plim_err *err);

#endif
