/*
 * Which processes are new.  A child that a thread of a job starts stands in a file of that thread alone, and jobs have hundreds of threads:
 * to list the processes of the machine now and then, and to ask the new ones for their parents, costs less.
 */
#include "watch/look.h"

#include <dirent.h>
#include <stdio.h>

#define TURNS_SKIPPED \
	1 /* while the kernel's counter says that there is none: some containers make it up */

/* The number that was given last; 0: not told. */
static uint32_t last_number(const char *root)
{
	char text[256];
	const char *at;

	if (!small_file(text, sizeof(text), "%s/proc/loadavg", root))
		return 0;
	at = strrchr(text, ' ');
	return at ? (uint32_t)strtoul(at + 1, NULL, 10) : 0;
}

/* Both ascend. */
static void tell_new(const struct proc_pids *before, const struct proc_pids *now,
		     struct proc_births *b)
{
	b->born_count = 0;
	for (size_t i = 0, k = 0; i < now->n; i++) {
		while (k < before->n && before->at[k] < now->at[i])
			k++;
		if (k < before->n && before->at[k] == now->at[i])
			continue;
		if (b->born_count == PROC_BORN) {
			b->told = false;
			return;
		}
		b->born[b->born_count++] = now->at[i];
	}
}

/* As the kernel lists them: by number.  false: there are too many, or they come in another order. */
static bool list(const char *root, struct proc_pids *out)
{
	char path[320];
	struct dirent *e;
	bool whole = true;
	DIR *d;

	out->n = 0;
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	d = opendir(path);
	while (d && whole && (e = readdir(d))) {
		uint32_t pid = *e->d_name >= '1' && *e->d_name <= '9'
				       ? (uint32_t)strtoul(e->d_name, NULL, 10)
				       : 0;

		if (!pid)
			continue;
		whole = out->n < PROC_PIDS && (!out->n || out->at[out->n - 1] < pid);
		if (whole)
			out->at[out->n++] = pid;
	}
	if (d)
		(void)closedir(d);
	return whole && out->n;
}

void proc_births_look(struct proc_births *b, const char *root)
{
	uint32_t last = last_number(root);
	struct proc_pids *now = &b->lists[!b->newest], *before = &b->lists[b->newest];
	bool had = before->n;

	b->born_count = 0;
	if (b->told && last && last == b->last && b->skipped < TURNS_SKIPPED) {
		b->skipped++;
		return;
	}
	b->skipped = 0;
	b->last = last;
	b->told = list(root, now);
	if (!b->told)
		now->n = 0;
	else if (had)
		tell_new(before, now, b);
	b->told = b->told && had;
	b->newest = !b->newest;
}

bool proc_births_of(const struct proc_births *b, size_t i, const char *root, uint32_t *parent,
		    uint32_t *above)
{
	*above = 0;
	*parent = proc_parent(root, b->born[i]);
	if (*parent > 1)
		*above = proc_parent(root, *parent);
	return *parent > 1;
}
