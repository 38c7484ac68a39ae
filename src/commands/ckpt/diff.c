/* ckpt diff: two checkpoints next to each other, as JSON and as text. */
#include "base/base.h"
#include "commands/ckpt/ckpt.h"
#include "commands/out.h"
#include "host/host.h"
#include "option_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSORS_SHOWN 30

struct plim_ckpt_diff_hidden {
	struct mem mem;
	struct ckpt_compare compare;
	struct arena arena;
	bool redacted;
};

static const char *const changes[CKPT_CHANGES] = {
	[CKPT_CHANGE_NONE] = "none",
	[CKPT_CHANGE_DTYPE] = "dtype",
	[CKPT_CHANGE_SHAPE] = "shape",
	[CKPT_CHANGE_ONLY_A] = "only_in_first",
	[CKPT_CHANGE_ONLY_B] = "only_in_second",
};

/* "float32 64x32"; NULL: there is no tensor, or with a status no memory. */
static const char *shape_text(struct plim_ckpt_diff *d, const struct ckpt *c, uint32_t i,
			      enum plim_status *st, struct plim_err *err)
{
	const struct ckpt_tensor *t;
	const char *kept;
	char text[400];
	size_t n;

	if (i == CKPT_NONE)
		return NULL;
	t = &c->tensors.at[i];
	n = (size_t)snprintf(text, sizeof(text), "%s ", t->dtype->name);
	for (size_t k = 0; k < t->rank && n < sizeof(text); k++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%llu", k ? "x" : "",
				      (unsigned long long)ckpt_shape(c, t)[k]);
	if (!t->rank)
		snprintf(text + n, sizeof(text) - n, "scalar");
	kept = arena_copy(&d->hidden->arena, text, err);
	*st = kept ? *st : mem_status(err);
	return kept;
}

static enum plim_status fill_pair(struct plim_ckpt_diff *d, const struct ckpt_pair *p, bool values,
				  struct plim_err *err)
{
	const struct ckpt_compare *x = &d->hidden->compare;
	enum plim_status st = PLIM_OK;
	bool looked = values && p->compared;

	d->compared += p->compared;
	d->changed += p->changed;
	d->nonfinite += p->nonfinite;
	if (looked && !isnan(p->max_difference)) {
		if (isnan(d->max_difference) || p->max_difference > d->max_difference)
			d->max_difference = p->max_difference;
		d->mean_difference += p->mean_difference * (double)p->compared;
	}
	if (p->change == CKPT_CHANGE_NONE && !p->changed)
		return PLIM_OK;
	d->tensors[d->tensor_count] = (struct plim_ckpt_difference){
		.name = p->a != CKPT_NONE ? ckpt_text(x->a, x->a->tensors.at[p->a].name)
					  : ckpt_text(x->b, x->b->tensors.at[p->b].name),
		.change = changes[p->change],
		.first = shape_text(d, x->a, p->a, &st, err),
		.second = shape_text(d, x->b, p->b, &st, err),
		.changed = looked ? p->changed : PLIM_UNKNOWN,
		.max_difference = looked ? p->max_difference : NAN,
		.mean_difference = looked ? p->mean_difference : NAN,
	};
	d->tensor_count++;
	return st;
}

static enum plim_status compose(struct plim_ckpt_diff *d, bool values, double threshold,
				struct plim_err *err)
{
	struct plim_ckpt_diff_hidden *h = d->hidden;
	const struct ckpt_compare *x = &h->compare;
	enum plim_status st = PLIM_OK;

	d->conclusion_count = x->conclusions.n;
	d->tensors = arena_take(&h->arena, x->pairs.n, sizeof(*d->tensors), err);
	d->conclusions = arena_take(&h->arena, x->conclusions.n, sizeof(*d->conclusions), err);
	if (!d->tensors || !d->conclusions)
		return mem_status(err);
	for (size_t i = 0; i < x->conclusions.n; i++)
		d->conclusions[i] = (struct plim_ckpt_conclusion){ x->conclusions.at[i].kind,
								   x->conclusions.at[i].text };
	d->equal = x->counts[CKPT_CHANGE_NONE];
	d->other_dtype = x->counts[CKPT_CHANGE_DTYPE];
	d->other_shape = x->counts[CKPT_CHANGE_SHAPE];
	d->only_in_first = x->counts[CKPT_CHANGE_ONLY_A];
	d->only_in_second = x->counts[CKPT_CHANGE_ONLY_B];
	d->against_config = x->loads != NULL;
	if (x->loads && *x->loads != 'u')
		d->loads = tri(*x->loads == 'y');
	d->same = d->equal == x->pairs.n && !*x->prefix[0] && !*x->prefix[1];
	d->max_difference = NAN;
	for (size_t i = 0; !st && i < x->pairs.n; i++)
		st = fill_pair(d, &x->pairs.at[i], values, err);
	d->mean_difference = d->compared ? d->mean_difference / (double)d->compared : NAN;
	d->bf16_enough = d->max_difference < threshold && !d->nonfinite;
	d->not_compared = x->unread;
	if (!values)
		d->compared = d->changed = d->nonfinite = d->not_compared = PLIM_UNKNOWN;
	return st;
}

static enum plim_status hide(struct plim_ckpt_diff *d, struct plim_err *err)
{
	struct plim_ckpt_diff_hidden *x = d->hidden;
	struct intern words;
	struct redact h = { .arena = &x->arena, .words = &words, .err = err };

	x->redacted = true;
	d->first = "first";
	d->second = "second";
	err->status = PLIM_OK;
	intern_init(&words, &x->mem);
	for (size_t i = 0; i < d->tensor_count; i++)
		ckpt_hide_words(&h, &d->tensors[i].name);
	for (size_t i = 0; i < d->conclusion_count; i++)
		ckpt_hide_quoted(&h, &d->conclusions[i].text);
	intern_release(&words);
	return err->status;
}

void plim_ckpt_diff_options_init(struct plim_ckpt_diff_options *o)
{
	*o = (struct plim_ckpt_diff_options){ CKPT_DIFF_DEFAULTS };
}

enum plim_status plim_ckpt_diff(const struct plim_ckpt *first, const struct plim_ckpt *second,
				const struct plim_ckpt_diff_options *options,
				struct plim_ckpt_diff **out, struct plim_err *err)
{
	struct plim_ckpt_diff_options o = { 0 };
	struct plim_ckpt_diff *d;
	struct plim_ckpt_diff_hidden *h;
	struct plim_err own;
	enum plim_status st;
	bool values;

	*out = NULL;
	err = err ? err : &own; /* inner floors read the status back from it */
	st = OUT_NEW(ckpt_diff, d, &o, options, err);
	if (st)
		return st;
	values = o.flags & PLIM_CKPT_VALUES;
	h = d->hidden;
	host_mem_init(&h->mem, 0);
	arena_init(&h->arena, &h->mem);
	d->first = first->path;
	d->second = second->path;
	st = ckpt_compare(&h->compare, &first->hidden->ckpt, &second->hidden->ckpt, values, err);
	if (!st)
		st = compose(d, values, o.threshold, err);
	if (!st && o.flags & PLIM_CKPT_REDACT)
		st = hide(d, err);
	if (st)
		plim_ckpt_diff_free(d);
	else
		*out = d;
	return st;
}

void plim_ckpt_diff_free(struct plim_ckpt_diff *d)
{
	struct plim_ckpt_diff_hidden *h;

	if (!d)
		return;
	h = d->hidden;
	ckpt_compare_release(&h->compare);
	arena_release(&h->arena);
	free(d);
}

enum plim_status plim_ckpt_diff_json(const struct plim_ckpt_diff *d, plim_write_fn *write,
				     void *ctx, struct plim_err *err)
{
	return out_json(&d->hidden->mem, &ckpt_diff_table, d, write, ctx, err);
}

/* ---- text ---- */

static void values_line(struct text *t, const struct plim_ckpt_diff *d)
{
	if (d->compared == PLIM_UNKNOWN) {
		if (d->same && !d->against_config)
			text_puts(t, "  values  not compared: --values does\n");
		return;
	}
	text_puts(t, "  values  ");
	if (d->changed) {
		text_count(t, d->changed);
		text_puts(t, " of ");
		text_count(t, d->compared);
		text_puts(t, " numbers differ");
	} else {
		text_puts(t, d->compared ? "no difference in " : "none were compared");
		if (d->compared)
			text_count(t, d->compared);
		text_puts(t, d->compared ? " numbers" : "");
	}
	if (d->changed && !isnan(d->max_difference))
		text_printf(t, "; largest difference %.6g, mean %.6g\n          bf16 %s",
			    d->max_difference, d->mean_difference,
			    d->bf16_enough ? "would be enough" : "would not be enough");
	if (d->nonfinite) {
		text_puts(t, "\n          ");
		text_count(t, d->nonfinite);
		text_puts(t, d->nonfinite == 1 ? " of them is" : " of them are");
		text_puts(t, " NaN or infinite on one side, which no difference counts");
	}
	text_puts(t, "\n");
	if (!d->not_compared)
		return;
	text_puts(t, "          ");
	text_count(t, d->not_compared);
	text_puts(t, d->not_compared == 1 ? " tensor was" : " tensors were");
	text_puts(t, " not compared: without bytes, or damaged\n");
}

/* In torch's words, which people search for. */
static const char *what(const struct plim_ckpt_diff *d, const struct plim_ckpt_difference *one)
{
	return !one->first    ? (d->against_config ? "missing" : "missing in first")
	       : !one->second ? (d->against_config ? "unexpected" : "missing in second")
	       : !strcmp(one->change, "shape") ? "size mismatch"
	       : !strcmp(one->change, "dtype") ? "other dtype"
					       : "values";
}

/* In few columns each has two lines: its name would not be seen in a table. */
static void narrow_list(struct text *t, const struct plim_ckpt_diff *d, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct plim_ckpt_difference *one = &d->tensors[i];
		char most[40] = "";

		if (!isnan(one->max_difference))
			snprintf(most, sizeof(most), ", by %.3g", one->max_difference);
		text_puts(t, "  ");
		text_name_fit(t, one->name, strlen(one->name), t->style.width - 2, TEXT_CUT_LEFT);
		text_puts(t, "\n    ");
		text_wrap(t, 4, 4, "%s: %s%s%s%s", what(d, one), one->first ? one->first : "",
			  one->first && one->second ? " against " : "",
			  one->second ? one->second : "", most);
	}
}

#define COMMON_BYTES 200

struct common {
	size_t before, behind; /* bytes, up to a dot and from one on */
};

/*
 * What all names begin and end with.  Cut from the left by the table, names of the same module in two layers would look
 * equal; without what is common they fit.  Nothing if they are short enough as they are.
 */
static struct common common_parts(const struct text *t, const struct plim_ckpt_diff *d, size_t n)
{
	const char *first = d->tensors[0].name;
	size_t length = strlen(first), longest = length;
	struct common c = { length, length };

	for (size_t i = 1; i < n; i++) {
		const char *name = d->tensors[i].name;
		size_t k = 0, m = strlen(name);

		longest = m > longest ? m : longest;
		while (k < c.before && name[k] == first[k])
			k++;
		c.before = k;
		for (k = 0; k < c.behind && k < m && name[m - 1 - k] == first[length - 1 - k];)
			k++;
		c.behind = k;
	}
	while (c.before && first[c.before - 1] != '.')
		c.before--;
	/* Both may want the same bytes of a name that is shorter than the others. */
	for (size_t i = 0; i < n; i++) {
		size_t rest = strlen(d->tensors[i].name) - c.before;

		c.behind = c.behind > rest ? rest : c.behind;
	}
	while (c.behind && first[length - c.behind] != '.')
		c.behind--;
	if (n < 2 || c.before + c.behind > COMMON_BYTES || longest <= t->style.width / 2U)
		c = (struct common){ 0, 0 };
	return c;
}

static void wide_list(struct text *t, const struct plim_ckpt_diff *d, size_t n)
{
	struct text_table b;
	struct common c = common_parts(t, d, n);
	const char *first = d->tensors[0].name;
	char text[COMMON_BYTES + 40];

	if (t->style.width && c.before + c.behind) {
		snprintf(text, sizeof(text), "* in '%.*s*%s':", (int)c.before, first,
			 first + strlen(first) - c.behind);
		text_puts(t, "  ");
		text_wrap_name(t, 2, 4, text);
	} else {
		c = (struct common){ 0, 0 };
	}
	text_table_init(&b, t, "lllrl", TEXT_CUT_LEFT);
	for (size_t i = 0; i < n; i++) {
		const struct plim_ckpt_difference *one = &d->tensors[i];

		text_cell_printf(&b, "%s", what(d, one));
		text_cell_printf(&b, "%s", one->first ? one->first : "-");
		text_cell_printf(&b, "%s", one->second ? one->second : "-");
		if (isnan(one->max_difference))
			text_cell_printf(&b, "%s", "");
		else
			text_cell_printf(&b, "%.3g", one->max_difference);
		text_cell_name(&b, one->name + c.before, strlen(one->name) - c.before - c.behind);
	}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

static void list(struct text *t, const struct plim_ckpt_diff *d)
{
	size_t n = d->tensor_count < TENSORS_SHOWN ? d->tensor_count : TENSORS_SHOWN;

	if (!n)
		return;
	text_puts(t, "\n");
	(t->style.width && t->style.width < 60 ? narrow_list : wide_list)(t, d, n);
	if (d->tensor_count > TENSORS_SHOWN)
		text_printf(t, "  and %zu more (--json has them all)\n",
			    d->tensor_count - TENSORS_SHOWN);
}

static const char *title(const struct plim_ckpt_diff *d)
{
	if (!d->against_config)
		return d->same ? "SAME STRUCTURE\n" : "DIFFERENT\n";
	return d->loads == PLIM_TRI_YES  ? "LOADS\n"
	       : d->loads == PLIM_TRI_NO ? "DOES NOT LOAD\n"
					 : "NOT KNOWN\n";
}

enum plim_status plim_ckpt_diff_text(const struct plim_ckpt_diff *d,
				     const struct plim_text_style *style, plim_write_fn *write,
				     void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	struct text t;

	text_init(&t, &d->hidden->mem, &s);
	text_hue(&t, d->loads == PLIM_TRI_NO               ? TEXT_BAD
		     : d->same || d->loads == PLIM_TRI_YES ? TEXT_GOOD
							   : TEXT_HEAD);
	text_puts(&t, title(d));
	text_plain(&t);
	for (size_t i = 0; i < d->conclusion_count; i++) {
		text_puts(&t, "  ");
		text_wrap_name(&t, 2, 4, d->conclusions[i].text);
	}
	values_line(&t, d);
	list(&t, d);
	if (d->hidden->redacted)
		ckpt_tell_kept(&t);
	return out_text(&t, write, ctx, err);
}
