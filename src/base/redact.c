/* Names of which nothing may be seen. */
#include "base/base.h"

#include <ctype.h>
#include <string.h>

#define WORD_BYTES 40 /* longer words are not public */

/* ---- what is public ---- */

static bool has_word(const char *word)
{
	size_t low = 0, high = public_words_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(word, public_words[mid].name);

		if (!order)
			return true;
		if (order < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return false;
}

bool public_is_word(const char *word, size_t n)
{
	char small[WORD_BYTES];

	while (n && isdigit((unsigned char)word[n - 1]))
		n--;
	if (n >= sizeof(small))
		return false;
	for (size_t i = 0; i < n; i++)
		small[i] = (char)tolower((unsigned char)word[i]);
	small[n] = 0;
	return !n || has_word(small);
}

size_t public_package(const char *path, size_t n)
{
	for (size_t i = 0; i < public_packages_count; i++) {
		size_t m = strlen(public_packages[i].name);

		if (n > m && !memcmp(path, public_packages[i].name, m) && strchr("/.", path[m]))
			return m;
	}
	return 0;
}

bool public_begins(const struct public_name *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strncmp(name, list[i].name, strlen(list[i].name)))
			return true;
	return false;
}

bool public_is_program(const char *name)
{
	for (size_t i = 0; i < public_programs_count; i++)
		if (!strcmp(name, public_programs[i].name))
			return true;
	return !strncmp(name, "python", 6) && !name[6 + strspn(name + 6, "0123456789.")];
}

/* ---- names ---- */

static bool is_letter(char c)
{
	return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

static size_t word_length(const char *at, size_t size)
{
	size_t n = 0;

	while (n < size && is_letter(at[n]) &&
	       !(n && isupper((unsigned char)at[n]) && islower((unsigned char)at[n - 1])))
		n++;
	return n;
}

static void put_word(struct redact *r, const char *kind, struct text *out, const char *at, size_t n)
{
	bool (*is_public)(const char *, size_t) = r->is_public ? r->is_public : public_is_word;
	uint32_t id;

	if (is_public(at, n))
		text_put(out, at, n);
	else if (!intern_add(r->words, at, n, &id, r->err))
		text_printf(out, "%s-%u", kind, id + 1);
}

static void put_redacted_words(struct redact *r, const char *kind, struct text *out, const char *at,
			       size_t size)
{
	while (size && !r->err->status) {
		size_t n = word_length(at, size);

		if (n)
			put_word(r, kind, out, at, n);
		else
			text_put(out, at, n = 1);
		at += n;
		size -= n;
	}
}

static bool redacted_is_open(const struct redact *r, const char *name)
{
	return !r->err->status && name && *name;
}

static void keep_redacted(struct redact *r, struct text *made, const char **name)
{
	if (!r->err->status && !text_status(made, r->err))
		*name = arena_copy(r->arena, text_get(made), r->err);
	text_release(made);
}

void redact_words(struct redact *r, const char *kind, const char **name)
{
	struct text out;

	if (!redacted_is_open(r, *name))
		return;
	text_init(&out, r->arena->mem, NULL);
	put_redacted_words(r, kind, &out, *name, strlen(*name));
	keep_redacted(r, &out, name);
}

void redact_name(struct redact *r, const char *kind, const char **name)
{
	uint32_t id = INTERN_NONE;

	if (redacted_is_open(r, *name) && !intern_add(r->words, *name, strlen(*name), &id, r->err))
		*name = arena_text(r->arena, r->err, "%s-%u", kind, id + 1);
}

/* ---- sentences ---- */

static bool is_within_word(char c)
{
	return is_letter(c) || c == '_';
}

/* Where a quotation begins, not a word's own apostrophe; the text itself: there is none. */
static const char *first_quote(const char *text)
{
	const char *at = text;

	while ((at = strchr(at, '\'')) != NULL && at != text && is_within_word(at[-1]))
		at++;
	return at ? at : text;
}

/* Where the last one ends; `from`: nothing is quoted there. */
static const char *last_quote(const char *from)
{
	const char *last = from;

	if (*from != '\'')
		return from;
	for (const char *at = from + 1; (at = strchr(at, '\'')) != NULL; at++)
		if (!is_within_word(at[1]))
			last = at;
	return last > from ? last : from + strlen(from);
}

static void put_outside(struct redact *r, const char *kind, struct text *out, const char *at,
			size_t size)
{
	while (size) {
		size_t n = 0, marks = 0;

		for (; n < size && at[n] != ' '; n++)
			marks += n + 1 < size && is_within_word(at[n + 1]) &&
				 strchr("/_.", at[n]) != NULL;
		if (marks)
			put_redacted_words(r, kind, out, at, n);
		else
			text_put(out, at, n);
		if (n < size)
			text_put(out, at + n++, 1);
		at += n;
		size -= n;
	}
}

void redact_sentence(struct redact *r, const char *kind, const char **sentence)
{
	const char *first, *last, *open, *close;
	struct text out;

	if (!redacted_is_open(r, *sentence))
		return;
	first = first_quote(*sentence);
	last = last_quote(first);
	open = strchr(last, '"');
	open = open ? open : last + strlen(last);
	close = *open ? strrchr(last, '"') : open;
	text_init(&out, r->arena->mem, NULL);
	put_outside(r, kind, &out, *sentence, (size_t)(first - *sentence));
	put_redacted_words(r, kind, &out, first, (size_t)(last - first));
	put_outside(r, kind, &out, last, (size_t)(open - last));
	put_redacted_words(r, kind, &out, open, (size_t)(close - open));
	put_outside(r, kind, &out, close, strlen(close));
	keep_redacted(r, &out, sentence);
}
