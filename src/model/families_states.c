#include "rows.h"
const struct model_family model_states[] = { { .name = "-" } };
const size_t model_states_count = 0;
