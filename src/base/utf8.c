/* Characters of UTF-8, and what they do to a terminal. */
#include "utf8.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

struct range {
	uint32_t first, last;
};

/* Take no column: combining marks (Unicode 15, general categories Mn and Me, main blocks). */
static const struct range zero_width[] = {
	{ 0x0300, 0x036f }, { 0x0483, 0x0489 },   { 0x0591, 0x05bd }, { 0x05bf, 0x05bf },
	{ 0x05c1, 0x05c2 }, { 0x05c4, 0x05c5 },   { 0x0610, 0x061a }, { 0x064b, 0x065f },
	{ 0x0670, 0x0670 }, { 0x06d6, 0x06dc },   { 0x06df, 0x06e4 }, { 0x0900, 0x0902 },
	{ 0x093c, 0x093c }, { 0x0941, 0x0948 },   { 0x094d, 0x094d }, { 0x0e31, 0x0e31 },
	{ 0x0e34, 0x0e3a }, { 0x0e47, 0x0e4e },   { 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff },
	{ 0x20d0, 0x20f0 }, { 0x302a, 0x302d },   { 0x3099, 0x309a }, { 0xfe00, 0xfe0f },
	{ 0xfe20, 0xfe2f }, { 0xe0100, 0xe01ef },
};

/* Take two columns: East Asian Wide and Fullwidth (Unicode 15, UAX 11, merged blocks). */
static const struct range double_width[] = {
	{ 0x1100, 0x115f },   { 0x231a, 0x231b },   { 0x2329, 0x232a },   { 0x23e9, 0x23ec },
	{ 0x25fd, 0x25fe },   { 0x2614, 0x2615 },   { 0x2648, 0x2653 },   { 0x26a1, 0x26a1 },
	{ 0x2705, 0x2705 },   { 0x2728, 0x2728 },   { 0x274c, 0x274c },   { 0x2753, 0x2755 },
	{ 0x2795, 0x2797 },   { 0x2b1b, 0x2b1c },   { 0x2b50, 0x2b50 },   { 0x2e80, 0x303e },
	{ 0x3041, 0x33ff },   { 0x3400, 0x4dbf },   { 0x4e00, 0x9fff },   { 0xa000, 0xa4cf },
	{ 0xa960, 0xa97f },   { 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },   { 0xfe30, 0xfe6f },
	{ 0xff00, 0xff60 },   { 0xffe0, 0xffe6 },   { 0x16fe0, 0x18aff }, { 0x1b000, 0x1b2ff },
	{ 0x1f300, 0x1f64f }, { 0x1f680, 0x1f6ff }, { 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd },
};

/* Would move the cursor, reorder what is shown, or hide: never sent to a terminal. */
static const struct range unsafe[] = {
	{ 0x0000, 0x001f }, { 0x007f, 0x009f }, { 0x00ad, 0x00ad },   { 0x061c, 0x061c },
	{ 0x115f, 0x1160 }, { 0x180e, 0x180e }, { 0x200b, 0x200f },   { 0x2028, 0x202e },
	{ 0x2060, 0x206f }, { 0x3164, 0x3164 }, { 0xe000, 0xf8ff },   { 0xfdd0, 0xfdef },
	{ 0xfeff, 0xfeff }, { 0xfff0, 0xfffb }, { 0xe0000, 0xe007f }, { 0xf0000, 0x10ffff },
};

static bool in_ranges(const struct range *r, size_t n, uint32_t c)
{
	while (n && c > r->last) {
		r++;
		n--;
	}
	return n && c >= r->first;
}

bool utf8_is_safe(uint32_t c)
{
	return !in_ranges(unsafe, LENGTH(unsafe), c);
}

size_t utf8_decode(const char *s, size_t n, uint32_t *c)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const uint8_t *b = (const uint8_t *)s;
	size_t len = b[0] < 0x80 ? 1 : b[0] < 0xc0 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
	uint32_t v;

	*c = b[0];
	if (len == 1)
		return 1;
	if (!len || len > n || b[0] > 0xf4)
		return 0;
	v = b[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((b[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (b[i] & 0x3f);
	}
	if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
		return 0;
	*c = v;
	return len;
}

size_t utf8_encode(uint32_t c, char *out)
{
	size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = len; i-- > 1; c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(lead[len] | c);
	return len;
}

unsigned utf8_columns(uint32_t c)
{
	if (c < 0x300)
		return 1;
	if (in_ranges(zero_width, LENGTH(zero_width), c))
		return 0;
	return in_ranges(double_width, LENGTH(double_width), c) ? 2 : 1;
}
