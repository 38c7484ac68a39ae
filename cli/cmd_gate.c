/*
 * plimsoll gate: planned peaks against a baseline.  It is Python itself (python/plimsoll/_gate.py); this finds it and becomes
 * it.  What is typed goes on as it is, once the rows have taken it.
 */
#include "cmd.h"
#include "markdown.h"

struct gate_opts {
	const char *text;
	int format;
	bool flag;
};

static const struct opt gate_opt[] = {
	OPT_FLAG(0, "update", gate_opts, flag, "write the peaks into the baseline"),
	OPT_STRING(0, "fail-over", gate_opts, text, "GROWTH", NULL,
		   "growth that is allowed, in place of the file's (0.5%): 2%, or 500MiB"),
	OPT_CHOICE(0, "format", gate_opts, format, "WHAT", format_names, FORMAT_TEXT,
		   "the text as it is, or as Markdown for a pull request"),
	OPT_END
};

static const char start[] = "import sys\n"
			    "try:\n"
			    "    from plimsoll._gate import main\n"
			    "except ImportError as e:\n"
			    "    sys.stderr.write(f'plimsoll: gate is the Python package\\'s part: "
			    "{e} ({sys.executable}); '\n"
			    "                     'in a checkout of Plimsoll: pip install .\\n')\n"
			    "    sys.exit(4)\n"
			    "sys.exit(main())\n";

static int gate_run(const void *values, int argc, char **argv)
{
	(void)values;
	return cmd_become_python("gate needs Python", "_gate.py", start, argc, argv);
}

static const struct cmd_example gate_examples[] = {
	{ "plimsoll gate plimsoll.toml --update", "write the baseline, to be committed" },
	{ "plimsoll gate plimsoll.toml",
	  "exit with 1 if a peak grew by more than is allowed (0.5 %)" },
	{ "plimsoll gate plimsoll.toml --format markdown", "the table for a pull request" },
	{ NULL, NULL },
};

const struct cmd cmd_gate = {
	.name = "gate",
	.summary = "fail if a training command needs more memory than its baseline",
	.args = "FILE",
	.about = "Plans each configuration of a TOML file without a GPU: a command under the "
		 "tracer, or a recipe of plimsoll plan. Compares the peak of allocated memory "
		 "with "
		 "the baseline next to the file, and names the modules that grew. The exit code is "
		 "1 if "
		 "a peak grew by more than is allowed, or if a configuration does not fit its GPU "
		 "or "
		 "memory limit.\n\n"
		 "Needs the Python package, and PyTorch if a command is traced.",
	.examples = gate_examples,
	.opts = gate_opt,
	.opts_size = sizeof(struct gate_opts),
	.min_args = 1,
	.max_args = 1,
	.flags = CMD_PASSES,
	.run = gate_run,
};
