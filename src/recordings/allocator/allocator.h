/*
 * PyTorch's caching allocator, three ways: its rules; a recording replayed at its own addresses, which
 * yields the true size of every block (a request is rounded, and sometimes handed a whole free block)
 * and proves itself by the blocks that the snapshot shows; and a model that makes the allocator's
 * decisions itself, for the same requests under other settings.
 * Constants and rules: PyTorch's c10/cuda/CUDACachingAllocator.cpp, releases 2.1 to 2.11.
 */
#ifndef ALLOCATOR_ALLOCATOR_H
#define ALLOCATOR_ALLOCATOR_H

#include "cycles_file.h"

#include "program/program.h"

#include <plimsoll/whatif.h>

#define ALLOCATOR_MIN_BLOCK 512u            /* every block is a multiple of this */
#define ALLOCATOR_SMALL_SIZE (1u << 20)     /* a rounded size up to this uses the small pool */
#define ALLOCATOR_SMALL_SEGMENT (2u << 20)  /* what the small pool asks of the driver */
#define ALLOCATOR_LARGE_SEGMENT (20u << 20) /* large_segment_size_mb, unless set */
#define ALLOCATOR_MIN_LARGE (10u << 20)
#define ALLOCATOR_ROUND_LARGE (2u << 20) /* larger requests are rounded to this */

/* What differs between PyTorch releases, where this model knows of it (rules.c has the table). */
struct allocator_release {
	uint16_t since;         /* 100 * major + minor */
	uint8_t roundup_of_one; /* divisions of 1 leave a size as it is, not even 512-aligned */
	uint8_t no_private_expandable; /* private pools use cudaMalloc whatever the setting says */
	uint8_t split_above_20;        /* max_split_size_mb must be more than 20, not at least */
	uint8_t rest_includes_last; /* `>:d` of a roundup list also replaces the last one listed */
};

/* The newest row that is not newer than `release`; 0: the newest of all. */
const struct allocator_release *allocator_release_of(unsigned release);

/* Settings as PYTORCH_CUDA_ALLOC_CONF gives them, for one release. */
struct allocator_rules {
	uint64_t max_split_bytes;             /* UINT64_MAX: unlimited */
	uint64_t max_nonsplit_rounding_bytes; /* an oversize block may exceed its request by less */
	uint64_t large_segment_bytes;         /* what requests below ALLOCATOR_MIN_LARGE ask for */
	double gc_threshold;                  /* of the limit; 0: off */
	double memory_fraction;               /* of the device; 0: not set */
	uint32_t roundup_divisions[TRACE_ROUNDUP_ENTRIES];
	uint8_t expandable;
	uint8_t not_modelled; /* backend:cudaMallocAsync: another allocator */
	const struct allocator_release *release;
};

struct allocator_rules allocator_rules_default(unsigned release);

/* What a recording was made with; `release` 0: as its keys tell. */
struct allocator_rules allocator_rules_of(const struct snapshot *t, unsigned release);

/* The oldest release that writes the keys this recording has. */
unsigned allocator_release_from_keys(const struct snapshot *t);

/*
 * Read a PYTORCH_CUDA_ALLOC_CONF string as that release does, over defaults.  Errors (PLIM_E_ARG)
 * name the key and what it takes; an unknown key lists the known ones.
 */
enum plim_status allocator_rules_parse(const char *conf, unsigned release,
				       struct allocator_rules *out, struct plim_err *err);

/* What a request becomes: a multiple of 512, or of the power-of-two division that is set. */
uint64_t allocator_round(const struct allocator_rules *r, uint64_t requested_bytes);

/* What the driver is asked for when no free block fits a rounded size (get_allocation_size). */
uint64_t allocator_segment_bytes(const struct allocator_rules *r, uint64_t rounded_bytes);

/* torch.cuda.memory_stats(): each as all, small_pool, large_pool. */
enum allocator_stat {
	ALLOCATOR_ALLOCATION, /* counts */
	ALLOCATOR_SEGMENT,
	ALLOCATOR_ACTIVE,
	ALLOCATOR_INACTIVE_SPLIT,
	ALLOCATOR_ALLOCATED_BYTES,
	ALLOCATOR_RESERVED_BYTES,
	ALLOCATOR_ACTIVE_BYTES,
	ALLOCATOR_INACTIVE_SPLIT_BYTES,
	ALLOCATOR_REQUESTED_BYTES,
	ALLOCATOR_OVERSIZE_ALLOCATIONS, /* PyTorch has no small and large ones of these two */
	ALLOCATOR_OVERSIZE_SEGMENTS,
	ALLOCATOR_STATS
};

struct allocator_stats {
	struct allocator_count {
		uint64_t current, peak, allocated, freed;
	} count[ALLOCATOR_STATS][3];
	uint64_t retries; /* num_alloc_retries: full releases that a request led to */
	uint64_t ooms, device_allocs, device_frees;
};

/* Free memory that a request could not have, because it is another pool's, or another stream's. */
struct allocator_apart {
	uint64_t free_bytes;
	uint64_t wholly_free_bytes; /* of it, in segments that nothing lives in */
	uint32_t owners;            /* pools, or streams, that have some of it */
	uint32_t owner; /* that has the most: into trace.pools, or trace.streams; of 0 bytes 0 */
	uint64_t owner_bytes;
	uint64_t kept_bytes; /* live in the owner's segments that have free memory */
	uint32_t stack; /* that made most of these; of none: most of the segments; TRACE_NONE */
};

/* The free memory when a request failed, after the allocator had given back what it could. */
struct allocator_oom {
	uint32_t event;
	uint32_t
		pool; /* of the request, into trace.pools; TRACE_NONE: the recording does not say */
	uint64_t
		largest_free_bytes; /* the largest free block that this stream and pool could use */
	uint64_t free_bytes;        /* free in all blocks of all pools and streams */
	struct allocator_apart pools,
		streams; /* what of it is another pool's; the same pool's, but another stream's */
};

/* How one device's recording plays at its own addresses. */
struct allocator_replay {
	struct mem *mem;
	struct allocator_rules rules; /* the recording's own */
	size_t n;
	uint64_t *block_bytes; /* of each allocation of the trace, n of them */
	/* before the first event; 0 in a recording that began with the process */
	uint64_t allocated_before_bytes, active_before_bytes, requested_before_bytes;
	/*
	 * A block that was handed out whole before a cut recording began can be larger than its rounded
	 * request by up to 1 MiB, and nothing later shows it.  All of these together: allocated and
	 * active bytes may be larger by at most this.
	 */
	uint64_t range_bytes;
	uint64_t checked_events;        /* alloc, free and segment events that were replayed */
	uint64_t faults;                /* of these, the ones that the rules cannot explain */
	uint32_t first_fault;           /* event, or TRACE_NONE */
	uint64_t end_faults;            /* final blocks that came out different */
	VEC(struct allocator_oom) ooms; /* in turn */
};

enum plim_status allocator_replay_own(struct mem *m, const struct snapshot *t,
				      const struct snapshot_device *d,
				      struct allocator_replay **out, struct plim_err *err);
void allocator_replay_free(struct allocator_replay *r);

/*
 * The same requests under other settings: the recording is first explained with its own (every event
 * predicted from the ones before, given the addresses that the driver gave), then run again.
 */

/*
 * Where a new segment lies, which decides between free blocks of one size.
 *
 * What the recording shows comes first: the k-th segment of a size goes where the k-th of that size went,
 * unless another one is there.  Beyond that it is as CUDA does on Linux in the recordings measured (driver
 * 580, H100 and H200): address space comes in chunks of 32 MiB from above downwards; a segment of up to half
 * a chunk goes behind another one where its last chunk has room.  Which such place it takes depends on what
 * else the process keeps there, and that is not recorded: hence several ways.
 */
enum allocator_way {
	ALLOCATOR_RECORDED, /* where the recording has it, else the lowest */
	ALLOCATOR_LOWEST,   /* the lowest place with room */
	ALLOCATOR_HIGHEST,  /* the highest one */
	ALLOCATOR_TIGHTEST, /* the one with the least room left over */
	ALLOCATOR_APART,    /* a chunk of its own */
	ALLOCATOR_RISING, /* consecutive addresses, not aligned to 32 MiB, as when a freed region is filled */
	ALLOCATOR_WAYS
};

/*
 * How many of the ways, from the first on, may be a recording's: ALLOCATOR_RISING only where two large segments
 * lie one behind the other and not as chunks, which such a hole alone explains.
 */
unsigned allocator_ways(const struct snapshot_device *d);

/* How far the model gives the recording back. */
struct allocator_check {
	uint64_t events;      /* alloc, free, oom and segment events that were compared */
	uint32_t diverged_at; /* the first event that came out different; TRACE_NONE: none */
	uint64_t
		limit_bytes; /* that the recording's garbage collection went by; UINT64_MAX: none */
	uint64_t empty_caches;        /* calls that the recording shows by what they released */
	struct allocator_stats stats; /* of the model, up to there */
};

/*
 * The program of a device's recording, with the calls of empty_cache() that only a replay can find.
 * `replay` is the recording's own, whose rules it goes by.  Free *out with program_free.
 */
enum plim_status allocator_explain(struct mem *m, const struct snapshot *t,
				   const struct snapshot_device *d,
				   const struct allocator_replay *replay, struct program **out,
				   struct allocator_check *check, struct plim_err *err);

struct allocator_bounds {
	uint64_t limit_bytes;    /* set_per_process_memory_fraction; UINT64_MAX: none */
	uint64_t capacity_bytes; /* what the driver has for this process; UINT64_MAX: enough */
	uint64_t device_bytes;   /* size of the GPU, for address space; 0: 80 GiB is assumed */
};

struct allocator_outcome {
	int failed; /* a request that it cannot do without */
	uint32_t
		oom_event; /* which; TRACE_NONE also: one that was there before the recording began */
	uint64_t oom_request_bytes;
	struct allocator_stats stats;
	/* cuDNN goes on with less where a workspace is refused; what it then asks for is not known */
	uint64_t refused_workspaces;
	uint64_t unrefused_peak_bytes; /* reserved, until the first of them */
};

/* What PyTorch would record. */
struct allocator_event {
	enum snapshot_action action; /* alloc, free_*, segment_*, oom */
	uint64_t addr, bytes;        /* bytes as in the trace: unrounded of alloc and free_* */
	uint32_t request;            /* of alloc, free_* and oom, else TRACE_NONE */
	uint32_t block_pool;         /* pool * 2 + whether it is the one of large blocks */
	uint32_t op;                 /* of the program */
	uint16_t stream;
};

/* A block at the end. */
struct allocator_block {
	uint64_t segment_addr; /* where the segment, or the mapped range that it lies in, begins */
	uint64_t addr, bytes, requested_bytes;
	uint32_t request; /* TRACE_NONE: free */
	uint32_t block_pool;
	uint16_t stream;
	uint8_t pending, expandable;
};

struct allocator_run {
	const struct allocator_rules *rules;
	struct allocator_bounds bounds;
	enum allocator_way way;
	const struct snapshot_device *device; /* whose places ALLOCATOR_RECORDED follows */
	void *self;                           /* for the two below, which may be NULL */
	void (*event)(void *self, const struct allocator_event *event);
	void (*block)(void *self,
		      const struct allocator_block *block); /* by address in a segment */
	/* at each PROGRAM_PHASE; may be NULL.  Peaks count from there on, as after reset_peak_memory_stats() */
	void (*phase)(void *self, uint32_t number, const struct allocator_stats *stats);
};

/* Run a program. */
enum plim_status allocator_run(struct mem *m, const struct program *p,
			       const struct allocator_run *how, struct allocator_outcome *out,
			       struct plim_err *err);

/* A run with libplimsoll_alloc.so's allocator (vmm.h) in place of PyTorch's. */
struct allocator_vmm {
	struct allocator_bounds bounds;
	const void *
		plan_bytes; /* a plan file, plan_n bytes; NULL: what repeats is learned on the way, as it is with a plan */
	size_t plan_n;
	int waits_long; /* a wait for a stream takes 30 ms, not 4 */
	cycles_bytes *
		learned; /* appended: the plan file of what was known at the end; NULL: not wanted */
};

/*
 * As a process would run it.  Of the statistics it fills reserved, allocated, active, retries (waits that moved memory) and
 * calls of the driver.  PLIM_E_FORMAT: the plan is none.
 */
enum plim_status allocator_run_vmm(struct mem *m, const struct program *p,
				   const struct allocator_vmm *how, struct allocator_outcome *out,
				   struct plim_err *err);

/* A program up to an op. */
struct allocator_reach {
	uint32_t end;          /* ops */
	uint64_t low_bytes;    /* no limit below it does (the peak of what is asked for, say) */
	uint64_t needed_bytes; /* is filled: the smallest limit under which it goes so far */
};

/*
 * The same where memory is ample, and what is needed to go to one end or two of a program, the last of which is its own.
 * What needs more than `most_bytes` needs UINT64_MAX.  Of `how` the limit and the capacity count for nothing; phases
 * are of the ample run; events and blocks are not given.
 */
enum plim_status allocator_find_needed(struct mem *m, const struct program *p,
				       const struct allocator_run *how,
				       struct allocator_reach *reaches, size_t n,
				       uint64_t most_bytes, struct allocator_outcome *out,
				       struct plim_err *err);

/*
 * The lowest of several offline packings of all requests into one piece of memory, in blocks of 512
 * bytes: about as little as any allocator that knows the future could do with.  The peak of live
 * bytes is the bound from below.
 */
enum plim_status allocator_pack(struct mem *m, const struct program *p, uint64_t *peak_bytes,
				struct plim_err *err);

/* ---- one setting, judged ---- */

/* What is run: PyTorch's allocator by these rules, or libplimsoll_alloc.so's. */
struct allocator_trial {
	struct allocator_rules rules;
	const struct snapshot_device *device; /* that was recorded: where its segments lay */
	int own_allocator;                    /* libplimsoll_alloc.so; with a plan or without */
	int waits_long;                       /* of it, as in struct allocator_vmm */
	int as_recorded; /* it happened so: how soon other streams were done with memory is known */
	const void *plan_bytes;
	size_t plan_n;
};

/* By a limit of PyTorch's own, or by what the GPU has; PLIM_UNKNOWN: by nothing. */
struct allocator_bounds allocator_bounds_of(uint64_t bytes, int card);

/* Rules of a PYTORCH_CUDA_ALLOC_CONF string for the release that recorded, or for `torch`.  PLIM_E_ARG: it is none. */
enum plim_status allocator_rules_for(const struct snapshot *t, const char *settings, unsigned torch,
				     struct allocator_rules *rules, struct plim_err *err);

/* One run at one placement. */
enum plim_status allocator_try(struct mem *m, const struct program *p,
			       const struct allocator_trial *trial,
			       const struct allocator_bounds *bounds, unsigned way,
			       struct allocator_outcome *out, struct plim_err *err);

/*
 * Outcome, whether it is certain, what is reserved: at all placements, and with what differs between runs: other streams are done
 * with dropped memory at once, or take twice as long, and waits of libplimsoll_alloc.so take longer.  The smallest limit is not
 * looked for.
 */
enum plim_status allocator_judge(struct mem *m, const struct program *p,
				 const struct allocator_trial *trial,
				 const struct allocator_bounds *bounds, struct plim_whatif_run *run,
				 struct plim_err *err);

/* What people set first; where a run died, the first of them that survives is advised. */
#define ALLOCATOR_FIRST_SETTINGS 2
extern const char *const allocator_first_settings[ALLOCATOR_FIRST_SETTINGS];

/* How libplimsoll_alloc.so is called among settings: as it comes, which learns on the way, and with a plan's file. */
extern const char *const allocator_own_names[2];

/* ---- many settings, and which is best ---- */

/* What is searched, and where it is reported. */
struct allocator_search {
	struct mem *mem;
	struct arena *arena; /* of the result's texts and runs */
	const struct snapshot *snapshot;
	const struct snapshot_device *device; /* that is run again */
	const struct allocator_rules *own;    /* that it was recorded with */
	const struct program *program;        /* what it asked for; _take does without */
	const struct plim_whatif_options *options;
	struct snapshot_platform platform; /* _take fills it */
	int card;                /* the bound is the GPU's, not a limit of PyTorch's own */
	struct plim_whatif *out; /* in: bound, floor; out: as_recorded, runs, plan_requests */
	cycles_bytes plan;       /* file of what repeats; empty: _learn was not called */
	size_t not_tried;        /* runs for which the time was over */
};

/* The settings that are to be tried, as runs.  PLIM_E_ARG: one that was given is none. */
enum plim_status allocator_search_take(struct allocator_search *s, struct plim_err *err);

/* Make the plan of libplimsoll_alloc.so for the program. */
enum plim_status allocator_search_learn(struct allocator_search *s, struct plim_err *err);

/* Do all runs; those for which there was no time are cut off. */
enum plim_status allocator_search_run(struct allocator_search *s, struct plim_err *err);

/* Runs from best to worst, run_count of them, in `order`. */
void allocator_search_rank(const struct plim_whatif *w, const struct plim_whatif_run **order);

/* The run that is worth a change of settings; *out NULL: none is. */
enum plim_status allocator_search_best(const struct plim_whatif *w, struct arena *arena,
				       const struct plim_whatif_run **out, struct plim_err *err);

/* Rules of a PYTORCH_CUDA_ALLOC_CONF string, or of the recording itself (NULL). */
enum plim_status allocator_search_rules(const struct allocator_search *s, const char *settings,
					struct allocator_rules *rules, struct plim_err *err);

/* How a run is bounded: by a limit of PyTorch's own, or by what the GPU has. */
struct allocator_bounds allocator_search_bounds(const struct allocator_search *s,
						uint64_t limit_bytes);

#endif
