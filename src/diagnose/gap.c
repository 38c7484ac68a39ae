/*
 * Who owns what is reserved and not asked for when the snapshot was taken, from its segments and blocks: each free byte
 * has one owner, and all of them add up.
 */
#include "diagnose.h"

#include <string.h>

#define GAP_PART 10 /* of what is allocated: a smaller gap is not worth a line */

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
	const struct snapshot_device *device;
	uint32_t stream; /* with the most in use in the default pool */
	uint64_t allocated;
	uint64_t bytes[GAP_KINDS], kept[GAP_KINDS];
	uint64_t *by_frame; /* of one kind: what is in use in its segments */
};

static const struct snapshot_segment *gap_segment(const struct gap *g, uint32_t i)
{
	return &g->snapshot->segments.at[g->device->first_segment + i];
}

static enum plim_status gap_find_stream(struct gap *g, struct mem *m, struct plim_err *err)
{
	size_t n = g->snapshot->streams.n;
	uint64_t *bytes = mem_new(m, n, sizeof(*bytes), err);

	if (!bytes)
		return mem_status(err);
	for (uint32_t i = 0; i < g->device->segments; i++) {
		const struct snapshot_segment *s = gap_segment(g, i);

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
		const struct snapshot_block *b = &g->snapshot->blocks.at[s->first_block + i];
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
		const struct snapshot_block *b = &g->snapshot->blocks.at[s->first_block + i];

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
	for (uint32_t i = 0; g->kept[kind] && i < g->device->segments; i++) {
		const struct snapshot_segment *s = gap_segment(g, i);

		if (gap_kind_of(g, s) != kind || !gap_has_rest(g, s))
			continue;
		for (uint32_t k = 0; k < s->blocks; k++) {
			const struct snapshot_block *b = &t->blocks.at[s->first_block + k];
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

enum plim_status diagnose_gap(const struct diagnosis *x, struct plim_report_gap **out,
			      struct plim_err *err)
{
	const struct snapshot *t = x->device->of->snapshot;
	struct mem *m = x->device->of->mem;
	struct gap g = { .snapshot = t, .device = x->device->device };
	uint64_t reserved = 0;
	enum plim_status st;

	*out = NULL;
	if (t->end_unknown || !g.device->segments)
		return PLIM_OK;
	st = gap_find_stream(&g, m, err);
	for (uint32_t i = 0; !st && i < g.device->segments; i++) {
		reserved += gap_segment(&g, i)->bytes;
		gap_add_segment(&g, gap_segment(&g, i));
	}
	if (st || reserved - g.allocated <= g.allocated / GAP_PART)
		return st;
	g.by_frame = mem_new(m, t->frames.n, sizeof(*g.by_frame), err);
	if (!g.by_frame)
		return mem_status(err);
	st = gap_tell(&g, x->names, out, err);
	mem_free(m, g.by_frame, t->frames.n, sizeof(*g.by_frame));
	return st;
}
