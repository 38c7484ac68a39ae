/* A line of a log: where it ends, without its colours, and whose it is. */
#include "scan.h"

#include <ctype.h>
#include <string.h>

int scan_ends_line(char c)
{
	return c == '\n' || c == '\r';
}

const char *scan_line_start(const char *from, const char *at)
{
	while (at > from && !scan_ends_line(at[-1]))
		at--;
	return at;
}

const char *scan_line_end(const char *at, const char *end)
{
	while (at < end && !scan_ends_line(*at))
		at++;
	return at;
}

uint64_t scan_line_shape(const char *start, const char *end)
{
	const uint64_t ones = 0x0101010101010101u;
	uint64_t shape = (uint64_t)(end - start);

	for (const char *p = start; p < end; p += sizeof(uint64_t)) {
		uint64_t x = 0, value, digits;

		memcpy(&x, p, end - p < 8 ? (size_t)(end - p) : 8);
		value = x ^ '0' * ones; /* of each byte: below 10 if it is a digit */
		digits = ~(((value & 0x7f * ones) + (0x80 - 10) * ones) | value) & 0x80 * ones;
		x &= ~((digits >> 7) * 0x0f);
		shape = (shape ^ x) * 0x9e3779b97f4a7c15u;
		shape ^= shape >> 32;
	}
	return shape;
}

const char *scan_digits(const char *p, const char *end, uint64_t *out)
{
	uint64_t v = 0;

	for (; p < end && *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			v = PLIM_UNKNOWN;
	*out = v;
	return p;
}

const char *scan_digits_before(const char *from, const char *p)
{
	while (p > from && p[-1] >= '0' && p[-1] <= '9')
		p--;
	return p;
}

uint32_t scan_number(const char *p, const char **end)
{
	uint32_t v = 0;
	int digits = 0;

	for (; *p >= '0' && *p <= '9' && digits < 7; p++, digits++)
		v = 10 * v + (uint32_t)(*p - '0');
	*end = p;
	return digits ? v : UINT32_MAX;
}

static void find_rank(struct scan_line *l)
{
	const char *end;

	for (size_t i = 0; i < scan_rank_mark_count; i++) {
		const char *at = strstr(l->text, scan_rank_marks[i].open);
		uint32_t rank;

		if (!at || at - l->text > 120)
			continue;
		rank = scan_number(at + strlen(scan_rank_marks[i].open), &end);
		if (rank == UINT32_MAX ||
		    strncmp(end, scan_rank_marks[i].close, strlen(scan_rank_marks[i].close)))
			continue;
		l->rank = rank;
		if (at[0] == '[' && strchr(end, ':')) { /* the line itself begins behind the mark */
			end += strcspn(end, ":>") + 1;
			l->body = (size_t)(end - l->text) + (*end == ' ');
		}
		return;
	}
	/* srun --label: "3: text" */
	l->rank = scan_number(l->text, &end);
	if (l->rank == UINT32_MAX || end[0] != ':' || end[1] != ' ')
		l->rank = UINT32_MAX;
	else
		l->body = (size_t)(end + 2 - l->text);
}

int scan_has(const char *p, const char *end, const struct scan_word *words)
{
	while (words->word && !memmem(p, (size_t)(end - p), words->word, strlen(words->word)))
		words++;
	return words->word != NULL;
}

int scan_holds(const char *text, const struct scan_word *words)
{
	while (words->word && !strstr(text, words->word))
		words++;
	return words->word != NULL;
}

int scan_says(const char *text, const struct scan_word *words)
{
	while (words->word && !strcasestr(text, words->word))
		words++;
	return words->word != NULL;
}

int scan_line_quotes(const struct scan_line *l)
{
	static const char *const compiler[] = { ": warning: ", ": note: " };
	const char *end;

	for (size_t i = 0; i < sizeof(compiler) / sizeof(compiler[0]); i++) {
		const char *at = strstr(l->text, compiler[i]);
		const char *p = at ? scan_digits_before(l->text, at) : NULL;

		if (p && p < at && p > l->text + 1 && p[-1] == ':' &&
		    scan_number(p, &end) != UINT32_MAX && p[-2] >= '0' && p[-2] <= '9')
			return 1;
	}
	return strstr(l->text, "] STATEMENT:  ") != NULL;
}

/* Where the sentence begins that holds `at`. */
static const char *sentence_start(const char *text, const char *at)
{
	const char *p = at;

	while (p > text + 1 && !(p[-1] == ' ' && strchr(".!?;", p[-2])))
		p--;
	return p > text + 1 ? p : text;
}

static const char *sentence_end(const char *at)
{
	while (*at && !(strchr(".!?;", *at) && (at[1] == ' ' || !at[1])))
		at++;
	return at;
}

int scan_line_denies(const struct scan_line *l, const char *at, int titled)
{
	const char *body = l->text + l->body, *from = at ? sentence_start(l->text, at) : l->text;
	const char *to = at ? sentence_end(at) : l->text + l->n;
	char sentence[SCAN_LINE_BYTES];
	memcpy(sentence, from, (size_t)(to - from));
	sentence[to - from] = 0;
	if (scan_says(sentence, scan_denials))
		return 1;
	if (from > body && !strncasecmp(from, "if ", 3))
		return 1;
	body += strspn(body, " ");
	if (titled && !strncmp(body, "# ", 2))
		body += 2;
	return !strncasecmp(body, "if ", 3) || !strncmp(body, "import ", 7) ||
	       !strncmp(body, "from ", 5) || (*body && strchr("#-|", *body));
}

#define CONTAINER_COLUMNS 48

size_t scan_container(const char *p, const char *end)
{
	const char *name = p, *bar;

	while (p < end && (isalnum((unsigned char)*p) || strchr("_.-", *p)))
		p++;
	for (bar = p; bar < end && *bar == ' ';)
		bar++;
	if (p == name || bar == p || bar == end || *bar != '|' || bar - name > CONTAINER_COLUMNS)
		return 0;
	return (size_t)(bar - name) + 1 + (bar + 1 < end && bar[1] == ' ');
}

/* Marks of emphasis, of a quote and of a prompt that someone's page puts around a line. */
static void strip_marks(struct scan_line *l)
{
	const char *body = l->text + l->body;

	if (l->n > l->body && strchr("*`", l->text[l->n - 1]))
		while (l->n > l->body && strchr(" *`", l->text[l->n - 1]))
			l->text[--l->n] = 0;
	if (!strncmp(body, "**", 2) || !strncmp(body, "> ", 2) || !strncmp(body, "$ ", 2))
		l->body += 2 + strspn(body + 2, " *>`$");
	if (l->body > l->n)
		l->body = l->n;
}

void scan_line_clean(struct scan_line *l, const char *start, const char *end, const char *at)
{
	size_t skip;

	if (end - start >= SCAN_LINE_BYTES && at - start > SCAN_LINE_BYTES / 4)
		start = at - SCAN_LINE_BYTES / 4;
	l->n = l->body = 0;
	for (const char *p = start; p < end && l->n < SCAN_LINE_BYTES - 1; p += skip) {
		skip = *p == '\033' ? scan_decoration(p, (size_t)(end - p), 0) : 0;
		if (skip)
			continue;
		skip = 1;
		if (*p == SCAN_JOINT)
			continue;
		l->text[l->n++] = (char)((unsigned char)*p < ' ' || *p == 0x7f ? ' ' : *p);
	}
	l->text[l->n] = 0;
	l->rank = UINT32_MAX;
	find_rank(l);
	if (l->body > l->n)
		l->body = l->n;
	l->body += scan_container(l->text + l->body, l->text + l->n);
	strip_marks(l);
}
