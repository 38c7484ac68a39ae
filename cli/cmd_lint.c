/*
 * plimsoll lint: mistakes in Python source.  The linter is Python itself (python/plimsoll/lint, standard
 * library only); this finds it and becomes it.  What is typed goes on as it is, once the rows have taken it.
 */
#include "cmd.h"
#include "option_rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct lint_opts {
	struct opt_list list;
	const char *text;
	uint64_t width;
	int choice;
	bool flag;
};

static const struct opt lint_opt[] = { LINT_OPTIONS, OPT_END };

/* Folders that may hold plimsoll/lint, seen from the folder of this program: a checkout's build, an installation. */
static const char *const beside[] = { "../../python", "../share/plimsoll/python", "../python",
				      NULL };

static const char start[] = "import sys\n"
			    "if sys.version_info < (3, 10):\n"
			    "    sys.exit('plimsoll: lint needs Python 3.10; python3 is %d.%d' % "
			    "sys.version_info[:2])\n"
			    "try:\n"
			    "    from plimsoll.lint.cli import main\n"
			    "except ImportError:\n"
			    "    sys.stderr.write(\"plimsoll: lint is the Python package's part: "
			    "python3 does not find plimsoll.lint; \"\n"
			    "                     'in a checkout of Plimsoll: pip install .\\n')\n"
			    "    sys.exit(4)\n"
			    "sys.exit(main())\n";

static bool own_folder(char *out, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", out, size - 1);
	char *slash;

	if (n <= 0)
		return false;
	out[n] = '\0';
	slash = strrchr(out, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

/* Where the package lies next to this program, in front of PYTHONPATH. */
static void show_the_way(const char *folder, const char *file)
{
	char path[8192], probe[8192];
	const char *old = getenv("PYTHONPATH");

	for (size_t i = 0; beside[i]; i++) {
		int n = snprintf(probe, sizeof(probe), "%s/%s/plimsoll/%s", folder, beside[i],
				 file);

		if (n < 0 || (size_t)n >= sizeof(probe) || access(probe, R_OK))
			continue;
		n = snprintf(path, sizeof(path), "%s/%s%s%s", folder, beside[i],
			     old && *old ? ":" : "", old ? old : "");
		if (n > 0 && (size_t)n < sizeof(path))
			setenv("PYTHONPATH", path, 1);
		return;
	}
}

void cmd_show_python(void)
{
	char folder[4096];

	if (own_folder(folder, sizeof(folder)))
		show_the_way(folder, "lint/cli.py");
}

const char *cmd_python(const char *file, char *buffer, size_t size)
{
	char folder[4096];

	if (!own_folder(folder, sizeof(folder)))
		return "python3";
	show_the_way(folder, file);
	/* In a virtual environment the program and its Python are neighbours. */
	snprintf(buffer, size, "%s/python3", folder);
	return access(buffer, X_OK) ? "python3" : buffer;
}

int cmd_become_python(const char *needs, const char *file, const char *program, int argc,
		      char **argv)
{
	char folder[4096], self[4200], buffer[4200];
	const char *python = cmd_python(file, buffer, sizeof(buffer));
	char **line = calloc((size_t)argc + 4, sizeof(*line));

	if (!line) {
		cmd_say("out of memory");
		return CMD_MACHINE;
	}
	line[0] = (char *)(uintptr_t)python;
	line[1] = (char *)(uintptr_t) "-c";
	line[2] = (char *)(uintptr_t)program;
	for (int i = 0; i < argc; i++)
		line[3 + i] = argv[i];
	if (own_folder(folder, sizeof(folder))) {
		snprintf(self, sizeof(self), "%s/plimsoll", folder);
		if (!access(self, X_OK))
			setenv("PLIMSOLL", self, 0);
	}
	fflush(stdout);
	execvp(python, line);
	cmd_say("%s: cannot run '%s': %s", needs, python, strerror(errno));
	free(line);
	return CMD_MACHINE;
}

/* Becomes the linter; returns only when it cannot. */
static int become_linter(int argc, char **argv)
{
	return cmd_become_python("lint needs Python 3.10", "lint/cli.py", start, argc, argv);
}

int cmd_lint_beside(const char *kind, const char *file, const char *source, uint64_t width)
{
	char columns[24];
	char *argv[] = { (char *)(uintptr_t) "--joined-only",
			 (char *)(uintptr_t) "--fail-on=never",
			 (char *)(uintptr_t) "--width",
			 columns,
			 (char *)(uintptr_t)kind,
			 (char *)(uintptr_t)file,
			 (char *)(uintptr_t) "--",
			 (char *)(uintptr_t)source,
			 NULL };
	int status = 0;
	pid_t child;

	snprintf(columns, sizeof(columns), "%llu", (unsigned long long)width);
	fflush(stdout);
	child = fork();
	if (child < 0) {
		cmd_say("cannot start the linter: %s", strerror(errno));
		return CMD_MACHINE;
	}
	if (!child)
		_exit(become_linter(8, argv));
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return CMD_MACHINE;
	return WIFEXITED(status) ? WEXITSTATUS(status) : CMD_MACHINE;
}

/* Behind an option a word may be its value. */
static int lint_run(const void *values, int argc, char **argv)
{
	struct stat is;
	int code = CMD_DONE;

	(void)values;
	for (int i = 0; i < argc && !code; i++) {
		bool piped = !strcmp(argv[i], "-");

		if (!piped && (argv[i][0] == '-' || (i && argv[i - 1][0] == '-') ||
			       stat(argv[i], &is) || S_ISDIR(is.st_mode)))
			continue;
		if (piped)
			code = cmd_spool_stdin();
		if (!code && cmd_say_else(argv[i], "lint", ""))
			code = CMD_INPUT;
	}
	return code ? code : become_linter(argc, argv);
}

static const struct cmd_example lint_examples[] = {
	{ "plimsoll lint train.py", "what is wrong in a script, before it runs" },
	{ "plimsoll lint --fix src", "show what can be fixed as a diff, then ask" },
	{ "plimsoll lint --recording run.pickle src",
	  "the mistake behind a leak that was measured, and its bytes" },
	{ "plimsoll lint --diff main --format github", "the new mistakes of a pull request" },
	{ "plimsoll lint --explain PLM104", "cause, cost and examples of a rule" },
	{ NULL, NULL },
};

const struct cmd cmd_lint = {
	.name = "lint",
	.summary = "find mistakes that cost GPU memory in Python source",
	.args = "PATH...",
	.about = "Reads Python files, notebooks and folders and finds graphs that are kept, "
		 "evaluation that "
		 "builds graphs, state that is carried from step to step, transfers and waits in "
		 "each step, "
		 "and training loops that do not compute what they look like: 70 rules "
		 "(docs/lint.md). Files "
		 "are parsed, never run. Needs Python 3.10, nothing else.\n\n"
		 "With a recording of the program, findings are at the lines that were measured "
		 "to leak.\n\n"
		 "A comment # noqa: PLM104 silences a line; [tool.plimsoll.lint] in pyproject.toml "
		 "holds "
		 "select, extend-select, ignore, exclude, per-file-ignores, fail-on, confidence, "
		 "baseline.",
	.examples = lint_examples,
	.common = "select ignore fail-on fix unsafe-fixes diff baseline recording format rules",
	.opts = lint_opt,
	.opts_size = sizeof(struct lint_opts),
	.min_args = 0,
	.max_args = -1,
	.flags = CMD_PASSES,
	.run = lint_run,
};
