/*
 * Threads that read pieces.  On the way to a GPU each has slots of the ring and a stream of its own: a slot is read into when
 * the copies out of it are done, which the event behind them shows; so reading and copying go on at once, and what was just
 * read is still in the processor's cache.
 */
#include "parts.h"

struct reading {
	struct plim_loader *loader;
	const struct load_job *job;
	struct load_plan plan;
	bool to_gpu;
	_Atomic size_t next; /* piece */
	_Atomic bool stop;
	pthread_mutex_t lock;
	struct plim_err why; /* of the first failure */
};

struct worker {
	struct reading *of;
	struct load_reader *reader;
	pthread_t thread;
};

/* ---- one piece ---- */

static enum plim_status read_all_load(const struct reading *g, const struct load_run *r,
				      uint64_t skip, void *at, uint64_t n, struct plim_err *err)
{
	const struct ckpt *c = g->job->ckpt;
	size_t got;
	enum plim_status st = ckpt_pread(c, r->file, r->at + skip, at, (size_t)n, &got, err);

	if (!st && got < n)
		st = err_set(err, PLIM_E_IO, "'%.200s' became shorter while it was read",
			     c->files.at[r->file].name);
	return st;
}

/* The bytes of a run, or of its part in the piece, are at `at`. */
static enum plim_status check_sum(const struct reading *g, struct load_piece *x,
				  const struct load_run *r, const void *at, struct plim_err *err)
{
	if (!r->checked)
		return PLIM_OK;
	if (x->count == 1) {
		x->crc = crc_add(0, at, (size_t)x->bytes);
		return PLIM_OK;
	}
	return crc_add(0, at, (size_t)r->bytes) == r->crc ? PLIM_OK
							  : load_damaged(g->job->ckpt, r, err);
}

static enum plim_status through_slot(struct reading *g, struct load_reader *reader,
				     struct load_piece *x, struct plim_err *err)
{
	const struct load_run *first = &g->plan.runs.at[x->first];
	struct load_slot *slot;
	enum plim_status st = load_slot_next(g->loader, reader, &slot, err), end;

	if (st)
		return st;
	st = read_all_load(g, first, x->skip, slot->at, x->bytes, err);
	for (size_t i = 0; !st && i < x->count; i++) {
		const struct load_run *r = first + i;
		uint64_t at = r->at - first->at; /* in the slot */
		uint64_t n = x->count == 1 ? x->bytes : r->bytes;

		st = check_sum(g, x, r, slot->at + at, err);
		if (!st)
			st = load_slot_copy(g->loader, reader, slot, at, r->where + x->skip, n,
					    err);
	}
	end = load_slot_end(g->loader, reader, slot, st ? NULL : err);
	return st ? st : end;
}

static enum plim_status straight(struct reading *g, struct load_piece *x, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < x->count; i++) {
		const struct load_run *r = &g->plan.runs.at[x->first + i];
		uint64_t n = x->count == 1 ? x->bytes : r->bytes;

		st = read_all_load(g, r, x->skip, r->where + x->skip, n, err);
		if (!st)
			st = check_sum(g, x, r, r->where + x->skip, err);
	}
	return st;
}

static void fail(struct reading *g, const struct plim_err *why)
{
	pthread_mutex_lock(&g->lock);
	if (!g->why.status)
		g->why = *why;
	g->stop = true;
	pthread_mutex_unlock(&g->lock);
}

static void *work_load(void *arg)
{
	const struct worker *w = arg;
	struct reading *g = w->of;
	void *before = g->to_gpu ? load_enter(g->loader) : NULL;

	while (!g->stop) {
		size_t i = g->next++;
		struct plim_err err = { 0 };
		enum plim_status st;

		if (i >= g->plan.pieces.n)
			break;
		st = mem_stopped(&err);
		if (!st)
			st = g->to_gpu ? through_slot(g, w->reader, &g->plan.pieces.at[i], &err)
				       : straight(g, &g->plan.pieces.at[i], &err);
		if (st)
			fail(g, &err);
	}
	if (g->to_gpu)
		load_leave(g->loader, before);
	return NULL;
}

/* As many threads as there is work for; the caller is one of them. */
static enum plim_status read_pieces(struct reading *g, struct plim_err *err)
{
	struct plim_loader *l = g->loader;
	struct worker workers[LOAD_THREADS];
	size_t want = l->options.threads, started = 0;

	want = g->plan.pieces.n < want ? g->plan.pieces.n : want;
	for (size_t i = 0; i < want; i++)
		workers[i] = (struct worker){ .of = g, .reader = &l->readers[i] };
	for (size_t i = 1; i < want; i++, started++)
		if (thread_start(&workers[i].thread, work_load, &workers[i]))
			break; /* then fewer do it */
	if (want)
		work_load(&workers[0]);
	for (size_t i = 1; i <= started; i++)
		pthread_join(workers[i].thread, NULL);
	if (g->why.status) {
		if (err)
			*err = g->why;
		return g->why.status;
	}
	return load_plan_check(&g->plan, g->job->ckpt, err);
}

/* ---- what has to be put together first ---- */

struct sinking {
	struct reading *of;
	uint8_t *where;
};

static enum plim_status sink(void *ctx, uint64_t at, const void *bytes, size_t n,
			     struct plim_err *err)
{
	const struct sinking *s = ctx;
	struct plim_loader *l = s->of->loader;
	struct load_reader *reader = &l->readers[0];
	enum plim_status st = PLIM_OK, end;

	if (!s->of->to_gpu) {
		memcpy(s->where + at, bytes, n);
		return PLIM_OK;
	}
	while (!st && n) {
		size_t here = n < l->slot_bytes ? n : (size_t)l->slot_bytes;
		struct load_slot *slot;

		st = load_slot_next(l, reader, &slot, err);
		if (st)
			break;
		memcpy(slot->at, bytes, here);
		st = load_slot_copy(l, reader, slot, 0, s->where + at, here, err);
		end = load_slot_end(l, reader, slot, st ? NULL : err);
		st = st ? st : end;
		bytes = (const uint8_t *)bytes + here;
		at += here;
		n -= here;
	}
	return st;
}

static enum plim_status read_rest(struct reading *g, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < g->plan.rest.n; i++) {
		const struct plim_load *x = &g->job->loads[g->plan.rest.at[i]];
		struct sinking s = { g, x->where };

		st = ckpt_load(g->job->ckpt, (size_t)x->tensor, sink, &s, err);
	}
	return st;
}

/* ---- the order of streams ---- */

/* Our streams begin behind the caller's, and behind copies from memory. */
static enum plim_status begin_load(struct reading *g, struct plim_err *err)
{
	struct plim_loader *l = g->loader;
	int code;

	pthread_mutex_lock(&l->copying);
	code = l->cuda.event_record(l->begun, g->job->stream);
	if (!code)
		code = l->cuda.stream_wait(l->copies, l->begun, 0);
	if (!code)
		code = l->cuda.event_record(l->begun, l->copies);
	for (size_t i = 0; !code && i < l->options.threads; i++)
		code = l->cuda.stream_wait(l->readers[i].stream, l->begun, 0);
	pthread_mutex_unlock(&l->copying);
	return code ? load_failed(err, "wait for the stream", code) : PLIM_OK;
}

/* The caller's goes on behind ours, and so do copies from memory; after a failure all copies are over on return. */
static enum plim_status end_load(struct reading *g, enum plim_status st, struct plim_err *err)
{
	struct plim_loader *l = g->loader;
	int code = 0;

	pthread_mutex_lock(&l->copying);
	for (size_t i = 0; i < l->options.threads; i++) {
		struct load_reader *r = &l->readers[i];
		int one = l->cuda.event_record(r->done, r->stream);

		if (!one)
			one = st || g->job->wait ? l->cuda.event_wait(r->done)
						 : l->cuda.stream_wait(g->job->stream, r->done, 0);
		if (!one)
			one = l->cuda.stream_wait(l->copies, r->done, 0);
		code = code ? code : one;
	}
	pthread_mutex_unlock(&l->copying);
	return st || !code ? st : load_failed(err, "wait for the copies", code);
}

static enum plim_status into_gpu(struct reading *g, struct plim_err *err)
{
	struct plim_loader *l = g->loader;
	void *before;
	enum plim_status st;

	pthread_mutex_lock(&l->lock);
	before = load_enter(l);
	st = load_ring(l, err);
	if (!st) {
		st = begin_load(g, err);
		if (!st)
			st = read_pieces(g, err);
		if (!st)
			st = read_rest(g, err);
		if (!st)
			st = ckpt_same(g->job->ckpt, err);
		st = end_load(g, st, err);
	}
	load_leave(l, before);
	pthread_mutex_unlock(&l->lock);
	return st;
}

enum plim_status load_tensors(struct plim_loader *l, const struct load_job *job,
			      struct plim_err *err)
{
	struct reading g = { .loader = l, .job = job };
	struct plim_err mine = { 0 };
	enum plim_status st;

	err = err ? err : &mine;
	g.to_gpu = l->context && !(job->flags & PLIM_LOADING_TO_HOST);
	pthread_mutex_init(&g.lock, NULL);
	st = load_plan(&g.plan, &l->mem, job, l->slot_bytes, err);
	if (!st && g.to_gpu) {
		st = into_gpu(&g, err);
	} else if (!st) {
		st = read_pieces(&g, err);
		if (!st)
			st = read_rest(&g, err);
		if (!st)
			st = ckpt_same(job->ckpt, err);
	}
	load_plan_release(&g.plan);
	pthread_mutex_destroy(&g.lock);
	return st;
}
