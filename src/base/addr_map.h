/*
 * Addresses to numbers: open addressing, with entries that stay where they are when their address is
 * taken out.  Allocators hand the same addresses out again and again, so most entries come back to
 * the place they had; the rest is swept out when the table would grow.
 *
 *	st = addr_map_room(&map, err);		// before anything is put; slots move
 *	slot = addr_map_find(&map, addr);	// its entry, or the place for one
 *	if (slot->value) ...			// it is in
 *	addr_map_put(&map, slot, addr, value);
 *	addr_map_remove(&map, slot);
 */
#ifndef BASE_ADDR_MAP_H
#define BASE_ADDR_MAP_H

#include "mem.h"

struct addr_slot {
	uint64_t addr;
	uint32_t value; /* 0: not in the map */
	uint32_t used;  /* addr means something, even if it is not in the map now */
};

struct addr_map {
	struct mem *mem;
	struct addr_slot *at; /* NULL before the first addr_map_room */
	size_t mask;
	size_t n, used; /* addresses in the map, and slots that are not free for others */
};

enum plim_status addr_map_rebuild(struct addr_map *m, struct plim_err *err);
void addr_map_release(struct addr_map *m);

/* Make room for one more address. */
static inline enum plim_status addr_map_room(struct addr_map *m, struct plim_err *err)
{
	return 2 * (m->used + 1) <= m->mask ? PLIM_OK : addr_map_rebuild(m, err);
}

/* Device addresses are multiples of 512. */
static inline size_t addr_map_home(const struct addr_map *m, uint64_t addr)
{
	return (size_t)((addr >> 9) * 0x9e3779b97f4a7c15u >> 32) & m->mask;
}

/* After addr_map_room only. */
static inline struct addr_slot *addr_map_find(const struct addr_map *m, uint64_t addr)
{
	size_t s = addr_map_home(m, addr);

	while (m->at[s].addr != addr && m->at[s].used)
		s = (s + 1) & m->mask;
	return &m->at[s];
}

static inline void addr_map_put(struct addr_map *m, struct addr_slot *slot, uint64_t addr,
				uint32_t value)
{
	m->n += !slot->value;
	m->used += !slot->used;
	*slot = (struct addr_slot){ addr, value, 1 };
}

static inline void addr_map_remove(struct addr_map *m, struct addr_slot *slot)
{
	m->n -= slot->value != 0;
	slot->value = 0;
}

#endif
