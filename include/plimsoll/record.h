/*
 * plimsoll record: let a Python job record its GPU memory without changing it.  A file that Python
 * imports at start is put into a folder of its own in front of PYTHONPATH; it starts PyTorch's memory
 * history at the first CUDA use and dumps it at an out-of-memory error, at exit and at SIGUSR1.  With a
 * plan it puts Plimsoll's allocator under PyTorch before that.
 */
#ifndef PLIMSOLL_RECORD_H
#define PLIMSOLL_RECORD_H

#include <plimsoll/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plim_record_options {
	uint32_t size;        /* set by plim_record_options_init */
	uint32_t unused;      /* 0 */
	const char *dir;      /* where recordings go; NULL: "." */
	const char *stacks;   /* "python" or "all"; NULL: "python" */
	uint64_t max_entries; /* events kept by PyTorch's ring; 0: PLIM_RECORD_ENTRIES */
	/* the plimsoll program that packs each dump in the job, which then is a .plim file; NULL: they stay pickles */
	const char *packer;
	/* a file of `whatif --plan -o`: the job runs under Plimsoll's allocator and follows it; NULL: under PyTorch's own */
	const char *plan;
	const char *allocator; /* where libplimsoll_alloc.so is; only with a plan */
};
PLIM_API void plim_record_options_init(struct plim_record_options *o);

/* A ring of a million events takes some 400 MB of host memory in the job and about 100 MB on disk. */
#define PLIM_RECORD_ENTRIES 1000000

struct plim_record;

/*
 * Prepare a run: makes the folder.  PLIM_E_IO when it or `dir` cannot be written, or the allocator or the plan cannot be
 * read; PLIM_E_ARG: a plan without an allocator; PLIM_E_FORMAT: the file is not a plan, or is damaged.
 */
PLIM_API enum plim_status plim_record_prepare(const struct plim_record_options *options,
					      struct plim_record **out, struct plim_err *err);

/* The environment for the job: "NAME=value" strings, NULL at the end; belongs to the record. */
PLIM_API const char *const *plim_record_environment(const struct plim_record *record);

/* What became of the job's processes, in the order of how far they came. */
enum plim_record_reached {
	PLIM_RECORD_NO_PYTHON, /* no Python started with it: another program, or -I, -E, -S */
	PLIM_RECORD_NO_TORCH,
	PLIM_RECORD_NO_CUDA, /* torch was imported, CUDA was never used */
	PLIM_RECORD_NO_EVENTS,
	PLIM_RECORD_NO_DUMP, /* recording ran, but nothing was written: killed, or os._exit */
	PLIM_RECORD_DUMPED
};

/* A recording of this run. */
struct plim_record_file {
	const char *path; /* in `dir` */
	uint64_t bytes;   /* as stored */
};

/*
 * After the job ended: *files (sorted, n of them) belongs to the record; `reached` may be NULL.
 * Removes the folder.
 */
PLIM_API enum plim_status plim_record_finish(struct plim_record *record,
					     const struct plim_record_file **files, size_t *n,
					     enum plim_record_reached *reached,
					     struct plim_err *err);

/* Removes the folder if plim_record_finish did not. */
PLIM_API void plim_record_free(struct plim_record *record);

/* The lines to paste for people who prefer that.  Static storage. */
PLIM_API const char *plim_record_lines(void);

#ifdef __cplusplus
}
#endif

#endif
