/* A struct from the JSON that fields.c wrote of it. */
#include "arena.h"
#include "fields.h"

#include <string.h>

#define ITEMS_MAX 4096

struct fields_input {
	struct json *json;
	struct arena *arena;
	struct plim_err *err;
};

static enum plim_status read_field_object(struct fields_input *in, const struct field_table *table,
					  void *what);

/* Numbers and texts that no key shows are not known. */
static void forget_field(const struct field_table *table, void *what)
{
	for (size_t i = 0; i < table->n; i++) {
		const struct field *f = &table->rows[i];
		void *at = (char *)what + f->offset;

		if (f->kind == FIELD_KIND_U64)
			*(uint64_t *)at = PLIM_UNKNOWN;
		else if (f->kind == FIELD_KIND_STRUCT)
			forget_field(f->table, at);
	}
}

static void *make_field(struct fields_input *in, const struct field_table *table, size_t n)
{
	char *made = arena_take(in->arena, n, table->struct_size, in->err);

	for (size_t i = 0; made && i < n; i++)
		forget_field(table, made + i * table->struct_size);
	return made;
}

static enum plim_status wrong(const struct fields_input *in, const struct field *f,
			      const struct json_token *t)
{
	return err_at(in->err, t->offset, "'%s' is of another kind than it should be", f->name);
}

static enum plim_status read_enum(const struct fields_input *in, const struct field *f,
				  const struct json_token *t, void *at)
{
	uint64_t v = 0;

	if (t->kind != JSON_STRING)
		return wrong(in, f, t);
	while (v < f->name_count && (!f->names[v] || !json_is(t, f->names[v])))
		v++;
	if (v == f->name_count)
		return err_at(in->err, t->offset, "'%s' has no value that is known here", f->name);
	memcpy(at, &v, f->size);
	return PLIM_OK;
}

static enum plim_status read_structs(struct fields_input *in, const struct field *f, void *what)
{
	size_t size = f->table->struct_size, n = 0, room = 0;
	struct json_token t;
	char *all = NULL, *grown;
	enum plim_status st = json_next(in->json, &t, in->err);

	for (; !st && t.kind != JSON_ARRAY_END; st = st ? st : json_next(in->json, &t, in->err)) {
		if (t.kind != JSON_OBJECT || n == ITEMS_MAX)
			return wrong(in, f, &t);
		if (n == room) {
			room = room ? 2 * room : 8;
			grown = make_field(in, f->table, room);
			if (!grown)
				return mem_status(in->err);
			if (n)
				memcpy(grown, all, n * size);
			all = grown;
		}
		st = read_field_object(in, f->table, all + n++ * size);
	}
	if (st)
		return st;
	memcpy((char *)what + f->offset, &all, sizeof(all));
	memcpy((char *)what + f->count_offset, &n, sizeof(n));
	return PLIM_OK;
}

static enum plim_status read_pointer(struct fields_input *in, const struct field *f, void *at)
{
	void *made = make_field(in, f->table, 1);

	if (!made)
		return mem_status(in->err);
	memcpy(at, &made, sizeof(made));
	return read_field_object(in, f->table, made);
}

static enum plim_status read_string(struct fields_input *in, const struct json_token *t, void *at)
{
	const char *copy = arena_copy(in->arena, t->string, in->err);

	memcpy(at, &copy, sizeof(copy));
	return copy ? PLIM_OK : mem_status(in->err);
}

static enum plim_status read_value(struct fields_input *in, const struct field *f, void *what,
				   const struct json_token *t)
{
	void *at = (char *)what + f->offset;
	uint64_t number;
	int fits;

	switch (f->kind) {
	case FIELD_KIND_U64: fits = json_get_u64(t, at); break;
	case FIELD_KIND_I64: fits = json_get_i64(t, at); break;
	case FIELD_KIND_U32:
		fits = json_get_u64(t, &number) && number <= UINT32_MAX;
		if (fits)
			*(uint32_t *)at = (uint32_t)number;
		break;
	case FIELD_KIND_BOOL:
		fits = t->kind == JSON_TRUE || t->kind == JSON_FALSE;
		*(bool *)at = t->kind == JSON_TRUE;
		break;
	case FIELD_KIND_DOUBLE:
		fits = t->kind == JSON_DOUBLE || t->kind == JSON_INTEGER;
		*(double *)at = t->number;
		break;
	case FIELD_KIND_ENUM: return read_enum(in, f, t, at);
	case FIELD_KIND_STRING:
		return t->kind == JSON_STRING ? read_string(in, t, at) : wrong(in, f, t);
	case FIELD_KIND_STRUCT:
		return t->kind == JSON_OBJECT ? read_field_object(in, f->table, at)
					      : wrong(in, f, t);
	case FIELD_KIND_POINTER:
		return t->kind == JSON_OBJECT ? read_pointer(in, f, at) : wrong(in, f, t);
	case FIELD_KIND_STRUCTS:
		return t->kind == JSON_ARRAY ? read_structs(in, f, what) : wrong(in, f, t);
	case FIELD_KIND_TRI:
	case FIELD_KIND_STRINGS:
	case FIELD_KIND_U64S:
	default: return json_skip(in->json, t, in->err);
	}
	return fits ? PLIM_OK : wrong(in, f, t);
}

static enum plim_status read_field_object(struct fields_input *in, const struct field_table *table,
					  void *what)
{
	struct json_token t;
	enum plim_status st;

	for (;;) {
		const struct field *f = NULL;

		st = json_next(in->json, &t, in->err);
		if (st || t.kind == JSON_OBJECT_END)
			return st;
		for (size_t i = 0; i < table->n && !f; i++)
			if (json_is(&t, table->rows[i].name))
				f = &table->rows[i];
		if (!f) {
			st = json_skip(in->json, &t, in->err);
			if (st)
				return st;
			continue;
		}
		st = json_next(in->json, &t, in->err);
		if (!st && t.kind != JSON_NULL) /* what is null stays as forget() left it */
			st = read_value(in, f, what, &t);
		if (st)
			return st;
	}
}

enum plim_status fields_read_json(struct json *json, struct arena *arena,
				  const struct field_table *table, void *what, struct plim_err *err)
{
	struct fields_input in = { json, arena, err };

	memset(what, 0, table->struct_size);
	forget_field(table, what);
	return read_field_object(&in, table, what);
}
