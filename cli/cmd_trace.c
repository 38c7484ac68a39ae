/* plan --trace: PyTorch runs the model on fake tensors (python/plimsoll/tracing), in a Python of its own; what it writes is planned. */
#include "cmd.h"
#include "progress.h"

#include <plimsoll/plan.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 40

struct line {
	char *words[WORDS + 1];
	char text[WORDS][64]; /* of numbers */
	unsigned n, texts;
};

static void add_trace(struct line *l, const char *word)
{
	if (l->n < WORDS)
		l->words[l->n++] = (char *)(uintptr_t)word;
}

static void add_named(struct line *l, const char *name, const char *value)
{
	if (!value)
		return;
	add_trace(l, name);
	add_trace(l, value);
}

static void add_number(struct line *l, const char *name, uint64_t n)
{
	char *to = l->text[l->texts++];

	snprintf(to, sizeof(l->text[0]), "%llu", (unsigned long long)n);
	add_named(l, name, to);
}

static const char start[] = "import sys\n"
			    "try:\n"
			    "    from plimsoll.tracing.__main__ import main\n"
			    "except ImportError as e:\n"
			    "    sys.stderr.write(f'plimsoll: tracing is the Python package\\'s "
			    "part, with PyTorch: {e} ({sys.executable}); '\n"
			    "                     'in a checkout of Plimsoll: pip install .\\n')\n"
			    "    sys.exit(4)\n"
			    "sys.exit(main())\n";

static int wait_for_trace(pid_t child, bool quiet)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return CMD_MACHINE;
	if (WIFSIGNALED(status) && !quiet)
		cmd_say("the trace was ended by signal %d", WTERMSIG(status));
	return WIFEXITED(status) ? WEXITSTATUS(status) : CMD_MACHINE;
}

/* What is to be traced comes last: a model, or "--" and a command. */
static int run_line(struct line *l, char **command, int count, bool quiet)
{
	const char *python = count > 1 ? command[0] : "python3";
	char **whole = calloc((size_t)l->n + (size_t)count + 5, sizeof(*whole));
	unsigned at = 0;
	pid_t child;

	if (!whole) {
		cmd_say("out of memory");
		return CMD_MACHINE;
	}
	if (!strstr(python, "python"))
		python = "python3"; /* torchrun, accelerate */
	whole[at++] = (char *)(uintptr_t)python;
	whole[at++] = (char *)(uintptr_t) "-c";
	whole[at++] = (char *)(uintptr_t)start;
	for (unsigned i = 0; i < l->n; i++)
		whole[at++] = l->words[i];
	if (count > 1)
		whole[at++] = (char *)(uintptr_t) "--";
	for (int i = 0; i < count; i++)
		whole[at++] = command[i];
	fflush(stdout);
	cmd_progress_end(); /* the child shows its own */
	child = fork();
	if (!child) {
		int nowhere = quiet ? open("/dev/null", O_WRONLY) : -1;

		if (nowhere >= 0)
			(void)dup2(nowhere, STDERR_FILENO);
		cmd_show_python();
		execvp(python, whole);
		cmd_say("tracing needs Python with PyTorch: cannot run '%s': %s", python,
			strerror(errno));
		_exit(CMD_MACHINE);
	}
	free(whole);
	if (child < 0) {
		cmd_say("cannot start Python: %s", strerror(errno));
		return CMD_MACHINE;
	}
	return wait_for_trace(child, quiet);
}

int cmd_trace(const struct plim_plan_options *o, char **what, int count,
	      const struct cmd_trace_others *others, const char *path, bool quiet)
{
	struct line l = { .n = 0 };

	add_named(&l, "-o", path);
	add_number(&l, "--batch", o->batch ? o->batch : 1);
	if (others && others->batch)
		add_number(&l, "--grown", others->batch);
	if (others)
		add_named(&l, "--longer", others->sequences);
	if (o->sequence)
		add_number(&l, "--seq", o->sequence);
	add_number(&l, "--accumulate", o->accumulate ? o->accumulate : 1);
	add_number(&l, "--lora", o->lora_rank);
	add_named(&l, "--lora-targets", o->lora_targets);
	add_number(&l, "--steps", o->steps);
	add_named(&l, "--precision", o->precision);
	add_named(&l, "--optimizer", o->optimizer);
	add_named(&l, "--attention", o->attention);
	add_named(&l, "--checkpointing", o->checkpointing);
	add_named(&l, "--task", o->task);
	if (o->gpus > 1)
		add_number(&l, "--gpus", o->gpus);
	if (o->gpus > 1)
		add_named(&l, "--parallel", o->parallel);
	if (o->new_tokens)
		add_number(&l, "--new-tokens", o->new_tokens);
	add_named(&l, "--gpu", o->gpu);
	if (o->flags & PLIM_PLAN_NO_CLIP)
		add_trace(&l, "--no-clip");
	if (o->flags & PLIM_PLAN_KEEP_OUTPUTS)
		add_trace(&l, "--keep-outputs");
	return run_line(&l, what, count, quiet);
}
