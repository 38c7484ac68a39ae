/* Protobuf's wire format, read forward, and checksums of what is framed around it. */
#ifndef SERIES_WIRE_H
#define SERIES_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wire {
	const uint8_t *p, *end;
};

/* A field: `value` of a varint or of fixed bits; `at` and `n` of what has a length, else `at` is NULL. */
struct wire_field {
	uint32_t number, type;
	uint64_t value;
	const uint8_t *at;
	size_t n;
};

static inline bool wire_varint(struct wire *w, uint64_t *out)
{
	uint64_t v = 0;

	for (unsigned shift = 0; w->p < w->end && shift < 64; shift += 7) {
		uint8_t byte = *w->p++;

		v |= (uint64_t)(byte & 127) << shift;
		if (byte < 128) {
			*out = v;
			return true;
		}
	}
	return false;
}

/* The next field; false: the end, or what is not a field. */
static inline bool wire_next(struct wire *w, struct wire_field *f)
{
	uint64_t key;
	size_t fixed;

	if (w->p >= w->end || !wire_varint(w, &key))
		return false;
	f->number = (uint32_t)(key >> 3);
	f->type = (uint32_t)(key & 7);
	f->at = NULL;
	f->n = 0;
	f->value = 0;
	switch (f->type) {
	case 0: return wire_varint(w, &f->value);
	case 2:
		if (!wire_varint(w, &f->value) || f->value > (uint64_t)(w->end - w->p))
			return false;
		f->at = w->p;
		f->n = (size_t)f->value;
		w->p += f->n;
		return true;
	case 1:
	case 5:
		fixed = f->type == 1 ? 8 : 4;
		if ((size_t)(w->end - w->p) < fixed)
			return false;
		memcpy(&f->value, w->p, fixed);
		w->p += fixed;
		return true;
	default: return false; /* groups: no one writes them */
	}
}

/* CRC-32C (Castagnoli), and as TFRecord stores it. */
uint32_t wire_crc32c(const uint8_t *p, size_t n);

/* The same without the processor's instruction. */
uint32_t wire_crc32c_by_table(const uint8_t *p, size_t n);

static inline uint32_t wire_masked(uint32_t crc)
{
	return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

bool wire_is_event_file(const uint8_t *head, size_t n);

#endif
