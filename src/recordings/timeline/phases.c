/*
 * What the program was doing at each event.  Stacks tell it where Python ran; an event without a
 * stack during or after a forward pass is autograd's own thread at work.
 */
#include "stack_patterns.h"

#include <string.h>

const char *const timeline_phase_names[TIMELINE_PHASES] = { "load",      "forward", "backward",
							    "optimizer", "eval",    "generate",
							    "request",   "other" };

struct walk {
	const struct timeline *tl;
	const uint16_t *cues;
	int frees_tell; /* stacks of frees were recorded: one without Python is of autograd's thread */
	uint32_t pass;   /* where the last forward pass began; TRACE_NONE */
	size_t live;     /* allocations of it that live */
	size_t run_end;  /* behind the run of frees that was looked at last */
	int run_answers; /* it gives the pass back */
	int steps_inside; /* optimizers step inside of the backward pass, each when its gradient is there */
	/* since the last forward pass: */
	int unanswered; /* no backward pass or step of the optimizer */
	int backward;   /* a backward pass */
	int stepped;    /* ... and a step of the optimizer */
};

static enum timeline_phase phase_after(const struct walk *w, unsigned cues,
				       enum timeline_phase last)
{
	if (cues & CUE_EMPTY && cues & CUE_BACKWARD)
		return TIMELINE_BACKWARD; /* C++ frames were recorded, and name autograd's engine */
	if (cues & CUE_EMPTY && w->stepped)
		return w->steps_inside ? TIMELINE_BACKWARD : last;
	if (cues & CUE_EMPTY) /* the loss may have been computed outside of any module */
		return w->unanswered && last != TIMELINE_OPTIMIZER ? TIMELINE_BACKWARD : last;
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

/* Allocations of passes, and how many of them lived at a moment. */
struct tally {
	size_t made, live;
};

/* A pass that saves for a backward pass still has most of its tensors when it ends. */
static int gives_back(const struct tally *t)
{
	return 2 * t->live < t->made;
}

/*
 * Forward passes of a program that never runs backward and is not about to: those before the last one
 * gave back what they made, and so does the last one as far as it came, if the program died in it.
 */
static void find_requests(const struct timeline *tl, uint8_t *phase, size_t n)
{
	const struct snapshot_device *d = tl->device;
	uint32_t end = snapshot_find_end(d), last = 0;
	struct tally before = { 0 }, now = { 0 };
	size_t passes = 0;

	end = end == TRACE_NONE ? (uint32_t)n : end;
	for (uint32_t e = 0; e < end; e++) {
		if (phase[e] == TIMELINE_FORWARD && (!e || phase[e - 1] != TIMELINE_FORWARD)) {
			passes++;
			last = e;
		}
	}
	if (passes < 2 || memchr(phase, TIMELINE_BACKWARD, n) ||
	    memchr(phase, TIMELINE_OPTIMIZER, n))
		return;
	for (uint32_t a = 0; a < d->alloc_count; a++) {
		const struct snapshot_alloc *one = &d->allocs[a];
		struct tally *t = one->born < last ? &before : &now;

		if (one->born >= end || phase[one->born] != TIMELINE_FORWARD)
			continue;
		t->made++;
		t->live += one->free_requested >= (one->born < last ? last : end);
	}
	/* a program that lives on has finished its last pass, too, and gone on without running backward */
	if (!gives_back(&before) ||
	    (end < n && phase[end] == TIMELINE_FORWARD && !gives_back(&now)))
		return;
	for (size_t e = 0; e < n; e++)
		if (phase[e] == TIMELINE_FORWARD)
			phase[e] = TIMELINE_REQUEST;
}

/* Recorded with context="alloc" no free has a stack, wherever the program freed. */
static int frees_have_stacks(const struct walk *w)
{
	const struct snapshot_events *ev = &w->tl->device->events;
	size_t e = 0;

	while (e < ev->n && (!snapshot_drops(w->tl->device, e) || ev->stack[e] == TRACE_NONE ||
			     w->cues[ev->stack[e]] & CUE_EMPTY))
		e++;
	return e < ev->n;
}

static int is_of_pass(const struct walk *w, size_t event)
{
	const struct snapshot_device *d = w->tl->device;
	uint32_t a = d->events.alloc[event];

	return a != TRACE_NONE && d->allocs[a].born != TRACE_NONE && d->allocs[a].born >= w->pass;
}

/*
 * Where frees have no stacks, a backward pass that allocates nothing shows as frees one behind the other that give back
 * nearly all that the forward pass still has.  Temporaries of the forward pass are freed while it has more.
 */
static int run_answers(struct walk *w, size_t event)
{
	const struct snapshot_events *ev = &w->tl->device->events;
	size_t freed = 0, e = event;

	if (event < w->run_end)
		return w->run_answers;
	for (; e < ev->n && ev->action[e] != TRACE_ALLOC; e++)
		freed += snapshot_drops(w->tl->device, e) && is_of_pass(w, e);
	w->run_end = e;
	w->run_answers = freed > 1 && 5 * freed >= 4 * w->live;
	return w->run_answers;
}

/* Does the event's stack tell where the program is? */
static int event_tells(struct walk *w, size_t event)
{
	const struct snapshot_events *ev = &w->tl->device->events;
	uint8_t action = ev->action[event];

	if (ev->stack[event] == TRACE_NONE)
		return 0;
	if (snapshot_drops(w->tl->device, event))
		return w->frees_tell || run_answers(w, event);
	return action == TRACE_ALLOC || action == TRACE_OOM;
}

/* Follow what the forward pass has, up to this event. */
static void pass_step(struct walk *w, size_t event, enum timeline_phase before,
		      enum timeline_phase now)
{
	uint8_t action = w->tl->device->events.action[event];

	if (now == TIMELINE_FORWARD && before != TIMELINE_FORWARD) {
		w->pass = (uint32_t)event;
		w->live = 0;
	}
	if (now == TIMELINE_FORWARD && action == TRACE_ALLOC)
		w->live++;
	else if (snapshot_drops(w->tl->device, event) && w->live && is_of_pass(w, event))
		w->live--;
}

static void walk_phase(struct walk *w, uint8_t *phase)
{
	const struct snapshot_events *ev = &w->tl->device->events;
	enum timeline_phase last = TIMELINE_OTHER;

	/* the recording may begin in its middle */
	w->unanswered = w->tl->before[TIMELINE_ALLOCATED] > 0;
	w->backward = w->stepped = 0;
	w->pass = TRACE_NONE;
	w->live = w->run_end = 0;
	for (size_t e = 0; e < ev->n; e++) {
		enum timeline_phase before = last;
		uint8_t action = ev->action[e];

		if (event_tells(w, e)) {
			unsigned cues = w->cues[ev->stack[e]];

			/* autograd's thread goes on behind the step */
			w->steps_inside |= w->stepped && cues & CUE_EMPTY && action == TRACE_ALLOC;
			last = phase_after(w, cues, last);
		}
		if (last == TIMELINE_FORWARD) {
			w->unanswered = 1;
			w->backward = w->stepped = 0;
		} else if (last != TIMELINE_OTHER) {
			w->unanswered = 0;
			w->backward |= last == TIMELINE_BACKWARD;
			w->stepped |= w->backward && last == TIMELINE_OPTIMIZER;
		}
		pass_step(w, e, before, last);
		phase[e] = (uint8_t)last;
	}
}

void phases_find(const struct timeline *tl, const uint16_t *cues, uint8_t *phase)
{
	struct walk w = { .tl = tl, .cues = cues };
	size_t n = tl->device->events.n;

	w.frees_tell = frees_have_stacks(&w);
	walk_phase(&w, phase);
	if (w.steps_inside) /* what came before it was seen is reported again */
		walk_phase(&w, phase);
	find_evals(phase, n);
	find_requests(tl, phase, n);
	find_load(phase, n);
}
