/* This machine now: which jobs hold a GPU, and a sample of each. */
#include "watch/look.h"
#include "gauge/gauge.h"
#include "gpu/gpu.h"
#include "host/host.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

#define BOUNDS_EVERY 5.0 /* seconds between two looks at cgroups and /dev/shm */
#define JOBS 64

struct bounds {
	uint64_t pid;
	double time;
	uint64_t limit, used, shm_total, shm_used;
};

struct watch_look {
	struct mem *mem;
	char root[256];
	uint64_t pid; /* PLIM_UNKNOWN: every job that holds a GPU */
	struct nvml *nvml;
	char no_gpu[256]; /* why there is no NVML */
	struct nvml_card *cards;
	unsigned card_count;
	struct watch_seen jobs[JOBS];
	size_t job_count, foreign; /* of processes that are not in our /proc */
	struct bounds bounds[JOBS];
};

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

enum plim_status watch_look_open(struct mem *m, const struct plim_watch_options *options,
				 struct watch_look **out, struct plim_err *err)
{
	struct watch_look *l = mem_new(m, 1, sizeof(*l), err);
	struct plim_err reason = { .status = PLIM_OK };

	if (!l)
		return mem_status(err);
	*l = (struct watch_look){ .mem = m, .pid = options->pid };
	*out = l;
	snprintf(l->root, sizeof(l->root), "%s", options->root ? options->root : "");
	if (l->pid != PLIM_UNKNOWN &&
	    (l->pid > UINT32_MAX || !proc_start_time(l->root, (uint32_t)l->pid)))
		return err_set(err, PLIM_E_ARG, "there is no process %llu",
			       (unsigned long long)l->pid);
	if (options->flags & PLIM_WATCH_NO_GPU)
		snprintf(l->no_gpu, sizeof(l->no_gpu), "GPUs were not asked for");
	else if (nvml_open(options->nvml_path, &l->nvml, &reason))
		snprintf(l->no_gpu, sizeof(l->no_gpu), "%s", reason.message);
	l->card_count = l->nvml ? nvml_count(l->nvml) : 0;
	l->cards = mem_new(m, l->card_count, sizeof(*l->cards), err);
	return l->cards ? PLIM_OK : mem_status(err);
}

void watch_look_close(struct watch_look *l)
{
	if (!l)
		return;
	nvml_close(l->nvml);
	mem_free(l->mem, l->cards, l->card_count, sizeof(*l->cards));
	mem_free(l->mem, l, 1, sizeof(*l));
}

/* ---- which jobs ---- */

static void add_job(struct watch_look *l, uint64_t pid, unsigned card)
{
	struct watch_seen *seen = &l->jobs[l->job_count];
	uint64_t start = pid < UINT32_MAX ? proc_start_time(l->root, (uint32_t)pid) : 0;

	if (!start) {
		l->foreign += l->pid == PLIM_UNKNOWN;
		return;
	}
	for (size_t i = 0; i < l->job_count; i++)
		if (l->jobs[i].pid == pid)
			return; /* its first card speaks for it */
	if (l->job_count == JOBS)
		return;
	*seen = (struct watch_seen){ .pid = pid, .start_time = start, .card = card };
	proc_name(l->root, (uint32_t)pid, seen->name, sizeof(seen->name));
	if (card != UINT_MAX)
		snprintf(seen->gpu, sizeof(seen->gpu), "%u %.50s", card, l->cards[card].name);
	l->job_count++;
}

/* The card that process `pid` holds; where lists are not told, the only card there is. */
static unsigned card_of(const struct watch_look *l, uint64_t pid)
{
	for (unsigned i = 0; i < l->card_count; i++)
		for (size_t k = 0; k < l->cards[i].process_count; k++)
			if (l->cards[i].processes[k].pid == pid)
				return i;
	return l->card_count == 1 ? 0 : UINT_MAX;
}

enum plim_status watch_look_jobs(struct watch_look *l, const struct watch_seen **out, size_t *n,
				 struct plim_err *err)
{
	enum plim_status st = mem_stopped(err);

	l->job_count = l->foreign = 0;
	for (unsigned i = 0; i < l->card_count; i++)
		nvml_look(l->nvml, i, &l->cards[i]);
	if (l->pid != PLIM_UNKNOWN)
		add_job(l, l->pid, card_of(l, l->pid));
	for (unsigned i = 0; l->pid == PLIM_UNKNOWN && i < l->card_count; i++)
		for (size_t k = 0; k < l->cards[i].process_count; k++)
			add_job(l, l->cards[i].processes[k].pid, i);
	*out = l->jobs;
	*n = l->job_count;
	return st;
}

/* ---- a sample ---- */

static void take_card(const struct nvml_card *c, uint64_t pid, struct watch_card *out)
{
	*out = (struct watch_card){ c->total_bytes, c->used_bytes,  c->reserved_bytes, PLIM_UNKNOWN,
				    c->use,         c->power_w,     c->power_limit_w,  c->graphics,
				    c->sm,          c->occupancy,   c->tensor,         c->dram,
				    c->receive_mib, c->transmit_mib };
	for (size_t k = 0; k < c->process_count; k++)
		if (c->processes[k].pid == pid)
			out->job_bytes = c->processes[k].bytes;
}

static void take_gauge(uint64_t pid, struct watch_gauge *out)
{
	struct plim_gauge_page page;
	struct plim_err err;
	double total = 0;

	if (plim_gauge_read((uint32_t)pid, NULL, &page, &err))
		return;
	for (unsigned i = 0; i < 7; i++)
		total += page.phase_ns[i] == PLIM_UNKNOWN ? 0 : (double)page.phase_ns[i] / 1e9;
	*out = (struct watch_gauge){ .here = true,
				     .step = page.step,
				     .allocated_bytes = PLIM_UNKNOWN,
				     .reserved_bytes = PLIM_UNKNOWN,
				     .limit_bytes = PLIM_UNKNOWN,
				     .loss = page.loss,
				     .phase = page.phase,
				     .data_s = page.phase_ns[0] == PLIM_UNKNOWN
						       ? NAN
						       : (double)page.phase_ns[0] / 1e9,
				     .total_s = total };
	if (page.device_count) {
		out->allocated_bytes = page.devices[0].allocated_bytes;
		out->reserved_bytes = page.devices[0].reserved_bytes;
		out->limit_bytes = page.devices[0].limit_bytes;
	}
}

/* The nearest limits of the process, looked at now and then. */
static void look_at_bounds(struct watch_look *l, uint64_t pid, struct bounds *b)
{
	struct host_options options = { .root = *l->root ? l->root : NULL, .pid = pid };
	struct plim_here here = { 0 };
	struct plim_err err;
	struct host h;

	b->limit = b->used = b->shm_total = b->shm_used = PLIM_UNKNOWN;
	if (!host_look(&h, l->mem, &options, &here, &err) && !host_judge(&h, false, &err))
		for (size_t i = 0; i < here.bound_count; i++) {
			const struct plim_here_bound *x = &here.bounds[i];
			bool group =
				x->kind == PLIM_HERE_CGROUP || x->kind == PLIM_HERE_CGROUP_ABOVE;

			if (group && b->limit == PLIM_UNKNOWN && x->room_bytes != PLIM_UNKNOWN) {
				b->limit = x->limit_bytes;
				b->used = x->limit_bytes - x->room_bytes;
			}
			if (x->kind == PLIM_HERE_DEV_SHM && b->shm_total == PLIM_UNKNOWN) {
				b->shm_total = x->limit_bytes;
				b->shm_used = x->used_bytes;
			}
		}
	host_release(&h);
}

static void take_bounds(struct watch_look *l, uint64_t pid, double time, struct watch_host *out)
{
	struct bounds *b = &l->bounds[pid % JOBS];

	if (b->pid != pid || time - b->time >= BOUNDS_EVERY) {
		look_at_bounds(l, pid, b);
		b->pid = pid;
		b->time = time;
	}
	out->limit_bytes = b->limit;
	out->limit_used_bytes = b->used;
	out->shm_total_bytes = b->shm_total;
	out->shm_used_bytes = b->shm_used;
}

enum plim_status watch_look_sample(struct watch_look *l, const struct watch_seen *job,
				   struct watch_sample *s, struct plim_err *err)
{
	if (!proc_sample(l->root, (uint32_t)job->pid, l->mem, s, err))
		return PLIM_OK; /* gone since: a sample without a time is not taken */
	s->time = now(CLOCK_REALTIME);
	if (job->card != UINT_MAX)
		take_card(&l->cards[job->card], job->pid, &s->card);
	proc_host(l->root, (uint32_t)job->pid, &s->host);
	take_bounds(l, job->pid, s->time, &s->host);
	take_gauge(job->pid, &s->gauge);
	return PLIM_OK;
}

enum plim_status watch_look_notes(struct watch_look *l, struct arena *arena, const char ***out,
				  size_t *n, struct plim_err *err)
{
	struct lines notes = { .arena = arena, .err = err };

	if (!l->nvml)
		lines_add(&notes, "GPUs: %s", l->no_gpu);
	for (unsigned i = 0; i < l->card_count; i++) {
		if (l->cards[i].lost)
			lines_add(&notes,
				  "GPU %u has fallen off the bus; dmesg | grep Xid says why", i);
		if (l->cards[i].slowed)
			lines_add(&notes, "GPU %u is slowed by %s", i,
				  l->cards[i].slowed & 0x60 ? "heat"
							    : "its hardware (power or a brake)");
	}
	if (l->foreign)
		lines_add(&notes,
			  "%zu process%s on the cards cannot be seen from here (another container, "
			  "or another user's); outside of the container they can",
			  l->foreign, l->foreign == 1 ? "" : "es");
	return lines_keep(&notes, out, n);
}
