/* plimsoll doctor: options, a call of the public API, what Python adds, an exit code. */
#include "cmd.h"
#include "versions.h"

#include <plimsoll/doctor.h>
#include <plimsoll/plan.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct doctor_opts {
	bool json, redact, no_python, no_color;
	uint64_t width, time_limit_s;
	const char *gpu;
};

static const struct opt doctor_opt[] = {
	OPT_FLAG('j', "json", doctor_opts, json, "print JSON (schema doctor/1) instead of text"),
	OPT_FLAG(0, "redact", doctor_opts, redact, "leave out paths of this machine"),
	OPT_FLAG(0, "no-python", doctor_opts, no_python, "do not check python3 and its packages"),
	OPT_STYLE(doctor_opts),
	OPT_HEADING("With a script"),
	OPT_STRING('g', "gpu", doctor_opts, gpu, "NAME", NULL,
		   "the GPU that the script will run on: H100, \"A100 40GB\""),
	OPT_U64(0, "time-limit", doctor_opts, time_limit_s, "SECONDS", 1, 86400, 120,
		"that its trace may take"),
	OPT_END
};

/* What Python sees: a line per row, its parts between tabs.  An old one, or one without the package, is a row, too. */
static const char ask[] = "import sys\n"
			  "version = 'Python %d.%d.%d' % sys.version_info[:3]\n"
			  "try:\n"
			  "    from plimsoll._doctor import tell\n"
			  "except (ImportError, SyntaxError) as why:\n"
			  "    print('note\\tPython\\t%s, which does not have the package "
			  "(%s)\\tpip install .' % (version, why))\n"
			  "else:\n"
			  "    tell(sys.argv[1] == '--redact')\n"
			  "    if sys.argv[2:]:\n"
			  "        from plimsoll import _doctor_script\n"
			  "        _doctor_script.tell(sys.argv[1] == '--redact', *sys.argv[2:])\n";

/* What a script is traced with, in front of its command; the file stays empty if there is no trace. */
struct script {
	char trace[4096], limit[24];
	const char *gpu;
	char **command; /* "train.py --lr 1", or "python3.12 train.py" */
	int count;
};

static char *word(const char *text)
{
	return (char *)(uintptr_t)text;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_python(const char *path)
{
	return !strncmp(last_part(path), "python", 6);
}

/* Does the command begin with what starts scripts, so that it is a command as it stands? */
static bool is_started(const char *path)
{
	return is_python(path) || !strcmp(last_part(path), "torchrun") ||
	       !strcmp(last_part(path), "accelerate");
}

/*
 * The machine's rows are of the Python next to this program; with a script all are of the one that will run it: which its
 * command names, or python3 of the PATH.
 */
static char **python_line(bool redact, const struct script *s, char *buffer, size_t size)
{
	char **line = calloc((size_t)(s ? s->count : 0) + 9, sizeof(*line));
	const char *interpreter = cmd_python("_doctor.py", buffer, size);
	size_t n = 0;

	if (!line)
		return NULL;
	if (s)
		interpreter = is_python(s->command[0]) ? s->command[0] : "python3";
	line[n++] = word(interpreter);
	line[n++] = word("-c");
	line[n++] = word(ask);
	line[n++] = word(redact ? "--redact" : "");
	if (!s)
		return line;
	line[n++] = word(s->trace);
	line[n++] = word(s->gpu ? s->gpu : "");
	line[n++] = word(s->limit);
	if (!is_started(s->command[0]))
		line[n++] = word(interpreter);
	memcpy(line + n, s->command, (size_t)s->count * sizeof(*line));
	return line;
}

static FILE *start_python(bool redact, const struct script *s, pid_t *child)
{
	char python[4200];
	char **argv = python_line(redact, s, python, sizeof(python));
	int pipes[2];

	if (!argv || pipe(pipes)) {
		free(argv);
		return NULL;
	}
	fflush(stdout);
	*child = fork();
	if (!*child) {
		dup2(pipes[1], STDOUT_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		execvp(argv[0], argv);
		_exit(127);
	}
	free(argv);
	close(pipes[1]);
	if (*child < 0) {
		close(pipes[0]);
		return NULL;
	}
	return fdopen(pipes[0], "r");
}

static enum plim_doctor_state doctor_state_of(const char *name)
{
	return !strcmp(name, "ok")   ? PLIM_DOCTOR_OK
	       : !strcmp(name, "no") ? PLIM_DOCTOR_NO
				     : PLIM_DOCTOR_NOTE;
}

/* state, what, says and perhaps a remedy, between tabs; other lines are not ours. */
static enum plim_status add_line(struct plim_doctor *d, char *line, struct plim_err *err)
{
	const char *parts[4] = { NULL };
	size_t n = 0;

	line[strcspn(line, "\n")] = '\0';
	while (n < 4 && line) {
		parts[n++] = line;
		line = strchr(line, '\t');
		if (line)
			*line++ = '\0';
	}
	if (n < 3)
		return PLIM_OK;
	return plim_doctor_add(
		d,
		&(struct plim_doctor_check){ parts[1], doctor_state_of(parts[0]), parts[2],
					     parts[3] && *parts[3] ? parts[3] : NULL },
		err);
}

static enum plim_status ask_python(struct plim_doctor *d, bool redact, const struct script *script,
				   struct plim_err *err)
{
	struct plim_doctor_check none = { "Python", PLIM_DOCTOR_NOTE,
					  "python3 cannot be run: lint and jobs need it", NULL };
	enum plim_status st = PLIM_OK;
	int status = -1, rows = 0;
	pid_t child = -1;
	FILE *f = start_python(redact, script, &child);
	char line[2000];

	while (!st && f && fgets(line, sizeof(line), f)) {
		st = add_line(d, line, err);
		rows++;
	}
	if (f)
		fclose(f);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (script && !st && (!rows || status)) {
		none.state = PLIM_DOCTOR_NO;
		none.says = rows ? "it ended before all checks were done"
				 : "the Python of this command cannot be run";
		rows = 0;
	}
	return st || rows ? st : plim_doctor_add(d, &none, err);
}

enum plim_status cmd_doctor_python(struct plim_doctor *d, bool redact, struct plim_err *err)
{
	return ask_python(d, redact, NULL, err);
}

static enum plim_status add_program(struct plim_doctor *d, bool redact, struct plim_err *err)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	const char *slash;

	if (n <= 0)
		return PLIM_OK;
	path[n] = '\0';
	slash = strrchr(path, '/');
	return plim_doctor_add(d,
			       &(struct plim_doctor_check){ "program", PLIM_DOCTOR_OK,
							    redact && slash ? slash + 1 : path,
							    NULL },
			       err);
}

/* ---- a script ---- */

/* The sentence of the plan's text that says whether it fits: the first of its second paragraph. */
static enum plim_status add_plan(struct plim_doctor *d, const struct plim_plan *p,
				 struct plim_err *err)
{
	struct plim_text_style wide = { .width = 500 };
	struct plim_doctor_check row = { "plan", PLIM_DOCTOR_OK, "?", NULL };
	struct cmd_words text = { 0 };
	enum plim_status st = plim_plan_text(p, &wide, cmd_collect, &text, err);
	char *verdict = text.at ? strstr(text.at, "\n\n") : NULL;

	if (verdict) {
		verdict += 2;
		verdict[strcspn(verdict, "\n")] = '\0';
		row.says = verdict;
	}
	if (p->fits == PLIM_TRI_NO)
		row.state = p->dies_at ? PLIM_DOCTOR_NO : PLIM_DOCTOR_NOTE;
	else if (p->fits != PLIM_TRI_YES) {
		row.state = PLIM_DOCTOR_NOTE;
		row.remedy =
			p->limit_bytes == PLIM_UNKNOWN ? "--gpu NAME says whether it fits" : NULL;
	}
	if (!st)
		st = plim_doctor_add(d, &row, err);
	free(text.at);
	return st;
}

/* No trace: that row is never left out, and says why if Python did not. */
static enum plim_status add_untraced(struct plim_doctor *d, struct plim_err *err)
{
	struct plim_doctor_check row = { "plan", PLIM_DOCTOR_NOTE,
					 "not known: the script was not traced (see Python above)",
					 "a Python with plimsoll and torch: plimsoll doctor "
					 "venv/bin/python train.py" };

	for (size_t i = 0; i < d->check_count; i++)
		if (!strcmp(d->checks[i].what, "plan"))
			return PLIM_OK;
	return plim_doctor_add(d, &row, err);
}

/* What Python traced, if it did.  A trace that cannot be planned is a row. */
static enum plim_status plan_script(struct plim_doctor *d, const struct doctor_opts *o,
				    const struct script *s, struct plim_plan **p,
				    struct plim_err *err)
{
	struct plim_plan_options options;
	enum plim_status st;
	struct stat at;

	if (stat(s->trace, &at) || !at.st_size)
		return add_untraced(d, err);
	plim_plan_options_init(&options);
	options.gpu = o->gpu;
	options.flags |= o->redact ? PLIM_PLAN_REDACT : 0;
	st = plim_plan_open(s->trace, &options, p, err);
	if (!st)
		return add_plan(d, *p, err);
	return st == PLIM_E_ARG
		       ? st
		       : plim_doctor_add(d,
					 &(struct plim_doctor_check){ "plan", PLIM_DOCTOR_NOTE,
								      err->message, NULL },
					 err);
}

/* The file to trace must be there: a misspelt name is not a finding. */
static int begin_script(struct script *s, const struct doctor_opts *o, int argc, char **argv)
{
	const char *folder = getenv("TMPDIR");
	int fd;

	if (o->no_python)
		return cmd_usage("--no-python: a script cannot be checked without Python");
	if (!is_started(argv[0]) && access(argv[0], R_OK)) {
		cmd_say("cannot read '%s': %s", argv[0], strerror(errno));
		return CMD_INPUT;
	}
	if (!is_started(argv[0]) && cmd_say_else(argv[0], "lint", ""))
		return CMD_INPUT;
	s->gpu = o->gpu;
	s->command = argv;
	s->count = argc;
	(void)snprintf(s->limit, sizeof(s->limit), "%llu", (unsigned long long)o->time_limit_s);
	(void)snprintf(s->trace, sizeof(s->trace), "%s/plimsoll-trace-XXXXXX.json.gz",
		       folder && *folder ? folder : "/tmp");
	fd = mkstemps(s->trace, 8);
	if (fd < 0) {
		cmd_say("cannot write '%s': %s", s->trace, strerror(errno));
		return CMD_MACHINE;
	}
	close(fd);
	return CMD_DONE;
}

static int doctor_run(const void *values, int argc, char **argv)
{
	const struct doctor_opts *o = values;
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	struct plim_doctor_options options;
	struct plim_plan *plan = NULL;
	struct script script = { 0 };
	struct plim_doctor *d;
	enum plim_status st;
	struct plim_err err;
	int code = argc ? begin_script(&script, o, argc, argv) : CMD_DONE;

	if (code)
		return code;
	plim_doctor_options_init(&options);
	options.flags = o->redact ? PLIM_DOCTOR_REDACT : 0;
	st = plim_doctor_open(&options, &d, &err);
	if (!st)
		st = add_program(d, o->redact, &err);
	if (!st && !o->no_python)
		st = ask_python(d, o->redact, argc ? &script : NULL, &err);
	if (!st && argc)
		st = plan_script(d, o, &script, &plan, &err);
	if (*script.trace)
		unlink(script.trace);
	if (!st)
		st = o->json ? plim_doctor_json(d, cmd_to_stdout, NULL, &err)
			     : plim_doctor_text(d, &style, cmd_to_stdout, NULL, &err);
	if (!st && plan && !o->json) {
		cmd_print("\n");
		st = plim_plan_text(plan, &style, cmd_to_stdout, NULL, &err);
	}
	code = st ? cmd_fail(&err) : d->works ? CMD_DONE : CMD_FAILED;
	plim_plan_free(plan);
	plim_doctor_free(d);
	return code;
}

static const struct cmd_example doctor_examples[] = {
	{ "plimsoll doctor --redact", "what works here, to paste into a ticket" },
	{ "plimsoll doctor --gpu H100 train.py --lr 1e-4",
	  "before a run: machine, mistakes, loaders, and the memory it will need" },
	{ "plimsoll doctor venv/bin/python train.py", "the same, with another Python" },
	{ NULL, NULL },
};

const struct cmd cmd_doctor = {
	.name = "doctor",
	.summary = "what works on this machine, and what does not",
	.args = "[SCRIPT [ARGUMENT...]]",
	.about =
		"Looks at this machine, its driver, its memory, and at what Python has installed; "
		"imports no torch, starts no CUDA, writes nothing. Exit code 1: something that is "
		"there does not work.\n\n"
		"With a script: also what lint finds in it, its DataLoaders on this machine, and "
		"the memory "
		"that it will need. Its first steps run on fake tensors, as with plan -- python "
		"train.py, and nothing of it runs otherwise. The Python is python3 of the PATH, or "
		"the "
		"one that the command names; the first rows say which. Exit code 1: something "
		"would fail, and errors of lint do.",
	.examples = doctor_examples,
	.opts = doctor_opt,
	.opts_size = sizeof(struct doctor_opts),
	.min_args = 0,
	.max_args = -1,
	.flags = CMD_WRAPS,
	.run = doctor_run,
};
