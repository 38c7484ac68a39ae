/* Writing that survives: see the header for what is promised. */
#include "durable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define BUFFER_BYTES ((size_t)1 << 20)
#define TRIES 100 /* names for the temporary file */

struct durable {
	struct mem *mem;
	char *path;       /* as given; the name in the folder is at + base */
	size_t path_size; /* with its NUL */
	size_t base;
	char temporary[64];
	int folder, fd;
	uint64_t bytes;
	XXH3_state_t *hash;
	uint8_t *buffer; /* for writing, then for reading back */
	size_t filled;
};

static enum plim_status failed(const struct durable *d, struct plim_err *err, const char *what)
{
	return err_errno(err, errno, "cannot %s '%s' (what was there before is untouched)", what,
			 d->path);
}

static enum plim_status open_folder(struct durable *d, struct plim_err *err)
{
	char *slash = strrchr(d->path, '/');
	char kept;

	d->base = slash ? (size_t)(slash - d->path) + 1 : 0;
	if (!d->path[d->base])
		return err_set(err, PLIM_E_ARG, "'%s' names no file", d->path);
	kept = d->path[d->base];
	d->path[d->base] = 0;
	d->folder = open(d->base ? d->path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d->path[d->base] = kept;
	return d->folder < 0 ? failed(d, err, "open the folder of") : PLIM_OK;
}

/* A new file beside the old one, with the old one's mode. */
static enum plim_status open_temporary(struct durable *d, struct plim_err *err)
{
	struct stat old;
	bool replaces = !fstatat(d->folder, d->path + d->base, &old, 0);

	if (replaces && !S_ISREG(old.st_mode))
		return err_set(err, PLIM_E_IO, "'%s' is no regular file: not replaced", d->path);
	for (int i = 0; i < TRIES; i++) {
		uint64_t random = 0;

		if (getrandom(&random, sizeof(random), 0) < 0)
			return failed(d, err, "get random numbers for");
		snprintf(d->temporary, sizeof(d->temporary), ".plimsoll.%016llx.tmp",
			 (unsigned long long)random);
		d->fd = openat(d->folder, d->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
			       0666);
		if (d->fd >= 0 || errno != EEXIST)
			break;
	}
	if (d->fd < 0) {
		d->temporary[0] = 0;
		return failed(d, err, "create a file beside");
	}
	if (replaces && fchmod(d->fd, old.st_mode & 07777))
		return failed(d, err, "set the mode of");
	return PLIM_OK;
}

enum plim_status durable_begin(struct mem *m, const char *path, uint64_t bytes,
			       struct durable **out, struct plim_err *err)
{
	struct durable *d = mem_new(m, 1, sizeof(*d), err);
	enum plim_status st = PLIM_OK;

	*out = NULL;
	if (!d)
		return mem_status(err);
	d->mem = m;
	d->folder = d->fd = -1;
	d->path_size = strlen(path) + 1;
	d->path = mem_new(m, d->path_size, 1, err);
	d->buffer = mem_new(m, BUFFER_BYTES, 1, err);
	d->hash = XXH3_createState();
	if (!d->path || !d->buffer)
		st = mem_status(err);
	else if (!d->hash)
		st = err_set(err, PLIM_E_NOMEM, "out of memory");
	if (!st) {
		memcpy(d->path, path, d->path_size);
		XXH3_64bits_reset(d->hash);
		st = open_folder(d, err);
	}
	if (!st)
		st = open_temporary(d, err);
	/* Not every file system can: those that cannot say so when the disk is full. */
	if (!st && bytes && fallocate(d->fd, 0, 0, (off_t)bytes) && errno != EOPNOTSUPP &&
	    errno != ENOSYS && errno != EINVAL)
		st = failed(d, err, "get room for");
	if (st)
		durable_abort(d);
	else
		*out = d;
	return st;
}

static enum plim_status flush(struct durable *d, struct plim_err *err)
{
	for (size_t done = 0; done < d->filled;) {
		ssize_t n = write(d->fd, d->buffer + done, d->filled - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(d, err, "write");
		done += (size_t)n;
	}
	d->filled = 0;
	return PLIM_OK;
}

enum plim_status durable_write(struct durable *d, const void *at, size_t n, struct plim_err *err)
{
	const uint8_t *p = at;
	enum plim_status st = PLIM_OK;

	XXH3_64bits_update(d->hash, at, n);
	d->bytes += n;
	while (!st && n) {
		size_t k = BUFFER_BYTES - d->filled < n ? BUFFER_BYTES - d->filled : n;

		memcpy(d->buffer + d->filled, p, k);
		d->filled += k;
		p += k;
		n -= k;
		if (d->filled == BUFFER_BYTES)
			st = flush(d, err);
	}
	return st;
}

uint64_t durable_sum(const struct durable *d)
{
	return XXH3_64bits_digest(d->hash);
}

/* What the disk gives back, not what the cache still holds. */
static enum plim_status read_back(struct durable *d, uint64_t sum, struct plim_err *err)
{
	uint64_t at = 0;
	ssize_t n;

	posix_fadvise(d->fd, 0, 0, POSIX_FADV_DONTNEED);
	XXH3_64bits_reset(d->hash);
	while ((n = pread(d->fd, d->buffer, BUFFER_BYTES, (off_t)at)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(d, err, "read back");
		XXH3_64bits_update(d->hash, d->buffer, (size_t)n);
		at += (uint64_t)n;
	}
	if (at != d->bytes || XXH3_64bits_digest(d->hash) != sum)
		return err_set(err, PLIM_E_IO,
			       "'%s' reads back other bytes than were written; what was there "
			       "before is untouched",
			       d->path);
	return PLIM_OK;
}

/* After the rename the new file stands; only whether it outlives a power cut is not sure yet. */
static enum plim_status finish(struct durable *d, struct plim_err *err)
{
	if (renameat(d->folder, d->temporary, d->folder, d->path + d->base))
		return failed(d, err, "rename to");
	d->temporary[0] = 0;
	if (fsync(d->folder))
		return err_errno(err, errno,
				 "'%s' is written and whole, but its folder cannot be synced",
				 d->path);
	return PLIM_OK;
}

enum plim_status durable_commit(struct durable *d, uint64_t *sum, struct plim_err *err)
{
	uint64_t hash = durable_sum(d);
	int fd = d->fd;
	enum plim_status st = flush(d, err);

	if (!st && ftruncate(d->fd, (off_t)d->bytes))
		st = failed(d, err, "set the size of");
	/* A failed fsync is final: the pages may be gone, and a second one would not say so. */
	if (!st && fsync(d->fd))
		st = failed(d, err, "sync");
	if (!st)
		st = read_back(d, hash, err);
	d->fd = -1;
	if (close(fd) && !st)
		st = failed(d, err, "close");
	if (!st)
		st = finish(d, err);
	if (!st && sum)
		*sum = hash;
	durable_abort(d);
	return st;
}

void durable_abort(struct durable *d)
{
	if (!d)
		return;
	if (d->fd >= 0)
		close(d->fd);
	if (d->temporary[0])
		unlinkat(d->folder, d->temporary, 0);
	if (d->folder >= 0)
		close(d->folder);
	XXH3_freeState(d->hash);
	mem_free(d->mem, d->buffer, BUFFER_BYTES, 1);
	mem_free(d->mem, d->path, d->path_size, 1);
	mem_free(d->mem, d, 1, sizeof(*d));
}
