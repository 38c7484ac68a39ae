#include "check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void check_failed(const char *what, const char *file, int line)
{
	fprintf(stderr,
		"plimsoll: %s:%d: broken: %s\nThis is a mistake of Plimsoll: please report it.\n",
		file, line, what);
	abort();
}
