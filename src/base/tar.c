#include "tar.h"

#include <string.h>

/* Names and attributes are read as a whole; no one's are longer. */
#define EXTENSION_MAX ((uint64_t)64 << 10)

/* A header, POSIX.1-1988 (ustar) and GNU alike in these fields: offset and length. */
#define NAME_AT 0
#define NAME_N 100
#define SIZE_AT 124
#define SIZE_N 12
#define TYPE_AT 156
#define MAGIC_AT 257
#define PREFIX_AT 345
#define PREFIX_N 155

/* POSIX; GNU has two blanks here, and something else where the prefix would be. */
static const uint8_t posix_magic[6] = "ustar";

/* Octal digits between blanks and NULs.  False: something else. */
static bool octal(const uint8_t *field, size_t n, uint64_t *out)
{
	size_t i = 0, digits = 0;

	*out = 0;
	while (i < n && field[i] == ' ')
		i++;
	for (; i < n && field[i] >= '0' && field[i] <= '7'; i++, digits++)
		*out = *out << 3 | (uint64_t)(field[i] - '0');
	while (i < n && (field[i] == ' ' || !field[i]))
		i++;
	return digits && i == n;
}

/* The same, or (GNU, a first byte of 0x80) a big-endian number. */
static bool tar_number(const uint8_t *field, size_t n, uint64_t *out)
{
	if (field[0] != 0x80)
		return octal(field, n, out);
	*out = 0;
	for (size_t i = 1; i < n; i++) {
		if (*out >> 56)
			return false;
		*out = *out << 8 | field[i];
	}
	return true;
}

bool tar_sum_is(const uint8_t *header, uint64_t sum)
{
	uint64_t plain = 0;
	int64_t with_sign = 0;

	for (size_t i = 0; i < TAR_BLOCK_BYTES; i++) {
		uint8_t b = i >= TAR_SUM_AT && i < TAR_SUM_AT + TAR_SUM_BYTES ? ' ' : header[i];

		plain += b;
		with_sign += (int8_t)b;
	}
	return sum == plain || (int64_t)sum == with_sign;
}

static bool sum_is_right(const uint8_t *header)
{
	uint64_t sum;

	return octal(header + TAR_SUM_AT, TAR_SUM_BYTES, &sum) && tar_sum_is(header, sum);
}

bool tar_is(const uint8_t *bytes, size_t n)
{
	return n >= TAR_BLOCK_BYTES && bytes[0] && sum_is_right(bytes);
}

void tar_init(struct tar *t, struct source *source)
{
	*t = (struct tar){ .source = source, .next = source_offset(source, source->p) };
}

/* ---- names ---- */

/* Text up to a NUL; of what is too long the end, where names differ. */
static void keep_name(struct tar *t, const uint8_t *text, size_t n)
{
	const uint8_t *nul = n ? memchr(text, 0, n) : NULL;

	n = nul ? (size_t)(nul - text) : n;
	if (n > TAR_NAME_MAX) {
		text += n - TAR_NAME_MAX;
		n = TAR_NAME_MAX;
	}
	if (n)
		memcpy(t->name, text, n);
	t->name[n] = 0;
}

static void header_name(struct tar *t, const uint8_t *header)
{
	uint8_t whole[PREFIX_N + 1 + NAME_N];
	size_t prefix = 0, name = strnlen((const char *)header + NAME_AT, NAME_N);

	if (!memcmp(header + MAGIC_AT, posix_magic, sizeof(posix_magic)))
		prefix = strnlen((const char *)header + PREFIX_AT, PREFIX_N);
	memcpy(whole, header + PREFIX_AT, prefix);
	if (prefix)
		whole[prefix++] = '/';
	memcpy(whole + prefix, header + NAME_AT, name);
	keep_name(t, whole, prefix + name);
}

/* ---- headers in front of a member ---- */

/* The records "LENGTH KEY=VALUE\n" of a pax header.  False: they are damaged. */
static bool read_pax(struct tar *t, const uint8_t *at, size_t n)
{
	while (n) {
		const uint8_t *key = memchr(at, ' ', n), *value;
		size_t length = 0;

		for (const uint8_t *d = at; key && d < key; d++) {
			if (*d < '0' || *d > '9' || length > n)
				return false;
			length = length * 10 + (size_t)(*d - '0');
		}
		if (!key || length > n || length < (size_t)(key - at) + 4 || at[length - 1] != '\n')
			return false;
		key++;
		value = memchr(key, '=', length - 1 - (size_t)(key - at));
		if (!value)
			return false;
		value++;
		if (value - key == 5 && !memcmp(key, "path=", 5)) {
			keep_name(t, value, (size_t)(at + length - 1 - value));
			t->has_name = true;
		} else if (value - key == 5 && !memcmp(key, "size=", 5)) {
			t->bytes = 0;
			for (const uint8_t *d = value; d < at + length - 1; d++) {
				if (*d < '0' || *d > '9' || t->bytes >> 58)
					return false;
				t->bytes = t->bytes * 10 + (uint64_t)(*d - '0');
			}
			t->has_size = true;
		} else if (value - key > 11 && !memcmp(key, "GNU.sparse.", 11)) {
			t->sparse = true;
		}
		at += length;
		n -= length;
	}
	return true;
}

/* What a member's content says of the member behind it. */
static enum plim_status read_extension(struct tar *t, uint8_t type, uint64_t n,
				       struct plim_err *err)
{
	struct source *s = t->source;
	uint64_t at = source_offset(s, s->p);
	enum plim_status st;

	if (n > EXTENSION_MAX)
		return err_at(err, at, "a tar header's extension of %llu bytes",
			      (unsigned long long)n);
	st = source_need(s, s->p, (size_t)n, err);
	if (st)
		return st;
	if ((uint64_t)(s->end - s->p) < n)
		return err_at(err, source_offset(s, s->end), "the archive ends early");
	if (type == 'L') {
		keep_name(t, s->p, (size_t)n);
		t->has_name = true;
	} else if (type == 'x' && !read_pax(t, s->p, (size_t)n)) {
		return err_at(err, at, "a damaged pax header");
	}
	return PLIM_OK;
}

/* ---- members ---- */

static enum tar_type type_of(const struct tar *t, uint8_t letter)
{
	if (t->sparse)
		return TAR_OTHER;
	switch (letter) {
	case 0:
	case '0':
	case '7': return t->name[0] && t->name[strlen(t->name) - 1] == '/' ? TAR_FOLDER : TAR_FILE;
	case '1':
	case '2': return TAR_LINK;
	case '5': return TAR_FOLDER;
	default: return TAR_OTHER;
	}
}

static bool is_zero(const uint8_t *block)
{
	return !block[0] && !memcmp(block, block + 1, TAR_BLOCK_BYTES - 1);
}

/* The next header at source->p; *end: there is none. */
static enum plim_status next_header(struct tar *t, bool *end, struct plim_err *err)
{
	struct source *s = t->source;
	enum plim_status st = source_skip_to(s, t->next, err);
	size_t n;

	if (!st)
		st = source_need(s, s->p, TAR_BLOCK_BYTES, err);
	if (st)
		return st;
	n = (size_t)(s->end - s->p);
	*end = !n || (n >= TAR_BLOCK_BYTES && is_zero(s->p));
	if (*end)
		return PLIM_OK;
	if (n < TAR_BLOCK_BYTES)
		return err_at(err, source_offset(s, s->end), "the archive ends early");
	return sum_is_right(s->p) ? PLIM_OK : err_at(err, t->next, "a damaged tar header");
}

/* A header is about the member behind it, not a member. */
static bool is_extension(uint8_t type)
{
	return type == 'L' || type == 'K' || type == 'x' || type == 'g';
}

enum plim_status tar_next(struct tar *t, struct tar_member *out, struct plim_err *err)
{
	struct source *s = t->source;
	enum plim_status st;
	uint64_t n, end;
	bool ended;
	uint8_t type;

	*out = (struct tar_member){ .name = NULL };
	t->has_name = t->has_size = t->sparse = false;
	do {
		st = next_header(t, &ended, err);
		if (!st && ended && out->offset) /* behind a header that was about it */
			st = err_at(err, t->next, "the archive ends early");
		if (st || ended)
			return st;
		type = s->p[TYPE_AT];
		if (!tar_number(s->p + SIZE_AT, SIZE_N, &n))
			return err_at(err, t->next, "a tar header without a size");
		if (!is_extension(type) && t->has_size)
			n = t->bytes;
		if (type >= '2' && type <= '6')
			n = 0; /* links, folders, devices: whatever the field says, nothing follows */
		if (!is_extension(type) && !t->has_name)
			header_name(t, s->p);
		s->p += TAR_BLOCK_BYTES;
		out->offset = t->next + TAR_BLOCK_BYTES;
		if (__builtin_add_overflow(out->offset, n, &end) ||
		    __builtin_add_overflow(end, (uint64_t)TAR_BLOCK_BYTES - 1, &end))
			return err_at(err, t->next, "a tar member of %llu bytes",
				      (unsigned long long)n);
		t->next = end / TAR_BLOCK_BYTES * TAR_BLOCK_BYTES;
		if (is_extension(type))
			st = read_extension(t, type, n, err);
	} while (!st && is_extension(type));
	if (st)
		return st;
	out->name = t->name;
	out->bytes = n;
	out->type = type_of(t, type);
	return PLIM_OK;
}
