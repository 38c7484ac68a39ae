/* plimsoll plan: a model and a recipe, built, measured and judged. */
#include "verbs/plan/plan.h"

#include "facts/facts.h"
#include "verbs/out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void plim_plan_options_init(struct plim_plan_options *o)
{
	*o = (struct plim_plan_options){ .size = sizeof(*o),
					 .batch = 1,
					 .accumulate = 1,
					 .steps = 2,
					 .gpus = 1,
					 .memory_bytes = PLIM_UNKNOWN,
					 .host_memory_bytes = PLIM_UNKNOWN,
					 .allowance_bytes = PLAN_ALLOWANCE_BYTES };
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
	vec_release(&h->mem, &h->doubts);
	vec_release(&h->mem, &h->defaults);
	vec_release(&h->mem, &h->lora_names);
	vec_release(&h->mem, &h->extra);
	arena_release(&h->arena);
	vec_release(&h->mem, &h->lengths);
	text_release(&h->lora_targets);
	mem_free(&h->mem, p->phases, p->phase_count, sizeof(*p->phases));
	mem_free(&h->mem, p->ladder, p->ladder ? PLAN_LADDER_STEPS : 0, sizeof(*p->ladder));
	mem_free(&h->mem, p->learned, p->learned ? PLAN_LEARNED_MOST : 0, sizeof(*p->learned));
	mem_free(&h->mem, p->sweep, p->sweep_count, sizeof(*p->sweep));
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
	const struct facts_gpu *gpu = p->hidden->gpu;
	uint64_t allowance = plan_allowance(&p->hidden->recipe, o);

	p->limit_bytes = o->memory_bytes;
	if (gpu && o->memory_bytes == PLIM_UNKNOWN) {
		if (allowance >= gpu->total_low_bytes)
			return err_set(err, PLIM_E_ARG,
				       "an allowance of %llu bytes leaves nothing of a %s",
				       (unsigned long long)allowance, gpu->name);
		p->limit_bytes = gpu->total_low_bytes - allowance;
	}
	p->hidden->bounded = p->limit_bytes != PLIM_UNKNOWN;
	p->hidden->bounds = (struct allocator_bounds){
		.limit_bytes = p->hidden->bounded ? p->limit_bytes : UINT64_MAX,
		.capacity_bytes = UINT64_MAX,
	};
	return PLIM_OK;
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

enum plim_status plan_try(struct plim_plan *p, const struct plan_recipe *r, uint64_t limit_bytes,
			  struct plan_trial *out, struct plim_err *err)
{
	struct allocator_bounds bounds = { .limit_bytes = limit_bytes,
					   .capacity_bytes = UINT64_MAX };
	struct plan_result result;
	struct plan *plan;
	enum plim_status st = plan_program(p, r, &plan, err);

	*out = (struct plan_trial){ 0 };
	if (!st)
		st = plan_measure(plan, &p->hidden->rules, &bounds, &result, err);
	if (!st) {
		out->allocated_bytes = result.peak_allocated_bytes;
		out->reserved_bytes = result.peak_reserved_bytes;
		out->request_bytes = result.died_request_bytes;
		out->trust = plan_trust(p, r, plan, plan->phases.n);
	}
	if (!st && result.died != TRACE_NONE) {
		snprintf(out->name, sizeof(out->name), "%s", plan->phases.at[result.died].name);
		out->died = out->name;
	}
	plan_free(plan);
	return st;
}

/* ---- how sure it is ---- */

struct plan_trust plan_trust(const struct plim_plan *p, const struct plan_recipe *r,
			     const struct plan *plan, size_t n)
{
	struct plan_trust t;

	plan_trust_of(&p->hidden->model, r, p->hidden->recordings ? &p->hidden->recorded : NULL,
		      plan->phases.at, n, &t);
	if (n > 1) { /* behind the load */
		t.less_bytes = p->hidden->less_bytes;
		t.more_bytes = p->hidden->more_bytes;
	}
	return t;
}

struct plim_interval plan_range(const struct plan_trust *t, uint64_t bytes)
{
	uint64_t range[2];

	plan_trust_range(t, bytes, range);
	return (struct plim_interval){ range[0], range[1] };
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
		struct plan_trust t = plan_trust(p, &p->hidden->recipe, plan, i + 1);

		p->phases[i] = (struct plim_plan_phase){
			.phase = f->name,
			.allocated_bytes = f->allocated_bytes,
			.allocated_peak_bytes = f->peak_allocated_bytes,
			.reserved_peak_bytes = f->peak_reserved_bytes,
			.allocated_peak_range_bytes = plan_range(&t, f->peak_allocated_bytes),
			.basis = plan_basis_names[t.basis],
			.host_bytes = f->host_bytes,
		};
	}
	return PLIM_OK;
}

/* The cards that runs were measured on; also where none is named. */
static int is_hopper(const struct plim_plan *p)
{
	return p->hidden->recipe.device.capability == plan_device_default.capability;
}

/* Of the whole run. */
static enum plim_status take_trust(struct plim_plan *p, struct plim_err *err)
{
	struct plan_trust t = p->hidden->trust;
	size_t n = t.reason_count;
	uint64_t ends[2] = { p->peak.needed_bytes, p->peak.needed_bytes };
	enum plim_status st = plan_linger(p, ends, err);

	if (st)
		return st;
	p->peak.basis = plan_basis_names[t.basis];
	p->peak.needed_range_bytes.low = plan_range(&t, ends[0]).low;
	p->peak.needed_range_bytes.high = plan_range(&t, ends[1]).high;
	p->peak.reasons = arena_take(&p->hidden->arena, n + 1, sizeof(*p->peak.reasons), err);
	if (!p->peak.reasons)
		return mem_status(err);
	memcpy(p->peak.reasons, t.reasons, n * sizeof(*t.reasons));
	p->peak.reason_count = n;
	return PLIM_OK;
}

static enum plim_status take_peak(struct plim_plan *p, const struct plan_result *result,
				  uint64_t needed, struct plim_err *err)
{
	uint64_t bytes[TIMELINE_CATEGORIES] = { 0 }, rounding;
	enum plim_status st = take_phases(p, err);

	plan_compose(p->hidden->plan, result->peak_phase, bytes, &rounding);
	take_categories(&p->peak.categories, bytes, rounding);
	p->peak.allocated_bytes = result->peak_allocated_bytes;
	p->peak.reserved_bytes = result->peak_reserved_bytes;
	p->peak.phase = p->hidden->plan->phases.at[result->peak_phase].name;
	p->peak.needed_bytes = needed;
	return st ? st : take_trust(p, err);
}

enum plim_status plan_assume(struct plim_plan *p, const char *text, struct plim_err *err)
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

static enum plim_status assume_card(struct plim_plan *p, struct plim_err *err)
{
	if (is_hopper(p))
		return plan_assume(
			p,
			"PyTorch 2.11, Transformers 5.17 on an H100: workspaces and attention "
			"kernels differ on other cards",
			err);
	return plan_assume(
		p,
		plan_string(p, err,
			    "PyTorch 2.11, Transformers 5.17; workspaces and attention kernels as "
			    "PyTorch's rules have them for the %s: only an H100 was measured",
			    p->hidden->gpu->name),
		err);
}

static enum plim_status take_assumptions(struct plim_plan *p, const struct plim_plan_options *o,
					 struct plim_err *err)
{
	const struct plan_recipe *r = &p->hidden->recipe;
	enum plim_status st = PLIM_OK;

	if (p->model.guessed)
		st = plan_assume(
			p,
			plan_string(p, err,
				    "architecture '%s' is not known: it is taken for one like %s",
				    p->hidden->model.declared, p->model.family),
			err);
	if (!st)
		st = assume_card(p, err);
	if (!st && r->keep_cache &&
	    !(r->task == PLAN_TRAIN && r->checkpointing == PLAN_CHECKPOINT_FULL))
		st = plan_assume(
			p,
			"each pass keeps keys and values, as use_cache in the config says; "
			"--no-cache: it does not",
			err);
	for (size_t i = 0; !st && i < p->hidden->defaults.n; i++)
		st = plan_assume(p, p->hidden->defaults.at[i], err);
	if (!st && !o->settings)
		st = plan_assume(p,
				 p->hidden->recordings ? "the allocator's settings as recorded"
						       : "the allocator's default settings",
				 err);
	if (!st && r->task == PLAN_TRAIN)
		st = plan_assume(p, samples_of(r), err);
	if (!st && o->gpu && o->memory_bytes == PLIM_UNKNOWN)
		st = plan_assume(
			p,
			plan_string(p, err,
				    "%llu MiB of the card are not PyTorch's (context, kernels%s)",
				    (unsigned long long)(plan_allowance(r, o) >> 20),
				    r->gpus > 1 ? ", NCCL" : ""),
			err);
	if (!st)
		st = plan_assume_host(p, err);
	if (!st)
		st = plan_assume_parallel(p, err);
	p->assumptions = p->hidden->assumptions.at;
	p->assumption_count = p->hidden->assumptions.n;
	return st;
}

/* ---- the largest that fits, and several ---- */

struct search {
	struct plan_recipe r;
	uint64_t *size, most; /* which number of the recipe, and up to where */
};

static enum plim_status largest(struct plim_plan *p, struct search *s, uint64_t limit_bytes,
				uint64_t *out, struct plim_err *err)
{
	uint64_t does = 0, most = s->most, fails = most + 1;
	enum plim_status st = PLIM_OK;
	struct plan_trial trial;

	while (!st && fails - does > 1) {
		uint64_t next = fails > most ? (does ? does * 2 : 1) : does + (fails - does) / 2;

		*s->size = next > most ? most : next;
		st = plan_try(p, &s->r, limit_bytes, &trial, err);
		if (st)
			break;
		if (trial.died)
			fails = *s->size;
		else
			does = *s->size;
		if (does == most)
			break;
	}
	*out = does;
	return st;
}

#define MOST_BATCH 65536u
#define MOST_SEQUENCE (1u << 20)

/* What surely fits, and what perhaps does: the limits that runs may come to by as much as a number may be off. */
static enum plim_status largest_range(struct plim_plan *p, struct search *s,
				      struct plim_interval *range, struct plim_err *err)
{
	const struct plan_trust *t = &p->hidden->trust;
	uint64_t sure = p->limit_bytes / (1000 + t->above) * 1000,
		 perhaps = p->limit_bytes / (1000 - t->below) * 1000;
	enum plim_status st;

	st = largest(p, s, sure, &range->low, err);
	return st ? st : largest(p, s, perhaps, &range->high, err);
}

static enum plim_status inverse(struct plim_plan *p, const struct plim_plan_options *o,
				struct plim_err *err)
{
	struct search batch = { p->hidden->recipe, &batch.r.batch, MOST_BATCH };
	struct search sequence = { p->hidden->recipe, &sequence.r.sequence, MOST_SEQUENCE };
	enum plim_status st = PLIM_OK;

	p->max_batch = p->max_sequence = PLIM_UNKNOWN;
	p->max_batch_range = p->max_sequence_range = INTERVAL_UNKNOWN;
	if (!(o->flags & (PLIM_PLAN_MAX_BATCH | PLIM_PLAN_MAX_SEQUENCE)) || p->model.doubt_count)
		return PLIM_OK;
	if (!p->hidden->bounded)
		return err_set(err, PLIM_E_ARG,
			       "what fits at most depends on the memory: give --memory or --gpu");
	p->max_basis = plan_basis_names[p->hidden->trust.basis];
	if (o->flags & PLIM_PLAN_MAX_BATCH) {
		st = largest_range(p, &batch, &p->max_batch_range, err);
		p->max_batch = st ? PLIM_UNKNOWN : p->max_batch_range.low;
	}
	if (!st && o->flags & PLIM_PLAN_MAX_SEQUENCE) {
		st = largest_range(p, &sequence, &p->max_sequence_range, err);
		p->max_sequence = st ? PLIM_UNKNOWN : p->max_sequence_range.low;
	}
	return st;
}

static enum plim_status sweep_one(struct plim_plan *p, const struct plan_recipe *r,
				  struct plim_plan_sweep *row, struct plim_err *err)
{
	struct plan_result result;
	struct plan *plan = NULL;
	struct plan_trust trust;
	uint64_t needed = 0;
	enum plim_status st = plan_program(p, r, &plan, err);

	if (!st)
		st = plan_measure_needed(plan, &p->hidden->rules, &result, &needed, err);
	if (st) {
		plan_free(plan);
		return st;
	}
	trust = plan_trust(p, r, plan, plan->phases.n);
	*row = (struct plim_plan_sweep){ .batch = r->batch,
					 .sequence = r->sequence,
					 .allocated_bytes = result.peak_allocated_bytes,
					 .reserved_bytes = result.peak_reserved_bytes,
					 .needed_bytes = needed,
					 .basis = plan_basis_names[trust.basis],
					 .needed_range_bytes = plan_range(&trust, needed) };
	if (!st && p->hidden->bounded && !p->model.doubt_count)
		row->fits = tri(p->limit_bytes >= row->needed_range_bytes.high);
	if (!st && p->hidden->bounded && p->limit_bytes < needed) {
		st = plan_measure(plan, &p->hidden->rules, &p->hidden->bounds, &result, err);
		if (!st && result.died != TRACE_NONE)
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

/* Does the image that was asked for fit among the tokens? */
static enum plim_status check_image(const struct model *m, const struct plan_recipe *r,
				    struct plim_err *err)
{
	const struct model_numbers *n = &m->towers[MODEL_VISION];
	uint64_t unit = n->patch * n->merge,
		 width = r->image_width ? r->image_width : r->image_size;
	uint64_t tokens = unit ? (r->image_size / unit) * (width / unit) : n->image_tokens;

	if (!r->image_size || tokens <= r->sequence)
		return PLIM_OK;
	return err_set(err, PLIM_E_ARG, "an image is %llu tokens, more than the sequence's %llu",
		       (unsigned long long)tokens, (unsigned long long)r->sequence);
}

bool plan_is_beyond(const struct model *m, const struct plan_recipe *r)
{
	const struct model_numbers *n = &m->towers[MODEL_TEXT];

	return n->layers && n->positions && r->sequence > n->positions;
}

/* Learned positions end; rotary ones only lose their meaning. */
static enum plim_status check_positions(const struct model *m, const struct plan_recipe *r,
					struct plim_err *err)
{
	const struct model_numbers *n = &m->towers[MODEL_TEXT];

	if (n->position != MODEL_POSITION_LEARNED || !plan_is_beyond(m, r))
		return PLIM_OK;
	return err_set(err, PLIM_E_ARG,
		       "a sequence of %llu tokens is longer than the %llu positions of this model: "
		       "it would "
		       "die of an index error",
		       (unsigned long long)r->sequence, (unsigned long long)n->positions);
}

#define USUAL_SEQUENCE 1024

/* Where the caller leaves it open: as many tokens as the model has positions, 1,024 at most. */
static void take_sequence(struct plim_plan *p, struct plim_plan_options *o)
{
	const struct model_numbers *n = &p->hidden->model.towers[MODEL_TEXT];
	bool few = n->position == MODEL_POSITION_LEARNED && n->positions &&
		   n->positions < USUAL_SEQUENCE;

	if (!o->sequence)
		o->sequence = few ? n->positions : USUAL_SEQUENCE;
	p->sequence = o->sequence;
}

static enum plim_status load_model(struct plim_plan *p, const char *path,
				   const struct plim_plan_options *o, struct plim_err *err)
{
	struct model_numbers n = { .layers = o->layers,
				   .hidden = o->hidden,
				   .heads = o->heads,
				   .kv_heads = o->kv_heads,
				   .intermediate = o->intermediate,
				   .vocab = o->vocab };
	struct model *m = &p->hidden->model;

	return path ? model_load(m, path, err) : model_by_numbers(m, &n, err);
}

enum plim_status plan_read_recipe(struct plim_plan *p, const struct plim_plan_options *o,
				  struct plim_err *err)
{
	const struct model *m = &p->hidden->model;
	const struct facts_gpu *gpu = p->hidden->gpu;
	struct plan_recipe *r = &p->hidden->recipe;
	enum plim_status st = plan_read_options(p, o, err);

	if (gpu)
		r->device = plan_device_of(gpu->capability, gpu->multiprocessors);
	if (!st)
		st = plan_take_defaults(p, o, err);
	if (st)
		return st;
	if (o->image_grid) {
		r->image_size = o->image_grid * m->towers[MODEL_VISION].patch;
		r->image_width = o->image_grid_width * m->towers[MODEL_VISION].patch;
	}
	r->keep_cache = !r->no_cache &&
			((o->cache && r->task != PLAN_GENERATE) || m->towers[MODEL_TEXT].use_cache);
	st = check_positions(m, r, err);
	return st ? st : check_image(m, r, err);
}

#define UNREAD_SHOWN 6

/* The keys that were not read, in one sentence. */
static const char *unread_keys(struct plim_plan *p, struct plim_err *err)
{
	const struct model *m = &p->hidden->model;
	struct text words;
	const char *sentence;

	text_init(&words, &p->hidden->mem, NULL);
	for (size_t i = 0; i < m->unread.n && i < UNREAD_SHOWN; i++)
		text_printf(&words, "%s%s", i ? ", " : "",
			    intern_text(&m->strings, m->unread.at[i]));
	if (m->unread.n > UNREAD_SHOWN)
		text_printf(&words, " and %zu more", m->unread.n - UNREAD_SHOWN);
	sentence = plan_string(p, err,
			       "the file has keys that are not read here and may change memory: %s",
			       text_get(&words));
	text_release(&words);
	return sentence;
}

static enum plim_status doubt(struct plim_plan *p, const char *sentence, struct plim_err *err)
{
	return sentence ? vec_push(&p->hidden->mem, &p->hidden->doubts, sentence, err)
			: mem_status(err);
}

/* What forbids a verdict: a number below a limit says nothing where part of the model was not counted. */
static enum plim_status take_doubts(struct plim_plan *p, struct plim_err *err)
{
	const struct model *m = &p->hidden->model;
	enum plim_status st = PLIM_OK;

	if (m->guessed)
		st = doubt(
			p,
			plan_string(
				p, err,
				"architecture '%s' is not known here: the numbers are those of a "
				"decoder like Llama",
				*m->declared ? m->declared : "(no model_type)"),
			err);
	if (!st && m->other_class)
		st = doubt(p,
			   plan_string(p, err, "the class in 'architectures' is not one of %s",
				       m->family),
			   err);
	if (!st && *m->quantizer && !m->quantized)
		st = doubt(
			p,
			plan_string(
				p, err,
				"the weights are quantized by %s, and are counted at 16 bits here",
				m->quantizer),
			err);
	if (!st && m->unread.n)
		st = doubt(p, unread_keys(p, err), err);
	p->model.doubts = p->hidden->doubts.at;
	p->model.doubt_count = p->hidden->doubts.n;
	return st;
}

static enum plim_status take_model(struct plim_plan *p, struct plim_err *err)
{
	const struct model *m = &p->hidden->model, *kept;
	const struct plan_recipe *r = &p->hidden->recipe;
	const struct ckpt_dtype *dtype =
		ckpt_dtype_of_torch(plan_is_half(r) ? "bfloat16" : "float32");
	struct model_totals totals, as_kept;
	enum plim_status st = model_for(p, r->quantize, &kept, err);

	if (st)
		return st;
	model_get_totals(m, dtype, &totals);
	model_get_totals(kept, dtype, &as_kept);
	p->model.family = m->family;
	p->model.guessed = m->guessed;
	p->model.parameters = totals.parameters;
	p->model.parameter_bytes = as_kept.parameter_bytes + as_kept.state_bytes;
	p->model.trainable = r->task == PLAN_TRAIN ? totals.trainable : 0;
	return take_doubts(p, err);
}

static enum plim_status judge(struct plim_plan *p, struct plim_err *err)
{
	struct plan *plan = p->hidden->plan;
	struct plan_result result;
	enum plim_status st;

	if (!p->hidden->bounded || p->model.doubt_count)
		return PLIM_OK;
	/* what is only just enough is not called enough */
	p->fits = tri(p->limit_bytes >= p->peak.needed_range_bytes.high);
	if (p->limit_bytes >= p->peak.needed_bytes)
		return PLIM_OK;
	st = plan_measure(plan, &p->hidden->rules, &p->hidden->bounds, &result, err);
	if (!st && result.died != TRACE_NONE) {
		p->dies_at = plan->phases.at[result.died].name;
		p->dies_request_bytes = result.died_request_bytes;
		p->dies_allocated_bytes = result.died_allocated_bytes;
	}
	return st;
}

/* What a recording of it would be called. */
static enum plim_status take_names(struct plim_plan *p, const char *path,
				   const struct plim_plan_options *o, struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *name = !path || o->flags & PLIM_PLAN_REDACT ? h->model.family
			   : slash && slash[1]                  ? slash + 1
								: path;

	h->settings = arena_text(&h->arena, err, "%s", o->settings ? o->settings : "");
	h->title = arena_text(&h->arena, err, "plan: %s, batch %llu, sequence %llu", name,
			      (unsigned long long)p->batch, (unsigned long long)p->sequence);
	return h->settings && h->title ? PLIM_OK : mem_status(err);
}

static enum plim_status plan_all(struct plim_plan *p, const char *path, struct plim_plan_options *o,
				 struct plim_err *err)
{
	struct plan_result result;
	struct plim_plan_hidden *h = p->hidden;
	uint64_t needed = 0;
	enum plim_status st = o->gpu ? facts_find_gpu(o->gpu, "--memory", &h->gpu, err) : PLIM_OK;

	if (!st)
		st = load_model(p, path, o, err);
	if (!st)
		take_sequence(p, o);
	if (!st)
		st = plan_read_recipe(p, o, err);
	if (!st)
		st = find_limit(p, o, err);
	if (!st)
		st = take_model(p, err);
	if (!st)
		st = plan_calibrate(p, o, err);
	if (!st)
		st = plan_pick_stage(p, o, err);
	if (!st)
		st = plan_program(p, &h->recipe, &h->plan, err);
	if (!st && h->recipe.lora_rank && h->recipe.task == PLAN_TRAIN)
		p->model.trainable = h->plan->adapter_elements;
	if (!st)
		st = plan_measure_needed(h->plan, &h->rules, &result, &needed, err);
	if (!st)
		h->trust = plan_trust(p, &h->recipe, h->plan, h->plan->phases.n);
	if (!st)
		st = take_peak(p, &result, needed, err);
	if (!st)
		plan_take_host(p, o);
	if (!st)
		st = judge(p, err);
	if (!st && p->fits == PLIM_TRI_NO)
		st = plan_climb(p, o, err);
	if (!st)
		st = take_assumptions(p, o, err);
	if (!st)
		st = inverse(p, o, err);
	if (!st)
		st = sweep(p, o->sweep, err);
	return st ? st : take_names(p, path, o, err);
}

enum plim_status plim_plan_open(const char *path, const struct plim_plan_options *options,
				struct plim_plan **out, struct plim_err *err)
{
	struct plim_plan_options o;
	struct plim_plan *p = calloc(1, sizeof(*p));
	struct plim_err own;
	enum plim_status st;

	*out = NULL;
	err = err ? err : &own; /* inner floors read the status back from it */
	plim_plan_options_init(&o);
	st = options_take(&plan_options_table, &o, options, err);
	if (st) {
		free(p);
		return st;
	}
	if (p)
		p->hidden = calloc(1, sizeof(*p->hidden));
	if (!p || !p->hidden) {
		free(p);
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	}
	mem_init(&p->hidden->mem, o.max_memory_bytes);
	arena_init(&p->hidden->arena, &p->hidden->mem);
	model_init(&p->hidden->model, &p->hidden->mem);
	model_init(&p->hidden->quantized, &p->hidden->mem);
	text_init(&p->hidden->lora_targets, &p->hidden->mem, NULL);
	p->dies_request_bytes = p->dies_allocated_bytes = p->host_bytes = p->unexplained_bytes =
		PLIM_UNKNOWN;
	p->batch = o.batch;
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
	return out_json(&p->hidden->mem, &plan_table, p, write, ctx, err);
}
