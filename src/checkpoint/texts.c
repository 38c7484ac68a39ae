/* JSON files next to weights: configs, indexes, manifests. */
#include "parts.h"

#include <stdio.h>
#include <string.h>

#define JSON_FILE_BYTES ((uint64_t)256 << 20)

struct keys {
	struct ckpt *ckpt;
	ckpt_text_key_fn *key;
	void *ctx;
};

static enum plim_status tell_key(void *ctx, struct json *j, const char *key, struct plim_err *err)
{
	const struct keys *to = ctx;

	return to->key(to->ckpt, j, key, to->ctx, err);
}

enum plim_status ckpt_text_read(struct ckpt *c, int dir, const char *name, ckpt_text_key_fn *key,
				void *ctx, struct plim_err *err)
{
	struct keys keys = { c, key, ctx };
	struct plim_err why = { 0 };
	struct json_token first;
	struct source *src;
	struct json j;
	uint8_t *bytes = NULL;
	uint64_t n = 0;
	uint32_t file;
	enum plim_status st = open_file(c, dir, name, &file, &why);

	if (!st) {
		n = c->files.at[file].bytes;
		st = ckpt_model_read(c, file, 0, n, JSON_FILE_BYTES, "the text", &bytes, &why);
	}
	if (!st)
		st = source_open_memory(c->mem, name, bytes, (size_t)n, SOURCE_MEMORY_PLAIN, NULL,
					&src, &why);
	if (!st) {
		st = json_init(&j, c->mem, src, JSON_ONE, &why);
		if (!st) {
			st = json_next(&j, &first, &why);
			if (!st)
				st = json_members(&j, &first, tell_key, &keys, &why);
			json_release(&j);
		}
		source_close(src);
	}
	mem_free(c->mem, bytes, (size_t)n, 1);
	if ((st == PLIM_E_FORMAT || st == PLIM_E_IO) && strstr(why.message, name))
		return ckpt_model_find(c, CKPT_BAD_FINDING, "json", why.offset, err, "%s",
				       why.message);
	if (st == PLIM_E_FORMAT || st == PLIM_E_IO)
		return ckpt_model_find(c, CKPT_BAD_FINDING, "json", why.offset, err, "'%.200s': %s",
				       name, why.message);
	if (st && err)
		*err = why;
	return st;
}

/* Scalars, and the texts of a short list, as they stand. */
enum plim_status ckpt_text_scalar(struct ckpt *c, struct json *j, uint32_t *what,
				  struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	*what = CKPT_NONE;
	if (st)
		return st;
	switch (t.kind) {
	case JSON_STRING: *what = ckpt_model_printf(c, &st, err, "%.300s", t.string); return st;
	case JSON_INTEGER:
	case JSON_DOUBLE: *what = ckpt_model_printf(c, &st, err, "%.9g", t.number); return st;
	case JSON_TRUE: *what = ckpt_model_printf(c, &st, err, "true"); return st;
	case JSON_FALSE: *what = ckpt_model_printf(c, &st, err, "false"); return st;
	case JSON_ARRAY:
		while (!st) {
			st = json_next(j, &t, err);
			if (st || t.kind == JSON_ARRAY_END)
				return st;
			if (t.kind == JSON_STRING && *what == CKPT_NONE)
				*what = ckpt_model_printf(c, &st, err, "%.300s", t.string);
			else if (t.kind == JSON_STRING)
				*what = ckpt_model_printf(c, &st, err, "%.300s, %.100s",
							  ckpt_text(c, *what), t.string);
			else if (!st)
				st = json_skip(j, &t, err);
		}
		return st;
	default: return json_skip(j, &t, err);
	}
}
