/*
 * Saving a training job while it goes on.  Tensors are copied to staging memory behind the work that is queued on their
 * GPU, and a thread of the library writes them from there: safetensors files in a folder that has no name until every
 * byte is synced, read back and compared.
 *
 *	plim_checkpointer_open("ckpts", &options, &c, &err);
 *	plim_saving_begin(c, step, loss, &s, &err);
 *	plim_saving_add(s, "model", tensors, n, &err);
 *	plim_saving_text(s, "state.json", text, n, &err);
 *	plim_saving_start(s, streams, n_streams, &err);		returns as soon as all is staged or queued
 *	plim_saving_guard(s, device, stream, &err);		before what updates the tensors: no thread waits
 *	plim_saving_wait(s, PLIM_SAVING_DURABLE, 60e9, &err);
 *	plim_saving_free(s);
 *
 * What a folder holds afterwards (docs/checkpointer.md): step-00001000/model.safetensors, other files that were added,
 * plimsoll.manifest.json; and the links `latest` and `best`.  A process that is killed, or a disk that is full, at any
 * moment leaves the checkpoints that were there, or these and the new one.
 *
 * Calls with one checkpointer come from one thread.  All sizes are bytes.
 */
#ifndef PLIMSOLL_CHECKPOINTER_H
#define PLIMSOLL_CHECKPOINTER_H

#include <plimsoll/status.h>

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plim_checkpointer;
struct plim_saving;

enum plim_checkpointer_flags {
	PLIM_CHECKPOINTER_MAXIMIZE =
		1, /* the best checkpoint has the highest metric, not the lowest */
	PLIM_CHECKPOINTER_KEEP_ALL = 2, /* remove nothing */
	PLIM_CHECKPOINTER_TORCH = 4     /* files that torch.load reads, FILE.pt, not safetensors */
};

/* plim_checkpointer_options_init sets the defaults; then change what is to be different. */
struct plim_checkpointer_options {
	uint32_t size;       /* set by plim_checkpointer_options_init */
	uint32_t flags;      /* enum plim_checkpointer_flags */
	uint64_t keep_last;  /* newest checkpoints that stay; at least 1; 3 */
	uint64_t keep_best;  /* of those with a metric, the best that stay; 1 */
	uint64_t keep_every; /* steps that are a multiple of it stay; 0: none */
	/* of staging memory; 0: a quarter of the room that this machine or container has, divided by host_ranks */
	uint64_t staging_bytes;
	uint32_t rank;       /* of this process in its job */
	uint32_t world;      /* ranks that save together into one folder; 1 */
	uint32_t host_ranks; /* of these on this machine; 1 */
	uint32_t unused;     /* 0 */
	/* ranks: how long to wait for the others to finish a checkpoint, in nanoseconds; 1800e9 */
	uint64_t rank_wait_ns;
	/* ranks: one text for this run of the job, the same on all of them, of letters and digits; NULL: none, for a world of 1 */
	const char *run;
	const char *cuda_library; /* the CUDA driver; NULL: libcuda.so.1 */
};
PLIM_API void plim_checkpointer_options_init(struct plim_checkpointer_options *o);

/*
 * A folder of checkpoints, which is made if it is not there.  What a killed job of the same folder left half-written is
 * removed by rank 0.  PLIM_E_IO, also if another one that is open, of this or any process, holds the folder; what was killed
 * holds nothing.
 */
PLIM_API enum plim_status plim_checkpointer_open(const char *folder,
						 const struct plim_checkpointer_options *options,
						 struct plim_checkpointer **out,
						 struct plim_err *err);

/* Waits for what is being written.  Every saving must have been freed. */
PLIM_API void plim_checkpointer_close(struct plim_checkpointer *c);

/*
 * Take staging memory for `bytes` now, on a thread: page-locked if `device` is not -1 (which takes 0.45 s a GiB), so that
 * the first saving finds it.  Optional.
 */
PLIM_API enum plim_status plim_checkpointer_prepare(struct plim_checkpointer *c, uint64_t bytes,
						    int device, struct plim_err *err);

/* ---- one checkpoint ---- */

/* Of step `step`; metric: what the best are chosen by, NaN: it has none. */
PLIM_API enum plim_status plim_saving_begin(struct plim_checkpointer *c, uint64_t step,
					    double metric, struct plim_saving **out,
					    struct plim_err *err);

/* A tensor in row-major order, dense.  Texts and the shape are copied; `where` is read until it is staged. */
struct plim_saving_tensor {
	const char *name;      /* in the file */
	const char *dtype;     /* as torch names it: "bfloat16" */
	const uint64_t *shape; /* elements a dimension */
	uint64_t rank;         /* dimensions */
	const void *where;     /* its first element: host memory, or memory of the GPU */
	int32_t device;        /* ordinal of the GPU; -1: host memory */
	/*
	 * 1: nothing writes it before plim_saving_guard was called, so it is copied next to the work that is queued;
	 * 0: it is copied in the stream's own order, and host memory always before plim_saving_start returns
	 */
	uint32_t guarded;
};

/*
 * Put tensors into FILE.safetensors (or FILE.pt); file: letters, digits, "-", "_" and ".", not at the beginning.  PLIM_E_UNSUPPORTED:
 * safetensors has no such dtype, or the CUDA driver cannot be used.  Of two of one name plim_saving_start says so.
 */
PLIM_API enum plim_status plim_saving_add(struct plim_saving *s, const char *file,
					  const struct plim_saving_tensor *tensors, size_t n,
					  struct plim_err *err);

/* Where a part lies in its file. */
struct plim_saving_part {
	uint64_t offset; /* of its first byte */
	uint64_t bytes;  /* of all of it */
};

/*
 * A file `name` (with its ending) of parts, for torch.distributed.checkpoint: each tensor as torch.save writes it alone, and
 * what has the dtype "bytes" (and one dimension) as it is, one behind another; places[i]: where tensors[i] will lie.  The file
 * ".metadata", which says so to torch, is a text: see plim_saving_text.
 */
PLIM_API enum plim_status plim_saving_parts(struct plim_saving *s, const char *name,
					    const struct plim_saving_tensor *tensors, size_t n,
					    struct plim_saving_part *places, struct plim_err *err);

/* A member of the metadata of FILE.safetensors: safetensors.torch.load_model takes "another name" -> "name" for a tie. */
PLIM_API enum plim_status plim_saving_note(struct plim_saving *s, const char *file, const char *key,
					   const char *value, struct plim_err *err);

/*
 * With PLIM_CHECKPOINTER_TORCH: the object that torch.load(weights_only=True) gets of FILE.pt, as JSON; without, it is a
 * dict of the tensors by name, and by the names that were noted.  Objects of JSON are dicts, except for those of one member:
 *
 *	{"$tensor": "name"}  {"$tuple": [...]}  {"$items": [[key, value], ...]}  {"$float": "nan"}
 *	{"$torch": "torch.bfloat16"}  {"$latin1": "bytes as characters"}
 *	{"$set": [...]}, which becomes a list  {"$ndarray": value}, which becomes that value
 *
 * Copied; what is wrong in it plim_saving_start says.
 */
PLIM_API enum plim_status plim_saving_tree(struct plim_saving *s, const char *file,
					   const void *json, size_t n, struct plim_err *err);

/* A file of `n` bytes, copied.  Its name as in plim_saving_add, with its ending. */
PLIM_API enum plim_status plim_saving_text(struct plim_saving *s, const char *name,
					   const void *bytes, size_t n, struct plim_err *err);

/* The stream whose queued work made the tensors of a GPU. */
struct plim_saving_stream {
	int32_t device;  /* ordinal */
	uint32_t unused; /* 0 */
	void *stream;    /* CUstream; NULL: the default stream */
};

/*
 * Stage what was added, and let it be written.  `streams`: one for each GPU that tensors lie on.  Returns when all is
 * staged, or queued to be: at once where staging memory suffices, else it waits for the disk (blocked_ns shows).  After a
 * failure, as after success, the saving is to be freed.
 */
PLIM_API enum plim_status plim_saving_start(struct plim_saving *s,
					    const struct plim_saving_stream *streams, size_t n,
					    struct plim_err *err);

/* What is queued on the stream after this begins when the guarded tensors of that GPU are staged.  Waits for nothing itself. */
PLIM_API enum plim_status plim_saving_guard(struct plim_saving *s, int device, void *stream,
					    struct plim_err *err);

enum plim_saving_state {
	PLIM_SAVING_STAGING, /* copies are queued; `where` is still read */
	PLIM_SAVING_WRITING, /* staged */
	PLIM_SAVING_DURABLE, /* under its name, synced, read back and compared, on all ranks */
	PLIM_SAVING_FAILED   /* plim_saving_wait says why */
};
PLIM_API const char *plim_saving_state_name(enum plim_saving_state value);

struct plim_saving_progress {
	enum plim_saving_state state; /* how far it is */
	uint32_t removed;             /* older checkpoints that went for it */
	uint64_t bytes;               /* of all its files on this rank */
	uint64_t blocked_ns;          /* that plim_saving_start took */
	uint64_t waited_ns; /* of these, for staging memory: to be taken, or to be free again */
	uint64_t staged_ns; /* from the start until all was staged; PLIM_UNKNOWN: not yet */
	uint64_t
		finished_ns; /* from the start until it was durable or had failed; PLIM_UNKNOWN: not yet */
};
/* May be called from any thread. */
PLIM_API void plim_saving_progress(struct plim_saving *s, struct plim_saving_progress *out);

/*
 * Wait until it is at least in that state, or has failed, or timeout_ns are over (then PLIM_OK, and the state is an earlier
 * one).  Returns why it failed.  May be called from any thread.
 */
PLIM_API enum plim_status plim_saving_wait(struct plim_saving *s, enum plim_saving_state state,
					   uint64_t timeout_ns, struct plim_err *err);

/* One that was not started is given up.  One that was is written all the same; this waits until it is staged. */
PLIM_API void plim_saving_free(struct plim_saving *s);

/* ---- what there is ---- */

/* A checkpoint of a folder, by its manifest; its bytes are not looked at (plim_ckpt_open does that). */
struct plim_saved {
	const char *name; /* of its folder: "step-00001000" */
	uint64_t step;    /* as given */
	uint64_t order;   /* counts up with each one that was saved into the folder */
	double metric;    /* as given; NaN: none */
	uint64_t bytes;   /* of its files */
	uint64_t world;   /* ranks that wrote it */
	bool best;        /* the first with the best metric */
	bool whole;       /* all its files are there with their sizes */
};

struct plim_saved_list {
	struct plim_saved *at;            /* in their order: the last is the latest */
	size_t n;                         /* of them */
	struct plim_saved_hidden *hidden; /* what owns the memory */
};

/*
 * The checkpoints of a folder; flags: PLIM_CHECKPOINTER_MAXIMIZE.  A folder without a manifest is none.  PLIM_E_IO: the
 * folder cannot be read.
 */
PLIM_API enum plim_status plim_saved_open(const char *folder, unsigned flags,
					  struct plim_saved_list **out, struct plim_err *err);
PLIM_API void plim_saved_free(struct plim_saved_list *list);

#ifdef __cplusplus
}
#endif

#endif
