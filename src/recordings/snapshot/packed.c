/* A packed recording as a file: its head, chunks, checksums and the end. */
#include "packed.h"

#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#define PLAIN_MAX ((uint64_t)1 << 31)

/* Parts that follow: a writer makes one of all before they are many, a reader joins no more. */
#define FOLLOWING_WRITTEN 16
#define FOLLOWING_MAX 64

/* What is small is packed harder: it takes a moment either way. */
#define SMALL_BYTES ((size_t)512 << 10)
#define SMALL_LEVEL 19
#define LEVEL 6

/* ---- writing ---- */

struct file {
	struct mem *mem;
	struct pickle_sink sink;
	XXH3_state_t *sum; /* of all that was written, or read, so far */
	struct plim_err *err;
};

static enum plim_status file_begin(struct file *f)
{
	f->sum = XXH3_createState();
	if (!f->sum)
		return err_set(f->err, PLIM_E_NOMEM, "out of memory");
	XXH3_64bits_reset(f->sum);
	return PLIM_OK;
}

static enum plim_status put_packed(struct file *f, const void *bytes, size_t n)
{
	XXH3_64bits_update(f->sum, bytes, n);
	return f->sink.write(f->sink.ctx, bytes, n, f->err);
}

static enum plim_status put_head(struct file *f, uint32_t flags)
{
	static const char magic[PACKED_MAGIC_BYTES + 1] = PACKED_MAGIC;
	uint8_t head[PACKED_HEAD_BYTES];
	const uint16_t version[2] = { PACKED_MAJOR, PACKED_MINOR };

	memcpy(head, magic, sizeof(magic) - 1);
	memcpy(head + 8, version, sizeof(version));
	memcpy(head + 12, &flags, sizeof(flags));
	return put_packed(f, head, sizeof(head));
}

static size_t varint(uint8_t *at, uint64_t value)
{
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		at[n++] = (uint8_t)(value | 0x80);
	at[n++] = (uint8_t)value;
	return n;
}

static enum plim_status put_chunk(struct file *f, enum packed_chunk kind, const uint8_t *plain,
				  size_t n)
{
	size_t room = ZSTD_compressBound(n), used;
	uint8_t *packed = mem_new(f->mem, room, 1, f->err), head[1 + 10 + 10];
	uint64_t sum = XXH3_64bits(plain, n);
	enum plim_status st = packed ? PLIM_OK : mem_status(f->err);
	size_t at = 1;

	head[0] = (uint8_t)kind;
	used = st ? 0
		  : ZSTD_compress(packed, room, plain, n, n > SMALL_BYTES ? LEVEL : SMALL_LEVEL);
	if (!st && ZSTD_isError(used))
		st = err_set(f->err, PLIM_E_NOMEM, "cannot compress: %s", ZSTD_getErrorName(used));
	at += varint(head + at, used);
	at += varint(head + at, n);
	if (!st)
		st = put_packed(f, head, at);
	if (!st)
		st = put_packed(f, packed, used);
	if (!st)
		st = put_packed(f, &sum, sizeof(sum));
	mem_free(f->mem, packed, room, 1);
	return st;
}

static enum plim_status put_end(struct file *f)
{
	const uint8_t kind = PACKED_END;
	enum plim_status st = put_packed(f, &kind, 1);
	uint64_t sum = XXH3_64bits_digest(f->sum);

	return st ? st : put_packed(f, &sum, sizeof(sum));
}

/* The columns one behind the other, and in front of them how many there are and how long each is. */
static enum plim_status put_columns(struct file *f, enum packed_chunk kind, const struct packing *p)
{
	size_t n = 0, at = 0, room = (1 + PACKED_COLUMNS) * 10;
	uint8_t *plain;
	enum plim_status st;

	for (unsigned c = 0; c < PACKED_COLUMNS; c++)
		n += p->column[c].n;
	if (n + room > PLAIN_MAX)
		return err_set(f->err, PLIM_E_LIMIT, "the recording is too large to be packed");
	plain = mem_new(f->mem, n + room, 1, f->err);
	if (!plain)
		return mem_status(f->err);
	at += varint(plain, PACKED_COLUMNS);
	for (unsigned c = 0; c < PACKED_COLUMNS; c++)
		at += varint(plain + at, p->column[c].n);
	for (unsigned c = 0; c < PACKED_COLUMNS; c++) {
		if (p->column[c].n)
			memcpy(plain + at, p->column[c].at, p->column[c].n);
		at += p->column[c].n;
	}
	st = put_chunk(f, kind, plain, at);
	mem_free(f->mem, plain, n + room, 1);
	return st;
}

/* A whole file, or what stands in `old` without its end and `t` behind it. */
static enum plim_status write_file(const struct snapshot *t, const uint8_t *old, size_t n,
				   struct pickle_sink sink, struct plim_err *err)
{
	/* it is only read: the functions of the tables serve both ways */
	struct packing p = { .mem = t->mem, .t = (struct snapshot *)(uintptr_t)t, .writing = 1 };
	struct file f = { .mem = t->mem, .sink = sink };
	struct plim_err own;
	enum plim_status st;

	p.err = f.err = err ? err : &own;
	st = file_begin(&f);
	if (!st) {
		packed_snapshot(&p);
		st = p.status;
	}
	if (!st)
		st = old ? put_packed(&f, old, n) : put_head(&f, 0);
	if (!st)
		st = put_columns(&f, old ? PACKED_FOLLOWING : PACKED_RECORDING, &p);
	if (!st)
		st = put_end(&f);
	packing_release(&p);
	XXH3_freeState(f.sum);
	return st;
}

enum plim_status snapshot_pack(const struct snapshot *t, struct pickle_sink sink,
			       struct plim_err *err)
{
	return write_file(t, NULL, 0, sink, err);
}

static int leap_varint(const uint8_t *p, size_t n, size_t *at, uint64_t *value)
{
	*value = 0;
	for (unsigned shift = 0; *at < n && shift < 63; shift += 7) {
		*value |= (uint64_t)(p[*at] & 0x7f) << shift;
		if (p[(*at)++] < 0x80)
			return 1;
	}
	return 0;
}

/* Where the end of a file stands that was read and found whole, and how many parts follow its first; 0: it is none. */
static size_t find_end(const uint8_t *p, size_t n, unsigned *following)
{
	size_t at = PACKED_HEAD_BYTES;

	*following = 0;
	while (at < n && p[at] != PACKED_END) {
		uint64_t packed, plain;

		*following += p[at++] == PACKED_FOLLOWING;
		if (!leap_varint(p, n, &at, &packed) || !leap_varint(p, n, &at, &plain) ||
		    packed > n - at || n - at - packed < PACKED_SUM_BYTES)
			return 0;
		at += packed + PACKED_SUM_BYTES;
	}
	return at < n ? at : 0;
}

enum plim_status snapshot_pack_behind(const struct snapshot *rest, const uint8_t *old, size_t n,
				      struct pickle_sink sink, int *is_full, struct plim_err *err)
{
	unsigned following;
	size_t end = find_end(old, n, &following);

	*is_full = following >= FOLLOWING_WRITTEN;
	if (!end)
		return err_set(err, PLIM_E_FORMAT,
			       "the packed recording is damaged: it has no end");
	return *is_full ? PLIM_OK : write_file(rest, old, end, sink, err);
}

/* ---- reading ---- */

struct input {
	struct file file;
	struct source *src;
};

static enum plim_status ends_early(struct input *in)
{
	return err_at_more(in->file.err, source_offset(in->src, in->src->end),
			   "was it cut off while it was written or copied?",
			   "the packed recording ends early");
}

/* The next `n` bytes, all of which must be there. */
static enum plim_status take_packed(struct input *in, uint64_t n, const uint8_t **at)
{
	struct source *s = in->src;
	enum plim_status st = source_need(s, s->p, n, in->file.err);

	if (st)
		return st;
	*at = s->p;
	if ((uint64_t)(s->end - s->p) < n)
		return ends_early(in);
	s->p += n;
	XXH3_64bits_update(in->file.sum, *at, n);
	return PLIM_OK;
}

static enum plim_status take_varint(struct input *in, uint64_t *value)
{
	const uint8_t *byte;
	enum plim_status st;

	*value = 0;
	for (unsigned shift = 0; shift < 63; shift += 7) {
		st = take_packed(in, 1, &byte);
		if (st)
			return st;
		*value |= (uint64_t)(*byte & 0x7f) << shift;
		if (*byte < 0x80)
			return PLIM_OK;
	}
	return err_at(in->file.err, source_offset(in->src, in->src->p),
		      "the packed recording is damaged: a number has no end");
}

static enum plim_status damaged(const struct input *in, uint64_t offset, const char *what)
{
	return err_at_more(in->file.err, offset, "copy the file again",
			   "the packed recording is damaged: %s", what);
}

static enum plim_status check_head(struct input *in)
{
	const uint8_t *head;
	uint16_t version[2];
	enum plim_status st = take_packed(in, PACKED_HEAD_BYTES, &head);

	if (st)
		return st;
	memcpy(version, head + 8, sizeof(version));
	if (version[0] == PACKED_MAJOR)
		return PLIM_OK;
	return err_set(in->file.err, PLIM_E_UNSUPPORTED,
		       "a packed recording of version %u.%u; this release of Plimsoll reads %u.x",
		       version[0], version[1], PACKED_MAJOR);
}

static enum plim_status split_columns(struct packing *p, uint8_t *plain, size_t n)
{
	struct packed_bytes all = { .at = plain, .n = n };
	uint64_t count, at, sum = 0;

	p->column[0] = all;
	count = packed_get(p, 0);
	for (uint64_t c = 0; !p->status && c < count; c++) {
		uint64_t bytes = packed_get(p, 0);

		if (c >= PACKED_COLUMNS || bytes > n - sum)
			packed_bad(p, "columns that are not known");
		else if (c)
			p->column[c].n = bytes;
		else
			all.cap = bytes; /* column 0 is being read */
		sum += bytes;
	}
	at = p->column[0].p;
	if (!p->status && (count != PACKED_COLUMNS || at + sum != n))
		packed_bad(p, "columns of another length");
	p->column[0].n = all.cap;
	for (unsigned c = 0; !p->status && c < PACKED_COLUMNS; c++) {
		p->column[c] = (struct packed_bytes){ .at = plain + at, .n = p->column[c].n };
		at += p->column[c].n;
	}
	return p->status;
}

static enum plim_status read_columns(struct input *in, struct snapshot *t, uint8_t *plain, size_t n)
{
	struct packing p = { .mem = t->mem, .t = t, .err = in->file.err };
	size_t at = 0;
	enum plim_status st = split_columns(&p, plain, n);

	if (!st)
		packed_snapshot(&p);
	for (unsigned c = 0; !p.status && c < PACKED_COLUMNS; c++)
		if (p.column[c].p != p.column[c].n)
			packed_bad(&p, "a column goes on behind its end");
	(void)follow_end(t->columns->follower); /* it reads the columns, which move now */
	if (!p.status)
		p.status = columns_finish(t->mem, t->columns, p.err);
	t->first_action = t->columns->action;
	for (size_t d = 0; !p.status && d < t->device_count; at += t->devices[d++].events.n)
		t->devices[d].events = columns_view(t->columns, at, t->devices[d].events.n);
	return p.status;
}

/* What goes on where `t` ends. */
static enum plim_status read_following(struct input *in, struct snapshot *t, uint8_t *plain,
				       size_t n)
{
	struct snapshot *next;
	enum plim_status st = snapshot_new(t->mem, &next, in->file.err);

	if (!st)
		st = read_columns(in, next, plain, n);
	if (!st)
		st = snapshot_append(t, next, NULL, NULL, in->file.err);
	snapshot_free(next);
	return st;
}

/* A chunk's content, checked; its kind and sizes were read. */
static enum plim_status read_chunk(struct input *in, struct snapshot *t, int follows,
				   uint64_t packed, uint64_t n)
{
	uint64_t offset = source_offset(in->src, in->src->p), sum;
	const uint8_t *bytes, *told;
	uint8_t *plain;
	enum plim_status st;

	if (n > PLAIN_MAX || packed > PLAIN_MAX)
		return damaged(in, offset, "a chunk is too large");
	st = take_packed(in, packed, &bytes);
	if (st)
		return st;
	if (ZSTD_getFrameContentSize(bytes, packed) != n)
		return damaged(in, offset, "a chunk of another size");
	plain = mem_new(t->mem, n, 1, in->file.err);
	if (!plain)
		return mem_status(in->file.err);
	if (ZSTD_decompress(plain, n, bytes, packed) != n)
		st = damaged(in, offset, "a chunk cannot be unpacked");
	if (!st)
		st = take_packed(in, PACKED_SUM_BYTES, &told);
	if (!st)
		memcpy(&sum, told, sizeof(sum));
	if (!st && sum != XXH3_64bits(plain, n))
		st = damaged(in, offset, "a checksum differs");
	if (!st)
		st = follows ? read_following(in, t, plain, n) : read_columns(in, t, plain, n);
	mem_free(t->mem, plain, n, 1);
	return st;
}

static enum plim_status skip_chunk(struct input *in, uint64_t packed)
{
	const uint8_t *bytes;

	if (packed > PLAIN_MAX)
		return damaged(in, source_offset(in->src, in->src->p), "a chunk is too large");
	return take_packed(in, packed + PACKED_SUM_BYTES, &bytes);
}

static enum plim_status read_end(struct input *in)
{
	uint64_t sum = XXH3_64bits_digest(in->file.sum), told;
	uint64_t offset = source_offset(in->src, in->src->p);
	const uint8_t *at;
	enum plim_status st = take_packed(in, sizeof(told), &at);

	if (st)
		return st;
	memcpy(&told, at, sizeof(told));
	if (told != sum)
		return damaged(in, offset, "the checksum of the whole differs");
	st = source_need(in->src, in->src->p, 1, in->file.err);
	if (!st && in->src->p != in->src->end)
		st = damaged(in, offset + sizeof(told), "something follows its end");
	return st;
}

static enum plim_status read_chunks(struct input *in, struct snapshot *t)
{
	unsigned found = 0; /* parts of the recording */

	for (;;) {
		uint64_t offset = source_offset(in->src, in->src->p), packed, plain;
		const uint8_t *byte;
		enum plim_status st = take_packed(in, 1, &byte);
		uint8_t kind = st ? PACKED_END : *byte;

		if (!st && kind == PACKED_END)
			return found ? read_end(in) : damaged(in, offset, "it holds no recording");
		if (!st)
			st = take_varint(in, &packed);
		if (!st)
			st = take_varint(in, &plain);
		if (st)
			return st;
		if (kind >= PACKED_MAY_SKIP)
			st = skip_chunk(in, packed);
		else if (kind == (found ? PACKED_FOLLOWING : PACKED_RECORDING) &&
			 found <= FOLLOWING_MAX)
			st = read_chunk(in, t, found++ != 0, packed, plain);
		else
			st = err_set(
				in->file.err, PLIM_E_UNSUPPORTED,
				"a packed recording with a part that this release of Plimsoll does "
				"not read (chunk %u at byte %llu)",
				kind, (unsigned long long)offset);
		if (st)
			return st;
	}
}

uint64_t snapshot_packed_bytes(const uint8_t *p, size_t n)
{
	uint64_t value = 0;
	size_t at = PACKED_HEAD_BYTES + 1;

	for (int number = 0; number < 2; number++) { /* packed bytes, plain bytes */
		unsigned shift = 0;

		for (value = 0; at < n && shift < 63; shift += 7) {
			value |= (uint64_t)(p[at] & 0x7f) << shift;
			if (p[at++] < 0x80)
				break;
		}
	}
	return value < PLAIN_MAX ? value : PLAIN_MAX;
}

enum plim_status packed_read(struct snapshot *t, struct source *src, struct plim_err *err)
{
	struct input in = { .file = { .mem = t->mem }, .src = src };
	struct plim_err own;
	enum plim_status st;

	in.file.err = err ? err : &own;
	st = file_begin(&in.file);
	if (!st)
		st = check_head(&in);
	if (!st)
		st = read_chunks(&in, t);
	XXH3_freeState(in.file.sum);
	return st;
}
