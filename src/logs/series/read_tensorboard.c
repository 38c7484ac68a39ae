/*
 * TensorBoard event files: TFRecords of protobuf messages.
 *
 *	u64 length | u32 masked crc32c of these 8 bytes | data | u32 masked crc32c of data
 *
 * Event {1 wall_time double, 2 step int64, 5 summary}; Summary {1 value, repeated}; Value {1 tag, 2 simple_value
 * float, 8 tensor, 9 metadata}.  A record that ends behind the file's end is one that is being written.
 */
#include "parts.h"
#include "wire.h"

#define RECORD_MAX (64u << 20) /* more is not a scalar: it is skipped unread */

static uint32_t u32_at(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return v;
}

static uint64_t u64_at(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return v;
}

static bool is_header(const uint8_t *p, uint64_t *length)
{
	*length = u64_at(p);
	return *length < (1ull << 40) && u32_at(p + 8) == wire_masked(wire_crc32c(p, 8));
}

bool wire_is_event_file(const uint8_t *head, size_t n)
{
	uint64_t length;

	return n >= 12 && is_header(head, &length);
}

/* ---- tensors ---- */

static double half(uint32_t h)
{
	int e = (int)(h >> 10 & 31);
	double v = e == 31 ? (h & 1023 ? NAN : INFINITY)
		   : e     ? ldexp(1024 + (h & 1023), e - 25)
			   : ldexp(h & 1023, -24);

	return h >> 15 ? -v : v;
}

enum { DT_FLOAT = 1, DT_DOUBLE = 2, DT_INT32 = 3, DT_INT64 = 9, DT_BFLOAT16 = 14, DT_HALF = 19 };

static double from_bytes(uint64_t dtype, const uint8_t *p, size_t n)
{
	uint64_t raw = 0;
	float f;
	double d;

	if (n > 8)
		return NAN;
	memcpy(&raw, p, n);
	switch (dtype) {
	case DT_FLOAT:
	case DT_BFLOAT16:
		raw <<= dtype == DT_BFLOAT16 ? 16 : 0;
		memcpy(&f, &raw, 4);
		return f;
	case DT_DOUBLE: memcpy(&d, &raw, 8); return d;
	case DT_HALF: return half((uint32_t)raw);
	case DT_INT32: return (int32_t)raw;
	default: return (double)(int64_t)raw;
	}
}

/* A tensor of one number. */
static bool scalar_of(struct wire w, double *out)
{
	static const struct {
		uint32_t field, dtype;
	} lists[] = { { 5, DT_FLOAT }, { 6, DT_DOUBLE }, { 7, DT_INT32 }, { 10, DT_INT64 } };
	uint64_t dtype = 0;
	bool found = false;
	struct wire_field f;

	while (wire_next(&w, &f)) {
		if (f.number == 1)
			dtype = f.value;
		if (f.number == 4 && f.at && f.n) {
			*out = from_bytes(dtype, f.at, f.n);
			found = f.n <= 8;
		}
		for (size_t i = 0; i < 4; i++)
			if (f.number == lists[i].field) {
				struct wire packed = { f.at, f.at + f.n };
				uint64_t v = f.value;

				if (f.at && lists[i].dtype >= DT_INT32 && !wire_varint(&packed, &v))
					return false;
				*out = f.at && lists[i].dtype < DT_INT32
					       ? from_bytes(lists[i].dtype, f.at, f.n)
					       : from_bytes(lists[i].dtype, (const uint8_t *)&v, 8);
				found = true;
			}
		if (f.number == 13) {
			struct wire packed = { f.at, f.at + f.n };
			uint64_t v = f.value;

			if (f.at && !wire_varint(&packed, &v))
				return false;
			*out = from_bytes(dtype ? dtype : DT_HALF, (const uint8_t *)&v, 8);
			found = true;
		}
	}
	return found;
}

static bool says_scalars(struct wire w)
{
	struct wire_field f, g;

	while (wire_next(&w, &f)) {
		struct wire plugin = { f.at, f.at + f.n };

		while (f.number == 1 && f.at && wire_next(&plugin, &g))
			if (g.number == 1 && g.at && g.n == 7 && !memcmp(g.at, "scalars", 7))
				return true;
	}
	return false;
}

/* ---- events ---- */

static enum plim_status take_value(struct series_run *r, struct wire w, double step, double time,
				   struct plim_err *err)
{
	struct wire_field f;
	struct wire tag = { 0 }, tensor = { 0 };
	bool simple = false, metadata = false;
	double value = NAN;
	uint32_t series;
	enum plim_status st;

	while (wire_next(&w, &f)) {
		if (f.number == 1 && f.at)
			tag = (struct wire){ f.at, f.at + f.n };
		else if (f.number == 2 && f.type == 5) {
			uint32_t raw = (uint32_t)f.value;
			float v;

			memcpy(&v, &raw, 4);
			value = v;
			simple = true;
		} else if (f.number == 8 && f.at)
			tensor = (struct wire){ f.at, f.at + f.n };
		else if (f.number == 9 && f.at)
			metadata = says_scalars((struct wire){ f.at, f.at + f.n });
	}
	if (!tag.p || tag.p == tag.end || (!simple && !tensor.p))
		return PLIM_OK;
	st = PLIM_OK;
	series = intern_find(&r->monitor.names, tag.p, (size_t)(tag.end - tag.p));
	/* Metadata stands on the first value of a tag only. */
	if (!simple && series == INTERN_NONE && !metadata)
		return PLIM_OK;
	if (!simple && !scalar_of(tensor, &value))
		return PLIM_OK;
	if (series == INTERN_NONE)
		st = series_run_series(r, (const char *)tag.p, (size_t)(tag.end - tag.p), &series,
				       err);
	if (st == PLIM_E_LIMIT && r->monitor.watches.n >= SERIES_MAX) {
		r->bad_cells++;
		return PLIM_OK;
	}
	return st ? st : series_run_point(r, series, step, time, value, err);
}

static enum plim_status take_event(struct series_input *in, struct wire w, struct plim_err *err)
{
	struct wire summary = { 0 };
	struct wire_field f;
	double time = NAN;
	int64_t step = 0;
	enum plim_status st = PLIM_OK;

	while (wire_next(&w, &f)) {
		if (f.number == 1 && f.type == 1)
			memcpy(&time, &f.value, 8);
		else if (f.number == 2 && !f.type)
			step = (int64_t)f.value;
		else if (f.number == 5 && f.at)
			summary = (struct wire){ f.at, f.at + f.n };
	}
	while (!st && summary.p && wire_next(&summary, &f))
		if (f.number == 1 && f.at)
			st = take_value(in->run, (struct wire){ f.at, f.at + f.n }, (double)step,
					time, err);
	return st;
}

/* ---- records ---- */

/* The header was damaged: the next place where one is whole, or NULL at the end. */
static const uint8_t *resync(struct source *s, const uint8_t *p, enum plim_status *st,
			     struct plim_err *err)
{
	uint64_t length;

	for (p++;; p++) {
		if (s->end - p < 12) {
			*st = source_need(s, p, 4096, err);
			p = s->p;
			if (*st || s->end - p < 12)
				return NULL;
		}
		if (is_header(p, &length))
			return p;
	}
}

enum plim_status series_read_tensorboard(struct series_input *in, struct plim_err *err)
{
	struct source *s = in->source;
	const uint8_t *p = s->p;
	uint64_t length;
	enum plim_status st = PLIM_OK;

	while (!st) {
		if (s->end - p < 12) {
			st = source_need(s, p, 12, err);
			p = s->p;
		}
		in->file->offset = source_offset(s, p);
		if (st || s->end - p < 12)
			break;
		if (!is_header(p, &length)) {
			series_bad_record(in->run, source_offset(s, p));
			p = resync(s, p, &st, err);
			if (!p)
				break;
			continue;
		}
		if (length > RECORD_MAX) {
			st = source_skip_to(s, source_offset(s, p) + length + 16, err);
			if (st == PLIM_E_FORMAT) {
				in->run->torn = true;
				return PLIM_OK;
			}
			p = s->p;
			continue;
		}
		if ((uint64_t)(s->end - p) < length + 16) {
			st = source_need(s, p, length + 16, err);
			p = s->p;
			if (st || (uint64_t)(s->end - p) < length + 16)
				break;
		}
		if (u32_at(p + 12 + length) != wire_masked(wire_crc32c(p + 12, length)))
			series_bad_record(in->run, source_offset(s, p));
		else
			st = take_event(in, (struct wire){ p + 12, p + 12 + length }, err);
		p += length + 16;
	}
	in->run->torn |= !st && p && s->end > p;
	return st;
}
