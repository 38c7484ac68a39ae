/* A program run as a process with libplimsoll_alloc.so would run it. */
#include "allocator.h"
#include "vmm.h"

/* A request of a program that the host holds up: 131,072 in a second on an H100. */
#define REQUEST_NS 7600u
/* As on an H200, of 2 or of 16 MiB, whether the GPU works or not (docs/evidence/allocator.md, "What a move costs"). */
#define MAP_NS 55000u
#define UNMAP_NS 41000u
#define ALIAS_NS 38000u
#define DROP_NS 22000u
/* Of 20 programs on an H200, waits took 2 to 31 ms in the mean of each (docs/evidence/allocator.md). */
#define WAIT_NS 4000000u
#define LONG_WAIT_NS 30000000u

struct planned_run {
	struct vmm vmm;
	uint64_t next_addr;
	uint64_t *addr_of; /* of each request; 0: it is not there */
	uint64_t ns;       /* that the process would have taken so far */
	uint64_t wait_ns;  /* streams are so far behind the host */
};

static uint64_t reserve_vmm(void *self, uint64_t bytes)
{
	struct planned_run *r = self;
	uint64_t addr = r->next_addr;

	r->next_addr += bytes;
	return addr;
}

static void unreserve_vmm(void *self, uint64_t addr, uint64_t bytes)
{
	(void)self, (void)addr, (void)bytes;
}

static int map_vmm(void *self, uint64_t addr, uint64_t bytes, uint64_t *handle)
{
	struct planned_run *r = self;

	(void)bytes;
	*handle = addr;
	r->ns += MAP_NS;
	return 1;
}

static void unmap_vmm(void *self, uint64_t addr, uint64_t bytes, uint64_t handle)
{
	struct planned_run *r = self;

	(void)addr, (void)bytes, (void)handle;
	r->ns += UNMAP_NS;
}

static int alias_vmm(void *self, uint64_t from, uint64_t to, uint64_t bytes, uint64_t handle)
{
	struct planned_run *r = self;

	(void)from, (void)to, (void)bytes, (void)handle;
	r->ns += ALIAS_NS;
	return 1;
}

static void drop_vmm(void *self, uint64_t addr, uint64_t bytes)
{
	struct planned_run *r = self;

	(void)addr, (void)bytes;
	r->ns += DROP_NS;
}

/* A mark is the time when it is reached. */
static uint64_t mark_vmm(void *self, uint64_t stream, uint64_t old)
{
	const struct planned_run *r = self;

	(void)stream, (void)old;
	return r->ns + r->wait_ns;
}

static int reached_vmm(void *self, uint64_t mark)
{
	const struct planned_run *r = self;

	return mark <= r->ns;
}

static int wait_vmm(void *self, uint64_t mark)
{
	struct planned_run *r = self;

	r->ns = r->ns > mark ? r->ns : mark;
	return 1;
}

static uint64_t now_ns(void *self)
{
	const struct planned_run *r = self;

	return r->ns;
}

static enum plim_status malloc_op(struct planned_run *r, const struct program *p,
				  const struct program_op *op, struct allocator_outcome *out,
				  int *stopped)
{
	const struct program_request *rq = &p->requests.at[op->request];
	uint32_t lane = vmm_lane(&r->vmm, (uint64_t)p->streams[rq->stream], rq->pool);
	uint64_t *addr = &r->addr_of[op->request];
	enum plim_status st;

	if (lane == VMM_NONE)
		return r->vmm.err.status;
	if (!rq->bytes)
		return PLIM_OK;
	r->ns += REQUEST_NS;
	st = vmm_malloc(&r->vmm, lane, rq->bytes, addr);
	if (st)
		return st;
	if (!*addr && op->kind == PROGRAM_WORKSPACE) {
		if (!out->refused_workspaces++)
			out->unrefused_peak_bytes = r->vmm.counts.mapped_peak_bytes;
	} else if (!*addr) {
		*stopped = op->kind == PROGRAM_ALLOC;
		if (!out->failed && (*stopped || program_dies_at(p, op))) {
			out->failed = 1;
			out->oom_event = op->event;
			out->oom_request_bytes = rq->bytes;
		}
	} else if (op->kind == PROGRAM_ATTEMPT) {
		vmm_free(&r->vmm, *addr);
		*addr = 0;
	}
	return PLIM_OK;
}

static enum plim_status run_ops(struct planned_run *r, const struct program *p,
				struct allocator_outcome *out)
{
	enum plim_status st = PLIM_OK;
	int stopped = 0;

	for (uint32_t i = 0; !st && !stopped && i < p->ops.n; i++) {
		const struct program_op *op = &p->ops.at[i];

		if (program_allocates(op->kind) || op->kind == PROGRAM_ATTEMPT) {
			st = malloc_op(r, p, op, out, &stopped);
		} else if (op->kind == PROGRAM_FREE_DONE && r->addr_of[op->request]) {
			vmm_free(&r->vmm, r->addr_of[op->request]);
			r->addr_of[op->request] = 0;
		} else if (op->kind == PROGRAM_EMPTY_CACHE) {
			vmm_empty(&r->vmm);
		} else if (op->kind == PROGRAM_DROP_POOL) {
			vmm_drop_pool(&r->vmm, op->request);
		}
	}
	return st;
}

static void tell_vmm(const struct vmm *a, struct allocator_outcome *out)
{
	const struct vmm_counts *c = &a->counts;

	out->stats.count[ALLOCATOR_RESERVED_BYTES][0] =
		(struct allocator_count){ c->mapped_bytes, c->mapped_peak_bytes, 0, 0 };
	out->stats.count[ALLOCATOR_ALLOCATED_BYTES][0] =
		(struct allocator_count){ c->used_bytes, c->used_peak_bytes, 0, 0 };
	out->stats.count[ALLOCATOR_ACTIVE_BYTES][0] =
		out->stats.count[ALLOCATOR_ALLOCATED_BYTES][0];
	out->stats.retries = c->moves;
	out->stats.ooms = c->ooms;
	out->stats.device_allocs = c->maps;
	out->stats.device_frees = c->unmaps;
}

static enum plim_status keep_cycles(const struct vmm *v, struct mem *m, cycles_bytes *out,
				    struct plim_err *err)
{
	struct cycles_plan p = { .mem = m,
				 .live_peak_bytes = v->counts.used_peak_bytes,
				 .reserved_peak_bytes = v->counts.mapped_peak_bytes };
	enum plim_status st = PLIM_OK;

	for (uint32_t i = 0; !st && i < v->lanes.n; i++)
		if (!v->lanes.at[i].pool)
			st = cycles_add_lane(&p, &v->lanes.at[i].cycles, err);
	if (!st)
		st = cycles_write(&p, out, err);
	cycles_release(&p);
	return st;
}

static enum plim_status run_vmm(struct mem *m, const struct program *p,
				const struct allocator_vmm *how, struct cycles_plan *plan,
				struct allocator_outcome *out, struct plim_err *err)
{
	struct planned_run r = { .next_addr = (uint64_t)1 << 40,
				 .wait_ns = how->waits_long ? LONG_WAIT_NS : WAIT_NS };
	struct vmm_setup setup = {
		.driver = { &r, reserve_vmm, unreserve_vmm, map_vmm, unmap_vmm, alias_vmm, drop_vmm,
			    mark_vmm, reached_vmm, wait_vmm, now_ns },
		.limit_bytes = how->bounds.limit_bytes < how->bounds.capacity_bytes
				       ? how->bounds.limit_bytes
				       : how->bounds.capacity_bytes,
		.device_bytes = how->bounds.device_bytes,
		.learns = 1,
		.plan = plan
	};
	enum plim_status st = PLIM_OK;

	vmm_init(&r.vmm, m, &setup);
	r.addr_of = mem_new(m, p->requests.n, sizeof(*r.addr_of), err);
	if (!r.addr_of)
		return mem_status(err);
	st = run_ops(&r, p, out);
	if (st && err)
		*err = r.vmm.err;
	tell_vmm(&r.vmm, out);
	if (!st && how->learned)
		st = keep_cycles(&r.vmm, m, how->learned, err);
	mem_free(m, r.addr_of, p->requests.n, sizeof(*r.addr_of));
	vmm_release(&r.vmm);
	return st;
}

enum plim_status allocator_run_vmm(struct mem *m, const struct program *p,
				   const struct allocator_vmm *how, struct allocator_outcome *out,
				   struct plim_err *err)
{
	struct cycles_plan plan = { .mem = m };
	enum plim_status st = PLIM_OK;

	*out = (struct allocator_outcome){ .oom_event = TRACE_NONE };
	if (how->plan_bytes)
		st = cycles_read(&plan, m, how->plan_bytes, how->plan_n, err);
	if (!st)
		st = run_vmm(m, p, how, &plan, out, err);
	cycles_release(&plan);
	return st;
}
