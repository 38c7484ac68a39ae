/*
 * Writing safetensors.  The layout is that of the reference writer: sorted by size of the dtype, then by
 * name, the header padded to 8.
 */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

struct chosen {
	const struct ckpt *ckpt;
	const struct ckpt_tensor *tensor;
	const struct ckpt_dtype *dtype; /* as safetensors has it */
	uint64_t last;                  /* times the last dimension */
};

static int in_order(const void *a, const void *b)
{
	const struct chosen *x = a, *y = b;

	if (x->dtype->bits != y->dtype->bits)
		return x->dtype->bits > y->dtype->bits ? -1 : 1;
	if (x->dtype != y->dtype)
		return x->dtype < y->dtype ? -1 : 1;
	return strcmp(ckpt_text(x->ckpt, x->tensor->name), ckpt_text(y->ckpt, y->tensor->name));
}

static void header(struct text *t, const struct ckpt *c, const struct chosen *at,
		   const struct ckpt_extracted *told)
{
	size_t n = told->tensors;
	const char *repaired = told->repaired;
	struct json_out j;
	uint64_t offset = 0;

	json_out_init(&j, t, JSON_COMPACT, NULL);
	json_object(&j, NULL, JSON_LINE);
	json_object(&j, "__metadata__", JSON_LINE);
	json_string(&j, "format", "pt");
	if (*repaired)
		json_string(&j, CKPT_FACT_REPAIRED, repaired);
	json_object_end(&j);
	for (size_t i = 0; i < n; i++) {
		const struct ckpt_tensor *x = at[i].tensor;

		json_object(&j, ckpt_text(c, x->name) + told->skip, JSON_LINE);
		json_string(&j, "dtype", at[i].dtype->safetensors);
		json_array(&j, "shape", JSON_LINE);
		for (size_t k = 0; k < x->rank; k++)
			json_u64(&j, NULL,
				 ckpt_shape(c, x)[k] * (k + 1 == x->rank ? at[i].last : 1));
		json_array_end(&j);
		json_array(&j, "data_offsets", JSON_LINE);
		json_u64(&j, NULL, offset);
		offset += ckpt_tensor_bytes(x);
		json_u64(&j, NULL, offset);
		json_array_end(&j);
		json_object_end(&j);
	}
	json_object_end(&j);
	while (t->n % 8)
		text_put(t, " ", 1);
}

static enum plim_status choose_safetensors(const struct ckpt *c, const struct ckpt_tensor *t,
					   size_t skip, struct chosen *x, struct plim_err *err)
{
	*x = (struct chosen){ c, t, t->dtype, 1 };
	/* torch counts bytes of two numbers, safetensors the numbers. */
	if (!strcmp(t->dtype->name, CKPT_PACKED_F4) && t->rank) {
		x->dtype = ckpt_dtype_of_safetensors("F4");
		x->last = 2;
	}
	if (!strcmp(ckpt_text(c, t->name) + skip, "__metadata__"))
		return err_set(
			err, PLIM_E_UNSUPPORTED,
			"safetensors has another use for the name '__metadata__': not written");
	return x->dtype->safetensors
		       ? PLIM_OK
		       : err_set(err, PLIM_E_UNSUPPORTED,
				 "'%.200s' is %s, which safetensors has not: not written",
				 ckpt_text(c, t->name), t->dtype->name);
}

static enum plim_status write_file(struct ckpt *c, const struct chosen *at, const char *path,
				   struct ckpt_extracted *told, struct plim_err *err)
{
	struct ckpt_out o = { 0 };
	struct text t;
	uint64_t length;
	enum plim_status st;

	text_init(&t, c->mem, NULL);
	header(&t, c, at, told);
	length = t.n;
	st = text_status(&t, err);
	if (!st && length > CKPT_HEADER_BYTES)
		st = err_set(err, PLIM_E_LIMIT,
			     "the header would have %llu bytes; safetensors allows 100,000,000",
			     (unsigned long long)length);
	if (!st)
		st = durable_begin(c->mem, path, 8 + length + told->bytes, &o.to, err);
	if (!st)
		st = ckpt_out_put(&o, &length, 8, err);
	if (!st)
		st = ckpt_out_put(&o, text_get(&t), (size_t)length, err);
	for (size_t i = 0; !st && i < told->tensors; i++)
		st = ckpt_out_tensor(c, at[i].tensor, &o, err);
	text_release(&t);
	return ckpt_out_end(c, &o, path, st, told, err);
}

enum plim_status safetensors_write(struct ckpt *c, const uint32_t *tensors, const char *path,
				   struct ckpt_extracted *told, struct plim_err *err)
{
	struct chosen *at = mem_new(c->mem, told->tensors, sizeof(*at), err);
	enum plim_status st = at ? PLIM_OK : mem_status(err);

	for (size_t i = 0; !st && i < told->tensors; i++)
		st = choose_safetensors(c, &c->tensors.at[tensors[i]], told->skip, &at[i], err);
	if (!st) {
		sort_items(at, told->tensors, sizeof(*at), in_order);
		st = write_file(c, at, path, told, err);
	}
	mem_free(c->mem, at, told->tensors, sizeof(*at));
	return st;
}
