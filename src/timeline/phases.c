/*
 * What the program was doing at each event.  Stacks tell it where Python ran; an event without a
 * stack during or after a forward pass is autograd's own thread at work.
 */
#include "cues.h"

#include <string.h>

const char *const timeline_phase_names[TIMELINE_PHASES] = { "load",      "forward", "backward",
							    "optimizer", "eval",    "generate",
							    "other" };

/* `unanswered`: a forward pass was seen, and no backward pass or step of the optimizer since. */
static enum timeline_phase phase_after(unsigned cues, enum timeline_phase last, int unanswered)
{
	if (cues & CUE_EMPTY) /* the loss may have been computed outside of any module */
		return unanswered && last != TIMELINE_OPTIMIZER ? TIMELINE_BACKWARD : last;
	if (cues & CUE_OPTIMIZER)
		return TIMELINE_OPTIMIZER;
	if (cues & CUE_BACKWARD)
		return TIMELINE_BACKWARD;
	if (cues & CUE_GENERATE)
		return TIMELINE_GENERATE;
	return cues & CUE_FORWARD ? TIMELINE_FORWARD : TIMELINE_OTHER;
}

/* Passes of the model's forward whose backward never came, in a program that has backwards: evaluation. */
static void find_evals(uint8_t *phase, size_t n)
{
	size_t start = n, end = n; /* of the forward pass that has not been answered */
	int trains = memchr(phase, TIMELINE_BACKWARD, n) != NULL, evals = 0;

	for (size_t i = 0; trains && i < n; i++) {
		if (phase[i] == TIMELINE_BACKWARD) {
			start = n;
			evals = 0;
		} else if (phase[i] == TIMELINE_FORWARD &&
			   (!i || phase[i - 1] != TIMELINE_FORWARD)) {
			/* the pass before was followed by another one, or by the optimizer */
			if (start < n)
				memset(phase + start, TIMELINE_EVAL, end - start);
			evals |= start < n;
			start = i;
		}
		if (phase[i] == TIMELINE_FORWARD)
			end = i + 1;
	}
	/* the recording ended in this one: after evaluations it is taken for one more */
	if (start < n && evals)
		memset(phase + start, TIMELINE_EVAL, end - start);
}

/* Before the first pass of any kind things are loaded. */
static void find_load(uint8_t *phase, size_t n)
{
	size_t first = 0;

	while (first < n && phase[first] == TIMELINE_OTHER)
		first++;
	if (first < n)
		memset(phase, TIMELINE_LOAD, first);
}

void phases_find(const struct timeline *tl, const uint16_t *cues, uint8_t *phase)
{
	const struct trace_events *ev = &tl->device->events;
	enum timeline_phase last = TIMELINE_OTHER;
	int unanswered = 0;

	for (size_t e = 0; e < ev->n; e++) {
		uint8_t action = ev->action[e];

		if ((action == TRACE_ALLOC || action == TRACE_FREE_REQUESTED ||
		     action == TRACE_OOM) &&
		    ev->stack[e] != TRACE_NONE)
			last = phase_after(cues[ev->stack[e]], last, unanswered);
		if (last == TIMELINE_FORWARD)
			unanswered = 1;
		else if (last != TIMELINE_OTHER)
			unanswered = 0;
		phase[e] = (uint8_t)last;
	}
	find_evals(phase, ev->n);
	find_load(phase, ev->n);
}
