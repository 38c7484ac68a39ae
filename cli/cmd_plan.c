/* plimsoll plan: options, a call of the public API, an exit code. */
#include "cmd.h"
#include "hints.h"
#include "option_rows.h"
#include "output.h"

#include <plimsoll/plan.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plan_opts {
	struct plim_plan_options options; /* first, where the rows of its members store */
	bool quiet;                       /* what is written goes where the text would */
	bool trace, json, no_color;
	const char *output;
	uint64_t width;
};
_Static_assert(offsetof(struct plan_opts, options) == 0, "rows store at offsets in the options");

#define CHANGES_NOTHING "it does not change memory: leave it out"
#define MODEL_GIVEN "a model is given without an option: plimsoll plan FOLDER or config.json"
#define PACKED                                                                          \
	"rows are planned as long as --seq, as packed ones are: leave it out; without " \
	"FlashAttention they have a mask: --padded"
#define ADAPTERS "adapters are --lora RANK, with --lora-targets"
#define MACHINES "--gpus is the number of GPUs on all machines"
#define COPIES "copies are what --tp and --pp leave of all GPUs: --gpus 8 --tp 2 has 4 of them"
#define GLOBAL_BATCH                                                                              \
	"--batch is what a GPU has at a time, --accumulate how often a step does so, --gpus how " \
	"many GPUs do: a global batch is their product"
#define SEVERAL_MODELS                                                                        \
	"training by preferences or rewards has models and passes of its own, which are not " \
	"planned: trace the script with plan -- python train.py"
#define UNSLOTH                                                                                 \
	"Unsloth's kernels are not planned: leave it out to plan Transformers' modules, which " \
	"need more"
#define COMPILED                                                                                 \
	"torch.compile is not planned: leave it out to plan the eager run, or trace the script " \
	"with plan -- python train.py"
#define CACHED "keys and values are planned in 16 bits alone: --cache dynamic or static"
#define CONTEXT_PARALLEL                                                                         \
	"context parallelism is not planned: --tp with --sequence-parallel is, and a script is " \
	"traced with plan -- python train.py"
#define EXPERT_PARALLEL                                                                   \
	"expert parallelism is not planned: --parallel fsdp2 shares experts out, as all " \
	"weights"

static const struct opt plan_opt[] = {
	PLAN_RUN_OPTIONS,
	OPT_FLAG(0, "trace", plan_opts, trace,
		 "PyTorch itself runs the model on fake tensors, without weights or a GPU: a "
		 "config.json of any architecture, timm/NAME, or MODULE:FUNCTION; a command "
		 "behind -- is traced as well"),
	OPT_HEADING("Where the run will be"),
	PLAN_WHERE_OPTIONS,
	OPT_HEADING("What is kept in host memory"),
	PLAN_HOST_OPTIONS,
	OPT_HEADING("A model by numbers, without a file"),
	PLAN_NUMBERS_OPTIONS,
	OPT_HEADING("How to show it"),
	OPT_FLAG('j', "json", plan_opts, json, "print JSON (schema plan/2) instead of text"),
	PLAN_REDACT_OPTIONS,
	OPT_STRING('o', "output", plan_opts, output, "FILE", NULL,
		   "also write the plan as a recording: FILE.html, a page, or "
		   "FILE.pickle, a "
		   "snapshot for plimsoll diff and PyTorch's viewer"),
	OPT_STYLE(plan_opts),
	PLAN_LIMITS_OPTIONS,
	PLAN_ALIASES,
	OPT_REFUSED("model", MODEL_GIVEN),
	OPT_REFUSED("model-name-or-path", MODEL_GIVEN),
	OPT_REFUSED("config", MODEL_GIVEN),
	OPT_REFUSED("qlora", "QLoRA is --lora RANK with --quantize nf4 (or nf4-double)"),
	OPT_REFUSED("use-peft", ADAPTERS),
	OPT_REFUSED("use-lora", ADAPTERS),
	OPT_REFUSED("lora-enable", ADAPTERS),
	OPT_REFUSED("bnb-4bit-quant-type", CHANGES_NOTHING),
	OPT_REFUSED("rank", "the rank of adapters is --lora RANK"),
	OPT_REFUSED("peft", ADAPTERS),
	OPT_REFUSED("adapter", ADAPTERS),
	OPT_REFUSED("finetuning-type", "adapters are --lora RANK; without it all weights train"),
	OPT_REFUSED("lora-alpha", CHANGES_NOTHING),
	OPT_REFUSED("learning-rate", CHANGES_NOTHING),
	OPT_REFUSED("lr", CHANGES_NOTHING),
	OPT_REFUSED("epochs", CHANGES_NOTHING),
	OPT_REFUSED("num-train-epochs", CHANGES_NOTHING),
	OPT_REFUSED("max-steps", CHANGES_NOTHING),
	OPT_REFUSED("warmup-ratio", CHANGES_NOTHING),
	OPT_REFUSED("warmup-steps", CHANGES_NOTHING),
	OPT_REFUSED("lr-scheduler-type", CHANGES_NOTHING),
	OPT_REFUSED("weight-decay", CHANGES_NOTHING),
	OPT_REFUSED("logging-steps", CHANGES_NOTHING),
	OPT_REFUSED("save-steps", CHANGES_NOTHING),
	OPT_REFUSED("output-dir", CHANGES_NOTHING),
	OPT_REFUSED("do-train", CHANGES_NOTHING),
	OPT_REFUSED("packing", PACKED),
	OPT_REFUSED("sample-packing", PACKED),
	OPT_REFUSED("neftune-noise-alpha", "noise in the embeddings is not planned: trace a script "
					   "that adds it with plan -- python train.py"),
	OPT_REFUSED("gpu-memory-utilization",
		    "give a server's share of the GPU as --memory: 0.9 of 80GiB is 72GiB"),
	OPT_REFUSED("torch-compile", COMPILED),
	OPT_REFUSED("compile", COMPILED),
	OPT_REFUSED("cuda-graphs", COMPILED),
	OPT_REFUSED("dp", COPIES),
	OPT_REFUSED("data-parallel", COPIES),
	OPT_REFUSED("data-parallel-size", COPIES),
	OPT_REFUSED("nnodes", MACHINES),
	OPT_REFUSED("nodes", MACHINES),
	OPT_REFUSED("num-nodes", MACHINES),
	OPT_REFUSED("fsdp-version", "--parallel fsdp1 or fsdp2"),
	OPT_REFUSED("global-batch-size", GLOBAL_BATCH),
	OPT_REFUSED("train-batch-size", GLOBAL_BATCH),
	OPT_REFUSED("offload",
		    "--offload-optimizer, --offload-params or --offload-activations says "
		    "what waits in host memory"),
	OPT_REFUSED("dpo", SEVERAL_MODELS),
	OPT_REFUSED("grpo", SEVERAL_MODELS),
	OPT_REFUSED("ppo", SEVERAL_MODELS),
	OPT_REFUSED("rlhf", SEVERAL_MODELS),
	OPT_REFUSED("serve", "requests are planned as --task generate, with --batch, --seq and "
			     "--new-tokens"),
	OPT_REFUSED("cp", CONTEXT_PARALLEL),
	OPT_REFUSED("sp", CONTEXT_PARALLEL),
	OPT_REFUSED("ulysses", CONTEXT_PARALLEL),
	OPT_REFUSED("context-parallel", CONTEXT_PARALLEL),
	OPT_REFUSED("context-parallel-size", CONTEXT_PARALLEL),
	OPT_REFUSED("sequence-parallel-size", CONTEXT_PARALLEL),
	OPT_REFUSED("ep", EXPERT_PARALLEL),
	OPT_REFUSED("expert-parallel", EXPERT_PARALLEL),
	OPT_REFUSED("expert-parallel-size", EXPERT_PARALLEL),
	OPT_REFUSED("hsdp",
		    "it shards inside groups of GPUs, and each GPU needs what it needs with its "
		    "group alone: --parallel fsdp2 --gpus 8 for groups of 8"),
	OPT_REFUSED("use-unsloth", UNSLOTH),
	OPT_REFUSED("unsloth", UNSLOTH),
	OPT_REFUSED("kv-cache-dtype", CACHED),
	OPT_REFUSED("kv-cache", CACHED),
	OPT_REFUSED("max-num-seqs", "--batch is how many samples are generated at once"),
	OPT_REFUSED("auto-find-batch-size", "--max-batch finds the largest batch that fits"),
	OPT_END
};

const struct opt_table plan_recipe = { plan_opt, sizeof(struct plan_opts) };

int plan_recipe_take(const void *values, struct plim_plan_options *out)
{
	const struct plan_opts *o = values;

	if (!o) {
		cmd_say("out of memory");
		return CMD_MACHINE;
	}
	*out = o->options;
	out->size = sizeof(*out);
	out->settings = out->settings ? hint_settings(out->settings) : NULL;
	if (out->memory_bytes != PLIM_UNKNOWN && out->gpu)
		return cmd_usage("--memory and --gpu exclude each other");
	return CMD_DONE;
}

/* What is printed is on the page too. */
static enum plim_status answer_plan(const struct plim_plan *p, struct plim_page *page,
				    struct plim_err *err)
{
	struct plim_text_style style = cmd_answer_style();
	struct cmd_answer words = { 0 };
	enum plim_status st = plim_plan_text(p, &style, cmd_collect, &words.text, err);

	if (!st)
		st = plim_plan_json(p, cmd_collect, &words.json, err);
	return cmd_answer_end(&words, page, st, err);
}

static enum plim_status keep_plan(const struct plan_opts *o, const struct plim_plan *p,
				  struct plim_err *err)
{
	struct plim_page *page;
	enum plim_status st;

	if (!cmd_is_page(o->output))
		return plim_plan_snapshot(p, o->output, err);
	st = cmd_page_new(o->options.max_memory_bytes, &page, err);
	if (!st)
		st = plim_plan_page(p, page, err);
	if (!st)
		st = answer_plan(p, page, err);
	if (!st)
		return cmd_page_end(page, o->output, err);
	plim_page_free(page);
	return st;
}

/* Where a limit was given: does it surely fit?  What cannot be judged does not. */
static bool plan_fits(const struct plim_plan *p)
{
	if (p->limit_bytes != PLIM_UNKNOWN && p->fits != PLIM_TRI_YES)
		return false;
	return p->host.fits != PLIM_TRI_NO;
}

/* Is it named so that the trace itself is what is kept? */
static bool is_trace(const char *path)
{
	size_t n = path ? strlen(path) : 0;

	return n > 8 && !strcmp(path + n - 8, ".json.gz");
}

/* A file for a trace that no one keeps. */
static int spare_file(char path[4096])
{
	const char *folder = getenv("TMPDIR");
	int fd;

	(void)snprintf(path, 4096, "%s/plimsoll-trace-XXXXXX.json.gz",
		       folder && *folder ? folder : "/tmp");
	fd = mkstemps(path, 8);
	if (fd < 0) {
		cmd_say("cannot write '%s': %s", path, strerror(errno));
		*path = 0;
		return CMD_MACHINE;
	}
	close(fd);
	return CMD_DONE;
}

/* Where the trace is kept: in a file that is gone afterwards, unless it is asked for. */
static int trace_file(const struct plan_opts *o, char path[4096])
{
	if (!is_trace(o->output))
		return spare_file(path);
	(void)snprintf(path, 4096, "%s", o->output);
	return CMD_DONE;
}

/* The other batch that is to be traced for a sweep or the largest batch: the largest of the sweep, or twice this one. */
static uint64_t other_batch(const struct plim_plan_options *o)
{
	uint64_t batch = o->batch ? o->batch : !o->from_count;
	uint64_t most = o->flags & PLIM_PLAN_MAX_BATCH ? 2 * batch : 0;
	const char *s = o->sweep && !strncmp(o->sweep, "batch=", 6) ? o->sweep + 6 : "";

	while (isdigit((unsigned char)*s)) {
		char *end;
		uint64_t n = strtoull(s, &end, 10);

		most = n > most ? n : most;
		s = *end == ',' ? end + 1 : end;
	}
	return most == batch && *s != ',' && o->sweep ? 2 * most : most;
}

/* Does a script's command line take a size: "--batch-size {batch}"? */
static bool takes(int argc, char **argv, const char *mark)
{
	for (int i = 0; i < argc; i++)
		if (strstr(argv[i], mark))
			return true;
	return false;
}

/* What is looked for needs sizes that only the script's command line can be given. */
static int refuse_sizes(const struct plim_plan_options *o, int argc, char **argv)
{
	bool batches =
		o->flags & PLIM_PLAN_MAX_BATCH || (o->sweep && !strncmp(o->sweep, "batch", 5));
	bool sequences =
		o->flags & PLIM_PLAN_MAX_SEQUENCE || (o->sweep && !strncmp(o->sweep, "seq", 3));

	if (batches && sequences)
		return cmd_usage("a trace finds the largest batch or the longest sequence, not "
				 "both at once");
	if (argc > 1 && ((batches && !takes(argc, argv, "{batch}")) ||
			 (sequences && !takes(argc, argv, "{seq}"))))
		return cmd_usage(
			"the script sets its %s itself; if that is an argument of the script, "
			"write %s for its value: plan --max-%s -- python train.py --%s %s",
			batches ? "batch" : "sequence", batches ? "{batch}" : "{seq}",
			batches ? "batch" : "seq", batches ? "batch-size" : "length",
			batches ? "{batch}" : "{seq}");
	return CMD_DONE;
}

/* A trace runs PyTorch as these options say, and no others: none is left out without a word. */
static int refuse_untraced(const struct plim_plan_options *o, int argc, char **argv)
{
	bool script = argc > 1;
	const struct {
		bool given, of_scripts; /* alone: a script says these itself */
		const char *name;
	} rows[] = {
		{ o->quantize, false, "--quantize" },
		{ o->longest || o->lengths || o->flags & (PLIM_PLAN_PADDED | PLIM_PLAN_GROUPED),
		  false, "--longest, --lengths, --padded or --grouped" },
		{ o->loss || o->loss_chunk, false, "--loss" },
		{ o->eval_batch, false, "--eval-batch" },
		{ o->image_size || o->image_grid, false, "--image-size" },
		{ o->beams > 1 || o->cache || o->flags & PLIM_PLAN_NO_CACHE, false,
		  "--beams, --cache or --no-cache" },
		{ o->extra_tensor_count || o->residents, false, "--extra-tensor or --resident" },
		{ o->tensor_parallel || o->pipeline_parallel, false,
		  "--tp or --pp: without --trace, tables do: plan CONFIG --gpus N --tp N; a trace "
		  "does --parallel fsdp2 or ddp" },
		{ o->gpus > 1 || o->parallel, true, "--gpus or --parallel" },
		{ o->from_count || o->lora_dropout, false, "--from or --lora-dropout" },
		{ o->activations || o->optimizer_on || o->parameters_on || o->save, false,
		  "offloading or --save" },
		{ o->batch && !takes(argc, argv, "{batch}"), true, "--batch" },
		{ o->sequence && !takes(argc, argv, "{seq}"), true, "--seq" },
		{ o->accumulate, true, "--accumulate" },
		{ o->precision || o->optimizer || o->attention || o->checkpointing, true,
		  "--precision, --optimizer, --attention or --checkpointing" },
		{ o->lora_rank || o->lora_targets, true, "--lora" },
		{ o->task || o->new_tokens, true, "--task or --new-tokens" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].given && !rows[i].of_scripts)
			return cmd_usage("a trace does not support %s", rows[i].name);
		if (rows[i].given && script)
			return cmd_usage("%s: a traced script sets that itself", rows[i].name);
	}
	return refuse_sizes(o, argc, argv);
}

/* A rung of the ladder is traced again; what stops that is no news. */
struct again {
	char **argv;
	int argc;
	char path[4096];
};

static int trace_rung(void *ctx, const struct plim_plan_options *o, const char **path)
{
	struct again *a = ctx;

	if (isatty(STDERR_FILENO)) /* elsewhere the trace says what it does if it takes long */
		cmd_say("tracing changes that may help: batch %llu%s, %s, %s%s%s ...",
			(unsigned long long)o->batch, o->accumulate > 1 ? " at a time" : "",
			o->precision, o->optimizer, o->checkpointing ? ", checkpointed" : "",
			o->lora_rank ? ", with LoRA" : "");
	*path = a->path;
	return cmd_trace(o, a->argv, a->argc, NULL, a->path, true);
}

#define PROOFS 3

/*
 * The answer of --max-batch or --max-seq, if it is one that was not traced itself; one sample is nothing to draw a line
 * from (plan_last traces it).
 */
static uint64_t unproven(const struct plim_plan_options *o, const struct plim_plan *p,
			 uint64_t proven)
{
	bool batches = o->flags & PLIM_PLAN_MAX_BATCH;
	uint64_t most = batches                             ? p->max_batch_range.low
			: o->flags & PLIM_PLAN_MAX_SEQUENCE ? p->max_sequence_range.low
							    : PLIM_UNKNOWN;
	uint64_t traced = batches ? p->batch : p->sequence;

	return most == PLIM_UNKNOWN || most < 2 || most == proven || most == traced ? 0 : most;
}

/* Is anything left to be traced: changes of what does not fit, or sizes that are not between those that were? */
static bool plan_is_open(const struct plim_plan_options *o, const struct plim_plan *p)
{
	bool open = p->fits == PLIM_TRI_NO ||
		    (o->flags & PLIM_PLAN_MAX_BATCH && p->max_batch == PLIM_UNKNOWN) ||
		    (o->flags & PLIM_PLAN_MAX_SEQUENCE && p->max_sequence == PLIM_UNKNOWN);

	for (size_t i = 0; i < p->sweep_count; i++)
		open = open || (p->fits && !p->sweep[i].fits);
	return open;
}

/*
 * Traces and plans.  The largest batch or sequence that fits is first one on a line through others; then it is traced
 * itself, until the answer is one that was.
 */
static int plan_traced(const struct plim_plan_options *o, int argc, char **argv, const char *path,
		       struct plim_plan **out)
{
	bool sweeps = o->sweep && !strncmp(o->sweep, "seq=", 4);
	struct cmd_trace_others others = { other_batch(o), sweeps ? o->sweep + 4
							   : o->flags & PLIM_PLAN_MAX_SEQUENCE
								   ? "0"
								   : NULL };
	uint64_t proven = others.batch;
	char number[24];
	struct plim_err err;
	int code;

	*out = NULL;
	for (int i = 0; i <= PROOFS; i++) {
		code = cmd_trace(o, argv, argc, &others, path, false);
		if (code)
			return code;
		plim_plan_free(*out);
		*out = NULL;
		if (plim_plan_open(path, o, out, &err))
			return cmd_fail(&err);
		proven = unproven(o, *out, proven);
		if (!proven)
			return CMD_DONE;
		(void)snprintf(number, sizeof(number), "%llu", (unsigned long long)proven);
		if (o->flags & PLIM_PLAN_MAX_BATCH)
			others.batch = proven;
		else
			others.sequences = number;
	}
	return CMD_DONE;
}

/* The same trace, with what is left open traced as well: rungs, and sizes by themselves. */
static int plan_last(const struct plim_plan_options *options, struct again *again, const char *path,
		     struct plim_plan **out)
{
	struct plim_plan_options o = *options;
	struct plim_err err;
	int code = spare_file(again->path);

	if (code)
		return code;
	plim_plan_free(*out);
	o.trace = trace_rung;
	o.trace_ctx = again;
	return plim_plan_open(path, &o, out, &err) ? cmd_fail(&err) : CMD_DONE;
}

static int plan_open(const struct plan_opts *o, const struct plim_plan_options *options, int argc,
		     char **argv, struct plim_plan **out)
{
	bool traces = o->trace || argc > 1;
	struct again again = { .argv = argv, .argc = argc };
	char path[4096] = "";
	struct plim_err err;
	int code;

	if (!traces && argc && !strcmp(argv[0], "-")) {
		code = cmd_spool_stdin();
		if (code)
			return code;
	}
	if (!traces)
		return plim_plan_open(argc ? argv[0] : NULL, options, out, &err)
			       ? cmd_fail_on(argc ? argv[0] : NULL, "plan", &err)
			       : CMD_DONE;
	code = refuse_untraced(options, argc, argv);
	if (!code)
		code = trace_file(o, path);
	if (!code)
		code = plan_traced(options, argc, argv, path, out);
	if (!code && argc == 1 && plan_is_open(options, *out)) /* a script says its recipe itself */
		code = plan_last(options, &again, path, out);
	if (*path && !is_trace(o->output))
		unlink(path);
	if (*again.path)
		unlink(again.path);
	return code;
}

static int plan_shown(const struct plan_opts *o, int argc, char **argv)
{
	bool traces = o->trace || argc > 1;
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	struct plim_plan_options options;
	struct plim_plan *p = NULL;
	struct plim_err err;
	int code = plan_recipe_take(o, &options);

	if (code)
		return code;
	if (argc > 1 && !strstr(argv[0], "python") && !strstr(argv[0], "torchrun") &&
	    !strstr(argv[0], "accelerate"))
		return cmd_usage("one model; or a command to trace: plan -- python train.py");
	if (traces && !argc)
		return cmd_usage(
			"--trace what: a config.json, MODULE:FUNCTION, or -- python train.py");
	if (options.flags & PLIM_PLAN_REDACT && o->output && traces)
		return cmd_usage("a kept trace has the names of its modules: it cannot be written "
				 "with --redact");
	code = plan_open(o, &options, argc, argv, &p);
	if (code) {
		plim_plan_free(p);
		return code;
	}
	if (!o->quiet && (o->json ? plim_plan_json(p, cmd_to_stdout, NULL, &err)
				  : plim_plan_text(p, &style, cmd_to_stdout, NULL, &err)))
		code = cmd_fail(&err);
	if (code == CMD_DONE && o->output && !(traces && is_trace(o->output)) &&
	    keep_plan(o, p, &err))
		code = cmd_fail(&err);
	if (code == CMD_DONE && !plan_fits(p))
		code = CMD_FAILED;
	plim_plan_free(p);
	return code;
}

static int plan_run(const void *values, int argc, char **argv)
{
	static const char *const suffixes[] = { ".html", ".htm",     ".pickle", ".pkl",
						".plim", ".json.gz", NULL };
	struct plan_opts o = *(const struct plan_opts *)values;
	struct output out;
	int code;

	if (!o.output)
		return plan_shown(&o, argc, argv);
	code = cmd_output_begin(&out, o.output, suffixes, argv, argc);
	if (code != CMD_DONE)
		return code;
	o.quiet = cmd_output_is_stdout(&out);
	o.output = out.path;
	return cmd_output_end(&out, plan_shown(&o, argc, argv));
}

static const struct cmd_example plan_examples[] = {
	{ "plimsoll plan config.json --batch 8 --seq 2048 --gpu \"A100 40GB\"",
	  "does it fit, and if not when does it die" },
	{ "plimsoll plan config.json --seq 4096 -c --memory 24GiB --max-batch",
	  "the largest batch" },
	{ "plimsoll plan config.json --sweep batch=1,2,4,8", "a table" },
	{ "plimsoll plan config.json --batch 16 --calibrate run.pickle --recorded batch=2",
	  "learn from a recording of a small run, plan a large one" },
	{ "plimsoll plan --layers 24 --hidden 2048 --heads 16 -t generate --new-tokens 64",
	  "a model by numbers" },
	{ "plimsoll plan --trace config.json --batch 4 --gpu H100",
	  "an architecture that is not known here: PyTorch runs it, without a GPU" },
	{ "plimsoll plan --gpu H100 -- python train.py", "a script as it is, for two steps" },
	{ "plimsoll plan config.json --memory 24GiB -o plan.html",
	  "the same as a page, up to where it dies" },
	{ NULL, NULL },
};

const struct cmd cmd_plan = {
	.name = "plan",
	.summary = "predict the memory that a run needs, phase by phase",
	.args = "[MODEL | -- COMMAND...]",
	.about = "Reads a model (config.json of Hugging Face, a safetensors file, a folder of "
		 "either, or numbers) and makes the requests that PyTorch would make of the GPU's "
		 "memory in a run: every tensor as autograd, autocast and the optimizer take and "
		 "drop it.  They go through the model of PyTorch's caching allocator.  Nothing is "
		 "run, and no GPU is needed.\n\n"
		 "The answer is \"needed\": the smallest memory limit under which the run "
		 "completes.  It lies between allocated and reserved memory.\n\n"
		 "A model that is not known here, and any module or script of yours, is traced: "
		 "--trace "
		 "(docs/trace.md).",
	.examples = plan_examples,
	.common = "gpu memory batch seq from precision optimizer checkpointing lora quantize "
		  "parallel max-batch for json",
	.opts = plan_opt,
	.opts_size = sizeof(struct plan_opts),
	.min_args = 0,
	.max_args = -1,
	.run = plan_run,
};
