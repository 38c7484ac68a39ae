/* Tables of a code object from places in its bytecode to places in its source: 3.11's, and that of 3.10 (PEP 626). */
#include "parts.h"

#define MOST_LINE (1 << 28)
#define NO_LINE 128u /* of 3.10: as a byte with a sign the least */

struct reader {
	const unsigned char *at;
	size_t n, i;
	bool odd;
};

static unsigned byte(struct reader *r)
{
	if (r->i >= r->n) {
		r->odd = true;
		return 0;
	}
	return r->at[r->i++];
}

/* Six bits at a time, the least first. */
static uint32_t line_table_number(struct reader *r)
{
	uint32_t value = 0;
	unsigned b;

	for (unsigned shift = 0; shift < 30; shift += 6) {
		b = byte(r);
		value |= (b & 63) << shift;
		if (!(b & 64))
			return value;
	}
	r->odd = true;
	return 0;
}

static int32_t signed_number(struct reader *r)
{
	uint32_t v = line_table_number(r);

	return v & 1 ? -(int32_t)(v >> 1) : (int32_t)(v >> 1);
}

/* One entry behind its first byte; `line` goes on with it. */
static void line_table_entry(struct reader *r, unsigned code, int64_t *line,
			     struct stacks_frame *out)
{
	uint32_t further, column, end;
	unsigned b;

	out->line = out->column = out->end_column = 0;
	if (code == 15)
		return;
	if (code == 14) {
		*line += signed_number(r);
		further = line_table_number(r);
		column = line_table_number(r);
		end = line_table_number(r);
		out->column = further ? 0 : column;
		out->end_column = further ? 0 : end;
	} else if (code == 13) {
		*line += signed_number(r);
	} else if (code >= 10) {
		*line += code - 10;
		out->column = byte(r) + 1;
		out->end_column = byte(r) + 1;
	} else {
		b = byte(r);
		out->column = (code << 3 | b >> 4) + 1;
		out->end_column = out->column + (b & 15);
	}
	out->line = *line > 0 && *line < MOST_LINE ? (uint32_t)*line : 0;
}

static bool locations(struct reader *r, int64_t line, uint64_t unit, struct stacks_frame *out)
{
	uint64_t at = 0;

	while (r->i < r->n && !r->odd) {
		unsigned first = byte(r);

		if (!(first & 128) || line < -MOST_LINE || line > MOST_LINE)
			return false;
		line_table_entry(r, first >> 3 & 15, &line, out);
		at += (first & 7) + 1;
		if (unit < at)
			return !r->odd;
	}
	return false;
}

static bool ranges(struct reader *r, int64_t line, uint64_t offset, struct stacks_frame *out)
{
	uint64_t end = 0;

	while (r->i + 1 < r->n) {
		unsigned bytes = byte(r);
		unsigned step = byte(r);

		if (step != NO_LINE)
			line += step < NO_LINE ? (int64_t)step : (int64_t)step - 256;
		end += bytes;
		if (offset < end) {
			out->line = step != NO_LINE && line > 0 && line < MOST_LINE ? (uint32_t)line
										    : 0;
			return true;
		}
	}
	return false;
}

bool lines_find(unsigned version, const unsigned char *table, size_t n, uint32_t first_line,
		uint64_t offset, struct stacks_frame *out)
{
	struct reader r = { table, n, 0, false };

	out->line = out->column = out->end_column = 0;
	return version == 0x30a ? ranges(&r, first_line, offset, out)
				: locations(&r, first_line, offset / 2, out);
}
