/*
 * --redact of --here: names of processes, cgroups, containers and files become words with a number,
 * the same name always the same word.  What every machine has keeps its name.
 */
#include "look.h"

#include <stdio.h>
#include <string.h>

static void hide_group(struct redact *r, const char **path)
{
	if (*path && strcmp(*path, "/") != 0)
		redact_name(r, "cgroup", path);
}

/* Programs that kill are reported by name (headroom.c), and are not secret. */
static void hide_process(struct redact *r, const char **name)
{
	if (*name && !host_is_killer(*name))
		redact_name(r, "process", name);
}

/* A path or a sentence that ends with a cgroup's path: what is not the machine's own goes. */
static void hide_unseen(struct redact *r, const char **what)
{
	const char *last = strrchr(*what, '/'), *quote = strstr(*what, " '");

	if (quote)
		*what = arena_text(r->arena, r->err, "%.*s", (int)(quote - *what), *what);
	else if (**what == '/' && strstr(*what, "cgroup") && strncmp(*what, "/proc/", 6) != 0)
		*what = arena_text(r->arena, r->err, "%s of a cgroup", last + 1);
}

static int is_groups(const struct plim_here_bound *b)
{
	return b->kind == PLIM_HERE_CGROUP || b->kind == PLIM_HERE_CGROUP_HIGH ||
	       b->kind == PLIM_HERE_CGROUP_MEMSW;
}

static void hide_names(struct redact *r, struct plim_here *h)
{
	hide_process(r, &h->name);
	for (size_t i = 0; i < h->cgroup_count; i++)
		hide_group(r, &h->cgroups[i].path);
	for (size_t i = 0; i < h->bound_count; i++)
		if (is_groups(&h->bounds[i]))
			hide_group(r, &h->bounds[i].where);
	for (size_t i = 0; i < h->process_count; i++)
		hide_process(r, &h->processes[i].name);
	for (size_t i = 0; i < h->holder_count; i++) {
		hide_process(r, &h->holders[i].name);
		redact_name(r, "container", &h->holders[i].container);
	}
	for (size_t i = 0; i < h->kill_count; i++) {
		hide_process(r, &h->kills[i].name);
		hide_group(r, &h->kills[i].cgroup);
	}
	for (size_t i = 0; i < h->shm.shown_count; i++)
		redact_name(r, "file", &h->shm.files[i].name);
	for (size_t i = 0; i < h->unseen_count; i++)
		hide_unseen(r, &h->unseen[i].what);
}

enum plim_status host_redact(struct host *h, struct plim_err *err)
{
	struct plim_err own = { .status = PLIM_OK };
	struct intern names;
	struct redact r = { .arena = &h->words, .words = &names, .err = &own };

	intern_init(&names, h->mem);
	hide_names(&r, h->out);
	intern_release(&names);
	if (own.status)
		*err = own;
	return own.status;
}
