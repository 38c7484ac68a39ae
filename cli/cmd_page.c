/* plimsoll page: the bare viewer, a page without recordings that reads those which are dropped on it. */
#include "cmd.h"

#include <plimsoll/page.h>

#include <stddef.h>

struct page_opts {
	bool viewer;
	const char *output;
};

static const struct opt page_opt[] = {
	OPT_FLAG(0, "viewer", page_opts, viewer, "write the viewer alone"),
	OPT_STRING('o', "output", page_opts, output, "FILE.html", NULL, "the page to write"),
	OPT_END
};

static int page_run(const void *values, int argc, char **argv)
{
	const struct page_opts *o = values;
	struct plim_err err;
	uint64_t bytes;

	(void)argc;
	(void)argv;
	if (!o->viewer)
		return cmd_usage(
			"'plimsoll page --viewer -o viewer.html' writes the bare viewer; the "
			"page of a recording is 'plimsoll report RECORDING -o page.html'");
	if (!o->output)
		return cmd_usage("page --viewer needs -o FILE.html");
	if (plim_page_viewer(o->output, &bytes, &err))
		return cmd_fail(&err);
	cmd_say("%s: the viewer, %.2f MB; packed recordings (.plim) can be dropped on it",
		o->output, (double)bytes / 1e6);
	return CMD_DONE;
}

static const struct cmd_example page_examples[] = {
	{ "plimsoll page --viewer -o viewer.html", "the bare viewer" },
	{ NULL, NULL },
};

const struct cmd cmd_page = {
	.name = "page",
	.summary = "write the viewer without a recording: files are dropped on it",
	.about =
		"Writes one file that opens in a browser, without a network and without a server.  "
		"A "
		"packed recording (plimsoll pack run.pickle) that is dropped on it is drawn there: "
		"memory over time, owners, segments, events.  Verdict, phases and categories are "
		"found "
		"by plimsoll report -o page.html alone.",
	.examples = page_examples,
	.opts = page_opt,
	.opts_size = sizeof(struct page_opts),
	.run = page_run,
};
