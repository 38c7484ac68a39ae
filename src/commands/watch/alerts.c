/*
 * Alerts: conditions that hold for a while become one alert an episode.  A condition that stops and comes back within five minutes
 * is the same episode.
 */
#include "commands/watch/watch.h"

#include <stdio.h>
#include <sys/wait.h>

#define AGAIN 300.0   /* seconds between two alerts of the same kind and job */
#define TIGHT 0.05    /* of a host limit */
#define EXPLAINED 5.0 /* seconds that an end waits for its reason */

/* How long each condition must hold before it is reported. */
static const double holds_for[PLIM_WATCH_EVENT_COUNT] = {
	[PLIM_WATCH_CREEP] = 120,       [PLIM_WATCH_OOM_SOON] = 0,
	[PLIM_WATCH_IDLE_LONG] = 600,   [PLIM_WATCH_STALL] = 0,
	[PLIM_WATCH_INPUT_BOUND] = 300, [PLIM_WATCH_SLOWED] = 60,
	[PLIM_WATCH_CARD_LOST] = 0,     [PLIM_WATCH_XID] = 0,
	[PLIM_WATCH_DIED] = 0,          [PLIM_WATCH_ENDED] = 0,
	[PLIM_WATCH_TIGHT_SHM] = 0,     [PLIM_WATCH_LATE_RANK] = 60,
	[PLIM_WATCH_DRIVER_SILENT] = 0,
};

struct raising {
	struct plim_watch_hidden *h;
	struct plim_err *err;
	enum plim_status status;
};

/* It holds now, since `since` at the latest. */
static void raise_it(struct raising *r, enum plim_watch_event event, uint64_t pid, double since,
		     const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static void raise_it(struct raising *r, enum plim_watch_event event, uint64_t pid, double since,
		     const char *fmt, ...)
{
	struct watch_raised *x = NULL, new = { .event = event, .pid = pid, .told_time = NAN };
	va_list ap;

	for (size_t i = 0; i < r->h->raised.n && !x; i++)
		if (r->h->raised.at[i].event == event && r->h->raised.at[i].pid == pid)
			x = &r->h->raised.at[i];
	if (!x && r->h->raised.n < WATCH_RAISED && !r->status) {
		new.since = since;
		r->status = vec_push(&r->h->mem, &r->h->raised, new, r->err);
		x = r->status ? NULL : &r->h->raised.at[r->h->raised.n - 1];
	}
	if (!x)
		return;
	x->holds = true;
	va_start(ap, fmt);
	(void)vsnprintf(x->title, sizeof(x->title), fmt, ap);
	va_end(ap);
}

static bool is_input(enum plim_watch_state s)
{
	return s == PLIM_WATCH_INPUT_CPU || s == PLIM_WATCH_INPUT_DISK ||
	       s == PLIM_WATCH_INPUT_SOURCE || s == PLIM_WATCH_INPUT_MAIN ||
	       s == PLIM_WATCH_INPUT_UNKNOWN;
}

static void look_at_state(struct raising *r, const struct plim_watch_job *j)
{
	const struct plim_watch_verdict *v = j->verdicts;

	if (!j->verdict_count)
		return;
	if (v->state == PLIM_WATCH_IDLE)
		raise_it(r, PLIM_WATCH_IDLE_LONG, j->pid, v->since, "%s", v->title);
	if (v->state == PLIM_WATCH_STALLED || v->state == PLIM_WATCH_DEADLOCK)
		raise_it(r, PLIM_WATCH_STALL, j->pid, v->since, "%s", v->title);
	if (is_input(v->state))
		raise_it(r, PLIM_WATCH_INPUT_BOUND, j->pid, v->since, "%s", v->title);
	if (v->state == PLIM_WATCH_THROTTLED)
		raise_it(r, PLIM_WATCH_SLOWED, j->pid, v->since, "%s", v->title);
}

static void look_at_memory(struct raising *r, const struct plim_watch_job *j,
			   const struct watch_sample *s)
{
	for (size_t i = 0; i < j->forecast_count; i++) {
		const struct plim_watch_forecast *f = &j->forecasts[i];

		raise_it(r, PLIM_WATCH_CREEP, j->pid, f->since, "%s", f->title);
		if (f->confidence != PLIM_WATCH_LOW && f->seconds_range.low < 900)
			raise_it(r, PLIM_WATCH_OOM_SOON, j->pid, j->last_time, "%s", f->title);
	}
	if (!s)
		return;
	if (s->host.limit_bytes != PLIM_UNKNOWN && s->host.limit_used_bytes != PLIM_UNKNOWN &&
	    (double)s->host.limit_used_bytes >= (1 - TIGHT) * (double)s->host.limit_bytes)
		raise_it(r, PLIM_WATCH_OOM_SOON, j->pid, j->last_time,
			 "%.0f %% of its cgroup's memory limit is used",
			 100 * (double)s->host.limit_used_bytes / (double)s->host.limit_bytes);
	if (s->host.available_bytes != PLIM_UNKNOWN && s->host.total_bytes != PLIM_UNKNOWN &&
	    (double)s->host.available_bytes <= TIGHT * (double)s->host.total_bytes)
		raise_it(r, PLIM_WATCH_OOM_SOON, j->pid, j->last_time,
			 "of the machine's memory %.0f %% are available",
			 100 * (double)s->host.available_bytes / (double)s->host.total_bytes);
	if (s->host.shm_total_bytes != PLIM_UNKNOWN && s->host.shm_total_bytes &&
	    s->host.shm_used_bytes != PLIM_UNKNOWN &&
	    (double)s->host.shm_used_bytes >= (1 - TIGHT) * (double)s->host.shm_total_bytes)
		raise_it(r, PLIM_WATCH_TIGHT_SHM, j->pid, j->last_time,
			 "/dev/shm is %.0f %% full: a worker that needs more dies of a bus error",
			 100 * (double)s->host.shm_used_bytes / (double)s->host.shm_total_bytes);
}

static void look_at_end(struct raising *r, const struct plim_watch *w, struct watch_known *k)
{
	unsigned long long pid = k->pid;
	const char *whose = k->of_starter ? "is gone; what started it " : "";
	int status = k->status;

	/* What started it still lives, and may tell in a moment how it ended. */
	if (!k->end_told && !k->end && !k->waited && !w->ended &&
	    r->h->options.pid != PLIM_UNKNOWN && r->h->time - k->ended_time < EXPLAINED)
		return;
	k->end_told = true;
	if (k->end)
		raise_it(r, PLIM_WATCH_DIED, k->pid, r->h->time, "%s [%llu] is gone: %s", k->name,
			 pid, k->end);
	else if (k->waited && WIFSIGNALED(status))
		raise_it(r, PLIM_WATCH_DIED, k->pid, r->h->time,
			 "%s [%llu] %swas ended by signal %d", k->name, pid, whose,
			 WTERMSIG(status));
	else if (k->waited && WEXITSTATUS(status))
		raise_it(r, PLIM_WATCH_DIED, k->pid, r->h->time,
			 "%s [%llu] %sended with exit code %d", k->name, pid, whose,
			 WEXITSTATUS(status));
	else
		raise_it(r, PLIM_WATCH_ENDED, k->pid, r->h->time, "%s [%llu] %s", k->name, pid,
			 k->let_go ? "holds no GPU any more" : "has ended");
}

/* GPUs stand where jobs have their process. */
static uint64_t key_of_card(uint64_t index)
{
	return PLIM_UNKNOWN - 1 - index;
}

static bool is_card(uint64_t key)
{
	return key > UINT32_MAX;
}

static void look_at_cards(struct raising *r, const struct plim_watch *w)
{
	for (size_t i = 0; i < w->card_count; i++) {
		const struct plim_watch_card *c = &w->cards[i];
		unsigned long long n = c->index;
		uint64_t key = key_of_card(n);

		if (c->lost)
			raise_it(r, PLIM_WATCH_CARD_LOST, key, r->h->time,
				 "GPU %llu has fallen off the bus", n);
		if (c->slowed)
			raise_it(r, PLIM_WATCH_SLOWED, key, r->h->time, "GPU %llu is slowed by %s",
				 n, c->slowed);
		if (c->xid != PLIM_UNKNOWN)
			raise_it(r, PLIM_WATCH_XID, key, r->h->time,
				 "the driver reported Xid %llu on GPU %llu",
				 (unsigned long long)c->xid, n);
	}
	if (w->driver_silent_seconds >= 10)
		raise_it(r, PLIM_WATCH_DRIVER_SILENT, PLIM_UNKNOWN, r->h->time,
			 "the GPU's driver has not answered for 10 s");
}

/* What held and does not any more is forgotten when it may be reported again. */
static void settle_alert(struct plim_watch_hidden *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->raised.n; i++) {
		struct watch_raised *x = &h->raised.at[i];

		if (!x->holds && (!x->told || h->time - x->told_time >= AGAIN))
			continue;
		h->raised.at[n++] = *x;
	}
	h->raised.n = n;
}

static int newest_first(const void *a, const void *b)
{
	double x = ((const struct plim_watch_alert *)a)->since;
	double y = ((const struct plim_watch_alert *)b)->since;

	return (x < y) - (x > y);
}

static enum plim_status tell_alert(struct plim_watch *w, struct plim_err *err)
{
	struct plim_watch_hidden *h = w->hidden;

	w->alerts = arena_take(&h->arena, h->raised.n, sizeof(*w->alerts), err);
	if (!w->alerts)
		return mem_status(err);
	for (size_t i = 0; i < h->raised.n; i++) {
		struct watch_raised *x = &h->raised.at[i];
		bool fresh = !x->told;

		if (!x->holds || h->time - x->since < holds_for[x->event])
			continue;
		if (fresh)
			x->told_time = h->time;
		x->told = true;
		w->alerts[w->alert_count++] = (struct plim_watch_alert){
			x->event, is_card(x->pid) ? PLIM_UNKNOWN : x->pid, x->since, fresh, x->title
		};
	}
	sort_items(w->alerts, w->alert_count, sizeof(*w->alerts), newest_first);
	return PLIM_OK;
}

enum plim_status watch_fill_alerts(struct plim_watch *w, struct plim_err *err)
{
	struct plim_watch_hidden *h = w->hidden;
	struct raising r = { h, err, PLIM_OK };
	size_t k = 0;

	for (size_t i = 0; i < h->raised.n; i++)
		h->raised.at[i].holds = false;
	for (size_t i = 0; i < h->jobs.n; i++) {
		struct watch_known *known = &h->jobs.at[i];
		const struct plim_watch_job *j;

		if (!known->job->samples)
			continue;
		j = &w->jobs[k++];
		if (known->job->ended) {
			look_at_end(&r, w, known);
			continue;
		}
		look_at_state(&r, j);
		look_at_memory(&r, j, watch_job_last(known->job));
	}
	look_at_cards(&r, w);
	for (size_t i = 0; i < w->group_count; i++)
		if (w->groups[i].late_pid != PLIM_UNKNOWN)
			raise_it(&r, PLIM_WATCH_LATE_RANK, w->groups[i].late_pid, h->time, "%s",
				 w->groups[i].title);
	settle_alert(h);
	return r.status ? r.status : tell_alert(w, err);
}
