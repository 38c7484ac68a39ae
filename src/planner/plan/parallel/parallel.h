/*
 * Ways to share a run out over several GPUs, each as what it does at the moments of the loop.  The folder's own.
 *
 * parallel.c		units of the model, and which way is asked at what moment
 * parallel_ddp.c	copies that add up their gradients: DDP, and ZeroRedundancyOptimizer
 * parallel_fsdp.c	shares of everything: FSDP 1 and 2
 * parallel_zero.c	gradients and states shared out as DeepSpeed does it: ZeRO 2
 * parallel_zero3.c	... and parameters: ZeRO 3
 */
#ifndef PLAN_PARALLEL_H
#define PLAN_PARALLEL_H

#include "plan/step/build.h"

/* Streams of what does not run where the operations do. */
enum { ON_COMPUTE, ON_GATHER_IN, ON_GATHER, ON_REDUCE, STREAMS };

/* What is gathered and let go together: a block of the text tower; the last unit is the root, all the rest. */
struct unit {
	uint32_t first, n; /* p->members.at[first ... + n): its parameters, in the model's order */
	uint64_t whole;    /* elements of all of them, with what fills up the shares */
	uint64_t own;      /* elements of this process's share */
	uint32_t full;     /* store of the gathered parameters, or TAPE_NONE */
	uint32_t coming;   /* store that a gathering fills that was begun ahead, or TAPE_NONE */
	uint32_t
		whole_grads; /* store of gradients that are not reduced yet, or TAPE_NONE: FSDP 1 */
	bool open;           /* its parameters are whole */
};

struct parallel {
	const struct way *way;
	struct unit *units;
	VEC(uint32_t) members; /* parameters, unit by unit */
	VEC(uint32_t)
	full; /* of each parameter, where they are gathered one by one: store, or TAPE_NONE */
	VEC(uint32_t) kept;   /* of each parameter: the gradient of the micro-batches before */
	VEC(uint32_t) shares; /* of a unit, on their way from the host */
	VEC(uint32_t) buckets, old; /* DDP's */
	VEC(uint32_t) seen; /* ZeRO-3, of each parameter: the last visit that was looked at ahead */
	uint64_t share;     /* ZeRO: elements that this process steps on */
	uint64_t filled,
		passed; /* ... elements in the bucket, and of this backward pass before them */
	uint64_t live, largest; /* ZeRO-3: elements gathered, the largest gradient in the bucket */
	uint32_t root;          /* number of the last unit */
	uint32_t gathered;      /* buffers that the next collective of their kind releases */
	uint32_t scattered;
	uint64_t input; /* bytes of what the last block took in */
	VEC(uint32_t)
	held;             /* inputs and their gradients, until the backward pass is over: FSDP 1 */
	uint32_t late[2]; /* dropped, but used until the next but one is gathered: FSDP 1 */
	uint32_t twin;    /* ZeRO: the second bucket */
	uint32_t gradients;       /* ... store of their gradients */
	uint32_t ahead, ahead_at; /* ZeRO-3: the next visit to look at, and its parameter */
	bool stale; /* gradients were zeroed, but live until the next forward pass: FSDP 1 */
	bool ready; /* a backward pass has shown the order of gradients */
	bool tied;  /* ZeRO-3: the head is the embeddings */
};

/* What a way does; what is NULL is nothing. */
struct way {
	void (*wrap)(struct builder *b);
	void (*begin)(struct builder *b);                     /* a forward pass */
	void (*enter)(struct builder *b, uint32_t unit);      /* ... reaches a unit */
	void (*leave)(struct builder *b, uint32_t unit);      /* ... is behind it */
	void (*end)(struct builder *b);                       /* ... is over */
	void (*back)(struct builder *b);                      /* a backward pass begins */
	void (*back_enter)(struct builder *b, uint32_t unit); /* ... reaches a unit's end */
	void (*back_leave)(struct builder *b, uint32_t unit); /* ... is through with it */
	void (*done)(struct builder *b);                      /* ... is over, except for the root */
	void (*before_step)(struct builder *b); /* the optimizer, which then needs no clipping */
	void (*after_step)(struct builder *b);
	bool shards;      /* parameters */
	bool zeroes_late; /* zero_grad() gives nothing back */
};

extern const struct way parallel_ddp, parallel_zero1, parallel_fsdp1, parallel_fsdp1_zero2,
	parallel_fsdp2, parallel_fsdp2_zero2, parallel_zero2, parallel_zero3;

/* Dimension 0 is what is shared out: rows of this process, the last rank's filled up, times their width. */
uint64_t parallel_share(const struct builder *b, uint32_t param);

/* Gradients of earlier micro-batches are put aside and, where nothing new came, back. */
void parallel_put_aside(struct builder *b);
void parallel_put_back(struct builder *b);

/*
 * DeepSpeed's (parallel_zero.c).  A size in elements: as configured, `usual`, or for "auto" of the model's width; the bucket;
 * bytes of an element.  Weights become halves; each process's share is laid out; one store takes the place of all
 * parameters; the bucket's memory, unless it is there; shares of a unit's gradients are kept; gradients go.
 */
uint64_t zero_size(const struct builder *b, uint64_t given, uint64_t usual, double of_width,
		   bool squared);
uint64_t zero_bucket(const struct builder *b);
unsigned zero_width(const struct builder *b);
void zero_convert(struct builder *b);
void zero_share(struct builder *b);
void zero_lay_flat(struct builder *b, uint64_t elements);
void zero_take_bucket(struct builder *b, uint32_t *bucket);
void zero_reduce(struct builder *b, uint32_t unit);
void zero_after_step(struct builder *b);

/* A share of a new gradient is added to what is there; the shares of a unit's gradients can be one store. */
void parallel_keep_share(struct builder *b, uint32_t param, uint32_t share);
void parallel_keep_shares(struct builder *b, const struct unit *u, uint32_t shares);

#endif
