/*
 * A snapshot by both ways into the rows: the straight-line path, followed by a second thread, and the
 * general machine alone must end alike and yield the same trace.  What was read then goes through the floors above: replay,
 * timeline, owners, findings, and the writer, whose output must be readable again.
 */
#include "diagnose/diagnose.h"
#include "pickle_mutate.h"

#define LIMIT_BYTES ((uint64_t)256 << 20)

/* ---- are two traces the same ---- */

static void same_text(const struct snapshot *a, uint32_t x, const struct snapshot *b, uint32_t y)
{
	must((x == TRACE_NONE) == (y == TRACE_NONE));
	if (x == TRACE_NONE)
		return;
	must(a->heap.strings.at[x].n == b->heap.strings.at[y].n);
	must(!memcmp(snapshot_text(a, x), snapshot_text(b, y), a->heap.strings.at[x].n));
}

static void same_stack(const struct snapshot *a, uint32_t x, const struct snapshot *b, uint32_t y)
{
	uint32_t n, m;
	const uint32_t *f = snapshot_stack(a, x, &n), *g = snapshot_stack(b, y, &m);

	must((x == TRACE_NONE) == (y == TRACE_NONE));
	must(n == m);
	for (uint32_t i = 0; i < n; i++) {
		const struct snapshot_frame *p = snapshot_frame(a, f[i]),
					    *q = snapshot_frame(b, g[i]);

		must(p->line == q->line);
		same_text(a, p->name, b, q->name);
		same_text(a, p->filename, b, q->filename);
	}
}

static void same_events(const struct snapshot *a, const struct snapshot_events *x,
			const struct snapshot *b, const struct snapshot_events *y)
{
	must(x->n == y->n);
	must(!x->n || !x->pool == !y->pool);
	for (size_t i = 0; i < x->n; i++) {
		must(x->action[i] == y->action[i]);
		must(x->addr[i] == y->addr[i]);
		must(x->size[i] == y->size[i]);
		must(x->time_us[i] == y->time_us[i]);
		must(a->streams.at[x->stream[i]] == b->streams.at[y->stream[i]]);
		must(x->alloc[i] == y->alloc[i]);
		if (x->pool) {
			const struct snapshot_pool_id *p = &a->pools.at[x->pool[i]];
			const struct snapshot_pool_id *q = &b->pools.at[y->pool[i]];

			must(p->a == q->a && p->b == q->b);
		}
		same_stack(a, x->stack[i], b, y->stack[i]);
	}
}

static void same_device(const struct snapshot *a, const struct snapshot_device *x,
			const struct snapshot *b, const struct snapshot_device *y)
{
	same_events(a, &x->events, b, &y->events);
	must(x->alloc_count == y->alloc_count && x->segments == y->segments);
	must(x->reserved_before_bytes == y->reserved_before_bytes);
	must(x->allocs_before == y->allocs_before && x->contradictions == y->contradictions);
	must(x->stale_events == y->stale_events);
	for (size_t i = 0; i < x->alloc_count; i++) {
		const struct snapshot_alloc *p = &x->allocs[i], *q = &y->allocs[i];

		must(p->addr == q->addr && p->requested_bytes == q->requested_bytes);
		must(p->born == q->born && p->free_requested == q->free_requested);
		must(p->free_completed == q->free_completed && p->flags == q->flags);
		must(a->streams.n == b->streams.n || p->stream == q->stream);
		same_stack(a, p->stack, b, q->stack);
	}
}

static void same_memory(const struct snapshot *a, const struct snapshot *b)
{
	must(a->segments.n == b->segments.n && a->blocks.n == b->blocks.n);
	for (size_t i = 0; i < a->segments.n; i++) {
		const struct snapshot_segment *x = &a->segments.at[i], *y = &b->segments.at[i];

		must(x->addr == y->addr && x->bytes == y->bytes && x->device == y->device);
		must(x->allocated_bytes == y->allocated_bytes &&
		     x->active_bytes == y->active_bytes);
		must(x->requested_bytes == y->requested_bytes && x->large == y->large);
		must(x->first_block == y->first_block && x->blocks == y->blocks);
		must(x->expandable == y->expandable);
		same_stack(a, x->stack, b, y->stack);
	}
	for (size_t i = 0; i < a->blocks.n; i++) {
		const struct snapshot_block *x = &a->blocks.at[i], *y = &b->blocks.at[i];

		must(x->addr == y->addr && x->bytes == y->bytes && x->state == y->state);
		must(x->requested_bytes == y->requested_bytes);
		same_stack(a, x->stack, b, y->stack);
	}
}

static void same_rest(const struct snapshot *a, const struct snapshot *b)
{
	must(a->annotations.n == b->annotations.n && a->unknown.n == b->unknown.n);
	for (size_t i = 0; i < a->annotations.n; i++) {
		const struct snapshot_annotation *x = &a->annotations.at[i],
						 *y = &b->annotations.at[i];

		must(x->time_us == y->time_us && x->device == y->device && x->end == y->end);
		same_text(a, x->name, b, y->name);
	}
	for (size_t i = 0; i < a->unknown.n; i++) {
		must(a->unknown.at[i].where == b->unknown.at[i].where);
		must(a->unknown.at[i].count == b->unknown.at[i].count);
		same_text(a, a->unknown.at[i].name, b, b->unknown.at[i].name);
	}
	must(a->has_time == b->has_time && a->has_traces == b->has_traces);
	must(a->has_frames == b->has_frames && a->has_annotations == b->has_annotations);
	must(a->has_compile_context == b->has_compile_context);
	must(a->has_user_metadata == b->has_user_metadata);
	must(a->settings.have == b->settings.have);
	must(a->settings.max_split_bytes == b->settings.max_split_bytes);
}

static void same_trace(const struct snapshot *a, const struct snapshot *b)
{
	must(a->device_count == b->device_count);
	for (size_t d = 0; d < a->device_count; d++)
		same_device(a, &a->devices[d], b, &b->devices[d]);
	same_memory(a, b);
	same_rest(a, b);
}

/* ---- the floors above ---- */

static void use_times(struct mem *m, const struct timeline *tl, uint32_t event)
{
	uint64_t totals[TIMELINE_MEASURES], y[7];
	struct timeline_owners owners = { 0 };
	struct timeline_steps steps = { 0 };
	struct plim_err err;

	timeline_at(tl, event, totals);
	for (int g = TIMELINE_BY_USER_FRAME; g <= TIMELINE_BY_SIZE; g++) {
		timeline_owners_at(m, tl, event, TIMELINE_ALLOCATED, (enum timeline_group)g, NULL,
				   &owners, &err);
		timeline_owners_release(&owners);
	}
	if (tl->device->events.n)
		timeline_sample(tl, TIMELINE_ACTIVE, 0, (uint32_t)tl->device->events.n - 1, y, 7);
	timeline_find_steps(m, tl, &steps, &err);
	timeline_steps_release(&steps);
}

static void use_device(struct mem *m, const struct snapshot *t, const struct snapshot_device *d)
{
	struct allocator_replay *replay;
	struct timeline_categories categories = { 0 };
	struct timeline_steps steps = { 0 }, periods = { 0 };
	struct findings_list found = { 0 };
	struct findings_death death;
	struct plim_err err;
	struct timeline tl;
	struct findings_input in = {
		.tl = &tl, .categories = &categories, .steps = &steps, .periods = &periods
	};
	enum plim_status st;

	if (allocator_replay_own(m, t, d, &replay, &err))
		return;
	must(replay->n == d->alloc_count);
	timeline_walk(&tl, t, d, replay);
	use_times(m, &tl, TIMELINE_BEFORE);
	use_times(m, &tl, tl.peak_event[TIMELINE_ACTIVE]);
	st = timeline_categorize(m, &tl, &categories, &err);
	if (!st)
		st = timeline_find_steps(m, &tl, &steps, &err);
	if (!st && !steps.ends.n)
		st = timeline_find_periods(m, &tl, &categories, &periods, &err);
	for (size_t i = 0; !st && i < replay->ooms.n && i < 8; i++) {
		st = findings_explain_death(m, &in, &replay->ooms.at[i], &death, &err);
		in.death = &death;
	}
	if (!st && !findings_find(m, &in, &found, &err))
		findings_release(&found);
	timeline_categories_release(&categories);
	timeline_steps_release(&steps);
	timeline_steps_release(&periods);
	allocator_replay_free(replay);
}

struct written {
	uint8_t *at;
	size_t n, cap;
	struct mem *mem;
};

static enum plim_status keep(void *ctx, const void *bytes, size_t n, struct plim_err *err)
{
	struct written *w = ctx;
	enum plim_status st = mem_grow(w->mem, &w->at, &w->cap, w->n + n, 1, err);

	if (st)
		return st;
	memcpy(w->at + w->n, bytes, n);
	w->n += n;
	return PLIM_OK;
}

static void write_and_read(struct mem *m, const struct snapshot *t)
{
	struct written w = { .mem = m };
	struct pickle_sink sink = { &w, keep };
	struct snapshot *again = NULL;
	struct plim_err err = { 0 };
	enum plim_status st = snapshot_write(t, sink, &err);

	if (!st) {
		st = snapshot_read_bytes(m, w.at, w.n, NULL, &again, &err);
		if (st == PLIM_E_FORMAT)
			fprintf(stderr, "fuzz_trace: written, then: %s\n", err.message);
		must(st != PLIM_E_FORMAT);
	}
	snapshot_free(again);
	mem_free(m, w.at, w.cap, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct snapshot_read_options general = { .flags = TRACE_READ_GENERAL };
	struct snapshot_read_options fast = { .threads = 2, .follow_rows = 3 };
	struct snapshot *a = NULL, *b = NULL;
	struct plim_err ea = { 0 }, eb = { 0 };
	enum plim_status sa, sb;
	struct mem m;

	mem_init(&m, LIMIT_BYTES);
	sa = snapshot_read_bytes(&m, bytes, n, &fast, &a, &ea);
	sb = snapshot_read_bytes(&m, bytes, n, &general, &b, &eb);
	/* Two traces in one limit: the second may be the one that does not fit. */
	if (sa != PLIM_E_LIMIT && sb != PLIM_E_LIMIT) {
		if (sa != sb)
			fprintf(stderr, "fuzz_trace: '%s', general: '%s'\n", ea.message,
				eb.message);
		must(sa == sb);
		must(!sa == !!a && !sb == !!b);
	}
	if (a && b)
		same_trace(a, b);
	snapshot_free(b);
	for (size_t d = 0; a && d < a->device_count; d++)
		use_device(&m, a, &a->devices[d]);
	if (a)
		write_and_read(&m, a);
	snapshot_free(a);
	must(!m.used_bytes);
	return 0;
}
