/*
 * The kernel's lines about a kill (mm/oom_kill.c): why it is done, and whom it took.  Names in them are
 * of those who were killed, so they may hold anything, also what looks like the rest of the line.
 */
#include "scan.h"

#include <string.h>

struct part {
	const char *at, *end;
};

/* Move behind the next `text`; 0: there is none. */
static int behind(struct part *p, const char *text)
{
	const char *found = memmem(p->at, (size_t)(p->end - p->at), text, strlen(text));

	if (found)
		p->at = found + strlen(text);
	return found != NULL;
}

/* The same of the last one. */
static int behind_last(struct part *p, const char *text)
{
	int found = 0;

	while (behind(p, text))
		found = 1;
	return found;
}

static int is_next(const struct part *p, const char *text)
{
	size_t n = strlen(text);

	return (size_t)(p->end - p->at) >= n && !memcmp(p->at, text, n);
}

static int kill_number(struct part *p, uint64_t *out)
{
	const char *from = p->at;

	p->at = scan_digits(from, p->end, out);
	return p->at > from && *out != PLIM_UNKNOWN;
}

static void start_kill(struct messages_kill *k)
{
	*k = (struct messages_kill){ .pid = PLIM_UNKNOWN,
				     .process = "",
				     .group = "",
				     .virtual_bytes = PLIM_UNKNOWN,
				     .anon_bytes = PLIM_UNKNOWN,
				     .file_bytes = PLIM_UNKNOWN,
				     .shmem_bytes = PLIM_UNKNOWN };
}

int messages_kill_reason(const char *line, size_t n, struct messages_kill *out)
{
	static const struct {
		const char *name;
		enum messages_constraint constraint;
	} constraints[] = {
		{ "CONSTRAINT_NONE,", MESSAGES_CONSTRAINT_MACHINE },
		{ "CONSTRAINT_MEMCG,", MESSAGES_CONSTRAINT_CGROUP },
		{ "CONSTRAINT_CPUSET,", MESSAGES_CONSTRAINT_CPUSET },
		{ "CONSTRAINT_MEMORY_POLICY,", MESSAGES_CONSTRAINT_POLICY },
	};
	struct part all = { line, line + n }, group, after;

	start_kill(out);
	if (!behind(&all, "oom-kill:constraint="))
		return 0;
	for (size_t i = 0; i < sizeof(constraints) / sizeof(*constraints); i++)
		if (is_next(&all, constraints[i].name))
			out->constraint = constraints[i].constraint;
	/* a cgroup's name may hold a comma: it ends where the next key begins */
	group = after = all;
	if (behind(&group, ",oom_memcg=")) {
		after = group;
		if (behind(&after, ",task_memcg=")) {
			out->group = group.at;
			out->group_n = (size_t)(after.at - group.at) - strlen(",task_memcg=");
		}
	}
	/* so may the task's: its pid is behind the last ",pid=" */
	return behind_last(&all, ",pid=") && kill_number(&all, &out->pid);
}

static uint64_t size_behind(struct part p, const char *key)
{
	uint64_t v;

	if (!behind(&p, key) || !kill_number(&p, &v) || !is_next(&p, "kB") ||
	    __builtin_mul_overflow(v, 1024, &v))
		return PLIM_UNKNOWN;
	return v;
}

/* " (python) total-vm:34kB, ...": the name, and where the sizes begin. */
static int name_and_sizes(struct part *p, struct messages_kill *out)
{
	struct part name = *p;

	if (is_next(p, ", UID ")) /* 4.19: "process 12, UID 0, (python)" */
		(void)(behind(&name, "UID ") && behind(&name, ","));
	if (!is_next(&name, " ("))
		return 0;
	*p = name;
	name.at += 2;
	if (behind_last(p, ") total-vm:"))
		p->at -= strlen(") total-vm:");
	else if (behind_last(p, ")"))
		p->at--; /* the announcement of older kernels has no sizes */
	else
		return 0;
	out->process = name.at;
	out->process_n = (size_t)(p->at - name.at);
	return 1;
}

int messages_kill_done(const char *line, size_t n, struct messages_kill *out)
{
	struct part all = { line, line + n }, before = all, rest = all;

	start_kill(out);
	/* "Killed" since 5.0, "Kill" for whole cgroups and before */
	if (!behind(&rest, "Killed process ") && !behind(&rest, "Kill process "))
		return 0;
	before.end = rest.at;
	if (behind(&before, "Memory cgroup"))
		out->constraint = MESSAGES_CONSTRAINT_CGROUP;
	else if (behind(&before, "Out of memory"))
		out->constraint = MESSAGES_CONSTRAINT_MACHINE;
	if (!kill_number(&rest, &out->pid) || !name_and_sizes(&rest, out))
		return 0;
	out->virtual_bytes = size_behind(rest, "total-vm:");
	out->anon_bytes = size_behind(rest, "anon-rss:");
	out->file_bytes = size_behind(rest, "file-rss:");
	out->shmem_bytes = size_behind(rest, "shmem-rss:");
	return 1;
}
