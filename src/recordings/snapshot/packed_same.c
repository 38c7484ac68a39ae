/* Do two snapshots hold the same: what a writer checks before it believes in what it wrote. */
#include "snapshot.h"

#include <string.h>

static int same_text(const struct snapshot *a, uint32_t x, const struct snapshot *b, uint32_t y)
{
	const struct intern_entry *s, *t;

	if (x == TRACE_NONE || y == TRACE_NONE)
		return x == y;
	s = &a->heap.strings.at[x];
	t = &b->heap.strings.at[y];
	return s->n == t->n && !memcmp(s->bytes, t->bytes, s->n);
}

/* n of something that may be none. */
static int same_bytes(const void *a, const void *b, size_t n, size_t size)
{
	return !n || !memcmp(a, b, n * size);
}

static int same_frames(const struct snapshot *a, const struct snapshot *b)
{
	if (a->frames.n != b->frames.n)
		return 0;
	for (uint32_t i = 0; i < a->frames.n; i++) {
		const struct snapshot_frame *x = snapshot_frame(a, i), *y = snapshot_frame(b, i);

		if (x->line != y->line || !same_text(a, x->name, b, y->name) ||
		    !same_text(a, x->filename, b, y->filename))
			return 0;
	}
	return 1;
}

static int same_stacks(const struct snapshot *a, const struct snapshot *b)
{
	if (a->stacks.n != b->stacks.n)
		return 0;
	for (size_t i = 0; i < a->stacks.n; i++) {
		const struct intern_entry *x = &a->stacks.at[i], *y = &b->stacks.at[i];

		if (x->n != y->n || memcmp(x->bytes, y->bytes, x->n))
			return 0;
	}
	return 1;
}

static const char *events_differ(const struct snapshot_events *x, const struct snapshot_events *y)
{
	if (x->n != y->n)
		return "how many events there are";
	if (!same_bytes(x->action, y->action, x->n, sizeof(*x->action)))
		return "what an event is";
	if (!same_bytes(x->addr, y->addr, x->n, sizeof(*x->addr)))
		return "an address";
	if (!same_bytes(x->size, y->size, x->n, sizeof(*x->size)))
		return "a size";
	if (!same_bytes(x->time_us, y->time_us, x->n, sizeof(*x->time_us)))
		return "a time";
	if (!same_bytes(x->stack, y->stack, x->n, sizeof(*x->stack)))
		return "the stack of an event";
	if (!same_bytes(x->stream, y->stream, x->n, sizeof(*x->stream)))
		return "a stream";
	if (x->n && (!x->pool != !y->pool ||
		     (x->pool && !same_bytes(x->pool, y->pool, x->n, sizeof(*x->pool)))))
		return "a pool";
	return NULL;
}

static int same_segment(const struct snapshot *a, const struct snapshot_segment *x,
			const struct snapshot *b, const struct snapshot_segment *y)
{
	if (x->addr != y->addr || x->bytes != y->bytes ||
	    x->allocated_bytes != y->allocated_bytes || x->active_bytes != y->active_bytes ||
	    x->requested_bytes != y->requested_bytes || x->device != y->device ||
	    x->stream != y->stream || x->pool != y->pool || x->stack != y->stack ||
	    x->large != y->large || x->expandable != y->expandable || x->blocks != y->blocks)
		return 0;
	for (uint32_t i = 0; i < x->blocks; i++) {
		const struct snapshot_block *p = &a->blocks.at[x->first_block + i];
		const struct snapshot_block *q = &b->blocks.at[y->first_block + i];

		if (p->addr != q->addr || p->bytes != q->bytes || p->state != q->state ||
		    p->requested_bytes != q->requested_bytes || p->stack != q->stack)
			return 0;
	}
	return 1;
}

static const char *memory_differs(const struct snapshot *a, const struct snapshot *b)
{
	if (a->streams.n != b->streams.n ||
	    !same_bytes(a->streams.at, b->streams.at, a->streams.n, sizeof(*a->streams.at)))
		return "the streams";
	if (a->pools.n != b->pools.n ||
	    !same_bytes(a->pools.at, b->pools.at, a->pools.n, sizeof(*a->pools.at)))
		return "the pools";
	if (a->segments.n != b->segments.n)
		return "how many segments there are";
	for (size_t i = 0; i < a->segments.n; i++)
		if (!same_segment(a, &a->segments.at[i], b, &b->segments.at[i]))
			return "a segment";
	return NULL;
}

static int same_annotations(const struct snapshot *a, const struct snapshot *b)
{
	if (a->annotations.n != b->annotations.n)
		return 0;
	for (size_t i = 0; i < a->annotations.n; i++) {
		const struct snapshot_annotation *x = &a->annotations.at[i],
						 *y = &b->annotations.at[i];

		if (x->time_us != y->time_us || x->device != y->device || x->end != y->end ||
		    !same_text(a, x->name, b, y->name))
			return 0;
	}
	return 1;
}

/* The rows of the columns may stand elsewhere; within a device they follow each other. */
static int same_labels(const struct snapshot *a, const struct snapshot *b)
{
	if (a->labels.n != b->labels.n)
		return 0;
	for (size_t i = 0; i < a->labels.n; i++) {
		const struct snapshot_label *x = &a->labels.at[i], *y = &b->labels.at[i];

		if (x->is_compile_context != y->is_compile_context ||
		    x->row - a->labels.at[0].row != y->row - b->labels.at[0].row ||
		    !same_text(a, x->string, b, y->string))
			return 0;
	}
	return 1;
}

static int same_unknown(const struct snapshot *a, const struct snapshot *b)
{
	if (a->unknown.n != b->unknown.n)
		return 0;
	for (size_t i = 0; i < a->unknown.n; i++)
		if (a->unknown.at[i].where != b->unknown.at[i].where ||
		    a->unknown.at[i].count != b->unknown.at[i].count ||
		    !same_text(a, a->unknown.at[i].name, b, b->unknown.at[i].name))
			return 0;
	return 1;
}

static int same_settings(const struct snapshot *a, const struct snapshot *b)
{
	const struct snapshot_settings *x = &a->settings, *y = &b->settings;

	if (x->have != y->have || a->settings_values.n != b->settings_values.n)
		return 0;
	if (x->have &&
	    (x->expandable_segments != y->expandable_segments ||
	     x->release_lock_on_cudamalloc != y->release_lock_on_cudamalloc ||
	     x->graph_capture_record_stream_reuse != y->graph_capture_record_stream_reuse ||
	     x->have_reuse_key != y->have_reuse_key || !same_text(a, x->conf, b, y->conf) ||
	     x->max_split_bytes != y->max_split_bytes || x->gc_threshold < y->gc_threshold ||
	     x->gc_threshold > y->gc_threshold ||
	     memcmp(x->roundup_divisions, y->roundup_divisions, sizeof(x->roundup_divisions))))
		return 0;
	for (size_t i = 0; i < a->settings_values.n; i++) {
		const struct pickle_value *p = &a->settings_values.at[i],
					  *q = &b->settings_values.at[i];

		if (p->kind != q->kind ||
		    (p->kind == PICKLE_STR ? !same_text(a, (uint32_t)p->bits, b, (uint32_t)q->bits)
					   : p->bits != q->bits))
			return 0;
	}
	return 1;
}

static int same_flags(const struct snapshot *a, const struct snapshot *b)
{
	return a->has_time == b->has_time && a->has_traces == b->has_traces &&
	       a->has_frames == b->has_frames && a->has_block_frames == b->has_block_frames &&
	       a->has_compile_context == b->has_compile_context &&
	       a->has_user_metadata == b->has_user_metadata &&
	       a->has_annotations == b->has_annotations && a->times_made == b->times_made &&
	       a->end_unknown == b->end_unknown && a->profile.kind == b->profile.kind &&
	       a->profile.python == b->profile.python;
}

const char *snapshot_differs(const struct snapshot *a, const struct snapshot *b)
{
	const char *what = NULL;

	if (a->device_count != b->device_count)
		return "how many devices there are";
	if (!same_flags(a, b))
		return "what was recorded";
	if (!same_frames(a, b))
		return "the frames";
	if (!same_stacks(a, b))
		return "the stacks";
	for (size_t d = 0; !what && d < a->device_count; d++) {
		what = a->devices[d].stale_events != b->devices[d].stale_events
			       ? "events that were left out"
			       : events_differ(&a->devices[d].events, &b->devices[d].events);
	}
	if (!what)
		what = memory_differs(a, b);
	if (!what && !same_annotations(a, b))
		what = "the annotations";
	if (!what && !same_labels(a, b))
		what = "the labels";
	if (!what && !same_unknown(a, b))
		what = "the notes on what was left out";
	if (!what && !same_text(a, a->sources, b, b->sources))
		what = "the list of the program's files";
	if (!what && !same_settings(a, b))
		what = "the settings";
	return what;
}
