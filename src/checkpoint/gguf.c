/*
 * GGUF, the format of llama.cpp (ggml/docs/gguf.md, version 3; ggml/src/gguf.cpp reads it):
 *
 *	"GGUF" | u32 version | u64 tensors | u64 keys | keys | tensor infos | padding | data
 *	key:	string name | u32 type | value
 *	info:	string name | u32 dimensions | u64 sizes, the innermost first | u32 type | u64 offset in the data
 *
 * llama.cpp wants the offsets to follow each other without a gap, each padded to general.alignment; whatever
 * differs it refuses, and so it is said here.  There are no checksums.
 */
#include "parts.h"

#include <stdio.h>

#define VERSION_OLDEST 2
#define VERSION_NEWEST 3
#define ALIGNMENT 32  /* unless general.alignment says otherwise */
#define DIMS 4        /* of ggml */
#define NAME_BYTES 63 /* of a tensor in ggml, without its NUL */
#define SHOWN_BYTES 200
#define BUFFER_BYTES ((size_t)64 << 10)

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, TYPES };

/* Bytes of a scalar; 0: it has a length of its own. */
static const uint8_t widths[TYPES] = {
	[U8] = 1,  [I8] = 1,   [U16] = 2, [I16] = 2, [U32] = 4, [I32] = 4,
	[F32] = 4, [BOOL] = 1, [U64] = 8, [I64] = 8, [F64] = 8
};

/* ggml_type: ggml/include/ggml.h; those that are missing were taken back. */
static const struct {
	uint32_t type;
	const char *dtype;
} types[] = {
	{ 0, "float32" }, { 1, "float16" },  { 2, "q4_0" },   { 3, "q4_1" },      { 6, "q5_0" },
	{ 7, "q5_1" },    { 8, "q8_0" },     { 9, "q8_1" },   { 10, "q2_k" },     { 11, "q3_k" },
	{ 12, "q4_k" },   { 13, "q5_k" },    { 14, "q6_k" },  { 15, "q8_k" },     { 16, "iq2_xxs" },
	{ 17, "iq2_xs" }, { 18, "iq3_xxs" }, { 19, "iq1_s" }, { 20, "iq4_nl" },   { 21, "iq3_s" },
	{ 22, "iq2_s" },  { 23, "iq4_xs" },  { 24, "int8" },  { 25, "int16" },    { 26, "int32" },
	{ 27, "int64" },  { 28, "float64" }, { 29, "iq1_m" }, { 30, "bfloat16" }, { 34, "tq1_0" },
	{ 35, "tq2_0" },  { 39, "mxfp4" },
};

struct reader {
	struct ckpt *ckpt;
	uint32_t file;
	const char *prefix;
	uint64_t bytes, at; /* of the file; of the next byte */
	uint8_t *buffer;
	uint64_t buffer_at;
	size_t buffer_n;
	bool ended;               /* the file ends before its header does */
	uint64_t alignment, next; /* next: where in the data the next tensor is wanted */
	uint64_t data, parts, part;
	struct intern keys; /* that were read */
};

#define BAD(kind, at, ...) ckpt_model_find(r->ckpt, CKPT_BAD_FINDING, kind, at, err, __VA_ARGS__)
#define LL(x) ((unsigned long long)(x))

/* ---- bytes ---- */

static enum plim_status cut_gguf(struct reader *r, struct plim_err *err)
{
	r->ended = true;
	return err_set(err, PLIM_E_FORMAT, "the file ends inside its header");
}

static enum plim_status take_gguf(struct reader *r, void *to, size_t n, struct plim_err *err)
{
	uint8_t *out = to;
	enum plim_status st = PLIM_OK;

	if (n > r->bytes - r->at)
		return cut_gguf(r, err);
	while (!st && n) {
		uint64_t from = r->at - r->buffer_at;
		size_t have = from < r->buffer_n ? r->buffer_n - (size_t)from : 0;

		if (!have) {
			r->buffer_at = r->at;
			st = ckpt_pread(r->ckpt, r->file, r->at, r->buffer, BUFFER_BYTES,
					&r->buffer_n, err);
			if (!st && !r->buffer_n)
				return cut_gguf(r, err);
			continue;
		}
		have = have < n ? have : n;
		memcpy(out, r->buffer + from, have);
		out += have;
		r->at += have;
		n -= have;
	}
	return st;
}

static enum plim_status take_u32(struct reader *r, uint32_t *v, struct plim_err *err)
{
	return take_gguf(r, v, sizeof(*v), err);
}

static enum plim_status take_u64(struct reader *r, uint64_t *v, struct plim_err *err)
{
	return take_gguf(r, v, sizeof(*v), err);
}

static enum plim_status skip(struct reader *r, uint64_t n, struct plim_err *err)
{
	if (n > r->bytes - r->at)
		return cut_gguf(r, err);
	r->at += n;
	return PLIM_OK;
}

/* The first bytes of a string, terminated; *n is its whole length. */
static enum plim_status take_string(struct reader *r, char *text, size_t size, uint64_t *n,
				    struct plim_err *err)
{
	enum plim_status st = take_u64(r, n, err);
	size_t kept;

	text[0] = 0;
	if (st)
		return st;
	if (*n > r->bytes - r->at)
		return cut_gguf(r, err);
	kept = *n < size ? (size_t)*n : size - 1;
	st = take_gguf(r, text, kept, err);
	text[st ? 0 : kept] = 0;
	return st ? st : skip(r, *n - kept, err);
}

/* Of a key or a tensor: UTF-8, without which gguf-py refuses the file.  Of one that is cut here, the last character may be. */
static enum plim_status take_name(struct reader *r, char *text, size_t size, uint64_t *n,
				  struct plim_err *err)
{
	uint64_t at = r->at;
	size_t kept, sure, k = 1;
	uint32_t code;
	enum plim_status st = take_string(r, text, size, n, err);

	if (st)
		return st;
	kept = *n < size ? (size_t)*n : size - 1;
	sure = *n < size ? kept : kept - 3;
	for (size_t i = 0; k && i < sure; i += k)
		k = utf8_decode(text + i, kept - i, &code);
	return k ? PLIM_OK : err_at(err, at, "a name is not UTF-8: gguf-py refuses the file");
}

/* ---- keys ---- */

static void show_number(char *text, size_t size, uint32_t type, uint64_t bits)
{
	float f;
	double d;

	memcpy(&f, &bits, sizeof(f));
	memcpy(&d, &bits, sizeof(d));
	switch (type) {
	case F32: snprintf(text, size, "%.9g", (double)f); break;
	case F64: snprintf(text, size, "%.9g", d); break;
	case BOOL: snprintf(text, size, "%s", bits ? "true" : "false"); break;
	case I8: snprintf(text, size, "%d", (int8_t)bits); break;
	case I16: snprintf(text, size, "%d", (int16_t)bits); break;
	case I32: snprintf(text, size, "%d", (int32_t)bits); break;
	case I64: snprintf(text, size, "%lld", (long long)bits); break;
	default: snprintf(text, size, "%llu", LL(bits));
	}
}

/* An array's elements are passed over. */
static enum plim_status read_array(struct reader *r, char *text, size_t size, struct plim_err *err)
{
	char one[2];
	uint32_t type;
	uint64_t n, length;
	enum plim_status st = take_u32(r, &type, err);

	if (!st)
		st = take_u64(r, &n, err);
	if (st)
		return st;
	if (type >= TYPES || type == ARRAY)
		return err_at(err, r->at, "an array of type %u", type);
	snprintf(text, size, "%llu %s", LL(n), type == STRING ? "texts" : "numbers");
	if (type != STRING)
		return n > (r->bytes - r->at) / widths[type] ? cut_gguf(r, err)
							     : skip(r, n * widths[type], err);
	while (!st && n--)
		st = take_string(r, one, sizeof(one), &length, err);
	return st;
}

/* llama.cpp refuses a key that comes twice; of one that is longer than any only the beginning is known here. */
static enum plim_status note_key(struct reader *r, const char *name, uint64_t n,
				 struct plim_err *err)
{
	size_t before = r->keys.n;
	uint32_t id;
	enum plim_status st;

	if (n >= SHOWN_BYTES)
		return PLIM_OK;
	st = intern_add(&r->keys, name, (size_t)n, &id, err);
	return st || id >= before ? st
				  : err_set(err, PLIM_E_FORMAT,
					    "the key '%.60s' stands there twice: llama.cpp refuses "
					    "the file",
					    name);
}

static enum plim_status read_key(struct reader *r, struct plim_err *err)
{
	struct ckpt *c = r->ckpt;
	char name[SHOWN_BYTES], text[SHOWN_BYTES];
	struct ckpt_fact f;
	uint32_t type = 0;
	uint64_t n, bits = 0;
	enum plim_status st = take_name(r, name, sizeof(name), &n, err);

	if (!st)
		st = note_key(r, name, n, err);
	if (!st)
		st = take_u32(r, &type, err);
	if (st)
		return st;
	if (type >= TYPES)
		return err_at(err, r->at, "key '%.60s' has type %u", name, type);
	if (type == STRING)
		st = take_string(r, text, sizeof(text), &n, err);
	else if (type == ARRAY)
		st = read_array(r, text, sizeof(text), err);
	else if (!(st = take_gguf(r, &bits, widths[type], err)))
		show_number(text, sizeof(text), type, bits);
	if (st)
		return st;
	if (!strcmp(name, "general.alignment"))
		r->alignment = type == U32 ? bits : 0;
	else if (!strcmp(name, "split.count"))
		r->parts = bits;
	else if (!strcmp(name, "split.no"))
		r->part = bits;
	if (!strncmp(name, "tokenizer.chat_template", 23) && type == STRING)
		st = ckpt_model_find(c, CKPT_NOTE, "template", PLIM_UNKNOWN, err,
				     "'%.60s' is a template of Jinja, which is not looked at: "
				     "programs that run it without a sandbox run its code",
				     name);
	if (st)
		return st;
	f.name = ckpt_model_printf(c, &st, err, "%s", name);
	f.value = ckpt_model_printf(c, &st, err, "%s", text);
	return st ? st : ckpt_model_fact(c, f, err);
}

/* ---- tensors ---- */

static const struct ckpt_dtype *find_type(uint32_t type)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].type == type)
			return ckpt_dtype_of_torch(types[i].dtype);
	return NULL;
}

struct info {
	char name[4 * SHOWN_BYTES];
	uint64_t name_n, sizes[DIMS], offset;
	uint32_t rank, type;
};

static enum plim_status take_info(struct reader *r, struct info *t, struct plim_err *err)
{
	uint64_t innermost[DIMS];
	enum plim_status st = take_name(r, t->name, sizeof(t->name), &t->name_n, err);

	if (!st)
		st = take_u32(r, &t->rank, err);
	if (!st && t->rank > DIMS)
		return err_at(err, r->at, "tensor '%.60s' has %u dimensions; ggml has 4", t->name,
			      t->rank);
	for (uint32_t i = 0; !st && i < t->rank; i++)
		st = take_u64(r, &innermost[i], err);
	if (!st)
		st = take_u32(r, &t->type, err);
	if (!st)
		st = take_u64(r, &t->offset, err);
	for (uint32_t i = 0; !st && i < t->rank; i++)
		t->sizes[i] = innermost[t->rank - 1 - i];
	return st;
}

static uint64_t padded(const struct reader *r, uint64_t n)
{
	uint64_t more = n % r->alignment ? r->alignment - n % r->alignment : 0;

	return n > UINT64_MAX - more ? UINT64_MAX : n + more;
}

/* Where the tensor must lie, as llama.cpp wants it; its extent is not yet placed in the file. */
static enum plim_status add_tensor(struct reader *r, const struct info *t, struct plim_err *err)
{
	struct ckpt *c = r->ckpt;
	struct ckpt_tensor x = { .dtype = find_type(t->type), .rank = (uint16_t)t->rank };
	struct ckpt_extent e = { .file = r->file };
	enum plim_status st = PLIM_OK;

	x.location = CKPT_NONE;
	x.extent = (uint32_t)c->extents.n;
	x.name = e.name = ckpt_model_printf(c, &st, err, "%s%s", r->prefix, t->name);
	if (!st && t->name_n > NAME_BYTES)
		st = ckpt_model_find(
			c, CKPT_WARN, "long_name", r->at, err,
			"the name of tensor '%.60s' has %llu bytes; ggml has room for %d", t->name,
			LL(t->name_n), NAME_BYTES);
	if (st)
		return st;
	if (!x.dtype)
		return err_at(err, r->at, "tensor '%.60s' has type %u, which is not known here",
			      t->name, t->type);
	if (x.dtype->block && (!t->rank || t->sizes[t->rank - 1] % x.dtype->block))
		return err_at(err, r->at, "tensor '%.60s' is %s, whose rows are of %u numbers",
			      t->name, x.dtype->name, x.dtype->block);
	if (t->offset != r->next)
		st = BAD("offset", r->at,
			 "tensor '%.60s' lies at %llu of the data, llama.cpp wants it at %llu",
			 t->name, LL(t->offset), LL(r->next));
	e.offset = t->offset; /* in the data, until that is known to begin */
	if (!st)
		st = vec_push(c->mem, &c->extents, e, err);
	if (!st)
		st = ckpt_model_tensor(c, x, t->sizes, NULL, NULL, err);
	if (st || c->tensors.n == 0 || c->tensors.at[c->tensors.n - 1].extent != x.extent) {
		c->extents.at[c->extents.n - 1].state = CKPT_CUT; /* its size overflows */
		return st;
	}
	e.bytes = ckpt_tensor_bytes(&c->tensors.at[c->tensors.n - 1]);
	c->extents.at[x.extent].bytes = c->extents.at[x.extent].stored_bytes = e.bytes;
	r->next = padded(r, r->next + e.bytes < e.bytes ? UINT64_MAX : r->next + e.bytes);
	return PLIM_OK;
}

/* The data begins behind the infos: extents get their place, or are beyond the file's end. */
static void gguf_place(struct reader *r, size_t first)
{
	struct ckpt *c = r->ckpt;

	for (size_t i = first; i < c->extents.n; i++) {
		struct ckpt_extent *x = &c->extents.at[i];

		if (x->offset > r->bytes || r->data > r->bytes - x->offset ||
		    x->bytes > r->bytes - x->offset - r->data) {
			x->offset = r->bytes;
			x->state = CKPT_CUT;
		} else {
			x->offset += r->data;
			c->whole_bytes += x->bytes;
		}
	}
}

static enum plim_status read_infos(struct reader *r, uint64_t n, struct plim_err *err)
{
	struct info *t = mem_new(r->ckpt->mem, 1, sizeof(*t), err);
	enum plim_status st = t ? PLIM_OK : mem_status(err);

	for (uint64_t i = 0; !st && i < n; i++) {
		st = take_info(r, t, err);
		if (!st)
			st = add_tensor(r, t, err);
	}
	mem_free(r->ckpt->mem, t, 1, sizeof(*t));
	return st;
}

static enum plim_status read_gguf_header(struct reader *r, uint64_t *tensors, struct plim_err *err)
{
	uint32_t magic, version = 0;
	uint64_t keys = 0;
	enum plim_status st = take_u32(r, &magic, err);

	*tensors = 0;
	if (!st)
		st = take_u32(r, &version, err);
	if (!st && (version < VERSION_OLDEST || version > VERSION_NEWEST))
		return err_set(err, PLIM_E_FORMAT, "GGUF version %u%s; %d and %d are read",
			       version & 0xffff ? version : version >> 24,
			       version & 0xffff ? "" : ", big-endian", VERSION_OLDEST,
			       VERSION_NEWEST);
	if (!st)
		st = take_u64(r, tensors, err);
	if (!st)
		st = take_u64(r, &keys, err);
	/* Each takes 13 bytes and more, so that a count which is a lie ends the loop at the file's end. */
	for (uint64_t i = 0; !st && i < keys; i++)
		st = read_key(r, err);
	if (!st && (!r->alignment || r->alignment & (r->alignment - 1)))
		st = err_set(err, PLIM_E_FORMAT, "general.alignment is not a power of two");
	return st;
}

static int gguf_by_name(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

static enum plim_status check_gguf_names(struct reader *r, size_t first, struct plim_err *err)
{
	const struct ckpt *c = r->ckpt;
	size_t n = c->tensors.n - first;
	const char **names = mem_new(c->mem, n, sizeof(*names), err);
	enum plim_status st = names ? PLIM_OK : mem_status(err);

	for (size_t i = 0; !st && i < n; i++)
		names[i] = ckpt_text(c, c->tensors.at[first + i].name);
	if (!st)
		sort_items(names, n, sizeof(*names), gguf_by_name);
	for (size_t i = 1; !st && i < n; i++)
		if (!strcmp(names[i - 1], names[i]))
			st = BAD("duplicate", PLIM_UNKNOWN,
				 "two tensors are named '%.200s': llama.cpp refuses the file",
				 names[i]);
	mem_free(c->mem, names, n, sizeof(*names));
	return st;
}

static enum plim_status judge_gguf(struct reader *r, size_t first, struct plim_err *err)
{
	struct ckpt *c = r->ckpt;
	uint64_t end = r->data + r->next;
	const char *lost;
	size_t whole = ckpt_model_whole(c, first, &lost), n = c->tensors.n - first;
	enum plim_status st = PLIM_OK;

	if (whole < n) {
		c->truncated = true;
		st = BAD("truncated", r->bytes,
			 "%.200s is cut: %zu of %zu tensor%s %s whole; the first that is not: "
			 "'%.200s'",
			 ckpt_model_file(c, r->file), whole, n, text_s(n),
			 text_are(n == 1 ? 1 : whole), lost ? lost : "");
	} else if (r->bytes > end && end >= r->data) {
		st = ckpt_model_find(c, CKPT_WARN, "trailing_bytes", end, err,
				     "behind the last tensor there are more bytes, %llu: llama.cpp "
				     "ignores them",
				     LL(r->bytes - end));
	}
	if (!st && r->parts > 1 && !*r->prefix && c->kind == CKPT_KIND_GGUF)
		st = ckpt_model_find(
			c, CKPT_WARN, "split", PLIM_UNKNOWN, err,
			"this is part %llu of %llu: it cannot be loaded without the others",
			LL(r->part + 1), LL(r->parts));
	return st;
}

static enum plim_status read_all_gguf(struct reader *r, struct plim_err *err)
{
	struct ckpt *c = r->ckpt;
	size_t first = c->tensors.n, extent = c->extents.n;
	uint64_t tensors;
	enum plim_status st = read_gguf_header(r, &tensors, err);

	if (!st)
		st = read_infos(r, tensors, err);
	r->data = st ? r->bytes : padded(r, r->at);
	if (!st && tensors && r->data > r->bytes)
		r->data = r->bytes;
	gguf_place(r, extent);
	if (!st)
		st = ckpt_model_unchecked(c, r->file, "the header", 0, r->at, err);
	if (!st)
		st = check_gguf_names(r, first, err);
	return st ? st : judge_gguf(r, first, err);
}

enum plim_status gguf_read(struct ckpt *c, uint32_t file, const char *prefix, struct plim_err *err)
{
	struct reader r = { .ckpt = c,
			    .file = file,
			    .prefix = prefix,
			    .bytes = c->files.at[file].bytes,
			    .alignment = ALIGNMENT };
	struct plim_err why = { 0 };
	enum plim_status st;

	if (!c->kind)
		c->kind = CKPT_KIND_GGUF;
	intern_init(&r.keys, c->mem);
	r.buffer = mem_new(c->mem, BUFFER_BYTES, 1, err);
	st = r.buffer ? read_all_gguf(&r, &why) : mem_status(&why);
	if (st == PLIM_E_FORMAT) {
		c->truncated |= r.ended;
		st = ckpt_model_find(c, CKPT_BAD_FINDING, r.ended ? "truncated" : "header", r.at,
				     err, "%.200s: %s", ckpt_model_file(c, file), why.message);
	} else if (st && err) {
		*err = why;
	}
	mem_free(c->mem, r.buffer, BUFFER_BYTES, 1);
	intern_release(&r.keys);
	return st;
}
