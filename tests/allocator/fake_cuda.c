/*
 * A CUDA driver without a GPU: libfakecuda.so has the symbols of gpu/cuda.h.
 *
 * Streams are queues that complete only when told.  fake_touch() queues work on a range; whoever unmaps a range, or asks to hand it
 * to another stream, at any address of its memory, while work on it is queued, fails the test.  So do handles that leak, calls that are illegal in a
 * capture, and waits under the allocator's lock.
 *
 * Copies and kernels run when their stream is completed or waited for, never before: device memory is then what the test
 * has there by that time.  A host buffer that is given to a second copy while one into it is queued fails the test, as does
 * freeing it; until its copy has run it holds 0xDB.  So does page-locked memory that is changed, or freed, before the copy
 * out of it has run.
 */
#include "fake_cuda.h"

#include "../../src/base/gpu/cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT ((uint64_t)2 << 20)
#define SLOTS ((size_t)1 << 21) /* 4 TiB of addresses */
#define BASE ((uint64_t)1 << 44)
#define STREAMS 64
#define WORK 4096
#define HANDLES 65536

struct work {
	uint64_t addr, bytes, at; /* `at`: the count of its stream when it was queued */
	unsigned stream;
};

struct event {
	void *context;
	unsigned stream;
	uint64_t at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t mapped[SLOTS];    /* handle + 1 */
static uint32_t part[SLOTS];      /* which slot of the handle */
static uint8_t reached_by[SLOTS]; /* a bit per device */
static void *home[STREAMS];       /* the context of a stream; NULL: any */
static uint64_t handle_bytes[HANDLES];
static uint32_t handle_maps[HANDLES]; /* addresses that it is mapped at */
static uint64_t next_addr = BASE, created_bytes, card_bytes = (uint64_t)8 << 30;
static uint64_t queued[STREAMS], done[STREAMS];
static struct work work[WORK];
static size_t works;
struct later { /* a copy, a kernel, or a wait for another stream */
	unsigned stream, on_stream;
	uint64_t at, on_at;
	void *to;
	const void *from;
	size_t bytes;
	int host;                  /* `to` is page-locked host memory */
	int read;                  /* `from` is; 2: what is there comes of what is queued before */
	uint64_t sum;              /* of what was there when it was queued */
	struct launched *launched; /* a kernel of a module */
};

struct launched {
	const char *name;
	char arguments[256];
};

#define LATER 65536
#define PINNED 4096
#define OWN_STREAMS 8 /* from this number on cuStreamCreate gives them out */

static struct later later[LATER];
static size_t laters;
static struct {
	void *at;
	size_t bytes;
} pinned[PINNED];
static uint64_t pinned_bytes, memories;
static unsigned own_streams;
static int capturing[STREAMS], dead;
static long fail_at = -1;
static void (*on_wait)(void);
static void (*on_launch)(const char *name, const void *arguments);

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

static uint64_t sum_of(const void *from, size_t bytes)
{
	const unsigned char *p = from;
	uint64_t sum = 1469598103934665603u;

	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ p[i]) * 1099511628211u;
	return sum;
}

/* With the lock. */
static void run(const struct later *x)
{
	if (x->launched) {
		if (on_launch)
			on_launch(x->launched->name, x->launched->arguments);
		free(x->launched);
		return;
	}
	if (x->read == 1 && sum_of(x->from, x->bytes) != x->sum)
		fail("a host buffer was changed before the copy out of it had run");
	memmove(x->to, x->from, x->bytes);
}

/* With the lock: all that was queued on a stream up to `at` is done, and before it what it waits for. */
static void complete(unsigned stream, uint64_t at)
{
	while (done[stream] < at) {
		struct later x = { 0 };
		size_t found = LATER;

		for (size_t i = 0; i < laters && found == LATER; i++)
			if (later[i].stream == stream && later[i].at == done[stream] + 1)
				found = i;
		if (found < LATER) {
			x = later[found];
			if (!x.bytes)
				complete(x.on_stream, x.on_at);
			else
				run(&x);
			for (found = 0; later[found].stream != stream || later[found].at != x.at;)
				found++;
			later[found] = later[--laters];
		}
		done[stream]++;
	}
}

/* With the lock. */
static void queue(struct later x)
{
	if (laters == LATER)
		fail("too much work is queued");
	for (size_t i = 0; x.host && i < laters; i++)
		if (later[i].host && (char *)later[i].to < (char *)x.to + x.bytes &&
		    (char *)x.to < (char *)later[i].to + later[i].bytes)
			fail("a host buffer is used again while a copy into it is queued");
	if (x.host)
		memset(x.to, 0xdb, x.bytes);
	x.at = ++queued[x.stream];
	later[laters++] = x;
}

/* ---- what tests do ---- */

void fake_kernel(void *stream, void *to, const void *from, size_t bytes)
{
	pthread_mutex_lock(&lock);
	queue((struct later){ .stream = number(stream), .to = to, .from = from, .bytes = bytes });
	pthread_mutex_unlock(&lock);
}

uint64_t fake_pinned(void)
{
	return pinned_bytes;
}

unsigned fake_streams(void)
{
	return own_streams;
}

/* Do [addr, addr + bytes) and the range of the work lie on common memory, perhaps by different addresses? */
static int shares_memory(const struct work *w, uint64_t addr, uint64_t bytes)
{
	if (w->addr < addr + bytes && addr < w->addr + w->bytes)
		return 1;
	for (uint64_t i = (addr - BASE) / SLOT; i * SLOT + BASE < addr + bytes; i++)
		for (uint64_t k = (w->addr - BASE) / SLOT;
		     handle_maps[mapped[i] - 1] > 1 && k * SLOT + BASE < w->addr + w->bytes; k++) {
			uint64_t shift = (k - i) * SLOT; /* modulo 2^64 */

			if (mapped[i] == mapped[k] && part[i] == part[k] &&
			    w->addr - shift < addr + bytes && addr < w->addr - shift + w->bytes)
				return 1;
		}
	return 0;
}

void fake_touch(void *stream, uint64_t addr, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	for (uint64_t at = addr / SLOT; at * SLOT < addr + bytes; at++)
		if (!mapped[at - BASE / SLOT])
			fail("work on memory that is not mapped");
	for (size_t i = 0; i < works; i++)
		if (work[i].stream != number(stream) && work[i].at > done[work[i].stream] &&
		    shares_memory(&work[i], addr, bytes))
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
	complete(number(stream), queued[number(stream)]);
	pthread_mutex_unlock(&lock);
}

unsigned fake_reached_by(uint64_t addr)
{
	return reached_by[(addr - BASE) / SLOT];
}

void fake_home(void *stream, int device)
{
	home[number(stream)] = (void *)(uintptr_t)(device + 1);
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

void fake_on_launch(void (*call)(const char *name, const void *arguments))
{
	on_launch = call;
}

uint64_t fake_used(void)
{
	return created_bytes;
}

uint64_t fake_memory(void)
{
	return memories;
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

int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = device != peer;
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
	if (handle_maps[handle - 1])
		fail("a handle is released while it is mapped");
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
		part[(at - BASE) / SLOT] = (uint32_t)((at - addr) / SLOT);
	}
	if (!status)
		handle_maps[handle - 1]++;
	pthread_mutex_unlock(&lock);
	return status;
}

int cuMemSetAccess(uint64_t addr, size_t bytes, const struct cuda_access *who, size_t n)
{
	int status;

	pthread_mutex_lock(&lock);
	status = fails() ? 2 : 0;
	for (uint64_t at = addr; !status && at < addr + bytes; at += SLOT) {
		if (!mapped[(at - BASE) / SLOT])
			fail("access to what is not mapped");
		for (size_t i = 0; i < n; i++)
			reached_by[(at - BASE) / SLOT] |= (uint8_t)(1u << who[i].location.id);
	}
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
		if (!part[(at - BASE) / SLOT])
			handle_maps[mapped[(at - BASE) / SLOT] - 1]--;
		mapped[(at - BASE) / SLOT] = 0;
		reached_by[(at - BASE) / SLOT] = 0;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuEventCreate(void **event, unsigned flags)
{
	(void)flags;
	*event = calloc(1, sizeof(struct event));
	if (*event)
		((struct event *)*event)->context = current;
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
	if (home[number(stream)] && home[number(stream)] != e->context)
		return 400; /* CUDA_ERROR_INVALID_HANDLE: of another context */
	pthread_mutex_lock(&lock);
	*e = (struct event){ e->context, number(stream), queued[number(stream)] };
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
	complete(e->stream, e->at);
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuStreamIsCapturing(void *stream, int *status)
{
	*status = capturing[number(stream)];
	return 0;
}

int cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
	int status = 2;

	(void)flags;
	*at = NULL;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; !fails() && status && i < PINNED; i++) {
		if (pinned[i].at)
			continue;
		*at = pinned[i].at = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
		pinned[i].bytes = bytes;
		pinned_bytes += *at ? bytes : 0;
		status = *at ? 0 : 2;
		break;
	}
	pthread_mutex_unlock(&lock);
	return status;
}

int cuMemFreeHost(void *at)
{
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < PINNED && pinned[i].at != at)
		i++;
	if (!at || i == PINNED)
		fail("page-locked memory is freed that there is none of");
	for (size_t k = 0; k < laters; k++) {
		if (later[k].host && (char *)later[k].to >= (char *)at &&
		    (char *)later[k].to < (char *)at + pinned[i].bytes)
			fail("a host buffer is freed while a copy into it is queued");
		if (later[k].read && (const char *)later[k].from >= (char *)at &&
		    (const char *)later[k].from < (char *)at + pinned[i].bytes)
			fail("a host buffer is freed while a copy out of it is queued");
	}
	free(at);
	pinned_bytes -= pinned[i].bytes;
	pinned[i].at = NULL;
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
	int status;

	pthread_mutex_lock(&lock);
	status = fails() ? 700 : 0;
	if (!status && bytes)
		queue((struct later){ .stream = number(stream),
				      .to = to,
				      .from = (const void *)(uintptr_t)from,
				      .bytes = bytes,
				      .host = 1 });
	pthread_mutex_unlock(&lock);
	return status;
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
	struct later x = { .stream = number(stream),
			   .to = (void *)(uintptr_t)to,
			   .from = (const void *)(uintptr_t)from,
			   .bytes = bytes };
	int status;

	pthread_mutex_lock(&lock);
	status = fails() ? 700 : 0;
	for (size_t i = 0; i < PINNED && !x.read; i++)
		x.read = pinned[i].at && (const char *)x.from >= (char *)pinned[i].at &&
			 (const char *)x.from < (char *)pinned[i].at + pinned[i].bytes;
	for (size_t i = 0; x.read == 1 && i < laters;
	     i++) /* what is there by then is not known yet */
		if ((uintptr_t)later[i].to < (uintptr_t)x.from + bytes &&
		    (uintptr_t)x.from < (uintptr_t)later[i].to + later[i].bytes)
			x.read = 2;
	if (x.read == 1)
		x.sum = sum_of(x.from, bytes);
	if (!status && bytes)
		queue(x);
	pthread_mutex_unlock(&lock);
	return status;
}

int cuStreamCreate(void **stream, unsigned flags)
{
	(void)flags;
	pthread_mutex_lock(&lock);
	if (OWN_STREAMS + own_streams == STREAMS)
		fail("too many streams");
	*stream = (void *)(uintptr_t)(OWN_STREAMS + own_streams++);
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuStreamDestroy_v2(void *stream)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < laters; i++) /* they would go on, with memory that is freed next */
		if (later[i].stream == number(stream) && later[i].read)
			fail("a stream is destroyed while copies out of a host buffer are queued");
	complete(number(stream), queued[number(stream)]);
	own_streams--;
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	const struct event *e = event;

	(void)flags;
	pthread_mutex_lock(&lock);
	queue((struct later){ .stream = number(stream), .on_stream = e->stream, .on_at = e->at });
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Memory that kernels are given is the process's own. */
int cuMemAlloc_v2(uint64_t *at, size_t bytes)
{
	int status;

	pthread_mutex_lock(&lock);
	status = fails() ? 2 : 0;
	*at = status ? 0 : (uint64_t)(uintptr_t)malloc(bytes);
	if (*at)
		memset((void *)(uintptr_t)*at, 0xdb, bytes);
	memories += *at != 0;
	pthread_mutex_unlock(&lock);
	return *at ? 0 : 2;
}

int cuMemFree_v2(uint64_t at)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < STREAMS; i++)
		complete(i, queued[i]); /* it waits for the GPU */
	free((void *)(uintptr_t)at);
	memories--;
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuModuleLoadData(void **module, const void *image)
{
	int status;

	pthread_mutex_lock(&lock);
	status = fails() ? 218 : 0;
	pthread_mutex_unlock(&lock);
	*module = status ? NULL : (void *)(uintptr_t)image;
	return status;
}

int cuModuleUnload(void *module)
{
	(void)module;
	return 0;
}

/* Of any module: a copy of the name. */
int cuModuleGetFunction(void **function, void *module, const char *name)
{
	static char names[16][40];
	size_t i = 0;

	(void)module;
	pthread_mutex_lock(&lock);
	while (i + 1 < 16 && names[i][0] && strcmp(names[i], name))
		i++;
	snprintf(names[i], sizeof(names[i]), "%s", name);
	*function = names[i];
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Arguments as a buffer only. */
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
		   unsigned threads_y, unsigned threads_z, unsigned shared, void *stream,
		   void **arguments, void **extra)
{
	struct launched *l = calloc(1, sizeof(*l));
	size_t bytes = *(const size_t *)extra[3];
	int status;

	(void)y, (void)z, (void)threads_x, (void)threads_y, (void)threads_z, (void)shared;
	if (!l || !x || arguments || extra[0] != (void *)1 || bytes > sizeof(l->arguments))
		fail("a kernel is launched with arguments that are none");
	l->name = function;
	memcpy(l->arguments, extra[1], bytes);
	pthread_mutex_lock(&lock);
	status = fails() ? 700 : 0;
	if (status)
		free(l);
	else
		queue((struct later){ .stream = number(stream), .bytes = 1, .launched = l });
	pthread_mutex_unlock(&lock);
	return status;
}
