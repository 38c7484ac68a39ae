/*
 * The verdict of a death: what the bound was, and why the request did not fit under it.
 *
 * The bound is known as an interval.  A limit was reached: everything that was ever reserved was
 * allowed, and reserved + segment was not.  The device was full: reserved + what the driver had free.
 *
 * Fragmentation is claimed only if what was live, the request, and all that the step had still to
 * allocate would have fitted under the low end; capacity only if it would not under the high end.
 */
#include "diagnose.h"

#include <string.h>

/* cudaMalloc can fail with a little more free than it was asked for: pages, the driver's own needs. */
#define DRIVER_SLACK_BYTES (64u << 20)
/* Memory outside this process's allocator that decides is more than contexts take, too. */
#define CONTEXT_BYTES (1u << 30)
#define CONTEXT_LOW_BYTES (200u << 20)
#define CONTEXT_HIGH_BYTES (1200u << 20)

/* ---- the bound ---- */

/*
 * Is this what a known GPU offers to a process that has it for itself?  Its context takes 0.3 to
 * 1.2 GiB.  NULL: no such GPU, or someone else has a part of it.
 */
static const struct facts_gpu *whole_card(uint64_t usable, enum snapshot_backend backend)
{
	for (size_t i = 0; i < facts_gpu_count && backend != SNAPSHOT_XPU; i++) {
		if (!facts_gpus[i].capability != (backend == SNAPSHOT_HIP))
			continue; /* another maker's */
		if (usable + CONTEXT_LOW_BYTES <= facts_gpus[i].total_high_bytes &&
		    usable + CONTEXT_HIGH_BYTES >= facts_gpus[i].total_low_bytes)
			return &facts_gpus[i];
	}
	return NULL;
}

static void bound_of_device(struct findings_death *d, enum snapshot_backend backend)
{
	const struct messages_oom *m = d->message;
	uint64_t outside, own;

	d->bound_low_bytes = d->bound_high_bytes = d->reserved_bytes + d->device_free_bytes;
	if (!m || m->total.low == PLIM_UNKNOWN || m->others.low == PLIM_UNKNOWN) {
		d->card = whole_card(d->bound_low_bytes, backend);
		d->bound_by = d->card ? FINDINGS_BOUND_DEVICE : FINDINGS_BOUND_UNKNOWN;
		return;
	}
	own = m->this_process.low != PLIM_UNKNOWN && m->this_process.low > d->reserved_bytes
		      ? m->this_process.low - d->reserved_bytes
		      : 0;
	outside = m->total.low / FINDINGS_OUTSIDE_PART;
	if (outside < CONTEXT_BYTES)
		outside = CONTEXT_BYTES;
	d->bound_by = m->others.low >= outside && m->others.low >= own
			      ? FINDINGS_BOUND_OTHER_PROCESS
		      : own >= outside ? FINDINGS_BOUND_NON_PYTORCH
				       : FINDINGS_BOUND_DEVICE;
}

static void find_bound(struct findings_death *d, enum snapshot_backend backend)
{
	const struct messages_oom *m = d->message;

	if (d->device_free_bytes < d->segment_bytes + DRIVER_SLACK_BYTES &&
	    !(m && m->allowed.low != PLIM_UNKNOWN && d->device_free_bytes >= d->segment_bytes)) {
		bound_of_device(d, backend);
		return;
	}
	d->bound_by = FINDINGS_BOUND_LIMIT;
	d->bound_low_bytes = d->most_reserved_bytes;
	d->bound_high_bytes = d->reserved_bytes + d->segment_bytes;
	if (m && m->allowed.low != PLIM_UNKNOWN) {
		if (m->allowed.low > d->bound_low_bytes && m->allowed.low < d->bound_high_bytes)
			d->bound_low_bytes = m->allowed.low;
		if (m->allowed.high < d->bound_high_bytes && m->allowed.high >= d->bound_low_bytes)
			d->bound_high_bytes = m->allowed.high + 1;
	}
}

/* ---- what was still to come: the same point in earlier repetitions ---- */

/*
 * A point of the program is the stacks of the last allocations up to it.  The longest of these
 * lengths that was met before decides: longer ones tell more, but routing and batches vary.
 */
static const uint32_t lengths[] = { 512, 128, 48, 16 };
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* One stretch from a match to the next: how high live memory rose before it fell to its lowest. */
struct stretch {
	uint64_t base, highest, lowest, highest_at_lowest;
	uint64_t request;
	int open;
};

struct point {
	uint64_t hash[LENGTHS], power[LENGTHS]; /* rolling; power = multiplier ^ length */
	uint64_t target[LENGTHS];
	struct rise {
		uint32_t matches;
		uint64_t low, likely, high; /* likely: as the requests */
	} like[LENGTHS], unlike[LENGTHS];   /* after requests of the same size, and of others */
	struct stretch now[LENGTHS];
	uint64_t newest_base[LENGTHS];
	uint32_t climbs
		[LENGTHS]; /* matches, up to the newest, that stood higher than the one before */
};

#define MULTIPLIER 0x9e3779b97f4a7c15u

static inline uint64_t death_key_of(const struct snapshot *t, uint32_t stack)
{
	/* no stack recorded and no Python on the thread are the same: both are a thread of the engine */
	return snapshot_stackless(t, stack) ? 1 : stack + (uint64_t)2;
}

static void rise_add(struct rise *r, double low, double likely, double high)
{
	uint64_t least = (uint64_t)low, most = (uint64_t)high, as_request = (uint64_t)likely;

	r->low = !r->matches || least < r->low ? least : r->low;
	r->high = most > r->high ? most : r->high;
	r->likely = !r->matches || as_request < r->likely ? as_request : r->likely;
	r->matches++;
}

/*
 * Batches differ in length.  What follows a request that was larger then is larger too, but by how much depends:
 * gradients stay as they are, activations grow with the length, attention's with its square.
 */
static void stretch_end(struct point *p, size_t l, uint64_t request)
{
	struct stretch *s = &p->now[l];
	double rise = s->highest_at_lowest > s->base ? (double)(s->highest_at_lowest - s->base) : 0;
	double grown = s->request ? (double)request / (double)s->request : 1;

	if (!s->open)
		return;
	s->open = 0;
	if (request == s->request)
		rise_add(&p->like[l], rise, rise, rise);
	else if (grown < 1)
		rise_add(&p->unlike[l], rise * grown * grown, rise * grown, rise);
	else
		rise_add(&p->unlike[l], rise, rise * grown, rise * grown * grown);
}

static void climb(struct point *p, size_t l, uint64_t live)
{
	p->climbs[l] = live > p->newest_base[l] ? p->climbs[l] + 1 : 0;
	p->newest_base[l] = live;
}

static inline void stretch_step(struct stretch *s, uint64_t live)
{
	if (!s->open)
		return;
	if (live > s->highest)
		s->highest = live;
	if (live < s->lowest) {
		s->lowest = live;
		s->highest_at_lowest = s->highest;
	}
}

/* Stacks of the allocations up to the death, oldest first: `at` of `count`. */
struct keys {
	uint64_t *at;
	size_t n;
};

/* Does the point's own history hold more than one place?  A run of one stack matches anything. */
static int tells(const struct keys *k, uint32_t length)
{
	for (size_t i = k->n - length; i < k->n; i++)
		if (k->at[i] != k->at[k->n - 1])
			return 1;
	return 0;
}

static int one_place_only(const struct keys *k)
{
	return !tells(k, (uint32_t)k->n);
}

static void match_points(const struct timeline *tl, const struct findings_death *d,
			 const struct keys *k, struct point *p)
{
	const struct snapshot_events *ev = &tl->device->events;
	uint64_t live = tl->before[TIMELINE_ALLOCATED];
	size_t i = 0;

	for (uint32_t e = 0; e < d->event; e++) {
		if (ev->action[e] == TRACE_FREE_REQUESTED) {
			live -= tl->replay->block_bytes[ev->alloc[e]];
		} else if (ev->action[e] == TRACE_ALLOC) {
			live += tl->replay->block_bytes[ev->alloc[e]];
			for (size_t l = 0; l < LENGTHS; l++) {
				p->hash[l] = p->hash[l] * MULTIPLIER + k->at[i];
				if (i >= lengths[l])
					p->hash[l] -= k->at[i - lengths[l]] * p->power[l];
				if (i + 1 >= lengths[l] && p->hash[l] == p->target[l]) {
					stretch_end(p, l, d->request_bytes);
					climb(p, l, live);
					p->now[l] = (struct stretch){ live, live,        live,
								      live, ev->size[e], 1 };
				}
			}
			i++;
		} else {
			continue;
		}
		for (size_t l = 0; l < LENGTHS; l++)
			stretch_step(&p->now[l], live);
	}
	for (size_t l = 0; l < LENGTHS; l++)
		stretch_end(p, l, d->request_bytes);
}

static void start_point(const struct keys *k, struct point *p)
{
	for (size_t l = 0; l < LENGTHS; l++) {
		p->power[l] = 1;
		for (uint32_t i = 0; i < lengths[l]; i++)
			p->power[l] *= MULTIPLIER;
		if (k->n < lengths[l])
			continue;
		for (size_t i = k->n - lengths[l]; i < k->n; i++)
			p->target[l] = p->target[l] * MULTIPLIER + k->at[i];
	}
}

static enum plim_status look_back(struct mem *m, const struct timeline *tl,
				  struct findings_death *d, struct plim_err *err)
{
	const struct snapshot_events *ev = &tl->device->events;
	struct point p = { 0 };
	struct keys k = { 0 };
	size_t room = 1;

	for (uint32_t e = 0; e < d->event; e++)
		room += ev->action[e] == TRACE_ALLOC;
	k.at = mem_new(m, room, sizeof(*k.at), err);
	if (!k.at)
		return mem_status(err);
	for (uint32_t e = 0; e < d->event; e++)
		if (ev->action[e] == TRACE_ALLOC)
			k.at[k.n++] = death_key_of(tl->snapshot, ev->stack[e]);
	k.at[k.n++] = death_key_of(tl->snapshot, ev->stack[d->event]);
	start_point(&k, &p);
	match_points(tl, d, &k, &p);
	for (size_t l = 0; l < LENGTHS && d->future == FINDINGS_FUTURE_UNKNOWN; l++) {
		const struct rise *r = p.like[l].matches ? &p.like[l] : &p.unlike[l];

		if (k.n < lengths[l] || !r->matches ||
		    (!tells(&k, lengths[l]) && !one_place_only(&k)))
			continue;
		d->future = FINDINGS_FUTURE_REPEATED;
		d->points_before = r->matches;
		d->scaled = r == &p.unlike[l];
		d->still_low_bytes = r->low;
		d->still_likely_bytes = r->likely;
		d->still_high_bytes = r->high;
		climb(&p, l, d->live_bytes + d->request_bytes);
		if (!one_place_only(&k)) /* else it is the last few allocations, not repetitions */
			d->climbs = p.climbs[l];
	}
	mem_free(m, k.at, room, sizeof(*k.at));
	return PLIM_OK;
}

/* ---- what was still to come: the first optimizer step ---- */

/* What the optimizer holds at the death. */
struct optimizer_state {
	uint64_t gradients;
	uint64_t state;
	uint32_t lines;      /* that make state, each as much as there are gradients */
	uint64_t list;       /* of the line that failed */
	int on_device_steps; /* step counters on the GPU: a fused or capturable optimizer has them */
};

/* torch's own optimizers make all state of a group there, before they begin to step. */
static int makes_state(const struct snapshot *t, uint32_t stack)
{
	return snapshot_stack_names(t, stack, "_init_group");
}

static enum plim_status read_optimizer(struct mem *m, const struct timeline *tl,
				       const struct timeline_categories *c,
				       const struct findings_death *d, struct optimizer_state *o,
				       struct plim_err *err)
{
	const struct snapshot *t = tl->snapshot;
	uint32_t death_stack = tl->device->events.stack[d->event];
	uint64_t *bytes = mem_new(m, t->stacks.n, sizeof(*bytes), err);

	*o = (struct optimizer_state){ 0 };
	if (!bytes)
		return mem_status(err);
	for (size_t a = 0; a < tl->device->alloc_count; a++) {
		const struct snapshot_alloc *one = &tl->device->allocs[a];

		if (!timeline_lives(one, TIMELINE_ALLOCATED, d->event))
			continue;
		if (timeline_rules[c->rule[a]].category == TIMELINE_GRADIENT)
			o->gradients += one->requested_bytes;
		else if (!snapshot_stackless(t, one->stack))
			bytes[one->stack] += one->requested_bytes;
		o->on_device_steps |= one->requested_bytes <= 8 && makes_state(t, one->stack);
	}
	o->list = bytes[death_stack];
	for (uint32_t s = 0; s < t->stacks.n; s++) {
		/* counters and the like are not a line of their own */
		if (s != death_stack && bytes[s] < o->gradients / 64)
			continue;
		if (!makes_state(t, s))
			continue;
		o->lines++;
		o->state += bytes[s];
	}
	mem_free(m, bytes, t->stacks.n, sizeof(*bytes));
	return PLIM_OK;
}

/* Has no step of an optimizer ended yet? */
static int is_first_step(const struct timeline_steps *steps, uint32_t event)
{
	return !steps->ends.n || steps->ends.at[0] >= event;
}

/*
 * In its first step an optimizer makes its state: Adam two tensors of each gradient's size at two lines of
 * _init_group.  So lines times gradients, less what is there, is still to come.  Then PyTorch's default on CUDA
 * (foreach; torch/optim/optimizer.py, 2.0 and later) makes a list as large as the gradients, which a fused
 * optimizer does not; a failure in there (_multi_tensor_adam) has all state behind it and the rest of the list
 * before it.  Of other libraries' optimizers nothing is concluded.
 */
static enum plim_status look_at_optimizer(struct mem *m, const struct findings_input *in,
					  struct findings_death *d, struct plim_err *err)
{
	const struct timeline *tl = in->tl;
	uint32_t stack = tl->device->events.stack[d->event];
	struct optimizer_state o;
	uint64_t all, there;
	enum plim_status st;

	if (!in->categories->mem || !timeline_in_optimizer(tl->snapshot, stack) ||
	    !is_first_step(in->steps, d->event))
		return PLIM_OK;
	st = read_optimizer(m, tl, in->categories, d, &o, err);
	if (st || !o.gradients)
		return st;
	all = o.lines * o.gradients;
	there = o.state + d->request_bytes;
	if (makes_state(tl->snapshot, stack)) {
		d->still_low_bytes = all > there ? all - there : 0;
		if (o.lines >= 2 && !o.on_device_steps)
			d->still_low_bytes += o.gradients;
	} else if (snapshot_stack_names(tl->snapshot, stack, "_multi_tensor_adam")) {
		there = o.list + d->request_bytes;
		d->still_low_bytes = o.gradients > there ? o.gradients - there : 0;
	} else {
		return PLIM_OK;
	}
	d->future = FINDINGS_FUTURE_OPTIMIZER;
	d->still_high_bytes = PLIM_UNKNOWN;
	return PLIM_OK;
}

/* ---- the cause ---- */

/* A point that stands higher each time, so often in a row, belongs to a run that keeps growing. */
#define CLIMBS_MIN 4

/*
 * Is what piled up a good part of what was live, and would the request have fitted without it?  All are bytes of blocks:
 * what piled up may be more than what was asked for of all that was live.
 */
static int leak_decides(const struct findings_death *d)
{
	const struct findings_leak *l = &d->leak;
	uint64_t need = d->live_bytes + d->request_bytes;

	return l->repetitions && l->grown_bytes >= d->live_bytes / 10 && l->grown_bytes <= need &&
	       need - l->grown_bytes + l->per_repetition_bytes <= d->bound_low_bytes;
}

/*
 * Is what was free of the request's own pool and stream too little for it, even in one piece, and what others have
 * enough?  Then that is the cause, else UNKNOWN.
 */
static enum findings_cause apart_cause(const struct findings_death *d)
{
	const struct allocator_apart *pools = &d->room.pools, *streams = &d->room.streams;
	int is_pool = pools->free_bytes >= streams->free_bytes;
	uint64_t apart = is_pool ? pools->free_bytes : streams->free_bytes;
	uint64_t all = pools->free_bytes + streams->free_bytes;

	if (apart < d->segment_bytes || d->room.free_bytes - all >= d->request_bytes)
		return FINDINGS_CAUSE_UNKNOWN;
	return is_pool ? FINDINGS_CAUSE_PRIVATE_POOLS : FINDINGS_CAUSE_OTHER_STREAM;
}

/* Allocated at most from here on; where nothing repeats, as much as ever was and this request. */
static uint64_t death_most(const struct findings_death *d, enum findings_cause apart)
{
	if (d->future == FINDINGS_FUTURE_REPEATED)
		return d->live_bytes + d->request_bytes + d->still_high_bytes;
	if (d->future == FINDINGS_FUTURE_UNKNOWN && apart)
		return d->most_live_bytes + d->request_bytes;
	return PLIM_UNKNOWN;
}

static void find_cause(struct findings_death *d)
{
	enum findings_cause apart = apart_cause(d);
	uint64_t need = d->requested_live_bytes + d->request_bytes;
	uint64_t least = need + d->still_low_bytes;
	uint64_t most = death_most(d, apart);

	d->confidence = 0.95;
	if (leak_decides(d) && d->leak.repetitions >= CLIMBS_MIN) {
		d->cause = FINDINGS_CAUSE_LEAK;
		d->confidence = d->leak.confidence;
	} else if (leak_decides(d)) {
		d->likelier =
			FINDINGS_CAUSE_LEAK; /* a cache that was being filled looks the same */
		d->confidence = 0.5;
	} else if (least >= d->bound_high_bytes) {
		d->cause = FINDINGS_CAUSE_CAPACITY;
	} else if (most <= d->bound_low_bytes - d->bound_low_bytes / FINDINGS_SLACK_PART &&
		   d->climbs < CLIMBS_MIN) {
		d->cause = apart ? apart : FINDINGS_CAUSE_FRAGMENTATION;
	} else if (need > d->bound_low_bytes && 4 * d->free_bytes < d->request_bytes) {
		/* all free bytes together are a small part of the request: joining them would not have served it */
		d->cause = FINDINGS_CAUSE_CAPACITY;
	} else {
		d->likelier = d->free_bytes >= d->request_bytes &&
					      need + d->still_likely_bytes < d->bound_high_bytes &&
					      d->future != FINDINGS_FUTURE_OPTIMIZER &&
					      d->climbs < CLIMBS_MIN
				      ? (apart ? apart : FINDINGS_CAUSE_FRAGMENTATION)
				      : FINDINGS_CAUSE_CAPACITY;
		d->confidence = 0.5;
	}
}

static void gather_death(const struct timeline *tl, const struct allocator_oom *oom,
			 struct findings_death *d)
{
	const struct snapshot_events *ev = &tl->device->events;
	uint64_t now[TIMELINE_MEASURES];
	uint64_t reserved = tl->before[TIMELINE_RESERVED];

	timeline_at(tl, oom->event, now);
	d->event = oom->event;
	d->request_bytes = ev->size[oom->event];
	d->segment_bytes = allocator_segment_bytes(&tl->replay->rules, d->request_bytes);
	d->live_bytes = now[TIMELINE_ALLOCATED];
	d->most_live_bytes = tl->peak[TIMELINE_ALLOCATED];
	d->requested_live_bytes = now[TIMELINE_REQUESTED];
	d->reserved_bytes = now[TIMELINE_RESERVED];
	d->device_free_bytes = ev->addr[oom->event];
	d->free_bytes = now[TIMELINE_RESERVED] > now[TIMELINE_ALLOCATED]
				? now[TIMELINE_RESERVED] - now[TIMELINE_ALLOCATED]
				: 0;
	d->largest_free_bytes = oom->largest_free_bytes;
	d->room = *oom;
	d->most_reserved_bytes = reserved;
	for (uint32_t e = 0; e < oom->event; e++) {
		uint8_t action = ev->action[e];

		if (action == TRACE_SEGMENT_ALLOC || action == TRACE_SEGMENT_MAP)
			reserved += ev->size[e];
		else if (action == TRACE_SEGMENT_FREE || action == TRACE_SEGMENT_UNMAP)
			reserved -= ev->size[e];
		if (reserved > d->most_reserved_bytes)
			d->most_reserved_bytes = reserved;
	}
}

static int is_unanswered(const struct timeline_categories *c, uint32_t event)
{
	enum timeline_phase p = (enum timeline_phase)c->phase[event];

	return timeline_is_pass(p) && p != TIMELINE_FORWARD;
}

static bool holds(struct messages_bytes range, uint64_t bytes)
{
	return range.low <= bytes && bytes <= range.high;
}

/* PyTorch writes what it asked the driver for, or the request; a message that says neither is of another failure. */
static bool is_its_message(const struct findings_death *d)
{
	struct messages_bytes tried = d->message->tried;

	return tried.low == PLIM_UNKNOWN || holds(tried, d->request_bytes) ||
	       holds(tried, d->segment_bytes) ||
	       holds(tried, (d->request_bytes + ALLOCATOR_MIN_BLOCK - 1) / ALLOCATOR_MIN_BLOCK *
				    ALLOCATOR_MIN_BLOCK);
}

enum plim_status findings_explain_death(struct mem *m, const struct findings_input *in,
					const struct allocator_oom *oom, struct findings_death *out,
					struct plim_err *err)
{
	const struct timeline *tl = in->tl;
	enum plim_status st;

	*out = (struct findings_death){ .message = in->message };
	gather_death(tl, oom, out);
	if (out->message && !is_its_message(out))
		out->message = NULL; /* a log of another run: report says so */
	out->complete = !tl->before[TIMELINE_RESERVED] && !tl->device->allocs_before;
	out->answered = !in->categories->mem || !is_unanswered(in->categories, oom->event);
	find_bound(out, snapshot_platform_of(tl->snapshot).backend);
	st = findings_find_leak(m, in, oom->event, &out->leak, err);
	if (!st)
		st = look_at_optimizer(m, in, out, err);
	if (!st && out->future == FINDINGS_FUTURE_UNKNOWN)
		st = look_back(m, tl, out, err);
	if (!st)
		find_cause(out);
	return st;
}
