#include "placement.h"

#include <string.h>

#define CHUNK ((uint64_t)32 << 20)
#define TOP ((uint64_t)1 << 47) /* of a process; chunks come from here downwards */

static uint64_t chunks(uint64_t bytes)
{
	return (bytes + CHUNK - 1) / CHUNK * CHUNK;
}

static size_t hole_at(const struct placement *p, uint64_t addr)
{
	size_t low = 0, high = p->holes.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (p->holes.at[mid].addr < addr)
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
	size_t at = hole_at(p, addr);
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
static int fits(const struct placement_hole *h, uint64_t bytes, uint64_t *skip)
{
	*skip = bytes > CHUNK / 2 ? chunks(h->addr) - h->addr : 0;
	return h->bytes >= *skip && h->bytes - *skip >= bytes;
}

static int hole_take(struct placement *p, uint64_t bytes, uint64_t *addr)
{
	size_t best = p->holes.n;
	struct placement_hole h;
	uint64_t skip;

	for (size_t i = 0; i < p->holes.n; i++) {
		if (!fits(&p->holes.at[i], bytes, &skip))
			continue;
		if (best == p->holes.n || p->way == ALLOCATOR_HIGHEST ||
		    (p->way == ALLOCATOR_TIGHTEST &&
		     p->holes.at[i].bytes < p->holes.at[best].bytes))
			best = i;
		if (p->way == ALLOCATOR_LOWEST)
			break;
	}
	if (best == p->holes.n)
		return 0;
	h = p->holes.at[best];
	fits(&h, bytes, &skip);
	*addr = h.addr + skip;
	hole_remove(p, best);
	hole_add(p, h.addr, skip);
	hole_add(p, *addr + bytes, h.bytes - skip - bytes);
	return 1;
}

static uint64_t place(struct placement *p, uint64_t bytes)
{
	uint64_t addr, whole = chunks(bytes);

	if (hole_take(p, p->way == ALLOCATOR_APART ? whole : bytes, &addr))
		return addr;
	p->low -= whole;
	if (p->way != ALLOCATOR_APART)
		hole_add(p, p->low + bytes, whole - bytes);
	return p->low;
}

static int take(struct placement *p, uint64_t bytes)
{
	if (bytes > p->capacity_bytes || p->used_bytes > p->capacity_bytes - bytes)
		return 0;
	p->used_bytes += bytes;
	return 1;
}

static int segment_alloc(void *self, uint64_t bytes, uint64_t *addr)
{
	struct placement *p = self;

	if (!take(p, bytes))
		return 0;
	*addr = place(p, bytes);
	return 1;
}

static void segment_free(void *self, uint64_t addr, uint64_t bytes)
{
	struct placement *p = self;

	p->used_bytes -= bytes;
	hole_add(p, addr, p->way == ALLOCATOR_APART ? chunks(bytes) : bytes);
}

static uint64_t reserve(void *self, uint64_t bytes)
{
	return place(self, bytes);
}

static void unreserve(void *self, uint64_t addr, uint64_t bytes)
{
	struct placement *p = self;

	hole_add(p, addr, p->way == ALLOCATOR_APART ? chunks(bytes) : bytes);
}

static int map(void *self, uint64_t addr, uint64_t bytes)
{
	(void)addr;
	return take(self, bytes);
}

static void unmap(void *self, uint64_t addr, uint64_t bytes)
{
	struct placement *p = self;

	(void)addr;
	p->used_bytes -= bytes;
}

void placement_init(struct placement *p, struct mem *m, enum allocator_way way,
		    uint64_t capacity_bytes, struct plim_err *err)
{
	*p = (struct placement){
		.mem = m, .err = err, .way = way, .capacity_bytes = capacity_bytes, .low = TOP
	};
}

void placement_release(struct placement *p)
{
	vec_release(p->mem, &p->holes);
}

struct caching_driver placement_driver(struct placement *p)
{
	return (struct caching_driver){ .self = p,
					.segment_alloc = segment_alloc,
					.segment_free = segment_free,
					.reserve = reserve,
					.unreserve = unreserve,
					.map = map,
					.unmap = unmap };
}
