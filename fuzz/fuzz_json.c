/* JSON to its end, and again with everything skipped: both must agree on what is JSON. */
#include "base/base.h"

#include <stdlib.h>

#define LIMIT_BYTES ((uint64_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static enum plim_status read_all(struct json *j, int skip, uint64_t *tokens, struct plim_err *err)
{
	struct json_token t = { .kind = JSON_NULL };
	enum plim_status st = PLIM_OK;
	unsigned char sum = 0;

	while (!st) {
		st = json_next(j, &t, err);
		if (st || t.kind == JSON_END)
			break;
		++*tokens;
		for (size_t i = 0; (t.kind == JSON_KEY || t.kind == JSON_STRING) && i <= t.n; i++)
			sum ^= (unsigned char)t.string[i];
		if (skip)
			st = json_skip(j, &t, err);
	}
	return sum == 255 && *tokens == 0 ? PLIM_E_ARG : st;
}

static enum plim_status read_once(const uint8_t *bytes, size_t n, enum json_many many, int skip,
				  size_t window)
{
	struct source_options o = { .window_bytes = window, .thread = SOURCE_THREAD_NONE };
	struct mem m;
	struct plim_err err;
	struct source *s;
	struct json j;
	uint64_t tokens = 0;
	enum plim_status st;

	mem_init(&m, LIMIT_BYTES);
	st = source_open_memory(&m, "memory", bytes, n, SOURCE_MEMORY_PLAIN, &o, &s, &err);
	if (st)
		return st;
	st = json_init(&j, &m, s, many, &err);
	if (!st) {
		st = read_all(&j, skip, &tokens, &err);
		json_release(&j);
	}
	source_close(s);
	if (m.used_bytes)
		abort();
	return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	for (int many = JSON_ONE; many <= JSON_MANY; many++) {
		enum plim_status st = read_once(bytes, n, (enum json_many)many, 0, 0);

		if (read_once(bytes, n, (enum json_many)many, 1, 0) != st ||
		    read_once(bytes, n, (enum json_many)many, 0, 64) != st)
			abort();
	}
	return 0;
}
