/*
 * Early stopping as four programs do it, evaluation by evaluation.  Read from their code:
 *   Keras 3.15        keras/src/callbacks/early_stopping.py, monitor_callback.py
 *   Lightning 2.6     lightning/pytorch/callbacks/early_stopping.py (_evaluate_stopping_criteria)
 *   Transformers 5.23 trainer_callback.py (EarlyStoppingCallback), trainer.py (_determine_best_metric)
 * tests/curves/early_stop.py runs these next to plim_early_stop_feed where they are installed.
 */
#include "parts.h"

static const uint64_t default_patience[] = { 5, 0, 3, 1 };

void plim_early_stop_init(struct plim_early_stop *s, enum plim_stop_policy policy,
			  uint64_t patience)
{
	*s = (struct plim_early_stop){ .size = sizeof(*s),
				       .policy = policy,
				       .patience = patience != PLIM_UNKNOWN ? patience
						   : (unsigned)policy < 4 ? default_patience[policy]
									  : 0,
				       .baseline = NAN,
				       .stopping_threshold = NAN,
				       .divergence_threshold = NAN,
				       .best = NAN,
				       .best_step = NAN,
				       .stop_step = NAN };
}

static bool better(const struct plim_early_stop *s, double value, double than)
{
	return s->maximize ? value > than : value < than;
}

/* A value, less what it has to gain at least. */
static double less_delta(const struct plim_early_stop *s, double value)
{
	return s->maximize ? value - s->min_delta : value + s->min_delta;
}

static void take_best(struct plim_early_stop *s, double step, double value)
{
	s->best = value;
	s->best_step = step;
	s->has_best = 1;
}

/* wait counts first; an improvement resets it only if it also beats the baseline; never in the first epoch. */
static enum plim_stop_reason keras(struct plim_early_stop *s, double step, double value)
{
	double gain = less_delta(s, value);

	if (s->seen <= s->start_from)
		return PLIM_STOP_NOT;
	s->wait++;
	if (!s->has_best || better(s, gain, s->best)) {
		take_best(s, step, value);
		if (isnan(s->baseline) || better(s, gain, s->baseline))
			s->wait = 0;
		return PLIM_STOP_NOT;
	}
	return s->wait >= s->patience && s->seen > 1 ? PLIM_STOP_PATIENCE : PLIM_STOP_NOT;
}

/* Compared as the float32 tensors that they are there. */
static enum plim_stop_reason lightning(struct plim_early_stop *s, double step, double value)
{
	float current = (float)value;
	float gain = s->maximize ? current - (float)s->min_delta : current + (float)s->min_delta;

	if (!isfinite(current))
		return PLIM_STOP_NON_FINITE;
	if (!isnan(s->stopping_threshold) && better(s, current, s->stopping_threshold))
		return PLIM_STOP_THRESHOLD;
	if (!isnan(s->divergence_threshold) && better(s, -current, -s->divergence_threshold))
		return PLIM_STOP_DIVERGENCE;
	if (better(s, gain, s->has_best ? (float)s->best : s->maximize ? -INFINITY : INFINITY)) {
		take_best(s, step, value);
		s->wait = 0;
		return PLIM_STOP_NOT;
	}
	return ++s->wait >= s->patience ? PLIM_STOP_PATIENCE : PLIM_STOP_NOT;
}

/* The counter is moved first, by a gain over the threshold; then best_metric, by any gain. */
static enum plim_stop_reason transformers(struct plim_early_stop *s, double step, double value)
{
	bool first = s->seen == 1;
	double best = first || s->has_best ? s->best : s->maximize ? -INFINITY : INFINITY;

	if (first || (better(s, value, best) && fabs(value - best) > s->min_delta))
		s->wait = 0;
	else
		s->wait++;
	if (better(s, value, s->has_best ? s->best : s->maximize ? -INFINITY : INFINITY))
		take_best(s, step, value);
	return s->wait >= s->patience ? PLIM_STOP_PATIENCE : PLIM_STOP_NOT;
}

static enum plim_stop_reason ours(struct plim_early_stop *s, double step, double value)
{
	if (isfinite(value) && (!s->has_best || better(s, less_delta(s, value), s->best))) {
		take_best(s, step, value);
		s->wait = 0;
		return PLIM_STOP_NOT;
	}
	return ++s->wait >= (s->patience ? s->patience : 1) ? PLIM_STOP_PATIENCE : PLIM_STOP_NOT;
}

enum plim_stop_reason plim_early_stop_feed(struct plim_early_stop *s, double step, double value)
{
	static enum plim_stop_reason (*const rules[])(struct plim_early_stop *, double,
						      double) = { ours, keras, lightning,
								  transformers };

	s->seen++;
	s->reason = rules[s->policy < 4 ? s->policy : 0](s, step, value);
	if (s->reason && isnan(s->stop_step))
		s->stop_step = step;
	return s->reason;
}
