/* The largest batch or sequence that fits, and several sizes side by side. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

struct search {
	struct plan_recipe r;
	uint64_t *size, most; /* which number of the recipe, and up to where */
	uint64_t unit;        /* of which it is a multiple */
};

static enum plim_status largest(struct plim_plan *p, struct search *s, uint64_t limit_bytes,
				uint64_t *out, struct plim_err *err)
{
	uint64_t does = 0, most = s->most / s->unit, fails = most + 1;
	enum plim_status st = PLIM_OK;
	struct plan_trial trial;

	while (!st && fails - does > 1) {
		uint64_t next = fails > most ? (does ? does * 2 : 1) : does + (fails - does) / 2;

		next = next > most ? most : next;
		*s->size = next * s->unit;
		st = plan_try(p, &s->r, limit_bytes, &trial, err);
		if (st)
			break;
		if (trial.died)
			fails = next;
		else
			does = next;
		if (does == most)
			break;
	}
	*out = does * s->unit;
	return st;
}

#define MOST_BATCH 65536u
#define MOST_SEQUENCE (1u << 20)
#define SEQUENCE_UNIT 64 /* of traces, if theirs is one */

/* What surely fits, and what perhaps does: the limits that runs may come to by as much as a number may be off. */
static enum plim_status largest_range(struct plim_plan *p, struct search *s,
				      struct plim_interval *range, struct plim_err *err)
{
	const struct plan_trust *t = &p->hidden->trust;
	uint64_t sure = p->limit_bytes / (1000 + t->above) * 1000,
		 perhaps = p->limit_bytes / (1000 - t->below) * 1000;
	enum plim_status st;

	st = largest(p, s, sure, &range->low, err);
	return st ? st : largest(p, s, perhaps, &range->high, err);
}

enum plim_status plan_find_largest(struct plim_plan *p, const struct plim_plan_options *o,
				   struct plim_err *err)
{
	struct search batch = { p->hidden->recipe, &batch.r.batch, MOST_BATCH, 1 };
	struct search sequence = { p->hidden->recipe, &sequence.r.sequence, MOST_SEQUENCE, 1 };
	enum plim_status st = PLIM_OK;

	p->max_batch = p->max_sequence = PLIM_UNKNOWN;
	p->max_batch_range = p->max_sequence_range = INTERVAL_UNKNOWN;
	if (!(o->flags & (PLIM_PLAN_MAX_BATCH | PLIM_PLAN_MAX_SEQUENCE)) || p->model.doubt_count)
		return PLIM_OK;
	if (!p->hidden->bounded)
		return err_set(err, PLIM_E_ARG,
			       "what fits at most depends on the memory: give options.memory_bytes "
			       "or options.gpu");
	if (p->hidden->traced.mem) { /* kernels are others where rows are not whole */
		uint64_t positions = p->hidden->traced.positions;

		sequence.unit = p->sequence % SEQUENCE_UNIT ? 1 : SEQUENCE_UNIT;
		sequence.most = positions && positions < MOST_SEQUENCE ? positions : MOST_SEQUENCE;
	}
	p->max_basis = plan_basis_names[p->hidden->trust.basis];
	if (o->flags & PLIM_PLAN_MAX_BATCH) {
		st = largest_range(p, &batch, &p->max_batch_range, err);
		p->max_batch = st ? PLIM_UNKNOWN : p->max_batch_range.low;
	}
	if (!st && o->flags & PLIM_PLAN_MAX_SEQUENCE) {
		st = largest_range(p, &sequence, &p->max_sequence_range, err);
		p->max_sequence = st ? PLIM_UNKNOWN : p->max_sequence_range.low;
	}
	return st;
}

static enum plim_status sweep_one(struct plim_plan *p, const struct plan_recipe *r,
				  struct plim_plan_sweep *row, struct plim_err *err)
{
	struct plan_result result;
	struct plan *plan = NULL;
	struct plan_trust trust;
	uint64_t needed = 0;
	struct plan_recipe settled = *r;
	enum plim_status st = plan_settle(p, &settled, &plan, &result, &needed, err);

	if (st) {
		plan_free(plan);
		return st;
	}
	trust = plan_trust(p, r, plan, plan->phases.n);
	*row = (struct plim_plan_sweep){ .batch = r->batch,
					 .sequence = r->sequence,
					 .allocated_bytes = result.peak_allocated_bytes,
					 .reserved_bytes = result.peak_reserved_bytes,
					 .needed_bytes = needed,
					 .basis = plan_basis_names[trust.basis],
					 .needed_range_bytes = plan_range(&trust, needed) };
	if (!st && p->hidden->bounded && !p->model.doubt_count)
		row->fits = tri(p->limit_bytes >= row->needed_range_bytes.high);
	if (!st && p->hidden->bounded && p->limit_bytes < needed) {
		st = plan_measure(plan, &p->hidden->rules, &p->hidden->bounds, &result, err);
		if (!st && result.died != TRACE_NONE)
			row->dies_at = plan_string(p, err, "%s", plan->phases.at[result.died].name);
	}
	plan_free(plan);
	return st;
}

#define SWEEP_MAX 1000

enum plim_status plan_sweep(struct plim_plan *p, const char *text, struct plim_err *err)
{
	struct plan_recipe r = p->hidden->recipe;
	uint64_t *size = NULL;
	size_t count = 1;
	enum plim_status st = PLIM_OK;

	if (!text)
		return PLIM_OK;
	if (!strncmp(text, "batch=", 6))
		size = &r.batch;
	else if (!strncmp(text, "seq=", 4))
		size = &r.sequence;
	if (!size)
		return err_set(err, PLIM_E_ARG, "a sweep is batch=1,2,4 or seq=512,1024, not '%s'",
			       text);
	text = strchr(text, '=') + 1;
	for (const char *s = text; *s; s++)
		count += *s == ',';
	if (count > SWEEP_MAX)
		return err_set(err, PLIM_E_ARG, "a sweep takes %d sizes at most", SWEEP_MAX);
	p->sweep = mem_new(&p->hidden->mem, count, sizeof(*p->sweep), err);
	if (!p->sweep)
		return mem_status(err);
	p->sweep_count = count;
	for (size_t i = 0; !st && i < count; i++) {
		char *end;

		*size = strtoull(text, &end, 10);
		if (end == text || !*size || *size > 1 << 26 || (*end && *end != ','))
			return err_set(err, PLIM_E_ARG, "a sweep's sizes are numbers, not '%s'",
				       text);
		text = *end ? end + 1 : end;
		st = sweep_one(p, &r, &p->sweep[i], err);
	}
	return st;
}
