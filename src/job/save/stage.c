/*
 * Files are cut into slots of staging memory in the order in which they lie on the disk.
 *
 * What is guarded is copied by a stream of our own, next to the work that is queued; the rest by the stream that the work is
 * queued on, in its order.  Before either reads, the copy stream waits for what is queued.
 */
#include "parts.h"

#include <stdio.h>

/* ---- the driver ---- */

enum plim_status save_cuda_failed(struct plim_err *err, const char *what, int code)
{
	return err_set(err, PLIM_E_UNSUPPORTED, "cannot %s: CUDA error %d", what, code);
}

void *save_enter(const struct plim_checkpointer *c, void *context)
{
	void *before = NULL;

	(void)c->cuda.context_get(&before);
	if (before != context)
		(void)c->cuda.context_set(context);
	return before;
}

void save_leave(const struct plim_checkpointer *c, void *before)
{
	(void)c->cuda.context_set(before);
}

static enum plim_status open_driver(struct plim_checkpointer *c, struct plim_err *err)
{
	const char *missing;

	if (c->cuda.library)
		return PLIM_OK;
	missing = cuda_open(&c->cuda, c->cuda_library);
	if (missing)
		c->cuda.library = NULL;
	return missing ? err_set(err, PLIM_E_UNSUPPORTED, "the CUDA driver cannot be used: %.300s",
				 missing)
		       : PLIM_OK;
}

enum plim_status save_stream_of(struct plim_checkpointer *c, int device, struct save_stream **out,
				struct plim_err *err)
{
	struct save_stream *x = &c->streams[c->stream_count];
	void *before;
	int code;
	enum plim_status st;

	for (size_t i = 0; i < c->stream_count; i++)
		if (c->streams[i].ordinal == device) {
			*out = &c->streams[i];
			return PLIM_OK;
		}
	if (c->stream_count == SAVE_DEVICES)
		return err_set(err, PLIM_E_LIMIT, "more than %d GPUs", SAVE_DEVICES);
	st = open_driver(c, err);
	if (st)
		return st;
	*x = (struct save_stream){ .ordinal = device };
	code = c->cuda.context_retain(&x->context, device);
	if (code)
		return save_cuda_failed(err, "use the GPU", code);
	before = save_enter(c, x->context);
	code = c->cuda.stream_create(&x->copy, CUDA_STREAM_NON_BLOCKING);
	save_leave(c, before);
	if (code)
		return save_cuda_failed(err, "create a stream", code);
	c->stream_count++;
	c->pool.cuda = &c->cuda;
	*out = x;
	return PLIM_OK;
}

/* ---- cutting it into slots ---- */

struct stager {
	struct plim_saving *s;
	struct save_file *file;
	struct save_item *item;     /* with the slot that is filled, or NULL */
	bool began;                 /* a piece of the file was put */
	bool used[SAVE_DEVICES][2]; /* streams that copy into the slot: ours, the caller's */
	uint64_t waited_ns;
};

static enum plim_status new_item(struct stager *g, struct plim_err *err)
{
	g->item = mem_new(&g->s->of->mem, 1, sizeof(*g->item), err);
	if (!g->item)
		return mem_status(err);
	g->item->saving = g->s;
	g->item->file = g->file;
	return PLIM_OK;
}

static enum plim_status take_slot(struct stager *g, struct plim_err *err)
{
	uint64_t before = save_now_ns();
	enum plim_status st = new_item(g, err);

	if (!st)
		st = pool_take(&g->s->of->pool, &g->item->slot, err);
	if (st && g->item) {
		mem_free(&g->s->of->mem, g->item, 1, sizeof(*g->item));
		g->item = NULL;
	}
	g->waited_ns += save_now_ns() - before;
	return st;
}

/* An event behind the copies of each stream that is used; what it cannot have is waited for here. */
static enum plim_status mark(struct stager *g, struct save_item *x, struct plim_err *err)
{
	const struct cuda *cuda = &g->s->of->cuda;
	int code = 0;

	for (size_t i = 0; !code && i < g->s->device_count; i++) {
		struct save_device *d = &g->s->devices[i];

		for (size_t k = 0; !code && k < 2; k++) {
			void *before, *event = NULL;

			if (!g->used[i][k])
				continue;
			before = save_enter(g->s->of, d->context);
			code = cuda->event_create(&event, CUDA_EVENT_DISABLE_TIMING);
			if (!code) {
				x->events[x->event_count].event = event;
				x->events[x->event_count++].context = d->context;
				code = cuda->event_record(event, k ? d->compute : d->copy);
			}
			save_leave(g->s->of, before);
			g->used[i][k] = false;
		}
	}
	return code ? save_cuda_failed(err, "mark a copy from the GPU", code) : PLIM_OK;
}

/* What is in the slot goes to the thread, also after a failure: only it knows when copies into it are over. */
static enum plim_status put_piece(struct stager *g, bool last, struct plim_err *err)
{
	struct save_item *x = g->item;
	enum plim_status st = mark(g, x, err);

	x->first = !g->began;
	x->last = last;
	g->began = true;
	g->item = NULL;
	if (st)
		saving_fail(g->s, err);
	writer_put(g->s->of, x);
	return st;
}

static enum plim_status copy_stage(struct stager *g, const struct save_tensor *t, size_t device,
				   uint64_t from, size_t n, struct plim_err *err)
{
	const struct save_device *d = &g->s->devices[device];
	uint8_t *to = (uint8_t *)g->item->slot + g->item->bytes;
	int code;

	if (t->device < 0) {
		memcpy(to, t->where + from, n);
		return PLIM_OK;
	}
	g->used[device][!t->guarded] = true;
	code = g->s->of->cuda.copy_down(to, (uint64_t)(uintptr_t)t->where + from, n,
					t->guarded ? d->copy : d->compute);
	return code ? save_cuda_failed(err, "copy from the GPU", code) : PLIM_OK;
}

static enum plim_status stage_bytes(struct stager *g, const struct save_tensor *t,
				    struct plim_err *err)
{
	size_t device = 0;
	void *before = NULL;
	enum plim_status st = PLIM_OK;

	while (t->device >= 0 && g->s->devices[device].ordinal != t->device)
		device++;
	if (t->device >= 0)
		before = save_enter(g->s->of, g->s->devices[device].context);
	for (uint64_t done = 0; !st && done < t->bytes;) {
		size_t n;

		if (!g->item)
			st = take_slot(g, err);
		if (st)
			break;
		n = SAVE_SLOT_BYTES - g->item->bytes;
		n = t->bytes - done < n ? (size_t)(t->bytes - done) : n;
		st = copy_stage(g, t, device, done, n, err);
		g->item->bytes += n;
		done += n;
		if (g->item->bytes == SAVE_SLOT_BYTES && !st)
			st = put_piece(g, false, err);
	}
	if (t->device >= 0)
		save_leave(g->s->of, before);
	return st;
}

/* Of what stands around the tensors: from `from` on, up to `to`. */
static enum plim_status stage_text(struct stager *g, const struct save_file *f, size_t from,
				   size_t to, struct plim_err *err)
{
	const struct save_tensor around = { .where = (const uint8_t *)text_get(&f->text) + from,
					    .bytes = to - from,
					    .device = -1 };

	return stage_bytes(g, &around, err);
}

static enum plim_status stage_file(struct stager *g, struct save_file *f, struct plim_err *err)
{
	size_t from = 0;
	enum plim_status st = PLIM_OK;

	g->file = f;
	g->began = false;
	if (f->is_text)
		st = new_item(g, err);
	for (size_t i = 0; !st && i < f->tensors.n; i++) {
		const struct save_tensor *t = &f->tensors.at[i];

		st = stage_text(g, f, from, t->lead, err);
		if (!st)
			st = stage_bytes(g, t, err);
		from = t->lead;
	}
	if (!st && !f->is_text)
		st = stage_text(g, f, from, f->text.n, err);
	if (!st && !g->item) /* the file ended with a slot */
		st = new_item(g, err);
	if (!st && f->is_text)
		g->item->bytes = f->text.n;
	if (st && g->item) {
		struct plim_err late = { 0 };

		saving_fail(g->s, err);
		(void)put_piece(g, true, &late);
	}
	return st ? st : put_piece(g, true, err);
}

/* ---- all ---- */

/* The copy streams begin behind what is queued. */
static enum plim_status begin_device(struct plim_saving *s, struct save_device *d,
				     struct plim_err *err)
{
	const struct cuda *cuda = &s->of->cuda;
	void *before = save_enter(s->of, d->context), *event = NULL;
	int code = cuda->event_create(&event, CUDA_EVENT_DISABLE_TIMING);

	if (!code)
		code = cuda->event_record(event, d->compute);
	if (!code)
		code = cuda->stream_wait(d->copy, event, 0);
	if (event)
		(void)cuda->event_destroy(event);
	save_leave(s->of, before);
	return code ? save_cuda_failed(err, "order copies behind the work that is queued", code)
		    : PLIM_OK;
}

static enum plim_status end_device(struct plim_saving *s, struct save_device *d,
				   struct plim_err *err)
{
	const struct cuda *cuda = &s->of->cuda;
	void *before = save_enter(s->of, d->context);
	int code = 0;

	for (size_t k = 0; !code && k < 2; k++) {
		code = cuda->event_create(&d->copied[k], CUDA_EVENT_DISABLE_TIMING);
		if (!code)
			code = cuda->event_record(d->copied[k], k ? d->compute : d->copy);
	}
	save_leave(s->of, before);
	return code ? save_cuda_failed(err, "mark the copies from the GPU", code) : PLIM_OK;
}

enum plim_status stage_files(struct plim_saving *s, struct plim_err *err)
{
	struct stager g = { .s = s };
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < s->files.n; i++) {
		struct save_file *f = s->files.at[i];

		if (f->is_text)
			f->bytes = f->text.n;
		st = f->is_text ? text_status(&f->text, err) : layout_file(s, f, err);
		s->told.bytes += f->bytes;
	}
	for (size_t i = 0; !st && i < s->device_count; i++)
		st = begin_device(s, &s->devices[i], err);
	for (size_t i = 0; !st && i < s->files.n; i++)
		st = stage_file(&g, s->files.at[i], err);
	for (size_t i = 0; !st && i < s->device_count; i++)
		st = end_device(s, &s->devices[i], err);
	s->told.waited_ns = g.waited_ns;
	return st;
}
