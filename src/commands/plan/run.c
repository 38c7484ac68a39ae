/* plimsoll plan: composes the model, the recipe, the program and what is reported of it. */
#include "plan/plan.h"

#include "commands/out.h"
#include "commands/rungs.h"
#include "facts/facts.h"
#include "host/host.h"
#include "option_rows.h"

#include <stdlib.h>
#include <string.h>

void plim_plan_options_init(struct plim_plan_options *o)
{
	*o = (struct plim_plan_options){ PLAN_DEFAULTS };
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
	vec_release(&h->mem, &h->from_notes);
	vec_release(&h->mem, &h->defaults);
	vec_release(&h->mem, &h->lora_names);
	vec_release(&h->mem, &h->extra);
	if (h->traced.mem)
		plan_release_trace(&h->traced);
	for (size_t i = 0; i < h->retraced.n; i++)
		plan_free(h->retraced.at[i].plan);
	vec_release(&h->mem, &h->retraced);
	arena_release(&h->arena);
	vec_release(&h->mem, &h->lengths);
	text_release(&h->lora_targets);
	mem_free(&h->mem, p->phases, p->phase_count, sizeof(*p->phases));
	mem_free(&h->mem, p->ladder, p->ladder ? PLAN_LADDER_STEPS : 0, sizeof(*p->ladder));
	mem_free(&h->mem, p->learned, p->learned ? PLAN_LEARNED_MOST : 0, sizeof(*p->learned));
	mem_free(&h->mem, p->sweep, p->sweep_count, sizeof(*p->sweep));
	model_release(&h->quantized);
	model_release(&h->model);
	free(p);
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
		       "the run would end with an index error",
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

/* A name of the hub is what its library has fetched. */
static enum plim_status load_from_hub(struct plim_plan *p, const char *name, struct plim_err *err)
{
	char path[4096], folder[2048];
	const char *note;
	enum plim_status st;

	if (!model_find_in_hub(name, path, sizeof(path))) {
		model_hub_folder(folder, sizeof(folder));
		return err_set(
			err, PLIM_E_IO,
			"'%.200s' is not a file here; nothing is fetched from the hub, and its "
			"cache (%s) does not have it: give its config.json "
			"(https://huggingface.co/%.200s/resolve/main/config.json), or "
			"--params 8B",
			name, folder, name);
	}
	st = model_load(&p->hidden->model, path, err);
	note = st ? NULL
	       : p->hidden->redacts
		       ? "the model is read from the hub's cache"
		       : arena_text(&p->hidden->arena, err,
				    "the model is read from the hub's cache: %s", path);
	if (!st && !note)
		st = mem_status(err);
	return st ? st : vec_push(&p->hidden->mem, &p->hidden->from_notes, note, err);
}

/* A configuration of a run in the place of a model's. */
static enum plim_status tell_tool(struct plim_plan *p, const char *path, enum plim_status st,
				  struct plim_err *err)
{
	const char *tool = st == PLIM_E_FORMAT ? plan_tool_of(&p->hidden->mem, path) : NULL;

	return tool ? err_set(err, PLIM_E_FORMAT,
			      "'%.200s' configures a run (%s) and has no model: give it with "
			      "--from, next to a config.json",
			      path, tool)
		    : st;
}

static bool is_by_numbers(const struct model_numbers *n)
{
	return n->layers || n->hidden || n->heads || n->kv_heads || n->intermediate || n->vocab;
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

	if (path && (o->parameters || is_by_numbers(&n)))
		return err_set(err, PLIM_E_ARG,
			       "'%.200s' has the model's sizes: options for sizes are for a model "
			       "without a file; to change a size, edit a copy of config.json",
			       p->hidden->redacts ? "the file" : path);
	if (!path && !o->parameters && !o->layers && !o->extra_tensor_count)
		return err_set(
			err, PLIM_E_ARG,
			"no model is given: a config.json, a safetensors file, --params 8B, or "
			"--layers, --hidden and --heads");
	if (!path && o->parameters && !o->layers)
		return model_by_count(m, o->parameters, o->vocab, err);
	if (!path)
		return model_by_numbers(m, &n, err);
	if (model_is_hub_name(path))
		return load_from_hub(p, path, err);
	return tell_tool(p, path, model_load(m, path, err), err);
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

/* "2x H100" is two GPUs. */
static enum plim_status find_card(struct plim_plan *p, struct plim_plan_options *o,
				  struct plim_err *err)
{
	if (!o->gpu)
		return PLIM_OK;
	o->gpu = plan_card_of(p, o->gpu, &o->gpus, err);
	if (!o->gpu)
		return mem_status(err);
	p->hidden->gpu_by_size = facts_gpu_of_size(o->gpu, (char[200]){ 0 }, 200) != NULL;
	return facts_find_gpu(o->gpu, "options.memory_bytes", &p->hidden->gpu, err);
}

/* The run as it is planned, for whom it is to be pasted. */
static enum plim_status take_config(struct plim_plan *p, const struct plim_plan_options *o,
				    struct plim_err *err)
{
	struct plan_choice own = { .recipe = p->hidden->recipe, .settings = o->settings };
	const struct plim_plan_rung *rung = rungs_picked(p->ladder, p->ladder_count);
	enum plim_status st = plan_write_config(p, &own, &p->config, err);

	p->hidden->paste = o->paste;
	/* a file was read: what is to be changed in it is said in its own keys */
	if (!p->hidden->paste && rung && p->hidden->tool)
		p->hidden->paste = plan_keys_option(p->hidden->tool);
	if (!st && p->hidden->paste)
		st = plan_paste_for(rung ? &rung->config : &p->config, p->hidden->paste,
				    &p->hidden->pasted, err);
	return st;
}

/* Which release of Transformers runs it decides the weights' dtype: where it was not said, what the other way needs. */
static enum plim_status take_otherwise(struct plim_plan *p, const struct plim_plan_options *o,
				       struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	struct plan_recipe r = h->recipe;
	struct plan_result result;
	struct plan *plan = NULL;
	uint64_t needed = 0;
	enum plim_status st;
	char size[32], limit[32];

	if (!h->stored || o->transformers)
		return PLIM_OK;
	r.precision = r.precision == PLAN_BF16_PURE     ? PLAN_FP32
		      : r.precision == PLAN_FP16_LOADED ? PLAN_FP16_AUTOCAST
							: PLAN_BF16_AUTOCAST;
	plan_repeat_less(p, &r);
	st = plan_settle(p, &r, NULL, &plan, &result, &needed, err);
	plan_free(plan);
	if (st)
		return st;
	h->otherwise = plan_string(
		p, err,
		"%s; under Transformers 4 (--transformers 4.57), or with dtype=torch.float32, "
		"they are fp32 and the run needs %s%s%s",
		plan_stored_words, text_size(size, needed), p->fits ? " of " : "",
		p->fits ? text_size(limit, p->limit_bytes) : "");
	return h->otherwise ? PLIM_OK : mem_status(err);
}

static enum plim_status plan_all(struct plim_plan *p, const char *path, struct plim_plan_options *o,
				 struct plim_err *err)
{
	struct plan_result result;
	struct plim_plan_hidden *h = p->hidden;
	uint64_t needed = 0;
	enum plim_status st = find_card(p, o, err);

	if (!st)
		st = load_model(p, path, o, err);
	if (!st)
		take_sequence(p, o);
	if (!st)
		st = plan_read_recipe(p, o, err);
	if (!st && h->recipe.freeze != PLAN_FREEZE_NONE && !h->model.towers[MODEL_VISION].layers)
		st = plan_assume(p, "--freeze changes nothing: the model has no vision tower", err);
	else if (!st && h->recipe.freeze != PLAN_FREEZE_NONE)
		model_freeze_vision(&h->model, h->recipe.freeze == PLAN_FREEZE_PROJECTOR);
	if (!st)
		st = plan_find_limit(p, o, err);
	if (!st)
		st = plan_take_model(p, err);
	if (!st)
		st = plan_calibrate(p, o, err);
	if (!st)
		st = plan_pick_stage(p, o, err);
	if (!st)
		st = plan_show_steps(p, &result, &needed, err);
	if (!st && h->recipe.lora_rank && h->recipe.task == PLAN_TRAIN)
		p->model.trainable = h->plan->adapter_elements;
	if (!st)
		h->trust = plan_trust(p, &h->recipe, h->plan, h->plan->phases.n);
	if (!st)
		st = plan_take_peak(p, &result, needed, err);
	if (!st)
		plan_take_host(p, o);
	if (!st)
		st = plan_judge(p, err);
	if (!st && p->fits == PLIM_TRI_NO && !p->model.doubt_count)
		st = plan_climb(p, o, err);
	if (!st)
		st = plan_take_assumptions(p, o, err);
	if (!st)
		st = plan_find_largest(p, o, err);
	if (!st)
		st = plan_sweep(p, o->sweep, err);
	if (!st)
		st = take_otherwise(p, o, err);
	if (!st)
		st = take_config(p, o, err);
	return st ? st : take_names(p, path, o, err);
}

/* What a trace says in place of a model and a recipe: its model, its loop, its releases. */
static enum plim_status take_traced(struct plim_plan *p, const struct plim_plan_options *o,
				    struct plim_err *err)
{
	const struct plan_traced *t = &p->hidden->traced;
	struct plan_recipe *r = &p->hidden->recipe;
	enum plim_status st = plan_recipe_of_trace(p, o, err);

	p->batch = t->batch;
	p->sequence = t->sequence;
	p->model.family = *t->model && !p->hidden->redacts ? t->model : "module";
	p->model.parameters = t->parameters;
	p->model.trainable = r->task == PLAN_TRAIN ? t->trainable : 0;
	for (size_t i = 0; i < p->hidden->plan->program->requests.n; i++)
		if (p->hidden->plan->categories[i] == TIMELINE_PARAMETER)
			p->model.parameter_bytes += p->hidden->plan->program->requests.at[i].bytes;
	if (!st)
		st = plan_assume(p,
				 plan_string(p, err, "PyTorch %s%s%s on fake tensors (%s)",
					     t->torch, *t->transformers ? ", Transformers " : "",
					     t->transformers, t->way),
				 err);
	for (size_t i = 0; !st && !p->hidden->redacts && i < t->assumed.n; i++)
		st = plan_assume(p, t->assumed.at[i], err);
	for (size_t i = 0; !st && i < t->unsure.n; i++)
		st = vec_push(&p->hidden->mem, &p->hidden->doubts,
			      p->hidden->redacts ? "a condition of the script was guessed"
						 : t->unsure.at[i],
			      err);
	p->model.doubts = p->hidden->doubts.at;
	p->model.doubt_count = p->hidden->doubts.n;
	if (!st && p->hidden->redacts && t->assumed.n)
		st = plan_assume(p,
				 plan_string(p, err,
					     "%zu more, in words of the trace, which may name "
					     "modules",
					     t->assumed.n),
				 err);
	if (!st && p->hidden->gpu)
		st = plan_assume(
			p,
			plan_string(p, err,
				    "%llu MiB of the GPU are not PyTorch's (context, kernels)",
				    (unsigned long long)(PLAN_DEFAULT_allowance_bytes >> 20)),
			err);
	p->assumptions = p->hidden->assumptions.at;
	p->assumption_count = p->hidden->assumptions.n;
	return st;
}

/* A trace is of one recipe: what would change it is traced again (plan --trace). */
static enum plim_status refuse_changes(const struct plim_plan_options *o, struct plim_err *err)
{
	if (o->calibrate_count)
		return err_set(err, PLIM_E_UNSUPPORTED,
			       "a trace cannot be calibrated with recordings");
	if (o->from_count)
		return err_set(err, PLIM_E_UNSUPPORTED,
			       "--from cannot change the recipe of a trace: give it with the "
			       "model, or trace the run as it is configured");
	return PLIM_OK;
}

static enum plim_status climb_traced(struct plim_plan *p, const struct plim_plan_options *o,
				     struct plim_err *err)
{
	enum plim_status st = plan_climb(p, o, err);

	p->hidden->traces_rungs = o->trace != NULL;
	if (!st)
		st = plan_assume(
			p,
			o->trace ? "only changes that can be traced are listed; each was traced "
				   "separately"
				 : "only allocator settings are listed as changes: plan --trace "
				   "traces others, but not for a kept trace or a script",
			err);
	p->assumptions = p->hidden->assumptions.at;
	p->assumption_count = p->hidden->assumptions.n;
	return st;
}

static enum plim_status plan_traced(struct plim_plan *p, const char *path,
				    struct plim_plan_options *o, struct plim_err *err)
{
	struct plim_plan_hidden *h = p->hidden;
	struct plan_result result;
	uint64_t needed = 0;
	enum plim_status st = refuse_changes(o, err);

	h->traced = (struct plan_traced){ .mem = &h->mem, .arena = &h->arena };
	h->options = o;
	if (!st)
		st = find_card(p, o, err);
	if (!st)
		st = plan_read_trace(&h->traced, path, &h->plan, err);
	if (!st)
		st = plan_check_asked(o, &h->traced.asked, err);
	if (!st)
		st = allocator_rules_parse(o->settings ? o->settings : "", o->torch, &h->rules,
					   err);
	if (!st)
		st = take_traced(p, o, err);
	if (!st)
		st = plan_find_limit(p, o, err);
	if (!st)
		st = plan_measure_needed(h->plan, &h->rules, UINT64_MAX, &result, &needed, err);
	if (!st) {
		plan_trust_trace(&h->traced, &h->trust);
		st = plan_take_peak(p, &result, needed, err);
	}
	if (!st)
		st = plan_judge(p, err);
	if (!st && p->fits == PLIM_TRI_NO)
		st = climb_traced(p, o, err);
	p->max_batch = p->max_sequence = p->max_resident = PLIM_UNKNOWN;
	p->max_batch_range = p->max_sequence_range = p->max_resident_range = INTERVAL_UNKNOWN;
	if (!st)
		st = plan_find_largest(p, o, err);
	if (!st)
		st = plan_sweep(p, o->sweep, err);
	p->assumptions = h->assumptions.at;
	p->assumption_count = h->assumptions.n;
	h->options = NULL;
	return st ? st : take_names(p, path, o, err);
}

enum plim_status plim_plan_open(const char *path, const struct plim_plan_options *options,
				struct plim_plan **out, struct plim_err *err)
{
	struct plim_plan_options o = { 0 };
	struct plim_plan *p;
	struct plim_err own;
	enum plim_status st;

	*out = NULL;
	err = err ? err : &own; /* inner floors read the status back from it */
	st = OUT_NEW(plan, p, &o, options, err);
	if (st)
		return st;
	if (!o.max_memory_bytes)
		o.max_memory_bytes = host_memory_limit();
	mem_init(&p->hidden->mem, o.max_memory_bytes);
	arena_init(&p->hidden->arena, &p->hidden->mem);
	model_init(&p->hidden->model, &p->hidden->mem);
	model_init(&p->hidden->quantized, &p->hidden->mem);
	text_init(&p->hidden->lora_targets, &p->hidden->mem, NULL);
	p->dies_request_bytes = p->dies_allocated_bytes = p->host_bytes = p->unexplained_bytes =
		PLIM_UNKNOWN;
	p->batch = o.batch;
	p->hidden->redacts = (o.flags & PLIM_PLAN_REDACT) != 0;
	st = plan_read_from(p, path, NULL, &o, err);
	if (!path && !o.layers && !o.parameters)
		path = p->hidden->from_model;
	if (o.paste && plan_keys_tool(o.paste))
		p->hidden->tool = plan_keys_tool(o.paste);
	p->batch = o.batch;
	if (!st)
		st = path && plan_is_trace(&p->hidden->mem, path) ? plan_traced(p, path, &o, err)
								  : plan_all(p, path, &o, err);
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
