/*
 * plimsoll watch: jobs that run, seen from outside: what holds each back, and when it will run out of memory.
 *
 * A number that is not known is NaN or PLIM_UNKNOWN and a text that is not known is NULL; JSON shows null for each.
 * Times are seconds since 1970.  Everything a result points to belongs to it and lasts until the next plim_watch_tick
 * or plim_watch_free.
 */
#ifndef PLIMSOLL_WATCH_H
#define PLIMSOLL_WATCH_H

#include <plimsoll/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What holds a job back.  Values never change; new ones are added at the end. */
enum plim_watch_state {
	PLIM_WATCH_UNDECIDED,
	PLIM_WATCH_STARTING,
	PLIM_WATCH_COMPUTE_BOUND,
	PLIM_WATCH_BUSY_THIN,     /* the GPU is never idle, and most of it is */
	PLIM_WATCH_INPUT_CPU,     /* waits for workers that compute */
	PLIM_WATCH_INPUT_DISK,    /* waits for workers that wait for a disk */
	PLIM_WATCH_INPUT_SOURCE,  /* waits for workers that sleep or wait for a network */
	PLIM_WATCH_INPUT_MAIN,    /* the main process makes the batches itself */
	PLIM_WATCH_INPUT_UNKNOWN, /* waits for workers; what they wait for is not seen */
	PLIM_WATCH_MAIN_SYSTEM,   /* the main thread works inside the kernel */
	PLIM_WATCH_MAIN_PYTHON,   /* the main thread computes, the GPU waits */
	PLIM_WATCH_LAUNCH_BOUND,  /* many kernels, each too small */
	PLIM_WATCH_SYNC_BOUND,    /* large kernels, and the host waits behind each */
	PLIM_WATCH_HOST_PACED, /* one of the three above, or input_main: the GPU shows too little to say which */
	PLIM_WATCH_COPY_BOUND,
	PLIM_WATCH_SAVING,
	PLIM_WATCH_SLEEPING, /* the main thread sleeps of its own will */
	PLIM_WATCH_IDLE,     /* holds memory and does nothing */
	PLIM_WATCH_THROTTLED,
	PLIM_WATCH_STALLED,
	PLIM_WATCH_DEADLOCK /* waits for workers that wait for locks */
};
#define PLIM_WATCH_STATE_COUNT 21
PLIM_API const char *plim_watch_state_name(enum plim_watch_state value);

enum plim_watch_confidence {
	PLIM_WATCH_LOW,    /* something that the rule asks for could not be seen */
	PLIM_WATCH_MEDIUM, /* a number is near its threshold, or the rule was tried on few jobs */
	PLIM_WATCH_HIGH
};
PLIM_API const char *plim_watch_confidence_name(enum plim_watch_confidence value);

/* A stretch of time in one state. */
struct plim_watch_verdict {
	enum plim_watch_state state;           /* what holds the job back */
	enum plim_watch_confidence confidence; /* how sure that is */
	double since;                          /* when it began */
	double until;                          /* when it was over; null: it goes on */
	const char *title;                     /* (never null) one sentence */
	const char **evidence;                 /* sentences with the numbers */
	size_t evidence_count;                 /* how many */
	const char **advice;                   /* what to change, best first */
	size_t advice_count;                   /* how many */
};

/* What the memory will run into. */
enum plim_watch_bound {
	PLIM_WATCH_BOUND_GPU,     /* the GPU */
	PLIM_WATCH_BOUND_PROCESS, /* the job's own limit of GPU memory */
	PLIM_WATCH_BOUND_CGROUP,  /* the nearest memory limit of a control group on the way up */
	PLIM_WATCH_BOUND_MACHINE, /* memory that the machine has available */
	PLIM_WATCH_BOUND_SHM      /* /dev/shm */
};
PLIM_API const char *plim_watch_bound_name(enum plim_watch_bound value);

struct plim_watch_forecast {
	enum plim_watch_bound bound; /* what will be full */
	/* low: it grows, but the end is too far beyond what was seen to be foretold */
	enum plim_watch_confidence confidence;
	const char *what;                                 /* (never null) the memory that grows */
	uint64_t room_bytes;                              /* left now */
	struct plim_interval growth_bytes_per_hour_range; /* 95 % */
	struct plim_interval seconds_range; /* until it is full, from the two ends of the growth */
	struct plim_interval step_range;    /* of the training, then; null: steps are not seen */
	double since;                       /* begin of the samples it rests on */
	const char *title;                  /* (never null) one sentence */
	const char **evidence;              /* sentences with the numbers */
	size_t evidence_count;              /* how many */
};

/* One window of samples, before it is made steady.  Of replays only. */
struct plim_watch_window {
	double time;                           /* its end */
	enum plim_watch_state state;           /* what it alone shows */
	enum plim_watch_confidence confidence; /* how sure that is */
};

/* The share of the time that a job was in a state. */
struct plim_watch_share {
	enum plim_watch_state state; /* that was said */
	double seconds;              /* in total */
};

/* What the latest sample says of a job; each null where it is not seen. */
struct plim_watch_now {
	double time;                      /* of the sample */
	double gpu_busy_percent;          /* time with any kernel at all */
	double sm_active_percent;         /* of the GPU's multiprocessors, by GPM */
	double sm_occupancy_percent;      /* of the GPU's warps, by GPM */
	double tensor_active_percent;     /* by GPM */
	double dram_active_percent;       /* by GPM */
	double receive_bytes_per_second;  /* of the GPU, over PCIe */
	double transmit_bytes_per_second; /* of the GPU, over PCIe */
	double power_watts;               /* of the GPU */
	uint64_t gpu_total_bytes;         /* of the GPU */
	uint64_t gpu_used_bytes;          /* of the GPU, by everyone */
	uint64_t gpu_reserved_bytes;      /* of the GPU, by the driver */
	uint64_t gpu_job_bytes;           /* of the GPU, by this job */
	uint64_t allocated_bytes;         /* PyTorch's, from the gauge */
	uint64_t reserved_bytes;          /* PyTorch's, from the gauge */
	uint64_t step;                    /* from the gauge */
	double loss;                      /* from the gauge */
	const char *phase;                /* from the gauge */
	double main_cores;                /* that the main thread used */
	uint64_t worker_count;            /* DataLoader workers */
	double worker_cores;              /* that one of them used, on average */
	uint64_t resident_bytes;          /* of the main process and its workers */
	uint64_t host_available_bytes;    /* of the machine */
	uint64_t host_total_bytes;        /* of the machine */
};

/* A process of a job at the latest sample. */
struct plim_watch_process {
	uint64_t pid;            /* of the process */
	const char *what;        /* (never null) main, or worker */
	const char *state;       /* (never null) R, S, D, Z, T as /proc has it; "?": not known */
	double cores;            /* that it used since the sample before */
	uint64_t resident_bytes; /* of its memory */
	double read_bytes_per_second; /* from disks */
	const char *sleeps_in;        /* the kernel's function; null: it runs, or no one may know */
};

/* Where a program was in some of the looks at its Python stack, in the newest window. */
struct plim_watch_place {
	const char *who; /* (never null) main: the main thread; worker: a DataLoader worker */
	/* (never null) input, queue, starting, saving, collective, sync, copy, launch, sleep, wait; python: none of these */
	const char *does;
	uint64_t looks; /* that found it there */
	double share;   /* of all looks at who */
	const char *
		file; /* of the user's own code, as far as there is any on the stack; null: not known */
	uint64_t line;        /* in it; null: not known */
	const char *function; /* null: not known */
	const char *code;     /* what the line executes, from its file; null: not read */
	const char *inside;   /* FILE:LINE FUNCTION of the innermost frame; null: it is that line */
};

struct plim_watch_job {
	uint64_t pid;              /* null: not known */
	const char *name;          /* (never null) of the program, as short as shows it */
	const char *gpu;           /* name and number of its GPU; null: it has none */
	double first_time;         /* of the samples */
	double last_time;          /* of the samples */
	uint64_t samples;          /* that were taken */
	uint64_t rank;             /* of a job of several processes; null: it is alone */
	uint64_t world;            /* how many ranks that job has; null: not known */
	struct plim_watch_now now; /* the latest sample */
	struct plim_watch_process *processes; /* the main process, then the workers */
	size_t process_count;                 /* how many */
	struct plim_watch_place *places;      /* the main thread's first, the most frequent first */
	size_t place_count;                   /* how many */
	struct plim_watch_verdict *verdicts;  /* the newest first */
	size_t verdict_count;                 /* how many */
	struct plim_watch_forecast *forecasts; /* the nearest first */
	size_t forecast_count;                 /* how many */
	struct plim_watch_share *shares;       /* the longest first */
	size_t share_count;                    /* how many */
	struct plim_watch_window *windows;     /* of a replay: every window */
	size_t window_count;                   /* how many */
	bool ended;                            /* the process is gone */
};

/* A GPU of this machine, whoever uses it.  Of a replay there is none. */
struct plim_watch_card {
	uint64_t index;             /* as its driver counts */
	const char *name;           /* (never null) of the product */
	const char *uuid;           /* null: not known */
	uint64_t total_bytes;       /* of its memory */
	uint64_t used_bytes;        /* by everyone */
	uint64_t reserved_bytes;    /* by the driver */
	double gpu_busy_percent;    /* time with any kernel at all */
	double sm_active_percent;   /* of its multiprocessors, by GPM */
	double power_watts;         /* now */
	double power_limit_watts;   /* that it keeps below */
	double temperature_celsius; /* of the chip */
	const char *slowed; /* why its clocks are down: heat, hardware; null: they are not */
	uint64_t xid;       /* the newest error of the driver since watch began; null: none */
	uint64_t processes; /* that hold it; null: not known */
	bool lost;          /* it has fallen off the bus */
};

/* What an alert is about.  Values never change; new ones are added at the end. */
enum plim_watch_event {
	PLIM_WATCH_CREEP,    /* some memory climbs, for two minutes and more */
	PLIM_WATCH_OOM_SOON, /* memory is full within 15 minutes, or of a host limit 5 % are left */
	PLIM_WATCH_IDLE_LONG,    /* holds memory and does nothing for ten minutes */
	PLIM_WATCH_STALL,        /* no step for ten times as long as one takes, and two minutes */
	PLIM_WATCH_INPUT_BOUND,  /* waits for data for five minutes */
	PLIM_WATCH_SLOWED,       /* by a CPU limit, heat or power, for a minute */
	PLIM_WATCH_CARD_LOST,    /* a GPU has fallen off the bus */
	PLIM_WATCH_XID,          /* the driver reported an error of a GPU */
	PLIM_WATCH_DIED,         /* the job is gone, and something killed it */
	PLIM_WATCH_ENDED,        /* the job is gone */
	PLIM_WATCH_TIGHT_SHM,    /* of /dev/shm 5 % are left */
	PLIM_WATCH_LATE_RANK,    /* the other ranks wait for this one, for a minute */
	PLIM_WATCH_DRIVER_SILENT /* the GPU's driver has not answered for ten seconds */
};
#define PLIM_WATCH_EVENT_COUNT 13
PLIM_API const char *plim_watch_event_name(enum plim_watch_event value);

/* Something that someone should know of. */
struct plim_watch_alert {
	enum plim_watch_event event; /* what */
	uint64_t pid;                /* of the job; null: it is about a GPU */
	double since;                /* when it began */
	bool fresh;                  /* with this very sample */
	const char *title;           /* (never null) one sentence */
};

/* Processes of one job: ranks. */
struct plim_watch_group {
	uint64_t ranks;        /* that are seen here */
	uint64_t world;        /* that the job has; null: not known */
	uint64_t late_pid;     /* the one that the others wait for; null: none */
	uint64_t late_rank;    /* its rank; null: none, or not known */
	const char *title;     /* (never null) one sentence */
	const char **evidence; /* sentences with the numbers */
	size_t evidence_count; /* how many */
};

struct plim_watch {
	struct plim_watch_job *jobs;     /* those that end stay, up to 64 of them */
	size_t job_count;                /* how many */
	struct plim_watch_group *groups; /* jobs that are ranks of one */
	size_t group_count;              /* how many */
	struct plim_watch_card *cards;   /* of this machine */
	size_t card_count;               /* how many */
	struct plim_watch_alert *alerts; /* that hold now, the newest first */
	size_t alert_count;              /* how many */
	double driver_silent_seconds; /* that the GPU's driver owes an answer for; null: it answers */
	double cpu_seconds;           /* of processor time that watching has taken */
	bool ended;         /* the process that was asked for is gone, or all of a replay is read */
	const char **notes; /* what could not be seen, and why; redacted: what is kept */
	size_t note_count;  /* how many */
	struct plim_watch_hidden *hidden; /* what owns the memory */
};

enum plim_watch_flags {
	/* (--no-gpu, under look) do not ask for GPUs */
	PLIM_WATCH_NO_GPU = 1,
	/*
	 * (--here, under where) only jobs where this command runs: its container, Slurm job, user,
	 * or cgroup. Of those that hold a GPU
	 */
	PLIM_WATCH_HERE = 2,
	/*
	 * (--redact, under names) replace names of programs that not everybody has; in --log, --do
	 * and what is served, too
	 */
	PLIM_WATCH_REDACT = 4,
	/* (--no-stacks, after --no-gpu) do not look at the stacks of Python programs */
	PLIM_WATCH_NO_STACKS = 8
};

struct plim_watch_options {
	/* set by plim_watch_options_init */
	uint32_t size;
	/* enum plim_watch_flags */
	uint32_t flags;
	/* (C only) the job, or what started it; PLIM_UNKNOWN: every job that holds a GPU */
	uint64_t pid;
	/* (C only) of the samples that a verdict looks at; 0: 5 live, 2 of a replay */
	double window_s;
	/* (--log FILE, under log) append every sample to this file, for --replay */
	const char *log_path;
	/* (--nvml FILE, after --no-stacks) NVML's library (libnvidia-ml.so.1) */
	const char *nvml_path;
	/* (--root FOLDER) look at the proc, sys and dev below it instead of this machine's */
	const char *root;
	/* (C only) how long a tick waits for a GPU's driver; 0: 0.15 */
	double patience_s;
	/* (-m --max-memory BYTES, from 1MiB, after --root) use no more (half of this machine's) */
	uint64_t max_memory_bytes;
};
PLIM_API void plim_watch_options_init(struct plim_watch_options *o);

/* Judge recorded samples: JSON lines (docs/formats/watch-samples.md), "-" is standard input. */
PLIM_API enum plim_status plim_watch_replay(const char *path,
					    const struct plim_watch_options *options,
					    struct plim_watch **out, struct plim_err *err);

/* Begin to look; no sample is taken yet.  PLIM_E_ARG: no such process. */
PLIM_API enum plim_status plim_watch_open(const struct plim_watch_options *options,
					  struct plim_watch **out, struct plim_err *err);

/* Take a sample of every job and judge; some milliseconds.  What watch pointed to before is void. */
PLIM_API enum plim_status plim_watch_tick(struct plim_watch *watch, struct plim_err *err);

/*
 * Look at the stacks of some jobs' main threads, between two ticks; some 0.1 ms each.  A few a second, at irregular times, tell what a job
 * is busy with.  plim_watch_tick does it once by itself.
 */
PLIM_API void plim_watch_glance(struct plim_watch *watch);

/* Of a job that is watched as options.pid's child: its wait status.  Its end is then reported with its cause. */
PLIM_API void plim_watch_waited(struct plim_watch *watch, uint64_t pid, int status);

/* Does not wait for a driver that hangs. */
PLIM_API void plim_watch_free(struct plim_watch *watch);

/*
 * Send a signal to the process of jobs[job], by a pidfd and only if it is still the one that was seen.
 * PLIM_E_ARG: it is gone; PLIM_E_IO: not permitted.
 */
PLIM_API enum plim_status plim_watch_signal(const struct plim_watch *watch, size_t job, int number,
					    struct plim_err *err);

/*
 * Ask jobs[job] for a recording (SIGUSR1).  Refused with the reason (PLIM_E_UNSUPPORTED) unless its gauge says that it keeps one, it is
 * the program that made the gauge, it catches the signal, and host memory has room for the recording.
 */
PLIM_API enum plim_status plim_watch_ask(const struct plim_watch *watch, size_t job,
					 struct plim_err *err);

/* What a screen shows. */
enum plim_watch_page {
	PLIM_WATCH_PAGE_JOBS,     /* GPUs, jobs, and the one that is chosen */
	PLIM_WATCH_PAGE_JOB,      /* the job that is chosen, with its processes */
	PLIM_WATCH_PAGE_EVIDENCE, /* all that is said of it */
	PLIM_WATCH_PAGE_HELP      /* the keys */
};
/* The order of the jobs on a screen. */
enum plim_watch_order {
	PLIM_WATCH_BY_PID,    /* the smallest first */
	PLIM_WATCH_BY_MEMORY, /* the most of a GPU first */
	PLIM_WATCH_BY_USE,    /* the busiest GPU first */
	PLIM_WATCH_BY_STATE   /* what is held back first */
};
/* What a screen is to show, and how large it is. */
struct plim_watch_view {
	uint32_t width;              /* of the terminal, in columns */
	uint32_t height;             /* in lines */
	enum plim_watch_page page;   /* what is shown */
	enum plim_watch_order order; /* of the jobs */
	uint64_t pid;                /* the job that is chosen; PLIM_UNKNOWN: the first */
	uint64_t first_line;         /* of PAGE_EVIDENCE and PAGE_JOB: lines above the upper edge */
	const char *message;         /* in the last line instead of the keys; NULL: none */
	bool color;                  /* escape sequences for colours may be written */
	bool utf8;                   /* else ASCII */
};

/* One screen: at most `height` lines of at most `width` columns, a line feed behind each but the last. */
PLIM_API enum plim_status plim_watch_screen(const struct plim_watch *watch,
					    const struct plim_watch_view *view,
					    plim_write_fn *write, void *ctx, struct plim_err *err);

/* The job `by` places behind that of process `pid` (PLIM_UNKNOWN: the first one) in that order, its pid; no further than the ends. */
PLIM_API uint64_t plim_watch_beside(const struct plim_watch *watch, enum plim_watch_order order,
				    uint64_t pid, int64_t by);

/* As OpenMetrics 1.0, for Prometheus; docs/watch.md has the names. */
PLIM_API enum plim_status plim_watch_metrics(const struct plim_watch *watch, plim_write_fn *write,
					     void *ctx, struct plim_err *err);

/* The same in Prometheus' older text format (0.0.4), which node_exporter's textfile collector reads. */
PLIM_API enum plim_status plim_watch_metrics_plain(const struct plim_watch *watch,
						   plim_write_fn *write, void *ctx,
						   struct plim_err *err);

/* What came over HTTP, and who may ask. */
struct plim_watch_request {
	const char *at;    /* the bytes so far, foreign */
	size_t n;          /* how many */
	const char *token; /* that a request must have (Authorization: Bearer ...); NULL: none */
	bool any_host; /* by whatever name this machine was called; else by those of the loopback only */
};

/*
 * Answer it with all headers: / the live page, /watch.json, /metrics, /healthz, /events.  *whole (on success) false: more of it is to
 * come, and nothing was written.  Behind an answer the connection is closed, except for that of plim_watch_follows.
 */
PLIM_API enum plim_status plim_watch_answer(const struct plim_watch *watch,
					    const struct plim_watch_request *request, bool *whole,
					    plim_write_fn *write, void *ctx, struct plim_err *err);

/*
 * Is it a whole request for /events that may be answered?  Then the headers are followed by events as Server-Sent Events have them, one a
 * sample ("id: N", "data: " and watch/1 in one line), which the caller writes.  *after: of what it has seen (Last-Event-ID);
 * PLIM_UNKNOWN: nothing.
 */
PLIM_API bool plim_watch_follows(const struct plim_watch_request *request, uint64_t *after);

/* As JSON, schema watch/1 (docs/json.md). */
PLIM_API enum plim_status plim_watch_json(const struct plim_watch *watch, plim_write_fn *write,
					  void *ctx, struct plim_err *err);

/* As text for a person. */
PLIM_API enum plim_status plim_watch_text(const struct plim_watch *watch,
					  const struct plim_text_style *style, plim_write_fn *write,
					  void *ctx, struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
