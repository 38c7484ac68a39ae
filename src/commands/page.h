/* Runs of the allocator's model shown on a page, next to the recordings that it holds. */
#ifndef VERBS_PAGE_H
#define VERBS_PAGE_H

#include "recording/recording.h"

#include <plimsoll/page.h>

/* A taker of recording_of_run(): one more recording of a page; self is one of these. */
struct page_run {
	struct mem *mem;
	const struct plim_report_options *options;
	const char *title;
	struct plim_page *page;
	uint64_t limit_bytes; /* to be shown; 0: what a failure shows */
	VEC(char) bytes;      /* the run as a snapshot; empty */
};
enum plim_status page_take_run(void *self, const struct snapshot *t, struct plim_err *err);

#endif
