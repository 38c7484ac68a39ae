/* ckpt last-good: the newest checkpoint of a folder that is whole, and taking older ones away. */
#include "base/base.h"
#include "commands/ckpt/ckpt.h"
#include "commands/out.h"
#include "host/host.h"
#include "option_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plim_ckpt_last_hidden {
	struct mem mem;
	struct ckpt_series series;
	struct arena arena;
};

static const char *const fates[] = { "kept", "would_be_removed", "removed" };

/* NULL and *err on failure. */
static const char *join_last_good(struct plim_ckpt_last *l, const char *name, struct plim_err *err)
{
	char path[4096];
	size_t n = strlen(l->folder);
	bool slash = n && l->folder[n - 1] == '/';

	if ((size_t)snprintf(path, sizeof(path), "%s%s%s", l->folder, slash ? "" : "/", name) >=
	    sizeof(path)) {
		err_set(err, PLIM_E_ARG, "the path is too long");
		return NULL;
	}
	return arena_copy(&l->hidden->arena, path, err);
}

/* A trainer's state names the best one of its run. */
static void mark_best(struct plim_ckpt_last *l, const struct plim_ckpt *c)
{
	for (size_t i = 0; i < c->key_count; i++)
		if (!strcmp(c->keys[i].name, "best_model_checkpoint") && c->keys[i].what)
			ckpt_series_mark_best(&l->hidden->series, c->keys[i].what);
}

/* What cannot be read is no good, and no reason to stop. */
static enum plim_status note_unreadable(struct plim_ckpt_last *l, struct plim_ckpt_candidate *x,
					const struct plim_err *why, struct plim_err *err)
{
	x->verdict = "unreadable";
	x->headline = arena_copy(&l->hidden->arena, why->message, err);
	return x->headline ? PLIM_OK : mem_status(err);
}

struct looking {
	struct plim_ckpt_last *last;
	struct plim_ckpt_options verify;
};

/* For ckpt_series_keep. */
static enum plim_status look_at_last_good(void *ctx, size_t i, bool *good, struct plim_err *err)
{
	const struct looking *how = ctx;
	struct plim_ckpt_last *l = how->last;
	struct plim_ckpt_candidate *x = &l->candidates[i];
	struct plim_ckpt *c;
	struct plim_err why = { 0 };
	const char *path = join_last_good(l, x->name, err);
	enum plim_status st;

	*good = false;
	if (!path)
		return mem_status(err);
	st = plim_ckpt_open(path, &how->verify, &c, &why);
	if (st == PLIM_E_IO)
		return note_unreadable(l, x, &why, err);
	if (st) {
		if (err)
			*err = why;
		return st;
	}
	x->verdict = plim_ckpt_verdict_name(c->verdict);
	x->headline = arena_copy(&l->hidden->arena, c->headline, err);
	st = x->headline ? PLIM_OK : mem_status(err);
	*good = x->good = c->verdict == PLIM_CKPT_WHOLE || c->verdict == PLIM_CKPT_UNPROVEN;
	mark_best(l, c);
	plim_ckpt_free(c);
	l->good += x->good;
	if (x->good && !l->last_good)
		l->last_good = path;
	return st;
}

static enum plim_status look_and_retain(struct plim_ckpt_last *l,
					const struct plim_ckpt_last_options *o,
					struct plim_err *err)
{
	struct looking how = { .last = l,
			       .verify = { .size = sizeof(how.verify),
					   .flags =
						   PLIM_CKPT_VERIFY | (o->flags & PLIM_CKPT_VALUES),
					   .max_memory_bytes = o->max_memory_bytes,
					   .threads = o->threads,
					   .allow = o->allow } };
	struct ckpt_keep keep = { .keep = o->keep,
				  .dry = o->flags & PLIM_CKPT_DRY_RUN,
				  .verify = look_at_last_good,
				  .ctx = &how };
	enum plim_status st = ckpt_series_keep(&l->hidden->series, &keep, err);

	l->removed = keep.removed;
	return st;
}

/* Behind all that needs the names. */
static enum plim_status hide(struct plim_ckpt_last *l, struct plim_err *err)
{
	struct plim_err own = { .status = PLIM_OK };
	struct intern words;
	struct redact h = { .arena = &l->hidden->arena, .words = &words, .err = &own };

	intern_init(&words, &l->hidden->mem);
	ckpt_hide_words(&h, &l->folder);
	ckpt_hide_words(&h, &l->last_good);
	for (size_t i = 0; i < l->candidate_count; i++) {
		ckpt_hide_words(&h, &l->candidates[i].name);
		ckpt_hide_quoted(&h, &l->candidates[i].headline);
	}
	intern_release(&words);
	if (own.status)
		*err = own;
	return own.status;
}

static enum plim_status look_last_good(struct plim_ckpt_last *l,
				       const struct plim_ckpt_last_options *o, struct plim_err *err)
{
	struct plim_ckpt_last_hidden *h = l->hidden;
	enum plim_status st;

	l->candidates = arena_take(&h->arena, h->series.entries.n, sizeof(*l->candidates), err);
	if (!l->candidates)
		return mem_status(err);
	l->candidate_count = h->series.entries.n;
	for (size_t i = 0; i < l->candidate_count; i++)
		l->candidates[i] =
			(struct plim_ckpt_candidate){ .name = h->series.entries.at[i].name,
						      .fate = fates[0] };
	st = look_and_retain(l, o, err);
	for (size_t i = 0; i < l->candidate_count; i++) {
		l->candidates[i].best = h->series.entries.at[i].best;
		l->candidates[i].fate = fates[h->series.entries.at[i].fate];
	}
	return st;
}

void plim_ckpt_last_options_init(struct plim_ckpt_last_options *o)
{
	*o = (struct plim_ckpt_last_options){ CKPT_LAST_DEFAULTS };
}

enum plim_status plim_ckpt_last_good(const char *folder,
				     const struct plim_ckpt_last_options *options,
				     struct plim_ckpt_last **out, struct plim_err *err)
{
	struct plim_ckpt_last_options o;
	struct plim_ckpt_last *l;
	struct plim_ckpt_last_hidden *h;
	enum plim_status st = OUT_NEW(ckpt_last, l, &o, options, err);

	*out = NULL;
	if (st)
		return st;
	h = l->hidden;
	host_mem_init(&h->mem, o.max_memory_bytes);
	arena_init(&h->arena, &h->mem);
	st = ckpt_series_open(&h->series, &h->mem, folder, err);
	l->folder = st ? NULL : arena_copy(&h->arena, folder, err);
	if (!st)
		st = l->folder ? look_last_good(l, &o, err) : mem_status(err);
	if (!st && o.flags & PLIM_CKPT_REDACT)
		st = hide(l, err);
	if (st)
		plim_ckpt_last_free(l);
	else
		*out = l;
	return st;
}

void plim_ckpt_last_free(struct plim_ckpt_last *l)
{
	struct plim_ckpt_last_hidden *h;

	if (!l)
		return;
	h = l->hidden;
	ckpt_series_close(&h->series);
	arena_release(&h->arena);
	free(l);
}

enum plim_status plim_ckpt_last_json(const struct plim_ckpt_last *l, plim_write_fn *write,
				     void *ctx, struct plim_err *err)
{
	return out_json(&l->hidden->mem, &ckpt_last_table, l, write, ctx, err);
}
