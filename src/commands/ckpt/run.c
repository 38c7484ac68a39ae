/* The ckpt commands: reads a checkpoint and composes what is reported of it. */
#include "commands/ckpt/ckpt.h"
#include "commands/out.h"
#include "host/host.h"
#include "option_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[CKPT_KINDS] = {
#define KIND_NAME(id, name) [CKPT_KIND_##id] = name,
	CKPT_KIND_ROWS(KIND_NAME)
#undef KIND_NAME
};
_Static_assert((int)PLIM_CKPT_DANGEROUS == (int)CKPT_RUNS_CODE &&
		       (int)PLIM_CKPT_UNPROVEN == (int)CKPT_UNPROVEN,
	       "verdicts are reported by their numbers");
static const char *const trusts[] = { "plain",   "data",    "class",    "torchscript",
				      "allowed", "unknown", "dangerous" };

/* Zeroed; does nothing after a failure. */
static void *take_ckpt(struct plim_ckpt *r, size_t n, size_t size, enum plim_status *st,
		       struct plim_err *err)
{
	void *p = *st ? NULL : arena_take(&r->hidden->arena, n, size, err);

	*st = *st || p ? *st : mem_status(err);
	return p;
}

static const char *ckpt_text_of(const struct ckpt *c, uint32_t id)
{
	return id == CKPT_NONE ? NULL : ckpt_text(c, id);
}

/* The same for a text. */
static const char *say_ckpt(struct plim_ckpt *r, enum plim_status *st, struct plim_err *err,
			    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static const char *say_ckpt(struct plim_ckpt *r, enum plim_status *st, struct plim_err *err,
			    const char *fmt, ...)
{
	const char *text;
	va_list ap;

	if (*st)
		return NULL;
	va_start(ap, fmt);
	text = arena_vtext(&r->hidden->arena, err, fmt, ap);
	va_end(ap);
	*st = text ? PLIM_OK : mem_status(err);
	return text;
}

/* ---- rows that are copied ---- */

static enum plim_status fill_findings(struct plim_ckpt *r, struct plim_err *err)
{
	const struct ckpt *c = &r->hidden->ckpt;
	enum plim_status st = PLIM_OK;

	r->findings = take_ckpt(r, c->findings.n, sizeof(*r->findings), &st, err);
	for (int severity = CKPT_BAD_FINDING; !st && severity >= CKPT_NOTE; severity--)
		for (size_t i = 0; i < c->findings.n; i++) {
			const struct ckpt_finding *f = &c->findings.at[i];

			if ((int)f->severity == severity)
				r->findings[r->finding_count++] = (struct plim_finding){
					.id = f->kind,
					.severity = (enum plim_severity)severity,
					.confidence = 1,
					.title = ckpt_text(c, f->text),
					.bytes = PLIM_UNKNOWN,
					.per_period_bytes = PLIM_UNKNOWN,
					.place = { .line = PLIM_UNKNOWN, .offset = f->offset },
					.step = NAN,
					.detected_step = NAN,
					.end_step = NAN,
				};
		}
	return st;
}

static enum plim_status fill_globals(struct plim_ckpt *r, struct plim_err *err)
{
	const struct ckpt *c = &r->hidden->ckpt;
	enum plim_status st = PLIM_OK;

	r->globals = take_ckpt(r, c->globals.n, sizeof(*r->globals), &st, err);
	for (size_t i = 0; !st && i < c->globals.n; i++) {
		const struct ckpt_global *g = &c->globals.at[i];

		r->globals[r->global_count++] =
			(struct plim_ckpt_global){ ckpt_text(c, g->name), ckpt_text(c, g->record),
						   trusts[g->trust], g->offset, g->times };
	}
	return st;
}

static enum plim_status fill_small(struct plim_ckpt *r, struct plim_err *err)
{
	const struct ckpt *c = &r->hidden->ckpt;
	enum plim_status st = PLIM_OK;

	r->keys = take_ckpt(r, c->keys.n, sizeof(*r->keys), &st, err);
	r->optimizers = take_ckpt(r, c->optimizers.n, sizeof(*r->optimizers), &st, err);
	r->facts = take_ckpt(r, c->facts.n, sizeof(*r->facts), &st, err);
	if (st)
		return st;
	for (; r->key_count < c->keys.n; r->key_count++) {
		const struct ckpt_key *k = &c->keys.at[r->key_count];

		r->keys[r->key_count] =
			(struct plim_ckpt_key){ ckpt_text(c, k->name), ckpt_text(c, k->what),
						k->tensors, k->bytes };
	}
	for (; r->optimizer_count < c->optimizers.n; r->optimizer_count++) {
		const struct ckpt_optimizer *o = &c->optimizers.at[r->optimizer_count];

		r->optimizers[r->optimizer_count] = (struct plim_ckpt_optimizer){
			ckpt_text(c, o->path), o->kind,        o->groups,       o->parameters,
			o->state_tensors,      o->state_bytes, o->learning_rate
		};
	}
	for (; r->fact_count < c->facts.n; r->fact_count++) {
		const struct ckpt_fact *f = &c->facts.at[r->fact_count];

		r->facts[r->fact_count] =
			(struct plim_ckpt_fact){ ckpt_text(c, f->name), ckpt_text(c, f->value) };
	}
	return st;
}

/* ---- tensors ---- */

static struct plim_ckpt_tensor ckpt_row(const struct ckpt *c, const struct ckpt_tensor *t,
					bool values)
{
	const struct ckpt_extent *x = t->extent == CKPT_NONE ? NULL : &c->extents.at[t->extent];
	struct plim_ckpt_tensor out = {
		.name = ckpt_text(c, t->name),
		.dtype = t->dtype->name,
		.device = ckpt_text_of(c, t->location),
		.file = x ? c->files.at[x->file].name : NULL,
		.bytes = ckpt_tensor_bytes(t),
		.elements = t->count,
		.shape_count = t->rank,
		.stride_count = t->rank,
		.shape = c->dims.at + t->dims,
		.strides = c->dims.at + t->dims + t->rank,
		.offset_bytes = x && !x->deflated ? x->offset + t->offset * t->dtype->bits / 8
						  : PLIM_UNKNOWN,
		.storage = x ? t->extent : PLIM_UNKNOWN,
		.storage_bytes = x ? x->bytes : 0,
		.whole = ckpt_is_whole(c, (size_t)(t - c->tensors.at)),
		.nan = PLIM_UNKNOWN,
		.infinite = PLIM_UNKNOWN,
		.zero = PLIM_UNKNOWN,
		.min = NAN,
		.max = NAN,
		.parts = t->flags & CKPT_JOINED ? t->parts : 0,
	};

	if (values && t->values.numbers) {
		out.nan = t->values.nan;
		out.infinite = t->values.infinite;
		out.zero = t->values.zero;
		out.min = t->values.min;
		out.max = t->values.max;
	}
	return out;
}

static enum plim_status fill_tensors(struct plim_ckpt *r, bool values, struct plim_err *err)
{
	const struct ckpt *c = &r->hidden->ckpt;
	enum plim_status st = PLIM_OK;
	uint64_t *reached;

	r->tensors = take_ckpt(r, c->tensors.n, sizeof(*r->tensors), &st, err);
	reached = take_ckpt(r, c->extents.n, sizeof(*reached), &st, err);
	for (size_t i = 0; !st && i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];

		r->tensors[i] = ckpt_row(c, t, values);
		r->tensor_bytes += r->tensors[i].bytes;
		r->elements += t->count;
		if (t->extent == CKPT_NONE)
			continue;
		if (reached[t->extent])
			r->shared_bytes += r->tensors[i].bytes;
		reached[t->extent] += r->tensors[i].bytes;
	}
	for (size_t i = 0; !st && i < c->pieces.n; i++)
		if (c->pieces.at[i].extent != CKPT_NONE)
			reached[c->pieces.at[i].extent] += ckpt_tensor_bytes(&c->pieces.at[i]);
	r->tensor_count = st ? 0 : c->tensors.n;
	for (size_t i = 0; !st && !c->merged && i < c->extents.n; i++)
		if (c->extents.at[i].tensors && c->extents.at[i].bytes > reached[i])
			r->waste_bytes += c->extents.at[i].bytes - reached[i];
	return st;
}

/* ---- the tree ---- */

static enum plim_status fill_groups(struct plim_ckpt *r, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	struct ckpt_groups *g = take_ckpt(r, 1, sizeof(*g), &st, err);

	if (st)
		return st;
	st = ckpt_group(&r->hidden->ckpt, g, err);
	r->groups = take_ckpt(r, g->prefixes.n, sizeof(*r->groups), &st, err);
	for (uint32_t i = 0; !st && i < g->prefixes.n; i++)
		r->groups[r->group_count++] = (struct plim_ckpt_group){
			say_ckpt(r, &st, err, "%s", intern_text(&g->prefixes, i)),
			g->rows[i].tensors,
			g->rows[i].bytes,
			say_ckpt(r, &st, err, "%s", g->rows[i].dtypes),
			*g->rows[i].devices ? say_ckpt(r, &st, err, "%s", g->rows[i].devices)
					    : NULL,
		};
	ckpt_groups_release(g);
	return st;
}

/* ---- keys that a resume needs ---- */

static enum plim_status fill_required(struct plim_ckpt *r, const char *require,
				      struct plim_err *err)
{
	size_t most = 1;
	enum plim_status st = PLIM_OK;

	for (const char *p = require; p && *p; p++)
		most += *p == ',';
	r->required_missing = take_ckpt(r, most, sizeof(*r->required_missing), &st, err);
	while (!st && require && *require) {
		size_t n = strcspn(require, ",");

		if (n && !ckpt_has_key(&r->hidden->ckpt, require, n))
			r->required_missing[r->required_missing_count++] =
				say_ckpt(r, &st, err, "%.*s", (int)n, require);
		require += n + (require[n] == ',');
	}
	return st;
}

static enum plim_status fill_resume(struct plim_ckpt *r, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	const struct ckpt *c = &r->hidden->ckpt;
	size_t n;

	r->resume_missing =
		take_ckpt(r, CKPT_WANTS + c->optimizers.n, sizeof(*r->resume_missing), &st, err);
	n = st ? 0 : ckpt_resume_missing(c, r->resume_missing);
	for (size_t i = 0; !st && i < c->optimizers.n; i++) {
		const struct ckpt_optimizer *o = &c->optimizers.at[i];

		if (o->lacking)
			r->resume_missing[n++] = say_ckpt(
				r, &st, err,
				"optimizer state of %llu of the %llu parameters in its groups "
				"(normal for parameters that were never trained)",
				(unsigned long long)o->lacking, (unsigned long long)o->grouped);
	}
	r->resume_missing_count = n;
	return st;
}

/* ---- the verdict ---- */

/* Records alone, the pickle among them, are nothing that could be repaired. */
static bool has_whole_tensor(const struct ckpt *c)
{
	for (size_t i = 0; i < c->tensors.n; i++)
		if (ckpt_is_whole(c, i))
			return true;
	return false;
}

static enum plim_status fill_verdict(struct plim_ckpt *r, unsigned flags, struct plim_err *err)
{
	const struct ckpt *c = &r->hidden->ckpt;
	size_t missing = r->required_missing_count;
	const char *first = missing ? r->required_missing[0] : "";
	struct ckpt_judgement j;
	enum plim_status st = PLIM_OK;

	ckpt_judge(c, flags, missing, first, &j);
	r->verdict = (enum plim_ckpt_verdict)j.verdict;
	r->integrity = (enum plim_ckpt_verdict)j.integrity;
	r->headline = j.headline == j.room ? say_ckpt(r, &st, err, "%s", j.room) : j.headline;
	r->pickle = !c->pickled               ? NULL
		    : j.trust >= CKPT_UNKNOWN ? trusts[j.trust]
		    : ckpt_is_plain(c)        ? trusts[CKPT_PLAIN]
					      : "listed";
	r->whole_bytes = !c->truncated ? PLIM_UNKNOWN : has_whole_tensor(c) ? c->whole_bytes : 0;
	r->verified_bytes = flags ? c->verified_bytes : PLIM_UNKNOWN;
	r->unprotected_bytes = flags ? c->unprotected_bytes : PLIM_UNKNOWN;
	r->verified_records = flags ? c->verified_records : PLIM_UNKNOWN;
	return st;
}

static enum plim_status compose(struct plim_ckpt *r, const struct plim_ckpt_options *o,
				struct plim_err *err)
{
	const struct ckpt *c = &r->hidden->ckpt;
	enum plim_status st = fill_findings(r, err);
	struct intern words;

	r->kind = kinds[c->kind];
	r->bytes = c->bytes;
	r->files = c->files.n;
	if (!st)
		st = fill_globals(r, err);
	if (!st)
		st = fill_small(r, err);
	if (!st)
		st = fill_tensors(r, o->flags & PLIM_CKPT_VALUES, err);
	if (!st)
		st = fill_groups(r, err);
	if (!st)
		st = fill_required(r, o->require, err);
	if (!st)
		st = fill_resume(r, err);
	if (!st)
		st = fill_verdict(r, o->flags & ~(unsigned)PLIM_CKPT_REDACT, err);
	r->hidden->redacted = o->flags & PLIM_CKPT_REDACT;
	if (st || !r->hidden->redacted)
		return st;
	intern_init(&words, &r->hidden->mem);
	st = ckpt_hide(r, &words, err);
	intern_release(&words);
	return st;
}

static enum plim_status new_result(uint64_t max_memory_bytes, struct plim_ckpt **out,
				   struct plim_err *err)
{
	struct plim_ckpt *r = OUT_BARE(ckpt);
	struct plim_ckpt_hidden *h;

	*out = NULL;
	if (!r)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	h = r->hidden;
	host_mem_init(&h->mem, max_memory_bytes);
	arena_init(&h->arena, &h->mem);
	ckpt_init(&h->ckpt, &h->mem);
	*out = r;
	return PLIM_OK;
}

/* `r` becomes the caller's, or with a status goes. */
static enum plim_status give_ckpt(struct plim_ckpt *r, enum plim_status st, struct plim_ckpt **out)
{
	if (st)
		plim_ckpt_free(r);
	*out = st ? NULL : r;
	return st;
}

void plim_ckpt_options_init(struct plim_ckpt_options *o)
{
	*o = (struct plim_ckpt_options){ CKPT_DEFAULTS };
}

enum plim_status plim_ckpt_open(const char *path, const struct plim_ckpt_options *options,
				struct plim_ckpt **out, struct plim_err *err)
{
	struct plim_ckpt_options o = { .size = sizeof(o) };
	struct plim_ckpt *r;
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own; /* inner floors read the status back from it */
	st = options_take(&ckpt_options_table, &o, options, err);
	if (!st)
		st = new_result(o.max_memory_bytes, &r, err);
	*out = NULL;
	if (st)
		return st;
	r->hidden->ckpt.allow = o.allow;
	st = ckpt_read(&r->hidden->ckpt, path, err);
	r->hidden->ckpt.allow = NULL; /* the caller's */
	r->hidden->values = o.flags & PLIM_CKPT_VALUES;
	if (!st && o.flags & (PLIM_CKPT_VERIFY | PLIM_CKPT_VALUES))
		st = ckpt_scan(&r->hidden->ckpt, o.flags & PLIM_CKPT_VALUES ? CKPT_SCAN_VALUES : 0,
			       o.threads, err);
	if (!st)
		st = ckpt_join(&r->hidden->ckpt, err);
	if (!st) {
		r->path = say_ckpt(r, &st, err, "%s", path);
		st = compose(r, &o, err);
	}
	return give_ckpt(r, st, out);
}

enum plim_status plim_ckpt_open_config(const char *path, struct plim_ckpt **out,
				       struct plim_err *err)
{
	const struct plim_ckpt_options options = { .size = sizeof(options) };
	struct plim_ckpt *r;
	enum plim_status st = new_result(0, &r, err);

	*out = NULL;
	if (st)
		return st;
	st = ckpt_promise(&r->hidden->ckpt, path, err);
	if (!st) {
		r->path = say_ckpt(r, &st, err, "%s", path);
		st = compose(r, &options, err);
	}
	return give_ckpt(r, st, out);
}

void plim_ckpt_free(struct plim_ckpt *r)
{
	struct plim_ckpt_hidden *h;

	if (!r)
		return;
	h = r->hidden;
	arena_release(&h->arena);
	ckpt_close(&h->ckpt);
	free(r);
}
