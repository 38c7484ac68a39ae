/*
 * Rows that describe the fields of a result struct, for its JSON.  tools/results makes them of the
 * public headers; the macros refuse a member of another type when compiled, and so a header that was
 * misread.
 *
 *	static const struct field peak_rows[] = {
 *		FIELD_U64(struct plim_peak, requested_bytes),
 *		FIELD_STRING(struct plim_peak, frame),
 *	};
 *	const struct field_table peak_table = FIELD_TABLE(struct plim_peak, peak_rows, NULL);
 *
 * The key is the member's name.
 */
#ifndef BASE_FIELDS_H
#define BASE_FIELDS_H

#include "json.h"

#include <plimsoll/types.h>

enum field_kind {
	FIELD_KIND_U64,     /* uint64_t, PLIM_UNKNOWN: null */
	FIELD_KIND_I64,     /* int64_t */
	FIELD_KIND_U32,     /* uint32_t */
	FIELD_KIND_BOOL,    /* bool */
	FIELD_KIND_TRI,     /* enum plim_tri: null, false, true */
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
	const struct field_table *table; /* of the struct or structs */
	size_t count_offset;             /* of a size_t, for the kinds with a count */
	const char *const *names;        /* ENUM: by value, NULL for values without a name */
	size_t name_count;
};

struct field_table {
	size_t struct_size;
	const struct field *rows;
	size_t n;
	const char *schema; /* "report/1", of the outermost struct of a result; else NULL */
};

/* offsetof that does not compile when the member is neither of two types (which may be one). */
#define FIELD_OFFSET(T, m, type) \
	(offsetof(T, m) + 0 * sizeof(char[_Generic(&((T *)0)->m, type * : 1)]))
#define FIELD_OFFSET2(T, m, type, other) \
	(offsetof(T, m) + 0 * sizeof(char[_Generic(&((T *)0)->m, type * : 1, other * : 1)]))

#define FIELD_NAMED(T, m, KIND) .name = #m, .kind = FIELD_KIND_##KIND, .size = sizeof(((T *)0)->m)
#define FIELD_ROW(T, m, KIND, type) FIELD_NAMED(T, m, KIND), .offset = FIELD_OFFSET(T, m, type)
#define FIELD_ROW2(T, m, KIND, type, other) \
	FIELD_NAMED(T, m, KIND), .offset = FIELD_OFFSET2(T, m, type, other)
#define FIELD_COUNT(T, m) .count_offset = FIELD_OFFSET(T, m, size_t)

#define FIELD_U64(T, m)                        \
	{                                      \
		FIELD_ROW(T, m, U64, uint64_t) \
	}
#define FIELD_I64(T, m)                       \
	{                                     \
		FIELD_ROW(T, m, I64, int64_t) \
	}
#define FIELD_U32(T, m)                        \
	{                                      \
		FIELD_ROW(T, m, U32, uint32_t) \
	}
#define FIELD_BOOL(T, m)                    \
	{                                   \
		FIELD_ROW(T, m, BOOL, bool) \
	}
#define FIELD_TRI(T, m)                             \
	{                                           \
		FIELD_ROW(T, m, TRI, enum plim_tri) \
	}
#define FIELD_DOUBLE(T, m)                      \
	{                                       \
		FIELD_ROW(T, m, DOUBLE, double) \
	}
#define FIELD_STRING(T, m)                                     \
	{                                                      \
		FIELD_ROW2(T, m, STRING, const char *, char *) \
	}

/* E: the enum's type; values: an array of names by value. */
#define FIELD_ENUM(T, m, E, values)                                                          \
	{                                                                                    \
		FIELD_ROW(T, m, ENUM, E), .names = (values),                                 \
					  .name_count = sizeof(values) / sizeof((values)[0]) \
	}

/* S: the inner struct's type without const; t: its field_table. */
#define FIELD_STRUCT(T, m, S, t)                          \
	{                                                 \
		FIELD_ROW(T, m, STRUCT, S), .table = &(t) \
	}
#define FIELD_POINTER(T, m, S, t)                                        \
	{                                                                \
		FIELD_ROW2(T, m, POINTER, S *, const S *), .table = &(t) \
	}
#define FIELD_STRUCTS(T, m, count, S, t)                                                        \
	{                                                                                       \
		FIELD_ROW2(T, m, STRUCTS, S *, const S *), .table = &(t), FIELD_COUNT(T, count) \
	}
#define FIELD_STRINGS(T, m, count)                                             \
	{                                                                      \
		FIELD_ROW2(T, m, STRINGS, const char **, const char *const *), \
			FIELD_COUNT(T, count)                                  \
	}
#define FIELD_U64S(T, m, count)                                                             \
	{                                                                                   \
		FIELD_ROW2(T, m, U64S, uint64_t *, const uint64_t *), FIELD_COUNT(T, count) \
	}

#define FIELD_TABLE(T, r, schema)                                  \
	{                                                          \
		sizeof(T), (r), sizeof(r) / sizeof((r)[0]), schema \
	}

/* Write one struct as a JSON object; key as in json_object. */
void fields_emit_json(struct json_out *o, const char *key, const struct field_table *table,
		      const void *what);

/*
 * Read the rest of such an object, whose JSON_OBJECT was the last token; texts and inner structs are taken from `arena`.
 * What it does not say is not known or 0; keys that the table does not have are passed over, and so are lists of texts and
 * numbers.  PLIM_E_FORMAT: no JSON, or a value of another kind.
 */
struct arena;
enum plim_status fields_read_json(struct json *json, struct arena *arena,
				  const struct field_table *table, void *what,
				  struct plim_err *err);

/* The same without the braces, for callers that put keys of their own next to them. */
void fields_emit_members(struct json_out *o, const struct field_table *table, const void *what);

#endif
