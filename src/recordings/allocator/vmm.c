/* Where a request lies: ranges of addresses, and which of them are free. */
#include "vmm_parts.h"

static inline struct vmm_node *node_at(struct vmm *a, uint32_t n)
{
	return &a->nodes.at[n];
}

/* ---- nodes ---- */

enum plim_status vmm_node_room(struct vmm *a, size_t n)
{
	return vec_need(a->mem, &a->nodes, n, &a->err);
}

/* There must be room. */
static uint32_t node_new(struct vmm *a, const struct vmm_node *from)
{
	uint32_t n = a->spare_node;

	if (n == VMM_NONE) {
		n = (uint32_t)a->nodes.n++;
	} else {
		a->spare_node = a->nodes.at[n].next;
	}
	a->nodes.at[n] = *from;
	return n;
}

static void node_drop(struct vmm *a, uint32_t n)
{
	a->nodes.at[n] = (struct vmm_node){ .next = a->spare_node, .region = VMM_NONE };
	a->spare_node = n;
}

enum plim_status vmm_file(struct vmm *a, uint32_t n)
{
	struct vmm_node *b = node_at(a, n);
	struct vmm_region *r = &a->regions.at[b->region];
	struct freeset_key by_size = { b->bytes, b->addr, n }, by_addr = { 0, b->addr, n };
	enum plim_status st = PLIM_OK;

	if (b->state == VMM_FREE)
		st = freeset_insert(a->mem, &r->free, &by_size, &a->err);
	if (!st && vmm_has_places(r) && vmm_is_vacant(b))
		st = freeset_insert(a->mem, &r->vacant, &by_addr, &a->err);
	return st;
}

void vmm_unfile(struct vmm *a, uint32_t n)
{
	struct vmm_node *b = node_at(a, n);
	struct vmm_region *r = &a->regions.at[b->region];
	struct freeset_key by_size = { b->bytes, b->addr, n }, by_addr = { 0, b->addr, n };

	if (b->state == VMM_FREE)
		freeset_remove(a->mem, &r->free, &by_size);
	if (vmm_has_places(r) && vmm_is_vacant(b))
		freeset_remove(a->mem, &r->vacant, &by_addr);
}

/* Cut a node that is not filed in two; the second is returned.  There must be room. */
uint32_t vmm_cut(struct vmm *a, uint32_t n, uint64_t at)
{
	struct vmm_node rest = *node_at(a, n);
	uint32_t second;

	rest.bytes -= at - rest.addr;
	rest.addr = at;
	rest.prev = n;
	second = node_new(a, &rest);
	if (rest.next != VMM_NONE)
		node_at(a, rest.next)->prev = second;
	node_at(a, n)->next = second;
	node_at(a, n)->bytes = at - node_at(a, n)->addr;
	return second;
}

/* Take neighbours of the same state in; neither is filed. */
static void absorb(struct vmm *a, uint32_t n, uint32_t next)
{
	struct vmm_node *b = node_at(a, n), *gone = node_at(a, next);

	b->bytes += gone->bytes;
	b->next = gone->next;
	if (gone->next != VMM_NONE)
		node_at(a, gone->next)->prev = n;
	node_drop(a, next);
}

/* A node that is not filed becomes free or unmapped: it joins its like, and is filed. */
enum plim_status vmm_settle(struct vmm *a, uint32_t n, enum vmm_state state)
{
	uint32_t prev = node_at(a, n)->prev, next = node_at(a, n)->next;

	node_at(a, n)->state = (uint8_t)state;
	node_at(a, n)->requested_bytes = node_at(a, n)->position = 0;
	if (next != VMM_NONE && node_at(a, next)->state == state) {
		vmm_unfile(a, next);
		absorb(a, n, next);
	}
	if (prev != VMM_NONE && node_at(a, prev)->state == state) {
		vmm_unfile(a, prev);
		absorb(a, prev, n);
		n = prev;
	}
	return vmm_file(a, n);
}

/* ---- lanes and regions ---- */

#define SPACE_MIN ((uint64_t)64 << 30)
#define SPACE_SMALLS ((uint64_t)16 << 30)

/* Addresses for a region, when it is first used: twice what the GPU has. */
static enum plim_status open_region(struct vmm *a, uint32_t number)
{
	struct vmm_region *r = &a->regions.at[number];
	uint64_t device = a->device_bytes ? a->device_bytes : (uint64_t)80 << 30;
	struct vmm_node all = {
		.prev = VMM_NONE, .next = VMM_NONE, .region = number, .state = VMM_UNMAPPED
	};
	enum plim_status st;

	if (r->first != VMM_NONE)
		return PLIM_OK;
	st = vmm_node_room(a, 1);
	if (st)
		return st;
	all.bytes = 2 * device > SPACE_MIN ? 2 * device : SPACE_MIN;
	all.bytes = (r->kind == VMM_SMALLS ? SPACE_SMALLS : all.bytes) & ~(VMM_SLOT - 1);
	all.addr = a->driver.reserve(a->driver.self, all.bytes);
	if (!all.addr)
		return err_set(&a->err, PLIM_E_NOMEM, "no address space is left on the device");
	r->base = all.addr;
	r->bytes = all.bytes;
	r->first = node_new(a, &all);
	st = vmm_file(a, r->first);
	return st;
}

static uint32_t new_lane(struct vmm *a, uint64_t stream, uint64_t pool)
{
	struct vmm_lane lane = { .stream = stream, .pool = pool };
	struct vmm_region region = { .lane = (uint32_t)a->lanes.n, .first = VMM_NONE };

	if (vec_need(a->mem, &a->lanes, 1, &a->err) ||
	    vec_need(a->mem, &a->regions, VMM_KINDS, &a->err))
		return VMM_NONE;
	for (unsigned k = 0; k < VMM_KINDS; k++) {
		lane.region[k] = (uint32_t)a->regions.n;
		region.kind = (uint8_t)k;
		a->regions.at[a->regions.n++] = region;
	}
	a->lanes.at[a->lanes.n++] = lane;
	cycle_lane_init(&a->lanes.at[a->lanes.n - 1].cycles, a->mem, a->learns && !pool);
	vmm_beside_init(a, &a->lanes.at[a->lanes.n - 1]);
	/* what of a plan cannot be had is done without */
	if (!pool && a->plan)
		cycles_give_lane(a->plan, a->streams, &a->lanes.at[a->lanes.n - 1].cycles, &a->err);
	a->streams += !pool;
	return (uint32_t)a->lanes.n - 1;
}

uint32_t vmm_lane(struct vmm *a, uint64_t stream, uint64_t pool)
{
	for (uint32_t i = 0; i < a->lanes.n; i++)
		if (a->lanes.at[i].stream == stream && a->lanes.at[i].pool == pool) {
			a->lanes.at[i].dropped = 0;
			return i;
		}
	return new_lane(a, stream, pool);
}

void vmm_init(struct vmm *a, struct mem *m, const struct vmm_setup *setup)
{
	*a = (struct vmm){ .mem = m,
			   .driver = setup->driver,
			   .limit_bytes = setup->limit_bytes,
			   .device_bytes = setup->device_bytes,
			   .learns = setup->learns != 0,
			   .plan = setup->plan,
			   .compares = 1,
			   .beside_next = (uint64_t)1 << 40,
			   .began_ns = setup->driver.now_ns(setup->driver.self),
			   .spare_node = VMM_NONE,
			   .spare_handle = VMM_NONE,
			   .blocks = { .mem = m } };
}

void vmm_release(struct vmm *a)
{
	for (size_t i = 0; i < a->left.n; i++) {
		const struct vmm_node *b = node_at(a, a->left.at[i].node);

		a->driver.drop(a->driver.self, b->addr, b->bytes);
	}
	vec_release(a->mem, &a->left);
	for (uint32_t i = 0; i < a->regions.n; i++) {
		struct vmm_region *r = &a->regions.at[i];

		vmm_unmap_all(a, r);
		if (r->first != VMM_NONE)
			a->driver.unreserve(a->driver.self, r->base, r->bytes);
		freeset_release(a->mem, &r->free);
		freeset_release(a->mem, &r->vacant);
		vec_release(a->mem, &r->handle_of);
	}
	for (uint32_t i = 0; i < a->lanes.n; i++) {
		cycle_lane_release(&a->lanes.at[i].cycles);
		caching_release(&a->lanes.at[i].beside);
	}
	vec_release(a->mem, &a->lanes);
	vec_release(a->mem, &a->regions);
	vec_release(a->mem, &a->nodes);
	vec_release(a->mem, &a->handles);
	addr_map_release(&a->blocks);
}

/* ---- places ---- */

/* The node of a planned region that `addr` lies in, if it is free or unmapped. */
static uint32_t vacant_at(const struct vmm *a, const struct vmm_region *r, uint64_t addr)
{
	struct freeset_cursor c = freeset_seek(&r->vacant, 0, addr + 1);
	const struct freeset_key *key =
		freeset_prev(&r->vacant, &c) ? freeset_get(&r->vacant, c) : NULL;
	const struct vmm_node *b = key ? &a->nodes.at[key->block] : NULL;

	return b && b->addr + b->bytes > addr ? key->block : VMM_NONE;
}

/* What must be mapped so that [addr, end), which begins in `node`, is; VMM_USED_BY_OTHERS: part of it is in use. */
static uint64_t to_map(const struct vmm *a, uint32_t node, uint64_t addr, uint64_t end)
{
	uint64_t bytes = 0;

	for (; node != VMM_NONE; node = a->nodes.at[node].next) {
		const struct vmm_node *b = &a->nodes.at[node];
		uint64_t from = b->addr > addr ? b->addr : addr & ~(VMM_SLOT - 1);
		uint64_t to = b->addr + b->bytes;

		if (!vmm_is_vacant(b))
			return UINT64_MAX;
		if (b->state == VMM_UNMAPPED) {
			uint64_t need = (end + VMM_SLOT - 1) & ~(VMM_SLOT - 1);

			bytes += (need < to ? need : to) - from;
		}
		if (to >= end)
			return bytes;
	}
	return UINT64_MAX;
}

static int place_at(struct vmm *a, uint32_t region, uint64_t addr, uint64_t bytes,
		    struct vmm_place *p)
{
	struct vmm_region *r = &a->regions.at[region];
	uint32_t node = vacant_at(a, r, addr);

	if (node == VMM_NONE || addr + bytes > r->base + r->bytes)
		return 0;
	*p = (struct vmm_place){ region, node, addr, to_map(a, node, addr, addr + bytes) };
	return p->need_bytes != UINT64_MAX;
}

static int planned_place(struct vmm *a, uint32_t region, uint32_t offset, uint64_t bytes,
			 struct vmm_place *p)
{
	uint64_t addr = a->regions.at[region].base + (uint64_t)offset * VMM_UNIT;

	return place_at(a, region, addr, bytes, p) ||
	       (vmm_look(a) && place_at(a, region, addr, bytes, p));
}

/* A planned place is taken: if by what should be gone since a turn, new cycles are to lie above it. */
static void note_conflict(struct vmm *a, struct vmm_lane *l, uint32_t offset, uint64_t bytes)
{
	const struct vmm_region *r = &a->regions.at[l->region[VMM_PLANNED]];
	struct cycle_lane *c = &l->cycles;
	uint64_t addr = r->base + (uint64_t)offset * VMM_UNIT;
	struct freeset_cursor at = freeset_seek(&r->vacant, 0, addr + 1);
	uint32_t n = freeset_prev(&r->vacant, &at) ? freeset_get(&r->vacant, at)->block : r->first;

	/* memory that moved away: it is there again in the next turn */
	if (vmm_is_left(a, l->region[VMM_PLANNED], addr, bytes))
		return;
	a->counts.conflicts++;
	cycle_conflict(c);
	for (; n != VMM_NONE && a->nodes.at[n].addr < addr + bytes; n = a->nodes.at[n].next) {
		const struct vmm_node *b = &a->nodes.at[n];
		uint64_t end = (b->addr + b->bytes - r->base + VMM_SLOT - 1) / VMM_SLOT * VMM_SLOT;

		if (b->state == VMM_USED && b->addr + b->bytes > addr &&
		    c->position - b->position > c->cycles[c->current].n &&
		    end / VMM_UNIT > c->area_from)
			c->area_from = (uint32_t)(end / VMM_UNIT);
	}
}

/* The smallest free range that is large enough. */
static int mapped_place(struct vmm *a, uint32_t region, uint64_t bytes, struct vmm_place *p)
{
	struct vmm_region *r = &a->regions.at[region];
	const struct freeset_key *key = freeset_get(&r->free, freeset_seek(&r->free, bytes, 0));

	if (!key)
		return 0;
	*p = (struct vmm_place){ region, key->block, key->addr, 0 };
	return 1;
}

static void consider(const struct vmm *a, uint32_t node, uint64_t addr, uint64_t bytes,
		     struct vmm_place *best)
{
	uint64_t need = to_map(a, node, addr, addr + bytes);

	if (need < best->need_bytes)
		*best = (struct vmm_place){ best->region, node, addr, need };
}

/* Where least must be mapped: from the beginning of a node, or up to the end of a free one. */
static int unmapped_place(struct vmm *a, uint32_t region, uint64_t bytes, struct vmm_place *p)
{
	uint32_t n = a->regions.at[region].first;

	*p = (struct vmm_place){ region, VMM_NONE, 0, UINT64_MAX };
	for (; n != VMM_NONE; n = a->nodes.at[n].next) {
		const struct vmm_node *b = &a->nodes.at[n];
		const struct vmm_node *before = b->prev != VMM_NONE ? &a->nodes.at[b->prev] : NULL;

		if (!vmm_is_vacant(b))
			continue;
		consider(a, n, b->addr, bytes, p);
		if (b->state == VMM_FREE && before && before->state == VMM_UNMAPPED &&
		    before->bytes + b->bytes >= bytes && b->bytes < bytes)
			consider(a, b->prev, b->addr + b->bytes - bytes, bytes, p);
	}
	return p->node != VMM_NONE;
}

struct vmm_request {
	uint32_t lane;
	uint64_t bytes;
	uint32_t offset; /* what the plan says */
	uint32_t beside; /* what expandable segments would do */
	int any; /* 1: memory is short, and plans do not count; 2: all that is free was given back */
};

/* Where expandable segments would have it. */
static int mirror_place(struct vmm *a, const struct vmm_request *rq, struct vmm_place *p)
{
	const struct vmm_lane *l = &a->lanes.at[rq->lane];
	const struct caching_block *b;
	uint64_t offset;

	if (!a->mirrors || !a->compares || rq->beside == VMM_NONE)
		return 0;
	b = &l->beside.blocks.at[rq->beside];
	offset = (b->addr - l->beside.reservations.at[b->reservation].addr) / VMM_UNIT;
	return offset <= UINT32_MAX &&
	       planned_place(a, l->region[VMM_MIRROR], (uint32_t)offset, rq->bytes, p);
}

/* A place, mapped or not. */
static int find_place(struct vmm *a, const struct vmm_request *rq, struct vmm_place *p)
{
	struct vmm_lane *l = &a->lanes.at[rq->lane];
	uint64_t bytes = rq->bytes;
	enum vmm_kind kind = bytes <= VMM_SMALL ? VMM_SMALLS : VMM_LARGES;

	if (kind == VMM_LARGES && !rq->any && mirror_place(a, rq, p))
		return 1;
	if (rq->offset != CYCLE_NONE && !a->mirrors) {
		if (planned_place(a, l->region[VMM_PLANNED], rq->offset, bytes, p))
			return 1;
		note_conflict(a, l, rq->offset, bytes);
	}
	if (mapped_place(a, l->region[kind], bytes, p))
		return 1;
	/* not before: what stays there would be in the plan's way, and its handles can be had without */
	if (kind == VMM_LARGES && rq->any && mapped_place(a, l->region[VMM_PLANNED], bytes, p))
		return 1;
	if (kind == VMM_LARGES && mirror_place(a, rq, p))
		return 1;
	return unmapped_place(a, l->region[kind], bytes, p);
}

/* The place becomes a block; all of it is mapped, but perhaps in several nodes. */
static enum plim_status take_vmm(struct vmm *a, const struct vmm_place *p, uint64_t bytes,
				 uint64_t requested, uint32_t *node)
{
	uint32_t n = p->node;

	while (node_at(a, n)->addr + node_at(a, n)->bytes <= p->addr)
		n = node_at(a, n)->next;
	vmm_unfile(a, n);
	if (node_at(a, n)->addr < p->addr) {
		uint32_t rest = vmm_cut(a, n, p->addr);

		if (vmm_file(a, n))
			return a->err.status;
		n = rest;
	}
	if (node_at(a, n)->bytes > bytes) {
		uint32_t rest = vmm_cut(a, n, p->addr + bytes);

		if (vmm_file(a, rest))
			return a->err.status;
	}
	node_at(a, n)->state = VMM_USED;
	node_at(a, n)->requested_bytes = requested;
	*node = n;
	return PLIM_OK;
}

static void count_block(struct vmm *a, const struct vmm_node *b)
{
	struct vmm_counts *c = &a->counts;

	c->used_bytes += b->bytes;
	c->requested_bytes += b->requested_bytes;
	c->blocks++;
	c->used_peak_bytes =
		c->used_bytes > c->used_peak_bytes ? c->used_bytes : c->used_peak_bytes;
	c->requested_peak_bytes = c->requested_bytes > c->requested_peak_bytes
					  ? c->requested_bytes
					  : c->requested_peak_bytes;
	if (c->expandable_bytes > c->expandable_peak_bytes)
		c->expandable_peak_bytes = c->expandable_bytes;
	c->blocks_peak = c->blocks > c->blocks_peak ? c->blocks : c->blocks_peak;
}

static enum plim_status open_regions(struct vmm *a, uint32_t lane, int large)
{
	const uint32_t *region = a->lanes.at[lane].region;

	if (!large)
		return open_region(a, region[VMM_SMALLS]);
	if (a->mirrors && open_region(a, region[VMM_MIRROR]))
		return a->err.status;
	if (a->lanes.at[lane].cycles.cycle_count && open_region(a, region[VMM_PLANNED]))
		return a->err.status;
	return open_region(a, region[VMM_LARGES]);
}

enum plim_status vmm_malloc(struct vmm *a, uint32_t lane, uint64_t bytes, uint64_t *addr)
{
	uint64_t rounded = (bytes + VMM_UNIT - 1) & ~(uint64_t)(VMM_UNIT - 1);
	int large = rounded > VMM_SMALL, room = 1;
	struct vmm_request rq = { .lane = lane, .bytes = rounded, .offset = CYCLE_NONE };
	uint32_t node = VMM_NONE;
	struct vmm_place p = { .need_bytes = UINT64_MAX };
	enum plim_status st = PLIM_OK;

	*addr = 0;
	if (!bytes || rounded > (uint64_t)1 << 40) { /* more than any GPU has, or an overflow */
		a->counts.ooms++;
		return PLIM_OK;
	}
	rq.beside = vmm_beside_malloc(a, &a->lanes.at[lane], bytes);
	if (large)
		rq.offset = cycle_next(&a->lanes.at[lane].cycles, (uint32_t)(rounded / VMM_UNIT));
	while (!st && room) {
		st = open_regions(a, lane, large); /* one more when it comes to mirrors */
		if (!st)
			st = vmm_node_room(a, 8);
		if (!st)
			st = addr_map_room(&a->blocks, &a->err);
		room = !st && find_place(a, &rq, &p);
		if (!room || !p.need_bytes)
			break;
		room = vmm_make_room(a, &p, rounded, rq.any);
		if (!room && rq.any < 2) {
			if (rq.any++) /* as PyTorch does before it refuses */
				vmm_give_back(a);
			room = 1;
			rq.offset = CYCLE_NONE;
		}
	}
	if (!st && room)
		st = take_vmm(a, &p, rounded, bytes, &node);
	if (st || !room) {
		a->counts.ooms += !st;
		vmm_beside_free(a, &a->lanes.at[lane], rq.beside);
		vmm_beside_empty(a); /* as PyTorch does before it refuses */
		if (large) /* it takes its place in the cycle all the same, and lives no longer */
			cycle_freed(&a->lanes.at[lane].cycles, a->lanes.at[lane].cycles.position,
				    (uint32_t)(rounded / VMM_UNIT));
		return st;
	}
	*addr = p.addr;
	node_at(a, node)->beside = rq.beside;
	node_at(a, node)->position = large ? a->lanes.at[lane].cycles.position : 0;
	addr_map_put(&a->blocks, addr_map_find(&a->blocks, p.addr), p.addr, node + 1);
	count_block(a, node_at(a, node));
	return PLIM_OK;
}

const struct vmm_node *vmm_block(const struct vmm *a, uint64_t addr)
{
	const struct addr_slot *slot = a->blocks.at ? addr_map_find(&a->blocks, addr) : NULL;

	return slot && slot->value ? &a->nodes.at[slot->value - 1] : NULL;
}

int vmm_free(struct vmm *a, uint64_t addr)
{
	struct addr_slot *slot = a->blocks.at ? addr_map_find(&a->blocks, addr) : NULL;
	uint32_t n = slot && slot->value ? slot->value - 1 : VMM_NONE;
	struct vmm_node *b;

	if (n == VMM_NONE)
		return 0;
	addr_map_remove(&a->blocks, slot);
	b = node_at(a, n);
	a->counts.used_bytes -= b->bytes;
	a->counts.requested_bytes -= b->requested_bytes;
	a->counts.blocks--;
	vmm_beside_free(a, &a->lanes.at[a->regions.at[b->region].lane], b->beside);
	vmm_note_free(a, b);
	if (b->position)
		cycle_freed(&a->lanes.at[a->regions.at[b->region].lane].cycles, b->position,
			    (uint32_t)(b->bytes / VMM_UNIT));
	vmm_settle(a, n, VMM_FREE);
	return 1;
}

int vmm_each_mapped(const struct vmm *a, int (*call)(void *self, uint64_t addr, uint64_t bytes),
		    void *self)
{
	for (uint32_t i = 0; i < a->regions.n; i++) {
		const struct vmm_region *r = &a->regions.at[i];
		size_t from = 0;

		for (size_t slot = 0; slot <= r->handle_of.n; slot++) {
			if (slot < r->handle_of.n && r->handle_of.at[slot] &&
			    r->handle_of.at[slot] < VMM_ELSEWHERE)
				continue;
			if (from < slot &&
			    !call(self, r->base + from * VMM_SLOT, (slot - from) * VMM_SLOT))
				return 0;
			from = slot + 1;
		}
	}
	return 1;
}
