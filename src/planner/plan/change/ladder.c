/*
 * The ladder: rungs of the table are tried on the program, the cheapest first.  Those that help stay, until the run fits
 * with room for what is uncertain; then those that it fits without are taken back, the dearest first.  Rungs that
 * change what is trained are alternatives, each by itself on top of that; where the caller allows them they stay as
 * well.  What is enough alone, of one that was needed with others, is reported before all: the cheapest that there is.
 */
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#define WORTH_PERMILLE 5 /* a rung that saves less is left out */

struct climb {
	struct plim_plan *plan;
	const struct plim_plan_options *options;
	struct plan_choice best;
	uint64_t needed; /* with it */
	bool fits;
	bool alone;  /* only what is enough is reported */
	bool crowds; /* the last one takes more of the machine's memory than there is */
	const struct plan_rung *path[PLAN_LADDER_STEPS]; /* those that stayed, a row each */
	size_t path_length;
	bool several;            /* one of them stands for several */
	struct plan_choice pair; /* `best` and the free rungs that saved nothing alone */
	const char *paired;      /* their names, NULL: none */
};

/* The program of a choice: its peak, and the smallest limit that does, where that is within the goal. */
static enum plim_status measure_ladder(struct climb *c, const struct plan_choice *choice,
				       const struct plan_goal *goal, struct plim_plan_rung *out,
				       struct plim_err *err)
{
	struct plim_plan_hidden *h = c->plan->hidden;
	struct allocator_rules own_rules = h->rules;
	struct plan_result result;
	struct plan *plan = NULL;
	struct plan_recipe recipe = choice->recipe;
	struct plan_trust trust;
	enum plim_status st = PLIM_OK;

	plan_repeat_less(c->plan, &recipe);
	if (choice->settings != c->options->settings)
		st = allocator_rules_parse(choice->settings, c->options->torch, &h->rules, err);
	if (!st && choice->own_allocator)
		st = plan_program(c->plan, &recipe, &plan, err);
	if (!st)
		st = choice->own_allocator ? plan_measure_own(plan, c->plan->limit_bytes, &result,
							      &out->needed_bytes, err)
					   : plan_settle(c->plan, &recipe, goal, &plan, &result,
							 &out->needed_bytes, err);
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
	out->fits = tri(!st && out->needed_bytes != UINT64_MAX &&
			out->needed_range_bytes.high <= c->plan->limit_bytes);
	plan_free(plan);
	h->rules = own_rules;
	return st;
}

static const char *ladder_name_of(struct climb *c, const struct plan_rung *rung,
				  const struct plan_choice *choice, struct plim_err *err)
{
	const struct plan_recipe *a = &c->best.recipe, *b = &choice->recipe;

	if (a->batch != b->batch && b->task != PLAN_TRAIN)
		return plan_string(c->plan, err, "%s: %llu", rung->name,
				   (unsigned long long)b->batch);
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

/* What a change costs, and what it does to training. */
static const char *cost_of(struct climb *c, const struct plan_rung *rung,
			   const struct plan_choice *choice, struct plim_err *err)
{
	static const char *const trained[] = {
		[PLAN_PARTS_SCALED] = plan_scaled_words,
		[PLAN_PARTS_MEANS] = "another training: a mean of each micro-batch's mean over its "
				     "labels, not of all labels",
		[PLAN_PARTS_COMPARED] =
			"another training: the loss compares samples within a micro-batch",
	};
	const char *words = choice->recipe.accumulate > c->best.recipe.accumulate
				    ? trained[choice->recipe.parts]
				    : NULL;

	return words ? plan_string(c->plan, err, "%s; %s", rung->cost, words) : rung->cost;
}

/* A row of the ladder, if the choice is worth one. */
static enum plim_status take_choice(struct climb *c, const struct plan_rung *rung, const char *name,
				    const struct plan_choice *choice, int stays, int *helps,
				    struct plim_err *err)
{
	struct plim_plan *p = c->plan;
	struct plim_plan_rung row = { .rung = name,
				      .cost = cost_of(c, rung, choice, err),
				      .changes_results = rung->changes_results };
	struct plan_goal goal = { .most_bytes = c->needed - c->needed / 1000 * WORTH_PERMILLE - 1,
				  .fits = c->alone || rung->enough_only };
	enum plim_status st =
		name && row.cost ? measure_ladder(c, choice, &goal, &row, err) : mem_status(err);

	*helps = 0;
	if (st == PLIM_E_ARG || st == PLIM_E_UNSUPPORTED)
		return PLIM_OK; /* not for this model */
	if (st || c->crowds || row.needed_bytes > goal.most_bytes ||
	    (goal.fits && row.fits != PLIM_TRI_YES))
		return st;
	row.saved_bytes = c->needed - row.needed_bytes;
	st = plan_write_config(p, choice, &row.config, err);
	if (st)
		return st;
	p->ladder[p->ladder_count++] = row;
	*helps = 1;
	if (stays) {
		c->path[c->path_length++] = rung;
		c->best = *choice;
		c->needed = row.needed_bytes;
		c->fits = row.fits == PLIM_TRI_YES;
		c->paired = NULL;
	}
	return PLIM_OK;
}

/* Has the tool that runs it a key for what is changed? */
static bool is_sayable(const struct climb *c, const struct plan_choice *choice)
{
	const struct plim_plan_hidden *h = c->plan->hidden;

	return !(plan_keys_unsaid(h->tool, &choice->recipe) &
		 ~plan_keys_unsaid(h->tool, &h->recipe));
}

/* Try a rung on the best so far, and then next to those that saved nothing alone. */
static enum plim_status try_rung(struct climb *c, const struct plan_rung *rung, int stays,
				 int *helps, struct plim_err *err)
{
	struct plan_choice choice = c->best, pair = c->paired ? c->pair : c->best;
	const char *name;
	enum plim_status st;

	*helps = 0;
	if (c->plan->ladder_count == PLAN_LADDER_STEPS || !rung->apply(&choice) ||
	    !is_sayable(c, &choice))
		return PLIM_OK;
	st = take_choice(c, rung, ladder_name_of(c, rung, &choice, err), &choice, stays, helps,
			 err);
	if (st || *helps || !rung->pairs || !rung->apply(&pair))
		return st;
	name = c->paired ? plan_string(c->plan, err, "%s, %s", c->paired, rung->name) : rung->name;
	if (c->paired)
		st = take_choice(c, rung, name, &pair, stays, helps, err);
	c->several |= *helps && stays;
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

static void begin_ladder(struct climb *c, const struct plim_plan *p)
{
	c->best = (struct plan_choice){ .recipe = p->hidden->recipe,
					.settings = c->options->settings };
	c->needed = p->peak.needed_bytes;
	c->fits = false;
	c->paired = NULL;
	c->path_length = 0;
}

#define STEPS_TRIED 3 /* the first that repeats the one before */

/* One run under the most that may be needed: where more than the least that does is too little, that is not an answer. */
static bool runs_through(struct climb *c, const struct plan_choice *choice, struct plim_err *err)
{
	struct allocator_bounds bounds = { .capacity_bytes = UINT64_MAX };
	struct plan_recipe recipe = choice->recipe;
	struct plan_result result;
	struct plan_trust trust;
	struct plan *plan = NULL;
	enum plim_status st;

	recipe.steps = recipe.steps > STEPS_TRIED ? recipe.steps : STEPS_TRIED;
	plan_repeat_less(c->plan, &recipe);
	st = plan_program(c->plan, &recipe, &plan, err);
	if (!st) {
		trust = plan_trust(c->plan, &choice->recipe, plan, plan->phases.n);
		bounds.limit_bytes = plan_most_that_fits(c->plan, &trust);
		st = plan_measure(plan, &c->plan->hidden->rules, &bounds, &result, err);
	}
	plan_free(plan);
	return !st && result.died == TRACE_NONE;
}

/* Does the run fit with the rungs of a path that are kept? */
static bool fits_with(struct climb *c, const struct plan_rung *const *path, const bool *kept,
		      size_t n, struct plim_err *err)
{
	struct plan_choice choice = { .recipe = c->plan->hidden->recipe,
				      .settings = c->options->settings };
	struct plan_goal fits = { .most_bytes = UINT64_MAX, .fits = true };
	struct plim_plan_rung row = { .rung = "" };

	for (size_t i = 0; i < n; i++)
		if (kept[i] && !path[i]->apply(&choice))
			return false;
	if (!choice.own_allocator && choice.settings == c->options->settings &&
	    !c->plan->hidden->traced.mem && !runs_through(c, &choice, err))
		return false;
	return !measure_ladder(c, &choice, &fits, &row, err) && !c->crowds &&
	       row.fits == PLIM_TRI_YES;
}

/*
 * Those rungs of a path that it does not fit without, the dearest first; again after each that went, as one may stand in the way of
 * doing without another (what FSDP shares out DeepSpeed does not offload).
 */
static bool keep_fewer(struct climb *c, bool *kept, size_t n, struct plim_err *err)
{
	bool fewer = false, gone = true;

	while (gone) {
		gone = false;
		for (size_t i = n - 1; i-- > 0;) {
			if (!kept[i])
				continue;
			kept[i] = false;
			kept[i] = !fits_with(c, c->path, kept, n, err);
			gone |= !kept[i];
		}
		fewer |= gone;
	}
	return fewer;
}

/* Climb again by those rungs alone that it does not fit without. */
static enum plim_status take_back(struct climb *c, struct plim_err *err)
{
	struct plim_plan *p = c->plan;
	struct climb before = *c;
	bool kept[PLAN_LADDER_STEPS], fewer;
	size_t n = c->path_length;
	struct plim_plan_rung *rows;
	enum plim_status st = PLIM_OK;

	/* A row of several rungs is one of the path only. */
	if (!c->fits || n < 2 || n != p->ladder_count || c->several)
		return PLIM_OK;
	memset(kept, true, sizeof(kept));
	fewer = keep_fewer(c, kept, n, err);
	rows = fewer ? mem_new(&p->hidden->mem, n, sizeof(*rows), err) : NULL;
	if (!rows)
		return fewer ? mem_status(err) : PLIM_OK;
	memcpy(rows, p->ladder, n * sizeof(*rows));
	p->ladder_count = 0;
	begin_ladder(c, p);
	for (size_t i = 0; !st && i < n; i++) {
		int helps;

		if (kept[i])
			st = try_rung(c, before.path[i], 1, &helps, err);
	}
	if (!st && !c->fits) { /* one of them saves too little to be reported alone */
		memcpy(p->ladder, rows, n * sizeof(*rows));
		p->ladder_count = n;
		*c = before;
	}
	mem_free(&p->hidden->mem, rows, n, sizeof(*rows));
	return st;
}

#define ALONE_MOST 2

/* Not what is dearer than what was found: of that, other models are only where it is slow. */
static bool worth_telling(const struct climb *c, const struct plan_rung *rung)
{
	const struct plan_rung *dearest = c->fits ? c->path[c->path_length - 1] : NULL;

	if (!dearest)
		return true;
	return rung->changes_results ? dearest->slow : c->path_length > 1 && rung < dearest;
}

/* Of what was not enough of a climb: single changes that are, to the front. */
static enum plim_status tell_alone(struct climb *c, struct plim_err *err)
{
	struct plim_plan *p = c->plan;
	struct climb one = *c;
	size_t told = p->ladder_count, found = 0, n;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < plan_rung_count && found < ALONE_MOST; i++) {
		struct plan_choice choice;
		int helps;

		n = p->ladder_count;
		begin_ladder(&one, p);
		one.alone = true;
		choice = one.best;
		if (n == PLAN_LADDER_STEPS || !worth_telling(c, &plan_rungs[i]) ||
		    !plan_rungs[i].apply(&choice) || !is_sayable(c, &choice))
			continue;
		st = take_choice(&one, &plan_rungs[i],
				 ladder_name_of(&one, &plan_rungs[i], &choice, err), &choice, 0,
				 &helps, err);
		found += p->ladder_count > n;
	}
	for (size_t i = 0; i < found; i++) {
		struct plim_plan_rung row = p->ladder[told + i];

		row.alone = true;
		memmove(&p->ladder[i + 1], &p->ladder[i], told * sizeof(row));
		p->ladder[i] = row;
	}
	return st;
}

enum plim_status plan_climb(struct plim_plan *p, const struct plim_plan_options *o,
			    struct plim_err *err)
{
	struct climb c = { .plan = p, .options = o };
	enum plim_status st;

	begin_ladder(&c, p);
	p->ladder = mem_new(&p->hidden->mem, PLAN_LADDER_STEPS, sizeof(*p->ladder), err);
	if (!p->ladder)
		return mem_status(err);
	st = climb(&c, false, err);
	if (!st)
		st = take_back(&c, err);
	if (!st)
		st = climb(&c, true, err);
	return st ? st : tell_alone(&c, err);
}
