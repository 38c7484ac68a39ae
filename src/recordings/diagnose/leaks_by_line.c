/*
 * Lines whose memory outlives the repetition it was allocated in, repetition after repetition.
 *
 * Repetitions are training steps, else passes of the model (an eval iteration, a request).  A stack
 * leaks if at the last boundary something of it lives from three repetitions (LEAKS_PERIODS_MIN), if next
 * to nothing that outlived its repetition was ever freed (a cache that evicts, sessions that end), and
 * if it has not stopped (a cache that is full).  What lives for one repetition more is normal: a
 * variable keeps its value until it gets the next one.  What the stack kept before the recording began belongs to the
 * leak (leaks_before.c).
 * Weights, optimizer state and workspaces are kept on purpose and left out.
 */
#include "leaks.h"

/* Several forward passes can belong to one step that has not come to its backward pass yet. */
#define GRAPH_PERIODS_MIN 4
/*
 * So few repetitions must have kept about the same, about as often: else they are a workspace, an old
 * and a new value.
 */
#define ALIKE_UNTIL 5
/* Few bytes (LEAKS_TINY_PART) are reported once they are certain to be a habit. */
#define TINY_PERIODS_MIN 5
/* Of what outlived its repetition, freed bytes are at most this part of those still there. */
#define FREED_PART 4
#define FOUND UINT32_MAX /* a line is found once */

/* What one stack keeps: what of it is alive at the last boundary. */
struct kept {
	uint64_t bytes, freed_bytes; /* freed before, though it had outlived its repetition */
	uint64_t live_bytes;         /* of the bytes, alive at detecting.last too */
	uint64_t first_bytes,
		newest_bytes; /* of the first repetition, a warm-up; of the last one */
	uint64_t now_bytes, least_bytes, most_bytes; /* of one repetition */
	uint32_t periods,
		settled;       /* repetitions of which something lives; those before the last two */
	uint32_t first, last;  /* of them */
	uint32_t settled_last; /* the last but the newest */
	uint32_t count;
	uint32_t gap;       /* the longest, in repetitions */
	uint32_t least_gap; /* the shortest */
	uint32_t freed_end; /* when the first of it went after the last boundary, or TRACE_NONE */
	uint32_t first_event, last_event;
	struct leak_rows rows;
	uint8_t inferred;
};

struct leaks {
	struct detecting *x;
	const uint32_t
		*bounds; /* events at which repetitions begin; the last one: where it is looked */
	uint32_t n;
	const char *period;   /* what a repetition is called; NULL: by the phase of the passes */
	const uint32_t *rank; /* passes: how many of the same phase came before; NULL for steps */
	struct kept *stacks;
	struct leaks_before before;
	VEC(struct leak_line) lines;
	uint32_t *next;      /* by allocation: the next one of its stack */
	uint32_t *line_next; /* leak_lines.next */
	VEC(struct sized {
		uint64_t bytes;
		uint32_t alloc;
	})
	newest;            /* of one stack */
	uint32_t *line_of; /* by frame: index into lines + 1, or FOUND; 0: none yet */
};

/* ---- rows ---- */

static void append_rows(struct leak_rows *to, struct leak_rows from, uint32_t *next)
{
	if (from.first == TRACE_NONE)
		return;
	if (to->first == TRACE_NONE)
		to->first = from.first;
	else
		next[to->last] = from.first;
	to->last = from.last;
}

/* ---- counting ---- */

/* The repetition that was added up last is complete. */
static void close_period(struct kept *k)
{
	if (k->now_bytes < k->least_bytes)
		k->least_bytes = k->now_bytes;
	if (k->now_bytes > k->most_bytes)
		k->most_bytes = k->now_bytes;
	k->now_bytes = 0;
}

static void keep_leak_line(struct kept *k, uint64_t bytes, uint32_t period, uint32_t n)
{
	if (!k->periods || period != k->last) {
		if (k->periods)
			close_period(k);
		if (k->periods && period - k->last > k->gap)
			k->gap = period - k->last;
		if (k->periods == 1 || (k->periods && period - k->last < k->least_gap))
			k->least_gap = period - k->last;
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
static void count_leak_line(struct leaks *l)
{
	const struct snapshot_device *d = l->x->device;
	uint32_t end = l->bounds[l->n - 1], p = 0;

	for (uint32_t a = 0; a < d->alloc_count; a++) {
		const struct snapshot_alloc *one = &d->allocs[a];
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
		if (stack == TRACE_NONE || leak_on_purpose(detect_category(l->x, a)))
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
		k->live_bytes += gone > l->x->last ? l->x->tl->replay->block_bytes[a] : 0;
		keep_leak_line(k, l->x->tl->replay->block_bytes[a], p, l->n);
		append_rows(&k->rows, (struct leak_rows){ a, a }, l->next);
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

/* How many repetitions lie between two that keep something. */
static uint32_t usual_gap(const struct kept *k)
{
	return k->periods > 1 ? (k->last - k->first) / (k->periods - 1) + 1 : 0;
}

/* Is as good as nothing freed of what outlived its repetition, in the recording or before it? */
static int never_freed(struct leaks *l, uint32_t stack, const struct kept *k)
{
	if (k->freed_bytes > k->bytes / FREED_PART)
		return 0;
	leaks_before_learn(l->x, &l->before, k->rows, l->next);
	return k->freed_bytes + leaks_before_freed(l->x, &l->before, stack) <=
	       k->bytes / FREED_PART;
}

static int leaks(struct leaks *l, uint32_t stack)
{
	struct kept *k = &l->stacks[stack];
	uint32_t usual;

	if (k->periods < LEAKS_PERIODS_MIN || !k->settled || !never_freed(l, stack, k))
		return 0;
	if (k->last + 1 < l->n) /* the last one may not be complete */
		close_period(k);
	usual = usual_gap(k);
	if (k->periods < ALIKE_UNTIL && (2 * k->least_bytes < k->most_bytes || k->gap > 3 * usual))
		return 0;
	return l->n - 1 - k->last <= 2 * usual;
}

/* ---- lines ---- */

static struct leak_line *line_at(struct leaks *l, uint32_t frame)
{
	struct detecting *x = l->x;

	if (l->line_of[frame] == FOUND)
		return NULL;
	if (!l->line_of[frame]) {
		x->status = vec_push(x->mem, &l->lines,
				     ((struct leak_line){ .frame = frame,
							  .first = UINT32_MAX,
							  .first_event = UINT32_MAX,
							  .freed_end = TRACE_NONE,
							  .loop_frame = TRACE_NONE,
							  .rows = { TRACE_NONE, TRACE_NONE } }),
				     x->err);
		if (x->status)
			return NULL;
		l->line_of[frame] = (uint32_t)l->lines.n;
	}
	return &l->lines.at[l->line_of[frame] - 1];
}

static int larger(const void *a, const void *b)
{
	const struct sized *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->alloc > y->alloc) - (x->alloc < y->alloc);
}

static void leak_line_add_row(struct leaks *l, struct leak_line *line, uint32_t alloc)
{
	append_rows(&line->rows, (struct leak_rows){ alloc, alloc }, l->line_next);
	line->bytes += l->x->tl->replay->block_bytes[alloc];
}

/*
 * What a stack keeps is the line's.  Of the newest repetition it is what makes one like the others, the largest first;
 * the rest is work that goes on.
 */
static void add_rows(struct leaks *l, struct leak_line *line, const struct kept *k)
{
	struct detecting *x = l->x;
	uint32_t last = k->rows.last, next;
	uint64_t left = k->most_bytes;

	l->newest.n = 0;
	for (uint32_t a = k->rows.first; a != TRACE_NONE && !x->status; a = next) {
		struct sized one = { x->tl->replay->block_bytes[a], a };

		next = a == last ? TRACE_NONE : l->next[a];
		if (x->device->allocs[a].born < l->bounds[l->n - 2])
			leak_line_add_row(l, line, a);
		else
			x->status = vec_push(x->mem, &l->newest, one, x->err);
	}
	sort_items(l->newest.at, l->newest.n, sizeof(*l->newest.at), larger);
	for (size_t i = 0; i < l->newest.n; i++) {
		if (l->newest.at[i].bytes > left)
			continue;
		left -= l->newest.at[i].bytes;
		leak_line_add_row(l, line, l->newest.at[i].alloc);
	}
}

/* What the stack kept before the recording is the line's, too. */
static void add_before(struct leaks *l, struct leak_line *line, uint32_t stack,
		       const struct kept *k)
{
	const struct leaks_before *b = &l->before;
	uint64_t bytes = line->bytes;

	if (!leaks_before_regular(k->periods, usual_gap(k), k->least_gap, k->gap))
		return;
	for (size_t i = leaks_before_next(l->x, b, stack, 0); i < b->live.n;
	     i = leaks_before_next(l->x, b, stack, i + 1)) {
		uint32_t a = b->live.at[i].alloc;

		leak_line_add_row(l, line, a);
		if (l->x->device->allocs[a].free_requested > l->x->last)
			line->live_bytes += l->x->tl->replay->block_bytes[a];
	}
	line->before_bytes += line->bytes - bytes;
}

static void add_stack(struct leaks *l, struct leak_line *line, uint32_t stack, const struct kept *k)
{
	uint64_t bytes = line->bytes, each;
	uint32_t settled_end;

	add_rows(l, line, k);
	add_before(l, line, stack, k);
	bytes = line->bytes - bytes;
	if (bytes > line->stack_bytes) {
		line->stack = stack;
		line->stack_bytes = bytes;
		line->inferred = k->inferred;
	}
	settled_end = k->newest_bytes ? k->settled_last : k->last;
	each = k->first_bytes;
	if (settled_end > k->first)
		each = (k->bytes - k->newest_bytes - k->first_bytes) /
		       distance(l, k->first, settled_end);
	line->each_bytes += each;
	line->live_bytes += k->live_bytes;
	line->stacks++;
	line->count += k->count;
	line->first = k->first < line->first ? k->first : line->first;
	line->last = k->last > line->last ? k->last : line->last;
	line->periods = k->periods > line->periods ? k->periods : line->periods;
	line->freed_end = k->freed_end < line->freed_end ? k->freed_end : line->freed_end;
	line->first_event = k->first_event < line->first_event ? k->first_event : line->first_event;
	line->last_event = k->last_event > line->last_event ? k->last_event : line->last_event;
	if (k->bytes / k->count > line->largest_bytes)
		line->largest_bytes = k->bytes / k->count;
}

static void collect_leak_line(struct leaks *l)
{
	struct detecting *x = l->x;

	l->lines.n = 0;
	for (uint32_t s = 0; s < x->snapshot->stacks.n && !x->status; s++) {
		struct leak_line *line =
			leaks(l, s) ? line_at(l, timeline_user_frame(x->snapshot, s)) : NULL;

		if (line)
			add_stack(l, line, s, &l->stacks[s]);
	}
	for (size_t i = 0; i < l->lines.n; i++)
		l->line_of[l->lines.at[i].frame] = 0;
}

static int by_caller(const void *a, const void *b)
{
	const struct leak_line *x = a, *y = b;

	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

static void add_line(const struct leaks *l, struct leak_line *to, const struct leak_line *from)
{
	if (from->stack_bytes > to->stack_bytes) {
		to->stack = from->stack;
		to->stack_bytes = from->stack_bytes;
		to->inferred = from->inferred;
	}
	append_rows(&to->rows, from->rows, l->line_next);
	to->bytes += from->bytes;
	to->live_bytes += from->live_bytes;
	to->before_bytes += from->before_bytes;
	to->each_bytes += from->each_bytes;
	if (from->largest_bytes > to->largest_bytes)
		to->largest_bytes = from->largest_bytes;
	to->stacks += from->stacks;
	to->count += from->count;
	to->first = from->first < to->first ? from->first : to->first;
	to->last = from->last > to->last ? from->last : to->last;
	to->periods = from->periods > to->periods ? from->periods : to->periods;
	to->freed_end = from->freed_end < to->freed_end ? from->freed_end : to->freed_end;
	to->first_event = from->first_event < to->first_event ? from->first_event : to->first_event;
	to->last_event = from->last_event > to->last_event ? from->last_event : to->last_event;
}

/*
 * Where people write their models themselves, a graph that is kept shows at each line of their modules.  It is one
 * leak, of the line that calls the model.
 */
static void join_graphs(struct leaks *l)
{
	struct leak_line *at = l->lines.at;
	size_t n = 0;

	for (size_t i = 0; i < l->lines.n; i++)
		at[i].caller = timeline_loop_frame(l->x->snapshot, at[i].stack);
	sort_items(at, l->lines.n, sizeof(*at), by_caller);
	for (size_t i = 0, end; i < l->lines.n; i = end) {
		struct leak_line all = at[i];
		int inside = at[i].frame != at[i].caller;

		for (end = i + 1; end < l->lines.n && at[end].caller == at[i].caller; end++) {
			add_line(l, &all, &at[end]);
			inside |= at[end].frame != at[i].caller;
		}
		if (all.caller == TRACE_NONE || !inside || !leak_is_graph(&all) ||
		    l->line_of[all.caller] == FOUND) {
			while (i < end)
				at[n++] = at[i++];
			continue;
		}
		for (; i < end; i++)
			l->line_of[at[i].frame] = FOUND;
		all.frame = all.caller;
		at[n++] = all;
	}
	l->lines.n = n;
}

static enum timeline_phase phase_of(const struct leaks *l, const struct leak_line *line)
{
	const struct detecting *x = l->x;
	enum timeline_phase phase = detect_phase(x, line->last_event);

	/* what is made of an output outside of the model belongs to the pass before it */
	for (size_t i = x->passes.n; i-- > 0 && phase == TIMELINE_OTHER;)
		if (x->passes.at[i].start <= line->last_event)
			phase = x->passes.at[i].phase;
	return phase;
}

static const char *period_of(const struct leaks *l, const struct leak_line *line)
{
	if (l->period)
		return l->period;
	switch (line->phase) {
	case TIMELINE_EVAL: return "eval iteration";
	case TIMELINE_GENERATE:
	case TIMELINE_REQUEST: return "request";
	default: /* where there is a backward pass, it is training without an optimizer in sight */
		return l->x->in_phase[TIMELINE_BACKWARD].event == TRACE_NONE ? "forward pass"
									     : "step";
	}
}

static int certain(const struct leaks *l, const struct leak_line *line)
{
	uint32_t least = LEAKS_PERIODS_MIN;

	if (!l->period && line->phase == TIMELINE_FORWARD && leak_is_graph(line))
		least = GRAPH_PERIODS_MIN;
	if (line->bytes < l->x->peak / LEAKS_TINY_PART)
		least = TINY_PERIODS_MIN;
	return line->periods >= least;
}

static void finish_lines(struct leaks *l, struct leak_lines *out)
{
	struct detecting *x = l->x;

	for (size_t i = 0; i < l->lines.n && !x->status; i++) {
		struct leak_line *line = &l->lines.at[i];

		line->phase = phase_of(l, line);
		if (!certain(l, line))
			continue;
		line->period = period_of(l, line);
		line->span = distance(l, line->first, line->last);
		if (line->span + 1 < line->periods) /* of two kinds */
			line->span = line->periods - 1;
		l->line_of[line->frame] = FOUND;
		x->status = vec_push(x->mem, &out->all, *line, x->err);
	}
}

static void look_between(struct leaks *l, const uint32_t *bounds, size_t n, const char *period,
			 struct leak_lines *out)
{
	struct detecting *x = l->x;

	if (n < LEAKS_PERIODS_MIN || x->status)
		return;
	l->bounds = bounds;
	l->n = (uint32_t)n;
	l->period = period;
	for (uint32_t s = 0; s < x->snapshot->stacks.n; s++)
		l->stacks[s] = (struct kept){ .least_bytes = UINT64_MAX,
					      .freed_end = TRACE_NONE,
					      .rows = { TRACE_NONE, TRACE_NONE } };
	count_leak_line(l);
	leaks_before_find(x, bounds[1], bounds[n - 1], &l->before);
	collect_leak_line(l);
	join_graphs(l);
	finish_lines(l, out);
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

/*
 * What repeats where no optimizer is seen: requests of several passes each, backward passes of a program that updates its
 * weights itself, ranges that the program named.
 */
static void look_between_periods(struct leaks *l, struct leak_lines *out)
{
	struct detecting *x = l->x;
	const struct timeline_steps *periods = x->in->periods;
	int requests = periods->basis == TIMELINE_BY_REQUEST;
	size_t n = 0;

	if (requests && 2 * periods->ends.n > x->passes.n)
		return;
	while (n < periods->ends.n && periods->ends.at[n] <= x->last)
		n++;
	look_between(l, periods->ends.at, n, requests ? "request" : "step", out);
}

void leaks_release(struct detecting *x, struct leak_lines *lines)
{
	vec_release(x->mem, &lines->all);
	mem_free(x->mem, lines->next, x->device->alloc_count, sizeof(*lines->next));
}

void leaks_kept(struct detecting *x, struct leak_lines *out)
{
	size_t stacks = x->snapshot->stacks.n, frames = x->snapshot->frames.n, n = 0;
	size_t allocs = x->device->alloc_count;
	struct leaks l = { .x = x };
	uint32_t *bounds = NULL, *rank = NULL;

	l.stacks = mem_new(x->mem, stacks, sizeof(*l.stacks), x->err);
	l.line_of = l.stacks ? mem_new(x->mem, frames, sizeof(*l.line_of), x->err) : NULL;
	l.next = l.line_of ? mem_new(x->mem, allocs, sizeof(*l.next), x->err) : NULL;
	out->next = l.next ? mem_new(x->mem, allocs, sizeof(*out->next), x->err) : NULL;
	l.line_next = out->next;
	if (!out->next) {
		x->status = mem_status(x->err);
	} else {
		while (n < x->in->steps->ends.n && x->in->steps->ends.at[n] <= x->last)
			n++;
		look_between(&l, x->in->steps->ends.at, n, "step", out);
		look_between_periods(&l, out);
		bounds_of_passes(x, &bounds, &rank, &n);
		l.rank = rank;
		look_between(&l, bounds, n, NULL, out);
	}
	mem_free(x->mem, bounds, x->passes.n + 1, sizeof(*bounds));
	mem_free(x->mem, rank, x->passes.n, sizeof(*rank));
	vec_release(x->mem, &l.lines);
	vec_release(x->mem, &l.newest);
	leaks_before_release(x, &l.before);
	mem_free(x->mem, l.next, allocs, sizeof(*l.next));
	mem_free(x->mem, l.line_of, frames, sizeof(*l.line_of));
	mem_free(x->mem, l.stacks, stacks, sizeof(*l.stacks));
}
