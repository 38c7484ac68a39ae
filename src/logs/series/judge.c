/* What follows from a run: which series its best step is looked for in, where to go back to, and two findings in words. */
#include "parts.h"

#include <stdio.h>

static bool usable(const struct series_watch *w)
{
	return w->finite && (w->role == PLIM_ROLE_VAL_LOSS || w->role == PLIM_ROLE_METRIC ||
			     w->role == PLIM_ROLE_ERROR);
}

double series_best_value(const struct series_watch *w)
{
	return w->role == PLIM_ROLE_METRIC ? w->max : w->min;
}

double series_best_step(const struct series_watch *w)
{
	return w->role == PLIM_ROLE_METRIC ? w->max_step : w->min_step;
}

/* As was asked for; else what the log itself took for best; else the validation loss, or the first metric. */
uint32_t series_run_monitored(const struct series_run *r, const char *asked)
{
	const struct series_monitor *m = &r->monitor;
	uint32_t id = asked ? intern_find(&m->names, asked, strlen(asked)) : INTERN_NONE;

	if (id != INTERN_NONE)
		return id;
	for (uint32_t i = 0; i < m->watches.n && !isnan(r->best_metric); i++)
		if (usable(&m->watches.at[i]) &&
		    series_best_value(&m->watches.at[i]) == r->best_metric)
			return i;
	if (m->val != SERIES_NONE && m->watches.at[m->val].finite > 1)
		return m->val;
	/* One value is a setting, or a result, sooner than a curve. */
	for (uint32_t i = 0; i < m->watches.n; i++)
		if (usable(&m->watches.at[i]) && m->watches.at[i].finite > 1)
			return i;
	return m->val != SERIES_NONE && m->watches.at[m->val].finite ? m->val : SERIES_NONE;
}

/* Steps before a spike to go back to: PaLM, section 5.1. */
#define BEFORE_SPIKE 100.0

double series_back_for(enum plim_curves_id id, double step, double best_step)
{
	switch (id) {
	case PLIM_CURVES_NAN:
	case PLIM_CURVES_INF: return step - 1;
	case PLIM_CURVES_SPIKE:
	case PLIM_CURVES_DIVERGED:
	case PLIM_CURVES_EXPLOSION: return step > 2 * BEFORE_SPIKE ? step - BEFORE_SPIKE : step - 1;
	case PLIM_CURVES_OVERFIT:
	case PLIM_CURVES_COLLAPSE: return best_step;
	default: return NAN;
	}
}

void series_tell_stop(const struct plim_early_stop *s, const char *series, double best,
		      double best_step, double saved_steps, struct series_words *w)
{
	char a[32], b[32], c[32];

	*w = (struct series_words){ .evidence_count = 1, .fix_count = 1 };
	snprintf(w->title, sizeof(w->title),
		 "early stopping with patience %llu would have stopped at step %s",
		 (unsigned long long)s->patience, series_step_text(a, s->stop_step));
	if (isnan(best_step))
		snprintf(w->evidence[0], sizeof(w->evidence[0]),
			 "'%.80s' was not a number so far; %s further steps were trained", series,
			 series_step_text(a, saved_steps));
	else
		snprintf(w->evidence[0], sizeof(w->evidence[0]),
			 "'%.80s' had its best value so far, %s, at step %s; %s further steps were "
			 "trained",
			 series, series_value_text(b, best), series_step_text(c, best_step),
			 series_step_text(a, saved_steps));
	snprintf(w->fix[0], sizeof(w->fix[0]),
		 "plimsoll.training.EarlyStopping(patience=%llu) stops by this rule",
		 (unsigned long long)s->patience);
}

bool series_tell_damage(const struct series_run *r, struct series_words *w)
{
	uint64_t places =
		r->bad_records + r->bad_cells + r->time_jumps + (r->unpacked_bytes != PLIM_UNKNOWN);

	*w = (struct series_words){ 0 };
	snprintf(w->title, sizeof(w->title),
		 "the log is damaged in %llu place%s; the rest was read",
		 (unsigned long long)places, text_s(places));
	for (size_t i = 0; i < r->notes.n && w->evidence_count < SERIES_LINES; i++)
		snprintf(w->evidence[w->evidence_count++], sizeof(w->evidence[0]), "%.270s",
			 r->notes.at[i]);
	return places > 0;
}
