/* Any bytes behind GGUF's magic.  Of a file in which nothing is wrong no two tensors share bytes. */
#include "checkpoint_read.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check(const struct ckpt *c)
{
	uint64_t end = 0;

	for (size_t i = 0; i < c->findings.n; i++)
		if (c->findings.at[i].severity == CKPT_BAD_FINDING)
			return;
	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct ckpt_extent *x = &c->extents.at[c->tensors.at[i].extent];

		must(x->offset >= end && ckpt_tensor_bytes(&c->tensors.at[i]) == x->bytes);
		end = x->offset + x->bytes;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	uint8_t *file = malloc(n + 8);

	must(file != NULL);
	memcpy(file, "GGUF\3\0\0\0", 8);
	memcpy(file + 8, bytes, n);
	read_bytes(file, n + 8, check);
	free(file);
	return 0;
}
