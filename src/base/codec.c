#include "codec_kinds.h"

#include <limits.h>
#include <string.h>
#include <zstd_errors.h>

/* `xz -9` needs 65 MiB to decompress; a header that asks for far more is damage or an attack. */
#define XZ_MEMORY_BYTES (256ull << 20)

/* 128 MiB, what `zstd -d` allows without --long. */
#define ZSTD_WINDOW_LOG 27

uint64_t codec_at_byte(const struct codec *c)
{
	return c->read_bytes - (c->in_n - c->in_pos);
}

enum plim_status codec_damaged(const struct codec *c, struct plim_err *err)
{
	return err_at_more(err, codec_at_byte(c), "copy the file again", "'%s': %s data is damaged",
			   c->input.name, c->kind->name);
}

enum plim_status codec_no_memory(const struct codec *c, struct plim_err *err)
{
	return err_set(err, mem_status(err), "'%s': out of memory for %s data", c->input.name,
		       c->kind->name);
}

static enum plim_status too_large(const struct codec *c, struct plim_err *err)
{
	return err_set(err, PLIM_E_LIMIT,
		       "'%s': %s data asks for too much memory to be decompressed", c->input.name,
		       c->kind->name);
}

/* What the memory limit leaves, at most `most`. */
static uint64_t memory_left(const struct codec *c, uint64_t most)
{
	uint64_t used = atomic_load(&c->mem->used_bytes);
	uint64_t left = c->mem->limit_bytes > used ? c->mem->limit_bytes - used : 0;

	if (c->mem->decoder_bytes)
		left = c->mem->decoder_bytes;
	return left < most ? left : most;
}

static enum plim_status gzip_start(struct codec *c, struct plim_err *err)
{
	/* 16: a gzip wrapper is demanded, 15: the largest window, 32 KiB. */
	return inflateInit2(&c->u.gzip, 16 + 15) == Z_OK ? PLIM_OK : codec_no_memory(c, err);
}

/* Between members: tape padding (zeros) may follow the last one, nothing else. */
static enum plim_status gzip_between(struct codec *c, struct plim_err *err)
{
	if (c->in[c->in_pos] == 0x1f && !c->padding) {
		c->between = false;
		return inflateReset(&c->u.gzip) == Z_OK ? PLIM_OK : codec_damaged(c, err);
	}
	c->padding = true;
	while (c->in_pos < c->in_n && !c->in[c->in_pos])
		c->in_pos++;
	if (c->in_pos < c->in_n)
		return err_at(err, codec_at_byte(c),
			      "'%s': gzip data is followed by something else", c->input.name);
	return PLIM_OK;
}

static enum plim_status gzip_step(struct codec *c, uint8_t *at, size_t room, size_t *made,
				  struct plim_err *err)
{
	z_stream *z = &c->u.gzip;
	uInt ask = room < UINT_MAX ? (uInt)room : UINT_MAX;
	int r;

	if (c->between) {
		enum plim_status st = gzip_between(c, err);

		if (st || c->between)
			return st;
	}
	z->next_in = c->in + c->in_pos;
	z->avail_in = (uInt)(c->in_n - c->in_pos);
	z->next_out = at;
	z->avail_out = ask;
	r = inflate(z, Z_NO_FLUSH);
	c->in_pos = c->in_n - z->avail_in;
	*made = ask - z->avail_out;
	c->between = r == Z_STREAM_END;
	if (r == Z_OK || r == Z_STREAM_END || r == Z_BUF_ERROR)
		return PLIM_OK;
	return r == Z_MEM_ERROR ? codec_no_memory(c, err) : codec_damaged(c, err);
}

static void gzip_stop(struct codec *c)
{
	inflateEnd(&c->u.gzip);
}

static enum plim_status xz_start(struct codec *c, struct plim_err *err)
{
	uint64_t limit = memory_left(c, XZ_MEMORY_BYTES);

	c->u.xz = (lzma_stream)LZMA_STREAM_INIT;
	return lzma_auto_decoder(&c->u.xz, limit, LZMA_CONCATENATED) == LZMA_OK
		       ? PLIM_OK
		       : codec_no_memory(c, err);
}

static enum plim_status xz_step(struct codec *c, uint8_t *at, size_t room, size_t *made,
				struct plim_err *err)
{
	lzma_stream *x = &c->u.xz;
	lzma_ret r;

	x->next_in = c->in + c->in_pos;
	x->avail_in = c->in_n - c->in_pos;
	x->next_out = at;
	x->avail_out = room;
	r = lzma_code(x, c->in_eof ? LZMA_FINISH : LZMA_RUN);
	c->in_pos = c->in_n - x->avail_in;
	*made = room - x->avail_out;
	switch (r) {
	case LZMA_OK:
	case LZMA_BUF_ERROR: return PLIM_OK;
	case LZMA_STREAM_END: c->between = true; return PLIM_OK;
	case LZMA_MEM_ERROR: return codec_no_memory(c, err);
	case LZMA_MEMLIMIT_ERROR: return too_large(c, err);
	default: return codec_damaged(c, err);
	}
}

static void xz_stop(struct codec *c)
{
	lzma_end(&c->u.xz);
}

static enum plim_status zstd_start(struct codec *c, struct plim_err *err)
{
	int log = ZSTD_WINDOW_LOG;

	c->u.zstd = ZSTD_createDCtx();
	if (!c->u.zstd)
		return codec_no_memory(c, err);
	while (log > 10 && (1ull << log) > memory_left(c, UINT64_MAX))
		log--;
	ZSTD_DCtx_setParameter(c->u.zstd, ZSTD_d_windowLogMax, log);
	return PLIM_OK;
}

static enum plim_status zstd_step(struct codec *c, uint8_t *at, size_t room, size_t *made,
				  struct plim_err *err)
{
	ZSTD_inBuffer in = { c->in, c->in_n, c->in_pos };
	ZSTD_outBuffer out = { at, room, 0 };
	size_t r;

	if (c->between && c->in_pos == c->in_n)
		return PLIM_OK;
	r = ZSTD_decompressStream(c->u.zstd, &out, &in);
	c->in_pos = in.pos;
	*made = out.pos;
	if (ZSTD_isError(r)) {
		switch (ZSTD_getErrorCode(r)) {
		case ZSTD_error_frameParameter_windowTooLarge: return too_large(c, err);
		case ZSTD_error_memory_allocation: return codec_no_memory(c, err);
		default: return codec_damaged(c, err);
		}
	}
	c->between = r == 0;
	return PLIM_OK;
}

static void zstd_stop(struct codec *c)
{
	ZSTD_freeDCtx(c->u.zstd);
}

#define ALL 0xff
#define XZ_BYTES (68u << 20)   /* xz -9: a dictionary of 64 MiB */
#define ZSTD_BYTES (12u << 20) /* zstd -19: a window of 8 MiB */
#define BZIP2_BYTES (4u << 20) /* four bytes for each of a block's 900,000 */

static const struct codec_kind kinds[] = {
	{ "gzip", { 0x1f, 0x8b }, { ALL, ALL }, 2, 64 << 10, gzip_start, gzip_step, gzip_stop },
	{ "xz",
	  { 0xfd, '7', 'z', 'X', 'Z', 0 },
	  { ALL, ALL, ALL, ALL, ALL, ALL },
	  6,
	  XZ_BYTES,
	  xz_start,
	  xz_step,
	  xz_stop },
	/* The older form: the usual properties, any dictionary, a length that is not known (-1). */
	{ "lzma",
	  { ']', 0, 0, 0, 0, ALL, ALL, ALL },
	  { ALL, ALL, ALL, 0, 0, ALL, ALL, ALL },
	  8,
	  XZ_BYTES,
	  xz_start,
	  xz_step,
	  xz_stop },
	{ "zstd",
	  { 0x28, 0xb5, 0x2f, 0xfd },
	  { ALL, ALL, ALL, ALL },
	  4,
	  ZSTD_BYTES,
	  zstd_start,
	  zstd_step,
	  zstd_stop },
	/* A skippable frame in front, as parallel compressors write it. */
	{ "zstd",
	  { 0x50, 0x2a, 0x4d, 0x18 },
	  { 0xf0, ALL, ALL, ALL },
	  4,
	  ZSTD_BYTES,
	  zstd_start,
	  zstd_step,
	  zstd_stop },
	{ "bzip2",
	  { 'B', 'Z', 'h', 0, 0x31, 0x41 },
	  { ALL, ALL, ALL, 0, ALL, ALL },
	  6,
	  BZIP2_BYTES,
	  bunzip2_start,
	  bunzip2_step,
	  bunzip2_stop },
	{ "zip",
	  { 'P', 'K', 3, 4 },
	  { ALL, ALL, ALL, ALL },
	  4,
	  64 << 10,
	  unzip_start,
	  unzip_step,
	  unzip_stop },
	{ "UTF-16", { 0xff, 0xfe }, { ALL, ALL }, 2, 0, utf16_start, utf16_step, utf16_stop },
	{ "UTF-16", { 0xfe, 0xff }, { ALL, ALL }, 2, 0, utf16_start, utf16_step, utf16_stop },
};

const struct codec_kind *codec_detect(const uint8_t *head, size_t n)
{
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		size_t i = 0;

		while (i < kinds[k].magic_n && i < n &&
		       (head[i] & kinds[k].mask[i]) == kinds[k].magic[i])
			i++;
		if (i == kinds[k].magic_n)
			return &kinds[k];
	}
	return NULL;
}

const char *codec_kind_name(const struct codec_kind *kind)
{
	return kind->name;
}

uint64_t codec_kind_bytes(const struct codec_kind *kind)
{
	return kind->decoder_bytes;
}

enum plim_status codec_open(struct mem *m, const struct codec_kind *kind, struct codec_input input,
			    struct codec **out, struct plim_err *err)
{
	struct codec *c = mem_new(m, 1, sizeof(*c), err);
	enum plim_status st = c ? PLIM_OK : mem_status(err);

	if (!st) {
		c->mem = m;
		c->kind = kind;
		c->input = input;
		st = kind->start(c, err);
		c->started = !st;
	} else if (err) {
		st = err->status;
	}
	if (st) {
		codec_close(c);
		c = NULL;
	}
	*out = c;
	return st;
}

enum plim_status codec_refill(struct codec *c, struct plim_err *err)
{
	enum plim_status st;

	if (c->in_pos < c->in_n || c->in_eof)
		return PLIM_OK;
	c->in_pos = c->in_n = 0;
	st = c->input.read(c->input.ctx, c->in, sizeof(c->in), &c->in_n, err);
	c->read_bytes += c->in_n;
	c->in_eof = !st && !c->in_n;
	return st;
}

enum plim_status codec_short(const struct codec *c, struct plim_err *err)
{
	return err_at_more(err, codec_at_byte(c), "was it cut off while it was written or copied?",
			   "'%s': %s data ends early", c->input.name, c->kind->name);
}

enum plim_status codec_byte(struct codec *c, uint8_t *out, struct plim_err *err)
{
	enum plim_status st = codec_refill(c, err);

	*out = 0;
	if (st)
		return st;
	if (c->in_pos == c->in_n)
		return codec_short(c, err);
	*out = c->in[c->in_pos++];
	return PLIM_OK;
}

enum plim_status codec_decode(struct codec *c, uint8_t *at, size_t room, size_t *got,
			      struct plim_err *err)
{
	*got = 0;
	while (*got < room && !c->ended) {
		enum plim_status st = codec_refill(c, err);
		size_t made = 0, before = c->in_pos;

		if (st)
			return st;
		if (c->between && c->in_eof) {
			c->ended = true;
			break;
		}
		st = c->kind->step(c, at + *got, room - *got, &made, err);
		*got += made;
		if (st)
			return st;
		if (made || c->in_pos != before || c->between)
			continue;
		if (c->in_eof)
			return codec_short(c, err);
		if (c->in_pos < c->in_n) /* neither eats nor speaks: would spin */
			return codec_damaged(c, err);
	}
	return PLIM_OK;
}

void codec_close(struct codec *c)
{
	if (!c)
		return;
	if (c->started)
		c->kind->stop(c);
	mem_free(c->mem, c, 1, sizeof(*c));
}
