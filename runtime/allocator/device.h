/* One GPU of the process: its heap under a lock, streams that still use what was freed, counters. */
#ifndef ALLOCATOR_DEVICE_H
#define ALLOCATOR_DEVICE_H

#include "alloc.h"
#include "allocator/vmm.h"
#include "gpu/cuda.h"

#include <pthread.h>
#include <stdatomic.h>

/* A freed block that another stream still uses. */
struct pending {
	uint64_t addr;
	void *event; /* NULL: a capture was under way; recorded when it ends */
	void *stream;
};

/* Tensor.record_stream: who else uses a block. */
struct user {
	uint64_t addr;
	void *stream;
};

struct pool_uses {
	uint64_t key;
	uint32_t captures;
};

struct device {
	pthread_mutex_t lock;
	int ordinal, handle; /* CUdevice */
	_Atomic int ready;
	void *context;
	struct mem mem;
	struct vmm vmm;
	struct cuda_memory memory; /* what is asked for */
	struct cuda_access
		*access; /* who may read and write it: itself, and peers that are in use */
	size_t accesses;
	int captures;          /* under way */
	uint64_t capture_pool; /* of the last begin */
	uint64_t total_bytes;
	double fraction;
	uint64_t limit_bytes;    /* set; UINT64_MAX: none */
	struct addr_map used_by; /* address -> entries of `users`, or of `pending` */
	VEC(struct user) users;
	VEC(struct pending) pending;
	VEC(void *) events; /* to be used again */
	VEC(struct pool_uses) pools;
	struct plimsoll_alloc_stats stats;
	struct plimsoll_alloc_event *ring;
	size_t ring_size;
	uint64_t ring_at;
};

struct process {
	struct cuda cuda;
	const char *unusable; /* why there is no driver; NULL: there is */
	int devices;
	struct device *device; /* `devices` of them */
	struct cycles_plan plan;
	int has_plan, learns;
	_Atomic int forked;
	void (*on_oom)(const char *text);
	plimsoll_alloc_observer observer;
	const char *oom_dir;  /* where a snapshot goes at a failure; NULL: nowhere */
	uint64_t limit_bytes; /* of each device */
	size_t entries;       /* kept of each device from its first request on */
};

extern struct process process;

/* The device, ready and with its context current in this thread; NULL with why in *text. */
struct device *device_get(int ordinal, char *text, size_t n);

/* Under the lock.  0: out of memory. */
uint64_t device_malloc(struct device *d, uint64_t bytes, void *stream);
void device_free(struct device *d, uint64_t addr);
/* Completed uses of other streams; `all`: wait for each, which releases the lock meanwhile. */
void device_settle(struct device *d, int all);
void device_capture_ended(struct device *d);
void device_set_limit(struct device *d);

/* The numbers of an out-of-memory text, as PyTorch begins it; what is free on the GPU. */
uint64_t device_tell_oom(struct device *d, uint64_t bytes, char *text, size_t n);

/* The device that was used already, or NULL; also in a forked child. */
struct device *device_ready(int ordinal);
/* The same, locked; NULL in a forked child: its heap is its parent's, and its lock may be of a thread that is gone. */
struct device *device_lock(int ordinal);

/* Keep the last n events from now on; 0: no memory for it.  Under the lock. */
int device_keep_events(struct device *d, size_t n);

/* A snapshot into process.oom_dir, the first few times. */
void snapshot_at_oom(void);

void device_count_reserved(struct device *d);
void device_event(struct device *d, enum plimsoll_alloc_action action, uint64_t addr,
		  uint64_t bytes, uint64_t stream);

#endif
