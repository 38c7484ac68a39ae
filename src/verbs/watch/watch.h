/* What the files of `watch` share. */
#ifndef VERBS_WATCH_H
#define VERBS_WATCH_H

#include "watch/watch.h"

/* A job that was seen once. */
struct watch_known {
	struct watch_job *job;
	uint64_t pid, start_time;
	char name[64], gpu[64];
	bool seen; /* in this tick */
};

struct plim_watch_hidden {
	struct mem mem;
	struct arena arena; /* what the result points to; made anew by each tick */
	struct plim_watch_options options;
	double window_s;
	VEC(struct watch_known) jobs;
	struct watch_look *look; /* NULL: a replay */
	int log;                 /* -1: none */
	uint64_t page_bytes;
};

#endif
