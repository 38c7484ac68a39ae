/* CRC-32C: with the processor's instruction where it has one, else by a table of 8 x 256. */
#include "wire.h"

#include <pthread.h>

static uint32_t table[8][256];
static bool has_instruction;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
		table[0][i] = c;
	}
	for (int t = 1; t < 8; t++)
		for (uint32_t i = 0; i < 256; i++)
			table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
#if defined(__x86_64__)
	has_instruction = __builtin_cpu_supports("sse4.2");
#endif
}

#if defined(__x86_64__)
__attribute__((target("sse4.2,crc32"))) static uint32_t by_instruction(const uint8_t *p, size_t n)
{
	uint64_t crc = 0xffffffffu, word;
	uint32_t half;

	for (; n >= 8; p += 8, n -= 8) {
		memcpy(&word, p, 8);
		crc = __builtin_ia32_crc32di(crc, word);
	}
	if (n >= 4) {
		memcpy(&half, p, 4);
		crc = __builtin_ia32_crc32si((uint32_t)crc, half);
		p += 4;
		n -= 4;
	}
	for (; n; n--)
		crc = __builtin_ia32_crc32qi((uint32_t)crc, *p++);
	return ~(uint32_t)crc;
}
#else
static uint32_t by_instruction(const uint8_t *p, size_t n)
{
	(void)p;
	(void)n;
	return 0;
}
#endif

uint32_t wire_crc32c_by_table(const uint8_t *p, size_t n)
{
	uint32_t crc = 0xffffffffu;

	pthread_once(&once, prepare);
	for (; n >= 8; p += 8, n -= 8) {
		uint64_t word;

		memcpy(&word, p, 8);
		word ^= crc;
		crc = 0;
		for (int t = 0; t < 8; t++)
			crc ^= table[7 - t][word >> (8 * t) & 255];
	}
	for (; n; n--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 255];
	return ~crc;
}

uint32_t wire_crc32c(const uint8_t *p, size_t n)
{
	pthread_once(&once, prepare);
	return has_instruction ? by_instruction(p, n) : wire_crc32c_by_table(p, n);
}
