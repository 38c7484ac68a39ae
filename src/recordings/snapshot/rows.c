/*
 * Rows of a snapshot as they close in the pickle (or JSON): an event goes to the columns, a frame
 * and a stack are interned by content, blocks, segments and annotations are kept as structs.
 * Which keys a kind of row has, and which it must have, stands in one table.
 */
#include "reader.h"

#include <string.h>

const char *const snapshot_action_names[TRACE_ACTIONS] = {
	[TRACE_ALLOC] = "alloc",
	[TRACE_FREE_REQUESTED] = "free_requested",
	[TRACE_FREE_COMPLETED] = "free_completed",
	[TRACE_SEGMENT_ALLOC] = "segment_alloc",
	[TRACE_SEGMENT_FREE] = "segment_free",
	[TRACE_SEGMENT_MAP] = "segment_map",
	[TRACE_SEGMENT_UNMAP] = "segment_unmap",
	[TRACE_OOM] = "oom",
	[TRACE_SNAPSHOT] = "snapshot",
	[TRACE_ANNOTATE] = "annotate",
	[TRACE_OTHER] = "other",
};

const char *const snapshot_row_names[TRACE_ROWS + 1] = {
	[TRACE_ROW_EVENT] = "event",           [TRACE_ROW_FRAME] = "frame",
	[TRACE_ROW_BLOCK] = "block",           [TRACE_ROW_SEGMENT] = "segment",
	[TRACE_ROW_ANNOTATION] = "annotation", [TRACE_STACK] = "action",
};

/* Fields of each kind, in the order of its keys below.  Some are read by no one but are not a surprise. */
enum event_field {
	E_ACTION,
	E_ADDR,
	E_FREE,
	E_SIZE,
	E_STREAM,
	E_TIME,
	E_FRAMES,
	E_POOL,
	E_COMPILE,
	E_META,
	E_DEVICE,
	E_FORWARD,
	E_INTERNAL
};
enum frame_field { F_NAME, F_FILE, F_LINE, F_TRACE, F_OP, F_NODE, F_TARGET, F_INFO };
enum block_field { B_ADDR, B_SIZE, B_REQUESTED, B_STATE, B_FRAMES, B_HISTORY, B_META };
enum segment_field {
	S_DEVICE,
	S_ADDR,
	S_TOTAL,
	S_ALLOCATED,
	S_ACTIVE,
	S_REQUESTED,
	S_STREAM,
	S_TYPE,
	S_POOL,
	S_EXPANDABLE,
	S_FRAMES,
	S_BLOCKS
};
enum annotation_field { A_STAGE, A_NAME, A_DEVICE, A_TIME };

static const struct row_kind {
	unsigned must; /* bits of the fields without which it is something else */
	const char *keys[ROW_FIELDS_MAX];
} row_kinds[TRACE_ROWS] = {
	[TRACE_ROW_EVENT] = { 1u << E_ACTION,
			      { "action", "addr", "device_free", "size", "stream", "time_us",
				"frames", "pool_id", "compile_context", "user_metadata", "device",
				"forward_frames", "internal_metadata" } },
	[TRACE_ROW_FRAME] = { 1u << F_NAME | 1u << F_FILE | 1u << F_LINE,
			      { "name", "filename", "line", "fx_original_trace", "fx_node_op",
				"fx_node_name", "fx_node_target", "fx_node_info" } },
	[TRACE_ROW_BLOCK] = { 1u << B_SIZE | 1u << B_STATE,
			      { "address", "size", "requested_size", "state", "frames", "history",
				"user_metadata" } },
	[TRACE_ROW_SEGMENT] = { 1u << S_ADDR | 1u << S_TOTAL | 1u << S_BLOCKS,
				{ "device", "address", "total_size", "allocated_size",
				  "active_size", "requested_size", "stream", "segment_type",
				  "segment_pool_id", "is_expandable", "frames", "blocks" } },
	[TRACE_ROW_ANNOTATION] = { 1u << A_STAGE | 1u << A_NAME | 1u << A_TIME,
				   { "stage", "name", "device", "time_us" } },
};

/* ---- shapes ---- */

static const char *snapshot_row_text_of(const struct reader *r, uint32_t string)
{
	return intern_text(&r->t->heap.strings, string);
}

#define UNKNOWN_MAX 256u /* different keys and actions that are counted one by one */

static enum plim_status unknown_add(struct reader *r, uint32_t name, uint32_t where,
				    uint32_t *index, struct plim_err *err)
{
	struct snapshot *t = r->t;

	for (*index = 0; *index < t->unknown.n; ++*index)
		if (t->unknown.at[*index].name == name && t->unknown.at[*index].where == where)
			return PLIM_OK;
	if (t->unknown.n >=
	    UNKNOWN_MAX) { /* a file that is made of them: the last one stands for the rest */
		*index = UNKNOWN_MAX - 1;
		return PLIM_OK;
	}
	return vec_push(r->mem, &t->unknown, ((struct snapshot_unknown){ name, where, 0 }), err);
}

/* The fields of `keys` as a row of `kind`: the bits of those that are there. */
static unsigned match(struct reader *r, const struct pickle_shape *keys, int kind,
		      struct row_plan *plan)
{
	unsigned found = 0;

	memset(plan->at, -1, sizeof(plan->at));
	for (uint32_t k = 0; k < keys->n; k++) {
		const char *key = snapshot_row_text_of(r, keys->keys[k]);

		for (int f = 0; f < ROW_FIELDS_MAX && row_kinds[kind].keys[f]; f++) {
			if (!strcmp(key, row_kinds[kind].keys[f])) {
				plan->at[f] = (int16_t)k;
				found |= 1u << f;
			}
		}
	}
	return found;
}

static int is_field(int kind, const char *key)
{
	for (int f = 0; f < ROW_FIELDS_MAX && row_kinds[kind].keys[f]; f++)
		if (!strcmp(key, row_kinds[kind].keys[f]))
			return 1;
	return 0;
}

static enum plim_status note_unknown_keys(struct reader *r, const struct pickle_shape *keys,
					  struct row_plan *plan, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	plan->unknown_first = (uint32_t)r->shape_unknowns.n;
	for (uint32_t k = 0; !st && k < keys->n; k++) {
		uint32_t index;

		if (is_field(plan->row, snapshot_row_text_of(r, keys->keys[k])))
			continue;
		st = unknown_add(r, keys->keys[k], (uint32_t)plan->row, &index, err);
		if (!st)
			st = vec_push(r->mem, &r->shape_unknowns, index, err);
	}
	plan->unknown_count = (uint32_t)(r->shape_unknowns.n - plan->unknown_first);
	return st;
}

static enum plim_status on_shape(void *ctx, uint32_t shape, const struct pickle_shape *keys,
				 int *wanted, struct plim_err *err)
{
	struct reader *r = ctx;
	struct row_plan plan = { .row = -1 };
	enum plim_status st = PLIM_OK;

	(void)shape; /* shapes count up, as plans do */
	for (int kind = 0; kind < TRACE_ROWS; kind++) {
		if ((match(r, keys, kind, &plan) & row_kinds[kind].must) == row_kinds[kind].must) {
			plan.row = (int8_t)kind;
			break;
		}
	}
	*wanted = plan.row >= 0;
	if (*wanted)
		st = note_unknown_keys(r, keys, &plan, err);
	if (plan.row == TRACE_ROW_EVENT) {
		r->t->has_compile_context |= plan.at[E_COMPILE] >= 0;
		r->t->has_user_metadata |= plan.at[E_META] >= 0;
	}
	return st ? st : vec_push(r->mem, &r->plans, plan, err);
}

/* ---- values ---- */

/* A row that is being read: field f of `values`, or an absent one. */
struct row {
	struct reader *r;
	const struct row_plan *plan;
	const struct pickle_value *values;
	const char *what; /* for messages */
	struct plim_err *err;
	enum plim_status status;
};

static inline struct pickle_value field(const struct row *w, int f)
{
	int at = w->plan->at[f];

	return at < 0 ? (struct pickle_value){ 0, PICKLE_NONE } : w->values[at];
}

COLD static void bad_field(struct row *w, const char *key, const char *wants)
{
	const struct snapshot *t = w->r->t;
	const size_t before[TRACE_ROWS] = { t->columns->n, t->frames.n, t->blocks.n, t->segments.n,
					    t->annotations.n };

	if (!w->status)
		w->status = err_set(w->err, PLIM_E_FORMAT, "'%s' of %s %zu is not %s", key, w->what,
				    before[w->plan->row], wants);
}

/* What is not a plain integer: booleans, None and absent (0), and doubles that are whole. */
COLD static uint64_t odd_u64(struct row *w, int f, struct pickle_value v)
{
	double d;

	if (v.kind == PICKLE_UINT || v.kind == PICKLE_BOOL)
		return v.bits;
	if (v.kind == PICKLE_NONE)
		return 0;
	memcpy(&d, &v.bits, sizeof(d));
	if (v.kind == PICKLE_FLOAT && d >= 0 && d < 9007199254740992.0 && d == (double)(uint64_t)d)
		return (uint64_t)
			d; /* JSON that passed through a language whose numbers are doubles */
	bad_field(w, row_kinds[w->plan->row].keys[f], "an unsigned 64-bit integer");
	return 0;
}

/* An unsigned field. */
static inline uint64_t get_u64(struct row *w, int f)
{
	struct pickle_value v = field(w, f);

	return v.kind == PICKLE_INT && (int64_t)v.bits >= 0 ? v.bits : odd_u64(w, f, v);
}

COLD static int64_t odd_i64(struct row *w, int f, struct pickle_value v)
{
	double d;

	if (v.kind == PICKLE_UINT || v.kind == PICKLE_NONE || v.kind == PICKLE_BOOL)
		return (int64_t)
			v.bits; /* beyond 2^63 it wraps: stream handles are written either way */
	memcpy(&d, &v.bits, sizeof(d));
	if (v.kind == PICKLE_FLOAT && d > -9007199254740992.0 && d < 9007199254740992.0)
		return (int64_t)d;
	bad_field(w, row_kinds[w->plan->row].keys[f], "an integer");
	return 0;
}

static inline int64_t get_i64(struct row *w, int f)
{
	struct pickle_value v = field(w, f);

	return v.kind == PICKLE_INT ? (int64_t)v.bits : odd_i64(w, f, v);
}

static uint32_t get_str(struct row *w, int f)
{
	struct pickle_value v = field(w, f);

	if (v.kind == PICKLE_STR)
		return (uint32_t)v.bits;
	if (v.kind != PICKLE_NONE)
		bad_field(w, row_kinds[w->plan->row].keys[f], "a string");
	return TRACE_NONE;
}

static uint32_t get_stack(struct row *w, int f)
{
	struct pickle_value v = field(w, f);

	if (v.kind == PICKLE_EXT && pickle_ext_sort(v.bits) == TRACE_STACK)
		return pickle_ext_number(v.bits);
	if (v.kind != PICKLE_NONE)
		bad_field(w, row_kinds[w->plan->row].keys[f], "a list of frames");
	return TRACE_NONE;
}

COLD static uint16_t other_stream(struct row *w, int64_t raw)
{
	struct reader *r = w->r;
	size_t n = r->t->streams.n;

	for (size_t i = 0; i < n; i++)
		if (r->t->streams.at[i] == raw)
			return r->last_stream = (uint16_t)i;
	if (n > 1023) {
		bad_field(w, "stream", "one of at most 1024 streams");
		return 0;
	}
	if (!w->status)
		w->status = vec_push(r->mem, &r->t->streams, raw, w->err);
	return r->last_stream = (uint16_t)n;
}

/* Streams are few: the last one first, then all. */
static inline uint16_t get_stream(struct row *w, int f)
{
	const struct reader *r = w->r;
	int64_t raw = get_i64(w, f);

	if (r->last_stream < r->t->streams.n && r->t->streams.at[r->last_stream] == raw)
		return r->last_stream;
	return other_stream(w, raw);
}

static int is_integer(struct pickle_value v)
{
	return v.kind == PICKLE_INT || v.kind == PICKLE_UINT;
}

static uint16_t pool_of(struct row *w, int f)
{
	const struct pickle_heap *h = &w->r->t->heap;
	struct pickle_value v = field(w, f), a = { 0, PICKLE_NONE }, b = a;
	struct snapshot *t = w->r->t;
	struct snapshot_pool_id id;

	if ((v.kind == PICKLE_TUPLE || v.kind == PICKLE_LIST) && pickle_len(h, v) == 2) {
		a = pickle_item(h, v, 0);
		b = pickle_item(h, v, 1);
	}
	if (!is_integer(a) || !is_integer(b)) {
		bad_field(w, row_kinds[w->plan->row].keys[f], "a pair of integers");
		return 0;
	}
	id = (struct snapshot_pool_id){ (int64_t)a.bits, (int64_t)b.bits };
	for (size_t i = 0; i < t->pools.n; i++)
		if (t->pools.at[i].a == id.a && t->pools.at[i].b == id.b)
			return (uint16_t)i;
	if (t->pools.n > 1023)
		bad_field(w, row_kinds[w->plan->row].keys[f], "one of at most 1024 pools");
	if (!w->status)
		w->status = vec_push(w->r->mem, &t->pools, id, w->err);
	return (uint16_t)(t->pools.n - 1);
}

/* A pair of integers, given a number of its own; (0, 0) and absent are 0. */
static inline uint16_t get_pool(struct row *w, int f)
{
	struct pickle_value v = field(w, f);
	struct reader *r = w->r;

	if (v.kind == PICKLE_NONE)
		return 0;
	if (v.kind == PICKLE_TUPLE &&
	    v.bits == r->last_pair) /* rows share the tuple that they repeat */
		return r->last_pool;
	r->last_pool = pool_of(w, f);
	r->last_pair = v.kind == PICKLE_TUPLE && !w->status ? v.bits : UINT64_MAX;
	return r->last_pool;
}

/* ---- rows ---- */

/* Which action a string names, when it is met for the first time or is unknown. */
COLD static enum plim_status learn_action(struct reader *r, uint32_t string, uint8_t *action,
					  struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	size_t had = r->actions.n;

	if (string >= had) {
		st = vec_need(r->mem, &r->actions, string + 64 - had, err);
		if (st)
			return st;
		memset(r->actions.at + had, 0, r->actions.cap - had);
		r->actions.n = r->actions.cap;
	}
	if (!r->actions.at[string]) {
		uint8_t a = 0;

		while (a < TRACE_OTHER &&
		       strcmp(snapshot_row_text_of(r, string), snapshot_action_names[a]))
			a++;
		r->actions.at[string] = (uint8_t)(a + 1);
	}
	*action = (uint8_t)(r->actions.at[string] - 1);
	if (*action == TRACE_OTHER) {
		uint32_t index;

		st = unknown_add(r, string, TRACE_STACK, &index, err);
		if (!st)
			r->t->unknown.at[index].count++;
	}
	return st;
}

COLD static void other_label(struct row *w, int f, const char *plain, uint32_t *seen)
{
	struct pickle_value v = field(w, f);

	if (w->status)
		return;
	if (!strcmp(snapshot_row_text_of(w->r, (uint32_t)v.bits), plain)) {
		*seen = (uint32_t)v.bits;
		return;
	}
	w->status = vec_push(w->r->mem, &w->r->t->labels,
			     ((struct snapshot_label){ (uint32_t)w->r->t->columns->n,
						       (uint32_t)v.bits, f == E_COMPILE }),
			     w->err);
}

/* Keep what an event's field says, unless it is the default, which is remembered by its string id. */
static inline void keep_label(struct row *w, int f, const char *plain, uint32_t *seen)
{
	struct pickle_value v = field(w, f);

	if (v.kind == PICKLE_STR && v.bits != *seen)
		other_label(w, f, plain, seen);
}

static void event_row(struct row *w, uint64_t *taken)
{
	struct snapshot *t = w->r->t;
	struct snapshot_columns *c = t->columns;
	struct event_row e = { 0 };
	uint32_t action = get_str(w, E_ACTION);

	if (action == TRACE_NONE || w->status)
		return;
	if (action < w->r->actions.n && w->r->actions.at[action] - 1u < TRACE_OTHER)
		e.action = (uint8_t)(w->r->actions.at[action] - 1);
	else
		w->status = learn_action(w->r, action, &e.action, w->err);
	e.addr = get_u64(w, e.action == TRACE_OOM && w->plan->at[E_FREE] >= 0 ? E_FREE : E_ADDR);
	e.size = get_u64(w, E_SIZE);
	e.stream = get_stream(w, E_STREAM);
	e.time_us = get_i64(w, E_TIME);
	e.stack = get_stack(w, E_FRAMES);
	if (w->plan->at[E_POOL] >= 0) {
		e.pool = get_pool(w, E_POOL);
		if (!w->status && !c->pool)
			w->status = columns_add_pool(w->r->mem, c, w->err);
	}
	keep_label(w, E_META, "", &w->r->plain_metadata);
	keep_label(w, E_COMPILE, "N/A", &w->r->plain_context);
	t->has_time |= w->plan->at[E_TIME] >= 0;
	t->has_frames |= e.stack != TRACE_NONE && t->stacks.at[e.stack].n;
	if (!w->status && e.action <= TRACE_SEGMENT_UNMAP && w->plan->at[E_ADDR] < 0)
		bad_field(w, "addr", "there");
	if (!w->status && c->n >= PICKLE_EXT_NUMBERS - 1)
		w->status = err_set(w->err, PLIM_E_FORMAT, "more than 2^28 events");
	if (!w->status)
		w->status = columns_push(w->r->mem, c, &e, w->err);
	*taken = pickle_ext(TRACE_ROW_EVENT, (uint32_t)(c->n - 1));
}

/* "C:\\venv\\Lib\\site-packages\\torch\\...": files are distinguished by parts of their names that begin with a slash. */
static uint32_t with_slashes(struct row *w, uint32_t file)
{
	const char *from = w->status || file == TRACE_NONE ? "" : snapshot_row_text_of(w->r, file);
	size_t n = strlen(from);
	char name[1024];

	if (n < 3 || n >= sizeof(name) || from[1] != ':' || from[2] != '\\')
		return file;
	for (size_t i = 0; i <= n; i++)
		name[i] = from[i] == '\\' ? '/' : from[i];
	w->status = intern_add(&w->r->t->heap.strings, name, n, &file, w->err);
	return file;
}

/*
 * A frame of a compiled graph says which line of the model it was made of (augment_with_fx_traces):
 * File "model.py", line 50, in forward.  The innermost of several stands last.
 */
static void take_original(struct row *w, struct snapshot_frame *f)
{
	static const char before[] = "File \"", behind[] = "\", line ", in[] = ", in ";
	struct pickle_value v = field(w, F_TRACE);
	const char *at = v.kind == PICKLE_STR ? snapshot_row_text_of(w->r, (uint32_t)v.bits) : "",
		   *file = NULL;
	const char *end, *name;
	uint64_t line = 0;

	while ((at = strstr(at, before)) != NULL)
		file = at += sizeof(before) - 1;
	end = file ? strstr(file, behind) : NULL;
	if (!end)
		return;
	for (name = end + sizeof(behind) - 1; *name >= '0' && *name <= '9'; name++)
		line = line < UINT32_MAX / 10 - 1 ? 10 * line + (uint64_t)(*name - '0') : line;
	if (!line || strncmp(name, in, sizeof(in) - 1) != 0)
		return;
	name += sizeof(in) - 1;
	w->status = intern_add(&w->r->t->heap.strings, file, (size_t)(end - file), &f->filename,
			       w->err);
	if (!w->status)
		w->status = intern_add(&w->r->t->heap.strings, name, strcspn(name, "\r\n"),
				       &f->name, w->err);
	f->line = (uint32_t)line;
}

static void frame_row(struct row *w, uint64_t *taken)
{
	struct snapshot_frame f = { get_str(w, F_NAME), get_str(w, F_FILE), TRACE_NONE };
	struct pickle_value line = field(w, F_LINE);
	uint32_t id;

	/* 2^64 - 1 and -1 are what PyTorch writes when it does not know the line */
	if ((line.kind == PICKLE_INT || line.kind == PICKLE_UINT) && line.bits < UINT32_MAX)
		f.line = (uint32_t)line.bits;
	if (!w->status)
		take_original(w, &f);
	f.filename = with_slashes(w, f.filename);
	if (w->status)
		return;
	w->status = intern_add(&w->r->t->frames, &f, sizeof(f), &id, w->err);
	*taken = pickle_ext(TRACE_ROW_FRAME, id & (PICKLE_EXT_NUMBERS - 1));
}

/* A list of frames is a stack; so is an empty one.  Lists of something else are not taken. */
static enum plim_status on_list(void *ctx, const struct pickle_value *items, uint32_t n,
				uint64_t *taken, struct plim_err *err)
{
	struct reader *r = ctx;
	enum plim_status st = vec_need(r->mem, &r->frame_ids, n + 1, err);
	uint32_t id;

	for (uint32_t i = 0; !st && i < n; i++) {
		if (items[i].kind != PICKLE_EXT ||
		    pickle_ext_sort(items[i].bits) != TRACE_ROW_FRAME)
			return PLIM_OK;
		r->frame_ids.at[i] = pickle_ext_number(items[i].bits);
	}
	if (!st)
		st = intern_add(&r->t->stacks, r->frame_ids.at, n * sizeof(uint32_t), &id, err);
	if (!st && id >= PICKLE_EXT_NUMBERS)
		st = err_set(err, PLIM_E_FORMAT, "more than 2^28 stacks");
	if (!st)
		*taken = pickle_ext(TRACE_STACK, id);
	return st;
}

/* The value of a dict under a key; PICKLE_NONE. */
static struct pickle_value snapshot_row_entry(const struct reader *r, struct pickle_value dict,
					      const char *key)
{
	const struct pickle_heap *h = &r->t->heap;
	struct pickle_value found = { 0, PICKLE_NONE };
	size_t n = dict.kind == PICKLE_DICT ? h->nodes.at[dict.bits].n : 0;

	for (size_t i = 0; i + 1 < n; i += 2) {
		const struct pickle_value *pair = &h->nodes.at[dict.bits].items[i];

		if (pair->kind == PICKLE_STR &&
		    !strcmp(snapshot_row_text_of(r, (uint32_t)pair->bits), key))
			found = pair[1];
	}
	return found;
}

/* A list of frames that stands in no row of its own. */
static uint32_t stack_of(struct row *w, struct pickle_value list)
{
	const struct pickle_heap *h = &w->r->t->heap;
	uint64_t taken = PICKLE_UNTAKEN;
	VEC(struct pickle_value) items = { 0 };

	if (list.kind != PICKLE_LIST)
		return TRACE_NONE;
	for (uint32_t i = 0; !w->status && i < h->nodes.at[list.bits].n; i++)
		w->status = vec_push(w->r->mem, &items, pickle_item(h, list, i), w->err);
	if (!w->status)
		w->status = on_list(w->r, items.at, (uint32_t)items.n, &taken, w->err);
	vec_release(w->r->mem, &items);
	return taken == PICKLE_UNTAKEN ? TRACE_NONE : pickle_ext_number(taken);
}

/*
 * PyTorch 2.0 has a block's frames in its history: what was allocated there, the newest first
 * (c10/cuda/CUDACachingAllocator.h, struct BlockInfo at v2.0.0).
 */
static void read_history(struct row *w, struct snapshot_block *b)
{
	const struct pickle_heap *h = &w->r->t->heap;
	struct pickle_value list = field(w, B_HISTORY), newest, size;

	if (w->status || b->stack != TRACE_NONE || list.kind != PICKLE_LIST ||
	    !h->nodes.at[list.bits].n)
		return;
	newest = pickle_item(h, list, 0);
	b->stack = stack_of(w, snapshot_row_entry(w->r, newest, "frames"));
	size = snapshot_row_entry(w->r, newest, "real_size");
	if (w->plan->at[B_REQUESTED] < 0 && size.kind == PICKLE_INT && size.bits <= b->bytes)
		b->requested_bytes = size.bits;
}

static void block_row(struct row *w, uint64_t *taken)
{
	static const char *const states[] = { [TRACE_ACTIVE] = "active_allocated",
					      [TRACE_ACTIVE_PENDING_FREE] = "active_pending_free",
					      [TRACE_INACTIVE] = "inactive" };
	struct snapshot *t = w->r->t;
	uint32_t state = get_str(w, B_STATE);
	struct snapshot_block b = { .addr = w->plan->at[B_ADDR] < 0 ? UINT64_MAX
								    : get_u64(w, B_ADDR),
				    .bytes = get_u64(w, B_SIZE),
				    .requested_bytes = get_u64(w, B_REQUESTED),
				    .stack = get_stack(w, B_FRAMES) };

	if (w->status || state == TRACE_NONE)
		return;
	while (b.state <= TRACE_INACTIVE &&
	       strcmp(snapshot_row_text_of(w->r, state), states[b.state]))
		b.state++;
	if (b.state >
	    TRACE_INACTIVE) /* the docs name one that was never written: active_awaiting_free */
		b.state = strncmp(snapshot_row_text_of(w->r, state), "active", 6)
				  ? TRACE_INACTIVE
				  : TRACE_ACTIVE_PENDING_FREE;
	if (w->plan->at[B_REQUESTED] < 0)
		b.requested_bytes = b.bytes;
	read_history(w, &b);
	t->has_block_frames |= b.state != TRACE_INACTIVE && !snapshot_stackless(t, b.stack);
	w->status = vec_push(w->r->mem, &t->blocks, b, w->err);
	*taken =
		pickle_ext(TRACE_ROW_BLOCK, (uint32_t)(t->blocks.n - 1) & (PICKLE_EXT_NUMBERS - 1));
}

/* The blocks of a segment: a list of consecutive block rows, as every writer makes it. */
static void segment_blocks(struct row *w, struct snapshot_segment *s)
{
	struct snapshot *t = w->r->t;
	struct pickle_value v = field(w, S_BLOCKS);
	const struct pickle_node *node;

	if (v.kind == PICKLE_EXT && pickle_ext_sort(v.bits) == TRACE_STACK)
		return; /* an empty list */
	if (v.kind != PICKLE_LIST) {
		bad_field(w, "blocks", "a list of blocks");
		return;
	}
	node = &t->heap.nodes.at[v.bits];
	if (node->items || pickle_ext_sort(node->run) != TRACE_ROW_BLOCK) {
		bad_field(w, "blocks", "a list of the segment's own blocks");
		return;
	}
	s->first_block = pickle_ext_number(node->run);
	s->blocks = node->n;
	for (uint64_t addr = s->addr, i = s->first_block; i < (uint64_t)s->first_block + s->blocks;
	     i++) {
		if (t->blocks.at[i].addr ==
		    UINT64_MAX) /* before 2.1 a block's place followed from the sizes */
			t->blocks.at[i].addr = addr;
		addr += t->blocks.at[i].bytes;
	}
}

static void segment_row(struct row *w, uint64_t *taken)
{
	struct snapshot *t = w->r->t;
	uint32_t type = get_str(w, S_TYPE);
	struct snapshot_segment s = { .addr = get_u64(w, S_ADDR),
				      .bytes = get_u64(w, S_TOTAL),
				      .allocated_bytes = get_u64(w, S_ALLOCATED),
				      .active_bytes = get_u64(w, S_ACTIVE),
				      .requested_bytes = get_u64(w, S_REQUESTED),
				      .device = (uint32_t)get_u64(w, S_DEVICE),
				      .stream = get_stream(w, S_STREAM),
				      .pool = get_pool(w, S_POOL),
				      .stack = get_stack(w, S_FRAMES),
				      .large = type == TRACE_NONE ||
					       strcmp(snapshot_row_text_of(w->r, type), "small"),
				      .expandable = get_u64(w, S_EXPANDABLE) != 0 };

	if (!w->status && s.device >= 1024)
		bad_field(w, "device", "below 1024");
	if (!w->status)
		segment_blocks(w, &s);
	if (!w->status)
		w->status = vec_push(w->r->mem, &t->segments, s, w->err);
	*taken = pickle_ext(TRACE_ROW_SEGMENT,
			    (uint32_t)(t->segments.n - 1) & (PICKLE_EXT_NUMBERS - 1));
}

static void annotation_row(struct row *w, uint64_t *taken)
{
	struct snapshot *t = w->r->t;
	uint32_t stage = get_str(w, A_STAGE);
	struct snapshot_annotation a = { .time_us = get_i64(w, A_TIME),
					 .name = get_str(w, A_NAME),
					 .device = (uint16_t)get_u64(w, A_DEVICE) };

	if (w->status || stage == TRACE_NONE)
		return;
	a.end = !strcmp(snapshot_row_text_of(w->r, stage), "END");
	w->status = vec_push(w->r->mem, &t->annotations, a, w->err);
	*taken = pickle_ext(TRACE_ROW_ANNOTATION,
			    (uint32_t)(t->annotations.n - 1) & (PICKLE_EXT_NUMBERS - 1));
}

static enum plim_status on_row(void *ctx, uint32_t shape, const struct pickle_value *values,
			       uint64_t *taken, struct plim_err *err)
{
	static void (*const few[TRACE_ROWS])(struct row *, uint64_t *) = {
		[TRACE_ROW_FRAME] = frame_row,
		[TRACE_ROW_BLOCK] = block_row,
		[TRACE_ROW_SEGMENT] = segment_row,
		[TRACE_ROW_ANNOTATION] = annotation_row,
	};
	struct reader *r = ctx;
	struct row_plan *plan = &r->plans.at[shape];
	struct row w = { r, plan, values, snapshot_row_names[plan->row], err, PLIM_OK };

	if (__builtin_expect(plan->row == TRACE_ROW_EVENT, 1))
		event_row(&w, taken);
	else
		few[plan->row](&w, taken);
	if (__builtin_expect(plan->unknown_count != 0, 0) && !w.status && *taken != PICKLE_UNTAKEN)
		for (uint32_t i = 0; i < plan->unknown_count; i++)
			r->t->unknown.at[r->shape_unknowns.at[plan->unknown_first + i]].count++;
	return w.status;
}

void reader_init(struct reader *r, struct snapshot *t)
{
	*r = (struct reader){ .t = t,
			      .mem = t->mem,
			      .last_stream = UINT16_MAX,
			      .last_pair = UINT64_MAX,
			      .plain_metadata = INTERN_NONE,
			      .plain_context = INTERN_NONE };
}

void reader_release(struct reader *r)
{
	vec_release(r->mem, &r->plans);
	vec_release(r->mem, &r->shape_unknowns);
	vec_release(r->mem, &r->actions);
	vec_release(r->mem, &r->frame_ids);
}

struct pickle_hooks reader_hooks(struct reader *r)
{
	return (struct pickle_hooks){ r, on_shape, on_row, on_list };
}
