/* plimsoll watch: recorded samples, or live ones, put together as the public structs. */
#include "commands/watch/watch.h"

#include "host/host.h"

#include "commands/out.h"
#include "option_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define REPLAY_JOBS 256

void plim_watch_options_init(struct plim_watch_options *o)
{
	*o = (struct plim_watch_options){ WATCH_DEFAULTS, .pid = PLIM_UNKNOWN };
}

/* ---- a job as the public struct ---- */

static void fill_now(struct watch_job *j, struct plim_watch_now *out)
{
	static const char *const phases[] = { NULL,        "data", "forward", "backward",
					      "optimizer", "eval", "save",    "other" };
	const struct watch_sample *s = watch_job_last(j);
	const struct watch_features *f = watch_job_window(j);

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
	if (f) {
		out->main_cores = f->at[WATCH_MAIN];
		out->worker_cores = f->at[WATCH_WORKER_CORES];
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

static enum plim_status fill_job(struct plim_watch *w, const struct watch_known *k,
				 struct plim_watch_job *out, struct plim_err *err)
{
	struct arena *arena = &w->hidden->arena;
	struct watch_job *j = k->job;
	enum plim_status st;

	*out = (struct plim_watch_job){ .pid = k->pid,
					.name = k->name,
					.gpu = *k->gpu ? k->gpu : NULL,
					.rank = k->rank,
					.world = k->world,
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
		st = watch_fill_processes(w, j, out, err);
	if (!st)
		st = watch_fill_places(w, j, out, err);
	if (!st)
		st = fill_shares(j, arena, out, err);
	return st ? st : watch_forecast(j, arena, &out->forecasts, &out->forecast_count, err);
}

static double seconds_of(clockid_t which)
{
	struct timespec t;

	(void)clock_gettime(which, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static enum plim_status conclude(struct plim_watch *w, struct plim_err *err)
{
	struct plim_watch_hidden *h = w->hidden;
	enum plim_status st = PLIM_OK;

	arena_release(&h->arena);
	arena_init(&h->arena, &h->mem);
	*w = (struct plim_watch){ .hidden = h,
				  .driver_silent_seconds = NAN,
				  .cpu_seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID),
				  .ended = !h->look || watch_look_ended(h->look) };
	w->jobs = arena_take(&h->arena, h->jobs.n, sizeof(*w->jobs), err);
	if (!w->jobs)
		return mem_status(err);
	for (size_t i = 0; !st && i < h->jobs.n; i++)
		if (h->jobs.at[i].job->samples)
			st = fill_job(w, &h->jobs.at[i], &w->jobs[w->job_count++], err);
	if (!st && h->look)
		st = watch_fill_cards(w, err);
	if (!st)
		st = watch_fill_groups(w, err);
	if (!st)
		st = watch_fill_alerts(w, err);
	if (!st && h->look)
		st = watch_look_notes(h->look, &h->arena, &w->notes, &w->note_count, err);
	return st ? st : watch_redact_rest(w, err);
}

/* ---- which jobs there are ---- */

static enum plim_status add_job(struct plim_watch_hidden *h, struct watch_known **out,
				struct plim_err *err)
{
	struct watch_known k = { .job = mem_new(&h->mem, 1, sizeof(*k.job), err),
				 .pid = PLIM_UNKNOWN,
				 .rank = PLIM_UNKNOWN,
				 .world = PLIM_UNKNOWN,
				 .kills = PLIM_UNKNOWN,
				 .history = { .width = 1 } };
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

static enum plim_status begin_watch(const struct plim_watch_options *options, double window_s,
				    struct plim_watch **out, struct plim_err *err)
{
	struct plim_watch *w;
	struct plim_watch_hidden *h;
	enum plim_status st = OUT_NEW(watch, w, &w->hidden->options, options, err);

	*out = NULL;
	if (st)
		return st;
	h = w->hidden;
	if (h->options.window_s != 0 && !(h->options.window_s >= 1 && h->options.window_s <= 60))
		st = err_set(err, PLIM_E_ARG, "window_s is 1 to 60 seconds, or 0");
	if (!st && h->options.flags & PLIM_WATCH_HERE && h->options.pid != PLIM_UNKNOWN)
		st = err_set(err, PLIM_E_ARG,
			     "options.flags: PLIM_WATCH_HERE goes without options.pid");
	if (st) {
		free(w);
		return st;
	}
	h->log = -1;
	h->window_s = h->options.window_s > 0 ? h->options.window_s : window_s;
	host_mem_init(&h->mem, h->options.max_memory_bytes);
	arena_init(&h->arena, &h->mem);
	intern_init(&h->words, &h->mem);
	*out = w;
	return PLIM_OK;
}

static void add_history(struct watch_known *k)
{
	const struct watch_sample *s = watch_job_last(k->job);
	double total, used;

	if (!s)
		return;
	total = s->card.total_bytes == PLIM_UNKNOWN ? NAN : (double)s->card.total_bytes;
	used = s->card.used_bytes == PLIM_UNKNOWN ? NAN : (double)s->card.used_bytes;
	watch_history_add(&k->history, s->card.use, s->card.sm, 100 * used / total);
	k->history.every_s = k->job->samples > 1 ? (k->job->last_time - k->job->first_time) /
							   (double)(k->job->samples - 1)
						 : 1;
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
	return watch_redact_name(h, (*out)->name, sizeof((*out)->name), err);
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
		if (!st)
			st = watch_redact_sample(h, &s, err);
		if (st)
			break;
		slot = watch_job_slot(k->job);
		other = *slot; /* its memory is used again */
		*slot = s;
		s = other;
		st = watch_job_add(k->job, err);
		if (!st) {
			add_history(k);
			h->time = k->job->last_time;
		}
	}
	watch_sample_release(&h->mem, &s);
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
	enum plim_status st = begin_watch(options, 2, &w, err);

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
	enum plim_status st = begin_watch(options, 5, &w, err);

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

static struct watch_known *watch_known_job(struct plim_watch_hidden *h,
					   const struct watch_seen *seen)
{
	for (size_t i = 0; i < h->jobs.n; i++)
		if (h->jobs.at[i].pid == seen->pid && h->jobs.at[i].start_time == seen->start_time)
			return &h->jobs.at[i];
	return NULL;
}

static void forget_watch(struct plim_watch_hidden *h, size_t i)
{
	watch_job_release(h->jobs.at[i].job);
	mem_free(&h->mem, h->jobs.at[i].job, 1, sizeof(*h->jobs.at[i].job));
	memmove(&h->jobs.at[i], &h->jobs.at[i + 1], (h->jobs.n - i - 1) * sizeof(h->jobs.at[0]));
	h->jobs.n--;
}

/* Those that ended long ago make room. */
static void forget_one(struct plim_watch_hidden *h)
{
	size_t i = 0;

	while (i < h->jobs.n && !h->jobs.at[i].job->ended)
		i++;
	if (h->jobs.n >= WATCH_KEPT_JOBS && i < h->jobs.n)
		forget_watch(h, i);
}

static enum plim_status take_seen(struct plim_watch_hidden *h, const struct watch_seen *seen,
				  struct plim_err *err)
{
	struct watch_known *k = watch_known_job(h, seen);
	struct watch_sample *s;
	enum plim_status st = PLIM_OK;

	if (!k) {
		forget_one(h);
		st = add_job(h, &k, err);
		if (st)
			return st;
		k->pid = seen->pid;
		k->start_time = seen->start_time;
		watch_look_cgroup(h->look, seen->pid, k->cgroup, sizeof(k->cgroup), &k->kills);
	}
	k->rank = seen->rank;
	k->world = seen->world;
	k->group = seen->group;
	/* A shell becomes the program it starts, a program takes its GPU later. */
	snprintf(k->name, sizeof(k->name), "%s", seen->name);
	snprintf(k->gpu, sizeof(k->gpu), "%s", seen->gpu);
	s = watch_job_slot(k->job);
	st = watch_redact_name(h, k->name, sizeof(k->name), err);
	if (!st && !watch_look_glanced(h->look, k->pid, k->start_time))
		watch_glance_at(h, k);
	if (!st)
		st = watch_look_sample(h->look, seen, s, err);
	if (!st)
		st = watch_redact_sample(h, s, err);
	if (!st)
		st = log_sample(h, s, err);
	if (!st)
		st = watch_job_add(k->job, err);
	if (!st && isfinite(s->time))
		add_history(k);
	k->seen = true;
	return st;
}

/* The reason of an end as far as it can be known. */
static void look_at_end(struct plim_watch_hidden *h, struct watch_known *k)
{
	uint64_t kills;

	k->job->ended = true;
	k->ended_time = h->time;
	if (watch_look_lives(h->look, k->pid, k->start_time)) {
		k->let_go = true;
		return;
	}
	watch_look_cgroup(h->look, PLIM_UNKNOWN, k->cgroup, sizeof(k->cgroup), &kills);
	if (kills != PLIM_UNKNOWN && k->kills != PLIM_UNKNOWN && kills > k->kills)
		k->end = "the kernel killed a process of its cgroup for memory";
}

enum plim_status plim_watch_tick(struct plim_watch *w, struct plim_err *err)
{
	struct plim_watch_hidden *h = w->hidden;
	const struct watch_seen *seen;
	size_t n;
	enum plim_status st;

	if (!h->look)
		return err_set(err, PLIM_E_ARG, "recorded samples have no next moment");
	h->time = seconds_of(CLOCK_REALTIME);
	st = watch_look_jobs(h->look, &seen, &n, err);
	for (size_t i = 0; i < h->jobs.n; i++)
		h->jobs.at[i].seen = false;
	for (size_t i = 0; !st && i < n; i++)
		st = take_seen(h, &seen[i], err);
	for (size_t i = h->jobs.n; !st && i-- > 0;) {
		struct watch_known *k = &h->jobs.at[i];

		if (k->seen || k->job->ended)
			continue;
		/* A shell was looked at until the program behind it was there. */
		if (h->options.pid != PLIM_UNKNOWN &&
		    watch_look_lives(h->look, k->pid, k->start_time))
			forget_watch(h, i);
		else
			look_at_end(h, k);
	}
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
	vec_release(&h->mem, &h->raised);
	watch_look_close(h->look);
	if (h->log >= 0)
		close(h->log);
	arena_release(&h->arena);
	intern_release(&h->words);
	free(w);
}

enum plim_status plim_watch_json(const struct plim_watch *w, plim_write_fn *write, void *ctx,
				 struct plim_err *err)
{
	return out_json(&w->hidden->mem, &watch_table, w, write, ctx, err);
}
