/*
 * The gauge: a page of shared memory that a job keeps for `plimsoll watch`, /dev/shm/plimsoll.PID.  What the job knows
 * and no one sees from outside: allocated and reserved bytes, the step, its phase, the loss.
 *
 * One thread writes (the job's), any process reads: it copies the page between two looks at `sequence`, which is odd while
 * something is written.  The file belongs to the process that made it: a forked child writes nothing and removes nothing.
 */
#ifndef PLIMSOLL_GAUGE_H
#define PLIMSOLL_GAUGE_H

#include <plimsoll/status.h>

#include <stddef.h>

#define PLIM_GAUGE_VERSION 1
#define PLIM_GAUGE_BYTES 4096
#define PLIM_GAUGE_DEVICES 16
#define PLIM_GAUGE_STEPS 112

enum plim_gauge_writer { PLIM_GAUGE_PYTHON = 1, PLIM_GAUGE_RECORD = 2, PLIM_GAUGE_C = 3 };

enum plim_gauge_phase {
	PLIM_GAUGE_UNKNOWN,
	PLIM_GAUGE_DATA,
	PLIM_GAUGE_FORWARD,
	PLIM_GAUGE_BACKWARD,
	PLIM_GAUGE_OPTIMIZER,
	PLIM_GAUGE_EVAL,
	PLIM_GAUGE_SAVE,
	PLIM_GAUGE_OTHER
};

enum plim_gauge_flags {
	PLIM_GAUGE_RECORDS = 1 /* SIGUSR1 makes this process write a recording of its memory */
};

/* One GPU, 128 bytes.  A number that is not known is PLIM_UNKNOWN. */
struct plim_gauge_device {
	uint8_t uuid[16];              /* of the GPU; zeros: not known */
	uint64_t allocated_bytes;      /* in blocks in use */
	uint64_t reserved_bytes;       /* taken from the driver */
	uint64_t active_bytes;         /* in use or awaiting another stream */
	uint64_t peak_allocated_bytes; /* since the job last reset it */
	uint64_t peak_reserved_bytes;  /* the same of reserved_bytes */
	uint64_t limit_bytes;          /* that this process may reserve */
	uint64_t alloc_retries; /* times that cached blocks were given back to serve a request */
	uint64_t ooms;          /* requests that failed */
	uint64_t driver_free_bytes; /* of the GPU */
	uint64_t pinned_bytes;      /* page-locked host memory */
	uint64_t unused[4];         /* 0 */
};

/* The end of a step, 16 bytes. */
struct plim_gauge_mark {
	uint32_t step;                 /* its low 32 bits */
	uint32_t flags;                /* 1: evaluation, 2: saved */
	uint64_t peak_allocated_bytes; /* the most since the step before ended */
};

/* The page.  Everything is little-endian; a double that is not known is NaN, a whole number PLIM_UNKNOWN. */
struct plim_gauge_page {
	char magic[8];                        /* "PLIMGAGE" */
	uint32_t version;                     /* PLIM_GAUGE_VERSION */
	uint32_t bytes;                       /* PLIM_GAUGE_BYTES */
	uint64_t start_time;                  /* of the process: field 22 of its stat file */
	uint32_t pid;                         /* as the writer sees itself */
	uint32_t device_count;                /* slots in use */
	uint64_t made_ns;                     /* since 1970 */
	uint32_t writer;                      /* enum plim_gauge_writer */
	uint32_t flags;                       /* enum plim_gauge_flags */
	char run[64];                         /* a name for people, NUL at the end */
	uint32_t rank;                        /* of the job; world 0: it is alone */
	uint32_t world;                       /* ranks of the job */
	uint64_t total_steps;                 /* that the job will do */
	uint64_t sequence;                    /* odd: something is being written */
	uint64_t updated_ns;                  /* CLOCK_MONOTONIC */
	uint64_t step;                        /* steps done */
	double loss;                          /* of the last step that reported one */
	double lr;                            /* learning rate */
	double grad_norm;                     /* before clipping */
	uint32_t phase;                       /* enum plim_gauge_phase */
	uint32_t epoch;                       /* from 0 */
	uint64_t phase_since_ns;              /* CLOCK_MONOTONIC */
	uint64_t last_step_ns;                /* how long the last step took */
	uint64_t phase_ns[7];                 /* in phases 1 to 7, in total */
	struct plim_gauge_device devices[16]; /* (C only) as many as device_count */
	struct plim_gauge_mark marks[112];    /* of step n at index n % 112 */
};

struct plim_gauge_options {
	uint32_t size;                 /* set by plim_gauge_options_init */
	enum plim_gauge_writer writer; /* who fills it */
	const char *run;               /* a name for people, or NULL; cut at 63 bytes */
	const char *path;              /* where; NULL: /dev/shm, else XDG_RUNTIME_DIR */
	uint32_t rank;                 /* 0 */
	uint32_t world;                /* 0: alone */
	uint64_t total_steps;          /* PLIM_UNKNOWN */
};
PLIM_API void plim_gauge_options_init(struct plim_gauge_options *o);

struct plim_gauge;

/* Make the page; pages of processes that are gone are removed.  PLIM_E_ARG; PLIM_E_IO: there is no place for it. */
PLIM_API enum plim_status plim_gauge_open(const struct plim_gauge_options *options,
					  struct plim_gauge **out, struct plim_err *err);

/* Remove it, unless this is a forked child. */
PLIM_API void plim_gauge_close(struct plim_gauge *gauge);

/* Where it is.  Borrowed. */
PLIM_API const char *plim_gauge_path(const struct plim_gauge *gauge);

/* Another phase begins now; some 50 ns.  In a forked child nothing happens, here and below. */
PLIM_API void plim_gauge_set_phase(struct plim_gauge *gauge, enum plim_gauge_phase phase);

/* What a training loop shows at a step's end. */
struct plim_gauge_step {
	uint64_t step;    /* steps done */
	double loss;      /* NaN: as before; so are the others */
	double lr;        /* learning rate */
	double grad_norm; /* before clipping */
	uint32_t epoch;   /* from 0 */
	uint32_t flags;   /* of the mark: 1 evaluation, 2 saved */
	uint64_t
		peak_allocated_bytes; /* for the mark: since the step before; PLIM_UNKNOWN: not measured */
};
PLIM_API void plim_gauge_set_step(struct plim_gauge *gauge, const struct plim_gauge_step *step);

/* Memory of one GPU; slot < PLIM_GAUGE_DEVICES. */
PLIM_API void plim_gauge_set_device(struct plim_gauge *gauge, uint32_t slot,
				    const struct plim_gauge_device *device);

/*
 * Copy the page of a file, or of process `pid` where path is NULL.  Foreign bytes: the file is read, not mapped, links are
 * not followed, its owner must be the process's, numbers that contradict each other are made PLIM_UNKNOWN, and the run's name is
 * text.  PLIM_E_IO: there is none; PLIM_E_FORMAT: it is not a page, of another process, or torn 64 times.
 */
PLIM_API enum plim_status plim_gauge_read(uint32_t pid, const char *path,
					  struct plim_gauge_page *out, struct plim_err *err);

/*
 * For a Python process that has loaded this library: the hooks of plimsoll.memory.MemoryMonitor as Python functions written in
 * C.  `arguments` is the tuple that _monitor.py makes.  A new reference to a tuple of them; NULL: an exception is set, or
 * there is no Python or no memory.  The caller holds the GIL.
 */
PLIM_API void *plim_python_hooks(void *arguments);

#endif
