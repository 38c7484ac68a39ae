/* What comes from outside, as tables with their sources. */
#ifndef FACTS_FACTS_H
#define FACTS_FACTS_H

#include "base/base.h"

/* A GPU's memory as cudaMemGetInfo tells its total, in bytes: a little below the nominal size. */
struct facts_gpu {
	const char *name;
	uint64_t total_bytes;
	const char *source;
};

extern const struct facts_gpu facts_gpus[];
extern const size_t facts_gpu_count;

/*
 * The nominal sizes in GiB in which cards are sold.  A process that has a card for itself can use
 * between 92 and 100 % of one: the rest is ECC, the driver's reserve and the process's context.
 */
extern const uint16_t facts_nominal_gib[];
extern const size_t facts_nominal_count;

#endif
