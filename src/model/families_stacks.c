#include "rows.h"
const struct model_family model_stacks[] = { { .name = "-" } };
const size_t model_stacks_count = 0;
