/*
 * What kind of difference it is: rules that look at shapes and at numbers in names, the most telling first; and
 * next to a config, whether it would load.
 */
#include "parts.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIDDLE_BYTES 200 /* of what differs between two names */
#define RENAMES 8        /* different ones that are reported */

static const char *const heads[] = { "lm_head", "classifier", "score.",  "qa_outputs",
				     "head.",   "fc.",        "output.", "cls." };
static const char *const embeddings[] = { "embed",           "wte",           "lm_head",
					  "word_embeddings", "output.weight", "shared.weight",
					  "decoder.bias",    "emb." };
/* Embeddings too, of places: as many rows as a sequence may have. */
static const char *const positions[] = { "position", "pos_emb", "wpe", "pos_enc" };

static bool mentions(const char *name, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strstr(name, words[i]))
			return true;
	return false;
}

/* ---- the rules ---- */

static enum plim_status conclude(struct ckpt_compare *d, const char *kind, struct plim_err *err,
				 const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static enum plim_status conclude(struct ckpt_compare *d, const char *kind, struct plim_err *err,
				 const char *fmt, ...)
{
	struct ckpt_conclusion c = { .kind = kind };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c.text, sizeof(c.text), fmt, ap);
	va_end(ap);
	return vec_push(d->a->mem, &d->conclusions, c, err);
}

static const char *conclusion_name_of(const struct ckpt_compare *d, const struct ckpt_pair *p)
{
	return p->a != CKPT_NONE ? ckpt_text(d->a, d->a->tensors.at[p->a].name)
				 : ckpt_text(d->b, d->b->tensors.at[p->b].name);
}

/* The first number between dots in a name: its layer; UINT64_MAX without. */
static uint64_t layer_of(const char *name)
{
	for (const char *p = name; *p; p++) {
		char *end;

		if (!isdigit((unsigned char)*p) || (p > name && p[-1] != '.'))
			continue;
		uint64_t n = strtoull(p, &end, 10);

		if (*end == '.' && end - p < 9)
			return n;
		p = end - 1;
	}
	return UINT64_MAX;
}

/* An optimizer's state is numbered by parameters, not by layers. */
static bool is_state(const char *name)
{
	return !strncmp(name, "state.", 6) || strstr(name, ".state.") || strstr(name, "/state.");
}

static uint64_t layers(const struct ckpt *c)
{
	uint64_t most = 0;

	for (size_t i = 0; i < c->tensors.n; i++) {
		const char *name = ckpt_text(c, c->tensors.at[i].name);
		uint64_t n = is_state(name) ? UINT64_MAX : layer_of(name);

		if (n != UINT64_MAX && n + 1 > most)
			most = n + 1;
	}
	return most;
}

static enum plim_status judge_depth(struct ckpt_compare *d, size_t *explained, struct plim_err *err)
{
	uint64_t la = layers(d->a), lb = layers(d->b), least = la < lb ? la : lb;
	enum ckpt_change side = la > lb ? CKPT_CHANGE_ONLY_A : CKPT_CHANGE_ONLY_B;
	size_t beyond = 0;

	for (size_t i = 0; i < d->pairs.n; i++) {
		uint64_t n = layer_of(conclusion_name_of(d, &d->pairs.at[i]));

		beyond += d->pairs.at[i].change == side && n != UINT64_MAX && n >= least;
	}
	/* Layers that both have must match, or it is another architecture altogether. */
	if (la == lb || !beyond || !least ||
	    !(d->counts[CKPT_CHANGE_NONE] + d->counts[CKPT_CHANGE_DTYPE] +
	      d->counts[CKPT_CHANGE_SHAPE]))
		return PLIM_OK;
	*explained += beyond;
	return conclude(d, "depth", err, "another depth: %llu layer%s against %llu (%zu tensor%s)",
			(unsigned long long)la, text_s(la), (unsigned long long)lb, beyond,
			text_s(beyond));
}

static enum plim_status judge_lora(struct ckpt_compare *d, size_t *explained, struct plim_err *err)
{
	size_t n[2] = { 0, 0 };

	for (size_t i = 0; i < d->pairs.n; i++) {
		const struct ckpt_pair *p = &d->pairs.at[i];

		if (p->change >= CKPT_CHANGE_ONLY_A && strstr(conclusion_name_of(d, p), "lora_"))
			n[p->change == CKPT_CHANGE_ONLY_B]++;
	}
	if (!n[0] == !n[1])
		return PLIM_OK;
	*explained += n[0] + n[1];
	return conclude(d, "lora", err, "LoRA on one side: %zu adapter tensor%s only in %s",
			n[0] + n[1], text_s(n[0] + n[1]), n[0] ? "the first" : "the second");
}

/* An output layer on one side only: tied to the embedding, or a head of another task. */
static enum plim_status judge_heads(struct ckpt_compare *d, size_t *explained, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < d->pairs.n; i++) {
		const struct ckpt_pair *p = &d->pairs.at[i];
		const char *name = conclusion_name_of(d, p),
			   *side = p->a != CKPT_NONE ? "the second" : "the first";
		const char *last = strrchr(name, '.');
		bool head = mentions(name, heads, sizeof(heads) / sizeof(heads[0]));

		if (p->change < CKPT_CHANGE_ONLY_A || !head || layer_of(name) != UINT64_MAX ||
		    !last)
			continue;
		++*explained;
		if (strstr(name, "lm_head.weight"))
			st = conclude(d, "tied", err,
				      "'%.200s' is missing in %s: tied to the embedding there, or "
				      "a model without a head",
				      name, side);
		else
			st = conclude(d, "head", err, "an extra head: '%.200s' is not in %s", name,
				      side);
	}
	return st;
}

static uint64_t lesser_side(const uint64_t *shape)
{
	return shape[0] < shape[1] ? shape[0] : shape[1];
}

/* How two shapes differ; the most telling last. */
enum reshape {
	SHAPE_WIDTH,
	SHAPE_RANK,
	SHAPE_TURNED,
	SHAPE_LORA,
	SHAPE_HEAD,
	SHAPE_PLACES,
	SHAPE_ROWS,
	RESHAPES
};

static enum reshape reshape_of(const struct ckpt_compare *d, const struct ckpt_pair *p)
{
	const struct ckpt_tensor *s = &d->a->tensors.at[p->a], *t = &d->b->tensors.at[p->b];
	const uint64_t *x = ckpt_shape(d->a, s), *y = ckpt_shape(d->b, t);
	const char *name = conclusion_name_of(d, p);

	if (s->rank != t->rank || !s->rank)
		return SHAPE_RANK;
	if (s->rank == 2 && strstr(name, "lora_") && lesser_side(x) != lesser_side(y))
		return SHAPE_LORA;
	if (!memcmp(x + 1, y + 1, (s->rank - 1u) * sizeof(*x))) {
		if (s->rank == 2 &&
		    mentions(name, positions, sizeof(positions) / sizeof(positions[0])))
			return SHAPE_PLACES;
		if (mentions(name, embeddings, sizeof(embeddings) / sizeof(embeddings[0])))
			return SHAPE_ROWS;
		if (mentions(name, heads, sizeof(heads) / sizeof(heads[0])) &&
		    layer_of(name) == UINT64_MAX)
			return SHAPE_HEAD;
	}
	return s->rank == 2 && x[0] == y[1] && x[1] == y[0] ? SHAPE_TURNED : SHAPE_WIDTH;
}

static bool last_differs(const struct ckpt_compare *d, const struct ckpt_pair *p)
{
	const struct ckpt_tensor *s = &d->a->tensors.at[p->a], *t = &d->b->tensors.at[p->b];

	return ckpt_shape(d->a, s)[s->rank - 1] != ckpt_shape(d->b, t)[t->rank - 1];
}

/* Of two shapes of one rank that are not the same. */
static size_t first_differing(const uint64_t *x, const uint64_t *y)
{
	size_t i = 0;

	while (x[i] == y[i])
		i++;
	return i;
}

static enum plim_status conclude_shape(struct ckpt_compare *d, enum reshape how, size_t n,
				       const struct ckpt_pair *p, struct plim_err *err)
{
	const struct ckpt_tensor *s = &d->a->tensors.at[p->a], *t = &d->b->tensors.at[p->b];
	const uint64_t *x = ckpt_shape(d->a, s), *y = ckpt_shape(d->b, t);
	const char *name = conclusion_name_of(d, p);

	switch (how) {
	case SHAPE_ROWS:
		return conclude(d, "vocabulary", err, "another vocabulary: %llu rows against %llu",
				(unsigned long long)x[0], (unsigned long long)y[0]);
	case SHAPE_PLACES:
		return conclude(d, "positions", err,
				"another number of positions: '%.200s' has %llu rows against %llu "
				"(context length?)",
				name, (unsigned long long)x[0], (unsigned long long)y[0]);
	case SHAPE_HEAD:
		return conclude(d, "head_size", err,
				"a head of another size: '%.200s' has %llu rows against %llu "
				"(classes?)",
				name, (unsigned long long)x[0], (unsigned long long)y[0]);
	case SHAPE_LORA:
		return conclude(d, "lora_rank", err, "another LoRA rank: %llu against %llu",
				(unsigned long long)lesser_side(x),
				(unsigned long long)lesser_side(y));
	case SHAPE_TURNED:
		return conclude(d, "transposed", err,
				"%zu tensor%s %s transposed, '%.200s' for one (Conv1D against "
				"Linear?)",
				n, text_s(n), text_are(n), name);
	case SHAPE_RANK:
		return conclude(
			d, "rank", err,
			"%zu tensor%s %s another number of dimensions, '%.200s' %u against %u", n,
			text_s(n), n == 1 ? "has" : "have", name, s->rank, t->rank);
	default: break;
	}
	if (!last_differs(d, p))
		return conclude(d, "width", err,
				"another size: %zu tensor%s %s in shape, '%.200s' has %llu "
				"against %llu in its first dimension that differs",
				n, text_s(n), n == 1 ? "differs" : "differ", name,
				(unsigned long long)x[first_differing(x, y)],
				(unsigned long long)y[first_differing(x, y)]);
	return conclude(d, "width", err,
			"another width: %zu tensor%s %s in shape, '%.200s' has %llu "
			"against %llu in its last dimension",
			n, text_s(n), n == 1 ? "differs" : "differ", name,
			(unsigned long long)x[s->rank - 1], (unsigned long long)y[t->rank - 1]);
}

/* One width explains all other sizes; without it each kind is reported. */
static enum plim_status judge_shapes(struct ckpt_compare *d, struct plim_err *err)
{
	const struct ckpt_pair *example[RESHAPES] = { NULL };
	size_t n[RESHAPES] = { 0 };
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; i < d->pairs.n; i++) {
		const struct ckpt_pair *p = &d->pairs.at[i], **one;
		enum reshape how;

		if (p->change != CKPT_CHANGE_SHAPE)
			continue;
		how = reshape_of(d, p);
		one = &example[how];
		n[how]++;
		/* A vector is as wide as the model; a bias has no rows. */
		if (!*one || (how == SHAPE_WIDTH && (last_differs(d, p) > last_differs(d, *one) ||
						     (d->a->tensors.at[p->a].rank == 1 &&
						      d->a->tensors.at[(*one)->a].rank != 1))))
			*one = p;
	}
	if (n[SHAPE_WIDTH])
		return conclude_shape(d, SHAPE_WIDTH, d->counts[CKPT_CHANGE_SHAPE],
				      example[SHAPE_WIDTH], err);
	for (int how = RESHAPES - 1; !st && how > SHAPE_WIDTH; how--)
		if (n[how])
			st = conclude_shape(d, (enum reshape)how, n[how], example[how], err);
	return st;
}

/* What differs between two names, ends cut off: "attn" -> "attention". */
static void middle(const char *x, const char *y, char *from, char *to)
{
	size_t nx = strlen(x), ny = strlen(y), head = 0, tail = 0;

	while (x[head] && x[head] == y[head])
		head++;
	while (tail < nx - head && tail < ny - head && x[nx - 1 - tail] == y[ny - 1 - tail])
		tail++;
	/* Back to whole parts of the name. */
	while (head && x[head - 1] != '.')
		head--;
	while (tail && x[nx - tail] != '.')
		tail--;
	snprintf(from, MIDDLE_BYTES, "%.*s", (int)(nx - head - tail), x + head);
	snprintf(to, MIDDLE_BYTES, "%.*s", (int)(ny - head - tail), y + head);
}

struct rename {
	char from[MIDDLE_BYTES], to[MIDDLE_BYTES];
	size_t n; /* tensors */
};

/* Counts it with those that say the same; more than RENAMES different ones are not a renaming but another model. */
static void add_rename(struct rename *known, size_t *n, const struct rename *one)
{
	size_t i = 0;

	while (i < *n && (strcmp(known[i].from, one->from) || strcmp(known[i].to, one->to)))
		i++;
	if (i == RENAMES)
		return;
	if (i == *n)
		known[(*n)++] = *one;
	known[i].n++;
}

/* Unmatched tensors of equal shape, in the same order on both sides: a few substitutions for many? */
static enum plim_status judge_renames(struct ckpt_compare *d, size_t *explained,
				      struct plim_err *err)
{
	struct rename known[RENAMES], one = { .n = 0 };
	size_t n = 0, j = 0, tensors = 0;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; i < d->pairs.n; i++) {
		const struct ckpt_tensor *s, *t;

		if (d->pairs.at[i].change != CKPT_CHANGE_ONLY_A)
			continue;
		while (j < d->pairs.n && d->pairs.at[j].change != CKPT_CHANGE_ONLY_B)
			j++;
		if (j == d->pairs.n)
			break;
		s = &d->a->tensors.at[d->pairs.at[i].a];
		t = &d->b->tensors.at[d->pairs.at[j++].b];
		if (compare_change(d->a, s, d->b, t) == CKPT_CHANGE_SHAPE)
			continue;
		middle(ckpt_text(d->a, s->name), ckpt_text(d->b, t->name), one.from, one.to);
		add_rename(known, &n, &one);
	}
	for (size_t i = 0; i < n; i++)
		tensors += known[i].n > 1 ? known[i].n : 0;
	for (size_t i = 0; !st && i < n && tensors * 2 >= d->counts[CKPT_CHANGE_ONLY_A]; i++) {
		if (known[i].n < 2)
			continue;
		*explained += 2 * known[i].n;
		st = conclude(d, "rename", err,
			      "a rename: '%s' is '%s' in the second, for %zu tensors",
			      known[i].from, known[i].to, known[i].n);
	}
	return st;
}

/* Weights under a key of a training checkpoint: what stands under other keys is not missing. */
static enum plim_status judge_outside(struct ckpt_compare *d, int side, size_t *explained,
				      struct plim_err *err)
{
	enum ckpt_change only = side ? CKPT_CHANGE_ONLY_B : CKPT_CHANGE_ONLY_A;
	size_t n = 0;

	for (size_t i = 0; i < d->pairs.n; i++) {
		const char *name = conclusion_name_of(d, &d->pairs.at[i]);

		n += d->pairs.at[i].change == only && compare_strip(name, d->prefix[side]) == name;
	}
	if (!n)
		return PLIM_OK;
	*explained += n;
	return conclude(d, "training_state", err,
			"%zu tensor%s of %s stand%s outside of '%s' (training state?)", n,
			text_s(n), side ? "the second" : "the first", n == 1 ? "s" : "",
			d->prefix[side]);
}

/* The first tensor of each extent. */
static uint32_t *leaders(const struct ckpt *c, struct plim_err *err)
{
	uint32_t *first = mem_new(c->mem, c->extents.n, sizeof(*first), err);

	for (size_t i = c->tensors.n; first && i--;)
		if (c->tensors.at[i].extent != CKPT_NONE)
			first[c->tensors.at[i].extent] = (uint32_t)i;
	return first;
}

/* The tensor whose bytes tensor i is, all of them; CKPT_NONE: its own. */
static uint32_t tied_to(const struct ckpt *c, const uint32_t *first, uint32_t i)
{
	const struct ckpt_tensor *t = &c->tensors.at[i], *u;

	if (t->extent == CKPT_NONE || first[t->extent] == i || !t->count)
		return CKPT_NONE;
	u = &c->tensors.at[first[t->extent]];
	return u->offset == t->offset && u->count == t->count ? first[t->extent] : CKPT_NONE;
}

/* Weights that are one in one file and two in the other: training goes on differently. */
static enum plim_status judge_ties(struct ckpt_compare *d, struct plim_err *err)
{
	uint32_t *a = leaders(d->a, err), *b = leaders(d->b, err), tie[2] = { 0, 0 };
	enum plim_status st = a && b ? PLIM_OK : mem_status(err);
	const struct ckpt_pair *one = NULL;
	size_t n = 0;

	for (size_t i = 0; !st && i < d->pairs.n; i++) {
		const struct ckpt_pair *p = &d->pairs.at[i];

		if (p->a == CKPT_NONE || p->b == CKPT_NONE ||
		    (tied_to(d->a, a, p->a) == CKPT_NONE) == (tied_to(d->b, b, p->b) == CKPT_NONE))
			continue;
		one = one ? one : p;
		n++;
	}
	if (one) {
		tie[0] = tied_to(d->a, a, one->a);
		tie[1] = tied_to(d->b, b, one->b);
		st = conclude(
			d, "tied", err,
			"tied weights in the %s only: '%.200s' is '%.200s' there (%zu tensor%s)",
			tie[0] != CKPT_NONE ? "first" : "second", conclusion_name_of(d, one),
			tie[0] != CKPT_NONE ? ckpt_text(d->a, d->a->tensors.at[tie[0]].name)
					    : ckpt_text(d->b, d->b->tensors.at[tie[1]].name),
			n, text_s(n));
	}
	mem_free(d->a->mem, a, d->a->extents.n, sizeof(*a));
	mem_free(d->b->mem, b, d->b->extents.n, sizeof(*b));
	return st;
}

/* What no rule explained, or that nothing differs. */
static enum plim_status judge_rest(struct ckpt_compare *d, size_t left, size_t common,
				   struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (left && !common)
		st = conclude(d, "architecture", err, "another architecture: no name is in both");
	else if (left)
		st = conclude(d, "names", err, "%zu name%s %s in one only, and no rule explains %s",
			      left, text_s(left), text_are(left), left == 1 ? "it" : "them");
	if (!st && !d->conclusions.n)
		st = conclude(d, "same", err, "the same names, shapes and dtypes: %zu tensor%s",
			      common, text_s(common));
	return st;
}

static enum plim_status judge_conclusion(struct ckpt_compare *d, struct plim_err *err)
{
	size_t *n = d->counts, left = n[CKPT_CHANGE_ONLY_A] + n[CKPT_CHANGE_ONLY_B], explained = 0;
	size_t common = n[CKPT_CHANGE_NONE] + n[CKPT_CHANGE_DTYPE] + n[CKPT_CHANGE_SHAPE];
	enum plim_status st = PLIM_OK;

	for (int k = 0; !st && k < 2; k++)
		if (*d->prefix[k])
			st = conclude(d, "prefix", err,
				      "a prefix: names begin with '%s' in %s only", d->prefix[k],
				      k ? "the second" : "the first");
	for (int k = 0; !st && k < 2; k++)
		if (*d->prefix[k])
			st = judge_outside(d, k, &explained, err);
	if (!st && left)
		st = judge_lora(d, &explained, err);
	if (!st && explained && !common)
		return PLIM_OK; /* an adapter next to a model: nothing else can be compared */
	if (!st && left)
		st = judge_depth(d, &explained, err);
	if (!st && left > explained)
		st = judge_heads(d, &explained, err);
	if (!st && left > explained)
		st = judge_renames(d, &explained, err);
	if (!st && n[CKPT_CHANGE_SHAPE])
		st = judge_shapes(d, err);
	if (!st && n[CKPT_CHANGE_DTYPE])
		st = conclude(d, "dtype", err, "another dtype: %zu of %zu tensor%s",
			      n[CKPT_CHANGE_DTYPE], common, text_s(common));
	if (!st)
		st = judge_rest(d, left > explained ? left - explained : 0, common, err);
	return st || d->b->kind == CKPT_KIND_CONFIG ? st : judge_ties(d, err);
}

/* ---- next to what a config promises ---- */

/* The first tensor that is an embedding of words, by its name. */
static const struct ckpt_tensor *find_embedding(const struct ckpt *c)
{
	static const char *const words[] = { "embed_tokens", "wte.", "word_embeddings", "embed_in",
					     "tok_embeddings" };

	for (size_t i = 0; i < c->tensors.n; i++)
		if (c->tensors.at[i].rank == 2 &&
		    !strstr(ckpt_text(c, c->tensors.at[i].name), "lora_") &&
		    mentions(ckpt_text(c, c->tensors.at[i].name), words,
			     sizeof(words) / sizeof(words[0])))
			return &c->tensors.at[i];
	return NULL;
}

/* An architecture without a table: depth, vocabulary and width are looked for. */
static enum plim_status judge_partly(struct ckpt_compare *d, struct plim_err *err)
{
	uint64_t depth = ckpt_fact_number(d->b, CKPT_FACT_LAYERS),
		 rows = ckpt_fact_number(d->b, CKPT_FACT_VOCABULARY),
		 width = ckpt_fact_number(d->b, CKPT_FACT_HIDDEN), found = layers(d->a);
	const struct ckpt_tensor *t = find_embedding(d->a);
	const uint64_t *shape = t ? ckpt_shape(d->a, t) : NULL;
	size_t before = d->conclusions.n;
	enum plim_status st = PLIM_OK;

	if (depth && found && depth != found)
		st = conclude(d, "depth", err, "another depth: %llu layer%s, the config says %llu",
			      (unsigned long long)found, text_s(found), (unsigned long long)depth);
	if (!st && t && width && shape[1] != width)
		st = conclude(d, "width", err,
			      "another width: '%.200s' has %llu columns, the config says %llu",
			      ckpt_text(d->a, t->name), (unsigned long long)shape[1],
			      (unsigned long long)width);
	/* Padded to a multiple is usual. */
	if (!st && t && rows && shape[0] < rows)
		st = conclude(d, "vocabulary", err,
			      "another vocabulary: '%.200s' has %llu rows, the config says %llu",
			      ckpt_text(d->a, t->name), (unsigned long long)shape[0],
			      (unsigned long long)rows);
	d->loads = d->conclusions.n > before ? "no" : "unknown";
	if (!st && d->conclusions.n == before)
		st = conclude(d, "not_judged", err,
			      "whether it would load is not known: only depth, width and "
			      "vocabulary were looked at, as the "
			      "config's model is none whose tensors are known here");
	return st;
}

/* Names that begin so on one side only are matched by from_pretrained itself. */
static bool is_base_prefix(const char *prefix)
{
	return !*prefix || !strcmp(prefix, "model.") || !strcmp(prefix, "transformer.") ||
	       !strcmp(prefix, "bert.");
}

/* Of "model_state_dict.module." the length of the key that holds the state dict, with its dot; 0: names begin so themselves. */
static size_t holder_of(const struct ckpt *c, const char *prefix)
{
	size_t n = strcspn(prefix, ".");

	for (size_t i = 0; prefix[n] && i < c->keys.n; i++) {
		const char *key = ckpt_text(c, c->keys.at[i].name);

		if (!strncmp(key, prefix, n) && !key[n] && c->keys.at[i].tensors)
			return n + 1;
	}
	return 0;
}

static enum plim_status judge_loading(struct ckpt_compare *d, struct plim_err *err)
{
	size_t missing = d->counts[CKPT_CHANGE_ONLY_B], mismatch = d->counts[CKPT_CHANGE_SHAPE],
	       unexpected = d->counts[CKPT_CHANGE_ONLY_A], holder = holder_of(d->a, d->prefix[0]);
	bool prefix = !is_base_prefix(d->prefix[0] + holder) || !is_base_prefix(d->prefix[1]);
	struct ckpt_conclusion last;
	enum plim_status st;
	size_t n = 0;

	d->loads = missing || mismatch || prefix ? "no" : "yes";
	/* What only the checkpoint has does no harm then: no guesses about it. */
	for (size_t i = 0; *d->loads == 'y' && i < d->conclusions.n; i++)
		if (!strcmp(d->conclusions.at[i].kind, "dtype"))
			d->conclusions.at[n++] = d->conclusions.at[i];
	if (*d->loads == 'y') {
		d->conclusions.n = n;
		st = conclude(d, "loads", err,
			      "it would load: all %zu tensor%s of the config %s there%s",
			      d->b->tensors.n, text_s(d->b->tensors.n), text_are(d->b->tensors.n),
			      holder       ? "; what is under other keys is left out"
			      : unexpected ? "; the others are unexpected and left out"
					   : "");
	} else {
		st = conclude(d, "does_not_load", err,
			      "it would not load: %zu missing, %zu with a size mismatch, %zu "
			      "unexpected%s",
			      missing, mismatch, unexpected, prefix ? ", because of a prefix" : "");
	}
	if (st)
		return st;
	last = d->conclusions.at[d->conclusions.n - 1];
	memmove(d->conclusions.at + 1, d->conclusions.at, (d->conclusions.n - 1) * sizeof(last));
	*d->conclusions.at = last;
	if (*d->loads != 'y' || !holder)
		return PLIM_OK;
	return conclude(
		d, "state_dict", err,
		"the state dict is under the key '%.*s': load_state_dict(checkpoint['%.*s'])",
		(int)holder - 1, d->prefix[0], (int)holder - 1, d->prefix[0]);
}

enum plim_status compare_conclude(struct ckpt_compare *d, struct plim_err *err)
{
	bool config = d->b->kind == CKPT_KIND_CONFIG;
	enum plim_status st;

	if (config && !d->b->tensors.n)
		return judge_partly(d, err);
	st = judge_conclusion(d, err);
	return !st && config ? judge_loading(d, err) : st;
}
