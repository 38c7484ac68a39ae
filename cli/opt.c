#include "opt.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct parse {
	const struct opt *rows;
	struct opt_walk found; /* the row that was found last, and whose it is */
	char *values;          /* the command's struct */
	int argc, at;          /* `at` is the next argument to read */
	char **argv;
	struct opt_message *message;
};

static bool wrong(struct parse *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(struct parse *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->message->text, sizeof(p->message->text), fmt, ap);
	va_end(ap);
	return false;
}

/* ---- rows ---- */

static bool is_left_out(const struct opt *table, const char *name)
{
	for (const char *const *n = table->names; name && n && *n; n++)
		if (!strcmp(*n, name))
			return true;
	return false;
}

const struct opt *opt_next(struct opt_walk *w)
{
	while (w->at) {
		const struct opt *o = w->at++;

		if (o->kind == OPT_KIND_TABLE) {
			w->inside = o;
			w->at = o->table->rows;
		} else if (o->kind == OPT_KIND_END) {
			w->at = w->inside ? w->inside + 1 : NULL;
			w->inside = NULL;
		} else if ((o->kind == OPT_KIND_ALIAS || o->kind == OPT_KIND_REFUSED) &&
			   !w->aliases) {
			continue;
		} else if (!w->inside || !is_left_out(w->inside, o->name)) {
			w->row = *o;
			w->row.letter = w->inside ? 0 : o->letter;
			return &w->row;
		}
	}
	return NULL;
}

/* ---- values ---- */

static const struct {
	const char *name;
	uint64_t bytes;
} units[] = {
	{ "TiB", 1ull << 40 },
	{ "GiB", 1ull << 30 },
	{ "MiB", 1ull << 20 },
	{ "KiB", 1ull << 10 },
	{ "T", 1ull << 40 },
	{ "G", 1ull << 30 },
	{ "M", 1ull << 20 },
	{ "K", 1ull << 10 },
	{ "TB", 1000000000000 },
	{ "GB", 1000000000 },
	{ "MB", 1000000 },
	{ "KB", 1000 },
	{ "B", 1 },
	{ "", 1 },
};

enum { UNITS_EXACT = 4 }; /* the rows that opt_bytes_text speaks */

static bool digits(const char **text, uint64_t *out)
{
	const char *c = *text;

	for (*out = 0; *c >= '0' && *c <= '9'; c++)
		if (__builtin_mul_overflow(*out, 10u, out) ||
		    __builtin_add_overflow(*out, (uint64_t)(*c - '0'), out))
			return false;
	if (c == *text)
		return false;
	*text = c;
	return true;
}

/* The part behind the point, in billionths; more than nine digits are not a size that is meant. */
static bool fraction(const char **text, uint64_t *billionths)
{
	const char *start = ++*text;
	size_t n;

	if (!digits(text, billionths))
		return false;
	n = (size_t)(*text - start);
	for (size_t i = n; i < 9; i++)
		*billionths *= 10;
	return n <= 9;
}

bool opt_bytes(const char *text, uint64_t *out)
{
	uint64_t whole, part = 0;
	bool has_part;

	*out = 0;
	if (!digits(&text, &whole))
		return false;
	has_part = *text == '.';
	if (has_part && !fraction(&text, &part))
		return false;
	text += *text == ' '; /* "24 GiB", as it is written in a text */
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		uint64_t n;

		if (strcasecmp(text, units[i].name) != 0)
			continue;
		if (has_part && units[i].bytes == 1)
			return false;
		if (__builtin_mul_overflow(whole, units[i].bytes, &n) ||
		    __builtin_add_overflow(
			    n, (uint64_t)((double)part / 1e9 * (double)units[i].bytes), &n) ||
		    n == OPT_NONE)
			return false;
		*out = n;
		return true;
	}
	return false;
}

bool opt_version(const char *text, uint64_t least, uint64_t most, unsigned *out)
{
	uint64_t major, minor;

	if (!digits(&text, &major) || *text++ != '.' || !digits(&text, &minor) ||
	    (*text && *text != '.') || major > 99 || minor > 99)
		return false;
	*out = (unsigned)(100 * major + minor);
	return *out >= least && *out <= most;
}

/* "8B", "0.5b", "350M", "8030261248"; false: none of them. */
static bool read_count(const char *text, uint64_t *count)
{
	static const struct {
		char letter;
		double times;
	} suffixes[] = { { 0, 1 }, { 'K', 1e3 }, { 'M', 1e6 }, { 'B', 1e9 }, { 'T', 1e12 } };
	char *end;
	double n = isdigit((unsigned char)*text) ? strtod(text, &end) : 0;

	for (size_t i = 0; n > 0 && n < 1e15 && i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (toupper((unsigned char)*end) == suffixes[i].letter && (!*end || !end[1])) {
			*count = (uint64_t)(n * suffixes[i].times);
			return *count > 0 && n * suffixes[i].times < 1e15;
		}
	return false;
}

/* "448" or "672x448". */
static bool read_sides(const char *text, const struct opt *row, uint64_t *height, uint64_t *width)
{
	uint64_t *const side[] = { height, width };

	*width = 0;
	for (unsigned i = 0; i < 2; i++) {
		if (!digits(&text, side[i]) || *side[i] < row->min || *side[i] > row->max)
			return false;
		if (!*text || i || *text++ != 'x')
			break;
	}
	return !*text && text[-1] != 'x';
}

void opt_bytes_text(uint64_t bytes, char *text, size_t size)
{
	for (size_t i = 0; i < UNITS_EXACT; i++) {
		if (bytes && bytes % units[i].bytes == 0) {
			snprintf(text, size, "%llu%s", (unsigned long long)(bytes / units[i].bytes),
				 units[i].name);
			return;
		}
	}
	snprintf(text, size, "%llu", (unsigned long long)bytes);
}

static void store_number(const struct opt *row, char *values, uint64_t n)
{
	void *field = values + row->offset;

	if (row->times && n != OPT_NONE)
		n *= row->times;
	if (row->narrow)
		*(uint32_t *)field = (uint32_t)n;
	else
		*(uint64_t *)field = n;
}

static bool set_number(struct parse *p, const struct opt *row, const char *shown, const char *text)
{
	const char *end = text;
	uint64_t n;

	/* "r=16", as PEFT has it: the name of the number is not part of it */
	while (isalpha((unsigned char)*end) || *end == '_')
		end++;
	end = end > text && *end == '=' ? end + 1 : text;
	if (!digits(&end, &n))
		return wrong(p, "option '%s' wants a whole number, not '%s'", shown, text);
	if (*end == ',') {
		p->message->suggests = true;
		return wrong(p,
			     "option '%s' wants one number, %llu: what else '%s' says has options "
			     "of its own",
			     shown, (unsigned long long)n, text);
	}
	if (*end && strcasecmp(end, "k") != 0)
		return wrong(p, "option '%s' wants a whole number, not '%s'", shown, text);
	if (*end && n > UINT64_MAX / 1024)
		return wrong(p, "option '%s' wants a whole number, not '%s'", shown, text);
	if (*end) {
		p->message->suggests = true;
		return wrong(p, "option '%s' wants a whole number, not '%s': %llu or %llu?", shown,
			     text, (unsigned long long)n * 1024, (unsigned long long)n * 1000);
	}
	if (n < row->min || n > row->max) {
		if (row->max == OPT_NONE)
			return wrong(p, "option '%s' wants at least %llu, not '%s'", shown,
				     (unsigned long long)row->min, text);
		return wrong(p, "option '%s' wants %llu to %llu, not '%s'", shown,
			     (unsigned long long)row->min, (unsigned long long)row->max, text);
	}
	store_number(row, p->values, n);
	return true;
}

static bool set_bytes(struct parse *p, const struct opt *row, const char *shown, const char *text)
{
	uint64_t *field = (uint64_t *)(void *)(p->values + row->offset);
	char low[32], high[32];
	uint64_t n;

	if (!opt_bytes(text, &n))
		return wrong(p, "option '%s' wants a size such as 24GiB, 24GB or 1000, not '%s'",
			     shown, text);
	if (n < row->min && n < 1000 && !text[strspn(text, "0123456789.")]) {
		p->message->suggests = true;
		return wrong(p, "option '%s' wants a size with its unit: did you mean '%sGiB'?",
			     shown, text);
	}
	opt_bytes_text(row->min, low, sizeof(low));
	opt_bytes_text(row->max, high, sizeof(high));
	if (n < row->min || (n > row->max && row->max == OPT_NONE))
		return wrong(p, "option '%s' wants at least %s, not '%s'", shown, low, text);
	if (n > row->max)
		return wrong(p, "option '%s' wants %s to %s, not '%s'", shown, low, high, text);
	*field = n;
	return true;
}

static bool read_double(const char *text, const struct opt *row, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return end != text && !*end && *out >= (double)row->min;
}

/* A text that is kept as numbers. */
static bool set_numbers(struct parse *p, const struct opt *row, const char *shown, const char *text)
{
	void *field = p->values + row->offset, *second = p->values + row->second;
	bool read = row->kind == OPT_KIND_COUNT    ? read_count(text, field)
		    : row->kind == OPT_KIND_SIDES  ? read_sides(text, row, field, second)
		    : row->kind == OPT_KIND_DOUBLE ? read_double(text, row, field)
						   : opt_version(text, row->min, row->max, field);

	p->message->suggests = !read;
	return read || wrong(p, "%s %s, not '%s'", shown, row->text, text);
}

static bool set_choice(struct parse *p, const struct opt *row, const char *shown, const char *text)
{
	int *field = (int *)(void *)(p->values + row->offset);
	char list[200] = "";
	size_t used = 0;

	for (int i = 0; row->names[i]; i++) {
		if (!strcmp(row->names[i], text)) {
			*field = i;
			return true;
		}
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
						 i ? ", " : "", row->names[i]);
	}
	return wrong(p, "option '%s' wants one of %s; not '%s'", shown, list, text);
}

static bool add_to_list(struct parse *p, const struct opt *row, const char *text)
{
	const char ***list = (const char ***)(void *)(p->values + row->offset);
	size_t *n = (size_t *)(void *)(p->values + row->second);

	if (!*list) /* there cannot be more values than arguments */
		*list = calloc((size_t)p->argc + 1, sizeof(**list));
	if (!*list)
		return wrong(p, "out of memory");
	(*list)[(*n)++] = text;
	return true;
}

static bool set_flag(struct parse *p, const struct opt *row)
{
	if (row->bit)
		*(uint32_t *)(void *)(p->values + row->offset) |= row->bit;
	else
		*(bool *)(p->values + row->offset) = true;
	return true;
}

static bool set_value(struct parse *p, const struct opt *row, const char *shown, const char *text)
{
	switch (row->kind) {
	case OPT_KIND_U64: return set_number(p, row, shown, text);
	case OPT_KIND_BYTES: return set_bytes(p, row, shown, text);
	case OPT_KIND_CHOICE: return set_choice(p, row, shown, text);
	case OPT_KIND_LIST: return add_to_list(p, row, text);
	case OPT_KIND_COUNT:
	case OPT_KIND_SIDES:
	case OPT_KIND_DOUBLE:
	case OPT_KIND_RELEASE: return set_numbers(p, row, shown, text);
	case OPT_KIND_STRING:
	case OPT_KIND_OPTIONAL:
		*(const char **)(void *)(p->values + row->offset) = text;
		return true;
	case OPT_KIND_FLAG: return set_flag(p, row);
	case OPT_KIND_END:
	case OPT_KIND_TABLE:
	case OPT_KIND_ALIAS:
	case OPT_KIND_REFUSED:
	case OPT_KIND_HEADING: break;
	}
	return wrong(p, "option '%s' cannot be set", shown);
}

/* ---- what was meant ---- */

enum { WORD_MAX = 63 };

static unsigned opt_least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned opt_distance(const char *a, const char *b)
{
	unsigned row[3][WORD_MAX + 1]; /* the line being filled and the two before it */
	size_t na = strlen(a), nb = strlen(b);

	if (na > WORD_MAX || nb > WORD_MAX)
		return strcmp(a, b) ? WORD_MAX + 1 : 0;
	for (size_t j = 0; j <= nb; j++)
		row[0][j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned *now = row[i % 3], *last = row[(i + 2) % 3], *older = row[(i + 1) % 3];

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			now[j] = opt_least(last[j - 1] + (a[i - 1] != b[j - 1]),
					   opt_least(last[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = opt_least(now[j], older[j - 2] + 1);
		}
	}
	return row[na % 3][nb];
}

bool opt_near(const char *typed, const char *name, unsigned *score)
{
	size_t n = strlen(typed);
	unsigned limit = 1 + (unsigned)(n / 4);

	*score = opt_distance(typed, name);
	/* A beginning is an abbreviation, but a word one slip away comes first. */
	if (n >= 2 && *score > 1 && !strncmp(typed, name, n))
		*score = 1;
	return *score <= limit && *score < strlen(name);
}

/* Words for one thing: a command has one of each row; a person who types another one is shown it. */
static const char *const one_thing[][8] = {
	{ "limit", "memory", "gpu-memory", "mem", "vram", "vram-limit", "memory-limit" },
	{ "gpu", "card" },
	{ "owners", "top", "rows" },
	{ "output", "dir", "html", "page", "save-as", "out", "output-dir" },
	{ "why", "more", "verbose", "explain", "details" },
	{ "json", "machine-readable" },
	{ "redact", "anonymize", "anonymise", "private" },
	{ "fail-over", "fail-on", "exit-code", "threshold", "max-increase", "strict", "tolerance" },
};

static const char *name_of_row(struct parse *p, const char *name)
{
	struct opt_walk w = { .at = p->rows };

	for (const struct opt *o = opt_next(&w); o; o = opt_next(&w))
		if (o->name && !strcmp(o->name, name))
			return o->name;
	return NULL;
}

/* Letters that other programs have for these words. */
static const struct {
	char letter;
	const char *word;
} one_letter[] = { { 'o', "output" }, { 'q', "brief" }, { 'v', "verbose" } };

static bool is_word_of(const char *const *words, const char *typed)
{
	for (size_t i = 0; i < 8 && words[i]; i++)
		if (!strcmp(words[i], typed))
			return true;
	return false;
}

/* What this command calls a thing that was called otherwise, or NULL. */
static const char *other_word(struct parse *p, const char *typed)
{
	for (size_t row = 0; row < sizeof(one_thing) / sizeof(*one_thing); row++) {
		const char *const *words = one_thing[row];

		for (size_t i = 0; i < 8 && words[i] && is_word_of(words, typed); i++) {
			const char *name = name_of_row(p, words[i]);

			if (name)
				return name;
		}
	}
	return NULL;
}

static const char *nearest(struct parse *p, const char *typed)
{
	const char *best = NULL;
	unsigned best_score = 0, score;
	struct opt_walk w = { .at = p->rows, .aliases = true };

	for (const struct opt *o = opt_next(&w); o; o = opt_next(&w)) {
		if (!o->name || o->kind == OPT_KIND_REFUSED || !opt_near(typed, o->name, &score))
			continue;
		if (!best || score < best_score) {
			best = o->kind == OPT_KIND_ALIAS ? o->value : o->name;
			best_score = score;
		}
	}
	if (opt_near(typed, "help", &score) && (!best || score < best_score))
		best = "help";
	return best;
}

static bool unknown_letter(struct parse *p, char letter)
{
	const char *best = NULL;

	for (size_t i = 0; i < sizeof(one_letter) / sizeof(*one_letter); i++)
		if (one_letter[i].letter == letter) {
			best = name_of_row(p, one_letter[i].word);
			best = best ? best : other_word(p, one_letter[i].word);
		}
	p->message->suggests = best;
	if (best)
		return wrong(p, "unknown option '-%c'; did you mean '--%s'?", letter, best);
	return wrong(p, "unknown option '-%c'", letter);
}

static bool unknown_option(struct parse *p, const char *typed, size_t n)
{
	const char *best = NULL;
	char word[WORD_MAX + 1];

	if (n <= WORD_MAX) {
		memcpy(word, typed, n);
		word[n] = 0;
		best = other_word(p, word);
		if (!best)
			best = nearest(p, word);
	}
	p->message->suggests = best;
	if (best)
		return wrong(p, "unknown option '--%.*s'; did you mean '--%s'?", (int)n, typed,
			     best);
	return wrong(p, "unknown option '--%.*s'", n > 200 ? 200 : (int)n, typed);
}

/* ---- the walk over the arguments ---- */

/* max_seq_length is max-seq-length. */
static bool opt_is_named(const struct opt *o, const char *name, size_t n)
{
	if (!o->name || strlen(o->name) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (o->name[i] != (name[i] == '_' ? '-' : name[i]))
			return false;
	return true;
}

static const struct opt *find_name(struct parse *p, const char *name, size_t n)
{
	p->found = (struct opt_walk){ .at = p->rows, .aliases = true };
	for (const struct opt *o = opt_next(&p->found); o; o = opt_next(&p->found))
		if (opt_is_named(o, name, n))
			return o;
	return NULL;
}

static const struct opt *find_letter(struct parse *p, char letter)
{
	p->found = (struct opt_walk){ .at = p->rows };
	for (const struct opt *o = opt_next(&p->found); o; o = opt_next(&p->found))
		if (o->name && o->letter == letter)
			return o;
	return NULL;
}

/* Into the command's own struct, or that of the table that the row was found in. */
static bool set_found(struct parse *p, const struct opt *row, const char *shown, const char *value)
{
	struct parse inner = *p;

	if (!p->found.inside)
		return set_value(p, row, shown, value);
	inner.values = *(char **)(void *)(p->values + p->found.inside->offset);
	if (!inner.values)
		return wrong(p, "out of memory");
	return set_value(&inner, row, shown, value);
}

/* The next argument if it is one of the names, or a number if there are none; a name that ends with ':' may be followed by more. */
static const char *next_known(struct parse *p, const char *const *names)
{
	const char *next = p->at < p->argc ? p->argv[p->at] : "";

	if (!names && *next >= '0' && *next <= '9') {
		p->at++;
		return next;
	}
	for (; names && *names; names++) {
		size_t n = strlen(*names);

		if ((*names)[n - 1] == ':' ? !strncmp(next, *names, n) : !strcmp(next, *names)) {
			p->at++;
			return next;
		}
	}
	return NULL;
}

/* Is the next argument another option, and no value? */
static bool next_is_option(struct parse *p)
{
	const char *next = p->at < p->argc ? p->argv[p->at] : "";

	return !strncmp(next, "--", 2) &&
	       (!next[2] || find_name(p, next + 2, strcspn(next + 2, "=")));
}

/* `value` is what stands in the same argument, or NULL: then the next argument is the value. */
static bool take_opt(struct parse *p, const struct opt *row, const char *shown, const char *value)
{
	if (row->kind == OPT_KIND_OPTIONAL && !value)
		value = next_known(p, row->names);
	if (row->kind == OPT_KIND_OPTIONAL && !value)
		value = row->text;
	if (row->kind != OPT_KIND_FLAG && !value) {
		struct opt_walk found = p->found;
		bool missing = p->at >= p->argc || next_is_option(p);

		p->found = found;
		if (missing)
			return wrong(p, "option '%s' wants a value (%s): %s", shown, row->value,
				     row->help);
		value = p->argv[p->at++];
	}
	return set_found(p, row, shown, value);
}

static const char *const truths[] = { "True", "true", "False", "false", NULL };

static const char *word_of(const struct opt *alias, const char *value)
{
	for (const char *const *pair = alias->names; value && pair && *pair; pair += 2)
		if (!strcmp(*pair, value))
			return pair[1];
	return value;
}

/* The next argument; "" if that is another option, or none, and the alias has a word for it. */
static const char *next_value(struct parse *p, const struct opt *alias)
{
	const char *next = p->at < p->argc ? p->argv[p->at] : NULL;

	if ((!next || *next == '-') && *word_of(alias, ""))
		return "";
	p->at += next != NULL;
	return next;
}

/* An alias: its option, with the value that it stands for or its own. */
static bool take_alias(struct parse *p, const struct opt *alias, const char *value)
{
	const char *name = alias->value, *text = alias->text, *shown = alias->name;
	const struct opt *row = find_name(p, name, strlen(name));

	if (!row)
		return wrong(p, "unknown option '--%s'", name);
	if (!text && alias->names && !value)
		value = next_value(p, alias);
	if (!text)
		return take_opt(p, row, shown, word_of(alias, value));
	value = value ? value : next_known(p, truths);
	if (value && !strcasecmp(value, "false"))
		return true;
	return set_found(p, row, shown, text);
}

/* Switched off it is as though it were not there. */
static enum opt_result refuse_opt(struct parse *p, const char *help, const char *typed, size_t n,
				  const char *value)
{
	value = value ? value : next_known(p, truths);
	if (value && !strcasecmp(value, "false"))
		return OPT_OK;
	p->message->suggests = true;
	(void)wrong(p, "--%.*s: %s", (int)n, typed, help);
	return OPT_ERROR;
}

static enum opt_result long_option(struct parse *p, const char *arg)
{
	size_t n = strcspn(arg, "=");
	const char *value = arg[n] ? arg + n + 1 : NULL;
	const struct opt *row = find_name(p, arg, n);
	char shown[WORD_MAX + 3];

	if (!row && n == 4 && !memcmp(arg, "help", 4))
		return OPT_HELP;
	if (!row && n == 8 && !memcmp(arg, "help-all", 8))
		return OPT_HELP_ALL;
	if (!row)
		return unknown_option(p, arg, n) ? OPT_OK : OPT_ERROR;
	if (row->kind == OPT_KIND_REFUSED)
		return refuse_opt(p, row->help, arg, n, value);
	if (row->kind == OPT_KIND_ALIAS) {
		const struct opt alias = *row; /* the walk to its option overwrites the row */

		return take_alias(p, &alias, value) ? OPT_OK : OPT_ERROR;
	}
	snprintf(shown, sizeof(shown), "--%s", row->name);
	if (row->kind == OPT_KIND_FLAG && value)
		return wrong(p, "option '%s' takes no value", shown) ? OPT_OK : OPT_ERROR;
	return take_opt(p, row, shown, value) ? OPT_OK : OPT_ERROR;
}

static enum opt_result letters(struct parse *p, const char *arg)
{
	for (; *arg; arg++) {
		const struct opt *row = find_letter(p, *arg);
		const char shown[] = { '-', *arg, 0 };

		if (!row && *arg == 'h')
			return OPT_HELP;
		if (!row)
			return unknown_letter(p, *arg) ? OPT_OK : OPT_ERROR;
		if (row->kind != OPT_KIND_FLAG)
			return take_opt(p, row, shown, arg[1] ? arg + 1 : NULL) ? OPT_OK
										: OPT_ERROR;
		if (!take_opt(p, row, shown, NULL))
			return OPT_ERROR;
	}
	return OPT_OK;
}

enum opt_result opt_parse(const struct opt *rows, void *values, int *argc, char **argv,
			  unsigned flags, struct opt_message *message)
{
	struct parse p = { .rows = rows,
			   .values = values,
			   .argc = *argc,
			   .at = 1,
			   .argv = argv,
			   .message = message };
	enum opt_result result = OPT_OK;
	bool options = true;
	int operands = 0;

	*message = (struct opt_message){ .suggests = false };
	while (p.at < p.argc && result == OPT_OK) {
		char *arg = argv[p.at++];

		if (options && !strcmp(arg, "--")) {
			options = false;
			if (flags & OPT_KEEP_DASHES)
				argv[operands++] = arg;
		} else if (options && arg[0] == '-' && arg[1] == '-')
			result = long_option(&p, arg + 2);
		else if (options && arg[0] == '-' && arg[1])
			result = letters(&p, arg + 1);
		else {
			argv[operands++] = arg; /* never ahead of p.at */
			options = options && !(flags & OPT_STOP_AT_OPERAND);
		}
	}
	if (result == OPT_OK) {
		argv[operands] = NULL;
		*argc = operands;
	}
	return result;
}

static void forget_list(const struct opt *o, void *values)
{
	*(const char ***)(void *)((char *)values + o->offset) = NULL;
	*(size_t *)(void *)((char *)values + o->second) = 0;
}

void opt_defaults(const struct opt *o, void *values)
{
	char *base = values;

	for (; o && o->kind != OPT_KIND_END; o++) {
		void *field = base + o->offset;

		switch (o->kind) {
		case OPT_KIND_SIDES:
			*(uint64_t *)(void *)(base + o->second) = 0;
			store_number(o, base, o->def);
			break;
		case OPT_KIND_COUNT:
		case OPT_KIND_U64:
		case OPT_KIND_BYTES: store_number(o, base, o->def); break;
		case OPT_KIND_DOUBLE: *(double *)field = o->real; break;
		case OPT_KIND_RELEASE: *(unsigned *)field = (unsigned)o->def; break;
		case OPT_KIND_STRING: *(const char **)field = o->text; break;
		case OPT_KIND_OPTIONAL: *(const char **)field = NULL; break;
		case OPT_KIND_LIST: forget_list(o, values); break;
		case OPT_KIND_CHOICE: *(int *)field = (int)o->def; break;
		case OPT_KIND_FLAG:
			if (o->bit)
				*(uint32_t *)field &= ~o->bit;
			else
				*(bool *)field = false;
			break;
		case OPT_KIND_TABLE:
			*(void **)field = calloc(1, o->table->size);
			if (*(void **)field)
				opt_defaults(o->table->rows, *(void **)field);
			break;
		case OPT_KIND_REFUSED:
		case OPT_KIND_ALIAS:
		case OPT_KIND_HEADING:
		case OPT_KIND_END: break;
		}
	}
}

void opt_release(const struct opt *o, void *values)
{
	for (; o && o->kind != OPT_KIND_END; o++) {
		void *field = (char *)values + o->offset;
		void **inner = field;

		if (o->kind == OPT_KIND_TABLE && *inner) {
			opt_release(o->table->rows, *inner);
			free(*inner);
			*inner = NULL;
		} else if (o->kind == OPT_KIND_LIST) {
			free(*inner);
			forget_list(o, values);
		}
	}
}
