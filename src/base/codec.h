/*
 * Streaming decompressors, and UTF-16 as UTF-8, behind one interface.  The format is known by its first bytes, never by
 * a file's name; members, frames and streams that follow each other are read as one.
 */
#ifndef BASE_CODEC_H
#define BASE_CODEC_H

#include "mem.h"

#include <stdbool.h>

/* As many first bytes as codec_detect looks at. */
#define CODEC_HEAD_BYTES 8

/* Where compressed bytes come from.  Fewer than `room` may come; none means the end. */
struct codec_input {
	enum plim_status (*read)(void *ctx, uint8_t *at, size_t room, size_t *got,
				 struct plim_err *err);
	void *ctx;
	const char *name; /* for messages */
};

struct codec_kind;
struct codec;

/* The format that starts with these `n` bytes, NULL when it is none that is known here. */
const struct codec_kind *codec_detect(const uint8_t *head, size_t n);

/* "gzip", "xz", "lzma", "zstd", "bzip2", "zip", "UTF-16". */
const char *codec_kind_name(const struct codec_kind *kind);
/* What its decoder takes at usual settings; unusual ones take more. */
uint64_t codec_kind_bytes(const struct codec_kind *kind);

enum plim_status codec_open(struct mem *m, const struct codec_kind *kind, struct codec_input input,
			    struct codec **out, struct plim_err *err);

/*
 * Decode up to `room` bytes; *got < room only at the end or together with an error.
 * Bytes counted in *got are good also when an error is returned.
 */
enum plim_status codec_decode(struct codec *c, uint8_t *at, size_t room, size_t *got,
			      struct plim_err *err);

void codec_close(struct codec *c);

#endif
