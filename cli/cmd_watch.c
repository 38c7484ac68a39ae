/* plimsoll watch: options, samples once a second, what is shown of them, an exit code. */
#include "watch.h"

#include "option_rows.h"

#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct watch_opts {
	struct plim_watch_options options; /* first, where the rows of its members store */
	bool json, once, no_color, ask;
	const char *replay, *fail_on, *on, *command, *listen, *token_file, *textfile;
	uint64_t width, interval, last;
};

static const struct opt watch_opt[] = {
	OPT_FLAG('j', "json", watch_opts, json,
		 "print JSON (schema watch/1) instead of text: at the end, or (live) one line per "
		 "sample"),
	WATCH_WHERE_OPTIONS,
	OPT_FLAG('1', "once", watch_opts, once,
		 "look for two seconds, ten times per second, report, and end"),
	OPT_STRING(0, "replay", watch_opts, replay, "FILE", NULL,
		   "judge recorded samples instead of this machine (\"-\": standard input)"),
	WATCH_LOG_OPTIONS,
	OPT_STRING(0, "fail-on", watch_opts, fail_on, "STATE,STATE...", NULL,
		   "exit with 1 if a job ended in one of these: stalled, idle, input (all of them) "
		   "..., or "
		   "fills-up"),
	OPT_HEADING("When something happens"),
	OPT_STRING(
		0, "on", watch_opts, on, "EVENT,EVENT...", NULL,
		"run the command of --do at these: creep, oom-soon, idle-long, stall, input-bound, "
		"slowed, card-lost, xid, died, ended, tight-shm, late-rank, driver-silent"),
	OPT_STRING(0, "do", watch_opts, command, "COMMAND", NULL,
		   "for /bin/sh; PLIM_EVENT, PLIM_PID and PLIM_TEXT say what happened"),
	OPT_FLAG(0, "ask", watch_opts, ask,
		 "ask a job under plimsoll record for a recording when its memory creeps"),
	OPT_HEADING("For others to see"),
	OPT_STRING(0, "listen", watch_opts, listen, "[ADDRESS:]PORT", NULL,
		   "serve a live page, and metrics for Prometheus at /metrics (port 0: any that is "
		   "free; beyond 127.0.0.1 with a token)"),
	OPT_STRING(0, "token-file", watch_opts, token_file, "FILE", NULL,
		   "the token that --listen asks for (default: made at the start, if it listens "
		   "beyond 127.0.0.1)"),
	OPT_STRING(0, "textfile", watch_opts, textfile, "FILE", NULL,
		   "write the metrics there at each sample, for node_exporter (FILE.prom)"),
	OPT_HEADING("How to look"),
	OPT_U64('i', "interval", watch_opts, interval, "seconds", 1, 3600, 1, "between samples"),
	OPT_U64(0, "for", watch_opts, last, "seconds", 1, 100000000, OPT_NONE,
		"stop after this time (default: when it is interrupted, or the job ends)"),
	WATCH_LOOK_OPTIONS,
	OPT_HEADING("How to show it"),
	WATCH_NAMES_OPTIONS,
	OPT_STYLE(watch_opts),
	OPT_END
};

/* A sample as a line, at once. */
static int show_line(const struct plim_watch *w)
{
	struct plim_err err;

	if (watch_json_line(w, cmd_to_stdout, NULL, &err))
		return cmd_fail(&err);
	return putchar('\n') == EOF || fflush(stdout) ? CMD_INPUT : CMD_DONE;
}

static int show_watching(const struct watch_opts *o, const struct plim_watch *w)
{
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	struct plim_err err;

	if (o->json ? plim_watch_json(w, cmd_to_stdout, NULL, &err)
		    : plim_watch_text(w, &style, cmd_to_stdout, NULL, &err))
		return cmd_fail(&err);
	return CMD_DONE;
}

/* ---- --fail-on ---- */

static bool is_state(const char *word, size_t n, enum plim_watch_state state)
{
	char name[32];

	snprintf(name, sizeof(name), "%s", plim_watch_state_name(state));
	for (char *c = name; *c; c++)
		*c = *c == '_' ? '-' : *c;
	return (strlen(name) == n && !memcmp(name, word, n)) ||
	       (n == 5 && !memcmp(word, "input", 5) && !strncmp(name, "input-", 6));
}

/* Walk the list: does it name `state` (or PLIM_WATCH_STATE_COUNT: is every word known?), or "fills-up"? */
static bool list_names(const char *list, enum plim_watch_state state, bool fills_up)
{
	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");

		if (fills_up ? n == 8 && !memcmp(at, "fills-up", 8) : is_state(at, n, state))
			return true;
		at += n + (at[n] == ',');
	}
	return false;
}

static int check_list(const char *list)
{
	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");
		bool known = n == 8 && !memcmp(at, "fills-up", 8);

		for (unsigned s = 0; s < PLIM_WATCH_STATE_COUNT; s++)
			known |= is_state(at, n, (enum plim_watch_state)s);
		if (!known)
			return cmd_usage(
				"--fail-on takes fills-up, input and the states of docs/watch.md "
				"(stalled, idle, input-cpu ...), not '%.*s'",
				(int)n, at);
		at += n + (at[n] == ',');
	}
	return CMD_DONE;
}

static int judged(const struct watch_opts *o, const struct plim_watch *w)
{
	for (size_t i = 0; i < w->job_count; i++) {
		const struct plim_watch_job *j = &w->jobs[i];

		if (j->verdict_count && list_names(o->fail_on, j->verdicts->state, false))
			return CMD_FAILED;
		if (j->forecast_count && j->forecasts->confidence != PLIM_WATCH_LOW &&
		    list_names(o->fail_on, PLIM_WATCH_UNDECIDED, true))
			return CMD_FAILED;
	}
	return CMD_DONE;
}

/* ---- samples, one after another ---- */

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static void wake_up(int number)
{
	(void)number; /* it ends a wait */
}

static volatile sig_atomic_t suspended;

static void suspend(int number)
{
	(void)number;
	suspended = 1;
}

struct watching {
	const struct watch_opts *o;
	struct plim_watch *w;
	struct watch_screen screen;
	struct watch_server *server;
	struct watch_doing doing;
	FILE *talk;         /* where changes are reported; NULL: they are not */
	pid_t child;        /* of -- COMMAND; 0: none, or it was waited for */
	int gate;           /* the command waits for it to be opened; -1: it was */
	int status;         /* of the child */
	double glance_time; /* of the next one */
	uint32_t glances;
	int told[64];
};

/* ---- -- COMMAND ---- */

static volatile pid_t forward_to;

static void forward_watching(int number)
{
	if (forward_to > 0)
		(void)kill(forward_to, number);
}

/* The command begins when it is looked at: it waits for a byte; without one it never ran. */
static int start_command(struct watching *x, char **argv)
{
	int gate[2];
	char byte;

	if (pipe2(gate, O_CLOEXEC)) {
		cmd_say("cannot run '%s': %s", argv[0], strerror(errno));
		return CMD_MACHINE;
	}
	x->child = fork();
	if (x->child < 0) {
		cmd_say("cannot run '%s': %s", argv[0], strerror(errno));
		x->child = 0;
		(void)close(gate[0]);
		(void)close(gate[1]);
		return CMD_MACHINE;
	}
	if (!x->child) {
		(void)close(gate[1]);
		if (read(gate[0], &byte, 1) != 1)
			_exit(0);
		(void)signal(SIGPIPE, SIG_DFL);
		execvp(argv[0], argv);
		cmd_say("cannot run '%s': %s", argv[0], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	(void)close(gate[0]);
	x->gate = gate[1];
	forward_to = x->child;
	return CMD_DONE;
}

/* `go`: else it ends without having run. */
static void open_gate(struct watching *x, bool go)
{
	if (x->gate < 0)
		return;
	if (go)
		(void)!write(x->gate, "", 1);
	(void)close(x->gate);
	x->gate = -1;
}

static void look_at_child(struct watching *x)
{
	if (x->child && waitpid(x->child, &x->status, WNOHANG) == x->child) {
		plim_watch_waited(x->w, (uint64_t)x->child, x->status);
		forward_to = x->child = 0;
	}
}

/* ---- what is reported ---- */

/* A line for each job whose state is another than before, and for each alert. */
static void say_changes(struct watching *x)
{
	const struct plim_watch *w = x->w;
	char at[16] = "", word[32];
	time_t t = time(NULL);
	struct tm tm;

	if (localtime_r(&t, &tm))
		(void)strftime(at, sizeof(at), "%H:%M:%S", &tm);
	for (size_t i = 0; i < w->job_count && i < sizeof(x->told) / sizeof(*x->told); i++) {
		const struct plim_watch_job *j = &w->jobs[i];
		int state = j->verdict_count ? (int)j->verdicts->state : -1;

		if (state == x->told[i])
			continue;
		x->told[i] = state;
		if (state >= 0)
			fprintf(x->talk, "%s  %s [%llu]  %s: %s\n", at, j->name ? j->name : "",
				(unsigned long long)j->pid,
				plim_watch_state_name((enum plim_watch_state)state),
				j->verdicts->title);
	}
	for (size_t i = 0; i < w->alert_count; i++)
		if (w->alerts[i].fresh)
			fprintf(x->talk, "%s  %s: %s\n", at,
				watch_event_word(w->alerts[i].event, word), w->alerts[i].title);
	(void)fflush(x->talk);
}

static void ask_for_recordings(struct watching *x)
{
	struct plim_err err;

	for (size_t i = 0; i < x->w->alert_count; i++) {
		const struct plim_watch_alert *a = &x->w->alerts[i];

		if (!a->fresh || (a->event != PLIM_WATCH_CREEP && a->event != PLIM_WATCH_OOM_SOON))
			continue;
		for (size_t k = 0; k < x->w->job_count; k++)
			if (x->w->jobs[k].pid == a->pid) {
				int failed = plim_watch_ask(x->w, k, &err) != PLIM_OK;

				if (x->talk && failed)
					fprintf(x->talk, "plimsoll: process %llu: %s\n",
						(unsigned long long)a->pid, err.message);
				else if (x->talk)
					fprintf(x->talk,
						"plimsoll: asked process %llu for a recording\n",
						(unsigned long long)a->pid);
			}
	}
}

static int to_fd(void *ctx, const char *text, size_t n)
{
	return write(*(int *)ctx, text, n) == (ssize_t)n ? 0 : -1;
}

/* Whole or not at all: written as a new file and renamed, as node_exporter wants it. */
static int write_textfile(const struct watch_opts *o, const struct plim_watch *w)
{
	char beside[4200];
	struct plim_err err;
	int fd, code = CMD_DONE;

	if (!o->textfile)
		return CMD_DONE;
	(void)snprintf(beside, sizeof(beside), "%.4096s.%d.tmp", o->textfile, (int)getpid());
	fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0) {
		cmd_say("cannot write '%s': %s", beside, strerror(errno));
		return CMD_INPUT;
	}
	if (plim_watch_metrics_plain(w, to_fd, &fd, &err))
		code = cmd_fail(&err);
	(void)close(fd);
	if (!code && rename(beside, o->textfile)) {
		cmd_say("cannot write '%s': %s", o->textfile, strerror(errno));
		code = CMD_INPUT;
	}
	if (code)
		(void)unlink(beside);
	return code;
}

/* ---- the loop ---- */

#define ONCE_SAMPLES 8
#define ONCE_SECONDS 2.05

static void suspend_now(struct watching *x)
{
	struct plim_watch_view view = x->screen.view; /* the page, the job, the order */
	struct plim_text_style style = { 0, view.color, view.utf8 };
	bool on = x->screen.on;

	suspended = 0;
	watch_screen_end(&x->screen);
	(void)raise(SIGSTOP);
	if (!on)
		return;
	watch_screen_begin(&x->screen, &style);
	x->screen.view = view;
}

/* Looks at stacks, between samples and as far apart as those of --once: irregular, so that no loop's steps are in time with them. */
#define GLANCE_SECONDS 0.2

static double glances_left(const struct watching *x)
{
	return x->o->options.flags & PLIM_WATCH_NO_STACKS || x->o->once
		       ? INFINITY
		       : x->glance_time - watch_now();
}

static void glance(struct watching *x)
{
	plim_watch_glance(x->w);
	x->glances = x->glances * 1103515245 + 12345;
	x->glance_time = watch_now() + GLANCE_SECONDS * (1 + (x->glances >> 16 & 255) / 512.0);
}

/* Wait for the next beat; keys and clients are served meanwhile.  true: the user wants to end. */
static bool wait_until(struct watching *x, double when)
{
	struct pollfd fds[WATCH_CLIENTS + 2];
	bool only_glance;
	double left;

	while (!stopped && (left = when - watch_now()) > 0) {
		size_t n = 0, served;

		if (glances_left(x) <= 0)
			glance(x);
		if (x->screen.on)
			fds[n++] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
		served = watch_server_wants(x->server, fds + n);
		/* A command that an alert started is looked after now and then, too. */
		if (x->doing.child && left > 0.5)
			left = 0.5;
		if (x->server && left > WATCH_BEAT)
			left = WATCH_BEAT;
		only_glance = glances_left(x) < left && !x->server && !x->doing.child;
		if (glances_left(x) < left)
			left = glances_left(x);
		if (!poll(fds, n + served, left > 0 ? (int)(left * 1000) + 1 : 0) && only_glance)
			continue; /* nothing else is new */
		if (suspended)
			suspend_now(x);
		if (x->screen.on && fds[0].revents && watch_screen_keys(&x->screen, x->w))
			return true;
		watch_server_turn(x->server, x->w);
		if (x->screen.on)
			watch_screen_draw(&x->screen, x->w);
		if (x->child) {
			look_at_child(x);
			if (!x->child)
				return false;
		}
	}
	return stopped && !forward_to;
}

static bool all_ended(const struct watching *x)
{
	const struct plim_watch *w = x->w;

	if (w->ended && !x->child)
		return true;
	for (size_t i = 0; i < w->job_count; i++)
		if (!w->jobs[i].ended)
			return false;
	return w->job_count > 0 && !x->child && !x->server && !x->o->textfile;
}

static int tick(struct watching *x)
{
	const struct watch_opts *o = x->o;
	struct plim_err err;

	if (plim_watch_tick(x->w, &err)) {
		watch_screen_end(&x->screen);
		return cmd_fail(&err);
	}
	watch_do_turn(&x->doing, x->w);
	watch_server_sample(x->server, x->w);
	if (o->ask)
		ask_for_recordings(x);
	if (x->talk)
		say_changes(x);
	if (x->screen.on)
		watch_screen_draw(&x->screen, x->w);
	else if (o->json && !o->once && show_line(x->w)) {
		stopped = 1;
		return cmd_stdout_state() == CMD_STDOUT_LEFT ? CMD_DONE : CMD_INPUT;
	}
	return x->screen.failed ? x->screen.failed : write_textfile(o, x->w);
}

/* --once: a job whose first kernel has just come is looked at for as long again. */
static bool wants_more(const struct watch_opts *o, const struct plim_watch *w, double seconds)
{
	if (!o->once || seconds > 2 * ONCE_SECONDS)
		return false;
	for (size_t i = 0; i < w->job_count; i++)
		if (!w->jobs[i].ended && !w->jobs[i].verdict_count)
			return true;
	return false;
}

static int look_watching(struct watching *x)
{
	const struct watch_opts *o = x->o;
	double step = o->once ? 0.1 : (double)o->interval, begin = watch_now(), next = begin;
	double end = o->once ? ONCE_SECONDS : o->last == OPT_NONE ? INFINITY : (double)o->last;
	unsigned least = o->once ? ONCE_SAMPLES : 0; /* a machine that is busy samples slowly */
	bool ends = false;
	int code = CMD_DONE;

	for (unsigned n = 1; !ends && code == CMD_DONE; n++) {
		code = tick(x);
		if (n == 1 && o->once) /* a driver may take seconds to start */
			begin = next = watch_now();
		next = next + step > watch_now() ? next + step : watch_now() + step;
		ends = (next > begin + end && n >= least && !wants_more(o, x->w, next - begin)) ||
		       all_ended(x) || wait_until(x, next);
		look_at_child(x);
	}
	return code;
}

/* ---- the end ---- */

/* Hours in which the job had a GPU and something else held it back. */
static double waited_hours(const struct plim_watch *w)
{
	double seconds = 0;

	for (size_t i = 0; i < w->job_count; i++)
		for (size_t k = 0; k < w->jobs[i].share_count && w->jobs[i].gpu; k++)
			if (w->jobs[i].shares[k].state != PLIM_WATCH_COMPUTE_BOUND)
				seconds += w->jobs[i].shares[k].seconds;
	return seconds / 3600;
}

static int to_stderr(void *ctx, const char *text, size_t n)
{
	(void)ctx;
	return fwrite(text, 1, n, stderr) == n ? 0 : -1;
}

/* The standard output is the command's: what became of it goes to the standard error. */
static int tell_end(struct watching *x)
{
	struct plim_text_style style = { 80, false, false };
	double hours = waited_hours(x->w);
	struct plim_err err;

	if (!x->w->job_count) {
		cmd_say("the command ended before it could be looked at");
	} else if (plim_watch_text(x->w, &style, to_stderr, NULL, &err)) {
		return cmd_fail(&err);
	}
	if (hours >= 0.05)
		cmd_say("for %.1f GPU hours something other than the GPU was the limit", hours);
	return WIFSIGNALED(x->status) ? 128 + WTERMSIG(x->status) : WEXITSTATUS(x->status);
}

static int open_one(const struct watch_opts *o, uint64_t pid, struct plim_watch **w)
{
	struct plim_watch_options options = o->options;
	struct plim_err err;

	options.size = sizeof(options);
	options.window_s = o->once ? 2 : 0;
	options.patience_s = o->once ? 20 : 0;
	options.pid = pid;
	if (o->replay ? plim_watch_replay(o->replay, &options, w, &err)
		      : plim_watch_open(&options, w, &err))
		return cmd_fail(&err);
	return CMD_DONE;
}

static void take_signals(bool screen, bool command)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction act = { .sa_handler = command ? forward_watching : stop };

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		(void)sigaction(ends[i], &act, NULL);
	if (command) { /* the terminal sends it to the job, too; we stay to tell what became of it */
		act.sa_handler = wake_up;
		(void)sigaction(SIGINT, &act, NULL);
	}
	act.sa_handler = wake_up;
	(void)sigaction(SIGCHLD, &act, NULL);
	(void)sigaction(SIGWINCH, &act, NULL);
	act.sa_handler = suspend;
	if (screen)
		(void)sigaction(SIGTSTP, &act, NULL);
}

/* What the command line may not say at once. */
static int check_watching(const struct watch_opts *o, const struct watch_doing *doing, int argc,
			  char **argv)
{
	bool command = argc && !strcmp(argv[0], "--");
	char *rest;
	int code = check_list(o->fail_on);

	if (!code)
		code = watch_do_check(doing);
	if (!code && o->replay &&
	    (argc || o->once || o->options.log_path || o->listen || o->textfile || o->on))
		code = cmd_usage("--replay cannot be combined with a process, --once, --log, "
				 "--listen, --textfile or --on");
	if (!code && o->options.flags & PLIM_WATCH_HERE && (argc || o->replay))
		code = cmd_usage("--here cannot be combined with a process, a command or --replay");
	if (!code && command && (o->once || o->json || argc < 2))
		code = argc < 2 ? cmd_usage("-- wants a command")
				: cmd_usage("-- COMMAND cannot be combined with --once or --json: "
					    "the standard output is the command's");
	if (!code && argc && !command) {
		errno = 0;
		(void)strtoull(argv[0], &rest, 10);
		if (*rest || rest == argv[0] || argv[0][0] == '-' || errno)
			code = cmd_usage(
				"'%.200s' is not a process: a number is expected, or -- and a "
				"command",
				argv[0]);
		if (code)
			cmd_say_else(argv[0], "watch", "it");
		else if (argc > 1)
			code = cmd_usage("watch does not take '%.200s'", argv[1]);
	}
	return code;
}

static int watch_now_or_later(struct watching *x, uint64_t pid)
{
	const struct watch_opts *o = x->o;
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	bool command = x->child > 0;
	int code = CMD_DONE;

	if (o->listen)
		code = watch_server_begin(o->listen, o->token_file, &x->server);
	if (!code)
		code = open_one(o, pid, &x->w);
	open_gate(x, !code);
	if (code)
		return code;
	if (!o->once && !o->json && !command)
		watch_screen_begin(&x->screen, &style);
	if (!o->once && !o->json && !x->screen.on)
		x->talk = command ? stderr : stdout;
	take_signals(x->screen.on, command);
	code = look_watching(x);
	watch_screen_end(&x->screen);
	watch_do_finish(&x->doing);
	return code;
}

static int run_live(struct watching *x, int argc, char **argv)
{
	bool command = argc && !strcmp(argv[0], "--"), hangs;
	int code = command ? start_command(x, argv + 1) : CMD_DONE;

	if (!code)
		code = watch_now_or_later(x, command ? (uint64_t)x->child
					     : argc  ? strtoull(argv[0], NULL, 10)
						     : PLIM_UNKNOWN);
	/* Whatever became of watching, the command goes on. */
	while (x->child && (waitpid(x->child, &x->status, 0) == x->child || errno != EINTR))
		x->child = 0;
	if (code == CMD_DONE && command)
		code = tell_end(x);
	else if (code == CMD_DONE && !(x->o->json && !x->o->once))
		code = show_watching(x->o, x->w);
	if (code == CMD_DONE)
		code = judged(x->o, x->w);
	hangs = x->w && x->w->driver_silent_seconds > 0;
	watch_server_end(x->server);
	plim_watch_free(x->w);
	if (hangs) { /* its library's own end would wait for it */
		(void)fflush(NULL);
		_exit(code);
	}
	return code;
}

/* What a tick takes, the next one takes again: it is not given back in between, page by page. */
static void keep_memory(void)
{
#ifdef __GLIBC__
	(void)mallopt(M_TRIM_THRESHOLD, 4 << 20);
	(void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

static int watch_run(const void *values, int argc, char **argv)
{
	const struct watch_opts *o = values;
	struct watching x = { .o = o,
			      .gate = -1,
			      .doing = { .list = o->on, .command = o->command } };
	struct plim_watch *w = NULL;
	int code = check_watching(o, &x.doing, argc, argv);

	memset(x.told, -1, sizeof(x.told));
	if (code)
		return code;
	if (!o->replay) {
		keep_memory();
		return run_live(&x, argc, argv);
	}
	code = open_one(o, PLIM_UNKNOWN, &w);
	if (!code)
		code = show_watching(o, w);
	if (!code)
		code = judged(o, w);
	plim_watch_free(w);
	return code;
}

static const struct cmd_example examples[] = {
	{ "plimsoll watch -- python train.py", "watch a job from its start to its end" },
	{ "plimsoll watch --here --once", "my jobs on a machine that others use, too" },
	{ "plimsoll watch --listen 9478", "a live page, and metrics for Prometheus" },
	{ "plimsoll watch --on oom-soon,died --do 'notify \"$PLIM_TEXT\"'",
	  "tell someone in time" },
	{ "plimsoll watch --replay run.jsonl", "what held a recorded job back" },
	{ NULL, NULL },
};

const struct cmd cmd_watch = {
	.name = "watch",
	.summary = "running jobs: what slows each down, and when its memory will be full",
	.args = "[PID | --here | -- COMMAND...]",
	.about =
		"Looks from outside: the GPU's driver, /proc and control groups.  On a terminal it "
		"is a screen ('?' shows its keys), else a line is printed when something "
		"changes.\n\nWith -- COMMAND the exit code is the command's, or 128 and the signal "
		"that ended it; what is reported goes to the standard error.",
	.examples = examples,
	.common = "once fail-on on do log replay interval for json",
	.opts = watch_opt,
	.opts_size = sizeof(struct watch_opts),
	.min_args = 0,
	.max_args = -1,
	.flags = CMD_STARTS,
	.run = watch_run,
};
