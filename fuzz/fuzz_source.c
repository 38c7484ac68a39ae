/*
 * Compressed and plain bytes through two windows, and through the blocks of the thread: the same
 * bytes must come out, and the same kind of end.
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

struct outcome {
	enum plim_status status;
	uint64_t sum, count;
};

static struct outcome read_once(const uint8_t *bytes, size_t n, const struct source_options *o,
				size_t step)
{
	struct outcome r = { .sum = 0 };
	struct source_info info;
	struct mem m;
	struct plim_err err;
	struct source *s;

	mem_init(&m, LIMIT_BYTES);
	r.status = source_open_memory(&m, "memory", bytes, n, SOURCE_MEMORY_DETECT, o, &s, &err);
	if (!r.status) {
		r.status = drain(s, step, &r.sum, &r.count, &err);
		source_get_info(s, &info);
		source_close(s);
	}
	if (m.used_bytes)
		abort();
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const struct {
		struct source_options options;
		size_t step;
	} ways[] = {
		{ { DECODED_BYTES, 0, SOURCE_THREAD_NONE }, 1 },
		{ { DECODED_BYTES, 4096, SOURCE_THREAD_NONE }, 77 },
		{ { DECODED_BYTES, 4096, SOURCE_THREAD_ALWAYS }, 77 },
	};
	struct outcome first = read_once(bytes, n, &ways[0].options, ways[0].step);

	/* Near the limit the size of the window may decide; elsewhere nothing may differ. */
	for (size_t i = 1; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct outcome r = read_once(bytes, n, &ways[i].options, ways[i].step);

		if (first.status == PLIM_E_LIMIT || r.status == PLIM_E_LIMIT)
			continue;
		if (r.status != first.status ||
		    (!r.status && (r.sum != first.sum || r.count != first.count)))
			abort();
	}
	return 0;
}
