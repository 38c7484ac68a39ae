/* One opcode after another: a table of what stands behind each. */
#include "opcodes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_BYTES 300
#define MEMO 4096 /* strings that are remembered */

/* What an opcode has behind it. */
enum behind {
	INVALID,
	NOTHING,
	BYTES_1,
	BYTES_2,
	BYTES_4,
	BYTES_8,
	COUNTED_1, /* a length of 1 byte, and so many bytes */
	COUNTED_4,
	COUNTED_8,
	LINE,   /* up to a line break */
	NUMBER, /* the same, of digits */
	QUOTED, /* the same, in quotes */
	GLOBAL, /* two lines: module and name */
};

static const uint8_t behind[256] = {
	[0x80] = BYTES_1,   [0x95] = BYTES_8,   ['.'] = NOTHING,    ['('] = NOTHING,
	['0'] = NOTHING,    ['1'] = NOTHING,    ['2'] = NOTHING,    ['N'] = NOTHING,
	[0x88] = NOTHING,   [0x89] = NOTHING,   ['K'] = BYTES_1,    ['M'] = BYTES_2,
	['J'] = BYTES_4,    [0x8a] = COUNTED_1, [0x8b] = COUNTED_4, ['I'] = NUMBER,
	['L'] = NUMBER,     ['G'] = BYTES_8,    ['F'] = NUMBER,     [0x8c] = COUNTED_1,
	['X'] = COUNTED_4,  [0x8d] = COUNTED_8, ['V'] = LINE,       ['U'] = COUNTED_1,
	['T'] = COUNTED_4,  ['S'] = QUOTED,     ['C'] = COUNTED_1,  ['B'] = COUNTED_4,
	[0x8e] = COUNTED_8, [0x96] = COUNTED_8, ['}'] = NOTHING,    [']'] = NOTHING,
	[')'] = NOTHING,    [0x8f] = NOTHING,   ['d'] = NOTHING,    ['l'] = NOTHING,
	['t'] = NOTHING,    [0x91] = NOTHING,   [0x85] = NOTHING,   [0x86] = NOTHING,
	[0x87] = NOTHING,   ['s'] = NOTHING,    ['u'] = NOTHING,    ['a'] = NOTHING,
	['e'] = NOTHING,    [0x90] = NOTHING,   [0x94] = NOTHING,   ['q'] = BYTES_1,
	['r'] = BYTES_4,    ['p'] = NUMBER,     ['h'] = BYTES_1,    ['j'] = BYTES_4,
	['g'] = NUMBER,     ['c'] = GLOBAL,     [0x93] = NOTHING,   ['R'] = NOTHING,
	[0x81] = NOTHING,   [0x92] = NOTHING,   ['b'] = NOTHING,    ['i'] = GLOBAL,
	['o'] = NOTHING,    [0x82] = BYTES_1,   [0x83] = BYTES_2,   [0x84] = BYTES_4,
	['P'] = LINE,       ['Q'] = NOTHING,    [0x97] = NOTHING,   [0x98] = NOTHING,
};

/* An opcode with what is behind it: text is its string, or the first of its two lines. */
struct step {
	uint8_t opcode;
	const uint8_t *text, *second;
	size_t n, second_n;
	bool cut; /* the bytes end in it */
};

static uint64_t little(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, p, n);
	return v;
}

/* A line at *p; false: it does not end. */
static bool take_line(const uint8_t **p, const uint8_t *end, const uint8_t **text, size_t *n)
{
	const uint8_t *nl = memchr(*p, '\n', (size_t)(end - *p));

	*text = *p;
	*n = nl ? (size_t)(nl - *p) : (size_t)(end - *p);
	*p = nl ? nl + 1 : end;
	return nl != NULL;
}

/*
 * A number as one of Python's unpicklers reads it: spaces around it, underscores, 0x1f, an L behind it; the C unpickler
 * stops at a NUL, and reads nothing before it as 0.
 */
static bool is_no_digits(const char *p, size_t n)
{
	return (n == 3 && (!strncasecmp(p, "nan", n) || !strncasecmp(p, "inf", n))) ||
	       (n == 8 && !strncasecmp(p, "infinity", n));
}

static bool opcode_is_number(const uint8_t *p, size_t n, bool real)
{
	const uint8_t *nul = n ? memchr(p, 0, n) : NULL;
	size_t digits = 0;
	bool hex;

	n = nul ? (size_t)(nul - p) : n;
	for (; n && isspace(*p); n--)
		p++;
	for (n -= n && p[n - 1] == 'L'; n && isspace(p[n - 1]);)
		n--;
	if (n && (*p == '+' || *p == '-'))
		p++, n--;
	if (real && is_no_digits((const char *)p, n))
		return true;
	hex = !real && n > 2 && *p == '0' && (p[1] | 32) == 'x';
	for (size_t i = !real && n > 2 && *p == '0' && strchr("xob", p[1] | 32) ? 2 : 0; i < n;
	     i++) {
		bool digit = hex ? isxdigit(p[i]) != 0 : isdigit(p[i]) != 0;

		digits += digit;
		if (!digit && p[i] != '_' && !(real && strchr("+-.eE", p[i])))
			return false;
	}
	return digits || (nul && !n);
}

/* A dotted name that Python could import. */
static bool opcode_is_name(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum(p[i]) && p[i] != '_' && p[i] != '.' && p[i] < 0x80)
			return i && p[i] == '\r' && i + 1 == n;
	return n && !isdigit(p[0]);
}

static bool take_text(struct step *s, const uint8_t **p, const uint8_t *end)
{
	enum behind kind = (enum behind)behind[s->opcode];

	s->cut = !take_line(p, end, &s->text, &s->n);
	if (kind == GLOBAL && !s->cut)
		s->cut = !take_line(p, end, &s->second, &s->second_n);
	if (s->cut) /* what is longer than any name is not a text of a pickle */
		return s->n < 4096 && s->second_n < 4096;
	return kind == NUMBER   ? opcode_is_number(s->text, s->n, s->opcode == 'F')
	       : kind == QUOTED ? s->n >= 2 && strchr("'\"", s->text[0]) && s->text[0]
	       : kind == GLOBAL
		       ? opcode_is_name(s->text, s->n) && opcode_is_name(s->second, s->second_n)
		       : true;
}

/* The next opcode; false: it is none, or what is behind it is not what it wants. */
static bool take_opcode(struct step *s, const uint8_t **p, const uint8_t *end)
{
	static const uint8_t widths[] = {
		[BYTES_1] = 1,   [BYTES_2] = 2,   [BYTES_4] = 4,  [BYTES_8] = 8,
		[COUNTED_1] = 1, [COUNTED_4] = 4, [COUNTED_8] = 8
	};
	enum behind kind = (enum behind)behind[**p];
	size_t width;
	uint64_t n = 0;

	*s = (struct step){ .opcode = *(*p)++ };
	if (kind == INVALID || kind == NOTHING)
		return kind == NOTHING;
	if (kind >= LINE)
		return take_text(s, p, end);
	width = widths[kind];
	s->cut = (size_t)(end - *p) < width;
	if (s->cut) {
		*p = end;
		return true;
	}
	if (kind >= COUNTED_1)
		n = little(*p, width);
	*p += width;
	s->text = *p;
	s->cut = n > (uint64_t)(end - *p);
	s->n = s->cut ? (size_t)(end - *p) : (size_t)n;
	*p += s->n;
	return s->opcode != 0x80 || (*p)[-1] <= 5;
}

bool opcodes_is_pickle(const uint8_t *p, size_t n)
{
	const uint8_t *at = p, *end = p + n;
	size_t steps = 0, made = 0, named = 0;
	struct step s = { 0 };
	bool right = true;

	if (n >= 2 && p[0] == 0x80)
		return p[1] <= 5;
	while (at < end && steps < 100000 && right) {
		right = take_opcode(&s, &at, end);
		if (!right || s.opcode == '.' || s.cut)
			break;
		steps++;
		named += behind[s.opcode] == GLOBAL;
		made += strchr("(012.aesubtpqr", s.opcode) == NULL;
	}
	/* A value, and the end of it; what goes on must have shown what no text has: a name, or a structure. */
	if (!right) /* an array of joblib may stand behind a name and what is made of it */
		return named && steps > 8 && made > 4;
	if (s.opcode == '.' && !s.cut)
		return made > 0;
	return steps > 8 ? made > 4 : named && steps > 1;
}

bool opcodes_is_cut(const uint8_t *p, size_t n)
{
	const uint8_t *at = p, *end = p + n;
	struct step s = { 0 };

	while (at < end && s.opcode != '.')
		if (!take_opcode(&s, &at, end))
			return false;
	return s.opcode != '.' || s.cut;
}

bool opcodes_are_torchs(const uint8_t *p, size_t n)
{
	static const char known[] = "c\x81Rbaesu(t\x85\x86\x87N\x88\x89)]}\x8fJKMGXUQhjqr\x8a\x80.";
	const uint8_t *at = p, *end = p + n;
	struct step s = { 0 };

	while (at < end && s.opcode != '.')
		if (!take_opcode(&s, &at, end) || !memchr(known, s.opcode, sizeof(known) - 1))
			return false;
	return true;
}

const char *opcodes_doubt(const uint8_t *p, size_t n, size_t *where)
{
	const uint8_t *at = p, *end = p + n, *frame = p;
	struct step s = { 0 };

	while (at < end && s.opcode != '.') {
		const uint8_t *from = at;
		bool inside = from < frame;

		if (!take_opcode(&s, &at, end))
			return NULL;
		*where = (size_t)(from - p);
		if (s.opcode == 0x80 && from != p)
			return "a second protocol is announced";
		if (inside && at > frame)
			return "an opcode reaches over the end of its frame";
		if (s.opcode != 0x95)
			continue;
		if (inside)
			return "a frame begins inside another";
		if (s.cut || little(from + 1, 8) > (uint64_t)(end - at))
			return "a frame ends behind the pickle";
		frame = at + little(from + 1, 8);
	}
	return NULL;
}

/* ---- names ---- */

struct names {
	struct {
		const uint8_t *at;
		size_t n;
	} recent[2], memo[MEMO]; /* strings */
	size_t put;              /* values memoized so far, by MEMOIZE's count */
	bool fresh;              /* the opcode before pushed a string */
};

static void push(struct names *k, const uint8_t *at, size_t n)
{
	k->recent[0] = k->recent[1];
	k->recent[1].at = at;
	k->recent[1].n = n;
	k->fresh = true;
}

static void remember(struct names *k, uint64_t i)
{
	k->put++;
	if (i < MEMO && k->fresh)
		k->memo[i] = k->recent[1];
}

static void recall(struct names *k, uint64_t i)
{
	if (i < MEMO && k->memo[i].at)
		push(k, k->memo[i].at, k->memo[i].n);
}

static uint64_t decimal(const struct step *s)
{
	uint64_t v = 0;

	for (size_t i = 0; i < s->n && v < UINT64_MAX / 100 && s->text[i]; i++)
		if (isdigit(s->text[i])) /* spaces and underscores are none */
			v = 10 * v + (uint64_t)(s->text[i] - '0');
	return v;
}

static void follow_opcode(struct names *k, const struct step *s)
{
	const uint8_t *arg = s->text;

	switch (s->opcode) {
	case 0x8c:
	case 'X':
	case 0x8d:
	case 'V':
	case 'U':
	case 'T': push(k, s->text, s->n); return;
	case 'S': push(k, s->text + 1, s->n > 1 ? s->n - 2 : 0); return;
	case 0x94: remember(k, k->put); return;
	case 'q': remember(k, arg[-1]); return;
	case 'r': remember(k, little(arg - 4, 4)); return;
	case 'p': remember(k, decimal(s)); return;
	case 'h': recall(k, arg[-1]); return;
	case 'j': recall(k, little(arg - 4, 4)); return;
	case 'g': recall(k, decimal(s)); return;
	default: k->fresh = false;
	}
}

/* "module.name" of two texts; false: one has a NUL, which ends a text of C. */
static bool join_opcode(char *name, size_t size, const uint8_t *module, size_t n,
			const uint8_t *member, size_t member_n)
{
	snprintf(name, size, "%.*s.%.*s", (int)(n < 140 ? n : 140), (const char *)module,
		 (int)(member_n < 140 ? member_n : 140), (const char *)member);
	return !memchr(module, 0, n) && !memchr(member, 0, member_n);
}

/*
 * What this opcode names: 1; 0: nothing; -1: what is not known here.  If the bytes end in a name, Python's unpicklers take
 * it without its last letter, and the one that is written in Python takes a module alone.
 */
static int named(const struct names *k, const struct step *s, char *name, size_t size)
{
	size_t module = s->n - (s->cut && !s->second && s->n);
	size_t member = s->second_n - (s->cut && s->second_n);
	bool known;

	if (s->opcode == 0x82 || s->opcode == 0x83 || s->opcode == 0x84)
		return s->cut ? 0 : -1; /* a number that stands for a name */
	if (behind[s->opcode] == GLOBAL) {
		if (!module)
			return 0;
		known = join_opcode(name, size, s->text, module, s->second ? s->second : s->text,
				    member);
	} else {
		if (s->opcode != 0x93 || !k->recent[0].at)
			return 0;
		known = join_opcode(name, size, k->recent[0].at, k->recent[0].n, k->recent[1].at,
				    k->recent[1].n);
	}
	return known ? 1 : -1;
}

enum plim_status opcodes_name(const uint8_t *p, size_t n, opcodes_fn *hear, void *ctx,
			      struct plim_err *err)
{
	const uint8_t *at = p, *end = p + n;
	static const struct names none;
	struct names k = none;
	struct step s = { 0 };
	char name[NAME_BYTES];
	enum plim_status st = PLIM_OK;

	while (!st && at < end && s.opcode != '.') {
		bool right = take_opcode(&s, &at, end);
		int names = named(&k, &s, name, sizeof(name));

		if (names)
			st = hear(ctx, names > 0 ? name : NULL, (uint64_t)(at - p), err);
		if (!right || s.cut)
			break;
		follow_opcode(&k, &s);
	}
	return st;
}
