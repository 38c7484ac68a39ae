/* A trace as the snapshot that PyTorch itself would dump: same keys in the same order. */
#include "snapshot.h"

#include <stdio.h>
#include <string.h>

struct writing {
	const struct snapshot *t;
	struct pickle_writer *w;
	uint32_t *stack_memo, *frame_memo; /* memo + 1, 0: not written yet */
	size_t label;                      /* the next of trace.labels */
	const uint8_t *columns;            /* row 0's action */
};

static void key(struct writing *o, const char *text)
{
	pickle_write_str(o->w, text, strlen(text));
}

static void text(struct writing *o, uint32_t string)
{
	const struct intern *s = &o->t->heap.strings;

	if (string == TRACE_NONE)
		key(o, "");
	else
		pickle_write_str(o->w, intern_text(s, string), s->at[string].n);
}

static void snapshot_number(struct writing *o, const char *name, uint64_t value)
{
	key(o, name);
	pickle_write_uint(o->w, value);
}

static void write_frame_row(struct writing *o, uint32_t id)
{
	const struct snapshot_frame *f = snapshot_frame(o->t, id);

	if (o->frame_memo[id]) {
		pickle_write_ref(o->w, o->frame_memo[id] - 1);
		return;
	}
	pickle_write_dict(o->w);
	key(o, "name");
	text(o, f->name);
	key(o, "filename");
	text(o, f->filename);
	key(o, "line");
	pickle_write_uint(o->w, f->line == TRACE_NONE ? UINT64_MAX : f->line);
	pickle_write_close(o->w);
	o->frame_memo[id] = pickle_write_memo(o->w) + 1;
}

/* Nothing is written for a stack that was not recorded. */
static void frames(struct writing *o, uint32_t stack)
{
	uint32_t n;
	const uint32_t *ids = snapshot_stack(o->t, stack, &n);

	if (stack == TRACE_NONE)
		return;
	key(o, "frames");
	if (n && o->stack_memo[stack]) {
		pickle_write_ref(o->w, o->stack_memo[stack] - 1);
		return;
	}
	pickle_write_list(o->w);
	for (uint32_t i = 0; i < n; i++)
		write_frame_row(o, ids[i]);
	pickle_write_close(o->w);
	o->stack_memo[stack] = pickle_write_memo(o->w) + 1;
}

static void blocks(struct writing *o, const struct snapshot_segment *s)
{
	static const char *const states[] = { "active_allocated", "active_pending_free",
					      "inactive" };

	key(o, "blocks");
	pickle_write_list(o->w);
	for (uint32_t i = 0; i < s->blocks; i++) {
		const struct snapshot_block *b = &o->t->blocks.at[s->first_block + i];

		pickle_write_dict(o->w);
		snapshot_number(o, "address", b->addr);
		snapshot_number(o, "size", b->bytes);
		snapshot_number(o, "requested_size", b->requested_bytes);
		key(o, "state");
		key(o, states[b->state]);
		frames(o, b->stack);
		pickle_write_close(o->w);
	}
	pickle_write_close(o->w);
}

static void segment(struct writing *o, const struct snapshot_segment *s)
{
	const struct snapshot_pool_id *pool = &o->t->pools.at[s->pool];

	pickle_write_dict(o->w);
	snapshot_number(o, "device", s->device);
	snapshot_number(o, "address", s->addr);
	snapshot_number(o, "total_size", s->bytes);
	snapshot_number(o, "allocated_size", s->allocated_bytes);
	snapshot_number(o, "active_size", s->active_bytes);
	snapshot_number(o, "requested_size", s->requested_bytes);
	key(o, "stream");
	pickle_write_int(o->w, o->t->streams.at[s->stream]);
	key(o, "segment_type");
	key(o, s->large ? "large" : "small");
	key(o, "segment_pool_id");
	pickle_write_pair(o->w, pool->a, pool->b);
	key(o, "is_expandable");
	pickle_write_bool(o->w, s->expandable);
	frames(o, s->stack);
	blocks(o, s);
	pickle_write_close(o->w);
}

/* The labels of a row, or what stands there when there is none. */
static void labels(struct writing *o, size_t row)
{
	uint32_t context = TRACE_NONE, metadata = TRACE_NONE;

	while (o->label < o->t->labels.n && o->t->labels.at[o->label].row <= row) {
		const struct snapshot_label *l = &o->t->labels.at[o->label++];

		if (l->row == row)
			*(l->is_compile_context ? &context : &metadata) = l->string;
	}
	if (o->t->has_compile_context) {
		key(o, "compile_context");
		if (context == TRACE_NONE)
			key(o, "N/A");
		else
			text(o, context);
	}
	if (o->t->has_user_metadata) {
		key(o, "user_metadata");
		text(o, metadata);
	}
}

static void event(struct writing *o, const struct snapshot_events *ev, size_t e)
{
	uint8_t action = ev->action[e];

	pickle_write_dict(o->w);
	key(o, "action");
	key(o, snapshot_action_names[action]);
	snapshot_number(o, action == TRACE_OOM ? "device_free" : "addr", ev->addr[e]);
	snapshot_number(o, "size", ev->size[e]);
	key(o, "stream");
	pickle_write_int(o->w, o->t->streams.at[ev->stream[e]]);
	if (o->t->has_time) {
		key(o, "time_us");
		pickle_write_int(o->w, ev->time_us[e]);
	}
	labels(o, (size_t)(ev->action - o->columns) + e);
	if (ev->pool) {
		key(o, "pool_id");
		pickle_write_pair(o->w, o->t->pools.at[ev->pool[e]].a,
				  o->t->pools.at[ev->pool[e]].b);
	}
	frames(o, ev->stack[e]);
	pickle_write_close(o->w);
}

/* Value i of trace.settings_values; tuples become lists. */
static void snapshot_setting(struct writing *o, size_t *i)
{
	struct pickle_value v = o->t->settings_values.at[(*i)++];

	switch (v.kind) {
	case PICKLE_BOOL: pickle_write_bool(o->w, v.bits != 0); break;
	case PICKLE_INT: pickle_write_int(o->w, (int64_t)v.bits); break;
	case PICKLE_UINT: pickle_write_uint(o->w, v.bits); break;
	case PICKLE_FLOAT: {
		double value;

		memcpy(&value, &v.bits, sizeof(value));
		pickle_write_float(o->w, value);
		break;
	}
	case PICKLE_STR: text(o, (uint32_t)v.bits); break;
	case PICKLE_DICT:
	case PICKLE_LIST:
	case PICKLE_TUPLE:
		(v.kind == PICKLE_DICT ? pickle_write_dict : pickle_write_list)(o->w);
		for (uint64_t n = 0; n < v.bits; n++)
			snapshot_setting(o, i);
		pickle_write_close(o->w);
		break;
	default: pickle_write_none(o->w); break;
	}
}

/* What a trace that no file was the source of has for settings. */
static void known_settings(struct writing *o)
{
	const struct snapshot_settings *s = &o->t->settings;
	char name[8];

	pickle_write_dict(o->w);
	key(o, "PYTORCH_CUDA_ALLOC_CONF");
	text(o, s->conf);
	key(o, "max_split_size");
	pickle_write_int(o->w, (int64_t)s->max_split_bytes);
	key(o, "garbage_collection_threshold");
	pickle_write_float(o->w, s->gc_threshold);
	key(o, "expandable_segments");
	pickle_write_bool(o->w, s->expandable_segments);
	key(o, "release_lock_on_cudamalloc");
	pickle_write_bool(o->w, s->release_lock_on_cudamalloc);
	if (s->have_reuse_key) {
		key(o, "graph_capture_record_stream_reuse");
		pickle_write_bool(o->w, s->graph_capture_record_stream_reuse);
	}
	key(o, "roundup_power2_divisions");
	pickle_write_dict(o->w);
	for (int i = 0; i < TRACE_ROUNDUP_ENTRIES; i++) {
		snprintf(name, sizeof(name), "%u", 1u << i);
		snapshot_number(o, name, s->roundup_divisions[i]);
	}
	pickle_write_close(o->w);
	pickle_write_close(o->w);
}

static void write_settings(struct writing *o)
{
	size_t i = 0, n = o->t->settings_values.n;

	key(o, "allocator_settings");
	if (!n) {
		known_settings(o);
		return;
	}
	pickle_write_dict(o->w);
	while (i < n)
		snapshot_setting(o, &i);
	pickle_write_close(o->w);
}

static void annotations(struct writing *o)
{
	key(o, "external_annotations");
	pickle_write_list(o->w);
	for (size_t i = 0; i < o->t->annotations.n; i++) {
		const struct snapshot_annotation *a = &o->t->annotations.at[i];

		pickle_write_dict(o->w);
		key(o, "stage");
		key(o, a->end ? "END" : "START");
		key(o, "name");
		text(o, a->name);
		snapshot_number(o, "device", a->device);
		key(o, "time_us");
		pickle_write_int(o->w, a->time_us);
		pickle_write_close(o->w);
	}
	pickle_write_close(o->w);
}

static void snapshot(struct writing *o)
{
	pickle_write_dict(o->w);
	key(o, "segments");
	pickle_write_list(o->w);
	for (size_t i = 0; i < o->t->segments.n; i++)
		segment(o, &o->t->segments.at[i]);
	pickle_write_close(o->w);
	key(o, "device_traces");
	pickle_write_list(o->w);
	for (size_t d = 0; d < o->t->device_count; d++) {
		pickle_write_list(o->w);
		for (size_t e = 0; e < o->t->devices[d].events.n; e++)
			event(o, &o->t->devices[d].events, e);
		pickle_write_close(o->w);
	}
	pickle_write_close(o->w);
	if (o->t->settings.have)
		write_settings(o);
	if (o->t->has_annotations)
		annotations(o);
	if (o->t->sources != TRACE_NONE) {
		key(o, SNAPSHOT_SOURCES);
		text(o, o->t->sources);
	}
	pickle_write_close(o->w);
}

enum plim_status snapshot_write(const struct snapshot *t, struct pickle_sink sink,
				struct plim_err *err)
{
	struct writing o = { .t = t, .columns = t->first_action };
	enum plim_status st;

	o.w = pickle_writer_new(t->mem, sink, err);
	o.stack_memo = o.w ? mem_new(t->mem, t->stacks.n, sizeof(*o.stack_memo), err) : NULL;
	o.frame_memo =
		o.stack_memo ? mem_new(t->mem, t->frames.n, sizeof(*o.frame_memo), err) : NULL;
	st = o.frame_memo ? PLIM_OK : mem_status(err);
	if (!st) {
		snapshot(&o);
		st = pickle_write_end(o.w, err);
	}
	mem_free(t->mem, o.frame_memo, t->frames.n, sizeof(*o.frame_memo));
	mem_free(t->mem, o.stack_memo, t->stacks.n, sizeof(*o.stack_memo));
	pickle_writer_free(o.w);
	return st;
}
