/* plimsoll plan: a model and a recipe, built, measured and judged. */
#include "plan.h"

#include "facts/facts.h"
#include "out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUDA context, kernels and libraries beside PyTorch's own memory, as in whatif.c. */
#define ALLOWANCE_BYTES ((uint64_t)896 << 20)
#define LIMIT_STEP PLAN_LIMIT_STEP

void plim_plan_options_init(struct plim_plan_options *o)
{
	*o = (struct plim_plan_options){ .size = sizeof(*o),
					 .batch = 1,
					 .sequence = 1024,
					 .accumulate = 1,
					 .steps = 2,
					 .gpus = 1,
					 .memory_bytes = PLIM_UNKNOWN,
					 .allowance_bytes = ALLOWANCE_BYTES };
}

void plim_plan_free(struct plim_plan *p)
{
	struct plim_plan_hidden *h;

	if (!p)
		return;
	h = p->hidden;
	plan_free(h->plan);
	for (size_t i = 0; i < h->strings.n; i++)
		free(h->strings.at[i]);
	vec_release(&h->mem, &h->strings);
	vec_release(&h->mem, &h->assumptions);
	vec_release(&h->mem, &h->defaults);
	vec_release(&h->mem, &h->lora_names);
	vec_release(&h->mem, &h->extra);
	vec_release(&h->mem, &h->lengths);
	text_release(&h->lora_targets);
	mem_free(&h->mem, p->phases, p->phase_count, sizeof(*p->phases));
	mem_free(&h->mem, p->ladder, p->ladder ? PLAN_LADDER_STEPS : 0, sizeof(*p->ladder));
	mem_free(&h->mem, p->sweep, p->sweep_count, sizeof(*p->sweep));
	mem_free(&h->mem, p->peak.range_bytes, p->peak.range_count, sizeof(uint64_t));
	model_release(&h->quantized);
	model_release(&h->model);
	free(h);
	free(p);
}

const char *plan_string(struct plim_plan *p, struct plim_err *err, const char *fmt, ...)
{
	struct plim_plan_hidden *h = p->hidden;
	char *s = NULL;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vasprintf(&s, fmt, args);
	va_end(args);
	if (n < 0) {
		err_set(err, PLIM_E_NOMEM, "out of memory");
		return NULL;
	}
	if (vec_push(&h->mem, &h->strings, s, err)) {
		free(s);
		return NULL;
	}
	return s;
}

/* ---- where it is to run ---- */

static enum plim_status find_limit(struct plim_plan *p, const struct plim_plan_options *o,
				   struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	const struct facts_gpu *gpu;

	p->limit_bytes = o->memory_bytes;
	if (o->memory_bytes == PLIM_UNKNOWN && o->gpu) {
		st = facts_find_gpu(o->gpu, "--memory", &gpu, err);
		if (!st && o->allowance_bytes >= gpu->total_low_bytes)
			st = err_set(err, PLIM_E_ARG,
				     "an allowance of %llu bytes leaves nothing of a %s",
				     (unsigned long long)o->allowance_bytes, gpu->name);
		if (!st)
			p->limit_bytes = gpu->total_low_bytes - o->allowance_bytes;
	}
	p->hidden->bounded = p->limit_bytes != PLIM_UNKNOWN;
	p->hidden->bounds = (struct allocator_bounds){
		.limit_bytes = p->hidden->bounded ? p->limit_bytes : UINT64_MAX,
		.capacity_bytes = UINT64_MAX,
	};
	return st;
}

/* ---- runs ---- */

/* The model with its weights as a recipe keeps them. */
static enum plim_status model_for(struct plim_plan *p, enum plan_quantize how,
				  const struct model **out, struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	enum plim_status st = PLIM_OK;

	*out = how ? &h->quantized : &h->model;
	if (!how || h->quantize == how)
		return PLIM_OK;
	model_release(&h->quantized);
	h->quantize = PLAN_NOT_QUANTIZED;
	st = model_copy(&h->quantized, &h->model, err);
	if (!st)
		st = model_quantize(&h->quantized, (enum model_quantization)(how - 1), err);
	if (!st)
		h->quantize = how;
	return st;
}

enum plim_status plan_program(struct plim_plan *p, const struct plan_recipe *r, struct plan **out,
			      struct plim_err *err)
{
	const struct model *m;
	enum plim_status st = model_for(p, r->quantize, &m, err);

	*out = NULL;
	return st ? st : plan_build(&p->hidden->mem, m, r, out, err);
}

/* Does the plan go to its end under a limit, wherever the driver puts segments? */
static enum plim_status survives(struct plim_plan *p, struct plan *plan, uint64_t limit, int *does,
				 struct plan_result *result, struct plim_err *err)
{
	struct allocator_bounds bounds = { .limit_bytes = limit, .capacity_bytes = UINT64_MAX };
	enum plim_status st = plan_measure(plan, &p->hidden->rules, &bounds, result, err);

	*does = !st && result->died == TRACE_NONE;
	return st;
}

enum plim_status plan_find_needed(struct plim_plan *p, struct plan *plan, uint64_t *low,
				  uint64_t *high, struct plim_err *err)
{
	struct plan_result result;
	enum plim_status st = PLIM_OK;
	int does;

	/* *low is refused or the allocated peak, *high is known to do */
	while (!st && *high > *low && *high - *low > LIMIT_STEP) {
		uint64_t middle = *low + (*high - *low) / 2 / LIMIT_STEP * LIMIT_STEP;

		if (middle == *low)
			middle += LIMIT_STEP;
		st = survives(p, plan, middle, &does, &result, err);
		if (does)
			*high = middle;
		else
			*low = middle;
	}
	return st;
}

enum plim_status plan_try(struct plim_plan *p, const struct plan_recipe *r, struct plan_trial *out,
			  struct plim_err *err)
{
	struct plan_result result;
	struct plan *plan;
	enum plim_status st = plan_program(p, r, &plan, err);

	*out = (struct plan_trial){ 0 };
	if (!st)
		st = plan_measure(plan, &p->hidden->rules, &p->hidden->bounds, &result, err);
	if (!st) {
		out->allocated_bytes = result.peak_allocated_bytes;
		out->reserved_bytes = result.peak_reserved_bytes;
		out->request_bytes = result.died_request_bytes;
	}
	if (!st && result.died != TRACE_NONE) {
		snprintf(out->name, sizeof(out->name), "%s", plan->phases.at[result.died].name);
		out->died = out->name;
	}
	plan_free(plan);
	return st;
}

/* ---- what is told ---- */

static void take_categories(struct plim_plan_categories *c, const uint64_t *bytes,
			    uint64_t rounding)
{
	*c = (struct plim_plan_categories){
		.parameter_bytes = bytes[TIMELINE_PARAMETER],
		.gradient_bytes = bytes[TIMELINE_GRADIENT],
		.optimizer_state_bytes = bytes[TIMELINE_OPTIMIZER_STATE],
		.activation_bytes = bytes[TIMELINE_ACTIVATION],
		.input_bytes = bytes[TIMELINE_INPUT],
		.workspace_bytes = bytes[TIMELINE_WORKSPACE],
		.temporary_bytes = bytes[TIMELINE_TEMPORARY],
		.autograd_detail_bytes = bytes[TIMELINE_AUTOGRAD_DETAIL],
		.kv_cache_bytes = bytes[TIMELINE_KV_CACHE],
		.buffer_bytes = bytes[TIMELINE_BUFFER],
		.other_bytes = bytes[TIMELINE_UNKNOWN],
		.rounding_bytes = rounding,
	};
}

static enum plim_status take_phases(struct plim_plan *p, struct plim_err *err)
{
	struct plan *plan = p->hidden->plan;

	p->phases = mem_new(&p->hidden->mem, plan->phases.n, sizeof(*p->phases), err);
	if (!p->phases)
		return mem_status(err);
	p->phase_count = plan->phases.n;
	for (size_t i = 0; i < plan->phases.n; i++) {
		const struct plan_phase *f = &plan->phases.at[i];

		p->phases[i] = (struct plim_plan_phase){
			.phase = f->name,
			.allocated_bytes = f->allocated_bytes,
			.peak_allocated_bytes = f->peak_allocated_bytes,
			.peak_reserved_bytes = f->peak_reserved_bytes,
		};
	}
	return PLIM_OK;
}

/* Optimizers of bitsandbytes and ways to share that no measured run has, architectures that are not known. */
static int is_assumed(const struct plim_plan *p)
{
	const struct plan_recipe *r = &p->hidden->recipe;

	return p->model.guessed || r->optimizer >= PLAN_ADAMW_8BIT || r->quantize ||
	       r->loss == PLAN_LOSS_LIGER || r->precision > PLAN_BF16_PURE || r->padded ||
	       r->wide_logits || r->copies_logits || r->repeats_heads ||
	       (r->parallel != PLAN_ALONE && r->gpus != 2);
}

/* How far needed_bytes may be off, in thousandths: below, above. */
static void uncertainty(const struct plim_plan *p, unsigned *below, unsigned *above)
{
	int shared = p->hidden->recipe.parallel != PLAN_ALONE;

	*below = p->model.guessed ? 150 : shared ? 130 : is_assumed(p) ? 50 : 10;
	*above = p->model.guessed ? 250 : shared ? 100 : is_assumed(p) ? 50 : 15;
}

static enum plim_status take_peak(struct plim_plan *p, const struct plan_result *result,
				  struct plim_err *err)
{
	uint64_t bytes[TIMELINE_CATEGORIES] = { 0 }, rounding;
	uint64_t low = result->peak_allocated_bytes / LIMIT_STEP * LIMIT_STEP;
	uint64_t high = result->peak_reserved_bytes;
	unsigned below, above;
	enum plim_status st = take_phases(p, err);

	plan_compose(p->hidden->plan, result->peak_phase, bytes, &rounding);
	take_categories(&p->peak.categories, bytes, rounding);
	p->peak.allocated_bytes = result->peak_allocated_bytes;
	p->peak.reserved_bytes = result->peak_reserved_bytes;
	p->peak.phase = p->hidden->plan->phases.at[result->peak_phase].name;
	p->peak.basis = is_assumed(p) ? "assumed" : "derived";
	if (!st)
		st = plan_find_needed(p, p->hidden->plan, &low, &high, err);
	p->peak.needed_bytes = high;
	uncertainty(p, &below, &above);
	p->peak.range_bytes = st ? NULL : mem_new(&p->hidden->mem, 2, sizeof(uint64_t), err);
	if (!p->peak.range_bytes)
		return st ? st : mem_status(err);
	p->peak.range_count = 2;
	p->peak.range_bytes[0] = high - high / 1000 * below;
	p->peak.range_bytes[1] = high + high / 1000 * above;
	return PLIM_OK;
}

static enum plim_status assume(struct plim_plan *p, const char *text, struct plim_err *err)
{
	return text ? vec_push(&p->hidden->mem, &p->hidden->assumptions, text, err)
		    : mem_status(err);
}

static const char *samples_of(const struct plan_recipe *r)
{
	if (r->padded)
		return "batches are padded to their longest sample, and attention is given a mask";
	if (r->grouped)
		return "the longest batch comes first and last; samples of a batch are alike, "
		       "without "
		       "padding";
	if (r->longest)
		return "the longest batch comes last; samples of a batch are alike, without "
		       "padding";
	if (r->length_count)
		return "samples of a step are all as long as each other, without padding";
	return "all samples are as long as the sequence, without padding";
}

static enum plim_status take_assumptions(struct plim_plan *p, const struct plim_plan_options *o,
					 struct plim_err *err)
{
	const struct plan_recipe *r = &p->hidden->recipe;
	enum plim_status st = PLIM_OK;

	if (p->model.guessed)
		st = assume(
			p,
			plan_string(p, err,
				    "architecture '%s' is not known: it is taken for one like %s",
				    p->hidden->model.declared, p->model.family),
			err);
	if (!st)
		st = assume(p,
			    "PyTorch 2.11, Transformers 5.17 on an H100: workspaces and attention "
			    "kernels differ on other cards",
			    err);
	for (size_t i = 0; !st && i < p->hidden->defaults.n; i++)
		st = assume(p, p->hidden->defaults.at[i], err);
	if (!st && !o->settings)
		st = assume(p, "the allocator's default settings", err);
	if (!st && r->task == PLAN_TRAIN)
		st = assume(p, samples_of(r), err);
	if (!st && o->gpu && o->memory_bytes == PLIM_UNKNOWN)
		st = assume(p,
			    plan_string(p, err,
					"%llu MiB of the card are not PyTorch's (context, kernels)",
					(unsigned long long)(o->allowance_bytes >> 20)),
			    err);
	p->assumptions = p->hidden->assumptions.at;
	p->assumption_count = p->hidden->assumptions.n;
	return st;
}

/* ---- the largest that fits, and several ---- */

static enum plim_status largest(struct plim_plan *p, uint64_t *size, struct plan_recipe *r,
				uint64_t most, uint64_t *out, struct plim_err *err)
{
	uint64_t does = 0, fails = most + 1;
	enum plim_status st = PLIM_OK;
	struct plan_trial trial;

	*size = 1;
	while (!st && fails - does > 1) {
		uint64_t next = fails > most ? (does ? does * 2 : 1) : does + (fails - does) / 2;

		*size = next > most ? most : next;
		st = plan_try(p, r, &trial, err);
		if (st)
			break;
		if (trial.died)
			fails = *size;
		else
			does = *size;
		if (does == most)
			break;
	}
	*out = does;
	return st;
}

#define MOST_BATCH 65536u
#define MOST_SEQUENCE (1u << 20)

static enum plim_status inverse(struct plim_plan *p, const struct plim_plan_options *o,
				struct plim_err *err)
{
	struct plan_recipe r = p->hidden->recipe;
	enum plim_status st = PLIM_OK;

	p->max_batch = p->max_sequence = PLIM_UNKNOWN;
	if (o->flags & (PLIM_PLAN_MAX_BATCH | PLIM_PLAN_MAX_SEQUENCE) && !p->hidden->bounded)
		return err_set(err, PLIM_E_ARG,
			       "what fits at most depends on the memory: give --memory or --gpu");
	if (o->flags & PLIM_PLAN_MAX_BATCH)
		st = largest(p, &r.batch, &r, MOST_BATCH, &p->max_batch, err);
	r = p->hidden->recipe;
	if (!st && o->flags & PLIM_PLAN_MAX_SEQUENCE)
		st = largest(p, &r.sequence, &r, MOST_SEQUENCE, &p->max_sequence, err);
	return st;
}

uint64_t plan_at_most(const struct plim_plan *p, uint64_t bytes)
{
	unsigned below, above;

	uncertainty(p, &below, &above);
	return bytes + bytes / 1000 * above;
}

static enum plim_status sweep_one(struct plim_plan *p, const struct plan_recipe *r,
				  struct plim_plan_sweep *row, struct plim_err *err)
{
	struct plan_result result;
	struct plan *plan = NULL;
	uint64_t low, high;
	enum plim_status st = plan_program(p, r, &plan, err);
	int does = 0;

	if (!st)
		st = survives(p, plan, UINT64_MAX, &does, &result, err);
	if (st) {
		plan_free(plan);
		return st;
	}
	low = result.peak_allocated_bytes / LIMIT_STEP * LIMIT_STEP;
	high = result.peak_reserved_bytes;
	*row = (struct plim_plan_sweep){ .batch = r->batch,
					 .sequence = r->sequence,
					 .allocated_bytes = result.peak_allocated_bytes,
					 .reserved_bytes = high };
	st = plan_find_needed(p, plan, &low, &high, err);
	row->needed_bytes = high;
	if (!st && p->hidden->bounded) {
		st = survives(p, plan, p->limit_bytes, &does, &result, err);
		row->fits = does && p->limit_bytes >= plan_at_most(p, high) ? "yes" : "no";
		if (!st && !does)
			row->dies_at = plan_string(p, err, "%s", plan->phases.at[result.died].name);
	}
	plan_free(plan);
	return st;
}

#define SWEEP_MAX 1000

static enum plim_status sweep(struct plim_plan *p, const char *text, struct plim_err *err)
{
	struct plan_recipe r = p->hidden->recipe;
	uint64_t *size = NULL;
	size_t count = 1;
	enum plim_status st = PLIM_OK;

	if (!text)
		return PLIM_OK;
	if (!strncmp(text, "batch=", 6))
		size = &r.batch;
	else if (!strncmp(text, "seq=", 4))
		size = &r.sequence;
	if (!size)
		return err_set(err, PLIM_E_ARG, "a sweep is batch=1,2,4 or seq=512,1024, not '%s'",
			       text);
	text = strchr(text, '=') + 1;
	for (const char *s = text; *s; s++)
		count += *s == ',';
	if (count > SWEEP_MAX)
		return err_set(err, PLIM_E_ARG, "a sweep takes %d sizes at most", SWEEP_MAX);
	p->sweep = mem_new(&p->hidden->mem, count, sizeof(*p->sweep), err);
	if (!p->sweep)
		return mem_status(err);
	p->sweep_count = count;
	for (size_t i = 0; !st && i < count; i++) {
		char *end;

		*size = strtoull(text, &end, 10);
		if (end == text || !*size || *size > 1 << 26 || (*end && *end != ','))
			return err_set(err, PLIM_E_ARG, "a sweep's sizes are numbers, not '%s'",
				       text);
		text = *end ? end + 1 : end;
		st = sweep_one(p, &r, &p->sweep[i], err);
	}
	return st;
}

/* ---- all of it ---- */

static enum plim_status read_model(struct plim_plan *p, const char *path,
				   const struct plim_plan_options *o, struct plim_err *err)
{
	struct model_numbers n = { .layers = o->layers,
				   .hidden = o->hidden,
				   .heads = o->heads,
				   .kv_heads = o->kv_heads,
				   .intermediate = o->intermediate,
				   .vocab = o->vocab };
	struct model *m = &p->hidden->model;
	struct model_totals totals, as_kept;
	const struct model *kept;
	enum plim_status st = path ? model_load(m, path, err) : model_by_numbers(m, &n, err);
	struct plan_recipe *r = &p->hidden->recipe;
	const struct ckpt_dtype *dtype;

	if (st)
		return st;
	st = plan_take_defaults(p, o, err);
	if (!st)
		st = model_for(p, r->quantize, &kept, err);
	if (st)
		return st;
	dtype = ckpt_dtype_of_torch(plan_is_half(r) ? "bfloat16" : "float32");
	model_get_totals(m, dtype, &totals);
	model_get_totals(kept, dtype, &as_kept);
	if (o->image_grid)
		r->image_size = o->image_grid * m->towers[MODEL_VISION].patch;
	p->model.family = m->family;
	p->model.guessed = m->guessed;
	p->model.parameters = totals.parameters;
	p->model.parameter_bytes = as_kept.parameter_bytes + as_kept.state_bytes;
	p->model.trainable = r->task == PLAN_TRAIN ? totals.trainable : 0;
	return PLIM_OK;
}

static enum plim_status judge(struct plim_plan *p, struct plim_err *err)
{
	struct plan_result result;
	enum plim_status st;
	int does;

	if (!p->hidden->bounded)
		return PLIM_OK;
	st = survives(p, p->hidden->plan, p->limit_bytes, &does, &result, err);
	/* what is only just enough is not called enough */
	p->hidden->fits = does && p->limit_bytes >= p->peak.range_bytes[1];
	p->fits = &p->hidden->fits;
	if (!st && !does) {
		p->dies_at = p->hidden->plan->phases.at[result.died].name;
		p->dies_request_bytes = result.died_request_bytes;
	}
	return st;
}

static enum plim_status plan_all(struct plim_plan *p, const char *path,
				 const struct plim_plan_options *o, struct plim_err *err)
{
	struct plan_result result;
	struct plim_plan_hidden *h = p->hidden;
	enum plim_status st = plan_read_options(p, o, err);
	int does;

	if (!st)
		st = find_limit(p, o, err);
	if (!st)
		st = read_model(p, path, o, err);
	if (!st)
		st = plan_program(p, &h->recipe, &h->plan, err);
	if (!st)
		st = survives(p, h->plan, UINT64_MAX, &does, &result, err);
	if (!st)
		st = take_peak(p, &result, err);
	if (!st && h->plan->host_bytes)
		p->host_bytes = h->plan->host_bytes;
	if (!st)
		st = judge(p, err);
	if (!st && h->bounded && !h->fits)
		st = plan_climb(p, o, err);
	if (!st)
		st = take_assumptions(p, o, err);
	if (!st)
		st = inverse(p, o, err);
	if (!st)
		st = sweep(p, o->sweep, err);
	return st;
}

enum plim_status plim_plan_open(const char *path, const struct plim_plan_options *options,
				struct plim_plan **out, struct plim_err *err)
{
	struct plim_plan_options o;
	struct plim_plan *p = calloc(1, sizeof(*p));
	enum plim_status st;

	*out = NULL;
	plim_plan_options_init(&o);
	if (options)
		o = *options;
	if (p)
		p->hidden = calloc(1, sizeof(*p->hidden));
	if (!p || !p->hidden) {
		free(p);
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	}
	mem_init(&p->hidden->mem, o.max_memory_bytes);
	model_init(&p->hidden->model, &p->hidden->mem);
	model_init(&p->hidden->quantized, &p->hidden->mem);
	text_init(&p->hidden->lora_targets, &p->hidden->mem, NULL);
	p->dies_request_bytes = p->host_bytes = PLIM_UNKNOWN;
	p->batch = o.batch;
	p->sequence = o.sequence;
	st = plan_all(p, path, &o, err);
	if (st)
		plim_plan_free(p);
	else
		*out = p;
	return st;
}

enum plim_status plim_plan_json(const struct plim_plan *p, plim_write_fn *write, void *ctx,
				struct plim_err *err)
{
	return out_json(&p->hidden->mem, "plan/1", &plan_table, p, write, ctx, err);
}

enum plim_status plim_plan_fields(int layout, plim_write_fn *write, void *ctx, struct plim_err *err)
{
	return out_fields(&plan_table, layout, write, ctx, err);
}
