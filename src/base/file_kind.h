/*
 * What a file is, by its first bytes: one table for every command.  A command that is given another kind of file says
 * what it is and which command reads it; `plimsoll FILE` runs that command.
 *
 * Readers decide for themselves whether they can read a file; this table is for what they cannot.
 */
#ifndef BASE_FILE_KIND_H
#define BASE_FILE_KIND_H

#include <stddef.h>
#include <stdint.h>

#define FILE_KIND_HEAD_BYTES 4096 /* that are looked at */

struct file_kind {
	const char *slug;    /* "sqlite": the same in every release, for JSON */
	const char *is;      /* "an SQLite database": behind "this is" */
	const char *command; /* "ckpt verify", the command that reads it; NULL: none does */
	const char *remedy;  /* "decompress it first"; NULL: none but `command` */
	uint8_t text;        /* it is text: a log may begin with it */
	uint8_t lost;        /* it stands where another file should be */
};

/* By bytes at fixed places, and by shape; NULL: it is none of these.  Of text, a web page and a Git LFS pointer alone. */
const struct file_kind *file_kind_of_bytes(const uint8_t *head, size_t n);

/* The same, and text whose words tell what it is: JSON of known keys, YAML of Kubernetes. */
const struct file_kind *file_kind_of(const uint8_t *head, size_t n);

/* By its bytes; if these do not decide, by its name, or as a text; NULL: nothing shows what it is. */
const struct file_kind *file_kind_of_file(const char *name, const uint8_t *head, size_t n);

/* The length of a name without what says that the file is compressed. */
size_t file_plain_length(const char *name);

/* By the end of its name, which may be that of a compressed file; NULL: it shows nothing. */
const struct file_kind *file_kind_of_name(const char *name);

/* Text: no byte of it is a control character, except those that terminals are sent. */
int file_is_text(const uint8_t *head, size_t n);

#endif
