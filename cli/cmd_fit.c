/*
 * plimsoll fit: an unchanged training command, each of its batches in parts.  It is Python itself (python/plimsoll/fit); this
 * finds it and becomes it.  What is typed goes on as it is, once the rows have taken it.
 */
#include "cmd.h"

struct fit_opts {
	const char *text;
	uint64_t number;
	bool flag;
};

static const struct opt fit_opt[] = {
	OPT_U64(0, "parts", fit_opts, number, "N", 1, 1u << 20, OPT_NONE,
		"cut each batch into N parts (the fewest that fit: 1, 2, 4 ...)"),
	OPT_OPTIONAL(0, "checkpoint", fit_opts, text, "N", "", NULL,
		     "checkpoint the activations of N layers, too (all of them), by the model's "
		     "own call"),
	OPT_STRING(0, "memory", fit_opts, text, "SIZE", NULL,
		   "of GPU memory the job may use: 15.1GiB (all of the GPU)"),
	OPT_FLAG(0, "probe-only", fit_opts, flag, "measure and print, do not run"),
	OPT_FLAG(0, "diff", fit_opts, flag,
		 "print the result as arguments of the script, do not run"),
	OPT_FLAG(0, "again", fit_opts, flag,
		 "measure, also if the file has a result for this command"),
	OPT_STRING(0, "file", fit_opts, text, "FILE", NULL, "that keeps results (plimsoll.toml)"),
	OPT_FLAG('j', "json", fit_opts, flag,
		 "print JSON (schema fit/1) instead of text; with --probe-only"),
	OPT_END
};

static const char start[] = "import sys\n"
			    "try:\n"
			    "    from plimsoll.fit.__main__ import main\n"
			    "except ImportError as e:\n"
			    "    sys.stderr.write(f'plimsoll: fit is the Python package\\'s part: "
			    "{e} ({sys.executable}); '\n"
			    "                     'in a checkout of Plimsoll: pip install .\\n')\n"
			    "    sys.exit(4)\n"
			    "sys.exit(main())\n";

static int fit_run(const void *values, int argc, char **argv)
{
	(void)values;
	return cmd_become_python("fit needs Python", "fit/__main__.py", start, argc, argv);
}

static const struct cmd_example fit_examples[] = {
	{ "plimsoll fit -- python train.py",
	  "run it in as few parts as fit, if that is proven to train the same" },
	{ "plimsoll fit --memory 15GiB --probe-only -- python train.py",
	  "what each setting takes, without the run" },
	{ "plimsoll fit --parts 4 --checkpoint=12 -- python train.py",
	  "in four parts, with 12 layers checkpointed" },
	{ NULL, NULL },
};

const struct cmd cmd_fit = {
	.name = "fit",
	.summary = "run an unchanged training command so that it fits, and trains the same",
	.args = "-- COMMAND...",
	.about =
		"Cuts each batch into parts inside the training step of transformers.Trainer (TRL, "
		"Axolotl and LLaMA-Factory call it) or in a loop of accelerate, or checkpoints as "
		"many layers as it takes, whichever is faster. Loader, "
		"accumulation, "
		"schedule and seeds stay untouched, so the samples, their order and the number of "
		"steps stay.\n\n"
		"First a process of its own starts the command and measures at its first step: the "
		"gradient of whole batches and of parts, in fp32 and without dropout, then the "
		"peak "
		"of whole steps. If the parts have another gradient, the command is refused with "
		"exit "
		"code 4. That process writes nothing of its own.\n\n"
		"One GPU, or several with DDP behind torchrun or accelerate launch. Needs the "
		"Python package where the command runs.",
	.examples = fit_examples,
	.opts = fit_opt,
	.opts_size = sizeof(struct fit_opts),
	.min_args = 1,
	.max_args = -1,
	.flags = CMD_PASSES | CMD_DASHES,
	.run = fit_run,
};
