/*
 * Tensors out of a checkpoint into a safetensors file, streaming.  The layout is that of the reference
 * writer: sorted by size of the dtype, then by name, the header padded to 8.  What safetensors cannot
 * carry is refused by name, never left out in silence.
 */
#include "parts.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES ((size_t)1 << 20)
#define STRIDED_BYTES ((uint64_t)1 << 30) /* of a view with gaps, which is gathered in memory */

/* Does a name match one of "a*|b"? */
static bool is_wanted(const char *name, const char *patterns)
{
	char one[512];

	while (*patterns) {
		size_t n = strcspn(patterns, "|");

		snprintf(one, sizeof(one), "%.*s", (int)n, patterns);
		if (n < sizeof(one) && !fnmatch(one, name, 0))
			return true;
		patterns += n + (patterns[n] == '|');
	}
	return false;
}

static bool is_whole(const struct ckpt *c, const struct ckpt_tensor *t)
{
	return !t->count || (t->extent != CKPT_NONE && c->extents.at[t->extent].state != CKPT_CUT &&
			     c->extents.at[t->extent].state != CKPT_BAD);
}

static enum plim_status check(const struct ckpt *c, const struct ckpt_tensor *t, struct plim_err *err)
{
	const char *why = !t->dtype->safetensors		? "has a dtype that safetensors has not"
			  : t->flags & CKPT_META		? "has no bytes"
			  : t->flags & CKPT_CONJUGATE		? "is a conjugate or negative view"
			  : t->flags & (CKPT_CHUNK | CKPT_SHARD) ? "is only a part of a larger tensor"
			  : c->big_endian			? "is big-endian"
			  : t->extent != CKPT_NONE && c->extents.at[t->extent].deflated ? "is compressed"
			  : !ckpt_is_contiguous(c, t) && ckpt_tensor_bytes(t) > STRIDED_BYTES ? "is a view too large to gather"
							      : NULL;

	return why ? err_set(err, PLIM_E_UNSUPPORTED, "'%.200s' %s: not written", ckpt_text(c, t->name), why)
		   : PLIM_OK;
}

struct chosen {
	const struct ckpt *ckpt;
	uint32_t tensor;
};

static int in_order(const void *a, const void *b)
{
	const struct chosen *x = a, *y = b;
	const struct ckpt_tensor *s = &x->ckpt->tensors.at[x->tensor], *t = &y->ckpt->tensors.at[y->tensor];

	if (s->dtype->bits != t->dtype->bits)
		return s->dtype->bits > t->dtype->bits ? -1 : 1;
	if (s->dtype != t->dtype)
		return s->dtype < t->dtype ? -1 : 1;
	return strcmp(ckpt_text(x->ckpt, s->name), ckpt_text(y->ckpt, t->name));
}

static void header(struct text *t, const struct ckpt *c, const struct chosen *at, size_t n)
{
	struct json_out j;
	uint64_t offset = 0;

	json_out_init(&j, t, JSON_COMPACT, NULL);
	json_object(&j, NULL, JSON_LINE);
	json_object(&j, "__metadata__", JSON_LINE);
	json_string(&j, "format", "pt");
	json_object_end(&j);
	for (size_t i = 0; i < n; i++) {
		const struct ckpt_tensor *x = &c->tensors.at[at[i].tensor];

		json_object(&j, ckpt_text(c, x->name), JSON_LINE);
		json_string(&j, "dtype", x->dtype->safetensors);
		json_array(&j, "shape", JSON_LINE);
		for (size_t k = 0; k < x->rank; k++)
			json_u64(&j, NULL, ckpt_shape(c, x)[k]);
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

static enum plim_status copy_run(const struct ckpt *c, uint32_t file, uint64_t at, uint64_t bytes,
				 struct durable *out, struct plim_err *err)
{
	uint8_t *room = mem_new(c->mem, COPY_BYTES, 1, err);
	enum plim_status st = room ? PLIM_OK : mem_status(err);

	for (uint64_t done = 0; !st && done < bytes;) {
		size_t n = bytes - done < COPY_BYTES ? (size_t)(bytes - done) : COPY_BYTES, got;

		st = ckpt_pread(c, file, at + done, room, n, &got, err);
		if (!st && got < n)
			st = err_set(err, PLIM_E_IO, "'%s' became shorter while it was read",
				     c->files.at[file].name);
		if (!st)
			st = durable_write(out, room, n, err);
		done += n;
	}
	mem_free(c->mem, room, COPY_BYTES, 1);
	return st;
}

/* A view with gaps or turned dimensions: element by element out of its whole reach. */
static enum plim_status copy_strided(struct ckpt *c, const struct ckpt_tensor *t, struct durable *out,
				     struct plim_err *err)
{
	const struct ckpt_extent *x = &c->extents.at[t->extent];
	const uint64_t *size = ckpt_shape(c, t), *stride = ckpt_strides(c, t);
	uint64_t width = t->dtype->bits / 8, index[CKPT_DIMS] = { 0 }, count, reach;
	uint8_t *bytes;
	enum plim_status st;

	model_reach(size, stride, t->rank, 0, &count, &reach);
	st = model_read(c, x->file, x->offset + t->offset * width, reach * width, STRIDED_BYTES, "a view", &bytes,
			err);
	for (uint64_t i = 0; !st && i < count; i++) {
		uint64_t at = 0;

		for (size_t d = 0; d < t->rank; d++)
			at += index[d] * stride[d];
		st = durable_write(out, bytes + at * width, width, err);
		for (size_t d = t->rank; d-- && ++index[d] == size[d];)
			index[d] = 0;
	}
	mem_free(c->mem, bytes, reach * width, 1);
	return st;
}

static enum plim_status write_all(struct ckpt *c, const struct chosen *at, size_t n, const char *path,
				  struct ckpt_extracted *told, struct plim_err *err)
{
	struct durable *out;
	struct text t;
	uint64_t length;
	enum plim_status st;

	text_init(&t, c->mem, NULL);
	header(&t, c, at, n);
	length = t.n;
	st = text_status(&t, err);
	if (!st && length > CKPT_HEADER_BYTES)
		st = err_set(err, PLIM_E_LIMIT, "the header would have %llu bytes; safetensors allows 100,000,000",
			     (unsigned long long)length);
	if (!st)
		st = durable_begin(c->mem, path, 8 + length + told->bytes, &out, err);
	if (!st) {
		st = durable_write(out, &length, 8, err);
		if (!st)
			st = durable_write(out, text_get(&t), (size_t)length, err);
		for (size_t i = 0; !st && i < n; i++) {
			const struct ckpt_tensor *x = &c->tensors.at[at[i].tensor];

			if (!x->count)
				continue;
			st = ckpt_is_contiguous(c, x)
				     ? copy_run(c, c->extents.at[x->extent].file,
						c->extents.at[x->extent].offset + x->offset * x->dtype->bits / 8,
						ckpt_tensor_bytes(x), out, err)
				     : copy_strided(c, x, out, err);
		}
		if (st)
			durable_abort(out);
		else
			st = durable_commit(out, &told->xxh3, err);
	}
	text_release(&t);
	return st;
}

enum plim_status ckpt_extract(struct ckpt *c, const char *patterns, bool whole_only, const char *path,
			      struct ckpt_extracted *told, struct plim_err *err)
{
	struct chosen *at = mem_new(c->mem, c->tensors.n, sizeof(*at), err);
	enum plim_status st = at ? PLIM_OK : mem_status(err);

	*told = (struct ckpt_extracted){ 0 };
	for (size_t i = 0; !st && i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];

		if (!is_wanted(ckpt_text(c, t->name), patterns))
			continue;
		if (!is_whole(c, t) && !whole_only) {
			st = err_set(err, PLIM_E_FORMAT, "'%.200s' is not whole: not written (see ckpt repair)",
				     ckpt_text(c, t->name));
		} else if (!is_whole(c, t)) {
			told->left_out++;
		} else {
			st = check(c, t, err);
			at[told->tensors++] = (struct chosen){ c, (uint32_t)i };
			told->bytes += ckpt_tensor_bytes(t);
		}
	}
	if (!st && !told->tensors)
		st = err_set(err, PLIM_E_ARG, "no tensor that is whole matches '%.200s': nothing to write",
			     patterns);
	if (!st) {
		qsort(at, told->tensors, sizeof(*at), in_order);
		st = write_all(c, at, told->tensors, path, told, err);
	}
	mem_free(c->mem, at, c->tensors.n, sizeof(*at));
	return st;
}
