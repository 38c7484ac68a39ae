/*
 * What must hold whatever the input is.  CHECK(condition) stops the program where it does not, in tests,
 * fuzzers and DEV builds (-DPLIM_CHECKS); elsewhere it is not evaluated.  It is for our own mistakes: what
 * a file or a caller can cause is an error with a status.
 *
 * A structure's invariants are one function, NAME_check(): NULL, or what is broken, in words.  CHECKED(f)
 * stops the program with them.
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <stddef.h>
#include <stdint.h>

_Noreturn void check_failed(const char *what, const char *file, int line);

#ifdef PLIM_CHECKS
#define CHECK(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))
#define CHECKED(call)                                              \
	do {                                                       \
		const char *broken_ = (call);                      \
                                                                   \
		if (broken_)                                       \
			check_failed(broken_, __FILE__, __LINE__); \
	} while (0)
#else
#define CHECK(condition) ((void)sizeof(!(condition)))
#define CHECKED(call) ((void)sizeof(!(call)))
#endif

/*
 * Is it time for a check that costs as much as the structure is large?  After each of the first 64 steps,
 * then after every power of two: a long run costs a few of them.
 */
static inline int check_is_due(uint64_t step)
{
	return step < 64 || !(step & (step - 1));
}

#endif
