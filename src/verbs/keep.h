/*
 * A run of the allocator's model kept as a trace: the requests' stacks and times, the model's addresses and segments.
 * What it becomes, a snapshot or a part of a page, the keeper decides.
 */
#ifndef API_KEEP_H
#define API_KEEP_H

#include "verbs/report/report.h"

/* Annotations of a plan, the first and the second: no recording has them. */
#define KEEP_PLAN_MARK "plimsoll plan"
#define KEEP_PLAN_PEAK \
	"plimsoll plan: allocated_peak=" /* and bytes, of all of it, also what comes after its death */

struct keep_run {
	/* whose stacks, strings, streams, pools and annotations are taken; all but the run is borrowed from it */
	const struct snapshot *from;
	const struct snapshot_device
		*device; /* of it: events[op.event] have an op's stack and time */
	const struct program *program;
	struct allocator_run how; /* how to run it; self, event and block are not looked at */
	const uint32_t *stacks;   /* of `from`, by request; NULL: as the program has them */
	uint64_t device_bytes;    /* a failure tells what of these was free; 0: it does not */
	const char *settings;     /* PYTORCH_CUDA_ALLOC_CONF of `how.rules` */
	const uint32_t *labels;   /* strings for user_metadata, by request; NULL: none */
};

struct keeper {
	enum plim_status (*take)(void *self, const struct snapshot *t, struct plim_err *err);
	void *self;
};

enum plim_status keep_run(struct mem *m, const struct keep_run *run, const struct keeper *to,
			  struct plim_err *err);

/* A keeper's take: a snapshot; self is its path (char *). */
enum plim_status keep_to_file(void *self, const struct snapshot *t, struct plim_err *err);

/* A keeper's take: one more recording of a page; self is one of these. */
struct keep_page {
	struct mem *mem;
	const struct plim_report_options *options;
	const char *title;
	struct plim_page *page;
	uint64_t limit_bytes; /* to be shown; 0: what a failure tells */
	VEC(char) bytes;      /* the run as a snapshot; empty */
};
enum plim_status keep_to_page(void *self, const struct snapshot *t, struct plim_err *err);

#endif
