/* plimsoll curves: which logs there are, reading them, and reading on. */
#include "base/base.h"
#include "host/host.h"
#include "verbs/curves/curves.h"
#include "verbs/out.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

void plim_curves_options_init(struct plim_curves_options *o)
{
	*o = (struct plim_curves_options){ .size = sizeof(*o), .patience = PLIM_UNKNOWN };
}

/* ---- which runs there are ---- */

static struct series_run *run_of(struct plim_curves_hidden *h, const char *folder,
				 enum series_kind kind)
{
	bool joined = kind == SERIES_KIND_TENSORBOARD || kind == SERIES_KIND_MLFLOW;

	for (size_t i = 0; joined && i < h->runs.n; i++)
		if (h->runs.at[i]->kind == kind && !strcmp(h->runs.at[i]->folder, folder))
			return h->runs.at[i];
	return NULL;
}

static bool is_known(const struct plim_curves_hidden *h, const char *path)
{
	for (size_t i = 0; i < h->runs.n; i++)
		for (size_t j = 0; j < h->runs.at[i]->files.n; j++)
			if (!strcmp(h->runs.at[i]->files.at[j].path, path))
				return true;
	return false;
}

/* A later checkpoint's state takes the place of the one that was read. */
static bool replaces(struct plim_curves_hidden *h, const char *folder, const char *path,
		     struct plim_err *err)
{
	for (size_t i = 0; i < h->runs.n; i++) {
		struct series_run *r = h->runs.at[i];
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

static enum plim_status add_run(struct plim_curves_hidden *h, const char *folder, const char *path,
				enum series_kind kind, struct plim_err *err)
{
	bool folders = kind == SERIES_KIND_TRAINER_STATE || kind == SERIES_KIND_TENSORBOARD ||
		       kind == SERIES_KIND_MLFLOW;
	struct series_run *r = mem_new(&h->mem, 1, sizeof(*r), err);
	enum plim_status st;

	if (!r)
		return mem_status(err);
	series_run_init(r, &h->mem, &h->options);
	r->folder = arena_copy(&h->kept, folder, err);
	r->name = arena_copy(&h->kept, short_name(folders ? folder : path), err);
	st = r->folder && r->name ? series_run_add_file(r, path, kind, err) : mem_status(err);
	if (!st)
		st = vec_push(&h->mem, &h->runs, r, err);
	if (st) {
		series_run_release(r);
		mem_free(&h->mem, r, 1, sizeof(*r));
	}
	return st;
}

static enum plim_status found(void *ctx, const char *folder, const char *path,
			      enum series_kind kind, struct plim_err *err)
{
	struct plim_curves_hidden *h = ctx;
	struct series_run *r;

	if (is_known(h, path) ||
	    (kind == SERIES_KIND_TRAINER_STATE && replaces(h, folder, path, err)))
		return PLIM_OK;
	r = run_of(h, folder, kind);
	return r ? series_run_add_file(r, path, kind, err) : add_run(h, folder, path, kind, err);
}

/* The folder of a file; of a trainer_state in checkpoint-N the one above. */
static const char *folder_of(struct plim_curves_hidden *h, const char *path, struct plim_err *err)
{
	const char *slash = strrchr(path, '/'), *up;
	char folder[4096];

	if (!slash || !strcmp(path, "-"))
		return ".";
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	up = strrchr(folder, '/');
	if (up && !strncmp(up + 1, "checkpoint-", 11))
		folder[up - folder] = 0;
	return arena_copy(&h->kept, *folder ? folder : "/", err);
}

static enum plim_status look_at_path(struct plim_curves_hidden *h, const char *path,
				     struct plim_err *err)
{
	bool piped = !strcmp(path, "-");
	struct stat s;
	const char *folder;
	enum plim_status st;

	if (!piped && stat(path, &s))
		return err_errno(err, errno, "cannot open '%s'", path);
	if (piped || !S_ISDIR(s.st_mode)) {
		folder = folder_of(h, path, err);
		return folder ? found(h, folder, path, SERIES_KIND_UNKNOWN, err) : mem_status(err);
	}
	h->left_out = 0;
	st = series_search(&h->mem, path, found, h, &h->left_out, err);
	if (!st && !h->runs.n)
		st = err_set(err, PLIM_E_FORMAT, "'%s' holds no training log that is known here",
			     path);
	return st;
}

/* ---- reading ---- */

/* Of all names: the folders that they begin with, and, with `tail`, the path that they end with. */
static size_t in_common(const struct plim_curves *c, bool tail)
{
	const char *one = c->runs[0].name;
	size_t n = 0, of_one = strlen(one);

	for (size_t at = 0; at < of_one; at++) {
		for (size_t i = 1; i < c->run_count; i++) {
			const char *name = c->runs[i].name;
			size_t of_name = strlen(name);

			if (at >= of_name || (tail ? name[of_name - 1 - at] != one[of_one - 1 - at]
						   : name[at] != one[at]))
				return n;
		}
		if (one[tail ? of_one - 1 - at : at] == '/')
			n = at + 1;
	}
	return n;
}

/* As short as tells them apart. */
static enum plim_status shorten_names(struct plim_curves *c, struct plim_err *err)
{
	size_t head, tail;

	if (c->run_count < 2)
		return PLIM_OK;
	head = in_common(c, false);
	for (size_t i = 0; i < c->run_count; i++)
		c->runs[i].name += head;
	tail = in_common(c, true);
	for (size_t i = 0; tail && i < c->run_count; i++) {
		const char *name = c->runs[i].name;

		c->runs[i].name = arena_text(&c->hidden->arena, err, "%.*s",
					     (int)(strlen(name) - tail), name);
		if (!c->runs[i].name)
			return mem_status(err);
	}
	return PLIM_OK;
}

static enum plim_status conclude(struct plim_curves *c, struct plim_err *err)
{
	struct plim_curves_hidden *h = c->hidden;
	struct lines notes = { .arena = &h->arena, .err = err };
	enum plim_status st = PLIM_OK;

	arena_release(&h->arena);
	arena_init(&h->arena, &h->mem);
	*c = (struct plim_curves){ .hidden = h };
	c->runs = arena_take(&h->arena, h->runs.n, sizeof(*c->runs), err);
	if (!c->runs)
		return mem_status(err);
	for (size_t i = 0; !st && i < h->runs.n; i++)
		st = curves_fill_run(h, h->runs.at[i], &c->runs[c->run_count++], err);
	if (!st)
		st = shorten_names(c, err);
	if (h->left_out)
		lines_add(&notes,
			  "%llu TensorBoard file%s of runs whose trainer_state.json was read: the "
			  "same values; name one to read it instead",
			  (unsigned long long)h->left_out, h->left_out == 1 ? "" : "s");
	return st ? st : lines_keep(&notes, &c->notes, &c->note_count);
}

/* A file that was named has to hold something; in a folder there are many that only look like logs. */
static enum plim_status drop_empty(struct plim_curves_hidden *h, size_t i, struct plim_err *err)
{
	struct series_run *r = h->runs.at[i];

	for (size_t j = 0; j < h->path_count; j++)
		if (!strcmp(h->paths[j], r->files.at[0].path))
			return err_set(
				err, PLIM_E_FORMAT,
				"'%s' holds no values of a training that are understood here; "
				"--patterns FILE can teach plain text",
				r->files.at[0].path);
	series_run_release(r);
	mem_free(&h->mem, r, 1, sizeof(*r));
	h->runs.n--;
	memmove(h->runs.at + i, h->runs.at + i + 1, (h->runs.n - i) * sizeof(*h->runs.at));
	return h->runs.n ? PLIM_OK
			 : err_set(err, PLIM_E_FORMAT,
				   "'%s' holds no training log that is known here", h->paths[0]);
}

enum plim_status plim_curves_refresh(struct plim_curves *c, bool *changed, struct plim_err *err)
{
	struct plim_curves_hidden *h = c->hidden;
	size_t before = h->runs.n;
	bool any = false, here;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < h->path_count; i++)
		st = look_at_path(h, h->paths[i], err);
	any = before != h->runs.n;
	for (size_t i = 0; !st && i < h->runs.n; i++) {
		st = series_run_read(h->runs.at[i], &here, err);
		any |= here;
		if (!st && !h->runs.at[i]->points && !(h->given.flags & PLIM_CURVES_GROWS))
			st = drop_empty(h, i--, err);
	}
	if (changed)
		*changed = any;
	return st || !any ? st : conclude(c, err);
}

static enum plim_status check_map(const struct plim_curves_options *o, struct plim_err *err)
{
	for (size_t i = 0; i < o->map_count; i++) {
		const char *equals = strrchr(o->map[i], '=');
		bool known = false;

		for (unsigned role = 0; equals && role < PLIM_ROLE_COUNT; role++)
			known |= !strcmp(equals + 1, plim_role_name(role));
		if (!known)
			return err_set(
				err, PLIM_E_ARG,
				"'%.200s' is no SERIES=ROLE; roles are train_loss, val_loss, "
				"metric, error, grad_norm, learning_rate, loss_scale, "
				"skipped_steps, memory, entropy, other",
				o->map[i]);
	}
	return PLIM_OK;
}

static enum plim_status take_options(struct plim_curves_hidden *h, const char *const *paths,
				     size_t n, struct plim_err *err)
{
	struct plim_curves_options *o = &h->given;
	const char **map = arena_take(&h->kept, o->map_count, sizeof(*map), err);
	enum plim_status st = check_map(o, err);

	h->paths = arena_take(&h->kept, n, sizeof(*h->paths), err);
	if (st || !map || !h->paths)
		return st ? st : mem_status(err);
	for (size_t i = 0; i < o->map_count; i++) {
		map[i] = arena_copy(&h->kept, o->map[i], err);
		if (!map[i])
			return mem_status(err);
	}
	for (size_t i = 0; i < n; i++) {
		h->paths[i] = arena_copy(&h->kept, paths[i], err);
		if (!h->paths[i])
			return mem_status(err);
		h->path_count++;
	}
	if (o->monitor) {
		o->monitor = arena_copy(&h->kept, o->monitor, err);
		if (!o->monitor)
			return mem_status(err);
	}
	h->options = (struct series_options){ NULL, map, o->map_count, o->patience, o->min_delta };
	st = series_patterns_new(&h->mem, o->patterns_path, &h->patterns, err);
	h->options.patterns = h->patterns;
	return st;
}

enum plim_status plim_curves_open(const char *const *paths, size_t n,
				  const struct plim_curves_options *options,
				  struct plim_curves **out, struct plim_err *err)
{
	struct plim_curves *c = calloc(1, sizeof(*c));
	struct plim_curves_hidden *h = calloc(1, sizeof(*h));
	enum plim_status st;

	*out = NULL;
	if (!c || !h) {
		free(c);
		free(h);
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	}
	c->hidden = h;
	plim_curves_options_init(&h->given);
	st = options_take(&curves_options_table, &h->given, options, err);
	if (st) {
		free(h);
		free(c);
		return st;
	}
	host_mem_init(&h->mem, h->given.max_memory_bytes);
	arena_init(&h->arena, &h->mem);
	arena_init(&h->kept, &h->mem);
	st = n ? take_options(h, paths, n, err) : err_set(err, PLIM_E_ARG, "no path was given");
	if (!st)
		st = plim_curves_refresh(c, NULL, err);
	if (st)
		plim_curves_free(c);
	else
		*out = c;
	return st;
}

void plim_curves_free(struct plim_curves *c)
{
	struct plim_curves_hidden *h;

	if (!c)
		return;
	h = c->hidden;
	for (size_t i = 0; i < h->runs.n; i++) {
		series_run_release(h->runs.at[i]);
		mem_free(&h->mem, h->runs.at[i], 1, sizeof(*h->runs.at[i]));
	}
	vec_release(&h->mem, &h->runs);
	series_patterns_free(h->patterns);
	arena_release(&h->arena);
	arena_release(&h->kept);
	free(h);
	free(c);
}

enum plim_status plim_curves_json(const struct plim_curves *c, plim_write_fn *write, void *ctx,
				  struct plim_err *err)
{
	return out_json(&c->hidden->mem, &curves_table, c, write, ctx, err);
}
