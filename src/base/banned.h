/*
 * Calls that cannot know how much room there is, or hide errors, do not compile in src/ and cli/.
 * Included in front of every file by the build.
 */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

/* First, so that their own declarations are untouched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Unbounded copies: use memcpy with a checked size, or snprintf. */
/* Hardened headers have some of them as macros; a macro cannot be poisoned quietly. */
#undef strcpy
#undef strcat
#undef stpcpy
#undef strncpy
#undef strncat
#undef sprintf
#undef vsprintf
#undef gets
#pragma GCC poison strcpy strcat stpcpy strncpy strncat sprintf vsprintf gets
/* Hidden state shared by threads. */
#pragma GCC poison strtok asctime ctime localtime gmtime
/* No way to tell an error from a 0: use strtoull, or the number parsers of base. */
#pragma GCC poison atoi atol atoll atof
/* The stack is not for sizes that come from a file. */
#undef alloca
#pragma GCC poison alloca
/* A race between the name and the file: use mkstemp. */
#pragma GCC poison mktemp tmpnam tempnam

#endif
