/* The rows of plan/1: the JSON, docs/json.md and the ABI check are read from them. */
#include "verbs/plan/plan.h"

#define M struct plim_plan_model
static const struct field model_rows[] = {
	FIELD_STRING(M, family, "the architecture that it is planned as"),
	FIELD_BOOL(M, guessed, "the architecture is not known: taken for one like `family`"),
	FIELD_U64(M, parameters, "elements of all parameters, tied ones once"),
	FIELD_U64(M, parameter_bytes, "the same in the dtype that they are loaded in"),
	FIELD_U64(M, trainable, "elements that take gradients"),
};
#undef M
static const struct field_table model_table = FIELD_TABLE(struct plim_plan_model, model_rows);

#define P struct plim_plan_phase
static const struct field phase_rows[] = {
	FIELD_STRING(P, phase,
		     "load, wrap, fwdN, bwdN, optN, zeroN of step N (fwdN.M of its M-th "
		     "micro-batch), longest (all of a step), save, evalN, generate"),
	FIELD_U64(P, allocated_bytes, "in use when it ends"),
	FIELD_U64(P, peak_allocated_bytes, "most in use within it"),
	FIELD_U64(P, peak_reserved_bytes, "most taken from the driver within it"),
	FIELD_U64S(P, range_bytes, range_count, "least and most that peak_allocated_bytes may be"),
	FIELD_STRING(P, basis, "measured, derived or assumed, as of peak"),
	FIELD_U64(P, host_bytes, "most of the machine's own memory within it"),
};
#undef P
static const struct field_table phase_table = FIELD_TABLE(struct plim_plan_phase, phase_rows);

#define C struct plim_plan_categories
static const struct field category_rows[] = {
	FIELD_U64(C, parameter_bytes, "weights"),
	FIELD_U64(C, gradient_bytes, "gradients of parameters"),
	FIELD_U64(C, optimizer_state_bytes, "moments and step counters"),
	FIELD_U64(C, activation_bytes, "kept by the forward pass for the backward pass"),
	FIELD_U64(C, input_bytes, "the batch"),
	FIELD_U64(C, workspace_bytes, "of libraries"),
	FIELD_U64(C, temporary_bytes, "intermediate results"),
	FIELD_U64(C, autograd_detail_bytes, "gradients on their way"),
	FIELD_U64(C, kv_cache_bytes, "keys and values of generated text"),
	FIELD_U64(C, buffer_bytes, "buffers of modules"),
	FIELD_U64(C, other_bytes, "tensors and components beside the model"),
	FIELD_U64(C, rounding_bytes, "of blocks that were handed out whole"),
};
#undef C
static const struct field_table category_table =
	FIELD_TABLE(struct plim_plan_categories, category_rows);

#define K struct plim_plan_peak
static const struct field peak_rows[] = {
	FIELD_U64(K, allocated_bytes, "as torch.cuda.max_memory_allocated()"),
	FIELD_U64(K, reserved_bytes, "as torch.cuda.max_memory_reserved(), where memory is ample"),
	FIELD_U64(K, needed_bytes,
		  "smallest limit of reserved memory under which the run goes to its end"),
	FIELD_U64S(K, range_bytes, range_count, "least and most that may be needed"),
	FIELD_STRING(K, phase, "when most is allocated"),
	FIELD_STRUCT(K, categories, struct plim_plan_categories, category_table,
		     "what lives then; they add up to allocated_bytes"),
	FIELD_STRING(
		K, basis,
		"measured (fitted to a recording of a run of the model), derived (from PyTorch's "
		"rules, checked against measured runs of the same kind) or assumed (nothing of "
		"the kind was measured)"),
	FIELD_STRINGS(K, reasons, reason_count, "why it is no surer"),
};
#undef K
static const struct field_table peak_table = FIELD_TABLE(struct plim_plan_peak, peak_rows);

#define S struct plim_plan_sweep
static const struct field sweep_rows[] = {
	FIELD_U64(S, batch, "samples of a micro-batch"),
	FIELD_U64(S, sequence, "tokens of a sample"),
	FIELD_U64(S, allocated_bytes, "peak of memory in use"),
	FIELD_U64(S, reserved_bytes, "peak of memory taken, where it is ample"),
	FIELD_U64(S, needed_bytes, "smallest limit that does"),
	FIELD_STRING(S, fits, "yes or no; null: no limit was given"),
	FIELD_STRING(S, dies_at, "phase; null: it does not"),
	FIELD_U64S(S, range_bytes, range_count, "least and most that may be needed"),
	FIELD_STRING(S, basis, "measured, derived or assumed, as of peak"),
};
#undef S
static const struct field_table sweep_table = FIELD_TABLE(struct plim_plan_sweep, sweep_rows);

#define G struct plim_plan_config
static const struct field config_rows[] = {
	FIELD_STRING(G, training_arguments, "Transformers' TrainingArguments"),
	FIELD_STRING(G, from_pretrained, "how the model is loaded"),
	FIELD_STRING(G, peft, "PEFT's configuration of adapters"),
	FIELD_STRING(G, accelerate, "a config file of accelerate (YAML)"),
	FIELD_STRING(G, deepspeed, "a config file of DeepSpeed (JSON)"),
	FIELD_STRING(G, fsdp, "fsdp_config (JSON)"),
	FIELD_STRING(G, environment, "to be set before PyTorch starts"),
};
#undef G
static const struct field_table config_table = FIELD_TABLE(struct plim_plan_config, config_rows);

#define R struct plim_plan_rung
static const struct field rung_rows[] = {
	FIELD_STRING(R, rung, "the change"),
	FIELD_STRING(R, cost, "what it costs, an estimate"),
	FIELD_BOOL(R, changes_results, "the model that comes out is another: opt-in"),
	FIELD_U64(R, saved_bytes, "of needed_bytes, against the rungs before"),
	FIELD_U64(R, peak_allocated_bytes, "peak of memory in use with it"),
	FIELD_U64(R, needed_bytes, "smallest limit that does with it"),
	FIELD_BOOL(R, fits, "under the limit"),
	FIELD_STRUCT(R, config, struct plim_plan_config, config_table,
		     "all of it up to here, ready to be pasted"),
	FIELD_U64S(R, range_bytes, range_count, "least and most that may be needed with it"),
	FIELD_STRING(R, basis, "measured, derived or assumed, as of peak"),
	FIELD_U64(R, host_bytes, "of the machine's own memory, with it"),
};
#undef R
const struct field_table plan_rung_table = FIELD_TABLE(struct plim_plan_rung, rung_rows);

#define H struct plim_plan_host
static const struct field host_rows[] = {
	FIELD_U64(H, bytes, "most that is used at once"),
	FIELD_U64S(H, range_bytes, range_count, "least and most that may be used"),
	FIELD_U64(H, process_bytes, "Python, PyTorch and CUDA's libraries"),
	FIELD_U64(H, weight_bytes, "parameters that are kept there"),
	FIELD_U64(H, gradient_bytes, "gradients that are kept there"),
	FIELD_U64(H, optimizer_state_bytes, "states of the optimizer, with its fp32 weights"),
	FIELD_U64(H, activation_bytes, "what the forward pass keeps for the backward pass"),
	FIELD_U64(H, buffer_bytes, "that transfers go through"),
	FIELD_U64(H, loading_bytes, "the model on its way to the GPU"),
	FIELD_U64(H, saving_bytes, "what is on its way to a file"),
	FIELD_U64(H, pinned_bytes,
		  "page-locked by PyTorch in the whole run, in blocks of powers of two"),
	FIELD_U64(H, processes, "of the job that are taken to be on one machine"),
	FIELD_U64(H, limit_bytes, "that the job may use; null: none was given"),
	FIELD_MAYBE(H, fits, "it stays below; null: no limit was given"),
	FIELD_STRING(H, dies_at, "the first phase that needs more; null: none does"),
	FIELD_STRING(H, basis,
		     "derived (what is kept there was found so in measured runs) or assumed"),
};
#undef H
static const struct field_table host_table = FIELD_TABLE(struct plim_plan_host, host_rows);

#define L struct plim_plan_learned
static const struct field learned_rows[] = {
	FIELD_STRING(L, quantity, "what the recorded run takes another amount of than planned"),
	FIELD_U64(L, recorded_bytes, "in the recording"),
	FIELD_U64(L, planned_bytes, "in the plan of the recorded run"),
	FIELD_U64(L, learned_bytes,
		  "that the planned run is given beyond its plan; 0: the difference is left to the "
		  "range"),
	FIELD_STRING(L, evidence, "where the recording shows it, and how it is carried over"),
};
#undef L
static const struct field_table learned_table = FIELD_TABLE(struct plim_plan_learned, learned_rows);

#define P struct plim_plan
static const struct field plan_rows[] = {
	FIELD_STRUCT(P, model, struct plim_plan_model, model_table, "what was read"),
	FIELD_U64(P, batch, "samples of a micro-batch"),
	FIELD_U64(P, sequence, "tokens of a sample"),
	FIELD_STRUCTS(P, phases, phase_count, struct plim_plan_phase, phase_table, "in turn"),
	FIELD_STRUCT(P, peak, struct plim_plan_peak, peak_table, "of the whole run"),
	FIELD_U64(P, host_bytes, "of the machine's own memory, as host.bytes"),
	FIELD_STRUCT(P, host, struct plim_plan_host, host_table,
		     "the machine's own memory at its peak, of all processes on it"),
	FIELD_U64(P, limit_bytes, "reserved memory that the run may reach; null: none was given"),
	FIELD_MAYBE(P, fits, "the run goes to its end under the limit; null: none was given"),
	FIELD_STRING(P, dies_at, "the phase in which it runs out; null: it does not"),
	FIELD_U64(P, dies_request_bytes, "what it asks for then"),
	FIELD_U64(P, max_batch,
		  "largest batch that fits, with all that is uncertain; null: not looked for"),
	FIELD_U64(P, max_sequence, "the same of the sequence; null: not looked for"),
	FIELD_STRUCTS(P, sweep, sweep_count, struct plim_plan_sweep, sweep_table,
		      "the sizes asked for"),
	FIELD_STRINGS(P, assumptions, assumption_count, "what was not told and had to be taken"),
	FIELD_STRUCTS(P, ladder, ladder_count, struct plim_plan_rung, plan_rung_table,
		      "changes in the order of their cost"),
	FIELD_U64S(P, max_batch_range, max_batch_range_count,
		   "the largest batch that surely fits (max_batch), and that perhaps does"),
	FIELD_U64S(P, max_sequence_range, max_sequence_range_count, "the same of max_sequence"),
	FIELD_STRING(P, max_basis, "of max_batch and max_sequence, as of peak"),
	FIELD_U64(P, dies_allocated_bytes, "what is allocated when it runs out"),
	FIELD_STRUCTS(P, learned, learned_count, struct plim_plan_learned, learned_table,
		      "with --calibrate: what the recordings show beyond the plan"),
	FIELD_U64(P, unexplained_bytes,
		  "of the recorded peak, after that; null: nothing was recorded"),
};
#undef P
const struct field_table plan_table = FIELD_TABLE(struct plim_plan, plan_rows);
