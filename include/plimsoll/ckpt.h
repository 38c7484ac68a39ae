/*
 * plimsoll ckpt: what a checkpoint holds and whether it is whole, without running anything in it.
 *
 * All sizes are bytes.  A number that is not known is PLIM_UNKNOWN and a text that is not known is
 * NULL; JSON shows null for both.  Everything a checkpoint points to belongs to it.
 */
#ifndef PLIMSOLL_CKPT_H
#define PLIMSOLL_CKPT_H

#include <plimsoll/report.h>
#include <plimsoll/status.h>

#include <stdbool.h>
#include <stddef.h>

enum plim_ckpt_flags {
	PLIM_CKPT_VERIFY = 1, /* read all bytes and compare them with their checksums */
	PLIM_CKPT_VALUES = 2, /* look at the numbers too: NaN, infinities, zeros */
	PLIM_CKPT_DRY_RUN = 4 /* of plim_ckpt_last_good: remove nothing, tell what would be */
};

struct plim_ckpt_options {
	uint32_t size;             /* set to sizeof(struct plim_ckpt_options) */
	uint32_t flags;            /* enum plim_ckpt_flags */
	uint64_t max_memory_bytes; /* 0: half of this machine's memory, or of the cgroup's */
	const char *require; /* "model_state_dict,epoch": keys that must be there; NULL: none */
	uint32_t threads;    /* 0: one a core */
	uint32_t unused;     /* 0 */
	/*
	 * Names in pickles that the caller knows: "models.yolo.Model, mine.*", separated by commas or line breaks; "mine.*"
	 * is all below it, '#' begins a comment that ends with the line.  What is dangerous stays so.  NULL: none.
	 */
	const char *allow;
};

/* How sure it is, of the bytes and of the code that its pickles name.  Values never change. */
enum plim_ckpt_verdict {
	PLIM_CKPT_NOT_VERIFIED, /* only its structure was looked at, and is right */
	PLIM_CKPT_WHOLE,        /* every byte has a checksum, and all are right */
	PLIM_CKPT_UNPROVEN,     /* nothing is wrong, but some bytes have no checksum */
	PLIM_CKPT_DAMAGED,
	PLIM_CKPT_TRUNCATED,
	PLIM_CKPT_NOT_A_CHECKPOINT,
	PLIM_CKPT_UNKNOWN_CODE, /* its bytes are right, but a pickle names what is on no list */
	PLIM_CKPT_DANGEROUS     /* a pickle names what runs code when it is loaded */
};

struct plim_ckpt_finding {
	const char *severity; /* "bad", "warning", "note" */
	const char *kind;     /* "crc_mismatch" */
	const char *text;     /* one sentence */
	uint64_t offset;      /* byte of the file */
};

struct plim_ckpt_tensor {
	const char *name;
	const char *dtype;
	const char *device; /* it was saved from */
	const char *file;   /* that holds its bytes */
	uint64_t bytes, elements;
	uint64_t *shape, *strides;
	size_t shape_count, stride_count;
	uint64_t offset_bytes;        /* of its first element, in the file */
	uint64_t storage;             /* tensors of one number share bytes */
	uint64_t storage_bytes;       /* that were saved for it, others' too */
	bool whole;                   /* its bytes are all there */
	uint64_t nan, infinite, zero; /* after PLIM_CKPT_VALUES, of numbers that were looked at */
	double min, max;
};

struct plim_ckpt_group {
	const char *prefix;
	uint64_t tensors, bytes;
	const char *dtypes, *devices;
};

struct plim_ckpt_key {
	const char *name, *what;
	uint64_t tensors, bytes;
};

struct plim_ckpt_optimizer {
	const char *path, *kind;
	uint64_t groups, parameters, state_tensors, state_bytes;
	double learning_rate;
};

struct plim_ckpt_fact {
	const char *name, *value;
};

struct plim_ckpt_global {
	const char *name, *record;
	const char *
		trust; /* "plain", "data", "class", "torchscript", "allowed", "unknown", "dangerous" */
	uint64_t offset, times;
};

struct plim_ckpt {
	const char *path;
	const char *kind; /* "torch", "safetensors" ... */
	enum plim_ckpt_verdict verdict;
	enum plim_ckpt_verdict integrity; /* of the bytes alone: never UNKNOWN_CODE or DANGEROUS */
	const char *headline;             /* one sentence */
	uint64_t bytes, files;
	uint64_t tensor_bytes, elements;
	uint64_t shared_bytes; /* of tensors whose bytes another one has too */
	uint64_t waste_bytes;  /* of storages that were saved, but that no tensor reaches */
	uint64_t whole_bytes;  /* of a truncated file: in records or tensors that are whole */
	uint64_t verified_bytes, unprotected_bytes, verified_records;
	const char
		*pickle; /* of its names: "plain", "unknown", "dangerous"; NULL: no pickle in it */
	struct plim_ckpt_finding *findings;
	size_t finding_count;
	struct plim_ckpt_global *globals;
	size_t global_count;
	struct plim_ckpt_key *keys;
	size_t key_count;
	const char **required_missing; /* of --require */
	size_t required_missing_count;
	const char **resume_missing; /* what a complete resume would also want */
	size_t resume_missing_count;
	struct plim_ckpt_optimizer *optimizers;
	size_t optimizer_count;
	struct plim_ckpt_fact *facts;
	size_t fact_count;
	struct plim_ckpt_group *groups;
	size_t group_count;
	struct plim_ckpt_tensor *tensors;
	size_t tensor_count;
	struct plim_ckpt_hidden *hidden; /* what owns the memory */
};

/*
 * Read a file or a folder.  What is wrong with it is told in *out, not as an error: PLIM_E_IO is a file
 * that cannot be opened, PLIM_E_LIMIT one that needs more memory than allowed.
 */
PLIM_API enum plim_status plim_ckpt_open(const char *path, const struct plim_ckpt_options *options,
					 struct plim_ckpt **out, struct plim_err *err);
PLIM_API void plim_ckpt_free(struct plim_ckpt *ckpt);

/*
 * The tensors that a config.json of Hugging Face promises, without bytes: the second of plim_ckpt_diff, which then
 * tells whether the first would load.  PLIM_E_FORMAT: it is no config of a model.
 */
PLIM_API enum plim_status plim_ckpt_open_config(const char *path, struct plim_ckpt **out,
						struct plim_err *err);

/* As JSON, schema ckpt/1 (docs/json.md). */
PLIM_API enum plim_status plim_ckpt_json(const struct plim_ckpt *ckpt, plim_write_fn *write,
					 void *ctx, struct plim_err *err);

enum plim_ckpt_text {
	PLIM_CKPT_TEXT_VERIFY,  /* verdict and findings */
	PLIM_CKPT_TEXT_SHOW,    /* what is in it */
	PLIM_CKPT_TEXT_TENSORS, /* the same, and every tensor */
	PLIM_CKPT_TEXT_LINE     /* the verdict in one line */
};
PLIM_API enum plim_status plim_ckpt_text(const struct plim_ckpt *ckpt, enum plim_ckpt_text what,
					 const struct plim_text_style *style, plim_write_fn *write,
					 void *ctx, struct plim_err *err);

/* ---- out of it ---- */

enum plim_ckpt_extract_flags {
	PLIM_CKPT_WHOLE_ONLY = 1,  /* leave out tensors that are not whole, instead of failing */
	PLIM_CKPT_AS_TORCH = 2,    /* a file for torch.load, not safetensors */
	PLIM_CKPT_NO_MANIFEST = 4, /* write no manifest beside it (plim_ckpt_seal) */
	PLIM_CKPT_ALL = 8          /* what is no tensor too, where the new file can carry it */
};

struct plim_ckpt_extracted {
	uint64_t tensors, left_out;
	uint64_t bytes;            /* of tensors */
	uint64_t file_bytes, xxh3; /* of the file */
	bool state; /* what is no tensor was carried too: epoch, parameter groups, random states */
	char left_behind[200]; /* PLIM_CKPT_ALL: why it was not; "": it was, or there was none */
};

/*
 * Write tensors whose names match one of `patterns` ("a.*|b", * and ? as in a shell) to a new file, durably (see
 * durable.h), and its manifest beside it.  flags: enum plim_ckpt_extract_flags.  With PLIM_CKPT_ALL and
 * PLIM_CKPT_AS_TORCH a file of torch keeps its form, nested and shared as it was, and all that is no tensor, if its
 * pickle names nothing but constructors that are known; patterns is "*" then.  PLIM_E_ARG: none matches;
 * PLIM_E_FORMAT: one is not whole; PLIM_E_UNSUPPORTED: the format cannot carry one; each is named.
 */
PLIM_API enum plim_status plim_ckpt_extract(struct plim_ckpt *ckpt, const char *patterns,
					    unsigned flags, const char *path,
					    struct plim_ckpt_extracted *out, struct plim_err *err);

struct plim_ckpt_sealed {
	uint64_t files, bytes;
};

/*
 * Write a manifest of sizes and XXH3 sums: FILE.manifest.json beside a file, plimsoll.manifest.json in a
 * folder.  plim_ckpt_open with PLIM_CKPT_VERIFY compares with it, which proves bytes that have no checksum of
 * their own.  PLIM_E_FORMAT: *ckpt is damaged, or was not opened with PLIM_CKPT_VERIFY.
 */
PLIM_API enum plim_status plim_ckpt_seal(struct plim_ckpt *ckpt, struct plim_ckpt_sealed *out,
					 struct plim_err *err);

/* ---- a folder of checkpoints ---- */

struct plim_ckpt_last_options {
	uint32_t size;             /* set to sizeof(struct plim_ckpt_last_options) */
	uint32_t flags;            /* PLIM_CKPT_VALUES, PLIM_CKPT_DRY_RUN */
	uint64_t keep;             /* good ones of the newest series; 0: remove nothing */
	uint64_t max_memory_bytes; /* as in struct plim_ckpt_options */
	uint32_t threads;          /* 0: one a core */
	uint32_t unused;           /* 0 */
	const char *allow;         /* as in struct plim_ckpt_options */
};

struct plim_ckpt_candidate {
	const char *name;               /* in the folder */
	const char *verdict, *headline; /* NULL: not looked at */
	bool good, best;
	const char *fate; /* "kept", "would_be_removed", "removed" */
};

struct plim_ckpt_last {
	const char *folder;
	const char *last_good; /* path of the newest that is good; NULL: none is */
	uint64_t good, removed;
	struct plim_ckpt_candidate *candidates; /* newest first */
	size_t candidate_count;
	struct plim_ckpt_last_hidden *hidden;
};

/*
 * Verify the checkpoints of a folder (files, or folders), newest first, until one is good, and with keep until
 * `keep` of the newest numbered series are ("step_100.pt", "step_200.pt").  What is older in that series is then
 * removed, except the best: by its name, by a measure in the name ("val_loss=0.12"), by a link to it, or by
 * trainer_state.json.  When fewer than `keep` are good nothing is removed; newer ones that are damaged, and
 * files of other names, always stay.  Nothing good is no error: last_good is NULL.
 * PLIM_E_ARG: the folder is one checkpoint itself.
 */
PLIM_API enum plim_status plim_ckpt_last_good(const char *folder,
					      const struct plim_ckpt_last_options *options,
					      struct plim_ckpt_last **out, struct plim_err *err);
PLIM_API void plim_ckpt_last_free(struct plim_ckpt_last *last);

/* As JSON, schema ckpt_last/1, and its rows. */
PLIM_API enum plim_status plim_ckpt_last_json(const struct plim_ckpt_last *last,
					      plim_write_fn *write, void *ctx,
					      struct plim_err *err);
PLIM_API enum plim_status plim_ckpt_last_fields(int layout, plim_write_fn *write, void *ctx,
						struct plim_err *err);

/* ---- two checkpoints ---- */

struct plim_ckpt_difference {
	const char *name;   /* in the first, or in the second if only there */
	const char *change; /* "none", "dtype", "shape", "only_in_first", "only_in_second" */
	const char *first, *second; /* "float32 64x32", NULL on the side that has none */
	uint64_t changed;           /* numbers that differ; PLIM_UNKNOWN: not compared */
	double max_difference, mean_difference; /* of finite numbers; NaN: not compared */
};

struct plim_ckpt_conclusion {
	const char *kind, *text;
};

struct plim_ckpt_diff {
	const char *first, *second;
	bool same;         /* names, shapes and dtypes */
	const char *loads; /* the second is a config: "yes", "no", "unknown"; else NULL */
	struct plim_ckpt_conclusion *conclusions; /* kinds of difference, the most telling first */
	size_t conclusion_count;
	uint64_t equal, other_dtype, other_shape, only_in_first, only_in_second; /* tensors */
	uint64_t compared, changed, nonfinite; /* numbers, with PLIM_CKPT_VALUES */
	uint64_t not_compared; /* tensors whose numbers could not be: not there, or damaged */
	double max_difference, mean_difference; /* NaN: not compared */
	bool bf16_enough;                       /* the largest difference is below the threshold */
	struct plim_ckpt_difference *tensors;   /* those that differ */
	size_t tensor_count;
	struct plim_ckpt_diff_hidden *hidden;
};

/* flags: 0 or PLIM_CKPT_VALUES.  Both checkpoints must outlive *out. */
PLIM_API enum plim_status plim_ckpt_diff(const struct plim_ckpt *first,
					 const struct plim_ckpt *second, unsigned flags,
					 double threshold, struct plim_ckpt_diff **out,
					 struct plim_err *err);
PLIM_API void plim_ckpt_diff_free(struct plim_ckpt_diff *diff);

/* As JSON, schema ckpt_diff/1; and as text. */
PLIM_API enum plim_status plim_ckpt_diff_json(const struct plim_ckpt_diff *diff,
					      plim_write_fn *write, void *ctx,
					      struct plim_err *err);
PLIM_API enum plim_status plim_ckpt_diff_text(const struct plim_ckpt_diff *diff,
					      const struct plim_text_style *style,
					      plim_write_fn *write, void *ctx,
					      struct plim_err *err);
PLIM_API enum plim_status plim_ckpt_diff_fields(int layout, plim_write_fn *write, void *ctx,
						struct plim_err *err);

/* The fields of the JSON as Markdown rows, or the structs' layout. */
PLIM_API enum plim_status plim_ckpt_fields(int layout, plim_write_fn *write, void *ctx,
					   struct plim_err *err);

#endif
