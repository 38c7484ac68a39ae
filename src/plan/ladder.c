/*
 * The ladder: rungs of the table are tried on the program, the cheapest first.  Those that help stay, until the run fits
 * with room for what is uncertain.  Rungs that change what is trained are alternatives, each by itself on top of that;
 * where the caller allows them they stay as well.
 */
#include "plan/plan.h"

#include <stdio.h>

#define WORTH_PERMILLE 5 /* a rung that saves less is left out */

struct climb {
	struct plim_plan *plan;
	const struct plim_plan_options *options;
	struct plan_choice best;
	uint64_t needed; /* with it */
	bool fits;
	bool crowds;             /* the last one takes more of the machine's memory than there is */
	struct plan_choice pair; /* `best` and the free rungs that saved nothing alone */
	const char *paired;      /* their names, NULL: none */
};

/* The program of a choice: its peak, and the smallest limit that does. */
static enum plim_status measure(struct climb *c, const struct plan_choice *choice,
				struct plim_plan_rung *out, struct plim_err *err)
{
	struct plim_plan_hidden *h = c->plan->hidden;
	struct allocator_rules own_rules = h->rules;
	struct plan_result result;
	struct plan *plan = NULL;
	struct plan_trust trust;
	enum plim_status st = PLIM_OK;

	if (choice->settings != c->options->settings)
		st = allocator_rules_parse(choice->settings, c->options->torch, &h->rules, err);
	if (!st)
		st = plan_program(c->plan, &choice->recipe, &plan, err);
	if (!st)
		st = plan_measure_needed(plan, &h->rules, &result, &out->needed_bytes, err);
	if (!st) {
		out->allocated_peak_bytes = result.peak_allocated_bytes;
		trust = plan_trust(c->plan, &choice->recipe, plan, plan->phases.n);
		out->basis = plan_basis_names[trust.basis];
		out->needed_range_bytes = plan_range(&trust, out->needed_bytes);
		out->host_bytes = plan->host.peak_bytes;
		c->crowds = out->host_bytes > c->plan->host_bytes &&
			    plan_host_at_most(&plan->host, &choice->recipe) >
				    c->options->host_memory_bytes;
	}
	out->fits = tri(!st && out->needed_range_bytes.high <= c->plan->limit_bytes);
	plan_free(plan);
	h->rules = own_rules;
	return st;
}

static const char *name_of(struct climb *c, const struct plan_rung *rung,
			   const struct plan_choice *choice, struct plim_err *err)
{
	const struct plan_recipe *a = &c->best.recipe, *b = &choice->recipe;

	if (a->batch != b->batch)
		return plan_string(c->plan, err, "micro-batch %llu, accumulation %llu",
				   (unsigned long long)b->batch, (unsigned long long)b->accumulate);
	if (a->sequence != b->sequence)
		return plan_string(c->plan, err, "%s: %llu", rung->name,
				   (unsigned long long)b->sequence);
	if (a->longest != b->longest)
		return plan_string(c->plan, err, "%s: the longest of %llu", rung->name,
				   (unsigned long long)b->longest);
	if (a->eval_batch != b->eval_batch)
		return plan_string(c->plan, err, "%s: %llu", rung->name,
				   (unsigned long long)b->eval_batch);
	return rung->name;
}

/* A row of the ladder, if the choice is worth one. */
static enum plim_status take_choice(struct climb *c, const struct plan_rung *rung, const char *name,
				    const struct plan_choice *choice, int stays, int *helps,
				    struct plim_err *err)
{
	struct plim_plan *p = c->plan;
	const char *variable = c->options->torch && c->options->torch < 209
				       ? "PYTORCH_CUDA_ALLOC_CONF"
				       : "PYTORCH_ALLOC_CONF";
	struct plim_plan_rung row = { .rung = name,
				      .cost = rung->cost,
				      .changes_results = rung->changes_results };
	enum plim_status st = name ? measure(c, choice, &row, err) : mem_status(err);

	*helps = 0;
	if (st == PLIM_E_ARG || st == PLIM_E_UNSUPPORTED)
		return PLIM_OK; /* not for this model */
	if (st || c->crowds || row.needed_bytes + c->needed / 1000 * WORTH_PERMILLE >= c->needed)
		return st;
	row.saved_bytes = c->needed - row.needed_bytes;
	st = plan_write_config(p, choice, variable, &row.config, err);
	if (st)
		return st;
	p->ladder[p->ladder_count++] = row;
	*helps = 1;
	if (stays) {
		c->best = *choice;
		c->needed = row.needed_bytes;
		c->fits = row.fits == PLIM_TRI_YES;
		c->paired = NULL;
	}
	return PLIM_OK;
}

/* Try a rung on the best so far, and then beside those that saved nothing alone. */
static enum plim_status try_rung(struct climb *c, const struct plan_rung *rung, int stays,
				 int *helps, struct plim_err *err)
{
	struct plan_choice choice = c->best, pair = c->paired ? c->pair : c->best;
	const char *name;
	enum plim_status st;

	*helps = 0;
	if (c->plan->ladder_count == PLAN_LADDER_STEPS || !rung->apply(&choice))
		return PLIM_OK;
	st = take_choice(c, rung, name_of(c, rung, &choice, err), &choice, stays, helps, err);
	if (st || *helps || !rung->pairs || !rung->apply(&pair))
		return st;
	name = c->paired ? plan_string(c->plan, err, "%s, %s", c->paired, rung->name) : rung->name;
	if (c->paired)
		st = take_choice(c, rung, name, &pair, stays, helps, err);
	if (!st && !*helps) {
		c->pair = pair;
		c->paired = name;
	}
	return st;
}

static enum plim_status climb(struct climb *c, bool changes, struct plim_err *err)
{
	int stays = !changes || c->options->flags & PLIM_PLAN_ALLOW_CHANGES;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && !c->fits && i < plan_rung_count; i++) {
		const struct plan_rung *rung = &plan_rungs[i];
		int helps = 1;

		if (rung->changes_results != changes)
			continue;
		while (!st && !c->fits && helps) {
			st = try_rung(c, rung, stays, &helps, err);
			if (!rung->repeats || !stays)
				break;
		}
	}
	return st;
}

enum plim_status plan_climb(struct plim_plan *p, const struct plim_plan_options *o,
			    struct plim_err *err)
{
	struct climb c = { .plan = p, .options = o };
	enum plim_status st;

	c.best.recipe = p->hidden->recipe;
	c.best.settings = o->settings;
	c.needed = p->peak.needed_bytes;
	p->ladder = mem_new(&p->hidden->mem, PLAN_LADDER_STEPS, sizeof(*p->ladder), err);
	if (!p->ladder)
		return mem_status(err);
	st = climb(&c, false, err);
	return st ? st : climb(&c, true, err);
}
