/* What the formats of codec.c share: one row each, and the state that they read from. */
#ifndef BASE_CODEC_KINDS_H
#define BASE_CODEC_KINDS_H

#include "codec.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#define CODEC_IN_BYTES (128u << 10)

struct codec_kind {
	const char *name;
	uint8_t magic[CODEC_HEAD_BYTES], mask[CODEC_HEAD_BYTES];
	size_t magic_n;
	uint32_t decoder_bytes; /* what its decoder takes at usual settings */
	enum plim_status (*start)(struct codec *c, struct plim_err *err);
	/* Consume some of c->in, produce *made bytes; sets c->between at the end of a member. */
	enum plim_status (*step)(struct codec *c, uint8_t *at, size_t room, size_t *made,
				 struct plim_err *err);
	void (*stop)(struct codec *c);
};

struct utf16 {
	uint32_t high; /* the first half of a pair, or 0 */
	char held[8];  /* characters that are made, of which `at` of `n` bytes are given */
	size_t at, n;
	uint8_t first; /* byte of a unit */
	bool has_first, begun, big;
};

struct codec {
	struct mem *mem;
	const struct codec_kind *kind;
	struct codec_input input;
	uint64_t read_bytes; /* compressed bytes read so far, those still in `in` included */
	size_t in_pos, in_n;
	bool in_eof;
	bool between; /* the input may end here */
	bool started, ended, padding;
	union {
		lzma_stream xz;
		z_stream gzip;
		ZSTD_DCtx *zstd;
		struct bunzip2 *bzip2;
		struct unzip *zip;
		struct utf16 utf16;
	} u;
	uint8_t in[CODEC_IN_BYTES];
};

/* Put more into `in` where it is empty; it stays so at the end, and in_eof is set. */
enum plim_status codec_refill(struct codec *c, struct plim_err *err);

/* The next byte of the input.  PLIM_E_FORMAT: there is none. */
enum plim_status codec_byte(struct codec *c, uint8_t *out, struct plim_err *err);

/* How many bytes were consumed. */
uint64_t codec_at_byte(const struct codec *c);

/* Errors: what was read is wrong, ends too early, or needs memory that there is not. */
enum plim_status codec_damaged(const struct codec *c, struct plim_err *err);
enum plim_status codec_short(const struct codec *c, struct plim_err *err);
enum plim_status codec_no_memory(const struct codec *c, struct plim_err *err);

/* bzip2 (bunzip2.c) */
enum plim_status bunzip2_start(struct codec *c, struct plim_err *err);
enum plim_status bunzip2_step(struct codec *c, uint8_t *at, size_t room, size_t *made,
			      struct plim_err *err);
void bunzip2_stop(struct codec *c);

/* A zip with one file in it (unzip.c) */
enum plim_status unzip_start(struct codec *c, struct plim_err *err);
enum plim_status unzip_step(struct codec *c, uint8_t *at, size_t room, size_t *made,
			    struct plim_err *err);
void unzip_stop(struct codec *c);

/* Text (utf16.c) */
enum plim_status utf16_start(struct codec *c, struct plim_err *err);
enum plim_status utf16_step(struct codec *c, uint8_t *at, size_t room, size_t *made,
			    struct plim_err *err);
void utf16_stop(struct codec *c);

#endif
