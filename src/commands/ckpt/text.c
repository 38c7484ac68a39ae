/* A checkpoint for a person: the verdict first, then what is wrong, then what is in it. */
#include "commands/ckpt/ckpt.h"
#include "commands/out.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const ckpt_verdict_names[] = {
	[PLIM_CKPT_NOT_VERIFIED] = "not verified",
	[PLIM_CKPT_WHOLE] = "whole",
	[PLIM_CKPT_UNPROVEN] = "unproven",
	[PLIM_CKPT_DAMAGED] = "damaged",
	[PLIM_CKPT_TRUNCATED] = "truncated",
	[PLIM_CKPT_NOT_A_CHECKPOINT] = "not a checkpoint",
	[PLIM_CKPT_UNKNOWN_CODE] = "unknown code",
	[PLIM_CKPT_DANGEROUS] = "dangerous",
};

#define KEYS_SHOWN 24
#define FACTS_SHOWN 16
#define GLOBALS_SHOWN 40

static void ckpt_verdict_text(struct text *t, const struct plim_ckpt *c)
{
	bool bad = c->verdict >= PLIM_CKPT_DAMAGED;
	char word[32];

	/* Whole is said of bytes, plain and listed of code. */
	snprintf(word, sizeof(word), "%s%s%s", ckpt_verdict_names[c->verdict],
		 !bad && c->pickle ? ", " : "", !bad && c->pickle ? c->pickle : "");
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

	ckpt_verdict_text(t, c);
	text_name(t, c->path, n);
	text_puts(t, ": ");
	if (!strncmp(said, c->path, n) && !strncmp(said + n, ": ", 2))
		said += n + 2;
	text_name(t, said, strlen(said));
	for (size_t i = 0; c->verdict < PLIM_CKPT_DAMAGED && i < c->finding_count; i++)
		if (c->findings[i].severity == PLIM_SEVERITY_WARNING) {
			text_puts(t, "; warning: ");
			text_name(t, c->findings[i].title, strlen(c->findings[i].title));
		}
	text_puts(t, "\n");
}

static void heading(struct text *t, const struct plim_ckpt *c)
{
	ckpt_verdict_text(t, c);
	text_name_fit(t, c->path, strlen(c->path), (t->style.width ? t->style.width : 80) - 24,
		      TEXT_CUT_LEFT);
	text_puts(t, "\n  ");
	text_wrap_name(t, 2, 2, c->headline);
}

static void findings(struct text *t, const struct plim_ckpt *c)
{
	/* The first bad one is the headline. */
	size_t from = c->finding_count && c->headline == c->findings[0].title;

	for (size_t i = from; i < c->finding_count; i++) {
		const struct plim_finding *f = &c->findings[i];
		bool bad = f->severity == PLIM_SEVERITY_ERROR;

		text_puts(t, "  ");
		if (bad)
			text_hue(t, TEXT_BAD);
		text_printf(t, "%-8s", plim_severity_name(f->severity));
		if (bad)
			text_plain(t);
		text_wrap_name(t, 10, 10, f->title);
	}
	for (size_t i = 0; i < c->required_missing_count; i++) {
		text_puts(t, "  missing ");
		text_wrap_name(t, 10, 10, c->required_missing[i]);
	}
}

/* "  holds   ..." wrapped behind its label. */
#define LABELLED(t, label, ...)                  \
	do {                                     \
		text_printf(t, "  %-8s", label); \
		say_ckpt(t, __VA_ARGS__);        \
	} while (0)

static void say_ckpt(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say_ckpt(struct text *t, const char *fmt, ...)
{
	char words[1000];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	text_wrap_name(t, 10, 10, words);
}

/* Columns for a part of a row. */
static unsigned part_of_width(const struct text *t, unsigned parts)
{
	return (t->style.width ? t->style.width : 80) / parts;
}

static void fit_cell(struct text_table *b, const char *s, unsigned columns)
{
	text_name_fit(text_cell(b), s, strlen(s), columns, TEXT_CUT_RIGHT);
	text_cell_end(b);
}

/* What to do with a file that was cut. */
static void remedy(struct text *t, const struct plim_ckpt *c)
{
	char size[32];

	if (c->verdict != PLIM_CKPT_TRUNCATED)
		return;
	text_size(size, c->whole_bytes);
	LABELLED(t, "whole", "%s%s", size,
		 c->whole_bytes
			 ? " in records: 'plimsoll ckpt repair' writes their tensors to a new file"
			 : ": nothing to repair, take another copy");
}

static size_t count_ckpt(const struct plim_ckpt *c, const char *trust)
{
	size_t n = 0;

	for (size_t i = 0; i < c->global_count; i++)
		n += !strcmp(c->globals[i].trust, trust);
	return n;
}

/* Which libraries classes beyond torch's own are of, which is enough for a person. */
static void libraries(struct text *list, const struct plim_ckpt *c)
{
	for (size_t i = 0; i < c->global_count; i++) {
		const char *name = c->globals[i].name;
		size_t n = strcspn(name, "."), seen = 0;

		if (!strcmp(c->globals[i].trust, "plain") ||
		    !strcmp(c->globals[i].trust, "torchscript"))
			continue;
		while (seen < i && (!strcmp(c->globals[seen].trust, "plain") ||
				    strncmp(c->globals[seen].name, name, n + 1) != 0))
			seen++;
		if (seen == i)
			text_printf(list, "%s%.*s", list->n ? ", " : "", (int)n, name);
	}
}

static void listed_code(struct text *t, const struct plim_ckpt *c)
{
	size_t others = count_ckpt(c, "data") + count_ckpt(c, "class"),
	       allowed = count_ckpt(c, "allowed");
	struct text list;

	text_init(&list, t->mem, &t->style);
	libraries(&list, c);
	if (allowed)
		LABELLED(t, "code", "LISTED with %zu name%s that you allow", allowed,
			 text_s(allowed));
	else if (count_ckpt(c, "torchscript"))
		LABELLED(t, "code", "LISTED: classes of TorchScript, whose code was checked");
	else if (others && strcmp(c->kind, "distributed") != 0) /* which torch.load does not read */
		LABELLED(t, "code",
			 "LISTED: names of %s, of which none runs code on load; "
			 "torch.load(weights_only=True) refuses them until they are allowed",
			 text_get(&list));
	else if (others)
		LABELLED(t, "code", "LISTED: only names that hold data");
	else
		LABELLED(t, "code",
			 "LISTED: no name in it runs code on load, but it is not a file that "
			 "torch.load(weights_only=True) reads");
	text_release(&list);
}

static void list_names(struct text *t, const struct plim_ckpt *c, const char *trust)
{
	size_t shown = 0;

	for (size_t i = 0; i < c->global_count; i++) {
		const struct plim_ckpt_global *g = &c->globals[i];

		if (strcmp(g->trust, trust) != 0 || shown++ >= GLOBALS_SHOWN)
			continue;
		LABELLED(t, "", "%.200s (%s, byte %llu of %.200s)", g->name, g->trust,
			 (unsigned long long)g->offset, g->record);
	}
	if (shown > GLOBALS_SHOWN)
		LABELLED(t, "", "and %zu more: --json lists them", shown - GLOBALS_SHOWN);
}

/* The lines to add, as they are to be added. */
static void list_allow(struct text *t, const struct plim_ckpt *c)
{
	size_t shown = 0;

	LABELLED(t, "allow",
		 "if you trust these, put the lines into a file for --allow-file, or "
		 "pass each with --allow:");
	for (size_t i = 0; i < c->global_count && shown < GLOBALS_SHOWN; i++) {
		const struct plim_ckpt_global *g = &c->globals[i];

		if (strcmp(g->trust, "unknown") != 0)
			continue;
		text_puts(t, "            ");
		text_name(t, g->name, strlen(g->name));
		text_puts(t, "\n");
		shown++;
	}
}

static void code(struct text *t, const struct plim_ckpt *c)
{
	size_t unknown = count_ckpt(c, "unknown"), dangerous = count_ckpt(c, "dangerous");

	if (!c->pickle)
		return;
	if (!strcmp(c->pickle, "plain"))
		LABELLED(t, "code",
			 "PLAIN: torch.load(weights_only=True) of torch 2.14 allows all of it");
	if (!strcmp(c->pickle, "listed"))
		listed_code(t, c);
	if (dangerous) {
		LABELLED(t, "code",
			 "DANGEROUS: %zu name%s that run%s code in a loader without "
			 "weights_only; nothing was run here",
			 dangerous, text_s(dangerous), dangerous == 1 ? "s" : "");
		list_names(t, c, "dangerous");
	}
	if (unknown) {
		LABELLED(
			t, dangerous ? "" : "code",
			"UNKNOWN: %zu name%s on no list; torch.load(weights_only=True), the "
			"default since 2.6, refuses such names; other loaders import and call them",
			unknown, text_s(unknown));
		list_names(t, c, "unknown");
		list_allow(t, c);
	}
}

static void resume(struct text *t, const struct plim_ckpt *c)
{
	struct text list;

	if (!c->resume_missing_count)
		return;
	text_init(&list, t->mem, &t->style);
	for (size_t i = 0; i < c->resume_missing_count; i++)
		text_printf(&list, "%s%s", i ? ", " : "", c->resume_missing[i]);
	LABELLED(t, "resume", "would also want: %s", text_get(&list));
	text_release(&list);
}

/* Where the verdict is of code: what is known of the bytes. */
static void bytes(struct text *t, const struct plim_ckpt *c)
{
	if (c->verdict == PLIM_CKPT_UNKNOWN_CODE || c->verdict == PLIM_CKPT_DANGEROUS)
		LABELLED(t, "bytes", "%s", ckpt_verdict_names[c->integrity]);
}

/* Bytes of a zip that no checksum covers: headers, the directory, gaps; 0 if a manifest vouches for the whole file. */
static uint64_t zip_rest(const struct plim_ckpt *c)
{
	const struct ckpt *inner = &c->hidden->ckpt;
	bool zip = inner->kind == CKPT_KIND_TORCH || inner->kind == CKPT_KIND_SCRIPT;
	uint64_t rest = c->bytes;

	if (c->integrity != PLIM_CKPT_WHOLE || !zip || inner->files.n != 1 ||
	    inner->files.at[0].sealed)
		return 0;
	for (size_t i = 0; i < inner->extents.n; i++) {
		const struct ckpt_extent *x = &inner->extents.at[i];

		if (!x->inside)
			rest -= x->stored_bytes < rest ? x->stored_bytes : rest;
	}
	return rest;
}

static void sums(struct text *t, const struct plim_ckpt *c)
{
	char a[32], b[32], rest[32];
	uint64_t none = zip_rest(c);

	text_size(a, c->verified_bytes);
	text_size(b, c->unprotected_bytes);
	text_size(rest, none);
	if (c->verified_bytes == PLIM_UNKNOWN || !(c->verified_bytes + c->unprotected_bytes))
		;
	else if (!c->unprotected_bytes && none)
		LABELLED(t, "sums",
			 "%s match their checksums; %s of the zip's own (headers, gaps) have none",
			 a, rest);
	else if (!c->unprotected_bytes)
		LABELLED(t, "sums", "%s match their checksums", a);
	else if (!c->verified_bytes)
		LABELLED(t, "sums", "none: %s cannot be checked", b);
	else
		LABELLED(t, "sums", "%s match their checksums, %s have none", a, b);
}

static void summary(struct text *t, const struct plim_ckpt *c)
{
	char a[32], b[32], n[32], files[32];

	text_size(a, c->tensor_bytes);
	text_size(b, c->bytes);
	LABELLED(t, "holds", "%s tensor%s, %s (%s, %s file%s of %s)",
		 text_number(n, c->tensor_count), text_s(c->tensor_count), a, c->kind,
		 text_number(files, c->files), text_s(c->files), b);
	sums(t, c);
	/* whole bytes may be those of a run that diverged */
	if (c->verified_bytes != PLIM_UNKNOWN && !c->hidden->values && c->tensor_count &&
	    c->integrity < PLIM_CKPT_DAMAGED)
		LABELLED(t, "values", "not looked at: --values finds NaN and infinities");
	text_size(a, c->shared_bytes);
	text_size(b, c->waste_bytes);
	if (c->shared_bytes)
		LABELLED(t, "shared", "%s of tensors share the bytes of others", a);
	if (c->waste_bytes)
		LABELLED(t, "unused", "%s were saved but belong to no tensor", b);
}

static void tree(struct text *t, const struct plim_ckpt *c)
{
	bool narrow = t->style.width && t->style.width < 60, devices = false;
	struct text_table b;

	if (!c->group_count)
		return;
	out_title(t, "Tensors");
	for (size_t i = 0; i < c->group_count; i++)
		devices |= c->groups[i].devices != NULL && !narrow;
	text_table_init(&b, t, devices ? "rrlll" : "rrll", TEXT_CUT_LEFT);
	for (size_t i = 0; i < c->group_count; i++) {
		const struct plim_ckpt_group *g = &c->groups[i];

		text_cell_bytes(&b, g->bytes);
		text_cell_count(&b, g->tensors);
		fit_cell(&b, g->dtypes, part_of_width(t, 4));
		if (devices)
			fit_cell(&b, g->devices ? g->devices : "", part_of_width(t, 8));
		text_cell_name(&b, *g->prefix ? g->prefix : "(top)",
			       strlen(*g->prefix ? g->prefix : "(top)"));
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

		fit_cell(&b, k->name, part_of_width(t, 3));
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
	text_puts(t, c->optimizer_count ? "\n" : "");
	for (size_t i = 0; i < c->optimizer_count; i++) {
		const struct plim_ckpt_optimizer *o = &c->optimizers[i];
		char words[700], size[32], n[32], rate[40] = "";

		if (!isnan(o->learning_rate))
			snprintf(rate, sizeof(rate), ", lr %.6g", o->learning_rate);
		text_size(size, o->state_bytes);
		snprintf(words, sizeof(words),
			 "Optimizer %s%s%.300s: %s tensors, %s, %llu group%s%s",
			 o->kind ? o->kind : "of an unknown kind", *o->path ? " at " : "", o->path,
			 text_number(n, o->state_tensors), size, (unsigned long long)o->groups,
			 text_s(o->groups), rate);
		text_puts(t, "  ");
		text_wrap_name(t, 2, 4, words);
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
		const struct plim_ckpt_fact *f = &c->facts[i];
		const char *class = strncmp(f->name, "module", 6) ? NULL : strrchr(f->value, '.');
		const char *value = class ? class + 1 : f->value; /* of a class, the telling end */

		fit_cell(&b, f->name, part_of_width(t, 2));
		text_cell_name(&b, value, strlen(value));
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
	if (c->fact_count > FACTS_SHOWN)
		text_printf(t, "  and %zu more\n", c->fact_count - FACTS_SHOWN);
}

void ckpt_tell_kept(struct text *t)
{
	text_puts(t, "\nNote: ");
	text_wrap(t, 6, 2, "%s", CKPT_KEPT);
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
	bytes(&t, c);
	summary(&t, c);
	code(&t, c);
	resume(&t, c);
	if (what != PLIM_CKPT_TEXT_VERIFY) {
		tree(&t, c);
		keys(&t, c);
		optimizers(&t, c);
		facts(&t, c);
	}
	if (what == PLIM_CKPT_TEXT_TENSORS)
		tensors(&t, c);
	if (c->hidden->redacted)
		ckpt_tell_kept(&t);
	return out_text(&t, write, ctx, err);
}

enum plim_status plim_ckpt_json(const struct plim_ckpt *c, plim_write_fn *write, void *ctx,
				struct plim_err *err)
{
	return out_json(&c->hidden->mem, &ckpt_table, c, write, ctx, err);
}
