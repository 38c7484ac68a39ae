#include "addr_map.h"

#define SLOTS_MIN 1024u

void addr_map_release(struct addr_map *m)
{
	mem_free(m->mem, m->at, m->at ? m->mask + 1 : 0, sizeof(*m->at));
	*m = (struct addr_map){ .mem = m->mem };
}

/* Entries that are out are left behind; there is room for three times as many as are in. */
enum plim_status addr_map_rebuild(struct addr_map *m, struct plim_err *err)
{
	struct addr_map next = { .mem = m->mem };
	size_t count = SLOTS_MIN;

	while (count < 8 * (m->n + 1))
		count *= 2;
	next.at = mem_new(m->mem, count, sizeof(*next.at), err);
	if (!next.at)
		return mem_status(err);
	next.mask = count - 1;
	for (size_t i = 0; m->at && i <= m->mask; i++)
		if (m->at[i].value)
			addr_map_put(&next, addr_map_find(&next, m->at[i].addr), m->at[i].addr,
				     m->at[i].value);
	addr_map_release(m);
	*m = next;
	return PLIM_OK;
}
