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
	struct intern words; /* --redact: those that are not shown */
};

/* In runs.c: what was read of one run as the public struct. */
enum plim_status curves_fill_run(struct plim_curves_hidden *h, struct series_run *r,
				 struct plim_curves_run *out, struct plim_err *err);

/* In redact.c: with --redact words in place of names, of a path or of all series of a run; and the note on what is kept. */
enum plim_status curves_hide_path(struct plim_curves_hidden *h, const char **path,
				  struct plim_err *err);
enum plim_status curves_hide_series(struct plim_curves_hidden *h, struct series_monitor *m,
				    struct plim_err *err);
void curves_tell_kept(const struct plim_curves_hidden *h, struct lines *notes);

#endif
