#include "json.h"
#include "decimal.h"
#include "file_kind.h"

#include "utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer ones are not numbers anybody meant; Python's json stops at 4300 digits as well. */
#define NUMBER_BYTES 4300

/* What the grammar allows next. */
enum expect {
	EXPECT_VALUE,
	EXPECT_FIRST_VALUE, /* or the end of the array */
	EXPECT_FIRST_KEY,   /* or the end of the object */
	EXPECT_KEY,
	EXPECT_COLON,
	EXPECT_COMMA, /* or the end of the container */
	EXPECT_TOP,   /* a value or the end of the input */
	EXPECT_NOTHING
};

static enum plim_status bad(const struct json *j, const char *what, struct plim_err *err)
{
	const struct file_kind *kind = NULL;
	struct source_info info;

	source_get_info(j->source, &info);
	if (!source_offset(j->source, j->p)) /* not even its first byte */
		kind = file_kind_of_file(info.path, j->p, (size_t)(j->source->end - j->p));
	if (kind && j->p < j->source->end) {
		(void)err_set(err, PLIM_E_FORMAT, "'%s' is %s, not JSON", info.path, kind->is);
		if (err)
			err->offset = 0;
		return PLIM_E_FORMAT;
	}
	return err_at(err, source_offset(j->source, j->p), "'%s' is not valid JSON: %s", info.path,
		      what);
}

/* At least one byte at j->p, else j->p == end. */
static enum plim_status more(struct json *j, size_t n, struct plim_err *err)
{
	enum plim_status st;

	if ((size_t)(j->source->end - j->p) >= n)
		return PLIM_OK;
	st = source_need(j->source, j->p, n, err);
	j->p = j->source->p;
	return st;
}

static enum plim_status keep_json(struct json *j, const void *at, size_t n, struct plim_err *err)
{
	enum plim_status st = vec_need(j->mem, &j->buffer, n + 1, err);

	if (st)
		return st;
	if (n)
		memcpy(j->buffer.at + j->buffer.n, at, n);
	j->buffer.n += n;
	return PLIM_OK;
}

/* --- strings --- */

static int hex4(const uint8_t *p)
{
	int v = 0;

	for (int i = 0; i < 4; i++) {
		int c = p[i], d = c >= '0' && c <= '9' ? c - '0' : (c | 32) - 'a' + 10;

		if (d < 0 || d > 15 || (d > 9 && (c | 32) < 'a'))
			return -1;
		v = v << 4 | d;
	}
	return v;
}

/* At a backslash and 'u'; a high surrogate takes the low one that follows along. */
static enum plim_status unicode_escape(struct json *j, struct plim_err *err)
{
	enum plim_status st = more(j, 12, err);
	size_t have = (size_t)(j->source->end - j->p), n;
	int hi, lo = -1;
	uint32_t c;
	char out[4];

	if (st)
		return st;
	hi = have >= 6 ? hex4(j->p + 2) : -1;
	if (hi < 0)
		return bad(j, "\\u needs four hexadecimal digits", err);
	if (hi >= 0xd800 && hi < 0xdc00 && have >= 12 && j->p[6] == '\\' && j->p[7] == 'u')
		lo = hex4(j->p + 8);
	c = (uint32_t)hi;
	j->p += 6;
	if (lo >= 0xdc00 && lo < 0xe000) {
		c = 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)lo - 0xdc00);
		j->p += 6;
	} else if (c >= 0xd800 && c < 0xe000) {
		c = 0xfffd; /* half a pair names no character */
		j->lossy = true;
	}
	n = utf8_encode(c, out);
	return keep_json(j, out, n, err);
}

static enum plim_status escape(struct json *j, struct plim_err *err)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	enum plim_status st = more(j, 2, err);
	const char *at;

	if (st)
		return st;
	if (j->source->end - j->p < 2)
		return bad(j, "a string has no end", err);
	if (j->p[1] == 'u')
		return unicode_escape(j, err);
	at = j->p[1] ? strchr(from, j->p[1]) : NULL;
	if (!at)
		return bad(j, "an unknown escape in a string", err);
	j->p += 2;
	return keep_json(j, to + (at - from), 1, err);
}

/* j->p stands behind the opening quote; afterwards behind the closing one. */
static enum plim_status read_string(struct json *j, struct json_token *t, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	j->buffer.n = 0;
	for (;;) {
		const uint8_t *p = j->p, *end = j->source->end;

		while (p < end && *p != '"' && *p != '\\' && *p >= 0x20)
			p++;
		st = keep_json(j, j->p, (size_t)(p - j->p), err);
		j->p = p;
		if (!st && p == end)
			st = more(j, 1, err);
		if (st)
			return st;
		if (j->p == j->source->end)
			return bad(j, "a string has no end", err);
		if (*j->p == '"')
			break;
		if (p == end) /* the window moved on */
			continue;
		st = *j->p == '\\' ? escape(j, err)
				   : bad(j, "a control character in a string", err);
		if (st)
			return st;
	}
	j->p++;
	j->buffer.at[j->buffer.n] = 0;
	t->string = j->buffer.at;
	t->n = j->buffer.n;
	return PLIM_OK;
}

/* --- numbers and words --- */

static size_t digits(const char *s)
{
	size_t n = 0;

	while (s[n] >= '0' && s[n] <= '9')
		n++;
	return n;
}

/* The grammar of RFC 8259; *integer: neither fraction nor exponent. */
static bool number_is_valid(const char *s, bool *integer)
{
	size_t n;

	s += *s == '-';
	n = digits(s);
	if (!n || (n > 1 && *s == '0'))
		return false;
	s += n;
	*integer = !*s;
	if (*s == '.') {
		n = digits(++s);
		if (!n)
			return false;
		s += n;
	}
	if (*s == 'e' || *s == 'E') {
		s++;
		s += *s == '+' || *s == '-';
		n = digits(s);
		if (!n)
			return false;
		s += n;
	}
	return !*s;
}

static void integer_value(struct json_token *t, const char *s)
{
	t->negative = *s == '-';
	for (s += t->negative; *s; s++)
		t->big |= __builtin_mul_overflow(t->magnitude, 10, &t->magnitude) ||
			  __builtin_add_overflow(t->magnitude, (uint64_t)(*s - '0'), &t->magnitude);
	if (t->big || (t->negative && t->magnitude > (uint64_t)INT64_MAX + 1)) {
		t->big = true;
		t->magnitude = 0;
	}
}

static bool is_of_number(uint8_t c)
{
	return (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '+' || (c | 0x20) == 'e';
}

static enum plim_status read_json_number(struct json *j, struct json_token *t, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	bool integer = false;
	size_t n = 0;

	do {
		const uint8_t *end;

		st = more(j, n + 32, err);
		end = j->source->end;
		while (j->p + n < end && is_of_number(j->p[n]))
			n++;
		if (j->p + n < end || j->source->eof)
			break;
	} while (!st && n <= NUMBER_BYTES);
	if (st)
		return st;
	if (n > NUMBER_BYTES)
		return bad(j, "a number is too long", err);
	j->buffer.n = 0;
	st = keep_json(j, j->p, n, err);
	if (st)
		return st;
	j->buffer.at[n] = 0;
	if (!number_is_valid(j->buffer.at, &integer))
		return bad(j, "a malformed number", err);
	j->p += n;
	t->kind = integer ? JSON_INTEGER : JSON_DOUBLE;
	if (integer)
		integer_value(t, j->buffer.at);
	if (integer && !t->big)
		t->number = t->negative ? -(double)t->magnitude : (double)t->magnitude;
	else if (!decimal_read(j->buffer.at, n, &n, &t->number))
		t->number = strtod_l(j->buffer.at, NULL, j->locale);
	return PLIM_OK;
}

static enum plim_status read_word(struct json *j, struct json_token *t, struct plim_err *err)
{
	static const struct {
		const char *text;
		enum json_kind kind;
		double number;
	} words[] = {
		{ "true", JSON_TRUE, 0 },
		{ "false", JSON_FALSE, 0 },
		{ "null", JSON_NULL, 0 },
		{ "NaN", JSON_DOUBLE, NAN },
		{ "Infinity", JSON_DOUBLE, INFINITY },
		{ "-Infinity", JSON_DOUBLE, -INFINITY },
	};
	enum plim_status st = more(j, 9, err);

	if (st)
		return st;
	for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
		size_t n = strlen(words[k].text);

		if ((size_t)(j->source->end - j->p) < n || memcmp(j->p, words[k].text, n))
			continue;
		t->kind = words[k].kind;
		t->number = words[k].number;
		j->p += n;
		return PLIM_OK;
	}
	return bad(j, j->p < j->source->end ? "expected a value" : "it ends early", err);
}

/* --- structure --- */

static bool in_object(const struct json *j)
{
	return j->depth && (j->is_object[(j->depth - 1) / 64] >> (j->depth - 1) % 64 & 1);
}

static void after_value(struct json *j)
{
	j->expect = j->depth ? EXPECT_COMMA : j->many == JSON_MANY ? EXPECT_TOP : EXPECT_NOTHING;
}

static enum plim_status enter_json(struct json *j, struct json_token *t, bool object,
				   struct plim_err *err)
{
	uint64_t bit = 1ull << j->depth % 64;

	if (j->depth == JSON_DEPTH)
		return bad(j, "it is nested too deeply", err);
	if (object)
		j->is_object[j->depth / 64] |= bit;
	else
		j->is_object[j->depth / 64] &= ~bit;
	j->depth++;
	j->p++;
	t->kind = object ? JSON_OBJECT : JSON_ARRAY;
	j->expect = object ? EXPECT_FIRST_KEY : EXPECT_FIRST_VALUE;
	return PLIM_OK;
}

static enum plim_status leave_json(struct json *j, struct json_token *t)
{
	t->kind = in_object(j) ? JSON_OBJECT_END : JSON_ARRAY_END;
	j->p++;
	j->depth--;
	after_value(j);
	return PLIM_OK;
}

static enum plim_status read_value(struct json *j, struct json_token *t, struct plim_err *err)
{
	uint8_t c = *j->p;
	enum plim_status st;

	if (c == '{' || c == '[')
		return enter_json(j, t, c == '{', err);
	if (c == '"') {
		j->p++;
		t->kind = JSON_STRING;
		st = read_string(j, t, err);
	} else if ((c >= '0' && c <= '9') || c == '-') {
		st = more(j, 2, err);
		if (!st)
			st = c == '-' && j->source->end - j->p > 1 && j->p[1] == 'I'
				     ? read_word(j, t, err)
				     : read_json_number(j, t, err);
	} else {
		st = read_word(j, t, err);
	}
	if (!st)
		after_value(j);
	return st;
}

static enum plim_status read_key(struct json *j, struct json_token *t, struct plim_err *err)
{
	enum plim_status st;

	if (*j->p != '"')
		return bad(j, "expected a key", err);
	j->p++;
	t->kind = JSON_KEY;
	st = read_string(j, t, err);
	j->expect = EXPECT_COLON;
	return st;
}

/* To the next byte that is not white space; j->p == end at the end of the input. */
static enum plim_status skip_space(struct json *j, struct plim_err *err)
{
	for (;;) {
		const uint8_t *end = j->source->end;
		enum plim_status st;

		while (j->p < end &&
		       (*j->p == ' ' || *j->p == '\n' || *j->p == '\r' || *j->p == '\t'))
			j->p++;
		if (j->p < end)
			return PLIM_OK;
		st = more(j, 1, err);
		if (st || j->p == j->source->end)
			return st;
	}
}

static enum plim_status skip_mark(struct json *j, struct plim_err *err)
{
	enum plim_status st = more(j, 3, err);

	j->started = true;
	if (!st && j->source->end - j->p >= 3 && !memcmp(j->p, "\xef\xbb\xbf", 3))
		j->p += 3;
	return st;
}

/* Colons and commas are not tokens: step over them to what may follow. */
static enum plim_status skip_punctuation(struct json *j, struct plim_err *err)
{
	enum plim_status st = j->started ? PLIM_OK : skip_mark(j, err);

	if (!st)
		st = skip_space(j, err);
	if (st || j->p == j->source->end)
		return st;
	if (j->expect == EXPECT_COLON) {
		if (*j->p != ':')
			return bad(j, "expected ':'", err);
		j->expect = EXPECT_VALUE;
	} else if (j->expect == EXPECT_COMMA && *j->p == ',') {
		j->expect = in_object(j) ? EXPECT_KEY : EXPECT_VALUE;
	} else {
		return PLIM_OK;
	}
	j->p++;
	return skip_space(j, err);
}

static enum plim_status at_end(struct json *j, struct json_token *t, struct plim_err *err)
{
	if (j->expect != EXPECT_NOTHING && j->expect != EXPECT_TOP)
		return bad(j, "it ends early", err);
	t->kind = JSON_END;
	return PLIM_OK;
}

enum plim_status json_next(struct json *j, struct json_token *t, struct plim_err *err)
{
	enum plim_status st = skip_punctuation(j, err);
	uint8_t close;

	*t = (struct json_token){ .offset = source_offset(j->source, j->p) };
	if (st)
		return st;
	if (j->p == j->source->end)
		return at_end(j, t, err);
	close = in_object(j) ? '}' : ']';
	switch ((enum expect)j->expect) {
	case EXPECT_FIRST_VALUE:
		if (*j->p == close)
			return leave_json(j, t);
		return read_value(j, t, err);
	case EXPECT_FIRST_KEY:
		if (*j->p == close)
			return leave_json(j, t);
		return read_key(j, t, err);
	case EXPECT_COMMA:
		if (*j->p == close)
			return leave_json(j, t);
		return bad(j, in_object(j) ? "expected ',' or '}'" : "expected ',' or ']'", err);
	case EXPECT_VALUE:
	case EXPECT_TOP: return read_value(j, t, err);
	case EXPECT_KEY: return read_key(j, t, err);
	case EXPECT_NOTHING: return bad(j, "something follows its end", err);
	case EXPECT_COLON: break;
	}
	return bad(j, "expected ':'", err);
}

enum plim_status json_skip(struct json *j, const struct json_token *t, struct plim_err *err)
{
	unsigned to = j->depth;
	struct json_token next = *t;
	enum plim_status st = PLIM_OK;

	if (t->kind == JSON_KEY)
		st = json_next(j, &next, err);
	else if (t->kind == JSON_OBJECT || t->kind == JSON_ARRAY)
		to--;
	while (!st && j->depth > to)
		st = json_next(j, &next, err);
	return st;
}

enum plim_status json_members(struct json *j, const struct json_token *t, json_member_fn *member,
			      void *ctx, struct plim_err *err)
{
	struct json_token next;
	char key[JSON_MEMBER];
	enum plim_status st;

	if (t->kind != JSON_OBJECT)
		return err_at(err, t->offset, "an object is expected");
	st = json_next(j, &next, err);
	while (!st && next.kind == JSON_KEY) {
		size_t n = next.n < sizeof(key) ? next.n : sizeof(key) - 1;

		memcpy(key, next.string, n);
		key[n] = '\0';
		st = member(ctx, j, key, err);
		if (!st)
			st = json_next(j, &next, err);
	}
	return st;
}

bool json_get_u64(const struct json_token *t, uint64_t *out)
{
	*out = t->magnitude;
	return t->kind == JSON_INTEGER && !t->big && (!t->negative || !t->magnitude);
}

bool json_get_i64(const struct json_token *t, int64_t *out)
{
	*out = (int64_t)(t->negative ? 0 - t->magnitude : t->magnitude);
	return t->kind == JSON_INTEGER && !t->big &&
	       t->magnitude <= (uint64_t)INT64_MAX + t->negative;
}

bool json_is(const struct json_token *t, const char *text)
{
	return t->string && t->n == strlen(text) && !memcmp(t->string, text, t->n);
}

enum plim_status json_init(struct json *j, struct mem *m, struct source *source,
			   enum json_many many, struct plim_err *err)
{
	*j = (struct json){ .source = source, .mem = m, .many = many, .p = source->p };
	j->expect = many == JSON_MANY ? EXPECT_TOP : EXPECT_VALUE;
	j->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!j->locale)
		return err_set(err, PLIM_E_NOMEM, "out of memory for a JSON reader");
	return PLIM_OK;
}

void json_release(struct json *j)
{
	vec_release(j->mem, &j->buffer);
	if (j->locale)
		freelocale(j->locale);
	j->locale = (locale_t)0;
}

/* --- emitter --- */

/* The sink gets blocks of at least this size. */
#define FLUSH_BYTES (64u << 10)

void json_out_init(struct json_out *o, struct text *text, enum json_form form,
		   const struct json_sink *sink)
{
	*o = (struct json_out){ .text = text, .form = form, .first = true };
	if (sink)
		o->sink = *sink;
}

static void flush_json(struct json_out *o, size_t least)
{
	struct text *t = o->text;

	if (!o->sink.write || t->n < least || t->err.status)
		return;
	t->err.status = o->sink.write(o->sink.ctx, text_get(t), t->n, &t->err);
	t->n = 0;
}

enum plim_status json_out_finish(struct json_out *o, struct plim_err *err)
{
	text_put(o->text, "\n", 1);
	flush_json(o, 1);
	return text_status(o->text, err);
}

static void quoted(struct text *t, const char *s, size_t n)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	size_t run = 0; /* bytes before i that go out as they are */

	text_put(t, "\"", 1);
	for (size_t i = 0; i < n;) {
		uint32_t c;
		size_t len = utf8_decode(s + i, n - i, &c);

		if (len && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
			i += len;
			run += len;
			continue;
		}
		text_put(t, s + i - run, run);
		run = 0;
		if (!len)
			text_puts(t, "\uFFFD");
		else if (c && strchr(from, (int)c))
			text_printf(t, "\\%c", to[strchr(from, (int)c) - from]);
		else
			text_printf(t, "\\u%04x", (unsigned)c);
		i += len ? len : 1;
	}
	text_put(t, s + n - run, run);
	text_put(t, "\"", 1);
}

static void new_line(struct json_out *o)
{
	if (o->form == JSON_COMPACT || o->line_depth)
		return;
	text_put(o->text, "\n", 1);
	text_repeat(o->text, "  ", o->depth);
}

/* Everything that stands before a value. */
static void lead(struct json_out *o, const char *key)
{
	flush_json(o, FLUSH_BYTES);
	if (!o->first)
		text_puts(o->text, o->form == JSON_PRETTY && o->line_depth ? ", " : ",");
	if (o->depth)
		new_line(o);
	o->first = false;
	if (key) {
		quoted(o->text, key, strlen(key));
		text_puts(o->text, o->form == JSON_PRETTY ? ": " : ":");
	}
}

static void open_container(struct json_out *o, const char *key, enum json_layout layout,
			   const char *bracket)
{
	lead(o, key);
	text_puts(o->text, bracket);
	o->depth++;
	if (layout == JSON_LINE && !o->line_depth)
		o->line_depth = o->depth;
	o->first = true;
}

static void close_container(struct json_out *o, const char *bracket)
{
	bool empty = o->first;

	o->depth--;
	if (!empty)
		new_line(o);
	if (o->line_depth > o->depth)
		o->line_depth = 0;
	text_puts(o->text, bracket);
	o->first = false;
}

void json_object(struct json_out *o, const char *key, enum json_layout layout)
{
	open_container(o, key, layout, "{");
}

void json_object_end(struct json_out *o)
{
	close_container(o, "}");
}

void json_array(struct json_out *o, const char *key, enum json_layout layout)
{
	open_container(o, key, layout, "[");
}

void json_array_end(struct json_out *o)
{
	close_container(o, "]");
}

void json_string_n(struct json_out *o, const char *key, const char *s, size_t n)
{
	lead(o, key);
	quoted(o->text, s, n);
}

void json_string(struct json_out *o, const char *key, const char *s)
{
	if (s)
		json_string_n(o, key, s, strlen(s));
	else
		json_null(o, key);
}

static void put_number(struct text *t, uint64_t v)
{
	char digits[20];
	size_t i = sizeof(digits);

	do
		digits[--i] = (char)('0' + v % 10);
	while (v /= 10);
	text_put(t, digits + i, sizeof(digits) - i);
}

void json_u64(struct json_out *o, const char *key, uint64_t v)
{
	if (v == PLIM_UNKNOWN) {
		json_null(o, key);
		return;
	}
	lead(o, key);
	put_number(o->text, v);
}

void json_i64(struct json_out *o, const char *key, int64_t v)
{
	lead(o, key);
	text_printf(o->text, "%lld", (long long)v);
}

void json_double(struct json_out *o, const char *key, double v)
{
	char number[40];
	int precision = 15;

	if (!isfinite(v)) {
		json_null(o, key);
		return;
	}
	/* Most are whole: no search for digits. */
	if (v >= 0 && v < 1e15 && v == (double)(uint64_t)v && !signbit(v)) {
		lead(o, key);
		put_number(o->text, (uint64_t)v);
		text_puts(o->text, ".0");
		return;
	}
	do /* the fewest digits that read back as the same number */
		snprintf(number, sizeof(number), "%.*g", precision, v);
	while (strtod(number, NULL) != v && ++precision <= 17);
	for (char *c = number; *c; c++)
		if (!strchr("0123456789+-e", *c))
			*c = '.'; /* whatever the caller's locale has */
	lead(o, key);
	text_puts(o->text, number);
	if (!strpbrk(number, ".e"))
		text_puts(o->text, ".0");
}

void json_bool(struct json_out *o, const char *key, bool v)
{
	lead(o, key);
	text_puts(o->text, v ? "true" : "false");
}

void json_null(struct json_out *o, const char *key)
{
	lead(o, key);
	text_puts(o->text, "null");
}
