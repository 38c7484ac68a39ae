#include "facts.h"

const struct facts_setting_cost facts_setting_costs[] = {
	{ "expandable_segments:True",
	  "cudaIpcGetMemHandle does not take such memory: sharing CUDA tensors between processes "
	  "failed before 2.5 and still does in libraries that use it directly, custom all-reduce "
	  "among them",
	  "pytorch #130330, vllm #42609" },
	{ "expandable_segments:True",
	  "UCX moved such memory over TCP without a warning, hundreds of times slower",
	  "nixl #1754" },
	{ "expandable_segments:True",
	  "CUDA graphs with collectives hung in one trainer; graphs' private pools used cudaMalloc "
	  "all the same before 2.5",
	  "torchtitan #3306" },
	{ "expandable_segments:True",
	  "on Windows and in builds without the driver API PyTorch only warns and goes on without",
	  "pytorch #122057" },
	{ "garbage_collection_threshold",
	  "does nothing unless set_per_process_memory_fraction (or per_process_memory_fraction) is "
	  "set: the threshold is a share of that limit",
	  "c10/cuda/CUDACachingAllocator.cpp" },
	{ "max_split_size_mb",
	  "a request above it takes a segment of its own: where there is room more may be reserved "
	  "than without",
	  "docs/evidence/accuracy.md, serve" },
	{ "roundup_power2_divisions",
	  "every request above 1 MiB may grow by up to its share of a power of two",
	  "c10/cuda/CUDACachingAllocator.cpp" },
};
const size_t facts_setting_cost_count =
	sizeof(facts_setting_costs) / sizeof(facts_setting_costs[0]);
