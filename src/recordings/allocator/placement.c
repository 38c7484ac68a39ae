#include "placement.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK ((uint64_t)32 << 20)
#define TOP ((uint64_t)1 << 47) /* of a process; chunks come from here downwards */

static uint64_t chunks(uint64_t bytes)
{
	return (bytes + CHUNK - 1) / CHUNK * CHUNK;
}

/* Would it have a chunk of its own? */
static int is_large(uint64_t bytes)
{
	return bytes > CHUNK / 2;
}

/* The first of n, by address, that does not lie below. */
static size_t first_at(const struct placement_hole *h, size_t n, uint64_t addr)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (h[mid].addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void hole_remove(struct placement *p, size_t at)
{
	p->holes.n--;
	memmove(p->holes.at + at, p->holes.at + at + 1, (p->holes.n - at) * sizeof(*p->holes.at));
}

/* A new hole joins those it touches. */
static void hole_add(struct placement *p, uint64_t addr, uint64_t bytes)
{
	size_t at = first_at(p->holes.at, p->holes.n, addr);
	struct placement_hole *h;

	if (!bytes)
		return;
	if (vec_need(p->mem, &p->holes, 1, p->err)) {
		p->failed = mem_status(p->err);
		return;
	}
	memmove(p->holes.at + at + 1, p->holes.at + at, (p->holes.n - at) * sizeof(*h));
	p->holes.at[at] = (struct placement_hole){ addr, bytes };
	p->holes.n++;
	h = &p->holes.at[at];
	if (at + 1 < p->holes.n && h[0].addr + h[0].bytes == h[1].addr) {
		h->bytes += h[1].bytes;
		hole_remove(p, at + 1);
	}
	if (at && h[-1].addr + h[-1].bytes == h[0].addr) {
		h[-1].bytes += h->bytes;
		hole_remove(p, at);
	}
}

/* Does a segment fit there?  What needs chunks of its own begins at one: *skip bytes further. */
static int placement_fits(const struct placement_hole *h, uint64_t bytes, uint64_t *skip)
{
	*skip = is_large(bytes) ? chunks(h->addr) - h->addr : 0;
	return h->bytes >= *skip && h->bytes - *skip >= bytes;
}

static int hole_take(struct placement *p, uint64_t bytes, uint64_t *addr)
{
	size_t best = p->holes.n;
	struct placement_hole h;
	uint64_t skip;

	for (size_t i = 0; i < p->holes.n; i++) {
		if (!placement_fits(&p->holes.at[i], bytes, &skip))
			continue;
		if (best == p->holes.n || p->way == ALLOCATOR_HIGHEST ||
		    (p->way == ALLOCATOR_TIGHTEST &&
		     p->holes.at[i].bytes < p->holes.at[best].bytes))
			best = i;
		if (p->way <= ALLOCATOR_LOWEST)
			break;
	}
	if (best == p->holes.n)
		return 0;
	h = p->holes.at[best];
	placement_fits(&h, bytes, &skip);
	*addr = h.addr + skip;
	hole_remove(p, best);
	hole_add(p, h.addr, skip);
	hole_add(p, *addr + bytes, h.bytes - skip - bytes);
	return 1;
}

static uint64_t placement_place(struct placement *p, uint64_t bytes)
{
	uint64_t addr, whole = chunks(bytes);

	if (hole_take(p, p->way == ALLOCATOR_APART ? whole : bytes, &addr))
		return addr;
	if (p->way == ALLOCATOR_RISING) {
		p->high += bytes;
		return p->high - bytes;
	}
	p->low -= whole;
	if (p->way != ALLOCATOR_APART)
		hole_add(p, p->low + bytes, whole - bytes);
	return p->low;
}

/* ---- the places of a recording ---- */

struct recorded {
	uint64_t bytes, addr;
	uint32_t turn;
};

static int placement_by_size(const void *a, const void *b)
{
	const struct recorded *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return (x->turn > y->turn) - (x->turn < y->turn);
}

static enum plim_status add_places(struct placement *p, const struct recorded *r, size_t n)
{
	enum plim_status st = vec_need(p->mem, &p->places, n, p->err);

	for (size_t i = 0; !st && i < n; i++) {
		struct placement_size size = { .bytes = r[i].bytes, .first = (uint32_t)i };

		if (!i || r[i].bytes != r[i - 1].bytes)
			st = vec_push(p->mem, &p->sizes, size, p->err);
		if (st)
			break;
		p->sizes.at[p->sizes.n - 1].n++;
		p->places.at[p->places.n++] = r[i].addr;
	}
	return st;
}

/*
 * What is not in the recording goes below all that is, or, where addresses are low (Windows' driver under
 * Linux), far above.  Other addresses are not followed.
 */
static int find_room(struct placement *p, const struct recorded *r, size_t n)
{
	uint64_t lowest = TOP, end = 0;

	for (size_t i = 0; i < n; i++) {
		if (r[i].addr >= TOP || r[i].bytes > TOP - r[i].addr)
			return 0;
		lowest = r[i].addr < lowest ? r[i].addr : lowest;
		end = r[i].addr + r[i].bytes > end ? r[i].addr + r[i].bytes : end;
	}
	if (lowest >= TOP / 2)
		p->low = lowest / CHUNK * CHUNK;
	return lowest >= TOP / 2 || end <= TOP / 2;
}

enum plim_status placement_follow(struct placement *p, const struct snapshot_device *d)
{
	const struct snapshot_events *ev = &d->events;
	VEC(struct recorded) found = { 0 };
	enum plim_status st = PLIM_OK;

	for (uint32_t e = 0; !st && e < ev->n; e++) {
		struct recorded one = { ev->size[e], ev->addr[e], e };

		if (ev->action[e] == TRACE_SEGMENT_ALLOC)
			st = vec_push(p->mem, &found, one, p->err);
	}
	if (!st && found.n && find_room(p, found.at, found.n)) {
		sort_items(found.at, found.n, sizeof(*found.at), placement_by_size);
		st = add_places(p, found.at, found.n);
	}
	vec_release(p->mem, &found);
	return st;
}

static int compare_size(const void *bytes, const void *size)
{
	uint64_t a = *(const uint64_t *)bytes, b = ((const struct placement_size *)size)->bytes;

	return (a > b) - (a < b);
}

/* The next recorded place of that size, if nothing is there. */
static int recorded_place(struct placement *p, uint64_t bytes, uint64_t *addr)
{
	struct placement_size *size = p->sizes.n ? bsearch(&bytes, p->sizes.at, p->sizes.n,
							   sizeof(*p->sizes.at), compare_size)
						 : NULL;
	struct placement_hole *t = p->taken.at;
	size_t at;

	if (!size || size->used == size->n)
		return 0;
	*addr = p->places.at[size->first + size->used++];
	at = first_at(t, p->taken.n, *addr);
	if ((at < p->taken.n && t[at].addr - *addr < bytes) ||
	    (at && *addr - t[at - 1].addr < t[at - 1].bytes))
		return 0;
	if (vec_need(p->mem, &p->taken, 1, p->err)) {
		p->failed = mem_status(p->err);
		return 0;
	}
	t = p->taken.at + at;
	memmove(t + 1, t, (p->taken.n++ - at) * sizeof(*t));
	*t = (struct placement_hole){ *addr, bytes };
	return 1;
}

/* Was it one of these? */
static int leave_recorded(struct placement *p, uint64_t addr)
{
	size_t at = first_at(p->taken.at, p->taken.n, addr);
	struct placement_hole *t;

	if (at == p->taken.n || p->taken.at[at].addr != addr)
		return 0;
	t = p->taken.at + at;
	memmove(t, t + 1, (--p->taken.n - at) * sizeof(*t));
	return 1;
}

/* ---- the driver ---- */

static int take_placement(struct placement *p, uint64_t bytes)
{
	if (bytes > p->capacity_bytes || p->used_bytes > p->capacity_bytes - bytes)
		return 0;
	p->used_bytes += bytes;
	return 1;
}

static int segment_alloc(void *self, uint64_t bytes, uint64_t *addr)
{
	struct placement *p = self;

	if (!take_placement(p, bytes))
		return 0;
	if (!recorded_place(p, bytes, addr))
		*addr = placement_place(p, bytes);
	return 1;
}

static void segment_free(void *self, uint64_t addr, uint64_t bytes)
{
	struct placement *p = self;

	p->used_bytes -= bytes;
	if (!leave_recorded(p, addr))
		hole_add(p, addr, p->way == ALLOCATOR_APART ? chunks(bytes) : bytes);
}

static uint64_t reserve_placement(void *self, uint64_t bytes)
{
	return placement_place(self, bytes);
}

static void unreserve_placement(void *self, uint64_t addr, uint64_t bytes)
{
	struct placement *p = self;

	hole_add(p, addr, p->way == ALLOCATOR_APART ? chunks(bytes) : bytes);
}

static int map_placement(void *self, uint64_t addr, uint64_t bytes)
{
	(void)addr;
	return take_placement(self, bytes);
}

static void unmap_placement(void *self, uint64_t addr, uint64_t bytes)
{
	struct placement *p = self;

	(void)addr;
	p->used_bytes -= bytes;
}

unsigned allocator_ways(const struct snapshot_device *d)
{
	const struct snapshot_events *ev = &d->events;
	uint64_t end = 0;

	for (uint32_t e = 0; e < ev->n; e++) {
		if (ev->action[e] != TRACE_SEGMENT_ALLOC || !is_large(ev->size[e]))
			continue;
		if (ev->addr[e] == end && end % CHUNK)
			return ALLOCATOR_WAYS;
		end = ev->addr[e] + ev->size[e];
	}
	return ALLOCATOR_RISING;
}

void placement_init(struct placement *p, struct mem *m, enum allocator_way way,
		    uint64_t capacity_bytes, struct plim_err *err)
{
	*p = (struct placement){ .mem = m,
				 .err = err,
				 .way = way,
				 .capacity_bytes = capacity_bytes,
				 .low = TOP,
				 .high = TOP };
}

enum plim_status placement_copy(struct placement *p, const struct placement *from)
{
	enum plim_status st = vec_copy(p->mem, &p->holes, &from->holes, p->err);

	if (!st)
		st = vec_copy(p->mem, &p->sizes, &from->sizes, p->err);
	if (!st)
		st = vec_copy(p->mem, &p->places, &from->places, p->err);
	if (!st)
		st = vec_copy(p->mem, &p->taken, &from->taken, p->err);
	p->used_bytes = from->used_bytes;
	p->low = from->low;
	p->high = from->high;
	return st;
}

void placement_release(struct placement *p)
{
	vec_release(p->mem, &p->holes);
	vec_release(p->mem, &p->sizes);
	vec_release(p->mem, &p->places);
	vec_release(p->mem, &p->taken);
}

struct caching_driver placement_driver(struct placement *p)
{
	return (struct caching_driver){ .self = p,
					.segment_alloc = segment_alloc,
					.segment_free = segment_free,
					.reserve = reserve_placement,
					.unreserve = unreserve_placement,
					.map = map_placement,
					.unmap = unmap_placement };
}
