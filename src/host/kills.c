/* Who was killed, as the kernel log tells it where it may be read. */
#include "look.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define KILLS_MAX 64
#define LOG_BYTES ((uint64_t)64 << 20)

static uint64_t uptime_s(struct host *h)
{
	struct host_span text;
	uint64_t s;

	return host_read(h, "proc/uptime", &text) || !host_digits(&text, &s) ? PLIM_UNKNOWN : s;
}

/* The line before told why, if it speaks of the same process. */
static void take_kill(struct host *h, const struct host_kill *why, const struct host_kill *done,
		      uint64_t now_s, uint64_t us)
{
	struct plim_here_kill k = done->sizes;

	k.pid = done->pid;
	k.name = host_text(h, done->name);
	k.ago_s =
		now_s == PLIM_UNKNOWN || now_s < us / 1000000 ? PLIM_UNKNOWN : now_s - us / 1000000;
	k.bound = done->bound;
	k.cgroup = NULL;
	if (why->pid == done->pid) {
		k.bound = why->bound;
		k.cgroup = why->cgroup.n ? why->cgroup.at : NULL;
	}
	if (h->kills.n == KILLS_MAX) {
		memmove(h->kills.at, h->kills.at + 1, (KILLS_MAX - 1) * sizeof(*h->kills.at));
		h->kills.n--;
	}
	host_push(h, &h->kills, k);
}

static bool is_log(int fd)
{
	struct stat info;

	return !fstat(fd, &info) && (S_ISCHR(info.st_mode) || S_ISREG(info.st_mode));
}

static void read_log(struct host *h, struct host_lines *lines)
{
	struct host_kill why = { .pid = PLIM_UNKNOWN }, kill;
	uint64_t now_s = uptime_s(h);
	struct host_log_line record;
	struct host_span line;

	while (host_lines_next(lines, &line)) {
		if (!host_log_line(line, &record))
			continue;
		if (host_kill_reason(record.text, &kill)) {
			why = kill;
			if (why.cgroup.n) /* the line goes away */
				why.cgroup.at = host_text(h, why.cgroup);
		} else if (host_kill_done(record.text, &kill)) {
			take_kill(h, &why, &kill, now_s, record.us);
		}
	}
}

void host_look_kills(struct host *h)
{
	struct host_lines lines;

	if (host_lines_open(&lines, h, "dev/kmsg", 0, LOG_BYTES)) {
		if (is_log(lines.fd))
			read_log(h, &lines);
		else
			lines.error = EINVAL;
	}
	if (lines.error)
		host_unseen(h, strerror(lines.error), "/dev/kmsg (who was killed)");
	host_lines_close(&lines);
	for (size_t i = 0; i < h->kills.n / 2; i++) {
		struct plim_here_kill k = h->kills.at[i];

		h->kills.at[i] = h->kills.at[h->kills.n - 1 - i];
		h->kills.at[h->kills.n - 1 - i] = k;
	}
}
