/*
 * Memory that climbs.  A number over time is kept as the least of each bin, so that peaks of batches, evaluations and saves vanish;
 * the bins become twice as long whenever there are too many.  The most of each bin is kept next to it: a floor that climbs is not
 * what kills a job, the first spike above it that finds no room does.
 *
 * The slope is Theil and Sen's: the median of the slopes between all pairs of blocks, its interval from Kendall's variance
 * (Sen 1968).  It says "climbs" only where the floor rose several times, does so in the later half as in the earlier, and still
 * does at the end: warm-up saturates, caches fill and stay.
 */
#include "watch/watch.h"

#define BLOCKS 24
#define LEAST_RISES 4
#define LEAST_SECONDS 60
#define Z95 1.959964
#define MODEL 0.03 /* that allocators take whole segments, and samples come a second late */

static void forget_watch_series(struct watch_series *s, unsigned from)
{
	for (unsigned i = from; i < WATCH_BINS; i++) {
		s->low[i] = s->step[i] = PLIM_UNKNOWN;
		s->high[i] = 0;
	}
}

void watch_series_init(struct watch_series *s)
{
	*s = (struct watch_series){ .width = 1 };
	forget_watch_series(s, 0);
}

static void halve(struct watch_series *s)
{
	for (unsigned i = 0; i < WATCH_BINS / 2; i++) {
		s->low[i] = s->low[2 * i] < s->low[2 * i + 1] ? s->low[2 * i] : s->low[2 * i + 1];
		s->high[i] =
			s->high[2 * i] > s->high[2 * i + 1] ? s->high[2 * i] : s->high[2 * i + 1];
		s->step[i] =
			s->step[2 * i + 1] != PLIM_UNKNOWN ? s->step[2 * i + 1] : s->step[2 * i];
	}
	s->n = WATCH_BINS / 2;
	s->width *= 2;
	forget_watch_series(s, s->n);
}

void watch_series_add(struct watch_series *s, double time, uint64_t value, uint64_t step)
{
	double bin;
	unsigned i;

	if (value == PLIM_UNKNOWN || !isfinite(time) || (s->n && time < s->last))
		return;
	/* Nothing is known of a gap (a suspended machine): no slope goes across it. */
	if (s->n && time - s->last > 60 && time - s->last > 3 * s->width)
		watch_series_init(s);
	if (!s->n)
		s->start = time;
	while ((bin = floor((time - s->start) / s->width)) >= WATCH_BINS)
		halve(s);
	i = (unsigned)bin;
	s->n = i < s->n ? s->n : i + 1;
	if (value < s->low[i])
		s->low[i] = value;
	if (value > s->high[i])
		s->high[i] = value;
	if (step != PLIM_UNKNOWN)
		s->step[i] = step;
	s->last = time;
	s->newest = value;
}

void watch_series_spike(struct watch_series *s, uint64_t value)
{
	if (s->n && value != PLIM_UNKNOWN && value > s->high[s->n - 1])
		s->high[s->n - 1] = value;
}

struct block {
	double time, low;
	double low_time;   /* of the bin that has it */
	unsigned from, to; /* its bins */
	double step;       /* NaN: not known */
};

static double time_of(const struct watch_series *s, unsigned bin)
{
	return s->start + (bin + 0.5) * s->width;
}

/* The series as BLOCKS blocks of equal length, the first quarter (warm-up) left out. */
static unsigned blocks_of(const struct watch_series *s, struct block *out)
{
	double bins = (double)s->n / BLOCKS;
	unsigned n = 0;

	for (unsigned b = BLOCKS / 4; b < BLOCKS; b++) {
		unsigned from = (unsigned)(b * bins), to = (unsigned)((b + 1) * bins);
		struct block x = { NAN, INFINITY, NAN, from, to < s->n ? to : s->n, NAN };

		for (unsigned i = from; i < x.to; i++) {
			if (s->low[i] == PLIM_UNKNOWN)
				continue;
			if ((double)s->low[i] < x.low) {
				x.low = (double)s->low[i];
				x.low_time = time_of(s, i);
			}
			if (s->step[i] != PLIM_UNKNOWN)
				x.step = (double)s->step[i];
			x.time = s->start + (b + 0.5) * bins * s->width;
		}
		if (isfinite(x.low))
			out[n++] = x;
	}
	return n;
}

static int watch_series_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_slope(const struct block *b, unsigned n, double *low, double *high)
{
	double slopes[BLOCKS * BLOCKS / 2], c;
	unsigned m = 0, lower, upper;

	for (unsigned i = 0; i < n; i++)
		for (unsigned j = i + 1; j < n; j++)
			if (b[j].time > b[i].time)
				slopes[m++] = (b[j].low - b[i].low) / (b[j].time - b[i].time);
	if (!m)
		return *low = *high = 0;
	qsort(slopes, m, sizeof(*slopes), watch_series_by_value);
	c = Z95 * sqrt(n * (n - 1.0) * (2.0 * n + 5) / 18);
	lower = m > c ? (unsigned)((m - c) / 2) : 0;
	upper = (unsigned)((m + c) / 2) + 1;
	*low = slopes[lower];
	*high = slopes[upper < m ? upper : m - 1];
	return m % 2 ? slopes[m / 2] : (slopes[m / 2 - 1] + slopes[m / 2]) / 2;
}

/*
 * How often the floor rose, and whether that goes on: there is a rise in the last quarter, and the later half has four fifths of
 * the earlier one's, less one of its smallest rises (an allocator takes whole segments).
 */
static unsigned rises_of(const struct block *b, unsigned n, bool *still)
{
	unsigned rises = 0, last = 0, half = n / 2;
	double earlier = b[half].low - b[0].low, later = b[n - 1].low - b[half].low;
	double most = b[0].low, least = INFINITY;

	for (unsigned i = 1; i < n; i++)
		if (b[i].low > most) {
			least = fmin(least, b[i].low - most);
			most = b[i].low;
			rises++;
			last = i;
		}
	*still = rises && last >= n - n / 4 && later >= 0.8 * earlier - least;
	return rises;
}

/* The floor now and then: the line of the middle slope, as high as the median of the later blocks puts it. */
static double floor_at_zero(const struct block *b, unsigned n, double slope)
{
	double floors[BLOCKS];
	unsigned m = 0;

	for (unsigned i = n / 2; i < n; i++)
		floors[m++] = b[i].low - slope * b[i].low_time;
	qsort(floors, m, sizeof(*floors), watch_series_by_value);
	return floors[m / 2];
}

/*
 * What stands above the floor: now; the highest that may come, as far above the highest seen as that is above the usual one of a block
 * (batches differ in length without an end); what each of the later blocks reaches, with the longest time between two moments that
 * reach it.
 */
static void spikes_of(const struct watch_series *s, const struct block *b, unsigned n,
		      struct watch_slope *out)
{
	double floor = floor_at_zero(b, n, out->middle), before, spikes[BLOCKS];
	unsigned later = n / 2;

	out->above = fmax(0, (double)s->newest - floor - out->middle * s->last);
	out->spike_low = INFINITY;
	for (unsigned i = 0; i < n; i++) {
		double most = 0;

		for (unsigned k = b[i].from; k < b[i].to; k++)
			most = fmax(most, (double)s->high[k] - floor - out->middle * time_of(s, k));
		spikes[i] = most;
		if (i >= later)
			out->spike_low = fmin(out->spike_low, most);
	}
	qsort(spikes, n, sizeof(*spikes), watch_series_by_value);
	out->spike_high = 2 * spikes[n - 1] - spikes[n / 2];
	before = time_of(s, b[later].from);
	for (unsigned k = b[later].from; k < s->n; k++)
		if ((double)s->high[k] - floor - out->middle * time_of(s, k) >= out->spike_low) {
			out->spike_every = fmax(out->spike_every, time_of(s, k) - before);
			before = time_of(s, k);
		}
}

static double seconds_a_step(const struct block *b, unsigned n)
{
	unsigned first = 0, last = n - 1;

	while (first < last && isnan(b[first].step))
		first++;
	while (last > first && isnan(b[last].step))
		last--;
	return b[last].step > b[first].step
		       ? (b[last].time - b[first].time) / (b[last].step - b[first].step)
		       : NAN;
}

void watch_series_slope(const struct watch_series *s, struct watch_slope *out)
{
	struct block b[BLOCKS];
	unsigned n = blocks_of(s, b);
	double later, low, high;
	bool still;

	*out = (struct watch_slope){ .step_seconds = NAN };
	if (n < BLOCKS / 2 || s->last - s->start < LEAST_SECONDS)
		return;
	out->since = b[0].time;
	out->seconds = b[n - 1].time - b[0].time;
	out->middle = median_slope(b, n, &out->low, &out->high);
	/* Sen's interval is of a straight line; what bends shows in its later half. */
	later = median_slope(b + n / 2, n - n / 2, &low, &high);
	out->low = fmin(out->low, (later + low) / 2) * (1 - MODEL);
	out->high = fmax(out->high, (later + high) / 2) * (1 + MODEL);
	out->rises = rises_of(b, n, &still);
	spikes_of(s, b, n, out);
	out->step_seconds = seconds_a_step(b, n);
	out->climbs = out->low > 0 && still && out->rises >= LEAST_RISES;
}

/*
 * A cache that fills, a tooth of a saw and warm-up climb as a leak does until they stop.  Nothing distinguishes them but time: a
 * forecast that reaches four times as far as what was seen is a guess.
 */
enum plim_watch_confidence watch_slope_confidence(const struct watch_slope *slope,
						  double room_bytes)
{
	double left = room_bytes / slope->middle;

	if (!slope->climbs || !(left <= 4 * slope->seconds))
		return PLIM_WATCH_LOW;
	return left <= 1.5 * slope->seconds ? PLIM_WATCH_HIGH : PLIM_WATCH_MEDIUM;
}
