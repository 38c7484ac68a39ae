/* Who was killed, as the kernel log shows it where it may be read. */
#include "look.h"

#include "messages/messages.h"

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

/* Why, as a line before reported, and for whom. */
struct reason {
	uint64_t pid;
	enum messages_constraint constraint;
	const char *cgroup;
};

static struct host_span part(const char *at, size_t n)
{
	return (struct host_span){ at, n };
}

/* The line before reported why, if it speaks of the same process. */
static void take_kill(struct host *h, const struct reason *why, const struct messages_kill *done,
		      uint64_t now_s, uint64_t us)
{
	static const char *const bounds[] = { NULL, "machine", "cgroup", "cpuset", "policy" };
	int same = why->pid == done->pid;
	struct plim_here_kill k = {
		.pid = done->pid,
		.name = host_text(h, part(done->process, done->process_n)),
		.ago_s = now_s == PLIM_UNKNOWN || now_s < us / 1000000 ? PLIM_UNKNOWN
								       : now_s - us / 1000000,
		.bound = bounds[same ? why->constraint : done->constraint],
		.cgroup = same ? why->cgroup : NULL,
		.virtual_bytes = done->virtual_bytes,
		.anon_bytes = done->anon_bytes,
		.file_bytes = done->file_bytes,
		.shmem_bytes = done->shmem_bytes,
	};

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
	struct reason why = { .pid = PLIM_UNKNOWN };
	uint64_t now_s = uptime_s(h);
	struct host_log_line record;
	struct messages_kill kill;
	struct host_span line;

	while (host_lines_next(lines, &line)) {
		if (!host_log_line(line, &record))
			continue;
		if (messages_kill_reason(record.text.at, record.text.n, &kill)) {
			why.pid = kill.pid;
			why.constraint = kill.constraint;
			/* the line goes away */
			why.cgroup =
				kill.group_n ? host_text(h, part(kill.group, kill.group_n)) : NULL;
		} else if (messages_kill_done(record.text.at, record.text.n, &kill) &&
			   kill.virtual_bytes != PLIM_UNKNOWN) {
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
