/*
 * How far a command is, on stderr, once it has run for two seconds: on a terminal in one line that goes when there is
 * something to print, elsewhere a line every ten seconds.  A thread of its own prints it, so that it is printed
 * whatever the command waits for.
 */
#include "progress.h"

#include "cmd.h"

#include <plimsoll/task.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LATE_MS 2000
#define TERMINAL_MS 250
#define LINES_MS 10000

static struct {
	pthread_mutex_t lock;
	pthread_cond_t ends;
	pthread_t thread;
	bool runs, ending, terminal, on_screen;
	const char *command;
	struct timespec began;
	struct plim_task task; /* of the calls of this thread */
	const char *unit;      /* of what is counted; NULL: nothing is */
	uint32_t done, total;
} progress = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct timespec progress_after(unsigned ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += ms / 1000;
	at.tv_nsec += (long)(ms % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	return at;
}

static void progress_print(void)
{
	uint64_t done = __atomic_load_n(&progress.task.done_bytes, __ATOMIC_RELAXED),
		 total = __atomic_load_n(&progress.task.total_bytes, __ATOMIC_RELAXED);
	struct timespec now;
	char what[80];

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (progress.unit)
		snprintf(what, sizeof(what), "%u of %u %s", progress.done, progress.total,
			 progress.unit);
	else if (total && total != PLIM_UNKNOWN && done < total)
		snprintf(what, sizeof(what), "%.2f of %.2f GB read", (double)done / 1e9,
			 (double)total / 1e9);
	else
		snprintf(what, sizeof(what), "still running");
	fprintf(stderr, "%splimsoll %s: %s, %lld s%s", progress.terminal ? "\r\033[K" : "",
		progress.command, what, (long long)(now.tv_sec - progress.began.tv_sec),
		progress.terminal ? "" : "\n");
	fflush(stderr);
	progress.on_screen = progress.terminal;
}

static void *progress_run(void *unused)
{
	struct timespec next = progress_after(LATE_MS);

	(void)unused;
	pthread_mutex_lock(&progress.lock);
	while (!progress.ending) {
		if (!pthread_cond_timedwait(&progress.ends, &progress.lock, &next))
			continue; /* asked to end, or woken for nothing */
		progress_print();
		next = progress_after(progress.terminal ? TERMINAL_MS : LINES_MS);
	}
	pthread_mutex_unlock(&progress.lock);
	return NULL;
}

void cmd_progress_begin(const char *command)
{
	const char *wanted = getenv("PLIMSOLL_PROGRESS");
	pthread_condattr_t clock;

	if (wanted && !strcmp(wanted, "0"))
		return;
	progress.command = command;
	progress.terminal = isatty(STDERR_FILENO) == 1;
	progress.task.size = sizeof(progress.task);
	clock_gettime(CLOCK_MONOTONIC, &progress.began);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&progress.ends, &clock);
	pthread_condattr_destroy(&clock);
	plim_task_watch(&progress.task);
	/* Without a thread there is no progress, and nothing else is lost. */
	progress.runs = !pthread_create(&progress.thread, NULL, progress_run, NULL);
}

void cmd_progress_end(void)
{
	if (!progress.runs)
		return;
	pthread_mutex_lock(&progress.lock);
	progress.ending = true;
	pthread_cond_signal(&progress.ends);
	pthread_mutex_unlock(&progress.lock);
	pthread_join(progress.thread, NULL);
	progress.runs = false;
	if (progress.on_screen)
		fputs("\r\033[K", stderr);
}

int cmd_progress_count(void *unit, uint32_t done, uint32_t total)
{
	pthread_mutex_lock(&progress.lock);
	progress.unit = done < total ? unit : NULL;
	progress.done = done;
	progress.total = total;
	pthread_mutex_unlock(&progress.lock);
	return 0;
}
