/* plimsoll whatif: options, a call of the public API, an exit code. */
#include "cmd.h"
#include "markdown.h"
#include "output.h"
#include "progress.h"

#include <plimsoll/whatif.h>

#include <string.h>

struct whatif_opts {
	bool json, smallest, search, plan, redact, no_color;
	int format;
	bool quiet; /* what is written goes where the text would */
	struct opt_list settings;
	uint64_t limit, allowance, device, max_memory, width, threads, budget;
	const char *gpu, *log, *torch, *keep, *output;
};

static const struct opt whatif_opt[] = {
	OPT_LIST('s', "settings", whatif_opts, settings, "CONF",
		 "a PYTORCH_CUDA_ALLOC_CONF to try (without it: the usual ones)"),
	OPT_BYTES('l', "limit", whatif_opts, limit, 2 << 20, OPT_NONE, OPT_NONE,
		  "memory the job may reserve (what the recording ran into, if it did)"),
	OPT_STRING('g', "gpu", whatif_opts, gpu, "CARD", NULL,
		   "the same by a card's name, \"RTX 4090\""),
	OPT_BYTES(0, "allowance", whatif_opts, allowance, 0, OPT_NONE, OPT_NONE,
		  "of --gpu, for what PyTorch does not allocate (896MiB)"),
	OPT_FLAG(0, "smallest", whatif_opts, smallest,
		 "find the smallest limit of each setting, also when it takes long"),
	OPT_FLAG(0, "search", whatif_opts, search, "try many more settings, as long as --budget"),
	OPT_U64(0, "budget", whatif_opts, budget, "seconds", 1, 86400, 60, "time for --search"),
	OPT_FLAG('p', "plan", whatif_opts, plan,
		 "also run under libplimsoll_alloc.so; --output FILE.plan writes the plan for it"),
	OPT_FLAG('j', "json", whatif_opts, json, "print JSON (schema whatif/2) instead of text"),
	OPT_HEADING("The recording"),
	OPT_STRING(0, "log", whatif_opts, log, "FILE", NULL,
		   "log file with the out-of-memory message, which has limits and other processes "
		   "that a snapshot does not record"),
	OPT_U64('d', "device", whatif_opts, device, "N", 0, 1023, OPT_NONE,
		"this GPU (the one that died, or reserved most)"),
	OPT_STRING(0, "torch", whatif_opts, torch, "X.Y", NULL,
		   "PyTorch's release (as the recording's keys tell)"),
	OPT_HEADING("Keeping a run"),
	OPT_STRING('k', "keep", whatif_opts, keep, "CONF", NULL,
		   "run with these settings and write it with --output"),
	OPT_STRING('o', "output", whatif_opts, output, "FILE", NULL,
		   "the run of --keep: FILE.html, a page with the recording beside it, or "
		   "FILE.pickle, a "
		   "snapshot that PyTorch's viewer opens; or, with --plan alone, the plan"),
	OPT_HEADING("How to show it"),
	OPT_FLAG(0, "redact", whatif_opts, redact, "do not tell the file's name"),
	OPT_FORMAT(whatif_opts),
	OPT_HEADING("Limits"),
	OPT_U64(0, "threads", whatif_opts, threads, "n", 1, 1024, OPT_NONE,
		"runs at a time (as many as cores)"),
	OPT_BYTES('m', "max-memory", whatif_opts, max_memory, 1 << 20, OPT_NONE, OPT_NONE,
		  "refuse input that needs more (half of this machine's)"),
	OPT_END
};

/* What is printed is on the page too. */
static enum plim_status answer(const struct plim_whatif *w, struct plim_page *page,
			       struct plim_err *err)
{
	struct plim_text_style style = cmd_answer_style();
	struct cmd_answer words = { 0 };
	enum plim_status st = plim_whatif_text(w, &style, cmd_collect, &words.text, err);

	if (!st)
		st = plim_whatif_json(w, cmd_collect, &words.json, err);
	return cmd_answer_end(&words, page, st, err);
}

static enum plim_status keep(const struct whatif_opts *o, const struct plim_whatif *w,
			     struct plim_err *err)
{
	struct plim_page *page;
	enum plim_status st;

	if (!o->keep)
		return plim_whatif_plan(w, o->output, err);
	if (!cmd_is_page(o->output))
		return plim_whatif_snapshot(w, o->keep, o->output, err);
	st = cmd_page_new(o->max_memory, &page, err);
	if (!st)
		st = plim_whatif_page(w, o->keep, page, err);
	if (!st)
		st = answer(w, page, err);
	if (!st)
		return cmd_page_end(page, o->output, err);
	plim_page_free(page);
	return st;
}

static int whatif_show(const struct whatif_opts *o, const char *path,
		       const struct plim_whatif_options *options)
{
	struct plim_whatif *w;
	struct formatted f;
	struct plim_err err;
	int code = CMD_DONE;

	if (plim_whatif_open(path, options, &w, &err))
		return cmd_fail(&err);
	format_begin(&f, o->format, o->width, o->no_color);
	if (!o->quiet && (o->json ? plim_whatif_json(w, cmd_to_stdout, NULL, &err)
				  : plim_whatif_text(w, &f.style, f.write, &f.words, &err)))
		code = cmd_fail(&err);
	format_end(&f);
	if (code == CMD_DONE && o->output && keep(o, w, &err))
		code = cmd_fail(&err);
	plim_whatif_free(w);
	return code;
}

static int whatif_written(const struct whatif_opts *given, char **argv,
			  const struct plim_whatif_options *options)
{
	static const char *const kept[] = { ".html", ".htm", ".pickle", ".pkl", ".plim", NULL },
				 *const plan[] = { ".plan", NULL };
	struct whatif_opts o = *given;
	struct output out;
	int code;

	if (!o.output)
		return whatif_show(&o, argv[0], options);
	code = cmd_output_begin(&out, o.output, o.keep ? kept : plan, argv, 1);
	if (code != CMD_DONE)
		return code;
	o.quiet = cmd_output_is_stdout(&out);
	o.output = out.path;
	code = whatif_show(&o, argv[0], options);
	return cmd_output_end(&out, code);
}

static int whatif_run(const void *values, int argc, char **argv)
{
	const struct whatif_opts *o = values;
	struct plim_whatif_options options;
	int code = format_refuse(o->format, o->json ? "json" : NULL);

	(void)argc;
	if (code)
		return code;
	plim_whatif_options_init(&options);
	if (o->keep ? !o->output : o->output && !o->plan)
		return cmd_usage("--output belongs to --keep or --plan, and --keep to --output");
	if (o->limit != OPT_NONE && o->gpu)
		return cmd_usage("--limit and --gpu exclude each other");
	if (o->torch && !cmd_torch_release(o->torch, &options.torch))
		return cmd_usage("--torch takes a release from 2.1 on, like 2.11, not '%s'",
				 o->torch);
	options.flags = (o->smallest ? PLIM_WHATIF_SMALLEST : 0) |
			(o->plan ? PLIM_WHATIF_PLAN : 0) | (o->redact ? PLIM_WHATIF_REDACT : 0) |
			(o->search ? PLIM_WHATIF_SEARCH : 0);
	options.search_ms = o->budget * 1000;
	options.max_memory_bytes = o->max_memory == OPT_NONE ? 0 : o->max_memory;
	options.device = o->device == OPT_NONE ? PLIM_UNKNOWN : o->device;
	options.log_path = o->log;
	options.settings = o->settings.at;
	options.settings_count = o->settings.n;
	options.limit_bytes = o->limit == OPT_NONE ? PLIM_UNKNOWN : o->limit;
	options.gpu = o->gpu;
	if (o->allowance != OPT_NONE)
		options.allowance_bytes = o->allowance;
	options.threads = o->threads == OPT_NONE ? 0 : (unsigned)o->threads;
	options.progress = cmd_progress_count;
	options.progress_ctx = (char *)(uintptr_t) "settings";
	return whatif_written(o, argv, &options);
}

static const struct cmd_example whatif_examples[] = {
	{ "plimsoll whatif oom.pickle", "would other allocator settings have saved this run" },
	{ "plimsoll whatif run.pickle --gpu \"RTX 4090\"", "would it run on that card" },
	{ "plimsoll whatif run.pickle -s expandable_segments:True --limit 24GiB --json",
	  "one setting, one limit, for a script" },
	{ "plimsoll whatif run.pickle --plan -o run.plan",
	  "what Plimsoll's allocator would reserve, and the plan for it" },
	{ "plimsoll whatif run.pickle --keep max_split_size_mb:64 -o split.html",
	  "what that run looks like, beside the recording" },
	{ NULL, NULL },
};

const struct cmd cmd_whatif = {
	.name = "whatif",
	.summary = "replay a recording under other allocator settings, or on another card",
	.args = "RECORDING",
	.about = "Takes every request for memory out of a PyTorch memory snapshot and serves it "
		 "again with a model of PyTorch's caching allocator, under the settings that you "
		 "name.  First the recording's own settings are tried: if the model does not do "
		 "exactly what was recorded, no advice is given.\n\n"
		 "Where the driver puts a segment can change the outcome a little, so each setting "
		 "is tried with several placements; JSON has the range.  \"survives\" means up to "
		 "the end of the recording: what would have come next was not recorded.",
	.examples = whatif_examples,
	.opts = whatif_opt,
	.opts_size = sizeof(struct whatif_opts),
	.min_args = 1,
	.max_args = 1,
	.run = whatif_run,
};
