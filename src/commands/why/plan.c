/*
 * What plan says of the run that died: planned under the limit that the death ran into, and put next to the log.  It is
 * the recipe that a person gave, not the run: where phase, memory in use or step differ, that is said and nothing is
 * concluded.
 */
#include "plan/plan.h"
#include "commands/why/why.h"

#include <string.h>

#define PLANS_MOST 16 /* limits that are planned for; ranks of a job have one */

/* ---- the limit, and the plan under it ---- */

/* What PyTorch could hold when it died, as the log shows it, or the caller; PLIM_UNKNOWN. */
static uint64_t limit_of(const struct plim_why *w, const struct plim_why_death *d, bool *told)
{
	const struct plim_plan_options *r = w->hidden->options.recipe;

	*told = !r || (r->memory_bytes == PLIM_UNKNOWN && !r->gpu);
	if (!*told)
		return 0; /* the recipe says it */
	return d->verdict.bound_bytes.high;
}

/* One of those that were made, or a new one. */
static enum plim_status plan_under(struct plim_why *w, uint64_t limit, bool told,
				   struct plim_plan **out, struct plim_err *err)
{
	struct plim_why_hidden *h = w->hidden;
	struct plim_plan_options o;
	enum plim_status st;

	for (size_t i = 0; i < h->plans.n; i++) {
		*out = h->plans.at[i];
		if (!told || (*out)->limit_bytes == limit)
			return PLIM_OK;
	}
	*out = NULL;
	if (h->plans.n == PLANS_MOST)
		return PLIM_OK;
	plim_plan_options_init(&o);
	if (h->options.recipe)
		o = *h->options.recipe;
	if (told)
		o.memory_bytes = limit;
	if (h->options.flags & PLIM_WHY_REDACT)
		o.flags |= PLIM_PLAN_REDACT;
	o.max_memory_bytes = h->options.max_memory_bytes;
	o.sweep = NULL;
	o.flags &= ~(unsigned)(PLIM_PLAN_MAX_BATCH | PLIM_PLAN_MAX_SEQUENCE);
	st = plim_plan_open(h->options.config_path, &o, out, err);
	if (!st)
		st = vec_push(&h->mem, &h->plans, *out, err);
	if (st) {
		plim_plan_free(*out);
		*out = NULL;
	}
	return st;
}

/* ---- next to each other ---- */

struct comparing {
	const struct plim_why_death *d;
	const struct plim_plan *p;
	struct lines lines;
	unsigned same, other; /* what was found to be so */
};

/* Is moment `a` of the log the phase in which the plan dies? */
static int is_same_moment(const struct comparing *c, enum plim_why_moment a)
{
	enum plim_why_moment b = plan_phase_moment(c->p->dies_at);
	/* evaluation is a forward pass, too, and where nothing is trained they are one */
	int passes = (a == PLIM_WHY_FORWARD || a == PLIM_WHY_EVAL || a == PLIM_WHY_GENERATION) &&
		     (b == PLIM_WHY_FORWARD || b == PLIM_WHY_EVAL || b == PLIM_WHY_GENERATION);

	if (a == b || (passes && !c->p->model.trainable))
		return 1;
	/* a whole step, as that of the longest batch, has all of them */
	if (b == PLIM_WHY_MOMENT_UNKNOWN)
		return a >= PLIM_WHY_FORWARD && a <= PLIM_WHY_OPTIMIZER;
	/* a traceback shows the first step only where the optimizer's state is being made */
	return (a == PLIM_WHY_FIRST_STEP && b == PLIM_WHY_OPTIMIZER) ||
	       (b == PLIM_WHY_FIRST_STEP && a == PLIM_WHY_OPTIMIZER);
}

static void compare_moment(struct comparing *c)
{
	const char *told = plan_moment_words(c->d->moment);
	char words[64];

	plan_phase_words(words, c->p->dies_at);
	if (!c->d->moment) {
		lines_add(&c->lines,
			  "the plan dies in %s (%s); the log has no traceback to compare it with",
			  words, c->p->dies_at);
	} else if (is_same_moment(c, c->d->moment)) {
		c->same++;
		lines_add(&c->lines, "the same moment: the plan dies in %s (%s)", words,
			  c->p->dies_at);
	} else {
		c->other++;
		lines_add(&c->lines, "another moment: the plan dies in %s (%s), the log reports %s",
			  words, c->p->dies_at, told ? told : why_moment_names[c->d->moment]);
	}
}

/* A run that came further than the plan is not the planned one. */
static void compare_step(struct comparing *c)
{
	const struct plan_phase_kind *kind = plan_phase_kind(c->p->dies_at);
	uint64_t step = plan_phase_step(c->p->dies_at);

	/* what comes after training in a plan may come behind any step of a run */
	if (c->d->step == PLIM_UNKNOWN ||
	    (kind && !kind->numbered && kind->later != PLIM_WHY_LOADING))
		return;
	if (step != PLIM_UNKNOWN && c->d->step <= step + 1)
		return;
	c->other++;
	lines_add(
		&c->lines,
		"the log shows step %llu before it, which the plan does not reach: some batch was "
		"larger than the others, something piled up, or the recipe is another",
		(unsigned long long)c->d->step);
}

#define APART_PART 10 /* of the limit: memory in use that differs by more is another run's */

static void compare_allocated(struct comparing *c)
{
	struct plim_interval told = c->d->numbers.allocated_bytes;
	uint64_t planned = c->p->dies_allocated_bytes, apart;
	char a[32], b[32];

	if (told.low == PLIM_UNKNOWN || planned == PLIM_UNKNOWN)
		return;
	apart = planned > told.high  ? planned - told.high
		: planned < told.low ? told.low - planned
				     : 0;
	messages_size(a, (struct messages_bytes){ told.low, told.high });
	text_size(b, planned);
	if (apart > c->p->limit_bytes / APART_PART) {
		c->other++;
		lines_add(&c->lines, "other memory in use: %s by the log, %s by the plan", a, b);
	} else {
		c->same++;
		lines_add(&c->lines, "about the same in use: %s by the log, %s by the plan", a, b);
	}
}

/* Why the planned run does not fit, as far as a plan can tell. */
static void tell_cause(struct comparing *c)
{
	const struct plim_plan *p = c->p;
	char a[32], b[32], words[64];

	text_size(a, p->peak.allocated_bytes);
	text_size(b, p->limit_bytes);
	if (p->peak.allocated_bytes > p->limit_bytes)
		lines_add(
			&c->lines,
			"by the plan %s are in use at the peak, in %s, and there are %s: capacity, "
			"whatever the allocator does",
			a, plan_phase_words(words, p->peak.phase), b);
	else
		lines_add(
			&c->lines,
			"by the plan %s are in use at the peak, which would fit into %s; the gaps "
			"between blocks do not",
			a, b);
}

static const char *sentence(struct plim_why *w, const struct comparing *c, const char *name,
			    struct plim_err *err)
{
	struct arena *h = &w->hidden->arena;
	const struct plim_plan *p = c->p;
	char limit[32], needed[32], low[32], high[32], words[64];

	text_size(limit, p->limit_bytes);
	text_size(needed, p->peak.needed_bytes);
	text_size(low, p->peak.needed_range_bytes.low);
	text_size(high, p->peak.needed_range_bytes.high);
	if (!p->dies_at && p->fits == PLIM_TRI_YES)
		return arena_text(h, err,
				  "they do not agree: by the plan of %s this run fits into %s (it "
				  "needs %s to %s): either the recipe is another one, or something "
				  "takes memory that no plan has: a leak, a longer batch, another "
				  "process",
				  name, limit, low, high);
	if (!p->dies_at)
		return arena_text(
			h, err,
			"it is too close to call: by the plan of %s the run needs %s to %s "
			"and could have %s",
			name, low, high, limit);
	plan_phase_words(words, p->dies_at);
	if (c->other)
		return arena_text(h, err,
				  "they do not agree: by the plan of %s it dies under %s too, but "
				  "otherwise than the log shows; the plan may be of another recipe "
				  "than the run, so nothing is concluded from it",
				  name, limit);
	if (!c->same)
		return arena_text(h, err,
				  "by the plan of %s it dies under %s, in %s; it needs %s. The log "
				  "shows too little to say whether that is this death",
				  name, limit, words, needed);
	return arena_text(
		h, err, "the plan of %s agrees: under %s it dies in %s; it needs %s (%s to %s, %s)",
		name, limit, words, needed, low, high, p->peak.basis);
}

static enum plim_status compare_why_plan(struct plim_why *w, struct plim_why_death *d,
					 const struct plim_plan *p, bool told, struct plim_err *err)
{
	struct comparing c = { .d = d,
			       .p = p,
			       .lines = { .arena = &w->hidden->arena, .err = err } };
	struct plim_why_planned *out = arena_take(&w->hidden->arena, 1, sizeof(*out), err);
	const char *path = w->hidden->options.config_path, *slash = strrchr(path, '/');

	if (!out)
		return mem_status(err);
	if (w->hidden->options.flags & PLIM_WHY_REDACT)
		path = "the configuration";
	else if (slash && slash[1])
		path = slash + 1;
	*out = (struct plim_why_planned){ .limit_bytes = p->limit_bytes,
					  .limit_told = told,
					  .fits = p->fits,
					  .dies_at = p->dies_at,
					  .allocated_bytes = p->dies_allocated_bytes,
					  .request_bytes = p->dies_request_bytes,
					  .needed_bytes = p->peak.needed_bytes,
					  .needed_range_bytes = p->peak.needed_range_bytes,
					  .basis = p->peak.basis,
					  .ladder = p->ladder,
					  .ladder_count = p->ladder_count };
	if (p->dies_at) {
		out->moment = plan_phase_moment(p->dies_at);
		compare_moment(&c);
		compare_step(&c);
		compare_allocated(&c);
		if (!c.other)
			tell_cause(&c);
		out->agrees = c.other ? PLIM_TRI_NO : c.same ? PLIM_TRI_YES : PLIM_TRI_UNKNOWN;
	} else if (p->fits == PLIM_TRI_YES) {
		out->agrees = PLIM_TRI_NO;
	}
	out->path = arena_text(&w->hidden->arena, err, "%s", path);
	out->says = sentence(w, &c, path, err);
	if (!out->path || !out->says)
		return mem_status(err);
	d->planned = out;
	return lines_keep(&c.lines, &out->evidence, &out->evidence_count);
}

enum plim_status why_plan(struct plim_why *w, struct lines *notes, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	size_t unknown = 0, elsewhere = 0, left_out = 0;

	for (size_t i = 0; !st && w->hidden->options.config_path && i < w->death_count; i++) {
		struct plim_why_death *d = &w->deaths[i];
		struct plim_plan *p;
		bool told;
		uint64_t limit = limit_of(w, d, &told);

		if (d->kind != PLIM_WHY_DEVICE) {
			elsewhere++;
			continue;
		}
		if (limit == PLIM_UNKNOWN) {
			unknown++;
			continue;
		}
		st = plan_under(w, limit, told, &p, err);
		if (!st && p)
			st = compare_why_plan(w, d, p, told, err);
		else
			left_out += !st;
	}
	if (unknown)
		lines_add(notes, "the log does not say how much memory there was: give --gpu or "
				 "--memory, and the run is planned for that");
	if (elsewhere)
		lines_add(notes,
			  "a plan covers only GPU memory, and this failure is of other memory");
	if (left_out)
		lines_add(notes,
			  "deaths under more than %d different limits: the others were not "
			  "planned",
			  PLANS_MOST);
	return st;
}
