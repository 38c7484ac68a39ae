/* The rows of report/1: the JSON, docs/json.md and the ABI check are read from them. */
#include "verbs/report/report.h"

const char *const report_bound_names[5] = {
	[PLIM_BOUND_UNKNOWN] = "unknown",
	[PLIM_BOUND_DEVICE] = "device",
	[PLIM_BOUND_LIMIT] = "limit",
	[PLIM_BOUND_OTHER_PROCESS] = "other_process",
	[PLIM_BOUND_NON_PYTORCH] = "non_pytorch",
};
const char *const report_cause_names[4] = {
	[PLIM_CAUSE_UNKNOWN] = "unknown",
	[PLIM_CAUSE_CAPACITY] = "capacity",
	[PLIM_CAUSE_FRAGMENTATION] = "fragmentation",
	[PLIM_CAUSE_LEAK] = "leak",
};
static const char *const bounds[] = { "unknown", "device", "limit", "other_process",
				      "non_pytorch" };
static const char *const causes[] = { "unknown", "capacity", "fragmentation", "leak" };

#define S struct plim_report_source
static const struct field source_rows[] = {
	FIELD_STRING(S, path, "the file as given, \"-\" for standard input"),
	FIELD_STRING(S, kind, "pickle or json"),
	FIELD_STRING(S, compression, "gzip, xz or zstd; null: none"),
	FIELD_U64(S, bytes, "size as stored; null for a pipe"),
	FIELD_U64(S, decoded_bytes, "size when decompressed"),
	FIELD_U64(S, events, "events of all devices"),
	FIELD_BOOL(S, complete, "recording began before the first allocation and lost no event"),
	FIELD_STRINGS(S, notes, note_count, "what the reader found worth telling"),
};
#undef S
const struct field_table report_source_table = FIELD_TABLE(struct plim_report_source, source_rows);

#define M struct plim_report_moment
static const struct field moment_rows[] = {
	FIELD_U64(M, event, "index of the event that reached it; null: it stood before the first"),
	FIELD_U64(M, time_us, "microseconds since 1970; null before PyTorch 2.2"),
	FIELD_U64(M, range_bytes, "the true number may be larger by up to this; 0: exact"),
	FIELD_U64(M, step, "index of the step that it lies in; null: there are no steps"),
	FIELD_STRING(M, phase, "as in oom[].phase; null: no stacks were recorded"),
};
#undef M
static const struct field_table moment_table = FIELD_TABLE(struct plim_report_moment, moment_rows);

#define P struct plim_report_peak
static const struct field peak_rows[] = {
	FIELD_U64(P, requested_bytes,
		  "largest sum of what the program asked for (requested_bytes.all.peak)"),
	FIELD_U64(P, active_bytes, "largest sum of blocks in use or awaiting another stream"),
	FIELD_U64(P, allocated_bytes,
		  "largest sum of blocks in use (torch.cuda.max_memory_allocated)"),
	FIELD_U64(P, reserved_bytes,
		  "most memory taken from the driver (torch.cuda.max_memory_reserved)"),
	FIELD_STRUCT(P, requested, struct plim_report_moment, moment_table,
		     "when requested_bytes was reached"),
	FIELD_STRUCT(P, active, struct plim_report_moment, moment_table,
		     "when active_bytes was reached"),
	FIELD_STRUCT(P, allocated, struct plim_report_moment, moment_table,
		     "when allocated_bytes was reached"),
	FIELD_STRUCT(P, reserved, struct plim_report_moment, moment_table,
		     "when reserved_bytes was reached"),
	FIELD_BOOL(P, lower_bound,
		   "the recording does not cover the whole run: its peak may lie outside"),
};
#undef P
static const struct field_table peak_table = FIELD_TABLE(struct plim_report_peak, peak_rows);

#define G struct plim_report_categories
static const struct field categories_rows[] = {
	FIELD_U64(G, parameter, "bytes of the model's weights"),
	FIELD_U64(G, gradient, "bytes of their gradients"),
	FIELD_U64(G, optimizer_state, "bytes of what the optimizer keeps from step to step"),
	FIELD_U64(G, activation, "bytes that a forward pass saved for its backward pass"),
	FIELD_U64(G, input, "bytes of what goes into the model"),
	FIELD_U64(G, workspace, "bytes of cuBLAS workspaces"),
	FIELD_U64(G, temporary, "bytes that end in the phase they were born in"),
	FIELD_U64(G, autograd_detail, "bytes that a backward pass needs for itself"),
	FIELD_U64(G, kv_cache, "bytes of keys and values of attention"),
	FIELD_U64(G, buffer, "bytes of what a module keeps beside its parameters"),
	FIELD_U64(G, unknown, "bytes that no rule explains"),
};
#undef G
const struct field_table report_categories_table =
	FIELD_TABLE(struct plim_report_categories, categories_rows);

#define T struct plim_report_totals
static const struct field totals_rows[] = {
	FIELD_U64(T, requested_bytes, "what the program asked for"),
	FIELD_U64(T, active_bytes, "blocks in use or awaiting another stream"),
	FIELD_U64(T, allocated_bytes, "blocks in use"),
	FIELD_U64(T, reserved_bytes, "taken from the driver"),
	FIELD_POINTER(T, categories, struct plim_report_categories, report_categories_table,
		      "allocated_bytes by what they are for; null: no stacks were recorded, or "
		      "before the first event"),
};
#undef T
static const struct field_table totals_table = FIELD_TABLE(struct plim_report_totals, totals_rows);

#define O struct plim_report_owner
static const struct field owner_rows[] = {
	FIELD_U64(O, bytes, "what its allocations hold"),
	FIELD_U64(O, count, "allocations"),
	FIELD_U64(O, each_bytes, "grouped by size: the size asked for; else null"),
	FIELD_STRING(O, frame, "the innermost line of the user's own code; null: no Python stack"),
	FIELD_STRINGS(O, stack, stack_count, "of its largest allocation, innermost first"),
	FIELD_BOOL(O, inferred, "the owner was not recorded but concluded"),
};
#undef O
static const struct field_table owner_table = FIELD_TABLE(struct plim_report_owner, owner_rows);

#define A struct plim_report_owners
static const struct field owners_rows[] = {
	FIELD_STRING(A, measure, "which of the four totals is divided among the owners"),
	FIELD_STRING(A, what, "the moment: peak, oom, end or event"),
	FIELD_U64(A, event, "index of the moment's event; null: before the first"),
	FIELD_U64(A, total_bytes, "the sum over all owners"),
	FIELD_STRUCTS(A, owners, owner_count, struct plim_report_owner, owner_table,
		      "largest first"),
	FIELD_U64(A, owners_left_out, "owners beyond the rows that were asked for"),
	FIELD_U64(A, left_out_bytes, "what those hold"),
	FIELD_POINTER(A, categories, struct plim_report_categories, report_categories_table,
		      "total_bytes by what they are for; null: no stacks were recorded"),
	FIELD_STRINGS(A, annotations, annotation_count, "as in oom[].annotations"),
};
#undef A
static const struct field_table owners_table = FIELD_TABLE(struct plim_report_owners, owners_rows);

#define L struct plim_report_leak
static const struct field leak_rows[] = {
	FIELD_U64(L, grown_bytes, "growth from the first repetition to the last"),
	FIELD_U64(L, per_repetition_bytes, "growth of one repetition"),
	FIELD_U64(L, repetitions, "repetitions that grew, one after another"),
	FIELD_U64(L, first_event, "start of the first repetition"),
	FIELD_U64(L, last_event, "start of the last repetition"),
	FIELD_STRING(L, loop, "the line that is entered once a repetition"),
	FIELD_STRING(L, frame, "the user's line that allocated the largest part of what stays"),
	FIELD_STRINGS(L, stack, stack_count, "its stack, innermost first"),
	FIELD_U64(L, part_bytes, "what that stack allocated and nobody freed"),
};
#undef L
static const struct field_table leak_table = FIELD_TABLE(struct plim_report_leak, leak_rows);

#define V struct plim_report_verdict
static const struct field verdict_rows[] = {
	FIELD_ENUM(V, bound_by, enum plim_bound, bounds,
		   "what the memory ran into: device, limit, other_process, non_pytorch, unknown"),
	FIELD_ENUM(V, cause, enum plim_cause, causes, "capacity, fragmentation, leak, unknown"),
	FIELD_ENUM(V, likelier, enum plim_cause, causes,
		   "of an unknown cause: what more speaks for"),
	FIELD_U64(V, bound_low_bytes, "reserved memory that was certainly allowed"),
	FIELD_U64(V, bound_high_bytes,
		  "reserved memory that was certainly refused, or the same number"),
	FIELD_U64(V, needed_bytes, "live, request and what was still to come, at least"),
	FIELD_U64(V, needed_high_bytes, "the same at most; null: not known"),
	FIELD_U64(V, still_to_come_bytes,
		  "what the step had still to allocate, at least; null: not known"),
	FIELD_STRING(V, still_basis,
		     "repeated: from the same point in earlier repetitions; optimizer: from "
		     "its state and gradients; planned: from the plan that it is; null: not known"),
	FIELD_STRING(V, headline, "one sentence"),
	FIELD_STRINGS(V, evidence, evidence_count, "sentences with the numbers"),
	FIELD_STRINGS(V, advice, advice_count, "what helps, best first, and what does not"),
};
#undef V
const struct field_table report_verdict_table =
	FIELD_TABLE(struct plim_report_verdict, verdict_rows);

#define D struct plim_report_oom
static const struct field oom_rows[] = {
	FIELD_U64(D, event, "index"),
	FIELD_U64(D, time_us, "microseconds since 1970; null before PyTorch 2.2"),
	FIELD_BOOL(D, survived, "the program caught it and went on"),
	FIELD_U64(D, requested_bytes, "what was asked for, as the allocator had rounded it"),
	FIELD_U64(D, segment_bytes, "what the driver was asked for (\"Tried to allocate\")"),
	FIELD_I64(D, stream, "cudaStream_t of the request"),
	FIELD_STRING(D, pool, "small or large"),
	FIELD_STRING(D, phase,
		     "load, forward, backward, optimizer, eval, generate, request or other; "
		     "null: no stacks were recorded"),
	FIELD_U64(D, step, "index of the step that it lies in; null: there are no steps"),
	FIELD_STRING(D, frame, "the user's own line; null: no Python stack"),
	FIELD_STRINGS(D, stack, stack_count, "innermost first"),
	FIELD_U64(D, live_bytes, "blocks in use at that moment"),
	FIELD_U64(D, reserved_bytes,
		  "taken from the driver, after the allocator had given back what it could"),
	FIELD_U64(D, bound_bytes, "reserved memory that was certainly allowed (bound_low_bytes)"),
	FIELD_U64(D, device_free_bytes, "free on the device as the driver told"),
	FIELD_U64(D, free_bytes, "reserved but in no block in use"),
	FIELD_U64(D, largest_free_bytes,
		  "largest free block that this request's stream and pool could use"),
	FIELD_STRINGS(
		D, annotations, annotation_count,
		"names of the ranges (record_function, external_annotations) that it lies in, "
		"the outermost first, at most 16"),
	FIELD_POINTER(D, verdict, struct plim_report_verdict, report_verdict_table,
		      "null for those between the first and the last four of many"),
};
#undef D
static const struct field_table oom_table = FIELD_TABLE(struct plim_report_oom, oom_rows);

#define F struct plim_report_finding
static const struct field finding_rows[] = {
	FIELD_STRING(F, id, "oom, leak, or another one of docs/findings.md"),
	FIELD_STRING(F, severity,
		     "bad: killed the run, or will; warn: costs a part of the peak; info"),
	FIELD_DOUBLE(F, confidence, "0 to 1: that it is what it is called"),
	FIELD_STRING(F, title, "what, how much, where"),
	FIELD_U64(F, bytes, "what it costs; null: not known"),
	FIELD_U64(F, bytes_per_period, "bytes more each period; null: it does not grow"),
	FIELD_STRING(F, period,
		     "step, eval iteration, request, forward pass or repetition; null: it does not "
		     "grow"),
	FIELD_STRING(F, frame, "the user's line that allocated; null: not known"),
	FIELD_BOOL(F, inferred, "the line was not recorded but concluded"),
	FIELD_STRINGS(F, evidence, evidence_count, "sentences with the numbers"),
	FIELD_STRINGS(F, fix, fix_count, "what helps, in words and code, best first"),
	FIELD_STRINGS(F, see, see_count, "commands and pages that tell more"),
	FIELD_POINTER(F, leak, struct plim_report_leak, leak_table, "null for others"),
};
#undef F
static const struct field_table finding_table =
	FIELD_TABLE(struct plim_report_finding, finding_rows);

#define C struct plim_report_check
static const struct field check_rows[] = {
	FIELD_U64(C, events, "events that were replayed under the allocator's rules"),
	FIELD_U64(C, faults, "of these, the ones that the rules cannot explain"),
	FIELD_U64(C, end_faults, "blocks of the snapshot that the replay did not end with"),
	FIELD_U64(C, contradictions, "events that contradict each other or the snapshot"),
	FIELD_BOOL(C, exact,
		   "the replay explains every event and ends with exactly the snapshot's blocks"),
};
#undef C
static const struct field_table check_table = FIELD_TABLE(struct plim_report_check, check_rows);

#define H struct plim_report_phases
static const struct field phases_rows[] = {
	FIELD_U64(H, load, "bytes; null: the step had no such phase"),
	FIELD_U64(H, forward, "bytes, or null"),
	FIELD_U64(H, backward, "bytes, or null"),
	FIELD_U64(H, optimizer, "bytes, or null"),
	FIELD_U64(H, eval, "bytes, or null: a forward pass that no backward pass answers"),
	FIELD_U64(H, generate, "bytes, or null"),
	FIELD_U64(H, request,
		  "bytes, or null: a forward pass of a program that never runs backward"),
	FIELD_U64(H, other, "bytes, or null"),
};
#undef H
static const struct field_table phases_table = FIELD_TABLE(struct plim_report_phases, phases_rows);

#define T struct plim_report_step
static const struct field step_rows[] = {
	FIELD_U64(T, index, "from 0; the first begins with the recording"),
	FIELD_U64(T, start_event, "first event"),
	FIELD_U64(T, end_event,
		  "last event: the optimizer's last, the least memory before the next one, or the "
		  "recording's last"),
	FIELD_U64(T, peak_requested_bytes, "most that was requested in it"),
	FIELD_STRUCT(T, phase_peaks, struct plim_report_phases, phases_table, "the same by phase"),
};
#undef T
static const struct field_table step_table = FIELD_TABLE(struct plim_report_step, step_rows);

#define V struct plim_report_device
static const struct field device_rows[] = {
	FIELD_U64(V, device, "ordinal"),
	FIELD_U64(V, events, "recorded"),
	FIELD_U64(V, allocations, "that were seen"),
	FIELD_U64(V, streams, "that allocated"),
	FIELD_STRUCT(V, before, struct plim_report_totals, totals_table, "before the first event"),
	FIELD_STRUCT(V, peak, struct plim_report_peak, peak_table,
		     "of the recording; null without events"),
	FIELD_STRUCT(V, at_peak, struct plim_report_owners, owners_table,
		     "who held the memory at a moment"),
	FIELD_STRUCT(V, end, struct plim_report_totals, totals_table,
		     "when the snapshot was taken"),
	FIELD_STRUCTS(V, oom, oom_count, struct plim_report_oom, oom_table, "deaths, in turn"),
	FIELD_STRUCTS(V, findings, finding_count, struct plim_report_finding, finding_table,
		      "worst first"),
	FIELD_STRUCTS(V, steps, step_count, struct plim_report_step, step_table,
		      "training steps, or what else repeats; the last one may not have ended"),
	FIELD_STRING(
		V, step_basis,
		"what ends a step: optimizer; backward: a backward pass, where no optimizer is "
		"seen; request: passes of a model, where nothing runs backward; annotation: a "
		"range that the program named with record_function; null: no steps"),
	FIELD_STRUCT(V, self_check, struct plim_report_check, check_table,
		     "how far the numbers prove themselves"),
	FIELD_U64(V, timeline_first_event, "first event that the timeline and the peaks cover"),
	FIELD_U64(V, timeline_last_event, "last event that they cover; null without events"),
	FIELD_U64S(V, timeline_bytes, timeline_count,
		   "largest allocated bytes in equal parts of the events"),
};
#undef V
static const struct field_table device_table = FIELD_TABLE(struct plim_report_device, device_rows);

#define R struct plim_report
static const struct field report_rows[] = {
	FIELD_STRUCT(R, source, struct plim_report_source, report_source_table, "what was read"),
	FIELD_STRUCTS(R, devices, device_count, struct plim_report_device, device_table,
		      "those with memory or events"),
};
#undef R
const struct field_table report_table = FIELD_TABLE(struct plim_report, report_rows);
