/*
 * Compressed and plain bytes through two windows, without the thread: the same bytes must come
 * out, and the same kind of end.
 */
#include "base/base.h"

#include <stdlib.h>

#define LIMIT_BYTES ((uint64_t)128 << 20)
#define DECODED_BYTES ((uint64_t)4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static enum plim_status drain(struct source *s, size_t step, uint64_t *sum, uint64_t *count,
			      struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	do {
		for (const uint8_t *p = s->p; p < s->end; p++)
			*sum = (*sum ^ *p) * 0x100000001b3u;
		*count += (uint64_t)(s->end - s->p);
		if (source_offset(s, s->end) != *count)
			abort();
		for (size_t i = 0; i < SOURCE_PAD; i++)
			if (s->end[i])
				abort();
		if (s->eof)
			break;
		st = source_need(s, s->end, step, err);
	} while (!st && s->p < s->end);
	return st;
}

static enum plim_status read_once(const uint8_t *bytes, size_t n, size_t window, size_t step,
				  uint64_t *sum, uint64_t *count)
{
	struct source_options o = { DECODED_BYTES, window, SOURCE_THREAD_NONE };
	struct source_info info;
	struct mem m;
	struct plim_err err;
	struct source *s;
	enum plim_status st;

	*sum = *count = 0;
	mem_init(&m, LIMIT_BYTES);
	st = source_open_memory(&m, "memory", bytes, n, SOURCE_MEMORY_DETECT, &o, &s, &err);
	if (!st) {
		st = drain(s, step, sum, count, &err);
		source_get_info(s, &info);
		source_close(s);
	}
	if (m.used_bytes)
		abort();
	return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	uint64_t sum[2], count[2];
	enum plim_status a = read_once(bytes, n, 0, 1, &sum[0], &count[0]);
	enum plim_status b = read_once(bytes, n, 4096, 77, &sum[1], &count[1]);

	/* Near the limit the size of the window may decide; elsewhere nothing may differ. */
	if (a != PLIM_E_LIMIT && b != PLIM_E_LIMIT &&
	    (a != b || (!a && (sum[0] != sum[1] || count[0] != count[1]))))
		abort();
	return 0;
}
