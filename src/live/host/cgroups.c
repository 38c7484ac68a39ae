/*
 * Every level of the process's cgroup, its own first.  A limit of any of them binds, and a level
 * counts all that is below it, so the nearest limit need not be the process's own.
 */
#include "look.h"

#include <errno.h>
#include <string.h>

/* Deeper than systemd, Kubernetes and Slurm nest together; the kernel has no limit of its own. */
#define LEVELS_MAX 64

#define C(key, member)                                         \
	{                                                      \
		key, offsetof(struct plim_here_cgroup, member) \
	}

/* Files that hold one number or "max"; a limit or a plain number of the struct. */
struct one_value {
	const char *file;
	bool limit;
	size_t offset;
};
static const struct one_value values_v2[] = {
	{ "memory.max", true, offsetof(struct plim_here_cgroup, max) },
	{ "memory.high", true, offsetof(struct plim_here_cgroup, high) },
	{ "memory.swap.max", true, offsetof(struct plim_here_cgroup, swap_max) },
	{ "memory.current", false, offsetof(struct plim_here_cgroup, current_bytes) },
	{ "memory.peak", false, offsetof(struct plim_here_cgroup, peak_bytes) },
	{ "memory.swap.current", false, offsetof(struct plim_here_cgroup, swap_bytes) },
	{ "memory.oom.group", false, offsetof(struct plim_here_cgroup, oom_group) },
};
static const struct one_value values_v1[] = {
	{ "memory.limit_in_bytes", true, offsetof(struct plim_here_cgroup, max) },
	{ "memory.memsw.limit_in_bytes", true, offsetof(struct plim_here_cgroup, memsw_max) },
	{ "memory.usage_in_bytes", false, offsetof(struct plim_here_cgroup, current_bytes) },
	{ "memory.max_usage_in_bytes", false, offsetof(struct plim_here_cgroup, peak_bytes) },
	{ "memory.memsw.usage_in_bytes", false, offsetof(struct plim_here_cgroup, memsw_bytes) },
	{ "memory.failcnt", false, offsetof(struct plim_here_cgroup, max_events) },
};

/* Files of keys. */
static const struct host_key stat_v2[] = {
	C("anon", anon_bytes),
	C("file", file_bytes),
	C("inactive_file", inactive_file_bytes),
	C("active_file", active_file_bytes),
	C("shmem", shmem_bytes),
	C("slab_reclaimable", slab_reclaimable_bytes),
};
/* total_: with what lies below, as the usage counts */
static const struct host_key stat_v1[] = {
	C("total_rss", anon_bytes),
	C("total_cache", file_bytes),
	C("total_inactive_file", inactive_file_bytes),
	C("total_active_file", active_file_bytes),
	C("total_shmem", shmem_bytes),
	C("total_swap", swap_bytes),
	C("hierarchical_memory_limit", hierarchical_bytes),
};
static const struct host_key events_v2[] = {
	C("high", high_events),
	C("max", max_events),
	C("oom", oom_events),
	C("oom_kill", oom_kill_events),
	C("oom_group_kill", oom_group_kill_events),
};
static const struct host_key control_v1[] = {
	C("oom_kill_disable", oom_kill_disabled),
	C("oom_kill", oom_kill_events),
};
#undef C

static const struct version {
	uint32_t number;
	const struct one_value *values;
	size_t value_count;
	struct {
		const char *file;
		const struct host_key *keys;
		size_t n;
	} keyed[2];
	bool pressure;
} versions[] = {
	{ 2,
	  values_v2,
	  LENGTH(values_v2),
	  { { "memory.stat", stat_v2, LENGTH(stat_v2) },
	    { "memory.events", events_v2, LENGTH(events_v2) } },
	  true },
	{ 1,
	  values_v1,
	  LENGTH(values_v1),
	  { { "memory.stat", stat_v1, LENGTH(stat_v1) },
	    { "memory.oom_control", control_v1, LENGTH(control_v1) } },
	  false },
};

#define NOTHING PLIM_UNKNOWN
#define NO_STALL                                                                 \
	{                                                                        \
		__builtin_nan(""), __builtin_nan(""), __builtin_nan(""), NOTHING \
	}
#define NO_BOUND                                 \
	{                                        \
		PLIM_HERE_LIMIT_UNKNOWN, NOTHING \
	}
static const struct plim_here_cgroup not_known = {
	.max = NO_BOUND,
	.high = NO_BOUND,
	.swap_max = NO_BOUND,
	.memsw_max = NO_BOUND,
	.current_bytes = NOTHING,
	.peak_bytes = NOTHING,
	.swap_bytes = NOTHING,
	.memsw_bytes = NOTHING,
	.anon_bytes = NOTHING,
	.file_bytes = NOTHING,
	.inactive_file_bytes = NOTHING,
	.active_file_bytes = NOTHING,
	.shmem_bytes = NOTHING,
	.slab_reclaimable_bytes = NOTHING,
	.droppable_bytes = NOTHING,
	.hierarchical_bytes = NOTHING,
	.high_events = NOTHING,
	.max_events = NOTHING,
	.oom_events = NOTHING,
	.oom_kill_events = NOTHING,
	.oom_group_kill_events = NOTHING,
	.oom_group = NOTHING,
	.oom_kill_disabled = NOTHING,
	.pressure = { NO_STALL, NO_STALL },
};

/* ---- one level ---- */

/* "folder/file" below the root; false when that is too long. */
static bool join_cgroup(char *out, const char *folder, const char *file)
{
	return snprintf(out, HOST_PATH, "%s/%s", folder, file) < HOST_PATH;
}

static bool take_value(struct host *h, const char *path, const struct one_value *v,
		       struct plim_here_cgroup *c)
{
	char *at = (char *)c + v->offset;
	struct host_span text;
	bool good;

	if (!host_have(h, path, &text))
		return false;
	if (v->limit) {
		struct plim_here_limit limit;

		good = host_limit(text, &limit);
		if (good)
			memcpy(at, &limit, sizeof(limit));
	} else {
		uint64_t number;

		good = host_u64(text, &number);
		if (good)
			memcpy(at, &number, sizeof(number));
	}
	if (!good)
		host_unseen(h, v->limit ? "is neither a number nor \"max\"" : "is not a number",
			    "/%s", path);
	return true;
}

/* Page cache that is on the lists to be dropped; tmpfs, mlocked and anonymous pages are not on them. */
static uint64_t droppable(const struct plim_here_cgroup *c)
{
	uint64_t sum;

	if (c->inactive_file_bytes == PLIM_UNKNOWN || c->active_file_bytes == PLIM_UNKNOWN ||
	    __builtin_add_overflow(c->inactive_file_bytes, c->active_file_bytes, &sum))
		return PLIM_UNKNOWN;
	if (c->slab_reclaimable_bytes != PLIM_UNKNOWN &&
	    __builtin_add_overflow(sum, c->slab_reclaimable_bytes, &sum))
		return PLIM_UNKNOWN;
	return sum;
}

/* Is there anything of memory at this level: v2's real root has nothing, nor where it is not switched on. */
static void look_level(struct host *h, const struct version *v, const char *folder,
		       struct host_span name)
{
	struct plim_here_cgroup c = not_known;
	struct host_span text;
	char path[HOST_PATH];
	bool any = false;

	c.version = v->number;
	for (size_t i = 0; i < v->value_count; i++)
		if (join_cgroup(path, folder, v->values[i].file))
			any |= take_value(h, path, &v->values[i], &c);
	for (size_t i = 0; any && i < LENGTH(v->keyed); i++)
		if (join_cgroup(path, folder, v->keyed[i].file) && host_have(h, path, &text))
			host_keyed(text, v->keyed[i].keys, v->keyed[i].n, &c);
	if (!any)
		return;
	if (v->pressure && join_cgroup(path, folder, "memory.pressure") &&
	    !host_read(h, path, &text))
		host_pressure(text, &c.pressure);
	c.droppable_bytes = droppable(&c);
	c.path = host_text(h, name.n ? name : HOST_SPAN("/"));
	host_push(h, &h->cgroups, c);
}

/* ---- the path ---- */

/* A ".." would lead out of the tree: the process is in a cgroup that this namespace does not show. */
static bool leads_out(struct host_span path)
{
	struct host_span after;

	while (host_after(path, "/..", &after)) {
		if (!after.n || *after.at == '/')
			return true;
		path = after;
	}
	return false;
}

/*
 * The part of the path that lies below what is mounted.  A container's mount may begin at its own
 * cgroup while the path is the machine's: then its last part is not there, and the mount point is it.
 */
static struct host_span below_mount(struct host_span path, const struct host_mount *m)
{
	size_t n = strlen(m->root);

	if (!strcmp(m->root, "/"))
		n = 0;
	else if (!host_begins(path, m->root) || (path.n > n && path.at[n] != '/'))
		return (struct host_span){ path.at + path.n, 0 };
	path.at += n;
	path.n -= n;
	while (path.n && path.at[path.n - 1] == '/')
		path.n--;
	return path;
}

/* `whole` ends with `inner`, which shrinks by a part at each level; names are parts of `whole`. */
static void look_path(struct host *h, const struct version *v, const struct host_mount *m,
		      struct host_span whole)
{
	struct host_span inner = below_mount(whole, m);
	char folder[HOST_PATH];

	if (!inner.n && strcmp(m->root, "/") != 0 && !host_is(whole, m->root))
		host_unseen(h, "it is not below what is mounted here, whose limits are shown",
			    "the cgroup of process %llu", (unsigned long long)h->out->pid);

	for (unsigned level = 0; level < LEVELS_MAX; level++) {
		struct host_span name = { whole.at, (size_t)(inner.at - whole.at) + inner.n };

		if (snprintf(folder, sizeof(folder), "%s%.*s", m->point + 1, (int)inner.n,
			     inner.at) >= (int)sizeof(folder)) {
			host_unseen(h, "the path is too long", "a cgroup");
			return;
		}
		look_level(h, v, folder, name);
		if (!inner.n)
			return;
		while (inner.n && inner.at[--inner.n] != '/')
			;
	}
	host_unseen(h, "nested deeper than 64 levels", "more cgroups");
}

/* The initial namespaces have fixed numbers. */
#define CGROUP_NAMESPACE "cgroup:[4026531835]"

static void tell_namespace(struct host *h)
{
	char name[64];

	if (h->cgroups.n && host_link(h->root, "proc/self/ns/cgroup", name, sizeof(name)) &&
	    strcmp(name, CGROUP_NAMESPACE))
		host_unseen(h, "this is a container with a cgroup namespace",
			    "limits above the cgroup '%s'", h->cgroups.at[h->cgroups.n - 1].path);
}

void host_look_cgroups(struct host *h, const struct host_mounts *mounts)
{
	struct host_span text, line;
	struct host_membership in;
	char path[64], *copy;
	int error;

	snprintf(path, sizeof(path), "proc/%llu/cgroup", (unsigned long long)h->out->pid);
	error = host_read(h, path, &text);
	if (error) {
		host_unseen(h, strerror(error), "/%s", path);
		return;
	}
	copy = mem_new(h->mem, text.n + 1, 1, &h->err); /* the buffer is needed for the levels */
	if (!copy)
		return;
	memcpy(copy, text.at, text.n);
	for (struct host_span rest = { copy, text.n }; host_line(&rest, &line);) {
		const struct host_mount *m;

		if (!host_membership(line, &in) || (!in.unified && !in.memory))
			continue;
		m = in.unified ? &mounts->unified : &mounts->memory;
		if (!*m->point)
			host_unseen(h, "its hierarchy is not mounted here", "cgroup v%d",
				    in.unified ? 2 : 1);
		else if (leads_out(in.path))
			host_unseen(h, "it lies outside of this cgroup namespace",
				    "the cgroup of process %llu", (unsigned long long)h->out->pid);
		else
			look_path(h, &versions[!in.unified], m, in.path);
	}
	mem_free(h->mem, copy, text.n + 1, 1);
	tell_namespace(h);
	if (!h->cgroups.n)
		host_unseen(h, "no level of its path has files of the memory controller",
			    "a cgroup's limit");
}
