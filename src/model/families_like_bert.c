#include "rows.h"
const struct model_family model_like_bert[] = { { .name = "-" } };
const size_t model_like_bert_count = 0;
