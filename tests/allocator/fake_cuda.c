/*
 * A CUDA driver without a GPU: libfakecuda.so has the symbols of gpu/cuda.h.
 *
 * Streams are queues that complete only when told.  fake_touch() queues work on a range; whoever unmaps a range, or is told to hand it
 * to another stream, while work on it is queued, fails the test.  So do handles that leak, calls that are illegal in a
 * capture, and waits under the allocator's lock.
 */
#include "fake_cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT ((uint64_t)2 << 20)
#define SLOTS ((size_t)1 << 21) /* 4 TiB of addresses */
#define BASE ((uint64_t)1 << 44)
#define STREAMS 16
#define WORK 4096
#define HANDLES 65536

struct work {
	uint64_t addr, bytes, at; /* `at`: the count of its stream when it was queued */
	unsigned stream;
};

struct event {
	unsigned stream;
	uint64_t at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t mapped[SLOTS]; /* handle + 1 */
static uint64_t handle_bytes[HANDLES];
static uint64_t next_addr = BASE, created_bytes, card_bytes = (uint64_t)8 << 30;
static uint64_t queued[STREAMS], done[STREAMS];
static struct work work[WORK];
static size_t works;
static int capturing[STREAMS], dead;
static long fail_at = -1;
static void (*on_wait)(void);

struct fake_counts fake_counts;

static void fail(const char *what)
{
	fprintf(stderr, "fake CUDA: %s\n", what);
	abort();
}

static int fails(void)
{
	return dead || (fail_at >= 0 && !fail_at--);
}

static unsigned number(const void *stream)
{
	return (unsigned)(uintptr_t)stream % STREAMS;
}

static int any_capture(void)
{
	for (unsigned i = 0; i < STREAMS; i++)
		if (capturing[i])
			return 1;
	return 0;
}

/* ---- what tests do ---- */

void fake_touch(void *stream, uint64_t addr, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	for (uint64_t at = addr / SLOT; at * SLOT < addr + bytes; at++)
		if (!mapped[at - BASE / SLOT])
			fail("work on memory that is not mapped");
	for (size_t i = 0; i < works; i++)
		if (work[i].stream != number(stream) && work[i].at > done[work[i].stream] &&
		    work[i].addr < addr + bytes && addr < work[i].addr + work[i].bytes)
			fail("two streams work on one range");
	if (works == WORK) {
		size_t kept = 0;

		for (size_t i = 0; i < works; i++)
			if (work[i].at > done[work[i].stream])
				work[kept++] = work[i];
		works = kept;
	}
	if (works == WORK)
		fail("too much work is queued");
	work[works++] = (struct work){ addr, bytes, ++queued[number(stream)], number(stream) };
	pthread_mutex_unlock(&lock);
}

void fake_complete(void *stream)
{
	pthread_mutex_lock(&lock);
	done[number(stream)] = queued[number(stream)];
	pthread_mutex_unlock(&lock);
}

void fake_capture(void *stream, int on)
{
	capturing[number(stream)] = on;
}

void fake_card(uint64_t bytes)
{
	card_bytes = bytes;
}

void fake_fail_at(long call)
{
	fail_at = call;
}

void fake_on_wait(void (*call)(void))
{
	on_wait = call;
}

uint64_t fake_used(void)
{
	return created_bytes;
}

/* ---- the driver ---- */

int cuDeviceGetCount(int *n)
{
	*n = 2;
	return dead ? 3 : 0;
}

int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	(void)device;
	*bytes = card_bytes;
	return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void)attribute, (void)device;
	*value = 1;
	return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	*context = (void *)(uintptr_t)(device + 1);
	return 0;
}

static _Thread_local void *current;

int cuCtxGetCurrent(void **context)
{
	*context = current;
	return 0;
}

int cuCtxSetCurrent(void *context)
{
	current = context;
	return 0;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	*total = card_bytes;
	*free_bytes = card_bytes - created_bytes;
	return 0;
}

int cuMemAddressReserve(uint64_t *addr, size_t bytes, size_t align, uint64_t hint, uint64_t flags)
{
	int refused;

	(void)align, (void)hint, (void)flags;
	pthread_mutex_lock(&lock);
	refused = fails() || (next_addr + bytes - BASE) / SLOT > SLOTS;
	*addr = refused ? 0 : next_addr;
	next_addr += refused ? 0 : bytes;
	pthread_mutex_unlock(&lock);
	return refused ? 2 : 0;
}

int cuMemAddressFree(uint64_t addr, size_t bytes)
{
	(void)addr, (void)bytes;
	return 0;
}

int cuMemCreate(uint64_t *handle, size_t bytes, const void *what, uint64_t flags)
{
	int status = 0;

	(void)what, (void)flags;
	pthread_mutex_lock(&lock);
	fake_counts.creates++;
	if (fails() || created_bytes + bytes > card_bytes) {
		status = 2;
	} else {
		static size_t n;

		for (size_t tried = 0; handle_bytes[n]; tried++, n = (n + 1) % HANDLES)
			if (tried == HANDLES)
				fail("too many handles");
		handle_bytes[n] = bytes;
		created_bytes += bytes;
		*handle = n + 1;
	}
	pthread_mutex_unlock(&lock);
	return status;
}

int cuMemRelease(uint64_t handle)
{
	pthread_mutex_lock(&lock);
	if (!handle || handle > HANDLES || !handle_bytes[handle - 1])
		fail("a handle is released twice");
	created_bytes -= handle_bytes[handle - 1];
	handle_bytes[handle - 1] = 0;
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuMemMap(uint64_t addr, size_t bytes, size_t offset, uint64_t handle, uint64_t flags)
{
	int status = 0;

	(void)offset, (void)flags;
	pthread_mutex_lock(&lock);
	if (fails())
		status = 2;
	else if (handle_bytes[handle - 1] != bytes || addr % SLOT)
		fail("a handle is mapped in part");
	for (uint64_t at = addr; !status && at < addr + bytes; at += SLOT) {
		if (mapped[(at - BASE) / SLOT])
			fail("an address is mapped twice");
		mapped[(at - BASE) / SLOT] = (uint32_t)handle;
	}
	pthread_mutex_unlock(&lock);
	return status;
}

int cuMemSetAccess(uint64_t addr, size_t bytes, const void *who, size_t n)
{
	int status;

	(void)addr, (void)bytes, (void)who, (void)n;
	pthread_mutex_lock(&lock);
	status = fails() ? 2 : 0;
	pthread_mutex_unlock(&lock);
	return status;
}

int cuMemUnmap(uint64_t addr, size_t bytes)
{
	pthread_mutex_lock(&lock);
	fake_counts.unmaps++;
	for (size_t i = 0; i < works; i++)
		if (work[i].at > done[work[i].stream] && work[i].addr < addr + bytes &&
		    addr < work[i].addr + work[i].bytes)
			fail("a range is unmapped while work on it is queued");
	for (uint64_t at = addr; at < addr + bytes; at += SLOT) {
		if (!mapped[(at - BASE) / SLOT])
			fail("what is not mapped is unmapped");
		mapped[(at - BASE) / SLOT] = 0;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuEventCreate(void **event, unsigned flags)
{
	(void)flags;
	*event = calloc(1, sizeof(struct event));
	return *event ? 0 : 2;
}

int cuEventDestroy_v2(void *event)
{
	free(event);
	return 0;
}

int cuEventRecord(void *event, void *stream)
{
	struct event *e = event;

	if (capturing[number(stream)])
		fail("an event is recorded on a stream that captures");
	pthread_mutex_lock(&lock);
	*e = (struct event){ number(stream), queued[number(stream)] };
	pthread_mutex_unlock(&lock);
	return 0;
}

static _Thread_local int mode;

int cuThreadExchangeStreamCaptureMode(int *m)
{
	int was = mode;

	mode = *m;
	*m = was;
	return 0;
}

int cuEventQuery(void *event)
{
	const struct event *e = event;
	int status;

	if (any_capture() && mode != 2)
		fail("an event is queried beside a capture");
	pthread_mutex_lock(&lock);
	fake_counts.queries++;
	status = e->at <= done[e->stream] ? 0 : 600;
	pthread_mutex_unlock(&lock);
	return status;
}

int cuEventSynchronize(void *event)
{
	const struct event *e = event;

	if (any_capture() && mode != 2)
		fail("an event is waited for beside a capture");
	if (on_wait)
		on_wait();
	pthread_mutex_lock(&lock);
	fake_counts.waits++;
	if (done[e->stream] < e->at)
		done[e->stream] = e->at;
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuStreamIsCapturing(void *stream, int *status)
{
	*status = capturing[number(stream)];
	return 0;
}
