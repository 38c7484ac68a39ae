/* The rows of ckpt/1: the JSON, docs/json.md and the ABI check are read from them. */
#include "verbs/ckpt/ckpt.h"

const char *const ckpt_verdict_slugs[] = { "not_verified", "whole",     "unproven",
					   "damaged",      "truncated", "not_a_checkpoint",
					   "unknown_code", "dangerous" };
const char *const ckpt_verdict_names[] = {
	[PLIM_CKPT_NOT_VERIFIED] = "not verified",
	[PLIM_CKPT_WHOLE] = "whole",
	[PLIM_CKPT_UNPROVEN] = "unproven",
	[PLIM_CKPT_DAMAGED] = "damaged",
	[PLIM_CKPT_TRUNCATED] = "truncated",
	[PLIM_CKPT_NOT_A_CHECKPOINT] = "not a checkpoint",
	[PLIM_CKPT_UNKNOWN_CODE] = "unknown code",
	[PLIM_CKPT_DANGEROUS] = "dangerous",
};

#define F struct plim_ckpt_finding
static const struct field finding_rows[] = {
	FIELD_STRING(F, severity, "bad, warning or note"),
	FIELD_STRING(F, kind, "a word for programs"),
	FIELD_STRING(F, text, "one sentence"),
	FIELD_U64(F, offset, "byte of the file; null: of no single one"),
};
#undef F
static const struct field_table finding_table = FIELD_TABLE(struct plim_ckpt_finding, finding_rows);

#define G struct plim_ckpt_global
static const struct field global_rows[] = {
	FIELD_STRING(G, name, "module and name that the pickle refers to"),
	FIELD_STRING(G, record, "where it stands"),
	FIELD_STRING(
		G, trust,
		"plain: allowed by torch.load(weights_only=True); data: a class of a library that "
		"holds data; class: harmless as it is used here; torchscript: a class whose code "
		"is "
		"in the file; allowed: by the caller; unknown: on no list; dangerous: runs code"),
	FIELD_U64(G, offset, "behind its opcode, in that record"),
	FIELD_U64(G, times, "it is named"),
};
#undef G
static const struct field_table global_table = FIELD_TABLE(struct plim_ckpt_global, global_rows);

#define K struct plim_ckpt_key
static const struct field key_rows[] = {
	FIELD_STRING(K, name, "key of the outermost dict, or file of a folder"),
	FIELD_STRING(K, what, "its value, or what kind of thing it is"),
	FIELD_U64(K, tensors, "below it"),
	FIELD_U64(K, bytes, "of these"),
};
#undef K
static const struct field_table key_table = FIELD_TABLE(struct plim_ckpt_key, key_rows);

#define O struct plim_ckpt_optimizer
static const struct field optimizer_rows[] = {
	FIELD_STRING(O, path, "keys that lead to it, empty: the file itself"),
	FIELD_STRING(O, kind, "concluded from what its state holds; null: not known"),
	FIELD_U64(O, groups, "parameter groups"),
	FIELD_U64(O, parameters, "that have state"),
	FIELD_U64(O, state_tensors, "in its state"),
	FIELD_U64(O, state_bytes, "of these"),
	FIELD_DOUBLE(O, learning_rate, "of the first group; null: not known"),
};
#undef O
static const struct field_table optimizer_table =
	FIELD_TABLE(struct plim_ckpt_optimizer, optimizer_rows);

#define A struct plim_ckpt_fact
static const struct field fact_rows[] = {
	FIELD_STRING(A, name, "of a config, of metadata, or a module's place"),
	FIELD_STRING(A, value, "as text"),
};
#undef A
static const struct field_table fact_table = FIELD_TABLE(struct plim_ckpt_fact, fact_rows);

#define P struct plim_ckpt_group
static const struct field group_rows[] = {
	FIELD_STRING(P, prefix, "of tensors' names"),
	FIELD_U64(P, tensors, "with it"),
	FIELD_U64(P, bytes, "of these"),
	FIELD_STRING(P, dtypes, "of these"),
	FIELD_STRING(P, devices, "they were saved from; null: not known"),
};
#undef P
static const struct field_table group_table = FIELD_TABLE(struct plim_ckpt_group, group_rows);

#define T struct plim_ckpt_tensor
static const struct field tensor_rows[] = {
	FIELD_STRING(T, name, "the keys that lead to it"),
	FIELD_STRING(T, dtype, "as torch names it"),
	FIELD_STRING(T, device, "it was saved from; null: not known"),
	FIELD_STRING(T, file, "that holds its bytes; null: has none"),
	FIELD_U64(T, bytes, "of its elements"),
	FIELD_U64(T, elements, "count"),
	FIELD_U64S(T, shape, shape_count, "elements a dimension"),
	FIELD_U64S(T, strides, stride_count, "elements from one to the next of a dimension"),
	FIELD_U64(T, offset_bytes, "of its first element, in the file; null: has none"),
	FIELD_U64(T, storage, "tensors of one number share bytes; null: has none"),
	FIELD_U64(T, storage_bytes, "that were saved for it, others' too"),
	FIELD_BOOL(T, whole, "its bytes are all there"),
	FIELD_U64(T, nan, "numbers that are none, with --values; null: not looked at"),
	FIELD_U64(T, infinite, "with --values"),
	FIELD_U64(T, zero, "with --values"),
	FIELD_DOUBLE(T, min, "least finite number, with --values"),
	FIELD_DOUBLE(T, max, "largest finite number, with --values"),
};
#undef T
static const struct field_table tensor_table = FIELD_TABLE(struct plim_ckpt_tensor, tensor_rows);

#define C struct plim_ckpt
static const struct field ckpt_rows[] = {
	FIELD_STRING(C, path, "as given"),
	FIELD_STRING(C, kind,
		     "torch, torch_legacy, torchscript, zip, pickle, safetensors, sharded, "
		     "distributed, folder, tar, gguf"),
	FIELD_ENUM(C, verdict, enum plim_ckpt_verdict, ckpt_verdict_slugs,
		   "not_verified: only its structure was looked at; whole: every byte has a "
		   "checksum and "
		   "all are right; unproven: nothing is wrong, but some bytes have none; damaged; "
		   "truncated; not_a_checkpoint; unknown_code: a pickle names what is on no list; "
		   "dangerous: a pickle names what runs code when it is loaded"),
	FIELD_ENUM(C, integrity, enum plim_ckpt_verdict, ckpt_verdict_slugs,
		   "the verdict of the bytes alone: never unknown_code or dangerous"),
	FIELD_STRING(C, headline, "one sentence"),
	FIELD_U64(C, bytes, "of all its files"),
	FIELD_U64(C, files, "that were read"),
	FIELD_U64(C, tensor_bytes, "of all tensors, shared ones once each"),
	FIELD_U64(C, elements, "of all tensors"),
	FIELD_U64(C, shared_bytes, "of tensors whose bytes another one has too"),
	FIELD_U64(C, waste_bytes, "that were saved but that no tensor reaches"),
	FIELD_U64(C, whole_bytes, "of a truncated file: what is whole of it; null: not truncated"),
	FIELD_U64(C, verified_bytes, "that match their checksum; null: not verified"),
	FIELD_U64(C, unprotected_bytes, "that have no checksum; null: not verified"),
	FIELD_U64(C, verified_records, "that match their checksum; null: not verified"),
	FIELD_STRING(
		C, pickle,
		"of the names in its pickles: plain, unknown or dangerous; null: no pickle in it"),
	FIELD_STRUCTS(C, findings, finding_count, struct plim_ckpt_finding, finding_table,
		      "worst first"),
	FIELD_STRUCTS(C, globals, global_count, struct plim_ckpt_global, global_table,
		      "names that its pickles refer to, also those thrown away"),
	FIELD_STRUCTS(C, keys, key_count, struct plim_ckpt_key, key_table,
		      "what is in it beside single tensors"),
	FIELD_STRINGS(C, required_missing, required_missing_count, "of --require"),
	FIELD_STRINGS(C, resume_missing, resume_missing_count,
		      "what a resume would also want, of a training checkpoint"),
	FIELD_STRUCTS(C, optimizers, optimizer_count, struct plim_ckpt_optimizer, optimizer_table,
		      "found in it"),
	FIELD_STRUCTS(C, facts, fact_count, struct plim_ckpt_fact, fact_table,
		      "what tells the architecture"),
	FIELD_STRUCTS(C, groups, group_count, struct plim_ckpt_group, group_table,
		      "tensors by prefix"),
	FIELD_STRUCTS(C, tensors, tensor_count, struct plim_ckpt_tensor, tensor_table,
		      "in the file's order"),
};
#undef C
const struct field_table ckpt_table = FIELD_TABLE(struct plim_ckpt, ckpt_rows);
