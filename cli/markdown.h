/*
 * A command's text as Markdown, for a comment on a pull request: the same sentences in the same order.  Headings become
 * headings, numbered lines a list, and what is laid out in columns stays so in a block of code.
 */
#ifndef CLI_MARKDOWN_H
#define CLI_MARKDOWN_H

#include "cmd.h"

/* `--format`. */
extern const char *const format_names[];
enum format { FORMAT_TEXT, FORMAT_MARKDOWN };

/* Its row and those of the style; field `format`. */
#define OPT_FORMAT(record)                                                         \
	OPT_CHOICE(0, "format", record, format, "WHAT", format_names, FORMAT_TEXT, \
		   "the text as it is, or as Markdown for a pull request"),        \
		OPT_STYLE(record)

/* How a command's text is asked for, and where it goes. */
struct formatted {
	struct plim_text_style style; /* of Markdown: no colours, as wide as a comment is */
	plim_write_fn *write;         /* with &words */
	struct cmd_words words;
};
void format_begin(struct formatted *f, int format, uint64_t width, bool no_color);

/* Print what was collected, if it was, and let go of it. */
void format_end(struct formatted *f);

/* A usage error where Markdown is asked for with option `other` (NULL: it was not given); else CMD_DONE. */
int format_refuse(int format, const char *other);

#endif
