/* From a file to a trace: what the file is, its values, and the columns put in order. */
#include "packed.h"
#include "profile.h"

#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* So many rows are paired in a tenth of a millisecond: far more than it takes to report them. */
#define FOLLOW_ROWS ((size_t)16 << 10)

/* ---- assembling ---- */

static enum plim_status take_events(struct reader *r, struct pickle_value list, size_t device,
				    size_t *first, size_t *n, struct plim_err *err)
{
	struct pickle_heap *h = &r->t->heap;
	struct pickle_node *node;

	*first = *n = 0;
	if (list.kind == PICKLE_EXT && pickle_ext_sort(list.bits) == TRACE_STACK)
		return PLIM_OK; /* an empty list */
	if (list.kind != PICKLE_LIST)
		return err_set(err, PLIM_E_FORMAT, "device_traces[%zu] is not a list of events",
			       device);
	node = &h->nodes.at[list.bits];
	if (!node->n)
		return PLIM_OK;
	if (node->items || pickle_ext_sort(node->run) != TRACE_ROW_EVENT || node->seen)
		return err_set(
			err, PLIM_E_FORMAT,
			"device_traces[%zu] holds something else than its own events in turn",
			device);
	node->seen = 1;
	*first = pickle_ext_number(node->run);
	*n = node->n;
	return PLIM_OK;
}

/* Segments by device, otherwise as written. */
static enum plim_status sort_segments(struct reader *r, struct plim_err *err)
{
	struct snapshot *t = r->t;
	size_t n = t->segments.n, at = 0;
	struct snapshot_segment *sorted = mem_new(r->mem, n, sizeof(*sorted), err);

	if (!sorted)
		return mem_status(err);
	for (size_t d = 0; d < t->device_count; d++) {
		t->devices[d].first_segment = (uint32_t)at;
		for (size_t i = 0; i < n; i++)
			if (t->segments.at[i].device == d)
				sorted[at++] = t->segments.at[i];
		t->devices[d].segments = (uint32_t)at - t->devices[d].first_segment;
	}
	memcpy(t->segments.at, sorted, at * sizeof(*sorted));
	mem_free(r->mem, sorted, n, sizeof(*sorted));
	return PLIM_OK;
}

static enum plim_status take_devices(struct reader *r, struct pickle_value traces,
				     struct plim_err *err)
{
	struct snapshot *t = r->t;
	size_t lists = pickle_len(&t->heap, traces), first, n;
	enum plim_status st = PLIM_OK;

	t->device_count = lists;
	for (size_t i = 0; i < t->segments.n; i++)
		if (t->segments.at[i].device >= t->device_count)
			t->device_count = t->segments.at[i].device + (size_t)1;
	if (t->device_count > 1024)
		return err_set(err, PLIM_E_FORMAT,
			       "a snapshot of %zu devices; at most 1024 are read", t->device_count);
	t->devices = mem_new(r->mem, t->device_count, sizeof(*t->devices), err);
	if (!t->devices)
		return mem_status(err);
	if (t->segments.n)
		st = sort_segments(r, err);
	for (size_t d = 0; !st && d < t->device_count; d++) {
		struct snapshot_device *device = &t->devices[d];

		device->ordinal = (uint32_t)d;
		first = n = 0;
		if (d < lists)
			st = take_events(r, pickle_item(&t->heap, traces, d), d, &first, &n, err);
		if (!st && t->has_time && n)
			window_settle(device, t->columns, &first, &n);
		if (device->stale_events)
			t->labels.n = 0; /* rows have moved */
		if (!st)
			device->events = columns_view(t->columns, first, n);
	}
	return st;
}

#define SETTINGS_VALUES_MAX 4096 /* shared nodes of a hostile file have no end */
#define SETTINGS_DEPTH_MAX 8

/* Append a value of allocator_settings; *whole becomes 0 when it is not of the plain kinds it should be. */
static enum plim_status keep_setting(struct snapshot *t, struct pickle_value v, unsigned depth,
				     int *whole, struct plim_err *err)
{
	int container = v.kind == PICKLE_DICT || v.kind == PICKLE_LIST || v.kind == PICKLE_TUPLE;
	size_t n = container ? pickle_len(&t->heap, v) : 0;
	struct pickle_value kept = { container ? n : v.bits, v.kind };
	enum plim_status st;

	*whole &= (container || v.kind <= PICKLE_STR) && depth < SETTINGS_DEPTH_MAX &&
		  t->settings_values.n < SETTINGS_VALUES_MAX;
	if (!*whole)
		return PLIM_OK;
	st = depth ? vec_push(t->mem, &t->settings_values, kept, err) : PLIM_OK;
	for (size_t i = 0; !st && *whole && i < n; i++)
		st = keep_setting(t, pickle_item(&t->heap, v, i), depth + 1, whole, err);
	return st;
}

static uint64_t snapshot_setting(const struct pickle_heap *h, struct pickle_value dict,
				 const char *key, uint64_t absent)
{
	struct pickle_value v;

	return pickle_get(h, dict, key, &v) && v.kind <= PICKLE_UINT ? v.bits : absent;
}

static enum plim_status take_settings(struct snapshot *t, struct pickle_value dict,
				      struct plim_err *err)
{
	const struct pickle_heap *h = &t->heap;
	struct snapshot_settings *s = &t->settings;
	struct pickle_value v;
	char key[8];
	int whole = 1;
	enum plim_status st;

	s->conf = TRACE_NONE;
	s->max_split_bytes = UINT64_MAX;
	s->have = dict.kind == PICKLE_DICT;
	if (!s->have)
		return PLIM_OK;
	st = keep_setting(t, dict, 0, &whole, err);
	if (!whole)
		t->settings_values.n = 0;
	if (pickle_get(h, dict, "PYTORCH_CUDA_ALLOC_CONF", &v) && v.kind == PICKLE_STR)
		s->conf = (uint32_t)v.bits;
	s->max_split_bytes =
		snapshot_setting(h, dict, "max_split_size", UINT64_MAX); /* -1 is unlimited */
	s->expandable_segments = snapshot_setting(h, dict, "expandable_segments", 0) != 0;
	s->release_lock_on_cudamalloc =
		snapshot_setting(h, dict, "release_lock_on_cudamalloc", 0) != 0;
	s->have_reuse_key = pickle_get(h, dict, "graph_capture_record_stream_reuse", &v) != 0;
	s->graph_capture_record_stream_reuse =
		snapshot_setting(h, dict, "graph_capture_record_stream_reuse", 0) != 0;
	if (pickle_get(h, dict, "garbage_collection_threshold", &v) && v.kind == PICKLE_FLOAT)
		memcpy(&s->gc_threshold, &v.bits, sizeof(s->gc_threshold));
	if (!(s->gc_threshold > 0 && s->gc_threshold < 1))
		s->gc_threshold = 0;
	if (!pickle_get(h, dict, "roundup_power2_divisions", &v))
		return st;
	for (int i = 0; i < TRACE_ROUNDUP_ENTRIES; i++) {
		snprintf(key, sizeof(key), "%u", 1u << i);
		s->roundup_divisions[i] = (uint32_t)snapshot_setting(h, v, key, 0);
	}
	return st;
}

/* Are the device's events the rows that were followed, all of them and as they were read? */
static int is_all_rows(const struct snapshot *t, const struct snapshot_device *d)
{
	return d->events.n == t->columns->n && !d->stale_events;
}

/* What follows from the rows: which frames are Python's, what each allocation's life was. */
static enum plim_status settle_snapshot(struct snapshot *t, struct pairing *ahead,
					struct plim_err *err)
{
	enum plim_status st = snapshot_find_python(t, err);
	size_t events = 0;

	for (size_t d = 0; !st && d < t->device_count; d++) {
		struct snapshot_device *device = &t->devices[d];

		events += device->events.n; /* rows elsewhere belong to no device */
		st = pairs_find(t, device, is_all_rows(t, device) ? ahead : NULL, err);
	}
	if (!st && !events && !t->segments.n)
		st = err_set(err, PLIM_E_FORMAT,
			     "a memory snapshot without events and without memory: history was "
			     "never enabled, or "
			     "this process did not use the GPU; " HOW_TO_RECORD);
	return st;
}

static enum plim_status is_something_else(struct reader *r, struct pickle_value root,
					  struct plim_err *err)
{
	r->is_other = 1;
	return recognise_value(r->t, root, err);
}

enum plim_status reader_assemble(struct reader *r, struct pickle_value root, struct plim_err *err)
{
	struct snapshot *t = r->t;
	struct pickle_heap *h = &t->heap;
	struct pickle_value segments = root, traces = { 0, PICKLE_NONE }, settings = traces, v;
	struct pairing *ahead;
	enum plim_status st;

	if (root.kind == PICKLE_DICT) {
		int have = pickle_get(h, root, "segments", &segments);

		t->has_traces = pickle_get(h, root, "device_traces", &traces) != 0;
		if (!have && !t->has_traces)
			return is_something_else(r, root, err);
		pickle_get(h, root, "allocator_settings", &settings);
		t->has_annotations = pickle_get(h, root, "external_annotations", &v) != 0;
		if (pickle_get(h, root, SNAPSHOT_SOURCES, &v) && v.kind == PICKLE_STR)
			t->sources = (uint32_t)v.bits;
	} else if (root.kind != PICKLE_LIST || !t->segments.n) {
		return is_something_else(r, root, err);
	}
	if ((segments.kind != PICKLE_LIST && segments.kind != PICKLE_NONE) ||
	    pickle_len(h, segments) != t->segments.n)
		return err_set(err, PLIM_E_FORMAT,
			       "'segments' is not a list of the snapshot's segments");
	if (traces.kind != PICKLE_LIST && traces.kind != PICKLE_TUPLE && traces.kind != PICKLE_NONE)
		return err_set(err, PLIM_E_FORMAT, "'device_traces' is not a list");
	st = take_settings(t, settings, err);
	ahead = follow_end(t->columns->follower);
	if (!st)
		st = columns_finish(t->mem, t->columns, err);
	t->first_action = t->columns->action;
	if (!st)
		st = take_devices(r, traces, err);
	pickle_heap_forget_values(h);
	return st ? st : settle_snapshot(t, ahead, err);
}

static enum plim_status assemble_profile(struct reader *r, struct profile *p,
					 struct pickle_value root, struct plim_err *err)
{
	struct snapshot *t = r->t;
	enum plim_status st = profile_assemble(p, root, err);

	r->is_other = st == PLIM_E_FORMAT; /* a trace without memory events */
	pickle_heap_forget_values(&t->heap);
	return st ? st : settle_snapshot(t, follow_end(t->columns->follower), err);
}

/* ---- reading ---- */

#define AFTERLIFE 16 /* allocations after a failure that was the last: messages, a closing report */

uint32_t snapshot_find_death(const struct snapshot_events *ev)
{
	uint32_t allocs = 0;

	for (size_t e = ev->n; e-- > 0 && allocs <= AFTERLIFE;) {
		if (ev->action[e] == TRACE_OOM)
			return (uint32_t)e;
		allocs += ev->action[e] == TRACE_ALLOC;
	}
	return TRACE_NONE;
}

uint32_t snapshot_find_end(const struct snapshot_device *d)
{
	return d->survived ? d->survived - 1 : snapshot_find_death(&d->events);
}

uint64_t snapshot_reserved_peak(const struct snapshot_device *d)
{
	const struct snapshot_events *ev = &d->events;
	uint64_t now = d->reserved_before_bytes, most = now;

	for (size_t e = 0; e < ev->n; e++) {
		uint8_t action = ev->action[e];

		if (action == TRACE_SEGMENT_ALLOC || action == TRACE_SEGMENT_MAP)
			now += ev->size[e];
		else if (action == TRACE_SEGMENT_FREE || action == TRACE_SEGMENT_UNMAP)
			now -= ev->size[e];
		most = now > most ? now : most;
	}
	return most;
}

int snapshot_stack_names(const struct snapshot *t, uint32_t stack, const char *part)
{
	uint32_t n;
	const uint32_t *ids = snapshot_stack(t, stack, &n);

	for (uint32_t i = 0; i < n; i++)
		if (strstr(snapshot_text(t, snapshot_frame(t, ids[i])->name), part))
			return 1;
	return 0;
}

void snapshot_free(struct snapshot *t)
{
	struct mem *m;

	if (!t)
		return;
	m = t->mem;
	for (size_t d = 0; t->devices && d < t->device_count; d++)
		mem_free(m, t->devices[d].allocs, t->devices[d].alloc_room,
			 sizeof(struct snapshot_alloc));
	mem_free(m, t->devices, t->device_count, sizeof(*t->devices));
	if (t->columns)
		columns_release(m, t->columns);
	mem_free(m, t->columns, 1, sizeof(*t->columns));
	vec_release(m, &t->streams);
	vec_release(m, &t->pools);
	vec_release(m, &t->segments);
	vec_release(m, &t->blocks);
	vec_release(m, &t->annotations);
	vec_release(m, &t->labels);
	vec_release(m, &t->unknown);
	vec_release(m, &t->settings_values);
	snapshot_forget_python(t);
	intern_release(&t->frames);
	intern_release(&t->stacks);
	pickle_heap_release(&t->heap);
	mem_free(m, t, 1, sizeof(*t));
}

enum plim_status snapshot_new(struct mem *m, struct snapshot **out, struct plim_err *err)
{
	struct snapshot *t = mem_new(m, 1, sizeof(*t), err);

	*out = t;
	if (!t)
		return mem_status(err);
	t->mem = m;
	t->sources = TRACE_NONE;
	t->settings =
		(struct snapshot_settings){ .conf = TRACE_NONE, .max_split_bytes = UINT64_MAX };
	pickle_heap_init(&t->heap, m);
	intern_init(&t->frames, m);
	intern_init(&t->stacks, m);
	t->columns = mem_new(m, 1, sizeof(*t->columns), err);
	if (!t->columns)
		return mem_status(err);
	return vec_push(m, &t->pools, ((struct snapshot_pool_id){ 0, 0 }), err);
}

/* JSON begins so, after white space and a byte order mark; no pickle does. */
static int looks_like_json(const uint8_t *p, size_t n)
{
	size_t i = n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) ? 3 : 0;

	while (i < n && (p[i] == ' ' || p[i] == '\n' || p[i] == '\r' || p[i] == '\t'))
		i++;
	return i < n && (p[i] == '{' || p[i] == '[');
}

#define REST_MAX_BYTES (256u << 20) /* a bomb behind a pickle's end is not worth more */

/*
 * Compressed data end with their checksum: read up to it, so that damage is reported for what it is also
 * where the pickle still makes sense, or makes none for that reason.  Otherwise `st` stays.
 */
static enum plim_status check_rest(struct source *src, enum plim_status st, struct plim_err *err)
{
	struct plim_err own;
	size_t n = 1;

	for (uint64_t seen = 0; n && seen < REST_MAX_BYTES; seen += n) {
		enum plim_status rest = source_need(src, src->end, 1, &own);

		if (rest == PLIM_E_FORMAT || rest == PLIM_E_IO) {
			if (err)
				*err = own;
			return rest;
		}
		n = rest ? 0 : (size_t)(src->end - src->p);
	}
	return st;
}

/* What the source knows at the end, and whether it ended well. */
static enum plim_status read_to_end(struct snapshot *t, struct source *src, enum plim_status st,
				    struct plim_err *err)
{
	struct source_info info;

	source_get_info(src, &info);
	t->compression = strcmp(info.compression, "none") ? info.compression : NULL;
	t->file_bytes = info.raw_bytes;
	t->decoded_bytes = source_offset(src, src->p);
	return t->compression && (!st || st == PLIM_E_FORMAT) ? check_rest(src, st, err) : st;
}

/* The values of a pickle or of JSON, and from these the columns. */
static enum plim_status decode_values(struct snapshot *t, struct source *src,
				      const struct snapshot_read_options *opt, struct plim_err *err)
{
	unsigned flags = opt ? opt->flags : 0;
	struct reader r;
	struct profile profile;
	struct pickle_hooks hooks;
	struct pickle_value root = { 0, PICKLE_NONE };
	enum plim_status st;

	reader_init(&r, t);
	profile_init(&profile, t);
	hooks = reader_hooks(&r);
	if (looks_like_json(src->p, (size_t)(src->end - src->p))) {
		t->kind = "json";
		st = json_dump_read(t, src, &hooks, &profile, &root, err);
	} else {
		t->kind = "pickle";
		st = pickle_read(&t->heap, src,
				 PICKLE_NO_CALLS |
					 (flags & TRACE_READ_GENERAL ? PICKLE_NO_ROW_PATH : 0),
				 &hooks, &root, err);
	}
	st = read_to_end(t, src, st, err);
	if (!st)
		st = t->profile.kind ? assemble_profile(&r, &profile, root, err)
				     : reader_assemble(&r, root, err);
	if (opt && opt->is_other && r.is_other)
		*opt->is_other = 1;
	profile_release(&profile);
	reader_release(&r);
	return st;
}

enum plim_status snapshot_settle(struct snapshot *t, struct plim_err *err)
{
	return settle_snapshot(t, NULL, err);
}

static enum plim_status decode_packed(struct snapshot *t, struct source *src, struct plim_err *err)
{
	enum plim_status st;

	t->kind = "plim";
	st = packed_read(t, src, err);
	st = read_to_end(t, src, st, err);
	return st ? st : settle_snapshot(t, follow_end(t->columns->follower), err);
}

static enum plim_status decode(struct snapshot *t, struct source *src, const char *name,
			       const struct snapshot_read_options *opt, struct plim_err *err)
{
	unsigned flags = opt ? opt->flags : 0, threads = opt ? opt->threads : 0;
	int lost = 0;
	enum plim_status st = source_need(src, src->p, FILE_KIND_HEAD_BYTES, err);

	if (st)
		return st;
	st = recognise_bytes(name, src->p, (size_t)(src->end - src->p), &lost, err);
	if (st) {
		if (opt && opt->is_other)
			*opt->is_other = !lost;
		return lost ? read_to_end(t, src, st, err) : st;
	}
	if (!(flags & TRACE_READ_GENERAL) && (threads ? threads : thread_processors()) > 1)
		t->columns->follow_rows = opt && opt->follow_rows ? opt->follow_rows : FOLLOW_ROWS;
	return snapshot_is_packed(src->p, (size_t)(src->end - src->p))
		       ? decode_packed(t, src, err)
		       : decode_values(t, src, opt, err);
}

/* Does the message begin with the quoted name already, as those of the source do? */
static int names(const struct plim_err *err, const char *name)
{
	size_t n = strlen(name);

	return err && err->message[0] == '\'' && !strncmp(err->message + 1, name, n) &&
	       err->message[n + 1] == '\'';
}

enum plim_status snapshot_read_source(struct mem *m, struct source *src, const char *name,
				      const struct snapshot_read_options *opt,
				      struct snapshot **out, struct plim_err *err)
{
	struct snapshot *t;
	enum plim_status st = snapshot_new(m, &t, err);

	*out = NULL;
	if (!st)
		st = decode(t, src, name, opt, err);
	if (st) {
		snapshot_free(t);
		if ((st == PLIM_E_FORMAT || st == PLIM_E_LIMIT) && !names(err, name))
			err_prefix(err, name);
		return st;
	}
	*out = t;
	return PLIM_OK;
}

enum plim_status snapshot_read(struct mem *m, const char *path,
			       const struct snapshot_read_options *opt, struct snapshot **out,
			       struct plim_err *err)
{
	struct source_options how = { .thread = opt && opt->threads == 1 ? SOURCE_THREAD_NONE
									 : SOURCE_THREAD_AUTO };
	struct source *src;
	enum plim_status st = source_open(m, path, &how, &src, err);

	*out = NULL;
	if (st)
		return st;
	st = snapshot_read_source(m, src, strcmp(path, "-") ? path : "standard input", opt, out,
				  err);
	source_close(src);
	return st;
}

enum plim_status snapshot_read_bytes(struct mem *m, const void *bytes, size_t n,
				     const struct snapshot_read_options *opt, struct snapshot **out,
				     struct plim_err *err)
{
	struct source *src;
	enum plim_status st =
		source_open_memory(m, "memory", bytes, n, SOURCE_MEMORY_PLAIN, NULL, &src, err);

	*out = NULL;
	if (st)
		return st;
	st = snapshot_read_source(m, src, "memory", opt, out, err);
	source_close(src);
	return st;
}
