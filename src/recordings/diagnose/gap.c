/*
 * Who owns what is reserved and not asked for, when the snapshot was taken and at the peak, from segments and blocks:
 * each free byte has one owner, and all of them add up.  Those of the peak are put together from events.
 */
#include "diagnose.h"

#include <string.h>

#define GAP_PART \
	10 /* of what is allocated at the end, or reserved at the peak: less is not worth a line */

enum gap_kind {
	GAP_WHOLLY_FREE,
	GAP_PRIVATE_POOLS,
	GAP_OTHER_STREAMS,
	GAP_WAITING,
	GAP_SPLITS,
	GAP_ROUNDING,
	GAP_KINDS
};

static const struct gap_row {
	const char *kind, *words, *gives_back;
} gap_rows[GAP_KINDS] = {
	[GAP_WHOLLY_FREE] = { "wholly_free", "wholly free", "empty_cache() gives it back" },
	[GAP_PRIVATE_POOLS] = { "private_pools", "in private pools",
				"it goes back when the graphs, or the MemPool, that own the pool "
				"are gone" },
	[GAP_OTHER_STREAMS] = { "other_streams", "in segments of other streams",
				"empty_cache() gives it back when what is in use in these segments "
				"is freed or copied" },
	[GAP_WAITING] = { "waiting", "waiting for another stream",
			  "it is free when the other stream has done its work" },
	[GAP_SPLITS] = { "splits", "in segments that are in use",
			 "empty_cache() gives it back when what is in use in these segments is "
			 "freed" },
	[GAP_ROUNDING] = { "rounding", "taken by rounding", "it goes with the blocks" },
};

struct gap {
	const struct snapshot *snapshot;
	const struct snapshot_segment *segments;
	const struct snapshot_block *blocks; /* that first_block of a segment counts in */
	size_t segment_count;
	uint32_t stream; /* with the most in use in the default pool */
	uint64_t allocated, reserved;
	uint64_t bytes[GAP_KINDS], kept[GAP_KINDS];
	uint64_t *by_frame; /* of one kind: what is in use in its segments */
};

static enum plim_status gap_find_stream(struct gap *g, struct mem *m, struct plim_err *err)
{
	size_t n = g->snapshot->streams.n;
	uint64_t *bytes = mem_new(m, n, sizeof(*bytes), err);

	if (!bytes)
		return mem_status(err);
	for (size_t i = 0; i < g->segment_count; i++) {
		const struct snapshot_segment *s = &g->segments[i];

		if (s->pool)
			continue;
		bytes[s->stream] += s->allocated_bytes;
		if (bytes[s->stream] > bytes[g->stream])
			g->stream = s->stream;
	}
	mem_free(m, bytes, n, sizeof(*bytes));
	return PLIM_OK;
}

/* Of a free block, what empty_cache() gives back: all of its segment, or whole pages of an expandable one. */
static uint64_t gap_wholly_free(const struct snapshot_segment *s, const struct snapshot_block *b)
{
	uint64_t page = s->large ? ALLOCATOR_LARGE_SEGMENT : ALLOCATOR_SMALL_SEGMENT;
	uint64_t from = b->addr - s->addr, to = from + b->bytes;

	if (!s->expandable)
		return b->bytes == s->bytes ? b->bytes : 0;
	from = (from + page - 1) / page * page;
	to -= to % page;
	return to > from ? to - from : 0;
}

/* What is free in a segment and not given back by empty_cache(). */
static enum gap_kind gap_kind_of(const struct gap *g, const struct snapshot_segment *s)
{
	return s->pool                  ? GAP_PRIVATE_POOLS
	       : s->stream != g->stream ? GAP_OTHER_STREAMS
					: GAP_SPLITS;
}

static void gap_add_segment(struct gap *g, const struct snapshot_segment *s)
{
	enum gap_kind kind = gap_kind_of(g, s);
	uint64_t active = 0, rest = 0;

	for (uint32_t i = 0; i < s->blocks; i++) {
		const struct snapshot_block *b = &g->blocks[s->first_block + i];
		uint64_t whole = s->pool ? 0 : gap_wholly_free(s, b);

		if (b->state == TRACE_INACTIVE) {
			g->bytes[GAP_WHOLLY_FREE] += whole;
			rest += b->bytes - whole;
			continue;
		}
		active += b->bytes;
		if (b->state == TRACE_ACTIVE_PENDING_FREE) {
			g->bytes[GAP_WAITING] += b->bytes;
			continue;
		}
		g->allocated += b->bytes;
		if (b->requested_bytes && b->requested_bytes < b->bytes)
			g->bytes[GAP_ROUNDING] += b->bytes - b->requested_bytes;
	}
	g->bytes[kind] += rest;
	g->kept[kind] += rest ? active : 0;
}

static int gap_has_rest(const struct gap *g, const struct snapshot_segment *s)
{
	for (uint32_t i = 0; i < s->blocks; i++) {
		const struct snapshot_block *b = &g->blocks[s->first_block + i];

		if (b->state == TRACE_INACTIVE && (s->pool || gap_wholly_free(s, b) < b->bytes))
			return 1;
	}
	return 0;
}

/* The line that made most of what is in use in the segments of a kind. */
static uint32_t gap_keeper(struct gap *g, enum gap_kind kind)
{
	const struct snapshot *t = g->snapshot;
	uint32_t most = TRACE_NONE;

	memset(g->by_frame, 0, t->frames.n * sizeof(*g->by_frame));
	for (size_t i = 0; g->kept[kind] && i < g->segment_count; i++) {
		const struct snapshot_segment *s = &g->segments[i];

		if (gap_kind_of(g, s) != kind || !gap_has_rest(g, s))
			continue;
		for (uint32_t k = 0; k < s->blocks; k++) {
			const struct snapshot_block *b = &g->blocks[s->first_block + k];
			uint32_t frame;

			if (b->state == TRACE_INACTIVE || b->stack == TRACE_NONE)
				continue;
			frame = timeline_user_frame(t, b->stack);
			if (frame == TRACE_NONE)
				continue;
			g->by_frame[frame] += b->bytes;
			if (most == TRACE_NONE || g->by_frame[frame] > g->by_frame[most])
				most = frame;
		}
	}
	return most;
}

static void gap_sort(struct plim_report_gap *out)
{
	for (size_t i = 1; i < out->part_count; i++)
		for (size_t k = i; k && out->parts[k].bytes > out->parts[k - 1].bytes; k--) {
			struct plim_report_gap_part one = out->parts[k];

			out->parts[k] = out->parts[k - 1];
			out->parts[k - 1] = one;
		}
}

static enum plim_status gap_tell(struct gap *g, struct recording_names *n,
				 struct plim_report_gap **result, struct plim_err *err)
{
	struct plim_report_gap *out = arena_take(n->arena, 1, sizeof(*out), err);

	if (out)
		out->parts = arena_take(n->arena, GAP_KINDS, sizeof(*out->parts), err);
	if (!out || !out->parts)
		return mem_status(err);
	for (int k = 0; k < GAP_KINDS; k++) {
		struct plim_report_gap_part *part = &out->parts[out->part_count];

		if (!g->bytes[k])
			continue;
		out->bytes += g->bytes[k];
		out->part_count++;
		part->kind = gap_rows[k].kind;
		part->bytes = g->bytes[k];
		part->kept_by_bytes = g->kept[k] ? g->kept[k] : PLIM_UNKNOWN;
		part->frame = recording_frame(n, gap_keeper(g, (enum gap_kind)k), err);
		part->gives_back = gap_rows[k].gives_back;
	}
	gap_sort(out);
	*result = out;
	return PLIM_OK;
}

const char *diagnose_gap_words(const struct plim_report_gap_part *part)
{
	for (int k = 0; k < GAP_KINDS; k++)
		if (!strcmp(gap_rows[k].kind, part->kind))
			return gap_rows[k].words;
	return part->kind;
}

static enum plim_status gap_add_all(struct gap *g, struct mem *m, struct plim_err *err)
{
	enum plim_status st = gap_find_stream(g, m, err);

	for (size_t i = 0; !st && i < g->segment_count; i++) {
		g->reserved += g->segments[i].bytes;
		gap_add_segment(g, &g->segments[i]);
	}
	return st;
}

static enum plim_status gap_answer(struct gap *g, const struct diagnosis *x,
				   struct plim_report_gap **out, struct plim_err *err)
{
	struct mem *m = x->device->of->mem;
	size_t frames = g->snapshot->frames.n;
	enum plim_status st;

	g->by_frame = mem_new(m, frames, sizeof(*g->by_frame), err);
	if (!g->by_frame)
		return mem_status(err);
	st = gap_tell(g, x->names, out, err);
	mem_free(m, g->by_frame, frames, sizeof(*g->by_frame));
	return st;
}

enum plim_status diagnose_gap(const struct diagnosis *x, struct plim_report_gap **out,
			      struct plim_err *err)
{
	const struct snapshot *t = x->device->of->snapshot;
	const struct snapshot_device *d = x->device->device;
	struct gap g = { .snapshot = t, .blocks = t->blocks.at, .segment_count = d->segments };
	enum plim_status st;

	*out = NULL;
	if (t->end_unknown || !d->segments)
		return PLIM_OK;
	g.segments = t->segments.at + d->first_segment;
	st = gap_add_all(&g, x->device->of->mem, err);
	if (st || g.reserved - g.allocated <= g.allocated / GAP_PART)
		return st;
	return gap_answer(&g, x, out, err);
}

/* ---- at the peak ---- */

struct gap_moment {
	struct mem *mem;
	const struct timeline *tl;
	uint32_t event;
	VEC(struct snapshot_segment) segments;
	VEC(struct snapshot_block) blocks, live;
	int unknown; /* of a segment the pool, or what is in it contradicts it */
	struct plim_err *err;
};

static int by_segment_address(const void *a, const void *b)
{
	const struct snapshot_segment *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static int by_block_address(const void *a, const void *b)
{
	const struct snapshot_block *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Pages that lie behind one another are one range, as in a snapshot. */
static void gap_join_pages(struct gap_moment *x)
{
	size_t n = 0;

	for (size_t i = 0; i < x->segments.n; i++) {
		struct snapshot_segment *s = &x->segments.at[i];
		struct snapshot_segment *before = n ? &x->segments.at[n - 1] : NULL;

		if (before && s->expandable && before->expandable && s->stream == before->stream &&
		    s->pool == before->pool && before->addr + before->bytes == s->addr)
			before->bytes += s->bytes;
		else
			x->segments.at[n++] = *s;
	}
	x->segments.n = n;
}

static enum plim_status gap_gather(struct gap_moment *x)
{
	const struct snapshot *t = x->tl->snapshot;
	const struct snapshot_device *d = x->tl->device;
	struct segments all;
	enum plim_status st = segments_find(&all, x->mem, t, d, x->err);

	for (size_t i = 0; !st && i < all.rows.n; i++) {
		const struct segment *s = &all.rows.at[i];

		if (s->born > MOMENT_OF(x->event) || (s->gone && s->gone <= MOMENT_OF(x->event)))
			continue;
		x->unknown |= s->pool == SEGMENT_POOL_UNKNOWN && t->pools.n > 1;
		st = vec_push(x->mem, &x->segments,
			      ((struct snapshot_segment){
				      .addr = s->addr,
				      .bytes = s->bytes,
				      .stream = s->stream,
				      .pool = s->pool == SEGMENT_POOL_UNKNOWN ? 0 : s->pool,
				      .large = s->large,
				      .expandable = s->expandable }),
			      x->err);
	}
	segments_release(&all);
	for (uint32_t a = 0; !st && a < d->alloc_count; a++) {
		const struct snapshot_alloc *one = &d->allocs[a];
		int in_use = timeline_lives(one, TIMELINE_ALLOCATED, x->event);

		if (timeline_lives(one, TIMELINE_ACTIVE, x->event))
			st = vec_push(x->mem, &x->live,
				      ((struct snapshot_block){
					      one->addr, timeline_bytes(x->tl, a, TIMELINE_ACTIVE),
					      one->requested_bytes, one->stack,
					      in_use ? TRACE_ACTIVE : TRACE_ACTIVE_PENDING_FREE }),
				      x->err);
	}
	sort_items(x->segments.at, x->segments.n, sizeof(*x->segments.at), by_segment_address);
	sort_items(x->live.at, x->live.n, sizeof(*x->live.at), by_block_address);
	gap_join_pages(x);
	return st;
}

static enum plim_status gap_put_free(struct gap_moment *x, uint64_t from, uint64_t to)
{
	return to <= from ? PLIM_OK
			  : vec_push(x->mem, &x->blocks,
				     ((struct snapshot_block){ .addr = from,
							       .bytes = to - from,
							       .stack = TRACE_NONE,
							       .state = TRACE_INACTIVE }),
				     x->err);
}

/* The blocks of each segment in order of address, free ones between those that live. */
static enum plim_status gap_lay_out(struct gap_moment *x)
{
	enum plim_status st = PLIM_OK;
	size_t next = 0;

	for (size_t i = 0; !st && i < x->segments.n; i++) {
		struct snapshot_segment *s = &x->segments.at[i];
		uint64_t at = s->addr, end = s->addr + s->bytes;

		s->first_block = (uint32_t)x->blocks.n;
		for (; !st && next < x->live.n && x->live.at[next].addr < end; next++) {
			const struct snapshot_block *b = &x->live.at[next];

			if (b->addr < at || b->bytes > end - b->addr) {
				x->unknown = 1;
				return PLIM_OK;
			}
			st = gap_put_free(x, at, b->addr);
			if (!st)
				st = vec_push(x->mem, &x->blocks, *b, x->err);
			if (b->state == TRACE_ACTIVE)
				s->allocated_bytes += b->bytes;
			at = b->addr + b->bytes;
		}
		if (!st)
			st = gap_put_free(x, at, end);
		s->blocks = (uint32_t)x->blocks.n - s->first_block;
	}
	x->unknown |= next < x->live.n;
	return st;
}

enum plim_status diagnose_gap_at_peak(const struct diagnosis *x, struct plim_report_gap **out,
				      struct plim_err *err)
{
	const struct timeline *tl = x->tl;
	uint64_t bytes[TIMELINE_MEASURES];
	struct gap_moment at = { .mem = x->device->of->mem,
				 .tl = tl,
				 .event = tl->peak_event[TIMELINE_ALLOCATED],
				 .err = err };
	struct gap g = { .snapshot = tl->snapshot };
	enum plim_status st = PLIM_OK;

	*out = NULL;
	if (!tl->device->events.n || at.event == TIMELINE_BEFORE || tl->snapshot->end_unknown)
		return PLIM_OK;
	timeline_at(tl, at.event, bytes);
	if (bytes[TIMELINE_RESERVED] - bytes[TIMELINE_ALLOCATED] <=
	    bytes[TIMELINE_RESERVED] / GAP_PART)
		return PLIM_OK;
	st = gap_gather(&at);
	if (!st && !at.unknown)
		st = gap_lay_out(&at);
	if (!st && !at.unknown) {
		g.segments = at.segments.at;
		g.segment_count = at.segments.n;
		g.blocks = at.blocks.at;
		st = gap_add_all(&g, at.mem, err);
	}
	/* what is contradicted is not answered */
	if (!st && !at.unknown && g.reserved == bytes[TIMELINE_RESERVED] &&
	    g.allocated == bytes[TIMELINE_ALLOCATED])
		st = gap_answer(&g, x, out, err);
	vec_release(at.mem, &at.segments);
	vec_release(at.mem, &at.blocks);
	vec_release(at.mem, &at.live);
	return st;
}
