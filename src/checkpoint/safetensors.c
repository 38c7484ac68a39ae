/*
 * safetensors: u64 length, a JSON header, data.  The rules are those of the reference reader (0.8), and
 * some that it leaves out: a key twice is refused, a length that lies is reported with what is missing.
 * There are no checksums: what a flipped bit in the data did cannot be seen.
 */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

struct tensor_row {
	struct ckpt_tensor t;
	uint64_t sizes[CKPT_DIMS];
	uint64_t from, to;
	unsigned has; /* HAS_ bits */
};

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };

struct span {
	uint64_t from, to;
	uint32_t extent;
};

struct reader {
	struct ckpt *ckpt;
	struct json json;
	uint32_t file;
	const char *prefix;
	uint64_t data; /* where it begins */
	bool has_metadata;
	VEC(struct span) spans;
	VEC(char) name;
};

#define BAD(r, kind, at, ...) \
	ckpt_model_find((r)->ckpt, CKPT_BAD_FINDING, kind, at, err, __VA_ARGS__)

static enum plim_status wrong(struct reader *r, const struct json_token *t, const char *what,
			      struct plim_err *err)
{
	(void)r;
	return err_at(err, t->offset + 8, "%s", what);
}

/* ---- a row ---- */

static enum plim_status read_numbers(struct reader *r, uint64_t *out, size_t room, size_t *n,
				     struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(&r->json, &t, err);

	*n = 0;
	if (!st && t.kind != JSON_ARRAY)
		return wrong(r, &t, "a list of sizes is expected", err);
	while (!st) {
		st = json_next(&r->json, &t, err);
		if (st || t.kind == JSON_ARRAY_END)
			break;
		if (*n == room)
			return wrong(r, &t, "a list has too many numbers", err);
		/* the reference reader reads -0 as a float */
		if (!json_get_u64(&t, &out[(*n)++]) || t.negative)
			return wrong(r, &t, "a size is not a whole number from 0 on", err);
	}
	return st;
}

static enum plim_status read_dtype(struct reader *r, struct tensor_row *row, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(&r->json, &t, err);

	if (st)
		return st;
	row->t.dtype = t.kind == JSON_STRING ? ckpt_dtype_of_safetensors(t.string) : NULL;
	if (!row->t.dtype)
		return err_at(err, t.offset + 8, "dtype '%.40s' is not known",
			      t.kind == JSON_STRING ? t.string : "?");
	return PLIM_OK;
}

static enum plim_status read_safetensors_row(struct reader *r, struct tensor_row *row,
					     struct plim_err *err)
{
	struct json_token t;
	uint64_t offsets[2] = { 0 };
	unsigned field;
	size_t n;
	enum plim_status st = json_next(&r->json, &t, err);

	if (!st && t.kind != JSON_OBJECT)
		return wrong(r, &t, "a tensor's entry is not an object", err);
	while (!st) {
		st = json_next(&r->json, &t, err);
		if (st || t.kind == JSON_OBJECT_END)
			break;
		field = json_is(&t, "dtype")          ? HAS_DTYPE
			: json_is(&t, "shape")        ? HAS_SHAPE
			: json_is(&t, "data_offsets") ? HAS_OFFSETS
						      : 0;
		if (row->has & field)
			return wrong(r, &t, "a tensor's entry has a field twice", err);
		row->has |= field;
		if (field == HAS_DTYPE) {
			st = read_dtype(r, row, err);
		} else if (field == HAS_SHAPE) {
			st = read_numbers(r, row->sizes, CKPT_DIMS, &n, err);
			row->t.rank = (uint16_t)n;
		} else if (field == HAS_OFFSETS) {
			st = read_numbers(r, offsets, 2, &n, err);
			if (!st && n != 2)
				return wrong(r, &t, "data_offsets are not two", err);
			row->from = offsets[0];
			row->to = offsets[1];
		} else {
			st = json_skip(&r->json, &t, err);
		}
	}
	if (!st && row->has != HAS_ALL)
		return wrong(r, &t, "a tensor's entry lacks dtype, shape or data_offsets", err);
	return st;
}

static enum plim_status safetensors_add_row(struct reader *r, struct tensor_row *row,
					    struct plim_err *err)
{
	struct ckpt *c = r->ckpt;
	uint64_t room = c->files.at[r->file].bytes - r->data, strides[CKPT_DIMS] = { 0 }, reach,
		 bits;
	struct ckpt_extent x = { .file = r->file, .name = row->t.name };
	struct span s = { row->from, row->to, (uint32_t)c->extents.n };
	enum plim_status st = PLIM_OK;

	if (row->to < row->from || row->to > INT64_MAX)
		return err_set(err, PLIM_E_FORMAT, "tensor '%.200s' %s", ckpt_text(c, x.name),
			       row->to < row->from ? "ends before it begins"
						   : "lies where no file reaches");
	x.offset = r->data + row->from;
	x.bytes = x.stored_bytes = row->to - row->from;
	x.state = row->to > room ? CKPT_CUT : CKPT_UNREAD;
	if (!ckpt_model_reach(row->sizes, strides, row->t.rank, 0, &row->t.count, &reach) ||
	    __builtin_mul_overflow(row->t.count, row->t.dtype->bits, &bits))
		return err_set(err, PLIM_E_FORMAT, "the size of tensor '%.200s' overflows",
			       ckpt_text(c, x.name));
	if (bits % 8 || bits / 8 != x.bytes) {
		x.state = CKPT_CUT; /* which of its bytes are the tensor's, no one knows */
		st = BAD(r, "shape_mismatch", x.offset,
			 "tensor '%.200s' has %llu bytes, its shape and dtype need %llu bits",
			 ckpt_text(c, x.name), (unsigned long long)x.bytes,
			 (unsigned long long)bits);
	}
	row->t.extent = s.extent;
	row->t.location = CKPT_NONE;
	if (!st)
		st = vec_push(c->mem, &c->extents, x, err);
	if (!st)
		st = vec_push(c->mem, &r->spans, s, err);
	return st ? st : ckpt_model_tensor(c, row->t, row->sizes, NULL, NULL, err);
}

/* ---- the header ---- */

static enum plim_status read_metadata(struct reader *r, struct plim_err *err)
{
	struct ckpt *c = r->ckpt;
	struct json_token t;
	enum plim_status st = json_next(&r->json, &t, err);

	if (!st && t.kind != JSON_OBJECT)
		return wrong(r, &t, "__metadata__ is not an object", err);
	while (!st) {
		struct ckpt_fact f;

		st = json_next(&r->json, &t, err);
		if (st || t.kind == JSON_OBJECT_END)
			break;
		f.name = ckpt_model_printf(c, &st, err, "%.200s", t.string);
		if (!st)
			st = json_next(&r->json, &t, err);
		if (!st && t.kind != JSON_STRING)
			return wrong(r, &t, "__metadata__ holds something that is not text", err);
		f.value = ckpt_model_printf(c, &st, err, "%.900s", st ? "" : t.string);
		if (!st)
			st = ckpt_model_fact(c, f, err);
	}
	return st;
}

static enum plim_status read_safetensors_header(struct reader *r, struct plim_err *err)
{
	struct ckpt *c = r->ckpt;
	struct json_token t;
	enum plim_status st = json_next(&r->json, &t, err);

	if (!st && t.kind != JSON_OBJECT)
		return wrong(r, &t, "the header is not an object", err);
	while (!st) {
		struct tensor_row row = { 0 };
		size_t n = strlen(r->prefix);

		st = json_next(&r->json, &t, err);
		if (st || t.kind == JSON_OBJECT_END)
			break;
		if (json_is(&t, "__metadata__")) {
			if (r->has_metadata)
				return wrong(r, &t, "__metadata__ stands there twice", err);
			r->has_metadata = true;
			st = read_metadata(r, err);
			continue;
		}
		r->name.n = 0;
		st = vec_need(c->mem, &r->name, n + t.n + 1, err); /* both may be empty */
		if (st)
			break;
		memcpy(r->name.at, r->prefix, n);
		memcpy(r->name.at + n, t.string, t.n);
		row.t.name = ckpt_model_string(c, r->name.at, n + t.n, &st, err);
		if (!st)
			st = read_safetensors_row(r, &row, err);
		if (!st)
			st = safetensors_add_row(r, &row, err);
	}
	if (!st)
		st = json_next(&r->json, &t, err); /* and nothing but blanks behind it */
	return st;
}

/* ---- the whole ---- */

static int safetensors_by_place(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->from != y->from ? (x->from < y->from ? -1 : 1)
	       : x->to < y->to    ? -1
				  : x->to > y->to;
}

/* Tensors must follow each other from the first byte to the last. */
static enum plim_status check_spans(struct reader *r, uint64_t *end, struct plim_err *err)
{
	const struct ckpt *c = r->ckpt;
	enum plim_status st = PLIM_OK;

	*end = 0;
	sort_items(r->spans.at, r->spans.n, sizeof(*r->spans.at), safetensors_by_place);
	for (size_t i = 0; !st && i < r->spans.n; i++) {
		const struct span *s = &r->spans.at[i];
		const char *name = ckpt_text(c, c->extents.at[s->extent].name);

		if (s->from > *end)
			st = BAD(r, "hole", r->data + *end,
				 "%llu bytes before tensor '%.200s' belong to none",
				 (unsigned long long)(s->from - *end), name);
		else if (s->from < *end)
			st = BAD(r, "overlap", r->data + s->from,
				 "tensor '%.200s' overlaps the one before it", name);
		if (s->to > *end)
			*end = s->to;
	}
	return st;
}

static int by_id(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static enum plim_status check_safetensors_names(struct reader *r, size_t first,
						struct plim_err *err)
{
	struct ckpt *c = r->ckpt;
	size_t n = c->tensors.n - first;
	uint32_t *ids = mem_new(c->mem, n, sizeof(*ids), err);
	enum plim_status st = ids ? PLIM_OK : mem_status(err);

	for (size_t i = 0; !st && i < n; i++)
		ids[i] = c->tensors.at[first + i].name;
	if (!st)
		sort_items(ids, n, sizeof(*ids), by_id);
	for (size_t i = 1; !st && i < n; i++)
		if (ids[i] == ids[i - 1])
			st = BAD(r, "duplicate", PLIM_UNKNOWN, "tensor '%.200s' is there twice",
				 ckpt_text(c, ids[i]));
	mem_free(c->mem, ids, n, sizeof(*ids));
	return st;
}

static enum plim_status check_size(struct reader *r, uint64_t end, size_t first,
				   struct plim_err *err)
{
	struct ckpt *c = r->ckpt;
	uint64_t size = c->files.at[r->file].bytes, want = r->data + end;
	const char *lost;
	size_t whole = ckpt_model_whole(c, first, &lost), all = c->tensors.n - first;

	for (size_t i = first; i < c->tensors.n; i++)
		if (ckpt_is_whole(c, i))
			c->whole_bytes += ckpt_tensor_bytes(&c->tensors.at[i]);
	if (size > want)
		return BAD(r, "trailing_bytes", want,
			   "behind the last tensor there are more bytes, %llu",
			   (unsigned long long)(size - want));
	if (size == want)
		return PLIM_OK;
	c->truncated = true;
	return BAD(r, "truncated", size,
		   "'%.200s' has %llu bytes of %llu: %zu of %zu tensor%s %s whole; one that is "
		   "not: '%.200s'",
		   c->files.at[r->file].name, (unsigned long long)size, (unsigned long long)want,
		   whole, all, text_s(all), text_are(all == 1 ? 1 : whole), lost ? lost : "");
}

/* The header's bytes at `bytes` are JSON in UTF-8. */
static enum plim_status parse(struct reader *r, const uint8_t *bytes, size_t n,
			      struct plim_err *err)
{
	struct ckpt *c = r->ckpt;
	struct source *src;
	size_t first = c->tensors.n;
	uint64_t end = 0;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0, k; !st && i < n; i += k) {
		uint32_t code;

		k = bytes[i] < 0x80 ? 1 : utf8_decode((const char *)bytes + i, n - i, &code);
		if (!k)
			return err_at(err, 8 + i, "the header is not UTF-8");
	}
	st = source_open_memory(c->mem, "the header", bytes, n, SOURCE_MEMORY_PLAIN, NULL, &src,
				err);
	if (st)
		return st;
	st = json_init(&r->json, c->mem, src, JSON_ONE, err);
	if (!st) {
		st = read_safetensors_header(r, err);
		if (!st && r->json.lossy)
			st = BAD(r, "header", PLIM_UNKNOWN,
				 "a name in the header holds half of a surrogate pair, which is no "
				 "character: the reference reader refuses it");
		json_release(&r->json);
	}
	source_close(src);
	if (!st)
		st = check_safetensors_names(r, first, err);
	if (!st)
		st = check_spans(r, &end, err);
	return st ? st : check_size(r, end, first, err);
}

enum plim_status safetensors_read(struct ckpt *c, uint32_t file, const char *prefix,
				  struct plim_err *err)
{
	struct reader r = { .ckpt = c, .file = file, .prefix = prefix };
	struct plim_err why = { 0 };
	uint64_t n = 0, size = c->files.at[file].bytes;
	uint8_t *bytes = NULL;
	size_t got;
	enum plim_status st = ckpt_pread(c, file, 0, &n, 8, &got, err);

	if (st)
		return st;
	if (!c->kind)
		c->kind = CKPT_KIND_SAFETENSORS;
	if (n > CKPT_HEADER_BYTES || n < 2)
		return BAD(&r, "header", 0, "the header's length, %llu, is out of range",
			   (unsigned long long)n);
	if (n > size - 8) {
		c->truncated = true;
		return BAD(
			&r, "truncated", size,
			"the file ends inside its header (%llu of %llu bytes): no tensor is whole",
			(unsigned long long)(size - 8), (unsigned long long)n);
	}
	r.data = 8 + n;
	st = ckpt_model_unchecked(c, file, "the header", 0, r.data, err);
	if (!st)
		st = ckpt_model_read(c, file, 8, n, CKPT_HEADER_BYTES, "the header", &bytes, err);
	if (!st)
		st = parse(&r, bytes, (size_t)n, &why);
	if (st == PLIM_E_FORMAT)
		st = BAD(&r, "header", why.offset, "%s: %s", c->files.at[file].name, why.message);
	else if (st && err && why.status)
		*err = why;
	mem_free(c->mem, bytes, (size_t)n, 1);
	vec_release(c->mem, &r.spans);
	vec_release(c->mem, &r.name);
	return st;
}
