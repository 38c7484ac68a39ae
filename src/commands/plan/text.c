/* The answer for a person: does it fit, what fills the peak, what was assumed. */
#include "commands/out.h"
#include "commands/rungs.h"
#include "facts/facts.h"
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#define BAR 30 /* columns of the largest part */
#define BAR_LEAST 8
#define PARTS_WIDE 29 /* columns in front of a bar */
#define NARROW 64     /* columns below which tables have fewer */

static unsigned plan_width_of(const struct text *t)
{
	return t->style.width ? t->style.width : 80;
}

/* What is planned, so that no one takes it for something else. */
static void recipe(struct text *t, const struct plim_plan *p)
{
	static const char *const checkpointed[PLAN_CHECKPOINTINGS] = {
		[PLAN_CHECKPOINT_NONE] = "",
		[PLAN_CHECKPOINT_FULL] = ", checkpointed",
		[PLAN_CHECKPOINT_VISION] = ", vision tower checkpointed",
		[PLAN_CHECKPOINT_SELECTIVE] = ", checkpointed except for attention and products",
	};
	const struct plan_recipe *r = &p->hidden->recipe;
	const struct model *m = &p->hidden->model;
	const struct model_numbers *eye = &m->towers[MODEL_VISION];
	uint64_t configured = eye->image_tokens ? 0 : eye->image_size;
	uint64_t side = r->image_size ? r->image_size : configured;
	struct text words;
	char a[32];

	text_init(&words, t->mem, &t->style);
	if (r->task == PLAN_TRAIN)
		text_printf(&words, "to train in %s with %s", plan_precision_names[r->precision],
			    plan_optimizer_names[r->optimizer]);
	else
		text_printf(&words, "to %s in %s", plan_task_names[r->task],
			    r->precision == PLAN_BF16_PURE ? "bf16"
							   : plan_precision_names[r->precision]);
	text_printf(&words, ": batch %s", text_number(a, p->batch));
	if (m->towers[MODEL_TEXT].layers)
		text_printf(&words, ", sequence %s", text_number(a, p->sequence));
	if (plan_is_beyond(m, r))
		text_printf(&words, " (the model was made for %s)",
			    text_number(a, m->towers[MODEL_TEXT].positions));
	if (eye->layers && side)
		text_printf(&words, ", images of %s pixels", text_number(a, side));
	else if (eye->layers && m->towers[MODEL_TEXT].layers)
		text_puts(&words, ", text without images");
	if (r->task == PLAN_GENERATE)
		text_printf(&words, ", %s new tokens", text_number(a, r->new_tokens));
	text_printf(&words, ", attention %s%s%s", plan_attention_names[r->attention],
		    r->lora_rank ? ", adapters (LoRA) alone" : "", checkpointed[r->checkpointing]);
	if (r->selects_ops)
		text_puts(&words, " but every second one");
	if (r->checkpointing && r->checkpoint_every > 1)
		text_printf(&words, " (one block of %s)", text_number(a, r->checkpoint_every));
	if (r->gpus > 1)
		text_printf(&words, "; one of %s GPUs", text_number(a, r->gpus));
	else if (r->parallel != PLAN_ALONE)
		text_puts(&words, "; one GPU");
	if (r->parallel != PLAN_ALONE)
		text_printf(&words, ", %s",
			    plan_is_deepspeed(r) && plan_is_sharded(r)
				    ? "zero3"
				    : plan_parallel_names[r->parallel]);
	if (r->tp > 1)
		text_printf(&words, ", each layer on %s", text_number(a, r->tp));
	if (r->pp > 1)
		text_printf(&words, ", stage %llu of %llu", (unsigned long long)r->stage + 1,
			    (unsigned long long)r->pp);
	text_puts(t, "  ");
	text_wrap(t, 2, 2, "%s", text_get(&words));
	text_release(&words);
}

/* Does DeepSpeed make 16 bits of weights that were loaded in fp32? */
static bool is_halved(const struct plan_recipe *r)
{
	return r->task == PLAN_TRAIN && (plan_is_zero(r) || plan_is_deepspeed(r)) && !r->quantize &&
	       (r->precision == PLAN_BF16_AUTOCAST || r->precision == PLAN_FP16_AUTOCAST);
}

/* Autocast is over fp32, which adapters do not need: nothing that is frozen steps. */
static void frozen(struct text *t, const struct plim_plan *p)
{
	const struct plan_recipe *r = &p->hidden->recipe;
	const char *half = r->precision == PLAN_BF16_AUTOCAST ? "bf16" : "fp16";
	char a[32];

	if (r->task != PLAN_TRAIN || !r->lora_rank || r->quantize || is_halved(r) ||
	    (r->precision != PLAN_BF16_AUTOCAST && r->precision != PLAN_FP16_AUTOCAST))
		return;
	text_puts(t, "  ");
	if (plan_is_fsdp1(r))
		text_wrap(t, 2, 2, "the frozen weights are in fp32; in 16 bits they are %s less",
			  text_size(a, p->model.parameter_bytes / 2));
	else
		text_wrap(t, 2, 2,
			  "the frozen weights are in fp32; in %s they are %s less: --precision "
			  "%s-weights, from_pretrained(dtype=torch.%s)",
			  half, text_size(a, p->model.parameter_bytes / 2), half,
			  r->precision == PLAN_BF16_AUTOCAST ? "bfloat16" : "float16");
}

/* The same of a trace, which says it in its own words; a script's batch is its own affair. */
static void traced(struct text *t, const struct plim_plan *p)
{
	const struct plan_traced *traced = &p->hidden->traced;
	struct text words;
	char a[32];

	text_init(&words, t->mem, &t->style);
	text_printf(&words, "traced, to %s", traced->task);
	if (*traced->recipe && !p->hidden->redacts)
		text_printf(&words, " in %s", traced->recipe);
	if (p->batch)
		text_printf(&words, ": batch %s", text_number(a, p->batch));
	if (p->batch && p->sequence)
		text_printf(&words, ", sequence %s", text_number(a, p->sequence));
	text_puts(t, "  ");
	text_wrap(t, 2, 2, "%s", text_get(&words));
	text_release(&words);
}

/* Of an architecture that is not known nothing is known to be right: what another one would need is not shown. */
static bool is_unlike(const struct plim_plan *p)
{
	return p->model.guessed && !p->hidden->model.from_header;
}

static void head_unlike(struct text *t, const struct plim_plan *p)
{
	const char *declared = p->hidden->model.declared;

	text_hue(t, TEXT_HEAD);
	text_puts(t, *declared && !p->hidden->redacts ? declared : "a model");
	text_plain(t);
	text_puts(t, ": an architecture that is not known here\n");
}

static void head_known(struct text *t, const struct plim_plan *p)
{
	bool halved = !p->hidden->traced.mem && is_halved(&p->hidden->recipe);
	char a[32], b[32], c[32];

	text_hue(t, TEXT_HEAD);
	text_puts(t, p->model.family);
	text_plain(t);
	text_wrap(t, (unsigned)strlen(p->model.family), 2, "%s: %s parameters, %s of weights%s%s%s",
		  p->model.guessed ? "?" : "", text_number(a, p->model.parameters),
		  text_size(b, p->model.parameter_bytes / (halved ? 2 : 1)), halved ? " (" : "",
		  halved ? text_size(c, p->model.parameter_bytes) : "", halved ? " loaded)" : "");
}

static void head(struct text *t, const struct plim_plan *p)
{
	if (is_unlike(p))
		head_unlike(t, p);
	else
		head_known(t, p);
	if (p->hidden->traced.mem) {
		traced(t, p);
	} else {
		recipe(t, p);
		frozen(t, p);
	}
	if (p->hidden->otherwise) {
		text_puts(t, "  ");
		text_wrap(t, 2, 2, "%s", p->hidden->otherwise);
	}
	text_puts(t, "\n");
}

static enum text_hue hue_of(enum plim_tri fits)
{
	return !fits ? TEXT_HEAD : fits == PLIM_TRI_YES ? TEXT_GOOD : TEXT_BAD;
}

/* "4.60 GiB to 4.71 GiB", or one of them where both read the same. */
static const char *range(char buffer[80], struct plim_interval bytes)
{
	char low[32], high[32];

	text_size(low, bytes.low);
	text_size(high, bytes.high);
	snprintf(buffer, 80, strcmp(low, high) ? "%s to %s" : "%s", low, high);
	return buffer;
}

/* What a batch or a sequence was looked for under: another choice may fit. */
static void looked_under(struct text *t, const struct plim_plan *p)
{
	const struct plan_recipe *r = &p->hidden->recipe;
	struct text words;
	char a[32];

	text_init(&words, t->mem, &t->style);
	text_printf(&words, "assumed for that: %s", plan_precision_names[r->precision]);
	if (r->task == PLAN_TRAIN)
		text_printf(&words, ", %s, %s", plan_optimizer_names[r->optimizer],
			    r->lora_rank ? "adapters alone trained" : "all weights trained");
	if (p->hidden->model.towers[MODEL_TEXT].layers)
		text_printf(&words, ", sequence %s", text_number(a, p->sequence));
	text_printf(&words, ", %s; what is reported below needs less",
		    r->checkpointing ? "checkpointed" : "not checkpointed");
	text_puts(t, "  ");
	text_wrap(t, 2, 2, "%s", text_get(&words));
	text_release(&words);
}

static void plan_largest(struct text *t, const struct plim_plan *p, const char *what, uint64_t sure,
			 struct plim_interval range)
{
	char a[32], b[32];

	if (range.low == PLIM_UNKNOWN)
		return;
	text_puts(t, "  ");
	if (sure == PLIM_UNKNOWN)
		text_wrap(t, 2, 2,
			  "largest %s that fits: not known; estimated from the traced sizes, %s to "
			  "%s",
			  what, text_number(a, range.low), text_number(b, range.high));
	else if (!range.high) {
		text_wrap(t, 2, 2, "no %s fits", what);
		looked_under(t, p);
	} else if (range.low == range.high)
		text_wrap(t, 2, 2, "largest %s that fits: %s", what, text_number(a, range.low));
	else if (!range.low)
		text_wrap(t, 2, 2, "no %s surely fits; perhaps %s does", what,
			  text_number(b, range.high));
	else
		text_wrap(t, 2, 2, "largest %s that fits: %s, perhaps %s", what,
			  text_number(a, range.low), text_number(b, range.high));
}

#define LIMIT_TEXT 96

/* The limit; of several GPUs with one size its name, and of decimal units both. */
static const char *limit_text(char out[LIMIT_TEXT], const struct plim_plan *p)
{
	char size[32];

	text_size(size, p->limit_bytes);
	if (p->hidden->gpu && p->hidden->gpu_by_size)
		(void)snprintf(out, LIMIT_TEXT, "%s (%s)", size, p->hidden->gpu->name);
	else if (p->limit_bytes && p->limit_bytes % 1000000000 == 0)
		(void)snprintf(out, LIMIT_TEXT, "%s (%llu GB)", size,
			       (unsigned long long)p->limit_bytes / 1000000000);
	else
		(void)snprintf(out, LIMIT_TEXT, "%s", size);
	return out;
}

/* Why there is no verdict, and what would give one. */
static void doubts(struct text *t, const struct plim_plan *p)
{
	char a[32], b[LIMIT_TEXT], c[80];

	text_hue(t, TEXT_BAD);
	text_puts(t, p->hidden->floor_bytes ? "Does not fit: " : "No verdict: ");
	text_plain(t);
	if (p->hidden->floor_bytes) {
		text_wrap(t, 14, 2, "%s alone are at least %s, but only %s is available",
			  strcmp(p->dies_at, "load")
				  ? "weights, gradients and the optimizer's states"
				  : "its weights",
			  text_size(a, p->hidden->floor_bytes), limit_text(b, p));
		text_puts(t, "  ");
	}
	for (size_t i = 0; i < p->model.doubt_count; i++) {
		if (i)
			text_puts(t, "  ");
		text_wrap(t, i || p->hidden->floor_bytes ? 2 : 12, 2, "%s", p->model.doubts[i]);
	}
	if (is_unlike(p))
		return;
	text_puts(t, "  ");
	if (p->hidden->bounded)
		text_wrap(t, 2, 2, "the counted part needs %s (%s) of %s; the rest is unknown",
			  text_size(a, p->peak.needed_bytes), range(c, p->peak.needed_range_bytes),
			  limit_text(b, p));
	else
		text_wrap(t, 2, 2, "the counted part needs %s (%s); the rest is unknown",
			  text_size(a, p->peak.needed_bytes), range(c, p->peak.needed_range_bytes));
	if (p->model.doubt_count > p->hidden->partly_read && !p->hidden->traced.unsure.n) {
		text_puts(t, "  ");
		text_wrap(t, 2, 2, "exact parameters: plan the folder with its .safetensors files");
	}
	if (p->hidden->partly_read) {
		text_puts(t, "  ");
		text_wrap(t, 2, 2,
			  "the run as it is configured: plan -- python train.py traces it");
	}
}

static void plan_verdict(struct text *t, const struct plim_plan *p)
{
	char a[32], b[LIMIT_TEXT], c[80], words[64];

	if (p->model.doubt_count) {
		doubts(t, p);
		return;
	}

	text_hue(t, hue_of(p->fits));
	text_puts(t, !p->fits                  ? "Needs "
		     : p->fits == PLIM_TRI_YES ? "Fits: "
		     : p->dies_at              ? "Does not fit: "
					       : "May not fit: ");
	text_plain(t);
	if (!p->fits)
		text_wrap(t, 6, 2, "%s (%s)", text_size(a, p->peak.needed_bytes),
			  range(c, p->peak.needed_range_bytes));
	else if (p->fits == PLIM_TRI_YES)
		text_wrap(t, 6, 2, "it needs %s (%s) of %s; %s remain",
			  text_size(a, p->peak.needed_bytes), range(c, p->peak.needed_range_bytes),
			  limit_text(b, p),
			  text_size((char[32]){ 0 }, p->limit_bytes - p->peak.needed_bytes));
	else if (!p->dies_at)
		text_wrap(t, 13, 2, "it needs %s (%s) of %s, which is too close to call",
			  text_size(a, p->peak.needed_bytes), range(c, p->peak.needed_range_bytes),
			  limit_text(b, p));
	else
		text_wrap(
			t, 14, 2,
			"it needs %s (%s), but only %s is available. It dies in %s, asking for %s",
			text_size(a, p->peak.needed_bytes), range(c, p->peak.needed_range_bytes),
			limit_text(b, p), plan_phase_words(words, p->dies_at),
			text_size((char[32]){ 0 }, p->dies_request_bytes));
	text_puts(t, "  ");
	text_wrap(t, 2, 2, "with memory to spare: %s allocated, %s reserved",
		  text_size(a, p->peak.allocated_bytes), text_size(b, p->peak.reserved_bytes));
	plan_largest(t, p, "batch", p->max_batch, p->max_batch_range);
	plan_largest(t, p, "sequence", p->max_sequence, p->max_sequence_range);
	plan_largest(t, p, "number of components", p->max_resident, p->max_resident_range);
}

/* What these numbers are worth, and why no more. */
static void basis(struct text *t, const struct plim_plan *p)
{
	struct text words;

	text_init(&words, t->mem, &t->style);
	text_puts(&words, p->peak.basis);
	for (size_t i = 0; i < p->peak.reason_count; i++)
		text_printf(&words, "%s%s", i ? "; " : ": ", p->peak.reasons[i]);
	if (!p->peak.reason_count && !strcmp(p->peak.basis, plan_basis_names[PLAN_DERIVED]))
		text_puts(&words, ": PyTorch's rules, checked against measured runs");
	text_puts(t, "  ");
	text_wrap(t, 2, 2, "%s", text_get(&words));
	text_release(&words);
}

struct part {
	const char *name;
	uint64_t bytes;
};

/* A line each, with a bar; what would have none is left out. */
static void put_parts(struct text *t, const struct part *parts, size_t n)
{
	unsigned wide = plan_width_of(t) > PARTS_WIDE + BAR_LEAST ? plan_width_of(t) - PARTS_WIDE
								  : BAR_LEAST;
	uint64_t most = 1;

	for (size_t i = 0; i < n; i++)
		most = parts[i].bytes > most ? parts[i].bytes : most;
	for (size_t i = 0; i < n; i++) {
		char size[32];

		if (!parts[i].bytes || parts[i].bytes < most / 1000)
			continue;
		text_printf(t, "  %-13s %11s  ", parts[i].name, text_size(size, parts[i].bytes));
		text_bar(t, parts[i].bytes, most, wide < BAR ? wide : BAR);
		text_puts(t, "\n");
	}
}

static void composition(struct text *t, const struct plim_plan *p)
{
	const struct plim_plan_categories *c = &p->peak.categories;
	const struct part parts[] = {
		{ "weights", c->parameter_bytes },           { "gradients", c->gradient_bytes },
		{ "optimizer", c->optimizer_state_bytes },   { "activations", c->activation_bytes },
		{ "KV cache", c->kv_cache_bytes },           { "input", c->input_bytes },
		{ "workspaces", c->workspace_bytes },        { "temporary", c->temporary_bytes },
		{ "in backward", c->autograd_detail_bytes }, { "buffers", c->buffer_bytes },
		{ "other tensors", c->other_bytes },         { "rounding", c->rounding_bytes },
	};

	out_head(t, "At the peak, in ");
	plan_put_phase(t, p->peak.phase);
	text_puts(t, "\n");
	put_parts(t, parts, sizeof(parts) / sizeof(parts[0]));
}

/* Shown where something is kept there, or it is judged. */
static void host(struct text *t, const struct plim_plan *p)
{
	const struct plim_plan_host *h = &p->host;
	const struct part parts[] = {
		{ "process", h->process_bytes },        { "weights", h->weight_bytes },
		{ "gradients", h->gradient_bytes },     { "optimizer", h->optimizer_state_bytes },
		{ "activations", h->activation_bytes }, { "buffers", h->buffer_bytes },
		{ "loading", h->loading_bytes },        { "saving", h->saving_bytes },
	};
	const char *judged = !h->fits                  ? ""
			     : h->fits == PLIM_TRI_YES ? "Fits: "
			     : h->dies_at              ? "Does not fit: "
						       : "May not fit: ";
	char a[32], b[32], c[32], words[64];
	struct text line;

	if (!h->fits && !h->pinned_bytes && h->bytes == h->process_bytes + h->loading_bytes)
		return;
	out_title(t, "In the machine's own memory");
	text_init(&line, t->mem, &t->style);
	text_printf(&line, "%s (%s to %s, %s)", text_size(a, h->bytes),
		    text_size(b, h->range_bytes.low), text_size(c, h->range_bytes.high), h->basis);
	if (h->fits)
		text_printf(&line, " of %s", text_size(a, h->limit_bytes));
	if (h->dies_at)
		text_printf(&line, "; %s needs more", plan_phase_words(words, h->dies_at));
	text_puts(t, "  ");
	text_hue(t, hue_of(h->fits));
	text_puts(t, judged);
	text_plain(t);
	text_wrap(t, 2 + (unsigned)strlen(judged), 2, "%s", text_get(&line));
	text_release(&line);
	put_parts(t, parts, sizeof(parts) / sizeof(parts[0]));
	if (!h->pinned_bytes)
		return;
	text_printf(t, "  %-13s %11s, ", "of it pinned", text_size(a, h->pinned_bytes));
	text_wrap(t, PARTS_WIDE, 2, "in blocks of powers of two");
}

/* ---- phases ---- */

#define NEAR_PCT 1 /* rows so near each other say nothing new */

static bool is_near(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) <= (a > b ? a : b) / 100 * NEAR_PCT;
}

/* Of one kind and one step, as large, and neither is where it dies? */
static bool is_repeated(const struct plim_plan *p, size_t a, size_t b)
{
	const struct plim_plan_phase *x = &p->phases[a], *y = &p->phases[b];
	size_t named = strcspn(x->phase, "0123456789");

	return x->phase != p->dies_at && y->phase != p->dies_at &&
	       named == strcspn(y->phase, "0123456789") && !strncmp(x->phase, y->phase, named) &&
	       plan_phase_step(x->phase) == plan_phase_step(y->phase) &&
	       !strcmp(x->basis, y->basis) &&
	       is_near(x->allocated_peak_bytes, y->allocated_peak_bytes) &&
	       is_near(x->allocated_bytes, y->allocated_bytes);
}

/* How many rows behind i, two at a time, are like the two at i: forward and backward passes of micro-batches. */
static size_t repeated(const struct plim_plan *p, size_t i)
{
	size_t n = 0;

	while (i + n + 3 < p->phase_count && is_repeated(p, i, i + n + 2) &&
	       is_repeated(p, i + 1, i + n + 3))
		n += 2;
	return n;
}

/* A row of phase i and of every second of the `more` rows behind its pair: the most of each column. */
static void phase_row(struct text_table *b, const struct plim_plan *p, size_t i, size_t more,
		      bool narrow, bool mixed)
{
	struct plim_plan_phase most = p->phases[i];
	const char *last = p->phases[i + more].phase;

	for (size_t k = i; k <= i + more; k += 2) {
		const struct plim_plan_phase *f = &p->phases[k];

		if (f->allocated_peak_bytes > most.allocated_peak_bytes)
			most.allocated_peak_bytes = f->allocated_peak_bytes;
		if (f->reserved_peak_bytes > most.reserved_peak_bytes)
			most.reserved_peak_bytes = f->reserved_peak_bytes;
		if (f->allocated_bytes > most.allocated_bytes)
			most.allocated_bytes = f->allocated_bytes;
	}
	plan_put_phase(text_cell(b), most.phase);
	if (more)
		text_printf(&b->cells, " to %s", last + strcspn(last, "0123456789"));
	text_puts(&b->cells, p->dies_at != most.phase ? "" : narrow ? " !" : ": dies");
	text_cell_end(b);
	text_cell_bytes(b, most.allocated_peak_bytes);
	text_cell_bytes(b, most.reserved_peak_bytes);
	if (!narrow)
		text_cell_bytes(b, most.allocated_bytes);
	if (!narrow && mixed)
		text_cell_printf(b, "%s", most.basis);
}

static void phases(struct text *t, const struct plim_plan *p)
{
	bool narrow = plan_width_of(t) < NARROW, mixed = false;
	struct text_table b;

	for (size_t i = 0; i < p->phase_count; i++)
		mixed |= strcmp(p->phases[i].basis, p->peak.basis) != 0;
	out_title(t, narrow ? "Phases, by step: the most in each" : "Phases, by step");
	text_table_init(&b, t, narrow ? "lrr" : mixed ? "lrrrl" : "lrrr", TEXT_CUT_RIGHT);
	text_cell_printf(&b, "phase");
	text_cell_printf(&b, narrow ? "allocated" : "peak allocated");
	text_cell_printf(&b, narrow ? "reserved" : "peak reserved");
	if (!narrow)
		text_cell_printf(&b, "left allocated");
	if (!narrow && mixed)
		text_cell_printf(&b, "basis");
	for (size_t i = 0; i < p->phase_count; i++) {
		size_t more = repeated(p, i);

		phase_row(&b, p, i, more, narrow, mixed);
		if (more)
			phase_row(&b, p, i + 1, more, narrow, mixed);
		i += more ? more + 1 : 0;
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

/* Does a file in a tool's own keys say this, too? */
static bool is_in_keys(const struct plim_plan_config *c, const char *where)
{
	static const char *const said[] = { "Trainer", "model", "PEFT", "fsdp.json" };
	size_t n = sizeof(said) / sizeof(said[0]);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(said[i], where))
			return i == 0 || i + 1 == n || !plan_keys_leave_model(c->tool);
	return false;
}

/* What the plan counts on next to the tool's own: arguments of the Trainer, how the model is loaded, adapters. */
static void plan_beside(struct text *t, const struct plim_plan_config *c, const char *pasted)
{
	bool keys = c->tool_config && pasted == c->tool_config;
	struct rungs_line lines[RUNGS_LINES];
	size_t n = rungs_lines(c, lines);

	for (size_t i = 0; i < n; i++)
		if (lines[i].what != pasted && !(keys && is_in_keys(c, lines[i].where)))
			text_printf(t, "  with %s: %s\n", lines[i].where, lines[i].what);
}

/*
 * For the tool that was asked for, on a line of its own that can be copied whole: the planned run; where that does not
 * fit, what makes it fit.
 */
static void pasted(struct text *t, const struct plim_plan *p)
{
	const struct plim_plan_rung *rung = rungs_picked(p->ladder, p->ladder_count);
	const struct plim_plan_config *config = rung ? &rung->config : &p->config;

	if (!p->hidden->paste)
		return;
	out_title(t, rung                     ? "To be pasted, changed as above"
		     : p->model.doubt_count   ? "To be pasted; no verdict that it fits"
		     : p->fits != PLIM_TRI_NO ? "To be pasted"
		     : p->dies_at             ? "To be pasted, though it does not fit"
					      : "To be pasted, though it may not fit");
	if (rung)
		rungs_rest(t, rung, p->limit_bytes);
	if (p->hidden->pasted && p->hidden->pasted == config->tool_config)
		text_printf(t, "# %s\n%s", config->tool, p->hidden->pasted);
	else if (p->hidden->pasted)
		text_printf(t, "%s\n", p->hidden->pasted);
	else
		text_printf(t, "  %s has no configuration of this run\n", p->hidden->paste);
	plan_beside(t, config, p->hidden->pasted);
}

static void learned(struct text *t, const struct plim_plan *p)
{
	char recorded[32], planned[32], added[64];

	if (p->unexplained_bytes == PLIM_UNKNOWN)
		return;
	out_title(t, p->hidden->recordings > 1 ? "Learned from two recordings"
					       : "Learned from the recording");
	if (!p->learned_count)
		text_puts(t, "  nothing: the plan of the recorded run agrees\n");
	for (size_t i = 0; i < p->learned_count; i++) {
		const struct plim_plan_learned *l = &p->learned[i];

		snprintf(added, sizeof(added), "%s added here",
			 text_size(recorded, l->learned_bytes));
		text_printf(t, "  %-16s", l->quantity);
		text_wrap(t, 18, 18, "%s recorded, %s planned: %s (%s)",
			  text_size(recorded, l->recorded_bytes),
			  text_size(planned, l->planned_bytes),
			  l->learned_bytes ? added : "left to the range", l->evidence);
	}
	text_puts(t, "  ");
	if (!p->unexplained_bytes)
		text_wrap(t, 2, 2, "with that, the recorded peak is explained to the byte");
	else
		text_wrap(t, 2, 2, "with that, the recorded peak is explained except for %s",
			  text_size(recorded, p->unexplained_bytes));
}

static void sweep(struct text *t, const struct plim_plan *p)
{
	int narrow = plan_width_of(t) < NARROW;
	struct text_table b;

	if (!p->sweep_count)
		return;
	out_title(t, "Sweep");
	text_table_init(&b, t, narrow ? "rrrl" : "rrrrrl", TEXT_CUT_RIGHT);
	text_cell_printf(&b, "batch");
	text_cell_printf(&b, narrow ? "seq" : "sequence");
	if (!narrow) {
		text_cell_printf(&b, "allocated");
		text_cell_printf(&b, "reserved");
	}
	text_cell_printf(&b, "needed");
	text_cell_printf(&b, "%s", p->fits ? "fits" : "");
	for (size_t i = 0; i < p->sweep_count; i++) {
		const struct plim_plan_sweep *s = &p->sweep[i];
		const char *fits;

		text_cell_count(&b, s->batch);
		text_cell_count(&b, s->sequence);
		if (!narrow) {
			text_cell_bytes(&b, s->allocated_bytes);
			text_cell_bytes(&b, s->reserved_bytes);
		}
		text_cell_bytes(&b, s->needed_bytes);
		fits = s->fits   ? rungs_fit(s->needed_range_bytes, s->fits, p->limit_bytes)
		       : p->fits ? "no verdict"
				 : "";
		text_puts(text_cell(&b), fits);
		if (s->dies_at && !narrow && !strcmp(fits, "no")) {
			text_puts(&b.cells, ", dies in ");
			plan_put_phase(&b.cells, s->dies_at);
		}
		text_cell_end(&b);
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

/* What files of the run's configuration said, and what of them is not planned. */
static void read_from(struct text *t, const struct plim_plan *p)
{
	const char *file = NULL, *tool = NULL;

	for (size_t i = 0; i < p->settings_read_count; i++) {
		const struct plim_plan_setting *s = &p->settings_read[i];

		if (s->tool != tool || s->file != file) {
			out_title(t, "Read");
			text_puts(t, "  ");
			text_wrap(t, 2, 2, s->file ? "from %s (%s)" : "from a file%.0s (%s)",
				  s->file ? s->file : "", s->tool);
		}
		tool = s->tool;
		file = s->file;
		text_puts(t, "  - ");
		text_wrap(t, 4, 4, s->value ? "%s: %s%s%s" : "%s%.0s%s%s",
			  s->key ? s->key : "a key (redacted)", s->value ? s->value : "",
			  s->option ? "; here " : "", s->option ? s->option : "; not planned");
	}
}

enum plim_status plim_plan_text(const struct plim_plan *p, const struct plim_text_style *style,
				plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	struct text t;

	text_init(&t, &p->hidden->mem, &s);
	head(&t, p);
	plan_verdict(&t, p);
	if (!is_unlike(p)) {
		basis(&t, p);
		composition(&t, p);
		phases(&t, p);
		learned(&t, p);
		host(&t, p);
		sweep(&t, p);
	}
	if (p->ladder_count)
		out_title(&t, "What would make it fit, step by step");
	rungs_put(&t, p->ladder, p->ladder_count, p->limit_bytes,
		  !p->hidden->traced.mem || p->hidden->traces_rungs);
	if (!p->hidden->paste && rungs_picked(p->ladder, p->ladder_count))
		rungs_paste(&t, rungs_picked(p->ladder, p->ladder_count), p->limit_bytes,
			    p->host.bytes);
	pasted(&t, p);
	read_from(&t, p);
	if (!is_unlike(p))
		out_list(&t, "Assumed", p->assumptions, p->assumption_count);
	if (p->hidden->redacts) {
		text_puts(&t, "\n");
		text_wrap(&t, 0, 2,
			  "Redacted, except for sizes, the model's family if it is a public one, "
			  "and the options as they were given.");
	}
	return out_text(&t, write, ctx, err);
}
