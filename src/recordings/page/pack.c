/* One device of a recording into its two sections: columns first, then the head that describes them. */
#include "parts.h"

#include <libdeflate.h>
#include <string.h>

/* Of libdeflate's 1 to 12.  Each further level takes half as long again or longer, for a hundredth of the bytes. */
#define DEFLATE_LEVEL 5

/* Times are kept for so many events, evenly: the x axis of a screen needs no more. */
#define TIMES_MOST 65536u

struct packing {
	struct page *page;
	const struct page_input *in;
	const struct snapshot *t;
	const struct snapshot_device *d;
	struct planes columns;
	struct segments segments;
	struct names names;
	struct ranges ranges;
	uint32_t *row;         /* allocations by birth, those from before first */
	uint32_t *row_of;      /* of each allocation: where it is in `row` */
	uint32_t *stack;       /* of each allocation: 1 + number, or 0 */
	uint64_t *v, *other_v; /* values of a column, and of the one that it refers to */
	size_t room;           /* of both */
	uint64_t time_stride;
	uint32_t last_rule; /* the highest that is used */
	uint32_t done;      /* pieces of work */
	struct plim_err *err;
};

/* ---- allocations ---- */

static uint64_t alloc_born(const struct packing *x, uint32_t a)
{
	const struct snapshot_alloc *one = &x->d->allocs[a];

	return one->flags & TRACE_BEFORE ? 0 : MOMENT_OF(one->born);
}

static uint64_t alloc_freed(const struct packing *x, uint32_t a)
{
	uint32_t e = x->d->allocs[a].free_requested;

	return e == TRACE_NONE ? 0 : MOMENT_OF(e);
}

static uint64_t alloc_done(const struct packing *x, uint32_t a)
{
	uint32_t e = x->d->allocs[a].free_completed;

	return e == TRACE_NONE ? 0 : MOMENT_OF(e);
}

static uint64_t alloc_addr(const struct packing *x, uint32_t a)
{
	return x->d->allocs[a].addr;
}

static uint64_t alloc_size(const struct packing *x, uint32_t a)
{
	return x->d->allocs[a].requested_bytes;
}

static uint64_t alloc_block(const struct packing *x, uint32_t a)
{
	return x->in->tl->replay->block_bytes[a];
}

static uint64_t alloc_stack(const struct packing *x, uint32_t a)
{
	return x->stack[a];
}

static int is_inferred(const struct packing *x, uint32_t a)
{
	return x->in->categories->mem && snapshot_stackless(x->t, x->d->allocs[a].stack) &&
	       !snapshot_stackless(x->t, x->in->categories->stack[a]);
}

static uint64_t alloc_rule(const struct packing *x, uint32_t a)
{
	return x->in->categories->mem ? x->in->categories->rule[a] : 0;
}

static uint64_t alloc_flags(const struct packing *x, uint32_t a)
{
	return (is_inferred(x, a) ? 1u : 0u) |
	       (x->d->allocs[a].flags & TRACE_PENDING_BEFORE ? 2u : 0u);
}

static uint64_t alloc_stream(const struct packing *x, uint32_t a)
{
	return x->d->allocs[a].stream;
}

/* A column may refer to one above it.  From LATE on they stand behind all else, as no picture needs them at first: the
 * viewer shows one before it has unpacked them. */
enum {
	BORN,
	FREED,
	SIZE,
	BLOCK,
	STACK,
	RULE,
	FLAGS,
	STREAM,
	LATE,
	DONE = LATE,
	ADDR,
	ALLOC_COLUMNS
};
static const struct {
	const char *name;
	uint64_t (*value)(const struct packing *x, uint32_t a);
	enum coding coding;
	int other;
} alloc_columns[ALLOC_COLUMNS] = {
	[BORN] = { "allocs.born", alloc_born, CODING_DELTA, -1 },
	[FREED] = { "allocs.freed", alloc_freed, CODING_AFTER, BORN },
	[SIZE] = { "allocs.size", alloc_size, CODING_PLAIN, -1 },
	[BLOCK] = { "allocs.block", alloc_block, CODING_PLUS, SIZE },
	[STACK] = { "allocs.stack", alloc_stack, CODING_PLAIN, -1 },
	[RULE] = { "allocs.rule", alloc_rule, CODING_PLAIN, -1 },
	[FLAGS] = { "allocs.flags", alloc_flags, CODING_PLAIN, -1 },
	[STREAM] = { "allocs.stream", alloc_stream, CODING_PLAIN, -1 },
	[DONE] = { "allocs.done", alloc_done, CODING_AFTER, FREED },
	[ADDR] = { "allocs.addr", alloc_addr, CODING_PLAIN, -1 },
};

/* Pieces of work: the columns of allocations, all others, compressing them, the head. */
#define PACK_STEPS (ALLOC_COLUMNS + 3)

static enum plim_status page_pack_step(struct packing *x)
{
	struct page *p = x->page;

	x->done++;
	return p->progress && p->progress(p->ctx, x->done, PACK_STEPS)
		       ? err_set(x->err, PLIM_E_CANCELLED, "the page was stopped")
		       : PLIM_OK;
}

/* Rows by birth; stacks in the order in which rows ask for them. */
static enum plim_status order_allocs(struct packing *x)
{
	size_t n = x->d->alloc_count, before = 0, after = 0;
	enum plim_status st = PLIM_OK;

	for (size_t a = 0; a < n; a++)
		after += x->d->allocs[a].flags & TRACE_BEFORE ? 1 : 0;
	for (uint32_t a = 0; a < n; a++)
		x->row[x->d->allocs[a].flags & TRACE_BEFORE ? before++ : after++] = a;
	for (size_t i = 0; !st && i < n; i++) {
		uint32_t a = x->row[i], of = x->d->allocs[a].stack;

		x->row_of[a] = (uint32_t)i;
		of = is_inferred(x, a) ? x->in->categories->stack[a] : of;
		st = names_stack(&x->names, of, &x->stack[a], x->err);
		if (alloc_rule(x, a) > x->last_rule)
			x->last_rule = (uint32_t)alloc_rule(x, a);
	}
	return st;
}

static void fill_page_pack(const struct packing *x, int column, uint64_t *v)
{
	for (size_t i = 0; i < x->d->alloc_count; i++)
		v[i] = alloc_columns[column].value(x, x->row[i]);
}

static enum plim_status pack_allocs(struct packing *x, int from, int end)
{
	enum plim_status st = PLIM_OK;

	for (int k = from; !st && k < end; k++) {
		struct plane_values v = { alloc_columns[k].name, x->v };
		struct plane_values other = { NULL, x->other_v };

		fill_page_pack(x, k, x->v);
		if (alloc_columns[k].other >= 0) {
			other.name = alloc_columns[alloc_columns[k].other].name;
			fill_page_pack(x, alloc_columns[k].other, x->other_v);
		}
		st = planes_add(&x->columns, v, alloc_columns[k].coding, &other, x->d->alloc_count,
				x->err);
		if (!st)
			st = page_pack_step(x);
	}
	return st;
}

/* ---- the rest ---- */

static uint64_t segment_born(const struct packing *x, const struct segment *s)
{
	(void)x;
	return s->born;
}

static uint64_t segment_gone(const struct packing *x, const struct segment *s)
{
	(void)x;
	return s->gone;
}

static uint64_t segment_addr(const struct packing *x, const struct segment *s)
{
	(void)x;
	return s->addr;
}

static uint64_t segment_size(const struct packing *x, const struct segment *s)
{
	(void)x;
	return s->bytes;
}

/* What is not known is named behind those that are. */
static uint64_t segment_pool(const struct packing *x, const struct segment *s)
{
	return s->pool < x->t->pools.n ? s->pool : x->t->pools.n;
}

static uint64_t segment_stream(const struct packing *x, const struct segment *s)
{
	(void)x;
	return s->stream;
}

/* Where the program was when the driver was asked for it. */
static uint64_t segment_stack(const struct packing *x, const struct segment *s)
{
	uint32_t stack = s->born ? x->d->events.stack[s->born - 1] : TRACE_NONE;

	return snapshot_stackless(x->t, stack) ? 0 : x->names.stack_of[stack];
}

static uint64_t segment_flags(const struct packing *x, const struct segment *s)
{
	(void)x;
	return (s->large ? 1u : 0u) | (s->expandable ? 2u : 0u);
}

static const struct {
	const char *name;
	uint64_t (*value)(const struct packing *x, const struct segment *s);
	enum coding coding;
} segment_columns[] = {
	{ "segments.born", segment_born, CODING_DELTA },
	{ "segments.gone", segment_gone, CODING_AFTER },
	{ "segments.addr", segment_addr, CODING_PLAIN },
	{ "segments.size", segment_size, CODING_PLAIN },
	{ "segments.pool", segment_pool, CODING_PLAIN },
	{ "segments.stream", segment_stream, CODING_PLAIN },
	{ "segments.flags", segment_flags, CODING_PLAIN },
	{ "segments.stack", segment_stack, CODING_PLAIN },
};

static enum plim_status pack_segments(struct packing *x)
{
	size_t n = x->segments.rows.n;
	const struct plane_values births = { "segments.born", x->other_v };
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; i < n; i++)
		x->other_v[i] = x->segments.rows.at[i].born;
	for (size_t k = 0; !st && k < sizeof(segment_columns) / sizeof(segment_columns[0]); k++) {
		struct plane_values v = { segment_columns[k].name, x->v };

		for (size_t i = 0; i < n; i++)
			x->v[i] = segment_columns[k].value(x, &x->segments.rows.at[i]);
		st = planes_add(&x->columns, v, segment_columns[k].coding, &births, n, x->err);
	}
	return st;
}

/* Of each event, or NULL where they are not known; and does another one begin there? */
static const uint8_t *phases_of(const struct packing *x)
{
	return x->in->categories->mem ? x->in->categories->phase : NULL;
}

static int is_turn(const uint8_t *phase, uint32_t e)
{
	return !e || phase[e] != phase[e - 1];
}

static size_t count_turns(const struct packing *x)
{
	const uint8_t *phase = phases_of(x);
	size_t n = 0;

	for (uint32_t e = 0; phase && e < x->d->events.n; e++)
		n += is_turn(phase, e) ? 1 : 0;
	return n;
}

static enum plim_status pack_phases(struct packing *x)
{
	const uint8_t *phase = phases_of(x);
	size_t n = 0;
	enum plim_status st;

	for (uint32_t e = 0; phase && e < x->d->events.n; e++) {
		if (!is_turn(phase, e))
			continue;
		x->v[n] = MOMENT_OF(e);
		x->other_v[n++] = phase[e];
	}
	st = planes_add(&x->columns, (struct plane_values){ "phases.from", x->v }, CODING_DELTA,
			NULL, n, x->err);
	return st ? st
		  : planes_add(&x->columns, (struct plane_values){ "phases.phase", x->other_v },
			       CODING_PLAIN, NULL, n, x->err);
}

static enum plim_status pack_times(struct packing *x)
{
	const struct snapshot_events *ev = &x->d->events;
	size_t n = 0;

	if (!x->t->has_time || !ev->n || x->in->plan)
		return PLIM_OK;
	for (size_t e = 0; e < ev->n; e += x->time_stride)
		x->v[n++] = (uint64_t)ev->time_us[e];
	if ((ev->n - 1) % x->time_stride)
		x->v[n++] = (uint64_t)ev->time_us[ev->n - 1];
	return planes_add(&x->columns, (struct plane_values){ "time.us", x->v }, CODING_DELTA, NULL,
			  n, x->err);
}

static size_t count_shown(const struct packing *x)
{
	size_t n = 0;

	for (size_t i = 0; i < x->in->show_count; i++)
		n += x->in->show[i].alloc_count;
	return n;
}

static int page_pack_by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The rows that each finding is about, one finding after another. */
static enum plim_status pack_shown(struct packing *x)
{
	enum plim_status st;
	size_t n = 0, i;

	for (i = 0; i < x->in->show_count; i++) {
		const struct page_show *s = &x->in->show[i];
		uint64_t *from = x->v + n;

		x->other_v[i] = n;
		for (size_t k = 0; k < s->alloc_count; k++)
			x->v[n++] = x->row_of[s->allocs[k]];
		sort_items(from, s->alloc_count, sizeof(*from), page_pack_by_value);
	}
	x->other_v[i] = n;
	if (!n)
		return PLIM_OK;
	st = planes_add(&x->columns, (struct plane_values){ "shown.first", x->other_v },
			CODING_DELTA, NULL, i + 1, x->err);
	return st ? st
		  : planes_add(&x->columns, (struct plane_values){ "shown.rows", x->v },
			       CODING_DELTA, NULL, n, x->err);
}

static enum plim_status pack_rest(struct packing *x)
{
	enum plim_status st = pack_segments(x);

	if (!st)
		st = pack_shown(x);
	if (!st)
		st = pack_phases(x);
	if (!st)
		st = pack_times(x);
	if (!st)
		st = ranges_pack(&x->ranges, &x->columns, x->err);
	return st ? st : names_pack(&x->names, &x->columns, x->err);
}

/* ---- the head ---- */

static void emit_settings(struct packing *x, struct json_out *j)
{
	const struct snapshot_settings *s = &x->t->settings;

	if (!s->have) {
		json_null(j, "settings");
		return;
	}
	json_object(j, "settings", JSON_LINES);
	json_string(j, "conf", x->in->conf);
	json_bool(j, "expandable", s->expandable_segments);
	json_u64(j, "max_split_bytes", s->max_split_bytes); /* unlimited is PLIM_UNKNOWN: null */
	json_double(j, "gc_threshold", s->gc_threshold);
	json_array(j, "roundup_divisions", JSON_LINE);
	for (size_t i = 0; i < TRACE_ROUNDUP_ENTRIES; i++)
		json_u64(j, NULL, s->roundup_divisions[i]);
	json_array_end(j);
	json_object_end(j);
}

static void emit_categories(struct packing *x, struct json_out *j)
{
	json_array(j, "categories", JSON_LINES);
	for (int k = 0; k < TIMELINE_CATEGORIES; k++) {
		json_object(j, NULL, JSON_LINE);
		json_string(j, "id", timeline_category_names[k]);
		json_string(j, "name", x->in->category_names[k]);
		json_object_end(j);
	}
	json_array_end(j);
	json_array(j, "rules", JSON_LINES);
	for (uint32_t k = 0; k <= x->last_rule; k++) {
		json_object(j, NULL, JSON_LINE);
		json_u64(j, "category", timeline_rules[k].category);
		json_u64(j, "confidence_pct", timeline_rules[k].confidence_pct);
		json_string(j, "text", timeline_rules[k].text);
		json_object_end(j);
	}
	json_array_end(j);
	json_array(j, "phases", JSON_LINE);
	for (int k = 0; k < TIMELINE_PHASES; k++)
		json_string(j, NULL, timeline_phase_names[k]);
	json_array_end(j);
}

static void emit_pools(struct packing *x, struct json_out *j)
{
	char name[96];

	json_array(j, "streams", JSON_LINE);
	for (size_t i = 0; i < x->t->streams.n; i++) {
		snprintf(name, sizeof(name), "%lld", (long long)x->t->streams.at[i]);
		json_string(j, NULL, name);
	}
	json_array_end(j);
	json_array(j, "pools", JSON_LINES);
	for (size_t i = 0; i <= x->t->pools.n; i++) {
		const struct snapshot_pool_id *id = &x->t->pools.at[i];
		int known = i < x->t->pools.n;

		if (known && (id->a || id->b))
			snprintf(name, sizeof(name), "private (%lld, %lld)", (long long)id->a,
				 (long long)id->b);
		else
			snprintf(name, sizeof(name), "default");
		json_object(j, NULL, JSON_LINE);
		json_string(j, "name", known ? name : NULL);
		json_object_end(j);
	}
	json_array_end(j);
}

static void emit_moment(struct json_out *j, const char *key, uint32_t event)
{
	json_u64(j, key, event == TRACE_NONE ? PLIM_UNKNOWN : MOMENT_OF(event));
}

/* Was numbered when the columns were made. */
static void emit_number(struct json_out *j, const char *key, uint32_t number)
{
	json_u64(j, key, number ? number - 1 : PLIM_UNKNOWN);
}

static void emit_show(struct packing *x, struct json_out *j)
{
	json_array(j, "show", JSON_LINES);
	for (size_t i = 0; i < x->in->show_count; i++) {
		const struct page_show *s = &x->in->show[i];
		int stack = !snapshot_stackless(x->t, s->stack);

		json_object(j, NULL, JSON_LINE);
		emit_moment(j, "moment", s->event);
		emit_moment(j, "from", s->first_event);
		emit_moment(j, "to", s->last_event);
		emit_number(j, "stack", stack ? x->names.stack_of[s->stack] : 0);
		emit_number(j, "frame", s->frame == TRACE_NONE ? 0 : x->names.frame_of[s->frame]);
		json_object_end(j);
	}
	json_array_end(j);
}

/* What the page does not hold as the recording does. */
static void emit_merged(struct packing *x, struct json_out *j)
{
	char line[160], number[32];

	json_array(j, "merged", JSON_LINES);
	if (x->t->has_time && !x->in->plan && x->time_stride > 1) {
		snprintf(line, sizeof(line),
			 "times are those of one event in %s; in between they are estimated",
			 text_number(number, x->time_stride));
		json_string(j, NULL, line);
	}
	if (x->names.cut) {
		snprintf(line, sizeof(line), "%s names of more than %u bytes are cut",
			 text_number(number, x->names.cut), TEXT_MOST);
		json_string(j, NULL, line);
	}
	json_array_end(j);
}

static void emit_head(struct packing *x, struct json_out *j)
{
	json_object(j, NULL, JSON_LINES);
	json_string(j, "format", "page/2");
	json_string(j, "version", plim_version());
	json_string(j, "title", x->in->title);
	json_u64(j, "recording", x->in->recording);
	json_u64(j, "events", x->d->events.n);
	json_bool(j, "plan", x->in->plan);
	json_u64(j, "limit_bytes", x->in->limit_bytes ? x->in->limit_bytes : PLIM_UNKNOWN);
	x->in->report(x->in->self, j);
	emit_settings(x, j);
	emit_categories(x, j);
	emit_pools(x, j);
	names_emit(&x->names, j);
	emit_show(x, j);
	emit_merged(x, j);
	json_u64(j, "time_stride", x->time_stride);
	planes_emit(&x->columns, j);
	json_object_end(j);
}

/* ---- sections ---- */

static enum plim_status compress(struct page *p, const void *from, size_t n,
				 struct page_section *out, struct plim_err *err)
{
	struct libdeflate_compressor *c = libdeflate_alloc_compressor(DEFLATE_LEVEL);
	size_t room = c ? libdeflate_deflate_compress_bound(c, n) : 0;

	if (!c)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	out->plain_bytes = n;
	out->room = room;
	out->at = mem_new(p->mem, room, 1, err);
	out->n = out->at ? libdeflate_deflate_compress(c, from, n, out->at, room) : 0;
	libdeflate_free_compressor(c);
	if (!out->at)
		return mem_status(err);
	mem_trim(p->mem, &out->at, &out->room, out->n, 1);
	return PLIM_OK;
}

static void section_release(struct mem *m, struct page_section *s)
{
	mem_free(m, s->at, s->room, 1);
	*s = (struct page_section){ 0 };
}

static void part_release(struct mem *m, struct page_part *part)
{
	section_release(m, &part->head);
	section_release(m, &part->columns);
}

static enum plim_status pack_head(struct packing *x, struct page_section *out)
{
	struct json_out j;
	struct text text;
	enum plim_status st;

	text_init(&text, x->in->mem, NULL);
	json_out_init(&j, &text, JSON_COMPACT, NULL);
	emit_head(x, &j);
	st = json_out_finish(&j, x->err);
	if (!st)
		st = compress(x->page, text_get(&text), text.n, out, x->err);
	text_release(&text);
	return st ? st : page_pack_step(x);
}

/* What findings and segments point to is numbered too, behind what allocations do. */
static enum plim_status name_shown(struct packing *x)
{
	enum plim_status st = PLIM_OK;
	uint32_t number;

	for (size_t i = 0; !st && i < x->segments.rows.n; i++) {
		uint32_t born = x->segments.rows.at[i].born;

		if (born)
			st = names_stack(&x->names, x->d->events.stack[born - 1], &number, x->err);
	}
	if (!st)
		st = ranges_find(&x->ranges, &x->names, x->err);
	for (size_t i = 0; !st && i < x->in->show_count; i++) {
		st = names_stack(&x->names, x->in->show[i].stack, &number, x->err);
		if (!st)
			st = names_frame(&x->names, x->in->show[i].frame, &number, x->err);
	}
	return st;
}

static enum plim_status begin_page_pack(struct packing *x)
{
	struct mem *m = x->in->mem;
	size_t allocs = x->d->alloc_count, turns = count_turns(x);
	enum plim_status st = names_init(&x->names, x->in, x->err);

	x->columns.mem = m;
	x->time_stride = (x->d->events.n + TIMES_MOST - 1) / TIMES_MOST;
	x->time_stride += !x->time_stride;
	if (!st)
		st = segments_find(&x->segments, m, x->t, x->d, x->err);
	x->room = allocs > TIMES_MOST + 1 ? allocs : TIMES_MOST + 1;
	x->room = x->segments.rows.n > x->room ? x->segments.rows.n : x->room;
	x->room = turns > x->room ? turns : x->room;
	x->room = count_shown(x) > x->room ? count_shown(x) : x->room;
	x->room = x->in->show_count >= x->room ? x->in->show_count + 1 : x->room;
	x->row = st ? NULL : mem_new(m, allocs, sizeof(*x->row), x->err);
	x->row_of = x->row ? mem_new(m, allocs, sizeof(*x->row_of), x->err) : NULL;
	x->stack = x->row_of ? mem_new(m, allocs, sizeof(*x->stack), x->err) : NULL;
	x->v = x->stack ? mem_new(m, x->room, sizeof(*x->v), x->err) : NULL;
	x->other_v = x->v ? mem_new(m, x->room, sizeof(*x->other_v), x->err) : NULL;
	return st ? st : x->other_v ? PLIM_OK : mem_status(x->err);
}

static void end_page_pack(struct packing *x)
{
	struct mem *m = x->in->mem;

	mem_free(m, x->row, x->d->alloc_count, sizeof(*x->row));
	mem_free(m, x->row_of, x->d->alloc_count, sizeof(*x->row_of));
	mem_free(m, x->stack, x->d->alloc_count, sizeof(*x->stack));
	mem_free(m, x->v, x->room, sizeof(*x->v));
	mem_free(m, x->other_v, x->room, sizeof(*x->other_v));
	segments_release(&x->segments);
	ranges_release(&x->ranges);
	names_release(&x->names);
	planes_release(&x->columns);
}

enum plim_status page_pack(struct page *p, const struct page_input *in, struct plim_err *err)
{
	struct packing x = { .page = p,
			     .in = in,
			     .t = in->tl->snapshot,
			     .d = in->tl->device,
			     .segments.mem = in->mem,
			     .ranges.mem = in->mem,
			     .err = err };
	struct page_part part = { 0 };
	enum plim_status st = begin_page_pack(&x);

	if (!st)
		st = order_allocs(&x);
	if (!st)
		st = pack_allocs(&x, 0, LATE);
	if (!st)
		st = name_shown(&x);
	if (!st)
		st = pack_rest(&x);
	if (!st)
		st = pack_allocs(&x, LATE, ALLOC_COLUMNS);
	if (!st)
		st = page_pack_step(&x);
	if (!st)
		st = compress(p, x.columns.bytes.at, x.columns.bytes.n, &part.columns, err);
	if (!st)
		st = page_pack_step(&x);
	if (!st)
		st = pack_head(&x, &part.head);
	if (!st)
		st = vec_push(p->mem, &p->parts, part, err);
	if (st)
		part_release(p->mem, &part);
	end_page_pack(&x);
	return st;
}

enum plim_status page_pack_json(struct page *p, const char *json, size_t n, struct plim_err *err)
{
	struct page_part part = { 0 };
	enum plim_status st = compress(p, json, n, &part.head, err);

	if (!st)
		st = vec_push(p->mem, &p->parts, part, err);
	if (st)
		part_release(p->mem, &part);
	return st;
}

enum plim_status page_pack_answer(struct page *p, const char *text, const char *json,
				  struct plim_err *err)
{
	enum plim_status st;

	section_release(p->mem, &p->text);
	section_release(p->mem, &p->result);
	st = compress(p, text, strlen(text), &p->text, err);
	return st ? st : compress(p, json, strlen(json), &p->result, err);
}

void page_init(struct page *p, struct mem *m)
{
	*p = (struct page){ .mem = m };
}

void page_cut(struct page *p, size_t n)
{
	while (p->parts.n > n)
		part_release(p->mem, &p->parts.at[--p->parts.n]);
}

void page_release(struct page *p)
{
	page_cut(p, 0);
	section_release(p->mem, &p->text);
	section_release(p->mem, &p->result);
	vec_release(p->mem, &p->parts);
}
