/* What the parts of the plan verb share. */
#ifndef API_PLAN_H
#define API_PLAN_H

#include "hold.h"
#include "plan/plan.h"

#include <plimsoll/plan.h>

struct plim_plan_hidden {
	struct mem mem;
	struct hold hold;
	struct model model;
	struct plan_recipe recipe;
	struct allocator_rules rules;
	struct allocator_bounds bounds;
	struct text lora_targets; /* the option, cut at its commas */
	VEC(const char *) lora_names;
	VEC(uint64_t) extra; /* bytes of tensors beside the model's */
	VEC(char *) strings; /* that the result points to */
	VEC(const char *) assumptions;
	struct plan *plan;
	struct plan_trust trust; /* of the whole run */
	bool fits;
	bool bounded;
	const char *title;    /* of a page: "config.json, batch 8, sequence 2048" */
	const char *settings; /* PYTORCH_CUDA_ALLOC_CONF, "" without */
};

extern const struct field_table plan_table, plan_rung_table;

/* A copy that lives as long as the plan; NULL: *err is set. */
const char *plan_string(struct plim_plan *p, struct plim_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Options to a recipe; PLIM_E_ARG names what is not known. */
enum plim_status plan_read_options(struct plim_plan *p, const struct plim_plan_options *o,
				   struct plim_err *err);

/* One more run of the same model under a limit, UINT64_MAX: none. */
struct plan_trial {
	uint64_t allocated_bytes, reserved_bytes;
	const char *died; /* phase, static or of `name`; NULL: it goes to its end */
	char name[12];
	uint64_t request_bytes;
	struct plan_trust trust;
};
enum plim_status plan_try(struct plim_plan *p, const struct plan_recipe *r, uint64_t limit_bytes,
			  struct plan_trial *out, struct plim_err *err);

/* The smallest limit, to 2 MiB, under which `plan` goes to its end however segments are placed. */
enum plim_status plan_find_needed(struct plim_plan *p, struct plan *plan, uint64_t *low,
				  uint64_t *high, struct plim_err *err);

#define PLAN_LIMIT_STEP ((uint64_t)2 << 20) /* the driver gives memory in such pieces */

/* How sure what the first `n` phases of a plan tell is; of one that recipe `r` made. */
struct plan_trust plan_trust(const struct plim_plan *p, const struct plan_recipe *r,
			     const struct plan *plan, size_t n);

/* Two sizes, kept as long as the plan: `bytes` with what is uncertain.  NULL: *err is set. */
uint64_t *plan_range(struct plim_plan *p, const struct plan_trust *t, uint64_t bytes,
		     struct plim_err *err);

/* "the forward pass of step 1" of fwd1, for a person; into a buffer of 64. */
const char *plan_phase_words(char *buffer, const char *phase);

/* The rungs as a table, and the configuration of the last that need not be asked for. */
void plan_put_ladder(struct text *t, const struct plim_plan_rung *ladder, size_t n,
		     uint64_t limit_bytes);

#define PLAN_LADDER_STEPS 64 /* rungs that are told, at most */

/* Fill p->ladder for a run that does not fit. */
enum plim_status plan_climb(struct plim_plan *p, const struct plim_plan_options *o,
			    struct plim_err *err);
/* `variable`: of the environment, for the allocator's settings. */
enum plim_status plan_write_config(struct plim_plan *p, const struct plan_choice *c,
				   const char *variable, struct plim_plan_config *out,
				   struct plim_err *err);

#endif
