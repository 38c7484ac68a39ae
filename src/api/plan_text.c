/* The answer for a person: does it fit, what fills the peak, what was assumed. */
#include "out.h"
#include "plan.h"

#include <string.h>

#define BAR 30 /* columns of the largest part */

static void head(struct text *t, const struct plim_plan *p)
{
	char a[32], b[32], c[32];

	text_hue(t, TEXT_HEAD);
	text_puts(t, p->model.family);
	text_plain(t);
	text_wrap(t, (unsigned)strlen(p->model.family), 2,
		  "%s: %s parameters, %s of weights; batch %s, sequence %llu",
		  p->model.guessed ? "?" : "", text_number(a, p->model.parameters),
		  text_size(b, p->model.parameter_bytes), text_number(c, p->batch),
		  (unsigned long long)p->sequence);
	text_puts(t, "\n");
}

static void verdict(struct text *t, const struct plim_plan *p)
{
	char a[32], b[32], c[32];

	text_hue(t, !p->fits ? TEXT_HEAD : *p->fits ? TEXT_GOOD : TEXT_BAD);
	text_puts(t, !p->fits ? "Needs " : *p->fits ? "Fits: " : "Does not fit: ");
	text_plain(t);
	if (!p->fits)
		text_wrap(t, 6, 2, "%s (%s to %s), at the peak in %s",
			  text_size(a, p->peak.needed_bytes), text_size(b, p->peak.range_bytes[0]),
			  text_size(c, p->peak.range_bytes[1]), p->peak.phase);
	else if (*p->fits)
		text_wrap(t, 6, 2, "it needs %s of %s; %s remain",
			  text_size(a, p->peak.needed_bytes), text_size(b, p->limit_bytes),
			  text_size(c, p->limit_bytes - p->peak.needed_bytes));
	else if (!p->dies_at)
		text_wrap(t, 14, 2, "too close to call: it needs %s, perhaps %s, and may have %s",
			  text_size(a, p->peak.needed_bytes), text_size(b, p->peak.range_bytes[1]),
			  text_size(c, p->limit_bytes));
	else
		text_wrap(t, 14, 2, "it dies in %s, asking for %s; it needs %s, and may have %s",
			  p->dies_at, text_size(a, p->dies_request_bytes),
			  text_size(b, p->peak.needed_bytes), text_size(c, p->limit_bytes));
	text_printf(t, "  allocated %s, reserved %s where memory is ample\n",
		    text_size(a, p->peak.allocated_bytes), text_size(b, p->peak.reserved_bytes));
	if (p->fits)
		text_printf(t, "  needed %s to %s (%s)\n", text_size(a, p->peak.range_bytes[0]),
			    text_size(b, p->peak.range_bytes[1]), p->peak.basis);
	if (p->max_batch != PLIM_UNKNOWN)
		text_printf(t, "  largest batch that fits: %llu\n",
			    (unsigned long long)p->max_batch);
	if (p->max_sequence != PLIM_UNKNOWN)
		text_printf(t, "  longest sequence that fits: %llu\n",
			    (unsigned long long)p->max_sequence);
}

static void composition(struct text *t, const struct plim_plan *p)
{
	const struct plim_plan_categories *c = &p->peak.categories;
	const struct {
		const char *name;
		uint64_t bytes;
	} parts[] = {
		{ "weights", c->parameter_bytes },         { "gradients", c->gradient_bytes },
		{ "optimizer", c->optimizer_state_bytes }, { "activations", c->activation_bytes },
		{ "KV cache", c->kv_cache_bytes },         { "input", c->input_bytes },
		{ "workspaces", c->workspace_bytes },      { "temporary", c->temporary_bytes },
		{ "autograd", c->autograd_detail_bytes },  { "buffers", c->buffer_bytes },
		{ "beside it", c->other_bytes },           { "rounding", c->rounding_bytes },
	};
	uint64_t most = 1;

	text_printf(t, "\n");
	text_hue(t, TEXT_HEAD);
	text_printf(t, "At the peak, in %s", p->peak.phase);
	text_plain(t);
	text_puts(t, "\n");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		most = parts[i].bytes > most ? parts[i].bytes : most;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		char size[32];

		if (parts[i].bytes < most / 1000)
			continue;
		text_printf(t, "  %-12s %11s  ", parts[i].name, text_size(size, parts[i].bytes));
		text_bar(t, parts[i].bytes, most, BAR);
		text_puts(t, "\n");
	}
}

/* Shown where something is kept there, or it is judged. */
static void host(struct text *t, const struct plim_plan *p)
{
	const struct plim_plan_host *h = &p->host;
	const struct {
		const char *name;
		uint64_t bytes;
	} parts[] = {
		{ "process", h->process_bytes },        { "weights", h->weight_bytes },
		{ "gradients", h->gradient_bytes },     { "optimizer", h->optimizer_state_bytes },
		{ "activations", h->activation_bytes }, { "buffers", h->buffer_bytes },
		{ "loading", h->loading_bytes },        { "saving", h->saving_bytes },
	};
	char a[32], b[32], c[32];

	if (!h->fits && !h->pinned_bytes && h->bytes == h->process_bytes + h->loading_bytes)
		return;
	out_title(t, "In the machine's own memory");
	text_hue(t, !h->fits ? TEXT_HEAD : *h->fits ? TEXT_GOOD : TEXT_BAD);
	text_puts(t, !h->fits     ? "  "
		     : *h->fits   ? "  Fits: "
		     : h->dies_at ? "  Does not fit: "
				  : "  May not fit: ");
	text_plain(t);
	text_printf(t, "%s (%s to %s, %s)", text_size(a, h->bytes), text_size(b, h->range_bytes[0]),
		    text_size(c, h->range_bytes[1]), h->basis);
	if (h->fits)
		text_printf(t, " of %s", text_size(a, h->limit_bytes));
	if (h->dies_at)
		text_printf(t, "; %s needs more", h->dies_at);
	text_puts(t, "\n");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!parts[i].bytes)
			continue;
		text_printf(t, "  %-12s %11s  ", parts[i].name, text_size(a, parts[i].bytes));
		text_bar(t, parts[i].bytes, h->bytes, BAR);
		text_puts(t, "\n");
	}
	if (h->pinned_bytes)
		text_printf(t, "  of it pinned %11s, in blocks of powers of two\n",
			    text_size(a, h->pinned_bytes));
}

static void phases(struct text *t, const struct plim_plan *p)
{
	struct text_table b;

	out_title(t, "Phases");
	text_table_init(&b, t, "lrrr", TEXT_CUT_RIGHT);
	text_cell_printf(&b, "phase");
	text_cell_printf(&b, "peak allocated");
	text_cell_printf(&b, "peak reserved");
	text_cell_printf(&b, "left allocated");
	for (size_t i = 0; i < p->phase_count; i++) {
		const struct plim_plan_phase *f = &p->phases[i];

		text_cell_printf(&b, "%s", f->phase);
		if (!f->peak_allocated_bytes) {
			for (unsigned k = 0; k < 3; k++)
				text_cell_printf(&b, "-");
			continue;
		}
		text_cell_bytes(&b, f->peak_allocated_bytes);
		text_cell_bytes(&b, f->peak_reserved_bytes);
		text_cell_bytes(&b, f->allocated_bytes);
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

static void config_line(struct text *t, const char *what, const char *line)
{
	if (!line)
		return;
	text_printf(t, "  %-16s", what);
	text_wrap(t, 18, 18, "%s", line);
}

/* What to change, and all of it ready to be pasted: of the last rung that need not be asked for. */
void plan_put_ladder(struct text *t, const struct plim_plan_rung *ladder, size_t n,
		     uint64_t host_before_bytes)
{
	const struct plim_plan_config *config = NULL;
	uint64_t host_bytes = 0;
	struct text_table b;
	char size[32];

	if (!n)
		return;
	text_table_init(&b, t, "rrll", TEXT_CUT_RIGHT);
	text_cell_printf(&b, "needed");
	text_cell_printf(&b, "saves");
	text_cell_printf(&b, "fits");
	text_cell_printf(&b, "change");
	for (size_t i = 0; i < n; i++) {
		const struct plim_plan_rung *r = &ladder[i];

		text_cell_bytes(&b, r->needed_bytes);
		text_cell_bytes(&b, r->saved_bytes);
		text_cell_printf(&b, "%s", r->fits ? "yes" : "no");
		text_cell_printf(&b, "%s%s (%s)", r->changes_results ? "or: " : "", r->rung,
				 r->cost);
		if (r->changes_results)
			continue;
		config = &r->config;
		host_bytes = r->host_bytes;
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
	if (!config)
		return;
	text_puts(t, "\n");
	config_line(t, "Trainer", config->training_arguments);
	config_line(t, "model", config->from_pretrained);
	config_line(t, "PEFT", config->peft);
	if (strstr(config->training_arguments ? config->training_arguments : "", "deepspeed="))
		config_line(t, "deepspeed.json", config->deepspeed);
	config_line(t, "fsdp.json", config->fsdp);
	if (host_bytes > host_before_bytes)
		text_printf(t, "  %-16s%s in all\n", "host memory", text_size(size, host_bytes));
	config_line(t, "environment", config->environment);
}

static void sweep(struct text *t, const struct plim_plan *p)
{
	struct text_table b;

	if (!p->sweep_count)
		return;
	out_title(t, "Sweep");
	text_table_init(&b, t, "rrrrrl", TEXT_CUT_RIGHT);
	text_cell_printf(&b, "batch");
	text_cell_printf(&b, "sequence");
	text_cell_printf(&b, "allocated");
	text_cell_printf(&b, "reserved");
	text_cell_printf(&b, "needed");
	text_cell_printf(&b, "%s", p->fits ? "fits" : "");
	for (size_t i = 0; i < p->sweep_count; i++) {
		const struct plim_plan_sweep *s = &p->sweep[i];

		text_cell_count(&b, s->batch);
		text_cell_count(&b, s->sequence);
		text_cell_bytes(&b, s->allocated_bytes);
		text_cell_bytes(&b, s->reserved_bytes);
		text_cell_bytes(&b, s->needed_bytes);
		if (s->dies_at)
			text_cell_printf(&b, "no, dies in %s", s->dies_at);
		else
			text_cell_printf(&b, "%s", s->fits ? s->fits : "");
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

enum plim_status plim_plan_text(const struct plim_plan *p, const struct plim_text_style *style,
				plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	struct text t;

	text_init(&t, &p->hidden->mem, &s);
	head(&t, p);
	verdict(&t, p);
	composition(&t, p);
	phases(&t, p);
	host(&t, p);
	sweep(&t, p);
	if (p->ladder_count)
		out_title(&t, "What would make it fit, the cheapest first");
	plan_put_ladder(&t, p->ladder, p->ladder_count, p->host.bytes);
	out_list(&t, "Assumed", p->assumptions, p->assumption_count);
	return out_text(&t, write, ctx, err);
}
