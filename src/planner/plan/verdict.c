/* What is reported of a measured program: phases, the peak, the verdict, what was taken for granted. */
#include "plan/plan.h"

#include "facts/facts.h"

#include <stdlib.h>
#include <string.h>

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

/* Steps beyond those that were asked for are planned until nothing grows, and not shown. */
static bool is_shown(const struct plim_plan *p, const char *phase)
{
	static const char *const of_steps[] = { "fwd", "bwd", "opt", "zero" };
	uint64_t most = p->hidden->shown_steps;

	for (size_t i = 0; most && i < sizeof(of_steps) / sizeof(of_steps[0]); i++) {
		size_t n = strlen(of_steps[i]);

		if (!strncmp(phase, of_steps[i], n))
			return strtoull(phase + n, NULL, 10) < most;
	}
	return true;
}

static enum plim_status take_phases(struct plim_plan *p, struct plim_err *err)
{
	struct plan *plan = p->hidden->plan;
	size_t shown = 0;

	for (size_t i = 0; i < plan->phases.n; i++)
		shown += is_shown(p, plan->phases.at[i].name);
	p->phases = mem_new(&p->hidden->mem, shown, sizeof(*p->phases), err);
	if (!p->phases)
		return mem_status(err);
	for (size_t i = 0; i < plan->phases.n; i++) {
		const struct plan_phase *f = &plan->phases.at[i];
		struct plan_trust t = plan_trust(p, &p->hidden->recipe, plan, i + 1);

		if (!is_shown(p, f->name))
			continue;
		p->phases[p->phase_count++] = (struct plim_plan_phase){
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

/* The GPUs that runs were measured on; also where none is named. */
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

enum plim_status plan_take_peak(struct plim_plan *p, const struct plan_result *result,
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
	enum plim_status st = text ? vec_push(&p->hidden->mem, &p->hidden->assumptions, text, err)
				   : mem_status(err);

	p->assumptions = p->hidden->assumptions.at;
	p->assumption_count = p->hidden->assumptions.n;
	return st;
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

/* How long samples are, and their labels. */
static enum plim_status assume_samples(struct plim_plan *p, struct plim_err *err)
{
	const struct plan_recipe *r = &p->hidden->recipe;
	bool decodes = p->hidden->model.encoder_decoder;
	enum plim_status st = PLIM_OK;

	if (r->task == PLAN_TRAIN)
		st = plan_assume(p, samples_of(r), err);
	if (!st && r->task == PLAN_TRAIN && decodes && !r->target_sequence)
		st = plan_assume(p, "labels are a quarter as long as the sequence (--target-seq)",
				 err);
	if (!st && r->target_sequence && !decodes)
		st = plan_assume(
			p, "--target-seq changes nothing: the model has no decoder of its own",
			err);
	if (!st && r->task == PLAN_GENERATE && !r->new_tokens)
		st = plan_assume(p, "no new tokens: the pass over the prompt alone (--new-tokens)",
				 err);
	return st;
}

#define MEASURED_TORCH 211 /* 100 * major + minor: with which most runs were measured */
#define MEASURED_TRANSFORMERS 517

/* The releases that are planned for, the measured ones where none is given. */
static const char *releases(struct plim_plan *p, const struct plim_plan_options *o,
			    struct plim_err *err)
{
	unsigned torch = o->torch ? o->torch : MEASURED_TORCH;
	unsigned transformers = o->transformers ? o->transformers : MEASURED_TRANSFORMERS;
	bool other = torch != MEASURED_TORCH || transformers != MEASURED_TRANSFORMERS;

	return plan_string(p, err, "PyTorch %u.%u, Transformers %u.%u%s", torch / 100, torch % 100,
			   transformers / 100, transformers % 100,
			   other ? " (runs were measured with 2.11 and 5.17)" : "");
}

static enum plim_status assume_card(struct plim_plan *p, const struct plim_plan_options *o,
				    struct plim_err *err)
{
	const char *of = releases(p, o, err);

	if (!of)
		return mem_status(err);
	if (is_hopper(p))
		return plan_assume(p,
				   plan_string(p, err,
					       "%s on an H100: workspaces and attention kernels "
					       "differ on other GPUs",
					       of),
				   err);
	return plan_assume(
		p,
		plan_string(p, err,
			    "%s; workspaces and attention kernels as PyTorch's rules have them for "
			    "the %s: only an H100 was measured",
			    of, p->hidden->gpu->name),
		err);
}

/* Tensor cores take bf16 from Ampere on; 0 is AMD's. */
#define BF16_FROM 80

/* "24GB" is several GPUs: the one with the least memory is planned, so that what fits it fits all. */
static enum plim_status assume_size(struct plim_plan *p, const struct plim_plan_options *o,
				    struct plim_err *err)
{
	char others[200];

	if (!p->hidden->gpu_by_size ||
	    facts_gpu_of_size(o->gpu, others, sizeof(others)) != p->hidden->gpu)
		return PLIM_OK;
	return plan_assume(p,
			   plan_string(p, err,
				       *others ? "--gpu %s: planned for the %s, which has the "
						 "least memory of that size (others: %s)"
					       : "--gpu %s: planned for the %s",
				       o->gpu, p->hidden->gpu->name, others),
			   err);
}

static enum plim_status assume_shards(struct plim_plan *p, struct plim_err *err)
{
	const struct plan_recipe *r = &p->hidden->recipe;

	if (r->gpus > 1 || r->parallel == PLAN_ALONE)
		return PLIM_OK;
	return plan_assume(p,
			   plan_string(p, err,
				       "%s on one GPU shares nothing: --gpus N, for what each of N "
				       "GPUs needs",
				       plan_parallel_names[r->parallel]),
			   err);
}

static enum plim_status assume_bf16(struct plim_plan *p, struct plim_err *err)
{
	const struct facts_gpu *gpu = p->hidden->gpu;
	enum plan_precision precision = p->hidden->recipe.precision;

	if (!gpu || !gpu->capability || gpu->capability >= BF16_FROM || precision == PLAN_FP32 ||
	    precision == PLAN_FP16_AUTOCAST || precision == PLAN_FP16_LOADED)
		return PLIM_OK;
	return plan_assume(p,
			   plan_string(p, err,
				       "the %s has no arithmetic in bf16: PyTorch emulates it, "
				       "slowly, and some kernels refuse it (--fp16)",
				       gpu->name),
			   err);
}

enum plim_status plan_take_assumptions(struct plim_plan *p, const struct plim_plan_options *o,
				       struct plim_err *err)
{
	const struct plan_recipe *r = &p->hidden->recipe;
	enum plim_status st = PLIM_OK;

	if (p->model.guessed)
		st = plan_assume(
			p,
			plan_string(p, err,
				    "architecture '%s' is not known: it is taken for one like %s",
				    p->hidden->redacts ? "(redacted)" : p->hidden->model.declared,
				    p->model.family),
			err);
	if (!st)
		st = assume_card(p, o, err);
	if (!st)
		st = assume_shards(p, err);
	if (!st)
		st = assume_size(p, o, err);
	if (!st)
		st = assume_bf16(p, err);
	if (!st && r->keep_cache &&
	    !(r->task == PLAN_TRAIN && r->checkpointing == PLAN_CHECKPOINT_FULL))
		st = plan_assume(
			p,
			"each pass keeps keys and values, as use_cache in the config says; "
			"--no-cache: it does not",
			err);
	for (size_t i = 0; !st && i < p->hidden->from_notes.n; i++)
		st = plan_assume(p, p->hidden->from_notes.at[i], err);
	for (size_t i = 0; !st && i < p->hidden->defaults.n; i++)
		st = plan_assume(p, p->hidden->defaults.at[i], err);
	if (!st && !o->settings)
		st = plan_assume(p,
				 p->hidden->recordings ? "the allocator's settings as recorded"
						       : "the allocator's default settings",
				 err);
	if (!st)
		st = assume_samples(p, err);
	if (!st && o->gpu && o->memory_bytes == PLIM_UNKNOWN)
		st = plan_assume(
			p,
			plan_string(p, err,
				    "%llu MiB of the GPU are not PyTorch's (context, kernels%s)",
				    (unsigned long long)(plan_allowance(r, o) >> 20),
				    r->gpus > 1 ? ", NCCL" : ""),
			err);
	if (!st)
		st = plan_assume_host(p, err);
	if (!st)
		st = plan_assume_parallel(p, err);
	return st;
}

/*
 * Where blocks are not planned whose parameters are known: what stays of the run when no block runs, its weights with gradients and
 * the optimizer's states, is more than the limit, whatever else it needs.
 */
static void judge_floor(struct plim_plan *p)
{
	const struct plan *plan = p->hidden->plan;

	if (!p->hidden->model.unplanned || p->model.doubt_count > 1)
		return;
	for (size_t i = 0; i < plan->phases.n; i++) {
		const struct plan_phase *f = &plan->phases.at[i];

		if ((strcmp(f->name, "load") != 0 && strcmp(f->name, "opt0") != 0) ||
		    f->allocated_bytes <= p->limit_bytes)
			continue;
		p->fits = PLIM_TRI_NO;
		p->dies_at = f->name;
		p->hidden->floor_bytes = f->allocated_bytes;
		return;
	}
}

enum plim_status plan_judge(struct plim_plan *p, struct plim_err *err)
{
	struct plan *plan = p->hidden->plan;
	struct plan_result result;
	enum plim_status st;

	if (!p->hidden->bounded)
		return PLIM_OK;
	if (p->model.doubt_count) {
		judge_floor(p);
		return PLIM_OK;
	}
	/* what is only just enough is not called enough */
	p->fits = tri(p->limit_bytes >= p->peak.needed_range_bytes.high);
	if (p->limit_bytes >= p->peak.needed_bytes ||
	    (p->hidden->needs_less && p->limit_bytes >= p->peak.needed_range_bytes.low))
		return PLIM_OK;
	st = plan_measure(plan, &p->hidden->rules, &p->hidden->bounds, &result, err);
	if (!st && result.died != TRACE_NONE) {
		p->dies_at = plan->phases.at[result.died].name;
		p->dies_request_bytes = result.died_request_bytes;
		p->dies_allocated_bytes = result.died_allocated_bytes;
	}
	return st;
}
