/* The public recording, for the verbs that take one: an account of memory, and what was read within it. */
#ifndef VERBS_RECORDING_H
#define VERBS_RECORDING_H

#include "recording/recording.h"

#include <plimsoll/recording.h>

struct plim_recording {
	struct mem mem;
	struct recording *recording;
	const char *path; /* as it was opened; of the recording's arena */
};

/* As plim_recording_open, from an open source (`in` may be NULL). */
enum plim_status recording_new(const char *path, struct recording_input *in,
			       uint64_t max_memory_bytes, struct plim_recording **out,
			       struct plim_err *err);

#endif
