#include "base/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool __attribute__((format(printf, 3, 0)))
read_small(char *out, size_t room, const char *fmt, va_list ap)
{
	char path[1024];
	size_t n = 0;
	ssize_t got;
	int fd, wrote = vsnprintf(path, sizeof(path), fmt, ap);

	*out = 0;
	if (wrote < 0 || (size_t)wrote >= sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	do {
		got = read(fd, out + n, room - 1 - n);
		n += got > 0 ? (size_t)got : 0;
	} while (n < room - 1 && (got > 0 || (got < 0 && errno == EINTR)));
	(void)close(fd);
	out[n] = 0;
	return n > 0;
}

bool small_file(char *out, size_t room, const char *fmt, ...)
{
	va_list ap;
	bool there;

	va_start(ap, fmt);
	there = read_small(out, room, fmt, ap);
	va_end(ap);
	return there;
}

bool small_file_line(char *out, size_t room, const char *fmt, ...)
{
	va_list ap;
	bool there;

	va_start(ap, fmt);
	there = read_small(out, room, fmt, ap);
	va_end(ap);
	out[strcspn(out, "\r\n")] = 0;
	return there;
}
