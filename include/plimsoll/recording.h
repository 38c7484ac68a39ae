/*
 * A recording of GPU memory: what a snapshot file holds, or events that a program has at hand.  It is read once; reports
 * are made of it, each with its own options, and what one of them computed the next one finds done.
 *
 * Ownership: what is made of a recording borrows it: free the recording last.  Threads: one a recording at a time, with
 * all that was made of it.
 */
#ifndef PLIMSOLL_RECORDING_H
#define PLIMSOLL_RECORDING_H

#include <plimsoll/task.h>
#include <plimsoll/types.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plim_recording;

struct plim_recording_options {
	uint32_t size;   /* set by plim_recording_options_init */
	uint32_t device; /* ordinal that appended events are of, below 64; 0 */
	/* of the recording and all that is made of it; 0: half of what there is */
	uint64_t max_memory_bytes;
	/*
	 * PYTORCH_CUDA_ALLOC_CONF under which appended requests without addresses are placed, or under which those with
	 * addresses ran; NULL: PyTorch's defaults
	 */
	const char *settings;
};
PLIM_API void plim_recording_options_init(struct plim_recording_options *o);

/*
 * Read the snapshot at `path` ("-": standard input), plain or compressed.  `options` may be NULL.  PLIM_E_IO;
 * PLIM_E_FORMAT: it is not a snapshot, or damaged; PLIM_E_LIMIT; PLIM_E_NOMEM.
 */
PLIM_API enum plim_status plim_recording_open(const char *path,
					      const struct plim_recording_options *options,
					      struct plim_recording **out, struct plim_err *err);

/* The same from memory or an open descriptor.  PLIM_E_ARG: nothing is given, or `size` is not set. */
PLIM_API enum plim_status plim_recording_read(const struct plim_input *input,
					      const struct plim_recording_options *options,
					      struct plim_recording **out, struct plim_err *err);

/* An empty one, that events are appended to.  `name` is what reports call it.  PLIM_E_ARG: the settings cannot be read. */
PLIM_API enum plim_status plim_recording_new(const char *name,
					     const struct plim_recording_options *options,
					     struct plim_recording **out, struct plim_err *err);
PLIM_API void plim_recording_free(struct plim_recording *r);

/* ---- appending ---- */

/* What happened.  Values never change. */
enum plim_event_kind {
	PLIM_EVENT_ALLOC,
	PLIM_EVENT_FREE, /* by the program, and nothing waits for it: the two below in one */
	PLIM_EVENT_FREE_REQUESTED, /* by the program; another stream may still use it */
	PLIM_EVENT_FREE_COMPLETED, /* the allocator has it back */
	PLIM_EVENT_SEGMENT_ALLOC, /* this and those below only where addresses are given: cudaMalloc */
	PLIM_EVENT_SEGMENT_FREE,  /* cudaFree */
	PLIM_EVENT_SEGMENT_MAP,   /* expandable segments: pages mapped */
	PLIM_EVENT_SEGMENT_UNMAP, /* and unmapped */
	PLIM_EVENT_OOM, /* a request failed: `bytes` of it, `address` is what the driver had free */
	/* only read, never appended */
	PLIM_EVENT_SNAPSHOT, /* someone took a snapshot */
	PLIM_EVENT_ANNOTATE, /* the program named a moment */
	PLIM_EVENT_OTHER,    /* of a newer PyTorch */
};

#define PLIM_NO_SITE UINT32_MAX  /* of an event: its stack is not known */
#define PLIM_NO_PHASE UINT32_MAX /* of an event: it lies in no phase */

/*
 * Events as columns of `count` rows, in the order in which they happened; borrowed during the call.  With addresses they
 * are what an allocator did.  Without, they are what a program asks for, and PyTorch's allocator, under the recording's
 * settings, decides where it goes; frees then name the request that they end.  All appends of a recording are of one sort.
 */
struct plim_events {
	uint32_t size;         /* set to sizeof(struct plim_events) */
	size_t count;          /* rows of each column */
	const uint8_t *kind;   /* enum plim_event_kind */
	const uint64_t *bytes; /* of a request as the program asked for it, of a segment as it is */
	const uint64_t *
		request; /* without addresses: its number, below 2^32, free again after its end; else NULL */
	const uint64_t *address; /* NULL: they are not known */
	const int64_t *stream;   /* cudaStream_t; NULL: all 0 */
	const int64_t *pool;     /* private pool (of CUDA graphs), 0: none; NULL: all 0 */
	const uint32_t *site;    /* of plim_recording_site; NULL: none is known */
	const uint32_t *phase;   /* of plim_recording_phase; NULL: none is known */
	const int64_t *time_us;  /* since 1970, never falling; NULL: not known */
};

/*
 * Append events, all of them or, on failure, none.  PLIM_E_ARG names the row: an unknown kind, a request that lives
 * already or does not, a site or phase that does not exist, addresses where there were none before; or reports of the recording
 * that were not freed.  PLIM_E_LIMIT; PLIM_E_NOMEM.
 */
PLIM_API enum plim_status plim_recording_append(struct plim_recording *r,
						const struct plim_events *events,
						struct plim_err *err);

struct plim_recording_frame {
	const char *file;     /* as Python has it */
	const char *function; /* ... of Python, or of a module and an operation */
	uint32_t line;        /* from 1; 0: not known */
};

/* The number of a stack, innermost frame first; the same stack is always the same number. */
PLIM_API enum plim_status plim_recording_site(struct plim_recording *r,
					      const struct plim_recording_frame *frames, size_t n,
					      uint32_t *out, struct plim_err *err);

/* The number of a phase ("forward", "step 3"); rows of one phase, one after the other, are a named range in reports. */
PLIM_API enum plim_status plim_recording_phase(struct plim_recording *r, const char *name,
					       uint32_t *out, struct plim_err *err);

/* Write it, whole or not at all: packed where the name ends in ".plim" (docs/packed.md), else as a snapshot that PyTorch's viewer reads. */
PLIM_API enum plim_status plim_recording_snapshot(struct plim_recording *r, const char *path,
						  struct plim_err *err);

/*
 * Put what the packed recording at `path` does not have of this one, a later dump of the same process, behind its end; where
 * there is no file, pack it there.  *fresh: events that are new; 0: the file stays as it is.  PLIM_E_ARG: it does not go on
 * where the file ends, or there are no times that tell it; PLIM_E_FORMAT; PLIM_E_IO.
 */
PLIM_API enum plim_status plim_recording_extend(struct plim_recording *r, const char *path,
						uint64_t *fresh, struct plim_err *err);

/*
 * Put words in place of all names that are not PyTorch's or of another public package, for good ("file-3", "function-12");
 * sizes, addresses, times and numbers of lines stay.  *kept (may be NULL) says in words what did, and lives as long as the
 * recording.  PLIM_E_ARG: events were appended, or there are reports.
 */
PLIM_API enum plim_status plim_recording_redact(struct plim_recording *r, const char **kept,
						struct plim_err *err);

/* ---- reading ---- */

#define PLIM_NO_EVENT UINT32_MAX      /* before the first one that was recorded, or never */
#define PLIM_NO_ALLOCATION UINT32_MAX /* of an event that is not of an allocation */

/* How many devices there are; they are counted from 0, as report's `device` is.  PLIM_E_LIMIT, PLIM_E_NOMEM. */
PLIM_API enum plim_status plim_recording_devices(struct plim_recording *r, uint64_t *count,
						 struct plim_err *err);

/*
 * The events of a device: columns of `count` values one behind the other.  They lie in the recording, which nothing is
 * copied from, until it is freed or appended to.
 */
struct plim_event_columns {
	uint64_t count;        /* rows of each column */
	const uint8_t *kind;   /* enum plim_event_kind; never PLIM_EVENT_FREE */
	const uint64_t *bytes; /* as requested; of segments and failures as the driver was asked */
	const uint64_t *address;    /* of PLIM_EVENT_OOM what the driver had free */
	const int64_t *time_us;     /* since 1970; NULL: not recorded */
	const uint32_t *site;       /* for plim_recording_stack, or PLIM_NO_SITE */
	const uint32_t *allocation; /* row of plim_allocation_columns, or PLIM_NO_ALLOCATION */
	const uint16_t *stream;     /* index into streams */
	const int64_t *streams;     /* cudaStream_t of each, stream_count of them */
	uint64_t stream_count;      /* how many streams */
};

/* PLIM_E_ARG: there is no such device. */
PLIM_API enum plim_status plim_recording_events(struct plim_recording *r, uint64_t device,
						struct plim_event_columns *out,
						struct plim_err *err);

/* By what an allocation was given its category. */
struct plim_allocation_rule {
	const char *category;        /* as in reports: "parameter", "activation" ... */
	uint32_t confidence_percent; /* that it is one */
	const char *text;            /* why it is taken for one */
};

/*
 * The allocations of a device, each from its birth to its end.  A column's values lie `stride` bytes apart, except for those of
 * block_bytes (8) and rule (1).  They live as long as those of plim_event_columns.
 */
struct plim_allocation_columns {
	uint64_t count;                  /* rows of each column */
	uint64_t stride;                 /* bytes from one row to the next */
	const uint64_t *address;         /* where it was */
	const uint64_t *requested_bytes; /* as the program asked */
	const uint32_t *born;            /* event, or PLIM_NO_EVENT */
	const uint32_t
		*free_requested; /* event at which the program let go of it, or PLIM_NO_EVENT */
	const uint32_t
		*free_completed; /* event at which the allocator had it back, or PLIM_NO_EVENT */
	const uint32_t *site;    /* for plim_recording_stack, or PLIM_NO_SITE */
	const uint64_t *block_bytes; /* of the block that it was given */
	const uint8_t *rule;         /* index into rules; NULL: no stacks were recorded */
	const struct plim_allocation_rule *rules; /* by their number; NULL as rule */
	uint64_t rule_count;                      /* how many rules */
};

/* The device is replayed for it.  PLIM_E_ARG: there is no such device; PLIM_E_LIMIT; PLIM_E_NOMEM. */
PLIM_API enum plim_status plim_recording_allocations(struct plim_recording *r, uint64_t device,
						     struct plim_allocation_columns *out,
						     struct plim_err *err);

/*
 * The frames of a site, innermost first: at most `room` of them into `frames`, *n is how many there are.  The texts are the
 * recording's, as the file has them.  PLIM_E_ARG: there is no such site.
 */
PLIM_API enum plim_status plim_recording_stack(struct plim_recording *r, uint32_t site,
					       struct plim_recording_frame *frames, size_t room,
					       size_t *n, struct plim_err *err);
/*
 * For a Python process that has loaded this library: write a Python object, what torch.cuda.memory._snapshot() gave, to a
 * descriptor as a pickle that Python, PyTorch's viewer and plim_report_open read.  The caller holds the GIL, and the
 * interpreter is not a free-threaded one.  PLIM_E_UNSUPPORTED: there is no Python, or the object holds something else than
 * dicts, lists, tuples, text, numbers of 64 bits, booleans and None (then the pickle module does it); PLIM_E_IO.  On
 * failure the file holds a part.  `files` (may be NULL) takes the source files of the frames, a line each.  `late` (may be
 * NULL): a Python function within the object, in whose place stands what it returns when the writing gets to it.
 */
PLIM_API enum plim_status plim_python_pickle(void *object, int fd, struct plim_buffer *files,
					     void *late, struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
