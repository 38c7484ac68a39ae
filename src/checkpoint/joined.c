/*
 * Tensors that lie in parts, as the tensors that they are parts of: of torch.distributed.checkpoint boxes at a place in
 * the whole, of ZeRO runs of its elements.
 *
 * Row-major order of the whole, as far as it lies in a box, is the row-major order of that box.  So the whole streams
 * out of its parts side by side, each read once from its first byte to its last.
 */
#include "parts.h"

#include <string.h>

#define BUFFER_BYTES ((size_t)64 << 10) /* of a part that gives a few bytes at a time */

/* ---- from parts to wholes ---- */

/* The whole that each chunk belongs to, or CKPT_NONE; elements of those, summed up by whole. */
static enum plim_status find_owners(const struct ckpt *c, uint32_t *owner, uint64_t *sum,
				    struct plim_err *err)
{
	size_t n = c->strings.n;
	uint32_t *by_name = mem_new(c->mem, n, sizeof(*by_name), err);

	if (!by_name)
		return mem_status(err);
	for (size_t i = 0; i < c->wholes.n; i++)
		by_name[c->wholes.at[i].name] = (uint32_t)i + 1;
	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i], *w;
		uint32_t whole = t->name < n ? by_name[t->name] : 0;

		owner[i] = CKPT_NONE;
		w = whole ? &c->wholes.at[whole - 1] : NULL;
		if (!w || !(t->flags & CKPT_CHUNK) || t->parts || i < w->first ||
		    i - w->first >= w->parts || t->rank != w->rank || t->extent == CKPT_NONE)
			continue;
		owner[i] = whole - 1;
		if (__builtin_add_overflow(sum[whole - 1], t->count, &sum[whole - 1]))
			sum[whole - 1] = UINT64_MAX;
	}
	mem_free(c->mem, by_name, n, sizeof(*by_name));
	return PLIM_OK;
}

/* Parts keep an owner if all of its lie in it, are of one kind, and have as many elements as it. */
static void check_owners(const struct ckpt *c, uint32_t *owner, uint64_t *sum,
			 const struct ckpt_dtype **dtype)
{
	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];
		const uint64_t *size = ckpt_shape(c, t), *at = ckpt_origin(c, t), *whole;
		uint32_t k = owner[i];

		if (k == CKPT_NONE)
			continue;
		whole = ckpt_shape(c, &c->wholes.at[k]);
		for (size_t d = 0; d < t->rank; d++)
			if (at[d] > whole[d] || size[d] > whole[d] - at[d])
				sum[k] = UINT64_MAX;
		if ((dtype[k] && dtype[k] != t->dtype) || t->flags & (CKPT_QUANTIZED | CKPT_META))
			sum[k] = UINT64_MAX;
		dtype[k] = t->dtype;
	}
	for (size_t i = 0; i < c->tensors.n; i++)
		if (owner[i] != CKPT_NONE && sum[owner[i]] != c->wholes.at[owner[i]].count)
			owner[i] = CKPT_NONE;
}

static void take_part(struct ckpt *c, struct ckpt_tensor *whole, const struct ckpt_tensor *part)
{
	if (!whole->parts) {
		whole->dtype = part->dtype;
		whole->location = part->location;
		whole->flags = (uint16_t)((part->flags & ~CKPT_CHUNK) | CKPT_JOINED);
	}
	c->pieces.at[whole->first + whole->parts++] = *part;
	values_merge(&whole->values, &part->values);
}

/* In place of the first of its parts stands the whole; `moved`: where each of what stays has gone. */
static void replace(struct ckpt *c, const uint32_t *owner, uint32_t *place, uint32_t *moved)
{
	size_t n = 0;

	for (size_t i = 0; i < c->tensors.n; i++) {
		struct ckpt_tensor t = c->tensors.at[i];
		uint32_t k = owner[i];

		moved[i] = (uint32_t)n;
		if (k == CKPT_NONE) {
			c->tensors.at[n++] = t;
			continue;
		}
		if (!c->wholes.at[k].parts)
			place[k] = (uint32_t)n++;
		take_part(c, &c->wholes.at[k], &t);
		c->tensors.at[place[k]] = c->wholes.at[k];
	}
	c->tensors.n = n;
	for (size_t i = 0; i < n; i++) {
		struct ckpt_tensor *t = &c->tensors.at[i];

		if (t->parts && !(t->flags & CKPT_JOINED))
			t->first = moved[t->first];
	}
}

static enum plim_status join_chunks(struct ckpt *c, struct plim_err *err)
{
	size_t n = c->tensors.n, pieces = 0;
	uint32_t *owner = mem_new(c->mem, n, sizeof(*owner), err),
		 *moved = mem_new(c->mem, n, sizeof(*moved), err),
		 *place = mem_new(c->mem, c->wholes.n, sizeof(*place), err);
	uint64_t *sum = mem_new(c->mem, c->wholes.n, sizeof(*sum), err);
	const struct ckpt_dtype **dtype = mem_new(c->mem, c->wholes.n, sizeof(*dtype), err);
	enum plim_status st = owner && moved && place && sum && dtype ? PLIM_OK : mem_status(err);

	if (!st)
		st = find_owners(c, owner, sum, err);
	if (!st)
		st = vec_need(c->mem, &c->pieces, n, err);
	if (!st) {
		check_owners(c, owner, sum, dtype);
		for (size_t i = 0; i < n; i++)
			if (owner[i] != CKPT_NONE)
				place[owner[i]]++; /* how many it has, at first */
		for (size_t i = 0; i < c->wholes.n; i++) {
			c->wholes.at[i].first = (uint32_t)pieces;
			c->wholes.at[i].parts = 0;
			pieces += place[i];
		}
		c->pieces.n = pieces;
		replace(c, owner, place, moved);
	}
	mem_free(c->mem, owner, n, sizeof(*owner));
	mem_free(c->mem, moved, n, sizeof(*moved));
	mem_free(c->mem, place, c->wholes.n, sizeof(*place));
	mem_free(c->mem, sum, c->wholes.n, sizeof(*sum));
	mem_free(c->mem, dtype, c->wholes.n, sizeof(*dtype));
	return st;
}

enum plim_status ckpt_join(struct ckpt *c, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (c->merged && c->wholes.n) { /* the wholes are what is left of it */
		vec_release(c->mem, &c->tensors);
		st = vec_copy(c->mem, &c->tensors, &c->wholes, err);
	} else if (c->wholes.n) {
		st = join_chunks(c, err);
	}
	vec_release(c->mem, &c->wholes);
	return st;
}

/* ---- the bytes of a whole ---- */

struct piece {
	struct tensor_reader from;
	uint8_t *buffer; /* NULL: none is needed, or not yet */
	size_t have, used;
	uint64_t left; /* bytes that were not asked of it */
	bool open;
};

struct joined_reader {
	const struct ckpt *ckpt;
	const struct ckpt_tensor *tensor;
	struct piece *pieces;
	size_t current;       /* that the next bytes come from */
	uint64_t run_bytes;   /* of it, until another's turn */
	uint64_t inner_bytes; /* of what no part divides: the dimensions behind the last one */
	size_t dims;          /* that are divided; the last of them in runs */
	uint64_t size[CKPT_DIMS], index[CKPT_DIMS];
};

static const struct ckpt_tensor *piece_at(const struct joined_reader *r, size_t i)
{
	return &r->ckpt->pieces.at[r->tensor->first + i];
}

/* The dimensions that are divided, and what one step in the last of them is worth. */
static void measure_joined(struct joined_reader *r)
{
	const struct ckpt *c = r->ckpt;
	const struct ckpt_tensor *t = r->tensor;

	r->inner_bytes = t->dtype->bits / 8;
	r->dims = t->flags & CKPT_FLAT ? 1 : t->rank;
	for (size_t d = 0; d < r->dims; d++)
		r->size[d] = t->flags & CKPT_FLAT ? t->count : ckpt_shape(c, t)[d];
	for (; r->dims; r->dims--) {
		bool divided = false;

		for (size_t i = 0; !divided && i < t->parts; i++)
			divided =
				ckpt_shape(c, piece_at(r, i))[r->dims - 1] != r->size[r->dims - 1];
		if (divided)
			break;
		r->inner_bytes *= r->size[r->dims - 1];
	}
}

static bool holds(const struct joined_reader *r, size_t i)
{
	const struct ckpt_tensor *p = piece_at(r, i);
	const uint64_t *size = ckpt_shape(r->ckpt, p), *at = ckpt_origin(r->ckpt, p);

	for (size_t d = 0; d < r->dims; d++)
		if (r->index[d] < at[d] || r->index[d] - at[d] >= size[d])
			return false;
	return p->count > 0;
}

/* Which part is next, and how many bytes of it. */
static enum plim_status next_run(struct joined_reader *r, struct plim_err *err)
{
	size_t n = r->tensor->parts, tried = 0, last = r->dims - 1;
	const struct ckpt_tensor *p;
	uint64_t steps;

	while (tried < n && !holds(r, r->current)) {
		r->current = r->current + 1 < n ? r->current + 1 : 0;
		tried++;
	}
	if (tried == n)
		return err_set(err, PLIM_E_FORMAT, "the parts of '%.200s' do not make up its shape",
			       ckpt_text(r->ckpt, r->tensor->name));
	if (!r->dims) {
		r->run_bytes = r->inner_bytes;
		return PLIM_OK;
	}
	p = piece_at(r, r->current);
	steps = ckpt_origin(r->ckpt, p)[last] + ckpt_shape(r->ckpt, p)[last] - r->index[last];
	r->run_bytes = steps * r->inner_bytes;
	r->index[last] += steps;
	for (size_t d = last; d && r->index[d] == r->size[d]; d--) {
		r->index[d] = 0;
		r->index[d - 1]++;
	}
	return PLIM_OK;
}

static void piece_close(struct joined_reader *r, struct piece *p)
{
	if (p->open)
		tensor_close(&p->from);
	mem_free(r->ckpt->mem, p->buffer, BUFFER_BYTES, 1);
	p->buffer = NULL;
	p->open = false;
}

/* Up to n bytes of a part: through a buffer where it gives few at a time. */
static enum plim_status piece_next(struct joined_reader *r, struct piece *p, uint8_t *at, size_t n,
				   struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (!p->open) {
		const struct ckpt_tensor *t = piece_at(r, (size_t)(p - r->pieces));

		p->left = ckpt_tensor_bytes(t);
		p->open = true;
		st = tensor_open(&p->from, r->ckpt, t, err);
	}
	while (!st && n) {
		size_t some = p->have - p->used;

		if (!some && n >= BUFFER_BYTES) {
			p->left -= n;
			return tensor_next(&p->from, at, n, err);
		}
		if (!some) {
			if (!p->buffer)
				p->buffer = mem_new(r->ckpt->mem, BUFFER_BYTES, 1, err);
			if (!p->buffer)
				return mem_status(err);
			p->have = p->left < BUFFER_BYTES ? (size_t)p->left : BUFFER_BYTES;
			p->used = 0;
			p->left -= p->have;
			st = tensor_next(&p->from, p->buffer, p->have, err);
			continue;
		}
		some = some < n ? some : n;
		memcpy(at, p->buffer + p->used, some);
		p->used += some;
		at += some;
		n -= some;
	}
	return st;
}

enum plim_status joined_open(struct joined_reader **out, const struct ckpt *c,
			     const struct ckpt_tensor *t, struct plim_err *err)
{
	struct joined_reader *r = mem_new(c->mem, 1, sizeof(*r), err);

	*out = r;
	if (!r)
		return mem_status(err);
	r->ckpt = c;
	r->tensor = t;
	r->pieces = mem_new(c->mem, t->parts, sizeof(*r->pieces), err);
	if (!r->pieces)
		return mem_status(err);
	measure_joined(r);
	return PLIM_OK;
}

enum plim_status joined_next(struct joined_reader *r, uint8_t *at, size_t n, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	while (!st && n) {
		struct piece *p;
		size_t some;

		if (!r->run_bytes)
			st = next_run(r, err);
		if (st)
			break;
		p = &r->pieces[r->current];
		some = r->run_bytes < n ? (size_t)r->run_bytes : n;
		st = piece_next(r, p, at, some, err);
		if (!st && !p->left && p->have == p->used)
			piece_close(r, p);
		r->run_bytes -= some;
		at += some;
		n -= some;
	}
	return st;
}

void joined_close(struct joined_reader *r)
{
	if (!r)
		return;
	for (size_t i = 0; r->pieces && i < r->tensor->parts; i++)
		piece_close(r, &r->pieces[i]);
	mem_free(r->ckpt->mem, r->pieces, r->tensor->parts, sizeof(*r->pieces));
	mem_free(r->ckpt->mem, r, 1, sizeof(*r));
}
