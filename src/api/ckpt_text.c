/* A checkpoint for a person: the verdict first, then what is wrong, then what is in it. */
#include "ckpt.h"
#include "out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define KEYS_SHOWN 24
#define FACTS_SHOWN 16
#define GLOBALS_SHOWN 8

static void verdict(struct text *t, const struct plim_ckpt *c)
{
	bool bad = c->verdict >= PLIM_CKPT_DAMAGED;
	char word[32];

	snprintf(word, sizeof(word), "%s", ckpt_verdict_names[c->verdict]);
	for (char *p = word; *p; p++)
		*p = *p >= 'a' && *p <= 'z' ? (char)(*p - 32) : *p;
	text_hue(t, bad ? TEXT_BAD : c->verdict == PLIM_CKPT_WHOLE ? TEXT_GOOD : TEXT_HEAD);
	text_puts(t, word);
	text_plain(t);
	text_puts(t, "  ");
}

/* For scripts and long lists: never wrapped or cut. */
static void one_line(struct text *t, const struct plim_ckpt *c)
{
	size_t n = strlen(c->path);
	const char *said = c->headline;

	verdict(t, c);
	text_name(t, c->path, n);
	text_puts(t, ": ");
	if (!strncmp(said, c->path, n) && !strncmp(said + n, ": ", 2))
		said += n + 2;
	text_name(t, said, strlen(said));
	for (size_t i = 0; c->verdict < PLIM_CKPT_DAMAGED && i < c->finding_count; i++)
		if (!strcmp(c->findings[i].severity, "warning")) {
			text_puts(t, "; warning: ");
			text_name(t, c->findings[i].text, strlen(c->findings[i].text));
		}
	text_puts(t, "\n");
}

static void heading(struct text *t, const struct plim_ckpt *c)
{
	verdict(t, c);
	text_name_fit(t, c->path, strlen(c->path), (t->style.width ? t->style.width : 80) - 24,
		      TEXT_CUT_LEFT);
	text_puts(t, "\n  ");
	text_wrap_name(t, 2, 2, c->headline);
}

static void findings(struct text *t, const struct plim_ckpt *c)
{
	/* The first bad one is the headline. */
	size_t from = c->finding_count && c->headline == c->findings[0].text;

	for (size_t i = from; i < c->finding_count; i++) {
		const struct plim_ckpt_finding *f = &c->findings[i];
		bool bad = !strcmp(f->severity, "bad");

		text_puts(t, "  ");
		if (bad)
			text_hue(t, TEXT_BAD);
		text_printf(t, "%-8s", f->severity);
		if (bad)
			text_plain(t);
		text_wrap_name(t, 10, 10, f->text);
	}
	for (size_t i = 0; i < c->required_missing_count; i++) {
		text_puts(t, "  missing ");
		text_wrap_name(t, 10, 10, c->required_missing[i]);
	}
}

/* What to do with a file that was cut. */
static void remedy(struct text *t, const struct plim_ckpt *c)
{
	if (c->verdict != PLIM_CKPT_TRUNCATED)
		return;
	text_puts(t, "  whole   ");
	text_bytes(t, c->whole_bytes);
	text_puts(t, c->whole_bytes
			     ? " in records: 'plimsoll ckpt repair' writes their tensors anew\n"
			     : ": nothing to repair, take another copy\n");
}

static void pickle(struct text *t, const struct plim_ckpt *c)
{
	size_t shown = 0;

	if (!c->pickle)
		return;
	text_puts(t, "  pickle  ");
	if (!strcmp(c->pickle, "plain")) {
		text_puts(t, "only constructors that torch.load(weights_only=True) allows\n");
		return;
	}
	text_wrap(t, 10, 10, "%s; nothing was run",
		  !strcmp(c->pickle, "extra") ? "only known constructors, some of other libraries"
		  : !strcmp(c->pickle, "dangerous") ? "names that run code when it is loaded"
						    : "names that are on no list");
	for (size_t i = 0; i < c->global_count; i++) {
		const struct plim_ckpt_global *g = &c->globals[i];

		if (!strcmp(g->trust, "plain") || shown++ >= GLOBALS_SHOWN)
			continue;
		text_puts(t, "          ");
		text_name_fit(t, g->name, strlen(g->name), 50, TEXT_CUT_LEFT);
		text_printf(t, " (%s, byte %llu of ", g->trust, (unsigned long long)g->offset);
		text_name_fit(t, g->record, strlen(g->record), 30, TEXT_CUT_LEFT);
		text_puts(t, ")\n");
	}
	if (shown > GLOBALS_SHOWN)
		text_printf(t, "          and %zu more\n", shown - GLOBALS_SHOWN);
}

static void resume(struct text *t, const struct plim_ckpt *c)
{
	struct text list;

	if (!c->resume_missing_count)
		return;
	text_init(&list, t->mem, &t->style);
	for (size_t i = 0; i < c->resume_missing_count; i++)
		text_printf(&list, "%s%s", i ? ", " : "", c->resume_missing[i]);
	text_puts(t, "  resume  ");
	text_wrap(t, 10, 10, "would also want: %s", text_get(&list));
	text_release(&list);
}

static void summary(struct text *t, const struct plim_ckpt *c)
{
	text_puts(t, "  holds   ");
	text_count(t, c->tensor_count);
	text_puts(t, c->tensor_count == 1 ? " tensor, " : " tensors, ");
	text_bytes(t, c->tensor_bytes);
	text_printf(t, " (%s, ", c->kind ? c->kind : "unknown");
	text_count(t, c->files);
	text_puts(t, c->files == 1 ? " file of " : " files of ");
	text_bytes(t, c->bytes);
	text_puts(t, ")\n");
	if (c->verified_bytes != PLIM_UNKNOWN) {
		text_puts(t, "  sums    ");
		text_bytes(t, c->verified_bytes);
		text_puts(t, " match their checksums, ");
		text_bytes(t, c->unprotected_bytes);
		text_puts(t, " have none\n");
	}
	if (c->shared_bytes || c->waste_bytes) {
		text_puts(t, "  shared  ");
		text_bytes(t, c->shared_bytes);
		text_puts(t, " of tensors lie on others' bytes; ");
		text_bytes(t, c->waste_bytes);
		text_puts(t, " were saved that no tensor reaches\n");
	}
}

static void tree(struct text *t, const struct plim_ckpt *c)
{
	struct text_table b;
	bool devices = false;

	if (!c->group_count)
		return;
	out_title(t, "Tensors");
	for (size_t i = 0; i < c->group_count; i++)
		devices |= c->groups[i].devices != NULL;
	text_table_init(&b, t, devices ? "rrlll" : "rrll", TEXT_CUT_RIGHT);
	for (size_t i = 0; i < c->group_count; i++) {
		const struct plim_ckpt_group *g = &c->groups[i];

		text_cell_bytes(&b, g->bytes);
		text_cell_count(&b, g->tensors);
		text_cell_name(&b, *g->prefix ? g->prefix : "(top)",
			       strlen(*g->prefix ? g->prefix : "(top)"));
		text_cell_name(&b, g->dtypes, strlen(g->dtypes));
		if (devices)
			text_cell_name(&b, g->devices ? g->devices : "",
				       g->devices ? strlen(g->devices) : 0);
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

static void tensors(struct text *t, const struct plim_ckpt *c)
{
	struct text_table b;

	out_title(t, "All tensors");
	text_table_init(&b, t, "rlll", TEXT_CUT_LEFT);
	for (size_t i = 0; i < c->tensor_count; i++) {
		const struct plim_ckpt_tensor *one = &c->tensors[i];
		struct text *cell;

		text_cell_bytes(&b, one->bytes);
		text_cell_printf(&b, "%s", one->dtype);
		cell = text_cell(&b);
		for (size_t d = 0; d < one->shape_count; d++)
			text_printf(cell, "%s%llu", d ? "x" : "",
				    (unsigned long long)one->shape[d]);
		text_puts(cell, one->shape_count ? "" : "scalar");
		text_cell_end(&b);
		text_cell_name(&b, one->name, strlen(one->name));
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

static void keys(struct text *t, const struct plim_ckpt *c)
{
	struct text_table b;

	if (!c->key_count)
		return;
	out_title(t, "Keys");
	text_table_init(&b, t, "lrl", TEXT_CUT_RIGHT);
	for (size_t i = 0; i < c->key_count && i < KEYS_SHOWN; i++) {
		const struct plim_ckpt_key *k = &c->keys[i];

		text_cell_name(&b, k->name, strlen(k->name));
		if (k->tensors)
			text_cell_bytes(&b, k->bytes);
		else
			text_cell_printf(&b, "%s", "");
		text_cell_name(&b, k->what, strlen(k->what));
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
	if (c->key_count > KEYS_SHOWN)
		text_printf(t, "  and %zu more\n", c->key_count - KEYS_SHOWN);
}

static void optimizers(struct text *t, const struct plim_ckpt *c)
{
	for (size_t i = 0; i < c->optimizer_count; i++) {
		const struct plim_ckpt_optimizer *o = &c->optimizers[i];

		text_puts(t, i ? "" : "\n");
		text_printf(t, "  Optimizer %s%s", o->kind ? o->kind : "of an unknown kind",
			    *o->path ? " at " : "");
		text_name(t, o->path, strlen(o->path));
		text_puts(t, ": ");
		text_count(t, o->state_tensors);
		text_puts(t, " tensors, ");
		text_bytes(t, o->state_bytes);
		text_puts(t, ", ");
		text_count(t, o->groups);
		text_puts(t, o->groups == 1 ? " group" : " groups");
		if (!isnan(o->learning_rate))
			text_printf(t, ", lr %.6g", o->learning_rate);
		text_puts(t, "\n");
	}
}

static void facts(struct text *t, const struct plim_ckpt *c)
{
	struct text_table b;

	if (!c->fact_count)
		return;
	out_title(t, "Architecture and metadata");
	text_table_init(&b, t, "ll", TEXT_CUT_RIGHT);
	for (size_t i = 0; i < c->fact_count && i < FACTS_SHOWN; i++) {
		text_cell_name(&b, c->facts[i].name, strlen(c->facts[i].name));
		text_cell_name(&b, c->facts[i].value, strlen(c->facts[i].value));
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
	if (c->fact_count > FACTS_SHOWN)
		text_printf(t, "  and %zu more\n", c->fact_count - FACTS_SHOWN);
}

enum plim_status plim_ckpt_text(const struct plim_ckpt *c, enum plim_ckpt_text what,
				const struct plim_text_style *style, plim_write_fn *write,
				void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	struct text t;

	text_init(&t, &c->hidden->mem, &s);
	if (what == PLIM_CKPT_TEXT_LINE) {
		one_line(&t, c);
		return out_text(&t, write, ctx, err);
	}
	heading(&t, c);
	findings(&t, c);
	remedy(&t, c);
	summary(&t, c);
	pickle(&t, c);
	resume(&t, c);
	if (what != PLIM_CKPT_TEXT_VERIFY) {
		tree(&t, c);
		keys(&t, c);
		optimizers(&t, c);
		facts(&t, c);
	}
	if (what == PLIM_CKPT_TEXT_TENSORS)
		tensors(&t, c);
	return out_text(&t, write, ctx, err);
}

enum plim_status plim_ckpt_json(const struct plim_ckpt *c, plim_write_fn *write, void *ctx,
				struct plim_err *err)
{
	return out_json(&c->hidden->mem, "ckpt/1", &ckpt_table, c, write, ctx, err);
}

enum plim_status plim_ckpt_fields(int layout, plim_write_fn *write, void *ctx, struct plim_err *err)
{
	return out_fields(&ckpt_table, layout, write, ctx, err);
}
