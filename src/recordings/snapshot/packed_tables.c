/* A snapshot, packed: everything but the events, each table by one function that writes and reads it. */
#include "packed.h"

#include <string.h>

/* ---- numbers ---- */

COLD void packed_bad(struct packing *p, const char *what)
{
	if (!p->status)
		p->status =
			err_set(p->err, PLIM_E_FORMAT, "the packed recording is damaged: %s", what);
}

COLD void packed_put_more(struct packing *p, struct packed_bytes *c, uint64_t value)
{
	if (!p->status && c->cap - c->n < 10)
		p->status = mem_grow(p->mem, &c->at, &c->cap, c->n + c->n / 2 + 64, 1, p->err);
	if (p->status)
		return;
	for (; value >= 0x80; value >>= 7)
		c->at[c->n++] = (uint8_t)(value | 0x80);
	c->at[c->n++] = (uint8_t)value;
}

COLD uint64_t packed_get_more(struct packing *p, struct packed_bytes *c)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && c->p < c->n; shift += 7) {
		uint8_t byte = c->at[c->p++];

		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	packed_bad(p, "a column ends early");
	c->p = c->n;
	return 0;
}

uint64_t packed_below(struct packing *p, unsigned column, uint64_t value, uint64_t limit)
{
	value = packed_code(p, column, value);
	if (value < limit)
		return value;
	packed_bad(p, "a number is too large");
	return 0;
}

int64_t packed_time(struct packing *p, unsigned column, int64_t value, int64_t *now)
{
	uint64_t passed = (uint64_t)value - (uint64_t)*now;
	uint64_t code = packed_code(p, column, passed <= INT64_MAX ? passed + 1 : 0);

	passed = code ? code - 1 : -packed_code(p, column, -passed);
	*now = (int64_t)((uint64_t)*now + passed);
	return *now;
}

/* ---- names ---- */

/* A number below `n`, or TRACE_NONE; *next is one more than the highest so far. */
static uint32_t named(struct packing *p, unsigned column, uint32_t id, uint32_t *next, size_t n)
{
	uint64_t code = id == TRACE_NONE ? 0 : id == *next ? 1 : 2 + (uint64_t)id;

	code = packed_code(p, column, code);
	if (!code)
		return TRACE_NONE;
	id = code == 1 ? *next : (uint32_t)(code - 2);
	if ((code > 1 && code - 2 >= n) || id >= n) {
		packed_bad(p, "a name that is not there");
		return TRACE_NONE;
	}
	*next = id >= *next ? id + 1 : *next;
	return id;
}

uint32_t packed_string(struct packing *p, unsigned column, uint32_t id)
{
	if (!p->writing)
		return named(p, column, id, &p->next_string, p->t->heap.strings.n);
	(void)named(p, column, id == TRACE_NONE ? id : p->strings[id] - 1, &p->next_string,
		    p->strings_n);
	return id; /* tables that are written stay as they are */
}

uint32_t packed_stack(struct packing *p, unsigned column, uint32_t id)
{
	return named(p, column, id, &p->next_stack, p->t->stacks.n);
}

static void use(struct packing *p, uint32_t string)
{
	if (string != TRACE_NONE)
		p->strings[string] = 1;
}

/* Number the strings that something refers to, in the order in which they came. */
static void number_strings(struct packing *p)
{
	const struct snapshot *t = p->t;
	uint32_t number = 0;

	p->strings = mem_new(p->mem, t->heap.strings.n, sizeof(*p->strings), p->err);
	if (!p->strings) {
		p->status = mem_status(p->err);
		return;
	}
	for (uint32_t i = 0; i < t->frames.n; i++) {
		use(p, snapshot_frame(t, i)->name);
		use(p, snapshot_frame(t, i)->filename);
	}
	for (size_t i = 0; i < t->annotations.n; i++)
		use(p, t->annotations.at[i].name);
	for (size_t i = 0; i < t->labels.n; i++)
		use(p, t->labels.at[i].string);
	for (size_t i = 0; i < t->unknown.n; i++)
		use(p, t->unknown.at[i].name);
	for (size_t i = 0; i < t->settings_values.n; i++)
		if (t->settings_values.at[i].kind == PICKLE_STR)
			use(p, (uint32_t)t->settings_values.at[i].bits);
	if (t->settings.have)
		use(p, t->settings.conf);
	use(p, t->sources);
	for (size_t i = 0; i < t->heap.strings.n; i++)
		if (p->strings[i])
			p->strings[i] = ++number;
	p->strings_n = number;
}

static void put_strings(struct packing *p)
{
	const struct intern *s = &p->t->heap.strings;
	struct packed_bytes *text = &p->column[PACKED_TEXT];

	for (size_t i = 0; !p->status && i < s->n; i++) {
		if (!p->strings[i])
			continue;
		packed_put(p, PACKED_TEXT_BYTES, s->at[i].n);
		if (!p->status)
			p->status = mem_grow(p->mem, &text->at, &text->cap, text->n + s->at[i].n, 1,
					     p->err);
		if (p->status)
			return;
		if (!s->at[i].n) /* where all are empty there is no text yet */
			continue;
		memcpy(text->at + text->n, s->at[i].bytes, s->at[i].n);
		text->n += s->at[i].n;
	}
}

static void get_strings(struct packing *p, uint64_t n)
{
	struct packed_bytes *text = &p->column[PACKED_TEXT];

	for (uint64_t i = 0; !p->status && i < n; i++) {
		uint64_t bytes = packed_get(p, PACKED_TEXT_BYTES);
		uint32_t id;

		if (bytes > text->n - text->p)
			packed_bad(p, "a text ends early");
		if (p->status)
			return;
		p->status = intern_add(&p->t->heap.strings, text->at + text->p, bytes, &id, p->err);
		text->p += bytes;
		if (!p->status && id != i)
			packed_bad(p, "a text stands twice");
	}
}

static void strings(struct packing *p)
{
	uint64_t n;

	if (p->writing)
		number_strings(p);
	n = packed_code(p, PACKED_NUMBERS, p->strings_n);
	if (p->writing)
		put_strings(p);
	else
		get_strings(p, n);
}

/* ---- frames and stacks ---- */

static void table_frame(struct packing *p, uint32_t i, struct snapshot_frame *before)
{
	struct snapshot_frame f = *before;
	uint64_t line;
	uint32_t id;

	if (p->writing)
		f = *snapshot_frame(p->t, i);
	f.name = packed_string(p, PACKED_FRAME_NAME, f.name);
	f.filename = packed_string(p, PACKED_FRAME_FILE, f.filename);
	line = packed_code(p, PACKED_FRAME_LINE, f.line == TRACE_NONE ? 0 : (uint64_t)f.line + 1);
	if (line > TRACE_NONE)
		packed_bad(p, "a line beyond 2^32");
	f.line = line ? (uint32_t)(line - 1) : TRACE_NONE;
	if (p->writing || p->status)
		return;
	p->status = intern_add(&p->t->frames, &f, sizeof(f), &id, p->err);
	if (!p->status && id != i)
		packed_bad(p, "a frame stands twice");
}

static void frames(struct packing *p)
{
	uint64_t n = packed_below(p, PACKED_NUMBERS, p->t->frames.n, TRACE_NONE);
	struct snapshot_frame before = { 0, 0, 0 };

	for (uint32_t i = 0; !p->status && i < n; i++)
		table_frame(p, i, &before);
}

/* Stacks that are read, and by frame 1 + the frame that it called the last time. */
struct stacking {
	struct packing *p;
	uint32_t *called;
	VEC(uint32_t) frames; /* of the stack before, outermost first */
};

/* A frame that another one called: 0 as the last time, 1 the first that was not named before, 2 + number. */
static uint32_t callee(struct stacking *s, uint32_t caller, uint32_t id, uint32_t *next)
{
	struct packing *p = s->p;
	uint32_t *told = &s->called[caller];
	uint64_t code = *told && id == *told - 1 ? 0 : id == *next ? 1 : 2 + (uint64_t)id;

	code = packed_code(p, PACKED_STACK_FRAME, code);
	if (code == 0 ? !*told : code == 1 ? *next >= p->t->frames.n : code - 2 >= p->t->frames.n) {
		packed_bad(p, "a frame that is not there");
		return 0;
	}
	id = code == 0 ? *told - 1 : code == 1 ? *next : (uint32_t)(code - 2);
	*next = id >= *next ? id + 1 : *next;
	*told = id + 1;
	return id;
}

static void turn_table(uint32_t *at, size_t n)
{
	for (size_t i = 0; i + 1 < n; i++) {
		uint32_t swap = at[i];

		at[i] = at[--n];
		at[n] = swap;
	}
}

static void stack(struct stacking *s, uint32_t i, uint32_t *next)
{
	static const uint32_t none = 0;
	struct packing *p = s->p;
	uint32_t n = 0, common = 0, id;
	const uint32_t *of = p->writing ? snapshot_stack(p->t, i, &n) : NULL;
	uint64_t left, entered;

	while (of && common < n && common < s->frames.n &&
	       s->frames.at[common] == of[n - 1 - common])
		common++;
	left = packed_below(p, PACKED_STACK_LEFT, s->frames.n - common, s->frames.n + 1);
	entered = packed_code(p, PACKED_STACK_ENTERED, n - common);
	if (p->status)
		return;
	s->frames.n -= left;
	for (uint64_t k = 0; !p->status && k < entered; k++) {
		uint32_t frame = of ? of[n - 1 - s->frames.n] : 0;
		uint32_t caller = s->frames.n ? s->frames.at[s->frames.n - 1] + 1 : 0;

		frame = callee(s, caller, frame, next);
		if (!p->status)
			p->status = vec_push(p->mem, &s->frames, frame, p->err);
	}
	if (p->writing || p->status)
		return;
	turn_table(s->frames.at, s->frames.n); /* innermost first, and back */
	p->status = intern_add(&p->t->stacks, s->frames.n ? s->frames.at : &none,
			       s->frames.n * sizeof(uint32_t), &id, p->err);
	if (!p->status && id != i)
		packed_bad(p, "a stack stands twice");
	turn_table(s->frames.at, s->frames.n);
}

static void stacks(struct packing *p)
{
	uint64_t n = packed_below(p, PACKED_NUMBERS, p->t->stacks.n, TRACE_NONE);
	struct stacking s = { .p = p };
	size_t room = p->t->frames.n + 1;
	uint32_t next = 0;

	if (p->status)
		return;
	s.called = mem_new(p->mem, room, sizeof(*s.called), p->err);
	if (!s.called)
		p->status = mem_status(p->err);
	for (uint32_t i = 0; !p->status && i < n; i++)
		stack(&s, i, &next);
	mem_free(p->mem, s.called, room, sizeof(*s.called));
	vec_release(p->mem, &s.frames);
}

/* ---- small tables ---- */

/* Room for one more row of a table that is read. */
#define ROW(p, table, i)                                                                       \
	do {                                                                                   \
		if (!(p)->writing && !(p)->status)                                             \
			(p)->status = vec_push((p)->mem, (table), (typeof(*(table)->at)){ 0 }, \
					       (p)->err);                                      \
		if ((p)->status)                                                               \
			return;                                                                \
	} while (0)

static void streams_and_pools(struct packing *p)
{
	struct snapshot *t = p->t;
	uint64_t n = packed_below(p, PACKED_NUMBERS, t->streams.n, UINT16_MAX);

	for (uint64_t i = 0; i < n; i++) {
		ROW(p, &t->streams, i);
		t->streams.at[i] =
			(int64_t)packed_from(p, PACKED_NUMBERS, (uint64_t)t->streams.at[i], 0);
	}
	n = packed_below(p, PACKED_NUMBERS, t->pools.n - 1, UINT16_MAX); /* [0] is (0, 0) */
	for (uint64_t i = 1; i <= n; i++) {
		ROW(p, &t->pools, i);
		t->pools.at[i].a =
			(int64_t)packed_from(p, PACKED_NUMBERS, (uint64_t)t->pools.at[i].a, 0);
		t->pools.at[i].b =
			(int64_t)packed_from(p, PACKED_NUMBERS, (uint64_t)t->pools.at[i].b, 0);
	}
}

static void table_setting(struct packing *p, struct pickle_value *v)
{
	int container;

	v->kind = (enum pickle_kind)packed_below(p, PACKED_NUMBERS, v->kind, PICKLE_DICT + 1);
	container = v->kind == PICKLE_DICT || v->kind == PICKLE_LIST || v->kind == PICKLE_TUPLE;
	if (v->kind == PICKLE_STR)
		v->bits = packed_string(p, PACKED_NUMBERS, (uint32_t)v->bits);
	else
		v->bits = packed_code(p, PACKED_NUMBERS, v->bits);
	if ((v->kind > PICKLE_STR && !container) ||
	    (v->kind == PICKLE_STR && v->bits == TRACE_NONE))
		packed_bad(p, "a setting of no known kind");
}

#define SETTINGS_DEPTH 16

/*
 * Behind the last of so many values from `i` on, those of a dict being keys and values in turn; 0: there are fewer, or no
 * key is what may be one.  A writer of pickles takes them as they are.
 */
static size_t settings_end(const struct snapshot *t, size_t i, uint64_t items, int dict,
			   unsigned depth)
{
	if (depth > SETTINGS_DEPTH || (dict && items % 2))
		return 0;
	for (uint64_t k = 0; k < items && i; k++) {
		const struct pickle_value *v;
		int container;

		if (i > t->settings_values.n)
			return 0;
		v = &t->settings_values.at[i++ - 1];
		container = v->kind > PICKLE_STR;
		if (dict && k % 2 == 0 && container)
			return 0;
		if (container)
			i = settings_end(t, i, v->bits, v->kind == PICKLE_DICT, depth + 1);
	}
	return i;
}

/* All of them: the dict's own keys and values, however many. */
static int settings_are_whole(const struct snapshot *t)
{
	size_t i = 1; /* counted from 1 */

	while (i && i <= t->settings_values.n)
		i = settings_end(t, i, 2, 1, 0);
	return i == t->settings_values.n + 1;
}

static void table_settings(struct packing *p)
{
	struct snapshot *t = p->t;
	struct snapshot_settings *s = &t->settings;
	uint64_t n, threshold;

	if (!p->writing)
		*s = (struct snapshot_settings){ .conf = TRACE_NONE,
						 .max_split_bytes = UINT64_MAX };
	s->have = (uint8_t)packed_below(p, PACKED_NUMBERS, s->have, 2);
	if (!s->have)
		return;
	s->expandable_segments =
		(uint8_t)packed_below(p, PACKED_NUMBERS, s->expandable_segments, 2);
	s->release_lock_on_cudamalloc =
		(uint8_t)packed_below(p, PACKED_NUMBERS, s->release_lock_on_cudamalloc, 2);
	s->graph_capture_record_stream_reuse =
		(uint8_t)packed_below(p, PACKED_NUMBERS, s->graph_capture_record_stream_reuse, 2);
	s->have_reuse_key = (uint8_t)packed_below(p, PACKED_NUMBERS, s->have_reuse_key, 2);
	s->conf = packed_string(p, PACKED_NUMBERS, s->conf);
	s->max_split_bytes = packed_from(p, PACKED_NUMBERS, s->max_split_bytes, UINT64_MAX);
	memcpy(&threshold, &s->gc_threshold, sizeof(threshold));
	threshold = packed_code(p, PACKED_NUMBERS, threshold);
	memcpy(&s->gc_threshold, &threshold, sizeof(threshold));
	if (!(s->gc_threshold >= 0 && s->gc_threshold < 1))
		packed_bad(p, "a threshold that is none");
	for (int i = 0; i < TRACE_ROUNDUP_ENTRIES; i++)
		s->roundup_divisions[i] = (uint32_t)packed_below(
			p, PACKED_NUMBERS, s->roundup_divisions[i], (uint64_t)UINT32_MAX + 1);
	n = packed_below(p, PACKED_NUMBERS, t->settings_values.n, UINT32_MAX);
	for (uint64_t i = 0; i < n; i++) {
		ROW(p, &t->settings_values, i);
		table_setting(p, &t->settings_values.at[i]);
	}
	if (!p->status && !settings_are_whole(t))
		packed_bad(p, "settings that hold more than there is");
}

static void unknown(struct packing *p)
{
	struct snapshot *t = p->t;
	uint64_t n = packed_below(p, PACKED_NUMBERS, t->unknown.n, UINT32_MAX);

	for (uint64_t i = 0; i < n; i++) {
		struct snapshot_unknown *u;

		ROW(p, &t->unknown, i);
		u = &t->unknown.at[i];
		u->name = packed_string(p, PACKED_NUMBERS, u->name);
		u->where = (uint32_t)packed_below(p, PACKED_NUMBERS, u->where, TRACE_STACK + 1);
		u->count = packed_code(p, PACKED_NUMBERS, u->count);
	}
}

static void annotations(struct packing *p)
{
	struct snapshot *t = p->t;
	uint64_t n = packed_below(p, PACKED_NUMBERS, t->annotations.n, UINT32_MAX);
	int64_t now = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct snapshot_annotation *a;
		uint64_t edge;

		ROW(p, &t->annotations, i);
		a = &t->annotations.at[i];
		edge = packed_below(p, PACKED_NUMBERS, (uint64_t)a->device << 1 | a->end,
				    (uint64_t)2 << 16);
		a->device = (uint16_t)(edge >> 1);
		a->end = edge & 1;
		a->time_us = packed_time(p, PACKED_ANNOTATION_TIME, a->time_us, &now);
		a->name = packed_string(p, PACKED_ANNOTATION_NAME, a->name);
	}
}

/* ---- what stands at the end ---- */

static void block(struct packing *p, struct snapshot_block *b, uint64_t *at)
{
	uint64_t odd = b->addr != *at, code;

	code = packed_below(p, PACKED_BLOCK_STATE, b->state | odd << 2, 8);
	b->state = code & 3;
	if (b->state > TRACE_INACTIVE)
		packed_bad(p, "a block of no known state");
	b->addr = code >> 2 ? packed_from(p, PACKED_SEGMENT_ADDR, b->addr, *at) : *at;
	b->bytes = packed_code(p, PACKED_BLOCK_BYTES, b->bytes);
	/* usually to a block's full size; what is free has what was there last */
	b->requested_bytes = packed_from(p, PACKED_BLOCK_REQUESTED, b->requested_bytes, b->bytes);
	b->stack = packed_stack(p, PACKED_BLOCK_STACK, b->stack);
	*at = b->addr + b->bytes;
}

static void segment(struct packing *p, struct snapshot_segment *s, uint64_t *at)
{
	struct snapshot *t = p->t;
	uint64_t kind = s->large | (unsigned)s->expandable << 1;
	uint32_t first = s->first_block;
	uint64_t n;

	s->device = (uint32_t)packed_below(p, PACKED_SEGMENT, s->device, t->device_count);
	kind = packed_below(p, PACKED_SEGMENT, kind, 4);
	s->large = kind & 1;
	s->expandable = (uint8_t)(kind >> 1);
	s->stream = (uint32_t)packed_below(p, PACKED_SEGMENT, s->stream, t->streams.n);
	s->pool = (uint32_t)packed_below(p, PACKED_SEGMENT, s->pool, t->pools.n);
	s->stack = packed_stack(p, PACKED_BLOCK_STACK, s->stack);
	s->addr = packed_from(p, PACKED_SEGMENT_ADDR, s->addr, *at);
	s->bytes = packed_code(p, PACKED_SEGMENT, s->bytes);
	s->allocated_bytes = packed_from(p, PACKED_SEGMENT, s->allocated_bytes, s->bytes);
	s->active_bytes = packed_from(p, PACKED_SEGMENT, s->active_bytes, s->allocated_bytes);
	s->requested_bytes = packed_from(p, PACKED_SEGMENT, s->requested_bytes, s->active_bytes);
	n = packed_below(p, PACKED_SEGMENT, s->blocks, UINT32_MAX);
	if (!p->writing)
		s->first_block = first = (uint32_t)t->blocks.n;
	s->blocks = (uint32_t)n;
	*at = s->addr;
	for (uint64_t i = 0; !p->status && i < n; i++) {
		struct snapshot_block own = { 0 };

		if (p->writing)
			own = t->blocks.at[first + i];
		block(p, &own, at);
		if (!p->writing && !p->status)
			p->status = vec_push(p->mem, &t->blocks, own, p->err);
	}
}

static void segments(struct packing *p)
{
	struct snapshot *t = p->t;
	uint64_t n = packed_below(p, PACKED_NUMBERS, t->segments.n, UINT32_MAX), at = 0;
	uint32_t device = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct snapshot_segment *s;

		ROW(p, &t->segments, i);
		s = &t->segments.at[i];
		segment(p, s, &at);
		if (p->status)
			return;
		if (s->device < device)
			packed_bad(p, "segments of devices that alternate");
		if (!p->writing && (!i || s->device != device))
			t->devices[s->device].first_segment = (uint32_t)i;
		if (!p->writing)
			t->devices[s->device].segments++;
		device = s->device;
	}
}

/* ---- devices ---- */

/* Labels of this device's rows; the file counts rows device by device. */
static void labels(struct packing *p, const struct snapshot_events *ev)
{
	struct snapshot *t = p->t;
	size_t from = p->writing && ev->n ? (size_t)(ev->action - t->first_action) : 0, first = 0,
	       n = 0;
	uint64_t before = 0;

	while (p->writing && first < t->labels.n && t->labels.at[first].row < from)
		first++;
	while (p->writing && first + n < t->labels.n && t->labels.at[first + n].row < from + ev->n)
		n++;
	n = packed_below(p, PACKED_NUMBERS, n, UINT32_MAX);
	for (size_t i = 0; !p->status && i < n; i++) {
		struct snapshot_label l = { 0 };
		uint64_t row;

		if (p->writing)
			l = t->labels.at[first + i];
		row = packed_from(p, PACKED_LABEL_ROW, (l.row - from) << 1 | l.is_compile_context,
				  before);
		before = row | 1;
		if (row >> 1 >= ev->n) {
			packed_bad(p, "a label of an event that is not there");
			return;
		}
		l.is_compile_context = row & 1;
		l.string = packed_string(p, PACKED_LABEL_TEXT, l.string);
		l.row = p->rows_before + (uint32_t)(row >> 1);
		if (l.string == TRACE_NONE)
			packed_bad(p, "a label without a text");
		if (!p->writing && !p->status)
			p->status = vec_push(p->mem, &t->labels, l, p->err);
	}
}

static void device(struct packing *p, struct snapshot_device *d)
{
	uint64_t n = packed_below(p, PACKED_NUMBERS, d->events.n, PICKLE_EXT_NUMBERS);

	if (!p->writing &&
	    (n > p->column[PACKED_SITE].n || p->rows_before + n >= PICKLE_EXT_NUMBERS))
		packed_bad(p, "more events than there are");
	d->stale_events = (uint32_t)packed_below(p, PACKED_NUMBERS, d->stale_events, UINT32_MAX);
	if (!p->writing) {
		d->ordinal = (uint32_t)(d - p->t->devices);
		d->events.n = n;
	}
	packed_events(p, &d->events);
	labels(p, &d->events);
	p->rows_before += (uint32_t)n;
}

enum {
	HAS_TIME = 1,
	HAS_TRACES = 2,
	HAS_FRAMES = 4,
	HAS_BLOCK_FRAMES = 8,
	HAS_COMPILE_CONTEXT = 16,
	HAS_USER_METADATA = 32,
	HAS_ANNOTATIONS = 64,
	TIMES_MADE = 128,
	END_UNKNOWN = 256,
	HAS_POOL = 512,
	PROFILE_PYTHON = 1024,
	PROFILE_KIND = 2048, /* two bits */
	FLAGS = 8192
};

static int has_pool(const struct snapshot *t)
{
	for (size_t d = 0; d < t->device_count; d++)
		if (t->devices[d].events.pool)
			return 1;
	return 0;
}

static void flags(struct packing *p)
{
	struct snapshot *t = p->t;
	uint8_t *const of[] = {
		&t->has_time,         &t->has_traces,          &t->has_frames,
		&t->has_block_frames, &t->has_compile_context, &t->has_user_metadata,
		&t->has_annotations,  &t->times_made,          &t->end_unknown
	};
	unsigned bits = 0;

	for (unsigned i = 0; i < sizeof(of) / sizeof(*of); i++)
		bits |= *of[i] ? 1u << i : 0;
	bits |= has_pool(t) ? HAS_POOL : 0;
	bits |= t->profile.python ? PROFILE_PYTHON : 0;
	bits |= t->profile.kind * (unsigned)PROFILE_KIND;
	bits = (unsigned)packed_below(p, PACKED_NUMBERS, bits, FLAGS);
	if (p->writing)
		return;
	for (unsigned i = 0; i < sizeof(of) / sizeof(*of); i++)
		*of[i] = (uint8_t)(bits >> i & 1);
	t->profile.python = (bits & PROFILE_PYTHON) != 0;
	t->profile.kind = (uint8_t)(bits / PROFILE_KIND);
	if (!p->status && bits & HAS_POOL)
		p->status = columns_add_pool(p->mem, t->columns, p->err);
}

void packed_snapshot(struct packing *p)
{
	struct snapshot *t = p->t;
	uint64_t devices;

	flags(p);
	devices = packed_below(p, PACKED_NUMBERS, t->device_count, 1025);
	if (!p->writing && !p->status) {
		t->devices = mem_new(p->mem, devices, sizeof(*t->devices), p->err);
		t->device_count = t->devices ? devices : 0;
		p->status = t->devices ? PLIM_OK : mem_status(p->err);
	}
	if (!p->status)
		strings(p);
	if (!p->status)
		frames(p);
	if (!p->status)
		stacks(p);
	if (!p->status)
		streams_and_pools(p);
	if (!p->status)
		table_settings(p);
	if (!p->status)
		t->sources = packed_string(p, PACKED_NUMBERS, t->sources);
	if (!p->status)
		unknown(p);
	if (!p->status)
		annotations(p);
	for (size_t d = 0; !p->status && d < t->device_count; d++)
		device(p, &t->devices[d]);
	if (!p->status)
		segments(p);
}

void packing_release(struct packing *p)
{
	mem_free(p->mem, p->strings, p->t->heap.strings.n, sizeof(*p->strings));
	for (unsigned c = 0; c < PACKED_COLUMNS; c++)
		if (p->column[c].cap)
			mem_free(p->mem, p->column[c].at, p->column[c].cap, 1);
}
