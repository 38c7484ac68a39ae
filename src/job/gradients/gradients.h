/* NaN, infinities, the largest magnitude and the norm of many tensors in one pass, on a GPU or in host memory. */
#ifndef GRADIENTS_GRADIENTS_H
#define GRADIENTS_GRADIENTS_H

#include "base/base.h"

#include <plimsoll/gradients.h>

/* As plim_gradients_open, with all of *o set. */
enum plim_status gradients_open(const struct plim_gradients_options *o, struct plim_gradients **out,
				struct plim_err *err);

#endif
