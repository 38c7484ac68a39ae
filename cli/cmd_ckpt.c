/* plimsoll ckpt: the commands about checkpoints. */
#define CKPT_DIFF_AT offsetof(struct ckpt_opts, diff)
#define CKPT_LAST_AT offsetof(struct ckpt_opts, last)

#include "cmd.h"
#include "option_rows.h"
#include "output.h"
#include "progress.h"

#include <plimsoll/ckpt.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct ckpt_opts {
	struct plim_ckpt_options options; /* first, where the rows of its members store */
	struct plim_ckpt_diff_options diff;
	struct plim_ckpt_last_options last;
	bool json, no_color, tensors, no_manifest, quiet;
	bool silent; /* the page goes where the text would */
	const char *keys, *only, *output, *config, *allow_file;
	uint64_t width;
	struct opt_list allow;
};

#define OPT_ALLOW                                                                \
	OPT_LIST('a', "allow", ckpt_opts, allow, "NAME",                         \
		 "allow this class in pickles; mine.* allows all below mine"),   \
		OPT_STRING(0, "allow-file", ckpt_opts, allow_file, "FILE", NULL, \
			   "a file of such classes, one per line")

#define OPT_LOOK(names)                                                 \
	OPT_HEADING("How to show it"),                                  \
		OPT_FLAG('j', "json", ckpt_opts, json,                  \
			 "print JSON (schema ckpt/3) instead of text"), \
		names, OPT_STYLE(ckpt_opts), OPT_HEADING("Limits"), CKPT_LIMITS_OPTIONS

static const struct opt verify_opt[] = { CKPT_NUMBERS_OPTIONS,
					 OPT_ALLOW,
					 OPT_FLAG('q', "quiet", ckpt_opts, quiet,
						  "one line a path"),
					 CKPT_READING_OPTIONS,
					 OPT_LOOK(CKPT_NAMES_OPTIONS),
					 OPT_END };

#define OPT_PAGE                                                   \
	OPT_STRING('o', "output", ckpt_opts, output, "FILE", NULL, \
		   "write FILE.html, one page that shows it in a browser")

static const struct opt show_opt[] = { OPT_FLAG('t', "tensors", ckpt_opts, tensors,
						"list every tensor"),
				       OPT_PAGE, OPT_ALLOW, OPT_LOOK(CKPT_NAMES_OPTIONS), OPT_END };

#define ALLOW_BYTES ((size_t)1 << 20) /* of a list */

static int read_list(const char *path, char *text)
{
	FILE *f = fopen(path, "rbe");
	size_t n;

	if (!f) {
		cmd_say("cannot open '%s': %s", path, strerror(errno));
		return CMD_INPUT;
	}
	n = fread(text, 1, ALLOW_BYTES, f);
	fclose(f);
	text[n == ALLOW_BYTES ? 0 : n] = 0;
	if (strlen(text) == n)
		return CMD_DONE;
	cmd_say("'%s' is not a list of names, one per line", path);
	return CMD_INPUT;
}

/* --allow and --allow-file as one list; freed by the caller in every case. */
static int allowed(const struct ckpt_opts *o, char **list)
{
	size_t size = o->allow_file ? ALLOW_BYTES + 2 : 2, n = 0;
	int code = CMD_DONE;

	for (size_t i = 0; i < o->allow.n; i++)
		size += strlen(o->allow.at[i]) + 1;
	*list = calloc(size, 1);
	if (!*list) {
		cmd_say("out of memory");
		return CMD_MACHINE;
	}
	if (o->allow_file)
		code = read_list(o->allow_file, *list);
	n = strlen(*list);
	for (size_t i = 0; i < o->allow.n; i++)
		n += (size_t)snprintf(*list + n, size - n, "\n%s", o->allow.at[i]);
	return code;
}

/* ---- the page: what is printed, as text and as JSON, which the viewer draws ---- */

static int page_written(const struct ckpt_opts *o, struct cmd_answer *answer, enum plim_status st,
			struct plim_err *err)
{
	struct plim_page *page = NULL;

	if (!st)
		st = cmd_page_new(o->options.max_memory_bytes, &page, err);
	st = cmd_answer_end(answer, page, st, err);
	if (!st)
		st = cmd_page_end(page, o->output, err);
	else
		plim_page_free(page);
	return st ? cmd_fail(err) : CMD_DONE;
}

static int page_of_one(const struct ckpt_opts *o, const struct plim_ckpt *c)
{
	struct plim_text_style style = cmd_answer_style();
	struct cmd_answer answer = { 0 };
	struct plim_err err;
	enum plim_status st =
		plim_ckpt_text(c, PLIM_CKPT_TEXT_SHOW, &style, cmd_collect, &answer.text, &err);

	if (!st)
		st = plim_ckpt_json(c, cmd_collect, &answer.json, &err);
	return page_written(o, &answer, st, &err);
}

static int page_of_diff(const struct ckpt_opts *o, const struct plim_ckpt_diff *d)
{
	struct plim_text_style style = cmd_answer_style();
	struct cmd_answer answer = { 0 };
	struct plim_err err;
	enum plim_status st = plim_ckpt_diff_text(d, &style, cmd_collect, &answer.text, &err);

	if (!st)
		st = plim_ckpt_diff_json(d, cmd_collect, &answer.json, &err);
	return page_written(o, &answer, st, &err);
}

/* Runs a command that writes a page where one is asked for. */
static int with_page(const struct ckpt_opts *given, int argc, char **argv,
		     int (*run)(const struct ckpt_opts *o, int argc, char **argv))
{
	static const char *const pages[] = { ".html", ".htm", NULL };
	struct ckpt_opts o = *given;
	struct output out;
	int code;

	if (!o.output)
		return run(&o, argc, argv);
	code = cmd_output_begin(&out, o.output, pages, argv, argc);
	if (code != CMD_DONE)
		return code;
	o.silent = cmd_output_is_stdout(&out);
	o.output = out.path;
	return cmd_output_end(&out, run(&o, argc, argv));
}

static int ckpt_one(const struct ckpt_opts *o, const char *path, const char *allow, unsigned flags,
		    enum plim_ckpt_text what)
{
	struct plim_ckpt_options options = o->options;
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	struct plim_ckpt *c;
	struct plim_err err;
	int code;

	options.size = sizeof(options);
	options.flags |= flags;
	options.allow = allow;
	if (plim_ckpt_open(path, &options, &c, &err))
		return cmd_fail(&err);
	code = c->verdict >= PLIM_CKPT_DAMAGED ? CMD_FAILED : CMD_DONE;
	if (c->verdict == PLIM_CKPT_NOT_A_CHECKPOINT)
		cmd_say_else(path, "ckpt verify", c->headline);
	if (!o->silent && (o->json ? plim_ckpt_json(c, cmd_to_stdout, NULL, &err)
				   : plim_ckpt_text(c, what, &style, cmd_to_stdout, NULL, &err)))
		code = cmd_fail(&err);
	if (o->output && code <= CMD_FAILED) {
		int page = page_of_one(o, c);

		code = page > code ? page : code;
	}
	plim_ckpt_free(c);
	return code;
}

/* A checkpoint is read at many places. */
static int take_stdin(char **path)
{
	static char file[] = "/dev/stdin";
	int code = strcmp(*path, "-") ? CMD_DONE : cmd_spool_stdin();

	if (!strcmp(*path, "-"))
		*path = file;
	return code;
}

static int each(const struct ckpt_opts *o, int argc, char **argv, unsigned flags,
		enum plim_ckpt_text what)
{
	char *allow;
	int worst = allowed(o, &allow);

	if (worst)
		argc = 0;
	for (int i = 0; i < argc; i++) {
		int code = take_stdin(&argv[i]);

		code = code ? code : ckpt_one(o, argv[i], allow, flags, what);
		worst = code > worst ? code : worst;
	}
	free(allow);
	return worst;
}

static int verify_run(const void *values, int argc, char **argv)
{
	const struct ckpt_opts *o = values;

	return each(o, argc, argv, PLIM_CKPT_VERIFY,
		    o->quiet ? PLIM_CKPT_TEXT_LINE : PLIM_CKPT_TEXT_VERIFY);
}

static int show_all(const struct ckpt_opts *o, int argc, char **argv)
{
	return each(o, argc, argv, 0, o->tensors ? PLIM_CKPT_TEXT_TENSORS : PLIM_CKPT_TEXT_SHOW);
}

static int show_run(const void *values, int argc, char **argv)
{
	const struct ckpt_opts *o = values;

	if (o->output && argc != 1)
		return cmd_usage("a page shows one checkpoint");
	return with_page(o, argc, argv, show_all);
}

static const struct cmd_example verify_examples[] = {
	{ "plimsoll ckpt verify last.pt && python train.py --resume last.pt",
	  "do not lose a night to a damaged file" },
	{ "plimsoll ckpt verify last.pt --require model_state_dict,optimizer_state_dict,epoch",
	  "is everything there that the resume reads?" },
	{ "plimsoll ckpt verify out/checkpoint-500 --values", "a folder, and NaN in it" },
	{ NULL, NULL },
};

static const struct cmd ckpt_verify = {
	.name = "ckpt verify",
	.summary = "is it whole: structure, checksums, shards, keys, pickle",
	.args = "PATH...",
	.about =
		"Reads files of torch.save (zip and legacy), safetensors, GGUF, and folders: "
		"shards "
		"with their "
		"index, Hugging Face, PEFT, DeepSpeed, Megatron, torch.distributed.checkpoint.  "
		"Every record is "
		"compared with "
		"its checksum, which torch.load does not do; what has no checksum is said.  "
		"Nothing in a "
		"pickle is run: its names are compared with what torch.load(weights_only=True) "
		"allows and with classes that are known to hold data.\n\n"
		"WHOLE and UNPROVEN (some bytes have no checksum) are said of bytes, PLAIN and "
		"LISTED (names that were reviewed) of code.  UNKNOWN CODE: a pickle names what is "
		"on no list; the lines for --allow are printed.  DANGEROUS: it names what runs "
		"code.\n\n"
		"Exits with 1 for damage, a cut file, a missing key, unknown or dangerous code, or "
		"a file that is not a checkpoint.",
	.examples = verify_examples,
	.opts = verify_opt,
	.opts_size = sizeof(struct ckpt_opts),
	.min_args = 1,
	.max_args = -1,
	.run = verify_run,
};

static const struct cmd_example show_examples[] = {
	{ "plimsoll ckpt show model.safetensors", "tensors by prefix, dtype, size" },
	{ "plimsoll ckpt show last.pt --tensors", "and every tensor" },
	{ "plimsoll ckpt show last.pt -o page.html", "as a tree by size, dtype or shard" },
	{ NULL, NULL },
};

static const struct cmd ckpt_show = {
	.name = "ckpt show",
	.summary = "what is in it: tensors, training state, optimizer, architecture",
	.args = "PATH...",
	.about = "Reads the structure only, not the numbers: quick on a file of any size.",
	.examples = show_examples,
	.opts = show_opt,
	.opts_size = sizeof(struct ckpt_opts),
	.min_args = 1,
	.max_args = -1,
	.run = show_run,
};

static const struct opt diff_opt[] = {
	CKPT_DIFF_NUMBERS_OPTIONS,
	OPT_STRING('c', "config", ckpt_opts, config, "config.json", NULL,
		   "in place of SECOND: would FIRST load into the model of this config.json?"),
	OPT_REFUSED("model", "give a model as --config config.json"),
	OPT_PAGE,
	OPT_LOOK(CKPT_DIFF_NAMES_OPTIONS),
	OPT_END
};

static int diff_two(const struct ckpt_opts *o, const struct plim_ckpt *a, const struct plim_ckpt *b)
{
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	struct plim_ckpt_diff_options options = o->diff;
	struct plim_ckpt_diff *d;
	struct plim_err err;
	int code;

	options.size = sizeof(options);
	if (plim_ckpt_diff(a, b, &options, &d, &err))
		return cmd_fail(&err);
	code = d->against_config ? d->loads == PLIM_TRI_NO
				 : !d->same || (options.flags & PLIM_CKPT_VALUES &&
						(d->changed || d->not_compared));
	code = code ? CMD_FAILED : CMD_DONE;
	if (!o->silent && (o->json ? plim_ckpt_diff_json(d, cmd_to_stdout, NULL, &err)
				   : plim_ckpt_diff_text(d, &style, cmd_to_stdout, NULL, &err)))
		code = cmd_fail(&err);
	if (o->output && code <= CMD_FAILED) {
		int page = page_of_diff(o, d);

		code = page > code ? page : code;
	}
	plim_ckpt_diff_free(d);
	return code;
}

/* A checkpoint to compare; what holds no tensors because it is damaged is not a side of a comparison. */
static int open_side(const struct ckpt_opts *o, const char *path, struct plim_ckpt **side)
{
	struct plim_ckpt_options options = o->options;
	struct plim_err err;

	options.size = sizeof(options);
	options.flags = o->diff.flags & PLIM_CKPT_REDACT;
	if (plim_ckpt_open(path, &options, side, &err))
		return cmd_fail(&err);
	if ((*side)->tensor_count || (*side)->verdict < PLIM_CKPT_DAMAGED)
		return CMD_DONE;
	cmd_say("%s: %s", (*side)->path, (*side)->headline);
	cmd_say_else(path, "ckpt verify", (*side)->headline);
	return CMD_INPUT;
}

static int diff_opened(const struct ckpt_opts *o, int argc, char **argv)
{
	struct plim_ckpt *side[2] = { NULL, NULL };
	struct plim_err err;
	int code = CMD_DONE;

	for (int i = 0; i < argc && !code; i++) {
		code = take_stdin(&argv[i]);
		code = code ? code : open_side(o, argv[i], &side[i]);
	}
	if (!code && o->config && plim_ckpt_open_config(o->config, &side[1], &err))
		code = cmd_fail(&err);
	if (!code)
		code = diff_two(o, side[0], side[1]);
	plim_ckpt_free(side[0]);
	plim_ckpt_free(side[1]);
	return code;
}

static int diff_run(const void *values, int argc, char **argv)
{
	const struct ckpt_opts *o = values;

	if (o->config ? argc != 1 || o->diff.flags & PLIM_CKPT_VALUES : argc != 2)
		return cmd_usage(
			o->config ? "with --config one checkpoint is compared, without --values"
				  : "two checkpoints are compared, or one with --config");
	return with_page(o, argc, argv, diff_opened);
}

static const struct cmd_example diff_examples[] = {
	{ "plimsoll ckpt diff mine.pt theirs.safetensors", "why it does not load" },
	{ "plimsoll ckpt diff fp32.pt bf16.pt --values", "how much the conversion cost" },
	{ "plimsoll ckpt diff last.pt --config config.json", "would it load, and if not why" },
	{ "plimsoll ckpt diff a.pt b.pt -o page.html", "side by side, in a browser" },
	{ NULL, NULL },
};

static const struct cmd ckpt_diff = {
	.name = "ckpt diff",
	.summary = "how two checkpoints differ, and what kind of difference it is",
	.args = "FIRST [SECOND]",
	.about = "Names the kind of difference before the list: a prefix that a wrapper put before "
		 "names, a "
		 "rename, another width, depth or vocabulary, dtype only, a missing head, tied "
		 "weights, LoRA on "
		 "one side.\n\n--config takes the tensors that a Hugging Face config.json promises "
		 "(Llama and its family, "
		 "GPT-2, BERT) in place of the second; of another model only depth, width and "
		 "vocabulary are "
		 "looked at, and that is said.\n\nExits with 1 when something differs, or when it "
		 "would not load.",
	.examples = diff_examples,
	.opts = diff_opt,
	.opts_size = sizeof(struct ckpt_opts),
	.min_args = 1,
	.max_args = 2,
	.run = diff_run,
};

/* The new file is an option everywhere, so that no command writes over its second input. */
#define TO_OUTPUT "name the new file with -o FILE"

#define OPT_OUTPUT                                                                              \
	OPT_STRING('o', "output", ckpt_opts, output, "FILE", NULL,                              \
		   "the new file: .safetensors, or .pt, .pth, .bin or .ckpt for torch.load; - " \
		   "is the standard output"),                                                   \
		OPT_FLAG(0, "no-manifest", ckpt_opts, no_manifest,                              \
			 "write no FILE.manifest.json with its size and sum"),                  \
		CKPT_LIMITS_OPTIONS

static const struct opt extract_opt[] = { OPT_STRING('k', "keys", ckpt_opts, keys, "PATTERN|...",
						     NULL,
						     "names of tensors, * and ? as in a shell"),
					  OPT_OUTPUT, OPT_REFUSED("to", TO_OUTPUT), OPT_END };
static const struct opt convert_opt[] = {
	OPT_STRING(0, "only", ckpt_opts, only, "NAME", NULL,
		   "only the tensors below NAME (model, ema), without NAME in front"),
	OPT_OUTPUT, OPT_REFUSED("to", TO_OUTPUT), OPT_END
};
static const struct opt repair_opt[] = { OPT_OUTPUT, OPT_REFUSED("to", TO_OUTPUT), OPT_END };

/* The ending shows the format; the first is that of a pipe. */
static const char *const endings[] = { ".safetensors", ".pt", ".pth", ".bin", ".ckpt", NULL };

static unsigned format_of(const char *path)
{
	size_t n = strlen(path), k = strlen(endings[0]);

	return n >= k && !strcmp(path + n - k, endings[0]) ? 0 : PLIM_CKPT_AS_TORCH;
}

static void tell_written(const struct output *to, const struct plim_ckpt *c,
			 const struct plim_ckpt_extracted *told)
{
	size_t i = 0;

	cmd_progress_end();
	fprintf(cmd_output_is_stdout(to) ? stderr : stdout,
		"%s: %llu tensor%s, %llu bytes%s, xxh3 %016llx\n",
		to->fd < 0 ? to->given : cmd_output_name(to->path),
		(unsigned long long)told->tensors, told->tensors == 1 ? "" : "s",
		(unsigned long long)told->bytes, told->state ? ", and the training state" : "",
		(unsigned long long)told->xxh3);
	while (i < c->tensor_count && c->tensors[i].whole)
		i++;
	if (told->left_out && i < c->tensor_count)
		cmd_say("%llu not whole and left out, %s'%s'", (unsigned long long)told->left_out,
			told->left_out > 1 ? "the first is " : "", c->tensors[i].name);
	else if (told->left_out)
		cmd_say("%llu left out: the new file's format cannot carry them",
			(unsigned long long)told->left_out);
	if (*told->left_behind)
		cmd_say("wrote only the tensors, not the rest of the file: %s", told->left_behind);
}

/* What of the file was written, if not all of it, and how to have the rest. */
static void tell_part(const struct ckpt_opts *o, const char *path,
		      const struct plim_ckpt_extracted *told)
{
	unsigned long long n = told->tensors, rest = told->passed_over;
	int bare = *told->below ? (int)strlen(told->below) - 1 : 0;
	char others[400] = "";

	if (o->only)
		return;
	if (rest)
		snprintf(others, sizeof(others),
			 "; all of them: plimsoll ckpt extract %.200s --keys '*' -o FILE", path);
	if (*told->parts)
		cmd_say("no model loads names that begin with a key of the file (%s); the weights "
			"alone: plimsoll ckpt convert %.200s --only %.*s -o FILE",
			told->parts, path, (int)strcspn(told->parts, ","), told->parts);
	else if (bare && rest)
		cmd_say("wrote the %llu tensor%s below '%.*s', without '%s' in their names, and "
			"not the other %llu%s",
			n, n == 1 ? "" : "s", bare, told->below, told->below, rest, others);
	else if (bare)
		cmd_say("names are those below '%.*s', without '%s'", bare, told->below,
			told->below);
	else if (rest)
		cmd_say("wrote the %llu tensor%s of the weights, and not the other %llu%s", n,
			n == 1 ? "" : "s", rest, others);
}

static int write_to(const struct ckpt_opts *o, const char *path, const char *patterns,
		    unsigned flags, const struct output *to)
{
	struct plim_ckpt_options options = o->options;
	struct plim_ckpt_extracted told;
	struct plim_ckpt *c;
	struct plim_err err;
	int code = CMD_DONE;

	options.size = sizeof(options);
	options.flags = PLIM_CKPT_VERIFY;
	if (plim_ckpt_open(path, &options, &c, &err))
		return cmd_fail(&err);
	/* Tensors that are whole may be taken from a file that is not, but no one should miss that. */
	if (c->verdict >= PLIM_CKPT_DAMAGED)
		cmd_say("%s: %s", path, c->headline);
	if (plim_ckpt_extract(c, patterns, flags, to->path, &told, &err))
		code = cmd_fail(&err);
	else
		tell_written(to, c, &told);
	if (!code)
		tell_part(o, path, &told);
	plim_ckpt_free(c);
	return code;
}

/* A file that is there, in the folder that is read, or below it: it is one of those that are read. */
static bool is_inside(const char *file, const char *folder)
{
	char at[PATH_MAX], top[PATH_MAX];
	size_t n;

	if (!realpath(file, at) || !realpath(folder, top))
		return false;
	n = strlen(top);
	return !strncmp(at, top, n) && at[n] == '/';
}

static int write_run(const struct ckpt_opts *o, int argc, char *const *path, const char *patterns,
		     unsigned flags)
{
	struct output to;
	int code;

	if (argc > 1)
		return cmd_usage("give one checkpoint, and name the new file with -o %.200s",
				 path[1]);
	if (!o->output)
		return cmd_usage("name the file to write: --output FILE.safetensors or FILE.pt");
	code = cmd_output_begin(&to, o->output, endings, path, 1);
	if (code)
		return code;
	if (to.fd < 0 && is_inside(to.path, *path))
		return cmd_usage("--output '%.200s' is a file of the input", o->output);
	/* a manifest is for a file with a name */
	flags |= format_of(to.path) | (o->no_manifest || to.fd >= 0 ? PLIM_CKPT_NO_MANIFEST : 0);
	return cmd_output_end(&to, write_to(o, *path, patterns, flags, &to));
}

static int extract_run(const void *values, int argc, char **argv)
{
	const struct ckpt_opts *o = values;

	if (!o->keys)
		return cmd_usage("name the tensors: --keys 'lm_head.*|*lora_*'");
	return write_run(o, argc, argv, o->keys, 0);
}

static int convert_run(const void *values, int argc, char **argv)
{
	const struct ckpt_opts *o = values;

	return write_run(o, argc, argv, o->only ? o->only : "*",
			 PLIM_CKPT_ALL | (o->only ? PLIM_CKPT_BELOW : PLIM_CKPT_WEIGHTS));
}

static int repair_run(const void *values, int argc, char **argv)
{
	return write_run(values, argc, argv, "*", PLIM_CKPT_WHOLE_ONLY | PLIM_CKPT_ALL);
}

static const struct cmd_example extract_examples[] = {
	{ "plimsoll ckpt extract last.pt --keys 'arr_coc.*|*lora_*' -o part.safetensors",
	  "components out of a big file" },
	{ NULL, NULL },
};

#define WRITES                                                                                    \
	"  The file is written next to its name, synced, read back, compared, and then renamed: " \
	"after a crash the old file or the whole new one is there, never a part."

static const struct cmd ckpt_extract = {
	.name = "ckpt extract",
	.summary = "tensors out of a big file, streaming",
	.args = "PATH",
	.about = "Writes tensors by name to a new file, bytes exact." WRITES,
	.examples = extract_examples,
	.opts = extract_opt,
	.opts_size = sizeof(struct ckpt_opts),
	.min_args = 1,
	.max_args = 2, /* the second is refused with the option for it */
	.run = extract_run,
};

static const struct cmd_example convert_examples[] = {
	{ "plimsoll ckpt convert last.pt -o last.safetensors",
	  "without Python, and without running the pickle" },
	{ "plimsoll ckpt convert last.pt --only ema -o ema.safetensors", "one of two models" },
	{ "plimsoll ckpt convert model.safetensors -o model.pt", "for torch.load" },
	{ NULL, NULL },
};

static const struct cmd ckpt_convert = {
	.name = "ckpt convert",
	.summary = "between torch.save's format and safetensors, bytes exact",
	.args = "PATH",
	.about =
		"Reads whatever ckpt verify reads and writes its tensors, by their names; "
		"the ending of the new file shows the format.\n\n"
		"From torch to torch all is kept.  Safetensors holds tensors only, and names as "
		"a model has them: of a file with one mapping of weights ({\"model\": ..., "
		"\"optimizer\": ...}) the weights are written, without 'model.' in front, and of a "
		"folder its files of weights; a line says what was not written.  --only takes "
		"another mapping.\n\n"
		"A tensor that the format cannot carry is an error that names it, and so is a "
		"folder of files that are not one checkpoint." WRITES,
	.examples = convert_examples,
	.opts = convert_opt,
	.opts_size = sizeof(struct ckpt_opts),
	.min_args = 1,
	.max_args = 2, /* the second is refused with the option for it */
	.run = convert_run,
};

static const struct cmd ckpt_repair = {
	.name = "ckpt repair",
	.summary = "save the whole tensors of a cut or damaged file in a new file",
	.args = "PATH",
	.about = "Writes every tensor whose bytes are all there and match their checksum to a new "
		 "file, and shows how many are not." WRITES,
	.opts = repair_opt,
	.opts_size = sizeof(struct ckpt_opts),
	.min_args = 1,
	.max_args = 2, /* the second is refused with the option for it */
	.run = repair_run,
};

static const struct opt seal_opt[] = { CKPT_LIMITS_OPTIONS, OPT_END };

static int seal_run(const void *values, int argc, char **argv)
{
	const struct ckpt_opts *o = values;
	struct plim_ckpt_options options = o->options;
	int worst = CMD_DONE;

	options.size = sizeof(options);
	options.flags = PLIM_CKPT_VERIFY;
	for (int i = 0; i < argc; i++) {
		struct plim_ckpt_sealed told;
		struct plim_ckpt *c = NULL;
		struct plim_err err;
		int code = CMD_DONE;

		if (plim_ckpt_open(argv[i], &options, &c, &err)) {
			code = cmd_fail(&err);
		} else if (c->integrity >= PLIM_CKPT_DAMAGED || c->verdict == PLIM_CKPT_DANGEROUS) {
			cmd_say("%s: not sealed: %s", argv[i], c->headline);
			code = CMD_FAILED;
		} else if (plim_ckpt_seal(c, &told, &err)) {
			code = cmd_fail(&err);
		} else {
			cmd_print("%s: %llu %s, %llu bytes\n", argv[i],
				  (unsigned long long)told.files,
				  told.files == 1 ? "file" : "files",
				  (unsigned long long)told.bytes);
		}
		plim_ckpt_free(c);
		worst = code > worst ? code : worst;
	}
	return worst;
}

static const struct cmd_example seal_examples[] = {
	{ "plimsoll ckpt seal model.safetensors", "after this, ckpt verify finds a changed bit" },
	{ NULL, NULL },
};

static const struct cmd ckpt_seal = {
	.name = "ckpt seal",
	.summary = "write a manifest, so that verify can prove every byte",
	.args = "PATH...",
	.about = "Verifies, then writes the sizes and XXH3 sums of the file, or of all files of "
		 "the folder, to "
		 "FILE.manifest.json or FOLDER/plimsoll.manifest.json.  ckpt verify compares with "
		 "it.  It finds "
		 "accidents, not forgery.",
	.examples = seal_examples,
	.opts = seal_opt,
	.opts_size = sizeof(struct ckpt_opts),
	.min_args = 1,
	.max_args = -1,
	.run = seal_run,
};

static const struct opt last_opt[] = {
	CKPT_LAST_KEEP_OPTIONS, OPT_ALLOW,
	OPT_FLAG('j', "json", ckpt_opts, json,
		 "print JSON (schema ckpt_last/2) instead of the path"),
	CKPT_LAST_READING_OPTIONS, OPT_END
};

/* The path for scripts on stdout; what happened for people on stderr. */
static void tell_last(const struct plim_ckpt_last *l, bool redacted)
{
	for (size_t i = 0; i < l->candidate_count; i++) {
		const struct plim_ckpt_candidate *c = &l->candidates[i];

		if (strcmp(c->fate, "kept") != 0)
			cmd_say("%s: %s", c->name,
				strcmp(c->fate, "removed") ? "would be removed" : "removed");
		else if (c->verdict && !c->good)
			cmd_say("%s: %s: %s", c->name, c->verdict, c->headline);
	}
	if (l->last_good)
		cmd_print("%s\n", l->last_good);
	else if (l->candidate_count || !cmd_say_else(l->folder, "ckpt last-good", ""))
		cmd_say("%s: none of %zu checkpoint%s is good", l->folder, l->candidate_count,
			l->candidate_count == 1 ? "" : "s");
	if (redacted)
		cmd_say("redacted, except for numbers and for words that occur in public "
			"checkpoints");
}

static int last_run(const void *values, int argc, char **argv)
{
	const struct ckpt_opts *o = values;
	struct plim_ckpt_last_options options = o->last;
	struct plim_ckpt_last *l;
	struct plim_err err;
	char *allow;
	int code;

	(void)argc;
	if (options.flags & PLIM_CKPT_DRY_RUN && !options.keep)
		return cmd_usage("--dry-run is only for --keep");
	code = allowed(o, &allow);
	options.size = sizeof(options);
	options.allow = allow;
	if (!code && plim_ckpt_last_good(argv[0], &options, &l, &err)) {
		code = cmd_fail(&err);
		cmd_say_else(argv[0], "ckpt last-good", err.message);
	}
	free(allow);
	if (code)
		return code;
	code = l->last_good ? CMD_DONE : CMD_FAILED;
	if (!o->json)
		tell_last(l, options.flags & PLIM_CKPT_REDACT);
	else if (plim_ckpt_last_json(l, cmd_to_stdout, NULL, &err))
		code = cmd_fail(&err);
	plim_ckpt_last_free(l);
	return code;
}

static const struct cmd_example last_examples[] = {
	{ "python train.py --resume \"$(plimsoll ckpt last-good out)\"",
	  "never from a damaged one" },
	{ "plimsoll ckpt last-good out --keep 3 --dry-run", "what would be removed?" },
	{ NULL, NULL },
};

static const struct cmd ckpt_last = {
	.name = "ckpt last-good",
	.summary = "print the newest whole checkpoint of a folder",
	.args = "FOLDER",
	.about = "Verifies the checkpoints in a folder, files or folders, newest first, until one "
		 "is good, and prints its "
		 "path.  Names that differ in numbers only are ordered by them, by the number "
		 "behind step or epoch "
		 "first; others by their time.\n\n--keep N removes what is older than the N newest "
		 "good ones of the newest numbered series "
		 "(step_100.pt, step_200.pt); files of other names are left alone.  It never "
		 "removes the best: one "
		 "that is called so, that has the best measure in its name (val_loss=0.12), that a "
		 "link points to, "
		 "or that trainer_state.json names.  While fewer than N are good it removes "
		 "nothing.\n\nExits with 1 when none is good.",
	.examples = last_examples,
	.opts = last_opt,
	.opts_size = sizeof(struct ckpt_opts),
	.min_args = 1,
	.max_args = 1,
	.run = last_run,
};

static const struct cmd *const verbs[] = { &ckpt_verify,  &ckpt_show,    &ckpt_diff,
					   &ckpt_extract, &ckpt_convert, &ckpt_repair,
					   &ckpt_seal,    &ckpt_last,    NULL };

static const struct cmd_word words[] = { { "check", "verify" },     { "scan", "verify" },
					 { "validate", "verify" },  { "test", "verify" },
					 { "inspect", "show" },     { "info", "show" },
					 { "ls", "show" },          { "list", "show" },
					 { "compare", "diff" },     { "export", "convert" },
					 { "fix", "repair" },       { "sign", "seal" },
					 { "latest", "last-good" }, { NULL, NULL } };

const struct cmd cmd_ckpt = {
	.name = "ckpt",
	.summary = "checkpoints: is one whole, what is in it, would it load; nothing in it is run",
	.args = "COMMAND",
	.about = "Shows whether a checkpoint is whole and what it holds, without running anything "
		 "in it.  For a file: plimsoll ckpt verify FILE.",
	.verbs = verbs,
	.words = words,
	.file_verb = "verify",
};
