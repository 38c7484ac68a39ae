/*
 * How little a program needs when everything is known beforehand: offline packings of its requests.
 * Best packing is NP-hard (dynamic storage allocation); several good ones are tried and the lowest is
 * told, so the true least lies between the peak of live bytes and it.
 *
 * Each packing keeps requests that live for long apart from the others: the two kinds grow towards
 * each other from the two ends of one piece of memory, and inside a kind the tightest hole is taken.
 */
#include "allocator.h"
#include "freeset.h"

#define SIDES 2

struct piece {
	uint64_t addr, bytes;
	uint32_t prev, next; /* by address; TRACE_NONE */
	int taken;
};

/* One end: holes below `end`, nothing above it. */
struct side {
	struct freeset holes;
	uint64_t end;
	uint32_t last;
};

struct packing {
	struct mem *mem;
	struct plim_err *err;
	VEC(struct piece) pieces;
	VEC(uint32_t) spare;
	struct side side[SIDES];
	uint64_t peak;
};

static enum plim_status piece_new(struct packing *k, const struct piece *p, uint32_t *number)
{
	enum plim_status st = vec_need(k->mem, &k->spare, k->pieces.n + 1, k->err);

	if (k->spare.n) {
		*number = k->spare.at[--k->spare.n];
		k->pieces.at[*number] = *p;
		return PLIM_OK;
	}
	if (!st)
		st = vec_push(k->mem, &k->pieces, *p, k->err);
	*number = (uint32_t)k->pieces.n - 1;
	return st;
}

static struct freeset_key packing_key_of(const struct packing *k, uint32_t piece)
{
	const struct piece *p = &k->pieces.at[piece];

	return (struct freeset_key){ p->bytes, p->addr, piece };
}

/* Put a request behind all others of its side. */
static enum plim_status extend(struct packing *k, struct side *s, uint64_t bytes, uint32_t *piece)
{
	struct piece p = { s->end, bytes, s->last, TRACE_NONE, 1 };
	enum plim_status st = piece_new(k, &p, piece);

	if (st)
		return st;
	if (s->last != TRACE_NONE)
		k->pieces.at[s->last].next = *piece;
	s->last = *piece;
	s->end += bytes;
	if (k->side[0].end + k->side[1].end > k->peak)
		k->peak = k->side[0].end + k->side[1].end;
	return PLIM_OK;
}

static enum plim_status pack(struct packing *k, struct side *s, uint64_t bytes, uint32_t *piece)
{
	const struct freeset_key *found = freeset_get(&s->holes, freeset_seek(&s->holes, bytes, 0));
	struct freeset_key hole;
	struct piece rest;
	uint32_t behind;
	enum plim_status st;

	if (!found)
		return extend(k, s, bytes, piece);
	hole = *found;
	*piece = hole.block;
	freeset_remove(k->mem, &s->holes, &hole);
	k->pieces.at[*piece].taken = 1;
	if (hole.bytes == bytes)
		return PLIM_OK;
	rest = (struct piece){ hole.addr + bytes, hole.bytes - bytes, *piece,
			       k->pieces.at[*piece].next, 0 };
	st = piece_new(k, &rest, &behind);
	if (st)
		return st;
	k->pieces.at[*piece].bytes = bytes;
	k->pieces.at[*piece].next = behind;
	k->pieces.at[rest.next].prev = behind; /* a hole is never the last */
	hole = packing_key_of(k, behind);
	return freeset_insert(k->mem, &s->holes, &hole, k->err);
}

/* `gone` joins `into`, which lies before it. */
static void join_packing(struct packing *k, uint32_t into, uint32_t gone)
{
	struct piece *p = &k->pieces.at[into], *g = &k->pieces.at[gone];

	p->bytes += g->bytes;
	p->next = g->next;
	if (g->next != TRACE_NONE)
		k->pieces.at[g->next].prev = into;
	k->spare.at[k->spare.n++] = gone;
}

static enum plim_status unpack_packing(struct packing *k, struct side *s, uint32_t piece)
{
	struct piece *p = &k->pieces.at[piece];
	uint32_t prev = p->prev, next = p->next;
	struct freeset_key hole;

	p->taken = 0;
	if (next != TRACE_NONE && !k->pieces.at[next].taken) {
		hole = packing_key_of(k, next);
		freeset_remove(k->mem, &s->holes, &hole);
		join_packing(k, piece, next);
	}
	if (prev != TRACE_NONE && !k->pieces.at[prev].taken) {
		hole = packing_key_of(k, prev);
		freeset_remove(k->mem, &s->holes, &hole);
		join_packing(k, prev, piece);
		if (s->last == piece)
			s->last = prev;
		piece = prev;
	}
	p = &k->pieces.at[piece];
	if (s->last != piece) {
		hole = packing_key_of(k, piece);
		return freeset_insert(k->mem, &s->holes, &hole, k->err);
	}
	s->end -= p->bytes;
	s->last = p->prev;
	if (p->prev != TRACE_NONE)
		k->pieces.at[p->prev].next = TRACE_NONE;
	k->spare.at[k->spare.n++] = piece;
	return PLIM_OK;
}

/* Ops from a request's birth to its end; UINT32_MAX: it stays. */
static uint32_t *lifetimes(struct mem *m, const struct program *p, struct plim_err *err)
{
	uint32_t *life = mem_new(m, p->requests.n, sizeof(*life), err);

	for (uint32_t i = 0; life && i < p->ops.n; i++) {
		const struct program_op *op = &p->ops.at[i];

		if (program_allocates(op->kind))
			life[op->request] = UINT32_MAX - i;
		else if (op->kind == PROGRAM_FREE_DONE)
			life[op->request] += i + 1; /* UINT32_MAX - i + j + 1 wraps to j - i */
	}
	return life;
}

static uint64_t rounded(uint64_t bytes)
{
	return (bytes + ALLOCATOR_MIN_BLOCK - 1) / ALLOCATOR_MIN_BLOCK * ALLOCATOR_MIN_BLOCK;
}

static enum plim_status pack_all(struct packing *k, const struct program *p, const uint32_t *life,
				 uint32_t *piece_of, uint32_t long_from)
{
	enum plim_status st = PLIM_OK;

	k->side[0].last = k->side[1].last = TRACE_NONE;
	for (uint32_t i = 0; !st && i < p->ops.n; i++) {
		const struct program_op *op = &p->ops.at[i];
		uint64_t bytes;
		struct side *s;

		int dies = program_dies_at(p, op);
		int born = dies || program_allocates(op->kind);

		if (!born && op->kind != PROGRAM_FREE_DONE)
			continue;
		bytes = rounded(p->requests.at[op->request].bytes);
		s = &k->side[life[op->request] < long_from];
		if (bytes && born)
			st = pack(k, s, bytes, &piece_of[op->request]);
		if (bytes && !st &&
		    (dies || !born)) /* what comes after a death knows nothing of it */
			st = unpack_packing(k, s, piece_of[op->request]);
	}
	return st;
}

/* The packings differ in how long a request must live to be kept apart: a share of the program. */
static const uint32_t parts[] = { 1, 4, 32, 256, 2048 };

enum plim_status allocator_pack(struct mem *m, const struct program *p, uint64_t *peak_bytes,
				struct plim_err *err)
{
	uint32_t *life = lifetimes(m, p, err);
	uint32_t *piece_of = life ? mem_new(m, p->requests.n, sizeof(*piece_of), err) : NULL;
	enum plim_status st = piece_of ? PLIM_OK : mem_status(err);

	*peak_bytes = UINT64_MAX;
	for (size_t i = 0; !st && i < sizeof(parts) / sizeof(*parts); i++) {
		struct packing k = { .mem = m, .err = err };

		st = pack_all(&k, p, life, piece_of,
			      parts[i] == 1 ? UINT32_MAX : (uint32_t)(p->ops.n / parts[i]));
		if (!st && k.peak < *peak_bytes)
			*peak_bytes = k.peak;
		for (int side = 0; side < SIDES; side++)
			freeset_release(m, &k.side[side].holes);
		vec_release(m, &k.pieces);
		vec_release(m, &k.spare);
	}
	mem_free(m, piece_of, p->requests.n, sizeof(*piece_of));
	mem_free(m, life, p->requests.n, sizeof(*life));
	return st;
}
