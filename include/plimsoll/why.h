/*
 * plimsoll why: every failure of memory that a log says of, explained.
 *
 * All sizes are bytes.  Numbers in logs are rounded, so each is a range.  A number that is not known
 * is PLIM_UNKNOWN and a text that is not known is NULL; JSON shows null for both.  Everything a
 * result points to belongs to the result.
 */
#ifndef PLIMSOLL_WHY_H
#define PLIMSOLL_WHY_H

#include <plimsoll/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plim_why_flags {
	/* (--redact, under names) no text of the log, and no name that is not well known */
	PLIM_WHY_REDACT = 1,
	/* (--more, under names) all that is known: the evidence, what else helps, and what does not */
	PLIM_WHY_MORE = 2
};

/* plim_why_options_init sets the defaults; then change what is to be different. */
struct plim_why_options {
	/* set by plim_why_options_init */
	uint32_t size;
	/* enum plim_why_flags */
	uint32_t flags;
	/*
	 * (-m --max-memory BYTES, from 1MiB, under limits) refuse what needs more (half of this
	 * machine's)
	 */
	uint64_t max_memory_bytes;
	/*
	 * (-s --snapshot FILE, under log) the recording of the same run: it decides what the text
	 * leaves open
	 */
	const char *snapshot_path;
	/*
	 * (-c --config MODEL) the run's model (config.json, safetensors or a folder): what plan
	 * says of the recipe below is shown with the death. As plim_plan_open takes it
	 */
	const char *config_path;
	/*
	 * (C only) With config_path: the run's recipe; NULL: plan's defaults. Where it says
	 * neither memory_bytes nor gpu, the limit is what the log shows.
	 */
	const struct plim_plan_options *recipe;
	/* (C only) more logs or folders, put together with the first as those of a folder are */
	const char *const *also_paths;
	/* (C only) how many */
	size_t also_count;
};
PLIM_API void plim_why_options_init(struct plim_why_options *o);

/* What the log says of, in all: enum values never change. */
enum plim_why_outcome {
	PLIM_WHY_NOTHING, /* no failure that is known here */
	PLIM_WHY_OTHER,   /* failures, but not of memory */
	PLIM_WHY_MEMORY
};
PLIM_API const char *plim_why_outcome_name(enum plim_why_outcome value);

enum plim_why_kind {
	PLIM_WHY_DEVICE,       /* a GPU's memory was refused */
	PLIM_WHY_BUDGET,       /* a program's own share of the GPU did not suffice */
	PLIM_WHY_HOST,         /* the machine refused memory */
	PLIM_WHY_CGROUP_KILL,  /* killed for a limit of a job, a container or a unit */
	PLIM_WHY_HOST_KILL,    /* killed because the machine ran out */
	PLIM_WHY_KILLED,       /* SIGKILL; by whom, the log does not say */
	PLIM_WHY_SHARED_MEMORY /* /dev/shm */
};
PLIM_API const char *plim_why_kind_name(enum plim_why_kind value);

enum plim_why_moment {
	PLIM_WHY_MOMENT_UNKNOWN, /* null: no traceback shows it */
	PLIM_WHY_LOADING,
	PLIM_WHY_FORWARD,
	PLIM_WHY_BACKWARD,
	PLIM_WHY_FIRST_STEP,
	PLIM_WHY_OPTIMIZER,
	PLIM_WHY_EVAL,
	PLIM_WHY_GENERATION,
	PLIM_WHY_SAVING,
	PLIM_WHY_DATA
};
PLIM_API const char *plim_why_moment_name(enum plim_why_moment value);

struct plim_why_file {
	const char *path;        /* the file as given, "-" for standard input */
	const char *compression; /* gzip, xz, zstd, bzip2 or zip; null: none */
	uint64_t bytes;          /* of the text */
	uint64_t lines;          /* of the text */
};

struct plim_why_numbers {
	/* what the driver was asked for ("Tried to allocate") */
	struct plim_interval tried_bytes;
	struct plim_interval total_bytes;           /* of the GPU */
	struct plim_interval free_bytes;            /* that the driver had left */
	struct plim_interval allowed_bytes;         /* to this process, by a limit of its own */
	struct plim_interval allocated_bytes;       /* by PyTorch */
	struct plim_interval unallocated_bytes;     /* reserved by PyTorch, in no block in use */
	struct plim_interval private_pools_bytes;   /* of allocated, in pools of CUDA graphs */
	struct plim_interval reserved_bytes;        /* by PyTorch, in all */
	struct plim_interval this_process_bytes;    /* of the GPU, with what is outside PyTorch */
	struct plim_interval other_processes_bytes; /* of the GPU */
	struct plim_interval used_bytes;            /* of a cgroup, a job or a node */
	struct plim_interval limit_bytes;           /* of a cgroup, a job or a node */
	struct plim_interval resident_bytes;        /* of the process that was killed */
};

struct plim_why_process {
	uint64_t pid;            /* as the kernel numbers it */
	const char *name;        /* its command */
	uint64_t resident_bytes; /* in memory, pages of 4 KiB assumed */
};

/* What report knows of the same death, from its recording. */
struct plim_why_recorded {
	const char *path;             /* the recording */
	uint64_t device;              /* ordinal of the GPU */
	uint64_t event;               /* of the recording: the request that failed */
	bool same_death;              /* its request is what the text shows */
	struct plim_verdict *verdict; /* as report shows it */
};

/* What plan says of the same run, under the limit that the death ran into. */
struct plim_why_planned {
	const char *path;     /* the model's file */
	uint64_t limit_bytes; /* of reserved memory, under which it was planned */
	bool limit_told;      /* the log reported the limit; false: the options did */
	/* the plan dies as the log shows; null: the log shows too little to compare */
	enum plim_tri agrees;
	const char *says;      /* one sentence */
	const char **evidence; /* what they agree in, and what not */
	size_t evidence_count;
	/* the planned run goes to its end under the limit */
	enum plim_tri fits;
	const char *dies_at;                     /* its phase, as in plan; null: it does not */
	enum plim_why_moment moment;             /* that this phase is; as above */
	uint64_t allocated_bytes;                /* when it dies */
	uint64_t request_bytes;                  /* that fails then */
	uint64_t needed_bytes;                   /* smallest limit under which it goes to its end */
	struct plim_interval needed_range_bytes; /* least and most that may be needed */
	const char *basis;                       /* as in plan */
	/* changes to the planned run, in the order of their cost */
	const struct plim_plan_rung *ladder;
	size_t ladder_count;
};

struct plim_why_death {
	/*
	 * device, budget (a program's own share of it), host, cgroup_kill, host_kill, killed (by
	 * whom is not reported), shared_memory
	 */
	enum plim_why_kind kind;
	const char *family; /* who wrote it */
	/* the program: "PyTorch", "vLLM", "llama.cpp", ...; null: no word of the log shows */
	const char *engine;
	uint64_t engine_line; /* of the log, that shows the engine */
	/* the script that a launch command of the log starts; null: none is shown */
	const char *program;
	/*
	 * what it was doing: training, evaluation, generating, serving, loading, converting,
	 * compiling, starting; null: not known
	 */
	const char *activity;
	uint64_t activity_line; /* of the log, that shows the activity */
	const char *file;       /* where it stands */
	uint64_t line;          /* where it stands first, from 1 */
	uint64_t last_line;     /* where it stands last */
	uint64_t times;         /* how often it stands there */
	const char *text;       /* its line, the end cut; null with --redact */
	uint64_t device;        /* ordinal of the GPU; null: not known */
	uint64_t *ranks;        /* that reported it */
	size_t rank_count;
	uint64_t ranks_left_out; /* beyond those */
	/*
	 * loading, forward, backward, first_step (of the optimizer), optimizer, eval, generation,
	 * saving, data; null: no traceback shows it
	 */
	enum plim_why_moment moment;
	const char *moment_frame; /* the frame that shows it */
	const char *frame;        /* the innermost line of the user's own code */
	const char *source;       /* that line; null with --redact */
	/* that frame and those of the user's own code that led to it, innermost first; at most 8 */
	const char **frames;
	size_t frame_count;
	/* the last step that the log showed before; null: none */
	uint64_t step;
	uint64_t pid;                       /* of the process that was killed */
	const char *process;                /* its command */
	const char *group;                  /* cgroup, job or unit */
	struct plim_why_numbers numbers;    /* as the log shows them */
	struct plim_why_process *processes; /* of the kernel's table, the largest */
	size_t process_count;
	uint64_t table_processes;      /* rows of that table */
	uint64_t table_resident_bytes; /* of all its rows */
	const char **also;             /* other lines that say more of this death */
	size_t also_count;
	uint64_t caught_line; /* where the log says that the program went on; null: it does not */
	const char *held;     /* who held the memory, in words; null: the log does not say */
	const char *first;    /* the first of the actions; null: nothing is known */
	const char **actions; /* what to do, the first first; at most 3 */
	size_t action_count;
	/* the commands and lines that the actions change, alone, in their order */
	const char **fixes;
	size_t fix_count;
	bool first_is_typed;         /* is the first of them the first action's */
	const char *open;            /* what is not decided, and what decides it; null: nothing */
	struct plim_verdict verdict; /* why it happened */
	/* from --snapshot; null: none was given, or it shows no death */
	struct plim_why_recorded *recorded;
	/* from --config; null: none was given, or it is not the GPU's memory */
	struct plim_why_planned *planned;
};

/* A failure that is not memory. */
struct plim_why_other {
	const char *family; /* who wrote it */
	const char *file;   /* where it stands */
	uint64_t line;      /* where it stands first, from 1 */
	uint64_t times;     /* how often it stands there */
	const char *text;   /* its line, the end cut; null with --redact */
	const char *says;   /* what it is */
	const char *advice; /* what to do; null: nothing in general */
	uint64_t *ranks;    /* that reported it */
	size_t rank_count;
};

enum plim_why_state_kind {
	PLIM_WHY_MEMORY_SUMMARY,   /* torch.cuda.memory_summary() */
	PLIM_WHY_MEMORY_STATS,     /* torch.cuda.memory_stats(), as a dictionary */
	PLIM_WHY_MEM_GET_INFO,     /* torch.cuda.mem_get_info() */
	PLIM_WHY_SEE_MEMORY_USAGE, /* DeepSpeed's */
	PLIM_WHY_NVIDIA_SMI,       /* a GPU of nvidia-smi */
	PLIM_WHY_NVIDIA_PROCESS    /* a process on a GPU, of nvidia-smi */
};
PLIM_API const char *plim_why_state_kind_name(enum plim_why_state_kind value);

/* A GPU's memory, shown at one moment, without a failure. */
struct plim_why_state {
	/*
	 * memory_summary, memory_stats, mem_get_info, see_memory_usage, nvidia_smi (a GPU),
	 * nvidia_process
	 */
	enum plim_why_state_kind kind;
	const char *file; /* where it stands */
	uint64_t line;    /* where it begins */
	uint64_t device;  /* ordinal of the GPU; null: not shown */
	uint64_t pid;     /* of a process */
	uint64_t ooms;    /* out-of-memory errors that PyTorch counted */
	uint64_t retries; /* how often PyTorch gave its cache back and asked again */
	struct plim_interval allocated_bytes;      /* by PyTorch */
	struct plim_interval allocated_peak_bytes; /* the most of it */
	struct plim_interval reserved_bytes;       /* by PyTorch, with its cache */
	struct plim_interval reserved_peak_bytes;  /* the most of it */
	struct plim_interval unreleasable_bytes;   /* free, in segments that hold live blocks */
	struct plim_interval used_bytes;           /* of the GPU, or by the process */
	struct plim_interval free_bytes;           /* of the GPU */
	struct plim_interval total_bytes;          /* of the GPU */
	const char *says;                          /* what the numbers mean together */
	const char *action;                        /* what to do; null: nothing */
};

struct plim_why {
	/* memory: a failure of memory was found; other: only others; nothing */
	enum plim_why_outcome outcome;
	struct plim_why_file *files; /* what was read */
	size_t file_count;
	uint64_t lines; /* of all files */
	uint64_t bytes; /* of all files, decompressed */
	/* failures of memory, in the order of the log; those that were caught come last */
	struct plim_why_death *deaths;
	size_t death_count;
	struct plim_why_other *others; /* failures that are not memory */
	size_t other_count;
	struct plim_why_state *states; /* a GPU's memory that the log shows without a failure */
	size_t state_count;
	const char **notes; /* what limits this answer */
	size_t note_count;
	struct plim_why_hidden *hidden; /* what owns the memory */
};

/*
 * Read a log ("-": standard input), or all text files of a folder, to the end.  Finding
 * nothing is not an error.  PLIM_E_IO, PLIM_E_FORMAT: it cannot be read; PLIM_E_LIMIT: more memory is
 * needed than allowed (a log itself needs none to speak of).
 */
PLIM_API enum plim_status plim_why_open(const char *path, const struct plim_why_options *options,
					struct plim_why **out, struct plim_err *err);
/* The same of one text in memory or behind an open descriptor. */
PLIM_API enum plim_status plim_why_read(const struct plim_input *input,
					const struct plim_why_options *options,
					struct plim_why **out, struct plim_err *err);
PLIM_API void plim_why_free(struct plim_why *why);

/* As JSON, schema why/3 (docs/json.md); as text for a person. */
PLIM_API enum plim_status plim_why_json(const struct plim_why *why, plim_write_fn *write, void *ctx,
					struct plim_err *err);
PLIM_API enum plim_status plim_why_text(const struct plim_why *why,
					const struct plim_text_style *style, plim_write_fn *write,
					void *ctx, struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
