#include "decimal.h"

#include <stdint.h>

#define DIGITS_MOST 15
#define POWER_MOST 22

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The power of ten behind 'e', at most 1000; *i is moved behind it if there is one. */
static int exponent(const char *at, size_t n, size_t *i)
{
	size_t e = *i + 1;
	bool minus = e < n && at[e] == '-';
	int power = 0;

	e += e < n && (at[e] == '-' || at[e] == '+');
	if (*i >= n || (at[*i] | 0x20) != 'e' || e >= n || !is_digit(at[e]))
		return 0;
	for (; e < n && is_digit(at[e]); e++)
		power = power < 100 ? 10 * power + (at[e] - '0') : 1000;
	*i = e;
	return minus ? -power : power;
}

bool decimal_read(const char *at, size_t n, size_t *took, double *out)
{
	static const double tens[POWER_MOST + 1] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
						     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
						     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
	bool minus = n && at[0] == '-';
	size_t i = n && (at[0] == '-' || at[0] == '+'), from = i, point = 0, digits, fraction;
	uint64_t whole = 0; /* of too many digits it is not used */
	double value;
	int power;

	for (; i < n && is_digit(at[i]); i++)
		whole = whole * 10 + (uint64_t)(at[i] - '0');
	if (i < n && at[i] == '.')
		for (point = ++i; i < n && is_digit(at[i]); i++)
			whole = whole * 10 + (uint64_t)(at[i] - '0');
	*took = 0;
	if (i - from == (point > 0))
		return false;
	digits = i - from - (point > 0);
	fraction = point ? i - point : 0;
	power = exponent(at, n, &i) - (int)(fraction < 1000 ? fraction : 1000);
	*took = i;
	if (digits > DIGITS_MOST || power < -POWER_MOST || power > POWER_MOST)
		return false;
	value = power < 0 ? (double)whole / tens[-power] : (double)whole * tens[power];
	*out = minus ? -value : value;
	return true;
}
