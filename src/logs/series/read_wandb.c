/*
 * W&B's offline log, run-ID.wandb: records of protobuf in the framing of LevelDB's log.
 *
 *	":W&B" | u16 0xbee1 | u8 version, then blocks of 32768 bytes (the header counts into the first)
 *	chunk: u32 crc | u16 length | u8 type (1 whole, 2 first, 3 middle, 4 last) | data
 *
 * The crc is the plain CRC-32 of type and data, not LevelDB's.  Fewer than 7 bytes at the end of a block are padding.
 * Record {2 history, 18 exit, 17 run}; history {1 item {1 key, 2 nested_key, 16 value_json}, 2 step {1 num}}.
 */
#include "parts.h"
#include "wire.h"

#include <zlib.h>

#define HEADER 7
#define BLOCK 32768u
#define RECORD_MAX (16u << 20)

struct framing {
	struct series_input *in;
	const uint8_t *p;
	VEC(uint8_t) record; /* of several chunks */
	bool inside;
	uint64_t began; /* offset of the first chunk of the record */
};

static uint32_t le(const uint8_t *p, unsigned n)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v |= (uint32_t)p[i] << (8 * i);
	return v;
}

static void append_name(char *name, size_t room, size_t *n, const struct wire_field *f)
{
	if (*n && *n + 1 < room)
		name[(*n)++] = '.';
	for (size_t i = 0; i < f->n && *n + 1 < room; i++)
		name[(*n)++] = (char)f->at[i];
}

static enum plim_status take_item(struct series_run *r, struct wire w, struct plim_err *err)
{
	char name[256];
	size_t n = 0;
	double value;
	struct wire_field f, json = { 0 };

	while (wire_next(&w, &f)) {
		if ((f.number == 1 || f.number == 2) && f.at)
			append_name(name, sizeof(name), &n, &f);
		else if (f.number == 16 && f.at)
			json = f;
	}
	if (!n || !json.at)
		return PLIM_OK;
	if (json.n > 2 && json.at[0] == '"') { /* "NaN" is also written as text */
		json.at++;
		json.n -= 2;
	}
	if (series_number((const char *)json.at, json.n, &value) != json.n)
		return PLIM_OK;
	return series_row_put(r, name, n, value, err);
}

static enum plim_status take_history(struct series_run *r, struct wire w, struct plim_err *err)
{
	struct wire_field f, g;
	enum plim_status st = PLIM_OK;

	series_row_begin(r);
	while (!st && wire_next(&w, &f)) {
		if (f.number == 1 && f.at)
			st = take_item(r, (struct wire){ f.at, f.at + f.n }, err);
		if (f.number == 2 && f.at) {
			struct wire step = { f.at, f.at + f.n };

			while (wire_next(&step, &g))
				if (g.number == 1 && !g.type && isnan(r->row_step))
					r->row_step = (double)(int64_t)g.value;
		}
	}
	return st ? st : series_row_end(r, err);
}

static enum plim_status take_record(struct framing *g, const uint8_t *at, size_t n,
				    struct plim_err *err)
{
	struct wire w = { at, at + n };
	struct wire_field f;
	enum plim_status st = PLIM_OK;

	while (!st && wire_next(&w, &f)) {
		if (f.number == 2 && f.at)
			st = take_history(g->in->run, (struct wire){ f.at, f.at + f.n }, err);
		if (f.number == 18)
			g->in->run->ended = true;
	}
	return st;
}

static enum plim_status take_chunk(struct framing *g, unsigned type, const uint8_t *data, size_t n,
				   uint64_t offset, struct plim_err *err)
{
	struct series_run *r = g->in->run;
	enum plim_status st;

	if (type == 1 || type == 2) {
		if (g->inside)
			series_bad_record(r, g->began);
		g->began = offset;
		g->record.n = 0;
	} else if (!g->inside) {
		return PLIM_OK; /* the rest of what was lost */
	}
	g->inside = type == 2 || type == 3;
	if (type == 1)
		return take_record(g, data, n, err);
	if (g->record.n + n > RECORD_MAX) {
		g->inside = false;
		series_bad_record(r, g->began);
		return PLIM_OK;
	}
	st = vec_need(r->mem, &g->record, n, err);
	if (st)
		return st;
	if (n)
		memcpy(g->record.at + g->record.n, data, n);
	g->record.n += n;
	return type == 4 ? take_record(g, g->record.at, g->record.n, err) : PLIM_OK;
}

/* To the next block; false: the input ends. */
static bool next_block(struct framing *g, uint64_t offset, enum plim_status *st,
		       struct plim_err *err)
{
	struct source *s = g->in->source;
	uint64_t to = (offset / BLOCK + 1) * BLOCK;

	*st = source_skip_to(s, to, err);
	if (*st == PLIM_E_FORMAT) {
		*st = PLIM_OK;
		return false;
	}
	g->p = s->p;
	return !*st;
}

static enum plim_status read_chunks(struct framing *g, struct plim_err *err)
{
	struct source *s = g->in->source;
	enum plim_status st = PLIM_OK;

	for (;;) {
		uint64_t offset = source_offset(s, g->p), left = BLOCK - offset % BLOCK;
		size_t n;

		if (!g->inside)
			g->in->file->offset = offset;
		if (left < HEADER) {
			if (!next_block(g, offset, &st, err))
				return st;
			continue;
		}
		st = source_need(s, g->p, BLOCK, err);
		g->p = s->p;
		if (st || s->end - g->p < HEADER)
			break;
		n = le(g->p + 4, 2);
		if (n + HEADER > left || g->p[6] < 1 || g->p[6] > 4 ||
		    (n + HEADER <= (size_t)(s->end - g->p) &&
		     crc32(0, g->p + 6, (unsigned)n + 1) != le(g->p, 4))) {
			if (!n && !g->p[6] && !le(g->p, 4)) /* zeros: preallocated */
				break;
			series_bad_record(g->in->run, offset);
			g->inside = false;
			if (!next_block(g, offset, &st, err))
				return st;
			continue;
		}
		if (n + HEADER > (size_t)(s->end - g->p))
			break;
		st = take_chunk(g, g->p[6], g->p + HEADER, n, offset, err);
		if (st)
			return st;
		g->p += HEADER + n;
	}
	g->in->run->torn |= !st && (g->inside || s->end > g->p);
	return st;
}

enum plim_status series_read_wandb(struct series_input *in, struct plim_err *err)
{
	struct framing g = { .in = in, .p = in->source->p };
	enum plim_status st = source_need(in->source, g.p, HEADER, err);

	g.p = in->source->p;
	if (st)
		return st;
	if (!in->file->offset) {
		if (in->source->end - g.p < HEADER || memcmp(g.p, ":W&B", 4))
			return err_set(err, PLIM_E_FORMAT, "'%s' is not a log of W&B",
				       in->file->path);
		g.p += HEADER;
	}
	st = read_chunks(&g, err);
	vec_release(in->run->mem, &g.record);
	return st;
}
