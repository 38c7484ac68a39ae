/*
 * What this machine, or a container on it, shows of its memory: /proc, /sys/fs/cgroup, /dev/shm, the
 * kernel log.  It says what it saw in the structs of the public API, and judges it: the bounds, the
 * nearest of which is the headroom.
 *
 * Nothing is written, started or waited for.  Every file is read in bounded pieces; one that is
 * missing, forbidden or damaged leaves its numbers unknown and a line in `unseen`.
 */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include "base/base.h"

#include <plimsoll/here.h>

struct host_options {
	const char *root; /* where proc, sys and dev lie; NULL: "/" */
	uint64_t pid;     /* PLIM_UNKNOWN: this process */
	bool limits_only; /* not the processes of the machine, nor the kernel's log: a hundredth of the time */
};

struct host {
	struct mem *mem;
	struct intern strings; /* all text of the result */
	struct plim_err err;   /* the first refusal of memory; later calls do nothing */
	int root;
	bool live;             /* root is this machine, not a tree that was recorded */
	bool alone;            /* in a pid namespace: others are not visible */
	char *buffer;          /* the file that is looked at, HOST_FILE bytes */
	struct plim_here *out; /* the caller's, filled by host_look */
	VEC(struct plim_here_cgroup) cgroups;
	VEC(struct plim_here_rlimit) rlimits;
	VEC(struct plim_here_process) processes;
	VEC(struct plim_here_oom) ooms;
	VEC(struct plim_here_holder) holders;
	VEC(struct plim_here_kill) kills;
	VEC(struct plim_here_shm_file) shm_files;
	VEC(struct plim_here_unseen) unseen;
	VEC(const char *) notes;
	VEC(struct plim_here_bound) bounds; /* the nearest first */
	struct arena words;                 /* in place of names */
};

/*
 * Fill *out, all but its bounds; h owns what it points to.  PLIM_E_ARG: no such process;
 * PLIM_E_IO: no proc below the root; PLIM_E_NOMEM, PLIM_E_LIMIT.  host_release either way.
 */
enum plim_status host_look(struct host *h, struct mem *m, const struct host_options *options,
			   struct plim_here *out, struct plim_err *err);
void host_release(struct host *h);

/*
 * After host_look: bounds, headroom and notes in the same *out.  `redact`: names of processes, cgroups, containers and
 * files become words with a number.
 */
enum plim_status host_judge(struct host *h, bool redact, struct plim_err *err);

/* Half of the smaller of physical memory and the limits of the cgroups (v1, v2) that this process is in. */
uint64_t host_memory_limit(void);
/* The same of what proc and sys below `root` show; NULL: this machine. */
uint64_t host_memory_limit_below(const char *root);

/* The room that `why --here` sees below `root`; where it sees none host_memory_limit_below. */
uint64_t host_room_below(const char *root);

/* An account that takes as much as was asked for; 0: as much as host_memory_limit. */
void host_mem_init(struct mem *m, uint64_t max_memory_bytes);

/* Add a note, owned by h. */
void host_note(struct host *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
