/*
 * Tensors that stand out among what passes make: logits, keys and values, and what a loop makes.
 *
 * logits_dominate: the largest tensor at the peak that a loss or the model's last layer made, and all of
 * its family: the same tensor in half or twice the precision, and their gradients.
 * allocation_in_loop: LOOP_MIN allocations of one size by one line of the user's own, one after the
 * other.  Layers and optimizers repeat themselves too, but with other sizes or other lines between.
 */
#include "detect.h"

#include <string.h>

#define LOGITS_LEAST_PART 50 /* of the peak: a smaller tensor is not looked at */
#define LOGITS_PART 5        /* of the peak: the family has at least this */
#define FAMILY_SLACK_PCT 2   /* labels are shifted by one token */
#define CACHE_PART 20        /* of the peak */
#define LOOP_MIN 1000

/* ---- logits_dominate ---- */

static const char *const loss_words[] = { "cross_entropy", "CrossEntropy",  "log_softmax",
					  "nll_loss",      "loss_function", "LMLoss",
					  "lm_head",       "logits",        NULL };

int detect_is_family(uint64_t bytes, uint64_t logits)
{
	const uint64_t kin[] = { logits / 2, logits, 2 * logits };

	for (size_t i = 0; i < sizeof(kin) / sizeof(*kin); i++)
		if (bytes * 100 <= kin[i] * (100 + FAMILY_SLACK_PCT) &&
		    bytes * 100 >= kin[i] * (100 - FAMILY_SLACK_PCT))
			return 1;
	return 0;
}

uint32_t detect_start_of_pass(const struct detecting *x, uint32_t alloc)
{
	uint32_t born = x->device->allocs[alloc].born, start = 0;

	for (size_t i = 0; i < x->passes.n && x->passes.at[i].start <= born; i++)
		start = x->passes.at[i].start;
	return start;
}

int detect_is_passing(enum timeline_category c)
{
	return c == TIMELINE_ACTIVATION || c == TIMELINE_TEMPORARY ||
	       c == TIMELINE_AUTOGRAD_DETAIL || c == TIMELINE_UNKNOWN;
}

uint32_t detect_depth(const struct detecting *x, uint32_t stack)
{
	static const char name[] = "_call_impl"; /* torch/nn/modules/module.py, since 1.9 */
	uint32_t call = intern_find(&x->snapshot->heap.strings, name, sizeof(name) - 1);
	uint32_t n, deep = 0;
	const uint32_t *frames = snapshot_python_stack(x->snapshot, stack, &n);

	for (uint32_t i = 0; i < n; i++)
		deep += call != INTERN_NONE && snapshot_frame(x->snapshot, frames[i])->name == call;
	return deep;
}

int detect_is_of_loss(const struct detecting *x, uint32_t stack)
{
	return detect_mentions(x, stack, loss_words);
}

/*
 * Did the model's last layer make it?  A linear layer, after which no module as deep as it allocates
 * until the program has left the model.
 */
static int is_of_head(const struct detecting *x, uint32_t alloc)
{
	const struct snapshot_events *ev = &x->device->events;
	const struct snapshot_alloc *a = &x->device->allocs[alloc];
	uint32_t n, deep = detect_depth(x, a->stack);
	const uint32_t *frames = snapshot_python_stack(x->snapshot, a->stack, &n);

	if (!deep || a->born == TRACE_NONE ||
	    !strstr(snapshot_text(x->snapshot, snapshot_frame(x->snapshot, frames[0])->filename),
		    "/nn/modules/linear.py"))
		return 0;
	for (uint32_t e = a->born + 1; e <= x->last && e < ev->n; e++) {
		uint32_t now = ev->stack[e];

		if (ev->action[e] != TRACE_ALLOC || snapshot_stackless(x->snapshot, now))
			continue;
		now = detect_depth(x, now);
		if (!now || now >= deep)
			return !now;
	}
	return !x->in->death;
}

/* The largest one, and the newest of these. */
static uint32_t find_logits(const struct detecting *x)
{
	uint32_t best = TRACE_NONE;
	uint64_t most = x->peak / LOGITS_LEAST_PART + 1;
	int inferred;

	for (size_t i = 0; i < x->at_peak.n; i++) {
		uint32_t a = x->at_peak.at[i];
		uint64_t bytes = x->device->allocs[a].requested_bytes;

		if (bytes >= most && detect_is_passing(detect_category(x, a)) &&
		    (detect_is_of_loss(x, detect_stack(x, a, &inferred)) ||
		     (bytes >= x->peak / LOGITS_PART && is_of_head(x, a)))) {
			best = a;
			most = bytes;
		}
	}
	return best;
}

/* The logits of one pass at the peak, in all their forms. */
struct family {
	uint32_t logits; /* the largest of them */
	uint64_t bytes;
	size_t count;
	int trained; /* a backward pass follows, or is at work */
};

/* Is it of the family of something that large, of the pass that began there? */
static int is_member(const struct detecting *x, uint32_t alloc, uint64_t size, uint32_t start)
{
	const struct snapshot_alloc *one = &x->device->allocs[alloc];

	return detect_is_family(one->requested_bytes, size) && one->born != TRACE_NONE &&
	       one->born >= start && detect_is_passing(detect_category(x, alloc));
}

static void tell_logits(struct detecting *x, const struct family *l, uint64_t size, uint32_t start)
{
	struct finding *f =
		detect_add(x, "logits_dominate",
			   l->bytes >= x->peak / 3 ? FINDINGS_WARN : FINDINGS_INFO, 0.85);
	int inferred;
	uint32_t stack = detect_stack(x, l->logits, &inferred);
	char a[32], b[32];

	f->bytes = l->bytes;
	for (size_t i = 0; i < x->at_peak.n; i++)
		if (is_member(x, x->at_peak.at[i], size, start))
			detect_about(x, f, x->at_peak.at[i]);
	detect_place(x, f, stack, inferred);
	detect_title(x, f, "logits take %s of the peak of %s", text_size(a, l->bytes),
		     text_size(b, x->peak));
	detect_say(x, &f->evidence,
		   "%zu tensor%s of the logits' kind at the peak, the largest %s: batch x length x "
		   "vocabulary%s",
		   l->count, text_s(l->count),
		   text_size(a, x->device->allocs[l->logits].requested_bytes),
		   l->count == 1 ? ""
		   : l->trained  ? ", once more in float32, and their gradients"
				 : ", copied or once more in float32");
	detect_say(x, &f->see, "plimsoll report --at peak --group-by stack");
	if (!l->trained) {
		detect_say(x, &f->fix,
			   "compute only what is used: model(ids, logits_to_keep=1) in generation, "
			   "smaller batches or parts of the sequence in evaluation");
		return;
	}
	detect_say(x, &f->fix,
		   "a loss that never holds all logits: Liger's LigerFusedLinearCrossEntropyLoss, "
		   "or the loss over parts of the sequence");
	detect_say(x, &f->fix,
		   "do not hold the output over backward: loss = model(**batch).loss, not "
		   "out = model(**batch)");
}

void detect_logits(struct detecting *x)
{
	enum timeline_phase phase = detect_phase(x, x->tl->peak_event[TIMELINE_ALLOCATED]);
	struct family l = { .logits = find_logits(x) };
	uint64_t size;
	uint32_t start;

	if (l.logits == TRACE_NONE)
		return;
	l.trained =
		phase == TIMELINE_BACKWARD ||
		(phase == TIMELINE_FORWARD && x->in_phase[TIMELINE_BACKWARD].event != TRACE_NONE);
	size = x->device->allocs[l.logits].requested_bytes;
	start = detect_start_of_pass(x, l.logits);
	for (size_t i = 0; i < x->at_peak.n; i++) {
		const struct snapshot_alloc *one = &x->device->allocs[x->at_peak.at[i]];

		if (!is_member(x, x->at_peak.at[i], size, start))
			continue;
		l.bytes += one->requested_bytes;
		l.count++;
	}
	if (l.bytes >= x->peak / LOGITS_PART)
		tell_logits(x, &l, size, start);
}

/* ---- kv_cache_growth ---- */

void detect_kv_cache(struct detecting *x)
{
	uint64_t bytes = 0, saved = 0;
	uint32_t largest = TRACE_NONE;
	size_t count = 0;
	struct finding *f;
	char a[32];

	for (size_t i = 0; i < x->at_peak.n; i++) {
		uint32_t alloc = x->at_peak.at[i];
		uint64_t one = x->device->allocs[alloc].requested_bytes;

		saved += detect_category(x, alloc) == TIMELINE_ACTIVATION ? one : 0;
		if (detect_category(x, alloc) != TIMELINE_KV_CACHE)
			continue;
		bytes += one;
		count++;
		if (largest == TRACE_NONE || one > x->device->allocs[largest].requested_bytes)
			largest = alloc;
	}
	/* in training they are saved for the backward pass anyway, as a cache or not */
	if (!bytes || bytes < x->peak / CACHE_PART || saved > bytes)
		return;
	f = detect_add(x, "kv_cache_growth", x->in->death ? FINDINGS_WARN : FINDINGS_INFO, 0.9);
	f->bytes = bytes;
	for (size_t i = 0; i < x->at_peak.n; i++)
		if (detect_category(x, x->at_peak.at[i]) == TIMELINE_KV_CACHE)
			detect_about(x, f, x->at_peak.at[i]);
	detect_place(x, f, x->device->allocs[largest].stack, 0);
	detect_title(x, f, "the cache of keys and values holds %s at the peak",
		     text_size(a, bytes));
	detect_say(x, &f->evidence,
		   "%zu tensors; it grows with every token of every sequence, and a cache that is "
		   "concatenated holds a layer twice while it grows",
		   count);
	detect_say(
		x, &f->fix,
		"bound it: fewer sequences at once, max_new_tokens, a sliding window; or make room "
		"once: cache_implementation=\"static\"");
	detect_say(x, &f->fix,
		   "cache_implementation=\"quantized\" or \"offloaded\" trade speed for it");
	detect_say(x, &f->see, "https://huggingface.co/docs/transformers/kv_cache");
}

/* ---- allocation_in_loop ---- */

void detect_allocation_in_loop(struct detecting *x)
{
	const struct burst *b = &x->burst;
	struct finding *f;
	char a[32];

	if (b->count < LOOP_MIN)
		return;
	f = detect_add(x, "allocation_in_loop", FINDINGS_INFO, 0.8);
	f->bytes = b->size_bytes;
	detect_place(x, f, b->stack, 0);
	detect_title(x, f, "one line allocates %s %llu times in a row", text_size(a, b->size_bytes),
		     (unsigned long long)b->count);
	detect_say(
		x, &f->evidence,
		"between events %u and %u, with no more than a few other allocations from one to "
		"the next",
		b->first_event, b->last_event);
	detect_say(x, &f->evidence,
		   "each is served from the cache: it costs time on the host more than memory, and "
		   "leaves gaps where other sizes come in between");
	detect_say(x, &f->fix,
		   "do it in one operation over the whole tensor, or write into one that exists: "
		   "torch.mul(a, b, out=buffer), buffer[i] = ...");
	detect_say(x, &f->see, "plimsoll report --events %u:%u", b->first_event, b->last_event);
}
