/* Writing what torch.load reads: the zip of torch_zip.c, with storages in the order of their first use. */
#include "write_pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER TORCH_FOLDER
#define RECORD_ROOM (64 + 512) /* a record's headers in the file and in the directory, at most */
#define END_ROOM 4096

struct torch_out {
	struct ckpt *ckpt;
	struct ckpt_out out;
	const uint32_t *tensors;
	size_t n, skip;       /* skip: bytes that names lose in front */
	uint32_t *storage;    /* of each tensor: the first one with the same bytes */
	const char *repaired; /* a record of its own; "": none */
	struct text pickle, scratch;
	VEC(struct torch_record) records;
};

/* ---- bytes ---- */

static enum plim_status send(struct torch_out *o, struct text *t, struct plim_err *err)
{
	enum plim_status st = text_status(t, err);

	if (!st)
		st = ckpt_out_put(&o->out, text_get(t), t->n, err);
	t->n = 0;
	return st;
}

/* ---- the zip ---- */

static enum plim_status begin_record(struct torch_out *o, uint64_t bytes, struct plim_err *err,
				     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static enum plim_status begin_record(struct torch_out *o, uint64_t bytes, struct plim_err *err,
				     const char *fmt, ...)
{
	struct torch_record r = { .header = o->out.at, .bytes = bytes };
	enum plim_status st;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(r.name, sizeof(r.name), fmt, ap);
	va_end(ap);
	torch_record_begin(&o->scratch, &r);
	st = send(o, &o->scratch, err);
	o->out.crc = 0;
	return st ? st : vec_push(o->ckpt->mem, &o->records, r, err);
}

static enum plim_status end_record(struct torch_out *o, struct plim_err *err)
{
	struct torch_record *r = &o->records.at[o->records.n - 1];

	r->crc = o->out.crc;
	torch_record_end(&o->scratch, r);
	return send(o, &o->scratch, err);
}

static enum plim_status small_record(struct torch_out *o, const char *name, const char *bytes,
				     size_t n, struct plim_err *err)
{
	enum plim_status st = begin_record(o, n, err, FOLDER "%s", name);

	if (!st)
		st = ckpt_out_put(&o->out, bytes, n, err);
	return st ? st : end_record(o, err);
}

static enum plim_status write_directory(struct torch_out *o, struct plim_err *err)
{
	struct text *t = &o->scratch;
	uint64_t from = o->out.at, bytes, n = o->records.n;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < n; i++) {
		torch_record_list(t, &o->records.at[i]);
		st = send(o, t, err);
	}
	bytes = o->out.at - from;
	torch_directory_end(t, from, bytes, n);
	return st ? st : send(o, t, err);
}

/* ---- the pickle ---- */

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

static enum plim_status put_tensor(struct torch_out *o, size_t i, struct plim_err *err)
{
	struct ckpt *c = o->ckpt;
	const struct ckpt_tensor *x = &c->tensors.at[o->tensors[i]];
	struct text *t = &o->pickle;
	const char *name = ckpt_text(c, x->name);
	uint64_t shape[CKPT_DIMS] = { 0 }, packed;
	const struct ckpt_dtype *d = torch_dtype(x->dtype, &packed);

	if (!d || (packed > 1 && (!x->rank || ckpt_shape(c, x)[x->rank - 1] % packed)))
		return err_set(err, PLIM_E_UNSUPPORTED,
			       "'%.200s' is %s of a shape that torch has not: not written", name,
			       x->dtype->name);
	if (x->rank)
		memcpy(shape, ckpt_shape(c, x), x->rank * sizeof(*shape));
	if (packed > 1)
		shape[x->rank - 1] /= packed;
	name += o->skip;
	ckpt_pickle_put_string(t, name, strlen(name));
	torch_pickle_tensor(
		t, &(struct torch_tensor){
			   .dtype = d, .shape = shape, .rank = x->rank, .storage = o->storage[i] });
	return text_status(t, err);
}

/* ---- all ---- */

/* Tensors that are the same run of bytes share a storage, as tied weights do. */
static enum plim_status share_torch(struct torch_out *o, struct plim_err *err)
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

/* All records, the pickle first; `storages` writes those of data/. */
typedef enum plim_status storages_fn(struct torch_out *o, void *ctx, struct plim_err *err);

static enum plim_status write_records(struct torch_out *o, storages_fn *storages, void *ctx,
				      struct plim_err *err)
{
	const char *order = o->ckpt->big_endian ? "big" : "little";
	enum plim_status st = small_record(o, "data.pkl", text_get(&o->pickle), o->pickle.n, err);

	if (!st)
		st = small_record(o, "byteorder", order, strlen(order), err);
	if (!st)
		st = storages(o, ctx, err);
	if (!st && *o->repaired)
		st = small_record(o, CKPT_FACT_REPAIRED, o->repaired, strlen(o->repaired), err);
	if (!st)
		st = small_record(o, "version", "3\n", 2, err);
	return st ? st : write_directory(o, err);
}

static enum plim_status write_tensors(struct torch_out *o, void *ctx, struct plim_err *err)
{
	struct ckpt *c = o->ckpt;
	uint32_t next = 0;
	enum plim_status st = PLIM_OK;

	(void)ctx;
	for (size_t i = 0; !st && i < o->n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[o->tensors[i]];

		if (o->storage[i] != next)
			continue;
		st = begin_record(o, ckpt_tensor_bytes(t), err, FOLDER "data/%u", next++);
		if (!st)
			st = ckpt_out_tensor(c, t, &o->out, err);
		if (!st)
			st = end_record(o, err);
	}
	return st;
}

/* The file around what is in o->pickle and `storages` writes. */
static enum plim_status write_file(struct torch_out *o, const char *path, uint64_t bytes,
				   storages_fn *storages, void *ctx, struct ckpt_extracted *told,
				   struct plim_err *err)
{
	enum plim_status st = text_status(&o->pickle, err);

	o->repaired = told->repaired;
	if (!st)
		st = durable_begin(o->ckpt->mem, path, bytes + o->pickle.n + END_ROOM, &o->out.to,
				   err);
	if (!st)
		st = write_records(o, storages, ctx, err);
	return ckpt_out_end(o->ckpt, &o->out, path, st, told, err);
}

static void init(struct torch_out *o, struct ckpt *c)
{
	*o = (struct torch_out){ .ckpt = c };
	text_init(&o->pickle, c->mem, NULL);
	text_init(&o->scratch, c->mem, NULL);
}

static void release(struct torch_out *o)
{
	text_release(&o->pickle);
	text_release(&o->scratch);
	vec_release(o->ckpt->mem, &o->records);
	mem_free(o->ckpt->mem, o->storage, o->n, sizeof(*o->storage));
}

enum plim_status torch_write(struct ckpt *c, const uint32_t *tensors, const char *path,
			     struct ckpt_extracted *told, struct plim_err *err)
{
	struct torch_out o;
	enum plim_status st;

	init(&o, c);
	o.tensors = tensors;
	o.n = told->tensors;
	o.skip = told->skip;
	st = share_torch(&o, err);
	text_puts(&o.pickle, "\x80\x02}(");
	for (size_t i = 0; !st && i < o.n; i++)
		st = put_tensor(&o, i, err);
	text_puts(&o.pickle, "u.");
	if (!st)
		st = write_file(&o, path, told->bytes + o.n * RECORD_ROOM, write_tensors, NULL,
				told, err);
	release(&o);
	return st;
}

/* ---- all of a file of torch ---- */

static enum plim_status write_storages(struct torch_out *o, void *ctx, struct plim_err *err)
{
	const struct ckpt_pickle_rewrite *w = ctx;
	struct ckpt *c = o->ckpt;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < w->storage_count; i++) {
		uint32_t extent = w->storages[i];
		uint64_t bytes = extent == CKPT_NONE ? 0 : c->extents.at[extent].bytes;

		st = begin_record(o, bytes, err, FOLDER "data/%zu", i);
		if (!st && bytes)
			st = ckpt_out_extent(c, extent, &o->out, err);
		if (!st)
			st = end_record(o, err);
	}
	return st;
}

/* Decode the pickle once more: its values are not kept, a file of weights alone has no use for them. */
static enum plim_status read_root(struct ckpt *c, struct pickle_heap *heap,
				  struct pickle_value *root, struct plim_err *err)
{
	const struct pickle_hooks none = { 0 };
	struct source *src = NULL;
	uint8_t *bytes = NULL;
	size_t n = (size_t)c->root_bytes;
	enum plim_status st =
		c->root == CKPT_NONE ? ckpt_model_read(c, 0, c->root_at, c->root_bytes,
						       CKPT_PICKLE_BYTES, "the pickle", &bytes, err)
				     : zip_get(c, c->root, CKPT_PICKLE_BYTES, &bytes, &n, err);

	if (!st)
		st = source_open_memory(c->mem, "the pickle", bytes, n, SOURCE_MEMORY_PLAIN, NULL,
					&src, err);
	if (!st)
		st = pickle_read(heap, src, 0, &none, root, err);
	source_close(src);
	mem_free(c->mem, bytes, n, 1);
	return st;
}

/* Of a record's name, "archive/data.pkl", what is before a storage's key: "archive/data/". */
static void storage_prefix(const struct ckpt *c, char *at, size_t size)
{
	const char *name = c->root == CKPT_NONE ? "" : ckpt_text(c, c->extents.at[c->root].name);
	size_t n = strlen(name), tail = strlen("data.pkl");

	snprintf(at, size, "%.*s%s", (int)(n > tail ? n - tail : 0), name, n ? "data/" : "");
}

enum plim_status torch_rewrite(struct ckpt *c, const char *path, struct ckpt_extracted *told,
			       struct plim_err *err)
{
	struct torch_out o;
	struct pickle_heap heap;
	struct pickle_value root;
	char prefix[1100];
	struct ckpt_pickle_rewrite w = {
		.ckpt = c, .heap = &heap, .prefix = prefix, .out = &o.pickle
	};
	uint64_t bytes = 0;
	enum plim_status st;

	init(&o, c);
	pickle_heap_init(&heap, c->mem);
	storage_prefix(c, prefix, sizeof(prefix));
	st = read_root(c, &heap, &root, err);
	if (!st)
		st = ckpt_pickle_rewrite(&w, root, err);
	for (size_t i = 0; !st && i < w.storage_count; i++)
		bytes += RECORD_ROOM +
			 (w.storages[i] == CKPT_NONE ? 0 : c->extents.at[w.storages[i]].bytes);
	if (!st)
		st = write_file(&o, path, bytes, write_storages, &w, told, err);
	ckpt_pickle_rewrite_release(&w);
	pickle_heap_release(&heap);
	release(&o);
	return st;
}
