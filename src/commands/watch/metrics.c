/*
 * What is known as OpenMetrics 1.0: a family a row.  Base units (bytes, seconds, ratios, watts); a number that is not known has no line.
 * A job is the label "run" ("job" is Prometheus' own): its name and a number made of its process and its start, so that a process id
 * that comes again is another series.
 */
#include "commands/watch/watch.h"

#include "commands/out.h"

#include <stdio.h>

#define MOST_JOBS 100 /* with series of their own */

static double bytes(uint64_t v)
{
	return v == PLIM_UNKNOWN ? NAN : (double)v;
}

/* ---- of GPUs ---- */

#define CARD(name, expression)                              \
	static double name(const struct plim_watch_card *c) \
	{                                                   \
		return expression;                          \
	}
CARD(card_total, bytes(c->total_bytes))
CARD(card_used, bytes(c->used_bytes))
CARD(card_reserved, bytes(c->reserved_bytes))
CARD(card_busy, c->gpu_busy_percent / 100)
CARD(card_sm, c->sm_active_percent / 100)
CARD(card_power, c->power_watts)
CARD(card_limit, c->power_limit_watts)
CARD(card_heat, c->temperature_celsius)
CARD(card_slowed, c->slowed ? 1 : 0)
CARD(card_lost, c->lost ? 1 : 0)
CARD(card_xid, c->xid == PLIM_UNKNOWN ? 0 : (double)c->xid)
CARD(card_processes, bytes(c->processes))

static const struct {
	const char *name, *help;
	double (*value)(const struct plim_watch_card *c);
} card_rows[] = {
	{ "gpu_memory_total_bytes", "Memory of the GPU.", card_total },
	{ "gpu_memory_used_bytes", "Memory in use by everyone.", card_used },
	{ "gpu_memory_reserved_bytes", "Memory that the driver keeps.", card_reserved },
	{ "gpu_busy_ratio", "Share of the time with any kernel at all.", card_busy },
	{ "gpu_sm_active_ratio", "Share of the multiprocessors that work (GPM).", card_sm },
	{ "gpu_power_watts", "Power drawn.", card_power },
	{ "gpu_power_limit_watts", "Power limit of the GPU.", card_limit },
	{ "gpu_temperature_celsius", "Temperature of the chip.", card_heat },
	{ "gpu_slowed", "1: clocks are down for heat or power.", card_slowed },
	{ "gpu_lost", "1: the GPU has fallen off the bus.", card_lost },
	{ "gpu_last_xid", "The newest error of the driver since watch began; 0: none.", card_xid },
	{ "gpu_processes", "Processes that hold the GPU.", card_processes },
};

/* ---- of jobs ---- */

#define JOB(name, expression)                              \
	static double name(const struct plim_watch_job *j) \
	{                                                  \
		return expression;                         \
	}
JOB(job_gpu, bytes(j->now.gpu_job_bytes))
JOB(job_allocated, bytes(j->now.allocated_bytes))
JOB(job_reserved, bytes(j->now.reserved_bytes))
JOB(job_resident, bytes(j->now.resident_bytes))
JOB(job_main, j->now.main_cores)
JOB(job_workers, bytes(j->now.worker_count))
JOB(job_worker_cores, j->now.worker_cores)
JOB(job_step, bytes(j->now.step))
JOB(job_loss, j->now.loss)
JOB(job_since, j->verdict_count ? j->last_time - j->verdicts->since : NAN)
JOB(job_ended, j->ended ? 1 : 0)

static const struct {
	const char *name, *help;
	double (*value)(const struct plim_watch_job *j);
} job_rows[] = {
	{ "job_gpu_memory_bytes", "Memory of its GPU that the job holds.", job_gpu },
	{ "job_allocated_bytes", "What PyTorch has allocated, by the job's gauge.", job_allocated },
	{ "job_reserved_bytes", "What PyTorch has reserved, by the job's gauge.", job_reserved },
	{ "job_resident_bytes", "Host memory of the main process and its workers.", job_resident },
	{ "job_main_cores", "Cores that the main thread uses.", job_main },
	{ "job_workers", "DataLoader workers.", job_workers },
	{ "job_worker_cores", "Cores that one of them uses.", job_worker_cores },
	{ "job_step", "Steps done, by the job's gauge.", job_step },
	{ "job_loss", "The newest loss, by the job's gauge.", job_loss },
	{ "job_verdict_since_seconds", "How long the verdict holds.", job_since },
	{ "job_ended", "1: the process is gone.", job_ended },
};

/* ---- text ---- */

static void put_label(struct text *t, const char *value)
{
	for (; *value; value++) {
		if (*value == '\n')
			text_puts(t, "\\n");
		else if (*value == '"' || *value == '\\')
			text_printf(t, "\\%c", *value);
		else
			text_put(t, value, 1);
	}
}

struct metrics {
	struct text t;
	bool plain;        /* as before OpenMetrics: node_exporter reads no other */
	struct text label; /* run="..." of each job, one behind the other */
	size_t label_end[MOST_JOBS];
};

/* The older text knows no "info", and calls a family as its lines are called. */
static void put_family(struct metrics *m, const char *name, const char *type, const char *help)
{
	const char *suffix = "";

	if (m->plain && !strcmp(type, "info")) {
		type = "gauge";
		suffix = "_info";
	} else if (m->plain && !strcmp(type, "counter")) {
		suffix = "_total";
	}
	text_printf(&m->t, "# TYPE plimsoll_%s%s %s\n# HELP plimsoll_%s%s %s\n", name, suffix, type,
		    name, suffix, help);
}

/* As many digits as doubles hold of what was written: 0.6, not 0.59999999999999998. */
static void put_value(struct text *t, double v)
{
	if (isnan(v))
		text_puts(t, " NaN\n");
	else if (isinf(v))
		text_puts(t, v > 0 ? " +Inf\n" : " -Inf\n");
	else
		text_printf(t, " %.15g\n", v);
}

/* A name that is no UTF-8 would make the whole text none: what is not ASCII is escaped. */
static void make_label(struct metrics *m, const struct plim_watch_job *j, size_t i)
{
	uint64_t sum = 14695981039346656037u;
	struct text name;

	sum = (sum ^ j->pid) * 1099511628211u;
	sum = (sum ^ (uint64_t)j->first_time) * 1099511628211u;
	text_init(&name, m->t.mem, NULL);
	text_name(&name, j->name, strlen(j->name));
	text_puts(&m->label, "run=\"");
	put_label(&m->label, text_get(&name));
	text_printf(&m->label, ":%08x\"", (unsigned)(sum >> 32));
	text_release(&name);
	m->label_end[i] = m->label.n;
}

static void put_job_label(struct metrics *m, size_t i)
{
	size_t from = i ? m->label_end[i - 1] : 0;

	text_put(&m->t, text_get(&m->label) + from, m->label_end[i] - from);
}

static void put_cards(struct metrics *m, const struct plim_watch *w)
{
	struct text *t = &m->t;
	put_family(m, "gpu", "info", "Which GPUs there are.");
	for (size_t i = 0; i < w->card_count; i++) {
		text_printf(t, "plimsoll_gpu_info{gpu=\"%llu\",uuid=\"",
			    (unsigned long long)w->cards[i].index);
		put_label(t, w->cards[i].uuid ? w->cards[i].uuid : "");
		text_puts(t, "\",name=\"");
		put_label(t, w->cards[i].name);
		text_puts(t, "\"} 1\n");
	}
	for (size_t r = 0; r < sizeof(card_rows) / sizeof(card_rows[0]); r++) {
		put_family(m, card_rows[r].name, "gauge", card_rows[r].help);
		for (size_t i = 0; i < w->card_count; i++) {
			double v = card_rows[r].value(&w->cards[i]);

			if (isnan(v))
				continue;
			text_printf(t, "plimsoll_%s{gpu=\"%llu\"}", card_rows[r].name,
				    (unsigned long long)w->cards[i].index);
			put_value(t, v);
		}
	}
}

static void put_jobs(struct metrics *m, const struct plim_watch *w, size_t n)
{
	struct text *t = &m->t;
	put_family(m, "job", "info", "Which jobs there are.");
	for (size_t i = 0; i < n; i++) {
		const struct plim_watch_job *j = &w->jobs[i];

		text_puts(t, "plimsoll_job_info{");
		put_job_label(m, i);
		text_printf(t, ",pid=\"%llu\"", (unsigned long long)j->pid);
		if (j->rank != PLIM_UNKNOWN)
			text_printf(t, ",rank=\"%llu\"", (unsigned long long)j->rank);
		if (j->gpu) /* its number stands first: the label of the GPUs' rows */
			text_printf(t, ",gpu=\"%.*s\"", (int)strspn(j->gpu, "0123456789"), j->gpu);
		text_puts(t, "} 1\n");
	}
	for (size_t r = 0; r < sizeof(job_rows) / sizeof(job_rows[0]); r++) {
		put_family(m, job_rows[r].name, "gauge", job_rows[r].help);
		for (size_t i = 0; i < n; i++) {
			double v = job_rows[r].value(&w->jobs[i]);

			if (isnan(v))
				continue;
			text_printf(t, "plimsoll_%s{", job_rows[r].name);
			put_job_label(m, i);
			text_puts(t, "}");
			put_value(t, v);
		}
	}
}

/* Of each job all states, one of them 1: a state that was left is 0 at once, not gone. */
static void put_verdicts(struct metrics *m, const struct plim_watch *w, size_t n)
{
	struct text *t = &m->t;
	put_family(m, "job_verdict", "gauge", "1: this is what holds the job back now.");
	for (size_t i = 0; i < n; i++)
		for (unsigned s = 0; s < PLIM_WATCH_STATE_COUNT; s++) {
			const struct plim_watch_job *j = &w->jobs[i];

			text_puts(t, "plimsoll_job_verdict{");
			put_job_label(m, i);
			text_printf(t, ",verdict=\"%s\"}",
				    plim_watch_state_name((enum plim_watch_state)s));
			put_value(t, j->verdict_count && j->verdicts->state == s);
		}
	put_family(m, "job_state_seconds", "counter", "Time that the job was in a state.");
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < w->jobs[i].share_count; k++) {
			text_puts(t, "plimsoll_job_state_seconds_total{");
			put_job_label(m, i);
			text_printf(t, ",verdict=\"%s\"}",
				    plim_watch_state_name(w->jobs[i].shares[k].state));
			put_value(t, w->jobs[i].shares[k].seconds);
		}
}

static void put_forecasts(struct metrics *m, const struct plim_watch *w, size_t n)
{
	struct text *t = &m->t;
	static const char *const edges[] = { "early", "late" };

	put_family(m, "forecast_seconds", "gauge",
		   "Time until a memory is full at the present rate; none: not predicted.");
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < 2 * w->jobs[i].forecast_count; k++) {
			const struct plim_watch_forecast *f = &w->jobs[i].forecasts[k / 2];
			double v = bytes(k % 2 ? f->seconds_range.high : f->seconds_range.low);

			if (f->confidence == PLIM_WATCH_LOW || isnan(v))
				continue;
			text_puts(t, "plimsoll_forecast_seconds{");
			put_job_label(m, i);
			text_printf(t, ",bound=\"%s\",edge=\"%s\"}",
				    plim_watch_bound_name(f->bound), edges[k % 2]);
			put_value(t, v);
		}
}

static void put_alerts(struct metrics *m, const struct plim_watch *w)
{
	struct text *t = &m->t;
	unsigned count[PLIM_WATCH_EVENT_COUNT] = { 0 };

	for (size_t i = 0; i < w->alert_count; i++)
		count[w->alerts[i].event]++;
	put_family(m, "alerts", "gauge", "Alerts that hold now.");
	for (unsigned e = 0; e < PLIM_WATCH_EVENT_COUNT; e++)
		text_printf(t, "plimsoll_alerts{event=\"%s\"} %u\n",
			    plim_watch_event_name((enum plim_watch_event)e), count[e]);
}

static enum plim_status put_all(const struct plim_watch *w, bool plain, plim_write_fn *write,
				void *ctx, struct plim_err *err)
{
	size_t n = w->job_count < MOST_JOBS ? w->job_count : MOST_JOBS;
	struct metrics all = { .plain = plain }, *m = &all;

	text_init(&m->t, &w->hidden->mem, NULL);
	text_init(&m->label, &w->hidden->mem, NULL);
	for (size_t i = 0; i < n; i++)
		make_label(m, &w->jobs[i], i);
	if (text_status(&m->label, err)) {
		text_release(&m->label);
		return err->status;
	}
	put_family(m, "build", "info", "Which release this is.");
	text_printf(&m->t, "plimsoll_build_info{version=\"%s\"} 1\n", plim_version());
	put_cards(m, w);
	put_jobs(m, w, n);
	put_verdicts(m, w, n);
	put_forecasts(m, w, n);
	put_alerts(m, w);
	put_family(m, "driver_silent_seconds", "gauge",
		   "How long the GPU's driver has not answered.");
	text_puts(&m->t, "plimsoll_driver_silent_seconds");
	put_value(&m->t, isnan(w->driver_silent_seconds) ? 0 : w->driver_silent_seconds);
	put_family(m, "watch_cpu_seconds", "counter", "Processor time that watching has taken.");
	text_puts(&m->t, "plimsoll_watch_cpu_seconds_total");
	put_value(&m->t, w->cpu_seconds);
	if (!plain)
		text_puts(&m->t, "# EOF\n");
	text_release(&m->label);
	return out_text(&m->t, write, ctx, err);
}

enum plim_status plim_watch_metrics(const struct plim_watch *w, plim_write_fn *write, void *ctx,
				    struct plim_err *err)
{
	return put_all(w, false, write, ctx, err);
}

enum plim_status plim_watch_metrics_plain(const struct plim_watch *w, plim_write_fn *write,
					  void *ctx, struct plim_err *err)
{
	return put_all(w, true, write, ctx, err);
}
