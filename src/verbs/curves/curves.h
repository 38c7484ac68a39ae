/* What the files of `curves` share. */
#ifndef VERBS_CURVES_H
#define VERBS_CURVES_H

#include "series/series.h"

#include <plimsoll/curves.h>

struct plim_curves_hidden {
	struct mem mem;
	struct arena arena; /* what the result points to; made anew by each refresh */
	struct arena kept;  /* paths and options */
	struct series_options options;
	struct series_patterns *patterns;
	struct plim_curves_options given;
	const char **paths;
	size_t path_count;
	struct series_set set;
};

/* In runs.c: what was read of one run as the public struct. */
enum plim_status curves_fill_run(struct plim_curves_hidden *h, struct series_run *r,
				 struct plim_curves_run *out, struct plim_err *err);

#endif
