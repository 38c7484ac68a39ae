/* PYTORCH_CUDA_ALLOC_CONF strings: read or refused with a reason, and what was read is sane. */
#include "allocator/allocator.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check(const char *conf, unsigned release)
{
	struct allocator_rules r;
	struct plim_err err = { 0 };

	if (allocator_rules_parse(conf, release, &r, &err)) {
		if (err.status != PLIM_E_ARG || !*err.message)
			abort();
		return;
	}
	if (r.gc_threshold < 0 || r.gc_threshold >= 1 || r.large_segment_bytes < 20u << 20 ||
	    r.max_split_bytes < 20u << 20)
		abort();
	for (uint64_t size = 1; size < (uint64_t)1 << 50; size = size * 3 + 1)
		if (allocator_round(&r, size) < size)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	char *conf = malloc(n + 1);

	if (!conf)
		abort();
	memcpy(conf, bytes, n);
	conf[n] = 0;
	check(conf, 0);
	check(conf, 204);
	free(conf);
	return 0;
}
