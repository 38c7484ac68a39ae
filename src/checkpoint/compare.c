/*
 * Two checkpoints next to each other.  Names are matched after a prefix is taken off one side (a wrapper's,
 * or the key of a training checkpoint); conclude.c explains what is left, and numbers are compared in streams.
 */
#include "parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_NUMBERS 32768 /* even: complex ones are two */
#define OWN_PARTS 4         /* of a name, that may be a prefix */

/* Wrappers, and keys that weights stand under in training checkpoints. */
static const char *const prefixes[] = {
	"module.",
	"_orig_mod.",
	"model.",
	"_fsdp_wrapped_module.",
	"_checkpoint_wrapped_module.",
	"base_model.model.",
	"state_dict.",
	"model_state_dict.",
	"model_state_dict.module.",
	"model_state_dict._orig_mod.",
	"state_dict.model.",
	"model.module.",
	"net.",
	"network.",
	"ema.",
	"params.",
	"transformer.",
	"bert.",
	"module.model.",
	"_orig_mod.module.",
	"module._orig_mod.",
};
#define PREFIXES (sizeof(prefixes) / sizeof(prefixes[0]))

/* ---- matching ---- */

const char *compare_strip(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);

	return n && !strncmp(name, prefix, n) ? name + n : name;
}

/* Names of b by id of what is left of them; CKPT_NONE where none is. */
struct names {
	struct intern table;
	uint32_t *tensor;
};

static enum plim_status index_names(const struct ckpt *c, const char *prefix, struct names *x,
				    struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	intern_init(&x->table, c->mem);
	x->tensor = mem_new(c->mem, c->tensors.n, sizeof(*x->tensor), err);
	if (!x->tensor)
		return mem_status(err);
	for (size_t i = 0; !st && i < c->tensors.n; i++) {
		const char *name = compare_strip(ckpt_text(c, c->tensors.at[i].name), prefix);
		uint32_t id = CKPT_NONE;

		st = intern_add(&x->table, name, strlen(name), &id, err);
		if (!st && id == x->table.n - 1)
			x->tensor[id] = (uint32_t)i;
	}
	return st;
}

static void forget_names(const struct ckpt *c, struct names *x)
{
	intern_release(&x->table);
	mem_free(c->mem, x->tensor, c->tensors.n, sizeof(*x->tensor));
}

static size_t count_matches(const struct ckpt *a, const char *prefix, const struct names *b)
{
	size_t n = 0;

	for (size_t i = 0; i < a->tensors.n; i++) {
		const char *name = compare_strip(ckpt_text(a, a->tensors.at[i].name), prefix);

		n += intern_find(&b->table, name, strlen(name)) != INTERN_NONE;
	}
	return n;
}

/* Take `prefix` off one side if that makes more names equal than what was tried before. */
static void try_prefix(struct ckpt_compare *d, int side, const char *prefix,
		       const struct names *other, size_t *best)
{
	size_t n = count_matches(side ? d->b : d->a, prefix, other);

	if (n <= *best)
		return;
	*best = n;
	snprintf(d->prefix[side], sizeof(d->prefix[side]), "%s", prefix);
	*d->prefix[!side] = 0;
}

/* A wrapper that no one has heard of: what the first name begins with, part by part. */
static void try_own_parts(struct ckpt_compare *d, int side, const struct names *other, size_t *best)
{
	const struct ckpt *c = side ? d->b : d->a;
	const char *name = c->tensors.n ? ckpt_text(c, c->tensors.at[0].name) : "";
	char prefix[CKPT_PREFIX_BYTES];
	size_t n = 0;

	for (int i = 0; i < OWN_PARTS && strchr(name + n, '.'); i++) {
		n += strcspn(name + n, ".") + 1;
		if (n >= sizeof(prefix))
			return;
		snprintf(prefix, n + 1, "%s", name);
		try_prefix(d, side, prefix, other, best);
	}
}

/* The prefix of one side, or none, that makes most names equal. */
static enum plim_status choose_prefix(struct ckpt_compare *d, struct plim_err *err)
{
	const struct ckpt *side[2] = { d->a, d->b };
	size_t best = 0;
	enum plim_status st = PLIM_OK;

	for (int k = 0; !st && k < 2; k++) {
		struct names other;

		st = index_names(side[!k], "", &other, err);
		if (!st && !k)
			best = count_matches(side[k], "", &other);
		for (size_t i = 0; !st && i < PREFIXES; i++)
			try_prefix(d, k, prefixes[i], &other, &best);
		if (!st)
			try_own_parts(d, k, &other, &best);
		forget_names(side[!k], &other);
	}
	return st;
}

enum ckpt_change compare_change(const struct ckpt *a, const struct ckpt_tensor *x,
				const struct ckpt *b, const struct ckpt_tensor *y)
{
	if (x->rank != y->rank || !ckpt_same_dims(ckpt_shape(a, x), ckpt_shape(b, y), x->rank))
		return CKPT_CHANGE_SHAPE;
	return x->dtype == y->dtype ? CKPT_CHANGE_NONE : CKPT_CHANGE_DTYPE;
}

static enum plim_status pair_up(struct ckpt_compare *d, struct plim_err *err)
{
	struct names b;
	uint8_t *used = mem_new(d->a->mem, d->b->tensors.n, 1, err);
	enum plim_status st = index_names(d->b, d->prefix[1], &b, err);

	if (!used)
		st = mem_status(err);
	for (size_t i = 0; !st && i < d->a->tensors.n; i++) {
		const char *name =
			compare_strip(ckpt_text(d->a, d->a->tensors.at[i].name), d->prefix[0]);
		uint32_t id = intern_find(&b.table, name, strlen(name));
		struct ckpt_pair p = { .a = (uint32_t)i,
				       .b = CKPT_NONE,
				       .change = CKPT_CHANGE_ONLY_A };

		if (id != INTERN_NONE && !used[b.tensor[id]]) {
			p.b = b.tensor[id];
			used[p.b] = 1;
			p.change = compare_change(d->a, &d->a->tensors.at[i], d->b,
						  &d->b->tensors.at[p.b]);
		}
		d->counts[p.change]++;
		st = vec_push(d->a->mem, &d->pairs, p, err);
	}
	for (size_t i = 0; !st && i < d->b->tensors.n; i++) {
		struct ckpt_pair p = { .a = CKPT_NONE,
				       .b = (uint32_t)i,
				       .change = CKPT_CHANGE_ONLY_B };

		if (used[i])
			continue;
		d->counts[p.change]++;
		st = vec_push(d->a->mem, &d->pairs, p, err);
	}
	forget_names(d->b, &b);
	mem_free(d->a->mem, used, d->b->tensors.n, 1);
	return st;
}

/* ---- values ---- */

static double decode(const struct ckpt_dtype *dtype, const uint8_t *p)
{
	union {
		uint32_t u32;
		float f32;
		double f64;
		int64_t i64;
		int32_t i32;
		int16_t i16;
	} v = { 0 };
	struct ckpt_values one = { 0 };

	switch (dtype->number) {
	case CKPT_F32: memcpy(&v, p, 4); return (double)v.f32;
	case CKPT_F64: memcpy(&v, p, 8); return v.f64;
	case CKPT_BF16: v.u32 = (uint32_t)(p[0] | p[1] << 8) << 16; return (double)v.f32;
	case CKPT_SIGNED:
		memcpy(&v, p, dtype->bits / 8);
		return dtype->bits == 64   ? (double)v.i64
		       : dtype->bits == 32 ? v.i32
		       : dtype->bits == 16 ? v.i16
					   : (int8_t)*p;
	default:
		values_add(&one, dtype->number, dtype->bits / dtype->parts, p, 1);
		return one.nan ? NAN : one.max;
	}
}

/* |a - b| of integers of 64 bits, which a double cannot distinguish. */
static double distance(const struct ckpt_dtype *dtype, const uint8_t *p, const uint8_t *q)
{
	int64_t a, b;
	uint64_t u, v;

	memcpy(&a, p, 8);
	memcpy(&b, q, 8);
	memcpy(&u, p, 8);
	memcpy(&v, q, 8);
	if (dtype->number == CKPT_SIGNED ? a < b : u < v)
		return (double)(v - u);
	return (double)(u - v);
}

static bool is_there(const struct ckpt *c, const struct ckpt_tensor *t)
{
	return t->flags & CKPT_JOINED
		       ? ckpt_is_whole(c, (size_t)(t - c->tensors.at))
		       : t->extent != CKPT_NONE && c->extents.at[t->extent].state != CKPT_CUT;
}

/* By its design; they may be missing. */
static bool has_bytes(const struct ckpt *c, uint32_t tensor)
{
	const struct ckpt_tensor *t = &c->tensors.at[tensor];

	return t->count && !(t->flags & CKPT_META);
}

static bool has_numbers(const struct ckpt *c, const struct ckpt_tensor *t)
{
	return t->dtype->number != CKPT_BITS && !(t->flags & CKPT_CONJUGATE) && !c->big_endian;
}

/* How two tensors are walked together. */
struct walked {
	const struct ckpt_dtype *dtype[2];
	size_t width[2]; /* of a number, bytes */
	bool exact;      /* integers that a double cannot distinguish */
	bool bits;       /* no numbers that are known: they are equal or not */
};

static void add_difference(struct ckpt_pair *p, double diff, double *sum)
{
	p->changed += diff != 0;
	p->nonfinite += !isfinite(diff);
	if (!isfinite(diff))
		return;
	*sum += diff;
	p->max_difference = diff > p->max_difference ? diff : p->max_difference;
}

static void compare_chunk(const struct walked *w, struct ckpt_pair *p, const uint8_t *a,
			  const uint8_t *b, uint64_t n, double *sum)
{
	/* Most checkpoints differ in few tensors: equal bytes are equal numbers. */
	if (w->dtype[0] == w->dtype[1] && !memcmp(a, b, n * w->width[0]))
		return;
	for (uint64_t i = 0; i < n; i++, a += w->width[0], b += w->width[1]) {
		double u, v;

		if (w->bits) {
			p->changed += memcmp(a, b, w->width[0]) != 0;
		} else if (w->exact) {
			add_difference(p, distance(w->dtype[0], a, b), sum);
		} else {
			u = decode(w->dtype[0], a);
			v = decode(w->dtype[1], b);
			add_difference(p, u == v || (isnan(u) && isnan(v)) ? 0 : fabs(u - v), sum);
		}
	}
}

/* False when there is nothing to compare: bytes that are not there, dtypes that say different things. */
static bool plan_walk(const struct ckpt_compare *d, const struct ckpt_pair *p, struct walked *w)
{
	const struct ckpt_tensor *x = &d->a->tensors.at[p->a], *y = &d->b->tensors.at[p->b];
	const struct ckpt_dtype *a = x->dtype, *b = y->dtype;

	if (!is_there(d->a, x) || !is_there(d->b, y))
		return false;
	*w = (struct walked){ .dtype = { a, b },
			      .width = { a->bits / a->parts / 8, b->bits / b->parts / 8 } };
	if (has_numbers(d->a, x) && has_numbers(d->b, y))
		w->exact = a == b && a->bits == 64 &&
			   (a->number == CKPT_SIGNED || a->number == CKPT_UNSIGNED);
	else
		w->bits = true;
	if (!w->bits)
		return a->parts == b->parts;
	w->width[0] = w->width[1] = a->bits % 8 ? 1 : w->width[0];
	return a == b && d->a->big_endian == d->b->big_endian &&
	       !((x->flags ^ y->flags) & CKPT_CONJUGATE);
}

static enum plim_status compare_values(struct ckpt_compare *d, struct ckpt_pair *p, uint8_t *room,
				       struct plim_err *err)
{
	const struct ckpt_tensor *x = &d->a->tensors.at[p->a], *y = &d->b->tensors.at[p->b];
	uint8_t *other = room + (size_t)CHUNK_NUMBERS * 8;
	struct tensor_reader from_x, from_y;
	struct walked w;
	enum plim_status st, st_y;
	double sum = 0;

	p->max_difference = p->mean_difference = NAN;
	if (!x->count || !plan_walk(d, p, &w))
		return PLIM_OK;
	st = tensor_open(&from_x, d->a, x, err);
	st_y = tensor_open(&from_y, d->b, y, st ? NULL : err);
	st = st ? st : st_y;
	p->compared = ckpt_tensor_bytes(x) / w.width[0];
	p->max_difference = w.bits ? NAN : 0;
	for (uint64_t at = 0; !st && at < p->compared; at += CHUNK_NUMBERS) {
		uint64_t left = p->compared - at, n = left < CHUNK_NUMBERS ? left : CHUNK_NUMBERS;

		st = tensor_next(&from_x, room, n * w.width[0], err);
		if (!st)
			st = tensor_next(&from_y, other, n * w.width[1], err);
		if (!st)
			compare_chunk(&w, p, room, other, n, &sum);
	}
	tensor_close(&from_x);
	tensor_close(&from_y);
	p->mean_difference = w.bits ? NAN : sum / (double)p->compared;
	if (st != PLIM_E_UNSUPPORTED && st != PLIM_E_FORMAT)
		return st;
	p->compared = p->changed = p->nonfinite = 0; /* it cannot be read as it should */
	p->max_difference = p->mean_difference = NAN;
	return PLIM_OK;
}

enum plim_status ckpt_compare(struct ckpt_compare *d, const struct ckpt *a, const struct ckpt *b,
			      bool values, struct plim_err *err)
{
	size_t room_bytes = (size_t)CHUNK_NUMBERS * 16;
	uint8_t *room;
	enum plim_status st;

	*d = (struct ckpt_compare){
		.a = a,
		.b = b,
	};
	st = choose_prefix(d, err);
	if (!st)
		st = pair_up(d, err);
	if (!st)
		st = compare_conclude(d, err);
	room = st || !values ? NULL : mem_new(a->mem, room_bytes, 1, err);
	if (!st && values && !room)
		st = mem_status(err);
	for (size_t i = 0; !st && values && i < d->pairs.n; i++) {
		struct ckpt_pair *p = &d->pairs.at[i];

		if (p->change > CKPT_CHANGE_DTYPE)
			continue;
		st = compare_values(d, p, room, err);
		d->unread += !p->compared && has_bytes(a, p->a) && has_bytes(b, p->b);
	}
	mem_free(a->mem, room, room_bytes, 1);
	return st;
}

void ckpt_compare_release(struct ckpt_compare *d)
{
	if (!d->a)
		return;
	vec_release(d->a->mem, &d->pairs);
	vec_release(d->a->mem, &d->conclusions);
}
