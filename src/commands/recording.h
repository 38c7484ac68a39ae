/* The public recording, for the commands that take one: an account of memory, and what was read within it. */
#ifndef VERBS_RECORDING_H
#define VERBS_RECORDING_H

#include "recording/recording.h"

#include <plimsoll/recording.h>

struct plim_recording {
	struct mem mem;
	struct arena arena;
	const char *path;            /* as it was opened, or its name */
	struct recording *recording; /* NULL: events were appended since it was made */
	struct appended *appended;   /* NULL: it was read */
	unsigned reports;            /* that borrow `recording` */
};

/* See to it that r->recording is there. */
enum plim_status recording_ready(struct plim_recording *r, struct plim_err *err);

/* As plim_recording_open, from an open source (`in` may be NULL). */
enum plim_status recording_new(const char *path, struct recording_input *in,
			       uint64_t max_memory_bytes, struct plim_recording **out,
			       struct plim_err *err);

#endif
