/* What the parts of the diff command share. */
#ifndef API_DIFF_H
#define API_DIFF_H

#include "commands/recording.h"
#include "diagnose/diagnose.h"

#include <plimsoll/diff.h>

/* One device of one recording, and what is reported of it; `one` NULL: it has no such device. */
struct diff_side {
	struct recording_device *one;
	struct plim_report_step *steps; /* of the repetitions, and the unfinished one */
	size_t step_count;
	struct plim_finding *findings;
	size_t finding_count;
	uint32_t event[COMPARED_MOMENTS]; /* of the peak of allocated bytes, and the last */
};

struct plim_diff_hidden {
	struct mem mem;
	struct arena arena; /* of the result */
	struct recording *recording[2];
	struct plim_recording *lent
		[2]; /* whose recording that is, and `reports` counts this; NULL: it is the diff's */
	struct recording_names names[2];
	struct diff_side *sides[2]; /* of the devices that are compared */
	size_t side_count[2];
	struct plim_diff_options options;
	struct timeline_matching matching;
};

#define DIFF_ROWS_LEAST 16 /* for the sentences, however few are to be shown */

/* A frame of one recording as recording_frame shows it; with --redact both use the same words. */
const char *diff_frame(struct plim_diff *d, int s, uint32_t frame, struct plim_err *err);

/* The rows of a moment. */
enum plim_status diff_fill_moment(struct plim_diff *d, const struct diff_side side[2],
				  const struct compared_owners *owners, enum compared_moment moment,
				  struct plim_diff_moment *out, struct plim_err *err);

/* Leave as many rows as were asked for; the others are added to the rest. */
void diff_trim_rows(const struct plim_diff *d, struct plim_diff_moment *m);

/* What changed next to memory: settings, devices, events; and what was found in only one of the recordings. */
enum plim_status diff_settings(struct plim_diff *d, struct plim_err *err);
enum plim_status diff_findings(struct plim_diff *d, const struct diff_side side[2],
			       struct plim_diff_device *out, struct plim_err *err);

/* Is this the reason of a bound: the run ran out of memory? */
int diff_is_death(const char *bound_why);

/* Sentences about a device's change. */
enum plim_status diff_summary(struct plim_diff *d, const struct plim_diff_moment *peak,
			      const struct plim_diff_moment *end, struct plim_diff_device *out,
			      struct plim_err *err);

#endif
