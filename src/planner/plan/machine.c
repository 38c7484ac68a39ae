/* The machine's own memory: what a job keeps there, and whether there is enough. */
#include "plan/plan.h"

/* Not measured: DeepSpeed, TRL, NVMe, paged states, and what is in memory for a moment while files are written. */
static int is_measured(const struct plan_recipe *r)
{
	int files = r->save == PLAN_SAVE_TORCH || r->save == PLAN_SAVE_PRETRAINED ||
		    r->save == PLAN_SAVE_STATE || (r->save == PLAN_SAVE_FULL && plan_is_sharded(r));

	return r->activations <= PLAN_SAVE_ON_CPU_PINNED && !plan_is_deepspeed(r) && !files &&
	       !plan_is_paged(r);
}

/*
 * Loading is left out of the least: a model that is made on the GPU, or read with a device map, never is in the machine's
 * memory as a whole.
 */
static uint64_t machine_least(const struct plan *plan, const struct plan_recipe *r)
{
	uint64_t bytes = 0;

	for (size_t i = 1; i < plan->phases.n; i++)
		if (plan->phases.at[i].host_bytes > bytes)
			bytes = plan->phases.at[i].host_bytes;
	return bytes / 100 * (!is_measured(r) ? 75 : r->parameters_on ? 85 : 93);
}

uint64_t plan_host_at_most(const struct plan_host *h, const struct plan_recipe *r)
{
	return h->peak_bytes + h->peak_bytes / 100 * (is_measured(r) ? 10 : 30);
}

static void take_parts(struct plim_plan_host *to, const struct plan_host *h)
{
	to->bytes = h->peak_bytes;
	to->process_bytes = h->bytes[PLAN_HOST_PROCESS];
	to->weight_bytes = h->bytes[PLAN_HOST_WEIGHTS];
	to->gradient_bytes = h->bytes[PLAN_HOST_GRADIENTS];
	to->optimizer_state_bytes = h->bytes[PLAN_HOST_STATES];
	to->activation_bytes = h->bytes[PLAN_HOST_ACTIVATIONS];
	to->buffer_bytes = h->bytes[PLAN_HOST_BUFFERS];
	to->loading_bytes = h->bytes[PLAN_HOST_LOADING];
	to->saving_bytes = h->bytes[PLAN_HOST_SAVING];
	to->pinned_bytes = h->pinned_bytes;
	to->processes = h->processes;
}

void plan_take_host(struct plim_plan *p, const struct plim_plan_options *o)
{
	const struct plan_host *h = &p->hidden->plan->host;
	const struct plan_recipe *r = &p->hidden->recipe;

	take_parts(&p->host, h);
	p->host_bytes = h->peak_bytes;
	p->host.basis = plan_basis_names[is_measured(r) ? PLAN_DERIVED : PLAN_ASSUMED];
	p->host.limit_bytes = o->host_memory_bytes;
	p->host.range_bytes = (struct plim_interval){ machine_least(p->hidden->plan, r),
						      plan_host_at_most(h, r) };
	if (o->host_memory_bytes == PLIM_UNKNOWN)
		return;
	p->host.fits = tri(p->host.range_bytes.high <= o->host_memory_bytes);
	for (size_t i = 0; i < p->phase_count && !p->host.dies_at; i++)
		if (p->phases[i].host_bytes > o->host_memory_bytes)
			p->host.dies_at = p->phases[i].phase;
}

/* ---- what was taken for granted ---- */

static bool several(const struct plim_plan *p)
{
	return p->host.processes > 1;
}

static bool loads(const struct plim_plan *p)
{
	return p->host.loading_bytes > 0;
}

static bool pages(const struct plim_plan *p)
{
	return plan_is_paged(&p->hidden->recipe);
}

static bool offloads_checkpoints(const struct plim_plan *p)
{
	return p->hidden->recipe.activations == PLAN_OFFLOAD_CHECKPOINTS;
}

static bool streams(const struct plim_plan *p)
{
	return p->hidden->recipe.activations == PLAN_OFFLOAD_STREAMS;
}

static bool is_deepspeed(const struct plim_plan *p)
{
	return plan_is_deepspeed(&p->hidden->recipe);
}

static bool swaps(const struct plim_plan *p)
{
	return p->hidden->recipe.optimizer_on == PLAN_ON_NVME ||
	       p->hidden->recipe.parameters_on == PLAN_ON_NVME;
}

static bool is_judged(const struct plim_plan *p)
{
	return p->host.fits != PLIM_TRI_UNKNOWN;
}

static const struct {
	bool (*holds)(const struct plim_plan *p);
	const char *text;
} taken[] = {
	{ several, "up to 8 processes share a machine and its memory" },
	{ loads, "the model is read into the machine's memory first (from_pretrained without a "
		 "device map)" },
	{ pages,
	  "paged states are in unified memory: on the GPU, next to what PyTorch counts, while "
	  "it has room" },
	{ offloads_checkpoints,
	  "checkpoints are offloaded by Transformers 5.17, told to the Trainer or with "
	  "gradient_checkpointing_enable(offload=True); among its kwargs the layers get it, and "
	  "ignore it" },
	{ streams,
	  "TRL's offload keeps five tensors until their copies are done, and offloads each "
	  "storage once" },
	{ is_deepspeed,
	  "DeepSpeed with buckets of 50,000,000 elements (reduce_bucket_size), pinned "
	  "memory and no overlap" },
	{ swaps, "on NVMe as ZeRO-3 does, sharded as FSDP 2: host memory holds its swap buffers "
		 "(buffer_count, buffer_size, sub_group_size)" },
	{ is_judged, "workers of data loaders, and files in the page cache, are not counted" },
};

enum plim_status plan_assume_host(struct plim_plan *p, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < sizeof(taken) / sizeof(taken[0]); i++)
		if (taken[i].holds(p))
			st = plan_assume(p, taken[i].text, err);
	return st;
}
