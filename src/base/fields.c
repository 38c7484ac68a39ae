#include "fields.h"

#include <string.h>

/* Deeper nesting than any result has: a table that holds itself ends here. */
#define DEPTH_MAX 16

static const struct {
	const char *doc;
	bool nullable;
} kinds[] = {
	[FIELD_KIND_U64] = { "integer", true },
	[FIELD_KIND_I64] = { "integer", false },
	[FIELD_KIND_U32] = { "integer", false },
	[FIELD_KIND_BOOL] = { "true or false", false },
	[FIELD_KIND_MAYBE] = { "true or false", true },
	[FIELD_KIND_DOUBLE] = { "number", true },
	[FIELD_KIND_STRING] = { "string", true },
	[FIELD_KIND_ENUM] = { "string", false },
	[FIELD_KIND_STRUCT] = { "object", false },
	[FIELD_KIND_POINTER] = { "object", true },
	[FIELD_KIND_STRUCTS] = { "array of objects", false },
	[FIELD_KIND_STRINGS] = { "array of strings", false },
	[FIELD_KIND_U64S] = { "array of integers", false },
};

/* --- JSON --- */

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

static void emit_maybe(struct json_out *o, const struct field *f, const bool *v)
{
	if (v)
		json_bool(o, f->name, *v);
	else
		json_null(o, f->name);
}

static void emit(struct json_out *o, const struct field *f, const void *what)
{
	const void *at = (const char *)what + f->offset;

	switch (f->kind) {
	case FIELD_KIND_U64: json_u64(o, f->name, *(const uint64_t *)at); break;
	case FIELD_KIND_I64: json_i64(o, f->name, *(const int64_t *)at); break;
	case FIELD_KIND_U32: json_u64(o, f->name, *(const uint32_t *)at); break;
	case FIELD_KIND_BOOL: json_bool(o, f->name, *(const bool *)at); break;
	case FIELD_KIND_MAYBE: emit_maybe(o, f, pointer_at(at)); break;
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

void fields_emit_json(struct json_out *o, const char *key, const struct field_table *table,
		      const void *what)
{
	json_object(o, key, JSON_LINES);
	fields_emit_members(o, table, what);
	json_object_end(o);
}

/* --- documentation --- */

static bool ends_in(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

static bool is_number(const struct field *f)
{
	return f->kind <= FIELD_KIND_U32 || f->kind == FIELD_KIND_DOUBLE ||
	       f->kind == FIELD_KIND_U64S;
}

static const char *unit_of(const struct field *f)
{
	static const struct {
		const char *end, *unit;
	} units[] = {
		{ "bytes", "bytes" },      { "_ns", "nanoseconds" }, { "_us", "microseconds" },
		{ "_ms", "milliseconds" }, { "_s", "seconds" },      { "_pct", "percent" },
		{ "_mw", "milliwatts" },
	};

	for (size_t k = 0; is_number(f) && k < sizeof(units) / sizeof(units[0]); k++)
		if (ends_in(f->name, units[k].end))
			return units[k].unit;
	return NULL;
}

static void doc_type(struct text *t, const struct field *f)
{
	const char *unit = unit_of(f), *between = ": ";
	bool null = kinds[f->kind].nullable;

	text_puts(t, kinds[f->kind].doc);
	if (unit)
		text_printf(t, ", %s", unit);
	for (size_t i = 0; f->kind == FIELD_KIND_ENUM && i < f->name_count; i++) {
		if (!f->names[i]) {
			null = true;
			continue;
		}
		text_printf(t, "%s`%s`", between, f->names[i]);
		between = ", ";
	}
	if (null)
		text_puts(t, unit || f->kind == FIELD_KIND_ENUM ? ", or null" : " or null");
}

static void emit_doc(struct text *t, const char *prefix, const struct field_table *table,
		     unsigned depth)
{
	struct text path;

	text_init(&path, t->mem, NULL);
	for (size_t i = 0; i < table->n && depth < DEPTH_MAX; i++) {
		const struct field *f = &table->rows[i];
		bool array = f->kind >= FIELD_KIND_STRUCTS;

		path.n = 0;
		text_printf(&path, "%s%s%s", prefix, f->name, array ? "[]" : "");
		text_printf(t, "| `%s` | ", text_get(&path));
		doc_type(t, f);
		text_printf(t, " | %s |\n", f->doc);
		text_puts(&path, ".");
		if (f->table)
			emit_doc(t, text_get(&path), f->table, depth + 1);
	}
	if (path.err.status && !t->err.status)
		t->err = path.err;
	text_release(&path);
}

void fields_emit_doc(struct text *t, const char *prefix, const struct field_table *table)
{
	emit_doc(t, prefix ? prefix : "", table, 0);
}

static void emit_abi(struct text *t, const struct field_table *table, unsigned depth)
{
	text_printf(t, "%s %zu\n", table->name, table->struct_size);
	for (size_t i = 0; i < table->n; i++) {
		const struct field *f = &table->rows[i];

		text_printf(t, "%s.%s %zu %zu %s\n", table->name, f->name, f->offset, f->size,
			    kinds[f->kind].doc);
	}
	for (size_t i = 0; i < table->n && depth < DEPTH_MAX; i++)
		if (table->rows[i].table)
			emit_abi(t, table->rows[i].table, depth + 1);
}

void fields_emit_abi(struct text *t, const struct field_table *table)
{
	emit_abi(t, table, 0);
}

/* --- the check --- */

static bool snake_case(const char *s)
{
	size_t n = strlen(s);

	return n && s[0] >= 'a' && s[0] <= 'z' && s[n - 1] != '_' && !strstr(s, "__") &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

/* "bytes" stands alone or last, and only in numbers. */
static bool bytes_named_right(const struct field *f)
{
	const char *at = strstr(f->name, "bytes");

	if (!at)
		return true;
	return ends_in(f->name, "bytes") && (at == f->name || at[-1] == '_') && is_number(f);
}

static const char *enum_fault(const struct field *f)
{
	size_t named = 0;

	for (size_t i = 0; i < f->name_count; i++) {
		named += f->names[i] != NULL;
		if (f->names[i] && !snake_case(f->names[i]))
			return "has a value whose name is not snake_case";
	}
	return named && f->size <= sizeof(uint64_t) ? NULL : "has no names for its values";
}

/* What is wrong with a row by itself; NULL: nothing. */
static const char *fault(const struct field_table *table, const struct field *f)
{
	bool counted = f->kind >= FIELD_KIND_STRUCTS;
	bool nested = f->kind >= FIELD_KIND_STRUCT && f->kind <= FIELD_KIND_STRUCTS;

	if (!snake_case(f->name))
		return "is not snake_case";
	if (!bytes_named_right(f))
		return "does not end in _bytes, or is no number";
	if (!f->doc || !*f->doc || strpbrk(f->doc, "|\n"))
		return "has no doc, or one that breaks a table";
	if (!f->size || f->offset > table->struct_size || f->size > table->struct_size - f->offset)
		return "lies outside the struct";
	if (counted && f->count_offset > table->struct_size - sizeof(size_t))
		return "has its count outside the struct";
	if (nested != (f->table != NULL))
		return "has no table, or one too many";
	if (f->kind == FIELD_KIND_STRUCT && f->size != f->table->struct_size)
		return "has the table of another struct";
	return f->kind == FIELD_KIND_ENUM ? enum_fault(f) : NULL;
}

static const char *pair_fault(const struct field *a, const struct field *b)
{
	if (!strcmp(a->name, b->name))
		return "is there twice";
	if (a->offset < b->offset + b->size && b->offset < a->offset + a->size)
		return "overlaps another";
	return NULL;
}

static enum plim_status check(const struct field_table *table, unsigned depth, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (depth == DEPTH_MAX || !table->n)
		return err_set(err, PLIM_E_ARG, "table '%s' is empty or holds itself", table->name);
	for (size_t i = 0; i < table->n && !st; i++) {
		const struct field *f = &table->rows[i];
		const char *what = f->name ? fault(table, f) : "has no name";

		for (size_t k = 0; k < i && !what; k++)
			what = pair_fault(f, &table->rows[k]);
		if (what)
			st = err_set(err, PLIM_E_ARG, "row '%s.%s' %s", table->name,
				     f->name ? f->name : "?", what);
		else if (f->table)
			st = check(f->table, depth + 1, err);
	}
	return st;
}

enum plim_status fields_check(const struct field_table *table, struct plim_err *err)
{
	return check(table, 0, err);
}
