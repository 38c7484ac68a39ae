/* What the parts of the diff verb share. */
#ifndef API_DIFF_H
#define API_DIFF_H

#include "diagnose/diagnose.h"

#include <plimsoll/diff.h>

enum { DIFF_A, DIFF_B };
enum diff_moment { DIFF_PEAK, DIFF_END, DIFF_MOMENTS };

/* One device of one recording, and what is told of it; `one` NULL: it has no such device. */
struct diff_side {
	struct recording_device *one;
	struct plim_report_step *steps; /* of the repetitions, and the unfinished one */
	size_t step_count;
	struct plim_finding *findings;
	size_t finding_count;
	uint32_t event[DIFF_MOMENTS]; /* of the peak of allocated bytes, and the last */
};

struct diff_sum {
	uint64_t bytes, count;
};

/* Allocations of both recordings whose place is the same. */
struct diff_owner {
	uint32_t stack[2], frame[2]; /* of its largest allocation; TRACE_NONE */
	uint64_t largest[2];         /* ... and that one's bytes */
	uint64_t value;              /* what is common to them besides: size, category, phase */
	uint32_t loose, function;    /* keys for a second and a third look; TRACE_NONE */
	uint32_t into;               /* its own number, or of the owner that took it in */
	uint32_t whole;              /* of a part: the owner it is of */
	struct diff_sum run[2];      /* all that was ever allocated */
	struct diff_sum at[DIFF_MOMENTS][2]; /* what lives */
	uint8_t inferred, match;             /* enum plim_diff_match */
};

/* Of each owner, what of it lives in each category. */
struct diff_kinds {
	uint64_t bytes[DIFF_MOMENTS][2][TIMELINE_CATEGORIES];
};

enum diff_group { DIFF_BY_FRAME, DIFF_BY_STACK, DIFF_BY_CATEGORY, DIFF_BY_PHASE, DIFF_BY_SIZE };

/* Owners, and the stacks inside them, of one pair of devices. */
struct diff_owners {
	struct mem *mem;
	enum diff_group group;
	VEC(struct diff_owner) list, parts;
	VEC(struct diff_kinds) kinds; /* of list */
	double shared
		[2]; /* of the bytes that Python allocated: by owners that both have; NaN: none */
};

struct plim_diff_hidden {
	struct mem mem;
	struct arena arena; /* of the result */
	struct recording *recording[2];
	struct recording_names names[2];
	struct diff_side *sides[2]; /* of the devices that are compared */
	size_t side_count[2];
	struct plim_diff_options options;
	struct timeline_matching matching;
};

#define DIFF_ROWS_LEAST 16 /* for the sentences, however few are to be shown */

/* Put together what was ever allocated, and what is the same in both. */
enum plim_status diff_find_owners(struct plim_diff *d, const struct diff_side side[2],
				  enum diff_group group, struct diff_owners *out,
				  struct plim_err *err);
void diff_owners_release(struct diff_owners *o);

/* A frame of one recording as recording_frame tells it; with --redact both use the same words. */
const char *diff_frame(struct plim_diff *d, int s, uint32_t frame, struct plim_err *err);

/* The rows of a moment. */
enum plim_status diff_fill_moment(struct plim_diff *d, const struct diff_side side[2],
				  const struct diff_owners *owners, enum diff_moment moment,
				  struct plim_diff_moment *out, struct plim_err *err);

/* Leave as many rows as were asked for; the others are added to the rest. */
void diff_trim_rows(const struct plim_diff *d, struct plim_diff_moment *m);

/* What changed beside memory: settings, devices, events; and what was found in only one of the recordings. */
enum plim_status diff_settings(struct plim_diff *d, struct plim_err *err);
enum plim_status diff_findings(struct plim_diff *d, const struct diff_side side[2],
			       struct plim_diff_device *out, struct plim_err *err);

/* Sentences that tell a device's change. */
enum plim_status diff_summary(struct plim_diff *d, const struct plim_diff_moment *peak,
			      const struct plim_diff_moment *end, struct plim_diff_device *out,
			      struct plim_err *err);

/* B less A; sizes beyond 2^63 are held at its ends. */
int64_t diff_change(uint64_t a, uint64_t b);

#endif
