#include "freeset.h"

#include <string.h>

static inline int less(const struct freeset_key *a, uint64_t bytes, uint64_t addr)
{
	return a->bytes != bytes ? a->bytes < bytes : a->addr < addr;
}

/* ---- shelves ---- */

#define UNIT_BITS \
	9 /* blocks are multiples of 512, almost always; what is not shares a shelf with its neighbours */
#define STEP_BITS 3

/* Rises with the size, up to 1 TiB: what is larger is on the last one. */
static uint32_t shelf_of(uint64_t bytes)
{
	uint64_t units = bytes >> UNIT_BITS;
	unsigned shift;
	uint32_t shelf;

	if (units < 1u << (STEP_BITS + 1))
		return (uint32_t)units;
	shift = 63 - STEP_BITS - (unsigned)__builtin_clzll(units);
	shelf = (shift << STEP_BITS) + (uint32_t)(units >> shift);
	return shelf < FREESET_SHELVES ? shelf : FREESET_SHELVES - 1;
}

static void mark(struct freeset *o, uint32_t shelf)
{
	o->filled[shelf / 64] |= (uint64_t)1 << shelf % 64;
}

static void unmark(struct freeset *o, uint32_t shelf)
{
	o->filled[shelf / 64] &= ~((uint64_t)1 << shelf % 64);
}

static int is_marked(const struct freeset *o, uint32_t shelf)
{
	return (int)(o->filled[shelf / 64] >> shelf % 64 & 1);
}

/* The first shelf from `shelf` on that holds something, or FREESET_SHELVES. */
static uint32_t shelf_from(const struct freeset *o, uint32_t shelf)
{
	uint32_t word = shelf / 64;
	uint64_t bits;

	if (shelf >= FREESET_SHELVES)
		return FREESET_SHELVES;
	bits = o->filled[word] & UINT64_MAX << shelf % 64;
	while (!bits && ++word < FREESET_SHELVES / 64)
		bits = o->filled[word];
	return bits ? word * 64 + (uint32_t)__builtin_ctzll(bits) : FREESET_SHELVES;
}

/* The last shelf before `shelf` that holds something, or FREESET_SHELVES. */
static uint32_t shelf_before(const struct freeset *o, uint32_t shelf)
{
	uint32_t word = shelf / 64;
	uint64_t bits = shelf % 64 ? o->filled[word] & (((uint64_t)1 << shelf % 64) - 1) : 0;

	while (!bits && word--)
		bits = o->filled[word];
	return bits ? word * 64 + 63 - (uint32_t)__builtin_clzll(bits) : FREESET_SHELVES;
}

/* ---- on a shelf ---- */

/* How many parts begin at or before (bytes, addr). */
static size_t parts_upto(const struct freeset_shelf *s, uint64_t bytes, uint64_t addr)
{
	size_t low = 0, high = s->parts.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct freeset_key *k = &s->parts.at[mid].first;

		if (less(k, bytes, addr) || (k->bytes == bytes && k->addr == addr))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The first position in a chunk whose key is not smaller. */
static uint32_t lower_freeset(const struct freeset_chunk *c, uint64_t bytes, uint64_t addr)
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

static enum plim_status part_new(struct mem *m, struct freeset_shelf *s, size_t at,
				 struct plim_err *err)
{
	struct freeset_chunk *chunk;
	enum plim_status st = vec_need(m, &s->parts, 1, err);

	if (st)
		return st;
	chunk = mem_new(m, 1, sizeof(*chunk), err);
	if (!chunk)
		return mem_status(err);
	memmove(s->parts.at + at + 1, s->parts.at + at, (s->parts.n - at) * sizeof(*s->parts.at));
	s->parts.at[at] = (struct freeset_part){ .chunk = chunk };
	s->parts.n++;
	return PLIM_OK;
}

/* The upper half of a full chunk becomes the next one. */
static enum plim_status part_split(struct mem *m, struct freeset_shelf *s, size_t at,
				   struct plim_err *err)
{
	enum plim_status st = part_new(m, s, at + 1, err);
	struct freeset_chunk *low = s->parts.at[at].chunk, *high;

	if (st)
		return st;
	high = s->parts.at[at + 1].chunk;
	high->n = low->n / 2;
	low->n -= high->n;
	memcpy(high->at, low->at + low->n, high->n * sizeof(*high->at));
	s->parts.at[at + 1].first = high->at[0];
	return PLIM_OK;
}

static enum plim_status shelf_insert(struct mem *m, struct freeset_shelf *s,
				     const struct freeset_key *key, struct plim_err *err)
{
	size_t part = parts_upto(s, key->bytes, key->addr);
	struct freeset_chunk *c;
	enum plim_status st = PLIM_OK;
	uint32_t at;

	part -= part > 0;
	if (!s->parts.n)
		st = part_new(m, s, 0, err);
	else if (s->parts.at[part].chunk->n == FREESET_CHUNK)
		st = part_split(m, s, part, err);
	if (st)
		return st;
	if (part + 1 < s->parts.n &&
	    !less(key, s->parts.at[part + 1].first.bytes, s->parts.at[part + 1].first.addr))
		part++;
	c = s->parts.at[part].chunk;
	at = lower_freeset(c, key->bytes, key->addr);
	memmove(c->at + at + 1, c->at + at, (c->n - at) * sizeof(*c->at));
	c->at[at] = *key;
	c->n++;
	s->parts.at[part].first = c->at[0];
	return PLIM_OK;
}

static void shelf_remove(struct mem *m, struct freeset_shelf *s, const struct freeset_key *key)
{
	size_t part = s->parts.n == 1 ? 0 : parts_upto(s, key->bytes, key->addr) - 1;
	struct freeset_chunk *c = s->parts.at[part].chunk;
	uint32_t at = lower_freeset(c, key->bytes, key->addr);

	CHECK(at < c->n && c->at[at].block == key->block);
	c->n--;
	memmove(c->at + at, c->at + at + 1, (c->n - at) * sizeof(*c->at));
	s->parts.at[part].first = c->at[0];
	if (c->n || s->parts.n == 1)
		return; /* an only chunk stays: it will be wanted again */
	mem_free(m, c, 1, sizeof(*c));
	s->parts.n--;
	memmove(s->parts.at + part, s->parts.at + part + 1,
		(s->parts.n - part) * sizeof(*s->parts.at));
}

/* ---- the set ---- */

enum plim_status freeset_insert(struct mem *m, struct freeset *o, const struct freeset_key *key,
				struct plim_err *err)
{
	uint32_t shelf = shelf_of(key->bytes);
	struct freeset_shelf *s;
	enum plim_status st;

	if (!o->shelves) {
		o->shelves = mem_new(m, FREESET_SHELVES, sizeof(*o->shelves), err);
		if (!o->shelves)
			return mem_status(err);
	}
	s = &o->shelves[shelf];
	if (!s->n) {
		s->only = *key;
		s->n = 1;
		mark(o, shelf);
		return PLIM_OK;
	}
	st = s->n == 1 ? shelf_insert(m, s, &s->only, err) : PLIM_OK;
	if (!st)
		st = shelf_insert(m, s, key, err);
	if (!st)
		s->n++;
	else if (s->n == 1 && s->parts.n)
		s->parts.at[0].chunk->n = 0;
	return st;
}

void freeset_remove(struct mem *m, struct freeset *o, const struct freeset_key *key)
{
	uint32_t shelf = shelf_of(key->bytes);
	struct freeset_shelf *s = &o->shelves[shelf];

	CHECK(s->n > 1 || (s->n == 1 && s->only.block == key->block));
	if (--s->n == 0) {
		unmark(o, shelf);
		return;
	}
	shelf_remove(m, s, key);
	if (s->n == 1) {
		s->only = s->parts.at[0].chunk->at[0];
		s->parts.at[0].chunk->n = 0;
	}
}

struct freeset_cursor freeset_seek(const struct freeset *o, uint64_t bytes, uint64_t addr)
{
	struct freeset_cursor c = { .shelf = shelf_of(bytes) };
	const struct freeset_shelf *s;

	if (!is_marked(o, c.shelf)) {
		c.shelf = shelf_from(o, c.shelf + 1);
		return c;
	}
	s = &o->shelves[c.shelf];
	if (s->n == 1) {
		if (less(&s->only, bytes, addr))
			c.shelf = shelf_from(o, c.shelf + 1);
		return c;
	}
	c.part = (uint32_t)parts_upto(s, bytes, addr);
	if (!c.part)
		return c;
	c.part--;
	c.at = lower_freeset(s->parts.at[c.part].chunk, bytes, addr);
	if (c.at == s->parts.at[c.part].chunk->n) {
		c.at--;
		freeset_next(o, &c);
	}
	return c;
}

const struct freeset_key *freeset_get(const struct freeset *o, struct freeset_cursor c)
{
	const struct freeset_shelf *s;

	if (c.shelf == FREESET_SHELVES)
		return NULL;
	s = &o->shelves[c.shelf];
	return s->n == 1 ? &s->only : &s->parts.at[c.part].chunk->at[c.at];
}

void freeset_next(const struct freeset *o, struct freeset_cursor *c)
{
	const struct freeset_shelf *s;

	if (c->shelf == FREESET_SHELVES)
		return;
	s = &o->shelves[c->shelf];
	if (s->n > 1 && ++c->at < s->parts.at[c->part].chunk->n)
		return;
	c->at = 0;
	if (s->n == 1 || ++c->part == s->parts.n)
		*c = (struct freeset_cursor){ .shelf = shelf_from(o, c->shelf + 1) };
}

int freeset_prev(const struct freeset *o, struct freeset_cursor *c)
{
	const struct freeset_shelf *s;
	uint32_t shelf;

	if (c->at) {
		c->at--;
		return 1;
	}
	shelf = c->part ? c->shelf : shelf_before(o, c->shelf);
	if (shelf == FREESET_SHELVES)
		return 0;
	s = &o->shelves[shelf];
	if (s->n == 1) {
		*c = (struct freeset_cursor){ .shelf = shelf };
		return 1;
	}
	c->part = shelf == c->shelf ? c->part - 1 : (uint32_t)s->parts.n - 1;
	c->shelf = shelf;
	c->at = s->parts.at[c->part].chunk->n - 1;
	return 1;
}

static void shelf_clear(struct mem *m, struct freeset_shelf *s)
{
	for (size_t i = 0; i < s->parts.n; i++)
		mem_free(m, s->parts.at[i].chunk, 1, sizeof(*s->parts.at[i].chunk));
	s->parts.n = s->n = 0;
}

/* Except for a chunk, which will be wanted again. */
static void shelf_empty(struct mem *m, struct freeset_shelf *s)
{
	while (s->parts.n > 1)
		mem_free(m, s->parts.at[--s->parts.n].chunk, 1, sizeof(struct freeset_chunk));
	if (s->parts.n)
		s->parts.at[0].chunk->n = 0;
}

static enum plim_status shelf_copy(struct mem *m, struct freeset_shelf *s,
				   const struct freeset_shelf *from, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	s->only = from->only;
	s->n = from->n;
	if (s->n == 1) {
		if (s->parts.n)
			shelf_empty(m, s);
		return PLIM_OK;
	}
	for (size_t i = 0; !st && i < from->parts.n; i++) {
		const struct freeset_chunk *c = from->parts.at[i].chunk;

		if (i >= s->parts.n)
			st = part_new(m, s, i, err);
		if (st)
			break;
		s->parts.at[i].first = from->parts.at[i].first;
		s->parts.at[i].chunk->n = c->n;
		memcpy(s->parts.at[i].chunk->at, c->at, c->n * sizeof(*c->at));
	}
	while (!st && s->parts.n > from->parts.n)
		mem_free(m, s->parts.at[--s->parts.n].chunk, 1, sizeof(struct freeset_chunk));
	return st;
}

enum plim_status freeset_copy(struct mem *m, struct freeset *o, const struct freeset *from,
			      struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (from->shelves && !o->shelves) {
		o->shelves = mem_new(m, FREESET_SHELVES, sizeof(*o->shelves), err);
		if (!o->shelves)
			return mem_status(err);
	}
	for (uint32_t i = shelf_from(from, 0); !st && i < FREESET_SHELVES;
	     i = shelf_from(from, i + 1))
		st = shelf_copy(m, &o->shelves[i], &from->shelves[i], err);
	for (uint32_t i = shelf_from(o, 0); i < FREESET_SHELVES; i = shelf_from(o, i + 1))
		if (!is_marked(from, i)) {
			shelf_empty(m, &o->shelves[i]);
			o->shelves[i].n = 0;
			unmark(o, i);
		}
	if (!st)
		memcpy(o->filled, from->filled, sizeof(o->filled));
	return st;
}

void freeset_release(struct mem *m, struct freeset *o)
{
	for (uint32_t i = 0; o->shelves && i < FREESET_SHELVES; i++) {
		shelf_clear(m, &o->shelves[i]);
		vec_release(m, &o->shelves[i].parts);
	}
	mem_free(m, o->shelves, FREESET_SHELVES, sizeof(*o->shelves));
	*o = (struct freeset){ 0 };
}
