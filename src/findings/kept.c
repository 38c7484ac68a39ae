/*
 * Leaks: lines whose memory outlives the repetition it was born in, repetition after repetition.
 *
 * Repetitions are training steps, else passes of the model (an eval iteration, a request).  A stack
 * leaks if at the last boundary something of it lives from three repetitions (PERIODS_MIN), if next
 * to nothing that outlived its repetition was ever freed (a cache that evicts, sessions that end), and
 * if it has not stopped (a cache that is full).  What lives for one repetition more is normal: a
 * variable keeps its value until it gets the next one.
 * Weights, optimizer state and workspaces are kept on purpose and left out.
 *
 * A program whose repetitions are not seen this way is asked for its staircase (leak.c).
 */
#include "detect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIODS_MIN 3
/* Several forward passes can belong to one step that has not come to its backward pass yet. */
#define GRAPH_PERIODS_MIN 4
/*
 * So few repetitions must have kept about the same, about as often: else they are a workspace, an old
 * and a new value.
 */
#define ALIKE_UNTIL 5
/* Few bytes are told once they are certain to be a habit. */
#define TINY_PERIODS_MIN 5
#define TINY_PART 1000 /* of the peak */
/* Of what outlived its repetition, freed bytes are at most this part of those still there. */
#define FREED_PART 4
/* Allocations of so many stacks a repetition are a graph, not a result. */
#define GRAPH_STACKS 8
#define LINES_MAX 5   /* findings */
#define LINES_PART 20 /* lines with less than this part of the largest are told with it */
#define SCALAR_BYTES 4096
#define TOLD UINT32_MAX /* a line is told once */

/* What one stack keeps: what of it is alive at the last boundary. */
struct kept {
	uint64_t bytes, freed_bytes; /* freed before, though it had outlived its repetition */
	uint64_t first_bytes,
		newest_bytes; /* of the first repetition, a warm-up; of the last one */
	uint64_t now_bytes, least_bytes, most_bytes; /* of one repetition */
	uint32_t periods,
		settled;       /* repetitions of which something lives; those before the last two */
	uint32_t first, last;  /* of them */
	uint32_t settled_last; /* the last but the newest */
	uint32_t count;
	uint32_t gap;       /* the longest, in repetitions */
	uint32_t freed_end; /* when the first of it went after the last boundary, or TRACE_NONE */
	uint32_t first_event, last_event;
	uint8_t inferred;
};

/* The lines that keep, each with its stacks put together. */
struct line {
	uint32_t frame, stack; /* the stack that keeps most */
	uint64_t stack_bytes, bytes, largest_bytes;
	uint64_t each; /* bytes a repetition */
	uint32_t stacks, first, last, periods, freed_end, first_event, last_event;
	int inferred;
};

struct leaks {
	struct detecting *x;
	const uint32_t
		*bounds; /* events at which repetitions begin; the last one: where it is looked */
	uint32_t n;
	const char *period;   /* what a repetition is called; NULL: by the phase of the passes */
	const uint32_t *rank; /* passes: how many of the same phase came before; NULL for steps */
	struct kept *stacks;
	VEC(struct line) lines;
	uint32_t *line_of; /* by frame: index into lines + 1, or TOLD; 0: none yet */
};

/* ---- counting ---- */

static int on_purpose(enum timeline_category c)
{
	return c == TIMELINE_PARAMETER || c == TIMELINE_BUFFER || c == TIMELINE_OPTIMIZER_STATE ||
	       c == TIMELINE_WORKSPACE;
}

/* The repetition that was added up last is complete. */
static void close_period(struct kept *k)
{
	if (k->now_bytes < k->least_bytes)
		k->least_bytes = k->now_bytes;
	if (k->now_bytes > k->most_bytes)
		k->most_bytes = k->now_bytes;
	k->now_bytes = 0;
}

static void keep(struct kept *k, uint64_t bytes, uint32_t period, uint32_t n)
{
	if (!k->periods || period != k->last) {
		if (k->periods)
			close_period(k);
		if (k->periods && period - k->last > k->gap)
			k->gap = period - k->last;
		k->first = k->periods ? k->first : period;
		k->last = period;
		k->periods++;
		k->settled += period + 2 < n;
		k->settled_last = period + 1 < n ? period : k->settled_last;
	}
	k->first_bytes += period == k->first ? bytes : 0;
	k->newest_bytes += period + 1 == n ? bytes : 0;
	k->now_bytes += bytes;
	k->bytes += bytes;
	k->count++;
}

/*
 * A variable keeps its value until the next repetition has made a new one, which may be after the last
 * boundary: this value goes while older ones stay.  What is let go at a loop's end goes together.
 */
static int is_rebound(const struct leaks *l, const struct kept *k, uint32_t period, uint32_t gone)
{
	uint32_t n = l->n;

	return period + 2 == n && gone != TRACE_NONE &&
	       (uint64_t)gone + (l->bounds[n - 1] - l->bounds[n - 2]) < k->freed_end;
}

/* Repetition p of an allocation born between bounds p - 1 and p; it has outlived it at bound p + 1. */
static void count(struct leaks *l)
{
	const struct trace_device *d = l->x->device;
	uint32_t end = l->bounds[l->n - 1], p = 0;

	for (uint32_t a = 0; a < d->alloc_count; a++) {
		const struct trace_alloc *one = &d->allocs[a];
		uint32_t gone = one->free_requested, stack;
		struct kept *k;
		int inferred;

		if (one->born == TRACE_NONE || one->born >= end)
			continue;
		while (l->bounds[p] <= one->born)
			p++;
		if (gone < end && (p + 1 >= l->n || gone <= l->bounds[p + 1]))
			continue;
		stack = detect_stack(l->x, a, &inferred);
		if (stack == TRACE_NONE || on_purpose(detect_category(l->x, a)))
			continue;
		k = &l->stacks[stack];
		if (gone < end) {
			k->freed_bytes += l->x->tl->replay->block_bytes[a];
			continue;
		}
		if (is_rebound(l, k, p, gone))
			continue;
		k->freed_end = gone < k->freed_end ? gone : k->freed_end;
		k->first_event = k->periods ? k->first_event : one->born;
		k->last_event = one->born;
		keep(k, l->x->tl->replay->block_bytes[a], p, l->n);
		k->inferred = (uint8_t)inferred;
	}
}

/* From one repetition to another, counting those of their kind: training goes on between evaluations. */
static uint32_t distance(const struct leaks *l, uint32_t from, uint32_t to)
{
	const struct pass *passes = l->x->passes.at;

	if (!l->rank || !from || !to || passes[from - 1].phase != passes[to - 1].phase)
		return to - from;
	return l->rank[to - 1] - l->rank[from - 1];
}

static int leaks(const struct leaks *l, struct kept *k)
{
	uint32_t usual;

	if (k->periods < PERIODS_MIN || !k->settled || k->freed_bytes > k->bytes / FREED_PART)
		return 0;
	if (k->last + 1 < l->n) /* the last one may not be complete */
		close_period(k);
	usual = (k->last - k->first) / (k->periods - 1) + 1;
	if (k->periods < ALIKE_UNTIL && (2 * k->least_bytes < k->most_bytes || k->gap > 3 * usual))
		return 0;
	return l->n - 1 - k->last <= 2 * usual;
}

/* ---- lines ---- */

static struct line *line_at(struct leaks *l, uint32_t frame)
{
	struct detecting *x = l->x;

	if (l->line_of[frame] == TOLD)
		return NULL;
	if (!l->line_of[frame]) {
		x->status = vec_push(x->mem, &l->lines,
				     ((struct line){ .frame = frame,
						     .first = UINT32_MAX,
						     .first_event = UINT32_MAX,
						     .freed_end = TRACE_NONE }),
				     x->err);
		if (x->status)
			return NULL;
		l->line_of[frame] = (uint32_t)l->lines.n;
	}
	return &l->lines.at[l->line_of[frame] - 1];
}

static void add_stack(const struct leaks *l, struct line *line, uint32_t stack,
		      const struct kept *k)
{
	uint32_t settled_end;
	uint64_t each;

	if (k->bytes > line->stack_bytes) {
		line->stack = stack;
		line->stack_bytes = k->bytes;
		line->inferred = k->inferred;
	}
	/* the newest counts as one more like the others: part of it may be work that goes on */
	settled_end = k->newest_bytes ? k->settled_last : k->last;
	each = k->first_bytes;
	if (settled_end > k->first)
		each = (k->bytes - k->newest_bytes - k->first_bytes) /
		       distance(l, k->first, settled_end);
	line->each += each;
	line->bytes += k->bytes - k->newest_bytes;
	line->bytes += k->newest_bytes < each ? k->newest_bytes : each;
	line->stacks++;
	line->first = k->first < line->first ? k->first : line->first;
	line->last = k->last > line->last ? k->last : line->last;
	line->periods = k->periods > line->periods ? k->periods : line->periods;
	line->freed_end = k->freed_end < line->freed_end ? k->freed_end : line->freed_end;
	line->first_event = k->first_event < line->first_event ? k->first_event : line->first_event;
	line->last_event = k->last_event > line->last_event ? k->last_event : line->last_event;
	if (k->bytes / k->count > line->largest_bytes)
		line->largest_bytes = k->bytes / k->count;
}

static int larger_line(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

static void collect(struct leaks *l)
{
	struct detecting *x = l->x;

	l->lines.n = 0;
	for (uint32_t s = 0; s < x->trace->stacks.n && !x->status; s++) {
		struct line *line = leaks(l, &l->stacks[s])
					    ? line_at(l, timeline_user_frame(x->trace, s))
					    : NULL;

		if (line)
			add_stack(l, line, s, &l->stacks[s]);
	}
	for (size_t i = 0; i < l->lines.n; i++)
		l->line_of[l->lines.at[i].frame] = 0;
	if (l->lines.n)
		qsort(l->lines.at, l->lines.n, sizeof(*l->lines.at), larger_line);
}

/* ---- what it may be ---- */

enum kind { KIND_GRAPH, KIND_OUTPUTS, KIND_SCALARS, KIND_HIDDEN, KIND_EVAL, KIND_ATTRIBUTE };

static const struct kind_text {
	const char *guess, *fix;
} kinds[] = {
	[KIND_GRAPH] = { "it looks like whole graphs that are kept: a loss or an output that still "
			 "has "
			 "its graph is appended to a list or added up",
			 "keep numbers, not graphs: losses.append(loss.item()), total += "
			 "loss.detach()" },
	[KIND_OUTPUTS] = { "it looks like results that are piled up on the GPU",
			   "keep what you need of them, off the GPU: "
			   "preds.append(out.argmax(-1).cpu())" },
	[KIND_SCALARS] = { "it looks like scalars that are collected; their graphs are gone",
			   "losses.append(loss.item()); it costs next to nothing either way" },
	[KIND_HIDDEN] = { "it looks like hidden state that is carried from batch to batch with its "
			  "graph, so that each batch holds on to all before it",
			  "cut the chain after each batch: h = h.detach(), or "
			  "h = tuple(t.detach() for t in h)" },
	[KIND_EVAL] = { "it looks like evaluation with gradients switched on: each iteration's "
			"whole "
			"graph stays with what is kept of it",
			"evaluate under torch.inference_mode() (or torch.no_grad()), and keep "
			"out.cpu()" },
	[KIND_ATTRIBUTE] = { "it looks like a cache inside a module: an attribute that collects "
			     "tensors in forward()",
			     "bound the cache or empty it, and store x.detach(): "
			     "self.cache = collections.deque(maxlen=8)" },
};

static enum timeline_phase phase_of(const struct leaks *l, const struct line *line)
{
	const struct detecting *x = l->x;
	enum timeline_phase phase = detect_phase(x, line->last_event);

	/* what is made of an output outside of the model belongs to the pass before it */
	for (size_t i = x->passes.n; i-- > 0 && phase == TIMELINE_OTHER;)
		if (x->passes.at[i].start <= line->last_event)
			phase = x->passes.at[i].phase;
	return phase;
}

/* The likeliest kind, and the one after it. */
static void guess(const struct leaks *l, const struct line *line, enum kind ranked[2])
{
	static const char *const recurrent[] = { "/nn/modules/rnn.py", "lstm", "gru", NULL };
	const struct detecting *x = l->x;
	const char *function = trace_text(x->trace, trace_frame(x->trace, line->frame)->name);
	enum timeline_phase phase = phase_of(l, line);
	int graph = line->stacks >= GRAPH_STACKS;

	if (phase == TIMELINE_EVAL || phase == TIMELINE_GENERATE) {
		ranked[0] = graph ? KIND_EVAL : KIND_OUTPUTS;
		ranked[1] = graph ? KIND_OUTPUTS : KIND_EVAL;
	} else if (detect_mentions(x, line->stack, recurrent) &&
		   line->largest_bytes > SCALAR_BYTES) {
		ranked[0] = KIND_HIDDEN;
		ranked[1] = KIND_GRAPH;
	} else if (graph) {
		ranked[0] = KIND_GRAPH;
		ranked[1] = x->steps.n ? KIND_HIDDEN : KIND_EVAL;
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

static const char *period_of(const struct leaks *l, const struct line *line)
{
	if (l->period)
		return l->period;
	switch (phase_of(l, line)) {
	case TIMELINE_EVAL: return "eval iteration";
	case TIMELINE_GENERATE: return "request";
	default: /* where there is a backward pass, it is training without an optimizer in sight */
		return l->x->in_phase[TIMELINE_BACKWARD].event == TRACE_NONE ? "forward pass"
									     : "step";
	}
}

/* ---- telling ---- */

static void tell_fix(struct detecting *x, struct finding *f, const enum kind ranked[2])
{
	detect_say(x, &f->fix, "%s", kinds[ranked[0]].fix);
	detect_say(x, &f->fix, "%s", kinds[ranked[1]].fix);
	detect_say(x, &f->fix,
		   "a recording shows where memory was born, not who holds it: look for the list, "
		   "dict, attribute or closure that still refers to it (gc.get_referrers(tensor))");
	detect_say(x, &f->fix,
		   "a smaller batch or empty_cache() only delays it: the memory is in use");
	detect_say(x, &f->see, "plimsoll report --at end --group-by stack");
	detect_say(x, &f->see,
		   "https://pytorch.org/docs/stable/notes/faq.html"
		   "#my-model-reports-cuda-runtime-error-2-out-of-memory");
}

static void tell(struct leaks *l, const struct line *line, uint64_t others, size_t other_lines)
{
	struct detecting *x = l->x;
	uint32_t span = distance(l, line->first, line->last);
	uint64_t each = line->each;
	enum findings_severity severity = detect_material(x, line->bytes) ? FINDINGS_BAD
					  : detect_material(x, 10 * each) ? FINDINGS_WARN
									  : FINDINGS_INFO;
	struct finding *f = detect_add(x, "leak", severity, line->periods > 4 ? 0.95 : 0.8);
	const char *period = period_of(l, line);
	enum kind ranked[2];
	char a[32], b[32];

	if (span + 1 < line->periods) /* of two kinds */
		span = line->periods - 1;
	guess(l, line, ranked);
	f->bytes = line->bytes;
	f->bytes_per_period = each;
	f->period = period;
	detect_place(x, f, line->stack, line->inferred);
	detect_title(x, f, "leak: %s more every %s, %s so far", text_size(a, each), period,
		     text_size(b, line->bytes));
	if (line->periods == span + 1)
		snprintf(a, sizeof(a), "each");
	else
		snprintf(a, sizeof(a), "%u", line->periods);
	detect_say(
		x, &f->evidence,
		"something of %s of the last %u %s%s is still alive; next to nothing that outlived "
		"its %s was freed before the last one",
		a, span + 1, period, !strcmp(period, "forward pass") ? "es" : "s", period);
	detect_say(x, &f->evidence, "%s; if not, %s", kinds[ranked[0]].guess,
		   kinds[ranked[1]].guess + strlen("it looks like "));
	detect_say(x, &f->evidence, "at this rate 1,000 more keep %s", text_size(a, 1000 * each));
	if (line->freed_end != TRACE_NONE && line->freed_end < x->last)
		detect_say(x, &f->evidence,
			   "it began to go only after the loop had ended (event %u): what holds it "
			   "lives as long as the loop",
			   line->freed_end);
	if (other_lines)
		detect_say(x, &f->evidence, "%zu more line%s keep%s %s in the same repetitions",
			   other_lines, other_lines == 1 ? "" : "s", other_lines == 1 ? "s" : "",
			   text_size(a, others));
	tell_fix(x, f, ranked);
	f->leak = (struct findings_leak){ .repetitions = span,
					  .grown_bytes = line->bytes,
					  .per_repetition_bytes = each,
					  .first_event = line->first_event,
					  .last_event = line->last_event,
					  .loop_frame = TRACE_NONE,
					  .stack = f->stack,
					  .frame = f->frame,
					  .part_bytes = line->stack_bytes };
}

static int certain(const struct leaks *l, const struct line *line)
{
	enum timeline_phase phase = phase_of(l, line);
	uint32_t least = PERIODS_MIN;

	if (!l->period && phase == TIMELINE_FORWARD && line->stacks >= GRAPH_STACKS)
		least = GRAPH_PERIODS_MIN;
	if (line->bytes < l->x->peak / TINY_PART)
		least = TINY_PERIODS_MIN;
	return line->periods >= least;
}

static void tell_lines(struct leaks *l)
{
	uint64_t others = 0;
	size_t told = 0, certain_lines = 0;

	for (size_t i = 0; i < l->lines.n; i++)
		if (certain(l, &l->lines.at[i]))
			l->lines.at[certain_lines++] = l->lines.at[i];
	while (told < certain_lines && told < LINES_MAX &&
	       l->lines.at[told].bytes >= l->lines.at[0].bytes / LINES_PART)
		told++;
	for (size_t i = told; i < certain_lines; i++)
		others += l->lines.at[i].bytes;
	for (size_t i = 0; i < certain_lines; i++)
		l->line_of[l->lines.at[i].frame] = TOLD;
	for (size_t i = 0; i < told; i++)
		tell(l, &l->lines.at[i], i ? 0 : others, i ? 0 : certain_lines - told);
}

static void look_between(struct leaks *l, const uint32_t *bounds, size_t n, const char *period)
{
	struct detecting *x = l->x;

	if (n < PERIODS_MIN || x->status)
		return;
	l->bounds = bounds;
	l->n = (uint32_t)n;
	l->period = period;
	for (uint32_t s = 0; s < x->trace->stacks.n; s++)
		l->stacks[s] = (struct kept){ .least_bytes = UINT64_MAX, .freed_end = TRACE_NONE };
	count(l);
	collect(l);
	tell_lines(l);
}

/* A staircase that neither steps nor passes explain. */
static void tell_staircase(struct detecting *x)
{
	struct findings_leak leak;
	struct finding *f;
	char a[32], b[32];
	int found;

	x->status = findings_find_leak(x->mem, x->tl, x->last, &leak, &found, x->err);
	if (x->status || !found || leak.grown_bytes < x->peak / TINY_PART)
		return;
	f = detect_add(x, "leak",
		       detect_material(x, leak.grown_bytes) ? FINDINGS_BAD : FINDINGS_INFO, 0.8);
	f->bytes = leak.grown_bytes;
	f->bytes_per_period = leak.per_repetition_bytes;
	f->period = "repetition";
	f->leak = leak;
	detect_place(x, f, leak.stack, 0);
	detect_title(x, f, "leak: %s more every repetition, %s so far",
		     text_size(a, leak.per_repetition_bytes), text_size(b, leak.grown_bytes));
	detect_say(x, &f->evidence,
		   "the lowest live memory of each repetition climbed %u times in a row",
		   leak.repetitions);
	detect_say(x, &f->evidence, "%s of what stays was allocated at this place",
		   text_size(a, leak.part_bytes));
	tell_fix(x, f, (const enum kind[2]){ KIND_OUTPUTS, KIND_GRAPH });
}

static void bounds_of_passes(struct detecting *x, uint32_t **bounds, uint32_t **rank, size_t *n)
{
	uint32_t seen[TIMELINE_PHASES] = { 0 };
	const struct pass *last = x->passes.n ? &x->passes.at[x->passes.n - 1] : NULL;

	*n = 0;
	*bounds = mem_new(x->mem, x->passes.n + 1, sizeof(**bounds), x->err);
	*rank = *bounds ? mem_new(x->mem, x->passes.n, sizeof(**rank), x->err) : NULL;
	if (!*rank)
		x->status = mem_status(x->err);
	for (size_t i = 0; i < x->passes.n && !x->status; i++) {
		(*rank)[i] = seen[x->passes.at[i].phase]++;
		(*bounds)[(*n)++] = x->passes.at[i].start;
	}
	if (!x->status && last)
		(*bounds)[(*n)++] = last->end + 1;
}

void detect_leaks(struct detecting *x)
{
	size_t stacks = x->trace->stacks.n, frames = x->trace->frames.n, n, before = x->out->all.n;
	struct leaks l = { .x = x };
	uint32_t *bounds = NULL, *rank = NULL;

	l.stacks = mem_new(x->mem, stacks, sizeof(*l.stacks), x->err);
	l.line_of = l.stacks ? mem_new(x->mem, frames, sizeof(*l.line_of), x->err) : NULL;
	if (!l.line_of) {
		x->status = mem_status(x->err);
	} else {
		look_between(&l, x->in->steps->ends.at, x->in->steps->ends.n, "step");
		bounds_of_passes(x, &bounds, &rank, &n);
		l.rank = rank;
		look_between(&l, bounds, n, NULL);
	}
	mem_free(x->mem, bounds, x->passes.n + 1, sizeof(*bounds));
	mem_free(x->mem, rank, x->passes.n, sizeof(*rank));
	if (!x->status && x->out->all.n == before)
		tell_staircase(x);
	vec_release(x->mem, &l.lines);
	mem_free(x->mem, l.line_of, frames, sizeof(*l.line_of));
	mem_free(x->mem, l.stacks, stacks, sizeof(*l.stacks));
}
