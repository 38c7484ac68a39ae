/*
 * Events appended by a program: checked when they come, kept as rows, and made a snapshot when something is computed from
 * them.  Without addresses they are a program for the allocator's model, as a plan is.
 */
#include "recording.h"

#include <stdio.h>
#include <string.h>

#define DEVICES_MAX 64
#define REQUESTS_MAX ((uint64_t)UINT32_MAX)

struct row {
	uint64_t bytes, address;
	int64_t time_us;
	uint32_t request; /* without addresses: its number among all that were made */
	uint32_t site, phase;
	uint16_t stream, pool;
	uint8_t kind;
};

struct appended {
	struct mem *mem;
	struct snapshot *names; /* strings, frames, stacks, streams and pools of the rows */
	uint32_t device;
	struct allocator_rules rules;
	const char *settings;
	struct arena arena;
	VEC(struct row) rows;
	VEC(uint32_t) phases; /* string by number */
	struct addr_map
		live; /* without addresses: by the caller's number ours of what lives, and 1 */
	VEC(uint8_t) dropped; /* by our number of a request: has the program freed it? */
	int sort;             /* 0: no rows yet; else WITH_... */
	int timed;            /* all rows have times */
};
enum { WITH_ADDRESSES = 1, WITH_REQUESTS };

void appended_free(struct appended *a)
{
	if (!a)
		return;
	addr_map_release(&a->live);
	vec_release(a->mem, &a->rows);
	vec_release(a->mem, &a->phases);
	vec_release(a->mem, &a->dropped);
	arena_release(&a->arena);
	snapshot_free(a->names);
	mem_free(a->mem, a, 1, sizeof(*a));
}

enum plim_status appended_new(struct mem *m, uint32_t device, const char *settings,
			      struct appended **out, struct plim_err *err)
{
	struct appended *a = NULL;
	enum plim_status st = PLIM_OK;

	*out = NULL;
	if (device >= DEVICES_MAX)
		return err_set(err, PLIM_E_ARG, "device %u: devices are numbered below %d", device,
			       DEVICES_MAX);
	a = mem_new(m, 1, sizeof(*a), err);
	if (!a)
		return mem_status(err);
	*a = (struct appended){ .mem = m, .device = device, .timed = 1, .live = { .mem = m } };
	arena_init(&a->arena, m);
	a->settings = arena_copy(&a->arena, settings ? settings : "", err);
	st = a->settings ? snapshot_new(m, &a->names, err) : mem_status(err);
	if (!st)
		st = allocator_rules_parse(a->settings, 0, &a->rules, err);
	if (!st && a->rules.not_modelled)
		st = err_set(err, PLIM_E_ARG,
			     "settings '%s': cudaMallocAsync is the driver's own allocator",
			     settings);
	if (st)
		appended_free(a);
	else
		*out = a;
	return st;
}

/* ---- names ---- */

static enum plim_status add_text(struct appended *a, const char *text, uint32_t *id,
				 struct plim_err *err)
{
	return intern_add(&a->names->heap.strings, text ? text : "", strlen(text ? text : ""), id,
			  err);
}

enum plim_status appended_site(struct appended *a, const struct plim_recording_frame *frames,
			       size_t n, uint32_t *out, struct plim_err *err)
{
	uint32_t *ids = mem_new(a->mem, n, sizeof(*ids), err);
	enum plim_status st = ids ? PLIM_OK : mem_status(err);

	for (size_t i = 0; !st && i < n; i++) {
		struct snapshot_frame f = { .line = frames[i].line ? frames[i].line : TRACE_NONE };

		st = add_text(a, frames[i].file, &f.filename, err);
		if (!st)
			st = add_text(a, frames[i].function, &f.name, err);
		if (!st)
			st = intern_add(&a->names->frames, &f, sizeof(f), &ids[i], err);
	}
	if (!st)
		st = intern_add(&a->names->stacks, ids, n * sizeof(*ids), out, err);
	mem_free(a->mem, ids, n, sizeof(*ids));
	return st;
}

enum plim_status appended_phase(struct appended *a, const char *name, uint32_t *out,
				struct plim_err *err)
{
	uint32_t string;
	enum plim_status st = add_text(a, name, &string, err);

	for (*out = 0; !st && *out < a->phases.n; ++*out)
		if (a->phases.at[*out] == string)
			return PLIM_OK;
	return st ? st : vec_push(a->mem, &a->phases, string, err);
}

static enum plim_status stream_number(struct appended *a, int64_t stream, uint16_t *out,
				      struct plim_err *err)
{
	struct snapshot *t = a->names;
	size_t i = 0;

	while (i < t->streams.n && t->streams.at[i] != stream)
		i++;
	if (i > UINT16_MAX)
		return err_set(err, PLIM_E_LIMIT, "more than 65536 streams");
	*out = (uint16_t)i;
	return i < t->streams.n ? PLIM_OK : vec_push(a->mem, &t->streams, stream, err);
}

static enum plim_status pool_number(struct appended *a, int64_t pool, uint16_t *out,
				    struct plim_err *err)
{
	struct snapshot *t = a->names;
	size_t i = 0;

	while (i < t->pools.n && t->pools.at[i].a != pool)
		i++;
	if (i > UINT16_MAX)
		return err_set(err, PLIM_E_LIMIT, "more than 65536 pools");
	*out = (uint16_t)i;
	return i < t->pools.n
		       ? PLIM_OK
		       : vec_push(a->mem, &t->pools, ((struct snapshot_pool_id){ pool, 0 }), err);
}

/* ---- rows ---- */

/* The map's hash expects addresses. */
static struct addr_slot *find_request(struct appended *a, uint64_t request)
{
	return addr_map_find(&a->live, request * ALLOCATOR_MIN_BLOCK);
}

static int ends(const struct row *r)
{
	return r->kind == PLIM_EVENT_FREE || r->kind == PLIM_EVENT_FREE_COMPLETED;
}

static enum plim_status birth(struct appended *a, uint64_t request, struct addr_slot *slot,
			      struct row *r, size_t i, struct plim_err *err)
{
	enum plim_status st;

	if (slot->value)
		return err_set(err, PLIM_E_ARG, "row %zu: request %llu lives already", i,
			       (unsigned long long)request);
	r->request = (uint32_t)a->dropped.n;
	st = vec_push(a->mem, &a->dropped, (uint8_t)0, err);
	if (!st)
		addr_map_put(&a->live, slot, request * ALLOCATOR_MIN_BLOCK, r->request + 1);
	return st;
}

/* Of a row without an address: the request that it begins or ends. */
static enum plim_status follow_appended(struct appended *a, uint64_t request, struct row *r,
					size_t i, struct plim_err *err)
{
	enum plim_status st = addr_map_room(&a->live, err);
	struct addr_slot *slot = st ? NULL : find_request(a, request);
	uint8_t *dropped;

	if (st)
		return st;
	if (r->kind == PLIM_EVENT_ALLOC)
		return birth(a, request, slot, r, i, err);
	if (!slot->value)
		return err_set(err, PLIM_E_ARG, "row %zu: request %llu does not live", i,
			       (unsigned long long)request);
	r->request = slot->value - 1;
	dropped = &a->dropped.at[r->request];
	if (*dropped != (r->kind == PLIM_EVENT_FREE_COMPLETED))
		return err_set(err, PLIM_E_ARG, "row %zu: request %llu was %s", i,
			       (unsigned long long)request,
			       *dropped ? "freed before" : "not freed yet");
	*dropped = 1;
	if (ends(r))
		addr_map_remove(&a->live, slot);
	return PLIM_OK;
}

static enum plim_status read_appended_row(struct appended *a, const struct plim_events *ev,
					  size_t i, struct row *r, struct plim_err *err)
{
	enum plim_status st;

	*r = (struct row){ .kind = ev->kind[i],
			   .bytes = ev->bytes[i],
			   .address = ev->address ? ev->address[i] : 0,
			   .time_us = ev->time_us ? ev->time_us[i] : 0,
			   .site = ev->site ? ev->site[i] : PLIM_NO_SITE,
			   .phase = ev->phase ? ev->phase[i] : PLIM_NO_PHASE };
	if (r->kind > PLIM_EVENT_OOM || (!ev->address && r->kind > PLIM_EVENT_FREE_COMPLETED))
		return err_set(err, PLIM_E_ARG, "row %zu: %u is not a kind of event%s", i, r->kind,
			       r->kind > PLIM_EVENT_OOM ? "" : " without an address");
	if (r->site != PLIM_NO_SITE && r->site >= a->names->stacks.n)
		return err_set(err, PLIM_E_ARG, "row %zu: %u is not a site", i, r->site);
	if (r->phase != PLIM_NO_PHASE && r->phase >= a->phases.n)
		return err_set(err, PLIM_E_ARG, "row %zu: %u is not a phase", i, r->phase);
	if (!ev->address && ev->request[i] >= REQUESTS_MAX)
		return err_set(err, PLIM_E_ARG, "row %zu: requests are numbered below 2^32", i);
	st = stream_number(a, ev->stream ? ev->stream[i] : 0, &r->stream, err);
	if (!st)
		st = pool_number(a, ev->pool ? ev->pool[i] : 0, &r->pool, err);
	return st || ev->address ? st : follow_appended(a, ev->request[i], r, i, err);
}

/* What rows from `first` on did to requests, undone from the last one back; each was in the map, so there is room. */
static void take_back(struct appended *a, const struct plim_events *ev, size_t first)
{
	while (a->rows.n > first) {
		const struct row *r = &a->rows.at[--a->rows.n];
		uint64_t request = ev->address ? 0 : ev->request[a->rows.n - first];

		if (ev->address)
			continue;
		if (r->kind == PLIM_EVENT_ALLOC) {
			addr_map_remove(&a->live, find_request(a, request));
			a->dropped.n--;
			continue;
		}
		a->dropped.at[r->request] = r->kind == PLIM_EVENT_FREE_COMPLETED;
		if (ends(r))
			addr_map_put(&a->live, find_request(a, request),
				     request * ALLOCATOR_MIN_BLOCK, r->request + 1);
	}
}

enum plim_status appended_add(struct appended *a, const struct plim_events *ev,
			      struct plim_err *err)
{
	int sort = ev->address ? WITH_ADDRESSES : WITH_REQUESTS;
	size_t first = a->rows.n;
	enum plim_status st = PLIM_OK;

	if (!ev->count)
		return PLIM_OK;
	if (!ev->kind || !ev->bytes || (!ev->address && !ev->request))
		return err_set(err, PLIM_E_ARG,
			       "events need a kind, bytes, and an address or a request");
	if (a->sort && sort != a->sort)
		return err_set(err, PLIM_E_ARG, "%s addresses, unlike the events before",
			       ev->address ? "events with" : "events without");
	if (ev->count >= TRACE_NONE - first)
		return err_set(err, PLIM_E_LIMIT, "more than 2^32 events");
	for (size_t i = 0; !st && i < ev->count; i++) {
		struct row r;

		st = vec_need(a->mem, &a->rows, 1, err);
		if (!st)
			st = read_appended_row(a, ev, i, &r, err);
		if (!st)
			a->rows.at[a->rows.n++] = r;
	}
	if (st) {
		take_back(a, ev, first);
		return st;
	}
	a->sort = sort;
	a->timed &= ev->time_us != NULL;
	return PLIM_OK;
}

/* ---- the snapshot ---- */

/* The columns of a device, of which a FREE takes two rows. */
struct columns {
	struct mem *mem;
	size_t room, n;
	uint8_t *action;
	uint64_t *addr, *size;
	int64_t *time_us;
	uint32_t *stack;
	uint16_t *stream, *pool;
};

static enum plim_status columns_take(struct columns *c, struct mem *m, size_t room,
				     struct plim_err *err)
{
	*c = (struct columns){ .mem = m, .room = room };
	c->action = mem_new(m, room, sizeof(*c->action), err);
	c->addr = mem_new(m, room, sizeof(*c->addr), err);
	c->size = mem_new(m, room, sizeof(*c->size), err);
	c->time_us = mem_new(m, room, sizeof(*c->time_us), err);
	c->stack = mem_new(m, room, sizeof(*c->stack), err);
	c->stream = mem_new(m, room, sizeof(*c->stream), err);
	c->pool = mem_new(m, room, sizeof(*c->pool), err);
	return c->action && c->addr && c->size && c->time_us && c->stack && c->stream && c->pool
		       ? PLIM_OK
		       : mem_status(err);
}

static void columns_free(struct columns *c)
{
	mem_free(c->mem, c->action, c->room, sizeof(*c->action));
	mem_free(c->mem, c->addr, c->room, sizeof(*c->addr));
	mem_free(c->mem, c->size, c->room, sizeof(*c->size));
	mem_free(c->mem, c->time_us, c->room, sizeof(*c->time_us));
	mem_free(c->mem, c->stack, c->room, sizeof(*c->stack));
	mem_free(c->mem, c->stream, c->room, sizeof(*c->stream));
	mem_free(c->mem, c->pool, c->room, sizeof(*c->pool));
}

static void columns_put(struct columns *c, const struct row *r, enum snapshot_action action,
			int64_t time_us)
{
	size_t i = c->n++;

	c->action[i] = (uint8_t)action;
	c->addr[i] = r->address;
	c->size[i] = r->bytes;
	c->time_us[i] = time_us;
	c->stack[i] = r->site;
	c->stream[i] = r->stream;
	c->pool[i] = r->pool;
}

/* Without times a row's number is its microsecond, so that phases have an order. */
static int64_t time_of(const struct appended *a, size_t row)
{
	return a->timed ? a->rows.at[row].time_us : (int64_t)row + 1;
}

static void fill_columns(const struct appended *a, struct columns *c)
{
	static const uint8_t actions[] = {
		[PLIM_EVENT_ALLOC] = TRACE_ALLOC,
		[PLIM_EVENT_FREE] = TRACE_FREE_REQUESTED,
		[PLIM_EVENT_FREE_REQUESTED] = TRACE_FREE_REQUESTED,
		[PLIM_EVENT_FREE_COMPLETED] = TRACE_FREE_COMPLETED,
		[PLIM_EVENT_SEGMENT_ALLOC] = TRACE_SEGMENT_ALLOC,
		[PLIM_EVENT_SEGMENT_FREE] = TRACE_SEGMENT_FREE,
		[PLIM_EVENT_SEGMENT_MAP] = TRACE_SEGMENT_MAP,
		[PLIM_EVENT_SEGMENT_UNMAP] = TRACE_SEGMENT_UNMAP,
		[PLIM_EVENT_OOM] = TRACE_OOM,
	};

	for (size_t i = 0; i < a->rows.n; i++) {
		const struct row *r = &a->rows.at[i];

		columns_put(c, r, (enum snapshot_action)actions[r->kind], time_of(a, i));
		if (r->kind == PLIM_EVENT_FREE && a->sort == WITH_ADDRESSES)
			columns_put(c, r, TRACE_FREE_COMPLETED, time_of(a, i));
	}
}

static enum plim_status annotate(struct appended *a, uint32_t phase, size_t row, int end,
				 struct plim_err *err)
{
	struct snapshot_annotation one = { .time_us = time_of(a, row),
					   .device = (uint16_t)a->device,
					   .end = (uint8_t)end };

	if (phase == PLIM_NO_PHASE)
		return PLIM_OK;
	one.name = a->phases.at[phase];
	return vec_push(a->mem, &a->names->annotations, one, err);
}

/* Rows of one phase that follow each other are a range. */
static enum plim_status fill_phases(struct appended *a, struct plim_err *err)
{
	uint32_t now = PLIM_NO_PHASE;
	enum plim_status st = PLIM_OK;

	a->names->annotations.n = 0;
	for (size_t i = 0; !st && i < a->rows.n; i++) {
		uint32_t phase = a->rows.at[i].phase;

		if (phase == now)
			continue;
		if (i)
			st = annotate(a, now, i - 1, 1, err);
		if (!st)
			st = annotate(a, phase, i, 0, err);
		now = phase;
	}
	if (!st && a->rows.n)
		st = annotate(a, now, a->rows.n - 1, 1, err);
	a->names->has_annotations = a->names->annotations.n != 0;
	return st;
}

/* ---- placing ---- */

static enum plim_status make_program(const struct appended *a, struct program *p,
				     struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	p->pools = a->names->pools.n;
	p->streams = a->names->streams.at;
	p->stream_count = a->names->streams.n;
	for (size_t i = 0; !st && i < a->rows.n; i++) {
		const struct row *r = &a->rows.at[i];
		struct program_op op = { .request = r->request, .event = (uint32_t)i };

		if (r->kind == PLIM_EVENT_ALLOC) {
			struct program_request request = { r->bytes, r->site, r->stream, r->pool };

			op.kind = PROGRAM_ALLOC;
			st = vec_push(p->mem, &p->requests, request, err);
		} else {
			op.kind = r->kind == PLIM_EVENT_FREE_COMPLETED ? PROGRAM_FREE_DONE
								       : PROGRAM_FREE;
		}
		if (!st)
			st = vec_push(p->mem, &p->ops, op, err);
		op.kind = PROGRAM_FREE_DONE;
		if (!st && r->kind == PLIM_EVENT_FREE)
			st = vec_push(p->mem, &p->ops, op, err);
	}
	return st;
}

/* What becomes of the snapshot: it is written into memory and read, as every other is. */
struct making {
	struct appended *from;
	VEC(char) bytes;
	struct recording *made;
};

static enum plim_status collect_appended(void *ctx, const void *bytes, size_t n,
					 struct plim_err *err)
{
	struct making *m = ctx;
	enum plim_status st = vec_need(m->from->mem, &m->bytes, n, err);

	if (!st && n)
		memcpy(m->bytes.at + m->bytes.n, bytes, n);
	m->bytes.n += st ? 0 : n;
	return st;
}

static enum plim_status take_appended(void *self, const struct snapshot *t, struct plim_err *err)
{
	struct making *m = self;
	struct snapshot *own = NULL;
	enum plim_status st = snapshot_write(t, (struct pickle_sink){ m, collect_appended }, err);

	if (!st)
		st = snapshot_read_bytes(m->from->mem, m->bytes.at, m->bytes.n, NULL, &own, err);
	if (st)
		return st;
	own->kind = "events";
	own->times_made = !m->from->timed;
	own->end_unknown = m->from->sort == WITH_ADDRESSES;
	return recording_of(m->from->mem, own, &m->made, err);
}

static enum plim_status appended_place(struct making *m, const struct snapshot_device *device,
				       struct plim_err *err)
{
	struct appended *a = m->from;
	struct recording_taker to = { take_appended, m };
	struct program *program;
	enum plim_status st = program_new(a->mem, &program, err);
	struct recording_run run = { .from = a->names,
				     .device = device,
				     .program = program,
				     .settings = a->settings,
				     .how = { .rules = &a->rules,
					      .bounds = { UINT64_MAX, UINT64_MAX, 0 },
					      .way = ALLOCATOR_LOWEST } };

	if (!st)
		st = make_program(a, program, err);
	if (!st)
		st = recording_of_run(a->mem, &run, &to, err);
	program_free(program);
	return st;
}

/* The names with one device; those before it are empty. */
static enum plim_status make_appended(struct making *m, const struct columns *c,
				      struct plim_err *err)
{
	struct appended *a = m->from;
	struct snapshot *t = a->names;
	struct snapshot_device devices[DEVICES_MAX] = { { 0 } };
	struct snapshot_device *d = &devices[a->device];
	enum plim_status st;

	for (uint32_t i = 0; i < DEVICES_MAX; i++)
		devices[i].ordinal = i;
	d->events = (struct snapshot_events){ .n = c->n,
					      .action = c->action,
					      .addr = c->addr,
					      .size = c->size,
					      .time_us = c->time_us,
					      .stack = c->stack,
					      .stream = c->stream,
					      .pool = t->pools.n > 1 ? c->pool : NULL };
	t->has_time = t->has_traces = 1;
	t->has_frames = t->stacks.n != 0;
	t->devices = devices;
	t->device_count = a->device + (size_t)1;
	t->first_action = c->action;
	st = a->sort == WITH_REQUESTS ? appended_place(m, d, err) : take_appended(m, t, err);
	t->devices = NULL; /* so that no one frees them */
	t->device_count = 0;
	return st;
}

enum plim_status recording_of_events(struct appended *a, struct recording **out,
				     struct plim_err *err)
{
	struct making m = { .from = a };
	struct columns c;
	enum plim_status st = columns_take(&c, a->mem, 2 * a->rows.n + 1, err);
	uint16_t stream;

	if (!st)
		st = stream_number(a, 0, &stream, err); /* there is one always */
	if (!st) {
		fill_columns(a, &c);
		st = fill_phases(a, err);
	}
	if (!st)
		st = make_appended(&m, &c, err);
	columns_free(&c);
	vec_release(a->mem, &m.bytes);
	*out = m.made;
	return st;
}
