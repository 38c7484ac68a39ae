/* The ladder: changes that take less memory, the cheapest first, as a table. */
#ifndef PLAN_RUNGS_H
#define PLAN_RUNGS_H

#include "plan.h"

/* What a rung changes: the recipe, or the allocator's settings (static storage; NULL: PyTorch's default). */
struct plan_choice {
	struct plan_recipe recipe;
	const char *settings;
};

struct plan_rung {
	const char *name;
	const char *cost;     /* an estimate, of time or of quality */
	bool changes_results; /* what is trained comes out differently: opt-in */
	bool repeats;         /* can be taken again and again */
	bool pairs;           /* free: what saves nothing alone may do so with another of them */
	bool (*apply)(struct plan_choice *c); /* false: it changes nothing here */
};

extern const struct plan_rung plan_rungs[];
extern const size_t plan_rung_count;

#endif
