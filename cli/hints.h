/* Words that people type who know another program: what this one calls them.  Options are in opt.c and in each command's rows. */
#ifndef CLI_HINTS_H
#define CLI_HINTS_H

#include <stdbool.h>

/* The command that is meant ("explain": "report"); NULL: the word is in no row. */
const char *hint_command(const char *typed);

/* For an operand too many of this command: what to do instead; NULL: there is nothing to say. */
const char *hint_operand(const char *command);

/* Is it a Python file that cannot be started as a program is: "train.py" in this folder, or without the right to run? */
bool hint_is_script(const char *word);

/*
 * Allocator settings as PyTorch reads them, of what was typed: without PYTORCH_CUDA_ALLOC_CONF= in front, and with ':'
 * where '=' was typed.  `typed` is an argument of the program: it is changed where it stands.
 */
const char *hint_settings(const char *typed);

/* A number of parameters within a name: "8B" of "Llama-3.1-8B"; false: there is none.  Into 16 bytes. */
bool hint_parameters(const char *name, char *out);

#endif
