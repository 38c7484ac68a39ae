/*
 * What a sum needs next to its result: ATen/native/cuda/Reduce.cuh's setReduceConfig for a contiguous matrix that is
 * summed over its rows.  Few outputs and many rows are divided among blocks that meet in global memory; that staging
 * buffer can be as large as the matrix.
 */
#include "plan/recipe.h"

#define MAX_THREADS 512u
#define WARP 32u
#define MIN_VALUES 16u  /* a thread adds at least that many */
#define MAX_VALUES 256u /* and is relieved beyond */

static uint64_t last_power(uint64_t n)
{
	uint64_t p = 1;

	while (p * 2 <= n)
		p *= 2;
	return p;
}

static uint64_t reduction_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return b ? (a + b - 1) / b : 0;
}

uint64_t plan_reduce_bytes(const struct plan_device *d, uint64_t rows, uint64_t outputs,
			   unsigned element_bytes)
{
	/* vectors of 4 outputs where they divide (get_output_vec_size) */
	uint64_t vector = outputs % 4 == 0 ? 4 : outputs % 2 == 0 ? 2 : 1;
	uint64_t threads = MAX_THREADS / vector;
	uint64_t across =
		last_power(reduction_least(outputs / vector ? outputs / vector : 1, threads));
	uint64_t down = last_power(reduction_least(rows ? rows : 1, threads));
	uint64_t width = reduction_least(across, WARP),
		 height = reduction_least(down, threads / width);
	uint64_t values = rows, grid, target, blocks;

	(void)element_bytes; /* sums are kept in fp32 whatever is added */
	width = reduction_least(across, threads / height);
	grid = div_up(outputs / vector, width);
	if (values < height * MIN_VALUES && values < MAX_VALUES)
		return 0;
	values = div_up(rows, height);
	target = (uint64_t)d->multiprocessors * (d->threads_per_multiprocessor / (width * height));
	if (values < MAX_VALUES || grid > target)
		return 0;
	blocks = reduction_least(div_up(target, grid), div_up(values, MIN_VALUES));
	if (blocks < div_up(values, MAX_VALUES))
		blocks = div_up(values, MAX_VALUES);
	return blocks > 1 ? 4 * outputs * blocks * width * vector : 0;
}
