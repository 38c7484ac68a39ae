/*
 * Offline packing of a cycle: requests are arcs on a circle of positions, and two that meet in time may not meet in
 * space.  Each is put at the lowest offset that is free, in several orders (dynamic storage allocation is NP-hard;
 * long-lived first or large first come within a percent of the peak where steps are trainings).
 */
#include "cycle.h"

struct arc {
	uint32_t units, life, born;
	uint32_t offset;
	uint32_t entry;
};

static int meet(const struct arc *a, const struct arc *b, uint32_t n)
{
	uint32_t from_a = b->born >= a->born ? b->born - a->born : b->born + n - a->born;
	uint32_t from_b = from_a ? n - from_a : 0;

	return from_a < a->life || from_b < b->life;
}

static int cycle_pack_by_size(const void *a, const void *b)
{
	const struct arc *x = a, *y = b;

	if (x->units != y->units)
		return x->units < y->units ? 1 : -1;
	if (x->life != y->life)
		return x->life < y->life ? 1 : -1;
	return (x->entry > y->entry) - (x->entry < y->entry);
}

static int by_life(const void *a, const void *b)
{
	const struct arc *x = a, *y = b;

	if (x->life != y->life)
		return x->life < y->life ? 1 : -1;
	return cycle_pack_by_size(a, b);
}

static int by_both(const void *a, const void *b)
{
	const struct arc *x = a, *y = b;
	uint64_t p = (uint64_t)x->units * x->life, q = (uint64_t)y->units * y->life;

	return p != q ? (p < q ? 1 : -1) : cycle_pack_by_size(a, b);
}

static int by_birth(const void *a, const void *b)
{
	const struct arc *x = a, *y = b;

	return (x->entry > y->entry) - (x->entry < y->entry);
}

static int (*const orders[])(const void *, const void *) = { by_life, by_both, cycle_pack_by_size,
							     by_birth };

/* Put each arc at the lowest place; `placed` has room for n of them and is kept in order of offsets. */
static uint32_t place_all(struct arc *arcs, uint32_t n, uint32_t turn, struct arc *placed)
{
	uint32_t top = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t low = 0, at = 0;

		for (; at < i; at++) {
			if (placed[at].offset + placed[at].units <= low ||
			    !meet(&placed[at], &arcs[i], turn))
				continue;
			if (placed[at].offset >= low && placed[at].offset - low >= arcs[i].units)
				break;
			low = placed[at].offset + placed[at].units;
		}
		arcs[i].offset = low;
		for (at = i; at && placed[at - 1].offset > low; at--)
			placed[at] = placed[at - 1];
		placed[at] = arcs[i];
		if (low + arcs[i].units > top)
			top = low + arcs[i].units;
	}
	return top;
}

/* Most units live at once; `ends` has room for n. */
static uint32_t peak_of(const struct cycle *c, uint64_t *ends)
{
	uint64_t live = 0, peak = 0;

	memset(ends, 0, c->n * sizeof(*ends));
	for (uint32_t i = 0; i < c->n; i++) {
		const struct cycle_entry *e = &c->at[i];

		if (!e->life)
			continue;
		ends[(i + e->life) % c->n] += e->units;
		if (e->life > c->n - i) /* it is there when the turn begins */
			live += e->units;
	}
	for (uint32_t i = 0; i < c->n; i++) {
		/* what ended at 0 was not counted as there, unless it lives into this turn */
		live -= i ? ends[i] : 0;
		live += c->at[i].life ? c->at[i].units : 0;
		peak = live > peak ? live : peak;
	}
	return (uint32_t)(peak < UINT32_MAX ? peak : UINT32_MAX);
}

enum plim_status cycle_pack(struct mem *m, struct cycle *c, struct plim_err *err)
{
	struct arc *arcs = mem_new(m, c->n, sizeof(*arcs), err);
	struct arc *placed = arcs ? mem_new(m, c->n, sizeof(*placed), err) : NULL;
	uint64_t *ends = placed ? mem_new(m, c->n, sizeof(*ends), err) : NULL;
	uint32_t n = 0;

	if (!ends) {
		mem_free(m, placed, c->n, sizeof(*placed));
		mem_free(m, arcs, c->n, sizeof(*arcs));
		return mem_status(err);
	}
	for (uint32_t i = 0; i < c->n; i++) {
		c->at[i].offset = CYCLE_NONE;
		if (c->at[i].life)
			arcs[n++] = (struct arc){ c->at[i].units, c->at[i].life, i, 0, i };
	}
	c->peak_units = peak_of(c, ends);
	c->area_units = CYCLE_NONE;
	for (size_t k = 0; k < sizeof(orders) / sizeof(*orders); k++) {
		uint32_t area;

		if (c->area_units != CYCLE_NONE &&
		    c->area_units - c->peak_units <= c->peak_units / 512)
			break;
		sort_items(arcs, n, sizeof(*arcs), orders[k]);
		area = place_all(arcs, n, c->n, placed);
		if (area >= c->area_units)
			continue;
		c->area_units = area;
		for (uint32_t i = 0; i < n; i++)
			c->at[arcs[i].entry].offset = arcs[i].offset;
	}
	mem_free(m, ends, c->n, sizeof(*ends));
	mem_free(m, placed, c->n, sizeof(*placed));
	mem_free(m, arcs, c->n, sizeof(*arcs));
	return PLIM_OK;
}
