/*
 * Zip archives as torch.save writes them, and as others do: the central directory is believed only
 * where the local header, the data descriptor and the neighbours agree.  Layout:
 *
 *	[local header, name, extra (padding to 64)] data [descriptor]	once a record
 *	[central entry, name, extra]					once a record
 *	[zip64 end] [zip64 locator] end [comment]
 *
 * torch ignores the local header's name, sizes and checksum but adds its lengths to find the data, so
 * a difference there makes other bytes load without an error.
 */
#include "zip.h"

#include <libdeflate.h>
#include <string.h>
#include <strings.h>

#define ENTRY_BYTES 46
#define END_BYTES 22
#define END64_BYTES 56
#define LOCATOR_BYTES 20
#define LOOK_BACK_BYTES ((uint64_t)64 << 10) /* as far as torch looks for the end */
#define ATTRIBUTE_FOLDER 0x10                /* of MS-DOS, in the external attributes */
#define INFLATE_RATIO 100                    /* of a bomb; weights do not shrink that much */

#define BAD(kind, at, ...) ckpt_model_find(c, CKPT_BAD_FINDING, kind, at, err, __VA_ARGS__)
#define LL(x) ((unsigned long long)(x))

/* A central entry, with zip64 already applied. */
struct entry {
	const uint8_t *at; /* its 46 bytes; name behind */
	uint64_t stored, bytes, header;
	uint32_t crc, disk, attributes;
	uint16_t flags, method, time, date, name_n, extra_n;
};

/* Where the directory lies, from the end records. */
struct end {
	uint64_t offset, bytes, records, at; /* at: of the first end record */
	uint64_t trailing;
	bool lost64; /* the zip64 end is not where its locator says: `at` is not known to be right */
};

/* ---- the end ---- */

static enum plim_status check_end64(struct ckpt *c, const uint8_t *p, const uint8_t *classic,
				    struct end *e, struct plim_err *err)
{
	static const struct {
		uint8_t at64, at, n;
	} same[] = { { 16, 4, 2 },  { 20, 6, 2 },  { 24, 8, 2 },
		     { 32, 10, 2 }, { 40, 12, 4 }, { 48, 16, 4 } };
	bool differ = zip_le(p + 4, 8) != END64_BYTES - 12;

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		size_t wide = same[i].at64 < 24 ? 4 : 8;
		uint64_t v64 = zip_le(p + same[i].at64, wide),
			 v = zip_le(classic + same[i].at, same[i].n),
			 all = same[i].n == 2 ? UINT16_MAX : UINT32_MAX;

		differ |= v != (v64 < all ? v64 : all) && v != all;
	}
	e->records = zip_le(p + 32, 8);
	e->bytes = zip_le(p + 40, 8);
	e->offset = zip_le(p + 48, 8);
	differ |= zip_le(p + 24, 8) != e->records || zip_le(p + 16, 8) != 0;
	return differ ? BAD("end_mismatch", e->at, "the zip's two end records differ") : PLIM_OK;
}

/* `classic` stands at `at` in the archive. */
static enum plim_status read_end(struct ckpt *c, const struct zip *z, const uint8_t *classic,
				 uint64_t at, struct end *e, struct plim_err *err)
{
	uint8_t p[END64_BYTES];
	size_t got;
	enum plim_status st = PLIM_OK;

	e->at = at;
	e->records = zip_le(classic + 10, 2);
	e->bytes = zip_le(classic + 12, 4);
	e->offset = zip_le(classic + 16, 4);
	if (zip_le(classic + 4, 4) || zip_le(classic + 8, 2) != e->records)
		st = BAD("end_mismatch", at, "the zip's end record names several disks");
	if (st || at < LOCATOR_BYTES)
		return st;
	st = ckpt_pread(c, z->file, z->base + at - LOCATOR_BYTES, p, LOCATOR_BYTES, &got, err);
	if (st || zip_le(p, 4) != 0x07064b50)
		return st;
	e->at = at - LOCATOR_BYTES;
	if (zip_le(p + 4, 4) || zip_le(p + 16, 4) != 1)
		st = BAD("end_mismatch", e->at, "the zip64 locator names several disks");
	at = zip_le(p + 8, 8);
	e->lost64 = true;
	if (!st && (at > e->at || e->at - at < END64_BYTES))
		return BAD("end_mismatch", e->at, "the zip64 locator points to a wrong place");
	if (!st)
		st = ckpt_pread(c, z->file, z->base + at, p, sizeof(p), &got, err);
	if (!st && (got < sizeof(p) || zip_le(p, 4) != 0x06064b50))
		return BAD("end_mismatch", e->at, "the zip64 locator points to no end record");
	e->lost64 = false;
	if (!st && e->at - at > END64_BYTES)
		st = BAD("end_mismatch", at + END64_BYTES,
			 "%llu bytes stand between the zip's end records: two files in one?",
			 LL(e->at - at - END64_BYTES));
	e->at = at;
	return st ? st : check_end64(c, p, classic, e, err);
}

/* Search backwards for the end record; the newest whose comment and directory fit in the file. */
static enum plim_status find_end(struct ckpt *c, const struct zip *z, struct end *e,
				 struct plim_err *err)
{
	uint64_t n =
		z->bytes < LOOK_BACK_BYTES + END_BYTES ? z->bytes : LOOK_BACK_BYTES + END_BYTES;
	uint8_t *tail;
	uint64_t start = z->bytes - n;
	enum plim_status st =
		ckpt_model_read(c, z->file, z->base + start, n, n, "the end", &tail, err);
	bool found = false;

	for (uint64_t i = n < END_BYTES ? 0 : n - END_BYTES + 1; !st && !found && i--;) {
		if (memcmp(tail + i, "PK\5\6", 4) != 0)
			continue;
		found = true;
		st = read_end(c, z, tail + i, start + i, e, err);
		e->trailing = n - i - END_BYTES;
		if (!st && e->trailing)
			st = globals_seek(c, "what stands behind the zip", tail + i + END_BYTES,
					  (size_t)e->trailing, NULL, err);
		if (!st && zip_le(tail + i + 20, 2))
			st = BAD(
				"comment", z->base + start + i,
				"the zip carries a comment of %llu bytes, which torch never writes",
				LL(zip_le(tail + i + 20, 2)));
		else if (!st && e->trailing)
			st = ckpt_model_find(
				c, CKPT_WARN, "trailing_bytes", z->base + start + i + END_BYTES,
				err,
				"behind the end of the zip there are more bytes, %llu: "
				"torch ignores them",
				LL(e->trailing));
	}
	mem_free(c->mem, tail, n, 1);
	return st || found ? st : err_set(err, PLIM_E_FORMAT, "no zip directory");
}

/* ---- entries ---- */

/* Values that did not fit, in the order of the directory's rule. */
static bool read_zip64(struct entry *e)
{
	uint64_t *wide[] = { &e->bytes, &e->stored, &e->header };
	const uint8_t *p = e->at + ENTRY_BYTES + e->name_n, *end = p + e->extra_n;
	bool need = e->bytes == UINT32_MAX || e->stored == UINT32_MAX || e->header == UINT32_MAX;

	while (end - p >= 4) {
		uint64_t n = zip_le(p + 2, 2);
		const uint8_t *q = p + 4;

		if (n > (uint64_t)(end - q))
			return false;
		for (size_t i = 0; zip_le(p, 2) == 1 && i < 3; i++) {
			if (*wide[i] != UINT32_MAX)
				continue;
			if (n < 8)
				return false;
			*wide[i] = zip_le(q, 8);
			q += 8;
			n -= 8;
			need = false;
		}
		p += 4 + zip_le(p + 2, 2);
	}
	return p == end && !need;
}

static void decode_entry(const uint8_t *p, struct entry *e)
{
	*e = (struct entry){
		.at = p,
		.flags = (uint16_t)zip_le(p + 8, 2),
		.method = (uint16_t)zip_le(p + 10, 2),
		.time = (uint16_t)zip_le(p + 12, 2),
		.date = (uint16_t)zip_le(p + 14, 2),
		.crc = (uint32_t)zip_le(p + 16, 4),
		.stored = zip_le(p + 20, 4),
		.bytes = zip_le(p + 24, 4),
		.name_n = (uint16_t)zip_le(p + 28, 2),
		.extra_n = (uint16_t)zip_le(p + 30, 2),
		.disk = (uint32_t)zip_le(p + 34, 2),
		.attributes = (uint32_t)zip_le(p + 38, 4),
		.header = zip_le(p + 42, 4),
	};
}

#define EXTRA_TORCH 0x4246

/* zip64, torch's padding, times and owners of Info-ZIP, Java, Android's alignment. */
static bool is_known_extra(uint64_t id)
{
	static const uint16_t known[] = { 1, EXTRA_TORCH, 0x5455, 0x7875, 0x5855, 0xcafe, 0xd935 };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (id == known[i])
			return true;
	return false;
}

/* Only what torch writes itself in the padding; other bytes are where a bit flipped, or hidden data. */
static enum plim_status check_padding(struct ckpt *c, const struct zip *z, const struct entry *e,
				      const uint8_t *p, size_t n, struct plim_err *err)
{
	for (size_t at = 0; at + 4 <= n;) {
		size_t length = (size_t)zip_le(p + at + 2, 2);

		uint64_t id = zip_le(p + at, 2);
		bool right = is_known_extra(id);

		if (length > n - at - 4)
			break;
		for (size_t i = 0; id == EXTRA_TORCH && i < length; i++)
			right &= p[at + 4 + i] == 'Z';
		if (!right)
			return ckpt_model_find(
				c, CKPT_WARN, "padding", z->base + e->header, err,
				"the padding before '%.*s' holds other bytes than torch writes",
				(int)e->name_n, (const char *)e->at + ENTRY_BYTES);
		at += 4 + length;
		if (at == n)
			return PLIM_OK;
	}
	return n ? BAD("local_mismatch", z->base + e->header,
		       "the extra field of the local header of '%.*s' is damaged", (int)e->name_n,
		       (const char *)e->at + ENTRY_BYTES)
		 : PLIM_OK;
}

/* The descriptor behind the data repeats the directory; *n is its size. */
static enum plim_status check_descriptor(struct ckpt *c, const struct zip *z, const struct entry *e,
					 uint64_t end, bool wide, uint64_t *n, struct plim_err *err)
{
	uint8_t p[24];
	size_t got, w = wide ? 8 : 4;
	enum plim_status st = ckpt_pread(c, z->file, z->base + end, p, sizeof(p), &got, err);

	*n = 8 + 2 * w;
	if (!st && (got < *n || memcmp(p, "PK\7\10", 4) != 0 || zip_le(p + 4, 4) != e->crc ||
		    zip_le(p + 8, w) != (e->stored & (wide ? UINT64_MAX : UINT32_MAX)) ||
		    zip_le(p + 8 + w, w) != (e->bytes & (wide ? UINT64_MAX : UINT32_MAX))))
		st = BAD("descriptor_mismatch", z->base + end,
			 "the data descriptor after '%.*s' has another size or checksum than the "
			 "directory",
			 (int)e->name_n, (const char *)e->at + ENTRY_BYTES);
	return st;
}

/* The version that is needed may be lower in the local header: writers learn of zip64 at the end. */
static bool needs_agree(uint64_t local, uint64_t central)
{
	return local == central || ((local == 10 || local == 20) && central == 45);
}

static bool local_differs(const uint8_t *p, const struct entry *e)
{
	bool later = e->flags & FLAG_DESCRIPTOR;
	uint32_t crc = (uint32_t)zip_le(p + 14, 4), stored = (uint32_t)zip_le(p + 18, 4),
		 bytes = (uint32_t)zip_le(p + 22, 4);
	bool crc_ok = crc == e->crc || (later && !crc),
	     wide = stored == UINT32_MAX || bytes == UINT32_MAX;
	bool sizes_ok =
		wide || (stored == e->stored && bytes == e->bytes) || (later && !stored && !bytes);

	return zip_le(p + 6, 2) != e->flags || zip_le(p + 8, 2) != e->method ||
	       zip_le(p + 10, 2) != e->time || zip_le(p + 12, 2) != e->date || !crc_ok ||
	       !sizes_ok || !needs_agree(zip_le(p + 4, 2), zip_le(e->at + 6, 2));
}

/* The local header: does it say what the directory says?  *data, *end: of the record. */
static enum plim_status check_local(struct ckpt *c, const struct zip *z, const struct entry *e,
				    uint64_t *data, uint64_t *end, struct plim_err *err)
{
	uint8_t p[LOCAL_BYTES], *rest = NULL;
	const char *name = (const char *)e->at + ENTRY_BYTES;
	uint64_t name_n, extra_n, tail = 0;
	size_t got;
	enum plim_status st = ckpt_pread(c, z->file, z->base + e->header, p, sizeof(p), &got, err);

	*data = *end = e->header;
	if (st)
		return st;
	if (got < sizeof(p) || memcmp(p, "PK\3\4", 4) != 0)
		return BAD("local_missing", z->base + e->header,
			   "'%.*s' is not where the directory says", (int)e->name_n, name);
	name_n = zip_le(p + 26, 2);
	extra_n = zip_le(p + 28, 2);
	*data = e->header + LOCAL_BYTES + name_n + extra_n;
	if (*data > z->directory || e->stored > z->directory - *data) {
		*end = *data;
		return BAD("beyond_end", z->base + e->header,
			   "'%.*s' reaches %llu bytes beyond the zip's data", (int)e->name_n, name,
			   LL(*data + e->stored - z->directory));
	}
	*end = *data + e->stored;
	st = ckpt_model_read(c, z->file, z->base + e->header + LOCAL_BYTES, name_n + extra_n,
			     2 << 16, "a local header", &rest, err);
	if (!st && (name_n != e->name_n || memcmp(rest, name, name_n) != 0 || local_differs(p, e)))
		st = BAD("local_mismatch", z->base + e->header,
			 "the local header of '%.*s' differs from the directory", (int)e->name_n,
			 name);
	else if (!st)
		st = check_padding(c, z, e, rest + name_n, extra_n, err);
	if (!st && e->flags & FLAG_DESCRIPTOR)
		st = check_descriptor(c, z, e, *end, extra_n >= 4 && zip_le(rest + name_n, 2) == 1,
				      &tail, err);
	*end += tail;
	mem_free(c->mem, rest, name_n + extra_n, 1);
	return st;
}

/* ---- the directory ---- */

struct span {
	uint64_t from, to;
	uint32_t record;
};

static int zip_by_place(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/*
 * Records must follow each other up to the directory: nothing hidden, nothing shared.  A million entries may
 * share the same bytes: beyond the size of the file as a whole such records are not read.
 */
static enum plim_status check_spans(struct ckpt *c, const struct zip *z, struct span *s,
				    struct plim_err *err)
{
	uint64_t at = 0, shared = 0;
	enum plim_status st = PLIM_OK;

	sort_items(s, z->n, sizeof(*s), zip_by_place);
	for (size_t i = 0; !st && i <= z->n; i++) {
		uint64_t from = i < z->n ? s[i].from : z->directory;
		const char *name =
			i < z->n ? ckpt_text(c, c->extents.at[s[i].record].name) : "the directory";

		if (from < at)
			st = BAD("overlap", z->base + from,
				 "'%.200s' overlaps the record before it", name);
		else if (from > at)
			st = BAD("hole", z->base + at,
				 "%llu bytes before '%.200s' belong to no record", LL(from - at),
				 name);
		if (i < z->n && from < at) {
			shared += s[i].to - from;
			if (shared > z->bytes)
				c->extents.at[s[i].record].state = CKPT_CUT;
		}
		if (i < z->n && s[i].to > at)
			at = s[i].to;
	}
	return st;
}

static int zip_by_name(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcasecmp(*x, *y);
}

/* torch finds one of two equal names, other tools the other. */
static enum plim_status check_zip_names(struct ckpt *c, const struct zip *z, struct plim_err *err)
{
	const char **names = mem_new(c->mem, z->n, sizeof(*names), err);
	enum plim_status st = names ? PLIM_OK : mem_status(err);

	for (size_t i = 0; !st && i < z->n; i++)
		names[i] = ckpt_text(c, c->extents.at[z->first + i].name);
	if (!st)
		sort_items(names, z->n, sizeof(*names), zip_by_name);
	for (size_t i = 1; !st && i < z->n; i++)
		if (!strcasecmp(names[i - 1], names[i]))
			st = BAD("duplicate", PLIM_UNKNOWN,
				 "two records are named '%.200s': programs differ in which they "
				 "read",
				 names[i]);
	mem_free(c->mem, names, z->n, sizeof(*names));
	return st;
}

/* torch never unpacks a record, other tools do. */
static bool is_unsafe(const char *name, size_t n)
{
	bool unsafe = n && *name == '/';

	for (size_t i = 0; i < n && !unsafe; i++)
		unsafe = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ||
			 ((!i || name[i - 1] == '/') && i + 2 <= n && !memcmp(name + i, "..", 2) &&
			  (i + 2 == n || name[i + 2] == '/'));
	return unsafe;
}

/* What the directory says of a record, taken by itself; *readable: it can be had. */
static enum plim_status check_entry(struct ckpt *c, const struct zip *z, const struct entry *e,
				    bool *readable, struct plim_err *err)
{
	const char *name = (const char *)e->at + ENTRY_BYTES;
	int n = (int)e->name_n;
	uint64_t at = z->base + e->header;
	bool packed = e->method && e->method != 8;
	bool bomb = e->method == 8 && e->bytes / INFLATE_RATIO > e->stored + 1024;
	enum plim_status st = PLIM_OK;

	*readable = !packed && !bomb;
	if (is_unsafe(name, e->name_n))
		st = ckpt_model_find(
			c, CKPT_WARN, "unsafe_name", at, err,
			"the name of record '%.*s' leads out of a folder or holds control "
			"characters: torch never writes such",
			n, name);
	if (st)
		return st;
	if (e->flags & (FLAG_ENCRYPTED | FLAG_PATCH | FLAG_STRONG) || packed || e->disk)
		return BAD("unreadable_record", at,
			   "'%.*s' is encrypted, on another disk or packed in a way that torch "
			   "refuses",
			   n, name);
	if (!e->method && e->stored != e->bytes)
		return BAD("size_mismatch", at,
			   "'%.*s' is stored as it is, yet its two sizes differ", n, name);
	/* miniz takes such a record for a folder, and hands out memory that it never filled. */
	if ((e->attributes & ATTRIBUTE_FOLDER || (n && name[n - 1] == '/')) && e->bytes)
		return BAD("folder_flag", at,
			   "'%.*s' is marked as a folder: torch loads zeros or leftovers of memory "
			   "in place of its %llu bytes",
			   n, name, LL(e->bytes));
	return bomb ? BAD("bomb", at, "'%.*s' would inflate from %llu to %llu bytes: not read", n,
			  name, LL(e->stored), LL(e->bytes))
		    : PLIM_OK;
}

static enum plim_status add_entry(struct ckpt *c, struct zip *z, const struct entry *e,
				  struct span *span, struct plim_err *err)
{
	const char *name = (const char *)e->at + ENTRY_BYTES;
	struct ckpt_extent x = { .file = z->file,
				 .stored_bytes = e->stored,
				 .bytes = e->method == 8 ? e->bytes : e->stored,
				 .crc = e->crc,
				 .deflated = e->method == 8 };
	uint64_t data = 0, end = 0, size = c->files.at[z->file].bytes;
	size_t before = c->findings.n;
	bool readable = false;
	enum plim_status st = PLIM_OK;

	x.name = ckpt_model_string(c, name, e->name_n, &st, err);
	x.check = e->crc || !e->bytes ? CKPT_CHECK_CRC : CKPT_CHECK_OFF;
	if (!st)
		st = check_entry(c, z, e, &readable, err);
	if (!st && e->header > z->directory)
		st = BAD("beyond_end", PLIM_UNKNOWN, "'%.*s' lies behind the directory",
			 (int)e->name_n, name);
	else if (!st)
		st = check_local(c, z, e, &data, &end, err);
	x.offset = z->base + data;
	if (end < data || x.offset > size || e->stored > size - x.offset || !readable)
		x.state = CKPT_CUT;
	*span = (struct span){ e->header, end, (uint32_t)c->extents.n };
	z->damaged |= c->findings.n > before;
	return st ? st : vec_push(c->mem, &c->extents, x, err);
}

static enum plim_status read_entries(struct ckpt *c, struct zip *z, const uint8_t *p, uint64_t n,
				     struct span *spans, uint64_t records, struct plim_err *err)
{
	const uint8_t *end = p + n;
	enum plim_status st = PLIM_OK;

	for (; !st && z->n < records; z->n++) {
		struct entry e;

		if (end - p < ENTRY_BYTES || memcmp(p, "PK\1\2", 4) != 0)
			break;
		decode_entry(p, &e);
		if ((uint64_t)(end - p) <
		    ENTRY_BYTES + (uint64_t)e.name_n + e.extra_n + zip_le(p + 32, 2))
			break;
		if (!read_zip64(&e) || zip_le(p + 32, 2))
			st = BAD("directory_damaged", z->base + z->directory,
				 "the directory's entry %u has damaged extra fields", z->n);
		if (!st)
			st = add_entry(c, z, &e, &spans[z->n], err);
		p += ENTRY_BYTES + e.name_n + e.extra_n + zip_le(p + 32, 2);
	}
	z->broken = p != end || z->n != records;
	if (!st && z->broken)
		st = BAD("directory_damaged", z->base + z->directory,
			 "the directory holds other entries than the end record says");
	return st;
}

enum plim_status zip_read(struct ckpt *c, uint32_t file, uint64_t base, uint64_t bytes,
			  struct zip *z, struct plim_err *err)
{
	struct end e = { 0 };
	struct span *spans = NULL;
	uint8_t *p = NULL;
	enum plim_status st;

	*z = (struct zip){
		.file = file, .base = base, .bytes = bytes, .first = (uint32_t)c->extents.n
	};
	st = find_end(c, z, &e, err);
	if (st)
		return st;
	if (e.records > e.bytes / ENTRY_BYTES) {
		st = BAD("directory_damaged", z->base + e.at,
			 "the end record counts more entries than the directory has room for");
		e.records = e.bytes / ENTRY_BYTES;
	}
	if (st)
		return st;
	if (e.records > CKPT_RECORDS)
		return err_set(err, PLIM_E_LIMIT, "the zip has %llu records; at most %llu are read",
			       LL(e.records), LL(CKPT_RECORDS));
	z->broken = e.offset > e.at || e.bytes > e.at - e.offset;
	if (z->broken)
		st = BAD("directory_damaged", z->base + e.at,
			 "the end record points to a wrong place for the directory");
	else if (!e.lost64 && e.bytes < e.at - e.offset)
		st = BAD("directory_damaged", z->base + e.at,
			 "%llu bytes stand between the directory and its end record",
			 LL(e.at - e.offset - e.bytes));
	z->directory = e.offset;
	if (!st && !z->broken)
		st = ckpt_model_read(c, file, base + e.offset, e.bytes, CKPT_DIRECTORY_BYTES,
				     "the directory", &p, err);
	if (!st && !z->broken) {
		spans = mem_new(c->mem, e.records, sizeof(*spans), err);
		st = spans ? read_entries(c, z, p, e.bytes, spans, e.records, err)
			   : mem_status(err);
	}
	if (!st && !z->broken)
		st = check_spans(c, z, spans, err);
	if (!st && !z->broken)
		st = check_zip_names(c, z, err);
	mem_free(c->mem, spans, e.records, sizeof(*spans));
	mem_free(c->mem, p, e.bytes, 1);
	return st;
}

uint32_t zip_find(const struct ckpt *c, const struct zip *z, const char *name)
{
	for (uint32_t i = 0; i < z->n; i++)
		if (!strcasecmp(ckpt_text(c, c->extents.at[z->first + i].name), name))
			return z->first + i;
	return CKPT_NONE;
}

enum plim_status zip_get(struct ckpt *c, uint32_t record, uint64_t limit, uint8_t **out, size_t *n,
			 struct plim_err *err)
{
	const struct ckpt_extent *x = &c->extents.at[record];
	struct libdeflate_decompressor *d;
	uint8_t *raw;
	enum plim_status st = PLIM_OK;

	*n = (size_t)x->bytes;
	*out = NULL;
	/* torch never packs; bytes inside bytes that unpack to a thousand times as many would have no bound. */
	if (x->state == CKPT_CUT || x->bytes > limit || (c->nested && x->deflated))
		return err_set(err, PLIM_E_FORMAT, "record '%.200s' cannot be read",
			       ckpt_text(c, x->name));
	st = ckpt_model_read(c, x->file, x->offset, x->stored_bytes, limit, "a record", &raw, err);
	if (st || !x->deflated) {
		*out = raw;
		return st;
	}
	*out = mem_new(c->mem, *n, 1, err);
	d = libdeflate_alloc_decompressor();
	if (!*out)
		st = mem_status(err);
	else if (!d)
		st = err_set(err, PLIM_E_NOMEM, "out of memory");
	else if (libdeflate_deflate_decompress(d, raw, x->stored_bytes, *out, *n, NULL) !=
		 LIBDEFLATE_SUCCESS)
		st = err_set(err, PLIM_E_FORMAT, "record '%.200s' does not inflate",
			     ckpt_text(c, x->name));
	libdeflate_free_decompressor(d);
	mem_free(c->mem, raw, x->stored_bytes, 1);
	if (st) {
		mem_free(c->mem, *out, *n, 1);
		*out = NULL;
	}
	return st;
}
