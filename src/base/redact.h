/*
 * --redact: a name that is not public becomes a word with a number, "name-3", the same name always the same word.
 * data/public.rows has what is public.
 */
#ifndef BASE_REDACT_H
#define BASE_REDACT_H

#include "arena.h"

#include <stdbool.h>

struct public_name {
	const char *name;
};

extern const struct public_name public_words[], public_packages[], public_symbols[],
	public_programs[], public_functions[];
extern const size_t public_words_count, public_packages_count, public_symbols_count,
	public_programs_count, public_functions_count;

/* Is it a number, or a word that names everywhere are made of?  Case does not matter, nor digits at its end. */
bool public_is_word(const char *word, size_t n);

/* Bytes of a package that is public, with which `path` begins, up to its '/' or '.'; 0: it is another one. */
size_t public_package(const char *path, size_t n);

/* Does it begin as one of them does? */
bool public_begins(const struct public_name *list, size_t count, const char *name);

/* Is it bash, torchrun, python3.12? */
bool public_is_program(const char *name);

/* The arena has what is made; the id of a name in `words` is its number.  After a failure, which is in *err, nothing is done. */
struct redact {
	struct arena *arena;
	struct intern *words;
	struct plim_err *err;
	bool (*is_public)(const char *word, size_t n); /* NULL: public_is_word */
};

/* A name as a whole, NULL and "" stay. */
void redact_name(struct redact *r, const char *kind, const char **name);

/*
 * A name word by word: what is public, and what is between words, stays.  A word ends at what is not a letter or digit, and in front of
 * a capital behind a small letter.
 */
void redact_words(struct redact *r, const char *kind, const char **name);

/*
 * In a sentence, all between the first quotation mark and the last, for a name may hold one itself, and paths: what has a
 * '/', '_' or '.' within.  What a file holds is in double quotation marks behind that.
 */
void redact_sentence(struct redact *r, const char *kind, const char **sentence);

#endif
