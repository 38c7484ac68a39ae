/* Wordings as patterns: literal parts, gaps, and fields that are read. */
#include "scan.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Places tried for one pattern on one line: a line made to be slow is given up. */
#define TRIES_MAX 400

enum kind { SIZE, NUMBER, COUNT32, WORD, SHAPE, SHARE };

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
	FIELD("lacks", SIZE, lacks),
	FIELD("pid", NUMBER, pid),
	FIELD("code", NUMBER, code),
	FIELD("reserved", SIZE, oom.reserved),
	FIELD("blocks", NUMBER, need_blocks),
	FIELD("wanted", NUMBER, tokens_wanted),
	FIELD("fits", NUMBER, tokens_fit),
	FIELD("share", SHARE, share),
	FIELD("shape", SHAPE, oom.tried),
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

static int pattern_is_word(char c)
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

static const char *read_pattern_number(const char *at, const char *end, uint64_t *out)
{
	const char *p = scan_digits(at, end, out);

	return p > at && *out != PLIM_UNKNOWN ? p : NULL;
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

static int is_figure(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '.' || c == ',' || c == '+' || c == '-';
}

/* A figure that cannot be read costs the figure, not the failure; what does not begin with a digit is none. */
static const char *skip_figure(const char *at, const char *end)
{
	const char *p = at;

	if (p >= end || *p < '0' || *p > '9')
		return NULL;
	while (p < end && is_figure(*p))
		p++;
	return p;
}

/* "31.44/47.38 GiB": the unit of the first stands behind the second. */
static const char *read_part(const char *at, const char *end, struct messages_bytes *out)
{
	const char *slash = at, *unit;
	char text[48];
	int n;

	while (slash < end && (*slash == '.' || (*slash >= '0' && *slash <= '9')))
		slash++;
	if (slash == at || slash >= end || *slash != '/')
		return NULL;
	for (unit = slash + 1; unit < end && (*unit == '.' || (*unit >= '0' && *unit <= '9'));)
		unit++;
	n = snprintf(text, sizeof(text), "%.*s%.*s", (int)(slash - at < 20 ? slash - at : 20), at,
		     (int)(end - unit < 4 ? end - unit : 4), unit);
	return scan_size(text, (size_t)n, SCAN_UNITS_ANY, out) ? slash : NULL;
}

static const char *read_size(const char *at, const char *end, enum scan_unit_kind units, void *to)
{
	struct messages_bytes bytes;
	const char *part = read_part(at, end, &bytes);
	size_t n = part ? 0 : scan_size(at, (size_t)(end - at), units, &bytes);

	if (!part && !n)
		return skip_figure(at, end);
	memcpy(to, &bytes, sizeof(bytes));
	return part ? part : at + n;
}

/* "0.95", or "95.8%", as a part of one. */
static const char *read_share(const char *at, const char *end, double *out)
{
	double value = 0, scale = 1;
	const char *p = at;

	for (; p < end && *p >= '0' && *p <= '9' && value < 1e9; p++)
		value = 10 * value + (*p - '0');
	if (p > at && p + 1 < end && *p == '.' && p[1] >= '0' && p[1] <= '9')
		for (p++; p < end && *p >= '0' && *p <= '9' && scale < 1e6; p++, scale *= 10)
			value = 10 * value + (*p - '0');
	if (p == at)
		return NULL;
	*out = value / scale;
	if (p < end && *p == '%') {
		*out /= 100;
		p++;
	}
	return p;
}

/* ---- "[59,128,195370] and type float": a tensor's bytes ---- */

static unsigned bytes_of_type(const char *at, const char *end)
{
	static const char lead[] = " and type ";

	if ((size_t)(end - at) <= sizeof(lead) || memcmp(at, lead, sizeof(lead) - 1))
		return 0;
	at += sizeof(lead) - 1;
	for (size_t i = 0; i < scan_type_count; i++) {
		size_t n = strlen(scan_types[i].name);

		if ((size_t)(end - at) >= n && !memcmp(at, scan_types[i].name, n) &&
		    (at + n == end || !pattern_is_word(at[n])))
			return scan_types[i].bytes;
	}
	return 0;
}

/* Without a type its bytes are not known; the shape alone is still the place. */
static const char *read_shape(const char *at, const char *end, struct messages_bytes *out)
{
	double elements = 1;
	unsigned bytes;
	const char *p = at;

	if (p >= end || *p != '[')
		return NULL;
	for (p++; p < end && *p != ']'; p++) {
		double size = 0;

		if (*p == ',' || *p == ' ')
			continue;
		if (*p < '0' || *p > '9')
			return NULL;
		for (; p < end && *p >= '0' && *p <= '9'; p++)
			size = 10 * size + (*p - '0');
		p--;
		elements *= size;
	}
	if (p >= end)
		return end;
	bytes = bytes_of_type(p + 1, end);
	if (bytes && elements * bytes < 0x1p62)
		out->low = out->high = (uint64_t)(elements * bytes);
	return p + 1;
}

static const char *read_field(const struct pattern_field *f, int binary, const char *at,
			      const char *end, char stop, struct messages_event *e)
{
	void *to = (char *)e + f->offset;
	uint64_t number;

	switch (f->kind) {
	case SIZE: return read_size(at, end, binary ? SCAN_UNITS_BINARY : SCAN_UNITS_ANY, to);
	case SHAPE: return read_shape(at, end, to);
	case SHARE: return read_share(at, end, to);
	case NUMBER: return read_pattern_number(at, end, to);
	case COUNT32:
		at = read_pattern_number(at, end, &number);
		if (!at || number >= UINT32_MAX)
			return NULL;
		*(uint32_t *)to = (uint32_t)number;
		return at;
	default: return read_word(at, end, stop, to, f->size);
	}
}

/* "{tried2}" is {tried} of a program that writes GB and divides by 2^30. */
static const struct pattern_field *find_field(const char *name, size_t n)
{
	n -= name[n - 1] == '2';
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
	return scan_lower(*at) == scan_lower(want) ? at + 1 : NULL;
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
			if (at > c->start && at < c->end && pattern_is_word(at[-1]) &&
			    pattern_is_word(*at))
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
			at = read_field(find_field(pattern + 1, n), pattern[n] == '2', at, c->end,
					pattern[n + 2], c->event);
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
