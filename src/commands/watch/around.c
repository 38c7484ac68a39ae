/* What is reported next to jobs: GPUs, the processes of a job, ranks that belong together. */
#include "commands/watch/watch.h"

#include <stdio.h>

/* ---- GPUs ---- */

enum plim_status watch_fill_cards(struct plim_watch *w, struct plim_err *err)
{
	const struct gpu_cards *cards = watch_look_cards(w->hidden->look);

	if (cards->silent_s > 0)
		w->driver_silent_seconds = cards->silent_s;
	w->cards = arena_take(&w->hidden->arena, cards->n, sizeof(*w->cards), err);
	if (!w->cards)
		return mem_status(err);
	for (unsigned i = 0; i < cards->n; i++) {
		const struct gpu_card *c = &cards->at[i];

		w->cards[w->card_count++] = (struct plim_watch_card){
			.index = i,
			.name = c->name,
			.uuid = *c->uuid ? c->uuid : NULL,
			.total_bytes = c->total_bytes,
			.used_bytes = c->used_bytes,
			.reserved_bytes = c->reserved_bytes,
			.gpu_busy_percent = c->use,
			.sm_active_percent = c->sm,
			.power_watts = c->power_w,
			.power_limit_watts = c->power_limit_w,
			.temperature_celsius = c->temperature_c,
			.slowed = !c->slowed                    ? NULL
				  : c->slowed & GPU_SLOWED_HEAT ? "heat"
								: "hardware",
			.xid = c->xid ? c->xid : PLIM_UNKNOWN,
			.processes = c->processes_told ? c->process_count : PLIM_UNKNOWN,
			.lost = c->lost,
		};
	}
	return PLIM_OK;
}

/* ---- processes of a job ---- */

static const struct watch_process *around_before(const struct watch_sample *s,
						 const struct watch_process *p)
{
	for (size_t i = 0; s && i < s->workers.n; i++)
		if (s->workers.at[i].pid == p->pid && s->workers.at[i].start_time == p->start_time)
			return &s->workers.at[i];
	return s && s->main.pid == p->pid ? &s->main : NULL;
}

static enum plim_status fill_process(struct arena *arena, const struct watch_process *p,
				     const struct watch_process *old, double seconds,
				     struct plim_watch_process *out, struct plim_err *err)
{
	char *texts = arena_take(arena, sizeof(p->sleeps_in) + 2, 1, err);

	if (!texts)
		return mem_status(err);
	texts[0] = p->state ? p->state : '?';
	texts[1] = 0;
	memcpy(texts + 2, p->sleeps_in, sizeof(p->sleeps_in));
	*out = (struct plim_watch_process){
		.pid = p->pid,
		.state = texts,
		.cores = NAN,
		.resident_bytes = p->resident_bytes,
		.read_bytes_per_second = NAN,
		.sleeps_in = p->sleeps_in[0] && strcmp(p->sleeps_in, "0") != 0 ? texts + 2 : NULL
	};
	if (old && seconds > 0) {
		out->cores = (p->user_s - old->user_s + (p->system_s - old->system_s)) / seconds;
		if (p->read_bytes != PLIM_UNKNOWN && old->read_bytes != PLIM_UNKNOWN &&
		    p->read_bytes >= old->read_bytes)
			out->read_bytes_per_second =
				(double)(p->read_bytes - old->read_bytes) / seconds;
	}
	return PLIM_OK;
}

enum plim_status watch_fill_processes(struct plim_watch *w, const struct watch_job *j,
				      struct plim_watch_job *out, struct plim_err *err)
{
	const struct watch_sample *s = watch_job_last(j), *old = NULL;
	struct arena *arena = &w->hidden->arena;
	enum plim_status st;

	if (!s)
		return PLIM_OK;
	if (j->samples > 1)
		old = &j->ring[(j->samples - 2) % WATCH_RING];
	out->processes = arena_take(arena, s->workers.n + 1, sizeof(*out->processes), err);
	if (!out->processes)
		return mem_status(err);
	st = fill_process(arena, &s->main, around_before(old, &s->main),
			  old ? s->time - old->time : 0, &out->processes[out->process_count], err);
	if (!st)
		out->processes[out->process_count++].what = "main";
	for (size_t i = 0; !st && i < s->workers.n; i++) {
		const struct watch_process *p = &s->workers.at[i];

		st = fill_process(arena, p, around_before(old, p), old ? s->time - old->time : 0,
				  &out->processes[out->process_count], err);
		if (!st)
			out->processes[out->process_count++].what = "worker";
	}
	return st;
}

/* ---- ranks ---- */

#define RANKS 64

struct rank {
	const struct watch_known *known;
	double busy, power, data; /* percent, share of the limit, share of the time */
	uint64_t step;
};

struct ranks {
	struct rank at[RANKS];
	size_t n;
};

static void gather_around(const struct plim_watch_hidden *h, uint64_t group, struct ranks *out)
{
	out->n = 0;
	for (size_t i = 0; i < h->jobs.n && out->n < RANKS; i++) {
		const struct watch_known *k = &h->jobs.at[i];
		const struct watch_features *f;

		if (k->group != group || k->job->ended || !k->job->samples)
			continue;
		out->at[out->n] = (struct rank){ k, NAN, NAN, NAN, k->job->step };
		f = watch_job_window(k->job);
		if (f) {
			out->at[out->n].busy = f->at[WATCH_BUSY];
			out->at[out->n].power = f->at[WATCH_POWER];
			out->at[out->n].data = f->at[WATCH_DATA];
		}
		out->n++;
	}
}

/* The rank with the least of a number, the least of the others, and whether all have it. */
struct least {
	size_t who;
	double value, next;
	bool told;
};

static struct least least_of(const struct ranks *r, double (*number)(const struct rank *))
{
	struct least out = { 0, INFINITY, INFINITY, true };

	for (size_t i = 0; i < r->n; i++) {
		double v = number(&r->at[i]);

		out.told &= !isnan(v);
		if (v < out.value) {
			out.next = out.value;
			out.value = v;
			out.who = i;
		} else if (v < out.next) {
			out.next = v;
		}
	}
	return out;
}

static double busy_of(const struct rank *r)
{
	return r->busy;
}

static double less_power(const struct rank *r)
{
	return -r->power;
}

static double less_data(const struct rank *r)
{
	return -r->data;
}

static double step_of(const struct rank *r)
{
	return r->step == PLIM_UNKNOWN ? NAN : (double)r->step;
}

/*
 * Whom do the others wait for?  Who waits in a collective has a kernel that spins: its GPU looks busy and draws little.  So the late
 * one is a step behind; or waits for data more than the others do; or its GPU has gaps where theirs have none; or, where all look
 * busy, it is the only one that draws power.  NULL: no one.
 */
static const struct rank *late_rank(const struct ranks *r, struct lines *why)
{
	struct least step = least_of(r, step_of), data = least_of(r, less_data),
		     busy = least_of(r, busy_of), power = least_of(r, less_power);

	if (step.told && step.next - step.value >= 2) {
		lines_add(why, "it is at step %.0f, the others at %.0f and more", step.value,
			  step.next);
		return &r->at[step.who];
	}
	if (data.told && data.next - data.value >= 0.2) {
		lines_add(why, "it waits for data %.0f %% of the time, the others %.0f %% at most",
			  -100 * data.value, -100 * data.next);
		return &r->at[data.who];
	}
	if (busy.told && busy.next >= 80 && busy.next - busy.value >= 15) {
		lines_add(why,
			  "its GPU has work %.0f %% of the time, the others' %.0f %% and more: a "
			  "rank that waits in a collective looks busy",
			  busy.value, busy.next);
		return &r->at[busy.who];
	}
	if (busy.told && busy.value >= 80 && power.told && -power.value >= -1.25 * power.next &&
	    -power.value >= 0.3) {
		lines_add(
			why,
			"all GPUs look busy, but its own draws %.0f %% of its power limit and the "
			"others' %.0f %% at most: they spin in a collective",
			-100 * power.value, -100 * power.next);
		return &r->at[power.who];
	}
	return NULL;
}

static enum plim_status tell_group(struct plim_watch *w, const struct ranks *r,
				   struct plim_watch_group *out, struct plim_err *err)
{
	struct lines why = { .arena = &w->hidden->arena, .err = err };
	struct lines title = { .arena = &w->hidden->arena, .err = err };
	const struct rank *late = late_rank(r, &why);
	const char **words;
	size_t n;
	enum plim_status st;

	*out = (struct plim_watch_group){ .ranks = r->n,
					  .world = r->at[0].known->world,
					  .late_pid = PLIM_UNKNOWN,
					  .late_rank = PLIM_UNKNOWN };
	if (late) {
		out->late_pid = late->known->pid;
		out->late_rank = late->known->rank;
		lines_add(&title, "rank %llu is late, the others wait for it",
			  (unsigned long long)late->known->rank);
	} else {
		lines_add(&title, "no rank is late");
	}
	st = lines_keep(&why, &out->evidence, &out->evidence_count);
	if (!st)
		st = lines_keep(&title, &words, &n);
	out->title = st ? "" : words[0];
	return st;
}

enum plim_status watch_fill_groups(struct plim_watch *w, struct plim_err *err)
{
	struct plim_watch_hidden *h = w->hidden;
	struct ranks *r;
	enum plim_status st = PLIM_OK;
	size_t i, k;

	w->groups = arena_take(&h->arena, h->jobs.n, sizeof(*w->groups), err);
	r = w->groups ? arena_take(&h->arena, 1, sizeof(*r), err) : NULL;
	if (!r)
		return mem_status(err);
	for (i = 0; !st && i < h->jobs.n; i++) {
		uint64_t group = h->jobs.at[i].group;

		for (k = 0; k < i && h->jobs.at[k].group != group; k++)
			;
		if (!group || k < i)
			continue;
		gather_around(h, group, r);
		if (r->n >= 2)
			st = tell_group(w, r, &w->groups[w->group_count++], err);
	}
	return st;
}
