/* What comes from outside, as tables with their sources. */
#ifndef FACTS_FACTS_H
#define FACTS_FACTS_H

#include "base/base.h"

/* A GPU's memory as cudaMemGetInfo tells its total: a little below the nominal size. */
struct facts_gpu {
	const char *name;
	uint64_t total_low_bytes, total_high_bytes;
	const char *source;
};

/* Smallest first. */
extern const struct facts_gpu facts_gpus[];
extern const size_t facts_gpu_count;

#endif
