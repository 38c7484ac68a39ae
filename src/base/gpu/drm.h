/* What the kernel says of AMD's and Intel's GPUs: sysfs, and fdinfo of the processes that opened one (drm-usage-stats). */
#ifndef GPU_DRM_H
#define GPU_DRM_H

#include "base/base.h"

enum drm_engine { DRM_RENDER, DRM_COMPUTE, DRM_ENGINES };

/* An open GPU of a process, as /proc/PID/fdinfo/FD shows.  Counters are since it was opened; 0: not told. */
struct drm_client {
	char device[32]; /* "0000:03:00.0" */
	uint64_t id;     /* the same in several descriptors: counted once */
	uint64_t bytes;  /* of the GPU's own memory; PLIM_UNKNOWN: not known */
	uint64_t busy_ns[DRM_ENGINES];
	uint64_t busy_cycles[DRM_ENGINES], all_cycles[DRM_ENGINES];
};

/* Foreign text; false: it is of no GPU. */
bool drm_client_parse(const char *text, struct drm_client *out);

#endif
