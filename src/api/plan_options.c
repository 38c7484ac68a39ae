/* Options to a recipe: names by table. */
#include "plan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static enum plim_status choose(const char *what, const char *given, const char *const *names,
			       size_t n, unsigned *out, struct plim_err *err)
{
	char known[400];
	size_t used = 0;

	*out = 0;
	if (!given)
		return PLIM_OK;
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(given, names[i])) {
			*out = (unsigned)i;
			return PLIM_OK;
		}
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
					 names[i]);
	}
	return err_set(err, PLIM_E_ARG, "unknown %s '%s'; known are %s", what, given, known);
}

/* none, full, every:N, vision, selective */
static enum plim_status read_checkpointing(struct plan_recipe *r, const char *text,
					   struct plim_err *err)
{
	static const char *const names[PLAN_CHECKPOINTINGS] = { "none", "full", "vision",
								"selective" };
	unsigned k = 0;
	char *end;

	if (text && !strncmp(text, "every:", 6)) {
		r->checkpointing = PLAN_CHECKPOINT_FULL;
		r->checkpoint_every = strtoull(text + 6, &end, 10);
		if (r->checkpoint_every && !*end && isdigit((unsigned char)text[6]))
			return PLIM_OK;
	}
	if (text && !choose("checkpointing", text, names, PLAN_CHECKPOINTINGS, &k, NULL)) {
		r->checkpointing = (enum plan_checkpointing)k;
		return PLIM_OK;
	}
	return text ? err_set(err, PLIM_E_ARG,
			      "unknown checkpointing '%s'; known are none, full, every:N, vision, "
			      "selective",
			      text)
		    : PLIM_OK;
}

static enum plim_status read_targets(struct plim_plan_hidden *h, const char *text,
				     struct plim_err *err)
{
	enum plim_status st;

	if (!text)
		return PLIM_OK;
	text_puts(&h->lora_targets, text);
	st = text_status(&h->lora_targets, err);
	for (char *at = st ? NULL : h->lora_targets.at; !st && at && *at;) {
		char *comma = strchr(at, ',');

		if (comma)
			*comma = 0;
		if (*at)
			st = vec_push(&h->mem, &h->lora_names, (const char *)at, err);
		at = comma ? comma + 1 : NULL;
	}
	h->recipe.lora_targets = h->lora_names.at;
	h->recipe.lora_target_count = h->lora_names.n;
	return st;
}

/* "40x1024x1024:fp32" to bytes. */
static enum plim_status read_tensor(const char *text, uint64_t *bytes, struct plim_err *err)
{
	static const struct {
		const char *name;
		unsigned bytes;
	} dtypes[] = { { "fp32", 4 },  { "bf16", 2 },  { "fp16", 2 }, { "fp64", 8 },
		       { "int64", 8 }, { "int32", 4 }, { "int8", 1 }, { "bool", 1 } };
	const char *at = text, *colon = strchr(text, ':');
	uint64_t n = 1;
	unsigned width = colon ? 0 : 4;

	for (size_t i = 0; colon && i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		if (!strcmp(colon + 1, dtypes[i].name))
			width = dtypes[i].bytes;
	while (width && isdigit((unsigned char)*at)) {
		char *end;
		uint64_t size = strtoull(at, &end, 10);

		if (__builtin_mul_overflow(n, size, &n))
			break;
		if ((!*end || end == colon) && n && n < MODEL_SIZE) {
			*bytes = n * width;
			return PLIM_OK;
		}
		if (*end != 'x')
			break;
		at = end + 1;
	}
	return err_set(err, PLIM_E_ARG,
		       "a tensor is sizes and a dtype, like 40x1024x1024:fp32, not '%s'", text);
}

#define RESIDENTS_MOST 100000

static enum plim_status read_extra(struct plim_plan_hidden *h, const struct plim_plan_options *o,
				   struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < o->extra_tensor_count; i++) {
		uint64_t bytes = 0;

		st = read_tensor(o->extra_tensors[i], &bytes, err);
		if (!st)
			st = vec_push(&h->mem, &h->extra, bytes, err);
	}
	if (!st && o->residents > RESIDENTS_MOST)
		st = err_set(err, PLIM_E_ARG, "more than %d components", RESIDENTS_MOST);
	if (!st && o->residents && (!o->component_bytes || o->component_bytes > MODEL_SIZE * 8))
		st = err_set(err, PLIM_E_ARG, "resident components need their size");
	for (uint64_t i = 0; !st && i < o->residents; i++)
		st = vec_push(&h->mem, &h->extra, o->component_bytes, err);
	h->recipe.extra_bytes = h->extra.at;
	h->recipe.extra_count = h->extra.n;
	return st;
}

#define TOKENS_MOST ((uint64_t)1 << 26) /* of a sample */
#define LENGTHS_MOST 1000

/* "512,2048,640" */
static enum plim_status read_lengths(struct plim_plan_hidden *h, const struct plim_plan_options *o,
				     struct plim_err *err)
{
	const char *at = o->lengths;
	enum plim_status st = PLIM_OK;
	char *end;

	while (!st && at && *at) {
		uint64_t n = strtoull(at, &end, 10);

		if (!isdigit((unsigned char)*at) || (*end && *end != ',') || !n || n > TOKENS_MOST)
			return err_set(err, PLIM_E_ARG,
				       "lengths are numbers of tokens, like 512,2048, not '%s'",
				       o->lengths);
		if (h->lengths.n == LENGTHS_MOST)
			return err_set(err, PLIM_E_ARG, "more than %d lengths", LENGTHS_MOST);
		st = vec_push(&h->mem, &h->lengths, n, err);
		at = *end ? end + 1 : end;
	}
	h->recipe.lengths = h->lengths.at;
	h->recipe.length_count = h->lengths.n;
	if (h->recipe.steps < h->lengths.n)
		h->recipe.steps = h->lengths.n; /* each is seen once at least */
	h->recipe.longest = o->longest;
	h->recipe.grouped = o->flags & PLIM_PLAN_GROUPED;
	h->recipe.padded = o->flags & PLIM_PLAN_PADDED;
	if (!st && o->longest && (o->longest < o->sequence || o->longest > TOKENS_MOST))
		st = err_set(err, PLIM_E_ARG,
			     "the longest batch has %llu tokens a sample, others %llu",
			     (unsigned long long)o->longest, (unsigned long long)o->sequence);
	if (!st && o->lengths && o->flags & PLIM_PLAN_MAX_SEQUENCE)
		st = err_set(err, PLIM_E_ARG,
			     "the longest sequence is not looked for where lengths are given");
	return st;
}

static enum plim_status check_sizes(const struct plim_plan_options *o, struct plim_err *err)
{
	const struct {
		const char *name;
		uint64_t n, most;
	} sizes[] = {
		{ "batch", o->batch, 1 << 20 },
		{ "sequence", o->sequence, 1 << 26 },
		{ "accumulation", o->accumulate, 1 << 16 },
		{ "number of steps", o->steps, 1000 },
		{ "number of GPUs", o->gpus, 1 << 20 },
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (!sizes[i].n || sizes[i].n > sizes[i].most)
			return err_set(err, PLIM_E_ARG, "a %s of %llu is not possible (1 to %llu)",
				       sizes[i].name, (unsigned long long)sizes[i].n,
				       (unsigned long long)sizes[i].most);
	return PLIM_OK;
}

/* Combinations that no framework has. */
static enum plim_status check_places(const struct plan_recipe *r, struct plim_err *err)
{
	int sharded = plan_is_sharded(r);

	if (r->task != PLAN_TRAIN && (r->activations || r->optimizer_on || r->parameters_on))
		return err_set(err, PLIM_E_ARG, "only training is offloaded");
	if ((r->optimizer_on || r->parameters_on) &&
	    (r->optimizer == PLAN_ADAMW_8BIT || r->optimizer == PLAN_ADAMW_PAGED))
		return err_set(err, PLIM_E_ARG, "optimizer %s steps on the GPU only",
			       plan_optimizer_names[r->optimizer]);
	if (r->activations == PLAN_OFFLOAD_CHECKPOINTS && !r->checkpointing)
		return err_set(err, PLIM_E_ARG,
			       "there are no checkpointed blocks to offload: add --checkpointing");
	if (r->parameters_on != PLAN_ON_GPU && !sharded)
		return err_set(err, PLIM_E_ARG,
			       "parameters are offloaded where they are sharded: --parallel fsdp2 "
			       "or fsdp1 (with one GPU, too)");
	if (r->parallel == PLAN_ZERO3 && (r->optimizer_on || r->parameters_on))
		return err_set(err, PLIM_E_ARG,
			       "the offload of ZeRO-3 is planned with --parallel fsdp2");
	if (r->optimizer_on == PLAN_ON_NVME && !sharded)
		return err_set(err, PLIM_E_ARG,
			       "DeepSpeed offloads to NVMe with ZeRO-3 only: --parallel fsdp2, "
			       "which it is planned as");
	return PLIM_OK;
}

static enum plim_status read_places(struct plan_recipe *r, const struct plim_plan_options *o,
				    struct plim_err *err)
{
	unsigned activations, optimizer, parameters = 0, save = 0;
	enum plim_status st = choose("offload of activations", o->activations,
				     plan_activations_names, PLAN_ACTIVATIONS, &activations, err);

	if (!st)
		st = choose("place of the optimizer", o->optimizer_on, plan_place_names,
			    PLAN_PLACES, &optimizer, err);
	if (!st)
		st = choose("place of parameters", o->parameters_on, plan_place_names, PLAN_PLACES,
			    &parameters, err);
	if (!st)
		st = choose("way to save", o->save, plan_save_names, PLAN_SAVES, &save, err);
	if (st)
		return st;
	r->activations = (enum plan_activations)activations;
	r->optimizer_on = (enum plan_place)optimizer;
	r->parameters_on = (enum plan_place)parameters;
	r->save = (enum plan_save)save;
	return check_places(r, err);
}

enum plim_status plan_read_options(struct plim_plan *p, const struct plim_plan_options *o,
				   struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	struct plan_recipe *r = &h->recipe;
	unsigned task = 0, precision = 0, optimizer = 0, attention = 0, loss = 0, quantize = 0,
		 cache = 0;
	enum plim_status st = check_sizes(o, err);

	if (!st)
		st = choose("task", o->task, plan_task_names, PLAN_TASKS, &task, err);
	if (!st)
		st = choose("precision", o->precision, plan_precision_names, PLAN_PRECISIONS,
			    &precision, err);
	if (!st)
		st = choose("optimizer", o->optimizer, plan_optimizer_names, PLAN_OPTIMIZERS,
			    &optimizer, err);
	if (!st)
		st = choose("attention", o->attention, plan_attention_names, PLAN_ATTENTIONS,
			    &attention, err);
	if (!st)
		st = choose("loss", o->loss, plan_loss_names, PLAN_LOSSES, &loss, err);
	if (!st)
		st = choose("quantization", o->quantize, plan_quantize_names, PLAN_QUANTIZES,
			    &quantize, err);
	if (!st)
		st = choose("cache", o->cache, plan_cache_names, PLAN_CACHES, &cache, err);
	plan_recipe_init(r);
	h->lora_names.n = h->extra.n = h->lengths.n = 0;
	text_release(&h->lora_targets);
	text_init(&h->lora_targets, &h->mem, NULL);
	if (!st)
		st = read_checkpointing(r, o->checkpointing, err);
	if (!st)
		st = read_targets(h, o->lora_targets, err);
	r->task = (enum plan_task)task;
	r->precision = o->precision ? (enum plan_precision)precision : PLAN_BF16_AUTOCAST;
	r->optimizer = (enum plan_optimizer)optimizer;
	r->attention = (enum plan_attention)attention;
	r->batch = o->batch;
	r->sequence = o->sequence;
	r->accumulate = o->accumulate;
	r->steps = o->steps;
	r->image_size = o->image_size;
	r->image_width = o->image_width;
	r->beams = o->beams;
	r->cache = (enum plan_cache)cache;
	r->lora_rank = o->lora_rank;
	r->no_clip = o->flags & PLIM_PLAN_NO_CLIP;
	r->keep_outputs = o->flags & PLIM_PLAN_KEEP_OUTPUTS;
	r->no_cache = o->flags & PLIM_PLAN_NO_CACHE;
	r->eval_passes = o->eval_batch ? 2 : 0;
	r->eval_batch = o->eval_batch;
	r->new_tokens = o->new_tokens;
	r->loss = o->loss_chunk && !o->loss ? PLAN_LOSS_CHUNKED : (enum plan_loss)loss;
	r->loss_chunk = o->loss_chunk;
	r->quantize = (enum plan_quantize)quantize;
	if (!st)
		st = plan_read_parallel(r, o, err);
	if (!st)
		st = read_places(r, o, err);
	if (!st)
		st = read_lengths(h, o, err);
	if (!st)
		st = read_extra(h, o, err);
	if (!st)
		st = allocator_rules_parse(o->settings ? o->settings : "", o->torch, &h->rules,
					   err);
	if (!st && h->rules.not_modelled)
		st = err_set(err, PLIM_E_ARG,
			     "settings '%s': cudaMallocAsync is the driver's own allocator, whose "
			     "rules are not known",
			     o->settings);
	return st;
}
