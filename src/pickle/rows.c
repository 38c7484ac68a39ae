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
 * A row that is being parsed.  q == NULL: it is not straight.  Memo entries of the row are written
 * behind memo.n and counted in `puts`; they become real when the row is taken.
 */
struct line {
	struct pickle *p;
	const uint8_t *q, *end;
	size_t puts;
	enum plim_status status;
	struct plim_err *err;
};

/* A frame can begin between two values; its length is of no use here. */
static inline void line_frame(struct line *l)
{
	if (__builtin_expect(*l->q == OP_FRAME, 0))
		l->q += 9;
}

/* MEMOIZE, or BINPUT of the next index, or nothing. */
static inline void line_put(struct line *l, uint32_t packed)
{
	size_t next = l->p->memo.n + l->puts;
	const uint8_t *q = l->q;

	if (*q == OP_MEMOIZE)
		l->q = q + 1;
	else if (*q == OP_BINPUT && q[1] == next)
		l->q = q + 2;
	else if (*q == OP_LONG_BINPUT && load32(q + 1) == next)
		l->q = q + 5;
	else if (*q == OP_BINPUT || *q == OP_LONG_BINPUT)
		l->q = NULL;
	else
		return;
	l->p->memo.at[next] = packed;
	l->puts++;
}

/* A memo reference at q: its packed value, or 0 when there is none that existed before this row. */
static inline uint32_t line_ref(struct line *l)
{
	const uint8_t *q = l->q;
	uint32_t i;

	if (*q == OP_BINGET) {
		i = q[1];
		l->q = q + 2;
	} else if (*q == OP_LONG_BINGET) {
		i = load32(q + 1);
		l->q = q + 5;
	} else {
		return 0;
	}
	return i < l->p->memo.n ? l->p->memo.at[i] : 0;
}

/* The references of a run (`n` bytes at `q`) as values, given to the list hook once for each content. */
static uint64_t run_taken(struct line *l, const uint8_t *q, size_t n)
{
	struct pickle *p = l->p;
	uint64_t taken = PICKLE_UNTAKEN;
	uint32_t id, packed = 0;
	struct line refs = *l;

	id = p->last_run
		     [n &
		      7]; /* events come in pairs and fours of the same stack: often it is the last one */
	if (id < p->run_ext.n && p->runs.at[id].n == n && !memcmp(p->runs.at[id].bytes, q, n))
		return p->run_ext.at[id] - 1;
	l->status = intern_add(&p->runs, q, n, &id, l->err);
	if (l->status)
		return taken;
	p->last_run[n & 7] = id;
	if (id < p->run_ext.n)
		return p->run_ext.at[id] - 1;
	p->scratch.n = 0;
	for (refs.q = q; refs.q < q + n;) {
		packed = line_ref(&refs);
		if (!packed)
			break;
		l->status =
			vec_push(p->heap->mem, &p->scratch, memo_unpack(p->heap, packed), l->err);
		if (l->status)
			return taken;
	}
	if (refs.q == q + n && (!n || packed))
		l->status = p->hooks->list(p->hooks->ctx, p->scratch.at, (uint32_t)p->scratch.n,
					   &taken, l->err);
	if (!l->status)
		l->status = vec_push(p->heap->mem, &p->run_ext, taken + 1, l->err);
	return taken;
}

/* EMPTY_LIST, and what is put into it when that is memo references only. */
static struct pickle_value line_list(struct line *l)
{
	size_t put_at = l->p->memo.n + l->puts;
	const uint8_t *first;
	size_t n = 0, puts = l->puts;
	struct line ahead;
	uint64_t taken;

	l->q++;
	line_put(l, 0);
	if (!l->q || !l->p->hooks->list) {
		l->q = NULL;
		return (struct pickle_value){ 0, PICKLE_NONE };
	}
	first = l->q;
	ahead = *l;
	if (*first == OP_MARK) {
		ahead.q = ++first;
		while (ahead.q < l->end && (*ahead.q == OP_BINGET || *ahead.q == OP_LONG_BINGET))
			ahead.q += *ahead.q == OP_BINGET ? 2 : 5;
		n = (size_t)(ahead.q - first);
		l->q = ahead.q < l->end && *ahead.q == OP_APPENDS ? ahead.q + 1 : NULL;
	} else if (line_ref(&ahead) && *ahead.q == OP_APPEND) { /* a list of one */
		n = (size_t)(ahead.q - first);
		l->q = ahead.q + 1;
	}
	taken = l->q && ahead.q < l->end ? run_taken(l, first, n) : PICKLE_UNTAKEN;
	if (taken == PICKLE_UNTAKEN) {
		l->q = NULL;
		return (struct pickle_value){ 0, PICKLE_NONE };
	}
	if (l->puts > puts)
		memo_pack(l->p, (struct pickle_value){ taken, PICKLE_EXT }, &l->p->memo.at[put_at],
			  NULL);
	return (struct pickle_value){ taken, PICKLE_EXT };
}

/* A new string.  Rows repeat theirs ("N/A"), so the one of this column before is tried first. */
static struct pickle_value line_string(struct line *l, size_t head, size_t n, uint32_t *before)
{
	struct intern *t = &l->p->heap->strings;
	const uint8_t *text = l->q + head;

	if (text > l->end || n > (size_t)(l->end - text)) {
		l->q = NULL;
		return (struct pickle_value){ 0, PICKLE_NONE };
	}
	if (*before == INTERN_NONE || t->at[*before].n != n ||
	    memcmp(t->at[*before].bytes, text, n))
		l->status = intern_add(t, text, n, before, l->err);
	l->q = text + n;
	if (!l->status && l->q < l->end)
		line_put(l, *before < PICKLE_EXT_NUMBERS ? 1u << 28 | *before : 0);
	return (struct pickle_value){ *before, PICKLE_STR };
}

static struct pickle_value line_reference(struct line *l)
{
	uint32_t packed = line_ref(l);
	struct pickle_value v = { 0, PICKLE_NONE };

	if (packed)
		v = memo_unpack(l->p->heap, packed);
	if (!packed || v.kind == PICKLE_LIST || v.kind == PICKLE_DICT)
		l->q = NULL; /* a list that was never offered, or something unusual */
	return v;
}

static inline struct pickle_value line_int(struct line *l, size_t bytes, int64_t value)
{
	l->q += bytes;
	return (struct pickle_value){ (uint64_t)value, PICKLE_INT };
}

static struct pickle_value line_value(struct line *l, uint32_t *before)
{
	const uint8_t *q = l->q;
	unsigned n;

	switch (*q) {
	case OP_BININT1:
		if (q[2] == OP_BININT1) /* (0, 0), a pool's id: leave tuples to the machine */
			break;
		return line_int(l, 2, q[1]);
	case OP_BININT2: return line_int(l, 3, q[1] | q[2] << 8);
	case OP_BININT: return line_int(l, 5, (int32_t)load32(q + 1));
	case OP_LONG1:
		n = q[1];
		if (n == 0 || n > 8)
			break;
		return line_int(l, 2 + n, (int64_t)(load64(q + 2) << (64 - 8 * n)) >> (64 - 8 * n));
	case OP_BINGET:
	case OP_LONG_BINGET: return line_reference(l);
	case OP_SHORT_BINUNICODE: return line_string(l, 2, q[1], before);
	case OP_BINUNICODE: return line_string(l, 5, load32(q + 1), before);
	case OP_EMPTY_LIST: return line_list(l);
	case OP_NEWTRUE:
	case OP_NEWFALSE: l->q++; return (struct pickle_value){ *q == OP_NEWTRUE, PICKLE_BOOL };
	case OP_NONE: l->q++; return (struct pickle_value){ 0, PICKLE_NONE };
	default: break;
	}
	l->q = NULL;
	return (struct pickle_value){ 0, PICKLE_NONE };
}

/* One row from l->q.  True: it was taken, its memo entries stand, *ext holds it. */
static int line_row(struct line *l, uint32_t shape, uint32_t *before, uint64_t *ext)
{
	struct pickle *p = l->p;
	const uint32_t *keys = (const uint32_t *)(const void *)p->shapes.at[shape].bytes;
	uint32_t n = p->shapes.at[shape].n / (uint32_t)sizeof(*keys), dict_puts;
	struct pickle_value values[PICKLE_ROW_KEYS];

	l->puts = 0;
	l->q++;
	line_put(l, 0);
	dict_puts = (uint32_t)l->puts;
	if (!l->q || *l->q++ != OP_MARK)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		line_frame(l);
		/* strings below 2^28 are packed as 1 << 28 | id */
		if (l->q >= l->end || line_ref(l) != (1u << 28 | keys[i]))
			return 0;
		line_frame(l);
		if (l->q >= l->end)
			return 0;
		values[i] = line_value(l, &before[i]);
		if (l->status || !l->q)
			return 0;
	}
	line_frame(l);
	if (l->q >= l->end || *l->q++ != OP_SETITEMS)
		return 0;
	l->status = p->hooks->row(p->hooks->ctx, shape, values, ext, l->err);
	if (l->status || *ext == PICKLE_UNTAKEN)
		return 0;
	if (dict_puts)
		memo_pack(p, (struct pickle_value){ *ext, PICKLE_EXT }, &p->memo.at[p->memo.n],
			  NULL);
	return 1;
}

enum plim_status rows_run(struct pickle *p, struct plim_err *err)
{
	struct line l = { .p = p, .q = p->p, .end = p->end, .err = err };
	uint32_t shape = p->row_shape, before[PICKLE_ROW_KEYS];
	uint64_t ext;

	if (shape == INTERN_NONE || !p->hooks->list || p->memo_used != p->memo.n)
		return PLIM_OK;
	memset(before, 0xff, sizeof(before));
	while (p->end - p->p > 8 && *p->p == OP_EMPTY_DICT) {
		l.status = vec_need(p->heap->mem, &p->memo, PICKLE_ROW_KEYS + 1, err);
		if (!l.status)
			l.status = vec_need(p->heap->mem, &p->stack, 1, err);
		if (l.status)
			return l.status;
		l.q = p->p;
		ext = PICKLE_UNTAKEN;
		if (!line_row(&l, shape, before, &ext))
			break;
		p->memo.n += l.puts;
		p->memo_used += l.puts;
		p->stack.at[p->stack.n++] = (struct pickle_value){ ext, PICKLE_EXT };
		p->p = l.q;
	}
	return l.status;
}
