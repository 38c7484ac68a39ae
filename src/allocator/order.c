#include "order.h"

#include <string.h>

static inline int less(const struct order_key *a, uint64_t bytes, uint64_t addr)
{
	return a->bytes != bytes ? a->bytes < bytes : a->addr < addr;
}

/* How many parts begin at or before (bytes, addr). */
static size_t parts_upto(const struct order *o, uint64_t bytes, uint64_t addr)
{
	size_t low = 0, high = o->parts.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct order_key *k = &o->parts.at[mid].first;

		if (less(k, bytes, addr) || (k->bytes == bytes && k->addr == addr))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The first position in a chunk whose key is not smaller. */
static uint32_t lower(const struct order_chunk *c, uint64_t bytes, uint64_t addr)
{
	uint32_t low = 0, high = c->n;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (less(&c->at[mid], bytes, addr))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static enum plim_status part_new(struct mem *m, struct order *o, size_t at, struct plim_err *err)
{
	struct order_chunk *chunk;
	enum plim_status st = vec_need(m, &o->parts, 1, err);

	if (st)
		return st;
	chunk = mem_new(m, 1, sizeof(*chunk), err);
	if (!chunk)
		return mem_status(err);
	memmove(o->parts.at + at + 1, o->parts.at + at, (o->parts.n - at) * sizeof(*o->parts.at));
	o->parts.at[at] = (struct order_part){ .chunk = chunk };
	o->parts.n++;
	return PLIM_OK;
}

/* The upper half of a full chunk becomes the next one. */
static enum plim_status part_split(struct mem *m, struct order *o, size_t at, struct plim_err *err)
{
	enum plim_status st = part_new(m, o, at + 1, err);
	struct order_chunk *low = o->parts.at[at].chunk, *high;

	if (st)
		return st;
	high = o->parts.at[at + 1].chunk;
	high->n = low->n / 2;
	low->n -= high->n;
	memcpy(high->at, low->at + low->n, high->n * sizeof(*high->at));
	o->parts.at[at + 1].first = high->at[0];
	return PLIM_OK;
}

enum plim_status order_insert(struct mem *m, struct order *o, const struct order_key *key,
			      struct plim_err *err)
{
	size_t part = parts_upto(o, key->bytes, key->addr);
	struct order_chunk *c;
	enum plim_status st = PLIM_OK;
	uint32_t at;

	part -= part > 0;
	if (!o->parts.n)
		st = part_new(m, o, 0, err);
	else if (o->parts.at[part].chunk->n == ORDER_CHUNK)
		st = part_split(m, o, part, err);
	if (st)
		return st;
	if (part + 1 < o->parts.n &&
	    !less(key, o->parts.at[part + 1].first.bytes, o->parts.at[part + 1].first.addr))
		part++;
	c = o->parts.at[part].chunk;
	at = lower(c, key->bytes, key->addr);
	memmove(c->at + at + 1, c->at + at, (c->n - at) * sizeof(*c->at));
	c->at[at] = *key;
	c->n++;
	o->parts.at[part].first = c->at[0];
	return PLIM_OK;
}

void order_remove(struct mem *m, struct order *o, const struct order_key *key)
{
	size_t part = parts_upto(o, key->bytes, key->addr) - 1;
	struct order_chunk *c = o->parts.at[part].chunk;
	uint32_t at = lower(c, key->bytes, key->addr);

	c->n--;
	memmove(c->at + at, c->at + at + 1, (c->n - at) * sizeof(*c->at));
	o->parts.at[part].first = c->at[0];
	if (c->n)
		return;
	mem_free(m, c, 1, sizeof(*c));
	o->parts.n--;
	memmove(o->parts.at + part, o->parts.at + part + 1,
		(o->parts.n - part) * sizeof(*o->parts.at));
}

struct order_cursor order_seek(const struct order *o, uint64_t bytes, uint64_t addr)
{
	struct order_cursor c = { parts_upto(o, bytes, addr), 0 };

	if (!c.part)
		return c;
	c.part--;
	c.at = lower(o->parts.at[c.part].chunk, bytes, addr);
	if (c.at == o->parts.at[c.part].chunk->n)
		c = (struct order_cursor){ c.part + 1, 0 };
	return c;
}

const struct order_key *order_get(const struct order *o, struct order_cursor c)
{
	return c.part < o->parts.n ? &o->parts.at[c.part].chunk->at[c.at] : NULL;
}

void order_next(const struct order *o, struct order_cursor *c)
{
	if (c->part < o->parts.n && ++c->at == o->parts.at[c->part].chunk->n)
		*c = (struct order_cursor){ c->part + 1, 0 };
}

int order_prev(const struct order *o, struct order_cursor *c)
{
	if (c->at) {
		c->at--;
		return 1;
	}
	if (!c->part)
		return 0;
	c->part--;
	c->at = o->parts.at[c->part].chunk->n - 1;
	return 1;
}

void order_release(struct mem *m, struct order *o)
{
	for (size_t i = 0; i < o->parts.n; i++)
		mem_free(m, o->parts.at[i].chunk, 1, sizeof(*o->parts.at[i].chunk));
	vec_release(m, &o->parts);
}
