/* The CRC-32 of zip and gzip, as fast as the processor can. */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Of what `crc` is the sum of, followed by these bytes; 0 is the sum of nothing. */
uint32_t crc_add(uint32_t crc, const void *at, size_t n);

#endif
