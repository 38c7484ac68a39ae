/* What all architectures share: parameters, projections with adapters, norms, activations, attention. */
#include "plan/step/build.h"

static const struct model_module *module(const struct builder *b, enum model_tower tower,
					 uint32_t block, enum model_role role)
{
	uint64_t groups = b->m->towers[tower].block_groups;
	uint32_t of = groups && block != MODEL_NONE
			      ? (uint32_t)(block * groups / b->m->towers[tower].layers)
			      : block;
	uint32_t at = of == MODEL_NONE ? 0 : of + 1;
	size_t k = (size_t)at * MODEL_ROLES + role;

	if (k >= b->module_room[tower] || !b->module_of[tower][k])
		return NULL;
	return &b->m->modules.at[b->module_of[tower][k] - 1];
}

int build_has(const struct builder *b, enum model_tower tower, uint32_t block, enum model_role role)
{
	return module(b, tower, block, role) != NULL;
}

static struct value param_of(struct builder *b, const struct model_module *x, enum model_part part)
{
	for (uint32_t i = 0; x && i < x->n; i++) {
		const struct model_tensor *tensor = &b->m->tensors.at[x->tensors + i];

		if (tensor->part == part)
			return tape_param(&b->t, tensor->tied_to == MODEL_NONE ? x->tensors + i
									       : tensor->tied_to);
	}
	return tape_param(&b->t, TAPE_NONE);
}

struct value build_param(struct builder *b, enum model_tower tower, uint32_t block,
			 enum model_role role, enum model_part part)
{
	return param_of(b, module(b, tower, block, role), part);
}

#define LORA_DROPOUT 0.1 /* any rate takes the same */

/*
 * What PEFT casts the input to.  Under FSDP 1 the adapter is a unit of its own that is not gathered yet: PEFT sees the
 * share's dtype, FSDP casts the copy again, and so each adapter keeps an input of its own.  On quantized weights
 * under autocast PEFT does not cast.
 */
static enum tape_dtype adapter_dtype(const struct builder *b, uint32_t a, bool quantized)
{
	const struct tape_param *down = &b->t.params.at[a];

	return plan_is_fsdp1(b->r) && !quantized ? down->own_dtype : down->dtype;
}

unsigned build_adapter_params(const struct builder *b)
{
	return b->r->dora ? 3 : 2;
}

/* W + scaling * BA as a whole, of which each row's norm is left; nothing of it takes a gradient. */
static struct value row_norms(struct tape *t, struct value weight, struct value product,
			      uint64_t out)
{
	uint8_t grad = t->grad;
	struct value scaled, sum, norms;

	t->grad = 0;
	scaled = op_apply(t, OP_SCALE, product);
	sum = op_add(t, weight, scaled);
	tape_drop(t, &scaled);
	norms = tape_new(t, out, sum.dtype, t->category);
	tape_drop(t, &sum);
	t->grad = grad;
	return norms;
}

/* The frozen weight in x's dtype; from codes it is made whole first. */
static struct value whole_weight(struct builder *b, const struct model_module *module,
				 enum tape_dtype dtype)
{
	struct tape *t = &b->t;
	struct value weight = param_of(b, module, MODEL_WEIGHT), cast;

	if (!build_is_quantized(b, module))
		return op_cast(t, weight, dtype);
	weight = tape_new(t, module->in * module->out, TAPE_BF16, TIMELINE_TEMPORARY);
	cast = op_cast(t, weight, dtype);
	tape_drop(t, &weight);
	return cast;
}

/*
 * peft's DoraLinearLayer (tuners/lora/dora.py): BA is made whole from an identity, W + BA gives norms, and
 * (m / norms - 1) * W(x) + m / norms * B(A(x)) is what comes to the result.  With dropout W(x) is made again.
 */
static struct value dora(struct builder *b, uint32_t a, struct value in, struct value y,
			 const struct model_module *module)
{
	struct tape *t = &b->t;
	struct value down = tape_param(t, a), up = tape_param(t, a + 1),
		     none = tape_param(t, TAPE_NONE);
	struct value eye = tape_new(t, module->in * module->in, down.dtype, t->category);
	struct value whole, weight, norms, m, low, ends[2], high, base, part[3], sum;
	uint8_t grad = t->grad;

	/* the graph of BA ends with the name of its result, and with it what it saved */
	for (unsigned i = 0; i < 2; i++)
		ends[i] = op_operand(t, i ? up : down);
	t->grad = 0;
	tape_set(t, &eye, op_operand(t, eye));
	low = op_linear(t, eye, ends[0], none, b->r->lora_rank);
	whole = op_linear(t, low, ends[1], none, module->out);
	t->grad = grad;
	for (unsigned i = 0; i < 2; i++)
		tape_drop(t, &ends[i]);
	tape_set(t, &whole, op_cast(t, whole, in.dtype));
	weight = whole_weight(b, module, in.dtype);
	norms = row_norms(t, weight, whole, module->out);
	m = op_mul(t, tape_param(t, a + 2), norms);
	part[0] = op_linear(t, in, down, none, b->r->lora_rank);
	high = op_linear(t, part[0], up, none, module->out);
	tape_drop(t, &part[0]);
	if (b->r->lora_dropout && t->grad)
		base = op_linear(t, in, weight, none, module->out);
	else
		base = param_of(b, module, MODEL_BIAS).store == TAPE_NONE
			       ? tape_keep(t, y)
			       : op_add(t, y, param_of(b, module, MODEL_BIAS));
	part[0] = op_apply(t, OP_SHIFT, m);
	part[1] = op_mul(t, part[0], base);
	tape_drop(t, &part[0]);
	part[0] = op_mul(t, m, high);
	part[2] = op_apply(t, OP_SCALE, part[0]);
	tape_drop(t, &part[0]);
	sum = op_add(t, part[1], part[2]);
	tape_drop(t, &part[1]);
	tape_drop(t, &part[2]);
	tape_drop(t, &base);
	tape_drop(t, &high);
	tape_drop(t, &m);
	tape_drop(t, &norms);
	tape_drop(t, &weight);
	tape_drop(t, &whole);
	tape_drop(t, &low);
	tape_drop(t, &eye);
	return sum;
}

/*
 * LitGPT's LoRAQKVLinear (litgpt/lora.py 175 to 438): one A for what is adapted of queries, keys and values, one product each
 * with its part of B, and zeros for the rest.
 */
static struct value adapt_joined(struct builder *b, struct value in, struct value down,
				 struct value up, const struct model_module *module)
{
	struct tape *t = &b->t;
	uint64_t rank = b->r->lora_rank, parts = down.n / module->in / rank;
	uint64_t rows = in.n / module->in, out = up.n / rank;
	struct value none = tape_param(t, TAPE_NONE), high, whole;
	struct value low = op_linear(t, in, down, none, rank * parts);

	if (parts > 1)
		tape_set(t, &low, op_index_first(t, low, rows * rank));
	high = op_linear(t, low, up, none, out);
	tape_drop(t, &low);
	if (out == module->out)
		return high;
	whole = tape_new(t, rows * module->out, high.dtype, t->category);
	tape_set(t, &whole, op_index_copy(t, whole, high));
	tape_drop(t, &high);
	return whole;
}

/*
 * peft's lora.Linear: result + B(A(x as the adapter's dtype)) * scaling, as the result's dtype.  On quantized weights
 * the sum stays as it is, and what comes of 4 bits is cloned first.
 */
static struct value adapt(struct builder *b, uint32_t a, struct value x, struct value y,
			  const struct model_module *module)
{
	bool quantized = build_is_quantized(b, module);
	enum tape_dtype dtype = y.dtype;
	uint64_t out = module->out;
	struct tape *t = &b->t;
	struct value down = tape_param(t, a), up = tape_param(t, a + 1),
		     none = tape_param(t, TAPE_NONE);
	struct value in, whole, low, high, scaled, sum, result;

	if (quantized && b->r->quantize != PLAN_INT8 && !b->r->litgpt)
		tape_set(t, &y, op_contiguous(t, y));
	in = op_cast(t, x, adapter_dtype(b, a, quantized));
	whole = b->r->dora ? tape_keep(t, in) : none; /* before dropout: a name of the caller's */
	if (b->r->lora_dropout)
		tape_set(t, &in, op_dropout(t, in, LORA_DROPOUT));
	tape_set(t, &in, op_cast(t, in, down.dtype));
	if (b->r->dora) {
		scaled = dora(b, a, in, y, module);
		tape_drop(t, &whole);
	} else if (b->r->litgpt && module->role == MODEL_ROLE_QKV) {
		high = adapt_joined(b, in, down, up, module);
		scaled = op_apply(t, OP_SCALE, high);
		tape_drop(t, &high);
	} else {
		low = op_linear(t, in, down, none, b->r->lora_rank);
		high = op_linear(t, low, up, none, out);
		tape_drop(t, &low);
		scaled = op_apply(t, OP_SCALE, high);
		tape_drop(t, &high);
	}
	if (quantized && !t->autocast)
		tape_set(t, &scaled, op_cast(t, scaled, y.dtype));
	sum = op_add(t, y, scaled);
	tape_drop(t, &scaled);
	tape_drop(t, &y);
	tape_drop(t, &in);
	result = op_cast(t, sum, quantized ? x.dtype : dtype);
	tape_drop(t, &sum);
	return result;
}

/* Routers are parameters of their own, [out, in]. */
static uint64_t features(const struct builder *b, const struct model_module *x)
{
	return x->out ? x->out : b->m->tensors.at[x->tensors].dims[0];
}

struct value build_linear(struct builder *b, enum model_tower tower, uint32_t block,
			  enum model_role role, struct value x)
{
	const struct model_module *x_module = module(b, tower, block, role);
	struct value y, weight, bias;
	uint32_t a, home = b->t.home;

	if (!x_module)
		return tape_keep(&b->t, x);
	b->t.home = PLAN_IN_MODULE(x_module - b->m->modules.at);
	weight = param_of(b, x_module, MODEL_WEIGHT);
	if (weight.store == TAPE_NONE)
		weight = param_of(b, x_module, MODEL_WHOLE);
	bias = param_of(b, x_module, MODEL_BIAS);
	b->t.stays = role == MODEL_ROLE_HEAD && b->r->activations == PLAN_OFFLOAD_STREAMS;
	y = build_is_quantized(b, x_module)
		    ? build_quantized(b, x_module, x, bias)
		    : build_split_linear(b, x_module, x, weight, bias, features(b, x_module));
	b->t.stays = 0;
	a = b->lora ? b->lora[x_module - b->m->modules.at] : 0;
	y = a ? adapt(b, a - 1, x, y, x_module) : y;
	b->t.home = home;
	return y;
}

bool build_has_linear_experts(const struct builder *b, uint32_t block)
{
	const struct model_module *up = module(b, MODEL_TEXT, block, MODEL_ROLE_EXPERTS_UP);

	return up && build_is_quantized(b, up);
}

struct value build_expert(struct builder *b, uint32_t block, enum model_role role, struct value x)
{
	const struct model_module *of = module(b, MODEL_TEXT, block, role);
	uint32_t home = b->t.home;
	struct value y;

	b->t.home = PLAN_IN_MODULE(of - b->m->modules.at);
	y = build_quantized(b, of, x, tape_param(&b->t, TAPE_NONE));
	b->t.home = home;
	return y;
}

/* x / sqrt(mean(x^2) + eps) in fp32; *variance lives as long as the function that computes it. */
static struct value normalized(struct tape *t, struct value h, uint64_t rows,
			       struct value *variance)
{
	struct value p = op_apply(t, OP_POW, h), e, r, y;

	*variance = op_mean(t, p, rows);
	tape_drop(t, &p);
	e = op_apply(t, OP_SHIFT, *variance);
	r = op_apply(t, OP_RSQRT, e);
	tape_drop(t, &e);
	y = op_mul(t, h, r);
	tape_drop(t, &r);
	return y;
}

/* LlamaRMSNorm: cast back, then times the weight; Olmo2RMSNorm and GptOssRMSNorm: the other way round (`wide`). */
static struct value rms_norm(struct tape *t, struct value x, struct value weight, bool wide)
{
	struct value h = op_cast(t, x, TAPE_F32), variance, cast, y;

	tape_set(t, &h, normalized(t, h, x.n / weight.n, &variance));
	cast = wide ? tape_keep(t, h) : op_cast(t, h, x.dtype);
	y = op_mul(t, weight, cast);
	if (wide)
		tape_set(t, &y, op_cast(t, y, x.dtype));
	tape_drop(t, &cast);
	tape_drop(t, &variance);
	tape_drop(t, &h);
	return y;
}

/* GemmaRMSNorm: times (1 + weight) in fp32, cast at the end; LitGPT's RMSNorm (model.py 571) of other models: times weight. */
static struct value gemma_norm(struct tape *t, struct value x, struct value weight)
{
	struct value f = op_cast(t, x, TAPE_F32), variance, w, one, h, y;

	h = normalized(t, f, x.n / weight.n, &variance);
	tape_drop(t, &f);
	tape_drop(t, &variance);
	w = op_cast(t, weight, TAPE_F32);
	one = op_apply(t, OP_SHIFT, w);
	tape_drop(t, &w);
	tape_set(t, &h, op_mul(t, h, one));
	tape_drop(t, &one);
	y = op_cast(t, h, x.dtype);
	tape_drop(t, &h);
	return y;
}

struct value build_norm(struct builder *b, enum model_tower tower, uint32_t block,
			enum model_role role, struct value x)
{
	const struct model_module *n = module(b, tower, block, role);
	struct value weight = param_of(b, n, MODEL_WEIGHT), y;
	uint32_t home = b->t.home;

	if (!n)
		return tape_keep(&b->t, x);
	b->t.home = PLAN_IN_MODULE(n - b->m->modules.at);
	if (n->kind == MODEL_NORM_LAYER)
		y = op_layer_norm(&b->t, x, weight, param_of(b, n, MODEL_BIAS), x.n / weight.n);
	else if (b->r->liger & PLAN_LIGER_NORM && tower == MODEL_TEXT)
		/* where a norm follows a norm, what comes is wanted by others as well */
		y = op_liger_norm(&b->t, x, weight, !build_has(b, tower, 0, MODEL_ROLE_NORM1_OUT));
	else if (b->m->towers[tower].norm == MODEL_RMS_NORM_GEMMA || b->r->litgpt)
		y = gemma_norm(&b->t, x, weight);
	else
		y = rms_norm(&b->t, x, weight, b->m->towers[tower].norm == MODEL_RMS_NORM_WIDE);
	b->t.home = home;
	return y;
}

/* 0.5 * x * (1 + tanh(c * (x + 0.044715 * x^3))), kernel by kernel. */
static struct value gelu_new(struct tape *t, struct value x)
{
	struct value half = op_apply(t, OP_SCALE, x), h = op_apply(t, OP_POW, x), y;

	tape_set(t, &h, op_apply(t, OP_SCALE, h));
	tape_set(t, &h, op_add(t, x, h));
	tape_set(t, &h, op_apply(t, OP_SCALE, h));
	tape_set(t, &h, op_apply(t, OP_TANH, h));
	tape_set(t, &h, op_apply(t, OP_SHIFT, h));
	y = op_mul(t, half, h);
	tape_drop(t, &half);
	tape_drop(t, &h);
	return y;
}

/* x * sigmoid(1.702 * x) */
static struct value quick_gelu(struct tape *t, struct value x)
{
	struct value s = op_apply(t, OP_SCALE, x), y;

	tape_set(t, &s, op_apply(t, OP_SIGMOID, s));
	y = op_mul(t, x, s);
	tape_drop(t, &s);
	return y;
}

struct value build_activation(struct builder *b, enum model_tower tower, struct value x)
{
	static const enum op_function function[] = {
		[MODEL_SILU] = OP_SILU,
		[MODEL_GELU] = OP_GELU,
		[MODEL_GELU_TANH] = OP_GELU,
		[MODEL_RELU] = OP_RELU,
		[MODEL_ACTIVATION_OTHER] = OP_GELU,
	};
	enum model_activation a = b->m->towers[tower].activation;

	if (a == MODEL_GELU_NEW)
		return gelu_new(&b->t, x);
	if (a == MODEL_RELU2) {
		struct value h = op_apply(&b->t, OP_RELU, x), y = op_apply(&b->t, OP_POW, h);

		tape_drop(&b->t, &h);
		return y;
	}
	if (a == MODEL_QUICK_GELU)
		return quick_gelu(&b->t, x);
	return op_apply(&b->t, function[a], x);
}

/* ---- attention ---- */

/* eager_attention_forward: the scores in full. */
static struct value eager(struct builder *b, enum model_tower tower, struct value q, struct value k,
			  struct value v, const struct attention *a)
{
	struct tape *t = &b->t;
	const struct model_numbers *n = &b->m->towers[tower];
	uint64_t times = a->heads / a->kv_heads, batch = a->batch * a->heads;
	/* heads lie inside of tokens, which one sample alone does not show; repeated ones are copies already */
	unsigned copied = a->batch > 1 ? MATMUL_COPIES_A : 0;
	unsigned own = a->batch > 1 && times == 1 ? MATMUL_COPIES_B : 0;
	struct value keys = op_repeat(t, k, times), values = op_repeat(t, v, times), scores, y;

	scores =
		op_matmul(t, q, keys,
			  (struct matmul){ batch, a->queries, a->head_dim, a->keys, copied | own });
	tape_set(t, &scores, op_apply(t, OP_SCALE, scores));
	if (n->attention_softcap > 0) {
		tape_set(t, &scores, op_apply(t, OP_SCALE, scores));
		tape_set(t, &scores, op_apply(t, OP_TANH, scores));
		tape_set(t, &scores, op_apply(t, OP_SCALE, scores));
	}
	if (b->mask.store != TAPE_NONE && tower == MODEL_TEXT)
		tape_set(t, &scores, op_add(t, scores, b->mask));
	tape_set(t, &scores, op_softmax(t, scores, TAPE_F32));
	tape_set(t, &scores, op_cast(t, scores, q.dtype));
	tape_set(t, &scores, op_dropout(t, scores, n->attention_dropout));
	y = op_matmul(t, scores, values,
		      (struct matmul){ batch, a->queries, a->keys, a->head_dim, own });
	tape_set(t, &y, op_contiguous(t, y));
	tape_drop(t, &scores);
	tape_drop(t, &keys);
	tape_drop(t, &values);
	return y;
}

/* To fp32 for the sums, from what autocast makes of it. */
static struct value widened(struct tape *t, struct value x, uint8_t autocast)
{
	struct value low = autocast ? op_cast(t, x, autocast) : tape_keep(t, x);
	struct value y = op_cast(t, low, TAPE_F32);

	tape_drop(t, &low);
	return y;
}

struct value build_unfused(struct builder *b, struct value q, struct value k, struct value v,
			   const struct attention *a, struct value bias)
{
	struct tape *t = &b->t;
	uint64_t times = a->heads / a->kv_heads, batch = a->batch * a->heads;
	unsigned many = a->batch > 1, one = times == 1 && many ? MATMUL_COPIES_B : 0;
	uint8_t autocast = t->autocast;
	enum tape_dtype dtype = autocast ? autocast : q.dtype;
	struct value mask = tape_param(t, TAPE_NONE), in[3], scores, y, added;

	in[2] = widened(t, v, autocast);
	in[1] = widened(t, k, autocast);
	in[0] = widened(t, q, autocast);
	added = bias.store != TAPE_NONE && autocast ? op_cast(t, bias, autocast)
						    : tape_keep(t, bias);
	t->autocast = 0; /* a function below it */
	tape_set(t, &in[0], op_apply(t, OP_SCALE, in[0]));
	if (a->causal)
		mask = tape_new(t, a->queries * a->keys, TAPE_F32, TIMELINE_TEMPORARY);
	for (unsigned i = 1; i < 3; i++)
		tape_set(t, &in[i], op_repeat(t, in[i], times));
	tape_set(t, &in[1], op_apply(t, OP_SCALE, in[1]));
	scores = op_matmul(t, in[0], in[1],
			   (struct matmul){ batch, a->queries, a->head_dim, a->keys,
					    (many ? MATMUL_COPIES_A : 0) | one });
	if (added.store != TAPE_NONE)
		tape_set(t, &scores, op_add_inplace(t, scores, added));
	tape_set(t, &scores, op_softmax(t, scores, TAPE_F32));
	tape_touch(t, scores.n);
	tape_set(t, &scores, op_dropout(t, scores, a->dropout));
	y = op_matmul(t, scores, in[2],
		      (struct matmul){ batch, a->queries, a->keys, a->head_dim, one });
	tape_set(t, &y, op_cast(t, y, dtype));
	tape_drop(t, &scores);
	for (unsigned i = 0; i < 3; i++)
		tape_drop(t, &in[i]);
	tape_drop(t, &mask);
	tape_drop(t, &added);
	t->autocast = autocast;
	tape_set(t, &y, op_contiguous(t, y));
	return y;
}

bool build_is_windowed(const struct builder *b, enum model_tower tower, uint32_t block,
		       uint64_t keys)
{
	return tower == MODEL_TEXT && !model_sees_all(b->m, tower, block) &&
	       keys >= b->m->towers[tower].window;
}

/* With a mask, or in old releases, heads cannot share keys: they are copied. */
static struct value repeated(struct builder *b, struct value q, struct value k, struct value v,
			     struct attention *a)
{
	struct tape *t = &b->t;
	uint64_t times = a->kv_heads == 1 ? 1 : a->heads / a->kv_heads; /* of one head: a view */
	struct value keys = op_repeat(t, k, times), values = op_repeat(t, v, times), y;

	a->kv_heads = a->heads;
	y = op_attention(t, q, keys, values, a);
	tape_drop(t, &keys);
	tape_drop(t, &values);
	return y;
}

/* Of halves. */
static enum op_kernel fused_kernel(const struct builder *b)
{
	const struct plan_device *d = &b->r->device;

	if (b->r->attention == PLAN_FLASH)
		return OP_FLASH;
	return d->cudnn_attention ? OP_CUDNN : d->flash_attention ? OP_FLASH : OP_EFFICIENT;
}

/* Does a fused kernel take these numbers on this GPU? */
static int has_half(const struct builder *b, struct value q)
{
	uint8_t dtype = b->t.autocast ? b->t.autocast : q.dtype;

	return dtype != TAPE_BF16 || b->r->device.flash_attention;
}

struct value build_attention_of(struct builder *b, enum model_tower tower, uint32_t block,
				struct value q, struct value k, struct value v, struct attention *a)
{
	int half = b->t.autocast || q.dtype != TAPE_F32;

	if (b->r->attention == PLAN_EAGER ||
	    (b->r->litgpt && b->m->towers[tower].attention_softcap > 0)) /* model.py 305 */
		return eager(b, tower, q, k, v, a);
	/* FlashAttention takes a head that is shared as it is */
	if (b->r->attention != PLAN_FLASH && b->m->towers[tower].broadcasts_keys &&
	    a->heads != a->kv_heads && !b->r->litgpt)
		return build_unfused(b, q, k, v, a, tape_param(&b->t, TAPE_NONE));
	a->kernel = (uint8_t)(half ? fused_kernel(b) : OP_EFFICIENT);
	if (b->r->attention != PLAN_FLASH && tower == MODEL_TEXT &&
	    (build_is_windowed(b, tower, block, a->keys) ||
	     build_masks_all(b, model_has_windows(b->m, tower)) || b->r->padded)) {
		a->bias = a->batch * a->queries * a->keys; /* no kernel has a flag for them */
		if (a->kernel == OP_FLASH)
			a->kernel = OP_EFFICIENT; /* FlashAttention takes no mask */
		return repeated(b, q, k, v, a);
	}
	/* the other kernels know no shared heads, unless these are copied; before Ampere none knows bf16 */
	if (a->kernel == OP_EFFICIENT &&
	    ((a->heads != a->kv_heads && !b->r->repeats_heads && !b->r->litgpt) || !has_half(b, q)))
		return build_unfused(b, q, k, v, a, tape_param(&b->t, TAPE_NONE));
	if (b->r->repeats_heads || b->r->litgpt) /* LitGPT: model.py 257 */
		return repeated(b, q, k, v, a);
	return op_attention(&b->t, q, k, v, a);
}

struct value build_attention(struct builder *b, enum model_tower tower, uint32_t block,
			     struct value q, struct value k, struct value v, uint64_t queries,
			     uint64_t keys)
{
	const struct model_numbers *n = &b->m->towers[tower];
	struct model_sizes s = model_sizes_of(b->m, tower, block);
	struct attention a = { .batch = b->batch,
			       .heads = s.heads / b->tp,
			       .kv_heads = (s.kv_heads ? s.kv_heads : s.heads) / b->tp,
			       .queries = queries,
			       .keys = keys,
			       .head_dim = s.head_dim,
			       .dropout = n->attention_dropout,
			       .causal = n->causal };

	return build_attention_of(b, tower, block, q, k, v, &a);
}

struct value build_enter(struct builder *b, struct value x)
{
	struct tape_param *p;

	if (b->leaves[0] == TAPE_NONE || !b->t.grad || b->t.failed)
		return x;
	b->leaf = !b->leaf;
	p = &b->t.params.at[b->leaves[b->leaf]];
	p->store = x.store;
	p->n = x.n;
	p->dtype = x.dtype;
	tape_hold(&b->t, x.store);
	x.param = b->leaves[b->leaf];
	x.grad = 1;
	return x;
}

void build_forget_leaf(struct builder *b)
{
	struct tape_param *p;

	if (b->leaves[0] == TAPE_NONE || b->t.failed)
		return;
	p = &b->t.params.at[b->leaves[!b->leaf]];
	tape_let(&b->t, p->store);
	tape_let(&b->t, p->grad);
	p->store = p->grad = TAPE_NONE;
}

void build_forget_shared(struct builder *b)
{
	tape_drop(&b->t, &b->mask);
	tape_drop(&b->t, &b->seen_cos);
	tape_drop(&b->t, &b->seen_sin);
	tape_drop(&b->t, &b->cos);
	tape_drop(&b->t, &b->sin);
	tape_drop(&b->t, &b->other_cos);
	tape_drop(&b->t, &b->other_sin);
	for (unsigned i = 0; i < MODEL_TOWERS; i++)
		tape_drop(&b->t, &b->bias[i]);
	tape_drop(&b->t, &b->cross_bias);
	tape_drop(&b->t, &b->encoded);
	tape_drop(&b->t, &b->targets);
}

/* The block as a place: by the first of its modules. */
static uint32_t home_of(const struct builder *b, uint32_t block)
{
	const uint32_t *roles = &b->module_of[b->tower][(size_t)(block + 1) * MODEL_ROLES];

	for (unsigned i = 0; i < MODEL_ROLES; i++)
		if (roles[i])
			return PLAN_IN_BLOCK(roles[i] - 1);
	return 0;
}

/* A block of any tower, also when it is run again while another tower's are: MODEL_BLOCKS numbers a tower. */
static struct value run_block(void *self, uint32_t at, struct value x)
{
	struct builder *b = self;
	uint32_t home = b->t.home;

	b->tower = (enum model_tower)(at / MODEL_BLOCKS);
	b->sequence = x.n / b->batch / b->m->towers[b->tower].hidden * (b->rows_shared ? b->tp : 1);
	b->t.home = home_of(b, at % MODEL_BLOCKS);
	x = build_learned_keep(b, b->blocks[b->tower](b, at % MODEL_BLOCKS, x));
	b->t.home = home;
	return x;
}

struct value build_blocks(struct builder *b, enum model_tower tower, tape_again_fn *block,
			  struct value x)
{
	struct tape *t = &b->t;
	int selective = b->r->checkpointing == PLAN_CHECKPOINT_SELECTIVE;
	int again = selective || b->r->checkpointing == PLAN_CHECKPOINT_FULL ||
		    (b->r->checkpointing == PLAN_CHECKPOINT_VISION && tower == MODEL_VISION);
	uint64_t every = b->r->checkpoint_every ? b->r->checkpoint_every : 1;
	uint64_t begin = 0, end = b->m->towers[tower].layers;

	t->again = run_block;
	t->again_self = b;
	t->selective = (uint8_t)(selective && b->r->selects_ops ? TAPE_SELECTS_OPS : selective);
	b->blocks[tower] = block;
	if (tower == MODEL_TEXT && b->pipe) {
		begin = b->first_block;
		end = b->end_block;
	}
	for (uint32_t i = (uint32_t)begin; i < end; i++) {
		uint32_t at = (uint32_t)tower * MODEL_BLOCKS + i;

		if (tower == MODEL_TEXT)
			x = build_unit_begin(b, i, x);
		tape_set(t, &x,
			 again && i % every == b->r->checkpoint_from ? tape_checkpoint(t, at, x)
								     : run_block(b, at, x));
		if (tower == MODEL_TEXT)
			x = build_deepen(b, i, build_unit_end(b, i, x));
		else if (tower == MODEL_VISION)
			build_look_inside(b, i, x);
	}
	t->selective = 0;
	return x;
}
