/*
 * Writing what torch.load reads: a zip of stored records, laid out as torch.save lays it out.
 *
 *	archive/data.pkl	dict of name -> tensor, protocol 2
 *	archive/byteorder
 *	archive/data/0 ...	a storage each; tensors that are one and the same share it
 *	archive/version
 *	[directory] [zip64 end] [locator] [end]
 *
 * Each record: a local header without sizes, padding so that the data begin at a multiple of 64, the data,
 * and a descriptor with checksum and sizes.  .format_version is left out on purpose: with it torch
 * computes where records are instead of reading it.
 */
#include "parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64
#define FOLDER "archive/"
#define NAME_ROOM 64 /* of a record's name */
#define RECORD_ROOM \
	(ALIGNMENT + 512) /* a record's headers in the file and in the directory, at most */
#define END_ROOM 4096
#define WIDE UINT32_MAX /* sizes from here on stand in a zip64 block */

enum { FLAG_DESCRIPTOR = 8, FLAG_UTF8 = 0x800, EXTRA_ZIP64 = 1, EXTRA_TORCH = 0x4246 };

struct record {
	char name[NAME_ROOM];
	uint64_t header, bytes;
	uint32_t crc;
};

struct torch_out {
	struct ckpt *ckpt;
	struct ckpt_out out;
	const uint32_t *tensors;
	size_t n;
	uint32_t *storage; /* of each tensor: the first one with the same bytes */
	struct text pickle, scratch;
	VEC(struct record) records;
};

/* ---- bytes ---- */

static void put(struct text *t, uint64_t v, size_t n)
{
	char bytes[8];

	memcpy(bytes, &v, sizeof(bytes)); /* little-endian, as the machine */
	text_put(t, bytes, n);
}

static enum plim_status send(struct torch_out *o, struct text *t, struct plim_err *err)
{
	enum plim_status st = text_status(t, err);

	if (!st)
		st = out_put(&o->out, text_get(t), t->n, err);
	t->n = 0;
	return st;
}

/* ---- the zip ---- */

static enum plim_status begin_record(struct torch_out *o, uint64_t bytes, struct plim_err *err,
				     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static enum plim_status begin_record(struct torch_out *o, uint64_t bytes, struct plim_err *err,
				     const char *fmt, ...)
{
	struct record r = { .header = o->out.at, .bytes = bytes };
	struct text *t = &o->scratch;
	size_t wide = bytes >= WIDE ? 20 : 0, name_n, padding;
	enum plim_status st;
	va_list ap;

	va_start(ap, fmt);
	name_n = (size_t)vsnprintf(r.name, sizeof(r.name), fmt, ap);
	va_end(ap);
	padding = (size_t)(-(r.header + 30 + name_n + wide + 4) % ALIGNMENT);
	put(t, 0x04034b50, 4);
	put(t, 0, 2);
	put(t, FLAG_UTF8 | (bytes ? FLAG_DESCRIPTOR : 0), 2);
	for (int i = 0; i < 3; i++) /* method, time and date, crc, both sizes: 18 bytes */
		put(t, 0, 6);
	put(t, name_n, 2);
	put(t, wide + 4 + padding, 2);
	text_put(t, r.name, name_n);
	if (wide) {
		put(t, EXTRA_ZIP64, 2);
		put(t, 16, 2);
		put(t, bytes, 8);
		put(t, bytes, 8);
	}
	put(t, EXTRA_TORCH, 2);
	put(t, padding, 2);
	text_repeat(t, "Z", (unsigned)padding);
	st = send(o, t, err);
	o->out.crc = 0;
	return st ? st : vec_push(o->ckpt->mem, &o->records, r, err);
}

static enum plim_status end_record(struct torch_out *o, struct plim_err *err)
{
	struct record *r = &o->records.at[o->records.n - 1];
	size_t width = r->bytes >= WIDE ? 8 : 4;

	r->crc = o->out.crc;
	if (!r->bytes)
		return PLIM_OK;
	put(&o->scratch, 0x08074b50, 4);
	put(&o->scratch, r->crc, 4);
	put(&o->scratch, r->bytes, width);
	put(&o->scratch, r->bytes, width);
	return send(o, &o->scratch, err);
}

static enum plim_status small_record(struct torch_out *o, const char *name, const char *bytes,
				     size_t n, struct plim_err *err)
{
	enum plim_status st = begin_record(o, n, err, FOLDER "%s", name);

	if (!st)
		st = out_put(&o->out, bytes, n, err);
	return st ? st : end_record(o, err);
}

static void directory_entry(struct text *t, const struct record *r)
{
	size_t name_n = strlen(r->name),
	       wide = (r->bytes >= WIDE ? 16 : 0) + (r->header >= WIDE ? 8 : 0);

	put(t, 0x02014b50, 4);
	put(t, 0, 4); /* made by, needed */
	put(t, FLAG_UTF8 | (r->bytes ? FLAG_DESCRIPTOR : 0), 2);
	put(t, 0, 6); /* stored; no time */
	put(t, r->crc, 4);
	put(t, r->bytes >= WIDE ? WIDE : r->bytes, 4);
	put(t, r->bytes >= WIDE ? WIDE : r->bytes, 4);
	put(t, name_n, 2);
	put(t, wide ? wide + 4 : 0, 2);
	put(t, 0, 6); /* comment, disk, attributes within */
	put(t, 0, 4); /* attributes */
	put(t, r->header >= WIDE ? WIDE : r->header, 4);
	text_put(t, r->name, name_n);
	if (!wide)
		return;
	put(t, EXTRA_ZIP64, 2);
	put(t, wide, 2);
	if (r->bytes >= WIDE) {
		put(t, r->bytes, 8);
		put(t, r->bytes, 8);
	}
	if (r->header >= WIDE)
		put(t, r->header, 8);
}

static enum plim_status write_directory(struct torch_out *o, struct plim_err *err)
{
	struct text *t = &o->scratch;
	uint64_t from = o->out.at, bytes, n = o->records.n;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < n; i++) {
		directory_entry(t, &o->records.at[i]);
		st = send(o, t, err);
	}
	bytes = o->out.at - from;
	put(t, 0x06064b50, 4);
	put(t, 44, 8);
	put(t, 0x002d031e, 4); /* made by, needed: as torch writes them */
	put(t, 0, 8);          /* disks */
	put(t, n, 8);
	put(t, n, 8);
	put(t, bytes, 8);
	put(t, from, 8);
	put(t, 0x07064b50, 4);
	put(t, 0, 4);
	put(t, from + bytes, 8);
	put(t, 1, 4);
	put(t, 0x06054b50, 4);
	put(t, 0, 4);
	put(t, n < UINT16_MAX ? n : UINT16_MAX, 2);
	put(t, n < UINT16_MAX ? n : UINT16_MAX, 2);
	put(t, bytes < WIDE ? bytes : WIDE, 4);
	put(t, from < WIDE ? from : WIDE, 4);
	put(t, 0, 2);
	return st ? st : send(o, t, err);
}

/* ---- the pickle ---- */

static void put_string(struct text *t, const char *s)
{
	size_t n = strlen(s);

	text_put(t, "X", 1);
	put(t, n, 4);
	text_put(t, s, n);
}

static void put_int(struct text *t, uint64_t v)
{
	if (v <= UINT8_MAX) {
		text_put(t, "K", 1);
		put(t, v, 1);
	} else if (v <= INT32_MAX) {
		text_put(t, "J", 1);
		put(t, v, 4);
	} else { /* below 2^63: the highest bit, its sign, is clear */
		text_put(t, "\x8a\x08", 2);
		put(t, v, 8);
	}
}

static void put_ints(struct text *t, const uint64_t *v, size_t n, uint64_t last_divided_by)
{
	text_puts(t, "(");
	for (size_t i = 0; i < n; i++)
		put_int(t, i + 1 == n ? v[i] / last_divided_by : v[i]);
	text_puts(t, "t");
}

/* What torch has for a dtype of safetensors, and how many numbers it packs into an element. */
static const struct ckpt_dtype *torch_dtype(const struct ckpt_dtype *d, uint64_t *packed)
{
	*packed = 1;
	if (d->bits == 4) {
		*packed = 2;
		return ckpt_dtype_of_torch(CKPT_PACKED_F4);
	}
	if (d->bits % 8)
		return NULL;
	/* A storage that no tensor stands around: bytes. */
	return strcmp(d->name, "bytes") ? d : ckpt_dtype_of_torch("uint8");
}

static void row_major(uint64_t *strides, const uint64_t *sizes, size_t n, uint64_t packed)
{
	uint64_t step = 1;

	for (size_t i = n; i--;) {
		strides[i] = step;
		step *= i + 1 == n ? sizes[i] / packed : sizes[i];
		step = step ? step : 1;
	}
}

/* _rebuild_tensor_v2(storage, 0, size, stride, False, OrderedDict()), or v3 with a dtype at the end. */
static enum plim_status put_tensor(struct torch_out *o, size_t i, struct plim_err *err)
{
	struct ckpt *c = o->ckpt;
	const struct ckpt_tensor *x = &c->tensors.at[o->tensors[i]];
	struct text *t = &o->pickle;
	const char *name = ckpt_text(c, x->name);
	uint64_t strides[CKPT_DIMS], packed;
	char key[16];
	const struct ckpt_dtype *d = torch_dtype(x->dtype, &packed);

	if (!d || (packed > 1 && (!x->rank || ckpt_shape(c, x)[x->rank - 1] % packed)))
		return err_set(err, PLIM_E_UNSUPPORTED,
			       "'%.200s' is %s of a shape that torch has not: not written", name,
			       x->dtype->name);
	row_major(strides, ckpt_shape(c, x), x->rank, packed);
	put_string(t, name);
	text_printf(t, "ctorch._utils\n_rebuild_tensor_v%d\n((", d->storage ? 2 : 3);
	put_string(t, "storage");
	text_printf(t, "ctorch%s\n%s\n", d->storage ? "" : ".storage",
		    d->storage ? d->storage : "UntypedStorage");
	snprintf(key, sizeof(key), "%u", o->storage[i]);
	put_string(t, key);
	put_string(t, "cpu");
	put_int(t, d->storage ? x->count / packed : ckpt_tensor_bytes(x));
	text_puts(t, "tQ");
	put_int(t, 0);
	put_ints(t, ckpt_shape(c, x), x->rank, packed);
	put_ints(t, strides, x->rank, 1);
	text_puts(t, "\x89"
		     "ccollections\nOrderedDict\n)R");
	if (!d->storage)
		text_printf(t, "ctorch\n%s\n", d->name);
	text_puts(t, "tR");
	return text_status(t, err);
}

/* ---- all ---- */

/* Tensors that are the same run of bytes share a storage, as tied weights do. */
static enum plim_status share(struct torch_out *o, struct plim_err *err)
{
	const struct ckpt *c = o->ckpt;
	uint32_t *first = mem_new(c->mem, c->extents.n, sizeof(*first), err), next = 0;

	o->storage = mem_new(c->mem, o->n, sizeof(*o->storage), err);
	for (size_t i = 0; first && o->storage && i < o->n; i++) {
		const struct ckpt_tensor *x = &c->tensors.at[o->tensors[i]], *y;
		uint32_t at = x->extent == CKPT_NONE ? 0 : first[x->extent];

		y = at ? &c->tensors.at[o->tensors[at - 1]] : NULL;
		if (y && y->dtype == x->dtype && y->offset == x->offset && y->count == x->count &&
		    ckpt_is_contiguous(c, x) && ckpt_is_contiguous(c, y)) {
			o->storage[i] = o->storage[at - 1];
			continue;
		}
		if (x->extent != CKPT_NONE && !at)
			first[x->extent] = (uint32_t)i + 1;
		o->storage[i] = next++;
	}
	mem_free(c->mem, first, c->extents.n, sizeof(*first));
	return first && o->storage ? PLIM_OK : mem_status(err);
}

static enum plim_status write_records(struct torch_out *o, struct plim_err *err)
{
	struct ckpt *c = o->ckpt;
	uint32_t next = 0;
	enum plim_status st = small_record(o, "data.pkl", text_get(&o->pickle), o->pickle.n, err);

	if (!st)
		st = small_record(o, "byteorder", "little", 6, err);
	for (size_t i = 0; !st && i < o->n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[o->tensors[i]];

		if (o->storage[i] != next)
			continue;
		st = begin_record(o, ckpt_tensor_bytes(t), err, FOLDER "data/%u", next++);
		if (!st)
			st = out_tensor(c, t, &o->out, err);
		if (!st)
			st = end_record(o, err);
	}
	if (!st)
		st = small_record(o, "version", "3\n", 2, err);
	return st ? st : write_directory(o, err);
}

enum plim_status torch_write(struct ckpt *c, const uint32_t *tensors, const char *path,
			     struct ckpt_extracted *told, struct plim_err *err)
{
	struct torch_out o = { .ckpt = c, .tensors = tensors, .n = told->tensors };
	enum plim_status st;

	text_init(&o.pickle, c->mem, NULL);
	text_init(&o.scratch, c->mem, NULL);
	st = share(&o, err);
	text_puts(&o.pickle, "\x80\x02}(");
	for (size_t i = 0; !st && i < o.n; i++)
		st = put_tensor(&o, i, err);
	text_puts(&o.pickle, "u.");
	if (!st)
		st = text_status(&o.pickle, err);
	if (!st)
		st = durable_begin(c->mem, path,
				   told->bytes + o.pickle.n + o.n * RECORD_ROOM + END_ROOM,
				   &o.out.to, err);
	if (!st)
		st = write_records(&o, err);
	st = out_end(c, &o.out, path, st, told, err);
	text_release(&o.pickle);
	text_release(&o.scratch);
	vec_release(c->mem, &o.records);
	mem_free(c->mem, o.storage, o.n, sizeof(*o.storage));
	return st;
}
