/*
 * One snapshot behind another: what a packed recording that was appended to is read as, and, behind an empty one, a copy
 * with other names.  The frames and stacks of a whole one keep their order; of a part those come that rows use.
 */
#include "reader.h"

#include <string.h>

struct joining {
	struct snapshot *t;
	const struct snapshot *b;
	const struct snapshot_rest *from;
	const struct snapshot_renaming *as;
	uint32_t *strings, *frames, *stacks; /* of b: 1 + the number in t; 0: not yet */
	uint16_t *streams, *pools;
	VEC(uint32_t) scratch;
	enum plim_status status; /* the first failure */
	struct plim_err *err;
};

/* ---- names ---- */

static uint32_t add_text(struct joining *j, const void *bytes, size_t n)
{
	uint32_t id = TRACE_NONE;

	if (!j->status)
		j->status = intern_add(&j->t->heap.strings, bytes, n, &id, j->err);
	return j->status ? TRACE_NONE : id;
}

static uint32_t string(struct joining *j, uint32_t id)
{
	const struct intern_entry *text;

	if (id == TRACE_NONE || j->status)
		return TRACE_NONE;
	text = &j->b->heap.strings.at[id];
	if (!j->strings[id])
		j->strings[id] = 1 + add_text(j, text->bytes, text->n);
	return j->strings[id] - 1;
}

/* A text that is renamed by what it is, if anything is. */
static uint32_t word(struct joining *j, enum snapshot_word kind, uint32_t id)
{
	const char *text;

	if (!j->as || id == TRACE_NONE)
		return string(j, id);
	text = j->as->word(j->as->self, kind, id);
	return text ? add_text(j, text, strlen(text)) : TRACE_NONE;
}

static uint32_t join_frame(struct joining *j, uint32_t id)
{
	const struct snapshot_frame *was = snapshot_frame(j->b, id);
	struct snapshot_frame f = { .line = was->line };
	uint32_t number = 0;

	if (j->frames[id])
		return j->frames[id] - 1;
	if (j->as) {
		const char *name, *file;

		j->as->frame(j->as->self, was, &name, &file);
		f.name = add_text(j, name, strlen(name));
		f.filename = add_text(j, file, strlen(file));
	} else {
		f.name = string(j, was->name);
		f.filename = string(j, was->filename);
	}
	if (!j->status)
		j->status = intern_add(&j->t->frames, &f, sizeof(f), &number, j->err);
	j->frames[id] = number + 1;
	return number;
}

static uint32_t stack(struct joining *j, uint32_t id)
{
	static const uint32_t none = 0;
	uint32_t n, number = 0;
	const uint32_t *of = snapshot_stack(j->b, id, &n);

	if (id == TRACE_NONE || j->status)
		return TRACE_NONE;
	if (j->stacks[id])
		return j->stacks[id] - 1;
	j->scratch.n = 0;
	for (uint32_t i = 0; !j->status && i < n; i++)
		j->status = vec_push(j->t->mem, &j->scratch, join_frame(j, of[i]), j->err);
	if (!j->status)
		j->status = intern_add(&j->t->stacks, n ? j->scratch.at : &none,
				       n * sizeof(uint32_t), &number, j->err);
	j->stacks[id] = number + 1;
	return j->status ? TRACE_NONE : number;
}

/* All of them, in their order: answers in which two are equal go by it. */
static void all_stacks(struct joining *j)
{
	for (uint32_t i = 0; !j->status && i < j->b->frames.n; i++)
		(void)join_frame(j, i);
	for (uint32_t i = 0; !j->status && i < j->b->stacks.n; i++)
		(void)stack(j, i);
}

static void streams(struct joining *j)
{
	struct snapshot *t = j->t;

	for (size_t i = 0; !j->status && i < j->b->streams.n; i++) {
		size_t k = 0;

		while (k < t->streams.n && t->streams.at[k] != j->b->streams.at[i])
			k++;
		if (k > UINT16_MAX)
			j->status = err_set(j->err, PLIM_E_LIMIT, "more than 65536 streams");
		else if (k == t->streams.n)
			j->status = vec_push(t->mem, &t->streams, j->b->streams.at[i], j->err);
		j->streams[i] = (uint16_t)k;
	}
}

static void pools(struct joining *j)
{
	struct snapshot *t = j->t;

	for (size_t i = 0; !j->status && i < j->b->pools.n; i++) {
		const struct snapshot_pool_id *id = &j->b->pools.at[i];
		size_t k = 0;

		while (k < t->pools.n && (t->pools.at[k].a != id->a || t->pools.at[k].b != id->b))
			k++;
		if (k > UINT16_MAX)
			j->status = err_set(j->err, PLIM_E_LIMIT, "more than 65536 pools");
		else if (k == t->pools.n)
			j->status = vec_push(t->mem, &t->pools, *id, j->err);
		j->pools[i] = (uint16_t)k;
	}
}

/* ---- events and their labels ---- */

static size_t rows_there(const struct joining *j, size_t device)
{
	return j->from ? j->from->rows[device] : 0;
}

/* The row of a device's first event in the columns. */
static size_t first_row(const struct snapshot *t, size_t device)
{
	const struct snapshot_events *ev = &t->devices[device].events;

	return ev->n ? (size_t)(ev->action - t->first_action) : 0;
}

/* Clocks are read anew for each snapshot: what comes behind a device's last event is not earlier. */
static int64_t end_of(const struct snapshot *t, size_t device)
{
	const struct snapshot_events *ev =
		device < t->device_count ? &t->devices[device].events : NULL;

	return t->has_time && ev && ev->n ? ev->time_us[ev->n - 1] : INT64_MIN;
}

static void copy_rows(struct joining *j, struct snapshot_columns *c, const struct snapshot *of,
		      size_t device, size_t first)
{
	const struct snapshot_events *ev = &of->devices[device].events;
	int64_t least = of == j->b ? end_of(j->t, device) : INT64_MIN;

	for (size_t e = first; !j->status && e < ev->n; e++) {
		struct event_row row = { .addr = ev->addr[e],
					 .size = ev->size[e],
					 .time_us = j->t->has_time ? ev->time_us[e] : 0,
					 .stack = ev->stack[e],
					 .stream = ev->stream[e],
					 .pool = ev->pool ? ev->pool[e] : 0,
					 .action = ev->action[e] };

		if (row.time_us < least)
			row.time_us = least;
		if (of == j->b) {
			row.stack = stack(j, row.stack);
			row.stream = j->streams[row.stream];
			row.pool = j->pools[row.pool];
		}
		if (!j->status)
			j->status = columns_push(j->t->mem, c, &row, j->err);
	}
}

/* The labels of a device's rows from `first` on, whose first one is row `at` now. */
static void copy_labels(struct joining *j, struct snapshot *into, const struct snapshot *of,
			size_t device, size_t first, size_t at)
{
	size_t begin = first_row(of, device) + first,
	       end = first_row(of, device) + of->devices[device].events.n;

	for (size_t i = 0; !j->status && i < of->labels.n; i++) {
		struct snapshot_label l = of->labels.at[i];

		if (l.row < begin || l.row >= end)
			continue;
		l.row = (uint32_t)(at + (l.row - begin));
		if (of == j->b)
			l.string = word(j,
					l.is_compile_context ? SNAPSHOT_WORD_CONTEXT
							     : SNAPSHOT_WORD_LABEL,
					l.string);
		if (!j->status && l.string != TRACE_NONE)
			j->status = vec_push(into->mem, &into->labels, l, j->err);
	}
}

static int has_pool(const struct snapshot *t)
{
	for (size_t d = 0; d < t->device_count; d++)
		if (t->devices[d].events.pool)
			return 1;
	return 0;
}

/* Device by device, what t has and behind it what is new. */
static void events(struct joining *j, struct snapshot *out, size_t *counts)
{
	struct snapshot *t = j->t;
	struct snapshot_columns *c = out->columns;

	if (has_pool(t) || has_pool(j->b))
		j->status = columns_add_pool(t->mem, c, j->err);
	for (size_t d = 0; !j->status && d < out->device_count; d++) {
		size_t at = c->n;

		if (d < t->device_count) {
			copy_labels(j, out, t, d, 0, at);
			copy_rows(j, c, t, d, 0);
		}
		if (d < j->b->device_count) {
			copy_labels(j, out, j->b, d, rows_there(j, d), c->n);
			copy_rows(j, c, j->b, d, rows_there(j, d));
		}
		counts[d] = c->n - at;
	}
	if (!j->status)
		j->status = columns_finish(t->mem, c, j->err);
}

/* ---- the end ---- */

static void memory_at_end(struct joining *j)
{
	struct snapshot *t = j->t;
	const struct snapshot *b = j->b;

	t->segments.n = t->blocks.n = 0;
	for (size_t i = 0; !j->status && i < b->blocks.n; i++) {
		struct snapshot_block one = b->blocks.at[i];

		one.stack = stack(j, one.stack);
		if (!j->status)
			j->status = vec_push(t->mem, &t->blocks, one, j->err);
	}
	for (size_t i = 0; !j->status && i < b->segments.n; i++) {
		struct snapshot_segment s = b->segments.at[i];

		s.stack = stack(j, s.stack);
		s.stream = j->streams[s.stream];
		s.pool = j->pools[s.pool];
		if (!j->status)
			j->status = vec_push(t->mem, &t->segments, s, j->err);
	}
	for (size_t d = 0; d < b->device_count; d++) {
		t->devices[d].first_segment = b->devices[d].first_segment;
		t->devices[d].segments = b->devices[d].segments;
	}
}

static void join_settings(struct joining *j)
{
	struct snapshot *t = j->t;
	const struct snapshot *b = j->b;

	if (!b->settings.have)
		return;
	t->settings = b->settings;
	t->settings.conf = string(j, b->settings.conf);
	t->settings_values.n = 0;
	for (size_t i = 0; !j->status && i < b->settings_values.n; i++) {
		struct pickle_value v = b->settings_values.at[i];

		if (v.kind == PICKLE_STR)
			v.bits = string(j, (uint32_t)v.bits);
		if (!j->status)
			j->status = vec_push(t->mem, &t->settings_values, v, j->err);
	}
}

static void annotations(struct joining *j)
{
	struct snapshot *t = j->t;

	for (size_t i = j->from ? j->from->annotations : 0; !j->status && i < j->b->annotations.n;
	     i++) {
		struct snapshot_annotation a = j->b->annotations.at[i];

		a.name = word(j, SNAPSHOT_WORD_RANGE, a.name);
		if (!j->status)
			j->status = vec_push(t->mem, &t->annotations, a, j->err);
	}
}

/* Both may have seen the same rows: the larger number is known to be. */
static void unknown(struct joining *j)
{
	struct snapshot *t = j->t;

	for (size_t i = 0; !j->status && i < j->b->unknown.n; i++) {
		struct snapshot_unknown u = j->b->unknown.at[i];
		size_t k = 0;

		u.name = word(j, SNAPSHOT_WORD_KEY, u.name);
		while (k < t->unknown.n &&
		       (t->unknown.at[k].name != u.name || t->unknown.at[k].where != u.where))
			k++;
		if (k < t->unknown.n && t->unknown.at[k].count < u.count)
			t->unknown.at[k].count = u.count;
		else if (k == t->unknown.n && !j->status)
			j->status = vec_push(t->mem, &t->unknown, u, j->err);
	}
}

static void flags(struct joining *j)
{
	struct snapshot *t = j->t;
	const struct snapshot *b = j->b;

	t->has_time = t->device_count ? t->has_time && b->has_time : b->has_time;
	t->has_traces |= b->has_traces;
	t->has_frames |= b->has_frames;
	t->has_compile_context |= b->has_compile_context;
	t->has_user_metadata |= b->has_user_metadata;
	t->has_annotations |= b->has_annotations;
	t->times_made |= b->times_made;
	t->has_block_frames = b->has_block_frames;
	t->end_unknown = b->end_unknown;
	t->profile = b->profile;
}

/* ---- all of it ---- */

static void release_devices(struct snapshot *t)
{
	for (size_t d = 0; d < t->device_count; d++)
		mem_free(t->mem, t->devices[d].allocs, t->devices[d].alloc_room,
			 sizeof(struct snapshot_alloc));
	mem_free(t->mem, t->devices, t->device_count, sizeof(*t->devices));
	t->devices = NULL;
	t->device_count = 0;
}

/* The columns, labels and devices that were made take the place of those of t. */
static void take_over(struct joining *j, struct snapshot *out, const size_t *counts)
{
	struct snapshot *t = j->t;
	size_t at = 0;

	for (size_t d = 0; d < out->device_count; d++) {
		struct snapshot_device *to = &out->devices[d];
		const struct snapshot_device *of = d < t->device_count && t->devices[d].events.n
							   ? &t->devices[d]
						   : d < j->b->device_count ? &j->b->devices[d]
									    : NULL;

		to->ordinal = (uint32_t)d;
		to->stale_events = of ? of->stale_events : 0;
		to->events = columns_view(out->columns, at, counts[d]);
		at += counts[d];
	}
	release_devices(t);
	columns_release(t->mem, t->columns);
	vec_release(t->mem, &t->labels);
	*t->columns = *out->columns;
	*out->columns = (struct snapshot_columns){ .n = 0 };
	t->devices = out->devices;
	t->device_count = out->device_count;
	out->devices = NULL;
	out->device_count = 0;
	t->labels.at = out->labels.at;
	t->labels.n = out->labels.n;
	t->labels.cap = out->labels.cap;
	out->labels.at = NULL;
	out->labels.n = out->labels.cap = 0;
	t->first_action = t->columns->action;
}

static void join_snapshots(struct joining *j)
{
	struct snapshot *t = j->t, *out;
	size_t devices =
		t->device_count > j->b->device_count ? t->device_count : j->b->device_count;
	size_t *counts = mem_new(t->mem, devices, sizeof(*counts), j->err);

	j->status = counts ? snapshot_new(t->mem, &out, j->err) : mem_status(j->err);
	if (!counts)
		return;
	if (!j->status) {
		out->devices = mem_new(t->mem, devices, sizeof(*out->devices), j->err);
		out->device_count = out->devices ? devices : 0;
		j->status = out->devices ? PLIM_OK : mem_status(j->err);
	}
	streams(j);
	pools(j);
	flags(j);
	if (!j->from)
		all_stacks(j);
	if (!j->status)
		events(j, out, counts);
	if (!j->status)
		take_over(j, out, counts);
	mem_free(t->mem, counts, devices, sizeof(*counts));
	snapshot_free(out);
	if (!j->status)
		memory_at_end(j);
	join_settings(j);
	annotations(j);
	unknown(j);
	if (!j->status && j->b->sources != TRACE_NONE)
		t->sources = word(j, SNAPSHOT_WORD_SOURCES, j->b->sources);
}

enum plim_status snapshot_append(struct snapshot *t, const struct snapshot *b,
				 const struct snapshot_rest *from,
				 const struct snapshot_renaming *as, struct plim_err *err)
{
	struct joining j = { .t = t, .b = b, .from = from, .as = as, .err = err };
	struct mem *m = t->mem;

	(void)follow_end(t->columns->follower); /* it reads the columns, which move now */
	snapshot_forget_python(t);
	j.strings = mem_new(m, b->heap.strings.n, sizeof(*j.strings), err);
	j.frames = mem_new(m, b->frames.n, sizeof(*j.frames), err);
	j.stacks = mem_new(m, b->stacks.n, sizeof(*j.stacks), err);
	j.streams = mem_new(m, b->streams.n, sizeof(*j.streams), err);
	j.pools = mem_new(m, b->pools.n, sizeof(*j.pools), err);
	if (j.strings && j.frames && j.stacks && j.streams && j.pools)
		join_snapshots(&j);
	else
		j.status = mem_status(err);
	mem_free(m, j.strings, b->heap.strings.n, sizeof(*j.strings));
	mem_free(m, j.frames, b->frames.n, sizeof(*j.frames));
	mem_free(m, j.stacks, b->stacks.n, sizeof(*j.stacks));
	mem_free(m, j.streams, b->streams.n, sizeof(*j.streams));
	mem_free(m, j.pools, b->pools.n, sizeof(*j.pools));
	vec_release(m, &j.scratch);
	return j.status;
}

/* ---- where one goes on ---- */

/*
 * PyTorch reads its clock anew for each snapshot, so that the same event has times that differ a little between two: it is
 * told by what it is.  Where a program repeats itself to the address, the times say which repetition it is.
 */
#define CLOCKS_AGREE_US 1000000

/* Two devices' events of which the later one's first are to be found at the earlier one's end. */
struct overlapping {
	const struct snapshot *a, *b;
	const struct snapshot_events *x, *y;
	uint32_t *back; /* of y: so many of the first k rows are the last of these, too */
};

static int same_event(const struct snapshot *a, const struct snapshot_events *x, size_t i,
		      const struct snapshot *b, const struct snapshot_events *y, size_t k)
{
	return x->addr[i] == y->addr[k] && x->size[i] == y->size[k] &&
	       x->action[i] == y->action[k] &&
	       a->streams.at[x->stream[i]] == b->streams.at[y->stream[k]];
}

/* The most of y's first rows that are x's last ones (Knuth, Morris and Pratt). */
static size_t longest(const struct overlapping *o)
{
	const struct snapshot_events *x = o->x, *y = o->y;
	size_t n = 0;

	for (size_t k = 1; k < y->n; k++) {
		while (n && !same_event(o->b, y, k, o->b, y, n))
			n = o->back[n];
		n += same_event(o->b, y, k, o->b, y, n) != 0;
		o->back[k + 1] = (uint32_t)n;
	}
	n = 0;
	for (size_t i = x->n > y->n ? x->n - y->n : 0; i < x->n; i++) {
		while (n && (n == y->n || !same_event(o->a, x, i, o->b, y, n)))
			n = o->back[n];
		n += same_event(o->a, x, i, o->b, y, n) != 0;
	}
	return n;
}

/* How far apart the clocks of both are where `n` rows are the same. */
static uint64_t apart(const struct overlapping *o, size_t n)
{
	int64_t mine = o->x->time_us[o->x->n - 1], other = o->y->time_us[n - 1];

	return mine > other ? (uint64_t)mine - (uint64_t)other : (uint64_t)other - (uint64_t)mine;
}

static enum plim_status does_not_follow(const struct overlapping *o, struct plim_err *err)
{
	const struct snapshot_events *x = o->x, *y = o->y;

	if (!y->n || y->time_us[y->n - 1] < x->time_us[x->n - 1])
		return err_set(err, PLIM_E_ARG,
			       "it was recorded earlier, or in another process: give recordings of "
			       "one process, the earliest first");
	if (y->time_us[0] > x->time_us[x->n - 1])
		return err_set(err, PLIM_E_ARG,
			       "its first event is %.3g s after the last one that is there, and "
			       "what lies between is not recorded: record more often, or more "
			       "events (max_entries)",
			       (double)(y->time_us[0] - x->time_us[x->n - 1]) / 1e6);
	return err_set(err, PLIM_E_ARG,
		       "it does not have the events with which the other one ends: they are of "
		       "different processes");
}

static enum plim_status overlap(struct overlapping *o, size_t *rows, struct plim_err *err)
{
	struct mem *m = o->a->mem;
	size_t n, best = 0;

	*rows = 0;
	if (!o->x->n)
		return PLIM_OK;
	if (!o->y->n)
		return does_not_follow(o, err);
	o->back = mem_new(m, o->y->n + 1, sizeof(*o->back), err);
	if (!o->back)
		return mem_status(err);
	for (n = longest(o); n; n = o->back[n])
		if (apart(o, n) < CLOCKS_AGREE_US && (!best || apart(o, n) < apart(o, best)))
			best = n;
	mem_free(m, o->back, o->y->n + 1, sizeof(*o->back));
	*rows = best;
	return best ? PLIM_OK : does_not_follow(o, err);
}

/* Annotations of b that a has: up to the one that is a's last. */
static size_t annotations_there(const struct snapshot *a, const struct snapshot *b)
{
	const struct snapshot_annotation *last = NULL;
	uint64_t nearest = CLOCKS_AGREE_US;
	size_t n = 0;

	if (a->annotations.n)
		last = &a->annotations.at[a->annotations.n - 1];
	for (size_t i = 0; last && i < b->annotations.n; i++) {
		const struct snapshot_annotation *x = &b->annotations.at[i];
		uint64_t d = (uint64_t)x->time_us - (uint64_t)last->time_us;

		d = x->time_us < last->time_us ? -d : d;
		if (d >= nearest || x->end != last->end || x->device != last->device ||
		    strcmp(snapshot_text(b, x->name), snapshot_text(a, last->name)) != 0)
			continue;
		nearest = d;
		n = i + 1;
	}
	return n;
}

enum plim_status snapshot_follows(const struct snapshot *a, const struct snapshot *b,
				  struct snapshot_rest *rest, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	rest->devices = b->device_count;
	rest->rows = mem_new(a->mem, b->device_count, sizeof(*rest->rows), err);
	rest->annotations = annotations_there(a, b);
	rest->fresh = 0;
	if (!rest->rows)
		return mem_status(err);
	if (!a->has_time || !b->has_time)
		st = err_set(err, PLIM_E_ARG,
			     "where it goes on is reported by times, and there are none (before "
			     "PyTorch 2.2)");
	for (size_t d = 0; !st && (d < a->device_count || d < b->device_count); d++) {
		static const struct snapshot_device none = { .events = { .n = 0 } };
		const struct snapshot_device *x = d < a->device_count ? &a->devices[d] : &none,
					     *y = d < b->device_count ? &b->devices[d] : &none;
		struct overlapping o = { a, b, &x->events, &y->events, NULL };
		size_t rows;

		st = overlap(&o, &rows, err);
		if (!st && d < b->device_count) {
			rest->rows[d] = rows;
			rest->fresh += y->events.n - rows;
		}
	}
	return st;
}

void snapshot_rest_release(struct mem *m, struct snapshot_rest *rest)
{
	mem_free(m, rest->rows, rest->devices, sizeof(*rest->rows));
	*rest = (struct snapshot_rest){ .rows = NULL };
}
