/* A run of the allocator's model as a snapshot: the requests' stacks and times, the model's addresses and segments. */
#include "recording.h"

#include <stdlib.h>
#include <string.h>

struct keeping {
	struct mem *mem;
	const struct recording_run *run;
	VEC(struct allocator_event) events;
	VEC(struct allocator_block) blocks;
	enum plim_status status; /* the first failure */
	struct plim_err *err;
	/* columns of the new trace */
	uint8_t *action;
	uint64_t *addr, *size;
	int64_t *time_us;
	uint32_t *stack;
	uint16_t *stream;
};

static void on_event(void *self, const struct allocator_event *event)
{
	struct keeping *k = self;

	if (!k->status)
		k->status = vec_push(k->mem, &k->events, *event, k->err);
}

static void on_block(void *self, const struct allocator_block *block)
{
	struct keeping *k = self;

	if (!k->status)
		k->status = vec_push(k->mem, &k->blocks, *block, k->err);
}

static int by_addr(const void *a, const void *b)
{
	const struct allocator_block *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Where in the recording the program was. */
static uint32_t recorded_event(const struct keeping *k, uint32_t op)
{
	uint32_t event = k->run->program->ops.at[op].event;

	return event == TRACE_NONE || event >= k->run->device->events.n ? TRACE_NONE : event;
}

static enum plim_status take_columns(struct keeping *k, size_t n)
{
	k->action = mem_new(k->mem, n, sizeof(*k->action), k->err);
	k->addr = mem_new(k->mem, n, sizeof(*k->addr), k->err);
	k->size = mem_new(k->mem, n, sizeof(*k->size), k->err);
	k->time_us = mem_new(k->mem, n, sizeof(*k->time_us), k->err);
	k->stack = mem_new(k->mem, n, sizeof(*k->stack), k->err);
	k->stream = mem_new(k->mem, n, sizeof(*k->stream), k->err);
	return k->action && k->addr && k->size && k->time_us && k->stack && k->stream
		       ? PLIM_OK
		       : mem_status(k->err);
}

static void free_columns(struct keeping *k, size_t n)
{
	mem_free(k->mem, k->action, n, sizeof(*k->action));
	mem_free(k->mem, k->addr, n, sizeof(*k->addr));
	mem_free(k->mem, k->size, n, sizeof(*k->size));
	mem_free(k->mem, k->time_us, n, sizeof(*k->time_us));
	mem_free(k->mem, k->stack, n, sizeof(*k->stack));
	mem_free(k->mem, k->stream, n, sizeof(*k->stream));
}

static void fill_columns(struct keeping *k)
{
	const struct snapshot_events *ev = &k->run->device->events;
	int64_t now = ev->n ? ev->time_us[0] : 0;
	uint64_t reserved = 0;

	for (size_t i = 0; i < k->events.n; i++) {
		const struct allocator_event *e = &k->events.at[i];
		uint32_t event = recorded_event(k, e->op);

		if (event != TRACE_NONE)
			now = ev->time_us[event];
		k->action[i] = (uint8_t)e->action;
		k->addr[i] = e->addr;
		k->size[i] = e->bytes;
		reserved += e->action == TRACE_SEGMENT_ALLOC || e->action == TRACE_SEGMENT_MAP
				    ? e->bytes
				    : 0;
		reserved -= e->action == TRACE_SEGMENT_FREE || e->action == TRACE_SEGMENT_UNMAP
				    ? e->bytes
				    : 0;
		if (e->action == TRACE_OOM && k->run->device_bytes > reserved)
			k->addr[i] = k->run->device_bytes - reserved;
		k->time_us[i] = now;
		k->stack[i] = event != TRACE_NONE ? ev->stack[event] : TRACE_NONE;
		k->stream[i] = e->stream;
	}
}

/* The event at which the recording failed, if the run goes on there; see snapshot_device.survived. */
static uint32_t survived(const struct keeping *k)
{
	uint32_t death = k->run->program->death;

	for (size_t i = 0; death != TRACE_NONE && i < k->events.n; i++) {
		uint32_t event = recorded_event(k, k->events.at[i].op);

		if (event != TRACE_NONE && event >= death)
			return k->action[i] == TRACE_OOM ? 0 : (uint32_t)i + 1;
	}
	return 0;
}

static enum plim_status add_labels(struct keeping *k, struct snapshot *t)
{
	enum plim_status st = PLIM_OK;

	t->has_user_metadata = k->run->labels != NULL;
	for (size_t i = 0; !st && k->run->labels && i < k->events.n; i++) {
		const struct allocator_event *e = &k->events.at[i];
		struct snapshot_label label = { (uint32_t)i, TRACE_NONE, 0 };

		if (e->request == TRACE_NONE || e->action != TRACE_ALLOC)
			continue;
		label.string = k->run->labels[e->request];
		st = vec_push(k->mem, &t->labels, label, k->err);
	}
	return st;
}

static enum plim_status add_block(struct keeping *k, struct snapshot *t,
				  const struct allocator_block *b)
{
	struct snapshot_segment *s = t->segments.n ? &t->segments.at[t->segments.n - 1] : NULL;
	struct snapshot_block block = { .addr = b->addr,
					.bytes = b->bytes,
					.requested_bytes = b->requested_bytes,
					.stack = TRACE_NONE,
					.state = b->request == TRACE_NONE ? TRACE_INACTIVE
						 : b->pending ? TRACE_ACTIVE_PENDING_FREE
							      : TRACE_ACTIVE };
	enum plim_status st = PLIM_OK;

	if (!s || s->addr != b->segment_addr) {
		struct snapshot_segment one = { .addr = b->segment_addr,
						.device = k->run->device->ordinal,
						.stream = b->stream,
						.pool = b->block_pool / 2,
						.stack = TRACE_NONE,
						.first_block = (uint32_t)t->blocks.n,
						.large = b->block_pool & 1,
						.expandable = b->expandable };

		st = vec_push(k->mem, &t->segments, one, k->err);
		s = st ? NULL : &t->segments.at[t->segments.n - 1];
	}
	if (!st)
		st = vec_push(k->mem, &t->blocks, block, k->err);
	if (st)
		return st;
	if (b->request != TRACE_NONE)
		t->blocks.at[t->blocks.n - 1].stack =
			k->run->stacks ? k->run->stacks[b->request]
				       : k->run->program->requests.at[b->request].stack;
	s->blocks++;
	s->bytes += b->bytes;
	s->active_bytes += block.state == TRACE_INACTIVE ? 0 : b->bytes;
	s->allocated_bytes += block.state == TRACE_ACTIVE ? b->bytes : 0;
	s->requested_bytes += block.state == TRACE_INACTIVE ? 0 : b->requested_bytes;
	return PLIM_OK;
}

static enum plim_status set_settings(struct keeping *k, struct snapshot *t, const char *conf,
				     const struct allocator_rules *rules)
{
	struct snapshot_settings *s = &t->settings;
	uint32_t string;
	/* the recording owns its strings; one more does no harm to it */
	enum plim_status st =
		intern_add(&((struct snapshot *)(uintptr_t)k->run->from)->heap.strings, conf,
			   strlen(conf), &string, k->err);

	t->heap.strings = k->run->from->heap.strings;
	s->have = 1;
	s->conf = st ? TRACE_NONE : string;
	s->max_split_bytes = rules->max_split_bytes;
	s->gc_threshold = rules->gc_threshold;
	s->expandable_segments = rules->expandable;
	memcpy(s->roundup_divisions, rules->roundup_divisions, sizeof(s->roundup_divisions));
	return st;
}

/* The recording's private pools, and those that were found: these get ids that no other has. */
static enum plim_status name_pools(struct keeping *k, struct snapshot *t)
{
	struct snapshot_pool_id next = { 1, 0 };
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < k->run->from->pools.n; i++) {
		const struct snapshot_pool_id *id = &k->run->from->pools.at[i];

		next.a = id->a >= next.a && id->a < INT64_MAX - UINT16_MAX ? id->a + 1 : next.a;
		st = vec_push(k->mem, &t->pools, *id, k->err);
	}
	for (; !st && t->pools.n < k->run->program->pools; next.a++)
		st = vec_push(k->mem, &t->pools, next, k->err);
	return st;
}

/* A trace that borrows all but what the run made from the recording. */
static enum plim_status give_trace(struct keeping *k, const struct recording_taker *to)
{
	struct snapshot t = *k->run->from;
	size_t n = k->events.n;
	struct snapshot_device *devices = mem_new(k->mem, t.device_count, sizeof(*devices), k->err);
	enum plim_status st = devices ? take_columns(k, n) : mem_status(k->err);

	memset(&t.segments, 0, sizeof(t.segments));
	memset(&t.blocks, 0, sizeof(t.blocks));
	memset(&t.pools, 0, sizeof(t.pools));
	memset(&t.labels, 0, sizeof(t.labels));
	memset(&t.settings_values, 0, sizeof(t.settings_values)); /* they are the recording's */
	if (!st) {
		fill_columns(k);
		sort_items(k->blocks.at, k->blocks.n, sizeof(*k->blocks.at), by_addr);
		devices[k->run->device - k->run->from->devices].events =
			(struct snapshot_events){ .n = n,
						  .action = k->action,
						  .addr = k->addr,
						  .size = k->size,
						  .time_us = k->time_us,
						  .stack = k->stack,
						  .stream = k->stream };
		devices[k->run->device - k->run->from->devices].survived = survived(k);
		t.devices = devices;
		t.first_action = k->action;
		st = set_settings(k, &t, k->run->settings, k->run->how.rules);
	}
	if (!st)
		st = name_pools(k, &t);
	if (!st)
		st = add_labels(k, &t);
	for (size_t i = 0; !st && i < k->blocks.n; i++)
		st = add_block(k, &t, &k->blocks.at[i]);
	if (!st)
		st = to->take(to->self, &t, k->err);
	vec_release(k->mem, &t.segments);
	vec_release(k->mem, &t.blocks);
	vec_release(k->mem, &t.pools);
	vec_release(k->mem, &t.labels);
	free_columns(k, n);
	mem_free(k->mem, devices, k->run->from->device_count, sizeof(*devices));
	return st;
}

enum plim_status recording_of_run(struct mem *m, const struct recording_run *run,
				  const struct recording_taker *to, struct plim_err *err)
{
	struct keeping k = { .mem = m, .run = run, .err = err };
	struct allocator_run how = run->how;
	struct allocator_outcome outcome;
	enum plim_status st;

	how.self = &k;
	how.event = on_event;
	how.block = on_block;
	st = allocator_run(m, run->program, &how, &outcome, err);
	if (!st)
		st = k.status;
	if (!st)
		st = give_trace(&k, to);
	vec_release(m, &k.events);
	vec_release(m, &k.blocks);
	return st;
}
