/*
 * What numbers hold, in one pass: non-finite ones, zeros, the range of the rest.  Floats are compared
 * as integers that sort as they do, which compilers turn into vector instructions; each kernel exists
 * for AVX2 too and is chosen once.
 */
#include "parts.h"

#include <math.h>
#include <string.h>

#define BLOCK 4096 /* numbers that 16-bit counters can hold without a carry, and then some room */

struct tally {
	uint64_t nan, infinite, zero;
	int64_t low, high; /* sort keys */
	bool some;         /* low and high are set */
};

static inline void widen(struct tally *t, int64_t low, int64_t high)
{
	t->low = !t->some || low < t->low ? low : t->low;
	t->high = !t->some || high > t->high ? high : t->high;
	t->some = true;
}

/*
 * The key of a float's bits sorts like the float: negative ones are turned around.  A block whose lowest and
 * highest key are finite holds nothing else; only the others are looked at number by number, where those whose
 * exponent is all ones leave low and high alone.
 */
#define FLOAT_KEY(I, U, s) ((I)((s) ^ (I)((U)((s) >> (sizeof(U) * 8 - 1)) >> 1)))
#define FLOAT_KERNEL(name, U, I, EXPONENT, MANTISSA)                                       \
	static void name##_odd(const uint8_t *p, size_t n, struct tally *t)                \
	{                                                                                  \
		for (size_t i = 0; i < n; i++) {                                           \
			U b;                                                               \
			memcpy(&b, p + i * sizeof(b), sizeof(b));                          \
			U a = b & (U)((EXPONENT) | (MANTISSA));                            \
			I k = FLOAT_KEY(I, U, (I)b);                                       \
			t->nan += a > (EXPONENT);                                          \
			t->infinite += a == (EXPONENT);                                    \
			t->zero += a == 0;                                                 \
			if (a < (EXPONENT))                                                \
				widen(t, k, k);                                            \
		}                                                                          \
	}                                                                                  \
	static inline __attribute__((always_inline)) void name(const uint8_t *p, size_t n, \
							       struct tally *t)            \
	{                                                                                  \
		I low = (I)(EXPONENT), high = (I) ~(U)(EXPONENT);                          \
		U zero = 0;                                                                \
		for (size_t i = 0; i < n; i++) {                                           \
			U b;                                                               \
			memcpy(&b, p + i * sizeof(b), sizeof(b));                          \
			I k = FLOAT_KEY(I, U, (I)b);                                       \
			zero = (U)(zero + ((b & (U)((EXPONENT) | (MANTISSA))) == 0));      \
			low = k < low ? k : low;                                           \
			high = k > high ? k : high;                                        \
		}                                                                          \
		if (low <= (I) ~(U)(EXPONENT) || high >= (I)(EXPONENT)) {                  \
			name##_odd(p, n, t);                                               \
		} else if (n) {                                                            \
			t->zero += zero;                                                   \
			widen(t, low, high);                                               \
		}                                                                          \
	}

#define INTEGER_KERNEL(name, I)                                                            \
	static inline __attribute__((always_inline)) void name(const uint8_t *p, size_t n, \
							       struct tally *t)            \
	{                                                                                  \
		I low = 0, high = 0;                                                       \
		uint32_t zero = 0;                                                         \
		if (n)                                                                     \
			memcpy(&low, p, sizeof(low));                                      \
		high = low;                                                                \
		for (size_t i = 0; i < n; i++) {                                           \
			I b;                                                               \
			memcpy(&b, p + i * sizeof(b), sizeof(b));                          \
			zero += !b;                                                        \
			low = b < low ? b : low;                                           \
			high = b > high ? b : high;                                        \
		}                                                                          \
		t->zero += zero;                                                           \
		widen(t, low, high);                                                       \
	}

FLOAT_KERNEL(f32, uint32_t, int32_t, 0x7f800000u, 0x7fffffu)
FLOAT_KERNEL(f64, uint64_t, int64_t, 0x7ff0000000000000u, 0xfffffffffffffu)
FLOAT_KERNEL(bf16, uint16_t, int16_t, 0x7f80u, 0x7fu)
FLOAT_KERNEL(f16, uint16_t, int16_t, 0x7c00u, 0x3ffu)
INTEGER_KERNEL(i8, int8_t)
INTEGER_KERNEL(i16, int16_t)
INTEGER_KERNEL(i32, int32_t)
INTEGER_KERNEL(i64, int64_t)
INTEGER_KERNEL(u8, uint8_t)
INTEGER_KERNEL(u16, uint16_t)
INTEGER_KERNEL(u32, uint32_t)

/* The top bit turned around makes signed keys of unsigned numbers. */
static inline __attribute__((always_inline)) void u64(const uint8_t *p, size_t n, struct tally *t)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t b;

		memcpy(&b, p + i * sizeof(b), sizeof(b));
		t->zero += !b;
		widen(t, (int64_t)(b ^ (uint64_t)INT64_MIN), (int64_t)(b ^ (uint64_t)INT64_MIN));
	}
}

enum kernel { F32, F64, BF16, F16, I8, I16, I32, I64, U8, U16, U32, U64, KERNELS };

typedef void tally_fn(const uint8_t *p, size_t n, struct tally *t);

#define PLAIN(name)                                                           \
	static void name##_plain(const uint8_t *p, size_t n, struct tally *t) \
	{                                                                     \
		name(p, n, t);                                                \
	}
#define EACH(X) X(f32) X(f64) X(bf16) X(f16) X(i8) X(i16) X(i32) X(i64) X(u8) X(u16) X(u32) X(u64)
EACH(PLAIN)
#define ROW_PLAIN(name) name##_plain,
static tally_fn *const plain_kernels[KERNELS] = { EACH(ROW_PLAIN) };

#if defined(__x86_64__)
#define WIDE(name)                                                                          \
	__attribute__((target("avx2"))) static void name##_avx2(const uint8_t *p, size_t n, \
								struct tally *t)            \
	{                                                                                   \
		name(p, n, t);                                                              \
	}
EACH(WIDE)
#define ROW_WIDE(name) name##_avx2,
static tally_fn *const wide_kernels[KERNELS] = { EACH(ROW_WIDE) };
#endif

static tally_fn *const *kernels(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		return wide_kernels;
#endif
	return plain_kernels;
}

/* ---- numbers of eight bits ---- */

/* sign, `mantissa` bits of fraction, the rest exponent. */
static double small_float(unsigned b, unsigned mantissa, int bias)
{
	unsigned e = (b & 0x7f) >> mantissa, f = b & ((1u << mantissa) - 1);
	double v = e ? ldexp(1 + ldexp(f, -(int)mantissa), (int)e - bias)
		     : ldexp(f, 1 - bias - (int)mantissa);

	return b & 0x80 ? -v : v;
}

/* The value of a byte; NaN and infinities as such. */
static double byte_value(enum ckpt_number number, unsigned b)
{
	switch (number) {
	case CKPT_E5M2:
		if ((b & 0x7c) == 0x7c)
			return b & 3 ? NAN : b & 0x80 ? -INFINITY : INFINITY;
		return small_float(b, 2, 15);
	case CKPT_E4M3: return (b & 0x7f) == 0x7f ? NAN : small_float(b, 3, 7);
	case CKPT_E4M3FNUZ: return b == 0x80 ? NAN : small_float(b, 3, 8);
	case CKPT_E5M2FNUZ: return b == 0x80 ? NAN : small_float(b, 2, 16);
	case CKPT_EXPONENT: return b == 0xff ? NAN : ldexp(1, (int)b - 127);
	default: return b;
	}
}

static void one_value(struct ckpt_values *v, double x, uint64_t times)
{
	v->numbers += times;
	if (isnan(x)) {
		v->nan += times;
		return;
	}
	if (isinf(x)) {
		v->infinite += times;
		return;
	}
	v->zero += x == 0 ? times : 0;
	v->min = isnan(v->min) || x < v->min ? x : v->min;
	v->max = isnan(v->max) || x > v->max ? x : v->max;
}

static void bytes_add(struct ckpt_values *v, enum ckpt_number number, const uint8_t *p, size_t n)
{
	uint64_t times[256] = { 0 };

	for (size_t i = 0; i < n; i++)
		times[p[i]]++;
	for (unsigned b = 0; b < 256; b++)
		if (times[b])
			one_value(v, byte_value(number, b), times[b]);
}

/* ---- all ---- */

static double half(uint16_t b)
{
	unsigned e = b >> 10 & 31, f = b & 1023;
	double v = e ? ldexp(1024 + f, (int)e - 25) : ldexp(f, -24);

	return b & 0x8000 ? -v : v;
}

/* The number that a sort key stands for. */
static double key_value(enum kernel k, int64_t key)
{
	uint64_t b64;
	uint32_t b32;
	double d;
	float f;

	switch (k) {
	case F64:
		b64 = (uint64_t)(key ^ (key >> 63 & INT64_MAX));
		memcpy(&d, &b64, sizeof(d));
		return d;
	case F32:
		b32 = (uint32_t)((int32_t)key ^ ((int32_t)key >> 31 & INT32_MAX));
		memcpy(&f, &b32, sizeof(f));
		return (double)f;
	case BF16:
		b32 = (uint32_t)(uint16_t)((int16_t)key ^ ((int16_t)key >> 15 & INT16_MAX)) << 16;
		memcpy(&f, &b32, sizeof(f));
		return (double)f;
	case F16: return half((uint16_t)((int16_t)key ^ ((int16_t)key >> 15 & INT16_MAX)));
	case U64: return (double)((uint64_t)key ^ (uint64_t)INT64_MIN);
	default: return (double)key;
	}
}

static bool kernel_of(enum ckpt_number number, unsigned bits, enum kernel *k)
{
	static const struct {
		enum ckpt_number number;
		unsigned bits;
		enum kernel kernel;
	} rows[] = {
		{ CKPT_F32, 32, F32 },      { CKPT_F64, 64, F64 },      { CKPT_BF16, 16, BF16 },
		{ CKPT_F16, 16, F16 },      { CKPT_SIGNED, 8, I8 },     { CKPT_SIGNED, 16, I16 },
		{ CKPT_SIGNED, 32, I32 },   { CKPT_SIGNED, 64, I64 },   { CKPT_UNSIGNED, 8, U8 },
		{ CKPT_UNSIGNED, 16, U16 }, { CKPT_UNSIGNED, 32, U32 }, { CKPT_UNSIGNED, 64, U64 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		*k = rows[i].kernel;
		if (rows[i].number == number && rows[i].bits == bits)
			return true;
	}
	return false;
}

void values_merge(struct ckpt_values *v, const struct ckpt_values *part)
{
	if (!v->numbers)
		v->min = v->max = NAN;
	v->numbers += part->numbers;
	v->nan += part->nan;
	v->infinite += part->infinite;
	v->zero += part->zero;
	if (!isnan(part->min) && (isnan(v->min) || part->min < v->min))
		v->min = part->min;
	if (!isnan(part->max) && (isnan(v->max) || part->max > v->max))
		v->max = part->max;
	v->constant = v->min == v->max && !v->nan && !v->infinite;
}

void values_add(struct ckpt_values *v, enum ckpt_number number, unsigned bits, const uint8_t *p,
		size_t n)
{
	struct ckpt_values part = { .min = NAN, .max = NAN };
	struct tally t = { 0 };
	enum kernel k;

	if (!kernel_of(number, bits, &k)) {
		if (bits == 8)
			bytes_add(&part, number, p, n);
		values_merge(v, &part);
		return;
	}
	for (size_t i = 0; i < n; i += BLOCK)
		kernels()[k](p + i * bits / 8, n - i < BLOCK ? n - i : BLOCK, &t);
	part.numbers = n;
	part.nan = t.nan;
	part.infinite = t.infinite;
	part.zero = t.zero;
	if (t.some) {
		part.min = key_value(k, t.low);
		part.max = key_value(k, t.high);
	}
	values_merge(v, &part);
}
