/* How much memory this process may take, when no one says. */
#include "look.h"

#include <unistd.h>

static uint64_t least_of_cgroups(const char *root)
{
	struct plim_here seen = { .pid = PLIM_UNKNOWN };
	struct host_mounts mounts;
	uint64_t least = UINT64_MAX;
	struct mem m;
	struct host h;

	mem_init(&m, 0);
	if (host_begin(&h, &m, root, &seen, NULL)) {
		host_release(&h);
		return least;
	}
	seen.pid = host_own_pid(&h);
	host_look_mounts(&h, &mounts);
	host_look_cgroups(&h, &mounts);
	for (size_t i = 0; i < h.cgroups.n; i++)
		if (h.cgroups.at[i].max.bytes < least) /* PLIM_UNKNOWN is the largest */
			least = h.cgroups.at[i].max.bytes;
	host_release(&h);
	return least;
}

uint64_t host_memory_limit_below(const char *root)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	uint64_t ram = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : (uint64_t)1 << 32;
	uint64_t group = least_of_cgroups(root);

	return (group && group < ram ? group : ram) / 2;
}

uint64_t host_memory_limit(void)
{
	return host_memory_limit_below(NULL);
}

uint64_t host_room_below(const char *root)
{
	const struct host_options options = { .root = root,
					      .pid = PLIM_UNKNOWN,
					      .limits_only = true };
	struct plim_here here = { 0 };
	uint64_t room = PLIM_UNKNOWN;
	struct host h = { 0 };
	struct mem m;

	mem_init(&m, 0);
	if (!host_look(&h, &m, &options, &here, NULL) && !host_judge(&h, false, NULL) &&
	    here.headroom)
		room = here.headroom->room_bytes;
	host_release(&h);
	return room == PLIM_UNKNOWN ? host_memory_limit_below(root) : room;
}

void host_mem_init(struct mem *m, uint64_t max_memory_bytes)
{
	mem_init(m, max_memory_bytes ? max_memory_bytes : host_memory_limit());
}
