/*
 * Lifetimes from hand-made lists of events: what is allocated, asked to end, ended; what lived before the
 * first event; what contradicts.  And a property: any recording cut anywhere shows the same lives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "recording.h"

#define NONE TRACE_NONE
#define A BASE
#define B (BASE + 0x100000)
#define C (BASE + 0x200000)
#define SEGMENT (20u << 20)

#define ALLOC TRACE_ALLOC
#define ASK TRACE_FREE_REQUESTED
#define DONE TRACE_FREE_COMPLETED
#define BEFORE TRACE_BEFORE
#define PENDING_BEFORE (TRACE_BEFORE | TRACE_PENDING_BEFORE)

struct life {
	uint64_t addr, bytes;
	uint32_t born, asked, ended, flags;
};

static const struct pairing {
	const char *name;
	struct event events[8];
	struct block blocks[4];
	struct life lives[6];
	uint64_t contradictions;
	uint64_t segment_bytes, reserved_before;
	uint32_t before;
} pairings[] = {
	{ .name = "a whole life",
	  .events = { { ALLOC, A, 700 }, { ASK, A, 700 }, { DONE, A, 700 } },
	  .lives = { { A, 700, 0, 1, 2, 0 } } },
	{ .name = "alive at the end",
	  .events = { { ALLOC, A, 700 } },
	  .blocks = { { A, 700, TRACE_ACTIVE } },
	  .segment_bytes = SEGMENT,
	  .reserved_before = SEGMENT,
	  .lives = { { A, 700, 0, NONE, NONE, 0 } } },
	{ .name = "its free pending at the end",
	  .events = { { ALLOC, A, 700 }, { ASK, A, 700 } },
	  .blocks = { { A, 700, TRACE_ACTIVE_PENDING_FREE } },
	  .segment_bytes = SEGMENT,
	  .reserved_before = SEGMENT,
	  .lives = { { A, 700, 0, 1, NONE, 0 } } },
	{ .name = "an address used again and again",
	  .events = { { ALLOC, A, 1 },
		      { ASK, A, 1 },
		      { DONE, A, 1 },
		      { ALLOC, A, 2 },
		      { ASK, A, 2 },
		      { ALLOC, B, 3 },
		      { DONE, A, 2 },
		      { ALLOC, A, 4 } },
	  .blocks = { { A, 4, TRACE_ACTIVE }, { B, 3, TRACE_ACTIVE } },
	  .segment_bytes = SEGMENT,
	  .reserved_before = SEGMENT,
	  .lives = { { A, 1, 0, 1, 2, 0 },
		     { A, 2, 3, 4, 6, 0 },
		     { B, 3, 5, NONE, NONE, 0 },
		     { A, 4, 7, NONE, NONE, 0 } } },
	{ .name = "born before the first event",
	  .events = { { ASK, A, 5 }, { DONE, A, 5 } },
	  .lives = { { A, 5, NONE, 0, 1, BEFORE } },
	  .before = 1 },
	{ .name = "asked to end before the first event",
	  .events = { { DONE, A, 5 } },
	  .lives = { { A, 5, NONE, NONE, 0, PENDING_BEFORE } },
	  .before = 1 },
	{ .name = "there before and still there, one of them pending",
	  .events = { { ALLOC, B, 9 } },
	  .blocks = { { A, 5, TRACE_ACTIVE },
		      { B, 9, TRACE_ACTIVE },
		      { C, 6, TRACE_ACTIVE_PENDING_FREE } },
	  .segment_bytes = SEGMENT,
	  .reserved_before = SEGMENT,
	  .lives = { { B, 9, 0, NONE, NONE, 0 },
		     { A, 5, NONE, NONE, NONE, BEFORE },
		     { C, 6, NONE, NONE, NONE, PENDING_BEFORE } },
	  .before = 2 },
	{ .name = "what is no block at the end is not live",
	  .events = { { ALLOC, A, 5 }, { ASK, A, 5 }, { DONE, A, 5 } },
	  .blocks = { { A, 5, TRACE_INACTIVE } },
	  .segment_bytes = SEGMENT,
	  .reserved_before = SEGMENT,
	  .lives = { { A, 5, 0, 1, 2, 0 } } },
	{ .name = "segments tell what was reserved before",
	  .events = { { TRACE_SEGMENT_ALLOC, C, 2u << 20 },
		      { ALLOC, C, 1 },
		      { ASK, C, 1 },
		      { DONE, C, 1 },
		      { TRACE_SEGMENT_FREE, C, 2u << 20 },
		      { TRACE_SEGMENT_FREE, BASE + SEGMENT, 6u << 20 } },
	  .blocks = { { A, 5, TRACE_INACTIVE } },
	  .segment_bytes = SEGMENT,
	  .reserved_before = SEGMENT + (6u << 20),
	  .lives = { { C, 1, 1, 2, 3, 0 } } },
	/* ---- what cannot be: counted, and the lives stay in order ---- */
	{ .name = "an alloc where something lives",
	  .events = { { ALLOC, A, 5 }, { ALLOC, A, 6 }, { ASK, A, 6 }, { DONE, A, 6 } },
	  .lives = { { A, 5, 0, 1, 1, 0 }, { A, 6, 1, 2, 3, 0 } },
	  .contradictions = 1 },
	{ .name = "an alloc where a free is pending",
	  .events = { { ALLOC, A, 5 },
		      { ASK, A, 5 },
		      { ALLOC, A, 6 },
		      { ASK, A, 6 },
		      { DONE, A, 6 } },
	  .lives = { { A, 5, 0, 1, 2, 0 }, { A, 6, 2, 3, 4, 0 } },
	  .contradictions = 1 },
	{ .name = "an end that nobody asked for",
	  .events = { { ALLOC, A, 5 }, { DONE, A, 5 } },
	  .lives = { { A, 5, 0, 1, 1, 0 } },
	  .contradictions = 1 },
	{ .name = "asked for twice",
	  .events = { { ALLOC, A, 5 }, { ASK, A, 5 }, { ASK, A, 5 }, { DONE, A, 5 } },
	  .lives = { { A, 5, 0, 2, 3, 0 } },
	  .contradictions = 1 },
	{ .name = "live, but no block at the end",
	  .events = { { ALLOC, A, 5 } },
	  .blocks = { { B, 5, TRACE_INACTIVE } },
	  .segment_bytes = SEGMENT,
	  .reserved_before = SEGMENT,
	  .lives = { { A, 5, 0, NONE, NONE, 0 } },
	  .contradictions = 1 },
	{ .name = "a block of another size, one of another state",
	  .events = { { ALLOC, A, 5 }, { ALLOC, B, 5 } },
	  .blocks = { { A, 6, TRACE_ACTIVE }, { B, 5, TRACE_ACTIVE_PENDING_FREE } },
	  .segment_bytes = SEGMENT,
	  .reserved_before = SEGMENT,
	  .lives = { { A, 5, 0, NONE, NONE, 0 }, { B, 5, 1, NONE, NONE, 0 } },
	  .contradictions = 2 },
	{ .name = "more came than stands at the end",
	  .events = { { TRACE_SEGMENT_ALLOC, A, 30u << 20 }, { ALLOC, A, 5 } },
	  .blocks = { { A, 5, TRACE_ACTIVE } },
	  .segment_bytes = SEGMENT,
	  .lives = { { A, 5, 1, NONE, NONE, 0 } },
	  .contradictions = 1 },
};

static struct device device_of(const struct pairing *p)
{
	struct device d = { .events = p->events,
			    .blocks = p->blocks,
			    .segment_bytes = p->segment_bytes };

	while (d.event_count < 8 && p->events[d.event_count].addr)
		d.event_count++;
	while (d.block_count < 4 && p->blocks[d.block_count].addr)
		d.block_count++;
	return d;
}

static void check_lives(const char *name, const struct snapshot_device *d, const struct life *want,
			size_t n)
{
	if (d->alloc_count != n)
		fail_msg("%s: %zu lives, not %zu", name, d->alloc_count, n);
	for (size_t i = 0; i < n; i++) {
		const struct snapshot_alloc *a = &d->allocs[i];

		if (a->addr != want[i].addr || a->requested_bytes != want[i].bytes ||
		    a->born != want[i].born || a->free_requested != want[i].asked ||
		    a->free_completed != want[i].ended || a->flags != want[i].flags)
			fail_msg("%s: life %zu is %#llx %llu %d %d %d flags %u", name, i,
				 (unsigned long long)a->addr,
				 (unsigned long long)a->requested_bytes, (int)a->born,
				 (int)a->free_requested, (int)a->free_completed, a->flags);
	}
}

/* Every event of a life names it; no other event names one. */
static void check_column(const char *name, const struct snapshot_device *d)
{
	for (uint32_t e = 0; e < d->events.n; e++) {
		uint32_t a = d->events.alloc[e];

		if ((a == NONE) != (d->events.action[e] > TRACE_FREE_COMPLETED))
			fail_msg("%s: event %u names allocation %d", name, e, (int)a);
		if (a != NONE && (a >= d->alloc_count || d->allocs[a].addr != d->events.addr[e]))
			fail_msg("%s: event %u names another address", name, e);
	}
}

static void test_pairs(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(pairings) / sizeof(pairings[0]); i++) {
		const struct pairing *p = &pairings[i];
		struct device in = device_of(p);
		const struct snapshot_device *d;
		struct snapshot *t;
		struct mem m;
		size_t n = 0;

		while (n < 6 && p->lives[n].addr)
			n++;
		mem_init(&m, 0);
		t = recording(&m, &in, 1);
		d = &t->devices[0];
		check_lives(p->name, d, p->lives, n);
		check_column(p->name, d);
		if (d->contradictions != p->contradictions || d->allocs_before != p->before ||
		    d->reserved_before_bytes != p->reserved_before)
			fail_msg("%s: %llu contradictions, %u and %llu bytes before", p->name,
				 (unsigned long long)d->contradictions, d->allocs_before,
				 (unsigned long long)d->reserved_before_bytes);
		snapshot_free(t);
		assert_int_equal(m.used_bytes, 0);
	}
}

/* The same address on two devices is two places. */
static void test_devices(void **state)
{
	static const struct event first[] = { { ALLOC, A, 5 }, { ASK, A, 5 } },
				  last[] = { { ASK, A, 7 }, { DONE, A, 7 }, { ALLOC, A, 8 } };
	static const struct block pending[] = { { A, 5, TRACE_ACTIVE_PENDING_FREE } };
	static const struct life of_first[] = { { A, 5, 0, 1, NONE, 0 } },
				 of_last[] = { { A, 7, NONE, 0, 1, BEFORE },
					       { A, 8, 2, NONE, NONE, 0 } };
	const struct device in[] = { { first, 2, pending, 1, SEGMENT },
				     { .events = NULL },
				     { last, 3, NULL, 0, 0 } };
	struct snapshot *t;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	t = recording(&m, in, 3);
	assert_int_equal(t->device_count, 3);
	check_lives("device 0", &t->devices[0], of_first, 1);
	check_lives("device 1", &t->devices[1], NULL, 0);
	check_lives("device 2", &t->devices[2], of_last, 2);
	assert_int_equal(t->devices[0].contradictions, 0);
	/* without a segment at the end nothing is said of what stands there */
	assert_int_equal(t->devices[2].contradictions, 0);
	snapshot_free(t);
	assert_int_equal(m.used_bytes, 0);
}

/* ---- a recording cut anywhere ---- */

#define EVENTS 3000
#define PLACES 700 /* more than the table of live blocks has room for at first */

/* In no regular steps, so that they meet in the table of live blocks. */
static uint64_t address(size_t place)
{
	return BASE + place * 0x10000 + (place * place * 2654435761u >> 7 & 63) * 512;
}

/* A run that never contradicts itself, and the blocks it leaves. */
static void make_run(struct event *events, struct block *blocks, size_t *block_count)
{
	enum { EMPTY, LIVES, ENDS } place[PLACES] = { EMPTY };
	uint64_t bytes[PLACES], random = 1;

	for (size_t e = 0; e < EVENTS; e++) {
		size_t p;

		random = random * 6364136223846793005u + 1442695040888963407u;
		p = (size_t)(random >> 33) % PLACES;
		if (place[p] == EMPTY)
			bytes[p] = 1 + (random >> 50);
		events[e] = (struct event){ place[p] == EMPTY   ? ALLOC
					    : place[p] == LIVES ? ASK
								: DONE,
					    address(p), bytes[p], (uint32_t)(p % 3) };
		place[p] = place[p] == EMPTY ? LIVES : place[p] == LIVES ? ENDS : EMPTY;
	}
	*block_count = 0;
	for (size_t p = 0; p < PLACES; p++)
		if (place[p] != EMPTY)
			blocks[(*block_count)++] =
				(struct block){ address(p), bytes[p],
						place[p] == LIVES ? TRACE_ACTIVE
								  : TRACE_ACTIVE_PENDING_FREE };
}

static uint32_t moved(uint32_t event, uint32_t cut)
{
	return event == NONE || event < cut ? NONE : event - cut;
}

/* Each life of the whole that reaches beyond the cut is a life of the part. */
static void check_part(const struct snapshot_device *whole, const struct snapshot_device *part,
		       uint32_t cut)
{
	size_t lives = 0, before = 0;

	for (size_t i = 0; i < whole->alloc_count; i++) {
		const struct snapshot_alloc *a = &whole->allocs[i], *b = NULL;
		uint32_t flags = a->born >= cut ? 0 : BEFORE;

		if (a->free_completed < cut)
			continue;
		if (flags && a->free_requested < cut)
			flags = PENDING_BEFORE;
		lives++;
		before += flags != 0;
		for (size_t k = 0; k < part->alloc_count && !b; k++)
			if (part->allocs[k].addr == a->addr &&
			    part->allocs[k].born == moved(a->born, cut))
				b = &part->allocs[k];
		if (!b || b->requested_bytes != a->requested_bytes ||
		    b->free_requested != moved(a->free_requested, cut) ||
		    b->free_completed != moved(a->free_completed, cut) || b->flags != flags)
			fail_msg("cut at %u: life %zu is another one", cut, i);
	}
	assert_int_equal(part->alloc_count, lives);
	assert_int_equal(part->allocs_before, before);
	assert_int_equal(part->contradictions, 0);
}

static void test_cut(void **state)
{
	static struct event events[EVENTS];
	static struct block blocks[PLACES];
	struct device in = { events, EVENTS, blocks, 0, PLACES * 0x10000 };
	struct snapshot *whole, *part;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	make_run(events, blocks, &in.block_count);
	whole = recording(&m, &in, 1);
	assert_int_equal(whole->devices[0].contradictions, 0);
	assert_int_equal(whole->devices[0].allocs_before, 0);
	for (uint32_t cut = 0; cut < EVENTS; cut += 211) {
		in.events = events + cut;
		in.event_count = EVENTS - cut;
		part = recording(&m, &in, 1);
		check_part(&whole->devices[0], &part->devices[0], cut);
		check_column("a part", &part->devices[0]);
		snapshot_free(part);
	}
	snapshot_free(whole);
	assert_int_equal(m.used_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
