#include "plan/plan.h"

#define ADAPTER_RANK 16
#define SHORTEST 256

static bool trains(const struct plan_choice *c)
{
	return c->recipe.task == PLAN_TRAIN;
}

static bool expandable_segments(struct plan_choice *c)
{
	if (c->settings)
		return false; /* the user's own stay as they are */
	c->settings = "expandable_segments:True";
	return true;
}

/* In one process a GPU; where settings were given, they stay. */
static bool own_allocator(struct plan_choice *c)
{
	if (c->own_allocator || (c->settings && strcmp(c->settings, "expandable_segments:True")))
		return false;
	c->own_allocator = true;
	return true;
}

static bool drop_outputs(struct plan_choice *c)
{
	bool kept = c->recipe.keep_outputs;

	c->recipe.keep_outputs = false;
	return kept;
}

static bool smaller_eval(struct plan_choice *c)
{
	if (!c->recipe.eval_passes || c->recipe.eval_batch < 2)
		return false;
	c->recipe.eval_batch /= 2;
	return true;
}

static bool mixed_precision(struct plan_choice *c)
{
	if (!trains(c) || c->recipe.precision != PLAN_FP32)
		return false;
	c->recipe.precision = PLAN_BF16_AUTOCAST;
	return true;
}

static bool fused_attention(struct plan_choice *c)
{
	if (c->recipe.attention != PLAN_EAGER || c->recipe.eager_only)
		return false;
	c->recipe.attention = PLAN_SDPA;
	return true;
}

static bool fused_optimizer(struct plan_choice *c)
{
	if (!trains(c) || c->recipe.optimizer != PLAN_ADAMW)
		return false;
	c->recipe.optimizer = PLAN_ADAMW_FUSED;
	return true;
}

/* Sharing out costs nothing but messages, where there is someone to share with. */
static bool share_rung(struct plan_choice *c, enum plan_parallel parallel)
{
	static const uint8_t shared[PLAN_PARALLELS] = {
		[PLAN_ZERO1] = 1, [PLAN_FSDP2_ZERO2] = 2, [PLAN_FSDP1_ZERO2] = 2, [PLAN_ZERO2] = 2,
		[PLAN_FSDP1] = 3, [PLAN_FSDP2] = 3,       [PLAN_ZERO3] = 3,
	};
	uint64_t copies = c->recipe.gpus / c->recipe.tp / c->recipe.pp;

	if (!trains(c) || copies < 2 || c->recipe.pp > 1 || c->recipe.optimizer_on ||
	    shared[c->recipe.parallel] >= shared[parallel])
		return false;
	c->recipe.parallel = parallel;
	return !plan_refuses_shards(&c->recipe);
}

static bool share_states(struct plan_choice *c)
{
	return share_rung(c, PLAN_ZERO1);
}

static bool share_gradients(struct plan_choice *c)
{
	return share_rung(c, PLAN_FSDP2_ZERO2);
}

static bool share_all(struct plan_choice *c)
{
	return share_rung(c, PLAN_FSDP2);
}

static bool chunked_loss(struct plan_choice *c)
{
	if (!trains(c) || c->recipe.loss != PLAN_LOSS_WHOLE)
		return false;
	c->recipe.loss = PLAN_LOSS_CHUNKED;
	return true;
}

static bool group_lengths(struct plan_choice *c)
{
	if (!trains(c) || !c->recipe.longest || c->recipe.grouped)
		return false;
	c->recipe.grouped = true;
	return true;
}

/* Layers as well, twice as far each time; as many samples per step as before. */
static bool share_layers(struct plan_choice *c)
{
	struct plan_recipe *r = &c->recipe;
	uint64_t copies = r->gpus / r->tp / r->pp;

	if (!trains(c) || r->pp > 1 || copies < 2 || copies % 2 || r->accumulate > 1 << 15)
		return false;
	r->tp *= 2;
	r->accumulate *= 2;
	if (copies == 2)
		r->parallel = PLAN_ALONE;
	return true;
}

static bool trains_another(const struct plan_choice *c)
{
	return c->recipe.parts == PLAN_PARTS_MEANS || c->recipe.parts == PLAN_PARTS_COMPARED;
}

static bool halve(struct plan_choice *c, bool sharded)
{
	if (!trains(c) || c->recipe.batch < 2 || c->recipe.batch % 2 ||
	    plan_is_sharded(&c->recipe) != sharded)
		return false;
	c->recipe.batch /= 2;
	c->recipe.accumulate *= 2;
	return true;
}

static bool half_batch(struct plan_choice *c)
{
	return !trains_another(c) && halve(c, false);
}

/* Each micro-batch gathers all weights again. */
static bool half_batch_sharded(struct plan_choice *c)
{
	return !trains_another(c) && halve(c, true);
}

/* Of a loss that is not a sum over samples. */
static bool half_batch_changed(struct plan_choice *c)
{
	return trains_another(c) && halve(c, plan_is_sharded(&c->recipe));
}

/* Without gradients the rest of the samples waits for the next pass. */
static bool fewer_at_once(struct plan_choice *c)
{
	if (trains(c) || c->recipe.batch < 2)
		return false;
	c->recipe.batch /= 2;
	return true;
}

static bool checkpoint(struct plan_choice *c, uint64_t every)
{
	bool more = c->recipe.checkpointing != PLAN_CHECKPOINT_FULL ||
		    c->recipe.checkpoint_every > every;

	if (!trains(c) || !more)
		return false;
	c->recipe.checkpointing = PLAN_CHECKPOINT_FULL;
	c->recipe.checkpoint_every = every;
	return true;
}

static bool checkpoint_selective(struct plan_choice *c)
{
	if (!trains(c) || (c->recipe.checkpointing != PLAN_CHECKPOINT_NONE &&
			   c->recipe.checkpointing != PLAN_CHECKPOINT_VISION))
		return false;
	c->recipe.checkpointing = PLAN_CHECKPOINT_SELECTIVE;
	return true;
}

static bool has_checkpoint_keys(const struct plan_choice *c)
{
	return !c->recipe.transformers || c->recipe.transformers >= PLAN_CHECKPOINT_KEYS_FROM;
}

static bool checkpoint_half(struct plan_choice *c)
{
	return has_checkpoint_keys(c) && checkpoint(c, 2);
}

static bool checkpoint_all(struct plan_choice *c)
{
	return checkpoint(c, 1);
}

static bool is_adamw(const struct plan_choice *c)
{
	enum plan_optimizer o = c->recipe.optimizer;

	return trains(c) && (o == PLAN_ADAMW || o == PLAN_ADAMW_FUSED || o == PLAN_ADAMW_LOOP);
}

static bool paged_optimizer(struct plan_choice *c)
{
	if (!is_adamw(c) || c->recipe.optimizer_on || c->recipe.parameters_on)
		return false;
	c->recipe.optimizer = PLAN_ADAMW_PAGED;
	return !plan_refuses_shards(&c->recipe);
}

static bool offload_checkpoints(struct plan_choice *c)
{
	if (!trains(c) || c->recipe.checkpointing != PLAN_CHECKPOINT_FULL ||
	    c->recipe.activations || !has_checkpoint_keys(c))
		return false;
	c->recipe.activations = PLAN_OFFLOAD_CHECKPOINTS;
	return true;
}

/* DeepSpeed's, with an Adam of its own. */
static bool offload_optimizer(struct plan_choice *c)
{
	bool adam = is_adamw(c) || plan_is_paged(&c->recipe);
	bool others = plan_is_sharded(&c->recipe) && c->recipe.parallel != PLAN_ZERO3;

	if (!adam || others || c->recipe.optimizer_on)
		return false;
	c->recipe.optimizer = PLAN_ADAMW;
	c->recipe.optimizer_on = PLAN_ON_HOST;
	if (c->recipe.parallel == PLAN_ZERO2 && c->recipe.precision == PLAN_BF16_AUTOCAST)
		c->recipe.precision = PLAN_BF16_PURE; /* DeepSpeed's bf16 */
	return true;
}

/* FSDP's, on one GPU as well; the optimizer steps where the parameters are. */
static bool offload_parameters(struct plan_choice *c)
{
	struct plan_recipe *r = &c->recipe;

	if (!trains(c) || r->parameters_on || r->precision == PLAN_FP16_AUTOCAST ||
	    r->optimizer == PLAN_ADAMW_8BIT || plan_is_torchao(r) || r->parallel == PLAN_ZERO3)
		return false;
	if (!plan_is_sharded(r))
		r->parallel = PLAN_FSDP2;
	if (plan_is_paged(r))
		r->optimizer = PLAN_ADAMW;
	r->optimizer_on = PLAN_ON_GPU;
	r->parameters_on = PLAN_ON_HOST;
	return true;
}

/* DeepSpeed's, next to the optimizer's. */
static bool offload_all(struct plan_choice *c)
{
	struct plan_recipe *r = &c->recipe;

	if (r->parallel != PLAN_ZERO3 || r->parameters_on ||
	    !(is_adamw(c) || plan_is_paged(&c->recipe)))
		return false;
	r->optimizer = PLAN_ADAMW;
	r->optimizer_on = r->parameters_on = PLAN_ON_HOST;
	return true;
}

static bool optimizer_8_bit(struct plan_choice *c)
{
	if (!is_adamw(c) && !plan_is_paged(&c->recipe))
		return false;
	if (c->recipe.optimizer_on || c->recipe.parameters_on)
		return false; /* bitsandbytes steps on the GPU */
	c->recipe.optimizer = PLAN_ADAMW_8BIT;
	return !plan_refuses_shards(&c->recipe);
}

/* Adapters stay fp32 (PEFT's autocast_adapter_dtype); what is frozen loses no update. */
static bool freeze(struct plan_choice *c, enum plan_precision before)
{
	struct plan_recipe *r = &c->recipe;

	if (!trains(c) || !r->lora_rank || r->quantize || r->precision != before ||
	    plan_is_fsdp1(r))
		return false;
	r->precision = PLAN_BF16_LOADED;
	return true;
}

static bool frozen_bf16(struct plan_choice *c)
{
	return freeze(c, PLAN_BF16_AUTOCAST);
}

static bool frozen_bf16_and_autocast(struct plan_choice *c)
{
	return freeze(c, PLAN_FP32);
}

static bool pure_bf16(struct plan_choice *c)
{
	if (!trains(c) || c->recipe.lora_rank || c->recipe.precision == PLAN_BF16_PURE ||
	    c->recipe.precision == PLAN_BF16_LOADED)
		return false;
	c->recipe.precision = PLAN_BF16_PURE;
	return true;
}

static bool master_weights(struct plan_choice *c)
{
	enum plan_precision p = c->recipe.precision;

	if (!trains(c) || c->recipe.lora_rank || plan_is_sharded(&c->recipe) ||
	    (p != PLAN_FP32 && p != PLAN_BF16_AUTOCAST))
		return false;
	c->recipe.precision = PLAN_BF16_MASTER;
	return true;
}

static bool adafactor(struct plan_choice *c)
{
	if (!trains(c) || c->recipe.optimizer == PLAN_ADAFACTOR || c->recipe.optimizer == PLAN_SGD)
		return false;
	c->recipe.optimizer = PLAN_ADAFACTOR;
	return true;
}

static bool adapters(struct plan_choice *c)
{
	if (!trains(c) || c->recipe.lora_rank)
		return false;
	c->recipe.lora_rank = ADAPTER_RANK;
	return true;
}

static bool quantized_base(struct plan_choice *c)
{
	if (!trains(c) || !c->recipe.lora_rank || c->recipe.quantize != PLAN_NOT_QUANTIZED)
		return false;
	c->recipe.quantize = PLAN_NF4_DOUBLE;
	return true;
}

static bool quantized_scales(struct plan_choice *c)
{
	if (c->recipe.quantize != PLAN_NF4)
		return false;
	c->recipe.quantize = PLAN_NF4_DOUBLE;
	return true;
}

static bool quantized_adapters(struct plan_choice *c)
{
	if (!trains(c) || c->recipe.quantize == PLAN_NF4_DOUBLE || c->recipe.quantize == PLAN_NF4)
		return false;
	if (!c->recipe.lora_rank)
		c->recipe.lora_rank = ADAPTER_RANK;
	c->recipe.quantize = PLAN_NF4_DOUBLE;
	c->recipe.checkpointing = PLAN_CHECKPOINT_FULL;
	c->recipe.checkpoint_every = 1;
	return true;
}

static bool quantize(struct plan_choice *c, enum plan_quantize how)
{
	static const uint8_t bits[PLAN_QUANTIZES] = { 16, 4, 4, 8 };

	if (trains(c) || bits[c->recipe.quantize] <= bits[how])
		return false;
	c->recipe.quantize = how;
	return true;
}

static bool eight_bits(struct plan_choice *c)
{
	return quantize(c, PLAN_INT8);
}

static bool four_bits(struct plan_choice *c)
{
	return quantize(c, PLAN_NF4_DOUBLE);
}

static bool half_sequence(struct plan_choice *c)
{
	if (c->recipe.longest > c->recipe.sequence) {
		uint64_t half = c->recipe.longest / 2;

		c->recipe.longest = half > c->recipe.sequence ? half : c->recipe.sequence;
		return true;
	}
	if (c->recipe.sequence < 2 * (uint64_t)SHORTEST)
		return false;
	c->recipe.sequence /= 2;
	return true;
}

/*
 * In the order of their cost.  The times are rules of thumb: one more forward pass is about a third more work
 * (Transformers' and PyTorch's performance guides).
 */
const struct plan_rung plan_rungs[] = {
	{ "expandable segments", "none", false, false, false, false, false, expandable_segments },
	{ "Plimsoll's allocator", "a library in the job", false, false, false, false, true,
	  own_allocator },
	{ "outputs are not kept", "none", false, false, false, false, false, drop_outputs },
	{ "smaller evaluation batch", "none", false, true, false, false, false, smaller_eval },
	{ "smaller batch", "as many samples take more passes", false, true, false, false, false,
	  fewer_at_once },
	{ "bf16 autocast", "faster; products are rounded to bf16", false, false, true, false, false,
	  mixed_precision },
	{ "frozen weights in bf16 under the adapters", "faster; products are in bf16 anyway", false,
	  false, false, false, false, frozen_bf16 },
	{ "bf16 autocast, frozen weights in bf16", "faster; products are rounded to bf16", false,
	  false, false, false, false, frozen_bf16_and_autocast },
	{ "fused attention", "faster", false, false, true, false, false, fused_attention },
	{ "fused optimizer", "faster", false, false, false, false, false, fused_optimizer },
	{ "lengths grouped", "about none", false, false, false, false, false, group_lengths },
	{ "scales of 4-bit weights quantized, too", "about none; scales are rounded to 8 bits",
	  false, false, false, false, false, quantized_scales },
	{ "loss in chunks", "about none", false, false, false, false, false, chunked_loss },
	{ "optimizer states shared out, ZeRO-1", "about none", false, false, false, false, false,
	  share_states },
	{ "gradients and states shared out, FSDP not resharded", "about none", false, false, false,
	  false, false, share_gradients },
	{ "smaller micro-batch", "0 to 30 % slower, more for small parts", false, true, false,
	  false, false, half_batch },
	{ "checkpoint all but products and attention", "5 to 15 % slower", false, false, false,
	  false, false, checkpoint_selective },
	{ "checkpoint every second layer", "about 15 % slower", false, false, false, false, false,
	  checkpoint_half },
	{ "everything shared out, FSDP", "half as much again to send", false, false, false, false,
	  false, share_all },
	{ "checkpoint every layer", "20 to 35 % slower", false, false, false, false, false,
	  checkpoint_all },
	{ "smaller micro-batch", "each gathers all weights again: 10 to 50 % slower", false, true,
	  false, false, false, half_batch_sharded },
	{ "inputs of checkpointed layers in host memory", "5 to 20 % slower", false, false, false,
	  false, false, offload_checkpoints },
	{ "bf16 weights, fp32 copies in the optimizer", "about none; with DeepSpeed", false, false,
	  false, false, false, master_weights },
	{ "layers shared out, too, tensor parallelism", "sums in each layer: slow without NVLink",
	  false, true, false, true, false, share_layers },
	{ "paged optimizer states, in host memory", "10 to 100 % slower", false, false, false, true,
	  false, paged_optimizer },
	{ "optimizer and gradients in host memory, ZeRO-Offload", "10 to 100 % slower", false,
	  false, false, true, false, offload_optimizer },
	{ "parameters and optimizer in host memory, FSDP", "2 to 10 times slower", false, false,
	  false, true, false, offload_parameters },
	{ "parameters and optimizer in host memory, ZeRO-3", "2 to 10 times slower", false, false,
	  false, true, false, offload_all },
	{ "smaller micro-batch", "0 to 50 % slower", true, true, false, false, false,
	  half_batch_changed },
	{ "8-bit optimizer", "about none; states are rounded", true, false, false, false, false,
	  optimizer_8_bit },
	{ "weights in bf16", "faster; small updates are lost", true, false, false, false, false,
	  pure_bf16 },
	{ "Adafactor", "another optimizer", true, false, false, false, false, adafactor },
	{ "LoRA of rank 16", "another method: the weights stay as they are", true, false, false,
	  false, false, adapters },
	{ "4-bit weights under the adapters, QLoRA",
	  "10 to 40 % slower; the frozen weights are rounded", true, false, false, false, false,
	  quantized_base },
	{ "QLoRA: 4-bit weights under LoRA",
	  "checkpointed, 10 to 40 % slower; the weights are rounded", true, false, false, false,
	  false, quantized_adapters },
	{ "8-bit weights", "slower; the weights are rounded", true, false, false, false, false,
	  eight_bits },
	{ "4-bit weights", "slower; the weights are rounded", true, false, false, false, false,
	  four_bits },
	{ "half the sequence", "samples are cut", true, true, false, false, false, half_sequence },
};
const size_t plan_rung_count = sizeof(plan_rungs) / sizeof(plan_rungs[0]);
