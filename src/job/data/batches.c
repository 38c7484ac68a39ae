/*
 * Threads that gather batches.
 *
 * A batch is cut into pieces of samples that follow each other in it, so that a piece of a field is one range of bytes.  Without
 * a GPU a piece is read to its place.  With one it is read into a slot of the ring while it is in the processor's cache, and
 * copied from there, on a stream of ours: behind what the caller's stream had queued when the batch was pushed, and before what
 * it queues when it has taken it.
 */
#include "parts.h"

#include <errno.h>
#include <time.h>

#define AHEAD_MOST 64
#define FLIGHTS (AHEAD_MOST + 2) /* what was taken last is still shown, the next is prepared */
#define PIECE ((uint64_t)2 << 20)

/* A batch on its way. */
struct flight {
	struct plim_batch told;
	VEC(uint32_t) samples;
	VEC(uint64_t)
	skip; /* of each sample, and of it each field: its place in the field's values */
	VEC(uint64_t) sizes; /* that differ */
	uint64_t bytes[DATA_FIELDS];
	uint8_t *where[DATA_FIELDS];
	size_t next,
		left;  /* with the lock: samples that no thread has taken, that are not there yet */
	size_t queued; /* with `copying`: samples whose copies are queued */
	void *begun, *done;  /* events: of the caller's stream, of ours */
	struct plim_err why; /* with the lock: of the first failure */
};

struct worker {
	struct plim_batches *of;
	size_t number;
	pthread_t thread;
};

struct plim_batches {
	struct mem mem;
	struct plim_samples *samples;
	struct plim_batches_options options;
	struct data_order order;
	struct data_ring ring;
	pthread_mutex_t lock, copying;
	pthread_cond_t work, ready;
	struct flight flights[FLIGHTS];
	uint64_t pushed, taken; /* batches so far; with the lock */
	uint64_t first;         /* batch of the order that number `pushed` 0 was */
	bool prepared;          /* the next one is laid out */
	uint64_t piece_bytes;   /* of a piece of more than one sample, at most */
	bool stop, drop;        /* with the lock: threads end; nothing is read any more */
	struct worker workers[DATA_THREADS];
	size_t started;
};

struct piece {
	struct flight *of;
	size_t first, count;
};

static size_t fields(const struct plim_batches *b)
{
	return b->samples->layout.front.field_count;
}

/* ---- a piece ---- */

/* With the lock: the next samples that no one has, as many as fit. */
static bool take_piece(struct plim_batches *b, struct piece *out)
{
	for (uint64_t i = b->taken; i < b->pushed; i++) {
		struct flight *x = &b->flights[i % FLIGHTS];
		size_t n = x->told.count, most = (n + b->options.threads - 1) / b->options.threads;
		uint64_t bytes = 0;

		if (x->next == n)
			continue;
		*out = (struct piece){ x, x->next, 0 };
		while (x->next < n && out->count < most) {
			uint64_t one = data_entry_of(b->samples, x->samples.at[x->next])->bytes;

			if (out->count && bytes + one > b->piece_bytes)
				break;
			bytes += one;
			out->count++;
			x->next++;
		}
		return true;
	}
	return false;
}

/* Its samples: field f's begin at base[f]. */
static enum plim_status read_piece(struct plim_batches *b, const struct piece *p,
				   uint8_t *const *base, struct plim_err *err)
{
	size_t n = fields(b);
	const uint64_t *from = p->of->skip.at + p->first * n;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < p->count; i++) {
		void *where[DATA_FIELDS];

		for (size_t f = 0; f < n; f++)
			where[f] = base[f] + (from[i * n + f] - from[f]);
		st = data_sample(b->samples, p->of->samples.at[p->first + i], where, err);
	}
	return st;
}

static enum plim_status read_there(struct plim_batches *b, const struct piece *p,
				   struct plim_err *err)
{
	uint8_t *base[DATA_FIELDS];

	for (size_t f = 0; f < fields(b); f++)
		base[f] = p->of->where[f] + p->of->skip.at[p->first * fields(b) + f];
	return read_piece(b, p, base, err);
}

/* With `copying`, in the context: the slot's bytes to the GPU. */
static int queue_copies(struct plim_batches *b, const struct piece *p, const struct data_slot *slot,
			uint8_t *const *base)
{
	const struct cuda *cuda = &b->ring.cuda;
	size_t n = fields(b);
	const uint64_t *from = p->of->skip.at + p->first * n, *to = from + p->count * n;
	int code = p->of->queued ? 0 : cuda->stream_wait(b->ring.stream, p->of->begun, 0);

	for (size_t f = 0; !code && f < n; f++)
		if (to[f] > from[f])
			code = cuda->copy((uint64_t)(uintptr_t)(p->of->where[f] + from[f]),
					  (uint64_t)(uintptr_t)base[f], (size_t)(to[f] - from[f]),
					  b->ring.stream);
	return code ? code : cuda->event_record(slot->event, b->ring.stream);
}

static enum plim_status through_slot(struct plim_batches *b, size_t thread, const struct piece *p,
				     struct plim_err *err)
{
	size_t n = fields(b);
	const uint64_t *from = p->of->skip.at + p->first * n, *to = from + p->count * n;
	uint8_t *base[DATA_FIELDS] = { NULL };
	struct data_slot *slot;
	uint64_t at = 0;
	enum plim_status st = data_ring_slot(&b->ring, thread, &slot, err);

	for (size_t f = 0; !st && f < n; f++) {
		base[f] = slot->at + at;
		at += data_up(to[f] - from[f], DATA_LINE);
	}
	CHECK(st || at <= b->ring.slot_bytes);
	if (!st)
		st = read_piece(b, p, base, err);
	if (!st) {
		int code;

		pthread_mutex_lock(&b->copying);
		slot->used = true;
		code = queue_copies(b, p, slot, base);
		pthread_mutex_unlock(&b->copying);
		st = code ? data_cuda_failed(err, "copy to the GPU", code) : PLIM_OK;
	}
	return st;
}

/* Behind all copies of a batch there is its event. */
static enum plim_status end_copies(struct plim_batches *b, const struct piece *p,
				   enum plim_status st, struct plim_err *err)
{
	int code = 0;

	pthread_mutex_lock(&b->copying);
	p->of->queued += p->count;
	if (p->of->queued == p->of->told.count)
		code = b->ring.cuda.event_record(p->of->done, b->ring.stream);
	pthread_mutex_unlock(&b->copying);
	return st || !code ? st : data_cuda_failed(err, "record an event", code);
}

/* ---- threads ---- */

/* With the lock, which is let go meanwhile. */
static void do_piece(struct plim_batches *b, size_t thread, const struct piece *p)
{
	bool skip = b->drop || p->of->why.status;
	struct plim_err err = { 0 };
	enum plim_status st = PLIM_OK;

	pthread_mutex_unlock(&b->lock);
	if (!skip)
		st = b->ring.context ? through_slot(b, thread, p, &err) : read_there(b, p, &err);
	if (b->ring.context)
		st = end_copies(b, p, st, &err);
	pthread_mutex_lock(&b->lock);
	if (st && !p->of->why.status)
		p->of->why = err;
	p->of->left -= p->count;
	if (!p->of->left)
		pthread_cond_broadcast(&b->ready);
}

static void *run_batches(void *arg)
{
	const struct worker *w = arg;
	struct plim_batches *b = w->of;
	void *before = data_ring_enter(&b->ring);
	struct piece p;

	pthread_mutex_lock(&b->lock);
	while (!b->stop)
		if (take_piece(b, &p))
			do_piece(b, w->number, &p);
		else
			pthread_cond_wait(&b->work, &b->lock);
	pthread_mutex_unlock(&b->lock);
	data_ring_leave(&b->ring, before);
	return NULL;
}

/* Nothing is on the way any more, nor being copied. */
static void drain(struct plim_batches *b)
{
	void *before = data_ring_enter(&b->ring);

	pthread_mutex_lock(&b->lock);
	b->drop = true;
	for (; b->taken < b->pushed; b->taken++) {
		struct flight *x = &b->flights[b->taken % FLIGHTS];

		while (x->left)
			pthread_cond_wait(&b->ready, &b->lock);
		if (b->ring.context)
			(void)b->ring.cuda.event_wait(x->done);
	}
	b->drop = false;
	b->pushed = b->taken = 0;
	b->prepared = false;
	pthread_mutex_unlock(&b->lock);
	data_ring_leave(&b->ring, before);
}

/* ---- its life ---- */

static int make_events(struct plim_batches *b)
{
	void *before = data_ring_enter(&b->ring);
	int code = 0;

	for (size_t i = 0; !code && i < FLIGHTS; i++) {
		code = b->ring.cuda.event_create(&b->flights[i].begun, CUDA_EVENT_DISABLE_TIMING);
		if (!code)
			code = b->ring.cuda.event_create(&b->flights[i].done,
							 CUDA_EVENT_DISABLE_TIMING);
	}
	data_ring_leave(&b->ring, before);
	return code;
}

static void end_events(struct plim_batches *b)
{
	void *before = data_ring_enter(&b->ring);

	for (size_t i = 0; b->ring.context && i < FLIGHTS; i++) {
		if (b->flights[i].begun)
			(void)b->ring.cuda.event_destroy(b->flights[i].begun);
		if (b->flights[i].done)
			(void)b->ring.cuda.event_destroy(b->flights[i].done);
	}
	data_ring_leave(&b->ring, before);
}

static enum plim_status open_gpu(struct plim_batches *b, struct plim_err *err)
{
	uint64_t ring = b->options.ring_bytes, most = b->samples->record_most;
	uint64_t slot =
		ring ? ring / b->options.threads / DATA_SLOTS / DATA_PAGE * DATA_PAGE : PIECE;
	enum plim_status st;
	int code;

	b->piece_bytes = slot > most ? slot : most;
	slot = data_up(b->piece_bytes + fields(b) * DATA_LINE, DATA_PAGE);
	st = data_ring_open(&b->ring, &b->options, slot, err);
	code = st ? 0 : make_events(b);
	return code ? data_cuda_failed(err, "create an event", code) : st;
}

static enum plim_status start_threads(struct plim_batches *b, struct plim_err *err)
{
	for (size_t i = 0; i < b->options.threads; i++, b->started++) {
		b->workers[i] = (struct worker){ .of = b, .number = i };
		if (thread_start(&b->workers[i].thread, run_batches, &b->workers[i]))
			break; /* then fewer do it */
	}
	return b->started ? PLIM_OK : err_set(err, PLIM_E_NOMEM, "no thread can be started");
}

static void init_locks(struct plim_batches *b)
{
	pthread_condattr_t clock;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_mutex_init(&b->lock, NULL);
	pthread_mutex_init(&b->copying, NULL);
	pthread_cond_init(&b->work, NULL);
	pthread_cond_init(&b->ready, &clock);
	pthread_condattr_destroy(&clock);
}

enum plim_status batches_new(struct plim_samples *s, const struct plim_batches_options *o,
			     struct plim_batches **out, struct plim_err *err)
{
	struct plim_batches *b;
	enum plim_status st = PLIM_OK;

	*out = NULL;
	if (!o->threads || o->threads > DATA_THREADS || !o->ahead || o->ahead > AHEAD_MOST)
		return err_set(err, PLIM_E_ARG, "options.threads and options.ahead are 1 to %d",
			       DATA_THREADS);
	b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	mem_init(&b->mem, 0);
	init_locks(b);
	b->samples = s;
	b->options = *o;
	b->order.mem = &b->mem;
	b->piece_bytes = PIECE;
	if (o->device >= 0)
		st = open_gpu(b, err);
	b->options.cuda_library = NULL; /* the caller's */
	if (!st)
		st = start_threads(b, err);
	if (st)
		plim_batches_free(b);
	*out = st ? NULL : b;
	return st;
}

void plim_batches_free(struct plim_batches *b)
{
	if (!b)
		return;
	drain(b);
	pthread_mutex_lock(&b->lock);
	b->stop = true;
	pthread_cond_broadcast(&b->work);
	pthread_mutex_unlock(&b->lock);
	for (size_t i = 0; i < b->started; i++)
		pthread_join(b->workers[i].thread, NULL);
	end_events(b);
	data_ring_close(&b->ring);
	data_order_release(&b->order);
	for (size_t i = 0; i < FLIGHTS; i++) {
		vec_release(&b->mem, &b->flights[i].samples);
		vec_release(&b->mem, &b->flights[i].skip);
		vec_release(&b->mem, &b->flights[i].sizes);
	}
	pthread_cond_destroy(&b->ready);
	pthread_cond_destroy(&b->work);
	pthread_mutex_destroy(&b->copying);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* ---- what the caller does ---- */

enum plim_status plim_batches_begin(struct plim_batches *b, const struct plim_epoch *e,
				    struct plim_err *err)
{
	struct data_order order;
	enum plim_status st;

	drain(b);
	data_order_release(&b->order);
	st = data_order_make(&order, &b->mem, b->samples->layout.front.samples, e, err);
	if (st) {
		data_order_release(&order);
		return st;
	}
	b->order = order;
	b->first = e->done;
	return PLIM_OK;
}

/* Its samples, and where their values go. */
static enum plim_status prepare(struct plim_batches *b, struct flight *x, uint64_t number,
				struct plim_err *err)
{
	const struct data_layout *layout = &b->samples->layout;
	size_t n = data_order_batch(&b->order, number, NULL), f = fields(b);
	uint64_t at[DATA_FIELDS] = { 0 }, skip[DATA_FIELDS], bytes[DATA_FIELDS];
	enum plim_status st;

	x->samples.n = x->skip.n = x->sizes.n = 0;
	st = vec_need(&b->mem, &x->samples, n, err);
	if (!st)
		st = vec_need(&b->mem, &x->skip, (n + 1) * f, err);
	if (!st)
		st = vec_need(&b->mem, &x->sizes, n * layout->sizes + 1, err);
	if (st)
		return st;
	(void)data_order_batch(&b->order, number, x->samples.at);
	for (size_t i = 0; i <= n; i++) {
		const struct data_entry *e;

		memcpy(x->skip.at + i * f, at, f * sizeof(*at));
		if (i == n)
			break;
		e = data_entry_of(b->samples, x->samples.at[i]);
		(void)data_record(layout, e->sizes, skip, bytes);
		for (size_t k = 0; k < f; k++)
			at[k] += bytes[k];
		memcpy(x->sizes.at + i * layout->sizes, e->sizes,
		       layout->sizes * sizeof(*e->sizes));
	}
	memcpy(x->bytes, at, sizeof(at));
	x->told = (struct plim_batch){ .number = number,
				       .samples = x->samples.at,
				       .count = n,
				       .bytes = x->bytes,
				       .sizes = layout->sizes ? x->sizes.at : NULL,
				       .size_count = layout->sizes };
	return PLIM_OK;
}

enum plim_status plim_batches_peek(struct plim_batches *b, struct plim_batch *out,
				   struct plim_err *err)
{
	struct flight *x = &b->flights[b->pushed % FLIGHTS];
	uint64_t number = b->first + b->pushed;
	enum plim_status st = PLIM_OK;

	*out = (struct plim_batch){ 0 };
	if (number >= b->order.batches)
		return PLIM_OK;
	if (!b->prepared)
		st = prepare(b, x, number, err);
	b->prepared = !st;
	if (!st)
		*out = x->told;
	return st;
}

enum plim_status plim_batches_push(struct plim_batches *b, void *const *where, void *stream,
				   struct plim_err *err)
{
	struct flight *x = &b->flights[b->pushed % FLIGHTS];
	struct plim_batch next;
	enum plim_status st = plim_batches_peek(b, &next, err);

	if (!st && (!next.count || b->pushed - b->taken >= b->options.ahead))
		st = err_set(err, PLIM_E_ARG,
			     next.count ? "%u batches are on the way already"
					: "there is no batch after %u on the way",
			     (unsigned)(b->pushed - b->taken));
	if (st)
		return st;
	if (b->ring.context) {
		void *before = data_ring_enter(&b->ring);
		int code = b->ring.cuda.event_record(x->begun, stream);

		data_ring_leave(&b->ring, before);
		if (code)
			return data_cuda_failed(err, "record an event", code);
	}
	for (size_t f = 0; f < fields(b); f++)
		x->where[f] = where[f];
	x->next = x->queued = 0;
	x->left = next.count;
	x->why = (struct plim_err){ 0 };
	b->prepared = false;
	pthread_mutex_lock(&b->lock);
	b->pushed++;
	pthread_cond_broadcast(&b->work);
	pthread_mutex_unlock(&b->lock);
	return PLIM_OK;
}

/* With the lock: is the oldest there before that time? */
static bool wait_for_batches(struct plim_batches *b, uint64_t wait_ms)
{
	const struct flight *x = &b->flights[b->taken % FLIGHTS];
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(wait_ms / 1000);
	until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	while (x->left)
		if (pthread_cond_timedwait(&b->ready, &b->lock, &until) == ETIMEDOUT)
			break;
	return !x->left;
}

static enum plim_status hand_over(struct plim_batches *b, const struct flight *x, void *stream,
				  struct plim_err *err)
{
	void *before = data_ring_enter(&b->ring);
	int code = b->ring.context ? b->ring.cuda.stream_wait(stream, x->done, 0) : 0;

	data_ring_leave(&b->ring, before);
	return code ? data_cuda_failed(err, "wait for the copies", code) : PLIM_OK;
}

enum plim_status plim_batches_next(struct plim_batches *b, void *stream, uint64_t wait_ms,
				   struct plim_batch *out, struct plim_err *err)
{
	struct flight *x = &b->flights[b->taken % FLIGHTS];
	enum plim_status st = PLIM_OK;
	bool there;

	*out = (struct plim_batch){ 0 };
	if (b->taken == b->pushed)
		return PLIM_OK;
	pthread_mutex_lock(&b->lock);
	there = wait_for_batches(b, wait_ms);
	pthread_mutex_unlock(&b->lock);
	if (!there)
		return PLIM_OK;
	if (x->why.status) {
		st = x->why.status;
		if (err)
			*err = x->why;
		err_prefix(err, b->samples->path);
	} else {
		st = hand_over(b, x, stream, err);
	}
	if (st) {
		drain(b);
		b->order.batches = 0;
		return st;
	}
	*out = x->told;
	pthread_mutex_lock(&b->lock);
	b->taken++;
	pthread_mutex_unlock(&b->lock);
	return PLIM_OK;
}
