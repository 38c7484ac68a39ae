/* -o FILE: what may be written there, and how it gets there. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct output {
	const char *given;
	char path[4096]; /* to be written: the file itself, or one next to that is copied */
	int fd;          /* a pipe, a device or the standard output that it goes to; -1: a file */
};

/*
 * May the command write `given` ("-": the standard output)?  A file's name must end in one of `suffixes` (NULL ends them),
 * whatever stands behind it must not be one of the inputs.  What is not a regular file is written straight to, as the first suffix.  Returns an enum cmd_exit, after a message.
 */
int cmd_output_begin(struct output *o, const char *given, const char *const *suffixes,
		     char *const *inputs, int input_count);

/* What to call a path in messages. */
const char *cmd_output_name(const char *path);

/* Is the standard output taken, so that no text goes there? */
bool cmd_output_is_stdout(const struct output *o);

/* The file was written (`code` CMD_DONE): send it on where it is not a file.  Returns the exit code. */
int cmd_output_end(struct output *o, int code);

#endif
