#include "placement.h"

#include <string.h>

#define CHUNK ((uint64_t)32 << 20)
#define MIDDLE ((uint64_t)1 << 46) /* below 2^47, with room on both sides */

static uint64_t chunks(uint64_t bytes)
{
	return (bytes + CHUNK - 1) / CHUNK * CHUNK;
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t shuffle(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* ---- PLACEMENT_DRIVER ---- */

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
		p->failed = PLIM_E_NOMEM;
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

/* The lowest hole that fits; what needs chunks of its own begins at one. */
static int hole_take(struct placement *p, uint64_t bytes, uint64_t *addr)
{
	int own = bytes > CHUNK / 2;

	for (size_t i = 0; i < p->holes.n; i++) {
		struct placement_hole h = p->holes.at[i];
		uint64_t skip = own ? chunks(h.addr) - h.addr : 0;

		if (h.bytes < skip || h.bytes - skip < bytes)
			continue;
		*addr = h.addr + skip;
		hole_remove(p, i);
		hole_add(p, h.addr, skip);
		hole_add(p, *addr + bytes, h.bytes - skip - bytes);
		return 1;
	}
	return 0;
}

static uint64_t like_the_driver(struct placement *p, uint64_t bytes)
{
	uint64_t addr;

	if (hole_take(p, bytes, &addr))
		return addr;
	p->low -= chunks(bytes);
	hole_add(p, p->low + bytes, chunks(bytes) - bytes);
	return p->low;
}

/* ---- all ways ---- */

static uint64_t place(struct placement *p, uint64_t bytes)
{
	uint64_t addr;

	switch (p->way) {
	case PLACEMENT_DRIVER: return like_the_driver(p, bytes);
	case PLACEMENT_UPWARDS:
		addr = p->high;
		p->high += chunks(bytes);
		return addr;
	case PLACEMENT_SHUFFLED:
		/* some 2^45 bytes far from anything else, in a slot of its own */
		p->high += chunks(bytes);
		return (shuffle(&p->seed) >> 19 << 20) + (p->high << 1);
	case PLACEMENT_DOWNWARDS:
	default: p->low -= chunks(bytes); return p->low;
	}
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
	if (p->way == PLACEMENT_DRIVER)
		hole_add(p, addr, bytes);
}

static uint64_t reserve(void *self, uint64_t bytes)
{
	return place(self, bytes);
}

static void unreserve(void *self, uint64_t addr, uint64_t bytes)
{
	struct placement *p = self;

	if (p->way == PLACEMENT_DRIVER)
		hole_add(p, addr, bytes);
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

void placement_init(struct placement *p, struct mem *m, enum placement_way way, uint64_t seed,
		    uint64_t capacity_bytes, struct plim_err *err)
{
	*p = (struct placement){ .mem = m,
				 .err = err,
				 .way = way,
				 .seed = seed,
				 .capacity_bytes = capacity_bytes,
				 .low = MIDDLE,
				 .high = MIDDLE };
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
