/* What must hold whatever the input is. */
#ifndef FUZZ_MUST_H
#define FUZZ_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define must(what)                                                                         \
	do {                                                                               \
		if (!(what)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                           \
		}                                                                          \
	} while (0)

#endif
