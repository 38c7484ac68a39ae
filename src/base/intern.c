#include "intern.h"

#include <string.h>
#include <xxhash.h>

/* Large enough that small strings share chunks, small enough that a small file stays small. */
#define CHUNK_BYTES (64u << 10)

struct intern_chunk {
	struct intern_chunk *next;
	size_t used, size; /* bytes behind the header */
	uint64_t align[];
};

void intern_init(struct intern *t, struct mem *m)
{
	*t = (struct intern){ .mem = m };
}

void intern_release(struct intern *t)
{
	while (t->chunk) {
		struct intern_chunk *next = t->chunk->next;

		mem_free(t->mem, t->chunk, sizeof(*t->chunk) + t->chunk->size, 1);
		t->chunk = next;
	}
	mem_free(t->mem, t->at, t->cap, sizeof(*t->at));
	mem_free(t->mem, t->slots, t->slot_count, sizeof(*t->slots));
	intern_init(t, t->mem);
}

/* The slot that holds `bytes`, or the empty one where they belong. */
static size_t slot_of(const struct intern *t, const void *bytes, size_t n, uint32_t hash)
{
	size_t mask = t->slot_count - 1, s = hash & mask;

	for (; t->slots[s]; s = (s + 1) & mask) {
		const struct intern_entry *e = &t->at[t->slots[s] - 1];

		if (e->hash == hash && e->n == n && !memcmp(e->bytes, bytes, n))
			break;
	}
	return s;
}

static enum plim_status rehash(struct intern *t, struct plim_err *err)
{
	size_t count = t->slot_count ? t->slot_count * 2 : 64;
	uint32_t *slots = mem_new(t->mem, count, sizeof(*slots), err);

	if (!slots)
		return mem_status(err);
	mem_free(t->mem, t->slots, t->slot_count, sizeof(*t->slots));
	t->slots = slots;
	t->slot_count = count;
	for (size_t i = 0; i < t->n; i++) {
		size_t s = t->at[i].hash & (count - 1);

		while (slots[s])
			s = (s + 1) & (count - 1);
		slots[s] = (uint32_t)i + 1;
	}
	return PLIM_OK;
}

static uint8_t *store(struct intern *t, const void *bytes, size_t n, struct plim_err *err)
{
	size_t room = (n + 8) & ~(size_t)7; /* content, NUL, alignment */
	struct intern_chunk *c = t->chunk;
	uint8_t *p;

	if (!c || c->size - c->used < room) {
		size_t size = room > CHUNK_BYTES / 4 ? room : CHUNK_BYTES;

		c = mem_new(t->mem, sizeof(*c) + size, 1, err);
		if (!c)
			return NULL;
		c->size = size;
		if (size == room && t->chunk) { /* a chunk of its own: keep filling the other */
			c->next = t->chunk->next;
			t->chunk->next = c;
		} else {
			c->next = t->chunk;
			t->chunk = c;
		}
	}
	p = (uint8_t *)c->align + c->used;
	memcpy(p, bytes, n);
	p[n] = 0;
	c->used += room;
	return p;
}

enum plim_status intern_add(struct intern *t, const void *bytes, size_t n, uint32_t *id,
			    struct plim_err *err)
{
	uint32_t hash = (uint32_t)XXH3_64bits(bytes, n);
	enum plim_status st = PLIM_OK;
	uint8_t *p;
	size_t s;

	*id = INTERN_NONE;
	if (n >= UINT32_MAX || t->n >= INTERN_NONE - 1)
		return err_set(err, PLIM_E_FORMAT, "a string of %zu bytes is too long", n);
	if (2 * (t->n + 1) > t->slot_count)
		st = rehash(t, err);
	if (st)
		return st;
	s = slot_of(t, bytes, n, hash);
	if (t->slots[s]) {
		*id = t->slots[s] - 1;
		return PLIM_OK;
	}
	st = mem_grow(t->mem, &t->at, &t->cap, t->n + 1, sizeof(*t->at), err);
	if (st)
		return st;
	p = store(t, bytes, n, err);
	if (!p)
		return mem_status(err);
	t->at[t->n] = (struct intern_entry){ p, (uint32_t)n, hash };
	*id = (uint32_t)t->n++;
	t->slots[s] = *id + 1;
	return PLIM_OK;
}

uint32_t intern_find(const struct intern *t, const void *bytes, size_t n)
{
	size_t s;

	if (!t->slot_count || n >= UINT32_MAX)
		return INTERN_NONE;
	s = slot_of(t, bytes, n, (uint32_t)XXH3_64bits(bytes, n));
	return t->slots[s] ? t->slots[s] - 1 : INTERN_NONE;
}
