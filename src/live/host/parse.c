#include "parse.h"

#include <limits.h>
#include <string.h>

/* ---- spans ---- */

bool host_line(struct host_span *rest, struct host_span *line)
{
	const char *end;

	if (!rest->n)
		return false;
	end = memchr(rest->at, '\n', rest->n);
	*line = (struct host_span){ rest->at, end ? (size_t)(end - rest->at) : rest->n };
	rest->at += line->n + (end != NULL);
	rest->n -= line->n + (end != NULL);
	return true;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static void skip(struct host_span *s, size_t n)
{
	s->at += n;
	s->n -= n;
}

bool host_word(struct host_span *rest, struct host_span *word)
{
	size_t n = 0;

	while (rest->n && blank(*rest->at))
		skip(rest, 1);
	while (n < rest->n && !blank(rest->at[n]))
		n++;
	*word = (struct host_span){ rest->at, n };
	skip(rest, n);
	return n != 0;
}

bool host_begins(struct host_span s, const char *text)
{
	size_t n = strlen(text);

	return s.n >= n && !memcmp(s.at, text, n);
}

bool host_is(struct host_span s, const char *text)
{
	return s.n == strlen(text) && host_begins(s, text);
}

bool host_after(struct host_span s, const char *text, struct host_span *after)
{
	size_t n = strlen(text);
	const char *at = s.n ? memmem(s.at, s.n, text, n) : NULL;

	if (!at)
		return false;
	*after = (struct host_span){ at + n, s.n - (size_t)(at - s.at) - n };
	return true;
}

/* Up to the first of `c`, which is taken too; all of it when there is none. */
static struct host_span until(struct host_span *s, char c)
{
	const char *end = s->n ? memchr(s->at, c, s->n) : NULL;
	struct host_span part = { s->at, end ? (size_t)(end - s->at) : s->n };

	skip(s, part.n + (end != NULL));
	return part;
}

/* ---- numbers ---- */

bool host_digits(struct host_span *s, uint64_t *out)
{
	uint64_t v = 0;
	size_t n = 0;

	for (; n < s->n && s->at[n] >= '0' && s->at[n] <= '9'; n++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(s->at[n] - '0'), &v))
			return false;
	if (!n || v == PLIM_UNKNOWN)
		return false;
	skip(s, n);
	*out = v;
	return true;
}

bool host_u64(struct host_span s, uint64_t *out)
{
	struct host_span word, more;
	uint64_t v;

	if (!host_word(&s, &word) || host_word(&s, &more) || !host_digits(&word, &v) || word.n)
		return false;
	*out = v;
	return true;
}

bool host_i64(struct host_span s, int64_t *out)
{
	struct host_span word, rest = s;
	bool minus = host_word(&rest, &word) && *word.at == '-';
	uint64_t v;

	if (minus) {
		s = word;
		skip(&s, 1);
	}
	if (!host_u64(s, &v) || v > INT64_MAX)
		return false;
	*out = minus ? -(int64_t)v : (int64_t)v;
	return true;
}

/* LONG_MAX rounded down to pages, the largest of which are 64 KiB. */
#define NO_LIMIT ((uint64_t)INT64_MAX & ~(uint64_t)0xffff)

bool host_limit(struct host_span s, struct plim_here_limit *out)
{
	struct host_span rest = s, word, more;
	uint64_t v;

	if (host_word(&rest, &word) && (host_is(word, "max") || host_is(word, "unlimited")) &&
	    !host_word(&rest, &more)) {
		*out = (struct plim_here_limit){ PLIM_HERE_LIMIT_NONE, PLIM_UNKNOWN };
		return true;
	}
	if (!host_u64(s, &v))
		return false;
	*out = v >= NO_LIMIT ? (struct plim_here_limit){ PLIM_HERE_LIMIT_NONE, PLIM_UNKNOWN }
			     : (struct plim_here_limit){ PLIM_HERE_LIMIT_SET, v };
	return true;
}

/* "12.34" as 12.34; NaN when it is none. */
static double hundredths(struct host_span s)
{
	uint64_t whole, part = 0;
	size_t digits;

	if (!host_digits(&s, &whole) || whole > 100)
		return __builtin_nan("");
	if (!s.n)
		return (double)whole;
	skip(&s, *s.at == '.');
	digits = s.n;
	if (digits != 2 || !host_digits(&s, &part) || s.n)
		return __builtin_nan("");
	return (double)(whole * 100 + part) / 100;
}

/* ---- lines of keys ---- */

static bool split_key(struct host_span line, struct host_span *key, struct host_span *value)
{
	size_t n = 0;

	while (n < line.n && line.at[n] != ':' && !blank(line.at[n]))
		n++;
	*key = (struct host_span){ line.at, n };
	skip(&line, n);
	skip(&line, line.n && *line.at == ':');
	*value = line;
	return key->n != 0;
}

/* "12" or "12 kB". */
static bool parsed_amount(struct host_span value, uint64_t *out)
{
	struct host_span number, unit, more;
	uint64_t v;

	if (!host_word(&value, &number) || !host_u64(number, &v))
		return false;
	if (host_word(&value, &unit) && (!host_is(unit, "kB") || host_word(&value, &more) ||
					 __builtin_mul_overflow(v, 1024, &v) || v == PLIM_UNKNOWN))
		return false;
	*out = v;
	return true;
}

void host_keyed(struct host_span text, const struct host_key *keys, size_t n, void *into)
{
	struct host_span line, key, value;

	while (host_line(&text, &line)) {
		if (!split_key(line, &key, &value))
			continue;
		for (size_t k = 0; k < n; k++) {
			uint64_t v;

			if (host_is(key, keys[k].name) && parsed_amount(value, &v))
				memcpy((char *)into + keys[k].offset, &v, sizeof(v));
		}
	}
}

bool host_value(struct host_span text, const char *key, struct host_span *value)
{
	struct host_span line, name;

	while (host_line(&text, &line))
		if (split_key(line, &name, value) && host_is(name, key)) {
			while (value->n && blank(*value->at))
				skip(value, 1);
			return true;
		}
	return false;
}

static void one_stall(struct host_span line, struct plim_here_stall *out)
{
	struct host_span word;

	while (host_word(&line, &word)) {
		struct host_span value = word, key = until(&value, '=');

		if (host_is(key, "avg10"))
			out->avg10_pct = hundredths(value);
		else if (host_is(key, "avg60"))
			out->avg60_pct = hundredths(value);
		else if (host_is(key, "avg300"))
			out->avg300_pct = hundredths(value);
		else if (host_is(key, "total"))
			(void)host_u64(value, &out->total_us);
	}
}

void host_pressure(struct host_span text, struct plim_here_pressure *out)
{
	struct host_span line, kind;

	while (host_line(&text, &line)) {
		if (!host_word(&line, &kind))
			continue;
		if (host_is(kind, "some"))
			one_stall(line, &out->some);
		else if (host_is(kind, "full"))
			one_stall(line, &out->full);
	}
}

bool host_rlimit(struct host_span text, const char *name, struct plim_here_limit *soft,
		 struct plim_here_limit *hard)
{
	struct host_span line, a, b;

	while (host_line(&text, &line)) {
		if (!host_begins(line, name))
			continue;
		skip(&line, strlen(name));
		return host_word(&line, &a) && host_word(&line, &b) && host_limit(a, soft) &&
		       host_limit(b, hard);
	}
	return false;
}

/* ---- cgroups and mounts ---- */

bool host_membership(struct host_span line, struct host_membership *out)
{
	struct host_span id = until(&line, ':'), controllers = until(&line, ':');
	uint64_t v;

	*out = (struct host_membership){ .path = line };
	if (!host_u64(id, &v) || !line.n || *line.at != '/')
		return false;
	out->unified = !v && !controllers.n;
	while (controllers.n)
		if (host_is(until(&controllers, ','), "memory"))
			out->memory = true;
	return true;
}

/* The kernel writes blanks, line feeds and backslashes in paths as \040. */
static bool unescape(struct host_span s, char *out)
{
	size_t n = 0;

	while (s.n && n + 1 < HOST_PATH) {
		unsigned c = (unsigned char)*s.at;
		size_t length = 1;

		if (c == '\\' && s.n >= 4 && s.at[1] >= '0' && s.at[1] <= '3' && s.at[2] >= '0' &&
		    s.at[2] <= '7' && s.at[3] >= '0' && s.at[3] <= '7') {
			c = (unsigned)(s.at[1] - '0') * 64 + (unsigned)(s.at[2] - '0') * 8 +
			    (unsigned)(s.at[3] - '0');
			length = 4;
		}
		if (!c)
			return false;
		out[n++] = (char)c;
		skip(&s, length);
	}
	out[n] = 0;
	return !s.n;
}

bool host_mount(struct host_span line, struct host_mount *out)
{
	struct host_span word[5], rest, source;

	for (size_t i = 0; i < 5; i++) /* id, parent, device, root, mount point */
		if (!host_word(&line, &word[i]))
			return false;
	if (!host_after(line, " - ", &rest) || !host_word(&rest, &out->type) ||
	    !host_word(&rest, &source))
		return false;
	if (!host_word(&rest, &out->super))
		out->super = (struct host_span){ rest.at, 0 };
	return unescape(word[3], out->root) && unescape(word[4], out->point);
}

bool host_mount_size(struct host_span super, uint64_t *out)
{
	while (super.n) {
		struct host_span option = until(&super, ',');
		uint64_t v, unit = 1;

		if (!host_begins(option, "size="))
			continue;
		skip(&option, 5);
		if (!host_digits(&option, &v))
			return false;
		if (host_is(option, "k"))
			unit = 1024;
		else if (option.n)
			return false;
		return !__builtin_mul_overflow(v, unit, out) && *out != PLIM_UNKNOWN;
	}
	return false;
}

bool host_container(struct host_span path, struct host_span *id)
{
	size_t run = 0;

	for (size_t i = 0; i <= path.n; i++) {
		bool hex = i < path.n && ((path.at[i] >= '0' && path.at[i] <= '9') ||
					  (path.at[i] >= 'a' && path.at[i] <= 'f'));

		if (hex) {
			run++;
			continue;
		}
		if (run == 64) {
			*id = (struct host_span){ path.at + i - 64, 12 };
			return true;
		}
		run = 0;
	}
	return false;
}

/* ---- the kernel log ---- */

bool host_log_line(struct host_span line, struct host_log_line *out)
{
	struct host_span head = until(&line, ';'), level, number;

	level = until(&head, ',');
	number = until(&head, ',');
	out->text = line;
	return level.n && number.n && host_u64(until(&head, ','), &out->us);
}
