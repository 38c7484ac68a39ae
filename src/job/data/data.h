/* Samples of a data set in one file: filled by several processes, gathered into batches by threads. */
#ifndef DATA_DATA_H
#define DATA_DATA_H

#include "base/base.h"

#include <plimsoll/data.h>

/* As plim_samples_open and plim_batches_new, with all of *o set. */
enum plim_status samples_open(const char *path, const struct plim_samples_options *o,
			      struct plim_samples **out, struct plim_err *err);
enum plim_status batches_new(struct plim_samples *s, const struct plim_batches_options *o,
			     struct plim_batches **out, struct plim_err *err);

#endif
