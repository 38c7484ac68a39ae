/* plimsoll why: options, a call of the public API, an exit code. */
#include "cmd.h"

#include <plimsoll/why.h>

struct why_opts {
	bool json, redact, no_color;
	uint64_t max_memory, width;
	const char *snapshot;
};

static const struct opt why_opt[] = {
	OPT_FLAG('j', "json", why_opts, json, "print JSON (schema why/1) instead of text"),
	OPT_STRING('s', "snapshot", why_opts, snapshot, "FILE", NULL,
		   "the recording of the same run: it decides what the text leaves open"),
	OPT_HEADING("How to show it"),
	OPT_FLAG(0, "redact", why_opts, redact,
		 "no text of the log, and no name that is not well known"),
	OPT_U64('w', "width", why_opts, width, "columns", 40, 500, OPT_NONE,
		"of the text (the terminal's, or 80)"),
	OPT_FLAG(0, "no-color", why_opts, no_color, "no colours (also NO_COLOR)"),
	OPT_HEADING("Limits"),
	OPT_BYTES('m', "max-memory", why_opts, max_memory, 1 << 20, OPT_NONE, OPT_NONE,
		  "refuse a snapshot that needs more (half of this machine's)"),
	OPT_END
};

static int why_run(const void *values, int argc, char **argv)
{
	const struct why_opts *o = values;
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	struct plim_why_options options;
	struct plim_why *w;
	struct plim_err err;
	int code = CMD_DONE;

	(void)argc;
	plim_why_options_init(&options);
	options.flags = o->redact ? PLIM_WHY_REDACT : 0;
	options.max_memory_bytes = o->max_memory == OPT_NONE ? 0 : o->max_memory;
	options.snapshot_path = o->snapshot;
	if (plim_why_open(argv[0], &options, &w, &err))
		return cmd_fail(&err);
	if (o->json ? plim_why_json(w, cmd_to_stdout, NULL, &err)
		    : plim_why_text(w, &style, cmd_to_stdout, NULL, &err))
		code = cmd_fail(&err);
	plim_why_free(w);
	return code;
}

static const struct cmd_example why_examples[] = {
	{ "plimsoll why train.log", "what the job died of, and what helps" },
	{ "dmesg -T | plimsoll why -", "whom the kernel killed, and why" },
	{ "plimsoll why logs/", "a folder of rank logs, put together" },
	{ "plimsoll why train.log --snapshot oom.pickle",
	  "with the recording, which decides what the text leaves open" },
	{ NULL, NULL },
};

const struct cmd cmd_why = {
	.name = "why",
	.summary = "explain a log: an out-of-memory text, or a process that was Killed",
	.args = "LOG|FOLDER|-",
	.about =
		"Reads a log, a traceback, a terminal's scroll-back, dmesg, or the tail of a Slurm "
		"or Kubernetes job, of any size, plain or as gzip, xz or zstd, and explains each "
		"failure of memory in it: what it ran into, why, what helps and what does not.  "
		"Ranks and repeats are put together; failures that are not memory are named as "
		"such.\n\n"
		"A text tells what was live and what was asked for, not what was still to come.  "
		"Where that does not decide between capacity, fragmentation and a leak, the answer "
		"is a ranking and what would decide.  That no failure is found is no error.",
	.examples = why_examples,
	.opts = why_opt,
	.opts_size = sizeof(struct why_opts),
	.min_args = 1,
	.max_args = 1,
	.run = why_run,
};
