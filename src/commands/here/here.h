/* What the parts of the here command share. */
#ifndef API_HERE_H
#define API_HERE_H

#include "base/base.h"
#include "host/host.h"

#include <plimsoll/here.h>

struct plim_here_hidden {
	struct mem mem;
	struct host host; /* owns what was seen */
};

#endif
