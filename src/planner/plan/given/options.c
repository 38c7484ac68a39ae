/* Options to a recipe: names by table. */
#include "plan/plan.h"

#include "option_rows.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * Where an option stands in the recipe; what it is called and where it stands in the options the header says.  `recorded`
 * knows those that say what a step is.
 */
static const struct option {
	const char *name;
	enum { TEXT, NUMBER, FLAG } kind;
	bool of_step;
	size_t from;              /* in struct plim_plan_options; of a FLAG its bit */
	size_t to;                /* in struct plan_recipe; NOWHERE: read elsewhere */
	const char *what;         /* of a TEXT that is one of: */
	const char *const *names; /* ... NULL: it is more than a name */
	unsigned n;
} options[] = {
#define NOWHERE SIZE_MAX
#define ONE_OF(of_step, field, to, what, names, n)                                             \
	{                                                                                      \
		PLAN_NAME_##field, TEXT, of_step, AT(field), offsetof(struct plan_recipe, to), \
			what, names, n                                                         \
	}
#define COPIED(of_step, field, to)                                                               \
	{                                                                                        \
		PLAN_NAME_##field, NUMBER, of_step, AT(field), offsetof(struct plan_recipe, to), \
			NULL, NULL, 0                                                            \
	}
#define IS(bit, to)                                                                             \
	{                                                                                       \
		PLAN_NAME_##bit, FLAG, true, PLIM_PLAN_##bit, offsetof(struct plan_recipe, to), \
			NULL, NULL, 0                                                           \
	}
#define ELSEWHERE(kind, field)                                                   \
	{                                                                        \
		PLAN_NAME_##field, kind, true, AT(field), NOWHERE, NULL, NULL, 0 \
	}
/* Of the run, but not of what `recorded` says. */
#define OF_RUN(kind, field)                                                       \
	{                                                                         \
		PLAN_NAME_##field, kind, false, AT(field), NOWHERE, NULL, NULL, 0 \
	}
#define AT(field) offsetof(struct plim_plan_options, field)
	COPIED(true, batch, batch),
	COPIED(true, sequence, sequence),
	COPIED(true, target_sequence, target_sequence),
	ONE_OF(true, precision, precision, "precision", plan_precision_names, PLAN_PRECISIONS),
	ONE_OF(true, optimizer, optimizer, "optimizer", plan_optimizer_names, PLAN_OPTIMIZERS),
	ONE_OF(true, attention, attention, "attention", plan_attention_names, PLAN_ATTENTIONS),
	ELSEWHERE(TEXT, checkpointing),
	ONE_OF(true, quantize, quantize, "quantization", plan_quantize_names, PLAN_QUANTIZES),
	ONE_OF(true, loss, loss, "loss", plan_loss_names, PLAN_LOSSES),
	COPIED(true, loss_chunk, loss_chunk),
	COPIED(true, accumulate, accumulate),
	COPIED(true, lora_rank, lora_rank),
	COPIED(true, image_size, image_size),
	COPIED(false, steps, steps),
	COPIED(false, eval_batch, eval_batch),
	COPIED(false, new_tokens, new_tokens),
	COPIED(false, beams, beams),
	ONE_OF(false, task, task, "task", plan_task_names, PLAN_TASKS),
	ONE_OF(true, cache, cache, "cache", plan_cache_names, PLAN_CACHES),
	IS(PADDED, padded),
	IS(NO_CLIP, no_clip),
	IS(DORA, dora),
	ONE_OF(true, freeze, freeze, "part to freeze", plan_freeze_names, PLAN_FREEZES),
	IS(NARROW_ADAPTERS, narrow_adapters),
	IS(OLD_BITSANDBYTES, old_bitsandbytes),
	IS(LITGPT, litgpt),
	IS(OPTIMIZER_IN_BACKWARD, in_backward),
	ELSEWHERE(TEXT, liger),
	IS(KEEP_OUTPUTS, keep_outputs),
	IS(NO_CACHE, no_cache),
	ELSEWHERE(NUMBER, gpus),
	ELSEWHERE(TEXT, parallel),
	ELSEWHERE(NUMBER, tensor_parallel),
	ELSEWHERE(NUMBER, pipeline_parallel),
	ELSEWHERE(NUMBER, micro_batches),
	ELSEWHERE(NUMBER, stage),
	ONE_OF(true, schedule, schedule, "schedule", plan_schedule_names, PLAN_SCHEDULES),
	IS(SEQUENCE_PARALLEL, sequence_parallel),
	ONE_OF(true, activations, activations, "offload of activations", plan_activations_names,
	       PLAN_ACTIVATIONS),
	ONE_OF(true, optimizer_on, optimizer_on, "place of the optimizer", plan_place_names,
	       PLAN_PLACES),
	ONE_OF(true, parameters_on, parameters_on, "place of parameters", plan_place_names,
	       PLAN_PLACES),
	ONE_OF(true, load, load, "way to load", plan_load_names, PLAN_LOADS),
	ONE_OF(false, save, save, "way to save", plan_save_names, PLAN_SAVES),
	OF_RUN(TEXT, lora_targets),
	OF_RUN(TEXT, lora_dropout),
	OF_RUN(NUMBER, longest),
	{ PLAN_NAME_GROUPED, FLAG, false, PLIM_PLAN_GROUPED, NOWHERE, NULL, NULL, 0 },
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

void plan_settle_counts(struct plim_plan_options *o)
{
	o->batch = o->batch ? o->batch : 1;
	o->accumulate = o->accumulate ? o->accumulate : 1;
	o->gpus = o->gpus ? o->gpus : 1;
}

static const void *field_of(const struct plim_plan_options *o, const struct option *row)
{
	return (const char *)o + row->from;
}

void plan_add_known(char known[PLAN_KNOWN], const char *name)
{
	size_t used = strlen(known);

	snprintf(known + used, PLAN_KNOWN - used, "%s%s", used ? ", " : "", name);
}

/*
 * Values as other tools write them: Transformers' TrainingArguments and from_pretrained, Lightning's Trainer, DeepSpeed.
 * What 16 bits mean depends on the task: training keeps fp32 weights under autocast, everything else loads them so.
 */
static const struct {
	const char *option, *alias;
	const char *trains, *runs; /* the name here, in training and elsewhere */
} aliases[] = {
	{ "precision", "bf16", "bf16-autocast", "bf16-pure" },
	{ "precision", "fp16", "fp16-autocast", "bf16-pure" },
	{ "precision", "bf16-mixed", "bf16-autocast", "bf16-autocast" },
	{ "precision", "16-mixed", "fp16-autocast", "fp16-autocast" },
	{ "precision", "bf16-true", "bf16-pure", "bf16-pure" },
	{ "precision", "bfloat16", "bf16-pure", "bf16-pure" },
	{ "precision", "float16", "bf16-pure", "bf16-pure" },
	{ "precision", "half", "bf16-pure", "bf16-pure" },
	{ "precision", "float32", "fp32", "fp32" },
	{ "precision", "32-true", "fp32", "fp32" },
	{ "precision", "no", "fp32", "fp32" },
	{ "optimizer", "adam", "adamw", "adamw" }, /* the same states */
	{ "optimizer", "adam8bit", "adamw-8bit", "adamw-8bit" },
	{ "optimizer", "adamw8bit", "adamw-8bit", "adamw-8bit" },
	{ "optimizer", "adamw_torch", "adamw", "adamw" },
	{ "optimizer", "adamw_torch_fused", "adamw-fused", "adamw-fused" },
	{ "optimizer", "adamw_torch_8bit", "adamw-ao-8bit", "adamw-ao-8bit" },
	{ "optimizer", "adamw_torch_4bit", "adamw-ao-4bit", "adamw-ao-4bit" },
	{ "optimizer", "ao_adamw_8bit", "adamw-ao-8bit", "adamw-ao-8bit" },
	{ "optimizer", "ao_adamw_4bit", "adamw-ao-4bit", "adamw-ao-4bit" },
	{ "optimizer", "adamw_bnb_8bit", "adamw-8bit", "adamw-8bit" },
	{ "optimizer", "adamw_8bit", "adamw-8bit", "adamw-8bit" },
	{ "optimizer", "paged_adamw", "adamw-paged", "adamw-paged" },
	{ "optimizer", "paged_adamw_32bit", "adamw-paged", "adamw-paged" },
	{ "optimizer", "paged_adamw_8bit", "adamw-paged-8bit", "adamw-paged-8bit" },
	{ "attention", "flash_attention_2", "flash", "flash" },
	{ "attention", "flash_attn", "flash", "flash" },
	{ "quantize", "4", "nf4", "nf4" },
	{ "quantize", "8", "int8", "int8" },
	{ "quantize", "4bit", "nf4", "nf4" },
	{ "quantize", "fp4", "nf4", "nf4" },
	{ "quantize", "bitsandbytes", "nf4", "nf4" },
	{ "quantize", "8bit", "int8", "int8" },
	{ "task", "training", "train", "train" },
	{ "task", "inference", "infer", "infer" },
	{ "task", "generation", "generate", "generate" },
	{ "parallel", "fsdp", "fsdp2", "fsdp2" },
	{ "parallel", "full_shard", "fsdp1", "fsdp1" },
	{ "parallel", "full_shard auto_wrap", "fsdp1", "fsdp1" },
	{ "parallel", "shard_grad_op", "fsdp1-zero2", "fsdp1-zero2" },
	{ "parallel", "shard_grad_op auto_wrap", "fsdp1-zero2", "fsdp1-zero2" },
	{ "parallel", "multi_gpu", "ddp", "ddp" },
	{ "parallel", "zero-2", "zero2", "zero2" },
	{ "parallel", "zero-3", "zero3", "zero3" },
	{ "parallel", "deepspeed_stage_1", "zero1", "zero1" },
	{ "parallel", "deepspeed_stage_2", "zero2", "zero2" },
	{ "parallel", "deepspeed_stage_3", "zero3", "zero3" },
};

const char *plan_value(const char *option, const char *given, bool trains)
{
	for (size_t i = 0; given && i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcmp(aliases[i].option, option) && !strcasecmp(aliases[i].alias, given))
			return trains ? aliases[i].trains : aliases[i].runs;
	return given;
}

bool plan_says_autocast_alone(const char *precision, bool trains)
{
	static const char *const words[] = { "bf16", "fp16", "bf16-mixed", "16-mixed" };

	for (size_t i = 0; trains && precision && i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcasecmp(words[i], precision))
			return true;
	return false;
}

static enum plim_status choose_option(const struct option *row, const char *given, unsigned *out,
				      struct plim_err *err)
{
	char known[PLAN_KNOWN] = "";

	for (unsigned i = 0; given && i < row->n; i++) {
		if (!strcasecmp(given, row->names[i])) {
			*out = i;
			return PLIM_OK;
		}
		plan_add_known(known, row->names[i]);
	}
	if (given && row->to == offsetof(struct plan_recipe, optimizer))
		return err_set(
			err, PLIM_E_ARG,
			"optimizer '%s' is not planned; planned are %s; a script with another "
			"is traced (plan -- python train.py)",
			given, known);
	return given ? err_set(err, PLIM_E_ARG, "unknown %s '%s'; known are %s", row->what, given,
			       known)
		     : PLIM_OK;
}

/* What an option says as it stands. */
static enum plim_status read_plain(struct plan_recipe *r, const struct plim_plan_options *o,
				   struct plim_err *err)
{
	const char *task = plan_value("task", o->task, true);
	bool trains = !task || !strcmp(task, plan_task_names[PLAN_TRAIN]);
	enum plim_status st = PLIM_OK;

	for (const struct option *row = options; !st && row < options + OPTIONS; row++) {
		void *to;
		const char *given;

		if (row->to == NOWHERE)
			continue;
		to = (char *)r + row->to;
		if (row->kind == NUMBER)
			*(uint64_t *)to = *(const uint64_t *)field_of(o, row);
		else if (row->kind == FLAG)
			*(bool *)to = o->flags & row->from;
		if (row->kind != TEXT)
			continue;
		given = *(const char *const *)field_of(o, row);
		st = choose_option(row, plan_value(row->name, given, trains), to, err);
	}
	return st;
}

/* Is it a value that the option has, or one that is checked where it is read? */
static bool has_value(const struct option *row, const char *value)
{
	const char *known = plan_value(row->name, value, true);

	for (unsigned i = 0; i < row->n; i++)
		if (!strcasecmp(row->names[i], known))
			return true;
	return !row->n;
}

static const struct option *option_named(const char *name)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (!strcmp(name, options[i].name))
			return &options[i];
	return NULL;
}

bool plan_option_is_flag(const char *name)
{
	const struct option *row = option_named(name);

	return row && row->kind == FLAG;
}

enum plan_given plan_give_option(struct plim_plan_options *o, const char *name, const char *value)
{
	const struct option *row = option_named(name);
	uint64_t n, *number;
	const char **text;
	char *end;

	if (!row)
		return PLAN_NOT_TAKEN;
	if (row->kind == FLAG) {
		o->flags |= (uint32_t)row->from;
		return PLAN_TAKEN;
	}
	if (row->kind == TEXT) {
		text = (const char **)(void *)((char *)o + row->from);
		if (!has_value(row, value))
			return PLAN_NOT_TAKEN;
		if (*text)
			return strcmp(*text, value) ? PLAN_TAKEN_BEFORE : PLAN_TAKEN;
		*text = value;
		return PLAN_TAKEN;
	}
	n = strtoull(value, &end, 10);
	number = (uint64_t *)(void *)((char *)o + row->from);
	if (!isdigit((unsigned char)*value) || *end || !n || n > MODEL_SIZE)
		return PLAN_NOT_TAKEN;
	if (*number)
		return *number == n ? PLAN_TAKEN : PLAN_TAKEN_BEFORE;
	*number = n;
	return PLAN_TAKEN;
}

static enum plim_status unknown_option(const char *name, struct plim_err *err)
{
	char known[PLAN_KNOWN] = "";

	for (size_t i = 0; i < OPTIONS; i++)
		if (options[i].of_step)
			plan_add_known(known, options[i].name);
	return err_set(err, PLIM_E_ARG, "options.recorded knows %s, not '%s'", known, name);
}

enum plim_status plan_tell_option(struct plim_plan_options *o, const char *name, const char *value,
				  struct plim_err *err)
{
	const struct option *row = options;
	char *end;
	uint64_t n;
	void *at;

	while (row < options + OPTIONS && (!row->of_step || strcmp(name, row->name) != 0))
		row++;
	if (row == options + OPTIONS)
		return unknown_option(name, err);
	at = (char *)o + row->from;
	if (row->kind == TEXT) {
		*(const char **)at = value;
		return PLIM_OK;
	}
	n = strtoull(value, &end, 10);
	if (!isdigit((unsigned char)*value) || *end || (row->kind == FLAG ? n > 1 : !n))
		return err_set(err, PLIM_E_ARG, "options.recorded takes a number for %s, not '%s'",
			       name, value);
	if (row->kind == FLAG)
		o->flags = n ? o->flags | (uint32_t)row->from : o->flags & ~(uint32_t)row->from;
	else
		*(uint64_t *)at = n;
	if (row->from == offsetof(struct plim_plan_options, image_size))
		o->image_width = o->image_grid = o->image_grid_width = 0;
	return PLIM_OK;
}

/* none, full, every:N, vision, selective; torchtitan counts every Nth from the Nth (selective:N) */
static enum plim_status read_checkpointing(struct plan_recipe *r, const char *text,
					   struct plim_err *err)
{
	static const char *const names[PLAN_CHECKPOINTINGS] = { "none", "full", "vision",
								"selective" };
	char *end;

	if (!text)
		return PLIM_OK;
	if (!strncmp(text, "every:", 6)) {
		r->checkpointing = PLAN_CHECKPOINT_FULL;
		r->checkpoint_every = strtoull(text + 6, &end, 10);
		if (r->checkpoint_every && !*end && isdigit((unsigned char)text[6]))
			return PLIM_OK;
	}
	if (!strcmp(text, "selective:op")) {
		r->checkpointing = PLAN_CHECKPOINT_SELECTIVE;
		r->selects_ops = true;
		return PLIM_OK;
	}
	if (!strncmp(text, "selective:", 10) && isdigit((unsigned char)text[10])) {
		r->checkpointing = PLAN_CHECKPOINT_FULL;
		r->checkpoint_every = strtoull(text + 10, &end, 10);
		if (r->checkpoint_every && !*end) {
			r->checkpoint_from = r->checkpoint_every - 1;
			return PLIM_OK;
		}
	}
	for (unsigned i = 0; i < PLAN_CHECKPOINTINGS; i++)
		if (!strcmp(text, names[i])) {
			r->checkpointing = (enum plan_checkpointing)i;
			return PLIM_OK;
		}
	return err_set(err, PLIM_E_ARG,
		       "unknown checkpointing '%s'; known are none, full, every:N, vision, "
		       "selective, selective:N, selective:op",
		       text);
}

/* Liger's kernels: all of them, or a list. */
static enum plim_status read_liger(struct plan_recipe *r, const char *text, bool *loss,
				   struct plim_err *err)
{
	static const struct {
		const char *name;
		unsigned bits;
	} kernels[] = { { "all", PLAN_LIGER_ALL | PLAN_LIGER_LOSS },
			{ "loss", PLAN_LIGER_LOSS },
			{ "norm", PLAN_LIGER_NORM },
			{ "rope", PLAN_LIGER_ROPE },
			{ "swiglu", PLAN_LIGER_GATE } };
	unsigned bits = 0, before;

	for (const char *at = text; at; at = *at ? at + 1 : NULL) {
		size_t n = strcspn(at, ",");

		before = bits;
		for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
			if (strlen(kernels[i].name) == n && !strncmp(kernels[i].name, at, n))
				bits |= kernels[i].bits;
		if (bits == before)
			return err_set(err, PLIM_E_ARG,
				       "unknown kernel of Liger's '%.*s'; known are all, or some "
				       "of loss, norm, rope, swiglu",
				       (int)n, at);
		at += n;
		if (!*at)
			break;
	}
	r->liger = bits & PLAN_LIGER_ALL;
	*loss = bits & PLAN_LIGER_LOSS;
	return PLIM_OK;
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
	if (!st && (o->residents || o->flags & PLIM_PLAN_MAX_RESIDENT) &&
	    (!o->component_bytes || o->component_bytes > MODEL_SIZE * 8))
		st = err_set(err, PLIM_E_ARG, "resident components need their size");
	for (uint64_t i = 0; !st && i < o->residents; i++)
		st = vec_push(&h->mem, &h->extra, o->component_bytes, err);
	h->extra_used = h->extra.n;
	/* as many as the search may try */
	for (uint64_t i = 0; !st && o->flags & PLIM_PLAN_MAX_RESIDENT && i < RESIDENTS_MOST; i++)
		st = vec_push(&h->mem, &h->extra, o->component_bytes, err);
	h->recipe.extra_bytes = h->extra.at;
	h->recipe.extra_count = h->extra_used;
	return st;
}

/* What is said of adapters, of 4 bits or of new tokens where there are none is a slip. */
static enum plim_status check_slips(const struct plan_recipe *r, struct plim_err *err)
{
	if (r->dora && !r->lora_rank)
		return err_set(err, PLIM_E_ARG,
			       "DoRA is a kind of adapters: options.lora_rank RANK next to it");
	if (r->narrow_adapters && !r->lora_rank)
		return err_set(err, PLIM_E_ARG,
			       "the dtype of adapters is said where there are some: "
			       "options.lora_rank RANK next to it");
	if (r->old_bitsandbytes && r->quantize != PLAN_NF4 && r->quantize != PLAN_NF4_DOUBLE)
		return err_set(err, PLIM_E_ARG,
			       "old releases of bitsandbytes differ in weights of 4 bits: "
			       "options.quantize nf4 next to it");
	if (r->litgpt && r->task != PLAN_TRAIN)
		return err_set(err, PLIM_E_ARG, "of LitGPT only training is planned");
	if (r->task != PLAN_GENERATE && (r->new_tokens || r->beams > 1))
		return err_set(err, PLIM_E_ARG,
			       "new tokens and beams are generated: options.task generate next "
			       "to it");
	return PLIM_OK;
}

/*
 * LitGPT 0.4.13 (commit 00af8b0d), litgpt/finetune/: the loop's own loss of logits in their dtype, which have a name until the
 * next ones come (full.py 255, lora.py 304), adapters in bf16-true (lora.py 197), bitsandbytes 0.42.0 (pyproject.toml 41) and
 * its PagedAdamW (utils.py 552, 556).
 */
static void take_litgpt(struct plan_recipe *r, const struct plim_plan_options *o)
{
	if (!o->loss)
		r->loss = PLAN_LOSS_NARROW;
	r->keep_outputs = true;
	r->narrow_adapters = r->lora_rank > 0;
	r->old_bitsandbytes = r->quantize == PLAN_NF4 || r->quantize == PLAN_NF4_DOUBLE;
	if (r->quantize && !o->optimizer)
		r->optimizer = PLAN_ADAMW_PAGED;
}

/* "0.05"; any rate but 0 takes the same. */
static enum plim_status read_dropout(struct plan_recipe *r, const char *text, struct plim_err *err)
{
	size_t n = text ? strlen(text) : 0;

	if (n && (n != strspn(text, "0123456789.e-") || !isdigit((unsigned char)text[n - 1])))
		return err_set(err, PLIM_E_ARG, "a rate of dropout is like 0.05, not '%s'", text);
	r->lora_dropout = n && strcspn(text, "123456789") < strcspn(text, "e");
	r->lora_dropout_rate = text;
	return PLIM_OK;
}

#define EVAL_PASSES 2                   /* the first one takes memory that later ones find */
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
		uint64_t n, least, most;
	} sizes[] = {
		{ "batch", o->batch, 1, PLAN_MOST_batch },
		{ "sequence", o->sequence, 1, PLAN_MOST_sequence },
		{ "number of micro-batches", o->accumulate, 1, PLAN_MOST_accumulate },
		{ "number of steps", o->steps, 1, 1000 },
		{ "number of GPUs", o->gpus, 1, PLAN_MOST_gpus },
		{ "rank of adapters", o->lora_rank, 0, PLAN_MOST_lora_rank },
		{ "chunk of the loss", o->loss_chunk, 0, PLAN_MOST_loss_chunk },
		{ "side of an image", o->image_size, 0, PLAN_MOST_image_size },
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i].n < sizes[i].least || sizes[i].n > sizes[i].most)
			return err_set(err, PLIM_E_ARG,
				       "a %s of %llu is not possible (%llu to %llu)", sizes[i].name,
				       (unsigned long long)sizes[i].n,
				       (unsigned long long)sizes[i].least,
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
	    (r->optimizer == PLAN_ADAMW_8BIT || plan_is_torchao(r) || plan_is_paged(r)))
		return err_set(err, PLIM_E_ARG, "optimizer %s steps on the GPU only",
			       plan_optimizer_names[r->optimizer]);
	if (r->task == PLAN_TRAIN && plan_refuses_shards(r))
		return err_set(
			err, PLIM_E_ARG,
			"optimizer %s does not step on what FSDP 2 shards: bitsandbytes has no "
			"rule for DTensors; options.parallel fsdp1, or options.optimizer "
			"adamw-ao-8bit",
			plan_optimizer_names[r->optimizer]);
	if (plan_is_torchao(r) && (r->in_backward || plan_is_zero(r) || plan_is_deepspeed(r)))
		return err_set(err, PLIM_E_ARG, "optimizer %s is not planned %s",
			       plan_optimizer_names[r->optimizer],
			       r->in_backward ? "in the backward pass" : "under DeepSpeed");
	if (r->activations == PLAN_OFFLOAD_CHECKPOINTS && !r->checkpointing)
		return err_set(
			err, PLIM_E_ARG,
			"there are no checkpointed blocks to offload: add options.checkpointing");
	if (r->parameters_on != PLAN_ON_GPU && !sharded)
		return err_set(err, PLIM_E_ARG,
			       "only sharded parameters are offloaded: options.parallel fsdp2 "
			       "or fsdp1 (with one GPU, too)");
	if (r->parallel == PLAN_ZERO3 && r->parameters_on && !plan_is_deepspeed(r))
		return err_set(
			err, PLIM_E_ARG,
			"ZeRO-3 offloads parameters next to the optimizer: add "
			"options.offload_optimizer; alone FSDP does: options.parallel fsdp2");
	if (r->optimizer_on == PLAN_ON_NVME && !sharded)
		return err_set(
			err, PLIM_E_ARG,
			"DeepSpeed offloads to NVMe with ZeRO-3 only: options.parallel zero3");
	return PLIM_OK;
}

enum plim_status plan_read_options(struct plim_plan *p, const struct plim_plan_options *o,
				   struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	struct plan_recipe *r = &h->recipe;
	enum plim_status st = check_sizes(o, err);
	bool liger_loss = false;

	plan_recipe_init(r);
	r->precision = PLAN_BF16_AUTOCAST;
	h->lora_names.n = h->extra.n = h->lengths.n = 0;
	text_release(&h->lora_targets);
	text_init(&h->lora_targets, &h->mem, NULL);
	if (!st)
		st = read_plain(r, o, err);
	if (!st)
		st = read_checkpointing(r, o->checkpointing, err);
	if (!st)
		st = read_liger(r, o->liger, &liger_loss, err);
	if (!st)
		st = read_targets(h, o->lora_targets, err);
	if (!st)
		st = read_dropout(r, o->lora_dropout, err);
	r->lora_alpha = r->lora_rank ? h->lora_alpha : NULL;
	r->partly_read = h->partly_read;
	r->needs_less = h->needs_less;
	r->foreign = h->foreign;
	r->zero = h->zero;
	r->image_width = o->image_width;
	r->eval_passes = o->eval_batch ? EVAL_PASSES : 0;
	if (!st)
		st = check_slips(r, err);
	if (r->litgpt)
		take_litgpt(r, o);
	if (liger_loss && !o->loss)
		r->loss = PLAN_LOSS_LIGER;
	if (o->loss_chunk && !o->loss)
		r->loss = PLAN_LOSS_CHUNKED;
	if (!st)
		st = plan_read_parallel(r, o, err);
	if (!st)
		st = check_places(r, err);
	if (!st && plan_is_deepspeed(r) && plan_is_sharded(r))
		r->parallel = PLAN_ZERO3; /* the optimizer's offload is DeepSpeed's */
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

/* ---- what a trace was made with ---- */

static const char *asked_for(const struct plan_texts *asked, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < asked->n; i++)
		if (!strncmp(asked->at[i], name, n) && asked->at[i][n] == '=')
			return asked->at[i] + n + 1;
	return NULL;
}

static enum plim_status not_traced(const char *name, const char *given, const char *traced,
				   struct plim_err *err)
{
	if (traced)
		return err_set(
			err, PLIM_E_UNSUPPORTED,
			"the trace was made with --%s %s, not %s: trace it again (plan --trace)",
			name, traced, given);
	return err_set(
		err, PLIM_E_UNSUPPORTED,
		"the trace was made without --%s: trace it again with it (plan --trace), if a "
		"trace does that",
		name);
}

/* Is an option another than that of the trace?  What is not given is as it was traced. */
static enum plim_status check_option(const struct plim_plan_options *o,
				     const struct plim_plan_options *unset,
				     const struct option *row, const struct plan_texts *asked,
				     bool trains, struct plim_err *err)
{
	const char *traced = asked_for(asked, row->name), *given, *value;
	char number[24];

	if (row->kind == FLAG)
		return !(o->flags & row->from) || traced ? PLIM_OK
							 : not_traced(row->name, "", NULL, err);
	if (row->kind == NUMBER) {
		uint64_t n = *(const uint64_t *)field_of(o, row);

		if (n == *(const uint64_t *)field_of(unset, row) ||
		    (traced && n == strtoull(traced, NULL, 10)))
			return PLIM_OK;
		(void)snprintf(number, sizeof(number), "%llu", (unsigned long long)n);
		return not_traced(row->name, number, traced, err);
	}
	given = *(const char *const *)field_of(o, row);
	value = plan_value(row->name, given, trains);
	if (!given || (traced && !strcmp(value, plan_value(row->name, traced, trains))))
		return PLIM_OK;
	return not_traced(row->name, value, traced, err);
}

enum plim_status plan_check_asked(const struct plim_plan_options *o, const struct plan_texts *asked,
				  struct plim_err *err)
{
	const struct option others[] = {
		ELSEWHERE(TEXT, lengths),
		ELSEWHERE(NUMBER, residents),
		{ PLAN_NAME_extra_tensors, NUMBER, true, AT(extra_tensor_count), NOWHERE, NULL,
		  NULL, 0 },
		ELSEWHERE(NUMBER, image_grid),
		ELSEWHERE(NUMBER, layers),
		ELSEWHERE(NUMBER, hidden),
		ELSEWHERE(NUMBER, heads),
	};
	const char *of_trace = asked_for(asked, "task");
	const char *task = o->task ? plan_value("task", o->task, true) : of_trace;
	bool trains = !task || !strcmp(task, plan_task_names[PLAN_TRAIN]);
	struct plim_plan_options unset;
	enum plim_status st = PLIM_OK;

	plim_plan_options_init(&unset);
	plan_settle_counts(&unset);
	for (size_t i = 0; !st && i < OPTIONS; i++)
		st = check_option(o, &unset, &options[i], asked, trains, err);
	for (size_t i = 0; !st && i < sizeof(others) / sizeof(others[0]); i++)
		st = check_option(o, &unset, &others[i], asked, trains, err);
	return st;
}
