/*
 * Processes: who holds how much, who is below whom, who has a GPU open.  Any of them may end while
 * it is looked at; then it was not there.
 */
#include "look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROCESSES_MAX (1u << 20)
#define FILES_MAX (1u << 20)
#define DEPTH_MAX 1024 /* ancestors that are followed */

#define P(key, member)                                          \
	{                                                       \
		key, offsetof(struct plim_here_process, member) \
	}
static const struct host_key status_keys[] = {
	P("PPid", parent),        P("Threads", threads),    P("VmRSS", rss_bytes),
	P("RssAnon", anon_bytes), P("RssFile", file_bytes), P("RssShmem", shmem_bytes),
	P("VmSwap", swap_bytes),  P("VmLck", locked_bytes),
};
static const struct host_key rollup_keys[] = { P("Pss", pss_bytes) };
#undef P

struct scan {
	VEC(uint64_t) pids;
	uint64_t status_denied, pss_denied;
	const char *status_why, *pss_why;
};

static bool denied(int error)
{
	return error == EACCES || error == EPERM;
}

/* ---- open files ---- */

/* "/dev/nvidia0", "/dev/dri/renderD128", "/dev/kfd": what holding means holding a GPU. */
static bool is_card(const char *target)
{
	static const struct {
		const char *prefix;
		bool number;
	} cards[] = { { "/dev/nvidia", true },
		      { "/dev/dri/renderD", true },
		      { "/dev/kfd", false } };

	for (size_t i = 0; i < LENGTH(cards); i++) {
		size_t n = strlen(cards[i].prefix);
		size_t digits;

		if (strncmp(target, cards[i].prefix, n))
			continue;
		digits = strspn(target + n, "0123456789");
		if (!target[n + digits] && (digits != 0) == cards[i].number)
			return true;
	}
	return false;
}

static const char *container_of(struct host *h, uint64_t pid)
{
	struct host_span text, line, id;
	struct host_membership in;
	char path[64];

	snprintf(path, sizeof(path), "proc/%llu/cgroup", (unsigned long long)pid);
	if (host_read(h, path, &text))
		return NULL;
	while (host_line(&text, &line))
		if (host_membership(line, &in) && host_container(in.path, &id))
			return host_text(h, id);
	return NULL;
}

static void hold_card(struct host *h, const struct plim_here_process *p, const char *device)
{
	struct plim_here_holder holder = { .pid = p->pid,
					   .parent = p->parent,
					   .name = p->name,
					   .state = p->state,
					   .zombie = p->state && *p->state == 'Z' };

	for (size_t i = h->holders.n; i-- && h->holders.at[i].pid == p->pid;)
		if (h->holders.at[i].device && !strcmp(h->holders.at[i].device, device))
			return;
	holder.device = host_textf(h, "%s", device);
	holder.container = container_of(h, p->pid);
	host_push(h, &h->holders, holder);
}

#define DELETED " (deleted)"

static void take_link(struct host *h, int folder, const char *name, void *ctx)
{
	struct plim_here_process *p = ctx;
	char target[HOST_PATH];
	size_t n;

	if (!host_link(folder, name, target, sizeof(target)))
		return;
	if (is_card(target))
		hold_card(h, p, target);
	if (strncmp(target, "/dev/shm/", 9) != 0)
		return;
	n = strlen(target);
	p->shm_files++;
	p->shm_unlinked += n > strlen(DELETED) && !strcmp(target + n - strlen(DELETED), DELETED);
}

struct threads {
	struct plim_here_process *p;
	int error;
};

static void take_thread(struct host *h, int folder, const char *name, void *ctx)
{
	struct threads *t = ctx;
	char path[HOST_PATH];
	int error;

	(void)folder;
	if (strspn(name, "0123456789") != strlen(name) || strtoull(name, NULL, 10) == t->p->pid ||
	    snprintf(path, sizeof(path), "proc/%llu/task/%s/fd", (unsigned long long)t->p->pid,
		     name) >= (int)sizeof(path))
		return;
	error = host_list(h, path, FILES_MAX, take_link, t->p);
	t->error = t->error ? t->error : error;
}

/*
 * A process whose first thread has ended is shown as a zombie without files; threads that are still
 * inside the driver hold them.
 */
static void look_files(struct host *h, struct plim_here_process *p)
{
	struct threads t = { .p = p };
	char path[64];
	int error;

	p->shm_files = p->shm_unlinked = 0;
	if (p->state && *p->state == 'Z') {
		snprintf(path, sizeof(path), "proc/%llu/task", (unsigned long long)p->pid);
		error = host_list(h, path, FILES_MAX, take_thread, &t);
		error = error ? error : t.error;
	} else {
		snprintf(path, sizeof(path), "proc/%llu/fd", (unsigned long long)p->pid);
		error = host_list(h, path, FILES_MAX, take_link, p);
	}
	if (error)
		p->shm_files = p->shm_unlinked = PLIM_UNKNOWN;
	h->out->unread_processes += denied(error);
}

/* ---- a process ---- */

static bool kernel_thread(const struct plim_here_process *p)
{
	return p->rss_bytes == PLIM_UNKNOWN && (p->pid == 2 || p->parent == 2) &&
	       !(p->state && *p->state == 'Z');
}

static void look_process(struct host *h, struct scan *s, uint64_t pid)
{
	struct plim_here_process p;
	struct host_span text, value;
	char path[64];
	int error;

	memset(&p, 0xff, sizeof(p)); /* all numbers PLIM_UNKNOWN */
	p.pid = pid;
	p.name = p.state = NULL;
	p.oom = NULL;
	snprintf(path, sizeof(path), "proc/%llu/status", (unsigned long long)pid);
	error = host_read(h, path, &text);
	if (error) {
		if (error == ENOENT || error == ESRCH)
			return;
		s->status_denied++;
		s->status_why = strerror(error);
		return;
	}
	host_keyed(text, status_keys, LENGTH(status_keys), &p);
	if (kernel_thread(&p))
		return;
	if (host_value(text, "Name", &value))
		p.name = host_text(h, value);
	if (host_value(text, "State", &value))
		p.state = host_text(h, value);
	look_files(h, &p);
	host_push(h, &h->processes, p);
}

static void look_details(struct host *h, struct scan *s, struct plim_here_process *p)
{
	struct plim_here_oom oom;
	struct host_span text;
	char path[64];
	int error;

	snprintf(path, sizeof(path), "proc/%llu/smaps_rollup", (unsigned long long)p->pid);
	error = host_read(h, path, &text);
	host_keyed(text, rollup_keys, LENGTH(rollup_keys), p);
	if (error && error != ENOENT && error != ESRCH) {
		s->pss_denied++;
		s->pss_why = strerror(error);
	}
	snprintf(path, sizeof(path), "proc/%llu/oom_score", (unsigned long long)p->pid);
	if (host_read(h, path, &text) || !host_u64(text, &oom.score))
		return;
	snprintf(path, sizeof(path), "proc/%llu/oom_score_adj", (unsigned long long)p->pid);
	if (host_read(h, path, &text) || !host_i64(text, &oom.adjust))
		return;
	host_push(h, &h->ooms, oom);
	if (!h->err.status)
		p->oom = &h->ooms.at[h->ooms.n - 1];
}

/* ---- all of them ---- */

/* A folder has no order that means anything: by device, then by process. */
static int by_device(const void *a, const void *b)
{
	const struct plim_here_holder *x = a, *y = b;
	int order = x->device && y->device ? strcmp(x->device, y->device) : 0;

	return order ? order : (x->pid > y->pid) - (x->pid < y->pid);
}

static void take_pid(struct host *h, int folder, const char *name, void *ctx)
{
	struct host_span text = { name, strlen(name) };
	struct scan *s = ctx;
	uint64_t pid;

	(void)folder;
	if (*name >= '0' && *name <= '9' && host_u64(text, &pid))
		host_push(h, &s->pids, pid);
}

static int by_pid(const void *a, const void *b)
{
	const struct plim_here_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Unknown ones last. */
static int process_by_size(const void *a, const void *b)
{
	const struct plim_here_process *x = a, *y = b;
	uint64_t rx = x->rss_bytes + 1, ry = y->rss_bytes + 1; /* PLIM_UNKNOWN becomes 0 */

	return rx != ry ? (rx < ry ? 1 : -1) : by_pid(a, b);
}

static const struct plim_here_process *find_host_process(const struct host *h, uint64_t pid)
{
	struct plim_here_process key = { .pid = pid };

	return bsearch(&key, h->processes.at, h->processes.n, sizeof(key), by_pid);
}

static bool below(const struct host *h, const struct plim_here_process *p, uint64_t pid)
{
	for (unsigned depth = 0; p && depth < DEPTH_MAX; depth++) {
		if (p->pid == pid)
			return true;
		p = find_host_process(h, p->parent);
	}
	return false;
}

/* Those below `pid` go to the front, the rest is dropped.  The list stays sorted until all are judged. */
static enum plim_status keep_tree(struct host *h, uint64_t pid)
{
	size_t n = h->processes.n, kept = 0;
	bool *in = mem_new(h->mem, n, sizeof(*in), &h->err);

	if (!in)
		return h->err.status;
	for (size_t i = 0; i < n; i++)
		in[i] = below(h, &h->processes.at[i], pid);
	for (size_t i = 0; i < n; i++)
		if (in[i])
			h->processes.at[kept++] = h->processes.at[i];
	h->processes.n = kept;
	mem_free(h->mem, in, n, sizeof(*in));
	return PLIM_OK;
}

static const char *process_processes(uint64_t n)
{
	return n == 1 ? "process" : "processes";
}

static void tell_denied(struct host *h, const struct scan *s)
{
	uint64_t unread = h->out->unread_processes;

	if (s->status_denied)
		host_unseen(h, s->status_why, "%llu %s", (unsigned long long)s->status_denied,
			    process_processes(s->status_denied));
	if (s->pss_denied)
		host_unseen(h, s->pss_why, "the PSS of %llu %s", (unsigned long long)s->pss_denied,
			    process_processes(s->pss_denied));
	if (unread)
		host_unseen(h, "not permitted",
			    "the open files of %llu %s, a GPU may be among them",
			    (unsigned long long)unread, process_processes(unread));
	if (h->alone)
		host_unseen(h, "this is a container with a pid namespace",
			    "processes outside, and what they hold of a GPU");
}

void host_look_processes(struct host *h, uint64_t root_pid)
{
	struct scan s = { 0 };
	int error = host_list(h, "proc", PROCESSES_MAX, take_pid, &s);

	if (error)
		host_unseen(h, strerror(error), "/proc");
	sort_items(s.pids.at, s.pids.n, sizeof(*s.pids.at), by_number);
	for (size_t i = 0; i < s.pids.n; i++)
		look_process(h, &s, s.pids.at[i]);
	if (root_pid != PLIM_UNKNOWN && h->processes.n)
		(void)keep_tree(h, root_pid);
	sort_items(h->processes.at, h->processes.n, sizeof(*h->processes.at), process_by_size);
	sort_items(h->holders.at, h->holders.n, sizeof(*h->holders.at), by_device);
	if (!h->err.status) /* so that it does not move under those who point into it */
		(void)vec_need(h->mem, &h->ooms, HOST_LARGEST, &h->err);
	for (size_t i = 0; i < h->processes.n && i < HOST_LARGEST; i++)
		look_details(h, &s, &h->processes.at[i]);
	tell_denied(h, &s);
	vec_release(h->mem, &s.pids);
}
