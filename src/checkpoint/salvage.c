/*
 * A zip that was cut has no directory, and torch's local headers hold no sizes: each record's end is the
 * descriptor behind it, whose size field is its distance from the data.
 */
#include "zip.h"

#include <string.h>

#define PIECE_BYTES ((size_t)1 << 20) /* of a cut file, where ends of records are looked for */

/* Does the descriptor at q, of which `here` bytes are there, end a record of n bytes?  Its size, 0: no. */
static size_t descriptor_bytes(const uint8_t *q, size_t here, uint64_t n)
{
	uint64_t low = n & UINT32_MAX;

	if (here >= 24 && zip_le(q + 8, 8) == n && zip_le(q + 16, 8) == n)
		return 24;
	return here >= 16 && zip_le(q + 8, 4) == low && zip_le(q + 12, 4) == low ? 16 : 0;
}

/*
 * The end of the record whose data begins at `data`: the descriptor whose size field is its distance
 * from there.  Read forward in pieces, small ones first: most records are.  *found false: the file ends first.
 */
static enum plim_status find_descriptor(struct ckpt *c, const struct zip *z, uint64_t data,
					struct ckpt_extent *x, uint64_t *next, bool *found,
					struct plim_err *err)
{
	size_t room = 0, got;
	uint8_t *p = NULL;
	enum plim_status st = PLIM_OK;

	*found = false;
	for (uint64_t at = data; !st && !*found && at < z->bytes; at += room) {
		uint64_t left = z->bytes - at;
		const uint8_t *q;

		if (room < PIECE_BYTES) {
			mem_free(c->mem, p, room ? room + 24 : 0, 1);
			room = room ? PIECE_BYTES : 4096;
			p = mem_new(c->mem, room + 24, 1, err);
			if (!p)
				return mem_status(err);
		}
		q = p;
		st = ckpt_pread(c, z->file, z->base + at, p,
				left < room + 24 ? (size_t)left : room + 24, &got, err);
		while (!st && (q = memmem(q, got - (size_t)(q - p), "PK\7\10", 4))) {
			uint64_t n = at + (uint64_t)(q - p) - data;
			size_t size = descriptor_bytes(q, got - (size_t)(q - p), n);

			if (size) {
				x->crc = (uint32_t)zip_le(q + 4, 4);
				x->stored_bytes = x->bytes = n;
				x->check = x->crc || !n ? CKPT_CHECK_CRC : CKPT_CHECK_OFF;
				*next = data + n + size;
				*found = true;
				break;
			}
			q++;
		}
	}
	mem_free(c->mem, p, room ? room + 24 : 0, 1);
	return st;
}

/* One record by its local header at *at; *at moves behind it, *more false at the last one. */
static enum plim_status salvage_record(struct ckpt *c, struct zip *z, uint64_t *at, bool *more,
				       struct plim_err *err)
{
	struct ckpt_extent x = { .file = z->file, .check = CKPT_CHECK_CRC };
	uint8_t p[LOCAL_BYTES], *name = NULL;
	uint64_t name_n, data;
	size_t got;
	bool found = true;
	enum plim_status st = ckpt_pread(c, z->file, z->base + *at, p, sizeof(p), &got, err);

	*more = false;
	if (st || got < sizeof(p) || memcmp(p, "PK\3\4", 4) != 0)
		return st;
	name_n = zip_le(p + 26, 2);
	data = *at + LOCAL_BYTES + name_n + zip_le(p + 28, 2);
	if (data > z->bytes)
		return PLIM_OK;
	st = ckpt_model_read(c, z->file, z->base + *at + LOCAL_BYTES, name_n, 1 << 16, "a name",
			     &name, err);
	x.name = ckpt_model_string(c, (const char *)name, name_n, &st, err);
	mem_free(c->mem, name, name_n, 1);
	x.offset = z->base + data;
	x.crc = (uint32_t)zip_le(p + 14, 4);
	x.stored_bytes = zip_le(p + 18, 4);
	x.deflated = zip_le(p + 8, 2) == 8;
	x.bytes = x.deflated ? zip_le(p + 22, 4) : x.stored_bytes;
	*at = data + x.stored_bytes;
	if (!st && zip_le(p + 6, 2) & FLAG_DESCRIPTOR)
		st = find_descriptor(c, z, data, &x, at, &found, err);
	if (!found || *at > z->bytes) {
		x.state = CKPT_CUT;
		x.bytes = x.stored_bytes = z->bytes - data;
	} else {
		c->whole_bytes += x.stored_bytes;
		*more = true;
	}
	z->n++;
	return st ? st : vec_push(c->mem, &c->extents, x, err);
}

enum plim_status zip_salvage(struct ckpt *c, uint32_t file, uint64_t base, uint64_t bytes,
			     struct zip *z, struct plim_err *err)
{
	uint64_t at = 0;
	bool more = true;
	enum plim_status st = PLIM_OK;

	*z = (struct zip){ .file = file,
			   .base = base,
			   .bytes = bytes,
			   .first = (uint32_t)c->extents.n,
			   .directory = bytes };
	while (!st && more && z->n < CKPT_RECORDS)
		st = salvage_record(c, z, &at, &more, err);
	return st;
}
