/* Characters of UTF-8: reading, writing, and what they do to a terminal.  Needs no memory, so error text may use it. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The next character of `n` > 0 bytes: its length, and its code point in *c.  0: the first byte
 * is not UTF-8 (overlong forms, surrogates and values beyond U+10FFFF are not).
 */
size_t utf8_decode(const char *s, size_t n, uint32_t *c);

/* No control, bidi or other invisible character. */
bool utf8_is_safe(uint32_t c);

/* Write one character as UTF-8 into room for 4; its length. */
size_t utf8_encode(uint32_t c, char *out);

/* Columns that a character takes in a terminal: 0, 1 or 2. */
unsigned utf8_columns(uint32_t c);

#endif
