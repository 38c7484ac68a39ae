/* plimsoll why --here: options, a call of the public API, an exit code. */
#include "cmd.h"

#include <plimsoll/here.h>

#include <errno.h>
#include <stdlib.h>

struct here_opts {
	bool json, no_color;
	uint64_t width, max_memory;
	const char *root;
};

static const struct opt here_opt[] = {
	OPT_FLAG('j', "json", here_opts, json, "print JSON (schema here/1) instead of text"),
	OPT_STRING(0, "root", here_opts, root, "DIR", NULL,
		   "read proc, sys and dev below DIR: a tree that was recorded elsewhere"),
	OPT_U64('w', "width", here_opts, width, "columns", 40, 500, OPT_NONE,
		"of the text (the terminal's, or 80)"),
	OPT_FLAG(0, "no-color", here_opts, no_color, "no colours (also NO_COLOR)"),
	OPT_BYTES('m', "max-memory", here_opts, max_memory, 1 << 20, OPT_NONE, OPT_NONE,
		  "refuse what needs more (half of this machine's)"),
	OPT_END
};

static int process_number(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text >= '1' && *text <= '9' && !*end && !errno && *out != PLIM_UNKNOWN;
}

static int here_run(const void *values, int argc, char **argv)
{
	const struct here_opts *o = values;
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	struct plim_here_options options;
	struct plim_here *h;
	struct plim_err err;
	int code = CMD_DONE;

	plim_here_options_init(&options);
	options.root = o->root;
	options.max_memory_bytes = o->max_memory == OPT_NONE ? 0 : o->max_memory;
	if (argc && !process_number(argv[0], &options.pid))
		return cmd_usage("'%s' is not the number of a process", argv[0]);
	if (plim_here_open(&options, &h, &err))
		return cmd_fail(&err);
	if (o->json ? plim_here_json(h, cmd_to_stdout, NULL, &err)
		    : plim_here_text(h, &style, cmd_to_stdout, NULL, &err))
		code = cmd_fail(&err);
	plim_here_free(h);
	return code;
}

static const struct cmd_example here_examples[] = {
	{ "plimsoll __here", "what a job that is started here may use" },
	{ "plimsoll __here 4711", "how near a running job is to its bounds" },
	{ NULL, NULL },
};

const struct cmd cmd_here = {
	.name = "__here",
	.summary = "what bounds host memory here, and how near it is",
	.args = "[PID]",
	.about = "Reads /proc, /sys/fs/cgroup, /dev/shm and the kernel log once, needs no "
		 "privileges, and says what it could not see.",
	.examples = here_examples,
	.opts = here_opt,
	.opts_size = sizeof(struct here_opts),
	.max_args = 1,
	.flags = CMD_HIDDEN,
	.run = here_run,
};
