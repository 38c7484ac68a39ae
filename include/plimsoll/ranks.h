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

/* plim_ranks_options_init sets the defaults; then change what is to be different. */
struct plim_ranks_options {
	uint32_t size;    /* set by plim_ranks_options_init */
	unsigned threads; /* recordings read at a time; 0: as many as there are cores */
	/* How the worst is explained; log_path, device, events and steps must be left alone. */
	struct plim_report_options report; /* max_memory_bytes: of all together */
	plim_progress_fn *progress; /* may be NULL; the total grows while archives are read */
	void *progress_ctx;
};
PLIM_API void plim_ranks_options_init(struct plim_ranks_options *o);

/* A recording's last failed request. */
struct plim_ranks_death {
	uint64_t event, time_us;
	uint64_t requested_bytes, live_bytes, reserved_bytes;
	const char *phase; /* NULL: no stacks were recorded */
	uint64_t step;     /* training steps that ended before it */
	const char *frame;
	enum plim_bound bound_by;
	enum plim_cause cause, likelier;
	const char *headline;
};

/* One recording; of several GPUs in it the one that died, else the one that held most. */
struct plim_ranks_row {
	uint64_t rank;
	const char *path;   /* the file, or the archive */
	const char *member; /* its name in the archive; NULL: it is a file */
	uint64_t bytes;     /* as stored */
	const char *error;  /* why it could not be read; then all below is unknown */
	enum plim_status status;
	uint64_t device, devices;
	uint64_t events;
	bool complete; /* as in struct plim_report_source */
	bool exact;    /* the replay reproduced the snapshot's blocks */
	uint64_t first_time_us, last_time_us;
	uint64_t requested_peak_bytes, allocated_peak_bytes, reserved_peak_bytes;
	uint64_t range_bytes;   /* the true allocated peak may be larger by up to this */
	bool lower_bound;       /* the recording does not cover the whole run */
	const char *peak_phase; /* when most was allocated; NULL: no stacks were recorded */
	uint64_t peak_step;
	struct plim_report_categories *peak_categories; /* of the allocated bytes at that moment */
	uint64_t deaths;
	struct plim_ranks_death *died; /* NULL: no request failed */
	uint64_t leak_bytes;           /* that grew; PLIM_UNKNOWN: no leak was found */
};

struct plim_ranks_skipped {
	const char *path, *reason;
};

struct plim_ranks_extreme {
	uint64_t bytes, rank, row; /* row: index into rows */
};

/* Over the recordings that could be read; the median is a recording's own number, the lower of two. */
struct plim_ranks_spread {
	struct plim_ranks_extreme max, median, min;
};

/*
 * What the worst holds at its allocated peak beyond what the median one holds at its own; where that is
 * nothing, what the one with the largest peak does.
 */
struct plim_ranks_excess {
	uint64_t row, median_row;
	int64_t difference_bytes; /* may be negative */
	const char *category;     /* that makes most of it, at least half; NULL: none does */
	int64_t category_bytes;
	const char *meaning; /* what makes this category differ between ranks */
};

struct plim_ranks_first {
	uint64_t row, rank, time_us;
	uint64_t next_row, next_rank,
		ahead_us; /* who died next, and how much later; unknown: nobody */
	bool certain;
	const char *doubt; /* why it is not certain */
};

struct plim_ranks {
	uint64_t read, failed;       /* recordings */
	struct plim_ranks_row *rows; /* by rank */
	size_t row_count;
	uint64_t died;
	struct plim_ranks_first *first_death; /* NULL: none died, or the order is not known */
	const char *order_unknown;      /* several died: why it is not known which was first */
	uint64_t worst_row, worst_rank; /* the first to die; else died with most; else held most */
	struct plim_ranks_spread *allocated, *reserved; /* peaks; NULL: nothing could be read */
	struct plim_ranks_excess *excess;               /* NULL: categories are not known */
	struct plim_ranks_skipped *skipped; /* files that are no recordings; the first thousand */
	size_t skipped_count;
	uint64_t skipped_total;
	const char **notes;
	size_t note_count;
	struct plim_report *worst; /* in full; NULL: nothing could be read, or see the notes */
	struct plim_ranks_hidden *hidden;
};

/* Does `path` hold several recordings: a folder, or a tar archive (also gzip, xz, zstd)? */
PLIM_API bool plim_ranks_several(const char *path);

/*
 * Read `n` files, folders and tar archives.  In a folder, and the folders in it, regular files are read
 * and links are not followed; what is no recording is skipped.  A recording that cannot be read is a row with
 * its error.  PLIM_E_FORMAT: there is no recording; PLIM_E_IO: a folder or an archive cannot be read;
 * PLIM_E_LIMIT: the summaries alone need more memory than allowed; PLIM_E_CANCELLED.
 */
PLIM_API enum plim_status plim_ranks_open(const char *const *paths, size_t n,
					  const struct plim_ranks_options *options,
					  struct plim_ranks **out, struct plim_err *err);
PLIM_API void plim_ranks_free(struct plim_ranks *k);

/* As JSON, schema ranks/1 (docs/json.md), and as text for a person. */
PLIM_API enum plim_status plim_ranks_json(const struct plim_ranks *k, plim_write_fn *write,
					  void *ctx, struct plim_err *err);
PLIM_API enum plim_status plim_ranks_text(const struct plim_ranks *k,
					  const struct plim_text_style *style, plim_write_fn *write,
					  void *ctx, struct plim_err *err);

/* The fields of the JSON as Markdown rows, for docs/json.md; and the structs' layout. */
PLIM_API enum plim_status plim_ranks_fields(int layout, plim_write_fn *write, void *ctx,
					    struct plim_err *err);

#endif
