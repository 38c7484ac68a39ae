/* Units of the model, and the moments of the loop at which ways to share it out act. */
#include "plan/parallel/parallel.h"

static const struct way *const ways[PLAN_PARALLELS] = {
	[PLAN_DDP] = &parallel_ddp,     [PLAN_ZERO1] = &parallel_zero1,
	[PLAN_FSDP1] = &parallel_fsdp1, [PLAN_FSDP1_ZERO2] = &parallel_fsdp1_zero2,
	[PLAN_FSDP2] = &parallel_fsdp2, [PLAN_FSDP2_ZERO2] = &parallel_fsdp2_zero2,
	[PLAN_ZERO2] = &parallel_zero2, [PLAN_ZERO3] = &parallel_zero3,
};

bool build_is_meta(const struct builder *b)
{
	return build_is_moved(b) ||
	       (plan_is_sharded(b->r) && b->r->load == PLAN_LOAD_META && b->tp == 1);
}

bool build_is_moved(const struct builder *b)
{
	bool stage_2 =
		b->r->parallel == PLAN_ZERO2 || (plan_is_deepspeed(b->r) && !plan_is_sharded(b->r));

	return stage_2 && b->r->load == PLAN_LOAD_META && b->tp == 1 && !b->r->quantize;
}

bool build_is_sharded(const struct builder *b)
{
	return ways[b->r->parallel] && ways[b->r->parallel]->shards;
}

/* Families whose classes name their projections in a plan (tp_plan), and whose blocks are a pipeline's. */
static const char *const shared_families[] = { "llama", "mistral", "qwen2",       "qwen3",
					       "gemma", "gemma2",  "gemma3_text", "transformer" };

bool build_shares_layers(const struct builder *b)
{
	for (size_t i = 0; i < sizeof(shared_families) / sizeof(shared_families[0]); i++)
		if (!strcmp(shared_families[i], b->m->family))
			return true;
	return false;
}

uint64_t parallel_share(const struct builder *b, uint32_t param)
{
	uint64_t n = b->t.params.at[param].n, gpus = b->copies, rows = n;

	if (param < b->m->tensors.n && b->m->tensors.at[param].rank > 1)
		rows = b->m->tensors.at[param].dims[0];
	rows = n % (rows ? rows : 1) ? n : rows; /* shared out by columns already */
	return rows ? (rows + gpus - 1) / gpus * (n / rows) : 0;
}

/* ---- units ---- */

/* The module of each parameter: adapters come behind all of the model's own. */
static const struct model_module *module_of(const struct builder *b, uint32_t param)
{
	if (param < b->m->tensors.n)
		return &b->m->modules.at[b->m->tensors.at[param].module];
	for (size_t i = 0; b->lora && i < b->m->modules.n; i++)
		if (b->lora[i] && param - (b->lora[i] - 1) < build_adapter_params(b))
			return &b->m->modules.at[i];
	return NULL;
}

static uint32_t unit_of(const struct builder *b, uint32_t param)
{
	const struct model_module *x = module_of(b, param);

	return x && x->tower == MODEL_TEXT && x->block != MODEL_NONE ? x->block : b->parallel->root;
}

static bool is_shared(const struct builder *b, uint32_t param)
{
	const struct tape_param *x = &b->t.params.at[param];

	return !x->input && x->store != TAPE_NONE &&
	       (param >= b->m->tensors.n || (!(b->m->tensors.at[param].flags & MODEL_IS_BUFFER) &&
					     b->m->tensors.at[param].part != MODEL_QUANT_STATE));
}

/* Count, then place: a unit's parameters keep their order. */
static void take_members(struct builder *b)
{
	struct parallel *p = b->parallel;
	struct tape *t = &b->t;
	uint32_t n = (uint32_t)t->params.n, all = 0;

	tape_fail(t, vec_need(t->mem, &p->members, n, t->err));
	if (!t->failed)
		tape_fail(t, vec_need(t->mem, &p->full, n, t->err));
	if (!t->failed)
		tape_fail(t, vec_need(t->mem, &p->kept, n, t->err));
	if (!t->failed)
		tape_fail(t, vec_need(t->mem, &p->seen, n, t->err));
	if (t->failed)
		return;
	for (uint32_t i = 0; i < n; i++) {
		p->full.at[p->full.n++] = p->kept.at[p->kept.n++] = TAPE_NONE;
		p->seen.at[p->seen.n++] = 0;
		if (is_shared(b, i))
			p->units[unit_of(b, i)].n++;
	}
	for (uint32_t u = 0; u <= p->root; u++) {
		p->units[u].first = all;
		all += p->units[u].n;
		p->units[u].n = 0;
		p->units[u].full = p->units[u].coming = TAPE_NONE;
	}
	p->members.n = all;
	for (uint32_t i = 0; i < n; i++)
		if (is_shared(b, i)) {
			struct unit *u = &p->units[unit_of(b, i)];

			p->members.at[u->first + u->n++] = i;
		}
}

static void at_mark(void *self, uint32_t unit, int begins)
{
	struct builder *b = self;
	const struct way *w = b->parallel->way;

	if (begins && w->back_leave)
		w->back_leave(b, unit);
	else if (!begins && w->back_enter)
		w->back_enter(b, unit);
}

struct value build_unit_begin(struct builder *b, uint32_t unit, struct value x)
{
	if (!b->parallel || !b->parallel->way->enter)
		return x;
	b->parallel->way->enter(b, unit);
	b->parallel->input = x.n * tape_dtype_bytes[x.dtype];
	return op_mark(&b->t, x, unit, 1);
}

struct value build_unit_end(struct builder *b, uint32_t unit, struct value x)
{
	if (!b->parallel || !b->parallel->way->leave)
		return x;
	b->parallel->way->leave(b, unit);
	return op_mark(&b->t, x, unit, 0);
}

/* ---- gradients of several micro-batches ---- */

void parallel_put_aside(struct builder *b)
{
	struct parallel *p = b->parallel;

	for (size_t i = 0; i < p->kept.n; i++) {
		p->kept.at[i] = b->t.params.at[i].grad;
		b->t.params.at[i].grad = TAPE_NONE;
	}
}

void parallel_put_back(struct builder *b)
{
	struct parallel *p = b->parallel;

	for (size_t i = 0; i < p->kept.n; i++) {
		if (p->kept.at[i] != TAPE_NONE)
			b->t.params.at[i].grad = p->kept.at[i];
		p->kept.at[i] = TAPE_NONE;
	}
}

void parallel_keep_share(struct builder *b, uint32_t param, uint32_t share)
{
	struct parallel *p = b->parallel;
	struct tape_param *x = &b->t.params.at[param];

	if (x->grad == TAPE_NONE)
		return;
	tape_let(&b->t, x->grad);
	x->grad = p->kept.at[param];
	p->kept.at[param] = TAPE_NONE;
	build_keep_gradient(b, x, share);
}

void parallel_keep_shares(struct builder *b, const struct unit *u, uint32_t shares)
{
	for (uint32_t i = 0; i < u->n; i++)
		parallel_keep_share(b, b->parallel->members.at[u->first + i], shares);
}

/* ---- the loop ---- */

static void start_parallel(struct builder *b)
{
	static const int64_t streams[STREAMS] = { 0, 1, 2, 3 };
	uint64_t blocks = b->m->towers[MODEL_TEXT].layers;
	struct tape *t = &b->t;

	b->parallel = mem_new(t->mem, 1, sizeof(*b->parallel), t->err);
	if (b->parallel)
		b->parallel->units = mem_new(t->mem, blocks + 1, sizeof(struct unit), t->err);
	if (!b->parallel || !b->parallel->units) {
		t->failed = mem_status(t->err);
		return;
	}
	t->program->streams = streams;
	t->program->stream_count = STREAMS;
	b->parallel->way = ways[b->r->parallel];
	b->parallel->root = (uint32_t)blocks;
	b->parallel->gathered = b->parallel->scattered = b->parallel->gradients = TAPE_NONE;
	b->parallel->twin = TAPE_NONE;
	b->parallel->late[0] = b->parallel->late[1] = TAPE_NONE;
	take_members(b);
}

void build_wrap(struct builder *b)
{
	static const uint8_t computed[PLAN_PRECISIONS] = {
		[PLAN_FP32] = TAPE_F32,          [PLAN_BF16_AUTOCAST] = TAPE_BF16,
		[PLAN_FP16_AUTOCAST] = TAPE_F16, [PLAN_BF16_PURE] = TAPE_BF16,
		[PLAN_BF16_LOADED] = TAPE_BF16,  [PLAN_BF16_MASTER] = TAPE_BF16,
	};

	b->compute = b->weights;
	build_wrap_offload(b);
	if (!ways[b->r->parallel] || b->t.failed)
		return;
	if (plan_is_deepspeed(b->r) && !plan_is_sharded(b->r))
		return; /* it takes the place of DDP */
	start_parallel(b);
	if (build_is_sharded(b) && b->r->task == PLAN_TRAIN)
		b->compute = computed[b->r->precision];
	b->t.unit = at_mark;
	b->t.again_self = b;
	if (!b->t.failed)
		b->parallel->way->wrap(b);
	build_phase(b, "wrap", PLAN_NO_NUMBER);
}

/* The way's function for a moment, where there is one and nothing has failed. */
#define AT(b, moment)                                                  \
	((b)->parallel && !(b)->t.failed && (b)->parallel->way->moment \
		 ? (b)->parallel->way->moment(b)                       \
		 : (void)0)

void build_before_forward(struct builder *b)
{
	AT(b, begin);
}

void build_after_forward(struct builder *b)
{
	AT(b, end);
}

void build_before_backward(struct builder *b)
{
	AT(b, back);
}

void build_after_backward(struct builder *b)
{
	build_let_bucket(b);
	AT(b, done);
}

void build_touch_units(struct builder *b)
{
	const struct parallel *p = b->parallel;
	unsigned width = tape_dtype_bytes[b->weights];
	uint32_t root = tape_store(&b->t, p->units[p->root].whole * width, TIMELINE_PARAMETER);

	for (uint32_t i = 0; i < p->root; i++)
		tape_touch(&b->t, p->units[i].whole * width);
	tape_let(&b->t, root);
}

bool build_before_step(struct builder *b)
{
	AT(b, before_step);
	return b->parallel && b->parallel->way->before_step;
}

void build_after_step(struct builder *b)
{
	AT(b, after_step);
}

bool build_zeroes_late(struct builder *b)
{
	if (!b->parallel || !b->parallel->way->zeroes_late)
		return false;
	b->parallel->stale = true;
	return true;
}

void build_end_parallel(struct builder *b)
{
	struct mem *mem = b->t.mem;
	struct parallel *p = b->parallel;

	if (!p)
		return;
	vec_release(mem, &p->buckets);
	vec_release(mem, &p->old);
	vec_release(mem, &p->held);
	vec_release(mem, &p->members);
	vec_release(mem, &p->full);
	vec_release(mem, &p->kept);
	vec_release(mem, &p->seen);
	vec_release(mem, &p->shares);
	mem_free(mem, p->units, p->units ? b->m->towers[MODEL_TEXT].layers + 1 : 0,
		 sizeof(struct unit));
	mem_free(mem, p, 1, sizeof(*p));
}
