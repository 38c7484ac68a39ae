/*
 * plimsoll whatif: the requests of a recording run again under other allocator settings, or on a
 * smaller card.
 *
 * All sizes are bytes.  A number that is not known is PLIM_UNKNOWN and a text that is not known is
 * NULL; JSON shows null for both.  Everything a result points to belongs to the result.
 */
#ifndef PLIMSOLL_WHATIF_H
#define PLIMSOLL_WHATIF_H

#include <plimsoll/page.h>

enum plim_whatif_flags {
	PLIM_WHATIF_SMALLEST = 1, /* find each setting's smallest limit however long it takes */
	PLIM_WHATIF_REDACT = 2,   /* nothing of the file's name */
	PLIM_WHATIF_SEARCH = 4    /* try more settings, until `search_ms` have passed */
};

/* plim_whatif_options_init sets the defaults; then change what is to be different. */
struct plim_whatif_options {
	uint32_t size;               /* set by plim_whatif_options_init */
	uint32_t flags;              /* enum plim_whatif_flags */
	uint64_t max_memory_bytes;   /* 0: half of this machine's memory, or of the cgroup's */
	uint64_t device;             /* PLIM_UNKNOWN: the one with most events */
	const char *log_path;        /* a log that holds the out-of-memory text, or NULL */
	const char *const *settings; /* PYTORCH_CUDA_ALLOC_CONF strings; borrowed */
	size_t settings_count;       /* 0: a set that is worth trying */
	uint64_t limit_bytes; /* as set_per_process_memory_fraction; PLIM_UNKNOWN: see `gpu` */
	const char
		*gpu; /* a card's name ("RTX 4090"); NULL: what the recording ran into, if it did */
	uint64_t allowance_bytes; /* of `gpu`, for what PyTorch does not allocate */
	unsigned torch;     /* release, 100 * major + minor; 0: as the recording's keys tell */
	unsigned threads;   /* 0: as many as there are cores */
	uint64_t search_ms; /* for PLIM_WHATIF_SEARCH: what it finds depends on the machine */
	plim_progress_fn *progress; /* may be NULL */
	void *progress_ctx;
};
PLIM_API void plim_whatif_options_init(struct plim_whatif_options *o);

enum plim_whatif_outcome { PLIM_WHATIF_OK, PLIM_WHATIF_OOM };

struct plim_whatif_run {
	const char *settings;
	uint64_t limit_bytes;
	enum plim_whatif_outcome outcome;
	bool outcome_certain; /* the same wherever the driver puts the segments, and no workspace was refused */
	uint64_t oom_event; /* of the recording: the request that failed */
	uint64_t oom_request_bytes;
	uint64_t reserved_peak_bytes;
	uint64_t *reserved_peak_range_bytes; /* two: over all placements of segments */
	size_t range_count;
	uint64_t allocated_peak_bytes, active_peak_bytes;
	uint64_t retries, device_allocs, segments;
	uint64_t smallest_limit_bytes;
	uint64_t refused_workspaces;
	const char **warnings;
	size_t warning_count;
};

/* torch.cuda.memory_stats(), by the same names: statistics.allocated_bytes.all.peak */
struct plim_whatif_count {
	uint64_t current, peak, allocated, freed;
};
struct plim_whatif_stat {
	struct plim_whatif_count all, small_pool, large_pool;
};
struct plim_whatif_statistics {
	struct plim_whatif_stat allocation, segment, active, inactive_split;
	struct plim_whatif_stat allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes,
		requested_bytes;
	struct plim_whatif_count oversize_allocations, oversize_segments;
	uint64_t num_alloc_retries, num_ooms, num_device_alloc, num_device_free;
};

struct plim_whatif_check {
	uint64_t events;
	bool exact;
	uint64_t diverged_at;
	uint64_t empty_caches;
	struct plim_whatif_statistics statistics;
};

struct plim_whatif_bound {
	uint64_t limit_bytes;
	const char *basis; /* "given", "gpu", "recorded", "none" */
	const char *gpu;
	uint64_t allowance_bytes;
	uint64_t low_bytes, high_bytes; /* recorded: it lies between them */
};

struct plim_whatif_floor {
	uint64_t requested_peak_bytes, packed_peak_bytes;
};

struct plim_whatif_death {
	uint64_t event;
	enum plim_cause cause;
	uint64_t still_to_come_bytes; /* what the step had still to allocate, at least */
	uint64_t needed_bytes;        /* live, request and what was still to come, at least */
};

struct plim_whatif {
	struct plim_report_source source;
	uint64_t device;
	struct plim_whatif_check self_check;
	struct plim_whatif_bound bound;
	struct plim_whatif_death *death; /* NULL: the recording has none */
	struct plim_whatif_run *as_recorded;
	struct plim_whatif_run *runs; /* in the order given */
	size_t run_count;
	struct plim_whatif_floor floor;
	const char *recommended; /* settings; NULL: none is clearly better, or `withheld` */
	const char *withheld;    /* why there is no advice */
	const char **notes;
	size_t note_count;
	struct plim_whatif_hidden *hidden;
};

/*
 * Read a snapshot ("-": standard input), explain it with its own settings, and run it with others.
 * PLIM_E_ARG: settings or a card that are not known; the rest as plim_report_open.
 */
PLIM_API enum plim_status plim_whatif_open(const char *path,
					   const struct plim_whatif_options *options,
					   struct plim_whatif **out, struct plim_err *err);
PLIM_API void plim_whatif_free(struct plim_whatif *w);

/* As JSON, schema whatif/1 (docs/json.md), and as text for a person. */
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

/* Add the recording to a page, and beside it the run with these settings. */
PLIM_API enum plim_status plim_whatif_page(const struct plim_whatif *w, const char *settings,
					   struct plim_page *page, struct plim_err *err);

/* The fields of the JSON as Markdown rows, for docs/json.md; and the structs' layout. */
PLIM_API enum plim_status plim_whatif_fields(int layout, plim_write_fn *write, void *ctx,
					     struct plim_err *err);

#endif
