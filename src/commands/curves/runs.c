/* One run as the public struct: series, findings in words, early stopping, where to go back to. */
#include "base/base.h"
#include "commands/curves/curves.h"

#include <math.h>
#include <stdio.h>

struct filling {
	struct plim_curves_hidden *h;
	struct series_run *r;
	struct plim_curves_run *out;
	struct plim_err *err;
};

static enum plim_status fill_series(struct filling *f)
{
	const struct series_monitor *m = &f->r->monitor;
	struct plim_curves_series *s = arena_take(&f->h->arena, m->watches.n, sizeof(*s), f->err);

	if (!s)
		return mem_status(f->err);
	f->out->series = s;
	for (uint32_t i = 0; i < m->watches.n; i++) {
		const struct series_watch *w = &m->watches.at[i];

		if (!w->points)
			continue;
		*s++ = (struct plim_curves_series){ .name = series_told_name(m, i),
						    .role = w->role,
						    .role_given = f->r->curves.at[i].role_given,
						    .points = w->points,
						    .non_finite = w->non_finite,
						    .first_step = w->first_step,
						    .last_step = w->last_step,
						    .first = w->first,
						    .last = w->last,
						    .min = w->min,
						    .min_step = w->min_step,
						    .max = w->max,
						    .max_step = w->max_step };
		f->out->series_count++;
	}
	return PLIM_OK;
}

/* ---- findings ---- */

static enum plim_status put_curves_run_words(struct filling *f, struct plim_finding *to,
					     const struct series_words *w)
{
	struct lines evidence = { .arena = &f->h->arena, .err = f->err };
	struct lines fix = { .arena = &f->h->arena, .err = f->err };
	enum plim_status st;

	to->title = arena_copy(&f->h->arena, w->title, f->err);
	for (size_t i = 0; i < w->evidence_count; i++)
		lines_add(&evidence, "%s", w->evidence[i]);
	for (size_t i = 0; i < w->fix_count; i++)
		lines_add(&fix, "%s", w->fix[i]);
	st = lines_keep(&evidence, &to->evidence, &to->evidence_count);
	if (!st)
		st = lines_keep(&fix, &to->fix, &to->fix_count);
	return to->title ? st : mem_status(f->err);
}

static int worst_first(const void *a, const void *b)
{
	const struct plim_finding *x = a, *y = b;

	if (x->severity != y->severity)
		return x->severity < y->severity ? 1 : -1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* One of which nothing is known but what it is, which is certain, and where. */
static struct plim_finding finding_at(const struct filling *f, enum plim_curves_id id, double step)
{
	return (struct plim_finding){
		.id = plim_curves_id_name(id),
		.severity = PLIM_SEVERITY_INFO,
		.confidence = 1,
		.bytes = PLIM_UNKNOWN,
		.per_period_bytes = PLIM_UNKNOWN,
		.place = { .file = f->out->source, .line = PLIM_UNKNOWN, .offset = PLIM_UNKNOWN },
		.step = step,
		.detected_step = step,
		.end_step = NAN
	};
}

static enum plim_curves_id id_of(const struct plim_finding *f)
{
	unsigned id = 0;

	while (id < PLIM_CURVES_ID_COUNT && strcmp(f->id, plim_curves_id_name(id)) != 0)
		id++;
	return id;
}

/* The policy whose advice is the headline, if it would have stopped before the end. */
static enum plim_status tell_stop(struct filling *f, struct plim_finding **to)
{
	const struct plim_curves_policy *p = NULL;
	const char *series = f->out->best.series ? f->out->best.series : "?";
	struct plim_early_stop s = { 0 };
	struct series_words w;

	for (size_t i = 0; i < f->out->policy_count; i++)
		if ((uint32_t)f->out->policies[i].policy == f->h->given.stop_policy)
			p = &f->out->policies[i];
	if (!p || !(p->saved_steps > 0))
		return PLIM_OK;
	**to = finding_at(f, PLIM_CURVES_EARLY_STOP, p->stop_step);
	(*to)->series = f->out->best.series;
	s.patience = p->patience;
	s.stop_step = p->stop_step;
	series_tell_stop(&s, series, p->best, p->best_step, p->saved_steps, &w);
	return put_curves_run_words(f, (*to)++, &w);
}

static enum plim_status tell_damage(struct filling *f, struct plim_finding **to)
{
	struct series_words w;

	if (!series_tell_damage(f->r, &w))
		return PLIM_OK;
	**to = finding_at(f, PLIM_CURVES_LOG_DAMAGE, NAN);
	return put_curves_run_words(f, (*to)++, &w);
}

static enum plim_status fill_findings(struct filling *f)
{
	const struct series_monitor *m = &f->r->monitor;
	struct plim_finding *to = arena_take(&f->h->arena, m->findings.n + 2, sizeof(*to), f->err);
	struct series_words words;
	enum plim_status st = PLIM_OK;

	if (!to)
		return mem_status(f->err);
	f->out->findings = to;
	for (size_t i = 0; !st && i < m->findings.n; i++) {
		const struct series_finding *x = &m->findings.at[i];

		/* A plateau that was left is no news. */
		if (!series_finding_counts(m, x) ||
		    (x->id == PLIM_CURVES_PLATEAU && !isnan(x->end)))
			continue;
		*to = finding_at(f, x->id, x->step);
		to->severity = x->severity;
		to->confidence = x->confidence;
		to->detected_step = x->detected;
		to->end_step = x->end;
		to->series = series_told_name(m, x->series);
		series_tell(m, x, &words);
		st = put_curves_run_words(f, to++, &words);
	}
	if (!st)
		st = tell_stop(f, &to);
	if (!st)
		st = tell_damage(f, &to);
	f->out->finding_count = (size_t)(to - f->out->findings);
	sort_items(f->out->findings, f->out->finding_count, sizeof(*to), worst_first);
	return st;
}

/* ---- early stopping, the best step, the way back ---- */

static enum plim_status fill_policies(struct filling *f, uint32_t series)
{
	const struct series_curve *c;
	struct plim_curves_policy *p;
	double steps = f->out->last_step - f->out->first_step;

	if (series == SERIES_NONE || !f->r->curves.at[series].stop[0].seen)
		return PLIM_OK;
	if (!f->h->given.monitor && !series_is_evaluated(&f->r->monitor, series))
		return PLIM_OK; /* of training: it stops nothing */
	c = &f->r->curves.at[series];
	p = arena_take(&f->h->arena, 4, sizeof(*p), f->err);
	if (!p)
		return mem_status(f->err);
	f->out->policies = p;
	f->out->policy_count = 4;
	for (unsigned i = 0; i < 4; i++, p++) {
		const struct plim_early_stop *s = &c->stop[i];

		*p = (struct plim_curves_policy){ .policy = i,
						  .patience = s->patience,
						  .min_delta = s->min_delta,
						  .stop_step = s->stop_step,
						  .reason = c->stop_reason[i],
						  .best_step = c->best_then_step[i],
						  .best = c->best_then[i],
						  .saved_steps = f->out->last_step - s->stop_step,
						  .saved_seconds =
							  f->r->last_time - c->stop_time[i] };
		if (isnan(p->saved_seconds) && steps > 0)
			p->saved_seconds = f->r->runtime * p->saved_steps / steps;
	}
	return PLIM_OK;
}

static enum plim_status fill_best(struct filling *f, uint32_t series)
{
	struct plim_curves_best *b = &f->out->best;
	const struct series_watch *w;

	*b = (struct plim_curves_best){ .step = NAN, .value = NAN, .checkpoint_step = NAN };
	if (series == SERIES_NONE)
		return PLIM_OK;
	w = &f->r->monitor.watches.at[series];
	b->series = series_told_name(&f->r->monitor, series);
	b->value = series_best_value(w);
	b->step = series_best_step(w);
	if (isnan(b->step))
		return PLIM_OK;
	return series_checkpoint(&f->h->mem, &f->h->arena.strings, f->r->folder, b->step,
				 &b->checkpoint, &b->checkpoint_step, f->err);
}

/* The best step of the evaluation that a finding is about; of other series that of the run. */
static double best_step_of(const struct filling *f, const struct plim_finding *x)
{
	for (size_t i = 0; x->series && i < f->out->series_count; i++) {
		const struct plim_curves_series *s = &f->out->series[i];

		if (strcmp(s->name, x->series) != 0)
			continue;
		if (s->role == PLIM_ROLE_METRIC)
			return s->max_step;
		if (s->role == PLIM_ROLE_VAL_LOSS || s->role == PLIM_ROLE_ERROR)
			return s->min_step;
	}
	return f->out->best.step;
}

static enum plim_status fill_back(struct filling *f)
{
	struct plim_curves_back *b = &f->out->go_back;
	const struct plim_finding *why = NULL;
	char step[32];

	*b = (struct plim_curves_back){ .step = NAN, .checkpoint_step = NAN };
	for (size_t i = 0; i < f->out->finding_count; i++) {
		const struct plim_finding *x = &f->out->findings[i];
		bool lasts = isnan(x->end_step) && x->severity != PLIM_SEVERITY_INFO;
		bool first = (id_of(x) == PLIM_CURVES_NAN || id_of(x) == PLIM_CURVES_INF) &&
			     !(x->step > f->out->first_step);
		double to = lasts && !first ? series_back_for(id_of(x), x->step, best_step_of(f, x))
					    : NAN;

		/*
		 * What began before that step is not undone by going back to it; but an overfitting
		 * begins where the smoothed values are least, and the best one may come later.
		 */
		if (to >= 0 && (to <= x->step || id_of(x) == PLIM_CURVES_OVERFIT) &&
		    !(b->step <= to)) {
			b->step = to;
			why = x;
		}
	}
	if (!why)
		return PLIM_OK;
	b->why = id_of(why) == PLIM_CURVES_OVERFIT || id_of(why) == PLIM_CURVES_COLLAPSE
			 ? arena_text(&f->h->arena, f->err, "the best evaluation is at step %s",
				      series_step_text(step, b->step))
			 : arena_text(&f->h->arena, f->err, "%s begins at step %s", why->id,
				      series_step_text(step, why->step));
	if (!b->why)
		return mem_status(f->err);
	return series_checkpoint(&f->h->mem, &f->h->arena.strings, f->r->folder, b->step,
				 &b->checkpoint, &b->checkpoint_step, f->err);
}

/* What came and went: no reason to stop, but one to know. */
static const char *passed_by(const struct plim_curves_run *o)
{
	for (size_t i = 0; i < o->finding_count; i++)
		if (!isnan(o->findings[i].end_step))
			return o->findings[i].title;
	return NULL;
}

static const char *verdict_of(struct filling *f)
{
	struct plim_curves_run *o = f->out;
	struct arena *a = &f->h->arena;
	size_t more = 0, unknown = 0;

	for (size_t i = 1; i < o->finding_count; i++)
		more += o->findings[i].severity != PLIM_SEVERITY_INFO;
	if (o->finding_count && o->findings[0].severity != PLIM_SEVERITY_INFO)
		return more ? arena_text(a, f->err, "%s (and %zu more)", o->findings[0].title, more)
			    : o->findings[0].title;
	if (f->r->monitor.train == SERIES_NONE && f->r->monitor.val == SERIES_NONE &&
	    o->best.series)
		return arena_text(a, f->err, "no loss is logged, and '%s' alone is not judged",
				  o->best.series);
	if (f->r->results && f->r->monitor.train == SERIES_NONE && f->r->monitor.val == SERIES_NONE)
		return "results without a step, no course: nothing to judge";
	while (unknown + 1 < o->series_count && o->series[unknown].role != PLIM_ROLE_OTHER)
		unknown++;
	if (f->r->monitor.train == SERIES_NONE && f->r->monitor.val == SERIES_NONE)
		return arena_text(a, f->err,
				  "'%s'%s: not known to be a loss or metric; --map "
				  "NAME=train_loss (or metric, error) says that it is",
				  o->series_count ? o->series[unknown].name : "",
				  o->series_count > 1 ? " and the others" : "");
	if (f->r->points < 8)
		return arena_text(a, f->err, "only %llu value%s: too few to judge",
				  (unsigned long long)f->r->points, text_s(f->r->points));
	return passed_by(o) ? arena_text(a, f->err, "nothing that lasts: %s", passed_by(o))
			    : "nothing wrong was found";
}

enum plim_status curves_fill_run(struct plim_curves_hidden *h, struct series_run *r,
				 struct plim_curves_run *o, struct plim_err *err)
{
	struct filling f = { h, r, o, err };
	struct lines notes = { .arena = &h->arena, .err = err };
	uint32_t monitored = series_run_monitored(r, h->given.monitor);
	enum plim_status st = series_run_conclude(r, err);

	*o = (struct plim_curves_run){ .name = r->name,
				       .source = r->files.n ? r->files.at[0].path : NULL,
				       .kind = series_kind_names[r->kind],
				       .files = r->files.n,
				       .bytes = r->bytes,
				       .points = r->points,
				       .first_step = r->first_step,
				       .last_step = r->last_step,
				       .seconds = r->last_time - r->first_time };
	if (isnan(o->seconds))
		o->seconds = r->runtime;
	st = st ? st : curves_hide_path(h, &o->name, err);
	st = st ? st : curves_hide_path(h, &o->source, err);
	st = st ? st : curves_hide_series(h, &r->monitor, err);
	st = st ? st : fill_series(&f);
	st = st ? st : fill_best(&f, monitored);
	st = st ? st : fill_policies(&f, monitored);
	st = st ? st : fill_findings(&f);
	st = st ? st : fill_back(&f);
	st = st ? st : curves_hide_path(h, &o->best.checkpoint, err);
	st = st ? st : curves_hide_path(h, &o->go_back.checkpoint, err);
	for (size_t i = 0; i < r->notes.n; i++)
		lines_add(&notes, "%s", r->notes.at[i]);
	st = st ? st : lines_keep(&notes, &o->notes, &o->note_count);
	if (st)
		return st;
	o->severity = o->finding_count ? o->findings[0].severity : PLIM_SEVERITY_INFO;
	o->verdict = verdict_of(&f);
	return o->verdict ? PLIM_OK : mem_status(err);
}
