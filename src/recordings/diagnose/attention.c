/*
 * materialised_attention: scores, softmax and what a mask and dropout make of them live at the peak, where a fused
 * attention keeps none.
 *
 * A softmax is known by its name.  It is one of attention if a name says so, or if the model runs it several
 * times in one pass from within its layers.  What the function that calls it made of its size, or of half or twice of it
 * (another precision), is one family with it.  That the sizes grow by the square of the length is not asked for: most
 * recordings have one length.
 */
#include "detect.h"

#include <string.h>

#define ATTENTION_PART 20 /* of the peak: less is not worth another attention */
#define CALLERS_MAX 64
#define LAYERS_MIN 2 /* of a softmax that no name says to be attention's */

static const char *const softmax_words[] = { "softmax", "Softmax", NULL };
static const char *const attention_words[] = { "attention", "Attention", "attn", NULL };

/* One function of the model, as it was called: what it makes of these sizes are scores or their softmax. */
struct caller {
	const uint32_t *frames; /* the softmax's stack, from the caller on */
	uint64_t bytes;         /* of its largest softmax at the peak */
	uint32_t n;
	uint32_t alloc;
};

static int mentions(const struct snapshot *t, uint32_t frame, const char *const *words)
{
	const struct snapshot_frame *f = snapshot_frame(t, frame);
	const char *file = snapshot_text(t, f->filename), *slash = strrchr(file, '/');

	for (; *words; words++)
		if (strstr(snapshot_text(t, f->name), *words) ||
		    strstr(slash ? slash : file, *words)) /* folders name projects */
			return 1;
	return 0;
}

/* The function that calls the innermost softmax of a stack: its index; n: there is none. */
static uint32_t find_caller(const struct snapshot *t, const uint32_t *frames, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && !mentions(t, frames[i], softmax_words))
		i++;
	while (i < n &&
	       (mentions(t, frames[i], softmax_words) ||
		strstr(snapshot_text(t, snapshot_frame(t, frames[i])->filename), "/torch/")))
		i++;
	return i;
}

/* Did the same function, called from the same place, make what has this stack? */
static int is_made_by(const struct detecting *x, const struct caller *c, uint32_t stack)
{
	uint32_t n;
	const uint32_t *frames = snapshot_python_stack(x->snapshot, stack, &n);
	const struct snapshot_frame *a, *b;

	if (n < c->n ||
	    memcmp(frames + (n - c->n) + 1, c->frames + 1, (c->n - 1) * sizeof(*frames)) != 0)
		return 0;
	a = snapshot_frame(x->snapshot, frames[n - c->n]);
	b = snapshot_frame(x->snapshot, c->frames[0]);
	return a->name == b->name && a->filename == b->filename;
}

/* Modules deep, and called that often with this size in the pass that made it. */
static int runs_in_layers(const struct detecting *x, uint32_t alloc)
{
	const struct snapshot_alloc *one = &x->device->allocs[alloc];
	uint32_t start = detect_start_of_pass(x, alloc);
	size_t count = 0;

	if (detect_depth(x, one->stack) < 2)
		return 0;
	for (uint32_t a = 0; a < x->device->alloc_count && count < LAYERS_MIN; a++) {
		const struct snapshot_alloc *other = &x->device->allocs[a];

		count += other->stack == one->stack && other->born != TRACE_NONE &&
			 other->born >= start && other->born <= x->last &&
			 other->requested_bytes == one->requested_bytes;
	}
	return count >= LAYERS_MIN;
}

/* Up to the caller: what calls that may be named after all the program does. */
static int is_of_attention(const struct detecting *x, uint32_t alloc, const uint32_t *frames,
			   uint32_t caller)
{
	for (uint32_t i = 0; i <= caller; i++)
		if (mentions(x->snapshot, frames[i], attention_words))
			return 1;
	return runs_in_layers(x, alloc);
}

/* The caller of a softmax of attention that lives at the peak; 0: this allocation is none. */
static int caller_of(const struct detecting *x, uint32_t alloc, struct caller *out)
{
	uint32_t stack = x->device->allocs[alloc].stack, n, at;
	const uint32_t *frames;

	if (snapshot_stackless(x->snapshot, stack) ||
	    !detect_is_passing(detect_category(x, alloc)) ||
	    !detect_mentions(x, stack, softmax_words) || detect_is_of_loss(x, stack))
		return 0;
	frames = snapshot_python_stack(x->snapshot, stack, &n);
	at = find_caller(x->snapshot, frames, n);
	if (at == n || !is_of_attention(x, alloc, frames, at))
		return 0;
	*out = (struct caller){ .frames = frames + at,
				.n = n - at,
				.alloc = alloc,
				.bytes = x->device->allocs[alloc].requested_bytes };
	return 1;
}

static size_t find_callers(const struct detecting *x, struct caller *list)
{
	size_t n = 0;

	for (size_t i = 0; i < x->at_peak.n && n < CALLERS_MAX; i++) {
		uint32_t a = x->at_peak.at[i], stack = x->device->allocs[a].stack;
		size_t known = 0;

		if (x->device->allocs[a].requested_bytes < x->peak / 1000)
			continue;
		while (known < n && stack != x->device->allocs[list[known].alloc].stack)
			known++;
		if (known == n)
			n += (size_t)caller_of(x, a, &list[n]);
		else if (x->device->allocs[a].requested_bytes > list[known].bytes)
			list[known].bytes = x->device->allocs[a].requested_bytes;
	}
	return n;
}

static int is_member(const struct detecting *x, uint32_t alloc, const struct caller *list, size_t n)
{
	uint32_t stack = x->device->allocs[alloc].stack;

	if (snapshot_stackless(x->snapshot, stack) || !detect_is_passing(detect_category(x, alloc)))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (detect_is_family(x->device->allocs[alloc].requested_bytes, list[i].bytes) &&
		    is_made_by(x, &list[i], stack))
			return 1;
	return 0;
}

void detect_attention(struct detecting *x)
{
	struct caller list[CALLERS_MAX];
	size_t n = find_callers(x, list), count = 0;
	uint64_t bytes = 0;
	struct finding *f;
	char a[32], b[32];

	for (size_t i = 0; i < x->at_peak.n && n; i++) {
		if (!is_member(x, x->at_peak.at[i], list, n))
			continue;
		bytes += x->device->allocs[x->at_peak.at[i]].requested_bytes;
		count++;
	}
	if (!bytes || bytes < x->peak / ATTENTION_PART)
		return;
	f = detect_add(x, "materialised_attention", detect_severity(x, bytes), 0.9);
	f->bytes = bytes;
	for (size_t i = 0; i < x->at_peak.n; i++)
		if (is_member(x, x->at_peak.at[i], list, n))
			detect_about(x, f, x->at_peak.at[i]);
	detect_place(x, f, x->device->allocs[list[0].alloc].stack, 0);
	detect_title(x, f, "attention keeps %s of scores and softmax at the peak of %s",
		     text_size(a, bytes), text_size(b, x->peak));
	detect_say(x, &f->evidence,
		   "%zu tensors of length x length for each head, made by the function that calls "
		   "the softmax; the largest softmax has %s",
		   count, text_size(a, list[0].bytes));
	detect_say(
		x, &f->fix,
		"attention that keeps neither scores nor softmax: "
		"torch.nn.functional.scaled_dot_product_attention (Transformers: "
		"attn_implementation=\"sdpa\"), unless the program reads the weights of attention");
	detect_say(x, &f->see, "plimsoll report --at peak --group-by stack");
}
