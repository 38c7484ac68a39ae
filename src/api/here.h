/* What the parts of the here verb share. */
#ifndef API_HERE_H
#define API_HERE_H

#include "host/host.h"

#include <plimsoll/here.h>

struct plim_here_hidden {
	struct mem mem;
	struct host host; /* owns what was seen */
	VEC(struct plim_here_bound) bounds;
};

extern const struct field_table here_table;

#endif
