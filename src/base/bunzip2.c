/*
 * bzip2, decompressed: blocks of up to 900,000 bytes, each a Burrows-Wheeler transform whose moved-to-front symbols are
 * Huffman-coded with up to six tables.  Follows the format as bzip2 1.0 writes it; randomised blocks, which nothing has
 * written since 1997, are refused.
 */
#include "codec_kinds.h"

#include <string.h>

#define LEVEL_BYTES 100000u
#define GROUPS_MAX 6
#define GROUP_SYMBOLS 50
#define SELECTORS_MAX 18002 /* 900,000 / 50, and the end; more are read and have no use */
#define SYMBOLS_MAX 258
#define CODE_BITS_MAX 20
#define BLOCK_MAGIC 0x314159265359u
#define END_MAGIC 0x177245385090u
#define RUN_LENGTH 4 /* so many equal bytes are followed by how many more */

/* The codes of one table, by length: those of n bits are up to limit[n]; symbol = perm[code - base[n]]. */
struct code {
	uint32_t limit[CODE_BITS_MAX + 2], base[CODE_BITS_MAX + 2];
	uint16_t perm[SYMBOLS_MAX];
	unsigned least, most;
};

struct bunzip2 {
	uint64_t bits; /* the lowest bit_count of these are to be read */
	unsigned bit_count;
	uint32_t level;
	uint32_t *at; /* a byte and, above it, the number of the one that follows it */
	uint32_t n, left,
		position; /* of the block: bytes, those not written yet, the next one's number */
	uint32_t crc, block_crc, stream_crc;
	unsigned run, repeat; /* equal bytes so far; how often the last is to be written again */
	uint8_t last;
	uint32_t crc_of[256];
	struct code codes[GROUPS_MAX];
	uint8_t selectors[SELECTORS_MAX], bytes_used[256];
	uint32_t selector_count, groups, symbols;
};

static enum plim_status get_bits(struct codec *c, unsigned n, uint32_t *out, struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	enum plim_status st = PLIM_OK;

	while (b->bit_count < n && !st) {
		uint8_t byte;

		st = codec_byte(c, &byte, err);
		b->bits = b->bits << 8 | byte;
		b->bit_count += 8;
	}
	if (st) {
		*out = 0;
		return st;
	}
	b->bit_count -= n;
	*out = (uint32_t)(b->bits >> b->bit_count) & (uint32_t)((1ull << n) - 1);
	return PLIM_OK;
}

static enum plim_status get_48(struct codec *c, uint64_t *out, struct plim_err *err)
{
	uint32_t high, low = 0;
	enum plim_status st = get_bits(c, 24, &high, err);

	if (!st)
		st = get_bits(c, 24, &low, err);
	*out = (uint64_t)high << 24 | low;
	return st;
}

/* ---- the tables of a block ---- */

static enum plim_status read_used(struct codec *c, struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	uint32_t rows, row = 0;
	enum plim_status st = get_bits(c, 16, &rows, err);

	b->symbols = 0;
	for (unsigned i = 0; i < 16 && !st; i++) {
		if (!(rows & 0x8000u >> i))
			continue;
		st = get_bits(c, 16, &row, err);
		for (unsigned k = 0; k < 16 && !st; k++)
			if (row & 0x8000u >> k)
				b->bytes_used[b->symbols++] = (uint8_t)(16 * i + k);
	}
	return !st && !b->symbols ? codec_damaged(c, err) : st;
}

/* A number in ones that a zero ends, below `most`. */
static enum plim_status get_unary(struct codec *c, uint32_t most, uint32_t *out,
				  struct plim_err *err)
{
	uint32_t bit = 1;
	enum plim_status st = PLIM_OK;

	*out = 0;
	while (!st) {
		st = get_bits(c, 1, &bit, err);
		if (st || !bit)
			return st;
		if (++*out >= most)
			st = codec_damaged(c, err);
	}
	return st;
}

static enum plim_status read_selectors(struct codec *c, struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	uint8_t order[GROUPS_MAX] = { 0, 1, 2, 3, 4, 5 };
	uint32_t all = 0, k = 0;
	enum plim_status st = get_bits(c, 3, &b->groups, err);

	if (!st)
		st = get_bits(c, 15, &all, err);
	if (!st && (b->groups < 2 || b->groups > GROUPS_MAX || !all))
		st = codec_damaged(c, err);
	b->selector_count = all < SELECTORS_MAX ? all : SELECTORS_MAX;
	for (uint32_t i = 0; i < all && !st; i++) {
		uint8_t first;

		st = get_unary(c, b->groups, &k, err);
		if (st)
			return st;
		first = order[k];
		memmove(order + 1, order, k);
		order[0] = first;
		if (i < SELECTORS_MAX)
			b->selectors[i] = first;
	}
	return st;
}

static enum plim_status read_lengths(struct codec *c, uint8_t *lengths, uint32_t n,
				     struct plim_err *err)
{
	uint32_t length, more = 1, down = 0;
	enum plim_status st = get_bits(c, 5, &length, err);

	for (uint32_t i = 0; i < n && !st; i++) {
		do {
			if (length < 1 || length > CODE_BITS_MAX)
				st = codec_damaged(c, err);
			if (!st)
				st = get_bits(c, 1, &more, err);
			if (!st && more)
				st = get_bits(c, 1, &down, err);
			if (!st && more)
				length += down ? UINT32_MAX : 1;
		} while (!st && more);
		lengths[i] = (uint8_t)length;
	}
	return st;
}

/* Canonical codes: those of one length in a row, behind the shorter ones. */
static void make_code(struct code *code, const uint8_t *lengths, uint32_t n)
{
	uint32_t count[CODE_BITS_MAX + 2] = { 0 }, next = 0, at = 0;

	code->least = CODE_BITS_MAX;
	code->most = 1;
	for (uint32_t i = 0; i < n; i++) {
		count[lengths[i]]++;
		code->least = lengths[i] < code->least ? lengths[i] : code->least;
		code->most = lengths[i] > code->most ? lengths[i] : code->most;
	}
	for (unsigned l = 1; l <= CODE_BITS_MAX; l++) {
		code->base[l] = next - at; /* may wrap; code - base is what counts */
		for (uint32_t i = 0; i < n; i++)
			if (lengths[i] == l)
				code->perm[at++] = (uint16_t)i;
		next += count[l];
		code->limit[l] = next; /* codes of l bits are below */
		next <<= 1;
	}
}

static enum plim_status read_codes(struct codec *c, struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	uint8_t lengths[SYMBOLS_MAX] = { 0 };
	enum plim_status st = PLIM_OK;

	for (uint32_t g = 0; g < b->groups && !st; g++) {
		st = read_lengths(c, lengths, b->symbols + 2, err);
		if (!st)
			make_code(&b->codes[g], lengths, b->symbols + 2);
	}
	return st;
}

/* ---- the symbols of a block ---- */

static enum plim_status get_symbol(struct codec *c, const struct code *code, uint32_t *out,
				   struct plim_err *err)
{
	const uint32_t n = c->u.bzip2->symbols + 2;
	unsigned length = code->least;
	uint32_t bits, bit;
	enum plim_status st = get_bits(c, length, &bits, err);

	*out = 0;
	while (!st && bits >= code->limit[length] && length < code->most) {
		st = get_bits(c, 1, &bit, err);
		bits = bits << 1 | bit;
		length++;
	}
	if (st)
		return st;
	if (bits >= code->limit[length] || bits - code->base[length] >= n)
		return codec_damaged(c, err);
	*out = code->perm[bits - code->base[length]];
	return PLIM_OK;
}

struct symbols {
	uint8_t order[256]; /* the bytes, those that came last in front */
	uint32_t counts[256];
	uint64_t run, weight; /* of the first byte, written in digits 1 and 2 */
};

static enum plim_status put_run(struct codec *c, struct symbols *s, struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	uint8_t byte = s->order[0];

	if (s->run > b->level * LEVEL_BYTES - b->n)
		return codec_damaged(c, err);
	s->counts[byte] += (uint32_t)s->run;
	for (; s->run; s->run--)
		b->at[b->n++] = byte;
	s->weight = 1;
	return PLIM_OK;
}

static enum plim_status put_symbol(struct codec *c, struct symbols *s, uint32_t symbol,
				   struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	uint8_t byte = s->order[symbol - 1];
	enum plim_status st = put_run(c, s, err);

	if (st)
		return st;
	if (b->n >= b->level * LEVEL_BYTES)
		return codec_damaged(c, err);
	memmove(s->order + 1, s->order, symbol - 1);
	s->order[0] = byte;
	s->counts[byte]++;
	b->at[b->n++] = byte;
	return PLIM_OK;
}

static enum plim_status read_symbols(struct codec *c, struct symbols *s, struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	const uint32_t end = b->symbols + 1; /* 0 and 1 are digits of a run */
	uint32_t symbol = 0;
	enum plim_status st = PLIM_OK;

	for (uint32_t i = 0; !st; i++) {
		uint32_t group = i / GROUP_SYMBOLS;

		if (group >= b->selector_count)
			return codec_damaged(c, err);
		st = get_symbol(c, &b->codes[b->selectors[group]], &symbol, err);
		if (st)
			return st;
		if (symbol == end)
			return put_run(c, s, err);
		if (symbol > 1) {
			st = put_symbol(c, s, symbol, err);
			continue;
		}
		s->run += s->weight << symbol;
		s->weight <<= 1;
		if (s->run > b->level * LEVEL_BYTES)
			return codec_damaged(c, err);
	}
	return st;
}

/* From the sorted rotations' last bytes to the text: which byte follows which. */
static enum plim_status link_bytes(struct codec *c, struct symbols *s, uint32_t first,
				   struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	uint32_t sum = 0;

	if (first >= b->n)
		return codec_damaged(c, err);
	for (unsigned i = 0; i < 256; i++) {
		uint32_t n = s->counts[i];

		s->counts[i] = sum;
		sum += n;
	}
	for (uint32_t i = 0; i < b->n; i++)
		b->at[s->counts[b->at[i] & 0xff]++] |= i << 8;
	b->position = b->at[first] >> 8;
	b->left = b->n;
	return PLIM_OK;
}

static enum plim_status read_block(struct codec *c, struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	struct symbols s = { .weight = 1 };
	uint32_t randomised = 0, first = 0, high = 0;
	enum plim_status st = get_bits(c, 16, &high, err);

	if (!st)
		st = get_bits(c, 16, &b->block_crc, err);
	b->block_crc |= high << 16;
	if (!st)
		st = get_bits(c, 1, &randomised, err);
	if (!st)
		st = get_bits(c, 24, &first, err);
	if (!st && randomised)
		st = codec_damaged(c, err);
	if (!st)
		st = read_used(c, err);
	if (!st)
		st = read_selectors(c, err);
	if (!st)
		st = read_codes(c, err);
	if (st)
		return st;
	memcpy(s.order, b->bytes_used, sizeof(s.order));
	b->n = 0;
	st = read_symbols(c, &s, err);
	if (!st)
		st = link_bytes(c, &s, first, err);
	b->crc = UINT32_MAX;
	b->run = b->repeat = 0;
	return st;
}

/* ---- what comes out ---- */

static inline void put_byte(struct bunzip2 *b, uint8_t *at, uint8_t byte)
{
	*at = byte;
	b->crc = b->crc << 8 ^ b->crc_of[(b->crc >> 24 ^ byte) & 0xff];
}

static size_t put_bytes(struct bunzip2 *b, uint8_t *at, size_t room)
{
	size_t n = 0;

	while (n < room) {
		uint32_t next;
		uint8_t byte;

		if (b->repeat) {
			b->repeat--;
			put_byte(b, at + n++, b->last);
			continue;
		}
		if (!b->left)
			break;
		next = b->at[b->position];
		byte = next & 0xff;
		b->position = next >> 8;
		b->left--;
		if (b->run == RUN_LENGTH) {
			b->repeat = byte;
			b->run = 0;
			continue;
		}
		b->run = b->run && byte == b->last ? b->run + 1 : 1;
		b->last = byte;
		put_byte(b, at + n++, byte);
	}
	return n;
}

static enum plim_status end_block(struct codec *c, struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;

	b->n = 0;
	if (~b->crc != b->block_crc)
		return codec_damaged(c, err);
	b->stream_crc = (b->stream_crc << 1 | b->stream_crc >> 31) ^ b->block_crc;
	return PLIM_OK;
}

/* "BZh9"; behind a stream another one, zeros, or nothing. */
static enum plim_status begin_stream(struct codec *c, struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	uint8_t head[4] = { 0 };
	enum plim_status st = PLIM_OK;

	if (c->padding || (c->between && !c->in[c->in_pos])) {
		c->padding = true;
		while (c->in_pos < c->in_n && !c->in[c->in_pos])
			c->in_pos++;
		return c->in_pos < c->in_n ? codec_damaged(c, err) : PLIM_OK;
	}
	for (size_t i = 0; i < sizeof(head) && !st; i++)
		st = codec_byte(c, &head[i], err);
	if (!st && (memcmp(head, "BZh", 3) != 0 || head[3] < '1' || head[3] > '9'))
		st = codec_damaged(c, err);
	if (st)
		return st;
	mem_free(c->mem, b->at, (size_t)b->level * LEVEL_BYTES, sizeof(*b->at));
	b->level = (uint32_t)(head[3] - '0');
	b->at = mem_new(c->mem, (size_t)b->level * LEVEL_BYTES, sizeof(*b->at), err);
	if (!b->at) {
		b->level = 0;
		return codec_no_memory(c, err);
	}
	b->bits = b->bit_count = b->stream_crc = 0;
	c->between = false;
	return PLIM_OK;
}

static enum plim_status end_stream(struct codec *c, struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	uint32_t high, low = 0;
	enum plim_status st = get_bits(c, 16, &high, err);

	if (!st)
		st = get_bits(c, 16, &low, err);
	if (!st && (high << 16 | low) != b->stream_crc)
		st = codec_damaged(c, err);
	b->bit_count = 0; /* a stream ends with a whole byte */
	c->between = !st;
	return st;
}

enum plim_status bunzip2_start(struct codec *c, struct plim_err *err)
{
	struct bunzip2 *b = mem_new(c->mem, 1, sizeof(*b), err);

	c->u.bzip2 = b;
	if (!b)
		return codec_no_memory(c, err);
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t v = i << 24;

		for (int k = 0; k < 8; k++)
			v = v << 1 ^ (v & 0x80000000u ? 0x04c11db7u : 0);
		b->crc_of[i] = v;
	}
	return PLIM_OK;
}

enum plim_status bunzip2_step(struct codec *c, uint8_t *at, size_t room, size_t *made,
			      struct plim_err *err)
{
	struct bunzip2 *b = c->u.bzip2;
	uint64_t magic;
	enum plim_status st = PLIM_OK;

	if (!b->at || c->between)
		return begin_stream(c, err);
	if (!b->n) {
		st = get_48(c, &magic, err);
		if (st || magic == END_MAGIC)
			return st ? st : end_stream(c, err);
		st = magic == BLOCK_MAGIC ? read_block(c, err) : codec_damaged(c, err);
	}
	if (st)
		return st;
	*made = put_bytes(b, at, room);
	return b->left || b->repeat ? PLIM_OK : end_block(c, err);
}

void bunzip2_stop(struct codec *c)
{
	struct bunzip2 *b = c->u.bzip2;

	if (b)
		mem_free(c->mem, b->at, (size_t)b->level * LEVEL_BYTES, sizeof(*b->at));
	mem_free(c->mem, b, 1, sizeof(*b));
}
