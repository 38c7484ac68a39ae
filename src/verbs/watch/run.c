/* plimsoll watch: recorded samples, or live ones, put together as the public structs. */
#include "verbs/watch/watch.h"

#include "host/host.h"

#include "verbs/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define REPLAY_JOBS 256

void plim_watch_options_init(struct plim_watch_options *o)
{
	*o = (struct plim_watch_options){ .size = sizeof(*o), .pid = PLIM_UNKNOWN };
}

/* ---- a job as the public struct ---- */

static void fill_now(const struct watch_job *j, struct plim_watch_now *out)
{
	static const char *const phases[] = { NULL,        "data", "forward", "backward",
					      "optimizer", "eval", "save",    "other" };
	const struct watch_sample *s = watch_job_last(j);
	struct watch_features f;

	*out = (struct plim_watch_now){ .time = s->time,
					.gpu_busy_percent = s->card.use,
					.sm_active_percent = s->card.sm,
					.sm_occupancy_percent = s->card.occupancy,
					.tensor_active_percent = s->card.tensor,
					.dram_active_percent = s->card.dram,
					.receive_bytes_per_second = s->card.receive_mib * 1048576,
					.transmit_bytes_per_second = s->card.transmit_mib * 1048576,
					.power_watts = s->card.power_w,
					.gpu_total_bytes = s->card.total_bytes,
					.gpu_used_bytes = s->card.used_bytes,
					.gpu_reserved_bytes = s->card.reserved_bytes,
					.gpu_job_bytes = s->card.job_bytes,
					.allocated_bytes = s->gauge.allocated_bytes,
					.reserved_bytes = s->gauge.reserved_bytes,
					.step = s->gauge.step,
					.loss = s->gauge.loss,
					.phase = s->gauge.phase < 8 ? phases[s->gauge.phase] : NULL,
					.main_cores = NAN,
					.worker_count = s->workers.n,
					.worker_cores = NAN,
					.resident_bytes = s->main.resident_bytes,
					.host_available_bytes = s->host.available_bytes,
					.host_total_bytes = s->host.total_bytes };
	for (size_t i = 0; i < s->workers.n && out->resident_bytes != PLIM_UNKNOWN; i++)
		if (s->workers.at[i].resident_bytes != PLIM_UNKNOWN)
			out->resident_bytes += s->workers.at[i].resident_bytes;
	if (watch_job_window(j, &f)) {
		out->main_cores = f.at[WATCH_MAIN];
		out->worker_cores = f.at[WATCH_WORKER_CORES];
	}
}

static enum plim_status fill_verdicts(const struct watch_job *j, struct arena *arena,
				      struct plim_watch_job *out, struct plim_err *err)
{
	out->verdicts = arena_take(arena, j->spans.n, sizeof(*out->verdicts), err);
	if (!out->verdicts)
		return mem_status(err);
	for (size_t i = j->spans.n; i-- > 0;) {
		const struct watch_span *span = &j->spans.at[i];
		struct plim_watch_verdict *v = &out->verdicts[out->verdict_count++];
		double until = isnan(span->until) ? j->last_time : span->until;
		struct watch_words words;
		enum plim_status st = watch_tell(&span->judgement, &span->features,
						 until - span->since, arena, &words, err);

		if (st)
			return st;
		*v = (struct plim_watch_verdict){ span->judgement.state, span->judgement.confidence,
						  span->since,           span->until,
						  words.title,           words.evidence,
						  words.evidence_count,  words.advice,
						  words.advice_count };
	}
	return PLIM_OK;
}

static int longest_first(const void *a, const void *b)
{
	double x = ((const struct plim_watch_share *)a)->seconds;
	double y = ((const struct plim_watch_share *)b)->seconds;

	return (x < y) - (x > y);
}

static enum plim_status fill_shares(const struct watch_job *j, struct arena *arena,
				    struct plim_watch_job *out, struct plim_err *err)
{
	out->shares = arena_take(arena, PLIM_WATCH_STATE_COUNT, sizeof(*out->shares), err);
	if (!out->shares)
		return mem_status(err);
	for (unsigned s = 0; s < PLIM_WATCH_STATE_COUNT; s++)
		if (j->seconds_in[s] > 0)
			out->shares[out->share_count++] =
				(struct plim_watch_share){ (enum plim_watch_state)s,
							   j->seconds_in[s] };
	sort_items(out->shares, out->share_count, sizeof(*out->shares), longest_first);
	return PLIM_OK;
}

static enum plim_status fill_job(const struct watch_known *k, struct arena *arena,
				 struct plim_watch_job *out, struct plim_err *err)
{
	const struct watch_job *j = k->job;
	enum plim_status st;

	*out = (struct plim_watch_job){ .pid = k->pid,
					.name = k->name,
					.gpu = *k->gpu ? k->gpu : NULL,
					.first_time = j->first_time,
					.last_time = j->last_time,
					.samples = j->samples,
					.windows = j->windows.at,
					.window_count = j->windows.n,
					.ended = j->ended };
	out->now = (struct plim_watch_now){ 0 };
	if (j->samples)
		fill_now(j, &out->now);
	st = fill_verdicts(j, arena, out, err);
	if (!st)
		st = fill_shares(j, arena, out, err);
	return st ? st : watch_forecast(j, arena, &out->forecasts, &out->forecast_count, err);
}

static enum plim_status conclude(struct plim_watch *w, struct plim_err *err)
{
	struct plim_watch_hidden *h = w->hidden;
	enum plim_status st = PLIM_OK;

	arena_release(&h->arena);
	arena_init(&h->arena, &h->mem);
	*w = (struct plim_watch){ .hidden = h };
	w->jobs = arena_take(&h->arena, h->jobs.n, sizeof(*w->jobs), err);
	if (!w->jobs)
		return mem_status(err);
	for (size_t i = 0; !st && i < h->jobs.n; i++)
		if (h->jobs.at[i].job->samples)
			st = fill_job(&h->jobs.at[i], &h->arena, &w->jobs[w->job_count++], err);
	if (!st && h->look)
		st = watch_look_notes(h->look, &h->arena, &w->notes, &w->note_count, err);
	return st;
}

/* ---- which jobs there are ---- */

static enum plim_status add_job(struct plim_watch_hidden *h, struct watch_known **out,
				struct plim_err *err)
{
	struct watch_known k = { .job = mem_new(&h->mem, 1, sizeof(*k.job), err),
				 .pid = PLIM_UNKNOWN };
	enum plim_status st;

	if (!k.job)
		return mem_status(err);
	watch_job_init(k.job, &h->mem, h->window_s);
	st = vec_push(&h->mem, &h->jobs, k, err);
	if (st)
		mem_free(&h->mem, k.job, 1, sizeof(*k.job));
	else
		*out = &h->jobs.at[h->jobs.n - 1];
	return st;
}

static enum plim_status begin(const struct plim_watch_options *options, double window_s,
			      struct plim_watch **out, struct plim_err *err)
{
	struct plim_watch *w = calloc(1, sizeof(*w));
	struct plim_watch_hidden *h = calloc(1, sizeof(*h));
	enum plim_status st;

	*out = NULL;
	if (!w || !h) {
		free(w);
		free(h);
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	}
	w->hidden = h;
	plim_watch_options_init(&h->options);
	st = options_take(&watch_options_table, &h->options, options, err);
	if (!st && h->options.window_s != 0 &&
	    !(h->options.window_s >= 1 && h->options.window_s <= 60))
		st = err_set(err, PLIM_E_ARG, "window_s is 1 to 60 seconds, or 0");
	if (st) {
		free(h);
		free(w);
		return st;
	}
	h->log = -1;
	h->window_s = h->options.window_s > 0 ? h->options.window_s : window_s;
	host_mem_init(&h->mem, h->options.max_memory_bytes);
	arena_init(&h->arena, &h->mem);
	*out = w;
	return PLIM_OK;
}

/* ---- recorded samples ---- */

/* The job of a sample: a file may hold those of several. */
static enum plim_status job_of(struct plim_watch_hidden *h, const struct watch_sample *s,
			       const char *name, struct watch_known **out, struct plim_err *err)
{
	enum plim_status st;

	for (size_t i = 0; i < h->jobs.n; i++)
		if (h->jobs.at[i].pid == s->main.pid &&
		    h->jobs.at[i].start_time == s->main.start_time) {
			*out = &h->jobs.at[i];
			return PLIM_OK;
		}
	if (h->jobs.n == REPLAY_JOBS)
		return err_set(err, PLIM_E_LIMIT, "more than %d jobs in one file", REPLAY_JOBS);
	st = add_job(h, out, err);
	if (st)
		return st;
	(*out)->pid = s->main.pid;
	(*out)->start_time = s->main.start_time;
	(*out)->job->keep_windows = true;
	snprintf((*out)->name, sizeof((*out)->name), "%s",
		 *name           ? name
		 : *s->main.name ? s->main.name
				 : "job");
	return PLIM_OK;
}

static enum plim_status replay(struct plim_watch_hidden *h, struct watch_lines *lines,
			       const char *path, struct plim_err *err)
{
	struct watch_sample s = { 0 }, *slot, other;
	struct watch_known *k;
	bool more = true;
	enum plim_status st = PLIM_OK;

	while (more && !st) {
		st = watch_lines_next(lines, &s, &more, err);
		if (st || !more)
			break;
		st = job_of(h, &s, watch_lines_name(lines), &k, err);
		if (st)
			break;
		slot = watch_job_slot(k->job);
		other = *slot; /* its workers' memory is used again */
		*slot = s;
		s = other;
		st = watch_job_add(k->job, err);
	}
	vec_release(&h->mem, &s.workers);
	if (!st && !h->jobs.n)
		st = err_set(err, PLIM_E_FORMAT,
			     "'%s' holds no samples: lines {\"t\": seconds, ...}", path);
	return st;
}

enum plim_status plim_watch_replay(const char *path, const struct plim_watch_options *options,
				   struct plim_watch **out, struct plim_err *err)
{
	struct watch_lines *lines = NULL;
	struct plim_watch *w;
	enum plim_status st = begin(options, 2, &w, err);

	*out = NULL;
	if (st)
		return st;
	st = watch_lines_open(&w->hidden->mem, path, &lines, err);
	if (!st)
		st = replay(w->hidden, lines, path, err);
	watch_lines_close(lines);
	if (!st)
		st = conclude(w, err);
	if (st)
		plim_watch_free(w);
	else
		*out = w;
	return st;
}

/* ---- live ones ---- */

/* Append the sample to the log that was asked for: one line, one write. */
static enum plim_status log_sample(struct plim_watch_hidden *h, const struct watch_sample *s,
				   struct plim_err *err)
{
	struct text line;
	enum plim_status st;

	if (h->log < 0 || !isfinite(s->time))
		return PLIM_OK;
	text_init(&line, &h->mem, NULL);
	watch_line(s, h->page_bytes, &line);
	st = text_status(&line, err);
	if (!st && write(h->log, line.at, line.n) != (ssize_t)line.n)
		st = err_errno(err, errno, "cannot write '%s'", h->options.log_path);
	text_release(&line);
	return st;
}

/* The file begins with what it is about; a further run appends. */
static enum plim_status open_log(struct plim_watch_hidden *h, struct plim_err *err)
{
	char head[64];

	h->log = -1;
	h->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	if (!h->options.log_path)
		return PLIM_OK;
	h->log = open(h->options.log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (h->log < 0)
		return err_errno(err, errno, "cannot open '%s'", h->options.log_path);
	snprintf(head, sizeof(head), "{\"page_bytes\":%llu}\n", (unsigned long long)h->page_bytes);
	if (write(h->log, head, strlen(head)) != (ssize_t)strlen(head))
		return err_errno(err, errno, "cannot write '%s'", h->options.log_path);
	return PLIM_OK;
}

enum plim_status plim_watch_open(const struct plim_watch_options *options, struct plim_watch **out,
				 struct plim_err *err)
{
	struct plim_watch *w;
	enum plim_status st = begin(options, 5, &w, err);

	*out = NULL;
	if (st)
		return st;
	st = open_log(w->hidden, err);
	if (!st)
		st = watch_look_open(&w->hidden->mem, &w->hidden->options, &w->hidden->look, err);
	if (!st)
		st = conclude(w, err);
	if (st)
		plim_watch_free(w);
	else
		*out = w;
	return st;
}

static struct watch_known *known(struct plim_watch_hidden *h, const struct watch_seen *seen)
{
	for (size_t i = 0; i < h->jobs.n; i++)
		if (h->jobs.at[i].pid == seen->pid && h->jobs.at[i].start_time == seen->start_time)
			return &h->jobs.at[i];
	return NULL;
}

static enum plim_status take_seen(struct plim_watch_hidden *h, const struct watch_seen *seen,
				  struct plim_err *err)
{
	struct watch_known *k = known(h, seen);
	struct watch_sample *s;
	enum plim_status st = PLIM_OK;

	if (!k) {
		st = add_job(h, &k, err);
		if (st)
			return st;
		k->pid = seen->pid;
		k->start_time = seen->start_time;
	}
	/* A shell becomes the program it starts, a program takes its card later. */
	snprintf(k->name, sizeof(k->name), "%s", seen->name);
	snprintf(k->gpu, sizeof(k->gpu), "%s", seen->gpu);
	s = watch_job_slot(k->job);
	st = watch_look_sample(h->look, seen, s, err);
	if (!st)
		st = log_sample(h, s, err);
	if (!st)
		st = watch_job_add(k->job, err);
	k->seen = true;
	return st;
}

enum plim_status plim_watch_tick(struct plim_watch *w, struct plim_err *err)
{
	struct plim_watch_hidden *h = w->hidden;
	const struct watch_seen *seen;
	size_t n;
	enum plim_status st;

	if (!h->look)
		return err_set(err, PLIM_E_ARG, "recorded samples have no next moment");
	st = watch_look_jobs(h->look, &seen, &n, err);
	for (size_t i = 0; i < h->jobs.n; i++)
		h->jobs.at[i].seen = false;
	for (size_t i = 0; !st && i < n; i++)
		st = take_seen(h, &seen[i], err);
	for (size_t i = 0; i < h->jobs.n; i++)
		h->jobs.at[i].job->ended |= !h->jobs.at[i].seen;
	return st ? st : conclude(w, err);
}

void plim_watch_free(struct plim_watch *w)
{
	struct plim_watch_hidden *h;

	if (!w)
		return;
	h = w->hidden;
	for (size_t i = 0; i < h->jobs.n; i++) {
		watch_job_release(h->jobs.at[i].job);
		mem_free(&h->mem, h->jobs.at[i].job, 1, sizeof(*h->jobs.at[i].job));
	}
	vec_release(&h->mem, &h->jobs);
	watch_look_close(h->look);
	if (h->log >= 0)
		close(h->log);
	arena_release(&h->arena);
	free(h);
	free(w);
}

enum plim_status plim_watch_json(const struct plim_watch *w, plim_write_fn *write, void *ctx,
				 struct plim_err *err)
{
	return out_json(&w->hidden->mem, &watch_table, w, write, ctx, err);
}
