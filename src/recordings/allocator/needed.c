/*
 * The smallest limit that does.  A limit only ever decides whether a segment is allowed; so a run shows the same of every
 * limit between the most that it was allowed and the least that it was refused, and until the first segment that would
 * exceed the lowest limit in question all runs are one, which is kept and copied.
 *
 * A program and its beginning ask for the same limits, as long as both come to the same: one run reports both.
 */
#include "run.h"

#define STEP ((uint64_t)2 << 20) /* the driver gives memory in such pieces */
#define REACHES 2

/* What a run under a limit says of the program up to an end. */
struct told {
	bool died;
	uint64_t most_allowed_bytes, least_refused_bytes;
};

struct range {
	uint64_t low, high; /* below `low` no limit does; `high` does */
};

struct search {
	const struct allocator_reach *reaches;
	size_t n;
	struct range ranges[REACHES];
	uint64_t most; /* what needs more than that is not looked at any closer */
	struct running
		common; /* how far runs under all limits from the lowest `low` on are the same */
	struct running fork; /* ... where ranges began to differ */
	struct running trial;
	struct allocator_run quiet; /* the same as the ample run's, but reports no phase */
};

/* On to the first segment that the limit `low` refuses. */
static enum plim_status advance(struct search *s, uint64_t low)
{
	struct caching *c = &s->common.model;

	c->limit_bytes = low;
	c->pauses = 1;
	c->paused = 0;
	s->common.stopped = 0;
	return running_go(&s->common);
}

/* The rest of the run under a limit.  Where garbage is collected by the limit, nothing is common. */
static enum plim_status try(struct search *s, uint64_t limit, size_t from, size_t to,
			    struct told *told)
{
	struct running *r = &s->trial;
	enum plim_status st = running_copy(r, &s->common);

	r->model.limit_bytes = limit;
	r->model.least_refused_bytes = UINT64_MAX;
	for (size_t i = from; i < to; i++) {
		r->until = s->reaches[i].end;
		if (!st)
			st = running_go(r);
		told[i] = (struct told){ .died = r->op < r->until,
					 .most_allowed_bytes = r->model.most_allowed_bytes,
					 .least_refused_bytes = r->model.least_refused_bytes };
	}
	return st;
}

static void narrow(struct range *r, uint64_t limit, bool collects, const struct told *told)
{
	if (told->died)
		r->low = collects || told->least_refused_bytes <= limit ? limit + 1
									: told->least_refused_bytes;
	else
		r->high = collects || told->most_allowed_bytes > limit ? limit
								       : told->most_allowed_bytes;
}

/* Ranges from..to are one: until it is narrow, or they differ. */
static enum plim_status find_together(struct search *s, size_t from, size_t to)
{
	bool collects = s->common.model.rules.gc_threshold > 0;
	struct range *r = &s->ranges[from];
	enum plim_status st = PLIM_OK;
	bool same = true;

	while (!st && same && r->low < r->high && r->low <= s->most &&
	       (!collects || r->high - r->low >= STEP)) {
		/* what dies does so soon, and costs less than what lives to the end: so below the middle */
		uint64_t low = r->low, limit = low + (r->high - low) / 3;
		struct told told[REACHES];

		st = try(s, limit, from, to, told);
		for (size_t i = from; !st && i < to; i++) {
			narrow(&s->ranges[i], limit, collects, &told[i]);
			same = same && s->ranges[i].low == r->low && s->ranges[i].high == r->high;
		}
		if (!st && same && r->low > low && r->low < r->high && !collects)
			st = advance(s, r->low);
	}
	return st;
}

/* The run where memory is ample, which every range is below. */
static enum plim_status begin_needed(struct search *s, struct allocator_outcome *out)
{
	struct told told[REACHES];
	uint64_t low = s->ranges[0].low;
	enum plim_status st = PLIM_OK;

	for (size_t i = 1; i < s->n; i++)
		low = s->ranges[i].low < low ? s->ranges[i].low : low;
	/* with garbage collection `common` stays at the beginning */
	if (s->common.model.rules.gc_threshold <= 0)
		st = advance(s, low);
	if (!st)
		st = try(s, UINT64_MAX, 0, s->n, told);
	*out = s->trial.out;
	out->stats = s->trial.model.stats;
	for (size_t i = 0; !st && i < s->n; i++)
		s->ranges[i].high = told[i].most_allowed_bytes;
	s->quiet = *s->common.how;
	s->quiet.phase = NULL;
	s->common.how = s->trial.how = &s->quiet;
	return st;
}

static bool are_one(const struct search *s)
{
	return s->n == 1 ||
	       (s->ranges[0].low == s->ranges[1].low && s->ranges[0].high == s->ranges[1].high);
}

static enum plim_status find_needed(struct search *s, struct allocator_outcome *out, struct mem *m,
				    struct plim_err *err)
{
	enum plim_status st = begin_needed(s, out);

	if (!st && are_one(s))
		st = find_together(s, 0, s->n);
	if (st || are_one(s))
		return st;
	st = running_init(&s->fork, m, s->common.p, s->common.how, err);
	if (!st)
		st = running_copy(&s->fork, &s->common);
	if (!st)
		st = find_together(s, 0, 1);
	if (!st)
		st = running_copy(&s->common, &s->fork);
	if (!st && s->ranges[0].low <= s->most)
		st = find_together(s, 1, 2);
	running_release(&s->fork, m);
	return st;
}

enum plim_status allocator_find_needed(struct mem *m, const struct program *p,
				       const struct allocator_run *how,
				       struct allocator_reach *reaches, size_t n,
				       uint64_t most_bytes, struct allocator_outcome *out,
				       struct plim_err *err)
{
	struct allocator_run ample = { .rules = how->rules,
				       .bounds = { UINT64_MAX, UINT64_MAX,
						   how->bounds.device_bytes },
				       .way = how->way,
				       .device = how->device,
				       .self = how->self,
				       .phase = how->phase };
	struct search s = { .reaches = reaches, .n = n, .most = most_bytes };
	enum plim_status st = running_init(&s.common, m, p, &ample, err);

	CHECK(n && n <= REACHES);
	for (size_t i = 0; i < n; i++)
		s.ranges[i].low = reaches[i].low_bytes;
	*out = (struct allocator_outcome){ .oom_event = TRACE_NONE };
	if (!st) {
		st = running_init(&s.trial, m, p, &ample, err);
		if (!st)
			st = find_needed(&s, out, m, err);
		caching_tell_error(&s.trial.model, st, err);
		caching_tell_error(&s.common.model, st, err);
		running_release(&s.trial, m);
	}
	running_release(&s.common, m);
	for (size_t i = 0; i < n; i++)
		reaches[i].needed_bytes =
			s.ranges[i].high > most_bytes ? UINT64_MAX : s.ranges[i].high;
	return st;
}
