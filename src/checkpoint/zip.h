/* What the two ways to read a zip share: by its directory, and without. */
#ifndef CHECKPOINT_ZIP_H
#define CHECKPOINT_ZIP_H

#include "parts.h"

#include <string.h>

#define LOCAL_BYTES 30

enum { FLAG_ENCRYPTED = 1, FLAG_DESCRIPTOR = 8, FLAG_PATCH = 32, FLAG_STRONG = 64 };

/* A little-endian number of n bytes. */
static inline uint64_t zip_le(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, p, n);
	return v;
}

#endif
