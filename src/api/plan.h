/* What the parts of the plan verb share. */
#ifndef API_PLAN_H
#define API_PLAN_H

#include "plan/plan.h"

#include <plimsoll/plan.h>

struct plim_plan_hidden {
	struct mem mem;
	struct model model;
	struct model
		quantized; /* a copy with its weights quantized as `quantize` says, for recipes that want it */
	enum plan_quantize quantize;
	struct plan_recipe recipe;
	struct allocator_rules rules;
	struct allocator_bounds bounds;
	struct text lora_targets; /* the option, cut at its commas */
	VEC(const char *) lora_names;
	VEC(uint64_t) extra;   /* bytes of tensors beside the model's */
	VEC(uint64_t) lengths; /* tokens, step by step */
	VEC(char *) strings;   /* that the result points to */
	VEC(const char *) assumptions, defaults;
	struct plan *plan;
	bool fits;
	bool bounded;
	const char *path;
};

extern const struct field_table plan_table;

/* A copy that lives as long as the plan; NULL: *err is set. */
const char *plan_string(struct plim_plan *p, struct plim_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Options to a recipe; PLIM_E_ARG names what is not known. */
enum plim_status plan_read_options(struct plim_plan *p, const struct plim_plan_options *o,
				   struct plim_err *err);

/* What the options leave open, by the releases and the model that was read; tells what it took for granted. */
enum plim_status plan_take_defaults(struct plim_plan *p, const struct plim_plan_options *o,
				    struct plim_err *err);

/* The program of a recipe, for the model as the recipe has its weights; plan_free it. */
enum plim_status plan_program(struct plim_plan *p, const struct plan_recipe *r, struct plan **out,
			      struct plim_err *err);

/* One more run of the same model, under the plan's limit; *result is of the placement that needs most. */
struct plan_trial {
	uint64_t allocated_bytes, reserved_bytes;
	const char *died; /* phase, static or of `name`; NULL: it goes to its end */
	char name[12];
	uint64_t request_bytes;
};
enum plim_status plan_try(struct plim_plan *p, const struct plan_recipe *r, struct plan_trial *out,
			  struct plim_err *err);

/* The smallest limit, to 2 MiB, under which `plan` goes to its end however segments are placed. */
enum plim_status plan_find_needed(struct plim_plan *p, struct plan *plan, uint64_t *low,
				  uint64_t *high, struct plim_err *err);

#define PLAN_LIMIT_STEP ((uint64_t)2 << 20) /* the driver gives memory in such pieces */

/* What may be needed where `bytes` are told. */
uint64_t plan_at_most(const struct plim_plan *p, uint64_t bytes);

#define PLAN_LADDER_STEPS 64 /* rungs that are told, at most */

/* Fill p->ladder for a run that does not fit. */
enum plim_status plan_climb(struct plim_plan *p, const struct plim_plan_options *o,
			    struct plim_err *err);
/* `variable`: of the environment, for the allocator's settings. */
enum plim_status plan_write_config(struct plim_plan *p, const struct plan_choice *c,
				   const char *variable, struct plim_plan_config *out,
				   struct plim_err *err);

#endif
