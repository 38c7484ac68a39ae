/* Physical memory under the ranges: mapped where it is needed, given back where it is not. */
#include "vmm_parts.h"

/*
 * Growing costs by the handle (35 to 50 us on an H100 for any of these sizes), but only what is wholly free can move: handles are as
 * small as the driver has them, except for the middle of a large GPU, where there is room to spare, and for what a plan places, which
 * lies close and stays.
 */
#define COARSE_HANDLE ((uint64_t)8 << 20)
#define COARSE_FROM ((uint64_t)16 << 30) /* mapped bytes; and below half of the limit */
#define PLANNED_HANDLE ((uint64_t)16 << 20)
#define PLANNED_PART 512u /* of what is mapped, at most */

/* Mapped memory may exceed the most that was live by this part and so much before handles are moved. */
#define TIDY_PART 128u
#define TIDY_BYTES ((uint64_t)32 << 20)

/*
 * Waits for the GPU, and the calls behind them, may take this long at first (what is learned is moved to its place once), and this
 * part of the time that passes: two thirds to be tidy, all of it to need no more than expandable segments.  With less, recordings of
 * trainings reserve more (docs/evidence/allocator.md, "What waits may take").
 */
#define MOVE_NS ((uint64_t)2000000000)
#define MOVE_PART_OF_TIME 100u

/* Given back at once at least, so that waits are few: this, or this part of what is mapped. */
#define MOVE_BYTES ((uint64_t)64 << 20)
#define MOVE_PART 64u

#define LEAVING_MAX 64u

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
		if (r->handle_of.at[slot]) {
			const struct vmm_handle *h = &a->handles.at[r->handle_of.at[slot] - 1];

			handles_unmap(a, r, h->addr, h->addr + h->bytes);
		}
}

static uint64_t largest_handle(const struct vmm *a, const struct vmm_region *r)
{
	uint64_t mapped = a->counts.mapped_bytes, planned = PLANNED_HANDLE;

	while (planned > VMM_SLOT && planned > mapped / PLANNED_PART)
		planned /= 2;
	if (r->kind == VMM_PLANNED && mapped < a->limit_bytes - a->limit_bytes / 16)
		return planned;
	return mapped >= COARSE_FROM && mapped < a->limit_bytes / 2 ? COARSE_HANDLE : VMM_SLOT;
}

/* Map [from, to) of an unmapped node; what was mapped before a refusal stays, and is free. */
static int node_map(struct vmm *a, uint32_t n, uint64_t from, uint64_t to)
{
	struct vmm_region *r = &a->regions.at[a->nodes.at[n].region];
	uint64_t at = from;

	vmm_unfile(a, n);
	if (a->nodes.at[n].addr < from) {
		uint32_t rest = vmm_cut(a, n, from);

		if (vmm_file(a, n))
			return 0;
		n = rest;
	}
	a->nodes.at[n].state =
		VMM_LEAVING; /* like none of its neighbours, which it must not join yet */
	while (at < to) {
		uint64_t most = largest_handle(a, r);
		uint64_t end = (at + most) & ~(most - 1);

		end = end < to ? end : to;
		if (!handle_map(a, r, at, end - at))
			break;
		at = end;
	}
	if (at < a->nodes.at[n].addr + a->nodes.at[n].bytes) {
		uint32_t rest = at > from ? vmm_cut(a, n, at) : n;

		if (vmm_settle(a, rest, VMM_UNMAPPED))
			return 0;
	}
	if (at > from && vmm_settle(a, n, VMM_FREE))
		return 0;
	return at == to;
}

/* Everything of [addr, end) that is not mapped.  Nodes join while it goes on, so it begins again after each. */
static int place_map(struct vmm *a, const struct vmm_place *p, uint64_t end)
{
	uint32_t n = p->node;

	for (; n != VMM_NONE && a->nodes.at[n].addr < end; n = a->nodes.at[n].next) {
		const struct vmm_node *b = &a->nodes.at[n];
		uint64_t from, to = (end + VMM_SLOT - 1) & ~(VMM_SLOT - 1);

		if (b->state != VMM_UNMAPPED)
			continue;
		from = b->addr > p->addr ? b->addr : p->addr & ~(VMM_SLOT - 1);
		to = to < b->addr + b->bytes ? to : b->addr + b->bytes;
		return node_map(a, n, from, to);
	}
	return 1;
}

/* ---- giving back ---- */

/* What is looked for. */
struct wanted {
	uint64_t bytes;
	uint64_t enough_bytes; /* if so much was freed by `old`, what was freed later stays */
	uint64_t old;          /* count of frees */
	int must;              /* also what a plan will need again */
	int reached;           /* only what no stream can use: nothing is waited for */
	const struct vmm_place *place; /* not next to it; or NULL */
	uint64_t place_bytes;
};

struct leaving {
	uint32_t node[LEAVING_MAX];
	uint32_t n;
	uint64_t bytes;
};

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
	if (l->mark_count < VMM_MARKS && last < l->freed) {
		uint64_t mark = d->mark(d->self, l->stream);

		if (mark)
			l->marks[l->mark_count++] = (struct vmm_mark){ mark, a->frees };
	}
}

static void look_at_streams(struct vmm *a)
{
	for (uint32_t i = 0; i < a->lanes.n; i++)
		lane_look(a, &a->lanes.at[i]);
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
			m.mark = d->mark(d->self, l->stream);
		if (!m.mark || !d->wait(d->self, m.mark))
			return 0;
		lane_passed(&a->lanes.at[lane], m.frees);
	}
	return 1;
}

/* ---- what can be given ---- */

/* What a plan that is followed will need again lies below this address. */
static uint64_t kept_below(const struct vmm *a, const struct vmm_region *r)
{
	const struct cycle_lane *l = &a->lanes.at[r->lane].cycles;

	if (r->kind != VMM_PLANNED || a->mirrors || !l->following || !l->trusted)
		return r->base;
	return r->base + (uint64_t)l->cycles[l->current].area_units * VMM_UNIT;
}

static int is_old(const struct vmm *a, const struct vmm_region *r, uint64_t addr,
		  const struct wanted *w)
{
	uint64_t freed = handle_at(a, r, addr)->freed;

	return freed <= w->old && (!w->reached || freed <= a->lanes.at[r->lane].reached);
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
	while (*to > low && !is_old(a, r, *to - 1, w))
		*to = handle_at(a, r, *to - 1)->addr;
	for (at = *to; at > low && *to - at < most && is_old(a, r, at - 1, w);)
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
			struct leaving *out)
{
	struct freeset_cursor c = { FREESET_SHELVES, 0, 0 };

	while (out->bytes < w->bytes && out->n < LEAVING_MAX && freeset_prev(&r->free, &c)) {
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
 * Who gives first: plans what they do not need now, then what lies free.  Small requests will want theirs again, and what mirrors
 * give is mapped there again: no more of these than is needed.
 */
static const enum vmm_kind giving[] = { VMM_PLANNED, VMM_LARGES, VMM_SMALLS, VMM_MIRROR };

static int may_give(const struct vmm *a, const struct vmm_region *r)
{
	const struct vmm_lane *l = &a->lanes.at[r->lane];

	return r->first != VMM_NONE && (!l->pool || l->dropped);
}

/* Out of the free ones: no one gets them while their streams are waited for. */
static void take_out(struct vmm *a, struct leaving *out, const struct wanted *w)
{
	uint32_t kept = 0;

	out->bytes = 0;
	for (uint32_t i = 0; i < out->n; i++) {
		uint32_t n = out->node[i], rest;
		uint64_t from, to;
		uint64_t given =
			whole_handles(a, &a->nodes.at[n], w, w->bytes - out->bytes, &from, &to);

		if (vmm_node_room(a, 2))
			break;
		vmm_unfile(a, n);
		if (a->nodes.at[n].addr < from) {
			rest = vmm_cut(a, n, from);
			vmm_file(a, n);
			n = rest;
		}
		if (a->nodes.at[n].addr + a->nodes.at[n].bytes > to) {
			rest = vmm_cut(a, n, to);
			vmm_file(a, rest);
		}
		a->nodes.at[n].state = VMM_LEAVING;
		out->node[kept++] = n;
		out->bytes += given;
	}
	out->n = kept;
}

/* Until no stream can use what leaves. */
static int wait_for_room(struct vmm *a, const struct leaving *out)
{
	for (uint32_t i = 0; i < out->n; i++) {
		struct vmm_node b = a->nodes.at[out->node[i]]; /* a wait can move the nodes */
		uint32_t lane = a->regions.at[b.region].lane;
		uint64_t at = b.addr;

		while (at < b.addr + b.bytes) {
			const struct vmm_handle *h = handle_at(a, &a->regions.at[b.region], at);

			at = h->addr + h->bytes;
			if (!lane_wait(a, lane, h->freed))
				return 0;
		}
	}
	return 1;
}

static void gather_room(const struct vmm *a, const struct wanted *w, struct leaving *out)
{
	*out = (struct leaving){ .n = 0 };
	for (unsigned turn = 0; turn < VMM_KINDS; turn++)
		for (uint32_t i = 0;
		     i < a->regions.n && out->bytes < (turn < 2 ? w->bytes : w->enough_bytes); i++)
			if (a->regions.at[i].kind == giving[turn] && may_give(a, &a->regions.at[i]))
				choose_room(a, &a->regions.at[i], w, out);
}

/* Give what is wanted back, if there is so much, and `must` bytes of it also if a plan will need them again.  What was given. */
static uint64_t give_back(struct vmm *a, struct wanted w, uint64_t must)
{
	struct leaving out;
	int waited;

	gather_room(a, &w, &out);
	if (out.bytes < w.enough_bytes && w.old < UINT64_MAX) {
		w.old = UINT64_MAX;
		gather_room(a, &w, &out);
	}
	if (out.bytes < must) {
		w.bytes = w.enough_bytes = must;
		w.must = 1;
		gather_room(a, &w, &out);
	}
	take_out(a, &out, &w);
	if (!out.n)
		return 0;
	waited = wait_for_room(a, &out);
	for (uint32_t i = 0; i < out.n; i++) {
		struct vmm_node *b = &a->nodes.at[out.node[i]];

		if (waited)
			handles_unmap(a, &a->regions.at[b->region], b->addr, b->addr + b->bytes);
		vmm_settle(a, out.node[i], waited ? VMM_UNMAPPED : VMM_FREE);
	}
	if (!waited)
		return 0;
	a->counts.moved_bytes += out.bytes;
	return out.bytes;
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

static int move(struct vmm *a, const struct wanted *w, uint64_t must)
{
	uint64_t began = a->driver.now_ns(a->driver.self);
	int moved = give_back(a, *w, must) != 0;

	a->counts.moves += moved;
	a->counts.moved_ns += a->driver.now_ns(a->driver.self) - began;
	a->frees_at_move = a->frees;
	return moved;
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

int vmm_make_room(struct vmm *a, const struct vmm_place *p, uint64_t bytes, int any)
{
	uint64_t after = a->counts.mapped_bytes + p->need_bytes, tidy = tidy_bytes(a, bytes);
	uint64_t bound = bound_bytes(a), least = tidy < bound ? tidy : bound;
	uint64_t most = bound < a->limit_bytes ? bound : a->limit_bytes;
	uint64_t batch = a->counts.mapped_bytes / MOVE_PART;
	int must = after > a->limit_bytes;
	struct wanted w = { .old = a->frees_at_move, .place = p, .place_bytes = bytes };

	if (a->mirrors && a->compares)
		least = bound - TIDY_BYTES;
	if (after > least)
		look_at_streams(a);
	if (begin_mirrors(a, after, bound))
		return 1;
	w.reached = a->mirrors && !must && (after <= bound || !may_move(a, MIRROR_THIRDS));
	if (must || (after > least && (a->mirrors || may_move(a, after > bound ? 3 : 2)))) {
		least = must && most < least ? most : least;
		batch = batch > MOVE_BYTES ? batch : MOVE_BYTES;
		w.enough_bytes = after - least;
		w.bytes = w.enough_bytes > batch ? w.enough_bytes : batch;
		if (a->mirrors && !must)
			w.bytes = UINT64_MAX;
		if (move(a, &w, after > most ? after - most : 0))
			return 1;
	}
	if (must || (after > bound && !any))
		return 0;
	if (place_map(a, p, p->addr + bytes))
		return 1;
	/* the device has no more: of what is mapped, then */
	a->counts.moves++;
	w.bytes = w.enough_bytes = p->need_bytes;
	w.reached = 0;
	w.old = UINT64_MAX;
	return give_back(a, w, p->need_bytes) != 0;
}

void vmm_empty(struct vmm *a)
{
	struct wanted w = { .bytes = UINT64_MAX, .enough_bytes = UINT64_MAX, .old = UINT64_MAX };

	while (give_back(a, w, UINT64_MAX))
		;
	vmm_beside_empty(a);
}

void vmm_drop_pool(struct vmm *a, uint64_t pool)
{
	for (uint32_t i = 0; i < a->lanes.n; i++)
		a->lanes.at[i].dropped |= a->lanes.at[i].pool == pool;
}
