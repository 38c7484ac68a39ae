/*
 * Weights and gradients that are there without need.
 *
 * Duplicates: a load is the parameters born between two passes of the model.  Two loads alive at the
 * same time are copies if SAME_PART of the bytes have equals in size, and modules, or one function, made
 * both: an optimizer's state has the sizes of the weights, too.  Models that are loaded without
 * a pass between them show as one load that repeats itself; since layers repeat themselves too, the
 * repeated part must be long and have one size that stands out, as an embedding does.
 *
 * Gradients: those of an earlier step that are alive all through the first forward pass after it.
 * Accumulated gradients of the same step are not a finding.
 */
#include "detect.h"

#include <stdlib.h>
#include <string.h>

#define SAME_PCT 90
#define COPIES_MAX 16
#define REPEAT_MIN 16 /* allocations of a model that is known by its layers */
#define STEPS_MIN 2   /* steps whose forward pass meets old gradients */

/* ---- duplicate_weights ---- */

struct change {
	uint32_t event;
	int64_t bytes;
};

/* Parameters alive when there were most of them: sizes in the order of birth. */
struct loads {
	uint64_t *sizes;         /* as requested */
	uint32_t *allocs, *load; /* whose, and in which load */
	size_t n, room;
	uint32_t count;
};

static int by_event(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	return (x->event > y->event) - (x->event < y->event);
}

static int weights_by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The event after which most bytes of weights were alive. */
static uint32_t fullest(struct detecting *x)
{
	size_t n = 0, room = 2 * x->weights.n;
	struct change *c = mem_new(x->mem, room, sizeof(*c), x->err);
	int64_t now = 0, most = 0;
	uint32_t event = 0;

	if (!c)
		x->status = mem_status(x->err);
	for (size_t i = 0; c && i < x->weights.n; i++) {
		const struct snapshot_alloc *a = &x->device->allocs[x->weights.at[i]];
		int64_t bytes = (int64_t)a->requested_bytes;

		c[n++] = (struct change){ a->born == TRACE_NONE ? 0 : a->born, bytes };
		if (a->free_requested != TRACE_NONE)
			c[n++] = (struct change){ a->free_requested, -bytes };
	}
	sort_items(c, n, sizeof(*c), by_event);
	for (size_t i = 0; i < n; i++) {
		now += c[i].bytes;
		if (now > most) {
			most = now;
			event = c[i].event;
		}
	}
	mem_free(x->mem, c, room, sizeof(*c));
	return event;
}

/* Did the model run after event `from` and before `to`? */
static int pass_between(const struct detecting *x, uint32_t from, uint32_t to)
{
	size_t low = 0, high = x->passes.n;

	if (from == TRACE_NONE || to == TRACE_NONE)
		return 0;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (x->passes.at[mid].start <= from)
			low = mid + 1;
		else
			high = mid;
	}
	return low < x->passes.n && x->passes.at[low].start < to;
}

static void find_loads(struct detecting *x, struct loads *l, uint32_t event)
{
	uint32_t before = TRACE_NONE;

	l->room = x->weights.n;
	l->sizes = mem_new(x->mem, l->room, sizeof(*l->sizes), x->err);
	l->allocs = l->sizes ? mem_new(x->mem, l->room, sizeof(*l->allocs), x->err) : NULL;
	l->load = l->allocs ? mem_new(x->mem, l->room, sizeof(*l->load), x->err) : NULL;
	if (!l->load) {
		x->status = mem_status(x->err);
		return;
	}
	for (size_t i = 0; i < x->weights.n; i++) {
		const struct snapshot_alloc *a = &x->device->allocs[x->weights.at[i]];

		if (!timeline_lives(a, TIMELINE_ALLOCATED, event))
			continue;
		l->count += l->n && pass_between(x, before, a->born);
		before = a->born;
		l->sizes[l->n] = a->requested_bytes;
		l->allocs[l->n] = x->weights.at[i];
		l->load[l->n++] = l->count;
	}
	l->count += l->n > 0;
}

/* Bytes that two sorted lists of sizes have in common. */
static uint64_t in_common(const uint64_t *a, size_t n, const uint64_t *b, size_t m)
{
	uint64_t bytes = 0;
	size_t i = 0, k = 0;

	while (i < n && k < m) {
		if (a[i] == b[k]) {
			bytes += a[i];
			i++;
			k++;
		} else if (a[i] < b[k]) {
			i++;
		} else {
			k++;
		}
	}
	return bytes;
}

static uint64_t sum(const uint64_t *sizes, size_t n)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += sizes[i];
	return bytes;
}

/* Do modules, what loads them, or copy.deepcopy make it?  [p.clone() for p in parameters] is state of their sizes. */
static int made_by_module(const struct snapshot *t, uint32_t stack)
{
	static const char *const files[] = { "/torch/nn/",       "/torch/serialization.py",
					     "/safetensors/",    "/transformers/",
					     "/diffusers/",      "/accelerate/",
					     "/huggingface_hub", "/copy.py" };
	uint32_t n;
	const uint32_t *frames = snapshot_python_stack(t, stack, &n);

	for (uint32_t i = 0; i < n; i++) {
		const char *file = snapshot_text(t, snapshot_frame(t, frames[i])->filename);

		for (size_t k = 0; k < sizeof(files) / sizeof(files[0]); k++)
			if (strstr(file, files[k]))
				return 1;
	}
	return 0;
}

/* Equal sizes alone make no copies: modules made both, or one function did. */
static int is_made_alike(const struct detecting *x, uint32_t first, uint32_t other)
{
	const struct snapshot *t = x->snapshot;
	uint32_t stack[2] = { x->device->allocs[first].stack, x->device->allocs[other].stack };
	const struct snapshot_frame *f[2];

	if (stack[0] == TRACE_NONE || stack[1] == TRACE_NONE)
		return stack[0] == stack[1];
	for (int s = 0; s < 2; s++) {
		uint32_t n;
		const uint32_t *frames = snapshot_python_stack(t, stack[s], &n);

		if (!n)
			return 0;
		f[s] = snapshot_frame(t, frames[0]);
	}
	return (f[0]->filename == f[1]->filename && f[0]->name == f[1]->name) ||
	       (made_by_module(t, stack[0]) && made_by_module(t, stack[1]));
}

struct copies {
	uint32_t count; /* the first one too */
	size_t parameters;
	uint64_t bytes;  /* of all but the first */
	uint32_t newest; /* an allocation of the last one */
	int apart;       /* passes lie between them */
};

/* Where the load that begins at `from` ends. */
static size_t end_of_load(const struct loads *l, size_t from)
{
	size_t end = from;

	while (end < l->n && l->load[end] == l->load[from])
		end++;
	return end;
}

/* The first of the largest loads, and how many others equal it. */
static struct copies copies_of_loads(const struct detecting *x, const struct loads *l)
{
	size_t from = 0, n = 0;
	uint64_t most = 0;
	struct copies c = { .count = 1, .apart = 1 };

	for (size_t i = 0, end; i < l->n; i = end) {
		end = end_of_load(l, i);
		sort_items(l->sizes + i, end - i, sizeof(*l->sizes), weights_by_size);
		if (sum(l->sizes + i, end - i) > most) {
			most = sum(l->sizes + i, end - i);
			from = i;
			n = end - i;
		}
	}
	c.parameters = n;
	for (size_t i = 0, end; i < l->n; i = end) {
		uint64_t same;

		end = end_of_load(l, i);
		same = i == from ? 0 : in_common(l->sizes + from, n, l->sizes + i, end - i);
		if (same * 100 < most * SAME_PCT ||
		    !is_made_alike(x, l->allocs[from], l->allocs[i]))
			continue;
		c.count++;
		c.bytes += same;
		c.newest = l->allocs[i];
	}
	return c;
}

/* Is the first n-th of the sizes a model, and not one of its layers? */
static int stands_out(const uint64_t *sizes, size_t n)
{
	uint64_t first = 0, second = 0;
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		if (sizes[i] > first) {
			second = first;
			first = sizes[i];
			count = 0;
		} else if (sizes[i] < first && sizes[i] > second) {
			second = sizes[i];
		}
		count += sizes[i] == first;
	}
	return n >= REPEAT_MIN && count <= 2 && first > second + second / 2;
}

static struct copies copies_in_one(const struct detecting *x, const struct loads *l)
{
	for (uint32_t k = COPIES_MAX; k > 1; k--) {
		size_t part = l->n / k, i = 0;

		if (l->n % k || !stands_out(l->sizes, part))
			continue;
		while (i + part < l->n && l->sizes[i] == l->sizes[i + part] &&
		       is_made_alike(x, l->allocs[i], l->allocs[i + part]))
			i++;
		if (i + part == l->n)
			return (struct copies){ k, part, (k - 1) * sum(l->sizes, part),
						l->allocs[l->n - part], 0 };
	}
	return (struct copies){ .count = 1 };
}

static void tell_copies(struct detecting *x, const struct copies *c, uint32_t event)
{
	uint32_t peak = x->tl->peak_event[TIMELINE_ALLOCATED];
	int costs = timeline_lives(&x->device->allocs[c->newest], TIMELINE_ALLOCATED, peak);
	struct finding *f = detect_add(x, "duplicate_weights",
				       costs ? detect_severity(x, c->bytes) : FINDINGS_INFO,
				       c->apart ? 0.95 : 0.75);
	char a[32], b[32];

	f->bytes = c->bytes;
	for (size_t i = 0; i < x->weights.n; i++)
		if (timeline_lives(&x->device->allocs[x->weights.at[i]], TIMELINE_ALLOCATED, event))
			detect_about(x, f, x->weights.at[i]);
	detect_place(x, f, x->device->allocs[c->newest].stack, 0);
	detect_title(x, f, "the same weights are on the GPU %u times: %s too much", c->count,
		     text_size(a, c->bytes));
	detect_say(x, &f->evidence,
		   "%u times %zu parameters of the same sizes, %s each time, are alive after event "
		   "%u%s",
		   c->count, c->parameters, text_size(b, c->bytes / (c->count - 1)), event,
		   c->apart ? "; the model ran between one load and the next" : "");
	detect_say(
		x, &f->evidence,
		"if that is meant (a reference model, an average of the weights), it is the price "
		"of it");
	detect_say(
		x, &f->fix,
		"drop a model before the next one is loaded, wherever it is held: del model, pipe; "
		"gc.collect()");
	detect_say(x, &f->fix,
		   "or keep one and swap what differs: "
		   "model.load_state_dict(torch.load(path, map_location=\"cpu\"))");
	detect_say(x, &f->fix, "empty_cache() alone frees nothing: the weights are in use");
	detect_say(x, &f->see, "plimsoll report --at event:%u", event);
}

void detect_duplicate_weights(struct detecting *x)
{
	struct loads l = { .n = 0 };
	struct copies c;
	uint32_t event = fullest(x);

	if (!x->status && x->weights.n)
		find_loads(x, &l, event);
	if (!x->status && l.n) {
		c = l.count > 1 ? copies_of_loads(x, &l) : copies_in_one(x, &l);
		if (c.count > 1 && detect_material(x, c.bytes))
			tell_copies(x, &c, event);
	}
	mem_free(x->mem, l.sizes, l.room, sizeof(*l.sizes));
	mem_free(x->mem, l.allocs, l.room, sizeof(*l.allocs));
	mem_free(x->mem, l.load, l.room, sizeof(*l.load));
}

/* ---- gradients_live_in_forward ---- */

/* The first forward pass after each optimizer step. */
struct fresh {
	uint32_t start, end;
	/* gradients from before, alive all through it; while they are counted, less those of the pass before */
	int64_t old_bytes;
};

struct old_gradients {
	VEC(struct fresh) passes;
	uint32_t largest; /* allocation, or TRACE_NONE */
	uint32_t through; /* the most passes that one gradient lives through */
	int zeroed_late;  /* freed in zero_grad, after the forward pass */
	size_t worst;     /* the pass that most of them live through, which the finding is about */
};

static void find_fresh(struct detecting *x, struct old_gradients *o)
{
	const struct timeline_steps *steps = x->in->steps;
	size_t step = 0;

	for (size_t i = 0; i < x->passes.n && !x->status; i++) {
		const struct pass *p = &x->passes.at[i];
		size_t ended = step;

		while (ended < steps->ends.n && steps->ends.at[ended] < p->start)
			ended++;
		if (ended > step && p->phase == TIMELINE_FORWARD)
			x->status = vec_push(x->mem, &o->passes,
					     ((struct fresh){ p->start, p->end, 0 }), x->err);
		step = p->phase == TIMELINE_FORWARD ? ended : step;
	}
}

/* The first pass that begins after an event. */
static size_t first_after(const struct old_gradients *o, uint32_t event)
{
	size_t low = 0, high = o->passes.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (o->passes.at[mid].start <= event)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Passes [first, end) that an allocation lives through. */
struct lived {
	size_t first, end;
};

static struct lived lived_of(const struct old_gradients *o, const struct snapshot_alloc *a)
{
	struct lived l = { a->born == TRACE_NONE ? 0 : first_after(o, a->born),
			   a->free_requested == TRACE_NONE ? o->passes.n
							   : first_after(o, a->free_requested) };

	/* the one that it is freed in does not count */
	if (l.end > l.first && a->free_requested <= o->passes.at[l.end - 1].end)
		l.end--;
	return l;
}

static void meet(struct detecting *x, struct old_gradients *o, uint32_t alloc)
{
	static const char *const zero[] = { "zero_grad", NULL };
	const struct snapshot_alloc *a = &x->device->allocs[alloc];
	struct lived l = lived_of(o, a);

	if (l.end <= l.first)
		return;
	o->passes.at[l.first].old_bytes += (int64_t)a->requested_bytes;
	if (l.end < o->passes.n)
		o->passes.at[l.end].old_bytes -= (int64_t)a->requested_bytes;
	o->through = l.end - l.first > o->through ? (uint32_t)(l.end - l.first) : o->through;
	if (o->largest == TRACE_NONE ||
	    a->requested_bytes > x->device->allocs[o->largest].requested_bytes)
		o->largest = alloc;
	if (a->free_requested < x->last && !o->zeroed_late)
		o->zeroed_late =
			detect_mentions(x, x->device->events.stack[a->free_requested], zero);
}

/* Old gradients among what lived at the peak: born before the step that the peak is in. */
static uint64_t old_at_peak(const struct detecting *x)
{
	const struct timeline_steps *steps = x->in->steps;
	uint32_t peak = x->tl->peak_event[TIMELINE_ALLOCATED], start = 0;
	uint64_t bytes = 0;

	for (size_t i = 0; i < steps->ends.n && steps->ends.at[i] < peak; i++)
		start = steps->ends.at[i];
	for (size_t i = 0; i < x->at_peak.n; i++) {
		const struct snapshot_alloc *a = &x->device->allocs[x->at_peak.at[i]];

		if (detect_category(x, x->at_peak.at[i]) == TIMELINE_GRADIENT &&
		    (a->born == TRACE_NONE || a->born < start))
			bytes += a->requested_bytes;
	}
	return bytes;
}

static void tell_gradients(struct detecting *x, const struct old_gradients *o, uint64_t bytes,
			   size_t met)
{
	uint64_t at_peak = old_at_peak(x);
	struct finding *f = detect_add(x, "gradients_live_in_forward",
				       at_peak ? detect_severity(x, at_peak) : FINDINGS_INFO, 0.95);
	char a[32];
	int inferred;
	uint32_t stack = detect_stack(x, o->largest, &inferred);

	f->bytes = bytes;
	for (size_t i = 0; i < x->gradients.n; i++) {
		struct lived l = lived_of(o, &x->device->allocs[x->gradients.at[i]]);

		if (l.first <= o->worst && o->worst < l.end)
			detect_about(x, f, x->gradients.at[i]);
	}
	detect_place(x, f, stack, inferred);
	detect_title(x, f, "%s of old gradients stay through the next forward pass",
		     text_size(a, bytes));
	detect_say(x, &f->evidence,
		   "in %zu of %zu steps the forward pass begins with the gradients of the step "
		   "before, and ends with them",
		   met, o->passes.n);
	if (o->zeroed_late)
		detect_say(x, &f->evidence,
			   "zero_grad() frees them, but only after the forward pass");
	else if (o->through > 1)
		detect_say(x, &f->evidence,
			   "they are the same blocks for up to %u steps: zero_grad() is not "
			   "called, or "
			   "writes zeros into them (set_to_none=False)",
			   o->through);
	detect_say(x, &f->evidence,
		   "this does not grow: gradients are added in place. It costs one copy of them%s",
		   at_peak ? ", at the peak too" : ", and not at this run's peak");
	detect_say(x, &f->fix,
		   "call optimizer.zero_grad(set_to_none=True) right after optimizer.step()");
	if (!o->zeroed_late)
		detect_say(x, &f->fix,
			   "without zero_grad() they also add up from step to step, which is "
			   "rarely meant");
	detect_say(
		x, &f->see,
		"https://pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html");
}

void detect_gradients_in_forward(struct detecting *x)
{
	struct old_gradients o = { .largest = TRACE_NONE };
	int64_t bytes = 0, most = 0;
	size_t met = 0;

	find_fresh(x, &o);
	for (size_t i = 0; i < x->gradients.n && !x->status; i++)
		meet(x, &o, x->gradients.at[i]);
	for (size_t i = 0; i < o.passes.n; i++) {
		bytes += o.passes.at[i].old_bytes;
		met += detect_material(x, (uint64_t)bytes) != 0;
		o.worst = bytes > most ? i : o.worst;
		most = bytes > most ? bytes : most;
	}
	if (!x->status && met >= STEPS_MIN && 2 * met > o.passes.n)
		tell_gradients(x, &o, (uint64_t)most, met);
	vec_release(x->mem, &o.passes);
}
