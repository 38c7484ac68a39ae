/* A job over time: its samples, the windows that are judged, and stretches of one state. */
#include "watch/watch.h"

#include <plimsoll/gauge.h>

#define SPANS 64
#define WINDOWS 1000000
#define LEAST_SAMPLES 4
#define MEETING 3 /* samples: the driver may not have answered at the first */
#define BEYOND_A_CONTEXT \
	((uint64_t)1 << 30) /* bytes: CUDA's context and libraries take some 0.5 to 0.8 GiB */
#define YOUNG \
	60 /* seconds: a process that has held the GPU for so long may have run kernels too few to be seen */
#define HARDLY 0.5 /* of WATCH_SEEN: none long enough for the only number there is, the GPU's use */
#define FOR_SOMEBODY 0.75 /* of WATCH_SEEN: the GPU has, and others hold it, too */
#define AFTER_FIRST_KERNEL \
	0.9 /* seconds that no window of work looks at: caches are filled, libraries loaded */

void watch_job_init(struct watch_job *j, struct mem *m, double window_s)
{
	*j = (struct watch_job){ .mem = m,
				 .window_s = window_s,
				 .work_since = NAN,
				 .held_since = NAN,
				 .candidate_since = NAN };
	for (unsigned i = 0; i < WATCH_MEM_COUNT; i++)
		watch_series_init(&j->series[i]);
	j->first_time = j->last_time = j->judged_time = j->step_time = NAN;
	j->step = PLIM_UNKNOWN;
}

void watch_job_release(struct watch_job *j)
{
	for (unsigned i = 0; i < WATCH_RING; i++)
		watch_sample_release(j->mem, &j->ring[i]);
	vec_release(j->mem, &j->spans);
	vec_release(j->mem, &j->windows);
}

struct watch_sample *watch_job_slot(struct watch_job *j)
{
	struct watch_sample *s = &j->ring[j->samples % WATCH_RING];

	watch_sample_clear(s);
	return s;
}

const struct watch_sample *watch_job_last(const struct watch_job *j)
{
	return j->samples ? &j->ring[(j->samples - 1) % WATCH_RING] : NULL;
}

/* ---- has it run a kernel? ---- */

static bool holds_card(const struct watch_sample *s)
{
	return s->card.held == 1 || (s->card.job_bytes != PLIM_UNKNOWN && s->card.job_bytes > 0);
}

/* With GPM a single sample shows.  NVML's use is the GPU's: it lags, and shows the tail of the job before. */
static void look_for_work(struct watch_job *j, const struct watch_sample *s)
{
	bool holds = holds_card(s), works;
	bool others = watch_others(&s->card) > WATCH_A_CONTEXT * (double)((uint64_t)1 << 30);

	j->carded |= s->card.held != PLIM_UNKNOWN || s->card.job_bytes != PLIM_UNKNOWN ||
		     s->card.used_bytes != PLIM_UNKNOWN || !isnan(s->card.use);
	if (!isnan(s->card.sm)) {
		works = s->card.sm > 0.05;
	} else {
		j->used_in_a_row = holds && s->card.use >= 1 ? j->used_in_a_row + 1 : 0;
		works = j->used_in_a_row >= 3;
	}
	/* On a GPU that others hold, too, kernels may be theirs. */
	j->seen |= works && !others;
	j->seen_by_card |= works;
	/* Where the GPU shows little: what it has taken is not there for nothing. */
	if ((isnan(s->card.sm) || others) && holds && s->card.job_bytes != PLIM_UNKNOWN)
		j->seen |= s->card.job_bytes > BEYOND_A_CONTEXT;
	if (holds && isnan(j->held_since))
		j->held_since = s->time;
	/* Kernels too few to be seen, or none: of what was there before us that is not known. */
	if (!j->met && (holds || s->card.used_bytes != PLIM_UNKNOWN)) {
		j->met = true;
		j->met_late = holds && j->samples <= MEETING && !(s->age_s < YOUNG);
	}
	/* A job that works when it is first looked at (GPM needs two samples) began long ago. */
	if (j->seen && isnan(j->work_since))
		j->work_since = j->samples <= 3 ? j->first_time - AFTER_FIRST_KERNEL : s->time;
}

/* As WATCH_SEEN. */
static double has_worked(const struct watch_job *j)
{
	const struct watch_sample *last = watch_job_last(j);

	if (j->seen)
		return 2;
	if (!j->carded || j->met_late || j->last_time - j->held_since > YOUNG)
		return NAN;
	if (j->seen_by_card)
		return FOR_SOMEBODY;
	return isnan(last->card.sm) && holds_card(last) ? HARDLY : 0;
}

/* ---- steps, by the gauge ---- */

static int job_by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* An evaluation or a save between two steps is not a step: the median. */
static double usual_step(const struct watch_job *j)
{
	double sorted[WATCH_STEPS];
	size_t n = j->steps_timed < WATCH_STEPS ? j->steps_timed : WATCH_STEPS;

	if (!n)
		return NAN;
	memcpy(sorted, j->step_seconds, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), job_by_size);
	return sorted[n / 2];
}

static void look_at_steps(struct watch_job *j, const struct watch_sample *s)
{
	if (s->gauge.step == PLIM_UNKNOWN || s->gauge.step == j->step)
		return;
	if (j->step != PLIM_UNKNOWN && s->gauge.step > j->step)
		j->step_seconds[j->steps_timed++ % WATCH_STEPS] =
			(s->time - j->step_time) / (double)(s->gauge.step - j->step);
	j->step = s->gauge.step;
	j->step_time = s->time;
}

/* No step for ten times as long as one takes, and for two minutes. */
static bool is_stalled(const struct watch_job *j, double now)
{
	double quiet = now - j->step_time;

	return quiet >= 120 && quiet >= 10 * usual_step(j);
}

/* In an evaluation or a save none is: that it takes long may be meant. */
static bool steps_are_due(const struct watch_sample *s)
{
	return s->gauge.phase != PLIM_GAUGE_EVAL && s->gauge.phase != PLIM_GAUGE_SAVE;
}

/* ---- windows ---- */

/* Seconds that a window looks at: as asked for, and five samples at least. */
static double window_seconds(const struct watch_job *j)
{
	double each =
		j->samples > 1 ? (j->last_time - j->first_time) / (double)(j->samples - 1) : 0;

	return fmax(j->window_s, 5 * each);
}

static bool look_at_window(const struct watch_job *j, struct watch_features *out)
{
	const struct watch_sample *window[WATCH_RING];
	double seconds = window_seconds(j), from = j->last_time - seconds - 0.05;
	uint64_t kept = j->samples < WATCH_RING ? j->samples : WATCH_RING;
	size_t n = 0;

	if (j->seen && from < j->work_since + AFTER_FIRST_KERNEL)
		from = j->work_since + AFTER_FIRST_KERNEL;
	for (uint64_t i = j->samples - kept; i < j->samples; i++)
		if (j->ring[i % WATCH_RING].time >= from)
			window[n++] = &j->ring[i % WATCH_RING];
	if (n < LEAST_SAMPLES || window[n - 1]->time - window[0]->time < 0.6 * seconds)
		return false;
	watch_features(window, n, has_worked(j), out);
	return true;
}

const struct watch_features *watch_job_window(struct watch_job *j)
{
	if (j->window_of != j->samples) {
		j->window_told = look_at_window(j, &j->window);
		j->window_of = j->samples;
	}
	return j->window_told ? &j->window : NULL;
}

/* ---- stretches ---- */

static bool is_episode(enum plim_watch_state s)
{
	return s == PLIM_WATCH_SAVING || s == PLIM_WATCH_STALLED || s == PLIM_WATCH_DEADLOCK;
}

/* How many windows in a row a state must hold before it is said. */
static unsigned windows_wanted(const struct watch_job *j, enum plim_watch_state next)
{
	enum plim_watch_state before;

	if (!j->spans.n)
		return 2;
	before = j->spans.at[j->spans.n - 1].judgement.state;
	/* A kernel has run: that it starts is not true any more, whatever else is. */
	if (before == PLIM_WATCH_STARTING && j->seen)
		return 1;
	return is_episode(next) || is_episode(before) || before == PLIM_WATCH_STARTING ? 2 : 3;
}

static enum plim_status begin_span(struct watch_job *j, const struct watch_features *f,
				   struct plim_err *err)
{
	struct watch_span span = { j->candidate, j->candidate_since, NAN, *f };

	if (j->spans.n)
		j->spans.at[j->spans.n - 1].until = j->candidate_since;
	if (j->spans.n == SPANS) {
		memmove(j->spans.at, j->spans.at + 1, (SPANS - 1) * sizeof(*j->spans.at));
		j->spans.n--;
	}
	return vec_push(j->mem, &j->spans, span, err);
}

static enum plim_status settle_job(struct watch_job *j, const struct watch_judgement *now,
				   const struct watch_features *f, struct plim_err *err)
{
	struct watch_span *span = j->spans.n ? &j->spans.at[j->spans.n - 1] : NULL;

	if (now->state != j->candidate.state || !j->candidate_windows) {
		j->candidate_windows = 0;
		j->candidate_since = isnan(j->judged_time) ? j->first_time : j->judged_time;
	}
	j->candidate = *now;
	j->candidate_windows++;
	if (span && span->judgement.state == now->state) {
		span->features = *f;
		/* The surest that it ever was would flatter, the least would flicker: the newest counts. */
		span->judgement = *now;
		return PLIM_OK;
	}
	return j->candidate_windows >= windows_wanted(j, now->state) ? begin_span(j, f, err)
								     : PLIM_OK;
}

static enum plim_status judge_window(struct watch_job *j, struct plim_err *err)
{
	const struct watch_features *f;
	struct watch_judgement now;
	struct plim_watch_window window;
	enum plim_status st = PLIM_OK;

	if (j->last_time - j->judged_time < window_seconds(j) / 4 - 0.05)
		return PLIM_OK;
	f = watch_job_window(j);
	if (!f)
		return PLIM_OK;
	now = watch_judge(f);
	if (is_stalled(j, j->last_time) && now.state != PLIM_WATCH_SAVING &&
	    now.state != PLIM_WATCH_DEADLOCK) {
		now.state = PLIM_WATCH_STALLED;
		now.confidence =
			steps_are_due(watch_job_last(j)) ? PLIM_WATCH_HIGH : PLIM_WATCH_MEDIUM;
	}
	window = (struct plim_watch_window){ j->last_time, now.state, now.confidence };
	if (j->keep_windows && j->windows.n < WINDOWS)
		st = vec_push(j->mem, &j->windows, window, err);
	if (!st)
		st = settle_job(j, &now, f, err);
	if (j->spans.n && !isnan(j->judged_time))
		j->seconds_in[j->spans.at[j->spans.n - 1].judgement.state] +=
			j->last_time - j->judged_time;
	j->judged_time = j->last_time;
	return st;
}

/* ---- memory ---- */

static uint64_t resident(const struct watch_sample *s)
{
	uint64_t sum = s->main.resident_bytes;

	for (size_t i = 0; sum != PLIM_UNKNOWN && i < s->workers.n; i++)
		if (s->workers.at[i].resident_bytes != PLIM_UNKNOWN)
			sum += s->workers.at[i].resident_bytes;
	return sum;
}

static void look_at_memory(struct watch_job *j, const struct watch_sample *s)
{
	uint64_t step = s->gauge.step, gpu = s->card.job_bytes;
	/* Until kernels run, memory climbs because the program starts. */
	bool works = j->met_late || (j->seen && s->time - j->work_since > AFTER_FIRST_KERNEL);

	if (!works)
		return;
	if (gpu == PLIM_UNKNOWN || !gpu)
		gpu = s->card.used_bytes;
	watch_series_add(&j->series[WATCH_MEM_GPU], s->time, gpu, step);
	watch_series_add(&j->series[WATCH_MEM_GAUGE], s->time, s->gauge.allocated_bytes, step);
	watch_series_spike(&j->series[WATCH_MEM_GAUGE], s->gauge.peak_bytes);
	watch_series_add(&j->series[WATCH_MEM_CGROUP], s->time, s->host.limit_used_bytes, step);
	watch_series_add(&j->series[WATCH_MEM_MACHINE], s->time, resident(s), step);
	watch_series_add(&j->series[WATCH_MEM_SHM], s->time, s->host.shm_used_bytes, step);
}

enum plim_status watch_job_add(struct watch_job *j, struct plim_err *err)
{
	const struct watch_sample *s = &j->ring[j->samples % WATCH_RING];

	if (!isfinite(s->time) || (j->samples && s->time <= j->last_time))
		return PLIM_OK; /* the clock went back: nothing can be said of it */
	j->samples++;
	j->last_time = s->time;
	if (isnan(j->first_time))
		j->first_time = s->time;
	look_for_work(j, s);
	look_at_steps(j, s);
	look_at_memory(j, s);
	return judge_window(j, err);
}
