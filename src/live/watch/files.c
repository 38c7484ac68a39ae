/*
 * Files of processes that are read at each sample.  Opening one costs more than reading it, so their descriptors stay open.  A descriptor
 * stands for the process itself: of one that is gone it reads nothing, also if another has its number.
 */
#include "watch/look.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define LEFT_TO_OTHERS 256u /* descriptors of this process that are not taken */
#define MOST 2048u

void proc_files_init(struct proc_files *f, bool keep)
{
	struct rlimit limit;

	memset(f, 0, sizeof(*f));
	if (keep && !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur > LEFT_TO_OTHERS)
		f->room = limit.rlim_cur - LEFT_TO_OTHERS < MOST
				  ? (unsigned)limit.rlim_cur - LEFT_TO_OTHERS
				  : MOST;
}

static void drop_proc_file(struct proc_files *f, struct proc_kept *k)
{
	for (size_t i = 0; i < PROC_FILES; i++)
		if (k->fd_behind[i]) {
			(void)close(k->fd_behind[i] - 1);
			f->room++;
		}
	*k = (struct proc_kept){ 0 };
}

void proc_files_release(struct proc_files *f)
{
	for (size_t i = 0; i < PROC_KEPT; i++)
		drop_proc_file(f, &f->kept[i]);
}

void proc_files_turn(struct proc_files *f)
{
	for (size_t i = 0; i < PROC_KEPT; i++)
		if (f->kept[i].pid && f->kept[i].turn != f->turn)
			drop_proc_file(f, &f->kept[i]);
	f->turn++;
}

/* Its place; NULL: another process that is read in this turn has it. */
static struct proc_kept *proc_file_place_of(struct proc_files *f, uint32_t pid)
{
	struct proc_kept *k = &f->kept[pid % PROC_KEPT];

	if (k->pid != pid) {
		if (k->pid && k->turn == f->turn)
			return NULL;
		drop_proc_file(f, k);
		k->pid = pid;
	}
	k->turn = f->turn;
	return k;
}

struct proc_io *proc_io_kept(struct proc_files *f, uint32_t pid)
{
	struct proc_kept *k = &f->kept[pid % PROC_KEPT];

	return k->pid == pid && k->fd_behind[PROC_STAT] ? &k->io : NULL;
}

static int open_one(const char *root, uint32_t pid, enum proc_file which)
{
	static const char *const names[PROC_FILES] = { "stat", "schedstat", "wchan",   "syscall",
						       "io",   "stat",      "children" };
	bool of_thread = which == PROC_THREAD || which == PROC_OF_MAIN;
	char path[400];
	int n = of_thread ? snprintf(path, sizeof(path), "%s/proc/%u/task/%u/%s", root, pid, pid,
				     names[which])
			  : snprintf(path, sizeof(path), "%s/proc/%u/%s", root, pid, names[which]);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* These files come whole with one read. */
static ssize_t read_one(int fd, char *out, size_t room)
{
	ssize_t got;

	do
		got = pread(fd, out, room - 1, 0);
	while (got < 0 && errno == EINTR);
	out[got > 0 ? got : 0] = 0;
	return got;
}

bool proc_read(struct proc_files *f, const char *root, uint32_t pid, enum proc_file which,
	       char *out, size_t room)
{
	struct proc_kept *k = proc_file_place_of(f, pid);
	ssize_t got;
	int fd;

	*out = 0;
	if (k && k->fd_behind[which]) {
		got = read_one(k->fd_behind[which] - 1, out, room);
		if (got > 0 || errno != ESRCH)
			return got > 0;
		drop_proc_file(f, k); /* that process is gone; another may have its number */
		k = proc_file_place_of(f, pid);
	}
	fd = open_one(root, pid, which);
	if (fd < 0)
		return false;
	got = read_one(fd, out, room);
	if (k && f->room && got >= 0) { /* of some nothing is read as long as there is nothing */
		k->fd_behind[which] = fd + 1;
		f->room--;
	} else {
		(void)close(fd);
	}
	return got > 0;
}
