/* plimsoll curves: options, a call of the public API, watching a log that grows, an exit code. */
#include "cmd.h"
#include "option_rows.h"
#include "progress.h"

#include <plimsoll/curves.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct curves_opts {
	struct plim_curves_options options; /* first, where the rows of its members store */
	bool json, no_color, no_plot, series, brief;
	const char *fail_on, *stop_file, *run, *output;
	uint64_t width, interval, last;
};

static const struct opt curves_opt[] = {
	OPT_FLAG('j', "json", curves_opts, json, "print JSON (schema curves/1) instead of text"),
	OPT_STRING('o', "output", curves_opts, output, "FILE.html", NULL,
		   "write one page that shows the curves in a browser, with the findings; with "
		   "--follow it is written again when they grow"),
	OPT_STRING(
		0, "fail-on", curves_opts, fail_on, "ID,ID...", NULL,
		"exit with 1 if one of these was found: nan, overfit ..., or error, warning, any"),
	OPT_REFUSED("logdir", "give the folder itself: plimsoll curves DIR"),
	OPT_REFUSED("log-dir", "give the folder itself: plimsoll curves DIR"),
	OPT_HEADING("What the series are"),
	CURVES_SERIES_OPTIONS,
	OPT_FLAG(0, "series", curves_opts, series, "list every series and its role"),
	OPT_HEADING("Early stopping"),
	CURVES_STOPPING_OPTIONS,
	OPT_HEADING("A log that grows"),
	CURVES_GROWING_OPTIONS,
	OPT_U64(0, "interval", curves_opts, interval, "seconds", 1, 86400, 5,
		"between looks at the files"),
	OPT_U64(0, "for", curves_opts, last, "seconds", 1, 100000000, OPT_NONE,
		"stop after this time (default: when it is interrupted)"),
	OPT_STRING(0, "stop-file", curves_opts, stop_file, "FILE", NULL,
		   "create this file when --fail-on finds something: the job looks for the file"),
	OPT_STRING(
		0, "run", curves_opts, run, "COMMAND", NULL,
		"run this command then, in sh, with PLIMSOLL_ID, PLIMSOLL_STEP, PLIMSOLL_RUN and "
		"PLIMSOLL_TITLE set"),
	OPT_HEADING("How to show it"),
	OPT_FLAG(0, "no-plot", curves_opts, no_plot, "no plot"),
	OPT_FLAG('b', "brief", curves_opts, brief, "findings' titles only"),
	CURVES_NAMES_OPTIONS,
	OPT_STYLE(curves_opts),
	OPT_HEADING("Limits"),
	CURVES_LIMITS_OPTIONS,
	OPT_END
};

/* ---- --fail-on ---- */

struct failing {
	unsigned ids;
	enum plim_severity least;
	bool by_severity;
	bool follows; /* what comes may take back a warning that a loss diverged */
};

static bool is(const char *word, size_t n, const char *name)
{
	return name && strlen(name) == n && !strncasecmp(word, name, n);
}

static int take_failing(const char *list, struct failing *out)
{
	*out = (struct failing){ 0 };
	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");
		bool known = is(at, n, "any") || is(at, n, "error") || is(at, n, "warning");

		if (known && (!out->by_severity || !is(at, n, "error"))) {
			out->by_severity = true;
			out->least = is(at, n, "any")     ? PLIM_SEVERITY_INFO
				     : is(at, n, "error") ? PLIM_SEVERITY_ERROR
							  : PLIM_SEVERITY_WARNING;
		}
		for (unsigned id = 0; id < PLIM_CURVES_ID_COUNT; id++)
			if (is(at, n, plim_curves_id_name(id))) {
				out->ids |= 1u << id;
				known = true;
			}
		if (!known)
			return cmd_usage(
				"--fail-on takes nan, inf, spike, diverged, explosion, overfit, "
				"collapse, "
				"plateau, early_stop, scaler_skips, memory_creep, learning_rate, "
				"log_damage, error, warning and any, not '%.*s'",
				(int)n, at);
		at += n + (at[n] == ',');
	}
	return CMD_DONE;
}

/* What was over again is not a failure, but a spike that was asked for by name. */
static bool fails(const struct failing *f, const struct plim_finding *x)
{
	bool over = !isnan(x->end_step);

	if (f->follows && !strcmp(x->id, "diverged") && x->severity != PLIM_SEVERITY_ERROR)
		return false;
	for (unsigned id = 0; id < PLIM_CURVES_ID_COUNT; id++)
		if (f->ids >> id & 1 && !strcmp(x->id, plim_curves_id_name(id)))
			return !over || id == PLIM_CURVES_SPIKE;
	return f->by_severity && !over && x->severity >= f->least;
}

static const struct plim_finding *first_failing(const struct failing *f,
						const struct plim_curves *c,
						const struct plim_curves_run **run)
{
	for (size_t i = 0; i < c->run_count; i++)
		for (size_t j = 0; j < c->runs[i].finding_count; j++)
			if (fails(f, &c->runs[i].findings[j])) {
				*run = &c->runs[i];
				return &c->runs[i].findings[j];
			}
	return NULL;
}

/* ---- what is done then ---- */

static int make_stop_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0) {
		cmd_say("cannot make '%s': %s", path, strerror(errno));
		return CMD_INPUT;
	}
	close(fd);
	return CMD_DONE;
}

static int run_command(const char *command, const struct plim_curves_run *run,
		       const struct plim_finding *x)
{
	char step[40];
	int status = 0;
	pid_t child;

	fflush(stdout);
	snprintf(step, sizeof(step), "%.15g", x->step);
	child = fork();
	if (!child) {
		setenv("PLIMSOLL_ID", x->id, 1);
		setenv("PLIMSOLL_STEP", step, 1);
		setenv("PLIMSOLL_RUN", run->name, 1);
		setenv("PLIMSOLL_TITLE", x->title, 1);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) {
		cmd_say("--run: the command failed");
		return CMD_INPUT;
	}
	return CMD_DONE;
}

static int act(const struct curves_opts *o, const struct plim_curves_run *run,
	       const struct plim_finding *x)
{
	int code = o->stop_file ? make_stop_file(o->stop_file) : CMD_DONE;

	if (o->run && run_command(o->run, run, x))
		code = CMD_INPUT;
	return code;
}

/* ---- showing ---- */

static int write_page(const struct curves_opts *o, const struct plim_curves *c, bool say)
{
	uint64_t bytes = 0;
	struct plim_err err;

	if (!o->output)
		return CMD_DONE;
	if (plim_curves_page(c, o->output, &bytes, &err))
		return cmd_fail(&err);
	if (say)
		cmd_say("%s: %zu run%s, %.2f MB", o->output, c->run_count,
			c->run_count == 1 ? "" : "s", (double)bytes / 1e6);
	return CMD_DONE;
}

static int show_curves(const struct curves_opts *o, const struct plim_curves *c)
{
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	unsigned flags = (o->series ? PLIM_CURVES_TEXT_SERIES : 0) |
			 (o->no_plot ? PLIM_CURVES_TEXT_NO_PLOT : 0) |
			 (o->brief ? PLIM_CURVES_TEXT_BRIEF : 0);
	struct plim_err err;

	if (o->json ? plim_curves_json(c, cmd_to_stdout, NULL, &err)
		    : plim_curves_text(c, flags, &style, cmd_to_stdout, NULL, &err))
		return cmd_fail(&err);
	return CMD_DONE;
}

/* One line a finding, the first time it is there, and when it becomes an error. */
static void say_new(const struct plim_curves *c, char **told, size_t *room, size_t *n)
{
	for (size_t i = 0; i < c->run_count; i++)
		for (size_t j = 0; j < c->runs[i].finding_count; j++) {
			const struct plim_finding *x = &c->runs[i].findings[j];
			char key[300], line[40];
			bool error = x->severity == PLIM_SEVERITY_ERROR;
			size_t k = (size_t)snprintf(key, sizeof(key), "\n%.180s|%s|%.15g|%s",
						    c->runs[i].source, x->id, x->step,
						    error ? "error" : "");
			time_t now = time(NULL);
			struct tm tm;
			char *grown;

			if (*n && strstr(*told, key))
				continue;
			if (*n + k + 1 > *room) {
				grown = realloc(*told, 2 * (*n + k + 1));
				if (!grown)
					continue;
				*told = grown;
				*room = 2 * (*n + k + 1);
			}
			memcpy(*told + *n, key, k + 1);
			*n += k;
			localtime_r(&now, &tm);
			strftime(line, sizeof(line), "%H:%M:%S", &tm);
			printf("%s  %s  %s  %s\n", line, plim_severity_name(x->severity), x->id,
			       x->title);
		}
	fflush(stdout);
}

static int follow_curves(const struct curves_opts *o, const struct failing *failing,
			 struct plim_curves *c)
{
	struct timespec pause = { .tv_sec = (time_t)o->interval };
	const struct plim_curves_run *run;
	const struct plim_finding *x;
	time_t end = time(NULL) + (o->last == OPT_NONE ? 0 : (time_t)o->last);
	char *told = NULL;
	size_t room = 0, n = 0;
	struct plim_err err;
	bool changed = true;
	int code = CMD_DONE;

	for (bool first = true; code == CMD_DONE; first = false) {
		if (!o->json)
			say_new(c, &told, &room, &n);
		if (changed)
			code = write_page(o, c, first);
		if (code)
			break;
		x = first_failing(failing, c, &run);
		if (x) {
			code = act(o, run, x);
			code = code ? code : CMD_FAILED;
			break;
		}
		if (o->last != OPT_NONE && time(NULL) >= end)
			break;
		nanosleep(&pause, NULL);
		if (plim_curves_refresh(c, &changed, &err))
			code = cmd_fail(&err);
	}
	free(told);
	if (o->options.flags & PLIM_CURVES_REDACT && !o->json && c->note_count)
		cmd_say("%s", c->notes[c->note_count - 1]);
	if (o->json && plim_curves_json(c, cmd_to_stdout, NULL, &err))
		code = cmd_fail(&err);
	return code;
}

static int once(const struct curves_opts *o, const struct failing *failing, struct plim_curves *c)
{
	const struct plim_curves_run *run;
	const struct plim_finding *x;
	int code = show_curves(o, c), acted;

	code = code ? code : write_page(o, c, true);
	x = first_failing(failing, c, &run);
	if (code || !x)
		return code;
	acted = act(o, run, x);
	return acted ? acted : CMD_FAILED;
}

static int curves_run(const void *values, int argc, char **argv)
{
	const struct curves_opts *o = values;
	struct plim_curves_options options = o->options;
	bool follows = options.flags & PLIM_CURVES_GROWS;
	struct plim_curves *c;
	struct failing failing;
	struct plim_err err;
	int code;

	options.size = sizeof(options);
	code = take_failing(o->fail_on, &failing);
	if (code)
		return code;
	failing.follows = follows;
	if (o->output && !cmd_is_page(o->output))
		return cmd_usage("-o writes a page: FILE.html, not '%.200s'", o->output);
	if ((o->stop_file || o->run) && !o->fail_on)
		return cmd_usage("--stop-file and --run need --fail-on, which names the findings");
	if (follows)
		cmd_progress_end(); /* it waits for the log to grow */
	if (plim_curves_open((const char *const *)argv, (size_t)argc, &options, &c, &err))
		return cmd_fail_on(argc == 1 ? argv[0] : NULL, "curves", &err);
	code = follows ? follow_curves(o, &failing, c) : once(o, &failing, c);
	plim_curves_free(c);
	return code;
}

static const struct cmd_example examples[] = {
	{ "plimsoll curves output/", "every run below a folder" },
	{ "plimsoll curves output/ -o curves.html",
	  "their curves next to each other, in a browser" },
	{ "plimsoll curves run/trainer_state.json --series", "and the role of each series" },
	{ "plimsoll curves train.log --follow --fail-on nan,diverged --stop-file STOP",
	  "next to a job that looks for STOP" },
	{ "plimsoll curves out/ --fail-on overfit,nan || exit 1", "a gate in CI" },
	{ NULL, NULL },
};

const struct cmd cmd_curves = {
	.name = "curves",
	.summary = "training logs: NaN, spikes, divergence, overfitting, and the checkpoint to go "
		   "back to",
	.args = "PATH...",
	.about = "Reads logs as they are: Hugging Face's trainer_state.json, TensorBoard event "
		 "files, "
		 "Lightning's and other CSV, JSON lines, W&B offline (.wandb), MLflow's file "
		 "store, and what "
		 "trainers print.  A folder is searched.  \"-\" is the standard input.\n\nSays "
		 "when it went "
		 "wrong, how sure it is, what early stopping would have done by the rules of four "
		 "programs, and "
		 "which checkpoint to go back to.\n\nExits with 1 when something that --fail-on "
		 "names was found.",
	.examples = examples,
	.common = "follow output fail-on map monitor series patience brief json",
	.opts = curves_opt,
	.opts_size = sizeof(struct curves_opts),
	.min_args = 1,
	.max_args = -1,
	.run = curves_run,
};
