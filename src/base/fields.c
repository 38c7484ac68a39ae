#include "fields.h"

#include <string.h>

static size_t count_of(const struct field *f, const void *what)
{
	size_t n;

	memcpy(&n, (const char *)what + f->count_offset, sizeof(n));
	return n;
}

static const void *pointer_at(const void *at)
{
	const void *p;

	memcpy(&p, at, sizeof(p));
	return p;
}

static const char *enum_name(const struct field *f, const void *at)
{
	uint64_t v = 0;

	memcpy(&v, at, f->size); /* little-endian; a negative value has no name */
	return v < f->name_count ? f->names[v] : NULL;
}

static void emit_array(struct json_out *o, const struct field *f, const void *what)
{
	const char *at = pointer_at((const char *)what + f->offset);
	size_t n = count_of(f, what);

	json_array(o, f->name, f->kind == FIELD_KIND_STRUCTS ? JSON_LINES : JSON_LINE);
	for (size_t i = 0; i < n; i++) {
		if (f->kind == FIELD_KIND_STRUCTS)
			fields_emit_json(o, NULL, f->table, at + i * f->table->struct_size);
		else if (f->kind == FIELD_KIND_STRINGS)
			json_string(o, NULL, ((const char *const *)(const void *)at)[i]);
		else
			json_u64(o, NULL, ((const uint64_t *)(const void *)at)[i]);
	}
	json_array_end(o);
}

static void emit_tri(struct json_out *o, const struct field *f, enum plim_tri v)
{
	if (v == PLIM_TRI_UNKNOWN)
		json_null(o, f->name);
	else
		json_bool(o, f->name, v == PLIM_TRI_YES);
}

static void emit(struct json_out *o, const struct field *f, const void *what)
{
	const void *at = (const char *)what + f->offset;

	switch (f->kind) {
	case FIELD_KIND_U64: json_u64(o, f->name, *(const uint64_t *)at); break;
	case FIELD_KIND_I64: json_i64(o, f->name, *(const int64_t *)at); break;
	case FIELD_KIND_U32: json_u64(o, f->name, *(const uint32_t *)at); break;
	case FIELD_KIND_BOOL: json_bool(o, f->name, *(const bool *)at); break;
	case FIELD_KIND_TRI: emit_tri(o, f, *(const enum plim_tri *)at); break;
	case FIELD_KIND_DOUBLE: json_double(o, f->name, *(const double *)at); break;
	case FIELD_KIND_STRING: json_string(o, f->name, pointer_at(at)); break;
	case FIELD_KIND_ENUM: json_string(o, f->name, enum_name(f, at)); break;
	case FIELD_KIND_STRUCT: fields_emit_json(o, f->name, f->table, at); break;
	case FIELD_KIND_POINTER:
		if (pointer_at(at))
			fields_emit_json(o, f->name, f->table, pointer_at(at));
		else
			json_null(o, f->name);
		break;
	case FIELD_KIND_STRUCTS:
	case FIELD_KIND_STRINGS:
	case FIELD_KIND_U64S: emit_array(o, f, what); break;
	}
}

void fields_emit_members(struct json_out *o, const struct field_table *table, const void *what)
{
	for (size_t i = 0; i < table->n; i++)
		emit(o, &table->rows[i], what);
}

/* Two numbers stand on one line. */
static bool is_interval(const struct field_table *table)
{
	return table->n == 2 && table->rows[0].kind == FIELD_KIND_U64 &&
	       table->rows[1].kind == FIELD_KIND_U64;
}

void fields_emit_json(struct json_out *o, const char *key, const struct field_table *table,
		      const void *what)
{
	json_object(o, key, is_interval(table) ? JSON_LINE : JSON_LINES);
	fields_emit_members(o, table, what);
	json_object_end(o);
}
