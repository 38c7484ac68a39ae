/* The largest batch or sequence that fits, and several sizes side by side. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

struct search {
	struct plan_recipe r;
	uint64_t *size, most; /* which number of the recipe, and up to where */
	uint64_t unit;        /* of which it is a multiple */
};

static enum plim_status largest_count(struct plim_plan *p, struct search *s, uint64_t limit_bytes,
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

#define PROOFS 4

/*
 * An answer of a trace is one only where it lies between sizes that were traced; else it is traced itself, or the next
 * smaller one.  *out: the answer; PLIM_UNKNOWN: nothing could be traced to prove it.
 */
static enum plim_status prove(struct plim_plan *p, struct search *s, uint64_t limit_bytes,
			      struct plim_interval *range, uint64_t *out, struct plim_err *err)
{
	const struct plan_traced *t = &p->hidden->traced;
	struct plan_trial trial;

	for (int i = 0; i <= PROOFS; i++) {
		enum plim_status st;

		*s->size = range->low ? range->low : s->unit;
		*out = range->low;
		if (!t->mem || plan_is_between_traced(t, s->r.batch, s->r.sequence))
			return PLIM_OK;
		*out = PLIM_UNKNOWN;
		st = plan_try(p, &s->r, limit_bytes, &trial, err);
		if (st)
			return st == PLIM_E_UNSUPPORTED ? PLIM_OK : st;
		*out = trial.died ? 0 : *s->size;
		if (!trial.died || !range->low) {
			range->low = *out;
			return PLIM_OK;
		}
		range->low -= s->unit;
	}
	*out = PLIM_UNKNOWN;
	return PLIM_OK;
}

/*
 * What surely fits, and what perhaps does: the limits that runs may come to by as much as a number may be off.  *out is
 * the former, where it can be answered for.
 */
static enum plim_status largest_range(struct plim_plan *p, struct search *s,
				      struct plim_interval *range, uint64_t *out,
				      struct plim_err *err)
{
	const struct plan_trust *t = &p->hidden->trust;
	uint64_t sure = p->limit_bytes / (1000 + t->above) * 1000,
		 perhaps = p->limit_bytes / (1000 - t->below) * 1000;
	enum plim_status st;

	p->hidden->beyond = true;
	st = largest_count(p, s, sure, &range->low, err);
	if (!st)
		st = largest_count(p, s, perhaps, &range->high, err);
	p->hidden->beyond = false;
	return st ? st : prove(p, s, sure, range, out, err);
}

static enum plim_status tell_unproven(struct plim_plan *p, const char *what, struct plim_err *err)
{
	const struct plan_traced *t = &p->hidden->traced;
	uint64_t a = t->batch, b = t->grown_batch;

	if (*what == 's') {
		a = b = t->sequence;
		for (size_t i = 0; i < t->sequences.n; i++) {
			a = t->sequences.at[i] < a ? t->sequences.at[i] : a;
			b = t->sequences.at[i] > b ? t->sequences.at[i] : b;
		}
	}
	return plan_assume(p,
			   plan_string(p, err,
				       "no verdict on a %s that is not between those that were "
				       "traced (%llu and %llu): numbers of it are on their line",
				       what, (unsigned long long)(a < b ? a : b),
				       (unsigned long long)(a < b ? b : a)),
			   err);
}

/* What fits is not what the model was made for. */
static enum plim_status tell_beyond(struct plim_plan *p, struct plim_err *err)
{
	uint64_t positions = p->hidden->model.towers[MODEL_TEXT].positions;
	uint64_t most = p->max_sequence_range.high;

	if (!positions || most == PLIM_UNKNOWN || most <= positions)
		return PLIM_OK;
	return plan_assume(p,
			   plan_string(p, err,
				       "the longest sequence is what memory allows: the model was "
				       "made for %llu tokens (max_position_embeddings)",
				       (unsigned long long)positions),
			   err);
}

/* Components of one size that stay with the model: the recipe's own tensors are the first ones. */
static enum plim_status find_residents(struct plim_plan *p, struct plim_err *err)
{
	uint64_t own = p->hidden->extra_used;
	struct search search = { p->hidden->recipe, NULL, p->hidden->extra.n, 1 };
	struct plim_interval *range = &p->max_resident_range;
	enum plim_status st;

	_Static_assert(sizeof(search.r.extra_count) == sizeof(uint64_t), "the search sets it");
	search.size = (uint64_t *)&search.r.extra_count;
	st = largest_range(p, &search, range, &p->max_resident, err);
	if (st)
		return st;
	/* what does not fit without any of them fits with none */
	range->low = range->low > own ? range->low - own : 0;
	range->high = range->high > own ? range->high - own : 0;
	p->max_resident = p->max_resident == PLIM_UNKNOWN ? PLIM_UNKNOWN : range->low;
	return PLIM_OK;
}

enum plim_status plan_find_largest(struct plim_plan *p, const struct plim_plan_options *o,
				   struct plim_err *err)
{
	struct search batch = { p->hidden->recipe, &batch.r.batch, MOST_BATCH, 1 };
	struct search sequence = { p->hidden->recipe, &sequence.r.sequence, MOST_SEQUENCE, 1 };
	enum plim_status st = PLIM_OK;

	p->max_batch = p->max_sequence = p->max_resident = PLIM_UNKNOWN;
	p->max_batch_range = p->max_sequence_range = p->max_resident_range = INTERVAL_UNKNOWN;
	if (!(o->flags & (PLIM_PLAN_MAX_BATCH | PLIM_PLAN_MAX_SEQUENCE | PLIM_PLAN_MAX_RESIDENT)) ||
	    p->model.doubt_count)
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
		st = largest_range(p, &batch, &p->max_batch_range, &p->max_batch, err);
		if (!st && p->max_batch == PLIM_UNKNOWN)
			st = tell_unproven(p, "batch", err);
	}
	if (!st && o->flags & PLIM_PLAN_MAX_SEQUENCE) {
		st = largest_range(p, &sequence, &p->max_sequence_range, &p->max_sequence, err);
		if (!st && p->max_sequence == PLIM_UNKNOWN)
			st = tell_unproven(p, "sequence", err);
		if (!st)
			st = tell_beyond(p, err);
	}
	if (!st && o->flags & PLIM_PLAN_MAX_RESIDENT)
		st = find_residents(p, err);
	return st;
}

static enum plim_status sweep_one(struct plim_plan *p, const struct plan_recipe *r,
				  struct plim_plan_sweep *row, bool *proven, struct plim_err *err)
{
	struct plan_result result;
	struct plan *plan = NULL;
	struct plan_trust trust;
	uint64_t needed = 0;
	struct plan_recipe settled = *r;
	enum plim_status st;

	*proven = true;
	plan_repeat_less(p, &settled);
	st = plan_settle(p, &settled, NULL, &plan, &result, &needed, err);
	if (st == PLIM_E_UNSUPPORTED && p->hidden->traced.mem) {
		plan_free(plan);
		plan = NULL;
		*proven = false;
		p->hidden->beyond = true;
		st = plan_settle(p, &settled, NULL, &plan, &result, &needed, err);
		p->hidden->beyond = false;
	}
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
	if (*proven && p->hidden->bounded && !p->model.doubt_count)
		row->fits = tri(p->limit_bytes >= row->needed_range_bytes.high);
	if (*proven && p->hidden->bounded && p->limit_bytes < needed) {
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
	bool all = true;
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
		bool proven;
		char *end;

		*size = strtoull(text, &end, 10);
		if (end == text || !*size || *size > 1 << 26 || (*end && *end != ','))
			return err_set(err, PLIM_E_ARG, "a sweep's sizes are numbers, not '%s'",
				       text);
		text = *end ? end + 1 : end;
		st = sweep_one(p, &r, &p->sweep[i], &proven, err);
		all = all && (st || proven);
	}
	return st || all ? st : tell_unproven(p, size == &r.batch ? "batch" : "sequence", err);
}
