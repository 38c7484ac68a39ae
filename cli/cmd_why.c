/* plimsoll why, and why --here: options, a call of the public API, an exit code. */
#include "cmd.h"
#include "markdown.h"
#include "option_rows.h"
#include "progress.h"

#include <plimsoll/here.h>
#include <plimsoll/why.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct why_opts {
	struct plim_why_options options; /* first, where the rows of its members store */
	bool json, no_color, here, fix;
	int format;
	uint64_t width;
	const char *root, *source;
	void *recipe; /* of plan */
};

/* What plan is asked for, and a log is not. */
static const char *const not_of_a_log[] = { "max-batch",  "max-seq", "sweep", "json",
					    "output",     "redact",  "width", "no-color",
					    "max-memory", NULL };

static const struct opt why_opt[] = {
	OPT_FLAG('j', "json", why_opts, json,
		 "print JSON (schema why/3; of --here: here/2) instead of text"),
	WHY_LOG_OPTIONS,
	OPT_STRING(
		0, "source", why_opts, source, "DIR", NULL,
		"the program's source: mistakes at the traceback's lines, as plimsoll lint finds "
		"them"),
	OPT_FLAG('f', "fix", why_opts, fix,
		 "print only the commands and lines to change, one per line, in order"),
	OPT_HEADING("This machine instead of a log"),
	OPT_FLAG(0, "here", why_opts, here,
		 "show the limits of host memory, for the process PID and all below it or for a "
		 "job that is started here: how near each is, and which processes were killed"),
	OPT_STRING(0, "root", why_opts, root, "DIR", NULL,
		   "with --here: read proc, sys and dev below DIR, a tree that was recorded "
		   "elsewhere"),
	OPT_HEADING("How to show it"),
	WHY_NAMES_OPTIONS,
	OPT_FORMAT(why_opts),
	OPT_HEADING("Limits"),
	WHY_LIMITS_OPTIONS,
	OPT_HEADING("The run of --config, as for plimsoll plan"),
	OPT_TABLE(why_opts, recipe, plan_recipe, not_of_a_log),
	OPT_END
};

/* A line that several deaths want is printed once. */
static bool told_before(const struct plim_why *w, size_t death, size_t fix)
{
	for (size_t i = 0; i <= death; i++)
		for (size_t k = 0; k < (i < death ? w->deaths[i].fix_count : fix); k++)
			if (!strcmp(w->deaths[i].fixes[k], w->deaths[death].fixes[fix]))
				return true;
	return false;
}

/* The lines of one failure; a first action that cannot be typed is named, so that no other line is taken for it. */
static bool print_fixes_of(const struct plim_why *w, size_t death)
{
	const struct plim_why_death *d = &w->deaths[death];
	bool any = false;

	if (d->fix_count && d->first && !d->first_is_typed)
		printf("# first: %s (nothing to type); then\n", d->first);
	for (size_t k = 0; k < d->fix_count; k++)
		if (!told_before(w, death, k))
			any |= puts(d->fixes[k]) >= 0;
	return any;
}

static void print_fixes(const struct plim_why *w)
{
	bool any = false;

	cmd_progress_end();
	for (size_t i = 0; i < w->death_count; i++)
		if (w->deaths[i].caught_line == PLIM_UNKNOWN)
			any |= print_fixes_of(w, i);
	if (!any)
		fputs(w->death_count ? "plimsoll: no command or setting helps against this; "
				       "plimsoll why without --fix says what to do\n"
				     : "plimsoll: no failure of memory was found\n",
		      stderr);
}

static int explain_logs(const struct why_opts *o, int n, char **paths)
{
	struct plim_plan_options recipe;
	struct plim_why_options options;
	struct plim_why *w;
	struct formatted f;
	struct plim_err err;
	int code = plan_recipe_take(o->recipe, &recipe);

	if (code)
		return code;
	options = o->options;
	options.size = sizeof(options);
	options.recipe = &recipe;
	options.also_paths = (const char *const *)paths + 1;
	options.also_count = (size_t)n - 1;
	if (plim_why_open(paths[0], &options, &w, &err))
		return cmd_fail_on(n == 1 ? paths[0] : NULL, "why", &err);
	format_begin(&f, o->format, o->width, o->no_color);
	if (o->fix)
		print_fixes(w);
	else if (o->json ? plim_why_json(w, cmd_to_stdout, NULL, &err)
			 : plim_why_text(w, &f.style, f.write, &f.words, &err))
		code = cmd_fail(&err);
	format_end(&f);
	plim_why_free(w);
	return code;
}

/* Is the standard input a file or a pipe?  No one types a log, and a scheduler's /dev/null holds none. */
static bool is_fed(void)
{
	struct stat is;

	return !fstat(STDIN_FILENO, &is) && (S_ISREG(is.st_mode) || S_ISFIFO(is.st_mode));
}

static bool process_number(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text >= '1' && *text <= '9' && !*end && !errno && *out != PLIM_UNKNOWN;
}

static int look_here(const struct why_opts *o, const char *process)
{
	struct plim_here_options options;
	struct plim_here *h;
	struct formatted f;
	struct plim_err err;
	int code = CMD_DONE;

	plim_here_options_init(&options);
	options.flags = o->options.flags & PLIM_WHY_REDACT ? PLIM_HERE_REDACT : 0;
	options.root = o->root;
	options.max_memory_bytes = o->options.max_memory_bytes;
	if (process && !process_number(process, &options.pid))
		return cmd_usage("'%.200s' is not the number of a process", process);
	if (plim_here_open(&options, &h, &err))
		return cmd_fail(&err);
	format_begin(&f, o->format, o->width, o->no_color);
	if (o->json ? plim_here_json(h, cmd_to_stdout, NULL, &err)
		    : plim_here_text(h, &f.style, f.write, &f.words, &err))
		code = cmd_fail(&err);
	format_end(&f);
	plim_here_free(h);
	return code;
}

static int refuse_here(const struct why_opts *o, int argc, char **argv)
{
	if (o->options.snapshot_path || o->options.config_path || o->fix)
		return cmd_usage("--here looks at this machine; --snapshot, --config and --fix "
				 "belong to a log");
	if (argc > 1)
		return cmd_usage("--here looks at one process, not at '%.200s' too", argv[1]);
	return 0;
}

static int refuse_logs(const struct why_opts *o, int argc, char **argv)
{
	if (!argc)
		return cmd_usage("why wants a log, a folder, - or --here; see 'plimsoll why "
				 "--help'");
	if (o->source && (o->json || o->options.flags & PLIM_WHY_REDACT || !strcmp(argv[0], "-")))
		return cmd_usage("--source works only with the text answer for one file; for JSON: "
				 "plimsoll lint --json --log FILE DIR");
	if (o->source && argc > 1)
		return cmd_usage("--source is for one log, not for '%.200s' too", argv[1]);
	for (int i = 0; argc > 1 && i < argc; i++)
		if (!strcmp(argv[i], "-"))
			return cmd_usage("- is read alone, without other logs");
	return 0;
}

static int why_run(const void *values, int argc, char **argv)
{
	static char standard_input[] = "-";
	char *fed[] = { standard_input, NULL };
	const struct why_opts *o = values;
	int linted, code = format_refuse(o->format, o->json     ? "json"
						    : o->fix    ? "fix"
						    : o->source ? "source"
								: NULL);

	if (!code && o->here)
		code = refuse_here(o, argc, argv);
	if (code)
		return code;
	if (o->here)
		return look_here(o, argc ? argv[0] : NULL);
	if (o->fix && (o->json || o->source))
		return cmd_usage("--fix prints lines alone: without --json and --source");
	if (o->root)
		return cmd_usage("--root is for --here");
	if (!argc && is_fed()) {
		argv = fed;
		argc = 1;
	}
	code = refuse_logs(o, argc, argv);
	if (code)
		return code;
	code = explain_logs(o, argc, argv);
	if (!o->source || code > CMD_FAILED)
		return code;
	puts("\nIn the source");
	linted = cmd_lint_beside("--log", argv[0], o->source,
				 cmd_style(o->width, o->no_color).width);
	return code ? code : linted;
}

static const struct cmd_example why_examples[] = {
	{ "plimsoll why train.log", "what the job died of, and what helps" },
	{ "plimsoll why --fix train.log", "the commands and lines to change, and nothing else" },
	{ "plimsoll why rank0.log rank1.log", "several logs of one job, put together" },
	{ "dmesg -T | plimsoll why", "which process the kernel killed, and why" },
	{ "plimsoll why logs/", "a folder of rank logs, put together" },
	{ "plimsoll why train.log --snapshot oom.pickle",
	  "with the recording, which answers questions that the log leaves open" },
	{ "plimsoll why train.log --config config.json --batch 8 --seq 2048",
	  "compare with the plan of that run: does it agree, which change is enough" },
	{ "plimsoll why --here", "how much host memory a job that is started here may use" },
	{ "plimsoll why --here 4711", "how near a running job is to its limits" },
	{ NULL, NULL },
};

const struct cmd cmd_why = {
	.name = "why",
	.summary = "explain a log: an out-of-memory error, or a process that was killed",
	.args = "LOG...|FOLDER|-|--here [PID]",
	.about =
		"Reads a log, a traceback, a terminal's scroll-back, dmesg, or the tail of a Slurm "
		"or Kubernetes job, of any size, plain or as gzip, xz, zstd, bzip2 or zip.  Of "
		"each "
		"failure of memory it says what ran out and where the log says so, when and who "
		"held "
		"it, what to do, and what is not decided; --more has the evidence and everything "
		"else "
		"that helps.  Ranks and retries are put together; failures that are not memory are "
		"named as such.  Without a log, or for \"-\", the standard input is read.\n\n"
		"A text shows what was live and what was asked for, not what was still to come.  "
		"If "
		"that does not decide between too much, gaps and a leak, the last line says what "
		"would.  Finding no failure is not an error.\n\n"
		"With --config the run is planned under the limit that it ran into (or --gpu, "
		"--memory): in which phase memory runs out, whether the log agrees, and what would "
		"be enough.\n\n"
		"With --here it looks around on this machine or in this container instead: reads "
		"/proc, /sys/fs/cgroup, /dev/shm and the kernel log once, needs no privileges, and "
		"says what it could not see.",
	.examples = why_examples,
	.common = "more fix json snapshot config here redact format",
	.opts = why_opt,
	.opts_size = sizeof(struct why_opts),
	.max_args = -1,
	.run = why_run,
};
