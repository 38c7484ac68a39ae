/* This machine now: which jobs hold a GPU, and a sample of each. */
#include "watch/look.h"
#include "gauge/gauge.h"
#include "host/host.h"
#include "stacks/stacks.h"
#include "watch/stack.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define BOUNDS_EVERY 5.0 /* seconds between two looks at cgroups and /dev/shm */
#define CHILDREN_EVERY \
	2.0              /* at which children its main thread has, for a gauge that was not there */
#define NAMES_EVERY 10.0 /* at how it is called, where it is still the same program */
#define BIRTHS_EVERY 4.0 /* at which processes of the machine are new */
#define HOLDERS_EVERY 5.0    /* at who has GPUs open, where a list lacks something */
#define STRANGERS_EVERY 60.0 /* the same, where it may only seem whole */
#define THREADS_EVERY 8.0    /* at all threads for children, if it is not known who is new */
#define KNOWN_EVERY 60.0     /* the same, if it is */
#define PATIENCE 0.15        /* seconds that a tick waits for a driver */
#define FIRST_PATIENCE \
	0.1 /* a driver that does not start at once must not delay the first picture */
#define JOBS 64
#define KEPT (2 * JOBS) /* next to jobs, processes with a GPU that are none of ours */

#define WORKLESS 64 /* places, by the number of the process */

/* What is looked at now and then. */
struct kept {
	uint64_t pid, start_time;
	uint64_t turn;            /* the last that asked for it */
	struct watch_process met; /* in turn `met_turn` */
	uint64_t met_turn;
	double bounds_time, children_time, threads_time, name_time;
	uint64_t limit, used, shm_total, shm_used;
	uint64_t place, cores;
	char name[64], program[16]; /* what it is known as, what the kernel calls it */
	struct proc_quota quota;
	bool gauge;          /* it had one */
	uint64_t gauge_step; /* the last that it reported */
	bool here;           /* it is where we are */
	struct proc_children children;
	struct proc_rank rank;
	struct watch_stacks glances; /* since the sample before */
	enum stacks_status glanced;  /* of the newest */
	unsigned worker_turn;
	uint32_t workless[WORKLESS]; /* workers whose newest stack waits for work; 0: no one */
};

struct watch_look {
	struct mem *mem;
	char root[256];
	uint64_t pid, start_time; /* PLIM_UNKNOWN: every job that holds a GPU */
	bool only_here;           /* and is where we are */
	bool redacts;             /* no path of a cgroup is reported */
	struct proc_here here;
	struct gpu_looker *looker; /* NULL: GPUs are not asked for */
	double patience_s;
	struct gpu_cards cards;
	struct watch_seen jobs[JOBS];
	size_t job_count, foreign; /* of processes that are not in our /proc */
	struct kept kept[KEPT];
	uint64_t turn;
	struct proc_births births;
	double births_time;
	struct proc_files files;
	bool no_stacks;
	struct stacks *stacks; /* NULL: none was looked at */
	bool by_files;         /* jobs may be found by the files that they have open */
	bool in_container;
	struct proc_holders holders; /* none: they are not needed */
	double holders_time;
	struct watch_host machine;   /* at this tick */
	struct watch_host throttled; /* of the cgroup whose file that is, at this tick */
	char throttled_by[420];
};

static double look_now(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

enum plim_status watch_look_open(struct mem *m, const struct plim_watch_options *options,
				 struct watch_look **out, struct plim_err *err)
{
	struct watch_look *l = mem_new(m, 1, sizeof(*l), err);
	struct gpu_options gpus = { .nvml_path = options->nvml_path };

	if (!l)
		return mem_status(err);
	*l = (struct watch_look){ .mem = m,
				  .pid = options->pid,
				  .patience_s = options->patience_s > 0 ? options->patience_s
									: PATIENCE };
	*out = l;
	l->holders_time = l->births_time = -INFINITY;
	(void)snprintf(l->root, sizeof(l->root), "%s", options->root ? options->root : "");
	gpus.root = l->root;
	proc_files_init(&l->files, !*l->root);
	/* Another driver (a made one) reports other GPUs than those files are of. */
	l->by_files = *l->root || !options->nvml_path;
	l->in_container = proc_in_container(l->root);
	gpus.no_nvml = *l->root && !options->nvml_path; /* its GPUs would not be that tree's */
	l->only_here = options->flags & PLIM_WATCH_HERE;
	l->redacts = options->flags & PLIM_WATCH_REDACT;
	l->no_stacks = *l->root || options->flags & PLIM_WATCH_NO_STACKS;
	if (l->only_here)
		proc_here(l->root, &l->here);
	if (l->pid != PLIM_UNKNOWN) {
		l->start_time = l->pid > UINT32_MAX
					? 0
					: proc_start_time(&l->files, l->root, (uint32_t)l->pid);
		if (!l->start_time)
			return err_set(err, PLIM_E_ARG, "there is no process %llu",
				       (unsigned long long)l->pid);
	}
	return options->flags & PLIM_WATCH_NO_GPU ? PLIM_OK
						  : gpu_looker_start(&gpus, &l->looker, err);
}

void watch_look_close(struct watch_look *l)
{
	if (!l)
		return;
	gpu_looker_stop(l->looker);
	gpu_cards_release(&l->cards);
	for (size_t i = 0; i < KEPT; i++) {
		vec_release(l->mem, &l->kept[i].glances.stack);
		vec_release(l->mem, &l->kept[i].glances.text);
	}
	stacks_free(l->stacks);
	proc_files_release(&l->files);
	mem_free(l->mem, l, 1, sizeof(*l));
}

const struct gpu_cards *watch_look_cards(const struct watch_look *l)
{
	return &l->cards;
}

void watch_look_cgroup(const struct watch_look *l, uint64_t pid, char *folder, size_t room,
		       uint64_t *kills)
{
	if (pid != PLIM_UNKNOWN)
		proc_cgroup(l->root, (uint32_t)pid, folder, room);
	*kills = proc_cgroup_kills(folder);
}

bool watch_look_lives(struct watch_look *l, uint64_t pid, uint64_t start_time)
{
	return pid <= UINT32_MAX &&
	       proc_start_time(&l->files, l->root, (uint32_t)pid) == start_time;
}

bool watch_look_ended(struct watch_look *l)
{
	return l->pid != PLIM_UNKNOWN &&
	       proc_start_time(&l->files, l->root, (uint32_t)l->pid) != l->start_time;
}

static struct watch_host unknown_host(void)
{
	struct watch_sample nothing = { 0 };

	watch_sample_clear(&nothing);
	return nothing.host;
}

/* ---- which jobs ---- */

/* Where a process that was met is kept; KEPT: nowhere (any more). */
static size_t look_place_of(const struct watch_look *l, uint64_t pid, uint64_t start_time)
{
	size_t i = 0;

	while (i < KEPT && (l->kept[i].pid != pid || l->kept[i].start_time != start_time))
		i++;
	return i;
}

static struct kept *met_before(struct watch_look *l, uint64_t pid, uint64_t start_time)
{
	size_t i = look_place_of(l, pid, start_time);

	return i < KEPT ? &l->kept[i] : NULL;
}

static struct kept *asked_for_the_longest_ago(struct watch_look *l)
{
	struct kept *k = &l->kept[0];

	for (size_t i = 1; i < KEPT; i++)
		if (l->kept[i].turn < k->turn)
			k = &l->kept[i];
	return k;
}

/* What is kept of a process; the place is taken of what was not asked for the longest. */
static struct kept *kept_of(struct watch_look *l, uint64_t pid, uint64_t start_time)
{
	struct kept *k = met_before(l, pid, start_time);

	if (!k) {
		k = asked_for_the_longest_ago(l);
		k->pid = pid;
		k->start_time = start_time;
		k->gauge_step = 0;
		k->bounds_time = k->children_time = k->threads_time = k->name_time = -INFINITY;
		k->name[0] = 0;
		proc_rank(l->root, (uint32_t)pid, &k->rank);
		k->here = !l->only_here || proc_is_here(l->root, (uint32_t)pid, &l->here);
		k->glances.stack.n = k->glances.text.n = 0;
		k->glanced = STACKS_NOT_NOW;
		memset(k->workless, 0, sizeof(k->workless));
	}
	k->turn = l->turn;
	return k;
}

/* A process that a job started, or that a process of it started, is a child of one of its threads: they are asked. */
static void look_for_births(struct watch_look *l)
{
	double t = look_now(CLOCK_MONOTONIC);
	uint32_t parent, above;

	if (*l->root || t - l->births_time < BIRTHS_EVERY)
		return;
	l->births_time = t;
	proc_births_look(&l->births, l->root);
	for (size_t i = 0; i < l->births.born_count; i++) {
		if (!proc_births_of(&l->births, i, l->root, &parent, &above))
			continue;
		for (size_t k = 0; k < KEPT; k++)
			if (l->kept[k].pid == parent || (above > 1 && l->kept[k].pid == above))
				l->kept[k].threads_time = l->kept[k].children_time = -INFINITY;
	}
}

/* Its children, its name (a shell becomes the program it starts). */
static void look_again(struct watch_look *l, const struct watch_process *met, struct kept *k)
{
	double t = look_now(CLOCK_MONOTONIC);

	if (strcmp(k->program, met->name) != 0 || t - k->name_time >= NAMES_EVERY) {
		bool told = proc_name(l->root, met->pid, k->name, sizeof(k->name));

		memcpy(k->program, met->name, sizeof(k->program));
		k->name_time = told ? t : -INFINITY;
	}
	if (t - k->children_time < CHILDREN_EVERY)
		return;
	if (proc_children_changed(&l->files, l->root, met->pid, &k->children) ||
	    t - k->threads_time >= (l->births.told ? KNOWN_EVERY : THREADS_EVERY)) {
		proc_children(&l->files, l->root, met->pid, &k->children);
		k->threads_time = t;
	}
	k->children_time = t;
	k->gauge = true;
}

static void add_job(struct watch_look *l, uint64_t pid, unsigned card)
{
	struct watch_seen *seen = &l->jobs[l->job_count];
	struct watch_sample nothing = { 0 };
	struct watch_process *met = &nothing.main;
	const struct proc_rank *rank;
	struct kept *k;

	watch_sample_clear(&nothing);
	if (pid > UINT32_MAX || !proc_met(&l->files, l->root, (uint32_t)pid, met) ||
	    met->state == 'Z' || met->state == 'X') {
		l->foreign += l->pid == PLIM_UNKNOWN && !l->only_here;
		return;
	}
	for (size_t i = 0; i < l->job_count; i++)
		if (l->jobs[i].pid == pid)
			return; /* its first GPU speaks for it */
	if (l->job_count == JOBS)
		return;
	k = kept_of(l, pid, met->start_time);
	if (!k->here)
		return;
	look_again(l, met, k);
	k->met = *met;
	k->met_turn = l->turn;
	rank = &k->rank;
	*seen = (struct watch_seen){ .pid = pid,
				     .start_time = met->start_time,
				     .card = card,
				     .rank = rank->rank,
				     .world = rank->world };
	if (rank->rank != PLIM_UNKNOWN && rank->world != PLIM_UNKNOWN && rank->world > 1)
		seen->group = rank->job;
	memcpy(seen->name, k->name, sizeof(seen->name));
	if (card != UINT_MAX)
		(void)snprintf(seen->gpu, sizeof(seen->gpu), "%u %.60s", card,
			       l->cards.at[card].name);
	l->job_count++;
}

/* ---- by the files that processes have open ---- */

/* Where every driver's list can be believed, no one's files are looked at; in a container each of its numbers may be another's. */
static void look_for_holders(struct watch_look *l, bool foreign)
{
	bool lacking = foreign;
	double t = look_now(CLOCK_MONOTONIC);

	for (unsigned i = 0; i < l->cards.n; i++)
		lacking |= !l->cards.at[i].processes_told && !l->cards.at[i].lost;
	if (!l->by_files || !l->cards.n || (!lacking && !l->in_container)) {
		l->holders.n = 0;
	} else if (t - l->holders_time >= (lacking ? HOLDERS_EVERY : STRANGERS_EVERY)) {
		proc_holders(&l->files, l->root, &l->holders);
		l->holders_time = t;
	}
}

static const struct proc_holder *holder(const struct watch_look *l, uint64_t pid)
{
	for (size_t i = 0; i < l->holders.n; i++)
		if (l->holders.at[i].pid == pid)
			return &l->holders.at[i];
	return NULL;
}

/* Another namespace's process: it has a number of one here that has no GPU open, while others have. */
static bool is_another(const struct watch_look *l, uint32_t pid)
{
	uint64_t minors;

	return l->in_container && l->holders.n && !holder(l, pid) &&
	       proc_holds(l->root, pid, &minors) == PROC_HELD_NO;
}

/* The GPU with that file; UINT_MAX: several, or it is not reported. */
static unsigned card_of(const struct watch_look *l, const struct proc_holder *h)
{
	unsigned found = UINT_MAX;

	if (l->cards.n == 1)
		return 0;
	for (unsigned i = 0; i < l->cards.n; i++)
		if (l->cards.at[i].minor < 64 && h->minors >> l->cards.at[i].minor & 1) {
			if (found != UINT_MAX)
				return UINT_MAX;
			found = i;
		}
	return found;
}

/* Those that no list has. */
static void add_holders(struct watch_look *l)
{
	for (size_t i = 0; i < l->holders.n; i++)
		if (!l->holders.at[i].heir &&
		    (l->pid == PLIM_UNKNOWN ||
		     proc_descends(&l->files, l->root, l->holders.at[i].pid, (uint32_t)l->pid)))
			add_job(l, l->holders.at[i].pid, card_of(l, &l->holders.at[i]));
}

/* The only GPU there is: a driver may not list who holds it, or by the process ids of another namespace. */
static unsigned only_card(const struct watch_look *l)
{
	return l->cards.n == 1 ? 0 : UINT_MAX;
}

enum plim_status watch_look_jobs(struct watch_look *l, const struct watch_seen **out, size_t *n,
				 struct plim_err *err)
{
	enum plim_status st = mem_stopped(err);
	bool all = l->pid == PLIM_UNKNOWN, foreign = l->foreign;

	l->job_count = l->foreign = 0;
	l->turn++;
	proc_files_turn(&l->files);
	l->machine = l->throttled = unknown_host();
	proc_machine(l->root, &l->machine);
	l->throttled_by[0] = 0;
	if (!st && l->looker)
		st = gpu_looker_ask(l->looker,
				    l->patience_s > PATIENCE || l->cards.opened ? l->patience_s
										: FIRST_PATIENCE,
				    &l->cards, err);
	look_for_holders(l, foreign);
	look_for_births(l);
	for (unsigned i = 0; i < l->cards.n; i++)
		for (size_t k = 0; k < l->cards.at[i].process_count; k++) {
			uint32_t pid = l->cards.at[i].processes[k].pid;

			if (is_another(l, pid))
				l->foreign++;
			else if (all || proc_descends(&l->files, l->root, pid, (uint32_t)l->pid))
				add_job(l, pid, i);
		}
	add_holders(l);
	/* None of its family holds a GPU: then the process itself, behind the shell that started it. */
	if (!all && !l->job_count && !watch_look_ended(l))
		add_job(l, proc_behind_launchers(l->root, (uint32_t)l->pid), only_card(l));
	*out = l->jobs;
	*n = l->job_count;
	return st;
}

/* ---- stacks ---- */

void watch_look_glance(struct watch_look *l, uint64_t pid, uint64_t start_time,
		       const struct watch_sample *last)
{
	struct kept *k = met_before(l, pid, start_time);
	enum watch_does does;
	struct plim_err err;

	if (l->no_stacks || !k)
		return;
	if (!l->stacks)
		l->stacks = stacks_new(l->mem, &err);
	if (!l->stacks)
		return; /* without memory nothing is looked at */
	k->glanced = (enum stacks_status)watch_glance(l->stacks, l->mem, (uint32_t)pid, start_time,
						      0, &k->glances, &does, &err);
	if (last && last->workers.n && k->glanced == STACKS_SEEN && k->worker_turn++ % 2) {
		const struct watch_process *w =
			&last->workers.at[k->worker_turn / 2 % last->workers.n];

		(void)watch_glance(l->stacks, l->mem, w->pid, w->start_time, (uint32_t)pid,
				   &k->glances, &does, &err);
		k->workless[w->pid % WORKLESS] = does == WATCH_DOES_QUEUE ? w->pid : 0;
	}
}

bool watch_look_glanced(const struct watch_look *l, uint64_t pid, uint64_t start_time)
{
	size_t i = look_place_of(l, pid, start_time);

	return i < KEPT && l->kept[i].glances.stack.n;
}

/* What was seen since the sample before; its memory is that of an older one. */
static void take_glances(struct kept *k, struct watch_stacks *out)
{
	struct watch_stacks old = *out;

	*out = k->glances;
	k->glances = old;
	k->glances.stack.n = k->glances.text.n = 0;
}

/* ---- a sample ---- */

static void take_card(const struct gpu_card *c, uint64_t pid, bool fresh, struct watch_card *out)
{
	if (!fresh)
		return; /* the driver is silent: its numbers are those of another moment */
	*out = (struct watch_card){ c->total_bytes, c->used_bytes,    c->reserved_bytes,
				    PLIM_UNKNOWN,   PLIM_UNKNOWN,     c->use,
				    c->power_w,     c->power_limit_w, c->graphics,
				    c->sm,          c->occupancy,     c->tensor,
				    c->dram,        c->receive_mib,   c->transmit_mib };
	for (size_t k = 0; k < c->process_count; k++)
		if (c->processes[k].pid == pid)
			out->job_bytes = c->processes[k].bytes;
}

/* The driver lists one process, by a number of another namespace, and one job here has the GPU: it is that. */
static uint64_t bytes_of_the_only(struct watch_look *l, const struct watch_seen *job)
{
	const struct gpu_card *c = &l->cards.at[job->card];
	unsigned jobs = 0;

	for (size_t i = 0; i < l->job_count; i++)
		jobs += l->jobs[i].card == job->card;
	return jobs == 1 && c->process_count == 1 &&
			       (!proc_start_time(&l->files, l->root, c->processes[0].pid) ||
				is_another(l, c->processes[0].pid))
		       ? c->processes[0].bytes
		       : PLIM_UNKNOWN;
}

/* The most of the steps behind `before`, as far as the page still has them. */
static uint64_t peak_of(const struct plim_gauge_page *page, uint64_t before)
{
	uint64_t most = PLIM_UNKNOWN;

	for (uint64_t n = page->step, k = 0; n > before && k < PLIM_GAUGE_STEPS; n--, k++) {
		const struct plim_gauge_mark *mark = &page->marks[n % PLIM_GAUGE_STEPS];

		if (mark->step == (uint32_t)n && mark->peak_allocated_bytes != PLIM_UNKNOWN &&
		    (most == PLIM_UNKNOWN || mark->peak_allocated_bytes > most))
			most = mark->peak_allocated_bytes;
	}
	return most;
}

/* false: it has none, or one that is not to be believed. */
static bool take_gauge(uint64_t pid, uint64_t *step, struct watch_gauge *out)
{
	struct plim_gauge_page page;
	struct plim_err err;
	double total = 0;

	if (plim_gauge_read((uint32_t)pid, NULL, &page, &err))
		return false;
	for (unsigned i = 0; i < 7; i++)
		total += page.phase_ns[i] == PLIM_UNKNOWN ? 0 : (double)page.phase_ns[i] / 1e9;
	*out = (struct watch_gauge){ .here = true,
				     .step = page.step,
				     .allocated_bytes = PLIM_UNKNOWN,
				     .reserved_bytes = PLIM_UNKNOWN,
				     .limit_bytes = PLIM_UNKNOWN,
				     .peak_bytes = peak_of(&page, *step),
				     .loss = page.loss,
				     .phase = page.phase,
				     .data_s = page.phase_ns[0] == PLIM_UNKNOWN
						       ? NAN
						       : (double)page.phase_ns[0] / 1e9,
				     .total_s = total };
	*step = page.step;
	if (page.device_count) {
		out->allocated_bytes = page.devices[0].allocated_bytes;
		out->reserved_bytes = page.devices[0].reserved_bytes;
		out->limit_bytes = page.devices[0].limit_bytes;
	}
	return true;
}

/* The nearest limits of the process, as they are written down for it. */
static void read_bounds(struct watch_look *l, uint64_t pid, struct kept *k)
{
	struct host_options options = { .root = *l->root ? l->root : NULL,
					.pid = pid,
					.limits_only = true };
	struct plim_here here = { 0 };
	struct plim_err err;
	struct host h;

	k->limit = k->used = k->shm_total = k->shm_used = PLIM_UNKNOWN;
	if (!host_look(&h, l->mem, &options, &here, &err) && !host_judge(&h, false, &err))
		for (size_t i = 0; i < here.bound_count; i++) {
			const struct plim_here_bound *x = &here.bounds[i];
			bool group =
				x->kind == PLIM_HERE_CGROUP || x->kind == PLIM_HERE_CGROUP_ABOVE;

			if (group && k->limit == PLIM_UNKNOWN && x->room_bytes != PLIM_UNKNOWN) {
				k->limit = x->limit_bytes;
				k->used = x->limit_bytes - x->room_bytes;
			}
			if (x->kind == PLIM_HERE_DEV_SHM && k->shm_total == PLIM_UNKNOWN) {
				k->shm_total = x->limit_bytes;
				k->shm_used = x->used_bytes;
			}
		}
	host_release(&h);
}

/* Processes of one cgroup and one container have the same: one of them is looked at. */
static void look_at_bounds(struct watch_look *l, uint64_t pid, double t, struct kept *k)
{
	const struct kept *same = NULL;

	k->cores = proc_cores(l->root, (uint32_t)pid);
	k->place = proc_place(l->root, (uint32_t)pid);
	for (size_t i = 0; i < KEPT && !same; i++)
		if (&l->kept[i] != k && l->kept[i].pid && l->kept[i].place == k->place &&
		    t - l->kept[i].bounds_time < BOUNDS_EVERY / 2)
			same = &l->kept[i];
	if (same) {
		k->quota = same->quota;
		k->limit = same->limit;
		k->used = same->used;
		k->shm_total = same->shm_total;
		k->shm_used = same->shm_used;
	} else {
		proc_quota(l->root, (uint32_t)pid, &k->quota);
		read_bounds(l, pid, k);
	}
	k->bounds_time = t;
}

static void take_host(struct watch_look *l, const struct kept *k, struct watch_host *out)
{
	if (strcmp(l->throttled_by, k->quota.cpu_stat) != 0) {
		memcpy(l->throttled_by, k->quota.cpu_stat, sizeof(l->throttled_by));
		l->throttled = unknown_host();
		proc_throttled(k->quota.cpu_stat, &l->throttled);
	}
	*out = l->throttled;
	out->total_bytes = l->machine.total_bytes;
	out->available_bytes = l->machine.available_bytes;
	out->limit_bytes = k->limit;
	out->limit_used_bytes = k->used;
	out->shm_total_bytes = k->shm_total;
	out->shm_used_bytes = k->shm_used;
	out->cores = k->cores;
	out->quota_cores = isinf(k->quota.cores) ? NAN : k->quota.cores;
}

/* Every GPU's driver lists who holds it, by numbers that are good here, and the process is in none of the lists. */
static bool holds_none(const struct watch_look *l)
{
	bool told = l->cards.fresh && l->cards.n && !l->foreign;

	for (unsigned i = 0; i < l->cards.n; i++)
		told = told && l->cards.at[i].processes_told && !l->cards.at[i].lost;
	return told;
}

enum plim_status watch_look_sample(struct watch_look *l, const struct watch_seen *job,
				   struct watch_sample *s, struct plim_err *err)
{
	struct kept *k = kept_of(l, job->pid, job->start_time);
	double t = look_now(CLOCK_MONOTONIC);

	if (t - k->bounds_time >= BOUNDS_EVERY)
		look_at_bounds(l, job->pid, t, k);
	if (k->met_turn == l->turn)
		s->main = k->met;
	else if (!proc_met(&l->files, l->root, (uint32_t)job->pid, &s->main))
		return PLIM_OK;
	if (!proc_sample(&l->files, l->root, &k->children, l->mem, s, err))
		return PLIM_OK; /* gone since: a sample without a time is not taken */
	for (size_t i = 0; i < s->workers.n; i++)
		s->workers.at[i].workless =
			k->workless[s->workers.at[i].pid % WORKLESS] == s->workers.at[i].pid;
	s->time = look_now(CLOCK_REALTIME);
	if (!*l->root)
		s->age_s = look_now(CLOCK_BOOTTIME) -
			   (double)job->start_time / (double)sysconf(_SC_CLK_TCK);
	if (job->world != PLIM_UNKNOWN && job->world > 1)
		s->world = job->world;
	if (job->card < l->cards.n)
		take_card(&l->cards.at[job->card], job->pid, l->cards.fresh, &s->card);
	if (holder(l, job->pid)) {
		s->card.held = 1;
		if (l->cards.fresh && job->card < l->cards.n && s->card.job_bytes == PLIM_UNKNOWN)
			s->card.job_bytes = bytes_of_the_only(l, job);
	} else if (s->card.job_bytes == PLIM_UNKNOWN && holds_none(l)) {
		s->card.held = 0;
	}
	take_host(l, k, &s->host);
	k->gauge = k->gauge && take_gauge(job->pid, &k->gauge_step, &s->gauge);
	take_glances(k, &s->stacks);
	return PLIM_OK;
}

/* Why a stack is not seen: what the kernel forbids, someone may permit. */
static void note_stacks(struct watch_look *l, struct lines *notes)
{
	unsigned denied = 0, unknown = 0;
	char scope[16];

	for (size_t i = 0; i < l->job_count; i++) {
		const struct kept *k = met_before(l, l->jobs[i].pid, l->jobs[i].start_time);

		denied += k && k->glanced == STACKS_DENIED;
		unknown += k && k->glanced == STACKS_UNKNOWN;
	}
	if (denied && small_file_line(scope, sizeof(scope), "/proc/sys/kernel/yama/ptrace_scope") &&
	    strcmp(scope, "0") != 0)
		lines_add(
			notes,
			"Python stacks of %u job%s: kernel.yama.ptrace_scope is %s; start the job "
			"as "
			"plimsoll watch -- COMMAND, or allow it: sysctl kernel.yama.ptrace_scope=0",
			denied, text_s(denied), scope);
	else if (denied)
		lines_add(
			notes,
			"Python stacks of %u job%s: the kernel does not permit it (another user's; "
			"or a container without CAP_SYS_PTRACE)",
			denied, text_s(denied));
	if (unknown)
		lines_add(notes,
			  "Python stacks of %u job%s: their Python is none of CPython 3.10 to "
			  "3.14, or "
			  "a free-threaded build",
			  unknown, text_s(unknown));
}

enum plim_status watch_look_notes(struct watch_look *l, struct arena *arena, const char ***out,
				  size_t *n, struct plim_err *err)
{
	struct lines notes = { .arena = arena, .err = err };

	if (!l->looker)
		lines_add(&notes, "GPUs: they were not asked for");
	else if (l->cards.silent_s >= 2)
		lines_add(&notes,
			  "GPUs: the driver has not answered for %.0f s; dmesg | grep -e NVRM -e "
			  "amdgpu may say why",
			  l->cards.silent_s);
	else if (!l->cards.opened)
		lines_add(&notes, "GPUs: the driver is starting");
	else if (*l->cards.reason)
		lines_add(&notes, "GPUs: %s", l->cards.reason);
	for (unsigned i = 0; i < l->cards.n; i++) {
		const struct gpu_card *c = &l->cards.at[i];

		if (c->lost)
			lines_add(&notes,
				  "GPU %u has fallen off the bus; dmesg | grep Xid says why", i);
		if (c->slowed)
			lines_add(&notes, "GPU %u is slowed by %s", i,
				  c->slowed & GPU_SLOWED_HEAT ? "heat"
							      : "its hardware (power or a brake)");
	}
	note_stacks(l, &notes);
	if (l->only_here && *l->here.path)
		lines_add(&notes, "jobs outside of cgroup %s",
			  l->redacts ? "(its path is redacted)" : l->here.path);
	else if (l->only_here)
		lines_add(&notes, "this process is in no cgroup of its own: every job is shown");
	if (l->foreign && l->holders.n)
		lines_add(&notes,
			  "GPUs: the driver shows %zu process%s by numbers of another namespace; "
			  "jobs "
			  "are found by the device files that they have open",
			  l->foreign, l->foreign == 1 ? "" : "es");
	else if (l->foreign)
		lines_add(&notes,
			  "%zu process%s on the GPUs cannot be seen from here (another container, "
			  "or another user's); outside of the container they can",
			  l->foreign, l->foreign == 1 ? "" : "es");
	return lines_keep(&notes, out, n);
}
