/* Some seconds of samples as the numbers that rules ask for. */
#include "watch/stack.h"

#define LEAST_SECONDS 0.4 /* that counters of 10 ms are read over */

void watch_sample_clear(struct watch_sample *s)
{
	static const struct watch_process process = { .call = WATCH_NO_CALL,
						      .user_s = NAN,
						      .system_s = NAN,
						      .delay_s = NAN,
						      .resident_bytes = PLIM_UNKNOWN,
						      .written_chars = PLIM_UNKNOWN,
						      .stored_bytes = PLIM_UNKNOWN,
						      .read_bytes = PLIM_UNKNOWN };

	s->time = s->age_s = NAN;
	s->world = PLIM_UNKNOWN;
	s->main = process;
	s->main_user_s = s->main_system_s = NAN;
	s->workers.n = 0;
	s->stacks.stack.n = s->stacks.text.n = 0;
	s->card = (struct watch_card){ PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN,
				       PLIM_UNKNOWN, NAN,          NAN,          NAN,
				       NAN,          NAN,          NAN,          NAN,
				       NAN,          NAN,          NAN };
	s->host = (struct watch_host){ PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN,
				       PLIM_UNKNOWN, PLIM_UNKNOWN, NAN,          PLIM_UNKNOWN,
				       PLIM_UNKNOWN, PLIM_UNKNOWN, NAN };
	s->gauge = (struct watch_gauge){ .step = PLIM_UNKNOWN,
					 .allocated_bytes = PLIM_UNKNOWN,
					 .reserved_bytes = PLIM_UNKNOWN,
					 .limit_bytes = PLIM_UNKNOWN,
					 .peak_bytes = PLIM_UNKNOWN,
					 .loss = NAN,
					 .data_s = NAN,
					 .total_s = NAN };
}

void watch_sample_release(struct mem *m, struct watch_sample *s)
{
	vec_release(m, &s->workers);
	vec_release(m, &s->stacks.stack);
	vec_release(m, &s->stacks.text);
}

/* PyTorch names its workers from 2.5 on; before, a forked one has its parent's name, and other children rarely have. */
bool watch_is_worker(const struct watch_process *p, const struct watch_process *main)
{
	if (p->state == 'Z' || p->state == 'X')
		return false;
	return !strcmp(p->name, WATCH_WORKER_NAME) ||
	       (p->parent == main->pid && *main->name && !strcmp(p->name, main->name));
}

/* Where workers are named, other children of their parent's name are something else: a server, a helper. */
void watch_keep_workers(struct watch_sample *s)
{
	size_t named = 0;

	for (size_t i = 0; i < s->workers.n; i++)
		if (!strcmp(s->workers.at[i].name, WATCH_WORKER_NAME))
			s->workers.at[named++] = s->workers.at[i];
	if (named)
		s->workers.n = named;
}

/* ---- what a process sleeps in ---- */

enum sleep_kind {
	SLEEP_HIDDEN, /* it runs, or no one may know */
	SLEEP_QUEUE,  /* for another process or thread: futex */
	SLEEP_POLL,   /* the same, or for a socket */
	SLEEP_EPOLL, /* for sockets: of a main thread as the queue, of a worker a source, as its queue is polled */
	SLEEP_PIPE,     /* for what another process writes: likewise */
	SLEEP_TIMER,    /* of its own will */
	SLEEP_ELSEWHERE /* a network, a file system, a device */
};

/* The kernel's functions by how their names begin; those of disks show as state D anyway. */
static const struct {
	const char *begin;
	enum sleep_kind kind;
} sleeps[] = {
	{ "futex", SLEEP_QUEUE },         { "poll_schedule", SLEEP_POLL },
	{ "do_poll", SLEEP_POLL },        { "do_sys_poll", SLEEP_POLL },
	{ "ep_poll", SLEEP_EPOLL },       { "do_epoll", SLEEP_EPOLL },
	{ "pipe_", SLEEP_PIPE },          { "anon_pipe", SLEEP_PIPE },
	{ "unix_stream", SLEEP_QUEUE },   { "do_wait", SLEEP_QUEUE },
	{ "hrtimer_nano", SLEEP_TIMER },  { "do_nanosleep", SLEEP_TIMER },
	{ "common_nsleep", SLEEP_TIMER }, { "do_select", SLEEP_TIMER },
};

/* State D, and no disk of this machine: how their functions' names begin.  Pages of a mapped file show as a disk's everywhere. */
static const char *const networks[] = {
	"rpc_",   "nfs", "ceph_", "cifs_",   "smb",   "fuse_", "request_wait_answer",
	"netfs_", "p9_", "afs_",  "ptlrpc_", "ldlm_", "osc_",  "cl_"
};

static bool waits_for_network(const struct watch_process *p)
{
	for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++)
		if (!strncmp(p->sleeps_in, networks[i], strlen(networks[i])))
			return true;
	return false;
}

/* Numbers of the system calls that tell the same where names are hidden. */
#if defined(__x86_64__)
static const struct {
	int64_t call;
	enum sleep_kind kind;
} calls[] = { { 0, SLEEP_QUEUE },  { 7, SLEEP_POLL },    { 202, SLEEP_QUEUE }, { 232, SLEEP_EPOLL },
	      { 271, SLEEP_POLL }, { 281, SLEEP_EPOLL }, { 35, SLEEP_TIMER },  { 230, SLEEP_TIMER },
	      { 23, SLEEP_TIMER }, { 270, SLEEP_TIMER } };
#else
static const struct {
	int64_t call;
	enum sleep_kind kind;
} calls[] = { { 63, SLEEP_QUEUE },  { 73, SLEEP_POLL },   { 98, SLEEP_QUEUE }, { 22, SLEEP_EPOLL },
	      { 101, SLEEP_TIMER }, { 115, SLEEP_TIMER }, { 72, SLEEP_TIMER } };
#endif

static bool name_is_told(const struct watch_process *p)
{
	return p->sleeps_in[0] && strcmp(p->sleeps_in, "0") != 0;
}

static enum sleep_kind kind_of_name(const char *name)
{
	for (size_t i = 0; i < sizeof(sleeps) / sizeof(sleeps[0]); i++)
		if (!strncmp(name, sleeps[i].begin, strlen(sleeps[i].begin)))
			return sleeps[i].kind;
	return SLEEP_ELSEWHERE;
}

static enum sleep_kind kind_of_call(int64_t call)
{
	for (size_t i = 0; call >= 0 && i < sizeof(calls) / sizeof(calls[0]); i++)
		if (call == calls[i].call)
			return calls[i].kind;
	return SLEEP_HIDDEN;
}

static enum sleep_kind sleep_of(const struct watch_process *p)
{
	enum sleep_kind by_call = kind_of_call(p->call), by_name;

	if (p->state != 'S')
		return p->state == 'D' && waits_for_network(p) ? SLEEP_ELSEWHERE : SLEEP_HIDDEN;
	if (!name_is_told(p))
		return by_call;
	by_name = kind_of_name(p->sleeps_in);
	/* select() sleeps in the same function as poll(). */
	return by_name == SLEEP_POLL && by_call == SLEEP_TIMER ? SLEEP_TIMER : by_name;
}

/* ---- means and rates ---- */

struct mean {
	double sum;
	unsigned n;
};

static void mean_add(struct mean *m, double v)
{
	if (isnan(v))
		return;
	m->sum += v;
	m->n++;
}

static double mean_of(const struct mean *m)
{
	return m->n ? m->sum / m->n : NAN;
}

static double rate(double first, double last, double seconds)
{
	return last >= first && seconds > 0 ? (last - first) / seconds : NAN;
}

static double rate_u64(uint64_t first, uint64_t last, double seconds)
{
	if (first == PLIM_UNKNOWN || last == PLIM_UNKNOWN || last < first || !(seconds > 0))
		return NAN;
	return (double)(last - first) / seconds;
}

static double larger(double a, double b)
{
	return isnan(a) ? b : isnan(b) ? a : a > b ? a : b;
}

/* ---- the GPU ---- */

double watch_others(const struct watch_card *c)
{
	bool none = c->held == 0 || (c->job_bytes == 0 && c->held != 1);

	if (c->used_bytes == PLIM_UNKNOWN)
		return NAN;
	if (none)
		return (double)c->used_bytes;
	if (c->job_bytes == PLIM_UNKNOWN || !c->job_bytes)
		return NAN;
	return c->used_bytes > c->job_bytes ? (double)(c->used_bytes - c->job_bytes) : 0;
}

static double busy_of(const struct watch_card *c)
{
	return larger(c->use, c->graphics);
}

/* Between the busiest and the laziest second: samples that are closer together are not steps of a job's own. */
static double swing(const struct watch_sample *const *samples, size_t n)
{
	double most = -INFINITY, least = INFINITY;
	struct mean second = { 0 };
	size_t first = 0;

	for (size_t i = 0; i < n; i++) {
		mean_add(&second, busy_of(&samples[i]->card));
		if (i + 1 < n && samples[i + 1]->time - samples[first]->time < 0.95)
			continue;
		if (second.n &&
		    (i + 1 < n || samples[i]->time - samples[first]->time > 0.5 || i == first)) {
			most = fmax(most, mean_of(&second));
			least = fmin(least, mean_of(&second));
		}
		second = (struct mean){ 0 };
		first = i + 1;
	}
	return most >= least ? most - least : NAN;
}

/*
 * What comes over PCIe is asked for by the GPU: for a launch in small reads, for data in large ones, so that a MiB of launches has
 * about 1/8 MiB of requests and acknowledgements going out, one of data 1/17 (H100 and H200, 40 kinds of jobs).
 */
static double data_share(double receive, double transmit)
{
	const double launches = 1 / 8.2, data = 1 / 16.7;

	if (!(receive >= 5) || isnan(transmit))
		return NAN;
	return fmin(1, fmax(0, (launches - transmit / receive) / (launches - data)));
}

static void look_at_card(const struct watch_sample *const *samples, size_t n,
			 struct watch_features *f)
{
	struct mean use = { 0 }, half[2] = { 0 }, graphics = { 0 }, sm = { 0 }, occupancy = { 0 },
		    tensor = { 0 }, receive = { 0 }, transmit = { 0 }, power = { 0 }, gap = { 0 };

	for (size_t i = 0; i < n; i++) {
		const struct watch_card *c = &samples[i]->card;

		mean_add(&use, c->use);
		mean_add(&half[i >= n / 2], c->use);
		mean_add(&graphics, c->graphics);
		mean_add(&sm, c->sm);
		mean_add(&occupancy, c->occupancy);
		mean_add(&tensor, c->tensor);
		mean_add(&receive, c->receive_mib);
		mean_add(&transmit, c->transmit_mib);
		mean_add(&power, c->power_w / c->power_limit_w);
		if (!isnan(c->graphics))
			mean_add(&gap, c->graphics < 0.6);
		else if (!isnan(c->use))
			mean_add(&gap, c->use < 1);
	}
	f->at[WATCH_USE] = mean_of(&use);
	f->at[WATCH_GRAPHICS] = mean_of(&graphics);
	f->at[WATCH_BUSY] = larger(f->at[WATCH_USE], f->at[WATCH_GRAPHICS]);
	f->at[WATCH_SM] = mean_of(&sm);
	f->at[WATCH_OCCUPANCY] = mean_of(&occupancy);
	f->at[WATCH_TENSOR] = mean_of(&tensor);
	f->at[WATCH_DENSITY] =
		f->at[WATCH_GRAPHICS] > 0 ? f->at[WATCH_SM] / f->at[WATCH_GRAPHICS] : NAN;
	f->at[WATCH_FILL] = f->at[WATCH_SM] > 0 ? f->at[WATCH_OCCUPANCY] / f->at[WATCH_SM] : NAN;
	f->at[WATCH_RECEIVE] = mean_of(&receive);
	f->at[WATCH_TRANSMIT] = mean_of(&transmit);
	f->at[WATCH_LINK] = isnan(f->at[WATCH_TRANSMIT]) ? f->at[WATCH_RECEIVE]
			    : isnan(f->at[WATCH_RECEIVE])
				    ? f->at[WATCH_TRANSMIT]
				    : f->at[WATCH_RECEIVE] + f->at[WATCH_TRANSMIT];
	f->at[WATCH_FEED] =
		f->at[WATCH_GRAPHICS] > 0 ? f->at[WATCH_RECEIVE] / f->at[WATCH_GRAPHICS] : NAN;
	f->at[WATCH_DATA_SHARE] = data_share(f->at[WATCH_RECEIVE], f->at[WATCH_TRANSMIT]);
	f->at[WATCH_SWING] = swing(samples, n);
	f->at[WATCH_GAP] = mean_of(&gap);
	f->at[WATCH_CHANGE] = fabs(mean_of(&half[0]) - mean_of(&half[1]));
	f->at[WATCH_POWER] = mean_of(&power);
	f->at[WATCH_OTHERS] = watch_others(&samples[n - 1]->card) / (double)((uint64_t)1 << 30);
}

/* ---- the main process ---- */

/* What is written to no file goes to a socket or a pipe (or to memory, as files of a tmpfs). */
static void look_at_writes(const struct watch_sample *a, const struct watch_sample *b,
			   struct watch_features *f)
{
	double all = rate_u64(a->main.written_chars, b->main.written_chars, f->seconds) / 1e6;
	double stored = rate_u64(a->main.stored_bytes, b->main.stored_bytes, f->seconds) / 1e6;

	f->at[WATCH_WRITES] = isnan(stored) ? all : stored;
	f->at[WATCH_SENDS] = fmax(0, all - stored);
	if (isnan(stored) || isnan(all))
		f->at[WATCH_SENDS] = NAN;
}

static void look_at_main(const struct watch_sample *const *samples, size_t n,
			 struct watch_features *f)
{
	const struct watch_sample *a = samples[0], *b = samples[n - 1];
	double seconds = f->seconds, user, system, waits = 0, polls = 0, timers = 0, blocked = 0,
	       stopped = 0;

	for (size_t i = 0; i < n; i++) {
		enum sleep_kind kind = sleep_of(&samples[i]->main);

		waits += kind >= SLEEP_QUEUE && kind <= SLEEP_PIPE;
		polls += kind == SLEEP_POLL;
		timers += kind == SLEEP_TIMER;
		blocked += samples[i]->main.state == 'D';
		stopped += samples[i]->main.state == 'T' || samples[i]->main.state == 't';
		f->sleeps_hidden |=
			samples[i]->main.state == 'S' && !name_is_told(&samples[i]->main);
	}
	user = rate(a->main_user_s, b->main_user_s, seconds);
	system = rate(a->main_system_s, b->main_system_s, seconds);
	f->at[WATCH_MAIN] = user + system;
	f->at[WATCH_SYSTEM] = user + system > 0 ? system / (user + system) : 0;
	f->at[WATCH_PROCESS] =
		rate(a->main.user_s + a->main.system_s, b->main.user_s + b->main.system_s, seconds);
	f->at[WATCH_WAITS] = larger(1 - f->at[WATCH_MAIN], waits / (double)n);
	f->at[WATCH_POLLS] = polls / (double)n;
	f->at[WATCH_SLEEPS] = timers / (double)n;
	f->at[WATCH_BLOCKED] = blocked / (double)n;
	f->at[WATCH_STOPPED] = stopped / (double)n;
	look_at_writes(a, b, f);
	f->at[WATCH_READS] = rate_u64(a->main.read_bytes, b->main.read_bytes, seconds) / 1e6;
	f->at[WATCH_DELAY] = rate(a->main.delay_s, b->main.delay_s, seconds);
	f->at[WATCH_THROTTLED] = rate(a->host.throttled_s, b->host.throttled_s, seconds);
	f->at[WATCH_THROTTLED_PERIODS] =
		rate_u64(a->host.throttled_periods, b->host.throttled_periods, seconds) /
		rate_u64(a->host.periods, b->host.periods, seconds);
	f->at[WATCH_DATA] = rate(a->gauge.data_s, b->gauge.data_s, seconds) /
			    rate(a->gauge.total_s, b->gauge.total_s, seconds);
}

/* ---- its workers ---- */

/* Where a worker stands in a sample; NULL: it was not there. */
static const struct watch_process *same_worker(const struct watch_sample *s, uint32_t pid,
					       uint64_t start_time)
{
	for (size_t i = 0; i < s->workers.n; i++)
		if (s->workers.at[i].pid == pid && s->workers.at[i].start_time == start_time)
			return &s->workers.at[i];
	return NULL;
}

/* Counters of a worker between its first and its last sample of the window; workers come and go. */
static void count_worker(const struct watch_sample *const *samples, size_t n,
			 const struct watch_process *first, size_t at, struct mean *cores,
			 struct mean *reads)
{
	const struct watch_process *last = NULL;
	double seconds = 0;

	for (size_t i = n; !last && i-- > at;) {
		last = same_worker(samples[i], first->pid, first->start_time);
		seconds = samples[i]->time - samples[at]->time;
	}
	if (!last || seconds < LEAST_SECONDS)
		return;
	mean_add(cores,
		 rate(first->user_s + first->system_s, last->user_s + last->system_s, seconds));
	mean_add(reads, rate_u64(first->read_bytes, last->read_bytes, seconds) / 1e6);
}

static void count_workers(const struct watch_sample *const *samples, size_t n,
			  struct watch_features *f)
{
	struct mean cores = { 0 }, reads = { 0 };
	size_t most = 0;

	for (size_t i = 0; i < n; i++) {
		if (i >= n / 2 && samples[i]->workers.n > most)
			most = samples[i]->workers.n;
		for (size_t j = 0; j < samples[i]->workers.n; j++) {
			const struct watch_process *w = &samples[i]->workers.at[j];

			if (!i || !same_worker(samples[i - 1], w->pid, w->start_time))
				count_worker(samples, n, w, i, &cores, &reads);
		}
	}
	f->at[WATCH_WORKERS] = (double)most;
	f->at[WATCH_WORKER_CORES] = mean_of(&cores);
	f->at[WATCH_WORKERS_SUM] = cores.n ? mean_of(&cores) * (double)most : NAN;
	f->at[WATCH_WORKER_READS] = reads.n ? reads.sum : NAN;
}

/*
 * Do workers wait for locks, and none does anything else but wait for work?  Whether one waits for work its stack shows, which was
 * looked at by the newest sample.
 */
static bool only_locks(const struct watch_sample *s, const struct watch_sample *newest)
{
	size_t locked = 0, workless = 0;

	for (size_t i = 0; i < s->workers.n; i++) {
		const struct watch_process *w = &s->workers.at[i];
		const struct watch_process *now = same_worker(newest, w->pid, w->start_time);

		locked += w->locked != 0;
		workless += !w->locked && now && now->workless && sleep_of(w) == SLEEP_POLL;
	}
	return locked && locked + workless == s->workers.n;
}

static void look_at_workers(const struct watch_sample *const *samples, size_t n,
			    struct watch_features *f)
{
	struct mean disk = { 0 }, queue = { 0 }, polls = { 0 }, source = { 0 }, ready = { 0 };
	unsigned named = 0, locked = 0;

	for (size_t i = 0; i < n; i++) {
		locked += only_locks(samples[i], samples[n - 1]);
		for (size_t j = 0; j < samples[i]->workers.n; j++) {
			const struct watch_process *w = &samples[i]->workers.at[j];
			enum sleep_kind kind = sleep_of(w);

			f->sleeps_hidden |= w->state == 'S' && !name_is_told(w);
			mean_add(&disk, w->state == 'D' && kind != SLEEP_ELSEWHERE);
			mean_add(&queue, kind == SLEEP_QUEUE || kind == SLEEP_POLL);
			mean_add(&polls, kind == SLEEP_POLL);
			mean_add(&source, kind > SLEEP_POLL);
			mean_add(&ready, w->state == 'R');
			if (kind > SLEEP_POLL && name_is_told(w) && !named++)
				memcpy(f->worker_sleeps_in, w->sleeps_in, sizeof(w->sleeps_in));
		}
	}
	f->at[WATCH_WORKER_LOCKS] = (double)locked / (double)n;
	f->at[WATCH_WORKER_DISK] = mean_of(&disk);
	f->at[WATCH_WORKER_QUEUE] = mean_of(&queue);
	f->at[WATCH_WORKER_POLLS] = mean_of(&polls);
	f->at[WATCH_WORKER_SOURCE] = mean_of(&source);
	count_workers(samples, n, f);
	/* In state R it runs or would; what it was not let run of that, it lacked. */
	f->at[WATCH_WORKER_LACKS] = fmax(0, mean_of(&ready) - f->at[WATCH_WORKER_CORES]);
	if (isnan(f->at[WATCH_WORKER_CORES]))
		f->at[WATCH_WORKER_LACKS] = NAN;
}

void watch_features(const struct watch_sample *const *samples, size_t n, double seen,
		    struct watch_features *f)
{
	*f = (struct watch_features){ .samples = (unsigned)n };
	for (size_t i = 0; i < WATCH_FEATURE_COUNT; i++)
		f->at[i] = NAN;
	if (!n)
		return;
	f->seconds = samples[n - 1]->time - samples[0]->time;
	f->cores = samples[n - 1]->host.cores;
	f->quota_cores = samples[n - 1]->host.quota_cores;
	look_at_card(samples, n, f);
	look_at_main(samples, n, f);
	look_at_workers(samples, n, f);
	watch_look_at_stacks(samples, n, f);
	f->at[WATCH_SEEN] = seen;
	f->at[WATCH_RANKS] =
		samples[n - 1]->world == PLIM_UNKNOWN ? 1 : (double)samples[n - 1]->world;
	/* Where workers make the input, the other threads of the process take it over, and are not a measure. */
	f->at[WATCH_PACE] = f->at[WATCH_WORKERS] >= 1
				    ? f->at[WATCH_MAIN]
				    : larger(f->at[WATCH_MAIN], fmin(f->at[WATCH_PROCESS], 1));
}
