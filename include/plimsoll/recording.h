/*
 * A recording of GPU memory: what a snapshot holds, read once.  Reports are made of it, each with its own options; what
 * one of them computed the next one finds done.
 *
 * Ownership: what is made of a recording borrows it: free the recording last.  Threads: one a recording at a time, with
 * all that was made of it.
 */
#ifndef PLIMSOLL_RECORDING_H
#define PLIMSOLL_RECORDING_H

#include <plimsoll/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plim_recording;

struct plim_recording_options {
	uint32_t size; /* set by plim_recording_options_init */
	/* of the recording and all that is made of it; 0: half of what there is */
	uint64_t max_memory_bytes;
};
PLIM_API void plim_recording_options_init(struct plim_recording_options *o);

/*
 * Read the snapshot at `path` ("-": standard input), plain or compressed.  `options` may be NULL.  PLIM_E_IO;
 * PLIM_E_FORMAT: it is no snapshot, or damaged; PLIM_E_LIMIT; PLIM_E_NOMEM.
 */
PLIM_API enum plim_status plim_recording_open(const char *path,
					      const struct plim_recording_options *options,
					      struct plim_recording **out, struct plim_err *err);
PLIM_API void plim_recording_free(struct plim_recording *r);

#ifdef __cplusplus
}
#endif

#endif
