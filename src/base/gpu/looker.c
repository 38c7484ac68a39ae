/* The thread that asks drivers, and what its asker shares with it. */
#include "gpu/looker.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

static const struct gpu_backend *const backends[] = { &gpu_nvml, &gpu_drm };
/* How long the end of its thread is waited for: so that a driver is shut down before the program ends, unless it hangs. */
#define CLOSE_SECONDS 2.0
#define HANGING_SECONDS 0.05
#define BACKENDS (sizeof(backends) / sizeof(backends[0]))

/* Its asker and its thread hold it; the last one frees it. */
struct gpu_looker {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct gpu_options options;
	char nvml_path[512], root[256];
	unsigned holders;
	bool stop, opened, ended;
	uint64_t asked, answered, handed; /* looks */
	bool late;                        /* the last call waited in vain */
	double asked_time;
	struct gpu_card *cards; /* of the answer */
	unsigned n;
	char reason[256];
	/* The thread's own: */
	void *open[BACKENDS];
	struct gpu_card *work;
};

void gpu_card_clear(struct gpu_card *c)
{
	c->total_bytes = c->used_bytes = c->reserved_bytes = PLIM_UNKNOWN;
	c->use = c->power_w = c->power_limit_w = c->temperature_c = NAN;
	c->graphics = c->sm = c->occupancy = c->tensor = c->dram = NAN;
	c->receive_mib = c->transmit_mib = NAN;
	c->slowed = c->xid = 0;
	c->minor = UINT32_MAX;
	c->lost = c->processes_told = false;
	c->process_count = 0;
}

static double looker_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void release(struct gpu_looker *l)
{
	bool last;

	(void)pthread_mutex_lock(&l->lock);
	last = !--l->holders;
	(void)pthread_mutex_unlock(&l->lock);
	if (!last)
		return;
	(void)pthread_mutex_destroy(&l->lock);
	(void)pthread_cond_destroy(&l->changed);
	free(l->cards);
	free(l->work);
	free(l);
}

/* ---- the thread ---- */

/* How many GPUs there are; the first reason why a driver has none. */
static unsigned open_drivers(struct gpu_looker *l, char *reason, size_t room)
{
	struct plim_err err;
	unsigned n = 0;

	for (size_t b = 0; b < BACKENDS; b++) {
		if (backends[b]->open(&l->options, &l->open[b], &err) && !*reason)
			(void)snprintf(reason, room, "%s", err.message);
		n += l->open[b] ? backends[b]->count(l->open[b]) : 0;
	}
	n = n < GPU_CARDS ? n : GPU_CARDS;
	l->work = calloc(n ? n : 1, sizeof(*l->work));
	if (!l->work)
		n = 0;
	if (n)
		*reason = 0;
	else if (!*reason)
		(void)snprintf(reason, room, "the driver has no GPU");
	return n;
}

static void look_looker(struct gpu_looker *l, unsigned n)
{
	unsigned k = 0;

	for (size_t b = 0; b < BACKENDS; b++)
		for (unsigned i = 0; l->open[b] && i < backends[b]->count(l->open[b]) && k < n; i++)
			backends[b]->look(l->open[b], i, &l->work[k++]);
}

/* Under the lock: wait for the next question; false: there will be none. */
static bool next_question(struct gpu_looker *l)
{
	while (!l->stop && l->asked == l->answered)
		(void)pthread_cond_wait(&l->changed, &l->lock);
	return !l->stop;
}

static void *run_looker(void *arg)
{
	struct gpu_looker *l = arg;
	char reason[256] = "";
	unsigned n = open_drivers(l, reason, sizeof(reason));

	(void)pthread_mutex_lock(&l->lock);
	l->cards = calloc(n ? n : 1, sizeof(*l->cards));
	l->n = l->cards ? n : 0;
	(void)snprintf(l->reason, sizeof(l->reason), "%s", reason);
	l->opened = true;
	(void)pthread_cond_broadcast(&l->changed);
	while (next_question(l)) {
		(void)pthread_mutex_unlock(&l->lock);
		look_looker(l, l->n);
		(void)pthread_mutex_lock(&l->lock);
		if (l->n)
			memcpy(l->cards, l->work, l->n * sizeof(*l->cards));
		l->answered = l->asked;
		(void)pthread_cond_broadcast(&l->changed);
	}
	(void)pthread_mutex_unlock(&l->lock);
	for (size_t b = 0; b < BACKENDS; b++)
		if (l->open[b])
			backends[b]->close(l->open[b]);
	(void)pthread_mutex_lock(&l->lock);
	l->ended = true;
	(void)pthread_cond_broadcast(&l->changed);
	(void)pthread_mutex_unlock(&l->lock);
	release(l);
	return NULL;
}

/* ---- its asker ---- */

static enum plim_status start_thread(struct gpu_looker *l, struct plim_err *err)
{
	pthread_condattr_t clock;
	pthread_t thread;
	int failed = pthread_condattr_init(&clock);

	if (!failed)
		failed = pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	if (!failed)
		failed = pthread_mutex_init(&l->lock, NULL);
	if (!failed)
		failed = pthread_cond_init(&l->changed, &clock);
	(void)pthread_condattr_destroy(&clock);
	l->holders = 2;
	if (!failed)
		failed = thread_start(&thread, run_looker, l);
	if (failed) {
		free(l);
		return err_errno(err, failed, "cannot start a thread");
	}
	(void)pthread_detach(thread);
	return PLIM_OK;
}

enum plim_status gpu_looker_start(const struct gpu_options *options, struct gpu_looker **out,
				  struct plim_err *err)
{
	struct gpu_looker *l = calloc(1, sizeof(*l));
	enum plim_status st;

	*out = NULL;
	if (!l)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	l->options = *options;
	if (options->nvml_path) {
		(void)snprintf(l->nvml_path, sizeof(l->nvml_path), "%s", options->nvml_path);
		l->options.nvml_path = l->nvml_path;
	}
	(void)snprintf(l->root, sizeof(l->root), "%s", options->root ? options->root : "");
	l->options.root = l->root;
	st = start_thread(l, err);
	*out = st ? NULL : l;
	return st;
}

static struct timespec looker_moment(double t)
{
	struct timespec out = { .tv_sec = (time_t)t };

	out.tv_nsec = (long)((t - (double)out.tv_sec) * 1e9);
	return out;
}

/* Has it answered all that it was asked? */
static bool is_quiet(const struct gpu_looker *l)
{
	return l->opened && (!l->n || l->answered == l->asked);
}

static bool has_ended(const struct gpu_looker *l)
{
	return l->ended;
}

/* Under the lock: wait until that holds, for at most so many seconds; false: it does not. */
static bool wait_for_looker(struct gpu_looker *l, bool (*holds)(const struct gpu_looker *l),
			    double seconds)
{
	struct timespec end = looker_moment(looker_now() + seconds);
	int r = 0;

	while (r != ETIMEDOUT && !holds(l))
		r = pthread_cond_timedwait(&l->changed, &l->lock, &end);
	return holds(l);
}

static enum plim_status copy_looker(const struct gpu_looker *l, struct gpu_cards *out,
				    struct plim_err *err)
{
	if (out->room < l->n) {
		struct gpu_card *more = realloc(out->at, l->n * sizeof(*more));

		if (!more)
			return err_set(err, PLIM_E_NOMEM, "out of memory");
		out->at = more;
		out->room = l->n;
	}
	if (l->n && l->answered)
		memcpy(out->at, l->cards, l->n * sizeof(*out->at));
	out->n = l->answered ? l->n : 0;
	return PLIM_OK;
}

enum plim_status gpu_looker_ask(struct gpu_looker *l, double patience_s, struct gpu_cards *out,
				struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	(void)pthread_mutex_lock(&l->lock);
	if (l->asked == l->answered) {
		l->late = false;
		l->asked++;
		l->asked_time = looker_now();
		(void)pthread_cond_broadcast(&l->changed);
	}
	/* A driver that was waited for in vain is not waited for again before it has answered. */
	l->late = !wait_for_looker(l, is_quiet, l->late ? 0 : patience_s);
	out->opened = l->opened;
	out->fresh = l->answered != l->handed;
	out->silent_s = l->late ? looker_now() - l->asked_time : 0;
	l->handed = l->answered;
	if (l->opened)
		st = copy_looker(l, out, err);
	(void)snprintf(out->reason, sizeof(out->reason), "%s", l->reason);
	(void)pthread_mutex_unlock(&l->lock);
	return st;
}

void gpu_cards_release(struct gpu_cards *c)
{
	free(c->at);
	*c = (struct gpu_cards){ 0 };
}

void gpu_looker_stop(struct gpu_looker *l)
{
	if (!l)
		return;
	(void)pthread_mutex_lock(&l->lock);
	l->stop = true;
	(void)pthread_cond_broadcast(&l->changed);
	(void)wait_for_looker(l, has_ended, is_quiet(l) ? CLOSE_SECONDS : HANGING_SECONDS);
	(void)pthread_mutex_unlock(&l->lock);
	release(l);
}
