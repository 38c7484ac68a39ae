/* What comes from outside, as tables with their sources. */
#ifndef FACTS_FACTS_H
#define FACTS_FACTS_H

#include "base/base.h"

/* A GPU's memory as cudaMemGetInfo shows its total: a little below the nominal size. */
struct facts_gpu {
	const char *name;
	uint64_t total_low_bytes, total_high_bytes;
	const char *source;
	unsigned capability; /* CUDA's compute capability, 10 * major + minor; 0: AMD's */
	unsigned multiprocessors;
};

/* Smallest first. */
extern const struct facts_gpu facts_gpus[];
extern const size_t facts_gpu_count;

/*
 * The GPU that is called so, as people write it: maker, form factor and unit do not matter ("NVIDIA A100-SXM4-80GB",
 * "rtx4090", "4090"), or of that size (below).  PLIM_E_ARG: there is none, or it may be several; the message ends with `instead`, what else
 * could be given.
 */
enum plim_status facts_find_gpu(const char *name, const char *instead, const struct facts_gpu **out,
				struct plim_err *err);

/*
 * The GPU with the least memory of those that are sold with the size `name` ("24GB", "24"); NULL: it is not a size, or no GPU
 * has it.  `others`: names of the other ones, with commas between.
 */
const struct facts_gpu *facts_gpu_of_size(const char *name, char *others, size_t room);

/* What an allocator setting is known to cost, for those who set it. */
struct facts_setting_cost {
	const char *setting; /* a part of PYTORCH_CUDA_ALLOC_CONF, with or without its value */
	const char *text;
	const char *source;
};
extern const struct facts_setting_cost facts_setting_costs[];
extern const size_t facts_setting_cost_count;

#endif
