/*
 * What looks at the stack add to what the counters say.  The counters come first: a state that they are sure of stays, and one that they
 * exclude is not taken.  Between those that they leave open the stack decides, and a state that both name is sure.
 */
#include "watch/stack.h"

#include <stdio.h>

enum op { NONE, AT_LEAST, BELOW };

/* A state that the stack names, from that share of looks on; not where one of the counters says otherwise. */
struct said {
	enum watch_does does;
	enum plim_watch_state state;
	double least;
	struct {
		enum watch_feature what;
		enum op op;
		double limit;
	} excluded[4];
};

static const struct said table[] = {
	/* .item() of a tensor on the host, or behind a GPU that does nothing, waits for no GPU. */
	{ WATCH_DOES_SYNC,
	  PLIM_WATCH_SYNC_BOUND,
	  0.5,
	  { { WATCH_BUSY, AT_LEAST, 85 },
	    { WATCH_BUSY, BELOW, 5 },
	    { WATCH_CHANGE, AT_LEAST, 30 } } },
	{ WATCH_DOES_INPUT,
	  PLIM_WATCH_INPUT_MAIN,
	  0.5,
	  { { WATCH_BUSY, AT_LEAST, 85 },
	    { WATCH_WORKERS, AT_LEAST, 1 },
	    { WATCH_MAIN, BELOW, 0.5 } } },
	{ WATCH_DOES_SAVE,
	  PLIM_WATCH_SAVING,
	  0.5,
	  { { WATCH_BUSY, AT_LEAST, 40 }, { WATCH_WRITES, BELOW, 1 } } },
	{ WATCH_DOES_LAUNCH,
	  PLIM_WATCH_LAUNCH_BOUND,
	  0.6,
	  /* where the GPU has work most of the time, it would take little of it away */
	  { { WATCH_BUSY, AT_LEAST, 70 },
	    { WATCH_BUSY, BELOW, 2 },
	    { WATCH_RECEIVE, BELOW, 15 },
	    /* kernels last longer than their launches */
	    { WATCH_FEED, BELOW, 0.6 } } },
	{ WATCH_DOES_START,
	  PLIM_WATCH_STARTING,
	  0.7,
	  { { WATCH_BUSY, AT_LEAST, 5 }, { WATCH_RECEIVE, AT_LEAST, 1500 } } },
	{ WATCH_DOES_PYTHON,
	  PLIM_WATCH_MAIN_PYTHON,
	  0.7,
	  /* arithmetic of tensors looks like any other: with much of it the GPU has work */
	  { { WATCH_BUSY, AT_LEAST, 20 },
	    { WATCH_RECEIVE, AT_LEAST, 25 },
	    { WATCH_MAIN, BELOW, 0.5 } } },
	{ WATCH_DOES_SLEEP,
	  PLIM_WATCH_SLEEPING,
	  0.5,
	  { { WATCH_MAIN, AT_LEAST, 0.5 }, { WATCH_BUSY, AT_LEAST, 85 } } },
	{ WATCH_DOES_QUEUE,
	  PLIM_WATCH_INPUT_UNKNOWN,
	  0.5,
	  { { WATCH_WORKERS, BELOW, 1 },
	    { WATCH_BUSY, AT_LEAST, 85 },
	    { WATCH_MAIN, AT_LEAST, 0.5 } } },
};

#define SURELY_LOOKS 8 /* at least, to make a state sure */
#define SURELY 0.6     /* of them */
#define AGAINST 0.75   /* of them, to take another state than an unsure one */

/* Where no GPU's use is seen, nothing is said of what a GPU does: the same calls compute on the processor. */
static bool is_of_gpu(enum plim_watch_state s)
{
	return s == PLIM_WATCH_LAUNCH_BOUND || s == PLIM_WATCH_SYNC_BOUND;
}

static bool is_excluded(const struct said *s, const struct watch_features *f)
{
	if (is_of_gpu(s->state) && isnan(f->at[WATCH_BUSY]))
		return true;
	for (size_t i = 0; i < 4 && s->excluded[i].op; i++) {
		double v = f->at[s->excluded[i].what];

		if (s->excluded[i].op == AT_LEAST ? v >= s->excluded[i].limit
						  : v < s->excluded[i].limit)
			return true;
	}
	return false;
}

/* States that say of the main thread that it is what takes the time: which one it is, is where counters are weak. */
static bool is_of_main(enum plim_watch_state s)
{
	return s == PLIM_WATCH_LAUNCH_BOUND || s == PLIM_WATCH_SYNC_BOUND ||
	       s == PLIM_WATCH_MAIN_PYTHON || s == PLIM_WATCH_INPUT_MAIN ||
	       s == PLIM_WATCH_MAIN_SYSTEM;
}

/* Who uses some processor now and then may do more than nothing. */
static bool weighed_is_open(const struct watch_judgement *j, const struct watch_features *f)
{
	return j->state == PLIM_WATCH_HOST_PACED || j->state == PLIM_WATCH_UNDECIDED ||
	       (j->state == PLIM_WATCH_IDLE && f->at[WATCH_PROCESS] >= 0.002);
}

void watch_weigh_stacks(const struct watch_features *f, struct watch_judgement *j)
{
	bool open = weighed_is_open(j, f);

	if (j->confidence == PLIM_WATCH_HIGH || isnan(f->at[WATCH_DOES]) || f->at[WATCH_SEEN] < 1 ||
	    f->at[WATCH_RANKS] >= 2)
		return;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct said *s = &table[i];
		double share = f->at[WATCH_DOES + s->does];

		if (share < s->least || is_excluded(s, f))
			continue;
		if (j->state == s->state && share >= SURELY && f->at[WATCH_LOOKS] >= SURELY_LOOKS) {
			/* Work of a GPU that others hold, too, may be theirs. */
			j->confidence = j->confidence == PLIM_WATCH_MEDIUM &&
							!(f->at[WATCH_OTHERS] >= WATCH_A_CONTEXT)
						? PLIM_WATCH_HIGH
						: PLIM_WATCH_MEDIUM;
		} else if (open ||
			   (is_of_main(j->state) && j->state != s->state && share >= AGAINST)) {
			j->state = s->state;
			j->confidence = PLIM_WATCH_MEDIUM;
		}
		return;
	}
}

/* ---- in words ---- */

static const char *const phrases[WATCH_DOES_COUNT] = {
	[WATCH_DOES_PYTHON] = "is in code of its own",
	[WATCH_DOES_INPUT] = "makes batches",
	[WATCH_DOES_QUEUE] = "waits for a worker's batch",
	[WATCH_DOES_START] = "imports, loads or compiles",
	[WATCH_DOES_SAVE] = "saves",
	[WATCH_DOES_RANKS] = "is in a collective",
	[WATCH_DOES_SYNC] = "is in a call that waits for the GPU",
	[WATCH_DOES_COPY] = "copies between host and GPU",
	[WATCH_DOES_LAUNCH] = "is in a forward or backward pass or an optimizer",
	[WATCH_DOES_SLEEP] = "sleeps",
	[WATCH_DOES_WAIT] = "waits for a process, a thread or a network",
};

#define WORTH 0.2 /* share of looks that is reported */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* "the main thread makes batches in 71 % of 40 looks at its stack, mostly at train.py:88 `next(it)` (in PIL/Image.py:984 convert)" */
static void tell_place(const struct watch_place *p, double share, double looks, struct lines *out)
{
	const char *where = p->worker && strlen(p->file) > 60 ? base_name(p->file) : p->file;
	static const char installed[] = "site-packages/";
	const char *inside = p->inside, *shown = where;

	if (!strncmp(inside, installed, sizeof(installed) - 1))
		inside += sizeof(installed) - 1;
	if (!strncmp(shown, installed, sizeof(installed) - 1))
		shown += sizeof(installed) - 1;
	lines_add(out, "%s %s in %.0f %% of %.0f looks at its stack, %sat %s:%u%s%s%s%s%s%s",
		  p->worker ? "a worker" : "the main thread",
		  p->worker && p->does == WATCH_DOES_QUEUE ? "waits for work" : phrases[p->does],
		  100 * share, looks, p->share < share - 0.005 ? "mostly " : "", shown, p->line,
		  *p->code ? " `" : " in ", *p->code ? p->code : p->function, *p->code ? "`" : "",
		  *inside ? " (inside " : "", inside, *inside ? ")" : "");
}

void watch_tell_stacks(const struct watch_features *f, struct lines *evidence)
{
	double told[WATCH_DOES_COUNT] = { 0 };

	for (size_t i = 0; i < f->place_count; i++) {
		const struct watch_place *p = &f->places[i];
		double share = p->worker ? p->share : f->at[WATCH_DOES + p->does];

		if (!(share >= WORTH) || (!p->worker && told[p->does] > 0))
			continue;
		if (!p->worker)
			told[p->does] = share;
		tell_place(p, share, p->worker ? p->looks / p->share : f->at[WATCH_LOOKS],
			   evidence);
	}
}
