/*
 * plimsoll whatif: the requests of a recording run again under other allocator settings, or on a
 * smaller GPU.
 *
 * All sizes are bytes.  A number that is not known is PLIM_UNKNOWN and a text that is not known is
 * NULL; JSON shows null for both.  Everything a result points to belongs to the result.
 */
#ifndef PLIMSOLL_WHATIF_H
#define PLIMSOLL_WHATIF_H

#include <plimsoll/page.h>
#include <plimsoll/recording.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plim_whatif_flags {
	/*
	 * (--smallest, after --allowance) find the smallest limit of each setting, also when it
	 * takes long
	 */
	PLIM_WHATIF_SMALLEST = 1,
	/* (--redact, under redact) do not say the file's name */
	PLIM_WHATIF_REDACT = 2,
	/* (--search, after --smallest) try many more settings, as long as --budget */
	PLIM_WHATIF_SEARCH = 4,
	/*
	 * (-p --plan, after --budget) also run under libplimsoll_alloc.so; --output FILE.plan
	 * writes the plan for it. See docs/allocator.md
	 */
	PLIM_WHATIF_PLAN = 8
};

/* plim_whatif_options_init sets the defaults; then change what is to be different. */
struct plim_whatif_options {
	/* set by plim_whatif_options_init */
	uint32_t size;
	/* enum plim_whatif_flags */
	uint32_t flags;
	/*
	 * (-m --max-memory BYTES, from 1MiB, after --threads) refuse input that needs more (half
	 * of this machine's)
	 */
	uint64_t max_memory_bytes;
	/*
	 * (-d --device N, 0 to 1023, else unknown, after --log) this GPU (the one that died, or
	 * reserved most)
	 */
	uint64_t device;
	/*
	 * (--log FILE, under recording) log file with the out-of-memory message, which has limits
	 * and other processes that a snapshot does not record
	 */
	const char *log_path;
	/*
	 * (-s --settings CONF, under run) a PYTORCH_CUDA_ALLOC_CONF to try (without it: the usual
	 * ones). Borrowed
	 */
	const char *const *settings;
	/* 0: a set that is worth trying */
	size_t settings_count;
	/*
	 * (-l --limit BYTES, from 2MiB, else unknown, after --settings) memory the job may reserve
	 * (what the recording ran into, if it did). As set_per_process_memory_fraction
	 */
	uint64_t limit_bytes;
	/* (-g --gpu CARD) the same by a GPU's name, "RTX 4090" */
	const char *gpu;
	/*
	 * (--allowance BYTES, from 0, else 896MiB) of --gpu, for what PyTorch does not allocate
	 * (896MiB). CUDA's context, kernels and libraries' workspaces were 540 to 875 MiB in the
	 * out-of-memory texts measured on an H100 (driver 580)
	 */
	uint64_t allowance_bytes;
	/*
	 * (--torch X.Y, 2.1 to 2.99, takes "a release from 2.1 on, like 2.11", after --device)
	 * PyTorch's release (as the recording's keys tell). 100 * major + minor
	 */
	unsigned torch;
	/* (--threads n, 1 to 1024, under limits) runs at a time (as many as cores) */
	unsigned threads;
	/*
	 * (--budget seconds, 1 to 86400, is 60, times 1000, after --search) time for --search.
	 * What it finds depends on the machine
	 */
	uint64_t search_ms;
	/* (C only) may be NULL */
	plim_progress_fn *progress;
	/* (C only) its first argument */
	void *progress_ctx;
};
PLIM_API void plim_whatif_options_init(struct plim_whatif_options *o);

enum plim_whatif_outcome { PLIM_WHATIF_OK, PLIM_WHATIF_OOM };
PLIM_API const char *plim_whatif_outcome_name(enum plim_whatif_outcome value);

struct plim_whatif_run {
	/* PYTORCH_CUDA_ALLOC_CONF; with `plan` the call that puts libplimsoll_alloc.so in its place */
	const char *settings;
	bool plan; /* run by libplimsoll_alloc.so's allocator, not by PyTorch's */
	/* reserved memory that it may reach; null: no limit */
	uint64_t limit_bytes;
	/* ok: it survives to the end of the recording; oom */
	enum plim_whatif_outcome outcome;
	/* the same wherever the driver puts the segments, and no workspace was refused */
	bool outcome_certain;
	/*
	 * event of the recording whose request failed; null: none, or (oom) one that was there before
	 * the recording began
	 */
	uint64_t oom_event;
	uint64_t oom_request_bytes;   /* what it asked for; null: none failed */
	uint64_t reserved_peak_bytes; /* most memory taken from the driver */
	/*
	 * least and most, over what differs between runs: where the driver places segments, how soon other
	 * streams are done with freed memory, how long plimsoll.allocator waits
	 */
	struct plim_interval reserved_peak_range_bytes;
	uint64_t allocated_peak_bytes; /* largest sum of blocks in use */
	/* the same with blocks that await another stream */
	uint64_t active_peak_bytes;
	/*
	 * releases of the whole cache that a request led to: they cost time; with `plan` waits for a
	 * stream, after which free memory was moved
	 */
	uint64_t retries;
	/* calls of cudaMalloc or mappings of pages */
	uint64_t device_allocs;
	/* segments at the end (expandable ones are not counted) */
	uint64_t segments;
	/* smallest limit that it survives, to 2 MiB; null: not looked for */
	uint64_t smallest_limit_bytes;
	/*
	 * workspaces that cuDNN asked for and did not get: it takes slower algorithms, whose needs
	 * are not known
	 */
	uint64_t refused_workspaces;
	/* known costs of the settings, with their source */
	const char **warnings;
	size_t warning_count;
};

/* torch.cuda.memory_stats(), by the same names: statistics.allocated_bytes.all.peak */
struct plim_whatif_count {
	uint64_t current;   /* when the recording ends */
	uint64_t peak;      /* the most there ever was */
	uint64_t allocated; /* all that was ever added */
	uint64_t freed;     /* all that was ever taken away */
};
struct plim_whatif_stat {
	struct plim_whatif_count all;        /* both pools */
	struct plim_whatif_count small_pool; /* requests up to 1 MiB */
	struct plim_whatif_count large_pool; /* larger requests */
};
struct plim_whatif_statistics {
	struct plim_whatif_stat allocation; /* blocks that the program holds, counted */
	struct plim_whatif_stat segment;    /* calls of cudaMalloc that stand, counted */
	/* blocks that the program holds or other streams still use, counted */
	struct plim_whatif_stat active;
	struct plim_whatif_stat inactive_split;  /* free parts of segments, counted */
	struct plim_whatif_stat allocated_bytes; /* blocks that the program holds */
	struct plim_whatif_stat reserved_bytes;  /* taken from the driver */
	/* blocks that the program holds or other streams still use */
	struct plim_whatif_stat active_bytes;
	struct plim_whatif_stat inactive_split_bytes;  /* free parts of segments */
	struct plim_whatif_stat requested_bytes;       /* what the program asked for */
	struct plim_whatif_count oversize_allocations; /* blocks of at least max_split_size */
	struct plim_whatif_count oversize_segments;    /* segments of at least max_split_size */
	/* releases of the whole cache that a request led to */
	uint64_t num_alloc_retries;
	uint64_t num_ooms;         /* requests that failed */
	uint64_t num_device_alloc; /* calls of cudaMalloc, or mappings */
	uint64_t num_device_free;  /* calls of cudaFree, or unmappings */
};

struct plim_whatif_check {
	/* events that the model predicted from the requests before them */
	uint64_t events;
	/* every event came out as recorded: addresses, sizes, order */
	bool exact;
	uint64_t diverged_at; /* the first event that did not; null: none */
	/* calls of empty_cache() that the recording shows by what they released */
	uint64_t empty_caches;
	/* the model's, by the names of torch.cuda.memory_stats() */
	struct plim_whatif_statistics statistics;
};

struct plim_whatif_bound {
	/* reserved memory that the runs may reach; null: no limit */
	uint64_t limit_bytes;
	/* given (--limit), gpu (--gpu), recorded (what the recording ran into) or none */
	const char *basis;
	const char *gpu; /* the GPU; null: none was named */
	/* of the GPU, for what PyTorch does not allocate; null: no GPU was named */
	uint64_t allowance_bytes;
	/* recorded: reserved memory that was certainly allowed, certainly refused; else null */
	struct plim_interval recorded_bytes;
};

struct plim_whatif_floor {
	/*
	 * largest sum of requests, with the one that was refused if the recording died: no allocator
	 * can do with less
	 */
	uint64_t requested_peak_bytes;
	/*
	 * what is certainly enough: the least of several packings that know all requests beforehand,
	 * and of what the runs need
	 */
	uint64_t packed_peak_bytes;
};

struct plim_whatif_death {
	uint64_t event; /* the recording's last failed request */
	/* as report shows it */
	enum plim_cause cause;
	/* what the step had still to allocate after it, at least; null: not known */
	uint64_t still_to_come_bytes;
	/* live, request and what was still to come, at least; null: not known */
	uint64_t needed_bytes;
};

/* Memory that piles up in a recording that did not die: what survives it dies of that later. */
struct plim_whatif_leak {
	uint64_t
		per_period_bytes; /* (never null) how much more each, of the line that keeps most */
	const char *period; /* (never null) "step", "eval iteration", as in a report's findings[] */
	/* when the limit will be reached, with the recorded settings; null: there is no limit */
	struct plim_report_fill *fill;
};

struct plim_whatif {
	struct plim_report_source source; /* what was read */
	uint64_t device;                  /* ordinal of the GPU */
	/* how far the model gives the recording back under its own settings */
	struct plim_whatif_check self_check;
	struct plim_whatif_bound bound;      /* what the runs may reserve */
	struct plim_whatif_death *death;     /* null: no request failed in the recording */
	struct plim_whatif_leak *leak;       /* null: none is seen, or a request failed */
	struct plim_whatif_run *as_recorded; /* under the recording's own settings */
	struct plim_whatif_run *runs;        /* in the order given */
	size_t run_count;
	struct plim_whatif_floor floor; /* what any settings need at least */
	/*
	 * --plan: large requests in the longest sequence that repeats, of any stream; 0: nothing
	 * repeats; null: not asked for
	 */
	uint64_t plan_requests;
	/* settings of the run that is clearly better; null: none, or withheld */
	const char *recommended;
	const char *withheld; /* why there is no advice; null: it is not withheld */
	const char **notes;   /* what limits these numbers */
	size_t note_count;
	struct plim_whatif_hidden *hidden;
};

/*
 * Read a snapshot ("-": standard input), explain it with its own settings, and run it with others.
 * PLIM_E_ARG: settings or a GPU that are not known; the rest as plim_report_open.
 */
PLIM_API enum plim_status plim_whatif_open(const char *path,
					   const struct plim_whatif_options *options,
					   struct plim_whatif **out, struct plim_err *err);
/* The same of a recording that was read, which it borrows; max_memory_bytes is the recording's. */
PLIM_API enum plim_status plim_whatif_of(struct plim_recording *recording,
					 const struct plim_whatif_options *options,
					 struct plim_whatif **out, struct plim_err *err);
PLIM_API void plim_whatif_free(struct plim_whatif *w);

/* As JSON, schema whatif/2 (docs/json.md), and as text for a person. */
PLIM_API enum plim_status plim_whatif_json(const struct plim_whatif *w, plim_write_fn *write,
					   void *ctx, struct plim_err *err);
PLIM_API enum plim_status plim_whatif_text(const struct plim_whatif *w,
					   const struct plim_text_style *style,
					   plim_write_fn *write, void *ctx, struct plim_err *err);

/*
 * Write the run with these settings as a snapshot that PyTorch's viewer opens: the allocator's
 * decisions are the replay's, requests, stacks and times the recording's.
 */
PLIM_API enum plim_status plim_whatif_snapshot(const struct plim_whatif *w, const char *settings,
					       const char *path, struct plim_err *err);

/*
 * Write the plan that libplimsoll_alloc.so begins with (PLIM_WHATIF_PLAN was set).  PLIM_E_ARG: nothing repeats in the
 * recording, so there is nothing to plan.
 */
PLIM_API enum plim_status plim_whatif_plan(const struct plim_whatif *w, const char *path,
					   struct plim_err *err);

/* Add the recording to a page, and next to it the run with these settings. */
PLIM_API enum plim_status plim_whatif_page(const struct plim_whatif *w, const char *settings,
					   struct plim_page *page, struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
