/* Names on stacks that tell what the program was doing. */
#ifndef TIMELINE_CUES_H
#define TIMELINE_CUES_H

#include "timeline.h"

enum {
	CUE_EMPTY = 1, /* no frames: C++ alone, usually autograd's own thread */
	CUE_OPTIMIZER = 2,
	CUE_INIT_GROUP = 4, /* where torch's optimizers make their state */
	CUE_ZERO_GRAD = 8,
	CUE_FORWARD = 16,
	CUE_BACKWARD = 32, /* also what checkpointing runs again for it */
	CUE_BUILD = 64,    /* a module is built, loaded or moved */
	CUE_CACHE = 128,   /* keys and values of attention */
	CUE_GENERATE = 256,
	CUE_LAZY = 1024,  /* a parameter that gets its shape in the first forward pass */
	CUE_BUCKET = 512, /* innermost frame: DistributedDataParallel's own */
	CUE_CLASS = 2048, /* an object of any class is built */
};

/* Bits for each stack of the trace; free with mem_free(m, of_stack, t->stacks.n, sizeof(uint16_t)). */
enum plim_status cues_find(struct mem *m, const struct snapshot *t, uint16_t **of_stack,
			   struct plim_err *err);

/* The phase of each event. */
void phases_find(const struct timeline *tl, const uint16_t *cues, uint8_t *phase);

#endif
