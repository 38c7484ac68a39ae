/*
 * What torch.profiler writes: a trace with profile_memory=True, whose "[memory]" events say address, bytes and totals, and
 * the memory timelines of export_memory_timeline, which have totals by category alone.  Tokens are read one by one; of a
 * trace only its memory events stay, and the ranges (operations, Python functions, record_function) that may lie around
 * them: 48 and 32 bytes each.  Traces are in no order of time.
 *
 * Rows of a device begin with one of TRACE_SNAPSHOT, whose addr and size are what was allocated and reserved before
 * (pairs.c).  Reserved memory is one range from 0 that grows and shrinks: the trace shows its size and no segments.
 */
#include "profile.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 1024
#define FRAMES_MAX 512   /* of a stack, the innermost; deeper ones count as one */
#define TIME_MAX_US 4e15 /* the year 2096, and room for sums */
#define CPU_TYPE 0       /* c10::DeviceType::CPU */
#define STEP_MARK "ProfilerStep#"

enum range_kind { RANGE_OPERATION, RANGE_PYTHON, RANGE_NOTE };

/* Categories of Chrome's format that the profiler gave its ranges, now and before PyTorch 1.13. */
static const struct {
	const char *category;
	enum range_kind kind;
} range_kinds[] = {
	{ "cpu_op", RANGE_OPERATION },
	{ "Operator", RANGE_OPERATION },
	{ "python_function", RANGE_PYTHON },
	{ "user_annotation", RANGE_NOTE },
};
#define RANGE_KINDS (sizeof(range_kinds) / sizeof(*range_kinds))

/* ---- one event of the trace, in whatever order its keys stand ---- */

enum { HAS_TIME = 1, HAS_BYTES = 2, HAS_ADDRESS = 4, HAS_ALLOCATED = 8, HAS_DEVICE = 16 };

struct traced {
	struct profile *of;
	double start_us, length_us;
	uint64_t address, allocated, reserved, thread[2];
	int64_t bytes, type, device;
	unsigned have;
	char category[32], phase;
};

static enum plim_status take_words(struct json *j, struct profile *p, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	p->name.n = 0;
	if (st || t.kind != JSON_STRING)
		return st ? st : json_skip(j, &t, err);
	st = vec_need(p->mem, &p->name, t.n + 1, err);
	if (st)
		return st;
	memcpy(p->name.at, t.string, t.n);
	p->name.at[t.n] = '\0';
	p->name.n = t.n;
	return PLIM_OK;
}

static void take_short(const struct json_token *t, char *to, size_t room)
{
	size_t n = t->kind == JSON_STRING && t->n < room ? t->n : 0;

	memcpy(to, t->string ? t->string : "", n);
	to[n] = '\0';
}

/* Processes and threads are numbers, of a GPU's tracks now and then words (FNV-1a). */
static uint64_t take_track(const struct json_token *t)
{
	uint64_t hash = 14695981039346656037u;

	if (t->kind != JSON_STRING)
		return t->kind == JSON_INTEGER ? t->magnitude : 0;
	for (size_t i = 0; i < t->n; i++)
		hash = (hash ^ (uint8_t)t->string[i]) * 1099511628211u;
	return hash;
}

static int take_time(const struct json_token *t, double *out)
{
	*out = t->kind == JSON_INTEGER || t->kind == JSON_DOUBLE ? t->number : -1;
	return *out >= 0 && *out <= TIME_MAX_US;
}

static enum plim_status traced_argument(void *ctx, struct json *j, const char *key,
					struct plim_err *err)
{
	struct traced *e = ctx;
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	if (st || t.kind != JSON_INTEGER)
		return st ? st : json_skip(j, &t, err);
	if (!strcmp(key, "Addr"))
		e->have |= json_get_u64(&t, &e->address) ? HAS_ADDRESS : 0;
	else if (!strcmp(key, "Bytes"))
		e->have |= json_get_i64(&t, &e->bytes) ? HAS_BYTES : 0;
	else if (!strcmp(key, "Total Allocated"))
		e->have |= json_get_u64(&t, &e->allocated) ? HAS_ALLOCATED : 0;
	else if (!strcmp(key, "Total Reserved"))
		e->reserved = json_get_u64(&t, &e->reserved) ? e->reserved : 0;
	else if (!strcmp(key, "Device Type"))
		e->have |= json_get_i64(&t, &e->type) ? HAS_DEVICE : 0;
	else if (!strcmp(key, "Device Id"))
		e->device = json_get_i64(&t, &e->device) ? e->device : DEVICES_MAX;
	return PLIM_OK;
}

static enum plim_status traced_member(void *ctx, struct json *j, const char *key,
				      struct plim_err *err)
{
	struct traced *e = ctx;
	struct json_token t;
	enum plim_status st;

	if (!strcmp(key, "name"))
		return take_words(j, e->of, err);
	st = json_next(j, &t, err);
	if (st)
		return st;
	if (!strcmp(key, "args") && t.kind == JSON_OBJECT)
		return json_members(j, &t, traced_argument, e, err);
	if (!strcmp(key, "ph"))
		e->phase = (char)(t.kind == JSON_STRING && t.n == 1 ? *t.string : 0);
	else if (!strcmp(key, "cat"))
		take_short(&t, e->category, sizeof(e->category));
	else if (!strcmp(key, "pid"))
		e->thread[0] = take_track(&t);
	else if (!strcmp(key, "tid"))
		e->thread[1] = take_track(&t);
	else if (!strcmp(key, "ts"))
		e->have |= take_time(&t, &e->start_us) ? HAS_TIME : 0;
	else if (!strcmp(key, "dur") && !take_time(&t, &e->length_us))
		e->length_us = 0;
	return json_skip(j, &t, err);
}

/* ---- what is kept of it ---- */

enum plim_status profile_text(struct profile *p, const char *text, size_t n, uint32_t *id,
			      struct plim_err *err)
{
	return intern_add(&p->t->heap.strings, text, n, id, err);
}

/*
 * "model.py(12): forward" of Python.  Names of files have lost what sys.path has before them: "torch/nn/modules/linear.py",
 * of which it is known that folders lie before it.  Objects' addresses tell nothing.
 */
static enum plim_status add_frame(struct profile *p, enum range_kind kind, uint32_t *id,
				  struct plim_err *err)
{
	const char *name = p->name.at, *in = NULL, *digits;
	struct snapshot_frame f = { .line = TRACE_NONE };
	size_t file = 0, n;
	enum plim_status st;

	for (const char *at = name; kind == RANGE_PYTHON && (at = strstr(at, "): ")) != NULL; at++)
		in = at;
	for (digits = in; in && digits > name && digits[-1] >= '0' && digits[-1] <= '9';)
		digits--;
	if (in && digits < in && digits - 1 > name && digits[-1] == '(' && in - digits < 10) {
		f.line = (uint32_t)strtoul(digits, NULL, 10);
		file = (size_t)(digits - 1 - name);
		p->t->profile.python = 1;
		in += 3;
	} else {
		in = name;
	}
	n = strcspn(in, "\n");
	digits = strstr(in, " at 0x");
	n = digits && (size_t)(digits - in) < n ? (size_t)(digits - in) : n;
	st = profile_text(p, in, n, &f.name, err);
	if (!st && file && *name != '/' && *name != '<' && memchr(name, '/', file)) {
		VEC(char) path = { 0 };

		st = vec_need(p->mem, &path, file + 4, err);
		if (!st) {
			memcpy(path.at, ".../", 4);
			memcpy(path.at + 4, name, file);
			st = profile_text(p, path.at, file + 4, &f.filename, err);
		}
		vec_release(p->mem, &path);
	} else if (!st) {
		st = profile_text(p, name, file, &f.filename, err);
	}
	return st ? st : intern_add(&p->t->frames, &f, sizeof(f), id, err);
}

static int64_t nanoseconds(double us)
{
	return (int64_t)(us * 1000 + 0.5);
}

static enum plim_status add_range(struct profile *p, const struct traced *e, enum range_kind kind,
				  uint32_t thread, struct plim_err *err)
{
	struct profile_range r = { .from_ns = nanoseconds(e->start_us), .thread = thread };
	enum plim_status st;

	if (!strncmp(p->name.at, STEP_MARK, sizeof(STEP_MARK) - 1))
		kind = RANGE_NOTE;
	r.to_ns = r.from_ns + nanoseconds(e->length_us);
	r.kind = (uint8_t)kind;
	st = kind == RANGE_NOTE ? profile_text(p, p->name.at, p->name.n, &r.of, err)
				: add_frame(p, kind, &r.of, err);
	return st ? st : vec_push(p->mem, &p->ranges, r, err);
}

static enum plim_status profile_add_row(struct profile *p, const struct traced *e, uint32_t thread,
					struct plim_err *err)
{
	const unsigned must = HAS_TIME | HAS_BYTES | HAS_ADDRESS | HAS_DEVICE;
	struct profile_row r = { .ns = nanoseconds(e->start_us),
				 .addr = e->address,
				 .bytes = e->bytes,
				 .allocated = e->have & HAS_ALLOCATED ? e->allocated : PLIM_UNKNOWN,
				 .reserved = e->reserved,
				 .thread = thread,
				 .stack = TRACE_NONE,
				 .order = (uint32_t)p->rows.n };

	if ((e->have & must) != must || e->type < 0 || e->type > UINT8_MAX ||
	    e->device >= DEVICES_MAX || !e->bytes) {
		p->t->profile.incomplete++;
		return PLIM_OK;
	}
	if (p->rows.n >= UINT32_MAX / 2)
		return err_set(err, PLIM_E_LIMIT, "more than 2^31 memory events");
	r.type = (uint8_t)e->type;
	r.device = (uint16_t)(e->device < 0 || e->type == CPU_TYPE ? 0 : e->device);
	return vec_push(p->mem, &p->rows, r, err);
}

static enum plim_status traced_event(struct profile *p, struct json *j, const struct json_token *t,
				     struct plim_err *err)
{
	struct traced e = { .of = p, .device = -1 };
	struct snapshot_profile *told = &p->t->profile;
	uint32_t thread;
	size_t k = 0;
	enum plim_status st;

	p->name.n = 0;
	st = json_members(j, t, traced_member, &e, err);
	if (st || !p->name.n)
		return st;
	if (!strcmp(p->name.at, "[OutOfMemory]")) {
		told->failures++;
		told->failed_bytes = e.bytes > 0 ? (uint64_t)e.bytes : PLIM_UNKNOWN;
		return PLIM_OK;
	}
	while (k < RANGE_KINDS && strcmp(e.category, range_kinds[k].category))
		k++;
	if (strcmp(p->name.at, "[memory]") &&
	    (k == RANGE_KINDS || e.phase != 'X' || !(e.have & HAS_TIME)))
		return PLIM_OK;
	st = intern_add(&p->threads, e.thread, sizeof(e.thread), &thread, err);
	if (st)
		return st;
	return strcmp(p->name.at, "[memory]") ? add_range(p, &e, range_kinds[k].kind, thread, err)
					      : profile_add_row(p, &e, thread, err);
}

enum plim_status profile_read_events(struct profile *p, struct json *j, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	p->t->profile.kind = SNAPSHOT_PROFILE_DEVICE;
	if (!st && t.kind != JSON_ARRAY)
		return err_at(err, t.offset, "'traceEvents' is not a list");
	while (!st) {
		st = json_next(j, &t, err);
		if (st || t.kind == JSON_ARRAY_END)
			break;
		st = t.kind == JSON_OBJECT ? traced_event(p, j, &t, err) : json_skip(j, &t, err);
	}
	return st;
}

/* ---- what lies around each row ---- */

#define ORDER(a, b) ((a) < (b) ? -1 : 1)

static int by_thread(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	if (x->thread != y->thread)
		return ORDER(x->thread, y->thread);
	return x->ns != y->ns ? ORDER(x->ns, y->ns) : ORDER(x->order, y->order);
}

static int by_device(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	if (x->device != y->device)
		return ORDER(x->device, y->device);
	return x->ns != y->ns ? ORDER(x->ns, y->ns) : ORDER(x->order, y->order);
}

/* The outermost first. */
static int by_start(const void *a, const void *b)
{
	const struct profile_range *x = a, *y = b;

	if (x->thread != y->thread)
		return ORDER(x->thread, y->thread);
	if (x->from_ns != y->from_ns)
		return ORDER(x->from_ns, y->from_ns);
	if (x->to_ns != y->to_ns)
		return ORDER(y->to_ns, x->to_ns);
	return x->kind != y->kind ? ORDER(y->kind, x->kind) : ORDER(x->of, y->of);
}

struct sweep {
	struct profile *p;
	VEC(uint32_t) open;   /* ranges, the innermost last */
	VEC(uint32_t) frames; /* scratch */
	uint32_t stack;       /* of `open`, if it is known */
	int known;
	struct plim_err *err;
};

/*
 * Without Python an owner is the outermost operation, in the range of the program's that is next around it: that stands for
 * its file.
 */
static enum plim_status name_call(struct sweep *w, uint32_t operation, uint32_t note)
{
	struct snapshot *t = w->p->t;
	struct snapshot_frame f = { .filename = note, .line = TRACE_NONE };
	uint32_t id;
	enum plim_status st = profile_text(w->p, "", 0, &f.name, w->err);

	if (st || note == TRACE_NONE)
		return st;
	if (operation != TRACE_NONE) {
		f = *snapshot_frame(t, operation);
		f.filename = note;
		w->frames.n--;
	}
	st = intern_add(&t->frames, &f, sizeof(f), &id, w->err);
	return st ? st : vec_push(w->p->mem, &w->frames, id, w->err);
}

static enum plim_status make_stack(struct sweep *w)
{
	struct profile *p = w->p;
	uint32_t note = TRACE_NONE, outermost = TRACE_NONE;
	enum plim_status st = PLIM_OK;

	w->frames.n = 0;
	for (size_t i = w->open.n; !st && i-- > 0 && w->frames.n < FRAMES_MAX;) {
		const struct profile_range *r = &p->ranges.at[w->open.at[i]];

		if (r->kind == RANGE_NOTE) {
			const char *name = snapshot_text(p->t, r->of);

			if (note == TRACE_NONE && strncmp(name, STEP_MARK, sizeof(STEP_MARK) - 1))
				note = r->of;
			continue;
		}
		note = TRACE_NONE; /* it lies inside of an operation */
		outermost = r->of;
		st = vec_push(p->mem, &w->frames, r->of, w->err);
	}
	if (!st && !p->t->profile.python)
		st = name_call(w, outermost, note);
	w->stack = TRACE_NONE;
	if (!st && w->frames.n)
		st = intern_add(&p->t->stacks, w->frames.at, w->frames.n * sizeof(uint32_t),
				&w->stack, w->err);
	w->known = !st;
	return st;
}

static void close_before(struct sweep *w, int64_t ns)
{
	while (w->open.n && w->p->ranges.at[w->open.at[w->open.n - 1]].to_ns < ns) {
		w->open.n--;
		w->known = 0;
	}
}

static enum plim_status find_stacks(struct profile *p, struct plim_err *err)
{
	struct sweep w = { .p = p, .err = err };
	enum plim_status st = PLIM_OK;
	size_t next = 0;

	sort_items(p->ranges.at, p->ranges.n, sizeof(*p->ranges.at), by_start);
	sort_items(p->rows.at, p->rows.n, sizeof(*p->rows.at), by_thread);
	for (size_t i = 0; !st && i < p->rows.n; i++) {
		struct profile_row *r = &p->rows.at[i];

		if (!i || p->rows.at[i - 1].thread != r->thread)
			w.open.n = 0, w.known = 0;
		for (; !st && next < p->ranges.n; next++) {
			const struct profile_range *at = &p->ranges.at[next];

			if (at->thread > r->thread ||
			    (at->thread == r->thread && at->from_ns > r->ns))
				break;
			if (at->thread < r->thread)
				continue;
			close_before(&w,
				     at->from_ns +
					     1); /* of two that touch none is inside the other */
			w.known = 0;
			st = vec_push(p->mem, &w.open, (uint32_t)next, err);
		}
		close_before(&w, r->ns);
		if (!st && !w.known)
			st = make_stack(&w);
		r->stack = w.stack;
		p->t->has_frames |= r->stack != TRACE_NONE;
	}
	vec_release(p->mem, &w.open);
	vec_release(p->mem, &w.frames);
	return st;
}

/* ---- columns ---- */

static int by_edge(const void *a, const void *b)
{
	const struct snapshot_annotation *x = a, *y = b;

	if (x->time_us != y->time_us)
		return ORDER(x->time_us, y->time_us);
	return x->end != y->end ? ORDER(x->end, y->end) : ORDER(x->name, y->name);
}

/* Ranges of record_function, for each device that has events. */
static enum plim_status put_notes(struct profile *p, int64_t base_us, struct plim_err *err)
{
	struct snapshot *t = p->t;
	enum plim_status st = PLIM_OK;

	for (size_t d = 0; d < t->device_count; d++) {
		for (size_t i = 0; !st && t->devices[d].events.n && i < p->ranges.n; i++) {
			const struct profile_range *r = &p->ranges.at[i];
			struct snapshot_annotation a = { .name = r->of, .device = (uint16_t)d };

			if (r->kind != RANGE_NOTE)
				continue;
			a.time_us = base_us + r->from_ns / 1000;
			st = vec_push(p->mem, &t->annotations, a, err);
			a.time_us = base_us + r->to_ns / 1000;
			a.end = 1;
			if (!st)
				st = vec_push(p->mem, &t->annotations, a, err);
		}
	}
	sort_items(t->annotations.at, t->annotations.n, sizeof(*t->annotations.at), by_edge);
	t->has_annotations = t->annotations.n != 0;
	return st;
}

/* Of the types of devices in the trace the accelerator's; of the CPU only if there is nothing else. */
static void choose_type(struct profile *p)
{
	struct snapshot_profile *told = &p->t->profile;
	uint8_t type = CPU_TYPE;
	size_t kept = 0;

	for (size_t i = 0; type == CPU_TYPE && i < p->rows.n; i++)
		type = p->rows.at[i].type;
	told->kind = type == CPU_TYPE ? SNAPSHOT_PROFILE_CPU : SNAPSHOT_PROFILE_DEVICE;
	for (size_t i = 0; i < p->rows.n; i++) {
		if (p->rows.at[i].type == type)
			p->rows.at[kept++] = p->rows.at[i];
		else
			told->left_out++;
	}
	p->rows.n = kept;
}

/* A device's rows.  Where their own totals disagree with the sum of their bytes it is counted. */
static enum plim_status put_rows(struct profile *p, const struct profile_row *r, size_t n,
				 int64_t base_us, struct plim_err *err)
{
	struct snapshot *t = p->t;
	struct snapshot_columns *c = t->columns;
	struct snapshot_profile *told = &t->profile;
	uint64_t first = r->allocated == PLIM_UNKNOWN ? 0 : r->allocated - (uint64_t)r->bytes;
	uint64_t now = (int64_t)first > 0 ? first : 0, reserved = r->reserved;
	struct event_row e = { .action = TRACE_SNAPSHOT,
			       .addr = now,
			       .size = reserved,
			       .time_us = base_us + r->ns / 1000,
			       .stack = TRACE_NONE };
	enum plim_status st = columns_push(p->mem, c, &e, err);

	for (size_t i = 0; !st && i < n; i++, r++) {
		uint64_t less = r->reserved < reserved ? r->reserved : reserved;

		e.time_us = base_us + r->ns / 1000;
		e.stack = r->stack;
		if (r->reserved != reserved) {
			e.action = r->reserved > reserved ? TRACE_SEGMENT_MAP : TRACE_SEGMENT_UNMAP;
			e.addr = less;
			e.size = (r->reserved > reserved ? r->reserved : reserved) - less;
			reserved = r->reserved;
			st = columns_push(p->mem, c, &e, err);
		}
		e.action = r->bytes > 0 ? TRACE_ALLOC : TRACE_FREE_COMPLETED;
		e.addr = r->addr;
		e.size = r->bytes > 0 ? (uint64_t)r->bytes : 0 - (uint64_t)r->bytes;
		if (!st)
			st = columns_push(p->mem, c, &e, err);
		now += (uint64_t)r->bytes;
		if (r->allocated == PLIM_UNKNOWN)
			continue;
		told->differ += now != r->allocated;
		told->peak_bytes =
			r->allocated > told->peak_bytes ? r->allocated : told->peak_bytes;
	}
	return st;
}

static enum plim_status make_devices(struct snapshot *t, size_t n, struct plim_err *err)
{
	t->segments.n = t->blocks.n = 0;
	t->devices = mem_new(t->mem, n, sizeof(*t->devices), err);
	t->device_count = t->devices ? n : 0;
	for (size_t d = 0; d < t->device_count; d++)
		t->devices[d].ordinal = (uint32_t)d;
	t->has_time = t->has_traces = t->end_unknown = 1;
	return t->devices ? vec_push(t->mem, &t->streams, 0, err) : mem_status(err);
}

static enum plim_status finish_columns(struct profile *p, struct plim_err *err)
{
	(void)follow_end(p->t->columns->follower); /* it reads the columns, which move now */
	return columns_finish(p->mem, p->t->columns, err);
}

static enum plim_status put_devices(struct profile *p, int64_t base_us, struct plim_err *err)
{
	struct snapshot *t = p->t;
	size_t firsts[DEVICES_MAX + 1];
	enum plim_status st;

	sort_items(p->rows.at, p->rows.n, sizeof(*p->rows.at), by_device);
	st = make_devices(t, (size_t)p->rows.at[p->rows.n - 1].device + 1, err);
	for (size_t d = 0, i = 0, end; !st && d < t->device_count; d++, i = end) {
		firsts[d] = t->columns->n;
		for (end = i; end < p->rows.n && p->rows.at[end].device == d;)
			end++;
		if (end > i)
			st = put_rows(p, &p->rows.at[i], end - i, base_us, err);
	}
	if (st)
		return st;
	firsts[t->device_count] = t->columns->n;
	st = finish_columns(p, err);
	t->first_action = t->columns->action;
	for (size_t d = 0; !st && d < t->device_count; d++)
		t->devices[d].events =
			columns_view(t->columns, firsts[d], firsts[d + 1] - firsts[d]);
	return st ? st : put_notes(p, base_us, err);
}

/* ---- all of it ---- */

void profile_init(struct profile *p, struct snapshot *t)
{
	*p = (struct profile){ .t = t, .mem = t->mem };
	intern_init(&p->threads, t->mem);
}

void profile_release(struct profile *p)
{
	vec_release(p->mem, &p->name);
	vec_release(p->mem, &p->rows);
	vec_release(p->mem, &p->ranges);
	vec_release(p->mem, &p->times);
	intern_release(&p->threads);
}

/* What the trace's times begin at, where they are not since 1970 (PyTorch 2.3 and later). */
static int64_t base_of(const struct snapshot *t, struct pickle_value root)
{
	struct pickle_value v;

	return root.kind == PICKLE_DICT && pickle_get(&t->heap, root, "baseTimeNanoseconds", &v) &&
			       v.kind == PICKLE_INT && (int64_t)v.bits > 0
		       ? (int64_t)v.bits / 1000
		       : 0;
}

static enum plim_status one_device(struct profile *p, struct plim_err *err)
{
	struct snapshot *t = p->t;
	enum plim_status st = finish_columns(p, err);

	t->has_frames = 1;
	t->first_action = t->columns->action;
	t->devices[0].events = columns_view(t->columns, 0, t->columns->n);
	return st;
}

enum plim_status profile_assemble(struct profile *p, struct pickle_value root, struct plim_err *err)
{
	struct snapshot *t = p->t;
	enum plim_status st;

	if (t->profile.kind == SNAPSHOT_PROFILE_TOTALS) {
		t->kind = "timeline";
		st = make_devices(t, 1, err);
		return st ? st : one_device(p, err);
	}
	t->kind = "profile";
	choose_type(p);
	if (!p->rows.n)
		return err_set(err, PLIM_E_FORMAT,
			       "this is a profiler's trace without memory events: "
			       "torch.profiler.profile(profile_memory=True, with_stack=True) "
			       "records them; " HOW_TO_RECORD);
	st = find_stacks(p, err);
	return st ? st : put_devices(p, base_of(t, root), err);
}
