/* Recipe to program, and the program through the allocator. */
#include "plan/step/build.h"

#include <stdio.h>
#include <string.h>

const char *const plan_precision_names[PLAN_PRECISIONS] = { "fp32",          "bf16-autocast",
							    "fp16-autocast", "bf16-pure",
							    "bf16-weights",  "fp16-weights",
							    "bf16-master" };
const char *const plan_optimizer_names[PLAN_OPTIMIZERS] = {
	"adamw",         "adamw-fused",  "adamw-loop",
	"sgd",           "sgd-momentum", "adafactor",
	"adamw-8bit",    "adamw-paged",  "adamw-paged-8bit",
	"adamw-ao-8bit", "adamw-ao-4bit"
};
const char *const plan_attention_names[PLAN_ATTENTIONS] = { "sdpa", "eager", "flash" };
const char *const plan_loss_names[PLAN_LOSSES] = { "whole", "chunked", "liger", "fused", "narrow" };
const char *const plan_quantize_names[PLAN_QUANTIZES] = { "none", "nf4", "nf4-double", "int8" };
const char *const plan_cache_names[PLAN_CACHES] = { "dynamic", "static" };
const char *const plan_parallel_names[PLAN_PARALLELS] = { "none",        "ddp",   "zero1",
							  "fsdp1",       "fsdp2", "fsdp2-zero2",
							  "fsdp1-zero2", "zero2", "zero3" };
const char *const plan_schedule_names[PLAN_SCHEDULES] = { "1f1b", "gpipe" };
const char *const plan_activations_names[PLAN_ACTIVATIONS] = { "none", "save-on-cpu", "pinned",
							       "checkpoints", "trl" };
const char *const plan_place_names[PLAN_PLACES] = { "gpu", "cpu", "nvme" };
const char *const plan_save_names[PLAN_SAVES] = { "none", "torch",    "pretrained", "state",
						  "full", "full-gpu", "sharded" };
const char *const plan_load_names[PLAN_LOADS] = { "meta", "whole" };
const char *const plan_freeze_names[PLAN_FREEZES] = { "none", "vision", "vision+projector" };
const char *const plan_task_names[PLAN_TASKS] = { "train", "infer", "generate" };

void plan_recipe_init(struct plan_recipe *r)
{
	*r = (struct plan_recipe){ .batch = 1,
				   .sequence = 1024,
				   .accumulate = 1,
				   .steps = 3,
				   .gpus = 1,
				   .tp = 1,
				   .pp = 1,
				   .device = plan_device_default };
}

bool plan_is_zero(const struct plan_recipe *r)
{
	return r->parallel == PLAN_ZERO2 || r->parallel == PLAN_ZERO3;
}

bool plan_is_8_bit(const struct plan_recipe *r)
{
	return r->optimizer == PLAN_ADAMW_8BIT || r->optimizer == PLAN_ADAMW_PAGED_8BIT;
}

/* Its kernels take whole tensors (0.50: no sharding strategy is registered, or Tensor and DTensor are mixed). */
bool plan_refuses_shards(const struct plan_recipe *r)
{
	bool shards = r->parallel == PLAN_FSDP2 || r->parallel == PLAN_FSDP2_ZERO2;

	return shards && (plan_is_8_bit(r) || plan_is_paged(r));
}

bool plan_is_torchao(const struct plan_recipe *r)
{
	return r->optimizer == PLAN_ADAMW_AO_8BIT || r->optimizer == PLAN_ADAMW_AO_4BIT;
}

bool plan_is_paged(const struct plan_recipe *r)
{
	return r->optimizer == PLAN_ADAMW_PAGED || r->optimizer == PLAN_ADAMW_PAGED_8BIT;
}

bool plan_is_half(const struct plan_recipe *r)
{
	return r->precision >= PLAN_BF16_PURE;
}

/* ---- parameters ---- */

static enum tape_dtype dtype_of(const struct builder *b, const struct model_tensor *x)
{
	if (!x->dtype)
		return b->weights;
	if (x->dtype->bits >= 64)
		return TAPE_I64;
	if (x->dtype->bits >= 32)
		return TAPE_F32;
	return x->dtype->bits >= 16 ? TAPE_BF16 : TAPE_BOOL;
}

static struct tape_param empty_param(enum tape_dtype dtype)
{
	struct tape_param p = { .store = TAPE_NONE,
				.grad = TAPE_NONE,
				.pending = TAPE_NONE,
				.dtype = (uint8_t)dtype,
				.trainable = 1 };

	p.states[0] = p.states[1] = p.states[2] = p.cast.store = TAPE_NONE;
	return p;
}

/* Of so many of its numbers; weights that the file holds quantized come with their scales. */
static uint64_t param_bytes(const struct model_tensor *x, uint64_t n, enum tape_dtype dtype)
{
	if (!x->dtype || !x->dtype->block)
		return n * tape_dtype_bytes[dtype];
	return model_block_bytes(x->dtype, n);
}

/* Of these, scales that are tensors of their own: all next to codes of whole bits, but in GGUF, where they lie among them. */
static uint64_t scale_bytes(const struct builder *b, const struct model_tensor *x, uint64_t n,
			    uint64_t bytes)
{
	uint64_t codes;

	if (!x->dtype || !x->dtype->block || !b->m->stored.name || b->m->from_gguf)
		return 0;
	codes = n * (x->dtype->block_bytes * 8 / x->dtype->block) / 8;
	return codes && codes < bytes ? bytes - codes : 0;
}

/* By from_pretrained(), as quantized weights always are: what is tied is never made twice. */
static bool is_read(const struct builder *b)
{
	return b->r->quantize || b->m->stored.name;
}

/*
 * A parameter of the model; a tied one has no memory of its own, but had until it was tied: modules are made one by
 * one on the device, and tied at the end.
 */
static enum plim_status add_param(struct builder *b, const struct model_tensor *x,
				  struct plim_err *err)
{
	struct tape *t = &b->t;
	int buffer = (x->flags & MODEL_IS_BUFFER) != 0;
	enum tape_dtype dtype = dtype_of(b, x);
	bool packed = build_is_packed(b, x);
	struct tape_param p = empty_param(dtype);
	uint64_t bytes, scales;

	build_before_quantized(b, x);
	p.n = p.own_n = packed ? build_packed(b, x) : build_divided(b, x);
	p.own_dtype = (uint8_t)dtype;
	p.place = PLAN_IN_MODULE(x->module);
	tape_at(t, p.place);
	p.trainable = !buffer && !(x->flags & MODEL_IS_FROZEN) && b->r->task == PLAN_TRAIN &&
		      !b->r->lora_rank;
	if (b->r->quantize && !x->dtype && !buffer)
		dtype = TAPE_BF16; /* until it is prepared */
	if (packed)
		p.dtype = p.own_dtype = dtype = TAPE_BF16;
	bytes = packed ? p.n * tape_dtype_bytes[dtype] : param_bytes(x, p.n, dtype);
	scales = packed ? 0 : scale_bytes(b, x, p.n, bytes);
	/* what belongs to codes is not a parameter: it is not shared out */
	if (build_is_meta(b) && !buffer && x->part != MODEL_QUANT_STATE)
		p.store = tape_meta(t);
	else if ((b->tp == 1 && !is_read(b)) || x->tied_to == MODEL_NONE)
		p.store = tape_store(t, bytes - scales,
				     buffer ? TIMELINE_BUFFER : TIMELINE_PARAMETER);
	if (p.store != TAPE_NONE)
		tape_store(t, scales, TIMELINE_PARAMETER);
	return vec_push(t->mem, &t->params, p, err);
}

/* T5's stacks make an embedding each before they are given the shared one. */
static void touch_stacks(struct builder *b)
{
	const struct model_module *x =
		model_module_at(b->m, MODEL_ENCODER, MODEL_NONE, MODEL_ROLE_EMBED);
	uint32_t made[2];

	if (!b->m->encoder_decoder || !x || build_is_meta(b))
		return;
	for (unsigned i = 0; i < 2; i++)
		made[i] = tape_store(&b->t,
				     b->t.params.at[x->tensors].n * tape_dtype_bytes[b->weights],
				     TIMELINE_PARAMETER);
	for (unsigned i = 0; i < 2; i++)
		tape_let(&b->t, made[i]);
}

static void drop_tied(struct builder *b)
{
	for (size_t i = 0; i < b->m->tensors.n; i++) {
		struct tape_param *p = &b->t.params.at[i];

		if (b->m->tensors.at[i].tied_to == MODEL_NONE)
			continue;
		tape_let(&b->t, p->store);
		p->store = TAPE_NONE;
		p->trainable = 0;
	}
}

/* LitGPT: queries, keys and values of one layer are adapted one by one.  How many are, and features of all of them. */
static unsigned targeted_parts(const struct builder *b, const struct model_module *x,
			       uint64_t *features)
{
	static const char *const names[3] = { "q_proj", "k_proj", "v_proj" };
	struct model_sizes s = model_sizes_of(b->m, (enum model_tower)x->tower, x->block);
	unsigned parts = 0;

	*features = 0;
	for (size_t i = 0; i < b->r->lora_target_count; i++)
		for (unsigned k = 0; k < 3; k++)
			if (!strcmp(b->r->lora_targets[i], names[k])) {
				*features += s.head_dim * (k ? s.kv_heads : s.heads);
				parts++;
			}
	return parts;
}

static int targeted(const struct builder *b, const struct model_module *x)
{
	static const char *const usual[] = { "q_proj", "v_proj",   "c_attn", "query",
					     "value",  "qkv_proj", "q",      "v" };
	const char *const *names = b->r->lora_target_count ? b->r->lora_targets : usual;
	size_t n = b->r->lora_target_count ? b->r->lora_target_count
					   : sizeof(usual) / sizeof(usual[0]);
	const char *last = strrchr(x->name, '.');
	uint64_t features;

	if (x->kind != MODEL_LINEAR && x->kind != MODEL_CONV1D)
		return 0;
	if (b->r->litgpt && x->role == MODEL_ROLE_QKV && targeted_parts(b, x, &features))
		return 1;
	last = last ? last + 1 : x->name;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(last, names[i]) ||
		    (!strcmp(names[i], "all-linear") && x->role != MODEL_ROLE_HEAD &&
		     x->role != MODEL_ROLE_HEAD_DENSE))
			return 1;
	return 0;
}

/* PEFT refuses targets that match nothing; names that it would take and that match here count up. */
static enum plim_status check_targets(const struct builder *b, struct plim_err *err)
{
	char have[200] = "";

	for (size_t i = 0; i < b->m->modules.n; i++) {
		const struct model_module *x = &b->m->modules.at[i];
		const char *last = strrchr(x->name, '.');
		size_t used = strlen(have);

		if (targeted(b, x))
			return PLIM_OK;
		last = last ? last + 1 : x->name;
		if ((x->kind == MODEL_LINEAR || x->kind == MODEL_CONV1D) && !strstr(have, last))
			snprintf(have + used, sizeof(have) - used, "%s%s", used ? ", " : "", last);
	}
	return err_set(
		err, PLIM_E_ARG,
		"no linear layer of this model is called as the LoRA targets say; it has %s (or "
		"all-linear)",
		*have ? have : "none");
}

static enum plim_status add_leaves(struct builder *b, struct plim_err *err)
{
	struct tape_param p = empty_param(b->weights);
	enum plim_status st = PLIM_OK;

	p.input = 1;
	for (unsigned i = 0; !st && i < 2; i++) {
		b->leaves[i] = (uint32_t)b->t.params.n;
		st = vec_push(b->t.mem, &b->t.params, p, err);
	}
	return st;
}

/* Two matrices a target, in fp32 (peft's autocast_adapter_dtype); DoRA's magnitudes behind them. */
static enum plim_status add_lora(struct builder *b, struct plim_err *err)
{
	enum tape_dtype dtype = b->r->narrow_adapters ? b->weights : TAPE_F32;
	struct tape *t = &b->t;
	enum plim_status st = PLIM_OK;

	b->lora = mem_new(t->mem, b->m->modules.n, sizeof(*b->lora), err);
	if (!b->lora)
		return mem_status(err);
	for (size_t i = 0; !st && i < b->m->modules.n; i++) {
		const struct model_module *x = &b->m->modules.at[i];
		uint64_t n[3] = { x->in * b->r->lora_rank, x->out * b->r->lora_rank, x->out }, of;
		unsigned parts;

		if (!targeted(b, x))
			continue;
		parts = b->r->litgpt && x->role == MODEL_ROLE_QKV ? targeted_parts(b, x, &of) : 0;
		if (parts) {
			n[0] *= parts;
			n[1] = of * b->r->lora_rank;
		}
		b->lora[i] = (uint32_t)t->params.n + 1;
		for (unsigned k = 0; !st && k < 3 && k < build_adapter_params(b); k++) {
			struct tape_param p = empty_param(dtype);

			p.n = p.own_n = n[k];
			b->plan->adapter_elements += n[k];
			p.own_dtype = (uint8_t)dtype;
			p.place = PLAN_IN_MODULE(i);
			tape_at(t, p.place);
			p.store = tape_store(t, n[k] * tape_dtype_bytes[dtype], TIMELINE_PARAMETER);
			st = vec_push(t->mem, &t->params, p, err);
		}
	}
	return st;
}

/* from_pretrained(tp_plan=...) warms the allocator up with a block of all that it will read; tied weights are one. */
static void warm_up(struct builder *b)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < b->m->tensors.n; i++)
		if (b->m->tensors.at[i].tied_to == MODEL_NONE)
			bytes += build_divided(b, &b->m->tensors.at[i]) *
				 tape_dtype_bytes[dtype_of(b, &b->m->tensors.at[i])];
	tape_touch(&b->t, bytes);
}

static enum plim_status load(struct builder *b, struct plim_err *err)
{
	enum plim_status st = build_tensor_parallel(b);

	build_host_load(b);
	b->unquantized = TAPE_NONE;
	for (size_t i = 0; i < b->r->extra_count; i++)
		tape_store(&b->t, b->r->extra_bytes[i], TIMELINE_UNKNOWN);
	if (b->r->learned)
		tape_store(&b->t, b->r->learned->resident_bytes, TIMELINE_UNKNOWN);
	if (!st && b->tp > 1)
		warm_up(b);
	for (size_t i = 0; !st && i < b->m->tensors.n; i++)
		st = add_param(b, &b->m->tensors.at[i], err);
	if (!st) {
		touch_stacks(b);
		drop_tied(b);
		build_prepare_quantized(b);
	}
	if (!st && b->r->lora_rank)
		st = check_targets(b, err);
	if (!st && b->r->lora_rank)
		st = add_lora(b, err);
	if (!st)
		st = build_stages(b);
	b->leaves[0] = b->leaves[1] = TAPE_NONE;
	if (!st && b->r->lora_rank && b->r->checkpointing)
		st = add_leaves(b, err);
	return st;
}

/* Modules by tower, block and role. */
static enum plim_status index_modules(struct builder *b, struct plim_err *err)
{
	for (unsigned tower = 0; tower < MODEL_TOWERS; tower++) {
		b->module_room[tower] = (size_t)(b->m->towers[tower].layers + 1) * MODEL_ROLES;
		b->module_of[tower] =
			mem_new(b->t.mem, b->module_room[tower], sizeof(uint32_t), err);
		if (!b->module_of[tower])
			return mem_status(err);
	}
	for (size_t i = 0; i < b->m->modules.n; i++) {
		const struct model_module *x = &b->m->modules.at[i];
		size_t k =
			(size_t)(x->block == MODEL_NONE ? 0 : x->block + 1) * MODEL_ROLES + x->role;

		if (k < b->module_room[x->tower] && !b->module_of[x->tower][k])
			b->module_of[x->tower][k] = (uint32_t)i + 1;
	}
	return PLIM_OK;
}

void build_phase(struct builder *b, const char *name, unsigned number)
{
	struct plan_phase phase = { .end = (uint32_t)b->plan->program->ops.n,
				    .host_bytes = b->t.host.recent };
	struct program *p = b->t.program;
	enum plim_status st;

	if (b->t.failed)
		return;
	b->t.host.recent = b->t.host.total;
	if (number == PLAN_NO_NUMBER)
		snprintf(phase.name, sizeof(phase.name), "%s", name);
	else
		snprintf(phase.name, sizeof(phase.name), "%s%u", name, number % 100000);
	st = vec_push(
		b->t.mem, &p->ops,
		((struct program_op){ (uint32_t)b->plan->phases.n, TRACE_NONE, PROGRAM_PHASE }),
		b->t.err);
	if (!st)
		st = vec_push(b->t.mem, &b->plan->phases, phase, b->t.err);
	if (st)
		b->t.failed = st;
}

/* What no forward pass of the model can do, and recipes that exclude each other. */
static enum plim_status check_plan(const struct builder *b, struct plim_err *err)
{
	/* TRL has no chunks for models that see */
	bool sees = b->r->loss == PLAN_LOSS_CHUNKED && b->m->towers[MODEL_VISION].layers;
	const struct model_numbers *n = &b->m->towers[MODEL_VISION];

	if (b->r->task == PLAN_GENERATE && !build_generates(b->m))
		return err_set(err, PLIM_E_ARG, "a model of family %s generates no tokens",
			       b->m->family);
	if (n->layers && (!n->patch || (n->position == MODEL_POSITION_ROPE_2D && !n->merge)))
		return err_set(err, PLIM_E_ARG, "the vision tower has no size of %s",
			       n->patch ? "its merged patches" : "a patch");
	if (n->layers && n->image_tokens && b->r->image_size &&
	    !model_module_at(b->m, MODEL_VISION, MODEL_NONE, MODEL_ROLE_MERGE_NORM))
		return err_set(err, PLIM_E_ARG,
			       "images of a model of family %s are not planned: `--trace` does",
			       b->m->family);
	if (b->r->loss != PLAN_LOSS_WHOLE && (sees || !build_is_decoder(b->m)))
		return err_set(err, PLIM_E_ARG, "a %s loss is for decoders of text, not for '%s'",
			       plan_loss_names[b->r->loss], b->m->family);
	if (b->r->in_backward && (b->r->accumulate > 1 || b->r->gpus > 1 || build_is_sharded(b) ||
				  b->r->optimizer_on || b->r->precision == PLAN_BF16_MASTER))
		return err_set(err, PLIM_E_ARG,
			       "an optimizer in the backward pass steps on each gradient at once: "
			       "it is planned on one GPU, without accumulation, offload or fp32 "
			       "copies");
	/* DeepSpeed's shares of the optimizer are such copies */
	if (b->r->precision == PLAN_BF16_MASTER && build_is_sharded(b) && !plan_is_zero(b->r))
		return err_set(err, PLIM_E_ARG,
			       "FSDP keeps its shards in fp32 anyway: precision bf16-autocast");
	if (b->r->precision == PLAN_FP16_LOADED &&
	    (b->r->task != PLAN_TRAIN || !b->r->lora_rank || build_is_sharded(b)))
		return err_set(
			err, PLIM_E_ARG,
			"fp16-weights are frozen ones, under adapters (options.lora_rank RANK): "
			"a GradScaler does not unscale gradients of 16 bits");
	return build_check_quantized(b, err);
}

static enum plim_status fill_plan(struct builder *b, struct plim_err *err)
{
	enum plim_status st = check_plan(b, err);

	if (!st)
		st = index_modules(b, err);
	if (!st)
		st = load(b, err);
	if (st)
		return st;
	build_phase(b, "load", PLAN_NO_NUMBER);
	tape_at(&b->t, 0);
	build_host_loaded(b);
	build_wrap(b);
	build_run(b);
	build_learned_moments(b);
	b->plan->host = b->t.host.all;
	return b->t.failed;
}

static uint8_t weights_of(const struct plan_recipe *r)
{
	if (r->precision == PLAN_FP16_LOADED)
		return TAPE_F16;
	return plan_is_half(r) ? TAPE_BF16 : TAPE_F32;
}

enum plim_status plan_build(struct mem *mem, const struct model *m, const struct plan_recipe *r,
			    struct plan **out, struct plim_err *err)
{
	struct builder b = { .m = m, .r = r };
	struct plan *p = mem_new(mem, 1, sizeof(*p), err);
	enum plim_status st;

	*out = NULL;
	if (!p)
		return mem_status(err);
	p->mem = mem;
	b.plan = p;
	b.weights = weights_of(r);
	st = tape_init(&b.t, mem, &r->device, err);
	p->program = b.t.program;
	if (!st)
		st = fill_plan(&b, err);
	if (!st) {
		CHECKED(tape_check(&b.t));
		CHECKED(program_check(p->program));
	}
	p->categories = b.t.categories.at;
	p->category_room = b.t.categories.cap;
	b.t.categories.at = NULL;
	b.t.categories.n = b.t.categories.cap = 0;
	for (unsigned tower = 0; tower < MODEL_TOWERS; tower++)
		mem_free(mem, b.module_of[tower], b.module_of[tower] ? b.module_room[tower] : 0,
			 sizeof(uint32_t));
	vec_release(mem, &b.windows);
	vec_release(mem, &b.cuts);
	if (b.lora)
		mem_free(mem, b.lora, m->modules.n, sizeof(*b.lora));
	build_end_parallel(&b);
	build_end_stages(&b);
	tape_release(&b.t);
	if (st)
		plan_free(p);
	else
		*out = p;
	return st;
}

void plan_free(struct plan *p)
{
	struct mem *mem;

	if (!p)
		return;
	mem = p->mem;
	program_free(p->program);
	mem_free(mem, p->categories, p->category_room, 1);
	vec_release(mem, &p->phases);
	mem_free(mem, p, 1, sizeof(*p));
}

/* ---- through the allocator ---- */

static void at_phase(void *self, uint32_t number, const struct allocator_stats *s)
{
	struct plan *p = self;
	struct plan_phase *phase = &p->phases.at[number];

	phase->allocated_bytes = s->count[ALLOCATOR_ALLOCATED_BYTES][0].current;
	phase->reserved_bytes = s->count[ALLOCATOR_RESERVED_BYTES][0].current;
	phase->peak_allocated_bytes = s->count[ALLOCATOR_ALLOCATED_BYTES][0].peak;
	phase->peak_requested_bytes = s->count[ALLOCATOR_REQUESTED_BYTES][0].peak;
	phase->peak_reserved_bytes = s->count[ALLOCATOR_RESERVED_BYTES][0].peak;
}

static void raise(uint64_t *most, uint64_t bytes)
{
	if (bytes > *most)
		*most = bytes;
}

static void forget_phases(struct plan *p)
{
	for (size_t i = 0; i < p->phases.n; i++) {
		struct plan_phase *f = &p->phases.at[i];

		f->allocated_bytes = f->reserved_bytes = f->peak_allocated_bytes = 0;
		f->peak_requested_bytes = f->peak_reserved_bytes = 0;
	}
}

static void take_result(const struct plan *p, const struct allocator_outcome *outcome,
			struct plan_result *out)
{
	*out = (struct plan_result){ .died = TRACE_NONE };
	for (uint32_t i = 0; i < p->phases.n; i++) {
		const struct plan_phase *f = &p->phases.at[i];

		if (!f->peak_allocated_bytes && outcome->oom_request_bytes) {
			out->died = i;
			out->died_request_bytes = outcome->oom_request_bytes;
			out->died_allocated_bytes =
				outcome->stats.count[ALLOCATOR_ALLOCATED_BYTES][0].current;
			break;
		}
		if (f->peak_allocated_bytes > out->peak_allocated_bytes)
			out->peak_phase = i;
		raise(&out->peak_allocated_bytes, f->peak_allocated_bytes);
		raise(&out->peak_requested_bytes, f->peak_requested_bytes);
		raise(&out->peak_reserved_bytes, f->peak_reserved_bytes);
	}
}

enum plim_status plan_measure(struct plan *p, const struct allocator_rules *rules,
			      const struct allocator_bounds *bounds, struct plan_result *out,
			      struct plim_err *err)
{
	struct allocator_run how = { .rules = rules,
				     .bounds = *bounds,
				     .way = ALLOCATOR_LOWEST,
				     .self = p,
				     .phase = at_phase };
	struct allocator_outcome outcome;
	enum plim_status st;

	forget_phases(p);
	st = allocator_run(p->mem, p->program, &how, &outcome, err);
	take_result(p, &outcome, out);
	return st;
}

/* The most that is asked for at once: less than that never does. */
static uint64_t live_peak(const struct program *p)
{
	uint64_t live = 0, peak = 0;

	for (size_t i = 0; i < p->ops.n; i++) {
		const struct program_op *op = &p->ops.at[i];

		if (program_allocates(op->kind))
			live += p->requests.at[op->request].bytes;
		else if (op->kind == PROGRAM_FREE_DONE)
			live -= p->requests.at[op->request].bytes;
		raise(&peak, live);
	}
	return peak;
}

/* Is the shorter program how the longer one begins? */
static bool begins_with(const struct program *longer, const struct program *shorter)
{
	return shorter->ops.n <= longer->ops.n && shorter->requests.n <= longer->requests.n &&
	       !memcmp(shorter->ops.at, longer->ops.at,
		       shorter->ops.n * sizeof(*shorter->ops.at)) &&
	       !memcmp(shorter->requests.at, longer->requests.at,
		       shorter->requests.n * sizeof(*shorter->requests.at));
}

enum plim_status plan_measure_needed(struct plan *p, const struct allocator_rules *rules,
				     uint64_t most_bytes, struct plan_result *out,
				     uint64_t *needed_bytes, struct plim_err *err)
{
	struct allocator_run how = {
		.rules = rules, .way = ALLOCATOR_LOWEST, .self = p, .phase = at_phase
	};
	struct allocator_reach all = { (uint32_t)p->program->ops.n, live_peak(p->program), 0 };
	struct allocator_outcome outcome;
	enum plim_status st;

	forget_phases(p);
	st = allocator_find_needed(p->mem, p->program, &how, &all, 1, most_bytes, &outcome, err);
	take_result(p, &outcome, out);
	*needed_bytes = all.needed_bytes;
	return st;
}

enum plim_status plan_measure_both(struct plan *const plans[2], const struct allocator_rules *rules,
				   uint64_t most_bytes, struct plan_result out[2],
				   uint64_t needed_bytes[2], struct plim_err *err)
{
	struct plan *shorter = plans[0], *longer = plans[1];
	struct allocator_run how = {
		.rules = rules, .way = ALLOCATOR_LOWEST, .self = longer, .phase = at_phase
	};
	struct allocator_reach both[2] = {
		{ (uint32_t)shorter->program->ops.n, live_peak(shorter->program), 0 },
		{ (uint32_t)longer->program->ops.n, live_peak(longer->program), 0 },
	};
	struct allocator_outcome outcome;
	enum plim_status st = PLIM_OK;

	if (!begins_with(longer->program, shorter->program)) {
		for (unsigned i = 0; !st && i < 2; i++)
			st = plan_measure_needed(plans[i], rules, most_bytes, &out[i],
						 &needed_bytes[i], err);
		return st;
	}
	forget_phases(longer);
	st = allocator_find_needed(longer->mem, longer->program, &how, both, 2, most_bytes,
				   &outcome, err);
	for (size_t i = 0; i < shorter->phases.n; i++) {
		uint32_t end = shorter->phases.at[i].end;
		shorter->phases.at[i] = longer->phases.at[i];
		shorter->phases.at[i].end = end;
	}
	for (unsigned i = 0; i < 2; i++) {
		take_result(plans[i], &outcome, &out[i]);
		needed_bytes[i] = both[i].needed_bytes;
	}
	return st;
}

#define OWN_STEP (2u << 20) /* of the smallest limit that is looked for: a handle of the driver */

enum plim_status plan_measure_own(struct plan *p, uint64_t most_bytes, struct plan_result *out,
				  uint64_t *needed_bytes, struct plim_err *err)
{
	struct allocator_vmm how = { .bounds = { most_bytes, UINT64_MAX, 0 } };
	uint64_t low = live_peak(p->program), high;
	struct allocator_outcome outcome = { .oom_request_bytes = 1 };
	enum plim_status st = PLIM_OK;

	*out = (struct plan_result){ .died = TRACE_NONE };
	*needed_bytes = most_bytes + 1;
	if (low <= most_bytes)
		st = allocator_run_vmm(p->mem, p->program, &how, &outcome, err);
	if (st || outcome.oom_request_bytes)
		return st;
	out->peak_allocated_bytes = outcome.stats.count[ALLOCATOR_ALLOCATED_BYTES][0].peak;
	out->peak_reserved_bytes = outcome.stats.count[ALLOCATOR_RESERVED_BYTES][0].peak;
	high = out->peak_reserved_bytes;
	low = low < high ? low : high;
	while (!st && high - low > OWN_STEP) {
		how.bounds.limit_bytes = low + (high - low) / 2;
		st = allocator_run_vmm(p->mem, p->program, &how, &outcome, err);
		*(outcome.oom_request_bytes ? &low : &high) = how.bounds.limit_bytes;
	}
	*needed_bytes = high;
	return st;
}

/* ---- composition ---- */

#define PENDING 16 /* dropped while another stream uses them; sharding has a handful at a time */

struct walk {
	const struct plan *p;
	struct allocator_rules rules;
	uint64_t bytes[TIMELINE_CATEGORIES], total;
	uint32_t pending[PENDING];
	size_t n;
};

/* Was it dropped before its end? */
static int was_dropped(struct walk *w, uint32_t request)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->pending[i] == request) {
			w->pending[i] = w->pending[--w->n];
			return 1;
		}
	return 0;
}

static void plan_step(struct walk *w, const struct program_op *op)
{
	uint64_t n;

	if (op->request == TRACE_NONE || op->kind == PROGRAM_PHASE ||
	    (op->kind == PROGRAM_FREE && w->n == PENDING))
		return;
	n = allocator_round(&w->rules, w->p->program->requests.at[op->request].bytes);
	if (op->kind == PROGRAM_FREE)
		w->pending[w->n++] = op->request;
	else if (op->kind == PROGRAM_FREE_DONE && was_dropped(w, op->request))
		return;
	if (op->kind == PROGRAM_FREE || op->kind == PROGRAM_FREE_DONE) {
		w->bytes[w->p->categories[op->request]] -= n;
		w->total -= n;
	} else if (program_allocates(op->kind)) {
		w->bytes[w->p->categories[op->request]] += n;
		w->total += n;
	}
}

void plan_compose(const struct plan *p, uint32_t phase, uint64_t bytes[TIMELINE_CATEGORIES],
		  uint64_t *rounding_bytes)
{
	struct walk w = { .p = p, .rules = allocator_rules_default(0) };
	uint32_t begin = phase ? p->phases.at[phase - 1].end : 0;
	uint64_t peak = p->phases.at[phase].peak_allocated_bytes, most = 0;

	for (uint32_t i = 0; i < p->phases.at[phase].end; i++) {
		plan_step(&w, &p->program->ops.at[i]);
		if (i >= begin && w.total > most) {
			most = w.total;
			memcpy(bytes, w.bytes, sizeof(w.bytes));
		}
	}
	*rounding_bytes = peak > most ? peak - most : 0;
}
