/*
 * What is kept in the machine's memory instead of the GPU's.
 *
 * Saved tensors: save_on_cpu (torch/autograd/graph.py) copies each as it is saved, weights and labels too, one copy for
 * each operation that saves it, and copies them back when that operation's backward pass begins.  Transformers puts it
 * around the checkpointed function, so that only the inputs of blocks go.  TRL's OffloadActivations copies each storage
 * once, on a stream of its own, and leaves parameters, what is below 1 KiB and the output head's inputs; the last five
 * stay until their copies are surely done, and what came back stays until the next operation has its own.
 */
#include "plan/step/build.h"

#define SMALLEST 1024 /* bytes: TRL's min_offload_size */

/* ---- saved tensors ---- */

static uint64_t offload_bytes_of(struct value v)
{
	return v.n * tape_dtype_bytes[v.dtype];
}

static uint32_t keep_offload(struct tape *t, struct value v)
{
	tape_hold(t, v.store);
	return v.store;
}

/* The copy is made next to the computation: what was copied lives a little longer. */
static void fly(struct tape *t, uint32_t store)
{
	uint32_t *slot = &t->flying[t->flies++ % TAPE_FLIES];

	if (t->flies > TAPE_FLIES)
		tape_let(t, *slot);
	tape_hold(t, store);
	*slot = store;
}

static uint32_t pack_streamed(struct tape *t, struct value v)
{
	struct tape_store *s = &t->stores.at[v.store];

	if (s->host || s->packed || v.param != TAPE_NONE || offload_bytes_of(v) < SMALLEST)
		return keep_offload(t, v);
	s->packed = 1;
	fly(t, v.store);
	return tape_host_store(t, offload_bytes_of(v), PLAN_HOST_ACTIVATIONS, TAPE_PINNED);
}

uint32_t tape_pack(struct tape *t, struct value v, int turned)
{
	int pinned = t->away != PLAN_SAVE_ON_CPU;

	if (v.store == TAPE_NONE)
		return TAPE_NONE;
	if (t->away == PLAN_OFFLOAD_STREAMS)
		return pack_streamed(t, v);
	/* a pinned copy is laid out anew, a pageable one as the tensor is */
	if (turned && pinned)
		tape_touch(t, offload_bytes_of(v));
	return tape_host_store(t, offload_bytes_of(v), PLAN_HOST_ACTIVATIONS,
			       pinned ? TAPE_PINNED : 0);
}

static void let_all(struct tape *t, const uint32_t *at, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		tape_let(t, at[i]);
}

static void let_flying(struct tape *t)
{
	let_all(t, t->flying, t->flies < TAPE_FLIES ? t->flies : TAPE_FLIES);
	t->flies = 0;
}

static int is_away(const struct tape *t, uint32_t store)
{
	return store != TAPE_NONE && t->stores.at[store].host == PLAN_HOST_ACTIVATIONS + 1;
}

/* What came back for the node before goes when this one has run. */
static void land(struct tape *t, const uint32_t *back, unsigned n)
{
	if (t->away != PLAN_OFFLOAD_STREAMS) {
		let_all(t, back, n);
		return;
	}
	let_flying(t);
	let_all(t, t->landed, t->lands);
	for (unsigned i = 0; i < n; i++)
		t->landed[i] = back[i];
	t->lands = n;
}

/* The copy on the host goes with the saved variable; to the end of the node that makes no difference there. */
static uint32_t bring_back(struct tape *t, uint32_t packed)
{
	uint32_t back = tape_store(t, t->stores.at[packed].bytes, TIMELINE_ACTIVATION);

	tape_let(t, packed);
	return back;
}

void tape_unpack(struct tape *t, struct tape_node *node)
{
	for (unsigned i = 0; i < node->saves; i++)
		if (is_away(t, node->saved[i]))
			node->saved[i] = bring_back(t, node->saved[i]);
}

void tape_unpacked(struct tape *t, struct tape_node *node)
{
	land(t, node->saved, node->saves);
	node->saves = 0;
}

struct value tape_recall(struct tape *t, struct value input)
{
	if (is_away(t, input.store))
		input.store = tape_store(t, t->stores.at[input.store].bytes, TIMELINE_ACTIVATION);
	else
		tape_hold(t, input.store);
	return input;
}

void tape_recalled(struct tape *t, struct value *input)
{
	land(t, &input->store, 1);
	input->store = TAPE_NONE;
}

void tape_landed(struct tape *t)
{
	let_flying(t);
	let_all(t, t->landed, t->lands);
	t->lands = 0;
}

/* ---- parameters, gradients and the optimizer ---- */

int build_steps_on_host(const struct builder *b)
{
	return b->r->optimizer_on != PLAN_ON_GPU || b->r->parameters_on != PLAN_ON_GPU;
}

/* fully_shard() copies each shard on the GPU, from there to the host, and there to pinned memory. */
uint32_t build_shard(struct builder *b, uint64_t bytes)
{
	struct tape *t = &b->t;

	if (b->r->parameters_on == PLAN_ON_GPU)
		return tape_store(t, bytes, TIMELINE_PARAMETER);
	tape_touch(t, bytes);
	if (b->r->parameters_on == PLAN_ON_NVME) {
		tape_hold(t, b->away_weights);
		return b->away_weights;
	}
	tape_host_touch(t, bytes, PLAN_HOST_WEIGHTS, 0);
	return tape_host_store(t, bytes, PLAN_HOST_WEIGHTS, TAPE_PINNED);
}

/* FSDP 1 pins the flat share of a unit, and one of its gradients. */
uint32_t build_flat_shard(struct builder *b, uint64_t bytes)
{
	if (b->r->parameters_on == PLAN_ON_HOST)
		b->away_gradients = tape_host_store(&b->t, bytes, PLAN_HOST_GRADIENTS, TAPE_PINNED);
	return build_shard(b, bytes);
}

/* What is added to a gradient that is on the host is not pinned. */
void build_keep_gradient(struct builder *b, struct tape_param *p, uint32_t shares)
{
	uint64_t bytes = p->own_n * tape_dtype_bytes[p->own_dtype];
	struct tape *t = &b->t;

	if (p->grad != TAPE_NONE) {
		if (t->stores.at[p->grad].host)
			tape_host_touch(t, bytes, PLAN_HOST_GRADIENTS, 0);
		return;
	}
	if (!bytes)
		return;
	if (build_steps_on_host(b))
		shares = b->away_gradients;
	if (shares != TAPE_NONE)
		tape_hold(t, shares);
	else
		shares = tape_host_store(t, bytes, PLAN_HOST_GRADIENTS, TAPE_PINNED);
	p->grad = shares;
}

/* ---- DeepSpeed ---- */

#define SWAP_BUFFERS 4u         /* offload_optimizer.buffer_count */
#define PARAM_BUFFERS 5u        /* offload_param.buffer_count ... */
#define PARAM_BUFFER 100000000u /* ... and buffer_size, elements */
#define MAX_IN_CPU 1000000000u  /* offload_param.max_in_cpu, elements */

int plan_is_deepspeed(const struct plan_recipe *r)
{
	return r->optimizer_on != PLAN_ON_GPU || r->parameters_on == PLAN_ON_NVME;
}

bool plan_is_sharded(const struct plan_recipe *r)
{
	static const bool sharded[PLAN_PARALLELS] = {
		[PLAN_FSDP1] = true,       [PLAN_FSDP1_ZERO2] = true, [PLAN_FSDP2] = true,
		[PLAN_FSDP2_ZERO2] = true, [PLAN_ZERO3] = true,
	};

	return sharded[r->parallel];
}

static uint64_t offload_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t share_offload(const struct builder *b, uint64_t n)
{
	return (n + b->copies - 1) / b->copies;
}

struct sizes {
	uint64_t all, trained; /* elements of parameters */
	uint64_t trained_bytes, largest_bytes;
};

static struct sizes sizes_of(const struct tape *t)
{
	struct sizes s = { 0 };

	for (size_t i = 0; i < t->params.n; i++) {
		const struct tape_param *p = &t->params.at[i];
		uint64_t bytes = p->n * tape_dtype_bytes[p->dtype];

		if (p->input || p->store == TAPE_NONE)
			continue;
		s.all += p->n;
		if (!p->trainable)
			continue;
		s.trained += p->n;
		s.trained_bytes += bytes;
		s.largest_bytes = bytes > s.largest_bytes ? bytes : s.largest_bytes;
	}
	return s;
}

static int is_trained(const struct tape_param *p)
{
	return p->trainable && !p->input && p->store != TAPE_NONE;
}

/* Parameters come from the host, where the model was read. */
static void bring(struct builder *b)
{
	struct tape *t = &b->t;

	for (size_t i = 0; i < t->params.n && build_is_moved(b); i++) {
		struct tape_param *p = &t->params.at[i];
		uint32_t away = p->store;

		if (p->input || away == TAPE_NONE || t->stores.at[away].request != TAPE_NONE)
			continue;
		p->store = tape_store(t, p->n * tape_dtype_bytes[p->dtype], TIMELINE_PARAMETER);
		tape_let(t, away);
	}
}

/*
 * What is trained goes to the host, is laid one behind the other there and comes back as one block: so does DeepSpeed where
 * the GPU has no room for both, and lays it out there where it has.
 */
static void flatten(struct builder *b, uint64_t bytes)
{
	struct tape *t = &b->t;
	uint32_t moved = tape_host_store(t, bytes, PLAN_HOST_LOADING, 0), flat;

	for (size_t i = 0; i < t->params.n; i++)
		if (is_trained(&t->params.at[i]))
			tape_let(t, t->params.at[i].store);
	tape_host_touch(t, bytes, PLAN_HOST_LOADING, 0);
	flat = tape_store(t, bytes, TIMELINE_PARAMETER);
	for (size_t i = 0; i < t->params.n && !t->failed; i++) {
		struct tape_param *p = &t->params.at[i];

		if (!is_trained(p))
			continue;
		p->store = flat;
		tape_hold(t, flat);
	}
	tape_let(t, flat);
	tape_let(t, moved);
}

static uint64_t bucket_bytes(const struct builder *b)
{
	return build_zero_bucket(b, PLAN_DEEPSPEED_BUCKET) * tape_dtype_bytes[b->weights];
}

/*
 * The gradient is copied into the bucket (ipg_buffer, two of them with overlap_comm: the first gradient of a backward pass takes
 * them, setup_buckets()), and from there to the host; the norm of this process's part is taken in
 * fp64.
 */
static void leave_offload(void *self, struct tape_param *p)
{
	struct builder *b = self;

	if (b->bucket == TAPE_NONE)
		b->bucket = tape_store(&b->t, bucket_bytes(b), TIMELINE_GRADIENT);
	if (b->twin == TAPE_NONE && b->r->zero.overlap)
		b->twin = tape_store(&b->t, bucket_bytes(b), TIMELINE_GRADIENT);

	tape_let(&b->t, p->grad);
	p->grad = b->away_gradients;
	tape_hold(&b->t, p->grad);
	tape_touch(&b->t, offload_least(p->n, b->own_share) * 8);
}

/* Gradients of several micro-batches are added up one by one (accumulated_grads_in_cpu). */
static void take_sums(struct builder *b)
{
	struct tape *t = &b->t;

	for (size_t i = 0; i < t->params.n && b->r->accumulate > 1; i++) {
		const struct tape_param *p = &t->params.at[i];

		if (is_trained(p))
			tape_host_store(t, share_offload(b, p->n) * tape_dtype_bytes[p->dtype],
					PLAN_HOST_GRADIENTS, TAPE_PINNED);
	}
}

/* Of parameters on NVMe: a flat buffer that they pass, and those that may stay. */
static void take_swapped(struct builder *b, uint64_t n)
{
	unsigned width = tape_dtype_bytes[b->weights];

	tape_host_store(&b->t, (uint64_t)PARAM_BUFFERS * PARAM_BUFFER * width, PLAN_HOST_BUFFERS,
			TAPE_PINNED);
	b->away_weights =
		tape_host_store(&b->t, offload_least(share_offload(b, n), MAX_IN_CPU) * width,
				PLAN_HOST_WEIGHTS, 0);
}

/* fp32 weights and gradients of this process's share, pinned; on NVMe only what is stepped on at once. */
static void take_offload_masters(struct builder *b, const struct sizes *s)
{
	struct tape *t = &b->t;
	uint64_t own = share_offload(b, s->trained);

	for (unsigned i = 0; i < SWAP_BUFFERS && b->r->optimizer_on == PLAN_ON_NVME; i++)
		b->away_gradients =
			tape_host_store(t, 4 * offload_least(own, PLAN_DEEPSPEED_SUB_GROUP),
					PLAN_HOST_BUFFERS, TAPE_PINNED);
	if (b->r->optimizer_on == PLAN_ON_NVME)
		return;
	tape_host_store(t, 4 * own, PLAN_HOST_STATES, TAPE_PINNED);
	b->away_gradients = tape_host_store(t, 4 * own, PLAN_HOST_GRADIENTS, TAPE_PINNED);
}

void build_wrap_offload(struct builder *b)
{
	struct tape *t = &b->t;
	struct sizes s = sizes_of(t);

	b->away_gradients = b->away_weights = b->bucket = b->twin = TAPE_NONE;
	if (!plan_is_deepspeed(b->r) || t->failed)
		return;
	if (b->r->parameters_on == PLAN_ON_NVME)
		take_swapped(b, s.all);
	take_offload_masters(b, &s);
	if (plan_is_sharded(b->r))
		return;
	bring(b);
	b->own_share = share_offload(b, s.trained);
	flatten(b, s.trained_bytes);
	take_sums(b);
	/* temp_grad_buffer_for_gpu_offload, and its pinned twin */
	tape_store(t, s.largest_bytes, TIMELINE_WORKSPACE);
	tape_host_store(t, s.largest_bytes, PLAN_HOST_BUFFERS, TAPE_PINNED);
	t->accumulated = leave_offload;
	t->again_self = b;
	build_phase(b, "wrap", PLAN_NO_NUMBER);
}

/* The buckets go with the backward pass. */
void build_let_bucket(struct builder *b)
{
	tape_let(&b->t, b->bucket);
	tape_let(&b->t, b->twin);
	b->bucket = b->twin = TAPE_NONE;
}

/* ---- the process ---- */

#define MACHINE_GPUS 8u /* that one machine has, at most */
/*
 * VmRSS of PyTorch 2.11 with Transformers 5.17 on an H100: with a CUDA context, or with that and NCCL, and next to it when
 * all libraries are at work (1314 to 1394 MiB in all; of several processes 1552 to 1797).
 */
#define CONTEXT_BYTES ((uint64_t)740 << 20)
#define NCCL_BYTES ((uint64_t)334 << 20)
#define LIBRARY_BYTES ((uint64_t)640 << 20)

/*
 * from_pretrained() reads the model into the machine's memory; of sharded ones the first process alone does, and with a
 * tensor-parallel plan each reads its parts to the GPU.
 */
void build_host_load(struct builder *b)
{
	uint64_t bytes = 0;

	b->t.host.all.processes = (unsigned)offload_least(b->r->gpus, MACHINE_GPUS);
	tape_host_store(&b->t, CONTEXT_BYTES + (b->r->parallel || b->r->gpus > 1 ? NCCL_BYTES : 0),
			PLAN_HOST_PROCESS, 0);
	for (size_t i = 0; i < b->m->tensors.n && b->tp == 1; i++)
		if (b->m->tensors.at[i].tied_to == MODEL_NONE)
			bytes += b->m->tensors.at[i].count * tape_dtype_bytes[b->weights];
	b->loading = tape_host_store(&b->t, bytes, PLAN_HOST_LOADING,
				     plan_is_sharded(b->r) ? TAPE_ONCE : 0);
}

void build_host_loaded(struct builder *b)
{
	tape_let(&b->t, b->loading);
	tape_host_store(&b->t, LIBRARY_BYTES, PLAN_HOST_PROCESS, 0);
}
