/*
 * A plan kept as a snapshot, or as a page: what a recording of the run would be.  Its stacks have no lines of Python but
 * the module and the operation that ask for a tensor, inside of the frames by which a recording shows what runs (phases.c).
 * Categories stand in user_metadata, phases in the annotations.
 */
#include "commands/out.h"
#include "commands/page.h"
#include "plan/plan.h"

#include <plimsoll/page.h>

#include <stdio.h>
#include <string.h>

#define TORCH "/site-packages/torch/"
#define FRAMES 6

/* As PyTorch's profiler calls an optimizer's step. */
static const char *const optimizer_classes[PLAN_OPTIMIZERS] = {
	[PLAN_ADAMW] = "AdamW",
	[PLAN_ADAMW_FUSED] = "AdamW",
	[PLAN_ADAMW_LOOP] = "AdamW",
	[PLAN_SGD] = "SGD",
	[PLAN_SGD_MOMENTUM] = "SGD",
	[PLAN_ADAFACTOR] = "Adafactor",
	[PLAN_ADAMW_8BIT] = "AdamW8bit",
	[PLAN_ADAMW_PAGED] = "PagedAdamW",
	[PLAN_ADAMW_PAGED_8BIT] = "PagedAdamW8bit",
	[PLAN_ADAMW_AO_8BIT] = "AdamW8bit",
	[PLAN_ADAMW_AO_4BIT] = "AdamW4bit",
};

/* A plan as a recording that has neither addresses nor segments yet. */
struct recorded {
	struct plim_plan *p;
	struct mem *mem;
	struct plim_err *err;
	struct snapshot *t;
	const struct plan_phase_kind *phase; /* that the op is in; NULL: one without frames */
	uint32_t *stack;                     /* by op */
	int64_t *time_us;
	uint32_t *labels, *stacks; /* by request */
	uint32_t bare; /* the stack of what is freed in this phase; TRACE_NONE: not made yet */
	uint32_t ids[FRAMES];
	uint32_t depth; /* frames of the stack that is being made */
	enum plim_status status;
};

static uint32_t add_string(struct recorded *r, const char *s)
{
	uint32_t id = TRACE_NONE;

	if (!r->status)
		r->status = intern_add(&r->t->heap.strings, s, strlen(s), &id, r->err);
	return id;
}

static void push_frame(struct recorded *r, const char *file, const char *name)
{
	struct snapshot_frame f = { add_string(r, name), add_string(r, file), TRACE_NONE };

	if (!r->status && r->depth < FRAMES)
		r->status = intern_add(&r->t->frames, &f, sizeof(f), &r->ids[r->depth++], r->err);
}

static void push_phase(struct recorded *r, const struct plan_phase_kind *phase)
{
	for (unsigned i = 0; phase && i < 2 && phase->frames[i].file; i++)
		push_frame(r, phase->frames[i].file, phase->frames[i].name);
}

/* A whole step that is one phase has the frames of its passes. */
static const struct plan_phase_kind *phase_of(const struct recorded *r,
					      const struct plan_site *site)
{
	if (!r->phase || strcmp(r->phase->begins, "longest") != 0)
		return r->phase;
	if (site->pass != PLAN_FORWARD_PASS)
		return plan_phase_kind("bwd");
	return *site->place ? plan_phase_kind("fwd") : NULL;
}

static uint32_t end_stack(struct recorded *r)
{
	uint32_t id = TRACE_NONE;

	if (!r->status)
		r->status = intern_add(&r->t->stacks, r->ids, r->depth * sizeof(r->ids[0]), &id,
				       r->err);
	r->depth = 0;
	return id;
}

/* Module and operation, and what lies around them. */
static uint32_t stack_of(struct recorded *r, uint32_t request)
{
	const struct plan *plan = r->p->hidden->plan;
	unsigned category = plan->categories[request];
	struct plan_site site;
	char op[64];

	plan_site_of(r->p, request, &site);
	snprintf(op, sizeof(op), "%s%s", site.op ? site.op : timeline_category_names[category],
		 site.op && site.pass == PLAN_BACKWARD_PASS ? "_backward" : "");
	push_frame(r, *site.place ? site.place : site.op ? "model" : "loop", op);
	if (category == TIMELINE_INPUT)
		return end_stack(r); /* the loop makes it, outside of all modules */
	if (category == TIMELINE_KV_CACHE)
		push_frame(r, "/site-packages/transformers/cache_utils.py", "update");
	if (category == TIMELINE_OPTIMIZER_STATE)
		push_frame(r, TORCH "optim/optimizer.py", "_init_group");
	if (site.pass == PLAN_SECOND_PASS) {
		push_frame(r, TORCH "nn/modules/module.py", "_call_impl");
		push_frame(r, TORCH "utils/checkpoint.py", "recompute_fn");
	}
	push_phase(r, phase_of(r, &site));
	return end_stack(r);
}

static void annotate(struct recorded *r, const char *name, uint32_t op, int end)
{
	struct snapshot_annotation a = { .time_us = r->time_us[op],
					 .name = add_string(r, name),
					 .end = (uint8_t)end };

	if (!r->status)
		r->status = vec_push(r->mem, &r->t->annotations, a, r->err);
}

/* A phase of ops [begin, end): its name, and what PyTorch calls an optimizer's step. */
static void mark_phase(struct recorded *r, const char *name, uint32_t begin, uint32_t end)
{
	const char *class = optimizer_classes[r->p->hidden->recipe.optimizer];
	char step[64];
	int steps = !strncmp(name, "opt", 3);

	if (begin >= end)
		return;
	snprintf(step, sizeof(step), "Optimizer.step#%s.step", class ? class : "Optimizer");
	annotate(r, name, begin, 0);
	if (steps)
		annotate(r, step, begin, 0);
	if (steps)
		annotate(r, step, end - 1, 1);
	annotate(r, name, end - 1, 1);
}

/* Each op becomes an event of that number: its stack, and a microsecond of its own. */
static void fill_ops(struct recorded *r)
{
	const struct plan *plan = r->p->hidden->plan;
	struct program *program = plan->program;
	uint32_t begin = 0;

	for (size_t i = 0; !r->status && i < plan->phases.n; i++) {
		const struct plan_phase *phase = &plan->phases.at[i];

		r->phase = plan_phase_kind(phase->name);
		r->bare = TRACE_NONE;
		for (uint32_t op = begin; !r->status && op < phase->end; op++) {
			struct program_op *o = &program->ops.at[op];

			r->time_us[op] = op + 1;
			o->event = op;
			if (program_allocates(o->kind)) {
				r->stacks[o->request] = r->stack[op] = stack_of(r, o->request);
				continue;
			}
			if (r->bare == TRACE_NONE) {
				push_phase(r, r->phase);
				r->bare = end_stack(r);
			}
			r->stack[op] = r->bare;
		}
		mark_phase(r, phase->name, begin, phase->end);
		begin = phase->end;
	}
	for (uint32_t op = begin; op < program->ops.n; op++) { /* behind the last phase */
		r->time_us[op] = op + 1;
		r->stack[op] = r->bare;
		program->ops.at[op].event = op;
	}
}

static void fill_labels(struct recorded *r)
{
	const struct plan *plan = r->p->hidden->plan;
	uint32_t names[TIMELINE_CATEGORIES];

	for (int k = 0; k < TIMELINE_CATEGORIES; k++)
		names[k] = add_string(r, timeline_category_names[k]);
	for (size_t i = 0; !r->status && i < plan->program->requests.n; i++)
		r->labels[i] = names[plan->categories[i]];
}

static enum plim_status fill_planned(struct recorded *r)
{
	char peak[sizeof(RECORDING_PLAN_PEAK) + 24];

	r->t->has_time = r->t->has_traces = r->t->has_frames = r->t->has_annotations = 1;
	r->status = vec_push(r->mem, &r->t->streams, (int64_t)0, r->err);
	if (!r->status && r->p->hidden->plan->program->ops.n) {
		r->time_us[0] = 1;
		snprintf(peak, sizeof(peak), "%s%llu", RECORDING_PLAN_PEAK,
			 (unsigned long long)r->p->peak.allocated_bytes);
		annotate(r, RECORDING_PLAN_MARK, 0, 0);
		annotate(r, peak, 0, 0);
	}
	if (!r->status)
		fill_ops(r);
	if (!r->status)
		fill_labels(r);
	return r->status;
}

static enum plim_status keep_planned(const struct plim_plan *p, const struct recording_taker *to,
				     struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	size_t ops = h->plan->program->ops.n, requests = h->plan->program->requests.n;
	struct recorded r = { .p = (struct plim_plan *)(uintptr_t)p, .mem = &h->mem, .err = err };
	struct snapshot_device device = { .events.n = ops };
	struct recording_run run = {
		.program = h->plan->program,
		.how = { .rules = &h->rules, .bounds = h->bounds, .way = ALLOCATOR_LOWEST },
		.device_bytes = h->bounded ? p->limit_bytes : 0,
		.settings = h->settings
	};
	enum plim_status st = snapshot_new(&h->mem, &r.t, err);

	r.stack = st ? NULL : mem_new(&h->mem, ops, sizeof(*r.stack), err);
	r.time_us = r.stack ? mem_new(&h->mem, ops, sizeof(*r.time_us), err) : NULL;
	r.labels = r.time_us ? mem_new(&h->mem, requests, sizeof(*r.labels), err) : NULL;
	r.stacks = r.labels ? mem_new(&h->mem, requests, sizeof(*r.stacks), err) : NULL;
	st = r.stacks ? fill_planned(&r) : mem_status(err);
	if (!st) {
		device.events.stack = r.stack;
		device.events.time_us = r.time_us;
		r.t->devices = &device;
		r.t->device_count = 1;
		run.from = r.t;
		run.device = &device;
		run.labels = r.labels;
		run.stacks = r.stacks;
		st = recording_of_run(&h->mem, &run, to, err);
		r.t->devices = NULL;
		r.t->device_count = 0;
	}
	mem_free(&h->mem, r.stack, ops, sizeof(*r.stack));
	mem_free(&h->mem, r.time_us, ops, sizeof(*r.time_us));
	mem_free(&h->mem, r.stacks, requests, sizeof(*r.stacks));
	mem_free(&h->mem, r.labels, requests, sizeof(*r.labels));
	snapshot_free(r.t);
	return st;
}

enum plim_status plim_plan_snapshot(const struct plim_plan *p, const char *path,
				    struct plim_err *err)
{
	struct recording_taker to = { out_take_snapshot, (void *)(uintptr_t)path };
	struct plim_err own;

	return keep_planned(p, &to, err ? err : &own);
}

enum plim_status plim_plan_page(const struct plim_plan *p, struct plim_page *page,
				struct plim_err *err)
{
	struct plim_report_options options;
	struct page_run kept = { .mem = &p->hidden->mem,
				 .options = &options,
				 .title = p->hidden->title,
				 .limit_bytes = p->hidden->bounded ? p->limit_bytes : 0,
				 .page = page };
	struct recording_taker to = { page_take_run, &kept };
	struct plim_err own;

	plim_report_options_init(&options);
	return keep_planned(p, &to, err ? err : &own);
}
