/* What the two files that look at this machine share: look.c (jobs, cards) and proc.c (processes). */
#ifndef WATCH_LOOK_H
#define WATCH_LOOK_H

#include "watch/watch.h"

/* The process as /proc below `root` shows it now; false: it is gone.  `s` was cleared. */
bool proc_process(const char *root, uint32_t pid, struct watch_process *out);

/* Field 22 of its stat file; 0: it is gone. */
uint64_t proc_start_time(const char *root, uint32_t pid);

/* The main process with its main thread and its workers; false: it is gone. */
bool proc_sample(const char *root, uint32_t pid, struct mem *m, struct watch_sample *s,
		 struct plim_err *err);

/* The machine's memory, how its cgroup is throttled. */
void proc_host(const char *root, uint32_t pid, struct watch_host *out);

/* What people know it as: the script, or the module, or the program; at most `room` bytes. */
void proc_name(const char *root, uint32_t pid, char *out, size_t room);

#endif
