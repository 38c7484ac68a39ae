/*
 * Jobs seen from outside: samples of what a machine shows, a verdict on what holds a job back, and when its memory ends.
 *
 * A sample is what one moment showed of one job.  Features are a pure function of some seconds of samples, a verdict is one of
 * features: live jobs and recorded samples go the same way.  A number that is not seen is NaN or PLIM_UNKNOWN.
 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include "base/base.h"
#include "gpu/gpu.h"

#include <plimsoll/watch.h>

#include <math.h>

/* ---- samples ---- */

/* A process at one moment.  Counters are since it began. */
struct watch_process {
	uint32_t pid, parent;
	uint64_t start_time; /* field 22 of its stat file; 0: not known */
	char name[16];       /* comm */
	char state;          /* R S D Z T ...; 0: not known */
	char sleeps_in[48];  /* wchan; "": running, or hidden */
	int64_t call; /* number of the system call it is in; -1: in the kernel without one; WATCH_NO_CALL */
	double user_s, system_s;
	double delay_s; /* ready to run, and waited for a processor */
	uint64_t resident_bytes;
	uint64_t written_chars; /* by write() and its like, to sockets and pipes, too */
	uint64_t stored_bytes;  /* of these, what went to files on disks and networks */
	uint64_t read_bytes;    /* from block devices */
	/* of a worker, 1: yes */
	uint64_t locked; /* each of its threads waits for a lock, without a time limit */
	uint64_t
		workless; /* its stack was in the queue of the DataLoader when it was looked at last */
};
#define WATCH_NO_CALL INT64_MIN

/* A GPU at one moment, as its driver shows. */
struct watch_card {
	uint64_t total_bytes, used_bytes,
		reserved_bytes; /* used: without what the driver reserved */
	uint64_t job_bytes;     /* of the job's process */
	uint64_t
		held; /* 1: the job's process has a GPU open; 0: none; PLIM_UNKNOWN: not looked at */
	double use;   /* percent of the time with any kernel */
	double power_w, power_limit_w;
	/* GPM, percent: */
	double graphics, sm, occupancy, tensor, dram;
	double receive_mib, transmit_mib; /* a second, over PCIe */
};

/* What the machine and its limits show. */
struct watch_host {
	uint64_t total_bytes, available_bytes;
	uint64_t limit_bytes,
		limit_used_bytes; /* of the nearest cgroup: used without what can be dropped */
	uint64_t shm_total_bytes, shm_used_bytes;
	double throttled_s; /* counter: the cgroup was not let run */
	uint64_t periods, throttled_periods;
	uint64_t cores;     /* that the job may use */
	double quota_cores; /* that the tightest of its cgroups is given; NaN: no limit, or not seen */
};

/* What the job itself shows in its gauge. */
struct watch_gauge {
	bool here;
	uint64_t step, allocated_bytes, reserved_bytes, limit_bytes;
	double loss;
	uint64_t peak_bytes;    /* allocated at most, in the steps since the sample before */
	uint64_t phase;         /* enum plim_gauge_phase */
	double data_s, total_s; /* counters: time in the phase "data", in all phases */
};

/* What a program did when its stack was looked at. */
enum watch_does {
	WATCH_DOES_PYTHON, /* what is none of the others: code of its own */
	WATCH_DOES_INPUT,  /* makes batches */
	WATCH_DOES_QUEUE,  /* waits for a worker's batch */
	WATCH_DOES_START,  /* imports, loads, compiles */
	WATCH_DOES_SAVE,
	WATCH_DOES_RANKS,  /* in a collective */
	WATCH_DOES_SYNC,   /* in a call that waits for the GPU */
	WATCH_DOES_COPY,   /* between host and GPU */
	WATCH_DOES_LAUNCH, /* hands out kernels: modules, backward, an optimizer */
	WATCH_DOES_SLEEP,
	WATCH_DOES_WAIT, /* for a process, a thread, a network */
	WATCH_DOES_COUNT
};

/* Looks at the stack of the main thread, or of a worker, that showed the same. */
struct watch_stack {
	uint32_t count;
	bool worker;
	enum watch_does does;
	size_t at, n; /* in the text: a line a frame, the innermost first */
};

struct watch_stacks {
	VEC(struct watch_stack) stack;
	VEC(char) text;
};

#define WATCH_STACK_TEXT 8192 /* bytes of one, at most */

/* A line of a stack's text, in its parts. */
struct watch_frame {
	const char *file, *function, *code; /* code_n 0: what it executes is not known */
	size_t file_n, function_n, code_n;
	uint32_t line; /* 0: not known */
};
bool watch_frame_next(const char **at, const char *end, struct watch_frame *f);

/* Is it of the user's own files: not Python's, and not of an installed package? */
bool watch_frame_is_own(const struct watch_frame *f);

const char *watch_does_word(enum watch_does does);

/*
 * Looks at one stack: `text` has a line a frame, the innermost first.  `told`: what is said of what it does, if its names are redacted.
 * What is beyond the room is dropped.
 */
enum plim_status watch_stacks_add(struct mem *m, struct watch_stacks *to, bool worker,
				  uint32_t count, enum watch_does told, const char *text, size_t n,
				  struct plim_err *err);

struct watch_sample {
	double time;
	double age_s;   /* since the main process began */
	uint64_t world; /* ranks of its job; PLIM_UNKNOWN: it is alone, or that is not reported */
	struct watch_process main;         /* counters of all its threads */
	double main_user_s, main_system_s; /* of the main thread alone */
	VEC(struct watch_process) workers;
	struct watch_card card;
	struct watch_host host;
	struct watch_gauge gauge;
	struct watch_stacks stacks; /* since the sample before */
};

/* Everything unknown, no workers and no stacks (their memory is kept). */
void watch_sample_clear(struct watch_sample *s);
void watch_sample_release(struct mem *m, struct watch_sample *s);

#define WATCH_WORKER_NAME "pt_data_worker"

/* Is it a DataLoader worker of the process `main`? */
bool watch_is_worker(const struct watch_process *p, const struct watch_process *main);

/* Of those that may be its workers, leave the ones that are called so, if any is. */
void watch_keep_workers(struct watch_sample *s);

/* ---- features of a window ---- */

enum watch_feature {
	WATCH_BUSY,      /* larger of use and graphics, percent */
	WATCH_USE,       /* NVML's utilisation */
	WATCH_GRAPHICS,  /* GPM */
	WATCH_SM,        /* GPM */
	WATCH_OCCUPANCY, /* GPM */
	WATCH_TENSOR,    /* GPM */
	WATCH_DENSITY,   /* SM / graphics */
	WATCH_FILL,      /* occupancy / SM */
	WATCH_RECEIVE,   /* MiB per second */
	WATCH_TRANSMIT,
	WATCH_LINK,       /* sum of both */
	WATCH_FEED,       /* MiB received for each percent of the time that the GPU works */
	WATCH_DATA_SHARE, /* of what is received: 1, all is data; 0, all is launches of kernels */
	WATCH_GAP,        /* share of samples in which the GPU did nothing */
	WATCH_CHANGE,     /* between both halves of the window, percent of use */
	WATCH_SWING,      /* between the most and the least of its seconds, percent of use */
	WATCH_POWER,      /* share of the limit */
	WATCH_OTHERS, /* GiB of the GPU that other processes hold: all of the above may be theirs */
	/*
	 * 1: this job has run a kernel; 0: none yet; 0.5: none that the GPU's use would show; 0.75: the GPU has, for this job or for
	 * another one that holds it; NaN: not known, it has held the GPU for long
	 */
	WATCH_SEEN,
	WATCH_MAIN,    /* cores of the main thread */
	WATCH_SYSTEM,  /* share of these inside the kernel */
	WATCH_PROCESS, /* cores of all its threads */
	WATCH_PACE, /* cores of what hands out the work: the main thread, or it and the one of the backward pass in turn */
	WATCH_WAITS, /* of the main thread: the larger of 1 - cores and of the share of samples in poll, futex, pipe */
	WATCH_POLLS,        /* share of its samples in poll: a queue of another process, a socket */
	WATCH_SLEEPS,       /* share of its samples in nanosleep, select */
	WATCH_STOPPED,      /* share of its samples in T: by a signal, or a debugger */
	WATCH_BLOCKED,      /* share of its samples in D */
	WATCH_WRITES,       /* MB per second, to files; by write() where no more is reported */
	WATCH_SENDS,        /* MB per second, by write() to what is no such file: sockets, pipes */
	WATCH_READS,        /* MB per second from disks, by the main process */
	WATCH_WORKERS,      /* how many */
	WATCH_WORKER_CORES, /* of each */
	WATCH_WORKERS_SUM,  /* cores of all workers together */
	WATCH_WORKER_DISK,  /* share of their samples in D */
	WATCH_WORKER_QUEUE, /* in poll, futex, pipe: nothing to do */
	WATCH_WORKER_POLLS, /* in poll: nothing to do, or for a socket */
	WATCH_WORKER_SOURCE, /* asleep elsewhere */
	WATCH_WORKER_LOCKS, /* share of the samples in which workers wait for locks, and none does anything else but wait for work */
	WATCH_WORKER_READS, /* MB per second, all */
	WATCH_WORKER_LACKS, /* share of the time that each was ready and had no processor */
	WATCH_DELAY, /* share of the time that the main process was ready and had no processor */
	WATCH_THROTTLED,         /* share of the time that the cgroup was not let run */
	WATCH_THROTTLED_PERIODS, /* share of its periods */
	WATCH_DATA,  /* share of the steps' time spent waiting for data, from the gauge */
	WATCH_RANKS, /* that its job has; 1: it is alone, or that is not reported */
	WATCH_LOOKS, /* at the main thread's stack, how many; NaN: none */
	WATCH_DOES, /* from here on: share of them that did what enum watch_does has at that place; NaN: too few */
	WATCH_FEATURE_COUNT = WATCH_DOES + WATCH_DOES_COUNT
};

/* Where a program was in some of the looks at its stack. */
struct watch_place {
	double share; /* of the looks at the same kind of process */
	enum watch_does does;
	unsigned looks; /* that found it there */
	uint32_t line;  /* 0: not known */
	bool worker;    /* a DataLoader worker; else the main thread */
	char file[112],
		function[64]; /* of the user's own code, as far as there is any on the stack */
	char code[80];        /* what it executes; "": not known */
	char inside[160]; /* "FILE:LINE FUNCTION" of the innermost frame, if that is another one */
};
#define WATCH_PLACES 4

struct watch_features {
	double at[WATCH_FEATURE_COUNT]; /* NaN: not seen */
	double seconds;                 /* of the window */
	unsigned samples;
	bool sleeps_hidden;        /* something sleeps, and wchan does not say in what */
	char worker_sleeps_in[48]; /* where most workers sleep; "": not seen */
	uint64_t cores;            /* as of the host */
	double quota_cores;
	struct watch_place places
		[WATCH_PLACES]; /* the main thread's first, each kind the most frequent first */
	size_t place_count;
};

/* Bytes of a GPU that other processes hold, and the driver for them; NaN: not told. */
double watch_others(const struct watch_card *c);

/* So much of others is not bookkeeping of the driver's, but a context. */
#define WATCH_A_CONTEXT 0.25 /* GiB */

/* `n` samples, the oldest first; `seen`: WATCH_SEEN. */
void watch_features(const struct watch_sample *const *samples, size_t n, double seen,
		    struct watch_features *out);

/* ---- verdicts ---- */

/* A state that one number is missing for. */
struct watch_near {
	enum plim_watch_state state;
	enum watch_feature what;
	bool at_least;
	double limit;
};

#define WATCH_NEAR 2

struct watch_judgement {
	enum plim_watch_state state;
	enum plim_watch_confidence confidence;
	bool throttled; /* next to the state */
	/* Where it is not decided: what it would be, the nearest first. */
	struct watch_near near[WATCH_NEAR];
	unsigned near_count;
};

struct watch_judgement watch_judge(const struct watch_features *f);

/* The sentences of a state, with the numbers of its window. */
struct watch_words {
	const char *title;
	const char **evidence, **advice;
	size_t evidence_count, advice_count;
};
enum plim_status watch_tell(const struct watch_judgement *j, const struct watch_features *f,
			    double seconds, struct arena *arena, struct watch_words *out,
			    struct plim_err *err);

/* ---- memory that climbs ---- */

#define WATCH_BINS 192

/* A number over time, as the least and the most of each bin; bins become longer as time goes. */
struct watch_series {
	double start, width; /* seconds */
	unsigned n;
	uint64_t low[WATCH_BINS];  /* PLIM_UNKNOWN: nothing was seen */
	uint64_t high[WATCH_BINS]; /* where something was seen */
	uint64_t step
		[WATCH_BINS]; /* of the training, the last one in the bin; PLIM_UNKNOWN: not known */
	double last;          /* time of the newest value */
	uint64_t newest;
};

void watch_series_init(struct watch_series *s);
void watch_series_add(struct watch_series *s, double time, uint64_t value, uint64_t step);

/* It was that high a while before the newest value. */
void watch_series_spike(struct watch_series *s, uint64_t value);

struct watch_slope {
	bool climbs;              /* it does, steadily, and still does */
	double low, middle, high; /* bytes per second, 95 % */
	double step_seconds;      /* of a step; NaN: not known */
	double since, seconds;    /* what it rests on */
	double above;             /* the newest value, above the floor as it is then; bytes */
	/* Above the floor: what every later block reaches, and the most of any; bytes. */
	double spike_low, spike_high;
	double spike_every; /* seconds, the longest without spike_low */
	unsigned rises;
};

/* The first quarter of the series is warm-up. */
void watch_series_slope(const struct watch_series *s, struct watch_slope *out);

/* How sure it is that so many bytes will be full: by how far beyond what was seen that is. */
enum plim_watch_confidence watch_slope_confidence(const struct watch_slope *slope,
						  double room_bytes);

/* ---- a job over time ---- */

#define WATCH_RING 64  /* samples; a window has fewer */
#define WATCH_STEPS 15 /* of which the usual one is known */

enum watch_memory {
	WATCH_MEM_GPU,
	WATCH_MEM_GAUGE,
	WATCH_MEM_CGROUP,
	WATCH_MEM_MACHINE,
	WATCH_MEM_SHM,
	WATCH_MEM_COUNT
};

/* A stretch of one state. */
struct watch_span {
	struct watch_judgement judgement;
	double since, until;            /* NaN: it goes on */
	struct watch_features features; /* of its newest window */
};

struct watch_job {
	struct mem *mem;
	double window_s;
	struct watch_sample ring[WATCH_RING];
	uint64_t samples;
	double first_time, last_time;
	double work_since; /* first kernel; NaN: none yet */
	double held_since; /* it holds memory of the GPU; NaN: not yet */
	bool seen;
	bool seen_by_card; /* the GPU has run kernels, for whom is not reported */
	bool carded;       /* something was reported a GPU, or that it holds none */
	bool met;          /* its GPU was reported */
	bool met_late;     /* it held the GPU then, and was not a young process */
	bool keep_windows;
	bool ended;
	unsigned used_in_a_row; /* samples with use, where there is no GPM */
	unsigned candidate_windows;
	uint64_t step;                    /* the newest that the gauge reported */
	double step_time;                 /* when it came */
	double step_seconds[WATCH_STEPS]; /* what the newest took */
	size_t steps_timed;
	struct watch_features window; /* of the newest samples */
	uint64_t window_of;           /* how many there were */
	bool window_told;             /* false: they were too few */
	double judged_time;           /* of the newest window */
	struct watch_judgement candidate;
	double candidate_since;
	VEC(struct watch_span) spans; /* the newest last */
	struct watch_series series[WATCH_MEM_COUNT];
	double seconds_in[PLIM_WATCH_STATE_COUNT];
	VEC(struct plim_watch_window) windows; /* kept if keep_windows */
};

void watch_job_init(struct watch_job *j, struct mem *m, double window_s);
void watch_job_release(struct watch_job *j);

/* The slot of the next sample, cleared: fill it, then watch_job_add. */
struct watch_sample *watch_job_slot(struct watch_job *j);
enum plim_status watch_job_add(struct watch_job *j, struct plim_err *err);

/* The newest sample; NULL: there is none. */
const struct watch_sample *watch_job_last(const struct watch_job *j);

/* Features of the newest window, looked at once a sample; NULL: there are too few of them. */
const struct watch_features *watch_job_window(struct watch_job *j);

/* What will be full, the nearest first, into an array of the arena. */
enum plim_status watch_forecast(const struct watch_job *j, struct arena *arena,
				struct plim_watch_forecast **out, size_t *n, struct plim_err *err);

/* ---- looking at this machine ---- */

struct watch_look;

/* A job that runs. */
struct watch_seen {
	uint64_t pid, start_time;
	char name[64];
	char gpu[72];         /* "0 NVIDIA H100 80GB HBM3"; "": none */
	unsigned card;        /* its number; UINT_MAX: none */
	uint64_t rank, world; /* PLIM_UNKNOWN: not known */
	uint64_t group;       /* ranks of one job share it; 0: it is alone */
};

enum plim_status watch_look_open(struct mem *m, const struct plim_watch_options *options,
				 struct watch_look **out, struct plim_err *err);
void watch_look_close(struct watch_look *l);

/* Look at the GPUs once; the jobs that hold them, or the one that was asked for.  Good until the next call. */
enum plim_status watch_look_jobs(struct watch_look *l, const struct watch_seen **out, size_t *n,
				 struct plim_err *err);

/*
 * Look at the stack of a job's main thread, and every other time of one of its workers (of its newest sample, or NULL) in turn: some
 * 0.1 ms.  The next sample has what was seen.
 */
void watch_look_glance(struct watch_look *l, uint64_t pid, uint64_t start_time,
		       const struct watch_sample *last);

/* Was there a look since the newest sample? */
bool watch_look_glanced(const struct watch_look *l, uint64_t pid, uint64_t start_time);

/* What this moment shows of a job. */
enum plim_status watch_look_sample(struct watch_look *l, const struct watch_seen *job,
				   struct watch_sample *out, struct plim_err *err);

/* The GPUs as they were looked at last. */
const struct gpu_cards *watch_look_cards(const struct watch_look *l);

/* The folder of a process's cgroup (PLIM_UNKNOWN: it stands in `folder`), and how often the kernel killed for memory in it. */
void watch_look_cgroup(const struct watch_look *l, uint64_t pid, char *folder, size_t room,
		       uint64_t *kills);

bool watch_look_lives(struct watch_look *l, uint64_t pid, uint64_t start_time);

/* Is the process that was asked for gone? */
bool watch_look_ended(struct watch_look *l);

/* What cannot be seen, and why. */
enum plim_status watch_look_notes(struct watch_look *l, struct arena *arena, const char ***out,
				  size_t *n, struct plim_err *err);

/* Does the process catch that signal; does it map that file? */
bool watch_catches(uint32_t pid, int number);
bool watch_maps(uint32_t pid, const char *path);

/*
 * Send a signal to the process that was seen.  `to_record` (what was seen of its host, or NULL): it is to make a recording; refused with
 * PLIM_E_UNSUPPORTED where it would not, or where host memory is short.
 */
enum plim_status watch_signal(uint64_t pid, uint64_t start_time, int number,
			      const struct watch_host *to_record, struct plim_err *err);

/* ---- samples as JSON lines ---- */

struct watch_lines;

/* A reader of JSON lines; *name of the program, *pid as far as told. */
enum plim_status watch_lines_open(struct mem *m, const char *path, struct watch_lines **out,
				  struct plim_err *err);
/* The next sample; *more false: there is none. */
enum plim_status watch_lines_next(struct watch_lines *l, struct watch_sample *s, bool *more,
				  struct plim_err *err);
const char *watch_lines_name(const struct watch_lines *l); /* "": not known */
void watch_lines_close(struct watch_lines *l);

/* A sample as a line, as watch_lines_next reads it; resident memory in pages of so many bytes. */
void watch_line(const struct watch_sample *s, uint64_t page_bytes, struct text *out);

#endif
