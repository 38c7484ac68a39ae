#include "error.h"

#include "utf8.h"

#include <stdio.h>
#include <string.h>

/*
 * A message is one line in a log: a file name with a newline in it must not make two, nor may names
 * drive the terminal.  What is not harmless UTF-8 becomes a '?' a character.
 */
static void escape_controls(char *s)
{
	size_t n = strlen(s), len;
	char *to = s;
	uint32_t c;

	for (size_t i = 0; i < n; i += len) {
		len = utf8_decode(s + i, n - i, &c);
		if (len && utf8_is_safe(c)) {
			memmove(to, s + i, len);
			to += len;
		} else {
			*to++ = '?';
			len = len ? len : 1;
		}
	}
	*to = 0;
}

static enum plim_status fill_error(struct plim_err *err, enum plim_status status, int native,
				   uint64_t offset, const char *fmt, va_list ap)
	__attribute__((format(printf, 5, 0)));
static enum plim_status fill_error(struct plim_err *err, enum plim_status status, int native,
				   uint64_t offset, const char *fmt, va_list ap)
{
	if (!err)
		return status;
	err->status = status;
	err->native = native;
	err->offset = offset;
	vsnprintf(err->message, sizeof(err->message), fmt, ap);
	escape_controls(err->message);
	return status;
}

static void append(struct plim_err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void append(struct plim_err *err, const char *fmt, ...)
{
	size_t n;
	va_list ap;

	if (!err)
		return;
	n = strlen(err->message);
	va_start(ap, fmt);
	vsnprintf(err->message + n, sizeof(err->message) - n, fmt, ap);
	va_end(ap);
}

enum plim_status err_set(struct plim_err *err, enum plim_status status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill_error(err, status, 0, PLIM_UNKNOWN, fmt, ap);
	va_end(ap);
	return status;
}

enum plim_status err_at(struct plim_err *err, uint64_t offset, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill_error(err, PLIM_E_FORMAT, 0, offset, fmt, ap);
	va_end(ap);
	append(err, " at byte %llu", (unsigned long long)offset);
	return PLIM_E_FORMAT;
}

enum plim_status err_at_more(struct plim_err *err, uint64_t offset, const char *explanation,
			     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill_error(err, PLIM_E_FORMAT, 0, offset, fmt, ap);
	va_end(ap);
	append(err, " at byte %llu; %s", (unsigned long long)offset, explanation);
	return PLIM_E_FORMAT;
}

enum plim_status err_errno(struct plim_err *err, int number, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill_error(err, PLIM_E_IO, number, PLIM_UNKNOWN, fmt, ap);
	va_end(ap);
	append(err, ": %s", strerror(number));
	return PLIM_E_IO;
}

void err_more(struct plim_err *err, const char *explanation)
{
	append(err, "; %s", explanation);
}

void err_prefix(struct plim_err *err, const char *prefix)
{
	char old[sizeof(err->message)];

	if (!err)
		return;
	memcpy(old, err->message, sizeof(old));
	if (snprintf(err->message, sizeof(err->message), "%s: %s", prefix, old) < 0)
		memcpy(err->message, old, sizeof(old));
	escape_controls(err->message);
}
