/* Signals to a process: only to the one that was seen, and for a recording only to one that is known to answer. */
#include "gauge/gauge.h"
#include "watch/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What making a recording may take of host memory. */
#define RECORDING_BYTES ((uint64_t)2 << 30)

/* A descriptor of the process that was seen; -1 with a message: it is gone. */
static int open_process(uint64_t pid, uint64_t start_time, struct plim_err *err)
{
	int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);

	/* The descriptor stays with the process that has the number now: is that still the one? */
	if (fd >= 0 && gauge_start_time((uint32_t)pid) == start_time)
		return fd;
	if (fd < 0 && errno != ESRCH) {
		(void)err_errno(err, errno, "cannot signal process %llu", (unsigned long long)pid);
		return -1;
	}
	if (fd >= 0)
		(void)close(fd);
	(void)err_set(err, PLIM_E_ARG, "process %llu is gone", (unsigned long long)pid);
	return -1;
}

/* Why it must not be asked; NULL: it may. */
static const char *refusal(uint64_t pid, const struct watch_host *h)
{
	struct plim_gauge_page page;
	struct plim_err err;
	char path[64];

	if (plim_gauge_read((uint32_t)pid, NULL, &page, &err))
		return "it has no gauge (plimsoll record keeps one)";
	if (!(page.flags & PLIM_GAUGE_RECORDS))
		return "its gauge reports no recordings";
	(void)snprintf(path, sizeof(path), "/dev/shm/plimsoll.%llu", (unsigned long long)pid);
	if (!watch_maps((uint32_t)pid, path))
		return "another program runs there now than made its gauge";
	if (!watch_catches((uint32_t)pid, SIGUSR1))
		return "it does not catch SIGUSR1";
	if (h->limit_bytes != PLIM_UNKNOWN && h->limit_used_bytes != PLIM_UNKNOWN &&
	    h->limit_used_bytes + RECORDING_BYTES > h->limit_bytes)
		return "its memory limit has no room for one";
	if (h->available_bytes != PLIM_UNKNOWN && h->available_bytes < RECORDING_BYTES)
		return "the machine has no memory for one";
	return NULL;
}

enum plim_status watch_signal(uint64_t pid, uint64_t start_time, int number,
			      const struct watch_host *to_record, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	const char *why;
	int fd = open_process(pid, start_time, err);

	if (fd < 0)
		return PLIM_E_ARG;
	/* Looked at behind the descriptor: what is seen now is what gets the signal, except for an exec in this very moment. */
	why = to_record ? refusal(pid, to_record) : NULL;
	if (why)
		st = err_set(err, PLIM_E_UNSUPPORTED, "not asked for a recording: %s", why);
	else if (syscall(SYS_pidfd_send_signal, fd, number, NULL, 0))
		st = err_errno(err, errno, "cannot signal process %llu", (unsigned long long)pid);
	(void)close(fd);
	return st;
}
