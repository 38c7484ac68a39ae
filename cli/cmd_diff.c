/* plimsoll diff: options, a call of the public API, an exit code. */
#include "cmd.h"
#include "gate.h"
#include "markdown.h"
#include "option_rows.h"
#include "output.h"

#include <plimsoll/diff.h>

#include <ctype.h>
#include <string.h>

static const char *const at_names[] = { "peak", "end", "both", NULL };
enum at { AT_PEAK, AT_END, AT_BOTH };

struct diff_opts {
	struct plim_diff_options options; /* first, where the rows of its members store */
	bool json, no_color;
	bool quiet; /* the page goes where the text would */
	uint64_t width;
	const char *fail_over, *fail_on, *output;
	int at, format;
};

static const struct opt diff_opt[] = {
	OPT_FLAG('j', "json", diff_opts, json, "print JSON (schema diff/2) instead of text"),
	OPT_STRING(
		'f', "fail-over", diff_opts, fail_over, "GROWTH", NULL,
		"exit with 1 when the peak of allocated memory of any GPU grew by more than this: "
		"2% of A's, or 500MiB"),
	OPT_STRING(0, "fail-on", diff_opts, fail_on, "ID,ID...", NULL,
		   "exit with 1 if only B has such a finding: any, oom, leak, leak=RATE or an id"),
	OPT_STRING('o', "output", diff_opts, output, "FILE", NULL,
		   "write FILE.html, one page with both and what grew"),
	OPT_HEADING("What to look at"),
	DIFF_DEVICE_OPTIONS,
	OPT_CHOICE(0, "at", diff_opts, at, "MOMENT", at_names, AT_BOTH, "whose owners to compare"),
	DIFF_ROWS_OPTIONS,
	OPT_HEADING("How to show it"),
	DIFF_NAMES_OPTIONS,
	OPT_FORMAT(diff_opts),
	OPT_HEADING("Limits"),
	DIFF_LIMITS_OPTIONS,
	OPT_END
};

#define PPM_DIGITS 4 /* behind the point of a percentage: a millionth */

/* "2.5%" to 25,000 millionths. */
static bool percentage(const char *text, uint64_t *ppm)
{
	uint64_t n = 0;
	int digits = 0, behind = -1;

	for (; isdigit((unsigned char)*text) || (*text == '.' && behind < 0); text++) {
		if (*text == '.') {
			behind = 0;
			continue;
		}
		n = 10 * n + (uint64_t)(*text - '0');
		behind += behind >= 0;
		if (behind > PPM_DIGITS || n > UINT64_MAX / 1000000)
			return false;
		digits++;
	}
	for (behind = behind < 0 ? 0 : behind; behind < PPM_DIGITS; behind++)
		n *= 10;
	*ppm = n;
	return digits && !strcmp(text, "%");
}

static bool read_gate(const char *text, struct plim_diff_options *options)
{
	if (!text)
		return true;
	options->flags |= PLIM_DIFF_GATE;
	if (percentage(text, &options->gate_ppm))
		return true;
	/* of a bare number no one knows whether it was to be per cent, MiB or bytes */
	if (text[strspn(text, "0123456789")] == 0 && strspn(text, "0") != strlen(text))
		return false;
	return opt_bytes(text, &options->gate_bytes);
}

static enum plim_status print_diff(const struct diff_opts *o, const struct plim_diff *d,
				   struct plim_err *err)
{
	struct formatted f;
	enum plim_status st;

	if (o->json)
		return plim_diff_json(d, cmd_to_stdout, NULL, err);
	format_begin(&f, o->format, o->width, o->no_color);
	st = plim_diff_text(d, &f.style, f.write, &f.words, err);
	format_end(&f);
	return st;
}

/* ---- the page: both recordings, one after the other in memory, and what is printed of them ---- */

static enum plim_status add_side(const struct diff_opts *o, const char *path,
				 struct plim_page *page, struct plim_err *err)
{
	struct plim_report_options options;
	struct plim_report *r = NULL;
	enum plim_status st;

	plim_report_options_init(&options);
	options.flags = o->options.flags & PLIM_DIFF_REDACT ? PLIM_REPORT_REDACT : 0;
	options.max_memory_bytes = o->options.max_memory_bytes;
	options.device = o->options.device;
	options.strip_prefix = o->options.strip_prefix;
	st = plim_report_open(path, &options, &r, err);
	if (!st)
		st = plim_page_add(page, r, err);
	plim_report_free(r);
	return st;
}

static enum plim_status write_page(const struct diff_opts *o, char **paths,
				   struct cmd_answer *answer, struct plim_err *err)
{
	struct plim_page *page = NULL;
	enum plim_status st = cmd_page_new(o->options.max_memory_bytes, &page, err);

	for (size_t i = 0; !st && i < 2; i++)
		st = add_side(o, paths[i], page, err);
	st = cmd_answer_end(answer, page, st, err);
	if (!st)
		return cmd_page_end(page, o->output, err);
	plim_page_free(page);
	return st;
}

static enum plim_status answer_of(const struct plim_diff *d, struct cmd_answer *answer,
				  struct plim_err *err)
{
	struct plim_text_style style = cmd_answer_style();
	enum plim_status st = plim_diff_text(d, &style, cmd_collect, &answer->text, err);

	return st ? st : plim_diff_json(d, cmd_collect, &answer->json, err);
}

/* Has only B a finding that --fail-on names? */
static bool finds_in_b(struct gate *gate, const struct plim_diff *d)
{
	bool fails = false;

	for (size_t i = 0; i < d->device_count; i++)
		for (size_t k = 0; k < d->devices[i].finding_count; k++) {
			const struct plim_diff_finding *f = &d->devices[i].findings[k];
			struct plim_finding as = { .id = f->id,
						   .severity = f->severity,
						   .bytes = f->bytes,
						   .per_period_bytes = f->per_period_bytes };

			fails |= !strcmp(f->side, "b") && gate_fails(gate, &as);
		}
	return fails;
}

/* The recording of the two that a message is about. */
static const char *named_in(const char *message, char **argv)
{
	const char *name = strcmp(argv[1], "-") ? argv[1] : "standard input";

	return strstr(message, name) ? argv[1] : argv[0];
}

static int diff_show(const struct diff_opts *o, char **argv)
{
	struct cmd_answer answer = { 0 };
	struct plim_diff *d;
	struct gate gate;
	struct plim_err err;
	int code = CMD_DONE;
	enum plim_status st;

	if (!gate_init(&gate, o->fail_on))
		return CMD_USAGE;
	if (plim_diff_open(argv[0], argv[1], &o->options, &d, &err))
		return cmd_fail_on(named_in(err.message, argv), "report", &err);
	if ((d->gate && d->gate->exceeded) || finds_in_b(&gate, d))
		code = CMD_FAILED;
	st = o->quiet ? PLIM_OK : print_diff(o, d, &err);
	if (!st && o->output)
		st = answer_of(d, &answer, &err);
	plim_diff_free(d); /* what the page needs is read again, one recording at a time */
	if (o->output)
		st = st ? cmd_answer_end(&answer, NULL, st, &err)
			: write_page(o, argv, &answer, &err);
	return st ? cmd_fail(&err) : code;
}

static int diff_written(const struct diff_opts *given, char **argv)
{
	static const char *const pages[] = { ".html", ".htm", NULL };
	struct diff_opts o = *given;
	struct output out;
	int code;

	if (!o.output)
		return diff_show(&o, argv);
	code = cmd_output_begin(&out, o.output, pages, argv, 2);
	if (code != CMD_DONE)
		return code;
	o.quiet = cmd_output_is_stdout(&out);
	o.output = out.path;
	code = diff_show(&o, argv);
	return cmd_output_end(&out, code);
}

static int diff_run(const void *values, int argc, char **argv)
{
	struct diff_opts o = *(const struct diff_opts *)values;
	int code;

	(void)argc;
	o.options.size = sizeof(o.options);
	o.options.flags |= o.at == AT_PEAK  ? PLIM_DIFF_NO_END
			   : o.at == AT_END ? PLIM_DIFF_NO_PEAK
					    : 0;
	o.options.gate_bytes = PLIM_UNKNOWN;
	if (o.fail_over && strpbrk(o.fail_over, "123456789") &&
	    !o.fail_over[strspn(o.fail_over, "0123456789.")])
		return cmd_usage("--fail-over takes a percentage, or a size with its unit: did you "
				 "mean '%s%%'?",
				 o.fail_over);
	if (!read_gate(o.fail_over, &o.options))
		return cmd_usage("--fail-over takes a size with its unit (500MiB) or a percentage "
				 "(2%%), not '%s'",
				 o.fail_over);
	code = format_refuse(o.format, o.json ? "json" : NULL);
	return code ? code : diff_written(&o, argv);
}

static const struct cmd_example diff_examples[] = {
	{ "plimsoll diff before.pickle after.pickle", "what changed, and where in the code" },
	{ "plimsoll diff main.pickle branch.pickle --fail-over 2%", "a gate for CI" },
	{ "plimsoll diff before.pickle after.pickle -o both.html", "look at both, linked" },
	{ "plimsoll diff a.pickle b.pickle --at end --group-by stack --top 0",
	  "every stack that holds more or less at the end" },
	{ NULL, NULL },
};

const struct cmd cmd_diff = {
	.name = "diff",
	.summary = "compare two recordings of a program: what grew, and where",
	.args = "A B",
	.about = "Compares what was in memory in two PyTorch memory snapshots of the same "
		 "program: before and after a change of batch, library or code.  A change is B's "
		 "size minus A's.\n\n"
		 "The same stack with other sizes is one row.  Places are matched when lines were "
		 "moved by edits and when the program is in another folder; a row shows how it "
		 "was matched where that is not exact.  Rows, the rest and what is "
		 "unchanged add up to the total.",
	.examples = diff_examples,
	.opts = diff_opt,
	.opts_size = sizeof(struct diff_opts),
	.min_args = 2,
	.max_args = 2,
	.run = diff_run,
};
