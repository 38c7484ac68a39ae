/* The reader's side of the gauge: another process wrote it, perhaps in bad faith, perhaps this moment. */
#include "gauge.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 64, PHASES = 8 };

#define SANE_BYTES ((uint64_t)1 << 50) /* no machine has a pebibyte */

uint64_t gauge_start_time(uint32_t pid)
{
	char text[1024];
	uint64_t start = 0;
	char *at;

	(void)small_file(text, sizeof(text), "/proc/%u/stat", pid);
	at = strrchr(text, ')'); /* the name may hold anything */
	for (int field = 2; at && field < 22; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (at)
		start = strtoull(at, NULL, 10);
	return start;
}

static void bound(uint64_t *bytes)
{
	if (*bytes > SANE_BYTES)
		*bytes = PLIM_UNKNOWN;
}

static void judge_device(struct plim_gauge_device *d)
{
	uint64_t *bytes[] = { &d->allocated_bytes,      &d->reserved_bytes,      &d->active_bytes,
			      &d->peak_allocated_bytes, &d->peak_reserved_bytes, &d->limit_bytes,
			      &d->driver_free_bytes,    &d->pinned_bytes };

	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		bound(bytes[i]);
	if (d->reserved_bytes != PLIM_UNKNOWN && d->allocated_bytes != PLIM_UNKNOWN &&
	    d->allocated_bytes > d->reserved_bytes)
		d->allocated_bytes = d->reserved_bytes = PLIM_UNKNOWN;
}

const char *gauge_judge(struct plim_gauge_page *p, uint32_t pid, uint64_t start_time)
{
	if (memcmp(p->magic, "PLIMGAGE", 8))
		return "it is not a gauge";
	if (p->version != PLIM_GAUGE_VERSION || p->bytes != PLIM_GAUGE_BYTES)
		return "it is of another version";
	if (pid && start_time && p->start_time != start_time)
		return "it is of a process that is gone";
	if (p->device_count > PLIM_GAUGE_DEVICES)
		return "it counts too many devices";
	if (p->phase >= PHASES)
		p->phase = PLIM_GAUGE_UNKNOWN;
	p->run[sizeof(p->run) - 1] = 0;
	for (char *c = p->run; *c; c++)
		if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
			*c = '?';
	for (uint32_t i = 0; i < p->device_count; i++)
		judge_device(&p->devices[i]);
	for (size_t i = 0; i < PLIM_GAUGE_STEPS; i++)
		bound(&p->marks[i].peak_allocated_bytes);
	return NULL;
}

/* Who made the file, and what it is. */
static enum plim_status judge_file(int fd, uint32_t pid, const char *path, struct plim_err *err)
{
	struct stat file, process;
	char proc[64];

	if (fstat(fd, &file))
		return err_errno(err, errno, "cannot read '%s'", path);
	if (!S_ISREG(file.st_mode) || file.st_nlink != 1 || file.st_size < PLIM_GAUGE_BYTES)
		return err_set(err, PLIM_E_FORMAT, "'%s' is not a gauge", path);
	snprintf(proc, sizeof(proc), "/proc/%u", pid);
	if (pid && !stat(proc, &process) && process.st_uid != file.st_uid)
		return err_set(err, PLIM_E_FORMAT, "'%s' belongs to another user than process %u",
			       path, pid);
	return PLIM_OK;
}

static bool gauge_whole(ssize_t n, size_t wanted)
{
	return n >= 0 && (size_t)n == wanted;
}

/* The page as it was at one moment. */
static enum plim_status copy_gauge(int fd, const char *path, struct plim_gauge_page *out,
				   struct plim_err *err)
{
	off_t at = offsetof(struct plim_gauge_page, sequence);
	uint64_t before, after;

	for (int i = 0; i < TRIES; i++) {
		if (!gauge_whole(pread(fd, &before, sizeof(before), at), sizeof(before)) ||
		    !gauge_whole(pread(fd, out, sizeof(*out), 0), sizeof(*out)) ||
		    !gauge_whole(pread(fd, &after, sizeof(after), at), sizeof(after)))
			return err_set(err, PLIM_E_FORMAT, "'%s' was cut while it was read", path);
		if (before == after && out->sequence == before && !(before & 1))
			return PLIM_OK;
	}
	return err_set(err, PLIM_E_FORMAT,
		       "'%s' is being written, or its writer died while it wrote", path);
}

enum plim_status plim_gauge_read(uint32_t pid, const char *given, struct plim_gauge_page *out,
				 struct plim_err *err)
{
	char path[512];
	enum plim_status st;
	const char *wrong = NULL;
	int fd;

	if (given)
		snprintf(path, sizeof(path), "%s", given);
	else
		snprintf(path, sizeof(path), "/dev/shm/plimsoll.%u", pid);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	st = fd < 0 ? err_errno(err, errno, "cannot open '%s'", path)
		    : judge_file(fd, pid, path, err);
	if (!st)
		st = copy_gauge(fd, path, out, err);
	if (!st)
		wrong = gauge_judge(out, pid, pid ? gauge_start_time(pid) : 0);
	if (wrong)
		st = err_set(err, PLIM_E_FORMAT, "'%s' cannot be used: %s", path, wrong);
	if (fd >= 0)
		close(fd);
	if (st)
		memset(out, 0, sizeof(*out));
	return st;
}
