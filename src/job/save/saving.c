/* What callers see of saving. */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HOST_BYTES 256

/* ---- the folder ---- */

static char *copy_text(struct mem *m, const char *text, size_t *bytes, struct plim_err *err)
{
	char *copy;

	*bytes = strlen(text) + 1;
	copy = mem_new(m, *bytes, 1, err);
	if (copy)
		memcpy(copy, text, *bytes);
	return copy;
}

static bool saving_is_word(const char *text, const char *also)
{
	for (; *text; text++)
		if (!(*text >= '0' && *text <= '9') &&
		    !((*text | 32) >= 'a' && (*text | 32) <= 'z') && !strchr(also, *text))
			return false;
	return true;
}

static enum plim_status check_options(const struct plim_checkpointer_options *o,
				      struct plim_err *err)
{
	const char *run = o->run ? o->run : "";

	if (!o->world || o->rank >= o->world || !o->host_ranks)
		return err_set(err, PLIM_E_ARG, "options.rank %u of options.world %u is none",
			       o->rank, o->world);
	if (!o->keep_last)
		return err_set(err, PLIM_E_ARG, "options.keep_last is at least 1");
	if ((o->world > 1 && !*run) || strlen(run) > 40 || !saving_is_word(run, ""))
		return err_set(err, PLIM_E_ARG,
			       "options.run is at most 40 letters and digits, and ranks need one");
	return PLIM_OK;
}

/*
 * Who holds the folder, as the link in its folder says: "PID on HOST".  false: that process is gone, and processes
 * that it forked hold its lock.
 */
static bool owner_lives(const struct plim_checkpointer *c, char *who, size_t size)
{
	char host[HOST_BYTES] = "";
	ssize_t n = readlinkat(c->fd, SAVE_OWNER, who, size - 1);
	const char *on;
	long pid;

	who[n > 0 ? n : 0] = 0;
	(void)gethostname(host, sizeof(host) - 1);
	on = strstr(who, " on ");
	pid = strtol(who, NULL, 10); /* 0 is not a process */
	if (!on || pid <= 0 || pid > INT_MAX) {
		snprintf(who, size, "unknown");
		return true;
	}
	return strcmp(on + 4, host) != 0 || !kill((pid_t)pid, 0) || errno != ESRCH;
}

/* For whoever finds the lock taken. */
static void tell_owner(struct plim_checkpointer *c)
{
	char host[HOST_BYTES] = "", who[HOST_BYTES + 32];

	(void)gethostname(host, sizeof(host) - 1);
	snprintf(who, sizeof(who), "%ld on %s", (long)getpid(), host);
	(void)unlinkat(c->fd, SAVE_OWNER, 0);
	c->owner = symlinkat(who, c->fd, SAVE_OWNER) ? 0 : getpid();
}

/*
 * The lock goes with its process, and keeps a second writer out, whose checkpoints would replace this one's.  Only who has it
 * removes what others left; where there are no locks no one does.
 */
static enum plim_status lock_folder(struct plim_checkpointer *c, struct plim_err *err)
{
	char who[HOST_BYTES + 32];

	if (!flock(c->fd, LOCK_EX | LOCK_NB)) {
		tell_owner(c);
		commit_sweep(c);
		return PLIM_OK;
	}
	if (errno != EWOULDBLOCK || !owner_lives(c, who, sizeof(who)))
		return PLIM_OK;
	return err_set(err, PLIM_E_IO,
		       "another Checkpointer holds '%s' (process %s): close() it, or give this one "
		       "a folder of its own",
		       c->folder, who);
}

static enum plim_status open_folder(struct plim_checkpointer *c, struct plim_err *err)
{
	if (mkdir(c->folder, 0777) && errno != EEXIST)
		return err_errno(err, errno, "cannot make the folder '%s'", c->folder);
	c->fd = open(c->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->fd < 0)
		return err_errno(err, errno, "cannot open the folder '%s'", c->folder);
	return c->options.rank ? PLIM_OK : lock_folder(c, err);
}

enum plim_status save_open(const char *folder, const struct plim_checkpointer_options *o,
			   struct plim_checkpointer **out, struct plim_err *err)
{
	struct plim_checkpointer *c;
	enum plim_status st = check_options(o, err);

	*out = NULL;
	if (st)
		return st;
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	mem_init(&c->mem, 0);
	c->options = *o;
	c->options.run = c->options.cuda_library = NULL;
	c->fd = -1;
	c->tail = &c->head;
	pthread_mutex_init(&c->work_lock, NULL);
	pthread_cond_init(&c->work, NULL);
	pool_init(&c->pool, &c->mem, o->staging_bytes);
	snprintf(c->run, sizeof(c->run), "%s", o->run ? o->run : "");
	c->folder = copy_text(&c->mem, folder, &c->folder_bytes, err);
	if (!c->folder)
		st = mem_status(err);
	if (!st && o->cuda_library) {
		c->cuda_library = copy_text(&c->mem, o->cuda_library, &c->cuda_bytes, err);
		st = c->cuda_library ? PLIM_OK : mem_status(err);
	}
	if (!st)
		st = open_folder(c, err);
	if (st)
		plim_checkpointer_close(c);
	else
		*out = c;
	return st;
}

static void end_preparing(struct plim_checkpointer *c)
{
	if (c->prepares)
		pthread_join(c->preparing, NULL);
	c->prepares = false;
}

void plim_checkpointer_close(struct plim_checkpointer *c)
{
	if (!c)
		return;
	writer_stop(c);
	end_preparing(c);
	if (c->stream_count) {
		void *before = save_enter(c, c->streams[0].context);

		pool_release(&c->pool);
		for (size_t i = 0; i < c->stream_count; i++) {
			(void)c->cuda.context_set(c->streams[i].context);
			(void)c->cuda.stream_destroy(c->streams[i].copy);
		}
		save_leave(c, before);
	} else {
		pool_release(&c->pool);
	}
	if (c->fd >= 0 && c->owner == getpid()) /* not a process that it forked */
		(void)unlinkat(c->fd, SAVE_OWNER, 0);
	if (c->fd >= 0)
		close(c->fd);
	pthread_cond_destroy(&c->work);
	pthread_mutex_destroy(&c->work_lock);
	mem_free(&c->mem, c->folder, c->folder_bytes, 1);
	mem_free(&c->mem, c->cuda_library, c->cuda_bytes, 1);
	CHECK(!c->mem.used_bytes);
	free(c);
}

static void *prepare(void *arg)
{
	struct plim_checkpointer *c = arg;

	if (c->prepare_device >= 0)
		(void)c->cuda.context_set(c->streams[0].context);
	while (c->prepare_slots && pool_add(&c->pool))
		c->prepare_slots--;
	return NULL;
}

enum plim_status plim_checkpointer_prepare(struct plim_checkpointer *c, uint64_t bytes, int device,
					   struct plim_err *err)
{
	struct save_stream *stream;
	enum plim_status st = PLIM_OK;
	int code;

	end_preparing(c);
	if (device >= 0)
		st = save_stream_of(c, device, &stream, err);
	if (st)
		return st;
	c->prepare_slots =
		bytes / SAVE_SLOT_BYTES + 2; /* headers, and the last piece of each file */
	c->prepare_device = device;
	code = thread_start(&c->preparing, prepare, c);
	c->prepares = !code;
	return code ? err_errno(err, code, "cannot start a thread") : PLIM_OK;
}

/* ---- a saving ---- */

enum plim_status plim_saving_begin(struct plim_checkpointer *c, uint64_t step, double metric,
				   struct plim_saving **out, struct plim_err *err)
{
	struct plim_saving *s = mem_new(&c->mem, 1, sizeof(*s), err);
	enum plim_status st;

	*out = NULL;
	if (!s)
		return mem_status(err);
	s->of = c;
	s->step = step;
	s->metric = metric;
	s->holders = 1;
	s->told.staged_ns = s->told.finished_ns = PLIM_UNKNOWN;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	st = writer_start(c, err);
	if (!st)
		st = commit_begin(s, err);
	if (st)
		saving_drop(s);
	else
		*out = s;
	return st;
}

/* The file of that name, which is new if there is none. */
static enum plim_status file_of(struct plim_saving *s, const char *name, const char *end,
				struct save_file **out, struct plim_err *err)
{
	struct plim_checkpointer *c = s->of;
	char full[SAVE_NAME];
	struct save_file *f;
	int n = snprintf(full, sizeof(full), "%s%s", name, end);
	enum plim_status st;

	*out = NULL;
	if (s->queued)
		return err_set(err, PLIM_E_ARG, "the saving was started already");
	if (!*name || (*name == '.' && strcmp(full, SAVE_METADATA) != 0) || n >= SAVE_NAME - 1 ||
	    !saving_is_word(name, "-_.") || !strcmp(full, SAVE_MANIFEST))
		return err_set(err, PLIM_E_ARG, "'%.200s' is not a name for a file of a checkpoint",
			       name);
	for (size_t i = 0; i < s->files.n; i++)
		if (!strcmp(s->files.at[i]->name, full)) {
			*out = s->files.at[i];
			return PLIM_OK;
		}
	f = mem_new(&c->mem, 1, sizeof(*f), err);
	st = f ? vec_push(&c->mem, &s->files, f, err) : mem_status(err);
	if (st) {
		mem_free(&c->mem, f, 1, sizeof(*f));
		return st;
	}
	memcpy(f->name, full, (size_t)n + 1);
	text_init(&f->text, &c->mem, NULL);
	text_init(&f->tree, &c->mem, NULL);
	*out = f;
	return PLIM_OK;
}

static enum plim_status new_file(struct plim_saving *s, const char *name, struct save_file **out,
				 struct plim_err *err)
{
	size_t before = s->files.n;
	enum plim_status st = file_of(s, name, "", out, err);

	if (!st && s->files.n == before)
		st = err_set(err, PLIM_E_ARG, "'%s' is there already", name);
	return st;
}

/* Of tensors, in the form of the checkpointer. */
static enum plim_status tensors_of(struct plim_saving *s, const char *name, struct save_file **out,
				   struct plim_err *err)
{
	bool torch = (s->of->options.flags & PLIM_CHECKPOINTER_TORCH) != 0;
	enum plim_status st = file_of(s, name, torch ? ".pt" : ".safetensors", out, err);

	if (!st)
		(*out)->form = torch ? SAVE_TORCH : SAVE_SAFETENSORS;
	return st;
}

static enum plim_status count_bytes(struct save_tensor *t, struct plim_err *err)
{
	uint64_t elements = 1;

	for (size_t i = 0; i < t->rank; i++)
		if (__builtin_mul_overflow(elements, t->shape[i], &elements))
			return err_set(err, PLIM_E_ARG, "'%.200s' is too large", t->name);
	if (elements > (UINT64_MAX >> 8) / t->dtype->bits)
		return err_set(err, PLIM_E_ARG, "'%.200s' is too large", t->name);
	t->bytes = elements * t->dtype->bits / 8;
	return PLIM_OK;
}

static enum plim_status add_device(struct plim_saving *s, int device, struct plim_err *err)
{
	struct save_stream *stream;
	enum plim_status st;

	for (size_t i = 0; i < s->device_count; i++)
		if (s->devices[i].ordinal == device)
			return PLIM_OK;
	st = save_stream_of(s->of, device, &stream, err);
	if (!st)
		s->devices[s->device_count++] = (struct save_device){ .ordinal = device,
								      .context = stream->context,
								      .copy = stream->copy };
	return st;
}

static enum plim_status add_tensor(struct plim_saving *s, struct save_file *f,
				   const struct plim_saving_tensor *tensor, struct plim_err *err)
{
	struct mem *m = &s->of->mem;
	struct save_tensor t = { .where = tensor->where,
				 .rank = tensor->rank,
				 .device = tensor->device,
				 .guarded = tensor->guarded != 0,
				 .raw = f->form == SAVE_PARTS && !strcmp(tensor->dtype, "bytes") };
	enum plim_status st = PLIM_OK;

	t.dtype = ckpt_dtype_of_torch(t.raw ? "uint8" : tensor->dtype);
	if (!t.dtype || t.dtype->bits % 8 ||
	    !(t.dtype->safetensors || (f->form && t.dtype->parts > 1)))
		return err_set(err, PLIM_E_UNSUPPORTED, "'%.200s' is %.40s, which %s has not",
			       tensor->name, tensor->dtype,
			       f->form ? "this version" : "safetensors");
	if (tensor->rank > CKPT_DIMS || tensor->device < -1 ||
	    !strcmp(tensor->name, "__metadata__"))
		return err_set(err, PLIM_E_ARG, "'%.200s' is not a tensor that can be saved",
			       tensor->name);
	if (t.device >= 0)
		st = add_device(s, t.device, err);
	if (!st)
		st = vec_need(m, &f->tensors, 1, err);
	if (st)
		return st;
	t.name = copy_text(m, tensor->name, &t.name_bytes, err);
	t.shape = mem_new(m, t.rank, sizeof(*t.shape), err);
	st = t.name && t.shape ? PLIM_OK : mem_status(err);
	if (!st && t.rank)
		memcpy(t.shape, tensor->shape, t.rank * sizeof(*t.shape));
	if (!st)
		st = count_bytes(&t, err);
	if (!st) {
		f->tensors.at[f->tensors.n++] = t;
		return PLIM_OK;
	}
	mem_free(m, t.name, t.name_bytes, 1);
	mem_free(m, t.shape, t.rank, sizeof(*t.shape));
	return st;
}

enum plim_status plim_saving_add(struct plim_saving *s, const char *file,
				 const struct plim_saving_tensor *tensors, size_t n,
				 struct plim_err *err)
{
	struct save_file *f;
	enum plim_status st = tensors_of(s, file, &f, err);

	for (size_t i = 0; !st && i < n; i++)
		st = add_tensor(s, f, &tensors[i], err);
	return st;
}

enum plim_status plim_saving_parts(struct plim_saving *s, const char *name,
				   const struct plim_saving_tensor *tensors, size_t n,
				   struct plim_saving_part *places, struct plim_err *err)
{
	struct save_file *f;
	enum plim_status st = new_file(s, name, &f, err);

	if (st)
		return st;
	f->form = SAVE_PARTS;
	for (size_t i = 0; !st && i < n; i++)
		st = add_tensor(s, f, &tensors[i], err);
	return st ? st : layout_parts(&s->of->mem, f, places, err);
}

enum plim_status plim_saving_note(struct plim_saving *s, const char *file, const char *key,
				  const char *value, struct plim_err *err)
{
	struct mem *m = &s->of->mem;
	size_t a = strlen(key) + 1, b = strlen(value) + 1;
	struct save_note note = { .bytes = a + b };
	struct save_file *f;
	enum plim_status st = tensors_of(s, file, &f, err);

	if (!st)
		st = vec_need(m, &f->notes, 1, err);
	if (st)
		return st;
	note.key = mem_new(m, note.bytes, 1, err);
	if (!note.key)
		return mem_status(err);
	note.value = note.key + a;
	memcpy(note.key, key, a);
	memcpy(note.value, value, b);
	f->notes.at[f->notes.n++] = note;
	return PLIM_OK;
}

enum plim_status plim_saving_tree(struct plim_saving *s, const char *file, const void *json,
				  size_t n, struct plim_err *err)
{
	struct save_file *f;
	enum plim_status st = tensors_of(s, file, &f, err);

	if (!st && f->form != SAVE_TORCH)
		st = err_set(err, PLIM_E_ARG, "only files of torch hold an object");
	if (st)
		return st;
	f->tree.n = 0;
	text_put(&f->tree, json, n);
	return text_status(&f->tree, err);
}

enum plim_status plim_saving_text(struct plim_saving *s, const char *name, const void *bytes,
				  size_t n, struct plim_err *err)
{
	struct save_file *f;
	enum plim_status st = new_file(s, name, &f, err);

	if (st)
		return st;
	f->is_text = true;
	text_put(&f->text, bytes, n);
	return text_status(&f->text, err);
}

static enum plim_status take_streams(struct plim_saving *s,
				     const struct plim_saving_stream *streams, size_t n,
				     struct plim_err *err)
{
	for (size_t i = 0; i < s->device_count; i++) {
		bool found = false;

		for (size_t k = 0; k < n; k++)
			if (streams[k].device == s->devices[i].ordinal) {
				s->devices[i].compute = streams[k].stream;
				found = true;
			}
		if (!found)
			return err_set(err, PLIM_E_ARG, "no stream is given for GPU %d",
				       s->devices[i].ordinal);
	}
	return PLIM_OK;
}

enum plim_status plim_saving_start(struct plim_saving *s, const struct plim_saving_stream *streams,
				   size_t n, struct plim_err *err)
{
	struct plim_checkpointer *c = s->of;
	struct plim_err why = { 0 };
	struct save_item *end = s->queued ? NULL : mem_new(&c->mem, 1, sizeof(*end), &why);
	enum plim_status st = end ? take_streams(s, streams, n, &why) : mem_status(&why);

	if (s->queued)
		return err_set(err, PLIM_E_ARG, "the saving was started already");
	s->began_ns = save_now_ns();
	s->queued = true;
	if (!st)
		st = stage_files(s, &why);
	if (st)
		saving_fail(s, &why);
	if (st && err)
		*err = why;
	pthread_mutex_lock(&s->lock);
	s->told.blocked_ns = save_now_ns() - s->began_ns;
	s->holders += end != NULL;
	pthread_mutex_unlock(&s->lock);
	if (!end) {
		commit_abort(s);
		saving_set(s, PLIM_SAVING_FAILED);
		return st;
	}
	if (!s->device_count)
		saving_set(s, PLIM_SAVING_WRITING);
	end->saving = s;
	writer_put(c, end);
	return st;
}

enum plim_status plim_saving_guard(struct plim_saving *s, int device, void *stream,
				   struct plim_err *err)
{
	for (size_t i = 0; i < s->device_count; i++) {
		const struct save_device *d = &s->devices[i];
		void *before;
		int code;

		if (d->ordinal != device || !d->copied[0])
			continue;
		before = save_enter(s->of, d->context);
		code = s->of->cuda.stream_wait(stream, d->copied[0], 0);
		save_leave(s->of, before);
		return code ? save_cuda_failed(err, "let a stream wait for the copies", code)
			    : PLIM_OK;
	}
	return PLIM_OK;
}

/* ---- how far it is ---- */

/* Are all copies over?  `wait`: when this returns they are. */
static bool is_staged(const struct plim_saving *s, bool wait)
{
	const struct cuda *cuda = &s->of->cuda;
	bool staged = true;

	for (size_t i = 0; staged && i < s->device_count; i++)
		for (size_t k = 0; staged && k < 2; k++) {
			void *event = s->devices[i].copied[k], *before;

			if (!event) /* it failed before */
				continue;
			before = save_enter(s->of, s->devices[i].context);
			staged = (wait ? cuda->event_wait(event) : cuda->event_query(event)) !=
				 CUDA_NOT_READY;
			save_leave(s->of, before);
		}
	return staged;
}

static enum plim_saving_state saving_state_of(struct plim_saving *s)
{
	enum plim_saving_state state;

	pthread_mutex_lock(&s->lock);
	state = s->told.state;
	pthread_mutex_unlock(&s->lock);
	return state;
}

void plim_saving_progress(struct plim_saving *s, struct plim_saving_progress *out)
{
	if (s->queued && saving_state_of(s) == PLIM_SAVING_STAGING && is_staged(s, false))
		saving_set(s, PLIM_SAVING_WRITING);
	pthread_mutex_lock(&s->lock);
	*out = s->told;
	pthread_mutex_unlock(&s->lock);
}

enum plim_status plim_saving_wait(struct plim_saving *s, enum plim_saving_state state,
				  uint64_t timeout_ns, struct plim_err *err)
{
	struct timespec until;
	enum plim_status st;
	int code = 0;

	if (s->queued && state != PLIM_SAVING_STAGING &&
	    saving_state_of(s) == PLIM_SAVING_STAGING && is_staged(s, timeout_ns > 0))
		saving_set(s, PLIM_SAVING_WRITING);
	clock_gettime(CLOCK_REALTIME, &until);
	timeout_ns = timeout_ns < (uint64_t)1000000000u * 1000000000u
			     ? timeout_ns
			     : (uint64_t)1000000000u * 1000000000u;
	until.tv_sec += (time_t)((timeout_ns + (uint64_t)until.tv_nsec) / 1000000000u);
	until.tv_nsec = (long)((timeout_ns + (uint64_t)until.tv_nsec) % 1000000000u);
	pthread_mutex_lock(&s->lock);
	while (s->told.state < state && s->queued && !code)
		code = pthread_cond_timedwait(&s->changed, &s->lock, &until);
	st = s->told.state == PLIM_SAVING_FAILED ? s->why.status : PLIM_OK;
	if (st && err)
		*err = s->why;
	pthread_mutex_unlock(&s->lock);
	return st;
}

void plim_saving_free(struct plim_saving *s)
{
	if (!s)
		return;
	if (s->queued)
		(void)is_staged(s, true);
	else
		commit_abort(s);
	saving_drop(s);
}

/* ---- what there is ---- */

struct plim_saved_hidden {
	struct mem mem;
	struct save_list list;
};

enum plim_status plim_saved_open(const char *folder, unsigned flags, struct plim_saved_list **out,
				 struct plim_err *err)
{
	struct plim_saved_list *l = calloc(1, sizeof(*l));
	struct plim_saved_hidden *h = calloc(1, sizeof(*h));
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum plim_status st = PLIM_OK;

	*out = NULL;
	if (!l || !h)
		st = err_set(err, PLIM_E_NOMEM, "out of memory");
	else if (fd < 0)
		st = err_errno(err, errno, "cannot open the folder '%s'", folder);
	else if (flags & ~(unsigned)PLIM_CHECKPOINTER_MAXIMIZE)
		st = err_set(err, PLIM_E_ARG, "flags %#x are not known", flags);
	if (!st) {
		mem_init(&h->mem, 0);
		l->hidden = h;
		st = save_list(&h->mem, fd, flags != 0, &h->list, err);
		l->at = h->list.entries.at;
		l->n = h->list.entries.n;
		*out = l;
	}
	if (fd >= 0)
		close(fd);
	if (st && *out) {
		plim_saved_free(l);
		*out = NULL;
	} else if (st) {
		free(h);
		free(l);
	}
	return st;
}

void plim_saved_free(struct plim_saved_list *list)
{
	if (!list)
		return;
	save_list_release(&list->hidden->mem, &list->hidden->list);
	free(list->hidden);
	free(list);
}
