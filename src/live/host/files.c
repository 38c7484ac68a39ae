/* Reading what may be missing, forbidden, endless or changing. */
#include "look.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *host_text(struct host *h, struct host_span s)
{
	uint32_t id;

	if (h->err.status || intern_add(&h->strings, s.at, s.n, &id, &h->err))
		return NULL;
	return intern_text(&h->strings, id);
}

static const char *textv(struct host *h, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
static const char *textv(struct host *h, const char *fmt, va_list ap)
{
	char text[2 * HOST_PATH];
	int n = vsnprintf(text, sizeof(text), fmt, ap);

	if (n < 0)
		n = 0;
	if ((size_t)n >= sizeof(text))
		n = sizeof(text) - 1;
	return host_text(h, (struct host_span){ text, (size_t)n });
}

const char *host_textf(struct host *h, const char *fmt, ...)
{
	const char *text;
	va_list ap;

	va_start(ap, fmt);
	text = textv(h, fmt, ap);
	va_end(ap);
	return text;
}

void host_note(struct host *h, const char *fmt, ...)
{
	const char *text;
	va_list ap;

	va_start(ap, fmt);
	text = textv(h, fmt, ap);
	va_end(ap);
	host_push(h, &h->notes, text);
}

void host_unseen(struct host *h, const char *why, const char *fmt, ...)
{
	struct plim_here_unseen line;
	va_list ap;

	va_start(ap, fmt);
	line.what = textv(h, fmt, ap);
	va_end(ap);
	line.why = host_text(h, (struct host_span){ why, strlen(why) });
	host_push(h, &h->unseen, line);
}

/*
 * In a recorded tree neither ".." nor a link leads out of it; kernels before 5.6 and some sandboxes
 * cannot promise that.
 */
int host_open(const struct host *h, int flags, const char *path)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK |
						    O_NOCTTY),
				.resolve = RESOLVE_IN_ROOT };
	long fd = -1;

	if (!h->live)
		fd = syscall(SYS_openat2, h->root, path, &how, sizeof(how));
	if (h->live || (fd < 0 && (errno == ENOSYS || errno == EPERM)))
		fd = openat(h->root, path + strspn(path, "/"), (int)how.flags);
	return (int)fd;
}

/* Up to `n` bytes, as many as come; -1 and errno. */
static ssize_t read_some(int fd, char *at, size_t n)
{
	ssize_t got;

	do
		got = read(fd, at, n);
	while (got < 0 && errno == EINTR);
	return got;
}

/* A FIFO would wait, a device would act: only files are read. */
static int open_file(const struct host *h, const char *path)
{
	int fd = host_open(h, O_RDONLY, path);
	struct stat info;

	if (fd < 0)
		return -1;
	if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
		close(fd);
		errno = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
		return -1;
	}
	return fd;
}

int host_read(struct host *h, const char *path, struct host_span *out)
{
	int fd = open_file(h, path), error = 0;
	size_t n = 0;
	ssize_t got;

	*out = (struct host_span){ h->buffer, 0 };
	if (fd < 0)
		return errno;
	do {
		got = read_some(fd, h->buffer + n, HOST_FILE - n);
		n += got > 0 ? (size_t)got : 0;
	} while (got > 0 && n < HOST_FILE);
	if (got < 0)
		error = errno;
	else if (n == HOST_FILE)
		error = EFBIG;
	close(fd);
	out->n = error ? 0 : n;
	return error;
}

bool host_have(struct host *h, const char *path, struct host_span *out)
{
	int error = host_read(h, path, out);

	if (error && error != ENOENT && error != EOPNOTSUPP)
		host_unseen(h, strerror(error), "/%s", path);
	return !error;
}

bool host_lines_open(struct host_lines *l, const struct host *h, const char *path, int flags,
		     uint64_t budget)
{
	l->n = l->next = 0;
	l->cut = false;
	l->budget = budget;
	l->error = 0;
	l->fd = host_open(h, O_RDONLY | flags, path);
	if (l->fd < 0)
		l->error = errno;
	return l->fd >= 0;
}

/* Bring more into the buffer; false at the end, at an error, and when the budget is used up. */
static bool fill_host_file(struct host_lines *l)
{
	ssize_t got;

	memmove(l->at, l->at + l->next, l->n - l->next);
	l->n -= l->next;
	l->next = 0;
	if (!l->budget) {
		l->error = EFBIG;
		return false;
	}
	do
		got = read_some(l->fd, l->at + l->n, HOST_LINE - l->n);
	while (got < 0 && errno == EPIPE); /* the kernel log has lost records: on with the next */
	if (got < 0 && errno != EAGAIN)
		l->error = errno;
	if (got <= 0)
		return false;
	l->budget -= (uint64_t)got < l->budget ? (uint64_t)got : l->budget;
	l->n += (size_t)got;
	return true;
}

/* What is in the buffer up to its line feed, or all when that is not there. */
static struct host_span piece(struct host_lines *l)
{
	const char *from = l->at + l->next, *end = memchr(from, '\n', l->n - l->next);
	struct host_span s = { from, end ? (size_t)(end - from) : l->n - l->next };

	l->next += s.n + (end != NULL);
	l->cut = !end;
	return s;
}

bool host_lines_next(struct host_lines *l, struct host_span *line)
{
	for (;;) {
		bool rest = l->cut;
		bool whole = memchr(l->at + l->next, '\n', l->n - l->next) != NULL;
		bool full = !l->next && l->n == HOST_LINE;

		if (!whole && !full && fill_host_file(l))
			continue;
		if (l->next == l->n)
			return false;
		*line = piece(l);
		if (!rest)
			return true;
	}
}

void host_lines_close(struct host_lines *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

int host_list(struct host *h, const char *path, size_t most, host_name_fn *each, void *ctx)
{
	int fd = host_open(h, O_RDONLY | O_DIRECTORY, path), error = 0;
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!folder) {
		error = errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	for (errno = 0; (entry = readdir(folder)) != NULL; errno = 0) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (!most--) {
			error = EFBIG;
			break;
		}
		each(h, dirfd(folder), entry->d_name, ctx);
	}
	if (!entry && errno)
		error = errno;
	closedir(folder);
	return error;
}

bool host_link(int folder, const char *name, char *out, size_t room)
{
	ssize_t n = readlinkat(folder, name, out, room - 1);

	if (n < 0)
		return false;
	out[n] = 0;
	return true;
}
