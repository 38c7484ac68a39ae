/*
 * plimsoll ckpt: what a checkpoint holds and whether it is whole, without running anything in it.
 *
 * All sizes are bytes.  A number that is not known is PLIM_UNKNOWN and a text that is not known is
 * NULL; JSON shows null for both.  Everything a checkpoint points to belongs to it.
 */
#ifndef PLIMSOLL_CKPT_H
#define PLIMSOLL_CKPT_H

#include <plimsoll/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plim_ckpt_flags {
	/* (C only) read all bytes and compare them with their checksums */
	PLIM_CKPT_VERIFY = 1,
	/* (-v --values, under numbers) look at the numbers too: NaN, infinities, tensors of zeros */
	PLIM_CKPT_VALUES = 2,
	/* (C only) of plim_ckpt_last_good: remove nothing, tell what would be */
	PLIM_CKPT_DRY_RUN = 4,
	/* (--redact, under names) words in place of names that public checkpoints do not have */
	PLIM_CKPT_REDACT = 8
};

struct plim_ckpt_options {
	uint32_t size;  /* set by plim_ckpt_options_init */
	uint32_t flags; /* enum plim_ckpt_flags */
	/* (-m --max-memory BYTES, from 1MiB, under limits) use no more (half of this machine's) */
	uint64_t max_memory_bytes;
	/* (-r --require KEY,KEY..., after --values) fail unless these keys are there */
	const char *require;
	/* (-t --threads N, 1 to 64, under reading) that read (one a core) */
	uint32_t threads;
	uint32_t unused; /* 0 */
	/*
	 * (C only) names in pickles that the caller knows: "models.yolo.Model, mine.*", separated by commas or line breaks; "mine.*"
	 * is all below it, '#' begins a comment that ends with the line.  What is dangerous stays so.  NULL: none.
	 */
	const char *allow;
};
PLIM_API void plim_ckpt_options_init(struct plim_ckpt_options *o);

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
PLIM_API const char *plim_ckpt_verdict_name(enum plim_ckpt_verdict value);

struct plim_ckpt_tensor {
	const char *name;   /* the keys that lead to it */
	const char *dtype;  /* as torch names it */
	const char *device; /* it was saved from; null: not known */
	const char *file;   /* that holds its bytes; null: has none */
	uint64_t bytes;     /* of its elements */
	uint64_t elements;  /* count */
	uint64_t *shape;    /* elements a dimension */
	size_t shape_count;
	uint64_t *strides; /* elements from one to the next of a dimension */
	size_t stride_count;
	uint64_t offset_bytes;  /* of its first element, in the file; null: has none */
	uint64_t storage;       /* tensors of one number share bytes; null: has none */
	uint64_t storage_bytes; /* that were saved for it, others' too */
	bool whole;             /* its bytes are all there */
	uint64_t nan;      /* NaN elements; null: values were not looked at (PLIM_CKPT_VALUES) */
	uint64_t infinite; /* with PLIM_CKPT_VALUES */
	uint64_t zero;     /* with PLIM_CKPT_VALUES */
	double min;        /* least finite number, with PLIM_CKPT_VALUES */
	double max;        /* largest finite number, with PLIM_CKPT_VALUES */
	uint64_t parts;    /* of files that it is put together from; 0: it lies in one piece */
};

struct plim_ckpt_group {
	const char *prefix;  /* of tensors' names */
	uint64_t tensors;    /* with it */
	uint64_t bytes;      /* of these */
	const char *dtypes;  /* of these */
	const char *devices; /* they were saved from; null: not known */
};

struct plim_ckpt_key {
	const char *name; /* key of the outermost dict, or file of a folder */
	const char *what; /* its value, or what kind of thing it is */
	uint64_t tensors; /* below it */
	uint64_t bytes;   /* of these */
};

struct plim_ckpt_optimizer {
	const char *path;       /* keys that lead to it, empty: the file itself */
	const char *kind;       /* concluded from what its state holds; null: not known */
	uint64_t groups;        /* parameter groups */
	uint64_t parameters;    /* that have state */
	uint64_t state_tensors; /* in its state */
	uint64_t state_bytes;   /* of these */
	double learning_rate;   /* of the first group; null: not known */
};

struct plim_ckpt_fact {
	const char *name;  /* of a config, of metadata, or a module's place */
	const char *value; /* as text */
};

struct plim_ckpt_global {
	const char *name;   /* module and name that the pickle refers to */
	const char *record; /* where it stands */
	/*
	 * plain: allowed by torch.load(weights_only=True); data: a class of a library that holds
	 * data; class: harmless as it is used here; torchscript: a class whose code is in the file;
	 * allowed: by the caller; unknown: on no list; dangerous: runs code
	 */
	const char *trust;
	uint64_t offset; /* behind its opcode, in that record */
	uint64_t times;  /* it is named */
};

struct plim_ckpt {
	const char *path; /* as given */
	/*
	 * torch, torch_legacy, torchscript, exported, zip, pickle, safetensors, sharded, distributed,
	 * folder, tar, gguf, config; unknown: nothing that is read here
	 */
	const char *kind;
	/*
	 * not_verified: only its structure was looked at; whole: every byte has a checksum and all
	 * are right; unproven: nothing is wrong, but some bytes have none; damaged; truncated;
	 * not_a_checkpoint; unknown_code: a pickle names what is on no list; dangerous: a pickle
	 * names what runs code when it is loaded
	 */
	enum plim_ckpt_verdict verdict;
	/* the verdict of the bytes alone: never unknown_code or dangerous */
	enum plim_ckpt_verdict integrity;
	const char *headline;  /* one sentence */
	uint64_t bytes;        /* of all its files */
	uint64_t files;        /* that were read */
	uint64_t tensor_bytes; /* of all tensors, shared ones once each */
	uint64_t elements;     /* of all tensors */
	uint64_t shared_bytes; /* of tensors whose bytes another one has too */
	uint64_t waste_bytes;  /* that were saved but that no tensor reaches */
	/* of a truncated file: what is whole of it, 0 where no tensor is; null: not truncated */
	uint64_t whole_bytes;
	uint64_t verified_bytes;    /* that match their checksum; null: not verified */
	uint64_t unprotected_bytes; /* that have no checksum; null: not verified */
	uint64_t verified_records;  /* that match their checksum; null: not verified */
	/*
	 * of its pickles: plain: torch.load(weights_only=True) loads them; listed: they name what is known, of which nothing
	 * runs code on load; unknown; dangerous; null: no pickle in it
	 */
	const char *pickle;
	struct plim_finding *findings; /* worst first */
	size_t finding_count;
	/* names that its pickles refer to, also those thrown away */
	struct plim_ckpt_global *globals;
	size_t global_count;
	struct plim_ckpt_key *keys; /* what is in it next to single tensors */
	size_t key_count;
	const char **required_missing; /* of --require */
	size_t required_missing_count;
	const char **resume_missing; /* what a resume would also want, of a training checkpoint */
	size_t resume_missing_count;
	struct plim_ckpt_optimizer *optimizers; /* found in it */
	size_t optimizer_count;
	struct plim_ckpt_fact *facts; /* what shows the architecture */
	size_t fact_count;
	struct plim_ckpt_group *groups; /* tensors by prefix */
	size_t group_count;
	struct plim_ckpt_tensor *tensors; /* in the file's order */
	size_t tensor_count;
	struct plim_ckpt_hidden *hidden; /* what owns the memory */
};

/*
 * Read a file or a folder; "/dev/fd/N" is an open file, also one in memory (memfd_create).  What is wrong with it is reported
 * in *out, not as an error: PLIM_E_IO is a file that cannot be opened, PLIM_E_LIMIT one that needs more memory than
 * allowed.
 */
PLIM_API enum plim_status plim_ckpt_open(const char *path, const struct plim_ckpt_options *options,
					 struct plim_ckpt **out, struct plim_err *err);
PLIM_API void plim_ckpt_free(struct plim_ckpt *ckpt);

/*
 * The tensors that a config.json of Hugging Face promises, without bytes: the second of plim_ckpt_diff, which then
 * says whether the first would load.  PLIM_E_FORMAT: it is not a config of a model.
 */
PLIM_API enum plim_status plim_ckpt_open_config(const char *path, struct plim_ckpt **out,
						struct plim_err *err);

/* As JSON, schema ckpt/3 (docs/json.md). */
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
	PLIM_CKPT_NO_MANIFEST = 4, /* write no manifest next to it (plim_ckpt_seal) */
	PLIM_CKPT_ALL = 8,         /* what is not a tensor too, where the new file can carry it */
	PLIM_CKPT_BELOW = 16, /* `patterns` is a name: the tensors below it, without that name */
	/* if the new file cannot keep the form of the old one: only the weights, as a model names them */
	PLIM_CKPT_WEIGHTS = 32
};

struct plim_ckpt_extracted {
	uint64_t tensors;    /* that were written */
	uint64_t left_out;   /* not whole, with PLIM_CKPT_WHOLE_ONLY */
	uint64_t bytes;      /* of tensors */
	uint64_t file_bytes; /* of the file */
	uint64_t xxh3;       /* of the file */
	/* what is not a tensor was carried too: epoch, parameter groups, random states */
	bool state;
	char left_behind[200]; /* PLIM_CKPT_ALL: why it was not; "": it was, or there was none */
	char below[200];       /* what names lost in front ("model."); "": nothing */
	/* PLIM_CKPT_WEIGHTS: mappings that may each be the weights ("model, ema"), so all were written; "": none, or one */
	char parts[200];
	uint64_t passed_over; /* tensors that were not asked for: not below, or not weights */
};

/*
 * Write tensors whose names match one of `patterns` ("a.*|b", * and ? as in a shell) to a new file, durably (see
 * durable.h), and its manifest next to it.  flags: enum plim_ckpt_extract_flags.  With PLIM_CKPT_ALL and
 * PLIM_CKPT_AS_TORCH a file of torch keeps its form, nested and shared as it was, and all that is not a tensor, if its
 * pickle names nothing but constructors that are known; patterns is "*" then.  PLIM_CKPT_WEIGHTS takes the tensors below
 * the one key that is a mapping of weights next to an optimizer's state, or of a folder those of its weight files.
 * PLIM_E_ARG: none matches, or with PLIM_CKPT_ALL a folder holds files that are not one checkpoint;
 * PLIM_E_FORMAT: one is not whole; PLIM_E_UNSUPPORTED: the format cannot carry one; each is named.
 */
PLIM_API enum plim_status plim_ckpt_extract(struct plim_ckpt *ckpt, const char *patterns,
					    unsigned flags, const char *path,
					    struct plim_ckpt_extracted *out, struct plim_err *err);

struct plim_ckpt_sealed {
	uint64_t files; /* in the manifest */
	uint64_t bytes; /* of these files */
};

/*
 * Write a manifest of sizes and XXH3 sums: FILE.manifest.json next to a file, plimsoll.manifest.json in a
 * folder.  plim_ckpt_open with PLIM_CKPT_VERIFY compares with it, which proves bytes that have no checksum of
 * their own.  PLIM_E_FORMAT: *ckpt is damaged, or was not opened with PLIM_CKPT_VERIFY.
 */
PLIM_API enum plim_status plim_ckpt_seal(struct plim_ckpt *ckpt, struct plim_ckpt_sealed *out,
					 struct plim_err *err);

/* ---- a folder of checkpoints ---- */

struct plim_ckpt_last_options {
	uint32_t size; /* set by plim_ckpt_last_options_init */
	/*
	 * PLIM_CKPT_VALUES (-v --values, after --dry-run) NaN and infinities in it make it no good.
	 * PLIM_CKPT_DRY_RUN (-n --dry-run, after --keep) with --keep: remove nothing, tell what
	 * would be removed. PLIM_CKPT_REDACT (--redact, under reading) words in place of names that
	 * public checkpoints do not have
	 */
	uint32_t flags;
	/*
	 * (-k --keep N, 1 to 1000000, under keep) of the newest numbered series, remove what is
	 * older than N good ones. 0: remove nothing
	 */
	uint64_t keep;
	/* (-m --max-memory BYTES, from 1MiB, after --threads) use no more (half of this machine's) */
	uint64_t max_memory_bytes;
	/* (-t --threads N, 1 to 64, after --redact) that read (one a core) */
	uint32_t threads;
	uint32_t unused;   /* 0 */
	const char *allow; /* (C only) as in struct plim_ckpt_options */
};
PLIM_API void plim_ckpt_last_options_init(struct plim_ckpt_last_options *o);

struct plim_ckpt_candidate {
	const char *name;     /* in the folder */
	const char *verdict;  /* of ckpt verify, or unreadable; null: not looked at */
	const char *headline; /* of ckpt verify; null: not looked at */
	bool good;            /* whole or unproven; false: damaged, or not looked at */
	bool best;            /* its name, a measure in it, a link or a trainer's state says so */
	const char *fate;     /* kept, would_be_removed or removed */
};

struct plim_ckpt_last {
	const char *folder;    /* as given */
	const char *last_good; /* path of the newest that is good; null: none is */
	/* that were found good; older ones are not looked at */
	uint64_t good;
	uint64_t removed;                       /* checkpoints */
	struct plim_ckpt_candidate *candidates; /* newest first */
	size_t candidate_count;
	struct plim_ckpt_last_hidden *hidden;
};

/*
 * Verify the checkpoints of a folder (files, or folders), newest first, until one is good, and with keep until
 * `keep` of the newest numbered series are ("step_100.pt", "step_200.pt").  What is older in that series is then
 * removed, except the best: by its name, by a measure in the name ("val_loss=0.12"), by a link to it, or by
 * trainer_state.json.  When fewer than `keep` are good nothing is removed; newer ones that are damaged, and
 * files of other names, always stay.  Finding none is not an error: last_good is then NULL.
 * PLIM_E_ARG: the folder is one checkpoint itself.
 */
PLIM_API enum plim_status plim_ckpt_last_good(const char *folder,
					      const struct plim_ckpt_last_options *options,
					      struct plim_ckpt_last **out, struct plim_err *err);
PLIM_API void plim_ckpt_last_free(struct plim_ckpt_last *last);

/* As JSON, schema ckpt_last/2. */
PLIM_API enum plim_status plim_ckpt_last_json(const struct plim_ckpt_last *last,
					      plim_write_fn *write, void *ctx,
					      struct plim_err *err);

/* ---- two checkpoints ---- */

struct plim_ckpt_difference {
	const char *name; /* in the first, or in the second if only there */
	/* none (values only), dtype, shape, only_in_first, only_in_second */
	const char *change;
	const char *first;      /* dtype and shape; null: not there */
	const char *second;     /* dtype and shape; null: not there */
	uint64_t changed;       /* numbers that differ; null: not compared */
	double max_difference;  /* of finite numbers; null: not compared */
	double mean_difference; /* of finite numbers; null: not compared */
};

struct plim_ckpt_conclusion {
	/*
	 * same, prefix, training_state, rename, width, depth, vocabulary, positions, dtype, head,
	 * tied, lora, lora_rank, names, architecture; with --config also loads, does_not_load,
	 * state_dict, not_judged
	 */
	const char *kind;
	const char *text; /* one sentence */
};

struct plim_ckpt_diff {
	const char *first;   /* as given */
	const char *second;  /* as given */
	bool same;           /* names, shapes and dtypes */
	bool against_config; /* the second is a config.json, without bytes */
	/* against a config: would the first load; null: no config, or a model that is not known */
	enum plim_tri loads;
	struct plim_ckpt_conclusion *conclusions; /* kinds of difference, the most telling first */
	size_t conclusion_count;
	uint64_t equal;          /* tensors of the same name, shape and dtype */
	uint64_t other_dtype;    /* tensors of another dtype, but the same shape */
	uint64_t other_shape;    /* tensors of another shape */
	uint64_t only_in_first;  /* tensors */
	uint64_t only_in_second; /* tensors */
	uint64_t compared;       /* numbers, with --values */
	uint64_t changed;        /* numbers of these that differ */
	uint64_t nonfinite;      /* differences that are not finite */
	/* tensors of one shape whose numbers could not be compared; null: no --values */
	uint64_t not_compared;
	double max_difference;                /* the largest; null: not compared */
	double mean_difference;               /* over all that were compared; null: not compared */
	bool bf16_enough;                     /* the largest is below the threshold */
	struct plim_ckpt_difference *tensors; /* those that differ */
	size_t tensor_count;
	struct plim_ckpt_diff_hidden *hidden;
};

struct plim_ckpt_diff_options {
	uint32_t size; /* set by plim_ckpt_diff_options_init */
	/*
	 * PLIM_CKPT_VALUES (-v --values, under numbers) compare the numbers too. PLIM_CKPT_REDACT
	 * (--redact, under names) words in place of names that public checkpoints do not have
	 */
	uint32_t flags;
	/*
	 * (--threshold X, is 0.01, wants "a number from 0 on", after --values) differences below it
	 * are within what bf16 loses
	 */
	double threshold;
};
PLIM_API void plim_ckpt_diff_options_init(struct plim_ckpt_diff_options *o);

/* Compare two checkpoints; `options` may be NULL.  Both must outlive *out. */
PLIM_API enum plim_status plim_ckpt_diff(const struct plim_ckpt *first,
					 const struct plim_ckpt *second,
					 const struct plim_ckpt_diff_options *options,
					 struct plim_ckpt_diff **out, struct plim_err *err);
PLIM_API void plim_ckpt_diff_free(struct plim_ckpt_diff *diff);

/* As JSON, schema ckpt_diff/2; and as text. */
PLIM_API enum plim_status plim_ckpt_diff_json(const struct plim_ckpt_diff *diff,
					      plim_write_fn *write, void *ctx,
					      struct plim_err *err);
PLIM_API enum plim_status plim_ckpt_diff_text(const struct plim_ckpt_diff *diff,
					      const struct plim_text_style *style,
					      plim_write_fn *write, void *ctx,
					      struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
