/*
 * A zip with one file in it, as tickets carry them, read from its front as a stream: folders and what macOS adds are
 * passed over, a second file is an error.  What begins as a checkpoint of torch, an array of NumPy or an office document
 * does is handed on as it is: whoever reads it says what it is.
 */
#include "codec_kinds.h"

#include <limits.h>
#include <string.h>

#define NAME_BYTES 256 /* of a name, what is looked at */
#define HEAD_BYTES 30  /* of a local header, before the name */
#define HEAD_MAGIC 0x04034b50u
#define DESCRIPTOR_MAGIC 0x08074b50u
#define ZIP64 1 /* an extra field's number */
#define LARGE UINT32_MAX

enum { FLAG_ENCRYPTED = 1, FLAG_DESCRIPTOR = 8 };
enum { METHOD_STORED = 0, METHOD_DEFLATED = 8 };

enum stage {
	STAGE_HEAD, /* a local header comes, or the directory */
	STAGE_DATA, /* of a member */
	STAGE_PLAIN /* no zip for us: all as it is */
};

struct unzip {
	enum stage stage;
	z_stream inflate;
	int begun;         /* inflate is */
	int wanted, found; /* this member is what the zip is for; it was seen before */
	uint32_t flags, method;
	uint64_t left; /* of a stored member */
	uint32_t crc, crc_told;
	int zip64;
	uint8_t held; /* the last byte: it comes out when nothing follows the member that is not reported of */
	int holds, ended;
	size_t head_n, head_at;
	uint8_t head[HEAD_BYTES + NAME_BYTES]; /* the first header, for STAGE_PLAIN */
};

static uint32_t le(const uint8_t *p, size_t n)
{
	uint32_t v = 0;

	for (size_t i = n; i-- > 0;)
		v = v << 8 | p[i];
	return v;
}

static enum plim_status get(struct codec *c, uint8_t *at, size_t n, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; i < n && !st; i++)
		st = codec_byte(c, at + i, err);
	return st;
}

static enum plim_status refuse_unzip(const struct codec *c, const char *why, struct plim_err *err)
{
	return err_at_more(err, codec_at_byte(c), "unpack it, and give what was in it", "'%s': %s",
			   c->input.name, why);
}

/* ---- names ---- */

static int ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);

	return n >= k && !strcmp(name + n - k, end);
}

/* A folder, or what an archiver adds for itself. */
static int is_litter(const char *name)
{
	return ends_in(name, "/") || !strncmp(name, "__MACOSX/", 9) || ends_in(name, ".DS_Store");
}

/* Zips that are files of another kind begin with these. */
static int is_other_kind(const char *name)
{
	static const char *const ends[] = {
		"data.pkl", "/version", "/byteorder", ".npy", ".xml",
		"mimetype", ".class",   ".MF",        ".py",  "/.data/serialization_id"
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ends_in(name, ends[i]))
			return 1;
	return 0;
}

/* ---- a member ---- */

/* Sizes of 4 GiB and more stand in a field of their own: the unpacked one first. */
static enum plim_status read_extra(struct codec *c, uint32_t n, struct plim_err *err)
{
	struct unzip *z = c->u.zip;
	uint32_t at = 0, size = 0;
	enum plim_status st = PLIM_OK;

	while (!st && at + 4 <= n) {
		uint8_t head[4] = { 0 }, field[16] = { 0 };
		uint32_t take;

		st = get(c, head, sizeof(head), err);
		size = le(head + 2, 2);
		at += 4;
		if (!st && size > n - at)
			st = codec_damaged(c, err);
		take = size < sizeof(field) ? size : (uint32_t)sizeof(field);
		if (!st)
			st = get(c, field, take, err);
		for (uint32_t i = take; i < size && !st; i++)
			st = codec_byte(c, head, err);
		if (st || le(head, 2) != ZIP64 || take != size)
			size = st ? 0 : size;
		else if (size == sizeof(field)) {
			z->zip64 = 1;
			z->left = z->left == LARGE
					  ? le(field + 8, 4) | (uint64_t)le(field + 12, 4) << 32
					  : z->left;
		}
		at += st ? 0 : size;
	}
	for (; at < n && !st; at++)
		st = codec_byte(c, z->head, err);
	return st;
}

static enum plim_status read_name(struct codec *c, uint8_t *name, uint32_t n, struct plim_err *err)
{
	uint32_t shown = n < NAME_BYTES - 1 ? n : NAME_BYTES - 1;
	enum plim_status st = get(c, name, shown, err);
	uint8_t rest;

	name[st ? 0 : shown] = 0;
	for (uint32_t i = shown; i < n && !st; i++)
		st = codec_byte(c, &rest, err);
	return st;
}

/* Behind a member whose sizes were not known when it began: its checksum and sizes. */
static enum plim_status end_data(struct codec *c, struct plim_err *err)
{
	struct unzip *z = c->u.zip;
	uint8_t tail[16];
	enum plim_status st = PLIM_OK;

	z->stage = STAGE_HEAD;
	if (z->flags & FLAG_DESCRIPTOR) {
		st = get(c, tail, 4, err);
		if (!st && le(tail, 4) == DESCRIPTOR_MAGIC)
			st = get(c, tail, 4, err);
		z->crc_told = st ? 0 : le(tail, 4);
		if (!st)
			st = get(c, tail, z->zip64 ? 16 : 8, err);
	}
	return !st && z->crc != z->crc_told ? codec_damaged(c, err) : st;
}

static enum plim_status begin_data(struct codec *c, struct plim_err *err)
{
	struct unzip *z = c->u.zip;

	if (z->flags & FLAG_ENCRYPTED)
		return refuse_unzip(c, "the zip is encrypted", err);
	if (z->method == METHOD_STORED && z->flags & FLAG_DESCRIPTOR)
		return refuse_unzip(c, "a file is stored in the zip without its size", err);
	if (z->method != METHOD_STORED && z->method != METHOD_DEFLATED)
		return refuse_unzip(c, "a file is packed in the zip with a method that is not read",
				    err);
	z->crc = (uint32_t)crc32(0, NULL, 0);
	z->stage = STAGE_DATA;
	if (z->method == METHOD_STORED)
		return z->left ? PLIM_OK : end_data(c, err);
	if (z->begun)
		return inflateReset(&z->inflate) == Z_OK ? PLIM_OK : codec_damaged(c, err);
	z->begun = inflateInit2(&z->inflate, -15) == Z_OK; /* deflate without a wrapper */
	return z->begun ? PLIM_OK : codec_no_memory(c, err);
}

static enum plim_status read_unzip_member(struct codec *c, const uint8_t *head, uint8_t *name,
					  struct plim_err *err)
{
	struct unzip *z = c->u.zip;
	uint32_t name_n = le(head + 26, 2);
	enum plim_status st = read_name(c, name, name_n, err);

	if (st)
		return st;
	if (codec_at_byte(c) == HEAD_BYTES + name_n && name_n < NAME_BYTES &&
	    is_other_kind((const char *)name)) {
		z->head_n = HEAD_BYTES + name_n;
		z->stage = STAGE_PLAIN;
		return PLIM_OK;
	}
	z->flags = le(head + 6, 2);
	z->method = le(head + 8, 2);
	z->crc_told = le(head + 14, 4);
	z->left = le(head + 18, 4);
	z->zip64 = 0;
	z->wanted = !is_litter((const char *)name);
	if (z->wanted && z->found)
		return refuse_unzip(c, "the zip holds several files", err);
	z->found |= z->wanted;
	st = read_extra(c, le(head + 28, 2), err);
	return st ? st : begin_data(c, err);
}

/* A member, or the directory behind the last one: nothing that is in it is needed. */
static enum plim_status read_head(struct codec *c, struct plim_err *err)
{
	struct unzip *z = c->u.zip;
	uint8_t *head = z->head;
	enum plim_status st = get(c, head, 4, err);

	if (st)
		return st;
	if (head[0] == 'P' && head[1] == 'K' && le(head, 4) != HEAD_MAGIC) {
		z->ended = 1;
		return z->found ? PLIM_OK : refuse_unzip(c, "the zip holds no file", err);
	}
	if (le(head, 4) != HEAD_MAGIC)
		return codec_damaged(c, err);
	st = get(c, head + 4, HEAD_BYTES - 4, err);
	return st ? st : read_unzip_member(c, head, z->head + HEAD_BYTES, err);
}

/* ---- its bytes ---- */

static enum plim_status copy_unzip(struct codec *c, uint8_t *at, size_t room, size_t *made,
				   struct plim_err *err)
{
	struct unzip *z = c->u.zip;
	size_t n;
	enum plim_status st = codec_refill(c, err);

	n = c->in_n - c->in_pos < room ? c->in_n - c->in_pos : room;
	n = z->left < n ? (size_t)z->left : n;
	if (!st && !n)
		st = codec_short(c, err);
	if (st)
		return st;
	memcpy(at, c->in + c->in_pos, n);
	c->in_pos += n;
	z->left -= n;
	z->crc = (uint32_t)crc32(z->crc, at, (uInt)n);
	*made = n;
	return z->left ? PLIM_OK : end_data(c, err);
}

static enum plim_status inflate_some(struct codec *c, uint8_t *at, size_t room, size_t *made,
				     struct plim_err *err)
{
	struct unzip *z = c->u.zip;
	uInt ask = room < UINT_MAX ? (uInt)room : UINT_MAX;
	enum plim_status st = codec_refill(c, err);
	int r;

	if (st)
		return st;
	z->inflate.next_in = c->in + c->in_pos;
	z->inflate.avail_in = (uInt)(c->in_n - c->in_pos);
	z->inflate.next_out = at;
	z->inflate.avail_out = ask;
	r = inflate(&z->inflate, Z_NO_FLUSH);
	c->in_pos = c->in_n - z->inflate.avail_in;
	*made = ask - z->inflate.avail_out;
	z->crc = (uint32_t)crc32(z->crc, at, (uInt)*made);
	if (r == Z_STREAM_END)
		return end_data(c, err);
	if (r == Z_BUF_ERROR && c->in_eof)
		return codec_short(c, err);
	if (r == Z_OK || r == Z_BUF_ERROR)
		return PLIM_OK;
	return r == Z_MEM_ERROR ? codec_no_memory(c, err) : codec_damaged(c, err);
}

/* The last byte of what was made is kept, the one that was kept before comes first: room for both. */
static enum plim_status read_data(struct codec *c, uint8_t *at, size_t room, size_t *made,
				  struct plim_err *err)
{
	struct unzip *z = c->u.zip;
	size_t n = 0, before = z->wanted && z->holds;
	uint8_t two[2];
	uint8_t *to = room > 1 ? at : two;
	enum plim_status st;

	room = room > 1 ? room : sizeof(two);
	if (room > INT_MAX)
		room = INT_MAX;
	do
		st = z->method == METHOD_STORED
			     ? copy_unzip(c, to + before, room - before, &n, err)
			     : inflate_some(c, to + before, room - before, &n, err);
	while (!st && !z->wanted && z->stage == STAGE_DATA); /* passed over, in one go */
	if (!z->wanted || !n)
		return st;
	if (before)
		to[0] = z->held;
	n += before;
	z->held = to[n - 1];
	z->holds = 1;
	*made = n - 1;
	if (to == two && *made)
		at[0] = two[0];
	return st;
}

static enum plim_status read_plain(struct codec *c, uint8_t *at, size_t room, size_t *made,
				   struct plim_err *err)
{
	struct unzip *z = c->u.zip;
	size_t n = z->head_n - z->head_at;
	enum plim_status st = n ? PLIM_OK : codec_refill(c, err);

	if (st)
		return st;
	if (n) {
		n = n < room ? n : room;
		memcpy(at, z->head + z->head_at, n);
		z->head_at += n;
	} else {
		n = c->in_n - c->in_pos < room ? c->in_n - c->in_pos : room;
		memcpy(at, c->in + c->in_pos, n);
		c->in_pos += n;
	}
	c->between = z->head_at == z->head_n;
	*made = n;
	return PLIM_OK;
}

/* The directory was reached: the last byte, and then nothing more. */
static enum plim_status finish_unzip(struct codec *c, uint8_t *at, size_t *made)
{
	struct unzip *z = c->u.zip;

	if (z->holds) {
		at[0] = z->held;
		*made = 1;
		z->holds = 0;
	}
	c->in_pos = c->in_n;
	c->between = true;
	return PLIM_OK;
}

enum plim_status unzip_start(struct codec *c, struct plim_err *err)
{
	c->u.zip = mem_new(c->mem, 1, sizeof(*c->u.zip), err);
	return c->u.zip ? PLIM_OK : codec_no_memory(c, err);
}

enum plim_status unzip_step(struct codec *c, uint8_t *at, size_t room, size_t *made,
			    struct plim_err *err)
{
	struct unzip *z = c->u.zip;

	if (z->ended)
		return finish_unzip(c, at, made);
	switch (z->stage) {
	case STAGE_DATA: return read_data(c, at, room, made, err);
	case STAGE_PLAIN: return read_plain(c, at, room, made, err);
	default: return read_head(c, err);
	}
}

void unzip_stop(struct codec *c)
{
	struct unzip *z = c->u.zip;

	if (z && z->begun)
		(void)inflateEnd(&z->inflate);
	mem_free(c->mem, z, 1, sizeof(*z));
}
