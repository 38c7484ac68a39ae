/*
 * Checkpoints on disk, of every kind, as one model: tensors that lie in extents of files.  Nothing in
 * them is run, nothing is written, no name in them is used as a path.
 *
 * ckpt_read looks at structure only: headers, directories, pickles.  ckpt_scan then reads the bytes:
 * checksums, and with CKPT_SCAN_VALUES what the tensors hold.  What is wrong is a finding, not an
 * error: an error is a file that cannot be read at all, or a limit.
 */
#ifndef CHECKPOINT_CHECKPOINT_H
#define CHECKPOINT_CHECKPOINT_H

#include "base/base.h"

#include <plimsoll/weights.h>

#include <stdlib.h>
#include <string.h>

#define CKPT_NONE UINT32_MAX
#define CKPT_DIMS 64 /* PyTorch's own limit */

/* Limits of what an untrusted file may ask for. */
#define CKPT_RECORDS ((uint64_t)1000000)
#define CKPT_TENSORS ((uint64_t)4000000)
#define CKPT_DIRECTORY_BYTES ((uint64_t)256 << 20)
#define CKPT_PICKLE_BYTES ((uint64_t)512 << 20)
#define CKPT_HEADER_BYTES ((uint64_t)100000000) /* safetensors' own */

/* What a checkpoint is, with the name that people and JSON see: a kind without a name cannot be written down. */
#define CKPT_KIND_ROWS(ROW)                                                      \
	ROW(UNKNOWN, "unknown")                                                  \
	ROW(TORCH, "torch")             /* torch.save, zip */                    \
	ROW(LEGACY, "torch_legacy")     /* torch.save before 1.6 */              \
	ROW(SCRIPT, "torchscript")      /* TorchScript */                        \
	ROW(EXPORTED, "exported")       /* torch.export.save (.pt2) */           \
	ROW(ZIP, "zip")                 /* a zip of something else */            \
	ROW(PICKLE, "pickle")           /* a bare pickle */                      \
	ROW(SAFETENSORS, "safetensors") /* one file */                           \
	ROW(SHARDED, "sharded")         /* a folder: files and an index */       \
	ROW(DISTRIBUTED, "distributed") /* of torch.distributed.checkpoint */    \
	ROW(FOLDER, "folder")           /* several files: Hugging Face, PEFT */  \
	ROW(TAR, "tar")                 /* others, or torch's own before 2017 */ \
	ROW(GGUF, "gguf")               /* llama.cpp's */                        \
	ROW(CONFIG, "config")           /* what a config.json promises */

enum ckpt_kind {
#define CKPT_KIND_MEMBER(id, name) CKPT_KIND_##id,
	CKPT_KIND_ROWS(CKPT_KIND_MEMBER)
#undef CKPT_KIND_MEMBER
		CKPT_KINDS
};

/* How a number is laid out: what a scan of values must know. */
enum ckpt_number {
	CKPT_BITS, /* no numbers in it that could be judged */
	CKPT_UNSIGNED,
	CKPT_SIGNED,
	CKPT_BOOL,
	CKPT_F16,
	CKPT_BF16,
	CKPT_F32,
	CKPT_F64,
	CKPT_E5M2,     /* infinity and NaN as in IEEE 754 */
	CKPT_E4M3,     /* no infinity, NaN 0x7f and 0xff */
	CKPT_E4M3FNUZ, /* no infinity, NaN 0x80 */
	CKPT_E5M2FNUZ, /* the same */
	CKPT_EXPONENT, /* 8 bits of exponent, NaN 0xff */
};

struct ckpt_dtype {
	const char *name;        /* as torch prints it: "bfloat16" */
	const char *safetensors; /* "BF16"; NULL: safetensors has none */
	const char *storage;     /* class in torch's pickles, "BFloat16Storage"; NULL: untyped */
	uint32_t bits;           /* of an element; several of it when parts > 1 are packed */
	uint32_t parts;          /* numbers an element has: 2 for complex */
	enum ckpt_number number;
	uint16_t block,
		block_bytes; /* of ggml: so many elements are packed in so many bytes; else 0 */
};

extern const struct ckpt_dtype ckpt_dtypes[];
extern const size_t ckpt_dtype_count;

/* Each NULL when there is none of that name. */
const struct ckpt_dtype *ckpt_dtype_of_torch(const char *name);
const struct ckpt_dtype *ckpt_dtype_of_storage(const char *storage);
const struct ckpt_dtype *ckpt_dtype_of_safetensors(const char *name);

struct ckpt_file {
	const char *name; /* as given, or within the folder */
	int fd;           /* -1: its bytes are `memory`, which is borrowed */
	const uint8_t *memory;
	uint64_t bytes;
	int64_t written_ns; /* when it was last, by its time stamp, when it was opened */
	bool sealed;        /* it is what a manifest says, every bit */
	bool may_be_else;   /* of a folder, and by its name not surely a checkpoint */
};

/* What a manifest says of a file. */
struct ckpt_seal {
	uint32_t file;
	uint64_t bytes, xxh3;
};

enum ckpt_check {
	CKPT_CHECK_NOTHING, /* the format has no checksum */
	CKPT_CHECK_CRC,
	CKPT_CHECK_OFF /* the format has one, the writer left it out */
};

enum ckpt_state { CKPT_UNREAD, CKPT_GOOD, CKPT_BAD, CKPT_CUT };

/* Bytes that lie together: a record of a zip, a storage, a tensor of safetensors. */
struct ckpt_extent {
	uint32_t file, name;
	uint64_t offset, stored_bytes; /* in the file */
	uint64_t bytes;                /* when inflated */
	uint32_t crc;
	const struct ckpt_dtype *storage; /* what a pickle says that it holds; NULL: none says so */
	uint32_t tensors;                 /* that lie in it */
	uint8_t deflated;
	uint8_t inside; /* of another one, which is counted */
	uint8_t check;  /* enum ckpt_check */
	uint8_t state;  /* enum ckpt_state */
};

struct ckpt_values {
	uint64_t numbers, nan, infinite, zero; /* numbers 0: not looked at */
	double min, max;                       /* of the finite ones */
	bool constant;                         /* all bytes repeat the first element's */
};

enum ckpt_tensor_flags {
	CKPT_PARAMETER = 1,
	CKPT_REQUIRES_GRAD = 2,
	CKPT_CONJUGATE = 4, /* the bytes are those of its conjugate, or negative */
	CKPT_QUANTIZED = 8,
	CKPT_META = 16,  /* has no bytes by design */
	CKPT_PART = 32,  /* of a sparse, nested or wrapped tensor */
	CKPT_SHARD = 64, /* part of a larger tensor, whose rest is elsewhere */
	CKPT_CHUNK =
		128, /* at its origin within a larger tensor of the same name in this checkpoint */
	CKPT_JOINED = 256, /* in parts: c->pieces[first .. first + parts), each at its origin */
	CKPT_FLAT =
		512, /* of a joined one: the parts are runs, their origins places in row-major order */
};

/* shape, strides: ckpt->dims[dims .. dims + 2 * rank); of a shard: another rank for where it begins. */
struct ckpt_tensor {
	uint32_t name, location; /* location: device it was saved from, CKPT_NONE unknown */
	const struct ckpt_dtype *dtype;
	uint32_t extent; /* CKPT_NONE: no bytes */
	uint16_t rank;
	uint16_t flags;
	uint64_t offset; /* within the extent, in elements */
	uint64_t count;  /* elements */
	uint64_t dims;
	uint32_t first,
		parts; /* it and others make up one value, of a sparse tensor for one: these; 0 parts: it alone */
	struct ckpt_values values;
};

enum ckpt_severity { CKPT_NOTE, CKPT_WARN, CKPT_BAD_FINDING };

struct ckpt_finding {
	enum ckpt_severity severity;
	const char *kind; /* a slug, static storage: "crc_mismatch" */
	uint32_t text;
	uint64_t offset; /* in the file, or PLIM_UNKNOWN */
};

/* What a name in a pickle is, worst last; up to CKPT_ALLOWED a checkpoint is called listed. */
enum ckpt_trust {
	CKPT_PLAIN,   /* torch.load(weights_only=True) allows it */
	CKPT_DATA,    /* a class of a known library that holds data */
	CKPT_CLASS,   /* harmless as it is used here: made empty, not called, a member of an enum */
	CKPT_SCRIPT,  /* a class of TorchScript, whose code is in the archive and was looked at */
	CKPT_ALLOWED, /* on the caller's list */
	CKPT_UNKNOWN, /* on no list */
	CKPT_DANGEROUS
};

struct ckpt_global {
	uint32_t name, record; /* record: where it stands */
	uint64_t offset;       /* of the opcode, in that pickle */
	enum ckpt_trust trust;
	uint8_t rule; /* enum policy_rule: when it is harmless */
	uint64_t times;
};

/* A key of the outermost dict, or a part of a folder. */
struct ckpt_key {
	uint32_t name, what; /* what: "dict of 24", "3", "'abc'" */
	uint64_t tensors, bytes;
};

struct ckpt_optimizer {
	uint32_t path;    /* the dict's name, "" for the file itself */
	const char *kind; /* static storage, NULL: not known */
	uint64_t groups, parameters, state_tensors, state_bytes;
	uint64_t grouped; /* parameters in its groups */
	uint64_t
		lacking; /* of these without state, or with less than the others have; 0 where none has any */
	double learning_rate; /* of the first group; NaN: not known */
};

/* What is known of the architecture: "model_type" -> "llama". */
struct ckpt_fact {
	uint32_t name, value;
};

/* What a file of DeepSpeed says of a parameter of its model (zero.c). */
enum ckpt_zero_kind {
	CKPT_ZERO_PARAMETER, /* trained: in the flat groups, in this order */
	CKPT_ZERO_FROZEN,
	CKPT_ZERO_BUFFER,
	CKPT_ZERO_SHARED, /* another name of `other` */
	CKPT_ZERO_PADDING /* `count` elements behind the parameter of that number in its group */
};

struct ckpt_zero {
	enum ckpt_zero_kind kind;
	uint32_t prefix, name, other; /* prefix: of the file's tensors */
	uint32_t group;
	uint16_t rank;
	uint64_t dims, count; /* sizes: ckpt->dims[dims .. dims + rank) */
};

struct ckpt {
	struct mem *mem;
	const char *path;
	const char *inside; /* while a folder's folder is read: "global_step5/"; else NULL */
	const char
		*allow; /* names in pickles that the caller knows: see policy_is_allowed; or NULL */
	enum ckpt_kind kind;
	unsigned
		nested; /* files around this one, of which each holds the next in bytes of a pickle */
	struct intern strings;
	VEC(struct ckpt_file) files;
	VEC(struct ckpt_extent) extents;
	VEC(struct ckpt_tensor) tensors;
	VEC(struct ckpt_tensor) wholes, pieces; /* see ckpt_join */
	VEC(struct ckpt_zero) zero;
	VEC(uint64_t) dims;
	VEC(struct ckpt_finding) findings;
	VEC(struct ckpt_global) globals;
	VEC(uint32_t)
	global_of; /* by the id of a string: where in globals it may be, see globals.c */
	VEC(struct ckpt_key) keys;
	VEC(struct ckpt_optimizer) optimizers;
	VEC(struct ckpt_fact) facts;
	VEC(struct ckpt_seal) seals; /* of its manifest */
	uint64_t bytes;              /* of all files */
	bool truncated, pickled, unreadable, big_endian;
	bool many_globals; /* more names than are kept, or some that were not read */
	bool refused;      /* torch.load(weights_only=True) refuses an opcode or a kind of value */
	bool merged;       /* c->wholes are all that ckpt_join leaves */
	const char *apart; /* why the parts of tensors cannot be joined, static storage; or NULL */
	uint32_t
		root; /* of a single file of torch, its pickle: the extent, or of a legacy file CKPT_NONE */
	uint64_t root_at, root_bytes; /* and its place in the file; 0 bytes: there is none */
	uint64_t whole_bytes;         /* of a truncated file: in records that are whole */
	uint64_t verified_bytes, unprotected_bytes; /* after ckpt_scan */
	uint64_t verified_records;
};

/* A checkpoint at `path`, a file or a folder; path is borrowed.  Always ended with ckpt_close. */
void ckpt_init(struct ckpt *c, struct mem *m);
enum plim_status ckpt_read(struct ckpt *c, const char *path, struct plim_err *err);
void ckpt_close(struct ckpt *c);

/* What is broken in the model, or NULL (check.c). */
const char *ckpt_check(const struct ckpt *c);

enum ckpt_scan_flags { CKPT_SCAN_VALUES = 1 };

/* Read the bytes with `threads` threads (0: one a core).  What is wrong becomes findings. */
enum plim_status ckpt_scan(struct ckpt *c, unsigned flags, unsigned threads, struct plim_err *err);

/*
 * Tensors that lie in parts become one each, under their names: chunks of torch.distributed.checkpoint, ZeRO's
 * partitions.  After ckpt_scan, which looks at the parts; pointers into c->tensors end here.  What cannot be joined
 * stays as it is.
 */
enum plim_status ckpt_join(struct ckpt *c, struct plim_err *err);

/* ---- what is reported of a checkpoint ---- */

/* Of the bytes, and of all; the names for people are those of enum plim_ckpt_verdict. */
enum ckpt_verdict {
	CKPT_NOT_VERIFIED, /* its bytes were not read */
	CKPT_WHOLE,
	CKPT_UNPROVEN,
	CKPT_DAMAGED,
	CKPT_TRUNCATED,
	CKPT_NOT_A_CHECKPOINT,
	CKPT_UNKNOWN_CODE,
	CKPT_RUNS_CODE
};

struct ckpt_judgement {
	enum ckpt_verdict verdict, integrity; /* integrity: of the bytes alone */
	enum ckpt_trust trust;                /* the worst of the names in its pickles */
	const char *headline;                 /* in one sentence: of the checkpoint, or room */
	char room[1000];
};

enum ckpt_trust ckpt_trust_of(const struct ckpt *c);
/* Does torch.load(weights_only=True) load it, if its bytes are right? */
bool ckpt_is_plain(const struct ckpt *c);
/* scanned: ckpt_scan has read it; missing: required keys that are not there, the first of them. */
void ckpt_judge(const struct ckpt *c, bool scanned, size_t missing, const char *first,
		struct ckpt_judgement *j);

#define CKPT_GROUPS 24

struct ckpt_groups {
	struct intern prefixes; /* as many rows are filled as it has texts */
	struct {
		uint64_t tensors, bytes;
		char dtypes[120], devices[120];
	} rows[CKPT_GROUPS];
};

/* Tensors by prefixes of their names; ended with ckpt_groups_release in every case. */
enum plim_status ckpt_group(const struct ckpt *c, struct ckpt_groups *g, struct plim_err *err);
void ckpt_groups_release(struct ckpt_groups *g);

#define CKPT_WANTS 12 /* things that a complete resume wants */

/* Is it a key, a file of a folder without its ending, or the beginning of tensors' names? */
bool ckpt_has_key(const struct ckpt *c, const char *key, size_t n);
/* What of a training checkpoint a complete resume would miss, in words of static storage; how many. */
size_t ckpt_resume_missing(const struct ckpt *c, const char *missing[CKPT_WANTS]);

/* ---- out of it ---- */

/* Does a name match one of "a.*|b"? */
bool ckpt_is_wanted(const char *name, const char *patterns);

/* Takes the next bytes of a tensor, `at` bytes behind its first; at most 1 MiB at a time. */
typedef enum plim_status ckpt_sink_fn(void *ctx, uint64_t at, const void *bytes, size_t n,
				      struct plim_err *err);

/*
 * A tensor's elements, packed, in row-major order; compared with the checksum of its record where it fills
 * that alone: PLIM_E_FORMAT.  PLIM_E_UNSUPPORTED: it cannot be laid out so.
 */
enum plim_status ckpt_load(struct ckpt *c, size_t tensor, ckpt_sink_fn *sink, void *ctx,
			   struct plim_err *err);

/* The elements of a tensor where they lie in one file, as they are wanted. */
struct ckpt_place {
	uint32_t file;
	uint64_t at, bytes;
	bool checked; /* they have a checksum of their own: that */
	uint32_t crc;
};

/*
 * as_stored: in the order in which a dense tensor lies, whatever its strides; else in row-major order.  False: they are to be
 * put together, or cannot be read: ckpt_load does, or says why.
 */
bool ckpt_find(const struct ckpt *c, size_t tensor, bool as_stored, struct ckpt_place *out);
/* Are its files what they were when they were opened, by size and time stamp?  PLIM_E_IO: one is not. */
enum plim_status ckpt_same(const struct ckpt *c, struct plim_err *err);

struct ckpt_sealed {
	uint64_t files, bytes;
};

enum ckpt_extract_flags {
	CKPT_WHOLE_ONLY = 1,  /* leave out what is not whole, instead of failing */
	CKPT_AS_TORCH = 2,    /* as torch.save writes it, not as safetensors */
	CKPT_NO_MANIFEST = 4, /* next to the file */
	CKPT_ALL = 8,    /* all of it, with what is not a tensor where the format carries that */
	CKPT_BELOW = 16, /* patterns is a name: only the tensors below it, without it */
	CKPT_WEIGHTS =
		32 /* of a file that cannot keep its form only the weights, as a model names them */
};

struct ckpt_extracted {
	size_t tensors, left_out; /* left out: not whole */
	uint64_t bytes;           /* of tensors */
	uint64_t file_bytes;
	uint64_t xxh3; /* of the file */
	bool state;    /* what is not a tensor was carried too: as nested and shared as it was */
	char left_behind[200]; /* CKPT_ALL: why it was not; "": it was, or there was none */
	char repaired
		[480]; /* what the new file says of itself under CKPT_FACT_REPAIRED; "": nothing */
	size_t skip;   /* bytes that names lose in front, as below has them with their separator */
	size_t passed_over; /* of CKPT_WEIGHTS: tensors that are not weights */
	char below[200];    /* what names lost in front; "": nothing */
	char parts
		[200]; /* of CKPT_WEIGHTS: mappings that may each be the weights, so all were taken */
};

/*
 * Write the tensors whose names match `patterns` ("a*|b") to a file, durably; flags of ckpt_extract_flags.
 * With CKPT_ALL | CKPT_AS_TORCH a torch file keeps its form, and its training state.
 * PLIM_E_FORMAT: one is not whole; PLIM_E_UNSUPPORTED: the format cannot carry one.
 */
enum plim_status ckpt_extract(struct ckpt *c, const char *patterns, unsigned flags,
			      const char *path, struct ckpt_extracted *told, struct plim_err *err);

/*
 * Write the manifest of what was read: sizes and XXH3 sums of the file, or of all files of the folder.
 * FILE.manifest.json stands next to a file, plimsoll.manifest.json in a folder.
 */
enum plim_status ckpt_seal(struct ckpt *c, struct ckpt_sealed *told, struct plim_err *err);

/* ---- a folder of them ---- */

enum ckpt_fate { CKPT_KEPT, CKPT_WOULD_GO, CKPT_GONE };

struct ckpt_series_entry {
	const char *name;
	bool good;           /* ckpt_series_keep has found it so */
	enum ckpt_fate fate; /* the same */
	bool folder, best;   /* best: its name, a measure in it, or a link of the folder says so */
	uint64_t bytes;      /* PLIM_UNKNOWN: a folder */
	uint64_t number;     /* how far training was, by its name; 0 without */
	double measure;      /* in its name, smaller is better; NaN without */
	double fraction;     /* in its name, of an unknown kind; NaN without */
	uint64_t state; /* of the file, or the folder and what lies in it, when it was listed */
	uint32_t
		pattern; /* equal: names of one series, which differ in progress and measures only */
	int64_t time_ns, pattern_time_ns;
};

struct ckpt_series {
	struct mem *mem;
	const char *path; /* the caller's */
	int dir;
	struct intern strings;
	VEC(struct ckpt_series_entry) entries; /* newest first */
};

/*
 * The checkpoints in the folder `path`, files or folders; names beginning with a dot and links are none.
 * PLIM_E_ARG: it is one checkpoint itself.  Ended with ckpt_series_close in every case.
 */
enum plim_status ckpt_series_open(struct ckpt_series *s, struct mem *m, const char *path,
				  struct plim_err *err);
void ckpt_series_close(struct ckpt_series *s);
/* The one that `path` leads to or through is the best. */
void ckpt_series_mark_best(struct ckpt_series *s, const char *path);
/* So are those that links of the folder point to, as they stand now. */
enum plim_status ckpt_series_mark_links(struct ckpt_series *s, struct plim_err *err);
/* Is entry i what it was when the folder was listed: there, and nothing in it written since? */
bool ckpt_series_is_unchanged(const struct ckpt_series *s, size_t i);
/* Remove entry i, with its manifest; links inside are not followed. */
enum plim_status ckpt_series_remove(struct ckpt_series *s, size_t i, struct plim_err *err);

struct ckpt_keep {
	uint64_t keep; /* of the newest numbered series: so many good ones; 0: all that there are */
	bool dry;      /* remove nothing */
	/* Is entry i good?  Its failure ends all. */
	enum plim_status (*verify)(void *ctx, size_t i, bool *good, struct plim_err *err);
	void *ctx;
	uint32_t last_good; /* the newest entry that is good; CKPT_NONE: none is */
	uint64_t removed;   /* how many went, or would */
};

/* Look at the newest first, until enough are good; then take away what is older. */
enum plim_status ckpt_series_keep(struct ckpt_series *s, struct ckpt_keep *k, struct plim_err *err);

/* ---- what a config promises ---- */

#define CKPT_FACT_VOCABULARY "vocab_size"
#define CKPT_FACT_HIDDEN "hidden_size"
#define CKPT_FACT_LAYERS "num_hidden_layers"
#define CKPT_FACT_REPAIRED \
	"plimsoll.repaired" /* what repair left out of it: metadata, or a record of torch's zip */
#define CKPT_FACT_WORLD "dp_world_size" /* of DeepSpeed, that wrote a checkpoint */

/*
 * In place of ckpt_read: the tensors that a model of the config.json at `path` has, without bytes.  Of an
 * architecture that is not known here there are none, only the facts above.  PLIM_E_FORMAT: it is not a config.
 */
enum plim_status ckpt_promise(struct ckpt *c, const char *path, struct plim_err *err);

/* ---- two next to each other ---- */

enum ckpt_change {
	CKPT_CHANGE_NONE,
	CKPT_CHANGE_DTYPE, /* the same shape */
	CKPT_CHANGE_SHAPE,
	CKPT_CHANGE_ONLY_A,
	CKPT_CHANGE_ONLY_B,
	CKPT_CHANGES
};

struct ckpt_pair {
	uint32_t a, b; /* tensors, CKPT_NONE on the side that has none */
	enum ckpt_change change;
	uint64_t compared, changed, nonfinite;  /* numbers; compared 0: not looked at */
	double max_difference, mean_difference; /* of finite ones; NaN: not looked at, or bits */
};

struct ckpt_conclusion {
	const char *kind; /* static storage: "prefix" */
	char text[700];
};

#define CKPT_PREFIX_BYTES 200

struct ckpt_compare {
	const struct ckpt *a, *b;
	char prefix[2][CKPT_PREFIX_BYTES]; /* taken off the names of a and b */
	const char *loads; /* b is a config: "yes", "no", "unknown"; else NULL; static storage */
	size_t counts[CKPT_CHANGES];
	size_t unread;                           /* pairs whose values could not be compared */
	VEC(struct ckpt_pair) pairs;             /* in a's order, then what only b has */
	VEC(struct ckpt_conclusion) conclusions; /* the most telling first */
};

/* Both stay the caller's and must outlive *d, which is ended with ckpt_compare_release in every case. */
enum plim_status ckpt_compare(struct ckpt_compare *d, const struct ckpt *a, const struct ckpt *b,
			      bool values, struct plim_err *err);
void ckpt_compare_release(struct ckpt_compare *d);

static inline const char *ckpt_text(const struct ckpt *c, uint32_t id)
{
	return id == CKPT_NONE ? "" : intern_text(&c->strings, id);
}

/* What a config said, as a number; 0: nothing, or no number. */
static inline uint64_t ckpt_fact_number(const struct ckpt *c, const char *name)
{
	for (size_t i = 0; i < c->facts.n; i++)
		if (!strcmp(ckpt_text(c, c->facts.at[i].name), name))
			return strtoull(ckpt_text(c, c->facts.at[i].value), NULL, 10);
	return 0;
}

static inline const uint64_t *ckpt_shape(const struct ckpt *c, const struct ckpt_tensor *t)
{
	return c->dims.at + t->dims;
}

/* Lists of no numbers have no place in memory (a model of scalars holds none), so memcmp may not see them. */
static inline bool ckpt_same_dims(const uint64_t *a, const uint64_t *b, size_t rank)
{
	return !rank || !memcmp(a, b, rank * sizeof(*a));
}

static inline const uint64_t *ckpt_strides(const struct ckpt *c, const struct ckpt_tensor *t)
{
	return c->dims.at + t->dims + t->rank;
}

/* Where a CKPT_CHUNK or CKPT_SHARD begins in the whole. */
static inline const uint64_t *ckpt_origin(const struct ckpt *c, const struct ckpt_tensor *t)
{
	return c->dims.at + t->dims + 2 * (size_t)t->rank;
}

/* Bytes of its elements, packed. */
static inline uint64_t ckpt_tensor_bytes(const struct ckpt_tensor *t)
{
	if (t->dtype && t->dtype->block)
		return t->count / t->dtype->block * t->dtype->block_bytes;
	return t->dtype ? (t->count * t->dtype->bits + 7) / 8 : 0;
}

/* Are all its bytes there, and right as far as was looked, and those of what it makes up one value with? */
bool ckpt_is_whole(const struct ckpt *c, size_t tensor);
/* Is it one run of elements, in whatever order of dimensions? */
bool ckpt_is_dense(const struct ckpt *c, const struct ckpt_tensor *t);
/* Is it dense in row-major order? */
bool ckpt_is_contiguous(const struct ckpt *c, const struct ckpt_tensor *t);

/* Read up to n bytes; *got < n at the file's end. */
enum plim_status ckpt_pread(const struct ckpt *c, uint32_t file, uint64_t offset, void *at,
			    size_t n, size_t *got, struct plim_err *err);

/* Changes when the file, or what lies in the folder, is written, replaced or taken away; 0: it is not there. */
uint64_t ckpt_state(const char *path);

/* ---- torch_zip.c, write_tree.c: a file for torch.load, whose bytes are known later ---- */

#define TORCH_FOLDER "archive/"

struct torch_record {
	char name[64];          /* "archive/data/0" */
	uint64_t header, bytes; /* where it begins; of its data */
	uint32_t crc;           /* of its data */
};

/* Before its data, which begin at a multiple of 64; behind them; and its line of the directory at the end. */
void torch_record_begin(struct text *t, const struct torch_record *r);
void torch_record_end(struct text *t, const struct torch_record *r);
void torch_record_list(struct text *t, const struct torch_record *r);
#define TORCH_END_CRC 4 /* where in these two the checksum stands, of 4 bytes, little-endian */
#define TORCH_LIST_CRC 16
/* Behind the directory of `bytes` at `from`, of n records. */
void torch_directory_end(struct text *t, uint64_t from, uint64_t bytes, uint64_t n);

struct torch_tensor {
	const struct ckpt_dtype *dtype;
	const uint64_t *shape;
	size_t rank;
	uint32_t storage; /* the number of its record */
};

void torch_pickle_string(struct text *t, const char *s, size_t n);
/* Row-major, at the beginning of its storage. */
void torch_pickle_tensor(struct text *t, const struct torch_tensor *x);

/* Fills *out; false: there is none of that name. */
typedef bool torch_find_fn(void *ctx, const char *name, struct torch_tensor *out);

/*
 * A pickle, without its end, of a value that is written as JSON.  Objects are dicts, except for those of one member:
 *	{"$tensor": "name"}  {"$tuple": [...]}  {"$items": [[key, value], ...]}  {"$float": "nan"}
 *	{"$torch": "torch.bfloat16"}  {"$latin1": "bytes as characters"}
 *	{"$set": [...]}, which becomes a list  {"$ndarray": value}, which becomes that value
 * PLIM_E_ARG: it is not that; what else json.h says.
 */
enum plim_status torch_pickle_tree(struct mem *m, struct text *out, const void *json, size_t n,
				   torch_find_fn *find, void *ctx, struct plim_err *err);

/* ---- a cache of tensors, whose other functions are plimsoll/weights.h's own ---- */

/* Who takes and fills the memory of a whole set; fill NULL: the cache itself, a tensor at a time. */
struct ckpt_bulk {
	enum plim_status (*take)(void *ctx, uint64_t bytes, void **where, struct plim_err *err);
	/* tensors[i] to at[i].where: memory of the host, or what the caller's place gave, on that stream */
	enum plim_status (*fill)(void *ctx, struct ckpt *c, const uint32_t *tensors,
				 const struct plim_weights_set *at, void *const *stream,
				 struct plim_err *err);
	void (*drop)(void *ctx, void *where, uint64_t bytes);
	void *ctx;
};

enum plim_status ckpt_cache_new(const struct plim_weights_options *o, const struct ckpt_bulk *bulk,
				struct plim_weights **out, struct plim_err *err);

/* ---- the files of a manifest: of a file, of a folder, and of a checkpoint that was saved with its step ---- */

#define MANIFEST_ROWS 100000
#define MANIFEST_NAME 256 /* of a file in a folder, with its NUL */

struct manifest_row {
	char name[MANIFEST_NAME];
	uint64_t bytes, xxh3;
};

/* The object that `first` begins.  PLIM_E_FORMAT: it has no name of a file, size or sum. */
enum plim_status manifest_row_read(struct json *j, const struct json_token *first,
				   struct manifest_row *out, struct plim_err *err);

/* A manifest that is being written; between the two, members of its own. */
struct manifest_out {
	struct text text;
	struct json_out json;
};
void manifest_begin(struct manifest_out *o, struct mem *m);
void manifest_files(struct manifest_out *o);
void manifest_file(struct manifest_out *o, const char *name, uint64_t bytes, uint64_t xxh3);
/* Durably, or not at all; what it took is given back in every case. */
enum plim_status manifest_end(struct manifest_out *o, struct mem *m, const char *path,
			      struct plim_err *err);

#endif
