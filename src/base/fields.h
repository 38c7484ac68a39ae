/*
 * Rows that describe the fields of a result struct: its JSON, its documentation and its ABI check
 * are read from them.
 *
 *	static const struct field peak_rows[] = {
 *		FIELD_U64(struct plim_peak, requested_bytes, "what the program asked for"),
 *		FIELD_STRING(struct plim_peak, frame, "the user's own line"),
 *	};
 *	const struct field_table peak_table = FIELD_TABLE(struct plim_peak, peak_rows);
 *
 * The key is the member's name; the macros refuse a member of another type when compiled.
 */
#ifndef BASE_FIELDS_H
#define BASE_FIELDS_H

#include "json.h"

enum field_kind {
	FIELD_KIND_U64,     /* uint64_t, PLIM_UNKNOWN: null */
	FIELD_KIND_I64,     /* int64_t */
	FIELD_KIND_U32,     /* uint32_t */
	FIELD_KIND_BOOL,    /* bool */
	FIELD_KIND_MAYBE,   /* a pointer to a bool, NULL: null */
	FIELD_KIND_DOUBLE,  /* double, NaN: null */
	FIELD_KIND_STRING,  /* const char *, NULL: null */
	FIELD_KIND_ENUM,    /* an enum shown by name; without a name: null */
	FIELD_KIND_STRUCT,  /* a struct inside this one */
	FIELD_KIND_POINTER, /* a pointer to a struct, NULL: null */
	FIELD_KIND_STRUCTS, /* a pointer to structs and a count */
	FIELD_KIND_STRINGS, /* a pointer to strings and a count */
	FIELD_KIND_U64S     /* a pointer to uint64_t and a count */
};

struct field_table;

struct field {
	const char *name;
	enum field_kind kind;
	size_t offset, size;
	const char *doc;                 /* one line; says the unit that the name does not */
	const struct field_table *table; /* of the struct or structs */
	size_t count_offset;             /* of a size_t, for the kinds with a count */
	const char *const *names;        /* ENUM: by value, NULL for values without a name */
	size_t name_count;
};

struct field_table {
	const char *name; /* of the struct */
	size_t struct_size;
	const struct field *rows;
	size_t n;
};

/* offsetof that does not compile when the member is neither of two types (which may be one). */
#define FIELD_OFFSET(T, m, type) \
	(offsetof(T, m) + 0 * sizeof(char[_Generic(&((T *)0)->m, type * : 1)]))
#define FIELD_OFFSET2(T, m, type, other) \
	(offsetof(T, m) + 0 * sizeof(char[_Generic(&((T *)0)->m, type * : 1, other * : 1)]))

#define FIELD_NAMED(T, m, KIND, text) \
	.name = #m, .kind = FIELD_KIND_##KIND, .size = sizeof(((T *)0)->m), .doc = text
#define FIELD_ROW(T, m, KIND, type, text) \
	FIELD_NAMED(T, m, KIND, text), .offset = FIELD_OFFSET(T, m, type)
#define FIELD_ROW2(T, m, KIND, type, other, text) \
	FIELD_NAMED(T, m, KIND, text), .offset = FIELD_OFFSET2(T, m, type, other)
#define FIELD_COUNT(T, m) .count_offset = FIELD_OFFSET(T, m, size_t)

#define FIELD_U64(T, m, text)                        \
	{                                            \
		FIELD_ROW(T, m, U64, uint64_t, text) \
	}
#define FIELD_I64(T, m, text)                       \
	{                                           \
		FIELD_ROW(T, m, I64, int64_t, text) \
	}
#define FIELD_U32(T, m, text)                        \
	{                                            \
		FIELD_ROW(T, m, U32, uint32_t, text) \
	}
#define FIELD_BOOL(T, m, text)                    \
	{                                         \
		FIELD_ROW(T, m, BOOL, bool, text) \
	}
#define FIELD_MAYBE(T, m, text)                            \
	{                                                  \
		FIELD_ROW(T, m, MAYBE, const bool *, text) \
	}
#define FIELD_DOUBLE(T, m, text)                      \
	{                                             \
		FIELD_ROW(T, m, DOUBLE, double, text) \
	}
#define FIELD_STRING(T, m, text)                                     \
	{                                                            \
		FIELD_ROW2(T, m, STRING, const char *, char *, text) \
	}

/* E: the enum's type; values: a static array of names. */
#define FIELD_ENUM(T, m, E, values, text)                                                          \
	{                                                                                          \
		FIELD_ROW(T, m, ENUM, E, text), .names = (values),                                 \
						.name_count = sizeof(values) / sizeof((values)[0]) \
	}

/* S: the inner struct's type without const; t: its struct field_table. */
#define FIELD_STRUCT(T, m, S, t, text)                          \
	{                                                       \
		FIELD_ROW(T, m, STRUCT, S, text), .table = &(t) \
	}
#define FIELD_POINTER(T, m, S, t, text)                                        \
	{                                                                      \
		FIELD_ROW2(T, m, POINTER, S *, const S *, text), .table = &(t) \
	}
#define FIELD_STRUCTS(T, m, count, S, t, text)                                         \
	{                                                                              \
		FIELD_ROW2(T, m, STRUCTS, S *, const S *, text), .table = &(t),        \
								 FIELD_COUNT(T, count) \
	}
#define FIELD_STRINGS(T, m, count, text)                                             \
	{                                                                            \
		FIELD_ROW2(T, m, STRINGS, const char **, const char *const *, text), \
			FIELD_COUNT(T, count)                                        \
	}
#define FIELD_U64S(T, m, count, text)                                                             \
	{                                                                                         \
		FIELD_ROW2(T, m, U64S, uint64_t *, const uint64_t *, text), FIELD_COUNT(T, count) \
	}

#define FIELD_TABLE(T, r)                                      \
	{                                                      \
#T, sizeof(T), (r), sizeof(r) / sizeof((r)[0]) \
	}

/* Write one struct as a JSON object; key as in json_object. */
void fields_emit_json(struct json_out *o, const char *key, const struct field_table *table,
		      const void *what);

/* The same without the braces, for callers that put keys of their own beside them. */
void fields_emit_members(struct json_out *o, const struct field_table *table, const void *what);

/* Markdown rows "| `devices[].peak.requested_bytes` | integer, bytes, or null | ... |" behind `prefix`. */
void fields_emit_doc(struct text *t, const char *prefix, const struct field_table *table);

/* Lines "struct member offset size kind" of this and every nested table, for the ABI list. */
void fields_emit_abi(struct text *t, const struct field_table *table);

/*
 * Is the table in itself right: snake_case names, each once; byte counts in names that are `bytes`
 * or end in _bytes; a doc; members inside the struct, not overlapping; nested tables the same.
 * PLIM_E_ARG names the first row that is not.
 */
enum plim_status fields_check(const struct field_table *table, struct plim_err *err);

#endif
