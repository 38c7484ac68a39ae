/* The rows of diff/1: the JSON, docs/json.md and the ABI check are read from them. */
#include "verbs/diff/diff.h"

static const char *const matches[] = { "exact", "moved", "lines", "function", "only_a", "only_b" };

#define S struct plim_diff_side
static const struct field side_rows[] = {
	FIELD_STRUCT(S, source, struct plim_report_source, report_source_table, "what was read"),
	FIELD_STRING(S, torch,
		     "the releases that write such keys; null: there are none to tell by"),
	FIELD_U64(S, devices, "with memory or events"),
};
#undef S
static const struct field_table side_table = FIELD_TABLE(struct plim_diff_side, side_rows);

#define A struct plim_diff_amount
static const struct field amount_rows[] = {
	FIELD_U64(A, a_bytes, "in A"),
	FIELD_U64(A, b_bytes, "in B"),
	FIELD_I64(A, change_bytes, "B's less A's"),
};
#undef A
static const struct field_table amount_table = FIELD_TABLE(struct plim_diff_amount, amount_rows);

#define T struct plim_diff_totals
#define AMOUNT(m, text) FIELD_STRUCT(T, m, struct plim_diff_amount, amount_table, text)
static const struct field totals_rows[] = {
	AMOUNT(requested, "what the program asked for"),
	AMOUNT(active, "blocks in use or awaiting another stream"),
	AMOUNT(allocated, "blocks in use"),
	AMOUNT(reserved, "taken from the driver"),
};
#undef AMOUNT
#undef T
static const struct field_table totals_table = FIELD_TABLE(struct plim_diff_totals, totals_rows);

#define G struct plim_diff_gate
static const struct field gate_rows[] = {
	FIELD_BOOL(G, exceeded, "the exit code is 1"),
	FIELD_BOOL(G, certain, "both peaks are exact and of whole runs that did not die"),
	FIELD_STRING(G, measure, "what was compared"),
	FIELD_U64(G, device, "that grew furthest beyond its limit, or came nearest to it"),
	FIELD_I64(G, grown_bytes, "B's less A's"),
	FIELD_U64(G, limit_bytes, "by how much it may grow"),
};
#undef G
static const struct field_table gate_table = FIELD_TABLE(struct plim_diff_gate, gate_rows);

#define S struct plim_diff_setting
static const struct field setting_rows[] = {
	FIELD_STRING(S, name, "what it is"),
	FIELD_STRING(S, a, "in A; null: its recording does not tell"),
	FIELD_STRING(S, b, "in B"),
};
#undef S
static const struct field_table setting_table = FIELD_TABLE(struct plim_diff_setting, setting_rows);

#define P struct plim_diff_part
static const struct field part_rows[] = {
	FIELD_STRING(P, name, "category, or phase (before: born before the recording)"),
	FIELD_U64(P, a_bytes, "live in A"),
	FIELD_U64(P, b_bytes, "live in B"),
	FIELD_I64(P, change_bytes, "B's less A's"),
};
#undef P
static const struct field_table part_table = FIELD_TABLE(struct plim_diff_part, part_rows);

#define R struct plim_diff_row
static const struct field row_rows[] = {
	FIELD_STRING(R, name, "line, category, phase or size; null: no Python stack"),
	FIELD_STRING(R, a_name, "the line in A; null: written as in B, or only in one"),
	FIELD_ENUM(R, match, enum plim_diff_match, matches,
		   "exact: the same lines; moved: the same, by an edit above them; lines: the same "
		   "functions; function: a name with similar counts or sizes; only_a, only_b"),
	FIELD_BOOL(R, inferred, "the owner was not recorded but concluded"),
	FIELD_U64(R, a_bytes, "live in A"),
	FIELD_U64(R, b_bytes, "live in B"),
	FIELD_I64(R, change_bytes, "B's less A's"),
	FIELD_U64(R, a_count, "allocations live in A"),
	FIELD_U64(R, b_count, "allocations live in B"),
	FIELD_STRING(R, category, "what changed most of it is for; null: not known"),
	FIELD_I64(R, category_change_bytes, "change of that category in this row"),
	FIELD_STRING(R, part,
		     "of the stack below that changed most, the innermost frame that is not "
		     "PyTorch's own; null: none"),
	FIELD_I64(R, part_change_bytes, "change of that stack"),
	FIELD_STRINGS(R, stack, stack_count, "that stack, innermost frame first"),
};
#undef R
static const struct field_table row_table = FIELD_TABLE(struct plim_diff_row, row_rows);

#define M struct plim_diff_moment
static const struct field moment_rows[] = {
	FIELD_BOOL(M, different, "there are rows, or parts of a kind that changed"),
	FIELD_U64(M, a_event, "in A; null: before its first"),
	FIELD_U64(M, b_event, "in B"),
	FIELD_STRING(M, a_phase, "what A was doing; null: no stacks"),
	FIELD_STRING(M, b_phase, "what B was doing"),
	FIELD_U64(M, a_step, "training step; null: none are seen"),
	FIELD_U64(M, b_step, "in B"),
	FIELD_U64(M, a_bytes, "allocated bytes in A"),
	FIELD_U64(M, b_bytes, "in B"),
	FIELD_I64(M, change_bytes, "the sum of the rows' and of the rest"),
	FIELD_STRUCTS(M, rows, row_count, struct plim_diff_row, row_table,
		      "what changed, the largest change first"),
	FIELD_U64(M, rest_rows, "changed too, but beyond --top"),
	FIELD_U64(M, rest_a_bytes, "their sum in A"),
	FIELD_U64(M, rest_b_bytes, "in B"),
	FIELD_I64(M, rest_change_bytes, "B's less A's"),
	FIELD_U64(M, unchanged_rows, "with as many bytes and allocations in both"),
	FIELD_U64(M, unchanged_bytes, "their sum, in each"),
	FIELD_STRUCTS(M, categories, category_count, struct plim_diff_part, part_table,
		      "by what it is for; empty where either has no stacks"),
	FIELD_STRUCTS(M, phases, phase_count, struct plim_diff_part, part_table,
		      "by the phase in which it was allocated"),
};
#undef M
static const struct field_table moment_table = FIELD_TABLE(struct plim_diff_moment, moment_rows);

#define T struct plim_diff_step
static const struct field step_rows[] = {
	FIELD_U64(T, index, "from 0"),
	FIELD_U64(T, a_peak_requested_bytes, "most that A requested in it"),
	FIELD_U64(T, b_peak_requested_bytes, "in B"),
	FIELD_I64(T, change_bytes, "B's less A's"),
};
#undef T
static const struct field_table step_table = FIELD_TABLE(struct plim_diff_step, step_rows);

#define F struct plim_diff_finding
static const struct field finding_rows[] = {
	FIELD_STRING(F, side, "a or b"),
	FIELD_STRING(F, id, "as in report/1"),
	FIELD_STRING(F, severity, "as in report/1"),
	FIELD_U64(F, bytes, "as in report/1"),
	FIELD_STRING(F, title, "as in report/1"),
};
#undef F
static const struct field_table finding_table = FIELD_TABLE(struct plim_diff_finding, finding_rows);

#define V struct plim_diff_device
static const struct field device_rows[] = {
	FIELD_U64(V, device, "ordinal"),
	FIELD_BOOL(V, in_a, "A has memory or events of it"),
	FIELD_BOOL(V, in_b, "B has"),
	FIELD_BOOL(V, different, "in anything that is compared"),
	FIELD_STRINGS(V, summary, summary_count, "the change in sentences"),
	FIELD_U64(V, a_events, "recorded in A"),
	FIELD_U64(V, b_events, "in B"),
	FIELD_U64(V, a_ooms, "failures in A"),
	FIELD_U64(V, b_ooms, "in B"),
	FIELD_STRUCT(V, peak, struct plim_diff_totals, totals_table,
		     "peaks, each at its own event"),
	FIELD_STRUCT(V, end, struct plim_diff_totals, totals_table,
		     "when the snapshots were taken"),
	FIELD_BOOL(V, a_lower_bound, "the peak of A's run may be higher"),
	FIELD_BOOL(V, b_lower_bound, "of B's run"),
	FIELD_STRING(V, a_bound_why,
		     "cut: not all of the run was recorded; died: it could not get more"),
	FIELD_STRING(V, b_bound_why, "in B"),
	FIELD_U64(V, a_range_bytes, "A's allocated and active bytes may be higher by up to this"),
	FIELD_U64(V, b_range_bytes, "B's"),
	FIELD_DOUBLE(
		V, a_shared,
		"of the bytes that Python allocated in A in all, the part by lines that B runs "
		"too, 0 to 1; null: none"),
	FIELD_DOUBLE(V, b_shared, "the same of B"),
	FIELD_BOOL(V, unrelated, "both parts are small: lines are not compared"),
	FIELD_STRING(V, grouped_by,
		     "what a row is: user_frame, stack, category, phase, or size (no stacks)"),
	FIELD_POINTER(V, at_peak, struct plim_diff_moment, moment_table,
		      "what lives at the peaks of allocated bytes; null: not asked for"),
	FIELD_POINTER(V, at_end, struct plim_diff_moment, moment_table, "what lives at the ends"),
	FIELD_U64(V, a_steps, "steps in A"),
	FIELD_U64(V, b_steps, "in B"),
	FIELD_STRUCTS(V, steps, step_count, struct plim_diff_step, step_table,
		      "that both have; none where a recording does not begin with its run"),
	FIELD_STRUCTS(V, findings, finding_count, struct plim_diff_finding, finding_table,
		      "of a kind that only one has"),
};
#undef V
static const struct field_table device_table = FIELD_TABLE(struct plim_diff_device, device_rows);

#define D struct plim_diff
static const struct field diff_rows[] = {
	FIELD_BOOL(D, different, "in anything that is compared"),
	FIELD_POINTER(D, gate, struct plim_diff_gate, gate_table, "null: no --fail-over"),
	FIELD_STRUCT(D, a, struct plim_diff_side, side_table, "before"),
	FIELD_STRUCT(D, b, struct plim_diff_side, side_table, "after"),
	FIELD_STRUCTS(D, settings, setting_count, struct plim_diff_setting, setting_table,
		      "what changed beside memory"),
	FIELD_STRUCTS(D, devices, device_count, struct plim_diff_device, device_table,
		      "the largest change of the peak first"),
};
#undef D
const struct field_table diff_table = FIELD_TABLE(struct plim_diff, diff_rows);
