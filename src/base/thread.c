#include "thread.h"

#include "mem.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

/* What a new thread begins with: its work, and the task that its maker watches. */
struct start {
	void *(*run)(void *arg);
	void *arg;
	struct plim_task *task;
};

static void *begin_thread_work(void *at)
{
	struct start s = *(struct start *)at;

	free(at);
	mem_watch(s.task);
	return s.run(s.arg);
}

int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;
	struct start *s = malloc(sizeof(*s));
	int r;

	if (!s)
		return ENOMEM;
	*s = (struct start){ run, arg, mem_watched() };
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(thread, NULL, begin_thread_work, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		free(s);
	return r;
}

unsigned thread_processors(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

	return n > 0 ? (unsigned)n : 1;
}
