/*
 * plimsoll report of several recordings at once: the ranks of a job, which died first, how they differ, and
 * the worst one in full.
 *
 * All sizes are bytes.  A number that is not known is PLIM_UNKNOWN and a text that is not known is
 * NULL; JSON shows null for both.  Everything a result points to belongs to the result.
 */
#ifndef PLIMSOLL_RANKS_H
#define PLIMSOLL_RANKS_H

#include <plimsoll/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* plim_ranks_options_init sets the defaults; then change what is to be different. */
struct plim_ranks_options {
	uint32_t size; /* set by plim_ranks_options_init */
	/* recordings read at a time; 0: as many as there are cores */
	unsigned threads;
	struct plim_report_options report; /* max_memory_bytes: of all together */
	/*
	 * how ranks are laid out, the dimension whose neighbours have ranks that follow each other first: "tp=8,dp=32,pp=4";
	 * NULL: not known
	 */
	const char *layout;
	unsigned rows_only; /* 1: no recording is explained in full, as for a digest */
	/* may be NULL; the total grows while archives are read */
	plim_progress_fn *progress;
	void *progress_ctx; /* its first argument */
};
PLIM_API void plim_ranks_options_init(struct plim_ranks_options *o);

/* A recording's last failed request. */
struct plim_ranks_death {
	uint64_t event;           /* index of the last failed request */
	uint64_t time_us;         /* microseconds since 1970; null before PyTorch 2.2 */
	uint64_t requested_bytes; /* what was asked for, as the allocator had rounded it */
	uint64_t live_bytes;      /* blocks in use at that moment */
	uint64_t reserved_bytes;  /* taken from the driver then */
	const char *phase;        /* as in report/2; null: no stacks were recorded */
	uint64_t step;            /* training steps that had ended before it */
	const char *frame;        /* the user's own line; null: no Python stack */
	/* what the memory ran into: device, limit, other_process, non_pytorch, unknown */
	enum plim_bound bound_by;
	enum plim_cause cause;        /* as report shows it */
	enum plim_cause likely_cause; /* of an unknown cause: what more speaks for */
	const char *headline;         /* one sentence */
};

/* A line of code that owned memory at a peak. */
struct plim_ranks_owner {
	const char *frame; /* as in report/2; null: no Python stack */
	uint64_t bytes;    /* allocated there and live */
};

/* One recording; of several GPUs in it the one that died, else the one that held most. */
struct plim_ranks_row {
	/*
	 * what the recorder found in its environment (RANK and the like), else the number in its name, else its place
	 * in the order of names; null: others have one
	 */
	uint64_t rank;
	const char *rank_from; /* recording, name or order; null: no rank */
	/* the file, or the archive; null with --redact */
	const char *path;
	/* its name in the archive; null: it is a file */
	const char *member;
	uint64_t bytes; /* as stored */
	/* why it could not be read; then the rest is null or false */
	const char *error;
	/* of several GPUs in a recording the one that died, else the one that held most */
	uint64_t device;
	uint64_t devices; /* GPUs with memory or events in it */
	uint64_t events;  /* of all of them */
	/* recording began before the first allocation and lost no event */
	bool complete;
	/* the replay explains every event, and the snapshot's blocks */
	bool exact;
	/* of the first event, microseconds since 1970 */
	uint64_t first_time_us;
	uint64_t last_time_us;         /* of the last event */
	uint64_t requested_peak_bytes; /* as devices[].peak of report/2 */
	uint64_t allocated_peak_bytes; /* the same */
	uint64_t reserved_peak_bytes;  /* the same */
	/* what allocated_peak_bytes may be; low is high: exact */
	struct plim_interval allocated_peak_range_bytes;
	/* the recording does not cover the whole run: its peak may lie outside */
	bool lower_bound;
	/* what the program did when most was allocated; null: no stacks were recorded */
	const char *peak_phase;
	/* training step of that moment; null: no optimizer ran */
	uint64_t peak_step;
	/* what the allocated bytes were for at that moment; null: not known */
	struct plim_report_categories *peak_categories;
	uint64_t deaths;               /* requests that failed */
	struct plim_ranks_death *died; /* the last of them; null: none failed */
	uint64_t leak_bytes;           /* that grew; null: no leak was found */
	uint64_t steps;                /* training steps that ended; null: no optimizer ran */
	const char *release; /* of PyTorch, as far as the recording shows: "2.9 or later" */
	/* of the lines that allocate, without their number of times: equal ones run equal programs; null: no stacks */
	const char *program;
	/*
	 * "pp 2, dp 0, tp 5": in the layout, else as the recorder found it in the program (Megatron, vLLM, DeviceMesh,
	 * PLIMSOLL_LAYOUT); null: not known
	 */
	const char *place;
	/* who held most at the allocated peak, at most 8, largest first */
	struct plim_ranks_owner *owners;
	size_t owner_count;
	enum plim_status status; /* (C only) of `error` */
};

/* Ranks that run one program and hold about as much at their peak. */
struct plim_ranks_group {
	uint64_t first_rank;      /* the lowest; null: not known */
	uint64_t first_row;       /* the same as an index into rows */
	uint64_t ranks;           /* how many */
	uint64_t allocated_bytes; /* median of their allocated peaks */
	const char *
		name; /* what of the layout they have in common and no other has: "pp 2"; null: nothing */
};

/* A rank that differs from the others of its group by more than chance. */
struct plim_ranks_outlier {
	uint64_t rank; /* null: not known */
	uint64_t row;  /* index into rows */
	/* allocated_peak_bytes, reserved_peak_bytes, leak_bytes, steps, unused_bytes (reserved, less allocated), program or release */
	const char *measure;
	uint64_t value;  /* the rank's; null: program, release */
	uint64_t median; /* of its group; null: program, release */
	/* how many of all ranks would be so far off by chance; 0: the others are all alike */
	double expected_by_chance;
	const char
		*frame; /* the line that has most more than in the median rank; null: not known */
	int64_t frame_bytes; /* how much more */
	const char *says;    /* the same in words */
};

/* A recording that is reported in full next to the worst, for what is unlike the others there is something else. */
struct plim_ranks_told {
	uint64_t rank;              /* null: not known */
	uint64_t row;               /* the same as an index into rows */
	const char *why;            /* what is unlike the others, in words */
	struct plim_report *report; /* as report/2 */
};

struct plim_ranks_skipped {
	const char *path;   /* a file, or a name in an archive; null with --redact */
	const char *reason; /* what it is instead of a recording */
};

struct plim_ranks_extreme {
	uint64_t bytes; /* the peak */
	uint64_t rank;  /* whose it is; null: not known */
	uint64_t row;   /* the same as an index into rows */
};

/* Over the recordings that could be read; the median is a recording's own number, the lower of two. */
struct plim_ranks_spread {
	struct plim_ranks_extreme max;    /* the largest */
	struct plim_ranks_extreme median; /* the one in the middle, the lower of two */
	struct plim_ranks_extreme min;    /* the smallest */
};

/*
 * What the worst holds at its allocated peak beyond what the median one holds at its own; where that is
 * nothing, what the one with the largest peak does.
 */
struct plim_ranks_excess {
	/* the worst, or if it has no more than the median the one with the largest peak */
	uint64_t row;
	uint64_t median_row;      /* the one with the median of the allocated peaks */
	int64_t difference_bytes; /* its allocated peak, less the median */
	const char *category;     /* that makes at least half of it, and most; null: none does */
	int64_t category_bytes;   /* what it has more of that at its peak */
	/*
	 * what makes it differ between ranks of one program; null: nothing is known, or they peak
	 * in different phases
	 */
	const char *meaning;
};

struct plim_ranks_first {
	uint64_t row;       /* index into rows */
	uint64_t rank;      /* its number; null: not known */
	uint64_t time_us;   /* of its last failed request, microseconds since 1970 */
	uint64_t next_row;  /* the next that died, an index into rows; null: no other died */
	uint64_t next_rank; /* its number */
	uint64_t ahead_us;  /* how many microseconds later that was */
	bool certain;       /* nothing speaks against it */
	const char *doubt;  /* what does; null: nothing */
};

struct plim_ranks {
	uint64_t read;   /* recordings that were read */
	uint64_t failed; /* recordings that could not be */
	uint64_t died;   /* recordings in which a request failed */
	/*
	 * the first that died; else of those that died the one with most memory; else the one with
	 * the largest allocated peak; null: nothing was read
	 */
	uint64_t worst_rank;
	uint64_t worst_row;                   /* the same as an index into rows */
	struct plim_ranks_first *first_death; /* null: none died, or see order_unknown */
	const char *order_unknown;            /* why it is not known which of several died first */
	/* allocated peaks over all recordings; null: nothing was read */
	struct plim_ranks_spread *allocated;
	struct plim_ranks_spread *reserved; /* reserved peaks; null: no recording shows them */
	/* what one has beyond the median; null: fewer than two, or no categories */
	struct plim_ranks_excess *excess;
	const char *
		sentence; /* which died first, why, and what is different about it; null: nothing was read */
	/* ranks of equal programs and sizes, the largest group first */
	struct plim_ranks_group *groups;
	size_t group_count;
	/* ranks that are not as the others of their group, the least likely first; at most 100 */
	struct plim_ranks_outlier *outliers;
	size_t outlier_count;
	/* recordings by rank, then by name; without a rank last */
	struct plim_ranks_row *rows;
	size_t row_count;
	struct plim_ranks_skipped *skipped; /* files that are not recordings, the first thousand */
	size_t skipped_count;
	uint64_t skipped_total; /* how many there were */
	const char **notes;     /* what limits these numbers */
	size_t note_count;
	/* the worst in full, as report/2; null: nothing was read, or see the notes */
	struct plim_report *worst;
	/*
	 * of ranks that are unlike the others, each in something else, the least likely two, where their recordings are at
	 * hand
	 */
	struct plim_ranks_told *also;
	size_t also_count;
	struct plim_ranks_hidden *hidden;
};

/* Does `path` hold several recordings: a folder, or a tar archive (also gzip, xz, zstd)? */
PLIM_API bool plim_ranks_several(const char *path);

/*
 * Read `n` files, folders and tar archives.  In a folder, and the folders in it, regular files are read
 * and links are not followed; what is not a recording is skipped.  A recording that cannot be read is a row with
 * its error.  PLIM_E_FORMAT: there is no recording; PLIM_E_IO: a folder or an archive cannot be read;
 * PLIM_E_LIMIT: the summaries alone need more memory than allowed; PLIM_E_CANCELLED.
 */
PLIM_API enum plim_status plim_ranks_open(const char *const *paths, size_t n,
					  const struct plim_ranks_options *options,
					  struct plim_ranks **out, struct plim_err *err);
PLIM_API void plim_ranks_free(struct plim_ranks *k);

/*
 * Write the rows that were read as a digest, durably: a few kilobytes a recording, which plim_ranks_open reads in place of
 * the recordings.  `path` should end in ".digest".  PLIM_E_FORMAT: a recording could not be read; PLIM_E_IO.
 */
PLIM_API enum plim_status plim_ranks_digest(const struct plim_ranks *k, const char *path,
					    struct plim_err *err);

/* As JSON, schema ranks/2 (docs/json.md), and as text for a person. */
PLIM_API enum plim_status plim_ranks_json(const struct plim_ranks *k, plim_write_fn *write,
					  void *ctx, struct plim_err *err);
PLIM_API enum plim_status plim_ranks_text(const struct plim_ranks *k,
					  const struct plim_text_style *style, plim_write_fn *write,
					  void *ctx, struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
