/*
 * Reserved memory as rectangles: a range of addresses between two moments.  The walk goes from the end
 * backwards, because what stood before the first event is only known from there: what is freed begins to live,
 * what is taken from the driver ends.  Pages that were mapped as one and unmapped in parts come apart.
 */
#include "parts.h"

#include <string.h>

struct walk {
	struct mem *mem;
	const struct trace_events *ev;
	VEC(struct segment) live; /* what is reserved at this moment, by address */
	struct segments *out;     /* what was, latest first, by falling address */
	struct plim_err *err;
};

/* The first live one that ends behind `addr`. */
static size_t find(const struct walk *w, uint64_t addr)
{
	size_t low = 0, high = w->live.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (w->live.at[mid].addr + w->live.at[mid].bytes <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static enum plim_status insert(struct walk *w, size_t at, const struct segment *s)
{
	enum plim_status st = vec_need(w->mem, &w->live, 1, w->err);

	if (st)
		return st;
	memmove(w->live.at + at + 1, w->live.at + at, (w->live.n - at) * sizeof(*w->live.at));
	w->live.at[at] = *s;
	w->live.n++;
	return PLIM_OK;
}

/* It lives from here on, going backwards.  Where something does already the recording contradicts itself. */
static enum plim_status add(struct walk *w, const struct segment *s)
{
	uint64_t at = s->addr, end = s->addr + s->bytes;
	enum plim_status st = PLIM_OK;

	for (size_t i = find(w, at); !st && at < end; i++) {
		const struct segment *next = i < w->live.n ? &w->live.at[i] : NULL;
		struct segment piece = *s;

		if (next && next->addr <= at) {
			at = next->addr + next->bytes;
			continue;
		}
		piece.addr = at;
		at = next && next->addr < end ? next->addr : end;
		piece.bytes = at - piece.addr;
		st = insert(w, i, &piece);
	}
	return st;
}

/* Take [from, to), which lies in live segment i, out of it. */
static enum plim_status take_out(struct walk *w, size_t i, uint64_t from, uint64_t to)
{
	struct segment *s = &w->live.at[i], behind = *s;
	uint64_t end = s->addr + s->bytes;

	if (s->addr == from && end == to) {
		w->live.n--;
		memmove(s, s + 1, (w->live.n - i) * sizeof(*s));
		return PLIM_OK;
	}
	if (s->addr == from) {
		s->addr = to;
		s->bytes = end - to;
		return PLIM_OK;
	}
	s->bytes = from - s->addr;
	behind.addr = to;
	behind.bytes = end - to;
	return behind.bytes ? insert(w, i + 1, &behind) : PLIM_OK;
}

/* What [fresh->addr, + bytes) holds was taken from the driver; parts whose end nobody saw never end. */
static enum plim_status born(struct walk *w, const struct segment *fresh)
{
	uint64_t from = fresh->addr, to = fresh->addr + fresh->bytes;
	enum plim_status st = PLIM_OK;

	while (!st && to > from) { /* from above, so that all rows are in one order */
		size_t i = find(w, to - 1);
		struct segment piece = *fresh;

		if (i < w->live.n && w->live.at[i].addr < to) {
			piece = w->live.at[i];
			piece.addr = piece.addr > from ? piece.addr : from;
			piece.born = fresh->born;
			st = take_out(w, i, piece.addr, to);
		} else if (i && w->live.at[i - 1].addr + w->live.at[i - 1].bytes > from) {
			piece.addr = w->live.at[i - 1].addr + w->live.at[i - 1].bytes;
		}
		piece.bytes = to - piece.addr;
		to = piece.addr;
		if (!st)
			st = vec_push(w->out->mem, &w->out->rows, piece, w->err);
	}
	return st;
}

static enum plim_status undo(struct walk *w, uint32_t e)
{
	const struct trace_events *ev = w->ev;
	uint8_t action = ev->action[e];
	int gone = action == TRACE_SEGMENT_FREE || action == TRACE_SEGMENT_UNMAP;
	struct segment s = { .addr = ev->addr[e],
			     .bytes = ev->size[e],
			     .stream = ev->stream[e],
			     .pool = ev->pool ? ev->pool[e] : SEGMENT_POOL_UNKNOWN,
			     .large = ev->size[e] != ALLOCATOR_SMALL_SEGMENT,
			     .expandable =
				     action == TRACE_SEGMENT_MAP || action == TRACE_SEGMENT_UNMAP };

	if (s.bytes > UINT64_MAX - s.addr)
		return PLIM_OK;
	*(gone ? &s.gone : &s.born) = (uint32_t)MOMENT_OF(e);
	return gone ? add(w, &s) : born(w, &s);
}

static enum plim_status stand_at_end(struct walk *w, const struct trace *t,
				     const struct trace_device *d)
{
	enum plim_status st = PLIM_OK;

	for (uint32_t i = 0; !st && i < d->segments; i++) {
		const struct trace_segment *from = &t->segments.at[d->first_segment + i];
		struct segment s = { .addr = from->addr,
				     .bytes = from->bytes,
				     .stream = from->stream,
				     .pool = from->pool,
				     .large = from->large,
				     .expandable = from->expandable };

		if (s.bytes <= UINT64_MAX - s.addr)
			st = add(w, &s);
	}
	return st;
}

static void reverse(struct segment *s, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		struct segment kept = s[i];

		s[i] = s[n - 1 - i];
		s[n - 1 - i] = kept;
	}
}

enum plim_status segments_find(struct segments *s, struct mem *m, const struct trace *t,
			       const struct trace_device *d, struct plim_err *err)
{
	struct walk w = { .mem = m, .ev = &d->events, .out = s, .err = err };
	enum plim_status st;

	*s = (struct segments){ .mem = m };
	st = stand_at_end(&w, t, d);
	for (size_t e = d->events.n; !st && e-- > 0;)
		if (d->events.action[e] >= TRACE_SEGMENT_ALLOC &&
		    d->events.action[e] <= TRACE_SEGMENT_UNMAP)
			st = undo(&w, (uint32_t)e);
	for (size_t i = w.live.n; !st && i-- > 0;)
		st = vec_push(m, &s->rows, w.live.at[i], err);
	if (!st)
		reverse(s->rows.at, s->rows.n);
	vec_release(m, &w.live);
	return st;
}

void segments_release(struct segments *s)
{
	vec_release(s->mem, &s->rows);
}
