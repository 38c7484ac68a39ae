/* The thread that writes: one piece after another, so that a file is hashed as it is written. */
#include "parts.h"

#include <time.h>

uint64_t save_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- what is reported of a saving ---- */

void saving_set(struct plim_saving *s, enum plim_saving_state state)
{
	pthread_mutex_lock(&s->lock);
	if (s->told.state < state) {
		s->told.state = state;
		/* where no one looked meanwhile, it is durable before it is known to be staged */
		if (state <= PLIM_SAVING_DURABLE && s->told.staged_ns == PLIM_UNKNOWN)
			s->told.staged_ns = save_now_ns() - s->began_ns;
		if (state >= PLIM_SAVING_DURABLE)
			s->told.finished_ns = save_now_ns() - s->began_ns;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
}

void saving_fail(struct plim_saving *s, const struct plim_err *why)
{
	pthread_mutex_lock(&s->lock);
	if (!s->why.status)
		s->why = *why;
	pthread_mutex_unlock(&s->lock);
}

bool saving_failed(struct plim_saving *s)
{
	bool failed;

	pthread_mutex_lock(&s->lock);
	failed = s->why.status != PLIM_OK;
	pthread_mutex_unlock(&s->lock);
	return failed;
}

static void free_file(struct mem *m, struct save_file *f)
{
	for (size_t i = 0; i < f->tensors.n; i++) {
		mem_free(m, f->tensors.at[i].name, f->tensors.at[i].name_bytes, 1);
		mem_free(m, f->tensors.at[i].shape, f->tensors.at[i].rank, sizeof(uint64_t));
	}
	for (size_t i = 0; i < f->notes.n; i++)
		mem_free(m, f->notes.at[i].key, f->notes.at[i].bytes, 1);
	vec_release(m, &f->tensors);
	vec_release(m, &f->notes);
	vec_release(m, &f->patches);
	text_release(&f->text);
	text_release(&f->tree);
	mem_free(m, f, 1, sizeof(*f));
}

void saving_drop(struct plim_saving *s)
{
	struct plim_checkpointer *c = s->of;
	unsigned left;

	pthread_mutex_lock(&s->lock);
	left = --s->holders;
	pthread_mutex_unlock(&s->lock);
	if (left)
		return;
	for (size_t i = 0; i < s->files.n; i++)
		free_file(&c->mem, s->files.at[i]);
	vec_release(&c->mem, &s->files);
	for (size_t i = 0; i < s->device_count; i++) {
		void *before = save_enter(c, s->devices[i].context);

		for (size_t k = 0; k < 2; k++)
			if (s->devices[i].copied[k])
				(void)c->cuda.event_destroy(s->devices[i].copied[k]);
		save_leave(c, before);
	}
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	mem_free(&c->mem, s, 1, sizeof(*s));
}

/* ---- the work ---- */

/* The copies into the slot are over, whatever becomes of the file. */
static void await(const struct plim_checkpointer *c, const struct save_item *x,
		  struct plim_err *err)
{
	for (size_t i = 0; i < x->event_count; i++) {
		int code;

		(void)c->cuda.context_set(x->events[i].context);
		code = c->cuda.event_wait(x->events[i].event);
		if (code)
			(void)save_cuda_failed(err, "wait for a copy from the GPU", code);
		(void)c->cuda.event_destroy(x->events[i].event);
	}
}

static enum plim_status write_piece(struct plim_saving *s, const struct save_item *x,
				    struct plim_err *err)
{
	struct plim_checkpointer *c = s->of;
	struct save_file *f = x->file;
	char path[SAVE_PATH];
	const void *at = x->slot ? x->slot : text_get(&f->text);
	enum plim_status st = PLIM_OK;

	if (x->first) {
		st = save_path(path, err, "%s/%s/%s", c->folder, s->temporary, f->name);
		if (!st)
			st = durable_begin(&c->mem, path, f->bytes, &s->out, err);
		if (!st && !f->is_text)
			durable_direct(s->out);
	}
	if (x->slot && f->patches.n)
		layout_sum(f, x->slot, x->bytes);
	if (!st)
		st = durable_write(s->out, at, x->bytes, err);
	if (!st && x->last) {
		struct durable *out = s->out;

		s->out = NULL;
		st = durable_commit(out, &f->sum, err);
	}
	return st;
}

static void finish_save_writer(struct plim_saving *s)
{
	struct plim_err err = { 0 };

	if (!saving_failed(s) && commit_end(s, &err))
		saving_fail(s, &err);
	if (saving_failed(s))
		commit_abort(s);
	saving_set(s, saving_failed(s) ? PLIM_SAVING_FAILED : PLIM_SAVING_DURABLE);
}

static void work_on(struct save_item *x)
{
	struct plim_saving *s = x->saving;
	struct plim_checkpointer *c = s->of;
	struct plim_err err = { 0 };

	await(c, x, &err);
	if (x->file && !err.status && !saving_failed(s))
		(void)write_piece(s, x, &err);
	if (err.status)
		saving_fail(s, &err);
	if (saving_failed(s)) {
		durable_abort(s->out);
		s->out = NULL;
	}
	pool_give(&c->pool, x->slot);
	if (!x->file)
		finish_save_writer(s);
	if (!x->file)
		saving_drop(s);
	mem_free(&c->mem, x, 1, sizeof(*x));
}

static void *run_save_writer(void *arg)
{
	struct plim_checkpointer *c = arg;
	struct save_item *x;

	for (;;) {
		pthread_mutex_lock(&c->work_lock);
		while (!c->head && !c->closing)
			pthread_cond_wait(&c->work, &c->work_lock);
		x = c->head;
		if (x) {
			c->head = x->next;
			c->tail = c->head ? c->tail : &c->head;
		}
		pthread_mutex_unlock(&c->work_lock);
		if (!x)
			return NULL;
		work_on(x);
	}
}

enum plim_status writer_start(struct plim_checkpointer *c, struct plim_err *err)
{
	int code = c->has_thread ? 0 : thread_start(&c->thread, run_save_writer, c);

	c->has_thread |= !code;
	return code ? err_errno(err, code, "cannot start a thread") : PLIM_OK;
}

void writer_put(struct plim_checkpointer *c, struct save_item *item)
{
	item->next = NULL;
	pthread_mutex_lock(&c->work_lock);
	*c->tail = item;
	c->tail = &item->next;
	pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->work_lock);
}

void writer_stop(struct plim_checkpointer *c)
{
	pthread_mutex_lock(&c->work_lock);
	c->closing = true;
	pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->work_lock);
	if (c->has_thread)
		pthread_join(c->thread, NULL);
	c->has_thread = false;
}
