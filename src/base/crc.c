/*
 * libdeflate sums with vectors of 128 bits, which takes twice as long as the kernel's copy of a file that lies in
 * memory.  Processors that multiply without carries in vectors of 512 bits fold four times as many bytes at once here;
 * libdeflate sums what is left.
 */
#include "crc.h"

#include <libdeflate.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define BLOCK 256 /* bytes, in four vectors */

/* x^(2048 + 32) and x^(2048 - 32) modulo the polynomial, bits reflected: they move 128 bits on by one block. */
#define FOLD_HIGH 0x1322d1430
#define FOLD_LOW 0x11542778a

__attribute__((target("avx512f,vpclmulqdq"))) static uint32_t crc_fold(uint32_t crc,
								       const uint8_t *p, size_t n)
{
	const __m512i by = _mm512_set_epi64(FOLD_HIGH, FOLD_LOW, FOLD_HIGH, FOLD_LOW, FOLD_HIGH,
					    FOLD_LOW, FOLD_HIGH, FOLD_LOW);
	uint8_t rest[BLOCK];
	__m512i x[4];

	for (int i = 0; i < 4; i++)
		x[i] = _mm512_loadu_si512(p + 64 * i);
	x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
	for (size_t at = BLOCK; at < n; at += BLOCK)
		for (int i = 0; i < 4; i++)
			x[i] = _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x[i], by, 0x00),
							 _mm512_clmulepi64_epi128(x[i], by, 0x11),
							 _mm512_loadu_si512(p + at + 64 * i), 0x96);
	for (int i = 0; i < 4; i++)
		_mm512_storeu_si512(rest + 64 * i, x[i]);
	/* The vectors hold what `crc` began with: a register of zeros takes them. */
	return libdeflate_crc32(UINT32_MAX, rest, BLOCK);
}

static size_t crc_blocks(size_t n)
{
	return n >= BLOCK && __builtin_cpu_supports("avx512f") &&
			       __builtin_cpu_supports("vpclmulqdq")
		       ? n - n % BLOCK
		       : 0;
}
#else
static size_t crc_blocks(size_t n)
{
	(void)n;
	return 0;
}

static uint32_t crc_fold(uint32_t crc, const uint8_t *p, size_t n)
{
	return libdeflate_crc32(crc, p, n);
}
#endif

uint32_t crc_add(uint32_t crc, const void *at, size_t n)
{
	size_t blocks = crc_blocks(n);

	if (blocks)
		crc = crc_fold(crc, at, blocks);
	return libdeflate_crc32(crc, (const uint8_t *)at + blocks, n - blocks);
}
