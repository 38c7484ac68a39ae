/*
 * plimsoll why --here: what bounds host memory on this machine, in this container, for this process,
 * and how near each bound is; who was killed; who holds a GPU.
 *
 * All sizes are bytes.  A number that is not known is PLIM_UNKNOWN and a text that is not known is
 * NULL; JSON shows null for both.  Everything a result points to belongs to the result.  Names
 * (of processes, files, cgroups) are foreign bytes: show them as data.
 */
#ifndef PLIMSOLL_HERE_H
#define PLIMSOLL_HERE_H

#include <plimsoll/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plim_here_flags {
	PLIM_HERE_REDACT = 1 /* no name that is not well known */
};

/* plim_here_options_init sets the defaults; then change what is to be different. */
struct plim_here_options {
	uint32_t size;  /* set by plim_here_options_init */
	uint32_t flags; /* enum plim_here_flags */
	/* whose bounds; PLIM_UNKNOWN: this process's, as children get them */
	uint64_t pid;
	const char *root;          /* where proc, sys and dev lie; NULL: "/". Borrowed */
	uint64_t max_memory_bytes; /* 0: half of this machine's memory, or of the cgroup's */
};
PLIM_API void plim_here_options_init(struct plim_here_options *o);

enum plim_here_state {
	PLIM_HERE_LIMIT_UNKNOWN, /* null */
	PLIM_HERE_LIMIT_NONE,    /* there is no limit */
	PLIM_HERE_LIMIT_SET
};
PLIM_API const char *plim_here_state_name(enum plim_here_state value);

struct plim_here_limit {
	enum plim_here_state state; /* none: there is no limit */
	uint64_t bytes;             /* null: none, or not known */
};

/* Share of the time in which tasks waited for memory; NaN: not known. */
struct plim_here_stall {
	double avg10_pct;  /* of the last 10 seconds */
	double avg60_pct;  /* of the last minute */
	double avg300_pct; /* of the last five minutes */
	uint64_t total_us; /* since the start */
};
struct plim_here_pressure {
	struct plim_here_stall some; /* time in which at least one task waited for memory */
	struct plim_here_stall full; /* time in which all tasks waited at once */
};

/* One level of the path; the process's own cgroup comes first, the root last. */
struct plim_here_cgroup {
	const char *path;           /* as /proc/PID/cgroup shows it */
	uint32_t version;           /* 1 or 2 */
	struct plim_here_limit max; /* memory.max, v1: memory.limit_in_bytes */
	/* memory.high: beyond it the kernel slows and reclaims */
	struct plim_here_limit high;
	struct plim_here_limit swap_max; /* memory.swap.max */
	/* v1: memory.memsw.limit_in_bytes, memory and swap together */
	struct plim_here_limit memsw_max;
	/* memory.current, v1: memory.usage_in_bytes; page cache included */
	uint64_t current_bytes;
	uint64_t peak_bytes;             /* memory.peak, v1: memory.max_usage_in_bytes */
	uint64_t swap_bytes;             /* memory.swap.current, v1: total_swap */
	uint64_t memsw_bytes;            /* v1: memory.memsw.usage_in_bytes */
	uint64_t anon_bytes;             /* memory of processes that is in no file */
	uint64_t file_bytes;             /* page cache, /dev/shm included */
	uint64_t inactive_file_bytes;    /* page cache that is dropped first */
	uint64_t active_file_bytes;      /* page cache that was used again */
	uint64_t shmem_bytes;            /* tmpfs and shared memory: not droppable */
	uint64_t slab_reclaimable_bytes; /* the kernel's own caches; null in v1 */
	/* inactive_file, active_file and slab_reclaimable together */
	uint64_t droppable_bytes;
	/* v1: the smallest limit from here to the root, also where the levels are not visible */
	uint64_t hierarchical_bytes;
	uint64_t high_events;           /* times that memory.high was exceeded */
	uint64_t max_events;            /* times that the limit was reached; v1: failcnt */
	uint64_t oom_events;            /* times that nothing could be reclaimed */
	uint64_t oom_kill_events;       /* processes that the kernel killed, here and below */
	uint64_t oom_group_kill_events; /* times that it killed the whole cgroup */
	uint64_t oom_group;             /* 1: all of the cgroup is killed at once */
	/* v1, 1: processes wait for memory instead of being killed */
	uint64_t oom_kill_disabled;
	struct plim_here_pressure pressure; /* memory.pressure */
};

enum plim_here_overcommit {
	PLIM_HERE_OVERCOMMIT_UNKNOWN, /* null */
	PLIM_HERE_OVERCOMMIT_HEURISTIC,
	PLIM_HERE_OVERCOMMIT_ALWAYS,
	PLIM_HERE_OVERCOMMIT_NEVER
};
PLIM_API const char *plim_here_overcommit_name(enum plim_here_overcommit value);

struct plim_here_machine {
	uint64_t total_bytes; /* MemTotal */
	uint64_t free_bytes;  /* MemFree */
	/* MemAvailable: the kernel's estimate, with droppable cache */
	uint64_t available_bytes;
	uint64_t cached_bytes;           /* Cached, /dev/shm included */
	uint64_t shmem_bytes;            /* Shmem: tmpfs and shared memory, not droppable */
	uint64_t slab_reclaimable_bytes; /* SReclaimable */
	uint64_t swap_total_bytes;       /* SwapTotal */
	uint64_t swap_free_bytes;        /* SwapFree */
	/* CommitLimit; it binds under overcommit never only */
	uint64_t commit_limit_bytes;
	uint64_t committed_bytes;             /* Committed_AS */
	uint64_t hugepages_total;             /* reserved huge pages: no use to ordinary memory */
	uint64_t hugepages_free;              /* of these, unused */
	uint64_t hugepage_bytes;              /* size of one */
	enum plim_here_overcommit overcommit; /* vm.overcommit_memory 0, 1, 2 */
	struct plim_here_pressure pressure;   /* /proc/pressure/memory */
};

struct plim_here_rlimit {
	const char *name;            /* RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK, RLIMIT_CORE */
	struct plim_here_limit soft; /* what binds */
	struct plim_here_limit hard; /* how far it may be raised */
	uint64_t used_bytes;         /* by the process */
};

struct plim_here_files {
	uint64_t soft; /* RLIMIT_NOFILE; null: none, or not known */
	uint64_t hard; /* how far it may be raised */
	uint64_t open; /* files that the process has open */
};

struct plim_here_shm_file {
	const char *name; /* below /dev/shm */
	uint64_t bytes;   /* pages that were written */
};

struct plim_here_shm {
	uint64_t size_bytes; /* of the mount */
	uint64_t used_bytes; /* of it */
	/* in files that have a name; the rest is held open without one */
	uint64_t named_bytes;
	uint64_t file_count;              /* files with a name */
	struct plim_here_shm_file *files; /* the largest 32 */
	size_t shown_count;
};

struct plim_here_oom {
	uint64_t score; /* oom_score: the highest dies first */
	int64_t adjust; /* oom_score_adj, -1000 (never) to 1000 */
};

struct plim_here_process {
	uint64_t pid;         /* as this namespace counts */
	uint64_t parent;      /* its parent */
	const char *name;     /* its name, up to 15 bytes */
	const char *state;    /* R (running), S (sleeping), D (disk sleep), Z (zombie), ... */
	uint64_t rss_bytes;   /* in memory, shared pages counted in each sharer */
	uint64_t anon_bytes;  /* of it: its own */
	uint64_t file_bytes;  /* of it: files, libraries */
	uint64_t shmem_bytes; /* of it: shared memory */
	uint64_t swap_bytes;  /* in swap */
	/* in memory, shared pages divided by their sharers; of the 32 largest processes */
	uint64_t pss_bytes;
	uint64_t locked_bytes;     /* locked in memory */
	uint64_t threads;          /* its threads */
	uint64_t shm_files;        /* files in /dev/shm that it has open */
	uint64_t shm_unlinked;     /* of these, without a name */
	struct plim_here_oom *oom; /* of the 32 largest processes */
};

/* Someone who has a GPU's device file open. */
struct plim_here_holder {
	const char *device;    /* the device file: /dev/nvidia0 */
	uint64_t pid;          /* who has it open */
	uint64_t parent;       /* its parent */
	const char *name;      /* its name */
	const char *state;     /* as of the process */
	bool zombie;           /* its first thread has ended, another one still holds the GPU */
	const char *container; /* first 12 digits of its container's id; null: in none that shows */
};

/* A process that the kernel's out-of-memory killer took. */
struct plim_here_kill {
	uint64_t pid;           /* as the machine counts, also inside a container */
	const char *name;       /* as the kernel log shows it */
	uint64_t ago_s;         /* before now */
	const char *bound;      /* cgroup, machine, cpuset or policy; null: the log does not say */
	const char *cgroup;     /* whose limit was reached; null: not known, or the machine's */
	uint64_t virtual_bytes; /* its address space */
	uint64_t anon_bytes;    /* its own memory */
	uint64_t file_bytes;    /* its files */
	uint64_t shmem_bytes;   /* its shared memory */
};

enum plim_here_kind {
	PLIM_HERE_CGROUP,       /* memory.max, memory.limit_in_bytes */
	PLIM_HERE_CGROUP_HIGH,  /* memory.high */
	PLIM_HERE_CGROUP_MEMSW, /* memory.memsw.limit_in_bytes */
	PLIM_HERE_CGROUP_ABOVE, /* v1: a limit of a level that is not visible */
	PLIM_HERE_MACHINE,      /* MemAvailable */
	PLIM_HERE_COMMIT_LIMIT, /* CommitLimit, under overcommit mode 2 */
	PLIM_HERE_RLIMIT_AS,    /* RLIMIT_AS */
	PLIM_HERE_RLIMIT_DATA,  /* RLIMIT_DATA */
	PLIM_HERE_DEV_SHM       /* /dev/shm */
};
PLIM_API const char *plim_here_kind_name(enum plim_here_kind value);

enum plim_here_effect {
	PLIM_HERE_KILLED,   /* the kernel kills a process with SIGKILL */
	PLIM_HERE_HANGS,    /* v1 with oom_kill_disable: processes wait for memory */
	PLIM_HERE_SLOWED,   /* the kernel makes the cgroup wait and reclaim */
	PLIM_HERE_REFUSED,  /* malloc and mmap fail: MemoryError, bad_alloc */
	PLIM_HERE_BUS_ERROR /* writing to a mapping ends in SIGBUS, write() in ENOSPC */
};
PLIM_API const char *plim_here_effect_name(enum plim_here_effect value);

/*
 * One bound on memory.  free = limit - used; room = free + droppable is what can still be taken
 * before `effect`, at most: not every page of droppable cache is cheap to drop.  Swap comes on top.
 * Where the use is not known, room is all of the limit, and at_most is set.
 */
struct plim_here_bound {
	enum plim_here_kind kind; /* cgroup_above: a v1 limit of a level that is not visible */
	/*
	 * what reaching it does: killed (SIGKILL by the kernel), hangs, slowed, refused (malloc
	 * fails), bus_error (SIGBUS)
	 */
	enum plim_here_effect effect;
	const char *where;    /* a cgroup's path, machine, /dev/shm, RLIMIT_AS, ... */
	uint64_t limit_bytes; /* the bound */
	uint64_t used_bytes;  /* of it, now */
	uint64_t free_bytes;  /* limit less used; 0 when it is exceeded */
	/* of used: page cache and slab on the kernel's lists to be dropped, at most */
	uint64_t droppable_bytes;
	/* free and droppable: what can still be taken, at most, without swap */
	uint64_t room_bytes;
	/* free swap that comes on top; null: it does not, or not known */
	uint64_t swap_room_bytes;
	bool at_most; /* not all of its use is known: there may be less room */
};

/* What could not be seen. */
struct plim_here_unseen {
	const char *what; /* what could not be seen */
	const char *why;  /* why */
};

struct plim_here {
	uint64_t pid;     /* the process whose bounds these are */
	const char *name; /* its name */
	/* the bound on memory with the least room; null: none is known */
	struct plim_here_bound *headroom;
	/* the bound on files in /dev/shm with the least room; null: none is known */
	struct plim_here_bound *shared;
	struct plim_here_bound *bounds; /* all, the least room first */
	size_t bound_count;
	struct plim_here_machine machine; /* the whole machine */
	struct plim_here_cgroup *cgroups; /* the process's own first, the root last */
	size_t cgroup_count;
	struct plim_here_shm shm;         /* /dev/shm */
	struct plim_here_rlimit *rlimits; /* limits of the process */
	size_t rlimit_count;
	struct plim_here_files open_files; /* its limit of open files, a number */
	/* the process and all below it, or (none was named) all; the largest first */
	struct plim_here_process *processes;
	size_t process_count;
	struct plim_here_holder *holders; /* who has a GPU's device file open */
	size_t holder_count;
	uint64_t unread_processes; /* visible processes whose open files may not be read */
	/* by the out-of-memory killer, the newest first, at most 64 */
	struct plim_here_kill *kills;
	size_t kill_count;
	const char **notes; /* what else matters */
	size_t note_count;
	struct plim_here_unseen *unseen; /* what could not be seen, and why */
	size_t unseen_count;
	struct plim_here_hidden *hidden;
};

/*
 * Look around once; needs no privileges.  What cannot be seen is reported in `unseen` and is not an error.
 * PLIM_E_ARG: there is no process `pid`; PLIM_E_IO: `root` has no proc; PLIM_E_NOMEM, PLIM_E_LIMIT.
 */
PLIM_API enum plim_status plim_here_open(const struct plim_here_options *options,
					 struct plim_here **out, struct plim_err *err);
PLIM_API void plim_here_free(struct plim_here *h);

/* As JSON, schema here/2 (docs/json.md), and as text for a person. */
PLIM_API enum plim_status plim_here_json(const struct plim_here *h, plim_write_fn *write, void *ctx,
					 struct plim_err *err);
PLIM_API enum plim_status plim_here_text(const struct plim_here *h,
					 const struct plim_text_style *style, plim_write_fn *write,
					 void *ctx, struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
