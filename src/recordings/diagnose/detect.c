/* The table of detectors, what they share, and the order of what they found. */
#include "detect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Run in this order; it decides among findings of one severity and size. */
static const struct detector {
	const char *id;
	void (*look)(struct detecting *x);
	int needs_stacks;
} detectors[] = {
	{ "leak", detect_leaks, 1 },
	{ "fragmentation", detect_fragmentation, 0 },
	{ "optimizer_first_step", detect_optimizer_first_step, 1 },
	{ "longest_batch", detect_longest_batch, 1 },
	{ "duplicate_weights", detect_duplicate_weights, 1 },
	{ "gradients_live_in_forward", detect_gradients_in_forward, 1 },
	{ "eval_heavier_than_train", detect_eval_heavier, 1 },
	{ "logits_dominate", detect_logits, 1 },
	{ "materialised_attention", detect_attention, 1 },
	{ "kv_cache_growth", detect_kv_cache, 1 },
	{ "foreach_temporaries", detect_foreach, 1 },
	{ "allocation_in_loop", detect_allocation_in_loop, 1 },
	{ "many_small_segments", detect_small_segments, 0 },
	{ "outside_allocator", detect_outside, 0 },
	{ "pending_frees", detect_pending_frees, 0 },
	{ "private_pools", detect_private_pools, 0 },
};

const char *findings_id(size_t i)
{
	if (!i)
		return "oom";
	return i <= sizeof(detectors) / sizeof(detectors[0]) ? detectors[i - 1].id : NULL;
}

/* ---- telling ---- */

static const char *keep_text(struct detecting *x, const char *text)
{
	uint32_t id;

	if (!x->status)
		x->status = intern_add(&x->out->texts, text, strlen(text), &id, x->err);
	return x->status ? NULL : intern_text(&x->out->texts, id);
}

struct finding *detect_add(struct detecting *x, const char *id, enum findings_severity severity,
			   double confidence)
{
	static _Thread_local struct finding nobody; /* x->status is set: nothing is kept in it */
	struct finding f = { .id = id,
			     .severity = severity,
			     .confidence = confidence,
			     .bytes = PLIM_UNKNOWN,
			     .bytes_per_period = PLIM_UNKNOWN,
			     .stack = TRACE_NONE,
			     .frame = TRACE_NONE };

	if (!x->status)
		x->status = vec_push(x->mem, &x->out->all, f, x->err);
	if (!x->status)
		return &x->out->all.at[x->out->all.n - 1];
	nobody = f;
	return &nobody;
}

void detect_title(struct detecting *x, struct finding *f, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	f->title = keep_text(x, text);
}

void detect_say(struct detecting *x, struct findings_lines *lines, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	CHECK(lines->n < FINDINGS_LINES);
	if (lines->n < FINDINGS_LINES)
		lines->at[lines->n++] = keep_text(x, text);
}

void detect_about(struct detecting *x, struct finding *f, uint32_t alloc)
{
	if (!x->status)
		x->status = vec_push(x->mem, &f->about, alloc, x->err);
}

void detect_place(const struct detecting *x, struct finding *f, uint32_t stack, int inferred)
{
	f->stack = stack;
	f->frame = stack == TRACE_NONE ? TRACE_NONE : timeline_user_frame(x->snapshot, stack);
	f->inferred = inferred;
}

/* ---- looking ---- */

enum timeline_phase detect_phase(const struct detecting *x, uint32_t event)
{
	const struct timeline_categories *c = x->in->categories;

	return c->mem && event < c->events ? (enum timeline_phase)c->phase[event] : TIMELINE_OTHER;
}

enum timeline_category detect_category(const struct detecting *x, uint32_t alloc)
{
	const struct timeline_categories *c = x->in->categories;

	return c->mem ? timeline_rules[c->rule[alloc]].category : TIMELINE_UNKNOWN;
}

uint32_t detect_stack(const struct detecting *x, uint32_t alloc, int *inferred)
{
	uint32_t stack = x->device->allocs[alloc].stack;

	*inferred = 0;
	if (!snapshot_stackless(x->snapshot, stack))
		return stack;
	if (!x->in->categories->mem)
		return TRACE_NONE;
	stack = x->in->categories->stack[alloc];
	*inferred = stack != TRACE_NONE;
	return stack;
}

int detect_mentions(const struct detecting *x, uint32_t stack, const char *const *words)
{
	uint32_t n;
	const uint32_t *frames = snapshot_stack(x->snapshot, stack, &n);

	for (uint32_t i = 0; i < n; i++) {
		const struct snapshot_frame *f = snapshot_frame(x->snapshot, frames[i]);

		for (const char *const *w = words; *w; w++)
			if (strstr(snapshot_text(x->snapshot, f->name), *w) ||
			    strstr(snapshot_text(x->snapshot, f->filename), *w))
				return 1;
	}
	return 0;
}

int detect_died_in(const struct detecting *x, enum timeline_phase phase)
{
	return x->in->death && x->in->death->event == x->last && detect_phase(x, x->last) == phase;
}

enum findings_severity detect_severity(const struct detecting *x, uint64_t bytes)
{
	/* a twentieth of the peak: a larger batch, or the next smaller GPU */
	return bytes >= x->peak / 20 ? FINDINGS_WARN : FINDINGS_INFO;
}

/* ---- one walk over the events ---- */

static void raise(struct moment *m, uint64_t bytes, uint32_t event)
{
	if (m->event != TRACE_NONE && bytes <= m->bytes)
		return;
	m->bytes = bytes;
	m->event = event;
}

/* How often one stack allocated one size without doing much else in between. */
struct repeats {
	uint64_t bytes, newest; /* number of the allocation */
	size_t passes;          /* that had begun then: a model called in a loop is no such loop */
	uint32_t count, first_event;
	uint8_t own; /* of the stack; 0: not looked at */
};
enum { NOT_OWN = 1, OWN };

#define LOOP_ALLOCS 8 /* of other stacks between two of one: the body of a loop */

/* The user's own line allocates, or a function that it calls. */
static int is_users_own(const struct detecting *x, uint32_t stack)
{
	uint32_t n, user = timeline_user_frame(x->snapshot, stack);
	const uint32_t *frames = snapshot_python_stack(x->snapshot, stack, &n);

	return n && (user == frames[0] || (n > 1 && user == frames[1]));
}

/* Building a model and stepping over its weights repeat themselves, too, and cannot be done at once. */
static void repeat(struct detecting *x, struct repeats *all, uint32_t e, uint64_t number,
		   enum timeline_phase now)
{
	uint32_t stack = x->device->events.stack[e];
	uint64_t bytes = x->device->events.size[e];
	struct repeats *r;

	if (!all || stack == TRACE_NONE || now == TIMELINE_LOAD || now == TIMELINE_OPTIMIZER)
		return;
	r = &all[stack];
	if (r->bytes != bytes || r->passes != x->passes.n || number - r->newest > LOOP_ALLOCS) {
		r->bytes = bytes;
		r->passes = x->passes.n;
		r->count = 0;
		r->first_event = e;
	}
	r->newest = number;
	if (++r->count <= x->burst.count)
		return;
	if (!r->own)
		r->own = is_users_own(x, stack) ? OWN : NOT_OWN;
	if (r->own == OWN)
		x->burst = (struct burst){ stack, r->first_event, e, bytes, r->count };
}

static void follow_pass(struct detecting *x, uint32_t e, enum timeline_phase now,
			enum timeline_phase before)
{
	if (!timeline_is_pass(now) || x->status)
		return;
	if (now != before)
		x->status = vec_push(x->mem, &x->passes, ((struct pass){ e, e, now }), x->err);
	if (!x->status)
		x->passes.at[x->passes.n - 1].end = e;
}

static void walk_finding(struct detecting *x, struct repeats *repeats)
{
	const struct snapshot_events *ev = &x->device->events;
	const struct timeline_steps *steps = x->repeats;
	uint64_t allocated = x->tl->before[TIMELINE_ALLOCATED],
		 active = x->tl->before[TIMELINE_ACTIVE], allocs = 0;
	enum timeline_phase before = TIMELINE_PHASES;
	size_t step = 0;

	for (uint32_t e = 0; e < ev->n && e <= x->last && !x->status; e++) {
		uint8_t action = ev->action[e];
		enum timeline_phase now = detect_phase(x, e);

		follow_pass(x, e, now, before);
		before = now;
		if (action > TRACE_FREE_COMPLETED)
			continue;
		if (action == TRACE_ALLOC) {
			uint64_t bytes = x->tl->replay->block_bytes[ev->alloc[e]];

			/* looked at here: a free that is done at once waits for no one */
			raise(&x->pending, active - allocated, e);
			allocated += bytes;
			active += bytes;
			while (step + 1 < x->steps.n && steps->ends.at[step] < e)
				step++;
			if (step < x->steps.n)
				raise(&x->steps.at[step], allocated, e);
			raise(&x->in_phase[now], allocated, e);
			repeat(x, repeats, e, allocs++, now);
			continue;
		}
		if (x->device->allocs[ev->alloc[e]].free_requested == e)
			allocated -= x->tl->replay->block_bytes[ev->alloc[e]];
		if (x->device->allocs[ev->alloc[e]].free_completed == e)
			active -= x->tl->replay->block_bytes[ev->alloc[e]];
	}
}

/* The allocations that several detectors look at. */
static void sort_out(struct detecting *x)
{
	uint32_t peak = x->tl->peak_event[TIMELINE_ALLOCATED];

	for (uint32_t a = 0; a < x->device->alloc_count && !x->status; a++) {
		enum timeline_category c = detect_category(x, a);

		if (timeline_lives(&x->device->allocs[a], TIMELINE_ALLOCATED, peak))
			x->status = vec_push(x->mem, &x->at_peak, a, x->err);
		if (!x->status && (c == TIMELINE_PARAMETER || c == TIMELINE_BUFFER))
			x->status = vec_push(x->mem, &x->weights, a, x->err);
		if (!x->status && c == TIMELINE_GRADIENT)
			x->status = vec_push(x->mem, &x->gradients, a, x->err);
	}
}

void detect_begin(struct detecting *x, uint32_t last)
{
	size_t stacks, steps;
	struct repeats *repeats;

	x->tl = x->in->tl;
	x->snapshot = x->tl->snapshot;
	x->device = x->tl->device;
	x->peak = x->tl->peak[TIMELINE_ALLOCATED];
	x->last = last;
	x->repeats = x->in->steps->ends.n ? x->in->steps : x->in->periods;
	steps = x->repeats->ends.n;
	x->pending.event = TRACE_NONE;
	x->segments.event = TRACE_NONE;
	for (int p = 0; p < TIMELINE_PHASES; p++)
		x->in_phase[p].event = TRACE_NONE;
	/* without an end there are no steps; with ends there is what follows the last one */
	for (size_t i = 0; steps && i <= steps && !x->status; i++)
		x->status = vec_push(x->mem, &x->steps, ((struct moment){ 0, TRACE_NONE }), x->err);
	stacks = x->snapshot->stacks.n;
	repeats = mem_new(x->mem, stacks, sizeof(*repeats), x->err);
	if (!repeats)
		x->status = mem_status(x->err);
	walk_finding(x, repeats);
	mem_free(x->mem, repeats, stacks, sizeof(*repeats));
}

void detect_end(struct detecting *x)
{
	vec_release(x->mem, &x->passes);
	vec_release(x->mem, &x->at_peak);
	vec_release(x->mem, &x->weights);
	vec_release(x->mem, &x->gradients);
	vec_release(x->mem, &x->steps);
}

/* ---- the list ---- */

static size_t finding_row_of(const char *id)
{
	size_t i = 0;

	while (strcmp(detectors[i].id, id) != 0)
		i++;
	return i;
}

static int worse_first(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	uint64_t p = x->bytes == PLIM_UNKNOWN ? 0 : x->bytes,
		 q = y->bytes == PLIM_UNKNOWN ? 0 : y->bytes;

	if (x->severity != y->severity)
		return x->severity < y->severity ? 1 : -1;
	if (p != q)
		return p < q ? 1 : -1;
	if (x->id != y->id)
		return finding_row_of(x->id) < finding_row_of(y->id) ? -1 : 1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

enum plim_status findings_find(struct mem *m, const struct findings_input *in,
			       struct findings_list *out, struct plim_err *err)
{
	struct detecting x = { .mem = m, .err = err, .in = in, .out = out };
	const struct snapshot_events *ev = &in->tl->device->events;
	uint32_t death = snapshot_find_death(ev);

	*out = (struct findings_list){ .mem = m };
	intern_init(&out->texts, m);
	if (!ev->n)
		return PLIM_OK;
	detect_begin(&x, death != TRACE_NONE ? death : (uint32_t)ev->n - 1);
	sort_out(&x);
	for (size_t i = 0; i < sizeof(detectors) / sizeof(*detectors) && !x.status; i++)
		if ((!detectors[i].needs_stacks || in->categories->mem) &&
		    (!in->only || !strcmp(in->only, detectors[i].id)))
			detectors[i].look(&x);
	detect_end(&x);
	if (x.status)
		findings_release(out);
	else
		sort_items(out->all.at, out->all.n, sizeof(*out->all.at), worse_first);
	return x.status;
}

void findings_release(struct findings_list *l)
{
	if (!l->mem)
		return;
	for (size_t i = 0; i < l->all.n; i++)
		vec_release(l->mem, &l->all.at[i].about);
	vec_release(l->mem, &l->all);
	intern_release(&l->texts);
	l->mem = NULL;
}
