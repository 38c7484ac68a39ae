/* plimsoll report: options, a call of the public API, an exit code. */
#include "cmd.h"
#include "gate.h"
#include "markdown.h"
#include "option_rows.h"
#include "output.h"
#include "progress.h"

#include <plimsoll/ranks.h>

#include <string.h>

struct report_opts {
	struct plim_report_options options; /* first, where the rows of its members store */
	bool json, no_color;
	bool digest;
	bool quiet; /* the page goes where the text would */
	uint64_t width, threads;
	const char *output, *source, *fail_on, *baseline, *layout;
	int format;
};

static const struct opt report_opt[] = {
	OPT_FLAG('j', "json", report_opts, json,
		 "print JSON (schema report/2; of several: ranks/2) instead of text"),
	OPT_STRING('o', "output", report_opts, output, "FILE", NULL,
		   "write FILE.html, one page that shows it in a browser (of several recordings "
		   "too), or "
		   "FILE.pickle, a snapshot that PyTorch's viewer opens"),
	REPORT_LOG_OPTIONS,
	OPT_STRING(0, "source", report_opts, source, "DIR", NULL,
		   "the program's source: show the mistakes behind the findings, as plimsoll lint "
		   "finds them"),
	REPORT_WHY_OPTIONS,
	OPT_HEADING("What to look at"),
	REPORT_LOOK_OPTIONS,
	OPT_HEADING("How to show it"),
	REPORT_NAMES_OPTIONS,
	OPT_FORMAT(report_opts),
	OPT_HEADING("Many ranks"),
	OPT_FLAG(0, "digest", report_opts, digest,
		 "write a digest of each recording, a few kilobytes, to -o NAME.digest; report "
		 "compares ranks by digests as by recordings"),
	OPT_STRING(0, "layout", report_opts, layout, "NAME=SIZE,...", NULL,
		   "how ranks are laid out, the innermost first (tp=8,dp=32,pp=4); ranks are named "
		   "by it"),
	OPT_HEADING("Limits"),
	OPT_STRING(0, "fail-on", report_opts, fail_on, "WHAT", NULL,
		   "exit with 1 when this is found: oom, leak, leak=RATE (as leak=1MiB per step), "
		   "any, or ids of findings, separated by commas"),
	OPT_STRING(0, "baseline", report_opts, baseline, "FILE", NULL,
		   "a file of accepted findings, which do not fail: one per line, ID PLACE reason "
		   "(leak train.py:41 kept on purpose)"),
	REPORT_LIMITS_OPTIONS,
	OPT_U64(0, "threads", report_opts, threads, "n", 1, 1024, OPT_NONE,
		"of several recordings, read this many at a time (as many as cores)"),
	OPT_END
};

/* ---- the page ---- */

static enum plim_status write_output(const struct report_opts *o, const struct plim_report *r,
				     struct plim_err *err)
{
	struct plim_page *page;
	enum plim_status st;

	if (!cmd_is_page(o->output)) {
		st = plim_report_snapshot(r, o->output, err);
		if (!st)
			cmd_say("%s: the recording", o->output);
		return st;
	}
	st = cmd_page_new(o->options.max_memory_bytes, &page, err);
	if (!st)
		st = plim_page_add(page, r, err);
	if (!st)
		return cmd_page_end(page, o->output, err);
	plim_page_free(page);
	return st;
}

static enum plim_status print_report(const struct report_opts *o, const struct plim_report *r,
				     struct plim_err *err)
{
	struct formatted f;
	enum plim_status st;

	if (o->json)
		return plim_report_json(r, cmd_to_stdout, NULL, err);
	format_begin(&f, o->format, o->width, o->no_color);
	st = plim_report_text(r, &f.style, f.write, &f.words, err);
	format_end(&f);
	return st;
}

static int report_one(const struct report_opts *o, struct gate *gate, const char *path)
{
	struct plim_report *r;
	struct plim_err err;
	int code = CMD_DONE;

	if (plim_report_open(path, &o->options, &r, &err))
		return cmd_fail_on(path, "report", &err);
	if (!o->quiet && print_report(o, r, &err))
		code = cmd_fail(&err);
	if (code == CMD_DONE && o->output && write_output(o, r, &err))
		code = cmd_fail(&err);
	if (code == CMD_DONE && gate_fails_report(gate, r))
		code = CMD_FAILED;
	plim_report_free(r);
	return code;
}

/* What of the options is about one recording. */
static const char *only_of_one(const struct report_opts *o)
{
	return o->output && !o->digest && !cmd_is_page(o->output) ? "--output FILE.pickle"
	       : o->options.log_path                              ? "--log"
	       : o->options.events                                ? "--events"
	       : o->options.steps                                 ? "--steps"
	       : o->options.device != PLIM_UNKNOWN                ? "--device"
	       : o->options.at && *o->options.at == 'e' && o->options.at[1] == 'v' ? "--at event:N"
										   : NULL;
}

/* ---- several recordings in one page; one after the other is in memory ---- */

#define PAGE_RANKS_MOST \
	64 /* of more those are drawn that are reported in full; the table has all */

static enum plim_status add_file(const struct report_opts *o, struct gate *gate, const char *path,
				 struct plim_page *page, int *code, struct plim_err *err)
{
	struct plim_report *r = NULL;
	enum plim_status st = plim_report_open(path, &o->options, &r, err);

	if (!st && gate && gate_fails_report(gate, r))
		*code = CMD_FAILED;
	if (!st)
		st = plim_page_add(page, r, err);
	plim_report_free(r);
	return st;
}

/* What is printed of all of them. */
static enum plim_status answer_report(const struct plim_ranks *k, struct plim_page *page,
				      struct plim_err *err)
{
	struct plim_text_style style = cmd_answer_style();
	struct cmd_answer words = { 0 };
	enum plim_status st = plim_ranks_text(k, &style, cmd_collect, &words.text, err);

	if (!st)
		st = plim_ranks_json(k, cmd_collect, &words.json, err);
	return cmd_answer_end(&words, page, st, err);
}

static struct plim_ranks_options ranks_options_of(const struct report_opts *o)
{
	struct plim_ranks_options options;

	plim_ranks_options_init(&options);
	options.report = o->options;
	options.layout = o->layout;
	options.rows_only = o->digest;
	options.threads = o->threads == OPT_NONE ? 0 : (unsigned)o->threads;
	return options;
}

/* Files that are named one by one, in that order.  What holds for one alone is not said of all. */
static int page_of_several(const struct report_opts *o, struct gate *gate, int argc, char **argv)
{
	struct plim_ranks_options options = ranks_options_of(o);
	struct plim_ranks *k = NULL;
	struct plim_page *page;
	int code = CMD_DONE;
	struct plim_err err;
	enum plim_status st = cmd_page_new(o->options.max_memory_bytes, &page, &err);

	for (int i = 0; !st && i < argc; i++)
		st = add_file(o, gate, argv[i], page, &code, &err);
	if (!st && !only_of_one(o)) {
		st = plim_ranks_open((const char *const *)argv, (size_t)argc, &options, &k, &err);
		if (!st)
			st = answer_report(k, page, &err);
		plim_ranks_free(k);
	}
	if (!st)
		st = cmd_page_end(page, o->output, &err);
	else
		plim_page_free(page);
	return st ? cmd_fail(&err) : code;
}

/* A recording that lies in an archive is reported in the table. */
static enum plim_status report_add_row(const struct report_opts *o, const struct plim_ranks *k,
				       size_t i, struct plim_page *page, struct plim_err *err)
{
	const struct plim_ranks_row *row = &k->rows[i];

	if (i == k->worst_row && k->worst)
		return plim_page_add(page, k->worst, err);
	for (size_t n = 0; n < k->also_count; n++)
		if (k->also[n].row == i)
			return plim_page_add(page, k->also[n].report, err);
	if (row->error || row->member || !row->path || k->row_count > PAGE_RANKS_MOST)
		return PLIM_OK;
	return add_file(o, NULL, row->path, page, NULL, err);
}

/* Folders and archives: by rank. */
static enum plim_status page_of_ranks(const struct report_opts *o, const struct plim_ranks *k,
				      struct plim_err *err)
{
	struct plim_page *page;
	enum plim_status st = cmd_page_new(o->options.max_memory_bytes, &page, err);

	if (st)
		return st;
	for (size_t i = 0; !st && i < k->row_count; i++)
		st = report_add_row(o, k, i, page, err);
	if (!st)
		st = answer_report(k, page, err);
	if (!st)
		return cmd_page_end(page, o->output, err);
	plim_page_free(page);
	return st;
}

/* ---- several recordings ---- */

/* The exit code of what could not be read; and --fail-on, for any of the recordings. */
static int ranks_code(const struct plim_ranks *k, const struct gate *gate)
{
	int code = CMD_DONE;

	for (size_t i = 0; i < k->row_count; i++) {
		const struct plim_ranks_row *row = &k->rows[i];
		int one = row->error ? cmd_exit_code(row->status) : CMD_DONE;

		if (gate_fails_rank(gate, row->died != 0, row->leak_bytes != PLIM_UNKNOWN))
			one = CMD_FAILED;
		code = one > code ? one : code;
	}
	if (k->failed)
		cmd_say("%llu of %zu recordings could not be read", (unsigned long long)k->failed,
			k->row_count);
	return code;
}

static int report_several(const struct report_opts *o, const struct gate *gate, int argc,
			  char **argv)
{
	int code = CMD_DONE;
	struct plim_ranks_options options = ranks_options_of(o);
	struct plim_ranks *k;
	struct formatted f;
	struct plim_err err;

	if (only_of_one(o))
		return cmd_usage("%s is about one recording; these are several", only_of_one(o));
	if (gate_of_one(gate))
		return cmd_usage(
			"--fail-on %s is about one recording; of several it takes any, oom "
			"and leak",
			gate_of_one(gate));
	options.progress = cmd_progress_count;
	options.progress_ctx = (char *)(uintptr_t) "recordings";
	code = plim_ranks_open((const char *const *)argv, (size_t)argc, &options, &k, &err);
	if (code)
		return cmd_fail_on(argc == 1 ? argv[0] : NULL, "report", &err);
	format_begin(&f, o->format, o->width, o->no_color);
	if (o->digest) {
		if (plim_ranks_digest(k, o->output, &err))
			code = cmd_fail(&err);
	} else if (!o->quiet && (o->json ? plim_ranks_json(k, cmd_to_stdout, NULL, &err)
					 : plim_ranks_text(k, &f.style, f.write, &f.words, &err))) {
		code = cmd_fail(&err);
	}
	format_end(&f);
	if (code == CMD_DONE && o->output && !o->digest && page_of_ranks(o, k, &err))
		code = cmd_fail(&err);
	if (code == CMD_DONE)
		code = ranks_code(k, gate);
	plim_ranks_free(k);
	return code;
}

/* The report's own code counts; what the linter could not do is worth one only after a clean report. */
static int beside_source(const struct report_opts *o, const char *path, int code)
{
	int linted;

	if (code > CMD_FAILED)
		return code;
	puts("\nIn the source");
	linted = cmd_lint_beside("--recording", path, o->source,
				 cmd_style(o->width, o->no_color).width);
	return code ? code : linted;
}

static int report_what(const struct report_opts *o, struct gate *gate, int argc, char **argv)
{
	int named = argc > 1;

	if (o->digest)
		return report_several(o, gate, argc, argv);
	for (int i = 0; named && i < argc; i++)
		named = !plim_ranks_several(argv[i]);
	if (o->output && cmd_is_page(o->output) && named)
		return o->json ? cmd_usage("a page of several recordings prints no JSON")
			       : page_of_several(o, gate, argc, argv);
	return argc > 1 || plim_ranks_several(argv[0]) ? report_several(o, gate, argc, argv)
						       : report_one(o, gate, argv[0]);
}

static int refuse_report(const struct report_opts *o, int argc, char **argv)
{
	bool page = o->output && cmd_is_page(o->output);
	bool redacts = o->options.flags & PLIM_REPORT_REDACT;
	int code = format_refuse(o->format, o->json ? "json" : o->digest ? "digest" : NULL);

	if (code)
		return code;
	if (o->digest && (!o->output || page))
		return cmd_usage("--digest wants -o NAME.digest");
	if (o->digest)
		return CMD_DONE;
	if (o->output && redacts && !page)
		return cmd_usage("a pickle holds all names: it cannot be written with --redact");
	if (page && (o->options.events || o->options.steps))
		return cmd_usage("a page holds all events: --events and --steps cannot limit it");
	if (o->source && (o->json || redacts || !strcmp(argv[0], "-") || argc > 1))
		return cmd_usage("--source works only with the text report of one file; for JSON: "
				 "plimsoll lint --json --recording FILE DIR");
	return CMD_DONE;
}

static int report_gated(const struct report_opts *o, int argc, char **argv)
{
	struct gate gate;
	int code = CMD_DONE;

	if (!gate_init(&gate, o->fail_on))
		return CMD_USAGE;
	if (o->baseline)
		code = gate_read_baseline(&gate, o->baseline);
	if (code == CMD_DONE)
		code = report_what(o, &gate, argc, argv);
	gate_release(&gate);
	return o->source ? beside_source(o, argv[0], code) : code;
}

static int report_run(const void *values, int argc, char **argv)
{
	static const char *const suffixes[] = { ".html", ".htm", ".pickle", ".pkl", ".plim", NULL };
	static const char *const digests[] = { ".digest", NULL };
	struct report_opts o = *(const struct report_opts *)values;
	struct output out;
	int code = CMD_DONE;

	o.options.size = sizeof(o.options);
	if (!o.output)
		code = refuse_report(&o, argc, argv);
	if (!o.output)
		return code == CMD_DONE ? report_gated(&o, argc, argv) : code;
	code = cmd_output_begin(&out, o.output, o.digest ? digests : suffixes, argv, argc);
	if (code != CMD_DONE)
		return code;
	o.quiet = cmd_output_is_stdout(&out);
	o.output = out.path;
	code = refuse_report(&o, argc, argv);
	if (code == CMD_DONE)
		code = report_gated(&o, argc, argv);
	return cmd_output_end(&out, code);
}

static const struct cmd_example report_examples[] = {
	{ "plimsoll report run.pickle", "what filled the memory, and why it ran out" },
	{ "plimsoll report oom.pickle --log train.log",
	  "the same, with what only the error's text shows" },
	{ "plimsoll report run.pickle.xz --json --at event:1200",
	  "who held the memory after event 1200" },
	{ "plimsoll report run.pickle -o page.html",
	  "one file that shows every allocation in a browser" },
	{ "plimsoll report before.pickle after.pickle -o both.html",
	  "two recordings side by side" },
	{ "plimsoll report run.pickle --fail-on leak", "a gate for CI" },
	{ "plimsoll report run.pickle --format markdown", "a comment for a pull request" },
	{ "plimsoll report snapshots/", "the ranks of a job: which died first, how they differ" },
	{ NULL, NULL },
};

const struct cmd cmd_report = {
	.name = "report",
	.summary = "explain a recording, or those of all ranks: peak, who held it, leaks, why it "
		   "ran out",
	.args = "RECORDING|FOLDER|TAR...",
	.about =
		"Reads PyTorch memory snapshots (torch.cuda.memory._dump_snapshot, or plimsoll "
		"record) as they are or "
		"compressed with gzip, xz, zstd or bzip2, or alone in a zip; \"-\" is standard "
		"input.  Nothing in them is "
		"run.\n\n"
		"Several files, a folder (also with a folder for each rank or machine) or a tar "
		"archive are the ranks of one job: which died first, a table by rank, how they "
		"differ, and the worst in full.  They are read in parallel within --max-memory.\n\n"
		"The text has the verdict and its sum, what to do best first, who held the memory, "
		"and "
		"its course, in 40 lines; --why adds the evidence.  Every event is replayed under "
		"the "
		"allocator's rules at its own address; \"replay exact\" in the first line says "
		"that the "
		"snapshot's blocks came out exactly.",
	.examples = report_examples,
	.common = "output log why at group-by owners fail-on redact json format",
	.opts = report_opt,
	.opts_size = sizeof(struct report_opts),
	.min_args = 1,
	.max_args = -1,
	.run = report_run,
};
