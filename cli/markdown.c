#include "markdown.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 100 /* columns of what stays laid out */
#define FENCE_MIN 3

const char *const format_names[] = { "text", "markdown", NULL };

struct plim_text_style markdown_style(void)
{
	return (struct plim_text_style){ .width = WIDTH, .utf8 = true };
}

int markdown_take(void *ctx, const char *text, size_t n)
{
	struct markdown *m = ctx;
	char *more = realloc(m->text, m->n + n + 1);

	if (!more)
		return ENOMEM;
	memcpy(more + m->n, text, n);
	m->text = more;
	m->n += n;
	more[m->n] = 0;
	return 0;
}

/* Lines up to an empty one. */
struct paragraph {
	const char *at;
	size_t lines;
};

static size_t length(const char *line)
{
	return strcspn(line, "\n");
}

static const char *next(const char *line)
{
	line += length(line);
	return line + (*line == '\n');
}

static const char *take_paragraph(const char *at, struct paragraph *p)
{
	while (*at == '\n')
		at++;
	p->at = at;
	for (p->lines = 0; *at && *at != '\n'; p->lines++)
		at = next(at);
	return at;
}

static void put(const char *text, size_t n)
{
	(void)cmd_to_stdout(NULL, text, n);
}

static void puts_out(const char *text)
{
	put(text, strlen(text));
}

/* Words that Markdown must show as they are; a name with an @ must call nobody. */
static void put_words(const char *text, size_t n)
{
	while (n && isspace((unsigned char)*text)) {
		text++;
		n--;
	}
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '@') {
			puts_out("(at)");
			continue;
		}
		if (text[i] && strchr("\\`*_<>[]#|~&", text[i]))
			put("\\", 1);
		put(text + i, 1);
	}
}

static size_t indent(const char *line)
{
	return strspn(line, " ");
}

/* "  1. words", or the words of one that goes on. */
static size_t number_of(const char *line)
{
	size_t at = indent(line), digits = strspn(line + at, "0123456789");

	return at && digits && line[at + digits] == '.' && line[at + digits + 1] == ' ' ? digits
											: 0;
}

static int is_list(const struct paragraph *p)
{
	const char *line = next(p->at);
	size_t hang = indent(line);

	if (p->lines < 2 || !number_of(line))
		return 0;
	for (size_t i = 1; i < p->lines; i++, line = next(line))
		if (!number_of(line) && indent(line) <= hang)
			return 0;
	return 1;
}

static void put_list(const struct paragraph *p)
{
	const char *line = next(p->at);

	for (size_t i = 1; i < p->lines; i++, line = next(line)) {
		size_t digits = number_of(line), at = indent(line);

		if (digits) {
			puts_out(i > 1 ? "\n" : "");
			put(line + at, digits + 2);
			put_words(line + at + digits + 2, length(line) - at - digits - 2);
		} else {
			put(" ", 1);
			put_words(line, length(line));
		}
	}
	puts_out("\n");
}

/* Longer than any run of backticks in the text. */
static void put_fence(const char *text)
{
	size_t most = FENCE_MIN - 1;

	for (const char *at = text; (at = strchr(at, '`')) != NULL; at += strspn(at, "`"))
		most = strspn(at, "`") > most ? strspn(at, "`") : most;
	for (size_t i = 0; i <= most; i++)
		put("`", 1);
	puts_out("\n");
}

static void put_block(const struct markdown *m, const char *line, size_t lines)
{
	size_t least = SIZE_MAX;
	const char *at = line;

	for (size_t i = 0; i < lines; i++, at = next(at))
		least = indent(at) < least ? indent(at) : least;
	put_fence(m->text);
	for (size_t i = 0; i < lines; i++, line = next(line)) {
		put(line + least, length(line) - least);
		puts_out("\n");
	}
	put_fence(m->text);
}

/* Two spaces within: columns. */
static int is_table(const char *line)
{
	const char *gap = memmem(line + indent(line), length(line) - indent(line), "  ", 2);

	return gap != NULL;
}

static int is_prose(const struct paragraph *p)
{
	return p->lines == 1 || !strncmp(p->at, "Note: ", 6);
}

static void put_paragraph(const struct markdown *m, const struct paragraph *p, size_t number)
{
	const char *line = p->at;

	if (is_table(line) && p->lines > 1) {
		put_block(m, line, p->lines);
		return;
	}
	if (is_prose(p) && number != 1) {
		for (size_t i = 0; i < p->lines; i++, line = next(line)) {
			put_words(line, length(line));
			puts_out("\n");
		}
		return;
	}
	/* the second paragraph is the verdict */
	puts_out(number == 1 ? "### " : "**");
	put_words(line, length(line));
	puts_out(number == 1 ? "\n" : "**\n");
	if (p->lines < 2)
		return;
	puts_out("\n");
	if (is_list(p))
		put_list(p);
	else
		put_block(m, next(line), p->lines - 1);
}

void markdown_end(struct markdown *m)
{
	const char *at = m->text;
	struct paragraph p;

	for (size_t i = 0; at && *at; i++) {
		at = take_paragraph(at, &p);
		if (!p.lines)
			break;
		puts_out(i ? "\n" : "");
		put_paragraph(m, &p, i);
	}
	free(m->text);
	*m = (struct markdown){ .n = 0 };
}
