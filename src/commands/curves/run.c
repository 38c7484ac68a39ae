/* plimsoll curves: which logs there are, reading them, and reading on. */
#include "base/base.h"
#include "commands/curves/curves.h"
#include "commands/file.h"
#include "commands/out.h"
#include "host/host.h"
#include "option_rows.h"

#include <stdio.h>

void plim_curves_options_init(struct plim_curves_options *o)
{
	*o = (struct plim_curves_options){ CURVES_DEFAULTS };
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

/* As short as distinguishes them. */
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

/* A training that ended with a failure of memory: its curves do not show that. */
static enum plim_status note_failures(struct plim_curves_hidden *h, struct lines *notes,
				      struct plim_err *err)
{
	char log[4096];

	for (size_t i = 0; i < h->path_count; i++) {
		const char *shown = log;
		enum plim_status st;

		file_find_failure(&h->mem, h->paths[i], log, sizeof(log));
		if (!*log)
			continue;
		st = curves_hide_path(h, &shown, err);
		if (st)
			return st;
		lines_add(notes, "%s ends with a failure of memory: plimsoll why %s", shown, shown);
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
	c->runs = arena_take(&h->arena, h->set.runs.n, sizeof(*c->runs), err);
	if (!c->runs)
		return mem_status(err);
	for (size_t i = 0; !st && i < h->set.runs.n; i++)
		st = curves_fill_run(h, h->set.runs.at[i], &c->runs[c->run_count++], err);
	if (!st)
		st = shorten_names(c, err);
	if (h->set.left_out)
		lines_add(&notes,
			  "%llu TensorBoard file%s not read: the run's trainer_state.json has the "
			  "same values; name a file to read it instead",
			  (unsigned long long)h->set.left_out, text_s(h->set.left_out));
	st = st ? st : note_failures(h, &notes, err);
	curves_tell_kept(h, &notes);
	return st ? st : lines_keep(&notes, &c->notes, &c->note_count);
}

enum plim_status plim_curves_refresh(struct plim_curves *c, bool *changed, struct plim_err *err)
{
	struct plim_curves_hidden *h = c->hidden;
	bool any;
	enum plim_status st = series_set_read(&h->set, h->paths, h->path_count,
					      h->given.flags & PLIM_CURVES_GROWS, &any, err);

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
				"'%.200s' is not a SERIES=ROLE; roles are train_loss, val_loss, "
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
	h->options = (struct series_options){ .map = map,
					      .map_count = o->map_count,
					      .patience = o->patience,
					      .min_delta = o->min_delta,
					      .redact = o->flags & PLIM_CURVES_REDACT,
					      .grows = o->flags & PLIM_CURVES_GROWS };
	st = series_patterns_new(&h->mem, o->patterns_path, &h->patterns, err);
	h->options.patterns = h->patterns;
	return st;
}

enum plim_status plim_curves_open(const char *const *paths, size_t n,
				  const struct plim_curves_options *options,
				  struct plim_curves **out, struct plim_err *err)
{
	struct plim_curves *c;
	struct plim_curves_hidden *h;
	enum plim_status st = OUT_NEW(curves, c, &c->hidden->given, options, err);

	*out = NULL;
	if (st)
		return st;
	h = c->hidden;
	host_mem_init(&h->mem, h->given.max_memory_bytes);
	arena_init(&h->arena, &h->mem);
	arena_init(&h->kept, &h->mem);
	intern_init(&h->words, &h->mem);
	series_set_init(&h->set, &h->mem, &h->options);
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
	series_set_release(&h->set);
	series_patterns_free(h->patterns);
	arena_release(&h->arena);
	arena_release(&h->kept);
	intern_release(&h->words);
	free(c);
}

enum plim_status plim_curves_json(const struct plim_curves *c, plim_write_fn *write, void *ctx,
				  struct plim_err *err)
{
	return out_json(&c->hidden->mem, &curves_table, c, write, ctx, err);
}
