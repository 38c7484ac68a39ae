/* The monitor for training loops: the floor's, behind names and with its findings in words. */
#include "base/base.h"
#include "host/host.h"
#include "result_tables.h"
#include "series/series.h"

#include <plimsoll/curves.h>

#include <math.h>

struct plim_monitor {
	struct mem mem;
	struct series_monitor core;
	struct series_words words;
	const char *evidence[SERIES_LINES], *fix[SERIES_LINES];
};

void plim_monitor_options_init(struct plim_monitor_options *o)
{
	*o = (struct plim_monitor_options){ .size = sizeof(*o), .patience = PLIM_UNKNOWN };
}

enum plim_status plim_monitor_new(const struct plim_monitor_options *options,
				  struct plim_monitor **out, struct plim_err *err)
{
	struct plim_monitor_options o = { .size = sizeof(o), .patience = PLIM_UNKNOWN };
	struct plim_monitor *m = calloc(1, sizeof(*m));
	enum plim_status st;

	*out = NULL;
	if (!m)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	st = options_take(&monitor_options_table, &o, options, err);
	if (st) {
		free(m);
		return st;
	}
	host_mem_init(&m->mem, o.max_memory_bytes);
	series_monitor_init(&m->core, &m->mem);
	if (o.stop_on)
		m->core.stop_on = o.stop_on;
	if (o.patience && o.patience != PLIM_UNKNOWN) {
		plim_early_stop_init(&m->core.stop, PLIM_STOP_PLIMSOLL, o.patience);
		m->core.stop.min_delta = o.min_delta;
	}
	*out = m;
	return PLIM_OK;
}

void plim_monitor_free(struct plim_monitor *m)
{
	if (m)
		series_monitor_release(&m->core);
	free(m);
}

enum plim_status plim_monitor_set_role(struct plim_monitor *m, const char *name,
				       enum plim_role role, struct plim_err *err)
{
	uint32_t series;
	enum plim_status st;

	if ((unsigned)role >= PLIM_ROLE_COUNT)
		return err_set(err, PLIM_E_ARG, "there is no role %d", (int)role);
	st = series_monitor_add(&m->core, name, strlen(name), &series, err);
	if (!st)
		series_monitor_set_role(&m->core, series, role);
	return st;
}

static uint32_t counted(const struct series_monitor *m, bool ended)
{
	uint32_t n = 0;

	for (size_t i = 0; i < m->findings.n; i++)
		n += series_finding_counts(m, &m->findings.at[i]) &&
		     (!ended || !isnan(m->findings.at[i].end));
	return n;
}

enum plim_status plim_monitor_feed(struct plim_monitor *m, const char *name, double step,
				   double value, struct plim_monitor_news *news,
				   struct plim_err *err)
{
	uint32_t series, found = 0, over = 0;
	enum plim_status st;

	if (news)
		*news = (struct plim_monitor_news){ 0 };
	if (!isfinite(step))
		return err_set(err, PLIM_E_ARG, "a step is a finite number");
	st = series_monitor_add(&m->core, name, strlen(name), &series, err);
	if (st)
		return st;
	if (step < m->core.watches.at[series].last_step)
		series_monitor_rewind(&m->core, step);
	if (news) {
		found = counted(&m->core, false);
		over = counted(&m->core, true);
	}
	st = series_monitor_feed(&m->core, series, step, value, err);
	if (!st && news) {
		news->found = counted(&m->core, false) - found;
		news->ended = counted(&m->core, true) - over;
		news->stop = plim_monitor_should_stop(m) != NULL;
	}
	return st;
}

const char *plim_monitor_should_stop(struct plim_monitor *m)
{
	const struct series_monitor *core = &m->core;

	for (size_t i = 0; i < core->findings.n; i++) {
		const struct series_finding *f = &core->findings.at[i];

		/* What follows may take back that a loss diverged, until it is an error. */
		if ((core->stop_on >> f->id & 1) && isnan(f->end) &&
		    f->severity >= (f->id == PLIM_CURVES_DIVERGED ? PLIM_SEVERITY_ERROR
								  : PLIM_SEVERITY_WARNING) &&
		    series_finding_counts(core, f)) {
			series_tell(core, f, &m->words);
			return m->words.title;
		}
	}
	return core->stop.patience != PLIM_UNKNOWN && !isnan(core->stop.stop_step)
		       ? "no improvement for as many evaluations as patience allows"
		       : NULL;
}

size_t plim_monitor_finding_count(const struct plim_monitor *m)
{
	return counted(&m->core, false);
}

enum plim_status plim_monitor_get_finding(struct plim_monitor *m, size_t i,
					  struct plim_monitor_finding *out, struct plim_err *err)
{
	const struct series_monitor *core = &m->core;
	const struct series_finding *f = NULL;

	for (size_t j = 0; j < core->findings.n && !f; j++)
		if (series_finding_counts(core, &core->findings.at[j]) && !i--)
			f = &core->findings.at[j];
	*out = (struct plim_monitor_finding){ 0 };
	if (!f)
		return err_set(err, PLIM_E_ARG, "there are not so many findings");
	series_tell(core, f, &m->words);
	for (size_t j = 0; j < SERIES_LINES; j++) {
		m->evidence[j] = m->words.evidence[j];
		m->fix[j] = m->words.fix[j];
	}
	*out = (struct plim_monitor_finding){ .id = f->id,
					      .severity = f->severity,
					      .confidence = f->confidence,
					      .step = f->step,
					      .detected_step = f->detected,
					      .end_step = f->end,
					      .series = intern_text(&core->names, f->series),
					      .title = m->words.title,
					      .evidence = m->evidence,
					      .evidence_count = m->words.evidence_count,
					      .fix = m->fix,
					      .fix_count = m->words.fix_count };
	return PLIM_OK;
}

void plim_monitor_get_best(const struct plim_monitor *m, double *step, double *value)
{
	const struct series_watch *w =
		m->core.val == SERIES_NONE ? NULL : &m->core.watches.at[m->core.val];
	bool most = w && w->role == PLIM_ROLE_METRIC;

	*step = !w ? NAN : most ? w->max_step : w->min_step;
	*value = !w ? NAN : most ? w->max : w->min;
}

enum plim_status plim_monitor_save(const struct plim_monitor *m, void *at, size_t room, size_t *n,
				   struct plim_err *err)
{
	return series_monitor_save(&m->core, at, room, n, err);
}

enum plim_status plim_monitor_restore(struct plim_monitor *m, const void *at, size_t n,
				      struct plim_err *err)
{
	return series_monitor_restore(&m->core, at, n, err);
}
