/* Which runs there are in files and folders, and reading on what is new in them. */
#include "parts.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

void series_set_init(struct series_set *s, struct mem *m, const struct series_options *options)
{
	*s = (struct series_set){ .mem = m, .options = options };
	arena_init(&s->kept, m);
}

void series_set_release(struct series_set *s)
{
	for (size_t i = 0; i < s->runs.n; i++) {
		series_run_release(s->runs.at[i]);
		mem_free(s->mem, s->runs.at[i], 1, sizeof(*s->runs.at[i]));
	}
	vec_release(s->mem, &s->runs);
	arena_release(&s->kept);
}

static struct series_run *run_of(struct series_set *s, const char *folder, enum series_kind kind)
{
	bool joined = kind == SERIES_KIND_TENSORBOARD || kind == SERIES_KIND_MLFLOW;

	for (size_t i = 0; joined && i < s->runs.n; i++)
		if (s->runs.at[i]->kind == kind && !strcmp(s->runs.at[i]->folder, folder))
			return s->runs.at[i];
	return NULL;
}

static bool series_set_is_known(const struct series_set *s, const char *path)
{
	for (size_t i = 0; i < s->runs.n; i++)
		for (size_t j = 0; j < s->runs.at[i]->files.n; j++)
			if (!strcmp(s->runs.at[i]->files.at[j].path, path))
				return true;
	return false;
}

/* A later checkpoint's state takes the place of the one that was read. */
static bool replaces(struct series_set *s, const char *folder, const char *path,
		     struct plim_err *err)
{
	for (size_t i = 0; i < s->runs.n; i++) {
		struct series_run *r = s->runs.at[i];
		uint32_t id;

		if (r->kind != SERIES_KIND_TRAINER_STATE || strcmp(r->folder, folder) != 0 ||
		    !r->files.n || intern_add(&r->texts, path, strlen(path), &id, err))
			continue;
		series_run_clear(r);
		r->obey.n = 0;
		r->files.at[0].path = intern_text(&r->texts, id);
		return true;
	}
	return false;
}

static const char *short_name(const char *path)
{
	return !strncmp(path, "./", 2) && path[2] ? path + 2 : path;
}

static enum plim_status add_run(struct series_set *s, const char *folder, const char *path,
				enum series_kind kind, struct plim_err *err)
{
	bool folders = kind == SERIES_KIND_TRAINER_STATE || kind == SERIES_KIND_TENSORBOARD ||
		       kind == SERIES_KIND_MLFLOW;
	struct series_run *r = mem_new(s->mem, 1, sizeof(*r), err);
	enum plim_status st;

	if (!r)
		return mem_status(err);
	series_run_init(r, s->mem, s->options);
	r->folder = arena_copy(&s->kept, folder, err);
	r->name = arena_copy(&s->kept, short_name(folders ? folder : path), err);
	st = r->folder && r->name ? series_run_add_file(r, path, kind, err) : mem_status(err);
	if (!st)
		st = vec_push(s->mem, &s->runs, r, err);
	if (st) {
		series_run_release(r);
		mem_free(s->mem, r, 1, sizeof(*r));
	}
	return st;
}

/* Another run begins in the file of *r, where that one was read to. */
static enum plim_status follow_series_set(struct series_set *s, struct series_run *r,
					  struct plim_err *err)
{
	const struct series_file *f = &r->files.at[0];
	struct series_run *next;
	enum plim_status st = add_run(s, r->folder, f->path, f->kind, err);
	uint32_t id;

	if (st)
		return st;
	r->followed = true;
	next = s->runs.at[s->runs.n - 1];
	next->part = r->part + 1;
	next->head = r->head;
	next->sections = r->sections;
	next->files.at[0].start = next->files.at[0].offset = f->offset;
	next->files.at[0].clock = next->files.at[0].start_clock = f->clock;
	next->name = arena_text(&s->kept, err, "%s, run %u", short_name(f->path), next->part + 1);
	if (!next->name)
		return mem_status(err);
	if (!f->header)
		return PLIM_OK;
	st = intern_add(&next->texts, f->header, strlen(f->header), &id, err);
	next->files.at[0].header = st ? NULL : intern_text(&next->texts, id);
	return st;
}

static enum plim_status found(void *ctx, const char *folder, const char *path,
			      enum series_kind kind, struct plim_err *err)
{
	struct series_set *s = ctx;
	struct series_run *r;

	if (series_set_is_known(s, path) ||
	    (kind == SERIES_KIND_TRAINER_STATE && replaces(s, folder, path, err)))
		return PLIM_OK;
	r = run_of(s, folder, kind);
	return r ? series_run_add_file(r, path, kind, err) : add_run(s, folder, path, kind, err);
}

/* The folder of a file; of a trainer_state in checkpoint-N the one above. */
static const char *folder_of(struct series_set *s, const char *path, struct plim_err *err)
{
	const char *slash = strrchr(path, '/'), *up;
	char folder[4096];

	if (!slash || !strcmp(path, "-"))
		return ".";
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	up = strrchr(folder, '/');
	if (up && !strncmp(up + 1, "checkpoint-", 11))
		folder[up - folder] = 0;
	return arena_copy(&s->kept, *folder ? folder : "/", err);
}

static enum plim_status look_at_path(struct series_set *s, const char *path, struct plim_err *err)
{
	bool piped = !strcmp(path, "-");
	struct stat there;
	const char *folder;
	enum plim_status st;

	if (!piped && stat(path, &there))
		return err_errno(err, errno, "cannot open '%s'", path);
	if (piped || !S_ISDIR(there.st_mode)) {
		folder = folder_of(s, path, err);
		return folder ? found(s, folder, path, SERIES_KIND_UNKNOWN, err) : mem_status(err);
	}
	s->left_out = 0;
	st = series_search(s->mem, path, found, s, &s->left_out, err);
	if (!st && !s->runs.n)
		st = err_set(err, PLIM_E_FORMAT, "'%s' holds no training log that is known here",
			     path);
	return st;
}

#define BARE_LINES 5

/* A file that was named has no values; why? */
static enum plim_status refuse_empty(struct series_set *s, const struct series_run *r,
				     const char *path, struct plim_err *err)
{
	const char *a = r->unknown[0], *b = r->unknown[1];

	if (r->files.at[0].bytes == 0 && strcmp(path, "-") != 0)
		return err_set(err, PLIM_E_FORMAT, "'%s' is empty", path);
	if (r->bare >= BARE_LINES)
		return err_set(err, PLIM_E_FORMAT,
			       "'%s' holds columns of numbers without names: --patterns FILE "
			       "names them, with a line like '{step} {loss}'",
			       path);
	if (a && !s->options->redact)
		return err_set(err, PLIM_E_FORMAT,
			       "'%s' has values of '%s'%s%s%s, and it is not known what %s: --map "
			       "NAME=ROLE says it (metric, error, train_loss, val_loss)",
			       path, a, b ? " and '" : "", b ? b : "", b ? "'" : "",
			       b ? "these are" : "this is");
	return err_set(err, PLIM_E_FORMAT,
		       "'%s' holds no values of a training that are understood here; --map "
		       "NAME=ROLE says what a name means, --patterns FILE how text is read",
		       path);
}

/* A file that was named has to hold something; in a folder there are many that only look like logs. */
static enum plim_status drop_empty(struct series_set *s, size_t i, const char *const *named,
				   size_t named_count, struct plim_err *err)
{
	struct series_run *r = s->runs.at[i];

	for (size_t j = 0; j < named_count; j++)
		if (!strcmp(named[j], r->files.at[0].path))
			return refuse_empty(s, r, named[j], err);
	series_run_release(r);
	mem_free(s->mem, r, 1, sizeof(*r));
	s->runs.n--;
	memmove(s->runs.at + i, s->runs.at + i + 1, (s->runs.n - i) * sizeof(*s->runs.at));
	return s->runs.n ? PLIM_OK
			 : err_set(err, PLIM_E_FORMAT,
				   "'%s' holds no training log that is known here", named[0]);
}

enum plim_status series_set_read(struct series_set *s, const char *const *named, size_t named_count,
				 bool grows, bool *changed, struct plim_err *err)
{
	size_t before = s->runs.n;
	bool here;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < named_count; i++)
		st = look_at_path(s, named[i], err);
	*changed = before != s->runs.n;
	for (size_t i = 0; !st && i < s->runs.n; i++) {
		st = series_run_read(s->runs.at[i], &here, err);
		*changed |= here;
		if (!st && s->runs.at[i]->over && !s->runs.at[i]->followed &&
		    strcmp(s->runs.at[i]->files.at[0].path, "-") != 0)
			st = follow_series_set(s, s->runs.at[i], err);
		if (!st && !s->runs.at[i]->points && !grows)
			st = drop_empty(s, i--, named, named_count, err);
	}
	return st;
}
