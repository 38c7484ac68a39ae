/* The rungs of a plan's ladder as a table. */
#ifndef VERBS_RUNGS_H
#define VERBS_RUNGS_H

#include "base/base.h"

#include <plimsoll/plan.h>

/* "yes", "no", or what lies between: "perhaps". */
const char *rungs_fit(struct plim_interval needed, enum plim_tri fits, uint64_t limit_bytes);

/*
 * The rungs as a table, and the configuration of the last that need not be asked for; the memory of the machine where it
 * takes more of it than before.  `all`: whatever could be changed was tried.
 */
void rungs_put(struct text *t, const struct plim_plan_rung *ladder, size_t n, uint64_t limit_bytes,
	       uint64_t host_before_bytes, bool all);

#endif
