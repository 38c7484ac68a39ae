/*
 * Events, packed.  What a program does again is known by what it did after the same steps before, so a loop costs a zero
 * an event; only what comes out different is written.  Writer and reader make the same predictions from what both know.
 */
#include "packed.h"

/* Odd numbers that mix well (splitmix64). */
#define MIX_1 0x9e3779b97f4a7c15u
#define MIX_2 0xbf58476d1ce4e5b9u
#define MIX_3 0x94d049bb133111ebu

#define NEAR 32 /* so many of the youngest are looked at one by one */
#define GRANULE 512

/* What the rows of one place in the program have in common. */
struct site {
	uint32_t stack;
	uint16_t stream, pool;
	uint8_t action;
	uint32_t next; /* 1 + the site that came after it the last time; 0: none yet */
	uint64_t size; /* of its last event */
};

/* An allocation that is there; [0] is the end of both lists. */
struct live {
	uint64_t addr, size;
	uint32_t older, younger;
};

struct model {
	struct packing *p;
	unsigned shift; /* 64 - log2 of the tables' length */
	uint32_t *sites_after, *ends_after[2];
	uint64_t *sizes_after, *addrs_after, *freed;
	VEC(struct site) sites;
	struct intern numbers; /* writing: of sites by their content */
	VEC(struct live) live;
	struct addr_map at; /* writing: what lives, by address */
	uint64_t history;   /* of the last four sites */
	uint64_t size_1, size_2;
	uint64_t distances[2]; /* of the last two ends of a kind */
	uint64_t last_addr[TRACE_ACTIONS], last_size, unknown_addr;
	uint32_t last_site, requested;
};

static inline size_t event_key_place(const struct model *m, uint64_t key)
{
	return (size_t)((key ^ key >> 29) * MIX_2 >> m->shift);
}

/* ---- sites ---- */

static uint32_t add_site(struct model *m, struct site *s)
{
	struct packing *p = m->p;

	s->action = (uint8_t)packed_below(p, PACKED_SITE_ACTION, s->action, TRACE_ACTIONS);
	s->stack = packed_stack(p, PACKED_SITE_STACK, s->stack);
	s->stream = (uint16_t)packed_below(p, PACKED_SITE_STREAM, s->stream, p->t->streams.n);
	s->pool = (uint16_t)packed_below(p, PACKED_SITE_POOL, s->pool, p->t->pools.n);
	if (!p->status)
		p->status = vec_push(p->mem, &m->sites, *s, p->err);
	return (uint32_t)m->sites.n - 1;
}

/* The number of a site, one more than there are if it is new. */
static uint32_t find_site(struct model *m, const struct site *s)
{
	const uint32_t key[3] = { s->stack, (uint32_t)s->stream << 16 | s->pool, s->action };
	uint32_t id = 0;

	if (!m->p->status)
		m->p->status = intern_add(&m->numbers, key, sizeof(key), &id, m->p->err);
	return id;
}

static int is_site(const struct model *m, uint32_t number, const struct site *s)
{
	const struct site *x = &m->sites.at[number];

	return x->stack == s->stack && x->action == s->action && x->stream == s->stream &&
	       x->pool == s->pool;
}

static uint32_t put_site(struct model *m, struct site *s, uint32_t often, uint32_t after)
{
	uint32_t number;

	if (often && is_site(m, often - 1, s)) {
		packed_put(m->p, PACKED_SITE, 0);
		return often - 1;
	}
	if (after && is_site(m, after - 1, s)) {
		packed_put(m->p, PACKED_SITE, 1);
		return after - 1;
	}
	number = find_site(m, s);
	packed_put(m->p, PACKED_SITE, 2 + (uint64_t)number);
	return number < m->sites.n ? number : add_site(m, s);
}

static uint32_t get_site(struct model *m, uint32_t often, uint32_t after)
{
	uint64_t code = packed_get(m->p, PACKED_SITE);
	struct site fresh = { 0 };

	if (code < 2) {
		uint32_t told = code ? after : often;

		if (!told)
			packed_bad(m->p, "a site that was never before");
		return told ? told - 1 : 0;
	}
	if (code - 2 < m->sites.n)
		return (uint32_t)(code - 2);
	if (code - 2 > m->sites.n)
		packed_bad(m->p, "a site that was never before");
	return add_site(m, &fresh);
}

/* The site of an event: `s` is what it is when writing. */
static uint32_t code_site(struct model *m, struct site *s)
{
	uint32_t *often = &m->sites_after[event_key_place(m, m->history)];
	uint32_t after = m->sites.n ? m->sites.at[m->last_site].next : 0;
	uint32_t number =
		m->p->writing ? put_site(m, s, *often, after) : get_site(m, *often, after);

	if (m->p->status)
		return 0;
	*often = number + 1;
	m->sites.at[m->last_site].next = number + 1;
	m->history = (m->history << 16) * MIX_3 + number + 1;
	m->last_site = number;
	return number;
}

/* ---- sizes ---- */

#define SIZE_FAR (UINT64_MAX - 3) /* from here on a size is written next to its code */

static uint64_t code_size(struct model *m, uint32_t number, uint64_t size)
{
	struct packing *p = m->p;
	struct site *site = &m->sites.at[number];
	uint64_t key = number + 1 + m->size_1 * MIX_1 + (m->size_2 * MIX_3 ^ m->size_2 >> 7);
	uint64_t *told = &m->sizes_after[event_key_place(m, key)];
	uint64_t code = size == *told ? 0 : size == site->size ? 1 : size < SIZE_FAR ? size + 3 : 2;

	code = packed_code(p, PACKED_SIZE, code);
	if (code == 2)
		size = packed_code(p, PACKED_UNKNOWN_SIZE, size);
	else
		size = code == 0 ? *told : code == 1 ? site->size : code - 3;
	*told = site->size = size;
	m->size_2 = m->size_1;
	m->size_1 = size;
	return size;
}

/* ---- addresses ---- */

enum { ADDR_TOLD, ADDR_FREED, ADDR_BEHIND, ADDR_SEGMENT, ADDR_ODD, ADDR_FAR };

static inline uint64_t round_up(uint64_t size)
{
	return (size + GRANULE - 1) & -(uint64_t)GRANULE;
}

static inline uint64_t *freed_of(const struct model *m, const struct site *s, uint64_t size)
{
	return &m->freed[event_key_place(m, round_up(size) * MIX_1 + s->stream)];
}

static uint64_t far_code(uint64_t difference)
{
	if (difference % GRANULE)
		return ADDR_ODD;
	return ADDR_FAR + packed_zigzag((uint64_t)((int64_t)difference / GRANULE));
}

static uint64_t code_addr(struct model *m, uint32_t number, uint64_t size, uint64_t addr)
{
	struct packing *p = m->p;
	const struct site *s = &m->sites.at[number];
	uint64_t *last = &m->last_addr[s->action];
	uint64_t *told = &m->addrs_after[event_key_place(m, number * MIX_3 + size * MIX_1 + *last)];
	const uint64_t near[ADDR_ODD] = { *told, *freed_of(m, s, size),
					  *last + round_up(m->last_size),
					  m->last_addr[TRACE_SEGMENT_ALLOC] };
	uint64_t code = 0;

	while (p->writing && code < ADDR_ODD && near[code] != addr)
		code++;
	if (code == ADDR_ODD)
		code = far_code(addr - *last);
	code = packed_code(p, PACKED_ADDR, code);
	if (code == ADDR_ODD)
		addr = packed_from(p, PACKED_UNKNOWN_ADDR, addr, *last);
	else
		addr = code < ADDR_ODD ? near[code]
				       : *last + packed_unzigzag(code - ADDR_FAR) * GRANULE;
	*told = *last = addr;
	return addr;
}

/* ---- what lives ---- */

static inline int is_linked(const struct model *m, uint64_t i)
{
	return i && i < m->live.n && m->live.at[i].older != TRACE_NONE;
}

static void born(struct model *m, uint64_t addr, uint64_t size)
{
	struct packing *p = m->p;
	uint32_t i = (uint32_t)m->live.n, young = m->live.at[0].older;
	struct live one = { addr, size, young, 0 };

	if (!p->status)
		p->status = vec_push(p->mem, &m->live, one, p->err);
	if (!p->status && p->writing)
		p->status = addr_map_room(&m->at, p->err);
	if (p->status)
		return;
	m->live.at[young].younger = i;
	m->live.at[0].older = i;
	m->last_size = size;
	if (p->writing)
		addr_map_put(&m->at, addr_map_find(&m->at, addr), addr, i);
}

static void ended(struct model *m, uint32_t i, const struct site *s)
{
	struct live *x = &m->live.at[i];

	m->live.at[x->older].younger = x->younger;
	m->live.at[x->younger].older = x->older;
	x->older = TRACE_NONE;
	*freed_of(m, s, x->size) = x->addr;
	if (m->p->writing) {
		struct addr_slot *slot = addr_map_find(&m->at, x->addr);

		if (slot->value == i)
			addr_map_remove(&m->at, slot);
	}
}

/* ---- ends ---- */

enum { END_TOLD, END_NEAR, END_UNKNOWN = END_NEAR + NEAR, END_FAR };

/* What ends most likely. */
static uint32_t end_told(const struct model *m, int done, uint32_t distance)
{
	uint64_t i = m->live.n - (uint64_t)distance;

	if (done && is_linked(m, m->requested))
		return m->requested;
	return distance && is_linked(m, i) ? (uint32_t)i : 0;
}

static uint64_t find_end(const struct model *m, uint32_t told, uint64_t addr, uint64_t size)
{
	const struct addr_slot *slot = m->at.at ? addr_map_find(&m->at, addr) : NULL;
	uint32_t i = slot ? slot->value : 0, x = m->live.at[0].older;

	if (!is_linked(m, i) || m->live.at[i].size != size)
		return END_UNKNOWN;
	if (i == told)
		return END_TOLD;
	for (uint64_t r = 0; r < NEAR && x; r++, x = m->live.at[x].older)
		if (x == i)
			return END_NEAR + r;
	return END_FAR + m->live.n - i;
}

/* The allocation of a code, 0: that is not known. */
static uint32_t end_of(struct model *m, uint32_t told, uint64_t code)
{
	uint64_t i = 0;

	if (code == END_UNKNOWN)
		return 0;
	if (code == END_TOLD)
		i = told;
	else if (code >= END_FAR)
		i = m->live.n - (code - END_FAR);
	else
		for (i = m->live.at[0].older; i && code > END_NEAR; code--)
			i = m->live.at[i].older;
	if (!is_linked(m, i))
		packed_bad(m->p, "the end of what does not live");
	return m->p->status ? 0 : (uint32_t)i;
}

static void code_end(struct model *m, uint32_t number, uint64_t *addr, uint64_t *size)
{
	struct packing *p = m->p;
	const struct site *s = &m->sites.at[number];
	int done = s->action == TRACE_FREE_COMPLETED;
	uint64_t *before = m->distances;
	uint32_t *distance = &m->ends_after[done][event_key_place(
		m, number + 1 + before[0] * MIX_1 + before[1] * MIX_3)];
	uint32_t told = end_told(m, done, *distance), i;
	uint64_t code = p->writing ? find_end(m, told, *addr, *size) : 0;

	code = packed_code(p, done ? PACKED_COMPLETED : PACKED_REQUESTED, code);
	i = end_of(m, told, code);
	if (!i) {
		*addr = packed_from(p, PACKED_UNKNOWN_ADDR, *addr, m->unknown_addr);
		*size = packed_code(p, PACKED_UNKNOWN_SIZE, *size);
		m->unknown_addr = *addr;
		return;
	}
	*addr = m->live.at[i].addr;
	*size = m->live.at[i].size;
	*distance = (uint32_t)m->live.n - i;
	if (done) {
		ended(m, i, s);
		return;
	}
	before[1] = before[0];
	before[0] = *distance;
	m->requested = i;
}

/* ---- all of a device ---- */

static void model_release(struct model *m)
{
	struct mem *mem = m->p->mem;
	size_t n = (size_t)1 << (64 - m->shift);

	mem_free(mem, m->sites_after, n, sizeof(*m->sites_after));
	mem_free(mem, m->ends_after[0], n, sizeof(**m->ends_after));
	mem_free(mem, m->ends_after[1], n, sizeof(**m->ends_after));
	mem_free(mem, m->sizes_after, n, sizeof(*m->sizes_after));
	mem_free(mem, m->addrs_after, n, sizeof(*m->addrs_after));
	mem_free(mem, m->freed, n, sizeof(*m->freed));
	vec_release(mem, &m->sites);
	vec_release(mem, &m->live);
	intern_release(&m->numbers);
	addr_map_release(&m->at);
}

/* Tables as large as the number of events makes useful. */
static void model_init(struct model *m, struct packing *p, size_t events)
{
	struct plim_err *err = p->err;
	unsigned log = 8;
	size_t n;

	while (log < 18 && (size_t)1 << log < events / 2)
		log++;
	n = (size_t)1 << log;
	*m = (struct model){ .p = p, .shift = 64 - log, .at = { .mem = p->mem } };
	intern_init(&m->numbers, p->mem);
	m->sites_after = mem_new(p->mem, n, sizeof(*m->sites_after), err);
	m->ends_after[0] = mem_new(p->mem, n, sizeof(**m->ends_after), err);
	m->ends_after[1] = mem_new(p->mem, n, sizeof(**m->ends_after), err);
	m->sizes_after = mem_new(p->mem, n, sizeof(*m->sizes_after), err);
	m->addrs_after = mem_new(p->mem, n, sizeof(*m->addrs_after), err);
	m->freed = mem_new(p->mem, n, sizeof(*m->freed), err);
	if (!m->sites_after || !m->ends_after[0] || !m->ends_after[1] || !m->sizes_after ||
	    !m->addrs_after || !m->freed)
		p->status = mem_status(err);
	if (!p->status)
		p->status = vec_push(p->mem, &m->live, (struct live){ 0 }, err);
}

static void code_event(struct model *m, struct event_row *e, int64_t *now)
{
	struct packing *p = m->p;
	struct site s = {
		.stack = e->stack, .stream = e->stream, .pool = e->pool, .action = e->action
	};
	uint32_t number = code_site(m, &s);

	if (p->status)
		return;
	s = m->sites.at[number];
	e->action = s.action;
	e->stack = s.stack;
	e->stream = s.stream;
	e->pool = s.pool;
	if (p->t->has_time)
		e->time_us = packed_time(p, PACKED_TIME + s.action, e->time_us, now);
	if (s.action == TRACE_FREE_REQUESTED || s.action == TRACE_FREE_COMPLETED) {
		code_end(m, number, &e->addr, &e->size);
		return;
	}
	e->size = code_size(m, number, e->size);
	e->addr = code_addr(m, number, e->size, e->addr);
	if (s.action == TRACE_ALLOC)
		born(m, e->addr, e->size);
}

static struct event_row event_row_of(const struct snapshot_events *ev, size_t e)
{
	return (struct event_row){ .addr = ev->addr[e],
				   .size = ev->size[e],
				   .time_us = ev->time_us[e],
				   .stack = ev->stack[e],
				   .stream = ev->stream[e],
				   .pool = ev->pool ? ev->pool[e] : 0,
				   .action = ev->action[e] };
}

void packed_events(struct packing *p, struct snapshot_events *ev)
{
	struct model m;
	int64_t now = 0;

	if (p->status || !ev->n)
		return;
	model_init(&m, p, ev->n);
	for (size_t e = 0; !p->status && e < ev->n; e++) {
		struct event_row row = p->writing ? event_row_of(ev, e) : (struct event_row){ 0 };

		code_event(&m, &row, &now);
		if (!p->status && !p->writing)
			p->status = columns_push(p->mem, p->t->columns, &row, p->err);
	}
	model_release(&m);
}
