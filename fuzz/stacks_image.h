/*
 * Memory of another process as a file: the number of its main thread, where its Python is mapped, then pieces of it as they were read,
 * each an address, a length (32 bits) and its bytes.  A page with a piece in it can be read, with zeros around that.
 */
#ifndef STACKS_IMAGE_H
#define STACKS_IMAGE_H

#include "stacks/parts.h"

struct image {
	const unsigned char *at;
	size_t n;
	uint64_t main_thread, module;
};

static inline bool image_open(struct image *m, const unsigned char *bytes, size_t n)
{
	if (n < 16)
		return false;
	memcpy(&m->main_thread, bytes, 8);
	memcpy(&m->module, bytes + 8, 8);
	m->at = bytes + 16;
	m->n = n - 16;
	return true;
}

/* Pieces are of 1 MiB at most. */
static inline bool image_read(void *ctx, uint64_t at, void *to, size_t n)
{
	const struct image *m = ctx;
	bool any = false;

	memset(to, 0, n);
	for (size_t i = 0; m->n - i >= 12;) {
		uint64_t begin, from, end;
		uint32_t size;

		memcpy(&begin, m->at + i, 8);
		memcpy(&size, m->at + i + 8, 4);
		i += 12;
		if (size > m->n - i || size > 1 << 20)
			break;
		from = begin > at ? begin : at;
		end = begin + size < at + n ? begin + size : at + n;
		if (begin < UINT64_MAX / 2 && from < end) {
			memcpy((char *)to + (from - at), m->at + i + (from - begin),
			       (size_t)(end - from));
			any = true;
		}
		i += size;
	}
	return any;
}

#endif
