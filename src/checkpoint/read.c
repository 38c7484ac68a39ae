/*
 * Bytes in order: of an extent, inflated where it is deflated, and of a tensor, packed and row-major
 * whatever its strides are.  Memory is a buffer of input and zlib's own, except for a view with gaps,
 * whose whole reach is gathered from.
 */
#include "parts.h"

#include <string.h>
#include <zlib.h>

#define INPUT_BYTES ((size_t)64 << 10)
#define SKIP_BYTES ((size_t)16 << 10)

struct inflating {
	z_stream z;
	uint64_t in; /* bytes of the file that were taken */
	bool ended;
	uint8_t input[INPUT_BYTES];
};

/* ---- extents ---- */

/* The next bytes that come out, up to n; *got < n: it ended, or is broken. */
static enum plim_status inflate_some(struct extent_reader *r, uint8_t *at, size_t n, size_t *got,
				     struct plim_err *err)
{
	const struct ckpt_extent *x = r->extent;
	struct inflating *f = r->inflating;
	enum plim_status st = PLIM_OK;

	f->z.next_out = at;
	f->z.avail_out = (uInt)n;
	while (!st && f->z.avail_out && !f->ended && !r->broken) {
		uint64_t left = x->stored_bytes - f->in;
		uInt before = f->z.avail_out;
		size_t here;
		int code;

		if (!f->z.avail_in && left) {
			st = ckpt_pread(r->ckpt, x->file, x->offset + f->in, f->input,
					left < INPUT_BYTES ? (size_t)left : INPUT_BYTES, &here,
					err);
			if (st)
				break;
			f->z.next_in = f->input;
			f->z.avail_in = (uInt)here;
			f->in += here;
		}
		code = inflate(&f->z, Z_NO_FLUSH);
		f->ended = code == Z_STREAM_END;
		r->broken = (code != Z_OK && !f->ended) ||
			    (!f->ended && before == f->z.avail_out && !f->z.avail_in);
	}
	*got = n - f->z.avail_out;
	return st;
}

/* All has come out that the directory promises: does the stream end there? */
static enum plim_status check_end(struct extent_reader *r, struct plim_err *err)
{
	struct inflating *f = r->inflating;
	uint8_t more;
	size_t got = 0;
	enum plim_status st = f->ended ? PLIM_OK : inflate_some(r, &more, 1, &got, err);

	r->broken |= got || !f->ended || f->z.avail_in || f->in != r->extent->stored_bytes;
	return st;
}

static enum plim_status skip(struct extent_reader *r, uint64_t n, struct plim_err *err)
{
	uint8_t room[SKIP_BYTES];
	enum plim_status st = PLIM_OK;

	for (size_t got = 1; !st && n && got; n -= got)
		st = extent_next(r, room, n < sizeof(room) ? (size_t)n : sizeof(room), &got, err);
	return st;
}

enum plim_status extent_open(struct extent_reader *r, const struct ckpt *c, uint32_t extent,
			     uint64_t from, struct plim_err *err)
{
	struct inflating *f;

	*r = (struct extent_reader){ .ckpt = c, .extent = &c->extents.at[extent] };
	if (!r->extent->deflated) {
		r->at = from;
		return PLIM_OK;
	}
	f = mem_new(c->mem, 1, sizeof(*f), err);
	if (!f)
		return mem_status(err);
	if (inflateInit2(&f->z, -MAX_WBITS) != Z_OK) {
		mem_free(c->mem, f, 1, sizeof(*f));
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	}
	r->inflating = f;
	return skip(r, from, err);
}

enum plim_status extent_next(struct extent_reader *r, void *at, size_t n, size_t *got,
			     struct plim_err *err)
{
	const struct ckpt_extent *x = r->extent;
	uint64_t left = r->at < x->bytes ? x->bytes - r->at : 0;
	enum plim_status st;

	n = left < n ? (size_t)left : n;
	if (!r->inflating)
		st = ckpt_pread(r->ckpt, x->file, x->offset + r->at, at, n, got, err);
	else
		st = inflate_some(r, at, n, got, err);
	r->at += st ? 0 : *got;
	return !st && r->inflating && r->at == x->bytes ? check_end(r, err) : st;
}

void extent_close(struct extent_reader *r)
{
	if (!r->inflating)
		return;
	inflateEnd(&r->inflating->z);
	mem_free(r->ckpt->mem, r->inflating, 1, sizeof(*r->inflating));
	r->inflating = NULL;
}

/* ---- tensors ---- */

/* All that is wanted, or an error: what is whole was found to be so before. */
static enum plim_status next_all(struct extent_reader *r, void *at, size_t n, struct plim_err *err)
{
	const char *name = r->ckpt->files.at[r->extent->file].name;
	size_t got = 0;
	enum plim_status st = extent_next(r, at, n, &got, err);

	if (!st && (r->broken || (got < n && r->inflating)))
		return err_set(err, PLIM_E_FORMAT, "record '%.200s' of '%.200s' does not inflate",
			       ckpt_text(r->ckpt, r->extent->name), name);
	if (!st && got < n)
		return err_set(err, PLIM_E_IO, "'%.200s' became shorter while it was read", name);
	return st;
}

enum plim_status tensor_open(struct tensor_reader *r, const struct ckpt *c,
			     const struct ckpt_tensor *t, struct plim_err *err)
{
	uint64_t width = t->dtype->bits / 8, count, reach;
	enum plim_status st;

	*r = (struct tensor_reader){ .ckpt = c, .tensor = t };
	if (!t->count)
		return PLIM_OK;
	if (t->flags & CKPT_JOINED)
		return joined_open(&r->joined, c, t, err);
	st = extent_open(&r->run, c, t->extent, t->offset * t->dtype->bits / 8, err);
	if (st || ckpt_is_contiguous(c, t))
		return st;
	ckpt_model_reach(ckpt_shape(c, t), ckpt_strides(c, t), t->rank, 0, &count, &reach);
	r->reach_bytes = reach * width;
	if (r->reach_bytes > CKPT_GATHERED_BYTES)
		return err_set(err, PLIM_E_UNSUPPORTED, "'%.200s' is a view too large to gather",
			       ckpt_text(c, t->name));
	r->reach = mem_new(c->mem, (size_t)r->reach_bytes, 1, err);
	return r->reach ? next_all(&r->run, r->reach, (size_t)r->reach_bytes, err)
			: mem_status(err);
}

/* Element by element, the last dimension first. */
static void gather_tensor(struct tensor_reader *r, uint8_t *at, size_t n)
{
	const struct ckpt_tensor *t = r->tensor;
	const uint64_t *size = ckpt_shape(r->ckpt, t), *stride = ckpt_strides(r->ckpt, t);
	size_t width = t->dtype->bits / 8;

	for (size_t done = 0; done < n; done += width) {
		memcpy(at + done, r->reach + r->place * width, width);
		for (size_t d = t->rank; d--;) {
			r->place += stride[d];
			if (++r->index[d] < size[d])
				break;
			r->place -= size[d] * stride[d];
			r->index[d] = 0;
		}
	}
}

enum plim_status tensor_next(struct tensor_reader *r, void *at, size_t n, struct plim_err *err)
{
	if (r->joined)
		return joined_next(r->joined, at, n, err);
	if (!r->reach)
		return next_all(&r->run, at, n, err);
	gather_tensor(r, at, n);
	return PLIM_OK;
}

void tensor_close(struct tensor_reader *r)
{
	joined_close(r->joined);
	extent_close(&r->run);
	mem_free(r->ckpt->mem, r->reach, (size_t)r->reach_bytes, 1);
}
