/* What the readers of this folder share. */
#ifndef CHECKPOINT_PARTS_H
#define CHECKPOINT_PARTS_H

#include "checkpoint.h"
#include "pickle/pickle.h"

#include <dirent.h>

static inline bool ckpt_text_is_one_of(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(text, words[i]))
			return true;
	return false;
}

/* Does it end with `with`, and begin with something else? */
static inline bool ckpt_text_ends(const char *text, const char *with)
{
	size_t n = strlen(text), k = strlen(with);

	return n > k && !strcmp(text + n - k, with);
}

/* ---- model.c ---- */

struct stat;
/* The time stamp of what a file holds. */
int64_t ckpt_written_ns(const struct stat *info);

uint32_t ckpt_model_string(struct ckpt *c, const char *text, size_t n, enum plim_status *st,
			   struct plim_err *err);
uint32_t ckpt_model_printf(struct ckpt *c, enum plim_status *st, struct plim_err *err,
			   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The name of a file of the folder that is read, as it is reported: with c->inside in front. */
uint32_t ckpt_model_path(struct ckpt *c, const char *name, enum plim_status *st,
			 struct plim_err *err);

/* Something to tell; `offset` PLIM_UNKNOWN: of no single byte.  At most FINDINGS of a kind are kept. */
enum plim_status ckpt_model_find(struct ckpt *c, enum ckpt_severity severity, const char *kind,
				 uint64_t offset, struct plim_err *err, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));

/* What to call per file in a sentence: its name where it is one of several, else "the file". */
const char *ckpt_model_file(const struct ckpt *c, uint32_t file);

/* *got bytes of what is at the place, all or an error that says how much is missing. */
enum plim_status ckpt_model_read(struct ckpt *c, uint32_t file, uint64_t offset, uint64_t n,
				 uint64_t limit, const char *what, uint8_t **out,
				 struct plim_err *err);

/* How many of the tensors from `first` on are whole; *lost: the name of the first that is not, NULL without. */
size_t ckpt_model_whole(const struct ckpt *c, size_t first, const char **lost);

/* Bytes that are not a tensor's and have no checksum: a header, a pickle. */
enum plim_status ckpt_model_unchecked(struct ckpt *c, uint32_t file, const char *name,
				      uint64_t offset, uint64_t bytes, struct plim_err *err);

/* Add a tensor of `rank` sizes; strides NULL: row-major; origin NULL: none.  Fills count and dims. */
enum plim_status ckpt_model_tensor(struct ckpt *c, struct ckpt_tensor t, const uint64_t *sizes,
				   const uint64_t *strides, const uint64_t *origin,
				   struct plim_err *err);

/* The same for a tensor that is not one of c->tensors: row-major; fills *t's count and dims. */
enum plim_status ckpt_model_lay(struct ckpt *c, struct ckpt_tensor *t, const uint64_t *sizes,
				const uint64_t *origin, struct plim_err *err);

/*
 * The product of sizes, and of the elements that strides reach, checked: false when either does not
 * fit 64 bits.  *reach is 0 without elements, else the last element's index plus 1.
 */
bool ckpt_model_reach(const uint64_t *sizes, const uint64_t *strides, size_t rank, uint64_t offset,
		      uint64_t *count, uint64_t *reach);

/* What shows the architecture; the same again is not kept twice. */
enum plim_status ckpt_model_fact(struct ckpt *c, struct ckpt_fact f, struct plim_err *err);
const char *ckpt_model_fact_of(const struct ckpt *c, const char *name); /* "": there is none */

/* ---- open.c ---- */

/* Open a file of the folder `dir` (AT_FDCWD: anywhere), never following a link inside a folder. */
enum plim_status open_file(struct ckpt *c, int dir, const char *name, uint32_t *file,
			   struct plim_err *err);
/* Read what the file is, by its bytes; tensors' names get `prefix` in front. */
enum plim_status open_any(struct ckpt *c, uint32_t file, const char *prefix, struct plim_err *err);

/* May a file that begins so be unpickled, by torch, joblib, NumPy or Python? */
bool open_may_unpickle(const uint8_t *head, size_t n);

/* ---- unchecked.c ---- */

/* What lies in a folder, and below, and is none of c->files: it is judged if it may be unpickled, else counted. */
enum plim_status unchecked_look(struct ckpt *c, int dir, struct plim_err *err);

/* ---- texts.c: JSON files ---- */

/* Called for each member of the outermost object; reads its value. */
typedef enum plim_status ckpt_text_key_fn(struct ckpt *c, struct json *j, const char *key,
					  void *ctx, struct plim_err *err);
/* A file that is no JSON becomes a finding. */
enum plim_status ckpt_text_read(struct ckpt *c, int dir, const char *name, ckpt_text_key_fn *key,
				void *ctx, struct plim_err *err);
/* The next value as text: scalars, and the texts of a short list; else CKPT_NONE. */
enum plim_status ckpt_text_scalar(struct ckpt *c, struct json *j, uint32_t *what,
				  struct plim_err *err);

/* ---- manifest.c ---- */

#define CKPT_MANIFEST_BESIDE ".manifest.json" /* behind a file's name */

/* If there is a manifest of the file c->path (dir AT_FDCWD), or in the folder `dir`: what it names. */
enum plim_status manifest_read(struct ckpt *c, int dir, struct plim_err *err);
/* Compare the files with it; those that match are sealed. */
enum plim_status manifest_check(struct ckpt *c, struct plim_err *err);
/*
 * A file of that size and sum is about to replace the one at `path`: where that one has a manifest, it vouches for
 * either from now on, so that it is right whenever the machine dies.  Then, when it stands, write its own or none.
 */
enum plim_status manifest_announce(struct mem *m, const char *path, uint64_t bytes, uint64_t xxh3,
				   struct plim_err *err);
enum plim_status manifest_write_beside(struct mem *m, const char *path, uint64_t bytes,
				       uint64_t xxh3, struct plim_err *err);
enum plim_status manifest_remove(struct mem *m, const char *path, struct plim_err *err);

/* ---- zip.c ---- */

struct zip {
	uint32_t file;
	uint64_t base, bytes; /* the archive's place within the file */
	uint32_t first, n;    /* its records in c->extents */
	uint64_t directory;   /* offset in the file */
	bool damaged;         /* records are not where or what the directory says */
	bool broken;          /* the directory itself cannot be followed to its end */
};

/* PLIM_E_FORMAT with no directory to be found: then the file is cut, or no zip.  z->broken: its records are not all. */
enum plim_status zip_read(struct ckpt *c, uint32_t file, uint64_t base, uint64_t bytes,
			  struct zip *z, struct plim_err *err);
/* The same without a directory, from the local headers: what is whole of a cut file. */
enum plim_status zip_salvage(struct ckpt *c, uint32_t file, uint64_t base, uint64_t bytes,
			     struct zip *z, struct plim_err *err);
/* The first record of that name (ASCII case does not matter, as in torch), CKPT_NONE without. */
uint32_t zip_find(const struct ckpt *c, const struct zip *z, const char *name);
/* A record's bytes, inflated: freed with mem_free(c->mem, *out, n, 1). */
enum plim_status zip_get(struct ckpt *c, uint32_t record, uint64_t limit, uint8_t **out, size_t *n,
			 struct plim_err *err);

/* ---- torch.c, legacy.c, safetensors.c, distributed.c, folder.c ---- */

enum plim_status torch_read_zip(struct ckpt *c, uint32_t file, uint64_t base, uint64_t bytes,
				const char *prefix, struct plim_err *err);
enum plim_status legacy_read(struct ckpt *c, uint32_t file, const char *prefix,
			     struct plim_err *err);
/* Does torch.load take a file that begins so for a tar? */
bool tarred_is(const uint8_t *head, size_t n);
enum plim_status tarred_read(struct ckpt *c, uint32_t file, const char *prefix,
			     struct plim_err *err);
enum plim_status gguf_read(struct ckpt *c, uint32_t file, const char *prefix, struct plim_err *err);
enum plim_status safetensors_read(struct ckpt *c, uint32_t file, const char *prefix,
				  struct plim_err *err);
enum plim_status distributed_read(struct ckpt *c, int dir, struct plim_err *err);
enum plim_status folder_read(struct ckpt *c, int dir, struct plim_err *err);

/* A folder's entries, sorted; the texts are c's. */
struct folder_names {
	const char **at;
	size_t n, cap;
};
/* Does a file's name end as those of checkpoints do? */
bool folder_is_checkpoint_name(const char *name);
/* Is `name` in the folder `dir` a folder with a checkpoint?  A link is none. */
bool folder_holds_checkpoint(int dir, const char *name);
/* The entries of an open folder, which becomes theirs; NULL with errno where there is none (fd -1). */
DIR *ckpt_entries(int fd);

enum plim_status folder_list(struct ckpt *c, int dir, struct folder_names *names,
			     struct plim_err *err);

/* ---- read.c ---- */

/* Of a view with gaps: it is gathered in memory.  A larger one is not laid out. */
#define CKPT_GATHERED_BYTES ((uint64_t)1 << 30)

/* An extent's bytes from some place on, inflated where they are deflated. */
struct extent_reader {
	const struct ckpt *ckpt;
	const struct ckpt_extent *extent;
	struct inflating *inflating; /* NULL: they lie as they are */
	uint64_t at;                 /* of the next one, within the extent */
	bool broken;                 /* it does not inflate to what it is said to be */
};

/* Ended with extent_close in every case.  *got < n: the extent ends, is broken, or the file became shorter. */
enum plim_status extent_open(struct extent_reader *r, const struct ckpt *c, uint32_t extent,
			     uint64_t from, struct plim_err *err);
enum plim_status extent_next(struct extent_reader *r, void *at, size_t n, size_t *got,
			     struct plim_err *err);
void extent_close(struct extent_reader *r);

/* A tensor's elements, packed, row-major. */
struct tensor_reader {
	const struct ckpt *ckpt;
	const struct ckpt_tensor *tensor;
	struct extent_reader run;
	struct joined_reader *joined; /* of a tensor in parts; else NULL */
	uint8_t *reach;               /* of a view with gaps or turned dimensions; else NULL */
	uint64_t reach_bytes, place, index[CKPT_DIMS];
};

/*
 * Ended with tensor_close in every case; n is a multiple of an element and not beyond the end.
 * PLIM_E_FORMAT: it does not inflate; PLIM_E_UNSUPPORTED: a view too large to gather.
 */
enum plim_status tensor_open(struct tensor_reader *r, const struct ckpt *c,
			     const struct ckpt_tensor *t, struct plim_err *err);
enum plim_status tensor_next(struct tensor_reader *r, void *at, size_t n, struct plim_err *err);
void tensor_close(struct tensor_reader *r);

/* ---- joined.c ---- */

/* A CKPT_JOINED tensor's bytes, as tensor_open and so on give them; *out is ended with joined_close in every case. */
struct joined_reader;
enum plim_status joined_open(struct joined_reader **out, const struct ckpt *c,
			     const struct ckpt_tensor *t, struct plim_err *err);
enum plim_status joined_next(struct joined_reader *r, uint8_t *at, size_t n, struct plim_err *err);
void joined_close(struct joined_reader *r);

/* ---- zero.c ---- */

/* A dict of a file of DeepSpeed, whose tensors are named with `prefix` in front: what it says of ZeRO's parts. */
struct walk;
enum plim_status zero_note(struct walk *w, const char *prefix, struct pickle_value dict,
			   struct plim_err *err);
/* Once all files are read: c->wholes and c->pieces of ZeRO's parts, or c->apart. */
enum plim_status zero_plan(struct ckpt *c, struct plim_err *err);

/* ---- values.c ---- */

/* Add `n` whole numbers of a kind to what is known; `bits` of one number. */
void values_add(struct ckpt_values *v, enum ckpt_number number, unsigned bits, const uint8_t *p,
		size_t n);
/* Put together what two parts of a tensor hold. */
void values_merge(struct ckpt_values *v, const struct ckpt_values *part);

/* ---- globals.c ---- */

#define CKPT_SCRIPT_CLASS "__torch__." /* begins the names of TorchScript's own classes */

/* For pickle_hooks.global: logs into ctx, a struct globals_log. */
struct globals_log {
	struct ckpt *ckpt;
	const struct pickle_heap *heap;
	uint32_t record;      /* name of what is read */
	bool script;          /* as in struct unpickle */
	bool arrays;          /* joblib's arrays were met: see arrays.c */
	bool stopped;         /* every unpickler stops here: nothing behind it is loaded */
	size_t first;         /* the place behind the first array's wrapper */
	const uint8_t *bytes; /* the pickle, where it is read as joblib reads it */
	size_t n, begin;      /* begin: of the opcodes behind the last array */
};
enum plim_status globals_hook(void *ctx, struct pickle_value v, uint64_t offset,
			      struct plim_err *err);
/* Once a pickle was read, to its end or not: is every name used as the policy says that it is harmless? */
enum plim_status globals_settle(struct globals_log *log, struct plim_err *err);
/* Of a pickle that does not decode: the names that a reader of its opcodes meets. */
enum plim_status globals_name(struct globals_log *log, const uint8_t *bytes, size_t n,
			      struct plim_err *err);
/* `global` is used in a way that no row of the policy lists: `why`, in a sentence behind its name. */
enum plim_status globals_doubt(struct globals_log *log, struct pickle_value global, const char *why,
			       struct plim_err *err);
/*
 * The names in pickles that follow each other; *used (may be NULL): their bytes, up to what is not a pickle.
 * PLIM_E_FORMAT: one does not decode; its names are logged all the same.
 */
enum plim_status globals_stacked(struct globals_log *log, const uint8_t *bytes, size_t n,
				 size_t *used, struct plim_err *err);
/* The same, of what nothing is known but its name for people; what does not decode becomes a finding.  *used may be NULL. */
enum plim_status globals_read(struct ckpt *c, const char *name, const uint8_t *bytes, size_t n,
			      size_t *used, struct plim_err *err);
/*
 * The same, and wherever else a pickle may begin: whoever skips what stands between loads it.  What fails to decode was
 * none; where there is more than is looked at, it is not called harmless.  *used as above.
 */
enum plim_status globals_seek(struct ckpt *c, const char *name, const uint8_t *bytes, size_t n,
			      size_t *used, struct plim_err *err);
/* The same for bytes that may be a pickle, or a NumPy array of objects, which has one inside; or nothing of the kind. */
enum plim_status globals_inside(struct ckpt *c, const char *name, const uint8_t *bytes, size_t n,
				struct plim_err *err);
/* Do these bytes begin a NumPy array of objects? */
bool globals_is_objects(const uint8_t *p, size_t n);
/* A name that something else than a pickle refers to; the caller's list counts. */
enum plim_status globals_tell(struct ckpt *c, const char *record, const char *name, uint64_t offset,
			      enum ckpt_trust trust, struct plim_err *err);
/* The names that were met in `inner`, bytes of a pickle of `c`, are `c`'s as well, met in `record`. */
enum plim_status globals_take(struct ckpt *c, const struct ckpt *inner, const char *record,
			      struct plim_err *err);
/* Findings of the names that are not plain. */
enum plim_status globals_judge(struct ckpt *c, struct plim_err *err);

/* ---- inside.c ---- */

/*
 * Bytes that log's pickle hands to a loader.  Their names are logged; *trust: CKPT_CLASS where they are wholly a file
 * whose pickles were read, else CKPT_UNKNOWN, and a finding says why.
 */
enum plim_status inside_judge(const struct globals_log *log, const uint8_t *bytes, size_t n,
			      enum ckpt_trust *trust, struct plim_err *err);

/* ---- arrays.c ---- */

/* For pickle_hooks.built, ctx a struct globals_log: log->arrays once one of joblib's arrays is met. */
enum plim_status arrays_note(void *ctx, struct pickle_value v, uint64_t offset, uint64_t *skip,
			     struct plim_err *err);
/* The same, and its bytes are passed over, or judged if they are a pickle.  PLIM_E_FORMAT: joblib reads them otherwise. */
enum plim_status arrays_skip(void *ctx, struct pickle_value v, uint64_t offset, uint64_t *skip,
			     struct plim_err *err);

/* A finding: Python's unpickler reads the pickle to its end, joblib does not. */
enum plim_status arrays_differ(struct globals_log *log, struct plim_err *err);

/* ---- compressed.c ---- */

bool compressed_is(const uint8_t *head, size_t n);
/* *known: a pickle came out, which was judged; else nothing was done. */
enum plim_status compressed_read(struct ckpt *c, uint32_t file, bool *known, struct plim_err *err);

/* ---- script.c ---- */

/* What the code of a TorchScript archive calls beyond operators that compute. */
enum plim_status script_judge(struct ckpt *c, const char *record, const char *code, size_t n,
			      struct plim_err *err);

/* ---- exported.c ---- */

bool exported_is(const struct ckpt *c, const struct zip *zip);
/*
 * An archive of torch.export.  by_name: a string's number -> record + 1, for the first `names` strings; `folder`: of the
 * records, with the slash; `prefix`: of the tensors' names.
 */
enum plim_status exported_read(struct ckpt *c, const struct zip *zip, const uint32_t *by_name,
			       size_t names, const char *folder, const char *prefix,
			       struct plim_err *err);

/* ---- unpickle.c ---- */

/* A storage as a pickle names it. */
struct unpickle_storage {
	const char *key, *location;
	const struct ckpt_dtype *dtype;
	uint64_t bytes; /* that the pickle says it has */
};

/* Where a storage's bytes are: the extent, or CKPT_NONE when they are not there. */
struct unpickle {
	struct ckpt *ckpt;
	struct pickle_heap heap;
	const char *prefix;
	enum plim_status (*storage)(void *ctx, const struct unpickle_storage *s, uint32_t *extent,
				    struct plim_err *err);
	void *ctx;
	bool outermost; /* its keys are the checkpoint's */
	bool script; /* names below __torch__ are those of TorchScript, whose code is next to it */
	uint32_t record;    /* name of what is read, where none is given to unpickle_decode */
	const uint8_t *raw; /* the pickle, where it lies as it is at raw_at of a file; or NULL */
	size_t raw_bytes, raw_next, raw_first; /* for embedded.c: next place, first extent */
	unsigned raw_again;
	uint32_t raw_file;
	uint64_t raw_at;
	bool arrays; /* joblib may load it: bytes of arrays may stand between its opcodes */
	bool cut;    /* the bytes end within what joblib would read */
	bool nested; /* unpickle_walk met a nested tensor */
};

/* Decode a pickle of `n` bytes; *used: bytes up to its STOP.  What globals it names is logged. */
enum plim_status unpickle_decode(struct unpickle *u, const char *name, const uint8_t *bytes,
				 size_t n, struct pickle_value *root, size_t *used,
				 struct plim_err *err);
/* u->storage is reported every storage that the pickle refers to, also where no tensor that is known does. */
enum plim_status unpickle_storages(struct unpickle *u, struct plim_err *err);
/* All tensors below `root`, with names made of the keys that lead to them; and keys, optimizers. */
enum plim_status unpickle_walk(struct unpickle *u, struct pickle_value root, struct plim_err *err);

/* ---- compare.c, conclude.c ---- */

/* What is left of a name without the prefix. */
const char *compare_strip(const char *name, const char *prefix);
/* Of two tensors of one name: is the shape another, else the dtype? */
enum ckpt_change compare_change(const struct ckpt *a, const struct ckpt_tensor *x,
				const struct ckpt *b, const struct ckpt_tensor *y);
/* From d's pairs and counts: d's conclusions, and d->loads. */
enum plim_status compare_conclude(struct ckpt_compare *d, struct plim_err *err);

/* ---- extract.c, write_safetensors.c, write_torch.c ---- */

#define CKPT_PACKED_F4 "float4_e2m1fn_x2"

/* Where tensors go: how far it is, and the checksum since `crc` was last cleared. */
struct ckpt_out {
	struct durable *to; /* a file; NULL: sink */
	ckpt_sink_fn *sink;
	void *ctx;
	uint64_t at;
	uint32_t crc;
};

enum plim_status ckpt_out_put(struct ckpt_out *o, const void *at, size_t n, struct plim_err *err);
/* A tensor's bytes, packed, in row-major order. */
enum plim_status ckpt_out_tensor(struct ckpt *c, const struct ckpt_tensor *t, struct ckpt_out *o,
				 struct plim_err *err);
/* An extent's bytes. */
enum plim_status ckpt_out_extent(struct ckpt *c, uint32_t extent, struct ckpt_out *o,
				 struct plim_err *err);
/* Commit to `path`, or with a status remove it; shows the file's size and sum. */
enum plim_status ckpt_out_end(struct ckpt *c, struct ckpt_out *o, const char *path,
			      enum plim_status st, struct ckpt_extracted *told,
			      struct plim_err *err);

/* Write told->tensors tensors; told->bytes are theirs. */
enum plim_status safetensors_write(struct ckpt *c, const uint32_t *tensors, const char *path,
				   struct ckpt_extracted *told, struct plim_err *err);
enum plim_status torch_write(struct ckpt *c, const uint32_t *tensors, const char *path,
			     struct ckpt_extracted *told, struct plim_err *err);
/*
 * The object of c->root as it was, without tensors that are not whole.  PLIM_E_UNSUPPORTED: it holds what is not
 * written anew; nothing was written.
 */
enum plim_status torch_rewrite(struct ckpt *c, const char *path, struct ckpt_extracted *told,
			       struct plim_err *err);

#endif
