/* What a loader owns, and copies from memory, which need no ring. */
#include "parts.h"

#include <sys/mman.h>

/* ---- the driver ---- */

enum plim_status load_failed(struct plim_err *err, const char *what, int code)
{
	return code == CUDA_OUT_OF_MEMORY
		       ? err_set(err, PLIM_E_NOMEM, "cannot %s: out of memory", what)
		       : err_set(err, PLIM_E_UNSUPPORTED, "cannot %s: CUDA error %d", what, code);
}

void *load_enter(const struct plim_loader *l)
{
	void *before = NULL;

	(void)l->cuda.context_get(&before);
	if (before != l->context)
		(void)l->cuda.context_set(l->context);
	return before;
}

void load_leave(const struct plim_loader *l, void *before)
{
	if (before != l->context)
		(void)l->cuda.context_set(before);
}

/* In the context. */
static int make_streams(struct plim_loader *l)
{
	int code = l->cuda.event_create(&l->begun, CUDA_EVENT_DISABLE_TIMING);

	if (!code)
		code = l->cuda.stream_create(&l->copies, CUDA_STREAM_NON_BLOCKING);
	for (size_t i = 0; !code && i < LOAD_TICKETS; i++)
		code = l->cuda.event_create(&l->tickets[i], CUDA_EVENT_DISABLE_TIMING);
	return code;
}

static enum plim_status open_gpu(struct plim_loader *l, struct plim_err *err)
{
	const char *missing = cuda_open(&l->cuda, l->options.cuda_library);
	void *before;
	int code;

	if (missing)
		return err_set(err, PLIM_E_UNSUPPORTED, "the CUDA driver cannot be used: %.300s",
			       missing);
	code = l->cuda.context_retain(&l->context, l->options.device);
	if (code) {
		l->context = NULL;
		return load_failed(err, "use the GPU", code);
	}
	before = load_enter(l);
	code = make_streams(l);
	load_leave(l, before);
	return code ? load_failed(err, "create a stream", code) : PLIM_OK;
}

/* ---- the ring ---- */

static int make_reader(struct plim_loader *l, size_t i)
{
	struct load_reader *r = &l->readers[i];
	int code = l->cuda.stream_create(&r->stream, CUDA_STREAM_NON_BLOCKING);

	if (!code)
		code = l->cuda.event_create(&r->done, CUDA_EVENT_DISABLE_TIMING);
	for (size_t k = 0; !code && k < LOAD_SLOTS; k++) {
		r->slots[k].at = l->ring + (i * LOAD_SLOTS + k) * l->slot_bytes;
		code = l->cuda.event_create(&r->slots[k].event, CUDA_EVENT_DISABLE_TIMING);
	}
	return code;
}

/* A stream that is destroyed goes on with what is queued: that is to be over before its memory goes. */
static void end_stream(struct plim_loader *l, void *stream)
{
	if (!stream)
		return;
	if (l->begun && !l->cuda.event_record(l->begun, stream))
		(void)l->cuda.event_wait(l->begun);
	(void)l->cuda.stream_destroy(stream);
}

static void drop_ring(struct plim_loader *l)
{
	for (size_t i = 0; i < l->options.threads; i++) {
		struct load_reader *r = &l->readers[i];

		end_stream(l, r->stream);
		if (r->done)
			(void)l->cuda.event_destroy(r->done);
		for (size_t k = 0; k < LOAD_SLOTS; k++)
			if (r->slots[k].event)
				(void)l->cuda.event_destroy(r->slots[k].event);
		*r = (struct load_reader){ 0 };
	}
	if (l->ring)
		(void)l->cuda.host_free(l->ring);
	l->ring = NULL;
}

enum plim_status load_ring(struct plim_loader *l, struct plim_err *err)
{
	size_t bytes = (size_t)(l->slot_bytes * LOAD_SLOTS * l->options.threads);
	void *at = NULL;
	int code;

	if (l->ring)
		return PLIM_OK;
	code = l->cuda.host_alloc(&at, bytes, CUDA_HOST_PORTABLE);
	if (code)
		return load_failed(err, "lock memory for the ring", code);
	l->ring = at;
	for (size_t i = 0; !code && i < l->options.threads; i++)
		code = make_reader(l, i);
	if (!code)
		return PLIM_OK;
	drop_ring(l);
	return load_failed(err, "create a stream", code);
}

enum plim_status load_slot_next(struct plim_loader *l, struct load_reader *r,
				struct load_slot **out, struct plim_err *err)
{
	struct load_slot *s = &r->slots[r->next++ % LOAD_SLOTS];
	int code = s->used ? l->cuda.event_wait(s->event) : 0;

	*out = s;
	return code ? load_failed(err, "wait for a copy", code) : PLIM_OK;
}

enum plim_status load_slot_copy(struct plim_loader *l, struct load_reader *r,
				const struct load_slot *s, uint64_t skip, void *to, uint64_t n,
				struct plim_err *err)
{
	int code = l->cuda.copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)(s->at + skip),
				(size_t)n, r->stream);

	return code ? load_failed(err, "copy to the GPU", code) : PLIM_OK;
}

enum plim_status load_slot_end(struct plim_loader *l, struct load_reader *r, struct load_slot *s,
			       struct plim_err *err)
{
	int code = l->cuda.event_record(s->event, r->stream);

	s->used = true;
	return code ? load_failed(err, "record an event", code) : PLIM_OK;
}

/* ---- its life ---- */

enum plim_status load_new(const struct plim_loader_options *o, struct plim_loader **out,
			  struct plim_err *err)
{
	struct plim_loader *l = calloc(1, sizeof(*l));
	enum plim_status st;

	*out = NULL;
	if (!l)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	l->options = *o;
	mem_init(&l->mem, 0);
	pthread_mutex_init(&l->lock, NULL);
	pthread_mutex_init(&l->copying, NULL);
	pthread_mutex_init(&l->sparing, NULL);
	l->slot_bytes = (o->ring_bytes / o->threads / LOAD_SLOTS) & ~(uint64_t)4095;
	if (o->threads > LOAD_THREADS || !l->slot_bytes)
		st = err_set(err, PLIM_E_ARG,
			     "options.threads is at most %d, and each needs 16 KiB of "
			     "options.ring_bytes",
			     LOAD_THREADS);
	else
		st = o->device < 0 ? PLIM_OK : open_gpu(l, err);
	l->options.cuda_library = NULL; /* the caller's */
	if (st)
		plim_loader_free(l);
	*out = st ? NULL : l;
	return st;
}

void plim_loader_free(struct plim_loader *l)
{
	if (!l)
		return;
	plim_loader_give(l, l->spare, l->spare_bytes);
	if (l->context) {
		void *before = load_enter(l);

		drop_ring(l);
		end_stream(l, l->copies);
		if (l->begun)
			(void)l->cuda.event_destroy(l->begun);
		for (size_t i = 0; i < LOAD_TICKETS; i++)
			if (l->tickets[i])
				(void)l->cuda.event_destroy(l->tickets[i]);
		load_leave(l, before);
	}
	pthread_mutex_destroy(&l->sparing);
	pthread_mutex_destroy(&l->copying);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* ---- from memory ---- */

/* With l->copying, in the context. */
static int queue_copies(struct plim_loader *l, const struct plim_copy *copies, size_t n,
			void *stream)
{
	void **ticket = &l->tickets[(l->ticket + 1) % LOAD_TICKETS];
	int code = 0, end;

	if (l->ticket + 1 > LOAD_TICKETS)
		code = l->cuda.event_wait(*ticket);
	if (!code)
		code = l->cuda.event_record(l->begun, stream);
	if (!code)
		code = l->cuda.stream_wait(l->copies, l->begun, 0);
	for (size_t i = 0; !code && i < n; i++)
		if (copies[i].bytes)
			code = l->cuda.copy((uint64_t)(uintptr_t)copies[i].to,
					    (uint64_t)(uintptr_t)copies[i].from,
					    (size_t)copies[i].bytes, l->copies);
	end = l->cuda.event_record(*ticket, l->copies);
	if (!end)
		l->ticket++;
	if (!end && code)
		(void)l->cuda.event_wait(*ticket); /* what was queued is over */
	if (!end && !code)
		end = l->cuda.stream_wait(stream, *ticket, 0);
	return code ? code : end;
}

enum plim_status plim_loader_copy(struct plim_loader *l, const struct plim_copy *copies, size_t n,
				  void *stream, uint64_t *ticket, struct plim_err *err)
{
	void *before;
	int code;

	if (ticket)
		*ticket = 0;
	for (size_t i = 0; !l->context && i < n; i++)
		if (copies[i].bytes)
			memmove(copies[i].to, copies[i].from, (size_t)copies[i].bytes);
	if (!l->context)
		return PLIM_OK;
	pthread_mutex_lock(&l->copying);
	before = load_enter(l);
	code = queue_copies(l, copies, n, stream);
	load_leave(l, before);
	if (ticket)
		*ticket = l->ticket;
	pthread_mutex_unlock(&l->copying);
	return code ? load_failed(err, "copy to the GPU", code) : PLIM_OK;
}

enum plim_status plim_loader_after(struct plim_loader *l, void *stream, struct plim_err *err)
{
	void *before, *event = NULL;
	int code;

	if (!l->context)
		return PLIM_OK;
	pthread_mutex_lock(&l->copying);
	before = load_enter(l);
	code = l->cuda.event_create(&event, CUDA_EVENT_DISABLE_TIMING);
	if (!code)
		code = l->cuda.event_record(event, stream);
	if (!code)
		code = l->cuda.stream_wait(l->copies, event, 0);
	if (event)
		(void)l->cuda.event_destroy(event);
	load_leave(l, before);
	pthread_mutex_unlock(&l->copying);
	return code ? load_failed(err, "wait for the stream", code) : PLIM_OK;
}

/* An event that was recorded again since is behind it, so what holds for that holds for it. */
static int ask(struct plim_loader *l, uint64_t ticket, int (*how)(void *event))
{
	void *before;
	int code;

	if (!l->context || !ticket)
		return 0;
	pthread_mutex_lock(&l->copying);
	before = load_enter(l);
	code = how(l->tickets[ticket % LOAD_TICKETS]);
	load_leave(l, before);
	pthread_mutex_unlock(&l->copying);
	return code;
}

enum plim_status plim_loader_wait(struct plim_loader *l, uint64_t ticket, struct plim_err *err)
{
	int code = ask(l, ticket, l->cuda.event_wait);

	return code ? load_failed(err, "wait for a copy", code) : PLIM_OK;
}

enum plim_status plim_loader_look(struct plim_loader *l, uint64_t ticket, uint32_t *over,
				  struct plim_err *err)
{
	int code = ask(l, ticket, l->cuda.event_query);

	*over = !code;
	return code && code != CUDA_NOT_READY ? load_failed(err, "look at a copy", code) : PLIM_OK;
}

enum plim_status plim_loader_take(struct plim_loader *l, uint64_t bytes, void **where,
				  struct plim_err *err)
{
	size_t n = bytes ? (size_t)bytes : 1;
	void *before;
	int code;

	*where = NULL;
	if (!l->context) {
		void *at =
			mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		*where = at == MAP_FAILED ? NULL : at;
		return *where ? PLIM_OK
			      : err_set(err, PLIM_E_NOMEM, "out of memory: %llu bytes are refused",
					(unsigned long long)bytes);
	}
	before = load_enter(l);
	code = l->cuda.host_alloc(where, n, CUDA_HOST_PORTABLE);
	load_leave(l, before);
	return code ? load_failed(err, "lock memory", code) : PLIM_OK;
}

void plim_loader_give(struct plim_loader *l, void *where, uint64_t bytes)
{
	void *before;

	if (!where)
		return;
	if (!l->context) {
		munmap(where, bytes ? (size_t)bytes : 1);
		return;
	}
	pthread_mutex_lock(&l->copying);
	before = load_enter(l);
	if (l->ticket) /* copies may go on from there, or to there */
		(void)l->cuda.event_wait(l->tickets[l->ticket % LOAD_TICKETS]);
	(void)l->cuda.host_free(where);
	load_leave(l, before);
	pthread_mutex_unlock(&l->copying);
}
