#include "device.h"

#include <stdio.h>
#include <time.h>

struct process process = { .learns = 1, .limit_bytes = UINT64_MAX };

#define QUERIES 4u /* events asked at a request */

/* ---- what the heap asks of the driver ---- */

static uint64_t reserve(void *self, uint64_t bytes)
{
	uint64_t addr = 0;

	(void)self;
	return process.cuda.reserve(&addr, bytes, VMM_SLOT, 0, 0) == CUDA_OK ? addr : 0;
}

static void unreserve(void *self, uint64_t addr, uint64_t bytes)
{
	(void)self;
	process.cuda.unreserve(addr, bytes);
}

static int create(struct device *d, uint64_t bytes, uint64_t *handle)
{
	int status = process.cuda.create(handle, bytes, &d->memory, 0);

	if (status == CUDA_OK || status == CUDA_OUT_OF_MEMORY || !d->memory.handle_types)
		return status == CUDA_OK;
	d->memory.handle_types = 0; /* where handles cannot be exported, they are had without */
	d->memory.flags.rdma = 0;
	return process.cuda.create(handle, bytes, &d->memory, 0) == CUDA_OK;
}

static int map(void *self, uint64_t addr, uint64_t bytes, uint64_t *handle)
{
	struct device *d = self;

	if (!create(d, bytes, handle))
		return 0;
	if (process.cuda.map(addr, bytes, 0, *handle, 0) != CUDA_OK) {
		process.cuda.release(*handle);
		return 0;
	}
	if (process.cuda.access(addr, bytes, d->access, d->accesses) != CUDA_OK) {
		process.cuda.unmap(addr, bytes);
		process.cuda.release(*handle);
		return 0;
	}
	device_event(d, PLIMSOLL_ALLOC_EVENT_SEGMENT_MAP, addr, bytes, 0);
	return 1;
}

static void unmap(void *self, uint64_t addr, uint64_t bytes, uint64_t handle)
{
	process.cuda.unmap(addr, bytes);
	process.cuda.release(handle);
	device_event(self, PLIMSOLL_ALLOC_EVENT_SEGMENT_UNMAP, addr, bytes, 0);
}

/* Both addresses reach the memory from here on; what is recorded says that it moved. */
static int alias(void *self, uint64_t from, uint64_t to, uint64_t bytes, uint64_t handle)
{
	struct device *d = self;

	if (process.cuda.map(to, bytes, 0, handle, 0) != CUDA_OK)
		return 0;
	if (process.cuda.access(to, bytes, d->access, d->accesses) != CUDA_OK) {
		process.cuda.unmap(to, bytes);
		return 0;
	}
	device_event(d, PLIMSOLL_ALLOC_EVENT_SEGMENT_UNMAP, from, bytes, 0);
	device_event(d, PLIMSOLL_ALLOC_EVENT_SEGMENT_MAP, to, bytes, 0);
	return 1;
}

static void drop(void *self, uint64_t addr, uint64_t bytes)
{
	(void)self;
	process.cuda.unmap(addr, bytes);
}

static void *event_take(struct device *d)
{
	void *event = NULL;

	if (d->events.n)
		return d->events.at[--d->events.n];
	return process.cuda.event_create(&event, CUDA_EVENT_DISABLE_TIMING) == CUDA_OK ? event
										       : NULL;
}

static void event_give(struct device *d, void *event)
{
	struct plim_err err;

	if (vec_push(&d->mem, &d->events, event, &err))
		process.cuda.event_destroy(event);
}

/*
 * Events, the default stream and what is free are those of the thread's current context, which may be another device's: a
 * tensor is freed wherever its last name goes.  Gives what was current, for leave().
 */
static void *enter(const struct device *d)
{
	void *was = NULL;

	if (process.cuda.context_get(&was) == CUDA_OK && was != d->context)
		process.cuda.context_set(d->context);
	return was;
}

static void leave(const struct device *d, void *was)
{
	if (was &&
	    was != d->context) /* a thread without one keeps this: libraries behind us need it */
		process.cuda.context_set(was);
}

/* An event, an old one or NULL for another, behind all that was queued on a stream, in its context; NULL: not now. */
static void *event_inside(struct device *d, void *stream, void *old)
{
	int mode = CUDA_CAPTURE_RELAXED, status = 0;
	void *event = old ? old : event_take(d);

	if (!event)
		return NULL;
	process.cuda.capture_mode(&mode);
	if (process.cuda.stream_capturing(stream, &status) != CUDA_OK || status ||
	    process.cuda.event_record(event, stream) != CUDA_OK) {
		if (!old)
			event_give(d, event);
		event = NULL;
	}
	process.cuda.capture_mode(&mode);
	return event;
}

static void *event_behind(struct device *d, void *stream, void *old)
{
	void *was, *event;

	if (d->captures)
		return NULL;
	was = enter(d);
	event = event_inside(d, stream, old);
	leave(d, was);
	return event;
}

/* Without the lock: others may go on, and what they queue is not waited for. */
static void event_wait(struct device *d, void *event)
{
	int mode = CUDA_CAPTURE_RELAXED;

	pthread_mutex_unlock(&d->lock);
	process.cuda.capture_mode(&mode);
	process.cuda.event_wait(event);
	process.cuda.capture_mode(&mode);
	pthread_mutex_lock(&d->lock);
}

static uint64_t stream_mark(void *self, uint64_t stream, uint64_t old)
{
	return (uint64_t)(uintptr_t)event_behind(self, (void *)(uintptr_t)stream,
						 (void *)(uintptr_t)old);
}

static int reached(void *self, uint64_t mark)
{
	struct device *d = self;
	void *event = (void *)(uintptr_t)mark;
	int mode = CUDA_CAPTURE_RELAXED, status;

	if (d->captures)
		return 0;
	process.cuda.capture_mode(&mode);
	status = process.cuda.event_query(event);
	process.cuda.capture_mode(&mode);
	if (status == CUDA_OK)
		event_give(d, event);
	return status == CUDA_OK;
}

static int wait(void *self, uint64_t mark)
{
	struct device *d = self;
	void *event = (void *)(uintptr_t)mark;
	int may = !d->captures;

	if (may)
		event_wait(d, event);
	event_give(d, event);
	return may;
}

static uint64_t now_ns(void *self)
{
	struct timespec t;

	(void)self;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- a device ---- */

void device_set_limit(struct device *d)
{
	uint64_t limit = d->total_bytes;

	if (d->fraction < 1)
		limit = (uint64_t)((double)d->total_bytes * d->fraction);
	d->vmm.limit_bytes = limit < d->limit_bytes ? limit : d->limit_bytes;
	d->stats.limit_bytes = d->vmm.limit_bytes;
}

/* ---- copies between devices ---- */

struct peer {
	const struct device *of;
	struct cuda_access access;
};

static int give_access(void *self, uint64_t addr, uint64_t bytes)
{
	const struct peer *p = self;

	return process.cuda.access(addr, bytes, &p->access, 1) == CUDA_OK;
}

/* What d has, and will have, `peer` can read and write, where the GPUs are linked. */
static void let_in(struct device *d, const struct device *peer)
{
	struct peer p = { d, { { 1, peer->handle }, 3 } };
	int can = 0;

	if (process.cuda.device_reaches(&can, peer->handle, d->handle) != CUDA_OK || !can)
		return;
	pthread_mutex_lock(&d->lock);
	if (vmm_each_mapped(&d->vmm, give_access, &p))
		d->access[d->accesses++] = p.access;
	pthread_mutex_unlock(&d->lock);
}

/*
 * PyTorch copies between GPUs as if they saw each other's memory, which memory that is mapped does not by itself.  A process that
 * uses one GPU, as each of a distributed training does, pays nothing.
 */
static void meet_others(struct device *d)
{
	for (int i = 0; i < process.devices; i++) {
		struct device *other = &process.device[i];

		if (other == d || !other->ready)
			continue;
		let_in(other, d);
		let_in(d, other);
	}
}

static const char *open_device(struct device *d)
{
	struct vmm_setup setup = { .driver = { d, reserve, unreserve, map, unmap, alias, drop,
					       stream_mark, reached, wait, now_ns },
				   .limit_bytes = UINT64_MAX,
				   .learns = process.learns,
				   .plan = process.has_plan ? &process.plan : NULL };
	size_t total = 0;
	int rdma = 0;

	if (process.cuda.device_get(&d->handle, d->ordinal) != CUDA_OK ||
	    process.cuda.device_memory(&total, d->handle) != CUDA_OK ||
	    process.cuda.context_retain(&d->context, d->handle) != CUDA_OK)
		return "the CUDA driver does not open the device";
	process.cuda.device_attribute(&rdma, CUDA_RDMA_WITH_VMM, d->handle);
	d->memory =
		(struct cuda_memory){ .type = 1, .handle_types = 1, .location = { 1, d->handle } };
	d->memory.flags.rdma = rdma != 0;
	if (!d->access)
		d->access = calloc((size_t)process.devices, sizeof(*d->access));
	if (!d->access)
		return "out of host memory";
	d->access[0] = (struct cuda_access){ { 1, d->handle }, 3 };
	d->accesses = 1;
	d->total_bytes = setup.device_bytes = total;
	mem_init(&d->mem, UINT64_MAX);
	d->used_by.mem = &d->mem;
	vmm_init(&d->vmm, &d->mem, &setup);
	device_set_limit(d);
	if (process.entries && !device_keep_events(d, process.entries))
		return "there is no host memory for the events of PLIMSOLL_ALLOC_RECORD";
	meet_others(d);
	d->ready = 1;
	return NULL;
}

static const char *open_process(void)
{
	const char *missing = cuda_open(&process.cuda, getenv("PLIMSOLL_CUDA_LIBRARY"));
	int n = 0;

	if (missing)
		return missing;
	if (process.cuda.device_count(&n) != CUDA_OK || n <= 0)
		return "the CUDA driver has no device";
	process.device = calloc((size_t)n, sizeof(*process.device));
	if (!process.device)
		return "out of host memory";
	for (int i = 0; i < n; i++) {
		process.device[i] = (struct device){ .ordinal = i,
						     .fraction = 1,
						     .limit_bytes = process.limit_bytes };
		pthread_mutex_init(&process.device[i].lock, NULL);
	}
	process.devices = n;
	return NULL;
}

/* The autograd thread comes without a context, which events, and libraries behind us, need. */
static void make_current(const struct device *d)
{
	static _Thread_local int done;
	void *now = NULL;

	if (done)
		return;
	if (process.cuda.context_get(&now) == CUDA_OK && !now)
		process.cuda.context_set(d->context);
	done = 1;
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER; /* before any device's */

static void lock_all(void)
{
	pthread_mutex_lock(&opening);
	for (int i = 0; i < process.devices; i++)
		pthread_mutex_lock(&process.device[i].lock);
}

static void unlock_all(void)
{
	for (int i = process.devices; i--;)
		pthread_mutex_unlock(&process.device[i].lock);
	pthread_mutex_unlock(&opening);
}

static void in_child(void)
{
	atomic_store(&process.forked, 1);
	unlock_all();
}

static void open_once(void)
{
	process.unusable = open_process();
	pthread_atfork(lock_all, unlock_all, in_child);
}

struct device *device_get(int ordinal, char *text, size_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const char *why = NULL;
	struct device *d;

	if (atomic_load_explicit(&process.forked, memory_order_relaxed)) {
		snprintf(text, n,
			 "CUDA cannot be used in a forked child of a process that used it; "
			 "start workers with multiprocessing's \"spawn\"");
		return NULL;
	}
	pthread_once(&once, open_once);
	why = process.unusable;
	if (!why && (ordinal < 0 || ordinal >= process.devices))
		why = "there is no such device";
	d = why ? NULL : &process.device[ordinal];
	if (d && !d->ready) {
		pthread_mutex_lock(&opening);
		why = d->ready ? NULL : open_device(d);
		pthread_mutex_unlock(&opening);
	}
	if (why) {
		snprintf(text, n, "plimsoll's allocator: %s", why);
		return NULL;
	}
	make_current(d);
	return d;
}

/* ---- counting ---- */

static void count(struct device *d, enum plimsoll_alloc_stat stat, int large, uint64_t add,
		  uint64_t less)
{
	for (unsigned k = 0; k < 3; k += k ? 3 : 1 + (unsigned)large) {
		struct plimsoll_alloc_count *c = &d->stats.count[stat][k];

		c->current += add - less;
		c->allocated += add;
		c->freed += less;
		c->peak = c->current > c->peak ? c->current : c->peak;
	}
}

void device_count_reserved(struct device *d)
{
	const struct vmm *v = &d->vmm;
	uint64_t handles[2] = { 0 }, bytes[2] = { 0 };

	d->stats.device_allocs = v->counts.maps;
	d->stats.device_frees = v->counts.unmaps;
	for (uint32_t i = 0; i < v->regions.n; i++)
		bytes[v->regions.at[i].kind != VMM_SMALLS] += v->regions.at[i].mapped_bytes;
	handles[0] = bytes[0] / VMM_SLOT;
	handles[1] = v->counts.maps - v->counts.unmaps - handles[0];
	for (int large = 0; large < 2; large++) {
		uint64_t was = d->stats.count[PLIMSOLL_ALLOC_RESERVED_BYTES][1 + large].current;
		uint64_t had = d->stats.count[PLIMSOLL_ALLOC_SEGMENT][1 + large].current;

		count(d, PLIMSOLL_ALLOC_RESERVED_BYTES, large,
		      bytes[large] > was ? bytes[large] - was : 0,
		      bytes[large] < was ? was - bytes[large] : 0);
		count(d, PLIMSOLL_ALLOC_SEGMENT, large,
		      handles[large] > had ? handles[large] - had : 0,
		      handles[large] < had ? had - handles[large] : 0);
	}
	/* the sum of both is known by the heap: one may have grown by what the other gave */
	d->stats.count[PLIMSOLL_ALLOC_RESERVED_BYTES][0].peak = v->counts.mapped_peak_bytes;
}

int device_keep_events(struct device *d, size_t n)
{
	struct plimsoll_alloc_event *ring = n ? calloc(n, sizeof(*ring)) : NULL;

	if (n && !ring)
		return 0;
	free(d->ring);
	d->ring = ring;
	d->ring_size = n;
	d->ring_at = 0;
	return 1;
}

struct device *device_ready(int ordinal)
{
	if (ordinal < 0 || ordinal >= process.devices || !process.device[ordinal].ready)
		return NULL;
	return &process.device[ordinal];
}

struct device *device_lock(int ordinal)
{
	struct device *d = atomic_load_explicit(&process.forked, memory_order_relaxed)
				   ? NULL
				   : device_ready(ordinal);

	if (d)
		pthread_mutex_lock(&d->lock);
	return d;
}

void device_event(struct device *d, enum plimsoll_alloc_action action, uint64_t addr,
		  uint64_t bytes, uint64_t stream)
{
	struct timespec now;

	if (!d->ring_size)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	d->ring[d->ring_at++ % d->ring_size] = (struct plimsoll_alloc_event){
		addr,   bytes,
		stream, (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000,
		action, 0
	};
}

static void count_malloc(struct device *d, const struct vmm_node *b, uint64_t maps, void *stream)
{
	int large = b->bytes > VMM_SMALL;

	count(d, PLIMSOLL_ALLOC_ALLOCATION, large, 1, 0);
	count(d, PLIMSOLL_ALLOC_ACTIVE, large, 1, 0);
	count(d, PLIMSOLL_ALLOC_ALLOCATED_BYTES, large, b->bytes, 0);
	count(d, PLIMSOLL_ALLOC_ACTIVE_BYTES, large, b->bytes, 0);
	count(d, PLIMSOLL_ALLOC_REQUESTED_BYTES, large, b->requested_bytes, 0);
	if (maps != d->vmm.counts.maps)
		device_count_reserved(d);
	device_event(d, PLIMSOLL_ALLOC_EVENT_ALLOC, b->addr, b->requested_bytes,
		     (uint64_t)(uintptr_t)stream);
}

/* ---- blocks ---- */

/* The pool of the capture that the stream is in, or 0. */
static uint64_t pool_of(const struct device *d, void *stream)
{
	int status = 0;

	if (!d->captures || process.cuda.stream_capturing(stream, &status) != CUDA_OK || !status)
		return 0;
	return d->capture_pool;
}

uint64_t device_malloc(struct device *d, uint64_t bytes, void *stream)
{
	uint64_t maps = d->vmm.counts.maps, addr = 0;
	uint32_t lane;

	if (d->pending.n && !d->captures)
		device_settle(d, 0);
	lane = vmm_lane(&d->vmm, (uint64_t)(uintptr_t)stream, pool_of(d, stream));
	if (lane == VMM_NONE)
		return 0;
	if (vmm_malloc(&d->vmm, lane, bytes, &addr))
		return 0;
	if (!addr && d->pending.n && !d->captures) {
		device_settle(d, 1);
		if (vmm_malloc(&d->vmm, lane, bytes, &addr))
			return 0;
	}
	if (addr)
		count_malloc(d, vmm_block(&d->vmm, addr), maps, stream);
	else
		device_count_reserved(d);
	return addr;
}

static void release_block(struct device *d, uint64_t addr)
{
	const struct vmm_node *b = vmm_block(&d->vmm, addr);
	int large = b->bytes > VMM_SMALL;

	count(d, PLIMSOLL_ALLOC_ACTIVE, large, 0, 1);
	count(d, PLIMSOLL_ALLOC_ACTIVE_BYTES, large, 0, b->bytes);
	device_event(d, PLIMSOLL_ALLOC_EVENT_FREE_COMPLETED, addr, b->requested_bytes, 0);
	vmm_free(&d->vmm, addr);
}

/* The users of a block become what its reuse waits for. */
static void defer(struct device *d, uint64_t addr, struct addr_slot *slot)
{
	struct plim_err err;
	uint32_t n = 0;

	for (size_t i = d->users.n; i--;) {
		struct pending p = { .addr = addr, .stream = d->users.at[i].stream };

		if (d->users.at[i].addr != addr)
			continue;
		d->users.at[i] = d->users.at[--d->users.n];
		p.event = event_behind(d, p.stream, NULL);
		/* without memory it is never used again, which is safe */
		if (!vec_push(&d->mem, &d->pending, p, &err))
			n++;
	}
	slot->value = n ? n : 1;
}

void device_free(struct device *d, uint64_t addr)
{
	struct addr_slot *slot = d->used_by.at ? addr_map_find(&d->used_by, addr) : NULL;
	const struct vmm_node *b = vmm_block(&d->vmm, addr);
	int large;

	if (!b)
		return; /* not ours */
	large = b->bytes > VMM_SMALL;
	count(d, PLIMSOLL_ALLOC_ALLOCATION, large, 0, 1);
	count(d, PLIMSOLL_ALLOC_ALLOCATED_BYTES, large, 0, b->bytes);
	count(d, PLIMSOLL_ALLOC_REQUESTED_BYTES, large, 0, b->requested_bytes);
	device_event(d, PLIMSOLL_ALLOC_EVENT_FREE_REQUESTED, addr, b->requested_bytes, 0);
	if (slot && slot->value)
		defer(d, addr, slot);
	else
		release_block(d, addr);
}

/* One use is over. */
static void settle_one(struct device *d, size_t i)
{
	struct pending p = d->pending.at[i];
	struct addr_slot *slot = addr_map_find(&d->used_by, p.addr);

	d->pending.at[i] = d->pending.at[--d->pending.n];
	event_give(d, p.event);
	if (slot->value > 1) {
		slot->value--;
		return;
	}
	addr_map_remove(&d->used_by, slot);
	release_block(d, p.addr);
}

void device_settle(struct device *d, int all)
{
	int mode = CUDA_CAPTURE_RELAXED;
	size_t i = 0;

	while (all && d->pending.n) {
		void *event = d->pending.at[0].event;

		if (!event)
			event = d->pending.at[0].event =
				event_behind(d, d->pending.at[0].stream, NULL);
		if (!event)
			return;
		event_wait(d, event);
		for (i = 0; i < d->pending.n && d->pending.at[i].event != event; i++)
			; /* others may have settled it meanwhile */
		if (i < d->pending.n)
			settle_one(d, i);
	}
	process.cuda.capture_mode(&mode);
	for (unsigned asked = 0; asked < QUERIES && i < d->pending.n; asked++) {
		if (d->pending.at[i].event &&
		    process.cuda.event_query(d->pending.at[i].event) == CUDA_OK)
			settle_one(d, i);
		else
			i++;
	}
	process.cuda.capture_mode(&mode);
}

/* Uses that could not be marked while a capture was under way. */
void device_capture_ended(struct device *d)
{
	for (size_t i = 0; !d->captures && i < d->pending.n; i++)
		if (!d->pending.at[i].event)
			d->pending.at[i].event = event_behind(d, d->pending.at[i].stream, NULL);
}

/* ---- out of memory ---- */

static const char *size_text(char *out, size_t n, uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB" };
	double size = (double)bytes;
	unsigned unit = 0;

	while (size >= 1024 && unit < 3) {
		size /= 1024;
		unit++;
	}
	snprintf(out, n, unit ? "%.2f %s" : "%.0f %s", size, units[unit]);
	return out;
}

static uint64_t in_graphs(const struct device *d)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < d->vmm.lanes.n; i++)
		for (unsigned k = 0; d->vmm.lanes.at[i].pool && k < VMM_KINDS; k++)
			bytes += d->vmm.regions.at[d->vmm.lanes.at[i].region[k]].mapped_bytes;
	return bytes;
}

uint64_t device_tell_oom(struct device *d, uint64_t bytes, char *text, size_t n)
{
	const struct vmm_counts *c = &d->vmm.counts;
	size_t device_free = 0, total = 0;
	uint64_t waiting = d->stats.count[PLIMSOLL_ALLOC_ACTIVE_BYTES][0].current -
			   d->stats.count[PLIMSOLL_ALLOC_ALLOCATED_BYTES][0].current;
	uint64_t live = c->used_bytes - waiting, graphs = in_graphs(d);
	char s[8][32];
	const char *why = "fragments below a handle of 2 MiB";
	void *was = enter(d);

	process.cuda.memory_info(&device_free, &total);
	leave(d, was);
	if (live + bytes > d->vmm.limit_bytes)
		why = d->vmm.limit_bytes < d->total_bytes ? "the limit" : "the GPU";
	else if (graphs + live + bytes > d->vmm.limit_bytes)
		why = "memory kept for CUDA graphs";
	else if (device_free < bytes && c->mapped_bytes + bytes <= d->vmm.limit_bytes)
		why = "others use the GPU";
	snprintf(text, n,
		 "CUDA out of memory. Tried to allocate %s. GPU %d has a total capacity of %s of "
		 "which "
		 "%s is free. Of the allocated memory %s is allocated by PyTorch, and %s is "
		 "reserved by "
		 "PyTorch but unallocated. plimsoll's allocator: limit %s, %s waits for other "
		 "streams, %s "
		 "is kept for CUDA graphs; what stands in the way: %s",
		 size_text(s[0], 32, bytes), d->ordinal, size_text(s[1], 32, d->total_bytes),
		 size_text(s[2], 32, device_free), size_text(s[3], 32, live),
		 size_text(s[4], 32, c->mapped_bytes - live),
		 size_text(s[5], 32, d->vmm.limit_bytes), size_text(s[6], 32, waiting),
		 size_text(s[7], 32, graphs), why);
	return device_free;
}
