/* Signals to a job (watch/ask.c), and what is known of its end. */
#include "commands/watch/watch.h"

#include <signal.h>

static const struct watch_known *find_asked(const struct plim_watch *w, size_t job,
					    struct plim_err *err)
{
	const struct plim_watch_hidden *h = w->hidden;

	if (h->look && !h->options.root && job < w->job_count)
		for (size_t i = 0; i < h->jobs.n; i++)
			if (h->jobs.at[i].pid == w->jobs[job].pid && !h->jobs.at[i].job->ended)
				return &h->jobs.at[i];
	(void)err_set(err, PLIM_E_ARG, "there is no such job, or it has ended");
	return NULL;
}

enum plim_status plim_watch_signal(const struct plim_watch *w, size_t job, int number,
				   struct plim_err *err)
{
	const struct watch_known *k = find_asked(w, job, err);

	return k ? watch_signal(k->pid, k->start_time, number, NULL, err) : PLIM_E_ARG;
}

enum plim_status plim_watch_ask(const struct plim_watch *w, size_t job, struct plim_err *err)
{
	const struct watch_known *k = find_asked(w, job, err);

	return k ? watch_signal(k->pid, k->start_time, SIGUSR1, &watch_job_last(k->job)->host, err)
		 : PLIM_E_ARG;
}

/*
 * The process that was asked for may pass on how the last command that it started ended (a shell does), or end by itself.  Of those
 * before it, nothing.
 */
void plim_watch_waited(struct plim_watch *w, uint64_t pid, int status)
{
	struct plim_watch_hidden *h = w->hidden;
	double last = -INFINITY;

	for (size_t i = 0; i < h->jobs.n; i++)
		last = fmax(last, h->jobs.at[i].job->ended ? h->jobs.at[i].ended_time : INFINITY);
	for (size_t i = 0; i < h->jobs.n; i++) {
		struct watch_known *k = &h->jobs.at[i];
		bool is_last = !k->job->ended || k->ended_time >= last;

		if (k->pid == pid || (h->options.pid == pid && !k->end_told && is_last)) {
			k->waited = true;
			k->of_starter = k->pid != pid;
			k->status = status;
		}
	}
}
