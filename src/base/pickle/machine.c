/*
 * The general machine: a table of opcodes, each with the function that does it.  One opcode at a
 * time, from a window of the source; anything may end anywhere, so every byte is asked for first.
 */
#include "machine.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* Longest text line of protocol 0 (a number, a global's name); longer ones are damage. */
#define LINE_BYTES_MAX (1u << 20)
#define MEMO_GAP 65536            /* that numbers of memo entries may run ahead of the bytes read */
#define LONG_BYTES_MAX (1u << 20) /* a Python int of 8 million bits */

struct op;
typedef enum plim_status op_fn(struct pickle *p, const struct op *op, struct plim_err *err);
struct op {
	const char *name;
	op_fn *run;
	unsigned arg; /* what shows the variants of one function apart: a width, a count, a kind */
};
extern const struct op pickle_ops[256];

static uint64_t here(const struct pickle *p)
{
	return p->src ? source_offset(p->src, p->p) : 0;
}

#define damaged(p, err, ...) \
	err_at_more(err, here(p), "the file is damaged: copy it again", __VA_ARGS__)

/* ---- bytes ---- */

/* Make n bytes stand at p->p; fewer means that the input ended. */
static enum plim_status want(struct pickle *p, uint64_t n, struct plim_err *err)
{
	enum plim_status st;

	if ((uint64_t)(p->end - p->p) >= n)
		return PLIM_OK;
	st = source_need(p->src, p->p, n, err);
	if (st)
		return st;
	p->p = p->src->p;
	p->end = p->src->end;
	if ((uint64_t)(p->end - p->p) < n)
		return err_at_more(err, source_offset(p->src, p->end),
				   "was it cut off while it was written or copied?",
				   "the pickle ends too early");
	return PLIM_OK;
}

/* Little-endian unsigned of `width` bytes (1, 2, 4, 8); moves on. */
static enum plim_status pickle_number(struct pickle *p, unsigned width, uint64_t *n,
				      struct plim_err *err)
{
	enum plim_status st = want(p, width, err);

	*n = 0;
	if (st)
		return st;
	memcpy(n, p->p, width);
	p->p += width;
	return PLIM_OK;
}

/* A text line of protocol 0: *text stays valid until the next read. */
static enum plim_status line(struct pickle *p, const char **text, size_t *n, struct plim_err *err)
{
	size_t have, asked = 64;
	const uint8_t *nl;
	enum plim_status st;

	for (;;) {
		have = (size_t)(p->end - p->p);
		nl = have ? memchr(p->p, '\n', have) : NULL;
		if (nl)
			break;
		if (have >= LINE_BYTES_MAX)
			return damaged(p, err, "a text line of more than 1 MiB");
		asked = have + asked > LINE_BYTES_MAX ? LINE_BYTES_MAX : have + asked;
		st = source_need(p->src, p->p, asked, err);
		if (st)
			return st;
		p->p = p->src->p;
		p->end = p->src->end;
		if ((size_t)(p->end - p->p) == have)
			return err_at_more(err, source_offset(p->src, p->end),
					   "was it cut off while it was written or copied?",
					   "the pickle ends inside a text line");
		asked *= 2;
	}
	*text = (const char *)p->p;
	*n = (size_t)(nl - p->p);
	if (*n && (*text)[*n - 1] == '\r')
		--*n;
	p->p = nl + 1;
	return PLIM_OK;
}

/* ---- stack ---- */

enum plim_status pickle_push(struct pickle *p, struct pickle_value v, struct plim_err *err)
{
	return vec_push(p->heap->mem, &p->stack, v, err);
}

static enum plim_status push_kind(struct pickle *p, enum pickle_kind kind, uint64_t bits,
				  struct plim_err *err)
{
	return pickle_push(p, (struct pickle_value){ bits, kind }, err);
}

/* At least n values above the newest mark. */
static enum plim_status have(struct pickle *p, size_t n, struct plim_err *err)
{
	size_t floor = p->marks.n ? p->marks.at[p->marks.n - 1] : 0;

	if (p->stack.n - floor < n)
		return damaged(p, err, "the pickle takes more values than it made");
	return PLIM_OK;
}

/* The stack index of the newest mark, which is removed. */
static enum plim_status pop_mark(struct pickle *p, size_t *base, struct plim_err *err)
{
	*base = 0;
	if (!p->marks.n)
		return damaged(p, err, "the pickle closes a container that it did not open");
	*base = p->marks.at[--p->marks.n];
	return PLIM_OK;
}

static struct pickle_value pop(struct pickle *p)
{
	return p->stack.at[--p->stack.n];
}

static struct pickle_value *top(struct pickle *p)
{
	return &p->stack.at[p->stack.n - 1];
}

/* ---- scalars ---- */

static enum plim_status op_nothing(struct pickle *p, const struct op *op, struct plim_err *err)
{
	uint64_t skipped;

	return op->arg ? pickle_number(p, op->arg, &skipped, err) : PLIM_OK;
}

static enum plim_status op_proto(struct pickle *p, const struct op *op, struct plim_err *err)
{
	uint64_t n;
	enum plim_status st = pickle_number(p, op->arg, &n, err);

	if (!st && n > 5)
		st = err_at_more(err, here(p), "0 to 5 are known", "pickle protocol %u",
				 (unsigned)n);
	return st;
}

static enum plim_status op_const(struct pickle *p, const struct op *op, struct plim_err *err)
{
	return op->arg == 2 ? push_kind(p, PICKLE_NONE, 0, err)
			    : push_kind(p, PICKLE_BOOL, op->arg, err);
}

static enum plim_status op_int(struct pickle *p, const struct op *op, struct plim_err *err)
{
	uint64_t n;
	enum plim_status st = pickle_number(p, op->arg, &n, err);

	if (op->arg == 4)
		n = (uint64_t)(int64_t)(int32_t)n;
	return st ? st : push_kind(p, PICKLE_INT, n, err);
}

/* Little-endian two's complement of n bytes at `q`. */
static enum plim_status push_long(struct pickle *p, const uint8_t *q, size_t n,
				  struct plim_err *err)
{
	uint64_t bits = 0;
	uint32_t id;
	enum plim_status st;

	if (n <= 8) {
		memcpy(&bits, q, n);
		if (n && n < 8 && q[n - 1] & 0x80)
			bits |= UINT64_MAX << (8 * n);
		return push_kind(p, PICKLE_INT, bits, err);
	}
	memcpy(&bits, q, 8);
	if (n == 9 && q[8] == 0)
		return push_kind(p, bits > INT64_MAX ? PICKLE_UINT : PICKLE_INT, bits, err);
	st = intern_add(&p->heap->strings, q, n, &id, err);
	return st ? st : push_kind(p, PICKLE_BIGINT, id, err);
}

static enum plim_status op_long(struct pickle *p, const struct op *op, struct plim_err *err)
{
	uint64_t n;
	enum plim_status st = pickle_number(p, op->arg, &n, err);

	if (!st && n > LONG_BYTES_MAX)
		st = damaged(p, err, "an integer of %llu bytes", (unsigned long long)n);
	if (!st)
		st = want(p, n, err);
	if (!st)
		st = push_long(p, p->p, n, err);
	if (!st)
		p->p += n;
	return st;
}

static enum plim_status op_float(struct pickle *p, const struct op *op, struct plim_err *err)
{
	uint64_t n;
	enum plim_status st = pickle_number(p, op->arg, &n, err);

	return st ? st : push_kind(p, PICKLE_FLOAT, __builtin_bswap64(n), err);
}

#define DECIMAL_DIGITS_MAX \
	2400 /* of an integer beyond 64 bits as text; hashes and RNG states have hundreds */

/*
 * As LONG1 would have held it: protocols 0 and 1 write integers of any size in decimal.  Nine digits at a time, so that a
 * file of nothing else costs no more than a few operations a byte.
 */
static enum plim_status push_decimal(struct pickle *p, const char *text, size_t n,
				     struct plim_err *err)
{
	uint32_t limbs[DECIMAL_DIGITS_MAX / 9 + 2] = { 0 }; /* 32 bits are more than nine digits */
	uint8_t bytes[sizeof(limbs)];
	size_t used = 1, i = text[0] == '-';
	uint64_t carry;

	if (i == n || n > DECIMAL_DIGITS_MAX)
		return damaged(p, err, "a decimal integer of %zu digits", n - i);
	while (i < n) {
		uint64_t scale = 1;

		for (carry = 0; i < n && scale < 1000000000; i++, scale *= 10) {
			unsigned digit = (unsigned)(text[i] - '0');

			if (digit > 9)
				return damaged(p, err, "a decimal integer that is not one");
			carry = 10 * carry + digit;
		}
		for (size_t k = 0; k < used; k++) {
			carry += scale * limbs[k];
			limbs[k] = (uint32_t)carry;
			carry >>= 32;
		}
		if (carry)
			limbs[used++] = (uint32_t)carry;
	}
	used++; /* room for the sign */
	carry = 1;
	for (size_t k = 0; text[0] == '-' && k < used; k++) {
		carry += (uint32_t)~limbs[k];
		limbs[k] = (uint32_t)carry;
		carry >>= 32;
	}
	used *= 4;
	for (size_t k = 0; k < used; k++)
		bytes[k] = (uint8_t)(limbs[k / 4] >> k % 4 * 8);
	/* no byte that only repeats the sign */
	while (used > 1 && bytes[used - 1] == (bytes[used - 2] & 0x80 ? 0xff : 0))
		used--;
	return push_long(p, bytes, used, err);
}

/* Decimal digits to an integer. */
static enum plim_status op_text_int(struct pickle *p, const struct op *op, struct plim_err *err)
{
	const char *text;
	char digits[32], *rest;
	uint64_t bits;
	size_t n;
	enum plim_status st = line(p, &text, &n, err);

	if (st)
		return st;
	if (op->arg == 'I' && n == 2 && text[0] == '0' && (text[1] == '0' || text[1] == '1'))
		return push_kind(p, PICKLE_BOOL, text[1] == '1', err);
	if (n && op->arg == 'L' && text[n - 1] == 'L')
		n--;
	if (n >= sizeof(digits))
		return push_decimal(p, text, n, err);
	if (!n || memchr(text, 0, n))
		return damaged(p, err, "a decimal integer that is not one");
	memcpy(digits, text, n);
	digits[n] = 0;
	errno = 0;
	bits = digits[0] == '-' ? (uint64_t)strtoll(digits, &rest, 10)
				: strtoull(digits, &rest, 10);
	if (errno == ERANGE && !*rest)
		return push_decimal(p, text, n, err);
	if (errno || *rest || rest == digits)
		return damaged(p, err, "a decimal integer that is not one");
	return push_kind(p, digits[0] != '-' && bits > INT64_MAX ? PICKLE_UINT : PICKLE_INT, bits,
			 err);
}

static enum plim_status op_text_float(struct pickle *p, const struct op *op, struct plim_err *err)
{
	const char *text;
	char digits[64], *rest = digits;
	double d = 0;
	uint64_t bits;
	size_t n;
	enum plim_status st = line(p, &text, &n, err);
	locale_t c;

	(void)op;
	if (st)
		return st;
	if (n >= sizeof(digits))
		return damaged(p, err, "a decimal number that is not one");
	memcpy(digits, text, n);
	digits[n] = 0;
	c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* the host's decimal point may be a comma */
	if (c) {
		d = strtod_l(digits, &rest, c);
		freelocale(c);
	}
	if (*rest || rest == digits)
		return damaged(p, err, "a decimal number that is not one");
	memcpy(&bits, &d, sizeof(bits));
	return push_kind(p, PICKLE_FLOAT, bits, err);
}

/* ---- strings ---- */

static enum plim_status push_text(struct pickle *p, enum pickle_kind kind, const void *text,
				  size_t n, struct plim_err *err)
{
	uint32_t id;
	enum plim_status st = intern_add(&p->heap->strings, text, n, &id, err);

	return st ? st : push_kind(p, kind, id, err);
}

enum plim_status pickle_push_str(struct pickle *p, const char *text, size_t n, struct plim_err *err)
{
	return push_text(p, PICKLE_STR, text, n, err);
}

/* arg: the width of the length, plus 16 for bytes instead of text. */
static enum plim_status op_string(struct pickle *p, const struct op *op, struct plim_err *err)
{
	uint64_t n;
	enum plim_status st = pickle_number(p, op->arg & 15, &n, err);

	if (!st)
		st = want(p, n, err);
	if (!st)
		st = push_text(p, op->arg & 16 ? PICKLE_BYTES : PICKLE_STR, p->p, n, err);
	if (!st)
		p->p += n;
	return st;
}

static char *put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
		*to++ = (char)(0x80 | (c & 63));
	} else if (c < 0x10000) {
		*to++ = (char)(0xe0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 63));
		*to++ = (char)(0x80 | (c & 63));
	} else {
		*to++ = (char)(0xf0 | (c >> 18 & 7));
		*to++ = (char)(0x80 | (c >> 12 & 63));
		*to++ = (char)(0x80 | (c >> 6 & 63));
		*to++ = (char)(0x80 | (c & 63));
	}
	return to;
}

static int hex(const char *text, size_t n, uint32_t *value)
{
	*value = 0;
	for (size_t i = 0; i < n; i++) {
		char c = text[i];
		unsigned d = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
			     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
			     : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
						    : 99;

		if (d > 15)
			return 0;
		*value = *value << 4 | d;
	}
	return 1;
}

/*
 * One escape of the two text notations at text[0] == '\\'; returns its length, 0 if it is none.
 * raw: raw-unicode-escape (UNICODE), else a quoted Python 2 string (STRING), whose value are bytes.
 */
static size_t escape(const char *text, size_t n, int raw, uint32_t *value)
{
	static const char plain[] = "\\\\''\"\"n\nr\rt\tb\bf\fa\av\v";
	size_t digits = n < 2 ? 0 : text[1] == 'u' && raw ? 4 : text[1] == 'U' && raw ? 8 : 0;

	if (!raw && n > 3 && text[1] == 'x')
		digits = 2;
	if (digits)
		return n >= 2 + digits && hex(text + 2, digits, value) ? 2 + digits : 0;
	for (size_t i = 0; !raw && n > 1 && i + 1 < sizeof(plain); i += 2) {
		if (text[1] == plain[i]) {
			*value = (unsigned char)plain[i + 1];
			return 2;
		}
	}
	return 0;
}

static enum plim_status op_text_string(struct pickle *p, const struct op *op, struct plim_err *err)
{
	int raw = op->arg == 'V';
	const char *text;
	char *out, *to;
	size_t n, size;
	enum plim_status st = line(p, &text, &n, err);

	if (st)
		return st;
	if (!raw) {
		if (n < 2 || (text[0] != '\'' && text[0] != '"') || text[n - 1] != text[0])
			return damaged(p, err, "a string without its quotes");
		text++;
		n -= 2;
	}
	size = 2 * n + 1; /* a byte above 0x7f becomes two; no escape grows */
	out = to = mem_new(p->heap->mem, size, 1, err);
	if (!out)
		return mem_status(err);
	for (size_t i = 0, step; i < n; i += step) {
		uint32_t c = (unsigned char)text[i];

		step = text[i] == '\\' ? escape(text + i, n - i, raw, &c) : 1;
		if (!step)
			step = 1;
		if (raw)
			to = put_utf8(to, c);
		else
			*to++ = (char)c;
	}
	st = push_text(p, PICKLE_STR, out, (size_t)(to - out), err);
	mem_free(p->heap->mem, out, size, 1);
	return st;
}

/* ---- containers ---- */

static enum plim_status op_empty(struct pickle *p, const struct op *op, struct plim_err *err)
{
	struct pickle_value v;
	enum plim_status st = heap_node(p->heap, (enum pickle_kind)op->arg, &v, err);

	return st ? st : pickle_push(p, v, err);
}

static enum plim_status op_empty_dict(struct pickle *p, const struct op *op, struct plim_err *err)
{
	size_t before = p->stack.n;
	enum plim_status st = PLIM_OK;

	if (!(p->flags & PICKLE_NO_ROW_PATH)) {
		p->p--; /* the straight-line path begins at the opcode */
		st = rows_run(p, err);
		if (st || p->stack.n > before)
			return st;
		p->p++;
	}
	return op_empty(p, op, err);
}

static enum plim_status op_mark(struct pickle *p, const struct op *op, struct plim_err *err)
{
	(void)op;
	return vec_push(p->heap->mem, &p->marks, p->stack.n, err);
}

/* What a call's record collects lies in a list or dict of its own. */
static enum plim_status part_of_call(struct pickle *p, struct pickle_value *target,
				     enum pickle_kind kind, struct plim_err *err)
{
	size_t slot = kind == PICKLE_DICT ? PICKLE_CALL_SET : PICKLE_CALL_APPENDED;
	struct pickle_value part = p->heap->nodes.at[target->bits].items[slot];
	enum plim_status st = PLIM_OK;

	p->heap->nodes.at[target->bits].changed |= p->heap->nodes.at[target->bits].is_built;
	if (part.kind == PICKLE_NONE) {
		st = heap_node(p->heap, kind, &part, err);
		if (!st)
			p->heap->nodes.at[target->bits].items[slot] = part;
	}
	*target = part;
	return st;
}

static enum plim_status fill_list(struct pickle *p, struct pickle_value target, size_t base,
				  enum pickle_kind kind, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (target.kind == PICKLE_CALL)
		st = part_of_call(p, &target, PICKLE_LIST, err);
	else if (target.kind != kind)
		st = damaged(p, err, "the pickle appends to something that is not a list");
	for (size_t i = base; !st && i < p->stack.n; i++)
		st = rows_settle(p, &p->stack.at[i], err);
	if (!st)
		st = heap_append(p->heap, target, p->stack.at + base, p->stack.n - base, err);
	p->stack.n = base;
	return st;
}

static enum plim_status fill_dict(struct pickle *p, struct pickle_value target, size_t base,
				  struct plim_err *err)
{
	const struct pickle_node *node;
	uint64_t taken = PICKLE_UNTAKEN;
	enum plim_status st = PLIM_OK;

	if ((p->stack.n - base) % 2)
		return damaged(p, err, "a dict with a key but no value");
	if (target.kind == PICKLE_CALL)
		st = part_of_call(p, &target, PICKLE_DICT, err);
	else if (target.kind != PICKLE_DICT)
		st = damaged(p, err, "the pickle sets items of something that is not a dict");
	for (size_t i = base + 1; !st && i < p->stack.n; i += 2)
		st = rows_settle(p, &p->stack.at[i], err);
	if (st)
		return st;
	node = &p->heap->nodes.at[target.bits];
	if (!node->n &&
	    !node->frozen) /* closed at once: a row need not be stored before it is taken */
		st = rows_offer(p, p->stack.at + base, p->stack.n - base, &taken, err);
	if (!st && taken != PICKLE_UNTAKEN) {
		p->heap->nodes.at[target.bits].ext = taken + 1;
		p->heap->nodes.at[target.bits].frozen = 1;
	} else if (!st) {
		st = heap_append(p->heap, target, p->stack.at + base, p->stack.n - base, err);
	}
	p->stack.n = base;
	return st;
}

/* What SETITEMS and APPENDS fill stands right below their mark. */
static enum plim_status target_below(struct pickle *p, size_t base, struct pickle_value *target,
				     struct plim_err *err)
{
	size_t floor = p->marks.n ? p->marks.at[p->marks.n - 1] : 0;

	if (base <= floor)
		return damaged(p, err, "the pickle fills a container that is not there");
	*target = p->stack.at[base - 1];
	return PLIM_OK;
}

static enum plim_status op_fill(struct pickle *p, const struct op *op, struct plim_err *err)
{
	struct pickle_value target;
	size_t base;
	enum plim_status st = pop_mark(p, &base, err);

	if (!st)
		st = target_below(p, base, &target, err);
	if (st)
		return st;
	return op->arg == PICKLE_DICT ? fill_dict(p, target, base, err)
				      : fill_list(p, target, base, (enum pickle_kind)op->arg, err);
}

static enum plim_status op_append(struct pickle *p, const struct op *op, struct plim_err *err)
{
	enum plim_status st = have(p, 2, err);

	(void)op;
	return st ? st
		  : fill_list(p, p->stack.at[p->stack.n - 2], p->stack.n - 1, PICKLE_LIST, err);
}

/* SETITEM, one pair: the dict stays open, so it is not offered as a row before someone takes it. */
static enum plim_status op_setitem(struct pickle *p, const struct op *op, struct plim_err *err)
{
	enum plim_status st = have(p, 3, err);
	struct pickle_value target;

	(void)op;
	if (st)
		return st;
	target = p->stack.at[p->stack.n - 3];
	if (target.kind == PICKLE_CALL)
		st = part_of_call(p, &target, PICKLE_DICT, err);
	else if (target.kind != PICKLE_DICT)
		st = damaged(p, err, "the pickle sets items of something that is not a dict");
	if (!st)
		st = rows_settle(p, top(p), err);
	if (!st)
		st = heap_append(p->heap, target, &p->stack.at[p->stack.n - 2], 2, err);
	p->stack.n -= 2;
	return st;
}

/* A container over the values from `base` on. */
static enum plim_status close_from(struct pickle *p, enum pickle_kind kind, size_t base,
				   struct plim_err *err)
{
	struct pickle_value v;
	enum plim_status st = heap_node(p->heap, kind, &v, err);

	if (!st)
		st = kind == PICKLE_DICT ? fill_dict(p, v, base, err)
					 : fill_list(p, v, base, kind, err);
	return st ? st : pickle_push(p, v, err);
}

enum plim_status pickle_close(struct pickle *p, enum pickle_kind kind, size_t items,
			      struct plim_err *err)
{
	size_t n = kind == PICKLE_DICT ? 2 * items : items;

	return close_from(p, kind, p->stack.n - n, err);
}

/* arg: the kind; LIST, TUPLE, DICT and frozenset from a mark. */
static enum plim_status op_close(struct pickle *p, const struct op *op, struct plim_err *err)
{
	size_t base;
	enum plim_status st = pop_mark(p, &base, err);

	return st ? st : close_from(p, (enum pickle_kind)op->arg, base, err);
}

static enum plim_status op_tuple(struct pickle *p, const struct op *op, struct plim_err *err)
{
	enum plim_status st = have(p, op->arg, err);

	return st ? st : close_from(p, PICKLE_TUPLE, p->stack.n - op->arg, err);
}

static enum plim_status op_pop(struct pickle *p, const struct op *op, struct plim_err *err)
{
	enum plim_status st;

	(void)op;
	if (p->marks.n && p->marks.at[p->marks.n - 1] == p->stack.n) {
		p->marks.n--;
		return PLIM_OK;
	}
	st = have(p, 1, err);
	if (!st)
		p->stack.n--;
	return st;
}

static enum plim_status op_pop_mark(struct pickle *p, const struct op *op, struct plim_err *err)
{
	size_t base;
	enum plim_status st = pop_mark(p, &base, err);

	(void)op;
	if (!st)
		p->stack.n = base;
	return st;
}

static enum plim_status op_dup(struct pickle *p, const struct op *op, struct plim_err *err)
{
	enum plim_status st = have(p, 1, err);

	(void)op;
	return st ? st : pickle_push(p, *top(p), err);
}

/* ---- memo ---- */

static enum plim_status memo_set(struct pickle *p, uint64_t i, struct plim_err *err)
{
	enum plim_status st = have(p, 1, err);
	uint32_t packed = 0;

	/* a pickler numbers its entries in turn; a number far beyond every byte read is an attack on memory */
	if (!st && i > here(p) + MEMO_GAP)
		st = damaged(p, err, "more values than the file has room for (memo entry %llu)",
			     (unsigned long long)i);
	if (!st)
		st = memo_pack(p, *top(p), &packed, err);
	if (!st && i >= p->memo.n) {
		st = vec_need(p->heap->mem, &p->memo, i + 1 - p->memo.n, err);
		if (!st) {
			memset(p->memo.at + p->memo.n, 0,
			       (i + 1 - p->memo.n) * sizeof(*p->memo.at));
			p->memo.n = i + 1;
		}
	}
	if (st)
		return st;
	if (p->memo.at[i]) { /* overwritten: what the rows remember of references is void */
		intern_release(&p->runs);
		p->run.n = 0;
	} else {
		p->memo_used++;
	}
	p->memo.at[i] = packed;
	return PLIM_OK;
}

static enum plim_status memo_get(struct pickle *p, uint64_t i, struct plim_err *err)
{
	if (i >= p->memo.n || !p->memo.at[i])
		return damaged(p, err,
			       "a reference to a value that was never made (memo entry %llu)",
			       (unsigned long long)i);
	return pickle_push(p, memo_unpack(p->heap, p->memo.at[i]), err);
}

static enum plim_status op_memoize(struct pickle *p, const struct op *op, struct plim_err *err)
{
	(void)op;
	return memo_set(p, p->memo_used, err);
}

static enum plim_status op_put(struct pickle *p, const struct op *op, struct plim_err *err)
{
	uint64_t i;
	enum plim_status st = pickle_number(p, op->arg, &i, err);

	return st ? st : memo_set(p, i, err);
}

static enum plim_status op_get(struct pickle *p, const struct op *op, struct plim_err *err)
{
	uint64_t i;
	enum plim_status st = pickle_number(p, op->arg, &i, err);

	return st ? st : memo_get(p, i, err);
}

static enum plim_status op_text_memo(struct pickle *p, const struct op *op, struct plim_err *err)
{
	const char *text;
	uint64_t i = 0;
	size_t n;
	enum plim_status st = line(p, &text, &n, err);

	if (st)
		return st;
	for (size_t k = 0; k < n; k++) {
		if (text[k] < '0' || text[k] > '9' || n > 18)
			return damaged(p, err, "a memo number that is not one");
		i = 10 * i + (uint64_t)(text[k] - '0');
	}
	return op->arg == 'p' ? memo_set(p, i, err) : memo_get(p, i, err);
}

/* ---- constructors: records, or a refusal ---- */

static enum plim_status refuse_pickle(struct pickle *p, struct pickle_value callee,
				      const char *what, struct plim_err *err)
{
	char name[256];

	if (!(p->flags & PICKLE_NO_CALLS))
		return PLIM_OK;
	if (callee.kind != PICKLE_GLOBAL)
		return err_at_more(err, here(p), "a memory snapshot never does", "the pickle %s",
				   what);
	pickle_name(p->heap, callee, name, sizeof(name));
	return err_at_more(
		err, here(p),
		"a memory snapshot never does (was it made by hand, with tensors or numpy "
		"numbers in it?); nothing was run",
		"the pickle %s '%s'", what, name);
}

static enum plim_status push_global(struct pickle *p, struct pickle_value module,
				    struct pickle_value name, struct plim_err *err)
{
	struct pickle_value parts[2] = { module, name }, v;
	enum plim_status st = heap_node(p->heap, PICKLE_GLOBAL, &v, err);

	if (!st)
		st = heap_append(p->heap, v, parts, 2, err);
	if (!st)
		st = refuse_pickle(p, v, "names", err);
	if (!st && p->hooks && p->hooks->global)
		st = p->hooks->global(p->hooks->ctx, v, here(p), err);
	return st ? st : pickle_push(p, v, err);
}

static enum plim_status text_global(struct pickle *p, struct plim_err *err)
{
	const char *text;
	size_t n;
	enum plim_status st = line(p, &text, &n, err);
	struct pickle_value name;

	if (!st)
		st = pickle_push_str(p, text, n, err);
	if (!st)
		st = line(p, &text, &n, err);
	if (!st)
		st = pickle_push_str(p, text, n, err);
	if (st)
		return st;
	name = pop(p);
	return push_global(p, pop(p), name, err);
}

static enum plim_status op_global(struct pickle *p, const struct op *op, struct plim_err *err)
{
	struct pickle_value name;
	enum plim_status st;

	if (op->arg == 'c')
		return text_global(p, err);
	st = have(p, 2, err);
	if (st)
		return st;
	name = pop(p);
	return push_global(p, pop(p), name, err);
}

/* An extension code of copyreg: a global whose name only the writer's registry knows. */
static enum plim_status op_ext(struct pickle *p, const struct op *op, struct plim_err *err)
{
	struct pickle_value module, code;
	uint64_t n;
	enum plim_status st = pickle_number(p, op->arg, &n, err);

	if (!st)
		st = pickle_push_str(p, "copyreg extension", 17, err);
	if (st)
		return st;
	module = pop(p);
	code = (struct pickle_value){ n, PICKLE_INT };
	return push_global(p, module, code, err);
}

static enum plim_status push_call(struct pickle *p, struct pickle_value callee,
				  struct pickle_value args, struct pickle_value kwargs,
				  struct plim_err *err)
{
	struct pickle_value none = { 0, PICKLE_NONE }, v;
	struct pickle_value items[PICKLE_CALL_ITEMS] = { callee, args, kwargs, none, none, none };
	enum plim_status st = refuse_pickle(p, callee, "calls", err);

	if (!st)
		st = heap_node(p->heap, PICKLE_CALL, &v, err);
	if (!st)
		st = heap_append(p->heap, v, items, PICKLE_CALL_ITEMS, err);
	if (!st)
		p->heap->nodes.at[v.bits].is_call = 1;
	return st ? st : pickle_push(p, v, err);
}

/* REDUCE, NEWOBJ: callee and arguments; NEWOBJ_EX: keyword arguments too. */
static enum plim_status op_call(struct pickle *p, const struct op *op, struct plim_err *err)
{
	struct pickle_value kwargs = { 0, PICKLE_NONE }, args;
	enum plim_status st = have(p, op->arg, err);

	if (st)
		return st;
	if (op->arg == 3)
		kwargs = pop(p);
	args = pop(p);
	return push_call(p, pop(p), args, kwargs, err);
}

static enum plim_status op_new(struct pickle *p, const struct op *op, struct plim_err *err)
{
	enum plim_status st = op_call(p, op, err);

	if (!st)
		p->heap->nodes.at[top(p)->bits].is_new = 1;
	return st;
}

/* INST names its class, OBJ has it as the first value above the mark; without arguments a class is not called. */
static enum plim_status op_object(struct pickle *p, const struct op *op, struct plim_err *err)
{
	struct pickle_value callee = { 0, PICKLE_NONE }, args;
	size_t base;
	enum plim_status st = PLIM_OK;

	if (op->arg == 'i') {
		st = text_global(p, err);
		if (!st)
			callee = pop(p);
	}
	if (!st)
		st = pop_mark(p, &base, err);
	if (st)
		return st;
	if (op->arg == 'o') {
		if (p->stack.n == base)
			return damaged(p, err, "an object without a class");
		callee = p->stack.at[base++];
	}
	st = close_from(p, PICKLE_TUPLE, base, err);
	if (st)
		return st;
	args = pop(p);
	if (op->arg == 'o')
		p->stack.n--;
	st = push_call(p, callee, args, (struct pickle_value){ 0, PICKLE_NONE }, err);
	if (!st && !pickle_len(p->heap, args))
		p->heap->nodes.at[top(p)->bits].is_new = 1;
	return st;
}

static enum plim_status op_build(struct pickle *p, const struct op *op, struct plim_err *err)
{
	struct pickle_value state, none = { 0, PICKLE_NONE };
	struct pickle_node *object;
	uint64_t skip = 0;
	enum plim_status st = have(p, 2, err);

	(void)op;
	if (!st)
		st = refuse_pickle(p, none, "sets an object's state", err);
	if (st)
		return st;
	state = pop(p);
	if (top(p)->kind != PICKLE_CALL)
		return damaged(p, err,
			       "the pickle sets the state of something that is not an object");
	object = &p->heap->nodes.at[top(p)->bits];
	object->changed |= object->is_built;
	object->is_built = 1;
	object->items[PICKLE_CALL_STATE] = state;
	if (p->hooks && p->hooks->built)
		st = p->hooks->built(p->hooks->ctx, *top(p), here(p), &skip, err);
	if (!st)
		st = want(p, skip, err);
	if (!st)
		p->p += skip;
	return st;
}

static enum plim_status op_persid(struct pickle *p, const struct op *op, struct plim_err *err)
{
	struct pickle_value id, v, none = { 0, PICKLE_NONE };
	const char *text = NULL;
	size_t n = 0;
	enum plim_status st =
		refuse_pickle(p, none, "holds a persistent id (a tensor's storage?)", err);

	if (!st && op->arg == 'P') {
		st = line(p, &text, &n, err);
		if (!st)
			st = pickle_push_str(p, text, n, err);
	}
	if (!st)
		st = have(p, 1, err);
	if (st)
		return st;
	id = pop(p);
	st = heap_node(p->heap, PICKLE_PERSID, &v, err);
	if (!st)
		st = heap_append(p->heap, v, &id, 1, err);
	return st ? st : pickle_push(p, v, err);
}

static enum plim_status op_buffer(struct pickle *p, const struct op *op, struct plim_err *err)
{
	return err_at_more(err, here(p), "a memory snapshot never does",
			   "the pickle keeps data outside the file (%s)", op->name);
}

static enum plim_status op_stop(struct pickle *p, const struct op *op, struct plim_err *err)
{
	(void)op;
	(void)err;
	p->stopped = 1;
	return PLIM_OK;
}

/* ---- the table ---- */

const struct op pickle_ops[256] = {
	/* framing */
	[0x80] = { "PROTO", op_proto, 1 },
	[0x95] = { "FRAME", op_nothing, 8 },
	['.'] = { "STOP", op_stop, 0 },
	/* stack */
	['('] = { "MARK", op_mark, 0 },
	['0'] = { "POP", op_pop, 0 },
	['1'] = { "POP_MARK", op_pop_mark, 0 },
	['2'] = { "DUP", op_dup, 0 },
	/* scalars */
	['N'] = { "NONE", op_const, 2 },
	[0x88] = { "NEWTRUE", op_const, 1 },
	[0x89] = { "NEWFALSE", op_const, 0 },
	['K'] = { "BININT1", op_int, 1 },
	['M'] = { "BININT2", op_int, 2 },
	['J'] = { "BININT", op_int, 4 },
	[0x8a] = { "LONG1", op_long, 1 },
	[0x8b] = { "LONG4", op_long, 4 },
	['I'] = { "INT", op_text_int, 'I' },
	['L'] = { "LONG", op_text_int, 'L' },
	['G'] = { "BINFLOAT", op_float, 8 },
	['F'] = { "FLOAT", op_text_float, 0 },
	/* strings */
	[0x8c] = { "SHORT_BINUNICODE", op_string, 1 },
	['X'] = { "BINUNICODE", op_string, 4 },
	[0x8d] = { "BINUNICODE8", op_string, 8 },
	['V'] = { "UNICODE", op_text_string, 'V' },
	['U'] = { "SHORT_BINSTRING", op_string, 1 },
	['T'] = { "BINSTRING", op_string, 4 },
	['S'] = { "STRING", op_text_string, 'S' },
	['C'] = { "SHORT_BINBYTES", op_string, 1 | 16 },
	['B'] = { "BINBYTES", op_string, 4 | 16 },
	[0x8e] = { "BINBYTES8", op_string, 8 | 16 },
	[0x96] = { "BYTEARRAY8", op_string, 8 | 16 },
	/* containers */
	['}'] = { "EMPTY_DICT", op_empty_dict, PICKLE_DICT },
	[']'] = { "EMPTY_LIST", op_empty, PICKLE_LIST },
	[')'] = { "EMPTY_TUPLE", op_empty, PICKLE_TUPLE },
	[0x8f] = { "EMPTY_SET", op_empty, PICKLE_SET },
	['d'] = { "DICT", op_close, PICKLE_DICT },
	['l'] = { "LIST", op_close, PICKLE_LIST },
	['t'] = { "TUPLE", op_close, PICKLE_TUPLE },
	[0x91] = { "FROZENSET", op_close, PICKLE_SET },
	[0x85] = { "TUPLE1", op_tuple, 1 },
	[0x86] = { "TUPLE2", op_tuple, 2 },
	[0x87] = { "TUPLE3", op_tuple, 3 },
	['s'] = { "SETITEM", op_setitem, 0 },
	['u'] = { "SETITEMS", op_fill, PICKLE_DICT },
	['a'] = { "APPEND", op_append, 0 },
	['e'] = { "APPENDS", op_fill, PICKLE_LIST },
	[0x90] = { "ADDITEMS", op_fill, PICKLE_SET },
	/* memo */
	[0x94] = { "MEMOIZE", op_memoize, 0 },
	['q'] = { "BINPUT", op_put, 1 },
	['r'] = { "LONG_BINPUT", op_put, 4 },
	['p'] = { "PUT", op_text_memo, 'p' },
	['h'] = { "BINGET", op_get, 1 },
	['j'] = { "LONG_BINGET", op_get, 4 },
	['g'] = { "GET", op_text_memo, 'g' },
	/* constructors */
	['c'] = { "GLOBAL", op_global, 'c' },
	[0x93] = { "STACK_GLOBAL", op_global, 0 },
	['R'] = { "REDUCE", op_call, 2 },
	[0x81] = { "NEWOBJ", op_new, 2 },
	[0x92] = { "NEWOBJ_EX", op_new, 3 },
	['b'] = { "BUILD", op_build, 0 },
	['i'] = { "INST", op_object, 'i' },
	['o'] = { "OBJ", op_object, 'o' },
	[0x82] = { "EXT1", op_ext, 1 },
	[0x83] = { "EXT2", op_ext, 2 },
	[0x84] = { "EXT4", op_ext, 4 },
	['P'] = { "PERSID", op_persid, 'P' },
	['Q'] = { "BINPERSID", op_persid, 0 },
	[0x97] = { "NEXT_BUFFER", op_buffer, 0 },
	[0x98] = { "READONLY_BUFFER", op_nothing, 0 },
};

/* ---- running ---- */

struct pickle *pickle_builder_new(struct pickle_heap *heap, const struct pickle_hooks *hooks,
				  struct plim_err *err)
{
	struct pickle *p = mem_new(heap->mem, 1, sizeof(*p), err);

	if (!p)
		return NULL;
	p->heap = heap;
	p->hooks = hooks;
	p->row_shape = INTERN_NONE;
	intern_init(&p->shapes, heap->mem);
	intern_init(&p->runs, heap->mem);
	/* From the start, so that a place in the stack is never an offset from NULL. */
	if (vec_need(heap->mem, &p->stack, 64, err)) {
		pickle_builder_free(p);
		return NULL;
	}
	return p;
}

void pickle_builder_free(struct pickle *p)
{
	struct mem *m;

	if (!p)
		return;
	m = p->heap->mem;
	vec_release(m, &p->stack);
	vec_release(m, &p->marks);
	vec_release(m, &p->memo);
	vec_release(m, &p->wanted);
	vec_release(m, &p->run);
	vec_release(m, &p->scratch);
	intern_release(&p->shapes);
	intern_release(&p->runs);
	mem_free(m, p, 1, sizeof(*p));
}

enum plim_status pickle_take(struct pickle *p, struct pickle_value *root, struct plim_err *err)
{
	if (p->stack.n < 1 || p->marks.n)
		return damaged(p, err, "the pickle ends without a value");
	*root = pop(p);
	return PLIM_OK;
}

static enum plim_status run_pickle(struct pickle *p, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	while (!st && !p->stopped) {
		const struct op *op;

		st = want(p, 1, err);
		if (st)
			break;
		op = &pickle_ops[*p->p];
		if (!op->run) {
			st = damaged(p, err, "an opcode that no pickle has (0x%02x)", *p->p);
			break;
		}
		p->p++;
		st = op->run(p, op, err);
	}
	return st;
}

enum plim_status pickle_read(struct pickle_heap *heap, struct source *src, unsigned flags,
			     const struct pickle_hooks *hooks, struct pickle_value *root,
			     struct plim_err *err)
{
	struct pickle *p = pickle_builder_new(heap, hooks, err);
	enum plim_status st;

	*root = (struct pickle_value){ 0, PICKLE_NONE };
	if (!p)
		return mem_status(err);
	p->src = src;
	p->flags = flags;
	p->p = src->p;
	p->end = src->end;
	st = run_pickle(p, err);
	if (!st)
		st = pickle_take(p, root, err);
	src->p = p->p;
	pickle_builder_free(p);
	return st;
}
