/*
 * JSON in and out.
 *
 * The reader pulls tokens from a source, of any size in constant memory.  Beyond the standard it
 * takes NaN, Infinity and -Infinity (Python writes them) and a byte order mark.
 * The emitter writes valid UTF-8 JSON, the same bytes for the same calls.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "source.h"
#include "text.h"

#include <locale.h>

#define JSON_DEPTH 512 /* containers inside each other, at most */

enum json_kind {
	JSON_END, /* the input ends */
	JSON_OBJECT,
	JSON_OBJECT_END,
	JSON_ARRAY,
	JSON_ARRAY_END,
	JSON_KEY,
	JSON_STRING,
	JSON_INTEGER,
	JSON_DOUBLE, /* also NaN and infinities */
	JSON_TRUE,
	JSON_FALSE,
	JSON_NULL
};

struct json_token {
	enum json_kind kind;
	uint64_t offset;    /* of its first byte */
	const char *string; /* KEY, STRING: decoded, NUL-terminated, until the next call */
	size_t n;           /* its length; it may hold NULs and bytes that are not UTF-8 */
	uint64_t magnitude; /* INTEGER that is not big: absolute value */
	bool negative;      /* INTEGER: has a minus sign */
	bool big;           /* INTEGER: beyond 64 bits, `number` is near it */
	double number;      /* INTEGER, DOUBLE */
};

enum json_many {
	JSON_ONE, /* one value, then the end */
	JSON_MANY /* values one after another, as in JSON lines */
};

struct json {
	struct source *source; /* must not be used until json_release */
	struct mem *mem;
	enum json_many many;
	const uint8_t *p; /* cursor in the source's window */
	VEC(char) buffer;
	locale_t locale; /* "C", for the decimal point */
	unsigned depth;
	unsigned expect;                            /* what may come next, see json.c */
	uint64_t is_object[(JSON_DEPTH + 63) / 64]; /* bit a level */
	bool started;
	bool lossy; /* half of a surrogate pair was read as U+FFFD */
};

/* Both stay the caller's and must outlive the reader. */
enum plim_status json_init(struct json *j, struct mem *m, struct source *source,
			   enum json_many many, struct plim_err *err);
void json_release(struct json *j);

/* The next token.  PLIM_E_FORMAT with its offset for what is not JSON; errors of source_need. */
enum plim_status json_next(struct json *j, struct json_token *t, struct plim_err *err);

/* `t` was just read: skip what belongs to it (after KEY the value, after OBJECT or ARRAY its rest). */
enum plim_status json_skip(struct json *j, const struct json_token *t, struct plim_err *err);

/* The longest key that json_members shows whole, with its NUL. */
#define JSON_MEMBER 200

/* Reads a member's value, all of it.  key: terminated; of a longer one its beginning. */
typedef enum plim_status json_member_fn(void *ctx, struct json *j, const char *key,
					struct plim_err *err);

/* `t` was just read: `member` for each member of that object.  PLIM_E_FORMAT: it is not an object. */
enum plim_status json_members(struct json *j, const struct json_token *t, json_member_fn *member,
			      void *ctx, struct plim_err *err);

/* The value of an INTEGER token if it fits. */
bool json_get_u64(const struct json_token *t, uint64_t *out);
bool json_get_i64(const struct json_token *t, int64_t *out);

/* Is a KEY or STRING this text? */
bool json_is(const struct json_token *t, const char *text);

/* --- emitter --- */

enum json_form {
	JSON_PRETTY, /* a member a line, two spaces a level */
	JSON_COMPACT
};

/* Takes output away: all `n` bytes, or an error that ends the writing. */
struct json_sink {
	enum plim_status (*write)(void *ctx, const char *at, size_t n, struct plim_err *err);
	void *ctx;
};

/* Failures stick in `text`: text_status shows. */
struct json_out {
	struct text *text;
	enum json_form form;
	struct json_sink sink; /* write NULL: all stays in `text` */
	unsigned depth;
	unsigned line_depth; /* depth of the outermost container that is on one line; 0: none */
	bool first;          /* no member yet in this container */
};

/* sink may be NULL. */
void json_out_init(struct json_out *o, struct text *text, enum json_form form,
		   const struct json_sink *sink);

/* Ends the document with a line feed and hands the rest to the sink. */
enum plim_status json_out_finish(struct json_out *o, struct plim_err *err);

/* How a container is laid out in JSON_PRETTY. */
enum json_layout { JSON_LINES, JSON_LINE };

/* key is NULL inside arrays and at the top. */
void json_object(struct json_out *o, const char *key, enum json_layout layout);
void json_object_end(struct json_out *o);
void json_array(struct json_out *o, const char *key, enum json_layout layout);
void json_array_end(struct json_out *o);

void json_string(struct json_out *o, const char *key, const char *s); /* NULL: null */
void json_string_n(struct json_out *o, const char *key, const char *s, size_t n);
void json_u64(struct json_out *o, const char *key, uint64_t v); /* PLIM_UNKNOWN: null */
void json_i64(struct json_out *o, const char *key, int64_t v);
void json_double(struct json_out *o, const char *key, double v); /* not finite: null */
void json_bool(struct json_out *o, const char *key, bool v);
void json_null(struct json_out *o, const char *key);

#endif
