/*
 * Rows: dicts whose keys a consumer knows.  First the general offer, which every decoded dict
 * passes; then the straight-line path, which parses a whole row of memo-referenced keys at once and
 * calls the same hook.  Whatever the path does not expect it leaves to the general machine, at the
 * row's first byte and with nothing changed, so the path can only be faster, never different.
 */
#include "machine.h"

#include <string.h>

/* ---- the general offer ---- */

static enum plim_status shape_of(struct pickle *p, const uint32_t *keys, size_t n, uint32_t *shape,
				 struct plim_err *err)
{
	enum plim_status st = intern_add(&p->shapes, keys, n * sizeof(*keys), shape, err);
	struct pickle_shape s = { keys, (uint32_t)n };
	int wanted = 0;

	if (st || *shape < p->wanted.n)
		return st;
	s.keys = (const uint32_t *)(const void *)p->shapes.at[*shape].bytes;
	if (p->hooks->shape)
		st = p->hooks->shape(p->hooks->ctx, *shape, &s, &wanted, err);
	if (!st)
		st = vec_push(p->heap->mem, &p->wanted, (uint8_t)(wanted != 0), err);
	return st;
}

/* Give the list hook a list that stands in a row; *v becomes PICKLE_EXT if it is taken. */
static enum plim_status offer_list(struct pickle *p, struct pickle_value *v, struct plim_err *err)
{
	struct pickle_node *node = &p->heap->nodes.at[v->bits];
	uint64_t taken = PICKLE_UNTAKEN;
	enum plim_status st = PLIM_OK;
	uint32_t n = node->n;

	if (!node->ext && p->hooks->list) {
		p->scratch.n = 0;
		st = vec_need(p->heap->mem, &p->scratch, n, err);
		for (uint32_t i = 0; !st && i < n; i++)
			p->scratch.at[i] = pickle_item(p->heap, *v, i);
		if (!st)
			st = p->hooks->list(p->hooks->ctx, p->scratch.at, n, &taken, err);
		if (st || taken == PICKLE_UNTAKEN)
			return st;
		node = &p->heap->nodes.at[v->bits];
		node->ext = taken + 1;
		node->frozen = 1;
	}
	if (node->ext)
		*v = (struct pickle_value){ node->ext - 1, PICKLE_EXT };
	return st;
}

enum plim_status rows_offer(struct pickle *p, const struct pickle_value *pairs, size_t n,
			    uint64_t *taken, struct plim_err *err)
{
	struct pickle_value values[PICKLE_ROW_KEYS];
	uint32_t keys[PICKLE_ROW_KEYS], shape;
	enum plim_status st;

	*taken = PICKLE_UNTAKEN;
	if (!p->hooks || !p->hooks->row || !n || n / 2 > PICKLE_ROW_KEYS)
		return PLIM_OK;
	for (size_t i = 0; i < n / 2; i++) {
		if (pairs[2 * i].kind != PICKLE_STR)
			return PLIM_OK;
		keys[i] = (uint32_t)pairs[2 * i].bits;
		values[i] = pairs[2 * i + 1];
	}
	st = shape_of(p, keys, n / 2, &shape, err);
	if (st || !p->wanted.at[shape])
		return st;
	for (size_t i = 0; !st && i < n / 2; i++)
		if (values[i].kind == PICKLE_LIST)
			st = offer_list(p, &values[i], err);
	if (!st)
		st = p->hooks->row(p->hooks->ctx, shape, values, taken, err);
	if (!st && *taken != PICKLE_UNTAKEN)
		p->row_shape = shape;
	return st;
}

enum plim_status rows_settle(struct pickle *p, struct pickle_value *v, struct plim_err *err)
{
	struct pickle_node *node;
	enum plim_status st = PLIM_OK;
	uint64_t taken;

	if (v->kind != PICKLE_DICT)
		return PLIM_OK;
	node = &p->heap->nodes.at[v->bits];
	if (!node->ext && !node->frozen) {
		st = rows_offer(p, node->items, node->n, &taken, err);
		node = &p->heap->nodes.at[v->bits];
		if (!st && taken != PICKLE_UNTAKEN) {
			node->ext = taken + 1;
			node->frozen = 1;
		}
	}
	if (!st && node->ext)
		*v = (struct pickle_value){ node->ext - 1, PICKLE_EXT };
	return st;
}

/* ---- the straight-line path ---- */

enum { /* opcodes that a row can hold */
       OP_MARK = '(',
       OP_BININT1 = 'K',
       OP_BININT2 = 'M',
       OP_BININT = 'J',
       OP_LONG1 = 0x8a,
       OP_BINGET = 'h',
       OP_LONG_BINGET = 'j',
       OP_SHORT_BINUNICODE = 0x8c,
       OP_BINUNICODE = 'X',
       OP_MEMOIZE = 0x94,
       OP_BINPUT = 'q',
       OP_LONG_BINPUT = 'r',
       OP_TUPLE2 = 0x86,
       OP_EMPTY_DICT = '}',
       OP_EMPTY_LIST = ']',
       OP_APPENDS = 'e',
       OP_APPEND = 'a',
       OP_SETITEMS = 'u',
       OP_NONE = 'N',
       OP_NEWTRUE = 0x88,
       OP_NEWFALSE = 0x89,
       OP_FRAME = 0x95,
};

/* The source pads its window, so that a fixed-size load at the last opcode stays inside. */
static inline uint32_t load32(const uint8_t *q)
{
	uint32_t v;

	memcpy(&v, q, sizeof(v));
	return v;
}

static inline uint64_t load64(const uint8_t *q)
{
	uint64_t v;

	memcpy(&v, q, sizeof(v));
	return v;
}

/*
 * What is known of a column in this run of rows: its key, how the last row wrote it, and the newest
 * string.  Rows write a key in the same bytes again, and strings often ("N/A"), so these are compared
 * as words before they are looked at.  Memo entries only come to it while rows run, so a reference
 * that was the key once stays it.
 */
struct written {
	uint64_t bytes, mask;
	uint32_t length;
};

struct column {
	struct written key, text;
	uint32_t packed; /* the key as a memo entry */
	uint32_t string; /* the newest one, INTERN_NONE: none yet */
};

/*
 * A row that is being parsed.  Memo entries of the row are written behind memo.n and counted in
 * `puts`; they become real when the row is taken.  Cursors are passed and returned by value: NULL is
 * "not straight, leave the row to the machine", or an error in `status`.
 */
struct line {
	struct pickle *p;
	const uint8_t *end;
	uint32_t *memo; /* entries of p->memo, of which the first `memo_n` stood before this row */
	size_t memo_n, puts;
	enum plim_status status;
	struct plim_err *err;
};

static inline int is_written(const struct written *w, const uint8_t *q)
{
	return ((load64(q) ^ w->bytes) & w->mask) == 0;
}

/* No opcode is 0xff: nothing in its place is written so. */
static const struct written never_written = { .bytes = UINT64_MAX, .mask = UINT64_MAX };

static struct written written_as(const uint8_t *q, size_t length)
{
	struct written w = { .mask = length < 8 ? ((uint64_t)1 << 8 * length) - 1 : UINT64_MAX,
			     .length = (uint32_t)length };

	w.bytes = load64(q) & w.mask;
	return w;
}

/* A frame can begin between two values; its length is of no use here. */
static inline const uint8_t *line_frame(const struct line *l, const uint8_t *q)
{
	if (__builtin_expect(*q == OP_FRAME, 0))
		return l->end - q > 9 ? q + 9 : NULL;
	return q;
}

static const uint8_t *line_binput(const struct line *l, const uint8_t *q)
{
	size_t next = l->memo_n + l->puts;

	if (*q == OP_BINPUT && q[1] == next)
		return q + 2;
	if (*q == OP_LONG_BINPUT && load32(q + 1) == next)
		return q + 5;
	return NULL;
}

/* MEMOIZE, or BINPUT of the next index, or nothing. */
static inline const uint8_t *line_put(struct line *l, const uint8_t *q, uint32_t packed)
{
	if (__builtin_expect(*q == OP_MEMOIZE, 1))
		q++;
	else if (*q == OP_BINPUT || *q == OP_LONG_BINPUT)
		q = line_binput(l, q);
	else
		return q;
	l->memo[l->memo_n + l->puts++] = packed;
	return q;
}

/*
 * The memo reference at q: *packed is its value, or 0 when it is none or to nothing that existed
 * before this row.
 */
static inline const uint8_t *line_ref(const struct line *l, const uint8_t *q, uint32_t *packed)
{
	uint32_t i;

	*packed = 0;
	if (*q == OP_BINGET) {
		i = q[1];
		q += 2;
	} else if (*q == OP_LONG_BINGET) {
		i = load32(q + 1);
		q += 5;
	} else {
		return q;
	}
	if (i < l->memo_n)
		*packed = l->memo[i];
	return q;
}

/* A key that is not written as in the row before. */
static const uint8_t *line_key(struct line *l, const uint8_t *q, struct column *c)
{
	const uint8_t *first = line_frame(l, q);
	uint32_t packed;

	if (!first)
		return NULL;
	q = line_ref(l, first, &packed);
	if (packed != c->packed)
		return NULL;
	c->key = written_as(first, (size_t)(q - first));
	return q;
}

/* ---- lists of frames ---- */

/* The references in [q, to) as values, given to the list hook. */
static enum plim_status run_offer(struct line *l, const uint8_t *q, const uint8_t *to,
				  uint64_t *taken)
{
	struct pickle *p = l->p;
	enum plim_status st = PLIM_OK;
	uint32_t packed = 1;

	p->scratch.n = 0;
	while (!st && packed && q < to) {
		q = line_ref(l, q, &packed);
		if (packed)
			st = vec_push(p->heap->mem, &p->scratch, memo_unpack(p->heap, packed),
				      l->err);
	}
	if (!st && packed && q == to)
		st = p->hooks->list(p->hooks->ctx, p->scratch.at, (uint32_t)p->scratch.n, taken,
				    l->err);
	return st;
}

/* What the list hook took `n` bytes of references as; it is asked once for each content. */
static uint64_t run_taken(struct line *l, const uint8_t *q, size_t n)
{
	struct pickle *p = l->p;
	struct pickle_run run = { .next = INTERN_NONE };
	uint64_t taken = PICKLE_UNTAKEN;
	uint32_t id;

	l->status = intern_add(&p->runs, q, n, &id, l->err);
	if (!l->status && id >= p->run.n) {
		l->status = run_offer(l, q, q + n, &taken);
		run.ext = taken + 1;
		if (!l->status)
			l->status = vec_push(p->heap->mem, &p->run, run, l->err);
	}
	if (l->status)
		return PICKLE_UNTAKEN;
	if (p->last_run < p->run.n)
		p->run.at[p->last_run].next = id;
	p->last_run = id;
	return p->run.at[id].ext - 1;
}

/*
 * Programs repeat themselves: the references at q are often those that followed the run before the
 * last time, too.  Their end, or NULL.
 */
static const uint8_t *run_again(struct line *l, const uint8_t *q, uint64_t *taken)
{
	struct pickle *p = l->p;
	uint32_t id = p->last_run < p->run.n ? p->run.at[p->last_run].next : INTERN_NONE;
	const struct intern_entry *run;

	if (id >= p->run.n)
		return NULL;
	run = &p->runs.at[id];
	if ((size_t)(l->end - q) <= run->n || q[run->n] != OP_APPENDS ||
	    memcmp(q, run->bytes, run->n))
		return NULL;
	p->last_run = id;
	*taken = p->run.at[id].ext - 1;
	return q + run->n + 1;
}

/* MARK, references, APPENDS. */
static const uint8_t *line_many(struct line *l, const uint8_t *q, uint64_t *taken)
{
	const uint8_t *first = ++q, *again = run_again(l, q, taken);

	if (again)
		return again;
	while (q < l->end && (*q == OP_BINGET || *q == OP_LONG_BINGET))
		q += *q == OP_BINGET ? 2 : 5;
	if (q >= l->end || *q != OP_APPENDS)
		return NULL;
	*taken = run_taken(l, first, (size_t)(q - first));
	return q + 1;
}

/* A reference and APPEND, or nothing: then q is what follows the list. */
static const uint8_t *line_few(struct line *l, const uint8_t *q, uint64_t *taken)
{
	struct pickle *p = l->p;
	uint32_t packed;
	const uint8_t *to = line_ref(l, q, &packed);

	if (packed && to < l->end && *to == OP_APPEND) {
		*taken = run_taken(l, q, (size_t)(to - q));
		return to + 1;
	}
	*taken = p->empty_list - 1;
	if (*taken == PICKLE_UNTAKEN) {
		l->status = p->hooks->list(p->hooks->ctx, NULL, 0, taken, l->err);
		p->empty_list = *taken + 1;
	}
	return q;
}

/* EMPTY_LIST, and what is put into it when that is memo references only. */
static const uint8_t *line_list(struct line *l, const uint8_t *q, struct pickle_value *v)
{
	size_t put_at = l->memo_n + l->puts, puts = l->puts;
	uint64_t taken = PICKLE_UNTAKEN;

	q = line_put(l, q + 1, 0);
	if (!q || q >= l->end || !l->p->hooks->list)
		return NULL;
	q = *q == OP_MARK ? line_many(l, q, &taken) : line_few(l, q, &taken);
	if (taken == PICKLE_UNTAKEN)
		return NULL;
	if (l->puts > puts)
		l->memo[put_at] = MEMO_EXT + (uint32_t)taken;
	*v = (struct pickle_value){ taken, PICKLE_EXT };
	return q;
}

/* ---- values ---- */

/* A string that is not written as the one before it in this column, or is too long to see that. */
static const uint8_t *line_string(struct line *l, const uint8_t *q, size_t head, size_t n,
				  struct column *c)
{
	const uint8_t *text = q + head;
	uint32_t id;

	if (text > l->end || n > (size_t)(l->end - text))
		return NULL;
	l->status = intern_add(&l->p->heap->strings, text, n, &id, l->err);
	if (l->status || id >= PICKLE_EXT_NUMBERS)
		return NULL;
	c->string = id;
	c->text = head + n <= sizeof(c->text.bytes) ? written_as(q, head + n) : never_written;
	return text + n;
}

static const uint8_t *line_reference(struct line *l, const uint8_t *q, struct pickle_value *v)
{
	uint32_t packed;

	q = line_ref(l, q, &packed);
	if (packed >= MEMO_EXT)
		*v = (struct pickle_value){ packed - MEMO_EXT, PICKLE_EXT };
	else if (packed >> 28 == MEMO_STR >> 28)
		*v = (struct pickle_value){ packed - MEMO_STR, PICKLE_STR };
	else if (packed)
		*v = memo_unpack(l->p->heap, packed);
	if (!packed || v->kind == PICKLE_LIST || v->kind == PICKLE_DICT)
		return NULL; /* a list that was never offered, or something unusual */
	return q;
}

/* BININT1 or BININT2; NULL: neither. */
static const uint8_t *line_small(const uint8_t *q, uint32_t *n)
{
	if (*q == OP_BININT1) {
		*n = q[1];
		return q + 2;
	}
	*n = load32(q + 1) & 0xffff;
	return *q == OP_BININT2 ? q + 3 : NULL;
}

/*
 * A tuple of two small integers: a pool's id.  No one can change a tuple, so the one that was made for
 * the same integers before serves again.
 */
static const uint8_t *line_pair(struct line *l, const uint8_t *q, struct pickle_value *v)
{
	struct pickle *p = l->p;
	struct pickle_value items[2] = { { 0, PICKLE_INT }, { 0, PICKLE_INT } };
	struct pickle_pair *pair;
	uint32_t a, b;

	q = line_small(q, &a);
	q = q ? line_small(q, &b) : NULL;
	if (!q || q >= l->end || *q != OP_TUPLE2)
		return NULL;
	pair = &p->pairs[(a + 3 * b) % PICKLE_PAIRS];
	if (!pair->packed || pair->a != a || pair->b != b) {
		pair->packed = 0;
		items[0].bits = a;
		items[1].bits = b;
		l->status = heap_node(p->heap, PICKLE_TUPLE, v, l->err);
		if (!l->status)
			l->status = heap_append(p->heap, *v, items, 2, l->err);
		if (!l->status)
			l->status = memo_pack(p, *v, &pair->packed, l->err);
		if (l->status)
			return NULL;
		pair->a = a;
		pair->b = b;
	}
	*v = memo_unpack(p->heap, pair->packed);
	return ++q < l->end ? line_put(l, q, pair->packed) : NULL;
}

static inline int is_small(uint8_t op)
{
	return op == OP_BININT1 || op == OP_BININT2;
}

/*
 * q may stand up to 4 bytes behind the window's end, where zeros are and no opcode; a number reads up
 * to 10 bytes from a q in the window.  SOURCE_PAD allows for both.
 */
static inline const uint8_t *line_value(struct line *l, const uint8_t *q, struct column *c,
					struct pickle_value *v)
{
	unsigned shift;

	v->kind = PICKLE_INT;
	switch (*q) {
	case OP_LONG1:
		if (q[1] - 1u >= 8)
			return NULL;
		shift = 64 - 8u * q[1];
		v->bits = (uint64_t)((int64_t)(load64(q + 2) << shift) >> shift);
		return q + 2 + q[1];
	case OP_BININT1: v->bits = q[1]; return is_small(q[2]) ? line_pair(l, q, v) : q + 2;
	case OP_BININT2:
		v->bits = load32(q + 1) & 0xffff;
		return is_small(q[3]) ? line_pair(l, q, v) : q + 3;
	case OP_BININT: v->bits = (uint64_t)(int64_t)(int32_t)load32(q + 1); return q + 5;
	case OP_BINGET:
	case OP_LONG_BINGET: return line_reference(l, q, v);
	case OP_EMPTY_LIST: return line_list(l, q, v);
	case OP_SHORT_BINUNICODE:
	case OP_BINUNICODE:
		if (is_written(&c->text, q))
			q += c->text.length;
		else if (*q == OP_BINUNICODE)
			q = line_string(l, q, 5, load32(q + 1), c);
		else
			q = line_string(l, q, 2, q[1], c);
		*v = (struct pickle_value){ c->string, PICKLE_STR };
		return q && q < l->end ? line_put(l, q, MEMO_STR | c->string) : NULL;
	case OP_NEWTRUE:
	case OP_NEWFALSE: *v = (struct pickle_value){ *q == OP_NEWTRUE, PICKLE_BOOL }; return q + 1;
	case OP_NONE: *v = (struct pickle_value){ 0, PICKLE_NONE }; return q + 1;
	default: return NULL;
	}
}

/* One row from q, whose values are of `n` columns.  Where it ends if it was taken: *ext holds it. */
static const uint8_t *line_row(struct line *l, const uint8_t *q, struct column *columns, uint32_t n,
			       uint64_t *ext)
{
	struct pickle *p = l->p;
	struct pickle_value values[PICKLE_ROW_KEYS];
	size_t dict_puts;

	l->memo = p->memo.at;
	l->memo_n = p->memo.n;
	l->puts = 0;
	q = line_put(l, q + 1, 0);
	dict_puts = l->puts;
	if (!q || *q++ != OP_MARK)
		return NULL;
	for (uint32_t i = 0; i < n; i++) {
		struct column *c = &columns[i];

		if (q >= l->end)
			return NULL;
		if (__builtin_expect(is_written(&c->key, q), 1))
			q += c->key.length;
		else
			q = line_key(l, q, c);
		q = q ? line_frame(l, q) : NULL;
		q = q ? line_value(l, q, c, &values[i]) : NULL;
		if (!q || l->status)
			return NULL;
	}
	q = q < l->end ? line_frame(l, q) : NULL;
	if (!q || *q != OP_SETITEMS)
		return NULL;
	l->status = p->hooks->row(p->hooks->ctx, p->row_shape, values, ext, l->err);
	if (l->status || *ext == PICKLE_UNTAKEN)
		return NULL;
	if (dict_puts)
		l->memo[l->memo_n] = MEMO_EXT + (uint32_t)*ext;
	return q + 1;
}

static uint32_t columns_of(const struct pickle *p, struct column columns[PICKLE_ROW_KEYS])
{
	const struct intern_entry *shape = &p->shapes.at[p->row_shape];
	const uint32_t *keys = (const uint32_t *)(const void *)shape->bytes;
	uint32_t n = shape->n / (uint32_t)sizeof(*keys);

	for (uint32_t i = 0; i < n; i++)
		columns[i] = (struct column){ never_written, never_written, MEMO_STR | keys[i],
					      INTERN_NONE };
	return n;
}

enum plim_status rows_run(struct pickle *p, struct plim_err *err)
{
	struct line l = { .p = p, .end = p->end, .err = err };
	struct column columns[PICKLE_ROW_KEYS];
	uint64_t ext;
	uint32_t n;

	if (p->row_shape == INTERN_NONE || !p->hooks->list || p->memo_used != p->memo.n)
		return PLIM_OK;
	n = columns_of(p, columns);
	while (p->end - p->p > 8 && *p->p == OP_EMPTY_DICT) {
		const uint8_t *q;

		l.status = vec_need(p->heap->mem, &p->memo, PICKLE_ROW_KEYS + 1, err);
		if (!l.status)
			l.status = vec_need(p->heap->mem, &p->stack, 1, err);
		if (l.status)
			return l.status;
		ext = PICKLE_UNTAKEN;
		q = line_row(&l, p->p, columns, n, &ext);
		if (!q)
			break;
		p->memo.n += l.puts;
		p->memo_used += l.puts;
		p->stack.at[p->stack.n++] = (struct pickle_value){ ext, PICKLE_EXT };
		p->p = q;
	}
	return l.status;
}
