/* The rows of ranks/1: the JSON, docs/json.md and the ABI check are read from them. */
#include "verbs/ranks/ranks.h"

#define D struct plim_ranks_death
static const struct field death_rows[] = {
	FIELD_U64(D, event, "index of the last failed request"),
	FIELD_U64(D, time_us, "microseconds since 1970; null before PyTorch 2.2"),
	FIELD_U64(D, requested_bytes, "what was asked for, as the allocator had rounded it"),
	FIELD_U64(D, live_bytes, "blocks in use at that moment"),
	FIELD_U64(D, reserved_bytes, "taken from the driver then"),
	FIELD_STRING(D, phase, "as in report/1; null: no stacks were recorded"),
	FIELD_U64(D, step, "training steps that had ended before it"),
	FIELD_STRING(D, frame, "the user's own line; null: no Python stack"),
	FIELD_ENUM(D, bound_by, enum plim_bound, report_bound_names,
		   "what the memory ran into: device, limit, other_process, non_pytorch, unknown"),
	FIELD_ENUM(D, cause, enum plim_cause, report_cause_names,
		   "capacity, fragmentation, leak, unknown"),
	FIELD_ENUM(D, likelier, enum plim_cause, report_cause_names,
		   "of an unknown cause: what more speaks for"),
	FIELD_STRING(D, headline, "one sentence"),
};
#undef D
static const struct field_table death_table = FIELD_TABLE(struct plim_ranks_death, death_rows);

#define R struct plim_ranks_row
static const struct field row_rows[] = {
	FIELD_U64(R, rank,
		  "the number in its name, else its place in the order of names; null: other names "
		  "have one"),
	FIELD_STRING(R, path, "the file, or the archive; null with --redact"),
	FIELD_STRING(R, member, "its name in the archive; null: it is a file"),
	FIELD_U64(R, bytes, "as stored"),
	FIELD_STRING(R, error, "why it could not be read; then the rest is null or false"),
	FIELD_U64(R, device,
		  "of several GPUs in a recording the one that died, else the one that held most"),
	FIELD_U64(R, devices, "GPUs with memory or events in it"),
	FIELD_U64(R, events, "of all of them"),
	FIELD_BOOL(R, complete, "recording began before the first allocation and lost no event"),
	FIELD_BOOL(R, exact, "the replay explains every event, and the snapshot's blocks"),
	FIELD_U64(R, first_time_us, "of the first event, microseconds since 1970"),
	FIELD_U64(R, last_time_us, "of the last event"),
	FIELD_U64(R, requested_peak_bytes, "as devices[].peak of report/1"),
	FIELD_U64(R, allocated_peak_bytes, "the same"),
	FIELD_U64(R, reserved_peak_bytes, "the same"),
	FIELD_U64(R, range_bytes, "the true allocated peak may be larger by up to this; 0: exact"),
	FIELD_BOOL(R, lower_bound,
		   "the recording does not cover the whole run: its peak may lie outside"),
	FIELD_STRING(R, peak_phase,
		     "what the program did when most was allocated; null: no stacks were recorded"),
	FIELD_U64(R, peak_step, "training step of that moment; null: no optimizer ran"),
	FIELD_POINTER(R, peak_categories, struct plim_report_categories, report_categories_table,
		      "what the allocated bytes were for at that moment; null: not known"),
	FIELD_U64(R, deaths, "requests that failed"),
	FIELD_POINTER(R, died, struct plim_ranks_death, death_table,
		      "the last of them; null: none failed"),
	FIELD_U64(R, leak_bytes, "that grew; null: no leak was found"),
};
#undef R
static const struct field_table row_table = FIELD_TABLE(struct plim_ranks_row, row_rows);

#define E struct plim_ranks_extreme
static const struct field extreme_rows[] = {
	FIELD_U64(E, bytes, "the peak"),
	FIELD_U64(E, rank, "whose it is; null: not known"),
	FIELD_U64(E, row, "the same as an index into rows"),
};
#undef E
static const struct field_table extreme_table =
	FIELD_TABLE(struct plim_ranks_extreme, extreme_rows);

#define S struct plim_ranks_spread
static const struct field spread_rows[] = {
	FIELD_STRUCT(S, max, struct plim_ranks_extreme, extreme_table, "the largest"),
	FIELD_STRUCT(S, median, struct plim_ranks_extreme, extreme_table,
		     "the one in the middle, the lower of two"),
	FIELD_STRUCT(S, min, struct plim_ranks_extreme, extreme_table, "the smallest"),
};
#undef S
static const struct field_table spread_table = FIELD_TABLE(struct plim_ranks_spread, spread_rows);

#define X struct plim_ranks_excess
static const struct field excess_rows[] = {
	FIELD_U64(X, row,
		  "the worst, or if it has no more than the median the one with the largest peak"),
	FIELD_U64(X, median_row, "the one with the median of the allocated peaks"),
	FIELD_I64(X, difference_bytes, "its allocated peak, less the median"),
	FIELD_STRING(X, category, "that makes at least half of it, and most; null: none does"),
	FIELD_I64(X, category_bytes, "what it has more of that at its peak"),
	FIELD_STRING(X, meaning,
		     "what makes it differ between ranks of one program; null: nothing is known, "
		     "or they peak in different phases"),
};
#undef X
static const struct field_table excess_table = FIELD_TABLE(struct plim_ranks_excess, excess_rows);

#define F struct plim_ranks_first
static const struct field first_rows[] = {
	FIELD_U64(F, row, "index into rows"),
	FIELD_U64(F, rank, "its number; null: not known"),
	FIELD_U64(F, time_us, "of its last failed request, microseconds since 1970"),
	FIELD_U64(F, next_row, "the next that died, an index into rows; null: no other died"),
	FIELD_U64(F, next_rank, "its number"),
	FIELD_U64(F, ahead_us, "how many microseconds later that was"),
	FIELD_BOOL(F, certain, "nothing speaks against it"),
	FIELD_STRING(F, doubt, "what does; null: nothing"),
};
#undef F
static const struct field_table first_table = FIELD_TABLE(struct plim_ranks_first, first_rows);

#define K struct plim_ranks_skipped
static const struct field skipped_rows[] = {
	FIELD_STRING(K, path, "a file, or a name in an archive; null with --redact"),
	FIELD_STRING(K, reason, "what it is instead of a recording"),
};
#undef K
static const struct field_table skipped_table =
	FIELD_TABLE(struct plim_ranks_skipped, skipped_rows);

#define N struct plim_ranks
static const struct field ranks_rows[] = {
	FIELD_U64(N, read, "recordings that were read"),
	FIELD_U64(N, failed, "recordings that could not be"),
	FIELD_U64(N, died, "recordings in which a request failed"),
	FIELD_U64(N, worst_rank,
		  "the first that died; else of those that died the one with most memory; else the "
		  "one with the largest allocated peak; null: nothing was read"),
	FIELD_U64(N, worst_row, "the same as an index into rows"),
	FIELD_POINTER(N, first_death, struct plim_ranks_first, first_table,
		      "null: none died, or see order_unknown"),
	FIELD_STRING(N, order_unknown, "why it is not known which of several died first"),
	FIELD_POINTER(N, allocated, struct plim_ranks_spread, spread_table,
		      "allocated peaks over all recordings; null: nothing was read"),
	FIELD_POINTER(N, reserved, struct plim_ranks_spread, spread_table, "reserved peaks"),
	FIELD_POINTER(N, excess, struct plim_ranks_excess, excess_table,
		      "what one has beyond the median; null: fewer than two, or no categories"),
	FIELD_STRUCTS(N, rows, row_count, struct plim_ranks_row, row_table,
		      "recordings by rank, then by name; without a rank last"),
	FIELD_STRUCTS(N, skipped, skipped_count, struct plim_ranks_skipped, skipped_table,
		      "files that are no recordings, the first thousand"),
	FIELD_U64(N, skipped_total, "how many there were"),
	FIELD_STRINGS(N, notes, note_count, "what limits these numbers"),
	FIELD_POINTER(N, worst, struct plim_report, report_table,
		      "the worst in full, as report/1; null: nothing was read, or see the notes"),
};
#undef N
const struct field_table ranks_table = FIELD_TABLE(struct plim_ranks, ranks_rows);
