/*
 * What training runs into: the longest batch, the optimizer's first step and its lists, evaluation.
 *
 * longest_batch: the step of the peak, or the one that died, works on more than the median step, seen by one
 * line that allocates LONGER_PCT more in it; and needs as much more memory.
 * foreach_temporaries: the peak lies in the optimizer, on top of lists that it makes and drops
 * (torch/optim/optimizer.py: foreach is the default on CUDA since 2.0).
 * eval_heavier_than_train: the peak lies in a pass that no backward pass answers.
 */
#include "detect.h"

#include <string.h>

#include <stdlib.h>

#define LONGER_PCT 110
#define COMPARED_MIN 4 /* steps, the first one excepted: no state was allocated before it */
#define LISTS_MIN 8    /* tensors of one step's lists */
#define HEAVIER_PCT 105
#define SAVED_MIN 8 /* tensors that a pass still has when it ends, if gradients are on */

static uint32_t peak_event(const struct detecting *x)
{
	return x->tl->peak_event[TIMELINE_ALLOCATED];
}

/* A leak that has taken a good part of the peak explains it; a small one does not. */
static int leaks_much(const struct detecting *x)
{
	for (size_t i = 0; i < x->out->all.n; i++)
		if (!strcmp(x->out->all.at[i].id, "leak") &&
		    detect_material(x, x->out->all.at[i].bytes))
			return 1;
	return 0;
}

static int is_work(enum timeline_category c)
{
	return c == TIMELINE_ACTIVATION || c == TIMELINE_TEMPORARY || c == TIMELINE_INPUT ||
	       c == TIMELINE_UNKNOWN || c == TIMELINE_AUTOGRAD_DETAIL;
}

/* The largest allocation at the peak that a pass made for itself and whose stack is its own. */
static uint32_t largest_work(const struct detecting *x)
{
	uint32_t best = TRACE_NONE;

	for (size_t i = 0; i < x->at_peak.n; i++) {
		uint32_t a = x->at_peak.at[i];
		const struct snapshot_alloc *one = &x->device->allocs[a];

		if (snapshot_stackless(x->snapshot, one->stack) || !is_work(detect_category(x, a)))
			continue;
		if (best == TRACE_NONE ||
		    one->requested_bytes > x->device->allocs[best].requested_bytes)
			best = a;
	}
	return best;
}

/* ---- longest_batch ---- */

static int training_by_bytes(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The most that a stack asked for at once in each step, 0 where it did not run. */
static uint64_t *sizes_by_step(struct detecting *x, uint32_t stack)
{
	const struct snapshot_device *d = x->device;
	uint64_t *sizes = mem_new(x->mem, x->steps.n, sizeof(*sizes), x->err);

	if (!sizes)
		x->status = mem_status(x->err);
	for (uint32_t a = 0; sizes && a < d->alloc_count; a++) {
		const struct snapshot_alloc *one = &d->allocs[a];
		size_t step;

		if (one->stack != stack || one->born == TRACE_NONE)
			continue;
		step = timeline_step_of(x->repeats, one->born);
		if (one->requested_bytes > sizes[step])
			sizes[step] = one->requested_bytes;
	}
	return sizes;
}

/* The median of the steps but `without` and the first, and how many those are. */
static uint64_t median(const uint64_t *all, size_t n, size_t without, uint64_t *room, size_t *count)
{
	*count = 0;
	for (size_t i = 1; i < n; i++)
		if (i != without && all[i])
			room[(*count)++] = all[i];
	if (!*count)
		return 0;
	sort_items(room, *count, sizeof(*room), training_by_bytes);
	return room[*count / 2];
}

/* What says how much a step works on: one line, and what it asked for at once. */
struct gauge {
	uint32_t stack;
	uint64_t bytes;
	size_t step;
	int died;
};

/* The request that failed, else the largest tensor at the peak. */
static int find_gauge(const struct detecting *x, struct gauge *g)
{
	const struct findings_death *d = x->in->death;
	uint32_t largest = largest_work(x), stack;

	if (peak_event(x) == TIMELINE_BEFORE)
		return 0;
	g->died = d && d->event == x->last;
	stack = g->died ? x->device->events.stack[d->event] : TRACE_NONE;
	g->step = timeline_step_of(x->repeats, g->died ? d->event : peak_event(x));
	if (!snapshot_stackless(x->snapshot, stack)) {
		g->stack = stack;
		g->bytes = x->device->events.size[d->event];
	} else if (largest != TRACE_NONE) {
		g->stack = x->device->allocs[largest].stack;
		g->bytes = x->device->allocs[largest].requested_bytes;
	} else {
		return 0;
	}
	return g->step < x->steps.n;
}

static void tell_longest(struct detecting *x, const struct gauge *g, uint64_t peak,
			 uint64_t usual_bytes, uint64_t usual_peak)
{
	struct finding *f =
		detect_add(x, "longest_batch", g->died ? FINDINGS_WARN : FINDINGS_INFO, 0.85);
	const char *what = x->repeats->basis == TIMELINE_BY_REQUEST ? "request" : "step";
	char a[32], b[32];

	f->bytes = peak - usual_peak;
	detect_place(x, f, g->stack, 0);
	detect_title(x, f, "the longest batch decides: %s %zu %s %s%s, the median %s peaks at %s",
		     what, g->step, g->died ? "needed" : "peaks at", text_size(a, peak),
		     g->died ? " and died" : "", what, text_size(b, usual_peak));
	detect_say(x, &f->evidence,
		   "the same line asked for %s at once in %s %zu and for %s in the median %s "
		   "(%.2f times)",
		   text_size(a, g->bytes), what, g->step, text_size(b, usual_bytes), what,
		   (double)g->bytes / (double)usual_bytes);
	detect_say(x, &f->evidence, "that is not a leak: %ss with shorter batches need less%s",
		   what, g->died ? "" : ", before and after it");
	detect_say(x, &f->fix,
		   "limit the size of one batch: by a maximum length, or by tokens instead of "
		   "samples");
	detect_say(x, &f->fix,
		   "run the longest batch first: then a size that does not fit fails at once, and "
		   "its blocks serve all others");
	if (g->died)
		detect_say(x, &f->see, "plimsoll report --at oom");
	else
		detect_say(x, &f->see, "plimsoll report --steps %zu:%zu", g->step, g->step);
}

/* The step's own peak, as the recording's may lie in another; where it died, with what was refused. */
static uint64_t step_need(const struct detecting *x, const struct gauge *g, uint64_t peak)
{
	const struct findings_death *d = x->in->death;

	return g->died && d->live_bytes + d->request_bytes > peak ? d->live_bytes + d->request_bytes
								  : peak;
}

void detect_longest_batch(struct detecting *x)
{
	size_t n = x->steps.n, count = 0;
	uint64_t *peaks, *sizes, *room, usual_bytes, usual_peak, peak;
	struct gauge g;

	if (n <= COMPARED_MIN || leaks_much(x) || !find_gauge(x, &g))
		return;
	sizes = sizes_by_step(x, g.stack);
	peaks = mem_new(x->mem, n, sizeof(*peaks), x->err);
	room = mem_new(x->mem, n, sizeof(*room), x->err);
	if (!sizes || !peaks || !room) {
		x->status = mem_status(x->err);
	} else {
		for (size_t i = 0; i < n; i++)
			peaks[i] = x->steps.at[i].event == TRACE_NONE ? 0 : x->steps.at[i].bytes;
		usual_peak = median(peaks, n, g.step, room, &count);
		usual_bytes = median(sizes, n, g.step, room, &count);
		peak = step_need(x, &g, peaks[g.step]);
		if (count + 1 >= COMPARED_MIN && g.bytes * 100 >= usual_bytes * LONGER_PCT &&
		    peak * 100 >= usual_peak * LONGER_PCT)
			tell_longest(x, &g, peak, usual_bytes, usual_peak);
	}
	mem_free(x->mem, sizes, n, sizeof(*sizes));
	mem_free(x->mem, peaks, n, sizeof(*peaks));
	mem_free(x->mem, room, n, sizeof(*room));
}

/* ---- optimizer_first_step ---- */

void detect_optimizer_first_step(struct detecting *x)
{
	const struct findings_death *d = x->in->death;
	struct finding *f;
	char a[32], b[32];

	if (!d || d->event != x->last || d->future != FINDINGS_FUTURE_OPTIMIZER)
		return;
	f = detect_add(x, "optimizer_first_step", FINDINGS_BAD, 0.95);
	f->bytes = d->still_low_bytes;
	detect_place(x, f, x->device->events.stack[d->event], 0);
	detect_title(x, f,
		     "it died in the optimizer's first step: at least %s of its state was still to "
		     "come",
		     text_size(a, d->still_low_bytes));
	detect_say(x, &f->evidence,
		   "an optimizer makes its state in its first step, parameter by parameter; at the "
		   "failure %s was live and not all of it was there",
		   text_size(b, d->live_bytes));
	detect_say(x, &f->evidence,
		   "forward and backward had fitted: that says nothing of the next step, which has "
		   "the state next to it");
	detect_say(
		x, &f->fix,
		"a leaner optimizer: 8-bit Adam (bitsandbytes.optim.AdamW8bit), Adafactor, SGD, or "
		"state sharded over GPUs (ZeRO, FSDP)");
	detect_say(x, &f->fix, "fewer trained parameters: LoRA keeps state for its adapters alone");
	detect_say(x, &f->fix, "a smaller batch does not help: this does not depend on the batch");
	detect_say(x, &f->see, "plimsoll report --at oom --group-by size");
}

/* ---- foreach_temporaries ---- */

static uint64_t other_peaks(const struct detecting *x)
{
	uint64_t most = 0;

	for (int p = 0; p < TIMELINE_PHASES; p++)
		if (p != TIMELINE_OPTIMIZER && x->in_phase[p].event != TRACE_NONE &&
		    x->in_phase[p].bytes > most)
			most = x->in_phase[p].bytes;
	return most;
}

/* Of a step of PyTorch's own optimizers on lists: what others do in theirs, fused=True does not change. */
static int is_of_a_list(const struct detecting *x, uint32_t alloc)
{
	static const char *const lists[] = { "_multi_tensor", "_foreach", NULL };
	const struct snapshot_alloc *one = &x->device->allocs[alloc];

	return detect_category(x, alloc) == TIMELINE_TEMPORARY && one->born != TRACE_NONE &&
	       detect_phase(x, one->born) == TIMELINE_OPTIMIZER &&
	       detect_mentions(x, one->stack, lists);
}

void detect_foreach(struct detecting *x)
{
	int died = detect_died_in(x, TIMELINE_OPTIMIZER);
	uint64_t bytes = 0, above = x->peak - other_peaks(x);
	uint32_t largest = TRACE_NONE;
	size_t count = 0;
	struct finding *f;
	char a[32];

	if (detect_phase(x, peak_event(x)) != TIMELINE_OPTIMIZER && !died)
		return;
	for (size_t i = 0; i < x->at_peak.n; i++) {
		uint32_t alloc = x->at_peak.at[i];
		const struct snapshot_alloc *one = &x->device->allocs[alloc];

		if (!is_of_a_list(x, alloc))
			continue;
		bytes += one->requested_bytes;
		count++;
		if (largest == TRACE_NONE ||
		    one->requested_bytes > x->device->allocs[largest].requested_bytes)
			largest = alloc;
	}
	if (count < LISTS_MIN || !detect_material(x, bytes) ||
	    (!died && !detect_material(x, above)))
		return;
	f = detect_add(x, "foreach_temporaries",
		       died ? FINDINGS_WARN : detect_severity(x, above < bytes ? above : bytes),
		       0.9);
	f->bytes = died || bytes < above ? bytes : above;
	for (size_t i = 0; i < x->at_peak.n; i++)
		if (is_of_a_list(x, x->at_peak.at[i]))
			detect_about(x, f, x->at_peak.at[i]);
	detect_place(x, f, x->device->allocs[largest].stack, 0);
	detect_title(x, f, "the optimizer's own lists take %s at the %s", text_size(a, bytes),
		     died ? "failure" : "peak");
	detect_say(x, &f->evidence,
		   "%zu tensors live in the optimizer's step alone; PyTorch's default on CUDA "
		   "(foreach) "
		   "works on whole lists and makes one as large as the parameters",
		   count);
	if (!died)
		detect_say(x, &f->evidence,
			   "without them the peak would lie elsewhere, %s lower at most",
			   text_size(a, f->bytes));
	detect_say(x, &f->fix,
		   "torch.optim.AdamW(params, fused=True) makes no lists and is as fast; "
		   "foreach=False "
		   "works tensor by tensor and is slower");
	detect_say(x, &f->see, "https://pytorch.org/docs/stable/optim.html");
}

/* ---- eval_heavier_than_train ---- */

/*
 * Does the pass of the peak hold on to what it makes?  Of the tensors that it made up to there, but the
 * largest, which may be its output, most bytes are alive when it ends.
 */
static int saves_for_backward(const struct detecting *x, uint32_t largest)
{
	const struct pass *p = NULL;
	uint64_t made = 0, kept = 0;
	size_t count = 0;

	for (size_t i = 0; i < x->passes.n; i++)
		if (x->passes.at[i].start <= peak_event(x))
			p = &x->passes.at[i];
	for (size_t i = 0; p && i < x->at_peak.n; i++) {
		const struct snapshot_alloc *a = &x->device->allocs[x->at_peak.at[i]];

		if (a->born == TRACE_NONE || a->born < p->start || x->at_peak.at[i] == largest)
			continue;
		made += a->requested_bytes;
		if (a->free_requested > p->end) {
			kept += a->requested_bytes;
			count++;
		}
	}
	return count >= SAVED_MIN && kept > made / 2;
}

void detect_eval_heavier(struct detecting *x)
{
	enum timeline_phase phase = detect_phase(x, peak_event(x));
	uint64_t train = 0, more;
	uint32_t largest = largest_work(x);
	struct finding *f;
	char a[32], b[32];

	for (int p = TIMELINE_FORWARD; p <= TIMELINE_OPTIMIZER; p++)
		if (x->in_phase[p].event != TRACE_NONE && x->in_phase[p].bytes > train)
			train = x->in_phase[p].bytes;
	if ((phase != TIMELINE_EVAL && phase != TIMELINE_GENERATE) || !x->in->steps->ends.n ||
	    !train || x->peak * 100 < train * HEAVIER_PCT || leaks_much(x))
		return;
	more = x->peak - train;
	f = detect_add(x, "eval_heavier_than_train", detect_severity(x, more), 0.85);
	f->bytes = more;
	if (largest != TRACE_NONE)
		detect_place(x, f, x->device->allocs[largest].stack, 0);
	detect_title(x, f, "evaluation needs %s more than training (%s against %s)",
		     text_size((char[32]){ 0 }, more), text_size(a, x->peak), text_size(b, train));
	if (saves_for_backward(x, largest)) {
		detect_say(
			x, &f->evidence,
			"most of what the pass made was still there when it ended: gradients are "
			"switched on, and it saves activations for a backward pass that never "
			"comes");
		detect_say(x, &f->fix,
			   "with torch.inference_mode(): out = model(x)  (or torch.no_grad())");
	} else {
		detect_say(
			x, &f->evidence,
			"the pass gives back what it makes: it works on more at once than training "
			"does (batch, length, or all logits)");
	}
	detect_say(
		x, &f->fix,
		"a smaller batch for evaluation: eval_batch_size, or per_device_eval_batch_size of "
		"Hugging Face's Trainer");
	detect_say(x, &f->see,
		   "https://pytorch.org/docs/stable/notes/autograd.html"
		   "#locally-disabling-gradient-computation");
}
