/* plimsoll whatif: options, a call of the public API, an exit code. */
#include "cmd.h"
#include "hints.h"
#include "markdown.h"
#include "option_rows.h"
#include "output.h"
#include "progress.h"

#include <plimsoll/whatif.h>

#include <string.h>

struct whatif_opts {
	struct plim_whatif_options options; /* first, where the rows of its members store */
	bool json, no_color;
	int format;
	bool quiet; /* what is written goes where the text would */
	uint64_t width;
	const char *keep, *output;
};

static const struct opt whatif_opt[] = {
	WHATIF_RUN_OPTIONS,
	OPT_FLAG('j', "json", whatif_opts, json, "print JSON (schema whatif/2) instead of text"),
	OPT_HEADING("The recording"),
	WHATIF_RECORDING_OPTIONS,
	OPT_HEADING("Keeping a run"),
	OPT_STRING('k', "keep", whatif_opts, keep, "CONF", NULL,
		   "replay under these settings and write that run to --output"),
	OPT_STRING('o', "output", whatif_opts, output, "FILE", NULL,
		   "the run of --keep: FILE.html, a page with the recording next to it, or "
		   "FILE.pickle, a "
		   "snapshot that PyTorch's viewer opens; or, with --plan alone, the plan"),
	OPT_HEADING("How to show it"),
	WHATIF_REDACT_OPTIONS,
	OPT_FORMAT(whatif_opts),
	OPT_HEADING("Limits"),
	WHATIF_LIMITS_OPTIONS,
	OPT_END
};

/* What is printed is on the page too. */
static enum plim_status answer_whatif(const struct plim_whatif *w, struct plim_page *page,
				      struct plim_err *err)
{
	struct plim_text_style style = cmd_answer_style();
	struct cmd_answer words = { 0 };
	enum plim_status st = plim_whatif_text(w, &style, cmd_collect, &words.text, err);

	if (!st)
		st = plim_whatif_json(w, cmd_collect, &words.json, err);
	return cmd_answer_end(&words, page, st, err);
}

static enum plim_status keep_whatif(const struct whatif_opts *o, const struct plim_whatif *w,
				    struct plim_err *err)
{
	struct plim_page *page;
	enum plim_status st;

	if (!o->keep)
		return plim_whatif_plan(w, o->output, err);
	if (!cmd_is_page(o->output))
		return plim_whatif_snapshot(w, o->keep, o->output, err);
	st = cmd_page_new(o->options.max_memory_bytes, &page, err);
	if (!st)
		st = plim_whatif_page(w, o->keep, page, err);
	if (!st)
		st = answer_whatif(w, page, err);
	if (!st)
		return cmd_page_end(page, o->output, err);
	plim_page_free(page);
	return st;
}

static int whatif_show(const struct whatif_opts *o, const char *path)
{
	struct plim_whatif *w;
	struct formatted f;
	struct plim_err err;
	int code = CMD_DONE;

	if (plim_whatif_open(path, &o->options, &w, &err))
		return cmd_fail_on(path, "report", &err);
	format_begin(&f, o->format, o->width, o->no_color);
	if (!o->quiet && (o->json ? plim_whatif_json(w, cmd_to_stdout, NULL, &err)
				  : plim_whatif_text(w, &f.style, f.write, &f.words, &err)))
		code = cmd_fail(&err);
	format_end(&f);
	if (code == CMD_DONE && o->output && keep_whatif(o, w, &err))
		code = cmd_fail(&err);
	plim_whatif_free(w);
	return code;
}

static int whatif_written(struct whatif_opts *o, char **argv)
{
	static const char *const kept[] = { ".html", ".htm", ".pickle", ".pkl", ".plim", NULL },
				 *const plan[] = { ".plan", NULL };
	struct output out;
	int code;

	if (!o->output)
		return whatif_show(o, argv[0]);
	code = cmd_output_begin(&out, o->output, o->keep ? kept : plan, argv, 1);
	if (code != CMD_DONE)
		return code;
	o->quiet = cmd_output_is_stdout(&out);
	o->output = out.path;
	code = whatif_show(o, argv[0]);
	return cmd_output_end(&out, code);
}

static int whatif_run(const void *values, int argc, char **argv)
{
	struct whatif_opts o = *(const struct whatif_opts *)values;
	int code = format_refuse(o.format, o.json ? "json" : NULL);

	(void)argc;
	if (code)
		return code;
	if (o.keep ? !o.output : o.output && !(o.options.flags & PLIM_WHATIF_PLAN))
		return cmd_usage("--output belongs to --keep or --plan, and --keep to --output");
	if (o.options.limit_bytes != PLIM_UNKNOWN && o.options.gpu)
		return cmd_usage("--limit and --gpu exclude each other");
	for (size_t i = 0; i < o.options.settings_count; i++)
		((const char **)(uintptr_t)o.options.settings)[i] =
			hint_settings(o.options.settings[i]);
	o.keep = o.keep ? hint_settings(o.keep) : NULL;
	o.options.size = sizeof(o.options);
	o.options.progress = cmd_progress_count;
	o.options.progress_ctx = (char *)(uintptr_t) "settings";
	return whatif_written(&o, argv);
}

static const struct cmd_example whatif_examples[] = {
	{ "plimsoll whatif oom.pickle", "would other allocator settings have saved this run" },
	{ "plimsoll whatif run.pickle --gpu \"RTX 4090\"", "would it run on that GPU" },
	{ "plimsoll whatif run.pickle -s expandable_segments:True --limit 24GiB --json",
	  "one setting, one limit, for a script" },
	{ "plimsoll whatif run.pickle --plan -o run.plan",
	  "what Plimsoll's allocator would reserve, and the plan for it" },
	{ "plimsoll whatif run.pickle --keep max_split_size_mb:64 -o split.html",
	  "what that run looks like, next to the recording" },
	{ NULL, NULL },
};

const struct cmd cmd_whatif = {
	.name = "whatif",
	.summary = "replay a recording under other allocator settings, or on another GPU",
	.args = "RECORDING",
	.about = "Takes every request for memory out of a PyTorch memory snapshot and serves it "
		 "again with a model of PyTorch's caching allocator, under the settings that you "
		 "name.  First the recording's own settings are tried: if the model does not do "
		 "exactly what was recorded, no advice is given.\n\n"
		 "Where the driver puts a segment can change the outcome a little, so each setting "
		 "is tried with several placements; JSON has the range.  \"survives\" means up to "
		 "the end of the recording: what would have come next was not recorded.",
	.examples = whatif_examples,
	.common = "settings limit gpu smallest search plan keep output json",
	.opts = whatif_opt,
	.opts_size = sizeof(struct whatif_opts),
	.min_args = 1,
	.max_args = 1,
	.run = whatif_run,
};
