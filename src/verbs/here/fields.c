/* The rows of here/1: the JSON, docs/json.md and the ABI check are read from them. */
#include "verbs/here/here.h"

static const char *const states[] = { NULL, "none", "set" };
static const char *const kinds[] = { "cgroup",       "cgroup_high", "cgroup_memsw",
				     "cgroup_above", "machine",     "commit_limit",
				     "rlimit_as",    "rlimit_data", "dev_shm" };
static const char *const effects[] = { "killed", "hangs", "slowed", "refused", "bus_error" };
static const char *const overcommits[] = { NULL, "heuristic", "always", "never" };

#define L struct plim_here_limit
static const struct field limit_rows[] = {
	FIELD_ENUM(L, state, enum plim_here_state, states, "none: there is no limit"),
	FIELD_U64(L, bytes, "null: none, or not known"),
};
#undef L
static const struct field_table limit_table = FIELD_TABLE(struct plim_here_limit, limit_rows);

#define S struct plim_here_stall
static const struct field stall_rows[] = {
	FIELD_DOUBLE(S, avg10_pct, "of the last 10 seconds"),
	FIELD_DOUBLE(S, avg60_pct, "of the last minute"),
	FIELD_DOUBLE(S, avg300_pct, "of the last five minutes"),
	FIELD_U64(S, total_us, "since the start"),
};
#undef S
static const struct field_table stall_table = FIELD_TABLE(struct plim_here_stall, stall_rows);

#define P struct plim_here_pressure
static const struct field pressure_rows[] = {
	FIELD_STRUCT(P, some, struct plim_here_stall, stall_table,
		     "time in which at least one task waited for memory"),
	FIELD_STRUCT(P, full, struct plim_here_stall, stall_table,
		     "time in which all tasks waited at once"),
};
#undef P
static const struct field_table pressure_table =
	FIELD_TABLE(struct plim_here_pressure, pressure_rows);

#define B struct plim_here_bound
static const struct field bound_rows[] = {
	FIELD_ENUM(B, kind, enum plim_here_kind, kinds,
		   "cgroup_above: a v1 limit of a level that is not visible"),
	FIELD_ENUM(B, effect, enum plim_here_effect, effects,
		   "what reaching it does: killed (SIGKILL by the kernel), hangs, slowed, "
		   "refused (malloc fails), bus_error (SIGBUS)"),
	FIELD_STRING(B, where, "a cgroup's path, machine, /dev/shm, RLIMIT_AS, ..."),
	FIELD_U64(B, limit_bytes, "the bound"),
	FIELD_U64(B, used_bytes, "of it, now"),
	FIELD_U64(B, free_bytes, "limit less used; 0 when it is exceeded"),
	FIELD_U64(B, droppable_bytes,
		  "of used: page cache and slab on the kernel's lists to be dropped, at most"),
	FIELD_U64(B, room_bytes,
		  "free and droppable: what can still be taken, at most, without swap"),
	FIELD_U64(B, swap_room_bytes,
		  "free swap that comes on top; null: it does not, or not known"),
	FIELD_BOOL(B, at_most, "not all of its use is known: there may be less room"),
};
#undef B
static const struct field_table bound_table = FIELD_TABLE(struct plim_here_bound, bound_rows);

#define M struct plim_here_machine
static const struct field machine_rows[] = {
	FIELD_U64(M, total_bytes, "MemTotal"),
	FIELD_U64(M, free_bytes, "MemFree"),
	FIELD_U64(M, available_bytes, "MemAvailable: the kernel's estimate, with droppable cache"),
	FIELD_U64(M, cached_bytes, "Cached, /dev/shm included"),
	FIELD_U64(M, shmem_bytes, "Shmem: tmpfs and shared memory, not droppable"),
	FIELD_U64(M, slab_reclaimable_bytes, "SReclaimable"),
	FIELD_U64(M, swap_total_bytes, "SwapTotal"),
	FIELD_U64(M, swap_free_bytes, "SwapFree"),
	FIELD_U64(M, commit_limit_bytes, "CommitLimit; it binds under overcommit never only"),
	FIELD_U64(M, committed_bytes, "Committed_AS"),
	FIELD_U64(M, hugepages_total, "reserved huge pages: no use to ordinary memory"),
	FIELD_U64(M, hugepages_free, "of these, unused"),
	FIELD_U64(M, hugepage_bytes, "size of one"),
	FIELD_ENUM(M, overcommit, enum plim_here_overcommit, overcommits,
		   "vm.overcommit_memory 0, 1, 2"),
	FIELD_STRUCT(M, pressure, struct plim_here_pressure, pressure_table,
		     "/proc/pressure/memory"),
};
#undef M
static const struct field_table machine_table = FIELD_TABLE(struct plim_here_machine, machine_rows);

#define C struct plim_here_cgroup
#define LIMIT(m, text) FIELD_STRUCT(C, m, struct plim_here_limit, limit_table, text)
static const struct field cgroup_rows[] = {
	FIELD_STRING(C, path, "as /proc/PID/cgroup shows it"),
	FIELD_U32(C, version, "1 or 2"),
	LIMIT(max, "memory.max, v1: memory.limit_in_bytes"),
	LIMIT(high, "memory.high: beyond it the kernel slows and reclaims"),
	LIMIT(swap_max, "memory.swap.max"),
	LIMIT(memsw_max, "v1: memory.memsw.limit_in_bytes, memory and swap together"),
	FIELD_U64(C, current_bytes,
		  "memory.current, v1: memory.usage_in_bytes; page cache included"),
	FIELD_U64(C, peak_bytes, "memory.peak, v1: memory.max_usage_in_bytes"),
	FIELD_U64(C, swap_bytes, "memory.swap.current, v1: total_swap"),
	FIELD_U64(C, memsw_bytes, "v1: memory.memsw.usage_in_bytes"),
	FIELD_U64(C, anon_bytes, "memory of processes that is in no file"),
	FIELD_U64(C, file_bytes, "page cache, /dev/shm included"),
	FIELD_U64(C, inactive_file_bytes, "page cache that is dropped first"),
	FIELD_U64(C, active_file_bytes, "page cache that was used again"),
	FIELD_U64(C, shmem_bytes, "tmpfs and shared memory: not droppable"),
	FIELD_U64(C, slab_reclaimable_bytes, "the kernel's own caches; null in v1"),
	FIELD_U64(C, droppable_bytes, "inactive_file, active_file and slab_reclaimable together"),
	FIELD_U64(C, hierarchical_bytes,
		  "v1: the smallest limit from here to the root, also where the levels are not "
		  "visible"),
	FIELD_U64(C, high_events, "times that memory.high was exceeded"),
	FIELD_U64(C, max_events, "times that the limit was reached; v1: failcnt"),
	FIELD_U64(C, oom_events, "times that nothing could be reclaimed"),
	FIELD_U64(C, oom_kill_events, "processes that the kernel killed, here and below"),
	FIELD_U64(C, oom_group_kill_events, "times that it killed the whole cgroup"),
	FIELD_U64(C, oom_group, "1: all of the cgroup is killed at once"),
	FIELD_U64(C, oom_kill_disabled, "v1, 1: processes wait for memory instead of being killed"),
	FIELD_STRUCT(C, pressure, struct plim_here_pressure, pressure_table, "memory.pressure"),
};
#undef LIMIT
#undef C
static const struct field_table cgroup_table = FIELD_TABLE(struct plim_here_cgroup, cgroup_rows);

#define F struct plim_here_shm_file
static const struct field shm_file_rows[] = {
	FIELD_STRING(F, name, "below /dev/shm"),
	FIELD_U64(F, bytes, "pages that were written"),
};
#undef F
static const struct field_table shm_file_table =
	FIELD_TABLE(struct plim_here_shm_file, shm_file_rows);

#define S struct plim_here_shm
static const struct field shm_rows[] = {
	FIELD_U64(S, size_bytes, "of the mount"),
	FIELD_U64(S, used_bytes, "of it"),
	FIELD_U64(S, named_bytes, "in files that have a name; the rest is held open without one"),
	FIELD_U64(S, file_count, "files with a name"),
	FIELD_STRUCTS(S, files, shown_count, struct plim_here_shm_file, shm_file_table,
		      "the largest 32"),
};
#undef S
static const struct field_table shm_table = FIELD_TABLE(struct plim_here_shm, shm_rows);

#define R struct plim_here_rlimit
static const struct field rlimit_rows[] = {
	FIELD_STRING(R, name, "RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK, RLIMIT_CORE"),
	FIELD_STRUCT(R, soft, struct plim_here_limit, limit_table, "what binds"),
	FIELD_STRUCT(R, hard, struct plim_here_limit, limit_table, "how far it may be raised"),
	FIELD_U64(R, used_bytes, "by the process"),
};
#undef R
static const struct field_table rlimit_table = FIELD_TABLE(struct plim_here_rlimit, rlimit_rows);

#define O struct plim_here_files
static const struct field open_files_rows[] = {
	FIELD_U64(O, soft, "RLIMIT_NOFILE; null: none, or not known"),
	FIELD_U64(O, hard, "how far it may be raised"),
	FIELD_U64(O, open, "files that the process has open"),
};
#undef O
static const struct field_table open_files_table =
	FIELD_TABLE(struct plim_here_files, open_files_rows);

#define O struct plim_here_oom
static const struct field oom_rows[] = {
	FIELD_U64(O, score, "oom_score: the highest dies first"),
	FIELD_I64(O, adjust, "oom_score_adj, -1000 (never) to 1000"),
};
#undef O
static const struct field_table oom_table = FIELD_TABLE(struct plim_here_oom, oom_rows);

#define P struct plim_here_process
static const struct field process_rows[] = {
	FIELD_U64(P, pid, "as this namespace counts"),
	FIELD_U64(P, parent, "its parent"),
	FIELD_STRING(P, name, "its name, up to 15 bytes"),
	FIELD_STRING(P, state, "R (running), S (sleeping), D (disk sleep), Z (zombie), ..."),
	FIELD_U64(P, rss_bytes, "in memory, shared pages counted in each sharer"),
	FIELD_U64(P, anon_bytes, "of it: its own"),
	FIELD_U64(P, file_bytes, "of it: files, libraries"),
	FIELD_U64(P, shmem_bytes, "of it: shared memory"),
	FIELD_U64(P, swap_bytes, "in swap"),
	FIELD_U64(P, pss_bytes,
		  "in memory, shared pages divided by their sharers; of the 32 largest processes"),
	FIELD_U64(P, locked_bytes, "locked in memory"),
	FIELD_U64(P, threads, "its threads"),
	FIELD_U64(P, shm_files, "files in /dev/shm that it has open"),
	FIELD_U64(P, shm_unlinked, "of these, without a name"),
	FIELD_POINTER(P, oom, struct plim_here_oom, oom_table, "of the 32 largest processes"),
};
#undef P
static const struct field_table process_table = FIELD_TABLE(struct plim_here_process, process_rows);

#define H struct plim_here_holder
static const struct field holder_rows[] = {
	FIELD_STRING(H, device, "the device file: /dev/nvidia0"),
	FIELD_U64(H, pid, "who has it open"),
	FIELD_U64(H, parent, "its parent"),
	FIELD_STRING(H, name, "its name"),
	FIELD_STRING(H, state, "as of the process"),
	FIELD_BOOL(H, zombie, "its first thread has ended, another one still holds the card"),
	FIELD_STRING(H, container,
		     "first 12 digits of its container's id; null: in none that shows"),
};
#undef H
static const struct field_table holder_table = FIELD_TABLE(struct plim_here_holder, holder_rows);

#define K struct plim_here_kill
static const struct field kill_rows[] = {
	FIELD_U64(K, pid, "as the machine counts, also inside a container"),
	FIELD_STRING(K, name, "as the kernel log shows it"),
	FIELD_U64(K, ago_s, "before now"),
	FIELD_STRING(K, bound, "cgroup, machine, cpuset or policy; null: the log does not tell"),
	FIELD_STRING(K, cgroup, "whose limit was reached; null: not told, or the machine's"),
	FIELD_U64(K, virtual_bytes, "its address space"),
	FIELD_U64(K, anon_bytes, "its own memory"),
	FIELD_U64(K, file_bytes, "its files"),
	FIELD_U64(K, shmem_bytes, "its shared memory"),
};
#undef K
static const struct field_table kill_table = FIELD_TABLE(struct plim_here_kill, kill_rows);

#define U struct plim_here_unseen
static const struct field unseen_rows[] = {
	FIELD_STRING(U, what, "what could not be seen"),
	FIELD_STRING(U, why, "why"),
};
#undef U
static const struct field_table unseen_table = FIELD_TABLE(struct plim_here_unseen, unseen_rows);

#define H struct plim_here
static const struct field here_rows[] = {
	FIELD_U64(H, pid, "the process whose bounds these are"),
	FIELD_STRING(H, name, "its name"),
	FIELD_POINTER(H, headroom, struct plim_here_bound, bound_table,
		      "the bound on memory with the least room; null: none is known"),
	FIELD_POINTER(H, shared, struct plim_here_bound, bound_table,
		      "the bound on files in /dev/shm with the least room; null: none is known"),
	FIELD_STRUCTS(H, bounds, bound_count, struct plim_here_bound, bound_table,
		      "all, the least room first"),
	FIELD_STRUCT(H, machine, struct plim_here_machine, machine_table, "the whole machine"),
	FIELD_STRUCTS(H, cgroups, cgroup_count, struct plim_here_cgroup, cgroup_table,
		      "the process's own first, the root last"),
	FIELD_STRUCT(H, shm, struct plim_here_shm, shm_table, "/dev/shm"),
	FIELD_STRUCTS(H, rlimits, rlimit_count, struct plim_here_rlimit, rlimit_table,
		      "limits of the process"),
	FIELD_STRUCT(H, open_files, struct plim_here_files, open_files_table,
		     "its limit of open files, a number"),
	FIELD_STRUCTS(H, processes, process_count, struct plim_here_process, process_table,
		      "the process and all below it, or (none was named) all; the largest first"),
	FIELD_STRUCTS(H, holders, holder_count, struct plim_here_holder, holder_table,
		      "who has a card's device file open"),
	FIELD_U64(H, unread_processes, "visible processes whose open files may not be read"),
	FIELD_STRUCTS(H, kills, kill_count, struct plim_here_kill, kill_table,
		      "by the out-of-memory killer, the newest first, at most 64"),
	FIELD_STRINGS(H, notes, note_count, "what else matters"),
	FIELD_STRUCTS(H, unseen, unseen_count, struct plim_here_unseen, unseen_table,
		      "what could not be seen, and why"),
};
#undef H
const struct field_table here_table = FIELD_TABLE(struct plim_here, here_rows);
