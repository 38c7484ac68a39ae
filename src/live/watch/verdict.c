/*
 * What holds a job back: the first row whose clauses all hold.
 *
 * The thresholds come from jobs with one known bottleneck each, recorded on an H100 (docs/evidence/watch.md has the table and how often
 * it is right).  A clause has a limit and a value beyond it from which it is sure; a verdict is as sure as its weakest clause.  A
 * number that is not seen fails its clause, except where the clause may do without it.  A row that fewer than two kinds of recorded
 * jobs have shown to be right is never sure, and nothing is that rests on work of a GPU which others hold, too: it may be theirs.  tests/watch/shaken.py moves what was recorded, and nothing wrong may become sure.
 */
#include "watch/stack.h"

#include <stdio.h>

enum op { NONE, AT_LEAST, BELOW };

struct clause {
	enum watch_feature what;
	enum op op;
	double limit, sure;
	bool optional; /* holds, unsurely, where the number is not seen */
};

struct row {
	enum plim_watch_state state;
	enum plim_watch_confidence most; /* no more confidence than this */
	struct clause clauses[8];
};

#define INPUT                                                                   \
	{ WATCH_WORKERS, AT_LEAST, 1, 1, 0 }, { WATCH_BUSY, BELOW, 85, 65, 0 }, \
	{                                                                       \
		WATCH_WAITS, AT_LEAST, 0.5, 0.65, 0                             \
	}

#define TOLD                                    \
	{ WATCH_DATA, AT_LEAST, 0.2, 0.26, 0 }, \
	{                                       \
		WATCH_BUSY, BELOW, 85, 65, 1    \
	}

/* Work is seen (or began before we looked), what hands it out is busy without a pause, and both halves of the window look alike. */
#define PACED                                                                       \
	{ WATCH_SEEN, AT_LEAST, 1, 1, 1 }, { WATCH_PACE, AT_LEAST, 0.75, 0.95, 0 }, \
	{                                                                           \
		WATCH_CHANGE, BELOW, 60, 45, 1                                      \
	}

static const struct row rows[] = {
	/* Ctrl-Z, SIGSTOP, a debugger: the kernel says so. */
	{ PLIM_WATCH_IDLE, PLIM_WATCH_HIGH, { { WATCH_STOPPED, AT_LEAST, 0.75, 0.9, 0 } } },
	/* The main thread is in the DataLoader's queue, and nothing there moves. */
	{ PLIM_WATCH_DEADLOCK,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_WORKER_LOCKS, AT_LEAST, 1, 1, 0 },
	    { WATCH_DOES + WATCH_DOES_QUEUE, AT_LEAST, 0.9, 0.9, 0 },
	    { WATCH_MAIN, BELOW, 0.1, 0.1, 0 },
	    { WATCH_WORKERS_SUM, BELOW, 0.02, 0.02, 0 } } },
	{ PLIM_WATCH_SAVING,
	  PLIM_WATCH_HIGH,
	  { { WATCH_SEEN, AT_LEAST, 1, 1, 1 },
	    { WATCH_WRITES, AT_LEAST, 50, 65, 0 },
	    { WATCH_BUSY, BELOW, 40, 30, 0 } } },
	/* It talks to other processes: a collective on the CPU, a server; whether that or what they do is the limit is not seen. */
	{ PLIM_WATCH_UNDECIDED,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_SENDS, AT_LEAST, 50, 65, 0 }, { WATCH_BUSY, BELOW, 40, 30, 0 } } },
	{ PLIM_WATCH_INPUT_DISK,
	  PLIM_WATCH_HIGH,
	  { INPUT, { WATCH_WORKER_DISK, AT_LEAST, 0.3, 0.4, 0 } } },
	{ PLIM_WATCH_INPUT_CPU,
	  PLIM_WATCH_HIGH,
	  { INPUT, { WATCH_WORKER_CORES, AT_LEAST, 0.7, 0.9, 0 } } },
	{ PLIM_WATCH_INPUT_SOURCE,
	  PLIM_WATCH_HIGH,
	  { INPUT,
	    { WATCH_WORKER_CORES, BELOW, 0.35, 0.27, 0 },
	    { WATCH_WORKER_SOURCE, AT_LEAST, 0.5, 0.65, 0 } } },
	/*
	 * The main thread waits for another process, now and then the GPU gets something, and the workers wait, too: not for work,
	 * or a batch would be there.
	 */
	{ PLIM_WATCH_INPUT_SOURCE,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_WORKERS, AT_LEAST, 1, 1, 0 },
	    { WATCH_BUSY, BELOW, 40, 30, 0 },
	    { WATCH_BUSY, AT_LEAST, 0.3, 0.5, 0 },
	    { WATCH_POLLS, AT_LEAST, 0.6, 0.75, 0 },
	    { WATCH_WORKER_CORES, BELOW, 0.35, 0.27, 0 },
	    { WATCH_WORKER_POLLS, AT_LEAST, 0.6, 0.75, 0 } } },
	/* Without workers the main process reads. */
	{ PLIM_WATCH_INPUT_DISK,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_SEEN, AT_LEAST, 1, 1, 1 },
	    { WATCH_WORKERS, BELOW, 1, 1, 0 },
	    { WATCH_BUSY, BELOW, 40, 30, 0 },
	    { WATCH_BLOCKED, AT_LEAST, 0.4, 0.6, 0 },
	    { WATCH_READS, AT_LEAST, 5, 10, 0 } } },
	/* Nothing of the input holds, and half of the window is another picture than the other half. */
	{ PLIM_WATCH_UNDECIDED,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_SEEN, AT_LEAST, 1, 1, 1 },
	    { WATCH_WORKERS, AT_LEAST, 1, 1, 0 },
	    { WATCH_CHANGE, AT_LEAST, 30, 40, 0 } } },
	{ PLIM_WATCH_INPUT_UNKNOWN,
	  PLIM_WATCH_MEDIUM,
	  { INPUT, { WATCH_WORKER_QUEUE, BELOW, 0.5, 0.35, 0 } } },
	/* They wait for each other (a lock), and one or more of them works at any time. */
	{ PLIM_WATCH_INPUT_UNKNOWN,
	  PLIM_WATCH_MEDIUM,
	  { INPUT,
	    { WATCH_BUSY, BELOW, 40, 30, 0 },
	    { WATCH_WORKERS_SUM, AT_LEAST, 0.7, 0.9, 0 } } },
	{ PLIM_WATCH_STARTING,
	  PLIM_WATCH_HIGH,
	  { { WATCH_SEEN, BELOW, 0.7, 0.25, 0 },
	    { WATCH_WORKERS, BELOW, 1, 1, 0 },
	    { WATCH_MAIN, AT_LEAST, 0.3, 0.4, 0 } } },
	{ PLIM_WATCH_STARTING,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_SEEN, BELOW, 0.7, 0.25, 0 },
	    { WATCH_WORKERS, BELOW, 1, 1, 0 },
	    { WATCH_BLOCKED, AT_LEAST, 0.3, 0.4, 0 } } },
	{ PLIM_WATCH_STARTING,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_SEEN, BELOW, 0.7, 0.25, 0 },
	    { WATCH_WORKERS, BELOW, 1, 1, 0 },
	    { WATCH_PROCESS, AT_LEAST, 0.05, 0.2, 0 } } },
	/* Workers were made, and no batch has come. */
	{ PLIM_WATCH_STARTING,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_SEEN, BELOW, 0.7, 0.25, 0 }, { WATCH_MAIN, AT_LEAST, 0.3, 0.4, 0 } } },
	/* The job says what it waits for.  Where the GPU is busy meanwhile it is the GPU, whatever the phase is called. */
	{ PLIM_WATCH_INPUT_UNKNOWN,
	  PLIM_WATCH_MEDIUM,
	  { TOLD, { WATCH_WORKERS, AT_LEAST, 1, 1, 0 } } },
	/* Without workers it shows the time between two steps, where a script may do anything. */
	{ PLIM_WATCH_INPUT_MAIN,
	  PLIM_WATCH_MEDIUM,
	  { TOLD, { WATCH_MAIN, AT_LEAST, 0.75, 0.9, 0 } } },
	{ PLIM_WATCH_SLEEPING,
	  PLIM_WATCH_MEDIUM,
	  { TOLD, { WATCH_SLEEPS, AT_LEAST, 0.4, 0.5, 0 } } },
	{ PLIM_WATCH_INPUT_UNKNOWN, PLIM_WATCH_MEDIUM, { TOLD } },
	/* A collective that waits has a kernel that spins on up to 32 multiprocessors: of ranks, little more than that shows nothing. */
	{ PLIM_WATCH_UNDECIDED,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_RANKS, AT_LEAST, 2, 2, 0 },
	    { WATCH_BUSY, AT_LEAST, 85, 92, 0 },
	    { WATCH_SM, BELOW, 40, 30, 1 } } },
	/* Who uses no processor launches nothing, and others hold the GPU: whose work it is, is not seen. */
	{ PLIM_WATCH_UNDECIDED,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_OTHERS, AT_LEAST, WATCH_A_CONTEXT, 0.5, 0 },
	    { WATCH_PROCESS, BELOW, 0.01, 0.005, 0 },
	    { WATCH_BUSY, AT_LEAST, 5, 10, 0 } } },
	/* NVML's use counts copies, too: kernels run in less than two thirds of the time that it has work. */
	{ PLIM_WATCH_COPY_BOUND,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_LINK, AT_LEAST, 4000, 6000, 0 },
	    { WATCH_USE, AT_LEAST, 85, 92, 0 },
	    { WATCH_GRAPHICS, BELOW, 60, 50, 0 } } },
	{ PLIM_WATCH_COMPUTE_BOUND,
	  PLIM_WATCH_HIGH,
	  { { WATCH_BUSY, AT_LEAST, 85, 95, 0 }, { WATCH_SM, AT_LEAST, 25, 40, 0 } } },
	{ PLIM_WATCH_COPY_BOUND,
	  PLIM_WATCH_HIGH,
	  { { WATCH_LINK, AT_LEAST, 1500, 2000, 0 }, { WATCH_SM, BELOW, 30, 20, 0 } } },
	{ PLIM_WATCH_BUSY_THIN,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_BUSY, AT_LEAST, 85, 92, 0 }, { WATCH_SM, BELOW, 25, 18, 0 } } },
	/* The same with gaps: kernels that last ten times as long as a launch takes are no matter of launching. */
	{ PLIM_WATCH_BUSY_THIN,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_BUSY, AT_LEAST, 70, 80, 0 },
	    { WATCH_SM, BELOW, 25, 18, 0 },
	    { WATCH_FEED, BELOW, 0.6, 0.4, 0 },
	    { WATCH_CHANGE, BELOW, 60, 45, 1 } } },
	/* Without GPM a GPU that works draws power. */
	{ PLIM_WATCH_COMPUTE_BOUND,
	  PLIM_WATCH_LOW,
	  { { WATCH_BUSY, AT_LEAST, 85, 92, 0 }, { WATCH_POWER, AT_LEAST, 0.5, 0.6, 0 } } },
	/* Kernels run now and then: it works, and sleeps between. */
	{ PLIM_WATCH_SLEEPING,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_SLEEPS, AT_LEAST, 0.6, 0.75, 0 },
	    { WATCH_GRAPHICS, AT_LEAST, 0.03, 0.05, 0 } } },
	{ PLIM_WATCH_IDLE,
	  PLIM_WATCH_HIGH,
	  { { WATCH_BUSY, BELOW, 0.1, 0.05, 0 },
	    { WATCH_GRAPHICS, BELOW, 0.1, 0.05, 0 },
	    { WATCH_PROCESS, BELOW, 0.05, 0.03, 0 },
	    { WATCH_WRITES, BELOW, 1, 0.7, 1 },
	    { WATCH_WORKERS, BELOW, 1, 1, 0 } } },
	/* Kernels that come now and then do not show in NVML's use: whoever uses a hundredth of a core may launch them. */
	{ PLIM_WATCH_IDLE,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_BUSY, BELOW, 0.1, 0.05, 0 },
	    { WATCH_PROCESS, BELOW, 0.01, 0.005, 0 },
	    { WATCH_WRITES, BELOW, 1, 0.7, 1 },
	    { WATCH_WORKERS, BELOW, 1, 1, 0 } } },
	{ PLIM_WATCH_SLEEPING, PLIM_WATCH_HIGH, { { WATCH_SLEEPS, AT_LEAST, 0.4, 0.5, 0 } } },
	/* Whatever it waits in: who uses no processor launches nothing, and what work there is, is over or another's. */
	{ PLIM_WATCH_IDLE,
	  PLIM_WATCH_MEDIUM,
	  { { WATCH_BUSY, BELOW, 5, 3, 0 },
	    { WATCH_PROCESS, BELOW, 0.005, 0.003, 0 },
	    { WATCH_BLOCKED, BELOW, 0.1, 0.05, 0 },
	    { WATCH_WRITES, BELOW, 1, 0.7, 1 },
	    { WATCH_WORKERS, BELOW, 1, 1, 0 },
	    { WATCH_RANKS, BELOW, 2, 2, 0 } } },
	{ PLIM_WATCH_MAIN_SYSTEM,
	  PLIM_WATCH_MEDIUM,
	  { PACED, { WATCH_SYSTEM, AT_LEAST, 0.35, 0.5, 0 } } },
	{ PLIM_WATCH_INPUT_MAIN,
	  PLIM_WATCH_MEDIUM,
	  { PACED,
	    { WATCH_WORKERS, BELOW, 1, 1, 0 },
	    { WATCH_GAP, AT_LEAST, 0.45, 0.6, 0 },
	    { WATCH_RECEIVE, AT_LEAST, 15, 20, 0 } } },
	/* At one sample per second gaps are not seen; that much of what arrives is data, and no launches. */
	{ PLIM_WATCH_INPUT_MAIN,
	  PLIM_WATCH_MEDIUM,
	  { PACED,
	    { WATCH_WORKERS, BELOW, 1, 1, 0 },
	    { WATCH_RECEIVE, AT_LEAST, 25, 40, 0 },
	    { WATCH_DATA_SHARE, AT_LEAST, 0.6, 0.75, 0 } } },
	/* No kernel is so short that this many MiB a percent of work could be launches. */
	{ PLIM_WATCH_INPUT_MAIN,
	  PLIM_WATCH_MEDIUM,
	  { PACED,
	    { WATCH_WORKERS, BELOW, 1, 1, 0 },
	    { WATCH_RECEIVE, AT_LEAST, 25, 40, 0 },
	    { WATCH_FEED, AT_LEAST, 10, 14, 0 } } },
	/* Its workers wait for work: what the main process does with each batch is what takes the time. */
	{ PLIM_WATCH_INPUT_MAIN,
	  PLIM_WATCH_MEDIUM,
	  { PACED,
	    { WATCH_WORKER_CORES, BELOW, 0.3, 0.2, 0 },
	    { WATCH_WORKER_QUEUE, AT_LEAST, 0.6, 0.75, 0 },
	    { WATCH_RECEIVE, AT_LEAST, 25, 40, 0 },
	    { WATCH_DATA_SHARE, AT_LEAST, 0.6, 0.75, 0 } } },
	/* Small batches that it makes are as few bytes: the stack makes that sure, or says so. */
	{ PLIM_WATCH_MAIN_PYTHON,
	  PLIM_WATCH_MEDIUM,
	  { PACED,
	    { WATCH_GRAPHICS, BELOW, 5, 3.5, 0 },
	    /* else it may be what makes the batches */
	    { WATCH_RECEIVE, BELOW, 15, 10, 1 } } },
	/* It launches little, copies little and does not wait long for the GPU: so it computes, and it does in every second. */
	{ PLIM_WATCH_MAIN_PYTHON,
	  PLIM_WATCH_MEDIUM,
	  { PACED,
	    { WATCH_BUSY, BELOW, 60, 45, 0 },
	    { WATCH_SWING, BELOW, 40, 30, 0 },
	    { WATCH_RECEIVE, BELOW, 15, 10, 0 },
	    { WATCH_RANKS, BELOW, 2, 2, 0 } } },
	{ PLIM_WATCH_LAUNCH_BOUND,
	  PLIM_WATCH_MEDIUM,
	  { PACED,
	    { WATCH_RECEIVE, AT_LEAST, 25, 40, 0 },
	    { WATCH_DATA_SHARE, BELOW, 0.5, 0.35, 1 },
	    { WATCH_DENSITY, BELOW, 0.6, 0.4, 0 } } },
	/*
	 * Kernels fill the GPU and last longer than the launch of one: who only launched would keep it busy.  Of shorter ones that is
	 * not said surely: launching them may be what takes the time.
	 */
	{ PLIM_WATCH_SYNC_BOUND,
	  PLIM_WATCH_MEDIUM,
	  { PACED,
	    { WATCH_RECEIVE, AT_LEAST, 40, 50, 0 },
	    { WATCH_DATA_SHARE, BELOW, 0.5, 0.35, 1 },
	    { WATCH_DENSITY, AT_LEAST, 0.6, 0.75, 0 },
	    { WATCH_FEED, BELOW, 1.6, 1.3, 0 } } },
	{ PLIM_WATCH_SYNC_BOUND,
	  PLIM_WATCH_LOW,
	  { PACED,
	    { WATCH_RECEIVE, AT_LEAST, 40, 50, 0 },
	    { WATCH_DATA_SHARE, BELOW, 0.5, 0.35, 1 },
	    { WATCH_DENSITY, AT_LEAST, 0.6, 0.75, 0 },
	    { WATCH_FEED, BELOW, 3, 2, 0 } } },
	/* The host sets the pace; how is not seen: no GPM, or samples too far apart to see gaps. */
	{ PLIM_WATCH_HOST_PACED, PLIM_WATCH_LOW, { PACED, { WATCH_BUSY, BELOW, 85, 70, 0 } } },
};

/* That much is done by the GPU, for this job or for another one. */
static bool may_be_others(const struct clause *c, const struct watch_features *f)
{
	return c->what < WATCH_OTHERS && f->at[WATCH_OTHERS] >= WATCH_A_CONTEXT;
}

/* 0: it does not hold; 1: it does; 2: surely. */
static int holds(const struct clause *c, const struct watch_features *f)
{
	double v = f->at[c->what];

	if (isnan(v))
		return c->optional;
	if (c->op == AT_LEAST)
		return (v >= c->limit) + (v >= c->limit && v >= c->sure && !may_be_others(c, f));
	return (v < c->limit) + (v < c->limit && (v < c->sure || c->limit == c->sure));
}

/* The least of its clauses. */
static int row_holds(const struct row *r, const struct watch_features *f)
{
	int least = 2, here;

	for (size_t i = 0; i < sizeof(r->clauses) / sizeof(r->clauses[0]) && r->clauses[i].op;
	     i++) {
		here = holds(&r->clauses[i], f);
		least = here < least ? here : least;
	}
	return least;
}

static bool is_throttled(const struct watch_features *f)
{
	return (f->at[WATCH_THROTTLED] >= 0.05 && f->at[WATCH_THROTTLED_PERIODS] >= 0.1) ||
	       f->at[WATCH_DELAY] >= 0.1;
}

/* It gets less than half of what it asks for: of the time that it would run, it waits more. */
static bool gets_little(const struct watch_features *f)
{
	return f->at[WATCH_DELAY] >= 0.25 && f->at[WATCH_DELAY] >= 1.5 * f->at[WATCH_MAIN];
}

/* Is it kept waiting for that share of the time? */
static bool kept_waiting(const struct watch_features *f, double share)
{
	return f->at[WATCH_THROTTLED] >= share || f->at[WATCH_DELAY] >= share;
}

/* The only clause of the row that does not hold, and by how much of its limit; NULL: there are several, or its number is not seen. */
static const struct clause *only_one_fails(const struct row *r, const struct watch_features *f,
					   double *by)
{
	const struct clause *one = NULL;

	for (size_t i = 0; i < sizeof(r->clauses) / sizeof(r->clauses[0]) && r->clauses[i].op;
	     i++) {
		if (holds(&r->clauses[i], f))
			continue;
		if (one || isnan(f->at[r->clauses[i].what]))
			return NULL;
		one = &r->clauses[i];
	}
	if (one)
		*by = fabs(f->at[one->what] - one->limit) / one->limit;
	return one;
}

#define FAR 0.5 /* of a limit: no one would take the one for the other */

/* What it would be if one number were another: the two nearest. */
static void find_near(const struct watch_features *f, struct watch_judgement *j)
{
	double nearest[WATCH_NEAR] = { 0 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		double by;
		const struct clause *c = only_one_fails(&rows[i], f, &by);
		unsigned at = 0;

		/* Whether a worker is there, a kernel was run or a signal came, is no matter of more or less. */
		if (!c || by > FAR || c->limit == c->sure || c->what == WATCH_SEEN ||
		    c->what == WATCH_STOPPED || rows[i].state == PLIM_WATCH_UNDECIDED)
			continue;
		while (at < j->near_count && nearest[at] <= by)
			at++;
		for (unsigned k = 0; k < j->near_count; k++)
			if (j->near[k].state == rows[i].state)
				at = WATCH_NEAR;
		if (at >= WATCH_NEAR)
			continue;
		if (!at && j->near_count) {
			j->near[1] = j->near[0];
			nearest[1] = nearest[0];
		}
		j->near[at] =
			(struct watch_near){ rows[i].state, c->what, c->op == AT_LEAST, c->limit };
		nearest[at] = by;
		if (j->near_count < WATCH_NEAR)
			j->near_count++;
	}
}

struct watch_judgement watch_judge(const struct watch_features *f)
{
	struct watch_judgement j = { .state = PLIM_WATCH_UNDECIDED,
				     .confidence = PLIM_WATCH_LOW,
				     .throttled = is_throttled(f) };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int sure = row_holds(&rows[i], f);

		if (!sure)
			continue;
		j.state = rows[i].state;
		j.confidence = sure == 2 ? PLIM_WATCH_HIGH : PLIM_WATCH_MEDIUM;
		if (j.confidence > rows[i].most)
			j.confidence = rows[i].most;
		break;
	}
	watch_weigh_stacks(f, &j);
	/* Who is kept waiting half of the time, or whose workers are, is explained by that, whatever it does else. */
	if (j.throttled && (j.state == PLIM_WATCH_UNDECIDED || kept_waiting(f, 0.5) ||
			    gets_little(f) || f->at[WATCH_WORKER_LACKS] >= 0.5)) {
		j.state = PLIM_WATCH_THROTTLED;
		j.confidence = kept_waiting(f, 0.55) ? PLIM_WATCH_HIGH : PLIM_WATCH_MEDIUM;
	}
	if (j.state == PLIM_WATCH_UNDECIDED)
		find_near(f, &j);
	return j;
}
