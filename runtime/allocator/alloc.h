/*
 * libplimsoll_alloc.so: an allocator for torch.cuda.memory.CUDAPluggableAllocator (docs/allocator.md).
 *
 * Hooks have PyTorch's signatures.  A request that cannot be met never gives NULL, which PyTorch would take for an address: it throws
 * torch.OutOfMemoryError.  All functions may be called from any thread.  In a forked child requests throw and frees do nothing.
 */
#ifndef ALLOCATOR_ALLOC_H
#define ALLOCATOR_ALLOC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PLIMSOLL_ALLOC_API __attribute__((visibility("default")))

/* c10::cuda::MempoolId_t */
struct plimsoll_pool {
	uint64_t a, b;
};

/* What CUDAPluggableAllocator takes. */
PLIMSOLL_ALLOC_API void *plimsoll_malloc(ssize_t size, int device, void *stream);
PLIMSOLL_ALLOC_API void plimsoll_free(void *at, ssize_t size, int device, void *stream);
PLIMSOLL_ALLOC_API void plimsoll_init(int devices);
PLIMSOLL_ALLOC_API void plimsoll_reset(void);
PLIMSOLL_ALLOC_API void plimsoll_fraction(double fraction, int device);
PLIMSOLL_ALLOC_API void *plimsoll_base(void *at, size_t *size);
PLIMSOLL_ALLOC_API void plimsoll_record_stream(void *at, void *stream);
PLIMSOLL_ALLOC_API void plimsoll_begin(int device, struct plimsoll_pool pool, void *filter);
PLIMSOLL_ALLOC_API void plimsoll_end(int device, struct plimsoll_pool pool);
PLIMSOLL_ALLOC_API void plimsoll_release(int device, struct plimsoll_pool pool);

/* The same for PyTorch 2.1 and 2.2, and for 2.0. */
PLIMSOLL_ALLOC_API void plimsoll_begin_stream(int device, void *stream, struct plimsoll_pool pool);
PLIMSOLL_ALLOC_API void plimsoll_end_stream(int device, void *stream);
PLIMSOLL_ALLOC_API void plimsoll_capture_begin(int device, unsigned long long capture,
					       struct plimsoll_pool pool);
PLIMSOLL_ALLOC_API void plimsoll_capture_end(int device, unsigned long long capture);

/* torch.cuda.memory_stats(): each as all, small_pool, large_pool. */
struct plimsoll_alloc_count {
	uint64_t current, peak, allocated, freed;
};
enum plimsoll_alloc_stat {
	PLIMSOLL_ALLOC_ALLOCATION,
	PLIMSOLL_ALLOC_SEGMENT, /* handles of the driver */
	PLIMSOLL_ALLOC_ACTIVE,
	PLIMSOLL_ALLOC_ALLOCATED_BYTES,
	PLIMSOLL_ALLOC_RESERVED_BYTES, /* mapped */
	PLIMSOLL_ALLOC_ACTIVE_BYTES,   /* allocated, or waiting for another stream */
	PLIMSOLL_ALLOC_REQUESTED_BYTES,
	PLIMSOLL_ALLOC_STATS
};
struct plimsoll_alloc_stats {
	struct plimsoll_alloc_count count[PLIMSOLL_ALLOC_STATS][3];
	uint64_t retries, ooms, device_allocs, device_frees;
	uint64_t moved_bytes, limit_bytes;
	/* requests above 1 MiB: at the place that a plan gives, next to it, planned places that were taken */
	uint64_t plan_hits, plan_misses, plan_conflicts, plan_lost, plan_found, plan_learned;
	uint64_t plan_hit_bytes;
	/* since the beginning: the most that was mapped, and that expandable segments would have reserved (0: not known) */
	uint64_t reserved_most_bytes, expandable_most_bytes;
	uint64_t moved_ns; /* that moves of memory took */
};

/* Zeros for a device that was not used. */
PLIMSOLL_ALLOC_API void plimsoll_alloc_stats(int device, struct plimsoll_alloc_stats *out);
/* torch.cuda.reset_peak_memory_stats(), reset_accumulated_memory_stats() */
PLIMSOLL_ALLOC_API void plimsoll_alloc_reset_peaks(int device);
PLIMSOLL_ALLOC_API void plimsoll_alloc_reset_accumulated(int device);

/* Mapped memory may not exceed this; UINT64_MAX: as far as the GPU goes. */
PLIMSOLL_ALLOC_API void plimsoll_alloc_limit(int device, uint64_t bytes);
PLIMSOLL_ALLOC_API double plimsoll_alloc_fraction(int device);

/* Begin with a plan file; before the first request.  NULL, or what is wrong with it (valid until the next call). */
PLIMSOLL_ALLOC_API const char *plimsoll_alloc_plan(const char *path);

/* What is wrong with a plan file, or NULL (valid until the next call); nothing changes. */
PLIMSOLL_ALLOC_API const char *plimsoll_alloc_check(const char *path);

/* Learning what repeats: on unless switched off here or by PLIMSOLL_ALLOC_LEARN=0; before the first request. */
PLIMSOLL_ALLOC_API void plimsoll_alloc_learn(int on);

/* A row of a snapshot. */
struct plimsoll_alloc_piece {
	uint64_t addr, bytes, requested_bytes, stream;
	uint32_t segment; /* pieces of one mapped range follow each other and have one number */
	uint8_t state;    /* 0 free, 1 allocated, 2 freed and waiting for another stream */
	uint8_t large, planned, pool;
};
/* Fill up to n rows; how many there are. */
PLIMSOLL_ALLOC_API size_t plimsoll_alloc_pieces(int device, struct plimsoll_alloc_piece *out,
						size_t n);

enum plimsoll_alloc_action {
	PLIMSOLL_ALLOC_EVENT_ALLOC,
	PLIMSOLL_ALLOC_EVENT_FREE_REQUESTED,
	PLIMSOLL_ALLOC_EVENT_FREE_COMPLETED,
	PLIMSOLL_ALLOC_EVENT_SEGMENT_MAP,
	PLIMSOLL_ALLOC_EVENT_SEGMENT_UNMAP,
	PLIMSOLL_ALLOC_EVENT_OOM
};
struct plimsoll_alloc_event {
	uint64_t addr, bytes, stream; /* OOM: addr is what was free on the GPU */
	uint64_t time_us;             /* CLOCK_REALTIME */
	uint32_t action, reserved;
};
/* Keep the last n events (0: none, the state at first); device -1: of all, also of those used later; false: no memory. */
PLIMSOLL_ALLOC_API int plimsoll_alloc_record(int device, size_t n);
/* Copy up to n events, oldest first; how many there are. */
PLIMSOLL_ALLOC_API size_t plimsoll_alloc_events(int device, struct plimsoll_alloc_event *out,
						size_t n);

/*
 * All devices that were used, as torch.cuda.memory._dump_snapshot writes them, without stacks: whole or not at all.  NULL, or why
 * not (valid until the thread's next call).
 */
PLIMSOLL_ALLOC_API const char *plimsoll_alloc_dump(const char *path);

/* Is called in the thread whose request was refused, before the exception exists, with no lock held; NULL: no one. */
typedef void (*plimsoll_alloc_observer)(int device, uint64_t requested, uint64_t limit,
					uint64_t device_free);
PLIMSOLL_ALLOC_API void plimsoll_alloc_observe(plimsoll_alloc_observer observer);

/* What is thrown: "torch.OutOfMemoryError", "RuntimeError", or "abort" where PyTorch's libraries are not loaded. */
PLIMSOLL_ALLOC_API const char *plimsoll_alloc_throws(void);

/* For programs without PyTorch, and tests: called instead; what it does must not return, or the request gives NULL. */
PLIMSOLL_ALLOC_API void plimsoll_alloc_on_oom(void (*raise)(const char *text));

#endif
