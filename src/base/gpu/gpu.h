/* GPU drivers, opened at run time: CUDA's for what runs on a GPU; NVML and the kernel's for looking at it. */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "gpu/cuda.h"
#include "gpu/looker.h"

#endif
