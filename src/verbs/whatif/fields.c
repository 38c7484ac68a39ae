/* The rows of whatif/1: the JSON, docs/json.md and the ABI check are read from them. */
#include "verbs/whatif/whatif.h"

const char *const whatif_outcome_names[2] = { "ok", "oom" };
static const char *const causes[] = { "unknown", "capacity", "fragmentation", "leak" };
static const char *const outcomes[] = { "ok", "oom" };

#define S struct plim_report_source
static const struct field source_rows[] = {
	FIELD_STRING(S, path, "the file as given, \"-\" for standard input"),
	FIELD_STRING(S, kind, "pickle or json"),
	FIELD_U64(S, events, "events of all devices"),
	FIELD_BOOL(S, complete, "recording began before the first allocation and lost no event"),
};
#undef S
static const struct field_table source_table = FIELD_TABLE(struct plim_report_source, source_rows);

#define N struct plim_whatif_count
static const struct field count_rows[] = {
	FIELD_U64(N, current, "when the recording ends"),
	FIELD_U64(N, peak, "the most there ever was"),
	FIELD_U64(N, allocated, "all that was ever added"),
	FIELD_U64(N, freed, "all that was ever taken away"),
};
#undef N
static const struct field_table count_table = FIELD_TABLE(struct plim_whatif_count, count_rows);

#define T struct plim_whatif_stat
#define COUNT(m, text) FIELD_STRUCT(T, m, struct plim_whatif_count, count_table, text)
static const struct field stat_rows[] = {
	COUNT(all, "both pools"),
	COUNT(small_pool, "requests up to 1 MiB"),
	COUNT(large_pool, "larger requests"),
};
#undef COUNT
#undef T
static const struct field_table stat_table = FIELD_TABLE(struct plim_whatif_stat, stat_rows);

#define S struct plim_whatif_statistics
#define STAT(m, text) FIELD_STRUCT(S, m, struct plim_whatif_stat, stat_table, text)
#define COUNT(m, text) FIELD_STRUCT(S, m, struct plim_whatif_count, count_table, text)
static const struct field statistics_rows[] = {
	STAT(allocation, "blocks that the program holds, counted"),
	STAT(segment, "calls of cudaMalloc that stand, counted"),
	STAT(active, "blocks that the program holds or other streams still use, counted"),
	STAT(inactive_split, "free parts of segments, counted"),
	STAT(allocated_bytes, "blocks that the program holds"),
	STAT(reserved_bytes, "taken from the driver"),
	STAT(active_bytes, "blocks that the program holds or other streams still use"),
	STAT(inactive_split_bytes, "free parts of segments"),
	STAT(requested_bytes, "what the program asked for"),
	COUNT(oversize_allocations, "blocks of at least max_split_size"),
	COUNT(oversize_segments, "segments of at least max_split_size"),
	FIELD_U64(S, num_alloc_retries, "releases of the whole cache that a request led to"),
	FIELD_U64(S, num_ooms, "requests that failed"),
	FIELD_U64(S, num_device_alloc, "calls of cudaMalloc, or mappings"),
	FIELD_U64(S, num_device_free, "calls of cudaFree, or unmappings"),
};
#undef COUNT
#undef STAT
#undef S
static const struct field_table statistics_table =
	FIELD_TABLE(struct plim_whatif_statistics, statistics_rows);

#define C struct plim_whatif_check
static const struct field check_rows[] = {
	FIELD_U64(C, events, "events that the model predicted from the requests before them"),
	FIELD_BOOL(C, exact, "every event came out as recorded: addresses, sizes, order"),
	FIELD_U64(C, diverged_at, "the first event that did not; null: none"),
	FIELD_U64(C, empty_caches,
		  "calls of empty_cache() that the recording shows by what they released"),
	FIELD_STRUCT(C, statistics, struct plim_whatif_statistics, statistics_table,
		     "the model's, by the names of torch.cuda.memory_stats()"),
};
#undef C
static const struct field_table check_table = FIELD_TABLE(struct plim_whatif_check, check_rows);

#define B struct plim_whatif_bound
static const struct field bound_rows[] = {
	FIELD_U64(B, limit_bytes, "reserved memory that the runs may reach; null: no limit"),
	FIELD_STRING(
		B, basis,
		"given (--limit), gpu (--gpu), recorded (what the recording ran into) or none"),
	FIELD_STRING(B, gpu, "the card; null: none was named"),
	FIELD_U64(B, allowance_bytes,
		  "of the card, for what PyTorch does not allocate; null: no card was named"),
	FIELD_U64(B, low_bytes, "recorded: reserved memory that was certainly allowed; else null"),
	FIELD_U64(B, high_bytes, "recorded: that was certainly refused; else null"),
};
#undef B
static const struct field_table bound_table = FIELD_TABLE(struct plim_whatif_bound, bound_rows);

#define D struct plim_whatif_death
static const struct field death_rows[] = {
	FIELD_U64(D, event, "the recording's last failed request"),
	FIELD_ENUM(D, cause, enum plim_cause, causes,
		   "as report tells it: capacity, fragmentation, leak, unknown"),
	FIELD_U64(D, still_to_come_bytes,
		  "what the step had still to allocate after it, at least; null: not known"),
	FIELD_U64(D, needed_bytes,
		  "live, request and what was still to come, at least; null: not known"),
};
#undef D
static const struct field_table death_table = FIELD_TABLE(struct plim_whatif_death, death_rows);

#define R struct plim_whatif_run
static const struct field run_rows[] = {
	FIELD_STRING(R, settings, "PYTORCH_CUDA_ALLOC_CONF"),
	FIELD_U64(R, limit_bytes, "reserved memory that it may reach; null: no limit"),
	FIELD_ENUM(R, outcome, enum plim_whatif_outcome, outcomes,
		   "ok: it survives to the end of the recording; oom"),
	FIELD_BOOL(R, outcome_certain,
		   "the same wherever the driver puts the segments, and no workspace was refused"),
	FIELD_U64(R, oom_event, "event of the recording whose request failed; null: none"),
	FIELD_U64(R, oom_request_bytes, "what it asked for; null: none failed"),
	FIELD_U64(R, reserved_peak_bytes, "most memory taken from the driver"),
	FIELD_U64S(R, reserved_peak_range_bytes, range_count,
		   "least and most, over the placements that the driver may choose"),
	FIELD_U64(R, allocated_peak_bytes, "largest sum of blocks in use"),
	FIELD_U64(R, active_peak_bytes, "the same with blocks that await another stream"),
	FIELD_U64(R, retries, "releases of the whole cache that a request led to: they cost time"),
	FIELD_U64(R, device_allocs, "calls of cudaMalloc or mappings of pages"),
	FIELD_U64(R, segments, "segments at the end (expandable ones are not counted)"),
	FIELD_U64(R, smallest_limit_bytes,
		  "smallest limit that it survives, to 2 MiB; null: not looked for"),
	FIELD_U64(R, refused_workspaces,
		  "workspaces that cuDNN asked for and did not get: it takes slower algorithms, "
		  "whose needs are not known"),
	FIELD_STRINGS(R, warnings, warning_count, "known costs of the settings, with their source"),
};
#undef R
static const struct field_table run_table = FIELD_TABLE(struct plim_whatif_run, run_rows);

#define F struct plim_whatif_floor
static const struct field floor_rows[] = {
	FIELD_U64(F, requested_peak_bytes,
		  "largest sum of requests: no allocator can do with less"),
	FIELD_U64(F, packed_peak_bytes,
		  "what the best of several packings needs that know all requests beforehand"),
};
#undef F
static const struct field_table floor_table = FIELD_TABLE(struct plim_whatif_floor, floor_rows);

#define W struct plim_whatif
static const struct field whatif_rows[] = {
	FIELD_STRUCT(W, source, struct plim_report_source, source_table, "what was read"),
	FIELD_U64(W, device, "ordinal of the GPU"),
	FIELD_STRUCT(W, self_check, struct plim_whatif_check, check_table,
		     "how far the model gives the recording back under its own settings"),
	FIELD_STRUCT(W, bound, struct plim_whatif_bound, bound_table, "what the runs may reserve"),
	FIELD_POINTER(W, death, struct plim_whatif_death, death_table,
		      "null: no request failed in the recording"),
	FIELD_POINTER(W, as_recorded, struct plim_whatif_run, run_table,
		      "under the recording's own settings"),
	FIELD_STRUCTS(W, runs, run_count, struct plim_whatif_run, run_table, "in the order given"),
	FIELD_STRUCT(W, floor, struct plim_whatif_floor, floor_table,
		     "what any settings need at least"),
	FIELD_STRING(W, recommended, "settings that are clearly better; null: none, or withheld"),
	FIELD_STRING(W, withheld, "why there is no advice; null: it is not withheld"),
	FIELD_STRINGS(W, notes, note_count, "what limits these numbers"),
};
#undef W
const struct field_table whatif_table = FIELD_TABLE(struct plim_whatif, whatif_rows);
