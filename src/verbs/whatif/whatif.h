/* What the parts of the whatif verb share. */
#ifndef API_WHATIF_H
#define API_WHATIF_H

#include "diagnose/diagnose.h"
#include "verbs/recording.h"

#include <plimsoll/whatif.h>

struct plim_whatif_hidden {
	struct plim_recording *recording;
	struct recording_device *device; /* that is run */
	struct arena arena;              /* of the result */
	struct recording_names names;
	struct findings_death death; /* the device's last failure */
	int died;                    /* ... if there is one */
	struct program *program;
	struct allocator_check check;
	struct plim_whatif_options options;
	cycles_bytes plan; /* file of what repeats; empty: not asked for */
	size_t not_tried;  /* runs that the search had no time for */
};

/* Rows of libplimsoll_alloc.so: how it is called.  It learns on the way, or begins with the plan. */
extern const char *const whatif_allocator_names[2];

/* Make the plan of the recording. */
enum plim_status whatif_learn(struct plim_whatif *w, struct plim_err *err);
enum plim_status whatif_plan_once(const struct plim_whatif *w, const char *name,
				  const struct allocator_bounds *bounds,
				  struct allocator_outcome *out, struct plim_err *err);

/* Rules of a PYTORCH_CUDA_ALLOC_CONF string, or of the recording itself (NULL). */
enum plim_status whatif_rules(const struct plim_whatif *w, const char *settings,
			      struct allocator_rules *rules, struct plim_err *err);

/* How a run is bounded: by a limit of PyTorch's own, or by what the card has. */
struct allocator_bounds whatif_bounds(const struct plim_whatif *w, uint64_t limit_bytes);

/* Do all runs, then say which is best. */
enum plim_status whatif_run_all(struct plim_whatif *w, struct plim_err *err);
enum plim_status whatif_recommend(struct plim_whatif *w, struct plim_err *err);

/* Runs from best to worst, run_count of them, in `order`. */
void whatif_rank(const struct plim_whatif *w, const struct plim_whatif_run **order);

#endif
