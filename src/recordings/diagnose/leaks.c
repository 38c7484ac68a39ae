/*
 * Leaks as an expert shows them: which lines, how fast, what it may be, what to do.  What leaks_by_line.c finds
 * decides; where a stretch of the program shows neither steps nor passes, its staircase does.
 */
#include "leaks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 5   /* findings */
#define LINES_PART 20 /* lines with less than this part of the largest are reported with it */
#define SCALAR_BYTES 4096

/* ---- finding ---- */

static int larger_line(const void *a, const void *b)
{
	const struct leak_line *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

/* Do steps or passes show what repeats in these events? */
static int repetitions_seen(const struct detecting *x, uint32_t first, uint32_t last)
{
	const struct timeline_steps *steps = x->in->steps;
	size_t ends = 0, starts = 0;

	for (size_t i = 0; i < steps->ends.n; i++)
		ends += steps->ends.at[i] >= first && steps->ends.at[i] <= last;
	for (size_t i = 0; i < x->passes.n; i++)
		starts += x->passes.at[i].start >= first && x->passes.at[i].start <= last;
	return ends >= LEAKS_PERIODS_MIN || starts >= LEAKS_PERIODS_MIN;
}

/*
 * Layers of one pass and weights of one optimizer's step repeat themselves, too: what climbs within one of these, saved
 * activations, autocast's copies of weights, the optimizer's state, is bounded by the model.
 */
static int within_one_pass(const struct detecting *x, uint32_t first, uint32_t last)
{
	enum timeline_phase phase = detect_phase(x, first);

	if (!timeline_is_pass(phase) && phase != TIMELINE_BACKWARD && phase != TIMELINE_OPTIMIZER)
		return 0;
	while (first < last && detect_phase(x, first) == phase)
		first++;
	return first == last;
}

/* Does a function on the stack load or build a model?  That allocates again and again, too, and keeps it. */
static int loads(const struct detecting *x, uint32_t stack)
{
	static const char *const building[] = { "from_pretrained", "load_model",
						"load_weights",    "load_state_dict",
						"load_checkpoint", "load" };
	uint32_t n;
	const uint32_t *frames = snapshot_python_stack(x->snapshot, stack, &n);

	for (uint32_t i = 0; i < n; i++) {
		const char *name =
			snapshot_text(x->snapshot, snapshot_frame(x->snapshot, frames[i])->name);

		for (size_t k = 0; k < sizeof(building) / sizeof(building[0]); k++)
			if (!strcmp(name, building[k]))
				return 1;
	}
	return 0;
}

static void add_staircase(struct detecting *x, struct leak_lines *out)
{
	struct staircase s;

	x->status = staircase_find(x->mem, x->tl, x->last, &s, x->err);
	if (x->status || !s.repetitions || s.grown_bytes < x->peak / LEAKS_TINY_PART ||
	    repetitions_seen(x, s.first_event, s.last_event) ||
	    within_one_pass(x, s.first_event, s.last_event) || loads(x, s.stack))
		return;
	x->status = vec_push(x->mem, &out->all,
			     ((struct leak_line){ .period = "repetition",
						  .phase = TIMELINE_OTHER,
						  .frame = s.frame,
						  .stack = s.stack,
						  .bytes = s.grown_bytes,
						  .live_bytes = s.grown_bytes,
						  .each_bytes = s.per_repetition_bytes,
						  .stack_bytes = s.part_bytes,
						  .largest_bytes = s.part_bytes,
						  .stacks = 1,
						  .count = 1,
						  .periods = s.repetitions,
						  .span = s.repetitions,
						  .caller = TRACE_NONE,
						  .freed_end = TRACE_NONE,
						  .first_event = s.first_event,
						  .last_event = s.last_event,
						  .loop_frame = s.loop_frame }),
			     x->err);
}

static void find_lines(struct detecting *x, struct leak_lines *out)
{
	leaks_kept(x, out);
	if (!x->status && !out->all.n)
		add_staircase(x, out);
	if (!x->status && out->all.n)
		sort_items(out->all.at, out->all.n, sizeof(*out->all.at), larger_line);
}

/* ---- what it may be ---- */

const char findings_leak_holder[] =
	"a recording shows where memory was allocated, not who holds it: "
	"look for the list, dict, attribute "
	"or closure that still refers to it (gc.get_referrers(tensor))";
const char findings_leak_delay[] =
	"a smaller batch or empty_cache() only delays it: the memory is in use";

enum kind { KIND_GRAPH, KIND_OUTPUTS, KIND_SCALARS, KIND_HIDDEN, KIND_EVAL, KIND_ATTRIBUTE };

static const struct kind_text {
	const char *guess, *fix;
} kinds[] = {
	[KIND_GRAPH] = { "whole graphs that are kept: a loss or an output that still "
			 "has "
			 "its graph is appended to a list or added up",
			 "keep numbers, not graphs: losses.append(loss.item()), total += "
			 "loss.detach()" },
	[KIND_OUTPUTS] = { "results that are piled up on the GPU",
			   "keep what you need of them, off the GPU: "
			   "preds.append(out.argmax(-1).cpu())" },
	[KIND_SCALARS] = { "scalars that are collected; their graphs are gone",
			   "losses.append(loss.item()); it costs next to nothing either way" },
	[KIND_HIDDEN] = { "hidden state that is carried from batch to batch with its "
			  "graph, so that each batch holds on to all before it",
			  "cut the chain after each batch: h = h.detach(), or "
			  "h = tuple(t.detach() for t in h)" },
	[KIND_EVAL] = { "evaluation with gradients switched on: each iteration's "
			"whole "
			"graph stays with what is kept of it",
			"evaluate under torch.inference_mode() (or torch.no_grad()), and keep "
			"out.cpu()" },
	[KIND_ATTRIBUTE] = { "a cache inside a module: an attribute that collects "
			     "tensors in forward()",
			     "bound the cache or empty it, and store x.detach(): "
			     "self.cache = collections.deque(maxlen=8)" },
};

/* The likeliest kind, and the one after it. */
static void guess(const struct detecting *x, const struct leak_line *line, enum kind ranked[2])
{
	static const char *const recurrent[] = { "/nn/modules/rnn.py", "lstm", "gru", NULL };
	const char *function =
		line->frame == TRACE_NONE
			? ""
			: snapshot_text(x->snapshot,
					snapshot_frame(x->snapshot, line->frame)->name);
	enum timeline_phase phase = line->phase;
	int graph = leak_is_graph(line);

	if (timeline_is_pass(phase) && phase != TIMELINE_FORWARD) {
		ranked[0] = graph ? KIND_EVAL : KIND_OUTPUTS;
		ranked[1] = graph ? KIND_OUTPUTS : KIND_EVAL;
	} else if (line->stack != TRACE_NONE && detect_mentions(x, line->stack, recurrent) &&
		   line->largest_bytes > SCALAR_BYTES) {
		ranked[0] = KIND_HIDDEN;
		ranked[1] = KIND_GRAPH;
	} else if (graph) {
		ranked[0] = KIND_GRAPH;
		ranked[1] = x->in->steps->ends.n ? KIND_HIDDEN : KIND_EVAL;
	} else if (line->largest_bytes <= SCALAR_BYTES) {
		ranked[0] = KIND_SCALARS;
		ranked[1] = KIND_GRAPH;
	} else {
		ranked[0] = KIND_OUTPUTS;
		ranked[1] = KIND_GRAPH;
	}
	/* a module's own line, few tensors: it keeps them itself, or its caller does */
	if (!graph && !strcmp(function, "forward")) {
		ranked[1] = ranked[0];
		ranked[0] = KIND_ATTRIBUTE;
	}
}

static struct findings_leak as_leak(const struct detecting *x, const struct leak_line *line)
{
	struct findings_leak leak = {
		.period = line->period,
		.confidence = line->loop_frame == TRACE_NONE && line->periods > 4 ? 0.95 : 0.8,
		.repetitions = line->span,
		.lines = 1,
		.grown_bytes = line->bytes,
		.before_bytes = line->before_bytes,
		.per_repetition_bytes = line->each_bytes,
		.first_event = line->first_event,
		.last_event = line->last_event,
		.loop_frame = line->loop_frame,
		.stack = line->stack,
		.frame = line->frame,
		.part_bytes = line->stack_bytes
	};
	enum kind ranked[2];

	guess(x, line, ranked);
	for (int i = 0; i < 2; i++) {
		leak.guess[i] = kinds[ranked[i]].guess;
		leak.fix[i] = kinds[ranked[i]].fix;
	}
	return leak;
}

/* ---- for the verdict of a death ---- */

enum plim_status findings_find_leak(struct mem *m, const struct findings_input *in, uint32_t end,
				    struct findings_leak *leak, struct plim_err *err)
{
	struct detecting x = { .mem = m, .err = err, .in = in };
	struct leak_lines lines = { 0 };

	*leak = (struct findings_leak){ .loop_frame = TRACE_NONE,
					.stack = TRACE_NONE,
					.frame = TRACE_NONE };
	if (!in->tl->device->events.n || !in->categories->mem)
		return PLIM_OK;
	detect_begin(&x, end);
	if (!x.status)
		find_lines(&x, &lines);
	if (!x.status && lines.all.n) {
		*leak = as_leak(&x, &lines.all.at[0]);
		leak->grown_bytes = leak->per_repetition_bytes = leak->before_bytes = 0;
		leak->lines = 0;
	}
	for (size_t i = 0; !x.status && i < lines.all.n; i++) {
		const struct leak_line *line = &lines.all.at[i];

		leak->lines++;
		leak->grown_bytes +=
			line->live_bytes < line->bytes ? line->live_bytes : line->bytes;
		leak->before_bytes += line->before_bytes;
		if (!strcmp(line->period, leak->period))
			leak->per_repetition_bytes += line->each_bytes;
	}
	leaks_release(&x, &lines);
	detect_end(&x);
	return x.status;
}

/* ---- telling ---- */

static void tell_fix(struct detecting *x, struct finding *f)
{
	detect_say(x, &f->fix, "%s", f->leak.fix[0]);
	detect_say(x, &f->fix, "%s", f->leak.fix[1]);
	detect_say(x, &f->fix, "%s", findings_leak_holder);
	detect_say(x, &f->fix, "%s", findings_leak_delay);
	detect_say(x, &f->see, "plimsoll report --at end --group-by stack");
	detect_say(x, &f->see,
		   "https://pytorch.org/docs/stable/notes/faq.html"
		   "#my-model-reports-cuda-runtime-error-2-out-of-memory");
}

/* What shows that it stays. */
static void tell_evidence(struct detecting *x, struct finding *f, const struct leak_line *line)
{
	char a[32];

	if (line->loop_frame != TRACE_NONE) {
		detect_say(x, &f->evidence,
			   "the lowest live memory of each repetition climbed %u times in a row",
			   line->span);
		detect_say(x, &f->evidence, "%s of what stays was allocated at this place",
			   text_size(a, line->stack_bytes));
		return;
	}
	if (line->periods == line->span + 1)
		snprintf(a, sizeof(a), "each");
	else
		snprintf(a, sizeof(a), "%u", line->periods);
	detect_say(
		x, &f->evidence,
		"something of %s of the last %u %s%s is still alive; next to nothing that outlived "
		"its %s was freed before the last one",
		a, line->span + 1, line->period, !strcmp(line->period, "forward pass") ? "es" : "s",
		line->period);
	if (line->before_bytes)
		detect_say(x, &f->evidence,
			   "%s of it was there before the recording began, with the stack and the "
			   "sizes of what leaks in it",
			   text_size(a, line->before_bytes));
}

/*
 * By rate and confidence, never by the bytes so far: a short recording of a leak is one of a leak.  An error is what takes
 * another tenth of the peak in a thousand repetitions.
 */
#define REPETITIONS 1000
#define GROWN_PART 10
#define SURE 0.8

static enum findings_severity severity_of(const struct detecting *x, const struct leak_line *line,
					  double confidence)
{
	return confidence >= SURE && line->each_bytes * REPETITIONS >= x->peak / GROWN_PART
		       ? FINDINGS_BAD
		       : FINDINGS_WARN;
}

/* A staircase knows its place alone: it is about what was allocated there on it, and lives when the last repetition begins. */
static void list_stairs(struct detecting *x, const struct leak_line *line, struct finding *f)
{
	for (uint32_t a = 0; a < x->device->alloc_count; a++) {
		const struct snapshot_alloc *one = &x->device->allocs[a];
		uint32_t stack =
			snapshot_stackless(x->snapshot, one->stack) ? TRACE_NONE : one->stack;

		if (one->born != TRACE_NONE && one->born >= line->first_event &&
		    one->born <= line->last_event && stack == line->stack &&
		    timeline_lives(one, TIMELINE_ALLOCATED, line->last_event))
			detect_about(x, f, a);
	}
}

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void list_allocations(struct detecting *x, const struct leak_lines *lines,
			     const struct leak_line *line, struct finding *f)
{
	uint32_t last = line->rows.last;

	if (line->loop_frame != TRACE_NONE) {
		list_stairs(x, line, f);
		return;
	}
	for (uint32_t a = line->rows.first; a != TRACE_NONE;
	     a = a == last ? TRACE_NONE : lines->next[a])
		detect_about(x, f, a);
	sort_items(f->about.at, f->about.n, sizeof(*f->about.at), by_number);
}

static void tell_leaks(struct detecting *x, const struct leak_lines *lines,
		       const struct leak_line *line, uint64_t others, size_t other_lines)
{
	struct findings_leak leak = as_leak(x, line);
	enum findings_severity severity = severity_of(x, line, leak.confidence);
	struct finding *f = detect_add(x, "leak", severity, leak.confidence);
	char a[32], b[32];

	f->bytes = line->bytes;
	f->bytes_per_period = line->each_bytes;
	f->period = line->period;
	f->leak = leak;
	list_allocations(x, lines, line, f);
	detect_place(x, f, line->stack, line->inferred);
	f->frame = line->frame;
	detect_title(x, f, "leak: %s more every %s, %s so far", text_size(a, line->each_bytes),
		     line->period, text_size(b, line->bytes));
	tell_evidence(x, f, line);
	detect_say(x, &f->evidence, "it looks like %s; if not, %s", leak.guess[0], leak.guess[1]);
	detect_say(x, &f->evidence, "at this rate 1,000 more keep %s",
		   text_size(a, 1000 * line->each_bytes));
	if (line->freed_end != TRACE_NONE && line->freed_end < x->last)
		detect_say(x, &f->evidence,
			   "it began to go only after the loop had ended (event %u): what holds it "
			   "lives as long as the loop",
			   line->freed_end);
	if (other_lines)
		detect_say(x, &f->evidence, "%zu more line%s keep%s %s as well", other_lines,
			   text_s(other_lines), other_lines == 1 ? "s" : "", text_size(a, others));
	tell_fix(x, f);
}

void detect_leaks(struct detecting *x)
{
	struct leak_lines lines = { 0 };
	uint64_t others = 0;
	size_t told = 0;

	find_lines(x, &lines);
	while (told < lines.all.n && told < LINES_MAX &&
	       lines.all.at[told].bytes >= lines.all.at[0].bytes / LINES_PART)
		told++;
	for (size_t i = told; i < lines.all.n; i++)
		others += lines.all.at[i].bytes;
	for (size_t i = 0; i < told && !x->status; i++)
		tell_leaks(x, &lines, &lines.all.at[i], i ? 0 : others, i ? 0 : lines.all.n - told);
	leaks_release(x, &lines);
}
