/* Decimal numbers, as text, without strtod where that is exact. */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * [+-]digits[.digits][e[+-]digits] at the beginning of a text of n bytes; the digits may also stand behind the point only.
 * *took is its length, 0: none stands here.  False: *out is not set, as the number has more than 15 digits or a power of
 * ten over 22, or is none.  Up to these all parts are exact in a double, so that its one rounding is the right one.
 */
bool decimal_read(const char *at, size_t n, size_t *took, double *out);

#endif
