/* The rows of why/1: the JSON, docs/json.md and the ABI check are read from them. */
#include "verbs/plan/plan.h"
#include "verbs/why/why.h"

static const char *const outcomes[] = { "nothing", "other", "memory" };
static const char *const kinds[] = { "device",    "budget", "host",         "cgroup_kill",
				     "host_kill", "killed", "shared_memory" };
static const char *const moments[] = { NULL,         "loading",   "forward", "backward",
				       "first_step", "optimizer", "eval",    "generation",
				       "saving",     "data" };
static const char *const bounds[] = { "unknown",     "device", "limit",  "other_process",
				      "non_pytorch", "host",   "cgroup", "shared_memory" };
static const char *const causes[] = { "unknown", "capacity", "fragmentation", "leak" };

const char *const why_kind_names[] = { "device",    "budget", "host",         "cgroup_kill",
				       "host_kill", "killed", "shared_memory" };
const char *const why_moment_names[] = {
	"unknown",
	"loading",
	"forward",
	"backward",
	"the optimizer's first step",
	"the optimizer's step",
	"evaluation",
	"generation",
	"saving a checkpoint",
	"making batches",
};
const char *const why_bound_names[] = {
	"unknown",
	"device",
	"limit",
	"other process",
	"outside PyTorch",
	"host memory",
	"memory limit of a cgroup",
	"shared memory (/dev/shm)",
};

#define F struct plim_why_file
static const struct field file_rows[] = {
	FIELD_STRING(F, path, "the file as given, \"-\" for standard input"),
	FIELD_STRING(F, compression, "gzip, xz or zstd; null: none"),
	FIELD_U64(F, bytes, "of the text"),
	FIELD_U64(F, lines, "of the text"),
};
#undef F
static const struct field_table file_table = FIELD_TABLE(struct plim_why_file, file_rows);

#define R struct plim_why_range
static const struct field range_rows[] = {
	FIELD_U64(R, low_bytes, "at least; null: the log does not tell"),
	FIELD_U64(R, high_bytes, "at most"),
};
#undef R
static const struct field_table range_table = FIELD_TABLE(struct plim_why_range, range_rows);

#define N struct plim_why_numbers
#define RANGE(member, text) FIELD_STRUCT(N, member, struct plim_why_range, range_table, text)
static const struct field numbers_rows[] = {
	RANGE(tried, "what the driver was asked for (\"Tried to allocate\")"),
	RANGE(total, "of the card"),
	RANGE(free, "that the driver had left"),
	RANGE(allowed, "to this process, by a limit of its own"),
	RANGE(allocated, "by PyTorch"),
	RANGE(unallocated, "reserved by PyTorch, in no block in use"),
	RANGE(private_pools, "of allocated, in pools of CUDA graphs"),
	RANGE(reserved, "by PyTorch, in all"),
	RANGE(this_process, "of the card, with what is outside PyTorch"),
	RANGE(other_processes, "of the card"),
	RANGE(used, "of a cgroup, a job or a node"),
	RANGE(limit, "of a cgroup, a job or a node"),
	RANGE(resident, "of the process that was killed"),
};
#undef RANGE
#undef N
static const struct field_table numbers_table = FIELD_TABLE(struct plim_why_numbers, numbers_rows);

#define P struct plim_why_process
static const struct field process_rows[] = {
	FIELD_U64(P, pid, "as the kernel numbers it"),
	FIELD_STRING(P, name, "its command"),
	FIELD_U64(P, resident_bytes, "in memory, pages of 4 KiB assumed"),
};
#undef P
static const struct field_table process_table = FIELD_TABLE(struct plim_why_process, process_rows);

#define C struct plim_why_cause
static const struct field cause_rows[] = {
	FIELD_ENUM(C, cause, enum plim_cause, causes, "capacity, fragmentation, leak"),
	FIELD_STRING(C, because, "what speaks for it"),
	FIELD_STRING(C, decided_by, "what would decide"),
};
#undef C
static const struct field_table cause_table = FIELD_TABLE(struct plim_why_cause, cause_rows);

#define V struct plim_why_verdict
static const struct field verdict_rows[] = {
	FIELD_ENUM(V, bound_by, enum plim_bound, bounds,
		   "what the memory ran into: device, limit, other_process, non_pytorch, host, "
		   "cgroup, shared_memory, unknown"),
	FIELD_BOOL(V, bound_certain, "false: as a rule; the same text is also written otherwise"),
	FIELD_ENUM(V, cause, enum plim_cause, causes,
		   "capacity, fragmentation, leak; unknown: the text does not decide"),
	FIELD_ENUM(V, likelier, enum plim_cause, causes,
		   "of an unknown cause: the first of `causes`"),
	FIELD_STRING(V, basis, "text, or recording: taken over from --snapshot"),
	FIELD_STRUCTS(V, causes, cause_count, struct plim_why_cause, cause_table,
		      "likeliest first; what is not among them is excluded"),
	FIELD_STRUCT(V, bound, struct plim_why_range, range_table,
		     "what could be held at most under what it ran into"),
	FIELD_STRUCT(V, request, struct plim_why_range, range_table,
		     "what can have been asked for, before rounding up to a segment"),
	FIELD_STRUCT(V, room, struct plim_why_range, range_table,
		     "under the bound and not allocated, in whatever pieces"),
	FIELD_STRING(V, headline, "one sentence"),
	FIELD_STRINGS(V, evidence, evidence_count, "sentences with the numbers"),
	FIELD_STRINGS(V, helps, helps_count, "what to do, cheapest first"),
	FIELD_STRINGS(V, useless, useless_count, "what people try and does not help here"),
	FIELD_STRINGS(V, certainty, certainty_count, "how to get certainty"),
};
#undef V
static const struct field_table verdict_table = FIELD_TABLE(struct plim_why_verdict, verdict_rows);

#define R struct plim_why_recorded
static const struct field recorded_rows[] = {
	FIELD_STRING(R, path, "the recording"),
	FIELD_U64(R, device, "ordinal of the GPU"),
	FIELD_U64(R, event, "of the recording: the request that failed"),
	FIELD_BOOL(R, same_death, "its request is what the text tells"),
	FIELD_POINTER(R, verdict, struct plim_report_verdict, report_verdict_table,
		      "as report tells it"),
};
#undef R
static const struct field_table recorded_table =
	FIELD_TABLE(struct plim_why_recorded, recorded_rows);

#define L struct plim_why_planned
static const struct field planned_rows[] = {
	FIELD_STRING(L, path, "the model's file"),
	FIELD_U64(L, limit_bytes, "of reserved memory, under which it was planned"),
	FIELD_BOOL(L, limit_told, "the log told the limit; false: the options did"),
	FIELD_MAYBE(L, agrees,
		    "the plan dies as the log tells; null: the log tells too little to compare"),
	FIELD_STRING(L, says, "one sentence"),
	FIELD_STRINGS(L, evidence, evidence_count, "what they agree in, and what not"),
	FIELD_MAYBE(L, fits, "the planned run goes to its end under the limit"),
	FIELD_STRING(L, dies_at, "its phase, as in plan; null: it does not"),
	FIELD_ENUM(L, moment, enum plim_why_moment, moments, "that this phase is; as above"),
	FIELD_U64(L, allocated_bytes, "when it dies"),
	FIELD_U64(L, request_bytes, "that fails then"),
	FIELD_U64(L, needed_bytes, "smallest limit under which it goes to its end"),
	FIELD_U64S(L, range_bytes, range_count, "least and most that may be needed"),
	FIELD_STRING(L, basis, "as in plan"),
	FIELD_STRUCTS(L, ladder, ladder_count, struct plim_plan_rung, plan_rung_table,
		      "changes to the planned run, in the order of their cost"),
};
#undef L
static const struct field_table planned_table = FIELD_TABLE(struct plim_why_planned, planned_rows);

#define D struct plim_why_death
static const struct field death_rows[] = {
	FIELD_ENUM(D, kind, enum plim_why_kind, kinds,
		   "device, budget (a program's own share of it), host, cgroup_kill, host_kill, "
		   "killed (by whom is not told), shared_memory"),
	FIELD_STRING(D, family, "who wrote it"),
	FIELD_STRING(D, file, "where it stands"),
	FIELD_U64(D, line, "where it stands first, from 1"),
	FIELD_U64(D, last_line, "where it stands last"),
	FIELD_U64(D, times, "how often it stands there"),
	FIELD_STRING(D, text, "its line, the end cut; null with --redact"),
	FIELD_U64(D, device, "ordinal of the GPU; null: not told"),
	FIELD_U64S(D, ranks, rank_count, "that told it"),
	FIELD_U64(D, ranks_left_out, "beyond those"),
	FIELD_ENUM(D, moment, enum plim_why_moment, moments,
		   "loading, forward, backward, first_step (of the optimizer), optimizer, eval, "
		   "generation, saving, data; null: no traceback shows it"),
	FIELD_STRING(D, moment_frame, "the frame that shows it"),
	FIELD_STRING(D, frame, "the innermost line of the user's own code"),
	FIELD_STRING(D, source, "that line; null with --redact"),
	FIELD_U64(D, step, "the last step that the log showed before; null: none"),
	FIELD_U64(D, pid, "of the process that was killed"),
	FIELD_STRING(D, process, "its command"),
	FIELD_STRING(D, group, "cgroup, job or unit"),
	FIELD_STRUCT(D, numbers, struct plim_why_numbers, numbers_table, "as the log tells them"),
	FIELD_STRUCTS(D, processes, process_count, struct plim_why_process, process_table,
		      "of the kernel's table, the largest"),
	FIELD_U64(D, table_processes, "rows of that table"),
	FIELD_U64(D, table_resident_bytes, "of all its rows"),
	FIELD_STRINGS(D, also, also_count, "other lines that tell of the same death"),
	FIELD_STRUCT(D, verdict, struct plim_why_verdict, verdict_table, "why it happened"),
	FIELD_POINTER(D, recorded, struct plim_why_recorded, recorded_table,
		      "from --snapshot; null: none was given, or it shows no death"),
	FIELD_POINTER(D, planned, struct plim_why_planned, planned_table,
		      "from --config; null: none was given, or it is not the GPU's memory"),
};
#undef D
static const struct field_table death_table = FIELD_TABLE(struct plim_why_death, death_rows);

#define O struct plim_why_other
static const struct field other_rows[] = {
	FIELD_STRING(O, family, "who wrote it"),
	FIELD_STRING(O, file, "where it stands"),
	FIELD_U64(O, line, "where it stands first, from 1"),
	FIELD_U64(O, times, "how often it stands there"),
	FIELD_STRING(O, text, "its line, the end cut; null with --redact"),
	FIELD_STRING(O, says, "what it is"),
	FIELD_STRING(O, advice, "what to do; null: nothing in general"),
	FIELD_U64S(O, ranks, rank_count, "that told it"),
};
#undef O
static const struct field_table other_table = FIELD_TABLE(struct plim_why_other, other_rows);

#define W struct plim_why
static const struct field why_rows[] = {
	FIELD_ENUM(W, outcome, enum plim_why_outcome, outcomes,
		   "memory: a failure of memory was found; other: only others; nothing"),
	FIELD_STRUCTS(W, files, file_count, struct plim_why_file, file_table, "what was read"),
	FIELD_U64(W, lines, "of all files"),
	FIELD_U64(W, bytes, "of all files, decompressed"),
	FIELD_STRUCTS(W, deaths, death_count, struct plim_why_death, death_table,
		      "failures of memory, in the order of the log"),
	FIELD_STRUCTS(W, others, other_count, struct plim_why_other, other_table,
		      "failures that are not memory"),
	FIELD_STRINGS(W, notes, note_count, "what limits this answer"),
};
#undef W
const struct field_table why_table = FIELD_TABLE(struct plim_why, why_rows);
