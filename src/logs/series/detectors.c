/*
 * The detectors.  Each is shown every value of the roles that it looks at, before the value is kept,
 * and raises or ends findings.  All numbers that decide stand here, with their reason;
 * docs/evidence/accuracy.md says how often they are right, tests/curves/quality.py measures it.
 */
#include "parts.h"

#define MAD_TO_SIGMA \
	1.4826 /* median absolute deviation to standard deviation, of a normal distribution */

/* ---- statistics ---- */

/* The value that would stand at `k` if they were sorted; smaller ones are before it then (Hoare 1961). */
static double nth(double *at, size_t n, size_t k)
{
	size_t low = 0, high = n - 1;

	while (low < high) {
		double pivot = at[low + (high - low) / 2], swap;
		size_t i = low, j = high;

		for (;;) {
			while (i < high && at[i] < pivot)
				i++;
			while (j > low && at[j] > pivot)
				j--;
			if (i >= j)
				break;
			swap = at[i];
			at[i++] = at[j];
			at[j--] = swap;
		}
		if (k <= j)
			high = j;
		else
			low = j + 1;
	}
	return at[k];
}

double series_median(double *at, size_t n)
{
	double middle, below = -INFINITY;

	if (!n)
		return NAN;
	middle = nth(at, n, n / 2);
	for (size_t i = 0; n % 2 == 0 && i < n / 2; i++)
		below = at[i] > below ? at[i] : below;
	return n % 2 ? middle : (below + middle) / 2;
}

/* On what scale a series is judged: a loss that is never 0 or less by its logarithm, so that a rise is a factor. */
static double scaled(const struct series_watch *w, double value)
{
	return w->negative ? value : value > 0 ? log(value) : -INFINITY;
}

/* The standard deviation of values about a trend, from differences of neighbours: robust, blind to slow change. */
static double noise(const double *y, size_t n)
{
	double d[SERIES_CELLS] = { 0 }, middle;
	size_t k = 0;

	for (size_t i = 1; i < n && k < SERIES_CELLS; i++)
		d[k++] = y[i] - y[i - 1];
	if (!k)
		return 0;
	middle = series_median(d, k);
	for (size_t i = 0; i < k; i++)
		d[i] = fabs(d[i] - middle);
	return MAD_TO_SIGMA * series_median(d, k) / M_SQRT2;
}

static double noise_of_bends(const double *y, size_t n)
{
	double d[SERIES_CELLS] = { 0 };
	size_t k = 0;

	for (size_t i = 2; i < n && k < SERIES_CELLS; i++)
		d[k++] = fabs(y[i] - 2 * y[i - 1] + y[i - 2]);
	return k < 2 ? INFINITY : MAD_TO_SIGMA * series_median(d, k) / sqrt(6);
}

static double mean(const double *y, size_t n)
{
	double s = 0;

	for (size_t i = 0; i < n; i++)
		s += y[i];
	return n ? s / (double)n : NAN;
}

/* Least squares: the slope a point, and how many of its standard errors it is (with noise at least `sigma`). */
static double slope(const double *y, size_t n, double sigma, double *t)
{
	double mx = (double)(n - 1) / 2, my = mean(y, n), xy = 0, xx = 0, rest = 0, b;

	for (size_t i = 0; i < n; i++) {
		xy += ((double)i - mx) * (y[i] - my);
		xx += ((double)i - mx) * ((double)i - mx);
	}
	b = xy / xx;
	for (size_t i = 0; i < n; i++) {
		double e = y[i] - my - b * ((double)i - mx);

		rest += e * e;
	}
	rest = n > 2 ? sqrt(rest / (double)(n - 2)) : 0;
	*t = b / ((rest > sigma ? rest : sigma) / sqrt(xx) + 1e-300);
	return b;
}

/* ---- the baseline: median and spread of the last SERIES_RING values ---- */

static double correlation(const double *y, size_t n, double middle)
{
	double up = 0, down = 0;

	for (size_t i = 0; i < n; i++) {
		down += (y[i] - middle) * (y[i] - middle);
		if (i)
			up += (y[i] - middle) * (y[i - 1] - middle);
	}
	return down > 0 ? up / down : 0;
}

#define TIE_MEMORY 512.0 /* values */
#define TIE_OUTLIER 9.0  /* times the mean square: larger changes are spikes, not noise */

/*
 * How much neighbours go together, over many more values than the ring has: changes over two values are larger
 * than those over one by 1 + rho (an autoregression of order 1), and slow trends cancel.
 */
static void learn_tie(struct series_watch *w, double y)
{
	double memory = fmin((double)w->finite, TIE_MEMORY);

	for (int lag = 0; lag < 2 && w->finite > 2; lag++) {
		double d = y - w->past[lag], square = d * d;

		if (w->finite > 32)
			square = fmin(square, TIE_OUTLIER * w->change[lag]);
		w->change[lag] += (square - w->change[lag]) / memory;
	}
	w->past[1] = w->past[0];
	w->past[0] = y;
}

/* The autocorrelation that was learnt; 0 while there is little to learn from. */
static double learnt_tie(const struct series_watch *w)
{
	return (double)w->finite > TIE_MEMORY / 2 && w->change[0] > 0
		       ? w->change[1] / w->change[0] - 1
		       : 0;
}

/* By how much errors of means are larger because neighbours go together. */
static double tie_factor(const struct series_watch *w, double tie)
{
	tie = fmin(fmax(fmax(tie, learnt_tie(w)), 0), 0.9);
	return sqrt((1 + tie) / (1 - tie));
}

#define BASELINE_LEAST 12
#define BASELINE_LAG 16

/* The middle of the newer half, and the spread about a line through the middles of both halves. */
static void measure_detector(struct series_watch *w)
{
	double y[SERIES_RING] = { 0 }, sorted[SERIES_RING], older, rise;
	uint32_t n = w->ring_n, from = (w->ring_at + SERIES_RING - n) % SERIES_RING, half;

	/* The latest do not count: a rise that is beginning must not be its own baseline. */
	if (n >= 3 * BASELINE_LAG)
		n -= BASELINE_LAG;
	half = n / 2;
	for (uint32_t i = 0; i < n; i++)
		y[i] = sorted[i] = scaled(w, w->ring[(from + i) % SERIES_RING]);
	older = series_median(sorted, half);
	w->median = series_median(sorted + half, n - half);
	/* A curve that still falls is expected no lower than where it was. */
	rise = (w->median - older) / (double)(n - half);
	for (uint32_t i = 0; i < n; i++) {
		y[i] -= w->median + rise * ((double)i - (half + (double)(n - half - 1) / 2));
		sorted[i] = fabs(y[i]);
	}
	w->tie = correlation(y, n, 0);
	w->spread = MAD_TO_SIGMA * series_median(sorted, n);
	w->measured = n;
	w->stale = 0;
}

/*
 * How far above the baseline a value is, in spreads; false: too few values for one.  The baseline of a long
 * log is measured anew every 64 values, of a short one every value, and whenever a value stands out.
 */
static bool above(struct series_watch *w, double y, double least_spread, double *z)
{
	uint32_t every = w->points > 4096 ? SERIES_RING : (uint32_t)(w->points / 64);
	double spread;

	if (w->ring_n < BASELINE_LEAST)
		return false;
	if (w->stale > every || w->measured < BASELINE_LEAST)
		measure_detector(w);
	spread = w->spread > least_spread ? w->spread : least_spread;
	*z = (y - w->median) / spread;
	if (*z > 3 && w->stale) {
		measure_detector(w);
		spread = w->spread > least_spread ? w->spread : least_spread;
		*z = (y - w->median) / spread;
	}
	return true;
}

/* ---- not finite ---- */

enum { NAN_SEEN, NAN_HIDDEN, NAN_UNDEFINED };

#define ZERO_RUN 3 /* losses of exactly 0 in a row */
#define ZERO_FROM \
	0.02        /* the last loss before them: a loss that is rounded to 0 comes nearer first */
#define GRADS_BAD 3 /* norms in a row: a GradScaler that skips a step makes single ones */

static enum plim_curves_id bad_id(double value)
{
	return isnan(value) ? PLIM_CURVES_NAN : PLIM_CURVES_INF;
}

static struct series_finding *raise_bad(struct series_monitor *m, uint32_t series, double began,
					double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f;

	if (series_open(m, PLIM_CURVES_NAN, series) || series_open(m, PLIM_CURVES_INF, series))
		return NULL;
	f = series_raise(m, bad_id(value), series, began, step);
	if (f) {
		f->severity = PLIM_SEVERITY_ERROR;
		f->confidence = 1;
		f->number[0] =
			w->ring_n ? w->ring[(w->ring_at + SERIES_RING - 1) % SERIES_RING] : NAN;
		f->number[1] = w->ring_n
				       ? w->ring_step[(w->ring_at + SERIES_RING - 1) % SERIES_RING]
				       : NAN;
	}
	return f;
}

static void look_finite(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	bool evaluation = w->role == PLIM_ROLE_METRIC || w->role == PLIM_ROLE_ERROR;
	struct series_finding *f;

	if (isfinite(value)) {
		if (w->bad_run) {
			if (!w->finite)
				series_take_back(m, series_open(m, PLIM_CURVES_INF, series));
			series_end(m, PLIM_CURVES_INF, series, step);
			f = series_open(m, PLIM_CURVES_NAN, series);
			if (f && f->kind != NAN_HIDDEN)
				series_end(m, PLIM_CURVES_NAN, series, step);
		}
		w->bad_run = 0;
		return;
	}
	if (!w->bad_run++)
		w->bad_step = step;
	/* "best loss: inf" is printed before there is a first one. */
	if (value > 0 && !w->finite && w->bad_run < GRADS_BAD)
		return;
	/* A metric that was never a number is one that is not defined here (F1 without positives). */
	if (evaluation && !w->finite)
		return;
	if (w->role == PLIM_ROLE_GRAD_NORM && w->bad_run < GRADS_BAD)
		return;
	f = raise_bad(m, series, w->bad_step, step, value);
	if (f && evaluation)
		f->severity = PLIM_SEVERITY_WARNING;
}

/*
 * transformers' logging_nan_inf_filter (on by default) puts the running average in place of a loss that is not
 * finite: where all of an interval are, exactly 0 is logged.
 */
static void look_hidden(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f;
	double before;
	uint32_t bad_grads = 0, grads = SERIES_NONE;

	if (value != 0) {
		f = series_open(m, PLIM_CURVES_NAN, series);
		if (f && f->kind == NAN_HIDDEN && isfinite(value) && f->other != SERIES_NONE)
			series_end(m, PLIM_CURVES_NAN, series, step);
		else if (f && f->kind == NAN_HIDDEN && isfinite(value))
			series_take_back(m, f);
		/* Weights that have met NaN do not recover: a zero was a small loss that was rounded. */
		w->zero_passed |= w->zero_run && isfinite(value);
		w->zero_run = 0;
		return;
	}
	if (!w->zero_run++)
		w->zero_step = step;
	for (uint32_t i = 0; i < m->watches.n; i++)
		if (m->watches.at[i].role == PLIM_ROLE_GRAD_NORM) {
			grads = i;
			bad_grads = m->watches.at[i].bad_run;
		}
	/* The value before the zeros. */
	before = w->ring_n >= w->zero_run
			 ? w->ring[(w->ring_at + 2 * SERIES_RING - w->zero_run) % SERIES_RING]
			 : NAN;
	if (w->zero_run > SERIES_RING - 2 || series_open(m, PLIM_CURVES_NAN, series))
		return;
	if (!(bad_grads && w->zero_run >= 2) &&
	    !(w->zero_run >= ZERO_RUN && before > ZERO_FROM && !w->zero_passed))
		return;
	f = raise_bad(m, series, w->zero_step, step, NAN);
	if (!f)
		return;
	f->kind = NAN_HIDDEN;
	f->confidence = bad_grads ? 0.99 : 0.85;
	f->number[0] = before;
	f->number[1] = NAN;
	f->other = bad_grads ? grads : SERIES_NONE;
}

/* ---- spike ---- */

/*
 * A value 6 spreads above the baseline (more where the baseline is short: its spread is not well known), at
 * least by a tenth, and above all values of the baseline.  6: OLMo-core's rule of skipping a step.  Or the mean of eight
 * values is over that of the sixteen before by a tenth and 5.5 of its standard errors, with autocorrelation counted in.
 * Or, when it is over: a straight line with a bump on it explains the last values by 5.5 standard errors better
 * than one without, and better than a line that falls where the bump ends (an epoch's border).
 */
#define SPIKE_Z 6.0
#define SPIKE_LEAST 0.1 /* of the loss */
#define SPIKE_SPREAD 0.01
#define JUMP_STEPS 3.0 /* times the median step */
#define STEP_NEW 8
#define STEP_OLD 16
#define STEP_ERRORS 5.5
#define SPIKE_LASTS 64 /* values, after which it is a new level */

enum { SPIKE_UP, SPIKE_NEW_LEVEL, SPIKE_BUMP };

static double ring_max(const struct series_watch *w)
{
	double most = -INFINITY;

	for (uint32_t i = 0; i < w->ring_n; i++) {
		double y = scaled(w, w->ring[i]);

		most = y > most ? y : most;
	}
	return most;
}

static double limit_of(const struct series_watch *w)
{
	return SPIKE_Z * (1 + 8.0 / w->measured);
}

/* Where a rise of the learning rate explains a rise of the loss: to a level that it had before (warm restarts). */
static bool restarts(const struct series_monitor *m, double since)
{
	for (uint32_t i = 0; i < m->watches.n; i++) {
		const struct series_watch *w = &m->watches.at[i];

		if (w->role == PLIM_ROLE_LEARNING_RATE && w->jump_step >= since && w->jumps)
			return true;
	}
	return false;
}

/* A new level is a spike after all if the loss comes back. */
static void level_goes_on(struct series_monitor *m, struct series_watch *w, double step, double y)
{
	struct series_finding *f = &m->findings.at[w->level - 1];

	if (y >= f->number[5]) {
		w->level_left = 0;
	} else if (++w->level_left >= 2) {
		f->end = step;
		f->severity = PLIM_SEVERITY_INFO;
		w->level = 0;
	}
}

static void spike_goes_on(struct series_monitor *m, struct series_finding *f, double step, double y,
			  double value)
{
	struct series_watch *w = &m->watches.at[f->series];

	f->number[3]++;
	if (value > f->number[0]) {
		f->number[0] = value;
		f->number[4] = step;
	}
	if (y < f->number[5]) {
		f->severity = PLIM_SEVERITY_INFO;
		series_end(m, PLIM_CURVES_SPIKE, f->series, step);
	} else if (f->number[3] >= SPIKE_LASTS) {
		f->kind = SPIKE_NEW_LEVEL;
		series_end(m, PLIM_CURVES_SPIKE, f->series, NAN);
		w->level = (uint32_t)(f - m->findings.at) + 1;
		w->level_left = 0;
		w->measured = 0;
	}
}

/* The value that came `back` values before the one that is looked at (1: the one before). */
static uint32_t ring_back(const struct series_watch *w, uint32_t back)
{
	return (w->ring_at + 2 * SERIES_RING - back) % SERIES_RING;
}

/* Is the last step larger than usual ones?  A straight rise without noise has spread 0 and no jump. */
static bool jumps(const struct series_watch *w, double y)
{
	double steps[SERIES_RING], before = scaled(w, w->ring[ring_back(w, 1)]), last = before;
	uint32_t n = 0;

	for (uint32_t i = 2; i <= w->ring_n; i++) {
		double at = scaled(w, w->ring[ring_back(w, i)]);

		steps[n++] = fabs(last - at);
		last = at;
	}
	return !n || y - before > JUMP_STEPS * series_median(steps, n);
}

/*
 * By how many standard errors the mean of the latest values is over that of those before, and over what these rose by already;
 * 0: not by enough.
 */
static double step_up(const struct series_watch *w, double y, double least, double *before)
{
	/* Autocorrelation is estimated too low from few values (Kendall 1954). */
	double late = y, early = 0, older = 0, error, rise,
	       tie = w->tie + (1 + 3 * w->tie) / (w->measured + 1);
	uint32_t every = w->points > 65536 ? 16 : w->points > 4096 ? 4 : 1;

	if (w->ring_n < STEP_NEW + 2 * STEP_OLD || w->points % every ||
	    y < scaled(w, w->ring[ring_back(w, STEP_NEW + STEP_OLD / 2)]))
		return 0;
	for (uint32_t i = 1; i < STEP_NEW; i++)
		late += scaled(w, w->ring[ring_back(w, i)]);
	for (uint32_t i = 0; i < STEP_OLD; i++) {
		early += scaled(w, w->ring[ring_back(w, STEP_NEW + i)]);
		older += scaled(w, w->ring[ring_back(w, STEP_NEW + STEP_OLD + i)]);
	}
	late /= STEP_NEW;
	early /= STEP_OLD;
	older /= STEP_OLD;
	rise = late - early - fmax(0, early - older) * (STEP_NEW + STEP_OLD) / (2 * STEP_OLD);
	*before = early;
	error = fmax(w->spread, least) * sqrt(1.0 / STEP_NEW + 1.0 / STEP_OLD) * tie_factor(w, tie);
	return w->negative || rise > SPIKE_LEAST ? rise / error : 0;
}

static void raise_spike(struct series_monitor *m, uint32_t series, double began, double step,
			double value, double before, double z)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f;

	if (restarts(m, w->ring_step[w->ring_at % w->ring_n]))
		return;
	f = series_raise(m, PLIM_CURVES_SPIKE, series, began, step);
	if (!f)
		return;
	f->confidence = fmin(0.99, 0.6 + 0.04 * z);
	f->number[0] = value;
	f->number[1] = w->negative ? before : exp(before);
	f->number[2] = z;
	f->number[3] = 1;
	f->number[4] = step;
	f->number[5] = before + 2 * fmax(w->spread, w->negative ? 1e-9 : SPIKE_SPREAD);
}

/* ---- a bump that is over ---- */

#define BUMP_BEFORE 24
#define BUMP_BEHIND 8
#define BUMP_LEAST 0.15
#define BUMP_ERRORS 5.5
#define BUMP_OVER_FALL 2.8 /* by so many errors better than a fall at its end */
#define BUMP_MOST 20
static const size_t bump_widths[] = { 5, 6, 8, 10, 13, 16, BUMP_MOST };

/* Least squares of a line and a step of height c from value `from` to `to`. */
struct bump {
	double c, per_error; /* c / (per_error * sigma) is its number of standard errors */
	double rest;         /* sum of squares that it leaves */
	double at[2];        /* of 1 and x, from the middle */
};

static struct bump fit_bump(const double *y, size_t n, size_t from, size_t to)
{
	double mx = (double)(n - 1) / 2, zz = (double)(to - from), yz = 0, yy = 0;
	double of_y[2] = { 0 }, of_z[2] = { 0 }, size[2] = { 0 };
	struct bump b = { 0 };

	for (size_t i = 0; i < n; i++) {
		double p[2] = { 1, (double)i - mx };

		for (int k = 0; k < 2; k++) {
			of_y[k] += p[k] * y[i];
			of_z[k] += i >= from && i < to ? p[k] : 0;
			size[k] += p[k] * p[k];
		}
		yy += y[i] * y[i];
		yz += i >= from && i < to ? y[i] : 0;
	}
	for (int k = 0; k < 2; k++) { /* what the polynomial explains; its parts are orthogonal */
		yy -= of_y[k] * of_y[k] / size[k];
		yz -= of_y[k] * of_z[k] / size[k];
		zz -= of_z[k] * of_z[k] / size[k];
	}
	b.c = yz / zz;
	b.per_error = 1 / sqrt(zz);
	b.rest = fmax(yy - b.c * b.c * zz, 0);
	for (int k = 0; k < 2; k++)
		b.at[k] = (of_y[k] - b.c * of_z[k]) / size[k];
	return b;
}

static double line_at(const struct bump *b, size_t n, size_t i)
{
	return b->at[0] + b->at[1] * ((double)i - (double)(n - 1) / 2);
}

/* Neighbours of what the fit leaves go together so much that its error is larger by this factor. */
static double tied(const struct series_watch *w, const double *y, size_t n, size_t from, size_t to,
		   const struct bump *b)
{
	double left[BUMP_BEFORE + BUMP_MOST + BUMP_BEHIND] = { 0 }, tie;

	for (size_t i = 0; i < n; i++)
		left[i] = y[i] - line_at(b, n, i) - (i >= from && i < to ? b->c : 0);
	tie = correlation(left, n, 0);
	return tie_factor(w, tie + (2 + 4 * tie) / (double)n);
}

/* How many standard errors a bump of `width` values that ended BUMP_BEHIND values ago is high; 0: none. */
static double bump_errors(const struct series_watch *w, const double *y, size_t n, size_t width,
			  struct bump *b)
{
	size_t to = n - BUMP_BEHIND, from = to - width;
	double sigma, errors, fall;

	*b = fit_bump(y, n, from, to);
	if (b->c < BUMP_LEAST)
		return 0;
	sigma = fmax(sqrt(b->rest / (double)(n - 3)), SPIKE_SPREAD) * tied(w, y, n, from, to, b);
	errors = b->c / (b->per_error * sigma);
	if (errors < BUMP_ERRORS)
		return 0;
	fall = fit_bump(y, n, to, n).rest;
	return fall - b->rest > BUMP_OVER_FALL * BUMP_OVER_FALL * sigma * sigma ? errors : 0;
}

static bool told_of(const struct series_monitor *m, uint32_t series, double from)
{
	for (size_t i = 0; i < m->findings.n; i++) {
		const struct series_finding *f = &m->findings.at[i];

		if (f->id == PLIM_CURVES_SPIKE && f->series == series && !f->taken_back &&
		    !(f->end < from) && !(f->kind == SPIKE_NEW_LEVEL && f->detected < from))
			return true;
	}
	return false;
}

static void raise_bump(struct series_monitor *m, uint32_t series, double step, size_t width,
		       double errors, double middle, double height)
{
	struct series_watch *w = &m->watches.at[series];
	uint32_t first = ring_back(w, (uint32_t)(BUMP_BEHIND - 1 + width));
	struct series_finding *f;
	double most = -INFINITY;
	size_t peak = 0;

	if (told_of(m, series, w->ring_step[first]) ||
	    restarts(m, w->ring_step[w->ring_at % w->ring_n]))
		return;
	f = series_raise(m, PLIM_CURVES_SPIKE, series, w->ring_step[first], step);
	if (!f)
		return;
	for (size_t i = 0; i < width; i++)
		if (w->ring[(first + i) % SERIES_RING] > most) {
			most = w->ring[(first + i) % SERIES_RING];
			peak = i;
		}
	f->kind = SPIKE_BUMP;
	f->severity = PLIM_SEVERITY_INFO;
	f->confidence = fmin(0.95, 0.5 + 0.05 * errors);
	f->number[0] = most;
	f->number[1] = exp(middle);
	f->number[2] = errors;
	f->number[3] = (double)width;
	f->number[4] = w->ring_step[(first + peak) % SERIES_RING];
	f->number[5] = exp(height);
	series_end(m, PLIM_CURVES_SPIKE, series, w->ring_step[ring_back(w, BUMP_BEHIND - 1)]);
}

static void look_bump(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	uint32_t every = w->points > 65536 ? 16 : w->points > 4096 ? 4 : 1;
	double y[SERIES_RING + 1] = { 0 }, behind = 0, above_it = 0, best = 0, middle = 0,
			       height = 0;
	size_t n = 0, width = 0;
	struct bump b = { 0 };

	if (!isfinite(value) || w->negative || w->points % every || w->ring_n < 32 ||
	    series_open(m, PLIM_CURVES_SPIKE, series))
		return;
	for (uint32_t i = w->ring_n; i > 0; i--)
		y[n++] = w->ring[ring_back(w, i)];
	y[n++] = value;
	/* Most values are not behind a bump: does it fall here at all? */
	for (size_t i = 0; i < BUMP_BEHIND; i++) {
		behind += y[n - 1 - i];
		above_it += i < 5 ? y[n - 1 - BUMP_BEHIND - i] : 0;
	}
	if (above_it / 5 < behind / BUMP_BEHIND * (1 + 0.6 * BUMP_LEAST))
		return;
	for (size_t i = 0; i < n; i++)
		y[i] = log(y[i]);
	for (size_t i = 0; i < sizeof(bump_widths) / sizeof(*bump_widths); i++) {
		size_t wide = bump_widths[i], wants = BUMP_BEFORE + wide + BUMP_BEHIND;
		size_t all = n < wants ? n : wants;
		double errors = all < wide + 22 ? 0 : bump_errors(w, y + n - all, all, wide, &b);

		if (errors > best) {
			best = errors;
			width = wide;
			height = b.c;
			middle = line_at(&b, all, all - BUMP_BEHIND - wide / 2);
		}
	}
	if (width)
		raise_bump(m, series, step, width, best, middle, height);
}

static void look_spike(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f = series_open(m, PLIM_CURVES_SPIKE, series);
	double y, z, least, before = 0;

	if (!isfinite(value) || (value <= 0 && !w->negative))
		return;
	y = scaled(w, value);
	learn_tie(w, y);
	if (w->level)
		level_goes_on(m, w, step, y);
	if (f) {
		spike_goes_on(m, f, step, y, value);
		return;
	}
	least = w->negative ? 1e-9 : SPIKE_SPREAD;
	if (!above(w, y, least, &z))
		return;
	if (z > limit_of(w) && y > ring_max(w) + 1.5 * fmax(w->spread, least) &&
	    (w->negative || y - w->median > SPIKE_LEAST) && jumps(w, y)) {
		raise_spike(m, series, step, step, value, w->median, z);
		return;
	}
	z = step_up(w, y, least, &before);
	if (z > STEP_ERRORS)
		raise_spike(m, series, w->ring_step[ring_back(w, STEP_NEW - 1)], step, value,
			    before, z);
}

/* ---- divergence ---- */

/*
 * The mean of the last 4, 8 or 16 cells of the history is over the smallest such mean before it by 1.2 times and by
 * so many standard errors, and does not fall, or the smallest is the first.  Wider means see what is small next to the noise.
 */
#define DIVERGED_TIMES 0.18 /* ln 1.2 */
#define DIVERGED_SURE 1.1   /* ln 3: an error at once */
#define DIVERGED_LASTS 6.0  /* times as long as it took to be found: an error */
#define DIVERGED_LEFT 0.6   /* of the rise, its logarithm: with less left it is a warning again */
#define DIVERGED_CELLS 8
#define FOUR 4
static const struct {
	size_t cells;
	double errors;
} diverged_means[] = { { FOUR, 6.5 }, { 8, 6.2 }, { 16, 6.2 } };

/* The values of cells as they are judged; `n` of them, the latest last. */
static size_t cells_of(const struct series_watch *w, double *y, bool other)
{
	size_t n = 0;

	for (uint32_t i = 0; i < w->history.n; i++) {
		double v = other ? w->history.at[i].other : w->history.at[i].mean;

		y[n++] = other ? v : scaled(w, v);
	}
	return n;
}

/* Noise of cells, not smaller than what they wander by about a line over the 32 before the last 8. */
static double wander(const double *y, size_t n)
{
	double sigma = noise(y + (n > 48 ? n - 48 : 0), n > 48 ? 48 : n), rest = 0, t, b, my;
	double tie = 0, square = 1e-300, before = 0;
	size_t from, k;

	/* Too few to see that neighbours go together, or to tell noise from a rise and a fall. */
	if (n < 32)
		sigma = 1.5 * fmin(sigma, noise_of_bends(y, n));
	if (n < 16)
		return sigma;
	from = n > 40 ? n - 40 : 0;
	k = n - 8 - from;
	b = slope(y + from, k, 0, &t);
	my = mean(y + from, k);
	for (size_t i = 0; i < k; i++) {
		double e = y[from + i] - my - b * ((double)i - (double)(k - 1) / 2);

		rest += e * e;
		square += e * e;
		tie += e * before;
		before = e;
	}
	rest = 0.8 * sqrt(rest / (double)(k - 1));
	sigma = rest > sigma ? rest : sigma;
	/* Means of neighbours that go together are less certain. */
	tie = fmin(fmax(tie / square, 0), 0.85);
	return sigma * sqrt((1 + tie) / (1 - tie));
}

/* Is the mean of the last k of n cells over the smallest such mean, of `at` and the following, by `errors`? */
static bool rises(const double *y, size_t n, size_t k, double errors, double sigma, double *last,
		  double *least, size_t *at)
{
	double need = fmax(DIVERGED_TIMES, errors * sigma * sqrt(2.0 / (double)k));

	*least = INFINITY;
	if (n < 2 * k)
		return false;
	*last = mean(y + n - k, k);
	for (size_t i = 0; i + 2 * k <= n; i++) {
		double here = mean(y + i, k);

		if (here < *least) {
			*least = here;
			*at = i;
		}
	}
	if (*last - *least < need)
		return false;
	/* A loss that was never as low as at first has learnt nothing, also if it falls. */
	if (*at &&
	    mean(y + n - k / 2, k / 2) < mean(y + n - k, k / 2) - sigma / sqrt((double)k / 4))
		return false;
	/* Its quarters too are high: no single spike makes the mean. */
	for (size_t i = n - k; i < n; i += k / 4)
		if (mean(y + i, k / 4) < *least + 0.5 * need)
			return false;
	return true;
}

/* Noise makes a rise that does not last, or is small: an error is only what it does not take back. */
static void judge_diverged(struct series_finding *f, double rise, double step)
{
	if (rise > DIVERGED_SURE ||
	    (rise > DIVERGED_LEFT * f->number[2] &&
	     step - f->detected >= DIVERGED_LASTS * (f->detected - f->step)))
		f->severity = PLIM_SEVERITY_ERROR;
}

static void diverged_goes_on(struct series_monitor *m, struct series_finding *f, const double *y,
			     size_t n, double step)
{
	double last = mean(y + n - FOUR, FOUR), least = log(f->number[1]);

	if (last < least + 0.3 * f->number[2]) {
		f->severity = PLIM_SEVERITY_INFO;
		series_end(m, PLIM_CURVES_DIVERGED, f->series, step);
	} else if (last - least > f->number[2]) {
		f->number[2] = last - least;
		f->number[0] = exp(last);
	}
	if (f->severity ==
	    PLIM_SEVERITY_WARNING) /* not one of two losses that play against each other */
		judge_diverged(f, last - least, step);
	else if (f->severity == PLIM_SEVERITY_ERROR && last - least < DIVERGED_SURE &&
		 last - least < DIVERGED_LEFT * f->number[2])
		f->severity = PLIM_SEVERITY_WARNING;
}

static void look_diverged(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f = series_open(m, PLIM_CURVES_DIVERGED, series);
	double y[SERIES_CELLS], least, last, sigma;
	size_t n, at = 0, means = sizeof(diverged_means) / sizeof(*diverged_means), i = 0;

	/* Only where a cell was just completed, and only for what cannot be 0 or less. */
	if (!isfinite(value) || w->negative || w->history.open.n || w->history.n < DIVERGED_CELLS)
		return;
	n = cells_of(w, y, false);
	if (f) {
		diverged_goes_on(m, f, y, n, step);
		return;
	}
	sigma = wander(y, n);
	while (i < means && !rises(y, n, diverged_means[i].cells, diverged_means[i].errors, sigma,
				   &last, &least, &at))
		i++;
	if (i == means || restarts(m, w->history.at[at].step))
		return;
	/* Where the rise began: the last cell that was still as low as the lowest. */
	for (i = at; i < n; i++)
		if (y[i] < least + fmax(sigma, 0.02))
			at = i;
	f = series_raise(m, PLIM_CURVES_DIVERGED, series, w->history.at[at].last_step, step);
	if (!f)
		return;
	f->severity = PLIM_SEVERITY_WARNING;
	f->confidence = fmin(0.99, 0.6 + 0.05 * (last - least) / (sigma * sqrt(2.0 / FOUR) + 1e-3));
	f->number[0] = exp(last);
	f->number[1] = exp(least);
	f->number[2] = last - least;
	judge_diverged(f, last - least, step);
	f->number[3] = w->history.at[at].step;
}

/* ---- gradient explosion ---- */

/*
 * Gradient norms have long tails: one that is ten times the median is nothing yet.  Three of the last five are,
 * or one that is a hundred times; or any of three times where a loss spikes or is lost within five logs.
 */
#define EXPLOSION_TIMES 2.302585 /* ln 10 */
#define EXPLOSION_ONCE 4.6052    /* ln 100 */
#define EXPLOSION_Z 6.0
#define EXPLOSION_NEAR 5

enum { EXPLOSION_ALONE, EXPLOSION_FIRST };

static void look_explosion(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f = series_open(m, PLIM_CURVES_EXPLOSION, series);
	double y, z;

	if (!isfinite(value) || value <= 0)
		return;
	y = scaled(w, value);
	if (f) {
		f->number[0] = fmax(f->number[0], value);
		if (y < f->number[5] && ++f->number[3] >= EXPLOSION_NEAR) {
			if (f->kind == EXPLOSION_ALONE)
				f->severity = PLIM_SEVERITY_INFO;
			series_end(m, PLIM_CURVES_EXPLOSION, series, step);
		}
		return;
	}
	if (w->negative || !above(w, y, 0.1, &z))
		return;
	w->jumps = w->jumps << 1 | (z > limit_of(w) && y - w->median > EXPLOSION_TIMES);
	if (w->jumps & 1 && !(w->jumps & 0x1e))
		w->jump_step = step;
	if (__builtin_popcount(w->jumps & 0x1f) < 3 &&
	    !(z > limit_of(w) && y - w->median > EXPLOSION_ONCE))
		return;
	f = series_raise(m, PLIM_CURVES_EXPLOSION, series, w->jumps & 0x1e ? w->jump_step : step,
			 step);
	if (!f)
		return;
	f->confidence = 0.8;
	f->number[0] = value;
	f->number[1] = exp(w->median);
	f->number[2] = z;
	f->number[5] = w->median + 1.1; /* thrice the median */
	w->jumps = 0;
}

/* A loss just spiked or was lost: did the gradients grow before? */
static void look_before(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_finding *loss = NULL;

	(void)value;
	for (size_t i = 0; i < m->findings.n; i++) {
		struct series_finding *f = &m->findings.at[i];

		if (f->series == series && f->detected == step && !f->taken_back &&
		    (f->id == PLIM_CURVES_NAN || f->id == PLIM_CURVES_INF ||
		     f->id == PLIM_CURVES_SPIKE))
			loss = f;
	}
	if (!loss)
		return;
	for (uint32_t i = 0; i < m->watches.n; i++) {
		struct series_watch *w = &m->watches.at[i];
		double past[SERIES_RING] = { 0 }, middle, spread, began = NAN, most = 0;
		uint32_t n = w->ring_n, from, late;

		if (w->role != PLIM_ROLE_GRAD_NORM || w->negative ||
		    n < BASELINE_LEAST + EXPLOSION_NEAR)
			continue;
		from = (w->ring_at + SERIES_RING - n) % SERIES_RING;
		late = n - EXPLOSION_NEAR;
		for (uint32_t j = 0; j < late; j++)
			past[j] = scaled(w, w->ring[(from + j) % SERIES_RING]);
		middle = series_median(past, late);
		for (uint32_t j = 0; j < late; j++)
			past[j] = fabs(past[j] - middle);
		spread = fmax(0.1, MAD_TO_SIGMA * series_median(past, late));
		for (uint32_t j = late; j < n; j++) {
			double v = w->ring[(from + j) % SERIES_RING], y = scaled(w, v);

			if ((y - middle) / spread > EXPLOSION_Z && y - middle > 1.0986) {
				began = isnan(began) ? w->ring_step[(from + j) % SERIES_RING]
						     : began;
				most = fmax(most, v);
			}
		}
		if (isnan(began) || began > loss->step)
			continue;
		loss = series_raise(m, PLIM_CURVES_EXPLOSION, i, began, step);
		if (!loss)
			return;
		loss->kind = EXPLOSION_FIRST;
		loss->confidence = 0.9;
		loss->other = series;
		loss->number[0] = fmax(loss->number[0], most);
		loss->number[1] = exp(middle);
		loss->number[4] = m->findings.at[m->findings.n - 1].step;
		loss->number[5] = middle + 1.1;
		return;
	}
}

/* ---- overfitting and collapse ---- */

/*
 * The validation loss has a minimum behind which it rises by 2 % and more than noise explains, while the training
 * loss does not rise with it.  It is a sequential test of a generalised likelihood ratio (Willsky and Jones 1976; of
 * Page's kind): at each evaluation a line is fitted to each stretch that ends with it, and the slope with the most
 * standard errors counts, if the stretch begins where the loss was lowest.  The more evaluations, the more chances for
 * noise: what is asked for grows with their number.  docs/evidence/curves.md shows what other thresholds cost.
 */
#define RISE_LEAST 0.02
#ifndef RISE_ERRORS
#define RISE_ERRORS 2.5 /* of eight evaluations */
#endif
#define RISE_ERRORS_DOUBLED 0.6 /* more each time that there are twice as many */
#define RISE_ERRORS_FEWER 0.3   /* more for each evaluation that eight lack */
#define RISE_ERRORS_TWO 5.0     /* where only two evaluations are over the lowest */
#define RISE_BEGINS 0.2         /* standard deviations that it may begin over the lowest one */
#define RISE_KEPT 0.7           /* of the rise: what falls below this was none */
#define STAYS 8                 /* evaluations that say that a part of the rise stays */
#define STAYS_ERRORS 5.0        /* of their standard deviations, to the minimum */
#define RISE_FEW 6              /* evaluations; of fewer the noise is not known at all */
#define TAIL_TIMES 1.5          /* the noise of few values is not well known */
#define FALL_LEAST 0.01         /* of the training loss: it goes on falling */
#define METRIC_TIMES 1.6  /* the errors that a loss is asked for: a metric's noise is not known */
#define METRIC_ERRORS 4.0 /* standard deviations that three falls of a metric are worth */
#define RISE_SHARED 0.4   /* of the rise: where the training loss rises by more, both diverge */

/*
 * What is known of the noise of evaluations before there are enough of them: half of what the training loss varies by
 * from log to log (an evaluation is a mean over many more samples), at most 1.5 %; it counts as six of them.
 */
#define PRIOR_OF_TRAIN 0.5
#define PRIOR_MOST 0.015
#define PRIOR_LEAST 0.002
#define PRIOR_COUNTS 6.0
#define BENDS_LAST 24   /* second differences before the stretch that say of the noise */
#define BENDS_COUNT 0.5 /* each of them, as they share values */
#define BENDS_FEW 6     /* of fewer, the steep beginning may be more than the noise */
#define BENDS_OF_PRIOR 0.8

struct evaluations {
	double y[SERIES_CELLS + 1], t[SERIES_CELLS + 1], step[SERIES_CELLS + 1];
	size_t n, best;
	double base, sigma, scale;
	double sign; /* of y: -1 where more is better, so that less is better in y */
};

static void push_eval(struct evaluations *e, double step, double value, double train)
{
	e->y[e->n] = e->sign * value;
	e->t[e->n] = train;
	e->step[e->n++] = step;
}

static double smoothed(const struct evaluations *e, size_t i)
{
	if (e->n < 12 || !i || i + 1 >= e->n)
		return e->y[i];
	return (e->y[i - 1] + e->y[i] + e->y[i + 1]) / 3;
}

/* What those behind the minimum wander by about a line: the steep first part is not in it. */
static double noise_behind(const struct evaluations *e)
{
	size_t n = e->n - e->best;
	double my = mean(e->y + e->best, n), t, b, rest = 0;

	if (n < 5)
		return INFINITY;
	b = slope(e->y + e->best, n, 0, &t);
	for (size_t i = 0; i < n; i++) {
		double left = e->y[e->best + i] - my - b * ((double)i - (double)(n - 1) / 2);

		rest += left * left;
	}
	return sqrt(rest / (double)(n - 2));
}

/* The evaluations so far with this one, times `sign`, their noise and their minimum. */
static void gather_detector(const struct series_monitor *m, const struct series_watch *w,
			    double step, double value, double sign, struct evaluations *e)
{
	const struct series_history *h = &w->history;
	size_t from;

	e->n = 0;
	e->sign = sign;
	for (uint32_t i = 0; i < h->n; i++)
		push_eval(e, h->at[i].step, h->at[i].mean, h->at[i].other);
	if (h->stride == 1) {
		const struct series_watch *train =
			w->pair != SERIES_NONE ? &m->watches.at[w->pair] : NULL;

		push_eval(e, step, value,
			  !train || !train->finite ? NAN
			  : train->finite > w->pair_finite
				  ? (train->total - w->pair_total) /
					    (double)(train->finite - w->pair_finite)
				  : train->last);
	}
	e->best = 0;
	for (size_t i = 1; i < e->n; i++)
		if (smoothed(e, i) < smoothed(e, e->best))
			e->best = i;
	e->base = e->n ? smoothed(e, e->best) : NAN;
	from = e->n > 33 ? e->n - 33 : 0;
	e->scale = w->negative ? w->max - w->min : fabs(e->base);
	e->sigma = noise(e->y + from, e->n - from);
	/* Of few evaluations many are on the steep part, where differences of differences show the noise. */
	if (e->n < 24)
		e->sigma = fmin(e->sigma, noise_of_bends(e->y + from, e->n - from));
	e->sigma = fmin(e->sigma, TAIL_TIMES * noise_behind(e));
	e->sigma = fmax(e->sigma, 0.002 * e->scale);
}

/* By how much the training loss has fallen since the minimum, of itself; NaN: not known. */
static double trained(const struct evaluations *e)
{
	size_t after = e->n - 1 - e->best, k = after < 3 ? after : 3;
	double then = e->t[e->best], now = mean(e->t + e->n - k, k);

	return (then - now) / fabs(then);
}

/* What the training loss varies by from log to log, of itself, its slow changes left out; NaN: not known. */
static double noise_of_train(const struct series_watch *train)
{
	double tie;

	if (!train || train->negative || train->finite < 8 || !(train->change[0] > 0))
		return NAN;
	tie = fmin(fmax(train->change[1] / train->change[0] - 1, 0), 0.9);
	return sqrt(train->change[0] / (2 * (1 - tie)));
}

/* A line through the evaluations from `from` to the last. */
struct stretch {
	size_t from;
	double start, rise, errors; /* of the loss at the minimum; of the rise's standard errors */
};

/* The standard deviation of evaluations: of what the line leaves, of what was before it, and what was known before. */
static double noise_about(const struct evaluations *e, size_t from, double rest, double prior)
{
	size_t behind = e->n - from, first = from > BENDS_LAST + 1 ? from - BENDS_LAST - 1 : 0;
	size_t bends = from - first > 2 ? from - first - 2 : 0;
	double squares = PRIOR_COUNTS * prior * prior + rest;
	double count = PRIOR_COUNTS + (double)(behind - 2), sigma;

	if (bends) {
		double d[BENDS_LAST] = { 0 };

		for (size_t i = 0; i < bends; i++)
			d[i] = fabs(e->y[first + i + 2] - 2 * e->y[first + i + 1] +
				    e->y[first + i]);
		sigma = MAD_TO_SIGMA * series_median(d, bends) / (sqrt(6) * e->scale);
		if (bends < BENDS_FEW)
			sigma = fmin(sigma, BENDS_OF_PRIOR * prior);
		squares += BENDS_COUNT * (double)bends * sigma * sigma;
		count += BENDS_COUNT * (double)bends;
	}
	return sqrt(squares / count);
}

static struct stretch fit_stretch(const struct evaluations *e, size_t from, double prior,
				  double lowest)
{
	size_t n = e->n - from;
	double middle = mean(e->y + from, n), half = (double)(n - 1) / 2, t, rest = 0, sigma, b;
	double xx = (double)n * ((double)n * (double)n - 1) / 12;
	struct stretch s = { .from = from };

	b = slope(e->y + from, n, 0, &t);
	for (size_t i = 0; i < n; i++) {
		double left = (e->y[from + i] - middle - b * ((double)i - half)) / e->scale;

		rest += left * left;
	}
	sigma = noise_about(e, from, rest, prior);
	s.start = middle - b * half;
	s.rise = b * (double)(n - 1);
	if (s.rise >= RISE_LEAST * e->scale && s.start <= lowest + RISE_BEGINS * sigma * e->scale)
		s.errors = b * sqrt(xx) / (sigma * e->scale);
	return s;
}

/* By how many standard errors a rise has to be seen behind `n` evaluations, `behind` of them over the lowest. */
static double errors_asked(size_t n, size_t behind)
{
	double most = RISE_ERRORS + (n < 8 ? RISE_ERRORS_FEWER * (double)(8 - n)
					   : RISE_ERRORS_DOUBLED * log2((double)n / 8));

	return behind < 3 ? fmax(RISE_ERRORS_TWO, most) : most;
}

/* How sure it is that the last evaluations are over the minimum; 0: not. */
static double risen(const struct evaluations *e, double train_noise, double times,
		    struct stretch *out)
{
	double prior =
		fmin(isnan(train_noise) ? INFINITY : PRIOR_OF_TRAIN * train_noise, PRIOR_MOST);
	double lowest[SERIES_CELLS + 1], most = 0;
	size_t after = e->n - 1 - e->best;

	*out = (struct stretch){ .from = e->best, .start = e->base };
	if (after < 2)
		return 0;
	if (e->n < RISE_FEW) {
		bool climbs = e->y[e->n - 1] > e->y[e->n - 2] && e->y[e->n - 2] > e->y[e->n - 3] &&
			      (after < 3 || e->y[e->n - 3] > e->y[e->n - 4]);

		out->rise = mean(e->y + e->n - (after < 3 ? 2 : 3), after < 3 ? 2 : 3) - e->base;
		most = out->rise / e->scale;
		return climbs && most >= (after < 3 ? 0.08 : 0.04) ? fmin(0.85, 0.6 + most) : 0;
	}
	prior = fmax(prior, PRIOR_LEAST);
	lowest[0] = INFINITY;
	for (size_t i = 1; i < e->n; i++)
		lowest[i] = fmin(lowest[i - 1], e->y[i - 1]);
	for (size_t behind = 2; behind < e->n; behind += behind < 16 ? 1 : behind / 4) {
		size_t from = e->n - 1 - behind;
		struct stretch s = fit_stretch(e, from, prior, lowest[from]);
		double over = s.errors / (times * errors_asked(e->n, behind));

		if (over > most) {
			most = over;
			*out = s;
		}
	}
	return most > 1 ? fmin(0.98, 0.45 + 0.08 * out->errors) : 0;
}

enum { OVERFIT_BOTH, OVERFIT_NO_TRAIN, OVERFIT_GAP };

/* Are the last evaluations further over the minimum than their own spread could explain? */
static bool stays_over(const struct evaluations *e)
{
	const double *last;
	double middle, squares = 0;

	if (e->n - 1 - e->best < STAYS)
		return false;
	last = e->y + e->n - STAYS;
	middle = mean(last, STAYS);
	for (size_t i = 0; i < STAYS; i++)
		squares += (last[i] - middle) * (last[i] - middle);
	return middle - e->y[e->best] >= RISE_LEAST * e->scale &&
	       middle - e->y[e->best] > STAYS_ERRORS * sqrt(squares / (STAYS - 1));
}

/* The evaluations since it was said, the last three of them, are not over most of the rise: it was noise, or it is over. */
static bool come_back(const struct evaluations *e, const struct series_finding *f)
{
	size_t k = 0;

	while (k < 3 && k < e->n && e->step[e->n - 1 - k] > f->detected)
		k++;
	return k && mean(e->y + e->n - k, k) < f->number[6] && !stays_over(e);
}

static double worst_since(const struct evaluations *e, double step)
{
	double worst = e->y[e->n - 1];

	for (size_t i = 0; i < e->n; i++)
		if (e->step[i] >= step)
			worst = fmax(worst, e->y[i]);
	return e->sign * worst;
}

/* Without a training loss that falls, it may be anything that rises; without a name that says what is better, too. */
static double sure_of_overfit(const struct series_watch *w, double sure, double fell)
{
	if (w->course == SERIES_BY_COURSE)
		sure = fmin(sure, 0.7);
	return isnan(fell) ? fmin(sure, 0.6) : fell < FALL_LEAST ? fmin(sure, 0.75) : sure;
}

/* Three evaluations in a row, each worse than the one before, the first of them worse than the best of all. */
static double fell_thrice(const struct evaluations *e, double fell)
{
	const double *y = e->y + e->n - 1;
	double rise = e->n > 3 ? *y - e->base : 0;

	if (e->n < 4 || e->n - 1 - e->best < 3 || !(fell >= FALL_LEAST) || !(y[0] > y[-1]) ||
	    !(y[-1] > y[-2]) || !(y[-2] > y[-3]))
		return 0;
	return rise >= RISE_LEAST * e->scale && rise >= METRIC_ERRORS * e->sigma
		       ? fmin(0.9, 0.6 + rise / e->scale)
		       : 0;
}

/* How well an evaluation reports overfitting: a loss best, one whose direction only its course shows least. */
static int weight(const struct series_watch *w)
{
	return w->role == PLIM_ROLE_VAL_LOSS ? 2 : w->course != SERIES_BY_COURSE;
}

/* One overfitting is one finding: of the evaluation that shows it best. */
static bool told_by_other(struct series_monitor *m, const struct series_watch *w)
{
	bool told = false;

	for (size_t i = 0; i < m->findings.n; i++) {
		struct series_finding *f = &m->findings.at[i];

		if (f->id != PLIM_CURVES_OVERFIT || f->taken_back || !isnan(f->end))
			continue;
		if (weight(&m->watches.at[f->series]) < weight(w))
			series_take_back(m, f);
		else
			told = true;
	}
	return told && w->role != PLIM_ROLE_VAL_LOSS;
}

/* Is there an evaluation whose name says which way is better?  Then one whose name does not is information. */
static bool is_information(const struct series_monitor *m, const struct series_watch *w)
{
	for (uint32_t i = 0; w->course == SERIES_BY_COURSE && i < m->watches.n; i++)
		if (m->watches.at[i].finite > 1 && weight(&m->watches.at[i]) > weight(w) &&
		    series_is_evaluated(m, i))
			return true;
	return false;
}

/* Is the training loss not a number any more?  Then no evaluation reports overfitting. */
static bool lost(struct series_monitor *m)
{
	return m->train != SERIES_NONE &&
	       (m->watches.at[m->train].bad_run || series_open(m, PLIM_CURVES_NAN, m->train));
}

static void raise_overfit(struct series_monitor *m, uint32_t series, double step, double value,
			  const struct evaluations *e, const struct stretch *s, double sure)
{
	struct series_watch *w = &m->watches.at[series];
	double fell = trained(e), later;
	struct series_finding *f;

	if (told_by_other(m, w))
		return;
	f = series_raise(m, PLIM_CURVES_OVERFIT, series, e->step[e->best], step);
	if (!f)
		return;
	/* A metric is traded for another, as precision is for recall. */
	if (w->role != PLIM_ROLE_VAL_LOSS &&
	    (series_better_later(m, series, e->step[e->best], &later) != SERIES_NONE ||
	     is_information(m, w)))
		f->severity = PLIM_SEVERITY_INFO;
	f->confidence = sure_of_overfit(w, sure, fell);
	f->kind = isnan(fell) ? OVERFIT_NO_TRAIN : fell < FALL_LEAST ? OVERFIT_GAP : OVERFIT_BOTH;
	f->number[0] = value;
	f->number[1] = e->sign * e->y[e->best];
	f->number[2] = step;
	f->number[3] = (double)(e->n - 1 - e->best) * w->history.stride;
	f->number[4] = e->t[e->best];
	f->number[5] = e->t[e->n - 1];
	f->number[6] = s->start + RISE_KEPT * s->rise;
	f->other = w->pair;
}

static void look_overfit(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f = series_open(m, PLIM_CURVES_OVERFIT, series);
	bool is_loss = w->role == PLIM_ROLE_VAL_LOSS;
	struct evaluations e;
	struct stretch s;
	double sure, fell;

	if (!isfinite(value) || (w->history.stride > 1 && w->history.open.n))
		return;
	gather_detector(m, w, step, value, w->role == PLIM_ROLE_METRIC ? -1 : 1, &e);
	if (e.n < 3)
		return;
	/* What a training loss varies by says nothing of a metric. */
	sure = risen(&e,
		     w->pair == SERIES_NONE || !is_loss ? NAN
							: noise_of_train(&m->watches.at[w->pair]),
		     is_loss ? 1 : METRIC_TIMES, &s);
	fell = trained(&e);
	if (!is_loss && !(sure > 0)) {
		sure = fell_thrice(&e, fell);
		s.start = e.base;
		s.rise = e.y[e.n - 1] - e.base;
	}
	if (f) {
		f->number[0] = value;
		f->number[2] = step;
		f->confidence = fmax(f->confidence, sure_of_overfit(w, sure, fell));
		if (e.sign * value < e.sign * f->number[1] - 0.5 * e.sigma || come_back(&e, f)) {
			f->severity = PLIM_SEVERITY_INFO;
			f->number[0] = worst_since(&e, f->step);
			series_end(m, PLIM_CURVES_OVERFIT, series, step);
		}
		return;
	}
	if (sure <= 0 || fell < -RISE_SHARED * s.rise / e.scale)
		return;
	if (is_loss || (fell >= FALL_LEAST && series_is_evaluated(m, series) && !lost(m) &&
			!series_open(m, PLIM_CURVES_COLLAPSE, series)))
		raise_overfit(m, series, step, value, &e, &s, sure);
}

/* ---- which way is better, by the course ---- */

/*
 * As the training loss fell from the first evaluation to the highest (or lowest) one, did the values go with it?  The
 * extreme that comes first counts: what follows it may be overfitting.
 */
#define COURSE_FEW 4   /* evaluations */
#define COURSE_TIE 0.9 /* correlation with the training loss */

/* Pearson's correlation with the training loss over the evaluations up to `last`; 0: there are too few. */
static double follows(const struct series_history *h, uint32_t last)
{
	double x = 0, y = 0, xx = 0, yy = 0, xy = 0, n = 0, first = NAN, end = NAN;

	for (uint32_t i = 0; i <= last; i++) {
		double u = h->at[i].other - h->at[last].other, v = h->at[i].mean - h->at[0].mean;

		if (!isfinite(u))
			continue;
		first = isnan(first) ? h->at[i].other : first;
		end = h->at[i].other;
		x += u;
		y += v;
		xx += u * u;
		yy += v * v;
		xy += u * v;
		n++;
	}
	xx -= x * x / n;
	yy -= y * y / n;
	if (n < COURSE_FEW || !(first - end >= FALL_LEAST * fabs(first)) || !(xx > 0 && yy > 0))
		return 0;
	return (xy - x * y / n) / sqrt(xx * yy);
}

enum plim_role series_course(const struct series_watch *w)
{
	const struct series_history *h = &w->history;
	uint32_t most = 0, least = 0;
	bool rises, falls;

	for (uint32_t i = 1; i < h->n; i++) {
		most = h->at[i].mean > h->at[most].mean ? i : most;
		least = h->at[i].mean < h->at[least].mean ? i : least;
	}
	rises = most && follows(h, most) < -COURSE_TIE;
	falls = least && follows(h, least) > COURSE_TIE;
	if (!rises && !falls)
		return PLIM_ROLE_OTHER;
	return rises && (!falls || most < least) ? PLIM_ROLE_METRIC : PLIM_ROLE_ERROR;
}

#define COLLAPSE_TIMES 2.0 /* validation loss over training loss */

enum {
	COLLAPSE_RATIO,
	COLLAPSE_METRIC,
	COLLAPSE_CONSTANT,
	COLLAPSE_ENTROPY,
	COLLAPSE_ZERO,
	COLLAPSE_MULTIPLE
};

#define ZEROS_LEAST 20
#define ZEROS_ALL 8     /* if there is nothing else */
#define ZEROS_SHARE 0.5 /* of all values */

/* A loss that is exactly 0 in most values: nothing is left to learn from, or it is not the loss. */
static void look_zero(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f = series_open(m, PLIM_CURVES_COLLAPSE, series);
	bool all;

	if (value == 0 && w->zeros == 1)
		w->zero_first = step;
	if (f && f->kind == COLLAPSE_ZERO) {
		f->number[0] = (double)w->zeros;
		f->number[1] = (double)w->points;
		if ((double)w->zeros < 0.8 * ZEROS_SHARE * (double)w->points) {
			f->severity = PLIM_SEVERITY_INFO;
			series_end(m, PLIM_CURVES_COLLAPSE, series, step);
		}
		return;
	}
	if (f && f->kind == COLLAPSE_CONSTANT && value != w->first) {
		f->severity = PLIM_SEVERITY_INFO;
		series_end(m, PLIM_CURVES_COLLAPSE, series, step);
	}
	if (f || series_open(m, PLIM_CURVES_NAN, series))
		return;
	/* A part of a loss may be switched off; the loss itself is not. */
	all = series == m->train && w->min == w->max && w->finite == w->points;
	if (all && value != 0 && w->points >= ZEROS_LEAST) {
		f = series_raise(m, PLIM_CURVES_COLLAPSE, series, w->first_step, step);
		if (!f)
			return;
		f->kind = COLLAPSE_CONSTANT;
		f->confidence = 0.7;
		f->number[0] = value;
	}
	if (value != 0 || w->rounded ||
	    (w->zeros < ZEROS_LEAST && !(all && w->zeros >= ZEROS_ALL)) ||
	    (double)w->zeros < ZEROS_SHARE * (double)w->points)
		return;
	f = series_raise(m, PLIM_CURVES_COLLAPSE, series, w->zero_first, step);
	if (!f)
		return;
	f->kind = COLLAPSE_ZERO;
	f->confidence = 0.7;
	f->number[0] = (double)w->zeros;
	f->number[1] = (double)w->points;
}

#define MULTIPLE_NEAR 0.06   /* of the multiple */
#define MULTIPLE_CLASSES 3.0 /* of more the logarithms lie so close that most losses are near one */
#define MULTIPLE_EVALUATIONS 4
#define MULTIPLE_LEAST 4.0 /* a training loss that stays behind is twice the validation loss, too */
#define MULTIPLE_MOST 64.0

/*
 * The training loss is k times the validation loss from the first evaluations on, and was k ln(classes) at first:
 * gradient accumulation over k batches that is not divided by k.
 */
static void look_multiple(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	const struct series_watch *train = w->pair != SERIES_NONE ? &m->watches.at[w->pair] : NULL;
	struct series_finding *f = series_open(m, PLIM_CURVES_COLLAPSE, series);
	struct evaluations e;
	double k, classes;

	if (!isfinite(value) || !train || w->negative || !(train->first > 0) ||
	    (w->finite > MULTIPLE_EVALUATIONS && !f))
		return;
	gather_detector(m, w, step, value, 1, &e);
	/* A ratio that falls while the evaluations do not get worse is not a constant factor. */
	if (f && f->kind == COLLAPSE_MULTIPLE && e.n && value <= e.y[0] &&
	    e.t[e.n - 1] / value < f->number[1] / sqrt(2))
		series_take_back(m, f);
	if (f || e.n != MULTIPLE_EVALUATIONS)
		return;
	k = exp2(round(log2(e.t[0] / e.y[0])));
	if (!(k >= MULTIPLE_LEAST && k <= MULTIPLE_MOST))
		return;
	for (size_t i = 0; i < MULTIPLE_EVALUATIONS; i++)
		if (!(fabs(e.t[i] / e.y[i] / k - 1) < 4 * MULTIPLE_NEAR))
			return;
	classes = round(exp(train->first / k));
	if (!(classes >= 2 && classes <= MULTIPLE_CLASSES) ||
	    !(fabs(train->first / (k * log(classes)) - 1) < MULTIPLE_NEAR))
		return;
	f = series_raise(m, PLIM_CURVES_COLLAPSE, series, w->first_step, step);
	if (!f)
		return;
	f->kind = COLLAPSE_MULTIPLE;
	f->confidence = 0.7;
	f->number[0] = train->first;
	f->number[1] = k;
	f->number[2] = classes;
	f->number[3] = e.t[e.n - 1] / e.y[e.n - 1];
	f->other = w->pair;
}

/* Over twice the training loss, much more so than at the best evaluation, and not because both still fall. */
static void look_ratio(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f = series_open(m, PLIM_CURVES_COLLAPSE, series);
	struct evaluations e;
	double then;

	if (!isfinite(value) || w->negative || (w->history.stride > 1 && w->history.open.n))
		return;
	gather_detector(m, w, step, value, 1, &e);
	if (e.n < 4)
		return;
	if (f) {
		bool near = e.y[e.n - 1] < COLLAPSE_TIMES * e.t[e.n - 1] &&
			    e.y[e.n - 2] < COLLAPSE_TIMES * e.t[e.n - 2];

		if (f->kind == COLLAPSE_RATIO && (near || value < f->number[1] - 0.5 * e.sigma)) {
			f->severity = PLIM_SEVERITY_INFO;
			series_end(m, PLIM_CURVES_COLLAPSE, series, step);
		}
		return;
	}
	if (e.n - 1 - e.best < 2 || !(e.t[e.best] > 0))
		return;
	then = fmax(e.base / e.t[e.best], 1);
	for (size_t i = e.n - 2; i < e.n; i++)
		if (!(e.t[i] > 0) || e.y[i] / e.t[i] < COLLAPSE_TIMES * then ||
		    e.y[i] < 1.1 * e.base + 2 * e.sigma)
			return;
	f = series_raise(m, PLIM_CURVES_COLLAPSE, series, e.step[e.n - 2], step);
	if (!f)
		return;
	f->confidence = 0.8;
	f->number[0] = value;
	f->number[1] = e.y[e.best];
	f->number[2] = e.t[e.n - 1];
	f->number[3] = e.step[e.best];
	f->other = w->pair;
}

#define COLLAPSE_SHARE 0.15 /* of the best value; an error if more is lost */
#define METRIC_SAME 5       /* evaluations that are exactly equal from the first on */

/* From 0.71 back to 0.64 a model is hardly worse than it was. */
static uint32_t weigh_collapse(const struct evaluations *e, double best)
{
	double late;

	if (e->n < 3)
		return PLIM_SEVERITY_WARNING;
	late = fmax(e->y[e->n - 1], fmax(e->y[e->n - 2], e->y[e->n - 3]));
	return best - late < COLLAPSE_SHARE * fabs(best) ? PLIM_SEVERITY_WARNING
							 : PLIM_SEVERITY_ERROR;
}

/* A metric of 1 or -1, in percent or more, may be the best there is; so may an error of 0, but a WER of 1 is not. */
static bool is_perfect(const struct series_watch *w, double value)
{
	return w->role == PLIM_ROLE_ERROR ? fabs(value) < 0.01 : fabs(value) >= 0.99;
}

static void look_metric(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f = series_open(m, PLIM_CURVES_COLLAPSE, series);
	struct evaluations e;
	double gain, late, best, held;

	if (!isfinite(value) || w->course != SERIES_NAMED ||
	    (w->history.stride > 1 && w->history.open.n))
		return;
	gather_detector(m, w, step, value, 1, &e);
	if (f) {
		if ((f->kind == COLLAPSE_CONSTANT && value != w->first) ||
		    (f->kind == COLLAPSE_METRIC && value > f->number[2])) {
			f->severity = PLIM_SEVERITY_INFO;
			series_end(m, PLIM_CURVES_COLLAPSE, series, step);
		} else if (f->kind == COLLAPSE_METRIC && f->severity == PLIM_SEVERITY_WARNING) {
			f->severity = weigh_collapse(&e, f->number[1]);
		}
		return;
	}
	if (w->finite >= METRIC_SAME && w->min == w->max && !is_perfect(w, value)) {
		f = series_raise(m, PLIM_CURVES_COLLAPSE, series, w->first_step, step);
		if (f) {
			f->kind = COLLAPSE_CONSTANT;
			f->confidence = 0.6;
			f->number[0] = value;
			f->number[1] = (double)w->finite;
		}
		return;
	}
	if (e.n < 6 || w->role == PLIM_ROLE_ERROR) /* what errors lose is a matter of overfitting */
		return;
	best = -INFINITY;
	/* Three in a row must have had what was gained, as three are asked that lost it: else it was noise. */
	held = best;
	for (size_t i = 0; i + 3 < e.n; i++)
		best = fmax(best, e.y[i]);
	for (size_t i = 0; i + 5 < e.n; i++)
		held = fmax(held, fmin(e.y[i], fmin(e.y[i + 1], e.y[i + 2])));
	gain = held - e.y[0];
	late = fmax(e.y[e.n - 1], fmax(e.y[e.n - 2], e.y[e.n - 3]));
	if (gain < 8 * e.sigma || late > e.y[0] + 0.4 * gain || gain < 0.05 * fabs(best))
		return;
	f = series_raise(m, PLIM_CURVES_COLLAPSE, series, e.step[e.n - 3], step);
	if (!f)
		return;
	series_take_back(m, series_open(m, PLIM_CURVES_OVERFIT, series));
	f->kind = COLLAPSE_METRIC;
	f->severity = weigh_collapse(&e, best);
	f->confidence = 0.85;
	f->number[0] = value;
	f->number[1] = best;
	f->number[2] = e.y[0] + 0.7 * gain;
	f->number[3] = e.y[0];
}

/* A policy whose entropy fell to a tenth of where it began. */
static void look_entropy(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	const struct series_cell *c = w->history.at;
	uint32_t n = w->history.n;
	double first, last;
	struct series_finding *f;

	if (!isfinite(value) || w->history.open.n || n < 16 || w->first <= 0)
		return;
	first = (c[0].mean + c[1].mean + c[2].mean + c[3].mean) / 4;
	last = (c[n - 1].mean + c[n - 2].mean + c[n - 3].mean + c[n - 4].mean) / 4;
	if (last >= 0.1 * first || series_open(m, PLIM_CURVES_COLLAPSE, series))
		return;
	f = series_raise(m, PLIM_CURVES_COLLAPSE, series, c[n - 4].step, step);
	if (!f)
		return;
	f->kind = COLLAPSE_ENTROPY;
	f->confidence = 0.7;
	f->number[0] = last;
	f->number[1] = first;
}

/* ---- plateau ---- */

/*
 * Over the last fifth of at least 48 values the loss improved by less than half a percent, no line through them
 * falls by more than 1.5 of its standard errors, and the learning rate is not small already.
 */
#define PLATEAU_VALUES 48
#define PLATEAU_CELLS 40
#define PLATEAU_LEAST 0.005
#define PLATEAU_STUCK 0.03 /* never better than that: it does not learn at all */
#define PLATEAU_STILL \
	0.01 /* all values of the main loss lie within that, whether they fall or not */

enum { PLATEAU_LATE, PLATEAU_STUCK_AT_START };

/* The learning rate now, of its largest; NaN: not logged. */
static double rate_left(const struct series_monitor *m)
{
	for (uint32_t i = 0; i < m->watches.n; i++) {
		const struct series_watch *w = &m->watches.at[i];

		if (w->role == PLIM_ROLE_LEARNING_RATE && w->finite && w->max > 0)
			return w->last / w->max;
	}
	return NAN;
}

static void look_plateau(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f = series_open(m, PLIM_CURVES_PLATEAU, series);
	double y[SERIES_CELLS], t, early, late, sigma, gain, left;
	size_t n, fifth;
	bool still =
		series == m->train && w->max - w->min < PLATEAU_STILL * w->min && w->max > w->min;

	if (!isfinite(value) || w->negative || w->history.open.n || w->points < PLATEAU_VALUES ||
	    w->history.n < PLATEAU_CELLS)
		return;
	n = cells_of(w, y, false);
	fifth = n / 5;
	late = mean(y + n - fifth / 2, fifth / 2);
	if (f) {
		if (late < log(f->number[0]) - fmax(0.02, 2 * f->number[2]))
			series_end(m, PLIM_CURVES_PLATEAU, series, step);
		return;
	}
	early = mean(y + n - fifth, fifth / 2);
	sigma = wander(y, n);
	slope(y + n - fifth, fifth, sigma, &t);
	left = rate_left(m);
	if (!still && (fabs(early - late) > PLATEAU_LEAST + sigma * sqrt(4.0 / (double)fifth) ||
		       early - late > PLATEAU_LEAST || t < -1.5 || left < 0.3))
		return;
	if (isnan(early) || isinf(late))
		return;
	/* Noise must not hide the improvement that is asked for, of four times the least. */
	if (!still && sigma * sqrt(4.0 / (double)fifth) > 4 * PLATEAU_LEAST)
		return;
	gain = mean(y, FOUR) - late;
	f = series_raise(m, PLIM_CURVES_PLATEAU, series, w->history.at[n - fifth].step, step);
	if (!f)
		return;
	f->kind = gain < PLATEAU_STUCK ? PLATEAU_STUCK_AT_START : PLATEAU_LATE;
	f->severity = f->kind == PLATEAU_LATE ? PLIM_SEVERITY_INFO : PLIM_SEVERITY_WARNING;
	f->confidence = isnan(left) ? 0.5 : 0.7;
	f->number[0] = exp(late);
	f->number[1] = early - late;
	f->number[2] = sigma;
	f->number[3] = left;
	f->number[4] = exp(mean(y, FOUR));
}

/* ---- learning rate ---- */

#define RATE_ZEROS 5 /* logs in a row: a schedule that ends at 0 logs one */

#define RATE_CELLS 8    /* of the loss since the rate was 0 */
#define RATE_ERRORS 4.0 /* standard errors of its fall: the rate is small, and rounded to 0 */

enum { RATE_ZERO, RATE_NEGATIVE };

/* 1e-05 behind 7e-05: as few digits as that show a smaller rate as 0. */
static bool is_last_digit(double rate, double most)
{
	double digit = log10(rate), times = most / rate;

	return rate > 0 && fabs(digit - round(digit)) < 1e-9 && times > 1.5 &&
	       fabs(times - round(times)) < 1e-6;
}

/* Does the training loss go on falling from `since` on? */
static bool falls_on(const struct series_monitor *m, double since)
{
	double y[SERIES_CELLS], t;
	size_t n = 0;

	for (uint32_t i = 0; m->train != SERIES_NONE && i < m->watches.at[m->train].history.n;
	     i++) {
		const struct series_cell *c = &m->watches.at[m->train].history.at[i];

		if (c->step >= since)
			y[n++] = c->mean;
	}
	return n >= RATE_CELLS && slope(y, n, 0, &t) < 0 && t < -RATE_ERRORS;
}

static void look_rate(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	struct series_finding *f;
	double before = w->ring_n ? w->ring[(w->ring_at + SERIES_RING - 1) % SERIES_RING] : NAN;

	if (!isfinite(value))
		return;
	if (value != 0) {
		w->zero_run = 0;
		f = series_open(m, PLIM_CURVES_LEARNING_RATE, series);
		if (f && f->kind == RATE_ZERO)
			series_end(m, PLIM_CURVES_LEARNING_RATE, series, step);
	} else if (!w->zero_run++) {
		w->zero_step = step;
		w->rounded |= is_last_digit(before, w->max);
	} else if (w->max == 0 && series_open(m, PLIM_CURVES_LEARNING_RATE, series) &&
		   falls_on(m, w->zero_step)) {
		w->rounded = 1;
		series_take_back(m, series_open(m, PLIM_CURVES_LEARNING_RATE, series));
	}
	/* For others: it rises again to where it was, as warm restarts do. */
	if (value > 0 && value > 1.5 * before && value <= 1.01 * w->max && w->points > 3) {
		w->jump_step = step;
		w->jumps = 1;
	}
	if ((w->zero_run == RATE_ZEROS && !w->rounded) || value < 0) {
		f = series_raise(m, PLIM_CURVES_LEARNING_RATE, series,
				 value < 0 ? step : w->zero_step, step);
		if (f && f->detected == step) {
			f->kind = value < 0 ? RATE_NEGATIVE : RATE_ZERO;
			f->severity = value < 0 ? PLIM_SEVERITY_ERROR : PLIM_SEVERITY_WARNING;
			f->confidence = 0.9;
			f->number[0] = value;
			f->number[1] = before;
		}
	}
}

/* ---- GradScaler ---- */

/*
 * torch's GradScaler halves its scale when it skips a step and doubles it after 2000 clean ones, so one skip in
 * some 2000 steps is how it works.  8 halvings within 160 steps are over 5 %; a scale below 1, or ten
 * halvings without a doubling, mean that the values themselves are not finite.
 */
#define SKIPS_SHARE 0.05
#define SKIPS_STEPS 200.0
#define HALVINGS 10

enum { SKIPS_MANY, SKIPS_SMALL, SKIPS_NO_RECOVERY };

static void raise_skips(struct series_monitor *m, uint32_t series, double began, double step,
			uint32_t kind, double number)
{
	struct series_finding *f = series_raise(m, PLIM_CURVES_SCALER_SKIPS, series, began, step);

	if (!f || f->detected != step || f->number[0] != 0)
		return;
	f->kind = kind;
	f->severity = kind == SKIPS_MANY ? PLIM_SEVERITY_WARNING : PLIM_SEVERITY_ERROR;
	f->confidence = 0.9;
	f->number[0] = number;
	f->number[1] = m->watches.at[series].last;
}

static void look_scale(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	double before = w->ring_n ? w->ring[(w->ring_at + SERIES_RING - 1) % SERIES_RING] : NAN;
	double before_step =
		w->ring_n ? w->ring_step[(w->ring_at + SERIES_RING - 1) % SERIES_RING] : NAN;
	double halvings;

	if (!isfinite(value) || !(value > 0) || isnan(before) || !(before > 0)) {
		if (value == 0 && before > 0)
			raise_skips(m, series, step, step, SKIPS_SMALL, 1e-300);
		return;
	}
	halvings = round(log2(before / value));
	if (halvings < 0) {
		w->same_run = 0;
		w->sum = 0;
		if (w->open[PLIM_CURVES_SCALER_SKIPS] && value >= 1)
			series_end(m, PLIM_CURVES_SCALER_SKIPS, series, step);
	}
	if (halvings > 0 && w->sum == 0)
		w->bad_step = step;
	w->sum += halvings > 0 ? halvings : 0;
	/* The search at the start, from 65536 (or 2^32) down to what fits, is one of these too. */
	if (value < 1 && before >= 1)
		raise_skips(m, series, w->bad_step, step, SKIPS_SMALL, value);
	else if (w->sum >= HALVINGS && w->finite > 20 && w->bad_step > w->first_step + SKIPS_STEPS)
		raise_skips(m, series, w->bad_step, step, SKIPS_NO_RECOVERY, w->sum);
	for (int left = halvings > 0 ? (int)fmin(ceil(halvings), 2048) : 0; left > 0; left--) {
		memmove(w->lows, w->lows + 1, sizeof(w->lows) - sizeof(*w->lows));
		w->lows[7] = left > 1 ? before_step : step;
		w->skips += w->skips < 8;
	}
	if (w->skips == 8 && w->lows[0] > w->first_step + SKIPS_STEPS &&
	    step - w->lows[0] < 8 / SKIPS_SHARE)
		raise_skips(m, series, w->lows[0], step, SKIPS_MANY,
			    8 / fmax(step - w->lows[0], 8));
}

/* A count of skipped steps, of the last log interval or since the start. */
static void look_skipped(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	double steps, skips;
	uint32_t n = w->ring_n, from = (w->ring_at + SERIES_RING - n) % SERIES_RING;
	bool counts_up = w->finite > 4 && w->last >= w->max && w->min < w->max;

	if (!isfinite(value) || n < 8)
		return;
	steps = step - w->ring_step[from];
	if (counts_up) {
		skips = value - w->ring[from];
	} else {
		skips = value;
		for (uint32_t i = 1; i < n; i++)
			skips += w->ring[(from + i) % SERIES_RING];
	}
	if (steps >= SKIPS_STEPS / 2 && skips >= 8 && skips > SKIPS_SHARE * steps &&
	    w->ring_step[from] > w->first_step)
		raise_skips(m, series, w->ring_step[from], step, SKIPS_MANY, skips / steps);
}

/* ---- memory ---- */

/*
 * After the first fifth, the smallest values of six equal parts rise one after the other, by 5 % in all and as
 * fast at the end as before: caches and longer batches level off, leaks do not.
 */
#define CREEP_CELLS 30
#define CREEP_VALUES 34
#define CREEP_PARTS 6
#define CREEP_LASTS 0.4 /* of what it has grown by, in the last two parts: as fast as before */
#define CREEP_LEAST 0.05

static void look_memory(struct series_monitor *m, uint32_t series, double step, double value)
{
	struct series_watch *w = &m->watches.at[series];
	const struct series_cell *c = w->history.at;
	double low[CREEP_PARTS], y[SERIES_CELLS], grown, sigma;
	uint32_t n = w->history.n, from = n / 5, each = (n - from) / CREEP_PARTS;
	struct series_finding *f = series_open(m, PLIM_CURVES_MEMORY_CREEP, series);

	if (!isfinite(value) || w->history.open.n || n < CREEP_CELLS || w->finite < CREEP_VALUES)
		return;
	from = n - each * CREEP_PARTS;
	for (uint32_t i = 0; i < CREEP_PARTS; i++) {
		low[i] = INFINITY;
		for (uint32_t j = 0; j < each; j++)
			low[i] = fmin(low[i], c[from + i * each + j].min);
	}
	grown = low[CREEP_PARTS - 1] - low[0];
	if (f) {
		f->number[0] = value;
		f->number[2] = step;
		/* It fell, or levelled off: no leak. */
		if (low[5] < f->number[3] || low[5] - low[3] < 0.15 * grown) {
			f->severity = PLIM_SEVERITY_INFO;
			series_end(m, PLIM_CURVES_MEMORY_CREEP, series, step);
		}
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		y[i] = c[i].min;
	sigma = noise(y + from, n - from);
	for (uint32_t i = 1; i < CREEP_PARTS; i++)
		if (low[i] <= low[i - 1])
			return;
	if (grown < CREEP_LEAST * fabs(low[0]) || grown < 3 * sigma ||
	    low[5] - low[3] < CREEP_LASTS * grown || low[5] - low[4] < 0.08 * grown)
		return;
	f = series_raise(m, PLIM_CURVES_MEMORY_CREEP, series, c[from].step, step);
	if (!f)
		return;
	f->confidence = fmin(0.95, 0.6 + 0.5 * grown / fabs(low[0]));
	f->number[0] = low[CREEP_PARTS - 1];
	f->number[1] = low[0];
	f->number[2] = step;
	f->number[3] = low[0] + 0.3 * grown;
	f->number[4] = c[from].step;
}

/* ---- the table ---- */

#define BIT(role) (1u << PLIM_ROLE_##role)

const struct series_detector series_detectors[] = {
	{ BIT(TRAIN_LOSS) | BIT(VAL_LOSS) | BIT(METRIC) | BIT(ERROR) | BIT(GRAD_NORM) |
		  BIT(LEARNING_RATE),
	  look_finite, "nan, inf",
	  "a value that is NaN or infinite; of gradient norms three in a row",
	  "keras.callbacks.TerminateOnNaN" },
	{ BIT(TRAIN_LOSS), look_hidden, "nan",
	  "a loss of exactly 0 twice next to a gradient norm of NaN, or three times after a loss "
	  "over 0.02, and for good",
	  "transformers' logging_nan_inf_filter logs 0 where all losses of an interval are NaN" },
	{ BIT(TRAIN_LOSS), look_spike, "spike",
	  "6 spreads over the median of the last 64 values, by a tenth, and above all of them; or "
	  "a sum of smaller ones",
	  "OLMo-core SkipStepOptimizer (6 standard deviations of 128)" },
	{ BIT(TRAIN_LOSS), look_bump, "spike",
	  "when it is over: a line with a bump of 5 to 20 values explains the log by 5.5 standard "
	  "errors better than one without",
	  "least squares with a step (Chow 1960), noise by AR(1)" },
	{ BIT(TRAIN_LOSS), look_diverged, "diverged",
	  "4, 8 or 16 cells of the history are over the lowest so many by 1.2 times and 6.2 "
	  "standard errors, and do not fall or never were as low as at first",
	  "PaLM section 5.1; llm-foundry KillLossSpike" },
	{ BIT(GRAD_NORM), look_explosion, "explosion",
	  "three of five norms over ten times the median and 6 spreads, or one over a hundred "
	  "times",
	  "ZClip (z of an average); OLMo-core" },
	{ BIT(TRAIN_LOSS), look_before, "explosion",
	  "norms over three times the median and 6 spreads in the five logs before a spike or NaN",
	  "PaLM section 5.1" },
	{ BIT(VAL_LOSS) | BIT(METRIC) | BIT(ERROR), look_overfit, "overfit",
	  "behind its best the validation loss or metric worsens by 2 % along a line with 2.5 "
	  "standard errors (more of many evaluations), and the training loss does not rise with "
	  "it; or a metric worsens three times in a row while the training loss falls",
	  "generalised likelihood ratio (Willsky and Jones 1976); Prechelt, Early Stopping - But "
	  "When? (1998)" },
	{ BIT(VAL_LOSS), look_ratio, "collapse",
	  "validation loss over twice training loss, twice the ratio at the best evaluation, and a "
	  "tenth worse than it",
	  "common practice" },
	{ BIT(METRIC) | BIT(ERROR), look_metric, "collapse",
	  "a metric that loses for three evaluations 60 % of what three held, or is the same "
	  "number "
	  "in five from the first",
	  "common practice" },
	{ BIT(TRAIN_LOSS), look_zero, "collapse",
	  "a training loss of exactly 0 in half of 20 values or more",
	  "nothing is left to learn from, or another number is logged" },
	{ BIT(VAL_LOSS), look_multiple, "collapse",
	  "the training loss is 2, 4, 8 ... times the validation loss in the first two "
	  "evaluations, and "
	  "was as many times ln(classes) at first",
	  "huggingface/transformers#47688: accumulation that multiplies the gradient" },
	{ BIT(ENTROPY), look_entropy, "collapse", "entropy of a policy below a tenth of its start",
	  "common practice" },
	{ BIT(TRAIN_LOSS), look_plateau, "plateau",
	  "less than 0.5 % better over the last fifth, with the learning rate over 30 % of its "
	  "largest",
	  "torch ReduceLROnPlateau, by trend" },
	{ BIT(LEARNING_RATE), look_rate, "learning_rate", "exactly 0 in five logs, or negative",
	  "schedulers past their last step" },
	{ BIT(LOSS_SCALE), look_scale, "scaler_skips",
	  "8 halvings within 160 steps, a scale below 1, or ten halvings without a doubling",
	  "torch.amp.GradScaler (growth 2 after 2000 steps, backoff 0.5)" },
	{ BIT(SKIPPED_STEPS), look_skipped, "scaler_skips", "over 5 % of steps skipped",
	  "torch.amp.GradScaler" },
	{ BIT(MEMORY), look_memory, "memory_creep",
	  "the smallest values of six parts rise one after the other, by 5 % and to the end",
	  "plimsoll report (staircase)" },
};
const size_t series_detector_count = sizeof(series_detectors) / sizeof(*series_detectors);
