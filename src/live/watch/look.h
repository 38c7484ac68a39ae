/* What the two files that look at this machine share: look.c (jobs, GPUs) and proc.c (processes). */
#ifndef WATCH_LOOK_H
#define WATCH_LOOK_H

#include "watch/watch.h"

/* ---- files of processes ---- */

enum proc_file {
	PROC_STAT,
	PROC_SCHEDSTAT,
	PROC_WCHAN,
	PROC_SYSCALL,
	PROC_IO,
	PROC_THREAD,  /* stat of the main thread alone */
	PROC_OF_MAIN, /* children that the main thread started */
	PROC_FILES
};
#define PROC_KEPT 1024 /* processes whose files stay open */

/* What a process had read and written, at its processor time then. */
struct proc_io {
	uint32_t turn; /* 0: not looked at */
	double ran_s;
	uint64_t written_chars, read_bytes, stored_bytes;
};

struct proc_kept {
	uint32_t pid; /* 0: none */
	struct proc_io io;
	uint32_t turn;
	int fd_behind[PROC_FILES]; /* descriptor + 1; 0: not open */
};

struct proc_files {
	unsigned room; /* for so many descriptors more */
	uint32_t turn;
	struct proc_kept kept[PROC_KEPT];
};

/* `keep` false: each is opened anew, as trees of made files need it. */
void proc_files_init(struct proc_files *f, bool keep);
void proc_files_release(struct proc_files *f);

/* A new sample begins: what the one before did not read is closed. */
void proc_files_turn(struct proc_files *f);

/* Of this turn; NULL: nothing is kept of that process. */
struct proc_io *proc_io_kept(struct proc_files *f, uint32_t pid);

/* What the file holds now; false: nothing, or it may not be read. */
bool proc_read(struct proc_files *f, const char *root, uint32_t pid, enum proc_file which,
	       char *out, size_t room);

/* ---- processes ---- */

/* Field 22 of its stat file; 0: it is gone. */
uint64_t proc_start_time(struct proc_files *f, const char *root, uint32_t pid);

/*
 * Processes that its threads started: DataLoaders are made in any of them.  What a forkserver started is a child's child, and a worker
 * only by its name.
 */
#define PROC_CHILDREN 256
struct proc_children {
	uint32_t at[PROC_CHILDREN];
	size_t n;
	uint64_t of_main; /* what the main thread's list was, as a number */
};
void proc_children(struct proc_files *f, const char *root, uint32_t pid, struct proc_children *c);

/* Does its main thread have others than that time? */
bool proc_children_changed(struct proc_files *f, const char *root, uint32_t pid,
			   const struct proc_children *c);

/* Who started it; 0: it is gone. */
uint32_t proc_parent(const char *root, uint32_t pid);

/* Processes that are there since the last look. */
#define PROC_PIDS 8192
#define PROC_BORN 256
struct proc_births {
	struct proc_pids {
		uint32_t at[PROC_PIDS];
		size_t n;
	} lists[2];
	bool newest; /* which of the two */
	bool told;   /* false: it is not known who is new (the first look, or too many) */
	uint32_t last;
	unsigned skipped;
	uint32_t born[PROC_BORN];
	size_t born_count;
};
void proc_births_look(struct proc_births *b, const char *root);

/* The parent of one of them, and that one's; false: it is gone. */
bool proc_births_of(const struct proc_births *b, size_t i, const char *root, uint32_t *parent,
		    uint32_t *above);

/* Of the main process, that was met, its main thread and those of its children that are workers; false: it is gone. */
bool proc_sample(struct proc_files *f, const char *root, const struct proc_children *children,
		 struct mem *m, struct watch_sample *s, struct plim_err *err);

/* The machine's memory. */
void proc_machine(const char *root, struct watch_host *out);

/* The tightest limit of processor time among its cgroups, on all levels; the file that counts how often that stopped them ("": there is none). */
struct proc_quota {
	double cores; /* INFINITY: none */
	char cpu_stat[420];
};
void proc_quota(const char *root, uint32_t pid, struct proc_quota *out);
void proc_throttled(const char *path, struct watch_host *out);

/* Cores that it may run on; PLIM_UNKNOWN: not told. */
uint64_t proc_cores(const char *root, uint32_t pid);

/* A number that processes share which have the same limits: cgroup, mounts, root folder. */
uint64_t proc_place(const char *root, uint32_t pid);

/* The process behind shells and launchers: the only child of one, and so on. */
uint32_t proc_behind_launchers(const char *root, uint32_t pid);

/* Does `pid` descend from `ancestor`, or is it that? */
bool proc_descends(struct proc_files *f, const char *root, uint32_t pid, uint32_t ancestor);

/* RANK and WORLD_SIZE (or Slurm's) of its environment, and a number that ranks of one job share; PLIM_UNKNOWN, 0: not told. */
struct proc_rank {
	uint64_t rank, world, job;
};
void proc_rank(const char *root, uint32_t pid, struct proc_rank *out);

/* Its cgroup's folder below `root`, "" if that is not seen; and how often the kernel killed for memory in such a folder. */
void proc_cgroup(const char *root, uint32_t pid, char *out, size_t room);
uint64_t proc_cgroup_kills(const char *folder);

/*
 * Where this process is, so that others can be said to be there too: in its Slurm job, in a session of its user, in its container, else in
 * its cgroup.  "": nothing sets it apart from others (the root of all cgroups).
 */
struct proc_here {
	char controllers[64], path[320]; /* as a line of /proc/PID/cgroup has them */
};
void proc_here(const char *root, struct proc_here *out);
bool proc_is_here(const char *root, uint32_t pid, const struct proc_here *here);

/* ---- who holds a GPU, by its open files ---- */

enum proc_held { PROC_HELD_NO, PROC_HELD, PROC_HELD_HIDDEN /* its files may not be looked at */ };

/* Has it a GPU of NVIDIA's open, as CUDA does?  Bits of `minors`: which. */
enum proc_held proc_holds(const char *root, uint32_t pid, uint64_t *minors);

#define PROC_HOLDERS 256
struct proc_holders {
	struct proc_holder {
		uint32_t pid;
		bool heir; /* a worker, that has its parent's files */
		uint64_t minors;
	} at[PROC_HOLDERS];
	size_t n;
};
void proc_holders(struct proc_files *f, const char *root, struct proc_holders *out);

/* Are process ids here others than the machine's?  (true: perhaps) */
bool proc_in_container(const char *root);

/* What stat says of a process; false: it is gone. */
bool proc_met(struct proc_files *f, const char *root, uint32_t pid, struct watch_process *out);

/* What people know it as: the script, or the module, or the program; at most `room` bytes.  Where that is not reported, `out` stays, if it has one. */
bool proc_name(const char *root, uint32_t pid, char *out, size_t room);

#endif
