/*
 * plimsoll why --here: what bounds host memory on this machine, in this container, for this process,
 * and how near each bound is; who was killed; who holds a card.
 *
 * All sizes are bytes.  A number that is not known is PLIM_UNKNOWN and a text that is not known is
 * NULL; JSON shows null for both.  Everything a result points to belongs to the result.  Names
 * (of processes, files, cgroups) are foreign bytes: show them as data.
 */
#ifndef PLIMSOLL_HERE_H
#define PLIMSOLL_HERE_H

#include <plimsoll/report.h>

enum plim_here_flags {
	PLIM_HERE_REDACT = 1 /* no name that is not well known */
};

/* plim_here_options_init sets the defaults; then change what is to be different. */
struct plim_here_options {
	uint32_t size;    /* set by plim_here_options_init */
	uint32_t flags;   /* enum plim_here_flags */
	uint64_t pid;     /* whose bounds; PLIM_UNKNOWN: this process's, as children get them */
	const char *root; /* where proc, sys and dev lie; NULL: "/".  Borrowed */
	uint64_t max_memory_bytes; /* 0: half of this machine's memory, or of the cgroup's */
};
PLIM_API void plim_here_options_init(struct plim_here_options *o);

enum plim_here_state { PLIM_HERE_NOT_KNOWN, PLIM_HERE_NO_LIMIT, PLIM_HERE_LIMITED };

struct plim_here_limit {
	enum plim_here_state state;
	uint64_t bytes; /* PLIM_UNKNOWN unless PLIM_HERE_LIMITED */
};

/* Share of the time in which tasks waited for memory; NaN: not known. */
struct plim_here_stall {
	double avg10_pct, avg60_pct, avg300_pct;
	uint64_t total_us;
};
struct plim_here_pressure {
	struct plim_here_stall some, full; /* at least one task; all of them at once */
};

/* One level of the path; the process's own cgroup comes first, the root last. */
struct plim_here_cgroup {
	const char *path;
	uint32_t version; /* 1 or 2 */
	struct plim_here_limit max, high, swap_max;
	struct plim_here_limit memsw_max; /* v1: memory and swap together */
	uint64_t current_bytes, peak_bytes, swap_bytes, memsw_bytes;
	uint64_t anon_bytes, file_bytes, inactive_file_bytes, active_file_bytes, shmem_bytes,
		slab_reclaimable_bytes;
	uint64_t droppable_bytes;    /* page cache and slab that the kernel can drop */
	uint64_t hierarchical_bytes; /* v1: the smallest limit from here to the real root */
	uint64_t high_events, max_events, oom_events, oom_kill_events, oom_group_kill_events;
	uint64_t oom_group;         /* 1: the kernel kills all of the cgroup at once */
	uint64_t oom_kill_disabled; /* v1, 1: processes wait instead of being killed */
	struct plim_here_pressure pressure;
};

enum plim_here_overcommit {
	PLIM_HERE_OVERCOMMIT_UNKNOWN,
	PLIM_HERE_OVERCOMMIT_HEURISTIC,
	PLIM_HERE_OVERCOMMIT_ALWAYS,
	PLIM_HERE_OVERCOMMIT_NEVER
};

struct plim_here_machine {
	uint64_t total_bytes, free_bytes, available_bytes;
	uint64_t cached_bytes, shmem_bytes, slab_reclaimable_bytes;
	uint64_t swap_total_bytes, swap_free_bytes;
	uint64_t commit_limit_bytes, committed_bytes;
	uint64_t hugepages_total, hugepages_free; /* pages of hugepage_bytes */
	uint64_t hugepage_bytes;
	enum plim_here_overcommit overcommit;
	struct plim_here_pressure pressure;
};

struct plim_here_rlimit {
	const char *name; /* "RLIMIT_AS" */
	struct plim_here_limit soft, hard;
	uint64_t used_bytes; /* of what it counts; PLIM_UNKNOWN: not known, or nothing is counted */
};

struct plim_here_files {
	uint64_t soft, hard, open; /* RLIMIT_NOFILE; limits without an end are PLIM_UNKNOWN too */
};

struct plim_here_shm_file {
	const char *name; /* below /dev/shm */
	uint64_t bytes;
};

struct plim_here_shm {
	uint64_t size_bytes, used_bytes;
	uint64_t named_bytes; /* of used: in files that have a name */
	uint64_t file_count;
	struct plim_here_shm_file *files; /* the largest, at most 32 */
	size_t shown_count;
};

struct plim_here_oom {
	uint64_t score; /* the highest dies first */
	int64_t adjust; /* -1000 (never) to 1000 */
};

struct plim_here_process {
	uint64_t pid, parent;
	const char *name;
	const char *state; /* as /proc tells it: "S (sleeping)" */
	uint64_t rss_bytes, anon_bytes, file_bytes, shmem_bytes, swap_bytes;
	uint64_t pss_bytes; /* shared pages divided by their sharers; of the 32 largest only */
	uint64_t locked_bytes, threads;
	uint64_t shm_files, shm_unlinked; /* open files in /dev/shm; of these, without a name */
	struct plim_here_oom *oom;        /* NULL: not read; of the 32 largest only */
};

/* Somebody who has a card's device file open. */
struct plim_here_holder {
	const char *device; /* "/dev/nvidia0" */
	uint64_t pid, parent;
	const char *name, *state;
	bool zombie;           /* its first thread has ended, others still hold the card */
	const char *container; /* id, from its cgroup; NULL: in none that shows */
};

/* A process that the kernel's out-of-memory killer took. */
struct plim_here_kill {
	uint64_t pid; /* as the machine counts, also inside a container */
	const char *name;
	uint64_t ago_s;
	const char
		*bound; /* "cgroup", "machine", "cpuset", "policy"; NULL: the line does not tell */
	const char *cgroup; /* whose limit it was; NULL: the machine's, or not told */
	uint64_t virtual_bytes, anon_bytes, file_bytes, shmem_bytes;
};

enum plim_here_kind {
	PLIM_HERE_CGROUP,        /* memory.max, memory.limit_in_bytes */
	PLIM_HERE_CGROUP_HIGH,   /* memory.high */
	PLIM_HERE_CGROUP_MEMSW,  /* memory.memsw.limit_in_bytes */
	PLIM_HERE_CGROUP_ABOVE,  /* v1: a limit of a level that is not visible */
	PLIM_HERE_MACHINE,       /* MemAvailable */
	PLIM_HERE_COMMIT,        /* CommitLimit, under overcommit mode 2 */
	PLIM_HERE_ADDRESS_SPACE, /* RLIMIT_AS */
	PLIM_HERE_DATA,          /* RLIMIT_DATA */
	PLIM_HERE_SHM            /* /dev/shm */
};

enum plim_here_effect {
	PLIM_HERE_KILLED,  /* the kernel kills a process with SIGKILL */
	PLIM_HERE_HANGS,   /* v1 with oom_kill_disable: processes wait for memory */
	PLIM_HERE_SLOWED,  /* the kernel makes the cgroup wait and reclaim */
	PLIM_HERE_REFUSED, /* malloc and mmap fail: MemoryError, bad_alloc */
	PLIM_HERE_BUS      /* writing to a mapping ends in SIGBUS, write() in ENOSPC */
};

/*
 * One bound on memory.  free = limit - used; room = free + droppable is what can still be taken
 * before `effect`, at most: not every page of droppable cache is cheap to drop.  Swap comes on top.
 * Where the use is not known, room is all of the limit, and at_most is set.
 */
struct plim_here_bound {
	enum plim_here_kind kind;
	enum plim_here_effect effect;
	const char *where; /* the cgroup's path, "machine", "/dev/shm", "RLIMIT_AS" */
	uint64_t limit_bytes, used_bytes, free_bytes, droppable_bytes, room_bytes;
	uint64_t swap_room_bytes; /* 0: none; PLIM_UNKNOWN: not known, or swap does not help */
	bool at_most;             /* not all of its use is known: there may be less room */
};

/* What could not be seen. */
struct plim_here_unseen {
	const char *what, *why;
};

struct plim_here {
	uint64_t pid;
	const char *name;                 /* of that process */
	struct plim_here_bound *headroom; /* the least room of all that end in death or refusal */
	struct plim_here_bound *shared;   /* the same for files and tensors in /dev/shm */
	struct plim_here_bound *bounds;   /* all, the least room first */
	size_t bound_count;
	struct plim_here_machine machine;
	struct plim_here_cgroup *cgroups;
	size_t cgroup_count;
	struct plim_here_shm shm;
	struct plim_here_rlimit *rlimits;
	size_t rlimit_count;
	struct plim_here_files open_files;
	struct plim_here_process *processes; /* the process and all below it, or all there are;
					      * the largest first */
	size_t process_count;
	struct plim_here_holder *holders;
	size_t holder_count;
	uint64_t unread_processes;    /* visible ones whose open files may not be read */
	struct plim_here_kill *kills; /* the newest first, at most 64 */
	size_t kill_count;
	const char **notes;
	size_t note_count;
	struct plim_here_unseen *unseen;
	size_t unseen_count;
	struct plim_here_hidden *hidden;
};

/*
 * Look around once; needs no privileges.  What cannot be seen is told in `unseen` and is no error.
 * PLIM_E_ARG: there is no process `pid`; PLIM_E_IO: `root` has no proc; PLIM_E_NOMEM, PLIM_E_LIMIT.
 */
PLIM_API enum plim_status plim_here_open(const struct plim_here_options *options,
					 struct plim_here **out, struct plim_err *err);
PLIM_API void plim_here_free(struct plim_here *h);

/* As JSON, schema here/1 (docs/json.md), and as text for a person. */
PLIM_API enum plim_status plim_here_json(const struct plim_here *h, plim_write_fn *write, void *ctx,
					 struct plim_err *err);
PLIM_API enum plim_status plim_here_text(const struct plim_here *h,
					 const struct plim_text_style *style, plim_write_fn *write,
					 void *ctx, struct plim_err *err);

/* The fields of the JSON as Markdown rows, for docs/json.md; and the structs' layout. */
PLIM_API enum plim_status plim_here_fields(int layout, plim_write_fn *write, void *ctx,
					   struct plim_err *err);

#endif
