/*
 * What was seen becomes bounds, the nearest of them the headroom.
 *
 * A cgroup's room is limit - (used - what can be dropped), at every level of the path, since each counts
 * all that is below it.  It is the most that can be had: dirty and mapped cache is dropped late, and
 * the kernel kills when reclaiming fails.  A bound without its numbers is reported and never guessed.
 */
#include "look.h"

#include <string.h>

/* ---- bounds ---- */

static int headroom_known(uint64_t v)
{
	return v != PLIM_UNKNOWN;
}

static uint64_t left_of(uint64_t limit, uint64_t used)
{
	if (!headroom_known(limit) || !headroom_known(used))
		return PLIM_UNKNOWN;
	return used < limit ? limit - used : 0;
}

/* Fills in what follows from limit, used and droppable; what is dropped cannot exceed what is used. */
static void add_bound(struct host *host, struct plim_here_bound b)
{
	uint64_t drop = headroom_known(b.droppable_bytes) ? b.droppable_bytes : 0;

	b.free_bytes = left_of(b.limit_bytes, b.used_bytes);
	if (headroom_known(b.used_bytes)) {
		uint64_t kept = b.used_bytes - (drop < b.used_bytes ? drop : b.used_bytes);

		b.room_bytes = left_of(b.limit_bytes, kept);
	} else {
		b.room_bytes = b.limit_bytes;
		b.at_most = true;
	}
	if (!host->err.status)
		(void)vec_push(host->mem, &host->bounds, b, &host->err);
}

/* Swap that the cgroup may still use: of every level's, and the machine's, the least. */
static uint64_t swap_room(const struct plim_here *h)
{
	uint64_t room = h->machine.swap_free_bytes;

	for (size_t i = 0; headroom_known(room) && i < h->cgroup_count; i++) {
		const struct plim_here_cgroup *c = &h->cgroups[i];
		uint64_t left = left_of(c->swap_max.bytes, c->swap_bytes);

		if (c->swap_max.state == PLIM_HERE_LIMIT_SET &&
		    (!headroom_known(left) || left < room))
			room = left;
	}
	return room;
}

/* v1: does the kernel kill at this level, or let processes wait. */
static enum plim_here_effect effect_of(const struct plim_here_cgroup *c)
{
	return c->oom_kill_disabled == 1 ? PLIM_HERE_HANGS : PLIM_HERE_KILLED;
}

static void bound_cgroup(struct host *host, const struct plim_here_cgroup *c, uint64_t swap)
{
	struct plim_here_bound b = { .effect = effect_of(c),
				     .where = c->path,
				     .used_bytes = c->current_bytes,
				     .droppable_bytes = c->droppable_bytes };

	if (c->max.state == PLIM_HERE_LIMIT_SET) {
		b.kind = PLIM_HERE_CGROUP;
		b.limit_bytes = c->max.bytes;
		b.swap_room_bytes = swap;
		add_bound(host, b);
	}
	if (c->high.state == PLIM_HERE_LIMIT_SET) {
		b.kind = PLIM_HERE_CGROUP_HIGH;
		b.effect = PLIM_HERE_SLOWED;
		b.limit_bytes = c->high.bytes;
		b.swap_room_bytes = swap;
		add_bound(host, b);
	}
	if (c->memsw_max.state == PLIM_HERE_LIMIT_SET) {
		b.kind = PLIM_HERE_CGROUP_MEMSW;
		b.effect = effect_of(c);
		b.limit_bytes = c->memsw_max.bytes;
		b.used_bytes = c->memsw_bytes;
		b.swap_room_bytes = PLIM_UNKNOWN; /* counted already */
		add_bound(host, b);
	}
}

/*
 * v1 shows the smallest limit of all ancestors, also of those that a container does not show.  They
 * count at least what is used here.
 */
static void bound_above(struct host *host)
{
	const struct plim_here *h = host->out;
	const struct plim_here_cgroup *own = h->cgroups;
	uint64_t least = UINT64_MAX, whole_pages = (uint64_t)INT64_MAX & ~(uint64_t)0xffff;

	if (!h->cgroup_count || !headroom_known(own->hierarchical_bytes) ||
	    own->hierarchical_bytes >= whole_pages)
		return;
	for (size_t i = 0; i < h->cgroup_count; i++)
		if (h->cgroups[i].version == 1 && h->cgroups[i].max.bytes < least)
			least = h->cgroups[i].max.bytes;
	if (own->hierarchical_bytes < least)
		add_bound(host, (struct plim_here_bound){ .kind = PLIM_HERE_CGROUP_ABOVE,
							  .where = "above",
							  .limit_bytes = own->hierarchical_bytes,
							  .used_bytes = own->current_bytes,
							  .droppable_bytes = own->droppable_bytes,
							  .swap_room_bytes = PLIM_UNKNOWN,
							  .at_most = true });
}

static void bound_machine(struct host *host)
{
	const struct plim_here *h = host->out;
	const struct plim_here_machine *m = &h->machine;

	if (!headroom_known(m->total_bytes))
		return;
	add_bound(host, (struct plim_here_bound){
				.kind = PLIM_HERE_MACHINE,
				.where = "machine",
				.limit_bytes = m->total_bytes,
				/* the kernel's own estimate has its cache and its reserves in it */
				.used_bytes = left_of(m->total_bytes, m->available_bytes),
				.droppable_bytes = PLIM_UNKNOWN,
				.swap_room_bytes = m->swap_free_bytes });
	if (m->overcommit == PLIM_HERE_OVERCOMMIT_NEVER && headroom_known(m->commit_limit_bytes))
		add_bound(host, (struct plim_here_bound){ .kind = PLIM_HERE_COMMIT_LIMIT,
							  .effect = PLIM_HERE_REFUSED,
							  .where = "CommitLimit",
							  .limit_bytes = m->commit_limit_bytes,
							  .used_bytes = m->committed_bytes,
							  .droppable_bytes = PLIM_UNKNOWN,
							  .swap_room_bytes = PLIM_UNKNOWN });
}

static void bound_rlimits(struct host *host)
{
	const struct plim_here *h = host->out;
	static const struct {
		const char *name;
		enum plim_here_kind kind;
	} binding[] = {
		{ "RLIMIT_AS", PLIM_HERE_RLIMIT_AS },
		{ "RLIMIT_DATA", PLIM_HERE_RLIMIT_DATA },
	};

	for (size_t i = 0; i < h->rlimit_count; i++)
		for (size_t k = 0; k < sizeof(binding) / sizeof(*binding); k++)
			if (!strcmp(h->rlimits[i].name, binding[k].name) &&
			    h->rlimits[i].soft.state == PLIM_HERE_LIMIT_SET)
				add_bound(host, (struct plim_here_bound){
							.kind = binding[k].kind,
							.effect = PLIM_HERE_REFUSED,
							.where = binding[k].name,
							.limit_bytes = h->rlimits[i].soft.bytes,
							.used_bytes = h->rlimits[i].used_bytes,
							.droppable_bytes = PLIM_UNKNOWN,
							.swap_room_bytes = PLIM_UNKNOWN });
}

static void bound_shm(struct host *host)
{
	const struct plim_here *h = host->out;
	if (headroom_known(h->shm.size_bytes))
		add_bound(host, (struct plim_here_bound){ .kind = PLIM_HERE_DEV_SHM,
							  .effect = PLIM_HERE_BUS_ERROR,
							  .where = "/dev/shm",
							  .limit_bytes = h->shm.size_bytes,
							  .used_bytes = h->shm.used_bytes,
							  .droppable_bytes = PLIM_UNKNOWN,
							  .swap_room_bytes = PLIM_UNKNOWN });
}

/* The least room first; between equal ones those that were reported first. */
static void rank(struct plim_here *h)
{
	for (size_t i = 1; i < h->bound_count; i++) {
		struct plim_here_bound b = h->bounds[i];
		size_t k = i;

		for (; k && h->bounds[k - 1].room_bytes > b.room_bytes; k--)
			h->bounds[k] = h->bounds[k - 1];
		h->bounds[k] = b;
	}
}

static void choose_headroom(struct plim_here *h)
{
	for (size_t i = h->bound_count; i--;) {
		struct plim_here_bound *b = &h->bounds[i];

		if (b->effect == PLIM_HERE_SLOWED)
			continue;
		/* what lies in /dev/shm is charged to the cgroup and the machine, too */
		if (b->effect != PLIM_HERE_REFUSED)
			h->shared = b;
		if (b->kind != PLIM_HERE_DEV_SHM)
			h->headroom = b;
	}
	if (!headroom_known(h->shm.size_bytes))
		h->shared = NULL;
}

static void find_bounds(struct host *host)
{
	struct plim_here *h = host->out;
	uint64_t swap = swap_room(h);

	for (size_t i = 0; i < h->cgroup_count; i++)
		bound_cgroup(host, &h->cgroups[i], swap);
	bound_above(host);
	bound_machine(host);
	bound_rlimits(host);
	bound_shm(host);
	h->bounds = host->bounds.at;
	h->bound_count = host->bounds.n;
	rank(h);
	choose_headroom(h);
}

/* ---- notes ---- */

static const struct plim_here_bound *slowed_first(const struct plim_here *h)
{
	for (size_t i = 0; i < h->bound_count; i++)
		if (h->bounds[i].effect == PLIM_HERE_SLOWED &&
		    (!h->headroom || h->bounds[i].room_bytes < h->headroom->room_bytes))
			return &h->bounds[i];
	return NULL;
}

static void note_slowed(struct host *host)
{
	const struct plim_here *h = host->out;
	const struct plim_here_bound *slow = slowed_first(h);

	if (slow)
		host_note(host,
			  "memory.high of cgroup %s comes first: beyond it the kernel slows the "
			  "processes down, which looks like a hang; systemd-oomd may kill them",
			  slow->where);
}

/* The kernel takes the outermost cgroup that has it. */
static void note_group(struct host *host)
{
	const struct plim_here *h = host->out;
	const struct plim_here_cgroup *group = NULL;

	for (size_t i = 0; i < h->cgroup_count; i++) {
		if (h->cgroups[i].oom_group == 1)
			group = &h->cgroups[i];
		if (h->cgroups[i].oom_kill_disabled == 1)
			host_note(host,
				  "oom_kill_disable is set on cgroup %s: at its limit processes "
				  "hang instead of being killed",
				  h->cgroups[i].path);
	}
	if (group)
		host_note(host,
			  "memory.oom.group is set on cgroup %s: when one process has to die "
			  "there, all of it is killed",
			  group->path);
}

static void note_next(struct host *host)
{
	const struct plim_here *h = host->out;
	const struct plim_here_process *next = NULL;

	for (size_t i = 0; i < h->process_count; i++)
		if (h->processes[i].oom && h->processes[i].oom->adjust > -1000 &&
		    (!next || h->processes[i].oom->score > next->oom->score))
			next = &h->processes[i];
	if (next && next->oom->score && h->process_count > 1)
		host_note(host,
			  "of the processes listed here the kernel would take %s [%llu] first: "
			  "oom_score %llu, oom_score_adj %lld",
			  next->name ? next->name : "-", (unsigned long long)next->pid,
			  (unsigned long long)next->oom->score, (long long)next->oom->adjust);
}

/* Where the log cannot be read the counts still tell, for the innermost cgroup that has any. */
static void note_kills(struct host *host)
{
	const struct plim_here *h = host->out;
	for (size_t i = 0; !h->kill_count && i < h->cgroup_count; i++) {
		uint64_t n = h->cgroups[i].oom_kill_events;

		if (!headroom_known(n) || !n)
			continue;
		host_note(host,
			  "the kernel has killed %llu %s in cgroup %s since it was made; which, "
			  "only the kernel log of the machine shows",
			  (unsigned long long)n, n == 1 ? "process" : "processes",
			  h->cgroups[i].path);
		return;
	}
}

int host_is_killer(const char *name)
{
	static const char *const killers[] = { "systemd-oomd", "earlyoom", "oomd", "nohang" };

	for (size_t i = 0; i < sizeof(killers) / sizeof(*killers); i++)
		if (!strcmp(name, killers[i]))
			return 1;
	return 0;
}

/* Their log shows whom they killed, the kernel's does not. */
static void note_killers(struct host *host)
{
	const struct plim_here *h = host->out;
	for (size_t i = 0; i < h->process_count; i++)
		if (h->processes[i].name && host_is_killer(h->processes[i].name))
			host_note(host,
				  "%s runs here: it kills before the kernel does, and only its own "
				  "log shows",
				  h->processes[i].name);
}

static void note_files(struct host *host)
{
	const struct plim_here *h = host->out;
	if (headroom_known(h->open_files.soft) && headroom_known(h->open_files.open) &&
	    h->open_files.open >= h->open_files.soft - h->open_files.soft / 10)
		host_note(host,
			  "%llu of %llu files are open: tensors shared between processes take "
			  "one each, 'Too many open files' comes next (ulimit -n)",
			  (unsigned long long)h->open_files.open,
			  (unsigned long long)h->open_files.soft);
}

static void tell_notes(struct host *host)
{
	note_kills(host);
	note_slowed(host);
	note_group(host);
	note_next(host);
	note_killers(host);
	note_files(host);
	host->out->notes = host->notes.at;
	host->out->note_count = host->notes.n;
}

enum plim_status host_judge(struct host *host, bool redact, struct plim_err *err)
{
	find_bounds(host);
	if (redact && !host->err.status && host_redact(host, err))
		return err->status;
	tell_notes(host); /* with the names as they are shown */
	if (host->err.status)
		*err = host->err;
	return host->err.status;
}
