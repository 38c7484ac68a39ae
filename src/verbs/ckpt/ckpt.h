/* What the parts of the ckpt verbs share. */
#ifndef API_CKPT_H
#define API_CKPT_H

#include "base/base.h"
#include "checkpoint/checkpoint.h"

#include <plimsoll/ckpt.h>

struct plim_ckpt_hidden {
	struct mem mem;
	struct ckpt ckpt;
	struct arena arena;
	bool values; /* were looked at */
};

/* By enum plim_ckpt_verdict, for people. */
extern const char *const ckpt_verdict_names[];

#endif
