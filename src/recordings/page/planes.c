/* Columns of numbers as planes of bytes, which deflate well: bytes that mean the same stand together. */
#include "parts.h"

#include <string.h>

/* Differences wrap; those of wider values would not be exact in a browser's numbers. */
#define DELTA_MOST_BYTES 6

static unsigned plane_width_of(const uint64_t *v, size_t n)
{
	uint64_t all = 0;
	unsigned bytes = 0;

	for (size_t i = 0; i < n; i++)
		all |= v[i];
	for (; all; all >>= 8)
		bytes++;
	return bytes;
}

/* Can all be said relative to the other column, and is that there? */
static int lies_behind(const uint64_t *v, const uint64_t *other, enum coding coding, size_t n)
{
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++) {
		if (v[i] < other[i] && (v[i] || coding == CODING_PLUS))
			return 0;
		all |= other[i];
	}
	return all != 0;
}

/* From values to what is stored; the coding that was possible. */
static enum coding encode(uint64_t *v, const uint64_t *other, enum coding coding, unsigned width,
			  size_t n)
{
	switch (coding) {
	case CODING_DELTA:
		if (width > DELTA_MOST_BYTES)
			return CODING_PLAIN;
		for (size_t i = n; i-- > 1;)
			v[i] -= v[i - 1];
		return coding;
	case CODING_PLUS:
		if (!lies_behind(v, other, coding, n))
			return CODING_PLAIN;
		for (size_t i = 0; i < n; i++)
			v[i] -= other[i];
		return coding;
	case CODING_AFTER:
		if (!lies_behind(v, other, coding, n))
			return CODING_PLAIN;
		for (size_t i = 0; i < n; i++)
			v[i] = v[i] ? v[i] - other[i] + 1 : 0;
		return coding;
	case CODING_PLAIN: break;
	}
	return CODING_PLAIN;
}

enum plim_status planes_add(struct planes *c, struct plane_values v, enum coding coding,
			    const struct plane_values *other, size_t n, struct plim_err *err)
{
	unsigned width = plane_width_of(v.at, n);
	struct column column = { .name = v.name, .at = c->bytes.n, .rows = n };
	enum plim_status st;
	uint8_t *to;

	if (!width)
		return PLIM_OK;
	column.coding = encode(v.at, other ? other->at : NULL, coding, width, n);
	column.other =
		column.coding == CODING_PLUS || column.coding == CODING_AFTER ? other->name : NULL;
	if (column.other)
		width = plane_width_of(v.at, n);
	column.bytes = width ? width : 1; /* nothing is added anywhere: that still is to be said */
	if (n > SIZE_MAX / 8 - c->bytes.n)
		return err_set(err, PLIM_E_LIMIT, "too many rows for a page");
	st = vec_need(c->mem, &c->bytes, n * column.bytes, err);
	if (!st)
		st = vec_push(c->mem, &c->list, column, err);
	if (st)
		return st;
	to = c->bytes.at + c->bytes.n;
	for (unsigned k = 0; k < column.bytes; k++)
		for (size_t i = 0; i < n; i++)
			*to++ = (uint8_t)(v.at[i] >> (8 * k));
	c->bytes.n += n * column.bytes;
	return PLIM_OK;
}

void planes_emit(const struct planes *c, struct json_out *j)
{
	json_object(j, "columns", JSON_LINES);
	for (size_t i = 0; i < c->list.n; i++) {
		const struct column *one = &c->list.at[i];

		json_object(j, one->name, JSON_LINE);
		json_u64(j, "at", one->at);
		json_u64(j, "rows", one->rows);
		json_u64(j, "bytes", one->bytes);
		if (one->coding == CODING_DELTA)
			json_bool(j, "delta", true);
		if (one->other)
			json_string(j, one->coding == CODING_PLUS ? "plus" : "after", one->other);
		json_object_end(j);
	}
	json_object_end(j);
}

void planes_release(struct planes *c)
{
	vec_release(c->mem, &c->bytes);
	vec_release(c->mem, &c->list);
}
