/* A planned run: its strings, its limit, its programs, and how sure their numbers are. */
#include "plan/plan.h"

#include "facts/facts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *plan_string(struct plim_plan *p, struct plim_err *err, const char *fmt, ...)
{
	struct plim_plan_hidden *h = p->hidden;
	char *s = NULL;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vasprintf(&s, fmt, args);
	va_end(args);
	if (n < 0) {
		err_set(err, PLIM_E_NOMEM, "out of memory");
		return NULL;
	}
	if (vec_push(&h->mem, &h->strings, s, err)) {
		free(s);
		return NULL;
	}
	return s;
}

/* ---- where it is to run ---- */

enum plim_status plan_find_limit(struct plim_plan *p, const struct plim_plan_options *o,
				 struct plim_err *err)
{
	const struct facts_gpu *gpu = p->hidden->gpu;
	uint64_t allowance = plan_allowance(&p->hidden->recipe, o);

	p->limit_bytes = o->memory_bytes;
	if (gpu && o->memory_bytes == PLIM_UNKNOWN) {
		if (allowance >= gpu->total_low_bytes)
			return err_set(err, PLIM_E_ARG,
				       "an allowance of %llu bytes leaves nothing of a %s",
				       (unsigned long long)allowance, gpu->name);
		p->limit_bytes = gpu->total_low_bytes - allowance;
	}
	p->hidden->bounded = p->limit_bytes != PLIM_UNKNOWN;
	p->hidden->bounds = (struct allocator_bounds){
		.limit_bytes = p->hidden->bounded ? p->limit_bytes : UINT64_MAX,
		.capacity_bytes = UINT64_MAX,
	};
	return PLIM_OK;
}

/* ---- runs ---- */

/* The model with its weights as a recipe keeps them. */
enum plim_status plan_model_for(struct plim_plan *p, const struct plan_recipe *r,
				const struct model **out, struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	enum plan_quantize how = r->quantize;
	bool experts = plan_has_linear_experts(&h->model, h->recipe.transformers);
	enum plim_status st = PLIM_OK;

	*out = how || r->litgpt ? &h->quantized : &h->model;
	if (*out == &h->model || (h->quantize == how && h->litgpt == r->litgpt))
		return PLIM_OK;
	model_release(&h->quantized);
	h->quantize = PLAN_NOT_QUANTIZED;
	h->litgpt = false;
	st = model_copy(&h->quantized, &h->model, err);
	if (!st && r->litgpt)
		st = model_join(&h->quantized, err);
	if (!st && how)
		st = model_quantize(&h->quantized, (enum model_quantization)(how - 1),
				    (experts ? MODEL_QUANTIZE_EXPERTS : 0u) |
					    (r->litgpt ? MODEL_QUANTIZE_HEAD : 0u),
				    err);
	if (!st) {
		h->quantize = how;
		h->litgpt = r->litgpt;
	}
	return st;
}

enum plim_status plan_program(struct plim_plan *p, const struct plan_recipe *r, struct plan **out,
			      struct plim_err *err)
{
	const struct model *m;
	enum plim_status st;

	*out = NULL;
	if (p->hidden->traced.mem)
		return plan_retrace(p, r, out, err);
	st = plan_model_for(p, r, &m, err);
	return st ? st : plan_build(&p->hidden->mem, m, r, out, err);
}

#define STEPS_LEAST 2 /* the second has the optimizer's states from its beginning */
#define STEPS_MOST 8  /* a run that has not settled then is reported as it is */

/* What a run may need to be of any use to the caller. */
static uint64_t most_of(const struct plim_plan *p, const struct plan_recipe *r,
			const struct plan_goal *goal, const struct plan *plan)
{
	uint64_t most = goal ? goal->most_bytes : UINT64_MAX;

	if (goal && goal->fits) {
		struct plan_trust trust = plan_trust(p, r, plan, plan->phases.n);
		uint64_t fits = plan_most_that_fits(p, &trust);

		most = fits < most ? fits : most;
	}
	return most;
}

/* Micro-batches beyond these repeat the one before: nothing that was planned grew after the third. */
#define MICRO_SETTLED 4

void plan_repeat_less(const struct plim_plan *p, struct plan_recipe *r)
{
	if (r->accumulate > MICRO_SETTLED && !p->hidden->traced.mem)
		r->accumulate = MICRO_SETTLED;
}

enum plim_status plan_settle(struct plim_plan *p, struct plan_recipe *r,
			     const struct plan_goal *goal, struct plan **out,
			     struct plan_result *result, uint64_t *needed, struct plim_err *err)
{
	const struct allocator_rules *rules = &p->hidden->rules;
	bool steps = r->task == PLAN_TRAIN && !p->hidden->traced.mem, first = true;
	struct plan_result results[2];
	uint64_t both[2] = { 0, 0 }, most = UINT64_MAX;
	struct plan_recipe next;
	enum plim_status st;

	*result = (struct plan_result){ .died = TRACE_NONE };
	if (steps)
		r->steps = p->hidden->lengths.n > STEPS_LEAST ? p->hidden->lengths.n : STEPS_LEAST;
	st = plan_program(p, r, out, err);
	if (!st)
		most = most_of(p, r, goal, *out);
	if (!st && !steps)
		return plan_measure_needed(*out, rules, most, result, needed, err);
	next = *r;
	while (!st && ++next.steps <= STEPS_MOST) {
		struct plan *plans[2] = { *out, NULL };

		st = plan_program(p, &next, &plans[1], err);
		if (!st)
			st = first ? plan_measure_both(plans, rules, most, results, both, err)
				   : plan_measure_needed(plans[1], rules, most, &results[1],
							 &both[1], err);
		if (first) {
			*result = results[0];
			*needed = both[0];
		}
		first = false;
		if (st || *needed == UINT64_MAX ||
		    (both[1] <= *needed &&
		     results[1].peak_allocated_bytes <= result->peak_allocated_bytes)) {
			plan_free(plans[1]);
			break;
		}
		plan_free(*out);
		*out = plans[1];
		r->steps = next.steps;
		*result = results[1];
		*needed = both[1];
	}
	return st;
}

enum plim_status plan_show_steps(struct plim_plan *p, struct plan_result *result, uint64_t *needed,
				 struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	enum plim_status st;

	h->shown_steps = h->recipe.steps;
	st = plan_settle(p, &h->recipe, NULL, &h->plan, result, needed, err);
	if (st || h->recipe.task != PLAN_TRAIN || h->shown_steps <= h->recipe.steps)
		return st;
	h->recipe.steps = h->shown_steps;
	plan_free(h->plan);
	h->plan = NULL;
	st = plan_program(p, &h->recipe, &h->plan, err);
	return st ? st : plan_measure_needed(h->plan, &h->rules, UINT64_MAX, result, needed, err);
}

enum plim_status plan_try(struct plim_plan *p, const struct plan_recipe *r, uint64_t limit_bytes,
			  struct plan_trial *out, struct plim_err *err)
{
	struct allocator_bounds bounds = { .limit_bytes = limit_bytes,
					   .capacity_bytes = UINT64_MAX };
	struct plan_recipe few = *r;
	struct plan_result result;
	struct plan *plan;
	enum plim_status st;

	*out = (struct plan_trial){ 0 };
	plan_repeat_less(p, &few);
	st = plan_program(p, &few, &plan, err);
	if (!st)
		st = plan_measure(plan, &p->hidden->rules, &bounds, &result, err);
	if (!st) {
		out->allocated_bytes = result.peak_allocated_bytes;
		out->reserved_bytes = result.peak_reserved_bytes;
		out->request_bytes = result.died_request_bytes;
		out->trust = plan_trust(p, r, plan, plan->phases.n);
	}
	if (!st && result.died != TRACE_NONE) {
		snprintf(out->name, sizeof(out->name), "%s", plan->phases.at[result.died].name);
		out->died = out->name;
	}
	plan_free(plan);
	return st;
}

/* ---- how sure it is ---- */

struct plan_trust plan_trust(const struct plim_plan *p, const struct plan_recipe *r,
			     const struct plan *plan, size_t n)
{
	struct plan_trust t;

	if (p->hidden->traced.mem) {
		plan_trust_trace(&p->hidden->traced, &t);
		return t;
	}
	plan_trust_of(&p->hidden->model, r, p->hidden->recordings ? &p->hidden->recorded : NULL,
		      plan->phases.at, n, &t);
	if (n > 1) { /* behind the load */
		t.less_bytes = p->hidden->less_bytes;
		t.more_bytes = p->hidden->more_bytes;
	}
	return t;
}

struct plim_interval plan_range(const struct plan_trust *t, uint64_t bytes)
{
	uint64_t range[2];

	plan_trust_range(t, bytes, range);
	return (struct plim_interval){ range[0], range[1] };
}

uint64_t plan_most_that_fits(const struct plim_plan *p, const struct plan_trust *trust)
{
	uint64_t low = 0, high = p->limit_bytes;

	while (low < high) {
		uint64_t middle = high - (high - low) / 2;

		if (plan_range(trust, middle).high <= p->limit_bytes)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* ---- where a request is made ---- */

void plan_site_of(const struct plim_plan *p, uint32_t request, struct plan_site *out)
{
	const struct plan_traced *t = &p->hidden->traced;

	if (!t->mem) {
		plan_site_read(&p->hidden->model,
			       p->hidden->plan->program->requests.at[request].stack, out);
		return;
	}
	*out = (struct plan_site){ .op = t->operators.at[t->operator.at[request]] };
	if (!*out->op)
		out->op = NULL;
	snprintf(out->place, sizeof(out->place), "%s", t->places.at[t->place.at[request]]);
}
