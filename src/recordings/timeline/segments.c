/*
 * Reserved memory as rectangles: a range of addresses between two moments.  The walk goes from the end
 * backwards, because what stood before the first event is only known from there: what is freed begins to live,
 * what is taken from the driver ends.  Pages that were mapped as one and unmapped in parts come apart.
 */
#include "timeline.h"

#include <string.h>

/*
 * What is reserved at a moment, by address, in chunks: a recording may hold a million segments in the order
 * that suits a plain array least.
 */
#define CHUNK_SEGMENTS 256

struct chunk {
	uint32_t n; /* at least 1 */
	struct segment at[CHUNK_SEGMENTS];
};

struct walk {
	struct mem *mem;
	const struct snapshot_events *ev;
	VEC(struct chunk *) live;
	struct segments *out; /* what was, latest first, by falling address */
	struct plim_err *err;
};

/* A segment in the chunks; behind the last one, chunk is their number. */
struct place {
	size_t chunk;
	uint32_t i;
};

static int ends_by(const struct segment *s, uint64_t addr)
{
	return s->addr + s->bytes <= addr;
}

/* The first live one that ends behind `addr`. */
static struct place find_segment(const struct walk *w, uint64_t addr)
{
	struct place p = { .chunk = 0 };
	size_t high = w->live.n;
	const struct chunk *c;
	uint32_t end;

	while (p.chunk < high) {
		size_t mid = p.chunk + (high - p.chunk) / 2;

		c = w->live.at[mid];
		if (ends_by(&c->at[c->n - 1], addr))
			p.chunk = mid + 1;
		else
			high = mid;
	}
	if (p.chunk == w->live.n)
		return p;
	c = w->live.at[p.chunk];
	for (end = c->n; p.i < end;) {
		uint32_t mid = p.i + (end - p.i) / 2;

		if (ends_by(&c->at[mid], addr))
			p.i = mid + 1;
		else
			end = mid;
	}
	return p;
}

static struct segment *get(const struct walk *w, struct place p)
{
	return p.chunk < w->live.n ? &w->live.at[p.chunk]->at[p.i] : NULL;
}

/* The one in front of it, or NULL. */
static const struct segment *get_before(const struct walk *w, struct place p)
{
	const struct chunk *before = p.chunk ? w->live.at[p.chunk - 1] : NULL;

	if (p.chunk < w->live.n && p.i)
		return &w->live.at[p.chunk]->at[p.i - 1];
	return before ? &before->at[before->n - 1] : NULL;
}

/* An empty chunk in front of chunk `at`. */
static enum plim_status add_chunk(struct walk *w, size_t at)
{
	enum plim_status st = vec_need(w->mem, &w->live, 1, w->err);
	struct chunk *c = st ? NULL : mem_new(w->mem, 1, sizeof(*c), w->err);

	if (!c)
		return st ? st : mem_status(w->err);
	memmove(w->live.at + at + 1, w->live.at + at, (w->live.n - at) * sizeof(struct chunk *));
	w->live.at[at] = c;
	w->live.n++;
	return PLIM_OK;
}

static void drop_chunk(struct walk *w, size_t at)
{
	mem_free(w->mem, w->live.at[at], 1, sizeof(struct chunk));
	w->live.n--;
	memmove(w->live.at + at, w->live.at + at + 1, (w->live.n - at) * sizeof(struct chunk *));
}

/* Nothing live overlaps it. */
static enum plim_status insert(struct walk *w, const struct segment *s)
{
	struct place p = find_segment(w, s->addr);
	enum plim_status st = PLIM_OK;
	struct chunk *c;

	if (p.chunk == w->live.n && p.chunk) { /* behind the last one */
		p.chunk--;
		p.i = w->live.at[p.chunk]->n;
	}
	if (!w->live.n)
		st = add_chunk(w, 0);
	else if (w->live.at[p.chunk]->n == CHUNK_SEGMENTS)
		st = add_chunk(w, p.chunk + 1);
	if (st)
		return st;
	c = w->live.at[p.chunk];
	if (c->n == CHUNK_SEGMENTS) {
		struct chunk *half = w->live.at[p.chunk + 1];

		half->n = c->n = CHUNK_SEGMENTS / 2;
		memcpy(half->at, c->at + c->n, half->n * sizeof(*c->at));
		if (p.i > c->n) {
			p.i -= c->n;
			c = half;
		}
	}
	memmove(c->at + p.i + 1, c->at + p.i, (c->n - p.i) * sizeof(*c->at));
	c->at[p.i] = *s;
	c->n++;
	return PLIM_OK;
}

static void drop_segment(struct walk *w, struct place p)
{
	struct chunk *c = w->live.at[p.chunk];

	c->n--;
	memmove(c->at + p.i, c->at + p.i + 1, (c->n - p.i) * sizeof(*c->at));
	if (!c->n)
		drop_chunk(w, p.chunk);
}

/* It lives from here on, going backwards.  Where something does already the recording contradicts itself. */
static enum plim_status add_segment(struct walk *w, const struct segment *s)
{
	uint64_t at = s->addr, end = s->addr + s->bytes;
	enum plim_status st = PLIM_OK;

	while (!st && at < end) {
		const struct segment *next = get(w, find_segment(w, at));
		struct segment piece = *s;

		if (next && next->addr <= at) {
			at = next->addr + next->bytes;
			continue;
		}
		piece.addr = at;
		at = next && next->addr < end ? next->addr : end;
		piece.bytes = at - piece.addr;
		st = insert(w, &piece);
	}
	return st;
}

/* Take [from, to), which lies in that live one, out of it. */
static enum plim_status take_out(struct walk *w, struct place p, uint64_t from, uint64_t to)
{
	struct segment *s = get(w, p), behind = *s;
	uint64_t end = s->addr + s->bytes;

	behind.addr = to;
	behind.bytes = end - to;
	if (s->addr < from) {
		s->bytes = from - s->addr;
		return behind.bytes ? insert(w, &behind) : PLIM_OK;
	}
	if (behind.bytes)
		*s = behind;
	else
		drop_segment(w, p);
	return PLIM_OK;
}

/* What [fresh->addr, + bytes) holds was taken from the driver; parts whose end no one saw never end. */
static enum plim_status born(struct walk *w, const struct segment *fresh)
{
	uint64_t from = fresh->addr, to = fresh->addr + fresh->bytes;
	enum plim_status st = PLIM_OK;

	while (!st && to > from) { /* from above, so that all rows are in one order */
		struct place p = find_segment(w, to - 1);
		const struct segment *over = get(w, p), *before = get_before(w, p);
		struct segment piece = *fresh;

		if (over && over->addr < to) {
			piece = *over;
			piece.addr = piece.addr > from ? piece.addr : from;
			piece.born = fresh->born;
			st = take_out(w, p, piece.addr, to);
		} else if (before && before->addr + before->bytes > from) {
			piece.addr = before->addr + before->bytes;
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
	const struct snapshot_events *ev = w->ev;
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
	return gone ? add_segment(w, &s) : born(w, &s);
}

static enum plim_status stand_at_end(struct walk *w, const struct snapshot *t,
				     const struct snapshot_device *d)
{
	enum plim_status st = PLIM_OK;

	for (uint32_t i = 0; !st && i < d->segments; i++) {
		const struct snapshot_segment *from = &t->segments.at[d->first_segment + i];
		struct segment s = { .addr = from->addr,
				     .bytes = from->bytes,
				     .stream = from->stream,
				     .pool = from->pool,
				     .large = from->large,
				     .expandable = from->expandable };

		if (s.bytes <= UINT64_MAX - s.addr)
			st = add_segment(w, &s);
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

enum plim_status segments_find(struct segments *s, struct mem *m, const struct snapshot *t,
			       const struct snapshot_device *d, struct plim_err *err)
{
	struct walk w = { .mem = m, .ev = &d->events, .out = s, .err = err };
	enum plim_status st;

	*s = (struct segments){ .mem = m };
	if (t->profile.kind) /* it has totals, and no addresses of segments */
		return PLIM_OK;
	st = stand_at_end(&w, t, d);
	for (size_t e = d->events.n; !st && e-- > 0;)
		if (d->events.action[e] >= TRACE_SEGMENT_ALLOC &&
		    d->events.action[e] <= TRACE_SEGMENT_UNMAP)
			st = undo(&w, (uint32_t)e);
	for (size_t c = w.live.n; !st && c-- > 0;)
		for (uint32_t i = w.live.at[c]->n; !st && i-- > 0;)
			st = vec_push(m, &s->rows, w.live.at[c]->at[i], err);
	if (!st)
		reverse(s->rows.at, s->rows.n);
	while (w.live.n)
		drop_chunk(&w, w.live.n - 1);
	vec_release(m, &w.live);
	return st;
}

void segments_release(struct segments *s)
{
	vec_release(s->mem, &s->rows);
}
