/*
 * A PyTorch memory snapshot as columns: for each device its events in the order in which the
 * allocator did them, every allocation's lifetime (paired once, when read), and the segments and
 * blocks that stood at the end.  A trace is read-only after snapshot_read; reading it from several
 * threads is safe.  Format and terms: PyTorch's c10/cuda/CUDACachingAllocator and torch.cuda.memory.
 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "pickle/pickle.h"

#define TRACE_NONE UINT32_MAX /* no event, no allocation, no stack recorded */

enum snapshot_action {
	TRACE_ALLOC,
	TRACE_FREE_REQUESTED, /* the program dropped it */
	TRACE_FREE_COMPLETED, /* the block is back in its pool */
	TRACE_SEGMENT_ALLOC,
	TRACE_SEGMENT_FREE,
	TRACE_SEGMENT_MAP, /* expandable segments: pages mapped behind a reserved address */
	TRACE_SEGMENT_UNMAP,
	TRACE_OOM,
	TRACE_SNAPSHOT, /* someone asked for a snapshot */
	TRACE_ANNOTATE,
	TRACE_OTHER, /* an action this version does not know; counted and skipped */
	TRACE_ACTIONS
};
extern const char *const snapshot_action_names[TRACE_ACTIONS];

/* Events, one column each; n of them. */
struct snapshot_events {
	size_t n;
	const uint8_t *action;
	const uint64_t
		*addr; /* oom: free memory of the device as the driver reported (device_free) */
	const uint64_t *
		size; /* bytes: alloc, free_*: as requested, unrounded; oom: rounded; segment_*: real */
	const int64_t *time_us; /* since 1970; all 0 where has_time is 0 */
	const uint32_t *stack;  /* into trace.stacks; TRACE_NONE: no context was recorded */
	const uint16_t *stream; /* into trace.streams */
	const uint16_t
		*pool; /* into trace.pools; NULL before PyTorch 2.12, which began to record it */
	const uint32_t *alloc; /* into allocs, for alloc and free_*; TRACE_NONE otherwise */
};

enum {
	TRACE_BEFORE =
		1, /* born before the first event; its stack is that of the final block, if any */
	TRACE_PENDING_BEFORE = 2, /* its free was already asked for before the first event */
};

/* One allocation's life.  Events are indices; TRACE_NONE: before the first or never. */
struct snapshot_alloc {
	uint64_t addr;
	uint64_t requested_bytes;
	uint32_t born, free_requested, free_completed;
	uint32_t stack;
	uint32_t stream;
	uint32_t flags;
};

enum snapshot_block_state { TRACE_ACTIVE, TRACE_ACTIVE_PENDING_FREE, TRACE_INACTIVE };

/* A block of a final segment. */
struct snapshot_block {
	uint64_t addr, bytes;
	uint64_t requested_bytes; /* stale for TRACE_INACTIVE */
	uint32_t stack;
	uint32_t state;
};

/* A segment (cudaMalloc), or one contiguous mapped range of an expandable one, at the end. */
struct snapshot_segment {
	uint64_t addr, bytes, allocated_bytes, active_bytes, requested_bytes;
	uint32_t device;
	uint32_t stream;
	uint32_t pool; /* into trace.pools */
	uint32_t stack;
	uint32_t first_block, blocks; /* into trace.blocks, in address order */
	uint8_t large, expandable;
};

struct snapshot_device {
	struct snapshot_alloc *allocs;
	size_t alloc_count, alloc_room;
	struct snapshot_events events;
	/* The state before the first event; all 0 in a recording that began with the process. */
	uint64_t reserved_before_bytes;
	/* events that contradict the others: an alloc where something lives, a live block that no event explains */
	uint64_t contradictions;
	uint32_t ordinal;
	uint32_t first_segment, segments; /* into trace.segments */
	uint32_t allocs_before;           /* as reserved_before_bytes */
	/*
	 * Kinds of events that were not recorded (skip_actions), though their counterparts were: one free stands for both
	 * then, that the program asks for and that the allocator does.
	 */
	uint8_t no_free_requested, no_free_completed;
	uint32_t stale_events; /* dropped: older than a hole in a ring that was re-armed smaller */
	/*
	 * A run of a recording's requests that survives where the recording failed: 1 + this event.  What comes after it is
	 * the failed program's end all the same.  0: a recording, or it fails too.
	 */
	uint32_t survived;
};

/* Does the program drop an allocation at this event? */
static inline int snapshot_drops(const struct snapshot_device *d, size_t event)
{
	uint8_t action = d->events.action[event];

	return action == TRACE_FREE_REQUESTED ||
	       (action == TRACE_FREE_COMPLETED && d->no_free_requested);
}

struct snapshot_frame {
	uint32_t name, filename; /* into trace.strings */
	uint32_t line;           /* TRACE_NONE: unknown */
};

/* The key under which our recorders put them, as JSON: the last one, so that it lies at the file's end. */
#define SNAPSHOT_SOURCES "plimsoll_sources"

struct snapshot_pool_id {
	int64_t a, b; /* (0, 0) default; (n, 0) graph capture; (0, n) MemPool */
};

/* external_annotations: a record_function interval's edge. */
struct snapshot_annotation {
	int64_t time_us;
	uint32_t name;
	uint16_t device;
	uint8_t end; /* 0 START, 1 END */
};

#define TRACE_ROUNDUP_ENTRIES 16

/* allocator_settings; `have` says whether the file had them (2.3 and later). */
struct snapshot_settings {
	uint8_t have, expandable_segments, release_lock_on_cudamalloc,
		graph_capture_record_stream_reuse;
	uint8_t have_reuse_key;   /* the key graph_capture_record_stream_reuse: 2.9 and later */
	uint32_t conf;            /* string: PYTORCH_CUDA_ALLOC_CONF; TRACE_NONE if absent */
	uint64_t max_split_bytes; /* UINT64_MAX: unlimited */
	double gc_threshold;      /* 0: off */
	uint32_t roundup_divisions
		[TRACE_ROUNDUP_ENTRIES]; /* from 1 MiB on, by powers of two; 0 and 1: off */
};

/* An event's user_metadata (not "") or compile_context (not "N/A"): few events have one. */
struct snapshot_label {
	uint32_t row; /* counted over all devices, as the columns are */
	uint32_t string;
	uint32_t is_compile_context;
};

/* Something the file holds that was not used: reported, never fatal. */
struct snapshot_unknown {
	uint32_t name;  /* string: the key or the action */
	uint32_t where; /* enum snapshot_row */
	uint64_t count;
};

/* The kinds of dict a snapshot is made of. */
enum snapshot_row {
	TRACE_ROW_EVENT,
	TRACE_ROW_FRAME,
	TRACE_ROW_BLOCK,
	TRACE_ROW_SEGMENT,
	TRACE_ROW_ANNOTATION,
	TRACE_ROWS,
	TRACE_STACK = TRACE_ROWS
};
extern const char *const snapshot_row_names[TRACE_ROWS + 1];

/* The stacks without their C++ frames: stack s has frames[first[s]] and on. */
struct snapshot_python {
	uint32_t *first, *frames;
	size_t stacks, kept; /* stacks 0: no C++ frames were recorded */
};

enum snapshot_profile_kind {
	SNAPSHOT_PROFILE_NONE, /* a recording */
	SNAPSHOT_PROFILE_DEVICE, /* a trace of torch.profiler: sizes are the blocks', nothing is said of segments */
	SNAPSHOT_PROFILE_CPU, /* the same, of the CPU's memory */
	SNAPSHOT_PROFILE_TOTALS, /* a memory timeline: a block is all of a category, which its frame names */
	SNAPSHOT_PROFILE_KINDS
};

/* What the profiler wrote in place of a recording.  Only `kind` and `python` are kept when it is packed. */
struct snapshot_profile {
	uint8_t kind;
	uint8_t python;      /* its stacks have Python functions */
	uint64_t left_out;   /* memory events of another type of device */
	uint64_t incomplete; /* memory events without an address, a size, a time or a device */
	uint64_t differ;     /* whose own total is not the sum up to there */
	uint64_t peak_bytes; /* the largest of these totals, over all devices */
	uint64_t failures, failed_bytes; /* allocations that failed; of the last one */
};

struct snapshot {
	struct mem *mem;
	struct snapshot_profile profile;
	struct pickle_heap heap; /* its strings are the trace's */
	struct intern frames;    /* struct snapshot_frame */
	struct intern stacks;    /* uint32_t frame ids, innermost first */
	struct snapshot_python python;
	VEC(int64_t) streams; /* cudaStream_t as written; opaque, differs from process to process */
	VEC(struct snapshot_pool_id) pools; /* [0] is (0, 0) */
	struct snapshot_device *devices;
	size_t device_count;
	VEC(struct snapshot_segment) segments; /* by device, then as written (by address) */
	VEC(struct snapshot_block) blocks;
	VEC(struct snapshot_annotation) annotations;
	VEC(struct snapshot_label) labels; /* by row */
	VEC(struct snapshot_unknown) unknown;
	struct snapshot_settings settings;
	uint32_t
		sources; /* string: the program's files, as the recorder wrote them (SNAPSHOT_SOURCES); TRACE_NONE */
	/*
	 * allocator_settings as the file had it, known or not: key, value, key, value ...; a container's bits
	 * count the values behind it.  Empty: there is nothing beyond `settings`.
	 */
	VEC(struct pickle_value) settings_values;
	uint8_t has_time, has_traces;
	uint8_t has_frames, has_block_frames; /* stacks of events; of blocks that live at the end */
	uint8_t has_compile_context, has_user_metadata,
		has_annotations; /* the keys, for the version */
	uint8_t times_made;      /* time_us only gives an order: no one looked at a clock */
	uint8_t end_unknown; /* segments and blocks do not say what stood at the end: no one looked */
	struct snapshot_columns *columns;
	const uint8_t *first_action; /* row 0 of the columns */
	/* the source */
	const char *kind;                   /* "pickle", "json", "plim" */
	const char *compression;            /* "gzip", "xz", "zstd" or NULL */
	uint64_t file_bytes, decoded_bytes; /* file_bytes PLIM_UNKNOWN for a pipe */
};

/* An empty one to be filled, without devices; free it with snapshot_free. */
enum plim_status snapshot_new(struct mem *m, struct snapshot **out, struct plim_err *err);

struct snapshot_read_options {
	unsigned flags;   /* TRACE_READ_* */
	unsigned threads; /* 0: as many as are useful; 1: only the caller's; else two at most */
	size_t follow_rows; /* the second thread is reported each time so many rows came; 0: a good number */
	int *is_other; /* NULL, or set to 1 when the file is something else, not a damaged snapshot */
};
enum {
	TRACE_READ_GENERAL = 1, /* no straight-line rows, no second thread (tests, fuzzing) */
};

/*
 * Read a snapshot from a file or "-".  Knows pickles (protocol 0 to 5, Python's and C++'s), JSON of
 * the same shape, bare segment lists, packed recordings, all of them plain or as gzip, xz, zstd, bzip2, zip.
 * `opt` may be NULL.
 * Errors: PLIM_E_IO; PLIM_E_FORMAT with the byte, or with what the file is instead and how to record;
 * PLIM_E_LIMIT.
 */
enum plim_status snapshot_read(struct mem *m, const char *path,
			       const struct snapshot_read_options *opt, struct snapshot **out,
			       struct plim_err *err);
/* The same from an open source, the caller's; `name` stands before messages. */
enum plim_status snapshot_read_source(struct mem *m, struct source *src, const char *name,
				      const struct snapshot_read_options *opt,
				      struct snapshot **out, struct plim_err *err);
/* The same from memory, for tests and fuzzing. */
enum plim_status snapshot_read_bytes(struct mem *m, const void *bytes, size_t n,
				     const struct snapshot_read_options *opt, struct snapshot **out,
				     struct plim_err *err);
void snapshot_free(struct snapshot *t);

/* Write a snapshot (protocol 4) that PyTorch's viewer and Python read.  */
enum plim_status snapshot_write(const struct snapshot *t, struct pickle_sink sink,
				struct plim_err *err);

/* Do these bytes begin a packed recording? */
int snapshot_is_packed(const uint8_t *p, size_t n);

/* How many bytes its columns take, as it says: enough for a guess, checked by no one; 0: it does not. */
uint64_t snapshot_packed_bytes(const uint8_t *p, size_t n);

/* Write it packed (.plim, docs/packed.md). */
enum plim_status snapshot_pack(const struct snapshot *t, struct pickle_sink sink,
			       struct plim_err *err);

/* Do two hold the same, up to the numbers of their strings?  NULL: yes; else what differs, in words. */
const char *snapshot_differs(const struct snapshot *a, const struct snapshot *b);

/* ---- one behind another ---- */

/* What of a snapshot another one has already. */
struct snapshot_rest {
	size_t *rows; /* by device: so many of its first events */
	size_t devices;
	size_t annotations; /* of its first ones */
	size_t fresh;       /* events that are new */
};

/*
 * Does `b`, of the same process, go on where `a` ends?  PLIM_E_ARG: it does not, or no one can tell.  Release *rest, also on
 * failure.
 */
enum plim_status snapshot_follows(const struct snapshot *a, const struct snapshot *b,
				  struct snapshot_rest *rest, struct plim_err *err);
void snapshot_rest_release(struct mem *m, struct snapshot_rest *rest);

/* Texts that are not names of frames. */
enum snapshot_word {
	SNAPSHOT_WORD_RANGE, /* an annotation's name */
	SNAPSHOT_WORD_LABEL,
	SNAPSHOT_WORD_CONTEXT, /* of the compiler */
	SNAPSHOT_WORD_KEY,     /* that the reader does not know */
	SNAPSHOT_WORD_SOURCES
};

/* What stands for names; the texts are read before the next call. */
struct snapshot_renaming {
	void *self;
	void (*frame)(void *self, const struct snapshot_frame *f, const char **name,
		      const char **file);
	const char *(*word)(void *self, enum snapshot_word kind,
			    uint32_t string); /* NULL: nothing */
};

/*
 * Put what is new of `b` (`from` NULL: all) behind t, whose end is b's then; `as` (may be NULL) renames what comes.  Then
 * snapshot_settle() it.  On failure `t` can only be freed.
 */
enum plim_status snapshot_append(struct snapshot *t, const struct snapshot *b,
				 const struct snapshot_rest *from,
				 const struct snapshot_renaming *as, struct plim_err *err);

/* What follows from the rows: which frames are Python's, what each allocation's life was. */
enum plim_status snapshot_settle(struct snapshot *t, struct plim_err *err);

/*
 * Write what a packed recording, `n` bytes that can be read, becomes with `rest` behind it.  *is_full: nothing was written,
 * for it has so many parts that the whole is to be packed anew.
 */
enum plim_status snapshot_pack_behind(const struct snapshot *rest, const uint8_t *old, size_t n,
				      struct pickle_sink sink, int *is_full, struct plim_err *err);

static inline const struct snapshot_frame *snapshot_frame(const struct snapshot *t, uint32_t id)
{
	return (const struct snapshot_frame *)(const void *)t->frames.at[id].bytes;
}

/* The frames of a stack, innermost first, C++ ones too; none for TRACE_NONE. */
static inline const uint32_t *snapshot_stack(const struct snapshot *t, uint32_t id, uint32_t *n)
{
	static const uint32_t none[1];

	*n = 0;
	if (id == TRACE_NONE)
		return none;
	*n = t->stacks.at[id].n / (uint32_t)sizeof(uint32_t);
	return (const uint32_t *)(const void *)t->stacks.at[id].bytes;
}

/* The same without C++ frames: what says which line of the program ran. */
static inline const uint32_t *snapshot_python_stack(const struct snapshot *t, uint32_t id,
						    uint32_t *n)
{
	const struct snapshot_python *p = &t->python;

	if (id == TRACE_NONE || id >= p->stacks)
		return snapshot_stack(t, id, n);
	*n = p->first[id + 1] - p->first[id];
	return p->frames + p->first[id];
}

/* Did no one record one, or one without Python frames? */
static inline int snapshot_stackless(const struct snapshot *t, uint32_t id)
{
	uint32_t n;

	snapshot_python_stack(t, id, &n);
	return !n;
}

/* Once all stacks are there: find out which frames are C++. */
enum plim_status snapshot_find_python(struct snapshot *t, struct plim_err *err);
void snapshot_forget_python(struct snapshot *t);

static inline const char *snapshot_text(const struct snapshot *t, uint32_t string)
{
	return string == TRACE_NONE ? "" : intern_text(&t->heap.strings, string);
}

enum snapshot_backend { SNAPSHOT_CUDA, SNAPSHOT_HIP, SNAPSHOT_XPU };

/* Where a program ran; Linux and CUDA where its frames do not say. */
struct snapshot_platform {
	enum snapshot_backend backend;
	int windows;
	const char *variable; /* of the environment, for the allocator's settings */
	const char *monitor;  /* shows how much of the GPU is in use */
	const char *holders;  /* shows by whom */
};

/* Looks at every frame. */
struct snapshot_platform snapshot_platform_of(const struct snapshot *t);

/* Does PyTorch ignore expandable_segments there? */
static inline int snapshot_ignores_expandable(const struct snapshot_platform *p)
{
	return p->windows;
}

/* Does libplimsoll_alloc.so run there? */
static inline int snapshot_has_own_allocator(const struct snapshot_platform *p)
{
	return p->backend == SNAPSHOT_CUDA && !p->windows;
}

/* The last failed request, if the program did not go on after it; TRACE_NONE. */
uint32_t snapshot_find_death(const struct snapshot_events *ev);

/* Where the program that made these requests failed and ended, whether this run of them fails there or not; TRACE_NONE. */
uint32_t snapshot_find_end(const struct snapshot_device *d);

/* The most that was reserved, as the segments' events tell. */
uint64_t snapshot_reserved_peak(const struct snapshot_device *d);

/* The row of a device's first event, as rows of labels count. */
size_t snapshot_first_row(const struct snapshot *t, const struct snapshot_device *d);

/* Did the ring of events overflow (trace_alloc_overflowed, after 2.11)?  1, 0; -1: the file does not say. */
int snapshot_overflowed(const struct snapshot *t);

/* Does the name of a function in the stack contain that? */
int snapshot_stack_names(const struct snapshot *t, uint32_t stack, const char *part);

#endif
