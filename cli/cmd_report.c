/* plimsoll report: options, a call of the public API, an exit code. */
#include "cmd.h"

#include <plimsoll/report.h>

#include <string.h>

static const char *const group_names[] = { "user-frame", "stack", "size", NULL };
static const char *const fail_names[] = { "never", "oom", "leak", "any", NULL };
enum fail_on { FAIL_NEVER, FAIL_OOM, FAIL_LEAK, FAIL_ANY };

struct report_opts {
	bool json, redact, no_color;
	uint64_t device, max_memory, owners, width;
	const char *log, *at, *events, *steps, *strip_prefix, *output;
	int group_by, fail_on;
};

static const struct opt report_opt[] = {
	OPT_FLAG('j', "json", report_opts, json, "print JSON (schema report/1) instead of text"),
	OPT_STRING('o', "output", report_opts, output, "FILE.pickle", NULL,
		   "write the snapshot as a pickle that PyTorch's viewer opens"),
	OPT_STRING('l', "log", report_opts, log, "FILE", NULL,
		   "a log that holds the out-of-memory text: it tells what the snapshot cannot"),
	OPT_HEADING("What to look at"),
	OPT_U64('d', "device", report_opts, device, "N", 0, 1023, OPT_NONE, "only this GPU"),
	OPT_STRING(0, "at", report_opts, at, "MOMENT", NULL,
		   "whose owners to list: peak, oom, end or event:N (the failure, else the peak)"),
	OPT_STRING(0, "events", report_opts, events, "A:B", NULL,
		   "peaks and timeline of events A to B only"),
	OPT_STRING(0, "steps", report_opts, steps, "A:B", NULL,
		   "the same in training steps, counted from 0"),
	OPT_CHOICE('g', "group-by", report_opts, group_by, "WHAT", group_names, 0,
		   "put owners together by"),
	OPT_U64('n', "owners", report_opts, owners, "rows", 0, 1000000, 12,
		"owners to list in JSON, 0 for all"),
	OPT_HEADING("How to show it"),
	OPT_FLAG(0, "redact", report_opts, redact,
		 "replace all names that are not PyTorch's or well known"),
	OPT_STRING(0, "strip-prefix", report_opts, strip_prefix, "PATH", NULL,
		   "cut this from file names"),
	OPT_U64('w', "width", report_opts, width, "columns", 40, 500, OPT_NONE,
		"of the text (the terminal's, or 80)"),
	OPT_FLAG(0, "no-color", report_opts, no_color, "no colours (also NO_COLOR)"),
	OPT_HEADING("Limits"),
	OPT_CHOICE(0, "fail-on", report_opts, fail_on, "WHAT", fail_names, 0,
		   "exit with 1 when this is found"),
	OPT_BYTES('m', "max-memory", report_opts, max_memory, 1 << 20, OPT_NONE, OPT_NONE,
		  "refuse input that needs more (half of this machine's)"),
	OPT_END
};

/* Is what --fail-on names among the findings? */
static int fails(const struct plim_report *r, int on)
{
	for (size_t d = 0; d < r->device_count; d++) {
		for (size_t i = 0; i < r->devices[d].finding_count; i++) {
			const struct plim_report_finding *f = &r->devices[d].findings[i];
			int bad = !strcmp(f->severity, "bad");

			if (bad && (on == FAIL_ANY || (on == FAIL_OOM && !strcmp(f->kind, "oom")) ||
				    (on == FAIL_LEAK && !strcmp(f->kind, "leak"))))
				return 1;
		}
	}
	return 0;
}

static int report_one(const struct report_opts *o, const char *path)
{
	struct plim_report_options options;
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	struct plim_report *r;
	struct plim_err err;
	int code = CMD_DONE;

	plim_report_options_init(&options);
	options.flags = o->redact ? PLIM_REPORT_REDACT : 0;
	options.max_memory_bytes = o->max_memory == OPT_NONE ? 0 : o->max_memory;
	options.log_path = o->log;
	options.device = o->device == OPT_NONE ? PLIM_UNKNOWN : o->device;
	options.at = o->at;
	options.events = o->events;
	options.steps = o->steps;
	options.group_by = (enum plim_report_group)o->group_by;
	options.strip_prefix = o->strip_prefix;
	options.owners_max = (uint32_t)o->owners;
	if (plim_report_open(path, &options, &r, &err))
		return cmd_fail(&err);
	if (o->json ? plim_report_json(r, cmd_to_stdout, NULL, &err)
		    : plim_report_text(r, &style, cmd_to_stdout, NULL, &err))
		code = cmd_fail(&err);
	if (code == CMD_DONE && o->output && plim_report_snapshot(r, o->output, &err))
		code = cmd_fail(&err);
	if (code == CMD_DONE && fails(r, o->fail_on))
		code = CMD_FAILED;
	plim_report_free(r);
	return code;
}

static int report_run(const void *values, int argc, char **argv)
{
	const struct report_opts *o = values;
	int worst = CMD_DONE;

	if (o->output && argc > 1)
		return cmd_usage("--output takes one snapshot");
	if (o->output && o->redact)
		return cmd_usage("--output writes all names as they are: not with --redact");
	for (int i = 0; i < argc; i++) {
		int code = report_one(o, argv[i]);

		worst = code > worst ? code : worst;
	}
	return worst;
}

static const struct cmd_example report_examples[] = {
	{ "plimsoll report run.pickle", "what filled the memory, and why it ran out" },
	{ "plimsoll report oom.pickle --log train.log",
	  "the same, with what only the error's text tells" },
	{ "plimsoll report run.pickle.xz --json --at event:1200",
	  "who held the memory after event 1200" },
	{ "plimsoll report run.pickle --fail-on leak", "a gate for CI" },
	{ NULL, NULL },
};

const struct cmd cmd_report = {
	.name = "report",
	.summary = "explain a recording: peaks, owners, leaks, why it ran out",
	.args = "SNAPSHOT...",
	.about = "Reads PyTorch memory snapshots (torch.cuda.memory._dump_snapshot, or plimsoll "
		 "record) as they are or "
		 "compressed with gzip, xz or zstd; \"-\" is standard input.  Nothing in them is "
		 "run.\n\n"
		 "Every event is replayed under the allocator's rules at its own address; the last "
		 "line tells whether the "
		 "snapshot's blocks came out exactly.",
	.examples = report_examples,
	.opts = report_opt,
	.opts_size = sizeof(struct report_opts),
	.min_args = 1,
	.max_args = -1,
	.run = report_run,
};
