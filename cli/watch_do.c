/* --on LIST --do COMMAND: one command at a time, the user's text alone as its line; facts come in its environment. */
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_SECONDS 30.0
#define VARIABLES 4

extern char **environ;

double watch_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

const char *watch_event_word(enum plim_watch_event e, char out[32])
{
	(void)snprintf(out, 32, "%s", plim_watch_event_name(e));
	for (char *c = out; *c; c++)
		*c = *c == '_' ? '-' : *c;
	return out;
}

/* What a state is called shows its event, too. */
static const struct {
	const char *word;
	enum plim_watch_event event;
} states[] = { { "idle", PLIM_WATCH_IDLE_LONG },
	       { "stalled", PLIM_WATCH_STALL },
	       { "throttled", PLIM_WATCH_SLOWED } };

static bool action_is_word(const char *word, const char *at, size_t n)
{
	return strlen(word) == n && !memcmp(word, at, n);
}

/* The event that a word of a list means; PLIM_WATCH_EVENT_COUNT: none. */
static enum plim_watch_event event_of(const char *at, size_t n)
{
	char word[32];

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (action_is_word(states[i].word, at, n))
			return states[i].event;
	for (unsigned e = 0; e < PLIM_WATCH_EVENT_COUNT; e++)
		if (action_is_word(watch_event_word((enum plim_watch_event)e, word), at, n))
			return (enum plim_watch_event)e;
	return PLIM_WATCH_EVENT_COUNT;
}

static bool in_list(const char *list, enum plim_watch_event event)
{
	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");

		if (event_of(at, n) == event)
			return true;
		at += n + (at[n] == ',');
	}
	return false;
}

int watch_do_check(const struct watch_doing *d)
{
	if (!d->list != !d->command)
		return cmd_usage("--on and --do go together");
	for (const char *at = d->list; at && *at;) {
		size_t n = strcspn(at, ",");

		if (event_of(at, n) == PLIM_WATCH_EVENT_COUNT)
			return cmd_usage(
				"--on knows creep, oom-soon, idle-long (or idle), stall (stalled), "
				"input-bound, slowed (throttled), card-lost, xid, died, ended, "
				"tight-shm, late-rank, driver-silent, not '%.*s'",
				(int)n, at);
		at += n + (at[n] == ',');
	}
	return CMD_DONE;
}

static void queue(struct watch_doing *d, const struct plim_watch *w)
{
	for (size_t i = 0; d->list && i < w->alert_count; i++) {
		const struct plim_watch_alert *a = &w->alerts[i];

		if (!a->fresh || d->n == WATCH_WAITING || !in_list(d->list, a->event))
			continue;
		d->waiting[d->n].event = a->event;
		d->waiting[d->n].pid = a->pid;
		(void)snprintf(d->waiting[d->n].title, sizeof(d->waiting[d->n].title), "%s",
			       a->title);
		d->n++;
	}
}

/* The environment with PLIM_EVENT, PLIM_PID and PLIM_TEXT in front; the array is the caller's. */
static char **facts(const struct watch_doing *d, char (*texts)[320])
{
	size_t n = 0, at = 0;
	char **out, word[32];

	while (environ[n])
		n++;
	out = calloc(n + VARIABLES, sizeof(*out));
	if (!out)
		return NULL;
	(void)snprintf(texts[0], sizeof(texts[0]), "PLIM_EVENT=%s",
		       watch_event_word(d->waiting[0].event, word));
	(void)snprintf(texts[1], sizeof(texts[1]), "PLIM_PID=");
	if (d->waiting[0].pid != PLIM_UNKNOWN)
		(void)snprintf(texts[1], sizeof(texts[1]), "PLIM_PID=%llu",
			       (unsigned long long)d->waiting[0].pid);
	(void)snprintf(texts[2], sizeof(texts[2]), "PLIM_TEXT=%s", d->waiting[0].title);
	for (; at < 3; at++)
		out[at] = texts[at];
	for (size_t i = 0; i < n; i++)
		if (strncmp(environ[i], "PLIM_EVENT=", 11) != 0 &&
		    strncmp(environ[i], "PLIM_PID=", 9) != 0 &&
		    strncmp(environ[i], "PLIM_TEXT=", 10) != 0)
			out[at++] = environ[i];
	return out;
}

static int spawn(pid_t *child, const char *command, char **env)
{
	char *argv[] = { (char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
			 (char *)(uintptr_t)command, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t all;
	int r = posix_spawn_file_actions_init(&files);

	if (r)
		return r;
	r = posix_spawnattr_init(&attr);
	if (r) {
		(void)posix_spawn_file_actions_destroy(&files);
		return r;
	}
	(void)sigfillset(&all);
	(void)posix_spawnattr_setsigdefault(&attr, &all);
	(void)posix_spawnattr_setpgroup(&attr, 0);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
	(void)posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_adddup2(&files, 2,
					       1); /* the screen's output is not its own */
	r = posix_spawn(child, "/bin/sh", &files, &attr, argv, env);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&files);
	return r;
}

static void start_action(struct watch_doing *d)
{
	char texts[3][320];
	char **env = facts(d, texts);
	int r = env ? spawn(&d->child, d->command, env) : ENOMEM;

	if (r) {
		cmd_say("cannot run --do: %s", strerror(r));
		d->child = 0;
	}
	free(env);
	d->until = watch_now() + LIMIT_SECONDS;
	d->n--;
	memmove(&d->waiting[0], &d->waiting[1], d->n * sizeof(d->waiting[0]));
}

static void look_at_child(struct watch_doing *d)
{
	int status;

	if (!d->child)
		return;
	if (watch_now() > d->until)
		(void)kill(-d->child, SIGKILL);
	if (waitpid(d->child, &status, WNOHANG) == d->child)
		d->child = 0;
}

void watch_do_turn(struct watch_doing *d, const struct plim_watch *w)
{
	queue(d, w);
	look_at_child(d);
	if (!d->child && d->n)
		start_action(d);
}

void watch_do_finish(struct watch_doing *d)
{
	static const struct timespec moment = { 0, 20000000 };

	while (d->child || d->n) {
		look_at_child(d);
		if (!d->child && d->n)
			start_action(d);
		if (d->child)
			(void)nanosleep(&moment, NULL);
	}
}
