#include "commands/out.h"

#include <stdlib.h>
#include <string.h>

void *out_new(size_t size, size_t hidden_at, size_t hidden_size)
{
	size_t behind = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
	char *made = calloc(1, behind + hidden_size);

	if (made)
		memcpy(made + hidden_at, &(char *){ made + behind }, sizeof(char *));
	return made;
}

enum plim_status out_take(void *result, const struct options_table *table, void *to,
			  const void *given, struct plim_err *err)
{
	enum plim_status st = options_take(table, to, given, err);

	if (st)
		free(result);
	return st;
}

struct out {
	plim_write_fn *write;
	void *ctx;
};

static enum plim_status pass_on(void *ctx, const char *text, size_t n, struct plim_err *err)
{
	struct out *o = ctx;
	int number = o->write(o->ctx, text, n);

	return number ? err_errno(err, number, "cannot write the output") : PLIM_OK;
}

enum plim_status out_json(struct mem *m, const struct field_table *table, const void *what,
			  plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct out o = { write, ctx };
	struct json_sink sink = { pass_on, &o };
	struct json_out j;
	struct text text;
	enum plim_status st;

	text_init(&text, m, NULL);
	json_out_init(&j, &text, JSON_PRETTY, &sink);
	json_object(&j, NULL, JSON_LINES);
	json_string(&j, "schema", table->schema);
	json_string(&j, "version", plim_version());
	fields_emit_members(&j, table, what);
	json_object_end(&j);
	st = json_out_finish(&j, err);
	text_release(&text);
	return st;
}

void out_head(struct text *t, const char *words)
{
	text_puts(t, "\n");
	text_hue(t, TEXT_HEAD);
	text_puts(t, words);
	text_plain(t);
}

void out_title(struct text *t, const char *title)
{
	out_head(t, title);
	text_puts(t, "\n");
}

void out_list(struct text *t, const char *title, const char *const *lines, size_t n)
{
	if (n)
		out_title(t, title);
	for (size_t i = 0; i < n; i++) {
		text_puts(t, "  - ");
		text_wrap_name(t, 4, 4, lines[i]);
	}
}

enum plim_status out_text(struct text *t, plim_write_fn *write, void *ctx, struct plim_err *err)
{
	enum plim_status st = text_status(t, err);
	int number = st ? 0 : write(ctx, text_get(t), t->n);

	text_release(t);
	return number ? err_errno(err, number, "cannot write the output") : st;
}

static enum plim_status to_durable(void *ctx, const void *bytes, size_t n, struct plim_err *err)
{
	return durable_write(ctx, bytes, n, err);
}

enum plim_status out_to_bytes(void *ctx, const void *bytes, size_t n, struct plim_err *err)
{
	struct out_bytes *k = ctx;
	enum plim_status st = vec_need(k->mem, &k->at, n, err);

	if (st)
		return st;
	memcpy(k->at.at + k->at.n, bytes, n);
	k->at.n += n;
	return PLIM_OK;
}

enum plim_status out_check_packed(const struct snapshot *t, const struct out_bytes *k,
				  struct plim_err *err)
{
	struct snapshot *again;
	enum plim_status st = snapshot_read_bytes(t->mem, k->at.at, k->at.n, NULL, &again, err);
	const char *differs = st ? NULL : snapshot_differs(t, again);

	if (differs)
		st = err_set(err, PLIM_E_FORMAT,
			     "%s would not come back from the packed form, so nothing was written: "
			     "please report this",
			     differs);
	snapshot_free(again);
	return st;
}

static enum plim_status write_packed(const struct snapshot *t, struct durable *file,
				     struct plim_err *err)
{
	struct out_bytes k = { .mem = t->mem };
	enum plim_status st = snapshot_pack(t, (struct pickle_sink){ &k, out_to_bytes }, err);

	if (!st)
		st = out_check_packed(t, &k, err);
	if (!st)
		st = durable_write(file, k.at.at, k.at.n, err);
	vec_release(t->mem, &k.at);
	return st;
}

static int is_packed_name(const char *path)
{
	size_t n = strlen(path);

	return n >= 5 && !strcmp(path + n - 5, ".plim");
}

enum plim_status out_snapshot(const struct snapshot *t, const char *path, struct plim_err *err)
{
	struct durable *file = NULL;
	enum plim_status st = durable_begin(t->mem, path, 0, &file, err);

	if (st)
		return st;
	st = is_packed_name(path)
		     ? write_packed(t, file, err)
		     : snapshot_write(t, (struct pickle_sink){ file, to_durable }, err);
	return durable_end(file, st, err);
}

enum plim_status out_take_snapshot(void *self, const struct snapshot *t, struct plim_err *err)
{
	return out_snapshot(t, self, err);
}
