/* The segments that a recording shows coming and going, and which of them cannot be the default pool's. */
#include "caching.h"

#include <string.h>

struct finding {
	struct pools *p;
	const struct snapshot *t;
	const struct snapshot_device *d;
	struct freeset live; /* segments by address */
	uint32_t *last;      /* of each stream, the newest segment */
	struct plim_err *err;
};

/* The live segment that holds an address, or TRACE_NONE. */
static uint32_t live_at(const struct finding *f, uint64_t addr)
{
	struct freeset_cursor at = freeset_seek(&f->live, 0, addr);
	const struct freeset_key *k = freeset_get(&f->live, at);

	if ((!k || k->addr != addr) && freeset_prev(&f->live, &at))
		k = freeset_get(&f->live, at);
	if (!k || k->addr > addr || addr - k->addr >= f->p->segments.at[k->block].bytes)
		return TRACE_NONE;
	return k->block;
}

static enum plim_status on_born(struct finding *f, uint32_t e)
{
	const struct snapshot_events *ev = &f->d->events;
	uint32_t number = (uint32_t)f->p->segments.n, *last = &f->last[ev->stream[e]];
	struct freeset_key key = { 0, ev->addr[e], number };
	struct pools_segment s = { .addr = ev->addr[e],
				   .bytes = ev->size[e],
				   .born = e,
				   .gone = TRACE_NONE,
				   .next = TRACE_NONE,
				   .stream = ev->stream[e],
				   .pool = ev->pool ? ev->pool[e] : 0,
				   .known = ev->pool != NULL };
	enum plim_status st;

	if (live_at(f, s.addr) != TRACE_NONE)
		return PLIM_OK; /* it contradicts itself */
	st = vec_push(f->p->mem, &f->p->segments, s, f->err);
	if (!st)
		st = freeset_insert(f->p->mem, &f->live, &key, f->err);
	if (st)
		return st;
	if (*last != TRACE_NONE)
		f->p->segments.at[*last].next = number;
	*last = f->p->segment_of[e] = number;
	return PLIM_OK;
}

static void on_gone(struct finding *f, uint32_t e)
{
	const struct snapshot_events *ev = &f->d->events;
	uint32_t number = live_at(f, ev->addr[e]);
	struct freeset_key key = { 0, ev->addr[e], number };

	if (number == TRACE_NONE || f->p->segments.at[number].addr != ev->addr[e])
		return;
	f->p->segments.at[number].gone = e;
	f->p->segment_of[e] = number;
	freeset_remove(f->p->mem, &f->live, &key);
}

static enum plim_status follow_pools(struct finding *f)
{
	const struct snapshot_events *ev = &f->d->events;
	enum plim_status st = PLIM_OK;

	for (uint32_t e = 0; !st && e < ev->n; e++) {
		if (ev->action[e] == TRACE_SEGMENT_ALLOC)
			st = on_born(f, e);
		else if (ev->action[e] == TRACE_SEGMENT_FREE)
			on_gone(f, e);
		else if (ev->action[e] == TRACE_ALLOC)
			f->p->segment_of[e] = live_at(f, ev->addr[e]);
	}
	for (uint32_t i = 0; !st && i < f->d->segments; i++) {
		const struct snapshot_segment *s = &f->t->segments.at[f->d->first_segment + i];
		uint32_t number = live_at(f, s->addr);

		if (number == TRACE_NONE)
			continue;
		f->p->segments.at[number].pool = (uint16_t)s->pool;
		f->p->segments.at[number].known = 1;
	}
	return st;
}

/* ---- the order in which memory is released ---- */

/* Would the default pool release `a` before `b`? */
static int releases_before(const struct finding *f, const struct pools_segment *a,
			   const struct pools_segment *b)
{
	int a_large = a->bytes != ALLOCATOR_SMALL_SEGMENT;
	int b_large = b->bytes != ALLOCATOR_SMALL_SEGMENT;
	uint64_t x = (uint64_t)f->t->streams.at[a->stream];
	uint64_t y = (uint64_t)f->t->streams.at[b->stream];

	if (a_large != b_large)
		return a_large;
	if (x != y)
		return x < y;
	return a->bytes != b->bytes ? a->bytes < b->bytes : a->addr < b->addr;
}

static int is_segment_free(const struct finding *f, uint32_t e)
{
	return f->d->events.action[e] == TRACE_SEGMENT_FREE && f->p->segment_of[e] != TRACE_NONE;
}

/* What comes after a private pool's in one row of releases is of a private pool too. */
static void order_tells(struct finding *f)
{
	const struct pools_segment *before = NULL;
	int is_private = 0;

	for (uint32_t e = 0; e < f->d->events.n; e++) {
		struct pools_segment *s;

		if (!is_segment_free(f, e)) {
			before = NULL;
			is_private = 0;
			continue;
		}
		s = &f->p->segments.at[f->p->segment_of[e]];
		is_private |= s->known ? s->pool != 0 : before && releases_before(f, s, before);
		s->is_private = (uint8_t)is_private;
		before = s;
	}
}

enum plim_status pools_find(struct pools *p, struct mem *m, const struct snapshot *t,
			    const struct snapshot_device *d, struct plim_err *err)
{
	struct finding f = { .p = p, .t = t, .d = d, .err = err };
	enum plim_status st = PLIM_OK;

	*p = (struct pools){ .mem = m, .events = d->events.n };
	p->segment_of = mem_new(m, p->events, sizeof(*p->segment_of), err);
	f.last = p->segment_of ? mem_new(m, t->streams.n, sizeof(*f.last), err) : NULL;
	if (!f.last)
		return mem_status(err);
	memset(p->segment_of, 0xff, p->events * sizeof(*p->segment_of));
	memset(f.last, 0xff, t->streams.n * sizeof(*f.last));
	st = follow_pools(&f);
	if (!st)
		order_tells(&f);
	mem_free(m, f.last, t->streams.n, sizeof(*f.last));
	freeset_release(m, &f.live);
	return st;
}

void pools_release(struct pools *p)
{
	vec_release(p->mem, &p->segments);
	mem_free(p->mem, p->segment_of, p->events, sizeof(*p->segment_of));
}

int pools_rule_out(struct pools *p, uint64_t addr, uint32_t event)
{
	for (size_t i = 0; i < p->segments.n; i++) {
		struct pools_segment *s = &p->segments.at[i];

		if (s->born > event || s->gone < event || addr < s->addr ||
		    addr - s->addr >= s->bytes)
			continue;
		if (s->known || s->is_apart)
			return 0;
		s->is_apart = s->pool != 0;
		s->is_private = 1;
		return 1;
	}
	return 0;
}
