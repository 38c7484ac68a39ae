#include "markdown.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 100 /* columns of what stays laid out */
#define FENCE_MIN 3

const char *const format_names[] = { "text", "markdown", NULL };

/* Lines up to an empty one. */
struct paragraph {
	const char *at;
	size_t lines;
};

static size_t length(const char *line)
{
	return strcspn(line, "\n");
}

static const char *markdown_next(const char *line)
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
		at = markdown_next(at);
	return at;
}

static void put_markdown(const char *text, size_t n)
{
	(void)cmd_to_stdout(NULL, text, n);
}

static void puts_out(const char *text)
{
	put_markdown(text, strlen(text));
}

/* Words that Markdown must show as they are; a name with an @ must call no one. */
static void put_markdown_words(const char *text, size_t n)
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
			put_markdown("\\", 1);
		put_markdown(text + i, 1);
	}
}

static size_t indent(const char *line)
{
	return strspn(line, " ");
}

/* Columns of "1." or "-" in front of an item's words; 0: the words of one that goes on. */
static size_t marker_of(const char *line)
{
	const char *at = line + indent(line);
	size_t digits = strspn(at, "0123456789");

	if (at == line)
		return 0;
	if (*at == '-' && at[1] == ' ')
		return 1;
	return digits && at[digits] == '.' && at[digits + 1] == ' ' ? digits + 1 : 0;
}

static int is_list(const struct paragraph *p)
{
	const char *line = markdown_next(p->at);
	size_t hang = indent(line);

	if (p->lines < 2 || !marker_of(line))
		return 0;
	for (size_t i = 1; i < p->lines; i++, line = markdown_next(line))
		if (!marker_of(line) && indent(line) <= hang)
			return 0;
	return 1;
}

static void put_list(const struct paragraph *p)
{
	const char *line = markdown_next(p->at);

	for (size_t i = 1; i < p->lines; i++, line = markdown_next(line)) {
		size_t marker = marker_of(line), at = indent(line);

		if (marker) {
			puts_out(i > 1 ? "\n" : "");
			put_markdown(line + at, marker + 1);
			put_markdown_words(line + at + marker + 1, length(line) - at - marker - 1);
		} else {
			put_markdown(" ", 1);
			put_markdown_words(line, length(line));
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
		put_markdown("`", 1);
	puts_out("\n");
}

static void put_block(const char *all, const char *line, size_t lines)
{
	size_t least = SIZE_MAX;
	const char *at = line;

	for (size_t i = 0; i < lines; i++, at = markdown_next(at))
		least = indent(at) < least ? indent(at) : least;
	put_fence(all);
	for (size_t i = 0; i < lines; i++, line = markdown_next(line)) {
		put_markdown(line + least, length(line) - least);
		puts_out("\n");
	}
	put_fence(all);
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

static void put_prose(const char *line, size_t lines)
{
	for (size_t i = 0; i < lines; i++, line = markdown_next(line)) {
		put_markdown_words(line, length(line));
		puts_out("\n");
	}
}

/* Below a heading: sentences that go on, a list, or what is laid out. */
static void put_body(const char *all, const struct paragraph *p)
{
	const char *line = markdown_next(p->at);
	int laid_out = 0;

	for (size_t i = 1; i < p->lines; i++, line = markdown_next(line))
		laid_out |= is_table(line);
	line = markdown_next(p->at);
	if (is_list(p))
		put_list(p);
	else if (laid_out)
		put_block(all, line, p->lines - 1);
	else
		put_prose(line, p->lines - 1);
}

static void put_paragraph(const char *all, const struct paragraph *p, size_t number)
{
	const char *line = p->at;

	if (is_table(line) && p->lines > 1) {
		put_block(all, line, p->lines);
		return;
	}
	if (is_prose(p) && number != 1) {
		put_prose(line, p->lines);
		return;
	}
	/* the second paragraph is the verdict */
	puts_out(number == 1 ? "### " : "**");
	put_markdown_words(line, length(line));
	puts_out(number == 1 ? "\n" : "**\n");
	if (p->lines < 2)
		return;
	puts_out("\n");
	put_body(all, p);
}

static void put_all(const char *all)
{
	const char *at = all;
	struct paragraph p;

	for (size_t i = 0; *at; i++) {
		at = take_paragraph(at, &p);
		if (!p.lines)
			break;
		puts_out(i ? "\n" : "");
		put_paragraph(all, &p, i);
	}
}

void format_begin(struct formatted *f, int format, uint64_t width, bool no_color)
{
	bool markdown = format == FORMAT_MARKDOWN;

	*f = (struct formatted){ .write = markdown ? cmd_collect : cmd_to_stdout };
	f->style = markdown ? (struct plim_text_style){ .width = WIDTH, .utf8 = true }
			    : cmd_style(width, no_color);
}

void format_end(struct formatted *f)
{
	if (f->words.at)
		put_all(f->words.at);
	free(f->words.at);
	f->words = (struct cmd_words){ .n = 0 };
}

int format_refuse(int format, const char *other)
{
	if (format != FORMAT_MARKDOWN || !other)
		return CMD_DONE;
	return cmd_usage("--%s and --format markdown exclude each other", other);
}
