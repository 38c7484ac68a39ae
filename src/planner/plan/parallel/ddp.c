/*
 * Copies of the model that add up their gradients.
 *
 * DDP (torch/nn/parallel/distributed.py, csrc/distributed/c10d/reducer.cpp, 2.11): parameters and buffers are broadcast
 * in pieces, two in flight.  Gradients are copied to buckets: one of all of them until a backward pass has shown their
 * order, then of 25 MiB (the first of 1 MiB) in that order, laid out when the next forward pass begins.
 *
 * The old bucket then goes, if no one holds it: NCCL's watchdog, which looks every 100 ms, holds what a collective used
 * until it has seen its end.  In a fresh process the optimizer's first step takes longer than that.  With a further
 * micro-batch in between instead, or where the GPU is far behind the program, the old one lives through that forward
 * pass.
 *
 * ZeRO-1 (ZeroRedundancyOptimizer): each rank steps on its share of the parameters.
 */
#include "plan/parallel/parallel.h"

#define BUCKET ((uint64_t)25 << 20)      /* bucket_cap_mb */
#define FIRST_BUCKET ((uint64_t)1 << 20) /* dist._DEFAULT_FIRST_BUCKET_BYTES */
#define BROADCAST ((uint64_t)250 << 20)  /* of the initial synchronisation */

static uint64_t ddp_bytes_of(const struct tape_param *x)
{
	return x->n * tape_dtype_bytes[x->dtype];
}

static bool takes_gradient(const struct tape_param *x)
{
	return x->trainable && !x->input;
}

/* Tensors of one dtype that are sent together; one alone is sent as it is. */
struct piece {
	uint64_t bytes;
	uint32_t first, tensors;
};

static int by_first(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* compute_bucket_assignment_by_size(): each dtype fills its own. */
static size_t divide(const struct tape *t, struct piece *list)
{
	struct piece filling[TAPE_DTYPES] = { 0 };
	size_t n = 0;

	for (uint32_t i = 0; i < t->params.n; i++) {
		const struct tape_param *x = &t->params.at[i];
		struct piece *p = &filling[x->dtype];

		if (x->store == TAPE_NONE)
			continue;
		p->first = p->tensors++ ? p->first : i;
		p->bytes += ddp_bytes_of(x);
		if (p->bytes < BROADCAST)
			continue;
		list[n++] = *p;
		*p = (struct piece){ 0 };
	}
	for (unsigned k = 0; k < TAPE_DTYPES; k++)
		if (filling[k].tensors)
			list[n++] = filling[k];
	sort_items(list, n, sizeof(*list), by_first);
	return n;
}

/* Before the third piece is begun the first must have arrived. */
static void synchronise(struct builder *b)
{
	struct tape *t = &b->t;
	uint32_t flight[2] = { TAPE_NONE, TAPE_NONE };
	size_t room = t->params.n + TAPE_DTYPES, n;
	struct piece *list = mem_new(t->mem, room, sizeof(*list), t->err);

	if (!list) {
		t->failed = mem_status(t->err);
		return;
	}
	n = divide(t, list);
	for (size_t i = 0; i < n; i++) {
		tape_let(t, flight[0]);
		flight[0] = flight[1];
		flight[1] = list[i].tensors > 1 ? tape_store(t, list[i].bytes, TIMELINE_WORKSPACE)
						: TAPE_NONE;
	}
	tape_let(t, flight[0]);
	tape_let(t, flight[1]);
	mem_free(t->mem, list, room, sizeof(*list));
}

struct ordered {
	uint64_t key;
	uint32_t param, rank;
};

static int by_key(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->param < y->param ? -1 : x->param > y->param;
}

/* Parameters that take a gradient, by what `key` gives; NULL on failure, the caller frees it. */
static struct ordered *in_order(struct tape *t, uint64_t (*key)(const struct tape_param *),
				size_t *n)
{
	struct ordered *list = mem_new(t->mem, t->params.n, sizeof(*list), t->err);

	*n = 0;
	if (!list) {
		t->failed = mem_status(t->err);
		return NULL;
	}
	for (uint32_t i = 0; i < t->params.n; i++)
		if (takes_gradient(&t->params.at[i]))
			list[(*n)++] = (struct ordered){ key(&t->params.at[i]), i, 0 };
	sort_items(list, *n, sizeof(*list), by_key);
	return list;
}

static void take_bucket(struct tape *t, struct parallel *p, uint64_t bytes)
{
	uint32_t s = tape_store(t, bytes, TIMELINE_GRADIENT);

	if (!t->failed)
		tape_fail(t, vec_push(t->mem, &p->buckets, s, t->err));
}

static uint64_t when_ready(const struct tape_param *x)
{
	return x->ready;
}

/* In the order in which gradients were ready. */
static void lay_out(struct builder *b)
{
	struct tape *t = &b->t;
	uint64_t bytes = 0, cap = FIRST_BUCKET;
	size_t n;
	struct ordered *list = in_order(t, when_ready, &n);

	for (size_t i = 0; i < n && !t->failed; i++) {
		bytes += ddp_bytes_of(&t->params.at[list[i].param]);
		if (bytes < cap && i + 1 < n)
			continue;
		take_bucket(t, b->parallel, bytes);
		bytes = 0;
		cap = BUCKET;
	}
	mem_free(t->mem, list, list ? t->params.n : 0, sizeof(*list));
}

static void let_old(struct builder *b)
{
	struct parallel *p = b->parallel;

	for (size_t i = 0; i < p->old.n; i++)
		tape_let(&b->t, p->old.at[i]);
	p->old.n = 0;
}

static void wrap_ddp(struct builder *b)
{
	struct tape *t = &b->t;
	uint64_t bytes = 0;

	synchronise(b);
	for (size_t i = 0; i < t->params.n; i++)
		bytes += takes_gradient(&t->params.at[i]) ? ddp_bytes_of(&t->params.at[i]) : 0;
	take_bucket(t, b->parallel, bytes);
}

/* What the program needs to start a step's kernels, and what a GPU like an H100 makes of them in practice. */
#define LAUNCHES_MS 50
#define HALF_FLOPS_PER_MS ((double)200e9)
#define FP32_FLOPS_PER_MS ((double)40e9)

/* Does the GPU still compute the first step when the program begins the second? */
static bool is_behind(const struct builder *b)
{
	double per_token = b->r->checkpointing == PLAN_CHECKPOINT_FULL ? 8 : 6, n = 0;
	double tokens = (double)b->r->batch * (double)b->r->sequence;
	bool half = b->r->precision != PLAN_FP32;

	for (size_t i = 0; i < b->t.params.n; i++)
		n += b->t.params.at[i].store == TAPE_NONE ? 0 : (double)b->t.params.at[i].n;
	return per_token * n * tokens >
	       LAUNCHES_MS * (half ? HALF_FLOPS_PER_MS : FP32_FLOPS_PER_MS);
}

static bool lingers(const struct builder *b)
{
	if (b->r->buckets != PLAN_BUCKETS_BY_TIME)
		return b->r->buckets == PLAN_BUCKETS_LINGER;
	return b->r->accumulate > 1 || is_behind(b);
}

static void begin_ddp(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;

	let_old(b);
	if (!p->ready || !t->grad || p->buckets.n != 1)
		return;
	tape_fail(t, vec_push(t->mem, &p->old, p->buckets.at[0], t->err));
	p->buckets.n = 0;
	if (!lingers(b))
		let_old(b);
	lay_out(b);
}

static void ddp_back(struct builder *b)
{
	if (b->r->accumulate == 1)
		let_old(b);
}

static void done(struct builder *b)
{
	b->parallel->ready = true;
}

static uint64_t largest_first(const struct tape_param *x)
{
	return UINT64_MAX - x->n;
}

static uint32_t ddp_least(const uint64_t *has, size_t n)
{
	uint32_t at = 0;

	for (uint32_t i = 1; i < n; i++)
		at = has[i] < has[at] ? i : at;
	return at;
}

/*
 * _partition_parameters(): each parameter, the largest first, goes to the rank that has least so far.  This process is
 * the rank that has most in the end; ranks beyond the number of parameters have nothing.
 */
static void share_states(struct builder *b)
{
	struct tape *t = &b->t;
	size_t n, ranks;
	struct ordered *list = in_order(t, largest_first, &n);
	uint64_t *has;
	uint32_t full = 0;

	ranks = b->copies < n ? (size_t)b->copies : n;
	has = ranks ? mem_new(t->mem, ranks, sizeof(*has), t->err) : NULL;
	if (ranks && !has)
		t->failed = mem_status(t->err);
	for (size_t i = 0; has && i < n; i++) {
		list[i].rank = ddp_least(has, ranks);
		has[list[i].rank] += t->params.at[list[i].param].n;
	}
	for (uint32_t i = 1; has && i < ranks; i++)
		full = has[i] > has[full] ? i : full;
	for (size_t i = 0; has && i < n; i++)
		t->params.at[list[i].param].others = list[i].rank != full;
	mem_free(t->mem, has, has ? ranks : 0, sizeof(*has));
	mem_free(t->mem, list, list ? t->params.n : 0, sizeof(*list));
}

static void wrap_zero1(struct builder *b)
{
	wrap_ddp(b);
	share_states(b);
}

const struct way parallel_ddp = {
	.wrap = wrap_ddp, .begin = begin_ddp, .back = ddp_back, .done = done
};
const struct way parallel_zero1 = {
	.wrap = wrap_zero1, .begin = begin_ddp, .back = ddp_back, .done = done
};
