/* Wordings as patterns: literal parts, gaps, and fields that are read. */
#include "scan.h"

#include <string.h>
#include <strings.h>

/* Places tried for one pattern on one line: a line made to be slow is given up. */
#define TRIES_MAX 400

enum kind { SIZE, NUMBER, COUNT32, WORD };

/* What {name} reads, and where it goes. */
static const struct pattern_field {
	const char *name;
	enum kind kind;
	size_t offset, size;
} fields[] = {
#define FIELD(name, kind, member)                                    \
	{                                                            \
		name, kind, offsetof(struct messages_event, member), \
			sizeof(((struct messages_event *)0)->member) \
	}
	FIELD("tried", SIZE, oom.tried),
	FIELD("total", SIZE, oom.total),
	FIELD("free", SIZE, oom.free),
	FIELD("allowed", SIZE, oom.allowed),
	FIELD("allocated", SIZE, oom.allocated),
	FIELD("others", SIZE, oom.others),
	FIELD("used", SIZE, used),
	FIELD("limit", SIZE, limit),
	FIELD("rss", SIZE, rss),
	FIELD("pid", NUMBER, pid),
	FIELD("code", NUMBER, code),
	FIELD("blocks", NUMBER, need_blocks),
	FIELD("device", COUNT32, oom.device),
	FIELD("process", WORD, process),
	FIELD("group", WORD, group),
#undef FIELD
};

struct cursor {
	const char *start, *end;
	struct messages_event *event;
	unsigned tries;
};

static int is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_';
}

static int is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static int is_literal(char c)
{
	return c && c != '*' && c != '^' && c != '$' && c != '|' && c != '{';
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

const char *scan_anchor(const char *pattern, size_t *n)
{
	const char *best = pattern;

	*n = 0;
	while (*pattern) {
		const char *from = pattern;

		while (is_literal(*pattern) && *pattern != ' ')
			pattern++;
		/* a blank may be several: words part anchors, save that one blank is in most */
		while (*pattern == ' ' && pattern > from && is_literal(pattern[1]) &&
		       pattern[1] != ' ') {
			pattern++;
			while (is_literal(*pattern) && *pattern != ' ')
				pattern++;
		}
		if ((size_t)(pattern - from) > *n) {
			best = from;
			*n = (size_t)(pattern - from);
		}
		if (*pattern == '{')
			pattern += strcspn(pattern, "}");
		pattern += *pattern != 0;
	}
	*n = *n >= SCAN_ANCHOR_BYTES ? *n : 0;
	return best;
}

static const char *read_number(const char *at, const char *end, uint64_t *out)
{
	uint64_t v = 0;
	const char *p = at;

	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		if (v > (PLIM_UNKNOWN - 10) / 10)
			return NULL;
		v = 10 * v + (uint64_t)(*p - '0');
	}
	*out = v;
	return p > at ? p : NULL;
}

/* A word ends where the pattern goes on, at a blank if it goes on with none. */
static const char *read_word(const char *at, const char *end, char stop, char *out, size_t size)
{
	const char *p = at;
	size_t n;

	while (p < end && *p != stop && (stop || !is_blank(*p)))
		p++;
	n = (size_t)(p - at) < size ? (size_t)(p - at) : size - 1;
	while (n && (at[n - 1] == '.' || at[n - 1] == ',')) /* the sentence's, not the name's */
		n--;
	memcpy(out, at, n);
	out[n] = 0;
	return p > at ? p : NULL;
}

static const char *read_field(const struct pattern_field *f, const char *at, const char *end,
			      char stop, struct messages_event *e)
{
	void *to = (char *)e + f->offset;
	struct messages_bytes bytes;
	uint64_t number;
	size_t n;

	switch (f->kind) {
	case SIZE:
		n = scan_size(at, (size_t)(end - at), SCAN_UNITS_ANY, &bytes);
		if (n)
			memcpy(to, &bytes, sizeof(bytes));
		return n ? at + n : NULL;
	case NUMBER: return read_number(at, end, to);
	case COUNT32:
		at = read_number(at, end, &number);
		if (!at || number >= UINT32_MAX)
			return NULL;
		*(uint32_t *)to = (uint32_t)number;
		return at;
	default: return read_word(at, end, stop, to, f->size);
	}
}

static const struct pattern_field *find_field(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (strlen(fields[i].name) == n && !memcmp(fields[i].name, name, n))
			return &fields[i];
	return NULL;
}

/* One literal letter at `at`: where the text goes on, or NULL. */
static const char *letter(char want, const char *at, const char *end)
{
	if (at >= end)
		return NULL;
	if (want == ' ') {
		const char *from = at;

		while (at < end && is_blank(*at))
			at++;
		return at > from ? at : NULL;
	}
	return lower(*at) == lower(want) ? at + 1 : NULL;
}

static int match_here(const char *pattern, const char *at, struct cursor *c);

static int match_behind_gap(const char *pattern, const char *at, struct cursor *c)
{
	if (!*pattern)
		return 1;
	for (; at <= c->end && c->tries < TRIES_MAX; at++) {
		if (is_literal(*pattern) && !letter(*pattern, at, c->end))
			continue;
		c->tries++;
		if (match_here(pattern, at, c))
			return 1;
	}
	return 0;
}

static int match_here(const char *pattern, const char *at, struct cursor *c)
{
	for (; *pattern; pattern++) {
		size_t n;

		switch (*pattern) {
		case '*': return match_behind_gap(pattern + 1, at, c);
		case '|':
			if (at > c->start && at < c->end && is_word(at[-1]) && is_word(*at))
				return 0;
			continue;
		case '$':
			while (at < c->end && is_blank(*at))
				at++;
			if (at < c->end)
				return 0;
			continue;
		case '{':
			n = strcspn(pattern + 1, "}");
			at = read_field(find_field(pattern + 1, n), at, c->end, pattern[n + 2],
					c->event);
			pattern += n + 1;
			break;
		default: at = letter(*pattern, at, c->end);
		}
		if (!at)
			return 0;
	}
	return 1;
}

int scan_match(const char *pattern, const struct scan_line *line, struct messages_event *e)
{
	struct cursor c = { line->text, line->text + line->n, e, 0 };

	if (*pattern == '^')
		return match_here(pattern + 1, line->text + line->body, &c);
	return match_behind_gap(pattern, line->text, &c);
}
