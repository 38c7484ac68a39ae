/* Physical memory under the ranges: mapped where it is needed, given back where it is not. */
#include "vmm_parts.h"

/*
 * Growing and moving cost by the handle, whatever its size, but only what is wholly free can move: a handle is a small part of the
 * request that it is made for, or, for what a plan places, which lies close and stays, of all that is mapped.  Near the limit they are
 * as small as the driver has them.
 */
#define LARGE_HANDLE ((uint64_t)8 << 20)
#define LARGE_PART 32u
#define PLANNED_HANDLE ((uint64_t)16 << 20)
#define PLANNED_PART 512u

/* Mapped memory may exceed the most that was live by this part and so much before handles are moved. */
#define TIDY_PART 128u
#define TIDY_BYTES ((uint64_t)32 << 20)

/*
 * Moves, and waits for other streams, may take this long at first (what is learned is moved to its place once), and this part of the
 * time that passes: two thirds to be tidy, all of it to need no more than expandable segments.  With less, recordings of trainings
 * reserve more (docs/evidence/allocator.md, "What a move costs").
 */
#define MOVE_NS ((uint64_t)2000000000)
#define MOVE_PART_OF_TIME 100u

/* ---- handles ---- */

static size_t slot_of(const struct vmm_region *r, uint64_t addr)
{
	return (size_t)((addr - r->base) / VMM_SLOT);
}

static const struct vmm_handle *handle_at(const struct vmm *a, const struct vmm_region *r,
					  uint64_t addr)
{
	return &a->handles.at[r->handle_of.at[slot_of(r, addr)] - 1];
}

static int handle_map(struct vmm *a, struct vmm_region *r, uint64_t addr, uint64_t bytes)
{
	size_t slot = slot_of(r, addr), slots = (size_t)(bytes / VMM_SLOT);
	struct vmm_handle h = { .addr = addr, .bytes = bytes };
	uint32_t n = a->spare_handle;

	if (slot + slots > r->handle_of.n &&
	    vec_need(a->mem, &r->handle_of, slot + slots - r->handle_of.n, &a->err))
		return 0;
	if (n == VMM_NONE && vec_need(a->mem, &a->handles, 1, &a->err))
		return 0;
	if (!a->driver.map(a->driver.self, addr, bytes, &h.handle))
		return 0;
	while (r->handle_of.n < slot + slots)
		r->handle_of.at[r->handle_of.n++] = 0;
	if (n == VMM_NONE)
		n = (uint32_t)a->handles.n++;
	else
		a->spare_handle = a->handles.at[n].spare;
	a->handles.at[n] = h;
	for (size_t i = 0; i < slots; i++)
		r->handle_of.at[slot + i] = n + 1;
	r->mapped_bytes += bytes;
	a->counts.mapped_bytes += bytes;
	if (a->counts.mapped_bytes > a->counts.mapped_peak_bytes)
		a->counts.mapped_peak_bytes = a->counts.mapped_bytes;
	a->counts.maps++;
	return 1;
}

/* All handles of [addr, end), which begins and ends with one. */
static void handles_unmap(struct vmm *a, struct vmm_region *r, uint64_t addr, uint64_t end)
{
	while (addr < end) {
		size_t slot = slot_of(r, addr);
		uint32_t n = r->handle_of.at[slot] - 1;
		struct vmm_handle h = a->handles.at[n];

		a->driver.unmap(a->driver.self, h.addr, h.bytes, h.handle);
		for (size_t i = 0; i < h.bytes / VMM_SLOT; i++)
			r->handle_of.at[slot + i] = 0;
		a->handles.at[n].spare = a->spare_handle;
		a->spare_handle = n;
		r->mapped_bytes -= h.bytes;
		a->counts.mapped_bytes -= h.bytes;
		a->counts.unmaps++;
		addr = h.addr + h.bytes;
	}
}

void vmm_unmap_all(struct vmm *a, struct vmm_region *r)
{
	for (size_t slot = 0; slot < r->handle_of.n; slot++)
		if (r->handle_of.at[slot] && r->handle_of.at[slot] < VMM_ELSEWHERE) {
			const struct vmm_handle *h = &a->handles.at[r->handle_of.at[slot] - 1];

			handles_unmap(a, r, h->addr, h->addr + h->bytes);
		}
}

/* Of new memory for `bytes`. */
static uint64_t largest_handle(const struct vmm *a, const struct vmm_region *r, uint64_t bytes)
{
	uint64_t mapped = a->counts.mapped_bytes, limit = a->limit_bytes;
	uint64_t part = bytes / LARGE_PART, most = mapped < limit / 2 ? LARGE_HANDLE : VMM_SLOT;

	if (r->kind == VMM_PLANNED && mapped < limit - limit / 16) {
		part = mapped / PLANNED_PART;
		most = PLANNED_HANDLE;
	}
	while (most > VMM_SLOT && most > part)
		most /= 2;
	return most;
}

void vmm_note_free(struct vmm *a, const struct vmm_node *b)
{
	const struct vmm_region *r = &a->regions.at[b->region];
	uint64_t at = b->addr;

	a->lanes.at[r->lane].freed = ++a->frees;
	while (at < b->addr + b->bytes) {
		struct vmm_handle *h = &a->handles.at[r->handle_of.at[slot_of(r, at)] - 1];

		h->freed = a->frees;
		at = h->addr + h->bytes;
	}
}

/* ---- how far streams have come ---- */

static void lane_passed(struct vmm_lane *l, uint64_t frees)
{
	l->reached = l->reached > frees ? l->reached : frees;
}

static struct vmm_mark lane_first_mark(struct vmm_lane *l)
{
	struct vmm_mark first = l->marks[0];

	l->mark_count--;
	for (uint32_t i = 0; i < l->mark_count; i++)
		l->marks[i] = l->marks[i + 1];
	return first;
}

/* Marks cost microseconds, and are made only while memory is short. */
static void lane_look(struct vmm *a, struct vmm_lane *l)
{
	struct vmm_driver *d = &a->driver;
	uint64_t last;

	while (l->mark_count && d->reached(d->self, l->marks[0].mark))
		lane_passed(l, lane_first_mark(l).frees);
	last = l->mark_count ? l->marks[l->mark_count - 1].frees : l->reached;
	if (last < l->freed) {
		int full = l->mark_count == VMM_MARKS;
		struct vmm_mark *m = &l->marks[l->mark_count - (uint32_t)full];
		uint64_t mark = d->mark(d->self, l->stream, full ? m->mark : 0);

		if (mark) {
			*m = (struct vmm_mark){ mark, a->frees };
			l->mark_count += !full;
		}
	}
}

/* Until the stream has passed so many frees.  A mark is taken out before it is waited for: others may come meanwhile. */
static int lane_wait(struct vmm *a, uint32_t lane, uint64_t frees)
{
	struct vmm_driver *d = &a->driver;

	while (a->lanes.at[lane].reached < frees) {
		struct vmm_lane *l = &a->lanes.at[lane];
		struct vmm_mark m = { 0, a->frees };

		if (l->mark_count)
			m = lane_first_mark(l);
		else
			m.mark = d->mark(d->self, l->stream, 0);
		if (!m.mark || !d->wait(d->self, m.mark))
			return 0;
		lane_passed(&a->lanes.at[lane], m.frees);
	}
	return 1;
}

/* ---- addresses that were left ---- */

/*
 * Frees after which a left address is used again.  By then the stream has usually passed it.  If time decided, the places of requests,
 * and what is reserved, would differ between two runs of one program.
 */
#define LEFT_FREES 640u

static int is_over(const struct vmm *a, const struct vmm_left *l)
{
	return l->freed <= a->lanes.at[a->regions.at[a->nodes.at[l->node].region].lane].reached;
}

static void left_drop(struct vmm *a, uint32_t n)
{
	const struct vmm_node *b = &a->nodes.at[n];
	struct vmm_region *r = &a->regions.at[b->region];
	size_t slot = slot_of(r, b->addr), end = slot + (size_t)(b->bytes / VMM_SLOT);

	a->driver.drop(a->driver.self, b->addr, b->bytes);
	while (slot < end) {
		struct vmm_handle *h = &a->handles.at[(r->handle_of.at[slot] & ~VMM_ELSEWHERE) - 1];

		h->lefts--;
		for (size_t i = 0; i < h->bytes / VMM_SLOT; i++)
			r->handle_of.at[slot++] = 0;
	}
	vmm_settle(a, n, VMM_UNMAPPED);
}

/* Those left at this count of frees or before.  How many are had again: their nodes may have joined others. */
static size_t left_look(struct vmm *a, uint64_t frees)
{
	size_t kept = 0, had = a->left.n;

	for (size_t i = 0; i < a->left.n; i++) {
		struct vmm_left l = a->left.at[i];

		if (l.frees > frees || !is_over(a, &l)) {
			a->left.at[kept++] = l;
			continue;
		}
		left_drop(a, l.node);
	}
	a->left.n = kept;
	return had - kept;
}

static size_t look_at_streams(struct vmm *a)
{
	uint64_t began = a->driver.now_ns(a->driver.self);
	size_t had;

	for (uint32_t i = 0; i < a->lanes.n; i++)
		lane_look(a, &a->lanes.at[i]);
	had = a->frees > LEFT_FREES ? left_look(a, a->frees - LEFT_FREES) : 0;
	a->counts.moved_ns += a->driver.now_ns(a->driver.self) - began;
	return had;
}

/* A wait whose time counts.  False: it cannot be waited for now. */
static int wait_for_lane(struct vmm *a, uint32_t lane, uint64_t frees)
{
	uint64_t began = a->driver.now_ns(a->driver.self);
	int passed = lane_wait(a, lane, frees);

	a->counts.moved_ns += a->driver.now_ns(a->driver.self) - began;
	return passed;
}

/* ---- what can move ---- */

#define SOURCES_MAX 64u

/* Free nodes that memory can be taken from. */
struct sources {
	uint32_t node[SOURCES_MAX];
	uint32_t n;
	uint64_t bytes;
};

/* What is looked for. */
struct wanted {
	uint64_t bytes;
	int must;                      /* also what a plan will need again */
	int unpassed;                  /* also what other streams have not passed yet */
	uint64_t most;                 /* of a handle */
	uint32_t lane;                 /* the own; VMM_NONE: none */
	const struct vmm_place *place; /* not next to it; or NULL */
	uint64_t place_bytes;
};

/* What a plan that is followed will need again lies below this address. */
static uint64_t kept_below(const struct vmm *a, const struct vmm_region *r)
{
	const struct cycle_lane *l = &a->lanes.at[r->lane].cycles;

	if (r->kind != VMM_PLANNED || a->mirrors || !l->following || !l->trusted)
		return r->base;
	return r->base + (uint64_t)l->cycles[l->current].area_units * VMM_UNIT;
}

static int has_passed(const struct vmm *a, const struct vmm_region *r, uint64_t addr)
{
	return handle_at(a, r, addr)->freed <= a->lanes.at[r->lane].reached;
}

/* May it move without a wait?  What the wanter's own stream used is in that stream's order; another stream must have passed it. */
static int is_wanted(const struct vmm *a, const struct vmm_region *r, uint64_t addr,
		     const struct wanted *w)
{
	return handle_at(a, r, addr)->bytes <= w->most &&
	       (w->unpassed || r->lane == w->lane || has_passed(a, r, addr));
}

/* Wanted handles that lie wholly in a free node: *from to *to, the last ones, `most` bytes of them. */
static uint64_t whole_handles(const struct vmm *a, const struct vmm_node *b, const struct wanted *w,
			      uint64_t most, uint64_t *from, uint64_t *to)
{
	const struct vmm_region *r = &a->regions.at[b->region];
	uint64_t end = b->addr + b->bytes, low = b->addr, at;
	uint64_t kept = w->must ? r->base : kept_below(a, r);
	const struct vmm_handle *h;

	low = low > kept ? low : kept;
	if (low >= end)
		return 0;
	h = handle_at(a, r, low);
	low = h->addr < low ? h->addr + h->bytes : h->addr;
	if (low >= end)
		return 0;
	h = handle_at(a, r, end - 1);
	*to = h->addr + h->bytes > end ? h->addr : h->addr + h->bytes;
	while (*to > low && !is_wanted(a, r, *to - 1, w))
		*to = handle_at(a, r, *to - 1)->addr;
	for (at = *to; at > low && *to - at < most && is_wanted(a, r, at - 1, w);)
		at = handle_at(a, r, at - 1)->addr;
	*from = at;
	return *to > at ? *to - at : 0;
}

static int overlaps(const struct vmm_node *b, const struct wanted *w)
{
	const struct vmm_place *p = w->place;

	return p && b->region == p->region && b->addr < p->addr + w->place_bytes + VMM_SLOT &&
	       p->addr < b->addr + b->bytes + VMM_SLOT;
}

/* Which free nodes of a region could give something, the largest first; not those of the place itself. */
static void choose_room(const struct vmm *a, const struct vmm_region *r, const struct wanted *w,
			struct sources *out)
{
	struct freeset_cursor c = { FREESET_SHELVES, 0, 0 };

	while (out->bytes < w->bytes && out->n < SOURCES_MAX && freeset_prev(&r->free, &c)) {
		const struct freeset_key *key = freeset_get(&r->free, c);
		uint64_t from, to, given;

		if (key->bytes < VMM_SLOT)
			return;
		if (overlaps(&a->nodes.at[key->block], w))
			continue;
		given = whole_handles(a, &a->nodes.at[key->block], w, w->bytes - out->bytes, &from,
				      &to);
		if (!given)
			continue;
		out->bytes += given;
		out->node[out->n++] = key->block;
	}
}

/*
 * Who gives first: what lies free, then plans what they do not need now, whose addresses are wanted again soon.  Small requests will
 * want theirs again, and what mirrors give is mapped there again.
 */
static const enum vmm_kind giving[] = { VMM_LARGES, VMM_PLANNED, VMM_SMALLS, VMM_MIRROR };

static int may_give(const struct vmm *a, const struct vmm_region *r)
{
	const struct vmm_lane *l = &a->lanes.at[r->lane];

	return r->first != VMM_NONE && (!l->pool || l->dropped);
}

/* The own stream's before others'. */
static void gather(const struct vmm *a, const struct wanted *w, struct sources *out)
{
	*out = (struct sources){ .n = 0 };
	for (unsigned turn = 0; turn < 2 * VMM_KINDS; turn++)
		for (uint32_t i = 0; i < a->regions.n && out->bytes < w->bytes; i++) {
			const struct vmm_region *r = &a->regions.at[i];

			if (r->kind == giving[turn / 2] && (r->lane == w->lane) == !(turn % 2) &&
			    may_give(a, r))
				choose_room(a, r, w, out);
		}
}

/* Wait for the streams that have not passed something wanted yet.  False: there is none, or it cannot be waited for. */
static int wait_for_streams(struct vmm *a, struct wanted w)
{
	uint32_t lane[SOURCES_MAX];
	struct sources s;
	int waited = 0;

	w.unpassed = 1;
	gather(a, &w, &s);
	for (uint32_t i = 0; i < s.n; i++)
		lane[i] = a->regions.at[a->nodes.at[s.node[i]].region].lane;
	for (uint32_t i = 0; i < s.n; i++) { /* others may change the nodes during a wait */
		const struct vmm_lane *l = &a->lanes.at[lane[i]];

		if (l->reached < l->freed && lane[i] != w.lane)
			waited |= wait_for_lane(a, lane[i], l->freed);
	}
	return waited;
}

/* ---- mapping ---- */

/* What is being mapped: the node, from `at` to `to` and, if a large handle comes, beyond. */
struct filling {
	uint32_t node;
	uint64_t at, to;
	uint64_t bytes;      /* of the request */
	uint64_t most_bytes; /* that may be mapped in all */
	uint64_t moves;      /* bytes that are still to come from elsewhere */
	uint64_t moved_bytes;
};

/*
 * The handle at `from` of a free node is mapped where the next one is to be, as well; it counts as moved.  False: it does not fit, or
 * cannot be.
 */
static int handle_move(struct vmm *a, const struct filling *f, uint64_t from, struct vmm_region *r)
{
	struct vmm_region *into = &a->regions.at[a->nodes.at[f->node].region];
	uint32_t n = r->handle_of.at[slot_of(r, from)] - 1;
	struct vmm_handle *h = &a->handles.at[n];
	size_t old = slot_of(r, from), slot = slot_of(into, f->at);
	size_t slots = (size_t)(h->bytes / VMM_SLOT);

	if (f->at + h->bytes > a->nodes.at[f->node].addr + a->nodes.at[f->node].bytes)
		return 0;
	if (slot + slots > into->handle_of.n &&
	    vec_need(a->mem, &into->handle_of, slot + slots - into->handle_of.n, &a->err))
		return 0;
	if (!a->driver.alias(a->driver.self, from, f->at, h->bytes, h->handle))
		return 0;
	while (into->handle_of.n < slot + slots)
		into->handle_of.at[into->handle_of.n++] = 0;
	for (size_t i = 0; i < slots; i++) {
		r->handle_of.at[old + i] = (n + 1) | VMM_ELSEWHERE;
		into->handle_of.at[slot + i] = n + 1;
	}
	r->mapped_bytes -= h->bytes;
	into->mapped_bytes += h->bytes;
	h->addr = f->at;
	h->lefts++;
	h->freed = r->lane == into->lane ? h->freed : 0;
	a->counts.maps++;
	a->counts.unmaps++;
	a->counts.moved_bytes += h->bytes;
	return 1;
}

/* Cut [from, to) out of a free node, and the rest stays free. */
static uint32_t cut_out(struct vmm *a, uint32_t n, uint64_t from, uint64_t to)
{
	vmm_unfile(a, n);
	if (a->nodes.at[n].addr < from) {
		uint32_t rest = vmm_cut(a, n, from);

		vmm_file(a, n);
		n = rest;
	}
	if (a->nodes.at[n].addr + a->nodes.at[n].bytes > to)
		vmm_file(a, vmm_cut(a, n, to));
	return n;
}

/* Its memory moved: from here on only what is queued may use the addresses.  There is room in `left`. */
static void leave(struct vmm *a, uint32_t n, uint64_t freed)
{
	a->nodes.at[n].state = VMM_LEFT;
	a->left.at[a->left.n++] = (struct vmm_left){ n, freed, a->frees };
}

/* Handles of one free node move, up to one that does not fit.  False: none did. */
static int take_from(struct vmm *a, struct filling *f, uint32_t n, const struct wanted *w)
{
	struct vmm_region *r = &a->regions.at[a->nodes.at[n].region];
	uint64_t from, to, at, freed = 0;

	if (vmm_node_room(a, 10) || vec_need(a->mem, &a->left, 1, &a->err) ||
	    !whole_handles(a, &a->nodes.at[n], w, f->moves, &from, &to))
		return 0;
	for (at = from; at < to && f->moves;) {
		struct vmm_handle h = *handle_at(a, r, at);

		if (!handle_move(a, f, at, r))
			break;
		at += h.bytes;
		freed = h.freed > freed ? h.freed : freed;
		f->at += h.bytes;
		f->moved_bytes += h.bytes;
		f->moves -= h.bytes < f->moves ? h.bytes : f->moves;
	}
	if (at == from)
		return 0;
	leave(a, cut_out(a, n, from, at), freed);
	return 1;
}

static void take_sources(struct vmm *a, struct filling *f, const struct sources *s,
			 const struct wanted *w)
{
	uint64_t began = a->driver.now_ns(a->driver.self);
	uint32_t i = 0;

	while (f->moves && f->at < f->to && i < s->n) {
		uint32_t n = s->node[i];
		uint64_t addr = a->nodes.at[n].addr;

		if (!take_from(a, f, n, w) || a->nodes.at[n].state != VMM_FREE ||
		    a->nodes.at[n].addr != addr)
			i++;
	}
	a->counts.moves += f->moved_bytes != 0;
	a->counts.moved_ns += a->driver.now_ns(a->driver.self) - began;
}

/* New memory for what is left to be mapped. */
static void take_new(struct vmm *a, struct filling *f)
{
	struct vmm_region *r = &a->regions.at[a->nodes.at[f->node].region];

	while (f->at < f->to) {
		uint64_t most = largest_handle(a, r, f->bytes);
		uint64_t end = (f->at + most) & ~(most - 1);

		end = end < f->to ? end : f->to;
		if (a->counts.mapped_bytes + (end - f->at) > f->most_bytes ||
		    !handle_map(a, r, f->at, end - f->at))
			return;
		f->at = end;
	}
}

/* The first piece of a place that is not mapped begins here, in that node. */
static uint64_t first_piece(const struct vmm *a, const struct vmm_place *p, uint32_t *node)
{
	uint32_t n = p->node;

	while (a->nodes.at[n].state != VMM_UNMAPPED)
		n = a->nodes.at[n].next;
	*node = n;
	return a->nodes.at[n].addr > p->addr ? a->nodes.at[n].addr : p->addr & ~(VMM_SLOT - 1);
}

/* Its node is taken out.  Nodes join afterwards, so other pieces are found anew. */
static int begin_filling(struct vmm *a, const struct vmm_place *p, uint64_t end, struct filling *f)
{
	uint64_t to = (end + VMM_SLOT - 1) & ~(VMM_SLOT - 1);
	const struct vmm_node *b;
	uint32_t n;

	f->at = first_piece(a, p, &n);
	b = &a->nodes.at[n];
	f->to = to < b->addr + b->bytes ? to : b->addr + b->bytes;
	vmm_unfile(a, n);
	if (b->addr < f->at) {
		uint32_t rest = vmm_cut(a, n, f->at);

		if (vmm_file(a, n))
			return 0;
		n = rest;
	}
	/* like none of its neighbours, which it must not join yet */
	a->nodes.at[n].state = VMM_FILLING;
	f->node = n;
	return 1;
}

/* What was mapped is free; the rest is not mapped. */
static void end_filling(struct vmm *a, const struct filling *f)
{
	uint32_t n = f->node;
	uint64_t addr = a->nodes.at[n].addr;

	if (f->at < addr + a->nodes.at[n].bytes) {
		uint32_t rest = f->at > addr ? vmm_cut(a, n, f->at) : n;

		if (vmm_settle(a, rest, VMM_UNMAPPED))
			return;
	}
	if (f->at > addr)
		vmm_settle(a, n, VMM_FREE);
}

static uint64_t tidy_bytes(const struct vmm *a, uint64_t bytes)
{
	uint64_t live = a->counts.used_bytes + bytes;

	live = live > a->counts.used_peak_bytes ? live : a->counts.used_peak_bytes;
	return live + live / TIDY_PART + TIDY_BYTES;
}

/* What expandable segments would have reserved by now, and a little. */
static uint64_t bound_bytes(const struct vmm *a)
{
	const struct vmm_counts *c = &a->counts;

	if (!a->compares)
		return UINT64_MAX;
	return (c->expandable_bytes > c->expandable_peak_bytes ? c->expandable_bytes
							       : c->expandable_peak_bytes) +
	       TIDY_BYTES;
}

/* May time be spent on moves?  `thirds` of what may be spent at all. */
static int may_move(const struct vmm *a, unsigned thirds)
{
	uint64_t passed = a->driver.now_ns(a->driver.self) - a->began_ns;

	return 3 * a->counts.moved_ns < thirds * (MOVE_NS + passed / MOVE_PART_OF_TIME);
}

/*
 * Once the time for moves is used up and expandable segments would reserve no more, requests go where those have them.  It stays so:
 * the most that is reserved is no longer below theirs.  What the other ranges have free leaves, which may take a third more time.
 */
#define MIRROR_THIRDS 4u

static int begin_mirrors(struct vmm *a, uint64_t after, uint64_t bound)
{
	if (a->mirrors || !a->compares || after <= bound - TIDY_BYTES || may_move(a, 3))
		return 0;
	a->mirrors = 1;
	return 1;
}

/* Map something of the first piece of the place that is not mapped, out of sources and new.  False: the place is as it was. */
static int fill(struct vmm *a, const struct wanted *w, const struct sources *s, uint64_t most)
{
	const struct vmm_place *p = w->place;
	struct filling f = { .bytes = w->place_bytes, .most_bytes = most, .moves = w->bytes };
	uint64_t from;

	if (!begin_filling(a, p, p->addr + w->place_bytes, &f))
		return 0;
	from = f.at;
	take_sources(a, &f, s, w);
	take_new(a, &f);
	end_filling(a, &f);
	return f.at > from;
}

/* Up to 64 pieces of free memory that streams have passed.  False: there is none. */
static int give_back_some(struct vmm *a)
{
	struct wanted w = { .bytes = UINT64_MAX, .must = 1, .most = UINT64_MAX, .lane = VMM_NONE };
	struct sources s;

	gather(a, &w, &s);
	for (uint32_t i = 0; i < s.n; i++) {
		uint32_t n = s.node[i];
		uint64_t from, to;

		if (vmm_node_room(a, 2) ||
		    !whole_handles(a, &a->nodes.at[n], &w, w.bytes, &from, &to))
			return 0;
		n = cut_out(a, n, from, to);
		handles_unmap(a, &a->regions.at[a->nodes.at[n].region], from, to);
		vmm_settle(a, n, VMM_UNMAPPED);
	}
	return s.n != 0;
}

void vmm_give_back(struct vmm *a)
{
	for (uint32_t i = 0; i < a->lanes.n; i++)
		if (!a->lanes.at[i].pool || a->lanes.at[i].dropped)
			wait_for_lane(a, i, a->lanes.at[i].freed);
	left_look(a, UINT64_MAX);
	while (!a->left.n && give_back_some(a)) /* what is mapped elsewhere too would not be free */
		;
}

/*
 * Handles that are too large for the place go back to the driver, up to `bytes`, so that smaller ones can be made: those that streams
 * have passed and that are mapped nowhere else.  True: all is to be looked at again.
 */
static int release_large(struct vmm *a, struct wanted w, uint64_t bytes)
{
	uint64_t least = w.most, released = 0;
	struct sources s;

	if (left_look(a, a->frees))
		return 1;
	w.lane = VMM_NONE;
	w.most = w.bytes = UINT64_MAX;
	gather(a, &w, &s);
	for (uint32_t i = 0; i < s.n && released < bytes; i++) {
		uint32_t n = s.node[i];
		struct vmm_region *r = &a->regions.at[a->nodes.at[n].region];
		uint64_t at, to;

		if (vmm_node_room(a, 10) ||
		    !whole_handles(a, &a->nodes.at[n], &w, w.bytes, &at, &to))
			continue;
		while (at < to &&
		       (handle_at(a, r, at)->bytes <= least || handle_at(a, r, at)->lefts))
			at = handle_at(a, r, at)->addr + handle_at(a, r, at)->bytes;
		if (at == to)
			continue;
		to = at + handle_at(a, r, at)->bytes;
		n = cut_out(a, n, at, to);
		handles_unmap(a, r, at, to);
		vmm_settle(a, n, VMM_UNMAPPED);
		released += to - at;
	}
	return released != 0;
}

/* For handles that are too large: what is given back is made again in small ones, so such waits are few. */
static int wait_for_own(struct vmm *a, uint32_t lane)
{
	const struct vmm_lane *l = &a->lanes.at[lane];

	return l->reached < l->freed && wait_for_lane(a, lane, l->freed);
}

/* How much is mapped once a place has what it lacks, and how much of it is wanted. */
struct goal {
	uint64_t after;
	uint64_t bound; /* expandable segments, and a little */
	uint64_t least; /* what is beyond moves rather than being new */
	uint64_t most;  /* what is beyond must move */
};

static struct goal goal_of(const struct vmm *a, const struct vmm_place *p, uint64_t bytes)
{
	uint64_t bound = bound_bytes(a), limit = a->limit_bytes, tidy = tidy_bytes(a, bytes);
	struct goal g = { .after = a->counts.mapped_bytes + p->need_bytes, .bound = bound };

	g.most = bound < limit ? bound : limit;
	g.least = tidy < g.most ? tidy : g.most;
	if (a->mirrors && a->compares)
		g.least = bound - TIDY_BYTES < limit ? bound - TIDY_BYTES : limit;
	return g;
}

/* What of `wanted` can move; true: streams were waited for, and all is to be looked at again. */
static int find_sources(struct vmm *a, const struct goal *g, struct wanted *w, struct sources *s)
{
	uint64_t needed = g->after > g->most ? g->after - g->most : 0;
	int must = g->after > a->limit_bytes, waits;

	if (!must && !a->mirrors && !may_move(a, g->after > g->bound ? 3 : 2))
		return 0;
	waits = must || !a->mirrors || (g->after > g->bound && may_move(a, MIRROR_THIRDS));
	w->bytes = g->after - g->least;
	gather(a, w, s);
	if (s->bytes < w->bytes && waits && wait_for_streams(a, *w))
		return 1;
	if (s->bytes >= needed)
		return 0;
	w->bytes = needed;
	w->must = 1;
	gather(a, w, s);
	if (s->bytes >= needed)
		return 0;
	return (waits && wait_for_streams(a, *w)) || release_large(a, *w, needed - s->bytes) ||
	       wait_for_own(a, w->lane);
}

int vmm_make_room(struct vmm *a, const struct vmm_place *p, uint64_t bytes, int any)
{
	struct goal g = goal_of(a, p, bytes);
	struct wanted w = { .lane = a->regions.at[p->region].lane,
			    .place = p,
			    .place_bytes = bytes };
	struct sources s = { .n = 0 };
	uint32_t n;
	uint64_t from = first_piece(a, p, &n);

	w.most = a->nodes.at[n].addr + a->nodes.at[n].bytes - from;
	if (g.after > g.least && look_at_streams(a))
		return 1;
	if (begin_mirrors(a, g.after, g.bound))
		return 1;
	if (g.after > g.least && find_sources(a, &g, &w, &s))
		return 1;
	if (!any)
		return g.after <= g.most + s.bytes && fill(a, &w, &s, g.most);
	if (fill(a, &w, &s, a->limit_bytes))
		return 1;
	/* the device has no more: of what is mapped, then */
	w.must = 1;
	w.bytes = p->need_bytes;
	gather(a, &w, &s);
	return s.n && fill(a, &w, &s, a->limit_bytes);
}

int vmm_is_left(struct vmm *a, uint32_t region, uint64_t addr, uint64_t bytes)
{
	for (size_t i = 0; i < a->left.n; i++) {
		const struct vmm_node *b = &a->nodes.at[a->left.at[i].node];

		if (b->region == region && b->addr < addr + bytes && addr < b->addr + b->bytes)
			return 1;
	}
	return 0;
}

int vmm_look(struct vmm *a)
{
	return a->left.n && a->left.at[0].frees + LEFT_FREES <= a->frees && look_at_streams(a);
}

void vmm_empty(struct vmm *a)
{
	vmm_give_back(a);
	vmm_beside_empty(a);
}

void vmm_drop_pool(struct vmm *a, uint64_t pool)
{
	for (uint32_t i = 0; i < a->lanes.n; i++)
		a->lanes.at[i].dropped |= a->lanes.at[i].pool == pool;
}
