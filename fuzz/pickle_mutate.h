/*
 * Mutations that know pickle opcodes: plain byte changes rarely leave a pickle that reaches the rows
 * of a snapshot.  Whole spans of opcodes are copied, dropped and moved, and arguments get values at
 * the edges.  Included by the targets that read pickles.
 */
#ifndef FUZZ_PICKLE_MUTATE_H
#define FUZZ_PICKLE_MUTATE_H

#include "must.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Absent in the replay driver, which never mutates. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n, size_t max);

#define MUTATE_OPS 65536

/* Length of the opcode at p, its argument included; 1 for what is unknown. */
static size_t mutate_length(const uint8_t *p, size_t n)
{
	size_t len = 1;
	uint64_t count = 0;
	const uint8_t *nl;

	switch (*p) {
	case 'K':
	case 'h':
	case 'q':
	case 0x80:
	case 0x82: len = 2; break;
	case 'M':
	case 0x83: len = 3; break;
	case 'J':
	case 'j':
	case 'r':
	case 0x84: len = 5; break;
	case 'G':
	case 0x95: len = 9; break;
	case 'U':
	case 'C':
	case 0x8a:
	case 0x8c: len = n > 1 ? 2u + p[1] : n; break;
	case 'X':
	case 'B':
	case 'T':
	case 0x8b:
		if (n > 4)
			memcpy(&count, p + 1, 4);
		len = 5 + (size_t)count;
		break;
	case 0x8d:
	case 0x8e:
	case 0x96:
		if (n > 8)
			memcpy(&count, p + 1, 8);
		len = count < n ? 9 + (size_t)count : n;
		break;
	case 'I':
	case 'L':
	case 'F':
	case 'S':
	case 'V':
	case 'P':
	case 'g':
	case 'p':
		nl = memchr(p, '\n', n);
		len = nl ? (size_t)(nl - p) + 1 : n;
		break;
	default: break;
	}
	return len < n ? len : n;
}

static uint32_t mutate_next(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

static size_t mutate_list(const uint8_t *p, size_t n, uint32_t *starts)
{
	size_t ops = 0;

	for (size_t at = 0; at < n && ops < MUTATE_OPS; at += mutate_length(p + at, n - at))
		starts[ops++] = (uint32_t)at;
	return ops;
}

/* The bytes [from, to) become those of `with`; the new length, or n where there is no room. */
static size_t mutate_replace(uint8_t *p, size_t n, size_t max, size_t from, size_t to,
			     const uint8_t *with, size_t len)
{
	if (n - (to - from) + len > max)
		return n;
	memmove(p + from + len, p + to, n - to);
	memcpy(p + from, with, len);
	return n - (to - from) + len;
}

/* Another argument, of the same opcode or of one of its kin. */
static size_t mutate_argument(uint8_t *p, size_t n, size_t max, size_t from, size_t to,
			      uint32_t *seed)
{
	static const uint64_t edges[] = {
		0,         1,          2,          255,       256,
		512,       65535,      1u << 20,   2u << 20,  20u << 20,
		INT32_MAX, UINT32_MAX, 1ull << 53, INT64_MAX, UINT64_MAX
	};
	uint8_t with[16];
	uint64_t v = edges[mutate_next(seed) % (sizeof(edges) / sizeof(edges[0]))];

	if (mutate_next(seed) % 4 == 0)
		v = mutate_next(seed);
	memcpy(with + 2, &v, 8);
	switch (p[from]) {
	case 'h':
	case 'j':
	case 'q':
	case 'r': /* another memo entry */
		if (mutate_next(seed) % 3 == 0) {
			with[0] = p[from] == 'h' || p[from] == 'j' ? 'j' : 'r';
			v = mutate_next(seed) % (mutate_next(seed) % 8 ? 300 : 100000);
			memcpy(with + 1, &v, 4);
			return mutate_replace(p, n, max, from, to, with, 5);
		}
		p[from + 1] = (uint8_t)mutate_next(seed);
		return n;
	case 'K':
	case 'M':
	case 'J':
	case 0x8a:
		with[0] = 0x8a;
		with[1] = (uint8_t)(1 + mutate_next(seed) % 9);
		with[10] = 0;
		return mutate_replace(p, n, max, from, to, with, 2u + with[1]);
	default:
		if (to - from > 1)
			p[from + 1 + mutate_next(seed) % (to - from - 1)] =
				(uint8_t)mutate_next(seed);
		return n;
	}
}

static size_t mutate_pickle(uint8_t *p, size_t n, size_t max, unsigned seed_in)
{
	static uint32_t starts[MUTATE_OPS + 1];
	static uint8_t span[4096];
	static const uint8_t ops[] =
		"().012FINRSTUVXabcdeghijlmnopqrstuBGJKLMPQ]}\x80\x85\x86\x87\x88\x89\x8c"
		"\x8f\x90\x91\x93\x94\x95";
	uint32_t seed = seed_in * 2654435761u + 1;
	size_t count, a, b, len, rounds = 1 + mutate_next(&seed) % 4;

	if (!LLVMFuzzerMutate || n < 2 || mutate_next(&seed) % 4 == 0)
		return LLVMFuzzerMutate ? LLVMFuzzerMutate(p, n, max) : n;
	while (rounds--) {
		count = mutate_list(p, n, starts);
		if (count < 2)
			break;
		starts[count] = (uint32_t)n;
		a = mutate_next(&seed) % count;
		b = a + 1 + mutate_next(&seed) % (mutate_next(&seed) % 4 ? 4 : 64);
		b = b > count ? count : b;
		len = starts[b] - starts[a];
		switch (mutate_next(&seed) % 6) {
		case 0: /* drop */
			n = mutate_replace(p, n, max, starts[a], starts[b], span, 0);
			break;
		case 1: /* copy elsewhere */
		case 2: /* the same over something else */
			if (len > sizeof(span))
				break;
			memcpy(span, p + starts[a], len);
			a = mutate_next(&seed) % count;
			n = mutate_replace(p, n, max, starts[a],
					   starts[a + (mutate_next(&seed) & 1)], span, len);
			break;
		case 3: p[starts[a]] = ops[mutate_next(&seed) % (sizeof(ops) - 1)]; break;
		default: n = mutate_argument(p, n, max, starts[a], starts[a + 1], &seed); break;
		}
	}
	return n;
}

#ifndef MUTATE_NO_ENTRY
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max, unsigned seed);

/* JSON dumps are changed as any text is. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max, unsigned seed)
{
	return n && (bytes[0] == '{' || bytes[0] == '[') && LLVMFuzzerMutate
		       ? LLVMFuzzerMutate(bytes, n, max)
		       : mutate_pickle(bytes, n, max, seed);
}

#endif

#endif
