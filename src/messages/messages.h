/*
 * PyTorch's out-of-memory texts.  Numbers in them are rounded to 0.01 of their unit, so each is an
 * interval.  Fields are found, not sentences: the wording changes with every release.
 */
#ifndef MESSAGES_MESSAGES_H
#define MESSAGES_MESSAGES_H

#include "base/base.h"

/* What a rounded number stands for.  Both PLIM_UNKNOWN: the text does not tell. */
struct messages_bytes {
	uint64_t low, high;
};

#define MESSAGES_PROCESSES 16

struct messages_oom {
	struct messages_bytes tried, total, free, allowed, allocated, unallocated, private_pools;
	struct messages_bytes reserved; /* of PyTorch: allocated and unallocated together */
	struct messages_bytes
		this_process; /* PyTorch's memory, the context and all else of this process */
	struct messages_bytes others; /* the other processes' together */
	uint32_t device;              /* PLIM_UNKNOWN cut to 32 bits: not told */
	uint32_t processes;           /* clauses about other processes */
	uint64_t line;                /* of the text, from 1 */
};

/*
 * The last out-of-memory message in a log, also one that is wrapped, coloured or prefixed with a rank.
 * *found is 0 when there is none.
 */
enum plim_status messages_find_oom(struct mem *m, const char *path, struct messages_oom *out,
				   int *found, struct plim_err *err);
/* The first one in a text of a few KiB; 0 when there is none. */
int messages_parse_oom(const char *text, size_t n, struct messages_oom *out);

#endif
