/* Several GPUs: which share what, how sure that is, and memory outside of PyTorch (NCCL). */
#include "plan/plan.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#include "option_rows.h"

#include <string.h>

/*
 * NCCL's buffers of one communicator, outside of PyTorch's: 1,584 to 1,608 MiB with context and kernels, of which those have
 * 896, on pairs and fours of H200s (NCCL of PyTorch 2.11, NVLS off); nccl #964 has 544 to 688 on A100s.
 */
#define COMMUNICATOR_BYTES ((uint64_t)768 << 20)
#define PIPELINE_BYTES ((uint64_t)896 << 20) /* with channels from one to one: 864 MiB */

/* Ways that are no way to share the batch out but the model. */
static const struct {
	const char *name;
	size_t degree; /* offset in struct plan_recipe: all GPUs do it */
} whole_ways[] = {
	{ "tp", offsetof(struct plan_recipe, tp) },
	{ "pp", offsetof(struct plan_recipe, pp) },
};

static enum plim_status find_way(struct plan_recipe *r, const char *name, uint64_t gpus,
				 struct plim_err *err)
{
	char known[PLAN_KNOWN] = "";

	for (unsigned i = 0; i < PLAN_PARALLELS; i++) {
		if (!strcmp(name, plan_parallel_names[i])) {
			r->parallel = (enum plan_parallel)i;
			return PLIM_OK;
		}
		plan_add_known(known, plan_parallel_names[i]);
	}
	for (size_t i = 0; i < sizeof(whole_ways) / sizeof(whole_ways[0]); i++) {
		if (!strcmp(name, whole_ways[i].name)) {
			*(uint64_t *)(void *)((char *)r + whole_ways[i].degree) = gpus;
			return PLIM_OK;
		}
		plan_add_known(known, whole_ways[i].name);
	}
	return err_set(err, PLIM_E_ARG, "unknown parallel '%s'; known are %s", name, known);
}

#define MOST_GPUS (1u << 20)
#define MOST_MICRO_BATCHES 4096u

static enum plim_status check_process(const struct plan_recipe *r,
				      const struct plim_plan_options *o, struct plim_err *err)
{
	if (r->gpus > MOST_GPUS || r->tp > MOST_GPUS || r->pp > MOST_GPUS)
		return err_set(err, PLIM_E_ARG, "more than %u GPUs", MOST_GPUS);
	if (r->gpus % (r->tp * r->pp))
		return err_set(
			err, PLIM_E_ARG,
			"%llu GPUs are not a whole number of copies on %llu (tp %llu, pp %llu)",
			(unsigned long long)r->gpus, (unsigned long long)(r->tp * r->pp),
			(unsigned long long)r->tp, (unsigned long long)r->pp);
	if (r->micro_batches > MOST_MICRO_BATCHES)
		return err_set(err, PLIM_E_ARG, "more than %u micro-batches", MOST_MICRO_BATCHES);
	if (o->stage > r->pp)
		return err_set(err, PLIM_E_ARG, "stage %llu of %llu", (unsigned long long)o->stage,
			       (unsigned long long)r->pp);
	if (r->pp > 1 && (r->task != PLAN_TRAIN || r->accumulate > 1 || r->eval_passes))
		return err_set(err, PLIM_E_ARG,
			       "of a pipeline only training is planned, and its micro-batches "
			       "accumulate: give options.micro_batches");
	return PLIM_OK;
}

#define MOST_IN_WORDS 128 /* "8 H100"; more is a name: 4070 Ti */

/* "8x H100", "8 H100": the number, and what follows it in *name; 0: there is none. */
static uint64_t count_before(const char **name)
{
	uint64_t n = 0;
	const char *at = *name;
	bool spaced;

	while (*at >= '0' && *at <= '9' && n <= MOST_GPUS)
		n = n * 10 + (uint64_t)(*at++ - '0');
	if (!n || n > MOST_GPUS)
		return 0;
	spaced = *at == ' ';
	at += strspn(at, " ");
	if (strchr("xX*", *at) && *at)
		at += 1 + strspn(at + 1, " ");
	else if (!spaced || n > MOST_IN_WORDS || !isalpha((unsigned char)*at) ||
		 !strncasecmp(at, "g", 1)) /* "24 GB" */
		return 0;
	*name = *at ? at : *name;
	return *at ? n : 0;
}

/* "H100x8", "80GB*8", "H100:8": the number at the end; `*bytes` of the name are before it. */
static uint64_t count_behind(const char *name, size_t *bytes)
{
	size_t n = strlen(name), digits = n;
	uint64_t count;

	while (digits && isdigit((unsigned char)name[digits - 1]))
		digits--;
	/* the X of RTX4090 is not times sign */
	if (digits < 3 || digits == n || !strchr("xX*:", name[digits - 1]) ||
	    strchr("tT", name[digits - 2]))
		return 0;
	count = strtoull(name + digits, NULL, 10);
	if (!count || count > MOST_GPUS)
		return 0;
	for (*bytes = digits - 1; *bytes && name[*bytes - 1] == ' ';)
		(*bytes)--;
	return *bytes ? count : 0;
}

const char *plan_card_of(struct plim_plan *p, const char *name, uint64_t *gpus,
			 struct plim_err *err)
{
	size_t bytes = 0;
	uint64_t n = count_before(&name);

	if (!n && (n = count_behind(name, &bytes)) != 0)
		name = arena_text(&p->hidden->arena, err, "%.*s", (int)bytes, name);
	if (n && *gpus <= 1)
		*gpus = n;
	return name;
}

enum plim_status plan_read_parallel(struct plan_recipe *r, const struct plim_plan_options *o,
				    struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	r->tp = o->tensor_parallel ? o->tensor_parallel : 1;
	r->pp = o->pipeline_parallel ? o->pipeline_parallel : 1;
	r->gpus = o->gpus;
	if (o->parallel)
		st = find_way(r, plan_value("parallel", o->parallel, true), o->gpus, err);
	/* --tp 2 alone is two GPUs */
	if (r->gpus == 1 && r->tp <= MOST_GPUS && r->pp <= MOST_GPUS)
		r->gpus = r->tp * r->pp;
	r->micro_batches = o->micro_batches ? o->micro_batches : 2 * r->pp;
	if (!st)
		st = check_process(r, o, err);
	r->stage = o->stage ? o->stage - 1 : 0;
	if (!st && !o->parallel && r->gpus > r->tp * r->pp)
		r->parallel = PLAN_DDP;
	return st;
}

uint64_t plan_allowance(const struct plan_recipe *r, const struct plim_plan_options *o)
{
	uint64_t copies = r->gpus / r->tp / r->pp;

	if (o->allowance_bytes != PLAN_DEFAULT_allowance_bytes)
		return o->allowance_bytes;
	return PLAN_DEFAULT_allowance_bytes + ((copies > 1) + (r->tp > 1)) * COMMUNICATOR_BYTES +
	       (r->pp > 1) * PIPELINE_BYTES;
}

static bool is_on_meta(const struct plan_recipe *r)
{
	return plan_is_sharded(r) && r->load == PLAN_LOAD_META;
}

static bool is_copied(const struct plan_recipe *r)
{
	return r->task == PLAN_TRAIN && (r->parallel == PLAN_DDP || r->parallel == PLAN_ZERO1);
}

bool plan_is_fsdp1(const struct plan_recipe *r)
{
	return r->parallel == PLAN_FSDP1 || r->parallel == PLAN_FSDP1_ZERO2;
}

static bool is_deepspeed_read(const struct plan_recipe *r)
{
	return plan_is_zero(r) && r->zero.said & PLAN_ZERO_READ;
}

static bool is_deepspeed_as_is(const struct plan_recipe *r)
{
	return plan_is_zero(r) && !(r->zero.said & PLAN_ZERO_READ);
}

static bool is_tensor_parallel(const struct plan_recipe *r)
{
	return r->tp > 1;
}

static bool is_piped(const struct plan_recipe *r)
{
	return r->pp > 1;
}

/* What is taken for granted of each way. */
static const struct {
	bool (*counts)(const struct plan_recipe *r);
	const char *text;
} granted[] = {
	{ is_on_meta,
	  "weights are on the meta device until they are sharded (accelerate's "
	  "fsdp_cpu_ram_efficient_loading, zero.Init); --load whole: all are on each GPU first" },
	{ is_copied,
	  "DDP's first buckets live through the second forward pass if the GPU is behind "
	  "the program; the range has both" },
	{ plan_is_fsdp1,
	  "FSDP 1 as accelerate sets it: use_orig_params, all-gathers limited to two" },
	{ is_deepspeed_as_is, "DeepSpeed 0.19 with its default bucket sizes and torch's optimizer; "
			      "measured with one process" },
	{ is_deepspeed_read, "DeepSpeed 0.19 with the sizes of its file, its own where it says "
			     "none, and torch's optimizer; measured with one process" },
	{ is_tensor_parallel,
	  "tensor parallelism by tp_plan=\"auto\"; embeddings and norms are whole" },
	{ is_piped,
	  "torch.distributed.pipelining: each stage makes the whole model and keeps its blocks" },
};

enum plim_status plan_assume_parallel(struct plim_plan *p, struct plim_err *err)
{
	const struct plan_recipe *r = &p->hidden->recipe;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < sizeof(granted) / sizeof(granted[0]); i++)
		if (granted[i].counts(r))
			st = plan_assume(p, granted[i].text, err);
	if (!st && r->pp > 1)
		st = plan_assume(
			p,
			plan_string(p, err, "stage %llu of %llu, %llu micro-batches a step (%s)",
				    (unsigned long long)r->stage + 1, (unsigned long long)r->pp,
				    (unsigned long long)r->micro_batches,
				    plan_schedule_names[r->schedule]),
			err);
	return st;
}

/* A program of its own, without a limit; with `needed` the smallest that does. */
static enum plim_status try_freely(struct plim_plan *p, const struct plan_recipe *r,
				   struct plan_result *out, uint64_t *needed, struct plim_err *err)
{
	struct allocator_bounds bounds = { .limit_bytes = UINT64_MAX,
					   .capacity_bytes = UINT64_MAX };
	struct plan *plan = NULL;
	enum plim_status st = plan_program(p, r, &plan, err);

	if (!st)
		st = needed ? plan_measure_needed(plan, &p->hidden->rules, UINT64_MAX, out, needed,
						  err)
			    : plan_measure(plan, &p->hidden->rules, &bounds, out, err);
	plan_free(plan);
	return st;
}

enum plim_status plan_pick_stage(struct plim_plan *p, const struct plim_plan_options *o,
				 struct plim_err *err)
{
	struct plan_recipe *r = &p->hidden->recipe, trial = *r;
	uint64_t most = 0, last = r->pp - 1;
	enum plim_status st = PLIM_OK;
	struct plan_result out;
	/* the first has most micro-batches on their way, the last the head; blocks may be one more in between */
	const uint64_t candidates[] = { 0, 1, last / 2, last };

	if (r->pp < 2 || o->stage)
		return PLIM_OK;
	for (size_t i = 0; !st && i < sizeof(candidates) / sizeof(candidates[0]); i++) {
		trial.stage = candidates[i] > last ? last : candidates[i];
		st = try_freely(p, &trial, &out, NULL, err);
		if (!st && out.peak_allocated_bytes > most) {
			most = out.peak_allocated_bytes;
			r->stage = trial.stage;
		}
	}
	return st;
}

enum plim_status plan_linger(struct plim_plan *p, uint64_t range[2], struct plim_err *err)
{
	static const enum plan_buckets ends[2] = { PLAN_BUCKETS_GO, PLAN_BUCKETS_LINGER };
	struct plan_recipe r = p->hidden->recipe;
	enum plim_status st = PLIM_OK;
	struct plan_result out;

	for (unsigned i = 0; !st && i < 2 && is_copied(&r); i++) {
		uint64_t needed = 0;

		r.buckets = ends[i];
		st = try_freely(p, &r, &out, &needed, err);
		if (!st && (i ? needed > range[1] : needed < range[0]))
			range[i] = needed;
	}
	return st;
}
