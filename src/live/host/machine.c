/* The whole machine: meminfo, pressure, overcommit; the limits of a process; mounts. */
#include "look.h"

#include <errno.h>
#include <string.h>

#define M(key, member)                                          \
	{                                                       \
		key, offsetof(struct plim_here_machine, member) \
	}
static const struct host_key meminfo[] = {
	M("MemTotal", total_bytes),
	M("MemFree", free_bytes),
	M("MemAvailable", available_bytes),
	M("Cached", cached_bytes),
	M("Shmem", shmem_bytes),
	M("SReclaimable", slab_reclaimable_bytes),
	M("SwapTotal", swap_total_bytes),
	M("SwapFree", swap_free_bytes),
	M("CommitLimit", commit_limit_bytes),
	M("Committed_AS", committed_bytes),
	M("HugePages_Total", hugepages_total),
	M("HugePages_Free", hugepages_free),
	M("Hugepagesize", hugepage_bytes),
};
#undef M

static void look_overcommit(struct host *h)
{
	struct host_span text;
	uint64_t mode;

	if (!host_have(h, "proc/sys/vm/overcommit_memory", &text))
		return;
	if (host_u64(text, &mode) && mode <= 2)
		h->out->machine.overcommit =
			(enum plim_here_overcommit)(PLIM_HERE_OVERCOMMIT_HEURISTIC + mode);
	else
		host_unseen(h, "not 0, 1 or 2", "/proc/sys/vm/overcommit_memory");
}

void host_look_machine(struct host *h)
{
	struct plim_here_machine *m = &h->out->machine;
	struct host_span text;
	int error = host_read(h, "proc/meminfo", &text);

	if (error)
		host_unseen(h, strerror(error), "/proc/meminfo");
	host_keyed(text, meminfo, LENGTH(meminfo), m);
	if (!error && m->available_bytes == PLIM_UNKNOWN)
		host_unseen(h, "has no MemAvailable", "/proc/meminfo");
	look_overcommit(h);
	error = host_read(h, "proc/pressure/memory", &text);
	if (error) /* ENOENT: built without PSI; EOPNOTSUPP: switched off */
		host_unseen(h, strerror(error), "/proc/pressure/memory");
	host_pressure(text, &m->pressure);
}

/* ---- limits of a process ---- */

static const struct {
	const char *row, *name, *used; /* used: the key of status that this limit counts */
} rlimits[] = {
	{ "Max address space", "RLIMIT_AS", "VmSize" },
	{ "Max data size", "RLIMIT_DATA", "VmData" },
	{ "Max locked memory", "RLIMIT_MEMLOCK", "VmLck" },
	{ "Max core file size", "RLIMIT_CORE", NULL },
};

static void count_name(struct host *h, int folder, const char *name, void *ctx)
{
	(void)h;
	(void)folder;
	(void)name;
	++*(uint64_t *)ctx;
}

static void look_open_files(struct host *h, struct host_span limits)
{
	struct plim_here_limit soft = { 0 }, hard = { 0 };
	uint64_t open = 0;
	char path[64];
	int error;

	if (host_rlimit(limits, "Max open files", &soft, &hard)) {
		h->out->open_files.soft =
			soft.state == PLIM_HERE_LIMIT_SET ? soft.bytes : PLIM_UNKNOWN;
		h->out->open_files.hard =
			hard.state == PLIM_HERE_LIMIT_SET ? hard.bytes : PLIM_UNKNOWN;
	}
	snprintf(path, sizeof(path), "proc/%llu/fd", (unsigned long long)h->out->pid);
	error = host_list(h, path, 1u << 20, count_name, &open);
	if (error)
		host_unseen(h, strerror(error), "/%s", path);
	else
		h->out->open_files.open = open;
}

void host_look_limits(struct host *h)
{
	struct host_key used = { NULL, 0 };
	struct host_span text;
	char path[64];
	int error;

	snprintf(path, sizeof(path), "proc/%llu/limits", (unsigned long long)h->out->pid);
	error = host_read(h, path, &text);
	if (error)
		host_unseen(h, strerror(error), "/%s", path);
	for (size_t i = 0; i < LENGTH(rlimits); i++) {
		struct plim_here_rlimit r = { .name = rlimits[i].name,
					      .soft.bytes = PLIM_UNKNOWN,
					      .hard.bytes = PLIM_UNKNOWN,
					      .used_bytes = PLIM_UNKNOWN };

		if (!error && !host_rlimit(text, rlimits[i].row, &r.soft, &r.hard)) {
			r.soft = r.hard = (struct plim_here_limit){ 0, PLIM_UNKNOWN };
			host_unseen(h, "has no such row, or no number in it", "/%s: %s", path,
				    rlimits[i].row);
		}
		host_push(h, &h->rlimits, r);
	}
	look_open_files(h, text);
	snprintf(path, sizeof(path), "proc/%llu/status", (unsigned long long)h->out->pid);
	if (host_read(h, path, &text))
		return; /* reported already: it was found there */
	for (size_t i = 0; i < h->rlimits.n; i++) {
		used.name = rlimits[i].used;
		if (used.name)
			host_keyed(text, &used, 1, &h->rlimits.at[i].used_bytes);
	}
}

/* ---- mounts ---- */

static bool has_option(struct host_span super, const char *name)
{
	struct host_span after = super, before;

	while (host_after(after, name, &after)) {
		before = (struct host_span){ super.at,
					     (size_t)(after.at - super.at) - strlen(name) };
		if ((!before.n || before.at[before.n - 1] == ',') &&
		    (!after.n || *after.at == ',' || *after.at == '='))
			return true;
	}
	return false;
}

/*
 * A hierarchy can be mounted several times.  Its usual place wins over bind mounts elsewhere; one that
 * begins above this cgroup namespace ("/..") does not say where in it we are.
 */
static void take_cgroup(const struct host_mount *m, struct host_mount *best)
{
	static const char above[] = "/..", usual[] = "/sys/fs/cgroup";

	if (!strncmp(m->root, above, sizeof(above) - 1) ||
	    (*best->point && strncmp(m->point, usual, sizeof(usual) - 1) != 0))
		return;
	*best = *m;
	best->type = best->super = (struct host_span){ NULL, 0 }; /* the line goes away */
}

static void take_mount(struct host *h, const struct host_mount *m, struct host_mounts *out)
{
	struct host_span hide;

	if (host_is(m->type, "cgroup") && has_option(m->super, "memory"))
		take_cgroup(m, &out->memory);
	else if (host_is(m->type, "cgroup2"))
		take_cgroup(m, &out->unified);
	else if (!strcmp(m->point, "/dev/shm") && !host_mount_size(m->super, &out->shm_bytes))
		out->shm_bytes = PLIM_UNKNOWN;
	else if (host_is(m->type, "proc") && !strcmp(m->point, "/proc") &&
		 host_after(m->super, "hidepid=", &hide) && !host_begins(hide, "0") &&
		 !host_begins(hide, "off"))
		host_unseen(h, "/proc is mounted with hidepid", "processes of other users");
}

void host_look_mounts(struct host *h, struct host_mounts *out)
{
	struct host_lines lines;
	struct host_mount m;
	struct host_span line;

	*out = (struct host_mounts){ .shm_bytes = PLIM_UNKNOWN };
	if (host_lines_open(&lines, h, "proc/self/mountinfo", 0, 64u << 20))
		while (host_lines_next(&lines, &line))
			if (host_mount(line, &m))
				take_mount(h, &m, out);
	if (lines.error)
		host_unseen(h, strerror(lines.error), "/proc/self/mountinfo");
	host_lines_close(&lines);
}
