/* Error text: set where the failure happens, forwarded untouched. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <plimsoll/status.h>

#include <stdarg.h>

/* A message that speaks of an option calls it options.NAME, as its caller does: the program shows --NAME in its place. */

/* Fill *err (may be NULL) and return `status`.  Control characters in the text are escaped. */
enum plim_status err_set(struct plim_err *err, enum plim_status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The same for damage at byte `offset` of the input: appends " at byte N". */
enum plim_status err_at(struct plim_err *err, uint64_t offset, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The same with an explanation behind the place: "WHAT at byte N; EXPLANATION". */
enum plim_status err_at_more(struct plim_err *err, uint64_t offset, const char *explanation,
			     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The same from errno, which is appended as text: "cannot open 'x': No such file or directory". */
enum plim_status err_errno(struct plim_err *err, int number, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Put "; explanation" behind the message that *err holds: what to do, mostly. */
void err_more(struct plim_err *err, const char *explanation);

/* Put "prefix: " in front of the message that *err holds (a file's name, say). */
void err_prefix(struct plim_err *err, const char *prefix);

#endif
