/* The allocator over virtual memory: what it hands out is mapped and no one else's; what repeats is learned; plans that lie are harmless. */
#include "allocator/vmm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)
#define MS ((uint64_t)1000000)
#define SPACE_SLOTS ((size_t)1 << 20) /* 2 TiB of addresses */
#define SPACE_BASE ((uint64_t)1 << 40)

/* A slot of the address space: the handle that is mapped there and, once it is mapped elsewhere, that it is only left. */
struct slot {
	uint64_t handle; /* 0: none */
	uint64_t
		busy; /* until then the GPU may use it: the last free on it, and what its stream was behind */
	int left;
};

struct card {
	struct slot *slots;
	uint64_t next, bytes, mapped_bytes, waits, handles, aliases;
	uint64_t ns, wait_ns; /* the time; how far streams are behind */
	uint64_t move_ns;     /* that a move takes */
	int refuses_to_wait, refuses_to_alias, ends;
	const struct vmm *heap;
};

static uint64_t reserve(void *self, uint64_t bytes)
{
	struct card *c = self;
	uint64_t addr = c->next;

	assert_int_equal(bytes % VMM_SLOT, 0);
	c->next += bytes;
	return (c->next - SPACE_BASE) / VMM_SLOT <= SPACE_SLOTS ? addr : 0;
}

static void unreserve(void *self, uint64_t addr, uint64_t bytes)
{
	(void)self, (void)addr, (void)bytes;
}

static struct slot *slot_at(const struct card *c, uint64_t addr)
{
	assert_int_equal(addr % VMM_SLOT, 0);
	return &c->slots[(addr - SPACE_BASE) / VMM_SLOT];
}

static void put(struct card *c, uint64_t addr, uint64_t bytes, uint64_t handle)
{
	assert_int_equal(bytes % VMM_SLOT, 0);
	for (uint64_t at = addr; at < addr + bytes; at += VMM_SLOT) {
		assert_int_equal(slot_at(c, at)->handle, 0);
		*slot_at(c, at) = (struct slot){ .handle = handle };
	}
}

static int map(void *self, uint64_t addr, uint64_t bytes, uint64_t *handle)
{
	struct card *c = self;

	if (c->mapped_bytes + bytes > c->bytes)
		return 0;
	*handle = ++c->handles;
	put(c, addr, bytes, *handle);
	c->mapped_bytes += bytes;
	return 1;
}

/* Only what no stream uses any more. */
static void clear(struct card *c, uint64_t addr, uint64_t bytes, int left)
{
	for (uint64_t at = addr; at < addr + bytes; at += VMM_SLOT) {
		assert_int_not_equal(slot_at(c, at)->handle, 0);
		assert_int_equal(slot_at(c, at)->left, left);
		assert_true(c->ends || slot_at(c, at)->busy <= c->ns);
		*slot_at(c, at) = (struct slot){ 0 };
	}
}

static void unmap(void *self, uint64_t addr, uint64_t bytes, uint64_t handle)
{
	struct card *c = self;

	assert_int_equal(slot_at(c, addr)->handle, handle);
	clear(c, addr, bytes, 0);
	c->mapped_bytes -= bytes;
}

static uint32_t lane_of(const struct card *c, uint64_t addr)
{
	for (size_t i = 0; i < c->heap->regions.n; i++)
		if (addr - c->heap->regions.at[i].base < c->heap->regions.at[i].bytes)
			return c->heap->regions.at[i].lane;
	return VMM_NONE;
}

/* Another stream gets memory only when its own no longer uses it. */
static int alias(void *self, uint64_t from, uint64_t to, uint64_t bytes, uint64_t handle)
{
	struct card *c = self;

	if (c->refuses_to_alias)
		return 0;
	put(c, to, bytes, handle);
	for (uint64_t at = 0; at < bytes; at += VMM_SLOT) {
		struct slot *s = slot_at(c, from + at);

		assert_int_equal(s->handle, handle);
		assert_false(s->left);
		assert_true(lane_of(c, from) == lane_of(c, to) || s->busy <= c->ns);
		slot_at(c, to + at)->busy = s->busy;
		s->left = 1;
	}
	c->aliases++;
	c->ns += c->move_ns;
	return 1;
}

static void drop(void *self, uint64_t addr, uint64_t bytes)
{
	clear(self, addr, bytes, 1);
}

/* A mark is the time when it is reached, and 1: streams are so far behind. */
static uint64_t mark(void *self, uint64_t stream, uint64_t old)
{
	const struct card *c = self;

	(void)stream, (void)old;
	return c->refuses_to_wait ? 0 : c->ns + c->wait_ns + 1;
}

static int reached(void *self, uint64_t mark)
{
	const struct card *c = self;

	return mark <= c->ns + 1;
}

static int wait(void *self, uint64_t mark)
{
	struct card *c = self;

	c->waits++;
	c->ns = mark > c->ns + 1 ? mark - 1 : c->ns;
	return !c->refuses_to_wait;
}

static uint64_t now_ns(void *self)
{
	const struct card *c = self;

	return c->ns;
}

struct fixture {
	struct mem m;
	struct card card;
	struct vmm v;
};

static void begin(struct fixture *f, uint64_t card_bytes, uint64_t limit,
		  const struct cycles_plan *plan)
{
	struct vmm_setup setup = { .driver = { &f->card, reserve, unreserve, map, unmap, alias,
					       drop, mark, reached, wait, now_ns },
				   .limit_bytes = limit,
				   .device_bytes = card_bytes < 80 * MIB ? 80 * MIB : card_bytes,
				   .learns = 1,
				   .plan = plan };

	*f = (struct fixture){ .card = { .next = SPACE_BASE, .bytes = card_bytes } };
	f->card.slots = calloc(SPACE_SLOTS, sizeof(*f->card.slots));
	f->card.heap = &f->v;
	assert_non_null(f->card.slots);
	mem_init(&f->m, 0);
	vmm_init(&f->v, &f->m, &setup);
}

static void end(struct fixture *f)
{
	f->card.ends = 1;
	vmm_release(&f->v);
	assert_int_equal(f->card.mapped_bytes, 0);
	assert_int_equal(f->m.used_bytes, 0);
	free(f->card.slots);
}

/* All that is used is mapped; pieces of a region lie one behind the other; the counts are those of the pieces. */
static void check(const struct fixture *f)
{
	const struct vmm *v = &f->v;
	uint64_t used = 0, blocks = 0, left = 0;

	for (uint32_t i = 0; i < v->regions.n; i++) {
		const struct vmm_region *r = &v->regions.at[i];
		uint64_t at = r->base;

		for (uint32_t n = r->first; n != VMM_NONE; n = v->nodes.at[n].next) {
			const struct vmm_node *b = &v->nodes.at[n];

			assert_int_equal(b->addr, at);
			assert_true(b->bytes > 0);
			at += b->bytes;
			if (b->state == VMM_USED) {
				used += b->bytes;
				blocks++;
			}
			left += b->state == VMM_LEFT;
			for (uint64_t s = b->addr & ~(VMM_SLOT - 1);
			     b->state != VMM_UNMAPPED && s < at; s += VMM_SLOT) {
				assert_true(slot_at(&f->card, s)->handle);
				assert_int_equal(slot_at(&f->card, s)->left, b->state == VMM_LEFT);
			}
			assert_int_not_equal(b->state, VMM_FILLING);
		}
		if (r->first != VMM_NONE)
			assert_int_equal(at, r->base + r->bytes);
	}
	assert_int_equal(used, v->counts.used_bytes);
	assert_int_equal(blocks, v->counts.blocks);
	assert_int_equal(left, v->left.n);
	assert_int_equal(f->card.mapped_bytes, v->counts.mapped_bytes);
	assert_true(v->counts.mapped_bytes <= v->limit_bytes);
}

static uint64_t take(struct fixture *f, uint64_t stream, uint64_t bytes)
{
	uint64_t addr;

	assert_int_equal(vmm_malloc(&f->v, vmm_lane(&f->v, stream, 0), bytes, &addr), 0);
	return addr;
}

/* Its stream may still work on it as long as it is behind. */
static int give(struct fixture *f, uint64_t addr)
{
	const struct vmm_node *b = vmm_block(&f->v, addr);

	for (uint64_t at = addr & ~(VMM_SLOT - 1); b && at < addr + b->bytes; at += VMM_SLOT)
		slot_at(&f->card, at)->busy = f->card.ns + f->card.wait_ns;
	return vmm_free(&f->v, addr);
}

static void hands_out_and_takes_back(void **state)
{
	struct fixture f;
	uint64_t a, b, c;

	(void)state;
	begin(&f, 1024 * MIB, UINT64_MAX, NULL);
	a = take(&f, 0, 1);
	b = take(&f, 0, 3 * MIB + 1);
	c = take(&f, 7, 3 * MIB + 1);
	assert_int_equal(a % 512, 0);
	assert_true(b && c && b != c);
	assert_int_equal(vmm_block(&f.v, b)->bytes, 3 * MIB + 512);
	assert_int_equal(vmm_block(&f.v, b)->requested_bytes, 3 * MIB + 1);
	assert_null(vmm_block(&f.v, b + 512));
	check(&f);
	assert_true(give(&f, b));
	assert_false(give(&f, b));
	assert_int_equal(take(&f, 7, 3 * MIB) == b, 0); /* freed on stream 0, not this one's */
	assert_int_equal(take(&f, 0, 3 * MIB), b);
	assert_int_equal(take(&f, 0, 0), 0);
	check(&f);
	end(&f);
}

/* 960 of 1024 MiB in pieces of 16, each other one is freed. */
static void begin_in_pieces(struct fixture *f)
{
	uint64_t at[60];

	begin(f, 4096 * MIB, 1024 * MIB, NULL);
	f->card.wait_ns = 4 * MS;
	for (size_t i = 0; i < 60; i++)
		at[i] = take(f, 0, 16 * MIB);
	for (size_t i = 0; i < 60; i += 2)
		give(f, at[i]);
}

/* Within a stream memory moves without a wait, and the old addresses are unmapped once the stream has passed them. */
static void memory_moves_at_the_limit(void **state)
{
	struct fixture f;
	uint64_t big;

	(void)state;
	begin_in_pieces(&f);
	big = take(&f, 0, 500 * MIB);
	assert_true(big);
	assert_int_equal(f.card.waits, 0);
	assert_true(f.card.aliases > 200);
	assert_true(f.v.left.n > 0);
	check(&f);
	assert_int_equal(take(&f, 0, 100 * MIB), 0); /* 480 + 500 are live */
	assert_int_equal(f.v.counts.ooms, 1);
	assert_true(take(&f, 0, 40 * MIB)); /* the process lives on */
	assert_true(give(&f, big));
	vmm_empty(&f.v);
	assert_int_equal(f.v.left.n, 0);
	check(&f);
	end(&f);
}

/* Another stream must wait; a capture cannot be waited for: then the request fails, and nothing moves. */
static void another_stream_waits(void **state)
{
	struct fixture f;

	(void)state;
	begin_in_pieces(&f);
	f.card.refuses_to_wait = 1;
	assert_int_equal(take(&f, 1, 500 * MIB), 0);
	assert_int_equal(f.card.aliases, 0);
	check(&f);
	f.card.refuses_to_wait = 0;
	assert_true(take(&f, 1, 500 * MIB));
	assert_int_equal(f.card.waits, 1);
	check(&f);
	vmm_empty(&f.v);
	assert_int_equal(f.v.counts.mapped_bytes, 980 * MIB);
	end(&f);
}

/* If the driver maps nothing twice, a move is a wait, and new memory. */
static void memory_moves_without_aliases(void **state)
{
	struct fixture f;

	(void)state;
	begin_in_pieces(&f);
	f.card.refuses_to_alias = 1;
	assert_true(take(&f, 0, 500 * MIB));
	assert_true(f.card.waits > 0);
	check(&f);
	end(&f);
}

static void a_full_card_is_a_limit(void **state)
{
	struct fixture f;
	uint64_t a, b;

	(void)state;
	begin(&f, 256 * MIB, UINT64_MAX, NULL);
	a = take(&f, 0, 120 * MIB);
	b = take(&f, 0, 120 * MIB);
	assert_true(a && b);
	assert_int_equal(take(&f, 0, 120 * MIB), 0);
	give(&f, a);
	assert_true(take(&f, 9, 120 * MIB)); /* of another stream: it moves */
	check(&f);
	end(&f);
}

static void private_pools_keep_what_they_have(void **state)
{
	struct fixture f;
	uint32_t lane;
	uint64_t addr;

	(void)state;
	begin(&f, 256 * MIB, 200 * MIB, NULL);
	lane = vmm_lane(&f.v, 3, 77);
	assert_int_equal(vmm_malloc(&f.v, lane, 150 * MIB, &addr), 0);
	give(&f, addr);
	assert_int_equal(take(&f, 3, 150 * MIB), 0); /* a graph may still write there */
	vmm_drop_pool(&f.v, 77);
	assert_true(take(&f, 3, 150 * MIB));
	check(&f);
	end(&f);
}

/* A step of a training: what it keeps, temporaries, and what is freed in another order than it came. */
static void step(struct fixture *f, uint64_t *live, unsigned layers, unsigned noise)
{
	for (unsigned i = 0; i < layers; i++) {
		uint64_t t = take(f, 0, (3 + i % 5) * MIB);

		live[i] = take(f, 0, (2 + i % 7) * MIB + noise * 512);
		give(f, t);
	}
	for (unsigned i = layers; i--;) {
		uint64_t t = take(f, 0, (4 + i % 3) * MIB);

		give(f, live[i]);
		give(f, t);
	}
}

static void steps_are_learned(void **state)
{
	struct fixture f;
	uint64_t live[64], first, waits;
	const struct cycle_lane *l;

	(void)state;
	begin(&f, 8192 * MIB, UINT64_MAX, NULL);
	assert_true(take(&f, 0, 300 * MIB)); /* weights */
	for (unsigned i = 0; i < 4; i++)
		step(&f, live, 64, 0);
	l = &f.v.lanes.at[0].cycles;
	assert_int_equal(l->counts.learned, 1);
	assert_int_equal(l->cycles[0].n, 192);
	assert_true(l->cycles[0].area_units >= l->cycles[0].peak_units);
	step(&f, live, 64, 0);
	first = live[0];
	waits = f.card.waits;
	for (unsigned i = 0; i < 4; i++) {
		step(&f, live, 64, 0);
		assert_int_equal(live[0], first); /* the place that was planned */
		check(&f);
	}
	assert_int_equal(l->counts.misses, 0);
	assert_int_equal(l->conflicts, 0);
	assert_int_equal(f.card.waits, waits); /* a plan needs none */
	assert_true(f.v.counts.mapped_peak_bytes <=
		    f.v.counts.used_peak_bytes + f.v.counts.used_peak_bytes / 100 + 64 * MIB);
	for (unsigned i = 0; i < 8; i++) {
		step(&f, live, 64, i + 1); /* other shapes: it is lost, and nothing else */
		check(&f);
	}
	step(&f, live, 64, 0);
	step(&f, live, 64, 0);
	assert_true(l->following); /* and found again */
	assert_int_equal(live[0], first);
	end(&f);
}

/* Five steps of one length, five of another, in turn; the optimizer asks for the same after each. */
static void two_lengths_are_two_cycles(void **state)
{
	struct fixture f;
	uint64_t live[40], lost = 0, waits = 0;
	const struct cycle_lane *l;

	(void)state;
	begin(&f, 16384 * MIB, UINT64_MAX, NULL);
	f.card.wait_ns = 4000000;
	assert_true(take(&f, 0, 300 * MIB));
	l = &f.v.lanes.at[0].cycles;
	for (unsigned i = 0; i < 60; i++) {
		unsigned length = i / 5 % 2 ? 3 : 4;

		for (unsigned k = 0; k < 40; k++)
			live[k] = take(&f, 0, (k % 4 + 2) * length * MIB);
		for (unsigned k = 40; k--;)
			give(&f, live[k]);
		for (unsigned k = 0; k < 130; k++)
			give(&f, take(&f, 0, (k % 13 + 2) * MIB));
		if (i == 25) {
			lost = l->counts.lost;
			waits = f.card.waits;
		}
	}
	assert_int_equal(l->counts.learned, 2);
	assert_int_equal(l->counts.lost, lost);
	assert_int_equal(f.card.waits, waits);
	end(&f);
}

static uint32_t next_random(uint32_t *x)
{
	*x = *x * 1664525u + 1013904223u;
	return *x >> 8;
}

/* Any order of requests, on three streams, under a limit, with plans that do not fit. */
static void anything_goes(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct fixture f;
		uint64_t live[300] = { 0 };
		uint32_t x = seed * 7919;

		begin(&f, 2048 * MIB, seed % 3 ? 1500 * MIB : UINT64_MAX, NULL);
		f.card.wait_ns = seed % 4 * MS;
		f.card.refuses_to_alias = seed % 5 == 4;
		for (unsigned i = 0; i < 6000; i++) {
			unsigned k = next_random(&x) % 300;
			uint64_t bytes =
				1 + next_random(&x) % (next_random(&x) % 4 ? 20000 : 24 * MIB);

			if (i % 2000 < 600) { /* something that repeats, so that there are plans */
				k = i % 60;
				bytes = (2 + i % 12) * MIB;
			}
			if (live[k]) {
				assert_true(give(&f, live[k]));
				live[k] = 0;
			} else {
				live[k] = take(&f, next_random(&x) % 3, bytes);
			}
			f.card.ns += MS / 100;
			f.card.refuses_to_wait = i % 1000 > 950; /* a capture */
			if (i % 500 == 0)
				check(&f);
			if (i % 1777 == 0)
				vmm_empty(&f.v);
		}
		check(&f);
		end(&f);
	}
}

/* ---- compared with expandable segments ---- */

/* Programs of cycles within cycles: what some seed makes of micro-steps, an optimizer, evaluations and growing caches. */
struct nest {
	struct fixture *f;
	uint32_t x;
	unsigned layers, micro, every;
	uint64_t unit, live[96], grads[96];
	struct caching theirs; /* expandable segments: all streams in one model */
	uint64_t their_next;
	uint32_t their_block[4096];
	uint64_t addr_of[4096];
};

static uint64_t their_reserve(void *self, uint64_t bytes)
{
	uint64_t *next = self, addr = *next;

	*next += bytes;
	return addr;
}

static int their_map(void *self, uint64_t addr, uint64_t bytes)
{
	(void)self, (void)addr, (void)bytes;
	return 1;
}

static void their_unmap(void *self, uint64_t addr, uint64_t bytes)
{
	(void)self, (void)addr, (void)bytes;
}

static uint64_t nest_take(struct nest *n, uint64_t stream, uint64_t bytes)
{
	struct caching_request rq = { .bytes = bytes, .stream = (uint16_t)stream };
	uint64_t addr = take(n->f, stream, bytes);
	uint32_t i = 0;

	assert_true(addr);
	while (n->addr_of[i])
		i++;
	assert_true(i < 4096);
	n->addr_of[i] = addr;
	assert_int_equal(caching_malloc(&n->theirs, &rq, &n->their_block[i]), 0);
	return addr;
}

static void nest_free(struct nest *n, uint64_t addr)
{
	uint32_t i = 0;

	while (n->addr_of[i] != addr)
		i++;
	n->addr_of[i] = 0;
	caching_free(&n->theirs, n->their_block[i]);
	assert_true(give(n->f, addr));
}

static void micro_step(struct nest *n, uint64_t unit)
{
	for (unsigned i = 0; i < n->layers; i++) {
		uint64_t t = nest_take(n, 0, (3 + i % 5) * unit);

		n->live[i] = nest_take(n, 0, (2 + i * 7 % 11) * unit);
		nest_free(n, t);
	}
	for (unsigned i = n->layers; i--;) {
		uint64_t t = nest_take(n, 0, (4 + i % 3) * unit);

		nest_free(n, n->live[i]);
		if (!n->grads[i])
			n->grads[i] = nest_take(n, 0, (1 + i % 4) * n->unit);
		nest_free(n, t);
	}
}

static void update(struct nest *n)
{
	for (unsigned i = 0; i < n->layers; i++) {
		uint64_t t = nest_take(n, i % 2, (1 + i % 4) * n->unit);

		nest_free(n, n->grads[i]);
		n->grads[i] = 0;
		nest_free(n, t);
	}
}

/* A cache that grows: each time a new one, then the old one goes. */
static void generate(struct nest *n)
{
	uint64_t cache = nest_take(n, 0, n->unit), next;

	for (unsigned i = 2; i < 24; i++) {
		next = nest_take(n, 0, i * n->unit + i * 4096);
		nest_free(n, cache);
		cache = next;
	}
	nest_free(n, cache);
}

/* Nothing repeats: any size, small and large, on two streams, now more and now less. */
static void churn(struct nest *n)
{
	uint64_t at[200] = { 0 };

	for (unsigned i = 0; i < 3000; i++) {
		unsigned k = next_random(&n->x) % (i / 500 % 2 ? 40 : 200);
		uint64_t most = next_random(&n->x) % 3 ? 24 * MIB : MIB / 8;

		if (at[k])
			nest_free(n, at[k]);
		at[k] = at[k] ? 0 : nest_take(n, k % 2, 1 + next_random(&n->x) % most);
	}
	for (unsigned k = 0; k < 200; k++)
		if (at[k])
			nest_free(n, at[k]);
}

static void nest_begin(struct nest *n, struct fixture *f, uint32_t seed, uint64_t wait_ns)
{
	static const int64_t streams[2] = { 0, 1 };
	struct caching_setup setup = { .rules = allocator_rules_default(0),
				       .driver = { .self = &n->their_next,
						   .reserve = their_reserve,
						   .unreserve = their_unmap,
						   .map = their_map,
						   .unmap = their_unmap },
				       .stream_values = streams,
				       .streams = 2,
				       .pools = 1,
				       .limit_bytes = UINT64_MAX,
				       .device_bytes = (uint64_t)128 << 30 };

	*n = (struct nest){ .f = f, .x = seed * 7919, .their_next = (uint64_t)1 << 40 };
	begin(f, (uint64_t)128 << 30, UINT64_MAX, NULL);
	f->card.wait_ns = wait_ns;
	setup.rules.expandable = 1;
	assert_int_equal(caching_init(&n->theirs, &f->m, &setup, NULL), 0);
	n->layers = 8 + next_random(&n->x) % 56;
	n->micro = 1 + next_random(&n->x) % 8;
	n->every = 2 + next_random(&n->x) % 5;
	n->unit = (1 + next_random(&n->x) % 4) * MIB / 2 + next_random(&n->x) % 1000 * 512;
	if (seed % 4 == 3) { /* requests of hundreds of MiB, too */
		n->unit *= 30;
		n->layers = 4 + n->layers / 6;
	}
	nest_take(n, 0, 300 * MIB);
}

static void nest_run(struct nest *n, struct fixture *f, uint32_t seed, uint64_t wait_ns,
		     uint64_t move_ns)
{
	nest_begin(n, f, seed, wait_ns);
	f->card.move_ns = move_ns;
	if (seed % 5 == 0)
		churn(n);
	for (unsigned i = 0; i < 40; i++) {
		for (unsigned k = 0; k < n->micro; k++)
			micro_step(n, n->unit);
		update(n);
		if (i % n->every == 0)
			micro_step(n, n->unit + next_random(&n->x) % 2 * n->unit / 3);
		if (seed % 2 && i % n->every == 1)
			generate(n);
		f->card.ns += 50 * MS; /* of the step */
	}
	if (seed % 3 == 0)
		churn(n);
	check(f);
	assert_int_equal(f->v.counts.expandable_peak_bytes,
			 n->theirs.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak);
}

static void nest_end(struct nest *n)
{
	caching_release(&n->theirs);
	end(n->f);
}

/* While waits are cheap, never more than expandable segments would reserve, and a little. */
static void expandable_segments_are_the_bound(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 30; seed++) {
		struct fixture f;
		struct nest n;

		nest_run(&n, &f, seed, MS, 0);
		assert_true(f.v.counts.mapped_peak_bytes <=
			    f.v.counts.expandable_peak_bytes + 32 * MIB);
		nest_end(&n);
	}
}

/* Also if a wait takes half a second. */
static void no_cliff_without_moves(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 30; seed++) {
		struct fixture f;
		struct nest n;

		nest_run(&n, &f, seed, 500 * MS, 0);
		/* what is allowed, and the last move: a wait for each stream */
		assert_true(f.v.counts.moved_ns <= 4000 * MS + f.card.ns / 100);
		assert_true(f.v.counts.mapped_peak_bytes <=
			    f.v.counts.expandable_peak_bytes / 50 * 51 + 32 * MIB);
		nest_end(&n);
	}
}

/* Programs that last seconds used up the time for moves, and then reserved up to a third more than expandable segments. */
static void the_bound_stands_without_time_for_moves(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 40; seed++) {
		struct fixture f;
		struct nest n;

		nest_run(&n, &f, seed, 50 * MS, seed % 3 * 40 * MS);
		assert_true(f.v.counts.mapped_peak_bytes <=
			    f.v.counts.expandable_peak_bytes + 32 * MIB);
		check(&f);
		nest_end(&n);
	}
}

/* An update of Q-learning: frames out of chunks, then the activations of one network that are kept, and of one that are not. */
static void learn(struct nest *n)
{
	static const uint64_t frame = 7056, frames = 8192;
	uint64_t part[16], all, kept[2] = { 0 };

	for (unsigned k = 0; k < 16; k++)
		part[k] = nest_take(n, 0, frames / 16 * frame);
	all = nest_take(n, 0, frames * frame);
	for (unsigned k = 0; k < 16; k++)
		nest_free(n, part[k]);
	for (unsigned network = 0; network < 2; network++) {
		uint64_t floats = nest_take(n, 0, frames * frame * 4);

		kept[0] = nest_take(n, 0, frames * 64 * 200);
		kept[1] = nest_take(n, 0, frames * 64 * 162);
		nest_free(n, floats);
		for (unsigned k = 0; !network && k < 2; k++)
			nest_free(n, kept[k]);
	}
	nest_free(n, nest_take(n, 0, frames * 64 * 200));
	nest_free(n, kept[0]);
	nest_free(n, kept[1]);
	nest_free(n, all);
	n->f->card.ns += 10 * MS;
}

/* A memory of chunks of any length, the oldest of which goes when a new one comes, and updates between. */
static void chunks(struct nest *n)
{
	static const uint64_t frames_of = 451584; /* 64 frames */
	uint64_t at[256] = { 0 }, live[256] = { 0 }, sum = 0;
	unsigned first = 0, next = 0;

	for (unsigned i = 0; i < 400; i++) {
		uint64_t frames[48], count = 16 + next_random(&n->x) % 32;

		for (unsigned k = 0; k < count; k++) {
			frames[k] = nest_take(n, 0, frames_of);
			if (i > 190)
				nest_free(n, nest_take(n, 0, count * 1000000));
		}
		live[next % 256] = count * frames_of;
		at[next++ % 256] = nest_take(n, 0, count * frames_of);
		for (unsigned k = 0; k < count; k++)
			nest_free(n, frames[k]);
		for (sum += count * frames_of; sum > 2400 * MIB; first++) {
			nest_free(n, at[first % 256]);
			sum -= live[first % 256];
		}
		for (unsigned k = 0; i > 190 && k < 4; k++)
			learn(n);
	}
	for (; first < next; first++)
		nest_free(n, at[first % 256]);
}

static void a_memory_of_chunks_stays_within_the_bound(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 4; seed++) {
		struct fixture f;
		struct nest n;

		nest_begin(&n, &f, seed, (seed % 2 ? 4 : 40) * MS);
		f.card.move_ns = seed > 2 ? 5 * MS : 0;
		chunks(&n);
		assert_true(f.v.counts.mapped_peak_bytes <=
			    f.v.counts.expandable_peak_bytes + 32 * MIB);
		check(&f);
		nest_end(&n);
	}
}

/* What is refused by the limit does not count as what expandable segments would have reserved. */
static void refusals_do_not_raise_the_bound(void **state)
{
	struct fixture f;
	uint64_t a;

	(void)state;
	begin(&f, 4096 * MIB, 1024 * MIB, NULL);
	a = take(&f, 0, 500 * MIB);
	assert_int_equal(take(&f, 0, 3000 * MIB), 0);
	assert_true(give(&f, a));
	assert_int_equal(f.v.counts.expandable_peak_bytes, 500 * MIB);
	assert_int_equal(f.v.counts.expandable_bytes, 500 * MIB);
	vmm_empty(&f.v);
	assert_int_equal(f.v.counts.expandable_bytes, 0);
	end(&f);
}

/* ---- files ---- */

static void write_plan(struct fixture *f, cycles_bytes *out)
{
	struct cycles_plan p = { .mem = &f->m, .live_peak_bytes = 5, .reserved_peak_bytes = 6 };
	struct plim_err err;

	for (size_t i = 0; i < f->v.lanes.n; i++)
		assert_int_equal(cycles_add_lane(&p, &f->v.lanes.at[i].cycles, &err), 0);
	assert_int_equal(cycles_write(&p, out, &err), 0);
	cycles_release(&p);
}

static void plans_survive_a_file(void **state)
{
	struct fixture f, g;
	uint64_t live[64], first;
	cycles_bytes file = { 0 };
	struct cycles_plan p;
	struct plim_err err;
	struct mem m;

	(void)state;
	mem_init(&m, 0);
	begin(&f, 8192 * MIB, UINT64_MAX, NULL);
	for (unsigned i = 0; i < 4; i++)
		step(&f, live, 64, 0);
	first = live[0] - f.v.regions.at[VMM_PLANNED].base;
	write_plan(&f, &file);
	assert_int_equal(cycles_read(&p, &m, file.at, file.n, &err), 0);
	assert_int_equal(p.live_peak_bytes, 5);
	begin(&g, 8192 * MIB, UINT64_MAX, &p);
	step(&g, live, 64, 0);
	step(&g, live, 64, 0);
	assert_int_equal(live[63 - 1] - g.v.regions.at[VMM_PLANNED].base < (uint64_t)1 << 32, 1);
	assert_int_equal(live[0] - g.v.regions.at[VMM_PLANNED].base, first);
	assert_int_equal(g.v.lanes.at[0].cycles.counts.learned, 0);
	check(&g);
	end(&g);
	cycles_release(&p);
	vec_release(&f.m, &file);
	end(&f);
	assert_int_equal(m.used_bytes, 0);
}

static void bad_files_are_refused(void **state)
{
	struct fixture f;
	uint64_t live[64];
	cycles_bytes file = { 0 };
	struct cycles_plan p;
	struct plim_err err;

	(void)state;
	begin(&f, 8192 * MIB, UINT64_MAX, NULL);
	for (unsigned i = 0; i < 4; i++)
		step(&f, live, 64, 0);
	write_plan(&f, &file);
	for (size_t n = 0; n < file.n; n += 1 + n / 7)
		assert_int_equal(cycles_read(&p, &f.m, file.at, n, &err), PLIM_E_FORMAT);
	for (size_t i = 0; i < file.n; i += 1 + i / 5) {
		file.at[i] ^= 0x40;
		assert_int_equal(cycles_read(&p, &f.m, file.at, file.n, &err), PLIM_E_FORMAT);
		assert_true(*err.message);
		file.at[i] ^= 0x40;
	}
	assert_int_equal(cycles_read(&p, &f.m, file.at, file.n, &err), 0);
	cycles_release(&p);
	vec_release(&f.m, &file);
	end(&f);
}

/* All requests at one place: the heap knows better. */
static void plans_that_lie_are_harmless(void **state)
{
	struct fixture f, g;
	uint64_t live[64];
	cycles_bytes file = { 0 };
	struct cycles_plan p;
	struct plim_err err;

	(void)state;
	begin(&f, 8192 * MIB, UINT64_MAX, NULL);
	for (unsigned i = 0; i < 4; i++)
		step(&f, live, 64, 0);
	write_plan(&f, &file);
	assert_int_equal(cycles_read(&p, &f.m, file.at, file.n, &err), 0);
	for (uint32_t i = 0; i < p.streams.at[0].cycles[0].n; i++)
		p.streams.at[0].cycles[0].at[i].offset = i % 2 ? 3 : 2000;
	begin(&g, 8192 * MIB, UINT64_MAX, &p);
	for (unsigned i = 0; i < 6; i++) {
		step(&g, live, 64, 0);
		check(&g);
	}
	assert_true(g.v.counts.conflicts > 0);
	assert_true(g.v.counts.mapped_peak_bytes <=
		    g.v.counts.used_peak_bytes + g.v.counts.used_peak_bytes / 100 + 64 * MIB);
	end(&g);
	cycles_release(&p);
	vec_release(&f.m, &file);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hands_out_and_takes_back),
		cmocka_unit_test(memory_moves_at_the_limit),
		cmocka_unit_test(another_stream_waits),
		cmocka_unit_test(memory_moves_without_aliases),
		cmocka_unit_test(expandable_segments_are_the_bound),
		cmocka_unit_test(the_bound_stands_without_time_for_moves),
		cmocka_unit_test(a_memory_of_chunks_stays_within_the_bound),
		cmocka_unit_test(no_cliff_without_moves),
		cmocka_unit_test(refusals_do_not_raise_the_bound),
		cmocka_unit_test(a_full_card_is_a_limit),
		cmocka_unit_test(private_pools_keep_what_they_have),
		cmocka_unit_test(steps_are_learned),
		cmocka_unit_test(two_lengths_are_two_cycles),
		cmocka_unit_test(anything_goes),
		cmocka_unit_test(plans_survive_a_file),
		cmocka_unit_test(bad_files_are_refused),
		cmocka_unit_test(plans_that_lie_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
