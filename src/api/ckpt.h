/* What the parts of the ckpt verbs share. */
#ifndef API_CKPT_H
#define API_CKPT_H

#include "checkpoint/checkpoint.h"

#include <plimsoll/ckpt.h>

struct plim_ckpt_hidden {
	struct mem mem;
	struct ckpt ckpt;
	struct text scratch;
	/* blocks that the result points to, freed with it */
	VEC(struct ckpt_chunk {
		void *at;
		size_t bytes;
	})
	chunks;
};

extern const struct field_table ckpt_table;
/* By enum plim_ckpt_verdict: for people, and for programs. */
extern const char *const ckpt_verdict_names[], *const ckpt_verdict_slugs[];

#endif
