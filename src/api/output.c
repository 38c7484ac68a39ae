/* Output in pieces: one way for all verbs. */
#include "output.h"

struct out {
	plim_write_fn *write;
	void *ctx;
};

static enum plim_status pass_on(void *ctx, const char *at, size_t n, struct plim_err *err)
{
	const struct out *o = ctx;
	int number = o->write(o->ctx, at, n);

	return number ? err_errno(err, number, "cannot write the output") : PLIM_OK;
}

enum plim_status output_json(struct mem *m, const char *schema, const struct field_table *table,
			     const void *what, plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct out o = { write, ctx };
	struct json_sink sink = { pass_on, &o };
	struct json_out j;
	struct text text;
	enum plim_status st;

	text_init(&text, m, NULL);
	json_out_init(&j, &text, JSON_PRETTY, &sink);
	json_object(&j, NULL, JSON_LINES);
	json_string(&j, "schema", schema);
	json_string(&j, "version", plim_version());
	fields_emit_members(&j, table, what);
	json_object_end(&j);
	st = json_out_finish(&j, err);
	text_release(&text);
	return st;
}

enum plim_status output_text(struct text *t, plim_write_fn *write, void *ctx, struct plim_err *err)
{
	enum plim_status st = text_status(t, err);
	int number = st ? 0 : write(ctx, text_get(t), t->n);

	text_release(t);
	return number ? err_errno(err, number, "cannot write the output") : st;
}

enum plim_status output_fields(const struct field_table *table, int layout, plim_write_fn *write,
			       void *ctx, struct plim_err *err)
{
	struct mem m;
	struct text text;

	mem_init(&m, 0);
	text_init(&text, &m, NULL);
	if (layout)
		fields_emit_abi(&text, table);
	else
		fields_emit_doc(&text, "", table);
	return output_text(&text, write, ctx, err);
}
