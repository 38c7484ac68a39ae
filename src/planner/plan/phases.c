/* Phases of a plan as one table: what each is to a person, to a log and to a recording. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#define TORCH "/site-packages/torch/"
#define MODULE                                             \
	{                                                  \
		TORCH "nn/modules/module.py", "_call_impl" \
	}

static const struct plan_phase_kind kinds[] = {
	{ "load",
	  "the loading of the model",
	  NULL,
	  false,
	  PLIM_WHY_LOADING,
	  PLIM_WHY_LOADING,
	  { { TORCH "nn/modules/module.py", "__init__" } } },
	{ "wrap",
	  "the wrapping of the model",
	  NULL,
	  false,
	  PLIM_WHY_LOADING,
	  PLIM_WHY_LOADING,
	  { { NULL, NULL } } },
	{ "fwd",
	  "the forward pass",
	  "forward",
	  true,
	  PLIM_WHY_FORWARD,
	  PLIM_WHY_FORWARD,
	  { MODULE } },
	{ "bwd",
	  "the backward pass",
	  "backward",
	  true,
	  PLIM_WHY_BACKWARD,
	  PLIM_WHY_BACKWARD,
	  { { TORCH "autograd/graph.py", "_engine_run_backward" } } },
	{ "opt",
	  "the optimizer",
	  "optimizer",
	  true,
	  PLIM_WHY_FIRST_STEP,
	  PLIM_WHY_OPTIMIZER,
	  { { TORCH "optim/optimizer.py", "step" } } },
	{ "zero",
	  "zero_grad",
	  "zero_grad",
	  true,
	  PLIM_WHY_OPTIMIZER,
	  PLIM_WHY_OPTIMIZER,
	  { { TORCH "optim/optimizer.py", "zero_grad" } } },
	/* passes and optimizer in one: a log may tell any of them, and frames depend on the request */
	{ "longest",
	  "the step of the longest batch",
	  "longest batch",
	  false,
	  PLIM_WHY_MOMENT_UNKNOWN,
	  PLIM_WHY_MOMENT_UNKNOWN,
	  { { NULL, NULL } } },
	{ "save",
	  "the saving of a checkpoint",
	  NULL,
	  false,
	  PLIM_WHY_SAVING,
	  PLIM_WHY_SAVING,
	  { { TORCH "distributed/checkpoint/state_dict.py", "get_state_dict" } } },
	{ "eval",
	  "evaluation",
	  NULL,
	  false,
	  PLIM_WHY_EVAL,
	  PLIM_WHY_EVAL,
	  { MODULE, { "loop", "evaluate" } } },
	{ "gen",
	  "generation",
	  NULL,
	  false,
	  PLIM_WHY_GENERATION,
	  PLIM_WHY_GENERATION,
	  { MODULE, { "/site-packages/transformers/generation/utils.py", "generate" } } },
};

const struct plan_phase_kind *plan_phase_kind(const char *phase)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(phase, kinds[i].begins, strlen(kinds[i].begins)))
			return &kinds[i];
	return NULL;
}

uint64_t plan_phase_step(const char *phase)
{
	const char *digits = phase + strcspn(phase, "0123456789");

	return *digits ? strtoull(digits, NULL, 10) : PLIM_UNKNOWN;
}

const char *plan_phase_words(char *buffer, const char *phase)
{
	const struct plan_phase_kind *kind = plan_phase_kind(phase);
	uint64_t step = plan_phase_step(phase);

	if (kind && kind->numbered && step != PLIM_UNKNOWN)
		snprintf(buffer, 64, "%s of step %llu", kind->words, (unsigned long long)step);
	else
		snprintf(buffer, 64, "%s", kind ? kind->words : phase);
	return buffer;
}

void plan_put_phase(struct text *t, const char *phase)
{
	const struct plan_phase_kind *kind = plan_phase_kind(phase);
	const char *digits = phase + strcspn(phase, "0123456789");

	if (kind && kind->brief)
		text_puts(t, kind->brief);
	else
		text_printf(t, "%.*s", (int)(digits - phase), phase);
	if (*digits)
		text_printf(t, " %s", digits);
}

enum plim_why_moment plan_phase_moment(const char *phase)
{
	const struct plan_phase_kind *kind = plan_phase_kind(phase);

	if (!kind)
		return PLIM_WHY_MOMENT_UNKNOWN;
	return plan_phase_step(phase) ? kind->later : kind->first;
}

const char *plan_moment_words(enum plim_why_moment moment)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (moment && kinds[i].later == moment)
			return kinds[i].words;
	return NULL;
}
