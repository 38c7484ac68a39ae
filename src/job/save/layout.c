/*
 * What stands around the tensors of a file.
 *
 * safetensors:
 *
 *	length of the header, 8 bytes
 *	header		JSON: metadata, and for each tensor dtype, shape and place; spaces up to a multiple of 64
 *	tensors		those of the widest dtype first, so that each begins at a multiple of its own size
 *
 * torch: the zip of checkpoint/torch_zip.c, with one more record behind the storages, archive/plimsoll.json, which says as
 * the header above what the tensors are called, and where in the file each begins and ends.  Checksums stand behind the
 * tensors and in the directory: they are put in when the tensors were written.
 *
 * parts, for torch.distributed.checkpoint: such a zip of each tensor alone, one behind another.
 */
#include "parts.h"

#include <stdio.h>

static int layout_by_name(const void *a, const void *b)
{
	const struct save_tensor *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* Pointers, sorted; freed with mem_free(m, *out, f->tensors.n, sizeof(**out)). */
static enum plim_status sort_names(struct mem *m, const struct save_file *f,
				   const struct save_tensor ***out, struct plim_err *err)
{
	*out = mem_new(m, f->tensors.n, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	for (size_t i = 0; i < f->tensors.n; i++)
		(*out)[i] = &f->tensors.at[i];
	sort_items(*out, f->tensors.n, sizeof(**out), layout_by_name);
	for (size_t i = 1; i < f->tensors.n; i++)
		if (!strcmp((*out)[i - 1]->name, (*out)[i]->name))
			return err_set(err, PLIM_E_ARG, "'%.200s' is twice in '%s'",
				       (*out)[i]->name, f->name);
	return PLIM_OK;
}

static void put_layout_row(struct json_out *j, const struct save_tensor *t, const char *dtype,
			   uint64_t at)
{
	json_object(j, t->name, JSON_LINE);
	json_string(j, "dtype", dtype);
	json_array(j, "shape", JSON_LINE);
	for (size_t i = 0; i < t->rank; i++)
		json_u64(j, NULL, t->shape[i]);
	json_array_end(j);
	json_array(j, "data_offsets", JSON_LINE);
	json_u64(j, NULL, at);
	json_u64(j, NULL, at + t->bytes);
	json_array_end(j);
	json_object_end(j);
}

/* ---- safetensors ---- */

static int widest_first(const void *a, const void *b)
{
	const struct save_tensor *x = a, *y = b;

	if (x->dtype->bits != y->dtype->bits)
		return x->dtype->bits > y->dtype->bits ? -1 : 1;
	return strcmp(x->name, y->name);
}

static enum plim_status lay_out_safetensors(struct save_file *f, struct plim_err *err)
{
	struct text *t = &f->text;
	struct json_out j;
	uint64_t at = 0, length;
	enum plim_status st;

	sort_items(f->tensors.at, f->tensors.n, sizeof(*f->tensors.at), widest_first);
	text_repeat(t, " ", 8);
	json_out_init(&j, t, JSON_COMPACT, NULL);
	json_object(&j, NULL, JSON_LINE);
	json_object(&j, "__metadata__", JSON_LINE);
	json_string(&j, "format", "pt");
	for (size_t i = 0; i < f->notes.n; i++)
		json_string(&j, f->notes.at[i].key, f->notes.at[i].value);
	json_object_end(&j);
	for (size_t i = 0; i < f->tensors.n; i++) {
		put_layout_row(&j, &f->tensors.at[i], f->tensors.at[i].dtype->safetensors, at);
		at += f->tensors.at[i].bytes;
	}
	json_object_end(&j);
	while (t->n % 64)
		text_put(t, " ", 1);
	st = text_status(t, err);
	if (st)
		return st;
	length = t->n - 8;
	if (length > CKPT_HEADER_BYTES)
		return err_set(err, PLIM_E_LIMIT,
			       "the header of '%s' would have %llu bytes; safetensors allows "
			       "100,000,000",
			       f->name, (unsigned long long)length);
	memcpy(t->at, &length, 8);
	for (size_t i = 0; i < f->tensors.n; i++)
		f->tensors.at[i].lead = t->n;
	f->bytes = t->n + at;
	return PLIM_OK;
}

/* ---- torch ---- */

struct zip_out {
	struct mem *mem;
	struct save_file *file;
	const struct save_tensor **names;
	uint64_t data; /* bytes of tensors so far */
	uint64_t base; /* where the zip begins in the file */
	VEC(struct torch_record) records;
};

/* In the file, and in the zip. */
static uint64_t layout_place(const struct zip_out *z)
{
	return z->file->text.n + z->data;
}

static uint64_t place_in_zip(const struct zip_out *z)
{
	return layout_place(z) - z->base;
}

static bool find_tensor(void *ctx, const char *name, struct torch_tensor *out)
{
	const struct zip_out *z = ctx;
	const struct save_tensor key = { .name = (char *)(uintptr_t)name }, *wanted = &key;
	const struct save_tensor *const *found =
		bsearch(&wanted, z->names, z->file->tensors.n, sizeof(*z->names), layout_by_name);

	if (!found)
		return false;
	*out = (struct torch_tensor){ .dtype = (*found)->dtype,
				      .shape = (*found)->shape,
				      .rank = (*found)->rank,
				      .storage = (uint32_t)(*found - z->file->tensors.at) };
	return true;
}

/* name: tensor */
static enum plim_status put_pair(struct zip_out *z, struct text *t, const char *name,
				 const char *of, struct plim_err *err)
{
	struct torch_tensor tensor;

	if (!find_tensor(z, of, &tensor))
		return err_set(err, PLIM_E_ARG, "'%.200s' is noted as '%.200s', which is not there",
			       name, of);
	torch_pickle_string(t, name, strlen(name));
	torch_pickle_tensor(t, &tensor);
	return PLIM_OK;
}

static enum plim_status put_pickle(struct zip_out *z, struct text *t, struct plim_err *err)
{
	const struct save_file *f = z->file;
	enum plim_status st = PLIM_OK;

	if (f->tree.n)
		st = torch_pickle_tree(z->mem, t, text_get(&f->tree), f->tree.n, find_tensor, z,
				       err);
	else
		text_puts(t, "\x80\x02}(");
	for (size_t i = 0; !st && !f->tree.n && i < f->tensors.n; i++)
		st = put_pair(z, t, f->tensors.at[i].name, f->tensors.at[i].name, err);
	for (size_t i = 0; !st && !f->tree.n && i < f->notes.n; i++)
		st = put_pair(z, t, f->notes.at[i].key, f->notes.at[i].value, err);
	text_puts(t, f->tree.n ? "." : "u.");
	return st ? st : text_status(t, err);
}

static enum plim_status put_record(struct zip_out *z, const char *name, const void *at, size_t n,
				   struct plim_err *err)
{
	struct torch_record r = { .header = place_in_zip(z), .bytes = n, .crc = crc_add(0, at, n) };

	(void)snprintf(r.name, sizeof(r.name), TORCH_FOLDER "%s", name);
	torch_record_begin(&z->file->text, &r);
	text_put(&z->file->text, at, n);
	torch_record_end(&z->file->text, &r);
	return vec_push(z->mem, &z->records, r, err);
}

static enum plim_status add_patch(struct zip_out *z, uint64_t at, size_t tensor,
				  struct plim_err *err)
{
	struct save_patch patch = { .at = at, .tensor = (uint32_t)tensor };

	return z->file->tensors.at[tensor].bytes ? vec_push(z->mem, &z->file->patches, patch, err)
						 : PLIM_OK;
}

static void put_data(struct zip_out *z, struct save_tensor *x)
{
	x->lead = z->file->text.n;
	x->at = layout_place(z);
	z->data += x->bytes;
}

/* Tensor i, as the storage of that number. */
static enum plim_status put_storage(struct zip_out *z, size_t i, size_t number,
				    struct plim_err *err)
{
	struct save_tensor *x = &z->file->tensors.at[i];
	struct torch_record r = { .header = place_in_zip(z), .bytes = x->bytes };
	enum plim_status st;

	(void)snprintf(r.name, sizeof(r.name), TORCH_FOLDER "data/%zu", number);
	torch_record_begin(&z->file->text, &r);
	put_data(z, x);
	st = add_patch(z, layout_place(z) + TORCH_END_CRC, i, err);
	torch_record_end(&z->file->text, &r);
	return st ? st : vec_push(z->mem, &z->records, r, err);
}

/* What TensorFile of the package reads. */
static enum plim_status put_index(struct zip_out *z, struct plim_err *err)
{
	struct json_out j;
	struct text t;
	enum plim_status st;

	text_init(&t, z->mem, NULL);
	json_out_init(&j, &t, JSON_COMPACT, NULL);
	json_object(&j, NULL, JSON_LINE);
	for (size_t i = 0; i < z->file->tensors.n; i++)
		put_layout_row(&j, &z->file->tensors.at[i], z->file->tensors.at[i].dtype->name,
			       z->file->tensors.at[i].at);
	json_object_end(&j);
	st = json_out_finish(&j, err);
	if (!st)
		st = put_record(z, "plimsoll.json", text_get(&t), t.n, err);
	text_release(&t);
	return st;
}

/* n records from `first` on are the storages of the tensors from `tensor` on. */
static enum plim_status put_directory(struct zip_out *z, size_t first, size_t n, size_t tensor,
				      struct plim_err *err)
{
	const uint64_t from = place_in_zip(z);
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < z->records.n; i++) {
		if (i >= first && i - first < n)
			st = add_patch(z, layout_place(z) + TORCH_LIST_CRC, tensor + i - first,
				       err);
		torch_record_list(&z->file->text, &z->records.at[i]);
	}
	torch_directory_end(&z->file->text, from, place_in_zip(z) - from, z->records.n);
	z->file->bytes = layout_place(z);
	return st ? st : text_status(&z->file->text, err);
}

/* The records before the storages. */
static enum plim_status put_head(struct zip_out *z, const struct text *pickle, struct plim_err *err)
{
	enum plim_status st = put_record(z, "data.pkl", text_get(pickle), pickle->n, err);

	return st ? st : put_record(z, "byteorder", "little", 6, err);
}

static enum plim_status lay_out_torch(struct mem *m, struct save_file *f,
				      const struct save_tensor **names, struct plim_err *err)
{
	struct zip_out z = { .mem = m, .file = f, .names = names };
	struct text pickle;
	size_t first = 0;
	enum plim_status st;

	text_init(&pickle, m, NULL);
	st = put_pickle(&z, &pickle, err);
	if (!st)
		st = put_head(&z, &pickle, err);
	first = z.records.n;
	for (size_t i = 0; !st && i < f->tensors.n; i++)
		st = put_storage(&z, i, i, err);
	if (!st)
		st = put_index(&z, err);
	if (!st)
		st = put_record(&z, "version", "3\n", 2, err);
	if (!st)
		st = put_directory(&z, first, f->tensors.n, 0, err);
	text_release(&pickle);
	vec_release(m, &z.records);
	return st;
}

/* Tensor i as torch.save writes it alone. */
static enum plim_status put_part(struct zip_out *z, size_t i, struct plim_err *err)
{
	const struct save_tensor *x = &z->file->tensors.at[i];
	const struct torch_tensor one = { .dtype = x->dtype, .shape = x->shape, .rank = x->rank };
	struct text pickle;
	size_t first = 0;
	enum plim_status st;

	z->base = layout_place(z);
	z->records.n = 0;
	text_init(&pickle, z->mem, NULL);
	text_puts(&pickle, "\x80\x02");
	torch_pickle_tensor(&pickle, &one);
	text_puts(&pickle, ".");
	st = text_status(&pickle, err);
	if (!st)
		st = put_head(z, &pickle, err);
	first = z->records.n;
	if (!st)
		st = put_storage(z, i, 0, err);
	if (!st)
		st = put_record(z, "version", "3\n", 2, err);
	if (!st)
		st = put_directory(z, first, 1, i, err);
	text_release(&pickle);
	return st;
}

enum plim_status layout_parts(struct mem *m, struct save_file *f, struct plim_saving_part *places,
			      struct plim_err *err)
{
	struct zip_out z = { .mem = m, .file = f };
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < f->tensors.n; i++) {
		places[i].offset = layout_place(&z);
		if (f->tensors.at[i].raw)
			put_data(&z, &f->tensors.at[i]);
		else
			st = put_part(&z, i, err);
		places[i].bytes = layout_place(&z) - places[i].offset;
	}
	f->bytes = layout_place(&z);
	vec_release(m, &z.records);
	return st ? st : text_status(&f->text, err);
}

enum plim_status layout_file(struct plim_saving *s, struct save_file *f, struct plim_err *err)
{
	struct mem *m = &s->of->mem;
	const struct save_tensor **names = NULL;
	enum plim_status st;

	if (f->form == SAVE_PARTS)
		return PLIM_OK;
	st = sort_names(m, f, &names, err);
	if (!st)
		st = f->form == SAVE_TORCH ? lay_out_torch(m, f, names, err)
					   : lay_out_safetensors(f, err);
	mem_free(m, names, f->tensors.n, sizeof(*names));
	return st;
}

/* ---- checksums ---- */

void layout_sum(struct save_file *f, uint8_t *at, size_t n)
{
	const uint64_t from = f->done, to = from + n;

	f->done = to;
	for (; f->summed < f->tensors.n; f->summed++) {
		struct save_tensor *t = &f->tensors.at[f->summed];
		uint64_t begin = t->at > from ? t->at : from;
		uint64_t end = t->at + t->bytes < to ? t->at + t->bytes : to;

		if (begin < end)
			t->crc = crc_add(t->crc, at + (begin - from), (size_t)(end - begin));
		if (t->at + t->bytes > to)
			break;
	}
	for (; f->patched < f->patches.n; f->patched++) {
		const struct save_patch *p = &f->patches.at[f->patched];

		for (unsigned k = 0; k < 4; k++)
			if (p->at + k >= from && p->at + k < to)
				at[p->at + k - from] =
					(uint8_t)(f->tensors.at[p->tensor].crc >> 8 * k);
		if (p->at + 4 > to)
			break;
	}
}
