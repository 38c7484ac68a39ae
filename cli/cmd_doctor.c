/* plimsoll doctor: options, a call of the public API, what Python adds, an exit code. */
#include "cmd.h"
#include "versions.h"

#include <plimsoll/doctor.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct doctor_opts {
	bool json, redact, no_python, no_color;
	uint64_t width;
};

static const struct opt doctor_opt[] = {
	OPT_FLAG('j', "json", doctor_opts, json, "print JSON (schema doctor/1) instead of text"),
	OPT_FLAG(0, "redact", doctor_opts, redact, "no path of this machine"),
	OPT_FLAG(0, "no-python", doctor_opts, no_python, "do not ask python3 what it has"),
	OPT_STYLE(doctor_opts), OPT_END
};

/* What Python sees: a line a row, its parts between tabs.  An old one, or one without the package, is a row, too. */
static const char ask[] = "import sys\n"
			  "version = 'Python %d.%d.%d' % sys.version_info[:3]\n"
			  "try:\n"
			  "    from plimsoll._doctor import tell\n"
			  "except (ImportError, SyntaxError) as why:\n"
			  "    print('note\\tPython\\t%s, which does not have the package "
			  "(%s)\\tpip install .' % (version, why))\n"
			  "else:\n"
			  "    tell(sys.argv[1:] == ['--redact'])\n";

static FILE *start_python(bool redact, pid_t *child)
{
	char python[4200];
	const char *interpreter = cmd_python("_doctor.py", python, sizeof(python));
	char *argv[] = { (char *)(uintptr_t)interpreter, (char *)(uintptr_t) "-c",
			 (char *)(uintptr_t)ask, redact ? (char *)(uintptr_t) "--redact" : NULL,
			 NULL };
	int pipes[2];

	if (pipe(pipes))
		return NULL;
	fflush(stdout);
	*child = fork();
	if (!*child) {
		dup2(pipes[1], STDOUT_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		execvp(interpreter, argv);
		_exit(127);
	}
	close(pipes[1]);
	if (*child < 0) {
		close(pipes[0]);
		return NULL;
	}
	return fdopen(pipes[0], "r");
}

static enum plim_doctor_state state_of(const char *name)
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
		&(struct plim_doctor_check){ parts[1], state_of(parts[0]), parts[2],
					     parts[3] && *parts[3] ? parts[3] : NULL },
		err);
}

enum plim_status cmd_doctor_python(struct plim_doctor *d, bool redact, struct plim_err *err)
{
	struct plim_doctor_check none = { "Python", PLIM_DOCTOR_NOTE,
					  "python3 cannot be run: lint and jobs need it", NULL };
	enum plim_status st = PLIM_OK;
	int status = -1, rows = 0;
	pid_t child = -1;
	FILE *f = start_python(redact, &child);
	char line[2000];

	while (!st && f && fgets(line, sizeof(line), f)) {
		st = add_line(d, line, err);
		rows++;
	}
	if (f)
		fclose(f);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return st || rows ? st : plim_doctor_add(d, &none, err);
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

static int doctor_run(const void *values, int argc, char **argv)
{
	const struct doctor_opts *o = values;
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	struct plim_doctor_options options;
	struct plim_doctor *d;
	enum plim_status st;
	struct plim_err err;
	int code;

	(void)argc;
	(void)argv;
	plim_doctor_options_init(&options);
	options.flags = o->redact ? PLIM_DOCTOR_REDACT : 0;
	if (plim_doctor_open(&options, &d, &err))
		return cmd_fail(&err);
	st = add_program(d, o->redact, &err);
	if (!st && !o->no_python)
		st = cmd_doctor_python(d, o->redact, &err);
	if (!st)
		st = o->json ? plim_doctor_json(d, cmd_to_stdout, NULL, &err)
			     : plim_doctor_text(d, &style, cmd_to_stdout, NULL, &err);
	code = st ? cmd_fail(&err) : d->works ? CMD_DONE : CMD_FAILED;
	plim_doctor_free(d);
	return code;
}

static const struct cmd_example doctor_examples[] = {
	{ "plimsoll doctor --redact", "what works here, to paste into a ticket" },
	{ NULL, NULL },
};

const struct cmd cmd_doctor = {
	.name = "doctor",
	.summary = "what works on this machine, and what does not",
	.about = "Looks at this machine, its driver, its memory, and at what Python has installed; "
		 "imports no torch, starts no CUDA, writes nothing. Exit code 1: something that is "
		 "there does not work.",
	.examples = doctor_examples,
	.opts = doctor_opt,
	.opts_size = sizeof(struct doctor_opts),
	.min_args = 0,
	.max_args = 0,
	.run = doctor_run,
};
