/* What lies where, and what happened: as rows, and as the pickle that PyTorch's own allocator would have dumped. */
#include "device.h"

#include "pickle/encode.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OOM_DUMPS_MAX 3u /* of a job that catches its failures and goes on */
#define BUFFER_BYTES (64u << 10)
#define BATCH 1000u /* items an APPENDS, as CPython batches them */

/* ---- rows ---- */

static int waits(const struct device *d, uint64_t addr)
{
	const struct addr_slot *slot = d->used_by.at ? addr_map_find(&d->used_by, addr) : NULL;

	for (size_t p = 0; slot && slot->value && p < d->pending.n; p++)
		if (d->pending.at[p].addr == addr)
			return 1;
	return 0;
}

/* Under the lock. */
static size_t pieces_of(const struct device *d, struct plimsoll_alloc_piece *out, size_t n)
{
	size_t rows = 0;
	uint32_t segment = 0;

	for (uint32_t i = 0; i < d->vmm.regions.n; i++) {
		const struct vmm_region *r = &d->vmm.regions.at[i];
		const struct vmm_lane *l = &d->vmm.lanes.at[r->lane];

		segment++;
		for (uint32_t k = r->first; k != VMM_NONE; k = d->vmm.nodes.at[k].next) {
			const struct vmm_node *b = &d->vmm.nodes.at[k];

			if (b->state == VMM_UNMAPPED) {
				segment++;
				continue;
			}
			if (rows < n)
				out[rows] = (struct plimsoll_alloc_piece){
					b->addr,
					b->bytes,
					b->requested_bytes,
					l->stream,
					segment,
					(uint8_t)(b->state == VMM_USED ? 1 + waits(d, b->addr) : 0),
					r->kind != VMM_SMALLS,
					r->kind == VMM_PLANNED,
					l->pool != 0
				};
			rows++;
		}
	}
	return rows;
}

/* Under the lock. */
static size_t events_of(const struct device *d, struct plimsoll_alloc_event *out, size_t n)
{
	size_t rows = d->ring_at < d->ring_size ? (size_t)d->ring_at : d->ring_size;

	for (size_t i = 0; i < rows && i < n; i++)
		out[i] = d->ring[(d->ring_at - rows + i) % d->ring_size];
	return rows;
}

size_t plimsoll_alloc_pieces(int device, struct plimsoll_alloc_piece *out, size_t n)
{
	struct device *d = device_lock(device);
	size_t rows;

	if (!d)
		return 0;
	rows = pieces_of(d, out, n);
	pthread_mutex_unlock(&d->lock);
	return rows;
}

size_t plimsoll_alloc_events(int device, struct plimsoll_alloc_event *out, size_t n)
{
	struct device *d = device_lock(device);
	size_t rows;

	if (!d)
		return 0;
	rows = events_of(d, out, n);
	pthread_mutex_unlock(&d->lock);
	return rows;
}

static int keep_events(struct device *d, size_t n)
{
	int kept;

	pthread_mutex_lock(&d->lock);
	kept = device_keep_events(d, n);
	pthread_mutex_unlock(&d->lock);
	return kept;
}

int plimsoll_alloc_record(int device, size_t n)
{
	char text[128];
	struct device *d;
	int kept = 1;

	if (device >= 0) {
		d = device_get(device, text, sizeof(text));
		return d && keep_events(d, n);
	}
	process.entries = n;
	for (int i = 0; i < process.devices && kept; i++) {
		d = device_ready(i);
		kept = !d || keep_events(d, n);
	}
	return kept;
}

/* ---- a pickle ---- */

/* Strings are written once, and referred to by a byte. */
enum word {
	W_NONE,
	W_SEGMENTS,
	W_DEVICE_TRACES,
	W_ALLOCATOR_SETTINGS,
	W_EXTERNAL_ANNOTATIONS,
	W_EXPANDABLE_SEGMENTS,
	W_CONF,
	W_PLIMSOLL,
	W_DEVICE,
	W_ADDRESS,
	W_TOTAL_SIZE,
	W_ALLOCATED_SIZE,
	W_ACTIVE_SIZE,
	W_REQUESTED_SIZE,
	W_STREAM,
	W_SEGMENT_TYPE,
	W_SMALL,
	W_LARGE,
	W_SEGMENT_POOL_ID,
	W_IS_EXPANDABLE,
	W_FRAMES,
	W_BLOCKS,
	W_SIZE,
	W_STATE,
	W_INACTIVE,
	W_ACTIVE_ALLOCATED,
	W_ACTIVE_PENDING_FREE,
	W_ACTION,
	W_ADDR,
	W_DEVICE_FREE,
	W_TIME_US,
	W_COMPILE_CONTEXT,
	W_USER_METADATA,
	W_EMPTY,
	W_ALLOC,
	W_FREE_REQUESTED,
	W_FREE_COMPLETED,
	W_SEGMENT_MAP,
	W_SEGMENT_UNMAP,
	W_OOM,
	WORDS
};

/* clang-format off */
static const char *const words[WORDS] = {
	"", "segments", "device_traces", "allocator_settings", "external_annotations", "expandable_segments", "PYTORCH_CUDA_ALLOC_CONF",
	"plimsoll", "device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream", "segment_type",
	"small", "large", "segment_pool_id", "is_expandable", "frames", "blocks", "size", "state", "inactive", "active_allocated",
	"active_pending_free", "action", "addr", "device_free", "time_us", "compile_context", "user_metadata", "", "alloc",
	"free_requested", "free_completed", "segment_map", "segment_unmap", "oom",
};
/* clang-format on */

struct dump {
	int fd, error;
	size_t n;
	uint8_t memo[WORDS]; /* number in the memo, from 1; 0: not written yet */
	uint8_t memos;
	uint8_t buffer[BUFFER_BYTES + 256];
};

static void flush(struct dump *o)
{
	size_t done = 0;

	while (!o->error && done < o->n) {
		ssize_t n = write(o->fd, o->buffer + done, o->n - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			o->error = n ? errno : EIO;
	}
	o->n = 0;
}

static void put(struct dump *o, const void *bytes, size_t n)
{
	memcpy(o->buffer + o->n, bytes, n);
	o->n += n;
	if (o->n >= BUFFER_BYTES)
		flush(o);
}

static void op(struct dump *o, char code)
{
	put(o, &code, 1);
}

static void word(struct dump *o, enum word w)
{
	uint8_t head[2] = { 'h', (uint8_t)(o->memo[w] - 1) };

	if (o->memo[w]) {
		put(o, head, 2);
		return;
	}
	head[0] = 0x8c;
	head[1] = (uint8_t)strlen(words[w]);
	put(o, head, 2);
	put(o, words[w], head[1]);
	op(o, (char)0x94);
	o->memo[w] = ++o->memos;
}

static void number(struct dump *o, uint64_t value)
{
	uint8_t bytes[PICKLE_INT_BYTES + 1];
	size_t n = pickle_put_int(bytes, (int64_t)value);

	if (value > INT64_MAX) { /* nine bytes, the last of them the sign */
		bytes[0] = 0x8a;
		bytes[1] = 9;
		memcpy(bytes + 2, &value, sizeof(value));
		op(o, (char)bytes[0]);
		put(o, bytes + 1, 9);
		op(o, 0);
		return;
	}
	put(o, bytes, n);
}

static void pair(struct dump *o, enum word key, uint64_t value)
{
	word(o, key);
	number(o, value);
}

static void said(struct dump *o, enum word key, enum word value)
{
	word(o, key);
	word(o, value);
}

static void nothing(struct dump *o, enum word key)
{
	word(o, key);
	op(o, ']');
}

static void block(struct dump *o, const struct plimsoll_alloc_piece *p)
{
	put(o, "}(", 2);
	pair(o, W_ADDRESS, p->addr);
	pair(o, W_SIZE, p->bytes);
	pair(o, W_REQUESTED_SIZE, p->requested_bytes);
	said(o, W_STATE, (enum word)(W_INACTIVE + p->state));
	nothing(o, W_FRAMES);
	op(o, 'u');
}

/* The pieces of one mapped range; how many they were. */
static size_t segment(struct dump *o, int device, const struct plimsoll_alloc_piece *p, size_t n)
{
	uint64_t total = 0, allocated = 0, active = 0, requested = 0;
	size_t k;

	for (k = 0; k < n && p[k].segment == p[0].segment; k++) {
		total += p[k].bytes;
		allocated += p[k].state == 1 ? p[k].bytes : 0;
		active += p[k].state ? p[k].bytes : 0;
		requested += p[k].state ? p[k].requested_bytes : 0;
	}
	put(o, "}(", 2);
	pair(o, W_DEVICE, (uint64_t)device);
	pair(o, W_ADDRESS, p->addr);
	pair(o, W_TOTAL_SIZE, total);
	pair(o, W_ALLOCATED_SIZE, allocated);
	pair(o, W_ACTIVE_SIZE, active);
	pair(o, W_REQUESTED_SIZE, requested);
	pair(o, W_STREAM, p->stream);
	said(o, W_SEGMENT_TYPE, p->large ? W_LARGE : W_SMALL);
	word(o, W_SEGMENT_POOL_ID);
	number(o, 0);
	number(o, p->pool);
	op(o, (char)0x86);
	word(o, W_IS_EXPANDABLE);
	op(o, (char)0x88);
	nothing(o, W_FRAMES);
	word(o, W_BLOCKS);
	put(o, "](", 2);
	for (size_t i = 0; i < k; i++) {
		if (i && i % BATCH == 0)
			put(o, "e(", 2);
		block(o, &p[i]);
	}
	put(o, "eu", 2);
	return k;
}

static void event(struct dump *o, const struct plimsoll_alloc_event *e)
{
	put(o, "}(", 2);
	said(o, W_ACTION, (enum word)(W_ALLOC + e->action));
	pair(o, e->action == PLIMSOLL_ALLOC_EVENT_OOM ? W_DEVICE_FREE : W_ADDR, e->addr);
	pair(o, W_SIZE, e->bytes);
	pair(o, W_STREAM, e->stream);
	pair(o, W_TIME_US, e->time_us);
	said(o, W_COMPILE_CONTEXT, W_EMPTY);
	said(o, W_USER_METADATA, W_EMPTY);
	nothing(o, W_FRAMES);
	op(o, 'u');
}

/* A copy of all devices of one moment each, so that the lock is not held while a disk is written to. */
struct copy {
	struct plimsoll_alloc_piece *pieces;
	struct plimsoll_alloc_event *events;
	size_t piece_count, event_count;
};

static int copy_device(struct device *d, struct copy *c)
{
	pthread_mutex_lock(&d->lock);
	c->piece_count = pieces_of(d, NULL, 0);
	c->event_count = events_of(d, NULL, 0);
	c->pieces = calloc(c->piece_count + 1, sizeof(*c->pieces));
	c->events = calloc(c->event_count + 1, sizeof(*c->events));
	if (c->pieces && c->events) {
		pieces_of(d, c->pieces, c->piece_count);
		events_of(d, c->events, c->event_count);
	}
	pthread_mutex_unlock(&d->lock);
	return c->pieces && c->events;
}

static void write_all(struct dump *o, const struct copy *copies, int devices)
{
	put(o, "\x80\4}(", 4);
	word(o, W_SEGMENTS);
	op(o, ']');
	for (int i = 0; i < devices; i++)
		for (size_t k = 0; k < copies[i].piece_count;) {
			k += segment(o, i, copies[i].pieces + k, copies[i].piece_count - k);
			op(o, 'a');
		}
	word(o, W_DEVICE_TRACES);
	op(o, ']');
	for (int i = 0; i < devices; i++) {
		put(o, "](", 2);
		for (size_t k = 0; k < copies[i].event_count; k++) {
			if (k && k % BATCH == 0)
				put(o, "e(", 2);
			event(o, &copies[i].events[k]);
		}
		put(o, "ea", 2);
	}
	word(o, W_ALLOCATOR_SETTINGS);
	put(o, "}(", 2);
	word(o, W_EXPANDABLE_SEGMENTS);
	op(o, (char)0x88);
	said(o, W_CONF, W_PLIMSOLL);
	op(o, 'u');
	nothing(o, W_EXTERNAL_ANNOTATIONS);
	put(o, "u.", 2);
	flush(o);
}

static int copy_all(struct copy *copies)
{
	for (int i = 0; i < process.devices; i++) {
		struct device *d = device_ready(i);

		if (d && !copy_device(d, &copies[i]))
			return ENOMEM;
	}
	return 0;
}

/* Into a file next to it, then renamed: the name never stands for half a recording. */
static int write_to(const char *path, const struct copy *copies)
{
	char part[4096];
	struct dump *o = calloc(1, sizeof(*o));
	int n = snprintf(part, sizeof(part), "%s.part", path), error;

	if (!o)
		return ENOMEM;
	if (n < 0 || (size_t)n >= sizeof(part)) {
		free(o);
		return ENAMETOOLONG;
	}
	o->fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (o->fd < 0) {
		error = errno;
		free(o);
		return error;
	}
	write_all(o, copies, process.devices);
	error = o->error;
	if (close(o->fd) && !error)
		error = errno;
	free(o);
	if (!error && rename(part, path))
		error = errno;
	if (error)
		(void)unlink(part);
	return error;
}

const char *plimsoll_alloc_dump(const char *path)
{
	static _Thread_local char why[128];
	struct copy *copies;
	int error;

	if (atomic_load_explicit(&process.forked, memory_order_relaxed))
		return "this is a forked child: the recording is its parent's";
	copies = calloc((size_t)process.devices + 1, sizeof(*copies));
	error = copies ? copy_all(copies) : ENOMEM;
	if (!error)
		error = write_to(path, copies);
	for (int i = 0; copies && i < process.devices; i++) {
		free(copies[i].pieces);
		free(copies[i].events);
	}
	free(copies);
	if (!error)
		return NULL;
	(void)snprintf(why, sizeof(why), "%s", strerror(error));
	return why;
}

void snapshot_at_oom(void)
{
	static _Atomic unsigned written;
	char path[4000];
	unsigned number = process.oom_dir ? atomic_fetch_add(&written, 1) : OOM_DUMPS_MAX;
	const char *why;
	int n;

	if (number >= OOM_DUMPS_MAX)
		return;
	n = snprintf(path, sizeof(path), "%s/plimsoll-alloc-pid%ld-oom%u.pickle", process.oom_dir,
		     (long)getpid(), number + 1);
	why = n < 0 || (size_t)n >= sizeof(path) ? strerror(ENAMETOOLONG)
						 : plimsoll_alloc_dump(path);
	if (why)
		fprintf(stderr, "plimsoll: %s: %s\n", path, why);
}
