/* Small text files of the kernel and of jobs (/proc, /sys, a status): one bounded read, which never waits. */
#ifndef BASE_SMALL_FILE_H
#define BASE_SMALL_FILE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The file whose path `fmt` makes, as text of at most room - 1 bytes; "" and false where it is missing, forbidden or empty,
 * or its path is too long.
 */
bool small_file(char *out, size_t room, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Its first line, without the end of it. */
bool small_file_line(char *out, size_t room, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
