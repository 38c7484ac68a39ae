/*
 * --redact: names of programs become words with a number, the same name always the same word, before anything is made of them, so that
 * what is shown, logged, served and handed to commands knows no other.  What everybody has keeps its name.
 */
#include "commands/watch/watch.h"

#include <stdio.h>

static bool is_public_function(const char *name)
{
	return public_begins(public_functions, public_functions_count, name) ||
	       !name[strspn(name, "0")];
}

enum plim_status watch_hide(struct intern *words, const char *kind, char *name, size_t room,
			    struct plim_err *err)
{
	uint32_t id = INTERN_NONE;
	enum plim_status st = intern_add(words, name, strlen(name), &id, err);

	if (!st)
		(void)snprintf(name, room, "%s-%u", kind, id + 1);
	return st;
}

enum plim_status watch_redact_name(struct plim_watch_hidden *h, char *name, size_t room,
				   struct plim_err *err)
{
	if (!(h->options.flags & PLIM_WATCH_REDACT) || !*name || public_is_program(name))
		return PLIM_OK;
	return watch_hide(&h->words, "job", name, room, err);
}

static enum plim_status hide_process(struct intern *words, struct watch_process *p,
				     struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (*p->name && !public_is_program(p->name))
		st = watch_hide(words, "process", p->name, sizeof(p->name), err);
	if (!st && *p->sleeps_in && !is_public_function(p->sleeps_in))
		st = watch_hide(words, "function", p->sleeps_in, sizeof(p->sleeps_in), err);
	return st;
}

enum plim_status watch_redact_sample(struct plim_watch_hidden *h, struct watch_sample *s,
				     struct plim_err *err)
{
	enum plim_status st;

	if (!(h->options.flags & PLIM_WATCH_REDACT))
		return PLIM_OK;
	st = hide_process(&h->words, &s->main, err);
	for (size_t i = 0; !st && i < s->workers.n; i++)
		st = hide_process(&h->words, &s->workers.at[i], err);
	return st ? st : watch_redact_stacks(h, &s->stacks, err);
}

enum plim_status watch_redact_rest(struct plim_watch *w, struct plim_err *err)
{
	struct lines notes = { .arena = &w->hidden->arena, .err = err };

	if (!(w->hidden->options.flags & PLIM_WATCH_REDACT))
		return PLIM_OK;
	for (size_t i = 0; i < w->card_count; i++)
		w->cards[i].uuid = NULL;
	for (size_t i = 0; i < w->note_count; i++)
		lines_add(&notes, "%s", w->notes[i]);
	lines_add(&notes, "redacted, except for numbers (of processes, too), models of GPUs, "
			  "functions of the kernel, and names of common programs");
	return lines_keep(&notes, &w->notes, &w->note_count);
}
