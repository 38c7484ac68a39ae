/*
 * A pickle in compressed bytes, as joblib.dump(compress=...) and gzip.open write it: zlib, gzip, bzip2, xz, lzma, zstd.  It is
 * decompressed to memory and read as a file of its own, whose names count as this one's.  More than is decompressed here is
 * unknown.
 */
#include "opcodes.h"
#include "parts.h"

#include <string.h>
#include <zlib.h>

#define MOST_BYTES ((uint64_t)256 << 20)
/* Of a small file that many bytes are looked at, of a larger one so many times its size. */
#define LEAST_BYTES ((uint64_t)4 << 20)
#define TIMES 8
/* Memory for what is read in them, which is a hundred times that for a pickle of nothing but lists: the same way. */
#define LEAST_MEMORY ((uint64_t)160 << 20)
#define MEMORY_TIMES 64

struct compressed {
	uint8_t *bytes;
	size_t n, cap;
	bool whole; /* all of it is in bytes */
};

bool compressed_is(const uint8_t *head, size_t n)
{
	static const struct {
		size_t n;
		const char *bytes;
	} magics[] = { { 2, "\037\213" }, { 3, "BZh" }, { 6, "\3757zXZ" }, { 4, "(\265/\375" } };

	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if (n > magics[i].n && !memcmp(head, magics[i].bytes, magics[i].n))
			return true;
	if (n > 13 && !memcmp(head, "]\0", 3) && !memcmp(head + 5, "\377\377\377", 3))
		return true; /* lzma before xz, of a length that is not known */
	return n > 2 && *head == 0x78 && !((*head << 8 | head[1]) % 31);
}

/* zlib's own form, which has no magic number. */
static enum plim_status compressed_inflate(struct compressed *to, const uint8_t *p, size_t n,
					   struct plim_err *err)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)p, .avail_in = (uInt)n };
	int r = inflateInit(&z);

	if (r != Z_OK)
		return err_set(err, PLIM_E_NOMEM, "out of memory for zlib data");
	z.next_out = to->bytes;
	z.avail_out = (uInt)to->cap;
	r = inflate(&z, Z_FINISH);
	to->n = to->cap - z.avail_out;
	to->whole = r == Z_STREAM_END && !z.avail_in;
	inflateEnd(&z);
	return PLIM_OK;
}

static enum plim_status compressed_decode(struct ckpt *c, struct compressed *to, const uint8_t *p,
					  size_t n, struct plim_err *err)
{
	const struct source_options options = { .thread = SOURCE_THREAD_NONE };
	struct plim_err why = { 0 };
	struct source *src = NULL;
	enum plim_status st = source_open_memory(c->mem, c->path, p, n, SOURCE_MEMORY_DETECT,
						 &options, &src, &why);

	while (!st && to->n < to->cap) {
		size_t got, room = to->cap - to->n;

		st = source_need(src, src->p, 1, &why);
		got = (size_t)(src->end - src->p);
		got = got < room ? got : room;
		memcpy(to->bytes + to->n, src->p, got);
		to->n += got;
		src->p += got;
		to->whole = !st && src->eof && src->p == src->end;
		if (!got)
			break;
	}
	if (src)
		source_close(src);
	if (st == PLIM_E_FORMAT || st == PLIM_E_LIMIT)
		return PLIM_OK; /* what came out before the damage is judged */
	if (st && err)
		*err = why;
	return st;
}

static uint64_t compressed_memory(const struct ckpt *c, uint64_t size)
{
	uint64_t most = size * MEMORY_TIMES, used = c->mem->used_bytes, limit = c->mem->limit_bytes;

	most = most < LEAST_MEMORY ? LEAST_MEMORY : most;
	if (limit && limit - (used < limit ? used : limit - 1) < most)
		most = limit - (used < limit ? used : limit - 1);
	return most;
}

/* A pickle came out: its names and findings are the file's.  Without the memory for it, it is not whole. */
static enum plim_status compressed_judge(struct ckpt *c, uint32_t file, struct compressed *from,
					 struct plim_err *err)
{
	struct mem mem;
	struct ckpt inner;
	struct ckpt_file f = {
		.name = c->files.at[file].name, .fd = -1, .memory = from->bytes, .bytes = from->n
	};
	struct plim_err why = { 0 };
	enum plim_status st;

	mem_init(&mem, compressed_memory(c, c->files.at[file].bytes));
	ckpt_init(&inner, &mem);
	inner.nested = c->nested + 1;
	inner.allow = c->allow;
	inner.path = c->path;
	st = vec_push(inner.mem, &inner.files, f, &why);
	if (!st)
		st = legacy_read(&inner, 0, "", &why);
	from->whole &= st != PLIM_E_LIMIT;
	if (!st || st == PLIM_E_LIMIT)
		st = globals_take(c, &inner, "the compressed pickle", &why);
	for (size_t i = 0; !st && from->whole && i < inner.findings.n; i++)
		st = ckpt_model_find(c, inner.findings.at[i].severity, inner.findings.at[i].kind,
				     PLIM_UNKNOWN, &why, "%s",
				     ckpt_text(&inner, inner.findings.at[i].text));
	c->truncated |= from->whole && inner.truncated;
	c->unreadable |= from->whole && inner.unreadable;
	ckpt_close(&inner);
	if (st && err)
		*err = why;
	return st;
}

enum plim_status compressed_read(struct ckpt *c, uint32_t file, bool *known, struct plim_err *err)
{
	uint64_t size = c->files.at[file].bytes, most = size * TIMES;
	struct compressed to = { 0 };
	uint8_t *p = NULL;
	enum plim_status st = PLIM_OK;

	*known = false;
	if (size > MOST_BYTES)
		return PLIM_OK;
	most = most < LEAST_BYTES ? LEAST_BYTES : most;
	to.cap = (size_t)(most < MOST_BYTES ? most : MOST_BYTES);
	to.bytes = mem_new(c->mem, to.cap, 1, err);
	if (!to.bytes)
		return mem_status(err);
	st = ckpt_model_read(c, file, 0, size, size, "the compressed bytes", &p, err);
	if (!st)
		st = *p == 0x78 ? compressed_inflate(&to, p, (size_t)size, err)
				: compressed_decode(c, &to, p, (size_t)size, err);
	*known = !st && opcodes_is_pickle(to.bytes, to.n < 4096 ? to.n : 4096);
	if (*known) {
		c->pickled = true;
		c->kind = c->kind ? c->kind : CKPT_KIND_PICKLE;
		st = compressed_judge(c, file, &to, err);
	}
	if (!st && *known)
		st = ckpt_model_unchecked(c, file, "the compressed pickle", 0, size, err);
	if (!st && *known && !to.whole) {
		c->many_globals = true;
		st = ckpt_model_find(c, CKPT_WARN, "too_large", PLIM_UNKNOWN, err,
				     "the pickle is compressed, and only its first %zu bytes were "
				     "looked at: the rest is cut, damaged or too large",
				     to.n);
	}
	mem_free(c->mem, p, (size_t)size, 1);
	mem_free(c->mem, to.bytes, to.cap, 1);
	return st;
}
