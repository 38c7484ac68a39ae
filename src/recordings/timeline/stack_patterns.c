/* What the names on a stack say of the program: a table, looked up once a frame. */
#include "stack_patterns.h"

#include <string.h>

static const struct cue {
	const char *file; /* a part of the file's name; NULL: any */
	const char *name; /* the function's, whole; NULL: any */
	unsigned bits;
} cues[] = {
	{ "/torch/optim/", NULL, CUE_OPTIMIZER },
	{ "/bitsandbytes/optim/", NULL, CUE_OPTIMIZER },
	{ "/transformers/optimization.py", NULL, CUE_OPTIMIZER },
	{ "/deepspeed/ops/", NULL, CUE_OPTIMIZER },
	{ "/apex/optimizers/", NULL, CUE_OPTIMIZER },
	{ NULL, "_init_group", CUE_INIT_GROUP },
	{ NULL, "zero_grad", CUE_ZERO_GRAD },
	{ NULL, "forward", CUE_FORWARD },
	{ "/torch/nn/modules/module.py", "_call_impl", CUE_FORWARD },
	{ NULL, "backward", CUE_BACKWARD }, /* also of autograd.Function, compiled code, trainers */
	{ "/torch/autograd/__init__.py", NULL, CUE_BACKWARD },
	{ "/torch/autograd/graph.py", NULL, CUE_BACKWARD },
	{ "/torch/utils/checkpoint.py", "unpack_hook", CUE_BACKWARD },
	{ "/torch/utils/checkpoint.py", "recompute_fn", CUE_BACKWARD },
	{ NULL, "__init__", CUE_CLASS },
	{ "/torch/", "__init__", CUE_BUILD },
	{ NULL, "_apply", CUE_BUILD },
	{ NULL, "__deepcopy__", CUE_BUILD },
	{ "/torch/nn/parameter.py", "materialize", CUE_LAZY },
	{ NULL, "from_pretrained", CUE_BUILD },
	{ NULL, "load_state_dict", CUE_BUILD },
	{ NULL, "to_empty", CUE_BUILD },
	{ NULL, "load_model", CUE_BUILD },
	{ "/transformers/cache_utils.py", NULL, CUE_CACHE },
	{ "/torch/nn/parallel/distributed.py", NULL, CUE_BUCKET },
	{ "/transformers/generation/", NULL, CUE_GENERATE },
	{ NULL, "generate", CUE_GENERATE },
	/* ranges that PyTorch itself names, of a profiler's trace without Python: they stand for files there */
	{ "Optimizer.step#", NULL, CUE_OPTIMIZER },
	{ "Optimizer.zero_grad#", NULL, CUE_ZERO_GRAD },
};

int timeline_is_cue(const char *name)
{
	for (size_t i = 0; i < sizeof(cues) / sizeof(*cues); i++)
		if (!cues[i].file && !strcmp(name, cues[i].name))
			return 1;
	return 0;
}

static unsigned cues_of_frame(const struct snapshot *t, uint32_t frame)
{
	const struct snapshot_frame *f = snapshot_frame(t, frame);
	const char *file = snapshot_text(t, f->filename), *name = snapshot_text(t, f->name);
	/* C++ frames, where they were recorded */
	unsigned bits =
		strstr(name, "torch::autograd::Engine") ||
				strstr(name, "autograd::engine::") /* as the profiler says it */
			? CUE_BACKWARD
			: 0;

	for (size_t i = 0; i < sizeof(cues) / sizeof(*cues); i++)
		if ((!cues[i].file || strstr(file, cues[i].file)) &&
		    (!cues[i].name || !strcmp(name, cues[i].name)))
			bits |= cues[i].bits;
	return bits;
}

static unsigned cues_of_stack(const struct snapshot *t, const uint16_t *of_frame, uint32_t stack)
{
	uint32_t n;
	const uint32_t *frames = snapshot_python_stack(t, stack, &n);
	unsigned bits = n ? 0 : CUE_EMPTY;

	for (uint32_t i = 0; i < n; i++)
		bits |= of_frame[frames[i]] & ~(unsigned)(i ? CUE_BUCKET : 0);
	frames = snapshot_stack(t, stack, &n);
	for (uint32_t i = 0; i < n; i++)
		bits |= of_frame[frames[i]] & CUE_BACKWARD; /* autograd's engine is C++ */
	/* zero_grad is a method of the optimizer, and not its step; nor is a closure that it calls (LBFGS) */
	if (bits & (CUE_ZERO_GRAD | CUE_FORWARD | CUE_BACKWARD))
		bits &= ~(unsigned)CUE_OPTIMIZER;
	return bits;
}

/*
 * Data sets and banks of features are built by __init__ as modules are.  A module's file runs forward passes as well.
 * If only files of PyTorch itself are seen to (a compiled model has no frames of its own), nothing distinguishes them.
 */
static void find_modules(const struct snapshot *t, uint16_t *of_frame, uint8_t *runs)
{
	unsigned seen = 0;

	for (uint32_t i = 0; i < t->frames.n; i++) {
		uint32_t file = snapshot_frame(t, i)->filename;

		if (!(of_frame[i] & CUE_FORWARD))
			continue;
		runs[file] = 1;
		seen |= !strstr(snapshot_text(t, file), "/torch/");
	}
	for (uint32_t i = 0; i < t->frames.n; i++)
		if (of_frame[i] & CUE_CLASS && (!seen || runs[snapshot_frame(t, i)->filename]))
			of_frame[i] |= CUE_BUILD;
}

enum plim_status cues_find(struct mem *m, const struct snapshot *t, uint16_t **of_stack,
			   struct plim_err *err)
{
	size_t strings = t->heap.strings.n;
	uint16_t *frames = mem_new(m, t->frames.n, sizeof(*frames), err);
	uint8_t *runs = frames ? mem_new(m, strings, sizeof(*runs), err) : NULL;

	*of_stack = runs ? mem_new(m, t->stacks.n, sizeof(**of_stack), err) : NULL;
	for (uint32_t i = 0; *of_stack && i < t->frames.n; i++)
		frames[i] = (uint16_t)cues_of_frame(t, i);
	if (*of_stack)
		find_modules(t, frames, runs);
	for (uint32_t i = 0; *of_stack && i < t->stacks.n; i++)
		(*of_stack)[i] = (uint16_t)cues_of_stack(t, frames, i);
	mem_free(m, runs, strings, sizeof(*runs));
	mem_free(m, frames, t->frames.n, sizeof(*frames));
	return *of_stack ? PLIM_OK : mem_status(err);
}

static int has_cue(const struct snapshot *t, uint32_t stack, unsigned cue)
{
	uint32_t n;
	const uint32_t *frames = snapshot_stack(t, stack, &n);

	for (uint32_t i = 0; i < n; i++)
		if (cues_of_frame(t, frames[i]) & cue)
			return 1;
	return 0;
}

int timeline_in_optimizer(const struct snapshot *t, uint32_t stack)
{
	return has_cue(t, stack, CUE_OPTIMIZER);
}

int timeline_in_backward(const struct snapshot *t, uint32_t stack)
{
	return snapshot_stackless(t, stack) || has_cue(t, stack, CUE_BACKWARD);
}
