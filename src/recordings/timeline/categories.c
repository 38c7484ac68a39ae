/*
 * What each allocation is for.  Its life decides first (in which phase was it born, in which did it
 * end, what did it outlive), the names on its stack and its size break ties.  The rules stand in one
 * table, each with what it is worth; they are asked in the order of `decide`.
 */
#include "stack_patterns.h"

#include <stdlib.h>
#include <string.h>

const char *const timeline_category_names[TIMELINE_CATEGORIES] = {
	"parameter", "gradient",  "optimizer_state", "activation",
	"input",     "workspace", "temporary",       "autograd_detail",
	"kv_cache",  "buffer",    "unknown",         "before_recording"
};

#define TOLD "PyTorch's profiler says so"

const struct timeline_rule timeline_rules[] = {
	{ TIMELINE_UNKNOWN, 0, "no rule applies" },
	{ TIMELINE_OPTIMIZER_STATE, 99, "born in an optimizer's step, outlives it" },
	{ TIMELINE_OPTIMIZER_STATE, 97, "born in _init_group, the step never ended" },
	{ TIMELINE_TEMPORARY, 95, "born in an optimizer's step, freed in it" },
	{ TIMELINE_TEMPORARY, 60, "born in an optimizer's step that never ended" },
	{ TIMELINE_PARAMETER, 97, "born while a module was built, lives through a forward pass" },
	{ TIMELINE_PARAMETER, 90, "lives through steps, has the size of optimizer state" },
	{ TIMELINE_BUFFER, 90, "as a parameter, but nothing of its size has a gradient" },
	{ TIMELINE_GRADIENT, 99, "born in a backward pass, freed by zero_grad" },
	{ TIMELINE_GRADIENT, 97,
	  "born in a backward pass, outlives it, has the size of a parameter" },
	{ TIMELINE_WORKSPACE, 90, "of the size of a cuBLAS workspace, the first of its stream" },
	{ TIMELINE_KV_CACHE, 90, "born in a cache of keys and values" },
	{ TIMELINE_ACTIVATION, 97, "born in a forward pass, freed in the backward pass" },
	{ TIMELINE_ACTIVATION, 85, "born in a forward pass whose backward had not come yet" },
	{ TIMELINE_TEMPORARY, 95, "born in a forward pass, freed in it" },
	{ TIMELINE_UNKNOWN, 50, "born in a forward pass, kept by the program" },
	{ TIMELINE_INPUT, 80, "born outside the model, lives into a forward pass" },
	{ TIMELINE_AUTOGRAD_DETAIL, 95, "born in a backward pass, ends with it" },
	{ TIMELINE_TEMPORARY, 80, "born and freed outside the model" },
	{ TIMELINE_BUFFER, 95, "a bucket of DistributedDataParallel, where gradients are reduced" },
	{ TIMELINE_TEMPORARY, 60, "born in a pass that never ended and that nothing answers" },
	{ TIMELINE_UNKNOWN, 50, "born outside the model, kept over several steps" },
	{ TIMELINE_OPTIMIZER_STATE, 95,
	  "born in an optimizer, lives from before the recording to its end" },
	{ TIMELINE_GRADIENT, 85,
	  "born without Python before the recording, lives to its end, has the size of a "
	  "parameter" },
	{ TIMELINE_UNKNOWN, 50,
	  "born in a backward pass, kept by the program next to all gradients of its size" },
	{ TIMELINE_PRIOR, 100, "there before the recording began" },
	{ TIMELINE_OPTIMIZER_STATE, 80,
	  "made by one line with the sizes of the trained parameters, lives to the end, and its "
	  "file updates them" },
	{ TIMELINE_GRADIENT, 85,
	  "born in a backward pass, does not end with it, has the size of what was there before "
	  "the recording and stays" },
	{ TIMELINE_UNKNOWN, 50, "born in a backward pass, outlives it" },
	{ TIMELINE_AUTOGRAD_DETAIL, 60, "born in a backward pass that never ended" },
	/* a memory timeline's, in the order of categories */
	{ TIMELINE_PARAMETER, 90, TOLD },
	{ TIMELINE_GRADIENT, 90, TOLD },
	{ TIMELINE_OPTIMIZER_STATE, 90, TOLD },
	{ TIMELINE_ACTIVATION, 90, TOLD },
	{ TIMELINE_INPUT, 90, TOLD },
	{ TIMELINE_WORKSPACE, 90, TOLD },
	{ TIMELINE_TEMPORARY, 90, TOLD },
	{ TIMELINE_AUTOGRAD_DETAIL, 90, TOLD },
};
const size_t timeline_rule_count = sizeof(timeline_rules) / sizeof(*timeline_rules);

enum rule {
	RULE_NONE,
	RULE_STATE,
	RULE_STATE_UNFINISHED,
	RULE_STEP_TEMPORARY,
	RULE_STEP_UNFINISHED,
	RULE_PARAMETER,
	RULE_PARAMETER_BY_STATE,
	RULE_BUFFER,
	RULE_ZEROED,
	RULE_GRADIENT,
	RULE_WORKSPACE,
	RULE_CACHE,
	RULE_SAVED,
	RULE_SAVED_STILL,
	RULE_FORWARD_TEMPORARY,
	RULE_OUTPUT,
	RULE_INPUT,
	RULE_DETAIL,
	RULE_TEMPORARY,
	RULE_BUCKET,
	RULE_PASS_UNFINISHED,
	RULE_KEPT,
	RULE_STATE_BEFORE,
	RULE_GRADIENT_BEFORE,
	RULE_BESIDE_GRADIENTS,
	RULE_PRIOR,
	RULE_STATE_BY_HAND,
	RULE_GRADIENT_OF_PRIOR,
	RULE_OUTLIVES_BACKWARD,
	RULE_DETAIL_UNFINISHED,
	RULE_TOLD, /* and what follows */
};

/*
 * cuBLAS workspaces that PyTorch allocates, one a handle and stream, never freed: 32 MiB on Hopper and
 * later, 8 MiB + 128 KiB before (at::cuda::getChosenWorkspaceSize), the others through
 * CUBLAS_WORKSPACE_CONFIG.  cuBLASLt has one of its own (CUBLASLT_WORKSPACE_SIZE) on streams that have a handle's; its
 * size is one that tensors have, too, so that it stands last and is taken on no other stream.
 */
#define LT_WORKSPACE_BYTES 1048576
static const uint64_t workspaces[] = { 33554432, 8519680, 4194304, 67108864, LT_WORKSPACE_BYTES };
#define WORKSPACES (sizeof(workspaces) / sizeof(*workspaces))

#define NEVER UINT32_MAX

/* Steps that a batch may live through: two optimizers share one, a loader fetches ahead. */
#define BATCH_STEPS 4

struct size_count {
	uint64_t bytes;
	uint32_t count;
	int prior; /* no parameters are known of this size: it is what was there before, and stays */
};

struct deciding {
	struct mem *mem;
	const struct timeline *tl;
	const uint16_t *cues;
	const uint8_t *phase;
	uint8_t *rule;
	struct plim_err *err;
	int trains;          /* there are backward passes */
	uint32_t death;      /* the failure that ended the program; NEVER */
	uint32_t unfinished; /* the pass in which it died; NEVER */
	/* the backward pass in which it died, or the recording ends */
	uint32_t unfinished_backward;
	VEC(uint32_t) forwards;   /* events at which forward passes begin */
	VEC(uint32_t) steps;      /* events at which optimizer steps begin ... */
	VEC(uint32_t) step_ends;  /* ... and the first event after each */
	VEC(uint32_t) candidates; /* for workspaces */
	uint8_t *saves;           /* stacks outside of modules whose work backward passes release */
	uint64_t handles;         /* streams that have one, a bit each */
	VEC(struct size_count) parameters; /* by size; where none is known, what may be some */
	VEC(uint64_t) states, gradients;   /* sizes, sorted */
};

/*
 * The program dropped it at this event, or never.  What is dropped while a failed program is taken down
 * says nothing of what it was for.
 */
static uint32_t end_of(const struct deciding *x, const struct snapshot_alloc *a)
{
	uint32_t end = a->free_requested != TRACE_NONE ? a->free_requested : a->free_completed;

	return end > x->death ? NEVER : end;
}

static unsigned cues_of(const struct deciding *x, uint32_t stack)
{
	return stack == TRACE_NONE ? 0 : x->cues[stack];
}

static enum timeline_phase phase_at(const struct deciding *x, uint32_t event)
{
	return event == TRACE_NONE ? TIMELINE_LOAD : (enum timeline_phase)x->phase[event];
}

/* Index of the first entry that is not before `event`. */
static size_t first_from(const uint32_t *at, size_t n, uint32_t event)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (at[mid] < event)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static uint32_t next_of(const uint32_t *at, size_t n, uint32_t event)
{
	size_t i = event == TRACE_NONE ? 0 : first_from(at, n, event);

	return i < n ? at[i] : NEVER;
}

static int lives_into_forward(const struct deciding *x, const struct snapshot_alloc *a)
{
	uint32_t next = next_of(x->forwards.at, x->forwards.n, a->born);

	return end_of(x, a) == NEVER || (next != NEVER && next < end_of(x, a));
}

/* ---- what there is to go by ---- */

static enum plim_status find_windows(struct deciding *x)
{
	size_t n = x->tl->device->events.n;
	enum plim_status st = PLIM_OK;

	for (uint32_t e = 0; !st && e < n; e++) {
		enum timeline_phase now = phase_at(x, e);
		enum timeline_phase before = e ? phase_at(x, e - 1) : TIMELINE_PHASES;

		if (timeline_is_pass(now) && now != before)
			st = vec_push(x->mem, &x->forwards, e, x->err);
		if (now == TIMELINE_OPTIMIZER && now != before)
			st = vec_push(x->mem, &x->steps, e, x->err);
		if (!st && before == TIMELINE_OPTIMIZER && now != before)
			st = vec_push(x->mem, &x->step_ends, e, x->err);
	}
	return st;
}

static int category_by_bytes(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Sizes of a category, sorted; of TIMELINE_PRIOR: of what has no rule yet, was there before the recording, and stays. */
static enum plim_status sizes_of(struct deciding *x, enum timeline_category category,
				 uint64_t **sizes, size_t *n)
{
	const struct snapshot_device *d = x->tl->device;
	VEC(uint64_t) list = { 0 };
	enum plim_status st = PLIM_OK;

	for (uint32_t a = 0; !st && a < d->alloc_count; a++) {
		const struct snapshot_alloc *one = &d->allocs[a];
		int is = category == TIMELINE_PRIOR
				 ? !x->rule[a] && one->flags & TRACE_BEFORE &&
					   end_of(x, one) == NEVER
				 : timeline_rules[x->rule[a]].category == category;

		if (is)
			st = vec_push(x->mem, &list, one->requested_bytes, x->err);
	}
	sort_items(list.at, list.n, sizeof(*list.at), category_by_bytes);
	mem_trim(x->mem, &list.at, &list.cap, list.n, sizeof(*list.at));
	*sizes = list.at;
	*n = list.n;
	return st;
}

static int has_size(const uint64_t *sizes, size_t n, uint64_t bytes)
{
	return n && bsearch(&bytes, sizes, n, sizeof(*sizes), category_by_bytes) != NULL;
}

static size_t count_of_size(const uint64_t *sizes, size_t n, uint64_t bytes)
{
	size_t from = 0, count = 0;

	while (from < n && sizes[from] < bytes)
		from++;
	while (from + count < n && sizes[from + count] == bytes)
		count++;
	return count;
}

static int by_size_count(const void *a, const void *b)
{
	const struct size_count *x = a, *y = b;

	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Add the sizes of a category behind those that are there; one that is known is left as it is. */
static enum plim_status count_sizes(struct deciding *x, enum timeline_category category)
{
	uint64_t *sizes;
	size_t n, known = x->parameters.n, at = 0;
	enum plim_status st = sizes_of(x, category, &sizes, &n);

	for (size_t i = 0, end; !st && i < n; i = end) {
		struct size_count one = { sizes[i], 0, category == TIMELINE_PRIOR };

		for (end = i; end < n && sizes[end] == sizes[i]; end++)
			one.count++;
		while (at < known && x->parameters.at[at].bytes < one.bytes)
			at++;
		if (at == known || x->parameters.at[at].bytes != one.bytes)
			st = vec_push(x->mem, &x->parameters, one, x->err);
	}
	mem_free(x->mem, sizes, n, sizeof(*sizes));
	sort_items(x->parameters.at, x->parameters.n, sizeof(*x->parameters.at), by_size_count);
	return st;
}

/* A recording that begins late may know no parameters: weights are among what was there before, and stays. */
static enum plim_status count_parameters(struct deciding *x)
{
	enum plim_status st = count_sizes(x, TIMELINE_PARAMETER);

	return st ? st : count_sizes(x, TIMELINE_PRIOR);
}

/* Where parameters of a size stand in x->parameters; its length: there are none. */
static size_t find_parameters(const struct deciding *x, uint64_t bytes)
{
	size_t low = 0, high = x->parameters.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (x->parameters.at[mid].bytes < bytes)
			low = mid + 1;
		else
			high = mid;
	}
	return low < x->parameters.n && x->parameters.at[low].bytes == bytes ? low
									     : x->parameters.n;
}

/* Of what has this size, known parameters or what may be some. */
static uint32_t weights_of_size(const struct deciding *x, uint64_t bytes)
{
	size_t i = find_parameters(x, bytes);

	return i < x->parameters.n ? x->parameters.at[i].count : 0;
}

static uint32_t parameters_of_size(const struct deciding *x, uint64_t bytes)
{
	size_t i = find_parameters(x, bytes);

	return i < x->parameters.n && !x->parameters.at[i].prior ? x->parameters.at[i].count : 0;
}

/* ---- the rules ---- */

static enum rule in_step(const struct deciding *x, const struct snapshot_alloc *a, unsigned cues)
{
	uint32_t end = next_of(x->step_ends.at, x->step_ends.n, a->born);

	if (a->born == TRACE_NONE)
		return end_of(x, a) == NEVER ? RULE_STATE_BEFORE : RULE_NONE;
	/* a recording that ends with a step ends behind it, unless the program died in it */
	if (end == NEVER && end_of(x, a) == NEVER && x->death == NEVER)
		return RULE_STATE;
	if (end == NEVER && end_of(x, a) == NEVER)
		return cues & CUE_INIT_GROUP ? RULE_STATE_UNFINISHED : RULE_STEP_UNFINISHED;
	return end_of(x, a) >= end ? RULE_STATE : RULE_STEP_TEMPORARY;
}

/* Is it one of what the optimizer steps over? */
static int outlives_backward(const struct deciding *x, const struct snapshot_alloc *a)
{
	uint32_t step = next_of(x->steps.at, x->steps.n, a->born), end = end_of(x, a);

	if (end == NEVER)
		return 1;
	if (!x->steps.n) /* of an optimizer by hand no step is seen */
		return phase_at(x, end) != TIMELINE_BACKWARD;
	return step != NEVER && end >= step;
}

/* Was its end seen in its pass, or before the optimizer stepped over what the pass has left? */
static int ends_with_backward(const struct deciding *x, const struct snapshot_alloc *a)
{
	uint32_t end = end_of(x, a);

	if (end == NEVER)
		return 0;
	return !outlives_backward(x, a) || (phase_at(x, end) == TIMELINE_BACKWARD &&
					    next_of(x->forwards.at, x->forwards.n, a->born) >= end);
}

static enum rule in_backward(const struct deciding *x, const struct snapshot_alloc *a)
{
	uint32_t end = end_of(x, a);

	if (end != NEVER && cues_of(x, x->tl->device->events.stack[end]) & CUE_ZERO_GRAD)
		return RULE_ZEROED;
	if (outlives_backward(x, a) && parameters_of_size(x, a->requested_bytes))
		return RULE_GRADIENT;
	if (ends_with_backward(x, a))
		return RULE_DETAIL;
	if (weights_of_size(x, a->requested_bytes))
		return RULE_GRADIENT_OF_PRIOR;
	return a->born >= x->unfinished_backward ? RULE_DETAIL_UNFINISHED : RULE_OUTLIVES_BACKWARD;
}

static enum rule in_forward(const struct deciding *x, const struct snapshot_alloc *a)
{
	uint32_t end = end_of(x, a);
	enum timeline_phase born = phase_at(x, a->born);

	if (end == NEVER && (born == TIMELINE_FORWARD || born == TIMELINE_BACKWARD))
		return RULE_SAVED_STILL;
	if (end == NEVER)
		return a->born >= x->unfinished && a->born < x->death ? RULE_PASS_UNFINISHED
								      : RULE_OUTPUT;
	if (phase_at(x, end) == TIMELINE_BACKWARD)
		return RULE_SAVED;
	return phase_at(x, end) == born ? RULE_FORWARD_TEMPORARY : RULE_OUTPUT;
}

/* Autograd's own thread drops what was saved for it, wherever it was made: not all models are modules. */
static int is_released_by_backward(const struct deciding *x, const struct snapshot_alloc *a)
{
	uint32_t end = end_of(x, a);

	return end != NEVER && phase_at(x, end) == TIMELINE_BACKWARD &&
	       cues_of(x, x->tl->device->events.stack[end]) & CUE_EMPTY;
}

/* What is allocated after the program has begun to work, and outlives more steps than a batch takes, is not a batch. */
static int category_is_kept(const struct deciding *x, const struct snapshot_alloc *a)
{
	int by_hand = !x->steps.n && x->trains; /* then its passes tell the steps */
	const uint32_t *at = by_hand ? x->forwards.at : x->steps.at;
	size_t n = by_hand ? x->forwards.n : x->steps.n;

	if (a->born < x->forwards.at[0])
		return 0;
	return first_from(at, n, end_of(x, a)) - first_from(at, n, a->born) > BATCH_STEPS;
}

static enum rule outside_weights(struct deciding *x, const struct snapshot_alloc *a)
{
	if (is_released_by_backward(x, a)) {
		if (a->stack != TRACE_NONE)
			x->saves[a->stack] = 1;
		return RULE_SAVED;
	}
	if (end_of(x, a) == NEVER && a->stack != TRACE_NONE && x->saves[a->stack])
		return RULE_SAVED_STILL;
	if (a->born ==
	    TRACE_NONE) /* before the recording: it is not what the first pass works on */
		return RULE_PRIOR;
	if (x->forwards.n && lives_into_forward(x, a))
		return category_is_kept(x, a) ? RULE_KEPT : RULE_INPUT;
	return end_of(x, a) == NEVER ? RULE_NONE : RULE_TEMPORARY;
}

/* A weight is there before its state is: what comes later and has such a size is something else. */
static enum rule outside(struct deciding *x, const struct snapshot_alloc *a)
{
	int before = a->born == TRACE_NONE || !x->steps.n || a->born < x->steps.at[0];

	if (before && end_of(x, a) == NEVER &&
	    has_size(x->states.at, x->states.n, a->requested_bytes))
		return RULE_PARAMETER_BY_STATE;
	return outside_weights(x, a);
}

struct like_weights {
	uint64_t bytes;
	uint32_t stack, alloc;
};

static int by_size_and_stack(const void *a, const void *b)
{
	const struct like_weights *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

/*
 * Of one place and size there cannot be more weights than there is state of that size: it is a bank of
 * features, or a buffer of experience, that happens to have the size of a weight.
 */
static enum plim_status drop_crowds(struct deciding *x)
{
	const struct snapshot_device *d = x->tl->device;
	VEC(struct like_weights) list = { 0 };
	enum plim_status st = PLIM_OK;

	for (uint32_t a = 0; !st && a < d->alloc_count; a++)
		if (x->rule[a] == RULE_PARAMETER_BY_STATE)
			st = vec_push(x->mem, &list,
				      ((struct like_weights){ d->allocs[a].requested_bytes,
							      d->allocs[a].stack, a }),
				      x->err);
	sort_items(list.at, list.n, sizeof(*list.at), by_size_and_stack);
	for (size_t i = 0, end; !st && i < list.n; i = end) {
		for (end = i + 1; end < list.n && !by_size_and_stack(list.at + i, list.at + end);)
			end++;
		if (end - i <= count_of_size(x->states.at, x->states.n, list.at[i].bytes))
			continue;
		for (size_t k = i; k < end; k++)
			x->rule[list.at[k].alloc] =
				(uint8_t)outside_weights(x, &d->allocs[list.at[k].alloc]);
	}
	vec_release(x->mem, &list);
	return st;
}

/* Is it taken for a gradient by what it outlives and by its size alone? */
static int is_gradient_by_size(const struct deciding *x, uint32_t a)
{
	return x->rule[a] == RULE_GRADIENT || x->rule[a] == RULE_GRADIENT_OF_PRIOR;
}

/* The first born of a size that is taken for a gradient, and lives. */
static uint32_t oldest_gradient(const struct deciding *x, uint64_t bytes, uint32_t from,
				size_t event)
{
	const struct snapshot_device *d = x->tl->device;

	while (from < d->alloc_count &&
	       (!is_gradient_by_size(x, from) || d->allocs[from].requested_bytes != bytes ||
		d->allocs[from].free_requested <= event))
		from++;
	return from;
}

/*
 * There are no more gradients than parameters, of any size: what is beyond them is something that a backward pass gave to
 * the program (torch.autograd.grad, for a penalty on gradients), made before the backward pass of the loss.
 */
static enum plim_status drop_doubles(struct deciding *x)
{
	const struct snapshot_device *d = x->tl->device;
	const struct snapshot_events *ev = &d->events;
	size_t sizes = x->parameters.n;
	struct {
		uint32_t live, from;
	} *of = mem_new(x->mem, sizes, sizeof(*of), x->err);

	if (!of)
		return mem_status(x->err);
	for (size_t e = 0; e < ev->n; e++) {
		uint32_t a = ev->alloc[e], oldest;
		uint64_t bytes;
		size_t i;

		if ((ev->action[e] != TRACE_ALLOC && ev->action[e] != TRACE_FREE_REQUESTED) ||
		    a == TRACE_NONE || timeline_rules[x->rule[a]].category != TIMELINE_GRADIENT)
			continue;
		bytes = d->allocs[a].requested_bytes;
		i = find_parameters(x, bytes);
		if (i == sizes)
			continue;
		if (ev->action[e] == TRACE_FREE_REQUESTED) {
			of[i].live -= of[i].live > 0;
			continue;
		}
		if (++of[i].live <= x->parameters.at[i].count)
			continue;
		oldest = oldest_gradient(x, bytes, of[i].from, e);
		if (oldest == d->alloc_count)
			continue;
		x->rule[oldest] = RULE_BESIDE_GRADIENTS;
		of[i].from = oldest + 1;
		of[i].live--;
	}
	mem_free(x->mem, of, sizes, sizeof(*of));
	return PLIM_OK;
}

/* Born before recording began, no one knows where. */
static enum rule before_all(const struct deciding *x, const struct snapshot_alloc *a)
{
	uint32_t end = end_of(x, a);

	if (end != NEVER && cues_of(x, x->tl->device->events.stack[end]) & CUE_ZERO_GRAD)
		return RULE_ZEROED;
	/* it stands at the end, with a stack that has no Python: autograd's thread made it */
	return end == NEVER && a->stack != TRACE_NONE && parameters_of_size(x, a->requested_bytes)
		       ? RULE_GRADIENT_BEFORE
		       : RULE_PRIOR;
}

static int is_built(const struct deciding *x, const struct snapshot_alloc *a, unsigned cues)
{
	enum timeline_phase born = phase_at(x, a->born);

	if (cues & CUE_LAZY)
		return lives_into_forward(x, a);
	return cues & CUE_BUILD && !(cues & (CUE_FORWARD | CUE_BACKWARD | CUE_OPTIMIZER)) &&
	       (born == TIMELINE_LOAD || born == TIMELINE_OTHER) && lives_into_forward(x, a);
}

static enum rule decide(struct deciding *x, const struct snapshot_alloc *a)
{
	unsigned cues = cues_of(x, a->stack);
	enum timeline_phase born = phase_at(x, a->born);

	if (a->flags & TRACE_BEFORE && snapshot_stackless(x->tl->snapshot, a->stack))
		return before_all(x, a);
	if (cues & CUE_CACHE && !(x->trains && born == TIMELINE_FORWARD)) /* there it is saved */
		return RULE_CACHE;
	if (cues & CUE_BUCKET)
		return RULE_BUCKET;
	if (cues & CUE_FORWARD && timeline_is_pass(born))
		return in_forward(x, a);
	if (born == TIMELINE_BACKWARD) /* what checkpointing computes again is saved once more */
		return cues & CUE_FORWARD ? in_forward(x, a) : in_backward(x, a);
	if (timeline_is_pass(born))
		return in_forward(x, a);
	return outside(x, a);
}

/* What is never freed and has the size of a workspace. */
static enum plim_status workspace_candidates(struct deciding *x)
{
	const struct snapshot_device *d = x->tl->device;
	enum plim_status st = PLIM_OK;

	for (uint32_t a = 0; !st && a < d->alloc_count; a++)
		for (size_t w = 0; !st && w < WORKSPACES; w++)
			if (d->allocs[a].requested_bytes == workspaces[w] &&
			    end_of(x, &d->allocs[a]) == NEVER)
				st = vec_push(x->mem, &x->candidates, a, x->err);
	return st;
}

/* The first of one size on its stream, for each of autograd's thread and the main one. */
static void find_workspaces_of(struct deciding *x, uint64_t bytes)
{
	const struct snapshot_device *d = x->tl->device;
	uint64_t seen[2] = { 0 };
	uint32_t gradients = 0;

	for (size_t i = 0; i < x->candidates.n; i++)
		gradients += d->allocs[x->candidates.at[i]].requested_bytes == bytes &&
			     is_gradient_by_size(x, x->candidates.at[i]);
	for (size_t i = 0; i < x->candidates.n; i++) {
		uint32_t a = x->candidates.at[i];
		uint64_t stream = (uint64_t)1 << (d->allocs[a].stream & 63);
		uint8_t rule = x->rule[a];
		int gradient = is_gradient_by_size(x, a);
		int back = gradient || rule == RULE_DETAIL_UNFINISHED ||
			   rule == RULE_OUTLIVES_BACKWARD;

		if (d->allocs[a].requested_bytes != bytes || seen[back] & stream)
			continue;
		if (rule != RULE_SAVED_STILL && rule != RULE_OUTPUT &&
		    rule != RULE_PASS_UNFINISHED && !back)
			continue;
		if (bytes == LT_WORKSPACE_BYTES && !(x->handles & stream))
			continue;
		/* parameters of that size have gradients of that size: it is one beyond them */
		if (gradient && gradients <= weights_of_size(x, bytes))
			continue;
		gradients -= gradient;
		seen[back] |= stream;
		x->handles |= stream;
		x->rule[a] = RULE_WORKSPACE;
	}
}

static enum plim_status find_workspaces(struct deciding *x)
{
	enum plim_status st = workspace_candidates(x);

	for (size_t w = 0; !st && w < WORKSPACES; w++)
		find_workspaces_of(x, workspaces[w]);
	return st;
}

/* ---- an optimizer by hand ---- */

/* Parameters of each size that are trained: gradients of that size that live at once, behind their backward pass. */
static void count_trained(const struct deciding *x, uint32_t *most, uint32_t *live)
{
	const struct snapshot_device *d = x->tl->device;
	const struct snapshot_events *ev = &d->events;

	for (uint32_t e = 0; e < ev->n; e++) {
		uint32_t a = ev->alloc[e];
		size_t i;

		if ((ev->action[e] != TRACE_ALLOC && ev->action[e] != TRACE_FREE_REQUESTED) ||
		    a == TRACE_NONE || timeline_rules[x->rule[a]].category != TIMELINE_GRADIENT)
			continue;
		i = find_parameters(x, d->allocs[a].requested_bytes);
		if (i == x->parameters.n)
			continue;
		if (ev->action[e] == TRACE_FREE_REQUESTED)
			live[i] -= live[i] > 0;
		else if (++live[i] > most[i])
			most[i] = live[i];
	}
}

/* The file of the innermost frame, if that is the user's own; TRACE_NONE. */
static uint32_t own_file(const struct snapshot *t, uint32_t stack)
{
	uint32_t n;
	const uint32_t *frames = stack == TRACE_NONE ? NULL : snapshot_python_stack(t, stack, &n);

	return frames && n && timeline_user_frame(t, stack) == frames[0] &&
			       !timeline_foreign_mark(
				       snapshot_text(t, snapshot_frame(t, frames[0])->filename),
				       &(size_t){ 0 })
		       ? snapshot_frame(t, frames[0])->filename
		       : TRACE_NONE;
}

/* May it be state: made by the user's own line outside of all passes, of a parameter's size, never freed? */
static int may_be_state(const struct deciding *x, uint32_t a)
{
	const struct snapshot_alloc *one = &x->tl->device->allocs[a];
	enum timeline_phase born = phase_at(x, one->born);

	return (x->rule[a] == RULE_PARAMETER || x->rule[a] == RULE_INPUT ||
		x->rule[a] == RULE_KEPT || x->rule[a] == RULE_NONE) &&
	       one->born != TRACE_NONE && end_of(x, one) == NEVER &&
	       (born == TIMELINE_OTHER || born == TIMELINE_LOAD) &&
	       parameters_of_size(x, one->requested_bytes) &&
	       own_file(x->tl->snapshot, one->stack) != TRACE_NONE;
}

/* Does this file make and drop tensors of parameters' sizes outside of all passes, after the first one? */
static int updates_parameters(const struct deciding *x, uint32_t file)
{
	const struct snapshot_device *d = x->tl->device;
	uint32_t first = x->forwards.n ? x->forwards.at[0] : NEVER;

	for (uint32_t a = 0; a < d->alloc_count; a++) {
		const struct snapshot_alloc *one = &d->allocs[a];

		if (x->rule[a] == RULE_TEMPORARY && one->born != TRACE_NONE && one->born > first &&
		    parameters_of_size(x, one->requested_bytes) &&
		    own_file(x->tl->snapshot, one->stack) == file)
			return 1;
	}
	return 0;
}

struct state_group {
	uint32_t first, alloc; /* the first of its stack shows the group */
};

/* What was made last comes first: the parameters were there before their state. */
static int last_first(const void *a, const void *b)
{
	const struct state_group *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? 1 : -1;
	return (x->alloc < y->alloc) - (x->alloc > y->alloc);
}

/*
 * A line's allocations: one for each trained parameter at most, half of them at least, beyond those that are trained
 * themselves (`spare`, of what was taken for parameters).
 */
static int is_state_of(const struct deciding *x, const struct state_group *at, size_t n,
		       const uint32_t *trained, uint32_t *spare, uint32_t *count)
{
	uint64_t bytes = 0, all = 0;
	int fits = n > 1;

	memset(count, 0, x->parameters.n * sizeof(*count));
	for (size_t i = 0; i < n; i++) {
		size_t k = find_parameters(x, x->tl->device->allocs[at[i].alloc].requested_bytes);

		bytes += x->parameters.at[k].bytes;
		fits &= ++count[k] <= trained[k] &&
			(x->rule[at[i].alloc] != RULE_PARAMETER || count[k] <= spare[k]);
	}
	for (size_t k = 0; k < x->parameters.n; k++)
		all += x->parameters.at[k].prior ? 0 : trained[k] * x->parameters.at[k].bytes;
	if (!fits || bytes < all / 2)
		return 0;
	for (size_t k = 0; k < x->parameters.n && x->rule[at->alloc] == RULE_PARAMETER; k++)
		spare[k] -= count[k];
	return 1;
}

static void take_state(struct deciding *x, const struct state_group *at, size_t n,
		       const uint32_t *trained, uint32_t *spare, uint32_t *count)
{
	for (size_t i = 0, end; i < n; i = end) {
		uint32_t file = own_file(x->tl->snapshot, x->tl->device->allocs[at[i].first].stack);
		enum rule rule = RULE_KEPT;

		for (end = i + 1; end < n && at[end].first == at[i].first;)
			end++;
		if (!is_state_of(x, at + i, end - i, trained, spare, count))
			continue;
		if (updates_parameters(x, file))
			rule = RULE_STATE_BY_HAND;
		for (size_t k = i; k < end; k++)
			x->rule[at[k].alloc] = (uint8_t)rule;
	}
}

/*
 * Momentum and the like of an optimizer that is not PyTorch's nor derived from it: no frame of a step shows it.  What
 * only looks like it, such as an average of the weights, is not set apart from it unless the file updates parameters; then
 * nothing is said but that it is kept.
 */
static enum plim_status find_state_by_hand(struct deciding *x)
{
	size_t sizes = x->parameters.n;
	VEC(struct state_group) list = { 0 };
	size_t stacks = x->tl->snapshot->stacks.n;
	uint32_t *room, *first;
	enum plim_status st = PLIM_OK;

	if (x->steps.n || !x->trains || !sizes)
		return PLIM_OK;
	room = mem_new(x->mem, 4 * sizes, sizeof(*room), x->err);
	first = room ? mem_new(x->mem, stacks, sizeof(*first), x->err) : NULL;
	if (!first) {
		mem_free(x->mem, room, 4 * sizes, sizeof(*room));
		return mem_status(x->err);
	}
	count_trained(x, room, room + sizes);
	for (size_t k = 0; k < sizes; k++)
		room[2 * sizes + k] = x->parameters.at[k].count > room[k]
					      ? x->parameters.at[k].count - room[k]
					      : 0;
	for (uint32_t a = 0; !st && a < x->tl->device->alloc_count; a++) {
		uint32_t stack = x->tl->device->allocs[a].stack;

		if (!may_be_state(x, a))
			continue;
		if (first[stack] == 0)
			first[stack] = a + 1;
		st = vec_push(x->mem, &list, ((struct state_group){ first[stack] - 1, a }), x->err);
	}
	sort_items(list.at, list.n, sizeof(*list.at), last_first);
	if (!st)
		take_state(x, list.at, list.n, room, room + 2 * sizes, room + 3 * sizes);
	vec_release(x->mem, &list);
	mem_free(x->mem, first, stacks, sizeof(*first));
	mem_free(x->mem, room, 4 * sizes, sizeof(*room));
	return st;
}

/*
 * Once nearly all that was built has gradients or state of its size, what has none is not a parameter.
 * Under LoRA most has none: there nothing is concluded.
 */
static void find_buffers(struct deciding *x)
{
	const struct snapshot_device *d = x->tl->device;
	uint64_t with = 0, without = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t a = 0; a < d->alloc_count; a++) {
			uint64_t bytes = d->allocs[a].requested_bytes;

			if (x->rule[a] != RULE_PARAMETER)
				continue;
			if (has_size(x->states.at, x->states.n, bytes) ||
			    has_size(x->gradients.at, x->gradients.n, bytes))
				with += bytes;
			else if (!pass)
				without += bytes;
			else
				x->rule[a] = RULE_BUFFER;
		}
		if (!with || without > with / 10)
			return;
	}
}

/* Parameters and optimizer state first: what is left is known by them. */
static enum plim_status decide_all(struct deciding *x)
{
	const struct snapshot_device *d = x->tl->device;
	enum plim_status st = find_windows(x);

	for (uint32_t a = 0; !st && a < d->alloc_count; a++) {
		unsigned cues = cues_of(x, d->allocs[a].stack);

		if (is_built(x, &d->allocs[a], cues))
			x->rule[a] = RULE_PARAMETER;
		else if (cues & CUE_OPTIMIZER)
			x->rule[a] = (uint8_t)in_step(x, &d->allocs[a], cues);
	}
	if (!st)
		st = count_parameters(x);
	if (!st)
		st = sizes_of(x, TIMELINE_OPTIMIZER_STATE, &x->states.at, &x->states.n);
	for (uint32_t a = 0; !st && a < d->alloc_count; a++)
		if (!x->rule[a])
			x->rule[a] = (uint8_t)decide(x, &d->allocs[a]);
	if (!st)
		st = drop_crowds(x);
	if (!st)
		st = find_workspaces(x);
	if (!st)
		st = drop_doubles(x);
	if (!st)
		st = find_state_by_hand(x);
	if (!st)
		st = sizes_of(x, TIMELINE_GRADIENT, &x->gradients.at, &x->gradients.n);
	if (!st)
		find_buffers(x);
	return st;
}

/* ---- whose block a backward pass answers ---- */

/*
 * An allocation without a stack in a backward pass belongs to the part of the forward pass that it
 * answers: the one whose saved activation is freed next.
 */
static void infer_owners(const struct deciding *x, uint32_t *stack)
{
	const struct snapshot_events *ev = &x->tl->device->events;
	uint32_t next = TRACE_NONE;

	for (size_t e = ev->n; e-- > 0;) {
		uint32_t a = ev->alloc[e];

		if (x->phase[e] != TIMELINE_BACKWARD)
			next = TRACE_NONE;
		else if (ev->action[e] == TRACE_FREE_REQUESTED && x->rule[a] == RULE_SAVED)
			next = x->tl->device->allocs[a].stack;
		else if (ev->action[e] == TRACE_ALLOC && cues_of(x, ev->stack[e]) & CUE_EMPTY)
			stack[a] = next;
	}
}

/* Where the pass begins that the program died in. */
static uint32_t find_unfinished(const struct deciding *x)
{
	uint32_t e = x->death;

	if (e == NEVER || !timeline_is_pass(phase_at(x, e)))
		return NEVER;
	while (e && phase_at(x, e - 1) == phase_at(x, x->death))
		e--;
	return e;
}

/* Where the backward pass begins with which the events end, or the program died; that very end: in none. */
static uint32_t find_unfinished_backward(const struct deciding *x)
{
	uint32_t e = (uint32_t)x->tl->device->events.n;

	e = x->death < e ? x->death : e;
	while (e && phase_at(x, e - 1) == TIMELINE_BACKWARD)
		e--;
	return e;
}

/* Of a memory timeline: a stack is a frame that has the category's name. */
static void take_told(const struct timeline *tl, struct timeline_categories *c)
{
	const struct snapshot *t = tl->snapshot;

	memset(c->phase, TIMELINE_OTHER, c->events);
	for (size_t a = 0; a < c->allocs; a++) {
		uint32_t frame = timeline_user_frame(t, tl->device->allocs[a].stack);
		const char *name =
			frame == TRACE_NONE ? "" : snapshot_text(t, snapshot_frame(t, frame)->name);

		for (int k = 0; k <= TIMELINE_AUTOGRAD_DETAIL; k++)
			if (!strcmp(name, timeline_category_names[k]))
				c->rule[a] = (uint8_t)(RULE_TOLD + k);
	}
}

enum plim_status timeline_categorize(struct mem *m, const struct timeline *tl,
				     struct timeline_categories *out, struct plim_err *err)
{
	struct deciding x = { .mem = m, .tl = tl, .err = err };
	size_t allocs = tl->device->alloc_count, stacks = tl->snapshot->stacks.n;
	uint16_t *cues;
	enum plim_status st = cues_find(m, tl->snapshot, &cues, err);

	*out = (struct timeline_categories){ .mem = m,
					     .events = tl->device->events.n,
					     .allocs = allocs };
	if (st)
		return st;
	x.saves = mem_new(m, stacks, 1, err);
	out->phase = !x.saves ? NULL : mem_new(m, out->events, sizeof(*out->phase), err);
	out->rule = out->phase ? mem_new(m, allocs, sizeof(*out->rule), err) : NULL;
	out->stack = out->rule ? mem_new(m, allocs, sizeof(*out->stack), err) : NULL;
	st = out->stack ? PLIM_OK : mem_status(err);
	if (!st && tl->snapshot->profile.kind == SNAPSHOT_PROFILE_TOTALS) {
		memset(out->stack, 0xff, allocs * sizeof(*out->stack));
		take_told(tl, out);
	} else if (!st) {
		x.cues = cues;
		x.death = snapshot_find_end(tl->device);
		x.phase = out->phase;
		x.rule = out->rule;
		memset(out->stack, 0xff, allocs * sizeof(*out->stack));
		phases_find(tl, cues, out->phase);
		x.trains = memchr(out->phase, TIMELINE_BACKWARD, out->events) != NULL;
		x.unfinished = find_unfinished(&x);
		x.unfinished_backward = find_unfinished_backward(&x);
		st = decide_all(&x);
	}
	if (!st && x.cues)
		infer_owners(&x, out->stack);
	vec_release(m, &x.forwards);
	vec_release(m, &x.steps);
	vec_release(m, &x.step_ends);
	vec_release(m, &x.parameters);
	vec_release(m, &x.candidates);
	mem_free(m, x.states.at, x.states.n, sizeof(*x.states.at));
	mem_free(m, x.gradients.at, x.gradients.n, sizeof(*x.gradients.at));
	mem_free(m, x.saves, stacks, 1);
	mem_free(m, cues, stacks, sizeof(*cues));
	if (st)
		timeline_categories_release(out);
	return st;
}

void timeline_categories_release(struct timeline_categories *c)
{
	if (!c->mem)
		return;
	mem_free(c->mem, c->phase, c->events, sizeof(*c->phase));
	mem_free(c->mem, c->rule, c->allocs, sizeof(*c->rule));
	mem_free(c->mem, c->stack, c->allocs, sizeof(*c->stack));
	*c = (struct timeline_categories){ .mem = NULL };
}

void timeline_sum_categories(const struct timeline *tl, const struct timeline_categories *c,
			     uint32_t event, enum timeline_measure measure,
			     uint64_t bytes[TIMELINE_CATEGORIES])
{
	memset(bytes, 0, TIMELINE_CATEGORIES * sizeof(*bytes));
	for (uint32_t a = 0; a < tl->device->alloc_count; a++)
		if (timeline_lives(&tl->device->allocs[a], measure, event))
			bytes[timeline_rules[c->rule[a]].category] +=
				timeline_bytes(tl, a, measure);
}
