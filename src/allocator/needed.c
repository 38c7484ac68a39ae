/*
 * The smallest limit that does.  A limit only ever decides whether a segment is allowed; so a run tells the same of every
 * limit between the most that it was allowed and the least that it was refused, and until the first segment that would
 * exceed the lowest limit in question all runs are one, which is kept and copied.
 */
#include "run.h"

#define STEP ((uint64_t)2 << 20) /* the driver gives memory in such pieces */

struct search {
	uint64_t low, high;    /* below `low` no limit does; `high` does */
	struct running common; /* how far runs under all limits from `low` on are the same */
	struct running trial;
	struct allocator_run quiet; /* the same as the ample run's, but tells of no phase */
};

/* On to the first segment that the limit `low` refuses. */
static enum plim_status advance(struct search *s)
{
	struct caching *c = &s->common.model;

	c->limit_bytes = s->low;
	c->pauses = 1;
	c->paused = 0;
	s->common.stopped = 0;
	return running_go(&s->common);
}

/* The rest of the run under a limit.  Where garbage is collected by the limit, nothing is common. */
static enum plim_status try(struct search *s, uint64_t limit)
{
	struct running *r = &s->trial;
	enum plim_status st = running_copy(r, &s->common);

	r->model.limit_bytes = limit;
	r->model.least_refused_bytes = UINT64_MAX;
	return st ? st : running_go(r);
}

static enum plim_status narrow(struct search *s)
{
	const struct caching *c = &s->trial.model;
	/* what dies does so soon, and costs less than what lives to the end: so below the middle */
	uint64_t limit = s->low + (s->high - s->low) / 3;
	enum plim_status st = try(s, limit);
	int collects = caching_collects(c);

	if (st)
		return st;
	if (s->trial.op < s->trial.p->ops.n) {
		s->low = collects || c->least_refused_bytes <= limit ? limit + 1
								     : c->least_refused_bytes;
		return s->low < s->high && !collects ? advance(s) : PLIM_OK;
	}
	s->high = collects || c->most_allowed_bytes > limit ? limit : c->most_allowed_bytes;
	return PLIM_OK;
}

static enum plim_status find(struct search *s, struct allocator_outcome *out)
{
	const struct allocator_rules *rules = &s->common.model.rules;
	enum plim_status st = PLIM_OK;

	/* with garbage collection `common` stays at the beginning */
	if (rules->gc_threshold <= 0)
		st = advance(s);
	if (!st)
		st = try(s, UINT64_MAX);
	*out = s->trial.out;
	out->stats = s->trial.model.stats;
	s->high = s->trial.model.most_allowed_bytes;
	s->quiet = *s->common.how;
	s->quiet.phase = NULL;
	s->common.how = s->trial.how = &s->quiet;
	while (!st && s->low < s->high && (rules->gc_threshold <= 0 || s->high - s->low >= STEP))
		st = narrow(s);
	return st;
}

enum plim_status allocator_find_needed(struct mem *m, const struct program *p,
				       const struct allocator_run *how, uint64_t low_bytes,
				       struct allocator_outcome *out, uint64_t *needed_bytes,
				       struct plim_err *err)
{
	struct allocator_run ample = { .rules = how->rules,
				       .bounds = { UINT64_MAX, UINT64_MAX,
						   how->bounds.device_bytes },
				       .way = how->way,
				       .device = how->device,
				       .self = how->self,
				       .phase = how->phase };
	struct search s = { .low = low_bytes };
	enum plim_status st = running_init(&s.common, m, p, &ample, err);

	*out = (struct allocator_outcome){ .oom_event = TRACE_NONE };
	if (!st) {
		st = running_init(&s.trial, m, p, &ample, err);
		if (!st)
			st = find(&s, out);
		caching_tell_error(&s.trial.model, st, err);
		caching_tell_error(&s.common.model, st, err);
		running_release(&s.trial, m);
	}
	running_release(&s.common, m);
	*needed_bytes = s.high;
	return st;
}
