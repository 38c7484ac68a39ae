/* A verdict in sentences, with the numbers of its window; and what to change. */
#include "watch/stack.h"

#include <stdio.h>

struct telling {
	const struct watch_features *f;
	const struct watch_judgement *j;
	struct lines evidence, advice;
	double seconds; /* that the state lasts */
};

static double percent(double share)
{
	return 100 * share;
}

/* "the GPU works 12 % of the time, its multiprocessors 4 %" */
static void tell_gpu(struct telling *t)
{
	const double *at = t->f->at;

	if (isnan(at[WATCH_BUSY]))
		lines_add(&t->evidence, "the GPU's use is not seen");
	else if (isnan(at[WATCH_SM]))
		lines_add(&t->evidence,
			  "the GPU has work %.0f %% of the time (how much of it works is not seen: "
			  "no GPM on this GPU)",
			  at[WATCH_BUSY]);
	else
		lines_add(&t->evidence,
			  "the GPU has work %.0f %% of the time; %.0f %% of its multiprocessors "
			  "are active, tensor cores %.0f %%",
			  at[WATCH_BUSY], at[WATCH_SM], at[WATCH_TENSOR]);
	if (at[WATCH_OTHERS] >= WATCH_A_CONTEXT)
		lines_add(&t->evidence,
			  "other processes hold %.1f GiB of this GPU: its work may be theirs",
			  at[WATCH_OTHERS]);
}

static void tell_main(struct telling *t)
{
	const double *at = t->f->at;

	lines_add(&t->evidence,
		  "the main thread uses %.0f %% of a core, %.0f %% of that inside the kernel",
		  percent(at[WATCH_MAIN]), percent(at[WATCH_SYSTEM]));
}

/* With another program that shows stacks; who has looked at them has reported the line already. */
static void advise_looking(struct telling *t, const char *text)
{
	if (!(t->f->at[WATCH_LOOKS] >= 1))
		lines_put(&t->advice, text);
}

/* What the time that the GPU waits is worth, at most. */
static void tell_most(struct telling *t)
{
	double busy = t->f->at[WATCH_BUSY];

	if (busy >= 1 && busy < 90)
		lines_add(&t->evidence,
			  "if the GPU never had to wait, steps would be up to %.1f times as fast",
			  100 / busy);
}

static void tell_workers(struct telling *t)
{
	const double *at = t->f->at;

	if (at[WATCH_WORKERS] >= 1)
		lines_add(&t->evidence, "%.0f DataLoader worker%s, each at %.0f %% of a core",
			  at[WATCH_WORKERS], at[WATCH_WORKERS] == 1 ? "" : "s",
			  percent(at[WATCH_WORKER_CORES]));
	else
		lines_add(&t->evidence, "no DataLoader workers");
	tell_gpu(t);
	tell_most(t);
}

static void input_cpu(struct telling *t)
{
	const double *at = t->f->at;
	double n = at[WATCH_WORKERS], busy = at[WATCH_BUSY];
	double wanted = busy >= 1 ? ceil(n * 100 / busy) : INFINITY;
	double cores = t->f->cores == PLIM_UNKNOWN ? NAN : (double)t->f->cores;
	double most = isnan(cores) ? NAN : cores - 1;

	tell_workers(t);
	if (!isnan(most) && most > n)
		lines_add(&t->advice,
			  "num_workers=%.0f: %.0f cores are there, so up to %.1f times as many "
			  "samples per second",
			  fmin(most, wanted), cores, fmin(most, wanted) / n);
	else if (isnan(most))
		lines_add(&t->advice, "more num_workers, as far as there are cores");
	else
		lines_add(&t->advice, "all %.0f cores are taken: more workers do not help", cores);
	lines_add(&t->advice, "cheaper transforms: decode to the size that is used, keep uint8 and "
			      "normalise on the GPU, cache what is always the same");
}

static void input_disk(struct telling *t)
{
	const double *at = t->f->at;

	if (at[WATCH_WORKERS] < 1) {
		lines_add(&t->evidence,
			  "the main thread waits %.0f %% of its time for a disk and reads %.0f "
			  "MB/s; there "
			  "are no DataLoader workers",
			  percent(at[WATCH_BLOCKED]), at[WATCH_READS]);
		tell_gpu(t);
		lines_add(&t->advice,
			  "num_workers: several reads at a time, next to the GPU's work");
		lines_add(&t->advice, "copy the data to a local disk or to memory before training");
		return;
	}
	lines_add(
		&t->evidence,
		"%.0f %% of the workers' time is waiting for a disk; together they read %.0f MB/s",
		percent(at[WATCH_WORKER_DISK]), at[WATCH_WORKER_READS]);
	tell_workers(t);
	lines_add(&t->advice, "copy the data to a local disk or to memory before training");
	lines_add(&t->advice,
		  "read larger pieces in order (shards) instead of many small files at random");
	lines_add(&t->advice, "more workers help only as long as the %.0f MB/s rise with them",
		  at[WATCH_WORKER_READS]);
}

static void input_source(struct telling *t)
{
	const double *at = t->f->at;

	if (at[WATCH_WORKER_SOURCE] < at[WATCH_WORKER_POLLS])
		lines_add(&t->evidence,
			  "the main thread waits for a batch while the workers wait %.0f %% of "
			  "their time in "
			  "poll: not for work, or a batch would be there, but for a socket",
			  percent(at[WATCH_WORKER_POLLS]));
	else
		lines_add(&t->evidence,
			  "the workers sleep %.0f %% of their time%s%s%s: they wait for something "
			  "that is "
			  "not this disk",
			  percent(at[WATCH_WORKER_SOURCE]),
			  *t->f->worker_sleeps_in ? " (kernel: " : "", t->f->worker_sleeps_in,
			  *t->f->worker_sleeps_in ? ")" : "");
	tell_workers(t);
	lines_add(&t->advice, "many more num_workers and a larger prefetch_factor: sleeping "
			      "workers cost memory but no cores");
	lines_add(&t->advice, "find what they wait for (a network file system, an object store, a "
			      "rate limit) and read ahead of it");
}

static void input_unknown(struct telling *t)
{
	const double *at = t->f->at;

	if (at[WATCH_DATA] >= 0)
		lines_add(&t->evidence, "the job itself says that %.0f %% of its time is %s",
			  percent(at[WATCH_DATA]),
			  at[WATCH_WORKERS] >= 1
				  ? "waiting for data"
				  : "between two steps: data, or what the script does there");
	tell_workers(t);
	if (at[WATCH_WORKER_QUEUE] >= 0.5 && at[WATCH_WORKERS_SUM] >= 0.7)
		lines_add(
			&t->evidence,
			"its %.0f workers use %.1f cores together and sleep else, while a batch is "
			"waited for: for each other (a lock), or for one that has a longer sample",
			at[WATCH_WORKERS], at[WATCH_WORKERS_SUM]);
	if (t->f->sleeps_hidden)
		lines_add(&t->evidence, "what the workers sleep in may not be read here (another "
					"user's processes, or a hardened kernel)");
	advise_looking(t, "look at one worker: py-spy dump --pid PID");
}

static void input_main(struct telling *t)
{
	const double *at = t->f->at;

	if (at[WATCH_WORKERS] >= 1)
		lines_add(&t->evidence,
			  "%.0f DataLoader workers wait for work %.0f %% of their time; %.0f MiB/s "
			  "of data come to the GPU",
			  at[WATCH_WORKERS], percent(at[WATCH_WORKER_QUEUE]), at[WATCH_RECEIVE]);
	else if (at[WATCH_GAP] >= 0.45)
		lines_add(
			&t->evidence,
			"no DataLoader workers; the GPU did nothing in %.0f %% of the samples and "
			"then received data",
			percent(at[WATCH_GAP]));
	else if (at[WATCH_RECEIVE] >= 15)
		lines_add(&t->evidence, "no DataLoader workers; %.0f MiB/s of data come to the GPU",
			  at[WATCH_RECEIVE]);
	else
		lines_add(&t->evidence, "no DataLoader workers");
	tell_main(t);
	tell_gpu(t);
	tell_most(t);
	if (at[WATCH_WORKERS] >= 1)
		lines_add(&t->advice,
			  "what the loop does with a batch before the GPU has it: do it "
			  "in the Dataset or collate_fn, or on the GPU");
	else
		lines_add(&t->advice, "DataLoader(num_workers=4, pin_memory=True, "
				      "persistent_workers=True): the main process makes each batch "
				      "itself");
}

static void starting(struct telling *t)
{
	const double *at = t->f->at;

	/* By its stack; else because no kernel has run. */
	if (at[WATCH_DOES + WATCH_DOES_START] >= 0.7 && !(at[WATCH_SEEN] < 1))
		lines_add(&t->evidence,
			  "it imports, loads or compiles, whether or not a kernel has "
			  "run before");
	else
		lines_add(&t->evidence, "no kernel has run on the GPU yet");
	tell_main(t);
	if (at[WATCH_READS] >= 1)
		lines_add(&t->evidence, "it reads %.0f MB/s from disk (libraries, a model)",
			  at[WATCH_READS]);
}

static void compute(struct telling *t)
{
	const double *at = t->f->at;

	tell_gpu(t);
	if (at[WATCH_POWER] > 0)
		lines_add(&t->evidence, "it draws %.0f %% of its power limit",
			  percent(at[WATCH_POWER]));
	if (at[WATCH_TENSOR] < 15)
		lines_add(&t->advice,
			  "tensor cores are used %.0f %% of the time: if this is fp32, try bf16 "
			  "autocast or torch.set_float32_matmul_precision('high')",
			  at[WATCH_TENSOR]);
}

static void thin(struct telling *t)
{
	tell_gpu(t);
	lines_add(&t->evidence,
		  t->f->at[WATCH_BUSY] >= 85
			  ? "kernels follow each other without a gap, but each fills a small part "
			    "of the GPU"
			  : "kernels last much longer than their launches, but each fills a small "
			    "part of the GPU");
	lines_add(&t->advice, "a larger batch, if memory allows");
	lines_add(&t->advice,
		  "torch.compile, fused optimizers and attention: fewer, larger kernels");
}

static void copies(struct telling *t)
{
	const double *at = t->f->at;

	lines_add(&t->evidence, "%.1f GiB/s to the GPU and %.1f GiB/s from it",
		  at[WATCH_RECEIVE] / 1024, at[WATCH_TRANSMIT] / 1024);
	tell_gpu(t);
	lines_add(&t->advice, "pin_memory=True and .to(device, non_blocking=True): pinned memory "
			      "copies several times as fast, next to the compute");
	lines_add(&t->advice, "keep on the GPU what is copied each step");
}

static void sleeping(struct telling *t)
{
	if (t->f->at[WATCH_SLEEPS] > 0)
		lines_add(&t->evidence,
			  "the main thread is in time.sleep or select in %.0f %% of the samples",
			  percent(t->f->at[WATCH_SLEEPS]));
	tell_gpu(t);
	advise_looking(t,
		       "find the sleep, the rate limit or the polling loop: py-spy dump --pid PID");
}

static void system_work(struct telling *t)
{
	tell_main(t);
	tell_gpu(t);
	tell_most(t);
	lines_add(&t->advice, "page faults, file calls, copies: perf top -p PID says which");
}

static void python_work(struct telling *t)
{
	tell_main(t);
	tell_gpu(t);
	tell_most(t);
	advise_looking(t, "py-spy top --pid PID says which line; vectorise it, or do it elsewhere");
}

static void launches(struct telling *t)
{
	tell_main(t);
	tell_gpu(t);
	if (t->f->at[WATCH_DENSITY] >= 0)
		lines_add(&t->evidence,
			  "while kernels run, they fill %.0f %% of the GPU; the host sends work "
			  "without a pause",
			  percent(t->f->at[WATCH_DENSITY]));
	tell_most(t);
	lines_add(&t->advice, "torch.compile(mode='reduce-overhead') or CUDA graphs");
	lines_add(&t->advice, "a larger batch; foreach or fused optimizers");
}

static void syncs(struct telling *t)
{
	tell_main(t);
	tell_gpu(t);
	if (t->f->at[WATCH_DENSITY] >= 0.6)
		lines_add(&t->evidence,
			  "kernels fill the GPU while they run, with gaps between: the host "
			  "waits behind each, or sends the next one late");
	if (t->j->confidence == PLIM_WATCH_LOW)
		lines_add(
			&t->evidence,
			"they are about as short as a launch takes: that it launches too many of "
			"them (launch-bound) looks the same; py-spy dump --native in a wait or in "
			"a launch shows which");
	tell_most(t);
	lines_add(&t->advice, "no .item(), .cpu(), print(loss) or boolean masks each step: every "
			      "tenth or hundredth will do");
	lines_add(&t->advice, "torch.cuda.set_sync_debug_mode('warn') names the lines");
}

static void paced(struct telling *t)
{
	tell_main(t);
	tell_gpu(t);
	lines_add(&t->evidence, "one of: many small kernels, a wait behind each, Python between "
				"them, batches made by the main process");
	advise_looking(t, "py-spy dump --pid PID, or torch.profiler over ten steps, shows which");
}

static void saving(struct telling *t)
{
	if (t->f->at[WATCH_WRITES] >= 1)
		lines_add(&t->evidence, "it writes %.0f MB/s while the GPU waits",
			  t->f->at[WATCH_WRITES]);
	lines_add(&t->advice,
		  "save asynchronously (torch.distributed.checkpoint.async_save), or less often");
}

static void idle(struct telling *t)
{
	const double *at = t->f->at;

	if (at[WATCH_STOPPED] >= 0.75) {
		lines_add(&t->evidence,
			  "it is stopped (state T): Ctrl-Z, SIGSTOP or a debugger, for %.0f s",
			  t->seconds);
		lines_add(&t->advice, "kill -CONT PID, or fg in its shell, lets it go on");
		return;
	}
	lines_add(&t->evidence,
		  at[WATCH_BUSY] >= 0.1
			  ? "the process uses %.1f %% of a core, too little to launch work, for "
			    "%.0f s"
			  : "the GPU does nothing, and the process uses %.1f %% of a core, for "
			    "%.0f s",
		  percent(at[WATCH_PROCESS]), t->seconds);
	if (at[WATCH_BUSY] >= 0.1)
		tell_gpu(t);
	lines_add(&t->advice,
		  "if no one needs it, end it: its memory is taken from everyone else on this GPU");
}

static void throttled(struct telling *t)
{
	const double *at = t->f->at;
	bool stopped = at[WATCH_THROTTLED] >= 0.05;

	if (stopped) {
		if (t->f->quota_cores > 0)
			lines_add(&t->evidence,
				  "its cgroup has %.1f cores and was stopped for it in %.0f %% of "
				  "the periods",
				  t->f->quota_cores, percent(at[WATCH_THROTTLED_PERIODS]));
		else
			lines_add(&t->evidence, "its cgroup was stopped in %.0f %% of the periods",
				  percent(at[WATCH_THROTTLED_PERIODS]));
	}
	if (at[WATCH_DELAY] >= 0.1)
		lines_add(
			&t->evidence,
			"its main thread was ready to run and had no processor %.0f %% of the time",
			percent(at[WATCH_DELAY]));
	if (at[WATCH_WORKER_LACKS] >= 0.3)
		lines_add(&t->evidence,
			  "its workers were ready to run and had no processor %.0f %% of the time",
			  percent(at[WATCH_WORKER_LACKS]));
	if (stopped)
		lines_add(&t->advice, "a higher CPU limit (cpu.max; resources.limits.cpu), or "
				      "fewer workers and threads (OMP_NUM_THREADS)");
	else if (at[WATCH_DELAY] >= 0.1)
		lines_add(&t->advice, "too many processes for the cores it may use: end others, or "
				      "fewer workers and threads (OMP_NUM_THREADS)");
}

static void stalled(struct telling *t)
{
	lines_add(&t->evidence, "the job's gauge has told no new step for %.0f s", t->seconds);
	tell_main(t);
	tell_gpu(t);
	advise_looking(
		t, "py-spy dump --pid PID shows where it stands; with several ranks, look at each");
}

static void deadlock(struct telling *t)
{
	const double *at = t->f->at;

	lines_add(&t->evidence,
		  "for %.0f s the main thread waited for a batch, and of the %.0f worker%s each "
		  "waited "
		  "for a lock without a time limit, or for work, at %.0f %% of a core",
		  t->f->seconds, at[WATCH_WORKERS], at[WATCH_WORKERS] == 1 ? "" : "s",
		  percent(at[WATCH_WORKER_CORES]));
	lines_add(&t->advice, "a lock that another thread held when the workers were forked stays "
			      "locked in them: make locks, thread pools, clients and loggers in "
			      "__getitem__ or worker_init_fn, not before the loop");
	lines_add(&t->advice,
		  "DataLoader(multiprocessing_context=\"spawn\") starts workers without "
		  "the parent's locks");
	advise_looking(t, "DataLoader(timeout=60) makes it an error with a stack");
}

/* What a rule asks for; in percent where it is a share. */
static const struct {
	const char *what;
	double scale;
	const char *unit;
} asked[WATCH_FEATURE_COUNT] = {
	[WATCH_BUSY] = { "the GPU had work", 1, " % of the time" },
	[WATCH_GRAPHICS] = { "the GPU had work", 1, " % of the time" },
	[WATCH_SM] = { "SM activity were", 1, " %" },
	[WATCH_DENSITY] = { "kernels filled the GPU by", 100, " %" },
	[WATCH_FEED] = { "kernels were shorter: PCIe brought", 1, " MiB/s for a percent of work" },
	[WATCH_DATA_SHARE] = { "of what PCIe brings, data were", 100, " %" },
	[WATCH_RECEIVE] = { "PCIe brought", 1, " MiB/s" },
	[WATCH_LINK] = { "PCIe moved", 1, " MiB/s" },
	[WATCH_GAP] = { "the GPU did nothing in", 100, " % of the samples" },
	[WATCH_CHANGE] = { "its use changed by", 1, " points within the window" },
	[WATCH_SWING] = { "its use swung by", 1, " points from second to second" },
	[WATCH_POWER] = { "it drew", 100, " % of its power limit" },
	[WATCH_MAIN] = { "the main thread used", 100, " % of a core" },
	[WATCH_PACE] = { "the main thread used", 100, " % of a core" },
	[WATCH_PROCESS] = { "the process used", 100, " % of a core" },
	[WATCH_SYSTEM] = { "of the main thread's time, the kernel's were", 100, " %" },
	[WATCH_WAITS] = { "the main thread waited", 100, " % of the time" },
	[WATCH_POLLS] = { "the main thread were in poll in", 100, " % of the samples" },
	[WATCH_SLEEPS] = { "the main thread slept by itself in", 100, " % of the samples" },
	[WATCH_BLOCKED] = { "the main thread waited for a disk in", 100, " % of the samples" },
	[WATCH_WRITES] = { "it wrote", 1, " MB/s to files" },
	[WATCH_READS] = { "it read", 1, " MB/s from disks" },
	[WATCH_WORKER_CORES] = { "each worker used", 100, " % of a core" },
	[WATCH_WORKERS_SUM] = { "all workers used", 1, " cores" },
	[WATCH_WORKER_DISK] = { "workers waited for a disk", 100, " % of their time" },
	[WATCH_WORKER_QUEUE] = { "workers waited for work", 100, " % of their time" },
	[WATCH_WORKER_POLLS] = { "workers were in poll", 100, " % of their time" },
	[WATCH_WORKER_LACKS] = { "workers were ready and had no processor", 100,
				 " % of their time" },
	[WATCH_WORKER_SOURCE] = { "workers slept for something else", 100, " % of their time" },
	[WATCH_DATA] = { "steps waited for data", 100, " % of their time" },
};

static const char *title_of(enum plim_watch_state state);

/* What it would be, and what distinguishes it. */
static void tell_near(struct telling *t)
{
	for (unsigned i = 0; i < t->j->near_count; i++) {
		const struct watch_near *n = &t->j->near[i];
		double scale = asked[n->what].scale;

		if (asked[n->what].what)
			lines_add(&t->evidence, "near to: %s, if %s %s %.4g%s; it is %.3g",
				  title_of(n->state), asked[n->what].what,
				  n->at_least ? "at least" : "less than", scale * n->limit,
				  asked[n->what].unit, scale * t->f->at[n->what]);
	}
}

static void undecided(struct telling *t)
{
	const double *at = t->f->at;

	if (!isnan(at[WATCH_MAIN]))
		tell_main(t);
	tell_gpu(t);
	if (at[WATCH_WORKERS] >= 1)
		lines_add(&t->evidence, "%.0f DataLoader workers, each at %.0f %% of a core",
			  at[WATCH_WORKERS], percent(at[WATCH_WORKER_CORES]));
	if (at[WATCH_CHANGE] >= 30)
		lines_add(&t->evidence, "the GPU's use changed by %.0f points within the window",
			  at[WATCH_CHANGE]);
	if (at[WATCH_SENDS] >= 50 && at[WATCH_BUSY] < 40)
		lines_add(&t->evidence,
			  "it writes %.0f MB/s to sockets or pipes: a collective on the CPU "
			  "(gloo), or "
			  "data for another process",
			  at[WATCH_SENDS]);
	if (at[WATCH_RANKS] >= 2 && at[WATCH_BUSY] >= 85 && !(at[WATCH_SM] >= 40))
		lines_add(
			&t->evidence,
			"it is one of %.0f ranks: a collective that waits looks like this, and one "
			"that adds much, and small kernels",
			at[WATCH_RANKS]);
	tell_near(t);
	if (isnan(at[WATCH_SEEN]) && !isnan(at[WATCH_BUSY]))
		lines_add(&t->evidence, "it held the GPU before it was looked at: whether it has "
					"run a kernel is not known");
	if (isnan(at[WATCH_SM]))
		lines_add(&t->evidence, "SM activity is missing: the GPU or its driver has no GPM");
	if (t->f->sleeps_hidden)
		lines_add(&t->evidence,
			  "what processes sleep in is missing: not permitted, or hidden");
	lines_add(&t->advice, "plimsoll.attach(model, optimizer, loader) in the job shows the time "
			      "in each phase, which decides it");
}

static const struct {
	const char *title;
	void (*tell)(struct telling *t);
} words[PLIM_WATCH_STATE_COUNT] = {
	[PLIM_WATCH_UNDECIDED] = { "not decided: what is seen fits no rule", undecided },
	[PLIM_WATCH_STARTING] = { "it is starting", starting },
	[PLIM_WATCH_COMPUTE_BOUND] = { "the GPU is the limit, as it should be", compute },
	[PLIM_WATCH_BUSY_THIN] = { "the GPU is rarely idle, but most of it is", thin },
	[PLIM_WATCH_INPUT_CPU] = { "it waits for data: the workers compute", input_cpu },
	[PLIM_WATCH_INPUT_DISK] = { "it waits for data: a disk is too slow", input_disk },
	[PLIM_WATCH_INPUT_SOURCE] = { "it waits for data: the workers wait for a slow source",
				      input_source },
	[PLIM_WATCH_INPUT_MAIN] = { "it waits for data: the main process makes each batch",
				    input_main },
	[PLIM_WATCH_INPUT_UNKNOWN] = { "it waits for data", input_unknown },
	[PLIM_WATCH_MAIN_SYSTEM] = { "the main thread works inside the kernel, the GPU waits",
				     system_work },
	[PLIM_WATCH_MAIN_PYTHON] = { "the main thread computes, the GPU waits", python_work },
	[PLIM_WATCH_LAUNCH_BOUND] = { "many small kernels: launching them is what takes the time",
				      launches },
	[PLIM_WATCH_SYNC_BOUND] = { "the host waits for the GPU again and again", syncs },
	[PLIM_WATCH_HOST_PACED] = { "the host sets the pace, the GPU waits for it", paced },
	[PLIM_WATCH_COPY_BOUND] = { "copying between host and GPU takes the time", copies },
	[PLIM_WATCH_SAVING] = { "it writes a checkpoint, the GPU waits", saving },
	[PLIM_WATCH_SLEEPING] = { "the main thread sleeps", sleeping },
	[PLIM_WATCH_IDLE] = { "it holds memory and does nothing", idle },
	[PLIM_WATCH_THROTTLED] = { "it is not given the processors it wants", throttled },
	[PLIM_WATCH_STALLED] = { "it has stopped making steps", stalled },
	[PLIM_WATCH_DEADLOCK] = { "the workers wait for a lock that no one "
				  "releases",
				  deadlock },
};

static const char *title_of(enum plim_watch_state state)
{
	return words[state].title;
}

enum plim_status watch_tell(const struct watch_judgement *j, const struct watch_features *f,
			    double seconds, struct arena *arena, struct watch_words *out,
			    struct plim_err *err)
{
	struct telling t = {
		f, j, { .arena = arena, .err = err }, { .arena = arena, .err = err }, seconds
	};
	enum plim_status st;

	words[j->state].tell(&t);
	if (j->throttled && j->state != PLIM_WATCH_THROTTLED)
		throttled(&t);
	watch_tell_stacks(f, &t.evidence);
	out->title = words[j->state].title;
	st = lines_keep(&t.evidence, &out->evidence, &out->evidence_count);
	return st ? st : lines_keep(&t.advice, &out->advice, &out->advice_count);
}
