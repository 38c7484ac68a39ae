/*
 * A verb's text as Markdown, for a comment on a pull request: the same sentences in the same order.  Headings become
 * headings, numbered lines a list, and what is laid out in columns stays so in a block of code.
 */
#ifndef CLI_MARKDOWN_H
#define CLI_MARKDOWN_H

#include "cmd.h"

/* `--format`; no other is there yet. */
extern const char *const format_names[];
enum format { FORMAT_TEXT, FORMAT_MARKDOWN };

struct markdown {
	char *text;
	size_t n;
};

/* How the text is to be asked for: no colours, as wide as a comment is. */
struct plim_text_style markdown_style(void);

/* A plim_write_fn that collects; ctx is the struct markdown, zeroed before. */
int markdown_take(void *ctx, const char *text, size_t n);

/* Print what was collected, and let go of it. */
void markdown_end(struct markdown *m);

#endif
