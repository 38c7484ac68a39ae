/* What the two files that look at this machine share: look.c (jobs, cards) and proc.c (processes). */
#ifndef WATCH_LOOK_H
#define WATCH_LOOK_H

#include "watch/watch.h"

/* The process as /proc below `root` shows it now; false: it is gone.  `s` was cleared. */
bool proc_process(const char *root, uint32_t pid, struct watch_process *out);

/* Field 22 of its stat file; 0: it is gone. */
uint64_t proc_start_time(const char *root, uint32_t pid);

/* Processes that its threads started: DataLoaders are made in any of them. */
#define PROC_CHILDREN 256
struct proc_children {
	uint32_t at[PROC_CHILDREN];
	size_t n;
};
void proc_children(const char *root, uint32_t pid, struct proc_children *c);

/* The main process with its main thread and those of its children that are workers; false: it is gone. */
bool proc_sample(const char *root, uint32_t pid, const struct proc_children *children,
		 struct mem *m, struct watch_sample *s, struct plim_err *err);

/* The machine's memory, how its cgroup is throttled. */
void proc_host(const char *root, uint32_t pid, struct watch_host *out);

/* The process behind shells and launchers: the only child of one, and so on. */
uint32_t proc_behind_launchers(const char *root, uint32_t pid);

/* Does `pid` descend from `ancestor`, or is it that? */
bool proc_descends(const char *root, uint32_t pid, uint32_t ancestor);

/* RANK and WORLD_SIZE (or Slurm's) of its environment, and a number that ranks of one job share; PLIM_UNKNOWN, 0: not told. */
struct proc_rank {
	uint64_t rank, world, job;
};
void proc_rank(const char *root, uint32_t pid, struct proc_rank *out);

/* Its cgroup's folder below `root`, "" if that is not seen; and how often the kernel killed for memory in such a folder. */
void proc_cgroup(const char *root, uint32_t pid, char *out, size_t room);
uint64_t proc_cgroup_kills(const char *folder);

/* What people know it as: the script, or the module, or the program; at most `room` bytes. */
void proc_name(const char *root, uint32_t pid, char *out, size_t room);

#endif
