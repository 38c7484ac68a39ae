/*
 * When memory will be full: what is left, over how fast the floor of what is used climbs (series.c).  Nothing is said of memory that
 * does not climb steadily, nor of what would take longer than a day.
 */
#include "watch/watch.h"

#include <stdio.h>

#define DAY 86400.0
#define SPIKE 0.05 /* of all growth that was seen: spikes below it are not reported */

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a == PLIM_UNKNOWN || b == PLIM_UNKNOWN ? PLIM_UNKNOWN : a > b ? a - b : 0;
}

static uint64_t card_room(const struct watch_sample *s)
{
	uint64_t used = minus(s->card.total_bytes, s->card.used_bytes);

	return minus(used, s->card.reserved_bytes == PLIM_UNKNOWN ? 0 : s->card.reserved_bytes);
}

/* What PyTorch can still allocate: what its cache holds unused, and the GPU's rest. */
static uint64_t pytorch_room(const struct watch_sample *s)
{
	uint64_t card = card_room(s),
		 cache = minus(s->gauge.reserved_bytes, s->gauge.allocated_bytes);
	uint64_t own = minus(s->gauge.limit_bytes, s->gauge.allocated_bytes);
	uint64_t both = card == PLIM_UNKNOWN || cache == PLIM_UNKNOWN ? PLIM_UNKNOWN : card + cache;

	return own < both ? own : both;
}

static uint64_t cgroup_room(const struct watch_sample *s)
{
	return minus(s->host.limit_bytes, s->host.limit_used_bytes);
}

static uint64_t machine_room(const struct watch_sample *s)
{
	return s->host.available_bytes;
}

static uint64_t shm_room(const struct watch_sample *s)
{
	return minus(s->host.shm_total_bytes, s->host.shm_used_bytes);
}

static const struct {
	enum plim_watch_bound bound;
	const char *what, *room, *meaning;
	uint64_t (*left)(const struct watch_sample *s);
} kinds[WATCH_MEM_COUNT] = {
	[WATCH_MEM_GPU] = { PLIM_WATCH_BOUND_GPU,
			    "GPU memory that the job has taken from the driver", "left on the GPU",
			    "from outside it cannot be known whether tensors leak or the "
			    "allocator's cache grows; plimsoll.attach() in the job shows",
			    card_room },
	[WATCH_MEM_GAUGE] = { PLIM_WATCH_BOUND_PROCESS, "GPU memory allocated by PyTorch",
			      "that PyTorch can still have",
			      "allocated memory at its lowest points climbs: tensors are kept; a "
			      "recording names the line (plimsoll record)",
			      pytorch_room },
	[WATCH_MEM_CGROUP] = { PLIM_WATCH_BOUND_CGROUP, "host memory of the control group",
			       "left below its limit",
			       "page cache that can be dropped is not counted", cgroup_room },
	[WATCH_MEM_MACHINE] = { PLIM_WATCH_BOUND_MACHINE, "host memory of the job's processes",
				"available on the machine",
				"lists, caches or pinned buffers that grow, or objects that forked "
				"workers touch",
				machine_room },
	[WATCH_MEM_SHM] = { PLIM_WATCH_BOUND_SHM, "/dev/shm", "left in /dev/shm",
			    "batches that workers made and no one took, or files of processes that "
			    "were killed",
			    shm_room },
};

static uint64_t forecast_whole(double v)
{
	return v >= 0 && v < 1e18 ? (uint64_t)v : PLIM_UNKNOWN;
}

/* "35 to 48 min", each end in the unit of the larger. */
static void duration(char *out, size_t room, const struct plim_interval *s)
{
	double low = (double)s->low, high = s->high == PLIM_UNKNOWN ? INFINITY : (double)s->high;
	double unit = high >= 7200 ? 3600 : high >= 120 ? 60 : 1;
	const char *name = unit == 3600 ? "h" : unit == 60 ? "min" : "s";

	if (!isfinite(high))
		snprintf(out, room, "no less than %.0f min", low / 60);
	else if (unit == 3600)
		snprintf(out, room, "%.1f to %.1f %s", low / unit, high / unit, name);
	else
		snprintf(out, room, "%.0f to %.0f %s", floor(low / unit), ceil(high / unit), name);
}

/*
 * What PyTorch's cache holds next to the floor: where it lies in pieces that are too small, the job dies with that much unused.
 * Whether it does cannot be seen from outside, so it counts for the early end alone.
 */
static double scattered(unsigned kind, const struct watch_sample *now,
			const struct watch_slope *slope)
{
	uint64_t cache = minus(now->gauge.reserved_bytes, now->gauge.allocated_bytes);

	if (kind != WATCH_MEM_GAUGE || cache == PLIM_UNKNOWN)
		return 0;
	return (double)cache + slope->above;
}

static enum plim_status put_forecast_words(struct plim_watch_forecast *f,
					   const struct watch_slope *slope, double cache,
					   unsigned kind, struct arena *arena, struct plim_err *err)
{
	struct lines evidence = { .arena = arena, .err = err };
	char when[64], growth[32], room[32], spike[32], steps[96] = "", low[32], high[32];

	duration(when, sizeof(when), &f->seconds_range);
	text_size(growth, forecast_whole(slope->middle * 60));
	text_size(room, f->room_bytes);
	if (f->step_range.low != PLIM_UNKNOWN && f->step_range.high != PLIM_UNKNOWN)
		snprintf(steps, sizeof(steps), " (step %s to %s)",
			 text_number(low, f->step_range.low),
			 text_number(high, f->step_range.high));
	f->title =
		f->confidence == PLIM_WATCH_LOW
			? arena_text(arena, err,
				     "%s grows by %s a minute; where it ends cannot be known yet",
				     kinds[kind].what, growth)
			: arena_text(arena, err, "%s grows: full in %s%s", kinds[kind].what, when,
				     steps);
	lines_add(&evidence, "its lowest points climb by %s a minute, %u rises in %.0f min", growth,
		  slope->rises, slope->seconds / 60);
	lines_add(&evidence, "%s %s", room, kinds[kind].room);
	if (slope->spike_high > SPIKE * slope->middle * slope->seconds)
		lines_add(&evidence,
			  "spikes stand up to %s above these points; it ends in the first one that "
			  "finds no room",
			  text_size(spike, forecast_whole(slope->spike_high)));
	if (cache > SPIKE * slope->middle * slope->seconds)
		lines_add(&evidence,
			  "PyTorch's cache has %s next to them: in pieces too small for a request, "
			  "it "
			  "ends that much earlier",
			  text_size(spike, forecast_whole(cache)));
	if (f->confidence == PLIM_WATCH_LOW)
		lines_add(&evidence, "if it went on like this, it would be full in %s%s", when,
			  steps);
	lines_add(&evidence, "%s", kinds[kind].meaning);
	return f->title ? lines_keep(&evidence, &f->evidence, &f->evidence_count) : mem_status(err);
}

/* Limits of the host are looked at every so many seconds (look.c): the newest number may be that old, and the end that much nearer. */
static double age_of(unsigned kind)
{
	return kind == WATCH_MEM_CGROUP || kind == WATCH_MEM_SHM ? 5 : 0;
}

static bool foresee(const struct watch_job *j, unsigned kind, struct watch_slope *slope,
		    struct plim_watch_forecast *f)
{
	const struct watch_sample *now = watch_job_last(j);
	double left, low, high;

	watch_series_slope(&j->series[kind], slope);
	*f = (struct plim_watch_forecast){
		.bound = kinds[kind].bound,
		.what = kinds[kind].what,
		.room_bytes = kinds[kind].left(now),
		.growth_bytes_per_hour_range = { forecast_whole(slope->low * 3600),
						 forecast_whole(slope->high * 3600) },
		.step_range = INTERVAL_UNKNOWN,
		.since = slope->since
	};
	if (!slope->climbs || f->room_bytes == PLIM_UNKNOWN)
		return false;
	/* Of the floor; the job dies of the first spike above it that finds no room. */
	left = (double)f->room_bytes + slope->above;
	low = fmax(0, left - slope->spike_high - scattered(kind, now, slope)) / slope->high;
	low = fmax(0, low - age_of(kind));
	high = fmax(0, left - slope->spike_low) / slope->low + slope->spike_every;
	if (low > DAY)
		return false;
	f->confidence = watch_slope_confidence(slope, fmax(0, left - slope->spike_low));
	f->seconds_range =
		(struct plim_interval){ forecast_whole(floor(low)), forecast_whole(ceil(high)) };
	if (slope->step_seconds > 0 && now->gauge.step != PLIM_UNKNOWN)
		f->step_range = (struct plim_interval){
			now->gauge.step + forecast_whole(low / slope->step_seconds),
			now->gauge.step + forecast_whole(ceil(high / slope->step_seconds)),
		};
	return true;
}

static int nearest_first(const void *a, const void *b)
{
	uint64_t x = ((const struct plim_watch_forecast *)a)->seconds_range.low;
	uint64_t y = ((const struct plim_watch_forecast *)b)->seconds_range.low;

	return (x > y) - (x < y);
}

enum plim_status watch_forecast(const struct watch_job *j, struct arena *arena,
				struct plim_watch_forecast **out, size_t *n, struct plim_err *err)
{
	struct watch_slope slope;
	enum plim_status st;

	*n = 0;
	*out = arena_take(arena, WATCH_MEM_COUNT, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	if (j->ended)
		return PLIM_OK; /* nothing of it fills up any more */
	for (unsigned kind = 0; j->samples && kind < WATCH_MEM_COUNT; kind++) {
		/* PyTorch's own number says more than what it took from the driver. */
		bool better = kind == WATCH_MEM_GPU &&
			      watch_job_last(j)->gauge.allocated_bytes != PLIM_UNKNOWN;

		if (better || !foresee(j, kind, &slope, &(*out)[*n]))
			continue;
		st = put_forecast_words(&(*out)[*n], &slope,
					scattered(kind, watch_job_last(j), &slope), kind, arena,
					err);
		if (st)
			return st;
		++*n;
	}
	sort_items(*out, *n, sizeof(**out), nearest_first);
	return PLIM_OK;
}
