/* plimsoll watch: options, samples once a second, what is shown of them, an exit code. */
#include "cmd.h"

#include <plimsoll/watch.h>

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

struct watch_opts {
	bool json, once, no_color, no_gpu;
	const char *replay, *log, *nvml, *fail_on;
	uint64_t width, interval, last;
};

static const struct opt watch_opt[] = {
	OPT_FLAG('j', "json", watch_opts, json,
		 "print JSON (schema watch/1) instead of text: at the end, or (live) a line a "
		 "sample"),
	OPT_FLAG('1', "once", watch_opts, once,
		 "look for two seconds, ten times a second, tell, and end"),
	OPT_STRING(0, "replay", watch_opts, replay, "FILE", NULL,
		   "judge recorded samples instead of this machine (\"-\": standard input)"),
	OPT_STRING(0, "log", watch_opts, log, "FILE", NULL,
		   "append every sample to this file, for --replay"),
	OPT_STRING(0, "fail-on", watch_opts, fail_on, "STATE,STATE...", NULL,
		   "exit with 1 if a job ended in one of these: stalled, idle, input (all of them) "
		   "..., or "
		   "fills-up"),
	OPT_HEADING("How to look"),
	OPT_U64('i', "interval", watch_opts, interval, "seconds", 1, 3600, 1, "between samples"),
	OPT_U64(0, "for", watch_opts, last, "seconds", 1, 100000000, OPT_NONE,
		"look no longer than that (until it is interrupted, or the job ends)"),
	OPT_FLAG(0, "no-gpu", watch_opts, no_gpu, "do not ask the NVIDIA driver"),
	OPT_STRING(0, "nvml", watch_opts, nvml, "FILE", NULL, "NVML's library (libnvidia-ml.so.1)"),
	OPT_HEADING("How to show it"),
	OPT_U64('w', "width", watch_opts, width, "columns", 40, 500, OPT_NONE,
		"of the text (the terminal's, or 80)"),
	OPT_FLAG(0, "no-color", watch_opts, no_color, "no colours (also NO_COLOR)"),
	OPT_END
};

static int show(const struct watch_opts *o, const struct plim_watch *w)
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
				"--fail-on knows fills-up, input and the states of docs/watch.md "
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

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Wait for the next beat, or a key; true: the user wants to end. */
static bool wait_until(double when, bool keys)
{
	struct pollfd in = { .fd = keys ? STDIN_FILENO : -1, .events = POLLIN };
	double left;
	char key;

	while (!stopped && (left = when - now()) > 0)
		if (poll(&in, 1, (int)(left * 1000) + 1) > 0 &&
		    (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 3 || key == 27))
			return true;
	return stopped;
}

static bool all_ended(const struct plim_watch *w)
{
	for (size_t i = 0; i < w->job_count; i++)
		if (!w->jobs[i].ended)
			return false;
	return w->job_count > 0;
}

/* A line for each job whose state is another than before. */
static void say_changes(const struct plim_watch *w, int *told, size_t room)
{
	char at[16];
	time_t t = time(NULL);
	struct tm tm;

	localtime_r(&t, &tm);
	strftime(at, sizeof(at), "%H:%M:%S", &tm);
	for (size_t i = 0; i < w->job_count && i < room; i++) {
		const struct plim_watch_job *j = &w->jobs[i];
		int state = j->verdict_count ? (int)j->verdicts->state : -1;

		if (state == told[i])
			continue;
		told[i] = state;
		if (state >= 0)
			printf("%s  [%llu]  %s: %s\n", at, (unsigned long long)j->pid,
			       plim_watch_state_name((enum plim_watch_state)state),
			       j->verdicts->title);
	}
	fflush(stdout);
}

static int draw(const struct watch_opts *o, const struct plim_watch *w)
{
	fputs("\033[H\033[J", stdout);
	return show(o, w);
}

struct screen {
	bool on;
	struct termios before;
};

/* The terminal's other screen, keys as they are typed. */
static void screen_begin(struct screen *s)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &s->before))
		return;
	raw = s->before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs("\033[?1049h\033[?25l", stdout);
	s->on = true;
}

static void screen_end(struct screen *s)
{
	if (!s->on)
		return;
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &s->before);
	s->on = false;
}

static int look(const struct watch_opts *o, struct plim_watch *w)
{
	struct screen screen = { 0 };
	double step = o->once ? 0.1 : (double)o->interval, begin = now(), next = begin;
	double end = o->once               ? begin + 2.05
		     : o->last == OPT_NONE ? INFINITY
					   : begin + (double)o->last;
	bool quiet = o->once || o->json, ends = false;
	int code = CMD_DONE, told[64];
	struct plim_err err;

	memset(told, -1, sizeof(told));
	if (!quiet && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		screen_begin(&screen);
	while (!ends && code == CMD_DONE) {
		if (plim_watch_tick(w, &err)) {
			screen_end(&screen);
			return cmd_fail(&err);
		}
		if (screen.on)
			code = draw(o, w);
		else if (o->json && !o->once)
			code = show(o, w);
		else if (!quiet)
			say_changes(w, told, sizeof(told) / sizeof(*told));
		next = next + step > now() ? next + step : now() + step;
		ends = next > end || all_ended(w) || wait_until(next, screen.on);
	}
	screen_end(&screen);
	if (code == CMD_DONE && !(o->json && !o->once))
		code = show(o, w);
	return code;
}

static int open_one(const struct watch_opts *o, int argc, char **argv, struct plim_watch **w)
{
	struct plim_watch_options options;
	struct plim_err err;
	char *rest;

	plim_watch_options_init(&options);
	options.flags = o->no_gpu ? PLIM_WATCH_NO_GPU : 0;
	options.log_path = o->log;
	options.nvml_path = o->nvml;
	options.window_s = o->once ? 2 : 0;
	if (argc) {
		options.pid = strtoull(argv[0], &rest, 10);
		if (*rest || rest == argv[0] || argv[0][0] == '-')
			return cmd_usage("'%.200s' is no process: a number is expected", argv[0]);
	}
	if (o->replay ? plim_watch_replay(o->replay, &options, w, &err)
		      : plim_watch_open(&options, w, &err))
		return cmd_fail(&err);
	return CMD_DONE;
}

static int watch_run(const void *values, int argc, char **argv)
{
	const struct watch_opts *o = values;
	struct sigaction act = { .sa_handler = stop };
	struct plim_watch *w = NULL;
	int code = check_list(o->fail_on);

	if (!code && o->replay && (argc || o->once || o->log))
		code = cmd_usage("--replay goes without a process, --once and --log");
	if (!code)
		code = open_one(o, argc, argv, &w);
	if (code)
		return code;
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	code = o->replay ? show(o, w) : look(o, w);
	if (code == CMD_DONE)
		code = judged(o, w);
	plim_watch_free(w);
	return code;
}

static const struct cmd_example examples[] = {
	{ "plimsoll watch --replay run.jsonl", "what held a recorded job back" },
	{ NULL, NULL },
};

const struct cmd cmd_watch = {
	.name = "watch",
	.summary = "jobs that run: what holds each back, and when its memory is full",
	.args = "[PID]",
	.about = "Looks from outside: NVML, /proc and control groups.",
	.examples = examples,
	.opts = watch_opt,
	.opts_size = sizeof(struct watch_opts),
	.min_args = 0,
	.max_args = 1,
	.run = watch_run,
};
