/* How numbers are written, by whoever writes pickles here. */
#ifndef PICKLE_ENCODE_H
#define PICKLE_ENCODE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PICKLE_INT_BYTES 10 /* of an integer at most: its opcode, a length, eight bytes */

/* An integer in its shortest form, as CPython chooses it: the opcode and its argument.  Returns the length. */
static inline size_t pickle_put_int(uint8_t *to, int64_t value)
{
	uint8_t sign = value < 0 ? 0xff : 0;
	size_t n = 8;

	if (value >= INT32_MIN && value <= INT32_MAX) {
		n = value < 0 || value > 0xffff ? 4 : value > 0xff ? 2 : 1;
		*to = n == 1 ? 'K' : n == 2 ? 'M' : 'J';
		memcpy(to + 1, &value, n); /* little-endian */
		return 1 + n;
	}
	*to = 0x8a; /* LONG1: two's complement in as few bytes as hold it */
	memcpy(to + 2, &value, sizeof(value));
	while (n > 1 && to[1 + n] == sign && !((to[n] ^ sign) & 0x80))
		n--;
	to[1] = (uint8_t)n;
	return 2 + n;
}

#endif
