/*
 * NVML, opened at run time.  A symbol that is missing makes its number unknown, never a failure.  One thread.  Layouts are those of nvml.h by their width (docs/watch.md).
 */
#ifndef GPU_NVML_H
#define GPU_NVML_H

#include "gpu/card.h"

struct nvml;

/*
 * path NULL: where drivers put it.  PLIM_E_UNSUPPORTED with the reason: there is no driver, or it does not work.
 */
enum plim_status nvml_open(const char *path, struct nvml **out, struct plim_err *err);
void nvml_close(struct nvml *n);

unsigned nvml_count(const struct nvml *n);

/* Look at GPU `i` now.  Never fails: what cannot be had is unknown. */
void nvml_look(struct nvml *n, unsigned i, struct gpu_card *out);

#endif
