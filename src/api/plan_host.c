/* The machine's own memory: what a job keeps there, and whether there is enough. */
#include "plan.h"

/* What no run was measured of: DeepSpeed, TRL, NVMe, several processes, checkpoints that were gathered. */
static int is_measured(const struct plan_recipe *r)
{
	return r->gpus == 1 && r->activations <= PLAN_SAVE_ON_CPU_PINNED && !r->optimizer_on &&
	       !r->parameters_on && r->save == PLAN_SAVE_NONE &&
	       r->optimizer != PLAN_ADAMW_PAGED;
}

/*
 * In hundredths.  Loading is left out of the least: a model that is made on the GPU, or read with a device map, never is in
 * the machine's memory as a whole.
 */
static uint64_t least(const struct plan_host *h, const struct plan_recipe *r)
{
	uint64_t bytes = h->peak_bytes - h->bytes[PLAN_HOST_LOADING];

	return bytes / 100 * (is_measured(r) ? 93 : 75);
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

enum plim_status plan_take_host(struct plim_plan *p, const struct plim_plan_options *o,
				struct plim_err *err)
{
	const struct plan_host *h = &p->hidden->plan->host;
	const struct plan_recipe *r = &p->hidden->recipe;

	take_parts(&p->host, h);
	p->host_bytes = h->peak_bytes;
	p->host.basis = is_measured(r) ? "measured" : "assumed";
	p->host.limit_bytes = o->host_memory_bytes;
	p->host.range_bytes = mem_new(&p->hidden->mem, 2, sizeof(uint64_t), err);
	if (!p->host.range_bytes)
		return mem_status(err);
	p->host.range_count = 2;
	p->host.range_bytes[0] = least(h, r);
	p->host.range_bytes[1] = plan_host_at_most(h, r);
	if (o->host_memory_bytes == PLIM_UNKNOWN)
		return PLIM_OK;
	p->hidden->host_fits = p->host.range_bytes[1] <= o->host_memory_bytes;
	p->host.fits = &p->hidden->host_fits;
	return PLIM_OK;
}
