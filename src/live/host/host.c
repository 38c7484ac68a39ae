#include "look.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The initial namespaces have fixed numbers. */
#define PID_NAMESPACE "pid:[4026531836]"

static void all_unknown(struct plim_here *out)
{
	struct plim_here_stall none = { __builtin_nan(""), __builtin_nan(""), __builtin_nan(""),
					PLIM_UNKNOWN };

	memset(&out->machine, 0xff, sizeof(out->machine)); /* all numbers PLIM_UNKNOWN */
	out->machine.overcommit = PLIM_HERE_OVERCOMMIT_UNKNOWN;
	out->machine.pressure = (struct plim_here_pressure){ none, none };
	memset(&out->shm, 0xff, sizeof(out->shm));
	memset(&out->open_files, 0xff, sizeof(out->open_files));
}

static enum plim_status open_root(struct host *h, const char *root, struct plim_err *err)
{
	h->live = !root || !strcmp(root, "/");
	h->root = open(root ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (h->root < 0)
		return err_errno(err, errno, "cannot open '%s'", root);
	if (faccessat(h->root, "proc/meminfo", F_OK, 0) && faccessat(h->root, "proc/self", F_OK, 0))
		return err_set(err, PLIM_E_IO, "'%s' has no proc with anything in it",
			       root ? root : "/");
	return PLIM_OK;
}

uint64_t host_own_pid(const struct host *h)
{
	char target[32];
	struct host_span s = { target, 0 };
	uint64_t pid;

	if (!host_link(h->root, "proc/self", target, sizeof(target)))
		return PLIM_UNKNOWN;
	s.n = strlen(target);
	return host_u64(s, &pid) ? pid : PLIM_UNKNOWN;
}

static enum plim_status find_process(struct host *h, uint64_t pid, struct plim_err *err)
{
	struct host_span text, name;
	char path[64];
	int error;

	h->out->pid = pid == PLIM_UNKNOWN ? host_own_pid(h) : pid;
	if (h->out->pid == PLIM_UNKNOWN)
		return err_set(err, PLIM_E_ARG,
			       "the tree does not say which process it is of: "
			       "give a process");
	snprintf(path, sizeof(path), "proc/%llu/status", (unsigned long long)h->out->pid);
	error = host_read(h, path, &text);
	if (error == ENOENT || error == ESRCH)
		return err_set(err, PLIM_E_ARG, "there is no process %llu here",
			       (unsigned long long)h->out->pid);
	if (host_value(text, "Name", &name))
		h->out->name = host_text(h, name);
	return PLIM_OK;
}

static void give_host(struct host *h, struct plim_here *out)
{
	out->cgroups = h->cgroups.at;
	out->cgroup_count = h->cgroups.n;
	out->rlimits = h->rlimits.at;
	out->rlimit_count = h->rlimits.n;
	out->processes = h->processes.at;
	out->process_count = h->processes.n;
	out->holders = h->holders.at;
	out->holder_count = h->holders.n;
	out->kills = h->kills.at;
	out->kill_count = h->kills.n;
	out->shm.files = h->shm_files.at;
	out->shm.shown_count = h->shm_files.n < HOST_LARGEST ? h->shm_files.n : HOST_LARGEST;
	out->unseen = h->unseen.at;
	out->unseen_count = h->unseen.n;
}

enum plim_status host_begin(struct host *h, struct mem *m, const char *root, struct plim_here *out,
			    struct plim_err *err)
{
	*h = (struct host){ .mem = m, .root = -1, .out = out };
	intern_init(&h->strings, m);
	arena_init(&h->words, m);
	h->buffer = mem_new(m, 1, HOST_FILE, err);
	return h->buffer ? open_root(h, root, err) : mem_status(err);
}

enum plim_status host_look(struct host *h, struct mem *m, const struct host_options *options,
			   struct plim_here *out, struct plim_err *err)
{
	struct host_mounts mounts;
	char name[64];
	enum plim_status st;

	all_unknown(out);
	st = host_begin(h, m, options->root, out, err);
	if (!st)
		st = find_process(h, options->pid, err);
	if (st)
		return st;
	h->alone = host_link(h->root, "proc/self/ns/pid", name, sizeof(name)) &&
		   strcmp(name, PID_NAMESPACE) != 0;
	host_look_mounts(h, &mounts);
	host_look_cgroups(h, &mounts);
	host_look_machine(h);
	host_look_limits(h);
	host_look_shm(h, mounts.shm_bytes);
	out->unread_processes = 0;
	if (!options->limits_only) {
		host_look_kills(h);
		host_look_processes(h, options->pid);
	}
	give_host(h, out);
	if (h->err.status && err)
		*err = h->err;
	return h->err.status;
}

void host_release(struct host *h)
{
	if (!h->mem)
		return;
	if (h->root >= 0)
		close(h->root);
	vec_release(h->mem, &h->cgroups);
	vec_release(h->mem, &h->rlimits);
	vec_release(h->mem, &h->processes);
	vec_release(h->mem, &h->ooms);
	vec_release(h->mem, &h->holders);
	vec_release(h->mem, &h->kills);
	vec_release(h->mem, &h->shm_files);
	vec_release(h->mem, &h->unseen);
	vec_release(h->mem, &h->notes);
	vec_release(h->mem, &h->bounds);
	arena_release(&h->words);
	mem_free(h->mem, h->buffer, 1, HOST_FILE);
	intern_release(&h->strings);
	h->mem = NULL;
}
