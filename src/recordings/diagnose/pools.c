/*
 * The allocator's side: memory that is reserved and serves nothing, and memory that it does not own.
 *
 * fragmentation: reserved beyond the most that was ever allocated, WASTE_PCT of it and more, if the
 * recording replayed under expandable segments needs SAVED_PCT less (without a replay: told as less
 * certain).  A death by fragmentation is one whatever the numbers.
 * many_small_segments: 2 MiB segments of the small pool that are mostly empty at the reserved peak.
 */
#include "detect.h"

#include <stdlib.h>

#define WASTE_PCT 20
#define SAVED_PCT 10
#define WARN_PCT 25
#define OWN_PCT \
	5 /* that our allocator must save next to a setting to be named: it is a library more */
/* Longer recordings are not replayed for this: it takes a tenth of a second for 100,000 events. */
#define REPLAY_EVENTS_MAX 60000
#define SMALL_SEGMENTS_MIN 100
#define PLATEAU_PCT 80
#define OUTSIDE_PCT 5 /* of the GPU, held by others */

/* ---- the segments at a moment ---- */

struct range {
	uint64_t addr, bytes;
	uint32_t event; /* TRACE_NONE: it stands at the end */
	uint8_t gone;   /* the event gives it back */
	uint8_t alive;
	uint64_t used;
};

struct ranges {
	VEC(struct range) at;
	int expandable; /* pages come and go: their ranges are not followed */
};

static int by_address(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return (x->event > y->event) - (x->event < y->event);
}

static void gather_pool(struct detecting *x, struct ranges *r)
{
	const struct snapshot_events *ev = &x->device->events;

	for (uint32_t e = 0; e < ev->n && !x->status; e++) {
		uint8_t action = ev->action[e];

		r->expandable |= action == TRACE_SEGMENT_MAP || action == TRACE_SEGMENT_UNMAP;
		if (action == TRACE_SEGMENT_ALLOC || action == TRACE_SEGMENT_FREE)
			x->status = vec_push(x->mem, &r->at,
					     ((struct range){ ev->addr[e], ev->size[e], e,
							      action == TRACE_SEGMENT_FREE, 0, 0 }),
					     x->err);
	}
	for (uint32_t s = 0; s < x->device->segments && !x->status; s++) {
		const struct snapshot_segment *one =
			&x->snapshot->segments.at[x->device->first_segment + s];

		x->status = vec_push(x->mem, &r->at,
				     ((struct range){ one->addr, one->bytes, TRACE_NONE, 0, 0, 0 }),
				     x->err);
	}
}

/*
 * Leave one range for each segment that stood after `event`: the last one at its address that came
 * before, unless it was given back; or the first one after, if it only shows that it was there.
 */
static void stand(struct ranges *r, uint32_t event)
{
	size_t n = 0;

	sort_items(r->at.at, r->at.n, sizeof(*r->at.at), by_address);
	for (size_t i = 0, end; i < r->at.n; i = end) {
		struct range *now = NULL;

		for (end = i; end < r->at.n && r->at.at[end].addr == r->at.at[i].addr; end++)
			if (end == i || r->at.at[end].event <= event)
				now = &r->at.at[end];
		now->alive =
			now->event <= event ? !now->gone : now->gone || now->event == TRACE_NONE;
		if (now->alive)
			r->at.at[n++] = *now;
	}
	r->at.n = n;
}

static void fill_pool(const struct detecting *x, struct ranges *r, uint32_t event)
{
	for (uint32_t a = 0; a < x->device->alloc_count; a++) {
		const struct snapshot_alloc *one = &x->device->allocs[a];
		size_t low = 0, high = r->at.n;

		if (!timeline_lives(one, TIMELINE_ACTIVE, event))
			continue;
		while (low < high) {
			size_t mid = low + (high - low) / 2;

			if (r->at.at[mid].addr <= one->addr)
				low = mid + 1;
			else
				high = mid;
		}
		if (low)
			r->at.at[low - 1].used += x->tl->replay->block_bytes[a];
	}
}

/* The sums of a moment; those of the last one are kept. */
static const struct segment_sums *segments_at(struct detecting *x, uint32_t event)
{
	struct segment_sums *sums = &x->segments;
	struct ranges r = { .expandable = 0 };

	if (sums->event == event)
		return sums;
	*sums = (struct segment_sums){ .event = event };
	gather_pool(x, &r);
	if (!x->status && !r.expandable) {
		sums->known = 1;
		stand(&r, event);
		fill_pool(x, &r, event);
	}
	for (size_t i = 0; i < r.at.n && sums->known; i++) {
		const struct range *one = &r.at.at[i];

		sums->wholly_free_bytes += one->used ? 0 : one->bytes;
		sums->small_used_bytes += one->bytes == ALLOCATOR_SMALL_SEGMENT ? one->used : 0;
		sums->small_segments += one->bytes == ALLOCATOR_SMALL_SEGMENT;
	}
	vec_release(x->mem, &r.at);
	return sums;
}

/* ---- fragmentation ---- */

static int is_worth_a_library(const struct findings_tried *own,
			      const struct findings_tried *setting)
{
	uint64_t other = setting->reserved_bytes;

	return own->own && own->survives && own->reserved_bytes < other &&
	       (other - own->reserved_bytes) * 100 >= other * OWN_PCT;
}

static void tell_tried(struct detecting *x, struct finding *f, const struct findings_tried *tried,
		       size_t n, int died)
{
	char a[32], how[FINDINGS_HOW];

	for (size_t i = 0; i < n; i++) {
		if (died && !tried[i].survives)
			detect_say(x, &f->evidence, "replayed with %s it dies all the same",
				   tried[i].settings);
		else
			detect_say(x, &f->evidence, "replayed with %s the same requests reserve %s",
				   tried[i].settings, text_size(a, tried[i].reserved_bytes));
	}
	for (size_t i = 0, first = n; i < n; i++) {
		if (!tried[i].survives ||
		    (first < n && !is_worth_a_library(&tried[i], &tried[first])))
			continue;
		detect_say(x, &f->fix, "%s%s%s", first < n ? "or, for less: " : "",
			   findings_how_to_set(x->snapshot, &tried[i], how), tried[i].settings);
		first = first < n ? first : i;
	}
	detect_say(x, &f->fix, "batches of one shape, or the longest one first, leave fewer gaps");
	detect_say(x, &f->see, "plimsoll whatif");
}

static void tell_empty_cache(struct detecting *x, struct finding *f, uint32_t event, int died)
{
	const struct segment_sums *s = segments_at(x, event);
	char a[32];
	const char *freed = s->wholly_free_bytes ? text_size(a, s->wholly_free_bytes) : "nothing";

	if (!s->known || x->status)
		return;
	if (died)
		detect_say(x, &f->evidence,
			   "empty_cache() would have freed %s here and not helped: PyTorch itself "
			   "gives "
			   "back every unused segment before it fails",
			   freed);
	else
		detect_say(x, &f->evidence,
			   "empty_cache() at the reserved peak (event %u) would have freed %s: %s",
			   event, freed,
			   s->wholly_free_bytes ? "room for other processes, part of which this "
						  "run would ask for again"
						: "every segment had something in use");
}

static void tell_death(struct detecting *x)
{
	const struct findings_death *d = x->in->death;
	int certain = d->cause == FINDINGS_CAUSE_FRAGMENTATION;
	struct finding *f = detect_add(x, "fragmentation", certain ? FINDINGS_BAD : FINDINGS_WARN,
				       certain ? 0.95 : 0.6);
	char a[32], b[32];

	f->bytes = d->free_bytes;
	detect_place(x, f, x->device->events.stack[d->event], 0);
	detect_title(x, f, "%s was free, but in pieces, when %s was asked for",
		     text_size(a, d->free_bytes), text_size(b, d->request_bytes));
	detect_say(x, &f->evidence, "the largest free block that it could have used had %s",
		   text_size(a, d->largest_free_bytes));
	tell_empty_cache(x, f, d->event, 1);
	tell_tried(x, f, x->in->tried, x->in->tried_count, 1);
}

static int is_expandable(const struct detecting *x)
{
	return x->tl->replay->rules.expandable;
}

struct waste {
	uint64_t reserved, saved;
	const char
		*settings; /* that save it; NULL: none was tried, and it is what was never in use */
};

/* "1.51 of 8.56 GiB reserved would not be under expandable_segments:True; 5.32 GiB are in use at most" */
static void title_waste(struct detecting *x, struct finding *f, const struct waste *w)
{
	char a[32], b[32], c[32], d[32];

	if (w->settings)
		detect_title(
			x, f,
			"%s less is reserved under %s: %s instead of %s, for %s in use at most",
			text_size(a, w->saved), w->settings, text_size(b, w->reserved - w->saved),
			text_size(c, w->reserved), text_size(d, x->peak));
	else
		detect_title(x, f,
			     "%s reserved and never in use at once: %s reserved, %s in use at most",
			     text_size(a, w->saved), text_size(b, w->reserved),
			     text_size(c, x->peak));
}

static void tell_waste(struct detecting *x, uint64_t reserved)
{
	const struct allocator_bounds bounds = { .limit_bytes = UINT64_MAX,
						 .capacity_bytes = UINT64_MAX };
	uint32_t event = x->tl->peak_event[TIMELINE_RESERVED];
	struct findings_tried tried[FINDINGS_TRIED];
	size_t n = x->in->replays && x->device->events.n <= REPLAY_EVENTS_MAX;
	struct finding *f;
	uint64_t saved, least = x->peak;

	if (n)
		x->status = findings_try_settings(x->mem, x->tl, &bounds, tried, &n, x->err);
	if (n)
		least = tried[0].reserved_bytes;
	saved = reserved > least ? reserved - least : 0;
	/* what was reserved before a cut recording began may have been needed for what was not recorded */
	if (least < x->tl->before[TIMELINE_RESERVED])
		return;
	if (x->status || saved * 100 < reserved * SAVED_PCT)
		return;
	f = detect_add(x, "fragmentation",
		       n && saved * 100 >= reserved * WARN_PCT ? FINDINGS_WARN : FINDINGS_INFO,
		       n ? 0.9 : 0.6);
	f->bytes = saved;
	title_waste(x, f, &(struct waste){ reserved, saved, n ? tried[0].settings : NULL });
	tell_tried(x, f, tried, n, 0);
	if (!n)
		detect_say(x, &f->evidence,
			   "not replayed here under other settings: plimsoll whatif does");
	if (event != TIMELINE_BEFORE && (uint64_t)event * 100 < (uint64_t)x->last * PLATEAU_PCT)
		detect_say(x, &f->evidence,
			   "reserved memory has not grown since event %u of %zu: that is caching, "
			   "not a "
			   "leak",
			   event, x->device->events.n);
	if (event != TIMELINE_BEFORE)
		tell_empty_cache(x, f, event, 0);
}

static int one_survives(const struct detecting *x)
{
	for (size_t i = 0; i < x->in->tried_count; i++)
		if (x->in->tried[i].survives)
			return 1;
	return 0;
}

void detect_fragmentation(struct detecting *x)
{
	const struct findings_death *d = x->in->death;
	uint64_t reserved = x->tl->peak[TIMELINE_RESERVED], waste;

	if (d && d->event == x->last) {
		if (d->cause == FINDINGS_CAUSE_FRAGMENTATION ||
		    (!d->cause && d->likelier == FINDINGS_CAUSE_FRAGMENTATION && one_survives(x)))
			tell_death(x);
		return;
	}
	/* what was reserved before a cut recording began may have been in use then */
	if (x->tl->before[TIMELINE_RESERVED] >= reserved)
		return;
	waste = reserved > x->peak ? reserved - x->peak : 0;
	if (waste && waste * 100 >= reserved * WASTE_PCT && !is_expandable(x))
		tell_waste(x, reserved);
}

/* ---- many_small_segments ---- */

void detect_small_segments(struct detecting *x)
{
	uint32_t event = x->tl->peak_event[TIMELINE_RESERVED];
	const struct segment_sums *s;
	uint64_t bytes;
	size_t n;
	struct finding *f;
	char a[32], b[32];

	if (event == TIMELINE_BEFORE)
		return;
	s = segments_at(x, event);
	n = s->small_segments;
	bytes = n * ALLOCATOR_SMALL_SEGMENT - s->small_used_bytes;
	if (x->status || n < SMALL_SEGMENTS_MIN || !detect_material(x, bytes) ||
	    bytes < s->small_used_bytes)
		return;
	f = detect_add(x, "many_small_segments", detect_severity(x, bytes), 0.8);
	f->bytes = bytes;
	detect_title(x, f, "%zu segments of 2 MiB for small tensors, %s of %s in them unused", n,
		     text_size(a, bytes), text_size(b, n * ALLOCATOR_SMALL_SEGMENT));
	detect_say(x, &f->evidence,
		   "requests up to 1 MiB live in segments of their own that cannot be used for "
		   "larger ones; one long-lived scalar holds 2 MiB");
	detect_say(
		x, &f->fix,
		"keep small results as Python numbers or on the CPU: x.item(), x.cpu(); put many "
		"small tensors into one large one");
	detect_say(x, &f->see, "plimsoll report --group-by size");
}

/* ---- outside_allocator ---- */

void detect_outside(struct detecting *x)
{
	const struct findings_death *d = x->in->death;
	const struct messages_oom *m = d ? d->message : NULL;
	int others = d && d->bound_by == FINDINGS_BOUND_OTHER_PROCESS;
	int own = d && d->bound_by == FINDINGS_BOUND_NON_PYTORCH;
	uint64_t bytes;
	struct finding *f;
	char a[32], b[32];

	if (!m || d->event != x->last || m->total.low == PLIM_UNKNOWN || (!others && !own))
		return;
	bytes = others ? m->others.low : m->this_process.low - d->reserved_bytes;
	if (bytes * 100 < m->total.low * OUTSIDE_PCT)
		return;
	f = detect_add(x, "outside_allocator", FINDINGS_BAD, 0.9);
	f->bytes = bytes;
	detect_title(x, f, "%s of the GPU's %s is held outside PyTorch's allocator%s",
		     text_size(a, bytes), text_size(b, m->total.low),
		     others ? ", by other processes" : ", by this process");
	detect_say(x, &f->evidence, "from the error's text; PyTorch itself had %s reserved",
		   text_size(a, d->reserved_bytes));
	if (others) {
		detect_say(x, &f->fix, "see who it is and end what is left over: %s",
			   snapshot_platform_of(x->snapshot).holders);
	} else {
		detect_say(
			x, &f->fix,
			"libraries next to PyTorch: NCCL buffers, cuDNN and Triton workspaces, a "
			"second framework (JAX, TensorFlow, CuPy, RAPIDS) that takes memory up "
			"front");
		detect_say(x, &f->fix,
			   "CUDA_MODULE_LOADING=LAZY keeps the context small; NCCL_BUFFSIZE its "
			   "buffers");
	}
	detect_say(x, &f->see, "plimsoll why, with the same log");
}

/* ---- pending_frees ---- */

void detect_pending_frees(struct detecting *x)
{
	struct finding *f;
	char a[32];

	if (x->pending.event == TRACE_NONE || !detect_material(x, x->pending.bytes))
		return;
	f = detect_add(x, "pending_frees", detect_severity(x, x->pending.bytes), 0.95);
	f->bytes = x->pending.bytes;
	detect_title(x, f, "%s was freed but waited for another stream", text_size(a, f->bytes));
	detect_say(
		x, &f->evidence,
		"at event %u; such blocks count as active, not as allocated, and serve no request "
		"until the other stream has passed",
		x->pending.event);
	detect_say(x, &f->fix,
		   "record_stream() keeps blocks back until the CPU sees the event: let the "
		   "streams wait for each other instead (stream.wait_stream), and drop the tensor "
		   "after "
		   "that");
	detect_say(x, &f->fix,
		   "FSDP: limit_all_gathers=True, or FSDP2, which uses no record_stream()");
	detect_say(x, &f->see,
		   "https://pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html");
}

/* ---- private_pools ---- */

void detect_private_pools(struct detecting *x)
{
	uint64_t bytes = 0, active = 0;
	uint32_t pools = 0, newest = 0;
	struct finding *f;
	char a[32], b[32];

	for (uint32_t s = 0; s < x->device->segments; s++) {
		const struct snapshot_segment *one =
			&x->snapshot->segments.at[x->device->first_segment + s];

		if (!one->pool)
			continue;
		bytes += one->bytes;
		active += one->active_bytes;
		pools += !pools || one->pool != newest;
		newest = one->pool;
	}
	if (!detect_material(x, bytes))
		return;
	f = detect_add(x, "private_pools", detect_severity(x, bytes - active), 0.95);
	f->bytes = bytes;
	detect_title(x, f, "private pools hold %s at the end, %s of it in use", text_size(a, bytes),
		     text_size(b, active));
	detect_say(x, &f->evidence,
		   "segments of CUDA graphs or of a torch.cuda.MemPool: other tensors cannot use "
		   "their "
		   "free blocks, and empty_cache() does not give them back while the pool lives");
	detect_say(x, &f->fix,
		   "graphs that never run at the same time can share one pool: "
		   "torch.cuda.graph(g, pool=first.pool()); capture the largest one first");
	detect_say(x, &f->see,
		   "https://pytorch.org/docs/stable/notes/cuda.html#cuda-graph-memory-management");
}
