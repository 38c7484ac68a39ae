/* The rungs of a plan's ladder as a table. */
#ifndef VERBS_RUNGS_H
#define VERBS_RUNGS_H

#include "base/base.h"

#include <plimsoll/plan.h>

/* "yes", "no", or what lies between: "perhaps". */
const char *rungs_fit(struct plim_interval needed, enum plim_tri fits, uint64_t limit_bytes);

/* The rungs as a table.  `all`: whatever could be changed was tried. */
void rungs_put(struct text *t, const struct plim_plan_rung *ladder, size_t n, uint64_t limit_bytes,
	       bool all);

/*
 * The rung whose configuration is to be pasted: of the cheapest change that is enough alone, where it trains the same;
 * else of the last that need not be asked for.  NULL: there is none.
 */
const struct plim_plan_rung *rungs_picked(const struct plim_plan_rung *ladder, size_t n);

/* What is pasted next to each other, and where; in the order in which it is reported. */
struct rungs_line {
	const char *where, *what;
};
#define RUNGS_LINES 7
size_t rungs_lines(const struct plim_plan_config *c, struct rungs_line lines[RUNGS_LINES]);

/* Its configuration, tool by tool; the memory of the machine where it takes more of it than before. */
void rungs_paste(struct text *t, const struct plim_plan_rung *rung, uint64_t limit_bytes,
		 uint64_t host_before_bytes);

/* What it leaves to the reader: keys that are not in it, and whether it fits. */
void rungs_rest(struct text *t, const struct plim_plan_rung *rung, uint64_t limit_bytes);

#endif
