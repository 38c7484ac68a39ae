/* GPU drivers, opened at run time: CUDA's for what runs on a card, NVML for looking at it. */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "gpu/cuda.h"
#include "gpu/nvml.h"

#endif
