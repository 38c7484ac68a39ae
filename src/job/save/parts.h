/*
 * What the files of this folder share.
 *
 *	saving.c	what callers see
 *	pool.c		staging memory: slots of one size, page-locked where a GPU copies into them
 *	layout.c	what stands around the tensors of a file: safetensors, or the zip of torch
 *	stage.c		files are cut into slots
 *	writer.c	the thread that writes slots
 *	commit.c	a folder gets its name; ranks; which checkpoints stay
 *	manifest.c	what a manifest says, and the checkpoints of a folder by theirs
 */
#ifndef SAVE_PARTS_H
#define SAVE_PARTS_H

#include "save.h"

#include "checkpoint/checkpoint.h"
#include "gpu/gpu.h"

#include <pthread.h>

#define SAVE_PATH 4096
#define SAVE_NAME 160 /* of a file in a checkpoint, with its NUL */
#define SAVE_SLOT_BYTES ((size_t)16 << 20)
#define SAVE_DEVICES 16
#define SAVE_MANIFEST "plimsoll.manifest.json"
#define SAVE_OWNER ".owner.plimsoll" /* a link that leads nowhere: "PID on HOST" */
#define SAVE_METADATA ".metadata"    /* torch.distributed.checkpoint's; no other name begins so */

uint64_t save_now_ns(void);

/* ---- pool.c ---- */

struct pool_slot {
	void *at;
	bool locked; /* by the driver; one made before a GPU was seen is not, and copies into it wait */
};

struct pool {
	struct mem *mem;
	pthread_mutex_t lock;
	pthread_cond_t freed;
	VEC(void *) free;
	VEC(struct pool_slot) all;
	size_t taken, limit;     /* slots that exist or are being made; the most there may be */
	const struct cuda *cuda; /* NULL: no GPU copies into them */
};

void pool_init(struct pool *p, struct mem *m, uint64_t bytes);
void pool_release(struct pool *p);
/* A slot that is free, or a new one, or the first that becomes free.  The thread has a context of CUDA if p->cuda. */
enum plim_status pool_take(struct pool *p, void **slot, struct plim_err *err);
void pool_give(struct pool *p, void *slot);
/* One more slot, if there may be: false if not. */
bool pool_add(struct pool *p);

/* ---- stage.c ---- */

struct save_tensor {
	char *name;
	size_t name_bytes;
	const struct ckpt_dtype *dtype;
	const uint8_t *where;
	uint64_t bytes;
	uint64_t *shape;
	uint64_t rank;
	int device;
	bool guarded, raw; /* raw: a part that is these bytes, no tensor */
	uint64_t at;       /* in the file */
	size_t lead;       /* of the file's text, this much stands before it */
	uint32_t crc;      /* of what was written of it */
};

/* Four bytes of the file that are the checksum of a tensor, which is only known when that is written. */
struct save_patch {
	uint64_t at;
	uint32_t tensor;
};

struct save_note {
	char *key, *value; /* of one piece of memory */
	size_t bytes;
};

enum save_form {
	SAVE_SAFETENSORS,
	SAVE_TORCH, /* one object for torch.load */
	SAVE_PARTS  /* an object each tensor, one behind another; laid out when they were added */
};

/* A file: tensors, or a text. */
struct save_file {
	char name[SAVE_NAME];
	VEC(struct save_tensor) tensors;
	VEC(struct save_note) notes;
	struct text text; /* itself, or what stands around the tensors */
	struct text
		tree; /* the object that a file of torch is, as JSON; empty: a dict of its tensors */
	VEC(struct save_patch) patches; /* in their order; the next ones of the thread: */
	size_t summed, patched;         /* tensor, patch */
	uint64_t done;                  /* bytes that were written */
	uint64_t bytes;                 /* of all of it */
	uint64_t sum;                   /* XXH3, when it is written */
	bool is_text;
	enum save_form form;
};

/* A GPU of one saving. */
struct save_device {
	int ordinal;
	void *context, *compute, *copy;
	void *copied
		[2]; /* events: all of the copy stream's, all of the compute stream's is staged */
};

struct plim_saving {
	struct plim_checkpointer *of;
	uint64_t step;
	double metric;
	bool begun;  /* its folder exists */
	bool queued; /* start was called */
	VEC(struct save_file *) files;
	struct save_device devices[SAVE_DEVICES];
	size_t device_count;
	char temporary[SAVE_NAME]; /* folder, before it has its name */
	struct durable *out;       /* the file that the thread writes */
	struct plim_err why;       /* of a failure */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct plim_saving_progress told;
	uint64_t began_ns;
	unsigned holders; /* the caller, the thread */
};

/* One piece of work for the thread. */
struct save_item {
	struct save_item *next;
	struct plim_saving *saving;
	struct save_file *file; /* NULL: the end of the saving */
	void *slot;
	size_t bytes;
	bool first, last; /* piece of its file */
	size_t event_count;
	struct {
		void *event, *context;
	} events[2 * SAVE_DEVICES]; /* to wait for before the slot is read */
};

/* Copy stream of a GPU: made once. */
struct save_stream {
	int ordinal;
	void *context, *copy;
};

struct plim_checkpointer {
	struct mem mem;
	struct plim_checkpointer_options options;
	char *folder;
	size_t folder_bytes;
	char run[64];
	int fd;      /* the folder; locked by rank 0 */
	pid_t owner; /* this process, if it has the lock and said so */
	struct pool pool;
	struct cuda cuda;
	char *cuda_library;
	size_t cuda_bytes;
	struct save_stream streams[SAVE_DEVICES];
	size_t stream_count;
	pthread_t thread, preparing;
	bool has_thread, prepares, closing;
	uint64_t prepare_slots;
	int prepare_device;
	pthread_mutex_t work_lock;
	pthread_cond_t work;
	struct save_item *head, **tail;
};

/* A context for this thread, and the one that it had back.  A GPU's context is the one that PyTorch uses. */
void *save_enter(const struct plim_checkpointer *c, void *context);
void save_leave(const struct plim_checkpointer *c, void *before);
enum plim_status save_stream_of(struct plim_checkpointer *c, int device, struct save_stream **out,
				struct plim_err *err);
enum plim_status save_cuda_failed(struct plim_err *err, const char *what, int code);
/* All copies are queued or done: PLIM_OK.  Calls writer_put for each piece. */
enum plim_status stage_files(struct plim_saving *s, struct plim_err *err);

/* ---- layout.c ---- */

/* f->text, and where tensors lie between it. */
enum plim_status layout_file(struct plim_saving *s, struct save_file *f, struct plim_err *err);
enum plim_status layout_parts(struct mem *m, struct save_file *f, struct plim_saving_part *places,
			      struct plim_err *err);
/* The next n bytes of the file: sums what is of tensors, and puts sums in where they belong. */
void layout_sum(struct save_file *f, uint8_t *at, size_t n);

/* ---- writer.c ---- */

enum plim_status writer_start(struct plim_checkpointer *c, struct plim_err *err);
/* Takes the item. */
void writer_put(struct plim_checkpointer *c, struct save_item *item);
/* Ends it when all is written. */
void writer_stop(struct plim_checkpointer *c);
void saving_set(struct plim_saving *s, enum plim_saving_state state);
void saving_fail(struct plim_saving *s, const struct plim_err *why);
void saving_drop(struct plim_saving *s);
bool saving_failed(struct plim_saving *s);

/* ---- commit.c ---- */

enum plim_status save_path(char *path, struct plim_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
enum plim_status commit_begin(struct plim_saving *s, struct plim_err *err);
/* All files of this rank are written: the checkpoint gets its name, when all ranks are as far. */
enum plim_status commit_end(struct plim_saving *s, struct plim_err *err);
/* This rank failed: the others learn it. */
void commit_abort(struct plim_saving *s);
void commit_sweep(struct plim_checkpointer *c);

/* ---- manifest.c ---- */

struct manifest {
	uint64_t step, order, world;
	double metric;
	VEC(struct manifest_row) rows;
};

/* Foreign bytes.  PLIM_E_FORMAT: no manifest of a checkpoint that this made; *out is to be released all the same. */
enum plim_status manifest_of(struct mem *m, const void *bytes, size_t n, struct manifest *out,
			     struct plim_err *err);
/* Of the file `name` in the folder `dir`. */
enum plim_status manifest_load(struct mem *m, int dir, const char *name, struct manifest *out,
			       struct plim_err *err);
enum plim_status manifest_store(struct mem *m, const char *path, const struct manifest *x,
				struct plim_err *err);
void manifest_release(struct mem *m, struct manifest *x);

struct save_list {
	VEC(struct plim_saved) entries;
	VEC(char *) names;
};
/* The checkpoints of an open folder, in their order. */
enum plim_status save_list(struct mem *m, int dir, bool maximize, struct save_list *out,
			   struct plim_err *err);
void save_list_release(struct mem *m, struct save_list *x);

#endif
