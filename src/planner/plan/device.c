/*
 * What of a GPU decides how much PyTorch takes, by compute capability: threads of a multiprocessor (CUDA's programming
 * guide), cuBLAS's workspace (CublasHandlePool.cpp, getChosenWorkspaceSize), the kernel that
 * scaled_dot_product_attention prefers (sdp_utils.cpp).  Measured on Hopper; the others follow the same sources.
 */
#include "plan/recipe.h"

#define SMALL_WORKSPACE (2 * (4096u << 10) + 8 * (16u << 10)) /* ":4096:2:16:8" */
#define HOPPER_WORKSPACE (32u << 20)
#define LT_WORKSPACE (1u << 20)

const struct plan_device plan_device_default = { .capability = 90,
						 .multiprocessors = 132,
						 .threads_per_multiprocessor = 2048,
						 .blas_workspace_bytes = HOPPER_WORKSPACE,
						 .lt_workspace_bytes = LT_WORKSPACE,
						 .cudnn_attention = true,
						 .flash_attention = true };

/* From this capability on, until the next row's. */
static const struct generation {
	unsigned capability, threads;
	uint64_t blas_workspace_bytes, lt_workspace_bytes;
	bool cudnn_attention, flash_attention;
} generations[] = {
	/* AMD's CDNA 3: hipBLAS and hipBLASLt */
	{ 0, 2048, 128 << 20, 76 << 20, false, true },
	{ 60, 2048, SMALL_WORKSPACE, LT_WORKSPACE, false, false },
	{ 75, 1024, SMALL_WORKSPACE, LT_WORKSPACE, false, false },
	{ 80, 2048, SMALL_WORKSPACE, LT_WORKSPACE, false, true },
	{ 86, 1536, SMALL_WORKSPACE, LT_WORKSPACE, false, true },
	{ 90, 2048, HOPPER_WORKSPACE, LT_WORKSPACE, true, true },
	{ 100, 2048, HOPPER_WORKSPACE, LT_WORKSPACE, true, true },
	{ 120, 1536, HOPPER_WORKSPACE, LT_WORKSPACE, false, true },
};

struct plan_device plan_device_of(unsigned capability, unsigned multiprocessors)
{
	const struct generation *g = generations;

	for (size_t i = 0; i < sizeof(generations) / sizeof(generations[0]); i++)
		if (generations[i].capability <= capability)
			g = &generations[i];
	return (struct plan_device){ .capability = capability,
				     .multiprocessors = multiprocessors,
				     .threads_per_multiprocessor = g->threads,
				     .blas_workspace_bytes = g->blas_workspace_bytes,
				     .lt_workspace_bytes = g->lt_workspace_bytes,
				     .cudnn_attention = g->cudnn_attention,
				     .flash_attention = g->flash_attention };
}
