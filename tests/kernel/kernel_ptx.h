/* What the C that ptx_to_c.py makes of PTX calls: see run.c. */
#ifndef TESTS_KERNEL_PTX_H
#define TESTS_KERNEL_PTX_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COPY(to, from) memcpy(&(to), &(from), sizeof(to) < sizeof(from) ? sizeof(to) : sizeof(from))
#define LOAD(type, to, at)                     \
	{                                      \
		type t_;                       \
		memcpy(&t_, (at), sizeof(t_)); \
		to = 0;                        \
		COPY(to, t_);                  \
	}
#define STORE(type, from, at)                  \
	{                                      \
		type t_;                       \
		__typeof__(from) f_ = (from);  \
		COPY(t_, f_);                  \
		memcpy((at), &t_, sizeof(t_)); \
	}

uint32_t tid(void);
uint32_t ctaid(void);
size_t *bytes_of_arguments(void); /* where a kernel says how many it takes */
void barrier(int line);
uint32_t shuffle(uint32_t x, uint32_t down, int line);
uint32_t atomic_add(void *at, uint32_t n);
float of_half(uint16_t h);
uint16_t to_half(float x);

static inline float of_bits32(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static inline double of_bits64(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

void plimsoll_gradients(char *args);
void plimsoll_gradients_clip(char *args);

#endif
