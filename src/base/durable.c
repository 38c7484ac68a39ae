/*
 * Writing that survives: see the header for what is promised.
 *
 * The new file has no name until it is synced and read back (O_TMPFILE), so that whoever is killed leaves nothing.  A
 * file can only be renamed over another by a name, which it has for two calls: linkat, renameat.  Where a
 * file system has no files without names, it has that name from the beginning.
 *
 * Whoever is killed with a name leaves it.  So its writer holds a lock on the open file description, which the
 * kernel drops with the process on whatever machine it ran; who writes next in the folder and gets the lock removes
 * the name.  No process ids: they mean nothing across containers and network file systems.
 */
#include "durable.h"

#include <dirent.h>
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
#define BORDER ((size_t)4096) /* of memory, places and sizes for O_DIRECT */
#define TRIES 100             /* names for the temporary file */

struct durable {
	struct mem *mem;
	char *path;       /* as given; the name in the folder is at + base */
	size_t path_size; /* with its NUL */
	size_t base;
	char temporary[64];
	int folder, fd;
	uint64_t bytes;
	XXH3_state_t *hash;
	void *room;      /* what holds the buffer */
	uint8_t *buffer; /* for writing, then for reading back; at a border */
	size_t filled;
	bool direct;    /* what is aligned goes past the page cache */
	bool direct_on; /* the descriptor is set so */
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

/* ---- temporary names ---- */

#define TEMPORARY_FIRST ".plimsoll."
#define TEMPORARY_LAST ".tmp"

static bool is_temporary(const char *name)
{
	size_t n = strlen(name), first = sizeof(TEMPORARY_FIRST) - 1,
	       last = sizeof(TEMPORARY_LAST) - 1;

	return n == first + 16 + last && !memcmp(name, TEMPORARY_FIRST, first) &&
	       strspn(name + first, "0123456789abcdef") == 16 &&
	       !memcmp(name + n - last, TEMPORARY_LAST, last);
}

static enum plim_status new_name(struct durable *d, struct plim_err *err)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), 0) < 0)
		return failed(d, err, "get random numbers for");
	snprintf(d->temporary, sizeof(d->temporary), TEMPORARY_FIRST "%016llx" TEMPORARY_LAST,
		 (unsigned long long)random);
	return PLIM_OK;
}

/* Without waiting.  A file system without locks says so: then no one gets one, and nothing is removed. */
static bool lock(int fd)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return !fcntl(fd, F_OFD_SETLK, &whole);
}

/* Is the name still that file's? */
static bool durable_is_named(int folder, const char *name, int fd)
{
	struct stat at, of;

	return !fstat(fd, &of) && !fstatat(folder, name, &at, AT_SYMLINK_NOFOLLOW) &&
	       at.st_dev == of.st_dev && at.st_ino == of.st_ino;
}

/* What someone left who was killed; what is in use is locked. */
static void remove_left(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat info;

	if (fd < 0)
		return;
	if (!fstat(fd, &info) && S_ISREG(info.st_mode) && lock(fd) &&
	    durable_is_named(folder, name, fd))
		unlinkat(folder, name, 0);
	close(fd);
}

static void sweep(int folder)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *names = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!names && fd >= 0)
		close(fd);
	while (names && (e = readdir(names))) // NOLINT(concurrency-mt-unsafe): a stream of our own
		if (is_temporary(e->d_name))
			remove_left(folder, e->d_name);
	if (names)
		closedir(names);
}

/* The path by which linkat finds a file without a name. */
static void path_of(char *path, size_t size, int fd)
{
	snprintf(path, size, "/proc/self/fd/%d", fd);
}

/* A file without a name, where there are such and /proc, by which it gets one; else -1. */
static int open_nameless(int folder)
{
	int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	char path[40];

	if (fd < 0)
		return fd;
	path_of(path, sizeof(path), fd);
	if (!access(path, F_OK)) {
		lock(fd);
		return fd;
	}
	close(fd);
	return -1;
}

/* A new file with a name.  Between its creation and its lock someone may sweep it away: then once more. */
static enum plim_status open_named(struct durable *d, struct plim_err *err)
{
	enum plim_status st;

	for (int i = 0; i < TRIES; i++) {
		st = new_name(d, err);
		if (st)
			return st;
		d->fd = openat(d->folder, d->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
			       0666);
		if (d->fd < 0 && errno != EEXIST)
			break;
		if (d->fd < 0)
			continue;
		lock(d->fd);
		if (durable_is_named(d->folder, d->temporary, d->fd))
			return PLIM_OK;
		close(d->fd);
		d->fd = -1;
	}
	d->temporary[0] = 0;
	return failed(d, err, "create a file next to");
}

/* A new file next to the old one, with the old one's mode. */
static enum plim_status open_temporary(struct durable *d, struct plim_err *err)
{
	struct stat old;
	bool replaces = !fstatat(d->folder, d->path + d->base, &old, 0);
	enum plim_status st = PLIM_OK;

	if (replaces && !S_ISREG(old.st_mode))
		return err_set(err, PLIM_E_IO, "'%s' is not a regular file: not replaced", d->path);
	sweep(d->folder);
	d->fd = open_nameless(d->folder);
	if (d->fd < 0)
		st = open_named(d, err);
	if (!st && replaces && fchmod(d->fd, old.st_mode & 07777))
		st = failed(d, err, "set the mode of");
	return st;
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
	d->room = mem_new(m, BUFFER_BYTES + BORDER, 1, err);
	d->buffer = d->room ? (uint8_t *)d->room + (-(uintptr_t)d->room & (BORDER - 1)) : NULL;
	d->hash = XXH3_createState();
	if (!d->path || !d->room)
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

/* Past the page cache or not; a file system that cannot stays as it is. */
static void set_direct(struct durable *d, bool on)
{
	int flags;

	if (d->direct_on == on)
		return;
	flags = fcntl(d->fd, F_GETFL);
	if (flags < 0 || fcntl(d->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT))
		d->direct = false;
	else
		d->direct_on = on;
}

static enum plim_status put_all(struct durable *d, const uint8_t *p, size_t n, struct plim_err *err)
{
	while (n) {
		ssize_t k = write(d->fd, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EINVAL &&
		    d->direct_on) { /* it takes the flag and refuses the write */
			set_direct(d, false);
			d->direct = false;
			continue;
		}
		if (k < 0)
			return failed(d, err, "write");
		if (k & (BORDER - 1))
			set_direct(d, false);
		p += k;
		n -= (size_t)k;
	}
	return PLIM_OK;
}

static enum plim_status flush_durable(struct durable *d, struct plim_err *err)
{
	size_t n = d->filled;

	set_direct(d, false);
	d->filled = 0;
	return put_all(d, d->buffer, n, err);
}

/* Bytes at `at`, of n, that can be written as they lie: whole MiB, which the file is at a border of. */
static size_t as_they_lie(struct durable *d, const void *at, size_t n, uint64_t place)
{
	if (!d->direct || d->filled || ((uintptr_t)at | place) & (BORDER - 1))
		return 0;
	return n & ~(BUFFER_BYTES - 1);
}

void durable_direct(struct durable *d)
{
	d->direct = true;
}

enum plim_status durable_write(struct durable *d, const void *at, size_t n, struct plim_err *err)
{
	const uint8_t *p = at;
	size_t whole = as_they_lie(d, at, n, d->bytes);
	enum plim_status st = PLIM_OK;

	XXH3_64bits_update(d->hash, at, n);
	d->bytes += n;
	if (whole) {
		set_direct(d, true);
		st = put_all(d, p, whole, err);
		p += whole;
		n -= whole;
	}
	while (!st && n) {
		size_t k = BUFFER_BYTES - d->filled < n ? BUFFER_BYTES - d->filled : n;

		memcpy(d->buffer + d->filled, p, k);
		d->filled += k;
		p += k;
		n -= k;
		if (d->filled == BUFFER_BYTES)
			st = flush_durable(d, err);
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
	set_direct(d, d->direct);
	XXH3_64bits_reset(d->hash);
	while ((n = pread(d->fd, d->buffer, BUFFER_BYTES, (off_t)at)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EINVAL && d->direct_on) {
			set_direct(d, false);
			continue;
		}
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

/* A name for what has none yet. */
static enum plim_status give_name(struct durable *d, int fd, struct plim_err *err)
{
	char path[40];
	enum plim_status st = PLIM_OK;

	path_of(path, sizeof(path), fd);
	for (int i = 0; !st && !d->temporary[0] && i < TRIES; i++) {
		st = new_name(d, err);
		if (st || !linkat(AT_FDCWD, path, d->folder, d->temporary, AT_SYMLINK_FOLLOW))
			return st;
		d->temporary[0] = 0;
		if (errno != EEXIST)
			st = failed(d, err, "give a name to");
	}
	return st || d->temporary[0] ? st : failed(d, err, "give a name to");
}

/* After the rename the new file stands; only whether it outlives a power cut is not sure yet. */
static enum plim_status finish_durable(struct durable *d, struct plim_err *err)
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
	int fd;
	enum plim_status st = flush_durable(d, err);

	if (!st && ftruncate(d->fd, (off_t)d->bytes))
		st = failed(d, err, "set the size of");
	/* A failed fsync is final: the pages may be gone, and a second one would not say so. */
	if (!st && fsync(d->fd))
		st = failed(d, err, "sync");
	if (!st)
		st = read_back(d, hash, err);
	/* Network file systems report a failed write at the latest when one closes; the other descriptor keeps the lock. */
	fd = d->fd;
	d->fd = st ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (!st && d->fd < 0)
		st = failed(d, err, "close");
	if (close(fd) && !st)
		st = failed(d, err, "close");
	if (!st)
		st = give_name(d, d->fd, err);
	if (!st)
		st = finish_durable(d, err);
	if (!st && sum)
		*sum = hash;
	durable_abort(d);
	return st;
}

void durable_abort(struct durable *d)
{
	if (!d)
		return;
	if (d->temporary[0])
		unlinkat(d->folder, d->temporary, 0);
	if (d->fd >= 0)
		close(d->fd);
	if (d->folder >= 0)
		close(d->folder);
	XXH3_freeState(d->hash);
	mem_free(d->mem, d->room, BUFFER_BYTES + BORDER, 1);
	mem_free(d->mem, d->path, d->path_size, 1);
	mem_free(d->mem, d, 1, sizeof(*d));
}

enum plim_status durable_end(struct durable *d, enum plim_status st, struct plim_err *err)
{
	if (!st)
		return durable_commit(d, NULL, err);
	durable_abort(d);
	return st;
}

enum plim_status durable_put(struct mem *m, const char *path, const void *at, size_t n,
			     struct plim_err *err)
{
	struct durable *file = NULL;
	enum plim_status st = durable_begin(m, path, n, &file, err);

	if (!st)
		st = durable_write(file, at, n, err);
	return durable_end(file, st, err);
}
