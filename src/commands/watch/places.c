/* Stacks of the jobs: looked at between samples, told as places, redacted. */
#include "commands/watch/watch.h"

#include <stdio.h>

#define GLANCES 2 /* jobs that are looked at at a time */

/* ---- looking ---- */

/* Is there nothing that its stack could add? */
static bool is_sure(const struct watch_job *j)
{
	const struct watch_judgement *v =
		j->spans.n ? &j->spans.at[j->spans.n - 1].judgement : NULL;

	return j->ended || (v && v->confidence == PLIM_WATCH_HIGH &&
			    (v->state == PLIM_WATCH_COMPUTE_BOUND || v->state == PLIM_WATCH_IDLE));
}

void watch_glance_at(struct plim_watch_hidden *h, const struct watch_known *k)
{
	if (!is_sure(k->job))
		watch_look_glance(h->look, k->pid, k->start_time, watch_job_last(k->job));
}

void plim_watch_glance(struct plim_watch *w)
{
	struct plim_watch_hidden *h = w->hidden;

	for (size_t i = 0; h->look && i < h->jobs.n && i < GLANCES; i++)
		watch_glance_at(h, &h->jobs.at[h->glance_turn++ % h->jobs.n]);
}

/* ---- places ---- */

static enum plim_status keep_watch_place(struct arena *arena, const char *text, const char **out,
					 struct plim_err *err)
{
	*out = *text ? arena_copy(arena, text, err) : NULL;
	return *text && !*out ? mem_status(err) : PLIM_OK;
}

static enum plim_status fill_place(struct arena *arena, const struct watch_place *p,
				   struct plim_watch_place *out, struct plim_err *err)
{
	enum plim_status st;

	*out = (struct plim_watch_place){ .who = p->worker ? "worker" : "main",
					  .does = watch_does_word(p->does),
					  .looks = p->looks,
					  .share = p->share,
					  .line = p->line ? p->line : PLIM_UNKNOWN };
	st = keep_watch_place(arena, p->file, &out->file, err);
	if (!st)
		st = keep_watch_place(arena, p->function, &out->function, err);
	if (!st)
		st = keep_watch_place(arena, p->code, &out->code, err);
	return st ? st : keep_watch_place(arena, p->inside, &out->inside, err);
}

enum plim_status watch_fill_places(struct plim_watch *w, struct watch_job *j,
				   struct plim_watch_job *out, struct plim_err *err)
{
	struct arena *arena = &w->hidden->arena;
	const struct watch_features *f = watch_job_window(j);
	size_t n = f ? f->place_count : 0;
	enum plim_status st = PLIM_OK;

	out->places = arena_take(arena, n, sizeof(*out->places), err);
	if (!out->places)
		return mem_status(err);
	while (!st && out->place_count < n) {
		st = fill_place(arena, &f->places[out->place_count], &out->places[out->place_count],
				err);
		out->place_count++;
	}
	return st;
}

/* ---- redacting ---- */

static bool is_public(const struct watch_frame *f)
{
	static const char installed[] = "site-packages/";
	size_t skip = sizeof(installed) - 1;

	if (watch_frame_is_own(f))
		return false;
	if (f->file_n < skip || memcmp(f->file, installed, skip) != 0)
		return true;
	return public_package(f->file + skip, f->file_n - skip) != 0;
}

/* One frame as it may be shown, behind what is there. */
static enum plim_status put_redacted(struct plim_watch_hidden *h, const struct watch_frame *f,
				     char *out, size_t room, size_t *n, struct plim_err *err)
{
	char file[256], function[128];
	enum plim_status st = PLIM_OK;
	int m;

	(void)snprintf(file, sizeof(file), "%.*s", (int)f->file_n, f->file);
	(void)snprintf(function, sizeof(function), "%.*s", (int)f->function_n, f->function);
	if (!is_public(f)) {
		st = watch_hide(&h->words, "file", file, sizeof(file), err);
		if (!st && *function && *function != '<')
			st = watch_hide(&h->words, "function", function, sizeof(function), err);
	}
	if (st)
		return st;
	m = snprintf(out + *n, room - *n, "%s:%u %s\n", file, f->line, function);
	*n += m > 0 && (size_t)m < room - *n ? (size_t)m : 0;
	return PLIM_OK;
}

enum plim_status watch_redact_stacks(struct plim_watch_hidden *h, struct watch_stacks *s,
				     struct plim_err *err)
{
	struct watch_stacks old = *s;
	enum plim_status st = PLIM_OK;

	*s = (struct watch_stacks){ 0 };
	for (size_t i = 0; !st && i < old.stack.n; i++) {
		const struct watch_stack *k = &old.stack.at[i];
		const char *at = old.text.at + k->at, *end = at + k->n;
		char text[WATCH_STACK_TEXT];
		struct watch_frame f;
		size_t n = 0;

		while (!st && watch_frame_next(&at, end, &f))
			st = put_redacted(h, &f, text, sizeof(text), &n, err);
		if (!st && n)
			st = watch_stacks_add(&h->mem, s, k->worker, k->count, k->does, text, n,
					      err);
	}
	vec_release(&h->mem, &old.stack);
	vec_release(&h->mem, &old.text);
	return st;
}
